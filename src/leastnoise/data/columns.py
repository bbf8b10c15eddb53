"""How a schema meets the columns of a table, whatever the engine: by name, by type, by float64 edges."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from leastnoise.core.errors import DataError
from leastnoise.query import Attribute, Bins, Categories, Hierarchy


def column_places(columns: Sequence[Any], names: Sequence[str], delimiter: str = "") -> list[int]:
    """Where the columns of these names stand."""
    texts = [column if isinstance(column, str) else None for column in columns]
    for name in names:
        if texts.count(name) != 1:
            # A header may hold what should not be shown, in a file without one; it is not printed.
            hint = f". {doubt}" if (doubt := other_separator(columns, delimiter)) else ""
            raise DataError(
                f"the table must have exactly one column named {name!r}, with exactly this spelling; it has "
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


# What a family of types holds, and what to do about it. Names of fields and types are not shown:
# a message holds nothing of the table but the names of columns, which the schema or the caller gave.
_REFUSED = {
    "nested": "lists or records",
    "bytes": "bytes or lengths of time",
    "time": "dates or times",
    "unknown": "values of a type that is not known here",
}


def check_kind(name: str, attribute: Attribute | None, family: str) -> None:
    """Return if a column of this family of types can be read as the attribute, or as the person if None.

    Raises:
        DataError: if no value of the column could ever be one of the declared ones.
    """
    is_text = isinstance(attribute, (Categories, Hierarchy)) and attribute.is_text
    if family == "plain" or (family == "time" and (attribute is None or is_text)):
        return
    wanted = "person" if attribute is None else "text" if is_text else "numbers"
    if isinstance(attribute, Bins):
        wanted = "bins of numbers"
    told = "which is read from" if wanted == "person" else "which the schema declares as"
    meant = "plain text or whole numbers" if wanted == "person" else wanted
    raise DataError(
        f"column {name!r}, {told} {meant}, holds {_REFUSED[family]}; make a plain column of it in the "
        "table, or declare another"
    )


def least_float(edge: float) -> float:
    """The least float64 not below an edge, which bounds the same floats."""
    if edge == -math.inf:
        return edge
    if abs(edge) > sys.float_info.max:
        return math.inf if edge > 0 else -sys.float_info.max
    nearest = float(edge)
    return nearest if nearest >= edge else math.nextafter(nearest, math.inf)
