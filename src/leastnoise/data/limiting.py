"""At most so many records of each person: which of them count follows from that person's records alone.

Records come with their cells and with whose they are; the embedded engine sorts them by person, and writes
what does not fit into memory into a private folder that goes with the question.
"""

# ruff: noqa: S608 - queries are put together from identifiers made here; values are bound.

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from leastnoise.core.extras import require
from leastnoise.data.arrow_values import bits, stored
from leastnoise.data.connections import reader_of
from leastnoise.data.counting import Placed, Question
from leastnoise.data.placing import code_type

# The engine of one question: no files, no extensions, no statistics of what it is given.
SETTINGS = (
    "autoinstall_known_extensions=false",
    "autoload_known_extensions=false",
    "enable_progress_bar=false",
    "disabled_optimizers='statistics_propagation'",
    "enable_external_access=false",
    "lock_configuration=true",
)

# What the engine may hold in memory. Two million records of twenty attributes took a peak of 0.92 GiB without
# this limit, and 0.43 with it.
PERSON_MEMORY = "512MB"


@contextmanager
def sorting_engine(records: Iterable[Placed], sizes: Sequence[int]) -> Iterator[Any]:
    """An embedded engine that knows records as a table ``placed``: codes i0, i1, …, rest and who.

    The records can be read once.

    Args:
        sizes: how many cells each attribute has.
    """
    duckdb = require("duckdb", extra=None, why="limiting the records of each person")
    with tempfile.TemporaryDirectory(prefix="leastnoise-") as folder, duckdb.connect(":memory:") as engine:
        engine.execute("SET temp_directory = $folder", {"folder": folder})
        engine.execute(f"SET memory_limit = '{PERSON_MEMORY}'")
        for setting in SETTINGS:
            engine.execute(f"SET {setting}")
        reading = _Reading(records, sizes)
        engine.register("placed", reading.reader)
        try:
            yield engine
        except Exception:
            # The engine knows only that its source has failed.
            if reading.failure is not None:
                raise reading.failure from None
            raise


class _Reading:
    """Records as an Arrow stream, and what ended it before its time."""

    def __init__(self, records: Iterable[Placed], sizes: Sequence[int]) -> None:
        self.failure: BaseException | None = None
        self._records = records
        codes = [(f"i{k}", pa.from_numpy_dtype(code_type(size))) for k, size in enumerate(sizes)]
        self._schema = pa.schema([*codes, ("rest", pa.bool_()), ("who", pa.large_string())])
        self.reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def _batches(self) -> Iterator[Any]:
        try:
            for placed in self._records:
                yield pa.record_batch([*placed.codes, placed.is_rest, placed.who], schema=self._schema)
        except BaseException as error:
            self.failure = error
            raise


def limited(records: Iterable[Placed], question: Question) -> Iterator[Placed]:
    """At most ``question.limit`` records of each person, the earliest ones where one attribute is time.

    Guarantee:
        Which of a person's records stay depends on that person's records alone: those
        in a cell come first, all in the order of a fixed hash of person and cell, and
        records that tie have the same cell, or none in the same attributes. So one
        person more or less changes the counts by at most the limit in all, "no cell"
        included, and those that no cell takes never displace one that has a cell.
        With time, the order of its values comes before the hash: a record never
        displaces one of an earlier period.
    """
    names, sizes = question.schema.names, question.schema.shape
    time = None if question.earliest_by is None else names.index(question.earliest_by)
    query = kept_records(sizes, min(question.limit or 0, 2**62), time)
    with sorting_engine(records, sizes) as engine:
        for batch in reader_of(engine.sql(query)):
            *codes, rest = batch.columns
            yield Placed([stored(column) for column in codes], bits(rest))


def kept_records(sizes: Sequence[int], most: int, time: int | None = None) -> str:
    """SQL for the codes of the records that count, at most so many of each person, and ``rest``.

    Args:
        sizes: how many cells each attribute has.
        most: how many records of a person count.
        time: the place of the attribute of which the earliest records come first; None for none.
    """
    # As a record is hashed, -1 stands for none.
    cells = [f"CASE WHEN i{k} < {size} THEN i{k}::BIGINT ELSE -1 END" for k, size in enumerate(sizes)]
    cell = f"concat_ws(',', {', '.join(cells)})"
    period = "" if time is None else f"i{time}, "
    order = f"rest, {period}md5(concat_ws(',', who, {cell})), {cell}"
    rank = f"row_number() OVER (PARTITION BY who ORDER BY {order})"
    ranked = f"SELECT *, {rank} AS nth FROM placed WHERE who IS NOT NULL"
    return f"SELECT * EXCLUDE (who, nth) FROM ({ranked}) WHERE nth <= {most}"
