"""Several strategies side by side: each measures its own batches, and all share one scale of noise.

Sixty conditions over nine attributes fall into some 10⁸ classes of cells, and every twenty of them into a
few thousand. Strategy g has integer rows A_g for its batches; measured are f_g A_g x with a whole number f_g
that says which share of the budget it has:

    sensitivity   Δ² ≤ Σ_g f_g² Δ_g²      (Laplace: Δ₁ ≤ Σ_g f_g Δ_g)
    variance      v_j = v_j of its own strategy / f_g²

A record changes each strategy by no more than its sensitivity, so the sum is an upper bound for all of them,
in integers, though no list of cells is ever made; of few cells the costs are added up cell by cell. A query
is answered by the strategy of its batch alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core.errors import DesignError, TooLargeError
from leastnoise.core.operators import Array, require_room
from leastnoise.privacy import GAUSSIAN, Goal
from leastnoise.query import InventedRecords, SeveralClasses, Workload, part_of
from leastnoise.strategy.grid import FACTOR_BITS
from leastnoise.strategy.measured import (
    MAX_DENSE_STRATEGY,
    CountTables,
    Measured,
    MeasuredPart,
    Spread,
    TablesAsked,
)
from leastnoise.strategy.over_classes import OverClasses
from leastnoise.strategy.periods import no_periods
from leastnoise.strategy.proposal import Proposal

# Cells, at most, whose costs are added up one by one; beyond, the largest of each strategy are.
_MAX_LISTED = 2**12


class Side(NamedTuple):
    """One of the strategies.

    Attributes:
        measured: the strategy, with the common scale.
        factor: what its integers are multiplied by.
        names: the batches that it answers.
    """

    measured: Measured
    factor: int
    names: tuple[str, ...]


class _Piece(NamedTuple):
    """The batches of a workload that one strategy answers, and which rows and batches of it these are."""

    number: int
    workload: Workload
    rows: Array
    batches: list[int]


class SideBySide(Measured):
    """Integers of several strategies, each multiplied by a whole number.

    Args:
        sides: the strategies, over the same cells, with the same noise, scale and neighbours.
    """

    sides: tuple[Side, ...]

    def __init__(self, sides: Sequence[Side]) -> None:
        if not sides:
            raise DesignError("there is no strategy to put side by side with others", field="strategy")
        first = sides[0].measured
        for measured, factor, _ in sides:
            alike = (
                measured.n_cells == first.n_cells
                and measured.scale == first.scale
                and measured.noise == first.noise
                and measured.neighbours == first.neighbours
            )
            if not alike or type(factor) is not int or factor < 1:
                raise DesignError(
                    "strategies side by side have the same cells, noise and neighbours, and positive whole "
                    "factors",
                    field="strategy",
                )
        self._keep(sides=tuple(sides), scale=first.scale, noise=first.noise, neighbours=first.neighbours)
        self._keep(_known=WeakKeyDictionary())

    _known: WeakKeyDictionary[Workload, list[_Piece] | int]

    def with_scale(self, scale: int) -> SideBySide:
        other = super().with_scale(scale)
        sides = tuple(side._replace(measured=side.measured.with_scale(scale)) for side in self.sides)
        other._keep(sides=sides)
        return other

    @property
    def n_measured(self) -> int:
        return sum(side.measured.n_measured for side in self.sides)

    @property
    def n_cells(self) -> int:
        return self.sides[0].measured.n_cells

    def _times(self, side: Side, cost: int) -> int:
        """What a change costs, as the noise counts, once it is multiplied by the factor."""
        return self.noise.unit(side.factor) * cost

    @cached_property
    def sensitivity(self) -> int:
        if self.n_cells <= _MAX_LISTED:
            return max(self.column_costs)
        return sum(self._times(side, side.measured.sensitivity) for side in self.sides)

    @property
    def costliest_cell(self) -> int:
        """A cell whose record spends most of the strategy that spends most."""
        side = max(self.sides, key=lambda side: self._times(side, side.measured.sensitivity))
        return side.measured.costliest_cell

    @cached_property
    def column_costs(self) -> tuple[int, ...]:
        of_sides = [[self._times(side, cost) for cost in side.measured.column_costs] for side in self.sides]
        return tuple(map(sum, zip(*of_sides, strict=True)))

    @property
    def is_consistent(self) -> bool:
        """Never: two strategies may say different things of the same cells."""
        return False

    def _all_rows(self) -> Array:
        return np.vstack([side.measured.dense().astype(object) * side.factor for side in self.sides])

    # All cells at once ------------------------------------------------------------------------------

    def parts(self) -> list[MeasuredPart]:
        return [
            part._replace(multipliers=part.multipliers * side.factor)
            for side in self.sides
            for part in side.measured.parts()
        ]

    def apply(self, x: Array) -> Array:
        return np.concatenate([side.measured.apply(x) * float(side.factor) for side in self.sides])

    def adjoint(self, y: Array) -> Array:
        own = zip(self.sides, self._slices(), strict=True)
        return np.asarray(sum(side.measured.adjoint(y[at]) * float(side.factor) for side, at in own))

    def _slices(self) -> list[slice]:
        """Where the integers of each strategy stand."""
        ends = np.cumsum([0, *(side.measured.n_measured for side in self.sides)]).tolist()
        return [slice(start, stop) for start, stop in pairwise(ends)]

    # Period by period -------------------------------------------------------------------------------

    def last_periods(self, workload: Workload, over: str) -> Array:
        raise no_periods(over)

    def part_tables(self, first: int, last: int) -> list[TablesAsked]:
        others = [side.measured for side in self.sides if not isinstance(side.measured, OverClasses)]
        asked = [one for own in others for one in own.part_tables(0, len(own.block_starts) - 1)]
        return [self._several, *asked] if self._several.parts else asked

    # What is asked, by who answers it ---------------------------------------------------------------

    def _assigned(self, workload: Workload) -> list[_Piece] | int:
        """The batches of each strategy; the number of a query that none answers, where there is one."""
        if workload not in self._known:
            self._known[workload] = self._assign(workload)
        return self._known[workload]

    def _assign(self, workload: Workload) -> list[_Piece] | int:
        chosen: dict[int, list[int]] = {}
        starts = np.cumsum([0, *(block.n_rows for block in workload.blocks)]).tolist()
        own = {name: number for number, side in enumerate(self.sides) for name in side.names}
        asked: dict[int, list[int]] = {}
        for place, name in enumerate(workload.names):
            asked.setdefault(own.get(name, -1), []).append(place)
        for number, places in asked.items():
            # Whole lists of batches are most often those that a strategy was made for.
            if number >= 0 and self.sides[number].measured.can_answer_all(_some(workload, places)):
                chosen.setdefault(number, []).extend(places)
                continue
            for place in places:
                alone = _some(workload, [place])
                able = [g for g, side in enumerate(self.sides) if side.measured.can_answer_all(alone)]
                if not able:
                    firsts = [side.measured.first_unanswerable(alone) or 0 for side in self.sides]
                    return int(starts[place]) + max(firsts)
                best = min(able, key=lambda g: self._variance_of(self.sides[g], alone))
                chosen.setdefault(best, []).append(place)
        return [
            _Piece(
                number,
                _some(workload, sorted(places)),
                np.concatenate([np.arange(starts[place], starts[place + 1]) for place in sorted(places)]),
                sorted(places),
            )
            for number, places in sorted(chosen.items())
        ]

    @staticmethod
    def _variance_of(side: Side, workload: Workload) -> float:
        ones = [np.ones(1)] * len(workload.blocks)
        return side.measured.total_variance(workload, ones) / float(side.factor) ** 2

    def _pieces(self, workload: Workload) -> Iterator[tuple[Side, float, _Piece]]:
        """Every strategy that answers something, its factor as a float, and what it answers.

        Raises:
            DesignError: if some query is answered by none.
        """
        found = self._assigned(workload)
        if isinstance(found, int):
            raise DesignError(
                "no strategy of the plan answers a query alone",
                field="workload",
                given=found,
                remedy="add it to the workload and call design() again",
            )
        for piece in found:
            side = self.sides[piece.number]
            yield side, float(side.factor), piece

    def can_answer_all(self, workload: Workload) -> bool:
        return not isinstance(self._assigned(workload), int)

    def first_unanswerable(self, workload: Workload) -> int | None:
        found = self._assigned(workload)
        return found if isinstance(found, int) else None

    def distance_of(self, workload: Workload) -> float:
        return max(side.measured.distance_of(piece.workload) for side, _, piece in self._pieces(workload))

    def variances_of(self, workload: Workload) -> Array:
        require_room(workload.shape[0], 1, "the variances")
        found = np.empty(workload.shape[0])
        for side, factor, piece in self._pieces(workload):
            found[piece.rows] = side.measured.variances_of(piece.workload) / factor**2
        return found

    def covariances_of(self, left: Workload, right: Workload) -> Array:
        require_room(left.shape[0], right.shape[0], "the covariances")
        found = np.zeros((left.shape[0], right.shape[0]))
        for side, factor, one in self._pieces(left):
            for other_side, _, other in self._pieces(right):
                if other_side is side:
                    own = side.measured.covariances_of(one.workload, other.workload) / factor**2
                    found[np.ix_(one.rows, other.rows)] = own
        return found

    def spreads(self, workload: Workload) -> list[Spread]:
        found: dict[int, Spread] = {}
        for side, factor, piece in self._pieces(workload):
            own = side.measured.spreads(piece.workload)
            for place, spread in zip(piece.batches, own, strict=True):
                found[place] = Spread(
                    spread.low / factor,
                    spread.median / factor,
                    spread.high / factor,
                    spread.mean_square / factor**2,
                )
        return [found[place] for place in range(len(workload.blocks))]

    def total_variance(self, workload: Workload, weights: Sequence[Array]) -> float:
        return math.fsum(
            side.measured.total_variance(piece.workload, [weights[place] for place in piece.batches])
            / factor**2
            for side, factor, piece in self._pieces(workload)
        )

    def total_stderr(self, workload: Workload, weights: Sequence[Array]) -> float:
        return math.fsum(
            side.measured.total_stderr(piece.workload, [weights[place] for place in piece.batches]) / factor
            for side, factor, piece in self._pieces(workload)
        )

    def largest_share(self, workload: Workload, caps: Sequence[Array]) -> float:
        return max(
            side.measured.largest_share(piece.workload, [caps[place] for place in piece.batches]) / factor**2
            for side, factor, piece in self._pieces(workload)
        )

    @cached_property
    def _several(self) -> SeveralClasses:
        """The classes of all strategies that are over classes."""
        over = [side.measured for side in self.sides if isinstance(side.measured, OverClasses)]
        return SeveralClasses(tuple(measured.classes for measured in over))

    # From counts to integers, and to answers ----------------------------------------------------------

    def exact_answers(self, tables: CountTables) -> Array:
        """What every strategy measures: classes of all of them are counted in one reading."""
        own: dict[int, Array] = {}
        if self._several.parts:
            counts = self._several.apart(np.asarray(tables(self._several)[0]))
            over = [
                number for number, side in enumerate(self.sides) if isinstance(side.measured, OverClasses)
            ]
            own = dict(zip(over, counts, strict=True))
        found = []
        for number, (measured, factor, _) in enumerate(self.sides):
            exact = measured.exact_answers(_always(own[number]) if number in own else tables)
            found.append(exact.astype(object) * factor)
        return np.concatenate(found)

    def estimates(self, measurements: Array) -> Array:
        """The cells of least squares over all that is measured, where its rows are held as a matrix."""
        if self.n_measured * self.n_cells > MAX_DENSE_STRATEGY:
            raise TooLargeError(
                "strategies side by side do not say one thing of single cells",
                field="workload",
                given=self.n_cells,
                remedy="ask for answers to queries",
            )
        rows = self.dense(float)
        return np.asarray(np.linalg.lstsq(rows, measurements.astype(float), rcond=None)[0])

    def _own(self, measurements: Array, piece: _Piece) -> Array:
        """The noisy integers of a strategy, without its factor."""
        at = self._slices()[piece.number]
        return np.asarray(measurements[at].astype(float) / float(self.sides[piece.number].factor))

    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        found = np.empty(workload.shape[0])
        for side, _, piece in self._pieces(workload):
            found[piece.rows] = side.measured.answers_of(piece.workload, self._own(measurements, piece))
        return found

    def noiseless_answers(
        self, workload: Workload, records: InventedRecords, queries: Sequence[int]
    ) -> Array:
        found: dict[int, float] = {}
        for side, _, piece in self._pieces(workload):
            places = {int(row): place for place, row in enumerate(piece.rows)}
            mine = [query for query in queries if query in places]
            if mine:
                own = [places[query] for query in mine]
                answers = side.measured.noiseless_answers(piece.workload, records, own)
                found.update(zip(mine, answers.tolist(), strict=True))
        return np.array([found[query] for query in queries])

    def error_map(self, workload: Workload) -> Callable[[Array], Array]:
        maps = [(side.measured.error_map(piece.workload), piece) for side, _, piece in self._pieces(workload)]

        def errors(noise: Array) -> Array:
            found = np.empty((workload.shape[0], *noise.shape[1:]))
            for own, piece in maps:
                found[piece.rows] = own(self._own(noise, piece))
            return found

        return errors

    def laplace_half_widths(self, workload: Workload, alpha: float) -> Array:
        found = np.empty(workload.shape[0])
        for side, factor, piece in self._pieces(workload):
            found[piece.rows] = side.measured.laplace_half_widths(piece.workload, alpha) / factor
        return found

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        sides, arrays = [], {}
        for number, (measured, factor, names) in enumerate(self.sides):
            structure, own = measured.to_parts()
            sides.append({"names": list(names), "factor": str(factor), "structure": structure})
            arrays.update({prefix(number) + name: array for name, array in own.items()})
        return {"kind": "side-by-side", "sides": sides}, arrays


def prefix(number: int) -> str:
    """What the names of the arrays of one strategy begin with."""
    return f"side{number}_"


def _always(counts: Array) -> CountTables:
    """Tables that are counted already."""
    return lambda _: [counts]


def _some(workload: Workload, places: Sequence[int]) -> Workload:
    return part_of(workload, [workload.names[place] for place in places])


@dataclass(frozen=True, eq=False)
class SideProposal(Proposal[SideBySide]):
    """What a method proposes: strategies within the goal, each for its batches, and their shares of it.

    Attributes:
        sides: what is measured for some batches, if these had the whole goal, and the batches.
        shares: of the budget, one for each.
    """

    sides: tuple[tuple[Measured, tuple[str, ...]], ...]
    shares: Array

    def in_integers(self, goal: Goal, tol: float) -> SideBySide:
        costs = np.array([float(max(measured.sensitivity, 1)) for measured, _ in self.sides])
        ratios = self.shares / self.shares.sum() / costs
        if goal.noise == GAUSSIAN:
            ratios = np.sqrt(ratios)
        factors = np.rint(ratios / ratios.min() * 2.0**FACTOR_BITS)
        return SideBySide(
            [
                Side(measured.with_scale(1), int(factor), names)
                for (measured, names), factor in zip(self.sides, factors.tolist(), strict=True)
            ]
        )
