"""Files and data frames, as the embedded engine reads them."""

# ruff: noqa: S608 - queries are put together from identifiers made or quoted here; values are bound.

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leastnoise.core.errors import DataError, MissingExtraError
from leastnoise.data.arrow_stream import TextStream
from leastnoise.data.columns import column_places
from leastnoise.data.csv_blocks import DroppedRecords, TextColumn, column_of
from leastnoise.data.csv_records import CsvReader
from leastnoise.data.file_format import ENCODINGS, FileFormat, TableFiles
from leastnoise.data.spreadsheets import sheet_header, sheet_rows
from leastnoise.data.text_files import TextFile
from leastnoise.query import is_null

_FILES = ".csv, .csv.gz, .tsv, .tsv.gz, .parquet, .pq or .xlsx files"
ACCEPTED = (
    f"a path or glob of {_FILES}, a pandas or polars DataFrame, a polars LazyFrame, a pyarrow Table, "
    "RecordBatch or Dataset, a DuckDB relation, an Ibis table, or a table with the Arrow PyCapsule interface"
)
# What stands for the compression of a spreadsheet.
_SHEET = "sheet"
# The rows of a spreadsheet that are handed on at once.
_ROWS = 10_000
# The delimiter and the compression that a suffix promises, or neither for Parquet.
_SUFFIXES: dict[str, tuple[str, str]] = {
    ".csv": (",", "none"),
    ".csv.gz": (",", "gzip"),
    ".tsv": ("\t", "none"),
    ".tsv.gz": ("\t", "gzip"),
    ".parquet": ("", ""),
    ".pq": ("", ""),
    ".xlsx": ("", _SHEET),
}


class TablePart(NamedTuple):
    """Records with the same columns: a table in SQL, its files, the columns asked for and their types."""

    table: str
    files: list[str]
    columns: list[tuple[str, str]]


def files_named(source: str | Path) -> list[str]:
    """The absolute paths of the files that a path or glob stands for."""
    # os.path, because Path raises where a name is longer than names may be.
    found = [str(source)] if os.path.exists(source) else sorted(glob.glob(str(source), recursive=True))
    if not found:
        raise DataError(
            f"there is no file {str(source)!r}",
            field="path",
            given=str(source),
            remedy=f"name a table by the path or a glob of {_FILES}",
        )
    paths = [str(Path(name).absolute()) for name in found]
    for path in paths:
        _format(path)
        if not os.path.isfile(path):
            raise DataError.must("path", "name files, as in 'folder/*.parquet', not their folder", given=path)
        if glob.has_magic(path):
            raise DataError.must("path", "not hold * ? or [", given=path, remedy="rename the file")
    return paths


def suffix_of(path: str) -> str:
    """The end of a file's name that says how it is read."""
    for suffix in _SUFFIXES:
        if path.lower().endswith(suffix):
            return suffix
    raise DataError.must("path", f"end in {', '.join(_SUFFIXES)}", given=path)


def _format(path: str) -> tuple[str, str]:
    return _SUFFIXES[suffix_of(path)]


def check_files(engine: Any, files: Sequence[str], names: Sequence[str]) -> None:
    """Return if every file has each of these columns once; only headers are read."""
    for file in _text_files(files):
        column_places(header_of(file), names, file.separator)
    _parquet_parts(engine, files, names)


def file_parts(
    engine: Any, files: Sequence[str], names: Sequence[str], marks: Sequence[str] = ()
) -> tuple[list[TablePart], CsvFiles]:
    """The files, those of equal format and columns together; and those of text among them, in one part."""
    parts = _parquet_parts(engine, files, names)
    texts = CsvFiles(_text_files(files), names, marks=marks)
    if texts.files:
        engine.register("texts", texts.stream)
        parts.append(TablePart("texts", [], [(f"c{k}", "VARCHAR") for k in range(len(names))]))
    return parts, texts


def _text_files(files: Sequence[str]) -> list[CsvFile]:
    declared = files.format if isinstance(files, TableFiles) else FileFormat()
    found = []
    for path in files:
        separator, compression = _format(path)
        if compression:
            found.append(CsvFile(path, declared.separator or separator, compression, declared))
    return found


def _parquet_parts(engine: Any, files: Sequence[str], names: Sequence[str]) -> list[TablePart]:
    groups: dict[Any, list[str]] = {}
    reader = _parquet_reader(engine)
    for path in files:
        if not _format(path)[1]:
            types = column_types(engine, reader.format("$file"), {"file": path})
            groups.setdefault(tuple(types), []).append(path)
    parts = []
    for p, (columns, paths) in enumerate(groups.items()):
        places = column_places([name for name, _ in columns], names)
        found = [('"' + columns[i][0].replace('"', '""') + '"', columns[i][1]) for i in places]
        parts.append(TablePart(reader.format(f"$files{p}"), paths, found))
    return parts


def _parquet_reader(engine: Any) -> str:
    """The engine's function for Parquet files, with a place for their names.

    Text that is not UTF-8 must not stop it; DuckDB has an option for that since 2.0. Question marks then
    stand for what is not text: left away, the rest could be a declared value.
    """
    knows = engine.execute(
        "SELECT bool_or(list_contains(parameters, 'utf8_validation')) FROM duckdb_functions() "
        "WHERE function_name = 'read_parquet'"
    ).fetchall()[0][0]
    return "read_parquet({}, hive_partitioning=false" + (", utf8_validation='replace')" if knows else ")")


def column_types(engine: Any, table: str, parameters: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """The name and the engine's type of every column."""
    rows = engine.execute(f"DESCRIBE SELECT * FROM {table}", parameters or {}).fetchall()
    return [(row[0], row[1]) for row in rows]


class _ArrowSource:
    """What the engine reads through the Arrow interface, without pyarrow."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened = opened

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._opened().__arrow_c_stream__(requested_schema)


def _open_pandas(table: Any, names: Sequence[str], marks: Sequence[str] = ()) -> Any:
    """A frame whose columns of any values are written out as text, numbers there with the column's mark."""
    import pandas

    places = column_places(list(table.columns), names)
    frame = table.iloc[:, places].set_axis([f"c{k}" for k in range(len(names))], axis=1)
    for k, dtype in enumerate(frame.dtypes):
        mark = marks[k] if k < len(marks) else "."
        # Value by value: a type guessed for the whole column would let one record,
        # even a null, change how the others count.
        if dtype.name == "object" or (
            isinstance(dtype, pandas.StringDtype) and getattr(dtype, "storage", "python") == "python"
        ):
            values = _written(frame.iloc[:, k].to_numpy(dtype=object), mark)
        elif dtype.name == "category" and not all(map(_is_text, dtype.categories)):
            # The code of a null is -1, the last.
            values = _written([*dtype.categories, None], mark)[frame.iloc[:, k].cat.codes]
        else:
            continue
        frame.isetitem(k, pandas.Series(values, dtype=object, index=frame.index))
    return frame


def _written(values: Iterable[Any], mark: str = ".") -> Any:
    """Values of any types, written out as text; None for those that are none or that no text can tell.

    Args:
        mark: the decimal mark of numbers that are no text.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = list(map(partial(_text, mark=mark), values))
    written = np.empty(len(texts), dtype=object)
    written[:] = texts
    return written


def _is_text(value: object) -> bool:
    """Whether a value is text that UTF-8 can hold."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: Any, mark: str = ".") -> str | None:
    """A value as text in UTF-8, whole floats as whole numbers; None if there is none, or none can be written.

    Guarantee:
        No value raises or warns: whether something fails would tell about a record.
    """
    if type(value) is str and value.isascii():
        return value
    try:
        if is_null(value):
            return None
        if isinstance(value, (bool, np.bool_)):
            return str(bool(value)).lower()
        if isinstance(value, int):
            # Decimal writes any number of digits; str() stops at 4,300.
            text = str(Decimal(value))
        elif isinstance(value, (float, np.floating)) and abs(float(value)) < 2**53 and value == int(value):
            text = str(int(value))
        else:
            text = str(value)
            if mark != "." and isinstance(value, (float, np.floating, Decimal)):
                text = text.replace(".", mark)
        return text if _is_text(text) else None
    except Exception:
        return None


def _open_polars(table: Any, names: Sequence[str], marks: Sequence[str] = ()) -> Any:
    columns, places = table.get_columns(), column_places(table.columns, names)
    frame = table.select([columns[i].alias(f"c{k}") for k, i in enumerate(places)])
    return _ArrowSource(lambda: frame)


def _open_lazy(table: Any, names: Sequence[str], marks: Sequence[str] = ()) -> Any:
    import polars

    # Each once: the person may also be an attribute.
    places = dict.fromkeys(column_places(table.collect_schema().names(), names))
    return _open_polars(table.select([polars.nth(i) for i in places]).collect(), names, marks)


def _open_arrow(table: Any, names: Sequence[str], marks: Sequence[str] = ()) -> Any:
    chosen = table.select(column_places(table.schema.names, names))
    chosen = chosen.rename_columns([f"c{k}" for k in range(len(names))])
    return _ArrowSource(lambda: chosen)


def table_from_capsule(source: Any) -> Any:
    """The Arrow table that an object offers by its method ``__arrow_c_stream__``; read once, and held.

    Raises:
        MissingExtraError: if PyArrow is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            "a table of another library is read by PyArrow: pip install 'leastnoise[arrow]'", field="pyarrow"
        ) from None
    return pyarrow.RecordBatchReader.from_stream(source).read_all()


def _open_dataset(table: Any, names: Sequence[str], marks: Sequence[str] = ()) -> Any:
    import pyarrow.dataset

    places = column_places(table.schema.names, names)
    columns = {f"c{k}": pyarrow.dataset.field(table.schema.names[i]) for k, i in enumerate(places)}
    return _ArrowSource(lambda: table.scanner(columns=columns).to_reader())


def _open_relation(table: Any, names: Sequence[str], marks: Sequence[str] = ()) -> Any:
    places = column_places(table.columns, names)
    chosen = table.project(", ".join(f"#{i + 1} AS c{k}" for k, i in enumerate(places)))
    return _ArrowSource(lambda: chosen)


def _open_ibis(table: Any, names: Sequence[str], marks: Sequence[str] = ()) -> Any:
    """A table that Ibis holds in this very process, by an engine that knows no SQL."""
    places = column_places(table.columns, names)
    found = table.select([table[i].name(f"c{k}") for k, i in enumerate(places)]).to_pyarrow()
    return _ArrowSource(lambda: found)


def is_in_engine(source: Any) -> bool:
    """Whether a source is an Ibis table, to be counted where it is. Only polars is read from here."""
    return isinstance(source, tuple) and source[0] is _open_ibis and source[1].get_backend().name != "polars"


OPENERS: dict[tuple[str, str], Callable[[Any, Sequence[str], Sequence[str]], Any]] = {
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


class CsvFile(NamedTuple):
    """A file of text, the sign between its fields, its compression, and how it is declared to be written.

    The compression is "gzip" or "none"; a spreadsheet has a mark of its own.
    """

    path: str
    separator: str
    compression: str
    declared: FileFormat = FileFormat()

    def text(self, seen: Callable[[bytes], object] | None = None) -> TextFile:
        """Its bytes as UTF-8."""
        return TextFile(self.path, self.compression, seen, ENCODINGS[self.declared.encoding or "utf-8"])


class CsvFiles:
    """The named columns of some files, one file after the other, read anew for every scan.

    Args:
        seen: called with every stored byte of the files once per scan, in order: for a digest of what
            the scan has read.

    Attributes:
        files: the files.
        stream: what an engine reads; its columns are c0, c1, … in the order of the names.
        dropped: what the scan under way, or the last one, has left out so far.
    """

    def __init__(
        self,
        files: Sequence[CsvFile],
        names: Sequence[str],
        seen: Callable[[bytes], object] | None = None,
        marks: Sequence[str] = (),
    ) -> None:
        self.files = files
        self._marks = [*marks, *["."] * (len(names) - len(marks))]
        self._names = names
        self._seen = seen
        self.dropped = DroppedRecords()
        self.stream = TextStream(len(names), self._blocks)

    def _blocks(self) -> Generator[list[TextColumn], None, None]:
        self.dropped = DroppedRecords()
        for file in self.files:
            if file.compression == _SHEET:
                yield from self._sheet_blocks(file)
                continue
            with file.text(self._seen) as opened:
                reader = CsvReader(opened, file.separator, self.dropped, file.declared.quote)
                yield from reader.blocks(column_places(reader.header, self._names, file.separator))

    def _sheet_blocks(self, file: CsvFile) -> Generator[list[TextColumn], None, None]:
        if self._seen is not None:
            self._seen(Path(file.path).read_bytes())
        places = lambda header: column_places(header, self._names)  # noqa: E731
        for rows in sheet_rows(file.path, file.declared.sheet, places, _ROWS):
            columns = zip(*rows, strict=True)
            yield [
                column_of([None if text is None else text.encode() for text in _written(column, mark)])
                for column, mark in zip(columns, self._marks, strict=True)
            ]


def header_of(file: CsvFile) -> list[str]:
    """The fields of the first record of a file.

    Raises:
        DataError: if it is too long or does not close a quote.
    """
    if file.compression == _SHEET:
        return sheet_header(file.path, file.declared.sheet)
    with file.text() as opened:
        return CsvReader(opened, file.separator, DroppedRecords(), file.declared.quote).header
