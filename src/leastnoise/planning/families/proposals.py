"""From the matrices that printed algorithms end with to proposals that leastnoise can measure.

What is measured consists of whole numbers, and rounding must not change what can be
answered. So a strategy is written as C·M, with M whole numbers whose rows span the
queries, and only C is rounded.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array, RowScaled
from leastnoise.planning.families.completion import counted_workload
from leastnoise.planning.families.distinct_cells import on_basis, triangle
from leastnoise.planning.method import Found, Request, refuse_many_cells
from leastnoise.query import Workload
from leastnoise.strategy import GRID_TOLERANCE, Basis, RealStrategy, factor_gram, integer_basis

# Directions weaker than this beside the strongest are rounding.
_WEAK = 1e-10

# Rows beyond the queries' own are rounded to so many bits, which moves them by 1e-8; coefficients
# have so many at most, because float64 has no more.
_EXTRA_BITS, _MOST_BITS = 26, 52


def refuse_unless_total(request: Request, most_cells: int, *, allows_laplace: bool) -> str | None:
    """The reason why a method for total variance on so many cells at most cannot serve, or None."""
    n = request.workload.shape[1]
    if request.objective.kind != "total":
        return "it minimises a total of variances, without caps and not the largest"
    if request.privacy.noise != "gaussian" and not allows_laplace:
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    return refuse_many_cells(n, most_cells)


def is_add_remove(request: Request) -> bool:
    """Whether records are added or removed, which is what the papers' sensitivities are about."""
    return request.privacy.neighbours == "add-remove"


def scaled_note(request: Request) -> str:
    """What a note must add where records are replaced."""
    return "" if is_add_remove(request) else ", for records added or removed, scaled to records replaced"


def nothing_asked(request: Request) -> Found | None:
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
    return Found(zero, np.zeros(n), "heuristic", "every query is zero", "converged")


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
        raise DesignError("the noise found has no variance in some direction; try another method") from None
    return _from_root(R, factor.T, basis)


def from_gains(R: Array, gains: Array, basis: Basis) -> RealStrategy:
    """The same for Σ = G Gᵀ, G the gains (k, r) with which unit noise enters R x: nothing is squared."""
    from scipy import linalg

    factor = linalg.qr(gains.T, mode="r", check_finite=False)[0][: len(R)]
    if len(factor) < len(R) or not np.diag(factor).all():
        raise DesignError("the noise found has no variance in some direction; try another method")
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
    from scipy import linalg

    M = basis.rows if basis.rows is None else _with_extra_rows(A, basis.rows)
    C = A if M is None else on_basis(A, M)
    C = C / np.abs(C).max()
    # As for triangles: rounding errors E change the noise by about ‖E C⁺‖_F.
    weakest = float(linalg.svd(C, compute_uv=False)[C.shape[1] - 1]) if len(C) >= C.shape[1] else 0.0
    bits = math.ceil(math.log2(max(math.sqrt(C.size / 12) / max(weakest, 1e-300), 1) / GRID_TOLERANCE))
    if bits > _MOST_BITS:
        raise DesignError(
            "the strategy found is too weak in some direction to be rounded; try another method"
        )
    return RealStrategy(np.rint(np.ldexp(C, bits)).astype(np.int64), M)


def _with_extra_rows(A: Array, M: Array) -> Array:
    """M, and below it whole-number rows that span, beside those of M, what A spans.

    Rows of M are doubled until all are of one size, which changes no direction.
    """
    from scipy import linalg

    inside = linalg.orth(M.astype(float).T)
    outside = A - (A @ inside) @ inside.T
    _, values, vectors = linalg.svd(outside, full_matrices=False)
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
