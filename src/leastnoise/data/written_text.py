"""Values of any types as text in UTF-8: where nothing promises that a column holds one type."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from leastnoise.query import MAX_DIGITS, is_null

# The type of columns of text that are made here.
TEXT = pa.large_string()


def text_columns(rows: Sequence[Sequence[Any]], marks: Sequence[str]) -> list[Any]:
    """Rows of values of any types as Arrow arrays of text, numbers in each with its decimal mark."""
    return [text_array(column, mark) for column, mark in zip(zip(*rows, strict=True), marks, strict=True)]


def text_array(values: Iterable[Any], mark: str = ".") -> Any:
    """Values of any types as an Arrow array of text; null for those that are none or that no text can tell.

    Value by value: a type guessed for the whole column would let one record, even a null, change how the
    others count.

    Args:
        mark: the decimal mark of numbers that are no text.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pa.array(list(map(partial(written, mark=mark), values)), type=TEXT)


def is_text(value: object) -> bool:
    """Whether a value is text that UTF-8 can hold."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def written(value: Any, mark: str = ".") -> str | None:
    """A value as text in UTF-8, whole floats as whole numbers; None if there is none, or none can be written.

    Guarantee:
        No value raises or warns: whether something fails would tell about a record.
    """
    if type(value) is str and value.isascii():
        return value
    try:
        if is_null(value):
            return None
        if isinstance(value, (bool, np.bool_)):
            return str(bool(value)).lower()
        if isinstance(value, int):
            # Decimal writes any number of digits; str() stops at 4,300.
            text = str(Decimal(value))
        elif isinstance(value, Decimal) and value.is_finite():
            text = _digits_of(value).replace(".", mark)
        elif isinstance(value, (float, np.floating)) and abs(float(value)) < 2**53 and value == int(value):
            text = str(int(value))
        else:
            text = str(value)
            if mark != "." and isinstance(value, (float, np.floating)):
                text = text.replace(".", mark)
        return text if is_text(text) else None
    except Exception:
        return None


def _digits_of(value: Decimal) -> str:
    """A decimal without an exponent; where that has more digits than are told apart, another as far away."""
    sign, size = "-" if value.is_signed() else "", value.adjusted() if value else 0
    if not value and abs(value.adjusted()) > MAX_DIGITS:
        return "0"
    if size > MAX_DIGITS:
        return f"{sign}1{'0' * MAX_DIGITS}"
    return f"{sign}0.{'0' * MAX_DIGITS}1" if size < -MAX_DIGITS else f"{value:f}"
