"""What Ibis has no word for: bytes of a text, a hash, and numbers in text, in each engine's own words.

Text is compared as bytes everywhere: a column may have a collation that takes "f" for
"F", and Ibis does not tell. Declared values travel as hexadecimal digits, so that no
engine ever parses what somebody wrote into a schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

from leastnoise.query import BLANKS

Expression = Any

# What float64 rounds to infinity, and to zero, at the border and beyond.
_TO_INFINITY = str(2**1024 - 2**970)
# Longer texts of a number are beyond what PostgreSQL's numeric holds.
_LONGEST_NUMBER = 6000


def _tried_as_float(text: Expression) -> Expression:
    """A text as a float64, null if it is none."""
    return text.try_cast("float64")


def _trimmed(text: Expression) -> Expression:
    """A text without blanks at its ends."""
    return text.re_replace(f"^[{BLANKS}]+|[{BLANKS}]+$", "")


def _as_float(number: Expression) -> Expression:
    """A number as a float64."""
    return number.cast("float64")


@dataclass(frozen=True)
class Dialect:
    """The functions of one engine.

    Attributes:
        text: the text of a column of some text type, under no collation but that of bytes.
        bytes_of: the UTF-8 bytes of a text.
        from_hex: the bytes that a text of hexadecimal digits stands for.
        md5: the MD5 digest of bytes, as 32 lower-case hexadecimal digits.
        number_in_text: the float64 nearest to a text that is known to be a decimal number.
        float_of_decimal: the float64 nearest to a decimal.
        trim: a text without the blanks at its ends that cleaning removes.
        is_finite: whether a date or timestamp is finite; None where all are.
        decimals_hold_nan: whether a decimal can be NaN.
        barrier: a number of no meaning, zero or more, that the engine takes for different at every call: it
            keeps an optimiser from writing a subquery's columns out where they are used, as often as they
            are. Six steps of that made a plan of 94 MB.
        fence: what keeps the engine from computing a subquery's columns once per use.
    """

    text: Callable[[Expression], Expression]
    bytes_of: Callable[[Expression], Expression]
    from_hex: Callable[[Expression], Expression]
    md5: Callable[[Expression], Expression]
    number_in_text: Callable[[Expression], Expression] = _tried_as_float
    float_of_decimal: Callable[[Expression], Expression] = _as_float
    trim: Callable[[Expression], Expression] = _trimmed
    is_finite: Callable[[Expression], Expression] | None = None
    decimals_hold_nan: bool = False
    barrier: Callable[[], Expression] | None = None
    fence: str = ""


def _function(name: str, takes: Any, gives: str, *constants: str) -> Callable[[Expression], Expression]:
    """A function of the engine, with constants after its argument."""
    import ibis

    signature = ((takes, *["string"] * len(constants)), gives)
    # Ibis reads the number of arguments off a Python function.
    shape = (lambda value, option: None) if constants else (lambda value: None)
    called = ibis.udf.scalar.builtin(shape, name=name, signature=signature)
    return lambda value: called(value, *constants)


def floor(number: Expression, kind: str) -> Expression:
    """The next whole number below, in the type it has; Ibis would cast it to 64 bits."""
    return _function("floor", kind, kind)(number)


def _is_finite(moment: Expression) -> Expression:
    """Whether a date or timestamp is not one of infinity."""
    return _function("isfinite", moment.type(), "boolean")(moment)


def _as_bytes(text: Expression) -> Expression:
    return text.cast("binary")


def _duckdb() -> Dialect:
    encode, unhex = _function("encode", "string", "binary"), _function("unhex", "string", "binary")
    md5 = _function("md5", "binary", "string")
    return Dialect(lambda value: value, encode, unhex, md5, is_finite=_is_finite)


def _spark() -> Dialect:
    # A cast to bytes and back leaves the collation behind.
    return Dialect(
        lambda value: value.cast("binary").cast("string"),
        _as_bytes,
        _function("unhex", "string", "binary"),
        _function("md5", "binary", "string"),
        barrier=_row_number,
    )


def _row_number() -> Expression:
    """Spark's number of a row."""
    import ibis

    return ibis.udf.scalar.builtin(
        lambda: None, name="monotonically_increasing_id", signature=((), "int64")
    )()


def _postgres() -> Dialect:
    # text() writes out enumerations, and CHAR without its padding.
    written = _function("text", "string", "string")
    encode = _function("convert_to", "string", "binary", "UTF8")
    decode = _function("convert_from", "binary", "string", "UTF8")
    return Dialect(
        lambda value: decode(encode(written(value))),
        encode,
        _function("decode", "string", "binary", "hex"),
        _function("md5", "binary", "string"),
        number_in_text=_postgres_number,
        float_of_decimal=_postgres_float,
        is_finite=_is_finite,
        decimals_hold_nan=True,
        # An OFFSET is not pulled up into the query around it.
        fence=" OFFSET 0",
    )


def _postgres_float(number: Expression) -> Expression:
    """A numeric as a float64: PostgreSQL stops with an error where that would be infinite or zero."""
    import ibis

    with localcontext(prec=2000):
        to_zero = f"{Decimal(2) ** -1075:f}"
    high, low = (ibis.literal(text).cast("decimal") for text in (_TO_INFINITY, "-" + _TO_INFINITY))
    tiny = ibis.literal(to_zero).cast("decimal")
    return ibis.cases(
        (number >= high, ibis.literal("inf").cast("float64")),
        (number <= low, ibis.literal("-inf").cast("float64")),
        (number.abs() <= tiny, ibis.literal("0").cast("float64")),
        else_=number.cast("float64"),
    )


def _postgres_number(text: Expression) -> Expression:
    """A text as a float64 by way of numeric, whose range is cut first where exponents have five digits."""
    import ibis

    null = ibis.null("float64")
    nothing = text.re_search("^[+-]?[0.]*([eE]|$)")
    zero = ibis.literal("0").cast("float64")
    infinite = text.startswith("-").ifelse(
        ibis.literal("-inf").cast("float64"), ibis.literal("inf").cast("float64")
    )
    return ibis.cases(
        (text.length() > _LONGEST_NUMBER, null),
        (nothing, zero),
        (text.re_search("[eE][+]?0*[1-9][0-9]{4,}$"), infinite),
        (text.re_search("[eE]-0*[1-9][0-9]{4,}$"), zero),
        else_=_postgres_float(text.cast("decimal")),
    )


def _bigquery() -> Dialect:
    md5, to_hex = _function("md5", "binary", "binary"), _function("to_hex", "binary", "string")
    return Dialect(
        lambda value: _function("safe_convert_bytes_to_string", "binary", "string")(_as_bytes(value)),
        _as_bytes,
        _function("from_hex", "string", "binary"),
        lambda value: to_hex(md5(value)),
    )


def _snowflake() -> Dialect:
    encode = _function("to_binary", "string", "binary", "UTF-8")
    decode = _function("to_varchar", "binary", "string", "UTF-8")
    return Dialect(
        lambda value: decode(encode(value)),
        encode,
        _function("to_binary", "string", "binary", "HEX"),
        _function("md5", "binary", "string"),
    )


def _trino() -> Dialect:
    md5, to_hex = _function("md5", "binary", "binary"), _function("to_hex", "binary", "string")
    return Dialect(
        lambda value: value,
        _function("to_utf8", "string", "binary"),
        _function("from_hex", "string", "binary"),
        lambda value: to_hex(md5(value)).lower(),
    )


_DIALECTS: dict[str, Callable[[], Dialect]] = {
    "duckdb": _duckdb,
    "pyspark": _spark,
    "databricks": _spark,
    "postgres": _postgres,
    "bigquery": _bigquery,
    "snowflake": _snowflake,
    "trino": _trino,
    "athena": _trino,
}
ENGINES = tuple(_DIALECTS)
# Those whose counts the tests compare, record by record; the others answer a probe first.
TESTED = ("duckdb", "pyspark", "postgres")
# Engines with an extra of their own; Ibis has one for each of the others.
_EXTRAS = {"pyspark": "spark", "postgres": "postgres"}


def requirement_of(engine: str) -> str:
    """What pip is to install for an engine."""
    extra = _EXTRAS.get(engine)
    return f"ibis-framework[{engine}]" if extra is None else f"leastnoise[{extra}]"


@cache
def dialect_of(engine: str) -> Dialect:
    """The functions of an engine by its name in Ibis."""
    return _DIALECTS[engine]()
