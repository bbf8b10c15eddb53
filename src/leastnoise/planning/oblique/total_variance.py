"""Total variance of a union of products, as a function of a few numbers for every axis.

Product j has weight w_j and is answered from blocks b, each measured at precision x_b. What it gets from one
is a product of numbers, one for every axis that it mentions: ρ where the block holds residual rows of the
axis, h where it holds the total.

    total = Σ_b C_b / x_b,    C_b = Σ_j w_j Π_a number(a, j, b)                                           (1)
    least over Σ x_b = 1:     (Σ_b √C_b)²  at  x_b ∝ √C_b                                                (2)

C is linear in the numbers of any one axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.operators import Array

# Blocks with a smaller share of all C than this get the slope of one that is as large: √C has none at 0.
_LEAST_SHARE = 1e-24


@dataclass(frozen=True, eq=False)
class Entries:
    """What some products of as many axes get from a block each.

    Attributes:
        product: the products, (count,).
        axes: the axes that they mention, (count, size).
        places: which number each axis contributes, (count, size).
        block: the blocks, (count,).
    """

    product: Array
    axes: Array
    places: Array
    block: Array


@dataclass(frozen=True, eq=False)
class _OfAxis:
    """Where the numbers of one axis enter: numbers of others, the own one, the block."""

    product: Array
    others: Array
    own: Array
    block: Array


class BlockSums:
    """The numbers C_b, kept up to date as axes change.

    Attributes:
        numbers: all ρ and h; replaced, never changed in place.
        C: (n_blocks,).
    """

    def __init__(self, entries: Sequence[Entries], weights: Array, numbers: Array, n_blocks: int) -> None:
        self._entries = list(entries)
        self.weights = np.asarray(weights, dtype=float)
        self.numbers = numbers
        self.n_blocks = n_blocks
        self._by_axis: dict[int, list[_OfAxis]] = {}
        self.C = self.added_up(self.weights)

    def added_up(self, weights: Array) -> Array:
        """C from all numbers, for some weights of the products."""
        C = np.zeros(self.n_blocks)
        for entries in self._entries:
            terms = weights[entries.product] * np.prod(self.numbers[entries.places], axis=1)
            C += np.bincount(entries.block, weights=terms, minlength=self.n_blocks)
        return C

    def matrix(self) -> Any:
        """Π_a number(a, j, b) as a SciPy sparse matrix, (products, blocks)."""
        from scipy import sparse

        values = [np.prod(self.numbers[entries.places], axis=1) for entries in self._entries]
        rows = [entries.product for entries in self._entries]
        columns = [entries.block for entries in self._entries]
        shape = (len(self.weights), self.n_blocks)
        where = (np.concatenate(rows), np.concatenate(columns))
        return sparse.csr_array((np.concatenate(values), where), shape=shape)

    @property
    def total(self) -> float:
        """(2)."""
        return total_of(self.C)

    @property
    def x(self) -> Array:
        """The best precisions of the blocks, adding up to 1."""
        roots = np.sqrt(self.C)
        return roots / roots.sum()

    def slopes(self, axis: int) -> Array:
        """How 2 Σ_b √C_b grows with every number of one axis; 0 for others."""
        steepness = 1 / np.sqrt(np.maximum(self.C, _LEAST_SHARE * self.C.sum()))
        found = np.zeros(len(self.numbers))
        for part, rest in self._rests(axis):
            found += np.bincount(part.own, weights=rest * steepness[part.block], minlength=len(found))
        return found

    def changed(self, axis: int, numbers: Array) -> Array:
        """C as it would be with other numbers of one axis."""
        more = numbers - self.numbers
        C = self.C.copy()
        for part, rest in self._rests(axis):
            C += np.bincount(part.block, weights=rest * more[part.own], minlength=len(C))
        # What cancels to nothing may end a rounding below it.
        return np.maximum(C, 0.0)

    def take(self, numbers: Array, C: Array) -> None:
        """Keep what `changed` found."""
        self.numbers, self.C = numbers, C

    def _rests(self, axis: int) -> list[tuple[_OfAxis, Array]]:
        """Weights times the numbers of all other axes, beside what they belong to."""
        if axis not in self._by_axis:
            self._by_axis[axis] = self._listed(axis)
        return [
            (part, self.weights[part.product] * np.prod(self.numbers[part.others], axis=1))
            for part in self._by_axis[axis]
        ]

    def _listed(self, axis: int) -> list[_OfAxis]:
        found = []
        for entries in self._entries:
            for column in range(entries.places.shape[1]):
                rows = np.flatnonzero(entries.axes[:, column] == axis)
                if len(rows):
                    places = entries.places[rows]
                    others = np.delete(places, column, axis=1)
                    found.append(
                        _OfAxis(entries.product[rows], others, places[:, column], entries.block[rows])
                    )
        return found


def total_of(C: Array) -> float:
    """(2) for these C."""
    return float(np.sqrt(C).sum()) ** 2
