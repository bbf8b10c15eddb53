"""Which two records a strategy tells apart best, by measuring them.

Nothing is taken from what a strategy says about its sensitivity: a record's effect is what the integers
change by when it is measured, through the same step as a real table. Where cells are few every pair of
records is tried; else the strategy's own costs say where to look, and the pair found is one of the worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.query import AnyClasses, Workload
from leastnoise.strategy import CountTables, Measured

# Products of integers up to which every column, and every pair of columns, is computed again.
_MAX_PRODUCTS = 2**22
_MAX_CELLS = 2**9

# A record is its place in each attribute, or the number of its cell where there is no schema.
Record = tuple[int, ...]


@dataclass(frozen=True)
class Pair:
    """Two records, one in place of the other; None for no record at all.

    Attributes:
        cost: Σ d² (Gaussian) or Σ |d| (Laplace), d being the difference that they make, exactly.
        is_worst: whether every other pair was tried and none costs more.
    """

    one: Record
    other: Record | None
    cost: int
    is_worst: bool


def worst_pair(workload: Workload, strategy: Measured) -> Pair | None:
    """The pair of records that changes most, or the worst that is found; None if none changes anything."""
    n, r = strategy.n_cells, strategy.n_measured
    replaces = strategy.neighbours.replaces
    if n <= _MAX_CELLS and n * n * r <= _MAX_PRODUCTS:
        records = [_record(workload, cell) for cell in range(n)]
        columns = [change_of(workload, strategy, record, None) for record in records]
        costs = [(_cost(strategy, column), i, -1) for i, column in enumerate(columns)]
        if replaces:
            costs += [
                (_cost(strategy, columns[i] - columns[j]), i, j) for i in range(n) for j in range(i + 1, n)
            ]
        cost, i, j = max(costs)
        return Pair(records[i], None if j < 0 else records[j], cost, is_worst=True) if cost else None
    one = _record(workload, strategy.costliest_cell)
    others: list[Record | None] = [None, *(_partners(workload, strategy, one) if replaces else [])]
    found = [(_cost(strategy, change_of(workload, strategy, one, other)), other) for other in others]
    cost, other = max(found, key=lambda pair: pair[0])
    return Pair(one, other, cost, is_worst=False) if cost else None


def _cost(strategy: Measured, change: Array) -> int:
    """Σ d² or Σ |d| in Python integers, of the largest change that the neighbouring relation allows."""
    return strategy.neighbours.change_cost(strategy.noise.cost(change.tolist()), strategy.noise)


def change_of(workload: Workload, strategy: Measured, one: Record, other: Record | None) -> Array:
    """What the measured integers change by when a record takes the place of another, by measuring both."""
    change = strategy.exact_answers(tables_of(workload, [(one, 1)])).astype(object)
    if other is None:
        return np.asarray(change)
    return np.asarray(change - strategy.exact_answers(tables_of(workload, [(other, 1)])))


def _record(workload: Workload, cell: int) -> Record:
    if workload.schema is None:
        return (cell,)
    record = []
    for size in reversed(workload.schema.shape):
        cell, place = divmod(cell, size)
        record.append(place)
    return tuple(reversed(record))


def _cell(workload: Workload, record: Record) -> int:
    shape = (workload.shape[1],) if workload.schema is None else workload.schema.shape
    cell = 0
    for place, size in zip(record, shape, strict=True):
        cell = cell * size + place
    return cell


def _partners(workload: Workload, strategy: Measured, one: Record) -> list[Record]:
    """Records that may change most in place of another."""
    farthest = strategy.farthest_from(_cell(workload, one))
    found = [] if farthest is None else [_record(workload, farthest)]
    if workload.schema is None:
        return found
    sizes = workload.schema.shape
    ends = [tuple(size - 1 - i for i, size in zip(one, sizes, strict=True))]
    return [
        *found,
        *ends,
        *(tuple((i + by) % n for i, n in zip(one, sizes, strict=True)) for by in (1, -1)),
    ]


def tables_of(workload: Workload, records: Sequence[tuple[Record, int]]) -> CountTables:
    """The counts of a table with the given number of records of each kind."""
    dtype: Any = np.int64 if sum(count for _, count in records) < 2**62 else object

    def every_cell() -> Array:
        counts = np.zeros(workload.shape[1], dtype=dtype)
        for record, count in records:
            counts[_cell(workload, record)] += count
        return counts

    def ask(subsets: Sequence[tuple[str, ...]] | AnyClasses | None) -> Sequence[Array]:
        schema = workload.schema
        if isinstance(subsets, AnyClasses):
            values = [np.array(own, dtype=np.int64) for own in zip(*(one for one, _ in records), strict=True)]
            times = np.array([count for _, count in records], dtype=dtype)
            return [subsets.counts(subsets.of_codes(values), times)]
        if schema is None or subsets is None:
            return [every_cell()]
        found = []
        for names in subsets:
            places = [schema.names.index(name) for name in names]
            counts = np.zeros([schema.shape[place] for place in places], dtype=dtype)
            for record, count in records:
                counts[tuple(record[place] for place in places)] += count
            found.append(counts)
        return found

    return ask
