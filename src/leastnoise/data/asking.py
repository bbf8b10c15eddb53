"""One scan, by whichever engine holds the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.data import counting, engines
from leastnoise.data.blocks import Subset
from leastnoise.data.people import Person
from leastnoise.data.sources import is_in_engine
from leastnoise.data.watching import Watch
from leastnoise.schema import Schema


def ask(
    source: Any,
    schema: Schema,
    blocks: Sequence[Subset],
    person: Person | None,
    records_per_person: int | None,
    watch: Watch,
) -> list[npt.NDArray[np.int64]]:
    """The counts of every block of attributes, each of shape (n_cells of the block,), from one scan."""
    if is_in_engine(source):
        return engines.ask(source[1], schema, blocks, person, records_per_person, watch)
    return counting.ask(source, schema, blocks, person, records_per_person, watch)


def check_source(source: Any, schema: Schema, person: Person | None) -> None:
    """Return if files or a table in an engine have each column once; only headers and types are read."""
    columns = schema.names if person is None else (*schema.names, person.column)
    if is_in_engine(source):
        engines.check_table(source[1], schema, person)
    elif isinstance(source, list):
        counting.check_columns(source, columns)
