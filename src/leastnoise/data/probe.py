"""Whether an engine keeps or drops a record by that record alone: tried with pairs of tables.

Nobody's expressions but the caller's run in an engine (a view, a filter, a column that is computed). Where
its optimiser goes by a table's statistics, one record decides about others all the same: statistics leave NaN
out, so a file is passed over whose NaN match a condition, until one more record is out of range.
"""

# ruff: noqa: S608 - the query is put together from words of this file.

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet

from leastnoise.core.errors import DataError

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
