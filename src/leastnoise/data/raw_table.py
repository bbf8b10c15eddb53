"""A table as it is stored: raw columns, some records at a time. Nothing here judges a value.

Whatever holds a table (files, frames, databases, engines) reads it and no more: which cell a value belongs
to is decided by `leastnoise.data.placing`, one batch of raw columns at a time.

Nobody's expressions but the caller's run in an engine (a view, a filter, a column that is computed). Where
its optimiser goes by a table's statistics, one record decides about others all the same: statistics leave NaN
out, so a file is passed over whose NaN match a condition, until one more record is out of range. So an engine
is tried with pairs of tables before it is read.
"""

# ruff: noqa: S608 - the query is put together from words of this file.

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet

from leastnoise.core.errors import DataError

# Records of a batch, about: their columns stay in the caches of a processor while they are placed.
BATCH_RECORDS = 2**16


@dataclass(repr=False)
class DroppedRecords:
    """How many records were left out before anything was counted, by reason. True numbers, for the owner.

    Attributes:
        too_long: records of more than MAX_RECORD bytes.
        unclosed: lines with a quote that does not close.
        not_utf8: records that hold something else than UTF-8.
        too_few: records with fewer fields than the header.
        not_json: lines of JSON that are no object.
    """

    too_long: int = 0
    unclosed: int = 0
    not_utf8: int = 0
    too_few: int = 0
    not_json: int = 0

    def __repr__(self) -> str:
        return "DroppedRecords(not private)"


class RawTable(ABC):
    """A table that can be read as raw columns.

    Attributes:
        kind: where the records are, as messages name it.
        is_held: whether they are in memory and cannot change while this exists.
    """

    kind: ClassVar[str] = "table"
    is_held: bool = False

    @abstractmethod
    def types(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The Arrow types that each of these columns is read as; reads no record.

        A column may have several: in files of different types, or folders that give what files lack.

        Raises:
            DataError: unless every name is that of exactly one column (`leastnoise.data.columns`).
        """

    @abstractmethod
    def batches(
        self, names: Sequence[str], marks: Sequence[str], dropped: DroppedRecords
    ) -> Iterator[list[Any]]:
        """These columns as Arrow arrays of one length, some records at a time, from one version of the table.

        Args:
            names: the columns, in the order of the arrays; a name may stand twice.
            marks: of each column the decimal mark that numbers are written out with where a column of
                values of any type is read as text.
            dropped: where to count what is left out before it is a record.

        Guarantee:
            Every array holds the stored values as they are. No value stops or changes the reading of
            another: what a type cannot hold is a null.
        """

    def stop(self) -> None:  # noqa: B027 - most tables wait for nothing
        """End what `batches` waits for, which then fails; may be called from another thread."""


# ------------------------------------------------------------------ whether an engine judges by statistics

# Conditions about NaN beside numbers below 4,000; one more record, of 5,000, must change nothing for others.
_CONDITIONS = (
    "{} > 4000",
    "{} < 4000",
    "NOT ({} <= 4000)",
    "CASE WHEN {} > 4000 THEN 1 ELSE 0 END = 1",
    "CASE WHEN {} < 4000 THEN 1 ELSE 0 END = 1",
)
_NUMBERS = (0.0, 500.0, 3999.0, math.nan, math.nan)
# What the tables are called in queries.
PAIRS = "leastnoise_pairs"


def check_engine(name: str, asked: Callable[[str, str], Iterable[tuple[int, int]]]) -> None:
    """Return if an engine treats the records of two neighbouring Parquet files alike.

    Args:
        name: of the engine, as people call it.
        asked: from the path of a file, and a query of a table PAIRS, the rows of two numbers that answer it.

    Raises:
        DataError: if not.
    """
    conditions = [form.format(column) for form in _CONDITIONS for column in ("d", "f")]
    query = " UNION ALL ".join(
        f"SELECT {n} AS n, k FROM {PAIRS} WHERE {condition}" for n, condition in enumerate(conditions)
    )
    found = []
    with TemporaryDirectory(prefix="leastnoise-") as folder:
        for more in ((), (5000.0,)):
            numbers = [*_NUMBERS, *more]
            columns = {"d": pa.array(numbers), "f": pa.array(numbers, pa.float32()), "k": range(len(numbers))}
            path = str(Path(folder, f"{len(numbers)}.parquet"))
            pyarrow.parquet.write_table(pa.table(columns), path)
            found.append({(n, k) for n, k in asked(path, query) if k < len(_NUMBERS)})
    if found[0] == found[1]:
        return
    raise DataError(
        f"this version of {name} goes by the statistics of a table where it should judge each record by "
        "itself: one record would decide about others",
        field="table",
        given=name,
        remedy=f"write the table to a file with another version of {name}, and count that",
    )
