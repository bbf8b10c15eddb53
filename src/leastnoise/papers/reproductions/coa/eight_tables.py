"""The eight tables of COA's comparison with DAWA: four synthetic as described, four real or stood in for.

Search Log, Net Trace and Social Network are not public. What takes their place is drawn from a fixed
seed and has the shape that is told of them: popularity that drifts, packets of few busy addresses, and
degrees that thin out. UCI Adult is read where it is given.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leastnoise.core.errors import DataError
from leastnoise.core.operators import Array

SYNTHETIC = ("Random Alternating", "Random Laplace", "Random Gaussian", "Random Uniform")
REAL = ("Search Log", "Net Trace", "Social Network", "UCI Adult")

# Section 5.6: the mean is zero, the variance this.
_VARIANCE = 10.0

# The length of the first two, from which shorter ones are made by merging neighbours.
_LENGTH = 2**16

# The column fnlwgt of adult.data, counted from 0.
_COLUMN = 2

# A public limit above all values of that column.
_LIMIT = 1_500_000

# People in adult.data.
_PEOPLE = 32_561


def counts_of(name: str, n: int, *, seed: int, data: Path | None) -> tuple[Array, str]:
    """Whole, non-negative counts of n cells, and where they come from.

    The synthetic tables of the paper are real numbers of both signs. They are rounded and
    moved up by a constant here; DAWA looks at differences from means and adds noise, so that the
    constant changes none of its errors.
    """
    generator = np.random.default_rng(seed)
    if name in SYNTHETIC:
        values = _synthetic(name, n, generator)
        whole = np.rint(values).astype(np.int64)
        return whole - min(0, int(whole.min())), "as described"
    if name == "UCI Adult" and data is not None:
        return _adult(data / "adult.data", n), "adult.data"
    return _stand_in(name, n, generator), "stand-in"


def _synthetic(name: str, n: int, generator: np.random.Generator) -> Array:
    if name == "Random Alternating":
        return np.where(np.arange(n) % 2 == 1, 10.0, 0.0)
    if name == "Random Laplace":
        return generator.laplace(0, np.sqrt(_VARIANCE / 2), n)
    if name == "Random Gaussian":
        return generator.normal(0, np.sqrt(_VARIANCE), n)
    return generator.uniform(-np.sqrt(3 * _VARIANCE), np.sqrt(3 * _VARIANCE), n)


def _stand_in(name: str, n: int, generator: np.random.Generator) -> Array:
    if name == "UCI Adult":
        weights = generator.lognormal(np.log(178_000), 0.55, _PEOPLE)
        return np.histogram(np.minimum(weights, _LIMIT), bins=n, range=(0, _LIMIT))[0]
    if name == "Search Log":
        drift = np.cumsum(generator.normal(0, 0.02, _LENGTH))
        long = generator.poisson(5 * np.exp(drift - drift.mean()))
    elif name == "Net Trace":
        busy = generator.random(_LENGTH) < 0.02
        long = np.where(busy, np.minimum(generator.pareto(1.1, _LENGTH) * 10, 10_000), 0).astype(np.int64)
    else:
        long = generator.poisson(200_000 / np.arange(1, _LENGTH + 1) ** 1.5)
    return np.asarray(long.reshape(n, -1).sum(axis=1), dtype=np.int64)


def _adult(path: Path, n: int) -> Array:
    """A histogram of the final weight, the one attribute with thousands of ordered values."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(
            f"cannot read {path.name} in the folder given: {error.strerror}", field="data", given=path.name
        ) from None
    weights = [int(line.split(",")[_COLUMN]) for line in lines if line.strip()]
    return np.histogram(np.minimum(weights, _LIMIT), bins=n, range=(0, _LIMIT))[0]
