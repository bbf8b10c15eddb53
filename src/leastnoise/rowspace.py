"""The directions that a workload asks about: an integer basis and a factor of its Gram matrix.

Rounding must never change what can be answered. So a strategy is written on a
basis whose rows are queries of the workload itself (or cells, where everything is
asked), and only the coefficients on it are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise.errors import DesignError
from leastnoise.operators import Array, RowScaled, is_whole_space, require_room
from leastnoise.workload import Workload

# Directions weaker than this beside the strongest count as absent.
RANK_TOL = 1e-10

# Real-valued rows are kept to this many bits; integers are kept whole.
REAL_ROW_BITS = 40

# A dense factorisation of the queries is taken up to this many rows per cell;
# beyond it, their Gram matrix.
_TALL = 8


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
    from scipy import linalg

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
    _, triangle, order = linalg.qr((rows / scales[:, None]).T, mode="economic", pivoting=True)
    strength = np.abs(np.diag(triangle))
    rank = int((strength > RANK_TOL * strength[0]).sum())
    if rank == n:
        return Basis(None, n)
    chosen = np.sort(order[:rank])
    if spanning.is_integer:
        picked = spanning.dense(np.int64)
        return Basis(picked[np.flatnonzero(np.abs(picked).max(axis=1) > 0)][chosen], rank)
    merges = _has_near_parallel(rows / scales[:, None], chosen)
    # Each row on its own dyadic grid: a power of two changes no direction.
    exponents = np.frexp(scales[chosen])[1]
    grid = np.rint(np.ldexp(rows[chosen], (REAL_ROW_BITS - exponents)[:, None]))
    return Basis(_without_common_twos(grid.astype(np.int64)), rank, merges)


def _has_near_parallel(rows: Array, chosen: Array) -> bool:
    """Whether some row differs from a chosen one, or its negative, by less than RANK_TOL but not by 0."""
    kept = rows[chosen]
    for row in rows:
        apart = np.minimum(np.abs(kept - row).max(axis=1), np.abs(kept + row).max(axis=1))
        if ((apart > 0) & (apart < RANK_TOL)).any():
            return True
    return False


def factor_gram(workload: Workload, *, rank: int) -> Array:
    """R, (rank, n), with RᵀR = V, the weighted Gram matrix.

    Raises:
        DesignError: if queries of weight zero reach outside all others.
    """
    from scipy import linalg

    m, n = workload.shape
    if rank == 0:
        return np.zeros((0, n))
    if m <= _TALL * n and m * n <= 2**26:
        # The queries themselves: squaring them would cost half the digits.
        scaled = RowScaled(workload.operator, np.sqrt(workload.weights)).dense()
        if m > n:
            scaled = linalg.qr(scaled, mode="r", check_finite=False)[0][:n]
        _, values, vectors = linalg.svd(scaled, full_matrices=False, check_finite=False)
        tolerance = RANK_TOL
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            V = workload.weighted_gram()
        if not np.isfinite(V).all():
            raise DesignError("the weighted queries are too large for floats; scale weights or rows down")
        squares, columns = linalg.eigh(V)
        values, vectors = np.sqrt(np.maximum(squares[::-1], 0)), columns[:, ::-1].T
        tolerance = max(RANK_TOL, np.sqrt(n * np.finfo(float).eps))
    found = int((values > tolerance * values[0]).sum())
    if found < rank:
        _explain_missing(workload, found, rank)
    return values[:rank, None] * vectors[:rank]


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
