"""One release, one version of the table: somebody changes it between two scans."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import DataError
from leastnoise.data import snapshots, vectorize
from leastnoise.data import table_cover as blocks
from leastnoise.data.scan_progress import ScanProgress
from leastnoise.privacy import Ledger
from leastnoise.query import Schema
from support import extra, refuses

SCHEMA = Schema(a=range(4), b=range(3))
TABLES: list[tuple[str, ...]] = [("a",), ("b",)]


@pytest.fixture(autouse=True)
def _several_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small table in each scan."""
    monkeypatch.setattr(blocks, "MAX_BLOCKS", 1)
    monkeypatch.setattr(blocks, "MERGED_CELLS", 1)


def _after_the_first_scan(change: Callable[[], object]) -> Callable[[ScanProgress], None]:
    """A watcher that changes the table once the second scan begins."""
    done: list[bool] = []

    def watch(counting: ScanProgress) -> None:
        if counting.scan == 2 and not done:
            done.append(True)
            change()

    return watch


def _rows(seed: int, n: int = 40) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    return [(rng.randrange(4), rng.randrange(3)) for _ in range(n)]


def _counts(rows: list[tuple[int, int]]) -> list[list[int]]:
    return [
        [sum(a == i for a, _ in rows) for i in range(4)],
        [sum(b == i for _, b in rows) for i in range(3)],
    ]


def _written(path: Path, rows: list[tuple[int, int]]) -> None:
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))


def test_a_file_that_changes_between_scans_is_noticed(tmp_path: Path) -> None:
    """Two tables of one release disagreed, and nobody noticed if the number of records was the same."""
    path = tmp_path / "people.csv"
    _written(path, _rows(1))
    data = vectorize(path, SCHEMA)
    assert [x.tolist() for x in data.tables(TABLES)] == _counts(_rows(1))
    with refuses(DataError, "table", None, "changed while it was counted"):
        data.tables(TABLES, progress=_after_the_first_scan(lambda: _written(path, _rows(2))))


def test_a_file_that_changes_and_keeps_its_time_is_noticed(tmp_path: Path) -> None:
    import os

    path = tmp_path / "people.csv"
    _written(path, _rows(1))
    stat = path.stat()

    def change() -> None:
        _written(path, _rows(2))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    with refuses(DataError, "table", None, "changed while it was counted"):
        vectorize(path, SCHEMA).tables(TABLES, progress=_after_the_first_scan(change))


def test_nothing_is_spent_on_a_file_that_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import leastnoise as ln

    path = tmp_path / "people.csv"
    _written(path, _rows(1))
    plan = ln.design(ln.assemble([ln.Marginal("a"), ln.Marginal("b")], SCHEMA), ln.GDP(1), method="marginals")
    real = snapshots.digest_of_files

    def digest_and_change(files: Any) -> bytes:
        found = real(files)
        _written(path, _rows(random.randrange(10**6)))
        return found

    monkeypatch.setattr("leastnoise.data.duckdb_scan.digest_of_files", digest_and_change)
    ledger = Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(2))
    with refuses(DataError, "table", None, "Nothing was spent"):
        ln.measure(plan, str(path), ledger=ledger, release_id="one")
    assert len(ledger.entries) == 0


class _Frames:
    """Tables in this process that may change between two scans."""

    @staticmethod
    def relation(tmp_path: Path) -> tuple[Any, Callable[[], object]]:
        duckdb = extra("duckdb")
        con = duckdb.connect()
        _fill(con.execute, _rows(1))
        return con.table("people"), lambda: _fill(con.execute, _rows(2))

    @staticmethod
    def lazy(tmp_path: Path) -> tuple[Any, Callable[[], object]]:
        polars = extra("polars")
        path = tmp_path / "people.csv"
        _written(path, _rows(1))
        return polars.scan_csv(path), lambda: _written(path, _rows(2))

    @staticmethod
    def dataset(tmp_path: Path) -> tuple[Any, Callable[[], object]]:
        extra("pyarrow")
        import pyarrow.dataset

        path = tmp_path / "people.csv"
        _written(path, _rows(1))
        found = pyarrow.dataset.dataset(str(path), format="csv")
        return found, lambda: _written(path, _rows(2))


def _fill(execute: Callable[[str], object], rows: list[tuple[int, int]]) -> None:
    execute("CREATE TABLE IF NOT EXISTS people (a INTEGER, b INTEGER)")
    execute("DELETE FROM people")
    execute("INSERT INTO people VALUES " + ", ".join(map(str, rows)))


@pytest.mark.parametrize("kind", ["relation", "lazy", "dataset"])
def test_what_is_read_in_this_process_is_read_once(kind: str, tmp_path: Path) -> None:
    source, change = getattr(_Frames, kind)(tmp_path)
    found = vectorize(source, SCHEMA).tables(TABLES, progress=_after_the_first_scan(change))
    assert [x.tolist() for x in found] == _counts(_rows(1))


# Ibis asks DuckDB for Arrow by a call that DuckDB deprecates.
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_duckdb_answers_within_one_transaction(tmp_path: Path) -> None:
    ibis = extra("ibis")
    backend = ibis.duckdb.connect(str(tmp_path / "people.duckdb"))
    other = backend.con.cursor()
    _fill(backend.con.execute, _rows(1))
    data = vectorize(backend.table("people"), SCHEMA)
    watch = _after_the_first_scan(lambda: _fill(other.execute, _rows(2)))
    assert [x.tolist() for x in data.tables(TABLES, progress=watch)] == _counts(_rows(1))
    assert [x.tolist() for x in data.tables(TABLES)] == _counts(_rows(2))
    # Within a transaction of the caller, which stays open.
    backend.con.begin()
    data.tables(TABLES)
    backend.con.rollback()


def test_an_engine_that_cannot_hold_a_version_is_told_before_anything_is_read() -> None:
    class Unknown:
        name = "warehouse"

    class Table:
        def get_backend(self) -> Unknown:
            return Unknown()

    with refuses(DataError, "table", "warehouse"), snapshots.held_version(Table()):
        raise AssertionError("nothing is held")


@pytest.mark.thorough
def test_random_changes_never_give_two_versions(tmp_path: Path) -> None:
    """Two tables of one request always agree on some version of the records."""
    path = tmp_path / "people.csv"
    versions = [_counts(_rows(seed)) for seed in range(6)]
    rng = np.random.default_rng(3)
    seen = 0
    for _ in range(30):
        _written(path, _rows(0))
        after = int(rng.integers(6))
        watch = _after_the_first_scan(lambda after=after: _written(path, _rows(after)))
        try:
            found = [x.tolist() for x in vectorize(path, SCHEMA).tables(TABLES, progress=watch)]
        except DataError:
            continue
        seen += 1
        assert found in versions
    assert 0 < seen < 30
