"""Tables in engines that go away, and come back; and addresses, of which nobody learns a password."""

from __future__ import annotations

import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.core.errors import (
    DataError,
    DataUnavailableError,
    InputError,
    LeastnoiseError,
    MissingExtraError,
)
from leastnoise.data import shown_address, vectorize
from leastnoise.data.engines import table_of_ibis
from leastnoise.data.raw_table import DroppedRecords
from postgres_server import Server, started
from support import extra, refuses
from test_data import Table, csv_text
from test_not_counted import counts_as_by_hand, random_table

pytestmark = [
    pytest.mark.xdist_group("engines"),
    # Ibis asks DuckDB for Arrow by a call that DuckDB deprecates.
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
    # A connection that a server cut is closed by nobody.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PASSWORD = "canary%40%2F9"
PLAIN = "canary@/9"
SCHEMA = ln.Schema(a=range(4), b=range(3))
SPEC = """
[schema]
a = { range = [0, 4] }
b = { range = [0, 3] }

[privacy]
mu = 1

[[query]]
kind = "marginal"
attributes = ["a"]
"""


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that may be stopped, because no other test has a connection to it."""
    extra("ibis")
    with started() as server:
        with server.plain() as engine:
            engine.execute("CREATE TABLE people (a integer, b integer)")
            rng = random.Random(1)
            for _ in range(50):
                engine.execute("INSERT INTO people VALUES (%s, %s)", [rng.randrange(5), rng.randrange(3)])
            engine.execute(f"CREATE USER locked PASSWORD '{PLAIN}'")
            engine.execute("GRANT SELECT ON people TO locked")
        yield server


def counts(server: Server, column: str, n: int) -> list[int]:
    with server.plain() as engine:
        rows = dict(
            engine.execute(f"SELECT {column}, count(*) FROM people WHERE a < 4 GROUP BY 1").fetchall()
        )
    return [rows.get(value, 0) for value in range(n)]


def cut(server: Server, backend: Any) -> None:
    with server.plain() as engine:
        engine.execute("SELECT pg_terminate_backend(%s)", [backend.con.info.backend_pid])


def plan_of(schema: ln.Schema = SCHEMA) -> ln.Plan:
    return ln.design(ln.assemble([ln.Marginal("a"), ln.Marginal("b")], schema), ln.GDP(1), method="marginals")


@pytest.mark.thorough
def test_a_handle_connects_again_after_its_connection_is_cut(own: Server, tmp_path: Path) -> None:
    backend = own.connect()
    data = vectorize(backend.table("people"), SCHEMA)
    expected = counts(own, "b", 3)
    assert data.counts("b").tolist() == expected
    cut(own, backend)
    assert data.counts("b").tolist() == expected
    own.halt()
    ledger = ln.Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(2))
    for _ in range(2):
        with refuses(DataUnavailableError, "connection", "PostgreSQL", "Nothing was spent") as caught:
            ln.measure(plan_of(), data, ledger=ledger, release_id="one")
        assert caught.value.__context__ is None and len(ledger.entries) == 0
    own.start()
    first = ln.measure(plan_of(), data, ledger=ledger, release_id="one")
    own.halt()
    again = ln.measure(plan_of(), data, ledger=ledger, release_id="one")
    own.start()
    assert again.answers.tolist() == first.answers.tolist() and len(ledger.entries) == 1


@pytest.mark.thorough
def test_a_connection_cut_while_a_table_is_read_is_an_error_and_no_part_of_it(own: Server) -> None:
    backend = own.connect()
    with own.plain() as engine:
        # Far more than lies on the way between two programs.
        engine.execute(
            "CREATE TABLE many AS SELECT k % 4 AS a, k % 3 AS b, repeat('x', 500) AS c "
            "FROM generate_series(1, 60000) k"
        )
    table = backend.table("many")
    batches = table_of_ibis(table).batches(["a", "b", "c"], [".", ".", "."], DroppedRecords())
    assert len(next(batches)[0]) < 10_000
    cut(own, backend)
    with refuses(DataUnavailableError, "connection", "PostgreSQL"):
        list(batches)
    found = vectorize(table, SCHEMA).tables([("a",), ("b",)])
    assert [x.tolist() for x in found] == [[15_000] * 4, [20_000] * 3]


@pytest.mark.thorough
def test_asking_whether_a_connection_lives_leaves_no_transaction_open(own: Server) -> None:
    with own.plain() as connection:
        connection.autocommit = False
        backend = extra("ibis").postgres.from_connection(connection)
        table = backend.table("people")
        connection.rollback()
        found = vectorize(table, SCHEMA).tables([("a",), ("b",)])
        assert connection.info.transaction_status.name == "IDLE"
    assert [x.tolist() for x in found] == [counts(own, "a", 4), counts(own, "b", 3)]


@pytest.mark.thorough
def test_a_connection_that_the_caller_made_is_not_made_again(own: Server) -> None:
    with own.plain() as connection:
        backend = extra("ibis").postgres.from_connection(connection)
        data = vectorize(backend.table("people"), SCHEMA)
        cut(own, backend)
        with refuses(DataUnavailableError, "connection", "PostgreSQL", "Nothing was spent"):
            data.counts("b")


@pytest.mark.thorough
def test_a_duckdb_file_is_told_to_be_locked_and_opened_again(tmp_path: Path) -> None:
    ibis = extra("ibis")
    path = tmp_path / "people.db"
    with duckdb.connect(str(path)) as engine:
        engine.execute("CREATE TABLE people AS SELECT range % 3 AS b, range % 4 AS a FROM range(8)")
    code = f"import duckdb; c = duckdb.connect({str(path)!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        with refuses(
            DataUnavailableError, "connection", ..., "locked by another process", "Nothing was spent"
        ):
            vectorize(f"duckdb://{path}/people", SCHEMA)
        other.communicate("\n")
    assert vectorize(f"duckdb://{path}/people", SCHEMA).counts("b").tolist() == [3, 3, 2]
    backend = ibis.duckdb.connect(str(path))
    data = vectorize(backend.table("people"), SCHEMA)
    backend.con.close()
    assert data.counts("b").tolist() == [3, 3, 2]
    backend.con.close()
    forgetful = ibis.duckdb.connect()
    held = forgetful.create_table("people", schema={"a": "int64", "b": "int64"})
    data = vectorize(held, SCHEMA)
    forgetful.con.close()
    with refuses(DataUnavailableError, "connection", "DuckDB"):
        data.counts("b")


# ------------------------------------------------------------------ addresses


def in_duckdb(table: Table, folder: Path) -> str:
    with duckdb.connect(str(folder / "t.db")) as engine:
        engine.execute(f'CREATE TABLE "pe ople" ({", ".join(f"{name} VARCHAR" for name in table)})')
        rows = list(zip(*(values for _, values in table.values()), strict=True))
        engine.executemany(f'INSERT INTO "pe ople" VALUES ({", ".join("?" * len(table))})', rows)
    return f"duckdb://{folder}/t.db/pe%20ople"


def in_sqlite(table: Table, folder: Path) -> str:
    engine = sqlite3.connect(folder / "t.sqlite")
    # Columns without a type keep each value in its own, as numbers here.
    engine.execute(f"CREATE TABLE people ({', '.join(table)})")
    rows = [
        [int(value) if value is not None and value.isdigit() else value for value in row]
        for row in zip(*(values for _, values in table.values()), strict=True)
    ]
    engine.executemany(f"INSERT INTO people VALUES ({', '.join('?' * len(table))})", rows)
    engine.commit()
    engine.close()
    return f"sqlite://{folder}/t.sqlite?table=people"


@pytest.mark.thorough
@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize("place", [in_duckdb, in_sqlite], ids=lambda place: place.__name__)
def test_addresses_count_as_loops_over_records(
    place: Callable[[Table, Path], str], k: int | None, tmp_path: Path
) -> None:
    table = random_table(11)
    assert counts_as_by_hand(place(table, tmp_path), table, k)


@pytest.mark.thorough
def test_a_table_of_postgres_counts_by_its_address(own: Server) -> None:
    table = random_table(12)
    with own.plain() as engine:
        engine.execute('CREATE SCHEMA "he alth"')
        engine.execute(f'CREATE TABLE "he alth".people ({", ".join(f"{name} text" for name in table)})')
        for row in zip(*(values for _, values in table.values()), strict=True):
            engine.execute('INSERT INTO "he alth".people VALUES (%s, %s, %s, %s)', row)
    address = f"postgresql://tester@127.0.0.1:{own.port}/postgres?table=people&schema=he%20alth"
    assert counts_as_by_hand(address, table, 2)


REFUSED = {
    "postgres://ann:{}@db.example/census": (DataError, "address"),
    "postgres://ann:{}@db.example:port/census?table=x": (DataError, "address"),
    "postgres://ann:{}@127.0.0.1:1/census?table=x&password={}": (DataUnavailableError, "connection"),
    "postgres://ann:{}/9@127.0.0.1:1/census?table=x": (DataError, "address"),
    "postgres://127.0.0.1:1/census?people&password={}": (DataError, "address"),
    "oracle://ann:{}@db.example/census?table=x": (DataError, "address"),
    "sqlite://none.db/people?key={}": (DataError, "path"),
    "https://ann:{}@db.example/t.csv?key={}": (DataError, "path"),
    "https://ann:{}@db.example/t.parquet?key={}": (MissingExtraError, "httpfs"),
    "s3://key:{}@bucket/t.parquet": (MissingExtraError, "httpfs"),
}


@pytest.mark.parametrize("address", REFUSED)
def test_refused_addresses_tell_no_password(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any
) -> None:
    """And nothing is looked for in a network."""
    # No extension of DuckDB is there, whoever runs this.
    monkeypatch.setenv("HOME", str(tmp_path))
    kind, field = REFUSED[address]
    extra("psycopg")
    for secret in (PASSWORD, "canary"):
        with refuses(kind, field) as caught:
            vectorize(address.replace("{}", secret), SCHEMA)
        told = f"{caught.value!s}{caught.value!r}{caught.value.given!r}{caplog.text}{capfd.readouterr()}"
        assert "canary" not in told
        assert "canary" not in shown_address(address.replace("{}", secret))


def test_lakes_without_their_packages_are_refused_with_the_line_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for package in ("deltalake", "pyiceberg.table"):
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    (tmp_path / "ice" / "metadata").mkdir(parents=True)
    (tmp_path / "ice" / "metadata" / "v1.metadata.json").write_text("{}")
    with refuses(MissingExtraError, "delta", ..., "pip install 'leastnoise[delta]'"):
        vectorize(tmp_path / "delta", SCHEMA)
    with refuses(MissingExtraError, "iceberg", ..., "pip install 'leastnoise[iceberg]'"):
        vectorize(str(tmp_path / "ice"), SCHEMA)


# ------------------------------------------------------------------ from a shell


def run(*words: str, given: str | None = None) -> Any:
    return CliRunner().invoke(app, list(words), input=given)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(SPEC)
    return tmp_path


@pytest.mark.thorough
def test_a_retry_costs_nothing_and_no_file_holds_the_password(own: Server, folder: Path) -> None:
    words = ["ledger", "create", "town.ledger", "--dataset", "town", "--epsilon", "20", "--delta", "1e-6"]
    assert run(*words).exit_code == 0
    assert run("design", "spec.toml", "--out", "town.plan").exit_code == 0
    address = f"postgres://locked:{PASSWORD}@127.0.0.1:{own.port}/postgres?table=people"
    given = ["--data", address, "--ledger", "town.ledger", "--release-id", "one", "--out", "answers.csv"]
    told = ""
    for command in (["publish", "spec.toml"], ["measure", "town.plan"]):
        words = [*command, *given[:-3], command[0], "--out", f"{command[0]}.csv", "--force"]
        own.halt()
        failed = run(*words)
        assert failed.exit_code != 0 and "Nothing was spent" in failed.output
        own.start()
        assert run(*words).exit_code == 0
        answers = Path(f"{command[0]}.csv").read_bytes()
        own.halt()
        # Paid for and stored: nothing is needed of the server any more.
        again = run(*words)
        own.start()
        assert again.exit_code == 0 and Path(f"{command[0]}.csv").read_bytes() == answers
        told += failed.output + again.output
    wrong = run("publish", "spec.toml", "--data", address.replace("canary", "canary8"), "--out", "w.csv")
    missing = run("publish", "spec.toml", "--data", address.replace("people", "nobody"), "--out", "w.csv")
    told += wrong.output + missing.output
    assert wrong.exit_code != 0 and missing.exit_code != 0
    assert "canary" not in told
    assert len(ln.Ledger("town.ledger").entries) == 2
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in written} >= {".csv", ".release", ".html", ".plan", ".ledger"}
    assert not any(b"canary" in path.read_bytes() for path in written)


@pytest.mark.thorough
def test_standard_input_is_kept_in_a_private_folder_that_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = folder / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    seen: list[tuple[int, int]] = []
    real = vectorize

    def watched(source: Any, *given: Any, **options: Any) -> Any:
        file = Path(source)
        assert file.is_relative_to(spool)
        seen.append((stat.S_IMODE(file.parent.stat().st_mode), stat.S_IMODE(file.stat().st_mode)))
        return real(source, *given, **options)

    monkeypatch.setattr("leastnoise.app.cli.publish_commands.vectorize", watched)
    table = {"a": ("int", [0, 1, 1, 3]), "b": ("int", [0, 1, 2, 2])}
    Path("spec.toml").write_text(SPEC.replace("mu = 1", "mu = 1e6"))
    given = {
        "-": csv_text(table),
        "-.jsonl": '{"a": 0, "b": 0}\n{"a": 1, "b": 1}\n{"a": 1, "b": 2}\n{"a": 3, "b": 2}',
    }
    for name, text in given.items():
        done = run("publish", "spec.toml", "--data", name, "--out", "a.csv", "--force", given=text)
        assert done.exit_code == 0, done.output
        assert [round(x) for x in ln.load_release("a.release").answers] == [1, 2, 0, 1]
    assert seen == [(0o700, 0o600)] * 2
    assert list(spool.iterdir()) == []
    assert run("publish", "spec.toml", "--data", "-", "--out", "b.csv", given="nothing\n").exit_code != 0
    assert run("publish", "spec.toml", "--data", "-.ods", "--out", "b.csv", given="").exit_code != 0
    assert run("publish", "spec.toml", "--data", "-", "--data", "x.csv", "--out", "b.csv").exit_code != 0
    assert list(spool.iterdir()) == []


def test_several_files_are_named_by_several_options(folder: Path) -> None:
    Path("spec.toml").write_text(SPEC.replace("mu = 1", "mu = 1e6"))
    Path("x.csv").write_text("a,b\n0,0\n")
    Path("y.csv").write_text("a,b\n3,0\n")
    done = run("publish", "spec.toml", "--data", "y.csv", "--data", "x.csv", "--out", "a.csv")
    assert done.exit_code == 0, done.output
    assert [round(x) for x in ln.load_release("a.release").answers] == [1, 0, 0, 1]
    assert run("check", "spec.toml", "--data", "y.csv", "--data", "x.csv").exit_code == 0
    with pytest.raises((InputError, LeastnoiseError)):
        vectorize(["x.csv", "postgres://h/d?table=x"], SCHEMA)
