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
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from leastnoise.core.errors import TooLargeError
from leastnoise.core.operators import AllOnes, Array
from leastnoise.core.printable import in_figures
from leastnoise.core.remedies import OnRelease, Remedy
from leastnoise.planning import Plan
from leastnoise.query import Axis, AxisSet, Schema, Total, in_axis_order, in_schema_order, workload_of_query
from leastnoise.release.adjusting.axis_tables import along, covering_sets, summed, table_of, widened, wider
from leastnoise.release.adjusting.reduced_sums import CellSums, MeasuredRows, ReducedSums, SumTerm
from leastnoise.strategy import (
    MAX_DENSE_STRATEGY,
    AxisForm,
    CombinedRows,
    JointRows,
    OverClasses,
    ProductBlock,
    Strategy,
    Structured,
)

# A dozen vectors of all cells are held: with more cells than this, more than a gigabyte.
MAX_CELLS = 10**7

# Sums of cells stand in for the cells where there are at most this many of them: each step then factorises a
# matrix of that size, half a gigabyte.
_MAX_SUMS = 8_000

# And at most this share of the cells.
_MAX_SUMS_SHARE = 0.5

# A sum counts as not measured where its pivot, beside its size, is below this.
_MIN_PIVOT = 1e-6


@dataclass(frozen=True, eq=False)
class TotalRow:
    """A row p > 0 of A's row space over the cells that are measured.

    Attributes:
        row: p, one number per cell; 1 where a cell is not measured.
        error: the standard error of p x.
        is_of_all: whether p counts every record once, those of all cells.
    """

    row: Array
    error: float
    is_of_all: bool


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
    def total_row(self) -> TotalRow | None:
        """What is known of the number of records: that itself wherever it is measured; None for nothing."""

    def matrix(self) -> Array | None:
        """G as an (n, n) array, where it is held as one."""
        return None

    def sums(self) -> CellSums | None:
        """The few sums that G knows; None where it knows most of the cells, or too many sums for a matrix."""
        return None


class TableSums(CellSums):
    """M and S of G = MᵀS M, for cells in schema order.

    Attributes:
        variances: S⁻¹, (k, k).
    """

    def __init__(self, reduced: ReducedSums, axes: tuple[Axis, ...], variances: Array) -> None:
        self._reduced, self._axes = reduced, axes
        self.variances = variances

    def apply(self, x: Array) -> Array:
        """M x, (k,)."""
        return self._reduced.apply(self._as_array(x))

    def spread(self, v: Array) -> Array:
        """Mᵀv, (n,)."""
        return in_schema_order(self._axes, self._reduced.spread(v).reshape(-1))

    def weighted_gram(self, theta: Array) -> Array:
        """M diag(θ) Mᵀ, (k, k)."""
        return self._reduced.weighted_gram(self._as_array(theta))

    def _as_array(self, values: Array) -> Array:
        return in_axis_order(self._axes, values).reshape(self._reduced.shape)


class DenseInformation(Information):
    """Of integer rows over all cells."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.n_cells = strategy.n_cells
        self._rows = strategy.entries.astype(float) / math.sqrt(strategy.noise_variance)
        self._gram = self._rows.T @ self._rows

    def times(self, h: Array) -> Array:
        return np.asarray(self._gram @ h)

    def estimates(self, measurements: Array) -> Array:
        return self._strategy.estimates(measurements)

    def linear(self, estimates: Array, measurements: Array) -> Array:
        # A⁺ is a least-squares inverse: the residual is orthogonal to every row.
        return np.zeros(self.n_cells)

    def total_row(self) -> TotalRow | None:
        strategy = self._strategy
        is_measured = strategy.entries.any(axis=0)
        everyone = AllOnes(self.n_cells)
        if strategy.can_answer(everyone):
            error = math.sqrt(float(strategy.variances(everyone)[0]))
            return TotalRow(np.ones(self.n_cells), error, is_of_all=True)
        # The part of the total that is known: A⁺A 1.
        gain = strategy.pseudo_inverse.sum(axis=0)
        known = strategy.adjoint(gain)
        # Zero up to rounding is no part of it.
        if not (known[is_measured] > 1e-9).all():
            return None
        error = math.sqrt(strategy.noise_variance) * float(np.linalg.norm(gain))
        # A cell that nobody measures may hold any number of records, even where the others are counted whole.
        return TotalRow(np.where(is_measured, known, 1.0), error, is_of_all=False)

    def matrix(self) -> Array:
        return self._gram

    def sums(self) -> CellSums | None:
        few = min(_MAX_SUMS, _MAX_SUMS_SHARE * self.n_cells)
        return MeasuredRows(self._rows) if len(self._rows) <= few else None


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
        self._covering = covering_sets([*(term.axes for term in self._terms), *map(tuple, blocks)])
        self._covariances: dict[AxisForm, Array] = {}
        self._grams = {form: _gram(form) for term in self._terms for form in term.forms}

    def _forms(self, block: ProductBlock) -> dict[int, AxisForm]:
        forms = self._strategy.block_forms(block)
        return {a: self._strategy.measured_form(form) for a, form in forms.items()}

    def times(self, h: Array) -> Array:
        every = tuple(range(len(self._shape)))
        tables = {every: in_axis_order(self._strategy.axes, h).reshape(self._shape)}
        spread: dict[AxisSet, Array] = {}
        for term in self._terms:
            largest = self._covering[term.axes]
            if largest not in spread:
                spread[largest] = np.zeros_like(table_of(largest, tables))
            own = summed(tables[largest], tuple(largest.index(a) for a in term.axes))
            for a, form in zip(term.held, term.forms, strict=True):
                own = along(self._grams[form], own, term.axes.index(a))
            spread[largest] += widened(term.weight * own, term.axes, largest)
        return self._over_cells(spread)

    def estimates(self, measurements: Array) -> Array:
        return self._strategy.estimates(measurements)

    @cached_property
    def is_spanned(self) -> bool:
        """Whether all residuals of a set of axes follow from one of its blocks, for every set measured."""
        return self._strategy.is_each_set_spanned

    def block_covariance(self, r: Array) -> Array:
        """P r, (n,): P is the sum over all blocks of the covariance of the cells as a block alone tells them.

        Each is (ν/k²) ⊗ G_aG_aᵀ over the axes that the block holds, ⊗ g_ag_aᵀ/(1ᵀg_a)² over all others.
        """
        strategy = self._strategy
        cells = in_axis_order(strategy.axes, r).reshape(self._shape)
        total = np.zeros(self._shape)
        for number, variance in enumerate(strategy.component_variances):
            inside = strategy.component_forms(number)
            own = cells
            shares = {}
            for a in reversed(range(len(self._shape))):
                if a not in inside:
                    shares[a] = self._share(a, tuple(inside))
                    own = np.tensordot(own, shares[a], axes=(a, 0))
            for position, form in enumerate(inside.values()):
                own = self._covariance_along(form, own, position)
            own = variance * widened(own, tuple(inside), tuple(range(len(self._shape))))
            for a, share in shares.items():
                own = own * share.reshape([-1 if i == a else 1 for i in range(len(self._shape))])
            total += own
        return in_schema_order(strategy.axes, total.reshape(-1))

    def _share(self, place: int, held: AxisSet) -> Array:
        """g/(1ᵀg) of an axis that a block adds up; alike for all values where nothing tells them apart."""
        strategy = self._strategy
        share = None
        if strategy.forms[place]:
            share = strategy.centre_form(place, tuple(a for a in held if a not in strategy.whole)).share
        return np.full(self._shape[place], 1 / self._shape[place]) if share is None else share

    def _covariance_along(self, form: AxisForm, table: Array, position: int) -> Array:
        """G_aG_aᵀ along one axis of a table."""
        if form.rows is None:
            # I, or (I − 11ᵀ/n)/n², which is its own transpose.
            return form.apply_inverse(form.apply_inverse(table, position), position)
        if form not in self._covariances:
            self._covariances[form] = form.inverse @ form.inverse.T
        return along(self._covariances[form], table, position)

    def linear(self, estimates: Array, measurements: Array) -> Array:
        if self._strategy.is_consistent:
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
                    y = along(form.rows.T.astype(float), y, position)
                elif form.kind == "centred":
                    y = form.size * y - y.sum(axis=position, keepdims=True)
            axes = tuple(forms)
            largest = self._covering[axes]
            part = widened(float(block.multiplier) / self._strategy.noise_variance * y, axes, largest)
            shape_of_largest = [self._shape[a] for a in largest]
            spread[largest] = spread.get(largest, np.zeros(shape_of_largest)) + part
        return np.asarray(self.times(estimates) - self._over_cells(spread))

    def _over_cells(self, spread: dict[AxisSet, Array]) -> Array:
        """Tables of some axes, each the same along the others, added up over all cells, in schema order."""
        every = tuple(range(len(self._shape)))
        # Small tables are added to the table that they were added up from, so that few run over all cells.
        waiting = dict(spread)
        while len(waiting) > 1 or every not in waiting:
            axes = min(waiting, key=lambda s: (len(s), s))
            wide = wider(axes, len(every))
            table = widened(waiting.pop(axes), axes, wide)
            if wide in waiting:
                waiting[wide] = waiting[wide] + table
            else:
                waiting[wide] = np.broadcast_to(table, [self._shape[a] for a in wide])
        return in_schema_order(self._strategy.axes, waiting[every].reshape(-1))

    def total_row(self) -> TotalRow | None:
        return _total_row(self._strategy, self._schema)

    def sums(self) -> CellSums | None:
        tables = self._sums_of_tables()
        return _measured_rows(self._strategy) if tables is None else tables

    def _sums_of_tables(self) -> TableSums | None:
        from scipy import linalg

        sets = sorted(set(self._covering.values()))
        most = min(_MAX_SUMS, _MAX_SUMS_SHARE * self.n_cells)
        if max(math.prod(self._shape[a] for a in axes) for axes in sets) > most:
            return None
        terms = [SumTerm(term.weight, dict.fromkeys(term.axes) | self._held(term)) for term in self._terms]
        reduced = ReducedSums(self._shape, sets, terms)
        if reduced.n_sums > most:
            return None
        S = reduced.information()
        # Rows and columns of one size, so that the condition is that of what is measured.
        size = np.sqrt(np.maximum(np.diag(S), 0.0))
        if not (size > 0).all():
            return None
        try:
            factor = linalg.cho_factor(S / np.outer(size, size))
        except linalg.LinAlgError:
            return None
        # Some of the sums are measured too weakly, or not at all.
        if np.diag(factor[0]).min() < _MIN_PIVOT:
            return None
        inverse = linalg.cho_solve(factor, np.eye(len(S)))
        return TableSums(reduced, self._strategy.axes, inverse / np.outer(size, size))

    def _held(self, term: _Term) -> dict[int, Array | None]:
        return {a: self._grams[form] for a, form in zip(term.held, term.forms, strict=True)}


class JointInformation(Information):
    """Of products of rows over the axes, each with a multiplier of its own."""

    def __init__(self, strategy: JointRows, schema: Schema) -> None:
        self._strategy, self._schema = strategy, schema
        self.n_cells = strategy.n_cells

    def times(self, h: Array) -> Array:
        axes = self._strategy.axes
        return in_schema_order(axes, self._strategy.information_times(in_axis_order(axes, h)))

    def estimates(self, measurements: Array) -> Array:
        return self._strategy.estimates(measurements)

    def linear(self, estimates: Array, measurements: Array) -> Array:
        # The rows are independent, so that the estimates explain every measured integer.
        return np.zeros(self.n_cells)

    def total_row(self) -> TotalRow | None:
        return _total_row(self._strategy, self._schema)

    def sums(self) -> CellSums | None:
        return _measured_rows(self._strategy)


def _total_row(strategy: Structured | JointRows, schema: Schema) -> TotalRow | None:
    everyone = workload_of_query(Total(), schema)
    if not strategy.can_answer_all(everyone):
        return None
    error = math.sqrt(float(strategy.variances_of(everyone)[0]))
    return TotalRow(np.ones(strategy.n_cells), error, is_of_all=True)


def _measured_rows(strategy: Structured | JointRows) -> MeasuredRows | None:
    """The rows themselves, where they are few although they do not tell whole tables."""
    m, n = strategy.n_measured, strategy.n_cells
    if m > min(_MAX_SUMS, _MAX_SUMS_SHARE * n) or m * n > MAX_DENSE_STRATEGY:
        return None
    return MeasuredRows(strategy.dense().astype(float) / math.sqrt(strategy.noise_variance))


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
    if isinstance(strategy, JointRows):
        assert plan.workload.schema is not None
        return JointInformation(strategy, plan.workload.schema)
    if isinstance(strategy, CombinedRows | OverClasses):
        raise TooLargeError(
            f"the plan measures combinations of {strategy.n_measured:,} queries over "
            f"{strategy.n_cells:,} cells, too many for rows over all of them, from which answers "
            "that fit together are made. The answers as released come from one measurement, and "
            "agree already",
            field="release",
            given=strategy.n_cells,
        )
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
            f"of all of them, of at most {MAX_CELLS:,}. ",
            Remedy(
                "Design plans over fewer attributes, or take ",
                OnRelease("to_mbi()"),
                " to fit a synthetic table, whose counts are whole numbers that add up",
            ),
            field="release",
            given=n_cells,
        )


def _gram(form: AxisForm) -> Array:
    assert form.rows is not None
    M = form.rows.astype(float)
    return np.asarray(M.T @ M)
