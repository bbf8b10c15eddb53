"""A table or a figure of a paper, by name: what to compute, what to check, how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from leastnoise.papers.reproductions.points import Point, Row, Setting
from leastnoise.papers.reproductions.printed import Printed, printed
from leastnoise.papers.reproductions.verdicts import Check


@dataclass(frozen=True)
class Drawing:
    """How the rows are drawn.

    Attributes:
        x, y: the columns on the axes; a text column on x gives bars, numbers give lines.
        series: the column that tells the lines or bars apart.
        panel: the column with one panel for each of its values; None for a single one.
        log: which axes are logarithmic: "", "x", "y" or "xy".
        x_title, y_title: what the axes say; the columns' names unless given.
    """

    x: str
    y: str
    series: str
    panel: str | None = None
    log: Literal["", "x", "y", "xy"] = ""
    x_title: str = ""
    y_title: str = ""

    def series_of(self, row: Row) -> str:
        """Which line or bar a row belongs to; one that does not say so is its method's own."""
        found = row.get(self.series)
        return str(row.get("method", "–") if found is None else found)


@dataclass(frozen=True)
class Reproduction:
    """One table or figure, and the functions that make it again.

    Attributes:
        name: paper and table, "fitness-for-use/table-5".
        title: what it shows, in our words.
        points: what to compute in a setting.
        checks: the printed numbers and the claims of the text, from the rows alone.
        drawing: how the rows are drawn.
        notes: stated choices where the paper is silent, one sentence each.
    """

    name: str
    title: str
    points: Callable[[Setting], Sequence[Point]]
    checks: Callable[[Sequence[Row]], Sequence[Check]]
    drawing: Drawing
    notes: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """The short name of the paper."""
        return self.name.partition("/")[0]

    @property
    def printed(self) -> Printed:
        """What the paper prints there."""
        return printed(self.name)

    @property
    def made_by(self) -> str:
        """Where the functions are, so that a reader gets from a number to its source."""
        return f"{self.points.__module__}.{self.points.__qualname__}"


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
