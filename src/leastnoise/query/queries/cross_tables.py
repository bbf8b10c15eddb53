"""The number of records, and cross tables: one of some attributes, or all up to some order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

from leastnoise.core.errors import QueryError, TooLargeError
from leastnoise.core.operators import (
    Identity,
)
from leastnoise.query.queries.factors import Factor, Term
from leastnoise.query.queries.key_shapes import COUNTS, NAMES, key
from leastnoise.query.queries.meaning import Table, interval_aspect
from leastnoise.query.queries.query import (
    Common,
    Query,
    check_attribute,
    set_common,
)
from leastnoise.query.queries.row_names import Labels
from leastnoise.query.queries.targets import CountOrShare, Expected, WithinTarget
from leastnoise.query.schema import Schema

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
