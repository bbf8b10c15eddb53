"""Which cell a value belongs to: one elementwise function over a batch of raw Arrow columns.

`Placer` is the only judge of values in this package. It sees one column of one batch and nothing else: no
statistics of the table, no other column, no record that was read before. What it gives for a value follows
from that value and the declared attribute alone, and `Attribute.place` says what that is, one value at a
time. Every value of every type has a code, and none raises or warns.

Most values are placed by NumPy and PyArrow, all of a column at once. Whether a value is, follows from its
type and itself; the rest are placed one by one by `Attribute.place`, each different value once:

    whole numbers   by arithmetic, or a table of all of them where these have eight bits
    floats, bins    by comparisons of float64
    days            by arithmetic on the stored numbers, however far they lie
    text            among the declared texts by their bytes; plain numbers after one pattern has matched
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leastnoise.data.arrow_values import (
    FIRST_DAY,
    LAST_DAY,
    NOWHERE,
    UNITS_PER_SECOND,
    Array,
    Mask,
    bits,
    is_temporal,
    is_text_type,
    null_mask,
    plain_array,
    python_values,
    readable_texts,
    stored,
)
from leastnoise.query import (
    FIRST_SECOND,
    LAST_SECOND,
    SECONDS_OF_DAY,
    Attribute,
    Bins,
    Integers,
    Periods,
)

# Different values whose codes are kept for the batches to come, at most: what they take, some 10 MB, does
# not grow with the table.
_MAX_KEPT = 2**16
# Bytes of a text that is kept, at most.
_MAX_KEPT_BYTES = 256

# Text that is a number whatever else is declared: at most 15 digits, which a float64 tells apart.
_PLAIN_WHOLE = r"^-?[0-9]{1,15}$"
_PLAIN_NUMBER = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
# A moment without an offset, as databases write it; its first ten letters are its day.
_PLAIN_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?$"


class Placer:
    """Gives the codes of the values of one attribute, column by column.

    A code is the number of a cell, or `none` for a value that no cell takes.

    Attributes:
        none: the code of records that are left out, one above those of all cells.
        code_type: the narrowest type of whole numbers that holds every code.
    """

    def __init__(self, attribute: Attribute) -> None:
        self.none = attribute.size
        self.code_type = code_type(attribute.size)
        self._attribute = attribute
        self._outside = attribute.n_values if attribute.outside == "other" else self.none
        self._null = attribute.n_values if attribute.null == "other" else self.none
        self._is_clamped = attribute.outside == "clamp"
        # Codes by value, and those of the last dictionary: both only save work.
        self._kept: dict[Any, int] = {}
        self._last: tuple[Any, Array] | None = None
        self._by_byte: dict[Any, Array] = {}

    def __call__(self, column: Any) -> Array:
        """The code of every value of an Arrow array, shape (n,).

        Guarantee:
            The code of a value depends on the value, its type and the attribute alone. No value raises or
            warns.
        """
        # A signalling NaN would warn in any operation.
        with np.errstate(all="ignore"):
            return self._of_column(plain_array(column))

    def _of_column(self, column: Any) -> Array:
        if pa.types.is_null(column.type):
            return np.full(len(column), self._null, dtype=self.code_type)
        if pa.types.is_dictionary(column.type):
            return self._in_dictionary(column)
        codes = self._of_values(column)
        is_null = null_mask(column)
        if is_null is not None:
            codes[is_null] = self._null
        return codes

    def _in_dictionary(self, column: Any) -> Array:
        listed = column.dictionary
        if self._last is None or _memory_of(self._last[0]) != _memory_of(listed):
            # The code of a null index comes last. The dictionary is held: no other comes to lie there.
            codes = np.append(self(listed), np.array([self._null], dtype=self.code_type))
            self._last = (listed, codes)
        index = stored(column.indices).astype(np.int64)
        is_null = null_mask(column.indices)
        if is_null is not None:
            index[is_null] = len(listed)
        return self._last[1][index]

    def _of_values(self, column: Any) -> Array:
        """The codes of values that are there; of nulls, anything."""
        kind, own = column.type, self._attribute
        if is_text_type(kind):
            return self._of_texts(column)
        if pa.types.is_boolean(kind):
            both = np.array([self._placed(False), self._placed(True)], dtype=self.code_type)
            return both[bits(column).astype(np.int8)]
        if kind.bit_width == 8 and pa.types.is_integer(kind):
            return self._in_bytes(kind)[stored(column).view(np.uint8)]
        if is_temporal(kind):
            return self._of_times(column)
        if own.clean is None and pa.types.is_integer(kind):
            return self._of_integers(column)
        if own.clean is None and pa.types.is_floating(kind):
            return self._of_floats(column)
        if own.clean is None and _is_small_decimal(kind) and isinstance(own, (Bins, Integers)):
            return self._of_decimals(column)
        return self._one_by_one(column)

    # ---------------------------------------------------------------- numbers

    def _in_bytes(self, kind: Any) -> Array:
        """The codes of all 256 values of a type of eight bits, by the value of the byte."""
        if kind not in self._by_byte:
            every = pa.array(np.arange(256, dtype=np.uint8).view(kind.to_pandas_dtype()))
            self._by_byte[kind] = (
                self._of_integers(every) if self._attribute.clean is None else self._one_by_one(every)
            )
        return self._by_byte[kind]

    def _of_integers(self, column: Any) -> Array:
        own, x = self._attribute, stored(column)
        if isinstance(own, Bins):
            return self._in_bins(x.astype(np.float64))
        if isinstance(own, Integers) and _fits(own.values[0]) and _fits(own.values[-1]):
            if x.dtype == np.uint64:
                # Beyond 63 bits all are above every declared number.
                is_far = x > np.uint64(2**63 - 1)
                codes = self._in_range(np.where(is_far, np.uint64(0), x).astype(np.int64))
                codes[is_far] = own.n_values - 1 if self._is_clamped else self._outside
                return codes
            return self._in_range(x.astype(np.int64, copy=False))
        if not isinstance(own, (Integers, Periods)) and x.dtype != np.uint64:
            values, codes = self._integers_named
            return self._looked_up(x.astype(np.int64, copy=False), values, codes)
        return self._one_by_one(column)

    def _in_range(self, x: npt.NDArray[np.int64]) -> Array:
        """The codes of whole numbers among those of a range."""
        own = self._attribute
        assert isinstance(own, Integers)
        low, high, step = own.values[0], own.values[-1], own.values.step
        if self._is_clamped:
            x = np.clip(x, low, high)
        # What is below the range wraps to far above it: one comparison tells both.
        steps = (x - np.int64(low)).view(np.uint64)
        is_outside = steps > np.uint64(high - low)
        if step > 1:
            steps, rest = np.divmod(steps, np.uint64(step))
            is_outside |= rest != 0
        codes = np.minimum(steps, np.uint64(own.n_values - 1)).astype(self.code_type)
        codes[is_outside] = self._outside
        return codes

    @cached_property
    def _integers_named(self) -> tuple[Array, Array]:
        """The whole numbers of 64 bits that are names, in order, and their codes: 7 is the text "7" too."""
        names = self._attribute.compared  # type: ignore[attr-defined]
        pairs = []
        for code, name in enumerate(names):
            if isinstance(name, str):
                digits = name.removeprefix("-")
                is_whole = digits.isascii() and digits.isdigit() and len(digits) <= 19
                if not is_whole or str(int(name)) != name:
                    continue
            if _fits(int(name)):
                pairs.append((int(name), code))
        return _sorted_pairs(pairs, np.int64, self.code_type)

    @cached_property
    def _floats_named(self) -> tuple[Array, Array]:
        """The declared whole numbers that are a float64 exactly, in order, and their codes."""
        names = self._attribute.compared  # type: ignore[attr-defined]
        exact = [(float(name), code) for code, name in enumerate(names) if _is_float(name)]
        return _sorted_pairs(exact, np.float64, self.code_type)

    def _looked_up(self, x: Array, values: Array, codes: Array) -> Array:
        """The codes of numbers among some in order; NaN equals none."""
        if not len(values):
            return np.full(len(x), self._outside, dtype=self.code_type)
        place = np.minimum(np.searchsorted(values, x), len(values) - 1)
        return np.where(values[place] == x, codes[place], self.code_type(self._outside))

    def _of_floats(self, column: Any) -> Array:
        own, number = self._attribute, stored(column)
        is_nan = number != number
        if isinstance(own, Bins):
            codes = self._in_bins(number.astype(np.float64))
        elif isinstance(own, Integers) and max(abs(own.values[0]), abs(own.values[-1])) < 2**53:
            codes = self._in_range_as_float(number.astype(np.float64))
        elif not isinstance(own, (Integers, Periods)) and not own.is_text:  # type: ignore[attr-defined]
            codes = self._looked_up(number.astype(np.float64), *self._floats_named)
        else:
            codes = self._one_by_one(column)
        codes[is_nan] = self._null
        return codes

    def _in_range_as_float(self, x: npt.NDArray[np.float64]) -> Array:
        """The codes of floats among the whole numbers of a range, all of them below 2^53 in size."""
        own = self._attribute
        assert isinstance(own, Integers)
        # Infinity is no whole number, and of what is as large every float is one.
        is_whole = (np.floor(x) == x) & (np.abs(x) < math.inf)
        held = np.clip(np.where(is_whole, x, 0.0), float(own.values[0]), float(own.values[-1]))
        codes = self._in_range(held.astype(np.int64))
        if not self._is_clamped:
            codes[held != x] = self._outside
        codes[~is_whole] = self._outside
        return codes

    def _in_bins(self, x: npt.NDArray[np.float64]) -> Array:
        """The codes of float64s in bins; of NaN, anything."""
        edges, n = self._edges, self._attribute.n_values
        if n <= 12:
            # A comparison for each edge takes less than a search among few.
            found = np.zeros(len(x), dtype=np.int8)
            for edge in edges[1:-1]:
                found += x >= edge
        else:
            found = np.searchsorted(edges[1:-1], x, side="right")  # type: ignore[assignment]
        codes = found.astype(self.code_type)
        if not self._is_clamped:
            # The last edge is outside, but for a declared infinity.
            is_open = self._attribute.edges[-1] == math.inf  # type: ignore[attr-defined]
            is_inside = (x >= edges[0]) & ((x < edges[-1]) | is_open)
            codes[~is_inside] = self._outside
        return codes

    @cached_property
    def _edges(self) -> npt.NDArray[np.float64]:
        assert isinstance(self._attribute, Bins)
        return np.array([least_float(edge) for edge in self._attribute.edges])

    def _of_decimals(self, column: Any) -> Array:
        """The codes of decimals in bins or a range, by their digits where these fit into 64 bits."""
        if not len(column):
            return self._nowhere(column)
        scale, n = column.type.scale, len(column)
        words = np.frombuffer(column.buffers()[1], dtype=np.int64, count=2 * n, offset=16 * column.offset)
        low, high = words.reshape(n, 2).T
        # Of 15 digits at most: a float64 holds them, and one division rounds as reading the text does.
        is_small = (high == low >> 63) & (low < 10**15) & (low > -(10**15))
        digits = np.where(is_small, low, 0)
        if isinstance(self._attribute, Bins):
            codes = self._in_bins(digits / np.float64(10**scale))
        else:
            whole, rest = np.divmod(digits, 10**scale)
            codes = self._of_integers(pa.array(whole))
            codes[rest != 0] = self._outside
        return self._rest_one_by_one(column, codes, ~is_small)

    # ---------------------------------------------------------------- time

    def _of_times(self, column: Any) -> Array:
        own, kind = self._attribute, column.type
        if isinstance(own, Periods) and own.clean is None:
            return (
                self._of_days(*days_of(column, own.offsets))
                if not pa.types.is_time(kind)
                else self._nowhere(column)
            )
        return self._one_by_one(column)

    def _of_days(self, days: npt.NDArray[np.int64], is_date: Mask) -> Array:
        """The codes of days among periods; no day that the calendar lacks is clamped."""
        own = self._attribute
        assert isinstance(own, Periods)
        starts, n = self._starts, own.n_values
        place = np.searchsorted(starts, days, side="right") - 1
        codes = np.clip(place, 0, n - 1).astype(self.code_type)
        if not self._is_clamped:
            codes[(place < 0) | (place >= n)] = self._outside
        codes[~is_date] = self._outside
        return codes

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        assert isinstance(self._attribute, Periods)
        return np.array(self._attribute.starts, dtype=np.int64)

    def _nowhere(self, column: Any) -> Array:
        return np.full(len(column), self._outside, dtype=self.code_type)

    # ---------------------------------------------------------------- text

    def _of_texts(self, column: Any) -> Array:
        """The codes of texts; one that is not UTF-8 is a null."""
        own, (texts, is_wrong) = self._attribute, readable_texts(column)
        if own.clean is not None:
            codes = self._distinct_one_by_one(texts)
        elif isinstance(own, Periods):
            codes = self._distinct_one_by_one(_without_times(texts))
        elif isinstance(own, (Bins, Integers)) or not own.is_text:  # type: ignore[attr-defined]
            codes = self._of_numerals(texts)
        else:
            listed, known = self._texts_named
            index = pc.index_in(texts, value_set=listed).fill_null(len(known) - 1)
            codes = known[index.to_numpy(zero_copy_only=False)]
        if is_wrong is not None:
            codes[is_wrong] = self._null
        return codes

    @cached_property
    def _texts_named(self) -> tuple[Any, Array]:
        """The declared texts as bytes, and their codes with that of any other text behind."""
        names = [str(name).encode("utf-8", "surrogatepass") for name in self._attribute.compared]  # type: ignore[attr-defined]
        return pa.array(names, type=pa.large_binary()), np.array(
            [*range(len(names)), self._outside], dtype=self.code_type
        )

    def _of_numerals(self, texts: Any) -> Array:
        """The codes of texts that may be numbers: of those that differ, plain ones all at once."""
        coded = texts.dictionary_encode()
        listed = coded.dictionary
        is_bins = isinstance(self._attribute, Bins)
        pattern, kind = (_PLAIN_NUMBER, pa.float64()) if is_bins else (_PLAIN_WHOLE, pa.int64())
        is_plain = bits(pc.match_substring_regex(listed, pattern))
        plain = pc.if_else(pa.array(is_plain), listed, pa.scalar(b"0", listed.type)).cast(pa.large_string())
        numbers = plain.cast(kind)
        codes = self._in_bins(stored(numbers)) if is_bins else self._of_integers(numbers)
        codes = self._rest_one_by_one(listed, codes, ~is_plain)
        return codes[stored(coded.indices.fill_null(0))] if len(listed) else self._nowhere(texts)

    def _distinct_one_by_one(self, texts: Any) -> Array:
        coded = texts.dictionary_encode()
        if not len(coded.dictionary):
            return self._nowhere(texts)
        codes = self._rest_one_by_one(coded.dictionary, np.zeros(len(coded.dictionary), self.code_type), None)
        return codes[stored(coded.indices.fill_null(0))]

    # ---------------------------------------------------------------- one value at a time

    def _one_by_one(self, column: Any) -> Array:
        """The codes of values that only Python reads, each different one once."""
        return self._rest_one_by_one(column, np.zeros(len(column), dtype=self.code_type), None)

    def _rest_one_by_one(self, column: Any, codes: Array, which: Mask | None) -> Array:
        """The codes, with those of some values (all by default) found one by one."""
        places = np.arange(len(column)) if which is None else np.flatnonzero(which)
        if not len(places):
            return codes
        chosen = column if which is None else column.take(pa.array(places))
        kind = str(column.type)
        read, own = python_values(chosen), []
        for value in read:
            key = (kind, type(value), value)
            code = self._kept.get(key)
            if code is None:
                code = self._placed(value)
                if not isinstance(value, bytes) or len(value) <= _MAX_KEPT_BYTES:
                    if len(self._kept) >= _MAX_KEPT:
                        self._kept.clear()
                    self._kept[key] = code
            own.append(code)
        codes[places] = own
        return codes

    def _placed(self, value: Any) -> int:
        """The code of one value; text comes as the bytes of UTF-8."""
        if value is NOWHERE:
            return self._outside
        cell = self._attribute.place(value.decode() if isinstance(value, bytes) else value)
        return self.none if cell is None else cell


def code_type(size: int) -> Any:
    """The narrowest type of whole numbers that holds the codes of this many cells, and none."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32, np.int64) if size <= np.iinfo(kind).max)


def _memory_of(column: Any) -> tuple[Any, ...]:
    """What two arrays share only if they are the same memory, while one of them is held."""
    buffers = tuple(0 if buffer is None else buffer.address for buffer in column.buffers())
    return (str(column.type), column.offset, len(column), buffers)


# ------------------------------------------------------------------ days


def _without_times(texts: Any) -> Any:
    """Texts with only their day where they are a moment without an offset."""
    is_moment = pc.match_substring_regex(texts, _PLAIN_MOMENT)
    return pc.if_else(is_moment, pc.binary_slice(texts, 0, 10), texts)


def days_of(column: Any, offsets: Sequence[tuple[int, int]] | None) -> tuple[npt.NDArray[np.int64], Mask]:
    """The days of dates and timestamps since 1970-01-01, and which of them are within the calendar.

    Args:
        offsets: what the clocks of the declared zone are ahead of UTC, for moments; None without a zone.
    """
    kind, x = column.type, stored(column)
    if pa.types.is_date32(kind):
        days = x.astype(np.int64)
    elif pa.types.is_date64(kind):
        days = x // (SECONDS_OF_DAY * 1000)
    elif kind.tz is None:
        days = x // (SECONDS_OF_DAY * UNITS_PER_SECOND[kind.unit])
    elif offsets is None:
        return np.zeros(len(x), dtype=np.int64), np.zeros(len(x), dtype=np.bool_)
    else:
        second = x // UNITS_PER_SECOND[kind.unit]
        is_date = (second >= FIRST_SECOND) & (second <= LAST_SECOND)
        starts, ahead = (np.array(column, dtype=np.int64) for column in zip(*offsets, strict=True))
        step = np.maximum(np.searchsorted(starts, second, side="right") - 1, 0)
        return (np.where(is_date, second, 0) + ahead[step]) // SECONDS_OF_DAY, is_date
    return days, (days >= FIRST_DAY) & (days <= LAST_DAY)


# ------------------------------------------------------------------ numbers


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _is_float(number: int) -> bool:
    """Whether a whole number is a float64 exactly."""
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _is_small_decimal(kind: Any) -> bool:
    """Whether decimals are stored in 128 bits, with at most 15 digits behind the point."""
    return pa.types.is_decimal128(kind) and 0 <= kind.scale <= 15


def _sorted_pairs(pairs: list[tuple[Any, int]], kind: Any, code_type: Any) -> tuple[Array, Array]:
    pairs = sorted(pairs)
    values = np.array([value for value, _ in pairs], dtype=kind)
    return values, np.array([code for _, code in pairs], dtype=code_type)


def least_float(edge: float) -> float:
    """The least float64 not below an edge, which bounds the same floats."""
    if edge == -math.inf:
        return edge
    if abs(edge) > sys.float_info.max:
        return math.inf if edge > 0 else -sys.float_info.max
    nearest = float(edge)
    return nearest if nearest >= edge else math.nextafter(nearest, math.inf)
