"""Records of JSON Lines: one object a line, and each line by itself.

A record ends at a line feed, and so does a file; an empty line is none. A file is in UTF-8 unless another
encoding is declared, because its first bytes belong to a record. A byte order mark in front of any line is
left away, in front of the first one as of all others.
A line of more than MAX_RECORD bytes is dropped, and so is one that is not in UTF-8 or is no JSON object.
A key that an object lacks is a null, as if it were written: no line says which keys there are, so a table
in JSON is never refused for a column that it lacks.
Values are read one by one, as in a column of mixed values: text as it is, 18 and 18.0 as "18", true as
"true". A list or an object within a record is a value that no schema declares.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Generator, Sequence
from typing import Any

from leastnoise.data.raw_table import DroppedRecords
from leastnoise.data.text_files import MAX_RECORD, TextFile

# Bytes that are read at once.
_BLOCK = 2**20


def _digits(text: str) -> str:
    """A whole number as it is written; int() would refuse 5,000 digits, and JSON has no other spelling."""
    return "0" if text == "-0" else text


_DECODER = json.JSONDecoder(parse_int=_digits)


def json_rows(
    file: TextFile, names: Sequence[str], dropped: DroppedRecords
) -> Generator[list[list[Any]], None, None]:
    """The values of these keys, some records at a time; None where there is none."""
    for lines in _lines(file, dropped):
        rows = []
        for line in lines:
            record = _record(line, dropped)
            if record is not None:
                rows.append([record.get(name) for name in names])
        if rows:
            yield rows


def _lines(file: TextFile, dropped: DroppedRecords) -> Generator[list[bytes], None, None]:
    """The lines of a file, some at a time, without those that are too long to be held."""
    rest, is_skipped, is_end = b"", False, False
    while not is_end:
        piece = file.read(_BLOCK)
        is_end = not piece
        lines = (rest + piece).split(b"\n")
        rest = b"" if is_end else lines.pop()
        if is_skipped and lines:
            # The end of a line that was too long.
            del lines[0]
            is_skipped = False
        if is_skipped or len(rest) > MAX_RECORD + 1:
            dropped.too_long += not is_skipped
            rest, is_skipped = b"", True
        yield lines


def _record(line: bytes, dropped: DroppedRecords) -> dict[str, Any] | None:
    """The object of a line, or None if it is dropped."""
    line = line.removeprefix(BOM_UTF8).removesuffix(b"\r")
    if len(line) > MAX_RECORD:
        dropped.too_long += 1
        return None
    try:
        text = line.decode()
    except UnicodeDecodeError:
        dropped.not_utf8 += 1
        return None
    if not text.strip(" \t\r"):
        return None
    try:
        found = _DECODER.decode(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        dropped.not_json += 1
        return None
    return found
