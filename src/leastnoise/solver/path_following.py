"""A primal-dual interior-point method that follows the central path of a convex problem.

Both solvers with caps minimise a convex g over weights z ≥ 0 whose gradient is the slack of the constraints:
y = ∇g(z) ≥ 0 says that all are kept, and at the optimum z y = 0. The method follows z y = ν as ν falls. In
the scale of √z its Newton matrix is

    diag(√z) ∇²g diag(√z) + diag(y)

which stays moderate for weights that vanish and for those that do not. Every point gives what it achieves
once made feasible and a lower bound; the best of either side is kept.

Reference:
    Mehrotra (1992), On the implementation of a primal-dual interior point method, SIAM J. Optim. 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.optimum import relative_gap

MAX_STEPS = 150

# Steps stop short of the boundary by this share.
_REACH = 0.99

# The path is followed no further than to where Σ z y is this share of what the gap asked for allows.
_NEAREST = 0.1

# A step counts as a gain if it leaves at most this share of the gap.
_GAIN = 0.9

# The least share of Σ z y that a step aims for.
_LEAST_AIM = 1e-4

# The first slacks are at least this share of the scale, over all weights: never at the optimum.
_FIRST_SLACK = 1e-9


class PathPoint(Protocol):
    """What weights z > 0 give."""

    @property
    def z(self) -> Array:
        """The weights, (n,)."""

    @property
    def slack(self) -> Array:
        """∇g: the slack of every constraint, (n,)."""

    @property
    def achieved(self) -> float:
        """The objective of this point once made feasible."""

    @property
    def lower_bound(self) -> float:
        """What nothing feasible is below, by z."""

    @property
    def scale(self) -> float:
        """What Σ z y is to be small beside, for the gap to be small."""

    @property
    def is_sound(self) -> bool:
        """Whether `achieved` can be trusted; rounding may have spoiled it."""


class NewtonSystem(Protocol):
    """diag(√z) ∇²g diag(√z) + diag(y) at one point."""

    def predict(self, b: Array) -> Array:
        """The solution roughly, to see how far the optimum is."""

    def solve(self, b: Array) -> Array:
        """The solution."""


P = TypeVar("P", bound=PathPoint)


class PathProblem(Protocol[P]):
    """A convex problem over z ≥ 0."""

    def evaluate(self, z: Array) -> P:
        """The point of weights z > 0."""

    def newton_system(self, point: P, y: Array) -> NewtonSystem:
        """The system of a step from a point with slacks y."""


@dataclass(frozen=True, eq=False)
class CentralPath(Generic[P]):
    """Where the method ended.

    Attributes:
        best: the point that achieves the least.
        proof: the point of the largest lower bound.
        nearest: the point nearest to the optimum.
        lacking: how far `nearest` is from the optimum, as a share.
    """

    best: P
    proof: P
    nearest: P
    lacking: float
    achieved: float
    lower_bound: float
    steps: int
    ended: Ended

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return relative_gap(self.achieved, self.lower_bound)


Enough = Callable[[float, float], bool]


def never(achieved: float, lower_bound: float) -> bool:
    """No bounds are enough."""
    return False


def follow_path(
    problem: PathProblem[P],
    z: Array,
    *,
    tol: float,
    watch: Watch,
    patience: int,
    enough: Enough = never,
    is_thorough: bool = False,
) -> CentralPath[P]:
    """From positive weights z to the optimum.

    Args:
        tol: the relative gap at which to stop.
        watch: told of every step; the path ends at its deadline.
        patience: this many steps without a smaller gap mean that rounding is all there is.
        enough: whether (achieved, lower_bound) already answers the question asked.
        is_thorough: go on until weights that vanish at the optimum have vanished too.
    """
    point = problem.evaluate(z)
    so_far = BestSides(point)
    y: Array | None = None
    last: P | None = None
    step = 0
    while True:
        so_far.compare(point)
        watch.tell(step, so_far.gap)
        so_far.judge(point, _lacking(point, y) if is_thorough else so_far.gap)
        is_answered = so_far.lacking <= tol or enough(so_far.achieved, so_far.lower_bound)
        is_late, is_stalled = watch.deadline.is_past, so_far.n_stalled >= patience
        if is_answered or is_late or is_stalled or step == MAX_STEPS:
            break
        if y is None:
            # As far from the optimum as its slacks say, and never at it.
            away = np.abs(point.z * point.slack).mean()
            y = np.maximum(point.slack, max(float(away), _FIRST_SLACK * point.scale / len(z)) / point.z)
        # Weights that vanish together must do so in step. Where the slacks strayed from what they stand
        # for and the last step gained nothing, return to the path before going on along it.
        has_strayed = float((np.abs(point.slack - y) / y).max()) > 1
        is_centring = has_strayed and last is not None and not _has_gained(point, last)
        last = point
        # No nearer to the optimum than was asked for: what is left there is to get back on the path.
        nearest = _NEAREST * tol * point.scale / len(z)
        z, y = _step(problem.newton_system(point, y), point, y, is_centring, nearest)
        point = problem.evaluate(z)
        step += 1
    ended: Ended = "converged"
    if not is_answered and not is_stalled:
        ended = "deadline" if is_late else "exhausted"
    return so_far.path(step, ended)


class BestSides(Generic[P]):
    """The best point, the best proof and the nearest point so far, and for how long none was better."""

    def __init__(self, point: P) -> None:
        self.best = self.proof = self.nearest = point
        self.achieved, self.lower_bound = math.inf, -math.inf
        self.lacking = math.inf
        self.n_stalled = 0
        self._least_lacking = self._least_gap = math.inf

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return relative_gap(self.achieved, self.lower_bound)

    def compare(self, point: P) -> None:
        """Take either side of a point that is better than the best."""
        if point.achieved < self.achieved and point.is_sound:
            self.best, self.achieved = point, point.achieved
        if point.lower_bound > self.lower_bound:
            self.proof, self.lower_bound = point, point.lower_bound

    def judge(self, point: P, lacking: float) -> None:
        """Keep a point that is nearest to the optimum, and count those that bring nothing."""
        # Some step of each round may lead away from the optimum while the best of both sides close in.
        is_better = lacking < _GAIN * self._least_lacking or self.gap < _GAIN * self._least_gap
        self.n_stalled = 0 if is_better else self.n_stalled + 1
        self.lacking, self._least_gap = lacking, min(self.gap, self._least_gap)
        if lacking <= self._least_lacking:
            self.nearest, self._least_lacking = point, lacking

    def path(self, steps: int, ended: Ended) -> CentralPath[P]:
        """Where the method ended, if here."""
        return CentralPath(
            self.best,
            self.proof,
            self.nearest,
            self._least_lacking,
            self.achieved,
            self.lower_bound,
            steps,
            ended,
        )


def _has_gained(point: PathPoint, last: PathPoint) -> bool:
    """Whether the two sides of a point are nearer to each other than those of the last one."""
    gap, before = (relative_gap(one.achieved, one.lower_bound) for one in (point, last))
    if math.isinf(gap) and math.isinf(before):
        return point.achieved - point.lower_bound <= _GAIN * (last.achieved - last.lower_bound)
    return gap <= _GAIN * before


def _lacking(point: PathPoint, y: Array | None) -> float:
    """How far a point is from the optimum by itself: the larger of its gap and Σ z y beside its scale."""
    if y is None:
        return math.inf
    return max(relative_gap(point.achieved, point.lower_bound), float(point.z @ y) / point.scale)


def _step(
    system: NewtonSystem, point: PathPoint, y: Array, is_centring: bool, nearest: float
) -> tuple[Array, Array]:
    """The next weights and slacks, both positive."""
    z, slack = point.z, point.slack
    s = np.sqrt(z)
    mean = float(z @ y) / len(z)
    if is_centring:
        target = mean / z
    else:
        # Straight for the optimum, roughly: how far it gets says where on the path to aim.
        dz = s * system.predict(-s * slack)
        dy = -y - y * dz / z
        ahead = float((z + _room(z, dz) * dz) @ (y + _room(y, dy) * dy)) / len(z)
        aim = max((ahead / mean) ** 3, _LEAST_AIM) * mean
        target = (max(aim, min(nearest, mean)) - dz * dy) / z
    dz = s * system.solve(s * (target - slack))
    dy = target - y - y * dz / z
    return z + min(1.0, _REACH * _room(z, dz)) * dz, y + min(1.0, _REACH * _room(y, dy)) * dy


def _room(x: Array, dx: Array) -> float:
    """The longest step, at most 1/0.99, that keeps x ≥ 0."""
    falling = dx < 0
    return min(1 / _REACH, float((-x[falling] / dx[falling]).min(initial=math.inf)))
