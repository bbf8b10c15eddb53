"""The maps from weights of cells to blocks, of which every least total variance is a case.

    Columns    blocks R_s diag(q) R_sᵀ: one block where all is dense, or one for each set of attributes that
               is asked value by value beside a shared axis
    Pairs      R Lap(q) Rᵀ, for records that are replaced

and, in files of their own, `TablePasses` over pairs of tables and `ProductRows` of 1 × 1 blocks. Merging
cells, scaling columns and leaving some out are ways to prepare the columns of any map.

Replacing a record of cell i by one of cell j changes the answers along r_i − r_j, and by one that is not
counted along r_i: columns for all pairs of n + 1 cells, the last one empty. There are N = n(n + 1)/2 of them,
which are not written out. With the weights as a symmetric matrix Q and Lap(Q) = diag(Q 1) − Q,

    A(q) = R Lap(Q) Rᵀ ,    A*(Y)_ij = Z_ii + Z_jj − 2 Z_ij ,   Z = Rᵀ Y R

Pairs are numbered as by `list_pairs`: each cell with no cell, then i < j row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from leastnoise.core.backend import NUMPY, Backend
from leastnoise.core.operators import Array
from leastnoise.solver.dual import CurvedPoint, DualPoint, QuadraticPoint, block_point, quadratic_point

# Neighbouring columns whose cosine is at least this are taken as one in the coarser problem.
_ALIKE = 0.8

# Below this many cells in the coarser problem, solving the whole one at once is as fast.
_LEAST_COARSE = 128

# Directions of the coarser problem whose share of the strongest one's square is less are left out of it.
_WEAK = 1e-8

# Rows whose products are below this share of the longest squared are orthogonal.
_ORTHOGONAL = 1e-6


class SmoothMap(Protocol):
    """A linear map from weights of n cells to symmetric blocks, as `least_total_by_descent` needs it."""

    @property
    def n(self) -> int:
        """How many weights there are."""

    @property
    def backend(self) -> Backend:
        """Where the roots of its noise are."""

    def evaluate(self, q: Array) -> DualPoint:
        """The dual function at q."""


class Map(Protocol):
    """The same with products of the Hessian, for Newton's method."""

    @property
    def n(self) -> int:
        """How many weights there are."""

    @property
    def backend(self) -> Backend:
        """Where the roots of its noise are."""

    def evaluate(self, q: Array) -> CurvedPoint:
        """The dual function at q."""

    def first_weights(self) -> Array:
        """Weights to begin with, quickly found."""


class Columns:
    """Blocks R_s diag(q) R_sᵀ, every R_s (k_s, n) of rank k_s, every cell's column nonzero in some block.

    Blocks of one shape are one array: of tables over time there may be thousands.
    """

    def __init__(self, blocks: Sequence[Any], backend: Backend = NUMPY) -> None:
        self.backend = backend
        of_size: dict[int, list[int]] = {}
        for number, R in enumerate(blocks):
            of_size.setdefault(len(R), []).append(number)
        self._stacks: list[Any] = []
        self._places: list[tuple[int, int]] = [(0, 0)] * len(blocks)
        for stack, numbers in enumerate(of_size.values()):
            own = [backend.matrix(blocks[number]) for number in numbers]
            self._stacks.append(own[0][None] if len(own) == 1 else backend.stack(own))
            for place, number in enumerate(numbers):
                self._places[number] = stack, place
        self.n = int(self._stacks[0].shape[2])

    @property
    def blocks(self) -> list[Any]:
        """R_s of every block, on the backend."""
        return [self._stacks[stack][place] for stack, place in self._places]

    @property
    def n_numbers(self) -> int:
        """How many numbers describe noise: k(k + 1)/2 for every block."""
        return sum(len(R) * (len(R) + 1) // 2 for R in self.blocks)

    def evaluate(self, q: Array) -> CurvedPoint:
        """The dual function at q."""
        return block_point(self._stacks, self._places, q, self.backend)

    def take(self, index: Array) -> Columns:
        """Some cells only."""
        chosen = self.backend.index(index)
        return Columns([R[:, chosen] for R in self.blocks], self.backend)

    @cached_property
    def spanning(self) -> Array:
        """Cells whose columns span every block."""
        return np.unique(np.concatenate([self.backend.pivots(R) for R in self.blocks]))

    def first_weights(self) -> Array:
        """The diagonal of Σ_s (R_sᵀ R_s)^½."""
        total = np.zeros(self.n)
        for R, lengths in zip(self.blocks, self._lengths, strict=True):
            if _has_orthogonal_rows(R, lengths, self.backend):
                total += _root_diagonal(R, lengths, self.backend)
            else:
                squares, U = self.backend.eigh(R @ R.T, may_overwrite=True)
                total += _root_diagonal(U.T @ R, self.backend.numpy(squares), self.backend)
        return total

    @property
    def _lengths(self) -> list[Array]:
        return [self.backend.numpy((R**2).sum(1)) for R in self.blocks]

    def halves(self) -> tuple[Array, Array] | None:
        """First and last cell of each group of one or two alike neighbours; None if they are few.

        None too where rows are orthogonal, and `first_weights` is quick and as good.
        """
        device = self.backend
        if self.n < 2 * _LEAST_COARSE or all(
            _has_orthogonal_rows(R, lengths, device)
            for R, lengths in zip(self.blocks, self._lengths, strict=True)
        ):
            return None
        norms = sum(device.numpy((R**2).sum(0)) for R in self.blocks) ** 0.5
        products = sum(device.numpy((R[:, 1:] * R[:, :-1]).sum(0)) for R in self.blocks)
        cosines = products / (norms[1:] * norms[:-1])
        first = []
        last = []
        i = 0
        while i < self.n:
            j = i + 1 if i + 1 < self.n and cosines[i] >= _ALIKE else i
            first.append(i)
            last.append(j)
            i = j + 1
        return (np.array(first), np.array(last)) if len(first) <= 0.7 * self.n else None

    def merged(self, first: Array, last: Array) -> Columns:
        """The coarser problem, with the mean of each group's first and last column."""
        device = self.backend
        means = [(R[:, device.index(first)] + R[:, device.index(last)]) / 2 for R in self.blocks]
        return Columns([_strong_directions(R, device) for R in means], device)


def _has_orthogonal_rows(R: Any, lengths: Array, device: Backend) -> bool:
    """Whether R Rᵀ is diagonal, by its product with one vector of signs.

    A wrong answer, which would take entries that cancel, only means worse weights to begin with.
    """
    signs = np.where(np.random.default_rng(0).random(len(lengths)) < 0.5, -1.0, 1.0)
    image = device.numpy(R @ (device.matrix(signs) @ R))
    return bool(np.abs(image - lengths * signs).max() <= _ORTHOGONAL * lengths.max())


def _root_diagonal(R: Any, squares: Array, device: Backend) -> Array:
    """The diagonal of V^½ = Rᵀ (R Rᵀ)^{−½} R for orthogonal rows of these squared lengths."""
    lengths = np.sqrt(np.maximum(squares, np.finfo(float).tiny))
    return device.numpy((R**2 / device.matrix(lengths)[:, None]).sum(0))


def _strong_directions(R: Any, device: Backend) -> Any:
    """Rows with the Gram matrix of R but for weak directions, of which merging cells leaves many.

    The weights of a coarser problem need no more digits, and without them decompositions that are careful
    with weak directions are not needed: 1,024 ranges over 2,048 cells took seven times as long with them.
    """
    if R.shape[0] > R.shape[1]:
        R = device.triangle(R)
    squares, U = device.eigh(R @ R.T, may_overwrite=True)
    values = device.numpy(squares)
    return U[:, device.index(values > _WEAK * values[-1])].T @ R


class Pairs:
    """The columns r_i and r_i − r_j of a matrix R, (k, n), on a backend.

    Args:
        upper: the pairs i < j, row by row, where they are known already.
    """

    def __init__(self, R: Any, backend: Backend = NUMPY, *, upper: tuple[Array, Array] | None = None) -> None:
        self.R, self.backend = R, backend
        self._upper = np.triu_indices(R.shape[1], 1) if upper is None else upper

    @property
    def shape(self) -> tuple[int, int]:
        """(k, N)."""
        k, n = self.R.shape
        return k, n * (n + 1) // 2

    @property
    def n(self) -> int:
        """N."""
        return self.shape[1]

    @property
    def root(self) -> Any:
        """The rows over the cells alone, (k, n)."""
        return self.R

    def evaluate(self, q: Array) -> QuadraticPoint:
        """The dual function at q."""
        return quadratic_point(self, q)

    def gram(self, q: Array) -> Any:
        """R Lap(q) Rᵀ."""
        return self.R @ self.backend.matrix(self._laplacian(q)) @ self.R.T

    def adjoint(self, Y: Any) -> Array:
        """cᵀ Y c for every column c."""
        return self._distances(self.backend.numpy(self.R.T @ (Y @ self.R)))

    def rotated(self, M: Any) -> Pairs:
        """The same with M R for R."""
        return Pairs(M @ self.R, self.backend, upper=self._upper)

    def first_weights(self) -> Array:
        """Equal ones."""
        return np.ones(self.n)

    def take(self, index: Array) -> Array:
        """Some columns, (k, len(index))."""
        R = self.backend.numpy(self.R)
        n = R.shape[1]
        alone, pairs = index[index < n], index[index >= n] - n
        i, j = self._upper
        return np.hstack([R[:, alone], R[:, i[pairs]] - R[:, j[pairs]]])

    def prices(self, M: Array) -> Array:
        """‖M c‖² for every column c, (N,)."""
        root = self.backend.matrix(M) @ self.R
        return self._distances(self.backend.numpy(root.T @ root))

    def _laplacian(self, x: Array) -> Array:
        """Σ x_ij (e_i − e_j)(e_i − e_j)ᵀ over all pairs, (n, n)."""
        n = self.R.shape[1]
        matrix = np.zeros((n, n))
        matrix[self._upper] = -x[n:]
        matrix += matrix.T
        matrix[np.diag_indices(n)] = x[:n] - matrix.sum(axis=1)
        return matrix

    def _distances(self, Z: Array) -> Array:
        """Z_ii for cells alone, then Z_ii + Z_jj − 2 Z_ij for pairs of them, (N,)."""
        diagonal = np.diag(Z)
        pairs = diagonal[:, None] + diagonal[None, :] - 2 * Z
        return np.concatenate([diagonal, pairs[self._upper]])
