"""Intervals for standard deviations, from the joint error of a sum of squares, a sum and a count.

With a₂ = Σ(v − c)², a₁ = Σ(v − c), b = n and t = a₁/b, the variance is s² = (a₂ − 2t a₁ + t² b)/b. For the
true t the numerator is one linear combination, and the ratio has Fieller's interval. So

    { (t, s²) : t in the Fieller interval of a₁/b at 1 − α/10,
                s² in that of (a₂ − 2t a₁ + t² b)/b at 1 − 9α/10 }

holds the true pair with probability 1 − α or more, and so does its projection on s². Of t little is lost: the
quotient is least at the estimated t and changes with the square of the distance from there.

Laplace noise: a₂, a₁ and b lie in three intervals at once, and s² between the least and the largest number
that a₂/b − (a₁/b)² has there, each of the two quotients taken by itself.

Shown are deviations whose count is at least `MIN_DENOMINATOR` standard errors, as ratios are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.release.ratios import (
    DETERMINED,
    MIN_DENOMINATOR,
    OUTSIDE,
    SMALL_DENOMINATOR,
    RatioErrors,
    RatioIntervals,
    fieller_ends,
    quotient_ends,
)

# The part of what may fail that the interval of the mean takes.
MEAN_SHARE = 0.1

# Means at which the set is cut, evenly over their interval: between two the ends move by less than a
# thousandth of it.
_N_MEANS = 65


@dataclass(frozen=True, eq=False)
class DeviationErrors:
    """Sums of squares, sums and counts with what is known about their errors, one of each per group, (k,).

    Attributes:
        squares: Σ(v − c)² over the count.
        sums: Σ(v − c) over the same count.
        covariance: of Σ(v − c)² with Σ(v − c).
    """

    squares: RatioErrors
    sums: RatioErrors
    covariance: Array

    def around(self, t: Array) -> RatioErrors:
        """Σ(v − c − t)² over the count."""
        a2, a1, b = self.squares.numerator, self.sums.numerator, self.squares.denominator
        of_count = self.squares.var_denominator
        with_squares, with_sums = self.squares.covariance, self.sums.covariance
        variance = (
            self.squares.var_numerator
            + 4 * t**2 * self.sums.var_numerator
            + t**4 * of_count
            - 4 * t * self.covariance
            + 2 * t**2 * with_squares
            - 4 * t**3 * with_sums
        )
        return RatioErrors(
            numerator=a2 - 2 * t * a1 + t**2 * b,
            denominator=b,
            # Rounding may leave it slightly below zero.
            var_numerator=np.maximum(variance, 0),
            covariance=with_squares - 2 * t * with_sums + t**2 * of_count,
            var_denominator=of_count,
        )


def deviation_intervals(
    errors: DeviationErrors,
    level: float,
    *,
    means: tuple[float, float],
    largest: float,
    estimates: tuple[Array, Array, Array] | None = None,
) -> RatioIntervals:
    """Every standard deviation, with an interval that holds it with probability `level` or more.

    Args:
        means: what a₁/b can be.
        largest: what a standard deviation can be, at most.
        estimates: a₂, a₁ and b that the estimates are made of, where they are not the unbiased ones.
    """
    b, of_count = errors.squares.denominator, errors.squares.var_denominator
    if errors.squares.half_widths is None:
        lower, upper, is_possible_mean = _projected(errors, level, means)
    else:
        lower, upper, is_possible_mean = _in_box(errors, means)
    is_large = (b > 0) & (b >= MIN_DENOMINATOR * np.sqrt(of_count)) & np.isfinite(lower)
    is_possible = is_large & is_possible_mean & (upper >= 0) & (lower <= largest**2)
    a2, a1, n = estimates or (errors.squares.numerator, errors.sums.numerator, b)
    safe = np.where(n != 0, n, 1.0)
    variance = np.clip(a2 / safe - (a1 / safe) ** 2, 0, largest**2)
    reasons = tuple(
        DETERMINED if shown else (OUTSIDE if large else SMALL_DENOMINATOR)
        for shown, large in zip(is_possible, is_large, strict=True)
    )
    return RatioIntervals(
        estimate=np.where(is_possible & (n != 0), np.sqrt(variance), np.nan),
        stderr=np.where(is_possible, _first_order(errors, largest), np.nan),
        lower=np.where(is_possible, np.sqrt(np.clip(lower, 0, largest**2)), np.nan),
        upper=np.where(is_possible, np.sqrt(np.clip(upper, 0, largest**2)), np.nan),
        reasons=reasons,
    )


def _projected(
    errors: DeviationErrors, level: float, means: tuple[float, float]
) -> tuple[Array, Array, Array]:
    """The ends of the projection on s², NaN where it is not bounded, and whether any mean is possible."""
    alpha = 1 - level
    low, high = fieller_ends(errors.sums, 1 - MEAN_SHARE * alpha)
    is_possible = ~(low > means[1]) & ~(high < means[0])
    low, high = np.clip(low, *means), np.clip(high, *means)
    lower, upper = np.full(len(low), np.inf), np.full(len(low), -np.inf)
    for share in np.linspace(0, 1, _N_MEANS):
        ends = fieller_ends(errors.around(low + share * (high - low)), 1 - (1 - MEAN_SHARE) * alpha)
        lower, upper = np.minimum(lower, ends[0]), np.maximum(upper, ends[1])
    return lower, upper, is_possible


def _in_box(errors: DeviationErrors, means: tuple[float, float]) -> tuple[Array, Array, Array]:
    """The same from three intervals that hold at once."""
    low, high = quotient_ends(errors.sums)
    is_possible = ~(low > means[1]) & ~(high < means[0])
    low, high = np.clip(low, *means), np.clip(high, *means)
    least = np.where((low <= 0) & (high >= 0), 0, np.minimum(low**2, high**2))
    lower, upper = quotient_ends(errors.squares)
    return lower - np.maximum(low**2, high**2), upper - least, is_possible


def _first_order(errors: DeviationErrors, largest: float) -> Array:
    """Standard errors by the delta method: that of s² over 2s; NaN where s is 0."""
    b = np.where(errors.squares.denominator != 0, errors.squares.denominator, np.inf)
    around = errors.around(errors.sums.numerator / b)
    s2 = np.clip(around.numerator / b, 0, largest**2)
    variance = around.var_numerator - 2 * s2 * around.covariance + s2**2 * around.var_denominator
    root = np.where(s2 > 0, np.sqrt(s2), np.nan)
    return np.asarray(np.sqrt(np.maximum(variance, 0)) / np.abs(b) / (2 * root))
