"""Strategies for domains that no matrix holds: integer blocks of products, each over a few axes.

An axis a (an attribute, or some that are tied together) is measured in one of two ways. A *whole* axis has an
integer matrix M_a, part of every block; it may be another one in each. A *split* axis has a matrix of
residuals, with M_a g_a = 0 for an integer vector g_a, its centre, in some blocks, and is added up, 1ᵀ, in the
others. Block s, a set of split axes, is

    k_s · ⊗_{a in s or whole} M_a ⊗_{a not in s} 1ᵀ ,     k_s an integer,                               (1)

measured with independent noise of one scale on all integers. With G_a the inverse of M_a on sums of zero
(1ᵀG_a = 0, G_a M_a = I − g_a 1ᵀ/(1ᵀg_a)), the products ⊗ G_a ⊗ g_a/(1ᵀg_a) take the blocks apart: residuals
know nothing of totals and the other way round. So the answer to a row ⊗ w_a is a sum over blocks, of variance

    Σ_s (σ²/k_s²) Π_{a in s or whole} ‖w_a G_a‖² Π_{a not in s} (w_a·g_a/1ᵀg_a)²                           (2)

in which only blocks s within the row's own axes have a part. A record meets one column of every M_a, so that

    Δ² = Σ_s k_s² Π_{a in s or whole} max_i ‖M_a e_i‖² ,    Δ₁ likewise with absolute sums,                (3)

exactly where axes have one form each. `integer_blocks` says why, and bounds what a replaced record changes.

Axes may have several forms. They are split in a fixed order, and the centre of an axis may depend on its
history, the axes before it that are in s: two different sets then differ at some first axis, where one has
the residuals and the other the total of the same centre, which is all that (2) needs. Residuals of one
centre may be measured in several ways, in different blocks; a product is answered from the block that serves
it best. (3) is then an upper bound.

A strategy of one block may have a multiplier k_i, zero or more, for every tuple i = (i_1, …, i_d) of rows of
its axes, which are whole and hold independent rows each. With G_a = M_a⁺ the answer to a product ⊗ w_a is
Σ_i Π_a (w_a G_a)_{i_a} · y_i/k_i, unbiased where no i with k_i = 0 has a part in it, of variance

    Σ_i (σ²/k_i²) Π_a (w_a G_a)_{i_a}² .                                                                 (4)

Products add up the axes that they do not mention, which is the row 1ᵀ. Where 1ᵀ is a multiple of a row of
M_a, exactly, adding up needs that row alone, and many k_i may be zero.

Nothing of the size of the domain is built: blocks are measured from cross tables of their own axes. A block
with many multipliers is the exception: it is that of all axes, and its costs are worked out cell by cell.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array, Identity, require_room
from leastnoise.core.printable import in_figures
from leastnoise.privacy import ADD_REMOVE, GAUSSIAN, neighbours_named, noise_named
from leastnoise.query import (
    Axis,
    AxisRows,
    AxisSet,
    InventedRecords,
    Products,
    ProductTerm,
    Workload,
    axes_to_plain,
    in_schema_order,
    one_factor_each,
    products_of,
)
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.measured import (
    AnswerPieces,
    CountTables,
    Measured,
    MeasuredPart,
    Spread,
    TablesAsked,
)
from leastnoise.strategy.periods import axis_of_time, is_late, last_columns, no_periods
from leastnoise.strategy.stored import StoredComponents, StoredIntegers, starts_of
from leastnoise.strategy.structured import accuracy, integer_blocks
from leastnoise.strategy.structured.gram import (
    BlockOfAxes,
    ComponentCovariance,
    ProductGram,
    adjoint_applied,
    applied,
)
from leastnoise.strategy.structured.integer_blocks import (
    ProductBlock,
    RecordCosts,
    check_blocks,
    check_centres,
    check_forms,
    chosen_forms,
    number_of_cell,
)
from leastnoise.strategy.structured.reconstruction import (
    Components,
    components_of,
    gain_norms,
    gains,
    noiseless_rows,
    term_covariances,
    term_values,
    weighted_covariances,
)
from leastnoise.strategy.structured.view import View

# Products that take more numbers than this are checked row by row.
_MAX_CHECKED = 2**16


class Structured(Measured):
    """Integer blocks of products with one scale of noise; see (1).

    Args:
        axes: names and sizes of the attributes of each axis, all of the schema that tell records apart.
        forms: how each axis is measured, in one way or in several; none where it is added up in every block.
        centres: for an axis and a history of it, the form whose centre holds; the first unless given.
        order: split axes in the order that histories speak of; rising unless given.

    Attributes:
        weights: the multiplier of every tuple of rows, where the strategy is one block that has many.
    """

    axes: tuple[Axis, ...]
    forms: tuple[tuple[AxisForm, ...], ...]
    blocks: tuple[ProductBlock, ...]
    centres: dict[tuple[int, AxisSet], int]
    order: tuple[int, ...]
    weights: Array | None
    _views: WeakKeyDictionary[Workload, View]

    def __init__(
        self,
        axes: Sequence[Axis],
        forms: Sequence[Sequence[AxisForm]],
        blocks: Sequence[ProductBlock],
        *,
        scale: int,
        noise: str,
        neighbours: str = ADD_REMOVE,
        centres: Mapping[tuple[int, AxisSet], int] | None = None,
        order: Sequence[int] | None = None,
    ) -> None:
        self._keep(scale=scale, noise=noise_named(noise), neighbours=neighbours_named(neighbours))
        self._check_noise()
        blocks = tuple(
            block if block.weights is None else block._replace(weights=exact.as_integers(block.weights))
            for block in blocks
        )
        self._keep(
            axes=tuple(axes),
            forms=tuple(tuple(own) for own in forms),
            blocks=blocks,
            weights=blocks[0].weights if blocks else None,
            centres=dict(centres or {}),
            order=tuple(range(len(axes)) if order is None else order),
            _views=WeakKeyDictionary(),
        )
        self._check()

    def _check(self) -> None:
        check_forms(self.axes, self.forms, self.order)
        check_blocks(self.forms, self.blocks)
        if self.weights is not None:
            self.weights.setflags(write=False)
            if self.noise != GAUSSIAN or self.neighbours.replaces:
                raise DesignError(
                    "rows with joint weights are for Gaussian noise, and records added or removed",
                    field="noise",
                )
        check_centres(self.forms, [(a, form) for (a, _), form in self.centres.items()])
        if self.is_simple:
            return
        # Residuals in a block must be those of the centre that holds there.
        for block in self.blocks:
            for a, form in zip(block.axes, block.forms, strict=True):
                if not self.forms[a][form].has_centre_of(self.centre_form(a, block.axes)):
                    raise DesignError(
                        "a block holds residuals of another centre than the one of its history",
                        field="strategy",
                    )

    @cached_property
    def _weighted_rows(self) -> Array:
        """Where those multipliers are positive, in the order of the rows."""
        assert self.weights is not None
        return np.flatnonzero(self.weights.reshape(-1))

    @cached_property
    def is_simple(self) -> bool:
        """Whether every axis has at most one form, and every block one multiplier."""
        return self.weights is None and all(len(own) <= 1 for own in self.forms)

    @cached_property
    def _rank(self) -> dict[int, int]:
        return {a: rank for rank, a in enumerate(self.order)}

    def centre_form(self, place: int, block: AxisSet) -> AxisForm:
        """The form whose centre holds on a split axis, in or beside the axes of a block."""
        own = self.forms[place]
        if len(own) == 1:
            return own[0]
        rank = self._rank
        history = tuple(a for a in block if rank[a] < rank[place])
        return own[self.centres.get((place, history), 0)]

    @cached_property
    def whole(self) -> AxisSet:
        """The axes that are part of every block."""
        return tuple(a for a, own in enumerate(self.forms) if own and not own[0].is_split)

    def block_forms(self, block: ProductBlock) -> dict[int, AxisForm]:
        """The axes that a block measures, rising, and how."""
        chosen = chosen_forms(block, self.whole)
        return {a: self.forms[a][chosen[a]] for a in sorted(chosen)}

    @cached_property
    def block_shapes(self) -> tuple[tuple[int, ...], ...]:
        """How many integers each block has along its axes."""
        return tuple(tuple(f.n_rows for f in self.block_forms(block).values()) for block in self.blocks)

    @cached_property
    def n_measured(self) -> int:
        if self.weights is not None:
            return len(self._weighted_rows)
        return sum(math.prod(shape) for shape in self.block_shapes)

    @property
    def n_cells(self) -> int:
        return math.prod(axis.size for axis in self.axes)

    def with_scale(self, scale: int) -> Self:
        other = super().with_scale(scale)
        # A view holds variances, which depend on the scale.
        other._keep(_views=WeakKeyDictionary())
        return other

    def _all_rows(self) -> Array:
        rows = []
        for block in self.blocks:
            forms = self.block_forms(block)
            total: Array = np.array([[block.multiplier]], dtype=object)
            for a, axis in enumerate(self.axes):
                own = self._entries(forms[a]) if a in forms else np.ones((1, axis.size), dtype=object)
                total = np.kron(total, own)
            if block.weights is not None:
                total = (total * block.weights.reshape(-1, 1).astype(object))[self._weighted_rows]
            rows.append(total)
        return exact.as_integers(in_schema_order(self.axes, np.vstack(rows).T).T)

    def measured_form(self, form: AxisForm) -> AxisForm:
        """What is measured of an axis in the blocks that hold it, as a form that is part of them as it is."""
        return form

    def _entries(self, form: AxisForm) -> Array:
        """The matrix of one axis, in Python integers."""
        return self.measured_form(form).entries()

    # Privacy, in integers -------------------------------------------------------------------------

    @cached_property
    def sensitivity(self) -> int:
        return self.neighbours.cost_of_products(self._record_costs, self.noise)

    @cached_property
    def _record_costs(self) -> RecordCosts:
        return RecordCosts(self._columns, self.whole, self.blocks, self.noise.power)

    @property
    def _columns(self) -> Sequence[Sequence[AxisForm]]:
        """The columns of what is measured along each axis, one of which a record meets."""
        return [[self.measured_form(form) for form in own] for own in self.forms]

    @cached_property
    def costliest_cell(self) -> int:
        """One axis at a time, the others staying, each step takes the value that costs most."""
        costs = self._record_costs
        if costs.of_rows is not None:
            worst = np.unravel_index(int(np.argmax(costs.of_rows)), costs.of_rows.shape)
            return number_of_cell(self.axes, [int(value) for value in worst])
        values = [0] * len(self.axes)
        for _ in range(2):
            for a, axis in enumerate(self.axes):
                # Where no matrix is held, all values cost the same.
                if any(form.rows is not None for form in self.forms[a]):
                    found = [costs.of_cell([*values[:a], i, *values[a + 1 :]]) for i in range(axis.size)]
                    values[a] = found.index(max(found))
        return number_of_cell(self.axes, values)

    @property
    def column_costs(self) -> tuple[int, ...]:
        self._require_listable()
        if self.neighbours.replaces:
            return (self.sensitivity,) * self.n_cells
        costs = in_schema_order(self.axes, self._record_costs.of_cells([axis.size for axis in self.axes]))
        return tuple(self.neighbours.change_cost(int(cost), self.noise) for cost in costs)

    # From counts to integers ------------------------------------------------------------------------

    def exact_answers(self, tables: CountTables) -> Array:
        self.require_measurable()
        if self.weights is not None:
            return self._measured_rows(np.arange(len(self.weights)), tables)
        return self._measured_blocks(self.blocks, tables)

    def part_tables(self, first: int, last: int) -> list[TablesAsked]:
        blocks = self.blocks if self.weights is not None else self.blocks[first:last]
        return [integer_blocks.tables_asked(self.axes, [tuple(self.block_forms(block)) for block in blocks])]

    def exact_part(self, first: int, last: int, tables: CountTables) -> Array:
        """What the blocks from the first up to the last measure, without noise, as Python integers."""
        if self.weights is not None:
            return self._measured_rows(np.flatnonzero(self._n_of_first_rows)[first:last], tables)
        return self._measured_blocks(self.blocks[first:last], tables)

    @cached_property
    def _n_of_first_rows(self) -> Array:
        """How many products of each row of the first axis are measured, where each has a multiplier."""
        assert self.weights is not None
        return (self.weights != 0).reshape(len(self.weights), -1).sum(axis=1, dtype=np.int64)

    @cached_property
    def block_starts(self) -> Array:
        """The first of every block's integers, and after them how many there are.

        Of one block with many multipliers, a row of the first axis with all its products is drawn at once.
        """
        if self.weights is not None:
            return starts_of(self._n_of_first_rows[self._n_of_first_rows > 0])
        return starts_of(np.array([math.prod(shape) for shape in self.block_shapes], dtype=np.int64))

    def parts(self) -> list[MeasuredPart]:
        found = []
        for block in self.blocks:
            forms = self.block_forms(block)
            names = tuple(self.axes[a].names for a in forms)
            measured = tuple(self.measured_form(form) for form in forms.values())
            k = block.multiplier if block.weights is None else block.weights.reshape(-1)
            found.append(MeasuredPart(names, measured, k))
        return found

    # All cells at once ------------------------------------------------------------------------------

    def apply(self, x: Array) -> Array:
        return applied(self.axes, self._blocks_of_axes(), x)

    def adjoint(self, y: Array) -> Array:
        return adjoint_applied(self.axes, self._blocks_of_axes(), y)

    def _blocks_of_axes(self) -> list[BlockOfAxes]:
        """What is measured in floats, block by block."""
        found = []
        for block in self.blocks:
            measured = {a: self.measured_form(form) for a, form in self.block_forms(block).items()}
            k = float(block.multiplier) if block.weights is None else block.weights.astype(float)
            found.append(BlockOfAxes(measured, k))
        return found

    def product_gram(self) -> ProductGram | None:
        if self.weights is not None:
            return None
        components = []
        for number, variance in enumerate(self.component_variances.tolist()):
            inside = self.component_forms(number)
            outside = [a for a in range(len(self.axes)) if a not in inside]
            shares = {a: self._share(a, tuple(inside)) for a in outside}
            components.append(ComponentCovariance(variance, inside, shares))
        return ProductGram(
            self.axes,
            self._blocks_of_axes(),
            self.noise_variance,
            components,
            is_spanned=lambda: self._is_each_set_spanned,
        )

    def _share(self, place: int, held: AxisSet) -> Array:
        """g/(1ᵀg) of an axis that a component adds up; alike for all values where it has no centre."""
        share = None
        if self.forms[place]:
            share = self.centre_form(place, tuple(a for a in held if a not in self.whole)).share
        size = self.axes[place].size
        return np.full(size, 1 / size) if share is None else share

    @cached_property
    def _is_each_set_spanned(self) -> bool:
        """Whether one block alone determines all residuals of every set of split axes that is measured."""
        view, term = self._known_cells(partly=False)
        split = {a for a, own in enumerate(self.forms) if own and own[0].is_split}
        found = {tuple(a for a in piece.inside if a in split) for piece in view.pieces(term)}
        return found >= set(self.places)

    def _measured_blocks(self, blocks: Sequence[ProductBlock], tables: CountTables) -> Array:
        """What some blocks measure, one after the other, without noise, as Python integers."""
        forms = [self.block_forms(block) for block in blocks]
        counted = integer_blocks.cross_tables(self.axes, [tuple(own) for own in forms], tables)
        parts = [
            self._block_answers(table, list(own.values())).reshape(-1) * block.multiplier
            for table, own, block in zip(counted, forms, blocks, strict=True)
        ]
        return np.concatenate(parts)

    def _measured_rows(self, rows: Array, tables: CountTables) -> Array:
        """What is measured with some rows of the first axis, where every product has a multiplier."""
        assert self.weights is not None
        forms = self.block_forms(self.blocks[0])
        table = next(iter(integer_blocks.cross_tables(self.axes, [tuple(forms)], tables)))
        matrices = [exact.as_integers(form.entries()) for form in forms.values()]
        answers = exact.products_along_axes([matrices[0][rows], *matrices[1:]], table).reshape(-1)
        k = self.weights[rows].reshape(-1)
        measured = np.flatnonzero(k)
        return np.asarray(answers[measured] * k.astype(object)[measured])

    def _block_answers(self, table: Array, forms: Sequence[AxisForm]) -> Array:
        return integer_blocks.block_answers(table, [self.measured_form(form) for form in forms])

    # What is asked ----------------------------------------------------------------------------------

    def view(self, workload: Workload, products: Products | None = None) -> View:
        """A workload seen from this strategy, looked at once.

        Raises:
            DesignError: if some query ties its axes together.
        """
        if workload not in self._views:
            products = products_of(workload, self.axes) if products is None else products
            if products is None:
                raise DesignError(
                    "the strategy cannot answer queries that tie its axes together", field="workload"
                )
            self._views[workload] = View(self, products)
        return self._views[workload]

    def can_answer_all(self, workload: Workload) -> bool:
        return self.first_unanswerable(workload) is None

    def first_unanswerable(self, workload: Workload) -> int | None:
        products = products_of(workload, self.axes)
        return 0 if products is None else self.view(workload, products).first_unanswerable

    def distance_of(self, workload: Workload) -> float:
        return self.view(workload).distance

    # From integers to answers -------------------------------------------------------------------------

    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        return self._answers(workload, measurements[:, None])[:, 0]

    def stored_answers(self, workload: Workload, measurements: StoredIntegers) -> Array:
        return self._workload_values(workload, self._known_of_stored(measurements), 1)[:, 0]

    def error_map(self, workload: Workload) -> Callable[[Array], Array]:
        return partial(self._answers, workload)

    def answer_pieces(self, workload: Workload, measurements: Array | StoredIntegers) -> AnswerPieces:
        view = self.view(workload)
        if isinstance(measurements, StoredIntegers):
            known = self._known_of_stored(measurements)
        else:
            known = self._known(measurements[:, None])

        def answered(product: int, start: int, stop: int) -> tuple[Array, Array]:
            term = view.products.terms[product]
            assert (term.start, term.start + term.n_rows) == (start, stop)
            variances = np.broadcast_to(accuracy.product_variances(view, product), term.n_rows)
            return self._labelled_values(view, term, known, 1)[:, 0], variances

        return answered

    def _answers(self, workload: Workload, y: Array) -> Array:
        """Answers, (m, draws), from measured integers or noise alone, (n_measured, draws)."""
        return self._workload_values(workload, self._known(y), y.shape[1])

    def _workload_values(self, workload: Workload, known: Components, draws: int) -> Array:
        """The answers to all products of a workload, (m, draws)."""
        view, m = self.view(workload), workload.shape[0]
        require_room(m, draws, "the answers")
        result = np.empty((m, draws))
        for term in view.products.terms:
            result[term.start : term.start + term.n_rows] = self._labelled_values(view, term, known, draws)
        return result

    def _labelled_values(self, view: View, term: ProductTerm, known: Components, draws: int) -> Array:
        """The answers to one product, (n_rows, draws), in the order of its labels."""
        values = term_values(view, term, known)
        values = np.broadcast_to(values, (*accuracy.row_shape(view.products, term), draws))
        return term.in_workload_order(values.reshape(term.n_rows, draws))

    def estimates(self, measurements: Array) -> Array:
        require_room(self.n_cells, 1, "the estimated cells")
        view, term = self._known_cells(partly=True)
        values = term_values(view, term, self._known(measurements[:, None]))
        table = np.broadcast_to(values, (*term.factor_rows, 1))
        # The values of an axis that is never measured have equal shares.
        shares = math.prod(axis.size for a, axis in enumerate(self.axes) if a not in term.places)
        table = table.reshape([axis.size if a in term.places else 1 for a, axis in enumerate(self.axes)])
        cells = np.broadcast_to(table / shares, [axis.size for axis in self.axes])
        return in_schema_order(self.axes, cells.reshape(-1))

    def _known_cells(self, *, partly: bool) -> tuple[View, ProductTerm]:
        """The cross table of all axes that are measured, as the one product of a view."""
        known = tuple(a for a, own in enumerate(self.forms) if own)
        sizes = tuple(self.axes[a].size for a in known)
        term = ProductTerm(0, 0, known, (0,) * len(known), sizes, one_factor_each(len(known)))
        kinds = tuple((AxisRows(Identity(axis.size)),) for axis in self.axes)
        return View(self, Products(self.axes, kinds, (term,)), partly=partly), term

    @cached_property
    def is_consistent(self) -> bool:
        """Whether all answers follow from the same cells, those of `estimates`, which are of least squares.

        So it is where the residuals of every set of axes are measured in one block: residuals of different
        sets know nothing of one another.
        """
        return all(len(blocks) == 1 for blocks in self.places.values())

    def _known_of_stored(self, measurements: StoredIntegers) -> Components:
        """What is known of the components, from integers that are read when one is asked for."""
        if self.weights is not None:
            return self._known(np.asarray(measurements)[:, None])
        return StoredComponents(
            self.n_components, lambda number: self._stored_component(number, measurements)
        )

    @property
    def n_components(self) -> int:
        """How many components there are."""
        return len(self.blocks)

    def _stored_component(self, number: int, measurements: StoredIntegers) -> Array:
        start, stop = self.block_starts[number : number + 2].tolist()
        y = measurements.between(start, stop)[:, None]
        return components_of([self.blocks[number]], [self.block_shapes[number]], y)[0]

    def noiseless_answers(
        self, workload: Workload, records: InventedRecords, queries: Sequence[int]
    ) -> Array:
        view = self.view(workload)
        terms = view.products.terms
        starts = [term.start for term in terms]
        asked = [terms[bisect_right(starts, query) - 1] for query in queries]
        # Whole tables, as a release makes them; those too large to be made for a check, row by row.
        small = [term for term in dict.fromkeys(asked) if self._work_of(view, term) <= _MAX_CHECKED]
        known = self._noiseless_components(
            sorted({piece.component for term in small for piece in view.pieces(term)}), records.tables
        )
        values = {term: self._labelled_values(view, term, known, 1)[:, 0] for term in small}
        rows = [(term, query - term.start) for term, query in zip(asked, queries, strict=True)]
        alone = iter(noiseless_rows(view, [pair for pair in rows if pair[0] not in values], records))
        return np.array([values[term][row] if term in values else next(alone) for term, row in rows])

    def _work_of(self, view: View, term: ProductTerm) -> int:
        """How many numbers are made on the way to all answers of a product."""
        sizes = (
            math.prod(form.n_rows for form in self.component_forms(piece.component).values())
            for piece in view.pieces(term)
        )
        return term.n_rows + sum(sizes)

    def _noiseless_components(self, numbers: Sequence[int], tables: CountTables) -> Mapping[int, Array]:
        """What would be known of some components without noise."""
        if not numbers:
            return {}
        blocks = [self.blocks[number] for number in numbers]
        y = self._measured_blocks(blocks, tables) if self.weights is None else self.exact_answers(tables)
        found = components_of(blocks, [self.block_shapes[number] for number in numbers], y[:, None])
        return dict(zip(numbers, found, strict=True))

    def _known(self, measurements: Array) -> Sequence[Array]:
        """What is known of every component, each (rows of its axes..., draws)."""
        return components_of(self.blocks, self.block_shapes, measurements)

    # Accuracy ---------------------------------------------------------------------------------------

    def variances_of(self, workload: Workload) -> Array:
        return accuracy.variances(self.view(workload), workload)

    def covariances_of(self, left: Workload, right: Workload) -> Array:
        shape = left.shape[0], right.shape[0]
        require_room(*shape, "the covariances")
        result = np.zeros(shape)
        views = self.view(left), self.view(right)
        for one in views[0].products.terms:
            rows = slice(one.start, one.start + one.n_rows)
            for other in views[1].products.terms:
                if self.row_variances is None:
                    part = term_covariances(views[0], one, views[1], other)
                else:
                    part = weighted_covariances(views[0], one, views[1], other, self.row_variances)
                part = other.in_workload_order(one.in_workload_order(part).T).T
                result[rows, other.start : other.start + other.n_rows] = part
        return result

    def spreads(self, workload: Workload) -> list[Spread]:
        return accuracy.spreads(self.view(workload), workload)

    def total_variance(self, workload: Workload, weights: Sequence[Array]) -> float:
        return accuracy.total_variance(self.view(workload), workload, weights)

    def total_stderr(self, workload: Workload, weights: Sequence[Array]) -> float:
        return accuracy.total_stderr(self.view(workload), workload, weights)

    def largest_share(self, workload: Workload, caps: Sequence[Array]) -> float:
        return accuracy.largest_share(self.view(workload), workload, caps)

    @property
    def component_variances(self) -> Array:
        """σ²/k_s² for every component."""
        unit = math.sqrt(self.noise_variance)
        return np.array([(unit / block.multiplier) ** 2 for block in self.blocks])

    @property
    def row_variances(self) -> Array | None:
        """σ²/k² of every tuple of rows with a multiplier of its own; 0 where it is not measured."""
        if self.weights is None:
            return None
        k = self.weights.astype(float)
        unit = math.sqrt(self.noise_variance)
        return np.divide(unit, k, out=np.zeros(k.shape), where=k > 0) ** 2

    @cached_property
    def places(self) -> dict[AxisSet, list[int]]:
        """For every set of split axes whose residuals are known, the components that hold them."""
        found: dict[AxisSet, list[int]] = {}
        for number, block in enumerate(self.blocks):
            found.setdefault(block.axes, []).append(number)
        return found

    def component_forms(self, number: int) -> dict[int, AxisForm]:
        """The axes of a component, whole ones included, and the forms in whose coordinates it is."""
        return self.block_forms(self.blocks[number])

    def laplace_half_widths(self, workload: Workload, alpha: float) -> Array:
        if self.weights is not None:
            raise DesignError("rows with joint weights are for Gaussian noise", field="noise")
        return accuracy.laplace_half_widths(
            self.view(workload),
            workload,
            gains=self._gains,
            gain_norms=self._gain_norms,
            n_measured=self.n_measured,
            scale=self.scale,
            alpha=alpha,
        )

    def _gain_norms(self, view: View, term: ProductTerm) -> tuple[Array, Array, Array]:
        return gain_norms(self.blocks, view, term)

    def _gains(self, view: View, term: ProductTerm, shown: tuple[int, ...]) -> Iterator[Array]:
        return gains(self.blocks, self.block_shapes, view, term, shown)

    # Period by period -------------------------------------------------------------------------------

    def through(self, workload: Workload, over: str, period: int) -> Structured:
        place = self._axis_of_time(over)
        forms = [list(own) for own in self.forms]
        forms[place] = [
            AxisForm("whole", form.size, form.entries()[self._ends_of(form) <= period])
            for form in self.forms[place]
        ]
        number = self.whole.index(place)
        kept = [
            block for block in self.blocks if forms[place][block.whole[number] if block.whole else 0].n_rows
        ]
        if self.weights is not None:
            ended = np.flatnonzero(self._ends_of(self.forms[place][0]) <= period)
            kept = [block._replace(weights=np.take(self.weights, ended, axis=place)) for block in kept]
        return Structured(
            self.axes,
            forms,
            kept,
            scale=self.scale,
            noise=self.noise,
            neighbours=self.neighbours,
            centres=self.centres,
            order=self.order,
        )

    def answers_in_time(self, workload: Workload, over: str) -> bool:
        """Block by block: what products ask of time, from the rows of the form in each block."""
        place = self._axis_of_time(over)
        view = self.view(workload)
        known: dict[tuple[AxisForm, int | None], bool] = {}
        for term in view.products.terms:
            kind = dict(zip(term.places, term.kinds, strict=True)).get(place)
            if kind is None:
                # Due at the very end.
                continue
            for piece in view.pieces(term):
                form = piece.inside[place]
                if (form, kind) not in known:
                    W = view.products.kinds[place][kind].operator.dense()
                    due = last_columns(W, np.arange(form.size))
                    known[form, kind] = not is_late(form.gain(W), due, self._ends_of(form))
        return all(known.values())

    def _axis_of_time(self, over: str) -> int:
        """The place of the axis that is time, which is whole."""
        place = axis_of_time([axis.names for axis in self.axes], over)
        if place not in self.whole:
            raise no_periods(over)
        return place

    @staticmethod
    def _ends_of(form: AxisForm) -> Array:
        return last_columns(form.entries(), np.arange(form.size))

    # Files ------------------------------------------------------------------------------------------

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        if self.weights is not None:
            return self._weighted_parts(self.weights)
        forms: list[list[dict[str, Any]]] = []
        arrays: dict[str, Array] = {}
        for place, own in enumerate(self.forms):
            forms.append([])
            for number, form in enumerate(own):
                plain, held = form.to_parts()
                forms[-1].append(plain)
                arrays |= {f"axis{place}_{number}_{name}": array for name, array in held.items()}
        arrays["block_sizes"] = np.array([len(block.axes) for block in self.blocks], dtype=np.int64)
        arrays["block_axes"] = np.array([a for block in self.blocks for a in block.axes], dtype=np.int64)
        arrays["block_forms"] = np.array([f for block in self.blocks for f in block.forms], dtype=np.int64)
        if any(block.whole for block in self.blocks):
            arrays["block_whole"] = np.array([block.whole for block in self.blocks], dtype=np.int64)
        multipliers = np.array([block.multiplier for block in self.blocks], dtype=object)
        arrays["multipliers"] = exact.to_limbs(multipliers)
        centres = [[a, list(history), form] for (a, history), form in self.centres.items()]
        structure = {
            "kind": "blocks",
            "axes": axes_to_plain(self.axes),
            "forms": forms,
            "centres": centres,
            "order": list(self.order),
        }
        return structure, arrays

    def _weighted_parts(self, weights: Array) -> tuple[dict[str, Any], dict[str, Array]]:
        arrays, forms = {"multipliers": exact.to_limbs(weights)}, []
        for place, (form,) in enumerate(self.forms):
            plain, held = form.to_parts()
            forms.append(plain)
            arrays |= {f"axis{place}_{name}": array for name, array in held.items()}
        return {"kind": "joint", "axes": axes_to_plain(self.axes), "forms": forms}, arrays

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_measured:,} integers in {len(self.blocks):,} blocks, "
            f"{in_figures(self.n_cells)} cells, {self.noise} noise of scale {self.scale:,})"
        )
