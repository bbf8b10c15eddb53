"""The rows of all products of a union, passed over all cells axis by axis.

A product asks rows ⊗_a N_a, and 1ᵀ of the axes that it does not mention. Of two products, with N_a and M_a,

    Σ_i q_i (⊗N)_i (⊗M)_iᵀ    one axis after the other: Σ_{i_a} q_i (N_a ⊙ M_a)_{i_a}
    (⊗N)_iᵀ S (⊗M)_i          the same backwards,

with N ⊙ M the products of all pairs of rows: some additions for each cell and pair of products, where rows
over all cells would take k² multiplications. Values of an axis that no product tells apart are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from weakref import WeakKeyDictionary

import numpy as np

from leastnoise.core.axis_sums import Places, axis_sums, spread_over_cells
from leastnoise.core.merged_cells import numbered
from leastnoise.core.operators import Array
from leastnoise.query.products import AxisRows, Products

# Directions of a kind of rows below this share of the strongest are rounding.
_WEAK = 1e-12

# Numbers of a kind of rows that are written out, at most; of more, the Gram matrix is.
_MAX_WRITTEN = 2**23

# Operations of matrix products that take as long as what a pair of products adds to one cell.
_ADDING = 40.0


@dataclass(frozen=True, eq=False)
class ProductRows:
    """Rows of several products over cells that count through all axes, the last one fastest.

    Attributes:
        sizes: how many values every axis has.
        factors: for every product, by the axes that it mentions, rows over their values, (r, size).
    """

    sizes: tuple[int, ...]
    factors: tuple[Mapping[int, Array], ...]

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return math.prod(self.sizes)

    @property
    def n_rows(self) -> int:
        """The number of rows of all products."""
        return self.starts[-1]

    @property
    def starts(self) -> list[int]:
        """Where the rows of every product start, and where the last ones end."""
        found = [0]
        for own in self.factors:
            found.append(found[-1] + math.prod(len(rows) for rows in own.values()))
        return found

    @property
    def work(self) -> float:
        """Operations of a pass over all cells, as those of matrix products count."""
        pairs = len(self.factors) * (len(self.factors) + 1) / 2
        longest = max((size for a, size in enumerate(self.sizes) if self._is_mentioned(a)), default=1)
        return _ADDING * pairs * self.n_cells + 4.0 * longest * self.n_rows**2

    @property
    def n_terms(self) -> int:
        """How many numbers `squares` adds up for one cell, one after the other, at most."""
        longest = max(
            sum(self._n_pairs(first, second, a) for a in union) + len(union)
            for *_, first, second, union in self._pairs()
        )
        return longest + len(self.factors) * (len(self.factors) + 1) // 2

    def _is_mentioned(self, a: int) -> bool:
        return any(a in own for own in self.factors)

    def weighted_gram(self, q: Array) -> Array:
        """Σ_i q_i b_i b_iᵀ, (n_rows, n_rows); q has one number for every cell."""
        sums = axis_sums(self.sizes, q.reshape(1, *self.sizes), {union for *_, union in self._pairs()})
        total = np.empty((self.n_rows, self.n_rows))
        for one, other, first, second, union in self._pairs():
            values = sums[union][0]
            left = list(union)
            # What shrinks the most first; every axis done comes to the front, as pairs of rows.
            for a in sorted(union, key=lambda a: self._n_pairs(first, second, a) / self.sizes[a]):
                values = np.tensordot(self._paired(first, second, a), values, axes=(1, left.index(a)))
                left.remove(a)
                left.insert(0, a)
            shape = [size for a in left for size in self._heights(first, second, a)]
            order = [2 * left.index(a) for a in union] + [2 * left.index(a) + 1 for a in union]
            block = values.reshape(shape).transpose(order).reshape(one.stop - one.start, -1)
            total[one, other] = block
            total[other, one] = block.T
        return total

    def squares(self, S: Array) -> Array:
        """b_iᵀ S b_i for every cell, (n_cells,); S is symmetric, (n_rows, n_rows)."""
        sums: dict[Places, Array] = {}
        for one, other, first, second, union in self._pairs():
            heights = [self._heights(first, second, a) for a in union]
            count = len(union)
            values = S[one, other].reshape([h for h, _ in heights] + [h for _, h in heights])
            values = values.transpose([i for a in range(count) for i in (a, count + a)])
            values = values.reshape([g * h for g, h in heights])
            left = list(union)
            for a in sorted(union, key=lambda a: self.sizes[a] / self._n_pairs(first, second, a)):
                values = np.tensordot(self._paired(first, second, a).T, values, axes=(1, left.index(a)))
                left.remove(a)
                left.insert(0, a)
            values = values.transpose([left.index(a) for a in union])
            if one != other:
                values = 2 * values
            sums[union] = sums[union] + values if union in sums else values
        return spread_over_cells(self.sizes, sums)

    def _pairs(self) -> Iterator[tuple[slice, slice, Mapping[int, Array], Mapping[int, Array], Places]]:
        """Every pair of products once: the places of their rows, their factors, and the axes of either."""
        starts = self.starts
        for i, first in enumerate(self.factors):
            for j, second in enumerate(self.factors[: i + 1]):
                union = tuple(sorted({*first, *second}))
                yield slice(*starts[i : i + 2]), slice(*starts[j : j + 2]), first, second, union

    def _heights(self, first: Mapping[int, Array], second: Mapping[int, Array], a: int) -> tuple[int, int]:
        return len(first[a]) if a in first else 1, len(second[a]) if a in second else 1

    def _n_pairs(self, first: Mapping[int, Array], second: Mapping[int, Array], a: int) -> int:
        return math.prod(self._heights(first, second, a))

    def _paired(self, first: Mapping[int, Array], second: Mapping[int, Array], a: int) -> Array:
        """N ⊙ M along an axis, (pairs of rows, size)."""
        total = np.ones((1, self.sizes[a]))
        N, M = first.get(a, total), second.get(a, total)
        return np.asarray((N[:, None, :] * M[None, :, :]).reshape(-1, self.sizes[a]))


@dataclass(frozen=True, eq=False)
class AxisDirections:
    """A kind of rows over the kinds of values of its axis: W = L diag(s) V with orthonormal columns of L.

    Attributes:
        strengths: s, positive.
        turn: V, orthonormal rows.
    """

    strengths: Array
    turn: Array

    def __len__(self) -> int:
        return len(self.strengths)


class UnionRows:
    """A union of products as rows over the cells that it tells apart axis by axis.

    Attributes:
        values: for every axis, one value of each kind.
        directions: for every axis and kind of rows, what it asks of these values.
    """

    def __init__(self, products: Products) -> None:
        self._terms, self._shape = products.terms, products.sizes
        kinds = list(map(_kinds_of_values, products.sizes, products.kinds))
        self._kinds = kinds
        self.values = tuple(np.unique(kind, return_index=True)[1] for kind in kinds)
        self.directions = tuple(
            tuple(_directions(kind, values) for kind in own)
            for own, values in zip(products.kinds, self.values, strict=True)
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many kinds of values every axis has."""
        return tuple(map(len, self.values))

    @property
    def n_cells(self) -> int:
        """How many kinds of cells there are."""
        return math.prod(self.sizes)

    @property
    def n_rows(self) -> int:
        """How many directions the products have, those that several have counted with each."""
        return sum(
            math.prod(len(self.directions[a][k]) for a, k in zip(term.places, term.kinds, strict=True))
            for term in self._terms
        )

    @property
    def rank_at_most(self) -> int:
        """How many directions the products have together, at most: those of the tables that they cross."""
        sets = {term.places for term in self._terms}
        parts = {part for own in sets for count in range(len(own) + 1) for part in combinations(own, count)}
        return min(self.n_rows, sum(math.prod(self.sizes[a] - 1 for a in part) for part in parts))

    def orthonormal(self) -> ProductRows:
        """⊗V of all products: orthonormal rows of each."""
        return self._rows([{a: own.turn for a, own in term.items()} for term in self._by_term()])

    def rows(self, weights: Array | Sequence[float]) -> ProductRows:
        """√w ⊗ diag(s) V of all products: the Gram matrix of their rows, weighted, is that of these."""
        factors = [
            {a: own.strengths[:, None] * own.turn for a, own in term.items()} for term in self._by_term()
        ]
        return self._rows(factors, np.sqrt(weights).tolist())

    def scales(self, weights: Array | Sequence[float]) -> Array:
        """What `rows` multiply those of `orthonormal` with, (n_rows,)."""
        found = []
        for term, root in zip(self._by_term(), np.sqrt(weights).tolist(), strict=True):
            own = np.full(1, root)
            for of_axis in term.values():
                own = np.kron(own, of_axis.strengths)
            found.append(own)
        return np.concatenate(found)

    def of_kinds(self, q: Array) -> Array:
        """Numbers of all cells of the products, added up over those of a kind."""
        values = q.reshape(self._shape)
        for a, kind in enumerate(self._kinds):
            if len(self.values[a]) < len(kind):
                sums = np.zeros((len(self.values[a]), len(kind)))
                sums[kind, np.arange(len(kind))] = 1
                values = np.moveaxis(np.tensordot(sums, values, axes=(1, a)), 0, a)
        return values.reshape(-1)

    def on_first(self, q: Array) -> Array:
        """Numbers of the kinds of cells, each on one cell of its kind, for all cells of the products."""
        every = np.zeros(self._shape)
        every[np.ix_(*self.values)] = q.reshape(self.sizes)
        return every.reshape(-1)

    def _by_term(self) -> list[dict[int, AxisDirections]]:
        return [
            {a: self.directions[a][k] for a, k in zip(term.places, term.kinds, strict=True)}
            for term in self._terms
        ]

    def _rows(
        self, factors: Sequence[dict[int, Array]], scales: Sequence[float] | None = None
    ) -> ProductRows:
        for own, scale in zip(factors, scales or [1.0] * len(factors), strict=True):
            first = next(iter(own), 0)
            own[first] = scale * own.get(first, np.ones((1, self.sizes[first])))
        return ProductRows(self.sizes, tuple(factors))


_KNOWN: WeakKeyDictionary[Products, UnionRows] = WeakKeyDictionary()


def union_rows(products: Products) -> UnionRows:
    """The rows of a union of products."""
    if products not in _KNOWN:
        _KNOWN[products] = UnionRows(products)
    return _KNOWN[products]


def _kinds_of_values(size: int, kinds: Sequence[AxisRows]) -> Array:
    """For every value of an axis, which kind it is of, numbered as they come: those no rows tell apart."""
    if any(kind.is_identity for kind in kinds):
        return np.arange(size)
    if not kinds:
        return np.zeros(size, dtype=np.int64)
    columns = np.ascontiguousarray(np.vstack([_written(kind) for kind in kinds]).T) + 0.0
    return numbered(column.tobytes() for column in columns)


def _written(kind: AxisRows) -> Array:
    """The rows, or their Gram matrix where that is smaller."""
    m, n = kind.operator.shape
    return np.asarray(kind.operator.dense() if m * n <= _MAX_WRITTEN else kind.gram, dtype=float)


def _directions(kind: AxisRows, values: Array) -> AxisDirections:
    """What rows ask of some values, from the rows or their Gram matrix."""
    from scipy import linalg

    if kind.is_identity:
        return AxisDirections(np.ones(len(values)), np.eye(len(values)))
    m, n = kind.operator.shape
    if m * n > _MAX_WRITTEN:
        gram = np.asarray(kind.gram, dtype=float)[np.ix_(values, values)]
        squares, vectors = linalg.eigh(gram, check_finite=False, driver="evd")
        kept = squares > _WEAK * max(float(squares[-1]), 0.0)
        return AxisDirections(np.sqrt(squares[kept]), np.ascontiguousarray(vectors[:, kept].T))
    rows = np.asarray(kind.operator.dense(), dtype=float)[:, values]
    if len(rows) > len(values):
        rows = linalg.qr(rows, mode="r", check_finite=False)[0][: len(values)]
    _, strengths, turn = np.linalg.svd(rows, full_matrices=False)
    kept = strengths > _WEAK * strengths[0]
    return AxisDirections(strengths[kept], turn[kept])
