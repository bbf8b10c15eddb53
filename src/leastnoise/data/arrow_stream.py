"""Columns of text as an Arrow stream, which an engine reads through the C interface without pyarrow.

Structures and names are those of the Arrow C data and C stream interfaces:
https://arrow.apache.org/docs/format/CDataInterface.html
"""

from __future__ import annotations

import ctypes
import errno
import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.data.csv_blocks import TextColumn

_NULLABLE = 2  # ARROW_FLAG_NULLABLE

_Pointer = ctypes.c_void_p


class _ArrowSchema(ctypes.Structure):
    """struct ArrowSchema: the type of a column, or of a record of columns."""


class _ArrowArray(ctypes.Structure):
    """struct ArrowArray: the values of a column, or of some records."""


class _ArrowStream(ctypes.Structure):
    """struct ArrowArrayStream: records, some at a time."""


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ArrowSchema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ArrowArray))
_ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ArrowStream))
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_ArrowStream), ctypes.POINTER(_ArrowSchema))
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_ArrowStream), ctypes.POINTER(_ArrowArray))
_GetError = ctypes.CFUNCTYPE(_Pointer, ctypes.POINTER(_ArrowStream))
_Destroy = ctypes.CFUNCTYPE(None, _Pointer)

_ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowSchema))),
    ("dictionary", _Pointer),
    ("release", _ReleaseSchema),
    ("private_data", _Pointer),
]
_ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(_Pointer)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
    ("dictionary", _Pointer),
    ("release", _ReleaseArray),
    ("private_data", _Pointer),
]
_ArrowStream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _GetError),
    ("release", _ReleaseStream),
    ("private_data", _Pointer),
]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [_Pointer, ctypes.c_char_p, _Destroy]
_in_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_in_capsule.restype, _in_capsule.argtypes = _Pointer, [_Pointer, ctypes.c_char_p]
_CAPSULE = b"arrow_array_stream"


class _Holding:
    """What structures that were handed out point to, under the number that each of them carries."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._held: dict[int, Any] = {}

    def hold(self, *things: Any) -> int:
        number = next(self._numbers)
        self._held[number] = things
        return number

    def held_by(self, structure: Any) -> Any:
        return self._held[structure.private_data]

    def let_go(self, structure: Any) -> Any:
        structure.release = type(structure.release)(0)
        return self._held.pop(structure.private_data)


_holding = _Holding()


def _release_schema(schema: Any) -> None:
    _release(schema.contents)


def _release_array(array: Any) -> None:
    _release(array.contents)


def _release(structure: Any) -> None:
    """Let go of what a structure points to; of its children, only of those that nobody took over."""
    for k in range(structure.n_children):
        child = structure.children[k]
        if child.contents.release:
            child.contents.release(child)
    _holding.let_go(structure)


def _release_stream(stream: Any) -> None:
    _, blocks = _holding.let_go(stream.contents)
    blocks.close()


def _get_schema(stream: Any, out: Any) -> int:
    owner, _ = _holding.held_by(stream.contents)
    names = [f"c{k}".encode() for k in range(owner.n_columns)]
    # "vu" is a string view.
    children = [
        _ArrowSchema(format=b"vu", name=name, flags=_NULLABLE, release=_RELEASE_SCHEMA) for name in names
    ]
    for child in children:
        child.private_data = _holding.hold(child)
    pointers = _pointers(_ArrowSchema, children)
    out.contents.__init__(
        format=b"+s",
        name=b"",
        n_children=len(children),
        children=pointers,
        release=_RELEASE_SCHEMA,
        private_data=_holding.hold(children, pointers),
    )
    return 0


def _get_next(stream: Any, out: Any) -> int:
    ctypes.memset(out, 0, ctypes.sizeof(_ArrowArray))
    owner, blocks = _holding.held_by(stream.contents)
    try:
        columns = next((block for block in blocks if len(block[0].views)), None)
    except BaseException as error:
        # Not to be raised through the engine; whoever asked it finds the error here.
        owner.failure = error
        return errno.EIO
    if columns is not None:
        _fill(out.contents, columns)
    return 0


_MESSAGE = ctypes.create_string_buffer(b"the records could not be read")


def _get_last_error(stream: Any) -> int:
    return ctypes.addressof(_MESSAGE)


def _destroy(capsule: int) -> None:
    stream = _ArrowStream.from_address(_in_capsule(capsule, _CAPSULE))
    if stream.release:
        stream.release(ctypes.byref(stream))
    del _capsules[ctypes.addressof(stream)]


_RELEASE_SCHEMA = _ReleaseSchema(_release_schema)
_RELEASE_ARRAY = _ReleaseArray(_release_array)
_RELEASE_STREAM = _ReleaseStream(_release_stream)
_GET_SCHEMA = _GetSchema(_get_schema)
_GET_NEXT = _GetNext(_get_next)
_GET_LAST_ERROR = _GetError(_get_last_error)
_DESTROY = _Destroy(_destroy)

# Streams that were not taken out of their capsules yet, by address.
_capsules: dict[int, _ArrowStream] = {}


class TextStream:
    """Columns of text, named c0, c1, …, that an engine reads as often as it asks.

    Args:
        blocks: begins to read anew; each block is a list of columns of equal length.

    Attributes:
        failure: what ended the last reading before its time, or None.
    """

    def __init__(self, n_columns: int, blocks: Callable[[], Generator[list[TextColumn], None, None]]) -> None:
        self.n_columns = n_columns
        self.failure: BaseException | None = None
        self._blocks = blocks

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        stream = _ArrowStream(_GET_SCHEMA, _GET_NEXT, _GET_LAST_ERROR, _RELEASE_STREAM)
        stream.private_data = _holding.hold(self, self._blocks())
        _capsules[ctypes.addressof(stream)] = stream
        return _new_capsule(ctypes.addressof(stream), _CAPSULE, _DESTROY)


def _pointers(kind: Any, structures: Sequence[Any]) -> Any:
    pointer = ctypes.POINTER(kind)
    return (pointer * len(structures))(*map(ctypes.pointer, structures))


def _fill(out: Any, columns: Sequence[TextColumn]) -> None:
    """Make an empty structure one of records with these columns."""
    children = [_array_of(column) for column in columns]
    pointers, none = _pointers(_ArrowArray, children), (_Pointer * 1)()
    out.__init__(
        length=len(columns[0].views),
        n_buffers=1,
        buffers=none,
        n_children=len(children),
        children=pointers,
        release=_RELEASE_ARRAY,
        private_data=_holding.hold(children, pointers, none),
    )


def _array_of(column: TextColumn) -> _ArrowArray:
    sizes = np.array([buffer.nbytes for buffer in column.buffers], dtype=np.int64)
    arrays: list[npt.NDArray[Any]] = [np.ascontiguousarray(column.views), *column.buffers, sizes]
    if column.present is not None:
        bits = np.packbits(column.present, bitorder="little")
        arrays.append(bits)
    first = None if column.present is None else bits.ctypes.data
    addresses = [first, *(array.ctypes.data for array in arrays[: 2 + len(column.buffers)])]
    buffers = (_Pointer * len(addresses))(*addresses)
    return _ArrowArray(
        length=len(column.views),
        null_count=0 if column.present is None else -1,
        n_buffers=len(addresses),
        buffers=buffers,
        release=_RELEASE_ARRAY,
        private_data=_holding.hold(arrays, buffers),
    )


# The formats of whole numbers in the C data interface.
_WHOLE = {b"C": np.uint8, b"S": np.uint16, b"I": np.uint32, b"L": np.uint64}


def whole_columns(source: Any) -> Generator[list[npt.NDArray[Any]], None, None]:
    """The columns of a stream, some records at a time: whole numbers without a sign, and none null.

    An array may be read until the next ones are asked for, and no longer.

    Args:
        source: anything with the method ``__arrow_c_stream__``.

    Raises:
        OSError: if the stream fails.
    """
    capsule = source.__arrow_c_stream__()
    stream = _ArrowStream.from_address(_in_capsule(id(capsule), _CAPSULE))
    schema = _ArrowSchema()
    _check(stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)))
    kinds = [_WHOLE[schema.children[k].contents.format] for k in range(schema.n_children)]
    schema.release(ctypes.byref(schema))
    while True:
        array = _ArrowArray()
        _check(stream.get_next(ctypes.byref(stream), ctypes.byref(array)))
        if not array.release:
            return
        try:
            yield [
                _whole_numbers(array.children[k].contents, kind, array.offset, array.length)
                for k, kind in enumerate(kinds)
            ]
        finally:
            array.release(ctypes.byref(array))


def _check(code: int) -> None:
    if code:
        raise OSError(code, "a stream of records failed")


def _whole_numbers(column: Any, kind: Any, offset: int, length: int) -> npt.NDArray[Any]:
    if not length:
        return np.empty(0, dtype=kind)
    first = column.buffers[1] + (column.offset + offset) * np.dtype(kind).itemsize
    stored = (ctypes.c_char * (length * np.dtype(kind).itemsize)).from_address(first)
    return np.frombuffer(stored, dtype=kind)
