"""From a column of any other engine to the number of a day, in Ibis expressions.

The engine says which year, month and day a date has, or which digits stand where in a text; the rest is
arithmetic on whole numbers, which is the same everywhere. No engine is asked about zones: what a zone's
clocks are ahead of UTC is declared, step by step.
"""

from __future__ import annotations

from collections.abc import Callable

from leastnoise.data.dialects import Dialect, Expression, floor
from leastnoise.data.placement import DateReading
from leastnoise.query import (
    FIRST_OF_1900S,
    FIRST_SECOND,
    LAST_SECOND,
    MONTHS,
    SECONDS_OF_DAY,
    DateForm,
    of_either_case,
)

# Letters of texts that may be dates. A text with any other is none: "$" in a pattern may allow a line break.
_LETTERS = r"[^A-Za-z0-9 .,/:_'()+-]"
# Days from 0000-03-01 to 1970-01-01.
_BEFORE_EPOCH = 719_468
# Days from before the year 1 to 1970: what is counted from there on is positive, where division rounds down.
# A multiple of 7 and 3 more, for day 4 is a Monday.
_LONG_AGO = 7 * 110_000 + 3


# Expressions, each with its type.
Values = list[tuple[Expression, str]]
# From some columns to others, computed from them.
Step = Callable[..., Values]


def day_values(
    reading: DateReading, column: Expression, family: str, text: Callable[[], Expression], dialect: Dialect
) -> tuple[Values, tuple[Step, ...]]:
    """What is computed from a column first, and the steps from that to the number of a day, null for none.

    Each step uses what the one before it gave several times, and is to be computed apart.

    Args:
        family: the family of the column's type.
        text: the column's values as text, for a family of text.
    """
    import ibis

    nothing = ibis.null("int64")
    if family in ("date", "zoned"):
        is_finite = ibis.literal(True) if dialect.is_finite is None else dialect.is_finite(column)
        finite = is_finite.ifelse(column, ibis.null(column.type()))
        if family == "date":
            parts = [finite.year(), finite.month(), finite.day()]
            return _whole(*(part.cast("int64") for part in parts)), (lambda *parts: _whole(_days(*parts)),)
        second = finite.truncate("s").epoch_seconds().cast("int64")
        return _whole(second), (
            lambda second: _whole(nothing, _shifted(second, reading)),
            lambda number, shifted: _whole(_day(number, shifted)),
        )
    if family not in ("text", "whole", "float", "decimal"):
        return _whole(nothing), ()
    written = text() if family == "text" else digits_of(column, family)
    is_plain = ~written.re_search(_LETTERS)
    matched = [(form, is_plain & written.re_search(f"^(?:{form.pattern})$")) for form in reading.forms]
    parts = [_coalesced(matched, letter, written) for letter in ("Y", "m", "d", "V", "t", "z")]
    return _whole(*parts), (
        lambda *parts: _whole(*_days_of_parts(reading, *parts)),
        lambda *days: _whole(*_moment_of_parts(*days)),
        lambda number, moment: _whole(number, _shifted(moment, reading)),
        lambda number, shifted: _whole(_day(number, shifted)),
    )


def _whole(*numbers: Expression) -> Values:
    return [(number, "int64") for number in numbers]


def _coalesced(matched: list[tuple[DateForm, Expression]], letter: str, text: Expression) -> Expression:
    """A number of a text by the form that it matches; null if there is none."""
    import ibis

    cases = [(is_match, _part(form, letter, text)) for form, is_match in matched]
    return ibis.cases(*cases, else_=ibis.null("int64"))


def digits_of(column: Expression, family: str) -> Expression:
    """A number as text, whole ones by their digits; null for others."""
    import ibis

    if family == "whole":
        return column.cast("string")
    nothing = ibis.null("string")
    if family == "decimal":
        dtype = column.type()
        return column.cast("string") if dtype.is_decimal() and dtype.scale == 0 else nothing
    number = column.cast("float64")
    is_exact = (number.abs() < ibis.literal(2.0**53)) & (number == floor(number, "float64"))
    return is_exact.ifelse(number, ibis.null("float64")).cast("int64").cast("string")


def _part(form: DateForm, letter: str, text: Expression) -> Expression:
    """One number of a text that matches a form.

    Y, m and d are the date, V the week (-1 for none), t the second of the day, z the seconds ahead of UTC.
    """
    import ibis

    def group(letter: str) -> Expression:
        return text.re_extract(f"^(?:{form.pattern})$", form.group(letter))

    def number(letter: str) -> Expression:
        if form.group(letter) is None:
            return ibis.literal(0, "int64")
        return group(letter).nullif("").cast("int64").fill_null(ibis.literal(0, "int64"))

    def whole(value: int) -> Expression:
        return ibis.literal(value, "int64")

    if letter == "Y":
        if "y" in form.groups:
            century = (number("y") >= whole(FIRST_OF_1900S)).ifelse(whole(1900), whole(2000))
            return number("y") + century
        return number("G") if "G" in form.groups else number("Y")
    if letter == "m":
        if "q" in form.groups:
            return whole(3) * number("q") - whole(2)
        if "b" in form.groups:
            cases = [
                (group("b").re_search(f"^{of_either_case(name)}"), whole(k + 1))
                for k, name in enumerate(MONTHS)
            ]
            return ibis.cases(*cases, else_=ibis.null("int64"))
        return number("m") if "m" in form.groups else whole(1)
    if letter == "d":
        # January 4 lies in the first week of its ISO year.
        return number("d") if "d" in form.groups else whole(4 if "G" in form.groups else 1)
    if letter == "V":
        return number("V") if "V" in form.groups else whole(-1)
    if letter == "t":
        return whole(3600) * number("H") + whole(60) * number("M") + number("S")
    if "z" not in form.groups:
        return ibis.null("int64")
    offset = group("z").nullif("")
    digits = offset.replace(":", "")
    hours = digits.substr(1, 2).nullif("").cast("int64")
    minutes = digits.substr(3, 2).nullif("").cast("int64").fill_null(whole(0))
    ahead = whole(3600) * hours + whole(60) * minutes
    return ibis.cases((offset == "Z", whole(0)), (offset.startswith("-"), -ahead), else_=ahead)


def _days(year: Expression, month: Expression, day: Expression) -> Expression:
    """The days from 1970-01-01 to a day of the years 1 to 9999; null where there is no such day."""
    import ibis

    def whole(value: int) -> Expression:
        return ibis.literal(value, "int64")

    # Years that begin in March have their leap day last.
    is_early = (month <= 2).ifelse(whole(1), whole(0))
    y, m = year - is_early, (month + whole(9)) % whole(12)
    leap_days = _quotient(y, 4) - _quotient(y, 100) + _quotient(y, 400)
    number = whole(365) * y + leap_days + _quotient(whole(153) * m + whole(2), 5) + day - whole(1)
    is_leap = ((year % whole(4) == 0) & (year % whole(100) != 0)) | (year % whole(400) == 0)
    length = ibis.cases(
        (month == 2, is_leap.ifelse(whole(29), whole(28))),
        (month.isin([4, 6, 9, 11]), whole(30)),
        else_=whole(31),
    )
    is_day = year.between(1, 9999) & month.between(1, 12) & (day >= 1) & (day <= length)
    return is_day.ifelse(number - whole(_BEFORE_EPOCH), ibis.null("int64"))


def _quotient(number: Expression, divisor: int) -> Expression:
    """A whole number that is not negative, divided and rounded down."""
    import ibis

    exact = number - number % ibis.literal(divisor, "int64")
    return (exact.cast("float64") / ibis.literal(float(divisor))).cast("int64")


def _shifted(second: Expression, reading: DateReading) -> Expression:
    """The seconds that the zone's clocks show at a second of UTC, since long ago; null without a zone."""
    import ibis

    if reading.offsets is None:
        return ibis.null("int64")

    def whole(value: int) -> Expression:
        return ibis.literal(value, "int64")

    steps = reading.offsets

    def offset(first: int, last: int) -> Expression:
        if first == last:
            return whole(steps[first][1])
        middle = (first + last + 1) // 2
        return (second < whole(steps[middle][0])).ifelse(offset(first, middle - 1), offset(middle, last))

    shifted = second + offset(0, len(steps) - 1) + whole(_LONG_AGO * SECONDS_OF_DAY)
    return second.between(FIRST_SECOND, LAST_SECOND).ifelse(shifted, ibis.null("int64"))


def _day(number: Expression, shifted: Expression) -> Expression:
    """The number of a day that is known, or that the seconds of a zone's clocks tell."""
    import ibis

    return ibis.coalesce(number, _quotient(shifted, SECONDS_OF_DAY) - ibis.literal(_LONG_AGO, "int64"))


def _days_of_parts(
    reading: DateReading,
    year: Expression,
    month: Expression,
    day: Expression,
    week: Expression,
    second: Expression,
    offset: Expression,
) -> list[Expression]:
    """The number of a day, that of the same day a year later, and the parts that it does not tell."""
    import ibis

    later = ibis.null("int64")
    if any("V" in form.groups for form in reading.forms):
        later = _days(year + ibis.literal(1, "int64"), month, day)
    return [_days(year, month, day), later, week, second, offset]


def _moment_of_parts(
    number: Expression, later: Expression, week: Expression, second: Expression, offset: Expression
) -> list[Expression]:
    """The number of a day where no offset is told, else the second of UTC."""
    import ibis

    first, following = _monday(number), _monday(later)
    own = first + ibis.literal(7, "int64") * (week - ibis.literal(1, "int64"))
    # After the last week of 9999, which has 52, there is none.
    is_week = (week >= 1) & ((own < following) | (later.isnull() & (week <= 52)))
    number = (week < 0).ifelse(number, is_week.ifelse(own, ibis.null("int64")))
    moment = ibis.literal(SECONDS_OF_DAY, "int64") * number + second - offset
    return [offset.isnull().ifelse(number, ibis.null("int64")), moment]


def _monday(day: Expression) -> Expression:
    import ibis

    shift = ibis.literal(_LONG_AGO, "int64")
    return ibis.literal(7, "int64") * _quotient(day + shift, 7) - shift
