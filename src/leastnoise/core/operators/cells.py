"""Cells one by one, all together, in groups, and in intervals of ordered cells."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators.base import CANCELLED, CHUNK_ENTRIES, Array, Operator, require_room


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


class CumulativeSum(Operator):
    """Prefix sums: row i adds cells 0 to i.

    1 0 0 0
    1 1 0 0
    1 1 1 0
    1 1 1 1
    """

    def __init__(self, n: int) -> None:
        self.shape = (n, n)

    def apply(self, x: Array) -> Array:
        return np.cumsum(x, axis=0)

    def adjoint(self, y: Array) -> Array:
        return np.cumsum(y[::-1], axis=0)[::-1]

    def gram(self) -> Array:
        n = self.shape[1]
        require_room(n, n, "the Gram matrix")
        position = np.arange(n, dtype=float)
        return np.minimum.outer(n - position, n - position)

    def weighted_gram(self, weights: Array) -> Array:
        n = self.shape[1]
        require_room(n, n * math.prod(weights.shape[1:]), "the Gram matrix")
        # Entry (i, j) adds the weights of rows from max(i, j) on.
        from_there = np.cumsum(weights[::-1], axis=0)[::-1]
        position = np.arange(n)
        return np.asarray(from_there[np.maximum.outer(position, position)], dtype=float)

    @property
    def is_quick(self) -> bool:
        return True

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        heights = np.arange(self.shape[1], 0, -1, dtype=float)
        return heights if order == 1 else np.sqrt(heights)

    def quadratic(self, Y: Array) -> Array:
        sums = np.cumsum(np.cumsum(Y, axis=0), axis=1)
        return np.einsum("ii...->i...", sums).copy()

    def squared_products(self, gain: Array) -> Array:
        return np.asarray((np.cumsum(gain, axis=0) ** 2).sum(axis=1))

    def basis(self) -> Operator:
        return Identity(self.shape[1])


class _Intervals(Operator):
    """Sums over intervals of cells: row j adds cells low[j] to high[j], both included."""

    @property
    @abstractmethod
    def low(self) -> Array:
        """The first cell of each interval, shape (m,)."""

    @property
    @abstractmethod
    def high(self) -> Array:
        """The last cell of each interval, shape (m,)."""

    def apply(self, x: Array) -> Array:
        sums = _sums_before(x)
        return sums[self.high + 1] - sums[self.low]

    def adjoint(self, y: Array) -> Array:
        steps = np.zeros((self.shape[1] + 1, *y.shape[1:]), dtype=y.dtype)
        np.add.at(steps, self.low, y)
        np.subtract.at(steps, self.high + 1, y)
        return np.cumsum(steps, axis=0)[:-1]

    def rows(self, index: Sequence[int] | Array) -> Array:
        positions = np.asarray(index, dtype=np.intp)
        require_room(len(positions), self.shape[1], "the rows")
        cells = np.arange(self.shape[1])
        low, high = self.low[positions, None], self.high[positions, None]
        return ((low <= cells) & (cells <= high)).astype(float)

    def weighted_gram(self, weights: Array) -> Array:
        # Entry (i, j) adds the weights of the ranges that start at or before min(i, j) and
        # end at or after max(i, j): a two-dimensional running sum, O(n²).
        n = self.shape[1]
        require_room(n, n * math.prod(weights.shape[1:]), "the Gram matrix")
        total = np.zeros((n, n, *weights.shape[1:]))
        self._place(total, weights)
        np.cumsum(total, axis=0, out=total)
        np.cumsum(total[:, ::-1], axis=1, out=total[:, ::-1])
        # Only starts at or before ends were placed: what is below the diagonal mirrors what is above.
        below = np.tril_indices(n, -1)
        total[below] = total.swapaxes(0, 1)[below]
        return total

    def _place(self, total: Array, weights: Array) -> None:
        """Add each weight where its range starts and ends."""
        np.add.at(total, (self.low, self.high), weights)

    @property
    def is_quick(self) -> bool:
        return True

    def quadratic(self, Y: Array) -> Array:
        sums = _sums_before(_sums_before(Y).swapaxes(0, 1)).swapaxes(0, 1)
        low, high = self.low, self.high + 1
        return sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]

    def squared_products(self, gain: Array) -> Array:
        """‖s_b − s_a‖² for the sums s of the rows of G before both ends.

        Multiplied out as ‖s_b‖² − 2⟨s_a, s_b⟩ + ‖s_a‖² it is known to about r roundings of (‖s_a‖ + ‖s_b‖)².
        Sums from the first cell on are what good noise tells well, so little cancels, unlike in forms of
        single cells: all ranges of 1,413 values take 0.2 s of one core, by forms of cells more than 250 s.
        """
        sums = _sums_before(gain)
        products = sums @ sums.T
        low, high = self.low, self.high + 1
        squares = np.diag(products).copy()
        lengths = np.sqrt(squares)
        found = squares[high] + squares[low] - 2 * products[low, high]
        unsure = gain.shape[1] * np.finfo(float).eps * (lengths[high] + lengths[low]) ** 2
        doubtful = np.flatnonzero(unsure > CANCELLED * found)
        step = max(1, CHUNK_ENTRIES // gain.shape[1])
        for start in range(0, len(doubtful), step):
            index = doubtful[start : start + step]
            found[index] = ((sums[high[index]] - sums[low[index]]) ** 2).sum(axis=1)
        return np.asarray(found)


class SomeRanges(_Intervals):
    """Sums over chosen intervals; row j adds cells low[j] to high[j], both included.

    ranges (0, 1) and (1, 3) of 4 cells:

        1 1 0 0
        0 1 1 1
    """

    low: Array = np.empty(0, dtype=np.intp)
    high: Array = np.empty(0, dtype=np.intp)

    def __init__(self, n: int, low: Sequence[int] | Array, high: Sequence[int] | Array) -> None:
        self.low = np.array(low, dtype=np.intp)
        self.high = np.array(high, dtype=np.intp)
        if self.low.shape != self.high.shape or self.low.ndim != 1:
            raise WorkloadError.must(
                "ranges", "have as many lower ends as upper ends", given=(self.low.shape, self.high.shape)
            )
        inside = (self.low >= 0) & (self.low <= self.high) & (self.high < n)
        if not inside.all():
            raise WorkloadError.must(
                "ranges",
                f"have 0 <= low <= high < {n}",
                given=(int(self.low[~inside][0]), int(self.high[~inside][0])),
            )
        self.shape = (len(self.low), n)

    def gram(self) -> Array:
        return self.weighted_gram(np.ones(self.shape[0]))

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        covered = self.adjoint(np.ones(self.shape[0]))
        return covered if order == 1 else np.sqrt(covered)


class EveryRange(_Intervals):
    """Sums over all n(n + 1)/2 intervals, ordered by lower end, then upper end.

        1 0 0
        1 1 0
        1 1 1
        0 1 0
        0 1 1
        0 0 1

    The ends are computed when first needed: naming the operator costs nothing.
    """

    def __init__(self, n: int) -> None:
        self.shape = (n * (n + 1) // 2, n)

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        require_room(self.shape[0], 2, "the ends of every range")
        return np.triu_indices(self.shape[1])

    @property
    def low(self) -> Array:
        return self._ends[0]

    @property
    def high(self) -> Array:
        return self._ends[1]

    def _place(self, total: Array, weights: Array) -> None:
        total[self.low, self.high] = weights

    def ends(self, j: int) -> tuple[int, int]:
        """The first and last cell of interval j, without listing the others.

        Counted from the end, the intervals that start at or after cell n − t are the last t(t + 1)/2.
        """
        n, behind = self.shape[1], self.shape[0] - 1 - j
        t = (math.isqrt(8 * behind + 1) - 1) // 2
        return n - 1 - t, n - 1 - (behind - t * (t + 1) // 2)

    def gram(self) -> Array:
        n = self.shape[1]
        require_room(n, n, "the Gram matrix")
        position = np.arange(n, dtype=float)
        total = np.minimum.outer(position + 1, position + 1)
        total *= np.minimum.outer(n - position, n - position)
        return total

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        n = self.shape[1]
        position = np.arange(n, dtype=float)
        covered = (position + 1) * (n - position)
        return covered if order == 1 else np.sqrt(covered)

    def basis(self) -> Operator:
        return Identity(self.shape[1])


def _sums_before(x: Array) -> Array:
    """Row i is the sum of rows 0 to i − 1; one row more than x."""
    sums = np.zeros((x.shape[0] + 1, *x.shape[1:]), dtype=x.dtype)
    np.cumsum(x, axis=0, out=sums[1:])
    return sums
