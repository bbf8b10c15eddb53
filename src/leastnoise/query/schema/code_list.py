"""Code lists: the codes of an attribute, what people call them, and what they lie in, from a public file.

    code,label,parent
    N,North,
    N1,Uptown,N

A code list is a register, a codebook or a classification. It is read here and now, its content becomes
part of the schema, and so public; the file is not needed again.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leastnoise.core.errors import SchemaError

# Bytes of a code list: the largest classifications in use hold some 10 MB.
MAX_BYTES = 16 * 2**20
# The columns of a code list unless others are named.
CODE = "code"
LABEL = "label"
PARENT = "parent"
# What may stand between the fields of a CSV file; the one that sets the code's column apart is taken.
_SEPARATORS = (",", ";", "\t", "|")
_PUBLIC = "a code list is a public register, with each code once, and never the table of people"


@dataclass(frozen=True)
class CodeList:
    """Codes in the order of their file.

    Attributes:
        labels: what people call each code; nothing for codes without a label.
        parents: the code that each lies in, None for an outermost one; empty where no column says so.
    """

    codes: tuple[str | int, ...]
    labels: Mapping[str, str]
    parents: Mapping[str | int, str | int | None]


def read_code_list(
    path: str | Path, *, code: str = CODE, label: str | None = None, parent: str | None = None
) -> CodeList:
    """The code list in a CSV file with a header, or in a JSON file.

    A JSON file holds a list of objects, one for each code, or one object of code to label. Codes of a CSV
    file are text, so that "01" stays "01"; text also matches columns of whole numbers.

    Args:
        code: the column of codes.
        label: the column of labels; "label" by default, where there is such a column.
        parent: the column of codes that they lie in; "parent" by default, where there is such a column.

    Raises:
        SchemaError: naming the line, and none of its content.
    """
    source = Path(path)
    return code_list_of(source, read_code_rows(source, code), code=code, label=label, parent=parent)


def code_list_of(
    source: Path,
    rows: Sequence[tuple[str, Mapping[str, Any]]],
    *,
    code: str = CODE,
    label: str | None = None,
    parent: str | None = None,
) -> CodeList:
    """The code list in rows by column, each with where it stands in the file; as `read_code_list`."""
    named = {CODE: code, LABEL: label or LABEL, PARENT: parent or PARENT}
    for key, is_needed in ((CODE, True), (LABEL, label is not None), (PARENT, parent is not None)):
        if is_needed and not any(named[key] in row for _, row in rows):
            raise SchemaError(
                f"{source.name} has no column {named[key]!r}",
                field=key,
                given=named[key],
                remedy=f"name the column, as in {key} = 'id'",
            )
    codes: list[str | int] = []
    labels: dict[str, str] = {}
    parents: dict[str | int, str | int | None] = {}
    for where, row in rows:
        own, text, above = row.get(code), row.get(named[LABEL]), row.get(named[PARENT])
        if isinstance(own, bool) or not isinstance(own, (str, int)) or own == "":
            raise _refusal(source, where, "must hold a code, a text or a whole number")
        if own in parents:
            raise _refusal(source, where, "lists a code a second time")
        if text is not None and not isinstance(text, str):
            raise _refusal(source, where, "must hold a text as its label")
        if isinstance(above, bool) or not isinstance(above, (str, int, type(None))):
            raise _refusal(source, where, "must hold a code as its parent")
        codes.append(own)
        parents[own] = None if above == "" else above
        if text and text != str(own):
            labels[str(own)] = text
    has_parents = any(named[PARENT] in row for _, row in rows)
    return CodeList(tuple(codes), labels, parents if has_parents else {})


def read_code_rows(source: Path, key: str) -> list[tuple[str, dict[str, Any]]]:
    """The rows of a public CSV or JSON file by column, each with where it stands.

    Args:
        key: a column that it has; what stands before and after it in the header of a CSV file is the
            separator.
    """
    return _json_rows(source) if source.suffix.lower() == ".json" else _csv_rows(source, key)


def _refusal(source: Path, where: str, wrong: str) -> SchemaError:
    return SchemaError(f"{source.name}: {where} {wrong}; {_PUBLIC}", field="codes", given=source.name)


def _content(source: Path) -> str:
    try:
        with source.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise SchemaError(
            f"the code list {str(source)!r} cannot be read: {reason}", field="codes", given=str(source)
        ) from None
    if len(content) > MAX_BYTES:
        raise SchemaError.must("codes", f"be a file of at most {MAX_BYTES:,} bytes", given=source.name)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError.must(
            "codes", "be a file in UTF-8", given=source.name, remedy="save it as CSV in UTF-8"
        ) from None


def _csv_rows(source: Path, code: str) -> list[tuple[str, dict[str, Any]]]:
    """The rows of a CSV file by column, each with the line it stands on; empty lines are left out."""
    text = _content(source)
    header: Sequence[str] = ()
    for separator in _SEPARATORS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        try:
            header = next(reader, [])
            if code not in header:
                continue
            if len(set(header)) < len(header):
                raise SchemaError.must("codes", "name each column once", given=source.name)
            rows = []
            for row in reader:
                if not row:
                    continue
                where = f"line {reader.line_num}"
                if len(row) != len(header):
                    raise _refusal(source, where, f"must hold {len(header)} fields")
                rows.append((where, dict(zip(header, row, strict=True))))
        except csv.Error:
            raise _refusal(source, f"line {reader.line_num}", "is not written as CSV") from None
        return rows
    return []


def _json_rows(source: Path) -> list[tuple[str, dict[str, Any]]]:
    try:
        content = json.loads(_content(source))
    except (ValueError, RecursionError):
        raise SchemaError.must("codes", "be a file of JSON", given=source.name) from None
    if isinstance(content, dict):
        content = [{CODE: key, LABEL: label} for key, label in content.items()]
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise SchemaError.must(
            "codes",
            'be a list of objects, as in [{"code": "N", "label": "North"}], or one of code to label',
            given=source.name,
        )
    return [(f"entry {number}", row) for number, row in enumerate(content, start=1)]
