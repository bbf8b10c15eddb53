"""A workload as a union of products: the rows that each query needs of each attribute, never over all cells.

A query such as ``Marginal("sex") * Prefix("age")`` is a Kronecker product of a block of rows per attribute:
here the identity for sex, the running sums for age, and for every other attribute the one row that adds all
values up. Attributes that a condition ties together ("age >= 18 or student == 'yes'") are one axis; every
other attribute is an axis of its own. Each product is then a set of axes, with a block of rows for each.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core.errors import TooLargeError, WorkloadError
from leastnoise.core.operators import AllOnes, Array, Identity, Kronecker, Operator, Reordered, arranged
from leastnoise.query.lattice import AxisSet
from leastnoise.query.queries import Factor, Linear, Term
from leastnoise.query.schema import Schema
from leastnoise.query.workload import Workload

# Values of an axis on which more than plain counts is asked: its Gram matrix has the square of this many
# entries, half a gigabyte.
MAX_AXIS = 8_192


@dataclass(frozen=True)
class Axis:
    """An attribute, or several that some condition ties together.

    Attributes:
        places: the positions of the attributes in the schema.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    places: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of combinations of values."""
        return math.prod(self.sizes)


@dataclass(frozen=True, eq=False)
class AxisRows:
    """A block of rows over one axis, as some product of the workload has it."""

    operator: Operator

    @property
    def is_identity(self) -> bool:
        """Whether the rows are the plain counts of all values."""
        return isinstance(self.operator, Identity)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.operator.shape[0]

    @cached_property
    def gram(self) -> Array:
        """Its (size, size) Gram matrix, built when asked for."""
        return self.operator.gram()


class ProductTerm(NamedTuple):
    """One product of a workload.

    Its rows are numbered in two ways. The workload counts through the factors as the query lists them, the
    last one fastest: that is the order of labels. A strategy counts through the axes, the last one fastest,
    and within an axis through the factors that its kind multiplies. `in_workload_order` converts from the
    second to the first.

    Attributes:
        block: the place of its query in the workload.
        start: the first of its rows in the workload.
        places: the axes that it mentions, rising; the others are added up.
        kinds: which block of rows it has on each of them, by number.
        factor_rows: how many rows each factor has, factors in the workload's order.
        axis_factors: for each axis of `places`, the factors that its kind multiplies, in that order.
    """

    block: int
    start: int
    places: AxisSet
    kinds: tuple[int, ...]
    factor_rows: tuple[int, ...]
    axis_factors: tuple[tuple[int, ...], ...]

    @property
    def n_rows(self) -> int:
        """How many queries the product holds."""
        return math.prod(self.factor_rows)

    def in_workload_order(self, values: Array) -> Array:
        """Numbers of its rows, (n_rows, ...), the last axis fastest, in the order of the labels."""
        factors = [factor for own in self.axis_factors for factor in own]
        if factors == sorted(factors):
            return values
        table = values.reshape(*(self.factor_rows[factor] for factor in factors), *values.shape[1:])
        return arranged(table, factors, range(len(factors))).reshape(values.shape)

    def axis_rows(self, row: int) -> tuple[int, ...]:
        """For each axis, which row of its kind makes one row of the workload's order."""
        of_factors = []
        for n_rows in reversed(self.factor_rows):
            row, own = divmod(row, n_rows)
            of_factors.append(own)
        of_factors.reverse()
        found = []
        for factors in self.axis_factors:
            number = 0
            for factor in factors:
                number = number * self.factor_rows[factor] + of_factors[factor]
            found.append(number)
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Products:
    """A union of products.

    Attributes:
        axes: the axes of the products; those with a single value are left out.
        kinds: for every axis, the different blocks of rows that products have on it.
        terms: the products, in the order of the workload's rows.
    """

    axes: tuple[Axis, ...]
    kinds: tuple[tuple[AxisRows, ...], ...]
    terms: tuple[ProductTerm, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many combinations of values every axis has."""
        return tuple(axis.size for axis in self.axes)

    @property
    def n_cells(self) -> int:
        """How many cells there are in all."""
        return math.prod(self.sizes)

    @cached_property
    def sets(self) -> tuple[AxisSet, ...]:
        """The axes that each product mentions."""
        return tuple(term.places for term in self.terms)

    def is_zero(self, term: ProductTerm) -> bool:
        """Whether all coefficients of a product are zero, and so its answer."""
        return any((a, k) in self._zero_kinds for a, k in zip(term.places, term.kinds, strict=True))

    @cached_property
    def _zero_kinds(self) -> frozenset[tuple[int, int]]:
        """The kinds, by axis and number, whose rows are all zero."""
        return frozenset(
            (a, k)
            for a, kinds in enumerate(self.kinds)
            for k, kind in enumerate(kinds)
            if not kind.is_identity and not kind.operator.column_norms(1).any()
        )

    @property
    def are_marginals(self) -> bool:
        """Whether all products are cross tables."""
        return all(kind.is_identity for kinds in self.kinds for kind in kinds)


def products_of(workload: Workload, axes: Sequence[Axis] | None = None) -> Products | None:
    """The workload as a union of products; None where a matrix over all cells is part of it.

    Args:
        axes: the axes to use; None is returned if a query ties several of them together. Unless given,
            attributes are tied together as the queries need.
    """
    if workload not in _KNOWN:
        _KNOWN[workload] = _products(workload, None)
    own = _KNOWN[workload]
    if axes is None or (own is not None and own.axes == tuple(axes)):
        return own
    return _products(workload, tuple(axes))


_KNOWN: WeakKeyDictionary[Workload, Products | None] = WeakKeyDictionary()


def _products(workload: Workload, axes: tuple[Axis, ...] | None) -> Products | None:
    schema = workload.schema
    if schema is None or any(isinstance(block.query, Linear) for block in workload.blocks):
        return None
    terms = [block.query.terms(schema) for block in workload.blocks]
    every = [term for of_block in terms for term in of_block]
    if axes is None:
        axes = tuple(_axes(schema, every))
    elif _ties(every, axes):
        return None
    builder = _ProductBuilder(axes)
    found: list[ProductTerm] = []
    start = 0
    for block, of_block in enumerate(terms):
        for term in of_block:
            product = builder.product(term, block, start)
            if product is None:
                return None
            found.append(product)
            start += product.n_rows
    return Products(builder.axes, builder.kinds_of_axes(), tuple(found))


def _ties(terms: Sequence[Term], axes: Sequence[Axis]) -> bool:
    """Whether some factor covers several axes at once."""
    place = {name: number for number, axis in enumerate(axes) for name in axis.names}
    tied = (factor for term in terms for factor in term if len(factor.attributes) > 1)
    return any(len({place[name] for name in f.attributes if name in place}) > 1 for f in tied)


class _ProductBuilder:
    """Turns terms into products over given axes, and numbers the blocks of rows found on each."""

    def __init__(self, axes: tuple[Axis, ...]) -> None:
        self.axes = axes
        self._place = {name: place for place, axis in enumerate(self.axes) for name in axis.names}
        self._kinds: list[list[AxisRows]] = [[] for _ in self.axes]
        # Terms of a cube share their factors, so most are found here without comparing contents.
        self._known: dict[tuple[int, tuple[Factor, ...]], int] = {}
        self._by_content: list[dict[object, int]] = [{} for _ in self.axes]
        self._factors: dict[Factor, tuple[int, int, int]] = {}

    def kinds_of_axes(self) -> tuple[tuple[AxisRows, ...], ...]:
        """The blocks of rows found so far, axis by axis."""
        return tuple(tuple(kinds) for kinds in self._kinds)

    def product(self, term: Term, block: int, start: int) -> ProductTerm | None:
        """One term as a product over the axes; None where the order of tied attributes cannot be kept."""
        found = [self._of_factor(factor) for factor in term]
        places = [place for place, _, _ in found if place >= 0]
        # The usual case: each factor has an axis of its own, in the order of the axes.
        if all(p < q for p, q in pairwise(places)) and not any(kind < 0 for _, kind, _ in found):
            asked = [one for one in found if one[0] >= 0]
            kinds = tuple([kind for _, kind, _ in asked])
            factor_rows = tuple([n for _, _, n in asked])
            return ProductTerm(block, start, tuple(places), kinds, factor_rows, one_factor_each(len(asked)))
        return self._reordered(term, block, start)

    def _of_factor(self, factor: Factor) -> tuple[int, int, int]:
        """A factor's axis, its kind there, and its number of rows.

        The axis is −1 if the factor just counts everyone; the kind is −1 if `_reordered` must decide.
        """
        if factor not in self._factors:
            place = next((self._place[name] for name in factor.attributes if name in self._place), -1)
            if place < 0:
                kind = 0 if self._counts_everyone(factor) else -1
            else:
                kind = self._kind(place, (factor,)) if len(self.axes[place].names) == 1 else -1
            self._factors[factor] = (place, kind, factor.operator.shape[0])
        return self._factors[factor]

    def _reordered(self, term: Term, block: int, start: int) -> ProductTerm | None:
        # Factors over attributes with one value have one row and change no order.
        counted = [factor for factor in term if self._of_factor(factor)[0] >= 0]
        if not all(self._counts_everyone(factor) for factor in term if self._of_factor(factor)[0] < 0):
            return None
        on_axis: dict[int, list[int]] = {}
        for position, factor in enumerate(counted):
            on_axis.setdefault(self._of_factor(factor)[0], []).append(position)
        places = tuple(sorted(on_axis))
        # The kind of an axis multiplies factors in the order of the axis, not in that of the query.
        axis_factors = tuple(
            tuple(sorted(on_axis[place], key=lambda i: self.axes[place].names.index(self._first(counted[i]))))
            for place in places
        )
        kinds = tuple(
            self._kind(place, tuple(counted[i] for i in own))
            for place, own in zip(places, axis_factors, strict=True)
        )
        factor_rows = tuple(factor.operator.shape[0] for factor in counted)
        return ProductTerm(block, start, places, kinds, factor_rows, axis_factors)

    def _first(self, factor: Factor) -> str:
        """The first attribute of a factor that is part of an axis; those with one value are not."""
        return next(name for name in factor.attributes if name in self._place)

    def _counts_everyone(self, factor: Factor) -> bool:
        """Whether a question about an attribute with one value is just the number of records."""
        operator = factor.operator
        return operator.shape == (1, 1) and float(operator.dense()[0, 0]) == 1

    def _kind(self, place: int, factors: tuple[Factor, ...]) -> int:
        key = (place, factors)
        if key not in self._known:
            self._known[key] = self._kind_by_content(place, self._operator(place, factors))
        return self._known[key]

    def _operator(self, place: int, factors: Sequence[Factor]) -> Operator:
        """The rows of several factors, in the order of the axis; attributes without a factor are added up."""
        axis = self.axes[place]
        if len(axis.names) == 1:
            return factors[0].operator
        asked = {self._first(factor): factor for factor in factors}
        mentioned = {name for factor in factors for name in factor.attributes}
        parts: list[Operator] = []
        multiplied: list[str] = []
        for name, size in zip(axis.names, axis.sizes, strict=True):
            if name in asked:
                parts.append(asked[name].operator)
                multiplied += [one for one in asked[name].attributes if one in axis.names]
            elif name not in mentioned:
                parts.append(AllOnes(size))
                multiplied.append(name)
        if all(isinstance(part, Identity) for part in parts):
            return Identity(axis.size)
        order = [axis.names.index(name) for name in multiplied]
        product = Kronecker(parts)
        return product if order == sorted(order) else Reordered(product, axis.sizes, order)

    def _kind_by_content(self, place: int, operator: Operator) -> int:
        size, kinds, known = self.axes[place].size, self._kinds[place], self._by_content[place]
        content: object
        if isinstance(operator, Identity):
            content = "identity"
        else:
            if size > MAX_AXIS:
                raise TooLargeError(
                    f"{' and '.join(self.axes[place].names)} has {size:,} values; at most "
                    f"{MAX_AXIS:,} are supported if more than plain counts is asked of it",
                    field="workload",
                    given=size,
                    remedy="declare it coarser",
                )
            if not kinds:
                # What it holds is looked at when there is another to compare it with.
                kinds.append(AxisRows(operator))
                return 0
            content = _content(operator)
        if kinds and not known:
            known[_content(kinds[0].operator)] = 0
        if content not in known:
            known[content] = len(kinds)
            kinds.append(AxisRows(operator))
        return known[content]


@cache
def one_factor_each(n_axes: int) -> tuple[tuple[int, ...], ...]:
    """`ProductTerm.axis_factors` if each factor has one axis, in the order of the axes."""
    return tuple((position,) for position in range(n_axes))


def _content(operator: Operator) -> tuple[object, ...]:
    """What tells two blocks of rows apart: their rows where they are few, else their Gram matrix and order.

    A condition on four attributes of ten values is one row and a Gram matrix of 10,000 by 10,000.
    """
    m, n = operator.shape
    if 2 * m <= n:
        return operator.shape, _digest(operator.dense())
    return operator.shape, _digest(operator.gram()), _first_rows(operator)


def _digest(matrix: Array) -> bytes:
    """A SHA-256 of a matrix, kept instead of it: with 8,000 values it takes half a gigabyte."""
    return hashlib.sha256(np.ascontiguousarray(matrix).data).digest()


def _first_rows(operator: Operator) -> bytes:
    """The product with a fixed vector: differs where equal Gram matrices have rows in another order."""
    probe = np.arange(1.0, operator.shape[1] + 1) ** 0.5
    return np.asarray(operator.apply(probe)).tobytes()


def _axes(schema: Schema, terms: Sequence[Term]) -> list[Axis]:
    """The attributes with more than one value; those that some factor ties together are one axis."""
    owner: dict[str, str] = {name: name for name in schema}

    def root(name: str) -> str:
        while owner[name] != name:
            name = owner[name]
        return name

    tied = {factor.attributes: None for term in terms for factor in term if len(factor.attributes) > 1}
    for first, *others in tied:
        for other in others:
            owner[root(other)] = root(first)
    groups: dict[str, list[str]] = {}
    sizes: Mapping[str, int] = {name: schema[name].size for name in schema}
    for name in schema:
        if sizes[name] > 1:
            groups.setdefault(root(name), []).append(name)
    place = {name: number for number, name in enumerate(schema)}
    return [
        Axis(tuple(names), tuple(sizes[name] for name in names), tuple(place[name] for name in names))
        for names in groups.values()
    ]


def axes_to_plain(axes: Sequence[Axis]) -> list[Any]:
    """Plain values that `axes_from_plain` reads back."""
    return [[list(axis.names), list(axis.sizes), list(axis.places)] for axis in axes]


def axes_from_plain(plain: Any) -> list[Axis]:
    """The axes that `axes_to_plain` wrote.

    Raises:
        WorkloadError: if an axis lacks a name, a size or a place, or two have the same place.
    """
    axes = [
        Axis(tuple(map(str, names)), tuple(map(int, sizes)), tuple(map(int, places)))
        for names, sizes, places in plain
    ]
    listed = [place for axis in axes for place in axis.places]
    fits = all(0 < len(axis.names) == len(axis.sizes) == len(axis.places) for axis in axes)
    if not fits or len(set(listed)) < len(listed) or any(place < 0 for place in listed):
        raise WorkloadError.must(
            "axes", "have a name, a size and a place for each attribute", given=len(axes)
        )
    return axes


def in_schema_order(axes: Sequence[Axis], values: Array) -> Array:
    """Numbers of all cells, (n, ...), the last axis fastest, in the order of the schema."""
    places, sizes = _places_and_sizes(axes)
    if places == sorted(places):  # also where a schema has more attributes than NumPy has array axes
        return values
    table = values.reshape(*(sizes[place] for place in places), *values.shape[1:])
    return arranged(table, places, sorted(places)).reshape(values.shape)


def in_axis_order(axes: Sequence[Axis], values: Array) -> Array:
    """Numbers of all cells, (n, ...), in the order of the schema, with the last axis fastest."""
    places, sizes = _places_and_sizes(axes)
    if places == sorted(places):
        return values
    table = values.reshape(*(sizes[place] for place in sorted(places)), *values.shape[1:])
    return arranged(table, sorted(places), places).reshape(values.shape)


def _places_and_sizes(axes: Sequence[Axis]) -> tuple[list[int], dict[int, int]]:
    """The attributes of all axes, by their places in the schema, and how many values each has."""
    sizes = {place: size for axis in axes for place, size in zip(axis.places, axis.sizes, strict=True)}
    return list(sizes), sizes
