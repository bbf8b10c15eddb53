"""The least sum of standard errors by a sequence of least total variances.

f(X) = Σ_j c_j √v_j is convex in the precision X of the noise, and √v ≤ (v/√v° + √v°)/2, with equality where
v = v°. So noise of least total variance for the weights p_j = c_j/√v_j°, v° the variances before, lowers f
(majorise and minimise). Noise that a round leaves unchanged is the optimum: there gradients agree.

How far a round is from it follows from the noise of least Σ_j p_j v_j itself, for any p:

    f ≥ ( Σ_j (c_j √p_j v_j)^{2/3} )^{3/2} / (Σ_j p_j v_j)^½                                               (1)

the bound of the certificate for these p, exact as far as the total is. Where noise is independent, p moves by
p^¼ per round, and the gap falls by 16; 4 to 9 rounds reached 1e-9 on all that was tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from leastnoise.core.deadline import Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended

# Rounds at most; none was seen to take more than 12.
MAX_ROUNDS = 60


@dataclass(frozen=True, eq=False)
class Reweighting:
    """Where a sequence of least total variances stands.

    Attributes:
        weights: c, how much each standard error counts, (m,).
        counts: how many queries each stands for, (m,); one unless given.
        p: the weights of the variances in this round, (m,).
    """

    weights: Array
    p: Array
    counts: Array | float = 1.0

    @staticmethod
    def starting(weights: Array, sizes: Array, counts: Array | float = 1.0) -> Reweighting:
        """The first round, where standard errors are taken to be as large as the queries are.

        Args:
            sizes: the length of every query, or what stands for it; zero for a query that is all zero.
        """
        return Reweighting(weights, _divided(weights, sizes), counts)

    def value(self, variances: Array) -> float:
        """f, the weighted sum of standard errors."""
        return math.fsum(self.counts * self.weights * np.sqrt(variances))

    def gap(self, variances: Array) -> float:
        """f over the bound (1), less one, for the variances of this round's least total."""
        total = math.fsum(self.counts * self.p * variances)
        inner = math.fsum(self.counts * np.cbrt(self.weights * np.sqrt(self.p) * variances) ** 2)
        return self.value(variances) * math.sqrt(total) / inner**1.5 - 1 if inner > 0 else 0.0

    def following(self, variances: Array) -> Reweighting:
        """The next round, from the variances of this one."""
        return Reweighting(self.weights, _divided(self.weights, np.sqrt(variances)), self.counts)


# The part of the gap asked for that the weights may leave; the rest is for the totals and for rounding.
_SHARE = 0.25

# The first rounds need not be solved further than this: their weights are not yet the last.
_FIRST_TOL = 1e-4

_Found = TypeVar("_Found")


def reweighted(
    least: Callable[[Array, float], tuple[_Found, Array, Ended]],
    start: Reweighting,
    *,
    tol: float,
    deadline: Deadline,
) -> tuple[_Found, Array, Ended, int]:
    """What the last round has found, its weights p, how the rounds ended, and how many there were.

    Args:
        least: finds the least total variance for weights p to some gap; the variances, how that search ended.
        start: the first round.
        tol: the gap of f to end at.
        deadline: after which there is no further round.
    """
    at, aimed, rounds = start, max(tol, _FIRST_TOL), 0
    while True:
        found, v, ended = least(at.p, aimed)
        rounds += 1
        gap = at.gap(v)
        if gap <= _SHARE * tol and aimed <= tol:
            return found, at.p, ended, rounds
        if deadline.is_past or rounds == MAX_ROUNDS:
            return found, at.p, "deadline" if deadline.is_past else "exhausted", rounds
        # A round leaves about a sixteenth of the gap.
        at, aimed = at.following(v), max(tol, min(aimed, gap / 16))


def _divided(weights: Array, stderr: Array) -> Array:
    """c/√v, in units of the largest; what a query that is all zero has does not matter."""
    known = stderr > 0
    p = np.where(known, weights / np.where(known, stderr, 1.0), 0.0)
    return np.where(known, p / (float(p.max(initial=0)) or 1.0), weights > 0)
