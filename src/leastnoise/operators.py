"""Matrices known by what they do.

A workload over a thousand ages has half a million ranges; nobody needs them as
a dense matrix. An operator answers a few questions about its matrix, and every
one has the same contract:

    shape           (m, n)
    apply(x)        W x, for x of shape (n,) or (n, c)
    adjoint(y)      Wᵀ y, for y of shape (m,) or (m, c)
    gram()          Wᵀ W as a dense (n, n) array
    dense()         W itself; refused above MAX_ENTRIES

From these five follow `rows`, `column_norms`, `quadratic` and `basis`, which a
class overrides where it knows a shorter way. `tests/laws.py` states what all of
them must obey; a new class joins by one line in its list.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.errors import TooLargeError, WorkloadError

Array = npt.NDArray[Any]

# 4 GiB of float64: beyond it a dense array is refused instead of attempted.
MAX_ENTRIES = 2**29

# Floats above this no longer hold every integer.
EXACT_FLOAT = 2**53

# The square of the largest entry of a row must neither overflow nor vanish in float64.
_ROW_SCALE = (1e-100, 1e100)

# Rows handled at a time where a matrix is visited piece by piece.
_CHUNK_ENTRIES = 2**22


def require_room(rows: int, columns: int, what: str) -> None:
    """Return if a dense (rows, columns) array fits under MAX_ENTRIES.

    Raises:
        TooLargeError: with the number of entries, before anything is allocated.
    """
    if rows * columns > MAX_ENTRIES:
        raise TooLargeError(
            f"{what} would hold {rows:,} x {columns:,} numbers; at most {MAX_ENTRIES:,} are built. "
            "Ask for fewer queries or coarser attributes."
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
            raise WorkloadError("integer entries were asked of a matrix that holds other numbers")
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

    def basis(self) -> Operator:
        """An operator with the same row space and, where it can be told cheaply, at most n rows."""
        return self

    def _row_blocks(self) -> Iterator[Array]:
        m, n = self.shape
        step = max(1, _CHUNK_ENTRIES // max(m, n, 1))
        for start in range(0, m, step):
            yield self.rows(np.arange(start, min(start + step, m)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]})"


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

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        return np.ones(self.shape[1])

    def quadratic(self, Y: Array) -> Array:
        return np.asarray(Y.sum(axis=(0, 1))[None])


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
        return n - np.maximum.outer(position, position)

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        heights = np.arange(self.shape[1], 0, -1, dtype=float)
        return heights if order == 1 else np.sqrt(heights)

    def quadratic(self, Y: Array) -> Array:
        sums = np.cumsum(np.cumsum(Y, axis=0), axis=1)
        return np.einsum("ii...->i...", sums).copy()

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

    def quadratic(self, Y: Array) -> Array:
        sums = _sums_before(_sums_before(Y).swapaxes(0, 1)).swapaxes(0, 1)
        low, high = self.low, self.high + 1
        return sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]


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
            raise WorkloadError("a list of ranges needs as many lower ends as upper ends")
        inside = (self.low >= 0) & (self.low <= self.high) & (self.high < n)
        if not inside.all():
            raise WorkloadError(f"each range needs 0 <= low <= high < {n}")
        self.shape = (len(self.low), n)

    def gram(self) -> Array:
        # Entry (i, j) counts the ranges that start at or before min(i, j) and
        # end at or after max(i, j): a two-dimensional running sum, O(n²).
        n = self.shape[1]
        require_room(n, n, "the Gram matrix")
        count = np.zeros((n, n))
        np.add.at(count, (self.low, self.high), 1)
        covering = np.cumsum(np.cumsum(count, axis=0)[:, ::-1], axis=1)[:, ::-1]
        return np.triu(covering) + np.triu(covering, 1).T

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
        return (np.minimum.outer(position, position) + 1) * (n - np.maximum.outer(position, position))

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        n = self.shape[1]
        position = np.arange(n, dtype=float)
        covered = (position + 1) * (n - position)
        return covered if order == 1 else np.sqrt(covered)

    def basis(self) -> Operator:
        return Identity(self.shape[1])


class Matrix(Operator):
    """A matrix given entry by entry; the operator keeps its own read-only copy.

    Integer matrices are held as int64, so that nothing is lost; all others as float64.
    """

    def __init__(self, entries: npt.ArrayLike) -> None:
        self.entries = _checked_entries(entries)
        self.shape = (self.entries.shape[0], self.entries.shape[1])

    @property
    def is_integer(self) -> bool:
        return self.entries.dtype.kind == "i"

    @property
    def largest(self) -> float:
        return float(np.abs(self.entries).max(initial=0))

    def apply(self, x: Array) -> Array:
        return np.asarray(self.entries @ x)

    def adjoint(self, y: Array) -> Array:
        return np.asarray(self.entries.T @ y)

    def gram(self) -> Array:
        require_room(self.shape[1], self.shape[1], "the Gram matrix")
        W = self.entries.astype(float)
        return W.T @ W

    def _dense(self, wanted: np.dtype[Any]) -> Array:
        return self.entries.astype(wanted)

    def rows(self, index: Sequence[int] | Array) -> Array:
        return self.entries[np.asarray(index, dtype=np.intp)].astype(float)


class SparseMatrix(Operator):
    """A SciPy sparse matrix, with duplicate entries summed first."""

    def __init__(self, entries: Any) -> None:
        if len(entries.shape) != 2:
            raise WorkloadError(f"a matrix needs two dimensions, got an array of shape {entries.shape}")
        # Widened before summing: two uint8 entries of 200 and 100 at one place make 300, not 44.
        given = entries.tocoo()
        matrix = given.astype(_wide_dtype(given.data)).tocsr().copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        largest = np.zeros(matrix.shape[0])
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        with np.errstate(invalid="ignore"):  # NaN passes through, and is refused below
            np.maximum.at(largest, row, np.abs(matrix.data.astype(float)))
        matrix.data = _settled(matrix.data, largest)
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.setflags(write=False)
        self.entries = matrix
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))

    @property
    def is_integer(self) -> bool:
        return bool(self.entries.data.dtype.kind == "i")

    @property
    def largest(self) -> float:
        return float(np.abs(self.entries.data).max(initial=0))

    def apply(self, x: Array) -> Array:
        return np.asarray(self.entries @ x)

    def adjoint(self, y: Array) -> Array:
        return np.asarray(self.entries.T @ y)

    def gram(self) -> Array:
        require_room(self.shape[1], self.shape[1], "the Gram matrix")
        W = self.entries.astype(float)
        return np.asarray((W.T @ W).toarray())

    def _dense(self, wanted: np.dtype[Any]) -> Array:
        return np.asarray(self.entries.toarray().astype(wanted))

    def rows(self, index: Sequence[int] | Array) -> Array:
        return np.asarray(self.entries[np.asarray(index, dtype=np.intp)].toarray().astype(float))


class Kronecker(Operator):
    """A product W₁ ⊗ … ⊗ W_r, one factor per attribute, the last attribute fastest."""

    def __init__(self, factors: Sequence[Operator]) -> None:
        if not factors:
            raise WorkloadError("a product needs at least one factor")
        self.factors = tuple(factors)
        self.shape = (
            math.prod(f.shape[0] for f in self.factors),
            math.prod(f.shape[1] for f in self.factors),
        )

    @property
    def is_integer(self) -> bool:
        return all(f.is_integer for f in self.factors)

    @property
    def largest(self) -> float:
        return math.prod(f.largest for f in self.factors)

    def apply(self, x: Array) -> Array:
        return self._along_axes(x, [f.apply for f in self.factors], 1)

    def adjoint(self, y: Array) -> Array:
        return self._along_axes(y, [f.adjoint for f in self.factors], 0)

    def _along_axes(self, x: Array, steps: Sequence[Any], axis_of_shape: int) -> Array:
        # Three axes at a time, (done, this one, still to do): a schema may have more
        # attributes than NumPy has axes.
        done, left = 1, x.size
        tensor = x
        for factor, step in zip(self.factors, steps, strict=True):
            size, after = factor.shape[axis_of_shape], factor.shape[1 - axis_of_shape]
            left //= size
            front = tensor.reshape(done, size, left).transpose(1, 0, 2).reshape(size, done * left)
            tensor = step(front).reshape(after, done, left).transpose(1, 0, 2)
            done *= after
        return tensor.reshape(done, *x.shape[1:])

    def gram(self) -> Array:
        require_room(self.shape[1], self.shape[1], "the Gram matrix")
        total: Array = np.ones((1, 1))
        for factor in self.factors:
            total = np.kron(total, factor.gram())
        return total

    def rows(self, index: Sequence[int] | Array) -> Array:
        rest = np.asarray(index, dtype=np.intp)
        require_room(len(rest), self.shape[1], "the rows")
        where = []
        for factor in reversed(self.factors):
            where.append(rest % factor.shape[0])
            rest = rest // factor.shape[0]
        if rest.any():
            raise IndexError(f"row numbers must lie between 0 and {self.shape[0] - 1}")
        total = np.ones((len(rest), 1))
        for factor, positions in zip(self.factors, reversed(where), strict=True):
            block = factor.rows(positions)
            width = total.shape[1] * block.shape[1]
            total = (total[:, :, None] * block[:, None, :]).reshape(len(total), width)
        return total

    def column_norms(self, order: int = 2) -> Array:
        self._check_order(order)
        total: Array = np.ones(1)
        for factor in self.factors:
            total = np.kron(total, factor.column_norms(order))
        return total

    def quadratic(self, Y: Array) -> Array:
        # Contract one attribute at a time; the one that shrinks most goes first,
        # so that a long list of queries is multiplied out last.
        r = len(self.factors)
        sizes = [f.shape[1] for f in self.factors]
        tail = Y.shape[2:]
        tensor = Y.reshape(*sizes, *sizes, -1)
        axes = [(a, "row") for a in range(r)] + [(a, "column") for a in range(r)] + [(-1, "tail")]
        for a in sorted(range(r), key=lambda a: self.factors[a].shape[0] / sizes[a] ** 2):
            i, j = axes.index((a, "row")), axes.index((a, "column"))
            front = np.moveaxis(tensor, (i, j), (0, 1))
            rest = [axis for axis in axes if axis[0] != a]
            result = self.factors[a].quadratic(front.reshape(front.shape[0], front.shape[1], -1))
            tensor = result.reshape(result.shape[0], *front.shape[2:])
            axes = [(a, "done"), *rest]
        order = [axes.index((a, "done")) for a in range(r)] + [axes.index((-1, "tail"))]
        return tensor.transpose(order).reshape(-1, *tail)

    def basis(self) -> Operator:
        return Kronecker([f.basis() for f in self.factors])


class Stack(Operator):
    """Several operators over the same cells, one below the other."""

    def __init__(self, parts: Sequence[Operator]) -> None:
        if not parts:
            raise WorkloadError("a stack needs at least one operator")
        if len({part.shape[1] for part in parts}) > 1:
            raise WorkloadError(f"stacked operators need equal numbers of cells, got {list(parts)}")
        self.parts = tuple(parts)
        self.shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])

    @property
    def is_integer(self) -> bool:
        return all(part.is_integer for part in self.parts)

    @property
    def largest(self) -> float:
        return max(part.largest for part in self.parts)

    @cached_property
    def _starts(self) -> Array:
        starts = list(accumulate((part.shape[0] for part in self.parts), initial=0))
        # Python integers where int64 would wrap.
        return np.array(starts, dtype=np.int64 if starts[-1] < 2**62 else object)

    def apply(self, x: Array) -> Array:
        return np.concatenate([part.apply(x) for part in self.parts])

    def adjoint(self, y: Array) -> Array:
        pieces = [
            part.adjoint(y[start : start + part.shape[0]])
            for part, start in zip(self.parts, self._starts[:-1], strict=True)
        ]
        return np.asarray(sum(pieces[1:], start=pieces[0]))

    def gram(self) -> Array:
        total = self.parts[0].gram()
        for part in self.parts[1:]:
            total = total + part.gram()
        return total

    def rows(self, index: Sequence[int] | Array) -> Array:
        positions = np.asarray(index, dtype=np.intp)
        require_room(len(positions), self.shape[1], "the rows")
        owner = np.searchsorted(self._starts, positions, side="right") - 1
        result = np.empty((len(positions), self.shape[1]))
        for number in np.unique(owner):
            mine = owner == number
            result[mine] = self.parts[number].rows(positions[mine] - self._starts[number])
        return result

    def column_norms(self, order: int = 2) -> Array:
        norms = [part.column_norms(order) for part in self.parts]
        return np.sum(norms, axis=0) if order == 1 else np.sqrt(np.sum(np.square(norms), axis=0))

    def quadratic(self, Y: Array) -> Array:
        return np.concatenate([part.quadratic(Y) for part in self.parts])

    def basis(self) -> Operator:
        bases = [part.basis() for part in self.parts]
        # One part that spans everything makes the others redundant.
        for candidate in bases:
            if is_whole_space(candidate):
                return Identity(self.shape[1])
        return Stack(bases)


class RowScaled(Operator):
    """An operator whose row j is multiplied by factors[j]."""

    def __init__(self, inner: Operator, factors: Array) -> None:
        self.inner = inner
        self.factors = np.array(factors, dtype=float)
        if self.factors.shape != (inner.shape[0],):
            raise WorkloadError(f"{inner.shape[0]} rows need as many factors, got {self.factors.shape}")
        self.shape = inner.shape

    @property
    def is_integer(self) -> bool:
        return False

    @property
    def largest(self) -> float:
        return self.inner.largest * float(np.abs(self.factors).max(initial=0))

    def apply(self, x: Array) -> Array:
        return _times_rows(self.factors, self.inner.apply(x))

    def adjoint(self, y: Array) -> Array:
        return self.inner.adjoint(_times_rows(self.factors, y))

    def rows(self, index: Sequence[int] | Array) -> Array:
        return _times_rows(self.factors[np.asarray(index, dtype=np.intp)], self.inner.rows(index))

    def quadratic(self, Y: Array) -> Array:
        return _times_rows(self.factors**2, self.inner.quadratic(Y))


def from_entries(entries: Any) -> Operator:
    """The operator of a matrix given as an array, nested lists or a SciPy sparse matrix."""
    if hasattr(entries, "tocsr"):
        return SparseMatrix(entries)
    return Matrix(entries)


def is_whole_space(operator: Operator) -> bool:
    """Whether the operator is the identity, or a product of identities."""
    if isinstance(operator, Kronecker):
        return all(is_whole_space(factor) for factor in operator.factors)
    return isinstance(operator, Identity)


def _sums_before(x: Array) -> Array:
    """Row i is the sum of rows 0 to i − 1; one row more than x."""
    sums = np.zeros((x.shape[0] + 1, *x.shape[1:]), dtype=x.dtype)
    np.cumsum(x, axis=0, out=sums[1:])
    return sums


def _times_rows(factors: Array, x: Array) -> Array:
    return factors.reshape(-1, *[1] * (x.ndim - 1)) * x


def _checked_entries(entries: npt.ArrayLike) -> Array:
    """A read-only copy of a matrix, int64 if every entry is an integer, float64 otherwise."""
    if np.ma.is_masked(entries):
        raise WorkloadError("matrix entries must be present, some are masked; fill them first")
    try:
        array = np.array(entries)
    except ValueError:
        raise WorkloadError("the rows of a matrix must have equal lengths") from None
    if array.ndim != 2:
        raise WorkloadError(f"a matrix needs two dimensions, got an array of shape {array.shape}")
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite, and is refused below
        array = array.astype(_wide_dtype(array))
    return _settled(array, np.abs(array.astype(float)).max(axis=1, initial=0))


def _wide_dtype(values: Array) -> type[np.int64] | type[np.float64]:
    """The dtype that holds these numbers and their sums without wrapping."""
    if values.dtype.kind not in "biuf":
        raise WorkloadError(
            f"matrix entries must be real numbers, got dtype {values.dtype}; convert with .astype(float)"
        )
    if values.dtype.kind == "f":
        return np.float64
    if values.size and max(int(values.max()), -int(values.min())) >= 2**62:
        raise WorkloadError("matrix entries of 2^62 or more are not supported; rescale the rows")
    return np.int64


def _settled(values: Array, largest: Array) -> Array:
    """The same numbers read-only, as int64 if all are integers; `largest` is that of each row."""
    if values.dtype.kind == "f":
        for j in np.flatnonzero(~np.isfinite(largest)):
            raise WorkloadError(f"matrix entries must be finite; row {j} holds NaN or infinity")
        low, high = _ROW_SCALE
        for j in np.flatnonzero((largest > 0) & ((largest < low) | (largest > high))):
            raise WorkloadError(
                f"the largest entry of a row must lie between {low:.0e} and {high:.0e}, or be 0; "
                f"that of row {j} is {largest[j]:.3g}. Rescale the row."
            )
        if (values == np.rint(values)).all() and largest.max(initial=0) < EXACT_FLOAT:
            values = values.astype(np.int64)
    elif largest.max(initial=0) >= 2**62:
        raise WorkloadError("matrix entries of 2^62 or more are not supported; rescale the rows")
    values.setflags(write=False)
    return values
