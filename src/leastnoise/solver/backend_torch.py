"""The solver's matrix operations on PyTorch, on the processor or on CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import linalg

from leastnoise.core.errors import MissingExtraError
from leastnoise.core.operators import Array


class TorchBackend:
    """float64 tensors on one device."""

    def __init__(self, device: str) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise MissingExtraError("backend='cuda' needs a CUDA device; use backend='torch' or 'numpy'")
        self._device = torch.device(device)

    def matrix(self, values: Any) -> Any:
        """A NumPy array, or a tensor, on the device."""
        if isinstance(values, torch.Tensor):
            return values.to(device=self._device, dtype=torch.float64)
        if self._device.type == "cpu":  # a copy of its own, never the caller's memory
            return torch.as_tensor(np.array(values, dtype=np.float64))
        return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float64), device=self._device)

    def numpy(self, values: Any) -> Array:
        """A device array as NumPy."""
        return np.asarray(values.cpu().numpy())

    def eigh(self, symmetric: Any) -> tuple[Any, Any]:
        """Eigenvalues, rising, and eigenvectors as columns."""
        values, vectors = torch.linalg.eigh(symmetric)
        return values, vectors

    def index(self, positions: Array) -> Any:
        """Positions or booleans that select columns of a device array."""
        return torch.as_tensor(positions, device=self._device)

    def beside(self, left: Any, right: Any) -> Any:
        """Two matrices side by side."""
        return torch.hstack([left, right])

    def plus_diagonal(self, matrix: Any, diagonal: Array) -> Any:
        """The matrix with so much more on its diagonal, a new array."""
        return matrix + torch.diag(self.matrix(diagonal))

    def svd(self, matrix: Any) -> tuple[Any, Any, Any]:
        """U, d and Vᵀ with matrix = U diag(d) Vᵀ, d falling."""
        U, d, Vt = torch.linalg.svd(matrix, full_matrices=False)
        return U, d, Vt

    def cholesky(self, symmetric: Any) -> Any | None:
        """The lower triangular factor, or None where the matrix is not definite to working precision."""
        factor, failed_at = torch.linalg.cholesky_ex(symmetric)
        return None if int(failed_at) else factor

    def cholesky_solve(self, factor: Any, vector: Array) -> Array:
        """The solution of (factor factorᵀ) x = vector, as NumPy."""
        return self.numpy(torch.cholesky_solve(self.matrix(vector)[:, None], factor)[:, 0])

    def solve_lower(self, lower: Any, right: Any) -> Any:
        """X with lower · X = right."""
        return torch.linalg.solve_triangular(lower, right, upper=False)

    def graded_svd(self, matrix: Any) -> tuple[Any, Any, Any]:
        """U, d and Vᵀ; PyTorch has no decomposition that keeps more digits."""
        return self.svd(matrix)

    def pivots(self, matrix: Any) -> Array:
        """Positions of columns that span all, as many as there are rows; worked out by SciPy."""
        order = linalg.qr(self.numpy(matrix), mode="r", pivoting=True, check_finite=False)[1]
        return np.asarray(order[: len(matrix)])

    def triangle(self, matrix: Any) -> Any:
        """The upper triangular factor of a QR decomposition."""
        return torch.linalg.qr(matrix, mode="r")[1]
