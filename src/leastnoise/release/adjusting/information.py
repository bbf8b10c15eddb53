"""What the measurements say about the cells, as a quadratic form that is known by its products.

Noise of one variance ν on all measured integers y = A x + noise makes the distance of cells x to them

    ½ ‖A x − y‖²/ν = ½ hᵀG h + bᵀh + constant,    h = x − x̂,  G = AᵀA/ν,  b = Aᵀ(A x̂ − y)/ν                (1)

around the estimates x̂ of the release. Numbers of the size of the noise stand on the right, not counts, so
that nothing cancels, however many people there are. b is zero where x̂ is a least-squares estimate.

Every strategy multiplies with A and Aᵀ. One that holds A has G as a matrix; for blocks of products G is a sum
of products too, each over the cross table of a few axes (`strategy.structured.gram`).
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core.errors import TooLargeError
from leastnoise.core.operators import Array
from leastnoise.core.printable import in_figures
from leastnoise.core.remedies import OnRelease, Remedy
from leastnoise.planning import Plan
from leastnoise.query import Axis, Total, Workload, in_axis_order, in_schema_order, workload_of_query
from leastnoise.release.adjusting.reduced_sums import CellSums, MeasuredRows, ReducedSums, SumTerm
from leastnoise.strategy import MAX_DENSE_STRATEGY, KnownTotal, Measured, ProductGram

# A dozen vectors of all cells are held: with more cells than this, more than a gigabyte.
MAX_CELLS = 10**7

# Sums of cells stand in for the cells where there are at most this many of them: each step then factorises a
# matrix of that size, half a gigabyte.
_MAX_SUMS = 8_000

# And at most this share of the cells.
_MAX_SUMS_SHARE = 0.5

# A sum counts as not measured where its pivot, beside its size, is below this.
_MIN_PIVOT = 1e-6


class Information:
    """G of (1), and what a release knows about the number of records.

    Attributes:
        n_cells: n.
        products: G as a sum of products over cross tables, where it is one; else None.
    """

    def __init__(self, strategy: Measured, everyone: Workload) -> None:
        """Of a strategy, and the one query that counts all records."""
        self.n_cells = strategy.n_cells
        self._strategy, self._everyone = strategy, everyone
        rows = strategy.held_rows()
        self._rows = None if rows is None else rows / math.sqrt(strategy.noise_variance)
        self._gram = None if self._rows is None else self._rows.T @ self._rows
        self.products = strategy.product_gram()

    def times(self, h: Array) -> Array:
        """G h, (n,)."""
        if self._gram is not None:
            return np.asarray(self._gram @ h)
        if self.products is not None:
            return self.products.times(h)
        return self._strategy.adjoint(self._strategy.apply(h) / self._strategy.noise_variance)

    def estimates(self, measurements: Array) -> Array:
        """x̂, (n,): cells that explain the answers of a release; alike where nothing tells them apart."""
        return self._strategy.estimates(measurements)

    @property
    def are_of_least_squares(self) -> bool:
        """Whether the estimates are."""
        # Only blocks of the same axes are answered each by itself.
        return self.products is None or self._strategy.is_consistent

    def linear(self, estimates: Array, measurements: Array) -> Array:
        """b of (1), (n,)."""
        if self.are_of_least_squares:
            return np.zeros(self.n_cells)
        y = measurements.astype(float) / self._strategy.noise_variance
        return np.asarray(self.times(estimates) - self._strategy.adjoint(y))

    def total_row(self) -> KnownTotal | None:
        """What is known of the number of records: that itself wherever it is measured; None for nothing."""
        return self._strategy.known_total(self._everyone)

    def matrix(self) -> Array | None:
        """G as an (n, n) array, where it is held as one."""
        return self._gram

    def sums(self) -> CellSums | None:
        """The few sums that G knows; None where it knows most of the cells, or too many sums for a matrix."""
        tables = None if self.products is None else _sums_of_tables(self.products)
        if tables is not None:
            return tables
        m, n = self._strategy.n_measured, self.n_cells
        if m > min(_MAX_SUMS, _MAX_SUMS_SHARE * n):
            return None
        if self._rows is not None:
            return MeasuredRows(self._rows)
        if m * n > MAX_DENSE_STRATEGY:
            return None
        return MeasuredRows(self._strategy.dense().astype(float) / math.sqrt(self._strategy.noise_variance))


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


def _sums_of_tables(products: ProductGram) -> TableSums | None:
    """The cells of all cross tables that are measured, where they are few and measured well enough."""
    from scipy import linalg

    sets = sorted(set(products.covering.values()))
    most = min(_MAX_SUMS, _MAX_SUMS_SHARE * math.prod(products.shape))
    if max(math.prod(products.shape[a] for a in axes) for axes in sets) > most:
        return None
    terms = [
        SumTerm(
            term.weight,
            dict.fromkeys(term.axes)
            | {a: products.grams[form] for a, form in zip(term.held, term.forms, strict=True)},
        )
        for term in products.terms
    ]
    reduced = ReducedSums(products.shape, sets, terms)
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
    return TableSums(reduced, products.axes, inverse / np.outer(size, size))


def information_of(plan: Plan) -> Information:
    """What a plan's measurements say about its cells.

    Raises:
        MethodError: where the plan depends on the data.
        TooLargeError: where there are more cells than a vector of all of them may have.
    """
    strategy = plan.fixed_strategy()
    require_cells(strategy.n_cells)
    schema = plan.workload.schema
    if schema is None:
        return Information(strategy, Workload.from_matrix(np.ones((1, strategy.n_cells), dtype=np.int64)))
    return Information(strategy, workload_of_query(Total(), schema))


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
