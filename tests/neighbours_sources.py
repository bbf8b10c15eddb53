"""One table in every source that can be counted: each writer puts down raw values, and looks at none of them.

A writer that fails, because a format or an engine cannot hold a value, is not to blame: `Unwritable`.
"""

from __future__ import annotations

import decimal
import importlib
import importlib.util
import random
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa

from neighbours_cells import Day, Moment, Thing
from neighbours_files import (
    FIELDS,
    GARBAGE,
    JSON_FORM,
    JSON_LINES,
    PLAIN,
    SHEET_FORM,
    SQLITE_FORM,
    Line,
    Table,
    Unwritable,
    csv,
    fresh,
    json_lines,
    sheet,
    sqlite,
)
from neighbours_values import ARROW_TYPES, NO_UTF8, ODD_TEXTS, REFUSED_TYPES, TEXTS, Form, arrow_form, shown


@dataclass(frozen=True)
class Source:
    """A kind of table.

    Attributes:
        forms: what its columns can be, and the ids of people.
        write: from a table, a folder and a random order of details to what `vectorize` takes.
        modules: what must be installed.
        lines: whole lines that may stand among the records.
    """

    forms: Callable[[random.Random], Form]
    write: Callable[[Table, Path, random.Random], Any]
    modules: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()

    def is_here(self) -> bool:
        return all(importlib.util.find_spec(module) is not None for module in self.modules)


# ------------------------------------------------------------------ Arrow, and what is made of it


def _arrow_forms(
    *without: str,
    encodings: Sequence[str] = ("dictionary", "words", "runs"),
    is_utf8: bool = False,
    is_typed: bool = False,
) -> Callable[[random.Random], Form]:
    """Arrow types that a source can hold, but for those whose names hold one of these words.

    Args:
        is_utf8: whether it refuses text that is none.
        is_typed: whether it refuses, or makes others of, numbers that their type does not hold.
    """
    names = [name for name in ARROW_TYPES if not any(part in name for part in without)]
    # As often as what people have: floats, texts and moments beside all else.
    common = [
        name for name in ("float64", "float64", "float32", "string", "timestamp[us, UTC]") if name in names
    ]

    def drawn(rng: random.Random) -> Form:
        name = rng.choice(common if rng.random() < 0.4 else names)
        if rng.random() < 0.02:
            return arrow_form(rng.choice(list(REFUSED_TYPES)))
        encoding = rng.choice(encodings) if encodings and rng.random() < 0.25 and name != "null" else ""
        form = arrow_form(name, encoding)
        if is_utf8 and "string" in name:
            return replace(form, odd=[raw for raw in form.odd if raw not in NO_UTF8])
        most = _most_in(name) if is_typed else None
        return form if most is None else replace(form, odd=[raw for raw in form.odd if abs(raw) <= most])

    return drawn


def _most_in(name: str) -> int | None:
    """The largest stored number of a type, where the memory of its values holds larger ones, too."""
    digits = re.match(r"decimal\d+\((\d+),", name)
    # Seconds of a day are written to files as milliseconds.
    return 10 ** int(digits[1]) - 1 if digits else 2**31 // 1000 if name == "time32[s]" else None


def arrow_table(table: Table) -> Any:
    return pa.table(table.columns())


def _in_chunks(table: Table, folder: Path, rng: random.Random) -> Any:
    if not table.records:
        return arrow_table(table)
    cut = rng.randint(0, len(table.records))
    parts = [table._replace(records=some) for some in (table.records[:cut], table.records[cut:]) if some]
    return pa.concat_tables([arrow_table(part) for part in parts])


class _Stream:
    """A reader of another library, which offers the Arrow interface and nothing else."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def _batch(table: Table, folder: Path, rng: random.Random) -> Any:
    return pa.record_batch(table.columns())


def _dataset(table: Table, folder: Path, rng: random.Random) -> Any:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(arrow_table(table))


def _parquet(table: Table, folder: Path, rng: random.Random) -> Any:
    path = folder / f"{next(fresh)}.parquet"
    _write_parquet(arrow_table(table), path, rng)
    return path


def _write_parquet(table: Any, path: Path, rng: random.Random) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(
        table,
        path,
        row_group_size=rng.choice([2, 4, 1000]),
        use_dictionary=rng.random() < 0.5,
        write_statistics=rng.random() < 0.8,
        store_schema=rng.random() < 0.5,
        write_page_index=rng.random() < 0.3,
        data_page_version=rng.choice(["1.0", "2.0"]),
        compression=rng.choice(["snappy", "none", "zstd"]),
    )


def _feather(table: Table, folder: Path, rng: random.Random) -> Any:
    import pyarrow.ipc

    path = folder / f"{next(fresh)}.feather"
    own = arrow_table(table)
    with pyarrow.ipc.new_file(path, own.schema) as writer:
        writer.write_table(own, max_chunksize=rng.choice([3, 1000]))
    return path


# What a folder's name says of all records in it; the last stands for none.
_IN_FOLDERS = {"2025": "2025", "New York": "New%20York", None: "__HIVE_DEFAULT_PARTITION__"}
FOLDER = Form("folder", "text", ["2025"], ["New York", None], str)


def _folder_forms(rng: random.Random) -> Form:
    return FOLDER if rng.random() < 0.25 else _IN_PARQUET(rng)


def _folders(table: Table, folder: Path, rng: random.Random) -> Any:
    """A file in each of all folders, whose names give the columns of that form."""
    top = folder / next(fresh)
    told = [k for k, form in enumerate(table.forms) if form is FOLDER]
    kept = [k for k in range(len(table.forms)) if k not in told]
    if len(told) > 1:
        raise Unwritable("folders in folders make many files")
    for value in _IN_FOLDERS:
        name = table.names[told[0]] if told else "year"
        inner = top / f"{name}={_IN_FOLDERS[value]}"
        inner.mkdir(parents=True)
        # Where no folder is asked for, a record stays in its own whoever else is there.
        place = lambda record: record[told[0]] if told else list(_IN_FOLDERS)[hash_of(record) % 3]  # noqa: E731
        inside = [[record[k] for k in kept] for record in table.records if place(record) == value]
        raws = [[row[i] for row in inside] for i in range(len(kept))]
        columns = {table.names[k]: table.forms[k].held(own) for k, own in zip(kept, raws, strict=True)}
        # A file has records though no column of it is asked for.
        columns["rest"] = pa.array([0] * len(inside), pa.int8())
        _write_parquet(pa.table(columns), inner / "part.parquet", rng)
    return top


def hash_of(record: Any) -> int:
    """A number of a record, the same in every run."""
    return sum(shown(record).encode("utf-8", "backslashreplace"))


def _polars(table: Table, folder: Path, rng: random.Random) -> Any:
    import polars

    return polars.from_arrow(_in_chunks(table, folder, rng))


def _in_duckdb(connection: Any, table: Table) -> str:
    name = next(fresh)
    connection.register(f"source_{name}", arrow_table(table))
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM source_{name}")
    connection.unregister(f"source_{name}")
    return name


def _relation(table: Table, folder: Path, rng: random.Random) -> Any:
    import duckdb

    connection = duckdb.connect()
    return connection.table(_in_duckdb(connection, table))


def _duckdb_file(table: Table, folder: Path, rng: random.Random) -> Any:
    import duckdb

    path = folder / f"{next(fresh)}.duckdb"
    with duckdb.connect(str(path)) as connection:
        return f"duckdb://{path}/{_in_duckdb(connection, table)}"


def _ibis(table: Table, folder: Path, rng: random.Random) -> Any:
    import ibis

    connection = ibis.duckdb.connect()
    return connection.table(_in_duckdb(connection.con, table))


# ------------------------------------------------------------------ pandas

_NUMPY = {
    **{
        name: np.dtype(name)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    **{name: np.dtype(name) for name in ("float16", "float32", "float64")},
}
_NULLABLE = {"int64": "Int64", "uint64": "UInt64", "int8": "Int8", "float64": "Float64", "float32": "Float32"}


def _numpy_form(name: str, nullable: bool) -> Form:
    plain = arrow_form(name)

    def held(raws: list[Any]) -> Any:
        kind = _NUMPY[name]
        bits = np.dtype(f"u{kind.itemsize}") if kind.kind == "f" else kind
        values = np.array([raw or 0 for raw in raws], dtype=bits).view(kind)
        if not nullable:
            return pandas.Series(values)
        is_null = np.array([raw is None for raw in raws], dtype=bool)
        made = pandas.arrays.FloatingArray if kind.kind == "f" else pandas.arrays.IntegerArray
        return pandas.Series(made(values, is_null))

    called = _NULLABLE[name] if nullable else f"numpy {name}"
    return Form(
        called, plain.hint, plain.usual, plain.odd, plain.reading, held, plain.whole_below, has_nulls=nullable
    )


def _time_form(unit: str, zone: str | None) -> Form:
    plain = arrow_form(f"timestamp[{unit}]" if zone is None else f"timestamp[{unit}, UTC]")
    no_time = -(2**63)

    def held(raws: list[Any]) -> Any:
        values = np.array([no_time if raw is None else raw for raw in raws], dtype="int64").view(
            f"M8[{unit}]"
        )
        series = pandas.Series(values)
        return series if zone is None else series.dt.tz_localize("UTC").dt.tz_convert(zone)

    read = lambda raw: None if raw == no_time else plain.reading(raw)  # noqa: E731
    return Form(f"datetime64[{unit}, {zone}]", plain.hint, plain.usual, plain.odd, read, held)


def _objects(values: list[Any], dtype: Any = object) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return pandas.Series(column, dtype=dtype)


class Unwilling:
    """An object that cannot be written out."""

    def __str__(self) -> str:
        raise RuntimeError("no value is to be seen")

    def __repr__(self) -> str:
        return "Unwilling()"


_THINGS: list[Any] = [
    *ODD_TEXTS,
    *(
        float("nan"),
        pandas.NA,
        pandas.NaT,
        np.datetime64("NaT"),
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("1e9999"),
    ),
    *(
        float("inf"),
        -0.0,
        1e300,
        2.0**53,
        2020.5,
        np.float32(0.1),
        np.float16(1),
        np.longdouble("1e4000"),
        1 + 2j,
    ),
    *(
        "\ud800",
        "a\udcff",
        10**5000,
        -(10**400),
        2**64,
        np.uint64(2**64 - 1),
        np.int8(-128),
        np.bool_(True),
        False,
    ),
    *(
        b"a",
        b"\xff",
        bytearray(b"a"),
        [1],
        {"a": 1},
        (1,),
        {1},
        object,
        Unwilling(),
        range(3),
        np.array([1, 2]),
    ),
    *(
        date(1, 1, 1),
        date(2026, 3, 15),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime(2026, 3, 15, 23),
    ),
    *(
        datetime(2026, 3, 15, 23, tzinfo=UTC),
        pandas.Timestamp(2**63 - 1),
        pandas.Timestamp("2026-03-15 23:59", tz="UTC"),
    ),
    *(
        time(1),
        timedelta.max,
        pandas.Period("2026-03"),
        pandas.Interval(0, 1),
        np.datetime64(2**62, "s"),
        Decimal("0.10"),
    ),
]


def _python_reading(value: Any) -> Any:
    """What a Python object is where columns hold any: texts and plain numbers as ever, others as things."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
        return value
    if value is None or isinstance(value, bool) or (type(value) is int and abs(value) < 10**4000):
        return value
    if isinstance(value, (np.bool_, np.integer)):
        # The same person as True or 7.
        return value.item()
    is_whole = isinstance(value, np.floating) and abs(value) < 2**11 and value == np.floor(value)
    return float(value) if type(value) is float or is_whole else Thing(value)


OBJECTS = Form("object", "text", PLAIN, _THINGS, _python_reading, _objects)


def _category(values: list[Any], label: str) -> Form:
    held = lambda raws: pandas.Series(  # noqa: E731
        pandas.Categorical.from_codes([-1 if raw is None else values.index(raw) for raw in raws], values)
    )
    usual = values[: len(values) // 2]
    return Form(f"category of {label}", "text", usual, values, _python_reading, held)


def _arrow_series(array: Any) -> Any:
    return pandas.Series(pandas.arrays.ArrowExtensionArray(pa.chunked_array([array])))


def _pandas_forms(rng: random.Random) -> Form:
    kind = rng.randrange(9)
    if kind < 2:
        return _numpy_form(rng.choice(["float64", rng.choice(list(_NUMPY))]), nullable=False)
    if kind == 2:
        return _numpy_form(rng.choice(list(_NULLABLE)), nullable=True)
    if kind == 3:
        return _time_form(rng.choice(["s", "ms", "us", "ns"]), rng.choice([None, "UTC", "Europe/Berlin"]))
    if kind == 4:
        texts = [text for text in [*TEXTS, *ODD_TEXTS] if text.isprintable()]
        numbers, floats = [2020, 1, 2, 2026, -1, 2**63 - 1], [2020.0, 1.0, 0.5, float("inf"), 1e300]
        some, label = rng.choice([(texts, "texts"), (numbers, "integers"), (floats, "floats")])
        return _category(some, label)
    if kind == 5:
        dtype = rng.choice([pandas.StringDtype("python"), pandas.StringDtype("pyarrow")])
        odd = [*ODD_TEXTS, "\ud800"] if dtype.storage == "python" else ODD_TEXTS
        return Form(
            f"string[{dtype.storage}]",
            "text",
            TEXTS,
            odd,
            _python_reading,
            lambda raws: _objects(raws, dtype),
        )
    if kind == 6:
        plain = _arrow_forms(encodings=("dictionary",))(rng)
        label = f"ArrowDtype({plain.label})"
        return replace(plain, label=label, held=lambda raws: _arrow_series(plain.held(raws)))
    if kind == 7:
        held = lambda raws: pandas.Series(pandas.array(raws, dtype="boolean"))  # noqa: E731
        return Form("boolean", "text", [True], [False], bool, held)
    return OBJECTS


def _pandas(table: Table, folder: Path, rng: random.Random) -> Any:
    return pandas.DataFrame(table.columns())


# ------------------------------------------------------------------ servers, which tests connect to

ENGINES: dict[str, Any] = {}
_big = 2**63 - 1
_REALS = [float("nan"), float("inf"), -float("inf"), 5000.0, -0.0]
# PostgreSQL's own words for dates in no calendar of ours.
_NO_DATES = ("infinity", "-infinity", "0044-03-15 BC", "20000-01-01")
_SERVED: dict[str, tuple[str, list[Any], list[Any]]] = {
    "text": ("text", TEXTS, [text for text in ODD_TEXTS if "\0" not in text and text not in _NO_DATES]),
    "bigint": ("whole", [0, 1, 2020, 2026], [_big, -_big - 1, 99, -1, 20260315, 2**53 + 1]),
    "smallint": ("whole", [0, 1, 2020, 2026], [-(2**15), 2**15 - 1, 99]),
    "double precision": ("number", [0.0, 1.0, 2020.0], [*_REALS, 2020.5, 1e300, 5e-324, 2.0**63]),
    "real": ("number", [0.0, 1.0, 2020.0], [*_REALS, 0.5, 2.0**24]),
    "numeric(20, 2)": ("number", [Decimal("1.00")], [Decimal("2020.50"), Decimal("-999999999999999999.99")]),
    "numeric": (
        "number",
        [Decimal(1), Decimal(2020)],
        [Decimal("NaN"), Decimal("1e400"), Decimal("Infinity")],
    ),
    "boolean": ("text", [True], [False]),
    "date": ("time", [date(2026, 3, 15), date(1970, 1, 1)], [date.min, date.max, *_NO_DATES]),
    "timestamp": ("time", [datetime(2026, 3, 15, 23)], [datetime.min, datetime.max, *_NO_DATES]),
    "timestamptz": ("zoned", [datetime(2026, 3, 15, 23, tzinfo=UTC)], list(_NO_DATES)),
}


def _served_forms(rng: random.Random) -> Form:
    name = rng.choice(list(_SERVED))
    hint, usual, odd = _SERVED[name]
    return Form(name, hint, usual, odd, _served_reading)


def _served_reading(raw: Any) -> Any:
    if isinstance(raw, str) and raw in _NO_DATES:
        return Day(10**9)
    if not isinstance(raw, date):
        return raw
    days = raw.toordinal() - date(1970, 1, 1).toordinal()
    if not isinstance(raw, datetime):
        return Day(days)
    seconds = raw.hour * 3600 + raw.minute * 60 + raw.second
    return Day(days, is_date=False) if raw.tzinfo is None else Moment(days * 86_400 + seconds)


def _postgres(table: Table, folder: Path, rng: random.Random) -> Any:
    name, connected = next(fresh), ENGINES["postgres"]
    columns = ", ".join(f"{own} {form.label}" for own, form in zip(table.names, table.forms, strict=True))
    with connected.con.cursor() as cursor:
        cursor.execute(f"CREATE TEMP TABLE {name} ({columns})")
        places = ", ".join(["%s"] * len(table.names))
        if table.records:
            cursor.executemany(f"INSERT INTO {name} VALUES ({places})", table.records)
    connected.con.commit()
    return connected.table(name)


def _spark(table: Table, folder: Path, rng: random.Random) -> Any:
    name, connected = next(fresh), ENGINES["spark"]
    written = _parquet(table, ENGINES["folder"], rng)
    connected._session.read.parquet(str(written)).createOrReplaceTempView(name)
    return connected.table(name)


# ------------------------------------------------------------------ the list

# Without what these libraries hold as another type, such as a date of milliseconds, or not at all.
_IN_PARQUET = _arrow_forms("null", encodings=("words",), is_typed=True)
_IN_POLARS = _arrow_forms(
    "decimal256",
    "null",
    "date64",
    "timestamp[s",
    "+05:30",
    encodings=("dictionary",),
    is_utf8=True,
    is_typed=True,
)
_NOT_IN_SPARK = ("uint", "decimal256", "float16", "null", "date64", "time32", "time64", "[s", "[ms", "[ns")
_IN_SPARK = _arrow_forms(*_NOT_IN_SPARK, encodings=("words",), is_typed=True)
_IN_DUCKDB = _arrow_forms(
    "decimal256", "float16", "null", "date64", "timestamp[ns, ", "timestamp[s, ", is_utf8=True, is_typed=True
)
SOURCES = {
    "csv": Source(lambda rng: FIELDS, csv("csv", ","), lines=GARBAGE),
    "tsv": Source(lambda rng: FIELDS, csv("tsv", "\t"), lines=GARBAGE),
    "csv.gz": Source(lambda rng: FIELDS, csv("csv.gz", ","), lines=GARBAGE),
    "jsonl": Source(lambda rng: JSON_FORM, json_lines, lines=JSON_LINES),
    "parquet": Source(_IN_PARQUET, _parquet),
    "folders": Source(_folder_forms, _folders),
    "feather": Source(_arrow_forms(), _feather),
    "xlsx": Source(lambda rng: SHEET_FORM, sheet, ("openpyxl",)),
    "pandas": Source(_pandas_forms, _pandas),
    "polars": Source(_IN_POLARS, _polars, ("polars",)),
    "polars lazy": Source(_IN_POLARS, lambda *given: _polars(*given).lazy(), ("polars",)),
    "arrow": Source(_arrow_forms(), _in_chunks),
    "batch": Source(_arrow_forms(), _batch),
    "dataset": Source(_arrow_forms(), _dataset),
    "stream": Source(_arrow_forms(), lambda *given: _Stream(_in_chunks(*given))),
    "relation": Source(_IN_DUCKDB, _relation),
    "duckdb": Source(_IN_DUCKDB, _duckdb_file, ("ibis",)),
    "sqlite": Source(lambda rng: SQLITE_FORM, sqlite),
    "ibis": Source(_IN_DUCKDB, _ibis, ("ibis",)),
    # Asked for by name: they need servers.
    "postgres": Source(_served_forms, _postgres, ("ibis", "psycopg")),
    "spark": Source(_IN_SPARK, _spark, ("ibis", "pyspark")),
}
SERVED = ("postgres", "spark")


def written(source: str, table: Table, folder: Path, rng: random.Random) -> Any:
    """What `vectorize` takes.

    Raises:
        Unwritable: if it cannot hold the values.
    """
    try:
        with warnings.catch_warnings(), decimal.localcontext():
            warnings.simplefilter("ignore")
            return SOURCES[source].write(table, folder, rng)
    except AssertionError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:200]
    raise Unwritable(reason)
