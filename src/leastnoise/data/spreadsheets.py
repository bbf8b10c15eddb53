"""Spreadsheets: the rows of one sheet, as text.

A row of the sheet's XML is a record, in the order of the file, and what a cell says of its own place moves
that cell within its row and nothing else: the number of a row decides nothing, as a wrong one would hide the
rows behind it. A cell that cannot be read is a null.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from leastnoise.core.errors import DataError
from leastnoise.core.extras import require

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
# The column of a cell, as in C5. Three letters are more columns than a sheet has.
_PLACE = re.compile(r"([A-Z]{1,3})\d+")


@contextmanager
def _opened(path: str, sheet: str | None) -> Iterator[Any]:
    require("openpyxl", extra="excel", why="reading an Excel file")
    from openpyxl.reader.excel import ExcelReader
    from openpyxl.xml.constants import SHARED_STRINGS

    class Reader(ExcelReader):  # type: ignore[misc]
        def read_strings(self) -> None:
            """All texts, each read by itself: an odd one does not stop the others."""
            part = self.package.find(SHARED_STRINGS)
            if part is not None:
                with self.archive.open(part.PartName[1:]) as file:
                    self.shared_strings = [_text_of(item) for item in _elements(file, "sst", "si")]

    # A style of an unknown kind is warned of: that would tell about a record.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = Reader(path, read_only=True, data_only=True)
        reader.read()
        book = reader.wb
        try:
            if sheet is not None and sheet not in book.sheetnames:
                raise DataError.must("sheet", "be one of the file's sheets", given=sheet)
            yield book.worksheets[0] if sheet is None else book[sheet]
        finally:
            book.close()


def _elements(file: Any, *path: str) -> Iterator[Any]:
    """The elements at a path from the root, one after the other; what a cell holds is at no such path."""
    from openpyxl.xml.functions import iterparse

    within: list[Any] = []
    for event, element in iterparse(file, events=("start", "end")):
        if event == "start":
            within.append(element)
            continue
        if len(within) == len(path) and all(map(_is_called, within, path)):
            yield element
            within[-2].clear()
        within.pop()


def _is_called(element: Any, name: str) -> bool:
    return _name(element) == name


def _name(element: Any) -> str:
    """What an element is called; a comment is called nothing."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text_of(item: Any) -> str | None:
    """The text of a shared or inline string: of itself and of its runs, without how it is pronounced."""
    runs = [item, *(child for child in item if _name(child) == "r")]
    texts = [child.text for run in runs for child in run if _name(child) == "t" and child.text]
    return "".join(texts).replace("x005F_", "") or None


class _Cells:
    """The values of the cells of one sheet, by its strings and its formats."""

    def __init__(self, sheet: Any) -> None:
        from openpyxl.utils.datetime import from_excel, from_ISO8601

        book = sheet.parent
        self._texts = sheet._shared_strings
        self._epoch, self._dates, self._spans = book.epoch, book._date_formats, book._timedelta_formats
        self._from_excel, self._from_iso = from_excel, from_ISO8601

    def row(self, row: Any) -> list[Any]:
        """The values of a row, by the columns that its cells name; one without a name is the next."""
        found: dict[int, Any] = {}
        column = 0
        for cell in row:
            if _name(cell) == "c":
                column = _column(cell.get("r")) or column + 1
                found[column] = self.value(cell)
        return [found.get(k) for k in range(1, max(found, default=0) + 1)]

    def value(self, cell: Any) -> Any:
        """What a cell holds; None where there is nothing, or nothing that can be read.

        Guarantee:
            Whatever a cell holds, nothing is raised: whether something fails would tell about a record.
        """
        try:
            return self._read(cell)
        except Exception:
            return None

    def _read(self, cell: Any) -> Any:
        kind = cell.get("t", "n")
        parts = {_name(child): child for child in reversed(list(cell))}
        if kind == "inlineStr":
            return _text_of(parts["is"])
        held = parts["v"].text or ""
        if kind in ("str", "e"):
            return held or None
        held = held.strip()
        if kind == "s":
            return self._texts[int(held)] if held.isascii() and held.isdigit() else None
        if kind == "b":
            return {"0": False, "1": True, "false": False, "true": True}.get(held)
        if kind == "d":
            return self._from_iso(held)
        if kind != "n" or _NUMBER.fullmatch(held) is None:
            return None
        number = float(held) if set(held) & set(".eE") else int(held)
        style = cell.get("s", "0")
        form = int(style) if style.isascii() and style.isdigit() else 0
        if form not in self._dates:
            return number
        return self._from_excel(number, self._epoch, timedelta=form in self._spans)


def _column(place: str | None) -> int | None:
    found = None if place is None else _PLACE.fullmatch(place)
    if found is None:
        return None
    number = 0
    for letter in found[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


@contextmanager
def _rows(path: str, sheet: str | None) -> Iterator[Iterator[list[Any]]]:
    with _opened(path, sheet) as opened, opened._get_source() as file:
        cells = _Cells(opened)
        yield (cells.row(row) for row in _elements(file, "worksheet", "sheetData", "row"))


def sheet_header(path: str, sheet: str | None) -> list[str]:
    """The texts of the first row of a sheet."""
    with _rows(path, sheet) as rows:
        return _names(next(rows, ()))


def _names(row: Sequence[Any]) -> list[str]:
    names = ["" if value is None else str(value) for value in row]
    while names and not names[-1]:
        names.pop()
    return names


def sheet_rows(
    path: str, sheet: str | None, places: Callable[[list[str]], list[int]], n_rows: int
) -> Iterator[list[list[Any]]]:
    """The values of some columns, so many rows at a time; rows without any value are no records.

    Args:
        places: from the header to where the wanted columns stand.
    """
    with _rows(path, sheet) as rows:
        header = _names(next(rows, ()))
        chosen = places(header)
        block: list[list[Any]] = []
        for row in rows:
            held = [*row[: len(header)], *[None] * (len(header) - len(row))]
            if any(value is not None for value in held):
                block.append([held[place] for place in chosen])
            if len(block) == n_rows:
                yield block
                block = []
        if block:
            yield block
