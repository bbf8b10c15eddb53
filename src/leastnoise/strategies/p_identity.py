"""p-identity strategies for Laplace noise: every cell, and p weighted sums of cells.

    A = [ I ] diag(1/s),   s_i = 1 + Σ_r Θ_ri,   Θ ≥ 0, (p, n)
        [ Θ ]

Every column of A has an L1 norm of 1, whatever Θ, so that the total variance is a smooth function of Θ
with no constraint but Θ ≥ 0, and A has full rank, whatever the queries. With V the weighted Gram matrix,
V' = diag(s) V diag(s) and K = I + ΘΘᵀ, by Woodbury's identity

    trace V (AᵀA)⁻¹ = Σ_i V_ii s_i² − trace K⁻¹ Θ V' Θᵀ                                               (1)

costs one product of V with p columns and O(n p²). It is minimised by L-BFGS-B from random Θ. It is not
convex: several starts are tried, and those that look best after an eighth of their steps go on.

Where only cross tables of attributes are asked, whole tables as sums with one weight each are tried too; see
`weighted_marginals`. Cells that no query tells apart are measured as one, and cells that no query counts
not at all.

The largest variance is approached by powers, (Σ_j (v_j/c_j)^a)^(1/a) with rising a, and caps on variances
by multipliers with a penalty. Both are smooth functions of the variances; their derivatives by v_j are the
weights of the queries with which (1) gives the derivative by Θ. The best point met on the way is taken.

Reference:
    McKenna, Miklau, Hay and Machanavajjhala (2018), Optimizing error of high-dimensional statistical
    queries under differential privacy, section 5.2, where the family is introduced.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from leastnoise.errors import MethodError
from leastnoise.operators import Array, RowScaled
from leastnoise.progress import Progress
from leastnoise.rowspace import Basis, integer_basis
from leastnoise.strategies.arrays import NUMPY, Arrays, load_arrays
from leastnoise.strategies.cells import Cells, distinct_cells
from leastnoise.strategies.method import Found, Method, Request, refuse_many_cells, uniform_weights
from leastnoise.strategies.options import whole_option
from leastnoise.strategies.proposals import from_rows, nothing_asked, scaled_note
from leastnoise.strategies.weighted_marginals import find_tables
from leastnoise.strategy import GRID_TOLERANCE, RealStrategy
from leastnoise.workload import Workload

# The Gram matrix and a pseudo-inverse of n by n are held; at this size the latter takes minutes.
MAX_CELLS = 4_096

# Sums of cells beside the cells: one for every so many cells, but so many where there are as many cells.
_CELLS_PER_SUM, _LEAST_SUMS = 16, 4

# Starts where none are asked for: so many at most, fewer where one takes long.
_MOST_STARTS, _STARTS_TIMES_CELLS = 4, 2_048

# Intervals of cells that a start consists of stand out this much from what else is in it. From such starts
# prefix sums of 256 cells end at 26.86 to 26.99 per query, from entries in (0, 1) at 26.85 to 27.7; all
# ranges of them end alike.
_FAINT = 0.1

# Each start takes this share of the steps; then the better ones, this share of all, take the others.
_TRIAL_SHARE, _KEPT_SHARE = 1 / 8, 1 / 4

# Each smooth function of the variances takes this share of the steps.
_STAGE_SHARE = 1 / 8

# Powers that approach a maximum, and the rounds and the first penalty for caps.
_POWERS = (2.0, 6.0, 20.0, 60.0, 200.0, 600.0)
_ROUNDS, _PENALTY = 12, 1.0

# Variances are kept this much below their caps: multipliers come so close, and rounding needs less.
_BELOW_CAPS = 1e-4

# Entries of at most 1 rounded to so many bits add up within 62.
_MOST_BITS = 48

# Θ up to here: beyond, sums have taken over from cells, and the difference in (1) loses its digits. With no
# such bound, prefix sums of 4 cells ended where rounding alone made (1) small.
_MOST = 1e3

# L-BFGS keeps so many pairs of steps and gradients, and stops where a step gains less than this share.
_PAIRS, _FLAT = 10, 1e-9


@dataclass(frozen=True, eq=False)
class Problem:
    """Which total of variances is sought, over cells that queries tell apart.

    Attributes:
        gram_times: V X for X of shape (n, c), on the arrays.
        diagonal: the diagonal of V, (n,), on the arrays.
        unit: by which V was divided.
    """

    gram_times: Callable[[Any], Any]
    diagonal: Any
    unit: float
    arrays: Arrays = NUMPY

    @property
    def n(self) -> int:
        """How many cells there are."""
        return len(self.diagonal)


def problem_of(workload: Workload, weights: Array, cells: Cells, arrays: Arrays = NUMPY) -> Problem:
    """The weighted total of the queries' variances.

    Queries that are quick to apply and no more than twice as many as the cells are used as they are; of
    others, and on other devices, the Gram matrix. For all ranges of 1,024 cells and 64 sums an H200 takes
    2 s for 200 steps, the processor beside it 28 s; for 4,096 cells L-BFGS-B itself, which stays on the
    processor, takes most of the time.
    """
    W = workload.operator
    m, n = W.shape
    if arrays is NUMPY and cells.are_all and W.is_quick and m <= 2 * n:
        weighted = RowScaled(W, np.sqrt(weights))
        diagonal = weighted.column_norms(2) ** 2
        unit = float(diagonal.mean())
        return Problem(lambda X: weighted.adjoint(weighted.apply(X)) / unit, diagonal / unit, unit)
    V = workload.weighted_gram(weights)
    if not cells.are_all:
        V = V[np.ix_(cells.first, cells.first)]
    unit = float(np.trace(V)) / len(V)
    held = arrays.matrix(V / unit)
    return Problem(lambda X: held @ X, arrays.matrix(np.diag(V) / unit), unit, arrays)


def total_and_gradient(problem: Problem, theta: Any) -> tuple[float, Any]:
    """(1) divided by the problem's unit, and its gradient, for Θᵀ of shape (n, p).

    With T = Θᵀ, C = K⁻¹ and G = V' T the derivative by T at fixed s is −2(GC − TC(GᵀTC)), and by s_i it
    is 2/s_i times entry i of the diagonal of V' (I + TTᵀ)⁻¹ = V' − G C Tᵀ.
    """
    arrays, T = problem.arrays, theta
    s = 1 + T.sum(1)
    K = T.T @ T
    arrays.add_to_diagonal(K, np.ones(T.shape[1]))
    C = arrays.inverse(K)
    if C is None:  # not finite: the line search went too far
        return math.inf, T
    TC = T @ C
    G = s[:, None] * problem.gram_times(s[:, None] * T)
    left = problem.diagonal * s * s - (G * TC).sum(1)
    gradient = 2 * (TC @ (G.T @ TC) - G @ C)
    gradient += (2 * left / s)[:, None]
    return float(left.sum()), gradient


class _OutOfTime(Exception):
    pass


@dataclass(frozen=True, eq=False)
class Point:
    """Θᵀ, (n, p), and (1) there in the problem's unit."""

    theta: Array
    value: float


def descend(problem: Problem, start: Array, steps: int, deadline: float = math.inf) -> Point:
    """The best point that L-BFGS-B meets from a start, until the deadline of `time.monotonic`."""
    from scipy import optimize

    shape, arrays = start.shape, problem.arrays
    best = [Point(start, math.inf)]

    def evaluate(x: Array) -> tuple[float, Array]:
        value, gradient = total_and_gradient(problem, arrays.matrix(x.reshape(shape)))
        if value < best[0].value:
            best[0] = Point(x.reshape(shape).copy(), value)
        if time.monotonic() > deadline:
            raise _OutOfTime
        return value, arrays.numpy(gradient).reshape(-1)

    with suppress(_OutOfTime):
        optimize.minimize(
            evaluate,
            start.reshape(-1),
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(0, _MOST),
            options={"maxiter": steps, "maxfun": 2 * steps + 20, "maxcor": _PAIRS, "ftol": _FLAT, "gtol": 0},
        )
    return best[0]


@dataclass(frozen=True)
class Effort:
    """How much is tried: sums beside the cells, starts, steps of each, until when."""

    p: int
    starts: int
    steps: int
    deadline: float = math.inf

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        return time.monotonic() > self.deadline

    @property
    def middle(self) -> float:
        """When half of the time that is left now will have passed."""
        now = time.monotonic()
        return now + (self.deadline - now) / 2


def search(problem: Problem, effort: Effort, generator: np.random.Generator) -> Point:
    """The best point from several random starts, and Θ = 0."""
    trial = max(1, math.ceil(effort.steps * _TRIAL_SHARE))
    middle = effort.middle
    # Θ = 0, noise on every cell, which the others only come near to.
    tried = [Point(np.zeros((problem.n, effort.p)), float(problem.diagonal.sum()))]
    for number in range(effort.starts):
        start = _random_start(number, problem.n, effort.p, generator)
        tried.append(descend(problem, start, trial, effort.deadline))
        # At least half of the time is for the starts that go on.
        if time.monotonic() > middle:
            break
    tried.sort(key=lambda point: point.value)
    kept = [point for point in tried if point.theta.any()][: math.ceil(effort.starts * _KEPT_SHARE)]
    for point in kept:
        if not effort.is_over and effort.steps > trial:
            tried.append(descend(problem, point.theta, effort.steps - trial, effort.deadline))
    return min(tried, key=lambda point: point.value)


def _random_start(number: int, n: int, p: int, generator: np.random.Generator) -> Array:
    """Θᵀ, (n, p): entries in (0, 1), and intervals of cells, in turn."""
    start = generator.random((n, p))
    return start if number % 2 == 0 else _FAINT * start + _intervals(n, p, generator)


def _intervals(n: int, p: int, generator: np.random.Generator) -> Array:
    """p random intervals, as 0/1 columns over n cells, lengths spread evenly by their logarithm."""
    lengths = np.exp(generator.uniform(math.log(min(4, n)), math.log(n), p))
    centres = generator.uniform(0, n, p)
    return np.asarray(np.abs(np.arange(n)[:, None] - centres) < lengths / 2, dtype=float)


def rows_of(theta: Array) -> Array:
    """A, (n + p, n), for Θᵀ of shape (n, p); every column has an L1 norm of 1."""
    n = len(theta)
    return np.asarray(np.vstack([np.eye(n), theta.T]) / (1 + theta.sum(axis=1)))


def covariance_of(theta: Array) -> Array:
    """(AᵀA)⁻¹ = diag(s) (I − Θᵀ K⁻¹ Θ) diag(s), (n, n)."""
    n, p = theta.shape
    s = 1 + theta.sum(axis=1)
    inner = np.eye(n) - theta @ np.linalg.solve(np.eye(p) + theta.T @ theta, theta.T)
    return np.asarray(s[:, None] * inner * s)


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


def cells_of(workload: Workload) -> Cells:
    """The cells that the queries tell apart."""
    n = workload.shape[1]
    rows = integer_basis(workload).rows
    if rows is None:
        return Cells.all_of(n)
    return distinct_cells(rows.astype(float), np.asarray(workload.operator.column_norms(1) > 0))


# Largest variances and caps ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Met:
    """A point met on the way: the objective there, and by how much it misses a cap, 1 if none.

    The weights p of the queries are those for which it is nearly the best, for the bound.
    """

    theta: Array
    p: Array
    value: float
    excess: float

    @property
    def rank(self) -> tuple[float, float]:
        """Less is better: first the caps, then the objective."""
        return (self.excess, self.value)


# A smooth function of the variances and its derivatives by each of them.
_Smooth = Callable[[Array], tuple[float, Array]]


class _Capped:
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
        self.best: _Met | None = None
        self.started, self.stages = time.monotonic(), 0

    def shares(self, v: Array) -> Array:
        """The variances as shares of caps that leave room for rounding."""
        return np.asarray(v * self.inverse_caps / (1 - _BELOW_CAPS))

    def meet(self, theta: Array, v: Array, p: Array) -> None:
        """Keep a point if it is the best so far."""
        excess = max(float(self.shares(v).max()), 1.0) if self.is_within else 1.0
        met = _Met(theta, p, self.request.objective.value(self.request.workload, v), excess)
        if self.best is None or met.rank < self.best.rank:
            self.best = met

    def variances(self, theta: Array) -> Array:
        """The variance of every query, with the goal's own noise where caps are to be met."""
        return self.noise * _variances(self.request.workload, theta, self.cells)

    def descend(self, theta: Array, smooth: _Smooth, generator: np.random.Generator) -> Array:
        """Where L-BFGS-B ends with a function of the variances.

        A sum whose weights are all zero would stay so, whatever the function: it starts afresh.
        """
        from scipy import optimize

        theta = theta.copy()
        dead = ~theta.any(axis=0)
        theta[:, dead] = _FAINT * generator.random((len(theta), int(dead.sum())))
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
        with suppress(_OutOfTime):
            options = {"maxiter": steps, "maxfun": 2 * steps + 20, "ftol": _FLAT, "gtol": 0}
            bounds = optimize.Bounds(0, _MOST)
            x = theta.reshape(-1)
            optimize.minimize(evaluate, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        self.stages += 1
        if self.request.progress is not None:
            seconds = time.monotonic() - self.started
            self.request.progress(Progress(self.stages, math.inf, seconds))
        return last[0]

    def least_largest(self, theta: Array, generator: np.random.Generator) -> None:
        """Look for the least largest share by powers that approach the maximum."""
        for power in _POWERS:
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
                break

    def find(self, generator: np.random.Generator) -> _Met:
        """The best point."""
        w = self.weights
        problem = problem_of(self.request.workload, w, self.cells, self.arrays)
        point = search(problem, replace(self.effort, deadline=self.effort.middle), generator)
        for theta in (np.zeros_like(point.theta), point.theta):
            self.meet(theta, self.variances(theta), w)
        if self.is_within and self.best is not None and self.best.excess > 1:
            self.least_within(point.theta, generator)
        if not self.is_within or (self.best is not None and self.best.excess > 1):
            self.least_largest(point.theta, generator)
        assert self.best is not None
        # The weights beside a total are those that come on top of its own.
        p = np.maximum(self.best.p * (w.sum() / self.best.p.sum()) - w, 0) if self.is_within else self.best.p
        return replace(self.best, p=p)


def power_mean(inverse_caps: Array, power: float, v: Array) -> tuple[float, Array]:
    """log (Σ_j (v_j/c_j)^power) / power, which tends to log max_j v_j/c_j, and its derivatives by v."""
    shares = v * inverse_caps
    largest = float(shares.max())
    relative = (shares / largest) ** power
    total = float(relative.sum())
    derivative = np.divide(relative, v * total, out=np.zeros_like(v), where=shares > 0)
    return math.log(largest) + math.log(total) / power, derivative


def _variances(workload: Workload, theta: Array, cells: Cells) -> Array:
    """The variance of every query per unit of noise, (m,)."""
    Y = covariance_of(theta)
    if not cells.are_all:
        whole = np.zeros((workload.shape[1],) * 2)
        whole[np.ix_(cells.first, cells.first)] = Y
        Y = whole
    return np.maximum(workload.operator.quadratic(Y), 0)


# The method ----------------------------------------------------------------------------------


def _refuses(request: Request) -> str | None:
    n = request.workload.shape[1]
    if request.privacy.noise != "laplace":
        return "it weighs rows for Laplace noise, and the goal allows Gaussian noise"
    return refuse_many_cells(n, MAX_CELLS)


def default_sums(n: int) -> int:
    """How many sums of cells are measured beside n cells."""
    return max(-(-n // _CELLS_PER_SUM), min(n, _LEAST_SUMS))


def default_starts(n: int) -> int:
    """How many random starts are tried over n cells."""
    return max(1, min(_MOST_STARTS, _STARTS_TIMES_CELLS // n))


def _find(request: Request) -> Found:
    started = time.monotonic()
    steps = whole_option("iterations", P_IDENTITY.option(request, "iterations"))
    generator = np.random.default_rng(whole_option("seed", P_IDENTITY.option(request, "seed"), least=0))
    given_p, given_starts = P_IDENTITY.option(request, "p"), P_IDENTITY.option(request, "starts")
    p = None if given_p is None else whole_option("p", given_p)
    starts = None if given_starts is None else whole_option("starts", given_starts)
    sums = P_IDENTITY.option(request, "sums")
    if sums not in ("best", "any", "tables"):
        raise MethodError(f"sums must be best, any or tables, got {sums!r}")
    nothing = nothing_asked(request)
    if nothing is not None:
        return nothing
    found_tables = None if sums == "any" else find_tables(request)
    if sums == "tables":
        if found_tables is None:
            raise MethodError(
                'sums="tables" is for the total variance of cross tables of few attributes; leave it out'
            )
        return _found(request, found_tables[0], found_tables[2])
    arrays, workload = load_arrays(request.backend), request.workload
    cells = cells_of(workload)
    n = len(cells.first)
    effort = Effort(
        default_sums(n) if p is None else p,
        default_starts(n) if starts is None else starts,
        steps,
        math.inf if request.time_limit is None else started + request.time_limit,
    )
    weights = None
    if request.objective.kind == "total":
        problem = problem_of(workload, request.objective.weights(workload), cells, arrays)
        point = search(problem, effort, generator)
        if found_tables is not None and found_tables[1] < point.value * problem.unit:
            return _found(request, found_tables[0], found_tables[2])
        theta = point.theta
    else:
        met = _Capped(request, cells, effort, arrays).find(generator)
        theta, weights = met.theta, met.p
    late = ", stopped early" if effort.is_over else ""
    note = f"every cell and {effort.p:,} weighted sums of cells, {effort.starts} starts{late}"
    return _found(request, whole_rows(rows_of(theta), cells), note, weights)


def _found(request: Request, proposal: RealStrategy, note: str, p: Array | None = None) -> Found:
    return Found(proposal, uniform_weights(request.workload), "heuristic", note + scaled_note(request), p=p)


P_IDENTITY = Method(
    "p-identity",
    f"every cell and p weighted sums of cells, for Laplace noise, up to {MAX_CELLS:,} cells",
    _refuses,
    _find,
    {
        "p": (None, f"sums of cells; a {_CELLS_PER_SUM}th of the cells unless given, {_LEAST_SUMS} for few"),
        "starts": (None, f"random starts; {_MOST_STARTS} unless given, fewer beyond 512 cells"),
        "iterations": (1000, "steps of L-BFGS-B for each start that goes on"),
        "seed": (0, "of the random starts"),
        "sums": ("best", "any weighted sums, whole cross tables of attributes (tables), or the best of both"),
    },
    is_quick=False,
)
