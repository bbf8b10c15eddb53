"""The problems with variance caps, as cases of one convex function.

    least profile      minimise β   subject to  f_i + u_i ≤ β,  v_j ≤ c_j
                       g = Σ p c − Σ q f + ½ (Σ q)² − 2F(p, q)
    total within caps  minimise trace(S₀Σ)   subject to  u_i ≤ 1,  v_j ≤ c_j
                       g = Σ p c + Σ q − 2F(p, q),   S = S₀ + Lᵀ diag(p) L

The first with f = 0 is fitness for use and, with equal caps, the least largest
variance; with offsets f it is one level of the refined ordering. The second needs
noise that keeps every constraint with room to spare, which the first provides: an
iterate that violates a few by a little is mixed with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.solver.mean import MeanPoint


@dataclass(frozen=True, eq=False)
class LeastProfile:
    """Minimise the largest f_i + u_i subject to v_j ≤ c_j."""

    caps: Array  # c, (m,)
    offsets: Array  # f, (n,)

    @property
    def group(self) -> Array:
        """The cells' weights, whose sum is squared."""
        return np.concatenate([np.zeros(len(self.caps)), np.ones(len(self.offsets))])

    def gradient(self, point: MeanPoint) -> Array:
        """(c − v, Σq − f − u)."""
        return np.concatenate([self.caps - point.v, float(point.q.sum()) - self.offsets - point.u])

    def excess(self, point: MeanPoint) -> float:
        """How far the largest variance is above its cap, as a factor."""
        return float((point.v / self.caps).max())

    def bounds(self, point: MeanPoint) -> tuple[float, float]:
        """Scaled to v ≤ c, the largest f + u; and (F²/Σpc + Σqf)/Σq."""
        achieved = float((self.offsets + self.excess(point) * point.u).max())
        in_caps = point.F**2 / float(point.p @ self.caps)
        return achieved, (in_caps + float(point.q @ self.offsets)) / float(point.q.sum())

    def scale(self, point: MeanPoint) -> float:
        """F, which the caps' and the profiles' sides equal."""
        return point.F

    def scaled(self, point: MeanPoint) -> tuple[Array, Array]:
        """Scaled so that Σpc = F = (Σq)², as at the optimum where f = 0."""
        F, P, Q = point.F, float(point.p @ self.caps), float(point.q.sum())
        # p·b and q·a make F·√(ab); b P = √(ab) F and (a Q)² = √(ab) F.
        a = F**2 / (P * Q**2)
        return point.p * (a * (F / P) ** 2), point.q * a


@dataclass(frozen=True, eq=False)
class Anchor:
    """Noise with v < c and u < 1: its root A, Σ = AᵀA, and what it gives."""

    root: Any
    v: Array
    u: Array
    total: float


@dataclass(frozen=True, eq=False)
class TotalWithinCaps:
    """Minimise trace(S₀Σ) subject to u_i ≤ 1 and v_j ≤ c_j."""

    caps: Array  # (m,)
    anchor: Anchor

    @property
    def group(self) -> None:
        """Nothing is squared."""
        return None

    def gradient(self, point: MeanPoint) -> Array:
        """(c − v, 1 − u)."""
        return np.concatenate([self.caps - point.v, 1 - point.u])

    def bounds(self, point: MeanPoint) -> tuple[float, float]:
        """Mixed with the anchor until all holds, trace(S₀Σ); and F²/Σq − Σpc."""
        scale, share = mixture(self.caps, self.anchor, point.v, point.u)
        achieved = (1 - share) * scale * point.base_trace + share * self.anchor.total
        return achieved, point.F**2 / float(point.q.sum()) - float(point.p @ self.caps)

    def scale(self, point: MeanPoint) -> float:
        """The total variance itself."""
        return point.base_trace

    def scaled(self, point: MeanPoint) -> tuple[Array, Array]:
        """Scaled so that Σq = F."""
        return point.p, point.q * (point.F / float(point.q.sum())) ** 2


def mixture(caps: Array, anchor: Anchor, v: Array, u: Array) -> tuple[float, float]:
    """The scale of some noise and the share of the anchor with which all constraints hold.

    Variances are linear in Σ and profiles convex, so their mixture bounds them.
    """
    scale = float(u.max())
    over = np.concatenate([scale * v / caps, u / scale]) - 1
    spare = 1 - np.concatenate([anchor.v / caps, anchor.u])
    needed = np.maximum(over, 0) / (np.maximum(over, 0) + spare)
    return scale, float(needed.max(initial=0))
