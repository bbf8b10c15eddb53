"""Ratios: the sets that hold them, against brute force and simulation."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from leastnoise.release.ratios import (
    DETERMINED,
    OUTSIDE,
    SMALL_DENOMINATOR,
    RatioErrors,
    fieller_ends,
    quotient_ends,
    ratio_intervals,
)

# Simulated pairs of answers for each case.
DRAWS = 100_000

# What the coverage at level 0.95 must reach: 0.95 less five standard errors of 10^5 draws, about.
LEAST_COVERAGE = 0.9467


def covariances(rng: np.random.Generator, k: int) -> np.ndarray:
    roots = rng.normal(size=(k, 2, 2))
    return roots @ roots.transpose(0, 2, 1)


def errors_of(ab: np.ndarray, Sigma: np.ndarray) -> RatioErrors:
    aa, cov, bb = (np.broadcast_to(Sigma[..., i, j], ab.shape[:1]) for i, j in ((0, 0), (0, 1), (1, 1)))
    return RatioErrors(ab[:, 0], ab[:, 1], aa, cov, bb)


def test_fieller_ends_agree_with_the_definition_of_the_set():
    """Just inside the ends θ is accepted, just outside it is not; unbounded sets have no ends."""
    rng = np.random.default_rng(1)
    k, level = 2_000, 0.9
    z = NormalDist().inv_cdf((1 + level) / 2)
    Sigma = covariances(rng, k)
    ab = rng.normal(scale=5, size=(k, 2))
    lower, upper = fieller_ends(errors_of(ab, Sigma), level)

    def is_held(j: int, theta: float) -> bool:
        direction = np.array([1.0, -theta])
        return (direction @ ab[j]) ** 2 <= z**2 * (direction @ Sigma[j] @ direction)

    n_bounded = 0
    for j in range(k):
        if math.isnan(lower[j]):
            # Unbounded: far away, on one side or the other, the set goes on.
            assert is_held(j, 1e9) or is_held(j, -1e9)
            continue
        n_bounded += 1
        width = upper[j] - lower[j]
        assert is_held(j, lower[j] + 1e-6 * width) and is_held(j, upper[j] - 1e-6 * width)
        assert not is_held(j, lower[j] - 1e-6 * width) and not is_held(j, upper[j] + 1e-6 * width)
        assert not is_held(j, 1e9) and not is_held(j, -1e9)
    assert 500 < n_bounded < k - 100


def test_a_known_denominator_gives_the_plain_interval():
    errors = RatioErrors(*(np.array([x]) for x in (30.0, 10.0, 4.0, 0.0, 0.0)))
    lower, upper = fieller_ends(errors, 0.95)
    z = NormalDist().inv_cdf(0.975)
    assert lower[0] == pytest.approx(3 - 0.2 * z, rel=1e-12)
    assert upper[0] == pytest.approx(3 + 0.2 * z, rel=1e-12)


@pytest.mark.parametrize("denominator", [0.3, 1, 2, 3, 5, 20])
@pytest.mark.parametrize("theta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.7])
def test_intervals_cover_the_true_ratio(denominator, theta, correlation):
    """A hundred thousand releases; denominators in their standard errors, small ones included."""
    rng = np.random.default_rng(7)
    Sigma = np.array([[1.0, correlation], [correlation, 1.0]])
    truth = np.array([theta * denominator, denominator])
    ab = truth + rng.standard_normal((DRAWS, 2)) @ np.linalg.cholesky(Sigma).T
    found = ratio_intervals(errors_of(ab, Sigma), 0.95, possible=(0, 1), positive=True)
    is_large = np.array(found.reasons) != SMALL_DENOMINATOR
    # Where no possible value agrees with the release, ends are NaN and the true one is not held.
    covered = ~is_large | ((found.lower <= theta) & (theta <= found.upper))
    assert covered.mean() >= LEAST_COVERAGE


def test_intervals_that_are_too_short_are_noticed():
    """The twin of the coverage test: standard errors 5 % too small must fail it."""
    rng = np.random.default_rng(8)
    ab = np.array([4.0, 20.0]) + rng.normal(size=(DRAWS, 2))
    found = ratio_intervals(errors_of(ab, np.eye(2) * 0.95**2), 0.95)
    covered = ~((found.lower > 0.2) | (found.upper < 0.2))
    assert covered.mean() < LEAST_COVERAGE


def test_quotients_of_two_intervals_hold_every_quotient_in_them():
    rng = np.random.default_rng(3)
    k = 500
    a, b = rng.normal(scale=5, size=(2, k))
    halves = tuple(rng.exponential(size=(2, k)))
    zeros = np.zeros(k)
    lower, upper = quotient_ends(RatioErrors(a, b, zeros, zeros, zeros, halves))
    grid = np.linspace(-1, 1, 41)
    for j in range(k):
        of_a, of_b = a[j] + grid * halves[0][j], b[j] + grid * halves[1][j]
        if of_b[0] <= 0 <= of_b[-1]:
            assert math.isnan(lower[j]) and math.isnan(upper[j])
            continue
        quotients = of_a[:, None] / of_b
        assert lower[j] == pytest.approx(quotients.min(), rel=1e-12)
        assert upper[j] == pytest.approx(quotients.max(), rel=1e-12)


def test_what_is_not_determined_says_why():
    a = np.array([3.0, 3.0, -90.0, 3.0, 0.0])
    b = np.array([3.0, -50.0, 50.0, 50.0, 0.0])
    errors = RatioErrors(a, b, np.ones(5), np.zeros(5), np.array([1.0, 1, 1, 1, 0]))
    found = ratio_intervals(errors, 0.95, possible=(0, 1), positive=True)
    assert found.reasons == (SMALL_DENOMINATOR, SMALL_DENOMINATOR, OUTSIDE, DETERMINED, SMALL_DENOMINATOR)
    assert np.isnan(found.lower).tolist() == [True, True, True, False, True]
    assert np.isnan(found.estimate).tolist() == [True, True, True, False, True]
    assert found.lower[3] >= 0 and found.upper[3] <= 1


def test_a_mean_is_shifted_by_its_centre_and_cut_to_its_range():
    one = [np.array([x]) for x in (-490.0, 10.0, 400.0, 0.0, 0.25)]
    found = ratio_intervals(RatioErrors(*one), 0.95, shift=50, possible=(0, 100))
    plain = ratio_intervals(RatioErrors(*one), 0.95)
    assert found.estimate[0] == pytest.approx(1.0)
    assert found.lower[0] == 0
    assert found.upper[0] == pytest.approx(50 + plain.upper[0])
