"""Lower bounds on a weighted sum of standard errors.

Let N = diag(√p) W diag(√q), for any weights p, q ≥ 0, and U any matrix of its shape with ‖U‖₂ ≤ 1. With
b_j = ⟨row j of W diag(√q), row j of U⟩, no Gaussian noise of privacy profile at most 1 has a sum of standard
errors below

    Σ_j c_j √v_j  ≥  ( Σ_j (c_j |b_j|)^{2/3} )^{3/2} / (Σ_i q_i)^½                                  (1)

Proof. Let X = AᵀA be the precision of the noise, diag X ≤ 1, and t_j row j of U diag(√q). For each query
b_j² = (w_j·t_j)² ≤ (w_j X⁺ w_jᵀ)(t_j X t_jᵀ) = v_j s_j, and

    Σ_j s_j = trace(X diag(√q) UᵀU diag(√q)) ≤ Σ_i q_i X_ii ≤ Σ_i q_i

Hölder's inequality for the exponents 3/2 and 3 gives

    Σ_j (c_j |b_j|)^{2/3} ≤ Σ_j (c_j √v_j)^{2/3} s_j^{1/3} ≤ (Σ_j c_j √v_j)^{2/3} (Σ_j s_j)^{1/3}          ∎

With the polar factor of N for U it is attained at the optimum, where p_j = c_j/√v_j. The factor comes from a
decomposition that is not trusted: ‖U‖₂ is bounded from matrix products, as in `nuclear_norm`. Where W is
large, U = N E Λ^{−½} Eᵀ for nearly the eigenvectors E of NᵀN, so that b_j = √p_j ‖w_j diag(√q) E Λ^{−¼}‖².

Weights of pairs of cells, for records that are replaced, put W D for W, D having a column e_i − e_j for
every pair; the proof is the same.

For cross tables, p alike within a table and q alike for all cells, everything is diagonal in the residuals of
sets t of attributes, and b is known in closed form. For one product, b is a product of those of its axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from leastnoise.bounds.apart import apart_loads
from leastnoise.bounds.nuclear_norm import (
    absolute_sums,
    differences,
    distance_from_identity,
    laplacian,
    root_of,
    strong_values,
)
from leastnoise.core.decompositions import eigh, svd
from leastnoise.core.operators import Array, Operator, squared_rows
from leastnoise.query import AxisSet, Lattice, Products, Workload

# Up to this many entries the queries themselves are decomposed; beyond, a Gram matrix.
_SVD_ENTRIES = 2**20

# Up to this many entries the queries are written out at the cells that have weights: 512 MB.
_WRITTEN_ENTRIES = 2**26

_EPS = float(np.finfo(float).eps)

# Roundings of the size of ε, times the root of the number of terms, that a sum of products is given.
_ROUNDINGS = 2.0


def stderr_sum_bound(
    workload: Workload, weights: Array, p: Array, q: Array, pairs: Array | None = None
) -> float:
    """(1): at profile 1, no Gaussian noise has a smaller weighted sum of standard errors.

    Args:
        weights: c, one per query.
        p, q: weights of the queries and of the cells, or of the `pairs` of cells, as `Witness` has them.
    """
    listed = q > 0
    counted = np.flatnonzero((weights > 0) & (p > 0))
    if not listed.any() or not len(counted):
        return 0.0
    # The bound depends neither on the unit of q nor on that of p.
    s = np.zeros(len(p))
    s[counted] = np.sqrt(p[counted] / p[counted].max())
    q = q[listed] / q.max()
    unit = float(workload.operator.largest)
    if not 0 < unit < math.inf:
        return unit
    if pairs is None:
        b = _of_cells(workload, s, counted, np.flatnonzero(listed), np.sqrt(q), unit)
    else:
        b = _of_pairs(workload, s, counted, q, pairs[listed], unit)
    return unit * combined(weights[counted], b) / math.sqrt(math.fsum(q))


def combined(c: Array, b: Array, times: Array | float = 1.0) -> float:
    """(Σ_j n_j (c_j b_j)^{2/3})^{3/2}, where b_j occurs n_j times."""
    largest = float((c * b).max(initial=0))
    if not 0 < largest < math.inf:
        return 0.0
    return largest * math.fsum(times * np.cbrt(c * b / largest) ** 2) ** 1.5


def _of_cells(workload: Workload, s: Array, counted: Array, cells: Array, root: Array, unit: float) -> Array:
    """b of the queries that count, for weights of cells whose square roots are `root`."""
    operator = workload.operator
    if len(counted) * len(cells) <= _WRITTEN_ENTRIES:
        M = _written(operator, counted, cells) / unit
        M *= root
        return _along_rows(M, s[counted])
    V = workload.weighted_gram(s**2)[np.ix_(cells, cells)] / unit**2
    K = V * root[:, None] * root
    values, E = eigh(K)
    strong = strong_values(values)
    values, E = values[strong], E[:, strong]
    Y = np.zeros((operator.shape[1], len(values)))
    Y[cells] = root[:, None] * E
    return _along_forms(operator, s, values, Y / unit, E.T @ (K @ E), E.T @ E)[counted]


def _written(operator: Operator, counted: Array, cells: Array) -> Array:
    """Some queries at some cells, as floats."""
    if len(counted) * operator.shape[1] <= _WRITTEN_ENTRIES:
        rows = operator.dense() if len(counted) == operator.shape[0] else operator.rows(counted)
        return np.asarray(rows[:, cells], dtype=float)
    return np.asarray(operator.columns(cells)[counted], dtype=float)


def _of_pairs(workload: Workload, s: Array, counted: Array, q: Array, pairs: Array, unit: float) -> Array:
    """b of the queries that count, for weights of pairs of cells."""
    operator, n = workload.operator, workload.shape[1]
    touched, places = np.unique(pairs, return_inverse=True)
    ends, is_cell = places.reshape(pairs.shape).T, touched < n
    cells = touched[is_cell]
    if len(counted) * max(n, len(q)) <= _SVD_ENTRIES:
        M = _written(operator, counted, cells) / unit @ differences(q, ends, is_cell)
        return _along_rows(M, s[counted])
    V = workload.weighted_gram(s**2)[np.ix_(cells, cells)] / unit**2
    root, joined = root_of(V), laplacian(q, ends, is_cell)
    values, U = eigh(root @ joined @ root.T)
    strong = strong_values(values)
    values, U = values[strong], U[:, strong]
    A = (root.T @ U) / np.sqrt(values)
    # E = XᵀA, X the differences of pairs, spans the directions, and X E is the Laplacian times A.
    along = joined @ A
    Y = np.zeros((n, len(values)))
    Y[cells] = along
    return _along_forms(operator, s, values, Y / unit, along.T @ (V @ along), A.T @ along)[counted]


def _along_rows(M: Array, s: Array) -> Array:
    """b for the rows M of W diag(√q) and s = √p, from matrices that are written out."""
    N = s[:, None] * M
    if N.size <= _SVD_ENTRIES:
        left, _, right = svd(N)
        O = left @ right
        norm = (1 + distance_from_identity(left.T @ left)) * (1 + distance_from_identity(right @ right.T))
        b = np.abs(np.einsum("ji,ji->j", M, O)) / math.sqrt(norm)
        # Roots of next to nothing are not small: what rounding may have added is taken off.
        rounding = (
            _ROUNDINGS
            * math.sqrt(sum(N.shape))
            * _EPS
            * np.linalg.norm(M, axis=1)
            * np.linalg.norm(O, axis=1)
        )
        return np.maximum(b - rounding, 0)
    if len(N) <= N.shape[1]:
        K = N @ N.T
        values, E = eigh(K)
        strong = strong_values(values)
        values, E = values[strong], E[:, strong]
        scaled, norm = _scaled_values(values, E.T @ (K @ E), E.T @ E)
        # U = E Λ^{−½} Eᵀ N, so that b_j √p_j is the diagonal of E Λ^{−½} Eᵀ K.
        terms = (E / np.sqrt(scaled)) * (K @ E)
        rounding = _ROUNDINGS * math.sqrt(len(N)) * _EPS * np.abs(terms).sum(axis=1)
        return np.maximum(terms.sum(axis=1) - rounding, 0) / s / norm
    K = N.T @ N
    values, E = eigh(K)
    strong = strong_values(values)
    values, E = values[strong], E[:, strong]
    scaled, norm = _scaled_values(values, E.T @ (K @ E), E.T @ E)
    return np.asarray(s * ((M @ E) ** 2 @ scaled**-0.5) / norm)


def _along_forms(operator: Operator, s: Array, values: Array, Y: Array, H: Array, EE: Array) -> Array:
    """b of all queries for U = N E Λ^{−½} Eᵀ, from Y = diag(√q) E, H = EᵀNᵀNE and EE = EᵀE."""
    scaled, norm = _scaled_values(values, H, EE)
    return np.asarray(s * squared_rows(operator, Y * scaled**-0.25) / norm)


def _scaled_values(values: Array, H: Array, EE: Array) -> tuple[Array, float]:
    """λ' with ‖Λ'^{−½} H Λ'^{−½}‖₂ ≤ 1, and a bound on ‖E‖₂; each direction pays for its own rounding."""
    if not len(values):
        # No cell with a weight is asked about.
        return values, 1.0
    # H is off by a matrix of about √k ε times its norm, which for weak directions is not nothing.
    rounding = _ROUNDINGS * math.sqrt(len(values)) * _EPS * float(values.max()) / values
    D = absolute_sums(H, np.sqrt(values)) + rounding + np.finfo(float).tiny
    return values * D, math.sqrt(1 + distance_from_identity(EE))


def table_stderr_bound(products: Products, weights: Array, p: Array, apart: Mapping[AxisSet, float]) -> float:
    """(1) for cross tables: weights c and p of the counts of each, and of pairs of records.

    Args:
        apart: as `ProductWitness` has it; all weight on (), a record beside none, is q alike for all cells.

    Σ_t √(S_t T_t) d_t is the nuclear norm, S_t = Σ_{j ⊇ t} p_j/n_j for tables of n_j counts, d_t the
    dimension of the residuals of t and T_t as in `apart`. Its derivative by √p_j is the sum of b over
    table j.
    """
    theta = np.array(list(apart.values()))
    if not theta.any() or not (weights * p > 0).any():
        return 0.0
    theta, p = theta / theta.max(), p / p.max()
    sizes = [size if kinds else 1 for size, kinds in zip(products.sizes, products.kinds, strict=True)]
    lattice = Lattice(products.sets, len(sizes))
    below = lattice.matrix(*(2 * [[np.ones(axes.shape) for _, axes in lattice.groups]]))
    counts = np.array([math.prod(sizes[a] for a in s) for s in products.sets], dtype=float)
    S = below.T @ (p / counts)
    T = apart_loads(lattice.subsets, list(apart), sizes).T @ theta
    d = lattice.product_over([max(size - 1, 0) for size in sizes])
    b = np.sqrt(p) * (below @ np.where(S > 0, np.sqrt(T / np.where(S > 0, S, 1)) * d, 0)) / counts**2
    return combined(weights, b, counts) / math.sqrt(math.fsum(theta))


def plain_stderr_bound(q: Array) -> float:
    """(1) for one count of each cell: b = √q."""
    q = q[q > 0]
    return combined(np.ones(len(q)), np.sqrt(q)) / math.sqrt(math.fsum(q)) if len(q) else 0.0
