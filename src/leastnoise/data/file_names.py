"""Which files a table is in, how they are written, and what their names say of the records in them.

How a file is written is declared, or follows from its name; it is never guessed from what it holds.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from leastnoise.core.errors import DataError
from leastnoise.core.notebook import NotebookValue

Layout = Literal["fields", "json", "parquet", "feather", "sheet"]


class FileKind(NamedTuple):
    """How the files of one suffix are read.

    Attributes:
        layout: "fields" of CSV, "json" objects line by line, or a format that states its own columns.
        separator: the sign between fields.
        compression: "none", "gzip", "bz2" or "zstd", of files of text.
    """

    layout: Layout
    separator: str = ""
    compression: str = "none"


_COMPRESSED = {"": "none", ".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_TEXTS: dict[str, tuple[Layout, str]] = {
    ".csv": ("fields", ","),
    ".tsv": ("fields", "\t"),
    ".jsonl": ("json", ""),
    ".ndjson": ("json", ""),
}
KINDS: dict[str, FileKind] = {
    **{
        text + packed: FileKind(layout, separator, compression)
        for text, (layout, separator) in _TEXTS.items()
        for packed, compression in _COMPRESSED.items()
    },
    ".parquet": FileKind("parquet"),
    ".pq": FileKind("parquet"),
    ".feather": FileKind("feather"),
    ".arrow": FileKind("feather"),
    ".xlsx": FileKind("sheet"),
}
FILES = ".csv, .tsv, .jsonl (also .gz, .bz2 or .zst of these), .parquet, .feather or .xlsx files"

# What Hive and Spark name the folder of records without a value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def is_named(source: Any) -> bool:
    """Whether a source is a name, or several names of files."""
    if isinstance(source, (list, tuple)):
        return bool(source) and all(_may_be_file(one) for one in source)
    return isinstance(source, (str, Path))


def _may_be_file(entry: Any) -> bool:
    """Whether an entry of a list is a name. A number written as text is taken for a count that went astray.

    An error says which file is missing, and must not say a count.
    """
    is_number = (
        isinstance(entry, str) and re.fullmatch(r"\s*[+-]?[\d.,_]+([eE][+-]?\d+)?\s*", entry) is not None
    )
    return isinstance(entry, (str, Path)) and (not is_number or os.path.exists(entry))


def is_address(source: Any) -> bool:
    """Whether a name has a scheme, as in ``postgres://``: it is no file here."""
    return isinstance(source, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source) is not None


def lake_of(source: Any) -> str | None:
    """The format of a folder that keeps a log of its versions, "delta" or "iceberg"; None for all others.

    Its files hold records that are deleted, and are not to be counted one by one.
    """
    if not isinstance(source, (str, Path)) or is_address(source):
        return None
    if os.path.isdir(os.path.join(source, "_delta_log")):
        return "delta"
    metadata = os.path.join(source, "metadata")
    is_iceberg = os.path.isdir(metadata) and any(
        name.endswith(".metadata.json") for name in os.listdir(metadata)
    )
    return "iceberg" if is_iceberg else None


def are_files(source: Any) -> bool:
    """Whether a source names files here, whose bytes can be compared."""
    return is_named(source) and not is_address(source) and lake_of(source) is None


def files_named(source: str | Path | Sequence[str | Path]) -> list[str]:
    """The absolute paths of the files that a path, a folder, a glob or several of them stand for.

    Guarantee:
        In the order of their paths, however they are named, and each once.

    Raises:
        DataError: if there is none, one is named twice, or its name does not say how it is read.
    """
    if isinstance(source, (list, tuple)):
        paths = sorted(path for one in source for path in files_named(one))
        for before, path in itertools.pairwise(paths):
            if before == path:
                raise DataError.must("path", "name each file once", given=path)
        return paths
    assert isinstance(source, (str, Path))
    if is_address(source):
        raise DataError.must("path", "name files here; an address stands alone", given="an address")
    # os.path, because Path raises where a name is longer than names may be.
    if os.path.isdir(source):
        return _files_within(str(Path(source).absolute()))
    found = [str(source)] if os.path.exists(source) else sorted(glob.glob(str(source), recursive=True))
    if not found:
        raise DataError(
            f"there is no file {str(source)!r}",
            field="path",
            given=str(source),
            remedy=f"name a table by the path, the folder or a glob of {FILES}",
        )
    paths = [str(Path(name).absolute()) for name in found]
    for path in paths:
        _check(path)
    return paths


def _check(path: str) -> None:
    suffix_of(path)
    if not os.path.isfile(path):
        raise DataError.must("path", "name files, as in 'folder/*.parquet', not folders", given=path)
    if glob.has_magic(path):
        raise DataError.must("path", "not hold * ? or [", given=path, remedy="rename the file")


def _files_within(folder: str) -> list[str]:
    """The files in a folder and its folders, all of one layout, but for names that begin with . or _."""
    paths = sorted(_walk(folder))
    if not paths:
        raise DataError(
            f"the folder {folder!r} holds no files",
            field="path",
            given=folder,
            remedy=f"name a folder of {FILES}; names that begin with . or _ are left out",
        )
    for path in paths:
        _check(path)
    layouts = {KINDS[suffix_of(path)].layout: suffix_of(path) for path in reversed(paths)}
    if len(layouts) > 1:
        some = " and ".join(sorted(layouts.values()))
        raise DataError(
            f"the folder {folder!r} holds {some} files, which may be the same records twice",
            field="path",
            given=folder,
            remedy=f"name those that you mean, as in '{folder}/*{min(layouts.values())}'",
        )
    return paths


def _walk(folder: str) -> Iterator[str]:
    with os.scandir(folder) as listed:
        entries = list(listed)
    for entry in entries:
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir() and entry.is_symlink():
            raise DataError.must("path", "name a folder without links to other folders", given=entry.path)
        if entry.is_dir():
            yield from _walk(entry.path)
        else:
            yield entry.path


def suffix_of(path: str) -> str:
    """The end of a file's name that says how it is read."""
    for suffix in KINDS:
        if path.lower().endswith(suffix):
            return suffix
    raise DataError.must("path", f"end in {', '.join(KINDS)}", given=path)


def kind_of(path: str) -> FileKind:
    """How a file is read, by the end of its name."""
    return KINDS[suffix_of(path)]


def folder_values(path: str) -> dict[str, str | None]:
    """What the folders of a file say of all its records, as in ``year=2026/part.parquet``.

    Values are text, as those of a CSV file; Hive's word for "no value" is None. Of two folders with the same
    name the inner one counts.

    Example:
        >>> folder_values("/data/year=2026/place=New%20York/part.parquet")
        {'year': '2026', 'place': 'New York'}
    """
    pairs = [part.partition("=") for part in Path(path).parent.parts]
    return {
        unquote(name): None if value == _NO_VALUE else unquote(value)
        for name, sign, value in pairs
        if name and sign
    }


# ------------------------------------------------------------------ how files are written

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
