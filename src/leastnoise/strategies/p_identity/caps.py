"""p-identity strategies for the largest variance, and for totals within caps.

The largest variance is approached by powers, (Σ_j (v_j/c_j)^a)^(1/a) with rising a, and caps on variances
by multipliers with a penalty. Both are smooth functions of the variances; their derivatives by v_j are the
weights of the queries with which the total of `problem` gives the derivative by Θ. The best point
met on the way is taken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from leastnoise.operators import Array
from leastnoise.progress import Ended, Progress
from leastnoise.strategies.arrays import Arrays
from leastnoise.strategies.cells import Cells
from leastnoise.strategies.method import Request
from leastnoise.strategies.p_identity.problem import covariance_of, problem_of, total_and_gradient
from leastnoise.strategies.p_identity.search import FAINT, FLAT, MOST, Effort, search
from leastnoise.strategies.table_weights import descent_ending
from leastnoise.workload import Workload

# Each smooth function of the variances takes this share of the steps.
_STAGE_SHARE = 1 / 8

# Powers that approach a maximum, and the rounds and the first penalty for caps.
POWERS = (2.0, 6.0, 20.0, 60.0, 200.0, 600.0)
_ROUNDS, _PENALTY = 12, 1.0

# Variances are kept this much below their caps: multipliers come so close, and rounding needs less.
_BELOW_CAPS = 1e-4


class _OutOfTime(Exception):
    pass


@dataclass(frozen=True, eq=False)
class Met:
    """A point met on the way: the objective there, and by how much it misses a cap, 1 if none.

    The weights p of the queries are those for which it is nearly the best, for the bound; `ended` is how the
    search ended that met it.
    """

    theta: Array
    p: Array
    value: float
    excess: float
    ended: Ended = "converged"

    @property
    def rank(self) -> tuple[float, float]:
        """Less is better: first the caps, then the objective."""
        return (self.excess, self.value)


# A smooth function of the variances and its derivatives by each of them.
_Smooth = Callable[[Array], tuple[float, Array]]


class Capped:
    """The search with caps: smooth functions of all variances, minimised one after another.

    Every point met is judged by the objective itself and the best is kept, whatever the functions say.
    """

    def __init__(self, request: Request, cells: Cells, effort: Effort, arrays: Arrays) -> None:
        self.request, self.cells, self.effort, self.arrays = request, cells, effort, arrays
        workload, objective = request.workload, request.objective
        caps = objective.caps(workload)
        assert caps is not None
        self.is_within = objective.kind == "total-within-caps"
        self.inverse_caps = np.where(np.isfinite(caps), 1 / caps, 0.0)
        self.weights = objective.weights(workload)
        budget = float(request.privacy.budget)
        # Continuous noise has a little more variance than what is measured; for the largest no unit matters.
        self.noise = 2 / budget / budget if self.is_within else 1.0
        self.best: Met | None = None
        # How the last stage ended; that time has cut one short is kept.
        self.ended: Ended = "converged"
        self.started, self.stages = time.monotonic(), 0

    def shares(self, v: Array) -> Array:
        """The variances as shares of caps that leave room for rounding."""
        return np.asarray(v * self.inverse_caps / (1 - _BELOW_CAPS))

    def meet(self, theta: Array, v: Array, p: Array) -> None:
        """Keep a point if it is the best so far."""
        excess = max(float(self.shares(v).max()), 1.0) if self.is_within else 1.0
        met = Met(theta, p, self.request.objective.value(self.request.workload, v), excess)
        if self.best is None or met.rank < self.best.rank:
            self.best = met

    def variances(self, theta: Array) -> Array:
        """The variance of every query, with the goal's own noise where caps are to be met."""
        return self.noise * variances(self.request.workload, covariance_of(theta), self.cells)

    def descend(self, theta: Array, smooth: _Smooth, generator: np.random.Generator) -> Array:
        """Where L-BFGS-B ends with a function of the variances.

        A sum whose weights are all zero would stay so, whatever the function: it starts afresh.
        """
        from scipy import optimize

        theta = theta.copy()
        dead = ~theta.any(axis=0)
        theta[:, dead] = FAINT * generator.random((len(theta), int(dead.sum())))
        shape, last = theta.shape, [theta]

        def evaluate(x: Array) -> tuple[float, Array]:
            point = x.reshape(shape).copy()
            v = self.variances(point)
            value, p = smooth(v)
            self.meet(point, v, p)
            last[0] = point
            if self.effort.is_over:
                raise _OutOfTime
            problem = problem_of(self.request.workload, p, self.cells, self.arrays)
            gradient = total_and_gradient(problem, self.arrays.matrix(point))[1]
            return value, self.noise * problem.unit * self.arrays.numpy(gradient).reshape(-1)

        steps = max(1, math.ceil(self.effort.steps * _STAGE_SHARE))
        try:
            options = {"maxiter": steps, "maxfun": 2 * steps + 20, "ftol": FLAT, "gtol": 0}
            bounds = optimize.Bounds(0, MOST)
            x = theta.reshape(-1)
            ended = optimize.minimize(
                evaluate, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options
            )
            self.ended = "deadline" if self.ended == "deadline" else descent_ending(ended)
        except _OutOfTime:
            self.ended = "deadline"
        self.stages += 1
        if self.request.progress is not None:
            seconds = time.monotonic() - self.started
            self.request.progress(Progress(self.stages, math.inf, seconds))
        return last[0]

    def least_largest(self, theta: Array, generator: np.random.Generator) -> None:
        """Look for the least largest share by powers that approach the maximum."""
        for power in POWERS:
            theta = self.descend(theta, partial(power_mean, self.inverse_caps, power), generator)

    def least_within(self, theta: Array, generator: np.random.Generator) -> None:
        """Look for the least total within caps by multipliers λ of the caps and a penalty κ."""
        unit = float(self.weights @ self.variances(theta))
        multipliers, penalty, excess = np.zeros(len(self.weights)), _PENALTY, math.inf

        def lagrangian(v: Array) -> tuple[float, Array]:
            pushed = np.maximum(multipliers + penalty * (self.shares(v) - 1), 0.0)
            pushed[self.inverse_caps == 0] = 0.0
            value = float(self.weights @ v) / unit
            value += float((pushed**2 - multipliers**2).sum()) / (2 * penalty)
            return value, self.weights / unit + pushed * self.inverse_caps / (1 - _BELOW_CAPS)

        for _ in range(_ROUNDS):
            theta = self.descend(theta, lagrangian, generator)
            beyond = self.shares(self.variances(theta)) - 1
            multipliers = np.where(self.inverse_caps > 0, np.maximum(multipliers + penalty * beyond, 0), 0)
            if float(beyond.max()) > excess / 4:
                penalty *= 2
            excess = max(float(beyond.max()), 0.0)
            if self.effort.is_over:
                self.ended = "deadline"
                break
        if self.ended != "deadline":
            # Nothing but their number ends the rounds.
            self.ended = "exhausted"

    def find(self, generator: np.random.Generator) -> Met:
        """The best point."""
        w = self.weights
        problem = problem_of(self.request.workload, w, self.cells, self.arrays)
        point = search(problem, self.effort.with_middle(), generator)
        self.ended = point.ended
        for theta in (np.zeros_like(point.theta), point.theta):
            self.meet(theta, self.variances(theta), w)
        if self.is_within and self.best is not None and self.best.excess > 1:
            self.least_within(point.theta, generator)
        if not self.is_within or (self.best is not None and self.best.excess > 1):
            self.least_largest(point.theta, generator)
        assert self.best is not None
        # The weights beside a total are those that come on top of its own.
        p = np.maximum(self.best.p * (w.sum() / self.best.p.sum()) - w, 0) if self.is_within else self.best.p
        return replace(self.best, p=p, ended=self.ended)


def power_mean(inverse_caps: Array, power: float, v: Array) -> tuple[float, Array]:
    """log (Σ_j (v_j/c_j)^power) / power, which tends to log max_j v_j/c_j, and its derivatives by v."""
    shares = v * inverse_caps
    largest = float(shares.max())
    relative = (shares / largest) ** power
    total = float(relative.sum())
    derivative = np.divide(relative, v * total, out=np.zeros_like(v), where=shares > 0)
    return math.log(largest) + math.log(total) / power, derivative


def variances(workload: Workload, Y: Array, cells: Cells) -> Array:
    """The variance of every query per unit of noise, (m,), for the covariance Y of the kinds of cells."""
    if not cells.are_all:
        whole = np.zeros((workload.shape[1],) * 2)
        whole[np.ix_(cells.first, cells.first)] = Y
        Y = whole
    return np.maximum(workload.operator.quadratic(Y), 0)
