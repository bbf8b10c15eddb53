"""Attributes that hold numbers: whole numbers, and intervals of a measured number."""

from __future__ import annotations

import bisect
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from leastnoise.core.errors import QueryError, SchemaError
from leastnoise.query.schema.attribute import (
    MAX_DIGITS,
    Attribute,
    Mask,
    Value,
    float_of,
    is_number,
    plain,
    whole_of,
)


@dataclass(frozen=True, init=False, repr=False)
class Integers(Attribute):
    """Whole numbers, written as a Python range: ``range(116)`` is 0 to 115.

    Args:
        values: the numbers, in increasing order; a bare range in a schema means the same.
        outside: where undeclared values go: "drop" leaves the record out, "clamp" counts it at the nearest
            end, "other" counts it in the other cell. By default "other" where there is such a cell, else
            "drop". A number that is not whole is never clamped.
        null: where nulls and NaN go: "drop" leaves the record out, "other" counts it in the other cell.
        other: the label of one more cell, for undeclared values, nulls or both; None for no such cell.
        clean: what is done to the text of a value before it is placed: a `Cleaning`, or a dict of its
            arguments. None for nothing.

    Example:
        >>> Integers(range(116), outside="clamp", null="other", other="unknown").size
        117
    """

    values: range

    kind: ClassVar[str] = "range"
    has_ends: ClassVar[bool] = True
    own_steps: ClassVar[tuple[str, ...]] = ("decimal", "thousands")

    def __init__(
        self,
        values: range,
        *,
        outside: str | None = None,
        null: str = "drop",
        other: str | None = None,
        clean: Any = None,
    ) -> None:
        if not isinstance(values, range):
            raise SchemaError.must("range", "be a range of whole numbers", given=type(values))
        start, stop, step = values.start, values.stop, values.step
        if step < 1 or stop <= start:
            raise SchemaError.must("range", "run upwards and hold at least one value", given=values)
        # One cell less than an index can count, for the other cell.
        if (stop - start - 1) // step >= sys.maxsize - (other is not None):
            raise SchemaError.must(
                "range", f"hold at most {sys.maxsize:,} values", given=values, remedy="use Bins"
            )
        if max(abs(start), abs(stop)) >= 10**MAX_DIGITS:
            raise SchemaError.must(
                "range", f"hold numbers of at most {MAX_DIGITS:,} digits", given="longer ones"
            )
        # Ranges that hold the same numbers are equal; written alike, they also have one digest.
        last = values[-1]
        object.__setattr__(self, "values", range(start, last + 1, step if last > start else 1))
        self._set_policies(outside, null, other, clean)

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
            raise QueryError.must(name, "be compared with a number", given=value, remedy=self._or_other())
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


@dataclass(frozen=True, init=False, repr=False)
class Bins(Attribute):
    """Intervals of a measured number: edges e₀ < e₁ < … give [e₀, e₁), [e₁, e₂), …

    Every interval includes its lower edge and excludes its upper edge, without exception. The first edge may
    be -inf and the last one inf: that end is then open, and includes the infinite values too.

    Where all edges are whole numbers and at least 2 apart, labels name the whole numbers
    inside, "17–24" for [17, 25): a fraction such as 24.5 is counted with 24. Other intervals
    are written half-open, as "[0.5, 1.5)".

    Args:
        edges: the edges, in increasing order.
        outside: where undeclared values go: "drop" leaves the record out, "clamp" counts it at the nearest
            end, "other" counts it in the other cell. By default "other" where there is such a cell, else
            "drop".
        null: where nulls and NaN go: "drop" leaves the record out, "other" counts it in the other cell.
        other: the label of one more cell, for undeclared values, nulls or both; None for no such cell.
        clean: what is done to the text of a value before it is placed: a `Cleaning`, or a dict of its
            arguments. None for nothing.

    Example:
        >>> bins = Bins([float("-inf"), 10, 80, float("inf")])
        >>> [bins.label(i) for i in range(bins.size)]
        ['below 10', '10–79', '80 or more']
    """

    edges: tuple[float, ...]

    kind: ClassVar[str] = "bins"
    has_ends: ClassVar[bool] = True
    own_steps: ClassVar[tuple[str, ...]] = ("decimal", "thousands")

    def __init__(
        self,
        edges: Sequence[float],
        *,
        outside: str | None = None,
        null: str = "drop",
        other: str | None = None,
        clean: Any = None,
    ) -> None:
        # A column of a table is neither: edges are public knowledge and never read from it.
        if not isinstance(edges, (Sequence, np.ndarray)) or isinstance(edges, (str, bytes)):
            raise SchemaError.must(
                "edges",
                "be a list, as in Bins([0, 18, 65])",
                given=type(edges),
                remedy="they are public knowledge and never read from the table",
            )
        given = [plain(edge) for edge in edges]
        object.__setattr__(self, "edges", tuple(_whole_as_int(edge) for edge in given))
        self._check()
        self._set_policies(outside, null, other, clean)

    def _check(self) -> None:
        if len(self.edges) < 2:
            raise SchemaError.must("edges", "be at least two", given=list(self.edges))
        for i, edge in enumerate(self.edges):
            if isinstance(edge, bool) or not isinstance(edge, (int, float)) or edge != edge:
                raise SchemaError.must("edges", "be finite numbers", given=edge)
            if abs(edge) == math.inf and i != (0 if edge < 0 else len(self.edges) - 1):
                raise SchemaError.must(
                    "edges", "be finite numbers, but for a first -inf and a last inf", given=edge
                )
        for low, high in zip(self.edges, self.edges[1:], strict=False):
            if not low < high:
                raise SchemaError.must("edges", "increase", given=(low, high))

    @property
    def n_values(self) -> int:
        return len(self.edges) - 1

    def span_label(self, first: int, last: int) -> str:
        if last == self.n_values:
            own = "" if first == last else f"{self.span_label(first, last - 1)} or "
            return f"{own}{self.other}"
        low, high = self.edges[first], self.edges[last + 1]
        if low == -math.inf:
            return "any number" if high == math.inf else f"below {high:,}"
        if high == math.inf:
            return f"{low:,} or more"
        return f"{low:,}–{high - 1:,}" if self._is_whole else f"[{low:,}, {high:,})"

    @cached_property
    def _is_whole(self) -> bool:
        """Whether labels name whole numbers; not between 0 and 1, where fractions are meant."""
        finite = [edge for edge in self.edges if abs(edge) != math.inf]
        is_wide = all(high - low >= 2 for low, high in pairwise(finite))
        return is_wide and all(isinstance(edge, int) for edge in finite)

    def prefix_label(self, i: int) -> str:
        if i == self.n_values:
            return f"{self.prefix_label(i - 1)} or {self.other}"
        if self.edges[i + 1] == math.inf:
            return self.span_label(0, i)
        return f"below {self.edges[i + 1]:,}"

    def span(self, low: Value, high: Value) -> tuple[int, int] | None:
        """The indices of the intervals that make up [low, high); both must be edges."""
        if low not in self.edges or high not in self.edges or not low < high:
            return None
        return self.edges.index(low), self.edges.index(high) - 1

    def _names(self, text: str) -> bool:
        return any(self.label(i) == text for i in range(self.n_values))

    def _position(self, value: Any) -> int | None:
        # Compared as given: Python compares whole numbers and floats exactly, float() would round.
        if not is_number(value):
            return None
        if value == self.edges[-1] == math.inf:
            return self.n_values - 1
        if not self.edges[0] <= value < self.edges[-1]:
            return None
        return bisect.bisect_right(self.edges, value) - 1

    def _placed(self, value: Any) -> int | None:
        number = float_of(value)
        if number is not None and self.outside == "clamp":
            return min(max(bisect.bisect_right(self.edges, number) - 1, 0), self.n_values - 1)
        return self._position(number)

    def _compared(self, name: str, sign: str, value: Any) -> Mask:
        wanted = f"be compared by >= or < with one of its edges, {listed_edges(self)}"
        if sign not in ("<", ">="):
            raise QueryError.must(name, wanted, given=sign, remedy=self._or_other())
        if not is_number(value) or (self.edges[0] < value < self.edges[-1] and value not in self.edges):
            raise QueryError.must(name, wanted, given=value)
        at_least = np.array([edge >= value for edge in self.edges[:-1]], dtype=bool)
        return at_least if sign == ">=" else ~at_least

    def _values_to_plain(self) -> list[float]:
        return list(self.edges)


def _whole_as_int(edge: Any) -> Any:
    """0.0 as 0, so that equal bins print alike and have one digest; above 1e16 floats print as 1e+16."""
    return int(edge) if isinstance(edge, float) and abs(edge) < 1e16 and edge == int(edge) else edge


def listed_edges(bins: Bins) -> str:
    """The first dozen edges, for a message."""
    return ", ".join(f"{edge:,}" for edge in bins.edges[:12]) + (", …" if len(bins.edges) > 12 else "")
