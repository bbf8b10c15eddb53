"""Records of files of text and of spreadsheets, as the embedded engine reads them: columns of text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from leastnoise.data.arrow_stream import TextStream
from leastnoise.data.columns import column_places
from leastnoise.data.csv_blocks import DroppedRecords, TextColumn, column_of, constant_column
from leastnoise.data.csv_records import CsvReader
from leastnoise.data.file_format import ENCODINGS, FileFormat, FolderValues
from leastnoise.data.file_names import FileKind
from leastnoise.data.json_lines import json_rows
from leastnoise.data.spreadsheets import sheet_header, sheet_rows
from leastnoise.data.text_files import TextFile
from leastnoise.query import is_null

# The rows of a spreadsheet that are handed on at once.
_ROWS = 10_000


class CsvFile(NamedTuple):
    """A file of text or a spreadsheet, how it is declared to be written, and what its folders give."""

    path: str
    kind: FileKind
    declared: FileFormat = FileFormat()
    taken: FolderValues = MappingProxyType({})

    @property
    def separator(self) -> str:
        """The sign between its fields."""
        return self.declared.separator or self.kind.separator

    def text(self, seen: Callable[[bytes], object] | None = None) -> TextFile:
        """Its bytes as UTF-8."""
        return TextFile(self.path, self.kind.compression, seen, ENCODINGS[self.declared.encoding or "utf-8"])


class CsvFiles:
    """The named columns of some files of text, one file after the other, read anew for every scan.

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
        self._marks = dict(zip(names, [*marks, *["."] * (len(names) - len(marks))], strict=True))
        self._names = names
        self._seen = seen
        self.dropped = DroppedRecords()
        self.stream = TextStream(len(names), self._blocks)

    def _blocks(self) -> Generator[list[TextColumn], None, None]:
        self.dropped = DroppedRecords()
        for file in self.files:
            own = [name for name in self._names if name not in file.taken]
            for columns in self._own_blocks(file, own):
                held = dict(zip(own, columns, strict=False))
                n = len(columns[0].views)
                for name, value in file.taken.items():
                    text = value.encode() if value is not None and is_text(value) else None
                    held[name] = constant_column(text, n)
                yield [held[name] for name in self._names]

    def _own_blocks(self, file: CsvFile, names: Sequence[str]) -> Generator[list[TextColumn], None, None]:
        """The columns that are in the file itself; one of any kind where none is wanted."""
        if file.kind.layout == "sheet":
            if self._seen is not None:
                self._seen(Path(file.path).read_bytes())
            places = lambda header: column_places(header, names) or [0]  # noqa: E731
            yield from self._written_out(sheet_rows(file.path, file.declared.sheet, places, _ROWS), names)
            return
        with file.text(self._seen) as opened:
            if file.kind.layout == "json":
                yield from self._written_out(json_rows(opened, names or [""], self.dropped), names)
                return
            reader = CsvReader(opened, file.separator, self.dropped, file.declared.quote)
            yield from reader.blocks(column_places(reader.header, names, file.separator) or [0])

    def _written_out(
        self, blocks: Iterable[list[list[Any]]], names: Sequence[str]
    ) -> Generator[list[TextColumn], None, None]:
        marks = [self._marks[name] for name in names] or ["."]
        for rows in blocks:
            yield text_columns(rows, marks)


def text_columns(rows: Sequence[Sequence[Any]], marks: Sequence[str]) -> list[TextColumn]:
    """Rows of values of any types as columns of text, numbers in each with its decimal mark."""
    return [
        column_of([None if text is None else text.encode() for text in written(column, mark)])
        for column, mark in zip(zip(*rows, strict=True), marks, strict=True)
    ]


def header_of(file: CsvFile) -> list[str]:
    """The fields of the first record of a file.

    Raises:
        DataError: if it is too long or does not close a quote.
    """
    if file.kind.layout == "sheet":
        return sheet_header(file.path, file.declared.sheet)
    with file.text() as opened:
        return CsvReader(opened, file.separator, DroppedRecords(), file.declared.quote).header


def written(values: Iterable[Any], mark: str = ".") -> Any:
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


def is_text(value: object) -> bool:
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
        return text if is_text(text) else None
    except Exception:
        return None
