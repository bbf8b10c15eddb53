"""The search for the sums of a p-identity strategy: many coarse starts, the best of them refined.

The total variance is not convex in Θ, so where a search begins decides where it ends. What the best
strategies of ordered cells look like is known, though: sums with weights like tents, each over some forty
cells and half over its neighbours, and above them a few wider ones. Starts are such tents, of several widths
and in several levels, and random sums beside them.

Tents need no resolution of single cells. Where neighbouring cells are much alike to the queries, Θ is first
sought that is the same on each block of cells, see `objective_function`; every start takes a few steps there
and the better ones more, then blocks are halved, Θ is interpolated, and fewer go on, until one is followed
to the end on the cells themselves. Prefix sums of 1,024 cells end at 45.29 per query in 6.5 s of one core,
and in the same time at 45.66 from random sums on the cells; of 2,048 cells at 57.6 and 61.2 in 22 s.

L-BFGS-B moves only entries of Θ that are positive or would become so, 5 % of them for 1,024 cells, and
looks again every few steps which these are.

Starts are independent of one another and of who works on them: the same seed gives the same rows with any
number of workers, unless a time limit ends the search.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.core.resources import threads_for_matrices_of
from leastnoise.planning.p_identity.objective_function import Problem, total_and_gradient
from leastnoise.solver import minimise_smooth

# Cells for each sum of cells beside the cells, unless given: starts differ within these limits.
_CELLS_PER_SUM = (12.5, 21.0)

# Sums of cells at least, where there are as many cells.
LEAST_SUMS = 4

# Cells for each sum of further starts, one of each in turn: sliding windows of 16 over 256 cells end at 3,569
# with the sums above and at 3,325 with one for about 9 cells.
_DENSER = (9.0, 6.5, 10.5, 5.0, 7.5)

# Starts for each further start.
_STARTS_PER_FURTHER = 2

# Sums of one level for each sum of the next, wider level: starts differ within these limits.
_SUMS_PER_WIDER = (9.0, 40.0)

# Height of the tents of the first level: together they weigh about as much as a cell.
_HEIGHT = 0.9

# Height of wider tents, which weigh less.
_WIDER_HEIGHT = 0.7

# Height of sums that are asked. Those of one width mostly end at one height or at none: months of 182 days at
# 0.26 each, and at none from a height of 0.6.
_ASKED_HEIGHT = 0.3

# The share of their height by which tents of one start differ from those of another of the same kind.
_UNEVEN = 0.1

# Intervals of cells that a random start consists of stand out this much from what else is in it.
FAINT = 0.1

# Starts at most, where no number is asked for.
_MOST_STARTS = 24

# Starts at least, however long one takes.
_FEWEST_STARTS = 4

# Starts times cells at most: from 512 cells on there are fewer starts, because each takes long.
_STARTS_TIMES_CELLS = 12_288

# Cells of a block at most.
_MOST_CELLS_PER_BLOCK = 4

# Blocks at least.
_FEWEST_BLOCKS = 64

# Blocks at least for each sum.
_BLOCKS_PER_SUM = 1.5

# Blocks of cells are tried where they are this much alike: all ranges 0.98, random 0/1 queries 0.6.
_ALIKE = 0.8

# Stages of the search: the share of the steps that each start takes, and of all starts that go on afterwards.
# On blocks:
_FIRST = (1 / 16, 1 / 3)

# On blocks once more:
_SECOND = (1 / 10, 1 / 4)

# On each finer division:
_FINER = (1 / 16, 1 / 4)

# On cells, where the best start alone goes on:
_CELLS = (1 / 10, 0.0)

# Entries of Θ from which threads gain: below, more time is spent between products than in them. On two
# cores two of 128 by 59 take longer together than one after the other, two of 1,024 by 59 take 0.6 of that.
_ENTRIES_PER_THREAD = 2**15

# Θ up to here: beyond, sums have taken over from cells, and the difference in (1) loses its digits. With no
# such bound, prefix sums of 4 cells ended where rounding alone made (1) small.
MOST = 1e3

# Pairs of steps and gradients that L-BFGS keeps; with 10 it takes as many steps and a fifth more time.
_PAIRS = 6

# L-BFGS stops where a step gains less than this share.
FLAT = 1e-9

# A search whose first stage ends this much above what another method has reached goes no further: later
# stages lower the total by a tenth at most.
_HOPELESS = 1.3

# Floating-point operations of all steps on the cells together, about a minute of one core: beyond it there
# are fewer steps, the same on every machine.
_OPERATIONS = 1.5e12

# Steps after which L-BFGS chooses anew which entries may move.
_ROUND = 30

# Fractions of an irrational pair of numbers cover a square evenly: Roberts (2018), the R2 sequence.
_EVENLY = (0.7548776662466927, 0.5698402909980532)


@dataclass(frozen=True, eq=False)
class SearchPoint:
    """Θᵀ, (n, p), its total variance in the problem's unit, and how the search that met it ended."""

    theta: Array
    value: float
    ended: Ended = "converged"


@dataclass(frozen=True)
class Effort:
    """How much is tried: sums beside the cells, starts, steps of the best, until when, and by how many.

    No number of sums leaves it to the starts, no number of workers to the size. `known` is the total that
    another method has reached, in the problem's unit: a search far above it ends early.
    """

    p: int | None
    starts: int
    steps: int
    deadline: Deadline = NEVER
    workers: int | None = None
    known: float = math.inf

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        return self.deadline.is_past

    @property
    def middle(self) -> Deadline:
        """When half of the time that is left now will have passed."""
        return self.deadline.share_of_rest(0.5)

    def with_middle(self) -> Effort:
        """The same until half of the time that is left will have passed."""
        return replace(self, deadline=self.middle)


def default_starts(n: int) -> int:
    """How many starts are tried over n cells."""
    return max(_FEWEST_STARTS, min(_MOST_STARTS, _STARTS_TIMES_CELLS // n))


def default_steps(problem: Problem, most: int) -> int:
    """How many steps the best start takes at most: fewer than `most` where each takes long."""
    n, p = problem.n, max(problem.n / _CELLS_PER_SUM[0], 1.0)
    # Without a matrix the Gram matrix is applied by running sums.
    product = 10 * n * p if problem.gram is None else 2 * n * n * p
    return max(1, min(most, round(_OPERATIONS / (product + 6 * n * p * p))))


def descend(problem: Problem, start: Array, steps: int, deadline: Deadline = NEVER) -> SearchPoint:
    """The best point that L-BFGS-B meets from a start, until the deadline.

    An entry that is zero and whose increase would raise the total stays so for a round of steps.
    """
    shape, arrays = start.shape, problem.arrays
    best = SearchPoint(start, math.inf)

    def evaluate(theta: Array) -> tuple[float, Array]:
        nonlocal best
        value, gradient = total_and_gradient(problem, arrays.matrix(theta))
        if value < best.value:
            best = SearchPoint(theta.copy(), value)
        return value, arrays.numpy(gradient)

    def follow(theta: Array, left: int) -> int:
        """Steps taken in one round; none where nothing may move."""
        free = np.flatnonzero((theta > 0) | (evaluate(theta)[1] < 0))
        if len(free) == 0 or deadline.is_past:
            return 0
        flat = theta.reshape(-1)

        def evaluate_free(x: Array) -> tuple[float, Array]:
            flat[free] = x
            value, gradient = evaluate(theta)
            return value, gradient.reshape(-1)[free]

        taken = min(_ROUND, left)
        found = minimise_smooth(
            evaluate_free,
            flat[free].copy(),
            tol=FLAT,
            max_steps=taken,
            max_evaluations=2 * taken + 20,
            least=0.0,
            most=MOST,
            n_pairs=_PAIRS,
            deadline=deadline,
        )
        return max(found.steps, 1)

    left, before = steps, math.inf
    while left > 0:
        taken = follow(np.array(best.theta).reshape(shape), left)
        left -= taken
        if deadline.is_past:
            return replace(best, ended="deadline")
        if taken == 0 or not best.value < before * (1 - _ROUND * FLAT):
            return best
        before = best.value
    return replace(best, ended="exhausted")


def search(
    problem: Problem, effort: Effort, generator: np.random.Generator, asked: Sequence[Array] = ()
) -> SearchPoint:
    """The best point from several starts, and Θ = 0, noise on every cell.

    Args:
        asked: sums of cells from which a start each is made, (r, n), such as queries of one width.
    """
    # Loaded before time is counted: loading it took longer than the first start was given, which then was cut
    # short or not by what else the machine did, and the same request had another digest.
    from scipy import optimize  # noqa: F401

    nothing = SearchPoint(np.zeros((problem.n, effort.p or 1)), float(problem.diagonal.sum()))
    with threads_for_matrices_of(0):
        found = _StartSearch(problem, effort, asked).find(generator)
    return replace(min(nothing, found, key=lambda point: point.value), ended=found.ended)


class _StartSearch:
    """One problem on cells and on blocks of them, and how much is tried.

    Attributes:
        is_cut: whether time has cut a start short, or left one out.
    """

    def __init__(self, problem: Problem, effort: Effort, asked: Sequence[Array] = ()) -> None:
        self.problem, self.effort, self.asked = problem, effort, asked
        self.is_cut = False
        self.is_ordered = problem.n > 1 and problem.likeness() > _ALIKE
        self.size = self.size_for(_CELLS_PER_SUM[0] if effort.p is None else problem.n / effort.p)
        self.coarse = {
            self.size >> k: problem.coarsened(self.size >> k) for k in range(self.size.bit_length())
        }

    def size_for(self, cells_per_sum: float) -> int:
        """Cells of a block where a sum has so many cells: one where neighbours are not alike."""
        size = 1
        while (
            self.is_ordered
            and 2 * size <= min(_MOST_CELLS_PER_BLOCK, cells_per_sum / _BLOCKS_PER_SUM)
            and self.problem.n >= 2 * size * _FEWEST_BLOCKS
        ):
            size *= 2
        return size

    def find(self, generator: np.random.Generator) -> SearchPoint:
        """Where the best start ends, on the cells.

        Of a limited time each stage takes half of what is left, and the last one all of it. Starts of more
        sums join where blocks are fine enough for them.
        """
        effort, size = self.effort, self.size
        offset, own = generator.random(2), generator.spawn(effort.starts)
        starts = [partial(self.start, number, offset, own[number]) for number in range(effort.starts)]
        further = self.further(own[0])
        points = self.stage(starts + further.get(size, []), size, _FIRST)
        if points[0].value > _HOPELESS * effort.known and not any(s < size for s in further):
            return replace(self.on_cells(points[0], size), ended="exhausted")
        points = self.stage([partial(np.array, point.theta) for point in points], size, _SECOND)
        while size > 1:
            finer = [partial(interpolated, point.theta, self.problem.n, size) for point in points]
            size //= 2
            if size in further:
                first = self.stage(further[size], size, _FIRST)
                finer += [partial(np.array, point.theta) for point in first]
            points = self.stage(finer, size, _FINER if size > 1 else _CELLS)
        taken = _FIRST[0] + _SECOND[0] if self.size == 1 else _CELLS[0]
        rest = effort.steps - math.ceil(taken * effort.steps)
        best = points[0]
        if effort.is_over:
            return replace(best, ended="deadline")
        if best.value > _HOPELESS * effort.known:
            return replace(best, ended="exhausted")
        if rest > 0:
            best = descend(self.problem, best.theta, rest, effort.deadline)
        return replace(best, ended="deadline") if self.is_cut else best

    def on_cells(self, point: SearchPoint, size: int) -> SearchPoint:
        """The same point with Θ for every cell."""
        return replace(point, theta=np.repeat(point.theta, size, axis=0)[: self.problem.n])

    def further(self, generator: np.random.Generator) -> dict[int, list[Callable[[], Array]]]:
        """Starts of more sums than usual, and of sums that are asked, by the cells of their blocks.

        They draw from generators of their own, so that the usual starts are the same with and without them.
        """
        n = self.problem.n
        count = self.effort.starts // _STARTS_PER_FURTHER if self.effort.p is None else 0
        starts: dict[int, list[Callable[[], Array]]] = {}
        if not self.is_ordered:
            count = min(count, 2 * len(self.asked) + 2)
        for number, own in enumerate(generator.spawn(count)):
            if number % 2 == 0 and number // 2 < len(self.asked):
                rows = self.asked[number // 2]
                size = self.size_for(n / len(rows))
                made: Callable[[], Array] = partial(self.start_of_asked, rows, size)
            else:
                ratio = _DENSER[number // 2 % len(_DENSER)]
                size, p = self.size_for(ratio), max(round(n / ratio), min(n, LEAST_SUMS))
                made = partial(self.dense_start, size, p, own)
            starts.setdefault(size, []).append(made)
        return starts

    def dense_start(self, size: int, p: int, generator: np.random.Generator) -> Array:
        """Θᵀ on blocks: p tents side by side where neighbours are alike, elsewhere random sums."""
        blocks = self.coarse[size].n
        if self.is_ordered:
            return tents(blocks, [p], generator)
        return FAINT * generator.random((blocks, p)) + intervals(blocks, p, generator)

    def start_of_asked(self, rows: Array, size: int) -> Array:
        """Θᵀ on blocks: sums that are asked, all of one height."""
        first = np.arange(0, self.problem.n, size)
        counts = np.diff(np.append(first, self.problem.n))
        return np.asarray(_ASKED_HEIGHT * (np.add.reduceat(rows, first, axis=1) / counts).T)

    def stage(
        self, starts: Sequence[Callable[[], Array]], size: int, shares: tuple[float, float]
    ) -> list[SearchPoint]:
        """The better points from some starts on blocks of a size, best first; of equal ones, the first."""
        problem, end = self.coarse[size], self.effort.middle
        steps = max(1, math.ceil(self.effort.steps * shares[0]))
        workers = min(self.workers(problem.n), len(starts))

        def descend_from(number: int) -> SearchPoint | None:
            if number > 0 and end.is_past:
                self.is_cut = True
                return None
            # Starts still to come are left as much time as this one.
            left = math.ceil((len(starts) - number) / workers)
            point = descend(problem, starts[number](), steps, end.share_of_rest(1 / left))
            self.is_cut = self.is_cut or point.ended == "deadline"
            return point

        if workers == 1:
            ends = [descend_from(number) for number in range(len(starts))]
        else:
            with ThreadPoolExecutor(workers) as pool:
                ends = list(pool.map(descend_from, range(len(starts))))
        found = [point for point in ends if point is not None]
        count = max(1, math.ceil(self.effort.starts * shares[1]))
        return sorted(found, key=lambda point: point.value)[:count]

    def workers(self, n: int) -> int:
        """How many threads share the starts on n blocks."""
        if self.effort.workers is not None:
            return self.effort.workers
        p = self.problem.n / _CELLS_PER_SUM[1] if self.effort.p is None else self.effort.p
        return available_cores() if n * p >= _ENTRIES_PER_THREAD else 1

    def start(self, number: int, offset: Array, generator: np.random.Generator) -> Array:
        """Θᵀ on blocks, (n', p): three of four are tents where neighbours are alike, elsewhere one."""
        n, (of_p, of_level) = self.problem.n, _between(number, offset)
        p = self.effort.p
        if p is None:
            p = max(round(n / of_p), min(n, LEAST_SUMS))
        blocks = self.coarse[self.size].n
        has_tents = (number % 4 < 3) == self.is_ordered
        if has_tents:
            return tents(blocks, levels(p, of_level), generator)
        start = generator.random((blocks, p))
        if number % 2 == 0:
            return start
        return FAINT * start + intervals(blocks, p, generator)


def _between(number: int, offset: Array) -> tuple[float, float]:
    """Cells per sum and sums per wider one of a start, spread evenly by their logarithms."""
    shares = (offset + number * np.array(_EVENLY)) % 1
    (a, b), (c, d) = _CELLS_PER_SUM, _SUMS_PER_WIDER
    return a * (b / a) ** float(shares[0]), c * (d / c) ** float(shares[1])


def levels(p: int, per_wider: float) -> list[int]:
    """p sums in levels: one of every `per_wider` sums is wider, as long as there are any."""
    wider = round(p / per_wider)
    return [p] if wider == 0 or wider == p else [p - wider, *levels(wider, per_wider)]


def tents(n: int, counts: Sequence[int], generator: np.random.Generator) -> Array:
    """Θᵀ, (n, Σ counts): levels of evenly spread tents, each as wide as from neighbour to neighbour."""
    parts = []
    for level, count in enumerate(counts):
        place = (np.arange(n) + 0.5) / n * (count + 1)
        shape = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(1, count + 1)))
        heights = (_WIDER_HEIGHT if level else _HEIGHT) * generator.uniform(1 - _UNEVEN, 1 + _UNEVEN, count)
        parts.append(heights * shape)
    return np.hstack(parts)


def intervals(n: int, p: int, generator: np.random.Generator) -> Array:
    """p random intervals, as 0/1 columns over n cells, lengths spread evenly by their logarithm."""
    lengths = np.exp(generator.uniform(math.log(min(4, n)), math.log(n), p))
    centres = generator.uniform(0, n, p)
    return np.asarray(np.abs(np.arange(n)[:, None] - centres) < lengths / 2, dtype=float)


def interpolated(theta: Array, n: int, size: int) -> Array:
    """Θᵀ on blocks of half the size, from one on blocks of n cells, linearly between their middles."""
    coarse, fine = _middles(n, size), _middles(n, size // 2)
    right = np.clip(np.searchsorted(coarse, fine), 1, len(coarse) - 1)
    share = np.clip((fine - coarse[right - 1]) / (coarse[right] - coarse[right - 1]), 0, 1)[:, None]
    return np.asarray((1 - share) * theta[right - 1] + share * theta[right])


def _middles(n: int, size: int) -> Array:
    """The middle of every block of `size` cells."""
    first = np.arange(0, n, size)
    return np.asarray((first + np.append(first[1:], n) - 1) / 2)


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
