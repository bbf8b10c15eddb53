"""Integer rows that are products over the axes, each with a weight of its own: the family of `joint`.

Every axis a has an integer matrix T_a, (r_a, n_a), with independent rows, and there is a multiplier k_i, zero
or a positive integer, for every tuple i = (i_1, …, i_d) of rows. What is measured, with noise of one scale:

    k_i · ⊗_a T_a[i_a, :]     for every i with k_i > 0                                                  (1)

A record in cell c meets one column of every T_a, so that

    Δ² = max over cells c of Σ_i k_i² Π_a T_a[i_a, c_a]² ,   an integer,                                (2)

worked out for all cells axis by axis. With G_a = T_a⁺ the rows of (1) are independent, and the answer to a
product ⊗ w_a is Σ_i Π_a (w_a G_a)[i_a] · y_i/k_i, unbiased where no i with k_i = 0 has a part in it, of
variance

    Σ_i (σ²/k_i²) Π_a (w_a G_a)[i_a]² .                                                                 (3)

Products cross the axes that they mention and add up the others, which is the row 1ᵀ. Where 1ᵀ is a multiple
of a row of T_a, exactly, adding up needs that row alone, and many k_i may be zero.

No array has more entries than there are cells, or rows in what is asked.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError, PlanFileError
from leastnoise.core.operators import AllOnes, Array, Operator, require_room
from leastnoise.core.printable import in_figures
from leastnoise.privacy import ADD_REMOVE, GAUSSIAN, neighbours_named, noise_named
from leastnoise.query import (
    Axis,
    InventedRecords,
    Products,
    ProductTerm,
    Workload,
    axes_from_plain,
    axes_to_plain,
    in_schema_order,
)
from leastnoise.strategy.axis_form import AxisForm, form_from_parts
from leastnoise.strategy.measured import CountTables, MeasuredPart
from leastnoise.strategy.periods import axis_of_time, is_late, last_columns
from leastnoise.strategy.stored import starts_of
from leastnoise.strategy.structured.accuracy import row_shape
from leastnoise.strategy.structured.gram import BlockOfAxes
from leastnoise.strategy.structured.integer_blocks import cross_tables, number_of_cell, tables_asked
from leastnoise.strategy.structured.over_axes import OverAxes
from leastnoise.strategy.structured.view import distance_of_products


class JointRows(OverAxes["JointView"]):
    """Products of rows, each with a multiplier of its own; see (1).

    Args:
        axes: names and sizes of the attributes of each axis, all of the schema that tell records apart.
        forms: T_a of each axis, of the kind "whole".
        multipliers: k, integers, (r_1, …, r_d).

    Raises:
        DesignError: if they do not fit, or the rows of an axis are not independent, exactly.
    """

    forms: tuple[AxisForm, ...]
    multipliers: Array

    def __init__(
        self,
        axes: Sequence[Axis],
        forms: Sequence[AxisForm],
        multipliers: Array,
        *,
        scale: int,
        noise: str = GAUSSIAN,
        neighbours: str = ADD_REMOVE,
    ) -> None:
        self._keep(scale=scale, noise=noise_named(noise), neighbours=neighbours_named(neighbours))
        self._check_noise()
        k = exact.as_integers(multipliers)
        k.setflags(write=False)
        self._keep(axes=tuple(axes), forms=tuple(forms), multipliers=k, _views=WeakKeyDictionary())
        self._check()

    def _check(self) -> None:
        if self.noise != GAUSSIAN or self.neighbours.replaces:
            raise DesignError(
                "rows with joint weights are for Gaussian noise, and records added or removed", field="noise"
            )
        fits = len(self.axes) == len(self.forms) > 0 and all(
            form.kind == "whole" and form.size == axis.size
            for axis, form in zip(self.axes, self.forms, strict=True)
        )
        if not fits or self.multipliers.shape != tuple(form.n_rows for form in self.forms):
            raise DesignError(
                "rows with joint weights need a matrix for every axis, and a multiplier each",
                field="strategy",
            )
        if self.multipliers.size == 0 or self.multipliers.min() < 0 or not self.multipliers.any():
            raise DesignError(
                "multipliers of rows must be whole numbers, zero or more, and not all zero",
                field="multipliers",
            )
        for form in self.forms:
            assert form.rows is not None
            if not exact.is_of_full_row_rank(form.rows):
                raise DesignError("the rows of an axis must be independent", field="strategy")

    @cached_property
    def _measured(self) -> Array:
        """Where multipliers are positive, in the order of the rows."""
        return np.flatnonzero(self.multipliers.reshape(-1) != 0)

    @property
    def n_measured(self) -> int:
        return len(self._measured)

    def _all_rows(self) -> Array:
        total: Array = np.ones((1, 1), dtype=object)
        for form in self.forms:
            total = np.kron(total, form.entries())
        rows = total[self._measured] * self.multipliers.reshape(-1).astype(object)[self._measured, None]
        return exact.as_integers(in_schema_order(self.axes, rows.T).T)

    # Privacy, in integers -------------------------------------------------------------------------

    @cached_property
    def costs(self) -> Array:
        """The sum in (2) for every cell, an array over the axes, exactly."""
        total = self.multipliers.astype(object) ** 2
        for position, form in enumerate(self.forms):
            assert form.rows is not None
            squares = exact.as_integers(form.rows.astype(object) ** 2)
            front = np.moveaxis(total, position, 0)
            along = exact.product(np.ascontiguousarray(squares.T), front.reshape(len(front), -1))
            total = np.moveaxis(along.reshape(-1, *front.shape[1:]), 0, position)
        return np.asarray(total.astype(object))

    @cached_property
    def sensitivity(self) -> int:
        return self.neighbours.change_cost(int(self.costs.max()), self.noise)

    @property
    def costliest_cell(self) -> int:
        worst = np.unravel_index(int(np.argmax(self.costs)), self.costs.shape)
        return number_of_cell(self.axes, [int(value) for value in worst])

    @property
    def column_costs(self) -> tuple[int, ...]:
        self._require_listable()
        costs = in_schema_order(self.axes, self.costs.reshape(-1))
        return tuple(self.neighbours.change_cost(int(cost), self.noise) for cost in costs)

    # From counts to integers ------------------------------------------------------------------------

    def exact_answers(self, tables: CountTables) -> Array:
        self.require_measurable()
        return self._through_rows(np.arange(len(self.multipliers)), tables)

    def _through_rows(self, rows: Array, tables: CountTables) -> Array:
        """The exact answers of all products with some rows of the first axis, in order."""
        every = tuple(range(len(self.axes)))
        table = next(iter(cross_tables(self.axes, [every], tables)))
        along = [self._rows(0)[rows], *(self._rows(a) for a in every[1:])]
        answers = exact.products_along_axes(along, table).reshape(-1)
        k = self.multipliers[rows].reshape(-1)
        measured = np.flatnonzero(k != 0)
        return np.asarray(answers[measured] * k.astype(object)[measured])

    @cached_property
    def block_starts(self) -> Array:
        counts = (self.multipliers != 0).reshape(len(self.multipliers), -1).sum(axis=1, dtype=np.int64)
        # A row of the first axis that has no part in anything is no block of its own.
        return starts_of(counts[counts > 0])

    def part_tables(self, first: int, last: int) -> list[tuple[str, ...]]:
        every = tuple(range(len(self.axes)))
        return tables_asked(self.axes, [every])

    def exact_part(self, first: int, last: int, tables: CountTables) -> Array:
        """What is measured with some rows of the first axis."""
        rows = np.flatnonzero((self.multipliers != 0).reshape(len(self.multipliers), -1).any(axis=1))
        return self._through_rows(rows[first:last], tables)

    def parts(self) -> list[MeasuredPart]:
        names = tuple(axis.names for axis in self.axes)
        return [MeasuredPart(names, self.forms, self.multipliers.reshape(-1))]

    def _rows(self, place: int) -> Array:
        rows = self.forms[place].rows
        assert rows is not None
        return rows

    # What is asked ----------------------------------------------------------------------------------

    def _new_view(self, products: Products) -> JointView:
        return JointView(self, products)

    # Accuracy ---------------------------------------------------------------------------------------

    @property
    def row_variances(self) -> Array:
        """σ²/k² of every product of rows; 0 where it is not measured, and has no part in any answer."""
        k = self.multipliers.astype(float)
        unit = math.sqrt(self.noise_variance)
        return np.divide(unit, k, out=np.zeros(k.shape), where=k > 0) ** 2

    def _term_covariances(
        self, left: JointView, one: ProductTerm, right: JointView, other: ProductTerm
    ) -> Array:
        values = self.row_variances
        for a, (mine, yours) in enumerate(zip(left.asked(one), right.asked(other), strict=True)):
            pair = left.gain(a, mine), right.gain(a, yours)
            require_room(len(pair[0]) * len(pair[1]), values.size, "the covariances")
            pairs = pair[0][:, None, :] * pair[1][None, :, :]
            # The first axis is the next one to go; pairs of rows are put last.
            values = np.tensordot(values, pairs, axes=(0, 2))
        n = len(self.axes)
        order = [*range(0, 2 * n, 2), *range(1, 2 * n, 2)]
        values = values.transpose(order)
        return np.asarray(values.reshape(math.prod(values.shape[:n]), -1))

    def laplace_half_widths(self, workload: Workload, alpha: float) -> Array:
        raise DesignError("rows with joint weights are for Gaussian noise", field="noise")

    # From integers to answers -------------------------------------------------------------------------

    def _known(self, measurements: Array) -> Array:
        """y/k of every product of rows, (r_1, …, r_d, draws); 0 where it is not measured."""
        # A quotient of Python integers is correctly rounded, however wide they are.
        kind = object if measurements.dtype == object else float
        k = self.multipliers.reshape(-1)[self._measured].astype(kind)
        values = (measurements / k[:, None]).astype(float)
        placed = np.zeros((self.multipliers.size, measurements.shape[1]))
        placed[self._measured] = values
        return placed.reshape(*self.multipliers.shape, measurements.shape[1])

    def estimates(self, measurements: Array) -> Array:
        require_room(self.n_cells, 1, "the estimated cells")
        cells = self._known(measurements[:, None])
        for a, form in enumerate(self.forms):
            cells = _along(form.inverse, cells, a)
        return in_schema_order(self.axes, cells.reshape(-1))

    def _term_values(self, view: JointView, term: ProductTerm, known: Array) -> Array:
        values = known
        for a, operator in enumerate(view.asked(term)):
            if operator is None:
                values = _along(self.forms[a].total_gain()[None, :], values, a)
            else:
                front = np.moveaxis(_along(self.forms[a].inverse, values, a), a, 0)
                found = operator.apply(front.reshape(len(front), -1))
                values = np.moveaxis(found.reshape(-1, *front.shape[1:]), 0, a)
        return values.reshape(*row_shape(view.products, term), -1)

    def noiseless_answers(
        self, workload: Workload, records: InventedRecords, queries: Sequence[int]
    ) -> Array:
        view = self.view(workload)
        measured = self._known(self.exact_answers(records.tables)[:, None])
        starts = [term.start for term in view.products.terms]
        asked = [view.products.terms[bisect_right(starts, query) - 1] for query in queries]
        known = {term: self._labelled_values(view, term, measured, 1) for term in dict.fromkeys(asked)}
        pairs = zip(asked, queries, strict=True)
        return np.array([known[term][query - term.start, 0] for term, query in pairs])

    # All cells at once ------------------------------------------------------------------------------

    def _blocks_of_axes(self) -> list[BlockOfAxes]:
        return [BlockOfAxes(dict(enumerate(self.forms)), self.multipliers.astype(float))]

    # Period by period -------------------------------------------------------------------------------

    def _ends_along(self, place: int) -> Array:
        return last_columns(self._rows(place), np.arange(self.axes[place].size))

    def through(self, workload: Workload, over: str, period: int) -> JointRows:
        place = axis_of_time([axis.names for axis in self.axes], over)
        kept = np.flatnonzero(self._ends_along(place) <= period)
        forms = list(self.forms)
        forms[place] = AxisForm("whole", self.axes[place].size, self._rows(place)[kept])
        return JointRows(
            self.axes,
            forms,
            np.take(self.multipliers, kept, axis=place),
            scale=self.scale,
            noise=self.noise,
            neighbours=self.neighbours,
        )

    def answers_in_time(self, workload: Workload, over: str) -> bool:
        place = axis_of_time([axis.names for axis in self.axes], over)
        ends = self._ends_along(place)
        periods, view = np.arange(self.axes[place].size), self.view(workload)
        # A sum over all periods is due at the very end.
        return not any(
            is_late(view.gain(place, kind.operator), last_columns(kind.operator.dense(), periods), ends)
            for kind in view.products.kinds[place]
        )

    # Files ------------------------------------------------------------------------------------------

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        arrays = {"multipliers": exact.to_limbs(self.multipliers)}
        forms = []
        for place, form in enumerate(self.forms):
            plain, held = form.to_parts()
            forms.append(plain)
            arrays |= {f"axis{place}_{name}": array for name, array in held.items()}
        return {"kind": "joint", "axes": axes_to_plain(self.axes), "forms": forms}, arrays

    def __repr__(self) -> str:
        return (
            f"JointRows({self.n_measured:,} integers, {in_figures(self.n_cells)} cells, "
            f"{self.noise} noise of scale {self.scale:,})"
        )


class JointView:
    """The products of a workload, and what rows with joint weights make of them."""

    def __init__(self, strategy: JointRows, products: Products) -> None:
        # Not the strategy itself, which holds the view.
        self._forms, self._multipliers = strategy.forms, strategy.multipliers
        self._row_variances = strategy.row_variances
        self.products = products

    def asked(self, term: ProductTerm) -> list[Operator | None]:
        """What a product asks of every axis; None where it adds up all values."""
        found: list[Operator | None] = [None] * len(self._forms)
        for place, kind in zip(term.places, term.kinds, strict=True):
            found[place] = self.products.kinds[place][kind].operator
        return found

    def gain(self, place: int, operator: Operator | None) -> Array:
        """w G of every row of what is asked of an axis, (rows, r_a)."""
        form = self._forms[place]
        if operator is None:
            return form.total_gain()[None, :]
        require_room(operator.shape[0], form.n_rows, "how answers depend on what is measured")
        return form.gain_of(operator)

    @cached_property
    def first_unanswerable(self) -> int | None:
        """The first row of a product of which some part is not measured; None if there is none."""
        spans: dict[tuple[int, int], bool] = {}

        def is_spanned(place: int, kind: int, operator: Operator | None) -> bool:
            if (place, kind) not in spans:
                form = self._forms[place]
                spans[place, kind] = bool(needed_rows(form, operator).any()) and (
                    form.spans(AllOnes(form.size) if operator is None else operator)
                )
            return spans[place, kind]

        missing = self._multipliers == 0
        for term in self.products.terms:
            if self.products.is_zero(term):
                continue
            kinds = dict(zip(term.places, term.kinds, strict=True))
            asked = self.asked(term)
            if not all(is_spanned(a, kinds.get(a, -1), operator) for a, operator in enumerate(asked)):
                return term.start
            needed = [
                np.flatnonzero(needed_rows(form, operator))
                for form, operator in zip(self._forms, asked, strict=True)
            ]
            if missing[np.ix_(*needed)].any():
                return term.start
        return None

    @cached_property
    def distance(self) -> float:
        """How far the products that are answered lie from those asked, as in `Measured.distance_of`."""
        kinds = self.products.kinds
        return distance_of_products(
            self.products,
            [(form,) for form in self._forms],
            lambda place, form, kind: form.spans(kinds[place][kind].operator),
        )

    def term_variances(self, term: ProductTerm) -> Array:
        """(3) for every query of a product, rows along its axes."""
        values = self._row_variances
        for a, operator in enumerate(self.asked(term)):
            values = _along(self.gain(a, operator) ** 2, values, a)
        return values.reshape(row_shape(self.products, term))

    @cached_property
    def constant_variances(self) -> Array:
        """NaN for every product: its rows are of several variances."""
        return np.full(len(self.products.terms), math.nan)

    @cached_property
    def variance_sums(self) -> Array:
        """The sum of the variances of every product's rows."""
        sums: dict[tuple[int, int], Array] = {}
        total = []
        for term in self.products.terms:
            kinds = dict(zip(term.places, term.kinds, strict=True))
            values = self._row_variances
            for a in reversed(range(len(self._forms))):
                key = (a, kinds.get(a, -1))
                if key not in sums:
                    sums[key] = self._summed_gains(*key)
                values = values @ sums[key]
            total.append(float(values))
        return np.array(total)

    def _summed_gains(self, place: int, kind: int) -> Array:
        """Σ (w G)² over the rows of a kind, (r_a,); of the total for kind −1."""
        form = self._forms[place]
        if kind < 0:
            return form.total_gain() ** 2
        G = form.inverse
        return np.asarray(((self.products.kinds[place][kind].gram @ G) * G).sum(axis=0))


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


# Rows of a kind that are looked at to see whether they are multiples of the total.
_MAX_LOOKED_AT = 64


def _along(matrix: Array, table: Array, position: int) -> Array:
    """A matrix applied along one axis of a table."""
    return np.moveaxis(np.tensordot(matrix, table, axes=(1, position)), 0, position)


def joint_rows_from_parts(
    plain: Mapping[str, Any], arrays: Mapping[str, Array], *, scale: int, noise: str, neighbours: str
) -> JointRows:
    """The strategy that `JointRows.to_parts` took apart, read without trusting it.

    Raises:
        PlanFileError: if it is none.
    """
    axes = axes_from_plain(plain["axes"])
    forms = [
        form_from_parts(own, {"rows": arrays[f"axis{place}_rows"]})
        for place, own in enumerate(plain["forms"])
    ]
    limbs = arrays["multipliers"]
    if limbs.dtype.kind != "i" or limbs.ndim != len(axes) + 1:
        raise PlanFileError("the file holds multipliers that are not whole numbers", field="multipliers")
    return JointRows(axes, forms, exact.from_limbs(limbs), scale=scale, noise=noise, neighbours=neighbours)
