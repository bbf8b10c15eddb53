"""Design queries: integer bases of each attribute, crossed over attributes.

    wavelet    total, then left half against right half of every node of a binary tree
    fourier    total, then rows orthogonal to it and to one another, all of one length
    identity   the values themselves
    tree       every node of a binary tree; more rows than values

Bases of several attributes are Kronecker products. Reference: Li and Miklau (2012),
adaptive mechanism, sections 3.2 and 5.3, which takes the first two as design queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from leastnoise.core.operators import Array, Kronecker, Matrix, kronecker
from leastnoise.planning.method import Request

# A design query whose share of the costs is below this is rounding, and not needed.
NEEDED = 1e-13

# And one that is needed costs at least this share: rows weaker than 1e-5 beside the strongest, which
# weigh c^¼ (Gaussian) or c^⅓ (Laplace), would be lost to rounding when answers are put together.
LEAST = 1e-12


def wavelet_basis(n: int) -> Array:
    """n orthogonal integer rows: the total, and for every node of a binary tree left half against right.

    The halves are weighed so that a row sums to zero. For 5 values:

        1  1  1  1  1
        3  3 −2 −2 −2
        1 −1  0  0  0
        0  0  2 −1 −1
        0  0  0  1 −1

    At powers of two these are the Haar wavelets. For other n their total variance is less than
    that of 1 against −1, by 5 % for prefix sums of 100 values, by 8 % with Laplace noise.
    """
    rows = [np.ones(n, dtype=np.int64)]
    level = [(0, n)]
    while level:
        following = []
        for low, high in level:
            if high - low == 1:
                continue
            middle = (low + high) // 2
            shared = math.gcd(middle - low, high - middle)
            row = np.zeros(n, dtype=np.int64)
            row[low:middle] = (high - middle) // shared
            row[middle:high] = -(middle - low) // shared
            rows.append(row)
            following += [(low, middle), (middle, high)]
        level = following
    return np.array(rows)


def fourier_basis(n: int) -> Array:
    """n orthogonal integer rows over n values, the first of them the total.

    With n = 2^a·m, m odd: the Walsh matrix of 2^a, entries ±1, crossed with the rows of
    Helmert over m values. For binary attributes these are the Fourier queries of Barak
    et al. The Fourier basis of other sizes is complex; Helmert's rows stand in for it,
    because they span the same subspaces, the total and its complement, in integers.

        n = 2:  1  1        n = 3:  1  1  1
                1 −1                1 −1  0
                                    1  1 −2
    """
    walsh = np.ones((1, 1), dtype=np.int64)
    while n % 2 == 0:
        walsh = np.kron(np.array([[1, 1], [1, -1]], dtype=np.int64), walsh)
        n //= 2
    helmert = np.ones((n, n), dtype=np.int64)
    for row in range(1, n):
        helmert[row, row], helmert[row, row + 1 :] = -row, 0
    return np.kron(walsh, helmert)


def identity_basis(n: int) -> Array:
    """The n values themselves."""
    return np.eye(n, dtype=np.int64)


SQUARE_BASES: dict[str, Callable[[int], Array]] = {
    "wavelet": wavelet_basis,
    "fourier": fourier_basis,
    "identity": identity_basis,
}


def product_costs(factors: Sequence[Array], request: Request) -> Array:
    """c_i, the squared norm of column i of W Q⁻¹, for Q the product of square orthogonal factors.

    Zero for rows that no query needs. Rows that only light queries need cost at least LEAST
    of the dearest, so that these queries can be answered too.
    """
    workload, weights = request.workload, request.objective.weights(request.workload)
    costs = _projections(factors, workload.weighted_gram(weights))
    # What is needed does not depend on weights; where they differ, light queries would get lost.
    uneven = not (weights == weights[0]).all()
    plain = _projections(factors, workload.weighted_gram(np.ones(len(weights)))) if uneven else costs
    lengths = row_lengths(kronecker(list(factors))) ** 2
    needed = plain * lengths > NEEDED * float((plain * lengths).max())
    return np.where(needed, np.maximum(costs, LEAST * float((costs * lengths).max()) / lengths), 0.0)


def _projections(factors: Sequence[Array], V: Array) -> Array:
    """The diagonal of Q⁻ᵀ V Q⁻¹, one attribute at a time."""
    inverse = Kronecker(
        [Matrix(factor / (factor.astype(float) ** 2).sum(axis=1)[:, None]) for factor in factors]
    )
    return np.diag(inverse.apply(inverse.apply(V).T)).copy()


def row_lengths(rows: Array) -> Array:
    """The Euclidean norm of each row, (k,)."""
    return np.sqrt((rows.astype(float) ** 2).sum(axis=1))


def equal_lengths(rows: Array, bits: int = 30) -> Array:
    """Integer rows of the same directions whose lengths agree to a share of about 2^−bits.

    Rows that agree already are left as they are.
    """
    lengths = row_lengths(rows)
    if lengths.max() - lengths.min() <= 1e-14 * lengths.max():
        return rows
    return scaled_rows(rows, lengths.max() / lengths, bits)


def scaled_rows(rows: Array, weights: Array, bits: int = 30) -> Array:
    """Integer rows k_i·row_i with k_i near a common multiple of weights; rows of weight zero are left out.

    Directions stay exact, whatever the weights: only their multiples are rounded, the
    smallest to a share of 2^−bits, as far as 62 bits hold the largest entry.
    """
    kept = weights > 0
    rows, weights = rows[kept], weights[kept]
    largest = float((np.abs(rows).max(axis=1) * weights).max())
    room = 2.0**61 / largest
    scale = 2.0 ** math.floor(math.log2(min(2.0**bits / float(weights.min()), room)))
    multiples = np.maximum(np.rint(weights * scale), 1).astype(np.int64)
    # A common factor of two is nothing but longer integers.
    shared = int(np.bitwise_or.reduce(multiples))
    return rows * (multiples // (shared & -shared))[:, None]
