"""Which source is a table in files or in memory, and which is left to an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leastnoise.core.errors import DataError
from leastnoise.data.arrow_files import stated_schema
from leastnoise.data.connections import withheld
from leastnoise.data.file_format import FileFormat
from leastnoise.data.file_names import FILES, are_files, files_named, is_named
from leastnoise.data.files import FilesTable
from leastnoise.data.frames import (
    ArrowBatch,
    ArrowDataset,
    ArrowTable,
    LazyPolarsTable,
    PandasTable,
    PolarsTable,
    table_from_capsule,
)
from leastnoise.data.raw_table import RawTable

ACCEPTED = (
    f"the path, the folder or a glob of {FILES}, a list of these, an address such as "
    "postgres://host/database?table=people, a pandas or polars DataFrame, a polars LazyFrame, a pyarrow "
    "Table, RecordBatch or Dataset, a DuckDB relation, an Ibis table, or anything with the Arrow PyCapsule "
    "interface"
)

_FRAMES: dict[tuple[str, str], Callable[[Any], RawTable]] = {
    ("pandas", "DataFrame"): PandasTable,
    ("polars", "DataFrame"): PolarsTable,
    ("polars", "LazyFrame"): LazyPolarsTable,
    ("pyarrow", "Table"): ArrowTable,
    ("pyarrow", "RecordBatch"): ArrowBatch,
    ("pyarrow", "Dataset"): ArrowDataset,
}
# Libraries whose tables are read by an engine, though they could offer their records as Arrow does.
_ENGINES = ("duckdb", "ibis", "pyspark")


def raw_table(source: Any, names: Sequence[str], format: FileFormat) -> RawTable | None:
    """A table in files or in memory, or one that is opened already; None if an engine is to read it.

    Nothing is copied. What can be read once only is read now, and held.

    Args:
        names: the columns that will be asked for.
        format: how files are written.

    Raises:
        DataError: if there is no such file, the table has not exactly one of each of these columns, or a
            format is given for what is no file. Of files only headers are read for that.
    """
    if are_files(source):
        files = withheld("looking for the files", lambda: files_named(source))
        return withheld("opening the table", lambda: FilesTable(files, names, format))
    if is_named(source):
        return None
    opened = _opener(source)
    if opened is None and not isinstance(source, RawTable):
        return None
    if format != FileFormat():
        raise DataError.must("format", "be given for files only", given=type(source))

    def checked() -> RawTable:
        table = source if opened is None else opened(source, names)
        table.types(names)
        return table

    return withheld("opening the table", checked)


def _opener(source: Any) -> Callable[[Any, Sequence[str]], RawTable] | None:
    """What opens an object; None if it is no table in memory."""
    libraries = set()
    for base in type(source).__mro__:
        library = base.__module__.lstrip("_").partition(".")[0]
        libraries.add(library)
        if (library, base.__name__) in _FRAMES:
            opened = _FRAMES[library, base.__name__]
            return lambda source, names: opened(source)
    if hasattr(type(source), "__arrow_c_stream__") and libraries.isdisjoint(_ENGINES):
        return table_from_capsule
    return None


def stated_types(path: str) -> list[tuple[str, Any]]:
    """The name and the Arrow type of every column of a Parquet or Feather file; no record is read.

    Raises:
        DataError: if the file is damaged.
    """
    return [(field.name, field.type) for field in stated_schema(path)]
