"""Files and data frames, as the embedded engine reads them."""

# ruff: noqa: S608 - queries are put together from identifiers made or quoted here; values are bound.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from leastnoise.core.errors import DataError, LeastnoiseError
from leastnoise.core.extras import require
from leastnoise.data.columns import column_places
from leastnoise.data.file_format import FolderValues, TableFiles
from leastnoise.data.file_names import FILES, folder_values, kind_of
from leastnoise.data.sqlite_rows import open_sqlite
from leastnoise.data.text_records import CsvFile, CsvFiles, header_of, is_text, written

ACCEPTED = (
    f"the path, the folder or a glob of {FILES}, a list of these, an address such as "
    "postgres://host/database?table=people, a pandas or polars DataFrame, a polars LazyFrame, a pyarrow "
    "Table, RecordBatch or Dataset, a DuckDB relation, an Ibis table, or anything with the Arrow PyCapsule "
    "interface"
)


class TablePart(NamedTuple):
    """Records with the same columns: a table in SQL, its files, the columns asked for and their types."""

    table: str
    files: list[str]
    columns: list[tuple[str, str]]


def check_files(engine: Any, files: Sequence[str], names: Sequence[str]) -> dict[str, FolderValues]:
    """Look for each of these columns in every file, and return the values of those that folders give instead.

    Only headers are read.

    Raises:
        DataError: if a file has none of them, or one twice.
    """
    found: dict[str, FolderValues] = {}
    for path in files:
        values = folder_values(path)
        kind = kind_of(path)
        taken: FolderValues
        try:
            if kind.layout == "json":
                # Whatever is in its first record must not decide.
                _text_file(path, files).text().close()
                taken = {name: values[name] for name in names if name in values}
            elif kind.layout in ("fields", "sheet"):
                file = _text_file(path, files)
                taken = _checked_columns(header_of(file), names, values, file.separator)
            else:
                columns = _stated_columns(engine, path)
                taken = _checked_columns([name for name, _ in columns], names, values)
        except DataError as error:
            if len(files) == 1:
                raise
            raise DataError.at(f"file {path!r}", error) from None
        if taken:
            found[path] = taken
    return found


def _checked_columns(
    header: Sequence[str], names: Sequence[str], values: FolderValues, separator: str = ""
) -> FolderValues:
    """The values of the columns that a file lacks and its folders give; it must have all others once."""
    taken = {name: values[name] for name in names if name not in header and name in values}
    column_places(header, [name for name in names if name not in taken], separator)
    return taken


def file_parts(
    engine: Any, files: Sequence[str], names: Sequence[str], marks: Sequence[str] = ()
) -> tuple[list[TablePart], CsvFiles]:
    """The files, those of equal format and columns together; and those of text among them, in one part."""
    by_layout: dict[str, list[str]] = {}
    for path in files:
        by_layout.setdefault(kind_of(path).layout, []).append(path)
    taken = files.taken if isinstance(files, TableFiles) else {}
    parts = _parquet_parts(engine, by_layout.get("parquet", []), names, taken)
    for path in by_layout.get("feather", []):
        table = f"feather{len(parts)}"
        engine.register(table, _open_feather(path, names, taken.get(path, {})))
        parts.append(TablePart(table, [], column_types(engine, table)))
    own = [_text_file(path, files) for path in files if kind_of(path).layout in ("fields", "json", "sheet")]
    texts = CsvFiles(own, names, marks=marks)
    if own:
        engine.register("texts", texts.stream)
        parts.append(TablePart("texts", [], [(f"c{k}", "VARCHAR") for k in range(len(names))]))
    return parts, texts


def _text_file(path: str, files: Sequence[str]) -> CsvFile:
    if not isinstance(files, TableFiles):
        return CsvFile(path, kind_of(path))
    return CsvFile(path, kind_of(path), files.format, files.taken.get(path, {}))


def _stated_columns(engine: Any, path: str) -> list[tuple[str, str]]:
    """The columns that a Parquet or Feather file states, and the engine's type of each."""
    is_feather = kind_of(path).layout == "feather"
    try:
        if is_feather:
            return [(name, "") for name in _feather(path).schema.names]
        return column_types(engine, _parquet_reader(engine, "$file"), {"file": path})
    except LeastnoiseError:
        raise
    except Exception:
        format = "Feather (Arrow IPC)" if is_feather else "Parquet"
    raise DataError(
        f"the file {path!r} cannot be read as {format}: it is damaged, incomplete or in another format. "
        "Nothing was spent",
        field="path",
        given=path,
        remedy="write the file again, and check that it opens in its own program",
    )


def _parquet_parts(
    engine: Any, files: Sequence[str], names: Sequence[str], taken: dict[str, FolderValues]
) -> list[TablePart]:
    groups: dict[Any, list[str]] = {}
    for path in files:
        key = tuple(_stated_columns(engine, path)), tuple(taken.get(path, {}))
        groups.setdefault(key, []).append(path)
    parts = []
    for p, ((columns, given), paths) in enumerate(groups.items()):
        own = [name for name in names if name not in given]
        places = dict(zip(own, column_places([name for name, _ in columns], own), strict=True))
        table = _parquet_reader(engine, f"$files{p}", with_names=bool(given))
        if given:
            rows = [[path, *taken[path].values()] for path in paths]
            table = _with_folders(engine, f"folders{p}", table, rows)
        found = []
        for name in names:
            if name in given:
                found.append((f"folder{given.index(name)}", "VARCHAR"))
            else:
                column, kind = columns[places[name]]
                found.append(('file."' + column.replace('"', '""') + '"', kind))
        parts.append(TablePart(f"{table} AS file" if not given else table, paths, found))
    return parts


def _with_folders(engine: Any, name: str, files: str, rows: Sequence[Sequence[str | None]]) -> str:
    """The records of some files beside what their folders say: one row for each file, its name first."""
    columns = ", ".join(f"unnest($v{k}::VARCHAR[]) AS folder{k - 1}" for k in range(1, len(rows[0])))
    values = {f"v{k}": list(column) for k, column in enumerate(zip(*rows, strict=True))}
    engine.execute(f"CREATE TEMP TABLE {name} AS SELECT unnest($v0::VARCHAR[]) AS path, {columns}", values)
    return f"{files} AS file JOIN {name} ON file.{_FILE_NAME} = {name}.path"


# The column of a file's name, where it is asked for: no column of a schema is likely to be called so.
_FILE_NAME = "leastnoise_file_name"


def _parquet_reader(engine: Any, files: str, *, with_names: bool = False) -> str:
    """The engine's function for Parquet files, called with these.

    Text that is not UTF-8 must not stop it; DuckDB has an option for that since 2.0. Question marks then
    stand for what is not text: left away, the rest could be a declared value.
    """
    knows = engine.execute(
        "SELECT bool_or(list_contains(parameters, 'utf8_validation')) FROM duckdb_functions() "
        "WHERE function_name = 'read_parquet'"
    ).fetchall()[0][0]
    options = ["hive_partitioning=false", *(["utf8_validation='replace'"] if knows else [])]
    options += [f"filename='{_FILE_NAME}'"] if with_names else []
    return f"read_parquet({files}, {', '.join(options)})"


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
            values = written(frame.iloc[:, k].to_numpy(dtype=object), mark)
        elif dtype.name == "category" and not all(map(is_text, dtype.categories)):
            # The code of a null is -1, the last.
            values = written([*dtype.categories, None], mark)[frame.iloc[:, k].cat.codes]
        else:
            continue
        frame.isetitem(k, pandas.Series(values, dtype=object, index=frame.index))
    return frame


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


def pyarrow_for(what: str) -> Any:
    """PyArrow, which reads what is named here.

    Raises:
        MissingExtraError: if it is not installed.
    """
    return require("pyarrow", extra="arrow", why=f"reading {what}")


def table_from_capsule(source: Any, names: Sequence[str]) -> Any:
    """The Arrow table of these columns that an object offers by its method ``__arrow_c_stream__``.

    A stream can be read once only, so it is read now, and held; columns that nobody asks for are not.

    Raises:
        DataError: if it lacks a column; then no record is read.
        MissingExtraError: if PyArrow is not installed.
    """
    pyarrow = pyarrow_for("a table of another library")
    reader = pyarrow.RecordBatchReader.from_stream(source)
    # Each once: the person may also be an attribute.
    places = list(dict.fromkeys(column_places(reader.schema.names, names)))
    schema = pyarrow.schema([reader.schema.field(place) for place in places])
    return pyarrow.Table.from_batches((batch.select(places) for batch in reader), schema)


def _feather(path: str) -> Any:
    """A Feather file as PyArrow reads it, piece by piece."""
    pyarrow_for("a Feather file")
    import pyarrow.dataset

    return pyarrow.dataset.dataset(path, format="feather")


def _open_feather(path: str, names: Sequence[str], taken: FolderValues) -> Any:
    import pyarrow.dataset

    held = _feather(path)
    own = [name for name in names if name not in taken]
    places = dict(zip(own, column_places(held.schema.names, own), strict=True))
    columns = {
        f"c{k}": pyarrow.dataset.scalar(pyarrow.scalar(taken[name], pyarrow.string()))
        if name in taken
        else pyarrow.dataset.field(held.schema.names[places[name]])
        for k, name in enumerate(names)
    }
    return _ArrowSource(lambda: held.scanner(columns=columns).to_reader())


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
    ("leastnoise", "SqliteTable"): open_sqlite,
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
