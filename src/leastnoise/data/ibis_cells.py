"""From the values of an engine's column to cells, in Ibis expressions.

Wherever possible a declared value is turned into the column's own type, here, and
compared there: the engine then neither formats nor parses anything. Only text columns
are read in the engine, by patterns that mean the same everywhere. A value is looked up
by a tree of comparisons, which needs no second table and writes nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from leastnoise.core.errors import DataError
from leastnoise.data.columns import check_kind
from leastnoise.data.dialects import Dialect, Expression, floor
from leastnoise.data.ibis_cleaning import code, folded, is_one_of, meant, read_text, trimmed
from leastnoise.data.ibis_dates import Step, day_values, digits_of
from leastnoise.data.ibis_values import (
    FAR,
    as_digits,
    as_float,
    as_text,
    as_whole,
    float_literal,
    has_value,
    is_whole_decimal,
    matches,
)
from leastnoise.data.people import WHOLE_BELOW, WHOLE_FLOAT_TEXT, Person
from leastnoise.data.placement import Edges, Placement, Steps
from leastnoise.query import EXPONENT_TEXT, NUMBER_TEXT, WHOLE_TEXT, text_of

# Values of a range that reaches further, at most: they are looked up in a list.
_MAX_LISTED = 4096


@dataclass(frozen=True)
class ColumnReading:
    """How one attribute is read from one column.

    Attributes:
        is_present: whether the column holds a value: neither null nor NaN.
        values: what is computed from the column first, once, each with its type.
        index: from those values, under their new names, to the index of a declared value or null.
        steps: from those values to others, each computed once, the last of which the index is found from.
        synonym: the index of the declared value that the column's means by another word; None without any.
    """

    is_present: Expression
    values: tuple[tuple[Expression, str], ...]
    index: Callable[..., Expression]
    steps: tuple[Step, ...] = ()
    synonym: Expression | None = None


def family_of(dtype: Any) -> str:
    """The family of an Ibis type."""
    if dtype.is_string() or dtype.is_uuid():
        return "text"
    if dtype.is_boolean():
        return "truth"
    if dtype.is_integer():
        # No engine but DuckDB has these; as decimals they fit.
        return "decimal" if dtype.is_uint64() else "whole"
    if dtype.is_floating():
        return "float"
    if dtype.is_decimal():
        return "decimal"
    if dtype.is_date():
        return "date"
    if dtype.is_timestamp():
        return "date" if dtype.timezone is None else "zoned"
    if dtype.is_time():
        return "time"
    if dtype.is_nested() or dtype.is_json():
        return "nested"
    return "bytes" if dtype.is_binary() or dtype.is_interval() else "unknown"


def check_type(name: str, rule: Placement | None, dtype: Any) -> None:
    """Return if a column of this type is read alike on every engine, by a placement or as the person."""
    family = family_of(dtype)
    is_plain = family in ("text", "truth", "whole", "float", "decimal")
    kind = None if rule is None else rule.kind
    has_zone = rule is not None and rule.dates is not None and rule.dates.offsets is not None
    check_kind(name, kind, "plain" if is_plain else family, has_zone=has_zone)
    is_fine_decimal = dtype.is_decimal() and (dtype.scale or 0) > 6
    is_moment = kind != "day" and (family in ("time", "zoned") or dtype.is_timestamp())
    if is_moment or (rule is None and (family == "date" or is_fine_decimal)):
        raise DataError(
            f"column {name!r} holds values that engines format differently",
            field=name,
            remedy="make a text column of it in the table, as in "
            "table.mutate(day=table.day.strftime('%Y-%m-%d'))",
        )
    search = None if rule is None else rule.search
    if isinstance(search, Steps) and is_far(search) and (search.is_clamped or search.n_values > _MAX_LISTED):
        raise DataError(
            f"the range of {name!r} goes beyond {FAR:,}, which this engine does not count",
            field=name,
            remedy=f"declare Bins, or at most {_MAX_LISTED:,} values that are not clamped",
        )


def reading(rule: Placement, column: Expression, text: Expression, dialect: Dialect) -> ColumnReading:
    """How a placement reads a column of one of the types that `check_type` lets through.

    Args:
        column: the column; text that is cleaned comes trimmed, from `trimmed_column`.
        text: of text that is cleaned, what values are read from, from `read_column`.
    """
    clean, family = rule.clean, family_of(column.type())
    if clean is None:
        return _uncleaned(rule, column, dialect)
    if family != "text":
        is_word, index = (
            _own_words(words, column, family, dialect)
            for words in (clean.nulls, [word for word, _, _ in clean.synonyms])
        )
        read = _uncleaned(rule, column, dialect)
        if rule.kind == "text" and clean.steps.digits is not None:
            written = code(clean, digits_of(column, family))
            texts = [str(value) for value in rule.search.values]  # type: ignore[union-attr]
            in_bytes = ((dialect.bytes_of(written), "binary"),)
            read = replace(read, values=in_bytes, index=_among_bytes(texts, dialect))
        cells = [cell for _, cell, _ in clean.synonyms]
        return replace(read, is_present=read.is_present & is_word.isnull(), synonym=_chosen(index, cells))
    compared = folded(clean, column)
    is_present = column.notnull()
    if clean.nulls:
        is_present = is_present & ~is_one_of(compared, clean.nulls, dialect)
    if clean.steps.trim:
        is_present = is_present & (column.length() > 0)
    read = _uncleaned(rule, text, dialect)
    synonym = meant(clean, compared, dialect) if clean.synonyms else None
    return replace(read, is_present=is_present, synonym=synonym)


def as_stored(column: Expression) -> ColumnReading:
    """A column that is read by nobody here and stays as it is."""
    return ColumnReading(column.notnull(), ((column, str(column.type())),), lambda value: value)


def read_column(rule: Placement, column: Expression) -> Expression:
    """What values are read from, of a trimmed column."""
    if rule.clean is None or family_of(column.type()) != "text":
        return column
    return read_text(rule.clean, column, rule.kind)


def trimmed_column(rule: Placement, column: Expression, dialect: Dialect) -> Expression:
    """A column of text without the blanks at its ends, if it is to be trimmed; any other as it is."""
    if rule.clean is None or family_of(column.type()) != "text":
        return column
    return trimmed(rule.clean, as_text(column, dialect), dialect)


def _own_words(words: Sequence[str], column: Expression, family: str, dialect: Dialect) -> Expression:
    """The place among some words of the one that a value that is no text is written as; null for none."""
    import ibis

    if not words or family in ("date", "zoned", "time"):
        return ibis.null("int64")
    made, index = _among_texts(list(words), column, family, dialect)
    return index(*(value for value, _ in made))


def _chosen(index: Expression, cells: Sequence[int]) -> Expression | None:
    """The cell at a place of a list, null for none."""
    import ibis

    if not cells:
        return None
    cases = [(index == i, ibis.literal(cell, "int64")) for i, cell in enumerate(cells)]
    return ibis.cases(*cases, else_=ibis.null("int64"))


def _uncleaned(rule: Placement, column: Expression, dialect: Dialect) -> ColumnReading:
    family, dtype = family_of(column.type()), column.type()
    if family == "decimal" and dtype.is_integer():
        column = column.cast("decimal(20, 0)")
    search = rule.search
    if rule.dates is not None:
        made, steps = day_values(rule.dates, column, family, lambda: as_text(column, dialect), dialect)
        among_days = _in_bins if isinstance(search, Edges) else _in_steps
        placed_days = partial(among_days, search)  # type: ignore[arg-type]
        return ColumnReading(has_value(column, family, dialect), tuple(made), placed_days, steps)
    if isinstance(search, Edges):
        made = [(as_float(column, family, dialect), "float64")]
        index = lambda x: _in_bins(search, x)  # noqa: E731
    elif isinstance(search, Steps) and not is_far(search):
        made = [(as_whole(column, family, dialect), "int64")]
        index = lambda w: _in_steps(search, w)  # noqa: E731
    else:
        listed = (
            range(search.low, search.high + 1, search.step) if isinstance(search, Steps) else search.values
        )
        among = _among_texts if rule.kind == "text" else _among_numbers
        made, index = among(listed, column, family, dialect)
    return ColumnReading(has_value(column, family, dialect), tuple(made), index)


def placed(rule: Placement, index: Expression, is_present: Expression) -> Expression:
    """The cell by the policies of a placement, from the index of a declared value; null to drop."""
    import ibis

    found = index if rule.outside is None else index.fill_null(ibis.literal(rule.outside, "int64"))
    null = ibis.null("int64") if rule.null is None else ibis.literal(rule.null, "int64")
    return is_present.ifelse(found, null)


def person_text(column: Expression, person: Person, dialect: Dialect) -> Expression:
    """Whose record it is, as text; null if nobody's. See `leastnoise.data.people`."""
    import ibis

    family, dtype, nobody = family_of(column.type()), column.type(), ibis.null("string")
    if family == "text":
        text = as_text(column, dialect)
        text = matches(text, WHOLE_FLOAT_TEXT).ifelse(text.left(text.length() - 2), text)
    elif family == "truth":
        text = column.ifelse("true", "false")
    elif family == "float":
        number = column.cast("float64")
        is_exact = (number.abs() < float_literal(WHOLE_BELOW[str(dtype).lstrip("!")])) & (
            number == floor(number, "float64")
        )
        text = is_exact.ifelse(number.try_cast("int64").cast("string"), nobody)
    elif family == "decimal" and dtype.is_decimal() and dtype.scale != 0:
        below = floor(column, str(dtype))
        text = (column == below).ifelse(as_digits(below), column.cast("string"))
    else:
        text = column.cast("string")
    is_known = has_value(column, family, dialect)
    if person.unknown:
        # As bytes: a collation must not decide which ids are the same.
        bytes_of = dialect.bytes_of(text)
        is_listed = [bytes_of == dialect.from_hex(ibis.literal(own.encode().hex())) for own in person.unknown]
        is_known = is_known & ~ibis.or_(*is_listed)
    return is_known.ifelse(text, nobody)


# ------------------------------------------------------------------ which cell that is


def is_far(search: Steps) -> bool:
    """Whether a range reaches beyond what is counted in 64 bits."""
    low, high = search.low, search.high
    return max(abs(low), abs(high)) >= FAR or (search.step > 1 and high - low >= 2**53)


def _in_steps(search: Steps, number: Expression) -> Expression:
    import ibis

    last = search.high + search.step - 1 if search.is_floored else search.high
    low, high, step = (ibis.literal(n, "int64") for n in (search.low, last, search.step))
    if search.is_clamped:
        number = ibis.cases((number < low, low), (number > high, high), else_=number)
    else:
        number = ((number >= low) & (number <= high)).ifelse(number, ibis.null("int64"))
    if search.step == 1:
        return number - low
    # Both are below 2^53 and one divides the other, so the float is the whole number.
    if search.is_floored:
        number = number - (number - low) % step
    steps = (number - low).cast("float64") / float_literal(search.step)
    return ((number - low) % step == 0).ifelse(steps.cast("int64"), ibis.null("int64"))


def _in_bins(search: Edges, number: Expression) -> Expression:
    import ibis

    edges = search.edges

    def bin_of(first: int, last: int) -> Expression:
        if first == last:
            return ibis.literal(first, "int64")
        middle = (first + last + 1) // 2
        is_below = number < float_literal(edges[middle])
        return is_below.ifelse(bin_of(first, middle - 1), bin_of(middle, last))

    if search.is_clamped:
        is_inside = number.notnull()
    else:
        end = float_literal(edges[-1])
        is_inside = (number >= float_literal(edges[0])) & (
            number <= end if search.is_end_inside else number < end
        )
    return is_inside.ifelse(bin_of(0, search.n_bins - 1), ibis.null("int64"))


def _lookup(value: Expression, declared: Sequence[tuple[Any, int]], literal: Callable[[Any], Any]) -> Any:
    """The index of a value among declared ones, (value, index) in the order of the engine, or null."""
    import ibis

    def among(first: int, stop: int) -> Expression:
        if stop - first <= 4:
            cases = [(value == literal(own), ibis.literal(i, "int64")) for own, i in declared[first:stop]]
            return ibis.cases(*cases, else_=ibis.null("int64"))
        middle = (first + stop) // 2
        return (value < literal(declared[middle][0])).ifelse(among(first, middle), among(middle, stop))

    return among(0, len(declared)) if declared else ibis.null("int64")


def _among(
    pairs: Sequence[tuple[Any, int]], literal: Callable[[Any], Any]
) -> Callable[[Expression], Expression]:
    return lambda value: _lookup(value, sorted(pairs, key=lambda pair: pair[0]), literal)


def _among_bytes(texts: Sequence[str], dialect: Dialect) -> Callable[[Expression], Expression]:
    import ibis

    pairs = [(text.encode("utf-8", "surrogatepass"), i) for i, text in enumerate(texts)]
    return _among(pairs, lambda value: dialect.from_hex(ibis.literal(value.hex())))


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _int64(value: int) -> Expression:
    import ibis

    # As text, for the least of them is no literal to some engines, but minus one too large.
    return ibis.literal(str(value)).cast("int64")


def _among_texts(
    texts: Sequence[Any], column: Expression, family: str, dialect: Dialect
) -> tuple[list[tuple[Expression, str]], Callable[..., Expression]]:
    """A lookup among texts, by the value of the column's own type that is written so."""
    import ibis

    pairs: list[tuple[Any, int]] = []
    if family == "whole":
        for i, text in enumerate(texts):
            if re.fullmatch(r"-?[0-9]{1,19}", text) and str(int(text)) == text and _fits(int(text)):
                pairs.append((int(text), i))
        return [(column.cast("int64"), "int64")], _among(pairs, _int64)
    if family == "float":
        narrow = column.type().is_float32()
        for i, text in enumerate(texts):
            number = _float_written(text, narrow)
            if number is not None:
                pairs.append((number, i))
        return [(column.cast("float64"), "float64")], _among(pairs, float_literal)
    if family == "date":
        for i, text in enumerate(texts):
            day = _date_written(text)
            if day is not None:
                pairs.append((day, i))
        return [(column, "date")], _among(pairs, lambda day: ibis.literal(day.isoformat()).cast("date"))
    if family == "decimal" and column.type().scale:
        kind = column.type()
        for i, text in enumerate(texts):
            if _is_decimal_written(text, kind.precision, kind.scale):
                pairs.append((Decimal(text), i))
        return [(column, str(kind))], _among(pairs, lambda number: ibis.literal(f"{number:f}").cast(kind))
    if family == "truth":
        written = column.ifelse("true", "false")
    else:
        written = as_text(column, dialect) if family == "text" else column.cast("string")
    return [(dialect.bytes_of(written), "binary")], _among_bytes(texts, dialect)


def _among_numbers(
    numbers: Sequence[Any], column: Expression, family: str, dialect: Dialect
) -> tuple[list[tuple[Expression, str]], Callable[..., Expression]]:
    """A lookup among whole numbers of any size."""
    import ibis

    if family == "whole":
        pairs = [(n, i) for i, n in enumerate(numbers) if _fits(n)]
        return [(column.cast("int64"), "int64")], _among(pairs, _int64)
    in_floats = _among([(float(n), i) for i, n in enumerate(numbers) if _is_float(n)], float_literal)
    if family == "float":
        return [(column.cast("float64"), "float64")], in_floats
    in_digits = _among_bytes([str(n) for n in numbers], dialect)
    nothing = ibis.null("string")
    if family == "decimal":
        below = column if column.type().scale == 0 else floor(column, str(column.type()))
        digits = is_whole_decimal(column, dialect).ifelse(as_digits(below), nothing)
        return [(dialect.bytes_of(digits), "binary")], in_digits
    if family != "text":
        return [(ibis.null("int64"), "int64")], lambda value: value
    # Text is compared by its digits without leading zeros, or as a float if it has an exponent.
    text = as_text(column, dialect)
    digits = text.re_extract("[1-9][0-9]*", 0)
    written = ibis.cases(
        (~text.re_search("[1-9]"), "0"), (text.startswith("-"), ibis.literal("-") + digits), else_=digits
    )
    whole = matches(text, WHOLE_TEXT).ifelse(written, nothing)
    power = matches(text, EXPONENT_TEXT).ifelse(dialect.number_in_text(text), ibis.null("float64"))
    made = [(dialect.bytes_of(whole), "binary"), (power, "float64")]
    return made, lambda whole, power: ibis.coalesce(in_digits(whole), in_floats(power))


# ------------------------------------------------------------------ texts that stand for a value


def _is_float(number: int) -> bool:
    """Whether a whole number is a float64 exactly."""
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _float_written(text: str, is_narrow: bool) -> float | None:
    """The float that is written out like this, if any is."""
    if not re.fullmatch(NUMBER_TEXT, text):
        return None
    number = float(text)
    if is_narrow and abs(number) < math.inf:
        with np.errstate(over="ignore"):
            single = np.float32(text)
        number = float(single)
        is_own = text == (text_of(number) if number == round(number) else str(single))
        return number if is_own and abs(number) < math.inf else None
    return number if text_of(number) == text else None


def _date_written(text: str) -> date | None:
    """The date that is written out like this, year first, if any is."""
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _is_decimal_written(text: str, precision: int, scale: int) -> bool:
    """Whether a decimal of this type is written out like this, with all its decimal places."""
    match = re.fullmatch(r"-?(0|[1-9][0-9]*)[.]([0-9]+)", text)
    if match is None or len(match[2]) != scale:
        return False
    return len(match[1]) + scale <= precision + (match[1] == "0") and not re.fullmatch("-[0.]*", text)
