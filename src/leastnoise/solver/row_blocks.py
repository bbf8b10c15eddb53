"""Products with ⊗_a C_a where most weights of the rows are zero, block by block.

Where the first row of C_a is 1ᵀ, rows that are first on all axes outside a set s have, in a cell, a sum that
depends on the values of s alone. If weights are zero but in such blocks,

    (⊗_a C_aᵀ) ω = Σ_s (⊗_{a in s} C_aᵀ) ω_s ,   spread over the axes outside s ,                         (1)

and each term costs what its own axes cost. Eight products of two or three of six axes have 1,076 rows over
60,480 cells: (1) then takes one addition per cell and set. The transpose adds q up over the axes outside s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.backend import Backend
from leastnoise.core.operators import Array
from leastnoise.solver.product_weights import towards_cells, towards_rows


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows that are first on every axis outside a set.

    Attributes:
        axes: the set, rising.
        mask: 1 for rows that count here and in no other block, over the rows of these axes, on the device.
    """

    axes: tuple[int, ...]
    mask: Any


class RowBlocks:
    """The rows that have weights, each in one block.

    Args:
        shape: how many rows every axis has.
        sets: sets of axes; each stands for all rows that are first on the axes outside it.
    """

    def __init__(self, shape: Sequence[int], sets: Iterable[Iterable[int]], backend: Backend) -> None:
        self._shape, self._backend = tuple(shape), backend
        given = {frozenset(own) for own in sets}
        largest = [own for own in given if not any(own < other for other in given)]
        if len(largest) > sum(shape):
            # An addition per set and cell would take longer than products along all axes.
            largest = [frozenset(range(len(shape)))]
        counted = np.zeros(self._shape)
        for own in given:
            counted[self._place(own)] = 1
        # Where a row counts; shared by all blocks until one of them takes it.
        left = counted.copy()
        self.blocks: list[RowBlock] = []
        for own in sorted(largest, key=lambda own: (-len(own), sorted(own))):
            place = self._place(own)
            self.blocks.append(RowBlock(tuple(sorted(own)), backend.matrix(left[place].copy())))
            left[place] = 0
        self.counted: Array = counted

    def _place(self, axes: Iterable[int]) -> tuple[slice | int, ...]:
        """Where the rows of a set stand."""
        kept = set(axes)
        return tuple(slice(None) if a in kept else 0 for a in range(len(self._shape)))

    def towards_cells(self, squares: Sequence[Any], weights: Any, kept: list[Any] | None = None) -> Any:
        """(1), an array over the cells, from weights over the rows.

        Args:
            kept: filled, for every block, with what each product along an axis was taken of.
        """
        total: Any = None
        sizes = [int(own.shape[1]) for own in squares]
        for block in self.blocks:
            own: list[Any] = []
            values = weights[self._place(block.axes)] * block.mask
            if block.axes:
                values = towards_cells([squares[a] for a in block.axes], values, own)
            spread = values.reshape([n if a in block.axes else 1 for a, n in enumerate(sizes)])
            total = spread if total is None else total + spread
            if kept is not None:
                kept.append(own)
        return total + self._backend.matrix(np.zeros(sizes)) if tuple(total.shape) != tuple(sizes) else total

    def towards_rows(self, squares: Sequence[Any], q: Any, kept: list[Any] | None = None) -> Any:
        """The transpose of (1), an array over the rows, zero where none counts, from one over the cells.

        Args:
            kept: filled, for every block, with what each product along an axis was taken of.
        """
        found = self._backend.matrix(np.zeros(self._shape))
        for block in self.blocks:
            others = tuple(a for a in range(len(squares)) if a not in block.axes)
            values = q.sum(axis=others) if others else q
            own: list[Any] = []
            if block.axes:
                values = towards_rows([squares[a] for a in block.axes], values, own)
            place = self._place(block.axes)
            found[place] = found[place] + values * block.mask
            if kept is not None:
                kept.append(own)
        return found

    def products_of(self, a: int, of_weights: Sequence[Any], of_q: Sequence[Any]) -> Any:
        """Σ over the other axes of weights and q, (r_a, n_a), from what both products kept; None if no block
        has the axis. Rows outside the blocks are left out."""
        total: Any = None
        for block, weights, q in zip(self.blocks, of_weights, of_q, strict=True):
            if a in block.axes:
                place = block.axes.index(a)
                own = weights[len(block.axes) - 1 - place].T @ q[place].T
                total = own if total is None else total + own
        return total
