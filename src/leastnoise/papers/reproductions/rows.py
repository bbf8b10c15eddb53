"""What reproductions compute, row by row, and how checks read it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Plain = str | int | float | bool | None
Row = Mapping[str, Plain]

# A task that could not be run says so in this column instead of numbers.
NOTE = "note"

# Whether our time limit ended the search behind a row; made from `Plan.ended`, or from the rule that ended
# an algorithm of a paper.
IS_CUT = "is_cut"


def was_cut(row: Row) -> bool:
    """Whether our time limit ended the search behind a row: nobody knows where it would have come to."""
    return bool(row.get(IS_CUT))


def where(rows: Sequence[Row], **about: object) -> list[Row]:
    """The rows about this."""
    return [row for row in rows if all(row.get(name) == value for name, value in about.items())]


def cell(rows: Sequence[Row], column: str, **about: object) -> float | None:
    """The number in the one row about this; None where there is no such row, or it was not run.

    Raises:
        ValueError: if several rows are about it.
    """
    found = where(rows, **about)
    if len(found) > 1:
        raise ValueError(f"{len(found)} rows are about {about}")
    value = found[0].get(column) if found else None
    return float(value) if isinstance(value, (int, float)) else None


def number_in(row: Row, column: str) -> float | None:
    """A finite number in a row, or None."""
    value = row.get(column)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]


def numbers(rows: Sequence[Row], column: str, **about: object) -> list[float]:
    """The finite numbers in a column of the rows about this."""
    found = (number_in(row, column) for row in where(rows, **about))
    return [value for value in found if value is not None]


def mean(values: Sequence[float]) -> float | None:
    """The mean, over draws; None without one."""
    return math.fsum(values) / len(values) if values else None


def curve(rows: Sequence[Row], x: str, column: str, **about: object) -> dict[float, float]:
    """A column by another one, which ascends, of the rows about this."""
    found = ((number_in(row, x), number_in(row, column)) for row in where(rows, **about))
    return dict(sorted((at, value) for at, value in found if at is not None and value is not None))


def listed(values: Sequence[float]) -> str:
    """Numbers in one line."""
    return ", ".join(f"{value:,g}" for value in values)
