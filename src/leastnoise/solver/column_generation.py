"""Few directions and many columns: solve for some columns, price all others, add those that are violated.

With k directions at most k(k + 1)/2 columns need a weight, however many there are. So a problem is solved for
a working set of columns, whose weights prove a bound for all, and one pass over all columns finds the profile

    u_i = ‖M r_i‖²,   MᵀM = Σ⁻¹ in the coordinates of the columns r_i

of the noise found. Where no u_i exceeds 1 the noise is optimal for all columns; otherwise the worst join, and
idle ones leave. Scaled by max u, the noise of every round keeps all constraints, so that both sides of the
optimum are known after each of them.

The working set spans all directions: noise found without one would price the columns along it at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from leastnoise.core.backend import load_backend
from leastnoise.core.deadline import Watch
from leastnoise.core.numerical_rank import spanning_columns
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.capped import Run, least_total_by_path
from leastnoise.solver.maps import Pairs
from leastnoise.solver.optimum import Optimum

# Rounds, at most.
MAX_ROUNDS = 100

# Columns that join in the first round for each direction; in later rounds, a share of the working set.
_JOINING = 4

# Of the working set, the share that joins at most.
_GROWTH = 0.5

# The gap of the first round, and the largest of later ones. Which columns are violated shows long before the
# noise is precise: 96 directions over 93,000 columns take 8.2 s, and 13.9 s where rounds aim at 1e-3.
_FIRST_GAP = 2e-2

# A round after which no column exceeds its profile by more than this many times the gap asked for is the last
# but one, as a rule.
_NEARLY_DONE = 20.0

# Later rounds aim at this share of the largest violation.
_TIGHTER = 0.2

# A column whose profile is below 1 by more than this many times the largest violation leaves.
_FAR = 20.0

# Where at most this share of the working set is new, the weights of the last round are taken to start with.
_MOSTLY_KNOWN = 0.1

# Columns of the first sample for each direction.
_SAMPLED = 16

# What the Gram matrix of the sample is raised by, of its mean: columns that it does not span become dear.
_LIFT = 1e-9


class ColumnSource(Protocol):
    """Columns r_i in k coordinates, (k, d), of rank k."""

    @property
    def shape(self) -> tuple[int, int]:
        """(k, d): directions and columns."""

    def take(self, index: Array) -> Array:
        """Some of them, (k, len(index))."""

    def prices(self, M: Array) -> Array:
        """‖M r_i‖² for every column, (d,); M is (r, k)."""


@dataclass(frozen=True, eq=False)
class ArrayColumns:
    """Columns held as an array."""

    entries: Array  # (k, d)

    @property
    def shape(self) -> tuple[int, int]:
        """(k, d)."""
        return self.entries.shape[0], self.entries.shape[1]

    def take(self, index: Array) -> Array:
        """Some of them."""
        return np.asarray(self.entries[:, index])

    def prices(self, M: Array) -> Array:
        """‖M r_i‖² for every column."""
        return np.asarray(((M @ self.entries) ** 2).sum(axis=0))


@dataclass(frozen=True, eq=False)
class RoundResult:
    """What a solver found for the columns of a working set.

    Attributes:
        root: M, (r, k).
        q: the weights of the columns of the set.
        achieved: what the noise reaches with profile 1 at most on the set.
        lower_bound: what the weights prove.
    """

    root: Array
    q: Array
    achieved: float
    lower_bound: float
    steps: int
    ended: Ended


# Solves for the columns of a set, given by their positions, from weights to start with, to a gap.
SolveSome = Callable[[Array, Array | None, float], RoundResult]


@dataclass(frozen=True, eq=False)
class Generated:
    """The best of all rounds.

    Attributes:
        M: the root of the precision, (k, k), scaled so that no column costs more than 1.
        index: the columns of the last working set that have weights.
        q: their weights.
        excess: the largest profile of all columns when those of the working set kept to 1.
    """

    M: Array
    index: Array
    q: Array
    achieved: float
    lower_bound: float
    excess: float
    steps: int
    rounds: int
    ended: Ended

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return self.achieved / self.lower_bound - 1 if self.lower_bound > 0 else math.inf


def generate_columns(
    columns: ColumnSource,
    solve: SolveSome,
    *,
    tol: float,
    watch: Watch,
    most_excess: float = math.inf,
    joining: int = _JOINING,
    mostly_known: float = _MOSTLY_KNOWN,
) -> Generated:
    """The optimum over all columns from those of working sets.

    Args:
        solve: finds noise for some columns; its numbers grow in proportion to the scale of the noise.
        tol: the relative gap at which to stop.
        most_excess: how far beyond 1 a profile may be at the end, where noise cannot simply be scaled.
        joining: columns that join in the first round for each direction.
        mostly_known: the share of new columns up to which a round starts with the weights of the last.
    """
    k, d = columns.shape
    working = _first_working_set(columns, joining)
    best: Generated | None = None
    start: Array | None = None
    aim = _FIRST_GAP
    steps = 0
    for number in range(1, MAX_ROUNDS + 1):
        found = solve(working, start, aim)
        steps += found.steps
        prices = columns.prices(found.root)
        excess = float(prices.max())
        best = _better(best, found, working, excess, steps, number)
        watch.tell(steps, best.gap)
        if best.gap <= tol and excess <= 1 + most_excess:
            return replace(best, ended="converged")
        if watch.deadline.is_past:
            return replace(best, ended="deadline")
        over = max(excess - 1, aim)
        violated = _violated(prices, working, joining * k, over, tol)
        if len(violated) == 0 and aim <= tol / 4:
            return replace(best, ended=found.ended)
        kept = working[prices[working] > 1 - _FAR * over]
        kept = _spanning(columns, kept, working)
        following = np.union1d(kept, violated)
        is_known = len(violated) <= mostly_known * len(following)
        start = _weights_to_start(d, working, found.q, following) if is_known else None
        working = following
        aim = _next_aim(excess - 1, tol) if len(violated) else tol / 4
    assert best is not None
    return best


def least_total_of_many(R: Array, run: Run) -> Optimum:
    """The noise of least total variance with profile at most 1, for R (k, d) with many columns.

    As `least_total`, by columns that are generated.
    """
    found, q = _least_total(ArrayColumns(R), run)
    return _solution(found, found.M @ R, q, run)


def least_total_of_many_pairs(R: Array, run: Run) -> Optimum:
    """The same for all columns r_i and r_i − r_j, as `least_total` of `Pairs`."""
    device = load_backend(run.backend)
    found, q = _least_total(Pairs(device.matrix(R), device), run)
    return _solution(found, found.M @ R, q, run)


def _least_total(columns: ColumnSource, run: Run) -> tuple[Generated, Array]:
    """The best noise, and weights of all columns."""
    found = generated_total(columns, run)
    q = np.zeros(columns.shape[1])
    q[found.index] = found.q
    return found, q


def generated_total(columns: ColumnSource, run: Run) -> Generated:
    """The noise of least total variance with profile at most 1 for any columns.

    The interior-point method solves working sets: it has no trouble with columns that need no weight.
    """

    def solve(working: Array, start: Array | None, aim: float) -> RoundResult:
        chosen = columns.take(working)
        found = least_total_by_path(
            [chosen], replace(run, tol=aim, watch=Watch(run.watch.deadline)), start=start
        )
        M = _root_of(found.strategy, chosen)
        return RoundResult(M, found.q, found.achieved, found.lower_bound, found.steps, found.ended)

    return generate_columns(columns, solve, tol=run.tol, watch=run.watch)


def _solution(found: Generated, root: Array, q: Array, run: Run) -> Optimum:
    return Optimum(
        roots=[root],
        q=q,
        achieved=found.achieved,
        lower_bound=found.lower_bound,
        has_converged=found.gap <= run.tol,
        steps=found.steps,
        seconds=run.watch.seconds,
        ended=found.ended,
        how="interior-point method with generated columns",
    )


def _next_aim(over: float, tol: float) -> float:
    """The gap for the next round after one whose largest violation was this."""
    if over < _NEARLY_DONE * tol:
        # It may be the last: what it lacks would take a whole round more.
        return tol / 4 if over < tol else tol / 2
    return min(_TIGHTER * over, _FIRST_GAP)


def _weights_to_start(d: int, working: Array, q: Array, following: Array) -> Array:
    """Weights of the next working set from those of this one."""
    weights = np.zeros(d)
    weights[working] = q
    return weights[following]


def _better(
    best: Generated | None,
    found: RoundResult,
    working: Array,
    excess: float,
    steps: int,
    number: int,
) -> Generated:
    """The best of both sides so far."""
    achieved = found.achieved * excess
    M, index, q, bound = found.root / math.sqrt(excess), working, found.q, found.lower_bound
    if best is not None:
        if best.achieved < achieved:
            M, achieved = best.M, best.achieved
        if best.lower_bound > bound:
            index, q, bound = best.index, best.q, best.lower_bound
    return Generated(M, index, q, achieved, bound, excess, steps, number, "exhausted")


def _violated(prices: Array, working: Array, joining: int, over: float, tol: float) -> Array:
    """Columns outside the working set that join: the worst, and near the end those next to them too."""
    outside = np.ones(len(prices), dtype=bool)
    outside[working] = False
    if not (prices[outside] > 1 + tol / 8).any():
        return np.zeros(0, dtype=np.intp)
    worst = np.flatnonzero(outside & (prices > 1 - over))
    most = max(joining, int(_GROWTH * len(working)))
    if len(worst) > most:
        worst = worst[np.argpartition(-prices[worst], most)[:most]]
    return worst


def _root_of(strategy: Array, chosen: Array) -> Array:
    """M with M · chosen = strategy."""
    from scipy import linalg

    # Of unit length, so that strong columns do not hide what weak ones tell.
    Q, triangle = linalg.qr(chosen.T, mode="economic", check_finite=False)
    return np.asarray(linalg.solve_triangular(triangle, (strategy @ Q).T, check_finite=False).T)


def _whitening(gram: Array) -> Array:
    """A root of the inverse of a Gram matrix, (k, k)."""
    from scipy import linalg

    values, vectors = linalg.eigh(gram)
    values = np.maximum(values, np.finfo(float).eps * len(values) * values[-1])
    return np.asarray((vectors / np.sqrt(values)).T)


def _first_working_set(columns: ColumnSource, joining: int) -> Array:
    """Columns that span all directions, and those that would cost most under equal weights."""
    k, d = columns.shape
    sample = np.random.default_rng(0).permutation(d)[: max(_SAMPLED * k, 1024)]
    some = columns.take(sample)
    pivots, basis = spanning_columns(some)
    # Leverage, in the coordinates of a sample.
    gram = some @ some.T
    prices = columns.prices(_whitening(gram + _LIFT * np.trace(gram) / k * np.eye(k)))
    size = min(d, max(joining * k, 64))
    dearest = np.argpartition(-prices, size - 1)[:size]
    working = np.union1d(sample[pivots], dearest)
    # What no column of the sample has, a few columns may.
    while basis.shape[1] < k:
        shares = columns.prices(np.eye(k) - basis @ basis.T) / prices
        candidates = np.argpartition(-shares, min(d, _JOINING * k) - 1)[: _JOINING * k]
        pivots, wider = spanning_columns(columns.take(candidates), basis)
        if len(pivots) == 0:
            break
        working, basis = np.union1d(working, candidates[pivots]), wider
    return working


def _spanning(columns: ColumnSource, kept: Array, pool: Array) -> Array:
    """`kept`, and columns of the pool that span what it leaves out."""
    k = columns.shape[0]
    basis = _spanned_by(columns, kept, np.zeros((k, 0)))[1]
    if basis.shape[1] == k:
        return kept
    return np.union1d(kept, _spanned_by(columns, pool, basis)[0])


def _spanned_by(columns: ColumnSource, some: Array, basis: Array) -> tuple[Array, Array]:
    """Those of some columns that span what all do beside a basis, and an orthonormal basis of all then.

    A few at a time: mostly the first span everything, and factors of all would take gigabytes.
    """
    k = columns.shape[0]
    found = [np.zeros(0, dtype=some.dtype)]
    step = max(_SAMPLED * k, 1024)
    for start in range(0, len(some), step):
        if basis.shape[1] == k:
            break
        own = some[start : start + step]
        pivots, basis = spanning_columns(columns.take(own), basis)
        found.append(own[pivots])
    return np.concatenate(found), basis
