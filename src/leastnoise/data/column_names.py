"""Columns found by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leastnoise.core.errors import DataError


def column_places(columns: Sequence[Any], names: Sequence[str], delimiter: str = "") -> list[int]:
    """Where the columns of these names stand."""
    texts = [column if isinstance(column, str) else None for column in columns]
    for name in names:
        if texts.count(name) != 1:
            # A header may hold what should not be shown, in a file without one; it is not printed.
            hint = f". {doubt}" if (doubt := other_separator(columns, delimiter)) else ""
            raise DataError(
                f"the table must have exactly one column named {name!r}, spelled just so; it has "
                f"{'several' if name in texts else 'none'}{hint}"
            )
    return [texts.index(name) for name in names]


def other_separator(header: Sequence[Any], delimiter: str) -> str:
    """Words of doubt where a header of one field looks as if another sign parted it; "" elsewhere.

    Nothing of the header is in them.
    """
    others = set(";\t,|") - {delimiter}  # a comma in a field of its own stands in quotes
    if not delimiter or len(header) != 1 or others.isdisjoint(header[0]):
        return ""
    return f"The header holds one field; is the separator {'a comma' if delimiter == ',' else 'a tab'}?"
