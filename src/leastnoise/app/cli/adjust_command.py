"""Adjusting a saved release, from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leastnoise.app.cli.outputs import Force, outputs_of, save, say_where
from leastnoise.app.cli.saved import ReleaseFile, saved_release
from leastnoise.app.cli.terminal import say, spinner
from leastnoise.core.errors import TooLargeError

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
    try:
        adjusted = _adjusted(release, integer, not keep_negative, time_limit)
    except TooLargeError as error:
        raise TooLargeError(_for_a_shell(str(error), source)) from None
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


def _for_a_shell(message: str, source: Path) -> str:
    """A refusal whose advice can be followed by somebody who has a file, and no variable called release."""
    in_python = f"leastnoise.load_release({source.name!r}).to_mbi() in Python"
    told = message.replace("release.to_mbi()", in_python)
    return told.replace(", and look at release.adjusted.precision", ", which is said with how near it came")
