"""The audit of a plan from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leastnoise.app.cli.terminal import say, spinner


def audit(
    plan: Annotated[Path, typer.Argument(help="a plan that `leastnoise design` saved")],
    draws: Annotated[
        int | None, typer.Option(min=1, help="releases of each of two made-up tables; enough unless given")
    ] = None,
) -> None:
    """Draw a plan's noise many times and check that it keeps what it says. Needs no data, spends nothing."""
    import leastnoise
    from leastnoise.planning import load_plan

    chosen = load_plan(plan)
    with spinner("auditing"):
        report = leastnoise.audit(chosen, draws=draws)
    say(report)
    if not report.keeps_its_word:
        raise typer.Exit(1)
