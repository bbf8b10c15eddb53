"""Options of methods, checked: a value of the right type, or an error that says what may be given.

Anything may be given, arrays and numbers beyond all floats included; none of it is
compared, hashed or printed before its type is known.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from typing import Any

from leastnoise.core.errors import MethodError


def shown(value: Any) -> str:
    """An option's value as an error quotes it: short, whatever was given."""
    if isinstance(value, int) and abs(value) >= 2**64:
        return f"a whole number of {value.bit_length():,} bits"
    if value is None or isinstance(value, (bool, int, float, str)):
        return reprlib.repr(value)
    return f"a value of type {type(value).__name__}"


def choice_option(name: str, value: Any, allowed: Iterable[str]) -> str:
    """The option as one of some words.

    Raises:
        MethodError: for anything else, naming them.
    """
    words = tuple(allowed)
    if not is_one_of(value, words):
        raise MethodError(f"{name} must be one of {', '.join(words)}, got {shown(value)}")
    return str(value)


def is_one_of(value: Any, allowed: Iterable[str]) -> bool:
    """Whether an option is one of some words; arrays and lists, which do not compare as such, are not."""
    return isinstance(value, str) and value in tuple(allowed)


def flag_option(name: str, value: Any) -> bool:
    """The option as a truth value.

    Raises:
        MethodError: unless it is True or False itself.
    """
    if not isinstance(value, bool):
        raise MethodError(f"{name} must be True or False, got {shown(value)}")
    return value


def positive_option(name: str, value: Any, *, least: float = 1e-100, most: float = 1e100) -> float:
    """The option as a float.

    Raises:
        MethodError: unless it is a positive number within the limits.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise MethodError(f"{name} must be a positive number, got {shown(value)}")
    if not least <= value <= most:
        raise MethodError(f"{name} must be a number from {least:g} to {most:g}, got {shown(value)}")
    return float(value)


def whole_option(name: str, value: Any, *, least: int = 1, most: int = 2**63 - 1) -> int:
    """The option as an integer.

    Raises:
        MethodError: unless it is a whole number within the limits.
    """
    if type(value) is not int or value < least:
        raise MethodError(f"{name} must be a whole number, {least} or more, got {shown(value)}")
    if value > most:
        raise MethodError(f"{name} must be at most {most:,}, got {shown(value)}")
    return value
