"""How far a table keeps to its schema: true numbers about real records, for the eyes of its owner alone.

Everything else in this package either hides what it counts or adds noise to it. This does
neither: whoever may look at the table itself may look at this, and nobody else. What it finds is
handed to the caller and goes nowhere else; `repr` shows none of it.
"""

# ruff: noqa: S608 - queries are put together from identifiers made here; values are bound.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leastnoise.core.errors import DataError
from leastnoise.core.notebook import NotebookValue
from leastnoise.data.connections import withheld
from leastnoise.data.csv_blocks import DroppedRecords
from leastnoise.data.duckdb_scan import opened, with_cells, with_index
from leastnoise.data.handle import Data
from leastnoise.data.placement import placement_of
from leastnoise.data.sources import is_in_engine
from leastnoise.query import Attribute, Bins, Integers, Periods, Schema


@dataclass(frozen=True, eq=False, repr=False)
class ColumnFit:
    """How many records of a column are not what its attribute declares.

    Attributes:
        n_missing: those without a value.
        n_unreadable: of whole numbers or bins, those with a value that is no such number.
        n_undeclared: those with any other value that is not declared.
        n_undeclared_left_out: those of them that the policy does not count elsewhere.
        n_left_out: all that the policies do not count anywhere.
        examples: some values that are not declared, as text, and how often each occurs.
    """

    name: str
    attribute: Attribute
    n_missing: int
    n_unreadable: int
    n_undeclared: int
    n_undeclared_left_out: int
    n_left_out: int
    examples: tuple[tuple[str, int], ...] = ()

    def __repr__(self) -> str:
        return f"ColumnFit({self.name!r}, not private)"


@dataclass(frozen=True, eq=False, repr=False)
class PersonFit:
    """How many records a limit on the records of one person would cut, among those that count.

    Attributes:
        n_nobody: records that name no person, which are left out.
        n_persons: different persons.
        n_over: persons with more records than the limit.
        n_cut: records beyond it.
    """

    n_nobody: int
    n_persons: int
    n_over: int
    n_cut: int

    def __repr__(self) -> str:
        return "PersonFit(not private)"


@dataclass(frozen=True, eq=False, repr=False)
class SchemaFit(NotebookValue):
    """How far a table keeps to its schema.

    Attributes:
        n_records: all that could be read.
        n_counted: those that every attribute has a cell for.
        columns: one entry for each attribute, in the order of the schema.
        person: what a limit per person would do; None where the data names no person.
        dropped: what of CSV files is no record that could be read, by reason.
    """

    n_records: int
    n_counted: int
    columns: tuple[ColumnFit, ...]
    person: PersonFit | None = None
    dropped: DroppedRecords = field(default_factory=DroppedRecords)

    def __repr__(self) -> str:
        return f"SchemaFit({len(self.columns)} columns, not private)"


def fit_of(data: Data, *, records_per_person: int = 1, n_examples: int = 0) -> SchemaFit:
    """How many records of a table are not what its schema declares, column by column.

    Args:
        data: files or a data frame, from `vectorize`.
        records_per_person: the limit to hold persons against, where the data names them.
        n_examples: how many undeclared values to give of each column, the most frequent first.

    Guarantee:
        None: the numbers are true and have no noise. They are for those who may see the table.

    Raises:
        DataError: if the table cannot be read, or is held by another engine.
    """
    if is_in_engine(data._source):
        raise DataError(
            "a table in a query engine cannot be checked",
            field="table",
            given=type(data._source),
            remedy="write it to a file and check that, as in table.to_parquet('people.parquet')",
        )
    return withheld("checking the table", lambda: _fit(data, records_per_person, n_examples))


def _fit(data: Data, records_per_person: int, n_examples: int) -> SchemaFit:
    schema, n = data.schema, len(data.schema.names)
    # Read as if numbers were clamped, so that one too large for any type is told from one that is none.
    readable = Schema({name: _with_outside(schema[name], "clamp") for name in schema})
    as_written = n_examples > 0
    with opened(data._source, readable, data.who, as_written=as_written) as table:
        engine, query, parameters, texts = table
        copies = [f"v{k} AS v{k + n}, p{k} AS p{k + n}" for k in range(n)]
        copies += [f"{_is_read(schema[name], k)} AS r{k}" for k, name in enumerate(schema)]
        query = f"SELECT *, {', '.join(copies)} FROM ({query})"
        # By what is declared alone, and once more by the policies, as the records will be counted.
        for k, name in enumerate(schema):
            query = with_index(
                engine, placement_of(_with_outside(schema[name], "drop")), k, query, parameters
            )
        query = with_cells(engine, schema, query, parameters, first=n)
        is_counted = " AND ".join(f"i{k + n} IS NOT NULL" for k in range(n))
        tallies = [f"count(*) FILTER ({is_counted})"]
        for k in range(n):
            is_out = f"i{k + n} IS NULL"
            conditions = [f"NOT p{k}", f"p{k} AND NOT r{k}", _is_undeclared(k)]
            conditions += [f"{_is_undeclared(k)} AND {is_out}", is_out]
            tallies += [f"count(*) FILTER ({condition})" for condition in conditions]
        n_records, n_counted, *numbers = engine.execute(
            f"SELECT count(*), {', '.join(tallies)} FROM ({query})", parameters
        ).fetchone()
        dropped = texts.dropped
        examples: list[tuple[tuple[str, int], ...]] = [()] * n
        if n_examples:
            examples = [_examples(engine, query, parameters, k, n_examples) for k in range(n)]
        person = None
        if data.person is not None:
            counted = f"SELECT who FROM ({query}) WHERE {is_counted}"
            person = _persons(engine, counted, parameters, records_per_person)
    columns = []
    for k, name in enumerate(schema):
        missing, unreadable, undeclared, undeclared_out, out = map(int, numbers[5 * k : 5 * k + 5])
        own = ColumnFit(name, schema[name], missing, unreadable, undeclared, undeclared_out, out, examples[k])
        columns.append(own)
    return SchemaFit(n_records, n_counted, tuple(columns), person, dropped)


def _with_outside(attribute: Attribute, outside: str) -> Attribute:
    """The same declared numbers with another policy; names have no ends, and stay as they are."""
    if isinstance(attribute, Integers):
        return Integers(attribute.values, outside=outside, clean=attribute.clean)
    if isinstance(attribute, Periods):
        ends = attribute.label(0), attribute.label(attribute.n_values - 1)
        return Periods(*ends, attribute.by, zone=attribute.zone, outside=outside, clean=attribute.clean)
    if isinstance(attribute, Bins):
        return Bins(attribute.edges, outside=outside, clean=attribute.clean)
    return attribute


def _is_read(attribute: Attribute, k: int) -> str:
    """SQL that tells whether a value is of the attribute's kind; of names, any value is."""
    return f"v{k} IS NOT NULL" if isinstance(attribute, (Integers, Bins, Periods)) else f"p{k}"


def _is_undeclared(k: int) -> str:
    return f"p{k} AND r{k} AND i{k} IS NULL"


def _examples(
    engine: Any, query: str, parameters: dict[str, Any], k: int, n_examples: int
) -> tuple[tuple[str, int], ...]:
    """The most frequent values of a column that are not declared."""
    rows = engine.execute(
        f"SELECT t{k}, count(*) FROM ({query}) WHERE p{k} AND i{k} IS NULL GROUP BY 1 ORDER BY 2 DESC, 1 "
        "LIMIT $n_examples",
        parameters | {"n_examples": n_examples},
    ).fetchall()
    return tuple((str(text), int(times)) for text, times in rows)


def _persons(engine: Any, counted: str, parameters: dict[str, Any], limit: int) -> PersonFit:
    each = f"SELECT who, count(*) AS times FROM ({counted}) GROUP BY who"
    numbers = engine.execute(
        "SELECT coalesce(sum(times) FILTER (who IS NULL), 0), count(*) FILTER (who IS NOT NULL), "
        "count(*) FILTER (who IS NOT NULL AND times > $most), "
        "coalesce(sum(times - $most) FILTER (who IS NOT NULL AND times > $most), 0) "
        f"FROM ({each})",
        parameters | {"most": min(limit, 2**62)},
    ).fetchone()
    return PersonFit(*map(int, numbers))
