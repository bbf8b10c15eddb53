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
from statistics import NormalDist

import numpy as np

from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.query import Workload
from leastnoise.strategy import Measured

# Simulated maxima: enough that the safe side costs a third of a percentage point at level 0.95.
_DRAWS = 20_000

# Fewer where there are very many queries, but at least this many.
_MIN_DRAWS = 4_000

# Simulated errors of all queries together, at which there are fewer draws.
_SIMULATION_ENTRIES = 2**32

# Simulated errors that are held at once: 128 MiB.
_CHUNK_ENTRIES = 2**24

# Simulated errors beyond which Šidák's value, which is on the safe side, is taken without simulating.
_MAX_SIMULATED = 2**34


def half_widths(
    workload: Workload,
    strategy: Measured,
    stderr: Array,
    level: float,
    simultaneous: bool,
    generator: np.random.Generator | None,
) -> Array:
    """Half the width of each query's interval, (m,)."""
    if not isinstance(level, (float, np.floating)) or not 0 < level < 1:
        raise InputError.must("level", "lie between 0 and 1, as in 0.95", given=level)
    if generator is not None and not isinstance(generator, np.random.Generator):
        raise InputError.must(
            "generator", "be a NumPy one, as in np.random.default_rng(1)", given=type(generator)
        )
    n_random = int((stderr > 0).sum())
    if n_random == 0:
        return np.zeros_like(stderr)
    if not strategy.noise.has_normal_errors:
        alpha = (1 - level) / (n_random if simultaneous else 1)
        return strategy.laplace_half_widths(workload, alpha)
    if not simultaneous:
        # The lower tail: (1 + level) / 2 rounds to 1 for levels next to 1.
        return -NormalDist().inv_cdf((1 - level) / 2) * stderr
    return simultaneous_multiplier(workload, strategy, stderr, level, generator) * stderr


def simultaneous_multiplier(
    workload: Workload,
    strategy: Measured,
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
    m, rows = workload.shape[0], strategy.n_measured
    draws = max(_MIN_DRAWS, min(_DRAWS, _SIMULATION_ENTRIES // m))
    if draws * max(m, rows) > _MAX_SIMULATED:
        return sidak
    scale = math.sqrt(strategy.noise_variance)
    weights = np.where(random, 1 / np.where(random, stderr, 1), 0)
    largest = np.empty(draws)
    chunk = max(1, _CHUNK_ENTRIES // max(m, rows))
    errors_of = strategy.error_map(workload)
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        errors = errors_of(scale * rng.standard_normal((rows, size)))
        largest[start : start + size] = np.abs(errors * weights[:, None]).max(axis=0)
    largest.sort()
    rank = math.ceil(draws * level + 2 * math.sqrt(draws * level * (1 - level)))
    return min(sidak, float(largest[rank - 1])) if rank <= draws else sidak
