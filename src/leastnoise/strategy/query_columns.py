"""The columns of queries over many cells, one of each kind, without a matrix of floats over all of them.

    HeldColumns     in as few bytes as the entries need
    TableColumns    table by table, where every query looks at few attributes (`core.table_rows`)
    ProductColumns  by the rows of single attributes that each query crosses (`query.ProductRows`)

All are whole numbers, and exact.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from leastnoise.core.merged_cells import Cells, can_compare, crossed_cells, merged_cells, numbered, row_blocks
from leastnoise.core.operators import EXACT_FLOAT, AllOnes, Array, Operator
from leastnoise.core.table_rows import TableRows, layouts_of, table_rows
from leastnoise.query import ProductRows

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


class Passes(Protocol):
    """Squares of all columns b_i, (k, d), without k² operations for each."""

    @property
    def n_terms(self) -> int:
        """How many numbers are added up for one of them, one after the other, at most."""

    def squares(self, S: Array) -> Array:
        """b_iᵀ S b_i for every column; S is symmetric, (k, k)."""


class QueryColumns(ABC):
    """Columns b_i of k queries, one for each of d kinds of cells.

    Attributes:
        cells: which cells are of one kind.
        passes: the squares of all columns, where a pass over them costs little; else None.
    """

    cells: Cells
    passes: Passes | None

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

    passes = None

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

    def __init__(self, tables: TableRows) -> None:
        self.cells = tables.cells
        self.tables = self.passes = tables.merged

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


@dataclass(frozen=True, eq=False)
class _Crossed:
    """Queries of one part of the operator: which they are, and by attribute the row of each and all rows."""

    rows: Array
    chosen: dict[int, Array]
    factors: dict[int, Array]

    @cached_property
    def places(self) -> Array:
        """Which of all combinations of the rows the queries are."""
        found = np.zeros(len(self.rows), dtype=np.intp)
        for a, own in self.factors.items():
            found = found * len(own) + self.chosen[a]
        return found


class ProductColumns(QueryColumns):
    """Columns by the rows of single attributes that queries cross; all combinations are passed over."""

    def __init__(self, sizes: tuple[int, ...], parts: list[_Crossed]) -> None:
        self._k = sum(len(part.rows) for part in parts)
        self.passes = self
        codes = [
            _codes(size, [p.factors[a] for p in parts if a in p.factors]) for a, size in enumerate(sizes)
        ]
        values = [np.unique(code, return_index=True)[1] for code in codes]
        self._parts = [
            _Crossed(part.rows, part.chosen, {a: own[:, values[a]] for a, own in part.factors.items()})
            for part in parts
        ]
        self.rows = ProductRows(
            tuple(map(len, values)),
            tuple({a: own.astype(float) for a, own in part.factors.items()} for part in self._parts),
        )
        self.cells = crossed_cells(codes)

    @classmethod
    def of(cls, queries: Operator) -> ProductColumns | None:
        """None where some query is no product of single attributes, or passes would gain nothing."""
        found = None if queries.largest >= EXACT_FLOAT else layouts_of(queries)
        if found is None:
            return None
        sizes, layouts = found
        parts = []
        for rows, layout, index in layouts:
            if any(len(own) != 1 for own in layout.places_of):
                return None
            chosen, factors = {}, {}
            for (a,), factor, number in zip(
                layout.places_of, layout.factors, layout.rows_of_factors(index), strict=True
            ):
                if not isinstance(factor, AllOnes):
                    used, chosen[a] = np.unique(number, return_inverse=True)
                    factors[a] = np.asarray(factor.rows(used)).astype(np.int64)
            parts.append(_Crossed(rows, chosen, factors))
        if sum(math.prod(map(len, part.factors.values())) for part in parts) > _MOST_ROWS:
            return None
        columns = cls(sizes, parts)
        return columns if columns.rows.work < queries.shape[0] ** 2 * columns.rows.n_cells else None

    @property
    def shape(self) -> tuple[int, int]:
        return self._k, self.rows.n_cells

    def take(self, index: Array) -> Array:
        values = np.unravel_index(index, self.rows.sizes)
        found = np.ones((self._k, len(index)), dtype=np.int64)
        for part in self._parts:
            for a, own in part.factors.items():
                found[part.rows] *= own[part.chosen[a]][:, values[a]]
        return found

    def candidates(self, count: int) -> Array:
        found = np.unique(np.random.default_rng(0).integers(0, self.shape[1], size=count))
        return found[self.take(found).any(axis=0)]

    def nonzero(self) -> Array:
        found = np.zeros(self._k, dtype=np.intp)
        for part in self._parts:
            for a, own in part.factors.items():
                stride = math.prod(self.rows.sizes[a + 1 :])
                found[part.rows] += stride * (own != 0).argmax(axis=1)[part.chosen[a]]
        return found

    def gram(self, weights: Array) -> Array:
        found = np.empty((self._k, self._k))
        found[np.ix_(self._order, self._order)] = self.rows.weighted_gram(weights)[np.ix_(self._at, self._at)]
        return found

    def squares(self, S: Array) -> Array:
        """b_iᵀ S b_i for every kind of cells; S is symmetric, (k, k)."""
        whole = np.zeros((self.rows.n_rows, self.rows.n_rows))
        whole[np.ix_(self._at, self._at)] = S[np.ix_(self._order, self._order)]
        return self.rows.squares(whole)

    @property
    def n_terms(self) -> int:
        """How many numbers are added up for one of `squares`, one after the other, at most."""
        return self.rows.n_terms

    @cached_property
    def _order(self) -> Array:
        return np.concatenate([part.rows for part in self._parts])

    @cached_property
    def _at(self) -> Array:
        starts = self.rows.starts[:-1]
        return np.concatenate([start + part.places for start, part in zip(starts, self._parts, strict=True)])


# Combinations of rows, at most: matrices of so many rows are passed over.
_MOST_ROWS = 4_096


def _codes(size: int, factors: list[Array]) -> Array:
    """For each value of an attribute which of its kinds it is, numbered as they come."""
    if not factors:
        return np.zeros(size, dtype=np.int64)
    columns = np.ascontiguousarray(np.vstack(factors).T)
    return numbered(column.tobytes() for column in columns)


def query_columns(queries: Operator, *, up_to_sign: bool) -> QueryColumns:
    """The columns of queries in the form that costs less.

    Args:
        up_to_sign: whether columns b and −b may be of one kind.
    """
    # Where records are replaced, all pairs of kinds are compared: the fewer the better.
    by_tables = TableColumns.of(queries) if up_to_sign else None
    if by_tables is not None:
        return by_tables
    by_rows = ProductColumns.of(queries) if up_to_sign else None
    if by_rows is not None:
        return by_rows
    is_small = can_compare(queries)
    cells = merged_cells(queries, up_to_sign=up_to_sign) if is_small else Cells.all_of(queries.shape[1])
    return HeldColumns(queries, cells)
