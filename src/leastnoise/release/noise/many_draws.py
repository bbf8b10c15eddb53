"""Draws decided together, in arrays, wherever their leading digits suffice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leastnoise.core.random_bits import RandomBits
from leastnoise.release.noise.laws import Law, Words, arrays_of
from leastnoise.release.noise.one_draw import Uniform, finish

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
