"""Which types of column can be counted at all, whatever the engine."""

from __future__ import annotations

from leastnoise.core.errors import DataError
from leastnoise.query import Attribute, Bins, Categories, Hierarchy

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
