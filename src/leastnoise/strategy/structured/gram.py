"""What blocks of products say about all cells: AᵀA as a sum of products over cross tables.

With noise of one variance ν on all measured integers, blocks k_s ⊗ M_a ⊗ 1ᵀ tell the cells with the precision

    G = AᵀA/ν = Σ_s (k_s²/ν) ⊗_{a in s} M_aᵀM_a ⊗_{a not in s} 11ᵀ ,                                       (1)

which is multiplied with a vector through the cross table of each block's own axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.query import Axis, AxisSet, in_axis_order, in_schema_order
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.structured.axis_tables import (
    along,
    covering_sets,
    summed,
    table_of,
    widened,
    wider,
)


class GramTerm(NamedTuple):
    """One product of G: weight ⊗ MᵀM over the axes held, ⊗ I over the other axes, ⊗ 11ᵀ elsewhere."""

    axes: AxisSet
    held: AxisSet
    forms: tuple[AxisForm, ...]
    weight: float


class BlockOfAxes(NamedTuple):
    """One block: what is measured of each of its axes, rising, and the multiplier.

    Attributes:
        multiplier: one, or one for every product of rows, of which those of zero are not measured.
    """

    forms: Mapping[int, AxisForm]
    multiplier: float | Array


@dataclass(frozen=True, eq=False)
class ComponentCovariance:
    """What one component alone tells: (variance) ⊗ GGᵀ over some axes, ⊗ ss̅ᵀ with shares s elsewhere.

    Attributes:
        inside: the axes whose residuals or counts it holds, and their forms.
        shares: of every other axis, how what is added up is shared among its values.
    """

    variance: float
    inside: Mapping[int, AxisForm]
    shares: Mapping[int, Array]


class ProductGram:
    """G of (1), for cells in schema order.

    Args:
        blocks: everything that is measured.
        components: what is known after the blocks were taken apart, each beside the others.
        is_spanned: tells whether every set's residuals follow from one block.
    """

    def __init__(
        self,
        axes: tuple[Axis, ...],
        blocks: Sequence[BlockOfAxes],
        noise_variance: float,
        components: Sequence[ComponentCovariance],
        *,
        is_spanned: Callable[[], bool],
    ) -> None:
        self.axes = axes
        self.shape = tuple(axis.size for axis in axes)
        self._is_spanned = is_spanned
        self._components = components
        self.terms = _terms(blocks, noise_variance)
        self.covering = covering_sets([term.axes for term in self.terms])
        self._covariances: dict[AxisForm, Array] = {}

    @property
    def is_spanned(self) -> bool:
        """Whether all residuals of a set of axes follow from one of its blocks, for every set measured."""
        return self._is_spanned()

    @cached_property
    def grams(self) -> dict[AxisForm, Array]:
        """MᵀM of every matrix that is held."""
        return {form: _gram(form) for term in self.terms for form in term.forms}

    def times(self, h: Array) -> Array:
        """G h, (n,)."""
        every = tuple(range(len(self.shape)))
        tables = {every: in_axis_order(self.axes, h).reshape(self.shape)}
        spread: dict[AxisSet, Array] = {}
        for term in self.terms:
            largest = self.covering[term.axes]
            if largest not in spread:
                spread[largest] = np.zeros_like(table_of(largest, tables))
            own = summed(tables[largest], tuple(largest.index(a) for a in term.axes))
            for a, form in zip(term.held, term.forms, strict=True):
                own = along(self.grams[form], own, term.axes.index(a))
            spread[largest] += widened(term.weight * own, term.axes, largest)
        return over_cells(self.axes, spread)

    def covariance_times(self, r: Array) -> Array:
        """P r, (n,): P is the sum over all components of the covariance of the cells as it alone tells them.

        Each is (ν/k²) ⊗ G_aG_aᵀ over the axes that a block holds, ⊗ g_ag_aᵀ/(1ᵀg_a)² over all others.
        """
        every = tuple(range(len(self.shape)))
        cells = in_axis_order(self.axes, r).reshape(self.shape)
        total = np.zeros(self.shape)
        for component in self._components:
            own = cells
            for a in reversed(every):
                if a in component.shares:
                    own = np.tensordot(own, component.shares[a], axes=(a, 0))
            for position, form in enumerate(component.inside.values()):
                own = self._covariance_along(form, own, position)
            own = component.variance * widened(own, tuple(component.inside), every)
            for a, share in component.shares.items():
                own = own * share.reshape([-1 if i == a else 1 for i in every])
            total += own
        return in_schema_order(self.axes, total.reshape(-1))

    def _covariance_along(self, form: AxisForm, table: Array, position: int) -> Array:
        """G_aG_aᵀ along one axis of a table."""
        if form.rows is None:
            # I, or (I − 11ᵀ/n)/n², which is its own transpose.
            return form.apply_inverse(form.apply_inverse(table, position), position)
        if form not in self._covariances:
            self._covariances[form] = form.inverse @ form.inverse.T
        return along(self._covariances[form], table, position)


def applied(axes: Sequence[Axis], blocks: Sequence[BlockOfAxes], x: Array) -> Array:
    """A x in floats, block by block, for numbers of all cells."""
    every = tuple(range(len(axes)))
    tables = {every: in_axis_order(axes, x).reshape([axis.size for axis in axes])}
    covering = covering_sets([tuple(block.forms) for block in blocks])
    parts = []
    for block in blocks:
        largest = covering[tuple(block.forms)]
        own = summed(table_of(largest, tables), tuple(largest.index(a) for a in block.forms))
        for position, form in enumerate(block.forms.values()):
            if form.rows is not None:
                own = along(form.rows.astype(float), own, position)
            elif form.kind == "centred":
                own = form.size * own - own.sum(axis=position, keepdims=True)
        own = (block.multiplier * own).reshape(-1)
        parts.append(own if isinstance(block.multiplier, float) else own[_measured(block.multiplier)])
    return np.concatenate(parts)


def adjoint_applied(axes: Sequence[Axis], blocks: Sequence[BlockOfAxes], y: Array) -> Array:
    """Aᵀ y in floats, (n,), for numbers of all measured integers."""
    covering = covering_sets([tuple(block.forms) for block in blocks])
    spread: dict[AxisSet, Array] = {}
    start = 0
    for block in blocks:
        shape, k = tuple(form.n_rows for form in block.forms.values()), block.multiplier
        measured = np.arange(math.prod(shape)) if isinstance(k, float) else _measured(k)
        own = np.zeros(math.prod(shape))
        own[measured] = y[start : start + len(measured)]
        start += len(measured)
        own = k * own.reshape(shape)
        for position, form in enumerate(block.forms.values()):
            if form.rows is not None:
                own = along(form.rows.T.astype(float), own, position)
            elif form.kind == "centred":
                own = form.size * own - own.sum(axis=position, keepdims=True)
        names = tuple(block.forms)
        largest = covering[names]
        part = widened(own, names, largest)
        sizes = [axes[a].size for a in largest]
        spread[largest] = spread.get(largest, np.zeros(sizes)) + part
    return over_cells(axes, spread)


def _measured(multipliers: Array) -> Array:
    return np.flatnonzero(multipliers.reshape(-1))


def over_cells(axes: Sequence[Axis], spread: dict[AxisSet, Array]) -> Array:
    """Tables of some axes, each the same along the others, added up over all cells, in schema order."""
    every = tuple(range(len(axes)))
    # Small tables are added to the table that they were added up from, so that few run over all cells.
    waiting = dict(spread)
    while len(waiting) > 1 or every not in waiting:
        small = min(waiting, key=lambda s: (len(s), s))
        wide = wider(small, len(every))
        table = widened(waiting.pop(small), small, wide)
        if wide in waiting:
            waiting[wide] = waiting[wide] + table
        else:
            waiting[wide] = np.broadcast_to(table, [axes[a].size for a in wide])
    return in_schema_order(axes, waiting[every].reshape(-1))


def _terms(blocks: Sequence[BlockOfAxes], noise_variance: float) -> list[GramTerm]:
    """(1) with (n I − 11ᵀ)² = n² I − n 11ᵀ multiplied out: few products, and most of small tables."""
    total: dict[tuple[AxisSet, tuple[tuple[int, AxisForm], ...]], float] = {}
    for forms, multiplier in blocks:
        centred = [a for a, form in forms.items() if form.kind == "centred"]
        held = {a: form for a, form in forms.items() if form.rows is not None}
        assert isinstance(multiplier, float), "products of one multiplier each"
        weight = multiplier**2 / noise_variance
        for count in range(len(centred) + 1):
            for added_up in combinations(centred, count):
                axes = tuple(a for a in forms if a not in added_up)
                part = weight * math.prod(
                    -forms[a].size if a in added_up else forms[a].size ** 2 for a in centred
                )
                key = (axes, tuple(held.items()))
                total[key] = total.get(key, 0.0) + part
    return [
        GramTerm(axes, tuple(a for a, _ in held), tuple(form for _, form in held), weight)
        for (axes, held), weight in total.items()
    ]


def _gram(form: AxisForm) -> Array:
    assert form.rows is not None
    M = form.rows.astype(float)
    return np.asarray(M.T @ M)
