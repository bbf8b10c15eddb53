"""Eigendecompositions on the device that searches, and systems of clearly full rank solved by a triangle.

Nothing rests on the accuracy of eigendecompositions: what factors a workload is judged by the proof, and the
proof takes any matrix for the eigenvectors (`bounds.nuclear_norm`). At 8,192 cells a GPU decomposes in a
second what one core takes minutes for.

A triangle takes a fifth of the time of singular values or less. Where it leaves the rank in doubt, the
functions for systems of full rank give None, and singular values must decide.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from leastnoise.core.operators import Array

# Eigenvalues, rising, and eigenvectors as columns; the argument is left as it is.
Decompose = Callable[[Array], tuple[Array, Array]]

# Below this many rows the way to a device takes longer than the decomposition.
_SMALL = 512

_by: ContextVar[Decompose | None] = ContextVar("decompose", default=None)


@contextmanager
def decomposed_by(decompose: Decompose | None) -> Iterator[None]:
    """Within, `eigh` hands its larger matrices to this function; None for SciPy."""
    before = _by.set(decompose)
    try:
        yield
    finally:
        _by.reset(before)


def eigh(symmetric: Array, *, overwrites: bool = False) -> tuple[Array, Array]:
    """Eigenvalues, rising, and eigenvectors as columns.

    Args:
        overwrites: whether the argument may be overwritten.
    """
    from scipy import linalg

    decompose = _by.get()
    if decompose is not None and len(symmetric) >= _SMALL:
        try:
            return decompose(symmetric)
        except RuntimeError as error:  # a device that is out of memory must not cost a search that is done
            reason = str(error).partition("\n")[0]
            told = f"the device could not decompose {len(symmetric):,} rows, and SciPy does: {reason}"
            warnings.warn(told, RuntimeWarning, stacklevel=2)
    # Symmetric, so its transpose is the same matrix in the order that LAPACK overwrites.
    values, vectors = linalg.eigh(symmetric.T, overwrite_a=overwrites, driver="evd")
    return values, vectors


# Smallest singular values from this share of the largest on are clearly no rounding, though the share is
# an estimate that may be ten times too large.
_CLEAR = 1e-8


def full_rank_inverse(A: Array) -> Array | None:
    """A⁺, (n, r), of a matrix whose rows or columns, whichever are fewer, are clearly independent."""
    from scipy import linalg

    is_tall = A.shape[0] > A.shape[1]
    factors = _clear_factors(A if is_tall else A.T)
    if factors is None:
        return None
    Q, triangle = factors
    inverse = linalg.solve_triangular(triangle, Q.T, check_finite=False)
    return np.asarray(inverse if is_tall else inverse.T)


def coefficients_on(rows: Array, A: Array) -> Array | None:
    """C with C · rows = A, where the rows are clearly independent and A lies in what they span."""
    from scipy import linalg

    factors = _clear_factors(rows.T)
    if factors is None:
        return None
    Q, triangle = factors
    return np.asarray(linalg.solve_triangular(triangle, Q.T @ A.T, check_finite=False).T)


def _clear_factors(tall: Array) -> tuple[Array, Array] | None:
    """Orthonormal Q and a triangle with the product given, or None where columns may be dependent."""
    from scipy import linalg
    from scipy.linalg import lapack

    if tall.shape[0] < tall.shape[1] or tall.shape[1] == 0:
        return None
    Q, triangle = linalg.qr(tall, mode="economic", check_finite=False)
    if not np.isfinite(triangle).all():
        return None
    share, failed = lapack.dtrcon(triangle, norm="1")
    # The norm of that estimate and the largest singular value differ by √k at most, and so for the inverse.
    return (Q, triangle) if failed == 0 and share > _CLEAR * len(triangle) else None
