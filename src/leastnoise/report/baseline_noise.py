"""The cost of simple baselines: the same noise on every count, or on every cell.

Under the same privacy goal and without any shaping, noise on the m counts as they
are asked has one standard error for all, set by the person who appears in most of
them; noise on the n cells adds up in every count that sums many cells.

    every count   stderr_j = s · Δ(W)            (largest column norm)
    every cell    stderr_j = s · Δ(I) · ‖w_j‖₂   (w_j: row j of W; Δ(I) = 1)

with s = 1/μ and L2 norms for Gaussian noise, s = √2/ε and L1 for Laplace. Where a
record is replaced by another, Δ(W) is the largest norm of a column or of a difference
of two, and Δ(I) is √2 in L2 and 2 in L1, or 1 for a single cell.

For a union of products nothing of the size of the domain is built. A row is a product
of rows of its axes, and so is its norm. A cell's column has the norm

    Σ_t Π_{a in t} c_{a,k}(i_a)     (L1, or squared L2; c: column norms of the kind k that t asks of a)

whose largest value is known where each axis has a value that is the largest for all
its kinds. Other axes are gone through value by value as long as there are few such
cells; beyond, each kind takes its own largest, which is an upper bound, and is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.core.errors import TooLargeError
from leastnoise.core.operators import Array, Identity, Operator
from leastnoise.planning import Plan
from leastnoise.privacy import Goal
from leastnoise.query import MEAN_ABSOLUTE, Objective, Products, ProductTerm, Workload, products_of

# Cells whose columns are added up one by one, times products per cell; beyond, a bound is used.
_MAX_VISITED = 2**24

# Cells up to which the differences of all pairs of columns are computed; beyond, a bound is used.
_MAX_PAIRED_CELLS = 4_096


@dataclass(frozen=True)
class BaselineNoise:
    """Accuracy of noise that is the same everywhere.

    Attributes:
        rms: the root mean square of the standard errors of every batch of queries.
        value: what the plan's objective makes of it: the total or the largest variance, the total absolute
            error, or the largest share of a cap.
        is_bound: whether it may cost less than this, as its sensitivity is known from above only.
    """

    rms: tuple[float, ...]
    value: float
    is_bound: bool = False


@dataclass(frozen=True)
class Baselines:
    """What noise on every count, and on every cell, would have cost."""

    per_count: BaselineNoise
    per_cell: BaselineNoise


def baselines(plan: Plan) -> Baselines:
    """What noise on every count, or on every cell, would have cost under the plan's goal."""
    return baselines_of(plan.workload, plan.privacy, plan.objective)


def baselines_of(workload: Workload, privacy: Goal, objective: Objective) -> Baselines:
    """The same without a plan, for a workload, a goal and what is to be small."""
    budget, order = privacy.column_budget, privacy.noise.power
    unit = math.sqrt(2) / float(budget) if privacy.noise.is_pure else 1 / math.sqrt(budget)
    is_replaced = privacy.relation.replaces
    per_count, is_bound = _sensitivity(workload, order, is_replaced=is_replaced)
    per_cell = 2 ** (1 / order) if is_replaced and workload.shape[1] > 1 else 1.0
    alike = [_RowSquares(1.0, 1.0, lambda: np.ones(1), 1.0) for _ in workload.blocks]
    return Baselines(
        _baseline(workload, objective, unit * per_count, alike, is_bound=is_bound),
        _baseline(workload, objective, unit * per_cell, _row_squares(workload)),
    )


def _baseline(
    workload: Workload,
    objective: Objective,
    unit: float,
    squares: Sequence[_RowSquares],
    *,
    is_bound: bool = False,
) -> BaselineNoise:
    rms = tuple(unit * math.sqrt(own.mean) for own in squares)
    batches = zip(workload.blocks, objective.batch_weights(workload), squares, strict=True)
    if objective.kind == "largest":
        shares = [
            float(w[0]) * own.largest if len(w) == 1 else float((w * own.each()).max())
            for _, w, own in batches
        ]
        return BaselineNoise(rms, unit**2 * max(shares), is_bound)
    if objective.kind == "absolute":
        roots = [
            block.n_rows * float(w[0]) * own.mean_root if len(w) == 1 else math.fsum(w * np.sqrt(own.each()))
            for block, w, own in batches
        ]
        return BaselineNoise(rms, MEAN_ABSOLUTE * unit * math.fsum(roots), is_bound)
    totals = [
        block.n_rows * float(w[0]) * own.mean if len(w) == 1 else math.fsum(w * own.each())
        for block, w, own in batches
    ]
    return BaselineNoise(rms, unit**2 * math.fsum(totals), is_bound)


# Rows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _RowSquares:
    """‖w_j‖² over the rows of one batch; `each` gives all of them, or one number that all share.

    `mean_root` is the mean of ‖w_j‖ itself.
    """

    mean: float
    largest: float
    each: Callable[[], Array]
    mean_root: float


def _row_squares(workload: Workload) -> list[_RowSquares]:
    products = _products(workload)
    if products is None:
        return [_of_rows(block.operator.row_norms() ** 2) for block in workload.blocks]
    terms: list[list[ProductTerm]] = [[] for _ in workload.blocks]
    for term in products.terms:
        terms[term.block].append(term)
    norms = [[_kind_row_squares(kind.operator) for kind in kinds] for kinds in products.kinds]
    sums = [[float(own.sum()) for own in of_axis] for of_axis in norms]
    roots = [[float(np.sqrt(own).sum()) for own in of_axis] for of_axis in norms]
    peaks = [[float(own.max()) for own in of_axis] for of_axis in norms]
    # Taken once: a product of a hundred sizes for each of a hundred thousand terms takes 8 s.
    n_cells, sizes = products.n_cells, products.sizes
    result = []
    for block, own in zip(workload.blocks, terms, strict=True):
        absent = [_absent(term, n_cells, sizes) for term in own]
        total = math.fsum(size * _over(term, sums) for term, size in zip(own, absent, strict=True))
        largest = max(size * _over(term, peaks) for term, size in zip(own, absent, strict=True))
        root = math.fsum(math.sqrt(size) * _over(term, roots) for term, size in zip(own, absent, strict=True))
        each = _every_row(own, absent, norms)
        result.append(_RowSquares(total / block.n_rows, largest, each, root / block.n_rows))
    return result


def _of_rows(squares: Array) -> _RowSquares:
    root = float(np.sqrt(squares).mean())
    return _RowSquares(float(squares.mean()), float(squares.max()), lambda: squares, root)


def _every_row(
    terms: Sequence[ProductTerm], absent: Sequence[float], norms: Sequence[Sequence[Array]]
) -> Callable[[], Array]:
    def each() -> Array:
        parts = []
        for term, size in zip(terms, absent, strict=True):
            values = np.full(1, size)
            for a, k in zip(term.places, term.kinds, strict=True):
                values = np.multiply.outer(values, norms[a][k]).reshape(-1)
            parts.append(term.in_workload_order(values))
        return np.concatenate(parts)

    return each


def _kind_row_squares(operator: Operator) -> Array:
    if isinstance(operator, Identity):
        return np.ones(operator.shape[0])
    return np.asarray(operator.row_norms() ** 2)


def _absent(term: ProductTerm, n_cells: int, sizes: Sequence[int]) -> float:
    """How many cells a row of a product adds up along the axes that it does not mention."""
    try:
        return float(n_cells // math.prod([sizes[a] for a in term.places]))
    except OverflowError:
        return math.inf


def _over(term: ProductTerm, numbers: Sequence[Sequence[float]]) -> float:
    """The product of what the kinds of a term have on its axes."""
    return math.prod([numbers[a][k] for a, k in zip(term.places, term.kinds, strict=True)])


def _axes(products: Products) -> range:
    return range(len(products.axes))


def _products(workload: Workload) -> Products | None:
    """The workload as products, None where it is none or an attribute is too large to be looked at so."""
    try:
        return products_of(workload)
    except TooLargeError:
        return None


# Columns --------------------------------------------------------------------------------------------------


def _sensitivity(workload: Workload, order: int, *, is_replaced: bool) -> tuple[float, bool]:
    """What one record changes in all counts, in the L1 or the L2 norm, and whether that is a bound only."""
    products, W = _products(workload), workload.operator
    # Of cross tables the closed form is exact; all pairs of 4,096 cells take a second.
    is_paired = is_replaced and workload.shape[1] <= _MAX_PAIRED_CELLS
    if products is None or (is_paired and not products.are_marginals):
        return _largest_difference(W, order) if is_replaced else float(W.column_norms(order).max()), False
    columns = [[_kind_columns(kind.operator, order) for kind in kinds] for kinds in products.kinds]
    added, is_bound = _largest_column(products, columns)
    if is_replaced:
        added, is_bound = max(added, _replaced(products, columns, order)), not products.are_marginals
    return added if order == 1 else math.sqrt(added), is_bound


def _kind_columns(operator: Operator, order: int) -> Array:
    """The L1 norm of every column of a kind, or the square of the L2 norm; one number where all are equal."""
    if isinstance(operator, Identity):
        return np.ones(1)
    return np.asarray(operator.column_norms(order) ** order)


def _largest_column(products: Products, columns: Sequence[Sequence[Array]]) -> tuple[float, bool]:
    """The largest Σ_t Π c over all cells, and whether it is an upper bound."""
    peaks = [[float(own.max()) for own in of_axis] for of_axis in columns]
    mixed = [a for a in _axes(products) if not _have_common_peak(columns[a])]
    visited = math.prod(products.sizes[a] for a in mixed)
    if not mixed or visited * len(products.terms) > _MAX_VISITED:
        return math.fsum(_over(term, peaks) for term in products.terms), bool(mixed)
    place = {a: i for i, a in enumerate(mixed)}
    total = np.zeros([products.sizes[a] for a in mixed])
    for term in products.terms:
        part: Array = np.ones((1,) * len(mixed))
        for a, k in zip(term.places, term.kinds, strict=True):
            if a in place:
                part = part * columns[a][k].reshape([-1 if i == place[a] else 1 for i in range(len(mixed))])
            else:
                part = part * peaks[a][k]
        total += part
    return float(total.max()), False


def _have_common_peak(of_axis: Sequence[Array]) -> bool:
    """Whether some value of an axis is the largest for all of its kinds; what nothing mentions is 1."""
    are_largest = [own == own.max() for own in of_axis if len(own) > 1]
    # A product that leaves the axis out has 1 there, whatever the value.
    return not are_largest or bool(np.logical_and.reduce(are_largest).any())


def _replaced(products: Products, columns: Sequence[Sequence[Array]], order: int) -> float:
    """A bound on the change that replacing a record makes; exact for cross tables.

    Product by product: ‖a − b‖₁ ≤ ‖a‖₁ + ‖b‖₁, and ‖a − b‖² ≤ ‖a‖² + ‖b‖² where no entry is negative, else
    twice that. A product of no axis counts everyone and does not change.
    """
    peaks = [[float(own.max()) for own in of_axis] for of_axis in columns]
    signs = [[_has_negative(kind.operator) for kind in kinds] for kinds in products.kinds]
    total = 0.0
    for term in products.terms:
        if term.places:
            is_signed = any(signs[a][k] for a, k in zip(term.places, term.kinds, strict=True))
            total += (4 if is_signed and order == 2 else 2) * _over(term, peaks)
    return total


def _has_negative(operator: Operator) -> bool:
    if isinstance(operator, Identity):
        return False
    sums = np.asarray(operator.adjoint(np.ones(operator.shape[0])))
    return not np.array_equal(operator.column_norms(1), sums)


def _largest_difference(W: Operator, order: int) -> float:
    """The largest L1 or L2 norm of a column, or of the difference of two."""
    norms = W.column_norms(order)
    absolute = W.column_norms(1)
    # Where every entry is 0 or 1, |a − b| is (a − b)², and the Gram matrix knows all of them.
    is_binary = (
        W.is_integer
        and W.largest <= 1
        and np.array_equal(absolute, np.asarray(W.adjoint(np.ones(W.shape[0]))))
    )
    if order == 2 or is_binary:
        G = W.gram()
        squares = np.diag(G)
        largest = max(float((squares[i] + squares - 2 * G[i]).max()) for i in range(len(G)))
        return max(float(norms.max()), largest if order == 1 else math.sqrt(max(largest, 0)))
    entries = W.dense()
    falling = np.argsort(-norms)
    best = float(norms.max())
    for place, i in enumerate(falling):
        # ‖a − b‖ ≤ ‖a‖ + ‖b‖: most pairs need no look.
        others = falling[place + 1 :]
        others = others[norms[others] > best - norms[i]]
        if len(others) == 0:
            break
        best = max(best, float(np.abs(entries[:, others] - entries[:, [i]]).sum(axis=0).max()))
    return best
