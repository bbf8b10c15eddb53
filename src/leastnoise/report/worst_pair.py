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
from leastnoise.query import Axis, CellClasses, Workload
from leastnoise.strategy import (
    AxisForm,
    CombinedRows,
    CountTables,
    JointRows,
    Measured,
    OverClasses,
    Strategy,
    Structured,
    chosen_forms,
)

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
    one = _costly_record(workload, strategy)
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


def _costly_record(workload: Workload, strategy: Measured) -> Record:
    """The record that spends most by what the strategy says of its cells, or of its axes."""
    if isinstance(strategy, Strategy):
        costs = strategy.column_costs
        return _record(workload, max(range(len(costs)), key=costs.__getitem__))
    if isinstance(strategy, JointRows):
        worst = np.unravel_index(int(np.argmax(strategy.costs)), strategy.costs.shape)
        return _record_of_axes(workload, strategy.axes, [int(i) for i in worst])
    if isinstance(strategy, CombinedRows | OverClasses):
        return _record(workload, strategy.costliest_cell)
    assert isinstance(strategy, Structured)
    place = [0] * len(strategy.axes)
    power = strategy.noise.power
    costs_of = [[_axis_costs(strategy, form, power) for form in own] for own in strategy.forms]
    # One axis at a time, the others staying: each step takes the value that costs most.
    for _ in range(2):
        for a in range(len(place)):
            # Where no matrix is held, all values cost the same.
            if any(form.rows is not None for form in strategy.forms[a]):
                found = [
                    _said_cost(strategy, costs_of, [*place[:a], i, *place[a + 1 :]], power)
                    for i in range(strategy.axes[a].size)
                ]
                place[a] = found.index(max(found))
    return _record_of_axes(workload, strategy.axes, place)


def _axis_costs(strategy: Structured, form: AxisForm, power: int) -> list[int]:
    """The cost of every column of an axis."""
    return strategy.measured_form(form).costs(power)


def _said_cost(
    strategy: Structured, costs_of: Sequence[Sequence[list[int]]], place: Sequence[int], power: int
) -> int:
    total = 0
    for block in strategy.blocks:
        cost = block.multiplier**power
        for a, form in chosen_forms(block, strategy.whole).items():
            cost *= costs_of[a][form][place[a]]
        total += cost
    return total


def _partners(workload: Workload, strategy: Measured, one: Record) -> list[Record]:
    """Records that may change most in place of another."""
    if isinstance(strategy, Strategy):
        cell = _cell(workload, one)
        A = strategy.entries.astype(float)
        apart = A - A[:, [cell]]
        power = strategy.noise.power
        return [_record(workload, int(np.argmax((np.abs(apart) ** power).sum(axis=0))))]
    if isinstance(strategy, CombinedRows | OverClasses):
        return []
    assert workload.schema is not None
    sizes = workload.schema.shape
    ends = [tuple(size - 1 - i for i, size in zip(one, sizes, strict=True))]
    return [*ends, *(tuple((i + by) % n for i, n in zip(one, sizes, strict=True)) for by in (1, -1))]


def _record_of_axes(workload: Workload, axes: Sequence[Axis], place: Sequence[int]) -> Record:
    assert workload.schema is not None
    record = [0] * len(workload.schema.names)
    for axis, i in zip(axes, place, strict=True):
        for where, value in zip(axis.places, np.unravel_index(i, axis.sizes), strict=True):
            record[where] = int(value)
    return tuple(record)


def tables_of(workload: Workload, records: Sequence[tuple[Record, int]]) -> CountTables:
    """The counts of a table with the given number of records of each kind."""
    dtype: Any = np.int64 if sum(count for _, count in records) < 2**62 else object

    def every_cell() -> Array:
        counts = np.zeros(workload.shape[1], dtype=dtype)
        for record, count in records:
            counts[_cell(workload, record)] += count
        return counts

    def ask(subsets: Sequence[tuple[str, ...]] | CellClasses | None) -> Sequence[Array]:
        schema = workload.schema
        if isinstance(subsets, CellClasses):
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
