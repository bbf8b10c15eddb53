"""How files of a table are written: declared, never guessed from what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from leastnoise.core.errors import DataError
from leastnoise.core.notebook import NotebookValue

# Encodings that can be declared, and Python's name for each; "" lets a byte order mark decide, else UTF-8.
ENCODINGS = {
    "utf-8": "",
    "utf-16": "utf-16",
    "utf-16-le": "utf-16-le",
    "utf-16-be": "utf-16-be",
    "cp1252": "cp1252",
    "cp1250": "cp1250",
    "iso-8859-1": "iso-8859-1",
    "iso-8859-15": "iso-8859-15",
}
_NOT_SEPARATORS = '\n\r"\0'


@dataclass(frozen=True)
class FileFormat(NotebookValue):
    """How CSV files and spreadsheets are written, where they differ from the defaults.

    Args:
        separator: the character between fields; by default a comma in .csv and a tab in .tsv files.
        quote: the character around fields that hold separators, ``'"'`` or ``"'"``; None for files without.
        encoding: "utf-8", "utf-16", "cp1252" (Windows), "iso-8859-1" and a few others. A byte order mark in
            front of the header decides unless one is given; JSON Lines have no header and are in UTF-8 then.
        sheet: the name of the sheet of a spreadsheet; the first one by default.

    Example:
        >>> FileFormat(separator=";", encoding="cp1252")
        FileFormat(separator=';', encoding='cp1252')
    """

    separator: str | None = None
    quote: str | None = '"'
    encoding: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        mark = self.separator
        is_one = isinstance(mark, str) and len(mark) == 1 and mark.isascii() and mark not in _NOT_SEPARATORS
        if mark is not None and not is_one:
            raise DataError.must("separator", "be one ASCII character, as in ';'", given=mark)
        if self.quote not in ('"', "'", None) or (mark is not None and self.quote == mark):
            raise DataError.must("quote", "be '\"', \"'\" or None", given=self.quote)
        if self.encoding is not None and self.encoding not in ENCODINGS:
            raise DataError.must("encoding", f"be one of {', '.join(ENCODINGS)}", given=self.encoding)
        if self.sheet is not None and (not isinstance(self.sheet, str) or not self.sheet):
            raise DataError.must("sheet", "be the name of a sheet", given=self.sheet)

    def to_dict(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if value != getattr(FileFormat, name)}

    def __repr__(self) -> str:
        return f"FileFormat({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


# What the folders of a file say of all its records, by the name of the column; None where they say that there
# is no value.
FolderValues = Mapping[str, str | None]
