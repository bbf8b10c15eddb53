"""The least total variance within caps, row by row: axes and weights of single queries in turns.

With c the caps and w the weights of queries, the Lagrangian for fixed p ≥ 0 is a total variance,

    L(p) = min Σ_j (w_j + p_j) v_j − Σ_j p_j c_j                                                          (1)

which one sweep over the axes brings nearer to its minimum. L is concave, and rises where p grows on queries
above their caps and falls on those below: p_j ← p_j (v_j/c_j)². Every few rounds the budget is shared
anew for the axes there are, within the caps, and the best split that keeps them is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.planning.oblique.largest_variance import Alternated, RowRounds
from leastnoise.planning.oblique.row_variances import row_tables
from leastnoise.planning.oblique.splitting import Split
from leastnoise.solver import Optimum

# Rounds from one sharing of the budget to the next.
_ROUNDS_PER_SHARING = 6

# Rounds, at most.
_MAX_ROUNDS = 90

# Sharings without progress after which rounds end.
_PATIENCE = 2

# The power of the ratios by which weights are multiplied: with 1, infeasibility halves in six rounds, with 2
# it falls to a quarter.
_BOLDNESS = 2.0

# Rounds approach the caps from above. Once they are exceeded by less than this share of the room that the
# least largest variance leaves, rounds aim below the caps by as much.
_NEARLY_KEPT = 0.2

# Progress: the total falls by this share of it.
_PROGRESS = 3e-4

# What the first weights of all caps add up to, Σ p c, beside the total variance. Rounds that begin with more
# than the best weights keep the caps all along; those that begin with less leave them first.
_FIRST_SCALE = 5.0

# The share of the first weights that all caps have alike: none is left without.
_REVIVED = 1e-3

# The shares of the budget of least total: of A (rows, blocks), weights and caps of the rows.
Sharing = Callable[[Any, Array, Array], Optimum]


@dataclass(frozen=True, eq=False)
class RowsWithin:
    """A split of small total within caps, and the weights of the caps for which its axes were chosen.

    Attributes:
        split: with the shares of the budget.
        solution: how these were found; its p is that of other rows.
        p: weights of the caps of single queries, (rows,), those that `Alternated` tells apart.
        ended: how the rounds ended.
    """

    split: Split
    solution: Optimum
    p: Array
    ended: Ended


def lower_total(
    start: Alternated, weights: Array, caps: Array, sharing: Sharing, *, deadline: Deadline = NEVER
) -> RowsWithin | None:
    """The least total within caps that rounds from the axes of least largest variance come to.

    Args:
        start: with the caps given here, finite ones in place of infinite ones.
        weights: w of the queries of every product, (products,), not all zero.
        caps: c of the queries of every product, infinite where there is none.
        deadline: when no further round is begun; the budget is shared once at least.

    Returns:
        None where no round found a split that keeps the caps.
    """
    state, terms = start.rounds, start.terms
    state.search.deadline = deadline
    rows = _Rows(state, terms, weights, caps)
    p = rows.scaled(np.where(rows.capped, state.weights, 0.0))
    best: RowsWithin | None = None
    idle, below = 0, 0.0
    for done in range(_MAX_ROUNDS + 1):
        is_last = deadline.is_past
        if done % _ROUNDS_PER_SHARING == 0 or is_last:
            solution = rows.share(sharing)
            before = math.inf if best is None else best.solution.achieved
            reached = solution.achieved if solution.is_feasible else math.inf
            idle = 0 if reached < before * (1 - _PROGRESS) or not solution.is_feasible else idle + 1
            if solution.is_feasible:
                below /= 2
            elif solution.achieved - 1 < _NEARLY_KEPT * (1 - start.largest):
                below = max(below, solution.achieved - 1)
            if reached < before:
                split = replace(state.to_split(), x=solution.x)
                best = RowsWithin(split, solution, p / rows.caps, "exhausted")
            if is_last or idle > _PATIENCE:
                ended: Ended = "deadline" if is_last else "converged"
                return None if best is None else replace(best, p=p / rows.caps, ended=ended)
        state.sums.reweigh(rows.base + p)
        state.search.run(until=0.0, max_sweeps=1)
        p = p * (rows.ratios() / (1 - below)) ** _BOLDNESS
    return None if best is None else replace(best, p=p / rows.caps)


class _Rows:
    """The queries that are told apart, with variances beside their caps.

    Attributes:
        caps: of every row, (rows,), finite ones in place of infinite ones.
        capped: whether it has one.
        base: what the variance of each, beside its cap, adds to the total.
    """

    def __init__(self, state: RowRounds, terms: Array, weights: Array, caps: Array) -> None:
        self._state = state
        split = state.to_split()
        alike = _queries_alike(split)
        # Numbers of rows are divided by caps, finite ones throughout.
        self.caps = state.caps[terms]
        self.capped = np.isfinite(caps)[terms]
        self.base = (weights * state.caps * alike)[terms]

    def scaled(self, p: Array) -> Array:
        """Weights of caps about in proportion to these, that add up to a multiple of the total."""
        x = self._state.sums.x
        used = np.flatnonzero(x > 0)
        total = float(self.base @ (self._state.sums.matrix()[:, used] @ (1 / x[used])))
        p = p + _REVIVED * self.capped * float(p.sum()) / float(self.capped.sum())
        return np.asarray(p * (_FIRST_SCALE * total / float(p.sum())))

    def share(self, sharing: Sharing) -> Optimum:
        """The best shares of the budget for the axes as they are."""
        from scipy import sparse

        A = self._state.sums.matrix()
        kept = np.flatnonzero(self.capped & (np.asarray(A.sum(axis=1)).reshape(-1) > 0))
        total = sparse.csr_array((A.T @ self.base)[None, :])
        stacked = sparse.vstack([total, A[kept]], format="csr")
        w, c = np.zeros(1 + len(kept)), np.ones(1 + len(kept))
        w[0], c[0] = 1.0, math.inf
        return sharing(stacked, w, c)

    def ratios(self) -> Array:
        """Variances beside caps, at the shares that are best for the present weights."""
        x = self._state.sums.x
        used = np.flatnonzero(x > 0)
        return np.asarray(self._state.sums.matrix()[:, used] @ (1 / x[used]))


def _queries_alike(split: Split) -> Array:
    """For every product, how many queries one row that is told apart stands for, in units of its variance."""
    whole = row_tables(split).whole
    found = np.ones(len(split.products.terms))
    for j, term in enumerate(split.products.terms):
        for axis, kind in zip(term.places, term.kinds, strict=True):
            own = whole[axis]
            if own is not None:
                found[j] *= float(own.sum() / own.max())
            elif split.axes[axis].form == "centred":
                found[j] *= split.products.kinds[axis][kind].n_rows
    return found
