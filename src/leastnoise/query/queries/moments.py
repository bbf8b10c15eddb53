"""Means and standard deviations of a whole-number attribute, of all records or of each group.

Both are made from sums around a public centre c. The mean is c + Σ(v − c)/n. The standard deviation, of n
records and not n − 1, is the root of Σ(v − c)²/n − (Σ(v − c)/n)².

*Bounds.* With ``bounds=(low, high)`` values beyond are pulled in: the sums run over min(max(v, low), high).
The attribute is declared wider than the bounds, by one value on each side or more, so that what is pulled in
has cells of its own, and how many records these are is one more count of the batch (``clamped=True``). It is
planned, charged and counted as every other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.query.predicates import ComparisonCondition, condition_to_text
from leastnoise.query.queries.conditions import Where
from leastnoise.query.queries.cross_tables import Marginal, Total
from leastnoise.query.queries.key_shapes import NAMES, QUERY, TEXT, key
from leastnoise.query.queries.one_attribute import BOUNDS, Sum, numbers_of
from leastnoise.query.queries.query import Query, check_attribute, checked_bounds
from leastnoise.query.queries.ratios import (
    LEAST_WEIGHT,
    WEIGHT_WITHOUT_GUESS,
    RatioParts,
    RatioQuery,
    require_linear,
)
from leastnoise.query.queries.targets import to_float
from leastnoise.query.schema import Integers, Schema

_CLAMPED = "also count the values beyond the bounds"


@dataclass(frozen=True, repr=False)
class MomentQuery(RatioQuery):
    """What means and standard deviations have in common.

    Args:
        attribute, by, among, guess, bounds, clamped: as for `Mean`.
    """

    attribute: str = field(metadata=key(TEXT, "an attribute of the schema that holds whole numbers"))
    by: tuple[str, ...] | None = field(default=None, metadata=key(NAMES, "one for each of their values"))
    among: Query | None = field(default=None, metadata=key(QUERY))
    bounds: tuple[int, int] | None = field(default=None, kw_only=True, metadata=BOUNDS)
    clamped: bool = field(default=False, kw_only=True, metadata=key({"type": "boolean"}, _CLAMPED))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_attribute(self, self.attribute)
        by = (self.by,) if isinstance(self.by, str) else tuple(self.by or ())
        for name in by:
            check_attribute(self, name)
        if self.attribute in by or len(set(by)) < len(by):
            raise QueryError.must("by", "name different attributes, other than the one averaged", given=by)
        object.__setattr__(self, "by", by or None)
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))
        if self.among is not None:
            require_linear("among", self.among)
        if not isinstance(self.clamped, bool) or (self.clamped and self.bounds is None):
            raise QueryError(
                "clamped values can be counted only where bounds are given",
                field="clamped",
                given=self.clamped,
                remedy=_remedy(self.attribute, 0, 80),
            )

    def groups(self) -> Query:
        """The query whose rows are the groups."""
        by = Marginal(*self.by) if self.by else None
        if self.among is None:
            return by or Total()
        return self.among if by is None else by * self.among

    def _possible(self, schema: Schema) -> tuple[float, float]:
        """The least and the largest value that enters."""
        values = schema[self.attribute]
        numbers = numbers_of(self.attribute, values)
        low, high = min(numbers), max(numbers)
        if self.bounds is not None:
            if not isinstance(values, Integers) or not low <= self.bounds[0] < self.bounds[1] <= high:
                raise QueryError.must(
                    "bounds",
                    f"lie in the range that is declared for {self.attribute!r}, {low} to {high}",
                    given=self.bounds,
                )
            is_open = low < self.bounds[0], self.bounds[1] < high
            if self.clamped and not (all(is_open) if values.outside == "clamp" else any(is_open)):
                raise QueryError(
                    "no declared value lies beyond the bounds, so clamped values cannot be told apart",
                    field="clamped",
                    given=self.bounds,
                    remedy=_remedy(self.attribute, *self.bounds),
                )
            low, high = self.bounds
        if low == high:
            raise QueryError.must("attribute", "have at least two values", given=self.attribute)
        return float(low), float(high)

    def _centre(self, given: float | None, name: str, schema: Schema) -> tuple[float, float]:
        """The centre, and how far from it a value can lie."""
        low, high = self._possible(schema)
        centre = (low + high) / 2 if given is None else given
        if not low <= centre <= high:
            raise QueryError.must(name, f"lie in the declared range, {low:g} to {high:g}", given=centre)
        return centre, max(high - centre, centre - low)

    def _within_groups(self, query: Query) -> Query:
        groups = self.groups()
        return query if isinstance(groups, Total) else query * groups

    def _sum(self, centre: float, power: int = 1) -> Query:
        """Σ(v − centre)^power in each group."""
        return self._within_groups(Sum(self.attribute, centre=centre, power=power, bounds=self.bounds))

    def _count(self, schema: Schema) -> Query:
        """How many records of each group have a number."""
        other = schema[self.attribute].other
        if other is None:
            return self.groups()
        text = condition_to_text(ComparisonCondition(self.attribute, "!=", other))
        return self._within_groups(Where(text))

    def _beyond(self) -> tuple[tuple[str, Query], ...]:
        """How many values of each group are pulled in, where that is asked for."""
        if not self.clamped:
            return ()
        assert self.bounds is not None
        sides = zip(("<", ">"), self.bounds, strict=True)
        texts = [condition_to_text(ComparisonCondition(self.attribute, sign, end)) for sign, end in sides]
        counted = self._within_groups(Where(" or ".join(texts)))
        return (("clamped", counted.having(weight=self.weight * WEIGHT_WITHOUT_GUESS)),)

    def _title(self, what: str) -> str:
        groups = self.groups()
        return f"{what} {self.attribute}" + ("" if isinstance(groups, Total) else f" by {groups.title()}")


@dataclass(frozen=True, repr=False)
class Mean(MomentQuery):
    """The mean of a whole-number attribute, of all records or of each group.

    Records in the attribute's other cell have no number and are left out. Means are clamped to the declared
    range, or to the bounds.

    Args:
        attribute: declared as a range or as numbered categories.
        by: attributes, for a mean of each combination of their values; None for one mean.
        among: a query on other attributes whose rows select the records, such as ``Where("age >= 18")``;
            crossed with `by`. None for all records.
        guess: a public guess of the mean; the middle of the range by default.
        bounds: the smallest and the largest value, as a pair; values beyond them are clamped. None for no
            clamping.
        clamped: whether to measure, too, how many values are clamped; that count is named after the mean, as
            in "mean income: clamped".

    Example:
        >>> from leastnoise.query import assemble
        >>> schema = Schema(income=range(101), sex=("F", "M"))
        >>> assemble([Mean("income", by="sex")], schema)
        Workload(4 queries over 202 cells: mean income by sex: sum, mean income by sex: count)
    """

    kind: ClassVar[str] = "mean"

    def parts(self, schema: Schema) -> RatioParts:
        centre, farthest = self._centre(self.guess, "guess", schema)
        of_sum, of_count = self._targets_of_parts(farthest)
        count = self._count(schema)
        return RatioParts(
            numerator=self._sum(centre).having(weight=self.weight / farthest**2, **of_sum),
            denominator=count.having(weight=self.weight * WEIGHT_WITHOUT_GUESS, **of_count),
            rows=np.arange(self.groups().labels(schema).length),
            shown_as=self.groups(),
            shift=centre,
            possible=self._possible(schema),
            positive=True,
            further=self._beyond(),
        )

    def title(self) -> str:
        return self._title("mean")


@dataclass(frozen=True, repr=False)
class StandardDeviation(MomentQuery):
    """The standard deviation of a whole-number attribute, of all records or of each group.

    The root of the mean squared distance from the mean, divided by the number of records n and not by n − 1.
    It is computed from the count, the sum and the sum of squares around a public centre. To first order the
    error of the variance s² at the mean m is that of Σ(v − c)² − 2(m − c)Σ(v − c) + ((m − c)² − s²)n. With R
    the largest distance of a value from c, and m and s² uniform over their ranges, the three are weighted by
    1/R⁴, 4/(3R²) and 1/3.

    Args:
        attribute: declared as a range or as numbered categories.
        by: attributes, for one standard deviation of each combination of their values; None for one.
        among: a query on other attributes whose rows select the records; crossed with `by`. None for all
            records.
        guess: a public guess of the standard deviation, which sets the weight of the count. None weights it
            by 1/3, as above.
        centre: a public guess of the mean; the middle of the range by default.
        bounds: the smallest and the largest value, as a pair; values beyond them are clamped. None for no
            clamping.
        clamped: whether to measure, too, how many values are clamped.
    """

    centre: float | None = field(
        default=None, kw_only=True, metadata=key({"type": "number"}, "a public guess of the mean")
    )
    kind: ClassVar[str] = "standard-deviation"

    def __post_init__(self) -> None:
        super().__post_init__()
        centre = None if self.centre is None else to_float(self.centre)
        if self.centre is not None and centre is None:
            raise QueryError.must("centre", "be a number that is public", given=self.centre)
        object.__setattr__(self, "centre", centre)
        if self.target is not None:
            raise QueryError(
                "a standard deviation takes no target",
                field="stderr",
                given=self.target,
                remedy="give a target to the mean, or weigh the standard deviation more with weight=",
            )

    def parts(self, schema: Schema) -> RatioParts:
        centre, farthest = self._centre(self.centre, "centre", schema)
        low, high = self._possible(schema)
        largest = (high - low) / 2
        if self.guess is not None and not 0 < self.guess <= largest:
            raise QueryError.must("guess", f"be positive and at most {largest:g}", given=self.guess)
        expected = WEIGHT_WITHOUT_GUESS if self.guess is None else (self.guess / farthest) ** 4
        first = self._sum(centre).having(weight=self.weight * 4 / 3 / farthest**2)
        return RatioParts(
            numerator=self._sum(centre, power=2).having(weight=self.weight / farthest**4),
            denominator=self._count(schema).having(weight=self.weight * max(expected, LEAST_WEIGHT)),
            rows=np.arange(self.groups().labels(schema).length),
            shown_as=self.groups(),
            shift=centre,
            possible=(0.0, largest),
            positive=True,
            further=(("sum", first), *self._beyond()),
            means=(low - centre, high - centre),
        )

    def title(self) -> str:
        return self._title("standard deviation")


def _remedy(attribute: str, low: int, high: int) -> str:
    return (
        f"declare one value more on each side than is averaged, {attribute}=Integers(range({low - 1}, "
        f'{high + 2}), outside="clamp"), and give bounds=({low}, {high})'
    )
