"""What a row counts, record by record: an independent description of each query to check plans with.

Rows, labels and columns are all made from `terms`, products of operators. This module describes the same
queries a second time: how much a record in a given cell adds to row i. It uses no operators, no products of
operators and no order of array axes, so that a plan can be checked against it.

    Marginal("sex") * Prefix("age"), row 7:     aspects  sex = F, age up to 7
    a record (sex F, age 5) adds 1, a record (sex M, age 5) adds 0
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.query.predicates import Combination, ComparisonCondition, Condition, Negation
from leastnoise.query.schema import Schema

# The values of a record by their indices: its cell.
Cell = Mapping[str, int]

# Cells drawn until one satisfies a condition; if none does, the example adds zero, which is still a check.
_TRIES = 64


@dataclass(frozen=True, eq=False)
class Aspect:
    """What every row of a table counts of one attribute, or of a few at once: one part of its label.

    Attributes:
        attributes: those it is about.
        n_rows: the number of alternatives it has, such as the values of the attribute.
        label: the name of the j-th.
        adds: what a record in a cell adds to a row of the j-th.
        example: values for which that is not zero, if they are easy to find.
    """

    attributes: tuple[str, ...]
    n_rows: int
    label: Callable[[int], str]
    adds: Callable[[int, Cell], float]
    example: Callable[[int, np.random.Generator], Cell]


Table = tuple[Aspect, ...]


@dataclass(frozen=True, eq=False)
class Meaning:
    """The rows of a query as tables, one below the other; each counts through its aspects, the last fastest.

    Attributes:
        of_everyone: the label of a row without any aspect.
    """

    tables: Sequence[Table]
    of_everyone: str

    @property
    def starts(self) -> list[int]:
        """The first row of every table, and at the end the number of rows."""
        return list(accumulate((_n_rows(table) for table in self.tables), initial=0))

    def row(self, i: int, starts: Sequence[int]) -> RowMeaning:
        """What row i says."""
        number = bisect_right(starts, i) - 1
        table = self.tables[number]
        rest = i - starts[number]
        asked = []
        for aspect in reversed(table):
            rest, j = divmod(rest, aspect.n_rows)
            asked.append((aspect, j))
        return RowMeaning(tuple(reversed(asked)), self.of_everyone)


@dataclass(frozen=True, eq=False)
class RowMeaning:
    """What one row counts: its aspects, and which alternative of each."""

    asked: tuple[tuple[Aspect, int], ...]
    of_everyone: str

    @property
    def label(self) -> str:
        """The label that the row must have."""
        return ", ".join(aspect.label(j) for aspect, j in self.asked) or self.of_everyone

    def adds(self, cell: Cell) -> float:
        """What a record in a cell adds to the row's answer."""
        return math.prod(aspect.adds(j, cell) for aspect, j in self.asked)

    def example(self, rng: np.random.Generator) -> Cell:
        """Values of its attributes with which a record counts, if they are easy to find."""
        return {name: i for aspect, j in self.asked for name, i in aspect.example(j, rng).items()}


def _n_rows(table: Table) -> int:
    return math.prod(aspect.n_rows for aspect in table)


def interval_aspect(
    attribute: str, n_rows: int, ends: Callable[[int], tuple[int, int]], label: Callable[[int], str]
) -> Aspect:
    """Records whose value lies between two ends, both included."""

    def adds(j: int, cell: Cell) -> float:
        low, high = ends(j)
        return float(low <= cell[attribute] <= high)

    def example(j: int, rng: np.random.Generator) -> Cell:
        low, high = ends(j)
        return {attribute: int(rng.integers(low, high + 1))}

    return Aspect((attribute,), n_rows, lambda j: f"{attribute} {label(j)}", adds, example)


def condition_aspect(conditions: Sequence[Condition], labels: Sequence[str], schema: Schema) -> Aspect:
    """Records that satisfy the j-th of several conditions."""
    attributes = tuple(
        name for name in schema if any(name in condition.attributes for condition in conditions)
    )
    known: dict[ComparisonCondition, Sequence[bool]] = {}

    def holds(condition: Condition, cell: Cell) -> bool:
        match condition:
            case Negation():
                return not holds(condition.inner, cell)
            case Combination():
                parts = (holds(part, cell) for part in condition.parts)
                return all(parts) if condition.word == "and" else any(parts)
        if condition not in known:
            declared = schema[condition.attribute]
            known[condition] = declared.matching(
                condition.attribute, condition.sign, condition.value
            ).tolist()
        return known[condition][cell[condition.attribute]]

    def example(j: int, rng: np.random.Generator) -> Cell:
        for _ in range(_TRIES):
            cell = {name: int(rng.integers(schema[name].size)) for name in attributes}
            if holds(conditions[j], cell):
                break
        return cell

    return Aspect(
        attributes,
        len(conditions),
        labels.__getitem__,
        lambda j, cell: float(holds(conditions[j], cell)),
        example,
    )


class ClassesOfCells(Protocol):
    """Classes of cells, as `leastnoise.query.CellClasses` has them."""

    def of_codes(self, values: Mapping[str, Array]) -> Array:
        """The class of each record, from the number of its value of each attribute."""

    def counts(self, numbers: Array, times: Array) -> Array:
        """How many records each class holds."""


@dataclass(frozen=True, eq=False)
class InventedRecords:
    """Records of no real person, some of them repeated.

    Attributes:
        sizes: how many values each attribute has, in schema order.
        cells: the values of each record.
        times: how often each occurs.
    """

    sizes: dict[str, int]
    cells: tuple[Cell, ...]
    times: tuple[int, ...]

    def truth(self, row: RowMeaning) -> tuple[float, float]:
        """The true answer of a query, and the size of the numbers that are added up for it."""
        added = [row.adds(cell) for cell in self.cells]
        truth = sum(value * times for value, times in zip(added, self.times, strict=True))
        return truth, max(map(abs, added), default=0.0) * sum(self.times)

    def number(self, cell: Cell, names: Sequence[str]) -> int:
        """The place of a record among the combinations of some attributes, the last one fastest."""
        number = 0
        for name in names:
            number = number * self.sizes[name] + cell[name]
        return number

    def tables(self, subsets: Sequence[tuple[str, ...]] | ClassesOfCells | None) -> Sequence[Array]:
        """Counts for each combination of values of the attributes named; None asks for one table, of all.

        Classes of cells ask for the numbers of records in each.
        """
        if subsets is None:
            return [self._table(tuple(self.sizes))]
        if not isinstance(subsets, Sequence):
            values = {
                name: np.array([cell[name] for cell in self.cells], dtype=np.int64) for name in self.sizes
            }
            return [subsets.counts(subsets.of_codes(values), np.array(self.times, dtype=np.int64))]
        return [self._table(names).reshape([self.sizes[name] for name in names]) for names in subsets]

    def _table(self, names: tuple[str, ...]) -> Array:
        # A flat table: a schema may have more attributes than NumPy has array axes.
        n = 1
        for name in names:
            n *= self.sizes[name]
        table = np.zeros(n, dtype=np.int64)
        for cell, times in zip(self.cells, self.times, strict=True):
            table[self.number(cell, names)] += times
        return table
