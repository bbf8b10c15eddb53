"""Counts of the records that satisfy a condition, or each of several labelled conditions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.core.operators import Deferred, Matrix, Operator
from leastnoise.query.predicates import (
    Combination,
    Condition,
    checked_axes,
    condition_to_text,
    independent_parts,
    parse,
    satisfying,
)
from leastnoise.query.queries.factors import Factor, Term
from leastnoise.query.queries.key_shapes import NAME, PAIR, TEXT, key
from leastnoise.query.queries.meaning import Table, condition_aspect
from leastnoise.query.queries.query import Query
from leastnoise.query.queries.row_names import Labels
from leastnoise.query.schema import Schema

# Entries of the table of cases by combinations of values: half a gigabyte of int64. Nothing is designed for a
# tied set of attributes with more than some 20,000 combinations; a thousand cases over that many still fit.
MAX_CASE_ENTRIES = 2**26

_CASES = {
    "anyOf": [
        {"type": "object", "additionalProperties": TEXT, "minProperties": 1},
        {"type": "array", "items": PAIR | {"items": TEXT}, "minItems": 1},
    ]
}
_CASES_TEXT = 'conditions by label, such as { minor = "age < 18", adult = "age >= 18" }'


@dataclass(frozen=True, repr=False)
class Where(Query):
    """The number of records that satisfy a condition, such as ``"age >= 18 and sex == 'F'"``: one query.

    `leastnoise.query.predicates` describes the language.

    Args:
        condition: the condition, with attributes by name and text in quotes.
    """

    condition: str = field(metadata=key(TEXT, "such as age >= 18 and sex == 'F'"))
    kind: ClassVar[str] = "where"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.parsed  # noqa: B018 - a mistake is reported where it is written, not in assemble()

    @cached_property
    def parsed(self) -> Condition:
        """The parsed condition."""
        return parse(self.condition)

    def terms(self, schema: Schema) -> list[Term]:
        term = [_factor(part, schema) for part in independent_parts(self.parsed)]
        return [sorted(term, key=lambda factor: schema.names.index(factor.attributes[0]))]

    def tables(self, schema: Schema) -> Sequence[Table]:
        aspects = [
            condition_aspect([part], [condition_to_text(part)], schema)
            for part in independent_parts(self.parsed)
        ]
        return [tuple(sorted(aspects, key=lambda aspect: schema.names.index(aspect.attributes[0])))]

    def title(self) -> str:
        return self.condition


def _factor(condition: Condition, schema: Schema) -> Factor:
    attributes = checked_axes(condition, schema)
    # Four attributes of sixty values have 13 million combinations, which few plans need to see.
    row = Deferred(
        (1, math.prod(schema[name].size for name in attributes)),
        lambda: Matrix(satisfying(condition, schema)[1].reshape(1, -1).astype(np.int64)),
    )
    text = condition_to_text(condition)
    return Factor(attributes, row, Labels(1, lambda j: text), is_condition=True)


@dataclass(frozen=True, repr=False)
class Cases(Query):
    """One count for each of several labelled conditions: groups that the schema does not name.

    Args:
        cases: conditions by label, as in ``{"minor": "age < 18", "adult": "age >= 18"}``, or pairs of
            both. They may overlap, and need not cover everyone.
        heading: the heading of the column of labels, also put before each label where rows are listed.
            Without one, labels appear alone, under the names of the attributes.

    Example:
        >>> query = Cases({"minor": "age < 18", "adult": "age >= 18"}, heading="life")
        >>> list(query.labels(Schema(age=range(100))))
        ['life minor', 'life adult']
        >>> list(Cases({"minor": "age < 18", "adult": "age >= 18"}).labels(Schema(age=range(100))))
        ['minor', 'adult']
    """

    cases: Mapping[str, str] | Sequence[tuple[str, str]] = field(metadata=key(_CASES, _CASES_TEXT))
    heading: str | None = field(default=None, metadata=key(NAME, "what heads the column of the cases"))
    kind: ClassVar[str] = "cases"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "cases", _checked_pairs(self.cases))
        if self.heading is not None and (not isinstance(self.heading, str) or not self.heading):
            raise QueryError.must("heading", "be a non-empty text", given=self.heading)
        self.parsed  # noqa: B018 - a mistake is reported where it is written, not in assemble()

    @cached_property
    def parsed(self) -> tuple[Condition, ...]:
        """The parsed conditions."""
        found = []
        for label, condition in self._pairs:
            try:
                found.append(parse(condition))
            except QueryError as error:
                raise QueryError.at(f"case {label!r}", error) from None
        return tuple(found)

    def _own_arguments(self) -> list[str]:
        heading = [] if self.heading is None else [f"heading={self.heading!r}"]
        return [repr(dict(self._pairs)), *heading]

    @property
    def _pairs(self) -> tuple[tuple[str, str], ...]:
        assert isinstance(self.cases, tuple)
        return self.cases

    def terms(self, schema: Schema) -> list[Term]:
        if self.heading in schema and any(self.heading not in one.attributes for one in self.parsed):
            raise QueryError.must(
                "heading", "not be an attribute that some case does not use", given=self.heading
            )
        # Unknown attributes and too many combinations are reported for all conditions together.
        axes, _ = satisfying(Combination("or", self.parsed), schema)
        shape = tuple(schema[name].size for name in axes)
        if len(self.parsed) * math.prod(shape) > MAX_CASE_ENTRIES:
            raise QueryError(
                f"{len(self.parsed):,} cases over the {math.prod(shape):,} combinations of "
                f"{', '.join(axes)} make a table of more than {MAX_CASE_ENTRIES:,} entries",
                field="cases",
                given=len(self.parsed),
                remedy="ask fewer at a time",
            )
        rows = [np.broadcast_to(one.mask(schema, axes), shape).reshape(-1) for one in self.parsed]
        matrix = Matrix(np.array(rows).astype(np.int64))
        return [[labelled_factor(axes, matrix, [label for label, _ in self._pairs], self.heading)]]

    def tables(self, schema: Schema) -> Sequence[Table]:
        labels = [f"{self.heading} {label}" if self.heading else label for label, _ in self._pairs]
        return [(condition_aspect(self.parsed, labels, schema),)]

    def title(self) -> str:
        attributes = sorted(frozenset().union(*(one.attributes for one in self.parsed)))
        return self.heading or f"{' and '.join(attributes)} cases"


def labelled_factor(
    axes: tuple[str, ...], operator: Operator, labels: Sequence[str], heading: str | None
) -> Factor:
    """Rows with the given labels, under a heading or, without one, under the names of the attributes."""
    made = Labels(len(labels), labels.__getitem__)
    return Factor(axes, operator, made, heading is None, heading or " and ".join(axes))


def _checked_pairs(given: object) -> tuple[tuple[str, str], ...]:
    wanted = "be conditions by label, as in {'minor': 'age < 18', 'adult': 'age >= 18'}"
    listed = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(listed, (list, tuple)) or not listed:
        raise QueryError.must("cases", wanted, given=given)
    pairs: list[tuple[str, str]] = []
    for pair in listed:
        is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not is_pair or not all(isinstance(part, str) and part for part in pair):
            raise QueryError.must("cases", wanted, given=pair)
        label, condition = pair
        if any(label == other for other, _ in pairs):
            raise QueryError.must("cases", "have different labels", given=label)
        pairs.append((label, condition))
    return tuple(pairs)
