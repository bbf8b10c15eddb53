"""The best weights of products of rows where every query has a cap on its variance.

As in `product_weights`, rows of every axis have squares C_a, (r_a, n_a), and a product of queries has squares
S_{t,a}, (r_a, m_a): with s = 1/ω, an array over tuples of rows,

    profile u = (⊗ C_aᵀ) ω ,   variances v_t = (⊗ S_{t,a}ᵀ) s ,   total = Σ γ s                       (1)

For any p, q ≥ 0, with t = (⊗ C_a) q, g = Σ_t (⊗ S_{t,a}) p_t and h = Σ √(g t),

    least largest v/c at u ≤ 1      ≥  h²/(Σq Σpc)                                                    (2)
    total within v ≤ c at u ≤ 1     ≥  h²/Σq − Σpc ,     γ + g for g                                  (3)

and ω = √(g/t) is what they meet at. p = y² and q = z² leave no constraint; L-BFGS raises both. For (3),
weights that miss a cap are mixed with some that keep all of them: variances are linear in s, u is convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from leastnoise.core.backend import NUMPY, Backend
from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.descent import StopDescent, minimise_smooth
from leastnoise.solver.product_weights import towards_cells, towards_rows


class CappedQueries(NamedTuple):
    """A product of queries: its squares along every axis, (r_a, m_a), and the cap of each query."""

    squares: Sequence[Any]
    cap: float

    def variances(self, inverse: Any) -> Any:
        """v, an array over the queries."""
        return towards_cells(self.squares, inverse)

    def priced(self, p: Any) -> Any:
        """(⊗ S_a) p, an array over the rows."""
        return towards_rows(self.squares, p)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many rows the product has along every axis."""
        return tuple(int(own.shape[1]) for own in self.squares)


@dataclass(frozen=True, eq=False)
class CappedWeights:
    """The weights found, at profile 1.

    Attributes:
        inverse: s = 1/ω, on the device; 0 where nothing is measured.
        q: dual weights of the cells, on the device, Σq = 1.
        p: dual weights of the queries of every product, on the device.
        achieved: the largest v/c, or the total.
        lower_bound: for these rows only.
    """

    inverse: Any
    q: Any
    p: list[Any]
    achieved: float
    lower_bound: float
    ended: Ended


@dataclass
class BothSides:
    """The best that a search has found so far, on either side.

    Attributes:
        achieved, weights: the least value, and what has it.
        lower_bound, dual: the largest bound, and what proves it.
    """

    achieved: float = math.inf
    lower_bound: float = 0.0
    weights: Any = None
    dual: Any = None

    def keep_weights(self, achieved: float, weights: Callable[[], Any]) -> None:
        """Keep weights that achieve less than those before; they are worked out only then."""
        if achieved < self.achieved:
            self.achieved, self.weights = achieved, weights()

    def keep_dual(self, lower_bound: float, dual: Callable[[], Any]) -> None:
        """Keep dual weights that prove more than those before; they are worked out only then."""
        if lower_bound > self.lower_bound:
            self.lower_bound, self.dual = lower_bound, dual()

    def are_within(self, tol: float) -> bool:
        """Whether both sides are within a share of the bound."""
        return self.achieved <= self.lower_bound + tol * abs(self.lower_bound)


class _Duals:
    """p and q as one list of roots, and what follows from them."""

    def __init__(
        self, cells: Sequence[Any], queries: Sequence[CappedQueries], needed: Any, backend: Backend
    ) -> None:
        self.cells, self.queries, self._backend = cells, queries, backend
        self._needed = needed
        self._shape = tuple(int(own.shape[1]) for own in cells)
        sizes = [math.prod(self._shape), *(math.prod(own.shape) for own in queries)]
        self._ends = np.cumsum(sizes).tolist()[:-1]

    def packed(self, q: Array, p: Sequence[Array]) -> Array:
        """Roots of weights, each at least a small share of what equal ones have."""
        parts = [q, *p]
        floors = [_LEAST_SHARE * float(part.sum()) / part.size for part in parts]
        return np.concatenate(
            [np.sqrt(np.maximum(part, floor)).reshape(-1) for part, floor in zip(parts, floors, strict=True)]
        )

    def at(self, roots: Array, gamma: Any | None) -> _DualPoint:
        backend = self._backend
        parts = [backend.matrix(part) for part in np.split(roots, self._ends)]
        z = parts[0].reshape(self._shape)
        ys = [part.reshape(own.shape) for part, own in zip(parts[1:], self.queries, strict=True)]
        q, p = z * z, [y * y for y in ys]
        g: Any = 0.0 if gamma is None else gamma
        for own, weights in zip(self.queries, p, strict=True):
            g = g + own.priced(weights)
        g = (g + _LEAST_NEED * float(g.sum()) / math.prod(g.shape)) * self._needed
        t = towards_rows(self.cells, q) + _TINY
        both = (g * t) ** 0.5
        omega = both / t
        inverse = both / (g + _TINY)
        return _DualPoint(
            z,
            ys,
            q,
            p,
            float(both.sum()),
            inverse,
            towards_cells(self.cells, omega),
            [own.variances(inverse) for own in self.queries],
        )

    def allowed(self, p: Sequence[Any]) -> float:
        """Σ p c."""
        return sum(own.cap * float(weights.sum()) for own, weights in zip(self.queries, p, strict=True))

    def largest(self, variances: Sequence[Any]) -> float:
        """max v/c."""
        return max(float(v.max()) / own.cap for own, v in zip(self.queries, variances, strict=True))

    def slopes(self, point: _DualPoint, of_q: Any, of_p: Sequence[Any]) -> Array:
        """Slopes in the roots, from those in the weights."""
        parts = [2 * point.z * of_q, *(2 * y * own for y, own in zip(point.ys, of_p, strict=True))]
        return np.concatenate([self._backend.numpy(part).reshape(-1) for part in parts])


class _DualPoint(NamedTuple):
    z: Any
    ys: list[Any]
    q: Any
    p: list[Any]
    h: float
    inverse: Any
    u: Any
    v: list[Any]


def least_largest_weights(
    cells: Sequence[Any],
    queries: Sequence[CappedQueries],
    needed: Any,
    *,
    q: Array,
    p: Sequence[Array],
    tol: float,
    max_steps: int = 2_000,
    backend: Backend = NUMPY,
    deadline: Deadline = NEVER,
) -> CappedWeights:
    """ω for (2).

    Args:
        cells: C_a of every axis, on the device.
        needed: 1 where a product of rows may be measured, else 0, on the device.
        q, p: dual weights to start from, positive somewhere.
    """
    duals = _Duals(cells, queries, needed, backend)
    best = BothSides()

    def value(roots: Array) -> tuple[float, Array]:
        point = duals.at(roots, None)
        total, allowed = float(point.q.sum()), duals.allowed(point.p)
        worst = float(point.u.max())
        achieved = duals.largest(point.v) * worst
        best.keep_weights(achieved, lambda: point.inverse * worst)
        best.keep_dual(point.h**2 / (total * allowed), lambda: (point.q / total, point.p))
        if best.are_within(tol):
            raise StopDescent
        of_p = [own.cap / allowed - v / point.h for own, v in zip(queries, point.v, strict=True)]
        slope = duals.slopes(point, 1 / total - point.u / point.h, of_p)
        return -2 * math.log(point.h) + math.log(total) + math.log(allowed), slope

    return _ended(value, duals.packed(q, p), best, tol, max_steps, deadline)


def total_within_weights(
    cells: Sequence[Any],
    queries: Sequence[CappedQueries],
    gamma: Any,
    needed: Any,
    *,
    keeping: Any,
    q: Array,
    p: Sequence[Array],
    tol: float,
    max_steps: int = 2_000,
    backend: Backend = NUMPY,
    deadline: Deadline = NEVER,
) -> CappedWeights:
    """ω for (3).

    Args:
        gamma: γ, on the device.
        keeping: s of weights at profile 1 that keep all caps, on the device.
        cells, needed, q, p: as for `least_largest_weights`.
    """
    duals = _Duals(cells, queries, needed, backend)
    kept = [own.variances(keeping) for own in queries]
    kept_total = float((gamma * keeping).sum())
    best = BothSides(kept_total, -math.inf, keeping)
    unit = kept_total

    def value(roots: Array) -> tuple[float, Array]:
        point = duals.at(roots, gamma)
        total, worst = float(point.q.sum()), float(point.u.max())
        share = 0.0
        for own, v, safe in zip(queries, point.v, kept, strict=True):
            over = v * worst - own.cap
            needs = over / (over + own.cap - safe + _TINY)
            share = max(share, float((needs * (over > 0)).max()))
        share = min(share, 1.0)
        inverse = (1 - share) * worst * point.inverse + share * keeping
        achieved = float((gamma * inverse).sum())
        best.keep_weights(achieved, lambda: inverse)
        bound = point.h**2 / total - duals.allowed(point.p)
        best.keep_dual(bound, lambda: (point.q / total, point.p))
        if best.are_within(tol):
            raise StopDescent
        of_p = [(own.cap - v * (point.h / total)) / unit for own, v in zip(queries, point.v, strict=True)]
        of_q = (point.h / total - point.u) * (point.h / (total * unit))
        return -bound / unit, duals.slopes(point, of_q, of_p)

    return _ended(value, duals.packed(q, p), best, tol, max_steps, deadline)


def _ended(
    value: Any, start: Array, best: BothSides, tol: float, max_steps: int, deadline: Deadline
) -> CappedWeights:
    found = minimise_smooth(value, start, tol=_STEP_TOL, max_steps=max_steps, n_pairs=20, deadline=deadline)
    q, p = best.dual
    ended = "converged" if best.are_within(tol) else found.ended
    return CappedWeights(best.weights, q, p, best.achieved, best.lower_bound, ended)


# Of equal shares, what a weight starts with at least: p = y² and q = z² do not leave zero.
_LEAST_SHARE = 1e-2

# Beside the mean of g, what is added to every g: rows needed for next to nothing are measured all the same.
_LEAST_NEED = 1e-13

# Added where something could be zero.
_TINY = 1e-300

# A step that gains a smaller share of the value is rounding.
_STEP_TOL = 1e-15
