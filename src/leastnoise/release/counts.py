"""The counts of a table, asked for as a plan needs them.

A strategy asks for the tables of some attributes, or for the counts of all cells; where they come from, a
table in an engine or a vector of counts, it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leastnoise.core.errors import DataError
from leastnoise.core.operators import Array
from leastnoise.data import Data, counts_from_vector, is_count_vector, summed, vectorize
from leastnoise.query import AnyClasses, Workload
from leastnoise.strategy import CountTables


def opened_source(workload: Workload, source: Any) -> Data | Array:
    """What `measure` was given, as it is counted: a copy of the counts, (n,), or a handle on the table.

    Raises:
        DataError: if the source does not fit the workload.
    """
    n, schema = workload.shape[1], workload.schema
    if is_count_vector(source):
        return counts_from_vector(source, n, None if schema is None else schema.shape)
    if schema is None:
        raise DataError.must(
            "data", f"be a vector of {n:,} integer counts for a plan without a schema", given=type(source)
        )
    if isinstance(source, Data) and source.schema != schema:
        raise DataError(
            "the data was vectorized with another schema than the plan's",
            field="data",
            given=source.schema,
            remedy="vectorize it again",
        )
    return vectorize(source, schema)


@dataclass(eq=False, repr=False)
class TableCounter:
    """Counts of a table's cross tables, when asked; and of the records in no cell, from the same scan.

    Attributes:
        data: the table.
        most: how many records of one person count; None takes all as they are.
        left_out_by: attributes of which it is told how many records each has no cell for.
        earliest_by: the attribute that is time, where the earliest records of a person are those that count.
    """

    data: Data
    most: int | None
    left_out_by: tuple[str, ...] = ()
    earliest_by: str | None = None
    _rest: tuple[int, ...] | None = field(default=None, init=False)

    def __call__(self, subsets: Sequence[tuple[str, ...]] | AnyClasses | None) -> Sequence[Array]:
        classes = subsets if isinstance(subsets, AnyClasses) else None
        asked: Sequence[tuple[str, ...]] = [()] if isinstance(subsets, AnyClasses) else subsets or []
        found = self.data.counted(
            [self.data.schema.names] if subsets is None else asked,
            self.left_out_by,
            records_per_person=self.most,
            earliest_by=self.earliest_by,
            classes=classes,
        )
        is_counted = subsets is None or bool(asked)
        if is_counted and self._rest not in (None, found.rest):
            raise DataError(
                "the table changed while it was counted",
                field="data",
                remedy="count a copy or a snapshot that stays as it is. Nothing was spent",
            )
        self._rest = found.rest if is_counted else self._rest
        return found(subsets)

    @property
    def rest(self) -> tuple[int, ...]:
        """How many records are in no cell, then by attribute; a scan of its own where none was needed."""
        if self._rest is None:
            self([()])
        assert self._rest is not None
        return self._rest


def count_tables(
    workload: Workload,
    source: Any,
    records_per_person: int,
    left_out_by: tuple[str, ...] = (),
    *,
    earliest_by: str | None = None,
) -> CountTables:
    """How the counts of a workload's attributes are asked, from whatever `measure` takes.

    A `TableCounter`, wherever the source is no vector of counts.

    Raises:
        DataError: if the source does not fit the workload.
    """
    data = opened_source(workload, source)
    if not isinstance(data, Data):
        return tables_of_vector(workload, data)
    # Without a person, records_per_person is what the publisher declares about the table.
    return TableCounter(data, None if data.person is None else records_per_person, left_out_by, earliest_by)


def is_truncated(source: Any) -> bool:
    """Whether `count_tables` keeps at most ``records_per_person`` records of each person."""
    return isinstance(source, Data) and source.person is not None


def counts_of(workload: Workload, source: Any, records_per_person: int) -> Array:
    """The counts of all cells of a workload, (n,), from whatever `measure` takes.

    Raises:
        DataError: if the source does not fit the workload.
    """
    return count_tables(workload, source, records_per_person)(None)[0]


def tables_of_vector(workload: Workload, counts: Array) -> CountTables:
    """Cross tables by adding up counts of all cells."""
    schema = workload.schema

    def ask(subsets: Sequence[tuple[str, ...]] | AnyClasses | None) -> Sequence[Array]:
        if isinstance(subsets, AnyClasses):
            # In Python integers too, for the same reason.
            return [subsets.counts(subsets.of_cells(np.arange(len(counts))), counts.astype(object))]
        if subsets is None or schema is None:
            return [counts]
        # In Python integers where int64 sums could wrap, whatever the counts are.
        wide = counts.astype(object)
        return [summed(wide, schema.names, names, schema) for names in subsets]

    return ask
