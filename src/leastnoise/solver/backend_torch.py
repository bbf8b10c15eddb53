"""The solver's matrix operations on PyTorch, on the processor or on CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from leastnoise.errors import MissingExtraError
from leastnoise.operators import Array


class TorchBackend:
    """float64 tensors on one device."""

    def __init__(self, device: str) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise MissingExtraError("backend='cuda' needs a CUDA device; use backend='torch' or 'numpy'")
        self._device = torch.device(device)

    def matrix(self, values: Array) -> Any:
        """A NumPy array on the device."""
        return torch.as_tensor(np.array(values, dtype=np.float64), device=self._device)

    def numpy(self, values: Any) -> Array:
        """A device array as NumPy."""
        return np.asarray(values.cpu().numpy())

    def eigh(self, symmetric: Any) -> tuple[Any, Any]:
        """Eigenvalues, rising, and eigenvectors as columns."""
        values, vectors = torch.linalg.eigh(symmetric)
        return values, vectors

    def left_singular(self, matrix: Any) -> tuple[Any, Any]:
        """Singular values, rising, and left singular vectors as columns."""
        vectors, values, _ = torch.linalg.svd(matrix, full_matrices=False)
        return values.flip(0), vectors.flip(1)
