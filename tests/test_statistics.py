"""What a release claims about chance, against many releases of the integer mechanism itself.

Every check returns whether what it saw is possible; it calls a right mechanism
wrong at most once in 1/CHANCE runs, and its twin, wrong by 5 %, is put to the
same check. Bits come from explicit seeds, so a run repeats; the rates are those
over the seeds. With σ of at least 2^14 grid steps, Gaussian noise differs from
its continuous law by less than 1e-9 of anything tested here.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

import leastnoise as ln
from leastnoise import release
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.release import intervals
from leastnoise.strategy import Strategy
from tolerances import CHANCE

LEVELS = (0.5, 0.9, 0.99)


class SeededBits:
    """Repeatable bits from an explicit numpy generator."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def bits(self, n: int) -> int:
        n_bytes = (n + 7) // 8
        return int.from_bytes(self.rng.bytes(n_bytes), "little") >> (8 * n_bytes - n)


# ------------------------------------------------------------- plans and many releases


def dense_plan():
    schema = ln.Schema(age=range(4), sex=("F", "M"))
    return ln.design(ln.assemble([ln.Marginal("age", "sex"), ln.Prefix("age")], schema), ln.GDP(1))


def low_rank_plan():
    W = np.array([[1, 1, 1, 0, 0, 0, 2, 0, 1], [0, 1, 1, 1, 0, 1, 0, 3, 1], [1, 2, 2, 1, 0, 1, 2, 3, 2]])
    plan = ln.design(ln.Workload.from_matrix(W), ln.ApproxDP(epsilon=2, delta=1e-5))
    assert plan.strategy.shape[0] == 2  # the third row is the sum of the others
    return plan


def hierarchical_plan():
    workload = ln.assemble([ln.AllRanges("age")], ln.Schema(age=range(8)))
    return ln.design(workload, ln.ZCDP(0.5), method="hierarchical")


def laplace_plan():
    workload = ln.assemble([ln.Prefix("age"), ln.Marginal("age")], ln.Schema(age=range(6)))
    return ln.design(workload, ln.PureDP(1), method="hierarchical")


def laplace_cells_plan():
    return ln.design(ln.assemble([ln.Marginal("age")], ln.Schema(age=range(4))), ln.PureDP(1))


def prefix_plan():
    """64 prefix sums of independently noisy cells: a random walk."""
    return ln.design(ln.assemble([ln.Prefix("age")], ln.Schema(age=range(64))), ln.GDP(1), method="identity")


def near_duplicates_plan():
    """Four queries that differ in one part in fifty."""
    return ln.design(ln.Workload.from_matrix(np.full((4, 4), 50) + np.eye(4, dtype=int)), ln.GDP(1))


def cells_plan():
    return ln.design(ln.assemble([ln.Marginal("age")], ln.Schema(age=range(32))), ln.GDP(1))


PLANS = {
    "dense": dense_plan,
    "low rank": low_rank_plan,
    "hierarchical": hierarchical_plan,
    "laplace": laplace_plan,
    "laplace cells": laplace_cells_plan,
    "prefix": prefix_plan,
    "near duplicates": near_duplicates_plan,
    "cells": cells_plan,
}
# Draws of all rows together stay near a million.
N_RELEASES = {
    "dense": 40_000,
    "low rank": 100_000,
    "hierarchical": 40_000,
    "laplace": 100_000,
    "laplace cells": 100_000,
    "prefix": 20_000,
    "near duplicates": 200_000,
    "cells": 25_000,
}
FOUR = ["dense", "low rank", "hierarchical", "laplace"]


@lru_cache
def plan_named(name):
    return PLANS[name]()


def measured_often(strategy, counts, n_releases, seed, scale):
    """(rows, n_releases) measurements by the private step itself, told that every row comes many times."""
    repeated = Strategy(np.tile(strategy.entries, (n_releases, 1)), scale=scale, noise=strategy.noise)
    y = release.with_noise(repeated, repeated.answers(np.asarray(counts, dtype=np.int64)), SeededBits(seed))
    return y.reshape(n_releases, strategy.shape[0]).T


@lru_cache
def errors_of(name, percent=100):
    """(m, n_releases) errors of the answers; the noise scale is off unless percent is 100."""
    plan = plan_named(name)
    n = plan.workload.shape[1]
    counts = 1000 * np.arange(n) + 17
    scale = plan.strategy.scale * percent // 100
    y = measured_often(plan.strategy, counts, N_RELEASES[name], n + percent, scale)
    answers = ln.Release(plan, y).answers  # the formulas of a release are linear: columns stay apart
    return answers - (plan.workload.dense() @ counts)[:, None]


def gains(plan):
    """W A⁺, (m, rows): each answer's error is such a combination of the rows' noise."""
    return plan.workload.dense() @ np.linalg.pinv(plan.strategy.dense())


# ---------------------------------------------------------------------------- judges


def is_stderr_right(errors, stderr, kurtosis=None):
    """Whether Σ error²/stderr² of each row of errors may have the claimed standard error.

    Gaussian errors: the sum is chi-square with N degrees of freedom, two tails of
    CHANCE/m each (Bonferroni). Others: a mean of N squares of relative variance
    κ − 1. Their skewness is at most that of a squared Laplace variable, 592/20^1.5
    = 6.6, which changes a normal tail at z by exp(6.6 z³/(6√N)), below 2 for z = 5.5
    and N = 100,000; so half the rate is used.
    """
    m, n = errors.shape
    total = (errors**2).sum(axis=1) / stderr**2
    if kurtosis is None:
        low, high = stats.chi2.ppf([CHANCE / (2 * m), 1 - CHANCE / (2 * m)], n)
        return bool(((low < total) & (total < high)).all())
    z = stats.norm.isf(CHANCE / (4 * m))
    assert n >= 100_000 and z < 5.5
    return bool((np.abs(total / n - 1) < z * np.sqrt((kurtosis - 1) / n)).all())


def is_unbiased(errors, stderr):
    """Whether the mean error may be zero: N(0, stderr²/N), two tails of CHANCE/m.

    For Laplace noise the excess kurtosis of a mean, at most 3/N, moves the tail at
    z = 5.5 by exp(3 z⁴/(24 N)) = 1.001.
    """
    m, n = errors.shape
    z = np.abs(errors.mean(axis=1)) * math.sqrt(n) / stderr
    return bool((z < stats.norm.isf(CHANCE / (2 * m))).all())


def coverage_bounds(hits, n, rate):
    """Clopper and Pearson's bounds on a probability, each side exceeded with chance rate/2 at most."""
    low = np.where(hits > 0, stats.beta.ppf(rate / 2, np.maximum(hits, 1), n - hits + 1), 0)
    high = np.where(hits < n, stats.beta.isf(rate / 2, hits + 1, np.maximum(n - hits, 1)), 1)
    return low, high


def has_coverage(errors, half, lowest, highest):
    """Whether each interval's probability to hold the truth may lie in [lowest, highest]."""
    m, n = errors.shape
    low, high = coverage_bounds((np.abs(errors) <= half[:, None]).sum(axis=1), n, CHANCE / m)
    return bool(((low <= highest) & (high >= lowest)).all())


def has_joint_coverage(errors, half, level):
    """Whether all intervals at once may hold with the level, up to one percentage point more.

    The multiplier is the r-th of n simulated maxima, so its coverage is Beta(r, n + 1 − r)
    distributed; below its CHANCE quantile, less than a percentage point under the
    level, it is wrong.
    """
    n = intervals._DRAWS
    r = math.ceil(n * level + 2 * math.sqrt(n * level * (1 - level)))
    lowest = stats.beta.ppf(CHANCE, r, n + 1 - r)
    assert level - 0.01 < lowest < level
    inside = (np.abs(errors) <= half[:, None]).all(axis=0)
    low, high = coverage_bounds(inside.sum(), len(inside), CHANCE)
    return bool(low <= level + 0.01 and high >= lowest)


def keeps_gaussian_privacy(statistic, other, mu, thresholds):
    """Whether tests "statistic > t" of two neighbouring tables may obey μ-GDP.

    Its type I and II errors must have β ≥ Φ(Φ⁻¹(1 − α) − μ), which decreases in α;
    a violation is seen when it holds for upper bounds on both, each exceeded with
    chance CHANCE/2 over all thresholds.
    """
    rate = CHANCE / len(thresholds)
    for t in thresholds:
        alpha = coverage_bounds((statistic > t).sum(), len(statistic), rate)[1]
        beta = coverage_bounds((other <= t).sum(), len(other), rate)[1]
        if beta < stats.norm.cdf(stats.norm.isf(alpha) - mu):
            return False
    return True


def keeps_pure_privacy(is_event, is_event_of_other, epsilon):
    """Whether P(event) ≤ e^ε P'(event) is possible, at the rate CHANCE."""
    low = coverage_bounds(is_event.sum(), len(is_event), CHANCE)[0]
    high = coverage_bounds(is_event_of_other.sum(), len(is_event_of_other), CHANCE)[1]
    return bool(low <= math.exp(epsilon) * high)


# -------------------------------------------------------------------- claimed accuracy


def kurtosis_of(plan):
    """The kurtosis of each answer's error where noise is Laplace: 3 + 3 Σg⁴/(Σg²)²."""
    if plan.strategy.noise == "gaussian":
        return None
    G = gains(plan)
    return 3 + 3 * (G**4).sum(axis=1) / (G**2).sum(axis=1) ** 2


@pytest.mark.thorough
@pytest.mark.parametrize("name", FOUR)
def test_claimed_standard_errors_are_right(name):
    plan = plan_named(name)
    assert is_stderr_right(errors_of(name), plan.stderr, kurtosis_of(plan))
    assert not is_stderr_right(errors_of(name), plan.stderr * 1.05, kurtosis_of(plan))
    assert not is_stderr_right(errors_of(name, percent=95), plan.stderr, kurtosis_of(plan))


@pytest.mark.parametrize("name", FOUR)
def test_answers_are_unbiased(name):
    plan = plan_named(name)
    assert is_unbiased(errors_of(name), plan.stderr)
    assert not is_unbiased(errors_of(name) + 0.05 * plan.stderr[:, None], plan.stderr)


@pytest.mark.parametrize("name", FOUR)
def test_answers_err_together_as_the_covariance_says(name):
    """A chosen contrast: the difference of two overlapping answers."""
    plan = plan_named(name)
    first, second = {"dense": (8, 9), "low rank": (2, 1), "hierarchical": (7, 6), "laplace": (3, 4)}[name]
    W, G = plan.workload.dense(), gains(plan)
    contrast = W[first] - W[second]
    claimed = np.sqrt(contrast @ plan.strategy.covariance @ contrast)
    errors = errors_of(name)[[first]] - errors_of(name)[[second]]
    g = G[first] - G[second]
    kurtosis = None if plan.strategy.noise == "gaussian" else 3 + 3 * (g**4).sum() / (g**2).sum() ** 2
    assert is_stderr_right(errors, claimed, kurtosis)
    assert not is_stderr_right(errors, 1.05 * claimed, kurtosis)
    as_if_independent = math.hypot(plan.stderr[first], plan.stderr[second])
    assert not is_stderr_right(errors, as_if_independent, kurtosis)


def test_measure_itself_adds_all_of_the_noise():
    """The public step with the system's bits: Σ (y − Ax)²/σ² over all rows is chi-square."""
    plan = plan_named("prefix")
    counts = np.arange(64)
    with pytest.warns(UnrecordedSpending):
        y = np.array([ln.measure(plan, counts).measurements for _ in range(600)])
    noise = (y - plan.strategy.answers(counts)).astype(float).reshape(1, -1)
    assert is_stderr_right(noise, plan.strategy.scale)
    assert not is_stderr_right(0.95 * noise, plan.strategy.scale)


# ---------------------------------------------------------------------------- intervals


def half_of(name, level, *, simultaneous=False):
    """Half-widths as a reader of a release gets them."""
    plan = plan_named(name)
    lower, upper = ln.Release(plan, np.zeros(plan.strategy.shape[0], dtype=object)).interval(
        level, simultaneous=simultaneous
    )
    return (upper - lower) / 2


@pytest.mark.parametrize("name", FOUR[:3])
@pytest.mark.parametrize("level", LEVELS)
def test_single_intervals_hold_as_often_as_they_say(name, level):
    errors, half = errors_of(name), half_of(name, level)
    assert has_coverage(errors, half, level, level)
    assert not has_coverage(errors, 0.95 * half, level, level)
    assert not has_coverage(errors, half / 0.95, level, level)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["prefix", "near duplicates", "cells"])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_simultaneous_intervals_hold_within_a_percentage_point(name, level):
    errors, half = errors_of(name), half_of(name, level, simultaneous=True)
    assert has_joint_coverage(errors, half, level)
    # At 0.99, 5 % of the width is half a percentage point, too little to be seen here.
    assert not has_joint_coverage(errors, (0.95 if level < 0.99 else 0.9) * half, level)


@pytest.mark.parametrize("name", ["prefix", "near duplicates"])
def test_sidak_would_be_too_wide_where_answers_err_together(name):
    stderr = plan_named(name).stderr
    sidak = stats.norm.ppf((1 + 0.9 ** (1 / len(stderr))) / 2)
    assert not has_joint_coverage(errors_of(name), sidak * stderr, 0.9)


def test_single_intervals_would_not_hold_all_at_once():
    for name in ("prefix", "cells"):
        assert not has_joint_coverage(errors_of(name), half_of(name, 0.9), 0.9)


@pytest.mark.parametrize("name", ["laplace", "laplace cells"])
@pytest.mark.parametrize("level", LEVELS)
def test_laplace_intervals_never_hold_too_rarely(name, level):
    assert has_coverage(errors_of(name), half_of(name, level), level, 1)
    joint = half_of(name, level, simultaneous=True)
    together = (np.abs(errors_of(name)) / joint[:, None]).max(axis=0, keepdims=True)
    assert has_coverage(together, np.ones(1), level, 1)


@pytest.mark.parametrize("level", LEVELS)
def test_laplace_intervals_of_one_coefficient_are_exact(level):
    errors, half = errors_of("laplace cells"), half_of("laplace cells", level)
    assert has_coverage(errors, half, level, level)
    assert not has_coverage(errors, 0.95 * half, level, 1)


def test_gaussian_intervals_would_be_too_short_for_laplace_noise():
    stderr = plan_named("laplace cells").stderr
    assert not has_coverage(errors_of("laplace cells"), stats.norm.ppf(0.995) * stderr, 0.99, 1)


# ------------------------------------------------------------------------------ privacy


def worst_cell(strategy):
    """The cell whose record costs most."""
    return int(np.argmax(np.array(strategy.column_costs, dtype=float)))


def neighbouring_measurements(plan, n_releases, scale):
    """Measurements of a table, and of the same with one more record in the worst cell."""
    x = np.full(plan.workload.shape[1], 40)
    more = x.copy()
    more[worst_cell(plan.strategy)] += 1
    return [
        measured_often(plan.strategy, counts, n_releases, seed, scale)
        for seed, counts in enumerate((x, more), start=5)
    ], x


@pytest.mark.parametrize("method", ["dense", "hierarchical"])
def test_gaussian_releases_keep_their_privacy(method):
    """The likelihood-ratio test between neighbours, at thresholds chosen beforehand."""
    mu = 2
    workload = ln.assemble([ln.Prefix("age")], ln.Schema(age=range(4)))
    plan = ln.design(workload, ln.GDP(mu), method=method)
    a = plan.strategy.entries[:, worst_cell(plan.strategy)].astype(float)
    verdicts = []
    for percent in (100, 95):
        scale = plan.strategy.scale * percent // 100
        pair, x = neighbouring_measurements(plan, 60_000, scale)
        centred = [(y - plan.strategy.answers(x)[:, None]).astype(float) for y in pair]
        # Standard normal without the record, of mean μ with it, if all is right.
        none, one = (a @ c / (np.linalg.norm(a) * plan.strategy.scale) for c in centred)
        verdicts.append(keeps_gaussian_privacy(none, one, mu, thresholds=(0.5, 1.0, 1.5)))
    assert verdicts == [True, False]


def test_laplace_releases_keep_their_privacy():
    """The event that most favours one neighbour: the worst cell's row at or below its count."""
    epsilon = 2
    plan = ln.design(ln.Workload.from_matrix([[1]]), ln.PureDP(epsilon))
    verdicts = []
    for percent in (100, 95):
        scale = plan.strategy.scale * percent // 100
        (none, one), x = neighbouring_measurements(plan, 400_000, scale)
        threshold = plan.strategy.answers(x)[0]
        verdicts.append(keeps_pure_privacy((none <= threshold)[0], (one <= threshold)[0], epsilon))
    assert verdicts == [True, False]


def test_bounds_on_a_probability_are_those_of_the_binomial():
    """Clopper and Pearson's ends are where a tail of the binomial has half the rate."""
    for hits, n in ((3, 50), (49, 50), (700, 1000)):
        low, high = coverage_bounds(np.array(hits), n, 0.01)
        assert stats.binom.sf(hits - 1, n, low) == pytest.approx(0.005)
        assert stats.binom.cdf(hits, n, high) == pytest.approx(0.005)
    assert coverage_bounds(np.array(0), 50, 0.01)[0] == 0
    assert coverage_bounds(np.array(50), 50, 0.01)[1] == 1
