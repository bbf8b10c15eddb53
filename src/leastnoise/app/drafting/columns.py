"""The names and types of a table's columns, and nothing else of it.

What a draft of a specification says must not depend on any record. The types that a
Parquet file states are part of its format. A CSV file states none, and guessing
them from its values would let one record change the draft, so they stay unknown.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leastnoise.core.errors import DataError
from leastnoise.data import (
    ENCODINGS,
    FileFormat,
    TextFile,
    files_named,
    kind_of,
    other_separator,
    sheet_header,
    stated_types,
    withheld,
)

# Bytes; a longer first line is not a header.
_MAX_HEADER = 2**20
# Names of identifiers of persons or records: id, patient_id, patientId, uuid.
_IDENTIFIER = re.compile(r"(.*[\W_])?(id|ids|uuid|guid|ssn|nhs_?number)|.*[a-z](Id|ID|Uuid|UUID)")


class Column(NamedTuple):
    """A column and what its type says, or "" for nothing.

    Kinds are "whole", "measured", "truth", "named", "date", "moment" (a timestamp with a zone) and "time".
    """

    name: str
    kind: str


def columns_of(source: str | Path | Sequence[str | Path], format: FileFormat | None = None) -> list[Column]:
    """The columns of a CSV, TSV, Parquet, Feather or Excel file; of a glob or a folder, those of its first.

    Args:
        format: how the file is written.

    Guarantee:
        Of a CSV file only the first line is looked at, of a Parquet file only the schema it
        states. No record is.

    Raises:
        DataError: if there is no such file, or its first line does not look like names. The
            message does not hold the line, which may be somebody's record.
    """
    path = files_named(source)[0]
    declared = FileFormat() if format is None else format
    found = withheld("reading the names of the columns", lambda: _columns(path, declared))
    columns = [column for column in found if column.name.strip()]  # frames are written with a nameless index
    _check_names([column.name for column in columns])
    return columns


def is_identifier(name: str) -> bool:
    """Whether a column's name looks like an identifier of records or persons. Reads no values.

    Example:
        >>> [is_identifier(name) for name in ("id", "patient_id", "PersonID", "paid", "age", "idle")]
        [True, True, True, False, False, False]
    """
    return _IDENTIFIER.fullmatch(name) is not None or _IDENTIFIER.fullmatch(name.lower()) is not None


def closest_name(name: str, names: Sequence[str]) -> str | None:
    """The name most similar to another, ignoring case; None if there is none.

    Example:
        >>> closest_name("sex", ["age", "Sex "]), closest_name("agee", ["age", "sex"])
        ('Sex ', 'age')
    """
    folded = {other.casefold().strip(): other for other in names}
    close = difflib.get_close_matches(name.casefold().strip(), folded, n=1)
    return folded[close[0]] if close else None


def _columns(path: str, format: FileFormat) -> list[Column]:
    layout = kind_of(path).layout
    if layout in ("parquet", "feather"):
        return [Column(name, _kind(stated)) for name, stated in stated_types(path)]
    if layout == "sheet":
        return [Column(name, "") for name in sheet_header(path, format.sheet)]
    if layout == "json":
        raise DataError(
            "a JSON Lines file does not declare its columns: its keys are in the records, which are not read",
            field="table",
            given=path,
            remedy="write a CSV file of one line with the names of the keys, and draft from that",
        )
    return _of_text(path, format)


def _kind(stated: Any) -> str:
    from pyarrow import types

    if types.is_dictionary(stated):
        stated = stated.value_type
    if types.is_timestamp(stated):
        return "date" if stated.tz is None else "moment"
    kinds = {
        "whole": types.is_integer,
        "measured": lambda stated: types.is_floating(stated) or types.is_decimal(stated),
        "truth": types.is_boolean,
        "named": lambda stated: str(stated) in ("string", "large_string", "string_view"),
        "date": types.is_date,
        "time": types.is_time,
    }
    return next((kind for kind, is_it in kinds.items() if is_it(stated)), "unusable")


def _of_text(path: str, format: FileFormat) -> list[Column]:
    kind = kind_of(path)
    delimiter = format.separator or kind.separator
    first = b""
    with TextFile(path, kind.compression, encoding=ENCODINGS[format.encoding or "utf-8"]) as file:
        while len(first) < _MAX_HEADER and b"\n" not in first and (more := file.read(_MAX_HEADER)):
            first += more
    line, _, _ = first.partition(b"\n")
    try:
        first_line = line.decode()
    except UnicodeDecodeError:
        first_line = ""
    if len(line) >= _MAX_HEADER or (line and not first_line):
        raise DataError.must(
            "header",
            f"be text in UTF-8 and shorter than {_MAX_HEADER:,} bytes",
            given="a longer line, or other bytes",
        )
    if format.quote is not None and first_line.count(format.quote) % 2:
        raise DataError.must("header", "close the quotation marks that it opens", given="an open quotation")
    quoting: Any = csv.QUOTE_NONE if format.quote is None else csv.QUOTE_MINIMAL
    rows = csv.reader([first_line], delimiter=delimiter, quotechar=format.quote or '"', quoting=quoting)
    header = next(rows, [])
    doubt = "" if format.separator else other_separator(header, delimiter)
    if doubt:
        raise DataError(
            f"{doubt} A .csv file has commas between its fields and a .tsv file tabs",
            field="header",
            remedy="where a spreadsheet wrote semicolons, say so with --separator ';'",
        )
    return [Column(name, "") for name in header]


def _check_names(names: Sequence[str]) -> None:
    wanted = "hold the names of the columns"
    if not names:
        raise DataError.must("header", wanted, given="none")
    if len(set(names)) < len(names):
        raise DataError.must("header", f"{wanted}, each once", given="some twice")
    n_numbers = sum(re.fullmatch(r"\s*[+-]?[\d.,]+\s*", name) is not None for name in names)
    if 2 * n_numbers >= len(names):
        raise DataError.must("header", wanted, given="mostly numbers, as in a record")
