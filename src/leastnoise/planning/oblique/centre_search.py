"""The search for centres and parts: one axis at a time, until the total variance stops falling.

Everything else fixed, the best g and P of a centre with one part are a problem of one axis (`axis_split`).
A centre with several parts has one g for all of them: each P is the best for this g, and g follows

    slope   Σ_γ ∂ρ_γ/∂g + 2 V_t g,   ∂ρ_γ/∂g = −2 P_γ q_γ   (q_γ: dual weights of the part, Σq_γ = ρ_γ)    (1)

divided by the curvature Σ_γ ρ_γ P_γ + V_t, as far as the total falls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array, Operator
from leastnoise.core.progress import Ended
from leastnoise.planning.oblique.axis_split import (
    AxisQuestions,
    Placed,
    centre_steps,
    first_place,
    improvements,
    questions_of,
    residual_place,
)
from leastnoise.planning.oblique.block_layout import BlockLayout
from leastnoise.planning.oblique.total_variance import BlockSums, Entries, total_of

# One-axis problems are solved to this share of the gap at which sweeps end.
_INNER = 0.1

MAX_SWEEPS = 60


@dataclass(frozen=True, eq=False)
class AxisKinds:
    """Some kinds of rows of one axis, and the places of their numbers among those of the axis."""

    questions: AxisQuestions
    slots: Array


class RowsByKind:
    """What is asked of every axis; kinds of rows are put together when needed, once.

    Args:
        operators: for every axis, its kinds.
    """

    def __init__(self, operators: Sequence[Sequence[Operator]]) -> None:
        self._operators = operators
        self._known: dict[tuple[int, tuple[int, ...]], AxisKinds] = {}

    def n_slots(self, axis: int) -> int:
        """How many numbers the axis has for each centre or part."""
        return len(self._operators[axis])

    def per_kind(self, axis: int, numbers: Array) -> Array:
        """The numbers of one axis, one for every kind."""
        return numbers.copy()

    def asked(self, axis: int, kinds: tuple[int, ...]) -> AxisKinds:
        """Some kinds of one axis, each one number."""
        key = (axis, kinds)
        if key not in self._known:
            chosen = [self._operators[axis][k] for k in kinds]
            self._known[key] = AxisKinds(questions_of(chosen), np.array(kinds, dtype=np.int64))
        return self._known[key]


class RowByRow(RowsByKind):
    """The same with a number for every row of every kind."""

    def __init__(self, operators: Sequence[Sequence[Operator]]) -> None:
        super().__init__(operators)
        self.first_row = [
            np.concatenate([[0], np.cumsum([kind.shape[0] for kind in kinds])]).astype(np.int64)
            for kinds in operators
        ]

    def n_slots(self, axis: int) -> int:
        return int(self.first_row[axis][-1])

    def per_kind(self, axis: int, numbers: Array) -> Array:
        ends = self.first_row[axis]
        return np.array([numbers[a:b].sum() for a, b in pairwise(ends)])

    def asked(self, axis: int, kinds: tuple[int, ...]) -> AxisKinds:
        key = (axis, kinds)
        if key not in self._known:
            whole = questions_of([self._operators[axis][k] for k in kinds])
            rows = np.vstack([self._operators[axis][k].dense() for k in kinds])
            slots = np.concatenate(
                [np.arange(self.first_row[axis][k], self.first_row[axis][k + 1]) for k in kinds]
            )
            single = whole.owned_by(rows, np.arange(len(rows)), len(rows))
            self._known[key] = AxisKinds(single, slots)
        return self._known[key]


@dataclass(eq=False)
class CentreState:
    """A centre, and its parts as they stand.

    Attributes:
        shared: one split that serves all parts; None once each has its own.
        placed: the split of each part, once each has its own.
        own_g: g over all values of the axis, once each part has its own split.
    """

    axis: int
    asked: AxisKinds
    parts: list[int]
    of_parts: list[AxisKinds]
    shared: Placed | None
    placed: list[Placed]
    own_g: Array

    @property
    def g(self) -> Array:
        """g over all values of the axis."""
        return self.own_g if self.shared is None else spread(self.asked.questions, self.shared.oblique.g)

    def set_apart(self, g: Array, placed: list[Placed]) -> None:
        """Take a g over all values, and the parts for it."""
        self.shared, self.own_g, self.placed = None, g, placed


def spread(questions: AxisQuestions, g: Array) -> Array:
    """Weights of all values of an axis from those of its cells, equal within one."""
    cells = questions.cells
    return g if cells.are_all else cells.spread((g / cells.counts)[None, :])[0]


def gathered(questions: AxisQuestions, g: Array) -> Array:
    """Weights of cells from those of all values of an axis."""
    cells = questions.cells
    return g if cells.are_all else np.bincount(cells.kind, weights=g[cells.used], minlength=len(cells.first))


class Search:
    """Centres and parts of some blocks, the numbers they give, and the total variance.

    Args:
        tol: the gap at which sweeps are meant to end.
        floor: every row of an axis counts for at least this share of the one that counts most.
        deadline: when the search ends with what it has.
        ended: how the last `run` ended.

    Attributes:
        centres: those that are searched for, by their places among all.
        sums: set by whoever knows which products take which numbers.
    """

    def __init__(
        self,
        blocks: BlockLayout,
        rows: RowsByKind,
        *,
        tol: float,
        floor: float = 0.0,
        deadline: Deadline = NEVER,
    ) -> None:
        self.blocks, self.rows, self.tol, self.floor, self.deadline = blocks, rows, tol, floor, deadline
        self.ended: Ended = "converged"
        sizes = [rows.n_slots(centre.axis) for centre in blocks.centres]
        sizes += [rows.n_slots(part.axis) for part in blocks.parts]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.first_of_centre = first[: len(blocks.centres)]
        self.first_of_part = first[len(blocks.centres) : -1]
        self.n_numbers = int(first[-1])
        self.centres: dict[int, CentreState] = {}
        self.sums: BlockSums

    def start(self, kind_weights: Sequence[Array]) -> Array:
        """The first numbers, from the optimum of every axis alone; kinds of each axis by these weights."""
        numbers = np.full(self.n_numbers, np.nan)
        for number, centre in enumerate(self.blocks.centres):
            parts = [place for place, part in enumerate(self.blocks.parts) if part.centre == number]
            n = self.blocks.products.axes[centre.axis].size
            if self.blocks.forms[centre.axis] == "centred":
                # P = n/(n − 1) (I − 11ᵀ/n), P^# = (n − 1)/n (I − 11ᵀ/n), g = 1/n.
                share = self._rows_of_identity(centre.axis)
                self._put(numbers, number, parts, share * (1 - 1 / n) ** 2, share / n**2)
                continue
            asked = self.rows.asked(centre.axis, centre.kinds)
            weights = kind_weights[centre.axis][asked.slots]
            shared = first_place(asked.questions, weights, tol=max(self.tol, 1e-6), deadline=self.deadline)
            of_parts = [self.rows.asked(centre.axis, self.blocks.parts[p].kinds) for p in parts]
            state = CentreState(centre.axis, asked, parts, of_parts, shared, [], np.zeros(0))
            self.centres[number] = state
            self._put_shared(numbers, number, shared)
        return numbers

    def retabulated(self, other: Search) -> Array:
        """Take the centres and parts of another search for the same blocks; the numbers of these rows."""
        numbers = np.full(self.n_numbers, np.nan)
        for number, centre in enumerate(self.blocks.centres):
            parts = [place for place, part in enumerate(self.blocks.parts) if part.centre == number]
            if number not in other.centres:
                n = self.blocks.products.axes[centre.axis].size
                share = self._rows_of_identity(centre.axis)
                self._put(numbers, number, parts, share * (1 - 1 / n) ** 2, share / n**2)
                continue
            before = other.centres[number]
            asked = self.rows.asked(centre.axis, centre.kinds)
            of_parts = [self.rows.asked(centre.axis, self.blocks.parts[p].kinds) for p in parts]
            shared = None if before.shared is None else Placed(asked.questions, before.shared.oblique)
            placed = [
                Placed(of_part.questions, place.oblique)
                for of_part, place in zip(of_parts, before.placed, strict=before.shared is None)
            ]
            state = CentreState(centre.axis, asked, parts, of_parts, shared, placed, before.g)
            self.centres[number] = state
            if shared is None:
                self._put_apart(numbers, number, before.g, placed)
            else:
                self._put_shared(numbers, number, shared)
        return numbers

    def _rows_of_identity(self, axis: int) -> Array:
        n = self.blocks.products.axes[axis].size
        return np.full(self.rows.n_slots(axis), float(n) if self.rows.n_slots(axis) == 1 else 1.0)

    def _put(self, numbers: Array, centre: int, parts: list[int], rho: Array, h: Array) -> None:
        numbers[self.first_of_centre[centre] : self.first_of_centre[centre] + len(h)] = h
        for part in parts:
            numbers[self.first_of_part[part] : self.first_of_part[part] + len(rho)] = rho

    def _put_shared(self, numbers: Array, centre: int, shared: Placed) -> None:
        state = self.centres[centre]
        numbers[self.first_of_centre[centre] + state.asked.slots] = shared.h
        for part in state.parts:
            numbers[self.first_of_part[part] + state.asked.slots] = shared.rho

    def run(self, *, until: float, max_sweeps: int = MAX_SWEEPS) -> int:
        """Sweep over all centres until the total falls by less than this share of it; the sweeps taken."""
        for sweep in range(1, max_sweeps + 1):
            before = self.sums.total
            for centre in self.centres:
                if self.deadline.is_past:
                    self.ended = "deadline"
                    return sweep - 1
                self._improve(centre)
            if self.sums.total >= before * (1 - until):
                self.ended = self.deadline.ending
                return sweep
        self.ended = "exhausted"
        return max_sweeps

    def _improve(self, centre: int) -> None:
        state = self.centres[centre]
        slopes = self.sums.slopes(state.axis)
        t = slopes[self.first_of_centre[centre] + state.asked.slots]
        if state.shared is None:
            us = [
                slopes[self.first_of_part[part] + asked.slots]
                for part, asked in zip(state.parts, state.of_parts, strict=True)
            ]
            self._improve_apart(centre, us, t)
            return
        u = np.sum([slopes[self.first_of_part[part] + state.asked.slots] for part in state.parts], axis=0)
        u = self._counted(state.asked, u)
        for candidate in improvements(state.shared, u, t, tol=_INNER * self.tol, deadline=self.deadline):
            numbers = self.sums.numbers.copy()
            self._put_shared(numbers, centre, candidate)
            if self._is_taken(state.axis, numbers):
                state.shared = candidate
                return
            if self.deadline.is_past:
                return

    def _counted(self, asked: AxisKinds, u: Array) -> Array:
        """Weights of ρ: none for what has no residual rows, and for others no less than the floor.

        Where no block needs these rows, because all that they are multiplied with is 0, they count alike.
        """
        is_total = asked.questions.is_total
        largest = float(np.where(is_total, 0.0, u).max(initial=0.0))
        return np.where(is_total, 0.0, u + self.floor * largest if largest > 0 else 1.0)

    def _is_taken(self, axis: int, numbers: Array) -> bool:
        C = self.sums.changed(axis, numbers)
        if total_of(C) >= self.sums.total:
            return False
        self.sums.take(numbers, C)
        return True

    # Centres with several parts ------------------------------------------------------------------

    def set_apart(self) -> bool:
        """Give each part of a centre that has several its own P; whether there is such a centre."""
        found = False
        for centre, state in self.centres.items():
            if len(state.parts) < 2 or state.shared is None:
                continue
            if self.deadline.is_past:
                # One split for all parts answers as much, only with more noise.
                return found
            found = True
            shared = state.shared
            state.set_apart(spread(state.asked.questions, shared.oblique.g), [])
            slopes = self.sums.slopes(state.axis)
            us = [
                slopes[self.first_of_part[part] + asked.slots]
                for part, asked in zip(state.parts, state.of_parts, strict=True)
            ]
            state.placed = self._parts_at(state, state.g, us)
            numbers = self.sums.numbers.copy()
            self._put_apart(numbers, centre, state.g, state.placed)
            self.sums.take(numbers, self.sums.changed(state.axis, numbers))
        return found

    def _parts_at(self, state: CentreState, g: Array, us: list[Array]) -> list[Placed]:
        found = []
        for place, (asked, u) in enumerate(zip(state.of_parts, us, strict=True)):
            own = self._counted(asked, u)
            start = state.placed[place].oblique.q if state.placed else None
            at = gathered(asked.questions, g)
            found.append(
                residual_place(
                    asked.questions, at, own, start=start, tol=_INNER * self.tol, deadline=self.deadline
                )
            )
        return found

    def _put_apart(self, numbers: Array, centre: int, g: Array, placed: list[Placed]) -> None:
        state = self.centres[centre]
        answers = state.asked.questions.rows @ gathered(state.asked.questions, g)
        numbers[self.first_of_centre[centre] + state.asked.slots] = state.asked.questions.per_owner(
            answers**2
        )
        for part, asked, place in zip(state.parts, state.of_parts, placed, strict=True):
            numbers[self.first_of_part[part] + asked.slots] = place.rho

    def _improve_apart(self, centre: int, us: list[Array], t: Array) -> None:
        state = self.centres[centre]
        for g in self._steps_of_centre(state, us, t):
            placed = self._parts_at(state, g, us)
            numbers = self.sums.numbers.copy()
            self._put_apart(numbers, centre, g, placed)
            if self._is_taken(state.axis, numbers):
                state.set_apart(g, placed)
                return
            if self.deadline.is_past:
                return

    def _steps_of_centre(self, state: CentreState, us: list[Array], t: Array) -> Iterator[Array]:
        """Centres to try, over all values: steps along (1), and then the one there is."""
        questions = state.asked.questions
        parts = []
        for asked, place, u in zip(state.of_parts, state.placed, us, strict=True):
            to_part = _cells_of(asked.questions)[questions.cells.first]
            shared = np.bincount(to_part, minlength=len(asked.questions.cells.first))
            q = (place.oblique.q / shared)[to_part]
            rho = float(self._counted(asked, u) @ place.rho)
            parts.append((place.oblique.root[:, to_part], q, rho))
        for g in centre_steps(questions, gathered(questions, state.g), t, parts):
            yield spread(questions, g)
        yield state.g


def _cells_of(questions: AxisQuestions) -> Array:
    """The cell of every value of an axis."""
    cells = questions.cells
    return np.arange(len(cells.used)) if cells.are_all else cells.kind


def all_entries(search: Search) -> list[Entries]:
    """Where the blocks' own products take their numbers, one for every kind."""
    return search.blocks.entries(search.first_of_centre, search.first_of_part)
