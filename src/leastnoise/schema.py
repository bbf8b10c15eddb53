"""What a table is declared to hold: attributes, their values, and the cells these make.

A schema is public. It is written down by the publisher and never read from the
data, because a value that appears only when somebody has it would tell on them.

    Schema(age=range(116), sex=("F", "M"), income=Bins([0, 10_000, 50_000]))

A record belongs to one cell: one value of every attribute, the last attribute
fastest. A record with a value outside the declared ones, or none at all, is
dropped, and nothing ever says how many were.
"""

from __future__ import annotations

import bisect
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeGuard

from leastnoise.errors import SchemaError

Value = str | int | float


@dataclass(frozen=True)
class IntegerRange:
    """Whole numbers, written as a Python range: ``range(116)`` is 0 to 115."""

    values: range

    def __post_init__(self) -> None:
        start, stop, step = self.values.start, self.values.stop, self.values.step
        if step < 1 or stop <= start:
            raise SchemaError(f"a range of values must run upwards and hold at least one, got {self.values}")
        if (stop - start - 1) // step >= sys.maxsize:
            raise SchemaError(f"a range holds at most {sys.maxsize:,} values, got {self.values}; use Bins")
        # Ranges that hold the same numbers are equal; written alike, they also have one digest.
        last = self.values[-1]
        object.__setattr__(self, "values", range(start, last + 1, step if last > start else 1))

    @property
    def size(self) -> int:
        """The number of cells this attribute has."""
        return len(self.values)

    def label(self, i: int) -> str:
        """What people call value i."""
        return str(self.values[i])

    def span_label(self, first: int, last: int) -> str:
        """What people call values first to last together."""
        return self.label(first) if first == last else f"{self.label(first)}–{self.label(last)}"

    def prefix_label(self, i: int) -> str:
        """What people call everything up to value i."""
        return f"up to {self.label(i)}"

    def position(self, value: Value) -> int | None:
        """The index of a value, or None if it is not declared."""
        if not _is_number(value) or value in (math.inf, -math.inf) or value != int(value):
            return None
        return self.values.index(int(value)) if int(value) in self.values else None

    def span(self, low: Value, high: Value) -> tuple[int, int] | None:
        """The indices of the values low to high, both included, or None if there are none."""
        if not (_is_number(low) and _is_number(high)):
            return None
        first = bisect.bisect_left(self.values, low)
        last = bisect.bisect_right(self.values, high) - 1
        return (first, last) if first <= last else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `Schema.from_dict` reads back."""
        return {"range": [self.values.start, self.values.stop, self.values.step]}


@dataclass(frozen=True)
class Categories:
    """Named values in the order given; with ``other=`` one more cell takes every value not named."""

    values: tuple[Value, ...]
    other: str | None = None

    def __init__(self, values: Sequence[Value], other: str | None = None) -> None:
        if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
            raise SchemaError(
                f"categories must be written out in a list, as in Categories(['F', 'M']), got "
                f"{type(values).__name__}; they are public knowledge and never read from the table"
            )
        object.__setattr__(self, "values", tuple(_plain(value) for value in values))
        object.__setattr__(self, "other", other)
        self._check()

    def _check(self) -> None:
        if not self.values:
            raise SchemaError("a list of categories must hold at least one")
        kinds = {type(value) for value in self.values}
        if not (kinds <= {str} or kinds <= {int}):
            raise SchemaError(
                "categories must be all text or all whole numbers, got "
                f"{sorted(kind.__name__ for kind in kinds)}; use Bins for measured numbers"
            )
        seen: set[Value] = set()
        for value in self.values:
            if value in seen:
                raise SchemaError(f"categories must differ, {value!r} appears twice")
            seen.add(value)
        if self.other is not None and (not isinstance(self.other, str) or self.other in seen):
            raise SchemaError(f"other= is the name of a further category, got {self.other!r}")

    @property
    def size(self) -> int:
        """The number of cells this attribute has."""
        return len(self.values) + (self.other is not None)

    def label(self, i: int) -> str:
        """What people call value i."""
        return str(self.values[i]) if i < len(self.values) else str(self.other)

    def span_label(self, first: int, last: int) -> str:
        """What people call values first to last together."""
        return self.label(first) if first == last else f"{self.label(first)} to {self.label(last)}"

    def prefix_label(self, i: int) -> str:
        """What people call everything up to value i."""
        return f"up to {self.label(i)}"

    def position(self, value: Value) -> int | None:
        """The index of a value, or None if it is not declared."""
        if self.other is not None and value == self.other:
            return len(self.values)
        if isinstance(value, bool) or value not in self.values:
            return None
        return self.values.index(value)

    def span(self, low: Value, high: Value) -> tuple[int, int] | None:
        """The indices from one named category to another, both included."""
        first, last = self.position(low), self.position(high)
        return None if first is None or last is None or first > last else (first, last)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `Schema.from_dict` reads back."""
        return {"categories": list(self.values)} | ({} if self.other is None else {"other": self.other})


@dataclass(frozen=True)
class Bins:
    """Intervals of a measured number: edges e₀ < e₁ < … give [e₀, e₁), [e₁, e₂), …

    Every interval holds its lower edge and not its upper one, without exception.
    """

    edges: tuple[float, ...]

    def __init__(self, edges: Sequence[float]) -> None:
        try:
            given = [_plain(edge) for edge in edges]
        except TypeError:
            raise SchemaError(f"bins need a list of edges, as in Bins([0, 18, 65]), got {edges!r}") from None
        object.__setattr__(self, "edges", tuple(_whole_as_int(edge) for edge in given))
        self._check()

    def _check(self) -> None:
        if len(self.edges) < 2:
            raise SchemaError(f"bins need at least two edges, got {list(self.edges)}")
        for edge in self.edges:
            if isinstance(edge, bool) or not isinstance(edge, (int, float)) or not abs(edge) < math.inf:
                raise SchemaError(f"bin edges must be finite numbers, got {edge!r}")
        for low, high in zip(self.edges, self.edges[1:], strict=False):
            if not low < high:
                raise SchemaError(f"bin edges must increase, got {low!r} before {high!r}")

    @property
    def size(self) -> int:
        """The number of cells this attribute has."""
        return len(self.edges) - 1

    def label(self, i: int) -> str:
        """What people call interval i."""
        return self.span_label(i, i)

    def span_label(self, first: int, last: int) -> str:
        """What people call intervals first to last together."""
        return f"[{self.edges[first]:,}, {self.edges[last + 1]:,})"

    def prefix_label(self, i: int) -> str:
        """What people call everything up to interval i."""
        return f"below {self.edges[i + 1]:,}"

    def position(self, value: Value) -> int | None:
        """The index of the interval that holds a value, or None."""
        # Compared as given: Python compares whole numbers and floats exactly, float() would round.
        if not _is_number(value) or not self.edges[0] <= value < self.edges[-1]:
            return None
        return bisect.bisect_right(self.edges, value) - 1

    def span(self, low: Value, high: Value) -> tuple[int, int] | None:
        """The indices of the intervals that make up [low, high); both must be edges."""
        if low not in self.edges or high not in self.edges or not low < high:
            return None
        return self.edges.index(low), self.edges.index(high) - 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `Schema.from_dict` reads back."""
        return {"bins": list(self.edges)}


Attribute = IntegerRange | Categories | Bins


class Schema:
    """The declared attributes of a table, in order.

    Example:
        >>> Schema(age=range(116), sex=("F", "M"))
        Schema(age: 0–115, sex: F to M; 232 cells)
    """

    __slots__ = ("_attributes",)
    _attributes: dict[str, Attribute]

    def __init__(self, named: Mapping[str, Any] | None = None, /, **attributes: Any) -> None:
        # A mapping serves names that are no Python words: Schema({"years lived here": range(100)}).
        if named is not None and not isinstance(named, Mapping):
            raise SchemaError(f"a schema is given by name, as in Schema(sex=('F', 'M')), got {named!r:.60}")
        attributes = {**(named or {}), **attributes}
        for name in attributes:
            if not isinstance(name, str):
                raise SchemaError(f"an attribute's name must be a text, got {name!r}")
        if not attributes:
            raise SchemaError("a schema needs at least one attribute, as in Schema(sex=('F', 'M'))")
        object.__setattr__(
            self, "_attributes", {name: _declared(name, given) for name, given in attributes.items()}
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a schema does not change; make another")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a schema does not change; make another")

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema.from_dict, (self.to_dict(),)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes, in order."""
        return tuple(self._attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each attribute."""
        return tuple(attribute.size for attribute in self._attributes.values())

    @property
    def n_cells(self) -> int:
        """The number of combinations of values."""
        return math.prod(self.shape)

    def __getitem__(self, name: str) -> Attribute:
        try:
            return self._attributes[name]
        except KeyError:
            raise SchemaError(
                f"there is no attribute {name!r}; the schema declares {', '.join(self.names)}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and list(self._attributes.items()) == list(other._attributes.items())

    def __hash__(self) -> int:
        return hash(tuple(self._attributes.items()))

    def __repr__(self) -> str:
        parts = [f"{name}: {a.span_label(0, a.size - 1)}" for name, a in self._attributes.items()]
        return f"Schema({', '.join(parts)}; {self.n_cells:,} cells)"

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads back, attributes in order."""
        return {name: attribute.to_dict() for name, attribute in self._attributes.items()}

    @classmethod
    def from_dict(cls, attributes: dict[str, Any]) -> Schema:
        """The schema that `to_dict` wrote, or a specification file's [schema] table.

        Each attribute is ``{range = [start, stop]}``, ``{bins = [...]}``,
        ``{categories = [...], other = "..."}`` or simply a list of categories.
        """
        return cls(**{name: _from_plain(name, given) for name, given in attributes.items()})


def _from_plain(name: str, given: Any) -> Any:
    if isinstance(given, list):
        return given
    if not isinstance(given, dict):
        raise SchemaError(f"attribute {name!r} must be a list or a table, got {type(given).__name__}")
    kind = next((key for key in ("range", "bins", "categories") if key in given), None)
    allowed = {"range": {"range"}, "bins": {"bins"}, "categories": {"categories", "other"}}
    if kind is None or set(given) - allowed[kind] or not isinstance(given[kind], list):
        raise SchemaError(
            f"attribute {name!r} must be {{range = [start, stop]}}, {{bins = [edges]}} or "
            f"{{categories = [values]}}, got the keys {sorted(given)}"
        )
    if kind == "range":
        bounds = given["range"]
        if not 1 <= len(bounds) <= 3 or not all(type(bound) is int for bound in bounds):
            raise SchemaError(f"attribute {name!r}: range must be [start, stop] in whole numbers")
        if len(bounds) == 3 and bounds[2] < 1:
            raise SchemaError(f"attribute {name!r}: the step of a range must be 1 or more, got {bounds[2]}")
        return range(*bounds)
    try:
        return Bins(given["bins"]) if kind == "bins" else Categories(given["categories"], given.get("other"))
    except SchemaError as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None


def _declared(name: str, given: Any) -> Attribute:
    try:
        if isinstance(given, (IntegerRange, Categories, Bins)):
            return given
        if isinstance(given, range):
            return IntegerRange(given)
        if isinstance(given, (list, tuple)):
            return Categories(given)
    except SchemaError as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None
    raise SchemaError(
        f"attribute {name!r} must be declared as a range, a list of categories or Bins(edges), got "
        f"{type(given).__name__}. The values are public knowledge and are never read from the table: "
        f"write them out, as in Schema({name}=range(116)) or Schema({name}=('F', 'M'))"
    )


def _is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, NumPy's included; truth values and NaN are not."""
    return isinstance(value, Real) and not isinstance(value, bool) and bool(value == value)


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python number or text it stands for."""
    return value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value


def _whole_as_int(edge: Any) -> Any:
    """0.0 as 0, so that equal bins print alike and have one digest; above 1e16 floats print as 1e+16."""
    return int(edge) if isinstance(edge, float) and abs(edge) < 1e16 and edge == int(edge) else edge
