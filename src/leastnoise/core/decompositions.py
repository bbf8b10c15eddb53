"""Dense linear algebra after and before a search, on the device that searches; systems of clearly full rank.

Eigenvectors, triangles and inverses are nowhere trusted: what factors a workload is judged by the proof, the
proof takes any matrix for the eigenvectors (`bounds.nuclear_norm`), and what is measured is rounded to
integers whose cost is counted exactly. Products that a proof does rest on are compared with the processor's
along random vectors (`agree_along`). At 8,192 cells a GPU does in a second what one core takes minutes for.

A triangle takes a fifth of the time of singular values or less. Where it leaves the rank in doubt, the
functions for systems of full rank give None, and singular values must decide.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import numpy as np

from leastnoise.core.backend import NUMPY, Backend
from leastnoise.core.operators import Array

# Below this many rows the way to a device takes longer than the decomposition.
_SMALL = 512

# The most by which two ways to take a product may differ, in roundings of its terms.
_ROUNDINGS = 64.0

# Singular values up to this share of the largest are rounding.
_ROUNDED = 1e-15

_device: ContextVar[Backend | None] = ContextVar("device", default=None)

_Result = TypeVar("_Result")


@contextmanager
def computed_on(device: Backend | None) -> Iterator[None]:
    """Within, the functions of this file hand larger matrices to the device; None for NumPy and SciPy."""
    before = _device.set(device)
    try:
        yield
    finally:
        _device.reset(before)


def there_or_here(
    n_rows: int, there: Callable[[Backend], _Result | None], here: Callable[[], _Result]
) -> _Result:
    """What the device finds for a large matrix; what SciPy finds for a small one, or if the device fails.

    Args:
        there: gives None where the device's products are wrong.
    """
    device = _device.get()
    if device is not None and n_rows >= _SMALL:
        try:
            found, reason = there(device), "its product is wrong"
        except RuntimeError as error:  # a device that is out of memory must not cost a search that is done
            found, reason = None, str(error).partition("\n")[0]
        if found is not None:
            return found
        warning = f"the device could not work on {n_rows:,} rows, and SciPy does: {reason}"
        warnings.warn(warning, RuntimeWarning, stacklevel=3)
    return here()


def eigh(symmetric: Array, *, overwrites: bool = False) -> tuple[Array, Array]:
    """Eigenvalues, rising, and eigenvectors as columns.

    Args:
        overwrites: whether the argument may be overwritten.
    """

    def there(device: Backend) -> tuple[Array, Array]:
        values, vectors = device.eigh(device.matrix(symmetric))
        return device.numpy(values), device.numpy(vectors)

    def here() -> tuple[Array, Array]:
        from scipy import linalg

        # Symmetric, so its transpose is the same matrix in the order that LAPACK overwrites.
        values, vectors = linalg.eigh(symmetric.T, overwrite_a=overwrites, driver="evd")
        return values, vectors

    return there_or_here(len(symmetric), there, here)


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """U, d and Vᵀ with matrix = U diag(d) Vᵀ, d falling, as many as the matrix has rows or columns.

    Raises:
        DesignError: if it does not converge.
    """
    return NUMPY.svd(matrix)


def singular_values(matrix: Array) -> Array:
    """The singular values of a matrix, falling.

    Raises:
        DesignError: as `svd`.
    """
    try:
        return np.linalg.svd(matrix, compute_uv=False)
    except np.linalg.LinAlgError:
        return svd(matrix)[1]


def has_full_rank(matrix: Array) -> bool:
    """Whether the columns of a matrix are independent but for rounding, by NumPy's measure.

    Raises:
        DesignError: as `svd`.
    """
    values = singular_values(matrix)
    return len(values) == matrix.shape[1] and bool(
        values[-1] > max(matrix.shape) * np.finfo(float).eps * values[0]
    )


def pseudo_inverse(matrix: Array) -> Array:
    """matrix⁺; directions below 1e-15 of the strongest are taken as rounding, as NumPy does.

    Raises:
        DesignError: as `svd`.
    """
    try:
        return np.linalg.pinv(matrix, rcond=_ROUNDED)
    except np.linalg.LinAlgError:
        U, d, Vt = svd(matrix)
        kept = d > _ROUNDED * d.max(initial=0)
        return np.asarray((Vt[kept].T / d[kept]) @ U[:, kept].T)


def triangle_of(rows: Array) -> Array:
    """The upper triangular factor of a QR decomposition, with min(rows, columns) rows."""

    def there(device: Backend) -> Array:
        return device.numpy(device.triangle(device.matrix(rows)))

    return there_or_here(min(rows.shape), there, lambda: NUMPY.triangle(rows))


def triangle_inverse(upper: Array) -> Array:
    """The inverse of an upper triangle without zeros on its diagonal; what is below is not read."""

    def there(device: Backend) -> Array:
        return device.numpy(device.upper_inverse(device.matrix(upper)))

    return there_or_here(len(upper), there, lambda: NUMPY.upper_inverse(upper))


def triangle_inverse_norm(upper: Array) -> float:
    """The Frobenius norm of the inverse of an upper triangle."""

    def norm(device: Backend) -> float:
        inverse = device.upper_inverse(device.matrix(upper))
        return math.sqrt(device.dot(inverse, inverse))

    return there_or_here(len(upper), norm, lambda: norm(NUMPY))


def agree_along(found: Array, expected: Array, length: float) -> bool:
    """Whether a product of a device with random vectors is that of the processor, but for rounding.

    Args:
        found: what the device found, (k, c).
        expected: the same by the processor.
        length: the length of the sums that every entry of the product is made of, at most.
    """
    allowed = _ROUNDINGS * math.sqrt(len(found)) * np.finfo(float).eps * length
    # Comparisons with NaN are false.
    return bool((np.abs(found - expected) <= allowed).all())


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
