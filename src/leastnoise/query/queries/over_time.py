"""Queries along an ordered attribute such as the month: sliding windows, and changes between values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.core.operators import SomeRanges, SparseMatrix
from leastnoise.query.queries.factors import Factor, Term
from leastnoise.query.queries.key_shapes import key
from leastnoise.query.queries.meaning import Aspect, Cell, Table, interval_aspect
from leastnoise.query.queries.one_attribute import OfOneAttribute
from leastnoise.query.queries.row_names import Labels
from leastnoise.query.schema import Attribute, Schema

_STEPS = {"type": "integer", "minimum": 1}


@dataclass(frozen=True, repr=False)
class Windows(OfOneAttribute):
    """For every run of ``width`` values, the number of records in it: the last 12 months, each month.

    Windows that would begin before the first value are left out: the first one ends at value number
    ``width``.

    Args:
        attribute: the name of the attribute.
        width: how many consecutive values each window holds.
    """

    width: int = field(metadata=key(_STEPS, "how many values each window holds"))
    kind: ClassVar[str] = "windows"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_steps("width", self.width)

    def terms(self, schema: Schema) -> list[Term]:
        values = schema[self.attribute]
        _check_room("width", self.width, self.attribute, values, values.n_values)
        starts = range(values.n_values - self.width + 1)
        rows = SomeRanges(values.size, list(starts), [start + self.width - 1 for start in starts])
        labels = Labels(len(starts), lambda j: values.span_label(j, j + self.width - 1))
        return [[Factor((self.attribute,), rows, labels)]]

    def tables(self, schema: Schema) -> Sequence[Table]:
        values, width = schema[self.attribute], self.width
        return [
            (
                interval_aspect(
                    self.attribute,
                    values.n_values - width + 1,
                    lambda j: (j, j + width - 1),
                    lambda j: values.span_label(j, j + width - 1),
                ),
            )
        ]

    def title(self) -> str:
        return f"{self.attribute}, {self.width} at a time"


@dataclass(frozen=True, repr=False)
class Changes(OfOneAttribute):
    """For every value, its number of records minus that of the value ``lag`` before it.

    ``Changes("month")`` compares each month with the one before, ``Changes("month", lag=12)`` with the same
    month a year before. The first ``lag`` values have no predecessor and are left out.

    Args:
        attribute: the name of the attribute.
        lag: how many values back the other value is.
    """

    lag: int = field(default=1, metadata=key(_STEPS, "how many values before; 1 unless given"))
    kind: ClassVar[str] = "changes"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_steps("lag", self.lag)

    def terms(self, schema: Schema) -> list[Term]:
        from scipy import sparse

        values = schema[self.attribute]
        _check_room("lag", self.lag, self.attribute, values, values.n_values - 1)
        m = values.n_values - self.lag
        rows = sparse.diags_array([-np.ones(m), np.ones(m)], offsets=[0, self.lag], shape=(m, values.size))
        return [[Factor((self.attribute,), SparseMatrix(rows), Labels(m, lambda j: self._label(values, j)))]]

    def tables(self, schema: Schema) -> Sequence[Table]:
        values, name, lag = schema[self.attribute], self.attribute, self.lag

        def adds(j: int, cell: Cell) -> float:
            return float(cell[name] == j + lag) - float(cell[name] == j)

        def example(j: int, rng: np.random.Generator) -> Cell:
            return {name: j + lag * int(rng.integers(2))}

        m = values.n_values - lag
        return [(Aspect((name,), m, lambda j: f"{name} {self._label(values, j)}", adds, example),)]

    def _label(self, values: Attribute, j: int) -> str:
        return f"{values.label(j + self.lag)} less {values.label(j)}"

    def title(self) -> str:
        return f"{self.attribute}, change" + ("" if self.lag == 1 else f" over {self.lag}")


def _check_steps(what: str, steps: object) -> None:
    if type(steps) is not int or steps < 1:
        raise QueryError.must(what, "be a whole number, 1 or more", given=steps)


def _check_room(what: str, steps: int, name: str, values: Attribute, most: int) -> None:
    """Return if an attribute has values enough for steps of this size."""
    if steps > most:
        raise QueryError.must(
            what, f"be at most {most:,} on {name!r}, which has {values.n_values:,} values", given=steps
        )
