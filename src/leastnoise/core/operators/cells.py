"""Cells one by one, all together, or in groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leastnoise.core.errors import WorkloadError
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


class Groups(Operator):
    """Row g adds the cells of group g; a cell is in one group, or with −1 in none.

    groups 0 0 1 −1:

        1 1 0 0
        0 0 1 0
    """

    def __init__(self, groups: Sequence[int] | Array, n_groups: int) -> None:
        self.groups = np.array(groups, dtype=np.intp)
        if self.groups.ndim != 1 or not ((self.groups >= -1) & (self.groups < n_groups)).all():
            raise WorkloadError.must(
                "groups", f"be numbered from 0 to {n_groups - 1}, or be -1 for none", given=type(groups)
            )
        self.groups.setflags(write=False)
        self.shape = (n_groups, len(self.groups))

    def apply(self, x: Array) -> Array:
        inside = self.groups >= 0
        sums = np.zeros((self.shape[0], *x.shape[1:]), dtype=x.dtype)
        np.add.at(sums, self.groups[inside], x[inside])
        return sums

    def adjoint(self, y: Array) -> Array:
        # Group −1 reads the row of zeros put at the end.
        return np.concatenate([y, np.zeros((1, *y.shape[1:]), dtype=y.dtype)])[self.groups]

    def gram(self) -> Array:
        n = self.shape[1]
        require_room(n, n, "the Gram matrix")
        is_same = (self.groups[:, None] == self.groups[None, :]) & (self.groups >= 0)[:, None]
        return is_same.astype(float)

    def column_norms(self, order: int = 2) -> Array:
        if order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {order!r}")
        return (self.groups >= 0).astype(float)
