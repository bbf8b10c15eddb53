"""The counts of blocks by NumPy in every partition of Spark, from columns as stored or placed by SQL.

Executors need Python, NumPy and PyArrow for that; a probe asks them once per session. Where one of these is
missing, Spark counts by SQL, with a row for each record and block.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from leastnoise.data.arrow_cells import ArrowPlacing, column_placer, stored_column
from leastnoise.data.block_counts import block_counter
from leastnoise.data.table_cover import Block, LeftOut, n_cells_of
from leastnoise.query import Schema

# What the probe found, by session.
_FOUND: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def has_numpy(session: Any) -> bool:
    """Whether the executors of a session run Python with NumPy and PyArrow; they are asked once."""
    if session not in _FOUND:
        _FOUND[session] = _probed(session)
    return _FOUND[session]


def _probed(session: Any) -> bool:
    def ask(batches: Any) -> Iterator[Any]:
        import numpy
        import pyarrow

        n = sum(int(numpy.asarray(batch.column(0)).size) for batch in batches)
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([n])], names=["n"])

    try:
        with _without_words():
            rows = session.range(8).mapInArrow(ask, "n bigint").collect()
    except Exception:
        # Whatever an executor lacks, SQL needs none of it.
        return False
    return sum(row["n"] for row in rows) == 8


@contextmanager
def _without_words() -> Iterator[None]:
    """PySpark without a log of the error by which a probe finds that something is missing."""
    log = logging.getLogger("SQLQueryContextLogger")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def sent_columns(placings: Sequence[ArrowPlacing]) -> list[str]:
    """SQL for what `counted_in_partitions` reads, from columns i0, i1, …, one for each attribute."""
    return [f"{stored_column(f'`i{k}`', placing)} AS `i{k}`" for k, placing in enumerate(placings)]


def counted_in_partitions(
    frame: Any, schema: Schema, blocks: Sequence[Block], placings: Sequence[ArrowPlacing]
) -> list[npt.NDArray[np.int64]]:
    """The counts of every block, each of shape (n_cells_of the block,), from the columns of `sent_columns`.

    Every partition counts its own records and hands on the cells that are not empty; one sum follows.
    """
    names, flags = schema.names, _flags(schema, blocks)
    tables = [block for block in blocks if isinstance(block, tuple)]
    ends = np.cumsum([n_cells_of(block, schema) for block in tables], dtype=np.int64)
    n_tables = int(ends[-1]) if tables else 0
    found = np.zeros(n_tables + 1 + len(flags), dtype=np.int64)
    cells, n_records = _summed(frame.mapInArrow(_task(schema, blocks, placings), "k bigint, n bigint"))
    found[cells] = n_records
    n_all, nulls = int(found[n_tables]), found[n_tables + 1 :].tolist()
    of_flags = {names[k]: np.array([n_all - n, n]) for k, n in zip(flags, nulls, strict=True)}
    of_tables = iter(np.split(found[:n_tables], ends[:-1]) if tables else [])
    return [of_flags[block.attribute] if isinstance(block, LeftOut) else next(of_tables) for block in blocks]


def _summed(frame: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The cells that are not empty and how many records each holds: all that is fetched from Spark."""
    summed = frame.groupBy("k").sum("n")
    answer = summed.toArrow() if hasattr(summed, "toArrow") else summed.toPandas()
    cells, n_records = (np.asarray(answer[name], dtype=np.int64) for name in ("k", "sum(n)"))
    return cells, n_records


def _task(schema: Schema, blocks: Sequence[Block], placings: Sequence[ArrowPlacing]) -> Any:
    """What every partition does. It calls nothing of this package, so that executors need not have it."""
    names, used, flags = schema.names, _used(schema, blocks), _flags(schema, blocks)
    tables = [block for block in blocks if isinstance(block, tuple)]
    places = [[used.index(names.index(name)) for name in block] for block in tables]
    sizes = [schema[names[k]].size for k in used]
    count, place, ways = block_counter(places, sizes), column_placer(), list(placings)
    # Narrow numbers are quicker.
    kinds = ["uint16" if size < 2**16 else "int64" for size in sizes]
    n_found = sum(n_cells_of(block, schema) for block in tables) + 1 + len(flags)

    def task(batches: Any) -> Iterator[Any]:
        import numpy
        import pyarrow

        totals = numpy.zeros(n_found, dtype=numpy.int64)
        for batch in batches:
            cells = [place(column, way) for column, way in zip(batch.columns, ways, strict=True)]
            is_rest = numpy.zeros(batch.num_rows, dtype=bool)
            for own in cells:
                is_rest |= own < 0
            narrow = [cells[k].astype(kind) for k, kind in zip(used, kinds, strict=True)]
            nulls = [int(numpy.count_nonzero(cells[k] < 0)) for k in flags]
            others = numpy.array([batch.num_rows, *nulls], dtype=numpy.int64)
            totals += numpy.concatenate([count(narrow, is_rest), others])
        filled = numpy.flatnonzero(totals)
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.array(filled), pyarrow.array(totals[filled])], names=["k", "n"]
        )

    return task


def _used(schema: Schema, blocks: Sequence[Block]) -> list[int]:
    """The places of the attributes whose cells are needed."""
    return sorted(
        {schema.names.index(name) for block in blocks if isinstance(block, tuple) for name in block}
    )


def _flags(schema: Schema, blocks: Sequence[Block]) -> list[int]:
    """The places of the attributes of which it is counted how many records they leave out."""
    return [schema.names.index(block.attribute) for block in blocks if isinstance(block, LeftOut)]
