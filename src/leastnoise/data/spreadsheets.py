"""Spreadsheets: the rows of one sheet, as text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from leastnoise.core.errors import DataError
from leastnoise.core.extras import require


@contextmanager
def _opened(path: str, sheet: str | None) -> Iterator[Any]:
    openpyxl = require("openpyxl", extra="excel", why="reading an Excel file")
    # A date beyond the calendar, or a style of an unknown kind, is warned of: that would tell about a record.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            if sheet is not None and sheet not in book.sheetnames:
                raise DataError.must("sheet", "be one of the file's sheets", given=sheet)
            yield book.worksheets[0] if sheet is None else book[sheet]
        finally:
            book.close()


def sheet_header(path: str, sheet: str | None) -> list[str]:
    """The texts of the first row of a sheet."""
    with _opened(path, sheet) as opened:
        first = next(opened.iter_rows(values_only=True), ())
    return _names(first)


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
    with _opened(path, sheet) as opened:
        rows = opened.iter_rows(values_only=True)
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
