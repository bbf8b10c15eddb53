"""Raw columns of files and frames: the values that were written, whatever they are, and none of another."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Sequence
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

from leastnoise.core.errors import DataError
from leastnoise.data import frames
from leastnoise.data.addresses import SqliteTable
from leastnoise.data.file_names import FileFormat
from leastnoise.data.raw_table import BATCH_RECORDS, DroppedRecords, RawTable
from leastnoise.data.sources import opened_table
from support import extra, refuses


def table_of(source: Any, names: Sequence[str]) -> RawTable:
    table = opened_table(source, names, FileFormat())
    table.types(names)
    return table


def columns_read(source: Any, names: Sequence[str], marks: Sequence[str] = ()) -> list[list[Any]]:
    """The values of the columns, as whole numbers where they are times, and as bytes where they are texts."""
    table = table_of(source, names)
    types = table.types(names)
    found: list[list[Any]] = [[] for _ in names]
    for batch in table.batches(names, marks or ["."] * len(names), DroppedRecords()):
        assert len(batch) == len(names) and len({len(column) for column in batch}) == 1
        for values, column, kinds in zip(found, batch, types, strict=True):
            assert column.type in kinds
            values += plain(column)
    return found


def plain(column: Any) -> list[Any]:
    """The values of an Arrow array without a conversion that fails: times as numbers and texts as bytes."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        listed = [*plain(column.dictionary), None]
        return [listed[-1 if place is None else place] for place in column.indices.to_pylist()]
    if pa.types.is_temporal(kind):
        column = column.view(f"int{kind.bit_width}")
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = column.view(pa.binary() if pa.types.is_string(kind) else pa.large_binary())
    elif pa.types.is_string_view(kind):
        column = column.cast(pa.binary_view())
    return list(column.to_pylist())


# ------------------------------------------------------------------ every type, in everything that holds it


def ends_of(bits: int, *, signed: bool) -> list[int]:
    return [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] if signed else [0, 2**bits - 1]


def every_column(n: int, seed: int) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Columns of all types that are read, at the extremes of what they store, and the values in them."""
    rng = random.Random(seed)
    arrays: dict[str, Any] = {}
    expected: dict[str, list[Any]] = {}

    def put(name: str, kind: Any, pool: list[Any], stored: Any = None) -> None:
        values = [rng.choice([*pool, None]) for _ in range(n)]
        expected[name] = values
        arrays[name] = pa.array(values, type=kind if stored is None else stored)
        if stored is not None:
            arrays[name] = arrays[name].view(kind)

    for bits in (8, 16, 32, 64):
        put(f"int{bits}", getattr(pa, f"int{bits}")(), [*ends_of(bits, signed=True), 0, 1])
        put(f"uint{bits}", getattr(pa, f"uint{bits}")(), [*ends_of(bits, signed=False), 1])
    put("float64", pa.float64(), [0.0, -0.0, 1.5, float("inf"), -float("inf"), 1e308, 5e-324])
    put("float32", pa.float32(), [0.0, 1.5, float("inf"), 2.0**127])
    put("bool", pa.bool_(), [True, False])
    put("decimal", pa.decimal128(38, 3), [Decimal("0.001"), Decimal(10**34), Decimal("-1.5")])
    put("date32", pa.date32(), [*ends_of(32, signed=True), 0], pa.int32())
    put("time64", pa.time64("us"), [*ends_of(64, signed=True), 0], pa.int64())
    for unit in ("ms", "us", "ns"):
        for zone in (None, "Europe/Berlin"):
            put(f"at_{unit}_{zone}", pa.timestamp(unit, zone), [*ends_of(64, signed=True), 0], pa.int64())
    texts = [b"", b"a", b"\xff", "é".encode(), b"\0", b"long enough to lie elsewhere" * 3]
    put("string", pa.string(), texts, pa.binary())
    put("large", pa.large_string(), texts, pa.large_binary())
    put("different", pa.string(), [f"{rng.random()}".encode() for _ in range(n)], pa.binary())
    put("coded", pa.string(), [b"F", b"M"], pa.binary())
    arrays["coded"] = arrays["coded"].dictionary_encode()
    put("a.b", pa.int64(), [1, 2])
    return arrays, expected


def as_table(arrays: dict[str, Any], folder: Path) -> Any:
    return pa.table(arrays)


def as_batch(arrays: dict[str, Any], folder: Path) -> Any:
    return pa.RecordBatch.from_pydict(arrays)


def as_reader(arrays: dict[str, Any], folder: Path) -> Any:
    return pa.table(arrays).to_reader(max_chunksize=7)


def as_parquet(arrays: dict[str, Any], folder: Path) -> Any:
    path = folder / "t.parquet"
    # A record of other columns beside the one with a dot in its name.
    nested = pa.array([{"b": 1}] * len(arrays["a.b"]))
    pyarrow.parquet.write_table(pa.table({**arrays, "a": nested}), path, row_group_size=1000)
    return path


def as_feather(arrays: dict[str, Any], folder: Path) -> Any:
    pyarrow.feather.write_feather(pa.table(arrays), str(folder / "t.feather"), compression="lz4")
    return folder / "t.feather"


def as_dataset(arrays: dict[str, Any], folder: Path) -> Any:
    return pyarrow.dataset.dataset(as_parquet(arrays, folder))


def as_dataset_of_table(arrays: dict[str, Any], folder: Path) -> Any:
    return pyarrow.dataset.dataset(pa.table(arrays))


ARROW = [as_table, as_batch, as_reader, as_parquet, as_feather, as_dataset, as_dataset_of_table]


@pytest.mark.parametrize("made", ARROW, ids=lambda made: made.__name__)
def test_stored_values_come_as_they_are(made: Callable[..., Any], tmp_path: Path) -> None:
    arrays, expected = every_column(3000, 1)
    names = [*expected, "int8"]
    found = columns_read(made(arrays, tmp_path), names)
    for name, values in zip(names, found, strict=True):
        assert values == expected[name], name


@pytest.mark.parametrize(
    ("unit", "values"),
    [("s", ["-20000-01-01", "NaT", "200000-01-01"]), ("ns", ["2020-01-01", "NaT", "2262-04-11"])],
)
def test_times_of_pandas_come_as_the_numbers_that_they_are(unit: str, values: list[str]) -> None:
    """Converted to nanoseconds, one year beyond 2262 would end the count."""
    moments = np.array(values, dtype=f"M8[{unit}]")
    numbers = [None if np.isnat(moment) else int(moment.astype("i8")) for moment in moments]
    frame = pandas.DataFrame({"x": moments})
    frame["z"] = frame["x"].dt.tz_localize("UTC").dt.tz_convert("America/New_York")
    assert columns_read(frame, ["x", "z"]) == [numbers, numbers]
    assert [kind.tz for (kind,) in table_of(frame, ["x", "z"]).types(["x", "z"])] == [None, "UTC"]


PANDAS = {
    "big-endian": (np.array([1, -2, 3], dtype=">i4"), [1, -2, 3]),
    "float16": (np.array([1, np.inf, 0.5], dtype=np.float16), [1.0, float("inf"), 0.5]),
    "longdouble": (np.array([1, 2.5, 3], dtype=np.longdouble), [b"1", b"2,5", b"3"]),
    "bool": ([True, False, True], [True, False, True]),
    "objects": ([1, "x", None], [b"1", b"x", None]),
    "mixed": (pandas.Series([2.0, Decimal("1.5"), True], dtype=object), [b"2", b"1,5", b"true"]),
    "no text": (pandas.Series(["\ud800", b"q", "é"], dtype=object), [None, b"b'q'", "é".encode()]),
    "python strings": (pandas.array(["a", None, "é"], dtype="string[python]"), [b"a", None, "é".encode()]),
    "arrow strings": (pandas.array(["a", None, "é"], dtype="string[pyarrow]"), [b"a", None, "é".encode()]),
    "nullable": (pandas.array([1, None, 2**62], dtype="Int64"), [1, None, 2**62]),
    "nullable truth": (pandas.array([True, None, False], dtype="boolean"), [True, None, False]),
    "in Arrow": (pandas.array([1, None, -3], dtype=pandas.ArrowDtype(pa.int8())), [1, None, -3]),
    "categories": (pandas.Categorical(["b", None, "a"]), [b"b", None, b"a"]),
    "categories of numbers": (pandas.Categorical([3, None, 1.5]), [b"3", None, b"1,5"]),
    "sparse": (pandas.arrays.SparseArray([0, 0, 7]), [0, 0, 7]),
    "periods": (pandas.period_range("2020-01", periods=3, freq="M"), [b"2020-01", b"2020-02", b"2020-03"]),
}


@pytest.mark.parametrize("kind", PANDAS)
def test_columns_of_pandas_come_by_their_type(kind: str) -> None:
    values, expected = PANDAS[kind]
    assert columns_read(pandas.DataFrame({"x": values}), ["x", "x"], [",", ","]) == [expected, expected]


def test_columns_of_polars_come_by_their_type() -> None:
    polars = extra("polars")
    frame = polars.DataFrame(
        {
            "object": polars.Series([1, "a", None], dtype=polars.Object),
            "huge": polars.Series([2**100, -1, None], dtype=polars.Int128),
            "category": polars.Series(["a", "b", None], dtype=polars.Categorical),
            "one of some": polars.Series(["a", "b", None], dtype=polars.Enum(["b", "a"])),
            "day": [date(1, 1, 1), date(9999, 12, 31), None],
            "time": [time(1), time(0), None],
            "text": ["x" * 30, "", None],
            "none": [None, None, None],
        }
    )
    expected = [
        *([b"1", b"a", None], [str(2**100).encode(), b"-1", None], [b"a", b"b", None], [b"a", b"b", None]),
        *([-719162, 2932896, None], [3600 * 10**9, 0, None], [b"x" * 30, b"", None], [None] * 3),
    ]
    for source in (frame, frame.lazy()):
        assert columns_read(source, frame.columns) == expected


@pytest.mark.parametrize("n", [0, 1, BATCH_RECORDS, BATCH_RECORDS + 1, 3 * BATCH_RECORDS])
def test_long_tables_come_in_parts(n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.arange(2 * n).reshape(n, 2)
    frame = pandas.DataFrame(numbers, columns=["a", "b"])
    table = pa.table({"a": numbers[:, 0], "b": numbers[:, 1]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    pyarrow.feather.write_feather(table, str(tmp_path / "t.feather"), chunksize=4 * BATCH_RECORDS)
    polars = extra("polars").from_arrow(table)
    for source in (frame, table, polars, tmp_path / "t.parquet", tmp_path / "t.feather"):
        batches = list(table_of(source, ["b"]).batches(["b"], ["."], DroppedRecords()))
        assert all(len(column) <= BATCH_RECORDS for [column] in batches)
        assert [value for [column] in batches for value in column.to_pylist()] == numbers[:, 1].tolist()


@pytest.mark.parametrize(
    ("holder", "name", "broken"),
    [
        # Times are made from nanoseconds, as pandas does by itself.
        (frames, "_times", lambda values: pa.array(values.astype("M8[ns]"))),
        # The type of a column of objects is guessed from its values.
        (frames, "text_array", lambda values, mark=".": pa.array(list(values))),
        # Categories are as they are.
        (frames, "_chosen", lambda codes, listed: pa.array(codes)),
        # The bytes of another machine are taken for those of this one.
        (frames, "_of_numpy", lambda values, mark: pa.array(values.view(values.dtype.newbyteorder("=")))),
    ],
)
def test_a_conversion_of_another_kind_is_noticed(
    holder: Any, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked() -> None:
        test_times_of_pandas_come_as_the_numbers_that_they_are("s", ["-20000-01-01", "NaT", "200000-01-01"])
        for kind in PANDAS:
            test_columns_of_pandas_come_by_their_type(kind)

    checked()
    monkeypatch.setattr(holder, name, broken)
    with pytest.raises((AssertionError, ValueError, DataError, TypeError, pa.ArrowException)):
        checked()


# ------------------------------------------------------------------ files


def test_folders_give_what_files_lack(tmp_path: Path) -> None:
    for year, values in (("2020", [1, 2]), ("__HIVE_DEFAULT_PARTITION__", [3])):
        folder = tmp_path / f"year={year}"
        folder.mkdir()
        pyarrow.parquet.write_table(pa.table({"x": values}), folder / "a.parquet")
    assert columns_read(tmp_path, ["x", "year"]) == [[1, 2, 3], [b"2020", b"2020", None]]
    # With no column of the files themselves there are as many records.
    for suffix, writes in {
        "feather": lambda path: pyarrow.feather.write_feather(pa.table({"x": [1, 2]}), str(path)),
        "csv": lambda path: path.write_text("x\n1\n2\n", encoding="utf-8"),
        "jsonl": lambda path: path.write_text('{"x": 1}\n{}\n', encoding="utf-8"),
    }.items():
        folder = tmp_path / f"as={suffix}"
        folder.mkdir()
        writes(folder / f"a.{suffix}")
        assert columns_read(folder, ["as"]) == [[suffix.encode()] * 2]
    assert columns_read(tmp_path / "year=2020", ["year"]) == [[b"2020"] * 2]


def test_files_of_other_types_say_so(tmp_path: Path) -> None:
    for k, values in enumerate(([1], [1.5], ["a"])):
        pyarrow.parquet.write_table(pa.table({"x": values}), tmp_path / f"{k}.parquet")
    (tmp_path / "c.csv").write_text("x\nb\n", encoding="utf-8")
    files = sorted(map(str, tmp_path.iterdir()))
    [kinds] = table_of(files, ["x"]).types(["x"])
    assert kinds == (pa.int64(), pa.float64(), pa.string(), pa.large_string())
    assert columns_read(files, ["x"]) == [[1, 1.5, b"a", b"b"]]
    # As a data set these would be cast to the type of the first, which one value ends.
    assert columns_read(pyarrow.dataset.dataset(files[:2]), ["x"]) == [[1, 1.5]]


def test_a_column_named_twice_or_never_is_refused_wherever_it_is(tmp_path: Path) -> None:
    twice = pa.table([[1], [2], [3]], names=["x", "x", "y"])
    pyarrow.parquet.write_table(twice, tmp_path / "t.parquet")
    with pa.OSFile(str(tmp_path / "t.feather"), "wb") as file, pa.ipc.new_file(file, twice.schema) as writer:
        writer.write_table(twice)
    for source in (twice, tmp_path / "t.parquet", tmp_path / "t.feather", twice.to_pandas()):
        for name, given in (("x", "several"), ("z", "none")):
            with refuses(DataError, name, given):
                table_of(source, [name])
        assert columns_read(source, ["y"]) == [[3]]


def test_what_arrow_would_judge_is_refused(tmp_path: Path) -> None:
    """A filter of Arrow goes by statistics: of [NaN, 3.0] it found no NaN. Its CSV reader guesses types."""
    pyarrow.parquet.write_table(pa.table({"x": [float("nan"), 3.0]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("x\n1\n", encoding="utf-8")
    filtered = pyarrow.dataset.dataset(tmp_path / "t.parquet").filter(pyarrow.dataset.field("x").is_nan())
    with refuses(DataError, "table", ..., "without a filter"):
        table_of(filtered, ["x"])
    with refuses(DataError, "table", ..., "state their types"):
        table_of(pyarrow.dataset.dataset(tmp_path / "t.csv", format="csv"), ["x"])


def test_a_page_that_is_damaged_is_told_of_by_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pa.table({"x": ["canary"] * 1000}), path)
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 20 + content[24:])
    with refuses(DataError, "path", str(path), "cannot be read as Parquet") as refused:
        columns_read(path, ["x"])
    assert refused.value.__context__ is None and "canary" not in str(refused.value)


@pytest.mark.thorough
@pytest.mark.parametrize("group", [100_000, 4_000_000])
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_a_file_is_never_held_whole(group: int, suffix: str, tmp_path: Path) -> None:
    n = 4_000_000 if suffix == "parquet" else 1_000_000
    numbers = pa.array(np.random.default_rng(0).integers(0, 2**60, n))
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pyarrow.parquet.write_table(
            pa.table({"x": numbers}), path, row_group_size=group, use_dictionary=False
        )
    else:
        pyarrow.feather.write_feather(pa.table({"x": numbers}), str(path), chunksize=min(group, 100_000))
    del numbers
    pool = pa.default_memory_pool()
    before, most, total = pool.bytes_allocated(), 0, 0
    for [column] in table_of(path, ["x"]).batches(["x"], ["."], DroppedRecords()):
        total += len(column)
        most = max(most, pool.bytes_allocated() - before)
    assert total == n
    # A quarter of the least that all of it would take.
    assert most < n * 8 / 4


# ------------------------------------------------------------------ what is held, and what is not


def test_what_is_held_stays_as_it_was() -> None:
    polars = extra("polars")
    frame = pandas.DataFrame({"x": [1, 2]})
    kept = table_of(frame, ["x"])
    frame.loc[0, "x"] = 9
    assert kept.is_held == (int(pandas.__version__.split(".")[0]) >= 3)
    if kept.is_held:
        assert columns_read(kept, ["x"]) == [[1, 2]]
    other = polars.DataFrame({"x": [1, 2]})
    kept = table_of(other, ["x"])
    other[0, "x"] = 9
    assert kept.is_held and columns_read(kept, ["x"]) == [[1, 2]]
    table = pa.table({"x": [1]})
    assert table_of(table, ["x"]).is_held and not table_of(other.lazy(), ["x"]).is_held
    assert not table_of(pyarrow.dataset.dataset(table), ["x"]).is_held


def test_a_stream_is_read_once_and_only_what_is_asked_for(tmp_path: Path) -> None:
    reader = pa.table({"x": [1, 2], "y": ["a" * 1000, "b"]}).to_reader()
    table = table_of(reader, ["x"])
    assert [columns_read(table, ["x"]) for _ in range(2)] == [[[1, 2]]] * 2
    with refuses(DataError, "y", "none"):
        table.types(["y"])


def test_a_format_is_for_files_only() -> None:
    with refuses(DataError, "format", ..., "files only"):
        opened_table(pa.table({"x": [1]}), ["x"], FileFormat(separator=";"))


def test_values_of_sqlite_are_written_out_one_by_one(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as engine:
        engine.execute("CREATE TABLE people (x INTEGER)")
        values = [(1,), (1.5,), ("a",), (b"q",), (None,), (2.0,)]
        engine.executemany("INSERT INTO people VALUES (?)", values)
    engine.close()
    table = SqliteTable(str(tmp_path / "t.db"), "people")
    assert columns_read(table, ["x"], [","]) == [[b"1", b"1,5", b"a", None, None, b"2"]]
    with refuses(DataError, "y", "none"):
        table_of(table, ["y"])
