"""Cells one by one, or all together."""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core.operators.base import Array, Operator, require_room


class Identity(Operator):
    """Every cell by itself.

    1 0 0
    0 1 0
    0 0 1
    """

    def __init__(self, n: int) -> None:
        self.shape = (n, n)

    def apply(self, x: Array) -> Array:
        return x.copy()

    def adjoint(self, y: Array) -> Array:
        return y.copy()

    def gram(self) -> Array:
        require_room(*self.shape, "the Gram matrix")
        return np.eye(self.shape[0])

    def weighted_gram(self, weights: Array) -> Array:
        n = self.shape[1]
        require_room(n, n * math.prod(weights.shape[1:]), "the Gram matrix")
        total = np.zeros((n, n, *weights.shape[1:]))
        total[np.arange(n), np.arange(n)] = weights
        return total

    @property
    def is_quick(self) -> bool:
        return True

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        return np.ones(self.shape[1])

    def quadratic(self, Y: Array) -> Array:
        return np.einsum("ii...->i...", Y).copy()


class AllOnes(Operator):
    """The single row that adds up every cell.

    1 1 1
    """

    def __init__(self, n: int) -> None:
        self.shape = (1, n)

    def apply(self, x: Array) -> Array:
        return x.sum(axis=0, keepdims=True)

    def adjoint(self, y: Array) -> Array:
        return np.repeat(y, self.shape[1], axis=0)

    def gram(self) -> Array:
        require_room(self.shape[1], self.shape[1], "the Gram matrix")
        return np.ones((self.shape[1], self.shape[1]))

    def weighted_gram(self, weights: Array) -> Array:
        n = self.shape[1]
        require_room(n, n * math.prod(weights.shape[1:]), "the Gram matrix")
        return np.tile(np.asarray(weights[0], dtype=float), (n, n, *[1] * (weights.ndim - 1)))

    @property
    def is_quick(self) -> bool:
        return True

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        return np.ones(self.shape[1])

    def quadratic(self, Y: Array) -> Array:
        return np.asarray(Y.sum(axis=(0, 1))[None])
