"""The columns of queries over many cells, one of each kind, without a matrix of floats over all of them.

    HeldColumns     in as few bytes as the entries need
    TableColumns    table by table, where every query looks at few attributes (`core.table_rows`)

Both are whole numbers, and exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from leastnoise.core.merged_cells import Cells, can_compare, merged_cells, row_blocks
from leastnoise.core.operators import EXACT_FLOAT, Array, Operator
from leastnoise.core.table_rows import TableRows, table_rows

# Columns worked on at a time.
BLOCK = 2**15

# Directions, at most, where columns that span all of them are looked for in equal steps through the cells. Of
# more, a random draw is all but certain to hold every cell of tables that k numbers describe.
MANY_DIRECTIONS = 512


def smallest_columns(operator: Operator, cells: Array) -> Array:
    """Some columns of an operator of whole numbers, (m, len(cells)), in as few bytes as its entries need."""
    largest = int(operator.largest)
    dtype = next(t for t in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(t).max)
    found = np.empty((operator.shape[0], len(cells)), dtype=dtype)
    for at, block in row_blocks(operator):
        found[at] = block[:, cells]
    return found


class QueryColumns(ABC):
    """Columns b_i of k queries, one for each of d kinds of cells.

    Attributes:
        cells: which cells are of one kind.
        tables: the same columns table by table, where a pass over all of them costs little; else None.
    """

    cells: Cells
    tables: TableRows | None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(k, d)."""

    @abstractmethod
    def take(self, index: Array) -> Array:
        """Some of them, (k, len(index)), whole numbers."""

    @abstractmethod
    def candidates(self, count: int) -> Array:
        """At most this many kinds, rising, among which to look for some that span all directions."""

    @abstractmethod
    def nonzero(self) -> Array:
        """For each query, a kind that it counts, (k,)."""

    @abstractmethod
    def gram(self, weights: Array) -> Array:
        """Σ_i weights_i b_i b_iᵀ, (k, k) floats."""


def column_blocks(columns: QueryColumns) -> Iterator[Array]:
    """All columns, some at a time."""
    d = columns.shape[1]
    for start in range(0, d, BLOCK):
        yield columns.take(np.arange(start, min(start + BLOCK, d)))


class HeldColumns(QueryColumns):
    """Columns in few bytes."""

    tables = None

    def __init__(self, queries: Operator, cells: Cells) -> None:
        self.cells = cells
        self.entries = smallest_columns(queries, cells.first)

    @property
    def shape(self) -> tuple[int, int]:
        return self.entries.shape[0], self.entries.shape[1]

    def take(self, index: Array) -> Array:
        return np.asarray(self.entries[:, index])

    def candidates(self, count: int) -> Array:
        k, d = self.shape
        if k > MANY_DIRECTIONS:
            return np.random.default_rng(0).choice(d, count, replace=False)
        return np.unique(np.linspace(0, d - 1, count).astype(np.intp))

    def nonzero(self) -> Array:
        return np.array([int(np.argmax(row != 0)) for row in self.entries], dtype=np.intp)

    def gram(self, weights: Array) -> Array:
        total = np.zeros((self.shape[0],) * 2)
        for start, block in zip(range(0, self.shape[1], BLOCK), column_blocks(self), strict=True):
            b = block.astype(float)
            total += (b * weights[start : start + BLOCK]) @ b.T
        return total


class TableColumns(QueryColumns):
    """Columns table by table."""

    tables: TableRows

    def __init__(self, tables: TableRows) -> None:
        self.cells = tables.cells
        self.tables = tables.merged

    @classmethod
    def of(cls, queries: Operator) -> TableColumns | None:
        """None where tables would gain nothing."""
        tables = table_rows(queries) if queries.largest < EXACT_FLOAT else None
        return None if tables is None or not tables.is_quick else cls(tables)

    @property
    def shape(self) -> tuple[int, int]:
        return self.tables.n_rows, self.tables.n_cells

    def take(self, index: Array) -> Array:
        return self.tables.columns(index).astype(np.int64)

    def candidates(self, count: int) -> Array:
        return np.unique(np.random.default_rng(0).integers(0, self.shape[1], size=count))

    def nonzero(self) -> Array:
        return self.tables.nonzero()

    def gram(self, weights: Array) -> Array:
        return self.tables.weighted_gram(weights)


def query_columns(queries: Operator, *, up_to_sign: bool) -> QueryColumns:
    """The columns of queries in the form that costs less.

    Args:
        up_to_sign: whether columns b and −b may be of one kind.
    """
    # Where records are replaced, all pairs of kinds are compared: the fewer the better.
    by_tables = TableColumns.of(queries) if up_to_sign else None
    if by_tables is not None:
        return by_tables
    is_small = can_compare(queries)
    cells = merged_cells(queries, up_to_sign=up_to_sign) if is_small else Cells.all_of(queries.shape[1])
    return HeldColumns(queries, cells)
