"""Raw columns of tables in DuckDB and whatever else Ibis reaches. Nothing is asked of them but columns.

Tables are never held as a whole: they come in batches, from one query, so one version of the table.

    PostgreSQL        `leastnoise.data.postgres`
    Spark             `leastnoise.data.spark`, which also counts where the records are
    DuckDB            Ibis tables and relations, as Arrow
    other engines     as Ibis reads them into Arrow: all records travel to this machine
"""

# ruff: noqa: S608 - queries hold what Ibis compiled and identifiers made or quoted here.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from typing import Any

from leastnoise.core.errors import DataError
from leastnoise.data.columns import column_places
from leastnoise.data.connections import ENGINES, IbisTable, known_type, reader_of
from leastnoise.data.postgres import PostgresTable
from leastnoise.data.raw_table import BATCH_RECORDS, PAIRS, DroppedRecords, RawTable, check_engine
from leastnoise.data.spark import SparkTable

# Types of DuckDB that its Arrow has no type of the same values for: asked for as their text.
_AS_TEXT = ("HUGEINT", "UHUGEINT", "BIGNUM", "VARINT", "TIME WITH TIME ZONE")
# Settings of DuckDB while it is read: texts of a batch may take more than 2 GiB, and columns come in types of
# Arrow's own.
_SETTINGS = {"arrow_large_buffer_size": "true", "arrow_lossless_conversion": "false"}
# The optimisers of DuckDB that rewrite a query by its form alone, or choose an order of joins. All others are
# off while it is read, for the caller's own expressions too: some judge values by a table's statistics, which
# leave NaN out, and the next version may bring more of them. Pushing filters down is one of those, for a file
# skips records by what is pushed to it. That `FROM a, b WHERE a.k = b.k` is a join and no cross product is
# found by the order of joins, once projections are out of its way. Lists of constants, of which `in_clause`
# makes joins that hide it, are compared one by one: 10 constants in 0.05 s per million records.
_HARMLESS = frozenset(
    {
        "build_side_probe_side",
        "column_lifetime",
        "common_subexpressions",
        "cte_inlining",
        "deliminator",
        "expression_rewriter",
        "filter_pullup",
        "join_order",
        "materialized_cte",
        "projection_pullup",
        "unnest_rewriter",
        "unused_columns",
    }
)
# The name under which a relation's connection knows the relation while a question is asked of it.
_VIEW = "leastnoise_relation"


def table_of_ibis(table: Any) -> RawTable:
    """An Ibis table as raw columns.

    Raises:
        DataError: if it is in an engine that is not read.
    """
    engine = table.get_backend().name
    if engine == "postgres":
        return PostgresTable(table)
    if engine == "pyspark":
        return SparkTable(table)
    if engine == "duckdb":
        return DuckTable(table)
    if engine in ENGINES or engine == "polars":
        return WarehouseTable(table)
    raise DataError(
        f"tables are counted in {', '.join(ENGINES)}, not in {engine}",
        field="table",
        given=engine,
        remedy="write this one to a file, as in table.to_parquet('people.parquet'), and count that",
    )


class WarehouseTable(IbisTable):
    """A table or an expression of Ibis on an engine of which nothing is known here but what Ibis offers."""

    def _types(self, names: Sequence[str]) -> list[Any]:
        """The Arrow types that Ibis has for the columns' own."""
        kinds = self._table.schema()
        return [known_type(name, kinds[name].to_pyarrow) for name in names]

    def _read(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        for batch in self._table.select(*names).to_pyarrow_batches(chunk_size=BATCH_RECORDS):
            yield batch.columns


# ------------------------------------------------------------------ DuckDB


class DuckTable(IbisTable):
    """A table or an expression of Ibis on DuckDB."""

    def _types(self, names: Sequence[str]) -> list[Any]:
        return _types_of(self._asked(names, reads=False))

    def _read(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        return _columns_of(self._asked(names, reads=True))

    def stop(self) -> None:
        """Have DuckDB end the query."""
        self.backend.con.interrupt()

    @contextmanager
    def _asked(self, names: Sequence[str], *, reads: bool) -> Iterator[Any]:
        check_duckdb()
        query, connection = self._query(names), self.backend.con
        with settings_for_reading(connection.execute, reads=reads):
            yield _plain_types(connection.sql(query))


class DuckRelation(RawTable):
    """A relation of DuckDB. Nothing ends a query of its connection but its own next batch."""

    kind = "duckdb DuckDBPyRelation"

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The Arrow types that DuckDB has for the columns, asked without reading a record."""
        return [(kind,) for kind in _types_of(self._asked(names, reads=False))]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """The columns, from one query; the connection must not be used for anything else meanwhile."""
        return _columns_of(self._asked(names, reads=True))

    @contextmanager
    def _asked(self, names: Sequence[str], *, reads: bool) -> Iterator[Any]:
        check_duckdb()
        places = column_places(self._relation.columns, names)
        listed = ", ".join(f"#{place + 1} AS c{k}" for k, place in enumerate(places))
        with settings_for_reading(self._execute, reads=reads):
            yield _plain_types(self._relation.project(listed))
        with suppress(Exception):
            # Until DuckDB 1.4 the name of a relation stays.
            self._execute(f"DROP VIEW IF EXISTS {_VIEW}")

    def _execute(self, query: str) -> Any:
        """What the relation's connection answers, which nothing else gives access to."""
        return self._relation.query(_VIEW, query)


@contextmanager
def settings_for_reading(execute: Callable[[str], Any], *, reads: bool = True) -> Iterator[None]:
    """A connection of DuckDB with these settings, meanwhile, and without judging by statistics.

    Args:
        reads: whether records are read. Where only types are asked for, its optimisers stay: without them
            DuckDB would read the whole table to return none of it.

    Raises:
        DataError: if it takes no settings; then an optimiser of the engine would judge by all records.
    """
    listed = ", ".join(repr(name) for name in ("disabled_optimizers", *_SETTINGS))
    query = f"SELECT name, value FROM duckdb_settings() WHERE name IN ({listed})"
    before = {name: value or "" for name, value in execute(query).fetchall()}
    wanted = {name: value for name, value in _SETTINGS.items() if before.get(name, value) != value}
    for name, value in wanted.items():
        # An engine of before has no such setting, and a locked one keeps its own.
        with suppress(Exception):
            execute(f"SET {name}='{value}'")
    known = {name for (name,) in execute("SELECT name FROM duckdb_optimizers()").fetchall() if reads}
    off = {own for own in before["disabled_optimizers"].split(",") if own}
    is_set = known - off <= _HARMLESS
    if not is_set:
        wanted["disabled_optimizers"] = ",".join(sorted(off | (known - _HARMLESS)))
        with suppress(Exception):
            execute(f"SET disabled_optimizers='{wanted['disabled_optimizers']}'")
            is_set = True
    if not is_set:
        raise DataError(
            "the connection of this DuckDB table takes no settings, and its optimiser would judge values by "
            "the statistics of all records",
            field="table",
            given="a locked configuration",
            remedy="open it without lock_configuration, or write the table to a file and count that",
        )
    try:
        yield
    finally:
        # A connection that was closed meanwhile takes no settings; what closed it is the error to raise.
        with suppress(Exception):
            for name in wanted:
                execute(f"SET {name}='{before[name]}'")


@cache
def check_duckdb() -> None:
    """Return if DuckDB judges each record by itself under `settings_for_reading`; tried once.

    Raises:
        DataError: if not.
    """
    import duckdb

    with duckdb.connect(":memory:") as engine, settings_for_reading(engine.execute):

        def asked(path: str, query: str) -> list[tuple[int, int]]:
            return engine.read_parquet(path).query(PAIRS, query).fetchall()

        check_engine("DuckDB", asked)


def _plain_types(relation: Any) -> Any:
    """A relation whose columns Arrow has a type for, value for value."""
    kinds = [str(kind) for kind in relation.types]
    if not any(kind in _AS_TEXT for kind in kinds):
        return relation
    listed = (
        f"CAST(#{k} AS VARCHAR) AS c{k}" if kind in _AS_TEXT else f"#{k} AS c{k}"
        for k, kind in enumerate(kinds, start=1)
    )
    return relation.project(", ".join(listed))


def _types_of(asked: AbstractContextManager[Any]) -> list[Any]:
    """The Arrow types of a relation, without reading a record."""
    with asked as relation, reader_of(relation.limit(0)) as reader:
        return list(reader.schema.types)


def _columns_of(asked: AbstractContextManager[Any]) -> Iterator[list[Any]]:
    """The columns of a relation, batch by batch."""
    # An open reader would keep the connection.
    with asked as relation, reader_of(relation) as reader:
        for batch in reader:
            yield batch.columns
