"""The counts of blocks in PostgreSQL: one hash table for each block, over records that are placed once.

Cells are written into few whole numbers, some bits for each attribute, and a record's cell in a block is told
by these numbers under a mask. As grouping sets, 40 blocks of four attributes sorted 300,000 records 40 times:
13.0 s of the server's processor time; over one column for each attribute it was 3.9 s.
"""

# ruff: noqa: S608 - queries hold whole numbers and identifiers made here.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.data.block_counts import MAX_COUNTED_CELLS
from leastnoise.data.table_cover import Block, LeftOut, Subset, n_cells_of
from leastnoise.query import Schema

# Bits of a BIGINT that hold cells; its sign tells that a record has no cell somewhere.
_BITS = 63
_SIGN = -(2**_BITS)
# What the server may hold in memory for the placed records while it counts, at least, in bytes: 300,000 of
# them are then read from memory 40 times and not from a file, in three quarters of the time.
_WORK_MEMORY = 2**26


@dataclass(frozen=True)
class _Field:
    """Where the cell of an attribute stands: column ``word``, bits ``mask``, the first of them ``shift``."""

    word: int
    shift: int
    mask: int


class PostgresCount:
    """A question for the counts of some blocks, and how its answer is read.

    Args:
        records: SQL for the records, with columns i0, i1, … and rest as `cell_number` describes them.
        blocks: what is counted.

    Attributes:
        query: the question. A row of the answer is the number of a block, some keys and the number of
            records that have them; the keys of records with no cell are negative.
        columns: the columns of the answer and their types.
    """

    def __init__(self, records: str, schema: Schema, blocks: Sequence[Block]) -> None:
        self._schema = schema
        self._blocks = blocks
        tables = [block for block in blocks if isinstance(block, tuple)]
        self._fields = _packed(schema, {name for block in tables for name in block})
        self._n_keys = max((len(self._masks(block)) for block in tables), default=0) or 1
        self.query = self._written(records)
        self.columns = {"which": "int64"} | {f"k{j}": "int64" for j in range(self._n_keys)} | {"n": "int64"}

    def counted(self, columns: Sequence[npt.NDArray[np.int64]]) -> list[npt.NDArray[np.int64]]:
        """The counts of every block, each of shape (n_cells_of the block,), from the answer's columns."""
        which, *keys, n_records = columns
        counts = []
        for b, block in enumerate(self._blocks):
            own = which == b
            n, own_keys = n_records[own], [key[own] for key in keys]
            table = np.zeros(n_cells_of(block, self._schema), dtype=np.int64)
            if isinstance(block, LeftOut):
                table[own_keys[0]] = n
            else:
                is_placed = own_keys[0] >= 0
                table[self._cells(block, [key[is_placed] for key in own_keys])] = n[is_placed]
                table[-1] = n[~is_placed].sum()
            counts.append(table)
        return counts

    def _cells(self, block: Subset, keys: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """The numbers of the cells that keys tell, the last attribute fastest."""
        key_of = dict(zip(self._masks(block), keys, strict=False))
        cells = np.zeros(len(keys[0]), dtype=np.int64)
        for name in block:
            field = self._fields[name]
            cells *= self._schema[name].size
            cells += (key_of[field.word] & field.mask) >> field.shift
        return cells

    def _masks(self, block: Subset) -> dict[int, int]:
        """By column, the bits that hold the attributes of a block."""
        masks: dict[int, int] = {}
        for name in block:
            field = self._fields[name]
            masks[field.word] = masks.get(field.word, _SIGN) | field.mask
        # The table of no attribute tells records with a cell from those with none.
        return masks or {0: _SIGN}

    def _written(self, records: str) -> str:
        place = {name: k for k, name in enumerate(self._schema.names)}
        words: dict[int, list[str]] = {0: ["0"]}
        for name, field in self._fields.items():
            words.setdefault(field.word, []).append(f"(CAST(i{place[name]} AS BIGINT) << {field.shift})")
        columns = [
            f"CASE WHEN rest = 0 THEN CAST({' | '.join(parts)} AS BIGINT) ELSE -1 END AS w{word}"
            for word, parts in words.items()
        ]
        left_out = {block.attribute for block in self._blocks if isinstance(block, LeftOut)}
        columns += [f"i{place[name]} IS NULL AS n{place[name]}" for name in sorted(left_out)]
        parts = [self._part(b, block, place) for b, block in enumerate(self._blocks)]
        coded = f"SELECT {', '.join(columns)} FROM {records}"
        return f"WITH coded AS MATERIALIZED ({coded}) {' UNION ALL '.join(parts)}"

    def _part(self, b: int, block: Block, place: dict[str, int]) -> str:
        """The rows of one block."""
        if isinstance(block, LeftOut):
            keys = [f"CASE WHEN n{place[block.attribute]} THEN 1 ELSE 0 END"]
        else:
            # As text: without its sign, the least number is too large for a BIGINT.
            keys = [f"w{word} & CAST('{mask}' AS BIGINT)" for word, mask in self._masks(block).items()]
        padded = [f"CAST({key} AS BIGINT) AS k{j}" for j, key in enumerate([*keys, *["0"] * self._n_keys])]
        listed = ", ".join(padded[: self._n_keys])
        return f"SELECT {b} AS which, {listed}, COUNT(*) AS n FROM coded GROUP BY {', '.join(keys)}"


@contextmanager
def work_memory(connection: Any, n_cells: int) -> Iterator[None]:
    """PostgreSQL with enough memory for the records of one query, where hash tables of its cells are small.

    The setting holds within a transaction of its own, or until the end of this within the caller's.
    """
    if n_cells > MAX_COUNTED_CELLS:
        yield
        return
    with connection.transaction():
        before = connection.execute("SELECT current_setting('work_mem')").fetchone()[0]
        connection.execute(
            f"SELECT set_config('work_mem', '{_WORK_MEMORY // 2**10}kB', true) "
            f"WHERE pg_size_bytes(current_setting('work_mem')) < {_WORK_MEMORY}"
        )
        yield
        connection.execute("SELECT set_config('work_mem', %s, true)", [before])


def _packed(schema: Schema, used: set[str]) -> dict[str, _Field]:
    """A place for the cell of every attribute that is used, in as few columns as the order allows."""
    fields: dict[str, _Field] = {}
    word, shift = 0, 0
    for name in schema.names:
        if name not in used:
            continue
        n_bits = (schema[name].size - 1).bit_length()
        if shift + n_bits > _BITS:
            word, shift = word + 1, 0
        fields[name] = _Field(word, shift, ((1 << n_bits) - 1) << shift)
        shift += n_bits
    return fields
