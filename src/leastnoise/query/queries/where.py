"""Counts of those who satisfy a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from leastnoise.core.operators import Matrix
from leastnoise.query.predicates import Condition, condition_to_text, independent_parts, parse, satisfying
from leastnoise.query.queries.key_shapes import TEXT, key
from leastnoise.query.queries.meaning import Table, condition_aspect
from leastnoise.query.queries.query import Factor, Labels, Query, Term
from leastnoise.query.schema import Schema


@dataclass(frozen=True)
class Where(Query):
    """How many records satisfy a condition, such as ``"age >= 18 and sex == 'F'"``: one query.

    The language is that of `leastnoise.query.predicates`.
    """

    condition: str = field(metadata=key(TEXT, "such as age >= 18 and sex == 'F'"))
    kind: ClassVar[str] = "where"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.parsed  # noqa: B018 - a mistake is told where it was written, not when assembled

    @cached_property
    def parsed(self) -> Condition:
        """The condition as it was understood."""
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
    attributes, satisfied = satisfying(condition, schema)
    row = Matrix(satisfied.reshape(1, -1).astype(np.int64))
    text = condition_to_text(condition)
    return Factor(attributes, row, Labels(1, lambda j: text), is_condition=True)
