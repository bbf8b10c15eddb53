"""Whole numbers."""

from __future__ import annotations

import bisect
import math
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from leastnoise.core.errors import QueryError, SchemaError
from leastnoise.query.schema.attribute import Attribute, Mask, Value
from leastnoise.query.schema.numbers_in_text import is_number, whole_of


@dataclass(frozen=True, init=False, repr=False)
class Integers(Attribute):
    """Whole numbers, written as a Python range: ``range(116)`` is 0 to 115.

    Args:
        values: the numbers, upwards; a bare range in a schema means the same.
        outside: "drop", "clamp" or "other"; a number that is not whole is never clamped.
        null: "drop" or "other".
        other: the label of one more cell.

    Example:
        >>> Integers(range(116), outside="clamp", null="other", other="unknown").size
        117
    """

    values: range

    kind: ClassVar[str] = "range"
    has_ends: ClassVar[bool] = True

    def __init__(
        self, values: range, *, outside: str | None = None, null: str = "drop", other: str | None = None
    ) -> None:
        if not isinstance(values, range):
            raise SchemaError(f"whole numbers are declared as a range, got {type(values).__name__}")
        start, stop, step = values.start, values.stop, values.step
        if step < 1 or stop <= start:
            raise SchemaError(f"a range of values must run upwards and hold at least one, got {values}")
        # One cell less than an index can count, for the other cell.
        if (stop - start - 1) // step >= sys.maxsize - (other is not None):
            raise SchemaError(f"a range holds at most {sys.maxsize:,} values, got {values}; use Bins")
        # Ranges that hold the same numbers are equal; written alike, they also have one digest.
        last = values[-1]
        object.__setattr__(self, "values", range(start, last + 1, step if last > start else 1))
        self._set_policies(outside, null, other)

    @property
    def n_values(self) -> int:
        return len(self.values)

    def span_label(self, first: int, last: int) -> str:
        if last == self.n_values:
            own = "" if first == last else f"{self.span_label(first, last - 1)} or "
            return f"{own}{self.other}"
        low, high = self.values[first], self.values[last]
        return str(low) if low == high else f"{low}–{high}"

    def prefix_label(self, i: int) -> str:
        if i == self.n_values:
            return f"{self.prefix_label(i - 1)} or {self.other}"
        return f"up to {self.values[i]}"

    def span(self, low: Value, high: Value) -> tuple[int, int] | None:
        """The indices of the values low to high, both included, or None if there are none."""
        if not (is_number(low) and is_number(high)):
            return None
        first = bisect.bisect_left(self.values, low)
        last = bisect.bisect_right(self.values, high) - 1
        return (first, last) if first <= last else None

    def numbers(self) -> list[int]:
        self._check_listable("a range")
        return list(self.values)

    def _names(self, text: str) -> bool:
        number = whole_of(text)
        return number is not None and str(number) == text and number in self.values

    def _position(self, value: Any) -> int | None:
        if not is_number(value) or abs(value) == math.inf or value != int(value):
            return None
        return self.values.index(int(value)) if int(value) in self.values else None

    def _placed(self, value: Any) -> int | None:
        number = whole_of(value)
        if number is None:
            return None
        if self.outside == "clamp":
            number = min(max(number, self.values[0]), self.values[-1])
        return self._position(number)

    def _compared(self, name: str, sign: str, value: Any) -> Mask:
        if not is_number(value):
            raise QueryError(
                f"{name!r} holds whole numbers and is compared with a number, got {value!r}{self._or_other()}"
            )
        below, upto = bisect.bisect_left(self.values, value), bisect.bisect_right(self.values, value)
        start, stop = {
            "==": (below, upto),
            "!=": (below, upto),
            "<": (0, below),
            "<=": (0, upto),
            ">": (upto, None),
            ">=": (below, None),
        }[sign]
        mask = np.zeros(self.n_values, dtype=bool)
        mask[start:stop] = True
        return ~mask if sign == "!=" else mask

    def _values_to_plain(self) -> list[int]:
        return [self.values.start, self.values.stop, self.values.step]

    def _shown(self) -> str:
        return repr(self.values)
