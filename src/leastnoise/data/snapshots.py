"""One release, one version of the table, however many scans it takes.

Tables of two versions would each be right, and together say more about a person than one of them: a record
that has changed its cell in between would be in both.

    files             read again by each scan; a digest of their bytes before the first and after the last
    frames            copied into the embedded engine, once
    DuckDB            one transaction, which sees the database as it was when it began
    PostgreSQL        one transaction at the isolation level REPEATABLE READ
    Spark             a local checkpoint of the placed records: nothing is computed again, and a part that is
                      lost is an error
    other engines     as many tables as one query takes
"""

# ruff: noqa: S608 - queries hold what Ibis compiled and names made here.

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DataError
from leastnoise.data.scan_progress import ScanWatch
from leastnoise.data.table_cover import Block

# The counts of some blocks, each of shape (n_cells_of the block,), from one scan.
Scan = Callable[[Sequence[Block], ScanWatch], list[npt.NDArray[np.int64]]]

CHANGED = "the table changed while it was counted; count a copy that stays as it is. Nothing was spent"

# Bytes read from a file at a time.
_BLOCK = 2**20

# Numbers of the views of this process, so that no two have one name.
_VIEWS = itertools.count()


def digest_of_files(files: Sequence[str]) -> bytes:
    """A digest of the bytes of all files, in order."""
    digest = hashlib.sha256()
    for path in files:
        feed_file(path, digest.update)
    return digest.digest()


def feed_file(path: str, update: Callable[[bytes], object]) -> None:
    """Hand the bytes of a file to a digest, and after them their number: it tells where the file ends."""
    length = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            update(block)
            length += len(block)
    update(length.to_bytes(8, "big"))


@contextmanager
def held_version(table: Any) -> Iterator[None]:
    """An Ibis table that stays as it is now, for as long as this lasts; in Spark, see `held_rows`.

    Raises:
        DataError: if the engine cannot hold one version over several queries.
    """
    backend = table.get_backend()
    holders = {"postgres": _held_by_postgres, "duckdb": _held_by_duckdb, "pyspark": _held_by_spark}
    if backend.name not in holders:
        raise DataError(
            f"this request takes several queries, and {backend.name} cannot keep one version of "
            "the table across them",
            field="table",
            given=backend.name,
            remedy="ask for fewer tables at a time, or write the table to a file, as in "
            "table.to_parquet('people.parquet'), and count that",
        )
    with holders[backend.name](backend, table):
        yield


@contextmanager
def _held_by_postgres(backend: Any, table: Any) -> Iterator[None]:
    connection = backend.con
    is_within = connection.info.transaction_status.name != "IDLE"
    if is_within:
        level = connection.execute("SHOW transaction_isolation").fetchone()[0]
        if level not in ("repeatable read", "serializable"):
            raise DataError(
                "the connection is within a transaction that may see two versions of the table",
                field="table",
                given="an open transaction",
                remedy="commit it or roll it back first, or begin it with ISOLATION LEVEL REPEATABLE READ",
            )
        yield
        return
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


@contextmanager
def _held_by_duckdb(backend: Any, table: Any) -> Iterator[None]:
    # Tables that Ibis holds in memory become known to the engine before the transaction.
    backend._run_pre_execute_hooks(table)
    # To begin one within another would end the other, so it is asked first: outside of any, each query has
    # a number of its own.
    first, second = (backend.con.execute("SELECT txid_current()").fetchall() for _ in range(2))
    if first == second:
        # A transaction of the caller sees one version, too.
        yield
        return
    backend.con.begin()
    try:
        yield
    finally:
        backend.con.rollback()


@contextmanager
def _held_by_spark(backend: Any, table: Any) -> Iterator[None]:
    # Nothing is computed twice: the rows that scans share are held when the first has computed them.
    yield


@contextmanager
def held_rows(backend: Any, rows: Any) -> Iterator[Any]:
    """What an Ibis expression gives, computed once, for as long as this lasts.

    Spark keeps a local checkpoint, DuckDB and PostgreSQL a temporary table, which no other connection sees.
    A user of PostgreSQL who may write none, or is in a transaction that may not, has the rows computed again
    by every scan.
    """
    name = f"leastnoise_held_{os.getpid()}_{next(_VIEWS)}"
    query, kinds = backend.compile(rows), {column: str(kind) for column, kind in rows.schema().items()}
    holder = {"postgres": _table_in_postgres, "duckdb": _table_in_duckdb, "pyspark": _view_in_spark}
    with holder[backend.name](backend, name, query) as is_held:
        yield backend.sql(f"SELECT * FROM {name}", schema=kinds) if is_held else rows


@contextmanager
def _view_in_spark(backend: Any, name: str, query: str) -> Iterator[bool]:
    held = backend._session.sql(query).localCheckpoint(eager=True)
    held.createOrReplaceTempView(name)
    try:
        yield True
    finally:
        backend._session.catalog.dropTempView(name)
        held.unpersist()


@contextmanager
def _table_in_duckdb(backend: Any, name: str, query: str) -> Iterator[bool]:
    backend.con.execute(f"CREATE TEMPORARY TABLE {name} AS {query}")
    try:
        yield True
    finally:
        # A transaction that failed has dropped it.
        with suppress(Exception):
            backend.con.execute(f"DROP TABLE {name}")


@contextmanager
def _table_in_postgres(backend: Any, name: str, query: str) -> Iterator[bool]:
    from psycopg import errors

    try:
        with backend.con.transaction():
            backend.con.execute(f"CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS {query}")
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction):
        is_held = False
    else:
        is_held = True
    yield is_held
    if is_held:
        backend.con.execute(f"DROP TABLE {name}")
