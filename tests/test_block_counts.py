"""Counts of many blocks by NumPy from cells that an engine placed, and the limit of records per person."""

from __future__ import annotations

import itertools
import os
import random
import stat
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from leastnoise.core.errors import DataError
from leastnoise.data import arrow_stream, duckdb_counts, duckdb_scan, handle, table_cover, vectorize
from leastnoise.data.block_counts import block_counter
from leastnoise.query import Schema


@pytest.mark.parametrize("seed", range(60))
def test_blocks_are_counted_as_by_hand(seed: int) -> None:
    rng = random.Random(seed)
    n, sizes = rng.randint(0, 40), [rng.choice([1, 2, 255, 256, 257]) for _ in range(4)]
    rows = [[rng.choice([0, size - 1, rng.randrange(size)]) for size in sizes] for _ in range(n)]
    is_rest = np.array([rng.random() < 0.3 for _ in rows], dtype=np.uint8)
    kinds = [np.uint8 if size <= 256 else np.uint16 for size in sizes]
    columns = [np.array([row[k] for row in rows], dtype=kinds[k]) for k in range(4)]
    blocks = [tuple(rng.sample(range(4), rng.randint(0, 3))) for _ in range(rng.randint(0, 4))]
    blocks = [block for block in blocks if np.prod([sizes[k] for k in block]) < 10**6]
    expected: list[int] = []
    for block in blocks:
        held = Counter(
            tuple(row[k] for k in block) for row, rest in zip(rows, is_rest, strict=True) if not rest
        )
        expected += [held[cell] for cell in itertools.product(*(range(sizes[k]) for k in block))]
        expected.append(int(is_rest.sum()))
    found = block_counter(blocks, sizes)(columns, is_rest)
    assert found.dtype == np.int64 and found.tolist() == expected


def wide_table(folder: Path, n: int, seed: int = 1) -> str:
    """A file with cells of every width, nulls, values outside, and a person."""
    path = str(folder / "wide.parquet")
    rng = np.random.default_rng(seed)
    columns = {
        "a": rng.integers(-1, 3, n),
        "b": rng.integers(0, 300, n),
        "c": rng.integers(0, 70_001, n),
        "id": rng.integers(0, max(1, n // 3), n),
    }
    listed = ", ".join(f"CASE WHEN {name} >= 0 THEN {name} END AS {name}" for name in columns)
    with duckdb.connect() as engine:
        engine.register("source", columns)
        engine.execute(f"COPY (SELECT {listed} FROM source) TO '{path}' (FORMAT parquet)")
    return path


WIDE = Schema(a=range(3), b=range(300), c=range(70_000))


@pytest.mark.parametrize("most", [None, 1, 2])
def test_hash_tables_of_the_engine_and_numpy_count_the_same(
    most: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = vectorize(wide_table(tmp_path, 2_000), WIDE, person="id")
    asked = [("a", "b"), ("c",), ("b",), ()]
    by_numpy = data.tables_and_rest(asked, WIDE.names, records_per_person=most)
    monkeypatch.setattr(duckdb_counts, "MAX_COUNTED_CELLS", 0)
    by_engine = data.tables_and_rest(asked, WIDE.names, records_per_person=most)
    for one, other in zip(by_numpy.tables, by_engine.tables, strict=True):
        assert np.array_equal(one, other)
    assert by_numpy.n_rest == by_engine.n_rest > 0
    assert by_numpy.n_left_out == by_engine.n_left_out and sum(by_numpy.n_left_out) > 0


def test_records_of_people_are_limited_once_for_all_scans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every scan sorted the whole table by person again: 4.2 s and 0.74 GiB for two million records."""
    monkeypatch.setattr(table_cover, "MAX_BLOCKS", 1)
    monkeypatch.setattr(table_cover, "MERGED_CELLS", 1)
    monkeypatch.setattr(handle, "MAX_BLOCKS", 1)
    path = tmp_path / "people.csv"
    path.write_text("id,a,b\n" + "".join(f"{k % 5},{k % 2},{k % 3}\n" for k in range(30)))
    n_read = 0
    own = arrow_stream.TextStream.__arrow_c_stream__

    def reading(self: Any, requested_schema: Any = None) -> Any:
        nonlocal n_read
        n_read += 1
        return own(self, requested_schema)

    data = vectorize(path, Schema(a=range(2), b=range(3)), person="id")
    monkeypatch.setattr(arrow_stream.TextStream, "__arrow_c_stream__", reading)
    data.tables([("a",)], records_per_person=2)
    n_for_one, n_read = n_read, 0
    found = data.tables([("a",), ("b",)], records_per_person=2)
    assert n_read == n_for_one
    assert [int(table.sum()) for table in found] == [10, 10]


def test_a_table_that_spills_does_so_into_a_private_folder_that_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = vectorize(wide_table(tmp_path, 3_000), WIDE, person="id")
    asked = [("a", "b")]
    expected = data.tables(asked, records_per_person=2)[0]
    seen: list[int] = []
    own = duckdb_scan._engine

    def watched(source: Any, spill: str | None = None) -> Any:
        if spill is not None:
            seen.append(stat.S_IMODE(os.stat(spill).st_mode))
        return own(source, spill)

    monkeypatch.setattr(duckdb_scan, "_engine", watched)
    assert np.array_equal(data.tables(asked, records_per_person=2)[0], expected)
    data.tables(asked)
    # Once, with a person, and nothing stays.
    assert seen == [0o700]
    assert [path.name for path in tmp_path.iterdir()] == ["wide.parquet"]


@pytest.mark.thorough
def test_records_of_people_are_limited_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = vectorize(wide_table(tmp_path, 400_000), WIDE, person="id")
    expected = data.tables([("a", "b")], records_per_person=2)[0]
    monkeypatch.setattr(duckdb_scan, "PERSON_MEMORY", "40MB")
    assert np.array_equal(data.tables([("a", "b")], records_per_person=2)[0], expected)
    # The twin that must fail: without a folder the same records do not fit.
    own = duckdb_scan._engine
    monkeypatch.setattr(duckdb_scan, "_engine", lambda source, spill=None: own(source, spill and ""))
    with pytest.raises(DataError):
        data.tables([("a", "b")], records_per_person=2)
