"""The directions that a workload asks about: an integer basis and a factor of its Gram matrix.

Rounding must never change what can be answered. So a strategy is written on a
basis whose rows are queries of the workload itself (or cells, where everything is
asked), and only the coefficients on it are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise.decompositions import eigh
from leastnoise.errors import DesignError
from leastnoise.operators import Array, Operator, RowScaled, is_whole_space, require_room
from leastnoise.workload import Workload

# Directions weaker than this beside the strongest count as absent.
RANK_TOL = 1e-10

# Real-valued rows are kept to this many bits; integers are kept whole.
REAL_ROW_BITS = 40

# A dense factorisation of the queries is taken up to this many rows per cell;
# beyond it, their Gram matrix.
_TALL = 8

# Where the least eigenvalue of a Gram matrix is above this share of the largest, its square root
# knows the weakest direction to five digits. The loss from what is not known is a square of that.
_GRAM_RATIO = 1e-10

# Numbers of random combinations in which a low rank is sought, and the most that it may be
# of the smaller side: above, everything is decomposed.
_SKETCHES, _LOW = (128, 512, 2048), 0.25

# So many more combinations than directions make it all but certain that none is missed.
_OVERSAMPLING = 16


@dataclass(frozen=True, eq=False)
class Basis:
    """Rows that span the workload: `rows` is an integer (k, n) array, None for every cell.

    `merges_near_parallel` says that rows equal but for their last digits were taken as one.
    """

    rows: Array | None
    rank: int
    merges_near_parallel: bool = False


def integer_basis(workload: Workload) -> Basis:
    """An integer basis of the workload's row space, made of its own rows.

    Whole-number queries give it exactly, except that rows parallel to within RANK_TOL
    of their size count as one. Real-valued rows that do not span every
    cell are rounded to REAL_ROW_BITS; the answers are then those of queries that
    differ from the ones asked by that rounding.
    """
    n = workload.shape[1]
    spanning = workload.operator.basis()
    if is_whole_space(spanning):
        return Basis(None, n)
    require_room(*spanning.shape, "the rows that span the workload")
    rows = spanning.dense()
    scales = np.abs(rows).max(axis=1, initial=0)
    rows, scales = rows[scales > 0], scales[scales > 0]
    if len(rows) == 0:
        return Basis(np.zeros((0, n), dtype=np.int64), 0)
    chosen = _independent(rows / scales[:, None])
    rank = len(chosen)
    if rank == n:
        return Basis(None, n)
    if spanning.is_integer:
        picked = spanning.dense(np.int64)
        return Basis(picked[np.flatnonzero(np.abs(picked).max(axis=1) > 0)][chosen], rank)
    merges = _has_near_parallel(rows / scales[:, None], chosen)
    # Each row on its own dyadic grid: a power of two changes no direction.
    exponents = np.frexp(scales[chosen])[1]
    grid = np.rint(np.ldexp(rows[chosen], (REAL_ROW_BITS - exponents)[:, None]))
    return Basis(_without_common_twos(grid.astype(np.int64)), rank, merges)


def _independent(rows: Array) -> Array:
    """Positions, rising, of rows that span all to within RANK_TOL; each row's largest entry is 1.

    Two short cuts come before a pivoted factorisation of all. A low rank shows in a few random
    combinations of the columns. And many rows that reach every cell, none barely, show it by a
    Cholesky factor of their Gram matrix.
    """
    m, n = rows.shape
    generator = np.random.default_rng(0)
    for size in _SKETCHES:
        if size > _LOW * min(m, n):
            break
        sketch = rows @ generator.standard_normal((n, size)) / np.sqrt(size)
        found = _pivots(sketch)
        if len(found) <= size - _OVERSAMPLING:
            chosen = found[_pivots(rows[found])]
            if _spans(rows[chosen], rows):
                return np.sort(chosen)
    if m > 2 * n and _is_well_conditioned(rows.T @ rows):
        # Which rows does not matter: their span is that of the cells, which are taken instead.
        return np.arange(n)
    return np.sort(_pivots(rows))


def _is_well_conditioned(gram: Array) -> bool:
    """Whether a Gram matrix has no eigenvalue below about _GRAM_RATIO of its largest."""
    from scipy import linalg

    bound = np.abs(gram).sum(axis=1).max()
    gram[np.diag_indices(len(gram))] -= _GRAM_RATIO * bound
    try:
        linalg.cholesky(gram, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return False
    return True


def _pivots(rows: Array) -> Array:
    """Positions of independent rows, the strongest first, by a pivoted factorisation."""
    from scipy import linalg

    triangle, order = linalg.qr(rows.T, mode="r", pivoting=True, check_finite=False)
    strength = np.abs(np.diag(triangle))
    return np.asarray(order[: int((strength > RANK_TOL * strength[0]).sum())])


def _spans(chosen: Array, rows: Array) -> bool:
    """Whether all rows lie within RANK_TOL of what the chosen ones span, as a factorisation would say."""
    from scipy import linalg

    Q = linalg.qr(chosen.T, mode="economic", check_finite=False)[0]
    longest = np.sqrt((rows**2).sum(axis=1).max())
    step = max(1, 2**24 // rows.shape[1])
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        left = part - (part @ Q) @ Q.T
        if np.sqrt((left**2).sum(axis=1).max()) > RANK_TOL * longest:
            return False
    return True


def _has_near_parallel(rows: Array, chosen: Array) -> bool:
    """Whether some row differs from a chosen one, or its negative, by less than RANK_TOL but not by 0."""
    lengths = np.sqrt((rows**2).sum(axis=1))
    kept = rows[chosen]
    # The largest entry of every row is 1, so these have a cosine within n · 1e-20, and rounding, of 1.
    cosines = np.abs((rows @ kept.T) / lengths[:, None] / lengths[chosen])
    for i, j in zip(*np.nonzero(cosines > 1 - 1e-10), strict=True):
        apart = min(np.abs(kept[j] - rows[i]).max(), np.abs(kept[j] + rows[i]).max())
        if 0 < apart < RANK_TOL:
            return True
    return False


def factor_gram(workload: Workload, *, rank: int) -> Array:
    """R, (rank, n), with RᵀR = V, the weighted Gram matrix.

    Raises:
        DesignError: if queries of weight zero reach outside all others.
    """
    m, n = workload.shape
    if rank == 0:
        return np.zeros((0, n))
    weighted = RowScaled(workload.operator, np.sqrt(workload.weights))
    if rank <= _LOW * min(m, n) and m * rank <= 2**26:
        values, vectors = _low_rank_factor(weighted, rank)
        tolerance = RANK_TOL
    elif m <= _TALL * n and m * n <= 2**26:
        values, vectors = _dense_factor(weighted.dense(), rank)
        tolerance = RANK_TOL
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            V = workload.weighted_gram()
        if not np.isfinite(V).all():
            raise DesignError("the weighted queries are too large for floats; scale weights or rows down")
        values, vectors = _gram_factor(V)
        tolerance = max(RANK_TOL, np.sqrt(n * np.finfo(float).eps))
    found = int((values > tolerance * values[0]).sum())
    if found < rank:
        _explain_missing(workload, found, rank)
    factor = vectors[:rank]
    factor *= values[:rank, None]
    return factor


def _low_rank_factor(weighted: Operator, rank: int) -> tuple[Array, Array]:
    """Singular values and right vectors of a matrix of few directions, by random combinations of its rows.

    What is found is orthonormal and spans the rows; the values come from the queries themselves.
    Rank 100, 8,192 queries over as many cells: 3 s on one core.
    """
    from scipy import linalg

    m, n = weighted.shape
    size = min(rank + _OVERSAMPLING, n)
    combined = weighted.adjoint(np.random.default_rng(0).standard_normal((m, size)))
    if not np.isfinite(combined).all():
        raise DesignError("the weighted queries are too large for floats; scale weights or rows down")
    Q = linalg.qr(combined, mode="economic", check_finite=False)[0]
    triangle = linalg.qr(weighted.apply(Q), mode="r", check_finite=False)[0][:size]
    _, values, turn = linalg.svd(triangle, full_matrices=False, check_finite=False)
    return values, turn @ Q.T


def _dense_factor(scaled: Array, rank: int) -> tuple[Array, Array]:
    """Singular values, falling, and right vectors as rows, from the queries themselves where they need it."""
    from scipy import linalg

    m, n = scaled.shape
    # Squaring costs half the digits, and a third of the time.
    if rank == n:
        with np.errstate(over="ignore", invalid="ignore"):
            V = scaled.T @ scaled
        if np.isfinite(V).all():
            values, vectors = _gram_factor(V)
            if values[-1] ** 2 > _GRAM_RATIO * values[0] ** 2:
                return values, vectors
    if m > n:
        scaled = linalg.qr(scaled, mode="r", check_finite=False)[0][:n]
    _, values, vectors = linalg.svd(scaled, full_matrices=False, check_finite=False)
    return values, vectors


def _gram_factor(V: Array) -> tuple[Array, Array]:
    """Square roots of the eigenvalues, falling, and eigenvectors as rows; V is overwritten."""
    squares, columns = eigh(V, overwrites=True)
    return np.sqrt(np.maximum(squares[::-1], 0)), columns[:, ::-1].T


def _explain_missing(workload: Workload, found: int, rank: int) -> None:
    for block in workload.blocks:
        if (block.weights == 0).any():
            raise DesignError(
                f"query {block.name!r} has weight 0 and asks for something no other query does, so any "
                "noise would do for it; give it a weight or leave it out"
            )
    raise DesignError(
        f"the weighted queries span {found} directions out of {rank} beyond rounding: their scales are too "
        "far apart. Bring the rows' sizes or weights closer together."
    )


def _without_common_twos(rows: Array) -> Array:
    """Each row divided by the largest power of two that divides all its entries."""
    combined = np.bitwise_or.reduce(rows, axis=1)
    lowest = combined & -combined
    return rows // np.where(lowest > 0, lowest, 1)[:, None]
