"""Cross tables measured as they are, each with a weight of its own.

A record is counted once in every table, so tables of the attribute sets t with integer weights θ_t have the
sensitivities Δ₁ = Σ θ_t and Δ² = Σ θ_t², whatever the number of cells: with Laplace noise this is far less
than what residuals cost. What the tables say about the residuals of a set r, each through the sums over
t∖r, is averaged with the weights that leave least variance:

    ν_{r,t} = (σ²/θ_t²) Π_{a in t∖r} n_a Π_{a in r} n_a² ,     1/ν_r = Σ_{t ⊇ r} 1/ν_{r,t}               (1)

White noise on tables stays uncorrelated between residuals, so everything else is as in `structured`, with
ν_r for the variance of component r in the coordinates ⊗ (n_a I − 11ᵀ).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array, require_room
from leastnoise.query import AxisSet, Lattice, ProductTerm
from leastnoise.strategy.measured import CountTables
from leastnoise.strategy.structured.axis_form import AxisForm
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.integer_blocks import Columns
from leastnoise.strategy.structured.reconstruction import Components
from leastnoise.strategy.structured.view import View


@dataclass(frozen=True)
class _UnitColumns:
    """The columns of the identity: a single one in each."""

    size: int

    def costs(self, power: int) -> list[int]:
        return [1] * self.size

    def largest_cost(self, power: int) -> int:
        return 1

    @property
    def is_alike(self) -> bool:
        return True

    def inner_products(self) -> tuple[int, int]:
        return (0, 1)


class WeightedTables(Structured):
    """Weighted cross tables with one scale of noise. Every axis that is measured is centred."""

    def _check(self) -> None:
        super()._check()
        if not self.is_simple or any(form.kind != "centred" for own in self.forms for form in own):
            raise DesignError("weighted tables hold plain counts of every axis", field="strategy")

    # Privacy: a record has one count in every table ------------------------------------------------------

    @property
    def _columns(self) -> Sequence[Sequence[Columns]]:
        return [[_UnitColumns(form.size) for form in own] for own in self.forms]

    def _entries(self, form: AxisForm) -> Array:
        return np.eye(form.size, dtype=object)

    def _block_answers(self, table: Array, forms: Sequence[AxisForm]) -> Array:
        return table.astype(object)

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
        sizes = [axis.size for axis in self.axes]
        for number, block in enumerate(self.blocks):
            of_table = math.prod(sizes[a] for a in block.axes)
            for count in range(len(block.axes) + 1):
                for axes in combinations(block.axes, count):
                    grown = of_table * math.prod(sizes[a] for a in axes)
                    sources[axes].append((number, float(block.multiplier) ** 2 / grown))
        return sources

    @property
    def component_variances(self) -> Array:
        unit = self.noise_variance
        return np.array(
            [unit / math.fsum(share for _, share in self._sources[axes]) for axes in self.component_sets]
        )

    def _components(self, y: Array) -> list[Array]:
        tables = super()._components(y)
        return [self._residual(axes, tables) for axes in self.component_sets]

    def _noiseless_components(self, numbers: Sequence[int], tables: CountTables) -> Mapping[int, Array]:
        sets = [self.component_sets[number] for number in numbers]
        sources = sorted({source for axes in sets for source, _ in self._sources[axes]})
        known = super()._noiseless_components(sources, tables)
        return {number: self._residual(axes, known) for number, axes in zip(numbers, sets, strict=True)}

    def _residual(self, axes: AxisSet, tables: Components) -> Array:
        """⊗ (n_a I − 11ᵀ) applied to the best estimate of a set's table, up to smaller sets."""
        sources = self._sources[axes]
        whole = math.fsum(share for _, share in sources)
        total: Array | None = None
        for number, share in sources:
            left_out = tuple(i for i, a in enumerate(self.blocks[number].axes) if a not in axes)
            part = tables[number].sum(axis=left_out) * (share / whole)
            total = part if total is None else total + part
        assert total is not None
        for position, a in enumerate(axes):
            total = self.axes[a].size * total - total.sum(axis=position, keepdims=True)
        return np.asarray(total)

    def _gain_norms(self, view: View, term: ProductTerm) -> tuple[Array, Array, Array]:
        """Bounds: what a table gets through several residuals is added up, and squares are known exactly."""
        kinds = dict(zip(term.places, term.kinds, strict=True))
        shape = (1,) * len(term.places)
        total, peak = np.zeros(shape), np.zeros(shape)
        for number, (table, _, weight, _) in enumerate(self.blocks):
            of_table = np.zeros(shape)
            shared = [a for a in table if a in kinds]
            for axes in (s for count in range(len(shared) + 1) for s in combinations(shared, count)):
                sources = dict(self._sources[axes])
                share = sources[number] / math.fsum(sources.values())
                part = np.full(shape, share / weight)
                for a in term.places:
                    form = self.forms[a][0]
                    if a in axes:
                        # W G (n I − 11ᵀ) = W − mean, and G is that over n.
                        largest = view.gain_norms(a, form, kinds[a])[2]
                        part = part * view.shaped(largest * form.size, a, term)
                    else:
                        part = part * view.shaped(np.abs(view.centre(a, form, kinds[a])), a, term)
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
            centred, centres = {}, {}
            for position, a in enumerate(term.places):
                W = view.rows(a, kinds[a], index[position])
                centres[a] = W.mean(axis=1)
                centred[a] = W - centres[a][:, None]
            parts = []
            for number, (table, _, weight, _) in enumerate(self.blocks):
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
                        along = centred[a] if a in axes else np.ones((n, self.axes[a].size))
                        part = (part[:, :, None] * along[:, None, :]).reshape(n, -1)
                    parts[-1] += part
            yield np.concatenate(parts, axis=1)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        plain, arrays = super().to_parts()
        return {**plain, "kind": "tables"}, arrays
