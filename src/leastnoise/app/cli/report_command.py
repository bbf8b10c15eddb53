"""The report as a page, from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leastnoise.app.cli.saved import saved_release_or_plan
from leastnoise.app.cli.terminal import say, spinner
from leastnoise.core.errors import InputError
from leastnoise.core.whole_file import check_folder, check_replaceable


def report(
    source: Annotated[Path, typer.Argument(help="a saved release, or a saved plan")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="where to write the page; NAME.html unless given")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace a page of that name")] = False,
) -> None:
    """Write what was released, how accurate it is and what it cost as one HTML page. Needs no data."""
    from leastnoise.report.summary import summarize

    subject = saved_release_or_plan(source)
    target = out or source.with_suffix(".html")
    _check(target, force)
    with spinner("writing the page"):
        summarize(subject).to_html(target)
    say(f"wrote {target}")


def _check(target: Path, force: bool) -> None:
    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a report is written as HTML: --out must end in .html, got {str(target)!r}")
    check_folder(target)
    check_replaceable(target)
    if target.exists() and not force:
        raise InputError(f"{str(target)!r} exists; give another --out, or --force to replace it")
