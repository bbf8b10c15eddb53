"""Many tables from few larger ones: which blocks to count, so that every asked table is a sum of one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.core.operators import arranged
from leastnoise.query import Schema

Subset = tuple[str, ...]


# Cells of a larger table, at most, as which several small ones are counted together. Of 20 attributes with
# ten values each and ten million records, the 190 pairs took DuckDB 39 s as they are, 15 s in blocks of three
# attributes, 11 s in blocks of four, and 17 s in blocks of five (two cores, a busy machine).
MERGED_CELLS = 2**14
# Steps per unit of a binary logarithm: numbers of cells that differ by less than a millionth are the same.
_LOG_STEPS = 2**20


def covering_blocks(subsets: Sequence[Subset], schema: Schema) -> list[Subset]:
    """Blocks of attributes, in the order of the schema: each subset lies in one of them at least.

    A greedy cover: a block starts with the largest table that no block holds yet and
    takes in the attribute that completes most of the others, as long as it stays
    below MERGED_CELLS. It depends on the schema and the question alone.
    """
    names = schema.names
    place = {name: k for k, name in enumerate(names)}
    tables = _TablesLeft(
        {sum(1 << place[name] for name in subset) for subset in subsets},
        [schema[name].size for name in names],
    )
    blocks: list[Subset] = []
    while (block := tables.largest()) is not None:
        tables.drop_within(block)
        while added := tables.best_addition(block, MERGED_CELLS // tables.n_cells(block)):
            block |= added
            tables.drop_within(block)
        blocks.append(tuple(name for name in names if block >> place[name] & 1))
    return blocks


class _TablesLeft:
    """The tables that no block holds yet, found by what they lack: as sets of attributes, written in bits.

    A walk over all of them for each attribute of each block took 27.9 s for the pairs of 100 attributes.

    Args:
        asked: the tables.
        sizes: the number of cells of each attribute.
    """

    def __init__(self, asked: set[int], sizes: Sequence[int]) -> None:
        self._sizes = sizes
        order = sorted(asked, key=lambda table: (-self.n_cells(table), table))
        self._waiting = iter(order)
        self._place = {table: k for k, table in enumerate(order)}
        self._is_left = np.ones(len(order), dtype=bool)
        self._n_left = len(order)
        # By what is left of a table without one attribute: which attributes those are.
        self._lacking: dict[int, set[int]] = {}
        for table in order:
            for bit in _bits(table):
                self._lacking.setdefault(table ^ bit, set()).add(bit)
        self._n_lacking = sorted({table.bit_count() for table in self._lacking})
        # Binary logarithms of numbers of cells, in whole steps, so that sums and differences are exact.
        self._logs = [round(math.log2(size) * _LOG_STEPS) for size in sizes]
        self._log_cells = np.array(
            [sum(self._logs[_index(bit)] for bit in _bits(table)) for table in order], dtype=np.int64
        )
        holding: dict[int, list[int]] = {}
        for k, table in enumerate(order):
            for bit in _bits(table):
                holding.setdefault(bit, []).append(k)
        self._holding = {bit: np.array(places) for bit, places in holding.items()}
        self._order = order

    def n_cells(self, table: int) -> int:
        """How many cells a table has."""
        return math.prod(self._sizes[_index(bit)] for bit in _bits(table))

    def largest(self) -> int | None:
        """The table with most cells of those left, or None."""
        return next((table for table in self._waiting if table in self._place), None)

    def drop_within(self, block: int) -> None:
        """Take out the tables that a block holds."""
        for table in self._within(block):
            self._is_left[self._place.pop(table)] = False
            self._n_left -= 1
            for bit in _bits(table):
                self._lacking[table ^ bit].discard(bit)

    def _within(self, block: int) -> list[int]:
        if 2 ** block.bit_count() > self._n_left:
            return [table for table in self._place if not table & ~block]
        found, part = [], block
        while True:
            if part in self._place:
                found.append(part)
            if not part:
                return found
            part = (part - 1) & block

    def best_addition(self, block: int, most: int) -> int | None:
        """The attributes to add to a block, which may grow by a factor of at most ``most``; None for none."""
        gains: dict[int, int] = {}
        for bit in self._lacking_one(block):
            if self._sizes[_index(bit)] <= most:
                gains[bit] = gains.get(bit, 0) + 1
        if gains:
            return max(gains, key=lambda bit: (gains[bit], -self._sizes[_index(bit)], -bit))
        return self._least_growth(block, most)

    def _lacking_one(self, block: int) -> Iterator[int]:
        """Of each table left that lacks one attribute in a block, that attribute."""
        own = list(_bits(block))
        n_parts = sum(math.comb(len(own), n) for n in self._n_lacking)
        if n_parts > self._n_left:
            lacks = (table & ~block for table in self._place)
            yield from (missing for missing in lacks if missing & (missing - 1) == 0)
            return
        for n in self._n_lacking:
            for part in itertools.combinations(own, n):
                yield from (bit for bit in self._lacking.get(sum(part), ()) if not bit & block)

    def _least_growth(self, block: int, most: int) -> int | None:
        """What the table lacks with which a block grows least, if that is a factor of at most ``most``."""
        if not self._n_left or most < 2:
            return None
        growth = np.where(self._is_left, self._log_cells, np.iinfo(np.int64).max)
        for bit in _bits(block):
            growth[self._holding.get(bit, [])] -= self._logs[_index(bit)]
        # Of a table that is left no part is taken off that it lacks; of the others, growth stays huge.
        missing = self._order[int(growth.argmin())] & ~block
        return missing if self.n_cells(missing) <= most else None


def _bits(table: int) -> Iterator[int]:
    """The attributes of a table, each as one bit."""
    while table:
        bit = table & -table
        yield bit
        table ^= bit


def _index(bit: int) -> int:
    """The place of an attribute in the schema."""
    return bit.bit_length() - 1


def first_holders(subsets: Sequence[Subset], blocks: Sequence[Subset]) -> dict[Subset, list[int]]:
    """Of each block, the places of the subsets that lie in it and in no block before it."""
    with_attribute: dict[str, set[int]] = {}
    for b, block in enumerate(blocks):
        for name in block:
            with_attribute.setdefault(name, set()).add(b)
    held: dict[Subset, list[int]] = {block: [] for block in blocks}
    for place, subset in enumerate(subsets):
        holders = set.intersection(*(with_attribute[name] for name in subset)) if subset else {0}
        held[blocks[min(holders)]].append(place)
    return held


def n_cells(block: Subset, schema: Schema) -> int:
    """How many cells a table of some attributes has."""
    return math.prod(schema[name].size for name in block)


def summed(counts: npt.NDArray[Any], block: Subset, subset: Subset, schema: Schema) -> npt.NDArray[Any]:
    """The table of a subset, axes in its order, as sums over the attributes of a block it leaves out."""
    # One attribute at a time, as (before, this one, after): a block may have more than NumPy has axes.
    table, before = counts, 1
    for name in block:
        table = table.reshape(before, schema[name].size, -1)
        if name in subset:
            before *= schema[name].size
        else:
            table = table.sum(axis=1)
    kept = [name for name in block if name in subset]
    shaped = arranged(table.reshape([schema[name].size for name in kept]), kept, subset)
    return np.ascontiguousarray(shaped).reshape([schema[name].size for name in subset])
