"""What a search for the least noise ends with: the best noise, and the proof of how good it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from leastnoise.core.backend import Backend
from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.dual import DualNoise, DualPoint


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best noise found and the proof of how good it is.

    Attributes:
        roots: for every block its rows β: the strategy, on which independent noise of variance 1 is the noise
            found. Without caps it is scaled so that the largest profile is 1.
        q: the dual weights of the cells, (n,), which prove the lower bound.
        achieved, lower_bound: what was minimised, such as the total variance at profile 1, as the solver
            sees it.
        has_converged: whether the gap asked for was reached.
        ended: how the search ended; it may converge above that gap, where no step gains any more.
        p: the dual weights of the queries with caps, which prove the lower bound with q; none where there are
            no caps.
        is_feasible: False if no noise was found that keeps the caps. `achieved` and `lower_bound` are then
            about the least profile with which they are kept; above 1, (p, q) prove that there is none.
    """

    roots: list[Array]
    q: Array
    achieved: float
    lower_bound: float
    has_converged: bool
    steps: int
    seconds: float
    ended: Ended
    how: str = "Newton's method"
    p: Array = field(default_factory=lambda: np.zeros(0))
    is_feasible: bool = True

    @property
    def root(self) -> Array:
        """The rows of the first block: all of them where there is one."""
        return self.roots[0]

    @property
    def x(self) -> Array:
        """The precisions of blocks that are numbers, 0 for one that nothing asked for needs."""
        return np.square(self.root)

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return relative_gap(self.achieved, self.lower_bound)

    def better_of(self, other: Optimum) -> Optimum:
        """The same with the noise and with the proof of another where these are better."""
        merged = self
        if other.achieved < self.achieved:
            merged = replace(merged, roots=other.roots, achieved=other.achieved, how=other.how)
        if other.lower_bound > self.lower_bound:
            merged = replace(merged, p=other.p, q=other.q, lower_bound=other.lower_bound)
        return merged


def relative_gap(achieved: float, lower_bound: float) -> float:
    """achieved / lower_bound − 1; infinite where the bound is not positive, 0 where it is met."""
    if achieved <= lower_bound:
        return 0.0
    return achieved / lower_bound - 1 if lower_bound > 0 else math.inf


@dataclass
class Best:
    """The best of both sides so far."""

    noise: DualNoise
    q: Array
    lower_bound: float
    steps: int = 0
    ended: Ended = "converged"

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return self.noise.achieved / self.lower_bound - 1

    @classmethod
    def starting(cls, point: DualPoint) -> Best:
        """Both sides of one point."""
        return cls(point.noise, point.q, point.lower_bound)

    def take(self, noise: DualNoise) -> None:
        """Keep noise that achieves less than what there is."""
        if noise.achieved < self.noise.achieved:
            self.noise = noise

    def take_bound(self, point: DualPoint) -> None:
        """Keep the weights of a point that prove more."""
        if point.lower_bound > self.lower_bound:
            self.q, self.lower_bound = point.q, point.lower_bound

    def optimum(self, tol: float, watch: Watch, backend: Backend, how: str = "Newton's method") -> Optimum:
        """What a search ends with: the noise with a largest profile of 1."""
        scale = math.sqrt(float(self.noise.u.max()))
        roots = []
        for own in self.noise.roots:
            root = backend.numpy(own)
            root /= scale
            roots.append(root)
        return Optimum(
            roots,
            self.q,
            self.noise.achieved,
            self.lower_bound,
            self.gap <= tol,
            self.steps,
            watch.seconds,
            self.ended,
            how,
        )
