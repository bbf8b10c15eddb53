"""Cells that queries tell apart, pairs of them, and strategies written on an integer basis."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leastnoise.core.errors import DesignError
from leastnoise.core.full_rank import coefficients_on
from leastnoise.core.numerical_rank import row_lengths
from leastnoise.core.operators import Array


@dataclass(frozen=True, eq=False)
class Cells:
    """Which of n cells some query counts, and which of those no query tells apart.

    Attributes:
        used: booleans, (n,).
        first: the position of one cell of each kind.
        kind: for each used cell, its kind.
        counts: the number of cells of each kind.
    """

    used: Array
    first: Array
    kind: Array
    counts: Array

    @property
    def are_all(self) -> bool:
        """Whether every cell is used and differs from every other."""
        return len(self.first) == len(self.used)

    def spread(self, columns: Array) -> Array:
        """The columns of all n cells from those of the kinds: zero for a cell that no query counts."""
        if self.are_all:
            return columns
        every = np.zeros((len(columns), len(self.used)))
        every[:, self.used] = columns[:, self.kind]
        return every

    @classmethod
    def all_of(cls, n: int) -> Cells:
        """n cells, all used and all different."""
        return cls(np.ones(n, dtype=bool), np.arange(n), np.arange(n), np.ones(n, dtype=np.int64))


def distinct_cells(columns: Array, used: Array) -> Cells:
    """The cells, (k, n), by their columns in any coordinates of what is asked."""
    where = np.flatnonzero(used)
    # Cells in the same queries have columns equal up to rounding: compare on a coarse grid,
    # each direction on its own, so that weak ones still tell cells apart.
    scale = np.abs(columns).max(axis=1, keepdims=True)
    scale[scale == 0] = 1.0
    coarse = np.rint(columns[:, where] / scale * 2.0**30)
    _, first, kind, counts = np.unique(
        coarse, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) == len(used):
        # In their own order, not in that of their columns.
        return Cells.all_of(len(used))
    return Cells(used, where[first], kind.reshape(-1), counts)


def with_differences(columns: Array) -> Array:
    """The columns r_i, then r_i − r_j for i < j in the order of `list_pairs`."""
    i, j = np.triu_indices(columns.shape[1], 1)
    return np.hstack([columns, columns[:, i] - columns[:, j]])


def list_pairs(cells: Array, n: int) -> Array:
    """Each cell with no cell, n, then each pair of cells, smaller first: (N, 2)."""
    i, j = np.triu_indices(len(cells), 1)
    alone = np.column_stack([cells, np.full(len(cells), n)])
    return np.sort(np.vstack([alone, np.column_stack([cells[i], cells[j]])]), axis=1)


def on_basis(rows: Array, basis: Array) -> Array:
    """C with C · basis = rows, for rows in what the basis spans.

    Rows of the basis are brought to one length first. Beside rows of 2^40, single cells were lost to least
    squares, and with them most of the accuracy.
    """
    from scipy import linalg

    B = basis.astype(float)
    lengths = row_lengths(B)
    B /= lengths[:, None]
    found = coefficients_on(B, rows)
    if found is None:
        found = np.asarray(linalg.lstsq(B.T, rows.T)[0].T)
    return np.asarray(found / lengths)


def triangle(root: Array, basis: Array | None) -> Array:
    """The upper triangular C, (k, k), with CᵀC equal to the precision of root on the basis."""
    from scipy import linalg

    coefficients = root
    if not np.isfinite(root).all():
        raise DesignError("the strategy found is not finite; rescale the workload's rows")
    if basis is not None:
        # root = coefficients · basis exactly, because both span the same rows.
        coefficients = on_basis(root, basis)
    C = linalg.qr(coefficients, mode="r", check_finite=False)[0][: coefficients.shape[1]]
    if C.shape[0] != C.shape[1] or not math.isfinite(float(np.abs(C).max(initial=0))):
        raise DesignError("the strategy found lost a direction; rescale the workload's rows")
    return np.asarray(np.triu(C))
