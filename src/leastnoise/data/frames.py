"""Tables in memory: pandas, polars, Arrow, and whatever offers its records as Arrow does.

No conversion is used that could fail because of a value, or that looks at all values of a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from leastnoise.core.errors import DataError
from leastnoise.data.columns import column_places
from leastnoise.data.raw_table import BATCH_RECORDS, PAIRS, DroppedRecords, RawTable, check_engine
from leastnoise.data.written_text import text_array

# What pandas calls its columns of numbers and truth values with nulls.
_NULLABLE = (
    *(f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64)),
    *("Float32Dtype", "Float64Dtype", "BooleanDtype"),
)
# Stands for "no time" among times.
_NO_TIME = np.iinfo(np.int64).min
# Types of polars that Arrow has not: their values are written out one by one.
_NOT_IN_ARROW = ("Object", "Int128", "UInt128")
# Batches of a data set that are read ahead.
_AHEAD = 4


# ------------------------------------------------------------------ pandas


class PandasTable(RawTable):
    """A pandas frame; nothing of it is copied at once.

    From version 3 on pandas copies a column when somebody writes to it, so that what is held stays as it
    is. Before, a shallow copy would share what is written to either.
    """

    kind = "pandas DataFrame"

    def __init__(self, frame: Any) -> None:
        import pandas

        self.is_held = int(pandas.__version__.split(".")[0]) >= 3
        self._frame = frame.copy(deep=False) if self.is_held else frame

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`."""
        return [(_slicer(column, ".")(0, 0).type,) for column in self._columns(names)]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`."""
        slicers = [_slicer(column, mark) for column, mark in zip(self._columns(names), marks, strict=True)]
        n = len(self._frame)
        for first in range(0, n, BATCH_RECORDS):
            yield [part(first, min(first + BATCH_RECORDS, n)) for part in slicers]

    def _columns(self, names: Sequence[str]) -> list[Any]:
        places = column_places(list(self._frame.columns), names)
        return [self._frame.iloc[:, place].array for place in places]


def _slicer(column: Any, mark: str) -> Any:
    """A function from first and stop to the values between as an Arrow array."""
    import pandas

    kind = column.dtype
    if isinstance(kind, pandas.CategoricalDtype):
        # The categories are text, whatever they are, as the values of a column of objects are.
        listed = text_array(list(kind.categories), mark)
        return lambda first, stop: _chosen(column.codes[first:stop], listed)
    if isinstance(kind, pandas.SparseDtype):
        return lambda first, stop: _of_numpy(np.asarray(column[first:stop]), mark)
    if isinstance(kind, pandas.DatetimeTZDtype) or getattr(kind, "kind", "O") in "Mm":
        return lambda first, stop: _times(column[first:stop])
    in_arrow = isinstance(kind, pandas.ArrowDtype) or (
        isinstance(kind, pandas.StringDtype) and kind.storage != "python"
    )
    if in_arrow or isinstance(kind, tuple(getattr(pandas, name) for name in _NULLABLE)):
        return lambda first, stop: _as_one(pa.array(column[first:stop]))
    if isinstance(column, pandas.arrays.NumpyExtensionArray):
        return lambda first, stop: _of_numpy(column[first:stop].to_numpy(), mark)
    return lambda first, stop: text_array(list(column[first:stop]), mark)


def _as_one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _chosen(codes: Any, listed: Any) -> Any:
    """The listed values that the codes stand for; -1 is a null."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), listed)


def _of_numpy(values: Any, mark: str) -> Any:
    kind = values.dtype
    if kind.kind in "iufb" and kind.itemsize <= 8:
        # Bytes in the order of another machine, or not side by side, are copied.
        return pa.array(np.ascontiguousarray(values, dtype=kind.newbyteorder("=")), from_pandas=False)
    return text_array(values.astype(object), mark)


def _times(values: Any) -> Any:
    """Moments, dates with a time, or lengths of time, by the whole numbers that they are stored as."""
    stored = np.ascontiguousarray(values.view("i8"))
    if values.dtype.kind == "m":
        kind = pa.duration(values.unit)
    else:
        kind = pa.timestamp(values.unit, tz=None if values.tz is None else "UTC")
    is_there = stored != _NO_TIME
    bits = None if is_there.all() else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(stored), [bits, pa.py_buffer(stored)])


# ------------------------------------------------------------------ polars


class PolarsTable(RawTable):
    """A polars frame. Polars copies a column when somebody writes to it, so what is held stays as it is."""

    kind = "polars DataFrame"
    is_held = True

    def __init__(self, frame: Any) -> None:
        self._frame = frame.clone()

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`."""
        empty = self._frame.clear()
        return [(_of_polars(column, ".").type,) for column in _columns_of(empty, names)]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`."""
        columns = list(zip(_columns_of(self._frame, names), marks, strict=True))
        for first in range(0, self._frame.height, BATCH_RECORDS):
            yield [_of_polars(column.slice(first, BATCH_RECORDS), mark) for column, mark in columns]


def _columns_of(frame: Any, names: Sequence[str]) -> list[Any]:
    columns = frame.get_columns()
    return [columns[place] for place in column_places(frame.columns, names)]


def _of_polars(column: Any, mark: str) -> Any:
    if type(column.dtype).__name__ in _NOT_IN_ARROW:
        return text_array(column.to_list(), mark)
    return column.to_arrow()


class LazyPolarsTable(RawTable):
    """A polars LazyFrame: its columns are computed each time they are asked for."""

    kind = "polars LazyFrame"

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`."""
        return PolarsTable(self._frame.collect_schema().to_frame()).types(names)

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`."""
        check_polars()
        column_places(self._frame.collect_schema().names(), names)
        # Each once: the person may also be an attribute.
        found = self._frame.select(list(dict.fromkeys(names))).collect()
        yield from PolarsTable(found).batches(names, marks, dropped)


@cache
def check_polars() -> None:
    """Return if polars judges each record by itself where it evaluates what is lazy; tried once.

    Raises:
        DataError: if not.
    """
    import polars

    def asked(path: str, query: str) -> list[tuple[int, int]]:
        found = polars.SQLContext({PAIRS: polars.scan_parquet(path)}).execute(query)
        return list(found.collect().iter_rows())

    check_engine("polars", asked)


# ------------------------------------------------------------------ Arrow


class ArrowTable(RawTable):
    """A PyArrow table, which nobody can write to."""

    kind = "pyarrow Table"
    is_held = True

    def __init__(self, table: Any) -> None:
        self._table = table

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`."""
        schema = self._table.schema
        return [(schema.field(place).type,) for place in column_places(schema.names, names)]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`."""
        chosen = self._table.select(column_places(self._table.schema.names, names))
        for batch in chosen.to_batches(max_chunksize=BATCH_RECORDS):
            yield batch.columns


class ArrowBatch(ArrowTable):
    """A PyArrow record batch."""

    kind = "pyarrow RecordBatch"

    def __init__(self, batch: Any) -> None:
        super().__init__(pa.Table.from_batches([batch]))


def table_from_capsule(source: Any, names: Sequence[str]) -> ArrowTable:
    """The Arrow table of these columns that an object offers by its method ``__arrow_c_stream__``.

    A stream can be read once only, so it is read now, and held; columns that nobody asks for are not.

    Raises:
        DataError: if it lacks a column; then no record is read.
    """
    with pa.RecordBatchReader.from_stream(source) as reader:
        # Each once: the person may also be an attribute.
        places = list(dict.fromkeys(column_places(reader.schema.names, names)))
        schema = pa.schema([reader.schema.field(place) for place in places])
        return ArrowTable(pa.Table.from_batches((batch.select(places) for batch in reader), schema))


class ArrowDataset(RawTable):
    """A PyArrow data set: each of its fragments as it is stored, with what its folders say of it.

    Arrow would cast a fragment of other types than the set's, and fail because of one value.

    Raises:
        DataError: if it is filtered, for Arrow filters by statistics, which leave NaN out; or if it
            reads text, whose types Arrow guesses.
    """

    kind = "pyarrow Dataset"

    def __init__(self, dataset: Any) -> None:
        fragments = None
        # PyArrow refuses to tell those of a set with a filter.
        with suppress(ValueError):
            fragments = list(dataset.get_fragments())
        if fragments is None:
            raise DataError.must(
                "table",
                "be a Dataset without a filter",
                given="a filtered Dataset",
                remedy="count the table of its records, as in dataset.to_table()",
            )
        for fragment in fragments:
            if getattr(getattr(fragment, "format", None), "default_extname", "") in ("csv", "json"):
                raise DataError.must(
                    "table",
                    "be a Dataset of files that state their types",
                    given="a Dataset of CSV or JSON files",
                    remedy="name the files themselves, or their folder",
                )
        self._dataset = dataset

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`."""
        stated = self._dataset.schema
        places = column_places(stated.names, names)
        found: list[dict[Any, None]] = [{stated.field(place).type: None} for place in places]
        for fragment in self._dataset.get_fragments():
            own = fragment.physical_schema
            for name, kinds in zip(names, found, strict=True):
                if name in own.names:
                    kinds[own.field(column_places(own.names, [name])[0]).type] = None
        return [tuple(kinds) for kinds in found]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`."""
        import pyarrow.dataset

        stated = self._dataset.schema
        kinds = [stated.field(place).type for place in column_places(stated.names, names)]
        for fragment in self._dataset.get_fragments():
            own = fragment.physical_schema
            given = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
            columns = {}
            for k, (name, kind) in enumerate(zip(names, kinds, strict=True)):
                if name in own.names:
                    column_places(own.names, [name])
                    columns[f"c{k}"] = pyarrow.dataset.field(name)
                else:
                    value = pa.scalar(given.get(name), type=kind)
                    columns[f"c{k}"] = pyarrow.dataset.scalar(value)
            scanner = fragment.scanner(
                schema=own, columns=columns, batch_size=BATCH_RECORDS, batch_readahead=_AHEAD
            )
            for batch in scanner.to_batches():
                yield batch.columns
