"""The same counts in every engine, to the last record: DuckDB, Spark and PostgreSQL as they really run."""

from __future__ import annotations

import contextlib
import decimal
import getpass
import itertools
import logging
import math
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.data import Data, blocks, dialects, engines, vectorize
from leastnoise.errors import DataError, LeastnoiseError, MissingExtraError, SchemaError, TooLargeError
from leastnoise.schema import Bins, Categories, Hierarchy, Integers, Schema
from support import extra
from test_data import CAREFUL, PEOPLE, Table, brute_force, people, schemas_with_tables

pytestmark = [
    # One worker starts Spark and PostgreSQL, and only one.
    pytest.mark.xdist_group("engines"),
    # PySpark leaves sockets to the garbage collector, and calls what pandas 3 deprecates.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:(ibis|pyspark).*"),
]

CANARY = "canary7316"
# A table in plain Python: for each column its type and its values, as in test_data, with more types.
KINDS = {
    "text": {"duckdb": "VARCHAR", "postgres": "text", "pyspark": "STRING"},
    "int": {"duckdb": "BIGINT", "postgres": "bigint", "pyspark": "BIGINT"},
    "small": {"duckdb": "SMALLINT", "postgres": "smallint", "pyspark": "SMALLINT"},
    "float": {"duckdb": "DOUBLE", "postgres": "double precision", "pyspark": "DOUBLE"},
    "single": {"duckdb": "FLOAT", "postgres": "real", "pyspark": "FLOAT"},
    "decimal": {"duckdb": "DECIMAL(20, 2)", "postgres": "numeric(20, 2)", "pyspark": "DECIMAL(20, 2)"},
    "wide": {"duckdb": "DECIMAL(38, 0)", "postgres": "numeric(38, 0)", "pyspark": "DECIMAL(38, 0)"},
    "bool": {"duckdb": "BOOLEAN", "postgres": "boolean", "pyspark": "BOOLEAN"},
    "date": {"duckdb": "DATE", "postgres": "date", "pyspark": "DATE"},
}


# ------------------------------------------------------------------ engines, started here


def missing(reason: str) -> None:
    """Skip visibly on the light core; fail where everything is required."""
    if os.environ.get("LEASTNOISE_ALL_EXTRAS"):
        pytest.fail(reason)
    pytest.skip(reason)


def server_programs() -> Path | None:
    """The folder of PostgreSQL's server programs: on the path, or where Debian keeps them."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


def as_somebody(folder: Path) -> list[str]:
    """The words before a command that PostgreSQL accepts, which refuses to run as root."""
    if os.geteuid() != 0:
        return []
    for user in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(user)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    pytest.fail("there is no user to run PostgreSQL as")


class Server:
    """A PostgreSQL server of this test run, on loopback, in a folder that goes with it."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._prefix = as_somebody(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # ICU orders and compares text as people do, which counting must not notice.
        self._run("initdb", "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync", "--locale=C.UTF-8")
        options = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder,
            "fsync": "off",
            "shared_buffers": "16MB",
        }
        flags = " ".join(f"-c {name}={value}" for name, value in options.items())
        self._run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", flags, "start")

    def _run(self, program: str, *words: str) -> None:
        command = [*self._prefix, str(self._programs / program), "-D", str(self._folder / "data"), *words]
        subprocess.run(command, check=True, cwd=self._folder, stdout=subprocess.DEVNULL, timeout=60)

    def connect(self, database: str = "postgres") -> Any:
        return extra("ibis").postgres.connect(
            host="127.0.0.1", port=self.port, user="tester", database=database
        )

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    extra("ibis")
    extra("psycopg")
    programs = server_programs()
    if programs is None:
        missing("no PostgreSQL server here; on Debian: apt-get install postgresql")
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="leastnoise-postgres-"))
    try:
        started = Server(programs, folder)
        yield started
        started.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(server: Server) -> Iterator[Any]:
    connection = server.connect()
    yield connection
    connection.disconnect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    ibis = extra("ibis")
    sql = extra("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing("no Java here, which Spark needs; on Debian: apt-get install openjdk-17-jre-headless")
    settings_of_spark = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = sql.SparkSession.builder.master("local[2]").appName("leastnoise")
    for name, value in settings_of_spark.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield ibis.pyspark.connect(session)
    session.stop()


@pytest.fixture(scope="session")
def embedded() -> Any:
    return extra("ibis").duckdb.connect()


@pytest.fixture(params=["duckdb", "pyspark", "postgres"])
def engine(request: pytest.FixtureRequest) -> Any:
    """Each engine in turn, as Ibis connects to it."""
    fixture = {"duckdb": "embedded", "pyspark": "spark", "postgres": "postgres"}[request.param]
    return request.getfixturevalue(fixture)


# ------------------------------------------------------------------ one table in many engines

fresh = (f"t{i}" for i in itertools.count())


def quoted(name: str, sign: str = '"') -> str:
    return sign + name.replace(sign, 2 * sign) + sign


def relation(table: Table) -> Any:
    """The table in the embedded engine, without Ibis."""
    connection = duckdb.connect()
    columns = [
        f"unnest($v{k}::VARCHAR[])::{KINDS[kind]['duckdb']} AS {quoted(name)}"
        for k, (name, (kind, _)) in enumerate(table.items())
    ]
    values = {f"v{k}": [_written(v) for v in given] for k, (_, given) in enumerate(table.values())}
    connection.execute(f"CREATE TABLE given AS SELECT {', '.join(columns)}", values)
    return connection.table("given")


def _written(value: Any) -> str | None:
    return None if value is None else repr(value) if isinstance(value, float) else str(value)


def loaded(engine: Any, table: Table) -> Any:
    """The table in an engine, as an Ibis table."""
    name = next(fresh)
    if engine.name == "postgres":
        columns = ", ".join(f"{quoted(c)} {KINDS[kind]['postgres']}" for c, (kind, _) in table.items())
        rows = list(zip(*(values for _, values in table.values()), strict=True))
        with engine.con.cursor() as cursor:
            cursor.execute(f"CREATE TEMP TABLE {name} ({columns})")
            if rows:
                cursor.executemany(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(table))})", rows)
        engine.con.commit()
    elif engine.name == "pyspark":
        folder = Path(tempfile.mkdtemp(prefix="leastnoise-spark-"))
        relation(table).write_parquet(str(folder / "t.parquet"))
        frame = engine._session.read.parquet(str(folder))
        casts = [f"CAST({quoted(c, '`')} AS {KINDS[kind]['pyspark']})" for c, (kind, _) in table.items()]
        chosen = [
            f"{cast} AS {quoted(column, '`')}" for cast, column in zip(casts, table, strict=True)
        ]
        frame.selectExpr(*chosen).createOrReplaceTempView(name)
    else:
        engine.con.register(f"source_{name}", relation(table).to_arrow_table())
        engine.con.execute(f"CREATE TEMP TABLE {name} AS FROM source_{name}")
        engine.con.unregister(f"source_{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return engine.table(name)


def agrees(engine: Any, table: Table, schema: Schema) -> None:
    """The engine, the embedded engine and a loop over the records say the same."""
    expected = brute_force(table, schema)
    assert vectorize(relation(table), schema).vector().tolist() == expected.ravel().tolist()
    found = vectorize(loaded(engine, table), schema).vector()
    assert found.dtype == np.int64
    assert found.tolist() == expected.ravel().tolist()


def test_people_are_counted_alike(engine: Any) -> None:
    for schema in (PEOPLE, CAREFUL):
        agrees(engine, people(), schema)
        agrees(engine, people(0), schema)


NUMBER_TEXTS = [
    *("18", "18.0", "1.8e1", "+18", "-0", "0018", "18.", ".5", "5.e-1", "18e0", "180E-1", "2e1"),
    *(" 18", "18 ", "18\n", "\n18", "18\r\n", "1_8", "0x12", "18.5", "nan", "NaN", "inf", "-Infinity"),
    *("+inf", "INF", "1e999", "-1e999", "1e-999", "-1e-400", "1e400000", "1e-400000", "0e99999999", ""),
    *("9" * 17, "9" * 18, "9" * 19, "1" + "0" * 18, "-" + "9" * 60, "0" * 60 + "7", "1e18", "1e17", "1e20"),
    *("100000000000000000000", "1.7976931348623158e308", "1.7976931348623159e308", "2.5e-324", "2.4e-324"),
    *("5e-324", "0.1", "0.1000000000000000055511151231257827021181583404541015625", "9007199254740993", "７"),
    *("1e5", "1e05", "1e+5", "1E5", "1e", "e5", ".", "+", "-", "--1", "1.2.3", "Infinityx", "١٨", "true", None),
]
FLOATS = [
    *(0.0, -0.0, 1.0, 18.0, 18.5, 0.1, math.nextafter(18, 19), 1e17, 1e18, 1e20, 2.0**53, 2.0**62, 2.0**63),
    *(-(2.0**63), 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, None, 1e16, 1e-5, 123456789.25),
]
WHOLE = [None, 0, 1, -1, 18, 2**53 + 1, 10**18, -(10**18), 2**63 - 1, -(2**63), 7, 100]
DECIMALS = [Decimal(text) for text in ("0.00", "18.00", "18.50", "-1.00", "0.10", "999999999999999999.99")]
SCHEMAS = {
    "range": range(0, 40, 2),
    "clamped": Integers(range(-3, 19, 3), outside="clamp", null="other", other="?"),
    "other": Integers(range(5, 20), outside="other", null="drop", other="?"),
    "far": Integers(range(2**63 - 3, 2**63 + 3), outside="other", other="?"),
    "numbers": Categories([18, 0, -1, 10**20, 2**53 + 1, -(2**63), 7, 10**18, 10**17, 999999999999999999]),
    "texts": Categories(
        ["18", "18.0", "0", "0.1", "inf", "-inf", "1e+16", "1e-05", "true", "18.00", "0.10", "", "18\n", "nan"],
        null="other",
        other="?",
    ),
    "bins": Bins([-5, 0, 0.1, 18, 18.5, 2**53 + 1, 1e300]),
    "open bins": Bins([-math.inf, 0, 1, math.inf], null="other", outside="drop", other="?"),
    "clamped bins": Bins([0, 0.1, 18], outside="clamp"),
    "tree": Hierarchy({"few": ["0", "1"], "many": {"teens": ["18"], "rest": ["2024-02-29"]}}, other="?"),
}
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "text": ("text", [*NUMBER_TEXTS, *["18"] * 2]),
    "float": ("float", FLOATS),
    "int": ("int", WHOLE),
    "small": ("small", [None, 0, 1, 18, -1, 32767]),
    "decimal": ("decimal", [None, *DECIMALS, -DECIMALS[-1]]),
    "wide": ("wide", [None, 0, 18, -1, 10**20, 10**37, 10**18, 2**63 - 1, 2**63 + 1]),
    "bool": ("bool", [True, False, None, True]),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_every_value_is_placed_alike(engine: Any, column: str) -> None:
    """One column under all schemas at once; each of its records counts in its own cell of each."""
    kind, values = COLUMNS[column]
    table: Table = {"row": ("int", list(range(len(values)))), column: (kind, values)}
    source = loaded(engine, table)
    native = relation(table)
    for attribute in SCHEMAS.values():
        schema = Schema(**{"row": range(len(values)), column: attribute})
        expected = brute_force(table, schema).ravel().tolist()
        assert vectorize(native, schema).vector().tolist() == expected, attribute
        assert vectorize(source, schema).vector().tolist() == expected, attribute


def test_single_floats_are_written_out_shortest(engine: Any) -> None:
    values = [None, 0.0, 0.1, 0.5, 1e10, 16777216.0, 1e-5, math.inf, math.nan]
    table: Table = {"x": ("single", values)}
    schema = Schema(x=Categories(["0.1", "0.5", "10000000000", "16777216", "1e-05", "inf"], other="?"))
    native = vectorize(relation(table), schema).vector()
    assert native.tolist() == [1, 1, 1, 1, 1, 1, 1]
    assert vectorize(loaded(engine, table), schema).vector().tolist() == native.tolist()


def test_dates_are_their_text(engine: Any) -> None:
    days = [date(2024, 2, 29), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), None]
    table: Table = {"day": ("date", days)}
    for declared in (["2024-02-29", "0001-01-01", "2024-2-29", "2023-02-29"], ["9999-12-31", "x"]):
        agrees(engine, table, Schema(day=Categories(declared, null="other", other="?", outside="drop")))


LOOK_ALIKES = ["F", "f", "F ", " F", "Ｆ", "é", "e\u0301", "ss", "ß", "ﬁ", "fi", "", "I", "ı", "i", "'", '"', "\\"]


def test_text_is_compared_by_its_bytes(engine: Any) -> None:
    table: Table = {"x": ("text", LOOK_ALIKES * 2)}
    agrees(engine, table, Schema(x=LOOK_ALIKES))
    agrees(engine, table, Schema(x=Categories(["f", "é", "ß", "I"], other="?")))


def collated(engine: Any) -> Any:
    """A column that compares without regard to case, with F, f and G in it, and two persons p and P."""
    values = "(VALUES ('F', 'p'), ('f', 'P'), ('G', 'p'))"
    if engine.name == "postgres":
        engine.raw_sql(
            "CREATE COLLATION IF NOT EXISTS blind (provider = icu, locale = 'und-u-ks-level2', "
            "deterministic = false)"
        ).close()
        sql = f'SELECT a COLLATE blind AS x, b COLLATE blind AS id FROM {values} AS t(a, b)'
    elif engine.name == "pyspark":
        sql = f"SELECT collate(a, 'UTF8_LCASE') AS x, collate(b, 'UTF8_LCASE') AS id FROM {values} AS t(a, b)"
        engine._session.sql(sql).createOrReplaceTempView("collated")
        return engine.table("collated")
    else:
        sql = f"SELECT a COLLATE nocase AS x, b COLLATE nocase AS id FROM {values} AS t(a, b)"
    return engine.sql(sql, schema={"x": "string", "id": "string"})


def check_collations(engine: Any) -> None:
    data = vectorize(collated(engine), Schema(x=("F", "f", "g")), person="id")
    assert data.vector().tolist() == [1, 1, 0]
    assert data.vector(records_per_person=1).sum() == 2


def test_no_collation_is_noticed(engine: Any) -> None:
    check_collations(engine)


def test_a_dialect_that_compares_text_is_noticed(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Ibis would do by itself: equal signs between texts, under the column's collation."""

    def plain(value: Any) -> Any:
        return value

    def text_from_hex(value: Any) -> Any:
        op = value.op()
        is_declared = type(op).__name__ == "Literal"
        return extra("ibis").literal(bytes.fromhex(op.value).decode()) if is_declared else value

    own = dialects.dialect_of(engine.name)
    digest = lambda value: own.md5(own.bytes_of(value))  # noqa: E731
    twin = replace(own, text=plain, bytes_of=plain, from_hex=text_from_hex, md5=digest)
    monkeypatch.setattr(engines, "dialect_of", lambda name: twin)
    read = engines.reading

    def as_text(*given: Any) -> Any:
        found = read(*given)
        return replace(found, values=tuple((value, "string") for value, _ in found.values))

    monkeypatch.setattr(engines, "reading", as_text)
    with pytest.raises(AssertionError):
        check_collations(engine)


@pytest.mark.parametrize("n_examples", [25])
def test_any_table_is_counted_alike(engine: Any, n_examples: int) -> None:
    n_examples = 10 if engine.name == "pyspark" else n_examples

    @given(drawn=schemas_with_tables())
    @settings(max_examples=n_examples, deadline=None, database=None)
    def check(drawn: tuple[Schema, Table]) -> None:
        schema, table = drawn
        is_far = any(
            isinstance(schema[name], Integers)
            and schema[name].outside == "clamp"
            and max(map(abs, (schema[name].values[0], schema[name].values[-1]))) >= 10**18
            for name in schema.names
        )
        if is_far:
            with pytest.raises(DataError, match="which this engine does not count"):
                vectorize(loaded(engine, table), schema)
        else:
            agrees(engine, table, schema)

    check()
