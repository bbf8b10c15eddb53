"""Quantiles of a saved release, from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leastnoise.app.cli.outputs import Force, check_new, check_outputs
from leastnoise.app.cli.saved import ReleaseFile, saved_release
from leastnoise.app.cli.terminal import say


def quantiles(
    source: ReleaseFile,
    attribute: Annotated[str, typer.Argument(help="an attribute with an order: a range, or bins")],
    at: Annotated[
        list[float] | None, typer.Option(help="a share, as in --at 0.5; quartiles unless given")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="a further attribute: quantiles for each of its values")
    ] = None,
    level: Annotated[float, typer.Option(help="how surely each interval holds the true quantile")] = 0.95,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="where to write them too, as .csv, .parquet, .json or .xlsx"),
    ] = None,
    force: Force = False,
) -> None:
    """Read quantiles with intervals off a released distribution. Costs no privacy."""
    from leastnoise.report.answers import answers_writer, write_quantile_table

    if out is not None:
        check_outputs([out], [source])
        answers_writer(out)
        check_new(out, force=force)
    release = saved_release(source)
    shares = at or [0.25, 0.5, 0.75]
    table = release.quantiles(attribute, shares, level=level, by=by)
    say(table.to_string())
    say(f"\nEach true quantile is between lower and upper with probability {100 * level:.4g} % or more.")
    if out is not None:
        privacy = release.plan.privacy
        say(f"wrote {write_quantile_table(table, out, attribute, privacy, level=level, by=by)}")
