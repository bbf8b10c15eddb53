"""A primal-dual interior-point method for weights on queries and on cells.

Every problem with variance caps is: minimise over z = (p, q) ≥ 0 the convex

    g(z) = ℓᵀz + ½ (Σ of z over a group)² − 2 F(p, q)

whose gradient is the slack of the constraints: y = ∇g(z) ≥ 0 says v_j ≤ c_j and
u_i ≤ τ_i, and at the optimum z y = 0. The method follows z y = ν as ν falls. In the
scale of √z its Newton matrix is

    diag(√z) H diag(√z) + diag(y) + (group term)

which stays moderate for weights that vanish and for those that do not. A few nodes
of the integral behind H give a factored preconditioner within 29 % of it, with which
the predictor is chosen and conjugate gradients finish the corrector (Mehrotra 1992).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.mean import Forms, MeanPoint, evaluate

MAX_STEPS = 150

# Steps stop short of the boundary by this share.
_REACH = 0.99

# The path is followed no further than to where Σ z y is this share of what the gap asked for allows.
_NEAREST = 0.1

# The factored preconditioner holds at most so many weights, and so many per direction: beyond, it takes
# longer than the products it saves, and only the diagonal is used.
MAX_FACTORED, FACTORED_PER_DIRECTION = 9_000, 6

# Weights whose own curvature is below this share of their slack take part by their diagonal alone.
_ALIVE = 1e-3

# Conjugate gradients stop once the residual fell to this share.
_FORCING, _MAX_PRODUCTS = 1e-3, 300

# So many steps without a smaller gap mean that rounding is all there is.
_PATIENCE = 20


class Kind(Protocol):
    """One of the problems, over (p, q) of m queries and n cells."""

    @property
    def group(self) -> Array | None:
        """1 for the weights whose sum is squared, 0 for the others; None where nothing is squared."""

    def gradient(self, point: MeanPoint) -> Array:
        """∇g: the slack of every constraint, (m + n,)."""

    def bounds(self, point: MeanPoint) -> tuple[float, float]:
        """What the noise of this point achieves once made feasible, and a lower bound."""

    def scale(self, point: MeanPoint) -> float:
        """What Σ z y is to be small beside, for the gap to be small."""

    def scaled(self, point: MeanPoint) -> tuple[Array, Array]:
        """(p, q) with each part scaled to where g is least."""


@dataclass(frozen=True, eq=False)
class Path:
    """Where the method ended: the best noise, the best proof and the point nearest to the optimum."""

    primal: MeanPoint
    dual: MeanPoint
    nearest: MeanPoint
    lacking: float  # how far it is from there, as a share
    achieved: float
    lower_bound: float
    has_converged: bool
    steps: int
    ended: Ended

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1, infinite where the bound is not positive."""
        return relative_gap(self.achieved, self.lower_bound)


def relative_gap(achieved: float, lower_bound: float) -> float:
    """achieved / lower_bound − 1, infinite where the bound is not positive."""
    return achieved / lower_bound - 1 if lower_bound > 0 else math.inf


def follow_path(
    forms: Forms,
    kind: Kind,
    p: Array,
    q: Array,
    *,
    tol: float,
    watch: Watch,
    enough: Callable[[float, float], bool] = lambda achieved, lower_bound: False,
    is_thorough: bool = False,
) -> Path:
    """From positive weights (p, q) to the optimum.

    Args:
        tol: the relative gap at which to stop.
        watch: told of every step; the path ends at its deadline.
        enough: whether (achieved, lower_bound) already answers the question asked.
        is_thorough: go on until weights that vanish at the optimum have vanished too.
    """
    m = len(p)
    point = evaluate(forms, *kind.scaled(evaluate(forms, p, q)))
    so_far = _SoFar(point)
    y: Array | None = None
    last_gap, step = math.inf, 0
    while True:
        own_gap = so_far.compared(point, *kind.bounds(point))
        watch.tell(step, max(so_far.gap, 0.0))
        lacking = max(own_gap, _remaining(kind, point, y)) if is_thorough else so_far.gap
        so_far.judged(point, lacking)
        is_late = watch.deadline.is_past
        is_answered = lacking <= tol or enough(so_far.achieved, so_far.lower_bound)
        if is_answered or step == MAX_STEPS or is_late or so_far.stalled >= _PATIENCE:
            break
        z, y = _onward(point, kind, y, tol, gained_nothing=own_gap > 0.9 * last_gap)
        last_gap = own_gap
        point = evaluate(forms, z[:m], z[m:])
        step += 1
    ended: Ended = "converged"
    if not is_answered and so_far.stalled < _PATIENCE:
        ended = "deadline" if is_late else "exhausted"
    return so_far.path(tol, step, ended)


class _SoFar:
    """The best noise, the best proof and the nearest point until now, and for how long none was better."""

    def __init__(self, point: MeanPoint) -> None:
        self.primal = self.dual = self.nearest = point
        self.achieved, self.lower_bound = math.inf, -math.inf
        self.gap = self.least = self.least_gap = math.inf
        self.stalled = 0

    def compared(self, point: MeanPoint, reached: float, proved: float) -> float:
        """The gap of a point by itself, once its two sides were compared with the best."""
        if reached < self.achieved and point.is_sound:
            self.primal, self.achieved = point, reached
        if proved > self.lower_bound:
            self.dual, self.lower_bound = point, proved
        self.gap = relative_gap(self.achieved, self.lower_bound)
        return relative_gap(reached, proved)

    def judged(self, point: MeanPoint, lacking: float) -> None:
        """Keep a point that is nearest to the optimum, and count those that bring nothing."""
        # Some step of each round may lead away from the optimum while the best of both sides close in.
        is_better = lacking < 0.9 * self.least or self.gap < 0.9 * self.least_gap
        self.stalled = 0 if is_better else self.stalled + 1
        self.least_gap = min(self.gap, self.least_gap)
        if lacking <= self.least:
            self.nearest, self.least = point, lacking

    def path(self, tol: float, steps: int, ended: Ended) -> Path:
        """Where the method ended, if here."""
        return Path(
            self.primal,
            self.dual,
            self.nearest,
            self.least,
            self.achieved,
            self.lower_bound,
            self.gap <= tol,
            steps,
            ended,
        )


def _onward(
    point: MeanPoint, kind: Kind, y: Array | None, tol: float, *, gained_nothing: bool
) -> tuple[Array, Array]:
    """The next weights and slacks, from those of a point and the slacks that it was meant to have."""
    z, slack = np.concatenate([point.p, point.q]), kind.gradient(point)
    if y is None:
        # As far from the optimum as its slacks say, and never at it.
        away = max(float(np.abs(z * slack).mean()), 1e-9 * point.F / len(z))
        y = np.maximum(slack, away / z)
    # Weights that vanish together must do so in step. Where the slacks strayed from what they stand
    # for and the last step gained nothing, return to the path before going on along it.
    strayed = float((np.abs(slack - y) / y).max()) > 1
    # No nearer to the optimum than was asked for: what is left there is to get back on the path.
    nearest = _NEAREST * tol * kind.scale(point) / len(z)
    return _step(point, kind, z, y, slack, strayed and gained_nothing, nearest)


def _step(
    point: MeanPoint, kind: Kind, z: Array, y: Array, slack: Array, is_centring: bool, nearest: float
) -> tuple[Array, Array]:
    """The next weights and slacks, both positive."""
    s = np.sqrt(z)
    system = _System(point, kind, s, y)
    mean = float(z @ y) / len(z)
    if is_centring:
        target = mean / z
    else:
        # Straight for the optimum, roughly: how far it gets says where on the path to aim.
        dz = s * system.roughly(-s * slack)
        dy = -y - y * dz / z
        ahead = float((z + _room(z, dz) * dz) @ (y + _room(y, dy) * dy)) / len(z)
        aim = max((ahead / mean) ** 3, 1e-4) * mean
        target = (max(aim, min(nearest, mean)) - dz * dy) / z
    dz = s * system.solve(s * (target - slack))
    dy = target - y - y * dz / z
    return z + min(1.0, _REACH * _room(z, dz)) * dz, y + min(1.0, _REACH * _room(y, dy)) * dy


def _remaining(kind: Kind, point: MeanPoint, y: Array | None) -> float:
    """Σ z y beside its scale: what complementary slackness still lacks."""
    if y is None:
        return math.inf
    return float(np.concatenate([point.p, point.q]) @ y) / kind.scale(point)


def _room(x: Array, dx: Array) -> float:
    """The longest step, at most 1/0.99, that keeps x ≥ 0."""
    falling = dx < 0
    return min(1 / _REACH, float((-x[falling] / dx[falling]).min(initial=math.inf)))


class _System:
    """diag(s) H diag(s) + diag(y) + (s∘group)(s∘group)ᵀ, with a factored approximation."""

    def __init__(self, point: MeanPoint, kind: Kind, s: Array, y: Array) -> None:
        self._point, self._s, self._y = point, s, y
        self._group = None if kind.group is None else s * kind.group
        curvature = s * s * point.hessian_diagonal()
        if self._group is not None:
            curvature = curvature + self._group**2
        self._diagonal = curvature + y
        alive = np.flatnonzero(curvature > _ALIVE * y)
        most = min(MAX_FACTORED, FACTORED_PER_DIRECTION * len(point.d) + 100)
        self._alive = alive if 0 < len(alive) <= most else np.zeros(0, dtype=np.intp)
        self._factor = self._factored() if len(self._alive) else None

    def _factored(self) -> Any:
        device, alive = self._point.device, self._alive
        matrix = self._point.rough_hessian(alive, self._s[alive])
        if self._group is not None:
            group = device.matrix(self._group[alive])
            matrix = matrix + group[:, None] * group[None, :]
        # A little more on the diagonal than rounding takes away from it.
        lift = 1e-13 * float(self._diagonal[alive].max())
        for _ in range(4):
            factor = device.cholesky(device.plus_diagonal(matrix, self._y[alive] + lift))
            if factor is not None:
                return factor
            lift *= 1e3
        return None

    def roughly(self, b: Array) -> Array:
        """The solution with the approximation for the matrix."""
        x = b / self._diagonal
        if self._factor is not None:
            x[self._alive] = self._point.device.cholesky_solve(self._factor, b[self._alive])
        return np.asarray(x)

    def product(self, x: Array) -> Array:
        """The matrix times x."""
        image = self._s * self._point.hessian_product(self._s * x) + self._y * x
        if self._group is not None:
            image = image + self._group * float(self._group @ x)
        return np.asarray(image)

    def solve(self, b: Array) -> Array:
        """The solution, by preconditioned conjugate gradients."""
        x = np.zeros_like(b)
        residual = b.copy()
        w = self.roughly(residual)
        direction = w
        rho = first = float(residual @ w)
        for _ in range(_MAX_PRODUCTS):
            if rho <= _FORCING**2 * first or rho <= 0:
                break
            image = self.product(direction)
            bend = float(direction @ image)
            if bend <= 0:
                break
            x += (rho / bend) * direction
            residual -= (rho / bend) * image
            w = self.roughly(residual)
            rho, previous = float(residual @ w), rho
            direction = w + (rho / previous) * direction
        return x
