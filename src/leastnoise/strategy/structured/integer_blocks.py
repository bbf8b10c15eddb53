"""Integer blocks of products: which there are, what one record changes in them, and what they measure.

All numbers are Python integers, or int64 where nothing can wrap: nothing is rounded.

A record is in one cell, and meets one column of the matrix M_a of every axis a (docs/proofs.md, section 4).
Its column in block s, k_s · ⊗ M_a ⊗ 1ᵀ, is the product of these, and the norm of a product is the product of
the norms. So

    Δ² = max over cells of Σ_s k_s² Π_a ‖M_a e_{i_a}‖²                                                   (1)
       ≤ Σ_s k_s² Π_a max_i ‖M_a e_i‖² ,                                                                 (2)

with equality where every axis has one matrix: the worst cell takes the largest column of every axis. Δ₁ is
the same with absolute sums, and k_s for k_s².

A block may have a multiplier k_i, zero or more, for every tuple i of rows of its axes. Then it is alone, and

    Δ² = max over cells c of Σ_i k_i² Π_a M_a[i_a, c_a]² ,                                               (3)

worked out for all cells axis by axis.

Nothing of the size of the domain is built: a block is measured from the cross table of its own axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.query import Axis, AxisSet
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.measured import CountTables
from leastnoise.strategy.structured.axis_tables import covering_sets

# Which blocks there are ----------------------------------------------------------------------------------


class ProductBlock(NamedTuple):
    """What one block holds.

    Attributes:
        axes: the split axes of which it holds residuals, rising.
        forms: which form of each of them.
        multiplier: k, a positive integer.
        whole: which form of each whole axis; the first of all of them unless given.
        weights: where every tuple of rows of its axes has a multiplier of its own, zero or more, those;
            the rows of zero are not measured.
    """

    axes: AxisSet
    forms: tuple[int, ...]
    multiplier: int
    whole: tuple[int, ...] = ()
    weights: Array | None = None


def check_forms(axes: Sequence[Axis], forms: Sequence[Sequence[AxisForm]], order: Sequence[int]) -> None:
    """Return if every axis has forms of its size, all of them whole or none.

    Raises:
        DesignError: if not, or if the order is not one of all axes.
    """
    if len(forms) != len(axes) or sorted(order) != list(range(len(axes))):
        raise DesignError(
            "a structured strategy needs forms for every axis, and an order of all axes", field="forms"
        )
    for axis, own in zip(axes, forms, strict=True):
        if any(form.size != axis.size for form in own):
            raise DesignError(
                f"the axis {', '.join(axis.names)} has {axis.size:,} values, a form has others", field="forms"
            )
        if len({form.is_split for form in own}) > 1:
            raise DesignError("an axis is whole in all its forms, or in none", field="forms")


def check_blocks(forms: Sequence[Sequence[AxisForm]], blocks: Sequence[ProductBlock]) -> None:
    """Return if there are blocks, each once, of split axes and their forms, with multipliers.

    Raises:
        DesignError: if not.
    """
    if not blocks:
        raise DesignError("a structured strategy needs at least one block", field="blocks")
    # A NumPy integer would wrap when squared.
    if any(type(block.multiplier) is not int or block.multiplier < 1 for block in blocks):
        raise DesignError("multipliers of blocks must be positive whole numbers", field="multipliers")
    if len({(block.axes, block.forms) for block in blocks}) < len(blocks):
        raise DesignError("every block may be measured once", field="blocks")
    if any(block.weights is not None for block in blocks):
        _check_alone(forms, blocks)
    n_forms = _n_split_forms(forms)
    n_whole = [len(own) for own in forms if own and not own[0].is_split]
    for block in blocks:
        fits = len(block.axes) == len(block.forms) and list(block.axes) == sorted(set(block.axes))
        fits = fits and len(block.whole) in (0, len(n_whole))
        fits = fits and all(0 <= form < n for form, n in zip(block.whole, n_whole, strict=False))
        for a, form in zip(block.axes, block.forms, strict=False):
            fits = fits and 0 <= a < len(n_forms) and 0 <= form < n_forms[a]
        if not fits:
            raise DesignError(
                "a block names split axes, each once, rising, and a form of each", field="blocks"
            )


def _check_alone(forms: Sequence[Sequence[AxisForm]], blocks: Sequence[ProductBlock]) -> None:
    """Return if there is one block, of independent rows of every axis, and a multiplier for each product."""
    if len(blocks) > 1 or not all(len(own) == 1 and own[0].kind == "whole" for own in forms):
        raise DesignError(
            "rows with joint weights need a matrix for every axis, and are one block", field="strategy"
        )
    k = blocks[0].weights
    assert k is not None
    if blocks[0].multiplier != 1 or k.shape != tuple(own[0].n_rows for own in forms):
        raise DesignError("rows with joint weights need a multiplier each", field="strategy")
    if k.size == 0 or k.min() < 0 or not k.any():
        raise DesignError(
            "multipliers of rows must be whole numbers, zero or more, and not all zero", field="multipliers"
        )
    for (form,) in forms:
        assert form.rows is not None
        if not exact.is_of_full_row_rank(form.rows):
            raise DesignError("the rows of an axis must be independent", field="strategy")


def check_centres(forms: Sequence[Sequence[AxisForm]], centres: Iterable[tuple[int, int]]) -> None:
    """Return if the centres, each an axis and a form, are those of forms that split axes have.

    Raises:
        DesignError: if not.
    """
    n_forms = _n_split_forms(forms)
    if any(not (0 <= a < len(n_forms) and 0 <= form < n_forms[a]) for a, form in centres):
        raise DesignError("a centre is that of a form which its axis does not have", field="centres")


def _n_split_forms(forms: Sequence[Sequence[AxisForm]]) -> list[int]:
    """How many forms a block may choose from on each axis: none on a whole one."""
    return [len(own) if own and own[0].is_split else 0 for own in forms]


def number_of_cell(axes: Sequence[Axis], values: Iterable[int]) -> int:
    """The number of a cell, by its value on every axis, in the order of the schema; a Python integer."""
    places: dict[int, tuple[int, int]] = {}
    for axis, value in zip(axes, values, strict=True):
        digits = np.unravel_index(int(value), axis.sizes)
        places |= {
            place: (int(digit), size)
            for place, digit, size in zip(axis.places, digits, axis.sizes, strict=True)
        }
    number = 0
    # Attributes with a single value are on no axis.
    for place in sorted(places):
        digit, size = places[place]
        number = number * size + digit
    return number


# Axes whose sets are all gone through, at most, for what a replaced record changes: 1,024 sets.
_MAX_SETS_OF = 10

# What a record changes -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RecordCosts:
    """What records change, in sums of squares or in absolute sums.

    Attributes:
        columns: of every axis, for each of its forms; of a whole axis one, of an axis never measured none.
        whole: the axes that are part of every block.
        blocks: the split axes of each, their forms, and its multiplier.
        power: 2 for sums of squares (Gaussian noise), 1 for absolute sums (Laplace noise).
    """

    columns: Sequence[Sequence[AxisForm]]
    whole: AxisSet
    blocks: Sequence[ProductBlock]
    power: int

    @cached_property
    def _largest_columns(self) -> list[list[int]]:
        """max_i ‖M_a e_i‖ to the power, of every axis and form."""
        return [[form.largest_cost(self.power) for form in own] for own in self.columns]

    @cached_property
    def _largest_in_blocks(self) -> list[int]:
        """Π_a max_i ‖M_a e_i‖ to the power, of every block, without its multiplier."""
        costs = self._largest_columns
        return [
            math.prod([costs[a][form] for a, form in self._chosen(block).items()]) for block in self.blocks
        ]

    def added(self) -> int:
        """The most that one record adds: (2), or less where the forms of an axis say so; (3) exactly."""
        if self.of_rows is not None:
            return int(self.of_rows.max())
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
        if is_squared and self._are_alike:
            return self._replaced_by_sets()
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

    @cached_property
    def _are_alike(self) -> bool:
        """Whether the values of every axis are alike, and axes few enough to go through all their sets."""
        measured = [own for own in self.columns if own]
        return len(measured) <= _MAX_SETS_OF and all(len(own) == 1 and own[0].is_alike for own in measured)

    def _replaced_by_sets(self) -> int:
        """The most that replacing a record changes, exactly, where the values of every axis are alike.

        ‖a − b‖² depends on the set of axes in which two records differ, and on nothing else.
        """
        measured = [a for a, own in enumerate(self.columns) if own]
        ends = {a: self.columns[a][0].inner_products() for a in measured}
        differing = [a for a in measured if ends[a][0] != ends[a][1]]
        largest = 0
        for count in range(1, len(differing) + 1):
            for chosen in combinations(differing, count):
                apart = set(chosen)
                total = 0
                for block, cost in zip(self.blocks, self._largest_in_blocks, strict=True):
                    own = self._chosen(block)
                    if apart.isdisjoint(own):
                        continue
                    inner = math.prod(ends[a][0 if a in apart else 1] for a in own)
                    total += 2 * block.multiplier**2 * (cost - inner)
                largest = max(largest, total)
        return largest

    def of_cells(self, sizes: Sequence[int]) -> Array:
        """The sum in (1) for every cell of axes of these sizes, the last axis fastest."""
        if self.of_rows is not None:
            return self.of_rows.reshape(-1)
        total: Array = np.zeros(math.prod(sizes), dtype=object)
        for block in self.blocks:
            of_block = np.array([block.multiplier**self.power], dtype=object)
            chosen = self._chosen(block)
            for a, size in enumerate(sizes):
                costs = self.columns[a][chosen[a]].costs(self.power) if a in chosen else [1] * size
                of_block = np.multiply.outer(of_block, np.array(costs, dtype=object)).reshape(-1)
            total += of_block
        return total

    @cached_property
    def of_rows(self) -> Array | None:
        """The sum in (3) for every cell, an array over the axes; None where each block has one multiplier."""
        k = self.blocks[0].weights
        if k is None:
            return None
        total = k.astype(object) ** 2
        for position, (form,) in enumerate(self.columns):
            squares = exact.as_integers(form.entries() ** 2)
            front = np.moveaxis(total, position, 0)
            along = exact.product(np.ascontiguousarray(squares.T), front.reshape(len(front), -1))
            total = np.moveaxis(along.reshape(-1, *front.shape[1:]), 0, position)
        return np.asarray(total.astype(object))

    def of_cell(self, values: Sequence[int]) -> int:
        """The sum in (1) for the cell with these values of the axes."""
        total = 0
        for block in self.blocks:
            cost = block.multiplier**self.power
            for a, form in self._chosen(block).items():
                cost *= self.columns[a][form].costs(self.power)[values[a]]
            total += cost
        return total

    def _chosen(self, block: ProductBlock) -> dict[int, int]:
        """The axes that a block measures, and in which form; it adds up all others."""
        return chosen_forms(block, self.whole)


def chosen_forms(block: ProductBlock, whole: AxisSet) -> dict[int, int]:
    """The axes that a block measures, whole ones included, and in which form."""
    of_whole = zip(whole, block.whole or (0,) * len(whole), strict=True)
    return {**dict(zip(block.axes, block.forms, strict=True)), **dict(of_whole)}


# From counts to integers ---------------------------------------------------------------------------------

# Bits of a limb of the counts, which leave room for sums and differences along the axes.
_LIMB = 32


def tables_asked(axes: Sequence[Axis], sets: Sequence[AxisSet]) -> list[tuple[str, ...]]:
    """The tables that `cross_tables` asks for, by the names of their attributes."""
    return _names_of(axes, dict.fromkeys(covering_sets(sets).values()))


def _names_of(axes: Sequence[Axis], sets: Iterable[AxisSet]) -> list[tuple[str, ...]]:
    return [tuple(name for a in own for name in axes[a].names) for own in sets]


def cross_tables(axes: Sequence[Axis], sets: Sequence[AxisSet], tables: CountTables) -> Iterator[Array]:
    """For every set of axes its table of counts, an array with one axis for each."""
    source = covering_sets(sets)
    largest = list(dict.fromkeys(source.values()))
    names = _names_of(axes, largest)
    counted = {
        own: np.asarray(table).reshape([axes[a].size for a in own])
        for own, table in zip(largest, tables(names), strict=True)
    }
    for own in sets:
        covering = source[own]
        # Sums of Python integers, or of int64 below 2^63 in all, as the counts of one table are.
        left_out = tuple(i for i, a in enumerate(covering) if a not in own)
        table = counted[covering]
        yield np.asarray(table.sum(axis=left_out), dtype=table.dtype) if left_out else table


def block_answers(table: Array, forms: Sequence[AxisForm]) -> Array:
    """⊗ M_a applied to a table of counts, as Python integers, the work independent of the counts."""
    if not forms:
        return np.array([int(table.reshape(-1)[0])], dtype=object)
    if table.dtype == object:
        return _along_axes(table, forms)
    table = table.astype(np.int64, casting="safe")
    grown = math.prod(2 * form.size for form in forms if form.kind == "centred").bit_length()
    if _LIMB + grown > exact.SAFE_BITS:
        return _along_axes(table.astype(object), forms)
    # Centred axes in two limbs of int64, each too small to wrap; then, in Python integers, the others.
    centred = [form if form.rows is None else None for form in forms]
    high = _along_axes(table >> _LIMB, centred)
    low = _along_axes(table & ((1 << _LIMB) - 1), centred)
    whole = (high.astype(object) << _LIMB) + low.astype(object)
    return _along_axes(whole, [None if form.rows is None else form for form in forms])


def _along_axes(table: Array, forms: Sequence[AxisForm | None]) -> Array:
    """Integer matrices along the axes of a table; None leaves an axis as it is."""
    for position, form in enumerate(forms):
        if form is not None:
            front = np.moveaxis(table, position, 0)
            result = form.answers(front.reshape(front.shape[0], -1))
            table = np.moveaxis(result.reshape(form.n_rows, *front.shape[1:]), 0, position)
    return table
