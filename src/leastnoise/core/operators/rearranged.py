"""The rows of another operator: some of them, over more cells, or with attributes in another order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators.base import Array, Operator, require_room
from leastnoise.core.operators.combined import is_whole_space


class _SameRows(Operator):
    """An operator whose rows hold the entries of another's, at other cells."""

    inner: Operator

    @property
    def is_integer(self) -> bool:
        return self.inner.is_integer

    @property
    def largest(self) -> float:
        return self.inner.largest

    @property
    def is_quick(self) -> bool:
        return self.inner.is_quick

    def row_norms(self) -> Array:
        return self.inner.row_norms()


class Selected(_SameRows):
    """Some rows of an operator, each once, in any order.

    Attributes:
        index: which rows.
    """

    def __init__(self, inner: Operator, index: Array) -> None:
        self.inner = inner
        self.index = np.asarray(index, dtype=np.intp)
        self.shape = (len(self.index), inner.shape[1])

    @property
    def is_quick(self) -> bool:
        return False

    def apply(self, x: Array) -> Array:
        return np.asarray(self.inner.apply(x)[self.index])

    def adjoint(self, y: Array) -> Array:
        spread = np.zeros((self.inner.shape[0], *y.shape[1:]), dtype=y.dtype)
        spread[self.index] = y
        return self.inner.adjoint(spread)

    def rows(self, index: Sequence[int] | Array) -> Array:
        return self.inner.rows(self.index[np.asarray(index, dtype=np.intp)])

    def columns(self, index: Sequence[int] | Array) -> Array:
        return np.asarray(self.inner.columns(index)[self.index])

    def row_norms(self) -> Array:
        return np.asarray(self.inner.row_norms()[self.index])


class Padded(_SameRows):
    """An operator over the first cells of n; the others are in no row."""

    def __init__(self, inner: Operator, n: int) -> None:
        if n < inner.shape[1]:
            raise WorkloadError.must(
                "n_cells", f"be at least the {inner.shape[1]} cells that are padded", given=n
            )
        self.inner = inner
        self.shape = (inner.shape[0], n)

    def apply(self, x: Array) -> Array:
        return self.inner.apply(x[: self.inner.shape[1]])

    def adjoint(self, y: Array) -> Array:
        inner = self.inner.adjoint(y)
        return np.concatenate([inner, np.zeros((self._n_absent, *inner.shape[1:]), dtype=inner.dtype)])

    def gram(self) -> Array:
        require_room(self.shape[1], self.shape[1], "the Gram matrix")
        inside = self.inner.gram()
        return np.pad(inside, ((0, self._n_absent), (0, self._n_absent))) if self._n_absent else inside

    def weighted_gram(self, weights: Array) -> Array:
        require_room(self.shape[1], self.shape[1] * math.prod(weights.shape[1:]), "the Gram matrix")
        inside = self.inner.weighted_gram(weights)
        if not self._n_absent:
            return inside
        return np.pad(inside, [(0, self._n_absent)] * 2 + [(0, 0)] * (inside.ndim - 2))

    def rows(self, index: Sequence[int] | Array) -> Array:
        return np.pad(self.inner.rows(index), ((0, 0), (0, self._n_absent)))

    def column_norms(self, order: int = 2) -> Array:
        return np.pad(self.inner.column_norms(order), (0, self._n_absent))

    def quadratic(self, Y: Array) -> Array:
        inside = self.inner.shape[1]
        return self.inner.quadratic(Y[:inside, :inside])

    def squared_products(self, gain: Array) -> Array:
        return self.inner.squared_products(gain[: self.inner.shape[1]])

    def basis(self) -> Operator:
        return Padded(self.inner.basis(), self.shape[1]) if self._n_absent else self.inner.basis()

    @property
    def _n_absent(self) -> int:
        return self.shape[1] - self.inner.shape[1]


class Reordered(_SameRows):
    """An operator over the same cells with their attributes in another order.

    Args:
        inner: rows over attributes in the order given by `order`.
        shape: the number of values of each attribute, in schema order.
        order: for each attribute of the inner operator, its place in the schema.
    """

    def __init__(self, inner: Operator, shape: Sequence[int], order: Sequence[int]) -> None:
        if sorted(order) != list(range(len(shape))) or math.prod(shape) != inner.shape[1]:
            raise WorkloadError.must(
                "order", f"be an order of attributes with {list(shape)} values", given=list(order)
            )
        self.inner = inner
        self.axes = tuple(shape)
        self.order = tuple(order)
        self.shape = inner.shape

    # Lists of places would be kept for every one of hundreds of conditions: 8 MB each for a million cells.

    def _to_inner(self, cells: Array) -> Array:
        """The values of all cells, (n, ...), in the order of the inner operator."""
        tensor = cells.reshape(*self.axes, -1)
        return tensor.transpose(*self.order, len(self.axes)).reshape(cells.shape)

    def _to_schema(self, cells: Array) -> Array:
        """The values of all cells of the inner operator, (n, ...), in schema order."""
        tensor = cells.reshape(*[self.axes[a] for a in self.order], -1)
        back = np.argsort(self.order).tolist()
        return tensor.transpose(*back, len(self.axes)).reshape(cells.shape)

    @property
    def _places(self) -> Array:
        """For each cell of the inner operator, its place in schema order."""
        require_room(self.shape[1], 1, "the order of the cells")
        return self._to_inner(np.arange(self.shape[1]))

    @property
    def _back(self) -> Array:
        return self._to_schema(np.arange(self.shape[1]))

    def apply(self, x: Array) -> Array:
        return self.inner.apply(self._to_inner(x))

    def adjoint(self, y: Array) -> Array:
        return self._to_schema(self.inner.adjoint(y))

    def gram(self) -> Array:
        back = self._back
        return self.inner.gram()[np.ix_(back, back)]

    def weighted_gram(self, weights: Array) -> Array:
        back = self._back
        return self.inner.weighted_gram(weights)[np.ix_(back, back)]

    def rows(self, index: Sequence[int] | Array) -> Array:
        return np.ascontiguousarray(self._to_schema(self.inner.rows(index).T).T)

    def column_norms(self, order: int = 2) -> Array:
        return self._to_schema(self.inner.column_norms(order))

    def quadratic(self, Y: Array) -> Array:
        places = self._places
        return self.inner.quadratic(Y[np.ix_(places, places)])

    def basis(self) -> Operator:
        basis = self.inner.basis()
        return basis if is_whole_space(basis) else Reordered(basis, self.axes, self.order)
