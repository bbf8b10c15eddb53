"""Exact noise: integer draws whose law is the one on paper, not close to it.

The only file that draws secret randomness. Everything here is an integer;
no float lies between the system's random bits and the noise.

A deviate is a cell and a place in it, ±(k + x)/s with s = 128 cells per unit.
The cell k comes from one uniform number compared with a table; the place x is
uniform and kept with the probability that bends the cell into the density.
Real numbers are never held: a uniform number is its leading digits, and more
are drawn whenever those leave a question open. Almost every draw is decided by
its leading digits, for a whole array at once; the others are finished one by
one from the same digits, which are never redrawn.

Random bits come from `leastnoise.core.random_bits`, none of them twice. In this order: the two densities and
tables of their cells; a draw finished by itself, digit by digit; draws decided together; Gaussian and Laplace
noise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leastnoise.core.random_bits import RandomBits, check_integer

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Law:
    """A density on (k + x)/s: normal with a sign, or exponential.

    Cell weights w_k are exp(-k²/(2s²)) or exp(-k/s). Within a cell the density
    is exp(-x·r) with r = (2k + x)/M, M = 2s², or r = 1/M, M = s.
    """

    normal: bool
    log_steps: int  # s is a power of two, so that dividing by s and by M is a shift

    @property
    def steps(self) -> int:
        """The cells per unit, s."""
        return 1 << self.log_steps

    @property
    def log_modulus(self) -> int:
        """M is 2 to this power."""
        return 2 * self.log_steps + 1 if self.normal else self.log_steps

    @property
    def total(self) -> int:
        """An integer N at least Σ w_k, and close, for s up to 128.

        Normal: Σ w_k is 1/2 + s√(π/2) within s·10⁻⁸ (Poisson summation), and
        5s/4 + 1 is more. Exponential: 1/(1 - exp(-1/s)) is at most s + 1.
        """
        return (5 * self.steps + 7) // 4 if self.normal else self.steps + 1


# Cells per unit against draws that leave the array route, measured at σ = 2^45: with 128 one
# in 142 (normal) and one in 88 (exponential), with 16 one in 14 and one in 11.
NORMAL = Law(normal=True, log_steps=7)
EXPONENTIAL = Law(normal=False, log_steps=7)


@dataclass(frozen=True)
class CellTable:
    """Bounds low[k] <= 2^digits·T_k <= high[k] on T_k = (w_0 + ... + w_k)/N; ``end`` bounds them all."""

    low: list[int]
    high: list[int]
    end: int


@lru_cache(maxsize=256)
def table_of(law: Law, digits: int) -> CellTable:
    """Bounds on the cumulative cell probabilities, in units of 2^-digits.

    Weights follow from w_{k+1} = w_k·g_k, where g_0 = exp(-1/M) and g_k is
    multiplied by g_0² each time (normal) or stays (exponential). Lower bounds
    are rounded down at every step, upper bounds up, with 64 spare digits.

    Guarantee:
        The ratios g_k do not grow, so all weights from w_{K+1} on sum to at
        most w_{K+1}/(1 - g_0) <= w_{K+1}·(M + 1); the table stops when that is
        2^-16 of a unit, and ``end`` includes it.
    """
    spare = 64
    p = digits + spare
    modulus = 1 << law.log_modulus
    g_low, g_high = _exp_bounds(modulus, p)
    f_low, f_high = (g_low**2 >> p, _shift_up(g_high**2, p)) if law.normal else (1 << p, 1 << p)
    w_low = w_high = 1 << p
    sum_low = sum_high = 0
    unit = law.total << spare
    low, high = [], []
    while w_high * (modulus + 1) > 1 << spare - 16:
        sum_low, sum_high = sum_low + w_low, sum_high + w_high
        low.append(sum_low // unit)
        high.append(-(-sum_high // unit))
        w_low, w_high = w_low * g_low >> p, _shift_up(w_high * g_high, p)
        g_low, g_high = g_low * f_low >> p, _shift_up(g_high * f_high, p)
    end = -(-(sum_high + w_high * (modulus + 1)) // unit)
    assert end <= 1 << digits, "cell probabilities must not sum to more than one"
    return CellTable(low, high, end)


@lru_cache(maxsize=16)
def arrays_of(law: Law, digits: int) -> tuple[Words, Words]:
    """low[k], and high[k-1] led by 0; one entry past the last cell that no u reaches."""
    table = table_of(law, digits)
    start = [0, *table.high[:-1], (1 << 64) - 1]
    return np.array(table.low, dtype=np.uint64), np.array(start, dtype=np.uint64)


def _exp_bounds(divisor: int, p: int) -> tuple[int, int]:
    """Integers around 2^p·exp(-1/divisor), from its alternating series in 1/divisor."""
    term, total, n = 1 << p, 0, 0
    while term:
        total += -term if n % 2 else term
        n += 1
        term //= n * divisor
    # Flooring a term loses less than 2 units, and so does the tail that is left out.
    return total - 2 * (n + 1), total + 2 * (n + 1)


def _shift_up(value: int, p: int) -> int:
    """value / 2^p rounded up."""
    return -(-value >> p)


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


_CHUNK = 32  # digits added at a time to a deviate that is still undecided
_PLACE = 64  # leading digits of x in the array route
_NARROW = 48  # below 2^48, scale times cell fits 64 bits; k stays below 2^14
_BLOCK = 1 << 14  # draws per array: its temporaries stay in a core's cache


def draw_many(law: Law, scale: int, size: int, bits: RandomBits) -> list[int]:
    """Independent draws, a block at a time."""
    draws: list[int] = []
    lead = 63 - law.log_modulus
    while len(draws) < size:
        draws += _block(law, scale, min(_BLOCK, size - len(draws)), bits, lead, _CHUNK)
    return draws


def _block(law: Law, scale: int, size: int, bits: RandomBits, lead: int, chunk: int) -> list[int]:
    """Draws decided together wherever their leading digits suffice, then the rest.

    One word holds the ``lead`` digits of u, then a, then the sign; another x.

    Guarantee:
        What is decided here is what ``finish`` would return for the same
        digits, and every other draw is ``finish`` itself on those digits. All
        arrays are unsigned 64-bit integers, and no product or sum wraps.
    """
    word, place = _words(size, bits), _words(size, bits)
    u = word >> (64 - lead)
    a = (word >> 1) & ((1 << law.log_modulus) - 1)
    # u is surely in cell k when high[k-1] <= u and u + 1 <= low[k].
    low, start = arrays_of(law, lead)
    k = np.searchsorted(low, u, side="right").astype(np.uint64)
    # a above its bound ends von Neumann's sequence before it starts: x is kept. For
    # the normal law a > 2k also means k < s², so there are no further factors exp(-x).
    decided = (start[k] <= u) & (a > (2 * k if law.normal else 0))
    x: Sequence[int] | Words
    if scale.bit_length() <= _NARROW:
        digits, x = _PLACE, place
        magnitude, is_exact = _scaled_narrow(law, scale, k, place)
    else:
        digits, x = _lengthened(place, scale.bit_length(), bits)
        magnitude, is_exact = _scaled_wide(law, scale, k, x, digits)
    for i in np.flatnonzero(~(decided & is_exact)).tolist():
        u_i, x_i = Uniform(bits, chunk, int(u[i]), lead), Uniform(bits, chunk, int(x[i]), digits)
        magnitude[i] = finish(law, scale, u_i, int(a[i]), x_i)
    if not law.normal:
        return magnitude
    return [-m if negative else m for m, negative in zip(magnitude, (word & 1).tolist(), strict=True)]


def _words(size: int, bits: RandomBits) -> Words:
    """Independent uniform 64-bit words."""
    return np.frombuffer(bits.bits(64 * size).to_bytes(8 * size, "little"), dtype="<u8").astype(np.uint64)


def _lengthened(place: Words, n_more: int, bits: RandomBits) -> tuple[int, list[int]]:
    """The number of digits and the values of x once at least n_more digits are added."""
    step = (n_more + 7) >> 3
    tails = bits.bits(8 * step * len(place)).to_bytes(step * len(place), "little")
    starts = range(0, len(tails), step)
    x = [
        head << 8 * step | int.from_bytes(tails[i : i + step], "little")
        for head, i in zip(place.tolist(), starts, strict=True)
    ]
    return _PLACE + 8 * step, x


def _scaled_narrow(law: Law, scale: int, k: Words, x: Words) -> tuple[list[int], NDArray[np.bool_]]:
    """scale·(k + x)/s rounded, and where the 64 digits of x suffice for it.

    scale·x is a 128-bit product of 32-bit halves; scale < 2^48 and k < 2^14
    leave no sum above 2^63. Half an integer is s/2 units, so s is at least 2.
    """
    half = (1 << 32) - 1
    x0, x1 = x & half, x >> 32
    low = x0 * (scale & half)
    cross = x1 * (scale & half)
    middle = (low >> 32) + (cross & half) + x0 * (scale >> 32)
    fraction = (middle << 32) | (low & half)
    units = k * scale + x1 * (scale >> 32) + (cross >> 32) + (middle >> 32)
    units += (law.steps >> 1) if law.normal else 0
    # Only the last of the s units before the next integer can carry into it.
    last = law.steps - 1
    is_exact = ((units & last) != last) | (fraction <= (1 << 64) - scale)
    return (units >> law.log_steps).tolist(), is_exact


def _scaled_wide(
    law: Law, scale: int, k: Words, x: list[int], digits: int
) -> tuple[list[int], NDArray[np.bool_]]:
    """scale·(k + x)/s rounded, and where the digits of x suffice for it."""
    shift = law.log_steps + digits
    offset = (1 << shift >> 1) if law.normal else 0
    starts = [scale * (cell << digits | value) + offset for cell, value in zip(k.tolist(), x, strict=True)]
    rounded = [start >> shift for start in starts]
    room = (1 << shift) - scale
    mask = (1 << shift) - 1
    return rounded, np.array([start & mask <= room for start in starts], dtype=bool)


def rounded_gaussian(sigma: int, size: int, bits: RandomBits) -> list[int]:
    """Independent draws of floor(σ·z + 1/2), with z standard normal.

    Args:
        sigma: the scale σ, a positive integer of any length.
        size: how many draws.
        bits: where the randomness comes from; ``SystemBits()`` for a release.

    Guarantee:
        The law is exact if the bits are fair. Let s be the cells per unit.

        1. Cell k is proposed with probability exp(-k²/(2s²))/N, with N at least
           the sum of these weights; what is left over starts the draw again.
        2. x, uniform in [0, 1), is kept with probability exp(-x(2k + x)/(2s²)).
           Then (k + x)/s has a density proportional to exp(-k²/(2s²))·
           exp(-x(2k + x)/(2s²)) = exp(-((k + x)/s)²/2), the half-normal one,
           and an independent fair sign makes z.
        3. The probability in 2 is exp(-x)^q · exp(-x·r), where q = k // s² and
           r = (2(k mod s²) + x)/(2s²) < 1. Chance exp(-x·r) is von Neumann's:
           in x > z₁ > z₂ > ... with an independent event of chance r before
           each step, at least n steps happen with probability (x·r)ⁿ/n!, so
           their number is even with probability Σ (-x·r)ⁿ/n!.
        4. Digits of x are drawn until σ(k + x)/s + 1/2 has the same floor m
           whatever follows. As σ·z + 1/2 is an integer with probability zero,
           floor(-y + 1/2) = -floor(y + 1/2) almost surely, so the negative
           draw is -m.

        Every comparison is decided by integers, or digits are added to the
        numbers compared; a digit once drawn is never drawn again.

    Raises:
        InputError: if ``sigma`` is not a positive, or ``size`` not a
            non-negative integer.
        RandomnessError: if the system's generator fails.

    Reference:
        Karney (2016), arXiv:1303.6257, Algorithm N; his is s = 1 with the cell
        drawn by trials of exp(-1/2) instead of a table.
    """
    check_integer("sigma", sigma, least=1)
    check_integer("size", size, least=0)
    return draw_many(NORMAL, sigma, size, bits)


def discrete_laplace(scale: int, size: int, bits: RandomBits) -> list[int]:
    """Independent draws of the integer x with probability ∝ exp(-|x|/scale).

    Args:
        scale: a positive integer of any length.
        size: how many draws.
        bits: where the randomness comes from; ``SystemBits()`` for a release.

    Guarantee:
        The law is exact if the bits are fair. With E standard exponential,
        drawn like the half-normal in ``rounded_gaussian`` (cell k with
        probability exp(-k/s)/N, x kept with exp(-x/s)), G = floor(scale·E) is
        geometric: P(G = g) = (1-p) pᵍ, p = exp(-1/scale). With a fair sign, and
        minus zero drawn again, P(X = x) is in proportion to p^|x| for every x:
        zero comes with one sign, as every other integer does.

    Raises:
        InputError: if ``scale`` is not a positive, or ``size`` not a
            non-negative integer.
        RandomnessError: if the system's generator fails.

    Reference:
        Canonne, Kamath and Steinke (2020), arXiv:2004.00010, Algorithm 2, for the
        sign and the rejection.
    """
    check_integer("scale", scale, least=1)
    check_integer("size", size, least=0)
    found: list[int] = []
    while len(found) < size:
        geometric = draw_many(EXPONENTIAL, scale, size - len(found), bits)
        signs = _fair_bits(len(geometric), bits)
        found += [
            -g if is_minus else g for g, is_minus in zip(geometric, signs, strict=True) if g or not is_minus
        ]
    return found


def _fair_bits(size: int, bits: RandomBits) -> list[int]:
    """So many independent fair bits, one by one."""
    n_bytes = (size + 7) // 8
    packed = np.frombuffer(bits.bits(8 * n_bytes).to_bytes(n_bytes, "little"), dtype=np.uint8)
    listed: list[int] = np.unpackbits(packed)[:size].tolist()
    return listed
