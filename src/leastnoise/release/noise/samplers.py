"""Gaussian noise rounded to integers and discrete Laplace noise, exactly as on paper."""

from __future__ import annotations

import numpy as np

from leastnoise.core.random_bits import RandomBits, check_integer
from leastnoise.release.noise.laws import EXPONENTIAL, NORMAL
from leastnoise.release.noise.many_draws import draw_many


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
