"""One block over rows that depend on one another, with passes over all cells for its products.

With b_i the entries of cell i in all rows and M = Σ_i q_i b_i b_iᵀ = U D² Uᵀ on the directions that the rows
have, F = trace D, and the noise of precision U D⁻¹ Uᵀ has the profile u_i = b_iᵀ U D⁻¹ Uᵀ b_i: two passes and
one eigendecomposition for each point. Directions that no cell has stay out of all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from leastnoise.core.backend import NUMPY, Backend
from leastnoise.core.decompositions import eigh
from leastnoise.core.operators import Array
from leastnoise.solver.dual import DualPoint


class Passes(Protocol):
    """Rows over all cells, by what they do."""

    @property
    def n_cells(self) -> int:
        """The number of cells."""

    def weighted_gram(self, q: Array) -> Array:
        """Σ_i q_i b_i b_iᵀ."""

    def squares(self, S: Array) -> Array:
        """b_iᵀ S b_i for every cell."""


@dataclass(frozen=True, eq=False)
class RowPasses:
    """The map of rows to one block.

    Attributes:
        rows: the rows, weighted.
        rank: how many directions they have.
    """

    rows: Passes
    rank: int
    backend: Backend = NUMPY

    @property
    def n(self) -> int:
        """How many cells there are."""
        return self.rows.n_cells

    def evaluate(self, q: Array) -> DualPoint:
        """The dual function at q."""
        squares, U = eigh(self.rows.weighted_gram(q))
        squares, U = squares[-self.rank :], U[:, -self.rank :]
        d = np.sqrt(np.maximum(squares, np.finfo(float).eps * float(squares[-1])))
        s = (float(d.sum()) / float(q.sum())) ** 2
        d *= math.sqrt(s)
        return RowPoint(q * s, self.rows.squares((U / d) @ U.T), float(d.sum()), d, U)


@dataclass(frozen=True)
class RowPoint(DualPoint):
    """The point of `RowPasses`."""

    d: Array
    U: Array

    def roots(self) -> list[Any]:
        """D^−½ Uᵀ: combinations of the rows."""
        return [self.U.T / np.sqrt(self.d)[:, None]]
