"""Curves of the low-rank figures, and checks of what a text says about a curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leastnoise.papers.reproductions.low_rank.low_rank_tasks import SHRINK
from leastnoise.papers.reproductions.rows import Row, where
from leastnoise.papers.reproductions.verdicts import Cause, Check, statement, statement_about

OTHERS = ("LM", "WM", "HM")


# "Linear": of all whole powers the first is the nearest to the slope on two logarithmic axes.
LINEAR = (0.5, 1.5)


Curves = dict[str, dict[float, float]]


def curves(rows: Sequence[Row], shrink: int, x: str) -> Curves:
    """The error of every mechanism at every x, of the rows of one scale."""
    found: Curves = {}
    for row in where(rows, shrink=shrink):
        error, at = row.get("error"), row.get(x)
        if isinstance(error, float) and isinstance(at, (int, float)):
            found.setdefault(str(row["method"]), {})[float(at)] = error
    return found


def scale(rows: Sequence[Row]) -> int:
    """By how much the sizes at which LRM came to its end are smaller than the paper's; one is no curve."""
    own = [row for row in where(rows, method="LRM", shrink=1) if "error" in row]
    return 1 if len(own) > 1 else SHRINK


def scale_at(rows: Sequence[Row], x: str, places: Sequence[float]) -> int:
    """1 if LRM came to its end at all these places of the paper's own size, else that of the smaller ones."""
    ended = curves(rows, 1, x).get("LRM", {})
    return 1 if all(place in ended for place in places) else SHRINK


def shared(found: Curves, *names: str) -> list[float]:
    """Every x at which all of these were run, in order."""
    if not all(name in found for name in names):
        return []
    return sorted(set.intersection(*(set(found[name]) for name in names)))


def everywhere(
    claim: str,
    says: str,
    ratios: dict[float, float],
    least: float,
    why: str = "",
    cause: Cause | None = None,
) -> Check:
    """A claim that a ratio is at least as large as `least` at every place where it is known."""

    def ours(ratios: dict[float, float]) -> str:
        low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        n_held = sum(value >= least for value in ratios.values())
        return (
            f"{n_held} of {len(ratios)} sizes; {ratios[low]:.3g} times at {low:g} to "
            f"{ratios[high]:.3g} times at {high:g}"
        )

    return statement_about(
        ratios,
        claim,
        lambda ratios: min(ratios.values()) >= least,
        ours,
        printed=says,
        why=why,
        cause=cause,
    )


def over(found: Curves, above: Sequence[str], below: str) -> dict[float, float]:
    """The least of some errors over that of another mechanism."""
    return {x: min(found[name][x] for name in above) / found[below][x] for x in shared(found, *above, below)}


def between(ratios: dict[float, float], lowest: float, highest: float = math.inf) -> dict[float, float]:
    """The ratios at places from `lowest` to `highest`."""
    return {x: value for x, value in ratios.items() if lowest <= x <= highest}


def places_to_text(places: Sequence[float]) -> str:
    """Places, or ratios, in one line."""
    return ", ".join(f"{x:,g}" if x == int(x) else f"{x:.3g}" for x in places)


def beaten(found: Curves, names: Sequence[str] = OTHERS) -> str:
    """Who has less error than LRM, and where."""
    less = {
        name: [x for x in shared(found, name, "LRM") if found[name][x] < found["LRM"][x]] for name in names
    }
    return "; ".join(f"{name} has less than LRM at {places_to_text(at)}" for name, at in less.items() if at)


def slope(curve: dict[float, float]) -> float:
    """The slope of a curve on two logarithmic axes."""
    x = sorted(curve)
    return float(np.polyfit(np.log(x), np.log([curve[at] for at in x]), 1)[0])


def linear(
    found: Curves, names: Sequence[str], claim: str, says: str, why: str = "", cause: Cause | None = None
) -> Check:
    """A claim that curves are linear: of all whole powers the first is the nearest to each slope."""
    return statement_about(
        {name: slope(found[name]) for name in names if len(found.get(name, {})) > 2},
        claim,
        lambda slopes: all(LINEAR[0] <= slope <= LINEAR[1] for slope in slopes.values()),
        lambda slopes: (
            "slope on logarithmic axes: " + ", ".join(f"{name} {slope:.2f}" for name, slope in slopes.items())
        ),
        printed=says,
        why=why,
        cause=cause,
    )


def growth_between(curve: dict[float, float], low: float, high: float) -> float | None:
    """By what factor a curve grows from one place to another; None where it lacks one of them."""
    return curve[high] / curve[low] if low in curve and high in curve else None


def grown(
    claim: str, says: str, growth: float | None, *, holds: bool, why: str = "", cause: Cause | None = None
) -> Check:
    """A claim about the growth of a curve; not run where that is not known."""
    if growth is None:
        return statement(claim, None, printed=says)
    return statement(claim, holds, f"{growth:.3g} times", printed=says, why=why, cause=cause)
