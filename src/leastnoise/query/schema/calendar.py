"""Days, weeks, months, quarters and years: their numbers and names, and which text is a date.

A day has a number, counted from 1970-01-01, and so has every period. Text is a date if it matches one of a
few forms as a whole; a form is a pattern whose groups say year, month and so on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from typing import Literal

from leastnoise.core.errors import SchemaError

Unit = Literal["day", "week", "month", "quarter", "year"]
UNITS: tuple[Unit, ...] = ("day", "week", "month", "quarter", "year")

# The ordinal of 1970-01-01 in Python, where 0001-01-01 is 1.
_EPOCH = date(1970, 1, 1).toordinal()
# Monday, 1969-12-29, begins the week that day 0 lies in.
_DAYS_BEFORE_EPOCH = 3
SECONDS_OF_DAY = 86_400
# The first and the last second of the years 1 to 9999 in UTC, since 1970. Moments beyond have no day.
FIRST_SECOND = SECONDS_OF_DAY * (1 - _EPOCH)
LAST_SECOND = SECONDS_OF_DAY * (date.max.toordinal() + 1 - _EPOCH) - 1
# Two digits of a year from this on mean 19xx, others 20xx, as POSIX has it.
FIRST_OF_1900S = 69

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)


def day_number(day: date) -> int:
    """The days from 1970-01-01 to a day."""
    return day.toordinal() - _EPOCH


def day_of(number: int) -> date:
    """The day of a number; OverflowError or ValueError beyond the years 1 to 9999."""
    return date.fromordinal(number + _EPOCH)


def period_number(by: Unit, day: date) -> int:
    """The number of the period that a day lies in; consecutive periods have consecutive numbers."""
    match by:
        case "day":
            return day_number(day)
        case "week":
            return (day_number(day) + _DAYS_BEFORE_EPOCH) // 7
        case "month":
            return 12 * day.year + day.month - 1
        case "quarter":
            return 4 * day.year + (day.month - 1) // 3
        case _:
            return day.year


def first_day(by: Unit, number: int) -> int:
    """The number of the first day of a period; that of 10000-01-01 where the period would begin there."""
    if by == "day":
        return number
    if by == "week":
        return 7 * number - _DAYS_BEFORE_EPOCH
    months = {"month": 1, "quarter": 3, "year": 12}[by] * number
    if months // 12 == 10_000:
        return day_number(date.max) + 1
    return day_number(date(months // 12, months % 12 + 1, 1))


def period_label(by: Unit, number: int) -> str:
    """What people call a period: 2026-03-15, 2026-W11, 2026-03, 2026-Q1 or 2026."""
    match by:
        case "day":
            return day_of(number).isoformat()
        case "week":
            # By its Thursday, which every ISO week shares its year with.
            year, week, _ = day_of(first_day("week", number) + 3).isocalendar()
            return f"{year:04}-W{week:02}"
        case "month":
            return f"{number // 12:04}-{number % 12 + 1:02}"
        case "quarter":
            return f"{number // 4:04}-Q{number % 4 + 1}"
        case _:
            return f"{number:04}"


# ------------------------------------------------------------------ forms of text


@dataclass(frozen=True)
class DateForm:
    """Text that is a date: a pattern, and what each of its groups says.

    Attributes:
        pattern: a regular expression for the whole text, a group that takes no part says nothing.
        groups: of each group one letter as in strftime: Y or y the year, m the month, b its English name,
            d the day, q the quarter, G and V the ISO year and week, H, M and S the time, z the offset from
            UTC.
    """

    pattern: str
    groups: tuple[str, ...]

    def group(self, letter: str) -> int | None:
        """The number of a group, from 1 on, or None."""
        return self.groups.index(letter) + 1 if letter in self.groups else None

    def is_as_fine_as(self, by: Unit) -> bool:
        """Whether a text of this form tells in which period of a unit it lies."""
        told = set(self.groups)
        if "V" in told:
            return by == "week"
        if "d" in told:
            return True
        if told & {"m", "b"}:
            return by in ("month", "quarter", "year")
        return by == "year" or (by == "quarter" and "q" in told)


_TIME = r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:[.,][0-9]+)?)?"
_OFFSET = r"(Z|[+-][0-9][0-9](?::?[0-5][0-9])?)"
ISO_FORMS = (
    DateForm(
        rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})(?:[T ]{_TIME}(?: ?{_OFFSET})?)?",
        ("Y", "m", "d", "H", "M", "S", "z"),
    ),
    DateForm(r"([0-9]{4})-([0-9]{2})", ("Y", "m")),
    DateForm(r"([0-9]{4})-?Q([1-4])", ("Y", "q")),
    DateForm(r"([0-9]{4})-?W([0-9]{2})", ("G", "V")),
    DateForm(r"([0-9]{4})", ("Y",)),
)


def of_either_case(word: str) -> str:
    """A pattern for a word of small letters, in either case."""
    return "".join(f"[{letter.upper()}{letter}]" for letter in word)


# What a directive of a declared format matches. Numbers without their leading zero are taken too.
_DIRECTIVES = {
    "Y": r"([0-9]{4})",
    "y": r"([0-9]{2})",
    "m": r"([0-9]{1,2})",
    "d": r"([0-9]{1,2})",
    "H": r"([01]?[0-9]|2[0-3])",
    "M": r"([0-5][0-9])",
    "S": r"([0-5][0-9])",
    "z": _OFFSET,
    "b": "(" + "|".join(map(of_either_case, MONTHS)) + ")",
    "B": "(" + "|".join(map(of_either_case, _LONG_MONTHS)) + ")",
}
# The same where no separator tells parts from each other: all digits are there.
_NARROW = _DIRECTIVES | {"m": r"([0-9]{2})", "d": r"([0-9]{2})", "H": r"([01][0-9]|2[0-3])"}
# What may stand between directives: signs that stand for themselves in a class.
_LITERAL = r"[A-Za-z0-9 .,/:_'()-]*"


@cache
def form_of(given: str) -> DateForm:
    """The form that a format such as "%d.%m.%Y" declares.

    Directives are %Y %y %m %d %b %B %H %M %S and %z; everything else stands for itself. Where a directive
    follows another one directly, as in "%Y%m%d", numbers have all their digits.

    Raises:
        SchemaError: if it has no year, an unknown or repeated directive, or reads ISO dates otherwise.
    """
    pieces = re.findall(r"%.|[^%]+|%$", given, re.DOTALL)
    letters = [piece[1:] for piece in pieces if piece.startswith("%")]
    named = ["b" if letter == "B" else letter for letter in letters]
    wanted = "be made of %Y %y %m %d %b %B %H %M %S %z, each once, with a year and what comes before a day"
    is_known = all(letter in _DIRECTIVES for letter in letters) and len(set(named)) == len(named)
    has_month = bool({"m", "b"} & set(named))
    is_whole = (
        ("Y" in named) != ("y" in named) and ("d" not in named or has_month) and not {"m", "b"} <= set(named)
    )
    has_time = not {"M", "z"} & set(named) or "H" in named
    if not is_known or not is_whole or not has_time or ("S" in named and "M" not in named):
        raise SchemaError.must("dates", wanted, given=given)
    if {"H", "z"} & set(named) and "d" not in named:
        raise SchemaError.must("dates", "name the day where they name a time", given=given)
    if given.startswith("%Y-%d"):
        raise SchemaError.must(
            "dates", "not read ISO dates, such as 2026-03-04, in another order", given=given
        )
    if not all(piece.startswith("%") or re.fullmatch(_LITERAL, piece) for piece in pieces):
        raise SchemaError.must(
            "dates", "hold only letters, digits, blanks and . , / : _ ' ( ) - besides", given=given
        )
    return DateForm("".join(_pattern(piece, given) for piece in pieces), tuple(named))


def _pattern(piece: str, given: str) -> str:
    """The pattern of one directive, or of what stands between two."""
    if not piece.startswith("%"):
        return "".join(f"[{letter}]" for letter in piece)
    touches = re.search(f"%[a-zA-Z]{piece}|{piece}%", given) is not None
    return (_NARROW if touches else _DIRECTIVES)[piece[1:]]


def forms_for(by: Unit, formats: Sequence[str]) -> tuple[DateForm, ...]:
    """The forms of text that tell a period: declared ones first, then those of ISO 8601."""
    declared = [form_of(one) for one in formats]
    return tuple(form for form in (*declared, *ISO_FORMS) if form.is_as_fine_as(by))


# The unit that a form without a time of day names, by the letters of its groups.
_UNIT_OF: dict[tuple[str, ...], Unit] = {
    ("Y", "m"): "month",
    ("Y", "q"): "quarter",
    ("G", "V"): "week",
    ("Y",): "year",
}


def days_named(value: object) -> tuple[int, int] | None:
    """The first day of what a date or a text names, and the day after its last.

    Texts are those of ISO 8601 without a time: 2026-03-15, 2026-W11, 2026-03, 2026-Q1 and 2026.

    Example:
        >>> days_named("1970-01"), days_named("1970-01-02"), days_named("soon")
        ((0, 31), (1, 2), None)
    """
    if isinstance(value, date):
        if isinstance(value, datetime) and (value.tzinfo is not None or value.time() != time()):
            return None
        return day_number(value), day_number(value) + 1
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    text = str(value)
    moment = moment_in(text, ISO_FORMS)
    form = next((form for form in ISO_FORMS if re.fullmatch(form.pattern, text)), None)
    if moment is None or form is None or (form is ISO_FORMS[0] and len(text) > len("2026-03-15")):
        return None
    unit: Unit = _UNIT_OF.get(form.groups, "day")
    number = period_number(unit, moment.day)
    return first_day(unit, number), first_day(unit, number + 1)


@dataclass(frozen=True)
class Moment:
    """A day and the second in it, as a text tells them.

    Attributes:
        offset: how many seconds its clock is ahead of UTC; None where the text does not say.
    """

    day: date
    second: int = 0
    offset: int | None = None


def moment_in(text: str, forms: Sequence[DateForm]) -> Moment | None:
    """The moment that a text tells by the first form that matches it; None if there is none.

    A month, quarter, week or year is its first day.
    """
    for form in forms:
        match = re.fullmatch(form.pattern, text, re.ASCII)
        if match is not None:
            told = {letter: value for letter, value in zip(form.groups, match.groups(), strict=True) if value}
            return _moment(told)
    return None


def _moment(told: dict[str, str]) -> Moment | None:
    month = int(told.get("m", 1))
    if "q" in told:
        month = 3 * int(told["q"]) - 2
    if "b" in told:
        month = 1 + MONTHS.index(told["b"][:3].lower())
    try:
        if "G" in told:
            return Moment(date.fromisocalendar(int(told["G"]), int(told["V"]), 1))
        year = int(told["Y"]) if "Y" in told else _of_two_digits(int(told["y"]))
        day = date(year, month, int(told.get("d", 1)))
    except ValueError:
        return None
    second = 3600 * int(told.get("H", 0)) + 60 * int(told.get("M", 0)) + int(told.get("S", 0))
    return Moment(day, second, offset_of(told["z"]) if "z" in told else None)


def _of_two_digits(year: int) -> int:
    return year + (1900 if year >= FIRST_OF_1900S else 2000)


def offset_of(text: str) -> int:
    """The seconds that a clock is ahead of UTC, from Z, +02, +0200 or -05:30."""
    if text == "Z":
        return 0
    hours, minutes = int(text[1:3]), int(text[3:].removeprefix(":") or 0)
    return (3600 * hours + 60 * minutes) * (-1 if text[0] == "-" else 1)


# ------------------------------------------------------------------ zones


@cache
def zone_steps(zone: str, first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The offsets of a zone from UTC, each with the second since 1970 from which on it holds.

    The first holds from ever, the last for ever: only what lies between two days, and a day around them,
    is asked for.

    Args:
        first: the number of the first day.
        last: the number of the last day.
    """
    info = zone_named(zone)
    low, high = SECONDS_OF_DAY * (first - 2), SECONDS_OF_DAY * (last + 3)

    def offset(second: int) -> int:
        # Clipped to what a datetime holds, with a day to spare for the offset itself.
        earliest, latest = (SECONDS_OF_DAY * day_number(day) for day in (date(1, 1, 3), date(9999, 12, 29)))
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(max(second, earliest), latest))
        difference = moment.astimezone(info).utcoffset()
        assert difference is not None
        return round(difference.total_seconds())

    steps = [(low, offset(low))]
    # No zone has changed twice within a day: each change is then found by halving.
    for start in range(low, high, SECONDS_OF_DAY):
        stop = start + SECONDS_OF_DAY
        if offset(stop) == steps[-1][1]:
            continue
        before, after = start, stop
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if offset(middle) == steps[-1][1] else (before, middle)
        steps.append((after, offset(stop)))
    return tuple(steps)


def zone_named(zone: str) -> tzinfo:
    """The zone of a name such as "Europe/Berlin".

    Raises:
        SchemaError: if there is no such zone.
    """
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(zone)
    except Exception:
        raise SchemaError.must(
            "zone", 'be the name of a time zone, as in "Europe/Berlin"', given=zone
        ) from None


def local_day(second: int, steps: Sequence[tuple[int, int]]) -> int | None:
    """The number of the day that the clocks of a zone show at a second of UTC since 1970."""
    if not FIRST_SECOND <= second <= LAST_SECOND:
        return None
    offset = steps[0][1]
    for start, own in steps:
        if second >= start:
            offset = own
    return (second + offset) // SECONDS_OF_DAY
