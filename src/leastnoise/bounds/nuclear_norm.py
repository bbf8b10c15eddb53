"""Lower bounds on nuclear norms, the dual functions of every objective.

    F(p, q) = ‖ diag(√p) W diag(√q) ‖_*

It is bounded from below without trusting a decomposition: F ≥ ⟨N, U⟩/‖U‖₂
for every U, and ‖U‖₂ is bounded from matrix products. Small workloads take U from the
singular vectors of N = diag(√p) W diag(√q). For larger ones, with K = NᵀN or NNᵀ,
whichever is smaller, any matrix E and any positive λ,

    F ≥ trace(Eᵀ K E Λ^{−½}) / (‖E‖₂ ‖Λ^{−½} Eᵀ K E Λ^{−½}‖₂^½)                   (2)

which is U = N E Λ^{−½} Eᵀ (or E Λ^{−½} Eᵀ N). With E the eigenvectors of K, both norms
are 1 up to rounding. A poor decomposition gives a weaker bound, never a wrong one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from leastnoise.core.backend import Backend
from leastnoise.core.decompositions import agree_along, eigh, svd, there_or_here
from leastnoise.core.errors import LeastnoiseError
from leastnoise.core.operators import Array, is_whole_space, require_room
from leastnoise.core.table_rows import table_rows
from leastnoise.query import Products, Workload, in_axis_order, products_of, union_rows
from leastnoise.strategy import smallest_columns

# Up to this many entries the queries themselves are decomposed; beyond, a Gram
# matrix, which loses directions weaker than 1e-7.
_SVD_ENTRIES = 2**20

# Up to this many entries the differences of pairs of cells are written out; beyond, their squares, which lose
# directions weaker than 1e-7.
_WRITTEN_OUT = 2**22

# Low rank is searched for up to this many entries.
_SKETCHED_ENTRIES = 2**26

# Queries over all cells are written out as floats up to this many entries, 2 GB. Beyond, they are summed
# table by table where each looks at few attributes, or over the cells that have weights, as bytes:
# 500 conditions over a million cells took 8 GB as floats.
_WHOLE_ENTRIES = 2**28

# Cells whose columns are floats together there.
_CELLS_AT_A_TIME = 2**14

# In this many random combinations of the rows, one number after the other.
_SKETCHES = (128, 512)

# Low rank is found where what they leave of the sum of squares is below this share.
_WHOLE = 1e-13

# Eigenvalues of K below this share of the largest may be nothing but rounding.
# Leaving them out only lowers the bound.
_NOISE_FLOOR = 1e-14


def total_variance_bound(workload: Workload, q: Array, weights: Array | None = None) -> float:
    """F(w, q)²/Σq: at profile 1, no Gaussian noise has less total variance. See (1).

    Args:
        weights: w, one per query; those of the workload unless given.
    """
    w = workload.weights if weights is None else weights
    largest = float(q.max(initial=0))
    if largest <= 0:
        return 0.0
    q = q / largest  # the bound does not depend on the unit of q
    if np.count_nonzero(w) * workload.shape[1] <= _SVD_ENTRIES:
        rows = counted_rows(workload, w)
        unit = float(np.abs(rows).max(initial=0))
        if not 0 < unit < math.inf:
            return unit
        F = unit * nuclear_norm_below(rows / unit * np.sqrt(q)) / math.sqrt(math.fsum(q))
        return F * F  # infinite where F ** 2 would raise
    support = np.flatnonzero(q)
    by_products = _bound_of_products(workload, q, w)
    if by_products is not None:
        return by_products
    if 2 * len(support) <= workload.shape[1] and np.count_nonzero(w) * len(support) <= _SKETCHED_ENTRIES:
        # Columns without weight add nothing: a bound over a million cells has weights on some thousands.
        return _bound_of_columns(workload.operator.columns(support) * np.sqrt(w)[:, None], q[support])
    operator = workload.operator
    if math.prod(operator.shape) > _WHOLE_ENTRIES and operator.shape[0] < len(support):
        tables = table_rows(operator)
        if tables is not None and tables.is_quick:
            return _bound_of_gram(tables.weighted_gram(q), w, q)
        if operator.is_integer and operator.largest <= np.iinfo(np.int8).max:
            return _bound_of_many_columns(workload, w, support, q[support])
    is_known = _is_gram_known(workload, w)
    if np.count_nonzero(w) * workload.shape[1] <= _SKETCHED_ENTRIES and not is_known:
        of_few = _few_directions_below(counted_rows(workload, w), np.sqrt(q))
        if of_few is not None:
            F = of_few / math.sqrt(math.fsum(q))
            return F * F
    M = weighted_rows(workload, w)
    with np.errstate(over="ignore", invalid="ignore"):
        root = np.sqrt(q)
        if M is not None:
            # ‖N‖_* is also trace (N Nᵀ)^½, the smaller matrix where queries are few.
            M *= root
            K = M @ M.T
            del M
        else:
            K = workload.weighted_gram(w)
            K *= root[:, None]
            K *= root
    scale = float(np.diag(K).max(initial=0))
    if not 0 < scale < math.inf:
        return scale
    K /= scale
    return scale * (trace_root_below(K) ** 2 / math.fsum(q))


# Directions of all products together, at most, where they take the place of queries and cells.
_MAX_PRODUCT_ROWS = 2_048


def _bound_of_products(workload: Workload, q: Array, w: Array) -> float | None:
    """F²/Σq from the rows of products, where these are fewer than queries and cells; else None.

    A product whose queries weigh alike has the Gram matrix of the rows of its axes, and √w ⊗ N has it too.
    """
    if min(workload.shape) <= _MAX_PRODUCT_ROWS // 4:
        return None
    try:
        asked = products_of(workload)
    except LeastnoiseError:
        return None
    weights = None if asked is None else _weights_of_products(asked, w)
    if asked is None or weights is None:
        return None
    union = union_rows(asked)
    few = min(_MAX_PRODUCT_ROWS, int(np.count_nonzero(w)) // 2, int(np.count_nonzero(q)) // 2)
    if union.n_rows > few:
        return None
    counted = union.of_kinds(in_axis_order(asked.axes, q))
    return _bound_of_gram(union.rows(weights).weighted_gram(counted), np.ones(union.n_rows), q)


def _weights_of_products(asked: Products, w: Array) -> Array | None:
    """The weight of all queries of every product; None where some differ."""
    own = [w[term.start : term.start + term.n_rows] for term in asked.terms]
    if len(own) > _MAX_PRODUCTS or any((weights != weights[0]).any() for weights in own):
        return None
    return np.array([float(weights[0]) for weights in own])


# Products, at most, of which every pair is passed over.
_MAX_PRODUCTS = 64


def _bound_of_columns(rows: Array, q: Array) -> float:
    """F²/Σq from the rows times √w at the columns that have weights; the rows are overwritten."""
    unit = float(np.abs(rows).max(initial=0))
    if not 0 < unit < math.inf:
        return unit
    rows /= unit
    rows *= np.sqrt(q)
    if rows.size <= _SVD_ENTRIES:
        F = unit * nuclear_norm_below(rows)
    else:
        F = unit * trace_root_below(rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows)
    F /= math.sqrt(math.fsum(q))
    return F * F


def _bound_of_many_columns(workload: Workload, w: Array, support: Array, q: Array) -> float:
    """The same where floats for all those columns would be too large, and whole numbers below 128 are not."""
    entries = smallest_columns(workload.operator, support)
    K = np.zeros((len(entries),) * 2)
    for start in range(0, len(support), _CELLS_AT_A_TIME):
        some = slice(start, start + _CELLS_AT_A_TIME)
        rows = entries[:, some] * np.sqrt(q[some])
        K += rows @ rows.T
    return _bound_of_gram(K, w, q)


def _bound_of_gram(K: Array, w: Array, q: Array) -> float:
    """The same from W diag(q) Wᵀ, which is overwritten."""
    K *= np.sqrt(w)[:, None]
    K *= np.sqrt(w)
    scale = float(np.diag(K).max(initial=0))
    if not 0 < scale < math.inf:
        return scale
    return scale * (trace_root_below(K / scale) ** 2 / math.fsum(q))


def pair_variance_bound(workload: Workload, q: Array, pairs: Array, weights: Array | None = None) -> float:
    """F(w, q)²/Σq with q on pairs of cells, for noise of profile 1 where a record is replaced.

    F(w, q) = ‖ diag(√w) W D diag(√q) ‖_*, whose square is W Lap(q) Wᵀ: the weighted
    Laplacian of the graph of pairs, less the row and column of no cell. The weights w are
    those of the workload unless given.
    """
    w = workload.weights if weights is None else weights

    listed = q > 0
    if not listed.any():
        return 0.0
    q, pairs = q[listed] / float(q.max()), pairs[listed]
    n = workload.shape[1]
    touched, places = np.unique(pairs, return_inverse=True)
    ends, counted = places.reshape(pairs.shape).T, touched < n
    cells = touched[counted]
    if np.count_nonzero(w) * max(n, len(q)) <= _SVD_ENTRIES:
        rows = counted_rows(workload, w)[:, cells]
        unit = float(np.abs(rows).max(initial=0))
        if not 0 < unit < math.inf:
            return unit
        F = unit * nuclear_norm_below(rows / unit @ differences(q, ends, counted)) / math.sqrt(math.fsum(q))
        return F * F
    M = weighted_rows(workload, w)
    with np.errstate(over="ignore", invalid="ignore"):
        V = workload.weighted_gram(w)[np.ix_(cells, cells)] if M is None else M[:, cells].T @ M[:, cells]
    scale = float(np.diag(V).max(initial=0))
    if not 0 < scale < math.inf:
        return scale
    V = V / scale
    if len(touched) * len(q) <= _WRITTEN_OUT:
        F = _trace_root_of_pairs(V, differences(q, ends, counted))
    else:
        F = _trace_root_of_laplacian(V, laplacian(q, ends, counted))
    return scale * (F * F / math.fsum(q))


def differences(q: Array, ends: Array, counted: Array) -> Array:
    """X: for every pair √q at one end and −√q at the other, at the ends that count a cell."""
    X = np.zeros((len(counted), len(q)))
    X[ends[0], np.arange(len(q))] = np.sqrt(q)
    X[ends[1], np.arange(len(q))] = -np.sqrt(q)
    return X[counted]


def laplacian(q: Array, ends: Array, counted: Array) -> Array:
    """X Xᵀ, without X."""
    total = np.zeros((len(counted), len(counted)))
    np.add.at(total, (ends[0], ends[1]), -q)
    total += total.T
    total[np.diag_indices(len(counted))] = -total.sum(axis=1)
    return total[np.ix_(counted, counted)]


def _trace_root_of_pairs(V: Array, X: Array) -> float:
    """A lower bound on trace (XᵀVX)^½: few directions E of many columns, found from a root of V."""

    _, strengths, E = svd(root_of(V) @ X)
    return _trace_root_along(strengths**2, E.T, V, X @ E.T)


def _trace_root_of_laplacian(V: Array, laplacian: Array) -> float:
    """The same from X Xᵀ alone: a thousand cells have half a million pairs.

    With A from a root of V, E = XᵀA spans the directions; EᵀE = AᵀXXᵀA, and the form along E is AᵀXXᵀ V XXᵀA.
    """
    from scipy import linalg

    root = root_of(V)
    values, U = linalg.eigh(root @ laplacian @ root.T)
    strong = strong_values(values)
    values, U = values[strong], U[:, strong]
    A = (root.T @ U) / np.sqrt(values)
    Y = laplacian @ A
    return _trace_root_of(values, Y.T @ (V @ Y), A.T @ Y)


def root_of(V: Array) -> Array:
    """R with RᵀR = V, for V symmetric and positive semidefinite but for rounding."""
    from scipy import linalg

    squares, vectors = linalg.eigh(V)
    return np.asarray(np.sqrt(np.maximum(squares, 0))[:, None] * vectors.T)


def nuclear_norm_below(N: Array) -> float:
    """A lower bound on ‖N‖_*: ⟨N, U Vᵀ⟩ / (‖U‖₂ ‖V‖₂), U and V from a singular value decomposition.

    Nothing is squared, so directions down to 1e-15 of the strongest count.
    """

    U, _, Vt = svd(N)
    norms = (1 + distance_from_identity(U.T @ U)) * (1 + distance_from_identity(Vt @ Vt.T))
    bound = float(np.vdot(U.T @ N, Vt)) / math.sqrt(norms)
    return max(bound, 0.0) if math.isfinite(bound) else 0.0


def _few_directions_below(rows: Array, root: Array) -> float | None:
    """A lower bound on ‖N‖_*, N = rows · diag(root), where N has few directions; None where it has many.

    The rows are overwritten.

    ‖N‖_* ≥ ‖N Z‖_* / ‖Z‖₂ for any Z. Taken from random combinations of the rows of N, Z holds all
    directions but for rounding; how well it does decides whether the bound is good, not whether it holds.
    """
    from scipy import linalg

    unit = float(np.abs(rows).max(initial=0))
    if not 0 < unit < math.inf:
        return None
    N = rows
    N /= unit
    N *= root
    m, n = N.shape
    whole = float(np.vdot(N, N))
    if whole == 0:
        return 0.0
    for size in _SKETCHES:
        if size > min(m, n) // 4:
            return None
        combined = N.T @ np.random.default_rng(0).standard_normal((m, size))
        Z = linalg.qr(combined, mode="economic", check_finite=False)[0]
        P = N @ Z
        if abs(float(np.vdot(P, P)) / whole - 1) < _WHOLE:
            bound = nuclear_norm_below(P) / math.sqrt(1 + distance_from_identity(Z.T @ Z))
            return unit * bound
    return None


def trace_root_below(K: Array) -> float:
    """A lower bound on trace K^½, for K symmetric and positive semidefinite, by (2)."""
    kept = np.diag(K) > 0
    if not kept.any():
        return 0.0
    if not kept.all():
        K = K[np.ix_(kept, kept)]

    def there(device: Backend) -> float | None:
        forms = _forms_on(device, K)
        return None if forms is None else _trace_root_of(*forms)

    return there_or_here(len(K), there, lambda: _trace_root_here(K))


def _trace_root_here(K: Array) -> float:
    values, E = eigh(K)
    return _trace_root_along(values, E, K, E)


# Random vectors along which the products of a device are compared with those of the processor. An error t
# times larger than allowed passes one of them with a chance of about 1/t, and all of them with t^-8.
_CHECKED_ALONG = 8


def _forms_on(device: Backend, K: Array) -> tuple[Array, Array, Array] | None:
    """Eigenvalues, EᵀKE and EᵀE by a device; None where its products differ from those here.

    Whatever the device takes for eigenvectors proves a bound, if only these two products are right.
    """
    moved = device.matrix(K)
    squares, E = device.eigh(moved)
    values = device.numpy(squares)
    strong = strong_values(values)
    if not strong.all():
        values, E = values[strong], E[:, device.index(strong)]
    H, EE, Y = E.T @ (moved @ E), E.T @ E, device.numpy(E)
    v = np.random.default_rng(0).standard_normal((len(values), _CHECKED_ALONG))
    along = Y @ v
    longest = float(np.einsum("ij,ij->j", Y, Y).max())
    form, gram = device.numpy(H), device.numpy(EE)
    is_right = agree_along(form @ v, Y.T @ (K @ along), longest * float(np.linalg.norm(K))) and agree_along(
        gram @ v, Y.T @ along, longest
    )
    return (values, form, gram) if is_right else None


def strong_values(values: Array) -> Array:
    """Which eigenvalues are more than rounding."""
    return np.asarray(values > max(_NOISE_FLOOR * len(values) * values.max(), 0))


def _trace_root_along(values: Array, E: Array, K: Array, Y: Array) -> float:
    """(2) for the matrix whose form along E is Yᵀ K Y, and any values that may be its eigenvalues."""
    strong = strong_values(values)
    if not strong.all():
        values, E, Y = values[strong], E[:, strong], Y[:, strong]
    return _trace_root_of(values, Y.T @ (K @ Y), E.T @ E)


def _trace_root_of(values: Array, H: Array, EE: Array) -> float:
    """(2) for any values that may be eigenvalues, the form H of the matrix along E, and EE = EᵀE.

    EE is overwritten.
    """
    # Λ^{−½} H Λ^{−½} is the identity up to rounding, and so is EᵀE.
    diagonal = np.diag(H) / values
    # With λ_a D_a for λ_a, D_a the absolute sum of row a of that, the second norm of (2) is
    # at most 1, and a direction known to few digits pays for itself alone.
    D = absolute_sums(H, np.sqrt(values)) + np.finfo(float).tiny
    del H
    norm_EE = 1 + distance_from_identity(EE)
    inner = math.fsum(diagonal * np.sqrt(values / D))
    bound = inner / math.sqrt(norm_EE)
    return bound if math.isfinite(bound) else 0.0


# Rows worked on at a time, few enough for the caches of a processor.
_ROWS_AT_A_TIME = 32


def absolute_sums(H: Array, roots: Array) -> Array:
    """The larger of the absolute sums of row and column a of H_ab/(r_a r_b), (k,), for the roots r."""
    # Rows of one order are columns of the other, and which of them they are does not matter.
    rows = H.T if H.flags.f_contiguous else H
    along, across = np.zeros(len(H)), np.zeros(len(H))
    for start in range(0, len(H), _ROWS_AT_A_TIME):
        some = slice(start, start + _ROWS_AT_A_TIME)
        part = np.abs(rows[some]) / roots
        part /= roots[some, None]
        along[some] = part.sum(axis=1)
        across += part.sum(axis=0)
    return np.maximum(along, across)


def weighted_rows(workload: Workload, weights: Array) -> Array | None:
    """diag(√w) W where fewer queries count than there are cells; None where their Gram matrix is smaller."""
    if np.count_nonzero(weights) > workload.shape[1] or _is_gram_known(workload, weights):
        return None
    return counted_rows(workload, weights)


def _is_gram_known(workload: Workload, weights: Array) -> bool:
    """Whether the Gram matrix is no larger than the queries, of full rank, and known without their rows."""
    operator, n = workload.operator, workload.shape[1]
    return operator.is_quick and int(np.count_nonzero(weights)) >= n and is_whole_space(operator.basis())


def counted_rows(workload: Workload, weights: Array) -> Array:
    """diag(√w) W without the rows whose weight is zero."""
    counted = np.flatnonzero(weights)
    if len(counted) == len(weights):
        return workload.operator.dense() * np.sqrt(weights)[:, None]
    require_room(len(counted), workload.shape[1], "the queries that count")
    return workload.operator.rows(counted) * np.sqrt(weights[counted])[:, None]


def distance_from_identity(matrix: Array) -> float:
    """A bound on ‖matrix − I‖₂: the smaller of two norms that dominate it. The matrix is overwritten."""
    difference: Any = matrix
    difference[np.diag_indices(len(matrix))] -= 1
    np.abs(difference, out=difference)
    row_sums = difference.sum(axis=1).max(initial=0)
    column_sums = difference.sum(axis=0).max(initial=0)
    return min(float(np.linalg.norm(difference)), math.sqrt(row_sums * column_sums))
