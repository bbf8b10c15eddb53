"""The counts of very many tables, from one scan of the records: for plans that measure millions of integers.

`Data.tables` reads the table once for every sixty blocks of attributes. Here it is read once in all: records
are placed in their cells by the embedded engine, held some at a time as narrow numbers, and counted in every
block before the next ones are read. So memory depends on the question alone, never on how many records there
are. The 161,700 tables of three out of 100 attributes with ten values each, and a million records, took 3
minutes of one processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DataError, TooLargeError
from leastnoise.data import duckdb_scan
from leastnoise.data.block_counts import cell_counter
from leastnoise.data.connections import withheld
from leastnoise.data.duckdb_counts import placed_records
from leastnoise.data.handle import Data
from leastnoise.data.scan_progress import ScanProgress, ScanWatch
from leastnoise.data.sources import is_in_engine
from leastnoise.data.table_cover import Block, LeftOut, Subset, first_holders, plan_scans, summed
from leastnoise.query import Schema

# Counts that are held at once, at most: eight bytes each, 2 GiB in all.
MAX_HELD_COUNTS = 2**28

# Records that are held at once, about: a hundred attributes of up to 256 values take 100 MiB.
_RECORDS_AT_ONCE = 2**20


class HeldTables:
    """Counts of tables of some attributes, all in one array; `repr` shows none of them.

    Called with the names of some of these tables, in the same order of attributes, it gives their counts.

    Attributes:
        n_rest: how many records some attribute has no cell for.
        n_left_out: of each attribute that was asked about, how many of them it has no cell for.
    """

    def __init__(self, subsets: Iterable[Subset], schema: Schema) -> None:
        self._shapes = {
            subset: tuple(schema[name].size for name in subset) for subset in dict.fromkeys(subsets)
        }
        self._starts: dict[Subset, int] = {}
        n_counts = 0
        for subset, shape in self._shapes.items():
            self._starts[subset] = n_counts
            n_counts += math.prod(shape)
        if n_counts > MAX_HELD_COUNTS:
            raise TooLargeError(
                f"{len(self._shapes):,} tables hold {n_counts:,} counts together; at most "
                f"{MAX_HELD_COUNTS:,} are held",
                field="tables",
                given=n_counts,
                remedy="ask for fewer or coarser attributes in one plan",
            )
        self._counts = np.zeros(n_counts, dtype=np.int64)
        self.n_rest = 0
        self.n_left_out: tuple[int, ...] = ()

    @property
    def subsets(self) -> list[Subset]:
        """The attributes of every table."""
        return list(self._shapes)

    def __call__(self, subsets: Sequence[Subset] | None) -> list[npt.NDArray[np.int64]]:
        if subsets is None:
            raise TooLargeError("the counts of all cells are not held", field="tables", given=None)
        return [self.table(subset) for subset in subsets]

    def table(self, subset: Subset) -> npt.NDArray[np.int64]:
        """The counts of one table: not a copy."""
        shape, start = self._shapes[subset], self._starts[subset]
        return self._counts[start : start + math.prod(shape)].reshape(shape)

    @property
    def rest(self) -> tuple[int, ...]:
        """How many records are in no cell, then by attribute."""
        return (self.n_rest, *self.n_left_out)

    def __repr__(self) -> str:
        return f"HeldTables({len(self._shapes)} tables, not private)"


def held_tables(
    data: Data,
    subsets: Iterable[Subset],
    left_out_by: Sequence[str] = (),
    *,
    records_per_person: int | None = None,
    progress: Callable[[ScanProgress], object] | None = None,
) -> HeldTables:
    """The counts of tables, and of the records in none of their cells, from one scan: true numbers.

    Args:
        subsets, left_out_by, records_per_person, progress: as in `Data.tables_and_rest`.

    Guarantee:
        That of `Data.tables_and_rest`. All tables are of the same records, because these are read once.

    Raises:
        DataError: if the records are in another engine than the embedded one, or cannot be read.
        TooLargeError: if more counts than MAX_HELD_COUNTS would be held, before anything is read.
    """
    if is_in_engine(data._source):
        raise DataError(
            f"a table in an engine ({data.kind}) is not counted for a release in blocks",
            field="table",
            given=data.kind,
            remedy="write it to a file, as in table.to_parquet('people.parquet'), and count that",
        )
    held = HeldTables(subsets, data.schema)
    blocks: list[Block] = [block for scan in plan_scans(held.subsets, data.schema) for block in scan]
    blocks += [LeftOut(name) for name in left_out_by]
    watch = ScanWatch(progress, 1)
    given = (data._source, data.schema, data.who, records_per_person)
    count = _Counting(held)

    def scan_all() -> None:
        with duckdb_scan.scanner(*given, n_scans=1, counting=count) as scan:
            scan(blocks, watch)

    watch.scan(lambda: withheld("counting the table", scan_all))
    return held


class _Counting:
    """Counts every block in some records at a time, and adds up the tables that it holds."""

    def __init__(self, held: HeldTables) -> None:
        self._held = held
        self._count = cell_counter()

    def __call__(
        self,
        engine: Any,
        query: str,
        parameters: dict[str, Any],
        schema: Schema,
        blocks: Sequence[Block],
        watch: ScanWatch,
    ) -> list[npt.NDArray[np.int64]]:
        watch.attach(stop=engine.interrupt)
        names = schema.names
        tables = [block for block in blocks if isinstance(block, tuple)]
        holders = first_holders(self._held.subsets, tables)
        used = sorted({names.index(name) for block in tables for name in block})
        flags = [names.index(block.attribute) for block in blocks if isinstance(block, LeftOut)]
        column = {names[k]: place for place, k in enumerate(used)}
        n_null = np.zeros(len(flags), np.int64)
        for batch in _in_pieces(placed_records(engine, query, parameters, used, flags)):
            self._held.n_rest += batch.n_rest
            n_null += batch.n_null
            self._add(batch.columns, batch.n_records - batch.n_rest, column, holders, schema)
        watch.attach()
        self._held.n_left_out = tuple(n_null.tolist())
        return []

    def _add(
        self,
        columns: Sequence[npt.NDArray[Any]],
        n_records: int,
        column: dict[str, int],
        holders: dict[Subset, list[int]],
        schema: Schema,
    ) -> None:
        subsets = self._held.subsets
        for block, places in holders.items():
            sizes = [schema[name].size for name in block]
            counts = self._count([columns[column[name]] for name in block], sizes, n_records)
            for place in places:
                own = self._held.table(subsets[place])
                own += summed(counts, block, subsets[place], schema)


class _Records:
    """Some records: the cells of those that have all, and how many have not."""

    def __init__(self) -> None:
        self._kept: list[list[npt.NDArray[Any]]] = []
        self.n_records = 0
        self.n_rest = 0
        self.n_null: Any = 0

    def add(self, columns: Sequence[npt.NDArray[Any]], is_rest: npt.NDArray[Any], nulls: Any) -> None:
        is_kept = is_rest == 0
        # Indexing copies: what the engine hands on is gone with its next batch.
        self._kept.append([one[is_kept] for one in columns])
        n_kept = int(np.count_nonzero(is_kept))
        self.n_records += len(is_kept)
        self.n_rest += len(is_kept) - n_kept
        self.n_null = self.n_null + np.array([np.count_nonzero(own) for own in nulls], dtype=np.int64)

    @property
    def columns(self) -> list[npt.NDArray[Any]]:
        """The cells in each attribute, of all records together."""
        return [np.concatenate(parts) for parts in zip(*self._kept, strict=True)]


def _in_pieces(batches: Iterator[tuple[Any, Any, Any]]) -> Iterator[_Records]:
    piece = _Records()
    for batch in batches:
        piece.add(*batch)
        if piece.n_records >= _RECORDS_AT_ONCE:
            yield piece
            piece = _Records()
    if piece.n_records:
        yield piece
