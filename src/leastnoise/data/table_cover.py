"""Many tables from few scans: which larger tables to count, so that every asked one is a sum of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.core.operators import arranged
from leastnoise.query import Schema

Subset = tuple[str, ...]


@dataclass(frozen=True)
class LeftOut:
    """As a block: whether an attribute has a cell for a record (cell 0) or none (cell 1)."""

    attribute: str


# What a scan counts: the cells of some attributes and "no cell", or whether one attribute leaves records out.
Block = Subset | LeftOut

# Cells of a larger table, at most, as which several small ones are counted together. Of 20 attributes with
# ten values each and ten million records, the 190 pairs took DuckDB 39 s as they are, 15 s in blocks of three
# attributes, 11 s in blocks of four, and 17 s in blocks of five (two cores, a busy machine).
MERGED_CELLS = 2**14
# Blocks that one scan counts at once, at most: Spark refuses more than 64 grouping sets.
MAX_BLOCKS = 60
# Cells that one scan counts at once, at most, which bounds the memory of the engine's hash tables; a larger
# table is alone in its scan.
SCAN_CELLS = 2**24


def plan_scans(subsets: Sequence[Subset], schema: Schema) -> list[list[Subset]]:
    """Blocks of attributes, in the order of the schema, by scan: each subset lies in one of them at least.

    A greedy cover: a block starts with the largest table that no block holds yet and
    takes in the attribute that completes most of the others, as long as it stays
    below MERGED_CELLS. It depends on the schema and the question alone.
    """
    names = schema.names
    place = {name: k for k, name in enumerate(names)}
    sizes = [schema[name].size for name in names]

    def n_cells(block: int) -> int:
        return math.prod(sizes[k] for k in range(len(sizes)) if block >> k & 1)

    asked = {sum(1 << place[name] for name in subset) for subset in subsets}
    left = sorted(asked, key=lambda block: (-n_cells(block), block))
    blocks: list[int] = []
    while left:
        block = left[0]
        while True:
            left = [other for other in left if other & ~block]
            added = _best_addition(block, left, sizes, MERGED_CELLS // n_cells(block))
            if added is None:
                break
            block |= added
        blocks.append(block)
    scans: list[list[int]] = []
    room = 0
    for block in blocks:
        if not scans or len(scans[-1]) == MAX_BLOCKS or n_cells(block) > room:
            scans.append([])
            room = SCAN_CELLS
        scans[-1].append(block)
        room -= n_cells(block)
    return [[tuple(name for name in names if block >> place[name] & 1) for block in scan] for scan in scans]


def _best_addition(block: int, left: Sequence[int], sizes: Sequence[int], most: int) -> int | None:
    """The attributes to add to a block, which may grow by a factor of at most ``most``."""
    gains: dict[int, int] = {}
    whole: tuple[int, int] | None = None
    for other in left:
        missing = other & ~block
        growth = math.prod(sizes[k] for k in range(missing.bit_length()) if missing >> k & 1)
        if growth > most:
            continue
        if missing & (missing - 1) == 0:
            gains[missing] = gains.get(missing, 0) + 1
        if whole is None or (growth, missing) < whole:
            whole = growth, missing
    if gains:
        return max(gains, key=lambda bit: (gains[bit], -sizes[bit.bit_length() - 1], -bit))
    return None if whole is None else whole[1]


def n_cells_of(block: Block, schema: Schema) -> int:
    """How many different numbers `cell_number` gives to records."""
    if isinstance(block, LeftOut):
        return 2
    return math.prod(schema[name].size for name in block) + 1


def cell_number(block: Block, schema: Schema, column: Callable[[str], str]) -> str:
    """SQL for the number of a record's cell in a block, the last attribute fastest; "no cell" comes last.

    Args:
        column: SQL for a column of the records: i0, i1, … are the cells in the attributes, in the order of
            the schema, null where an attribute has none, and ``rest`` is 1 where any of them has none,
            else 0.

    Guarantee:
        Every record has one number in every block, and none is null.
    """
    if isinstance(block, LeftOut):
        return f"CASE WHEN {column(f'i{schema.names.index(block.attribute)}')} IS NULL THEN 1 ELSE 0 END"
    number = "0"
    for name in block:
        number = f"({number}) * {schema[name].size} + {column(f'i{schema.names.index(name)}')}"
    return f"CASE WHEN {column('rest')} = 0 THEN {number} ELSE {n_cells_of(block, schema) - 1} END"


def tallied(
    which: npt.NDArray[Any], cells: npt.NDArray[Any], n_records: npt.NDArray[Any], sizes: Sequence[int]
) -> list[npt.NDArray[np.int64]]:
    """The counts of every block, zeros included, from rows of block, cell and number of records."""
    tables = []
    for b, size in enumerate(sizes):
        own = which == b
        table = np.zeros(size, dtype=np.int64)
        table[cells[own]] = n_records[own]
        tables.append(table)
    return tables


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
