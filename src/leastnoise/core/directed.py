"""Numbers on a side that is known: what is spent is rounded up, what is left down.

Rationals become floats above or below them. Functions that no rational gives, such as the Mills ratio of the
normal law, are enclosed by intervals of decimals: a context that rounds down and one that rounds up turn each
operation on bounds into a bound on the result, because decimal rounds add, multiply and divide as the context
says, underflow included. exp, ln and sqrt are correctly rounded to nearest whatever the context says
(python.org, decimal), so one unit in the last place on either side encloses them. Operators such as + would
round in the caller's context, so only comparisons, which are exact, are written with one.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple


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


class Interval(NamedTuple):
    """Two decimals with the truth between them."""

    lo: Decimal
    hi: Decimal


class Arithmetic:
    """Outward rounded arithmetic with ``prec`` digits; operands are not negative unless said."""

    def __init__(self, prec: int) -> None:
        def context(rounding: str) -> decimal.Context:
            return decimal.Context(
                prec=prec,
                rounding=rounding,
                Emin=decimal.MIN_EMIN,
                Emax=decimal.MAX_EMAX,
                traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
            )

        self.prec = prec
        self.down = context(decimal.ROUND_FLOOR)
        self.up = context(decimal.ROUND_CEILING)

    def enclose(self, value: Fraction) -> Interval:
        """The interval around a rational."""
        numerator, denominator = Decimal(value.numerator), Decimal(value.denominator)
        return Interval(self.down.divide(numerator, denominator), self.up.divide(numerator, denominator))

    def add(self, a: Interval, b: Interval) -> Interval:
        """a + b."""
        return Interval(self.down.add(a.lo, b.lo), self.up.add(a.hi, b.hi))

    def subtract(self, a: Interval, b: Interval) -> Interval:
        """a − b."""
        return Interval(self.down.subtract(a.lo, b.hi), self.up.subtract(a.hi, b.lo))

    def multiply(self, a: Interval, b: Interval) -> Interval:
        """a · b."""
        return Interval(self.down.multiply(a.lo, b.lo), self.up.multiply(a.hi, b.hi))

    def divide(self, a: Interval, b: Interval) -> Interval:
        """a / b."""
        return Interval(self.down.divide(a.lo, b.hi), self.up.divide(a.hi, b.lo))

    def _widen(self, lo: Decimal, hi: Decimal) -> Interval:
        return Interval(self.down.next_minus(lo), self.up.next_plus(hi))

    def sqrt(self, a: Interval) -> Interval:
        """√a."""
        return self._widen(self.down.sqrt(a.lo), self.up.sqrt(a.hi))

    def exp(self, a: Interval) -> Interval:
        """e^a for a of either sign."""
        lo, hi = self._widen(self.down.exp(a.lo), self.up.exp(a.hi))
        return Interval(max(lo, Decimal(0)), hi)

    def exp_minus(self, a: Interval) -> Interval:
        """e^−a."""
        return self.exp(Interval(a.hi.copy_negate(), a.lo.copy_negate()))

    def ln(self, a: Interval) -> Interval:
        """ln a."""
        return self._widen(self.down.ln(a.lo), self.up.ln(a.hi))


ONE = Interval(Decimal(1), Decimal(1))
TWO = Interval(Decimal(2), Decimal(2))
arithmetic = lru_cache(maxsize=64)(Arithmetic)


@lru_cache(maxsize=64)
def pi(prec: int) -> Interval:
    """π to ``prec`` digits by Machin's formula, 16 arctan(1/5) − 4 arctan(1/239), in integers."""
    scale = 10 ** (prec + 10)

    def arctan_inverse(n: int) -> int:
        # Nested floors are single floors, so term is floor(scale / n^k) and each
        # summand is off by less than 1; the alternating rest after term = 0 is
        # below 1 too. Off by less than the number of terms + 1.
        term, total, k = scale // n, 0, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    value = 16 * arctan_inverse(5) - 4 * arctan_inverse(239)
    # At most 0.72 (prec + 10) + 2 terms: off by less than 10^9 for any prec below 10^7.
    A = arithmetic(prec)
    return Interval(
        A.enclose(Fraction(value - 10**9, scale)).lo, A.enclose(Fraction(value + 10**9, scale)).hi
    )


# ---------------------------------------------------------------------------
# The normal distribution, from its Mills ratio M(x) = (1 − Φ(x)) / φ(x), x ≥ 0.

# Up to 6 the series takes 114 terms for 33 digits and the subtraction costs
# less than ten digits: e^(6²/2) √(π/2) / M(6) = 5.1e8.
_SERIES_UP_TO = 6
_SERIES_GUARD = 10


def mills(x: Interval, prec: int) -> Interval:
    """M(x) enclosed, for an interval of numbers x ≥ 0."""
    return _mills_series(x, prec) if x.hi <= _SERIES_UP_TO else _mills_fraction(x, prec)


def _mills_series(x: Interval, prec: int) -> Interval:
    """M(x) = √(π/2) e^(x²/2) − Σ x^(2k+1) / (2k+1)!!"""
    A = arithmetic(prec + _SERIES_GUARD)
    square = A.multiply(x, x)
    head = A.multiply(A.sqrt(A.divide(pi(A.prec), TWO)), A.exp(A.divide(square, TWO)))
    down, up = A.down, A.up
    term_lo, term_hi = total_lo, total_hi = x
    smallest, twice_square = Decimal(1).scaleb(-A.prec, up), up.add(square.hi, square.hi)
    k = 1
    # Terms are positive and increase with x. Once x² ≤ k/2 each is at most half
    # of the one before, so all the terms left out sum to at most the last one.
    while term_hi > smallest or twice_square > k:
        k += 2
        odd = Decimal(k)
        term_lo = down.divide(down.multiply(term_lo, square.lo), odd)
        term_hi = up.divide(up.multiply(term_hi, square.hi), odd)
        total_lo = down.add(total_lo, term_lo)
        total_hi = up.add(total_hi, term_hi)
    return A.subtract(head, Interval(total_lo, up.add(total_hi, term_hi)))


def _mills_fraction(x: Interval, prec: int) -> Interval:
    """1 / M(x) = t_1 with t_k = x + k / t_(k+1), Laplace's continued fraction."""
    A = arithmetic(prec)
    down, up = A.down, A.up
    # How many steps: each multiplies the width by k / t_k², t_k near
    # (x + √(x² + 4k)) / 2. A wrong guess gives a wide interval, not a wrong one.
    near, left, n = min(float(x.lo), 1e9), -prec * math.log(10), 0
    while left < 0:
        n += 1
        left -= math.log(4 * n / (near + math.sqrt(near * near + 4 * n)) ** 2)
    # Every tail is positive, so t_(n+1) ≥ x and t_n ≤ x + n/x; then each step is
    # decreasing in t, which swaps the bounds.
    lo, hi = x.lo, up.add(x.hi, up.divide(Decimal(n), x.lo))
    for k in range(n - 1, 0, -1):
        numerator = Decimal(k)
        lo, hi = down.add(x.lo, down.divide(numerator, hi)), up.add(x.hi, up.divide(numerator, lo))
    return A.divide(ONE, Interval(lo, hi))


def density(half_square: Interval, prec: int) -> Interval:
    """φ(x) enclosed, from an interval for x²/2."""
    A = arithmetic(prec)
    two_pi = A.multiply(TWO, pi(prec))
    return A.divide(A.exp_minus(half_square), A.sqrt(two_pi))


def clip(value: Interval) -> Interval:
    """The part of an interval that is not negative, for a quantity known not to be."""
    return Interval(max(value.lo, Decimal(0)), value.hi)
