"""What a person asks: totals, cross tables, ranges, distributions, any linear combination.

Every query is one small frozen class. Most are products: they ask something of
some attributes (each a `Factor`) and add up over all others. All take

    name=      how the answers are found in the release
    weight=    how much its variance counts in the total, 1 unless given
    stderr=    the standard error each answer must keep, or
    within=    (half-width, level): the interval each answer must keep

and ``a * b`` crosses two queries on different attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from statistics import NormalDist
from typing import Any, ClassVar, overload

import numpy as np

from leastnoise.errors import QueryError
from leastnoise.operators import (
    AllOnes,
    CumulativeSum,
    EveryRange,
    Identity,
    Kronecker,
    Operator,
    SomeRanges,
    SparseMatrix,
    from_entries,
)
from leastnoise.schema import Attribute, Bins, Schema


class Labels(Sequence[str]):
    """Names made when looked at, so that a million queries cost nothing to name."""

    __slots__ = ("_length", "_make")

    def __init__(self, length: int, make: Callable[[int], str]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Labels: ...
    def __getitem__(self, index: int | slice) -> str | Labels:
        if isinstance(index, slice):
            chosen = range(self._length)[index]
            length = (
                chosen.stop - chosen.start + chosen.step - (1 if chosen.step > 0 else -1)
            ) // chosen.step
            return Labels(max(0, length), lambda i: self._make(chosen[i]))
        return self._make(range(self._length)[index])

    def __iter__(self) -> Iterator[str]:
        return (self._make(i) for i in range(self._length))

    @property
    def length(self) -> int:
        """How many there are; len() stops at 2^63."""
        return self._length

    def __repr__(self) -> str:
        shown = [self[i] for i in range(min(3, self._length))]
        return f"<{self._length:,} labels: {', '.join(shown)}{', …' if self._length > 3 else ''}>"


@dataclass(frozen=True)
class Factor:
    """What a query asks of one attribute: rows over its values, and what each row is called."""

    attribute: str
    operator: Operator
    labels: Labels


@dataclass(frozen=True)
class Query:
    """A batch of linear counting queries over one schema."""

    _: KW_ONLY
    name: str | None = None
    weight: float = 1.0
    stderr: float | None = None
    within: tuple[float, float] | None = None

    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise QueryError(f"a query's name must be a non-empty text, got {self.name!r}")
        weight, stderr = _to_float(self.weight), _to_float(self.stderr)
        if weight is None or not 0 <= weight < math.inf:
            raise QueryError(f"weight must be a finite number, zero or more, got {self.weight!r}")
        object.__setattr__(self, "weight", weight)
        if self.stderr is not None and self.within is not None:
            raise QueryError("give a target as stderr= or as within=, not both")
        if self.stderr is not None:
            if stderr is None or not 0 < stderr < math.inf:
                raise QueryError(f"stderr must be a positive, finite number, got {self.stderr!r}")
            object.__setattr__(self, "stderr", stderr)
        if self.within is not None:
            self._check_within()

    def _check_within(self) -> None:
        pair = self.within
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise QueryError(f"within must be (half-width, level), as in within=(100, 0.95), got {pair!r}")
        half_width, level = _to_float(pair[0]), _to_float(pair[1])
        if half_width is None or level is None:
            raise QueryError(f"within must be (half-width, level), as in within=(100, 0.95), got {pair!r}")
        if not 0 < half_width < math.inf or not 0 < level < 1:
            raise QueryError(f"within needs a positive half-width and a level between 0 and 1, got {pair!r}")
        if not 0 < _stderr_within(half_width, level) < math.inf:
            raise QueryError(f"within={pair!r} asks for no standard error a float can hold")
        object.__setattr__(self, "within", (half_width, level))

    @property
    def target(self) -> float | None:
        """The standard error each answer must keep, or None."""
        return self.stderr if self.within is None else _stderr_within(*self.within)

    def having(self, **changes: Any) -> Query:
        """The same query with another name, weight or target."""
        return replace(self, **self._common_with(changes))

    def _common_with(self, changes: dict[str, Any]) -> dict[str, Any]:
        """What all queries have, as it is after some changes; a new target replaces the old one."""
        common = {"name": self.name, "weight": self.weight, "stderr": self.stderr, "within": self.within}
        unknown = set(changes) - set(common)
        if unknown:
            raise QueryError(f"a query has name, weight, stderr and within, not {', '.join(sorted(unknown))}")
        if changes.get("stderr") is not None or changes.get("within") is not None:
            common |= {"stderr": None, "within": None}
        return common | changes

    def factors(self, schema: Schema) -> list[Factor] | None:
        """What is asked of each attribute mentioned, in schema order; None if it is no product."""
        return None

    def operator(self, schema: Schema) -> Operator:
        """The rows over all cells of the schema."""
        factors = self.factors(schema)
        assert factors is not None
        asked = {factor.attribute: factor.operator for factor in factors}
        return Kronecker([asked.get(name) or AllOnes(schema[name].size) for name in schema])

    def labels(self, schema: Schema) -> Labels:
        """What each row is called."""
        factors = self.factors(schema)
        assert factors is not None
        if not factors:
            return Labels(1, lambda i: self.name or "everyone")

        def make(i: int) -> str:
            parts = []
            for factor in reversed(factors):
                i, j = divmod(i, factor.labels.length)
                parts.append(f"{factor.attribute} {factor.labels[j]}")
            return ", ".join(reversed(parts))

        return Labels(math.prod(factor.labels.length for factor in factors), make)

    def title(self) -> str:
        """What the batch is called when it was given no name."""
        return self.kind

    def __mul__(self, other: object) -> Product:
        if not isinstance(other, Query):
            return NotImplemented
        weight = self.weight * other.weight
        if weight == 0 < min(self.weight, other.weight):
            raise QueryError(
                f"the weights {self.weight!r} and {other.weight!r} multiply to less than a float holds"
            )
        return Product(self, other, weight=weight)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `query_from_dict` reads back."""
        plain: dict[str, Any] = {"kind": self.kind}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                plain[field.name] = _to_plain(value)
        return plain


@dataclass(frozen=True)
class Total(Query):
    """The number of records: one query."""

    kind: ClassVar[str] = "total"

    def factors(self, schema: Schema) -> list[Factor]:
        return []


@dataclass(frozen=True, init=False)
class Marginal(Query):
    """One count for every combination of values of the attributes: a cross table."""

    attributes: tuple[str, ...] = ()
    kind: ClassVar[str] = "marginal"

    def __init__(self, *attributes: str, **common: Any) -> None:
        _set_common(self, common)
        object.__setattr__(self, "attributes", attributes)
        for name in attributes:
            _check_attribute(self, name)
        if not attributes:
            raise QueryError("Marginal needs at least one attribute; for the number of records use Total()")
        if len(set(attributes)) < len(attributes):
            raise QueryError(f"Marginal needs different attributes, got {', '.join(attributes)}")
        self.__post_init__()

    def having(self, **changes: Any) -> Query:
        return Marginal(*self.attributes, **self._common_with(changes))

    def factors(self, schema: Schema) -> list[Factor]:
        asked = {name: schema[name] for name in self.attributes}
        return [
            Factor(name, Identity(asked[name].size), Labels(asked[name].size, asked[name].label))
            for name in schema
            if name in asked
        ]

    def title(self) -> str:
        return " x ".join(self.attributes)


@dataclass(frozen=True)
class Prefix(Query):
    """For every value, how many records have that value or a smaller one: a distribution."""

    attribute: str
    kind: ClassVar[str] = "prefix"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_attribute(self, self.attribute)

    def factors(self, schema: Schema) -> list[Factor]:
        values = schema[self.attribute]
        labels = Labels(values.size, values.prefix_label)
        return [Factor(self.attribute, CumulativeSum(values.size), labels)]

    def title(self) -> str:
        return f"{self.attribute} up to"


@dataclass(frozen=True)
class AllRanges(Query):
    """One count for every interval of values, n(n + 1)/2 of them."""

    attribute: str
    kind: ClassVar[str] = "all-ranges"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_attribute(self, self.attribute)

    def factors(self, schema: Schema) -> list[Factor]:
        values = schema[self.attribute]
        every = EveryRange(values.size)
        labels = Labels(every.shape[0], lambda j: values.span_label(*every.ends(j)))
        return [Factor(self.attribute, every, labels)]

    def title(self) -> str:
        return f"{self.attribute} ranges"


@dataclass(frozen=True)
class Ranges(Query):
    """One count for each listed interval (low, high).

    Both ends belong to it for whole numbers and categories; for bins, low and
    high are edges and the interval is [low, high).
    """

    attribute: str
    ranges: Sequence[tuple[Any, Any]]
    kind: ClassVar[str] = "ranges"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_attribute(self, self.attribute)
        try:
            if any(isinstance(pair, str) for pair in self.ranges):
                raise TypeError
            pairs = tuple((_to_plain(low), _to_plain(high)) for low, high in self.ranges)
        except (TypeError, ValueError):
            raise QueryError(f"ranges must be a list of (low, high) pairs, got {self.ranges!r}") from None
        if not pairs:
            raise QueryError("Ranges needs at least one (low, high) pair")
        object.__setattr__(self, "ranges", pairs)

    def factors(self, schema: Schema) -> list[Factor]:
        values = schema[self.attribute]
        spans = [_span(self.attribute, values, low, high) for low, high in self.ranges]
        some = SomeRanges(values.size, [s[0] for s in spans], [s[1] for s in spans])
        labels = Labels(len(spans), lambda j: values.span_label(*spans[j]))
        return [Factor(self.attribute, some, labels)]

    def title(self) -> str:
        return f"{self.attribute} ranges"


@dataclass(frozen=True)
class Product(Query):
    """Every row of one query crossed with every row of another, on different attributes."""

    left: Query
    right: Query
    kind: ClassVar[str] = "product"

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in (self.left, self.right):
            if not isinstance(side, Query):
                raise QueryError(f"a product crosses two queries, got {type(side).__name__}")
            if isinstance(side, Linear):
                raise QueryError("Linear already covers every attribute and cannot be crossed")
            if side.target is not None:
                raise QueryError("give the target to the product: (a * b).having(stderr=50)")

    def factors(self, schema: Schema) -> list[Factor]:
        both = [*(self.left.factors(schema) or []), *(self.right.factors(schema) or [])]
        names = [factor.attribute for factor in both]
        for name in names:
            if names.count(name) > 1:
                raise QueryError(f"a product crosses different attributes, {name!r} is on both sides")
        return sorted(both, key=lambda factor: schema.names.index(factor.attribute))

    def title(self) -> str:
        return f"{self.left.name or self.left.title()} x {self.right.name or self.right.title()}"


@dataclass(frozen=True, eq=False)
class Linear(Query):
    """Any linear combinations of the cells, one row each: an array or a SciPy sparse matrix."""

    matrix: Any
    row_labels: Sequence[str] | None = None
    kind: ClassVar[str] = "linear"

    def __init__(self, matrix: Any, labels: Sequence[str] | None = None, **common: Any) -> None:
        _set_common(self, common)
        # The operator is made here, so that a later change of the caller's array changes nothing.
        object.__setattr__(self, "matrix", from_entries(matrix))
        given = None if labels is None else tuple(labels)
        object.__setattr__(self, "row_labels", given)
        if given is not None and (
            isinstance(labels, str) or not all(isinstance(text, str) for text in given)
        ):
            raise QueryError("labels must be a list of texts, one per row")
        if given is not None and len(given) != self.matrix.shape[0]:
            raise QueryError(f"{self.matrix.shape[0]} rows need as many labels, got {len(given)}")
        self.__post_init__()

    def having(self, **changes: Any) -> Query:
        other = object.__new__(Linear)
        _set_common(other, self._common_with(changes))
        object.__setattr__(other, "matrix", self.matrix)
        object.__setattr__(other, "row_labels", self.row_labels)
        other.__post_init__()
        return other

    def __eq__(self, other: object) -> bool:
        # Without this, the comparison inherited from Query would look at name, weight and target only.
        return isinstance(other, Linear) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.matrix.shape, self.row_labels, self.name, self.weight, self.target))

    def operator(self, schema: Schema) -> Operator:
        if self.matrix.shape[1] != schema.n_cells:
            raise QueryError(
                f"Linear needs one column for each of the schema's {schema.n_cells:,} cells, "
                f"got {self.matrix.shape[1]:,}"
            )
        return self.matrix

    def labels(self, schema: Schema) -> Labels:
        return self.own_labels()

    def own_labels(self) -> Labels:
        """The labels given, or row numbers."""
        given = self.row_labels
        return Labels(self.matrix.shape[0], lambda j: f"row {j}" if given is None else given[j])

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"kind": self.kind, "matrix": _plain_matrix(self.matrix)}
        if self.row_labels is not None:
            plain["labels"] = list(self.row_labels)
        return plain | {
            name: _to_plain(getattr(self, name))
            for name, default in (("name", None), ("weight", 1.0), ("stderr", None), ("within", None))
            if getattr(self, name) != default
        }


QUERY_KINDS: dict[str, type[Query]] = {
    cls.kind: cls for cls in (Total, Marginal, Prefix, AllRanges, Ranges, Product, Linear)
}


def query_from_dict(plain: dict[str, Any]) -> Query:
    """The query that `to_dict` wrote, or one [[query]] table of a specification file."""
    if not isinstance(plain, dict):
        raise QueryError(f"a query must be a table with its kind, got {type(plain).__name__}")
    given = dict(plain)
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in QUERY_KINDS:
        raise QueryError(f"a query's kind must be one of {', '.join(QUERY_KINDS)}, got {kind!r}")
    if "within" in given:
        given["within"] = tuple(given["within"]) if isinstance(given["within"], list) else given["within"]
    try:
        if kind == "marginal":
            attributes = given.pop("attributes", ())
            if not isinstance(attributes, (list, tuple)):
                raise QueryError(f"attributes must be a list of names, got {attributes!r}")
            return Marginal(*attributes, **given)
        if kind == "linear" and isinstance(given.get("matrix"), dict):
            given["matrix"] = _sparse_from_plain(given["matrix"])
        if kind == "product":
            left, right = (query_from_dict(given.pop(side, {})) for side in ("left", "right"))
            return Product(left, right, **given)
        return QUERY_KINDS[kind](**given)
    except TypeError:
        allowed = {"marginal": ["attributes"], "linear": ["matrix", "labels"], "product": ["left", "right"]}
        own = allowed.get(kind) or [f.name for f in fields(QUERY_KINDS[kind]) if not f.kw_only]
        raise QueryError(
            f"a {kind} query takes {', '.join([*own, 'name', 'weight', 'stderr', 'within'])}; "
            f"got {', '.join(sorted(set(plain) - {'kind'})) or 'nothing'}"
        ) from None


def _set_common(query: Query, common: dict[str, Any]) -> None:
    defaults: dict[str, Any] = {"name": None, "weight": 1.0, "stderr": None, "within": None}
    unknown = set(common) - set(defaults)
    if unknown:
        raise TypeError(f"{type(query).__name__} takes no {', '.join(sorted(unknown))}")
    for key, default in defaults.items():
        object.__setattr__(query, key, common.get(key, default))


def _span(name: str, values: Attribute, low: Any, high: Any) -> tuple[int, int]:
    span = values.span(_to_plain(low), _to_plain(high))
    if span is None:
        if isinstance(values, Bins):
            edges = ", ".join(f"{edge:,}" for edge in values.edges[:12]) + (", …" if values.size > 11 else "")
            raise QueryError(
                f"a range of {name!r} runs from one of its edges to a larger one, got ({low!r}, {high!r}); "
                f"the edges are {edges}"
            )
        raise QueryError(
            f"({low!r}, {high!r}) holds no declared value of {name!r}, which is "
            f"{values.span_label(0, values.size - 1)}; give the smaller end first"
        )
    return span


def _check_attribute(query: Query, name: object) -> None:
    if not isinstance(name, str):
        raise QueryError(
            f"{type(query).__name__} takes the names of attributes, as in {type(query).__name__}('age'), "
            f"got {name!r}"
        )


def _stderr_within(half_width: float, level: float) -> float:
    """σ such that N(0, σ²) stays within the half-width with probability `level`."""
    # The lower tail: (1 + level) / 2 rounds to 1 for levels next to 1.
    z = -NormalDist().inv_cdf((1 - level) / 2)
    return half_width / z if z > 0 else math.inf


def _to_float(value: object) -> float | None:
    """A number as a float, so that equal queries have one digest; None if it is no number."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _plain_matrix(matrix: Operator) -> Any:
    """Nested lists, or for a sparse matrix its entries by row and column."""
    if isinstance(matrix, SparseMatrix):
        entries = matrix.entries.tocoo()
        return {
            "shape": list(matrix.shape),
            "rows": entries.row.tolist(),
            "columns": entries.col.tolist(),
            "values": entries.data.tolist(),
        }
    return matrix.dense(np.int64 if matrix.is_integer else np.float64).tolist()


def _sparse_from_plain(plain: dict[str, Any]) -> Any:
    from scipy.sparse import coo_array

    try:
        places = tuple(np.array(plain[name]) for name in ("rows", "columns"))
        if any(place.size and place.dtype.kind != "i" for place in places):
            raise TypeError
        return coo_array((np.array(plain["values"]), places), shape=tuple(plain["shape"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise QueryError("a sparse matrix must be a table of shape, rows, columns and values") from None


def _to_plain(value: Any) -> Any:
    if isinstance(value, Query):
        return value.to_dict()
    if isinstance(value, (tuple, list)):
        return [_to_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
