"""How far an answer may be from the truth, at any level of confidence.

The errors of all answers are linear in the noise: e = W A⁺ ξ, with A⁺ known. For
Gaussian noise e is Gaussian with known covariance, so a single interval is exact,
and the largest |e_j| / stderr_j, which rules all intervals at once, can be
simulated to any accuracy without touching data. For Laplace noise the tail of a
weighted sum is bounded by its moment generating function.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from leastnoise.errors import InputError
from leastnoise.operators import Array, Operator
from leastnoise.strategy import Strategy

# Simulated maxima: enough that the safe side costs a third of a percentage point
# at level 0.95, fewer where there are very many queries.
_DRAWS = 20_000
_LEAST_DRAWS = 4_000
_SIMULATION_ENTRIES = 2**32
_CHUNK_ENTRIES = 2**24

# Points at which the Laplace tail bound is tried; every one of them is valid.
_CHERNOFF_POINTS = np.linspace(0.02, 0.98, 49)


def half_widths(
    operator: Operator,
    strategy: Strategy,
    stderr: Array,
    level: float,
    simultaneous: bool,
    generator: np.random.Generator | None,
) -> Array:
    """Half the width of each query's interval, (m,)."""
    if not isinstance(level, (float, np.floating)) or not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, as in 0.95, got {level!r}")
    if generator is not None and not isinstance(generator, np.random.Generator):
        given = type(generator).__name__
        raise InputError(f"generator must be a NumPy one, as in np.random.default_rng(1), got {given}")
    n_random = int((stderr > 0).sum())
    if n_random == 0:
        return np.zeros_like(stderr)
    if strategy.noise == "laplace":
        alpha = (1 - level) / (n_random if simultaneous else 1)
        return _laplace_half_widths(operator, strategy, alpha)
    if not simultaneous:
        # The lower tail: (1 + level) / 2 rounds to 1 for levels next to 1.
        return -NormalDist().inv_cdf((1 - level) / 2) * stderr
    return simultaneous_multiplier(operator, strategy, stderr, level, generator) * stderr


def simultaneous_multiplier(
    operator: Operator,
    strategy: Strategy,
    stderr: Array,
    level: float,
    generator: np.random.Generator | None = None,
) -> float:
    """How many standard errors hold all Gaussian errors at once with probability `level`.

    The quantile of max_j |e_j| / stderr_j by simulation, two standard errors of the
    simulation above; never more than Šidák's value, which holds for any correlation.

    Reference:
        Šidák (1967), Rectangular confidence regions for the means of multivariate
        normal distributions, Theorem 1.
    """
    random = stderr > 0
    sidak = -NormalDist().inv_cdf(-math.expm1(math.log(level) / int(random.sum())) / 2)
    rng = generator if generator is not None else np.random.default_rng(0)
    m = operator.shape[0]
    draws = max(_LEAST_DRAWS, min(_DRAWS, _SIMULATION_ENTRIES // m))
    scale = math.sqrt(strategy.noise_variance)
    weights = np.where(random, 1 / np.where(random, stderr, 1), 0)
    largest = np.empty(draws)
    # Few queries over many cells: go from noise to errors at once, past the cells.
    rows, n = strategy.shape
    shortcut = operator.apply(strategy.pseudo_inverse) if m <= n else None
    chunk = max(1, _CHUNK_ENTRIES // max(m, rows, n))
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        noise = scale * rng.standard_normal((rows, size))
        errors = operator.apply(strategy.pseudo_inverse @ noise) if shortcut is None else shortcut @ noise
        largest[start : start + size] = np.abs(errors * weights[:, None]).max(axis=0)
    largest.sort()
    rank = math.ceil(draws * level + 2 * math.sqrt(draws * level * (1 - level)))
    return min(sidak, float(largest[rank - 1])) if rank <= draws else sidak


def _laplace_half_widths(operator: Operator, strategy: Strategy, alpha: float) -> Array:
    """t with P(|Σ g_r X_r| > t) ≤ α for each row g of W A⁺, X discrete Laplace.

    One coefficient: exact. Several: for any θ in the domain,
    P(|S| > t) ≤ 2 exp(−θt) Π_r E exp(θ g_r X_r), and E exp(sX) = 1/(1 − v (cosh s − 1))
    with v = 1/(2 sinh²(1/(2b))).
    """
    b = strategy.scale
    v = strategy.noise_variance
    # P(|X| > k) = 2 e^{−(k+1)/b} / (1 + e^{−1/b})
    steps = max(0, math.ceil(-b * math.log(alpha * (1 + math.exp(-1 / b)) / 2) - 1))
    # cosh s − 1 = 2 sinh²(s/2), which keeps its digits where s is 1e-9.
    largest_s = 2 * math.asinh(math.sqrt(0.5 / v))
    result = np.empty(operator.shape[0])
    block = max(1, _CHUNK_ENTRIES // max(strategy.shape))
    for start in range(0, operator.shape[0], block):
        index = np.arange(start, min(start + block, operator.shape[0]))
        G = np.abs(operator.rows(index) @ strategy.pseudo_inverse)
        peak = G.max(axis=1)
        safe = np.where(peak > 0, peak, 1)
        half = np.full(len(index), np.inf)
        for share in _CHERNOFF_POINTS:
            theta = share * largest_s / safe
            log_moment = -np.log1p(-2 * v * np.sinh(theta[:, None] * G / 2) ** 2).sum(axis=1)
            half = np.minimum(half, (math.log(2 / alpha) + log_moment) / theta)
        # Pseudo-inverses leave crumbs of 1e-16 beside a single coefficient.
        alone = G.sum(axis=1) <= peak * (1 + 1e-12)
        half = np.where(alone, peak * steps, half)
        result[index] = np.where(peak > 0, half, 0)
    return result
