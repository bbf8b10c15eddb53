"""Files and data frames, as the engine reads them."""

# ruff: noqa: S608 - queries are put together from identifiers made or quoted here; values are bound.

from __future__ import annotations

import csv
import glob
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leastnoise.errors import DataError

_FILES = ".csv, .csv.gz, .tsv, .tsv.gz, .parquet or .pq files"
ACCEPTED = (
    f"a path or glob of {_FILES}, a pandas or polars DataFrame, a polars LazyFrame, a pyarrow Table, "
    "RecordBatch or Dataset, a DuckDB relation, or an Ibis table"
)
# The delimiter and the compression that a suffix promises, or neither for Parquet.
_SUFFIXES: dict[str, tuple[str, str]] = {
    ".csv": (",", "none"),
    ".csv.gz": (",", "gzip"),
    ".tsv": ("\t", "none"),
    ".tsv.gz": ("\t", "gzip"),
    ".parquet": ("", ""),
    ".pq": ("", ""),
}

# A scan by several threads is off: DuckDB 2.0 loses records where a quoted line
# break meets the border of two chunks (60,000 well-formed rows with one such
# field in ten, buffers of 20 kB: 45,374 came back). Strict mode is off because
# it stops with an error at a stray carriage return, which would tell on a record.
_READ_CSV = (
    "read_csv({files}, columns={columns}, delim='{delimiter}', compression='{compression}', header=true, "
    "auto_detect=false, quote='\"', escape='\"', nullstr='', allow_quoted_nulls=false, ignore_errors=true, "
    "strict_mode=false, parallel=false)"
)


class Part(NamedTuple):
    """Records with the same columns: a table in SQL, its files, the columns asked for and their types."""

    table: str
    files: list[str]
    columns: list[tuple[str, str]]


def files_named(source: str | Path) -> list[str]:
    """The absolute paths of the files that a path or glob stands for."""
    found = [str(source)] if Path(source).exists() else sorted(glob.glob(str(source), recursive=True))
    if not found:
        raise DataError(f"there is no file {str(source)!r}; name a table by the path or a glob of {_FILES}")
    paths = [str(Path(name).absolute()) for name in found]
    for path in paths:
        _format(path)
        if not Path(path).is_file():
            raise DataError(f"{path!r} is a folder; name its files, as in 'folder/*.parquet'")
        if glob.has_magic(path):
            raise DataError(f"the name of a file must not hold * ? or [, got {path!r}; rename it")
    return paths


def suffix_of(path: str) -> str:
    """The end of a file's name that says how it is read."""
    for suffix in _SUFFIXES:
        if path.lower().endswith(suffix):
            return suffix
    raise DataError(f"a file's name must end in {', '.join(_SUFFIXES)}, got {path!r}")


def _format(path: str) -> tuple[str, str]:
    return _SUFFIXES[suffix_of(path)]


def file_parts(engine: Any, files: Sequence[str], names: Sequence[str]) -> list[Part]:
    """The files, those of equal format and columns together."""
    groups: dict[Any, list[str]] = {}
    for path in files:
        delimiter, compression = _format(path)
        if delimiter:
            opened: Any = gzip.open if compression == "gzip" else open
            # Python decodes ahead of the header: bytes that are not UTF-8 must not raise.
            with opened(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
                header = next(csv.reader(lines, delimiter=delimiter), [])
            columns = [(name, "VARCHAR") for name in header]
        else:
            columns = column_types(engine, "read_parquet($file, hive_partitioning=false)", {"file": path})
        groups.setdefault((delimiter, compression, tuple(columns)), []).append(path)
    parts = []
    for p, ((delimiter, compression, columns), paths) in enumerate(groups.items()):
        places = column_places([name for name, _ in columns], names, delimiter)
        if delimiter:
            fields = {f"c{i}": "VARCHAR" for i in range(len(columns))}
            table = _READ_CSV.format(
                files=f"$files{p}", columns=fields, delimiter=delimiter, compression=compression
            )
            found = [(f"c{i}", "VARCHAR") for i in places]
        else:
            table = f"read_parquet($files{p}, hive_partitioning=false)"
            found = [('"' + columns[i][0].replace('"', '""') + '"', columns[i][1]) for i in places]
        parts.append(Part(table, paths, found))
    return parts


def column_places(columns: Sequence[Any], names: Sequence[str], delimiter: str = "") -> list[int]:
    """Where the columns of these names stand."""
    texts = [column if isinstance(column, str) else None for column in columns]
    for name in names:
        if texts.count(name) != 1:
            # A header may hold what should not be shown, in a file without one; it is not printed.
            hint = f". {doubt}" if (doubt := other_separator(columns, delimiter)) else ""
            raise DataError(
                f"the table must have exactly one column named {name!r}, spelled just so; it has "
                f"{'several' if name in texts else 'none'}{hint}"
            )
    return [texts.index(name) for name in names]


def other_separator(header: Sequence[Any], delimiter: str) -> str:
    """Words of doubt where a header of one field looks as if another sign parted it; "" elsewhere.

    Nothing of the header is in them.
    """
    others = set(";\t,|") - {delimiter}  # a comma in a field of its own stands in quotes
    if not delimiter or len(header) != 1 or others.isdisjoint(header[0]):
        return ""
    return f"The header holds one field; is the separator {'a comma' if delimiter == ',' else 'a tab'}?"


def column_types(engine: Any, table: str, parameters: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """The name and the engine's type of every column."""
    rows = engine.execute(f"DESCRIBE SELECT * FROM {table}", parameters or {}).fetchall()
    return [(row[0], row[1]) for row in rows]


class _Stream:
    """What the engine reads through the Arrow interface, without pyarrow."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened = opened

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._opened().__arrow_c_stream__(requested_schema)


def _open_pandas(table: Any, names: Sequence[str]) -> Any:
    import pandas

    places = column_places(list(table.columns), names)
    frame = table.iloc[:, places].set_axis([f"c{k}" for k in range(len(names))], axis=1)
    for k, dtype in enumerate(frame.dtypes):
        # Value by value: a type guessed for the whole column would let one record,
        # even a null, change how the others count.
        if dtype.name == "object":
            values = np.frompyfunc(_plain, 1, 1)(frame.iloc[:, k].to_numpy())
        elif dtype.name == "category" and not all(isinstance(value, str) for value in dtype.categories):
            # The code of a null is -1, the last.
            values = np.array([*map(_plain, dtype.categories), None], dtype=object)[
                frame.iloc[:, k].cat.codes
            ]
        else:
            continue
        frame.isetitem(k, pandas.Series(values, dtype=object, index=frame.index))
    return frame


def _plain(value: Any) -> Any:
    """A value of an object column as it is written out: whole floats as whole numbers."""
    if isinstance(value, float) and abs(value) < 2**53 and value == int(value):
        return int(value)
    return str(bool(value)).lower() if isinstance(value, (bool, np.bool_)) else value


def _open_polars(table: Any, names: Sequence[str]) -> Any:
    columns, places = table.get_columns(), column_places(table.columns, names)
    frame = table.select([columns[i].alias(f"c{k}") for k, i in enumerate(places)])
    return _Stream(lambda: frame)


def _open_lazy(table: Any, names: Sequence[str]) -> Any:
    import polars

    # Each once: the person may also be an attribute.
    places = dict.fromkeys(column_places(table.collect_schema().names(), names))
    return _open_polars(table.select([polars.nth(i) for i in places]).collect(), names)


def _open_arrow(table: Any, names: Sequence[str]) -> Any:
    chosen = table.select(column_places(table.schema.names, names))
    chosen = chosen.rename_columns([f"c{k}" for k in range(len(names))])
    return _Stream(lambda: chosen)


def _open_dataset(table: Any, names: Sequence[str]) -> Any:
    import pyarrow.dataset

    places = column_places(table.schema.names, names)
    columns = {f"c{k}": pyarrow.dataset.field(table.schema.names[i]) for k, i in enumerate(places)}
    return _Stream(lambda: table.scanner(columns=columns).to_reader())


def _open_relation(table: Any, names: Sequence[str]) -> Any:
    places = column_places(table.columns, names)
    chosen = table.project(", ".join(f"#{i + 1} AS c{k}" for k, i in enumerate(places)))
    return _Stream(lambda: chosen)


def _open_ibis(table: Any, names: Sequence[str]) -> Any:
    """A table that Ibis holds in this very process, by an engine that knows no SQL."""
    places = column_places(table.columns, names)
    found = table.select([table[i].name(f"c{k}") for k, i in enumerate(places)]).to_pyarrow()
    return _Stream(lambda: found)


def is_in_engine(source: Any) -> bool:
    """Whether a source is an Ibis table, to be counted where it is. Only polars is read from here."""
    return isinstance(source, tuple) and source[0] is _open_ibis and source[1].get_backend().name != "polars"


OPENERS: dict[tuple[str, str], Callable[[Any, Sequence[str]], Any]] = {
    ("pandas", "DataFrame"): _open_pandas,
    ("polars", "DataFrame"): _open_polars,
    ("polars", "LazyFrame"): _open_lazy,
    ("pyarrow", "Table"): _open_arrow,
    ("pyarrow", "RecordBatch"): _open_arrow,
    ("pyarrow", "Dataset"): _open_dataset,
    ("duckdb", "DuckDBPyRelation"): _open_relation,
    ("ibis", "Table"): _open_ibis,
}


def snapshot(table: Any, library: str, name: str) -> tuple[Any, bool]:
    """A data frame as it is now, and whether it stays so whatever its owner does to it.

    Nothing is copied: pandas from version 3 and polars copy a column when somebody writes to it, and Arrow
    tables are never written to.
    """
    if (library, name) == ("pandas", "DataFrame"):
        import pandas

        # Before version 3, a shallow copy shares what is written to either.
        return (
            (table.copy(deep=False), True) if int(pandas.__version__.split(".")[0]) >= 3 else (table, False)
        )
    if (library, name) == ("polars", "DataFrame"):
        return table.clone(), True
    return table, (library, name) in (("pyarrow", "Table"), ("pyarrow", "RecordBatch"))
