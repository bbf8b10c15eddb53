"""The solver's matrix operations on NumPy and SciPy."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from leastnoise.core.operators import Array


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
        # The transpose is the same matrix in the order that LAPACK overwrites without a copy.
        values, vectors = linalg.eigh(symmetric.T, overwrite_a=True, check_finite=False, driver="evd")
        return values, vectors

    def index(self, positions: Array) -> Array:
        """Positions or booleans that select columns."""
        return positions

    def beside(self, left: Array, right: Array) -> Array:
        """Two matrices side by side."""
        return np.hstack([left, right])

    def plus_diagonal(self, matrix: Array, diagonal: Array) -> Array:
        """The matrix with so much more on its diagonal, a new array."""
        lifted = matrix.copy()
        lifted[np.diag_indices(len(lifted))] += diagonal
        return lifted

    def svd(self, matrix: Array) -> tuple[Array, Array, Array]:
        """U, d and Vᵀ with matrix = U diag(d) Vᵀ, d falling."""
        U, d, Vt = linalg.svd(matrix, full_matrices=False, check_finite=False)
        return U, d, Vt

    def cholesky(self, symmetric: Array) -> Array | None:
        """The lower triangular factor, or None where the matrix is not definite to working precision."""
        try:
            return np.asarray(linalg.cholesky(symmetric, lower=True, check_finite=False))
        except linalg.LinAlgError:
            return None

    def cholesky_solve(self, factor: Array, vector: Array) -> Array:
        """The solution of (factor factorᵀ) x = vector."""
        return np.asarray(linalg.cho_solve((factor, True), vector, check_finite=False))

    def solve_lower(self, lower: Array, right: Array) -> Array:
        """X with lower · X = right."""
        # X transposed, from the right: rows of a C-ordered array are columns to BLAS.
        return np.asarray(linalg.blas.dtrsm(1.0, lower, right.T, side=1, lower=1, trans_a=1, overwrite_b=1).T)

    def graded_svd(self, matrix: Array) -> tuple[Array, Array, Array]:
        """U, d and Vᵀ of a matrix no taller than wide, by Jacobi rotations.

        Where rows or columns differ in size only, small singular values keep their digits.

        Reference:
            Drmač and Veselić (2008), New fast and accurate Jacobi SVD algorithm, I and II.
        """
        # joba=2 pivots rows and columns, jobr=0 keeps the whole range of floats, jobp=0 perturbs nothing.
        values, V, U, scales, _, failed = linalg.lapack.dgejsv(matrix.T, joba=2, jobr=0, jobp=0)
        if failed:
            return self.svd(matrix)
        return U, values * (scales[0] / scales[1]), V.T

    def pivots(self, matrix: Array) -> Array:
        """Positions of columns that span all, as many as there are rows."""
        return np.asarray(linalg.qr(matrix, mode="r", pivoting=True, check_finite=False)[1][: len(matrix)])

    def triangle(self, matrix: Array) -> Array:
        """The upper triangular factor of a QR decomposition."""
        return np.asarray(linalg.qr(matrix, mode="r", check_finite=False)[0][: min(matrix.shape)])
