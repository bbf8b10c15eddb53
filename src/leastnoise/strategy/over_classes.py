"""A strategy over classes of cells that no query tells apart, as one over all the cells that nobody lists.

Cells of one class are in the same queries, so some optimal noise measures them alike: its columns are those
of the classes. A record changes what is measured by the column of its class, and one in no class changes
nothing. So sensitivity and noise are those of the strategy over classes, exactly, and what is measured is
A' x' with x' the numbers of records in each class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from leastnoise.core.errors import DesignError, TooLargeError
from leastnoise.core.merged_cells import Cells
from leastnoise.core.operators import Array
from leastnoise.query import CellClasses, Workload
from leastnoise.strategy.measured import CountTables, Measured, MeasuredPart, Spread, TablesAsked
from leastnoise.strategy.periods import no_periods

# Cells whose classes are listed, at most; a vector of all cells has no more entries.
_MAX_LISTED = 10**7


class OverClasses(Measured):
    """Integers measured over classes of cells.

    Args:
        inner: what is measured of the classes, with its noise.
        classes: which cells are in which class.
    """

    inner: Measured
    classes: CellClasses

    def __init__(self, inner: Measured, classes: CellClasses) -> None:
        if inner.n_cells != classes.n:
            raise DesignError(
                f"the strategy measures {inner.n_cells:,} classes of cells, and there are {classes.n:,}",
                field="strategy",
                given=inner.n_cells,
            )
        self._keep(
            inner=inner, classes=classes, scale=inner.scale, noise=inner.noise, neighbours=inner.neighbours
        )

    def with_scale(self, scale: int) -> OverClasses:
        return OverClasses(self.inner.with_scale(scale), self.classes)

    @property
    def n_measured(self) -> int:
        return self.inner.n_measured

    @property
    def n_cells(self) -> int:
        return self.classes.n_cells

    @property
    def sensitivity(self) -> int:
        return self.inner.sensitivity

    @property
    def costliest_cell(self) -> int:
        """A cell whose record spends most, where records are added or removed."""
        costs = self.inner.column_costs
        return self.classes.number_of(max(range(len(costs)), key=costs.__getitem__))

    @cached_property
    def _class_of_every_cell(self) -> Array:
        if self.n_cells > _MAX_LISTED:
            raise TooLargeError(
                f"the plan measures classes of cells, and what it knows of single cells is worked out for up "
                f"to {_MAX_LISTED:,} of them",
                field="workload",
                given=self.n_cells,
                remedy="ask for answers to queries",
            )
        return self.classes.of_cells(np.arange(self.n_cells))

    @property
    def column_costs(self) -> tuple[int, ...]:
        self._require_listable()
        # With replaced records, one in no class changes as much as the longest column.
        none = self.sensitivity if self.neighbours.replaces else 0
        costs = (*self.inner.column_costs, none)
        return tuple(costs[number] for number in self._class_of_every_cell.tolist())

    def _all_rows(self) -> Array:
        rows = self.inner.dense()
        return np.hstack([rows, np.zeros((len(rows), 1), dtype=rows.dtype)])[:, self._class_of_every_cell]

    # All cells at once ------------------------------------------------------------------------------

    def parts(self) -> list[MeasuredPart]:
        classes, found = self._class_of_every_cell, []
        for part in self.inner.parts():
            own = Cells.all_of(self.classes.n) if part.cells is None else part.cells
            # Of the kinds of classes those of their cells; −1 where nothing is measured.
            kinds, signs = np.full(self.classes.n + 1, -1), np.ones(self.classes.n + 1, dtype=np.int8)
            kinds[:-1][own.used] = own.kind
            if own.signs is not None:
                signs[:-1][own.used] = own.signs
            kind = kinds[classes]
            used = kind >= 0
            counts = np.bincount(kind[used], minlength=len(own.first))
            chosen = signs[classes][used]
            cells = Cells(used, self.classes.first[own.first], kind[used], counts, chosen)
            found.append(MeasuredPart(None, part.forms, part.multipliers, cells))
        return found

    def apply(self, x: Array) -> Array:
        sums = np.bincount(self._class_of_every_cell, weights=x, minlength=self.classes.n + 1)
        return self.inner.apply(sums[: self.classes.n])

    def adjoint(self, y: Array) -> Array:
        return np.asarray(self._spread(self.inner.adjoint(y)))

    def _spread(self, values: Array) -> Array:
        """A number of each class for every cell of it, (n,); 0 for cells in no class."""
        return np.append(values, 0.0)[self._class_of_every_cell]

    # Period by period: a class may hold cells of several periods --------------------------------------

    def last_periods(self, workload: Workload, over: str) -> Array:
        raise no_periods(over)

    # What is asked, over classes ------------------------------------------------------------------

    def _over(self, workload: Workload) -> Workload:
        """A workload over classes.

        Raises:
            DesignError: if some query tells cells of one class apart.
        """
        found = self.classes.reduced(workload)
        if found is None:
            raise DesignError(
                "a query tells cells apart that no query of the plan does",
                field="workload",
                remedy="add it to the workload and call design() again",
            )
        return found

    def merged(self, workload: Workload) -> tuple[Workload, Measured] | None:
        found = self.classes.reduced(workload)
        return None if found is None else (found, self.inner)

    def can_answer_all(self, workload: Workload) -> bool:
        found = self.classes.reduced(workload)
        return found is not None and self.inner.can_answer_all(found)

    def first_unanswerable(self, workload: Workload) -> int | None:
        start = 0
        for name, block in zip(workload.names, workload.blocks, strict=True):
            over = self.classes.reduced(workload.only(name))
            place = 0 if over is None else self.inner.first_unanswerable(over)
            if place is not None:
                return start + place
            start += block.n_rows
        return None

    def distance_of(self, workload: Workload) -> float:
        return self.inner.distance_of(self._over(workload))

    def variances_of(self, workload: Workload) -> Array:
        return self.inner.variances_of(self._over(workload))

    def covariances_of(self, left: Workload, right: Workload) -> Array:
        return self.inner.covariances_of(self._over(left), self._over(right))

    def spreads(self, workload: Workload) -> list[Spread]:
        return self.inner.spreads(self._over(workload))

    def total_variance(self, workload: Workload, weights: Sequence[Array]) -> float:
        return self.inner.total_variance(self._over(workload), weights)

    def total_stderr(self, workload: Workload, weights: Sequence[Array]) -> float:
        return self.inner.total_stderr(self._over(workload), weights)

    def largest_share(self, workload: Workload, caps: Sequence[Array]) -> float:
        return self.inner.largest_share(self._over(workload), caps)

    # From counts to answers -----------------------------------------------------------------------

    def exact_answers(self, tables: CountTables) -> Array:
        """A' x' as Python integers: the source counts the records of each class."""
        counts = tables(self.classes)
        return self.inner.exact_answers(lambda _: counts)

    @property
    def block_starts(self) -> Array:
        return self.inner.block_starts

    def part_tables(self, first: int, last: int) -> list[TablesAsked]:
        return [self.classes]

    def exact_part(self, first: int, last: int, tables: CountTables) -> Array:
        counts = tables(self.classes)
        return self.inner.exact_part(first, last, lambda _: counts)

    @property
    def is_consistent(self) -> bool:
        return self.inner.is_consistent

    def estimates(self, measurements: Array) -> Array:
        """The estimate of every class in equal shares for its cells; 0 for cells in no class."""
        sizes = np.bincount(self._class_of_every_cell, minlength=self.classes.n + 1)[: self.classes.n]
        return self._spread(self.inner.estimates(measurements) / sizes)

    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        return self.inner.answers_of(self._over(workload), measurements)

    def error_map(self, workload: Workload) -> Callable[[Array], Array]:
        return self.inner.error_map(self._over(workload))

    def laplace_half_widths(self, workload: Workload, alpha: float) -> Array:
        return self.inner.laplace_half_widths(self._over(workload), alpha)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        structure, arrays = self.inner.to_parts()
        # Which cells are in which class follows from the queries; a cell of each says in which order.
        return {"kind": "classes", "inner": structure}, {**arrays, "classes": self.classes.first}
