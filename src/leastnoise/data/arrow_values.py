"""What Arrow arrays hold: numbers as they are stored, texts as bytes, and values as Python objects.

Nothing here raises or warns because of a value: memory is read as it is, and times become Python's from whole
numbers that are known to lie within their ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from leastnoise.query import FIRST_SECOND, LAST_SECOND, SECONDS_OF_DAY

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

# The days of the years 1 to 9999; no date lies beyond.
FIRST_DAY = FIRST_SECOND // SECONDS_OF_DAY
LAST_DAY = LAST_SECOND // SECONDS_OF_DAY

UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

# Stands for a value that is there and that nothing declared could equal, such as a day of the year 10000.
NOWHERE = object()


def plain_array(column: Any) -> Any:
    """The array without the wrappings that change no value."""
    while isinstance(column.type, pa.BaseExtensionType):
        is_uuid = str(column.type) == "extension<arrow.uuid>"
        column = _written_uuids(column.storage) if is_uuid else column.storage
    if pa.types.is_run_end_encoded(column.type):
        # Arrow decodes runs of some types only.
        places = np.arange(column.offset, column.offset + len(column))
        run = np.searchsorted(stored(column.run_ends), places, side="right")
        return pa.DictionaryArray.from_arrays(pa.array(run), plain_array(column.values))
    return column


def _written_uuids(column: Any) -> Any:
    digits = [None if value is None else value.hex() for value in column.to_pylist()]
    values = [None if d is None else f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}" for d in digits]
    return pa.array(values, type=pa.string())


def null_mask(column: Any) -> Mask | None:
    """Which values are null; None if none is."""
    return bits(column.is_null()) if column.null_count else None


def bits(column: Any) -> Mask:
    """The values of an array of truth values; of nulls, anything."""
    if not len(column):
        return np.zeros(0, dtype=np.bool_)
    packed = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    return np.unpackbits(packed, count=column.offset + len(column), bitorder="little")[column.offset :].view(
        np.bool_
    )


def stored(column: Any) -> Array:
    """The numbers of an array as they are stored, to be read only; of nulls, anything."""
    kind = _NUMPY_TYPES[column.type.id]
    if not len(column):
        return np.zeros(0, dtype=kind)
    first = column.offset * kind.itemsize
    return np.frombuffer(column.buffers()[1], dtype=kind, count=len(column), offset=first)


_NUMPY_TYPES: dict[int, Any] = {
    **{
        getattr(pa, name)().id: np.dtype(name)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    **{getattr(pa, name)().id: np.dtype(name) for name in ("float16", "float32", "float64")},
    **{kind.id: np.dtype(np.int32) for kind in (pa.date32(), pa.time32("s"))},
    **{kind.id: np.dtype(np.int64) for kind in (pa.date64(), pa.time64("us"), pa.timestamp("s"))},
}


def is_text_type(kind: Any) -> bool:
    """Whether a type is one of texts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_temporal(kind: Any) -> bool:
    """Whether a type is one of dates, times of day or moments."""
    return pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)


def readable_texts(column: Any) -> tuple[Any, Mask | None]:
    """Texts as large binary, and which of them are not UTF-8; None if all are.

    Those come as nulls.
    """
    if pa.types.is_string_view(column.type):
        texts = column.cast(pa.binary_view()).cast(pa.large_binary())
    elif pa.types.is_string(column.type):
        texts = column.view(pa.binary()).cast(pa.large_binary())
    else:
        texts = column.view(pa.large_binary())
    try:
        texts.view(pa.large_string()).validate(full=True)
    except pa.ArrowInvalid:
        values = texts.to_pylist()
        is_wrong = np.array([value is not None and not _is_utf8(value) for value in values], dtype=np.bool_)
        kept = [None if wrong else value for value, wrong in zip(values, is_wrong, strict=True)]
        return pa.array(kept, type=pa.large_binary()), is_wrong
    return texts, None


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def python_values(column: Any) -> list[Any]:
    """The values of an array as Python objects, text as bytes; NOWHERE where Python has none.

    Guarantee:
        No value raises: times are made from the stored numbers, within their ranges.
    """
    kind = column.type
    if not is_temporal(kind):
        if pa.types.is_float32(kind) or pa.types.is_float16(kind):
            # A narrow float is written out by the digits that tell it from its neighbours.
            return [_narrow(value) for value in stored(column)]
        return list(column.to_pylist())
    made = _MAKERS[kind.id](kind)
    return [made(value) for value in stored(column).tolist()]


def _narrow(value: Any) -> Any:
    """A narrow float as a float64, which is written out by the digits of the narrow one."""
    number = float(value)
    return number if number != number or abs(number) == math.inf else _Digits(number, str(value))


class _Digits(float):
    """A float64 that is written out as the narrow float it comes from."""

    def __new__(cls, number: float, text: str) -> _Digits:
        made = super().__new__(cls, number)
        made._text = text
        return made

    _text: str

    def __str__(self) -> str:
        return self._text


def _date_maker(kind: Any) -> Callable[[int], Any]:
    per_day = 1 if pa.types.is_date32(kind) else SECONDS_OF_DAY * 1000

    def made(value: int) -> Any:
        day = value // per_day
        return (datetime(1970, 1, 1) + timedelta(day)).date() if FIRST_DAY <= day <= LAST_DAY else NOWHERE

    return made


def _moment_maker(kind: Any) -> Callable[[int], Any]:
    unit = UNITS_PER_SECOND[kind.unit]
    origin = datetime(1970, 1, 1, tzinfo=None if kind.tz is None else UTC)

    def made(value: int) -> Any:
        second, rest = divmod(value, unit)
        if not FIRST_SECOND <= second <= LAST_SECOND:
            return NOWHERE
        return origin + timedelta(seconds=second, microseconds=rest * 10**6 // unit)

    return made


def _time_maker(kind: Any) -> Callable[[int], Any]:
    unit = UNITS_PER_SECOND[kind.unit]

    def made(value: int) -> Any:
        second, rest = divmod(value, unit)
        if not 0 <= second < SECONDS_OF_DAY:
            return NOWHERE
        return time(second // 3600, second // 60 % 60, second % 60, rest * 10**6 // unit)

    return made


_MAKERS: dict[int, Callable[[Any], Callable[[int], Any]]] = {
    **{kind.id: _date_maker for kind in (pa.date32(), pa.date64())},
    **{kind.id: _time_maker for kind in (pa.time32("s"), pa.time64("us"))},
    pa.timestamp("s").id: _moment_maker,
}
