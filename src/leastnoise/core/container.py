"""One file of JSON and arrays, read without trusting it.

A zip archive with `content.json` and one `.npy` per array. Nothing is ever
unpickled; sizes are checked before anything is unpacked, names and types are
compared with what is expected, and a digest over everything finds accidents.
The archive is the whole file: one that lies within another file, as the releases
that a ledger stores lie in its database, is not taken for the file itself.
The digest is no signature: whoever can write the file can also write the digest,
so readers recompute every claim that matters.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from leastnoise.core.errors import PlanFileError, TooLargeError
from leastnoise.core.operators import Array
from leastnoise.core.whole_file import written_whole

MAX_JSON_BYTES = 64 * 2**20
MAX_ARRAY_BYTES = 8 * 2**30
MAX_MEMBERS = 4096

# Deflate at level 1 reaches 229 to 1 on nothing but zeros. `write` stores what would
# shrink further, so whatever claims more was not written here.
_MAX_RATIO = 240


def write(path: str | Path, kind: str, content: Mapping[str, Any], arrays: Mapping[str, Array]) -> Path:
    """Write JSON content and arrays to one file, all or nothing; returns the path."""
    target = Path(path)
    members = _members(kind, content, arrays)
    with written_whole(target) as temporary:
        _packed(temporary, members)
    return target


def to_bytes(kind: str, content: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """What `write` would write, for a place that is no file of its own."""
    held = io.BytesIO()
    _packed(held, _members(kind, content, arrays))
    return held.getvalue()


def digest_of(content: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """A SHA-256 over JSON content and arrays: the same for the same values, wherever they are kept."""
    body = json.dumps(dict(content), sort_keys=True).encode()
    return _digest(body, {f"{name}.npy": _npy(array) for name, array in sorted(arrays.items())})


def _members(kind: str, content: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, bytes]:
    parts = {f"{name}.npy": _npy(array) for name, array in arrays.items()}
    body = json.dumps(dict(content), sort_keys=True).encode()
    if len(body) > MAX_JSON_BYTES:
        raise TooLargeError(
            f"the description of the workload takes {len(body):,} bytes, at most "
            f"{MAX_JSON_BYTES:,} are saved",
            field="workload",
            given=len(body),
            remedy="give large matrices as SciPy sparse arrays or as queries over a schema",
        )
    head = {"kind": kind, "digest": _digest(body, parts)}
    return {"head.json": json.dumps(head).encode(), "content.json": body, **parts}


def _packed(target: Path | io.BytesIO, members: Mapping[str, bytes]) -> None:
    if any(map(_is_bloated, _pack(target, members, zipfile.ZIP_DEFLATED))):
        if isinstance(target, io.BytesIO):
            target.seek(0)
            target.truncate()
        _pack(target, members, zipfile.ZIP_STORED)


# What zipfile and zlib raise on damaged bytes.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    LookupError,
    struct.error,
    MemoryError,
)


def _pack(target: Path | io.BytesIO, members: Mapping[str, bytes], method: int) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(target, "w", method, compresslevel=1) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        return archive.infolist()


def _is_bloated(member: zipfile.ZipInfo) -> bool:
    return member.file_size > _MAX_RATIO * (member.compress_size + 64)


_instead = {
    "plan": ": it is a plan; measure it with measure() or `leastnoise measure`",
    "release": ": it is a release; read it with load_release()",
    "release in blocks": ": it is a release in blocks; read it with load_release(FOLDER), the folder that it "
    "was measured into, or name that folder with into= to go on with it",
}


def read(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The JSON content and the arrays of a file that `write` made.

    Raises:
        PlanFileError: for anything else: missing, truncated, altered, too large, of another kind.
    """
    source = Path(path)
    try:
        with source.open("rb") as file:
            return _unpacked(file, source.name, kind)
    except FileNotFoundError:
        raise PlanFileError(f"there is no file {str(source)!r}", field="path", given=str(source)) from None
    except OSError:
        raise PlanFileError(
            f"{source.name!r} cannot be read: it is damaged or not a leastnoise file",
            field="path",
            given=source.name,
        ) from None


def from_bytes(data: bytes, kind: str, name: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The JSON content and the arrays that `to_bytes` packed; `name` is for messages.

    Raises:
        PlanFileError: as `read`.
    """
    return _unpacked(io.BytesIO(data), name, kind)


def _unpacked(source: BinaryIO, name: str, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        size = _whole_size(source, name)
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            # An archive may name places within a larger file; one that was written here begins with a part.
            if min((member.header_offset for member in members), default=0) != 0:
                raise zipfile.BadZipFile
            _check_members(name, members, size)
            data = {member.filename: archive.read(member) for member in members}
    except zipfile.BadZipFile:
        is_spec = name.lower().endswith(".toml")
        hint = "; a specification goes to `leastnoise design` or `leastnoise publish`" if is_spec else ""
        raise PlanFileError(
            f"{name!r} cannot be read: it is damaged or not a leastnoise file{hint}", field="path", given=name
        ) from None
    except _DAMAGE as error:
        if isinstance(error, PlanFileError):
            raise
        raise PlanFileError(
            f"{name!r} cannot be read: it is damaged or not a leastnoise file", field="path", given=name
        ) from None
    return _decoded(name, kind, data)


# What an SQLite database begins with (sqlite.org/fileformat2.html, 1.3).
_DATABASE = b"SQLite format 3\0"

# A ledger is an SQLite database with this number of its own, at byte 68.
_LEDGER = b"lnlg"

# Bytes of the record that ends an archive without a comment.
_END_BYTES = 22

# What that record begins with.
_END_BEGINS = b"PK\x05\x06"

# What it ends with: the length of the comment.
_NO_COMMENT = b"\0\0"


def _whole_size(source: BinaryIO, name: str) -> int:
    """The size of a file that an archive can fill from its first byte to its last.

    Raises:
        PlanFileError: for a ledger, which holds archives, and is none.
        BadZipFile: if something else stands before or after the archive; zipfile looks for one anywhere.
    """
    begins = source.read(72)
    size = source.seek(0, io.SEEK_END)
    if begins.startswith(_DATABASE):
        if begins[68:72] == _LEDGER:
            raise PlanFileError(
                f"{name!r} is a ledger",
                field="path",
                given=name,
                remedy=f"`leastnoise ledger fetch {name} ID` hands out a release that it stores, `leastnoise "
                f"ledger show {name}` lists them",
            )
        raise PlanFileError.must("path", "be a saved plan or release, not a database", given=name)
    source.seek(max(0, size - _END_BYTES))
    ends = source.read(_END_BYTES)
    is_whole = ends.startswith(_END_BEGINS) and ends.endswith(_NO_COMMENT)
    if not begins.startswith(b"PK\x03\x04") or not is_whole:
        raise zipfile.BadZipFile
    return size


def _decoded(name: str, kind: str, data: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        head = json.loads(data.pop("head.json"))
        body = data.pop("content.json")
        if head["kind"] != kind:
            raise PlanFileError(
                f"{name!r} is not a saved {kind}{_instead.get(str(head['kind']), '')}",
                field="path",
                given=name,
            )
        if head["digest"] != _digest(body, data):
            raise PlanFileError(
                f"{name!r} has been modified or damaged since it was saved",
                field="path",
                given=name,
                remedy="save it again",
            )
        content = json.loads(body)
        arrays = {part.removesuffix(".npy"): _array(content) for part, content in data.items()}
    except (LookupError, TypeError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, PlanFileError):
            raise
        raise PlanFileError(
            f"{name!r} cannot be read: it is damaged or not a leastnoise file", field="path", given=name
        ) from None
    if not isinstance(content, dict):
        raise PlanFileError(f"{name!r} cannot be read: it is not a leastnoise file", field="path", given=name)
    return content, arrays


def _check_members(name: str, members: list[zipfile.ZipInfo], size: int) -> None:
    names = [member.filename for member in members]
    if len(names) > MAX_MEMBERS or len(set(names)) < len(names):
        raise PlanFileError(f"{name!r} has too many parts or repeats one", field="path", given=name)
    # Sizes are claims of the file; together, the parts cannot be larger than it is.
    claimed = sum(member.compress_size for member in members)
    if sum(member.file_size for member in members) > MAX_ARRAY_BYTES:
        raise PlanFileError(
            f"{name!r} would unpack to more than a leastnoise file holds", field="path", given=name
        )
    for member in members:
        is_json = member.filename in ("head.json", "content.json")
        stem, dot, suffix = member.filename.partition(".")
        if not is_json and not (stem.isidentifier() and dot + suffix == ".npy"):
            raise PlanFileError(f"{name!r} holds parts that no leastnoise file has", field="path", given=name)
        limit = MAX_JSON_BYTES if is_json else MAX_ARRAY_BYTES
        is_packed_here = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if member.file_size > limit or _is_bloated(member) or claimed > size or not is_packed_here:
            raise PlanFileError(
                f"{name!r} would unpack to more than a leastnoise file holds", field="path", given=name
            )


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _array(data: bytes) -> Array:
    # The header is a claim too: without this, read_array would allocate what it says first.
    buffer = io.BytesIO(data)
    version = np.lib.format.read_magic(buffer)
    read_header = _HEADERS.get(version)
    if read_header is None:
        raise ValueError
    shape, _, dtype = read_header(buffer, max_header_size=4096)
    if math.prod(shape) * dtype.itemsize != len(data) - buffer.tell():
        raise ValueError
    buffer.seek(0)
    array: Array = np.lib.format.read_array(buffer, allow_pickle=False, max_header_size=4096)
    if array.dtype.kind not in "if":
        raise ValueError
    return array


def _digest(body: bytes, parts: Mapping[str, bytes]) -> str:
    total = hashlib.sha256(body)
    for name in sorted(parts):
        total.update(f"\n{name}\n{len(parts[name])}\n".encode())
        total.update(parts[name])
    return total.hexdigest()
