"""What every query has, and the product of two."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np

from leastnoise.core.errors import QueryError
from leastnoise.core.notebook import NotebookValue, html_text, unlisted
from leastnoise.core.operators import Array, Deferred, Operator, Stack
from leastnoise.query.queries.factors import Term, term_labels, term_operator
from leastnoise.query.queries.key_shapes import NAME, POSITIVE, QUERY, SIZE, key
from leastnoise.query.queries.meaning import Meaning, Table
from leastnoise.query.queries.row_names import Labels
from leastnoise.query.queries.targets import (
    CountOrShare,
    Expected,
    WithinTarget,
    checked_expected,
    checked_stderr,
    checked_within,
    in_counts,
    size_to_text,
    stderr_within,
    times,
    to_float,
)
from leastnoise.query.schema import Schema

# What an argument of `having` is where it is left out: None takes a name or a target away.
AS_IT_IS: Any = ...

# What all queries have, and what it is unless given.
COMMON: dict[str, Any] = {"name": None, "weight": 1.0, "stderr": None, "within": None, "expected": None}


_LEVEL = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
_WITHIN = {"anyOf": [SIZE, {"type": "array", "prefixItems": [SIZE, _LEVEL], "minItems": 2, "maxItems": 2}]}
_WITHIN_TEXT = "half-width of the interval each answer must keep, at 95 %; at another level as [100, 0.99]"
_EXPECTED = {"anyOf": [POSITIVE, {"type": "array", "items": POSITIVE, "minItems": 1}]}
_EXPECTED_TEXT = "a public size, for targets in per cent; or a list, one for each row"


@dataclass(frozen=True, repr=False)
class Query(NotebookValue):
    """A batch of linear counting queries over one schema.

    A target is a number of records or, as a text such as "5%", a share of `expected`, a public size that is
    never taken from the data.

    Args:
        name: the name of the batch, by which a release finds its answers; made from the query by default.
        weight: how much the variance of each answer counts in the total, zero or more.
        stderr: the standard error that each answer must keep: a number of records, or a share of `expected`
            such as "5%".
        within: the half-width of the interval that each answer must keep, in the same units: at 95 % as
            ``within=100``, at another level as ``within=(100, 0.99)``.
        expected: the public size that targets in per cent refer to, in records; or a list, one for each row.
    """

    _: KW_ONLY
    name: str | None = field(default=None, metadata=key(NAME, "under which the answers are found"))
    weight: float = field(
        default=1.0,
        metadata=key({"type": "number", "minimum": 0}, "how much its variance counts; 1 unless given"),
    )
    stderr: CountOrShare | None = field(
        default=None, metadata=key(SIZE, "the standard error each answer must keep")
    )
    within: WithinTarget | CountOrShare | None = field(default=None, metadata=key(_WITHIN, _WITHIN_TEXT))
    expected: Expected | None = field(default=None, metadata=key(_EXPECTED, _EXPECTED_TEXT))

    kind: ClassVar[str] = ""
    is_linear: ClassVar[bool] = True

    _unlisted = unlisted(
        "check factors from_plain groups half_width is_linear kind labels meaning operator orders "
        "own_labels own_meaning parsed parts relaxed row_labels shared_ends tables target_to_text "
        "targets terms title"
    )

    def shared_ends(self, schema: Schema) -> list[str]:
        """The values that end one listed range and begin another, each with both ranges, in words.

        Args:
            schema: the schema that the query is asked over.
        """
        return []

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise QueryError.must("name", "be a non-empty text", given=self.name)
        weight = to_float(self.weight)
        if weight is None or not 0 <= weight < math.inf:
            raise QueryError.must("weight", "be a finite number, zero or more", given=self.weight)
        object.__setattr__(self, "weight", weight)
        if self.stderr is not None and self.within is not None:
            raise QueryError.must("stderr", "be left out where within= is given", given=self.stderr)
        object.__setattr__(self, "expected", checked_expected(self.expected))
        if self.stderr is not None:
            object.__setattr__(self, "stderr", checked_stderr(self.stderr, self.expected))
        if self.within is not None:
            object.__setattr__(self, "within", checked_within(self.within, self.expected))
        if not all(0 < one < math.inf for one in self._targets()):
            raise QueryError(
                f"{self.target_to_text()} needs a standard error outside the range of floats",
                field="stderr",
                given=self.stderr,
                remedy="give a larger or a smaller target",
            )

    @property
    def target(self) -> float | None:
        """The standard error that each answer must keep, in records: the smallest of all rows, or None."""
        return min(self._targets(), default=None)

    def targets(self, schema: Schema) -> Array:
        """The standard errors that the answers must keep, ∞ without a target; (1,) if all are equal, or (m,).

        Args:
            schema: the schema that the query is asked over.

        Raises:
            QueryError: if `expected` lists more or fewer sizes than there are rows.
        """
        if isinstance(self.expected, tuple):
            labels = self.labels(schema)
            if len(self.expected) != labels.length:
                shown = ", ".join(repr(labels[i]) for i in range(min(3, labels.length)))
                first = shown + (", …" if labels.length > 3 else "")
                raise QueryError(
                    f"expected holds {len(self.expected):,} sizes and the query has {labels.length:,} rows, "
                    f"{first}",
                    field="expected",
                    given=len(self.expected),
                    remedy="give one for each, in that order, or one number for all",
                )
        return np.array(self._targets() or (math.inf,))

    @property
    def half_width(self) -> WithinTarget | None:
        """The half-width and the level of the interval that each answer must keep; None without `within`."""
        assert self.within is None or isinstance(self.within, tuple)  # so put by `checked_within`
        return self.within

    def _targets(self) -> tuple[float, ...]:
        """The standard errors asked for: none, one for all rows, or one for each."""
        if self.half_width is not None:
            half_width, level = self.half_width
            return tuple(stderr_within(size, level) for size in in_counts(half_width, self.expected))
        return () if self.stderr is None else in_counts(self.stderr, self.expected)

    def target_to_text(self) -> str:
        """The target in words, as it was given; "" without one.

        Example:
            >>> Query(stderr=50).target_to_text(), Query(within=(100, 0.95)).target_to_text()
            ('std. error 50', '±100 at 95%')
            >>> Query(within=(100, 0.9)).target_to_text()
            'within 100 at 90%'
        """
        if self.half_width is not None:
            half_width, level = self.half_width
            # A ± means 95% wherever it stands.
            sign = "±" if level == 0.95 else "within "
            return f"{sign}{size_to_text(half_width, self.expected)} at {100 * level:.6g}%"
        return "" if self.stderr is None else f"std. error {size_to_text(self.stderr, self.expected)}"

    def relaxed(self, factor: float) -> Query:
        """The same query with its target multiplied by a factor; the query itself without a target.

        Args:
            factor: what the target is multiplied by.

        Example:
            >>> Query(expected=200, stderr="5%").relaxed(2).target_to_text()
            'std. error 10% of 200'
        """
        if self.half_width is not None:
            return self.having(within=(times(self.half_width[0], factor), self.half_width[1]))
        return self if self.stderr is None else self.having(stderr=times(self.stderr, factor))

    def having(
        self,
        *,
        name: str | None = AS_IT_IS,
        weight: float = AS_IT_IS,
        stderr: CountOrShare | None = AS_IT_IS,
        within: WithinTarget | CountOrShare | None = AS_IT_IS,
        expected: Expected | None = AS_IT_IS,
    ) -> Query:
        """The same query with another name, weight, target or expected size; what is left out stays.

        Args:
            name: another name.
            weight: another weight.
            stderr: another target, as a standard error; None for none.
            within: another target, as the half-width of an interval; None for none.
            expected: another expected size; None for none.
        """
        given = {"name": name, "weight": weight, "stderr": stderr, "within": within, "expected": expected}
        return self._with_common(
            self._common_with({key: value for key, value in given.items() if value is not AS_IT_IS})
        )

    def _with_common(self, common: dict[str, Any]) -> Query:
        """The same query with these values of what all queries have."""
        return replace(self, **common)

    def _common_with(self, changes: dict[str, Any]) -> dict[str, Any]:
        """What all queries have, as it is after some changes; a new target replaces the old one."""
        common = {name: getattr(self, name) for name in COMMON}
        if changes.get("stderr") is not None or changes.get("within") is not None:
            common |= {"stderr": None, "within": None}
        return common | changes

    def terms(self, schema: Schema) -> list[Term]:
        """The products whose rows, stacked, are the query; most queries have one.

        Args:
            schema: the schema that the query is asked over.
        """
        raise NotImplementedError

    def tables(self, schema: Schema) -> Sequence[Table]:
        """What each row counts of one record, without operators; see `leastnoise.query.queries.meaning`.

        Args:
            schema: the schema that the query is asked over.
        """
        raise NotImplementedError

    def meaning(self, schema: Schema) -> Meaning:
        """What every row counts of one record, with its label.

        Args:
            schema: the schema that the query is asked over.
        """
        return Meaning(self.tables(schema), self.name or "everyone")

    def factors(self, schema: Schema) -> Term | None:
        """The query as a single product, in schema order; None if it is a union of several, or no product.

        Args:
            schema: the schema that the query is asked over.
        """
        terms = self.terms(schema)
        return terms[0] if len(terms) == 1 else None

    def operator(self, schema: Schema) -> Operator:
        """The rows over all cells of the schema, as an operator.

        Args:
            schema: the schema that the query is asked over.
        """
        terms = self.terms(schema)
        if len(terms) == 1:
            return term_operator(terms[0], schema)
        m = sum(math.prod(factor.operator.shape[0] for factor in term) for term in terms)
        # Made when needed: tables of up to three of a hundred attributes have sixteen million factors.
        return Deferred((m, schema.n_cells), lambda: Stack([term_operator(term, schema) for term in terms]))

    def check(self, schema: Schema) -> None:
        """Raise unless the query, with its targets, can be asked over a schema.

        Args:
            schema: the schema that the query is asked over.
        """
        self.operator(schema)
        self.targets(schema)

    def labels(self, schema: Schema) -> Labels:
        """The label of each row.

        Args:
            schema: the schema that the query is asked over.
        """
        terms = self.terms(schema)
        everyone = self.name or "everyone"
        if len(terms) == 1:
            return term_labels(terms[0], everyone)
        lengths = (math.prod(factor.labels.length for factor in term) for term in terms)
        starts = list(accumulate(lengths, initial=0))

        def make(i: int) -> str:
            number = bisect.bisect_right(starts, i) - 1
            return term_labels(terms[number], everyone)[i - starts[number]]

        return Labels(starts[-1], make)

    def title(self) -> str:
        """The name of the batch where none is given."""
        return self.kind

    def __mul__(self, other: object) -> Product:
        if not isinstance(other, Query):
            return NotImplemented
        weight = self.weight * other.weight
        if weight == 0 < min(self.weight, other.weight):
            raise QueryError.must(
                "weight",
                "multiply to more than the smallest float",
                given=(self.weight, other.weight),
                remedy="scale the weights up",
            )
        return Product(self.having(weight=1.0), other.having(weight=1.0), weight=weight)

    @classmethod
    def from_plain(cls, given: dict[str, Any]) -> Query:
        """The query with the fields that a file gives; overridden where the constructor takes something else.

        Args:
            given: the fields of the query as JSON or TOML holds them.
        """
        return cls(**given)

    def __repr__(self) -> str:
        """The call that makes it.

        Example:
            >>> Query(name="all", stderr=50)
            Query(name='all', stderr=50.0)
        """
        return f"{type(self).__name__}({', '.join([*self._own_arguments(), *self._common_arguments()])})"

    def _common_arguments(self) -> list[str]:
        """Of what all queries have, the arguments that differ from the usual ones, as they are written."""
        own = {name: getattr(self, name) for name in COMMON}
        return [f"{name}={value!r}" for name, value in own.items() if value != COMMON[name]]

    def _own_arguments(self) -> list[str]:
        """The arguments of its kind, as they are written."""
        own = [one for one in fields(self) if one.name not in COMMON]
        given = [one for one in own if getattr(self, one.name) != one.default]
        named = {one.name for one in given if one.kw_only or one.default is not MISSING}
        given.sort(key=lambda one: one.name in named)
        return [f"{one.name}=" * (one.name in named) + repr(getattr(self, one.name)) for one in given]

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `query_from_dict` reads back."""
        plain: dict[str, Any] = {"kind": self.kind}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != one.default:
                plain[one.name] = to_plain(value)
        return plain


@dataclass(frozen=True, repr=False)
class Product(Query):
    """Every row of one query crossed with every row of another, on different attributes."""

    left: Query = field(metadata=key(QUERY))
    right: Query = field(metadata=key(QUERY))
    kind: ClassVar[str] = "product"

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in (self.left, self.right):
            if not isinstance(side, Query):
                raise QueryError.must("query", "be crossed with another query", given=type(side))
            if not side.is_linear:
                raise QueryError.must(
                    "query",
                    "be a count to be crossed, not a ratio",
                    given=side.kind,
                    remedy="name the groups in the ratio, as in Mean('income', by='sex')",
                )
            if side.kind == "linear":
                raise QueryError.must(
                    "query", "not be crossed, as it covers every attribute already", given=type(side)
                )
            if side.target is not None:
                raise QueryError.must(
                    "stderr", "be given to the product: (a * b).having(stderr=50)", given=side.target
                )
            if side.weight != 1.0:
                raise QueryError.must(
                    "weight", "be given to the product: (a * b).having(weight=2)", given=side.weight
                )

    def shared_ends(self, schema: Schema) -> list[str]:
        return [*self.left.shared_ends(schema), *self.right.shared_ends(schema)]

    def terms(self, schema: Schema) -> list[Term]:
        return [
            self._crossed(left, right, schema)
            for left in self.left.terms(schema)
            for right in self.right.terms(schema)
        ]

    def tables(self, schema: Schema) -> Sequence[Table]:
        return [
            tuple(sorted([*left, *right], key=lambda aspect: schema.names.index(aspect.attributes[0])))
            for left in self.left.tables(schema)
            for right in self.right.tables(schema)
        ]

    def _crossed(self, left: Term, right: Term, schema: Schema) -> Term:
        for name in {name for factor in left for name in factor.attributes}:
            if any(name in factor.attributes for factor in right):
                raise QueryError.must("attribute", "stand on one side of a product only", given=name)
        crossed = sorted([*left, *right], key=lambda factor: schema.names.index(factor.attributes[0]))
        titles = [factor.title for factor in crossed]
        twice = next((title for title in titles if titles.count(title) > 1), None)
        if twice is not None:
            raise QueryError.must("heading", "differ between the two sides of a product", given=twice)
        return crossed

    def title(self) -> str:
        return f"{self.left.name or self.left.title()} x {self.right.name or self.right.title()}"

    def __repr__(self) -> str:
        given = self._common_arguments()
        right = f"({self.right!r})" if isinstance(self.right, Product) else repr(self.right)
        crossed = f"{self.left!r} * {right}"
        return f"({crossed}).having({', '.join(given)})" if given else crossed


class QueryList(list[Query]):
    """Queries in order: a list that a notebook shows line by line."""

    def _repr_html_(self) -> str:
        return html_text("\n".join(map(repr, self)))


class Common(NamedTuple):
    """What all queries have."""

    name: str | None
    weight: float
    stderr: CountOrShare | None
    within: WithinTarget | CountOrShare | None
    expected: Expected | None


def set_common(query: Query, common: Common) -> None:
    """Give a query its name, weight and target before the checks."""
    for name, value in common._asdict().items():
        object.__setattr__(query, name, value)


def check_attribute(query: Query, name: object) -> None:
    """Return if a name is a text."""
    if not isinstance(name, str):
        raise QueryError.must("attribute", f"be a name, as in {type(query).__name__}('age')", given=name)


def to_plain(value: Any) -> Any:
    """Values that JSON and TOML can hold."""
    if isinstance(value, Query):
        return value.to_dict()
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def checked_bounds(bounds: Any) -> tuple[int, int] | None:
    """Bounds as a pair of whole numbers.

    Raises:
        QueryError: if they are none.
    """
    if bounds is None:
        return None
    plain = [to_plain(end) for end in bounds] if isinstance(bounds, (tuple, list)) else []
    if len(plain) != 2 or any(type(end) is not int for end in plain) or plain[0] >= plain[1]:
        raise QueryError.must("bounds", "be two whole numbers, the smaller one first", given=bounds)
    return plain[0], plain[1]
