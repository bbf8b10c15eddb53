"""A barrier method for "fitness for use", the interior-point comparator of SM-II, for few directions.

Reference:
    Xiao, Ding, Wang, Zhang and Kifer (2021), Optimizing Fitness-For-Use of Differentially Private
    Linear Queries, section 7.1.1; after Boyd and Vandenberghe (2004), Convex Optimization, section 11.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.papers.fitness import Iterate, SmiiResult, Step, StepRecord, starting_covariance

# The Hessian is written out, (k(k + 1)/2)² numbers: 84 MB at this rank. The paper's own ended at 64.
MAX_INTERIOR_RANK = 80

# The squared Newton decrement at which centring ends.
_CENTRED = 1e-4

# Added to the diagonal of the Hessian, once that is scaled to 1.
_RIDGE = 1e-13

# The share of the predicted decrease that a step must bring, or it is halved,
_SUFFICIENT = 0.01

# at most this often.
_MAX_HALVINGS = 60


def interior_point(
    L: Array,
    B: Array,
    c: Array,
    *,
    start: Array | None = None,
    growth: float = 10.0,
    tol: float = 1e-6,
    max_steps: int = 1_000,
    time_limit: float | None = None,
    progress: Callable[[Step], None] | None = None,
) -> SmiiResult:
    """The covariance that a barrier method finds for Problem 1, for few directions.

    minimise  t α − Σ_i log(α − u_i) − Σ_j log(1 − h_j)  for rising t, by Newton's method with the
    whole Hessian over α and the k(k + 1)/2 entries of Σ. Where it is least, the optimum is
    within (n + m)/t.

    Args:
        tol: the (n + m)/(t α) at which to stop.

    Reference:
        Section 7.1.1, after Boyd and Vandenberghe (2004), Convex Optimization, section 11.3.

    Raises:
        MethodError: if there are more than MAX_INTERIOR_RANK directions.
    """
    _require_few_directions(len(B))
    n = B.shape[1]
    record = StepRecord(max_steps, time_limit, progress)
    K = L / np.sqrt(c)[:, None]
    first = Iterate(starting_covariance(L, B, c, start), K, B)
    barrier = _Barrier(first, 1.1 * float(first.u.max()))
    t = (n + len(c)) / barrier.alpha
    has_converged = False
    while True:
        point = barrier.point
        ended = record.add(point, t)
        if ended is not None:
            break
        try:
            found = barrier.nearer(t, B)
        except np.linalg.LinAlgError:  # the Hessian is definite: rounding has used up its digits
            break
        if found is not None:
            barrier = found
            continue
        has_converged = (n + len(c)) / t < tol * barrier.alpha
        if has_converged:
            break
        t *= growth
    balance = (1 / (1 - point.h) / c, 1 / (barrier.alpha - point.u))
    return SmiiResult(
        point.Sigma / float(point.h.max()),
        (balance,),
        tuple(record.history),
        has_converged,
        ended or "converged",
    )


def _require_few_directions(k: int) -> None:
    if k > MAX_INTERIOR_RANK:
        raise MethodError(
            f"the interior-point comparator holds at most {MAX_INTERIOR_RANK} directions, the queries "
            f"span {k}",
            field="optimiser",
            given="interior-point",
            remedy='use optimiser "newton-cg", or method "dense"',
        )


class _Barrier:
    """The barrier of Problem 1 at (α, Σ), inside all constraints."""

    def __init__(self, point: Iterate, alpha: float) -> None:
        self.point, self.alpha = point, alpha

    def value(self, t: float) -> float:
        slack = np.concatenate([self.alpha - self.point.u, 1 - self.point.h])
        if slack.min() <= 0:
            return math.inf
        return t * self.alpha - float(np.log(slack).sum())

    def newton_step(self, t: float) -> tuple[float, Array, float]:
        """The step of α, that of Σ, and the squared Newton decrement."""
        from scipy import linalg

        point, k = self.point, len(self.point.Sigma)
        a, b = np.triu_indices(k)
        # A symmetric matrix of entries x has inner product Σ twice·x·G with a symmetric G.
        twice = np.where(a == b, 1.0, 2.0)
        over_cells, over_queries = 1 / (self.alpha - point.u), 1 / (1 - point.h)
        J_cells = -point.y[a].T * point.y[b].T * twice
        J_queries = point.K[:, a] * point.K[:, b] * twice
        gradient = np.concatenate(
            [[t - over_cells.sum()], J_cells.T @ over_cells + J_queries.T @ over_queries]
        )
        X, Y = point.inverse, (point.y * over_cells) @ point.y.T
        # ∇²u_i maps D to y yᵀ D X + X D y yᵀ; written out on pairs of entries.
        H = np.zeros((len(a) + 1, len(a) + 1))
        curved = H[1:, 1:]
        for first, second in ((X, Y), (Y, X)):
            curved += first[np.ix_(a, a)] * second[np.ix_(b, b)]
            curved += first[np.ix_(a, b)] * second[np.ix_(b, a)]
        curved *= twice[:, None] * twice[None, :] / 2
        weighted = J_cells * over_cells[:, None] ** 2
        curved += weighted.T @ J_cells + (J_queries * over_queries[:, None] ** 2).T @ J_queries
        H[0, 0] = (over_cells**2).sum()
        H[0, 1:] = H[1:, 0] = -weighted.sum(axis=0)
        # Near the optimum, tight constraints outweigh the rest beyond what rounding leaves definite.
        scale = 1 / np.sqrt(np.diag(H))
        H *= scale[:, None] * scale[None, :]
        H[np.diag_indices_from(H)] += _RIDGE
        factor = linalg.cho_factor(H, check_finite=False)
        x = -scale * linalg.cho_solve(factor, scale * gradient, check_finite=False)
        s = np.zeros((k, k))
        s[a, b] = s[b, a] = x[1:]
        return float(x[0]), s, -float(gradient @ x)

    def nearer(self, t: float, B: Array) -> _Barrier | None:
        """A Newton step nearer to where the barrier is least, or None where that is as good as here.

        Raises:
            numpy.linalg.LinAlgError: if the Hessian is not definite.
        """
        rise, s, decrement = self.newton_step(t)
        return None if decrement < _CENTRED else self.moved(t, rise, s, decrement, B)

    def moved(self, t: float, rise: float, s: Array, decrement: float, B: Array) -> _Barrier | None:
        """The first point along the step that lies inside and is low enough, or None."""
        here, length = self.value(t), 1.0
        for _ in range(_MAX_HALVINGS):
            try:
                point = Iterate(self.point.Sigma + length * s, self.point.K, B)
                found = _Barrier(point, self.alpha + length * rise)
                value = found.value(t)
                if value < here and value <= here - length * _SUFFICIENT * decrement:
                    return found
            except np.linalg.LinAlgError:
                pass  # not definite: shorter
            length /= 2
        return None
