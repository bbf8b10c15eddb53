"""Matrices given entry by entry, dense or sparse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators.base import Array, Operator, require_room

# Floats above this no longer hold every integer.
EXACT_FLOAT = 2**53

# The square of the largest entry of a row must neither overflow nor vanish in float64.
_ROW_SCALE = (1e-100, 1e100)


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

    def columns(self, index: Sequence[int] | Array) -> Array:
        return self.entries[:, np.asarray(index, dtype=np.intp)].astype(float)


class SparseMatrix(Operator):
    """A SciPy sparse matrix, with duplicate entries summed first."""

    def __init__(self, entries: Any) -> None:
        if len(entries.shape) != 2:
            raise WorkloadError.must("matrix", "have two dimensions", given=entries.shape)
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

    def columns(self, index: Sequence[int] | Array) -> Array:
        require_room(self.shape[0], len(index), "the columns")
        return np.asarray(self.entries[:, np.asarray(index, dtype=np.intp)].toarray().astype(float))


def from_entries(entries: Any) -> Operator:
    """The operator of a matrix given as an array, nested lists or a SciPy sparse matrix."""
    if hasattr(entries, "tocsr"):
        return SparseMatrix(entries)
    return Matrix(entries)


def _checked_entries(entries: npt.ArrayLike) -> Array:
    """A read-only copy of a matrix, int64 if every entry is an integer, float64 otherwise."""
    if np.ma.is_masked(entries):
        raise WorkloadError.must(
            "matrix", "have all its entries, none of them masked", given="masked", remedy="fill them first"
        )
    try:
        array = np.array(entries)
    except ValueError:
        raise WorkloadError.must("matrix", "have rows of equal lengths", given=type(entries)) from None
    if array.ndim != 2:
        raise WorkloadError.must("matrix", "have two dimensions", given=array.shape)
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite, and is refused below
        array = array.astype(_wide_dtype(array))
    return _settled(array, np.abs(array.astype(float)).max(axis=1, initial=0))


def _wide_dtype(values: Array) -> type[np.int64] | type[np.float64]:
    """The dtype that holds these numbers and their sums without wrapping."""
    if values.dtype.kind not in "biuf":
        raise WorkloadError.must(
            "matrix", "hold real numbers", given=str(values.dtype), remedy="convert with .astype(float)"
        )
    if values.dtype.kind == "f":
        return np.float64
    if values.size and max(int(values.max()), -int(values.min())) >= 2**62:
        raise WorkloadError.must(
            "matrix", "hold entries below 2^62", given="2^62 or more", remedy="rescale the rows"
        )
    return np.int64


def _settled(values: Array, largest: Array) -> Array:
    """The same numbers read-only, as int64 if all are integers; `largest` is that of each row."""
    if values.dtype.kind == "f":
        for j in np.flatnonzero(~np.isfinite(largest)):
            raise WorkloadError.must("matrix", "hold finite entries", given=f"NaN or infinity in row {j}")
        low, high = _ROW_SCALE
        for j in np.flatnonzero((largest > 0) & ((largest < low) | (largest > high))):
            raise WorkloadError(
                f"the largest entry of a row must lie between {low:.0e} and {high:.0e}, or be 0; "
                f"that of row {j} is {largest[j]:.3g}",
                field="matrix",
                given=float(largest[j]),
                remedy="rescale the row",
            )
        if (values == np.rint(values)).all() and largest.max(initial=0) < EXACT_FLOAT:
            values = values.astype(np.int64)
    elif largest.max(initial=0) >= 2**62:
        raise WorkloadError.must(
            "matrix", "hold entries below 2^62", given="2^62 or more", remedy="rescale the rows"
        )
    values.setflags(write=False)
    return values
