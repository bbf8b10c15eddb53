"""What the measurements say about the cells, as a quadratic form that is known by its products.

Noise of one variance ν on all measured integers y = A x + noise makes the distance of cells x to them

    ½ ‖A x − y‖²/ν = ½ hᵀG h + bᵀh + constant,    h = x − x̂,  G = AᵀA/ν,  b = Aᵀ(A x̂ − y)/ν                (1)

around the estimates x̂ of the release. Numbers of the size of the noise stand on the right, not counts, so
that nothing cancels, however many people there are. b is zero where x̂ is a least-squares estimate.

For blocks of products G is a sum of products too, each over the cross table of a few axes:

    G = Σ_s (k_s²/ν) ⊗_{a in s} M_aᵀM_a ⊗_{a not in s} 11ᵀ                                                (2)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from leastnoise.errors import TooLargeError
from leastnoise.lattice import AxisSet
from leastnoise.operators import AllOnes, Array
from leastnoise.plan import Plan
from leastnoise.printable import in_figures
from leastnoise.products import Axis, in_schema_order
from leastnoise.queries import Marginal, Total
from leastnoise.schema import Schema
from leastnoise.strategy import Strategy
from leastnoise.structured.answers import Block
from leastnoise.structured.axis_form import AxisForm, identity_form
from leastnoise.structured.blocks import Structured
from leastnoise.structured.tables import Tables
from leastnoise.workload import alone

# A dozen vectors of all cells are held: with more cells than this, more than a gigabyte.
MAX_CELLS = 10**7


class Information(ABC):
    """G of (1), and what a release knows about the number of records.

    Attributes:
        n_cells: n.
    """

    n_cells: int

    @abstractmethod
    def times(self, h: Array) -> Array:
        """G h, (n,)."""

    @abstractmethod
    def estimates(self, measurements: Array) -> Array:
        """x̂, (n,): cells that explain the answers of a release; alike where nothing tells them apart."""

    @abstractmethod
    def linear(self, estimates: Array, measurements: Array) -> Array:
        """b of (1), (n,)."""

    @abstractmethod
    def counting(self) -> tuple[Array, float] | None:
        """A row p > 0 of A's row space over the cells that are measured, and the standard error of p x.

        The number of records itself, p = 1, wherever it is measured. None where there is no such row.
        """

    def matrix(self) -> Array | None:
        """G as an (n, n) array, where it is held as one."""
        return None


class DenseInformation(Information):
    """Of integer rows over all cells."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.n_cells = strategy.n_cells
        A = strategy.entries.astype(float) / math.sqrt(strategy.noise_variance)
        self._gram = A.T @ A

    def times(self, h: Array) -> Array:
        return np.asarray(self._gram @ h)

    def estimates(self, measurements: Array) -> Array:
        return self._strategy.estimates(measurements)

    def linear(self, estimates: Array, measurements: Array) -> Array:
        # A⁺ is a least-squares inverse: the residual is orthogonal to every row.
        return np.zeros(self.n_cells)

    def counting(self) -> tuple[Array, float] | None:
        strategy = self._strategy
        is_measured = strategy.entries.any(axis=0)
        everyone = AllOnes(self.n_cells)
        if strategy.can_answer(everyone):
            return np.ones(self.n_cells), math.sqrt(float(strategy.variances(everyone)[0]))
        # The part of the total that is known: A⁺A 1.
        gain = strategy.pseudo_inverse.sum(axis=0)
        known = strategy.adjoint(gain)
        # Zero up to rounding is no part of it.
        if not (known[is_measured] > 1e-9).all():
            return None
        error = math.sqrt(strategy.noise_variance) * float(np.linalg.norm(gain))
        return np.where(is_measured, known, 1.0), error

    def matrix(self) -> Array:
        return self._gram


class BlockInformation(Information):
    """Of blocks of products, each visited through the cross table of its own axes."""

    def __init__(self, strategy: Structured, schema: Schema) -> None:
        self._strategy = strategy
        self._schema = schema
        self.n_cells = strategy.n_cells
        self._shape = tuple(axis.size for axis in strategy.axes)
        blocks = [self._forms(block) for block in strategy.blocks]
        weights = [float(block.multiplier) ** 2 / strategy.noise_variance for block in strategy.blocks]
        self._terms = _terms(blocks, weights)
        self._covering = _covering([*(term.axes for term in self._terms), *map(tuple, blocks)])
        self._grams = {id(form): _gram(form) for term in self._terms for form in term.forms}

    def _forms(self, block: Block) -> dict[int, AxisForm]:
        forms = self._strategy.block_forms(block)
        if isinstance(self._strategy, Tables):
            return {a: identity_form(form.size) for a, form in forms.items()}
        return forms

    def times(self, h: Array) -> Array:
        cells = _in_axis_order(self._strategy.axes, h).reshape(self._shape)
        tables: dict[AxisSet, Array] = {}
        spread: dict[AxisSet, Array] = {}
        for term in self._terms:
            largest = self._covering[term.axes]
            if largest not in tables:
                tables[largest] = _summed(cells, largest)
                spread[largest] = np.zeros_like(tables[largest])
            own = _summed(tables[largest], tuple(largest.index(a) for a in term.axes))
            for a, form in zip(term.held, term.forms, strict=True):
                own = _along(self._grams[id(form)], own, term.axes.index(a))
            spread[largest] += _widened(term.weight * own, term.axes, largest)
        return self._over_cells(spread)

    def estimates(self, measurements: Array) -> Array:
        strategy, schema = self._strategy, self._schema
        axes = zip(strategy.axes, strategy.forms, strict=True)
        known = {name for axis, own in axes if own for name in axis.names}
        asked = Marginal(*(name for name in schema if name in known)) if known else Total()
        table = strategy.answers_of(alone(asked, schema), measurements)
        # What nobody asked about is spread evenly. Attributes with one value are no axis of the array.
        varied = [name for name in schema if schema[name].size > 1]
        shape = [schema[name].size for name in varied]
        table = table.reshape([schema[name].size if name in known else 1 for name in varied])
        return np.broadcast_to(table / (self.n_cells // table.size), shape).reshape(-1)

    def linear(self, estimates: Array, measurements: Array) -> Array:
        # Where an axis is measured in one way only, the answers are those of least squares.
        if self._strategy.is_simple:
            return np.zeros(self.n_cells)
        spread: dict[AxisSet, Array] = {}
        start = 0
        for block, shape in zip(self._strategy.blocks, self._strategy.block_shapes, strict=True):
            forms = self._forms(block)
            size = math.prod(shape)
            y = measurements[start : start + size].astype(float).reshape(shape)
            start += size
            for position, form in enumerate(forms.values()):
                if form.rows is not None:
                    y = _along(form.rows.T.astype(float), y, position)
                elif form.kind == "centred":
                    y = form.size * y - y.sum(axis=position, keepdims=True)
            axes = tuple(forms)
            largest = self._covering[axes]
            part = _widened(float(block.multiplier) / self._strategy.noise_variance * y, axes, largest)
            shape_of_largest = [self._shape[a] for a in largest]
            spread[largest] = spread.get(largest, np.zeros(shape_of_largest)) + part
        return np.asarray(self.times(estimates) - self._over_cells(spread))

    def _over_cells(self, spread: dict[AxisSet, Array]) -> Array:
        """Tables of some axes, each the same along the others, added up over all cells, in schema order."""
        every = tuple(range(len(self._shape)))
        total = np.zeros(self._shape)
        for axes, table in spread.items():
            total += _widened(table, axes, every)
        return in_schema_order(self._strategy.axes, total.reshape(-1))

    def counting(self) -> tuple[Array, float] | None:
        everyone = alone(Total(), self._schema)
        if not self._strategy.can_answer_all(everyone):
            return None
        return np.ones(self.n_cells), math.sqrt(float(self._strategy.variances_of(everyone)[0]))


class _Term(NamedTuple):
    """One product of G: weight ⊗ MᵀM over the axes held, ⊗ I over the other axes, ⊗ 11ᵀ elsewhere."""

    axes: AxisSet
    held: AxisSet
    forms: tuple[AxisForm, ...]
    weight: float


def _terms(blocks: Sequence[dict[int, AxisForm]], weights: Sequence[float]) -> list[_Term]:
    """(2) with (n I − 11ᵀ)² = n² I − n 11ᵀ multiplied out: few products, and most of small tables."""
    total: dict[tuple[AxisSet, tuple[tuple[int, AxisForm], ...]], float] = {}
    for forms, weight in zip(blocks, weights, strict=True):
        centred = [a for a, form in forms.items() if form.kind == "centred"]
        held = {a: form for a, form in forms.items() if form.rows is not None}
        for count in range(len(centred) + 1):
            for added_up in combinations(centred, count):
                axes = tuple(a for a in forms if a not in added_up)
                part = weight * math.prod(
                    -forms[a].size if a in added_up else forms[a].size ** 2 for a in centred
                )
                key = (axes, tuple(held.items()))
                total[key] = total.get(key, 0.0) + part
    return [
        _Term(axes, tuple(a for a, _ in held), tuple(form for _, form in held), weight)
        for (axes, held), weight in total.items()
    ]


def information_of(plan: Plan) -> Information:
    """What a plan's measurements say about its cells.

    Raises:
        MethodError: where the plan depends on the data.
        TooLargeError: where there are more cells than a vector of all of them may have.
    """
    strategy = plan.fixed_strategy()
    require_cells(strategy.n_cells)
    if isinstance(strategy, Structured):
        assert plan.workload.schema is not None
        return BlockInformation(strategy, plan.workload.schema)
    assert isinstance(strategy, Strategy)
    return DenseInformation(strategy)


def require_cells(n_cells: int) -> None:
    """Return if all cells may be held as a vector.

    Raises:
        TooLargeError: saying what else can be done.
    """
    if n_cells > MAX_CELLS:
        raise TooLargeError(
            f"there are {in_figures(n_cells)} cells, and answers that fit together are made from one vector "
            f"of all of them, of at most {MAX_CELLS:,}. Design plans over fewer attributes, or take "
            "release.to_mbi() to fit a synthetic table, whose counts are whole numbers that add up"
        )


def _gram(form: AxisForm) -> Array:
    assert form.rows is not None
    M = form.rows.astype(float)
    return np.asarray(M.T @ M)


def _along(matrix: Array, table: Array, position: int) -> Array:
    """A matrix applied along one axis of a table."""
    return np.moveaxis(np.tensordot(matrix, table, axes=(1, position)), 0, position)


def _summed(table: Array, kept: tuple[int, ...]) -> Array:
    """A table added up over all axes but some."""
    left_out = tuple(a for a in range(table.ndim) if a not in kept)
    return np.asarray(table.sum(axis=left_out)) if left_out else table


def _widened(table: Array, axes: tuple[int, ...], wide: tuple[int, ...]) -> Array:
    """A table over some axes as one over more, of length 1 along the others."""
    sizes = dict(zip(axes, table.shape, strict=True))
    return table.reshape([sizes.get(a, 1) for a in wide])


def _covering(sets: list[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For every set of axes one that holds it and is part of no other."""
    largest: list[tuple[int, ...]] = []
    found = {}
    for axes in sorted(set(sets), key=lambda s: (-len(s), s)):
        holder = next((other for other in largest if set(axes) <= set(other)), None)
        if holder is None:
            largest.append(axes)
        found[axes] = axes if holder is None else holder
    return found


def _in_axis_order(axes: tuple[Axis, ...], values: Array) -> Array:
    """Numbers of all cells in the order of the schema, in the order of the axes: undoes `in_schema_order`."""
    places = [place for axis in axes for place in axis.places]
    if places == sorted(places):
        return values
    sizes = [size for axis in axes for size in axis.sizes]
    of_schema = [sizes[i] for i in np.argsort(places)]
    order = np.argsort(np.argsort(places)).tolist()
    return values.reshape(of_schema).transpose(order).reshape(-1)
