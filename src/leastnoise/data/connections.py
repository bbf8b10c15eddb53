"""Tables of Ibis on every engine: columns by name, connections made again, and errors of engines withheld.

A connection that is lost is told, and made again, so that one handle outlives a restart:

PostgreSQL   a connection that does not answer is made anew, with the settings it was made with
Spark        a session that was stopped is replaced by the one that is active now
DuckDB       a file that was closed is opened again
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from leastnoise.core.errors import DataError, DataUnavailableError, LeastnoiseError
from leastnoise.core.extras import missing_package
from leastnoise.data.columns import column_places
from leastnoise.data.raw_table import BATCH_RECORDS, DroppedRecords, RawTable

_T = TypeVar("_T")

# The engines of Ibis whose tables are read.
ENGINES = ("duckdb", "pyspark", "databricks", "postgres", "bigquery", "snowflake", "trino", "athena")
# Engines with an extra of their own; Ibis has one for each of the others.
_EXTRAS = {"pyspark": "spark", "postgres": "postgres"}

# A type that stands for all of lists and records: no schema means them.
NESTED = pa.list_(pa.null())


def withheld(step: str, run: Callable[[], _T]) -> _T:
    """What ``run`` returns; if it fails, an error of ours without a word of the original.

    An engine quotes values in its messages, so the new error is raised outside
    the handler: not even ``__context__`` leads back to the old one.
    """
    try:
        return run()
    except LeastnoiseError:
        raise
    except Exception as error:
        kind = type(error).__name__
    except BaseException as error:
        # A panic of Rust, as in polars, is no Exception.
        kind = type(error).__name__
        if kind != "PanicException":
            raise
    raise DataError(
        f"{step} failed ({kind}). The reason is withheld, because it can hold values of the table",
        field="table",
        given=kind,
        remedy="check that the table opens in its own program, that its columns are plain text or "
        "numbers, and that there is enough memory",
    )


def reader_of(relation: Any) -> Any:
    """The record batches of a relation; it is not held as a whole."""
    # Until DuckDB 1.4 under another name.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return read(BATCH_RECORDS)


def requirement_of(engine: str) -> str:
    """What pip is to install for an engine."""
    extra = _EXTRAS.get(engine)
    return f"ibis-framework[{engine}]" if extra is None else f"leastnoise[{extra}]"


class _Engine(NamedTuple):
    """What is asked of one engine.

    Attributes:
        name: as people call it.
        is_lost: whether nothing can be asked of it any more.
        renew: makes a new connection; raises where that is not possible.
    """

    name: str
    is_lost: Callable[[Any], bool]
    renew: Callable[[Any], object]


def _postgres_is_lost(backend: Any) -> bool:
    connection = backend.con
    if connection.closed or connection.broken:
        return True
    if connection.info.transaction_status.name == "IDLE":
        # A server that has gone is noticed by asking only.
        with suppress(Exception):
            connection.execute("SELECT 1")
            # Without autocommit the question has begun a transaction, which is not the caller's.
            connection.rollback()
    return bool(connection.closed or connection.broken)


def _spark_is_lost(backend: Any) -> bool:
    session = backend._session
    try:
        if not hasattr(session, "_jsc"):
            return bool(getattr(session, "is_stopped", False))
        # The session keeps the context that it was made with, even if another takes its place.
        context = session._jsc
        return context is None or bool(context.sc().isStopped())
    except Exception:
        return True


def _renew_spark(backend: Any) -> None:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no session is active")
    backend.do_connect(active)


def _duckdb_is_lost(backend: Any) -> bool:
    try:
        backend.con.execute("SELECT 1").fetchall()
    except Exception as error:
        # Anything else is about a transaction of the caller.
        return type(error).__name__ == "ConnectionException"
    return False


def _renew_duckdb(backend: Any) -> None:
    given = [*backend._con_args, backend._con_kwargs.get("database", ":memory:")]
    if given[0] == ":memory:":
        raise RuntimeError("what was in memory is gone")
    backend.reconnect()


_ENGINES = {
    "postgres": _Engine("PostgreSQL", _postgres_is_lost, lambda backend: backend.reconnect()),
    "pyspark": _Engine("Spark", _spark_is_lost, _renew_spark),
    "duckdb": _Engine("DuckDB", _duckdb_is_lost, _renew_duckdb),
}


def is_lost(backend: Any) -> bool:
    """Whether the connection of an Ibis backend is gone; False for engines that cannot be asked."""
    engine = _ENGINES.get(backend.name)
    if engine is None:
        return False
    try:
        return engine.is_lost(backend)
    except Exception:
        return False


def renewed(backend: Any) -> None:
    """Connect again where the connection is lost.

    Raises:
        DataUnavailableError: if the engine cannot be reached.
    """
    if not is_lost(backend):
        return
    try:
        _ENGINES[backend.name].renew(backend)
    except Exception:
        is_renewed = False
    else:
        is_renewed = True
    if not is_renewed:
        raise connection_lost(backend)


def connection_lost(backend: Any) -> DataUnavailableError:
    """The error of a lost connection, which names the engine and nothing that it said."""
    name = _ENGINES[backend.name].name if backend.name in _ENGINES else backend.name
    return DataUnavailableError(
        f"the connection to {name} is lost. Nothing was spent",
        field="connection",
        given=name,
        remedy="run this again when the engine is back: the same handle connects anew, and a release id pays "
        "once only. Tables that were temporary are gone with the connection",
    )


def asked_of(backend: Any, run: Callable[[], _T]) -> _T:
    """What ``run`` returns, on a connection that is made again where it was lost.

    Raises:
        DataUnavailableError: if the connection is lost on the way, or cannot be made.
        MissingExtraError: if the engine needs a package that is not here.
    """
    return next(read_from(backend, lambda: iter([run()])))


def read_from(backend: Any, run: Callable[[], Iterator[_T]]) -> Iterator[_T]:
    """What ``run`` yields, as `asked_of`."""
    renewed(backend)
    missing = None
    try:
        yield from run()
    except ImportError as error:
        missing = error.name
    except LeastnoiseError:
        raise
    except Exception:
        if not is_lost(backend):
            raise
    else:
        return
    if missing is None:
        raise connection_lost(backend)
    raise missing_package(missing, requirement=requirement_of(backend.name), why="reading this Ibis table")


# ------------------------------------------------------------------ tables of Ibis


class IbisTable(RawTable):
    """A table or an expression of Ibis.

    Attributes:
        backend: its connection.
    """

    kind = "ibis Table"

    def __init__(self, table: Any) -> None:
        self._table = table
        self.backend = table.get_backend()

    @abstractmethod
    def _types(self, names: Sequence[str]) -> list[Any]:
        """The Arrow type of each of some different columns."""

    @abstractmethod
    def _read(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """What `batches` yields, of different columns."""

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`; the engine is asked for its types, and for no record."""
        kinds, once = self._table.schema(), self._once(names)
        found = dict(zip(once, asked_of(self.backend, lambda: self._types(once)), strict=True))
        # Ibis hands out JSON as text.
        return [(NESTED if kinds[name].is_json() else found[name],) for name in names]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`; the connection must not be used for anything else meanwhile."""
        once = self._once(names)
        places = [once.index(name) for name in names]
        own = dict(reversed(list(zip(names, marks, strict=False))))
        marks = [own.get(name, ".") for name in once]
        for columns in read_from(self.backend, lambda: self._read(once, marks, dropped)):
            yield [columns[place] for place in places]

    def _once(self, names: Sequence[str]) -> list[str]:
        """The names of columns that are there, each once: the person may also be an attribute."""
        column_places(self._table.columns, names)
        return list(dict.fromkeys(names))

    def _query(self, names: Sequence[str]) -> str:
        """SQL for some columns."""
        # Tables that Ibis holds in memory become known to the engine before.
        self.backend._run_pre_execute_hooks(self._table)
        return str(self.backend.compile(self._table.select(*names)))


def known_type(name: str, made: Callable[[], Any]) -> Any:
    """The Arrow type that ``made`` returns for a column.

    Raises:
        DataError: if it fails: then nothing is known of the column's own type.
    """
    with suppress(Exception):
        return made()
    raise unknown_type(name)


def unknown_type(name: str) -> DataError:
    """The error of a column of which no type is known here."""
    return DataError(
        f"column {name!r} holds values of a type that is not known here",
        field=name,
        given="unknown",
        remedy="make a plain column of it in the table, or declare another",
    )
