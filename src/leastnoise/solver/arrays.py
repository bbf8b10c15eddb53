"""The few matrix operations that the printed algorithms need, on NumPy or PyTorch.

Sums, products, transposes and powers are spelled alike for both; only what differs is here.
Everything is float64.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np

from leastnoise.core.errors import InputError, MissingExtraError
from leastnoise.core.operators import Array

_BACKENDS = ("numpy", "torch", "cuda")


class Arrays(Protocol):
    """What a device must be able to do with matrices of float64."""

    def matrix(self, values: Array) -> Any:
        """A NumPy array, copied to the device."""

    def numpy(self, values: Any) -> Array:
        """An array of the device as a NumPy array."""

    def dot(self, X: Any, Y: Any) -> float:
        """⟨X, Y⟩, the sum of the products of entries."""

    def solve(self, X: Any, Y: Any) -> Any:
        """X⁻¹Y for a square, invertible X."""

    def least_squares(self, X: Any, Y: Any) -> Any:
        """X⁺Y; singular values of X below rounding beside the largest count as zero."""

    def inverse(self, X: Any) -> Any | None:
        """X⁻¹ by Cholesky's factorisation, or None where X is not positive definite."""

    def is_definite(self, X: Any) -> bool:
        """Whether X has a Cholesky factorisation."""

    def eigh(self, X: Any) -> tuple[Any, Any]:
        """Eigenvalues of a symmetric X, rising, and eigenvectors as columns."""

    def svd(self, X: Any) -> tuple[Any, Any, Any]:
        """U, d and Vᵀ with X = U diag(d) Vᵀ, d falling."""

    def falling(self, X: Any) -> Any:
        """Every column sorted, its largest entry first."""

    def column_max(self, X: Any) -> Any:
        """The largest entry of every column."""

    def clear_diagonal(self, X: Any) -> None:
        """Set the diagonal to zero, in place."""

    def add_to_diagonal(self, X: Any, values: Array) -> None:
        """Add a NumPy vector to the diagonal, in place."""


class NumpyArrays:
    """NumPy and SciPy."""

    def matrix(self, values: Array) -> Array:
        """A copy."""
        return np.array(values, dtype=np.float64)

    def numpy(self, values: Array) -> Array:
        """The array itself."""
        return values

    def dot(self, X: Array, Y: Array) -> float:
        """⟨X, Y⟩."""
        return float(np.vdot(X, Y))

    def solve(self, X: Array, Y: Array) -> Array:
        """X⁻¹Y."""
        return np.linalg.solve(X, Y)

    def least_squares(self, X: Array, Y: Array) -> Array:
        """X⁺Y."""
        return np.linalg.lstsq(X, Y, rcond=None)[0]

    def inverse(self, X: Array) -> Array | None:
        """X⁻¹, or None where X is not positive definite."""
        from scipy import linalg

        try:
            factor = linalg.cho_factor(X, check_finite=False)
        except linalg.LinAlgError:
            return None
        return np.asarray(linalg.cho_solve(factor, np.eye(len(X)), check_finite=False))

    def is_definite(self, X: Array) -> bool:
        """Whether X has a Cholesky factorisation."""
        from scipy import linalg

        try:
            linalg.cholesky(X, check_finite=False)
        except linalg.LinAlgError:
            return False
        return True

    def eigh(self, X: Array) -> tuple[Array, Array]:
        """Eigenvalues, rising, and eigenvectors as columns."""
        from scipy import linalg

        values, vectors = linalg.eigh(X, check_finite=False, driver="evd")
        return values, vectors

    def svd(self, X: Array) -> tuple[Array, Array, Array]:
        """U, d and Vᵀ."""
        U, d, Vt = np.linalg.svd(X, full_matrices=False)
        return U, d, Vt

    def falling(self, X: Array) -> Array:
        """Every column sorted, its largest entry first."""
        return -np.sort(-X, axis=0)

    def column_max(self, X: Array) -> Array:
        """The largest entry of every column."""
        return np.asarray(X.max(axis=0))

    def clear_diagonal(self, X: Array) -> None:
        """Set the diagonal to zero, in place."""
        np.fill_diagonal(X, 0)

    def add_to_diagonal(self, X: Array, values: Array) -> None:
        """Add a vector to the diagonal, in place."""
        X[np.diag_indices(len(X))] += values


class TorchArrays:
    """PyTorch, on the processor or on CUDA."""

    def __init__(self, device: str) -> None:
        import torch

        if device == "cuda" and not torch.cuda.is_available():
            raise MissingExtraError("backend='cuda' needs a CUDA device; use backend='torch' or 'numpy'")
        self._torch = torch
        self._device = torch.device(device)

    def matrix(self, values: Array) -> Any:
        """A copy on the device."""
        return self._torch.as_tensor(np.array(values, dtype=np.float64), device=self._device)

    def numpy(self, values: Any) -> Array:
        """A copy as NumPy; on the processor, the same memory."""
        return np.asarray(values.cpu().numpy())

    def dot(self, X: Any, Y: Any) -> float:
        """⟨X, Y⟩."""
        return float(self._torch.dot(X.reshape(-1), Y.reshape(-1)))

    def solve(self, X: Any, Y: Any) -> Any:
        """X⁻¹Y."""
        return self._torch.linalg.solve(X, Y)

    def least_squares(self, X: Any, Y: Any) -> Any:
        """X⁺Y; PyTorch's own needs X of full rank on CUDA."""
        Q, triangle = self._torch.linalg.qr(X)
        U, d, Vt = self.svd(triangle)
        kept = d > np.finfo(float).eps * max(X.shape) * d[0]
        return Vt[kept].T @ ((U[:, kept].T @ (Q.T @ Y)) / d[kept][:, None])

    def inverse(self, X: Any) -> Any | None:
        """X⁻¹, or None where X is not positive definite."""
        factor, failed = self._torch.linalg.cholesky_ex(X)
        return None if int(failed) else self._torch.cholesky_inverse(factor)

    def is_definite(self, X: Any) -> bool:
        """Whether X has a Cholesky factorisation."""
        return int(self._torch.linalg.cholesky_ex(X)[1]) == 0

    def eigh(self, X: Any) -> tuple[Any, Any]:
        """Eigenvalues, rising, and eigenvectors as columns."""
        values, vectors = self._torch.linalg.eigh(X)
        return values, vectors

    def svd(self, X: Any) -> tuple[Any, Any, Any]:
        """U, d and Vᵀ."""
        with warnings.catch_warnings():
            # On CUDA the fast routine fails for some matrices that lack rank; PyTorch then says so and
            # takes the accurate one, in 3 s instead of 0.1 s for 1,229 rows.
            warnings.filterwarnings("ignore", "torch.linalg.svd: During SVD computation", UserWarning)
            U, d, Vt = self._torch.linalg.svd(X, full_matrices=False)
        return U, d, Vt

    def falling(self, X: Any) -> Any:
        """Every column sorted, its largest entry first."""
        return X.sort(dim=0, descending=True).values

    def column_max(self, X: Any) -> Any:
        """The largest entry of every column."""
        return X.amax(dim=0)

    def clear_diagonal(self, X: Any) -> None:
        """Set the diagonal to zero, in place."""
        X.fill_diagonal_(0)

    def add_to_diagonal(self, X: Any, values: Array) -> None:
        """Add a NumPy vector to the diagonal, in place."""
        X.diagonal().add_(self.matrix(values))


NUMPY = NumpyArrays()


def load_arrays(backend: str) -> Arrays:
    """The operations of a backend: "numpy", "torch" or "cuda".

    Raises:
        InputError: for an unknown name.
        MissingExtraError: if PyTorch is needed and not installed, or sees no CUDA device.
    """
    if backend not in _BACKENDS:
        raise InputError(f"backend must be one of {', '.join(_BACKENDS)}, got {backend!r}")
    if backend == "numpy":
        return NUMPY
    try:
        return TorchArrays("cuda" if backend == "cuda" else "cpu")
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"backend={backend!r} needs PyTorch: pip install 'leastnoise[torch]'"
        ) from None
