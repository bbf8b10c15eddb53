"""The demo, and the tables and figures of the papers, whose methods are imported where they are used."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.app.cli.facts import plan_facts
from leastnoise.app.cli.invocation import Facts
from leastnoise.app.cli.terminal import console, designing, note, say
from leastnoise.app.demo import DEMO_FILES, run_demo


def demo(
    out: Annotated[Path, typer.Option(help="the folder to write to")] = Path("leastnoise-demo"),
    people: Annotated[int, typer.Option(min=1, max=10**7, help="the number of people to invent")] = 200_000,
    epsilon: Annotated[float, typer.Option(help="the privacy budget")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="seed for the invented people; the noise has none")] = 2026,
) -> Facts:
    """Try it out: invent a town, publish its statistics privately, and show the cost."""
    release = run_demo(out, n_people=people, epsilon=epsilon, seed=seed, designing=designing)
    return {"folder": out, "files": list(DEMO_FILES), "plan": plan_facts(release.plan)}


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="a table or figure such as fitness-for-use/table-5, a paper, or all; lists them if empty"
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="small sizes; takes minutes")] = False,
    out: Annotated[Path, typer.Option(help="the folder to write to")] = Path("reproductions"),
    data: Annotated[
        Path | None, typer.Option(help="a folder with adult.data; synthetic data without it")
    ] = None,
    backend: Annotated[str, typer.Option(help="use cuda for tasks above 4,096 cells")] = "numpy",
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes, one thread each")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="recompute results that exist")] = False,
    time_limit: Annotated[
        float,
        typer.Option(help="seconds per method and task; checks ignore a search that it cut off"),
    ] = 600.0,
    budget: Annotated[
        float | None, typer.Option(help="start no further task after this many seconds; the rest is listed")
    ] = None,
    docs: Annotated[Path | None, typer.Option(help="also write documentation pages to this folder")] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="only count the verdicts in --docs, or in --out; run nothing")
    ] = False,
) -> Facts:
    """Reproduce the papers' tables and figures, next to the printed numbers. Resumes where it stopped."""
    command = import_module("leastnoise.papers.reproductions.command")
    reproduction = import_module("leastnoise.papers.reproductions.reproduction")

    if summary:
        say(command.summarise(docs or out))
        return {"folder": docs or out, "verdicts": {}}
    if not names:
        say(command.listing())
        return {"folder": None, "verdicts": {}}
    screen = console(stderr=True)
    with screen.status("reproducing") as status:

        def tell(progress: Any) -> None:
            if screen.is_terminal:
                status.update(command.progress_to_text(progress))
            else:
                note(command.progress_to_text(progress))

        outcomes = command.reproduce(
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
    return {"folder": out, "verdicts": {one.reproduction.name: one.verdict for one in outcomes}}
