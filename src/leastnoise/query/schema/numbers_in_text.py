"""Which text stands for which number, here and in the engine that counts a table."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from numbers import Real
from typing import Any, TypeGuard

WHOLE_TEXT = r"[+-]?[0-9]+([.]0*)?"
EXPONENT_TEXT = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)[eE][+-]?[0-9]+"
# For bins, whose ends may be open: frames written to CSV spell infinity in one of these ways.
NUMBER_TEXT = r"[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[Ii]nf(inity)?)"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, NumPy's included; truth values and NaN are not."""
    return isinstance(value, (Real, Decimal)) and not isinstance(value, bool) and bool(value == value)


def is_null(value: object) -> bool:
    """Whether a raw value is none at all: None, NaN, or what pandas has for them."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (Real, Decimal)) and bool(value != value)


def plain(value: Any) -> Any:
    """A NumPy scalar as the Python number or text it stands for."""
    return value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value


def text_of(value: Any) -> str:
    """A raw value written out, as text categories compare it; a whole float as a whole number."""
    if isinstance(value, float) and abs(value) < 2**53 and value == int(value):
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def whole_of(value: Any) -> int | None:
    """The whole number that a raw value equals, be it 18, 18.0 or the text "18.0" or "1.8e1"."""
    if not is_number(value):
        text = text_of(value)
        if re.fullmatch(WHOLE_TEXT, text):
            # Decimal reads any number of digits; int() stops at 4,300.
            return int(Decimal(text))
        value = float(text) if re.fullmatch(EXPONENT_TEXT, text) else math.nan
    return int(value) if abs(value) < math.inf and value == int(value) else None


def float_of(value: Any) -> float | None:
    """The float64 nearest to a raw value, or None if it stands for no number."""
    if not is_number(value):
        text = text_of(value)
        return float(text) if re.fullmatch(NUMBER_TEXT, text) else None
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)
