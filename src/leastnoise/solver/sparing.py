"""The least total within caps, with a share of every cap to spare for what rounding to integers adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from leastnoise.solver.capped import Run
from leastnoise.solver.optimum import Optimum

# What is spared of the caps may raise the total by this share of the gap asked for.
_SPARED = 0.5

# The least total with a share of every cap to spare, and its price: by how many times its share a small share
# of all caps, spared, raises the total.
FindTotal = Callable[[float, Run], tuple[Optimum, float]]


def total_sparing_caps(find: FindTotal, run: Run, *, usual: float, least: float) -> tuple[Optimum, float]:
    """The least total with as large a share to spare as it allows, and that share beside the usual one.

    Where caps are tight, the usual share would cost more than the gap asked for, or leave no noise at all:
    less is spared then, and the grid of whole numbers must be as much finer.

    Args:
        usual: the share that is spared where caps are not tight.
        least: the least share to spare.
    """
    found, price = find(usual, run)
    wanted = _SPARED * run.tol / max(price, 1e-300)
    if not found.is_feasible:
        # Whether the caps themselves can be kept may be open still.
        wanted = 0.0 if found.lower_bound <= 1 + 2 * usual else usual
    if wanted >= usual or run.is_late:
        return found, 1.0
    share = max(wanted / 2, least)
    again, _ = find(share, replace(run, tol=run.tol / 4))
    if found.is_feasible and not again.is_feasible:
        return found, 1.0
    return again, share / usual
