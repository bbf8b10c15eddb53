"""Exact rationals as floats on a side that is known: what is spent is rounded up, what is left down."""

from __future__ import annotations

import math
from fractions import Fraction


def float_above(value: Fraction) -> float:
    """The nearest float, or the next one where that is less.

    Example:
        >>> float_above(Fraction(1, 3)) >= Fraction(1, 3), float_above(Fraction(1, 2))
        (True, 0.5)
    """
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def float_below(value: Fraction) -> float:
    """The nearest float, or the one before where that is more."""
    number = float(value)
    return number if Fraction(number) <= value else math.nextafter(number, -math.inf)


def root_above(value: Fraction) -> float:
    """A float whose square is at least a rational that is not negative, and hardly more."""
    root = math.sqrt(value)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def root_below(value: Fraction) -> float:
    """A float whose square is at most a rational that is not negative, and hardly less."""
    root = math.sqrt(value)
    while Fraction(root) ** 2 > value:
        root = math.nextafter(root, 0.0)
    return root
