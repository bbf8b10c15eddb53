"""What a value is, and the cells that the documentation gives to it, by loops over the declared values.

A reading says in a few words that all types share what a stored value is. Where the documentation leaves
something open, such as the text of a timestamp, the answer is None: then tables are compared with their
neighbours, and not with a loop over their records. What text means is asked of `Attribute.place`.
"""

from __future__ import annotations

import bisect
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import leastnoise as ln
from oracle_dates import label


@dataclass(frozen=True)
class Day:
    """A date, or a timestamp without a zone, by the days from 1970-01-01 to it; it may be in no calendar."""

    number: int
    is_date: bool = True


@dataclass(frozen=True)
class Moment:
    """A timestamp with a zone, by the second since 1970."""

    second: int


@dataclass(frozen=True)
class Thing:
    """A Python object in a column of any objects, of which `Attribute.place` speaks."""

    value: Any


@dataclass(frozen=True)
class Either:
    """One of several readings; none is given for what no documentation speaks of."""

    readings: tuple[Any, ...] = ()


UNCLEAR = Either()
NO_TEXT = Either((None, "\ufffd?"))
Cells = frozenset[int | None] | None
_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days


def cells(attribute: Any, reading: Any) -> Cells:
    """The cells that the value may have; None is that of a record left out. None for all where it is open."""
    outside = attribute.n_values if attribute.outside == "other" else None
    null = attribute.n_values if attribute.null == "other" else None
    if reading is None or (isinstance(reading, float | Decimal) and math.isnan(reading)):
        return frozenset([null])
    if isinstance(reading, Either):
        found = [cells(attribute, one) for one in reading.readings]
        return None if not found or None in found else frozenset().union(*(one for one in found if one))
    if isinstance(reading, Thing):
        try:
            str(reading.value).encode()
            return frozenset([attribute.place(reading.value)])
        except Exception:
            return frozenset([outside, null])
    if isinstance(reading, str | bool):
        return frozenset([attribute.place(reading)])
    is_named = isinstance(attribute, ln.Categories | ln.Hierarchy) and attribute.is_text
    if is_named or attribute.clean is not None:
        words = _written(reading)
        if words is not None:
            with suppress(ValueError):
                return frozenset([attribute.place(words if isinstance(reading, Day) else reading)])
        if any(_might_be(word, reading) for word in _meant(attribute)):
            return None
        if is_named:
            return frozenset([outside])
    if isinstance(reading, Day | Moment):
        return _cells_of_time(attribute, reading, outside)
    if isinstance(attribute, ln.Periods):
        return _cells_of_year(attribute, reading, outside)
    found = _place_of_number(attribute, reading)
    return frozenset([outside if found is None else found])


def _written(reading: Any) -> str | None:
    """The documented text of a value that is no text."""
    if isinstance(reading, int):
        return str(Decimal(reading))
    if isinstance(reading, float) and abs(reading) < 2**53 and reading == int(reading):
        return str(int(reading))
    if isinstance(reading, Decimal) and reading.as_tuple().exponent == 0:
        return str(reading)
    is_day = isinstance(reading, Day) and reading.is_date and _FIRST <= reading.number <= _LAST
    return (_EPOCH + timedelta(days=reading.number)).isoformat() if is_day else None


def _meant(attribute: Any) -> set[str]:
    """All texts that the schema gives a meaning."""
    named = set(map(str, getattr(attribute, "values", ()))) if not attribute.has_ends else set()
    clean = attribute.clean
    return named if clean is None else named | {*clean.nulls, *(word for word, _ in clean.synonyms)}


def _might_be(word: str, reading: Any) -> bool:
    """Whether a text may be how some program writes a value whose text is not documented."""
    if isinstance(reading, Day | Moment):
        return re.search("[0-9][-:][0-9]", word) is not None
    try:
        return math.isclose(float(word), reading, rel_tol=1e-3)
    except (ValueError, OverflowError):
        return False


def _cells_of_time(attribute: Any, reading: Day | Moment, outside: int | None) -> Cells:
    if not isinstance(attribute, ln.Periods):
        return None  # such columns are refused
    if isinstance(reading, Moment):
        if attribute.zone is None:
            return None
        if not _FIRST <= reading.second // 86_400 <= _LAST:
            return frozenset([outside])
        try:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=reading.second)
            day = moment.astimezone(ZoneInfo(attribute.zone)).date()
        except OverflowError:
            return None
    elif not _FIRST <= reading.number <= _LAST:
        return frozenset([outside])
    else:
        day = _EPOCH + timedelta(days=reading.number)
    # Names of periods have one length: their order is that of time.
    name, names = label(attribute.by, day), [attribute.label(i) for i in range(attribute.n_values)]
    place = bisect.bisect_left(names, name)
    if place < len(names) and names[place] == name:
        return frozenset([place])
    return frozenset([min(place, len(names) - 1) if attribute.outside == "clamp" else outside])


def _cells_of_year(attribute: Any, reading: int | float | Decimal, outside: int | None) -> Cells:
    """A number is a date only by its digits: no form of dates has more than fifteen."""
    if isinstance(reading, Decimal) and reading.as_tuple().exponent != 0:
        return frozenset([outside])
    if abs(reading) >= 10**15 or reading != int(reading):
        return frozenset([outside])
    return frozenset([attribute.place(str(int(reading)))])


def _place_of_number(attribute: Any, number: int | float | Decimal) -> int | None:
    is_clamped = attribute.outside == "clamp"
    if isinstance(attribute, ln.Bins):
        edges = attribute.edges
        try:
            nearest = float(number)
        except OverflowError:
            nearest = math.inf if number > 0 else -math.inf
        if not is_clamped and not (edges[0] <= nearest < edges[-1] or nearest == edges[-1] == math.inf):
            return None
        inside = [i for i in range(len(edges) - 1) if edges[i] <= nearest]
        return inside[-1] if inside else 0
    if abs(number) == math.inf or number != int(number):
        return None
    values = attribute.values
    if is_clamped:
        number = min(max(int(number), values[0]), values[-1])
    return values.index(int(number)) if int(number) in values else None
