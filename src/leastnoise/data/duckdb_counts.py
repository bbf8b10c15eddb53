"""The counts of blocks from records that the embedded engine has placed in their cells."""

# ruff: noqa: S608 - queries are put together from identifiers made here; values are bound.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leastnoise.data.arrow_stream import whole_columns
from leastnoise.data.block_counts import MAX_COUNTED_CELLS, block_counter
from leastnoise.data.scan_progress import ScanWatch
from leastnoise.data.table_cover import Block, LeftOut, cell_number, n_cells_of, tallied
from leastnoise.query import Schema

# What counts the blocks of one scan: an engine, a query for coded records and its parameters, the schema, the
# blocks, and who watches.
Counting = Callable[
    [Any, str, dict[str, Any], Schema, Sequence[Block], ScanWatch], list[npt.NDArray[np.int64]]
]


def counted(
    engine: Any,
    query: str,
    parameters: dict[str, Any],
    schema: Schema,
    blocks: Sequence[Block],
    watch: ScanWatch,
) -> list[npt.NDArray[np.int64]]:
    """The counts of every block, each of shape (n_cells_of the block,), from one scan of coded records."""
    watch.attach(stop=engine.interrupt)
    sizes = [n_cells_of(block, schema) for block in blocks]
    if sum(sizes) > MAX_COUNTED_CELLS:
        answer = engine.execute(_grouped(query, schema, blocks), parameters).fetchnumpy()
        watch.attach()
        return tallied(answer["which"], answer["cell"], answer["n"], sizes)
    found = _streamed(engine, query, parameters, schema, blocks)
    watch.attach()
    return found


def _streamed(
    engine: Any, query: str, parameters: dict[str, Any], schema: Schema, blocks: Sequence[Block]
) -> list[npt.NDArray[np.int64]]:
    """The same by NumPy: the engine places records and hands on the numbers of their cells.

    All 190 pairs of 20 attributes and four million records took 10 s as grouping sets, and 1.7 s so
    (processor time, two cores).
    """
    names = schema.names
    tables = [tuple(names.index(name) for name in block) for block in blocks if isinstance(block, tuple)]
    flags = [names.index(block.attribute) for block in blocks if isinstance(block, LeftOut)]
    used = sorted({k for table in tables for k in table})
    count = block_counter(
        [[used.index(k) for k in table] for table in tables], [schema[names[k]].size for k in used]
    )
    totals = count([np.zeros(0, np.uint8)] * len(used), np.zeros(0, np.uint8))
    n_null, n_all = np.zeros(len(flags), np.int64), 0
    for columns, is_rest, nulls in placed_records(engine, query, parameters, used, flags):
        totals += count(columns, is_rest)
        n_null += np.array([np.count_nonzero(own) for own in nulls], dtype=np.int64)
        n_all += len(is_rest)
    ends = np.cumsum([n_cells_of(block, schema) for block in blocks if isinstance(block, tuple)])
    of_tables = iter(np.split(totals, ends[:-1]) if tables else [])
    of_flags = iter([np.array([n_all - n, n]) for n in n_null.tolist()])
    return [next(of_flags if isinstance(block, LeftOut) else of_tables) for block in blocks]


class PlacedRecords(NamedTuple):
    """Some records in their cells; to be read before the next ones are asked for.

    Attributes:
        columns: the cells in each attribute.
        is_rest: 1 where some attribute of the schema has no cell for a record, whose cells then mean nothing.
        nulls: of the attributes that were asked about, 1 where each has no cell for a record.
    """

    columns: list[npt.NDArray[Any]]
    is_rest: npt.NDArray[Any]
    nulls: list[npt.NDArray[Any]]


def placed_records(
    engine: Any, query: str, parameters: dict[str, Any], used: Sequence[int], flags: Sequence[int]
) -> Iterator[PlacedRecords]:
    """Records as the engine places them, some at a time.

    Args:
        used: the attributes whose cells are handed on, by their place in the schema.
        flags: those of which it is told where they have no cell.
    """
    chosen = [f"coalesce(i{k}, 0) AS i{k}" for k in used] + ["rest"]
    chosen += [f"CAST(i{k} IS NULL AS UTINYINT) AS n{k}" for k in flags]
    n = len(used)
    for columns in whole_columns(engine.sql(f"SELECT {', '.join(chosen)} FROM ({query})", params=parameters)):
        yield PlacedRecords(columns[:n], columns[n], columns[n + 1 :])


def _grouped(query: str, schema: Schema, blocks: Sequence[Block]) -> str:
    """The query that counts the cells of all blocks: which block, which cell, how many records."""
    codes = []
    for block in blocks:
        # Not wider than need be: hash tables of 32-bit keys are smaller.
        kind = "INTEGER" if n_cells_of(block, schema) < 2**31 else "BIGINT"
        codes.append(f"CAST({cell_number(block, schema, str)} AS {kind})")
    columns = [f"c{b}" for b in range(len(blocks))]
    query = f"SELECT {', '.join(map('{} AS {}'.format, codes, columns))} FROM ({query})"
    # No cell is null, so the one that is not null in a row of the answer tells its grouping set.
    which = "CASE " + " ".join(f"WHEN {c} IS NOT NULL THEN {b}" for b, c in enumerate(columns)) + " END"
    sets = ", ".join(f"({c})" for c in columns)
    return (
        f"SELECT {which} AS which, coalesce({', '.join(columns)}) AS cell, count(*) AS n "
        f"FROM ({query}) GROUP BY GROUPING SETS ({sets})"
    )
