"""The two densities that noise is drawn from, and tables of the probabilities of their cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

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
