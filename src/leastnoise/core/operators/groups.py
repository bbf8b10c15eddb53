"""Sums over groups of cells: the nodes of a hierarchy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators.base import Array, Operator, require_room
from leastnoise.core.operators.cells import Identity
from leastnoise.core.operators.combined import Stack


class Groups(Operator):
    """Row g adds the cells of group g; a cell is in one group, or with −1 in none.

    groups 0 0 1 −1:

        1 1 0 0
        0 0 1 0
    """

    def __init__(self, groups: Sequence[int] | Array, n_groups: int) -> None:
        self.groups = np.array(groups, dtype=np.intp)
        if self.groups.ndim != 1 or not ((self.groups >= -1) & (self.groups < n_groups)).all():
            raise WorkloadError(f"groups must be numbered from 0 to {n_groups - 1}, or be -1 for none")
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


class EveryLevel(Stack):
    """The levels of a hierarchy, one below the other; every leaf is a group of its own in one of them."""

    def basis(self) -> Operator:
        return Identity(self.shape[1])
