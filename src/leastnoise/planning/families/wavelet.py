"""Noise on Haar wavelet coefficients of each attribute, crossed over attributes.

For 4 values the rows are

    1  1  1  1
    1  1 −1 −1
    1 −1  0  0
    0  0  1 −1

A number of values that is no power of two is filled up with absent values.

With Laplace noise, wavelets cost more than they gain on attributes with few values. The
hybrid leaves an attribute of n values as it is where n ≤ P² H, P = 1 + log₂ n being what one
record moves its coefficients by, and H = (2 + log₂ n)/2 what they add to the variance of a range.

Reference:
    Xiao, Wang and Gehrke (2010), Differential privacy via wavelet transforms; Privelet,
    and Privelet⁺ for the hybrid.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.planning.method import (
    Found,
    Method,
    Request,
    cells_per_attribute,
    dense_needs,
    kronecker,
    refuse_large,
    uniform_weights,
)
from leastnoise.strategy import RealStrategy


def haar(n: int) -> Array:
    """The −1/0/1 rows of the unnormalised Haar wavelet over n values."""
    width = 1 << (n - 1).bit_length()
    rows = [np.ones(width, dtype=np.int64)]
    while width > 1:
        half = width // 2
        for low in range(0, n, width):
            row = np.zeros(len(rows[0]), dtype=np.int64)
            row[low : low + half] = 1
            row[low + half : low + width] = -1
            rows.append(row)
        width = half
    return np.array(rows)[:, :n]


def is_small(n: int) -> bool:
    """Whether the hybrid leaves an attribute of n values as it is: n ≤ P² H."""
    # Absent values are filled up, so the depth is that of the next power of two.
    depth = (n - 1).bit_length()
    return 2 * n <= (1 + depth) ** 2 * (2 + depth)


def _refuses(request: Request) -> str | None:
    sizes = cells_per_attribute(request.workload)
    if request.options.get("hybrid") is True and request.privacy.noise != "laplace":
        return "its hybrid is for Laplace noise; with Gaussian noise leaving attributes out gains nothing"
    return refuse_large(math.prod(2 * n for n in sizes), math.prod(sizes))


def _find(request: Request) -> Found:
    hybrid = WAVELET.option(request, "hybrid")
    if not isinstance(hybrid, bool):
        raise MethodError.must("hybrid", "be True or False", given=hybrid)
    sizes = cells_per_attribute(request.workload)
    left = [hybrid and is_small(n) for n in sizes]
    rows = kronecker(
        [np.eye(n, dtype=np.int64) if whole else haar(n) for n, whole in zip(sizes, left, strict=True)]
    )
    note = "noise on Haar wavelet coefficients"
    if hybrid:
        note += f", {sum(left)} of {len(sizes)} attributes left as they are"
    return Found(RealStrategy(rows), uniform_weights(request.workload), "heuristic", note, "converged")


WAVELET = Method(
    "wavelet",
    "noise on Haar wavelet coefficients, then least squares",
    _refuses,
    _find,
    {"hybrid": (False, "leave attributes with few values as they are; for pure privacy")},
    needs=dense_needs(held=4.2, first=1, step=0, rounded=1.0),
)
