"""The few matrix operations the solver needs, so that it is written once.

Matrices live where the backend puts them; vectors of one number per cell come
and go as NumPy arrays. Everything is float64: a certificate to 1e-9 has no room
for less.
"""

from __future__ import annotations

from typing import Any, Protocol

from leastnoise.core.errors import InputError, MissingExtraError
from leastnoise.core.operators import Array

BACKENDS = ("numpy", "torch", "cuda")


class Backend(Protocol):
    """What a device must be able to do. A `Matrix` is whatever array type it uses."""

    def matrix(self, values: Array) -> Any:
        """A NumPy array, or one that is there already, on the device."""

    def numpy(self, values: Any) -> Array:
        """A device array as NumPy."""

    def eigh(self, symmetric: Any) -> tuple[Any, Any]:
        """Eigenvalues, rising, and eigenvectors as columns; the argument may be overwritten."""

    def solve_lower(self, lower: Any, right: Any) -> Any:
        """X with lower · X = right; the right side may be overwritten."""

    def graded_svd(self, matrix: Any) -> tuple[Any, Any, Any]:
        """U, d and Vᵀ of a matrix no taller than wide, the small d to as many digits as can be had."""

    def pivots(self, matrix: Any) -> Array:
        """Positions of columns that span all, as many as there are rows."""

    def triangle(self, matrix: Any) -> Any:
        """The upper triangular factor of a QR decomposition, with min(rows, columns) rows."""

    def index(self, positions: Array) -> Any:
        """Positions or booleans that select columns of a device array."""

    def beside(self, left: Any, right: Any) -> Any:
        """Two matrices side by side."""

    def plus_diagonal(self, matrix: Any, diagonal: Array) -> Any:
        """The matrix with so much more on its diagonal, a new array."""

    def svd(self, matrix: Any) -> tuple[Any, Any, Any]:
        """U, d and Vᵀ with matrix = U diag(d) Vᵀ, d falling."""

    def cholesky(self, symmetric: Any) -> Any | None:
        """The lower triangular factor, or None where the matrix is not definite to working precision.

        Only what is on and below the diagonal is read.
        """

    def cholesky_solve(self, factor: Any, vector: Array) -> Array:
        """The solution of (factor factorᵀ) x = vector, as NumPy."""


def load_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        InputError: for an unknown name.
        MissingExtraError: if PyTorch is needed and not installed, or sees no CUDA device.
    """
    if name == "numpy":
        from leastnoise.solver.backend_numpy import NumpyBackend

        return NumpyBackend()
    if name not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, got {name!r}")
    try:
        from leastnoise.solver.backend_torch import TorchBackend
    except ImportError:
        raise MissingExtraError(f"backend={name!r} needs PyTorch: pip install 'leastnoise[torch]'") from None
    return TorchBackend("cuda" if name == "cuda" else "cpu")
