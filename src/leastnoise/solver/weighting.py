"""The best weights for a fixed list of design queries, with a proof within the list.

Measuring λ_i q_i for linearly independent design queries q_1 … q_k gives the workload W
the total variance Σ c_i/λ_i² per unit of noise, c_i the squared norm of column i of W Q⁺.
Sensitivity is linear in x = λ² (Gaussian noise, loads Q_ij²) or x = λ (Laplace, |Q_ij|):

    minimise  Σ_i c_i / x_i^p   subject to   P x ≤ 1,      p = 1 (Gaussian) or 2 (Laplace)     (1)

with P ≥ 0 one row per cell. For any weights y ≥ 0 of the cells, Hölder's inequality gives

    Σ_i c_i / x_i^p  ≥  ( Σ_i c_i^{1/(p+1)} z_i^{p/(p+1)} )^{p+1} / ( Σ_j y_j )^p,   z = Pᵀ y    (2)

for every feasible x, with equality at the optimum. Given y, the best x has the closed form

    x_i = (p c_i / z_i)^{1/(p+1)},     and the dual function Σ_i (c_i / x_i^p + z_i x_i) − Σ_j y_j     (3)

is concave in y with gradient P x − 1. So y alone is searched for, by Newton's method with a
barrier μ Σ log y whose μ falls to nothing; both sides of (2) are taken at every step.
Steps are relative, y ← y (1 + d), which keeps the equations well scaled however far apart
the weights of the cells are.

Reference:
    Li and Miklau (2012), adaptive mechanism, Program 1 and Theorem 1 (p = 1), and
    section 3.5 (p = 2, which it leaves unwritten). Wächter and Biegler (2006) for when μ falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from leastnoise.core.deadline import Listener, Watch
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended

# Newton steps, at most.
MAX_STEPS = 200

# One step takes no y further towards zero than this share of it.
_REACH = 0.995

# One step multiplies no y by more than this.
_GREATEST_FACTOR = 20.0

# μ falls once the equations hold to this multiple of it.
_CENTRED = 5.0

# It falls to this share, ...
_FALL = 0.2

# ... or to this power of itself where that is less, which at the end is faster.
_FASTER = 1.5

# A step must bring this share of what its slope promises, or is halved.
_ARMIJO = 1e-4

# Halvings of one step, at most.
_HALVINGS = 40

# Rounds in which weights are raised into what is free at the end.
_RAISES = 3

# Cells whose loads agree to this share of the largest are one constraint.
_SAME = 2.0**-40


@dataclass(frozen=True, eq=False)
class Weighting:
    """Weights of the design queries, and the proof of how good they are among these queries.

    Attributes:
        x: (k,), zero where the cost is; the largest entry of P x is 1.
        y: dual weights of the cells, (n,).
        achieved, lower_bound: the two sides of (2).
        has_converged: whether the gap asked for was reached.
        ended: how the search ended; it may converge above that gap, where no step gains any more.
    """

    x: Array
    y: Array
    achieved: float
    lower_bound: float
    has_converged: bool
    steps: int
    ended: Ended

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return self.achieved / self.lower_bound - 1 if self.lower_bound > 0 else 0.0


def optimal_weighting(
    costs: Array,
    loads: Array,
    *,
    power: int = 1,
    tol: float = 1e-9,
    time_limit: float | None = None,
    progress: Listener | None = None,
) -> Weighting:
    """The weights x of least Σ c_i/x_i^p with P x ≤ 1, certified by (2).

    Args:
        costs: c, (k,), zero or more.
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
    used = costs > 0
    if not used.any():
        return Weighting(np.zeros(len(costs)), np.zeros(len(loads)), 0.0, 0.0, True, 0, "converged")
    if not (loads[:, used].max(axis=0, initial=0) > 0).all():
        raise DesignError("a design query that is needed touches no cell", field="costs")
    found = _solve(costs[used], loads[:, used], power, tol, Watch.starting(time_limit, progress))
    x = np.zeros(len(costs))
    x[used] = found.x
    return replace(found, x=x)


def _solve(costs: Array, loads: Array, power: int, tol: float, watch: Watch) -> Weighting:
    # Neither the gap nor the shape of the answer depends on units: x_i is taken in that of its
    # largest load, the total so that equal weights of all cells prove a bound of 1.
    size = loads.max(axis=0)
    P, first = _distinct_rows(loads / size)
    c = costs * size**power
    unit = _lower_bound(c / c.max(), P, np.ones(len(P)), power) * c.max()
    c = c / unit
    point = _WeightPoint.at(c, P, np.full(len(P), power / len(P)), power)
    mu, s = 0.1 * power / len(P), np.full(len(P), 0.1)
    best_x, best_y, achieved, bound = point.x, point.y, math.inf, 0.0
    ended: Ended = "converged"
    for step in range(MAX_STEPS + 1):
        feasible = point.x / float((loads @ (point.x / size)).max())
        if (value := float((c / feasible**power).sum())) < achieved:
            achieved, best_x = value, feasible
        if (below := _lower_bound(c, P, point.y, power)) > bound:
            bound, best_y = below, point.y
        gap = achieved / bound - 1
        watch.tell(step, gap)
        is_late = watch.deadline.is_past
        if gap <= tol:
            break
        if is_late or step == MAX_STEPS:
            ended = "deadline" if is_late else "exhausted"
            break
        while point.unevenness(s, mu) <= _CENTRED * mu and mu > _least_barrier(tol, P):
            mu = max(min(_FALL * mu, (len(P) * mu) ** _FASTER / len(P)), _least_barrier(tol, P))
        following = _step(c, P, point, s, mu, power)
        if following is None:
            break
        point, s = following
    best_x = _raised(best_x / size, loads)
    achieved = float((costs / best_x**power).sum())
    bound *= unit
    weights = np.zeros(len(loads))
    weights[first] = best_y
    return Weighting(best_x, weights, achieved, bound, achieved <= (1 + tol) * bound, step, ended)


def _raised(x: Array, loads: Array) -> Array:
    """Weights x with P x ≤ 1, each raised by as much as the fullest of its cells allows.

    A query whose cost is a rounding beside the total would otherwise be left with whatever
    weight the search passed by; with x_i ← x_i / max_{j touched by i} (P x)_j it gets what is free.
    """
    for _ in range(_RAISES):
        fullest = np.where(loads > 0, (loads @ x)[:, None], 0.0).max(axis=0)
        x = x / fullest
    return x / float((loads @ x).max())


@dataclass(frozen=True, eq=False)
class _WeightPoint:
    """What (3) is made of at one y."""

    y: Array  # (n,)
    z: Array  # (k,)
    x: Array  # (k,)
    slack: Array  # 1 − P x, (n,), negative where the constraint is broken
    value: float  # the dual function

    @classmethod
    def at(cls, c: Array, P: Array, y: Array, power: int) -> _WeightPoint:
        z = P.T @ y
        x = (power * c / z) ** (1 / (power + 1))
        # c/x^p = z x/p at this x.
        return cls(y, z, x, 1 - P @ x, (1 + 1 / power) * float(z @ x) - float(y.sum()))

    def unevenness(self, s: Array, mu: float) -> float:
        """How far y s is from μ, and s from the slack, in the unit of μ."""
        return float(max(np.abs(self.y * s - mu).max(), np.abs(self.y * (self.slack - s)).max()))


def _least_barrier(tol: float, P: Array) -> float:
    # On the path of μ the two sides of (2) differ by n μ; a tenth of what was asked.
    return 0.1 * tol / len(P)


def _lower_bound(c: Array, P: Array, y: Array, power: int) -> float:
    """The right-hand side of (2)."""
    inner = float((c ** (1 / (power + 1)) * (P.T @ y) ** (power / (power + 1))).sum())
    return inner ** (power + 1) / float(y.sum()) ** power


def _distinct_rows(P: Array) -> tuple[Array, Array]:
    """One row of each kind, and where it stands."""
    coarse = np.rint(P / (_SAME * P.max()))
    _, first = np.unique(coarse, axis=0, return_index=True)
    first = np.sort(first)
    return P[first], first


def _step(
    c: Array, P: Array, point: _WeightPoint, s: Array, mu: float, power: int
) -> tuple[_WeightPoint, Array] | None:
    """The next y and the multipliers s of y ≥ 0, or None where rounding leaves no progress.

    With y ← y (1 + d), h_i = x_i / ((p + 1) z_i) and H = diag(y) P, Newton's equations are

        (H diag(h) Hᵀ + diag(y s)) d = μ − y (1 − P x)

    whose right-hand side is the slope of dual + μ Σ log y: every d climbs it.
    """
    y = point.y
    slope = mu - y * point.slack
    d = _factored(y * s, (P * y[:, None]).T, point.x / ((power + 1) * point.z))(slope)
    ds = mu / y - s - s * d
    # s is held near μ/y, so that the equations stay those of the barrier.
    s = np.clip(s + min(1.0, _reach(ds / s)) * ds, 1e-3 * mu / y, 1e3 * mu / y)
    length = min(1.0, _reach(d), (_GREATEST_FACTOR - 1) / max(float(d.max()), 1e-300))
    promised = float(slope @ d)
    merit = point.value + mu * float(np.log(y).sum())
    for _ in range(_HALVINGS):
        trial = _WeightPoint.at(c, P, y * (1 + length * d), power)
        gained = trial.value + mu * float(np.log(trial.y).sum()) - merit
        # Near the end both sides of this are rounding; a full step is then as good as any.
        if gained >= _ARMIJO * length * promised - 1e-14 * (1 + abs(merit)):
            return trial, s
        length /= 2
    return None


def _reach(relative: Array) -> float:
    """The longest share of a step that takes nothing beyond _REACH of its way to zero."""
    steepest = float(relative.min())
    return _REACH / -steepest if steepest < 0 else math.inf


def _factored(diagonal: Array, H: Array, theta: Array) -> Callable[[Array], Array]:
    """Solves with diag(diagonal) + Hᵀ diag(theta) H, by whichever of its two sizes is smaller."""
    from scipy import linalg

    if 2 * len(H) < len(diagonal):
        # (D + HᵀΘH)⁻¹ = D⁻¹ − D⁻¹Hᵀ(Θ⁻¹ + H D⁻¹ Hᵀ)⁻¹ H D⁻¹
        inner = linalg.cho_factor(np.diag(1 / theta) + (H / diagonal) @ H.T, check_finite=False)
        return lambda r: (r - H.T @ linalg.cho_solve(inner, H @ (r / diagonal))) / diagonal
    outer = linalg.cho_factor(np.diag(diagonal) + (H.T * theta) @ H, check_finite=False)
    return lambda r: np.asarray(linalg.cho_solve(outer, r))
