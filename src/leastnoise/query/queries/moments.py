"""Means of a whole-number attribute, of all records or of each group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.query.predicates import ComparisonCondition, condition_to_text
from leastnoise.query.queries.conditions import Where
from leastnoise.query.queries.counts import Marginal, Sum, Total
from leastnoise.query.queries.key_shapes import NAMES, QUERY, TEXT, key
from leastnoise.query.queries.query import Query, check_attribute
from leastnoise.query.queries.ratios import WEIGHT_WITHOUT_GUESS, RatioParts, RatioQuery, require_linear
from leastnoise.query.schema import Schema


@dataclass(frozen=True)
class Mean(RatioQuery):
    """The mean of a whole-number attribute, of all records or of each group.

    Records in the attribute's other cell have no number and do not enter. Means are cut to the declared
    range.

    Args:
        attribute: declared as a range or as numbered categories.
        by: attributes, for a mean of each combination of their values.
        among: a query on other attributes whose rows say which records enter, as ``Where("age >= 18")``;
            crossed with `by`.
        guess: a public guess of the mean; the middle of the range unless given.

    Example:
        >>> from leastnoise.query import assemble
        >>> schema = Schema(income=range(101), sex=("F", "M"))
        >>> assemble([Mean("income", by="sex")], schema)
        Workload(4 queries over 202 cells: mean income by sex: sum, mean income by sex: count)
    """

    attribute: str = field(metadata=key(TEXT, "an attribute of the schema that holds whole numbers"))
    by: tuple[str, ...] | None = field(default=None, metadata=key(NAMES, "a mean for each of their values"))
    among: Query | None = field(default=None, metadata=key(QUERY))
    kind: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_attribute(self, self.attribute)
        by = (self.by,) if isinstance(self.by, str) else tuple(self.by or ())
        for name in by:
            check_attribute(self, name)
        if self.attribute in by or len(set(by)) < len(by):
            raise QueryError.must("by", "name different attributes, other than the one averaged", given=by)
        object.__setattr__(self, "by", by or None)
        if self.among is not None:
            require_linear("among", self.among)

    def groups(self) -> Query:
        """The query whose rows are the groups."""
        by = Marginal(*self.by) if self.by else None
        if self.among is None:
            return by or Total()
        return self.among if by is None else by * self.among

    def parts(self, schema: Schema) -> RatioParts:
        values = schema[self.attribute]
        numbers = values.numbers()
        if numbers is None:
            raise QueryError.must(
                "attribute",
                "hold whole numbers, declared as a range or as numbered categories",
                given=self.attribute,
            )
        low, high = float(min(numbers)), float(max(numbers))
        if low == high:
            raise QueryError.must("attribute", "have at least two values", given=self.attribute)
        centre = (low + high) / 2 if self.guess is None else self.guess
        if not low <= centre <= high:
            raise QueryError.must("guess", f"lie in the declared range, {low:g} to {high:g}", given=centre)
        farthest = max(high - centre, centre - low)
        groups = self.groups()
        summed = Sum(self.attribute, centre=centre)
        numerator = summed if isinstance(groups, Total) else summed * groups
        counted = groups
        if values.other is not None:
            text = condition_to_text(ComparisonCondition(self.attribute, "!=", values.other))
            counted = Where(text) if isinstance(groups, Total) else Where(text) * groups
        of_sum, of_count = self._targets_of_parts(farthest)
        return RatioParts(
            numerator=numerator.having(weight=self.weight / farthest**2, **of_sum),
            denominator=counted.having(weight=self.weight * WEIGHT_WITHOUT_GUESS, **of_count),
            rows=np.arange(groups.labels(schema).length),
            shown_as=groups,
            shift=centre,
            possible=(low, high),
            positive=True,
        )

    def title(self) -> str:
        groups = self.groups()
        return f"mean {self.attribute}" + ("" if isinstance(groups, Total) else f" by {groups.title()}")
