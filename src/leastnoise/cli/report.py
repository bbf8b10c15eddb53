"""The report as a page, from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leastnoise.cli.terminal import say, spinner
from leastnoise.errors import InputError
from leastnoise.wholefile import check_folder, check_replaceable

if TYPE_CHECKING:
    from leastnoise.plan import Plan
    from leastnoise.release import Release


def report(
    source: Annotated[Path, typer.Argument(help="a saved release, or a saved plan")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="where to write the page; NAME.html unless given")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace a page of that name")] = False,
) -> None:
    """Write what was released, how accurate it is and what it cost as one HTML page. Needs no data."""
    from leastnoise.report import summarize

    if not source.name:
        raise InputError(f"{str(source)!r} is no file; name a release, as in: leastnoise report x.release")
    target = out or source.with_suffix(".html")
    subject = _loaded(source)
    _check(target, force)
    with spinner("writing the page"):
        summarize(subject).to_html(target)
    say(f"wrote {target}")


def _loaded(source: Path) -> Plan | Release:
    """The release or the plan that a file holds."""
    from leastnoise.errors import PlanFileError
    from leastnoise.plan import load_plan
    from leastnoise.release import load_release

    if source.suffix.lower() in _OTHER_FILES:
        raise InputError(_wrong_file(source))
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


def _wrong_file(source: Path) -> str:
    """What to say of a file that is neither a release nor a plan, and which one was probably meant."""
    is_a = f"{str(source)!r} is {_OTHER_FILES[source.suffix.lower()]}, not a saved release or plan"
    for near in (source.with_suffix(".release"), source.with_suffix(".plan")):
        if near.is_file():
            return f"{is_a}; the one beside it is meant: leastnoise report {near}"
    if source.suffix.lower() == ".toml":
        return f"{is_a}; `leastnoise design {source}` saves a plan, `leastnoise publish {source}` a release"
    return f"{is_a}; `leastnoise publish` writes NAME-answers.release beside the answers: name that one"


def _check(target: Path, force: bool) -> None:
    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a report is written as HTML: --out must end in .html, got {str(target)!r}")
    check_folder(target)
    check_replaceable(target)
    if target.exists() and not force:
        raise InputError(f"{str(target)!r} exists; give another --out, or --force to replace it")
