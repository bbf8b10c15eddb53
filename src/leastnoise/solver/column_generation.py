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


# Solves for the columns of a set, given by their positions, from weights to start with, to a gap. The root is
# M, (r, k), and q weighs the columns of the set; what is achieved grows in proportion to the noise.
SolveSome = Callable[[Array, Array | None, float], Optimum]


def generate_columns(
    columns: ColumnSource,
    solve: SolveSome,
    run: Run,
    *,
    joining: int = _JOINING,
    mostly_known: float = _MOSTLY_KNOWN,
) -> Optimum:
    """The optimum over all columns from those of working sets.

    Args:
        joining: columns that join in the first round for each direction.
        mostly_known: the share of new columns up to which a round starts with the weights of the last.

    Returns:
        M, (k, k), for root, scaled so that no column costs more than 1, and weights of all columns.
    """
    k, d = columns.shape
    working = _first_working_set(columns, joining)
    best: Optimum | None = None
    start: Array | None = None
    aim = _FIRST_GAP
    steps, tol, watch = 0, run.tol, run.watch
    for _ in range(MAX_ROUNDS):
        found = solve(working, start, aim)
        steps += found.steps
        prices = columns.prices(found.root)
        excess = float(prices.max())
        q = np.zeros(d)
        q[working] = found.q
        whole = replace(
            found, roots=[found.root / math.sqrt(excess)], q=q, achieved=found.achieved * excess, steps=steps
        )
        best = whole if best is None else whole.better_of(best)
        watch.tell(steps, best.gap)
        if best.gap <= tol:
            return _ended(best, run, "converged")
        if watch.deadline.is_past:
            return _ended(best, run, "deadline")
        over = max(excess - 1, aim)
        violated = _violated(prices, working, joining * k, over, tol)
        if len(violated) == 0 and aim <= tol / 4:
            return _ended(best, run, found.ended)
        kept = working[prices[working] > 1 - _FAR * over]
        kept = _spanning(columns, kept, working)
        working = np.union1d(kept, violated)
        is_known = len(violated) <= mostly_known * len(working)
        start = q[working] if is_known else None
        aim = _next_aim(excess - 1, tol) if len(violated) else tol / 4
    assert best is not None
    return _ended(best, run, "exhausted")


def _ended(best: Optimum, run: Run, ended: Ended) -> Optimum:
    return replace(best, has_converged=best.gap <= run.tol, seconds=run.watch.seconds, ended=ended)


def least_total_of_many(R: Array, run: Run) -> Optimum:
    """The noise of least total variance with profile at most 1, for R (k, d) with many columns.

    As `least_total`, by columns that are generated.
    """
    found = generated_total(ArrayColumns(R), run)
    return replace(found, roots=[found.root @ R])


def least_total_of_many_pairs(R: Array, run: Run) -> Optimum:
    """The same for all columns r_i and r_i − r_j, as `least_total` of `Pairs`."""
    device = load_backend(run.backend)
    found = generated_total(Pairs(device.matrix(R), device), run)
    return replace(found, roots=[found.root @ R])


def generated_total(columns: ColumnSource, run: Run) -> Optimum:
    """The noise of least total variance with profile at most 1 for any columns.

    The interior-point method solves working sets: it has no trouble with columns that need no weight.
    """

    def solve(working: Array, start: Array | None, aim: float) -> Optimum:
        chosen = columns.take(working)
        own = replace(run, tol=aim, watch=Watch(run.watch.deadline))
        found = least_total_by_path([chosen], own, start=start)
        how = "interior-point method with generated columns"
        return replace(found, roots=[_root_of(found.root, chosen)], how=how)

    return generate_columns(columns, solve, run)


def _next_aim(over: float, tol: float) -> float:
    """The gap for the next round after one whose largest violation was this."""
    if over < _NEARLY_DONE * tol:
        # It may be the last: what it lacks would take a whole round more.
        return tol / 4 if over < tol else tol / 2
    return min(_TIGHTER * over, _FIRST_GAP)


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
