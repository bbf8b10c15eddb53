"""What places a value in its cell, told once for all engines.

A `Placement` says as what a value is read, how its index among the declared values is found, and which cells
the policies give to the rest. `duckdb_scan` writes it as SQL for the embedded engine, `ibis_cells` as Ibis
expressions for all others: a new kind of attribute is described here, and neither need know of it.
`Attribute.place` says the same of one value at a time and shares nothing with this file; tests compare
all three.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, Literal

from leastnoise.query import Attribute, Bins, Categories, Cleaning, DateForm, Hierarchy, Integers, Periods

# As what a value is read: text as it is written out, a whole number of any size, a float64, or the number of
# a day since 1970-01-01.
ValueKind = Literal["text", "whole", "number", "day"]


@dataclass(frozen=True)
class OneOf:
    """The index of the declared value, text or a whole number, that a value equals."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Steps:
    """The index of a whole number among low, low + step, …, high.

    Attributes:
        is_clamped: whether whole numbers beyond an end count there.
        is_floored: whether numbers between two of these count with the lower one, and those above the last
            as long as they are less than a step away.
    """

    low: int
    high: int
    step: int
    is_clamped: bool
    is_floored: bool = False

    @property
    def n_values(self) -> int:
        """How many numbers these are."""
        return (self.high - self.low) // self.step + 1


@dataclass(frozen=True)
class Edges:
    """The index i of the bin e_i <= value < e_(i+1) that a float64 lies in.

    Attributes:
        edges: float64, increasing, one more than there are bins.
        is_clamped: whether numbers beyond the edges count in the nearest bin.
        is_end_inside: whether the last edge belongs to the last bin, as infinity does.
    """

    edges: tuple[float, ...]
    is_clamped: bool
    is_end_inside: bool

    @property
    def n_bins(self) -> int:
        """How many bins these are."""
        return len(self.edges) - 1


@dataclass(frozen=True)
class DateReading:
    """How a column is read as days.

    Attributes:
        forms: which text is a date, the first form that matches first.
        offsets: what the clocks of the declared zone are ahead of UTC, in seconds, each with the second since
            1970 from which on it holds; None without a zone: moments that name an offset have no day then.
    """

    forms: tuple[DateForm, ...]
    offsets: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class CleaningRule:
    """What is done to the text of a value first.

    Attributes:
        steps: as they are declared.
        nulls: the words that mean a null, as they are compared.
        synonyms: words as they are compared, each with the index of the value that it means, and with that
            value as it is read.
    """

    steps: Cleaning
    nulls: tuple[str, ...]
    synonyms: tuple[tuple[str, int, Any], ...]


@dataclass(frozen=True)
class Placement:
    """How a value of one attribute finds its cell.

    Attributes:
        kind: as what it is read; what cannot be read so has no index.
        search: how its index is found.
        outside: the cell of a value that has no index; None leaves the record out.
        null: the cell of a null or NaN; None leaves the record out.
        dates: how days are read; None for other kinds.
        clean: what is done to text first; None for nothing.
    """

    kind: ValueKind
    search: OneOf | Steps | Edges
    outside: int | None
    null: int | None
    dates: DateReading | None = None
    clean: CleaningRule | None = None


def placement_of(attribute: Attribute) -> Placement:
    """What an attribute declares, as every engine goes by it."""
    rule = _without_cleaning(attribute)
    if attribute.clean is None:
        return rule
    words = tuple(
        (word, cell, _as_read(attribute, cell)) for word, cell in sorted(attribute.synonym_cells.items())
    )
    return replace(rule, clean=CleaningRule(attribute.clean, tuple(sorted(attribute.null_words)), words))


def _as_read(attribute: Attribute, cell: int) -> Any:
    """A declared value, or one in a declared interval or period, as values of the attribute are read."""
    if isinstance(attribute, Bins):
        low, high = attribute.edges[cell : cell + 2]
        return least_float(low) if low > -math.inf else math.nextafter(least_float(high), -math.inf)
    if isinstance(attribute, Periods):
        return attribute.starts[cell]
    if isinstance(attribute, Integers):
        return attribute.values[cell]
    assert isinstance(attribute, (Categories, Hierarchy))
    return attribute.compared[cell]


def _without_cleaning(attribute: Attribute) -> Placement:
    outside = attribute.n_values if attribute.outside == "other" else None
    null = attribute.n_values if attribute.null == "other" else None
    is_clamped = attribute.outside == "clamp"
    if isinstance(attribute, Bins):
        edges = tuple(least_float(edge) for edge in attribute.edges)
        return Placement("number", Edges(edges, is_clamped, attribute.edges[-1] == math.inf), outside, null)
    if isinstance(attribute, Integers):
        values = attribute.values
        return Placement("whole", Steps(values[0], values[-1], values.step, is_clamped), outside, null)
    if isinstance(attribute, Periods):
        reading = DateReading(attribute.forms, attribute.offsets)
        return Placement("day", _days(attribute, is_clamped), outside, null, reading)
    assert isinstance(attribute, (Categories, Hierarchy))
    kind: ValueKind = "text" if attribute.is_text else "whole"
    return Placement(kind, OneOf(tuple(attribute.compared)), outside, null)


def decimal_mark(rule: Placement) -> str:
    """The mark that numbers are written out with where a column holds values of several types.

    Numbers that are not whole are no dates, whatever forms of dates are declared.
    """
    if rule.kind == "day":
        return "#"
    return "." if rule.clean is None else rule.clean.steps.decimal


def _days(periods: Periods, is_clamped: bool) -> Steps | Edges:
    """Where a day lies among the periods: they have one length, or are told by their first days."""
    starts = periods.starts
    if periods.by in ("day", "week"):
        step = 1 if periods.by == "day" else 7
        return Steps(starts[0], starts[-1] - step, step, is_clamped, is_floored=True)
    return Edges(tuple(map(float, starts)), is_clamped, is_end_inside=False)


def least_float(edge: float) -> float:
    """The least float64 not below an edge, which bounds the same floats."""
    if edge == -math.inf:
        return edge
    if abs(edge) > sys.float_info.max:
        return math.inf if edge > 0 else -sys.float_info.max
    nearest = float(edge)
    return nearest if nearest >= edge else math.nextafter(nearest, math.inf)
