"""Tails of weighted sums of Laplace noise against closed forms in 150 digits, and against the sampler."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from leastnoise.core.operators import from_entries
from leastnoise.query import workload_of_rows
from leastnoise.release.intervals import half_widths as interval_half_widths
from leastnoise.release.noise import discrete_laplace
from leastnoise.strategy import Strategy, laplace_tails
from leastnoise.strategy.laplace_tails import chernoff, half_widths, quantile
from tolerances import CHANCE, ROUNDING

ALPHAS = (0.5, 0.1, 0.05, 0.01, 1e-4, 1e-8, 1e-13)
DIGITS = 150

# What is promised about tightness: at 0.1 % less, the tail is already too heavy.
TIGHT = 0.999


def tail_of_distinct(g, t):
    """P(|Σ g L| > t) = Σ_j exp(−t/g_j) Π_{i≠j} g_j²/(g_j² − g_i²): partial fractions of Π 1/(1 − g²z²)."""
    with localcontext() as context:
        context.prec = DIGITS
        squares = [Decimal(float(a)) ** 2 for a in g]
        total = Decimal(0)
        for j, a in enumerate(squares):
            weight = (-Decimal(float(t)) / Decimal(float(g[j]))).exp()
            for b in squares[:j] + squares[j + 1 :]:
                weight *= a / (a - b)
            total += weight
        return total


def tail_of_equal(r, t):
    """P(|L_1 + … + L_r| > t), from the density of the sum for x > 0,

    exp(−x)/(2^r (r − 1)!) Σ_k (r − 1 + k)!/(k! (r − 1 − k)!) x^(r−1−k)/2^k,
    and ∫_t^∞ x^j exp(−x) dx = j! exp(−t) Σ_{i≤j} t^i/i!.
    """
    with localcontext() as context:
        context.prec = DIGITS
        x, total = Decimal(float(t)), Decimal(0)
        for k in range(r):
            j = r - 1 - k
            beyond = sum((x**i / math.factorial(i) for i in range(j + 1)), Decimal(0))
            total += Decimal(math.factorial(r - 1 + k)) / math.factorial(k) / 2**k * beyond
        return 2 * total * (-x).exp() / 2**r / math.factorial(r - 1)


@lru_cache
def random_coefficients():
    """240 lists of distinct coefficients of every spread: nearly equal, mixed, one that rules them all."""
    rng = np.random.default_rng(11)
    spreads = np.tile([0.05, 0.5, 2, 6], 60)
    return [np.exp(spread * rng.standard_normal(rng.integers(1, 13))) for spread in spreads]


def never_below(find, cases, alphas):
    """Whether the tail beyond every quantile found is at most α, in 150 digits."""
    return all(tail_of_distinct(g, find(g, alpha)) <= Decimal(alpha) for g in cases for alpha in alphas)


# ------------------------------------------------------------------------- the references themselves


def test_the_references_agree_with_each_other_and_with_an_integral():
    assert float(tail_of_distinct([2.0], 3.0)) == pytest.approx(math.exp(-1.5), rel=ROUNDING)
    assert float(tail_of_equal(1, 3.0)) == pytest.approx(math.exp(-3), rel=ROUNDING)
    nearly = 1 + 1e-9 * np.arange(5)
    assert float(tail_of_distinct(nearly, 4.0)) == pytest.approx(float(tail_of_equal(5, 4.0)), rel=1e-8)
    u = np.linspace(0, 400, 4_000_001)[1:]
    kernel = np.sin(2.5 * u) / u / ((1 + u**2) * (1 + 0.25 * u**2))
    inside = 2 / math.pi * (kernel.sum() + 2.5 / 2) * (u[1] - u[0])
    assert float(tail_of_distinct([1.0, 0.5], 2.5)) == pytest.approx(1 - inside, abs=1e-9)


# ------------------------------------------------------------------------- quantiles of shapes


@pytest.mark.thorough
@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_quantile_is_never_below_the_true_one_and_hardly_above_it(alpha):
    for g in random_coefficients():
        t = quantile(g, alpha)
        assert tail_of_distinct(g, t) <= Decimal(alpha)
        assert tail_of_distinct(g, TIGHT * t) > Decimal(alpha)


@pytest.mark.parametrize("r", [1, 2, 3, 10, 60])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_equal_coefficients(r, alpha):
    t = quantile(np.full(r, 3.0), alpha) / 3
    assert tail_of_equal(r, t) <= Decimal(alpha) < tail_of_equal(r, TIGHT * t)


@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-6])
def test_many_coefficients_come_near_the_normal_law_from_outside(alpha):
    """Sums of Laplace variables have heavier tails; at 20,000 rows the difference is below 1e-3."""
    normal = stats.norm.isf(alpha / 2)
    t = quantile(np.ones(20_000), alpha) / math.sqrt(2 * 20_000)
    assert t == pytest.approx(normal, rel=1e-3)
    assert alpha == 0.5 or t > normal


@pytest.mark.parametrize("alpha", [1 - 1e-9, 0.999, 1e-16, 1e-25])
def test_extreme_levels_are_safe(alpha):
    for g in random_coefficients()[:12]:
        t = quantile(g, alpha)
        assert 0 < t < math.inf
        assert tail_of_distinct(g, t) <= Decimal(alpha)


# Each twin takes away one part of the proof; the same coefficients then get a quantile that is too small.


def coarsely(rounded):
    """Squares brought to a grid two hundred times as coarse as it is, by np.ceil or np.floor."""

    def merged(coefficients, alpha):
        step = 0.02 * (coefficients**2).max() / len(coefficients)
        squares = rounded(coefficients**2 / step) * step
        kept = np.sort(np.sqrt(squares[squares > 0]))[::-1]
        return kept, np.ones(len(kept))

    return merged


def test_rounding_inwards_would_be_seen(monkeypatch):
    cases = random_coefficients()[:40]
    monkeypatch.setattr(laplace_tails, "_merged", coarsely(np.ceil))
    assert never_below(quantile, cases, [0.05])
    monkeypatch.setattr(laplace_tails, "_merged", coarsely(np.floor))
    assert not never_below(quantile, cases, [0.05])


def is_rounded_up(merged, coefficients):
    """Whether as many coefficients come back, none of them smaller, nor by more than the grid."""
    g, n = merged(coefficients, 0.05)
    after, before = np.sort(np.repeat(g, n.astype(int))), np.sort(coefficients)
    if len(after) != len(before):
        return False
    step = 1e-4 / len(before) * max(before[-1] ** 2, (before**2).sum() / math.log(40))
    return bool((after >= before).all() and (after**2 <= before**2 + step * (1 + 1e-9)).all())


def test_merging_only_rounds_up():
    cases = [*random_coefficients(), np.ones(1), np.full(7, 0.1), np.append(1, np.full(500, 1e-5))]
    assert all(is_rounded_up(laplace_tails._merged, g) for g in cases)
    assert len(laplace_tails._merged(cases[-1], 0.05)[0]) == 2

    def inwards(coefficients, alpha):
        return coefficients * (1 - 1e-15), np.ones(len(coefficients))

    assert not any(is_rounded_up(inwards, g) for g in cases)


def test_terms_left_out_without_their_bound_would_be_seen(monkeypatch):
    monkeypatch.setattr(laplace_tails, "_MOST_FACTORS", 20)
    cases = random_coefficients()[:40]
    assert never_below(quantile, cases, [0.5, 0.05])
    monkeypatch.setattr(laplace_tails, "_log_cut_off", lambda *_: -1000.0)
    monkeypatch.setattr(laplace_tails, "_contour", _fixed_contour(theta=0.5, period=60, last=0.5))
    assert not never_below(quantile, cases, [0.5, 0.05])


def _fixed_contour(*, theta, period, last):
    """A contour that was not chosen for the coefficients, shares of what their largest allows."""

    def contour(g, n, alpha):
        longest = float((math.log(2 / alpha) - np.log1p(-((0.5 * g / g[0]) ** 2)) @ n) / 0.5 * g[0])
        spacing = 2.0 ** round(math.log2(2 * math.pi / (period * g[0])))
        return theta / float(g[0]), spacing, last / float(g[0]), longest

    return contour


@pytest.mark.thorough
@pytest.mark.parametrize("theta", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("period", [3, 10, 100])
@pytest.mark.parametrize("last", [0.1, 5, 50])
def test_no_contour_gives_too_small_a_quantile(monkeypatch, theta, period, last):
    """Tilt, step and number of terms decide how tight a quantile is, never whether it holds."""
    monkeypatch.setattr(laplace_tails, "_contour", _fixed_contour(theta=theta, period=period, last=last))
    assert never_below(quantile, random_coefficients()[:20], [0.5, 0.05, 1e-4])


def test_a_normal_approximation_would_be_seen():
    def normal(g, alpha):
        return stats.norm.isf(alpha / 2) * math.sqrt(2 * (g**2).sum())

    assert not never_below(normal, random_coefficients(), [0.01])


# ------------------------------------------------------------------------- rows of the noise on the grid


def blocks_of(G):
    return lambda: iter([np.asarray(G, dtype=float)])


def convolved_tail(scale, coefficients, half):
    """P(|Σ g X| > half) for whole coefficients and X on the integers, by convolution."""
    p = math.exp(-1 / scale)
    reach = sum(coefficients) * 40 * scale  # beyond it lie less than 3 exp(−40)
    mass = np.zeros(2 * reach + 1)
    mass[reach] = 1
    for g in coefficients:
        one = np.zeros(2 * reach + 1)
        x = np.arange(-(reach // g), reach // g + 1)
        one[reach + g * x] = p ** np.abs(x) * (1 - p) / (1 + p)
        mass = np.convolve(mass, one, mode="same")
    return float(mass[np.abs(np.arange(-reach, reach + 1)) > half].sum())


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [1, 2, 4])
@pytest.mark.parametrize("coefficients", [(1, 1), (2, 1), (1, 1, 1, 1), (3, 2, 2)], ids=str)
def test_the_step_from_the_line_to_the_grid(monkeypatch, scale, coefficients):
    """At small scales the grid shows: without Σ|g| some level of the fifty would not be kept."""
    monkeypatch.setattr(laplace_tails, "_FINE_SCALE", 1)
    alphas = np.geomspace(0.5, 1e-4, 50)
    widths = [half_widths(blocks_of([coefficients]), scale=scale, alpha=alpha)[0] for alpha in alphas]
    tails = [convolved_tail(scale, coefficients, half) for half in widths]
    assert (tails <= alphas * (1 + ROUNDING)).all()
    short = [convolved_tail(scale, coefficients, half - sum(coefficients)) for half in widths]
    assert (short > alphas * (1 + ROUNDING)).any()


def test_at_the_scales_of_a_plan_the_grid_costs_nothing():
    G = np.array([[1.0, 0.5, 0.25], [1, 1, 1]])
    fine = half_widths(blocks_of(G), scale=2**60, alpha=0.05) / 2.0**60
    usual = half_widths(blocks_of(G), scale=2**28, alpha=0.05) / 2.0**28
    assert usual == pytest.approx(fine, rel=1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-6])
def test_rows_keep_the_promise_of_shapes(alpha):
    """All steps together, at the least scale of a plan."""
    cases = [g for g in random_coefficients() if len(g) > 1]
    G = np.array([np.pad(g, (0, 12 - len(g))) for g in cases])
    # Noise on the grid is within 1 of b times noise on the line.
    for g, half in zip(cases, half_widths(blocks_of(G), scale=2**28, alpha=alpha), strict=True):
        t = half / 2.0**28
        assert tail_of_distinct(g, t - g.sum() / 2.0**28) <= Decimal(alpha)
        assert tail_of_distinct(g, TIGHT * t) > Decimal(alpha)


def test_rows_of_any_size_sign_and_order_share_a_shape(monkeypatch):
    asked = []

    def counted(g, alpha):
        asked.append(len(g))
        return quantile(g, alpha)

    monkeypatch.setattr(laplace_tails, "quantile", counted)
    rng = np.random.default_rng(3)
    g = np.array([1, 2 / 3, 0.5, 0.5, 1e-3, 0])
    G = np.array([size * rng.permutation(g) * rng.choice([-1, 1], 6) for size in (1, 1e-9, 7, 1e12)])
    G = G * (1 + 1e-15 * rng.standard_normal(G.shape))
    half = half_widths(blocks_of(G), scale=2**28, alpha=0.05)
    assert asked == [5]
    assert half / np.abs(G).max(axis=1) == pytest.approx(np.full(4, half[0]), rel=1e-9)


def test_shapes_are_rounded_up():
    G = np.abs(wide_rows())
    rows = laplace_tails._described(G, shapes := {})
    keys = list(shapes)
    for g, peak, place in zip(G, rows.peak, rows.shape, strict=True):
        shape = laplace_tails._coefficients(keys[place])
        kept = np.sort(g)[::-1][: len(shape)] / peak
        assert (shape > kept).all() and (shape < kept + 1.4 * 2.0**-31).all()
        assert not (shape * (1 - 2.0**-30) > kept).all()


def test_crumbs_are_left_out_of_the_shape_and_paid_for():
    alone, beside = np.zeros(400), np.full(400, 2e-12)
    alone[:2] = beside[:2] = 1, 0.7
    few, many = half_widths(blocks_of([alone, beside]), scale=2**28, alpha=0.05)
    assert few < many <= few * (1 + 1e-6)
    rows = laplace_tails._described(np.array([alone, beside]), shapes := {})
    assert len(shapes) == 1 and rows.crumbs[1] == pytest.approx(398 * 2e-12, rel=ROUNDING)
    # Σ c|L| of such crumbs: a sum of exponential variables, each of mean c.
    paid = 2 * rows.crumbs[1] * math.log(2 / (laplace_tails._SLACK * 0.05))
    assert stats.gamma.sf(paid, 398, scale=2e-12) <= laplace_tails._SLACK * 0.05
    assert stats.gamma.sf(rows.crumbs[1], 398, scale=2e-12) > 0.4, "their mean would not be enough"


def test_zeros_and_single_coefficients_keep_their_exact_widths():
    G = np.array([[0, 0, 0], [0, -3, 0], [2, 1e-16, 0], [1, 1, 0]])
    half = half_widths(blocks_of(G), scale=1000, alpha=0.1)
    steps = next(k for k in range(10**5) if 2 * math.exp(-(k + 1) / 1000) / (1 + math.exp(-1e-3)) <= 0.1)
    assert half[:3].tolist() == [0, 3 * steps, 2 * steps]
    assert half[3] > half[1] / 3


# ------------------------------------------------------------------------- beside the exponential bound


def wide_rows(n_rows=40, r=30):
    rng = np.random.default_rng(5)
    return np.exp(rng.choice([0.1, 1, 4], (n_rows, 1)) * rng.standard_normal((n_rows, r)))


@pytest.mark.thorough
@pytest.mark.parametrize("alpha", [1 - 1e-6, *ALPHAS])
@pytest.mark.parametrize("scale", [1, 100, 2**28])
def test_never_wider_than_the_exponential_bound(scale, alpha):
    half = half_widths(blocks_of(wide_rows()), scale=scale, alpha=alpha)
    bound = chernoff(wide_rows(), scale, alpha)
    assert (half <= bound).all()
    if scale == 2**28 and alpha == 0.05:
        assert (half < bound / 1.3).all(), "a third of the old width is gone"
        assert not (2 * half <= bound).all()


def test_beyond_the_budget_every_row_gets_the_exponential_bound(monkeypatch):
    G = wide_rows()
    tight = half_widths(blocks_of(G), scale=2**28, alpha=0.05)
    monkeypatch.setattr(laplace_tails, "_MOST_WORK", 40 * (laplace_tails._WORK_OF_A_SHAPE + 30))
    assert half_widths(blocks_of(G), scale=2**28, alpha=0.05).tolist() == tight.tolist()
    monkeypatch.setattr(laplace_tails, "_MOST_WORK", 40 * (laplace_tails._WORK_OF_A_SHAPE + 30) - 1)
    half = half_widths(lambda: iter([G[:35], G[35:]]), scale=2**28, alpha=0.05)
    assert half.tolist() == chernoff(G, 2**28, 0.05).tolist()


def test_blocks_are_put_together_in_their_order():
    G = wide_rows()
    whole = half_widths(blocks_of(G), scale=2**28, alpha=0.05)
    parts = half_widths(lambda: iter([G[:7], G[7:8], G[8:]]), scale=2**28, alpha=0.05)
    assert parts.tolist() == whole.tolist()


# ------------------------------------------------------------------------- the library's own noise


class SeededBits:
    """Repeatable bits from an explicit numpy generator."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def bits(self, n):
        n_bytes = (n + 7) // 8
        return int.from_bytes(self.rng.bytes(n_bytes), "little") >> (8 * n_bytes - n)


@lru_cache
def drawn_errors():
    """A strategy, queries, and (m, 100,000) errors of their answers from the exact sampler."""
    rows = np.array([[4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4], [3, 3, 0, 0], [3, 3, 3, 3]])
    strategy = Strategy(rows, scale=2**28, noise="laplace")
    W = from_entries(np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1], [1, -2, 0, 5]]))
    noise = np.array(discrete_laplace(2**28, 6 * 100_000, SeededBits(8)), dtype=float).reshape(6, -1)
    return strategy, W, W.dense() @ strategy.pseudo_inverse @ noise


def may_hold(errors, half, level):
    """Whether every interval may hold with exactly `level`; a right one fails with chance CHANCE at most."""
    inside, n = (np.abs(errors) <= half[:, None]).sum(axis=1), errors.shape[1]
    rate = CHANCE / len(inside)
    return bool((stats.binom.cdf(inside, n, level) > rate / 2).all()) and bool(
        (stats.binom.sf(inside - 1, n, level) > rate / 2).all()
    )


@pytest.mark.thorough
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_hold_as_often_as_they_say(level):
    strategy, W, errors = drawn_errors()
    half = interval_half_widths(
        workload_of_rows(W), strategy, np.sqrt(strategy.variances(W)), level, False, None
    )
    assert may_hold(errors, half, level)
    assert not may_hold(errors, 0.95 * half, level)
    assert not may_hold(errors, half / 0.95, level)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_hold_all_at_once(level):
    strategy, W, errors = drawn_errors()
    half = interval_half_widths(
        workload_of_rows(W), strategy, np.sqrt(strategy.variances(W)), level, True, None
    )
    together = (np.abs(errors) <= half[:, None]).all(axis=0).sum()
    assert stats.binom.cdf(together, errors.shape[1], level) > CHANCE
    single = interval_half_widths(
        workload_of_rows(W), strategy, np.sqrt(strategy.variances(W)), level, False, None
    )
    alone = (np.abs(errors) <= single[:, None]).all(axis=0).sum()
    assert not stats.binom.cdf(alone, errors.shape[1], level) > CHANCE
