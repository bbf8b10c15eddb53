"""Named values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from leastnoise.core.errors import QueryError, SchemaError
from leastnoise.query.schema.attribute import Attribute, Mask, Value, compare_numbers, listed
from leastnoise.query.schema.numbers_in_text import is_number, plain, text_of, whole_of


@dataclass(frozen=True, init=False, repr=False)
class Named(Attribute):
    """Values known by name, all text or all whole numbers: categories, or the leaves of a hierarchy."""

    values: tuple[Value, ...]

    @property
    def n_values(self) -> int:
        return len(self.values)

    @cached_property
    def _index(self) -> dict[Value, int]:
        return {value: i for i, value in enumerate(self.values)}

    @property
    def is_text(self) -> bool:
        """Whether the values are text; else they are whole numbers."""
        return isinstance(self.values[0], str)

    def span_label(self, first: int, last: int) -> str:
        return self.label(first) if first == last else f"{self.label(first)} to {self.label(last)}"

    def label(self, i: int) -> str:
        """What people call cell i."""
        return str(self.values[i]) if i < self.n_values else str(self.other)

    def prefix_label(self, i: int) -> str:
        return f"up to {self.label(i)}"

    def span(self, low: Value, high: Value) -> tuple[int, int] | None:
        """The indices from one named value to another, both included."""
        first, last = self.position(low), self.position(high)
        return None if first is None or last is None or first > last else (first, last)

    def _names(self, text: str) -> bool:
        return any(str(value) == text for value in self.values)

    def _position(self, value: Any) -> int | None:
        if isinstance(value, bool) or not (isinstance(value, str) or is_number(value)):
            return None
        return self._index.get(value)

    def _placed(self, value: Any) -> int | None:
        read = text_of(value) if self.is_text else whole_of(value)
        return None if read is None else self._index.get(read)


@dataclass(frozen=True, init=False, repr=False)
class Categories(Named):
    """Named values in the order given; with ``other=`` one more cell takes every value not named.

    Args:
        values: all text or all whole numbers, in a list.
        other: the label of one more cell.
        outside: "drop" or "other".
        null: "drop" or "other".

    Example:
        >>> Categories(["F", "M"], null="other", other="unknown").size
        3
    """

    kind: ClassVar[str] = "categories"

    def __init__(
        self,
        values: Sequence[Value],
        other: str | None = None,
        *,
        outside: str | None = None,
        null: str = "drop",
    ) -> None:
        if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
            raise SchemaError(
                f"categories must be written out in a list, as in Categories(['F', 'M']), got "
                f"{type(values).__name__}; they are public knowledge and never read from the table"
            )
        object.__setattr__(self, "values", checked_names([plain(value) for value in values], "categories"))
        self._set_policies(outside, null, other)

    def numbers(self) -> list[int] | None:
        return None if self.is_text else [int(value) for value in self.values]

    def _compared(self, name: str, sign: str, value: Any) -> Mask:
        if sign in ("==", "!="):
            found = self._position(value)
            if found is None:
                raise QueryError(
                    f"{name!r} is compared with one of its values, {listed(self.values)}, got "
                    f"{value!r}{self._or_other()}"
                )
            mask = np.arange(self.n_values) == found
            return mask if sign == "==" else ~mask
        if self.is_text:
            raise QueryError(f"{name!r} holds names, which have no order: use == or !=, not {sign}")
        if not is_number(value):
            raise QueryError(f"{name!r} holds whole numbers and is compared with a number, got {value!r}")
        # One by one in Python, where numbers beyond 64 bits compare exactly.
        return np.array([compare_numbers(sign, own, value) for own in self.values], dtype=bool)

    def _values_to_plain(self) -> list[Value]:
        return list(self.values)


def checked_names(values: Sequence[Any], what: str) -> tuple[Value, ...]:
    """The values, if they are all text or all whole numbers and differ."""
    if not values:
        raise SchemaError(f"a list of {what} must hold at least one")
    kinds = {type(value) for value in values}
    if not (kinds <= {str} or kinds <= {int}):
        raise SchemaError(
            f"{what} must be all text or all whole numbers, got "
            f"{sorted(kind.__name__ for kind in kinds)}; use Bins for measured numbers"
        )
    seen: set[Value] = set()
    for value in values:
        if value in seen:
            raise SchemaError(f"{what} must differ, {value!r} appears twice")
        seen.add(value)
    return tuple(values)
