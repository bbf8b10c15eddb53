"""p-identity strategies for the largest variance, and for totals within caps.

The largest variance is approached by powers, (Σ_j (v_j/c_j)^a)^(1/a) with rising a, and caps on variances
by multipliers with a penalty. Both are smooth functions of the variances; their derivatives by v_j are the
weights of the queries with which the total of `problem` gives the derivative by Θ. The best point
met on the way is taken.

Caps come before the total. Where the least total misses some, the largest share of a cap is lowered first,
until all are met, and only then the total within them; a time limit cuts the latter. How the largest share
is lowered does not depend on a common factor on all caps: where they cannot be met, caps wider by
the factor that is told can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.planning.families.distinct_cells import Cells
from leastnoise.planning.method import Request
from leastnoise.planning.p_identity.coarse_to_fine import FAINT, FLAT, MOST, Effort, search
from leastnoise.planning.p_identity.objective_function import (
    covariance_of,
    problem_of,
    rows_of,
    total_and_gradient,
)
from leastnoise.query import Workload
from leastnoise.solver import Backend, StopDescent, minimise_smooth

# Each smooth function of the variances takes this share of the steps.
_STAGE_SHARE = 1 / 8

# Powers that approach a maximum, and the rounds and the first penalty for caps.
POWERS = (2.0, 6.0, 20.0, 60.0, 200.0, 600.0)
_ROUNDS, _PENALTY = 12, 1.0

# Variances are kept this much below their caps: multipliers come so close, and rounding needs less.
_BELOW_CAPS = 1e-4

# Up to this many cells all pairs of columns are compared at every step, in 30 ms; beyond, columns are taken
# to differ by as much as they can.
_COMPARED_CELLS = 512

# Decimals to which caps are compared with the tightest one while the largest share is lowered: caps that
# differ by a common factor are then the same numbers, and the search takes the same steps.
_CAP_DECIMALS = 12


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

    def __init__(self, request: Request, cells: Cells, effort: Effort, arrays: Backend) -> None:
        self.request, self.cells, self.effort, self.arrays = request, cells, effort, arrays
        workload, objective = request.workload, request.objective
        caps = objective.caps(workload)
        assert caps is not None
        self.is_within = objective.kind == "total-within-caps"
        self.inverse_caps = np.where(np.isfinite(caps), 1 / caps, 0.0)
        self.relative_caps = relative_caps(caps)
        self.weights = objective.weights(workload)
        budget = float(request.privacy.budget)
        # Continuous noise has a little more variance than what is measured; for the largest no unit matters.
        self.unit_noise = 2 / budget / budget if self.is_within else 1.0
        self.best: Met | None = None
        # How the last stage ended; that time has cut one short is kept.
        self.ended: Ended = "converged"
        self.is_seeking_caps = False
        self.watch = Watch(effort.deadline, request.progress)

    def shares(self, v: Array) -> Array:
        """The variances as shares of caps that leave room for rounding."""
        return np.asarray(v * self.inverse_caps / (1 - _BELOW_CAPS))

    def noise(self, theta: Array) -> float:
        """The variance of the noise on each row: columns have a norm of 1, and more lies between two of them.

        Where records are replaced, what a pair of columns differs by is what counts, 2 at most.
        """
        if self.request.privacy.neighbours == "add-remove":
            return self.unit_noise
        return self.unit_noise * largest_difference(rows_of(theta)) ** 2

    def meet(self, theta: Array, unit_variances: Array, p: Array) -> None:
        """Keep a point if it is the best so far."""
        v = self.noise(theta) * unit_variances
        excess = max(float(self.shares(v).max()), 1.0) if self.is_within else 1.0
        met = Met(theta, p, self.request.objective.value(self.request.workload, v), excess)
        if self.best is None or met.rank < self.best.rank:
            self.best = met

    def unit_variances(self, theta: Array) -> Array:
        """The variance of every query per unit of noise."""
        return variances(self.request.workload, covariance_of(theta), self.cells)

    @property
    def is_met(self) -> bool:
        """Whether the best point so far misses no cap."""
        return self.best is not None and self.best.excess <= 1

    @property
    def is_done(self) -> bool:
        """Whether a descent should end: the time has passed, or caps were all that was sought and are met."""
        return self.effort.is_over or (self.is_seeking_caps and self.is_met)

    def descend(self, theta: Array, smooth: _Smooth, generator: np.random.Generator) -> Array:
        """Where L-BFGS-B ends with a function of the variances per unit of noise.

        A sum whose weights are all zero would stay so, whatever the function: it starts afresh.
        """
        theta = theta.copy()
        dead = ~theta.any(axis=0)
        theta[:, dead] = FAINT * generator.random((len(theta), int(dead.sum())))
        shape, last = theta.shape, [theta]

        def evaluate(x: Array) -> tuple[float, Array]:
            point = x.reshape(shape).copy()
            # The search for a length of step may end in numbers that are none; there is no way on from them.
            if not np.isfinite(point).all():
                raise StopDescent
            v = self.unit_variances(point)
            value, p = smooth(v)
            self.meet(point, v, p)
            last[0] = point
            if self.is_done:
                raise StopDescent
            problem = problem_of(self.request.workload, p, self.cells, self.arrays)
            gradient = total_and_gradient(problem, self.arrays.matrix(point))[1]
            return value, problem.unit * self.arrays.numpy(gradient).reshape(-1)

        steps = max(1, math.ceil(self.effort.steps * _STAGE_SHARE))
        found = minimise_smooth(
            evaluate,
            theta.reshape(-1),
            tol=FLAT,
            max_steps=steps,
            max_evaluations=2 * steps + 20,
            least=0.0,
            most=MOST,
            deadline=self.effort.deadline,
        )
        self.ended = "deadline" if self.ended == "deadline" else found.ended
        self.watch.steps += 1
        self.watch.tell(0, math.inf)
        return last[0]

    def least_largest(self, theta: Array, generator: np.random.Generator) -> None:
        """Look for the least largest share by powers that approach the maximum."""
        for power in POWERS:
            if self.effort.is_over:
                self.ended = "deadline"
            if self.is_done:
                break
            theta = self.descend(theta, partial(power_mean, self.relative_caps, power), generator)

    def least_within(self, theta: Array, generator: np.random.Generator) -> None:
        """Look for the least total within caps by multipliers λ of the caps and a penalty κ."""
        unit, noise = float(self.weights @ self.unit_variances(theta)), self.noise(theta)
        multipliers, penalty, excess = np.zeros(len(self.weights)), _PENALTY, math.inf

        def lagrangian(v: Array) -> tuple[float, Array]:
            pushed = np.maximum(multipliers + penalty * (self.shares(noise * v) - 1), 0.0)
            pushed[self.inverse_caps == 0] = 0.0
            value = float(self.weights @ v) / unit
            value += float((pushed**2 - multipliers**2).sum()) / (2 * penalty)
            return value, self.weights / unit + noise * pushed * self.inverse_caps / (1 - _BELOW_CAPS)

        for _ in range(_ROUNDS):
            theta = self.descend(theta, lagrangian, generator)
            noise = self.noise(theta)
            beyond = self.shares(noise * self.unit_variances(theta)) - 1
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

    def meet_caps(self, theta: Array, generator: np.random.Generator) -> None:
        """Look for a point that misses no cap, and from there on for the least total within them.

        Where none is found, the point with the least largest share is kept: it is the same for caps that are
        wider by a common factor, and meets those that are wider by its own.
        """
        # Each search draws for itself, so that neither depends on how long the other one took.
        for_caps, for_total = generator.spawn(2)
        self.is_seeking_caps = True
        self.least_largest(theta, for_caps)
        self.is_seeking_caps = False
        closest = self.best
        self.least_within(theta, for_total)
        if not self.is_met:
            self.best = closest

    def find(self, generator: np.random.Generator) -> Met:
        """The best point."""
        w = self.weights
        # Relative to the tightest, weights by caps are the same for caps that differ by a common factor.
        first = w if self.is_within else self.relative_caps
        problem = problem_of(self.request.workload, first, self.cells, self.arrays)
        point = search(problem, self.effort.with_middle(), generator)
        self.ended = point.ended
        for theta in (np.zeros_like(point.theta), point.theta):
            self.meet(theta, self.unit_variances(theta), w)
        if not self.is_within:
            self.least_largest(point.theta, generator)
        elif not self.is_met:
            self.meet_caps(point.theta, generator)
        assert self.best is not None
        # The weights beside a total are those that come on top of its own.
        p = np.maximum(self.best.p * (w.sum() / self.best.p.sum()) - w, 0) if self.is_within else self.best.p
        return replace(self.best, p=p, ended=self.ended)


def relative_caps(caps: Array) -> Array:
    """One over each cap as a share of the tightest, zero for queries without one."""
    inverse = np.where(np.isfinite(caps), 1 / caps, 0.0)
    return np.asarray(np.round(inverse / float(inverse.max()), _CAP_DECIMALS))


def largest_difference(A: Array) -> float:
    """The largest L1 norm of a column and of a difference of two; beyond so many cells, at most that."""
    from scipy.spatial import distance

    columns = float(np.abs(A).sum(axis=0).max())
    if not 1 < A.shape[1] <= _COMPARED_CELLS:
        return columns * min(A.shape[1], 2)
    return max(columns, float(distance.pdist(A.T, "cityblock").max()))


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
