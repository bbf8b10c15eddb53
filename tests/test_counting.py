"""Counts from one reading of the records, and the limit of records per person."""

from __future__ import annotations

import itertools
import os
import random
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.core.errors import DataError
from leastnoise.data import counting, limiting, table_cover, vectorize
from leastnoise.data.files import FilesTable
from leastnoise.privacy import Ledger
from leastnoise.query import Schema
from support import refuses

WIDE = Schema(a=range(3), b=range(300), c=range(70_000))
SMALL = Schema(a=range(4), b=range(3))


def wide_table(n: int, seed: int = 1) -> pd.DataFrame:
    """Cells of every width, values outside, and a person."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.integers(-1, 3, n),
            "b": rng.integers(0, 301, n),
            "c": rng.integers(0, 70_001, n),
            "id": rng.integers(0, max(1, n // 3), n),
        }
    )


@pytest.mark.parametrize("seed", range(30))
def test_tables_are_counted_as_by_hand(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both where blocks are held and where the tables themselves are, piece by piece."""
    rng = random.Random(seed)
    sizes = {name: rng.choice([1, 2, 255, 256, 257]) for name in "abcd"}
    schema = Schema({name: range(size) for name, size in sizes.items()})
    rows = [
        {name: rng.choice([0, size - 1, rng.randrange(size), size]) for name, size in sizes.items()}
        for _ in range(rng.randint(0, 40))
    ]
    frame = pd.DataFrame(rows, columns=list(sizes), dtype="int64")
    asked = [tuple(rng.sample("abcd", rng.randint(0, 3))) for _ in range(rng.randint(1, 4))]
    asked = [names for names in asked if np.prod([sizes[name] for name in names]) < 10**6] or [()]
    whole = [row for row in rows if all(row[name] < size for name, size in sizes.items())]
    monkeypatch.setattr(table_cover, "MERGED_CELLS", rng.choice([1, 2**10, 2**14]))
    for held_cells, at_once in ((2**24, 2**20), (0, 7), (0, 2**20)):
        monkeypatch.setattr(counting, "MAX_HELD_CELLS", held_cells)
        monkeypatch.setattr(counting, "_RECORDS_AT_ONCE", at_once)
        found = vectorize(frame, schema).counted(asked, ["b", "d"])
        assert found.n_rest == len(rows) - len(whole)
        assert found.n_left_out == tuple(sum(row[name] == sizes[name] for row in rows) for name in "bd")
        for names, table in zip(asked, found.tables, strict=True):
            held = Counter(tuple(row[name] for name in names) for row in whole)
            cells = itertools.product(*(range(sizes[name]) for name in names))
            assert table.dtype == np.int64 and table.shape == tuple(sizes[name] for name in names)
            assert table.ravel().tolist() == [held[cell] for cell in cells]


def written(path: Path, seed: int, n: int = 40) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    rows = [(rng.randrange(4), rng.randrange(3)) for _ in range(n)]
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    return rows


def test_any_number_of_tables_takes_one_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So they are of one version, whoever changes the table before and after."""
    monkeypatch.setattr(table_cover, "MERGED_CELLS", 1)
    rows, reading = written(tmp_path / "people.csv", 1), FilesTable.batches
    readings: list[int] = []

    def batches(self: FilesTable, *given: Any) -> Iterator[Any]:
        readings.append(len(readings))
        yield from reading(self, *given)
        written(tmp_path / "people.csv", 2)

    monkeypatch.setattr(FilesTable, "batches", batches)
    a, b = vectorize(tmp_path / "people.csv", SMALL).tables([("a",), ("b",)])
    assert a.tolist() == [sum(row[0] == k for row in rows) for k in range(4)]
    assert b.tolist() == [sum(row[1] == k for row in rows) for k in range(3)]
    assert readings == [0]


def test_nothing_is_spent_on_a_file_that_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.csv"
    written(path, 1)
    times = path.stat()
    plan = ln.design(ln.assemble([ln.Marginal("a"), ln.Marginal("b")], SMALL), ln.GDP(1))
    reading = FilesTable.batches

    def batches(self: FilesTable, *given: Any) -> Iterator[Any]:
        yield from reading(self, *given)
        written(path, 2)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    monkeypatch.setattr(FilesTable, "batches", batches)
    ledger = Ledger(tmp_path / "town.ledger", dataset="town", limit=ln.GDP(2))
    with refuses(DataError, "data", None, "Nothing was spent"):
        ln.measure(plan, str(path), ledger=ledger, release_id="one")
    assert len(ledger.entries) == 0


def test_a_table_that_spills_does_so_into_a_private_folder_that_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = vectorize(wide_table(3_000), WIDE, person="id")
    seen: list[int] = []
    usual = limiting.kept_records

    def watched(*given: Any) -> str:
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir())
        return usual(*given)

    monkeypatch.setattr(limiting, "kept_records", watched)
    expected = data.tables([("a", "b")], records_per_person=2)[0]
    assert np.array_equal(data.tables([("a", "b")], records_per_person=2)[0], expected)
    data.tables([("a", "b")])
    # Once for each count with a person, and nothing stays.
    assert seen in ([], [0o700] * 2)
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_records_of_people_are_limited_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    data = vectorize(wide_table(400_000), WIDE, person="id")
    expected = data.tables([("a", "b")], records_per_person=2)[0]
    monkeypatch.setattr(limiting, "PERSON_MEMORY", "40MB")
    assert np.array_equal(data.tables([("a", "b")], records_per_person=2)[0], expected)
    # The twin that must fail: without a folder the same records do not fit.
    monkeypatch.setattr(limiting, "SETTINGS", ("temp_directory=''", *limiting.SETTINGS))
    with pytest.raises(DataError):
        data.tables([("a", "b")], records_per_person=2)
