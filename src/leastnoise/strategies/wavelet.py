"""Noise on Haar wavelet coefficients of each attribute, crossed over attributes.

For 4 values the rows are

    1  1  1  1
    1  1 −1 −1
    1 −1  0  0
    0  0  1 −1

A number of values that is no power of two is filled up with absent values.

Reference:
    Xiao, Wang and Gehrke (2010), Differential privacy via wavelet transforms.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.operators import Array
from leastnoise.strategies.method import (
    Found,
    Method,
    Request,
    cells_per_attribute,
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


def _refuses(request: Request) -> str | None:
    sizes = cells_per_attribute(request.workload)
    return refuse_large(math.prod(2 * n for n in sizes), math.prod(sizes))


def _find(request: Request) -> Found:
    rows = kronecker([haar(n) for n in cells_per_attribute(request.workload)])
    return Found(
        RealStrategy(rows),
        uniform_weights(request.workload),
        "heuristic",
        "noise on Haar wavelet coefficients",
    )


WAVELET = Method("wavelet", "noise on Haar wavelet coefficients, then least squares", _refuses, _find)
