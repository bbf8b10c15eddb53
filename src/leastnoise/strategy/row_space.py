"""The directions that a workload asks about: an integer basis and a factor of its Gram matrix.

Rounding must never change what can be answered. So a strategy is written on an integer basis, and only
the coefficients on it are rounded. Whole-number queries are their own basis, exactly. Queries W with other
real coefficients get an orthonormal basis of their span, rounded to a dyadic grid: B. What is answered is
then W' = L B, with real L, and how far that is from W is stated (`Plan.distance`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise.core.decompositions import eigh, svd
from leastnoise.core.errors import DesignError
from leastnoise.core.numerical_rank import (
    GRAM_RATIO,
    LOW_RANK,
    directions_of,
    independent_rows,
    is_within_reach,
    of_unit_length,
)
from leastnoise.core.operators import Array, RowScaled, is_whole_space, require_room
from leastnoise.query import Workload
from leastnoise.strategy.grid import REAL_ROW_BITS

# Real-valued rows that are whole numbers of up to this many bits, but for a power of two, are kept as they
# are: 0.5, 0.25 and the like.
_SHORT_BITS = 40

# Cells. From this number on, queries whose Gram matrix is known by structure are not written out for it: a
# product of 8,192 prefix sums takes as long as a step of the search.
_STRUCTURED_CELLS = 512

# A dense factorisation of the queries is taken up to this many rows per cell;
# beyond it, their Gram matrix.
_TALL = 8

# Directions that the weighted queries ask for more weakly than this, beside the strongest, are treated as
# asked for this strongly. It costs less than this share of the noise for each of them, and leaves no
# direction so weak that rounding hides it.
_LEAST_STRENGTH = 1e-10

# Where squares hide the weakest directions, the queries themselves are factored, block by block, up to this
# many multiplications: a minute or so.
_MOST_FACTORED = 2**36


@dataclass(frozen=True, eq=False)
class Basis:
    """Rows that span the workload: `rows` is an integer (k, n) array, None for every cell."""

    rows: Array | None
    rank: int

    @cached_property
    def directions(self) -> Array | None:
        """An orthonormal basis of the same span, (n, k); None for every cell."""
        from scipy import linalg

        if self.rows is None:
            return None
        return np.asarray(linalg.qr(self.rows.T.astype(float), mode="economic", check_finite=False)[0])


def integer_basis(workload: Workload) -> Basis:
    """An integer basis of the workload's row space, by the criterion of `numerical_rank`.

    Whole-number queries give it exactly, in rows of their own, except that rows closer than RANK_TOL to
    what others span count as spanned. For other real-valued queries that do not reach every cell the basis is
    orthonormal but for a power of two, and rounded to REAL_ROW_BITS.
    """
    n = workload.shape[1]
    spanning = workload.operator.basis()
    if is_whole_space(spanning):
        return Basis(None, n)
    require_room(*spanning.shape, "the rows that span the workload")
    rows = spanning.dense(np.int64) if spanning.is_integer else spanning.dense()
    return basis_of(rows[rows.any(axis=1)])


def basis_of(rows: Array, lengths: Array | None = None) -> Basis:
    """An integer basis of what some rows span; int64 rows are whole numbers, others are real.

    Args:
        lengths: beside which each row counts; its own length unless given.
    """
    from scipy import linalg

    n = rows.shape[1]
    real = rows.astype(float)
    unit = of_unit_length(real) if lengths is None else real / lengths[:, None]
    chosen = independent_rows(unit)
    rank = len(chosen)
    if rank == n:
        return Basis(None, n)
    if rows.dtype.kind == "i":
        return Basis(rows[chosen], rank)
    whole = as_short_integers(rows[chosen])
    if whole is not None:
        return Basis(whole, rank)
    Q = linalg.qr(unit[chosen].T, mode="economic", check_finite=False)[0]
    return Basis(np.rint(np.ldexp(Q.T, REAL_ROW_BITS)).astype(np.int64), rank)


def as_short_integers(rows: Array) -> Array | None:
    """The rows times a power of two each, where that makes whole numbers of _SHORT_BITS; else None."""
    # A power of two changes no direction.
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0))[1]
    scaled = np.ldexp(rows, (_SHORT_BITS - exponents)[:, None])
    whole = np.rint(scaled)
    return _without_common_twos(whole.astype(np.int64)) if (whole == scaled).all() else None


def factor_gram(workload: Workload, basis: Basis) -> Array:
    """R, (k, n), of rank k, with RᵀR = V, the weighted Gram matrix, on the span of the basis.

    Its rows are orthogonal, the strongest first. Directions below _LEAST_STRENGTH of the strongest are raised
    to that, so that RᵀR − V is at most its square.

    Raises:
        DesignError: if queries of weight zero reach outside all others.
    """
    m, n = workload.shape
    k, Q = basis.rank, basis.directions
    if k == 0:
        return np.zeros((0, n))
    _require_counted(workload, basis)
    weighted = RowScaled(workload.operator, np.sqrt(workload.weights))
    is_short = m <= _TALL * n or k <= LOW_RANK * min(m, n)
    if is_short and m * max(k, n if Q is None else 1) <= 2**26:
        is_known = Q is None and n >= _STRUCTURED_CELLS and workload.operator.is_quick
        rows = None if is_known else _finite(weighted.dense() if Q is None else weighted.apply(Q))
        with np.errstate(over="ignore", invalid="ignore"):
            # Squaring costs half the digits, and takes a third of the time.
            V = workload.weighted_gram() if rows is None else rows.T @ rows
        factor = _clear_gram_factor(V)
        if factor is None:
            factor = _dense_factor(_finite(weighted.dense()) if rows is None else rows)
        values, turn = factor
        least = _LEAST_STRENGTH
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            V = _finite(workload.weighted_gram())
            values, turn = _gram_factor(V if Q is None else Q.T @ V @ Q)
        # Weaker ones are lost in squares.
        least = max(_LEAST_STRENGTH, float(np.sqrt(n * np.finfo(float).eps)))
        if values[-1] < least * values[0] and m * k * k <= _MOST_FACTORED:
            values, turn = _factor_in_blocks(weighted, Q)
            least = _LEAST_STRENGTH
    turn *= np.maximum(values, least * values[0])[:, None]
    return np.asarray(turn if Q is None else turn @ Q.T)


def _finite(entries: Array) -> Array:
    if not np.isfinite(entries).all():
        raise DesignError(
            "the weighted queries are too large for floats",
            field="workload",
            remedy="scale weights or rows down",
        )
    return entries


def _dense_factor(rows: Array) -> tuple[Array, Array]:
    """Singular values, falling, and right vectors as rows, from the rows themselves."""
    from scipy import linalg

    m, k = rows.shape
    if m > k:
        rows = linalg.qr(rows, mode="r", check_finite=False)[0][:k]
    _, values, turn = svd(rows)
    return values, turn


def _clear_gram_factor(V: Array) -> tuple[Array, Array] | None:
    """As `_gram_factor`; None where squares hide the weakest directions."""
    if not np.isfinite(V).all():
        return None
    values, turn = _gram_factor(V)
    return (values, turn) if values[-1] ** 2 > GRAM_RATIO * values[0] ** 2 else None


def _factor_in_blocks(weighted: RowScaled, Q: Array | None) -> tuple[Array, Array]:
    """As `_dense_factor`, of many rows: the triangle of each block joins the next."""
    from scipy import linalg

    m, n = weighted.shape
    k = n if Q is None else Q.shape[1]
    triangle, step = np.zeros((0, k)), max(k, 2**22 // n)
    for start in range(0, m, step):
        rows = weighted.rows(np.arange(start, min(start + step, m)))
        rows = np.vstack([triangle, rows if Q is None else rows @ Q])
        triangle = linalg.qr(rows, mode="r", check_finite=False)[0][:k]
    _, values, turn = svd(triangle)
    return values, turn


def _gram_factor(V: Array) -> tuple[Array, Array]:
    """Square roots of the eigenvalues, falling, and eigenvectors as rows; V is overwritten."""
    squares, columns = eigh(V, overwrites=True)
    return np.sqrt(np.maximum(squares[::-1], 0)), columns[:, ::-1].T


def _require_counted(workload: Workload, basis: Basis) -> None:
    """Return if the queries of positive weight span what all span.

    Raises:
        DesignError: naming a query that has none.
    """
    weights = workload.weights
    if (weights > 0).all():
        return
    counted = np.flatnonzero(weights > 0)
    if len(counted):
        spanning = workload.operator_at(counted).basis()
        if is_whole_space(spanning):
            return
        require_room(*spanning.shape, "the queries that count")
        Q = directions_of(spanning.dense())
        span = np.eye(workload.shape[1]) if basis.directions is None else basis.directions.T
        if is_within_reach(span - (span @ Q) @ Q.T, span).all():
            return
    for block in workload.blocks:
        if (block.weights == 0).any():
            raise DesignError(
                f"query {block.name!r} has weight 0 and asks for something no other query does, so any "
                "noise would do for it",
                field="weight",
                given=block.name,
                remedy="give it a weight or leave it out",
            )


def _without_common_twos(rows: Array) -> Array:
    """Each row divided by the largest power of two that divides all its entries."""
    combined = np.bitwise_or.reduce(rows, axis=1)
    lowest = combined & -combined
    return rows // np.where(lowest > 0, lowest, 1)[:, None]
