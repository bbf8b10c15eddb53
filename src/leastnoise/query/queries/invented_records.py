"""A handful of invented records, and tables of them counted one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.query.queries.meaning import Cell, RowMeaning


@dataclass(frozen=True, eq=False)
class InventedRecords:
    """Records that nobody lives behind, some of them repeated.

    Attributes:
        sizes: how many values each attribute has, in schema order.
        cells: the values of each record.
        times: how often each occurs.
    """

    sizes: dict[str, int]
    cells: tuple[Cell, ...]
    times: tuple[int, ...]

    def truth(self, row: RowMeaning) -> tuple[float, float]:
        """What a query must answer, and how large the numbers are that add up to it."""
        added = [row.adds(cell) for cell in self.cells]
        truth = sum(value * times for value, times in zip(added, self.times, strict=True))
        return truth, max(map(abs, added), default=0.0) * sum(self.times)

    def number(self, cell: Cell, names: Sequence[str]) -> int:
        """The place of a record among the combinations of some attributes, the last one fastest."""
        number = 0
        for name in names:
            number = number * self.sizes[name] + cell[name]
        return number

    def tables(self, subsets: Sequence[tuple[str, ...]] | None) -> Sequence[Array]:
        """Counts for each combination of values of the attributes named; None asks for one table, of all."""
        if subsets is None:
            return [self._table(tuple(self.sizes))]
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
