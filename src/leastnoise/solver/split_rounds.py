"""Splits under the caps of many more rows than there are blocks.

Hardly more rows bind than there are blocks. So only some are solved for, and those that the split found
violates join until there is none: weights of some rows, with none for the others, prove their bound for all.
100,000 rows of 200 blocks take a second in this way, and a quarter of a minute all at once.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Progress
from leastnoise.solver.path_following import Enough, never
from leastnoise.solver.split_path import CapRatios, SplitPath, SplitProblem, follow_split

# Up to this many rows, all of them are solved for at once.
ALL_AT_ONCE = 2_000

# The same, per block.
PER_BLOCK = 20

# Rows per block that begin, and that join in a round at most.
_JOINING = 2

# Weights that vanished in one search start the next with this share of their mean.
_REVIVED = 0.1

# The gap of the first round.
_FIRST_ROUND = 1e-2


def search(problem: SplitProblem, p: Array, *, tol: float, watch: Watch, enough: Enough = never) -> SplitPath:
    """From weights p to the optimum, as `follow_split` does.

    Args:
        p: weights of all rows, non-negative and at about the scale of the optimum.
    """
    m, n_blocks = problem.ratios.shape
    if m <= max(ALL_AT_ONCE, PER_BLOCK * n_blocks):
        return follow_split(problem, _revived(p), tol=tol, watch=watch, enough=enough)
    chosen = _first_rows(problem, p)
    best: SplitPath | None = None
    aim = max(_FIRST_ROUND, tol)
    while True:
        path = follow_split(
            problem.of_rows(chosen), _revived(p[chosen]), tol=aim, watch=_of_round(watch, best)
        )
        p = np.zeros(m)
        p[chosen] = path.p
        ratios = problem.ratios.apply(1 / path.x)
        x, achieved = problem.kept(1 / path.x, ratios)
        found = replace(path, x=x, p=p, achieved=achieved)
        best = found if best is None else _better(best, found)
        gap = best.gap
        if gap <= tol or enough(best.achieved, best.lower_bound):
            return replace(best, ended="converged")
        if best.ended == "deadline":
            return best
        joining = _violated(ratios, chosen, _JOINING * n_blocks)
        if not len(joining) and aim <= tol / 4:
            # Everything that is violated takes part, and the rest is rounding.
            return best
        chosen = np.union1d(chosen, joining)
        aim = max(tol / 4, 0.1 * gap) if len(joining) else tol / 4


def _of_round(watch: Watch, best: SplitPath | None) -> Watch:
    """A watch that counts on from the steps before, and tells the gap for all rows rather than for some."""
    steps, gap = (0, math.inf) if best is None else (best.steps, best.gap)
    listener = watch.listener

    def tell(progress: Progress) -> None:
        if listener is not None:
            listener(replace(progress, gap=gap))

    return Watch(watch.deadline, tell, watch.steps + steps)


def _better(best: SplitPath, found: SplitPath) -> SplitPath:
    """The best split and the best proof of both."""
    merged = replace(found, steps=best.steps + found.steps)
    if best.achieved < found.achieved:
        merged = replace(merged, x=best.x, achieved=best.achieved)
    if best.lower_bound > found.lower_bound:
        merged = replace(merged, p=best.p, lower_bound=best.lower_bound)
    return merged


def _first_rows(problem: SplitProblem, p: Array) -> Array:
    """Those served worst by the split for equal weights, some others, and one for every block."""
    m, n_blocks = problem.ratios.shape
    count = _JOINING * n_blocks
    ratios = problem.evaluate(_revived(p)).ratios
    worst = np.argpartition(-ratios, count)[:count]
    chosen = np.union1d(worst, np.arange(0, m, m // count))
    return np.union1d(chosen, _covering(problem.ratios, chosen))


def _covering(ratios: CapRatios, chosen: Array) -> Array:
    """A row for every block that no chosen row holds."""
    n_blocks = ratios.shape[1]
    held = np.bincount(ratios.A[chosen].indices, minlength=n_blocks) > 0
    asked = np.bincount(ratios.A.indices, minlength=n_blocks) > 0
    missing = ratios.A[:, np.flatnonzero(asked & ~held)].tocsc()
    return np.asarray(missing.indices[missing.indptr[:-1]])


def _violated(ratios: Array, chosen: Array, count: int) -> Array:
    """The rows above all chosen ones, at most so many."""
    worst = np.argpartition(-ratios, count)[:count]
    return np.asarray(worst[ratios[worst] > float(ratios[chosen].max())])


def _revived(p: Array) -> Array:
    """Weights from which to begin: none far below their mean."""
    return np.maximum(p, _REVIVED * float(p.mean()))
