"""What the algorithms for "fitness for use" share: the problem, where to start, and a bound.

Queries W = L B, noise of covariance Σ on B x, caps c on the variances:

    minimise α = max_i u_i,  u_i = b_iᵀ Σ⁻¹ b_i     subject to  h_j = l_j Σ l_jᵀ / c_j ≤ 1       (Problem 1)

Any Σ becomes feasible when divided by max h, at the cost α = max u · max h.

Reference:
    Xiao, Ding, Wang, Zhang and Kifer (2021), Optimizing Fitness-For-Use of Differentially Private
    Linear Queries, sections 3, 6.3 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leastnoise.core.deadline import Deadline
from leastnoise.core.decompositions import pseudo_inverse, singular_values
from leastnoise.core.errors import DesignError
from leastnoise.core.numerical_rank import is_within_reach, numerical_rank, of_unit_length, strongest_rows
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.planning import on_basis

# How far below its caps the first covariance lies, section 6.3.
_INSIDE = 0.99

BASES = ("cells", "prefixes", "queries")


@dataclass(frozen=True)
class Step:
    """Where the search stood after one step.

    Attributes:
        cost: α = max u · max h, the squared privacy cost once Σ is scaled to meet every cap.
        feasibility: max h before that scaling; at most 1 where Σ meets every cap as it is.
        sharpness: t, of the soft maxima or of the barrier.
    """

    step: int
    seconds: float
    cost: float
    feasibility: float
    sharpness: float


class StepRecord:
    """The steps of a search so far, and whether one of its limits ends it.

    Args:
        max_steps: steps at which it ends.
        time_limit: seconds after which it ends.
        progress: called with every step.
    """

    def __init__(
        self, max_steps: int, time_limit: float | None, progress: Callable[[Step], None] | None
    ) -> None:
        self.history: list[Step] = []
        self._max_steps, self._progress = max_steps, progress
        self._deadline = Deadline.after(time_limit)

    def add(self, point: Iterate, sharpness: float) -> Ended | None:
        """One more step; how the limits end the search there, or None."""
        step = Step(len(self.history), self._deadline.elapsed, point.cost, float(point.h.max()), sharpness)
        self.history.append(step)
        if self._progress is not None:
            self._progress(step)
        if self._deadline.is_past:
            return "deadline"
        return "exhausted" if step.step >= self._max_steps else None


@dataclass(frozen=True, eq=False)
class SmiiResult:
    """The covariance found, scaled to meet every cap, and how it was reached.

    Attributes:
        covariance: Σ of the noise on B x, (k, k).
        balances: weights of queries (m,) and cells (n,) for which Σ is nearly the best noise, one
            pair for every t; each proves a lower bound, see `lower_bound`.
        has_converged: whether the paper's stopping rule was met.
        ended: how the search ended; it may converge without that rule, where rounding leaves no step.
    """

    covariance: Array
    balances: tuple[tuple[Array, Array], ...]
    history: tuple[Step, ...]
    has_converged: bool
    ended: Ended

    @property
    def cost(self) -> float:
        """α, the squared privacy cost."""
        return self.history[-1].cost


class Iterate:
    """Σ with its Cholesky factor, profile u and used shares h; K stands for diag(c)^−½ L."""

    def __init__(self, Sigma: Array, K: Array, B: Array) -> None:
        from scipy import linalg

        self.Sigma, self.K = Sigma, K
        factor = linalg.cholesky(Sigma, lower=True, check_finite=False)
        self.inverse = linalg.cho_solve((factor, True), np.eye(len(Sigma)), check_finite=False)
        self.y = self.inverse @ B
        self.u = np.einsum("ai,ai->i", B, self.y)
        self.h = np.einsum("ja,ja->j", K @ Sigma, K)

    @property
    def cost(self) -> float:
        """α of this Σ once it meets every cap."""
        return float(self.u.max() * self.h.max())


def starting_covariance(L: Array, B: Array, c: Array, Q: Array | None = None) -> Array:
    """σ² B Q⁺ (B Q⁺)ᵀ, the noise on B x of independent noise on Q x, scaled to 0.99 of the caps.

    Reference:
        Section 6.3, which leaves out B and whose σ² compares c with another diagonal: both are put
        right. The paper's own start, σ² I, is then that of Q = B, and the default.

    Raises:
        DesignError: if the rows of Q do not span those of B.
    """
    if Q is None:
        Sigma = np.eye(len(B))
    else:
        inverse = pseudo_inverse(Q)
        if not is_within_reach(B @ inverse @ Q - B, B).all():
            raise DesignError(
                "the rows of start do not span the queries",
                field="start",
                remedy="add rows, or leave start out",
            )
        Sigma = (B @ inverse) @ (B @ inverse).T
    shares = np.einsum("ja,ja->j", L @ Sigma, L) / c
    return Sigma * (_INSIDE / float(shares.max()))


def lower_bound(L: Array, B: Array, c: Array, p: Array, q: Array) -> float:
    """‖diag(√p) L B diag(√q)‖_*² / (Σ p c · Σ q): no Σ that meets every cap has a smaller α."""
    from scipy import linalg

    R = linalg.qr(np.sqrt(p)[:, None] * L, mode="r", check_finite=False)[0][: L.shape[1]]
    strengths = singular_values(R @ (B * np.sqrt(q)))
    return float(strengths.sum()) ** 2 / float((p @ c) * q.sum())


def representation(W: Array, basis: str = "auto") -> tuple[Array, Array]:
    """L and B with W = L B, for one of BASES; "auto" is cells or prefixes, wherever L is better posed.

    Cells that no query tells apart are taken together first, and cells of no query left out. Where queries
    miss directions, "cells" and "prefixes" have more rows than W has rank, which Definition 3 does not
    foresee and section 7 does: the noise in the other directions is then free.

    Reference:
        Section 7: B is the identity, or for ordered cells a triangle of ones. Its U is 1 above the
        diagonal, as are its prefix sums; here both are 1 below. Section 3.1: or independent queries.
    """
    if basis == "auto":
        rank = numerical_rank(W)
        pairs = [representation(W, name) for name in BASES[:2]]
        return min(pairs, key=lambda pair: _condition(pair[0], rank))
    if basis == "queries":
        return _independent_queries(W)
    distinct, groups = _distinct_cells(W)
    if basis == "cells":
        return distinct, groups
    # The triangle's inverse takes from each column the one after.
    return -np.diff(distinct, axis=1, append=0), np.cumsum(groups, axis=0)


def _condition(L: Array, rank: int) -> float:
    """The strongest direction of L over its weakest, but for those that it misses."""
    values = singular_values(L)
    return float(values[0] / values[rank - 1]) if values[rank - 1] > 0 else math.inf


def _independent_queries(W: Array) -> tuple[Array, Array]:
    B = W[strongest_rows(of_unit_length(W))]
    return on_basis(W, B), B


def _distinct_cells(W: Array) -> tuple[Array, Array]:
    """The different columns of W but zero, in order, and which cells have each; W is their product."""
    n = W.shape[1]
    _, first, kind = np.unique(W, axis=1, return_index=True, return_inverse=True)
    groups = np.zeros((len(first), n))
    groups[kind.reshape(-1), np.arange(n)] = 1
    order = np.argsort(first)
    order = order[W[:, first[order]].any(axis=0)]
    return W[:, first[order]], groups[order]
