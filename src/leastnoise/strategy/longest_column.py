"""The longest column of integer combinations of queries, exactly: max_i ‖C b_i‖².

Floats with a bound on their error leave a few columns, which are then worked out in integers. Where queries
look at few attributes each, ‖C b_i‖² = b_iᵀ(CᵀC)b_i comes by passes over all columns, and only
columns that rounding could make the longest are multiplied by C.
"""

from __future__ import annotations

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.operators import Array
from leastnoise.strategy.query_columns import BLOCK, Passes, QueryColumns

# Columns worked on at a time in integers.
_EXACT_BLOCK = 512

# The unit of rounding of a float, twice: what is added for one operation.
_EPS = float(np.finfo(float).eps)


def longest_column(C: Array, columns: QueryColumns) -> tuple[int, int]:
    """max_i ‖C b_i‖², and a column that has it; (0, 0) where there is none.

    Args:
        C: (k, k), whole numbers, upper triangular.
        columns: b_i, (k, d), whole numbers.

    Guarantee:
        Exact. A column is left out only where its squared length in floats, with the largest error that
        rounding can have, is below another's less its error.
    """
    unit = float(np.abs(C).max(initial=0)) or 1.0
    scaled = C.astype(float) / unit  # a power of two or not, one more rounding of each entry
    candidates = np.arange(columns.shape[1])
    passes = columns.passes
    if passes is not None:
        found = passes.squares(scaled.T @ scaled)
        candidates = _possible(found, _error_of_passes(scaled, passes))
    found, error = _lengths(scaled, columns, candidates)
    candidates = candidates[_possible(found, error)]
    best = (0, 0)
    for start in range(0, len(candidates), _EXACT_BLOCK):
        some = candidates[start : start + _EXACT_BLOCK]
        rows = exact.product(C, columns.take(some).astype(np.int64))
        best = max([best, *zip(exact.column_square_sums(rows), some.tolist(), strict=True)])
    return best


def _possible(found: Array, error: Array) -> Array:
    """Positions of numbers of which, with these errors, none is known to be less than another."""
    return np.flatnonzero(found + error >= float((found - error).max(initial=0.0)))


def _error_of_passes(C: Array, passes: Passes) -> Array:
    """A bound on the error of b_iᵀ(CᵀC)b_i by passes over all columns.

    Every number is one of sums of at most k terms, and then of `n_terms`. What is summed is at most
    |b|ᵀ|C|ᵀ|C||b| ≤ ‖C‖_F² ‖b‖² in all: the error is at most (k + n_terms) ε of that. ‖b‖² is a sum of
    squares of whole numbers.
    """
    terms = len(C) + passes.n_terms + 16
    squares = passes.squares(np.eye(len(C)))
    return np.asarray(2 * terms * _EPS * float(np.linalg.norm(C)) ** 2 * squares)


def _lengths(C: Array, columns: QueryColumns, some: Array) -> tuple[Array, Array]:
    """‖C b_i‖ for some columns, and a bound on its error.

    A product of k terms errs by at most (k + 2) ε |C| |b|, so ‖C b‖ by at most (k + 2) ε ‖C‖_F ‖b‖.
    """
    from scipy.linalg import blas

    k = len(C)
    triangle = np.asfortranarray(C)
    size = float(np.linalg.norm(C))
    found, error = np.empty(len(some)), np.empty(len(some))
    for start in range(0, len(some), BLOCK):
        at = slice(start, start + BLOCK)
        b = columns.take(some[at]).astype(float, order="F")
        error[at] = (k + 8) * _EPS * size * np.sqrt((b**2).sum(axis=0))
        # A product with a triangle takes half of what one with a square takes.
        image = blas.dtrmm(1.0, triangle, b, overwrite_b=1)
        found[at] = np.sqrt((image**2).sum(axis=0))
    return found, error + (k + 8) * _EPS * found
