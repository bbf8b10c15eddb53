"""One file of JSON and arrays, read without trusting it.

A zip archive with `content.json` and one `.npy` per array. Nothing is ever
unpickled; sizes are checked before anything is unpacked, names and types are
compared with what is expected, and a digest over everything finds accidents.
The digest is no signature: whoever can write the file can also write the digest,
so readers recompute every claim that matters.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.errors import PlanFileError
from leastnoise.operators import Array

MAX_JSON_BYTES = 64 * 2**20
MAX_ARRAY_BYTES = 8 * 2**30
MAX_MEMBERS = 64

# Deflate cannot honestly do better than about a thousand to one.
_MAX_RATIO = 1100


def write(path: str | Path, kind: str, content: Mapping[str, Any], arrays: Mapping[str, Array]) -> Path:
    """Write JSON content and arrays to one file, all or nothing; returns the path."""
    target = Path(path)
    parts = {f"{name}.npy": _npy(array) for name, array in arrays.items()}
    body = json.dumps(dict(content), sort_keys=True, allow_nan=False).encode()
    head = {"kind": kind, "digest": _digest(body, parts)}
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("head.json", json.dumps(head))
            archive.writestr("content.json", body)
            for name, data in parts.items():
                archive.writestr(name, data)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def read(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """The JSON content and the arrays of a file that `write` made.

    Raises:
        PlanFileError: for anything else: missing, truncated, altered, too large, of another kind.
    """
    source = Path(path)
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            _check_members(source, members)
            data = {member.filename: archive.read(member) for member in members}
    except FileNotFoundError:
        raise PlanFileError(f"there is no file {str(source)!r}") from None
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError, ValueError) as error:
        if isinstance(error, PlanFileError):
            raise
        raise PlanFileError(f"{source.name!r} cannot be read: it is damaged or no leastnoise file") from None
    return _decoded(source, kind, data)


def _decoded(source: Path, kind: str, data: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        head = json.loads(data.pop("head.json"))
        body = data.pop("content.json")
        if head["kind"] != kind:
            raise PlanFileError(f"{source.name!r} is no saved {kind}")
        if head["digest"] != _digest(body, data):
            raise PlanFileError(f"{source.name!r} was altered or damaged after it was saved; save it again")
        content = json.loads(body)
        arrays = {name.removesuffix(".npy"): _array(content) for name, content in data.items()}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, PlanFileError):
            raise
        raise PlanFileError(f"{source.name!r} cannot be read: it is damaged or no leastnoise file") from None
    if not isinstance(content, dict):
        raise PlanFileError(f"{source.name!r} cannot be read: it is no leastnoise file")
    return content, arrays


def _check_members(source: Path, members: list[zipfile.ZipInfo]) -> None:
    names = [member.filename for member in members]
    if len(names) > MAX_MEMBERS or len(set(names)) < len(names):
        raise PlanFileError(f"{source.name!r} has too many parts or repeats one")
    for member in members:
        is_json = member.filename in ("head.json", "content.json")
        if not is_json and not member.filename.removesuffix(".npy").isidentifier():
            raise PlanFileError(f"{source.name!r} holds parts that no leastnoise file has")
        limit = MAX_JSON_BYTES if is_json else MAX_ARRAY_BYTES
        if member.file_size > limit or member.file_size > _MAX_RATIO * (member.compress_size + 64):
            raise PlanFileError(f"{source.name!r} would unpack to more than a leastnoise file holds")


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _array(data: bytes) -> Array:
    buffer = io.BytesIO(data)
    array: Array = np.lib.format.read_array(buffer, allow_pickle=False, max_header_size=4096)
    if buffer.read(1) or array.dtype.kind not in "if":
        raise ValueError
    return array


def _digest(body: bytes, parts: Mapping[str, bytes]) -> str:
    total = hashlib.sha256(body)
    for name in sorted(parts):
        total.update(f"\n{name}\n{len(parts[name])}\n".encode())
        total.update(parts[name])
    return total.hexdigest()
