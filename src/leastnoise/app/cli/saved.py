"""Releases and plans that were saved, read for a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leastnoise.core.errors import InputError

if TYPE_CHECKING:
    from leastnoise.planning import Plan
    from leastnoise.release import Release

ReleaseFile = Annotated[
    Path, typer.Argument(help="a saved release: publish writes NAME-answers.release beside the answers")
]


def saved_release(source: Path) -> Release:
    """The release that a file holds."""
    from leastnoise.release.release_file import load_release

    _check_kind(source)
    return load_release(source)


def saved_release_or_plan(source: Path) -> Plan | Release:
    """The release or the plan that a file holds."""
    from leastnoise.core.errors import PlanFileError
    from leastnoise.planning import load_plan
    from leastnoise.release.release_file import load_release

    _check_kind(source)
    if source.suffix.lower() == ".plan":
        return load_plan(source)
    try:
        return load_release(source)
    except PlanFileError as error:
        try:
            return load_plan(source)
        except PlanFileError:
            # Neither: what was wrong with it as a release is the better answer.
            raise error from None


# Files that people have beside a release, and what they are.
_OTHER_FILES = {
    ".csv": "a table",
    ".tsv": "a table",
    ".parquet": "a table",
    ".json": "a table",
    ".xlsx": "a table",
    ".html": "a page",
    ".htm": "a page",
    ".toml": "a specification",
}


def _check_kind(source: Path) -> None:
    """Refuse what is surely no release or plan, and name the one that was probably meant."""
    if not source.name:
        raise InputError(f"{str(source)!r} is no file; name a release, as in x.release")
    kind = _OTHER_FILES.get(source.suffix.lower())
    if kind is None:
        return
    is_a = f"{str(source)!r} is {kind}, not a saved release or plan"
    for near in (source.with_suffix(".release"), source.with_suffix(".plan")):
        if near.is_file():
            raise InputError(f"{is_a}; the one beside it is meant: {near}")
    if kind == "a specification":
        raise InputError(
            f"{is_a}; `leastnoise design {source}` saves a plan, `leastnoise publish {source}` a release"
        )
    raise InputError(
        f"{is_a}; `leastnoise publish` writes NAME-answers.release beside the answers: name that one"
    )
