"""Totals, cross tables, distributions and ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from leastnoise.core.errors import QueryError, TooLargeError
from leastnoise.core.operators import (
    CumulativeSum,
    EveryLevel,
    EveryRange,
    Groups,
    Identity,
    Matrix,
    Padded,
    SomeRanges,
)
from leastnoise.query.queries.key_shapes import COUNTS, NAMES, PAIR, TEXT, Json, key
from leastnoise.query.queries.meaning import Aspect, Table, interval_aspect
from leastnoise.query.queries.query import (
    Common,
    Factor,
    Query,
    Term,
    check_attribute,
    checked_bounds,
    set_common,
    to_plain,
)
from leastnoise.query.queries.row_names import Labels
from leastnoise.query.queries.targets import CountOrShare, Expected, WithinTarget, to_float
from leastnoise.query.schema import Attribute, Bins, Hierarchy, Schema
from leastnoise.query.schema.numeric import listed_edges

# Tables that one cube may ask for. A hundred attributes have 166,751 of up to three; a million of them take
# about 2 GB of memory to list.
MAX_TABLES = 1_000_000

# A cube of more attributes than this is called by their number.
_NAMED_IN_TITLE = 6


_ORDER = {"anyOf": [{"type": "integer", "minimum": 0}, COUNTS | {"minItems": 1, "uniqueItems": True}]}


@dataclass(frozen=True, repr=False)
class Total(Query):
    """The number of records: one query."""

    kind: ClassVar[str] = "total"

    def terms(self, schema: Schema) -> list[Term]:
        return [[]]

    def tables(self, schema: Schema) -> Sequence[Table]:
        return [()]


@dataclass(frozen=True, init=False, repr=False)
class _OfAttributes(Query):
    """What queries about several attributes share."""

    attributes: tuple[str, ...] = field(default=(), metadata=key(NAMES, "names of attributes of the schema"))

    @classmethod
    def from_plain(cls, given: dict[str, Any]) -> Query:
        names = given.pop("attributes", ())
        if not isinstance(names, (list, tuple)):
            raise QueryError.must("attributes", "be a list of names", given=names)
        return cls(*names, **given)

    def _own_arguments(self) -> list[str]:
        return [repr(name) for name in self.attributes]

    def _set_attributes(self, attributes: tuple[str, ...], common: Common) -> None:
        """Set the fields that all have; each class checks how many attributes it takes."""
        set_common(self, common)
        object.__setattr__(self, "attributes", attributes)
        for name in attributes:
            check_attribute(self, name)


@dataclass(frozen=True, init=False, repr=False)
class Marginal(_OfAttributes):
    """One count for every combination of values of the attributes: a cross table.

    Args:
        *attributes: the names of the attributes. Rows come in the order of the schema, whatever order is
            given here.
    """

    kind: ClassVar[str] = "marginal"

    def __init__(
        self,
        *attributes: str,
        name: str | None = None,
        weight: float = 1.0,
        stderr: CountOrShare | None = None,
        within: WithinTarget | CountOrShare | None = None,
        expected: Expected | None = None,
    ) -> None:
        self._set_attributes(attributes, Common(name, weight, stderr, within, expected))
        if not attributes:
            raise QueryError.must(
                "attributes",
                "name at least one attribute",
                given=attributes,
                remedy="for the number of records use Total()",
            )
        if len(set(attributes)) < len(attributes):
            raise QueryError.must("attributes", "be different", given=attributes)
        self.__post_init__()

    def _with_common(self, common: dict[str, Any]) -> Query:
        return Marginal(*self.attributes, **common)

    def terms(self, schema: Schema) -> list[Term]:
        return [_every_combination(self.attributes, schema)]

    def tables(self, schema: Schema) -> Sequence[Table]:
        return [_value_by_value(self.attributes, schema)]

    def title(self) -> str:
        return " x ".join(self.attributes)


@dataclass(frozen=True, init=False, repr=False)
class Cube(_OfAttributes):
    """The cross tables of all combinations of at most `order` of the attributes, the total included.

    ``order=(2,)`` asks for exactly two, ``order=(1, 3)`` for one and for three.

    Args:
        *attributes: the names of the attributes.
        order: the largest number of attributes in one table, or a list of these numbers; None for all
            combinations.
    """

    order: int | tuple[int, ...] | None = field(default=None, metadata=key(_ORDER))
    kind: ClassVar[str] = "cube"

    def __init__(
        self,
        *attributes: str,
        order: int | Sequence[int] | None = None,
        name: str | None = None,
        weight: float = 1.0,
        stderr: CountOrShare | None = None,
        within: WithinTarget | CountOrShare | None = None,
        expected: Expected | None = None,
    ) -> None:
        self._set_attributes(attributes, Common(name, weight, stderr, within, expected))
        object.__setattr__(self, "order", tuple(order) if isinstance(order, (list, tuple)) else order)
        if not attributes or len(set(attributes)) < len(attributes):
            raise QueryError.must("attributes", "be different, at least one", given=attributes)
        wanted = self.order if isinstance(self.order, tuple) else (0 if self.order is None else self.order,)
        is_valid = all(type(size) is int and 0 <= size <= len(attributes) for size in wanted)
        if not is_valid or not wanted or len(set(wanted)) < len(wanted):
            raise QueryError.must(
                "order", f"be a number from 0 to {len(attributes)}, or a list of different ones", given=order
            )
        self.__post_init__()

    def _with_common(self, common: dict[str, Any]) -> Query:
        return Cube(*self.attributes, order=self.order, **common)

    def _own_arguments(self) -> list[str]:
        return [*super()._own_arguments(), *([] if self.order is None else [f"order={self.order!r}"])]

    @property
    def orders(self) -> tuple[int, ...]:
        """The numbers of attributes that the tables have, in increasing order."""
        if isinstance(self.order, tuple):
            return tuple(sorted(self.order))
        return tuple(range((len(self.attributes) if self.order is None else self.order) + 1))

    def terms(self, schema: Schema) -> list[Term]:
        for name in self.attributes:
            schema[name]
        self._check_size()
        # Tables share the factors of their attributes: a hundred of them have 166,751 tables of up to three.
        factors = _every_combination(self.attributes, schema)
        return [list(chosen) for size in self.orders for chosen in combinations(factors, size)]

    def tables(self, schema: Schema) -> Sequence[Table]:
        self._check_size()
        aspects = _value_by_value(self.attributes, schema)
        return [chosen for size in self.orders for chosen in combinations(aspects, size)]

    def _check_size(self) -> None:
        """Return if the tables can be listed; counted first, because their number grows without bound."""
        n_tables = sum(math.comb(len(self.attributes), size) for size in self.orders)
        if n_tables > MAX_TABLES:
            raise TooLargeError(
                f"a cube over {len(self.attributes)} attributes of order {self.order} asks for "
                f"{n_tables:,} tables; at most {MAX_TABLES:,} are listed",
                field="order",
                given=self.order,
                remedy="give a smaller order=, or fewer attributes",
            )

    def title(self) -> str:
        if len(self.attributes) > _NAMED_IN_TITLE:
            return f"cube of {len(self.attributes)} attributes"
        return f"cube of {' x '.join(self.attributes)}"


@dataclass(frozen=True, repr=False)
class OfOneAttribute(Query):
    """What queries about a single attribute share."""

    attribute: str = field(metadata=key(TEXT, "an attribute of the schema"))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_attribute(self, self.attribute)


@dataclass(frozen=True, repr=False)
class Prefix(OfOneAttribute):
    """For every value, the number of records with that value or a smaller one: a distribution.

    Args:
        attribute: the name of the attribute.
    """

    kind: ClassVar[str] = "prefix"

    def terms(self, schema: Schema) -> list[Term]:
        values = schema[self.attribute]
        rows = Padded(CumulativeSum(values.n_values), values.size)
        return [[Factor((self.attribute,), rows, Labels(values.n_values, values.prefix_label))]]

    def tables(self, schema: Schema) -> Sequence[Table]:
        values = schema[self.attribute]
        return [(interval_aspect(self.attribute, values.n_values, lambda j: (0, j), values.prefix_label),)]

    def title(self) -> str:
        return f"{self.attribute} up to"


@dataclass(frozen=True, repr=False)
class AllRanges(OfOneAttribute):
    """One count for every interval of values, n(n + 1)/2 of them.

    Args:
        attribute: the name of the attribute.
    """

    kind: ClassVar[str] = "all-ranges"

    def terms(self, schema: Schema) -> list[Term]:
        values = schema[self.attribute]
        every = EveryRange(values.n_values)
        labels = Labels(every.shape[0], lambda j: values.span_label(*every.ends(j)))
        return [[Factor((self.attribute,), Padded(every, values.size), labels)]]

    def tables(self, schema: Schema) -> Sequence[Table]:
        values = schema[self.attribute]
        n = values.n_values

        @lru_cache(maxsize=128)
        def ends(j: int) -> tuple[int, int]:
            # Intervals that start at the first value, then at the second, each time the shorter ones first.
            low, longest = 0, n
            while j >= longest:
                j, low, longest = j - longest, low + 1, longest - 1
            return low, low + j

        def label(j: int) -> str:
            return values.span_label(*ends(j))

        return [(interval_aspect(self.attribute, n * (n + 1) // 2, ends, label),)]

    def title(self) -> str:
        return f"{self.attribute} ranges"


@dataclass(frozen=True, repr=False)
class Ranges(OfOneAttribute):
    """One count for each listed interval (low, high).

    Both ends belong to it for whole numbers and categories; for bins, low and
    high are edges and the interval is [low, high).

    Args:
        attribute: the name of the attribute.
        ranges: the intervals, as in ``[(0, 17), (18, 64)]``.
    """

    ranges: Sequence[tuple[Any, Any]] = field(metadata=key({"type": "array", "items": PAIR, "minItems": 1}))
    kind: ClassVar[str] = "ranges"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            if any(isinstance(pair, str) for pair in self.ranges):
                raise TypeError
            pairs = tuple((to_plain(low), to_plain(high)) for low, high in self.ranges)
        except (TypeError, ValueError):
            raise QueryError.must("ranges", "be a list of (low, high) pairs", given=self.ranges) from None
        if not pairs:
            raise QueryError.must("ranges", "hold at least one (low, high) pair", given=self.ranges)
        object.__setattr__(self, "ranges", pairs)

    def terms(self, schema: Schema) -> list[Term]:
        values = schema[self.attribute]
        spans = [_span(self.attribute, values, low, high) for low, high in self.ranges]
        some = SomeRanges(values.size, [s[0] for s in spans], [s[1] for s in spans])
        labels = Labels(len(spans), lambda j: values.span_label(*spans[j]))
        return [[Factor((self.attribute,), some, labels)]]

    def tables(self, schema: Schema) -> Sequence[Table]:
        values = schema[self.attribute]
        spans = [_span(self.attribute, values, low, high) for low, high in self.ranges]

        def label(j: int) -> str:
            return values.span_label(*spans[j])

        return [(interval_aspect(self.attribute, len(spans), spans.__getitem__, label),)]

    def shared_ends(self, schema: Schema) -> list[str]:
        """The values where one range ends and another begins, which are counted in both."""
        values = schema[self.attribute]
        if isinstance(values, Bins):
            return []  # a range of bins ends before its upper edge
        spans = {_span(self.attribute, values, low, high) for low, high in self.ranges}
        wide = sorted((first, last) for first, last in spans if first < last)
        from_start = {first: (first, last) for first, last in wide}
        return [
            f"{self.attribute} {values.span_label(last, last)} is counted in "
            f"{values.span_label(first, last)} and in {values.span_label(*from_start[last])}"
            for first, last in wide
            if last in from_start
        ]

    def title(self) -> str:
        return f"{self.attribute} ranges"


@dataclass(frozen=True, repr=False)
class Levels(OfOneAttribute):
    """One count for every node of a hierarchy, level by level: regions within regions.

    Args:
        attribute: the name of an attribute that is a `Hierarchy`.
    """

    kind: ClassVar[str] = "levels"

    def terms(self, schema: Schema) -> list[Term]:
        values = schema[self.attribute]
        if not isinstance(values, Hierarchy):
            raise QueryError.must(
                "attribute",
                "be declared as Hierarchy(tree)",
                given=self.attribute,
                remedy="for its values use Marginal",
            )
        names = [label for level in values.levels for label in level.labels]
        rows = EveryLevel([Groups(level.groups, len(level.labels)) for level in values.levels])
        return [[Factor((self.attribute,), rows, Labels(len(names), names.__getitem__))]]

    def tables(self, schema: Schema) -> Sequence[Table]:
        values = schema[self.attribute]
        assert isinstance(values, Hierarchy)
        regions = [
            (label, np.flatnonzero(level.groups == number).tolist())
            for level in values.levels
            for number, label in enumerate(level.labels)
        ]
        name = self.attribute
        return [
            (
                Aspect(
                    (name,),
                    len(regions),
                    lambda j: f"{name} {regions[j][0]}",
                    lambda j, cell: float(cell[name] in regions[j][1]),
                    lambda j, rng: {name: int(rng.choice(regions[j][1]))},
                ),
            )
        ]

    def title(self) -> str:
        return f"{self.attribute} levels"


BOUNDS: Json = key(
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
    "least and largest value that enters; values beyond are pulled in",
)


@dataclass(frozen=True, repr=False)
class Sum(OfOneAttribute):
    """The sum of an attribute over all records: one query.

    One person changes it by up to the largest value, so it needs a lot of noise: declare a range no wider
    than needed.

    Args:
        attribute: declared as a range or as numbered categories.
        centre: a number subtracted from every value. With the middle of the range, one person changes the sum
            by only half the width of the range.
        power: 2 for the sum of squares, (value - centre)²; 1 for the sum of the differences.
        bounds: the smallest and the largest value, as a pair; values beyond them are clamped. None for no
            clamping.
    """

    centre: float = field(default=0.0, metadata=key({"type": "number"}, "taken from every value first"))
    power: int = field(default=1, kw_only=True, metadata=key({"enum": [1, 2]}, "2 adds up squares"))
    bounds: tuple[int, int] | None = field(default=None, kw_only=True, metadata=BOUNDS)
    kind: ClassVar[str] = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        centre = to_float(self.centre)
        if centre is None or not math.isfinite(centre):
            raise QueryError.must("centre", "be a finite number", given=self.centre)
        object.__setattr__(self, "centre", centre)
        if type(self.power) is not int or self.power not in (1, 2):
            raise QueryError.must("power", "be 1 or 2", given=self.power)
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    def _what(self) -> str:
        squared = "squared " if self.power == 2 else ""
        plain = "sum of squares" if squared else "sum"
        what = plain if not self.centre else f"sum of {squared}differences from {self.centre:g}"
        return what if self.bounds is None else f"{what}, within {self.bounds[0]} to {self.bounds[1]}"

    def _summed(self, numbers: Sequence[float]) -> list[float]:
        """What each value adds to the sum."""
        # Whole numbers stay whole, so that sums of large ones are exact.
        centre = int(self.centre) if self.centre.is_integer() else self.centre
        low, high = self.bounds or (min(numbers), max(numbers))
        return [(min(max(number, low), high) - centre) ** self.power for number in numbers]

    def terms(self, schema: Schema) -> list[Term]:
        values = schema[self.attribute]
        numbers = numbers_of(
            self.attribute, values, remedy="for bins, count them with Marginal and weigh the counts"
        )
        row = [*self._summed(numbers), *([0] * (values.size - values.n_values))]
        return [[Factor((self.attribute,), Matrix([row]), Labels(1, lambda j: self._what()))]]

    def tables(self, schema: Schema) -> Sequence[Table]:
        name, declared = self.attribute, schema[self.attribute].numbers()
        assert declared is not None
        numbers = self._summed(declared)
        n = len(numbers)
        return [
            (
                Aspect(
                    (name,),
                    1,
                    lambda j: f"{name} {self._what()}",
                    lambda j, cell: numbers[cell[name]] if cell[name] < n else 0,
                    lambda j, rng: {name: int(rng.integers(n))},
                ),
            )
        ]

    def title(self) -> str:
        return f"{self.attribute} {self._what()}"


def _every_combination(attributes: Sequence[str], schema: Schema) -> Term:
    asked = {name: schema[name] for name in attributes}
    return [
        Factor((name,), Identity(asked[name].size), Labels(asked[name].size, asked[name].label))
        for name in schema
        if name in asked
    ]


def _value_by_value(attributes: Sequence[str], schema: Schema) -> Table:
    """An aspect for each attribute, in schema order: records that have its j-th value."""
    return tuple(
        interval_aspect(name, schema[name].size, lambda j: (j, j), schema[name].label)
        for name in schema
        if name in attributes
    )


_RANGES_FOR_BINS = "bins do not say where in them values lie: declare a range, and count its bins with ranges"


def numbers_of(name: str, values: Attribute, remedy: str | None = None) -> Sequence[float]:
    """The numbers that an attribute's values are.

    Raises:
        QueryError: if they are none, as bins are.
    """
    numbers = values.numbers()
    if numbers is None:
        raise QueryError.must(
            "attribute",
            "hold whole numbers, declared as a range or as numbered categories",
            given=name,
            remedy=remedy or (_RANGES_FOR_BINS if isinstance(values, Bins) else None),
        )
    return numbers


def _span(name: str, values: Attribute, low: Any, high: Any) -> tuple[int, int]:
    span = values.span(to_plain(low), to_plain(high))
    if span is None:
        if isinstance(values, Bins):
            raise QueryError.must(
                "ranges",
                f"run from one edge of {name!r} to a larger one, of the edges {listed_edges(values)}",
                given=(low, high),
            )
        raise QueryError.must(
            "ranges",
            f"hold declared values of {name!r}, which is {values.cells_label()}",
            given=(low, high),
            remedy="give the smaller end first",
        )
    return span
