"""Noise on the Fourier queries that marginals are made of; the others are left out.

The marginal of a set of attributes is made of the Fourier queries of its subsets t,

    ⊗_{a in t} (rows of attribute a other than its total) ⊗_{a not in t} (total)

so those of subsets that no query reaches need no noise. Binary attributes have the entries ±1
of the paper, and so has any size that is a power of two; see `bases.fourier_basis` for others.
Every Fourier query is measured with the same noise, at the same length.

Reference:
    Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar (2007), Privacy, accuracy, and
    consistency too; the version without unneeded queries of Li and Miklau (2012), section 5.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.planning.families.bases import equal_lengths, fourier_basis
from leastnoise.planning.families.mentioned_attributes import (
    Subset,
    along,
    asked_subsets,
    downward,
    maximal,
    mentions_all,
    n_combinations,
)
from leastnoise.planning.method import Found, Method, Request, kronecker, refuse_large, uniform_weights
from leastnoise.strategy import RealStrategy


def fourier_rows(subset: Subset, sizes: tuple[int, ...]) -> Array:
    """The Fourier queries of one set of attributes: orthogonal to those of smaller sets."""
    return kronecker(
        [
            fourier_basis(n)[1:] if inside else np.ones((1, n), dtype=np.int64)
            for n, inside in along(subset, sizes)
        ]
    )


def _refuses(request: Request) -> str | None:
    # Sets of attributes are listed only where at least one row over all cells would fit.
    too_large = refuse_large(1, request.workload.shape[1])
    if too_large is not None:
        return too_large
    asked = asked_subsets(request.workload)
    if asked is None:
        return "it needs queries that name attributes, such as Marginal, and a matrix names none"
    assert request.workload.schema is not None
    sizes = request.workload.schema.shape
    for product in asked:
        if mentions_all(product.attributes, sizes):
            return (
                f"query {product.name!r} mentions every attribute, so no Fourier query can be left out and "
                "noise on the cells is no worse"
            )
    # Counted before they are listed: a marginal of thirty attributes has a billion subsets.
    tops = maximal(product.attributes for product in asked)
    return refuse_large(sum(n_combinations(top, sizes) for top in tops), math.prod(sizes))


def _find(request: Request) -> Found:
    asked = asked_subsets(request.workload)
    assert asked is not None
    assert request.workload.schema is not None
    sizes = request.workload.schema.shape
    needed = downward(product.attributes for product in asked)
    rows = np.vstack([fourier_rows(subset, sizes) for subset in needed])
    return Found(
        RealStrategy(equal_lengths(rows)),
        uniform_weights(request.workload),
        "heuristic",
        f"noise on {len(rows):,} of {math.prod(sizes):,} Fourier queries",
        "converged",
    )


FOURIER = Method(
    "fourier",
    "noise on the Fourier queries that marginals are made of, then least squares",
    _refuses,
    _find,
)
