"""From a column of the embedded engine to the number of a day, in SQL."""

from __future__ import annotations

from leastnoise.data.placement import DateReading
from leastnoise.query import FIRST_OF_1900S, FIRST_SECOND, LAST_SECOND, MONTHS, SECONDS_OF_DAY, DateForm

# The years that a date can have here, as in Python.
_YEARS = "BETWEEN 1 AND 9999"
# Days from before the year 1 to 1970: what is counted from there on is positive, where division rounds down.
# A multiple of 7 and 3 more, for day 4 is a Monday.
_LONG_AGO = 7 * 110_000 + 3


def day_sql(reading: DateReading, column: str, kind: str) -> str:
    """SQL for the days from 1970-01-01 to the day that a column's value lies on; null where it is no date."""
    if kind == "TIMESTAMP WITH TIME ZONE":
        second = _floored(f"epoch_us({column})", 10**6, _LONG_AGO * SECONDS_OF_DAY)
        return f"CASE WHEN isfinite({column}) THEN {_local_day(second, reading)} END"
    if kind == "TIMESTAMP_NS":
        # A cast to days would round up what is within a microsecond of midnight.
        number, length = f"epoch_ns({column})", SECONDS_OF_DAY * 10**9
        return f"({number} // {length} - CASE WHEN {number} % {length} < 0 THEN 1 ELSE 0 END)"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        is_date = f"isfinite({column}) AND year({column}) {_YEARS}"
        return f"CASE WHEN {is_date} THEN CAST({column} AS DATE) - DATE '1970-01-01' END"
    text = _plain_text(column, kind)
    if text is None:
        return "NULL::BIGINT"
    forms = " ".join(
        f"WHEN regexp_full_match({text}, '{_quoted(form.pattern)}') THEN {_day_in_text(form, text, reading)}"
        for form in reading.forms
    )
    return f"CASE {forms} END"


def _plain_text(column: str, kind: str) -> str | None:
    """SQL for a value as the text that may be a date, whole numbers by their digits; None if none is."""
    if kind in ("FLOAT", "DOUBLE"):
        is_whole = f"{column} = trunc({column}) AND abs({column}) < 2::DOUBLE ** 53"
        return f"CASE WHEN {is_whole} THEN CAST(TRY_CAST({column} AS BIGINT) AS VARCHAR) END"
    if kind == "BOOLEAN" or (kind.startswith("DECIMAL") and not kind.endswith(",0)")):
        return None
    return f"CAST({column} AS VARCHAR)"


def _quoted(pattern: str) -> str:
    return pattern.replace("'", "''")


def _floored(number: str, divisor: int, shift: int) -> str:
    """SQL for a whole number divided by a positive one, rounded down.

    The engine rounds towards zero; the quotient is above minus the shift.
    """
    return f"(({number} + {shift * divisor}) // {divisor} - {shift})"


def _local_day(second: str, reading: DateReading) -> str:
    """SQL for the day that the zone's clocks show at a second of UTC."""
    if reading.offsets is None:
        return "NULL::BIGINT"
    (_, first), *later = reading.offsets
    starts, offsets = ([step[i] for step in later] for i in (0, 1))
    n_passed = f"len(list_filter({starts}::BIGINT[], lambda start: start <= {second}))"
    local = f"({second} + ({[first, *offsets]}::BIGINT[])[{n_passed} + 1])"
    is_date = f"{second} BETWEEN {FIRST_SECOND} AND {LAST_SECOND}"
    return f"CASE WHEN {is_date} THEN {_floored(local, SECONDS_OF_DAY, _LONG_AGO)} END"


def _day_in_text(form: DateForm, text: str, reading: DateReading) -> str:
    """SQL for the day of a text that is known to match a form; null where there is no such day."""

    def group(letter: str) -> str:
        return f"regexp_extract({text}, '^(?:{_quoted(form.pattern)})$', {form.group(letter)})"

    def number(letter: str) -> str:
        if form.group(letter) is None:
            return "0"
        return f"coalesce(TRY_CAST({group(letter)} AS BIGINT), 0)"

    if "G" in form.groups:
        # January 4 lies in the first week of its ISO year.
        fourth = [
            f"(make_date(CAST({number('G')} AS INTEGER) + {k}, 1, 4) - DATE '1970-01-01')" for k in (0, 1)
        ]
        monday, following = (f"(({day} + {_LONG_AGO}) // 7 * 7 - {_LONG_AGO})" for day in fourth)
        day = f"{monday} + 7 * ({number('V')} - 1)"
        is_week = f"{number('G')} {_YEARS} AND {number('V')} >= 1 AND {day} < {following}"
        return f"CASE WHEN {is_week} THEN {day} END"
    year = number("Y")
    if "y" in form.groups:
        year = f"({number('y')} + CASE WHEN {number('y')} >= {FIRST_OF_1900S} THEN 1900 ELSE 2000 END)"
    month = number("m") if "m" in form.groups else "1"
    if "q" in form.groups:
        month = f"(3 * {number('q')} - 2)"
    if "b" in form.groups:
        names = ", ".join(f"'{name}'" for name in MONTHS)
        month = f"list_position([{names}], lower(left({group('b')}, 3)))"
    day = number("d") if "d" in form.groups else "1"
    written = f"TRY_CAST(concat(format('{{:04d}}', {year}), '-', {month}, '-', {day}) AS DATE)"
    days = f"({written} - DATE '1970-01-01')"
    found = f"CASE WHEN {year} {_YEARS} THEN {days} END"
    if "z" not in form.groups:
        return found
    offset = group("z")
    hours = f"TRY_CAST(substr({offset}, 2, 2) AS BIGINT)"
    minutes = f"CASE WHEN length({offset}) > 3 THEN TRY_CAST(right({offset}, 2) AS BIGINT) ELSE 0 END"
    sign = f"CASE WHEN starts_with({offset}, '-') THEN -1 ELSE 1 END"
    ahead = f"CASE WHEN {offset} = 'Z' THEN 0 ELSE {sign} * (3600 * {hours} + 60 * {minutes}) END"
    second = f"3600 * {number('H')} + 60 * {number('M')} + {number('S')}"
    moment = f"({SECONDS_OF_DAY} * {found} + {second} - {ahead})"
    return f"CASE WHEN {offset} = '' THEN {found} ELSE {_local_day(moment, reading)} END"
