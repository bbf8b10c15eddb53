"""Tables by address: in a database, in a lake, or in files on another machine.

    postgres://user@host:5432/database?table=people   through Ibis; also &schema=health, and &sslmode=... etc.
    duckdb://folder/file.db/people                    through Ibis, for reading only; also ?table=people
    sqlite://folder/file.db/people                    by Python itself
    bigquery:// snowflake:// trino:// databricks://   as Ibis takes them, and ?table=people
    s3:// gs:// https:// http://                      Parquet files, where DuckDB has the extension httpfs
    a folder with _delta_log                          by deltalake, or where DuckDB has the extension delta
    a folder with metadata/*.metadata.json            by pyiceberg, or where DuckDB has the extension iceberg

The columns of SQLite promise no type, so its values are read one by one. An address may hold a password. No
message, plan, release or ledger holds more of it than `shown_address`.
"""

# ruff: noqa: S608 - identifiers are quoted here.

from __future__ import annotations

import os
import re
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from leastnoise.core.errors import DataError, DataUnavailableError, LeastnoiseError, MissingExtraError
from leastnoise.core.extras import missing_package
from leastnoise.data.columns import column_places
from leastnoise.data.connections import ENGINES, requirement_of
from leastnoise.data.raw_table import DroppedRecords, RawTable
from leastnoise.data.written_text import TEXT, text_columns

# The rows of SQLite that are handed on at once.
_ROWS = 10_000
_REMOTE = ("s3", "gs", "gcs", "r2", "https", "http")
# Seconds after which a server that does not answer is given up, unless the address says otherwise.
_TIMEOUT = 10
# Settings of S3 that the environment may hold, and DuckDB's names for them.
_S3_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "KEY_ID",
    "AWS_SECRET_ACCESS_KEY": "SECRET",
    "AWS_SESSION_TOKEN": "SESSION_TOKEN",
    "AWS_REGION": "REGION",
    "AWS_DEFAULT_REGION": "REGION",
}


class _Address(NamedTuple):
    """An address, the table that it names, and what else its query says."""

    parts: SplitResult
    table: str
    settings: dict[str, str]


def shown_address(address: str) -> str:
    """An address as it may be shown: without user, password and settings.

    Example:
        >>> shown_address("postgres://ann:secret@db.example:5432/census?table=people&password=x")
        'postgres://db.example:5432/census?table=people'
    """
    scheme, _, rest = address.partition("://")
    place, _, query = rest.partition("?")
    # Up to the last @: a password may hold one, and a slash.
    place = place.rpartition("@")[2].partition("#")[0]
    try:
        table = dict(parse_qsl(query)).get("table", "")
    except ValueError:
        table = ""
    return f"{scheme}://{place}{f'?table={quote(table)}' if table else ''}"


def opened_address(address: str) -> Any:
    """The table that an address names, as an object that can be counted.

    Raises:
        DataError: if the address is not complete, or names no table that is there.
        DataUnavailableError: if it cannot be reached.
        MissingExtraError: if a package or an extension is missing; the message has the line to type.
    """
    scheme = address.partition("://")[0].lower().replace("postgresql", "postgres")
    if scheme in _REMOTE:
        return _remote_parquet(address)
    openers: dict[str, Callable[[_Address], Any]] = {
        "postgres": _in_postgres,
        "duckdb": _in_duckdb,
        "sqlite": _in_sqlite,
    }
    if scheme not in (*openers, *ENGINES):
        known = ", ".join(f"{one}://" for one in dict.fromkeys([*openers, *ENGINES, *_REMOTE]))
        raise DataError.must("address", f"begin with one of {known}", given=shown_address(address))
    parsed = _parsed(address, is_file=scheme in ("duckdb", "sqlite"))
    if scheme in openers:
        return openers[scheme](parsed)
    return _in_other(scheme, parsed)


def _parsed(address: str, *, is_file: bool) -> _Address:
    parts, table, settings = None, "", {}
    try:
        parts = urlsplit(address)
        settings = dict(parse_qsl(parts.query, keep_blank_values=True))
        table = settings.pop("table", "")
        if not table and list(settings.values()) == [""]:
            table, settings = next(iter(settings)), {}
        _ = parts.port
    except ValueError:
        parts = None
    if parts is not None and is_file and not table:
        path, _, name = (parts.netloc + parts.path).rpartition("/")
        table = unquote(name)
        parts = parts._replace(netloc="", path=path)
    elif parts is not None and is_file:
        parts = parts._replace(netloc="", path=parts.netloc + parts.path)
    if parts is None or not table:
        raise DataError.must(
            "address",
            "name a table, as in postgres://host/database?table=people or duckdb://file.db/people",
            given=shown_address(address),
            remedy="in a user or password write %40 for @, %2F for / and %3A for :",
        )
    return _Address(parts, table, settings)


def _ibis(engine: str) -> Any:
    """Ibis, with the packages that it needs for an engine."""
    try:
        import ibis

        import_module(f"ibis.backends.{engine}")
    except ImportError as error:
        missing = error.name
    else:
        return ibis
    raise missing_package(str(missing), requirement=requirement_of(engine), why="this address")


def _in_postgres(address: _Address) -> Any:
    ibis = _ibis("postgres")
    parts, settings = address.parts, dict(address.settings)
    schema = settings.pop("schema", None)
    given: dict[str, Any] = {"connect_timeout": _TIMEOUT, **settings}
    given |= {"host": parts.hostname, "database": unquote(parts.path[1:]) or None}
    given |= {"port": parts.port} if parts.port else {}
    given |= {"user": unquote(parts.username)} if parts.username else {}
    given |= {"password": unquote(parts.password)} if parts.password else {}
    where = _place(parts)
    said = f"PostgreSQL at {where} cannot be reached, or refuses this user or database"
    backend = _reached(lambda: ibis.postgres.connect(**given), said, "postgres")
    return _table_in(backend, address.table, schema, where)


def _in_other(scheme: str, address: _Address) -> Any:
    ibis = _ibis(scheme)
    settings = dict(address.settings)
    schema = settings.pop("schema", None) if scheme != "trino" else None
    text = address.parts._replace(query=urlencode(settings)).geturl()
    where = _place(address.parts)
    said = f"{scheme} at {where} cannot be reached, or refuses this user"
    backend = _reached(lambda: ibis.connect(text), said, scheme)
    return _table_in(backend, address.table, schema, where)


def _place(parts: SplitResult) -> str:
    host = parts.hostname or "this machine"
    return f"{host}:{parts.port}" if parts.port else host


def _in_duckdb(address: _Address) -> Any:
    ibis = _ibis("duckdb")
    path = _file_of(address)
    # A file of another kind must not make DuckDB look for an extension in the network.
    given = {"read_only": True, "autoinstall_known_extensions": False}
    said = f"the file {path!r} is locked by another process, or is not a DuckDB database"
    backend = _reached(lambda: ibis.duckdb.connect(path, **given), said, "duckdb")
    return _table_in(backend, address.table, address.settings.get("schema"), repr(path))


def _in_sqlite(address: _Address) -> Any:
    table = SqliteTable(_file_of(address), address.table)
    if not _reached(
        lambda: table.columns,
        f"the file {table.path!r} is locked by another process, or is not a SQLite database",
        "ibis",
    ):
        raise _no_table(address.table, repr(table.path))
    return table


def _file_of(address: _Address) -> str:
    path = str(Path(unquote(address.parts.path)).absolute())
    if not os.path.isfile(path):
        raise DataError(
            f"there is no file {path!r}",
            field="path",
            given=path,
            remedy=f"an address is like {address.parts.scheme}://folder/file.db/table, or with a third slash "
            "before a folder of the root",
        )
    return path


def _reached(connect: Callable[[], Any], otherwise: str, extra: str) -> Any:
    """What ``connect`` returns; what it says of an error may hold the password, and is withheld.

    Args:
        otherwise: what to say where it fails.
        extra: the extra that has the packages it needs.
    """
    missing = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return connect()
    except LeastnoiseError:
        raise
    except ImportError as error:
        missing = error.name
    except Exception:
        missing = None
    if missing is not None:
        requirement = requirement_of(extra) if extra in ENGINES else f"leastnoise[{extra}]"
        raise missing_package(missing, requirement=requirement, why="this address")
    raise DataUnavailableError(
        f"{otherwise}. Nothing was spent",
        field="connection",
        remedy="check that it opens in its own program; the engine's own message is withheld, because it "
        "can hold a password",
    )


def _table_in(backend: Any, name: str, schema: str | None, where: str) -> Any:
    found = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = backend.table(name, **({} if schema is None else {"database": schema}))
    except Exception:
        found = None
    if found is None:
        raise _no_table(name, where)
    return found


def _no_table(name: str, where: str) -> DataError:
    return DataError(
        f"there is no table {name!r} in {where} that this user may read",
        field="table",
        given=name,
        remedy="name it as the engine does, and its schema with &schema=NAME",
    )


def _remote_parquet(address: str) -> Any:
    """Parquet files on another machine, as a relation of DuckDB, which is read once."""
    path = urlsplit(address).path if address.lower().startswith("http") else address
    if not path.lower().endswith((".parquet", ".pq")):
        raise DataError(
            f"{shown_address(address)} must end in .parquet: other formats are read from files here",
            field="path",
            given=shown_address(address),
            remedy="copy the file, or pipe it, as in: curl ADDRESS | leastnoise publish spec.toml --data -",
        )
    engine = _extended("httpfs", f"an address such as {shown_address(address)}", "copy the files here")
    if address.startswith("s3://"):
        _add_secret(engine, os.environ)
    return _reached(
        lambda: engine.from_query(
            "FROM read_parquet($address, hive_partitioning=false)", params={"address": address}
        ),
        f"{shown_address(address)} cannot be reached, or is not a Parquet file",
        "arrow",
    )


def _add_secret(engine: Any, environment: Mapping[str, str]) -> None:
    """Give DuckDB the keys of S3 that the environment holds, if it holds any; else its own secrets count."""
    given = {own: environment[name] for name, own in _S3_SETTINGS.items() if environment.get(name)}
    if "KEY_ID" in given:
        listed = ", ".join(f"{own} '{value.replace(chr(39), 2 * chr(39))}'" for own, value in given.items())
        engine.execute(f"CREATE SECRET (TYPE s3, {listed})")


def _extended(extension: str, what: str, otherwise: str) -> Any:
    """DuckDB with one of its extensions, which must be installed: nothing is fetched from anywhere."""
    import duckdb

    engine = duckdb.connect(":memory:")
    try:
        engine.execute("SET autoinstall_known_extensions=false; SET enable_progress_bar=false")
        engine.load_extension(extension)
    except duckdb.Error:
        engine.close()
    else:
        return engine
    raise MissingExtraError(
        f"{what} is read by DuckDB's extension {extension}, which is not installed here; with a network: "
        f"python -c \"import duckdb; duckdb.sql('INSTALL {extension}')\"; or {otherwise}",
        field=extension,
    )


# ------------------------------------------------------------------ SQLite


class SqliteTable(RawTable):
    """A table of an SQLite file, which is opened for reading only; one query sees one version of it."""

    kind = "leastnoise SqliteTable"

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name

    @property
    def columns(self) -> list[str]:
        """The names of its columns; none if there is no such table."""
        with self._opened() as engine:
            return [row[1] for row in engine.execute(f"PRAGMA table_xinfo({_quoted(self.name)})").fetchall()]

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`."""
        return [(TEXT,) for _ in column_places(self.columns, names)]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`."""
        columns = self.columns
        chosen = ", ".join(_quoted(columns[place]) for place in column_places(columns, names))
        with self._opened() as engine:
            found = engine.execute(f"SELECT {chosen} FROM {_quoted(self.name)}")
            while rows := found.fetchmany(_ROWS):
                # A blob is no text.
                plain = [[None if isinstance(value, bytes) else value for value in row] for row in rows]
                yield text_columns(plain, marks)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        # Batches may be asked for by another thread than the first.
        engine = sqlite3.connect(f"file:{quote(self.path)}?mode=ro", uri=True, check_same_thread=False)
        # Text that is not UTF-8 must not stop it.
        engine.text_factory = _text
        try:
            yield engine
        finally:
            engine.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(stored: bytes) -> str | None:
    with suppress(UnicodeDecodeError):
        return stored.decode()
    return None


# ------------------------------------------------------------------ folders that keep a log of their versions


def opened_lake(folder: str | Path, format: str, names: Sequence[str]) -> Any:
    """The newest version of a Delta or Iceberg table, as an object that can be counted.

    Args:
        names: the columns that are needed.
    """
    path = str(Path(folder).absolute())
    opener = {"delta": _delta, "iceberg": _iceberg}[format]
    said = f"the {format.capitalize()} table in {path!r} is damaged, or of a version that is not read here"
    return _reached(lambda: opener(path, names), said, format)


def _delta(path: str, names: Sequence[str]) -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError:
        engine = _extended("delta", "a Delta table", "pip install 'leastnoise[delta]'")
        return engine.from_query("FROM delta_scan($path)", params={"path": path})
    return DeltaTable(path).to_pyarrow_dataset()


def _iceberg(path: str, names: Sequence[str]) -> Any:
    newest = max(Path(path, "metadata").glob("*.metadata.json"), key=_number_of)
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        engine = _extended("iceberg", "an Iceberg table", "pip install 'leastnoise[iceberg]'")
        return engine.from_query("FROM iceberg_scan($path)", params={"path": str(newest)})
    table = StaticTable.from_metadata(str(newest))
    there = [field.name for field in table.schema().fields]
    # Columns that are missing are told of where all tables tell it.
    wanted = tuple(name for name in dict.fromkeys(names) if name in there) or ("*",)
    return table.scan(selected_fields=wanted).to_arrow_batch_reader()


def _number_of(metadata: Path) -> int:
    """The number of a version in a name such as v3.metadata.json or 00003-….metadata.json."""
    found = re.match(r"v?(\d+)", metadata.name)
    return int(found[1]) if found else -1
