"""p-identity strategies for Laplace noise: every cell, and p weighted sums of cells.

`objective_function` says which total is minimised, `coarse_to_fine` how sums are sought. Where only cross
tables of attributes are asked, whole tables as sums with one weight each are tried too; see
`crossed_tables`. Cells that no query tells apart are measured as one, and cells that no query counts
not at all.

The largest variance is approached by powers, (Σ_j (v_j/c_j)^a)^(1/a) with rising a, and caps on variances
by multipliers with a penalty. Both are smooth functions of the variances; their derivatives by v_j are the
weights of the queries with which the total gives the derivative by Θ. The best point met on the way is taken.

Caps come before the total. Where the least total misses some, the largest share of a cap is lowered first,
until all are met, and only then the total within them; a time limit cuts the latter. How the largest share
is lowered does not depend on a common factor on all caps: where they cannot be met, caps wider by
the factor that is told can.

Reference:
    McKenna, Miklau, Hay and Machanavajjhala (2018), Optimizing error of high-dimensional statistical
    queries under differential privacy, section 5.2, where the family is introduced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from leastnoise.core.deadline import Watch
from leastnoise.core.errors import MethodError
from leastnoise.core.merged_cells import Cells
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.families.crossed_plans import find_tables
from leastnoise.planning.families.merged import cells_in_time, queries_over_kinds
from leastnoise.planning.families.proposals import from_rows, nothing_asked, scaled_note
from leastnoise.planning.method import (
    Method,
    Request,
    SearchResult,
    choice_option,
    dense_needs,
    heuristic,
    refuse_many_cells,
    whole_option,
)
from leastnoise.planning.p_identity.coarse_to_fine import (
    FAINT,
    FLAT,
    MOST,
    Effort,
    default_starts,
    default_steps,
    search,
)
from leastnoise.planning.p_identity.objective_function import (
    covariance_of,
    problem_of,
    rows_of,
    sums_asked,
    total_and_gradient,
)
from leastnoise.query import Workload
from leastnoise.solver import Backend, StopDescent, load_backend, minimise_smooth
from leastnoise.strategy import GRID_TOLERANCE, Basis, RealStrategy

# Operations of all steps with caps together, some seconds of one core: 400 steps for 256 cells.
_CAPPED_OPERATIONS = 3e10

# Steps with caps at least, however long one takes.
_FEWEST_CAPPED_STEPS = 40

# Each smooth function of the variances takes this share of the steps.
_STAGE_SHARE = 1 / 8

# Powers that approach a maximum, one after the other.
POWERS = (2.0, 6.0, 20.0, 60.0, 200.0, 600.0)

# Rounds in which multipliers of the caps are adjusted.
_ROUNDS = 12

# The first penalty κ for a missed cap, in units of the total at the start.
_PENALTY = 1.0

# Variances are kept this much below their caps: multipliers come so close, and rounding needs less.
_BELOW_CAPS = 1e-4

# Up to this many cells all pairs of columns are compared at every step, in 30 ms; beyond, columns are taken
# to differ by as much as they can.
_COMPARED_CELLS = 512

# Decimals to which caps are compared with the tightest one while the largest share is lowered: caps that
# differ by a common factor are then the same numbers, and the search takes the same steps.
_CAP_DECIMALS = 12


@dataclass(frozen=True, eq=False)
class PointWithinCaps:
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


class CappedSearch:
    """The search with caps: smooth functions of all variances, minimised one after another.

    Every point met is judged by the objective itself and the best is kept, whatever the functions say.
    """

    def __init__(self, request: Request, cells: Cells, effort: Effort, arrays: Backend) -> None:
        self.request, self.effort, self.arrays = request, effort, arrays
        workload, objective = request.workload, request.objective
        self.workload, self.cells = queries_over_kinds(workload, cells)
        caps = objective.caps(workload)
        assert caps is not None
        self.is_within = objective.kind == "total-within-caps"
        self.inverse_caps = np.where(np.isfinite(caps), 1 / caps, 0.0)
        self.relative_caps = relative_caps(caps)
        self.weights = objective.weights(workload)
        budget = float(request.privacy.column_budget)
        # Continuous noise has a little more variance than what is measured; for the largest no unit matters.
        self.unit_noise = 2 / budget / budget if self.is_within else 1.0
        self.best: PointWithinCaps | None = None
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
        if not self.request.privacy.relation.replaces:
            return self.unit_noise
        return self.unit_noise * largest_difference(rows_of(theta)) ** 2

    def meet(self, theta: Array, unit_variances: Array, p: Array) -> None:
        """Keep a point if it is the best so far."""
        v = self.noise(theta) * unit_variances
        excess = max(float(self.shares(v).max()), 1.0) if self.is_within else 1.0
        met = PointWithinCaps(theta, p, self.request.objective.value(self.request.workload, v), excess)
        if self.best is None or met.rank < self.best.rank:
            self.best = met

    def unit_variances(self, theta: Array) -> Array:
        """The variance of every query per unit of noise."""
        return variances(self.workload, covariance_of(theta), self.cells)

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
            problem = problem_of(self.workload, p, self.cells, self.arrays)
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

    def find(self, generator: np.random.Generator) -> PointWithinCaps:
        """The best point."""
        w = self.weights
        # Relative to the tightest, weights by caps are the same for caps that differ by a common factor.
        first = w if self.is_within else self.relative_caps
        problem = problem_of(self.workload, first, self.cells, self.arrays)
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


def capped_steps(request: Request, n: int, most: int) -> int:
    """How many steps the search with caps takes over n kinds of cells: fewer where each takes long."""
    operator = request.workload.operator
    m = operator.shape[0]
    each = 2.0 * n**3 + m * n * (1.0 if operator.is_quick else float(n))
    return max(_FEWEST_CAPPED_STEPS, min(most, round(_CAPPED_OPERATIONS / each)))


def relative_caps(caps: Array) -> Array:
    """One over each cap as a share of the tightest, zero for queries without one."""
    inverse = np.where(np.isfinite(caps), 1 / caps, 0.0)
    return np.asarray(np.round(inverse / float(inverse.max()), _CAP_DECIMALS))


def largest_difference(A: Array) -> float:
    """The largest L1 norm of a column and of a difference of two; an upper bound beyond _COMPARED_CELLS."""
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


def known_total(request: Request) -> float:
    """What other methods have reached, as a total variance per unit of noise; infinite where none has."""
    if request.known is None or request.privacy.relation.replaces:
        return math.inf
    budget = float(request.privacy.column_budget)
    return request.known * budget * budget / 2


# The Gram matrix and a pseudo-inverse of n by n are held; at this size the latter takes minutes.
MAX_CELLS = 4_096

# Bits to which entries of at most 1 are rounded, at most: their sums stay within 62.
_MOST_BITS = 48

# Starts that may be asked for; more are a mistake.
_MOST_STARTS = 10_000

# Steps that may be asked for; more are a mistake.
_MOST_STEPS = 10**9

# Threads that may be asked for; more are a mistake.
_MOST_WORKERS = 1_024


def whole_rows(A: Array, cells: Cells) -> RealStrategy:
    """The rows A over kinds of cells, in whole numbers fine enough that rounding costs about 1e-8.

    The smallest entry of the identity's rows bounds the weakest direction of A from below. Where that
    says nothing, because sums have taken over from cells, singular values tell.
    """
    weakest = float(np.diag(A).min())
    bits = math.ceil(math.log2(math.sqrt(A.size / 12) / max(weakest, 1e-300) / GRID_TOLERANCE))
    if bits <= _MOST_BITS:
        rows = np.rint(np.ldexp(A, bits)).astype(np.int64)
    else:
        rows = from_rows(A, Basis(None, A.shape[1])).coefficients
    return RealStrategy(rows[np.abs(rows).max(axis=1) > 0], merging(cells))


def merging(cells: Cells) -> Array | None:
    """The 0/1 rows that add up the cells of each kind, None where all differ."""
    if cells.are_all:
        return None
    return np.rint(cells.spread(np.eye(len(cells.first)))).astype(np.int64)


def _refuses(request: Request) -> str | None:
    n = request.workload.shape[1]
    if not request.privacy.noise.is_pure:
        return "it is for Laplace noise (PureDP), and this goal allows Gaussian noise"
    return refuse_many_cells(n, MAX_CELLS)


def _whole(request: Request, name: str, most: int) -> int | None:
    """A whole number that may be left out."""
    value = P_IDENTITY.option(request, name)
    return None if value is None else whole_option(name, value, most=most)


def _find(request: Request) -> SearchResult:
    workload = request.workload
    steps = whole_option("iterations", P_IDENTITY.option(request, "iterations"), most=_MOST_STEPS)
    seed = whole_option("seed", P_IDENTITY.option(request, "seed"), least=0, most=2**128)
    # A sum for every cell beside the cells is more than any search has kept.
    p = _whole(request, "p", workload.shape[1])
    starts, workers = _whole(request, "starts", _MOST_STARTS), _whole(request, "workers", _MOST_WORKERS)
    sums = choice_option("sums", P_IDENTITY.option(request, "sums"), ("best", "any", "tables"))
    nothing = nothing_asked(request)
    if nothing is not None:
        return nothing
    tables = None if sums == "any" else find_tables(request)
    if sums == "tables":
        if tables is None:
            raise MethodError(
                'sums="tables" is for the total variance of cross tables of few attributes; leave it out',
                field="sums",
                given=sums,
            )
        return tables[0]
    generator, arrays = np.random.default_rng(seed), load_backend(request.backend)
    cells = cells_in_time(request)
    if starts is None:
        starts = default_starts(len(cells.first))
    if workers is None and request.backend != "numpy":
        # The device works on one start at a time in any case.
        workers = 1
    effort = Effort(p, starts, steps, request.deadline, workers)
    weights = None
    if request.objective.kind == "total":
        asked, kinds = queries_over_kinds(workload, cells)
        problem = problem_of(asked, request.objective.weights(workload), kinds, arrays)
        if "iterations" not in request.options:
            effort = replace(effort, steps=default_steps(problem, steps))
        effort = replace(effort, known=known_total(request) / problem.unit)
        point = search(problem, effort, generator, sums_asked(asked, kinds))
        ended = point.ended
        if tables is not None:
            found, total = tables
            ended = worst_ending([found.ended, ended])
            if total < point.value * problem.unit * (1 - FLAT):
                return replace(found, ended=ended)
        theta = point.theta
    else:
        if "iterations" not in request.options:
            effort = replace(effort, steps=capped_steps(request, len(cells.first), steps))
        met = CappedSearch(request, cells, effort, arrays).find(generator)
        theta, weights, ended = met.theta, met.p, met.ended
    sought = np.count_nonzero(theta.any(axis=0))
    note = f"every cell and {sought:,} weighted sums of cells, {starts:,} starts"
    return heuristic(request, whole_rows(rows_of(theta), cells), note + scaled_note(request), ended, weights)


P_IDENTITY = Method(
    "p-identity",
    f"every cell and p weighted sums of cells, for Laplace noise, up to {MAX_CELLS:,} cells",
    _refuses,
    _find,
    {
        "p": (None, "sums of cells; about one for 12 to 21 cells unless given, whatever serves best"),
        "starts": (None, "starts tried; 24 unless given, fewer beyond 512 cells"),
        "iterations": (1000, "steps of L-BFGS-B for the start that goes on to the end"),
        "seed": (0, "of the starts"),
        "sums": ("best", "any weighted sums, whole cross tables of attributes (tables), or the best of both"),
        "workers": (None, "threads that share the starts; one unless given, all cores where that is quicker"),
    },
    is_quick=False,
    needs=dense_needs(held=7, first=4, step=1, rounded=1.1),
)
