"""What a method that weighs design queries does with what its weights leave over.

A cell whose column is shorter than the longest one may be measured by itself as well,
up to that length, at no cost to anybody's privacy.

Reference:
    Li and Miklau (2012), adaptive mechanism, Program 2, steps 4 and 5.
"""

from __future__ import annotations

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.numerical_rank import row_lengths
from leastnoise.core.operators import Array
from leastnoise.planning.families.distinct_cells import triangle
from leastnoise.planning.method import Request
from leastnoise.query import Workload
from leastnoise.strategy import RealStrategy, basis_of

# A cell with this share or less left over is full: measuring it would change nothing that is seen.
_FULL = 1e-6


def counted_workload(request: Request) -> Workload:
    """The workload with the weights that the objective gives its queries."""
    return request.workload.with_weights(request.objective.weights(request.workload))


def completed(rows: Array, basis: Array | None, used: Array) -> RealStrategy:
    """Real rows A', (r, n), and below them √(max_i m_i − m_j) times each cell j, m the squared columns.

    Cells within a millionth of the largest count as full, and cells that no query counts are
    left alone: measuring them would help nobody.

    Args:
        basis: integer rows with the same span as A', None for every cell.
        used: which cells some query counts, (n,).
    """
    spent = (rows**2).sum(axis=0)
    left = np.where(used, spent.max() - spent, 0.0)
    cells = left > _FULL * spent.max()
    measured = np.vstack([rows, np.diag(np.sqrt(left))[cells]])
    wider = with_cells(basis, cells)
    # With Gaussian noise the triangle of the same AᵀA is the same measurement.
    return RealStrategy(triangle(measured, wider), wider)


def with_cells(basis: Array | None, cells: Array) -> Array | None:
    """An integer basis of the span of some rows and single cells; None where that is everything.

    Beside the cells, it holds what the rows ask of all others.
    """
    if basis is None or not cells.any():
        return basis
    n = basis.shape[1]
    # What is left of a row counts beside the whole of it: rounding is no direction.
    others = basis_of(np.where(cells, 0, basis), row_lengths(basis.astype(float)))
    if others.rank + np.count_nonzero(cells) == n:
        return None
    assert others.rows is not None
    unit = max(exact.bit_length(others.rows) - 1, 0)
    return np.vstack([np.eye(n, dtype=np.int64)[cells] << unit, others.rows])
