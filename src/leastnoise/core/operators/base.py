"""What every operator can do."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import TooLargeError, WorkloadError

Array = npt.NDArray[Any]


# 4 GiB of float64: beyond it a dense array is refused instead of attempted.
MAX_ENTRIES = 2**29

# Rows handled at a time where a matrix is visited piece by piece.
CHUNK_ENTRIES = 2**22

# The share of a quadratic form that may be lost to rounding before its row is multiplied out after all.
CANCELLED = 1e-9

# Products of a row with a column of G up to which all are multiplied out: a sum of squares loses no digit.
MAX_MULTIPLIED = 2**28

# Applying a quick operator to a column costs about this many multiplications per row.
_QUICK_APPLY = 16


def require_room(rows: int, columns: int, what: str) -> None:
    """Return if a dense (rows, columns) array fits under MAX_ENTRIES.

    Raises:
        TooLargeError: with the number of entries, before anything is allocated.
    """
    if rows * columns > MAX_ENTRIES:
        raise TooLargeError(
            f"{what} would hold {rows:,} x {columns:,} numbers; at most {MAX_ENTRIES:,} are built",
            field="workload",
            given=(rows, columns),
            remedy="ask for fewer queries or coarser attributes",
        )


class Operator(ABC):
    """A real (m, n) matrix known by its products."""

    shape: tuple[int, int]

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """W x, for x of shape (n,) or (n, c)."""

    @abstractmethod
    def adjoint(self, y: Array) -> Array:
        """Wᵀ y, for y of shape (m,) or (m, c)."""

    @property
    def is_integer(self) -> bool:
        """Whether every entry is an integer."""
        return True

    @property
    def largest(self) -> float:
        """A bound on the absolute value of every entry."""
        return 1.0

    def gram(self) -> Array:
        """WᵀW as a dense float (n, n) array."""
        require_room(self.shape[1], self.shape[1], "the Gram matrix")
        total = np.zeros((self.shape[1], self.shape[1]))
        for block in self._row_blocks():
            total += block.T @ block
        return total

    def weighted_gram(self, weights: Array) -> Array:
        """Wᵀ diag(weights) W as a dense float (n, n) array; weights may be of either sign.

        Weights may have further axes, (m, ...): the answer is then (n, n, ...).
        """
        m, n = self.shape
        tail = weights.shape[1:]
        require_room(n, n * math.prod(tail), "the Gram matrix")
        total = np.zeros((n, n, *tail))
        counted = np.flatnonzero(weights.reshape(m, -1).any(axis=1))
        step = max(1, CHUNK_ENTRIES // (n * n if tail else n))
        for start in range(0, len(counted), step):
            index = counted[start : start + step]
            rows = self.rows(index)
            if not tail:
                total += (rows.T * weights[index]) @ rows
            else:
                total += np.tensordot(rows[:, :, None] * rows[:, None, :], weights[index], axes=(0, 0))
        return total

    @property
    def is_quick(self) -> bool:
        """Whether `weighted_gram` and `quadratic` take no longer than looking at m weights and n² numbers."""
        return False

    def dense(self, dtype: npt.DTypeLike = np.float64) -> Array:
        """W as an (m, n) array; an integer dtype needs an integer matrix.

        Raises:
            TooLargeError: above MAX_ENTRIES.
            WorkloadError: if integers are asked of a matrix that holds others.
        """
        m, n = self.shape
        require_room(m, n, "the dense matrix")
        wanted = np.dtype(dtype)
        if wanted.kind in "iu" and not (self.is_integer and self.largest < min(2**62, np.iinfo(wanted).max)):
            raise WorkloadError(
                "integer entries were asked of a matrix that holds other numbers", field="matrix"
            )
        return self._dense(wanted)

    def _dense(self, wanted: np.dtype[Any]) -> Array:
        # The smaller identity: one of n by n would dwarf the matrix of a few queries over a million cells.
        m, n = self.shape
        if m < n:
            return np.ascontiguousarray(self.adjoint(np.eye(m, dtype=wanted)).T)
        return self.apply(np.eye(n, dtype=wanted))

    def rows(self, index: Sequence[int] | Array) -> Array:
        """The dense (len(index), n) array of some rows."""
        positions = np.asarray(index, dtype=np.intp)
        require_room(max(self.shape), len(positions), "the rows")
        units = np.zeros((self.shape[0], len(positions)))
        units[positions, np.arange(len(positions))] = 1
        return np.ascontiguousarray(self.adjoint(units).T)

    def columns(self, index: Sequence[int] | Array) -> Array:
        """The dense (m, len(index)) array of some columns, as float64."""
        positions = np.asarray(index, dtype=np.intp)
        require_room(self.shape[0], len(positions), "the columns")
        found = np.empty((self.shape[0], len(positions)))
        start = 0
        for block in self._row_blocks():
            found[start : start + len(block)] = block[:, positions]
            start += len(block)
        return found

    def column_norms(self, order: int = 2) -> Array:
        """The L1 (order 1) or L2 (order 2) norm of each column, shape (n,)."""
        self._check_order(order)
        total = np.zeros(self.shape[1])
        for block in self._row_blocks():
            total += np.abs(block).sum(axis=0) if order == 1 else (block**2).sum(axis=0)
        return total if order == 1 else np.sqrt(total)

    def _check_order(self, order: int) -> None:
        if order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {order!r}")
        require_room(self.shape[1], 1, "the norms of the columns")

    def row_norms(self) -> Array:
        """The L2 norm of each row, shape (m,)."""
        return np.concatenate([np.sqrt((block**2).sum(axis=1)) for block in self._row_blocks()])

    def quadratic(self, Y: Array) -> Array:
        """The diagonal of W Y Wᵀ.

        Y may have further axes, (n, n, ...): the answer is then (m, ...).
        """
        parts = []
        for block in self._row_blocks():
            left = np.tensordot(block, Y, axes=(1, 0))
            parts.append(np.einsum("jn,jn...->j...", block, left))
        return np.concatenate(parts)

    def squared_products(self, gain: Array) -> Array:
        """‖w G‖² for every row w, (m,), for a matrix G, (n, r): by quadratic forms where that loses no digit.

        The form of row w is w (G Gᵀ) wᵀ, known to about n roundings of (Σ_i |w_i| √C_ii)², C = G Gᵀ. For
        operators that are quick: their rows have entries of one sign.
        """
        covariance = gain @ gain.T
        found = self.quadratic(covariance)
        spread = np.abs(self.apply(np.sqrt(np.maximum(np.diag(covariance), 0)))) ** 2
        doubtful = np.flatnonzero(self.shape[1] * np.finfo(float).eps * spread > CANCELLED * found)
        m, n = self.shape
        if len(doubtful) * n > _QUICK_APPLY * m:
            return sum_of_squares(self, gain)
        step = max(1, CHUNK_ENTRIES // n)
        for start in range(0, len(doubtful), step):
            index = doubtful[start : start + step]
            found[index] = ((self.rows(index) @ gain) ** 2).sum(axis=1)
        return np.asarray(found)

    def basis(self) -> Operator:
        """An operator with the same row space and, where that is cheap to find, at most n rows."""
        return self

    def _row_blocks(self) -> Iterator[Array]:
        m, n = self.shape
        step = max(1, CHUNK_ENTRIES // max(m, n, 1))
        for start in range(0, m, step):
            yield self.rows(np.arange(start, min(start + step, m)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]})"


def column_chunks(operator: Operator, gain: Array) -> Iterator[Array]:
    """W G some columns at a time, (m, few)."""
    step = max(1, CHUNK_ENTRIES // max(operator.shape))
    for start in range(0, gain.shape[1], step):
        yield operator.apply(gain[:, start : start + step])


def sum_of_squares(operator: Operator, gain: Array) -> Array:
    """‖w G‖² for every row w of an operator, (m,), multiplied out."""
    total = np.zeros(operator.shape[0])
    for part in column_chunks(operator, gain):
        total += (part**2).sum(axis=1)
    return total


def squared_rows(operator: Operator, gain: Array) -> Array:
    """‖w G‖² for every row w of an operator, (m,), for a matrix G, (n, r)."""
    if operator.shape[0] * gain.shape[1] > MAX_MULTIPLIED and operator.is_quick:
        return operator.squared_products(gain)
    return sum_of_squares(operator, gain)


def arranged(values: Array, have: Sequence[Hashable], want: Sequence[Hashable]) -> Array:
    """The same numbers with the leading array axes, named `have`, in the order `want`; further axes stay.

    An answer under the wrong label comes from two pieces of code that disagree about an order. So nobody
    transposes by position: axes are named, on both sides, and this function finds the positions.

    Example:
        >>> import numpy as np
        >>> arranged(np.zeros((2, 3, 5)), ["age", "sex"], ["sex", "age"]).shape
        (3, 2, 5)
    """
    if list(have) == list(want):
        return values
    if not len(have) == len(want) == len({*have}) or {*have} != {*want}:
        raise ValueError(f"axes {list(have)} cannot be put in the order {list(want)}")
    place = {name: position for position, name in enumerate(have)}
    return values.transpose(*(place[name] for name in want), *range(len(want), values.ndim))
