"""Problems with many caps, solved for a few of them at a time.

Few caps bind. So only some rows are solved for, and those whose caps the solution violates join until there
is none: weights of some rows, with none for the others, prove their bound for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, Progress
from leastnoise.solver.optimum import relative_gap
from leastnoise.solver.path_following import Enough, never

# Rounds, at most.
MAX_ROUNDS = 60

# The gap of a first round that leaves rows out.
_FIRST_ROUND = 1e-2

# Weights that vanished in one round start the next with this share of their mean.
_REVIVED = 0.1

Primal = TypeVar("Primal")
Dual = TypeVar("Dual")


@dataclass(frozen=True, eq=False)
class Round(Generic[Primal, Dual]):
    """What one round found, or the best of several.

    Attributes:
        primal: what keeps every cap and gives `achieved`.
        dual: the weights that prove `lower_bound`.
        ratios: every row's variance over its cap, (m,), before all caps were kept.
    """

    primal: Primal
    dual: Dual
    achieved: float
    lower_bound: float
    ratios: Array
    steps: int
    ended: Ended

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return relative_gap(self.achieved, self.lower_bound)


class RowProblem(Protocol[Primal, Dual]):
    """A problem with a cap on each of many rows."""

    @property
    def n_rows(self) -> int:
        """How many rows have a cap."""

    def first_rows(self, start: Dual) -> Array:
        """The rows of the first round, in order."""

    def solve(
        self, chosen: Array, start: Dual, *, tol: float, watch: Watch, enough: Enough
    ) -> Round[Primal, Dual]:
        """The optimum with the caps of the chosen rows, made to keep all of them."""

    def next_rows(self, chosen: Array, found: Round[Primal, Dual]) -> Array:
        """The rows of the next round, in order."""


def search_active_set(
    problem: RowProblem[Primal, Dual],
    start: Dual,
    *,
    tol: float,
    watch: Watch,
    n_restarts: int = 0,
    enough: Enough = never,
) -> Round[Primal, Dual]:
    """The optimum for all rows.

    Args:
        start: weights to begin with.
        tol: the relative gap at which to stop.
        n_restarts: how often a round of all rows that stalled begins again from where it ended.
        enough: whether (achieved, lower_bound) already answers the question asked.
    """
    m, dual = problem.n_rows, start
    chosen = problem.first_rows(start)
    best: Round[Primal, Dual] | None = None
    aim = tol if len(chosen) == m else max(_FIRST_ROUND, tol)
    for _ in range(MAX_ROUNDS):
        is_whole = len(chosen) == m
        own = watch if is_whole else _of_round(watch, best)
        found = problem.solve(chosen, dual, tol=aim, watch=own, enough=enough if is_whole else never)
        watch.steps += found.steps
        best, dual = found if best is None else better_of(best, found), found.dual
        if best.gap <= tol or enough(best.achieved, best.lower_bound):
            return replace(best, ended="converged")
        if watch.deadline.is_past:
            return replace(best, ended="deadline")
        if is_whole:
            if n_restarts == 0:
                return replace(best, ended=found.ended)
            n_restarts -= 1
            continue
        following = problem.next_rows(chosen, found)
        has_new = not np.isin(following, chosen).all()
        if not has_new and aim <= tol / 4:
            # Everything that is violated takes part, and the rest is rounding.
            return replace(best, ended=found.ended)
        chosen = following
        aim = tol if len(chosen) == m else max(tol / 4, 0.1 * best.gap) if has_new else tol / 4
    assert best is not None
    return replace(best, ended="exhausted")


def revived(weights: Array) -> Array:
    """Weights from which to begin again: none far below their mean."""
    return np.maximum(weights, _REVIVED * float(weights.mean()))


def _of_round(watch: Watch, best: Round[Primal, Dual] | None) -> Watch:
    """A watch that tells the gap for all rows rather than for some."""
    listener = watch.listener
    if listener is None:
        return Watch(watch.deadline)
    gap = float("inf") if best is None else best.gap

    def tell(progress: Progress) -> None:
        listener(replace(progress, gap=gap))

    return Watch(watch.deadline, tell, watch.steps)


def better_of(best: Round[Primal, Dual], found: Round[Primal, Dual]) -> Round[Primal, Dual]:
    """The best solution and the best proof of both."""
    merged = replace(found, steps=best.steps + found.steps)
    if best.achieved < found.achieved:
        merged = replace(merged, primal=best.primal, achieved=best.achieved)
    if best.lower_bound > found.lower_bound:
        merged = replace(merged, dual=best.dual, lower_bound=best.lower_bound)
    return merged
