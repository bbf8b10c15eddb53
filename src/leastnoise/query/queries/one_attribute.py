"""Queries about one attribute: its distribution, ranges of its values, levels of a hierarchy, sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.core.operators import (
    CumulativeSum,
    EveryLevel,
    EveryRange,
    Groups,
    Matrix,
    Padded,
    SomeRanges,
)
from leastnoise.query.queries.factors import Factor, Term
from leastnoise.query.queries.key_shapes import PAIR, TEXT, Json, key
from leastnoise.query.queries.meaning import Aspect, Table, interval_aspect
from leastnoise.query.queries.query import (
    Query,
    check_attribute,
    checked_bounds,
    to_plain,
)
from leastnoise.query.queries.row_names import Labels
from leastnoise.query.queries.targets import to_float
from leastnoise.query.schema import Attribute, Bins, Hierarchy, Schema
from leastnoise.query.schema.numeric import listed_edges


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
