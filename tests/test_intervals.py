"""Half-widths of intervals against closed forms and an exact distribution worked out the slow way."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import leastnoise as ln
from leastnoise.core.errors import InputError
from leastnoise.core.operators import from_entries
from leastnoise.query import workload_of_rows
from leastnoise.release import intervals
from leastnoise.release.intervals import half_widths, simultaneous_multiplier
from leastnoise.strategy import Strategy
from support import refuses
from tolerances import CHANCE, ROUNDING

LEVELS = (0.5, 0.8, 0.95, 0.99, 0.999)


def gaussian(rows=None, n=1):
    """A strategy on few rows, wide enough that its noise is Gaussian to rounding."""
    return Strategy(np.eye(n, dtype=np.int64) if rows is None else rows, scale=2**40, noise="gaussian")


def stderr_of(operator, strategy):
    return np.sqrt(np.diag(operator.dense() @ strategy.covariance @ operator.dense().T))


def multiplier(W, level, generator=None, strategy=None):
    operator = from_entries(np.asarray(W))
    chosen = strategy or gaussian(n=operator.shape[1])
    return simultaneous_multiplier(
        workload_of_rows(operator), chosen, stderr_of(operator, chosen), level, generator
    )


def sidak(level, m):
    return stats.norm.isf((1 - level ** (1 / m)) / 2)


def is_on_the_safe_side(found, distribution, level):
    """Whether a simulated multiplier's true coverage is as likely as an order statistic's.

    The r-th of n simulated maxima has coverage Beta(r, n + 1 − r), r two standard errors
    above n·level; outside both CHANCE/2 quantiles of it, or above Šidák, it is wrong.
    """
    n = intervals._DRAWS
    r = math.ceil(n * level + 2 * math.sqrt(n * level * (1 - level)))
    low, high = stats.beta.ppf([CHANCE / 2, 1 - CHANCE / 2], r, n + 1 - r)
    return bool(low <= distribution(found) <= high)


# ------------------------------------------------------------------ all at once, Gaussian


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("m", [2, 5, 40])
def test_independent_queries_get_sidaks_value_up_to_simulation(m, level):
    def coverage(z):
        return (2 * stats.norm.cdf(z) - 1) ** m

    found = multiplier(np.eye(m), level)
    assert found <= sidak(level, m) * (1 + ROUNDING)
    # Šidák's value is a cap and the truth at once, so only the lower end of chance remains.
    assert is_on_the_safe_side(found, coverage, level) or found == pytest.approx(
        sidak(level, m), rel=ROUNDING
    )
    assert coverage(found) > level - 0.01
    assert not is_on_the_safe_side(0.95 * found, coverage, level)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_duplicates_get_the_single_quantile(level):
    def coverage(z):
        return 2 * stats.norm.cdf(z) - 1

    found = multiplier(np.ones((30, 1)), level)
    assert is_on_the_safe_side(found, coverage, level)
    # At 0.99, 5 % of a single quantile is within the chance of a simulation.
    assert not is_on_the_safe_side((0.95 if level < 0.99 else 0.9) * found, coverage, level)
    assert not is_on_the_safe_side(sidak(level, 30), coverage, level)


@pytest.mark.parametrize("W", [np.eye(6), np.ones((6, 2)), np.tri(6), np.tri(40, 8)], ids=str)
def test_multiplier_grows_with_the_level_and_stays_below_sidak(W):
    found = [multiplier(W, level) for level in LEVELS]
    assert found == sorted(found)
    for level, value in zip(LEVELS, found, strict=True):
        assert value <= sidak(level, len(W)) * (1 + ROUNDING)
        assert value >= multiplier(np.ones((1, 1)), level) * 0.99


def test_beyond_what_is_simulated_sidak_is_used():
    level = 1 - 1e-6
    assert multiplier(np.tri(7), level) == pytest.approx(sidak(level, 7), rel=1e-9)


def test_one_query_gets_its_single_quantile_exactly():
    for level in LEVELS:
        assert multiplier([[1, 2, 3]], level) <= stats.norm.ppf((1 + level) / 2) * (1 + ROUNDING)


def test_zero_queries_take_no_part():
    W = np.vstack([np.eye(3), np.zeros((50, 3))])
    operator, strategy = from_entries(W), gaussian(n=3)
    half = half_widths(workload_of_rows(operator), strategy, stderr_of(operator, strategy), 0.9, True, None)
    assert (half[3:] == 0).all() and (half[:3] > 0).all()
    assert (half[:3] <= sidak(0.9, 3) * strategy.scale * (1 + ROUNDING)).all()


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_only_zero_queries_give_zero_width(noise, simultaneous):
    strategy = Strategy(np.eye(3, dtype=np.int64), scale=100, noise=noise)
    half = half_widths(
        workload_of_rows(from_entries(np.zeros((2, 3)))), strategy, np.zeros(2), 0.9, simultaneous, None
    )
    assert half.tolist() == [0, 0]


def test_default_is_the_same_every_time_and_a_generator_is_honoured():
    W = np.tri(6)
    assert multiplier(W, 0.9) == multiplier(W, 0.9)
    own = [multiplier(W, 0.9, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert own[0] == own[1] != own[2]
    assert own[0] != multiplier(W, 0.9)
    spent = np.random.default_rng(1)
    multiplier(W, 0.9, spent)
    assert spent.random() != np.random.default_rng(1).random()


class Watched(np.random.Generator):
    """A generator that remembers how many numbers were asked of it at a time."""

    def __init__(self):
        super().__init__(np.random.PCG64(3))
        self.sizes = []

    def standard_normal(self, size=None, **options):
        self.sizes.append(math.prod(size))
        return super().standard_normal(size, **options)


def test_few_queries_over_many_rows_are_simulated_in_small_pieces(monkeypatch):
    """One query over thousands of cells used to ask for all simulated noise at once: 3 GB at 20,000."""
    monkeypatch.setattr(intervals, "_CHUNK_ENTRIES", 2**16)
    watched = Watched()
    assert 1.6 < multiplier(np.ones((2, 300)), 0.9, watched) < 1.72
    assert max(watched.sizes) <= 2**16 and sum(watched.sizes) == 300 * intervals._DRAWS


def test_very_many_queries_are_simulated_fewer_times(monkeypatch):
    monkeypatch.setattr(intervals, "_SIMULATION_ENTRIES", 50_000)
    watched = Watched()
    assert multiplier(np.tri(30), 0.9, watched) <= sidak(0.9, 30)
    assert sum(watched.sizes) == 30 * intervals._MIN_DRAWS


# -------------------------------------------------------------------- single, Gaussian


@pytest.mark.parametrize("level", [1e-9, *LEVELS, 1 - 1e-12, math.nextafter(1, 0)])
def test_single_gaussian_half_widths_are_normal_quantiles(level):
    """At the last float below 1 this used to fail: (1 + level)/2 rounded to 1."""
    strategy = gaussian(n=2)
    stderr = np.array([0.0, 3.0])
    half = half_widths(
        workload_of_rows(from_entries(np.array([[0, 0], [1, 1]]))), strategy, stderr, level, False, None
    )
    assert half[0] == 0
    assert half[1] == pytest.approx(3 * stats.norm.isf((1 - level) / 2), rel=1e-9, abs=1e-15)


# ------------------------------------------------------------------------ Laplace noise


def laplace_mass(scale, coefficient, reach):
    """The law of coefficient·X on −reach..reach, X discrete Laplace; what lies outside is left out."""
    p = math.exp(-1 / scale)
    mass = np.zeros(2 * reach + 1)
    for x in range(-(reach // coefficient), reach // coefficient + 1):
        mass[reach + coefficient * x] = p ** abs(x) * (1 - p) / (1 + p)
    return mass


def exact_tail(scale, coefficients, half):
    """P(|Σ g X| > half) for whole coefficients, by convolution."""
    reach = sum(coefficients) * 45 * scale  # beyond it lie less than 3 exp(−45)
    mass = laplace_mass(scale, coefficients[0], reach)
    for g in coefficients[1:]:
        mass = np.convolve(mass, laplace_mass(scale, g, reach), mode="same")
    values = np.arange(-reach, reach + 1)
    return float(mass[np.abs(values) > half].sum())


def laplace_half(scale, coefficients, level, simultaneous=False):
    k = len(coefficients)
    strategy = Strategy(np.eye(k, dtype=np.int64), scale=scale, noise="laplace")
    W = from_entries(np.array([coefficients]))
    return half_widths(workload_of_rows(W), strategy, stderr_of(W, strategy), level, simultaneous, None)[0]


def is_long_enough(scale, coefficients, level, half):
    """Whether the true tail beyond the half-width is at most 1 − level, up to rounding."""
    return exact_tail(scale, coefficients, half) <= (1 - level) * (1 + ROUNDING)


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize("coefficients", [(1, 1), (1, 2), (3, 1, 1), (1,) * 6, (5, 1, 0, 1)], ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_laplace_half_widths_are_never_below_the_true_quantile(scale, coefficients, level):
    half = laplace_half(scale, coefficients, level)
    nonzero = [g for g in coefficients if g]
    assert is_long_enough(scale, nonzero, level, half)
    truth = next(t for t in range(10**4) if is_long_enough(scale, nonzero, level, t))
    # A broken twin: one step short of the true quantile.
    assert truth == 0 or not is_long_enough(scale, nonzero, level, truth - 1)
    assert half <= 3 * (truth + scale * max(nonzero)), "safe, but not absurd"


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [1, 2, 5, 40])
@pytest.mark.parametrize("coefficient", [1, 3])
@pytest.mark.parametrize("level", LEVELS)
def test_laplace_half_width_of_one_coefficient_is_exact(scale, coefficient, level):
    half = laplace_half(scale, (coefficient,), level)
    truth = next(t for t in range(10**4) if is_long_enough(scale, (coefficient,), level, coefficient * t))
    assert half == pytest.approx(coefficient * truth, rel=ROUNDING)


@pytest.mark.parametrize("scale", [1, 7, 2**14, 2**40])
@pytest.mark.parametrize("level", LEVELS)
def test_laplace_tail_formula_in_exact_powers(scale, level):
    """P(|X| > k) = 2 p^(k+1)/(1 + p) is at most 1 − level at k, and more one step before."""
    k = round(laplace_half(scale, (1,), level))

    def tail(steps):
        return 2 * math.exp(-(steps + 1) / scale) / (1 + math.exp(-1 / scale))

    assert tail(k) <= (1 - level) * (1 + ROUNDING)
    assert k == 0 or tail(k - 1) * (1 + ROUNDING) > 1 - level


def test_laplace_widths_keep_their_digits_at_huge_scales():
    """At b = 2^60 the step from the line to the grid is far below rounding: the width must scale."""
    usual, huge = (laplace_half(2**bits, (1, 1, 1), 0.95) / 2**bits for bits in (28, 60))
    assert usual == pytest.approx(huge + 3 / 2**28, rel=ROUNDING)


def test_laplace_simultaneous_shares_the_level_over_the_queries():
    strategy = Strategy(np.eye(5, dtype=np.int64), scale=1000, noise="laplace")
    W = from_entries(np.vstack([np.eye(5), np.zeros((3, 5))]))
    joint = half_widths(workload_of_rows(W), strategy, stderr_of(W, strategy), 0.9, True, None)
    shared = laplace_half(1000, (1,), float(1 - Fraction(1, 50)))
    assert joint[:5] == pytest.approx([shared] * 5, abs=1)
    assert (joint[5:] == 0).all()


# ---------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("level", [0, 1, 0.0, 1.0, -0.5, 95, math.nan, math.inf, True, "0.9", None, [0.9]])
def test_level_must_be_a_share(level):
    strategy = gaussian()
    for simultaneous in (False, True):
        with refuses(InputError, "level", ..., "level must lie between 0 and 1, as in 0.95, got"):
            half_widths(
                workload_of_rows(from_entries(np.eye(1))), strategy, np.ones(1), level, simultaneous, None
            )


@pytest.mark.parametrize("generator", [0, np.random.RandomState(0), "1"], ids=str)
def test_generator_must_be_one(generator):
    with refuses(InputError, "generator", ..., "generator must be a NumPy one, as in"):
        half_widths(
            workload_of_rows(from_entries(np.eye(2))), gaussian(n=2), np.ones(2), 0.9, True, generator
        )


def test_release_passes_its_arguments_on():
    plan = ln.design(ln.Workload.from_matrix(np.tri(6)), ln.GDP(1))
    release = ln.Release(plan, np.zeros(6, dtype=object))
    lower, upper = release.interval(0.8)
    assert upper == pytest.approx(stats.norm.ppf(0.9) * plan.stderr, rel=ROUNDING)
    assert lower == pytest.approx(-upper, rel=ROUNDING)
    joint = release.interval(0.8, simultaneous=True)[1]
    other = release.interval(0.8, simultaneous=True, generator=np.random.default_rng(5))[1]
    assert (joint > upper).all() and not np.array_equal(joint, other)
    assert np.array_equal(joint, release.interval(0.8, simultaneous=True)[1])
