"""One scan by any engine that Ibis reaches: values are placed and counted there, and counts come back."""

# ruff: noqa: S608 - queries are put together from what Ibis compiled and identifiers made here.

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DataError
from leastnoise.core.extras import missing_package
from leastnoise.data.arrow_cells import ALREADY_PLACED, ArrowPlacing, arrow_placing
from leastnoise.data.block_counts import MAX_COUNTED_CELLS
from leastnoise.data.columns import column_places
from leastnoise.data.connections import without_statistics
from leastnoise.data.dialects import ENGINES, TESTED, dialect_of, requirement_of
from leastnoise.data.ibis_cells import (
    as_stored,
    check_type,
    person_text,
    placed,
    read_column,
    reading,
    trimmed_column,
)
from leastnoise.data.people import Person
from leastnoise.data.placement import Placement, placement_of
from leastnoise.data.postgres_counts import PostgresCount, work_memory
from leastnoise.data.scan_progress import ScanWatch
from leastnoise.data.snapshots import Scan, held_rows, held_version
from leastnoise.data.spark_counts import counted_in_partitions, has_numpy, sent_columns
from leastnoise.data.table_cover import Block, cell_number, n_cells_of, tallied
from leastnoise.query import Bins, Categories, Integers, Periods, Schema

_SPARK = ("pyspark", "databricks")
# Public values that engines are known to read differently, and what all must make of them.
_AWKWARD = (
    *(
        "18",
        "18.0",
        "+18",
        "0018",
        "1.8e1",
        "180E-1",
        "-0",
        ".5",
        "5.",
        "18 ",
        " 18",
        "18\n",
        "1_8",
        "0x12",
        "",
        "nan",
    ),
    *(
        "inf",
        "-Infinity",
        "1e999",
        "-1e999",
        "1e-999",
        "1e20",
        "9" * 19,
        "0" * 40 + "7",
        "0.1",
        "2.5e-324",
        "x",
    ),
    *("F", "f", "F ", "Ｆ", "é", "e\u0301", "ß", "ss", "'", "\\", "1e", "e5", "--1"),
    *("2026-03-15", "2026-3-15", "2024-02-29", "2026-02-29", "2026-03", "2026-Q1", "2026-W53", "2026"),
    *("2026-03-31T23:30:00Z", "2026-03-31 23:30", "2026-03-31T24:00:00", "0000-01-01", "15/03/2026"),
)
_PROBE = Schema(
    whole=Integers(range(-5, 20), null="other", other="none"),
    listed=Categories([18, 0, 7, 10**20], other="none"),
    named=Categories(["18", "F", "é", "ss", "'", "\\", ""], other="none"),
    binned=Bins([-1e300, 0, 0.1, 18, 1e300, float("inf")], outside="other", other="none"),
    month=Periods("2024-01", "2026-12", by="month", outside="other", null="other", other="none"),
    local=Periods("2026-03-30", "2026-04-02", by="day", zone="Europe/Berlin", outside="other", other="none"),
)
# The column that keeps steps apart, where an engine needs one. No attribute of a schema is a column by then.
_BARRIER = "barrier"
_ANSWER = {"which": "int64", "cell": "int64", "n": "int64"}


def check_table(table: Any, schema: Schema, person: Person | None) -> None:
    """Return if an engine can count a table; columns and types are looked at, and no value."""
    engine = table.get_backend().name
    if engine not in ENGINES:
        raise DataError(
            f"tables are counted in {', '.join(ENGINES)}, not in {engine}",
            field="table",
            given=engine,
            remedy="write this one to a file, as in table.to_parquet('people.parquet'), and count that",
        )
    names = schema.names if person is None else (*schema.names, person.column)
    places = column_places(table.columns, names)
    types = list(table.schema().values())
    for name, place in zip(schema.names, places, strict=False):
        check_type(name, placement_of(schema[name]), types[place])
    if person is not None:
        check_type(person.column, None, types[places[-1]])


@contextmanager
def scanner(
    table: Any,
    schema: Schema,
    person: Person | None,
    records_per_person: int | None,
    *,
    n_scans: int,
    earliest_by: str | None = None,
) -> Iterator[Scan]:
    """A function that counts blocks of attributes in one scan of a table, up to `n_scans` times.

    Guarantee:
        All scans see the same version of the table: PostgreSQL and DuckDB answer them within one
        transaction, and Spark from a copy of the placed records that it does not compute again.

    Raises:
        DataError: if several scans are needed and the engine cannot hold one version.
    """
    check_table(table, schema, person)
    limit = None if records_per_person is None else _Limit(min(records_per_person, 2**62), earliest_by)
    backend = table.get_backend()
    judged = without_statistics(backend.con) if backend.name == "duckdb" else nullcontext()
    # A single query sees one version in every engine.
    with judged, held_version(table) if n_scans > 1 else nullcontext(), ExitStack() as ends:
        yield _Scans(table, schema, person, limit, ends if n_scans > 1 else None).counts


class _Limit(NamedTuple):
    """How many records of each person are kept, and the attribute of time of which the earliest are."""

    most: int
    earliest_by: str | None = None


@dataclass
class _Scans:
    """The scans of one table: its records are placed by the first, and held where others follow.

    Attributes:
        ends: where to leave what ends with the last scan; None if there is one scan only.
    """

    table: Any
    schema: Schema
    person: Person | None
    limit: _Limit | None
    ends: ExitStack | None

    def counts(self, blocks: Sequence[Block], watch: ScanWatch) -> list[npt.NDArray[np.int64]]:
        """The counts of every block, each of shape (n_cells_of the block,), from one scan."""
        backend = self.table.get_backend()
        try:
            if backend.name == "postgres":
                watch.attach(stop=backend.con.cancel)
            with _spark_settings(backend) if backend.name == "pyspark" else nullcontext():
                found = self._counted(blocks)
            watch.attach()
        except ImportError as error:
            missing = error.name
        else:
            return found
        raise missing_package(
            str(missing), requirement=requirement_of(backend.name), why="counting this Ibis table"
        )

    def _counted(self, blocks: Sequence[Block]) -> list[npt.NDArray[np.int64]]:
        backend, schema = self.table.get_backend(), self.schema
        sizes = [n_cells_of(block, schema) for block in blocks]
        if route_of(backend, sum(sizes)) == "numpy":
            records, placings = self._sent
            query = f"SELECT {', '.join(sent_columns(placings))} FROM ({backend.compile(records)})"
            return counted_in_partitions(backend._session.sql(query), schema, blocks, placings)
        records = self._records
        if backend.name == "postgres":
            count = PostgresCount(f"({backend.compile(records)}) AS placed", schema, blocks)
            with work_memory(backend.con, sum(sizes)):
                return count.counted(_answer(backend, count.query, count.columns))
        which, cells, n_records = _answer(backend, _grouped(backend, records, schema, blocks), _ANSWER)
        return tallied(which, cells, n_records, sizes)

    @cached_property
    def _sent(self) -> tuple[Any, list[ArrowPlacing]]:
        """The records for `counted_in_partitions`, and how each column is placed there.

        Records that are limited or held have their cells already.
        """
        backend, schema = self.table.get_backend(), self.schema
        if self.limit is not None or self.ends is not None:
            return self._records, [ALREADY_PLACED] * len(schema.names)
        backend._run_pre_execute_hooks(self.table)
        types = list(self.table.schema().values())
        columns = column_places(self.table.columns, schema.names)
        rules = [placement_of(schema[name]) for name in schema.names]
        found = [arrow_placing(rule, types[place]) for rule, place in zip(rules, columns, strict=True)]
        stored = {k for k, placing in enumerate(found) if placing is not None}
        records = _placed(backend, self.table, schema, None, stored)
        return records, [placing or ALREADY_PLACED for placing in found]

    @cached_property
    def _records(self) -> Any:
        """The records with their cells, as `_placed` gives them.

        To limit the records of each person takes a sort of the table, which is done once. Spark holds all
        that several scans need, because its version of a table is what it has computed.
        """
        backend, schema = self.table.get_backend(), self.schema
        # Tables that Ibis holds in memory are known to the engine after the hooks only.
        backend._run_pre_execute_hooks(self.table)
        if backend.name not in TESTED:
            probe(backend)
        records = _placed(backend, self.table, schema, None if self.limit is None else self.person)
        if self.limit is not None:
            records = _truncated(backend, records, schema, self.limit)
        if self.ends is None or (self.limit is None and backend.name != "pyspark"):
            return records
        columns = [*(f"i{k}" for k in range(len(schema.names))), "rest"]
        return self.ends.enter_context(held_rows(backend, records.select(columns)))


def route_of(backend: Any, n_cells: int) -> str:
    """Who counts a scan of this many cells: "numpy", in every partition of Spark, or "sql", the engine."""
    is_small = n_cells <= MAX_COUNTED_CELLS
    return "numpy" if backend.name == "pyspark" and is_small and has_numpy(backend._session) else "sql"


def probe(backend: Any) -> None:
    """Return if an engine places a few awkward public values as they are placed here.

    Raises:
        DataError: if it does not; then its counts would not be those of other engines.
    """
    import ibis

    names = _PROBE.names
    rows = [
        ibis.literal(value).name(names[0]).as_table().mutate(**dict.fromkeys(names[1:], ibis.literal(value)))
        for value in _AWKWARD
    ]
    table = ibis.union(*rows)
    blocks = [(name,) for name in names]
    sizes = [n_cells_of(block, _PROBE) for block in blocks]
    query = _grouped(backend, _placed(backend, table, _PROBE, None), _PROBE, blocks)
    which, cells, n_records = _answer(backend, query, _ANSWER)
    for name, found in zip(names, tallied(which, cells, n_records, sizes), strict=True):
        # No attribute of the probe drops anything.
        expected = np.bincount([int(_PROBE[name].place(v) or 0) for v in _AWKWARD], minlength=found.size)
        if not np.array_equal(found, expected):
            raise DataError(
                f"this version of {backend.name} does not read numbers, dates or text as other engines do, "
                "so its counts would differ",
                field="table",
                given=backend.name,
                remedy="write the table to a file, as in table.to_parquet('people.parquet'), and count that",
            )


def _placed(
    backend: Any,
    table: Any,
    schema: Schema,
    person: Person | None,
    stored: Collection[int] = (),
) -> Any:
    """The cell of every record, as columns i0, i1, …, rest for `cell_number`, and whose it is, as who.

    The columns of the attributes at the places ``stored`` stay as they are stored; then rest means nothing.

    In steps, of which each is SQL before the next begins: Ibis would put the expressions of one into the
    next as often as they are used there.
    """
    import ibis

    dialect = dialect_of(backend.name)
    names = schema.names
    places = column_places(table.columns, names if person is None else (*names, person.column))
    rules = [placement_of(schema[name]) for name in names]
    columns = [table[place] for place in places]
    is_long = any(rule.clean is not None or rule.dates is not None for rule in rules)
    texts = columns
    if any(rule.clean is not None for rule in rules):
        table, columns, texts = _cleaned(backend, table, rules, columns)
    readings = [
        as_stored(column) if k in stored else reading(rule, column, text, dialect)
        for k, (rule, column, text) in enumerate(zip(rules, columns, texts, strict=False))
    ]
    made = [list(read.values) for read in readings]
    values = {f"p{k}": (read.is_present, "boolean") for k, read in enumerate(readings)}
    values |= {
        f"s{k}": (read.synonym, "int64") for k, read in enumerate(readings) if read.synonym is not None
    }
    if person is not None:
        values["who"] = (person_text(columns[-1], person, dialect), "string")
    first = _computed(backend, table, values | _numbered(made), is_long=is_long)
    for n_done in range(max(len(read.steps) for read in readings)):
        columns = [[first[f"v{k}_{j}"] for j in range(len(own))] for k, own in enumerate(made)]
        made = [
            read.steps[n_done](*own)
            if n_done < len(read.steps)
            else [(column, kind) for column, (_, kind) in zip(own, before, strict=True)]
            for read, own, before in zip(readings, columns, made, strict=True)
        ]
        kept = {name: (first[name], kind) for name, (_, kind) in values.items()}
        first = _computed(backend, first, kept | _numbered(made), is_long=is_long)
    cells = {} if person is None else {"who": first["who"]}
    for k, (rule, read) in enumerate(zip(rules, readings, strict=True)):
        index = read.index(*(first[f"v{k}_{j}"] for j in range(len(made[k]))))
        if read.synonym is not None:
            index = first[f"s{k}"].fill_null(index)
        cells[f"i{k}"] = index if k in stored else placed(rule, index, first[f"p{k}"])
    kinds = {f"i{k}": str(cells[f"i{k}"].type()) if k in stored else "int64" for k in range(len(names))}
    found = {name: (cell, kinds.get(name, "string")) for name, cell in cells.items()}
    second = _computed(backend, first, found, is_long=is_long)
    is_kept = [] if person is None else [second["who"].notnull()]
    if _BARRIER in second.columns:
        is_kept.append(second[_BARRIER] >= 0)
    kept = second.filter(is_kept) if is_kept else second
    is_placed = ibis.and_(*(kept[f"i{k}"].notnull() for k in range(len(names))))
    return kept.mutate(rest=is_placed.ifelse(0, 1).cast("int64"))


def _cleaned(
    backend: Any, table: Any, rules: Sequence[Placement], columns: Sequence[Any]
) -> tuple[Any, list[Any], list[Any]]:
    """The columns trimmed, and the texts that attributes are read from, in a table of their own.

    Both are used several times, and so the one by the other.
    """
    dialect = dialect_of(backend.name)
    kept = [trimmed_column(rule, column, dialect) for rule, column in zip(rules, columns, strict=False)]
    named = {f"c{k}": column for k, column in enumerate([*kept, *columns[len(rules) :]])}
    first = _computed(backend, table, _typed(named), is_long=True)
    texts = {f"r{k}": read_column(rule, first[f"c{k}"]) for k, rule in enumerate(rules)}
    both = {name: first[name] for name in named} | texts
    second = _computed(backend, first, _typed(both), is_long=True)
    return second, [second[name] for name in named], [second[name] for name in texts]


def _typed(columns: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    """Columns by name, each with its type."""
    return {name: (column, str(column.type())) for name, column in columns.items()}


def _numbered(made: Sequence[Sequence[tuple[Any, str]]]) -> dict[str, tuple[Any, str]]:
    """The values of every attribute by name: v0_0, v0_1, …, v1_0, …"""
    return {f"v{k}_{j}": value for k, own in enumerate(made) for j, value in enumerate(own)}


def _computed(backend: Any, table: Any, columns: dict[str, tuple[Any, str]], *, is_long: bool) -> Any:
    """A table of expressions over another one, each with its type, computed once.

    Args:
        is_long: whether cells are computed in many steps.
    """
    dialect = dialect_of(backend.name)
    if is_long and dialect.barrier is not None:
        before = [table[_BARRIER]] if _BARRIER in table.columns else []
        columns = columns | {_BARRIER: (sum(before, start=dialect.barrier()), "int64")}
    compiled = backend.compile(table.select(**{name: column for name, (column, _) in columns.items()}))
    kinds = {name: kind for name, (_, kind) in columns.items()}
    return backend.sql(compiled + dialect.fence, schema=kinds)


def _truncated(backend: Any, records: Any, schema: Schema, limit: _Limit) -> Any:
    """At most ``limit.most`` records of each person, those in a cell first; records of nobody are left out.

    Guarantee:
        That of the embedded engine: the same records in the same order, by the MD5 of
        the person and the cell, after the period where one attribute is time.
    """
    import ibis

    dialect = dialect_of(backend.name)
    nothing = ibis.literal(-1, "int64")
    cells = [records[f"i{k}"].fill_null(nothing) for k in range(len(schema.names))]
    written = records["who"]
    for cell in cells:
        written = written + "," + cell.cast("string")
    # The digest as bytes: a collation must not order it.
    digest = dialect.from_hex(dialect.md5(dialect.bytes_of(written)))
    period = [] if limit.earliest_by is None else [cells[schema.names.index(limit.earliest_by)]]
    window = ibis.window(
        group_by=dialect.bytes_of(records["who"]), order_by=[records["rest"], *period, digest, *cells]
    )
    ranked = records.mutate(nth=ibis.row_number().over(window))
    return ranked.filter(ranked["nth"] < ibis.literal(limit.most, "int64"))


def _grouped(backend: Any, records: Any, schema: Schema, blocks: Sequence[Block]) -> str:
    """The query that counts the cells of all blocks in one scan: which block, which cell, how many."""
    import sqlglot

    def own(name: str) -> str:
        return sqlglot.to_identifier(name, quoted=True).sql(dialect=backend.dialect)

    codes = [f"CAST({cell_number(block, schema, own)} AS BIGINT)" for block in blocks]
    which, cell, n, coded = (own(name) for name in ("which", "cell", "n", "coded"))
    placed = f"({backend.compile(records)}) AS {own('placed')}"
    if len(blocks) == 1:
        return f"SELECT 0 AS {which}, {codes[0]} AS {cell}, COUNT(*) AS {n} FROM {placed} GROUP BY {codes[0]}"
    if backend.name in _SPARK:
        # Spark writes a row with every column for each grouping set: six blocks of a million records
        # took it 11.2 s, and 8.1 s as rows of two columns (local, one core of a busy machine).
        exploded = f"SELECT POSEXPLODE(ARRAY({', '.join(codes)})) AS ({which}, {cell}) FROM {placed}"
        return (
            f"SELECT {which}, {cell}, COUNT(*) AS {n} FROM ({exploded}) AS {coded} GROUP BY {which}, {cell}"
        )
    columns = [own(f"c{b}") for b in range(len(blocks))]
    listed = ", ".join(f"{code} AS {column}" for code, column in zip(codes, columns, strict=True))
    numbers = " ".join(f"WHEN GROUPING({column}) = 0 THEN {b}" for b, column in enumerate(columns))
    # No cell is null, but for the columns that are not in a row's grouping set.
    return (
        f"SELECT CASE {numbers} END AS {which}, COALESCE({', '.join(columns)}) AS {cell}, COUNT(*) AS {n} "
        f"FROM (SELECT {listed} FROM {placed}) AS {coded} "
        f"GROUP BY GROUPING SETS ({', '.join(f'({column})' for column in columns)})"
    )


def _answer(backend: Any, query: str, columns: dict[str, str]) -> tuple[npt.NDArray[Any], ...]:
    """The columns of an answer, which are given with their types."""
    if backend.name == "duckdb":
        # Ibis 12 reads Arrow from DuckDB by a call that DuckDB 2.0 deprecates.
        found = backend.con.sql(query).fetchnumpy()
        return tuple(np.asarray(found[column]) for column in columns)
    if backend.name == "pyspark":
        # Ibis goes by way of pandas, which takes longer and warns of what it will no longer do.
        frame = backend._session.sql(query)
        found = frame.toArrow() if hasattr(frame, "toArrow") else frame.toPandas()
        return tuple(np.asarray(found[column]) for column in columns)
    arrow = backend.sql(query, schema=columns).to_pyarrow()
    return tuple(arrow[column].to_numpy() for column in columns)


# Settings of Spark under which the queries of this file run, and no others.
_SPARK_SETTINGS = {
    # A search for filters that follow from others: with 20 attributes it took more than a minute, before the
    # first of 20,000 records was read, and it finds nothing here.
    "spark.sql.constraintPropagation.enabled": "false",
    # Bytes of a method that Spark generates, at most: Java compiles no longer one and runs it some ten times
    # slower. Placing two million records in 20 attributes took 20 s of processor time, and 4 to 8 s so.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}


@contextmanager
def _spark_settings(backend: Any) -> Iterator[None]:
    """Spark with these settings, for as long as one scan takes."""
    session = backend._session
    before = {name: session.conf.get(name) for name in _SPARK_SETTINGS}
    for name, value in _SPARK_SETTINGS.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        # A session that was stopped meanwhile takes no settings; what stopped it is the error to raise.
        with suppress(Exception):
            for name, value in before.items():
                session.conf.set(name, value)
