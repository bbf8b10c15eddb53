"""Cells of least Σ (y − A x)², from which all answers agree and err no more than what a plan states.

Where an axis is measured in several forms, the answers of a release come each from the form that serves it
best. Taken together, everything that was measured says more: the cells x̂ + h with

    G h = −b ,      G and b of (1) in `information`                                                       (1)

give to every query that the measurements determine the unbiased linear answer of least variance
(Gauss and Markov), at most that of the release's own answer. Its error is Gaussian where the noise is, and
the covariances of all errors are at most the release's as matrices, so that intervals of its half-widths
hold the truth as often as they say or more, each and, by Anderson's inequality, all at once.

(1) is solved by conjugate gradients. A block that measures k ⊗ M_a ⊗ 1ᵀ with noise of variance ν tells the
residuals of its axes with covariance (ν/k²) ⊗ G_aG_aᵀ ⊗ g_ag_aᵀ/(1ᵀg_a)². The sum P of these over all blocks
is near the inverse of G. With r = G h + b what is left over, and λ the least eigenvalue of P G that matters,

    ‖h − h*‖²_G = rᵀG⁺r ≤ rᵀP r / λ .                                                                     (2)

Where for every set of axes one block tells all residuals, an unbiased answer to the query r follows from
these blocks with variance at most rᵀP r, so that λ ≥ 1 and (2) is proved. Where several blocks tell together
what none does alone, λ is estimated: by the least Ritz value of the steps taken, all of which begin at b.

Reference:
    Anderson (1955), The integral of a symmetric unimodal function over a symmetric convex set and some
    probability inequalities, Proc. AMS 6, Corollary 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.release.adjusting.adjust_progress import AdjustWatch
from leastnoise.release.adjustment import NEAR_ENOUGH
from leastnoise.strategy import ProductGram

# No answer is to be further from that of the exact cells than this many standard errors.
PRECISION = 1e-5

# Steps of conjugate gradients.
_MAX_STEPS = 1_000


class LeastSquares(NamedTuple):
    """What was found.

    Attributes:
        cells: x̂ + h, (n,).
        precision: by (2), no answer is further from the exact one, in its standard errors.
        ended: how the search ended.
    """

    cells: Array
    precision: float
    ended: Ended


def least_squares_cells(
    products: ProductGram, estimates: Array, linear: Array, watch: AdjustWatch
) -> LeastSquares:
    """The solution of (1) up to a distance that is proved."""
    h = np.zeros_like(estimates)
    r = -linear
    z = products.covariance_times(r)
    p, square = z, float(r @ z)
    best, least = h, square
    lengths: list[float] = []
    growths: list[float] = []
    with watch.keeping_the_best():
        for _ in range(_MAX_STEPS):
            if not square > PRECISION**2 or watch.is_over():
                break
            q = products.times(p)
            curvature = float(p @ q)
            if not curvature > 0:
                break
            t = square / curvature
            h = h + t * p
            r = r - t * q
            z = products.covariance_times(r)
            before, square = square, float(r @ z)
            lengths.append(t)
            growths.append(square / before)
            if square < least:
                best, least = h, square
            watch.tell(math.sqrt(max(least, 0.0)))
            # Rounding has the last word.
            if square > 1e4 * least:
                break
            p = z + (square / before) * p
    # What conjugate gradients carry along may drift from the truth: what is left over is taken anew.
    r = products.times(best) + linear
    # An interruption may fall between the two lists.
    n_steps = min(len(lengths), len(growths))
    is_proved = products.is_spanned or not n_steps
    weakest = 1.0 if is_proved else _least_ritz_value(lengths[:n_steps], growths[:n_steps])
    distance = math.sqrt(max(float(r @ products.covariance_times(r)), 0.0) / min(weakest, 1.0))
    # Near enough for all that is said of such answers, whatever cut the search short.
    ended = watch.ended(is_converged=distance <= NEAR_ENOUGH)
    return LeastSquares(estimates + best, distance, ended)


def _least_ritz_value(lengths: Sequence[float], growths: Sequence[float]) -> float:
    """The least eigenvalue of the tridiagonal matrix that steps of conjugate gradients are made of."""
    from scipy import linalg

    t, beta = np.array(lengths), np.maximum(growths, 0.0)[:-1]
    diagonal = 1 / t
    diagonal[1:] += beta / t[:-1]
    return float(linalg.eigvalsh_tridiagonal(diagonal, np.sqrt(beta) / t[:-1])[0])
