"""The papers' tables and figures from a shell."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.app.cli.terminal import console, say


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="a table or figure such as fitness-for-use/table-5, a paper, or all; none lists"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="small sizes, in minutes")] = False,
    out: Annotated[Path, typer.Option(help="the folder for what it writes")] = Path("reproductions"),
    data: Annotated[
        Path | None, typer.Option(help="a folder that holds adult.data; a stand-in is used without")
    ] = None,
    backend: Annotated[str, typer.Option(help="cuda for tasks above 4,096 cells")] = "numpy",
    jobs: Annotated[int, typer.Option(min=1, help="processes side by side, one thread each")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="compute again what is already there")] = False,
    time_limit: Annotated[
        float,
        typer.Option(help="seconds for one method at one task; 2.5 times as long for the low-rank mechanism"),
    ] = 600.0,
    budget: Annotated[
        float | None, typer.Option(help="seconds after which no further task is begun; the rest is noted")
    ] = None,
    docs: Annotated[Path | None, typer.Option(help="also write pages of documentation here")] = None,
) -> None:
    """Make the papers' tables and figures again, printed numbers beside ours; resumes where it stopped."""
    command = import_module("leastnoise.papers.reproductions.command")
    reproduction = import_module("leastnoise.papers.reproductions.reproduction")

    if not names:
        say(command.listing())
        return
    screen = console(stderr=True)
    with screen.status("reproducing") as status:

        def tell(progress: Any) -> None:
            if screen.is_terminal:
                status.update(command.progress_to_text(progress))
            else:
                typer.echo(command.progress_to_text(progress), err=True)

        command.reproduce(
            names,
            reproduction.Setting("quick" if quick else "full", backend, data, time_limit),
            out=out,
            jobs=jobs,
            is_fresh=fresh,
            budget=math.inf if budget is None else budget,
            docs=docs,
            say=say,
            progress=tell,
        )
