"""A draw finished by itself: digits are added to uniform numbers until nothing is left open."""

from __future__ import annotations

from bisect import bisect_right

from leastnoise.core.random_bits import RandomBits
from leastnoise.release.noise.laws import Law, table_of


class Uniform:
    """A uniform number in [0, 1) of which only the leading digits are known."""

    def __init__(self, bits: RandomBits, chunk: int, value: int = 0, digits: int = 0) -> None:
        self.bits, self.chunk, self.value, self.digits = bits, chunk, value, digits

    def extend(self) -> None:
        """Draw the next digits."""
        self.value = self.value << self.chunk | self.bits.bits(self.chunk)
        self.digits += self.chunk

    def is_below(self, other: Uniform) -> bool:
        """Whether this number is the smaller, drawing digits of either until it shows."""
        while True:
            common = min(self.digits, other.digits)
            mine = self.value >> (self.digits - common)
            theirs = other.value >> (other.digits - common)
            if mine != theirs:
                return mine < theirs
            (self if self.digits <= other.digits else other).extend()


def finish(law: Law, scale: int, u: Uniform, a: int, x: Uniform) -> int:
    """The draw of |noise| that began with the digits of u, a and x.

    u chooses the cell, a (uniform below M) decides the first event of chance r,
    x is the place in the cell. A rejected attempt begins again with none known.
    """
    bits, chunk = x.bits, x.chunk
    while True:
        k = _cell(law, u)
        if k is not None and _is_kept(law, k, a, x):
            return _scaled(law, scale, k, x)
        u, x = Uniform(bits, chunk), Uniform(bits, chunk)
        a = bits.bits(law.log_modulus)


def _cell(law: Law, u: Uniform) -> int | None:
    """The k with T_{k-1} <= u < T_k, or None where u is past them all."""
    while True:
        table = table_of(law, u.digits)
        k = bisect_right(table.low, u.value)
        if k < len(table.low) and (k == 0 or table.high[k - 1] <= u.value):
            return k
        if table.end <= u.value:
            return None
        u.extend()


def _is_kept(law: Law, k: int, a: int, x: Uniform) -> bool:
    """True with probability exp(-x(2k + x)/(2s²)), or exp(-x/s)."""
    whole, rest = divmod(k, 1 << (2 * law.log_steps)) if law.normal else (0, 0)
    return _von_neumann(law, rest, a, x) and all(_von_neumann(None, 0, 0, x) for _ in range(whole))


def _von_neumann(law: Law | None, k: int, a: int, x: Uniform) -> bool:
    """True with probability exp(-x·r), where r is the law's, or 1 without a law.

    With a uniform below M and ρ uniform in [0, 1), r is the chance that
    a + ρ < 2k + x, so that a decides unless a = 2k, then ρ; or that a = 0.
    """
    bits, chunk = x.bits, x.chunk
    last, is_even = x, True
    while True:
        if law is not None:
            bound = 2 * k if law.normal else 0
            if a > bound or (a == bound and law.normal and not Uniform(bits, chunk).is_below(x)):
                return is_even
            a = bits.bits(law.log_modulus)
        z = Uniform(bits, chunk)
        if not z.is_below(last):
            return is_even
        last, is_even = z, not is_even


def _scaled(law: Law, scale: int, k: int, x: Uniform) -> int:
    """scale·(k + x)/s rounded to the nearest integer (normal) or down (exponential)."""
    while True:
        # In half units of the last digit of x, so that 1/2 is whole even before any digit.
        shift = law.log_steps + x.digits + 1
        start = 2 * scale * (k << x.digits | x.value) + ((1 << shift - 1) if law.normal else 0)
        # The digits to come add less than one unit times the scale.
        if start >> shift == (start + 2 * scale - 1) >> shift:
            return start >> shift
        x.extend()
