"""Dense linear algebra after and before a search, on the device that searches; systems of clearly full rank.

Eigenvectors, triangles and inverses are nowhere trusted: what factors a workload is judged by the proof, the
proof takes any matrix for the eigenvectors (`bounds.nuclear_norm`), and what is measured is rounded to
integers whose cost is counted exactly. Products that a proof does rest on are compared with the processor's
along random vectors. At 8,192 cells a GPU does in a second what one core takes minutes for.

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

# Random vectors along which a product of the device is compared with that of the processor. An error t times
# larger than allowed passes one of them with a chance of about 1/t, and all of them with t^-8.
_CHECKED_ALONG = 8

# The most by which two ways to take a product may differ, in roundings of its terms.
_ROUNDINGS = 64.0

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


def _there_or_here(
    n_rows: int, there: Callable[[Backend], _Result | None], here: Callable[[], _Result]
) -> _Result:
    """What the device finds for a large matrix; what SciPy finds for a small one, or if the device fails."""
    device = _device.get()
    if device is not None and n_rows >= _SMALL:
        try:
            found = there(device)
            reason = "its product is wrong"
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

    return _there_or_here(len(symmetric), there, here)


def triangle_of(rows: Array) -> Array:
    """The upper triangular factor of a QR decomposition, with min(rows, columns) rows."""

    def there(device: Backend) -> Array:
        return device.numpy(device.triangle(device.matrix(rows)))

    return _there_or_here(min(rows.shape), there, lambda: NUMPY.triangle(rows))


def triangle_inverse(upper: Array) -> Array:
    """The inverse of an upper triangle without zeros on its diagonal; what is below is not read."""

    def there(device: Backend) -> Array:
        return device.numpy(device.upper_inverse(device.matrix(upper)))

    return _there_or_here(len(upper), there, lambda: NUMPY.upper_inverse(upper))


def form_along(K: Array, Y: Array) -> Array:
    """Yᵀ K Y for a symmetric K.

    Guarantee:
        A device's product differs by rounding from the processor's along random vectors; else it is not used.
    """

    def there(device: Backend) -> Array | None:
        moved = device.matrix(Y)
        found = device.numpy(moved.T @ (device.matrix(K) @ moved))
        length = float(np.linalg.norm(K)) * _largest_square(Y)
        return found if _agrees(found, lambda v: Y.T @ (K @ (Y @ v)), length) else None

    return _there_or_here(Y.shape[1], there, lambda: np.asarray(Y.T @ (K @ Y)))


def gram_of(Y: Array) -> Array:
    """YᵀY.

    Guarantee:
        As for `form_along`.
    """

    def there(device: Backend) -> Array | None:
        moved = device.matrix(Y)
        found = device.numpy(moved.T @ moved)
        return found if _agrees(found, lambda v: Y.T @ (Y @ v), _largest_square(Y)) else None

    return _there_or_here(Y.shape[1], there, lambda: np.asarray(Y.T @ Y))


def _largest_square(Y: Array) -> float:
    """The largest squared length of a column."""
    return float(np.einsum("ij,ij->j", Y, Y).max(initial=0))


def _agrees(found: Array, multiply: Callable[[Array], Array], length: float) -> bool:
    """Whether a square matrix multiplies random vectors as it should, beside the length of its entries."""
    k = len(found)
    v = np.random.default_rng(0).standard_normal((k, _CHECKED_ALONG))
    allowed = _ROUNDINGS * math.sqrt(k) * np.finfo(float).eps * length
    # Comparisons with NaN are false.
    return bool((np.abs(found @ v - multiply(v)) <= allowed).all())


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
