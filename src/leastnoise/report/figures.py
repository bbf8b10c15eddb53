"""Numbers as people read them, rounded to the safe side where something is promised."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from leastnoise.core.operators import Array

# Below this, answers to real-weighted queries are better read from release.to_frame().
_MAX_DECIMALS = 12


# What floating point may have added to an end that is a whole number: such an end still counts as held.
_ROUNDED = 1e-6


def decimals_for(half_widths: Array) -> int:
    """Decimals whose last place is a third of the narrowest half-width or less; none as a rule."""
    narrow = half_widths[half_widths > 0].min(initial=math.inf)
    return min(max(0, 1 - math.floor(math.log10(3 * narrow))), _MAX_DECIMALS) if narrow < math.inf else 0


def number(value: float, decimals: int) -> str:
    """A number with commas and the given number of decimals, never minus zero."""
    text = f"{value:,.{decimals}f}"
    return text if any(digit in text for digit in "123456789") else text.removeprefix("-")


def outward(lower: float, upper: float, decimals: int) -> tuple[str, str]:
    """The ends of an interval, rounded outwards: what is shown holds the truth as often as it says."""
    unit = 10.0**-decimals
    return (
        number(math.floor(lower / unit) * unit, decimals),
        number(math.ceil(upper / unit) * unit, decimals),
    )


def whole_within(lower: float, upper: float) -> tuple[int, int]:
    """The least and the largest whole number in an interval; where it holds none, the two around it.

    Of a number that is whole, as one of records is, this says as much as the interval and as often.

    Example:
        >>> whole_within(801.3, 951.9), whole_within(-3.0, 3.0), whole_within(40.2, 40.8)
        ((802, 951), (-3, 3), (40, 41))
    """
    low, high = math.ceil(lower - _ROUNDED), math.floor(upper + _ROUNDED)
    return (low, high) if low <= high else (high, low)


def with_margin(answer: float, half: float, decimals: int = 0, asked: float | None = None) -> str:
    """An answer and the half-width of its interval, rounded up far enough to cover the answer's rounding.

    Args:
        asked: the half-width that was asked for. One that is kept is never shown as more than that: where
            rounding up would, the answer has a digit more, and the half-width is that of the answer before
            it was rounded.

    Example:
        >>> with_margin(1234.4, 10.2), with_margin(0.26, 0.11, 1)
        ('1,234 ± 11', '0.3 ± 0.2')
        >>> with_margin(876.31, 74.99, asked=75), with_margin(876.31, 74.62, asked=75)
        ('876.3 ± 75', '876.3 ± 74.7')
    """
    unit = 10.0**-decimals
    margin = math.ceil(half / unit + 0.5) * unit if half > 0 else 0.0
    if asked is None or not half <= asked < margin:
        return f"{number(answer, decimals)} ± {number(margin, decimals)}"
    fine = unit / 10
    margin = math.ceil(half / fine) * fine
    shown = number(margin, decimals + 1) if margin < asked else f"{asked:,.6g}"
    return f"{number(answer, decimals + 1)} ± {shown}"


def gap_text(gap: float) -> str:
    """A gap: as a power of ten where it is small, else as a share, as in "2.02%"."""
    return f"{gap:.1e}" if gap < _SMALL_GAP else share_above(gap)


# A gap from which on it is written as a share, which nobody takes for a small one.
_SMALL_GAP = 0.01


def share_above(gap: float) -> str:
    """A gap as a share, in three digits and rounded up, as in "2.02%"."""
    shown = Context(prec=3, rounding=ROUND_CEILING).create_decimal(Decimal(gap) * 100)
    return f"{float(shown):,.3g}%" if gap < 10 else f"{float(shown):,.0f}%"


def at_least(spent: float) -> str:
    """Six digits of what was spent, rounded up: a report never claims less."""
    shown = Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(spent))
    return f"{float(shown):.6g}"


def enough(epsilon: float) -> str:
    """Four digits of an ε from which on something holds, rounded up: what is printed is enough."""
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(epsilon))):.4g}"


def too_little(epsilon: float) -> str:
    """Four digits of an ε below which something does not hold, rounded down."""
    return f"{float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal(Decimal(epsilon))):.4g}"


def figure(value: float) -> str:
    """A standard error or a variance in a few digits."""
    if value == 0 or 1 <= value < 1e9:
        return f"{value:,.1f}" if value < 10_000 else f"{value:,.0f}"
    return f"{value:.3g}"


def times(ours: float, other: float) -> str:
    """How many times as much the other is, as in "2.1×"; nothing where that means nothing."""
    if not ours > 0:
        return ""
    ratio = other / ours
    return f"{ratio:,.1f}×" if ratio < 1e6 else f"{ratio:.3g}×"


def four_digits(value: float) -> str:
    """A cost or a standard error to four digits, or to the unit where it is large."""
    if 1e4 <= value < 1e9:
        return f"{value:,.0f}"
    return f"{value:,.4g}" if 1e-3 <= value < 1e4 or value == 0 else f"{value:.4g}"
