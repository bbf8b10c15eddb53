"""The matrix operations that searches need, on NumPy or PyTorch.

Matrices live where the backend puts them; vectors of one number per cell come and go as NumPy arrays.
Sums, products, transposes and powers are spelled alike for both, so only what differs is here. Everything
is float64: a certificate to 1e-9 has no room for less.

SciPy and PyTorch are imported where they are used, so that `import leastnoise` needs neither.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from leastnoise.core.errors import DesignError, InputError, MissingExtraError
from leastnoise.core.extras import require
from leastnoise.core.operators import Array
from leastnoise.core.remedies import Argument, Remedy

BACKENDS = ("numpy", "torch", "cuda")


class Backend(ABC):
    """What a device must be able to do with matrices, whatever its own array type."""

    @abstractmethod
    def matrix(self, values: Any) -> Any:
        """A NumPy array, or one that is there already, on the device; not always a copy."""

    @abstractmethod
    def integers(self, values: Array) -> Any:
        """Whole numbers on the device, in as many bytes as they have here; `matrix` makes floats of them."""

    @abstractmethod
    def numpy(self, values: Any) -> Array:
        """An array of the device as NumPy; not always a copy."""

    @abstractmethod
    def index(self, positions: Array) -> Any:
        """Positions or booleans that select columns of an array of the device."""

    @abstractmethod
    def beside(self, left: Any, right: Any) -> Any:
        """Two matrices side by side."""

    @abstractmethod
    def stack(self, arrays: Sequence[Any]) -> Any:
        """Arrays of one shape as one, along a new first axis."""

    @abstractmethod
    def exp(self, values: Any) -> Any:
        """The exponential of every entry."""

    @abstractmethod
    def plus_diagonal(self, matrix: Any, diagonal: Array) -> Any:
        """The matrix with a NumPy vector added to its diagonal, a new array."""

    @abstractmethod
    def clear_diagonal(self, matrix: Any) -> None:
        """Set the diagonal to zero, in place."""

    @abstractmethod
    def sorted_columns(self, matrix: Any) -> Any:
        """Every column sorted, its largest entry first."""

    @abstractmethod
    def column_max(self, matrix: Any) -> Any:
        """The largest entry of every column."""

    @abstractmethod
    def dot(self, left: Any, right: Any) -> float:
        """⟨left, right⟩, the sum of the products of entries."""

    @abstractmethod
    def eigh(self, symmetric: Any, *, may_overwrite: bool = False) -> tuple[Any, Any]:
        """Eigenvalues, ascending, and eigenvectors as columns, of a matrix or of each of a stack."""

    @abstractmethod
    def svd(self, matrix: Any) -> tuple[Any, Any, Any]:
        """U, d and Vᵀ with matrix = U diag(d) Vᵀ, d descending."""

    @abstractmethod
    def graded_svd(self, matrix: Any) -> tuple[Any, Any, Any]:
        """U, d and Vᵀ of a matrix no taller than wide, the small d to as many digits as can be had."""

    @abstractmethod
    def cholesky(self, symmetric: Any) -> Any | None:
        """The lower triangular factor, or None where the matrix is not definite to working precision.

        Only what is on and below the diagonal is read.
        """

    @abstractmethod
    def cholesky_solve(self, factor: Any, vector: Array) -> Array:
        """The solution of (factor factorᵀ) x = vector, as NumPy."""

    @abstractmethod
    def inverse(self, symmetric: Any) -> Any | None:
        """The inverse, or None where the matrix is not positive definite."""

    @abstractmethod
    def solve(self, square: Any, right: Any) -> Any:
        """square⁻¹ · right for an invertible matrix."""

    @abstractmethod
    def solve_lower(self, lower: Any, right: Any) -> Any:
        """X with lower · X = right; the right side may be overwritten."""

    @abstractmethod
    def upper_inverse(self, upper: Any) -> Any:
        """The inverse of an upper triangle; what is below is not read."""

    @abstractmethod
    def least_squares(self, matrix: Any, right: Any) -> Any:
        """matrix⁺ · right; singular values below rounding beside the largest count as zero."""

    @abstractmethod
    def triangle(self, matrix: Any) -> Any:
        """The upper triangular factor of a QR decomposition, with min(rows, columns) rows."""

    @abstractmethod
    def pivots(self, matrix: Any) -> Array:
        """Positions of columns that span all, as many as there are rows."""


class NumpyBackend(Backend):
    """NumPy and SciPy."""

    def matrix(self, values: Array) -> Array:
        return np.asarray(values, dtype=np.float64)

    def integers(self, values: Array) -> Array:
        return values

    def numpy(self, values: Array) -> Array:
        return values

    def index(self, positions: Array) -> Array:
        return positions

    def beside(self, left: Array, right: Array) -> Array:
        return np.hstack([left, right])

    def stack(self, arrays: Sequence[Array]) -> Array:
        return np.stack(arrays)

    def exp(self, values: Array) -> Array:
        return np.exp(values)

    def plus_diagonal(self, matrix: Array, diagonal: Array) -> Array:
        result = matrix.copy()
        result[np.diag_indices(len(result))] += diagonal
        return result

    def clear_diagonal(self, matrix: Array) -> None:
        np.fill_diagonal(matrix, 0)

    def sorted_columns(self, matrix: Array) -> Array:
        return -np.sort(-matrix, axis=0)

    def column_max(self, matrix: Array) -> Array:
        return np.asarray(matrix.max(axis=0))

    def dot(self, left: Array, right: Array) -> float:
        return float(np.vdot(left, right))

    def eigh(self, symmetric: Array, *, may_overwrite: bool = False) -> tuple[Array, Array]:
        from scipy import linalg

        if symmetric.ndim == 3:
            if len(symmetric) > 1:
                values, vectors = np.linalg.eigh(symmetric)
            else:
                values, vectors = self.eigh(symmetric[0], may_overwrite=may_overwrite)
                values, vectors = values[None], vectors[None]
            return values, vectors
        # Divide and conquer: about 6 products of the same size at n = 1,024.
        # The transpose is the same matrix in the order that LAPACK overwrites without a copy.
        values, vectors = linalg.eigh(
            symmetric.T, overwrite_a=may_overwrite, check_finite=False, driver="evd"
        )
        return values, vectors

    def svd(self, matrix: Array) -> tuple[Array, Array, Array]:
        """U, d and Vᵀ; QR steps where divide and conquer, which is quicker, does not converge.

        Raises:
            DesignError: if neither converges.
        """
        from scipy import linalg

        for driver in ("gesdd", "gesvd"):
            try:
                U, d, Vt = linalg.svd(matrix, full_matrices=False, check_finite=False, lapack_driver=driver)
            except linalg.LinAlgError:
                continue
            return U, d, Vt
        raise DesignError(
            f"the singular values of a matrix of {len(matrix):,} rows did not converge",
            field="strategy",
            given=matrix.shape,
            remedy="bring queries and weights to similar sizes, or name another method",
        )

    def graded_svd(self, matrix: Array) -> tuple[Array, Array, Array]:
        """U, d and Vᵀ of a matrix no taller than wide, by Jacobi rotations.

        Where rows or columns differ in size only, small singular values keep their digits.

        Reference:
            Drmač and Veselić (2008), New fast and accurate Jacobi SVD algorithm, I and II.
        """
        from scipy import linalg

        # joba=2 pivots rows and columns, jobr=0 keeps the whole range of floats, jobp=0 perturbs nothing.
        values, V, U, scales, _, failed = linalg.lapack.dgejsv(matrix.T, joba=2, jobr=0, jobp=0)
        if failed:
            return self.svd(matrix)
        return U, values * (scales[0] / scales[1]), V.T

    def cholesky(self, symmetric: Array) -> Array | None:
        from scipy import linalg

        try:
            return np.asarray(linalg.cholesky(symmetric, lower=True, check_finite=False))
        except linalg.LinAlgError:
            return None

    def cholesky_solve(self, factor: Array, vector: Array) -> Array:
        from scipy import linalg

        return np.asarray(linalg.cho_solve((factor, True), vector, check_finite=False))

    def inverse(self, symmetric: Array) -> Array | None:
        from scipy import linalg

        try:
            factor = linalg.cho_factor(symmetric, check_finite=False)
        except linalg.LinAlgError:
            return None
        return np.asarray(linalg.cho_solve(factor, np.eye(len(symmetric)), check_finite=False))

    def solve(self, square: Array, right: Array) -> Array:
        return np.linalg.solve(square, right)

    def solve_lower(self, lower: Array, right: Array) -> Array:
        from scipy import linalg

        # X transposed, from the right: rows of a C-ordered array are columns to BLAS.
        return np.asarray(linalg.blas.dtrsm(1.0, lower, right.T, side=1, lower=1, trans_a=1, overwrite_b=1).T)

    def upper_inverse(self, upper: Array) -> Array:
        from scipy.linalg import lapack

        # The transpose of a C-ordered upper triangle is a lower one in the order of LAPACK. A third of the
        # multiplications of solving for every column of the identity.
        return np.asarray(lapack.dtrtri(np.triu(upper).T, lower=1, overwrite_c=1)[0].T)

    def least_squares(self, matrix: Array, right: Array) -> Array:
        return np.linalg.lstsq(matrix, right, rcond=None)[0]

    def triangle(self, matrix: Array) -> Array:
        from scipy import linalg

        return np.asarray(linalg.qr(matrix, mode="r", check_finite=False)[0][: min(matrix.shape)])

    def pivots(self, matrix: Array) -> Array:
        from scipy import linalg

        return np.asarray(linalg.qr(matrix, mode="r", pivoting=True, check_finite=False)[1][: len(matrix)])


# Numbers of an array from which it is copied from a device into memory that is pinned.
_PINNED = 2**20


class TorchBackend(Backend):
    """PyTorch, on the processor or on CUDA."""

    def __init__(self, device: str) -> None:
        import torch

        if device == "cuda" and not torch.cuda.is_available():
            remedy = Remedy("use ", Argument("backend", "torch"), " or ", Argument("backend", "numpy"))
            raise MissingExtraError(
                Argument("backend", "cuda"), " needs a CUDA device; ", remedy, field="backend", given="cuda"
            )
        self._torch = torch
        self._device = torch.device(device)

    def matrix(self, values: Any) -> Any:
        torch = self._torch
        if isinstance(values, torch.Tensor):
            return values.to(device=self._device, dtype=torch.float64)
        if self._device.type == "cpu":  # a copy of its own, never the caller's memory
            return torch.as_tensor(np.array(values, dtype=np.float64))
        array = np.asarray(values, dtype=np.float64)
        if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous:
            # To turn 8,192 columns into rows here would take a second.
            return torch.as_tensor(array.T, device=self._device).T
        return torch.as_tensor(np.ascontiguousarray(array), device=self._device)

    def integers(self, values: Array) -> Any:
        return self._torch.as_tensor(values, device=self._device)

    def numpy(self, values: Any) -> Array:
        if self._device.type == "cpu" or values.numel() < _PINNED:
            return np.asarray(values.cpu().numpy())
        # Memory that the device writes to by itself, and that PyTorch keeps for the next array: 8,192 rows of
        # 8,192 take 0.05 s instead of 0.4 s.
        held = self._torch.empty_like(values, device="cpu", pin_memory=True)
        held.copy_(values)
        return np.asarray(held.numpy())

    def index(self, positions: Array) -> Any:
        return self._torch.as_tensor(positions, device=self._device)

    def beside(self, left: Any, right: Any) -> Any:
        return self._torch.hstack([left, right])

    def stack(self, arrays: Sequence[Any]) -> Any:
        return self._torch.stack(list(arrays))

    def exp(self, values: Any) -> Any:
        return self._torch.exp(values)

    def plus_diagonal(self, matrix: Any, diagonal: Array) -> Any:
        result = matrix.clone()
        result.diagonal().add_(self.matrix(diagonal))
        return result

    def clear_diagonal(self, matrix: Any) -> None:
        matrix.fill_diagonal_(0)

    def sorted_columns(self, matrix: Any) -> Any:
        return matrix.sort(dim=0, descending=True).values

    def column_max(self, matrix: Any) -> Any:
        return matrix.amax(dim=0)

    def dot(self, left: Any, right: Any) -> float:
        return float(self._torch.dot(left.reshape(-1), right.reshape(-1)))

    def eigh(self, symmetric: Any, *, may_overwrite: bool = False) -> tuple[Any, Any]:
        values, vectors = self._torch.linalg.eigh(symmetric)
        return values, vectors

    def svd(self, matrix: Any) -> tuple[Any, Any, Any]:
        with warnings.catch_warnings():
            # On CUDA the fast routine fails for some matrices that lack rank; PyTorch then says so and
            # takes the accurate one, in 3 s instead of 0.1 s for 1,229 rows.
            warnings.filterwarnings("ignore", "torch.linalg.svd: During SVD computation", UserWarning)
            U, d, Vt = self._torch.linalg.svd(matrix, full_matrices=False)
        return U, d, Vt

    def graded_svd(self, matrix: Any) -> tuple[Any, Any, Any]:
        return self.svd(matrix)  # PyTorch has no decomposition that keeps more digits

    def cholesky(self, symmetric: Any) -> Any | None:
        factor, failed_at = self._torch.linalg.cholesky_ex(symmetric)
        return None if int(failed_at) else factor

    def cholesky_solve(self, factor: Any, vector: Array) -> Array:
        return self.numpy(self._torch.cholesky_solve(self.matrix(vector)[:, None], factor)[:, 0])

    def inverse(self, symmetric: Any) -> Any | None:
        factor = self.cholesky(symmetric)
        return None if factor is None else self._torch.cholesky_inverse(factor)

    def solve(self, square: Any, right: Any) -> Any:
        return self._torch.linalg.solve(square, right)

    def solve_lower(self, lower: Any, right: Any) -> Any:
        return self._torch.linalg.solve_triangular(lower, right, upper=False)

    def upper_inverse(self, upper: Any) -> Any:
        torch = self._torch
        identity = torch.eye(len(upper), dtype=torch.float64, device=self._device)
        return torch.linalg.solve_triangular(upper, identity, upper=True)

    def least_squares(self, matrix: Any, right: Any) -> Any:
        # PyTorch's own needs a matrix of full rank on CUDA.
        Q, triangle = self._torch.linalg.qr(matrix)
        U, d, Vt = self.svd(triangle)
        kept = d > np.finfo(float).eps * max(matrix.shape) * d[0]
        return Vt[kept].T @ ((U[:, kept].T @ (Q.T @ right)) / d[kept][:, None])

    def triangle(self, matrix: Any) -> Any:
        return self._torch.linalg.qr(matrix, mode="r")[1]

    def pivots(self, matrix: Any) -> Array:
        return NUMPY.pivots(self.numpy(matrix))  # PyTorch has no pivoting


NUMPY = NumpyBackend()


def load_backend(name: str) -> Backend:
    """The backend of that name: "numpy", "torch" or "cuda".

    Raises:
        InputError: for an unknown name.
        MissingExtraError: if PyTorch is needed and not installed, or sees no CUDA device.
    """
    if name not in BACKENDS:
        raise InputError(
            f"backend must be one of {', '.join(BACKENDS)}, got {name!r}", field="backend", given=name
        )
    if name == "numpy":
        return NUMPY
    require("torch", extra="torch", why=Argument("backend", name), field="backend", given=name)
    return TorchBackend("cuda" if name == "cuda" else "cpu")
