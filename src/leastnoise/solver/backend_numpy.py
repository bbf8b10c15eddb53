"""The solver's matrix operations on NumPy and SciPy."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from leastnoise.operators import Array


class NumpyBackend:
    """float64 on the processor."""

    def matrix(self, values: Array) -> Array:
        """A NumPy array on the device."""
        return np.asarray(values, dtype=np.float64)

    def numpy(self, values: Array) -> Array:
        """A device array as NumPy."""
        return values

    def eigh(self, symmetric: Array) -> tuple[Array, Array]:
        """Eigenvalues, rising, and eigenvectors as columns."""
        # Divide and conquer: about 6 products of the same size at n = 1,024.
        values, vectors = linalg.eigh(symmetric, overwrite_a=True, check_finite=False, driver="evd")
        return values, vectors

    def left_singular(self, matrix: Array) -> tuple[Array, Array]:
        """Singular values, rising, and left singular vectors as columns."""
        vectors, values, _ = linalg.svd(matrix, full_matrices=False, check_finite=False)
        return values[::-1], vectors[:, ::-1]
