"""Parquet and Feather files, by PyArrow: columns as they are stored, and nothing filtered by statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from leastnoise.core.errors import DataError
from leastnoise.data.columns import column_places
from leastnoise.data.file_names import kind_of
from leastnoise.data.raw_table import BATCH_RECORDS

# Bytes of a column that are read from a Parquet file at a time, so that a row group need not be held.
_BUFFER = 2**16
# Bytes of a value, on average, up to which a column of text is read by its dictionary: then nearly all of its
# values are in one. 4 million records of three such columns took 0.03 s so, and 0.34 s value by value; a
# column of different values took 0.17 s instead of 0.07.
_CODED_BYTES = 3


def stated_schema(path: str) -> Any:
    """The Arrow schema that a Parquet or Feather file states; no record is read.

    Raises:
        DataError: if the file is damaged.
    """
    try:
        if kind_of(path).layout == "feather":
            with pa.OSFile(path) as file:
                return pa.ipc.open_file(file).schema
        with pa.parquet.ParquetFile(path) as opened:
            return opened.schema_arrow
    except Exception:
        damaged = _damaged(path)
    raise damaged


def stated_types(path: str) -> list[tuple[str, Any]]:
    """The name and the Arrow type of every column of a file; no record is read.

    Raises:
        DataError: if the file is damaged.
    """
    return [(field.name, field.type) for field in stated_schema(path)]


def stored_types(path: str, names: Sequence[str]) -> list[Any]:
    """The types that these columns are read as.

    Raises:
        DataError: if the file is damaged, lacks one of them, or has it twice.
    """
    schema = stated_schema(path)
    places = column_places(schema.names, names)
    if kind_of(path).layout == "feather":
        return [schema.field(place).type for place in places]
    with _opened_parquet(path, names) as opened:
        read = opened.schema_arrow
        return [read.field(place).type for place in places]


def stored_batches(path: str, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
    """How many records, and these columns of them, some records at a time.

    Raises:
        DataError: as `stored_types` does, and if the file proves to be damaged later.
    """
    read = _feather_batches if kind_of(path).layout == "feather" else _parquet_batches
    try:
        yield from read(path, names)
        return
    except (pa.ArrowInvalid, OSError):
        damaged = _damaged(path)
    raise damaged


def _parquet_batches(path: str, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
    wanted = list(dict.fromkeys(names))
    with _opened_parquet(path, wanted) as opened:
        column_places(opened.schema_arrow.names, wanted)
        if not wanted:
            n = opened.metadata.num_rows
            yield from ((min(BATCH_RECORDS, n - first), []) for first in range(0, n, BATCH_RECORDS))
            return
        for batch in opened.iter_batches(BATCH_RECORDS, columns=wanted):
            # A name with a dot in it may bring columns within others along.
            places = column_places(batch.schema.names, names)
            yield batch.num_rows, [batch.column(place) for place in places]


def _opened_parquet(path: str, names: Sequence[str]) -> Any:
    opened = pa.parquet.ParquetFile(path)
    metadata, schema = opened.metadata, opened.schema_arrow
    opened.close()
    # Of text, what the first records show of how it is stored; it changes no value.
    texts = {
        field.name
        for field in schema
        if field.name in names and (pa.types.is_string(field.type) or pa.types.is_large_string(field.type))
    }
    coded = []
    if texts and metadata.num_row_groups:
        group = metadata.row_group(0)
        for column in map(group.column, range(group.num_columns)):
            is_short = column.total_uncompressed_size <= _CODED_BYTES * column.num_values
            if column.path_in_schema in texts and is_short:
                coded.append(column.path_in_schema)
    return pa.parquet.ParquetFile(
        path,
        metadata=metadata,
        read_dictionary=coded,
        buffer_size=_BUFFER,
        pre_buffer=False,
        # The nanoseconds of a year beyond 2262 do not fit into 64 bits.
        coerce_int96_timestamp_unit="us",
    )


def _feather_batches(path: str, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
    with pa.OSFile(path) as file:
        schema = pa.ipc.open_file(file).schema
        places = column_places(schema.names, names)
        # Each once, and one of any kind where none is wanted, to tell how many records there are.
        wanted = sorted(set(places or range(len(schema.names))[:1]))
        opened = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=wanted))
        for number in range(opened.num_record_batches):
            batch = opened.get_batch(number)
            for first in range(0, batch.num_rows, BATCH_RECORDS):
                part = batch.slice(first, BATCH_RECORDS)
                yield part.num_rows, [part.column(wanted.index(place)) for place in places]


def _damaged(path: str) -> DataError:
    format = "Feather (Arrow IPC)" if kind_of(path).layout == "feather" else "Parquet"
    return DataError(
        f"the file {path!r} cannot be read as {format}: it is damaged, incomplete or in another format. "
        "Nothing was spent",
        field="path",
        given=path,
        remedy="write the file again, and check that it opens in its own program",
    )
