"""What an engine's column holds, in Ibis expressions: whether there is a value, its text and its number."""

from __future__ import annotations

import math
import re

from leastnoise.data.dialects import Dialect, Expression, floor
from leastnoise.query import EXPONENT_TEXT, NUMBER_TEXT, WHOLE_TEXT

# Whole numbers below this are counted in 64 bits; all beyond it are alike, and are outside.
FAR = 10**18


def has_value(column: Expression, family: str, dialect: Dialect) -> Expression:
    """Whether there is a value: neither null nor NaN."""
    if family == "float":
        return column.notnull() & ~column.isnan()
    if family == "decimal" and dialect.decimals_hold_nan:
        return column.notnull() & (column.cast("string") != "NaN")
    return column.notnull()


def as_text(column: Expression, dialect: Dialect) -> Expression:
    """The column as text."""
    return dialect.text(column if column.type().is_string() else column.cast("string"))


def float_literal(value: float) -> Expression:
    """A float64, written as text, which every engine reads to the last bit."""
    import ibis

    return ibis.literal(repr(float(value))).cast("float64")


def matches(text: Expression, pattern: str) -> Expression:
    """Whether a text matches as a whole; its characters are checked first, for ``$`` allows a line break."""
    letters = re.sub(r"[^A-Za-z]", "", pattern)
    return ~text.re_search(f"[^0-9+.{letters}-]") & text.re_search(f"^({pattern})$")


def as_digits(whole: Expression) -> Expression:
    """A whole number, written out."""
    return whole.cast("string")


def as_float(column: Expression, family: str, dialect: Dialect) -> Expression:
    """The column as float64, as bins compare it; null where it holds no number."""
    import ibis

    if family in ("whole", "float"):
        return column.cast("float64")
    if family == "decimal":
        return dialect.float_of_decimal(column)
    if family != "text":
        return ibis.null("float64")
    text = as_text(column, dialect)
    infinite = text.startswith("-").ifelse(float_literal(-math.inf), float_literal(math.inf))
    finite = NUMBER_TEXT.partition("|[Ii]nf")[0] + ")"
    return ibis.cases(
        (matches(text, finite), dialect.number_in_text(text)),
        (matches(text, "[+-]?[Ii]nf(inity)?"), infinite),
        else_=ibis.null("float64"),
    )


def as_whole(column: Expression, family: str, dialect: Dialect) -> Expression:
    """The column as a whole number, at most FAR from zero; null where it holds none."""
    import ibis

    if family == "whole":
        return column.cast("int64")
    if family == "float":
        return _whole_float(column.cast("float64"))
    if family == "decimal":
        far = ibis.literal(FAR, "int64")
        is_whole = is_whole_decimal(column, dialect)
        return ibis.cases(
            (is_whole & (column.abs() < far), column.try_cast("int64")),
            (is_whole & (column < ibis.literal(0, "int64")), -far),
            (is_whole, far),
            else_=ibis.null("int64"),
        )
    if family != "text":
        return ibis.null("int64")
    text = as_text(column, dialect)
    digits = text.re_extract("[1-9][0-9]*", 0)
    size = ibis.cases(
        (~text.re_search("[1-9]"), ibis.literal(0, "int64")),
        (digits.length() <= len(str(FAR)) - 1, digits.try_cast("int64")),
        else_=ibis.literal(FAR, "int64"),
    )
    return ibis.cases(
        (matches(text, WHOLE_TEXT), text.startswith("-").ifelse(-size, size)),
        (matches(text, EXPONENT_TEXT), _whole_float(dialect.number_in_text(text))),
        else_=ibis.null("int64"),
    )


def _whole_float(number: Expression) -> Expression:
    import ibis

    far = ibis.literal(FAR, "int64")
    # Floats from 2^53 on are whole; the floor of larger ones is no float in Spark, but the largest integer.
    is_whole = (number.abs() < float_literal(math.inf)) & (
        (number.abs() >= float_literal(2.0**53)) | (number == floor(number, "float64"))
    )
    return ibis.cases(
        (is_whole & (number.abs() < float_literal(FAR)), number.try_cast("int64")),
        (is_whole & (number < float_literal(0.0)), -far),
        (is_whole, far),
        else_=ibis.null("int64"),
    )


def is_whole_decimal(column: Expression, dialect: Dialect) -> Expression:
    """Whether a decimal is a whole number."""
    dtype = column.type()
    is_whole = (column == floor(column, str(dtype))) if dtype.scale != 0 else column.notnull()
    # Where there are infinite decimals, they equal their floor.
    return is_whole & column.cast("string").re_search("^-?[0-9]") if dialect.decimals_hold_nan else is_whole
