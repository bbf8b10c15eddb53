"""What every kind of strategy has in common: integers to measure, one scale of noise, and what follows.

    integer_rows    rows over all cells, as one integer matrix
    query_rows      the same where every query is answered by its own measurement
    combined_rows   combinations of few queries over many cells
    structured      blocks of products, for domains that no matrix holds

All are exact where privacy is concerned, and all answer the same questions, for any workload over the same
cells; who holds a strategy never asks of which kind it is. Sizes are Python integers: a structured strategy
may speak of 10^40 cells.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DesignError, TooLargeError
from leastnoise.core.merged_cells import Cells
from leastnoise.core.operators import Array
from leastnoise.core.printable import in_figures
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.privacy import Neighbours, Noise
from leastnoise.query import AnyClasses, InventedRecords, Schema, Workload, periods_of_cells
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.periods import axis_of_time, last_columns, no_periods
from leastnoise.strategy.stored import MAX_MEASURED, StoredIntegers
from leastnoise.strategy.structured.gram import ProductGram

# A published strategy beyond this many entries is left implicit.
MAX_DENSE_STRATEGY = 10**7

# Cells up to this many have their spending listed one by one.
MAX_LISTED = 2**20

# The counts that are asked for: a table for each tuple of attributes; None for one table, of all cells;
# classes of cells for one table, of the classes.
TablesAsked = Sequence[tuple[str, ...]] | AnyClasses | None

# Counts of records for each combination of values, in the tables that are asked for.
CountTables = Callable[[TablesAsked], Sequence[Array]]


@dataclass(frozen=True)
class Spread:
    """Standard errors of one batch of queries, and the mean of their squares."""

    low: float
    median: float
    high: float
    mean_square: float


class MeasuredPart(NamedTuple):
    """Integers that are measured together: a matrix for every axis of one cross table, multiplied crosswise.

    Attributes:
        axes: the attributes of each axis of the cross table; None for the table of all cells as one axis.
        forms: the matrix of each of its axes, in order.
        multipliers: for every product of rows, the last axis fastest, what it is multiplied by, 0 where it is
            not measured; or one number for all of them.
        cells: where cells of several kinds are added up first, which those are, and what is measured of them.
    """

    axes: tuple[tuple[str, ...], ...] | None
    forms: tuple[AxisForm, ...]
    multipliers: int | Array = 1
    cells: Cells | None = None

    def last_periods(self, schema: Schema, over: str) -> Array:
        """The number of the last period that each of its integers counts.

        Raises:
            DesignError: if no axis is time alone.
        """
        assert self.cells is None, "cells of one kind may be of several periods"
        if self.axes is None:
            return last_columns(_rows_of(self.forms[0]), periods_of_cells(schema, over))
        place = axis_of_time(self.axes, over)
        shape = [form.n_rows for form in self.forms]
        ends = last_columns(_rows_of(self.forms[place]), np.arange(self.forms[place].size))
        ends = ends.reshape([-1 if a == place else 1 for a in range(len(shape))])
        ends = np.broadcast_to(ends, shape).reshape(-1)
        return ends if isinstance(self.multipliers, int) else ends[self.multipliers != 0]


def _rows_of(form: AxisForm) -> Array:
    return form.entries() if form.rows is None else form.rows


@dataclass(frozen=True, eq=False)
class KnownTotal:
    """A row p > 0 of what is measured, over the cells that are measured: how many records there are.

    Attributes:
        row: p, one number per cell; 1 where a cell is not measured.
        error: the standard error of p x.
        is_of_all: whether p counts every record once, those of all cells.
    """

    row: Array
    error: float
    is_of_all: bool


# The answers and variances of some queries of a product: its number, the first query, the one after the last.
AnswerPieces = Callable[[int, int, int], tuple[Array, Array]]


class Measured(ABC):
    """Integers that are measured with independent noise of one scale.

    A strategy does not change, and what a cached property of one holds depends on its integers, noise and
    neighbours only, never on its scale: `with_scale` takes them along.
    """

    scale: int
    noise: Noise
    neighbours: Neighbours

    # What the integers are called where a plan is described.
    noun: ClassVar[str] = "sums"

    def _keep(self, **values: object) -> None:
        """Set what a constructor was given, which nothing else does."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_noise(self) -> None:
        # A NumPy integer would wrap when squared.
        if type(self.scale) is not int or self.scale < 1:
            raise DesignError(
                f"the noise scale must be a positive whole number, got {self.scale!r}",
                field="scale",
                given=self.scale,
            )

    def __setattr__(self, name: str, value: object) -> None:
        # A scale changed after the budget was checked would be noise that nobody checked.
        raise AttributeError("a strategy does not change; make another")

    @property
    @abstractmethod
    def n_measured(self) -> int:
        """How many integers are measured."""

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """How many cells they are sums over."""

    @property
    def shape(self) -> tuple[int, int]:
        """How many integers are measured, over how many cells."""
        return self.n_measured, self.n_cells

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """Δ² (Gaussian) or Δ₁ (Laplace): no record changes more, in exact integers."""

    @property
    def unit(self) -> int:
        """What a cost is divided by to become μ² (Gaussian) or ε (Laplace): σ² or b."""
        return self.noise.unit(self.scale)

    @property
    def spent(self) -> Fraction:
        """μ² = Δ²/σ² (Gaussian) or ε = Δ₁/b (Laplace) per record, exactly."""
        return Fraction(self.sensitivity, self.unit)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on each integer, rounding to the grid included."""
        return self.noise.variance(self.scale)

    @property
    @abstractmethod
    def column_costs(self) -> tuple[int, ...]:
        """The most that one record of each cell can change, exactly: Σ a² (Gaussian) or Σ |a| (Laplace).

        a is what the neighbouring relation makes of the cell's column; see `Neighbours.cell_costs`.

        Raises:
            TooLargeError: where there are more cells than can be listed.
        """

    @property
    def spent_per_cell(self) -> list[Fraction]:
        """What a record of each cell spends, exactly: μ² (Gaussian) or ε (Laplace).

        Raises:
            TooLargeError: where there are more cells than can be listed.
        """
        return [Fraction(cost, self.unit) for cost in self.column_costs]

    @property
    def costliest_cell(self) -> int:
        """A cell whose record spends most, as far as the strategy says; the first if none spends."""
        costs = self.column_costs
        return max(range(len(costs)), key=costs.__getitem__)

    def farthest_from(self, cell: int) -> int | None:
        """A cell whose column differs most from that of another, where all columns are held; else None."""
        return None

    def dense(self, dtype: npt.DTypeLike | None = None) -> Array:
        """The integers as rows over all cells, (n_measured, n_cells); refused above 10⁷ entries.

        Args:
            dtype: of the rows, which are exact without one.

        Raises:
            TooLargeError: if there are more.
        """
        self._require_writable()
        rows = self._all_rows()
        return rows if dtype is None else rows.astype(dtype)

    @abstractmethod
    def _all_rows(self) -> Array:
        """What `dense` gives, exactly."""

    def with_scale(self, scale: int) -> Self:
        """The same integers with another scale of the noise; what was worked out from them is kept.

        Comparing all pairs of columns again, or inverting again, would double the time of a design.
        """
        other = copy(self)
        other._keep(scale=scale)
        other._check_noise()
        return other

    def merged(self, workload: Workload) -> tuple[Workload, Measured] | None:
        """The queries, and what is measured, over cells that neither tells apart, where the kind merges any.

        None where the queries tell cells apart that are measured as one.
        """
        return workload, self

    @abstractmethod
    def can_answer_all(self, workload: Workload) -> bool:
        """Whether every query of a workload can be answered without bias."""

    @abstractmethod
    def first_unanswerable(self, workload: Workload) -> int | None:
        """The number of a query that cannot be answered without bias; None if there is none."""

    @abstractmethod
    def distance_of(self, workload: Workload) -> float:
        """How far the queries that are answered without bias lie from those of a workload.

        The largest difference of two coefficients, beside the largest coefficient of the query; 0 where
        they are the same.
        """

    @abstractmethod
    def variances_of(self, workload: Workload) -> Array:
        """The variance of the answer to each query, (m,), in counts squared."""

    @abstractmethod
    def covariances_of(self, left: Workload, right: Workload) -> Array:
        """The covariances of the answers to two workloads, a dense array, in counts squared.

        Raises:
            TooLargeError: if it would not fit.
        """

    def spreads(self, workload: Workload) -> list[Spread]:
        """Standard errors of each batch of a workload, however many queries it has."""
        variances = self.variances_of(workload)
        found = []
        for name in workload.names:
            part = variances[workload.rows_of(name)]
            low, high = math.sqrt(part.min()), math.sqrt(part.max())
            found.append(Spread(low, float(np.median(np.sqrt(part))), high, float(part.mean())))
        return found

    def total_variance(self, workload: Workload, weights: Sequence[Array]) -> float:
        """Σ_j w_j v_j; for every batch its weights, one for all of its queries or one each."""
        return float(workload.per_query(weights, "the weights") @ self.variances_of(workload))

    def total_stderr(self, workload: Workload, weights: Sequence[Array]) -> float:
        """Σ_j w_j √v_j; for every batch its weights, one for all of its queries or one each."""
        w = workload.per_query(weights, "the weights")
        return math.fsum(w * np.sqrt(self.variances_of(workload)))

    def largest_share(self, workload: Workload, caps: Sequence[Array]) -> float:
        """max_j v_j/c_j; for every batch its caps, one for all of its queries or one each."""
        c = workload.per_query(caps, "the caps")
        with np.errstate(over="ignore"):
            return float((self.variances_of(workload) / c).max(initial=0))

    def require_measurable(self) -> None:
        """Return if what is measured fits in memory.

        Raises:
            TooLargeError: with the number of integers, before anything is read.
        """
        if self.n_measured > MAX_MEASURED:
            raise TooLargeError(
                f"the plan measures {self.n_measured:,} integers; at most {MAX_MEASURED:,} are held in "
                "memory. Ask for fewer or coarser attributes in one plan, or ",
                Remedy("measure it in blocks on a disk: ", Argument("into")),
                field="workload",
                given=self.n_measured,
            )

    def _require_writable(self, n_columns: int | None = None) -> None:
        """Return if the rows over all cells, or over this many kinds of cells, may be written out.

        Raises:
            TooLargeError: if they have too many entries.
        """
        n = self.n_cells if n_columns is None else n_columns
        if self.n_measured * n > MAX_DENSE_STRATEGY:
            raise TooLargeError(
                f"the strategy has {self.n_measured:,} x {in_figures(n)} entries; at most "
                f"{MAX_DENSE_STRATEGY:,} are written out",
                field="strategy",
                given=(self.n_measured, n),
                remedy="use apply() or adjoint()",
            )

    def _require_listable(self, most: int = MAX_LISTED) -> None:
        """Return if what a record of each cell spends may be listed.

        Raises:
            TooLargeError: if there are more cells than that.
        """
        if self.n_cells > most:
            raise TooLargeError(
                f"what a record spends is listed for up to {most:,} cells, there are more; "
                "plan.spent_per_person is the most of all",
                field="workload",
                given=self.n_cells,
            )

    @abstractmethod
    def exact_answers(self, tables: CountTables) -> Array:
        """What is measured, without noise, as Python integers, from counts of cross tables."""

    @property
    def block_starts(self) -> Array:
        """The first integer of every block that is drawn at once, and after them how many integers there are.

        Whatever is not made of blocks is one.
        """
        return np.array([0, self.n_measured], dtype=np.int64)

    def part_tables(self, first: int, last: int) -> list[TablesAsked]:
        """Everything that `exact_part` asks of its tables."""
        return [None]

    def exact_part(self, first: int, last: int, tables: CountTables) -> Array:
        """What the blocks from the first up to the last measure, without noise, as Python integers."""
        return self.exact_answers(tables)

    @abstractmethod
    def parts(self) -> Sequence[MeasuredPart]:
        """What is measured, part by part, in the order of the integers.

        Raises:
            TooLargeError: if some matrix is too large to be held.
        """

    # All cells at once ------------------------------------------------------------------------------

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """A x in floats, (n_measured,), for numbers x of all cells."""

    @abstractmethod
    def adjoint(self, y: Array) -> Array:
        """Aᵀ y in floats, (n,)."""

    def held_rows(self) -> Array | None:
        """A in floats, where it is held as one matrix; else None."""
        return None

    def product_gram(self) -> ProductGram | None:
        """AᵀA/ν as a sum of products over cross tables, where it is one; else None."""
        return None

    def known_total(self, everyone: Workload) -> KnownTotal | None:
        """What is known of the number of records: that itself wherever it is measured; None for nothing.

        Args:
            everyone: the one query that counts all records.
        """
        if not self.can_answer_all(everyone):
            return None
        error = math.sqrt(float(self.variances_of(everyone)[0]))
        return KnownTotal(np.ones(self.n_cells), error, is_of_all=True)

    @property
    def is_consistent(self) -> bool:
        """Whether all answers follow from the cells of `estimates`, which are then of least squares."""
        return True

    @abstractmethod
    def estimates(self, measurements: Array) -> Array:
        """The estimate of every cell, (n,), as far as cells are determined.

        Raises:
            TooLargeError: where there are more cells than can be listed.
        """

    @abstractmethod
    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        """The answers to a workload, (m,), from noisy integers: unbiased, of least variance."""

    def stored_answers(self, workload: Workload, measurements: StoredIntegers) -> Array:
        """The same from noisy integers on a disk.

        Raises:
            TooLargeError: if they are more than memory holds, and cannot be read some at a time.
        """
        return self.answers_of(workload, np.asarray(measurements))

    def answer_pieces(self, workload: Workload, measurements: Array | StoredIntegers) -> AnswerPieces:
        """The answers to a workload with their variances, some at a time where that takes less memory."""
        answers = self.answers_of(workload, np.asarray(measurements))
        variances = self.variances_of(workload)
        return lambda product, start, stop: (answers[start:stop], variances[start:stop])

    # Period by period -------------------------------------------------------------------------------

    def last_periods(self, workload: Workload, over: str) -> Array:
        """The number of the last period that every integer which is measured counts, (n_measured,)."""
        assert workload.schema is not None
        return np.concatenate([part.last_periods(workload.schema, over) for part in self.parts()])

    def through(self, workload: Workload, over: str, period: int) -> Measured:
        """The strategy of the integers that end by a period, in the same order.

        Raises:
            DesignError: if its integers are not measured period by period.
        """
        raise no_periods(over)

    def answers_in_time(self, workload: Workload, over: str) -> bool:
        """Whether every query can be answered from the integers that end by the period in which it is due.

        Raises:
            NotYetError: if that takes too long to tell.
        """
        return False

    def noiseless_answers(
        self, workload: Workload, records: InventedRecords, queries: Sequence[int]
    ) -> Array:
        """The answers to some queries, (len(queries),), if there were just these records and no noise."""
        return self.answers_of(workload, self.exact_answers(records.tables))[list(queries)]

    @abstractmethod
    def error_map(self, workload: Workload) -> Callable[[Array], Array]:
        """The map from noise on the measured integers, (n_measured, draws), to the errors of all answers.

        They are (m, draws). A simulation in many pieces makes the map once.
        """

    @abstractmethod
    def laplace_half_widths(self, workload: Workload, alpha: float) -> Array:
        """t with P(|e_j| > t_j) ≤ α for the error e_j of every answer, (m,), for Laplace noise."""

    @abstractmethod
    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays from which the strategy is made again."""
