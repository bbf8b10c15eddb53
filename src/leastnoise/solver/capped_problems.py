"""The problems with variance caps, over weights z = (p, q) ≥ 0 of queries and cells.

    least profile      minimise β   subject to  f_i + u_i ≤ β,  v_j ≤ c_j
                       g = Σ p c − Σ q f + ½ (Σ q)² − 2F(p, q)
    total within caps  minimise trace(S₀Σ)   subject to  u_i ≤ 1,  v_j ≤ c_j
                       g = Σ p c + Σ q − 2F(p, q),   S = S₀ + Lᵀ diag(p) L

The first with f = 0 is fitness for use and, with equal caps, the least largest
variance; with offsets f it is one level of the refined ordering. The second needs
noise that keeps every constraint with room to spare, which the first provides: an
iterate that violates a few by a little is mixed with it.

Neither asks what its map is, only what weights give there (`WeightedNoise`). Over blocks both are solved by
`path_following`, over products of rows by a descent (`capped_product_weights`). The Newton matrix is (H of
`mean`, in the scale of √z)

    diag(√z) H diag(√z) + diag(y) + (√z∘group)(√z∘group)ᵀ

A few nodes of the integral behind H give a factored preconditioner within 29 % of it, with which
the predictor is chosen and conjugate gradients finish the corrector.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.solver.conjugate_gradients import conjugate_gradients
from leastnoise.solver.mean import Forms, SharedPoint, WeightedNoise, evaluate_all

# Steps without a smaller gap after which rounding is all there is.
PATIENCE = 20

# Weights that the factored preconditioner holds at most: beyond, it takes longer than the products it saves,
# and only the diagonal is used.
MAX_FACTORED = 9_000

# The same, per direction.
FACTORED_PER_DIRECTION = 6

# Weights whose own curvature is below this share of their slack take part by their diagonal alone.
_ALIVE = 1e-3

# Conjugate gradients stop once the residual fell to this share.
_FORCING = 1e-3

# Products of conjugate gradients per step, at most.
_MAX_PRODUCTS = 300

# What is added to the diagonal before it is factored, as a share of the largest entry: a little more than
# rounding takes away from it.
_LIFT = 1e-13

# Where that is not definite, it is raised by this factor, at most `_MAX_LIFTS` times.
_LIFT_GROWTH = 1e3
_MAX_LIFTS = 4


N = TypeVar("N", bound=WeightedNoise)


@dataclass(frozen=True, eq=False)
class CappedPoint(Generic[N]):
    """What weights (p, q) give, as `path_following` asks for it."""

    mean: N
    z: Array
    slack: Array
    achieved: float
    lower_bound: float
    scale: float

    @property
    def is_sound(self) -> bool:
        """Whether the noise and its inverse agree."""
        return self.mean.is_sound


class CappedProblem(ABC):
    """One of the problems, over (p, q) of m queries and n cells."""

    @property
    def group(self) -> Array | None:
        """1 for the weights whose sum is squared, 0 for the others; None where nothing is squared."""
        return None

    @abstractmethod
    def gradient(self, point: WeightedNoise) -> Array:
        """∇g: the slack of every constraint, (m + n,)."""

    @abstractmethod
    def bounds(self, point: WeightedNoise) -> tuple[float, float]:
        """What the noise of this point achieves once made feasible, and a lower bound."""

    @abstractmethod
    def scale(self, point: WeightedNoise) -> float:
        """What Σ z y is to be small beside, for the gap to be small."""

    @abstractmethod
    def scaled(self, point: WeightedNoise) -> tuple[Array, Array]:
        """(p, q) with each part scaled to where g is least."""

    @abstractmethod
    def merit(self, point: WeightedNoise) -> tuple[float, Array]:
        """What falls as the lower bound rises, in units of about 1, and its gradient, (m + n,)."""

    def at(self, point: N) -> CappedPoint[N]:
        """Both sides of a point."""
        z = np.concatenate([point.p, point.q])
        return CappedPoint(point, z, self.gradient(point), *self.bounds(point), self.scale(point))


@dataclass(frozen=True, eq=False)
class OverBlocks:
    """A problem where the map is to blocks, for `path_following`."""

    forms: Sequence[Forms]
    kind: CappedProblem

    def start(self, p: Array, q: Array) -> Array:
        """Positive weights (p, q), scaled, as one z."""
        return np.concatenate(self.kind.scaled(evaluate_all(self.forms, p, q)))

    def evaluate(self, z: Array) -> CappedPoint[SharedPoint]:
        """The point of weights z > 0."""
        m = self.forms[0].rows.shape[0]
        return self.kind.at(evaluate_all(self.forms, z[:m], z[m:]))

    def newton_system(self, point: CappedPoint[SharedPoint], y: Array) -> MeanSystem:
        """The system of a step from a point with slacks y."""
        return MeanSystem(point.mean, self.kind.group, np.sqrt(point.z), y)


@dataclass(frozen=True, eq=False)
class LeastProfile(CappedProblem):
    """Minimise the largest f_i + u_i subject to v_j ≤ c_j."""

    caps: Array  # c, (m,)
    offsets: Array  # f, (n,)

    @property
    def group(self) -> Array:
        """The cells' weights, whose sum is squared."""
        return np.concatenate([np.zeros(len(self.caps)), np.ones(len(self.offsets))])

    def gradient(self, point: WeightedNoise) -> Array:
        """(c − v, Σq − f − u)."""
        return np.concatenate([self.caps - point.v, float(point.q.sum()) - self.offsets - point.u])

    def excess(self, point: WeightedNoise) -> float:
        """How far the largest variance is above its cap, as a factor."""
        return float((point.v / self.caps).max())

    def bounds(self, point: WeightedNoise) -> tuple[float, float]:
        """Scaled to v ≤ c, the largest f + u; and (F²/Σpc + Σqf)/Σq."""
        achieved = float((self.offsets + self.excess(point) * point.u).max())
        in_caps = point.F**2 / float(point.p @ self.caps)
        return achieved, (in_caps + float(point.q @ self.offsets)) / float(point.q.sum())

    def scale(self, point: WeightedNoise) -> float:
        """F, which the caps' and the profiles' sides equal."""
        return point.F

    def scaled(self, point: WeightedNoise) -> tuple[Array, Array]:
        """Scaled so that Σpc = F = (Σq)², as at the optimum where f = 0."""
        F, P, Q = point.F, float(point.p @ self.caps), float(point.q.sum())
        # p·b and q·a make F·√(ab); b P = √(ab) F and (a Q)² = √(ab) F.
        a = F**2 / (P * Q**2)
        return point.p * (a * (F / P) ** 2), point.q * a

    def growth(self, point: WeightedNoise) -> Array:
        """What weights are multiplied with so that the bound rises, where f = 0: 1 at the optimum."""
        F, P, Q = point.F, float(point.p @ self.caps), float(point.q.sum())
        return np.concatenate([point.v * (P / F) / self.caps, point.u * (Q / F)])

    def merit(self, point: WeightedNoise) -> tuple[float, Array]:
        """−log of the bound, where f = 0."""
        F, P, Q = point.F, float(point.p @ self.caps), float(point.q.sum())
        slopes = np.concatenate([self.caps / P - point.v / F, 1 / Q - point.u / F])
        return -2 * math.log(F) + math.log(P) + math.log(Q), slopes


@dataclass(frozen=True, eq=False)
class Anchor:
    """Noise with v < c and u < 1: for every block a root A, Σ = AᵀA, and what it gives."""

    roots: list[Array]
    v: Array
    u: Array
    total: float


@dataclass(frozen=True, eq=False)
class TotalWithinCaps(CappedProblem):
    """Minimise trace(S₀Σ) subject to u_i ≤ 1 and v_j ≤ c_j."""

    caps: Array  # (m,)
    anchor: Anchor

    def gradient(self, point: WeightedNoise) -> Array:
        """(c − v, 1 − u)."""
        return np.concatenate([self.caps - point.v, 1 - point.u])

    def bounds(self, point: WeightedNoise) -> tuple[float, float]:
        """Mixed with the anchor until all holds, trace(S₀Σ); and F²/Σq − Σpc."""
        scale, share = mixture(self.caps, self.anchor, point.v, point.u)
        achieved = (1 - share) * scale * point.base_trace + share * self.anchor.total
        return achieved, point.F**2 / float(point.q.sum()) - float(point.p @ self.caps)

    def scale(self, point: WeightedNoise) -> float:
        """The total variance itself."""
        return point.base_trace

    def scaled(self, point: WeightedNoise) -> tuple[Array, Array]:
        """Scaled so that Σq = F."""
        return point.p, point.q * (point.F / float(point.q.sum())) ** 2

    def merit(self, point: WeightedNoise) -> tuple[float, Array]:
        """Minus the bound, beside the total of the anchor."""
        r = point.F / float(point.q.sum())
        slopes = np.concatenate([self.caps - r * point.v, r * (r - point.u)])
        return -self.bounds(point)[1] / self.anchor.total, slopes / self.anchor.total


def mixture(caps: Array, anchor: Anchor, v: Array, u: Array) -> tuple[float, float]:
    """The scale of some noise and the share of the anchor with which all constraints hold.

    Variances are linear in Σ and profiles convex, so their mixture bounds them; scaled, no profile exceeds 1.
    """
    scale = float(u.max())
    over = scale * v / caps - 1
    violated = over > 0
    needed = over[violated] / (over[violated] + (1 - anchor.v / caps)[violated])
    return scale, min(float(needed.max(initial=0)), 1.0)


class MeanSystem:
    """diag(s) H diag(s) + diag(y) + (s∘group)(s∘group)ᵀ, with a factored approximation."""

    def __init__(self, point: SharedPoint, group: Array | None, s: Array, y: Array) -> None:
        self._point, self._s, self._y = point, s, y
        self._group = None if group is None else s * group
        curvature = s * s * point.hessian_diagonal()
        if self._group is not None:
            curvature = curvature + self._group**2
        self._diagonal = curvature + y
        alive = np.flatnonzero(curvature > _ALIVE * y)
        most = min(MAX_FACTORED, FACTORED_PER_DIRECTION * point.n_directions + 100)
        self._alive = alive if 0 < len(alive) <= most else np.zeros(0, dtype=np.intp)
        self._factor = self._factored() if len(self._alive) else None

    def _factored(self) -> Any:
        device, alive = self._point.device, self._alive
        matrix = self._point.rough_hessian(alive, self._s[alive])
        if self._group is not None:
            group = device.matrix(self._group[alive])
            matrix = matrix + group[:, None] * group[None, :]
        lift = _LIFT * float(self._diagonal[alive].max())
        for _ in range(_MAX_LIFTS):
            factor = device.cholesky(device.plus_diagonal(matrix, self._y[alive] + lift))
            if factor is not None:
                return factor
            lift *= _LIFT_GROWTH
        return None

    def predict(self, b: Array) -> Array:
        """The solution with the approximation for the matrix."""
        x = b / self._diagonal
        if self._factor is not None:
            x[self._alive] = self._point.device.cholesky_solve(self._factor, b[self._alive])
        return np.asarray(x)

    def solve(self, b: Array) -> Array:
        """The solution, by conjugate gradients with the approximation as preconditioner."""
        return conjugate_gradients(self._product, self.predict, b, tol=_FORCING, max_products=_MAX_PRODUCTS).x

    def _product(self, x: Array) -> Array:
        image = self._s * self._point.hessian_product(self._s * x) + self._y * x
        if self._group is not None:
            image = image + self._group * float(self._group @ x)
        return np.asarray(image)
