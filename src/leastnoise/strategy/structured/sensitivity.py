"""What one record can change in the integers that blocks measure: docs/proofs.md, section 4.

A record is in one cell, and meets one column of the matrix M_a of every axis a. Its column in block s,
k_s · ⊗ M_a ⊗ 1ᵀ, is the product of these, and the norm of a product is the product of the norms. So

    Δ² = max over cells of Σ_s k_s² Π_a ‖M_a e_{i_a}‖²                                                   (1)
       ≤ Σ_s k_s² Π_a max_i ‖M_a e_i‖² ,                                                                 (2)

with equality where every axis has one matrix: the worst cell takes the largest column of every axis. Δ₁ is
the same with absolute sums, and k_s for k_s².

All numbers are Python integers: nothing is rounded, and nothing wraps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.query import AxisSet
from leastnoise.strategy.structured.layout import Block


class Columns(Protocol):
    """The columns of the matrix of one axis. An `AxisForm` has them."""

    def costs(self, power: int) -> list[int]:
        """Σ a² (power 2) or Σ |a| (power 1) of every column."""

    def largest_cost(self, power: int) -> int:
        """The largest of `costs`."""

    def inner_products(self) -> tuple[int, int]:
        """The least and the largest inner product of two columns, a column with itself included."""


@dataclass(frozen=True, eq=False)
class RecordCosts:
    """What records change, in sums of squares or in absolute sums.

    Attributes:
        columns: of every axis, for each of its forms; of a whole axis one, of an axis never measured none.
        whole: the axes that are part of every block.
        blocks: the split axes of each, their forms, and its multiplier.
        power: 2 for sums of squares (Gaussian noise), 1 for absolute sums (Laplace noise).
    """

    columns: Sequence[Sequence[Columns]]
    whole: AxisSet
    blocks: Sequence[Block]
    power: int

    @cached_property
    def _largest_columns(self) -> list[list[int]]:
        """max_i ‖M_a e_i‖ to the power, of every axis and form."""
        return [[form.largest_cost(self.power) for form in own] for own in self.columns]

    @cached_property
    def _largest_in_blocks(self) -> list[int]:
        """Π_a max_i ‖M_a e_i‖ to the power, of every block, without its multiplier."""
        costs = self._largest_columns
        of_whole = math.prod(costs[a][0] for a in self.whole)
        return [
            of_whole * math.prod([costs[a][form] for a, form in zip(block.axes, block.forms, strict=True)])
            for block in self.blocks
        ]

    def added(self) -> int:
        """The most that one record adds: (2), or less where the forms of an axis say so."""
        costs = zip(self.blocks, self._largest_in_blocks, strict=True)
        bound = sum(block.multiplier**self.power * cost for block, cost in costs)
        for place, own in enumerate(self.columns):
            if len(own) > 1:
                bound = min(bound, self._along_one(place))
        return bound

    def _along_one(self, place: int) -> int:
        """(1) with the columns of one axis as they are, value by value, and the largest of all others."""
        columns = [np.array(form.costs(self.power), dtype=object) for form in self.columns[place]]
        total: Array = np.zeros(len(columns[0]), dtype=object)
        for block, cost in zip(self.blocks, self._largest_in_blocks, strict=True):
            chosen = self._chosen(block).get(place)
            largest = block.multiplier**self.power * cost
            if chosen is None:
                total = total + largest
            else:
                # Exact: the divisor is a factor of the cost of the block.
                total = total + (largest // self._largest_columns[place][chosen]) * columns[chosen]
        return int(total.max())

    def replaced(self) -> int:
        """A bound on what replacing one record by another changes.

        Block by block, ‖a − b‖² = ‖a‖² + ‖b‖² − 2 a·b, and a·b is a product of inner products of columns, one
        for each axis, each within known ends. ‖a − b‖₁ ≤ ‖a‖₁ + ‖b‖₁. A block of no axis does not change.
        """
        is_squared = self.power == 2
        ends = [[form.inner_products() for form in own] for own in self.columns] if is_squared else []
        total = 0
        for block, cost in zip(self.blocks, self._largest_in_blocks, strict=True):
            k, chosen = block.multiplier, self._chosen(block)
            if not chosen:
                continue
            if not is_squared:
                total += 2 * k * cost
                continue
            low, high = 1, 1
            for a, form in chosen.items():
                products = [x * y for x in (low, high) for y in ends[a][form]]
                low, high = min(products), max(products)
            total += 2 * k * k * (cost - low)
        return total

    def of_cells(self, sizes: Sequence[int]) -> Array:
        """The sum in (1) for every cell of axes of these sizes, the last axis fastest."""
        total: Array = np.zeros(math.prod(sizes), dtype=object)
        for block in self.blocks:
            of_block = np.array([block.multiplier**self.power], dtype=object)
            chosen = self._chosen(block)
            for a, size in enumerate(sizes):
                costs = self.columns[a][chosen[a]].costs(self.power) if a in chosen else [1] * size
                of_block = np.multiply.outer(of_block, np.array(costs, dtype=object)).reshape(-1)
            total += of_block
        return total

    def _chosen(self, block: Block) -> dict[int, int]:
        """The axes that a block measures, and in which form; it adds up all others."""
        return {**dict(zip(block.axes, block.forms, strict=True)), **dict.fromkeys(self.whole, 0)}
