"""The total variance of a p-identity strategy, as a smooth function of its weights.

    A = [ I ] diag(1/s),   s_i = 1 + Σ_r Θ_ri,   Θ ≥ 0, (p, n)
        [ Θ ]

Every column of A has an L1 norm of 1, whatever Θ, so that nothing but Θ ≥ 0 is to be kept, and A has full
rank, whatever the queries. With V the weighted Gram matrix, V' = diag(s) V diag(s) and K = I + ΘΘᵀ, by
Woodbury's identity

    trace V (AᵀA)⁻¹ = Σ_i V_ii s_i² − trace K⁻¹ Θ V' Θᵀ                                               (1)

costs one product of V with p columns and O(n p²).

Where Θ is the same on each of n' blocks of neighbouring cells, c_b cells in block b, (1) needs no more
than the blocks: with Θ of shape (p, n'), K = I + Θ diag(c) Θᵀ, V summed over blocks on both sides, and its
diagonal summed over each block. Such a coarse problem is the same problem on fewer unknowns, and what is
best for it is a point of the fine one with the same value.

Reference:
    McKenna, Miklau, Hay and Machanavajjhala (2018), Optimizing error of high-dimensional statistical
    queries under differential privacy, section 5.2, where the family is introduced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.merged_cells import Cells
from leastnoise.core.operators import Array, RowScaled
from leastnoise.query import Workload
from leastnoise.solver import NUMPY, Backend

# Entries of a Gram matrix that differ by less than this share of the largest are the same.
_SAME = 1e-14

# So many pairs of neighbours tell whether cells that are near one another are alike.
_PAIRS_COMPARED = 64


@dataclass(frozen=True, eq=False)
class Problem:
    """Which total of variances is sought, over cells that queries tell apart or over blocks of them.

    Attributes:
        gram_times: V X for X of shape (n, c), on the arrays.
        diagonal: the diagonal of V, (n,), on the arrays; of blocks, its sums.
        unit: by which V was divided.
        sizes: the cells of each block, (n, 1), on the arrays; None where each is one cell.
        gram: V on the arrays, where it is held.
    """

    gram_times: Callable[[Any], Any]
    diagonal: Any
    unit: float
    arrays: Backend = NUMPY
    sizes: Any | None = None
    gram: Any | None = None

    @property
    def n(self) -> int:
        """How many cells or blocks there are."""
        return len(self.diagonal)

    def coarsened(self, size: int) -> Problem:
        """The problem for Θ that is the same on each block of `size` cells; the last block may be smaller.

        Of cells, not of blocks.
        """
        if size == 1:
            return self
        first = np.arange(0, self.n, size)
        counts = np.diff(np.append(first, self.n))
        arrays = self.arrays
        if self.gram is None:
            half = arrays.numpy(self.gram_times(arrays.matrix(np.repeat(np.eye(len(first)), counts, axis=0))))
        else:
            half = np.add.reduceat(arrays.numpy(self.gram), first, axis=1)
        V = arrays.matrix(np.add.reduceat(half, first, axis=0))
        diagonal = arrays.matrix(np.add.reduceat(arrays.numpy(self.diagonal), first))
        sizes = arrays.matrix(counts[:, None])
        return Problem(lambda X: V @ X, diagonal, self.unit, arrays, sizes, V)

    def likeness(self) -> float:
        """How much alike neighbouring cells are to the queries, 1 where none tells any pair apart.

        It is the share of Σ (V_ii + V_jj) in Σ 2 V_ij, over pairs of neighbours (i, j) spread over all cells.
        """
        first = np.unique(np.linspace(0, self.n - 2, min(_PAIRS_COMPARED, self.n - 1)).round().astype(int))
        chosen = np.zeros((self.n, len(first)))
        chosen[first, np.arange(len(first))] = 1
        beside = self.arrays.numpy(self.gram_times(self.arrays.matrix(chosen)))
        shared = 2 * float(beside[first + 1, np.arange(len(first))].sum())
        own = self.arrays.numpy(self.diagonal)
        return shared / float((own[first] + own[first + 1]).sum())


def problem_of(workload: Workload, weights: Array, cells: Cells, arrays: Backend = NUMPY) -> Problem:
    """The weighted total of the queries' variances.

    Queries that are quick to apply and no more than twice as many as the cells are used as they are; of
    others, and on other devices, the Gram matrix.
    """
    W = workload.operator
    m, n = W.shape
    if arrays is NUMPY and cells.are_all and W.is_quick and m <= 2 * n:
        weighted = RowScaled(W, np.sqrt(weights))
        diagonal = weighted.column_norms(2) ** 2
        unit = float(diagonal.mean())
        return Problem(lambda X: weighted.adjoint(weighted.apply(X)) / unit, diagonal / unit, unit)
    V = workload.weighted_gram(weights)
    if not cells.are_all:
        V = V[np.ix_(cells.first, cells.first)]
    return problem_of_gram(V, arrays)


def problem_of_gram(V: Array, arrays: Backend = NUMPY) -> Problem:
    """The total trace V (AᵀA)⁻¹ for a Gram matrix V, (n, n), that is not zero."""
    unit = float(np.trace(V)) / len(V)
    times = _nested_times(V / unit) if arrays is NUMPY else None
    if times is None:
        held = arrays.matrix(V / unit)
        return Problem(lambda X: held @ X, arrays.matrix(np.diag(V) / unit), unit, arrays, gram=held)
    return Problem(times, np.diag(V) / unit, unit)


def _nested_times(V: Array) -> Callable[[Array], Array] | None:
    """X ↦ V X by running sums where V_ij = a_i b_j for i ≤ j, as for prefix sums and all ranges, else None.

    Sums of n p numbers take the place of a product of n² p: 0.9 ms instead of 4 for all ranges of
    1,024 cells and 60 sums.
    """
    if not V[0, 0] > 0 or not V[0, -1] > 0:
        return None
    b = V[0] / V[0, 0]
    a = V[:, -1] / b[-1]
    if (np.abs(np.triu(np.outer(a, b) - V)) > _SAME * float(np.abs(V).max()) * len(V)).any():
        return None
    left, right = a[:, None], b[:, None]

    def times(X: Array) -> Array:
        before = np.cumsum(left * X, axis=0)
        after = np.cumsum((right * X)[::-1], axis=0)[::-1]
        # What stands at i itself is in both sums.
        return np.asarray(right * before + left * (after - right * X))

    return times


def total_and_gradient(problem: Problem, theta: Any) -> tuple[float, Any]:
    """(1) divided by the problem's unit, and its gradient, for Θᵀ of shape (n, p).

    With T = Θᵀ, C = K⁻¹ and G = V' T the derivative by T at fixed s is −2(G − c T C (TᵀG)) C, and by s_i it
    is 2/s_i times entry i of the diagonal of V' (I + TTᵀ)⁻¹ = V' − G C Tᵀ, summed over each block.
    """
    arrays, T = problem.arrays, theta
    s = 1 + T.sum(1)
    counted = T if problem.sizes is None else problem.sizes * T
    C = arrays.inverse(arrays.plus_diagonal(T.T @ counted, np.ones(T.shape[1])))
    if C is None:  # not finite: the line search went too far
        return math.inf, T
    G = s[:, None] * problem.gram_times(s[:, None] * T)
    inner = C @ (T.T @ G) @ C
    G = G @ C
    left = problem.diagonal * s * s - (G * T).sum(1)
    gradient = 2 * (counted @ inner - G)
    gradient += (2 * left / s)[:, None]
    return float(left.sum()), gradient


def rows_of(theta: Array) -> Array:
    """A, (n + p, n), for Θᵀ of shape (n, p); every column has an L1 norm of 1."""
    n = len(theta)
    return np.asarray(np.vstack([np.eye(n), theta.T]) / (1 + theta.sum(axis=1)))


def covariance_of(theta: Array) -> Array:
    """(AᵀA)⁻¹ = diag(s) (I − Θᵀ K⁻¹ Θ) diag(s), (n, n)."""
    n, p = theta.shape
    s = 1 + theta.sum(axis=1)
    inner = np.eye(n) - theta @ np.linalg.solve(np.eye(p) + theta.T @ theta, theta.T)
    return np.asarray(s[:, None] * inner * s)


def in_order(cells: Cells) -> Cells:
    """The same cells, kinds numbered as they come: neighbours stay neighbours, which starts rely on."""
    order = np.argsort(cells.first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Cells(cells.used, cells.first[order], place[cells.kind], cells.counts[order])


# Coefficients of queries from which starts are made, at most: more take longer to look at than they help.
_ASKED_COEFFICIENTS = 2**21

# Cells for each query that a start is made of, at least: of more, some are taken, evenly.
_CELLS_PER_ASKED = 6

# Cells of the sums that serve best beside the cells themselves: starts are made of queries near it first.
_USUAL_WIDTH = 24.0


def sums_asked(workload: Workload, cells: Cells) -> list[Array]:
    """Queries that add up several kinds of cells, in sums of at most 1 a cell: a matrix for each width.

    Calendars, trees and other bins are best measured by sums that some queries ask for, which tents and
    random sums meet by chance: months in days, weeks, months and quarters.
    """
    m, n = workload.shape
    if m * n > _ASKED_COEFFICIENTS:
        return []
    rows = np.abs(workload.dense()[:, cells.first].astype(float))
    rows = rows[np.count_nonzero(rows, axis=1) > 1]
    if len(rows) == 0:
        return []
    rows = np.unique(rows / rows.max(axis=1, keepdims=True), axis=0)
    widths = np.round(np.log2(np.count_nonzero(rows, axis=1)))
    most = max(len(cells.first) // _CELLS_PER_ASKED, 1)
    found = []
    for width in sorted(set(widths.tolist()), key=lambda width: abs(width - math.log2(_USUAL_WIDTH))):
        own = rows[widths == width]
        if len(own) > most:
            own = own[np.linspace(0, len(own) - 1, most).round().astype(int)]
        found.append(own)
    return found
