"""Tables in files: their columns one file after the other, and what only their folders say.

Parquet and Feather files are read by PyArrow: columns as they are stored, and nothing filtered by statistics.
CSV files and sheets are read by `csv_records` and `spreadsheets`. JSON Lines have one object a line, and each
line stands by itself:

    A record ends at a line feed, and so does a file; an empty line is none. A file is in UTF-8 unless another
    encoding is declared, because its first bytes belong to a record. A byte order mark in front of any line
    is left away, in front of the first one as of all others.
    A line of more than MAX_RECORD bytes is dropped, and so is one that is not in UTF-8 or is no JSON object.
    A key that an object lacks is a null, as if it were written: no line says which keys there are, so a table
    in JSON is never refused for a column that it lacks.
    Values are read one by one, as in a column of mixed values: text as it is, 18 and 18.0 as "18", true as
    "true". A list or an object within a record is a value that no schema declares.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from leastnoise.core.errors import DataError
from leastnoise.data.columns import column_places
from leastnoise.data.csv_records import CsvReader
from leastnoise.data.file_names import ENCODINGS, FileFormat, folder_values, kind_of
from leastnoise.data.raw_table import BATCH_RECORDS, DroppedRecords, RawTable
from leastnoise.data.spreadsheets import sheet_header, sheet_rows
from leastnoise.data.text_files import MAX_RECORD, TextFile
from leastnoise.data.written_text import TEXT, is_text, text_columns

# The rows of a spreadsheet that are handed on at once.
_ROWS = 10_000
# The type of a column that is the same text for all records of a file.
_SAME = pa.dictionary(pa.int8(), TEXT)
# What the folders of a file say of all its records, by the name of the column; None where they say that there
# is no value.
FolderValues = Mapping[str, str | None]
# Bytes of a column that are read from a Parquet file at a time, so that a row group need not be held.
_PARQUET_BUFFER = 2**16
# Bytes of a value, on average, up to which a column of text is read by its dictionary: then nearly all of its
# values are in one. 4 million records of three such columns took 0.03 s so, and 0.34 s value by value; a
# column of different values took 0.17 s instead of 0.07.
_CODED_BYTES = 3
# Bytes of JSON that are read at once.
_JSON_BLOCK = 2**20


class FilesTable(RawTable):
    """The records of some files, read anew each time.

    A column that a file lacks is taken from its folders, if one is called so.

    Args:
        paths: of the files, as `files_named` gives them.
        names: the columns that will be asked for.
        format: how the files are written.

    Attributes:
        paths: of the files.
        format: how they are written.
        taken: the columns that a file lacks and its folders give, by the path of the file.

    Raises:
        DataError: if a file is damaged, or has not exactly one of each of these columns.
            Only headers are read for that.
    """

    kind = "files"

    def __init__(self, paths: Sequence[str], names: Sequence[str], format: FileFormat) -> None:
        taken = {path: _taken(path, names, format, is_alone=len(paths) == 1) for path in paths}
        self.paths = list(paths)
        self.format = format
        self.taken = {path: given for path, given in taken.items() if given}

    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """See `RawTable.types`."""
        found: list[dict[Any, None]] = [{} for _ in names]
        for path in self.paths:
            given = self.taken.get(path, {})
            own = [name for name in names if name not in given]
            kinds = [TEXT] * len(own)
            if kind_of(path).layout in ("parquet", "feather"):
                kinds = _stored_types(path, own)
            by_name = dict.fromkeys(given, _SAME) | dict(zip(own, kinds, strict=True))
            for name, kinds_of_column in zip(names, found, strict=True):
                kinds_of_column[by_name[name]] = None
        return [tuple(kinds) for kinds in found]

    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """See `RawTable.batches`."""
        for path in self.paths:
            given = self.taken.get(path, {})
            own = [place for place, name in enumerate(names) if name not in given]
            wanted, own_marks = [names[place] for place in own], [marks[place] for place in own]
            for n, columns in _batches(path, wanted, own_marks, self.format, dropped):
                held = dict(zip(own, columns, strict=True))
                yield [
                    held[place] if place in held else _same(given[name], n)
                    for place, name in enumerate(names)
                ]


def _same(value: str | None, n: int) -> Any:
    """One value n times."""
    listed = pa.array([value if is_text(value) else None], type=TEXT)
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, dtype=np.int8)), listed)


def _taken(path: str, names: Sequence[str], format: FileFormat, *, is_alone: bool) -> FolderValues:
    """The values of the columns that a file lacks and its folders give; it must have all others once."""
    values, kind = folder_values(path), kind_of(path)
    try:
        if kind.layout == "json":
            # Whatever is in its first record must not decide.
            _text_file(path, format).close()
            return {name: values[name] for name in names if name in values}
        separator = ""
        if kind.layout == "sheet":
            header = sheet_header(path, format.sheet)
        elif kind.layout == "fields":
            separator = format.separator or kind.separator
            with _text_file(path, format) as opened:
                header = CsvReader(opened, separator, DroppedRecords(), format.quote).header
        else:
            header = _stated_schema(path).names
        taken = {name: values[name] for name in names if name not in header and name in values}
        column_places(header, [name for name in names if name not in taken], separator)
        return taken
    except DataError as error:
        if is_alone:
            raise
        raise DataError.at(f"file {path!r}", error) from None


def _batches(
    path: str, names: Sequence[str], marks: Sequence[str], format: FileFormat, dropped: DroppedRecords
) -> Iterator[tuple[int, list[Any]]]:
    """How many records, and these columns of them, some records at a time."""
    kind = kind_of(path)
    if kind.layout in ("parquet", "feather"):
        yield from _stored_batches(path, names)
    elif kind.layout == "sheet":
        for rows in sheet_rows(path, format.sheet, lambda header: column_places(header, names), _ROWS):
            yield len(rows), text_columns(rows, marks) if names else []
    elif kind.layout == "json":
        with _text_file(path, format) as opened:
            for rows in _json_rows(opened, names, dropped):
                yield len(rows), text_columns(rows, marks) if names else []
    else:
        separator = format.separator or kind.separator
        with _text_file(path, format) as opened:
            reader = CsvReader(opened, separator, dropped, format.quote)
            # One of any kind where none is wanted, to tell how many records there are.
            places = column_places(reader.header, names, separator) or [0]
            for columns in _ahead(reader.blocks(places)):
                yield len(columns[0]), columns[: len(names)]


def _ahead(batches: Generator[list[Any], None, None]) -> Iterator[list[Any]]:
    """The batches, each made in another thread while the one before it is used: NumPy lets both run."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = thread.submit(next, batches, None)
            yield batch


def _text_file(path: str, format: FileFormat) -> TextFile:
    kind, encoding = kind_of(path), ENCODINGS[format.encoding or "utf-8"]
    return TextFile(path, kind.compression, encoding=encoding, has_header=kind.layout != "json")


# ------------------------------------------------------------------ Parquet and Feather


def _stated_schema(path: str) -> Any:
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
    return [(field.name, field.type) for field in _stated_schema(path)]


def _stored_types(path: str, names: Sequence[str]) -> list[Any]:
    """The types that these columns are read as.

    Raises:
        DataError: if the file is damaged, lacks one of them, or has it twice.
    """
    schema = _stated_schema(path)
    places = column_places(schema.names, names)
    if kind_of(path).layout == "feather":
        return [schema.field(place).type for place in places]
    with _opened_parquet(path, names) as opened:
        read = opened.schema_arrow
        return [read.field(place).type for place in places]


def _stored_batches(path: str, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
    """How many records, and these columns of them, some records at a time.

    Raises:
        DataError: as `_stored_types` does, and if the file proves to be damaged later.
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
        buffer_size=_PARQUET_BUFFER,
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


# ------------------------------------------------------------------ JSON Lines


def _digits(text: str) -> str:
    """A whole number as it is written; int() would refuse 5,000 digits, and JSON has no other spelling."""
    return "0" if text == "-0" else text


_DECODER = json.JSONDecoder(parse_int=_digits)


def _json_rows(
    file: TextFile, names: Sequence[str], dropped: DroppedRecords
) -> Generator[list[list[Any]], None, None]:
    """The values of these keys, some records at a time; None where there is none."""
    for lines in _json_lines(file, dropped):
        rows = []
        for line in lines:
            record = _record(line, dropped)
            if record is not None:
                rows.append([record.get(name) for name in names])
        if rows:
            yield rows


def _json_lines(file: TextFile, dropped: DroppedRecords) -> Generator[list[bytes], None, None]:
    """The lines of a file, some at a time, without those that are too long to be held."""
    rest, is_skipped, is_end = b"", False, False
    while not is_end:
        piece = file.read(_JSON_BLOCK)
        is_end = not piece
        lines = (rest + piece).split(b"\n")
        rest = b"" if is_end else lines.pop()
        if is_skipped and lines:
            # The end of a line that was too long.
            del lines[0]
            is_skipped = False
        if is_skipped or len(rest) > MAX_RECORD + 1:
            dropped.too_long += not is_skipped
            rest, is_skipped = b"", True
        yield lines


def _record(line: bytes, dropped: DroppedRecords) -> dict[str, Any] | None:
    """The object of a line, or None if it is dropped."""
    line = line.removeprefix(BOM_UTF8).removesuffix(b"\r")
    if len(line) > MAX_RECORD:
        dropped.too_long += 1
        return None
    try:
        text = line.decode()
    except UnicodeDecodeError:
        dropped.not_utf8 += 1
        return None
    if not text.strip(" \t\r"):
        return None
    try:
        found = _DECODER.decode(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        dropped.not_json += 1
        return None
    return found
