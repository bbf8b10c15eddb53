"""Intervals for a ratio θ = a/b of two released numbers, from their joint error.

Gaussian noise: the Fieller set

    { θ : (â − θ b̂)² ≤ z² (σ_aa − 2θ σ_ab + θ² σ_bb) }                                                     (1)

holds the true ratio with exactly the stated probability, for any b ≠ 0: â − θ b̂ is Gaussian with mean zero
and that variance. It is a bounded interval exactly where b̂² > z² σ_bb. Laplace noise: a and b lie in two
intervals at once, and the ratio between the least and the largest of the four quotients of their ends, if
the interval of b excludes 0.

A ratio is shown only where b̂ is at least `MIN_DENOMINATOR` standard errors; elsewhere it is not determined,
which counts as covering. Choosing by b̂ what to show lowers the coverage of what is shown where b is small:
docs/ratios.md has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from leastnoise.core.operators import Array

# Standard errors of the denominator, at least, for a ratio to be shown: a coefficient of variation of at most
# 25 %. Below 2, no interval is bounded at level 0.95; from 4 on the interval is nearly symmetric.
MIN_DENOMINATOR = 4.0

# Why a ratio is not determined, or "" where it is.
DETERMINED = ""
SMALL_DENOMINATOR = "denominator too small for its noise"
OUTSIDE = "no possible value agrees with the release"


@dataclass(frozen=True, eq=False)
class RatioErrors:
    """Numerators and denominators with what is known about their errors, one of each per ratio, (k,).

    Attributes:
        numerator: the unbiased answers â.
        denominator: the unbiased answers b̂.
        var_numerator: σ_aa.
        covariance: σ_ab.
        var_denominator: σ_bb.
        half_widths: for noise that is not Gaussian, half the widths of intervals that hold each numerator
            and its denominator at once with the wanted probability; None for Gaussian noise.
    """

    numerator: Array
    denominator: Array
    var_numerator: Array
    covariance: Array
    var_denominator: Array
    half_widths: tuple[Array, Array] | None = None


@dataclass(frozen=True, eq=False)
class RatioIntervals:
    """Estimates and intervals, (k,); NaN where a ratio is not determined, and the reason.

    Attributes:
        estimate: â/b̂, moved into the possible range.
        stderr: its standard error to first order, √(σ_aa − 2tσ_ab + t²σ_bb)/|b̂| with t = â/b̂.
        lower: the lower end.
        upper: the upper end.
        reasons: for each ratio `DETERMINED`, `SMALL_DENOMINATOR` or `OUTSIDE`.
    """

    estimate: Array
    stderr: Array
    lower: Array
    upper: Array
    reasons: tuple[str, ...]


def fieller_ends(errors: RatioErrors, level: float) -> tuple[Array, Array]:
    """The ends of the Fieller set (1) where it is bounded, NaN elsewhere.

    With A = b² − z²σ_bb, the ends are the roots of A θ² − 2 (ab − z²σ_ab) θ + (a² − z²σ_aa). The discriminant
    divided by z² is b² Var(a − t b) − z² (σ_aa σ_bb − σ_ab²) with t = a/b, which does not cancel for large b.
    """
    # The lower tail: (1 + level) / 2 rounds to 1 for levels next to 1.
    z = -NormalDist().inv_cdf((1 - level) / 2)
    a, b = errors.numerator, errors.denominator
    aa, ab, bb = errors.var_numerator, errors.covariance, errors.var_denominator
    leading = b**2 - z**2 * bb
    is_bounded = leading > 0
    safe_b, safe = np.where(is_bounded, b, 1.0), np.where(is_bounded, leading, 1.0)
    t = a / safe_b
    # Rounding may leave variances of combinations slightly below zero.
    of_residual = np.maximum(aa - 2 * t * ab + t**2 * bb, 0)
    determinant = np.maximum(aa * bb - ab**2, 0)
    root = z * np.sqrt(np.maximum(b**2 * of_residual - z**2 * determinant, 0))
    middle = a * b - z**2 * ab
    lower = np.where(is_bounded, (middle - root) / safe, np.nan)
    upper = np.where(is_bounded, (middle + root) / safe, np.nan)
    return lower, upper


def quotient_ends(errors: RatioErrors) -> tuple[Array, Array]:
    """The least and the largest quotient of the numbers in two intervals; NaN where b's holds 0."""
    assert errors.half_widths is not None
    of_a, of_b = errors.half_widths
    a, b = errors.numerator, errors.denominator
    is_bounded = np.abs(b) > of_b
    quotients = np.array(
        [(a + i * of_a) / np.where(is_bounded, b + j * of_b, 1.0) for i in (-1, 1) for j in (-1, 1)]
    )
    lower = np.where(is_bounded, quotients.min(axis=0), np.nan)
    upper = np.where(is_bounded, quotients.max(axis=0), np.nan)
    return lower, upper


def ratio_intervals(
    errors: RatioErrors,
    level: float,
    *,
    shift: float = 0.0,
    possible: tuple[float, float] = (-np.inf, np.inf),
    positive: bool = False,
    estimates: tuple[Array, Array] | None = None,
    min_denominator: float = MIN_DENOMINATOR,
) -> RatioIntervals:
    """Every ratio, shift + a/b, with an interval that holds it with probability `level` or more.

    Args:
        shift: what is added to each: the centre of a mean whose numerator is Σ(v − centre).
        possible: what the ratio can be; ends are cut to it.
        positive: whether denominators are counts, so that a negative one is too small.
        estimates: numerators and denominators that the estimates are made of, where they are not the
            unbiased ones: those of an adjusted release.
        min_denominator: standard errors that the denominator must be away from zero, at least.
    """
    lower, upper = fieller_ends(errors, level) if errors.half_widths is None else quotient_ends(errors)
    b = errors.denominator if positive else np.abs(errors.denominator)
    is_large = (b > 0) & (b >= min_denominator * np.sqrt(errors.var_denominator)) & np.isfinite(lower)
    lower, upper = shift + lower, shift + upper
    is_possible = is_large & (upper >= possible[0]) & (lower <= possible[1])
    a_hat, b_hat = estimates or (errors.numerator, errors.denominator)
    has_estimate = is_possible & (b_hat != 0)
    estimate = shift + np.where(has_estimate, a_hat / np.where(b_hat != 0, b_hat, 1.0), np.nan)
    reasons = tuple(
        DETERMINED if shown else (OUTSIDE if large else SMALL_DENOMINATOR)
        for shown, large in zip(is_possible, is_large, strict=True)
    )
    return RatioIntervals(
        estimate=np.clip(estimate, *possible),
        stderr=np.where(is_possible, _first_order(errors), np.nan),
        lower=np.where(is_possible, np.clip(lower, *possible), np.nan),
        upper=np.where(is_possible, np.clip(upper, *possible), np.nan),
        reasons=reasons,
    )


def difference_ends(
    first: tuple[Array, Array, Array], second: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    """The ends of intervals for θ₂ − θ₁, from the estimates and intervals of two independent ratios.

    With d = θ̂₂ − θ̂₁, by recovering variances at the ends:

        d − √((θ̂₂ − l₂)² + (u₁ − θ̂₁)²)   to   d + √((u₂ − θ̂₂)² + (θ̂₁ − l₁)²)

    Args:
        first: estimates θ̂₁, lower ends l₁ and upper ends u₁, not cut to what is possible.
        second: likewise.

    Reference:
        Donner and Zou (2012), Statistical Methods in Medical Research 21(4), 347-359, section 2.
    """
    change = second[0] - first[0]
    lower = change - np.hypot(second[0] - second[1], first[2] - first[0])
    upper = change + np.hypot(second[2] - second[0], first[0] - first[1])
    return lower, upper


def _first_order(errors: RatioErrors) -> Array:
    """Standard errors of quotients by the delta method; 0 where the denominator is."""
    b = np.where(errors.denominator != 0, errors.denominator, np.inf)
    t = errors.numerator / b
    variance = errors.var_numerator - 2 * t * errors.covariance + t**2 * errors.var_denominator
    # Rounding may leave it slightly below zero.
    return np.asarray(np.sqrt(np.maximum(variance, 0)) / np.abs(b))
