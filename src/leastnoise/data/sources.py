"""The table that a source is: in files, in memory, in an engine, or at an address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leastnoise.core.errors import DataError
from leastnoise.data.addresses import opened_address, opened_lake
from leastnoise.data.connections import withheld
from leastnoise.data.engines import DuckRelation, table_of_ibis
from leastnoise.data.file_names import FILES, FileFormat, are_files, files_named, is_address, lake_of
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

_TABLES: dict[tuple[str, str], Callable[[Any], RawTable]] = {
    ("pandas", "DataFrame"): PandasTable,
    ("polars", "DataFrame"): PolarsTable,
    ("polars", "LazyFrame"): LazyPolarsTable,
    ("pyarrow", "Table"): ArrowTable,
    ("pyarrow", "RecordBatch"): ArrowBatch,
    ("pyarrow", "Dataset"): ArrowDataset,
    ("duckdb", "DuckDBPyRelation"): DuckRelation,
    ("ibis", "Table"): table_of_ibis,
}
# Libraries of which nothing else is read, though it could offer its records as Arrow does.
_ENGINES = {"duckdb", "ibis", "pyspark"}


def opened_table(source: Any, names: Sequence[str], format: FileFormat) -> RawTable:
    """The table of a source, or a table that is opened already.

    Nothing is copied. What can be read once only is read now, and held.

    Args:
        names: the columns that will be asked for.
        format: how files are written.

    Raises:
        DataError: if the source is nothing that is read, there is no such file, a file has not exactly one
            of each of these columns, or a format is given for what is no file. Of files only headers are
            read for that.
    """
    if are_files(source):
        files = withheld("looking for the files", lambda: files_named(source))
        return withheld("opening the table", lambda: FilesTable(files, names, format))
    table = withheld("opening the table", lambda: _opened(source, names))
    if table is None:
        raise DataError.must(
            "table",
            f"be the path, the folder or a glob of {FILES}, a list of these, an address such as "
            "postgres://host/database?table=people, a pandas or polars DataFrame, a polars LazyFrame, a "
            "pyarrow Table, RecordBatch or Dataset, a DuckDB relation, an Ibis table, or anything with the "
            "Arrow PyCapsule interface",
            given=type(source),
        )
    if format != FileFormat():
        raise DataError.must("format", "be given for files only", given=type(source))
    return table


def _opened(source: Any, names: Sequence[str]) -> RawTable | None:
    """The table of an address, of a lake's folder or of an object; None for anything else."""
    if is_address(source):
        source = opened_address(source)
    elif (lake := lake_of(source)) is not None:
        source = opened_lake(source, lake, names)
    if isinstance(source, RawTable):
        return source
    libraries = set()
    for base in type(source).__mro__:
        library = base.__module__.lstrip("_").partition(".")[0]
        libraries.add(library)
        if (library, base.__name__) in _TABLES:
            return _TABLES[library, base.__name__](source)
    if hasattr(type(source), "__arrow_c_stream__") and libraries.isdisjoint(_ENGINES):
        return table_from_capsule(source, names)
    return None
