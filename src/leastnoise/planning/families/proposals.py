"""From the matrices that a search ends with to proposals that can be measured.

What is measured consists of whole numbers, and rounding must not change what can be
answered. So a strategy is written as C·M, with M whole numbers whose rows span the
queries, and only C is rounded.

Searches work on the cells that queries tell apart, and on pairs of them where records are replaced. A cell
whose column is shorter than the longest one may be measured by itself as well, up to that length, at no cost
to anybody's privacy.

Reference:
    Li and Miklau (2012), adaptive mechanism, Program 2, steps 4 and 5, for completed columns.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.decompositions import coefficients_on, singular_values, svd, triangle_of
from leastnoise.core.errors import DesignError
from leastnoise.core.numerical_rank import row_lengths
from leastnoise.core.operators import Array, RowScaled
from leastnoise.planning.method import Request, SearchResult, refuse_many_cells
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import Workload
from leastnoise.strategy import GRID_TOLERANCE, Basis, RealStrategy, basis_of, factor_gram, integer_basis


def with_differences(columns: Array) -> Array:
    """The columns r_i, then r_i − r_j for i < j in the order of `list_pairs`."""
    i, j = np.triu_indices(columns.shape[1], 1)
    return np.hstack([columns, columns[:, i] - columns[:, j]])


# Entries of a Gram matrix that are looked at together.
_BLOCK_ENTRIES = 2**22


def largest_square(columns: Array) -> float:
    """The largest squared length of a column r_i and of a difference r_i − r_j, which are not written out."""
    squares = np.einsum("ki,ki->i", columns, columns)
    largest = float(squares.max())
    step = max(1, _BLOCK_ENTRIES // max(len(squares), 1))
    for start in range(0, len(squares), step):
        products = columns[:, start : start + step].T @ columns[:, start:]
        between = squares[start : start + step, None] + squares[start:] - 2 * products
        largest = max(largest, float(between.max()))
    return largest


def list_pairs(cells: Array, n: int) -> Array:
    """Each cell with no cell, n, then each pair of cells, smaller first: (N, 2)."""
    i, j = np.triu_indices(len(cells), 1)
    alone = np.column_stack([cells, np.full(len(cells), n)])
    return np.sort(np.vstack([alone, np.column_stack([cells[i], cells[j]])]), axis=1)


def on_basis(rows: Array, basis: Array) -> Array:
    """C with C · basis = rows, for rows in what the basis spans.

    Rows of the basis are brought to one length first. Beside rows of 2^40, single cells were lost to least
    squares, and with them most of the accuracy.
    """
    from scipy import linalg

    B = basis.astype(float)
    lengths = row_lengths(B)
    B /= lengths[:, None]
    found = coefficients_on(B, rows)
    if found is None:
        found = np.asarray(linalg.lstsq(B.T, rows.T)[0].T)
    return np.asarray(found / lengths)


def triangle(root: Array, basis: Array | None) -> Array:
    """The upper triangular C, (k, k), with CᵀC equal to the precision of root on the basis."""
    coefficients = root
    if not np.isfinite(root).all():
        raise DesignError(
            "the strategy found is not finite", field="strategy", remedy="rescale the workload's rows"
        )
    if basis is not None:
        # root = coefficients · basis exactly, because both span the same rows.
        coefficients = on_basis(root, basis)
    C = triangle_of(coefficients)
    if C.shape[0] != C.shape[1] or not np.isfinite(C).all():
        raise DesignError(
            "the strategy found lost a direction", field="strategy", remedy="rescale the workload's rows"
        )
    return C


# A cell with this share or less left over is full: measuring it would change nothing that is seen.
_FULL = 1e-6


def counted_workload(request: Request) -> Workload:
    """The workload with the weights that the objective gives its queries."""
    return request.workload.with_weights(request.objective.weights(request.workload))


def completed(rows: Array, basis: Array | None, used: Array) -> RealStrategy:
    """Real rows A', (r, n), and below them √(max_i m_i − m_j) times each cell j, m the squared columns.

    Cells within a millionth of the largest count as full, and cells that no query counts are
    left alone: measuring them would help nobody.

    Args:
        basis: integer rows with the same span as A', None for every cell.
        used: which cells some query counts, (n,).
    """
    spent = (rows**2).sum(axis=0)
    left = np.where(used, spent.max() - spent, 0.0)
    cells = left > _FULL * spent.max()
    measured = np.vstack([rows, np.diag(np.sqrt(left))[cells]])
    wider = with_cells(basis, cells)
    # With Gaussian noise the triangle of the same AᵀA is the same measurement.
    return RealStrategy(triangle(measured, wider), wider)


def with_cells(basis: Array | None, cells: Array) -> Array | None:
    """An integer basis of the span of some rows and single cells; None where that is everything.

    Beside the cells, it holds what the rows ask of all others.
    """
    if basis is None or not cells.any():
        return basis
    n = basis.shape[1]
    # What is left of a row counts beside the whole of it: rounding is no direction.
    others = basis_of(np.where(cells, 0, basis), row_lengths(basis.astype(float)))
    if others.rank + np.count_nonzero(cells) == n:
        return None
    assert others.rows is not None
    unit = max(exact.bit_length(others.rows) - 1, 0)
    return np.vstack([np.eye(n, dtype=np.int64)[cells] << unit, others.rows])


# Directions weaker than this beside the strongest are rounding.
_WEAK = 1e-10

# Bits to which rows beyond the queries' own are rounded, which moves them by 1e-8.
_EXTRA_BITS = 26

# Bits of coefficients at most: float64 has no more.
_MOST_BITS = 52


def refuse_unless_total(request: Request, most_cells: int, *, allows_laplace: bool) -> str | None:
    """The reason why a method for total variance on at most `most_cells` cells cannot serve, or None."""
    n = request.workload.shape[1]
    if request.objective.kind != "total":
        return "it minimises total variance only, neither within targets nor the largest variance"
    if request.privacy.noise != GAUSSIAN and not allows_laplace:
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    return refuse_many_cells(n, most_cells)


def is_add_remove(request: Request) -> bool:
    """Whether records are added or removed, which is what the papers' sensitivities are about."""
    return not request.privacy.relation.replaces


def scaled_note(request: Request) -> str:
    """What a note must add where records are replaced."""
    return "" if is_add_remove(request) else ", for records added or removed, scaled to records replaced"


def nothing_asked(request: Request) -> SearchResult | None:
    """The answer to a workload whose queries are all zero, else None.

    Raises:
        DesignError: if those that count are all zero and others are not.
    """
    n = request.workload.shape[1]
    if np.asarray(request.workload.operator.column_norms(1) > 0).any():
        if request.objective.kind == "total" and not _counts_anything(counted_workload(request)):
            # Nothing can be factored, which is explained there for every method alike.
            weighted_factor(request, integer_basis(request.workload))
        return None
    zero = RealStrategy(np.zeros((1, n), dtype=np.int64))
    return SearchResult(zero, np.zeros(n), "heuristic", "every query is zero", "converged")


def _counts_anything(workload: Workload) -> bool:
    """Whether some query of positive weight has a coefficient."""
    if (workload.weights > 0).all():
        return True
    counted = RowScaled(workload.operator, (workload.weights > 0).astype(float))
    return bool(np.asarray(counted.column_norms(1) > 0).any())


def from_covariance(R: Array, Sigma: Array, basis: Basis) -> RealStrategy:
    """Gaussian noise that gives the answers R x, (k,), the covariance Σ.

    The rows Σ^{−½} R measured with unit noise do so, and among all strategies with that
    covariance none has a smaller profile. C is the triangle of the same precision on the basis.

    Args:
        R: (k, n), of rank k, spanning what the basis spans.
    """
    from scipy import linalg

    try:
        factor = linalg.cholesky(Sigma, lower=True)
    except linalg.LinAlgError:
        raise DesignError(
            "the noise found has no variance in some direction", field="strategy", remedy="try another method"
        ) from None
    return _from_root(R, factor.T, basis)


def from_gains(R: Array, gains: Array, basis: Basis) -> RealStrategy:
    """The same for Σ = G Gᵀ, G the gains (k, r) with which unit noise enters R x: nothing is squared."""
    from scipy import linalg

    factor = linalg.qr(gains.T, mode="r", check_finite=False)[0][: len(R)]
    if len(factor) < len(R) or not np.diag(factor).all():
        raise DesignError(
            "the noise found has no variance in some direction", field="strategy", remedy="try another method"
        )
    return _from_root(R, factor, basis)


def _from_root(R: Array, factor: Array, basis: Basis) -> RealStrategy:
    """The proposal for Σ = FᵀF, F upper triangular: the rows F^{−T} R."""
    from scipy import linalg

    root = linalg.solve_triangular(factor, R, trans=1)
    return RealStrategy(triangle(root, basis.rows), basis.rows)


def from_rows(A: Array, basis: Basis) -> RealStrategy:
    """The rows A, (r, n), in whole numbers, for noise that is not the same in every rotation.

    Args:
        A: spans what the basis spans, and perhaps more.

    Raises:
        DesignError: if some direction is too weak to be told from rounding.
    """

    M = basis.rows if basis.rows is None else _with_extra_rows(A, basis.rows)
    C = A if M is None else on_basis(A, M)
    C = C / np.abs(C).max()
    # As for triangles: rounding errors E change the noise by about ‖E C⁺‖_F.
    weakest = float(singular_values(C)[C.shape[1] - 1]) if len(C) >= C.shape[1] else 0.0
    bits = math.ceil(math.log2(max(math.sqrt(C.size / 12) / max(weakest, 1e-300), 1) / GRID_TOLERANCE))
    if bits > _MOST_BITS:
        raise DesignError(
            "the strategy found is too weak in some direction to be rounded",
            field="strategy",
            remedy="try another method",
        )
    return RealStrategy(np.rint(np.ldexp(C, bits)).astype(np.int64), M)


def _with_extra_rows(A: Array, M: Array) -> Array:
    """M, and below it whole-number rows that span, beside those of M, what A spans.

    Rows of M are doubled until all are of one size, which changes no direction.
    """
    from scipy import linalg

    inside = linalg.orth(M.astype(float).T)
    outside = A - (A @ inside) @ inside.T
    _, values, vectors = svd(outside)
    extra = vectors[values > _WEAK * float(np.linalg.norm(A))]
    if len(extra) == 0:
        return M
    bits = max(exact.bit_length(M), _EXTRA_BITS)
    return np.vstack([M << (bits - exact.bit_length(M)), np.rint(np.ldexp(extra, bits)).astype(np.int64)])


def weighted_factor(request: Request, basis: Basis) -> Array:
    """R, (k, n), with RᵀR the Gram matrix of the queries as the objective weighs them.

    Raises:
        DesignError: if queries that count for nothing reach outside all others.
    """
    return factor_gram(counted_workload(request), basis)
