"""Which day a value means, by the standard library alone: what the tests of periods are held against."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from leastnoise import Periods

UNITS = ("day", "week", "month", "quarter", "year")
ZONES = (None, "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "America/Sao_Paulo", "UTC")
POLICIES: tuple[dict[str, str], ...] = (
    {},
    {"outside": "clamp"},
    {"outside": "other", "null": "other", "other": "none"},
    {"outside": "clamp", "null": "other", "other": "?"},
)
_FULL = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?(?: ?(Z|[+-]\d\d(?::?[0-5]\d)?))?)?",
    re.ASCII,
)


def label(by: str, day: date) -> str:
    if by == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04}-W{week:02}"
    quarter = f"{day.year:04}-Q{(day.month + 2) // 3}"
    written = day.isoformat()
    return {"day": written, "month": written[:7], "quarter": quarter, "year": written[:4]}[by]


def labels(by: str, first: date, last: date) -> list[str]:
    n_days = (last - first).days + 1
    return list(dict.fromkeys(label(by, first + timedelta(days=k)) for k in range(n_days)))


def day_of_text(text: str, by: str, zone: str | None) -> date | None:
    try:
        found = _FULL.fullmatch(text)
        if found is None:
            return _day_of_short(text, by)
        day = date.fromisoformat(found[1])
        moment = datetime(day.year, day.month, day.day, *(int(part or 0) for part in found.groups()[1:4]))
        if found[5] is None:
            return moment.date()
        if zone is None:
            return None
        return (moment - _offset(found[5])).replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).date()
    except (ValueError, OverflowError):
        return None


def _offset(text: str) -> timedelta:
    if text == "Z":
        return timedelta(0)
    size = timedelta(hours=int(text[1:3]), minutes=int(text[3:].strip(":") or 0))
    return -size if text[0] == "-" else size


def _day_of_short(text: str, by: str) -> date | None:
    year = int(text[:4]) if re.match(r"\d{4}", text, re.ASCII) else 0
    if re.fullmatch(r"\d{4}-\d\d", text, re.ASCII) and by in ("month", "quarter", "year"):
        return date(year, int(text[5:]), 1)
    if re.fullmatch(r"\d{4}-?Q[1-4]", text, re.ASCII) and by in ("quarter", "year"):
        return date(year, 3 * int(text[-1]) - 2, 1)
    if re.fullmatch(r"\d{4}-?W\d\d", text, re.ASCII) and by == "week":
        return date.fromisocalendar(year, int(text[-2:]), 1)
    return date(year, 1, 1) if re.fullmatch(r"\d{4}", text, re.ASCII) and by == "year" else None


def day_of_moment(moment: datetime, by: str, zone: str | None) -> date | None:
    """The day of a moment in UTC, in a zone."""
    return None if zone is None else moment.astimezone(ZoneInfo(zone)).date()


def cells(
    values: Sequence[Any], case: Case, day_of: Callable[[Any, str, str | None], date | None]
) -> list[int | None]:
    """The cell of each value, None where it is left out."""
    named = {name: i for i, name in enumerate(labels(case.by, case.first, case.last))}
    n = len(named)
    found: list[int | None] = []
    for value in values:
        if value is None:
            found.append(n if case.policies.get("null") == "other" else None)
            continue
        day = day_of(value, case.by, case.zone)
        cell = None if day is None else named.get(label(case.by, day))
        if cell is None and day is not None and case.policies.get("outside") == "clamp":
            cell = 0 if day < case.first else n - 1
        found.append(n if cell is None and case.policies.get("outside") == "other" else cell)
    return found


class Case:
    """Random periods with random policies."""

    def __init__(self, rng: random.Random) -> None:
        self.by = rng.choice(UNITS)
        self.first = date(rng.choice([1969, 1999, 2024, 2025]), rng.randrange(1, 13), rng.randrange(1, 29))
        self.last = self.first + timedelta(days=rng.choice([0, 5, 100, 700, 9_000]))
        self.zone = rng.choice(ZONES)
        self.policies = rng.choice(POLICIES)
        self.periods = Periods(self.first, self.last, self.by, zone=self.zone, **self.policies)

    def counts(
        self, values: Sequence[Any], day_of: Callable[[Any, str, str | None], date | None]
    ) -> list[int]:
        found = cells(values, self, day_of)
        return [found.count(i) for i in range(self.periods.size)]

    def days(self, rng: random.Random, n: int) -> list[date | None]:
        """Days within and around the periods."""
        near = [self.first, self.last, self.first - timedelta(days=1), self.last + timedelta(days=1)]
        far = [None, date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)]
        within = [self.first + timedelta(days=rng.randrange(800)) for _ in range(4)]
        return rng.choices([*near, *far, *within], k=n)


def odd_text(rng: random.Random) -> str:
    """A text that is a date, or nearly."""
    year = rng.choice([2024, 2025, 2025, 2026, 1969, 1900, 2000, rng.randrange(10_000)])
    month, day = rng.randrange(14), rng.randrange(33)
    if rng.random() < 0.5:
        month, day = rng.randrange(1, 13), rng.choice([1, 15, 28, 29, 30, 31])
    written = f"{year:04}-{month:02}-{day:02}"
    clock = f"{rng.choice([0, 1, 5, 12, 22, 23, 24]):02}:{rng.choice([0, 30, 59, 60]):02}"
    ends = ["Z", " Z", "+02:00", "+0200", "-05", "-0530", "+14:00", " +01:00", "+1", "z", "+99:59", "-12:60"]
    odd = ["", "x", " 2025-01-01", "2025-01-01 ", "2025-01-01\n", "２０２５-01-01", "2025-1-1", "01/02/2025"]
    odd += ["infinity", "NaN", "20250101", "2025-01-01T", "\u0662\u0660\u0662\u0665", "2025.0", "1.5", "true"]
    odd += [written[:-1], written + "\u2028", "2025-01-01 10:00\u0085", "today", "epoch", "'", "\\"]
    return rng.choice(
        [
            *([written] * 3),
            *(
                [written + rng.choice("T  t") + clock + rng.choice(["", ":00", ":59.999999999", ":60", ":0"])]
                * 3
            ),
            *([written + rng.choice("T ") + clock + rng.choice(["", ":00", ":59.5"]) + rng.choice(ends)] * 3),
            f"{year:04}-{month:02}",
            f"{year:04}" + rng.choice(["-Q", "Q", "-W", "W"]) + str(rng.randrange(6)),
            f"{year:04}" + rng.choice(["-W", "W"]) + f"{rng.randrange(55):02}",
            f"{year:04}",
            rng.choice(odd),
        ]
    )
