"""How far an answer may be from the truth, at any level of confidence.

The errors of all answers are linear in the noise: e = W A⁺ ξ, with A⁺ known. For
Gaussian noise e is Gaussian with known covariance, so a single interval is exact,
and the largest |e_j| / stderr_j, which rules all intervals at once, can be
simulated to any accuracy without touching data. For Laplace noise the tail of a
weighted sum is bounded from above by its transform, tightly (laplace_tails); all
intervals at once share 1 − level, which holds for any dependence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from leastnoise import laplace_tails
from leastnoise.errors import InputError
from leastnoise.operators import Array, Operator
from leastnoise.strategy import Strategy

# Simulated maxima: enough that the safe side costs a third of a percentage point
# at level 0.95, fewer where there are very many queries.
_DRAWS = 20_000
_LEAST_DRAWS = 4_000
_SIMULATION_ENTRIES = 2**32
_CHUNK_ENTRIES = 2**24


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
    """t with P(|e_j| > t_j) ≤ α for the error e_j of every answer, Laplace noise."""
    m = operator.shape[0]
    block = max(1, _CHUNK_ENTRIES // max(strategy.shape))

    def gains() -> Iterator[Array]:
        for start in range(0, m, block):
            yield operator.rows(np.arange(start, min(start + block, m))) @ strategy.pseudo_inverse

    return laplace_tails.half_widths(gains, scale=strategy.scale, alpha=alpha)
