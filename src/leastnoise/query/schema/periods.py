"""Attributes that hold time: days, weeks, months, quarters or years of dates and timestamps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from leastnoise.core.errors import QueryError, SchemaError
from leastnoise.query.schema.attribute import Attribute, Mask, Value, is_number, plain, text_of
from leastnoise.query.schema.calendar import (
    SECONDS_OF_DAY,
    UNITS,
    DateForm,
    Unit,
    day_number,
    day_of,
    days_named,
    first_day,
    forms_for,
    local_day,
    moment_in,
    period_label,
    period_number,
    zone_named,
    zone_steps,
)
from leastnoise.query.schema.cleaning import Cleaning


@dataclass(frozen=True, init=False, repr=False)
class Periods(Attribute):
    """Consecutive days, ISO weeks, months, quarters or years, from the first to the last.

    A date, a timestamp or a text such as 2026-03-15, 2026-03-15T10:30:00 or 2026-03 counts in the period that
    it lies in. A timestamp without a zone counts on the day that it shows; one with a zone, or with an offset
    such as +02:00, on the day that the clocks of ``zone`` show, and needs that zone.

    Args:
        first: the first period, as a text such as "2026-03", or a date in it.
        last: the last one, included.
        by: "day", "week", "month", "quarter" or "year".
        zone: the time zone that decides on which day a timestamp with an offset falls, such as
            "Europe/Berlin". None reads none: a column of such timestamps is refused, and a text with an
            offset is not a date.
        outside: where undeclared values go: "drop" leaves the record out, "clamp" counts it at the nearest
            end, "other" counts it in the other cell. By default "other" where there is such a cell, else
            "drop". A value that is not a date is never clamped.
        null: where nulls and NaN go: "drop" leaves the record out, "other" counts it in the other cell.
        other: the label of one more cell, for undeclared values, nulls or both; None for no such cell.
        clean: what is done to the text of a value before it is placed: a `Cleaning`, or a dict of its
            arguments. None for nothing.

    Example:
        >>> months = Periods("2026-01", "2026-12", by="month")
        >>> months.size, months.label(2), months.place("2026-03-15 10:30")
        (12, '2026-03', 2)
    """

    by: Unit
    numbers_held: range
    zone: str | None

    kind: ClassVar[str] = "periods"
    has_ends: ClassVar[bool] = True
    own_steps: ClassVar[tuple[str, ...]] = ("dates",)

    def __init__(
        self,
        first: Any,
        last: Any,
        by: str = "month",
        *,
        zone: str | None = None,
        outside: str | None = None,
        null: str = "drop",
        other: str | None = None,
        clean: Any = None,
    ) -> None:
        if by not in UNITS:
            raise SchemaError.must("by", f"be one of {', '.join(map(repr, UNITS))}", given=by)
        object.__setattr__(self, "by", by)
        start, stop = self._declared("first", first)[0], self._declared("last", last)[1] + 1
        if start >= stop:
            raise SchemaError.must("last", f"not come before the first, {first}", given=last)
        object.__setattr__(self, "numbers_held", range(start, stop))
        if zone is not None and (not isinstance(zone, str) or not zone_named(zone)):
            raise SchemaError.must("zone", "be the name of a time zone", given=zone)
        object.__setattr__(self, "zone", zone)
        self._set_policies(outside, null, other, clean)

    def _declared(self, name: str, given: Any) -> tuple[int, int]:
        """The first and the last period that an end of the declared ones names."""
        days = days_named(plain(given))
        if days is None:
            example = {"day": "2026-03-15", "week": "2026-W11", "month": "2026-03", "quarter": "2026-Q1"}
            wanted = f"be a date or a {self.by}, as in {example.get(self.by, '2026')!r}"
            raise SchemaError.must(name, wanted, given=given)
        return period_number(self.by, day_of(days[0])), period_number(self.by, day_of(days[1] - 1))

    # ---------------------------------------------------------------- how records are read

    @cached_property
    def forms(self) -> tuple[DateForm, ...]:
        """The date formats, in the order in which they are tried."""
        return forms_for(self.by, () if self.clean is None else self.clean.dates)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first day of every period, and the day after the last one."""
        held = self.numbers_held
        return tuple(first_day(self.by, number) for number in range(held.start, held.stop + 1))

    @property
    def offsets(self) -> tuple[tuple[int, int], ...] | None:
        """The zone's offsets from UTC, each with the second from which it applies; None without a zone."""
        if self.zone is None:
            return None
        held = self.numbers_held
        return zone_steps(self.zone, first_day(self.by, held.start), first_day(self.by, held.stop))

    def day_in(self, value: Any) -> int | None:
        """The day number of a raw value, in the attribute's time zone; None if it is not a date.

        Args:
            value: a date, a timestamp, or a text that holds one.
        """
        if isinstance(value, datetime):
            if value.tzinfo is None:
                return day_number(value.date())
            offset = value.utcoffset()
            assert offset is not None
            second = SECONDS_OF_DAY * day_number(value.date()) + 3600 * value.hour + 60 * value.minute
            return self._local(second + value.second - int(offset.total_seconds()))
        if isinstance(value, date):
            return day_number(value)
        if isinstance(value, Decimal) and value.as_tuple().exponent != 0:
            return None
        if is_number(value) and (abs(value) == math.inf or value != int(value)):
            return None
        moment = moment_in(text_of(value), self.forms)
        if moment is None or moment.offset is None:
            return None if moment is None else day_number(moment.day)
        return self._local(SECONDS_OF_DAY * day_number(moment.day) + moment.second - moment.offset)

    def _local(self, second: int) -> int | None:
        return None if self.offsets is None else local_day(second, self.offsets)

    def _cleaned(self, value: Any, clean: Cleaning) -> Any:
        return clean.trimmed(value) if isinstance(value, str) else value

    def _placed(self, value: Any) -> int | None:
        day = self.day_in(value)
        if day is None:
            return None
        found = int(np.searchsorted(self.starts, day, side="right")) - 1
        if self.outside == "clamp":
            return min(max(found, 0), self.n_values - 1)
        return found if 0 <= found < self.n_values else None

    # ---------------------------------------------------------------- what every attribute says

    @property
    def n_values(self) -> int:
        return len(self.numbers_held)

    def label(self, i: int) -> str:
        """The label of cell i."""
        return str(self.other) if i == self.n_values else period_label(self.by, self.numbers_held[i])

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The names of the periods, in order."""
        self._check_listable("periods")
        return tuple(map(self.label, range(self.n_values)))

    def span_label(self, first: int, last: int) -> str:
        if first == last:
            return self.label(first)
        if last == self.n_values:
            return f"{self.span_label(first, last - 1)} or {self.other}"
        return f"{self.label(first)} to {self.label(last)}"

    def prefix_label(self, i: int) -> str:
        if i == self.n_values:
            return f"{self.prefix_label(i - 1)} or {self.other}"
        return f"up to {self.label(i)}"

    def span(self, low: Value, high: Value) -> tuple[int, int] | None:
        """The indices of the periods from the first day of low to the last day of high.

        Either may be a date or a longer period: ("2026", "2026") is all of a year.
        """
        first, last = days_named(plain(low)), days_named(plain(high))
        if first is None or last is None or first[0] not in self.starts or last[1] not in self.starts:
            return None
        start, stop = self.starts.index(first[0]), self.starts.index(last[1])
        return (start, stop - 1) if start < stop else None

    def _names(self, text: str) -> bool:
        return self._position(text) is not None

    def _position(self, value: Any) -> int | None:
        span = None if days_named(value) is None else self.span(value, value)
        return span[0] if span is not None and span[0] == span[1] else None

    def _compared(self, name: str, sign: str, value: Any) -> Mask:
        days = days_named(value)
        if days is None:
            wanted = f"be compared with a date or a {self.by}, as in '{self.label(0)}'"
            raise QueryError.must(name, wanted, given=value, remedy=self._or_other())
        starts = np.array(self.starts)
        for day in {"<": days[:1], ">=": days[:1], "<=": days[1:], ">": days[1:]}.get(sign, days):
            if starts[0] < day < starts[-1] and day not in self.starts:
                wanted = f"be compared where no {self.by} is cut in two"
                raise QueryError.must(
                    name, wanted, given=value, remedy=f"compare with the first day of a {self.by}"
                )
        is_from, is_after = starts[:-1] >= days[0], starts[:-1] >= days[1]
        held = {"<": ~is_from, ">=": is_from, "<=": ~is_after, ">": is_after}
        is_in = is_from & ~is_after
        return held.get(sign, is_in if sign == "==" else ~is_in)

    def _values_to_plain(self) -> list[str]:
        return [self.label(0), self.label(self.n_values - 1)]

    def to_dict(self) -> dict[str, Any]:
        own: dict[str, Any] = {"by": self.by} | ({} if self.zone is None else {"zone": self.zone})
        plain = super().to_dict()
        return {self.kind: plain.pop(self.kind)} | own | plain

    def _shown(self) -> str:
        return ", ".join(map(repr, self._values_to_plain()))
