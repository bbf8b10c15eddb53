"""The report as a page, from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leastnoise.cli.terminal import say
from leastnoise.wholefile import check_folder, check_replaceable

if TYPE_CHECKING:
    from leastnoise.plan import Plan
    from leastnoise.release import Release


def report(
    source: Annotated[Path, typer.Argument(help="a saved release, or a saved plan")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="where to write the page; NAME.html unless given")
    ] = None,
) -> None:
    """Write what was released, how accurate it is and what it cost as one HTML page. Needs no data."""
    from leastnoise.report import summarize

    target = out or source.with_suffix(".html")
    subject = _loaded(source)
    _check(target)
    summarize(subject).to_html(target)
    say(f"wrote {target}")


def _loaded(source: Path) -> Plan | Release:
    """The release or the plan that a file holds."""
    from leastnoise.errors import PlanFileError
    from leastnoise.plan import load_plan
    from leastnoise.release import load_release

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


def _check(target: Path) -> None:
    from leastnoise.errors import InputError

    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a report is written as HTML: --out must end in .html, got {str(target)!r}")
    check_folder(target)
    check_replaceable(target)
