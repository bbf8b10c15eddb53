"""Quantiles of a saved release, from a shell."""

from __future__ import annotations

from typing import Annotated

import typer

from leastnoise.cli.saved import ReleaseFile, saved_release
from leastnoise.cli.terminal import say


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
) -> None:
    """Read quantiles with intervals off a released distribution. Costs no privacy."""
    shares = at or [0.25, 0.5, 0.75]
    table = saved_release(source).quantiles(attribute, shares, level=level, by=by)
    say(table.to_string())
    say(f"\nEach true quantile is between lower and upper with probability {100 * level:.4g} % or more.")
