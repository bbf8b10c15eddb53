"""The bytes of a text file as UTF-8, whatever it is compressed or encoded with, in pieces of bounded size."""

from __future__ import annotations

import bz2
import codecs
import gzip
import os
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from leastnoise.core.errors import DataError

# Bytes of a record without its line end; a longer record is dropped.
MAX_RECORD = 2**21
# The encodings that a byte order mark in front of a header declares. A file without a mark is in UTF-8.
_MARKS = {codecs.BOM_UTF8: "", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# No byte of UTF-8: it stands for half a letter at the end of a file, whose record is then left out.
_NO_LETTER = b"\xff"
# Bytes of a file that are decoded at once.
_PIECE = 2**18


class TextFile:
    """A file of text, opened for one reading: `read` gives its bytes in UTF-8.

    A byte order mark decides, and is left out, only where a header stands behind it. In other files it is the
    beginning of a record, which must not decide how all others are read.

    Letters that UTF-16 cannot hold, lone surrogates, come as bytes that are no UTF-8.

    Args:
        compression: "gzip", "bz2", "zstd" or "none".
        encoding: Python's name of the encoding; "" lets a byte order mark decide, else it is UTF-8.
        has_header: whether the file begins with a header, and not with a record.

    Raises:
        DataError: here and from `read`, if what is compressed cannot be unpacked; here, if only a byte order
            mark could tell the encoding of a file without a header.
    """

    def __init__(
        self,
        path: str,
        compression: str,
        encoding: str = "",
        *,
        has_header: bool = True,
    ) -> None:
        if encoding == "utf-16" and not has_header:
            raise DataError(
                "a file without a header has no place for a byte order mark: encoding must be 'utf-16-le' or "
                "'utf-16-be'",
                field="encoding",
                given=encoding,
                remedy="declare 'utf-16-le', which Windows writes, or 'utf-16-be'",
            )
        self._path = path
        self._compression = compression
        self._file: Any = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
        try:
            self._bytes: Any = _UNPACKED[compression](self._file)
            start = b""
            while len(start) < 3 and (more := self._unpack(3 - len(start))):
                start += more
            mark = next((mark for mark in _MARKS if has_header and start.startswith(mark)), b"")
        except BaseException:
            self.close()
            raise
        is_marked = not encoding or _MARKS[mark].startswith(encoding) if mark else False
        self._encoding = _MARKS[mark] if is_marked else encoding
        if self._encoding == "utf-16":
            self._encoding = "utf-16-le"
        self._start = len(mark) if is_marked else 0
        self._decoder: Any = None
        self._ready = b""
        self.seek(0)

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none only at the end of the file."""
        if not self._encoding:
            return self._unpack(size)
        while not self._ready and self._decoder is not None:
            piece = self._unpack(_PIECE)
            text = self._decoder.decode(piece).encode("utf-8", "surrogatepass")
            if not piece:
                text += _NO_LETTER if self._decoder.getstate()[0] else b""
                self._decoder = None
            self._ready = text
        given, self._ready = self._ready[:size], self._ready[size:]
        return given

    def _unpack(self, size: int) -> bytes:
        if self._compression == "none":
            return self._file.read(size)
        try:
            return self._bytes.read(size)
        except _DAMAGED:
            pass
        raise DataError(
            f"the file {self._path!r} is damaged or incomplete: it cannot be unpacked "
            f"({self._compression}). Nothing was spent",
            field="path",
            given=self._path,
            remedy="fetch the file again, and test it with the program that packed it",
        )

    def seek(self, position: int) -> None:
        """Go on reading from a position, counted in the bytes that `read` gives."""
        if not self._encoding:
            self._bytes.seek(self._start + position)
            return
        self._bytes.seek(self._start)
        # What is no letter comes as a lone surrogate, which is no UTF-8 either.
        errors = "surrogatepass" if self._encoding.startswith("utf-16") else "surrogateescape"
        self._decoder = codecs.getincrementaldecoder(self._encoding)(errors)
        self._ready = b""
        while position > 0 and (given := self.read(position)):
            position -= len(given)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> TextFile:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


class _Zstd:
    """A file that Zstandard packed, by PyArrow, which can only go forward: to go back begins anew."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._stream = self._opened()
        self._position = 0

    def _opened(self) -> Any:
        # One of its own to close, as PyArrow does with what it lets go of.
        own = open(os.dup(self._file.fileno()), "rb", buffering=0)  # noqa: SIM115
        return pa.CompressedInputStream(pa.PythonFile(own, "r"), "zstd")

    def read(self, size: int) -> bytes:
        piece: bytes = self._stream.read(size)
        self._position += len(piece)
        return piece

    def seek(self, position: int) -> None:
        if position < self._position:
            self._file.seek(0)
            self._stream, self._position = self._opened(), 0
        while self._position < position and self.read(min(_PIECE, position - self._position)):
            pass


# What reads the packed bytes of an open file, by compression.
_UNPACKED: dict[str, Callable[[Any], Any]] = {
    "none": lambda file: file,
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "bz2": bz2.BZ2File,
    "zstd": _Zstd,
}
# What they raise where the bytes are not what they should be; ArrowInvalid is a ValueError.
_DAMAGED = (OSError, EOFError, ValueError, zlib.error)
