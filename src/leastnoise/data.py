"""From a table of people to counts per cell.

`vectorize` makes a lazy handle; nothing is read before a count is asked for,
and every question is one GROUP BY in DuckDB, whatever the source. A record
belongs to one cell or to none, and which one depends on that record alone:

    text categories   the value as text, compared exactly: no trimming, no case
                      folding. Columns of another type are written out first:
                      the integer 1 is "1", the float 1.0 is "1.0", a truth
                      value is "true" or "false".
    whole numbers     a range or integer categories: whatever equals a declared
                      number, be it 18, 18.0, or the text "18", "18.0", "1.8e1".
    bins              the value as a float64, e_i <= value < e_{i+1}. Text is
                      read if it is a plain decimal number.

Text that is not a number, a value outside the declared ones, a null and a NaN
leave the record out, silently; with ``Categories(..., other=...)`` every value
that is not null or NaN and not declared counts in the other cell.

CSV has a header line and a comma between fields, TSV a tab; nothing is guessed
from the content, and all fields are text. An empty field without quotes is a
null. A line with too few fields, or not in UTF-8, is left out; fields beyond
the header's are ignored; a quote never closed takes the lines up to the next
quote with it. File names may not hold ``* ? [``, which mean several files.

Messages hold nothing true about the table: what the engine says is withheld.
"""

# ruff: noqa: S608 - queries are put together from identifiers made or quoted here; values are bound.

from __future__ import annotations

import csv
import glob
import gzip
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from leastnoise.errors import DataError, LeastnoiseError, MissingExtraError, NotYetError, TooLargeError
from leastnoise.operators import MAX_ENTRIES
from leastnoise.schema import Attribute, Bins, Categories, IntegerRange, Schema

__all__ = ["Data", "counts_from_vector", "is_count_vector", "vectorize"]

_T = TypeVar("_T")

_ACCEPTED = (
    "a path or glob of .csv, .csv.gz, .tsv, .tsv.gz, .parquet or .pq files, a pandas or polars DataFrame, "
    "a polars LazyFrame, a pyarrow Table, RecordBatch or Dataset, or a DuckDB relation"
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
# The engine of one question: no files but the table's, no extensions, nothing
# spilled to disk, and object columns of pandas as text instead of a guess from
# their first values. Joins keep the declared values, never the table, in memory.
_SETTINGS = (
    "autoinstall_known_extensions=false",
    "autoload_known_extensions=false",
    "enable_progress_bar=false",
    "temp_directory=''",
    "pandas_analyze_sample=0",
    "disabled_optimizers='join_order,build_side_probe_side'",
    "enable_external_access=false",
    "lock_configuration=true",
)
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_FLOATS = {"FLOAT", "DOUBLE"}
_WHOLE_TEXT = r"[+-]?[0-9]+([.]0*)?"
_EXPONENT_TEXT = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)[eE][+-]?[0-9]+"
_NUMBER_TEXT = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"


@dataclass(frozen=True, eq=False)
class Data:
    """A table and its schema: a handle that counts when asked, and shows nothing by itself."""

    schema: Schema
    kind: str
    _source: Any = field(repr=False)

    def counts(self, *attributes: str) -> npt.NDArray[np.int64]:
        """How many records hold each combination of values of these attributes, zeros included.

        The shape is the sizes of the attributes in the order asked; without any,
        the answer is the number of records in the schema's cells. A record counts
        only if all attributes of the schema place it, so that every answer is the
        sum of `vector` over the attributes left out.

        Guarantee:
            Adding or removing one record changes one entry by one, or none.

        Raises:
            SchemaError: if the schema declares no such attribute.
            DataError: if an attribute is named twice or the table cannot be read.
            TooLargeError: above MAX_ENTRIES combinations, before anything is read.
        """
        shape = tuple(self.schema[name].size for name in attributes)
        if len(set(attributes)) < len(attributes):
            raise DataError(f"each attribute may be named once, got {', '.join(attributes)}")
        if math.prod(shape) > MAX_ENTRIES:
            raise TooLargeError(
                f"counts over {', '.join(attributes)} would hold {math.prod(shape):,} cells; at most "
                f"{MAX_ENTRIES:,} are built. Ask for fewer attributes or declare coarser ones."
            )
        cells, n_records = _withheld(
            "counting the table", lambda: _ask(self._source, self.schema, attributes)
        )
        x = np.zeros(math.prod(shape), dtype=np.int64)
        x[cells] = n_records
        return x.reshape(shape)

    def vector(self) -> npt.NDArray[np.int64]:
        """The counts of all cells, shape (n,), the last attribute fastest."""
        return self.counts(*self.schema.names).ravel()

    def __repr__(self) -> str:
        return f"Data({self.kind}, {self.schema!r})"


def vectorize(source: Any, schema: Schema, *, person: str | None = None) -> Data:
    """A lazy handle on a table, which counts its records in the cells of a schema.

    Args:
        source: a path or glob of CSV, TSV or Parquet files, a pandas or polars
            DataFrame, a polars LazyFrame, a pyarrow Table, RecordBatch or
            Dataset, or a DuckDB relation. It must not change while in use.
        schema: the declared attributes; each must be the exact name of a column.
        person: the column that names the person; not available yet.

    Raises:
        DataError: if the source is of another kind, or there is no such file.
        NotYetError: if ``person`` is given.

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"sex": ["F", "M", "F", None]})
        >>> vectorize(table, Schema(sex=("F", "M"))).vector()
        array([2, 1])
    """
    if not isinstance(schema, Schema):
        raise DataError(f"schema must be a Schema, got {type(schema).__name__}")
    if person is not None:
        raise NotYetError(
            "truncation to a number of records per person is not available yet; leave out person= "
            "and give a table with one record per person"
        )
    if isinstance(source, Data):
        if source.schema != schema:
            raise DataError(
                f"this data was made with {source.schema!r}, not with {schema!r}; call vectorize() on the "
                "table itself with the schema of the plan"
            )
        return source
    if isinstance(source, (str, Path)):
        return Data(schema, "files", _files(source))
    for base in type(source).__mro__:
        library = base.__module__.lstrip("_").partition(".")[0]
        if (library, base.__name__) in _OPENERS:
            return Data(schema, f"{library} {base.__name__}", (_OPENERS[library, base.__name__], source))
    raise DataError(f"a table must be {_ACCEPTED}; got {type(source).__name__}")


def is_count_vector(source: Any) -> bool:
    """Whether a source is meant as counts, one per cell, and not as a table."""
    if isinstance(source, (list, tuple)):
        return all(isinstance(entry, (int, float, np.number, np.bool_, list, tuple)) for entry in source)
    return isinstance(source, np.ndarray)


def counts_from_vector(source: Any, n: int) -> npt.NDArray[Any]:
    """The counts of all cells, shape (n,), from counts given one by one.

    An array of several axes is taken in the order of the cells, the last axis
    fastest. The result is a copy: int64, or Python integers from 2⁶³ on.

    Raises:
        DataError: unless these are n whole numbers, none negative.
    """
    if isinstance(source, np.ma.MaskedArray) or not isinstance(source, (list, tuple, np.ndarray)):
        raise DataError(f"counts must be a list, a tuple or a plain array, got {type(source).__name__}")
    dtype = source.dtype if isinstance(source, np.ndarray) else object
    x = _withheld("reading the counts", lambda: np.array(source, dtype=dtype, ndmin=1).ravel())
    if x.size != n:
        raise DataError(f"counts must be given for every cell, {n:,} in all, zeros included")
    is_whole = x.dtype.kind in "iu" or (
        x.dtype.kind == "O" and all(isinstance(c, (int, np.integer)) and not isinstance(c, bool) for c in x)
    )
    if not is_whole:
        raise DataError("counts are whole numbers of an integer type; convert with .astype(int)")
    if (x < 0).any():
        raise DataError("counts must not be negative")
    if x.dtype.kind != "i" and (x > 2**63 - 1).any():
        return np.array([int(count) for count in x], dtype=object)
    return x.astype(np.int64)


# ------------------------------------------------------------------ one question to the engine


class _Part(NamedTuple):
    """Records with the same columns: a table in SQL, its files, and a column and its type per attribute."""

    table: str
    files: list[str]
    columns: list[tuple[str, str]]


def _withheld(step: str, run: Callable[[], _T]) -> _T:
    """What ``run`` returns; if it fails, an error of ours without a word of the original.

    An engine quotes values in its messages, so the new error is raised outside
    the handler: not even ``__context__`` leads back to the old one.
    """
    try:
        return run()
    except LeastnoiseError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise DataError(
        f"{step} failed ({kind}). The reason is withheld, because it can hold values of the table. Check "
        "that the table opens in its own program, that its columns are plain text or numbers, and that "
        "there is enough memory."
    )


def _ask(source: Any, schema: Schema, asked: Sequence[str]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The indices of the cells that hold records, and how many each holds."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("counting a table needs DuckDB; type: pip install duckdb") from None
    names = schema.names
    with duckdb.connect(":memory:") as engine:
        engine.execute("SET allowed_paths = $files", {"files": source if isinstance(source, list) else []})
        for setting in _SETTINGS:
            engine.execute(f"SET {setting}")
        if isinstance(source, list):
            parts = _file_parts(engine, source, names)
        else:
            opener, table = source
            engine.register("source", opener(table, names))
            parts = [_Part("source", [], _types(engine, "source"))]
        parameters: dict[str, Any] = {f"files{p}": part.files for p, part in enumerate(parts) if part.files}
        selected = []
        for part in parts:
            pairs = list(enumerate(zip(names, part.columns, strict=True)))
            values = [f"{_value(schema[name], *column)} AS v{k}" for k, (name, column) in pairs]
            present = [f"{_present(*column)} AS p{k}" for k, (_, column) in pairs]
            selected.append(f"SELECT {', '.join(values + present)} FROM {part.table}")
        query = " UNION ALL ".join(selected)
        for k, name in enumerate(names):
            query = _placed(engine, schema[name], k, query, parameters)
        cell, size = "0", 1
        for name in reversed(asked):
            cell = f"i{names.index(name)} * {size}::BIGINT + {cell}"
            size *= schema[name].size
        is_placed = " AND ".join(f"i{k} IS NOT NULL" for k in range(len(names)))
        query = f"SELECT {cell} AS cell, count(*) AS n FROM ({query}) WHERE {is_placed} GROUP BY cell"
        answer = engine.execute(query, parameters).fetchnumpy()
    return answer["cell"], answer["n"]


def _types(engine: Any, table: str, parameters: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    rows = engine.execute(f"DESCRIBE SELECT * FROM {table}", parameters or {}).fetchall()
    return [(row[0], row[1]) for row in rows]


def _engine_type(attribute: Attribute) -> str:
    """The engine's type for the values of an attribute; integers leave room for a difference of two."""
    if isinstance(attribute, Bins):
        return "DOUBLE"
    values = attribute.values
    if isinstance(values[0], str):
        return "VARCHAR"
    ends = (values[0], values[-1]) if isinstance(values, range) else values
    bound = max(abs(int(end)) for end in ends)
    if bound >= 2**125:
        raise DataError("whole numbers in a schema must be below 2^125 to be counted in a table")
    return "BIGINT" if bound < 2**62 else "HUGEINT"


def _present(column: str, kind: str) -> str:
    """SQL that tells whether a column holds a value: neither null nor NaN."""
    return f"({column} IS NOT NULL" + (f" AND NOT isnan({column}))" if kind in _FLOATS else ")")


def _value(attribute: Attribute, column: str, kind: str) -> str:
    """SQL for a column's value in the type of the attribute; null where it has none."""
    text, wanted = f"CAST({column} AS VARCHAR)", _engine_type(attribute)
    if wanted == "VARCHAR":
        return f"CASE WHEN {_present(column, kind)} THEN {text} END"
    if wanted == "DOUBLE":
        # Wide integers and decimals go through text, which the engine rounds correctly.
        if kind in _INTEGERS | _FLOATS:
            return f"CAST({column} AS DOUBLE)"
        return f"CASE WHEN regexp_full_match({text}, '{_NUMBER_TEXT}') THEN TRY_CAST({text} AS DOUBLE) END"
    if kind in _INTEGERS:
        return f"TRY_CAST({column} AS {wanted})"
    # A cast of 1.5 to an integer would round; NaN is above every bound for the engine.
    limit = f"2::DOUBLE ** {62 if wanted == 'BIGINT' else 125}"
    whole = "CASE WHEN {0} = trunc({0}) AND abs({0}) < {1} THEN TRY_CAST({0} AS {2}) END"
    if kind in _FLOATS:
        return whole.format(f"CAST({column} AS DOUBLE)", limit, wanted)
    return (
        f"CASE WHEN regexp_full_match({text}, '{_WHOLE_TEXT}') "
        f"THEN TRY_CAST(split_part({text}, '.', 1) AS {wanted}) "
        f"WHEN regexp_full_match({text}, '{_EXPONENT_TEXT}') "
        f"THEN {whole.format(f'TRY_CAST({text} AS DOUBLE)', limit, wanted)} END"
    )


def _placed(engine: Any, attribute: Attribute, k: int, query: str, parameters: dict[str, Any]) -> str:
    """The query with one more column ``i{k}``: the index of value ``v{k}``, or null."""
    if isinstance(attribute, Categories):
        declared = f"SELECT unnest($texts::VARCHAR[])::{_engine_type(attribute)} AS value"
        engine.execute(
            f"CREATE TEMP TABLE declared{k} AS {declared}, unnest(range(len($texts))) AS i",
            {"texts": [str(value) for value in attribute.values]},
        )
        other = "NULL" if attribute.other is None else f"CASE WHEN p{k} THEN {len(attribute.values)} END"
        index = f"coalesce(declared{k}.i, {other})"
        return (
            f"SELECT t.*, {index} AS i{k} FROM ({query}) t LEFT JOIN declared{k} ON v{k} = declared{k}.value"
        )
    if isinstance(attribute, IntegerRange):
        values = attribute.values
        parameters |= {f"low{k}": values[0], f"high{k}": values[-1], f"step{k}": values.step}
        # Cut to the range first, so that the difference cannot overflow.
        inside = f"CASE WHEN v{k} BETWEEN $low{k} AND $high{k} THEN v{k} END"
        query = f"SELECT * REPLACE ({inside} AS v{k}) FROM ({query})"
        index = f"CASE WHEN (v{k} - $low{k}) % $step{k} = 0 THEN (v{k} - $low{k}) // $step{k} END"
        return f"SELECT *, CAST({index} AS BIGINT) AS i{k} FROM ({query})"
    # Binary search, one projection per bit: 1,000 bins over 10 million rows take
    # 1.1 s on two cores, where a tree of CASE took 17 s and an ASOF join sorts the table.
    edges = [_least_float(edge) for edge in attribute.edges]
    n_bits = (attribute.size - 1).bit_length()
    padding = [math.inf] * (2**n_bits - attribute.size)
    parameters |= {f"edges{k}": edges[:-1] + padding, f"end{k}": edges[-1]}
    inside = f"CASE WHEN v{k} >= $edges{k}[1] AND v{k} < $end{k} THEN 0::BIGINT END"
    query = f"SELECT *, {inside} AS i{k} FROM ({query})"
    for step in (2**bit for bit in reversed(range(n_bits))):
        further = f"CASE WHEN v{k} >= $edges{k}[i{k} + {step + 1}] THEN {step} ELSE 0 END"
        query = f"SELECT * REPLACE (i{k} + {further} AS i{k}) FROM ({query})"
    return query


def _least_float(edge: float) -> float:
    """The least float64 not below an edge, which bounds the same floats."""
    if abs(edge) > sys.float_info.max:
        return math.inf if edge > 0 else -sys.float_info.max
    nearest = float(edge)
    return nearest if nearest >= edge else math.nextafter(nearest, math.inf)


# ------------------------------------------------------------------ sources


def _files(source: str | Path) -> list[str]:
    """The absolute paths of the files that a path or glob stands for."""
    found = [str(source)] if Path(source).exists() else sorted(glob.glob(str(source), recursive=True))
    if not found:
        raise DataError(f"there is no file {str(source)!r}; a table must be {_ACCEPTED}")
    paths = [str(Path(name).absolute()) for name in found]
    for path in paths:
        _format(path)
        if not Path(path).is_file():
            raise DataError(f"{path!r} is a folder; name its files, as in 'folder/*.parquet'")
        if glob.has_magic(path):
            raise DataError(f"the name of a file must not hold * ? or [, got {path!r}; rename it")
    return paths


def _format(path: str) -> tuple[str, str]:
    for suffix, found in _SUFFIXES.items():
        if path.lower().endswith(suffix):
            return found
    raise DataError(f"a file's name must end in {', '.join(_SUFFIXES)}, got {path!r}")


def _file_parts(engine: Any, files: Sequence[str], names: Sequence[str]) -> list[_Part]:
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
            columns = _types(engine, "read_parquet($file, hive_partitioning=false)", {"file": path})
        groups.setdefault((delimiter, compression, tuple(columns)), []).append(path)
    parts = []
    for p, ((delimiter, compression, columns), paths) in enumerate(groups.items()):
        places = _places([name for name, _ in columns], names)
        if delimiter:
            fields = {f"c{i}": "VARCHAR" for i in range(len(columns))}
            table = _READ_CSV.format(
                files=f"$files{p}", columns=fields, delimiter=delimiter, compression=compression
            )
            found = [(f"c{i}", "VARCHAR") for i in places]
        else:
            table = f"read_parquet($files{p}, hive_partitioning=false)"
            found = [('"' + columns[i][0].replace('"', '""') + '"', columns[i][1]) for i in places]
        parts.append(_Part(table, paths, found))
    return parts


def _places(columns: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Where the columns of these names stand."""
    texts = [column if isinstance(column, str) else None for column in columns]
    for name in names:
        if texts.count(name) != 1:
            raise DataError(
                f"the table must have exactly one column named {name!r}, spelled as in the schema; it has "
                f"{'several' if name in texts else 'none'}"
            )
    return [texts.index(name) for name in names]


class _Stream:
    """What the engine reads through the Arrow interface, without pyarrow."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened = opened

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._opened().__arrow_c_stream__(requested_schema)


def _open_pandas(table: Any, names: Sequence[str]) -> Any:
    import pandas

    places = _places(list(table.columns), names)
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
    return str(bool(value)).lower() if isinstance(value, (bool, np.bool_)) else value


def _open_polars(table: Any, names: Sequence[str]) -> Any:
    columns = table.get_columns()
    frame = table.select([columns[i].alias(f"c{k}") for k, i in enumerate(_places(table.columns, names))])
    return _Stream(lambda: frame)


def _open_lazy(table: Any, names: Sequence[str]) -> Any:
    import polars

    places = _places(table.collect_schema().names(), names)
    return _open_polars(table.select([polars.nth(i) for i in places]).collect(), names)


def _open_arrow(table: Any, names: Sequence[str]) -> Any:
    chosen = table.select(_places(table.schema.names, names))
    chosen = chosen.rename_columns([f"c{k}" for k in range(len(names))])
    return _Stream(lambda: chosen)


def _open_dataset(table: Any, names: Sequence[str]) -> Any:
    import pyarrow.dataset

    places = _places(table.schema.names, names)
    columns = {f"c{k}": pyarrow.dataset.field(table.schema.names[i]) for k, i in enumerate(places)}
    return _Stream(lambda: table.scanner(columns=columns).to_reader())


def _open_relation(table: Any, names: Sequence[str]) -> Any:
    places = _places(table.columns, names)
    chosen = table.project(", ".join(f"#{i + 1} AS c{k}" for k, i in enumerate(places)))
    return _Stream(lambda: chosen)


_OPENERS: dict[tuple[str, str], Callable[[Any, Sequence[str]], Any]] = {
    ("pandas", "DataFrame"): _open_pandas,
    ("polars", "DataFrame"): _open_polars,
    ("polars", "LazyFrame"): _open_lazy,
    ("pyarrow", "Table"): _open_arrow,
    ("pyarrow", "RecordBatch"): _open_arrow,
    ("pyarrow", "Dataset"): _open_dataset,
    ("duckdb", "DuckDBPyRelation"): _open_relation,
}
