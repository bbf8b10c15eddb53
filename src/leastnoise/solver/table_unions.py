"""The least total variance of products that cross few of many axes: dense noise over their tables alone.

Products that cross two or three of six axes ask for K numbers at most, those of the tables that they cross,
however many cells there are. With B, (K, n), orthonormal rows that span these tables and V, (K, K), the
queries on them, X = Bᵀ Y B, and for any weights q of the cells

    M = B diag(q) Bᵀ ,   F = trace (R M Rᵀ)^½ ,  RᵀR = V ,   total ≥ F²/Σq                               (1)
    Y = Rᵀ (R M Rᵀ)^−½ R   has the total F · max u ,   u_i = b_iᵀ Y b_i                                  (2)

A row of B depends on the axes of its table alone, so that M needs sums of q over pairs of tables, and u adds
one number per pair of tables: some passes over the cells, where B itself would take K² of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from leastnoise.core.backend import NUMPY, Backend
from leastnoise.core.operators import Array
from leastnoise.solver.dual import DualPoint, quadratic_point


def axis_directions(size: int) -> Array:
    """Orthonormal rows over the values of an axis, (size, size), the constant first."""
    found = np.linalg.qr(np.hstack([np.ones((size, 1)), np.eye(size)[:, :-1]]))[0].T
    return np.asarray(found * np.sign(found[0, 0]))


class CrossedTables:
    """The tables that products cross, and B.

    Args:
        sizes: of all axes.
        sets: the axes that every product crosses.

    Attributes:
        parts: the sets of axes of B's rows, each with its place: a row of a set is constant along all others.
        rank: K.
    """

    def __init__(self, sizes: Sequence[int], sets: Iterable[Sequence[int]]) -> None:
        self.sizes = tuple(sizes)
        given = {tuple(sorted(own)) for own in sets}
        self._tables = sorted(own for own in given if not any(set(own) < set(other) for other in given))
        self._directions = [axis_directions(size) for size in self.sizes]
        self.parts: dict[tuple[int, ...], slice] = {}
        # For every table the rows of B that it holds, over its own cells.
        self._rows: list[Array] = []
        self._places: list[slice] = []
        end = 0
        for table in self._tables:
            first, found = end, [np.zeros((0, math.prod(self.sizes[a] for a in table)))]
            for part in _subsets(table):
                if part not in self.parts:
                    rows = self._row_block(table, part)
                    self.parts[part] = slice(end, end + len(rows))
                    end += len(rows)
                    found.append(rows)
            self._rows.append(np.vstack(found))
            self._places.append(slice(first, end))
        self.rank = end

    def _row_block(self, table: Sequence[int], part: Sequence[int]) -> Array:
        """Rows of B that vary along the axes of a part, over the cells of a table."""
        rows: Array = np.ones((1, 1))
        for a in table:
            rows = np.kron(rows, self._directions[a][1:] if a in part else np.ones((1, self.sizes[a])))
        outside = math.prod(size for a, size in enumerate(self.sizes) if a not in part)
        return np.asarray(rows / math.sqrt(outside))

    def coordinates(self, axes: Sequence[int], rows: Sequence[Array]) -> Array:
        """A product of rows of some axes, rising, added up over the others, on B: (all rows, K)."""
        along = [own @ self._directions[a].T for a, own in zip(axes, rows, strict=True)]
        found = np.zeros((math.prod(len(own) for own in rows), self.rank))
        # 1ᵀ of an axis that is added up has the length √size along the constant.
        length = math.sqrt(math.prod(size for a, size in enumerate(self.sizes) if a not in axes))
        for part in _subsets(axes):
            block: Array = np.ones((1, 1))
            for a, own in zip(axes, along, strict=True):
                block = np.kron(block, own[:, 1:] if a in part else own[:, :1])
            found[:, self.parts[part]] = length * block
        return found

    def gram(self, axes: Sequence[int], grams: Sequence[Array]) -> Array:
        """What a product asks on B, (K, K), from the Gram matrices of its axes, rising."""
        along = [
            self._directions[a] @ own @ self._directions[a].T for a, own in zip(axes, grams, strict=True)
        ]
        found = np.zeros((self.rank, self.rank))
        outside = math.prod(size for a, size in enumerate(self.sizes) if a not in axes)
        for one in _subsets(axes):
            for other in _subsets(axes):
                block: Array = np.ones((1, 1))
                for a, own in zip(axes, along, strict=True):
                    rows = slice(1, None) if a in one else slice(0, 1)
                    columns = slice(1, None) if a in other else slice(0, 1)
                    block = np.kron(block, own[rows, columns])
                found[self.parts[one], self.parts[other]] = outside * block
        return found

    def _cells_of(self, *tables: Sequence[int]) -> tuple[list[int], tuple[Array, ...]]:
        """The axes of some tables, and an index into an array over the axes of each, one after another."""
        both = sorted({a for table in tables for a in table})
        index = dict(zip(both, np.ix_(*(np.arange(self.sizes[a]) for a in both)), strict=True))
        return both, tuple(index[a] for table in tables for a in table)

    def weighted(self, q: Array) -> Array:
        """M = B diag(q) Bᵀ, (K, K), from q over the cells."""
        found = np.zeros((self.rank, self.rank))
        for (i, one), (j, other) in _pairs(self._tables):
            both, index = self._cells_of(one, other)
            sums = q.sum(axis=tuple(a for a in range(len(self.sizes)) if a not in both))
            joint = np.zeros([self.sizes[a] for a in (*one, *other)])
            joint[index] = sums
            rows, columns = self._rows[i], self._rows[j]
            block = rows @ joint.reshape(rows.shape[1], columns.shape[1]) @ columns.T
            found[self._places[i], self._places[j]] = block
            found[self._places[j], self._places[i]] = block.T
        return found

    def profile(self, Y: Array) -> Array:
        """u of (2), over the cells."""
        found = np.zeros(self.sizes)
        for (i, one), (j, other) in _pairs(self._tables):
            both, index = self._cells_of(one, other)
            block = self._rows[i].T @ Y[self._places[i], self._places[j]] @ self._rows[j]
            values = block.reshape([self.sizes[a] for a in (*one, *other)])[index]
            shape = [size if a in both else 1 for a, size in enumerate(self.sizes)]
            found += (1 if i == j else 2) * values.reshape(shape)
        return found


def _subsets(axes: Sequence[int]) -> list[tuple[int, ...]]:
    return [part for count in range(len(axes) + 1) for part in combinations(sorted(axes), count)]


def _pairs(
    tables: Sequence[tuple[int, ...]],
) -> list[tuple[tuple[int, tuple[int, ...]], tuple[int, tuple[int, ...]]]]:
    numbered = list(enumerate(tables))
    return [(one, other) for one in numbered for other in numbered[one[0] :]]


class CrossedColumns:
    """The map of (1): one block R M Rᵀ of the columns R b_i, which passes over the tables stand for.

    Args:
        rows: R, (rank of V, K), RᵀR = V.
    """

    backend: Backend = NUMPY

    def __init__(self, tables: CrossedTables, rows: Array) -> None:
        self.tables, self.root = tables, rows

    @property
    def n(self) -> int:
        """How many cells there are."""
        return math.prod(self.tables.sizes)

    def evaluate(self, q: Array) -> DualPoint:
        """The dual function at q."""
        return quadratic_point(self, q)

    def gram(self, q: Array) -> Array:
        """R M Rᵀ."""
        return np.asarray(self.root @ self.tables.weighted(q.reshape(self.tables.sizes)) @ self.root.T)

    def adjoint(self, Y: Array) -> Array:
        """b_iᵀ Rᵀ Y R b_i for every cell."""
        return self.tables.profile(self.root.T @ (Y @ self.root)).reshape(-1)

    def rotated(self, M: Array) -> CrossedColumns:
        """The same with M R for R."""
        return CrossedColumns(self.tables, M @ self.root)
