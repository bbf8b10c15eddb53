"""How a schema meets the columns of a table, whatever the engine: by name and by type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa

from leastnoise.core.errors import DataError
from leastnoise.data.arrow_values import is_text_type
from leastnoise.data.people import Person
from leastnoise.query import Attribute, Bins, Integers, Periods, Schema

# As what a value is read: text as it is written out, a whole number of any size, a float64, or a day.
ValueKind = Literal["text", "whole", "number", "day"]


def column_places(columns: Sequence[Any], names: Sequence[str], delimiter: str = "") -> list[int]:
    """Where the columns of these names stand."""
    texts = [column if isinstance(column, str) else None for column in columns]
    for name in names:
        if texts.count(name) != 1:
            # A header may hold what should not be shown, in a file without one; it is not printed.
            hint = f". {doubt}" if (doubt := other_separator(columns, delimiter)) else ""
            raise DataError(
                f"the table must have exactly one column named {name!r}, with exactly this spelling; "
                f"it has {('several' if name in texts else 'none')}{hint}",
                field=name,
                given="several" if name in texts else "none",
            )
    return [texts.index(name) for name in names]


def other_separator(header: Sequence[Any], delimiter: str) -> str:
    """Words of doubt where a header of one field looks as if another sign parted it; "" elsewhere.

    Nothing of the header is in them.
    """
    others = set(";\t,|") - {delimiter}  # a comma in a field of its own stands in quotes
    if not delimiter or len(header) != 1 or others.isdisjoint(header[0]):
        return ""
    shown = {",": "a comma", "\t": "a tab"}.get(delimiter, repr(delimiter))
    return f"The header holds one field; is the separator {shown}?"


# What a family of types holds, and what to do about it. Names of fields and types are not shown:
# a message holds nothing of the table but the names of columns, which the schema or the caller gave.
_REFUSED = {
    "nested": "lists or records",
    "bytes": "bytes or lengths of time",
    "date": "dates or times",
    "zoned": "moments in time",
    "time": "times of day",
    "unknown": "values of a type that is not known here",
}


# What each kind of value wants of a column; None is the person.
_WANTED: dict[ValueKind | None, str] = {
    "text": "the schema declares as text",
    "whole": "the schema declares as numbers",
    "number": "the schema declares as bins of numbers",
    "day": "the schema declares as periods",
    None: "is read from plain text or whole numbers",
}


def kind_of_values(attribute: Attribute) -> ValueKind:
    """As what the values of an attribute are read."""
    if isinstance(attribute, Bins):
        return "number"
    if isinstance(attribute, Periods):
        return "day"
    return "whole" if isinstance(attribute, Integers) or not attribute.is_text else "text"  # type: ignore[attr-defined]


def decimal_mark(attribute: Attribute) -> str:
    """The mark that numbers are written out with where a column holds values of several types.

    Numbers that are not whole are no dates, whatever forms of dates are declared.
    """
    if isinstance(attribute, Periods):
        return "#"
    return "." if attribute.clean is None else attribute.clean.decimal


def family_of(kind: Any) -> str:
    """The family of an Arrow type, as `check_kind` knows it."""
    while isinstance(kind, pa.BaseExtensionType):
        if str(kind) == "extension<arrow.uuid>":
            return "plain"
        kind = kind.storage_type
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return family_of(kind.value_type)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if is_text_type(kind) or is_number or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return "plain"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "date" if kind.tz is None else "zoned"
    if pa.types.is_time(kind):
        return "time"
    if pa.types.is_nested(kind):
        return "nested"
    is_bytes = str(kind).partition("[")[0] in ("binary", "large_binary", "fixed_size_binary", "binary_view")
    return "bytes" if is_bytes or pa.types.is_duration(kind) or pa.types.is_interval(kind) else "unknown"


def check_types(schema: Schema, person: Person | None, types: Sequence[Sequence[Any]]) -> None:
    """Return if the columns of a table can be read as a schema declares, and the last one as ids of people.

    Args:
        types: the Arrow types of each column; of the person's last, if there is one.
    """
    for name, kinds in zip(schema.names, types, strict=False):
        attribute = schema[name]
        has_zone = isinstance(attribute, Periods) and attribute.zone is not None
        for kind in kinds:
            check_kind(name, kind_of_values(attribute), family_of(kind), has_zone=has_zone)
    if person is not None:
        for kind in types[-1]:
            check_kind(person.column, None, family_of(kind))


def check_kind(name: str, kind: ValueKind | None, family: str, *, has_zone: bool = False) -> None:
    """Return if a column of this family of types can be read as this kind, or as the person if None.

    Args:
        family: "plain", "date" (also timestamps without a zone), "zoned" (timestamps with one), "time" (of
            day), or one that is never read.
        has_zone: whether the attribute declares in which zone moments have a day.

    Raises:
        DataError: if no value of the column could ever be one of the declared ones, or no zone says which.
    """
    is_time = family in ("date", "zoned", "time")
    if family == "plain" or (is_time and kind in (None, "text")) or (family == "date" and kind == "day"):
        return
    if kind == "day" and family == "zoned":
        if has_zone:
            return
        raise DataError(
            f"column {name!r} holds timestamps, whose day depends on the time zone",
            field=name,
            given=family,
            remedy="declare the zone, as in Periods(first, last, by='day', zone='Europe/Berlin')",
        )
    raise DataError(
        f"column {name!r}, which {_WANTED[kind]}, holds {_REFUSED[family]}",
        field=name,
        given=family,
        remedy="make a plain column of it in the table, or declare another",
    )
