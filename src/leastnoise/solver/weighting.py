"""The best weights for a fixed list of design queries, with a proof within the list.

Measuring λ_i q_i for linearly independent design queries q_1 … q_k gives the workload W
the total variance Σ c_i/λ_i² per unit of noise, c_i the squared norm of column i of W Q⁺.
Sensitivity is linear in x = λ² (Gaussian noise, loads Q_ij²) or x = λ (Laplace, |Q_ij|):

    minimise  Σ_i c_i / x_i^p   subject to   P x ≤ 1,      p = 1 (Gaussian) or 2 (Laplace)     (1)

with P ≥ 0 one row per cell. For any weights y ≥ 0 of the cells, Hölder's inequality gives

    Σ_i c_i / x_i^p  ≥  ( Σ_i c_i^{1/(p+1)} z_i^{p/(p+1)} )^{p+1} / ( Σ_j y_j )^p,   z = Pᵀ y    (2)

for every feasible x, with equality at the optimum. This is the problem of the least largest ratio of
`split_path`, with costs: the precisions there are 1/x, the caps those of the cells.

Reference:
    Li and Miklau (2012), adaptive mechanism, Program 1 and Theorem 1 (p = 1), and
    section 3.5 (p = 2, which it leaves unwritten).
"""

from __future__ import annotations

import numpy as np

from leastnoise.core.deadline import Listener, Watch
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.solver.optimum import Optimum
from leastnoise.solver.path_following import follow_path
from leastnoise.solver.split_path import PATIENCE, CapRatios, LeastCost

# Rounds in which weights are raised into what is free at the end.
_RAISES = 3

# Cells whose loads agree to this share of the largest are one constraint.
_SAME = 2.0**-40


def optimal_weighting(
    costs: Array,
    loads: Array,
    *,
    power: int = 1,
    tol: float = 1e-9,
    time_limit: float | None = None,
    progress: Listener | None = None,
) -> Optimum:
    """The weights x of least Σ c_i/x_i^p with P x ≤ 1, certified by (2) with y for q.

    Args:
        costs: c, (k,), zero or more; where it is zero, x is.
        loads: P, (n, k), zero or more.
        power: p, 1 or 2.
        tol: the relative gap at which to stop.
        time_limit: seconds after which the best so far is returned.

    Raises:
        DesignError: if the numbers are not finite, or a design query that is needed touches no cell.
    """
    if power not in (1, 2):
        raise ValueError(f"power must be 1 (Gaussian) or 2 (Laplace), got {power!r}")
    if not (np.isfinite(costs).all() and np.isfinite(loads).all()):
        raise DesignError(
            "the costs of the design queries are not finite",
            field="costs",
            remedy="rescale the workload's rows",
        )
    watch = Watch.starting(time_limit, progress)
    x, y = np.zeros(len(costs)), np.zeros(len(loads))
    used = costs > 0
    if not used.any():
        return Optimum([x], y, 0.0, 0.0, True, 0, watch.seconds, "converged")
    costs, loads = costs[used], loads[:, used]
    # Neither the gap nor the shape of the answer depends on units: x_i is taken in that of its
    # largest load, the total so that equal weights of all cells prove a bound of 1.
    size = loads.max(axis=0)
    if not (size > 0).all():
        raise DesignError("a design query that is needed touches no cell", field="costs")
    P, first = _distinct_rows(loads / size)
    c = costs * size**power
    equal = np.ones(len(first))
    ratios = CapRatios(P, equal)
    unit = LeastCost(ratios, c / c.max(), power).evaluate(equal).lower_bound * c.max()
    problem = LeastCost(ratios, c / unit, power)
    path = follow_path(problem, problem.scaled(equal), tol=tol, watch=watch, patience=PATIENCE)
    x[used] = best = _raised(1 / (path.best.x * size), loads)
    y[first] = path.proof.z
    achieved, bound = float((costs / best**power).sum()), path.lower_bound * unit
    has_converged = achieved <= (1 + tol) * bound
    return Optimum([np.sqrt(x)], y, achieved, bound, has_converged, path.steps, watch.seconds, path.ended)


def _raised(x: Array, loads: Array) -> Array:
    """Weights in proportion to x with P x ≤ 1, each raised by as much as the fullest of its cells allows.

    A query whose cost is a rounding beside the total would otherwise be left with whatever
    weight the search passed by; with x_i ← x_i / max_{j touched by i} (P x)_j it gets what is free.
    """
    x = x / float((loads @ x).max())
    for _ in range(_RAISES):
        fullest = np.where(loads > 0, (loads @ x)[:, None], 0.0).max(axis=0)
        x = x / fullest
    return x / float((loads @ x).max())


def _distinct_rows(P: Array) -> tuple[Array, Array]:
    """One row of each kind, as a sparse matrix, and where it stands."""
    from scipy import sparse

    coarse = np.rint(P / (_SAME * P.max()))
    _, first = np.unique(coarse, axis=0, return_index=True)
    first = np.sort(first)
    return sparse.csr_array(P[first]), first
