"""Codebooks: which values the columns of a table have, as a public file says it.

    column,code,label
    sex,1,female
    sex,2,male
    age,0-115,

A CSV or JSON file with a row for each value of each column, or for its whole range.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leastnoise.core.errors import SchemaError
from leastnoise.query import Categories, Hierarchy, code_list_of, read_code_rows

# The column that says which column of the table a row is about.
COLUMN = "column"
_RANGE = re.compile(r"([+-]?[0-9]{1,15})(?: *(?:\u2013|\.\.) *| *- *| +to +)([+-]?[0-9]{1,15})")
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")


def read_codebook(path: str | Path) -> dict[str, dict[str, Any]]:
    """What a codebook declares, by column: plain attributes, as [schema] holds them.

    Args:
        path: a CSV file with columns column, code and, where wanted, label and parent; or a JSON file of
            such objects in a list.

    Raises:
        SchemaError: naming the line, and none of its content.
    """
    source = Path(path)
    parts: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for where, row in read_code_rows(source, COLUMN):
        name = row.get(COLUMN)
        if not isinstance(name, str) or not name:
            raise SchemaError(
                f"{source.name}: {where} must name a column of the table, in the column {COLUMN!r}",
                field="codebook",
                given=source.name,
            )
        parts.setdefault(name, []).append((where, row))
    if not parts:
        raise SchemaError(
            f"{source.name} has no column {COLUMN!r}",
            field="codebook",
            given=source.name,
            remedy="a codebook has the columns column, code and label, with one row per value",
        )
    return {name: _declared(source, rows) for name, rows in parts.items()}


def _declared(source: Path, rows: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    only = rows[0][1].get("code")
    found = _RANGE.fullmatch(only) if len(rows) == 1 and isinstance(only, str) else None
    if found is not None and int(found[1]) <= int(found[2]):
        return {"range": [int(found[1]), int(found[2]) + 1]}
    listed = code_list_of(source, rows)
    if any(parent is not None for parent in listed.parents.values()):
        return Hierarchy.from_parents(listed.parents, labels=listed.labels).to_dict()
    return Categories(listed.codes, labels=listed.labels).to_dict()


def fitting(declared: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """What a codebook declares, as a column of that kind can hold it; None if it holds no such value.

    Args:
        kind: of `Column`, by the type that the file states; "" where it states none.
    """
    if "range" in declared:
        return dict(declared) if kind in ("", "whole", "measured", "named") else None
    if kind in ("", "named"):
        return dict(declared)
    values = _values(declared.get("categories") or declared["hierarchy"])
    texts = [str(value) for value in values]
    if kind == "truth":
        return dict(declared) if set(texts) <= {"true", "false"} else None
    if kind not in ("whole", "measured"):
        return None
    if all(_WHOLE.fullmatch(text) for text in texts):
        return dict(declared)
    # Codes such as 01 are held as 1, and get their zeros back.
    width = len(texts[0])
    if kind == "whole" and all(text.isdecimal() and len(text) == width for text in texts):
        return dict(declared) | {"clean": {"digits": width}}
    return None


def _values(plain: Any) -> list[Any]:
    if isinstance(plain, dict):
        return [value for inner in plain.values() for value in _values(inner)]
    if isinstance(plain, list):
        return [value for inner in plain for value in _values(inner)]
    return [plain]
