"""What reproductions compute, row by row, and how checks read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Plain = str | int | float | bool | None
Row = Mapping[str, Plain]

# A task that could not be run says so in this column instead of numbers.
NOTE = "note"


def cell(rows: Sequence[Row], column: str, **about: object) -> float | None:
    """The number in the one row about this; None where there is no such row, or it was not run.

    Raises:
        ValueError: if several rows are about it.
    """
    found = [row for row in rows if all(row.get(name) == value for name, value in about.items())]
    if len(found) > 1:
        raise ValueError(f"{len(found)} rows are about {about}")
    value = found[0].get(column) if found else None
    return float(value) if isinstance(value, (int, float)) else None
