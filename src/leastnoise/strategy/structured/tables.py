"""Tables of attributes measured as they are, each with a weight of its own.

A table of the axes t holds products of rows ⊗_{a in t} M_a ⊗_{a not in t} 1ᵀ. Along an axis M_a is the
identity, which makes plain cross tables, or a matrix of full rank ("crossed"), such as every value and some
sums of values. A record meets one column of M_a, so tables with integer weights θ_t have the sensitivities
Δ₁ = Σ_t θ_t Π_{a in t} max_i ‖M_a e_i‖₁ and Δ² likewise with squares, whatever the number of cells: with
Laplace noise this is far less than what residuals cost.

With λ_a = 1ᵀ(M_aᵀM_a)⁻¹1, the variance of the least-squares total of axis a (n_a for the identity), what the
tables say about the residuals of a set r, each through the totals of t∖r, is averaged with the weights that
leave least variance:

    ν_{r,t} = (σ²/θ_t²) Π_{a in t∖r} λ_a Π_{a in r} c_a ,     1/ν_r = Σ_{t ⊇ r} 1/ν_{r,t}                 (1)

c_a is 1 for rows M_a, whose residuals keep the coordinates of what is measured, and n_a² for the identity,
whose residuals have the coordinates n_a I − 11ᵀ. Residuals and totals have uncorrelated noise along every
axis (`axis_form`), so that all residuals have, and averages by (1) are the least squares of all tables: they
are diagonal in the coordinates in which MᵀM is the identity, of which 11ᵀ is a multiple of a projection.
Everything else is as in `structured`, with ν_r for the variance of component r.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array, require_room
from leastnoise.query import AxisSet, Lattice, ProductTerm
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.measured import CountTables
from leastnoise.strategy.stored import StoredIntegers
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.reconstruction import Components
from leastnoise.strategy.structured.view import View

# Forms of the axes of tables.
_KINDS = ("centred", "crossed")


def _grown(form: AxisForm) -> tuple[float, float]:
    """λ_a and c_a of (1), for an axis that is added up and for one whose residuals are kept."""
    if form.rows is None:
        return float(form.size), float(form.size) ** 2
    return float(np.sum(form.total_estimate**2)), 1.0


def _totals(form: AxisForm, table: Array, position: int) -> Array:
    """The estimated totals along one axis of a table."""
    if form.rows is None:
        return np.asarray(table.sum(axis=position))
    return np.tensordot(form.total_estimate, table, axes=(0, position))


def _total_rows(form: AxisForm, n: int) -> Array:
    """How the total of an axis follows from a table, n times."""
    if form.rows is None:
        return np.ones((n, form.size))
    return np.broadcast_to(form.total_estimate, (n, form.n_rows))


class WeightedTables(Structured):
    """Weighted tables with one scale of noise. Every axis that is measured is centred or crossed."""

    def _check(self) -> None:
        super()._check()
        if not self.is_simple or any(form.kind not in _KINDS for own in self.forms for form in own):
            raise DesignError(
                "weighted tables hold plain counts of every axis, or rows of full rank", field="strategy"
            )
        for own in self.forms:
            for form in own:
                if form.kind == "crossed":
                    # Refuses rows that do not tell all values apart.
                    form.total_estimate  # noqa: B018

    def measured_form(self, form: AxisForm) -> AxisForm:
        return form.measured

    # From tables to residuals ----------------------------------------------------------------------------

    @cached_property
    def component_sets(self) -> tuple[AxisSet, ...]:
        """The sets of axes whose residuals are known: all below a table."""
        return Lattice([block.axes for block in self.blocks], len(self.axes)).subsets

    @cached_property
    def places(self) -> dict[AxisSet, list[int]]:
        return {axes: [number] for number, axes in enumerate(self.component_sets)}

    def component_forms(self, number: int) -> dict[int, AxisForm]:
        return {a: self.forms[a][0] for a in self.component_sets[number]}

    @cached_property
    def _sources(self) -> dict[AxisSet, list[tuple[int, float]]]:
        """For every set r the tables that hold it, and 1/ν_{r,t} in units of σ^−2."""
        sources: dict[AxisSet, list[tuple[int, float]]] = {axes: [] for axes in self.component_sets}
        grown_by = [_grown(own[0]) if own else (1.0, 1.0) for own in self.forms]
        for number, block in enumerate(self.blocks):
            for count in range(len(block.axes) + 1):
                for axes in combinations(block.axes, count):
                    grown = math.prod(grown_by[a][a in axes] for a in block.axes)
                    sources[axes].append((number, float(block.multiplier) ** 2 / grown))
        return sources

    @property
    def component_variances(self) -> Array:
        unit = self.noise_variance
        return np.array(
            [unit / math.fsum(share for _, share in self._sources[axes]) for axes in self.component_sets]
        )

    def _known(self, measurements: Array) -> list[Array]:
        tables = super()._known(measurements)
        return [self._residual(axes, tables) for axes in self.component_sets]

    @property
    def n_components(self) -> int:
        return len(self.component_sets)

    def _stored_component(self, number: int, measurements: StoredIntegers) -> Array:
        axes = self.component_sets[number]
        tables = {
            source: super(WeightedTables, self)._stored_component(source, measurements)
            for source, _ in self._sources[axes]
        }
        return self._residual(axes, tables)

    def _noiseless_components(self, numbers: Sequence[int], tables: CountTables) -> Mapping[int, Array]:
        sets = [self.component_sets[number] for number in numbers]
        sources = sorted({source for axes in sets for source, _ in self._sources[axes]})
        known = super()._noiseless_components(sources, tables)
        return {number: self._residual(axes, known) for number, axes in zip(numbers, sets, strict=True)}

    def _residual(self, axes: AxisSet, tables: Components) -> Array:
        """The best estimate of a set's table, in the coordinates of its residuals, up to smaller sets."""
        sources = self._sources[axes]
        whole = math.fsum(share for _, share in sources)
        total: Array | None = None
        for number, share in sources:
            part = tables[number] * (share / whole)
            for position, a in reversed(list(enumerate(self.blocks[number].axes))):
                if a not in axes:
                    part = _totals(self.forms[a][0], part, position)
            total = part if total is None else total + part
        assert total is not None
        for position, a in enumerate(axes):
            if self.forms[a][0].rows is None:
                total = self.axes[a].size * total - total.sum(axis=position, keepdims=True)
        return np.asarray(total)

    @property
    def _tables(self) -> list[tuple[AxisSet, int]]:
        return [(block.axes, block.multiplier) for block in self.blocks]

    def _gain_norms(self, view: View, term: ProductTerm) -> tuple[Array, Array, Array]:
        """Bounds: what a table gets through several residuals is added up, and squares are known exactly."""
        kinds = dict(zip(term.places, term.kinds, strict=True))
        shape = (1,) * len(term.places)
        total, peak = np.zeros(shape), np.zeros(shape)
        for number, (table, weight) in enumerate(self._tables):
            of_table = np.zeros(shape)
            shared = [a for a in table if a in kinds]
            for axes in (s for count in range(len(shared) + 1) for s in combinations(shared, count)):
                sources = dict(self._sources[axes])
                share = sources[number] / math.fsum(sources.values())
                part = np.full(shape, share / weight)
                for a in term.places:
                    form = self.forms[a][0]
                    if a in axes:
                        # W G (n I − 11ᵀ) = W − mean, and G is that over n; for rows it is W G itself.
                        largest = view.gain_norms(a, form, kinds[a])[2]
                        unit = form.size if form.rows is None else 1
                        part = part * view.shaped(largest * unit, a, term)
                    else:
                        part = part * view.shaped(np.abs(view.centre(a, form, kinds[a])), a, term)
                for a in table:
                    if a not in axes and self.forms[a][0].rows is not None:
                        part = part * float(np.abs(self.forms[a][0].total_estimate).max())
                of_table = of_table + part
            total = total + of_table * math.prod(self.block_shapes[number])
            peak = np.maximum(peak, of_table)
        squares = view.term_variances(term) / self.noise_variance
        return total, squares, peak

    def _gains(self, view: View, term: ProductTerm, shown: tuple[int, ...]) -> Iterator[Array]:
        require_room(1, self.n_measured, "the noise of one answer")
        kinds = dict(zip(term.places, term.kinds, strict=True))
        step = max(1, 2**22 // self.n_measured)
        rows = math.prod(shown)
        for start in range(0, rows, step):
            n = min(step, rows - start)
            index = np.unravel_index(np.arange(start, start + n), shown) if shown else ()
            residual, centres = {}, {}
            for position, a in enumerate(term.places):
                W, form = view.rows(a, kinds[a], index[position]), self.forms[a][0]
                centres[a] = form.centre_of(W)
                residual[a] = W - centres[a][:, None] if form.rows is None else form.gain(W)
            parts = []
            for number, (table, weight) in enumerate(self._tables):
                parts.append(np.zeros((n, math.prod(self.block_shapes[number]))))
                shared = [a for a in table if a in kinds]
                for axes in (s for count in range(len(shared) + 1) for s in combinations(shared, count)):
                    sources = dict(self._sources[axes])
                    share = sources[number] / math.fsum(sources.values())
                    part = np.full((n, 1), share / weight)
                    for a in term.places:
                        if a not in axes:
                            part = part * centres[a][:, None]
                    for a in table:
                        along = residual[a] if a in axes else _total_rows(self.forms[a][0], n)
                        part = (part[:, :, None] * along[:, None, :]).reshape(n, -1)
                    parts[-1] += part
            yield np.concatenate(parts, axis=1)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        plain, arrays = super().to_parts()
        return {**plain, "kind": "tables"}, arrays
