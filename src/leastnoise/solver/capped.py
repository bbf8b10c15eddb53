"""The least noise under variance caps, however many queries there are.

    least_profile        the least privacy loss with which every variance keeps its cap
    total_within_caps    the least total variance that keeps them all within a privacy loss

Few queries bind. Where they are many, only some are solved for, and those that the
noise found violates join until there is none: weights of some queries, with none for
the others, prove their bound for all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from leastnoise.core.backend import Backend, load_backend
from leastnoise.core.deadline import Watch
from leastnoise.core.decompositions import singular_values
from leastnoise.core.operators import Array
from leastnoise.core.progress import worst_ending
from leastnoise.solver.active_set import Round, better_of, revived, search_active_set
from leastnoise.solver.capped_problems import (
    PATIENCE,
    Anchor,
    CappedPoint,
    LeastProfile,
    OverBlocks,
    TotalWithinCaps,
    mixture,
)
from leastnoise.solver.mean import Forms, SharedPoint, evaluate_all
from leastnoise.solver.optimum import Optimum
from leastnoise.solver.path_following import CentralPath, Enough, follow_path, never
from leastnoise.solver.rows import DenseRows, QueryRows, StackedRows
from leastnoise.solver.tightening import SHARES, tightened

# Up to this many queries, all of them are solved for at once.
_ALL_AT_ONCE = 1_500

# The same, per direction.
_PER_DIRECTION = 4

# A query is idle, and left out of the next round, if its weight is below this share of the largest ...
_IDLE_WEIGHT = 1e-7

# ... and its variance, beside its cap, below this share of the largest.
_IDLE_VARIANCE = 0.95

# A round of all queries that stalled begins again this often: of 1,400 random problems the path stalls in 3,
# and from revived weights it is another one.
_RESTARTS = 1

# Queries and cells, at most, whose constraints are tightened after a search ...
_MAX_TIGHTENED = 2_048

# ... in which noise that keeps the caps keeps them with less than this share to spare.
_LITTLE_ROOM = 1e-3

# Queries that join in a round, at most, unless there are more directions.
_JOINING = 500


CappedPath = CentralPath[CappedPoint[SharedPoint]]


@dataclass
class Run:
    """What one search is given: the gap at which to stop, its watch and its backend.

    `replace` gives a part of the search that shares the watch, and so the deadline and the count of steps.
    """

    tol: float
    watch: Watch = field(default_factory=Watch.starting)
    backend: str = "numpy"

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return self.watch.deadline.is_past

    def follow(
        self,
        problem: OverBlocks,
        p: Array,
        q: Array,
        *,
        tol: float | None = None,
        enough: Enough = never,
        is_thorough: bool = False,
    ) -> CappedPath:
        """`follow_path` until the deadline, counting its steps after those before it."""
        path = follow_path(
            problem,
            problem.start(p, q),
            tol=self.tol if tol is None else tol,
            watch=self.watch,
            patience=PATIENCE,
            enough=enough,
            is_thorough=is_thorough,
        )
        self.watch.steps += path.steps
        return path


@dataclass(frozen=True, eq=False)
class CappedBlock:
    """What is measured by itself, in coordinates of its own; variances and profiles are sums over blocks.

    Attributes:
        rows: the queries with caps, (m, k), zeros where the block has no part of one.
        B: cells, (k, n).
        base: for the total variance a root (r, k) of S₀ = Σ_j w_j l_j l_jᵀ, the sum over all queries with
            weights; else one of Σ_j l_j l_jᵀ/c_j, by which the first queries are chosen where they are many.
    """

    rows: QueryRows
    B: Array
    base: Array | None = None


def least_profile(
    blocks: Sequence[CappedBlock], caps: Array, run: Run, *, start: tuple[Array, Array] | None = None
) -> Optimum:
    """The noise with the least largest profile among those with v_j ≤ c_j.

    Args:
        blocks: queries and cells of each span all its coordinates.
        start: positive weights (p, q) to begin with.
    """
    search = _LeastProfile(blocks, caps, run)
    return search.solution(search.search(start))


def total_within_caps(
    blocks: Sequence[CappedBlock], caps: Array, run: Run, *, is_all_capped: bool = True
) -> Optimum:
    """The noise of least total variance trace(S₀Σ) among those with u_i ≤ 1 and v_j ≤ c_j.

    Args:
        blocks: scaled so that the profile may be 1; queries and `base` of each span all its coordinates.
        is_all_capped: whether every query with a weight has a cap.
    """
    m = blocks[0].rows.shape[0]
    device = load_backend(run.backend)
    capped, own_caps = blocks, caps
    if not is_all_capped:
        # What no cap covers must not drift off while the others are looked after.
        capped, own_caps = _with_loose_caps(blocks, caps, device)
    search, room = _room_within(capped, own_caps, run)
    if room.achieved >= 1:
        return replace(search.solution(room), p=room.dual[0][:m], is_feasible=False, has_converged=False)
    usual = sum(float((_base(one) ** 2).sum() * (one.B**2).sum(axis=0).max()) for one in blocks)
    if is_all_capped and _total_of(room.primal.point, blocks) > _LOOSE * usual:
        # Caps so loose that noise drifted off where they are: too far away to mix with.
        _, closer = _room_within(*_with_loose_caps(blocks, caps, device), run)
        room = closer if closer.achieved < 1 else room
    within = _TotalWithinCaps(blocks, caps, run, room.primal)
    found = within.solution(within.search((room.dual[0][:m], room.dual[1])))
    return found if found.has_converged else replace(found, ended=worst_ending([room.ended, found.ended]))


def least_total_by_path(bases: Sequence[Array], run: Run, *, start: Array | None = None) -> Optimum:
    """The noise of least total variance with profile at most 1, where nothing has a cap.

    Slower than Newton's method on the same problem, and surer where the queries' sizes are far apart, or
    where many cells are nearly as good as each other.

    Args:
        bases: R of every block, (k, n) of rank k: the total variance is Σ trace(V X⁺) with V = RᵀR.
        start: positive weights q to begin with.
    """
    device = load_backend(run.backend)
    n = bases[0].shape[1]
    forms, anchors = [], []
    for base in bases:
        k = len(base)
        rows = DenseRows(np.zeros((0, k)), device)
        forms.append(Forms(rows, device.matrix(base), device.matrix(np.eye(k)), device))
        anchors.append(np.zeros((k, k)))
    first = revived(np.ones(n) if start is None else start)
    nothing = Anchor(anchors, np.zeros(0), np.zeros(n), 0.0)
    path = run.follow(OverBlocks(forms, TotalWithinCaps(np.zeros(0), nothing)), np.zeros(0), first)
    most = math.sqrt(float(path.best.mean.u.max()))
    return Optimum(
        roots=[part.beta / most for part in path.best.mean.parts],
        q=path.proof.mean.q,
        achieved=path.achieved,
        lower_bound=path.lower_bound,
        has_converged=path.gap <= run.tol,
        steps=run.watch.steps,
        seconds=run.watch.seconds,
        ended=path.ended,
        how="an interior-point method",
    )


def second_try(found: Optimum, bases: Sequence[Array], run: Run) -> Optimum:
    """The better of both sides: of a search that stopped short, and of `least_total_by_path` after it."""
    other = least_total_by_path(bases, run, start=found.q)
    best = found.better_of(other)
    has_converged = best.gap <= run.tol
    return replace(
        best,
        has_converged=has_converged,
        steps=run.watch.steps,
        seconds=found.seconds + other.seconds,
        ended="converged" if has_converged else worst_ending([found.ended, other.ended]),
    )


def _base(block: CappedBlock) -> Array:
    assert block.base is not None
    return block.base


def _total_of(point: SharedPoint, blocks: Sequence[CappedBlock]) -> float:
    """trace(S₀Σ) of a point's noise, at profile 1."""
    roots = [point.device.numpy(part.root) for part in point.parts]
    squares = [((_base(one) @ root.T) ** 2).sum() for one, root in zip(blocks, roots, strict=True)]
    return float(sum(squares)) * float(point.u.max())


# Gaps at which the least profile is sought, one after the other, until it is settled whether caps can be
# kept. A path that aims at the last from the start strays more often.
_ROOM_GAPS = (1e-6, 1e-9, 1e-11)


def _room_within(
    blocks: Sequence[CappedBlock], caps: Array, run: Run
) -> tuple[_LeastProfile, Round[CappedNoise, Weights]]:
    """Noise that keeps the caps with room, or about the least profile with which they are kept."""
    search = _LeastProfile(blocks, caps, replace(run, tol=min(run.tol, _ROOM_GAPS[0])))
    room = search.search(None, _is_settled)
    for gap in _ROOM_GAPS[1:]:
        if _is_settled(room.achieved, room.lower_bound) or run.is_late:
            break
        search = _LeastProfile(blocks, caps, replace(run, tol=min(run.tol, gap)))
        room = better_of(room, search.search(room.dual, _is_settled))
    return search, room


def _is_settled(achieved: float, lower_bound: float) -> bool:
    """Whether the caps are kept with about as much room as there is, or proved out of reach."""
    if achieved < 1:
        return achieved - lower_bound < 0.5 * (1 - achieved)
    return lower_bound > 1 and achieved - lower_bound < _ROOM_GAPS[0] * lower_bound


# How much more than the usual variance a query without a cap may have.
_LOOSE = 1e4


def _with_loose_caps(
    blocks: Sequence[CappedBlock], caps: Array, device: Backend
) -> tuple[list[CappedBlock], Array]:
    """The rows and those of every `base`, with caps far above what noise on every cell gives them."""
    usual = [(_base(one) ** 2).sum(axis=1) * float((one.B**2).sum(axis=0).max()) for one in blocks]
    ends = np.cumsum([0, *(int((own > 0).sum()) for own in usual)])
    stacked = []
    for number, (one, own) in enumerate(zip(blocks, usual, strict=True)):
        # Rows of one block are no queries of the others.
        rows = np.zeros((int(ends[-1]), one.B.shape[0]))
        rows[ends[number] : ends[number + 1]] = _base(one)[own > 0]
        stacked.append(replace(one, rows=StackedRows(one.rows, DenseRows(rows, device), device)))
    loose = np.concatenate([own[own > 0] for own in usual])
    return stacked, np.concatenate([caps, _LOOSE * loose])


@dataclass(frozen=True, eq=False)
class CappedNoise:
    """The noise of a round.

    Attributes:
        roots: of every block, (r, n), scaled or mixed so that every cap is kept.
        point: where the round ended, over its own queries.
        v: the variances of all queries there, before every cap is kept.
    """

    roots: list[Array]
    point: SharedPoint
    v: Array


Weights = tuple[Array, Array]


class _CappedRows(ABC):
    """One of the two problems, for `active_set`."""

    def __init__(self, blocks: Sequence[CappedBlock], caps: Array, run: Run) -> None:
        self.blocks, self.caps, self.run = blocks, caps, run
        self.device: Backend = load_backend(run.backend)
        self.cells = [self.device.matrix(one.B) for one in blocks]
        self.core = self._first_rows()

    @property
    def n_rows(self) -> int:
        """How many queries there are."""
        return len(self.caps)

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return int(self.blocks[0].B.shape[1])

    @property
    def n_directions(self) -> int:
        """How many directions the largest block has."""
        return max(len(one.B) for one in self.blocks)

    @property
    def is_quick(self) -> bool:
        """Whether queries are quick as they are, and need not be written out."""
        return all(one.rows.is_quick for one in self.blocks)

    @abstractmethod
    def problem(self, chosen: Array) -> OverBlocks:
        """The problem with the chosen queries only."""

    @abstractmethod
    def assess(self, point: SharedPoint, v: Array) -> tuple[float, list[Array]]:
        """What a round's noise achieves once it keeps every cap, and that noise as rows of every block."""

    def search(self, start: Weights | None, enough: Enough = never) -> Round[CappedNoise, Weights]:
        """The optimum for all queries."""
        if start is None:
            m, n = self.n_rows, self.n_cells
            start = np.full(m, 1 / m), np.full(n, 1 / n)
        run = self.run
        return search_active_set(
            self, start, tol=run.tol, watch=run.watch, n_restarts=_RESTARTS, enough=enough
        )

    def solution(self, found: Round[CappedNoise, Weights]) -> Optimum:
        """The end of a search."""
        return Optimum(
            roots=found.primal.roots,
            p=found.dual[0],
            q=found.dual[1],
            achieved=found.achieved,
            lower_bound=found.lower_bound,
            has_converged=found.gap <= self.run.tol,
            steps=self.run.watch.steps,
            seconds=self.run.watch.seconds,
            ended=found.ended,
            how="an interior-point method",
        )

    def first_rows(self, start: Weights) -> Array:
        """All queries where few; else those served worst by noise shaped for their sum, and some others."""
        return self.core

    def solve(
        self, chosen: Array, start: Weights, *, tol: float, watch: Watch, enough: Enough
    ) -> Round[CappedNoise, Weights]:
        """The optimum with the caps of the chosen queries, scaled or mixed to keep all of them."""
        problem = self.problem(chosen)
        z = problem.start(revived(start[0][chosen]), revived(start[1]))
        path = follow_path(problem, z, tol=tol, watch=watch, patience=PATIENCE, enough=enough)
        point = path.best.mean
        v = point.v if len(chosen) == self.n_rows else self._variances(point)
        p = np.zeros(self.n_rows)
        p[chosen] = path.proof.mean.p
        achieved, roots = self.assess(point, v)
        return Round(
            CappedNoise(roots, point, v),
            (p, path.proof.mean.q),
            achieved,
            path.lower_bound,
            v / self.caps,
            path.steps,
            path.ended,
        )

    def _variances(self, point: SharedPoint) -> Array:
        """Those of all queries."""
        pairs = zip(self.blocks, point.parts, strict=True)
        return np.asarray(sum(one.rows.variances(part.root) for one, part in pairs))

    def next_rows(self, chosen: Array, found: Round[CappedNoise, Weights]) -> Array:
        """Without the idle queries, with the most violated ones."""
        p, ratios = found.dual[0], found.ratios
        excess = float(ratios[chosen].max())
        idle = (p[chosen] < _IDLE_WEIGHT * p.max()) & (ratios[chosen] < _IDLE_VARIANCE * excess)
        violated = np.argsort(-ratios)[: max(self.n_directions, _JOINING)]
        violated = violated[ratios[violated] > excess * (1 + self.run.tol / 16)]
        return np.unique(np.concatenate([chosen[~idle], self.core, violated]))

    def _forms(self, chosen: Array, bases: Sequence[Any | None] | None = None) -> list[Forms]:
        """The chosen queries, written out unless they are many and quick as they are, and all cells."""
        is_kept = self.is_quick and self.n_rows > _PER_DIRECTION * self.n_directions
        fixed: Sequence[Any | None] = [None] * len(self.blocks) if bases is None else bases
        return [
            Forms(
                one.rows if is_kept else DenseRows(one.rows.take(chosen), self.device),
                cells,
                base,
                self.device,
            )
            for one, cells, base in zip(self.blocks, self.cells, fixed, strict=True)
        ]

    def _first_rows(self) -> Array:
        """All queries where few; else those served worst by noise shaped for their sum, and some others."""
        m, k, device = self.n_rows, self.n_directions, self.device
        has_bases = all(one.base is not None for one in self.blocks)
        if not has_bases or self.is_quick or m <= max(_ALL_AT_ONCE, _PER_DIRECTION * k):
            return np.arange(m)
        forms = [
            Forms(DenseRows(np.zeros((0, len(one.B))), device), cells, device.matrix(_base(one)), device)
            for one, cells in zip(self.blocks, self.cells, strict=True)
        ]
        point = evaluate_all(forms, np.zeros(0), np.full(self.n_cells, 1 / self.n_cells))
        worst = np.argsort(-self._variances(point) / self.caps)[:k]
        others = np.random.default_rng(0).permutation(m)
        taken = k
        while taken < m:
            chosen = np.unique(np.concatenate([worst, others[:taken]]))
            if all(_span_all(one.rows.take(chosen)) for one in self.blocks):
                return chosen
            taken *= 2
        return np.arange(m)


def _span_all(rows: Array) -> bool:
    """Whether rows span all their coordinates."""
    values = singular_values(rows)
    return bool(len(rows) >= rows.shape[1] and values[-1] > 1e-8 * values[0])


class _LeastProfile(_CappedRows):
    """Minimise the largest u_i subject to v_j ≤ c_j."""

    def problem(self, chosen: Array) -> OverBlocks:
        return OverBlocks(self._forms(chosen), LeastProfile(self.caps[chosen], np.zeros(self.n_cells)))

    def assess(self, point: SharedPoint, v: Array) -> tuple[float, list[Array]]:
        excess = float((v / self.caps).max())
        return excess * float(point.u.max()), [part.beta * math.sqrt(excess) for part in point.parts]


class _TotalWithinCaps(_CappedRows):
    """Minimise trace(S₀Σ) subject to u_i ≤ 1 and v_j ≤ c_j, with noise that keeps both with room."""

    def __init__(self, blocks: Sequence[CappedBlock], caps: Array, run: Run, room: CappedNoise) -> None:
        super().__init__(blocks, caps, run)
        self.bases = [self.device.matrix(_base(one)) for one in blocks]
        point, v = room.point, room.v[: len(caps)]
        # Both sides equally far below their limits.
        excess = float((v / caps).max(initial=0)) or 1.0
        scale = math.sqrt(float(point.u.max()) / excess)
        roots = [self.device.numpy(part.root) * math.sqrt(scale) for part in point.parts]
        self.anchor = Anchor(roots, scale * v, point.u / scale, self._total(roots))

    def _total(self, roots: Sequence[Array]) -> float:
        """trace(S₀Σ) of roots of the covariance."""
        pairs = zip(self.blocks, roots, strict=True)
        return sum(float(((_base(one) @ root.T) ** 2).sum()) for one, root in pairs)

    def problem(self, chosen: Array) -> OverBlocks:
        anchor = replace(self.anchor, v=self.anchor.v[chosen])
        return OverBlocks(self._forms(chosen, self.bases), TotalWithinCaps(self.caps[chosen], anchor))

    def assess(self, point: SharedPoint, v: Array) -> tuple[float, list[Array]]:
        scale, share = mixture(self.caps, self.anchor, v, point.u)
        achieved = (1 - share) * scale * point.base_trace + share * self.anchor.total
        if share == 0:
            return achieved, [part.beta / math.sqrt(scale) for part in point.parts]
        return achieved, self._mixed([self.device.numpy(part.root) for part in point.parts], scale, share)

    def _mixed(self, roots: Sequence[Array], scale: float, share: float) -> list[Array]:
        """The rows of scaled noise mixed with the anchor."""
        mixed = []
        for one, root, anchor in zip(self.blocks, roots, self.anchor.roots, strict=True):
            own = root * math.sqrt((1 - share) * scale)
            mixed.append(_strategy(_triangle(np.vstack([own, anchor * math.sqrt(share)])), one.B))
        return mixed

    def solution(self, found: Round[CappedNoise, Weights]) -> Optimum:
        """The end of a search; where caps leave little room, with its constraints worked out anew."""
        ended = super().solution(found)
        room = float(np.min(1 - np.concatenate([self.anchor.v / self.caps, self.anchor.u])))
        if room > _LITTLE_ROOM or max(self.n_rows, self.n_cells) > _MAX_TIGHTENED:
            return ended
        roots = [_triangle(self.device.numpy(part.root)) for part in found.primal.point.parts]
        scale = math.sqrt(float(self._profile(roots).max()))
        roots = [R * scale for R in roots]
        every = np.arange(self.n_rows)
        queries = [one.rows.take(every).T / np.sqrt(self.caps) for one in self.blocks]
        weights = np.concatenate([found.dual[0] * self.caps, found.dual[1]])
        columns = [_strategy(R, one.B) for R, one in zip(roots, self.blocks, strict=True)]
        tried = [roots, *(tightened(roots, queries, columns, weights, share) for share in SHARES)]
        choices = [self._feasible(own, queries) for own in tried if own is not None]
        achieved, best = min(choices, key=lambda choice: choice[0])
        better = replace(ended, roots=best, achieved=achieved)
        return replace(better, has_converged=better.gap <= self.run.tol)

    def _profile(self, roots: Sequence[Array]) -> Array:
        """u of roots of the covariance."""
        pairs = zip(roots, self.blocks, strict=True)
        return np.asarray(sum((_strategy(R, one.B) ** 2).sum(axis=0) for R, one in pairs))

    def _feasible(self, roots: Sequence[Array], queries: Sequence[Array]) -> tuple[float, list[Array]]:
        """What noise of these roots achieves once it keeps every cap, and that noise as rows of every block.

        Its variances and profiles are those of the roots themselves: in the search they may be off by 1e-10.
        """
        squares = sum(((R @ own) ** 2).sum(axis=0) for R, own in zip(roots, queries, strict=True))
        scale, share = mixture(self.caps, self.anchor, self.caps * squares, self._profile(roots))
        total = scale * self._total(roots)
        return (1 - share) * total + share * self.anchor.total, self._mixed(roots, scale, share)


def _triangle(root: Array) -> Array:
    """R, upper triangular, with rootᵀ root = RᵀR."""
    from scipy import linalg

    return np.asarray(linalg.qr(root, mode="r")[0][: root.shape[1]])


def _strategy(R: Array, B: Array) -> Array:
    """R^{−T} B with RᵀR = Σ: the rows on which noise of covariance Σ is independent."""
    from scipy import linalg

    return np.asarray(linalg.solve(R.T, B))
