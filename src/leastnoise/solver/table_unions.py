"""Columns of rows that look at few attributes each, as a map from weights of the cells to one block.

Rows held table by table (`core.table_rows`) are passed over a pair of tables at a time: with b_i the entries
of cell i and G of coordinates, the columns are G b_i, and

    Σ_i q_i G b_i b_iᵀ Gᵀ  needs sums of q over pairs of tables,  ‖M G b_i‖²  adds one number per pair:

some passes over the cells, where rows over all cells would take k² of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise.core.backend import NUMPY, Backend
from leastnoise.core.operators import Array
from leastnoise.core.table_rows import TableRows
from leastnoise.solver.dual import DualPoint, quadratic_point


@dataclass(frozen=True, eq=False)
class TablePasses:
    """Columns G b_i of rows that look at few attributes each: a pass over all costs little.

    Attributes:
        G: (k, rows).
        tables: b_i, table by table.
    """

    G: Array
    tables: TableRows
    backend: Backend = NUMPY

    @property
    def shape(self) -> tuple[int, int]:
        """(k, cells)."""
        return self.G.shape[0], self.tables.n_cells

    @property
    def n(self) -> int:
        """How many cells there are."""
        return self.tables.n_cells

    @property
    def root(self) -> Array:
        """G: what rows of noise are multiplied with."""
        return self.G

    def take(self, index: Array) -> Array:
        """Some columns, (k, len(index))."""
        return np.asarray(self.G @ self.tables.columns(index))

    def evaluate(self, q: Array) -> DualPoint:
        """The dual function at q."""
        return quadratic_point(self, q)

    def gram(self, q: Array) -> Array:
        """Σ q_i G b_i b_iᵀ Gᵀ, (k, k)."""
        return np.asarray(self.G @ self.tables.weighted_gram(q) @ self.G.T)

    def adjoint(self, Y: Array) -> Array:
        """b_iᵀ Gᵀ Y G b_i for every cell."""
        return self.tables.squares(self.G.T @ (Y @ self.G))

    def prices(self, M: Array) -> Array:
        """‖M G b_i‖² for every column; rounding may leave one of them slightly negative."""
        return np.maximum(self.adjoint(M.T @ M), 0.0)

    def rotated(self, M: Array) -> TablePasses:
        """The same with M G for G."""
        return TablePasses(np.asarray(M @ self.G), self.tables)
