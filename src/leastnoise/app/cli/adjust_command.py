"""Adjusting a saved release, from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leastnoise.app.cli.outputs import Force, outputs_of, save, say_where
from leastnoise.app.cli.saved import ReleaseFile, saved_release
from leastnoise.app.cli.terminal import say, spinner

if TYPE_CHECKING:
    from leastnoise.release import AdjustProgress, Release


def adjust(
    source: ReleaseFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="the answers, as .csv, .parquet, .json or .xlsx; NAME-adjusted.csv unless given",
        ),
    ] = None,
    integer: Annotated[bool, typer.Option("--integer", "--whole", help="whole numbers, too")] = False,
    keep_negative: Annotated[
        bool, typer.Option("--keep-negative", help="do not raise what is below zero")
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="seconds, after which the best so far is taken; by default 300, and only if it is good"
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Make the counts of a release non-negative, or whole, and add up. Costs no privacy."""
    release = saved_release(source)
    outputs = outputs_of(
        source,
        [source],
        out=out or source.with_name(f"{source.stem}-adjusted.csv"),
        force=force,
        n_answers=release.plan.workload.shape[0],
    )
    adjusted = _adjusted(release, integer, not keep_negative, time_limit)
    save(adjusted, outputs)
    if adjusted.adjusted is None:
        say("the answers agree already, and nothing was asked that would change them")
    else:
        say(adjusted.adjusted.statement())
    say_where(outputs)


def _adjusted(release: Release, integer: bool, nonnegative: bool, time_limit: float | None) -> Release:
    from leastnoise.release.adjusting import adjust as adjusted

    with spinner("adjusting") as update:

        def show(state: AdjustProgress) -> None:
            update(f"adjusting: step {state.step}, within {state.precision:.1g} standard errors of the best")

        return adjusted(release, nonnegative, integer, progress=show, time_limit=time_limit)
