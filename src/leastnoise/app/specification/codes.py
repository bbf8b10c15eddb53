"""Code lists named in [schema]: ``region = { codes = "regions.csv" }``, replaced by what the file holds.

    region = { codes = "regions.csv", code = "id", label = "name", parent = "part_of", other = "elsewhere" }

The columns are "code", "label" and "parent" unless others are named. With a column of parents the attribute
is a hierarchy, else categories. A plan made from the specification holds the codes and the labels
themselves and needs no file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leastnoise.core.errors import SchemaError
from leastnoise.query import Categories, Hierarchy, read_code_list

CODES = "codes"
# The columns of the file that [schema] may name.
COLUMNS = ("code", "label", "parent")


def with_code_list(given: Any, folder: Path) -> Any:
    """An attribute of [schema], with its code list read where it names one.

    Args:
        folder: where files are looked for; that of the specification.

    Raises:
        SchemaError: if the file is no code list.
    """
    if not isinstance(given, dict) or CODES not in given:
        return given
    named = {key: value for key, value in given.items() if key in (CODES, *COLUMNS)}
    for key, value in named.items():
        if not isinstance(value, str) or not value:
            raise SchemaError.must(key, "be a text", given=value)
    own = {key: value for key, value in given.items() if key not in named}
    twice = sorted({"categories", "hierarchy", "labels", "range", "bins", "periods"} & own.keys())
    if twice:
        raise SchemaError.must(CODES, "stand alone: the file says which values there are", given=twice)
    found = read_code_list(folder / named.pop(CODES), **named)
    if found.parents:
        plain: dict[str, Any] = Hierarchy.from_parents(found.parents, labels=found.labels).to_dict()
    else:
        plain = Categories(found.codes, labels=found.labels).to_dict()
    return plain | own
