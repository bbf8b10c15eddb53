"""Exact samplers: their law, their source of bits, and every rare branch made common."""

from __future__ import annotations

import ast
import copy
import math
import os
import pickle
import threading
from bisect import bisect_right
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from leastnoise.core import random_bits
from leastnoise.core.errors import InputError, RandomnessError
from leastnoise.core.random_bits import SystemBits
from leastnoise.release import noise
from leastnoise.release.noise import discrete_laplace, rounded_gaussian
from support import refuses
from tolerances import CHANCE

# A chi-square statistic is close to its law once every cell expects this many.
LEAST_EXPECTED = 20

LAWS = [noise.Law(normal=True, log_steps=s) for s in (0, 1, 3, 7)] + [
    noise.Law(normal=False, log_steps=s) for s in (0, 2, 7)
]


class ReplayBits:
    """Repeatable bits from an explicit numpy generator."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def bits(self, n: int) -> int:
        n_bytes = (n + 7) // 8
        return int.from_bytes(self.rng.bytes(n_bytes), "little") >> (8 * n_bytes - n)


class Exhausted(Exception):
    """More bits were asked for than a list held."""


class ListBits:
    """The given bits, first one first, then Exhausted."""

    def __init__(self, value: int = 0, length: int = 0) -> None:
        self.value, self.left = value, length

    def bits(self, n: int) -> int:
        if n > self.left:
            raise Exhausted
        self.left -= n
        return (self.value >> self.left) & ((1 << n) - 1)


def scalar_draws(law, scale, size, bits, chunk):
    """Draws of |noise| by the one-at-a-time route alone, no digit known beforehand."""
    start = lambda: noise.Uniform(bits, chunk)  # noqa: E731
    return [noise.finish(law, scale, start(), bits.bits(law.log_modulus), start()) for _ in range(size)]


# ---------------------------------------------------------------- statistical judges


def chi_square_p(counts, probabilities):
    """p-value of counts against cell probabilities; rare cells are joined to a neighbour."""
    n = sum(counts)
    observed, expected = [0.0], [0.0]
    for count, probability in zip(counts, probabilities, strict=True):
        observed[-1] += count
        expected[-1] += n * probability
        if expected[-1] >= LEAST_EXPECTED:
            observed.append(0.0)
            expected.append(0.0)
    last_observed, last_expected = observed.pop(), expected.pop()
    observed[-1] += last_observed
    expected[-1] += last_expected
    assert abs(sum(expected) - n) < 1e-9 * n, "cell probabilities must sum to one"
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return stats.chi2.sf(statistic, len(expected) - 1)


def integer_p(draws, cdf):
    """p-value of small integer draws against P(X <= x) = cdf(x), the tails joined."""
    low, high = min(draws), max(draws)
    counts = Counter(draws)
    ends = [cdf(x) for x in range(low, high)]
    probabilities = np.diff([0.0, *ends, 1.0])
    return chi_square_p([counts[x] for x in range(low, high + 1)], probabilities)


def quantile_p(draws, quantile, cdf, scale, n_cells=40):
    """p-value of large integer draws on cells of nearly equal probability."""
    edges = sorted({int(Fraction(float(quantile(j / n_cells))) * scale) for j in range(1, n_cells)})
    counts = Counter(bisect_right(edges, x) for x in draws)
    ends = [cdf(float(Fraction(edge) / scale)) for edge in edges]
    return chi_square_p([counts[j] for j in range(len(edges) + 1)], np.diff([0.0, *ends, 1.0]))


def is_variance_right(draws, variance, kurtosis):
    """Two-sided test of the variance of centred draws, at the rate CHANCE."""
    n = len(draws)
    ratio = float(Fraction(sum(x * x for x in draws), n) / variance)
    return abs(ratio - 1) < stats.norm.isf(CHANCE / 2) * math.sqrt((kurtosis - 1) / n)


def gaussian_cdf(sigma):
    return lambda x: stats.norm.cdf((x + 0.5) / sigma)


def folded_gaussian_cdf(sigma):
    return lambda x: 2 * stats.norm.cdf((x + 0.5) / sigma) - 1


def geometric_cdf(scale):
    return lambda x: -math.expm1(-(x + 1) / scale)


def laplace_cdf(scale):
    p = math.exp(-1 / scale)
    return lambda x: 1 - p ** (x + 1) / (1 + p) if x >= 0 else p**-x / (1 + p)


# -------------------------------------------------------- the law, small and large


@pytest.mark.parametrize("sigma", [1, 2, 3, 10])
def test_rounded_gaussian_has_the_exact_cells(sigma):
    draws = rounded_gaussian(sigma, 200_000, ReplayBits(sigma))
    assert integer_p(draws, gaussian_cdf(sigma)) > CHANCE


@pytest.mark.parametrize("scale", [1, 2, 5, 17])
def test_discrete_laplace_has_the_exact_cells(scale):
    draws = discrete_laplace(scale, 200_000, ReplayBits(scale))
    assert integer_p(draws, laplace_cdf(scale)) > CHANCE


def test_cells_of_a_scale_five_per_cent_off_are_rejected():
    gaussian = rounded_gaussian(21, 200_000, ReplayBits(1))
    laplace = discrete_laplace(21, 200_000, ReplayBits(2))
    assert integer_p(gaussian, gaussian_cdf(21)) > CHANCE
    assert integer_p(laplace, laplace_cdf(21)) > CHANCE
    assert integer_p(gaussian, gaussian_cdf(20)) < CHANCE
    assert integer_p(laplace, laplace_cdf(20)) < CHANCE


@pytest.mark.parametrize("scale", [2**30, 2**40, 2**48 - 1, 2**48, 10**30, 10**40])
def test_large_scales_keep_the_shape(scale):
    gaussian = rounded_gaussian(scale, 100_000, ReplayBits(scale))
    laplace = discrete_laplace(scale, 100_000, ReplayBits(scale))
    assert quantile_p(gaussian, stats.norm.ppf, stats.norm.cdf, scale) > CHANCE
    assert quantile_p(laplace, stats.laplace.ppf, stats.laplace.cdf, scale) > CHANCE
    wrong = scale * 21 // 20
    assert quantile_p(gaussian, stats.norm.ppf, stats.norm.cdf, wrong) < CHANCE
    assert quantile_p(laplace, stats.laplace.ppf, stats.laplace.cdf, wrong) < CHANCE


@pytest.mark.parametrize("scale", [1000, 2**40, 10**40])
def test_variance_is_right_and_a_twin_is_rejected(scale):
    twin = scale * 21 // 20
    n = 100_000
    gaussian = [rounded_gaussian(s, n, ReplayBits(7)) for s in (scale, twin)]
    variance = scale**2 + Fraction(1, 12)
    assert [is_variance_right(draws, variance, 3) for draws in gaussian] == [True, False]
    laplace = [discrete_laplace(s, n, ReplayBits(8)) for s in (scale, twin)]
    variance = 2 * scale**2 - Fraction(1, 6)  # 2p/(1-p)², p = exp(-1/scale), up to O(1/scale²)
    assert [is_variance_right(draws, variance, 6) for draws in laplace] == [True, False]


@pytest.mark.parametrize("draw", [rounded_gaussian, discrete_laplace])
def test_successive_draws_are_uncorrelated(draw):
    n = 200_000
    x = np.array(draw(2**20, n + 1, ReplayBits(5)), dtype=np.int64) / 2**20
    for series in (x, np.abs(x) - np.abs(x).mean()):
        correlation = np.mean(series[1:] * series[:-1]) / np.var(series)
        assert abs(correlation) * math.sqrt(n) < stats.norm.isf(CHANCE / 2)


@pytest.mark.parametrize("draw", [rounded_gaussian, discrete_laplace])
@pytest.mark.parametrize("scale", [2**30, 2**45, 10**30])
def test_low_bits_of_large_draws_are_uniform(draw, scale):
    """At these scales the law is flat over 256 neighbours to far below one part in a million."""
    draws = draw(scale, 50_000, ReplayBits(scale + 1))
    for n_values in (2, 256):
        counts = Counter(x % n_values for x in draws)
        assert chi_square_p([counts[v] for v in range(n_values)], [1 / n_values] * n_values) > CHANCE


# ----------------------------------------------- one-digit chunks: ties all the time


@pytest.mark.thorough
@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("chunk", [1, 2, 3, noise._CHUNK])
def test_scalar_route_has_the_exact_law_at_any_chunk(law, chunk):
    draws = scalar_draws(law, 3, 4_000, ReplayBits(chunk), chunk)
    cdf = folded_gaussian_cdf if law.normal else geometric_cdf
    assert integer_p(draws, cdf(3)) > CHANCE
    assert integer_p([2 * x for x in draws], cdf(3)) < CHANCE


@pytest.mark.parametrize("lead", [1, 2, 3])
@pytest.mark.parametrize("chunk", [1, noise._CHUNK])
@pytest.mark.parametrize("scale", [3, 2**50])
def test_array_route_has_the_exact_law_with_few_leading_digits(lead, chunk, scale):
    normal = noise._block(noise.NORMAL, scale, 4_000, ReplayBits(lead), lead, chunk)
    exponential = noise._block(noise.EXPONENTIAL, scale, 4_000, ReplayBits(lead), lead, chunk)
    if scale == 3:
        assert integer_p(normal, gaussian_cdf(scale)) > CHANCE
        assert integer_p(exponential, geometric_cdf(scale)) > CHANCE
    else:
        assert quantile_p(normal, stats.norm.ppf, stats.norm.cdf, scale) > CHANCE
        assert quantile_p(exponential, stats.expon.ppf, stats.expon.cdf, scale) > CHANCE


@pytest.mark.parametrize("law", [law for law in LAWS if law.log_steps], ids=str)
@pytest.mark.parametrize("lead", [1, 5, 48])
@pytest.mark.parametrize("scale", [1, 5, 2**30 + 1, 2**48 - 1, 2**48 + 1, 10**25])
def test_array_route_equals_scalar_route_on_the_same_digits(law, lead, scale):
    """Both routes read one stream of bits; the scalar one is given nothing but the digits."""
    size, chunk = 400, 2
    drawn = noise._block(law, scale, size, ReplayBits(3), lead, chunk)
    bits = ReplayBits(3)
    word, place = (noise._words(size, bits).tolist() for _ in range(2))
    digits, x = 64, place
    if scale >= 2**48:
        digits, x = noise._lengthened(np.array(place, dtype=np.uint64), scale.bit_length(), bits)

    def finish(i, source):
        u = noise.Uniform(source, chunk, word[i] >> (64 - lead), lead)
        a = (word[i] >> 1) % (1 << law.log_modulus)
        magnitude = noise.finish(law, scale, u, a, noise.Uniform(source, chunk, x[i], digits))
        return -magnitude if law.normal and word[i] % 2 else magnitude

    expected = []
    for i in range(size):
        try:
            expected.append(finish(i, ListBits()))
        except Exhausted:
            expected.append(finish(i, bits))
    assert drawn == expected


def test_few_draws_leave_the_array_route(monkeypatch):
    calls = []
    finish = noise.finish
    monkeypatch.setattr(noise, "finish", lambda *args: calls.append(1) or finish(*args))
    rounded_gaussian(2**45, 20_000, ReplayBits(0))
    assert 0 < len(calls) < 20_000 / 50


# --------------------------------------------------- proofs by counting all bit strings


def mass(run, depth):
    """Probability of each outcome over all bit strings of a length, and what is still open."""
    decided: Counter = Counter()
    open_strings = [(0, 0)]
    for _ in range(depth + 1):
        longer = []
        for value, length in open_strings:
            try:
                decided[run(ListBits(value, length))] += Fraction(1, 2**length)
            except Exhausted:
                longer += [(2 * value, length + 1), (2 * value + 1, length + 1)]
        open_strings = longer
    return decided, 1 - sum(decided.values())


def assert_encloses(decided, undecided, probability, most_open):
    assert decided <= probability <= decided + undecided
    assert undecided < most_open


@pytest.mark.parametrize(("value", "digits"), [(0, 0), (0, 2), (1, 1), (5, 3)])
def test_chain_of_uniforms_accepts_with_exp_minus_x(value, digits):
    """Averaged over x in [v, v + 1)/2^d, exp(-x) is 2^d (e^(-v/2^d) - e^(-(v+1)/2^d))."""
    low, high = value / 2**digits, (value + 1) / 2**digits
    run = lambda bits: noise._von_neumann(None, 0, 0, noise.Uniform(bits, 1, value, digits))  # noqa: E731
    decided, undecided = mass(run, 15)
    expected = (math.exp(-low) - math.exp(-high)) / (high - low)
    assert_encloses(decided[True], undecided, expected, 0.05)
    assert_encloses(decided[False], undecided, 1 - expected, 0.05)


@pytest.mark.parametrize(("log_steps", "k"), [(0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (2, 5)])
@pytest.mark.parametrize(("value", "digits"), [(0, 0), (3, 2)])
def test_places_are_kept_with_the_probability_of_the_normal_cell(log_steps, k, value, digits):
    law = noise.Law(normal=True, log_steps=log_steps)
    low, high = value / 2**digits, (value + 1) / 2**digits

    def run(bits):
        x = noise.Uniform(bits, 1, value, digits)
        return noise._is_kept(law, k, bits.bits(law.log_modulus), x)

    decided, undecided = mass(run, 15)
    s = law.steps
    area = stats.norm.cdf((k + high) / s) - stats.norm.cdf((k + low) / s)
    expected = area * s * math.sqrt(2 * math.pi) * math.exp(k * k / (2 * s * s)) / (high - low)
    assert_encloses(decided[True], undecided, expected, 0.35)
    assert_encloses(decided[False], undecided, 1 - expected, 0.35)


@pytest.mark.parametrize("log_steps", [0, 1, 3])
def test_places_are_kept_with_the_probability_of_the_exponential_cell(log_steps):
    law = noise.Law(normal=False, log_steps=log_steps)
    run = lambda bits: noise._is_kept(law, 4, bits.bits(log_steps), noise.Uniform(bits, 1))  # noqa: E731
    decided, undecided = mass(run, 15)
    expected = -law.steps * math.expm1(-1 / law.steps)
    assert_encloses(decided[True], undecided, expected, 0.05)


@pytest.mark.parametrize("law", [law for law in LAWS if law.log_steps < 7], ids=str)
def test_cells_are_proposed_with_their_weight(law):
    decided, undecided = mass(lambda bits: noise._cell(law, noise.Uniform(bits, 1)), 13)
    s = law.steps
    weight = (lambda k: math.exp(-k * k / (2 * s * s))) if law.normal else (lambda k: math.exp(-k / s))
    for k in range(4 * s):
        assert_encloses(decided[k], undecided, weight(k) / law.total, 0.01)
    rejected = 1 - sum(weight(k) for k in range(60 * s)) / law.total
    assert_encloses(decided[None], undecided, rejected, 0.01)


@pytest.mark.parametrize("law", [noise.Law(normal=True, log_steps=0), noise.Law(normal=False, log_steps=0)])
def test_whole_draws_have_their_probability(law):
    decided, undecided = mass(lambda bits: scalar_draws(law, 1, 1, bits, 1)[0], 15)
    cdf = (folded_gaussian_cdf if law.normal else geometric_cdf)(1)
    for x in range(4):
        assert_encloses(decided[x], undecided, cdf(x) - (cdf(x - 1) if x else 0), 0.45)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("digits", [0, 1, 17, 48, 130])
def test_table_encloses_the_cumulative_weights(law, digits):
    table = noise.table_of(law, digits)
    with localcontext() as context:
        context.prec = 80
        s, total = law.steps, Decimal(0)
        for k, (low, high) in enumerate(zip(table.low, table.high, strict=True)):
            total += (-Decimal(k * k) / (2 * s * s) if law.normal else -Decimal(k) / s).exp()
            scaled = total / law.total * 2**digits
            assert low <= scaled <= high and high - low <= 2
        assert scaled <= table.end <= 2**digits


def test_a_total_that_is_too_small_is_noticed(monkeypatch):
    monkeypatch.setattr(noise.Law, "total", property(lambda law: 160))
    with pytest.raises(AssertionError, match="must not sum to more than one"):
        noise.table_of.__wrapped__(noise.NORMAL, 48)


# -------------------------------------------------------------------------- rounding


def edge_cases(law, scale, rng):
    """Cells and 64-digit places next to where scale·(k + x)/s changes its rounding."""
    half = Fraction(1, 2) if law.normal else 0
    for k in [0, 1, 7, 1000, 2**14 - 1, *rng.integers(0, 2**14, 20).tolist()]:
        first = math.ceil(Fraction(scale * k, law.steps) + half)
        last = math.floor(Fraction(scale * (k + 1), law.steps) + half)
        yield from ((k, x) for x in (0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1))
        for m in {first, last, (first + last) // 2}:
            x = math.floor(((m - half) * law.steps / Fraction(scale) - k) * 2**64)
            yield from ((k, x + step) for step in range(-3, 4) if 0 <= x + step < 2**64)


@pytest.mark.parametrize("law", [noise.NORMAL, noise.EXPONENTIAL, noise.Law(True, 1)], ids=str)
@pytest.mark.parametrize(
    "scale", [1, 2, 3, 127, 128, 2**31 - 1, 2**32, 2**32 + 1, 10**12, 2**47 + 1, 2**48 - 1]
)
def test_rounding_is_exact_next_to_every_boundary(law, scale):
    cases = list(edge_cases(law, scale, np.random.default_rng(0)))
    k, x = (np.array(column, dtype=np.uint64) for column in zip(*cases, strict=True))
    half = Fraction(1, 2) if law.normal else 0
    low = [Fraction(scale * (k_i * 2**64 + x_i), law.steps * 2**64) + half for k_i, x_i in cases]
    rounded = [math.floor(value) for value in low]
    is_exact = [
        value + Fraction(scale, law.steps * 2**64) <= m + 1 for value, m in zip(low, rounded, strict=True)
    ]
    if scale % 2 and scale > 1:
        assert not all(is_exact), "some cases must be undecided, or nothing is tested"
    for found in (
        noise._scaled_narrow(law, scale, k, x),
        noise._scaled_wide(law, scale, k, x.tolist(), 64),
    ):
        assert found[0] == rounded
        assert found[1].tolist() == is_exact
    for (k_i, x_i), m, exact in zip(cases, rounded, is_exact, strict=True):
        place = noise.Uniform(ListBits(), 1, x_i, 64)
        if exact:
            assert noise._scaled(law, scale, k_i, place) == m
        else:
            with pytest.raises(Exhausted):
                noise._scaled(law, scale, k_i, place)


def test_narrow_products_cannot_wrap():
    for law in (noise.NORMAL, noise.EXPONENTIAL):
        n_cells = len(noise.table_of(law, 63 - law.log_modulus).low)
        assert (n_cells + 1) * 2**noise._NARROW + law.steps < 2**63


def test_comparison_draws_digits_until_the_numbers_part():
    bits = ListBits(0b0110_0, 5)
    first, second = noise.Uniform(bits, 1, 0b10, 2), noise.Uniform(bits, 1)
    with pytest.raises(Exhausted):
        noise.Uniform(ListBits(0b10, 2), 1).is_below(first)
    assert second.is_below(first)
    assert (second.value, second.digits, first.digits, bits.left) == (0, 1, 2, 4)


# ------------------------------------------------------------------- the system's bits


def test_two_default_draws_differ():
    assert rounded_gaussian(2**40, 5, SystemBits()) != rounded_gaussian(2**40, 5, SystemBits())
    bits = SystemBits()
    assert discrete_laplace(2**40, 5, bits) != discrete_laplace(2**40, 5, bits)


def test_system_bits_are_uniform_at_odd_widths():
    bits = SystemBits()
    assert bits.bits(0) == 0
    for width in (1, 5, 9):
        counts = Counter(bits.bits(width) for _ in range(40_000))
        values = range(2**width)
        assert set(counts) <= set(values)
        assert chi_square_p([counts[v] for v in values], [2.0**-width] * 2**width) > CHANCE
    assert 2**999_900 < bits.bits(10**6) < 2**10**6


def test_used_bytes_are_overwritten_and_reads_grow(monkeypatch):
    reads = []
    urandom = os.urandom
    monkeypatch.setattr(os, "urandom", lambda n: reads.append(n) or urandom(n))
    bits = SystemBits()
    bits.bits(2048)
    assert not any(bits._buffer.data[:256]) and any(bits._buffer.data[256:])
    for _ in range(200):
        bits.bits(8 * 4000)
    bits.bits(8 * 10**6)
    assert reads[:3] == [4096, 8192, 16384]
    assert max(reads[:-1]) == 65536 and reads[-1] == 10**6


def test_threads_never_share_bits():
    bits = SystemBits()
    found: list[int] = []
    work = lambda: found.extend([bits.bits(96) for _ in range(2000)])  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8000


def drawn_after_fork(bits):
    """What the parent and two children draw next from one source."""
    found = []
    for _ in range(2):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, b"%064x" % bits.bits(256))
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            found.append(int(stream.read(), 16))
        assert os.waitpid(child, 0)[1] == 0
    return [bits.bits(256), *found]


def test_forked_children_never_share_noise():
    bits = SystemBits()
    bits.bits(8)
    assert len(set(drawn_after_fork(bits))) == 3


def test_a_recycled_process_number_does_not_share_noise(monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 4242)
    bits = SystemBits()
    bits.bits(8)
    assert len(set(drawn_after_fork(bits))) == 3


def test_a_fork_outside_the_interpreter_does_not_share_noise(monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 4242)
    bits = SystemBits()
    bits.bits(8)
    inherited = bits._buffer
    monkeypatch.setattr(os, "getpid", lambda: 4243)
    bits.bits(8)
    assert bits._buffer is not inherited


def test_without_the_guard_children_would_share_noise(monkeypatch):
    monkeypatch.setattr(random_bits, "_this_process", lambda: (0, 0))
    bits = SystemBits()
    bits.bits(8)
    assert len(set(drawn_after_fork(bits))) == 1


@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy])
def test_source_is_never_copied(copier):
    with pytest.raises(TypeError, match="the same noise would be drawn twice"):
        copier(SystemBits())


def test_repr_shows_no_state():
    bits = SystemBits()
    bits.bits(8)
    assert repr(bits) == str(bits) == "SystemBits()"


def test_source_takes_no_seed():
    with pytest.raises(TypeError):
        SystemBits(1)


@pytest.mark.parametrize("failure", [OSError("no device"), NotImplementedError("no generator")])
def test_failing_generator_is_an_error(monkeypatch, failure):
    def urandom(n):
        raise failure

    monkeypatch.setattr(os, "urandom", urandom)
    with refuses(RandomnessError, "generator", ..., "random generator failed; nothing was released"):
        rounded_gaussian(5, 10, SystemBits())


def test_short_read_is_an_error(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda n: bytes(n - 1))
    with refuses(RandomnessError, "generator", ..., "gave 4095 of 4096 bytes"):
        SystemBits().bits(8)


# -------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(("draw", "name"), [(rounded_gaussian, "sigma"), (discrete_laplace, "scale")])
def test_scale_and_size_must_be_integers(draw, name):
    for scale in (0, -1, True, 2.0, Fraction(2), "2", None, math.inf):
        with pytest.raises(InputError, match=f"{name} must be a positive integer, got "):
            draw(scale, 1, ReplayBits(0))
    for size in (-1, True, 1.0, None):
        with refuses(InputError, "size", ..., "size must be a non-negative integer, got "):
            draw(1, size, ReplayBits(0))
    assert draw(1, 0, ListBits()) == []


def test_number_of_bits_must_be_an_integer():
    for n in (-1, True, 8.0):
        with refuses(InputError, "the number of bits"):
            SystemBits().bits(n)


@pytest.mark.parametrize("scale", [3, 10**40])
def test_draws_are_python_integers_of_any_number(scale):
    for size in (1, 2, noise._BLOCK, noise._BLOCK + 1):
        for draw in (rounded_gaussian, discrete_laplace):
            draws = draw(scale, size, ReplayBits(size))
            assert len(draws) == size and all(type(x) is int for x in draws)


def float_uses(source):
    """What in the source could make a float."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            found.append(repr(node.value))
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            found.append("/")
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Pow):
            exponent = node.right if isinstance(node, ast.BinOp) else node.value
            if not (isinstance(exponent, ast.Constant) and isinstance(exponent.value, int)):
                found.append("**")
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in {"float", "math", "sqrt", "exp", "log", "divide", "true_divide", "mean", "random"}:
            found.append(name)
        if name.startswith(("float", "double", "half", "single")) and isinstance(node, ast.Attribute):
            found.append(name)
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += [alias.name for alias in node.names if alias.name in {"math", "random", "cmath"}]
    return found


def test_no_float_lies_on_the_path():
    files = [Path(random_bits.__file__), Path(noise.__file__)]
    for path in files:
        assert float_uses(path.read_text(encoding="utf-8")) == [], path
    for bad in ("x = 0.5", "x = a / b", "x /= 2", "float(x)", "import math", "np.float64(1)", "2 ** -n"):
        assert float_uses(bad), bad


def test_arrays_stay_integers(monkeypatch):
    """Mixing signed and unsigned 64-bit arrays would turn into floats without a word."""
    seen = []
    narrow = noise._scaled_narrow

    def watch(law, scale, k, x):
        seen.extend([k.dtype, x.dtype])
        return narrow(law, scale, k, x)

    monkeypatch.setattr(noise, "_scaled_narrow", watch)
    rounded_gaussian(2**47, 10, ReplayBits(0))
    assert seen == [np.uint64, np.uint64]
