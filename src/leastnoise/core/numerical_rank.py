"""The rank of a set of rows, by one criterion for the whole package.

    A row counts at unit length. It adds a direction if more than RANK_TOL of it lies
    outside the directions found before it, the row with most outside taken next.

So every row lies within RANK_TOL of what is found, beside its own length, however small its coefficients
are beside those of others. Nothing else counts rank: singular values of rows of different sizes, or of
their squares, would count another one.
"""

from __future__ import annotations

import numpy as np

from leastnoise.core.operators import Array

# A part outside that is smaller than this share of a row's length counts as zero. Three times less than
# SPAN_TOL, so that rounding a basis cannot push a row that was counted as spanned out of reach.
RANK_TOL = 2.0**-35

# A query further than this from what was measured, beside its length, cannot be answered: at 2^33 people
# the bias of one let through, with coefficients of length one, is below one count.
SPAN_TOL = 1e-10

# Where all coefficients are whole and this share or less is left over, nothing is: it is rounding, which was
# 6e-15 at most over random queries, ranges and cross tables.
WHOLE_TOL = 5e-14

# Numbers of random combinations in which a low rank is sought.
_SKETCHES = (128, 512, 2048)

# A rank is low if it is at most this share of the smaller side: above, everything is decomposed.
LOW_RANK = 0.25

# This many more combinations than directions make it all but certain that none is missed.
_OVERSAMPLING = 16

# Where the least eigenvalue of a Gram matrix is above this share of the largest, its square root
# knows the weakest direction to five digits. The loss from what is not known is a square of that.
GRAM_RATIO = 1e-10


def row_lengths(rows: Array) -> Array:
    """The Euclidean norm of each row, (m,), also where squares would leave the range of floats."""
    largest = np.abs(rows).max(axis=1, initial=0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(unit * np.sqrt(((rows / unit[:, None]) ** 2).sum(axis=1)))


def of_unit_length(rows: Array) -> Array:
    """The rows, each divided by its own length; zero rows are left zero."""
    largest = np.abs(rows).max(axis=1, initial=0)
    scaled = rows / np.where(largest > 0, largest, 1.0)[:, None]
    scaled /= np.where(largest > 0, np.sqrt((scaled**2).sum(axis=1)), 1.0)[:, None]
    return np.asarray(scaled)


def numerical_rank(rows: Array) -> int:
    """The number of directions that rows of any sizes have."""
    return len(independent_rows(of_unit_length(rows)))


def independent_rows(rows: Array) -> Array:
    """Positions, rising, of rows that span all to within RANK_TOL.

    Two short cuts come before a pivoted factorisation of all. A low rank shows in a few random
    combinations of the columns. And many rows that reach every cell, none barely, show it by a
    Cholesky factor of their Gram matrix.

    Args:
        rows: (m, n), of length one at most, as `of_unit_length` gives them.
    """
    m, n = rows.shape
    if m == 0:
        return np.arange(0)
    generator = np.random.default_rng(0)
    for size in _SKETCHES:
        if size > LOW_RANK * min(m, n):
            break
        sketch = rows @ generator.standard_normal((n, size)) / np.sqrt(size)
        found = strongest_rows(sketch)
        if len(found) <= size - _OVERSAMPLING:
            chosen = found[strongest_rows(rows[found])]
            if _spans(rows[chosen], rows):
                return np.sort(chosen)
    if m > 2 * n and _is_well_conditioned(rows.T @ rows):
        # Which rows does not matter: their span is that of the cells, which are taken instead.
        return np.arange(n)
    return np.sort(strongest_rows(rows))


def directions_of(rows: Array) -> Array:
    """An orthonormal basis, (n, k), of what rows of any sizes span."""
    from scipy import linalg

    unit = of_unit_length(rows)
    return np.asarray(linalg.qr(unit[independent_rows(unit)].T, mode="economic", check_finite=False)[0])


def is_within_reach(left_over: Array, rows: Array) -> Array:
    """Of which rows, (m, n), no more is left over than a query that is answered may have, (m,) booleans."""
    return np.asarray(row_lengths(left_over) <= SPAN_TOL * np.maximum(row_lengths(rows), 1e-300))


def largest_share(left_over: Array, rows: Array) -> float:
    """The largest coefficient left over of a row, beside the row's own largest coefficient."""
    largest = np.abs(rows).max(axis=1, initial=0)
    shares = np.abs(left_over).max(axis=1, initial=0) / np.where(largest > 0, largest, 1.0)
    return float(shares.max(initial=0))


def _is_well_conditioned(gram: Array) -> bool:
    """Whether a Gram matrix has no eigenvalue below about GRAM_RATIO of its largest."""
    from scipy import linalg

    bound = np.abs(gram).sum(axis=1).max()
    gram[np.diag_indices(len(gram))] -= GRAM_RATIO * bound
    try:
        linalg.cholesky(gram, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return False
    return True


def strongest_rows(rows: Array) -> Array:
    """Positions of independent rows, the strongest first, by a pivoted factorisation of all.

    Args:
        rows: (m, n), of length one at most, as `of_unit_length` gives them.
    """
    from scipy import linalg

    triangle, order = linalg.qr(rows.T, mode="r", pivoting=True, check_finite=False)
    return np.asarray(order[: int((np.abs(np.diag(triangle)) > RANK_TOL).sum())])


def _spans(chosen: Array, rows: Array) -> bool:
    """Whether all rows lie within RANK_TOL of what the chosen ones span, as a factorisation would say."""
    from scipy import linalg

    Q = linalg.qr(chosen.T, mode="economic", check_finite=False)[0]
    step = max(1, 2**24 // rows.shape[1])
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        left = part - (part @ Q) @ Q.T
        if np.sqrt((left**2).sum(axis=1).max()) > RANK_TOL:
            return False
    return True


# A direction of which columns of unit length have less than this share is not spanned by them.
_SPANNED = 1e-7


def spanning_columns(columns: Array, outside: Array | None = None) -> tuple[Array, Array]:
    """Positions of columns that span what all do, beside what is spanned already, and what is spanned then.

    Args:
        columns: (k, s), of any lengths but 0.
        outside: an orthonormal basis, (k, r), of what is spanned already; nothing unless given.

    Returns:
        The positions, and an orthonormal basis, (k, r + new).
    """
    from scipy import linalg

    unit = columns / np.sqrt((columns**2).sum(axis=0))
    if outside is not None:
        unit -= outside @ (outside.T @ unit)
    Q, triangle, order = linalg.qr(unit, mode="economic", pivoting=True, check_finite=False)
    found = int((np.abs(np.diag(triangle)) > _SPANNED).sum())
    basis = Q[:, :found] if outside is None else np.hstack([outside, Q[:, :found]])
    return np.asarray(order[:found]), np.asarray(basis)
