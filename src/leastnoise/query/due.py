"""When queries can be answered, where one attribute is time; and the queries that are due by some period.

A query is due in the last period that it counts. Periods are the values of one attribute, in the order in
which the schema lists them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators import Array, Operator, Selected, SparseMatrix
from leastnoise.query.queries import Factor, Labels, Linear, Query, Term
from leastnoise.query.queries.meaning import Aspect, Table
from leastnoise.query.query_blocks import QueryBlock
from leastnoise.query.ratio_rows import RatioRows
from leastnoise.query.schema import Schema
from leastnoise.query.workload import Workload

# Coefficients of a query that are looked at together.
_CHUNK = 2**22


def check_time(workload: Workload, over: str) -> Schema:
    """The schema of a workload, if one of its attributes can be time.

    Raises:
        WorkloadError: if the workload has no schema, the attribute is not in it, or has cells beside its
        values.
    """
    schema = workload.schema
    if schema is None:
        raise WorkloadError.must(
            "over",
            "name an attribute, and a matrix without a schema has none",
            given=over,
            remedy="give a schema to Workload.from_matrix()",
        )
    if not isinstance(over, str) or over not in schema:
        raise WorkloadError.unknown("over", over, schema.names)
    values = schema[over]
    if values.size != values.n_values:
        raise WorkloadError.must(
            "over",
            "name an attribute whose values are all periods, without a cell for others or for nulls",
            given=over,
            remedy="leave out other= and nulls= of that attribute",
        )
    return schema


def periods_of_cells(schema: Schema, over: str) -> Array:
    """The number of the period of every cell, (n,)."""
    place = schema.names.index(over)
    before, size, behind = (
        math.prod(schema.shape[:place]),
        schema.shape[place],
        math.prod(schema.shape[place + 1 :]),
    )
    return np.tile(np.repeat(np.arange(size), behind), before)


def due_of_batches(workload: Workload, over: str) -> list[Array]:
    """For every batch the number of the period in which each of its queries is due, (rows,)."""
    schema = check_time(workload, over)
    return [_due_of(block, schema, over) for block in workload.blocks]


def due_by(workload: Workload, over: str, period: int) -> Workload | None:
    """The queries that are due by a period, with their labels; None if there are none."""
    schema = check_time(workload, over)
    blocks = []
    chosen = {}
    for block, due in zip(workload.blocks, due_of_batches(workload, over), strict=True):
        index = chosen[block.name] = np.flatnonzero(due <= period)
        if len(index) == block.n_rows:
            blocks.append(block)
        elif len(index):
            blocks.append(_part_of(block, schema, over, period, index))
    if not blocks:
        return None
    found = [
        _ratio_of(ratio, schema, over, period, chosen[ratio.numerator], chosen[ratio.denominator])
        for ratio in workload.ratios
    ]
    return Workload(tuple(blocks), schema, tuple(ratio for ratio in found if ratio is not None))


def _ratio_of(
    ratio: RatioRows, schema: Schema, over: str, period: int, above: Array, below: Array
) -> RatioRows | None:
    """The ratios whose numerators and denominators are due, (rows above) and (rows below); None if none is.

    None also where a numerator is due before its denominator: it waits for that.
    """
    rows = ratio.parts.rows[above]
    if not len(above) or not np.isin(rows, below).all():
        return None
    shown = DueBy(ratio.parts.shown_as, over, period, name=ratio.query.name)
    labels = shown.labels(schema)
    if len(labels) != len(above):
        return None
    parts = replace(
        ratio.parts,
        numerator=DueBy(ratio.parts.numerator, over, period),
        denominator=DueBy(ratio.parts.denominator, over, period),
        rows=np.searchsorted(below, rows),
        shown_as=shown,
        further=tuple((role, DueBy(query, over, period)) for role, query in ratio.parts.further),
    )
    return replace(ratio, parts=parts, labels=labels)


def _part_of(block: QueryBlock, schema: Schema, over: str, period: int, index: Array) -> QueryBlock:
    """Some rows of a batch, those that are due by a period."""
    query = block.query
    part: Query
    if isinstance(query, Linear):
        part = _linear_rows(query, index)
    else:
        part = DueBy(query, over, period, name=block.name, weight=query.weight)
        if not isinstance(query.expected, tuple):
            part = part.having(stderr=query.stderr, within=query.within, expected=query.expected)
    return replace(
        block,
        query=part,
        operator=part.operator(schema),
        labels=part.labels(schema),
        weights=block.weights if len(block.weights) == 1 else block.weights[index],
        targets=block.targets if len(block.targets) == 1 else block.targets[index],
    )


def _linear_rows(query: Linear, index: Array) -> Linear:
    matrix: Operator = query.matrix
    rows = matrix.entries[index] if isinstance(matrix, SparseMatrix) else matrix.rows(index)
    labels = query.own_labels()
    return Linear(rows, [labels[j] for j in index.tolist()], name=query.name, weight=query.weight)


def _due_of(block: QueryBlock, schema: Schema, over: str) -> Array:
    if isinstance(block.query, Linear):
        cells = periods_of_cells(schema, over)
        return _last_period(block.operator, cells)
    parts = []
    for term in block.query.terms(schema):
        due: Array = np.zeros(1, dtype=np.int64)
        for factor in term:
            own = _due_of_factor(factor, schema, over)
            due = np.maximum.outer(due, own).reshape(-1)
        if not any(over in factor.attributes for factor in term):
            due = np.full(len(due), schema[over].size - 1)
        parts.append(due)
    return np.concatenate(parts)


def _due_of_factor(factor: Factor, schema: Schema, over: str) -> Array:
    """The last period that every row of a factor counts; 0 where it is about something else."""
    if over not in factor.attributes:
        return np.zeros(factor.operator.shape[0], dtype=np.int64)
    sizes = [schema[name].size for name in factor.attributes]
    place = factor.attributes.index(over)
    periods = np.arange(sizes[place]).reshape([-1 if i == place else 1 for i in range(len(sizes))])
    return _last_period(factor.operator, np.broadcast_to(periods, sizes).reshape(-1))


def _last_period(operator: Operator, periods: Array) -> Array:
    """The last period of a nonzero coefficient of every row; 0 for rows of zeros."""
    m, n = operator.shape
    step = max(1, _CHUNK // n)
    parts = [np.zeros(0, dtype=np.int64)]
    for start in range(0, m, step):
        rows = operator.rows(np.arange(start, min(start + step, m)))
        parts.append(np.where(rows != 0, periods, 0).max(axis=1, initial=0))
    return np.concatenate(parts)


@dataclass(frozen=True)
class DueBy(Query):
    """The rows of another query that are due by a period. Files never hold it: they hold that other query."""

    query: Query = field()
    over: str = field()
    period: int = field()
    kind: ClassVar[str] = ""

    def terms(self, schema: Schema) -> list[Term]:
        found = [self._term(term, schema) for term in self.query.terms(schema)]
        return [term for term in found if term is not None]

    def _term(self, term: Term, schema: Schema) -> Term | None:
        if not any(self.over in factor.attributes for factor in term):
            return term if self.period >= schema[self.over].size - 1 else None
        chosen = [self._chosen(factor, schema) for factor in term]
        if any(len(index) == 0 for index in chosen):
            return None
        return [_rows_of(factor, index) for factor, index in zip(term, chosen, strict=True)]

    def _chosen(self, factor: Factor, schema: Schema) -> Array:
        return np.flatnonzero(_due_of_factor(factor, schema, self.over) <= self.period)

    def tables(self, schema: Schema) -> Sequence[Table]:
        terms, tables = self.query.terms(schema), self.query.tables(schema)
        found = []
        for term, table in zip(terms, tables, strict=True):
            if self._term(term, schema) is not None:
                chosen = [self._chosen(factor, schema) for factor in term]
                found.append(tuple(_aspect_of(one, index) for one, index in zip(table, chosen, strict=True)))
        return found

    def title(self) -> str:
        return self.query.name or self.query.title()


def _rows_of(factor: Factor, index: Array) -> Factor:
    if len(index) == factor.operator.shape[0]:
        return factor
    labels = Labels(len(index), lambda j: factor.labels[int(index[j])])
    return replace(factor, operator=Selected(factor.operator, index), labels=labels)


def _aspect_of(aspect: Aspect, index: Array) -> Aspect:
    if len(index) == aspect.n_rows:
        return aspect
    return replace(
        aspect,
        n_rows=len(index),
        label=lambda j: aspect.label(int(index[j])),
        adds=lambda j, cell: aspect.adds(int(index[j]), cell),
        example=lambda j, rng: aspect.example(int(index[j]), rng),
    )
