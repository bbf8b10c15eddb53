"""Which version of a table is counted, and by which rules: what a ledger goes by before it adds by cell.

Two releases may be added up cell by cell only if every record was in the same cell for both. That is known
where the bytes are the same and are read by the same rules, or where one object holds the table and cannot
change:

    files            an HMAC over the bytes of all of them, in the order of their paths, each with the suffix
                     that says how it is read and the columns that its folders give
    counts           an HMAC over the counts of a vector; the vector is then the data
    frames           the `Data` that `vectorize` made of a pandas or polars DataFrame or an Arrow table: it
                     holds the frame as it was then, and changes to the caller's frame do not reach it
    anything else    nothing: engines, lazy frames, data sets and relations read what is there at the time
"""

from __future__ import annotations

import hmac
import json
import unicodedata
from dataclasses import MISSING, fields
from hashlib import sha256
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy.typing as npt

from leastnoise.data.connections import withheld
from leastnoise.data.counting import is_count_vector
from leastnoise.data.file_names import FileFormat, are_files, suffix_of
from leastnoise.data.files import FilesTable
from leastnoise.data.handle import Data

# The rules by which bytes become records and records find their cells. To be raised with every change after
# which some record of some file could be placed otherwise: releases before and after it are then never added
# up cell by cell.
READING = 3

# How those of a person's records are chosen that count.
_TRUNCATION = "first by a hash of person and cell"

# The fields of `Data` that say where the records are, not how they are counted. Whatever field is added to it
# counts as a rule until it is named here.
_PLACES = {"schema", "kind", "table", "is_held"}


class SourceIdentity(NamedTuple):
    """What a source is, before any of its records is read.

    Attributes:
        by: how a later release can be confirmed to be about the same version: "digest", "held", or None.
        rules: how its records are counted, as short texts.
        held: the object that holds it, if it does.
    """

    by: str | None
    rules: dict[str, str]
    held: Any = None


def identity_of(source: Any) -> SourceIdentity:
    """What a source of `measure` is and how it will be counted; nothing is opened for it."""
    if is_count_vector(source):
        return SourceIdentity("digest", {"source": "counts"})
    if are_files(source):
        return SourceIdentity("digest", _rules("files", None))
    if not isinstance(source, Data):
        # A handle on it is made for this one release, and gone with it.
        return SourceIdentity(None, _rules(f"{type(source).__module__} {type(source).__name__}", None))
    rules = _rules(source.kind, source)
    if source.kind == "files":
        return SourceIdentity("digest", rules)
    return SourceIdentity("held", rules, source) if source.is_held else SourceIdentity(None, rules)


def version_digest(opened: Data | npt.NDArray[Any], digest: hmac.HMAC) -> bytes | None:
    """The digest of a table's bytes; None where it has none.

    Args:
        opened: a handle, or the counts that `counts_from_vector` copied.
        digest: an empty HMAC.

    Raises:
        DataError: if a file cannot be read; it says nothing about the table.
    """
    if not isinstance(opened, Data):
        _feed_counts(opened, digest)
    elif isinstance(files := opened.table, FilesTable):
        withheld("reading the files", lambda: _feed_files(files, digest))
    else:
        return None
    return digest.digest()


def _feed_files(files: FilesTable, digest: hmac.HMAC) -> None:
    digest.update(b"files")
    for path in files.paths:
        suffix = suffix_of(path).encode()
        digest.update(len(suffix).to_bytes(8, "big") + suffix)
        _feed_file(path, digest)
        # A file that moves to another folder changes the cells of its records. A brace is no suffix.
        if path in files.taken:
            given = json.dumps(files.taken[path], sort_keys=True).encode()
            digest.update(len(given).to_bytes(8, "big") + given)


def _feed_file(path: str, digest: hmac.HMAC) -> None:
    """The bytes of a file, and after them their number: it tells where the file ends."""
    length = 0
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
            length += len(block)
    digest.update(length.to_bytes(8, "big"))


def _feed_counts(counts: npt.NDArray[Any], digest: hmac.HMAC) -> None:
    digest.update(b"counts" + len(counts).to_bytes(8, "big"))
    digest.update(",".join(map(str, counts.tolist())).encode())


def _rules(kind: str, data: Data | None) -> dict[str, str]:
    """The rules of a handle; None for those that `vectorize` gives to a bare path."""
    declared: dict[str, Any] = {
        part.name: part.default if data is None else getattr(data, part.name)
        for part in fields(Data)
        if part.name not in _PLACES and (data is not None or part.default is not MISSING)
    }
    who = declared.pop("who")
    if declared["format"] == FileFormat():
        # As before formats could be declared.
        del declared["format"]
    declared["person"] = None if who is None else who.column
    if who is not None:
        # Whatever a person is told apart by, beside the column.
        declared |= {f"person {part.name}": getattr(who, part.name) for part in fields(who)[1:]}
        declared["truncation"] = _TRUNCATION
    rules = {name: _short(value) for name, value in declared.items()}
    # What reads bytes, and what normal forms of text follow.
    by = f"PyArrow {version('pyarrow')}, Unicode {unicodedata.unidata_version}"
    return {"source": kind[:100], "reading": f"{READING}, {by}", **rules}


def _short(value: Any) -> str:
    """A declared value as a text that a ledger takes, the same for the same value only."""
    text = repr(value)
    if len(text) <= 100 and text.isprintable():
        return text
    return "digest " + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
