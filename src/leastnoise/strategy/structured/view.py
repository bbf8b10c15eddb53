"""A workload seen from a structured strategy: which blocks each product needs, and numbers of their axes.

A hundred thousand products are looked at together where every axis has one form: what is asked of an axis is
one of a few kinds, and sums over the blocks of a product are rows of a sparse matrix (`lattice`). Where axes
have several forms, products are gone through one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations
from typing import Any, NamedTuple, Protocol

import numpy as np

from leastnoise.core.operators import AllOnes, Array, Identity, Operator, column_chunks, require_room
from leastnoise.query import Axis, AxisRows, AxisSet, Lattice, Products, ProductTerm
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.structured.axis_tables import along

# W G of an axis beyond this many entries is not held: G and W are applied one after the other.
_MAX_GAIN = 2**24

# Rows of a kind that are looked at to see whether they are multiples of the total.
_MAX_LOOKED_AT = 64


class _ViewedStrategy(Protocol):
    """What is looked at of a strategy."""

    @property
    def axes(self) -> tuple[Axis, ...]: ...
    @property
    def forms(self) -> tuple[tuple[AxisForm, ...], ...]: ...
    @property
    def whole(self) -> AxisSet: ...
    @property
    def places(self) -> Mapping[AxisSet, list[int]]: ...
    @property
    def component_variances(self) -> Array: ...
    @property
    def row_variances(self) -> Array | None: ...
    @property
    def is_simple(self) -> bool: ...
    def component_forms(self, number: int) -> dict[int, AxisForm]: ...
    def centre_form(self, place: int, block: AxisSet) -> AxisForm: ...


class ComponentPart(NamedTuple):
    """What a product gets from one component.

    Attributes:
        component: its number.
        inside: the axes whose residuals, or all of whose counts, it holds, rising, and their forms.
        outside: the axes that the product mentions and the component adds up, and the forms of their centres.
    """

    component: int
    inside: dict[int, AxisForm]
    outside: dict[int, AxisForm]


class View:
    """The products of a workload, and what a strategy makes of them.

    Args:
        partly: whether a component that determines only a part of what a product asks is used too, where none
            determines all of it. The rest is then left at zero.
    """

    def __init__(self, strategy: _ViewedStrategy, products: Products, *, partly: bool = False) -> None:
        self.strategy = strategy
        self.products = products
        self._partly = partly
        self._gains: dict[tuple[int, AxisForm, int], Any] = {}
        self._numbers_of_rows: dict[tuple[str, int, AxisForm, int], Array] = {}
        self._pieces: dict[tuple[AxisSet, tuple[int, ...]], list[ComponentPart]] = {}
        self._spans: dict[tuple[int, AxisForm, int], bool] = {}
        self._gain_norms: dict[tuple[int, AxisForm, int], tuple[Array, Array, Array]] = {}

    def kinds(self, term: ProductTerm) -> list[AxisRows]:
        """What a product asks of each of its axes."""
        return [self.products.kinds[a][k] for a, k in zip(term.places, term.kinds, strict=True)]

    def rows(self, place: int, kind: int, index: Array) -> Array:
        """Some rows of a kind."""
        return self.products.kinds[place][kind].operator.rows(index)

    def is_constant(self, place: int, kind: int) -> bool:
        """Whether all rows of a kind are alike for the strategy: plain counts of an axis without an order."""
        own = self.strategy.forms[place]
        is_plain = self.products.kinds[place][kind].is_identity
        return is_plain and bool(own) and all(form.rows is None for form in own)

    # Which blocks a product needs ----------------------------------------------------------------------

    @cached_property
    def _variances(self) -> Array:
        return self.strategy.component_variances

    @cached_property
    def _row_variances(self) -> Array | None:
        return self.strategy.row_variances

    @cached_property
    def _split(self) -> frozenset[int]:
        return frozenset(a for a, own in enumerate(self.strategy.forms) if own and own[0].is_split)

    def pieces(self, term: ProductTerm) -> list[ComponentPart]:
        """Where a product's answers come from; what is not measured is left out."""
        key = (term.places, term.kinds)
        if key not in self._pieces:
            if len(self._pieces) > 10_000:
                self._pieces.clear()
            split = tuple(a for a in term.places if a in self._split)
            subsets = [s for size in range(len(split) + 1) for s in combinations(split, size)]
            found = [self._best_piece(term, s) for s in subsets]
            self._pieces[key] = [piece for piece in found if piece is not None]
        return self._pieces[key]

    def _best_piece(self, term: ProductTerm, axes: AxisSet) -> ComponentPart | None:
        """The component of a set that answers a product with least variance; None where none does.

        Where parts are taken too, the largest of them if none answers it.
        """
        kinds = dict(zip(term.places, term.kinds, strict=True))
        strategy = self.strategy
        outside = {
            a: strategy.centre_form(a, axes) for a in term.places if a in self._split and a not in axes
        }
        best, least = None, math.inf
        part, largest = None, 0
        for number in strategy.places.get(axes, ()):
            inside = strategy.component_forms(number)
            if not self._has_all(inside, kinds):
                n_rows = math.prod(form.n_rows for form in inside.values())
                if self._partly and n_rows > largest:
                    part, largest = ComponentPart(number, inside, outside), n_rows
                continue
            variance = float(self._variances[number])
            for a, form in inside.items():
                if a in kinds:
                    n = self.products.kinds[a][kinds[a]].n_rows
                    variance *= _summed(self.inside(a, form, kinds[a]), n)
                else:
                    variance *= float(np.sum(form.total_gain() ** 2))
            if variance < least or best is None:
                best, least = ComponentPart(number, inside, outside), variance
        return part if best is None else best

    def _has_all(self, inside: dict[int, AxisForm], kinds: dict[int, int]) -> bool:
        """Whether forms determine what a product asks, and all rows that have a part in it are measured."""
        if any(not self._determines(a, form, kinds.get(a)) for a, form in inside.items()):
            return False
        if self._row_variances is None:
            return True
        asked = [self.products.kinds[a][kinds[a]].operator if a in kinds else None for a in inside]
        needed = [needed_rows(form, own) for form, own in zip(inside.values(), asked, strict=True)]
        return bool((self._row_variances[np.ix_(*needed)] > 0).all())

    def _determines(self, place: int, form: AxisForm, kind: int | None) -> bool:
        """Whether a form determines what a product asks of an axis: a kind, or without one its total."""
        if kind is not None:
            return self.spans(place, form, kind)
        key = (place, form, -1)
        if key not in self._spans:
            self._spans[key] = form.spans(AllOnes(form.size))
        return self._spans[key]

    def spans(self, place: int, form: AxisForm, kind: int) -> bool:
        """Whether the rows of a kind lie within what a form measures."""
        key = (place, form, kind)
        if key not in self._spans:
            self._spans[key] = form.spans(self.products.kinds[place][kind].operator)
        return self._spans[key]

    @cached_property
    def distance(self) -> float:
        """How far the products that are answered lie from those asked, as in `Measured.distance_of`."""
        return distance_of_products(self.products, self.strategy.forms, self.spans)

    @cached_property
    def first_unanswerable(self) -> int | None:
        """The first row of a product of which some part is not measured; None if there is none."""
        lacking = [
            term.start for term in self.products.terms if any(not self.strategy.forms[a] for a in term.places)
        ]
        if lacking:
            return lacking[0]
        if not self.strategy.is_simple:
            return next((term.start for term in self.products.terms if not self._is_measured(term)), None)
        unfit = {
            (a, k)
            for a, kinds in enumerate(self.products.kinds)
            for k in range(len(kinds))
            if not self.spans(a, self.strategy.forms[a][0], k)
        }
        # A whole axis may not determine its total, which products ask that do not mention it.
        undetermined = {
            a for a in self.strategy.whole if not self._determines(a, self.strategy.forms[a][0], None)
        }
        for term in self.products.terms if unfit or undetermined else ():
            asked = zip(term.places, term.kinds, strict=True)
            is_lacking = bool(undetermined.difference(term.places) or unfit.intersection(asked))
            if is_lacking and not self.products.is_zero(term):
                return term.start
        missing = self._numbers < 0
        if not missing.any():
            return None
        inside = self._tables(_if_any)[0]
        ones = [np.ones(axes.shape) for _, axes in self._lattice.groups]
        short = np.flatnonzero(np.asarray(self._lattice.matrix(inside, ones) @ missing) > 0)
        return self.products.terms[int(short[0])].start if len(short) else None

    def _is_measured(self, term: ProductTerm) -> bool:
        """Whether all that a product's answers are made of is measured."""
        kinds = dict(zip(term.places, term.kinds, strict=True))
        if self.products.is_zero(term):
            return True
        if any(not self.strategy.forms[a][0].is_split and not self._fits_some(a, kinds[a]) for a in kinds):
            return False
        varied = [a for a in term.places if a in self._split and not self._is_total(a, kinds[a])]
        known = {tuple(a for a in piece.inside if a in self._split) for piece in self.pieces(term)}
        return all(s in known for size in range(len(varied) + 1) for s in combinations(varied, size))

    def _fits_some(self, place: int, kind: int) -> bool:
        return any(self.spans(place, form, kind) for form in self.strategy.forms[place])

    def _is_total(self, place: int, kind: int) -> bool:
        """Whether every row of a kind is a multiple of the total."""
        operator = self.products.kinds[place][kind].operator
        return operator.shape[0] < 64 and bool((np.ptp(operator.dense(), axis=1) == 0).all())

    # Numbers of rows ------------------------------------------------------------------------------------

    def gain(self, place: int, form: AxisForm, kind: int) -> Any:
        """W G of a kind: a matrix, or what is done along its axis instead of one."""
        key = (place, form, kind)
        if key not in self._gains:
            operator = self.products.kinds[place][kind].operator
            if form.rows is None and isinstance(operator, Identity):
                self._gains[key] = form.apply_inverse
            elif operator.shape[0] * form.n_rows > _MAX_GAIN:
                self._gains[key] = partial(_inverse_then_rows, form, operator)
            else:
                self._gains[key] = form.gain_of(operator)
        return self._gains[key]

    def matrix(self, place: int, kind: int | None) -> Array:
        """W G of a kind, or of the total, on a whole axis of one form, as a matrix."""
        form = self.strategy.forms[place][0]
        if kind is None:
            return form.total_gain()[None, :]
        operator = self.products.kinds[place][kind].operator
        require_room(operator.shape[0], form.n_rows, "how answers depend on what is measured")
        return form.gain_of(operator)

    def inside(self, place: int, form: AxisForm, kind: int) -> Array:
        """‖w G‖² for every row of a kind; one number where all are equal."""
        return self._row_numbers("inside", place, form, kind)

    def outside(self, place: int, form: AxisForm, kind: int) -> Array:
        """(w·g/1ᵀg)² for every row of a kind; one number where all are equal."""
        return self._row_numbers("outside", place, form, kind)

    def centre(self, place: int, form: AxisForm, kind: int) -> Array:
        """w·g/1ᵀg for every row of a kind; one number where all are equal."""
        return self._row_numbers("centre", place, form, kind)

    def gain_norms(self, place: int, form: AxisForm, kind: int | None) -> tuple[Array, Array, Array]:
        """Σ|g|, Σg² and max|g| of w G for every row of a kind, or for the one row that adds all values up."""
        key = (place, form, -1 if kind is None else kind)
        if key not in self._gain_norms:
            if kind is None:
                parts: Iterable[Array] = [form.total_gain()[None, :]]
            elif self.is_constant(place, kind):
                parts = [form.gain_of(_OneRow(form.size))]
            elif form.rows is None:
                parts = [form.gain_of(self.products.kinds[place][kind].operator)]
            else:
                parts = column_chunks(self.products.kinds[place][kind].operator, form.inverse)
            self._gain_norms[key] = _norms(parts)
        return self._gain_norms[key]

    def _row_numbers(self, what: str, place: int, form: AxisForm, kind: int) -> Array:
        key = (what, place, form, kind)
        if key not in self._numbers_of_rows:
            operator = self.products.kinds[place][kind].operator
            if form.rows is None and isinstance(operator, Identity):
                operator = _OneRow(operator.shape[1])
            if what == "inside" and form.is_split and self._is_total(place, kind):
                # Residual rows say nothing of totals; what rounding leaves would ask for a block of them.
                numbers = np.zeros(1)
            elif what == "inside":
                numbers = form.row_gains(operator)
            else:
                numbers = form.centre(operator)
                numbers = numbers**2 if what == "outside" else numbers
            self._numbers_of_rows[key] = numbers
        return self._numbers_of_rows[key]

    # Variances ------------------------------------------------------------------------------------------

    def term_variances(self, term: ProductTerm) -> Array:
        """The variances of all rows of a product; axes along which nothing changes have length 1."""
        kinds = dict(zip(term.places, term.kinds, strict=True))
        if self._row_variances is not None:
            values = self._row_variances
            for a in range(values.ndim):
                values = along(self.matrix(a, kinds.get(a)) ** 2, values, a)
            return values.reshape([kind.n_rows for kind in self.kinds(term)])
        shape = (1,) * len(term.places)
        total: Array = np.zeros(shape)
        for piece in self.pieces(term):
            values = np.full(shape, self._variances[piece.component])
            for a, form in piece.inside.items():
                if a in kinds:
                    values = values * self.shaped(self.inside(a, form, kinds[a]), a, term)
                else:
                    values = values * float(np.sum(form.total_gain() ** 2))
            for a, form in piece.outside.items():
                values = values * self.shaped(self.outside(a, form, kinds[a]), a, term)
            total = total + values
        return total

    def shaped(self, numbers: Array, place: int, term: ProductTerm) -> Array:
        """Numbers of the rows of one axis as an array over the axes of a product."""
        return numbers.reshape([-1 if a == place else 1 for a in term.places])

    @cached_property
    def variance_sums(self) -> Array:
        """The sum of the variances of every product's rows."""
        if self.strategy.is_simple:
            return self._combined(_summed)
        if self._row_variances is not None:
            return self._weighted_sums(self._row_variances)
        return self._one_by_one(_summed)

    def _weighted_sums(self, variances: Array) -> Array:
        """The same where every tuple of rows has a variance of its own."""
        sums: dict[tuple[int, int | None], Array] = {}

        def summed(place: int, kind: int | None) -> Array:
            """Σ (w G)² over the rows of a kind, or of the total, for every row of the axis."""
            form = self.strategy.forms[place][0]
            if kind is None:
                return form.total_gain() ** 2
            G = form.inverse
            return np.asarray(((self.products.kinds[place][kind].gram @ G) * G).sum(axis=0))

        result = []
        for term in self.products.terms:
            kinds, values = dict(zip(term.places, term.kinds, strict=True)), variances
            for a in reversed(range(variances.ndim)):
                key = (a, kinds.get(a))
                if key not in sums:
                    sums[key] = summed(*key)
                values = values @ sums[key]
            result.append(float(values))
        return np.array(result)

    @cached_property
    def constant_variances(self) -> Array:
        """The variance of every product whose rows all have the same; NaN for others."""
        if self.strategy.is_simple:
            return self._combined(_if_constant)
        if self._row_variances is not None:
            return np.full(len(self.products.terms), math.nan)
        return self._one_by_one(_if_constant)

    def _one_by_one(self, reduce: Callable[[Array, int], float]) -> Array:
        result = np.empty(len(self.products.terms))
        for number, term in enumerate(self.products.terms):
            kinds = dict(zip(term.places, term.kinds, strict=True))
            total = 0.0
            for piece in self.pieces(term):
                value = float(self._variances[piece.component])
                for a, form in piece.inside.items():
                    if a in kinds:
                        n = self.products.kinds[a][kinds[a]].n_rows
                        value *= reduce(self.inside(a, form, kinds[a]), n)
                    else:
                        value *= float(np.sum(form.total_gain() ** 2))
                for a, form in piece.outside.items():
                    n = self.products.kinds[a][kinds[a]].n_rows
                    value *= reduce(self.outside(a, form, kinds[a]), n)
                total += value
            result[number] = total
        return result

    # The same, for all products together --------------------------------------------------------------------

    @cached_property
    def _lattice(self) -> Lattice:
        split = self._split
        sets = [tuple(a for a in s if a in split) for s in self.products.sets]
        return Lattice(sets, len(self.strategy.axes))

    @cached_property
    def _numbers(self) -> Array:
        """The component of each subset; −1 where there is none."""
        places = self.strategy.places
        return np.array([places.get(s, (-1,))[0] for s in self._lattice.subsets], dtype=np.intp)

    def _combined(self, reduce: Callable[[Array, int], float]) -> Array:
        inside, outside, whole = self._tables(reduce)
        numbers, variances = self._numbers, self._variances
        measured = np.where(numbers >= 0, variances[np.maximum(numbers, 0)], 0.0)
        return np.asarray(self._lattice.matrix(inside, outside) @ measured) * whole

    def _tables(self, reduce: Callable[[Array, int], float]) -> tuple[list[Array], list[Array], Array]:
        """`inside` and `outside` of all kinds, reduced to a number each, along the groups of the lattice."""
        strategy, split = self.strategy, self._split
        starts = np.concatenate([[0], np.cumsum([len(kinds) for kinds in self.products.kinds])]).astype(
            np.intp
        )
        inside, outside = np.ones(int(starts[-1])), np.ones(int(starts[-1]))
        for a, kinds in enumerate(self.products.kinds):
            for k, kind in enumerate(kinds):
                form = strategy.forms[a][0]
                inside[starts[a] + k] = reduce(self.inside(a, form, k), kind.n_rows)
                if a in split:
                    outside[starts[a] + k] = reduce(self.outside(a, form, k), kind.n_rows)
        kind_of: list[list[int]] = []
        first = starts.tolist()
        for term in self.products.terms:
            pairs = zip(term.places, term.kinds, strict=True)
            kind_of.append([first[a] + k for a, k in pairs if a in split])
        whole = np.ones(len(self.products.terms))
        for a in strategy.whole:
            unmentioned = float(np.sum(strategy.forms[a][0].total_gain() ** 2))
            for number, term in enumerate(self.products.terms):
                mentioned = dict(zip(term.places, term.kinds, strict=True)).get(a)
                whole[number] *= unmentioned if mentioned is None else inside[starts[a] + mentioned]
        of_groups = []
        for members, axes in self._lattice.groups:
            index = np.array([kind_of[j] for j in members.tolist()], dtype=np.intp).reshape(axes.shape)
            of_groups.append(index)
        return [inside[index] for index in of_groups], [outside[index] for index in of_groups], whole


def distance_of_products(
    products: Products, forms: Sequence[Sequence[AxisForm]], spans: Callable[[int, AxisForm, int], bool]
) -> float:
    """How far the products that are answered lie from those asked, where axes have these forms.

    Args:
        spans: whether the rows of a kind of an axis lie within what a form measures.
    """

    def largest(place: int, kind: int) -> float:
        operator = products.kinds[place][kind].operator
        fitting = [form for form in forms[place] if spans(place, form, kind)]
        return max((form.distance_of(operator) for form in fitting), default=0.0)

    apart = [[largest(a, k) for k in range(len(kinds))] for a, kinds in enumerate(products.kinds)]
    if not any(map(any, apart)):
        return 0.0
    asked = {(term.places, term.kinds) for term in products.terms}
    return max(
        math.expm1(sum(math.log1p(apart[a][k]) for a, k in zip(places, kinds, strict=True)))
        for places, kinds in asked
    )


def needed_rows(form: AxisForm, operator: Operator | None) -> Array:
    """Which rows of T_a have a part in what is asked of an axis, (r_a,), booleans; all unless known exactly.

    Args:
        operator: what is asked; None for the sum of all values.
    """
    assert form.rows is not None
    is_total = operator is None
    if operator is not None and operator.shape[0] <= _MAX_LOOKED_AT:
        is_total = bool((np.ptp(operator.dense(), axis=1) == 0).all())
    constant = (form.rows == form.rows[:, :1]).all(axis=1)
    if not (is_total and constant.any()):
        return np.ones(form.n_rows, dtype=bool)
    # Independent rows: only one of them can be a multiple of 1ᵀ.
    return np.asarray(constant)


def _inverse_then_rows(form: AxisForm, operator: Operator, values: Array, position: int) -> Array:
    """W (G y) along one axis of an array, where W G would be too large to hold."""
    front = np.moveaxis(form.apply_inverse(values, position), position, 0)
    found = operator.apply(front.reshape(len(front), -1))
    return np.moveaxis(found.reshape(-1, *front.shape[1:]), 0, position)


def _norms(parts: Iterable[Array]) -> tuple[Array, Array, Array]:
    """Σ|g|, Σg² and max|g| of every row of a matrix that comes some columns at a time."""
    found: tuple[Array, Array, Array] | None = None
    for part in parts:
        sizes = np.abs(part)
        own = sizes.sum(axis=1), (sizes**2).sum(axis=1), sizes.max(axis=1)
        if found is None:
            found = own
        else:
            found = found[0] + own[0], found[1] + own[1], np.maximum(found[2], own[2])
    assert found is not None
    return found


class _OneRow(Operator):
    """The first unit vector: one row that stands for all that are like it."""

    def __init__(self, n: int) -> None:
        self.shape = (1, n)

    def apply(self, x: Array) -> Array:
        return x[:1]

    def adjoint(self, y: Array) -> Array:
        result = np.zeros((self.shape[1], *y.shape[1:]))
        result[0] = y[0]
        return result


def _summed(values: Array, n_rows: int) -> float:
    return float(values[0]) * n_rows if len(values) == 1 else math.fsum(values)


def _if_any(values: Array, n_rows: int) -> float:
    return float((values > 0).any())


def _if_constant(values: Array, n_rows: int) -> float:
    return float(values[0]) if len(values) == 1 else math.nan
