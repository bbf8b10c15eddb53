"""Queries as the solver sees them: rows l_j in k coordinates, as an array or known by what they do.

    DenseRows       an (m, k) array on the device
    ImplicitRows    an operator. Where its weighted Gram matrix and quadratic forms are quick, as
                    for all ranges, half a million queries cost no more than a thousand
    StackedRows     one after the other

`projected(A)` are the vectors α_j = A l_j, from which all derivatives follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from leastnoise.core.backend import Backend
from leastnoise.core.operators import Array, Operator

# Rows written out at a time where a triangular factor of all of them is needed.
_CHUNK_ENTRIES = 2**22


class ProjectedRows(ABC):
    """Vectors α_j = A l_j, (k, m)."""

    @abstractmethod
    def outer(self, x: Array) -> Any:
        """Σ_j x_j α_j α_jᵀ, (k, k), on the device."""

    @abstractmethod
    def form(self, M: Any) -> Array:
        """α_jᵀ M α_j for every j."""

    @abstractmethod
    def decayed(self, decay: Array) -> Array:
        """Σ_a decay_a α_ja² for every j."""

    @abstractmethod
    def columns(self, index: Array) -> Any:
        """Some α_j as columns, on the device; the positions rise."""


class QueryRows(ABC):
    """m queries in k coordinates."""

    shape: tuple[int, int]

    @abstractmethod
    def gram(self, weights: Array) -> Any:
        """Σ_j weights_j l_j l_jᵀ, (k, k), on the device."""

    @abstractmethod
    def projected(self, A: Any) -> ProjectedRows:
        """The vectors A l_j."""

    @abstractmethod
    def take(self, index: Array) -> Array:
        """Some rows as NumPy, (len(index), k)."""

    @property
    def is_quick(self) -> bool:
        """Whether all rows together cost no more than a few products of k-by-k matrices."""
        return False

    def variances(self, root: Any) -> Array:
        """l_jᵀ Σ l_j for every row, Σ = rootᵀ root."""
        return self.projected(root).decayed(np.ones(root.shape[0]))

    def weighted(self, weights: Array) -> Iterator[Array]:
        """Rows times √weights, in pieces."""
        m, k = self.shape
        step = max(1, _CHUNK_ENTRIES // k)
        for start in range(0, m, step):
            index = np.arange(start, min(start + step, m))
            yield self.take(index) * np.sqrt(weights[index])[:, None]


class DenseRows(QueryRows):
    """Rows given as an array."""

    def __init__(self, L: Array, device: Backend) -> None:
        self._L, self._host, self._device = device.matrix(L), L, device
        self.shape = (L.shape[0], L.shape[1])

    def gram(self, weights: Array) -> Any:
        weighted = self._L * self._device.matrix(np.sqrt(weights))[:, None]
        return weighted.T @ weighted

    def projected(self, A: Any) -> ProjectedRows:
        return _DenseProjected(A @ self._L.T, self._device)

    def take(self, index: Array) -> Array:
        return np.asarray(self._host[index])


class _DenseProjected(ProjectedRows):
    def __init__(self, alpha: Any, device: Backend) -> None:
        self._alpha, self._device = alpha, device

    def outer(self, x: Array) -> Any:
        return (self._alpha * self._device.matrix(x)) @ self._alpha.T

    def form(self, M: Any) -> Array:
        return self._device.numpy(((M @ self._alpha) * self._alpha).sum(0))

    def decayed(self, decay: Array) -> Array:
        return self._device.numpy((self._alpha**2 * self._device.matrix(decay)[:, None]).sum(0))

    def columns(self, index: Array) -> Any:
        return self._alpha[:, self._device.index(index)]


class ImplicitRows(QueryRows):
    """Rows of an operator over cells, in the coordinates of an orthonormal basis Q (n, k); None for cells."""

    def __init__(self, operator: Operator, Q: Array | None, device: Backend) -> None:
        self._operator, self._Q, self._device = operator, Q, device
        self.shape = (operator.shape[0], operator.shape[1] if Q is None else Q.shape[1])

    def gram(self, weights: Array) -> Any:
        G = self._operator.weighted_gram(weights)
        return self._device.matrix(G if self._Q is None else self._Q.T @ G @ self._Q)

    @property
    def is_quick(self) -> bool:
        return self._operator.is_quick

    def projected(self, A: Any) -> ProjectedRows:
        return _ImplicitProjected(self, A, self._device)

    def take(self, index: Array) -> Array:
        rows = self._operator.rows(index)
        return rows if self._Q is None else np.asarray(rows @ self._Q)

    def form(self, Y: Array) -> Array:
        """l_jᵀ Y l_j for every row."""
        return self._operator.quadratic(Y if self._Q is None else self._Q @ Y @ self._Q.T)


class _ImplicitProjected(ProjectedRows):
    def __init__(self, rows: ImplicitRows, A: Any, device: Backend) -> None:
        self._rows, self._A, self._device = rows, A, device

    def outer(self, x: Array) -> Any:
        return self._A @ self._rows.gram(x) @ self._A.T

    def form(self, M: Any) -> Array:
        return self._rows.form(self._device.numpy(self._A.T @ M @ self._A))

    def decayed(self, decay: Array) -> Array:
        scaled = self._A * self._device.matrix(np.sqrt(decay))[:, None]
        return np.maximum(self._rows.form(self._device.numpy(scaled.T @ scaled)), 0)

    def columns(self, index: Array) -> Any:
        return self._A @ self._device.matrix(self._rows.take(index).T)


class StackedRows(QueryRows):
    """Rows of one kind, then rows of another."""

    def __init__(self, first: QueryRows, second: QueryRows, device: Backend) -> None:
        self._first, self._second, self._device = first, second, device
        self.shape = (first.shape[0] + second.shape[0], first.shape[1])

    @property
    def is_quick(self) -> bool:
        return self._first.is_quick

    def gram(self, weights: Array) -> Any:
        m = self._first.shape[0]
        return self._first.gram(weights[:m]) + self._second.gram(weights[m:])

    def projected(self, A: Any) -> ProjectedRows:
        first, second = self._first.projected(A), self._second.projected(A)
        return _StackedProjected(first, second, self._first.shape[0], self._device)

    def take(self, index: Array) -> Array:
        m = self._first.shape[0]
        rows = np.empty((len(index), self.shape[1]))
        is_first = index < m
        rows[is_first] = self._first.take(index[is_first])
        rows[~is_first] = self._second.take(index[~is_first] - m)
        return rows


class _StackedProjected(ProjectedRows):
    def __init__(self, first: ProjectedRows, second: ProjectedRows, m: int, device: Backend) -> None:
        self._first, self._second, self._m, self._device = first, second, m, device

    def outer(self, x: Array) -> Any:
        return self._first.outer(x[: self._m]) + self._second.outer(x[self._m :])

    def form(self, M: Any) -> Array:
        return np.concatenate([self._first.form(M), self._second.form(M)])

    def decayed(self, decay: Array) -> Array:
        return np.concatenate([self._first.decayed(decay), self._second.decayed(decay)])

    def columns(self, index: Array) -> Any:
        # Callers list positions in rising order: first rows, then second ones.
        is_first = index < self._m
        first, second = index[is_first], index[~is_first] - self._m
        return self._device.beside(self._first.columns(first), self._second.columns(second))
