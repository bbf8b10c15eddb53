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
from dataclasses import dataclass
from typing import Any, Literal

from leastnoise.query import Attribute, Bins, Categories, Hierarchy, Integers

# As what a value is read: text as it is written out, a whole number of any size, or a float64.
ValueKind = Literal["text", "whole", "number"]


@dataclass(frozen=True)
class OneOf:
    """The index of the declared value, text or a whole number, that a value equals."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Steps:
    """The index of a whole number among low, low + step, …, high.

    Attributes:
        is_clamped: whether whole numbers beyond an end count there.
    """

    low: int
    high: int
    step: int
    is_clamped: bool

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
class Placement:
    """How a value of one attribute finds its cell.

    Attributes:
        kind: as what it is read; what cannot be read so has no index.
        search: how its index is found.
        outside: the cell of a value that has no index; None leaves the record out.
        null: the cell of a null or NaN; None leaves the record out.
    """

    kind: ValueKind
    search: OneOf | Steps | Edges
    outside: int | None
    null: int | None


def placement_of(attribute: Attribute) -> Placement:
    """What an attribute declares, as every engine goes by it."""
    outside = attribute.n_values if attribute.outside == "other" else None
    null = attribute.n_values if attribute.null == "other" else None
    is_clamped = attribute.outside == "clamp"
    if isinstance(attribute, Bins):
        edges = tuple(least_float(edge) for edge in attribute.edges)
        return Placement("number", Edges(edges, is_clamped, attribute.edges[-1] == math.inf), outside, null)
    if isinstance(attribute, Integers):
        values = attribute.values
        return Placement("whole", Steps(values[0], values[-1], values.step, is_clamped), outside, null)
    assert isinstance(attribute, (Categories, Hierarchy))
    kind: ValueKind = "text" if attribute.is_text else "whole"
    return Placement(kind, OneOf(tuple(attribute.values)), outside, null)


def least_float(edge: float) -> float:
    """The least float64 not below an edge, which bounds the same floats."""
    if edge == -math.inf:
        return edge
    if abs(edge) > sys.float_info.max:
        return math.inf if edge > 0 else -sys.float_info.max
    nearest = float(edge)
    return nearest if nearest >= edge else math.nextafter(nearest, math.inf)
