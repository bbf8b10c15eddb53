"""Strategies for domains that no matrix holds: integer blocks of products, each over a few axes.

An axis a (an attribute, or some that are tied together) is measured in one of two ways. A *whole* axis has
one integer matrix M_a, part of every block. A *split* axis has a matrix of residuals, with M_a g_a = 0 for an
integer vector g_a, its centre, in some blocks, and is added up, 1ᵀ, in the others. Block s, a set of split
axes, is

    k_s · ⊗_{a in s or whole} M_a ⊗_{a not in s} 1ᵀ ,     k_s an integer,                               (1)

measured with independent noise of one scale on all integers. With G_a the inverse of M_a on sums of zero
(1ᵀG_a = 0, G_a M_a = I − g_a 1ᵀ/(1ᵀg_a)), the products ⊗ G_a ⊗ g_a/(1ᵀg_a) take the blocks apart: residuals
know nothing of totals and the other way round. So the answer to a row ⊗ w_a is a sum over blocks, of variance

    Σ_s (σ²/k_s²) Π_{a in s or whole} ‖w_a G_a‖² Π_{a not in s} (w_a·g_a/1ᵀg_a)²                           (2)

in which only blocks s within the row's own axes have a part. A record meets one column of every M_a, so that

    Δ² = Σ_s k_s² Π_{a in s or whole} max_i ‖M_a e_i‖² ,    Δ₁ likewise with absolute sums,                (3)

exactly where axes have one form each: the worst cell takes the largest column of every axis. Where a record
is replaced by another, the difference of two columns of (1) is bounded through the inner products of columns
of each axis, from above.

Axes may have several forms. They are split in a fixed order, and the centre of an axis may depend on its
history, the axes before it that are in s: two different sets then differ at some first axis, where one has
the residuals and the other the total of the same centre, which is all that (2) needs. Residuals of one
centre may be measured in several ways, in different blocks; a product is answered from the block that serves
it best. (3) is then an upper bound.

Nothing of the size of the domain is ever built: blocks are measured from cross tables of their own axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise import exact, laplace_tails
from leastnoise.errors import DesignError, TooLargeError
from leastnoise.lattice import AxisSet
from leastnoise.measured import CountTables, Measured, Neighbours, Noise, Spread
from leastnoise.operators import Array, Identity, require_room
from leastnoise.printable import in_figures
from leastnoise.products import (
    Axis,
    Kind,
    Products,
    ProductTerm,
    axes_in_words,
    in_schema_order,
    products_of,
)
from leastnoise.strategy import MAX_DENSE_STRATEGY
from leastnoise.structured.answers import Block, gain_norms, gains, term_covariances, term_values
from leastnoise.structured.axis_form import AxisForm
from leastnoise.structured.view import View
from leastnoise.workload import Workload

# More integers than this are not measured: with their noise they are Python integers, some 60 bytes each.
MAX_MEASURED = 2**25

# Cells up to this many have their spending listed one by one.
_MAX_LISTED = 2**20

# Beyond so many coefficients of noise in answers, intervals with Laplace noise follow from their norms.
_MOST_GAINS = 2**26

# Bits of a limb of the counts, which leave room for sums and differences along the axes.
_LIMB = 32


class Structured(Measured):
    """Integer blocks of products with one scale of noise; see (1).

    Args:
        axes: names and sizes of the attributes of each axis, all of the schema that tell records apart.
        forms: how each axis is measured: one form of a whole axis, one or more of a split one, none where
            it is added up in every block.
        centres: for an axis and a history of it, the form whose centre holds; the first unless given.
        order: split axes in the order that histories speak of; rising unless given.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        forms: Sequence[Sequence[AxisForm]],
        blocks: Sequence[Block],
        *,
        scale: int,
        noise: Noise,
        neighbours: Neighbours = "add-remove",
        centres: Mapping[tuple[int, AxisSet], int] | None = None,
        order: Sequence[int] | None = None,
    ) -> None:
        self.scale = scale
        self.noise = noise
        self.neighbours = neighbours
        self._check_noise()
        self.axes = tuple(axes)
        self.forms = tuple(tuple(own) for own in forms)
        self.blocks = tuple(blocks)
        self.centres = dict(centres or {})
        self.order = tuple(range(len(self.axes)) if order is None else order)
        self._check_forms()
        self._check_blocks()
        self.__dict__["_is_complete"] = True

    def _check_forms(self) -> None:
        if len(self.forms) != len(self.axes) or sorted(self.order) != list(range(len(self.axes))):
            raise DesignError("a structured strategy needs forms for every axis, and an order of all axes")
        for axis, own in zip(self.axes, self.forms, strict=True):
            if any(form.size != axis.size for form in own):
                raise DesignError(
                    f"the axis {', '.join(axis.names)} has {axis.size:,} values, a form has others"
                )
            if len(own) > 1 and not all(form.is_split for form in own):
                raise DesignError("a whole axis has one form")

    def _check_blocks(self) -> None:
        if not self.blocks:
            raise DesignError("a structured strategy needs at least one block")
        if any(type(block.multiplier) is not int or block.multiplier < 1 for block in self.blocks):
            raise DesignError("multipliers of blocks must be positive whole numbers")
        if len({(block.axes, block.forms) for block in self.blocks}) < len(self.blocks):
            raise DesignError("every block may be measured once")
        n_forms = [len(own) if own and own[0].is_split else 0 for own in self.forms]
        for block in self.blocks:
            fits = len(block.axes) == len(block.forms) and list(block.axes) == sorted(set(block.axes))
            for a, form in zip(block.axes, block.forms, strict=False):
                fits = fits and 0 <= a < len(n_forms) and 0 <= form < n_forms[a]
            if not fits:
                raise DesignError("a block names split axes, each once, rising, and a form of each")
        if any(
            not (0 <= a < len(n_forms) and 0 <= form < n_forms[a]) for (a, _), form in self.centres.items()
        ):
            raise DesignError("a centre is that of a form which its axis does not have")
        if not self.is_simple:
            self._check_centres()

    def _check_centres(self) -> None:
        """Residuals in a block must be those of the centre that holds there."""
        for block in self.blocks:
            for a, form in zip(block.axes, block.forms, strict=True):
                if not self.forms[a][form].has_centre_of(self.centre_form(a, block.axes)):
                    raise DesignError("a block holds residuals of another centre than the one of its history")

    @cached_property
    def is_simple(self) -> bool:
        """Whether every axis has at most one form."""
        return all(len(own) <= 1 for own in self.forms)

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

    def block_forms(self, block: Block) -> dict[int, AxisForm]:
        """The axes that a block measures, rising, and how."""
        chosen = dict(zip(block.axes, block.forms, strict=True))
        return {a: self.forms[a][chosen.get(a, 0)] for a in sorted({*block.axes, *self.whole})}

    @cached_property
    def block_shapes(self) -> tuple[tuple[int, ...], ...]:
        """How many integers each block has along its axes."""
        return tuple(tuple(f.n_rows for f in self.block_forms(block).values()) for block in self.blocks)

    @cached_property
    def n_measured(self) -> int:
        return sum(math.prod(shape) for shape in self.block_shapes)

    @property
    def n_cells(self) -> int:
        return math.prod(axis.size for axis in self.axes)

    @property
    def shape(self) -> tuple[int, int]:
        """How many integers are measured, over how many cells."""
        return self.n_measured, self.n_cells

    def dense(self) -> Array:
        """The integer rows over all cells, (n_measured, n_cells), exactly; refused above 10⁷ entries.

        Raises:
            TooLargeError: if there are more.
        """
        if self.n_measured * self.n_cells > MAX_DENSE_STRATEGY:
            raise TooLargeError(
                f"the strategy has {self.n_measured:,} x {in_figures(self.n_cells)} entries; at most "
                f"{MAX_DENSE_STRATEGY:,} are written out"
            )
        rows = []
        for block in self.blocks:
            forms = self.block_forms(block)
            total: Array = np.array([[block.multiplier]], dtype=object)
            for a, axis in enumerate(self.axes):
                own = self._entries(forms[a]) if a in forms else np.ones((1, axis.size), dtype=object)
                total = np.kron(total, own)
            rows.append(total)
        return exact.as_integers(in_schema_order(self.axes, np.vstack(rows).T).T)

    def _entries(self, form: AxisForm) -> Array:
        """The matrix of one axis, in Python integers."""
        return form.entries()

    # Privacy, in integers -------------------------------------------------------------------------

    @cached_property
    def sensitivity(self) -> int:
        power = 2 if self.noise == "gaussian" else 1
        costs = [[self._largest_cost(form, power) for form in own] for own in self.forms]
        of_whole = math.prod(costs[a][0] for a in self.whole)
        each = [
            of_whole * math.prod([costs[a][form] for a, form in zip(block.axes, block.forms, strict=True)])
            for block in self.blocks
        ]
        added = sum(block.multiplier**power * cost for block, cost in zip(self.blocks, each, strict=True))
        for place, own in enumerate(self.forms):
            if len(own) > 1:
                added = min(added, self._along_one(place, power, costs, each))
        return added if self.neighbours == "add-remove" else max(added, self._replaced(power, each))

    def _along_one(self, place: int, power: int, costs: Sequence[Sequence[int]], each: Sequence[int]) -> int:
        """(3) with the columns of one axis as they are, value by value, and the largest of all others."""
        total: Array = np.zeros(self.axes[place].size, dtype=object)
        columns = [np.array(self._costs(form, power), dtype=object) for form in self.forms[place]]
        for block, cost in zip(self.blocks, each, strict=True):
            chosen = dict(zip(block.axes, block.forms, strict=True)).get(place)
            largest = block.multiplier**power * cost
            if chosen is None:
                total = total + largest
            else:
                total = total + (largest // costs[place][chosen]) * columns[chosen]
        return int(total.max())

    def _largest_cost(self, form: AxisForm, power: int) -> int:
        return form.largest_cost(power)

    def _costs(self, form: AxisForm, power: int) -> list[int]:
        return form.costs(power)

    def _inner_products(self, form: AxisForm) -> tuple[int, int]:
        return form.inner_products()

    def _replaced(self, power: int, costs: Sequence[int]) -> int:
        """A bound on what replacing one record by another changes, from the largest costs of the blocks.

        Block by block, ‖a − b‖² = ‖a‖² + ‖b‖² − 2 a·b, and a·b is a product of inner products of columns, one
        for each axis, each within known ends. ‖a − b‖₁ ≤ ‖a‖₁ + ‖b‖₁. A block of no axis does not change.
        """
        ends = [[self._inner_products(form) for form in own] for own in self.forms] if power == 2 else []
        total = 0
        for block, cost in zip(self.blocks, costs, strict=True):
            k = block.multiplier
            if not block.axes and not self.whole:
                continue
            if power == 1:
                total += 2 * k * cost
                continue
            low, high = 1, 1
            chosen = dict(zip(block.axes, block.forms, strict=True))
            for a in (*block.axes, *self.whole):
                products = [x * y for x in (low, high) for y in ends[a][chosen.get(a, 0)]]
                low, high = min(products), max(products)
            total += 2 * k * k * (cost - low)
        return total

    @property
    def spent_per_cell(self) -> list[Fraction]:
        if self.n_cells > _MAX_LISTED:
            raise TooLargeError(
                f"what a record spends is listed for up to {_MAX_LISTED:,} cells, there are more; "
                "plan.spent_per_person is the most of all"
            )
        if self.neighbours == "replace-one":
            return [self.spent] * self.n_cells
        power = 2 if self.noise == "gaussian" else 1
        total = np.zeros(self.n_cells, dtype=object)
        for block in self.blocks:
            of_block = np.array([block.multiplier**power], dtype=object)
            forms = self.block_forms(block)
            for a, axis in enumerate(self.axes):
                costs = self._costs(forms[a], power) if a in forms else [1] * axis.size
                of_block = np.multiply.outer(of_block, np.array(costs, dtype=object)).reshape(-1)
            total += of_block
        return [Fraction(int(cost), self.unit) for cost in in_schema_order(self.axes, total)]

    def with_scale(self, scale: int) -> Structured:
        other = type(self)(
            self.axes,
            self.forms,
            self.blocks,
            scale=scale,
            noise=self.noise,
            neighbours=self.neighbours,
            centres=self.centres,
            order=self.order,
        )
        # What depends on the integers alone is kept.
        for name in ("sensitivity", "whole", "block_shapes", "n_measured", "places"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    # From counts to integers ------------------------------------------------------------------------

    def exact_answers(self, tables: CountTables) -> Array:
        self.require_measurable()
        sets = [tuple(self.block_forms(block)) for block in self.blocks]
        source = _covering(sets)
        largest = list(dict.fromkeys(source.values()))
        names = [tuple(name for a in axes for name in self.axes[a].names) for axes in largest]
        sizes = [axis.size for axis in self.axes]
        counted = {
            axes: np.asarray(table).reshape([sizes[a] for a in axes])
            for axes, table in zip(largest, tables(names), strict=True)
        }
        parts = []
        for axes, block in zip(sets, self.blocks, strict=True):
            covering = source[axes]
            # Sums of Python integers, or of int64 below 2^63 in all, as the counts of one table are.
            left_out = tuple(i for i, a in enumerate(covering) if a not in axes)
            table = counted[covering]
            if left_out:
                table = np.asarray(table.sum(axis=left_out), dtype=table.dtype)
            forms = list(self.block_forms(block).values())
            parts.append(self._block_answers(table, forms).reshape(-1) * block.multiplier)
        return np.concatenate(parts)

    def require_measurable(self) -> None:
        """Return if what is measured fits in memory.

        Raises:
            TooLargeError: with the number of integers, before anything is read.
        """
        if self.n_measured > MAX_MEASURED:
            raise TooLargeError(
                f"the plan measures {self.n_measured:,} integers; at most {MAX_MEASURED:,} are held. Ask for "
                "fewer or coarser attributes in one plan."
            )

    def _block_answers(self, table: Array, forms: Sequence[AxisForm]) -> Array:
        """⊗ M_a applied to a table of counts, as Python integers, the work independent of the counts."""
        if not forms:
            return np.array([int(table.reshape(-1)[0])], dtype=object)
        if table.dtype == object:
            return _along_axes(table, forms)
        table = table.astype(np.int64, casting="safe")
        grown = math.prod(2 * form.size for form in forms if form.kind == "centred").bit_length()
        if _LIMB + grown > exact.SAFE_BITS:
            return _along_axes(table.astype(object), forms)
        # Centred axes in two limbs of int64, each too small to wrap; then, in Python integers, the others.
        centred = [form if form.rows is None else None for form in forms]
        high = _along_axes(table >> _LIMB, centred)
        low = _along_axes(table & ((1 << _LIMB) - 1), centred)
        whole = (high.astype(object) << _LIMB) + low.astype(object)
        return _along_axes(whole, [None if form.rows is None else form for form in forms])

    # From integers to answers -------------------------------------------------------------------------

    def estimates(self, measurements: Array) -> Array:
        require_room(self.n_cells, 1, "the estimated cells")
        view, term = self._known_cells(partly=True)
        values = term_values(view, term, self._components(measurements[:, None]))
        table = np.broadcast_to(values, (*term.row_shape, 1))
        # Nothing tells apart the values of an axis that is never measured: they share alike.
        shares = math.prod(axis.size for a, axis in enumerate(self.axes) if a not in term.places)
        table = table.reshape([axis.size if a in term.places else 1 for a, axis in enumerate(self.axes)])
        cells = np.broadcast_to(table / shares, [axis.size for axis in self.axes])
        return in_schema_order(self.axes, cells.reshape(-1))

    def _known_cells(self, *, partly: bool) -> tuple[View, ProductTerm]:
        """The cross table of all axes that are measured, as the one product of a view."""
        known = tuple(a for a, own in enumerate(self.forms) if own)
        sizes = tuple(self.axes[a].size for a in known)
        term = ProductTerm(0, 0, known, (0,) * len(known), sizes, None)
        kinds = tuple((Kind(Identity(axis.size)),) for axis in self.axes)
        return View(self, Products(self.axes, kinds, (term,)), partly=partly), term

    @cached_property
    def is_consistent(self) -> bool:
        """Whether all answers follow from the same cells, those of `estimates`, which are of least squares.

        So it is where the residuals of every set of axes are measured in one block: residuals of different
        sets know nothing of one another.
        """
        return all(len(blocks) == 1 for blocks in self.places.values())

    @cached_property
    def is_each_set_spanned(self) -> bool:
        """Whether, for every set of split axes that is measured, one block alone tells all its residuals."""
        view, term = self._known_cells(partly=False)
        split = {a for a, own in enumerate(self.forms) if own and own[0].is_split}
        found = {tuple(a for a in piece.inside if a in split) for piece in view.pieces(term)}
        return found >= set(self.places)

    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        return self._answers(workload, measurements[:, None])[:, 0]

    def simulated_errors(self, workload: Workload, noise: Array) -> Array:
        return self._answers(workload, noise)

    def _answers(self, workload: Workload, y: Array) -> Array:
        """Answers, (m, draws), from measured integers or noise alone, (n_measured, draws)."""
        view = self.view(workload)
        components = self._components(y)
        m, draws = workload.shape[0], y.shape[1]
        require_room(m, draws, "the answers")
        result = np.empty((m, draws))
        for term in view.products.terms:
            values = term_values(view, term, components)
            values = np.broadcast_to(values, (*(k.n_rows for k in view.kinds(term)), draws))
            if term.row_order is not None:
                values = values.reshape(*term.row_shape, draws)
                values = values.transpose(*term.row_order, len(term.row_shape))
            result[term.start : term.start + term.n_rows] = values.reshape(-1, draws)
        return result

    def _components(self, y: Array) -> list[Array]:
        """The noisy blocks divided by their multipliers, each (rows of its axes..., draws)."""
        parts, start = [], 0
        for shape, block in zip(self.block_shapes, self.blocks, strict=True):
            size, k = math.prod(shape), block.multiplier
            part = y[start : start + size]
            # A quotient of Python integers is correctly rounded, however wide they are.
            values = (part / k).astype(float) if y.dtype == object else part / float(k)
            parts.append(values.reshape(*shape, y.shape[1]))
            start += size
        return parts

    # Accuracy ---------------------------------------------------------------------------------------

    @cached_property
    def component_variances(self) -> Array:
        """σ²/k_s² for every component."""
        unit = math.sqrt(self.noise_variance)
        return np.array([(unit / block.multiplier) ** 2 for block in self.blocks])

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

    def can_answer_all(self, workload: Workload) -> bool:
        return self.first_unanswerable(workload) is None

    def first_unanswerable(self, workload: Workload) -> int | None:
        products = products_of(workload, self.axes)
        return 0 if products is None else self.view(workload, products).first_unanswerable

    def view(self, workload: Workload, products: Products | None = None) -> View:
        """A workload seen from this strategy, looked at once."""
        views = self.__dict__.setdefault("_views", WeakKeyDictionary())
        if workload not in views:
            products = products_of(workload, self.axes) if products is None else products
            if products is None:
                raise DesignError("the strategy cannot answer queries that tie its axes together")
            views[workload] = View(self, products)
        found: View = views[workload]
        return found

    def variances_of(self, workload: Workload) -> Array:
        require_room(workload.shape[0], 1, "the variances")
        view = self.view(workload)
        result = np.empty(workload.shape[0])
        constant = view.constant_variances
        for number, term in enumerate(view.products.terms):
            rows = slice(term.start, term.start + term.n_rows)
            if math.isnan(constant[number]):
                shape = tuple(kind.n_rows for kind in view.kinds(term))
                values = np.broadcast_to(view.term_variances(term), shape)
                result[rows] = term.in_workload_order(values)
            else:
                result[rows] = constant[number]
        return result

    def covariances_of(self, left: Workload, right: Workload) -> Array:
        require_room(left.shape[0], right.shape[0], "the covariances")
        views = self.view(left), self.view(right)
        result = np.zeros((left.shape[0], right.shape[0]))
        for one in views[0].products.terms:
            for other in views[1].products.terms:
                part = term_covariances(views[0], one, views[1], other)
                rows = slice(one.start, one.start + one.n_rows)
                columns = slice(other.start, other.start + other.n_rows)
                part = np.apply_along_axis(other.in_workload_order, 1, part)
                result[rows, columns] = np.apply_along_axis(one.in_workload_order, 0, part)
        return result

    def spreads(self, workload: Workload) -> list[Spread]:
        view = self.view(workload)
        constant, sums = view.constant_variances, view.variance_sums
        blocks = np.array([term.block for term in view.products.terms])
        result = []
        for number, block in enumerate(workload.blocks):
            mine = np.flatnonzero(blocks == number)
            # Variances that occur, and how often: a cross table has one.
            values, counts = [constant[mine]], [np.array([view.products.terms[j].n_rows for j in mine])]
            for j in mine[np.isnan(constant[mine])]:
                term = view.products.terms[j]
                varied = view.term_variances(term).reshape(-1)
                values.append(varied)
                counts.append(np.full(len(varied), term.n_rows // len(varied)))
            v, n = np.concatenate(values), np.concatenate(counts)
            known = ~np.isnan(v)
            mean = math.fsum(sums[mine]) / block.n_rows
            low, high = math.sqrt(v[known].min()), math.sqrt(v[known].max())
            result.append(Spread(low, math.sqrt(_median(v[known], n[known])), high, mean))
        return result

    def total_variance(self, workload: Workload, weights: Sequence[Array]) -> float:
        if all(len(own) == 1 for own in weights):
            view = self.view(workload)
            blocks = np.array([term.block for term in view.products.terms])
            return math.fsum(view.variance_sums * np.concatenate(weights)[blocks])
        w = workload.per_query(weights, "the weights")
        return math.fsum(w * self.variances_of(workload))

    def largest_share(self, workload: Workload, caps: Sequence[Array]) -> float:
        if all(len(own) == 1 for own in caps):
            spreads = self.spreads(workload)
            with np.errstate(over="ignore"):
                return max(s.high**2 / float(own[0]) for s, own in zip(spreads, caps, strict=True))
        c = workload.per_query(caps, "the caps")
        with np.errstate(over="ignore"):
            return float((self.variances_of(workload) / c).max(initial=0))

    def laplace_half_widths(self, workload: Workload, alpha: float) -> Array:
        view = self.view(workload)
        result = np.empty(workload.shape[0])
        shown_rows = [self._shown(view, term) for term in view.products.terms]
        work = sum(math.prod(shown) for shown in shown_rows) * self.n_measured
        for term, shown in zip(view.products.terms, shown_rows, strict=True):
            shape = tuple(kind.n_rows for kind in view.kinds(term))
            if work > _MOST_GAINS:
                norms = [np.broadcast_to(norm, shape) for norm in self._gain_norms(view, term)]
                values = laplace_tails.half_widths_by_norms(*norms, scale=self.scale, alpha=alpha)
                result[term.start : term.start + term.n_rows] = term.in_workload_order(values)
                continue
            halves = laplace_tails.half_widths(
                partial(self._gains, view, term, shown), scale=self.scale, alpha=alpha
            )
            values = np.broadcast_to(halves.reshape(shown), shape)
            result[term.start : term.start + term.n_rows] = term.in_workload_order(values)
        return result

    def _shown(self, view: View, term: ProductTerm) -> tuple[int, ...]:
        """How many rows of each kind of a product to look at: those that no query tells apart are alike."""
        return tuple(
            1 if view.is_constant(a, k) else view.products.kinds[a][k].n_rows
            for a, k in zip(term.places, term.kinds, strict=True)
        )

    def _gain_norms(self, view: View, term: ProductTerm) -> tuple[Array, Array, Array]:
        return gain_norms(self.blocks, view, term)

    def _gains(self, view: View, term: ProductTerm, shown: tuple[int, ...]) -> Iterator[Array]:
        return gains(self.blocks, self.block_shapes, view, term, shown)

    # Files ------------------------------------------------------------------------------------------

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
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
        multipliers = np.array([block.multiplier for block in self.blocks], dtype=object)
        arrays["multipliers"] = exact.to_limbs(multipliers)
        centres = [[a, list(history), form] for (a, history), form in self.centres.items()]
        structure = {
            "kind": "blocks",
            "axes": axes_in_words(self.axes),
            "forms": forms,
            "centres": centres,
            "order": list(self.order),
        }
        return structure, arrays

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_measured:,} integers in {len(self.blocks):,} blocks, "
            f"{in_figures(self.n_cells)} cells, {self.noise} noise of scale {self.scale:,})"
        )


def _median(values: Array, counts: Array) -> float:
    """The middle one of values that occur so often."""
    order = np.argsort(values)
    rising = np.cumsum(counts[order])
    return float(values[order][np.searchsorted(rising, rising[-1] / 2)])


def _along_axes(table: Array, forms: Sequence[AxisForm | None]) -> Array:
    """Integer matrices along the axes of a table; None leaves an axis as it is."""
    for position, form in enumerate(forms):
        if form is not None:
            front = np.moveaxis(table, position, 0)
            result = form.answers(front.reshape(front.shape[0], -1))
            table = np.moveaxis(result.reshape(form.n_rows, *front.shape[1:]), 0, position)
    return table


def _covering(sets: Sequence[AxisSet]) -> dict[AxisSet, AxisSet]:
    """For every set one that holds it and is part of no other: few tables are counted, the rest added up."""
    covered: dict[AxisSet, AxisSet] = {}
    for axes in sorted(set(sets), key=lambda s: (-len(s), s)):
        if axes not in covered:
            for size in range(len(axes) + 1):
                for part in combinations(axes, size):
                    covered.setdefault(part, axes)
    return {axes: covered[axes] for axes in sets}
