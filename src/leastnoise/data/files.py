"""Tables in files: their columns one file after the other, and what only their folders say."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from leastnoise.core.errors import DataError
from leastnoise.data.arrow_files import stated_schema, stored_batches, stored_types
from leastnoise.data.columns import column_places
from leastnoise.data.csv_records import CsvReader
from leastnoise.data.file_format import ENCODINGS, FileFormat, FolderValues
from leastnoise.data.file_names import folder_values, kind_of
from leastnoise.data.json_lines import json_rows
from leastnoise.data.raw_table import DroppedRecords, RawTable
from leastnoise.data.spreadsheets import sheet_header, sheet_rows
from leastnoise.data.text_files import TextFile
from leastnoise.data.written_text import TEXT, is_text, text_columns

# The rows of a spreadsheet that are handed on at once.
_ROWS = 10_000
# The type of a column that is the same text for all records of a file.
_SAME = pa.dictionary(pa.int8(), TEXT)


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
                kinds = stored_types(path, own)
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
            header = stated_schema(path).names
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
        yield from stored_batches(path, names)
    elif kind.layout == "sheet":
        for rows in sheet_rows(path, format.sheet, lambda header: column_places(header, names), _ROWS):
            yield len(rows), text_columns(rows, marks) if names else []
    elif kind.layout == "json":
        with _text_file(path, format) as opened:
            for rows in json_rows(opened, names, dropped):
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
