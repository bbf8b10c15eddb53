"""Noise on some of the marginals asked for, chosen so that the noisiest answer is good.

From a measured marginal of attributes C, that of S ⊆ C follows by adding up
Π_{a in C∖S} n_a counts, each with variance in proportion to k, the number of marginals
measured (to k² with Laplace noise). Sought are marginals to measure that keep the
largest k·Π_{a in C∖S} n_a small, every S served by its best C. For each limit on how many counts
may be added up, the fewest marginals that serve all is a cover; it is found greedily, which
is within ln(number of marginals) + 1 of the fewest. The best limit is taken.

Queries such as ranges over some attributes are treated as the marginal of these attributes.

Reference:
    Ding, Winslett, Han and Li (2011), Differentially private data cubes, algorithm BMAX;
    chosen among the marginals asked for, with L2 sensitivity under Gaussian noise, as in
    Li and Miklau (2012), section 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.planning.families.mentioned_attributes import (
    Subset,
    along,
    asked_subsets,
    mentions_all,
    n_combinations,
)
from leastnoise.planning.method import Found, Method, Request, kronecker, refuse_large, uniform_weights
from leastnoise.strategy import RealStrategy

# Listing covers of more marginals than this takes minutes.
MAX_MARGINALS = 300


def chosen_marginals(asked: Sequence[Subset], sizes: tuple[int, ...], power: int = 1) -> list[Subset]:
    """The marginals to measure: those that keep `largest_noise` least, by greedy covers.

    Args:
        power: 1 with Gaussian noise, 2 with Laplace noise.
    """
    subsets = sorted(set(asked), key=lambda s: (len(s), sorted(s)))
    limits = {
        n_combinations(larger - smaller, sizes)
        for larger in subsets
        for smaller in subsets
        if smaller <= larger
    }
    covers = [_cover(subsets, sizes, limit) for limit in sorted(limits)]
    return min(covers, key=lambda cover: largest_noise(cover, subsets, sizes, power))


def largest_noise(
    measured: Sequence[Subset], asked: Sequence[Subset], sizes: tuple[int, ...], power: int = 1
) -> float:
    """max over S of min over C ⊇ S of k^p Π_{a in C∖S} n_a; infinite where some S has no C."""
    return len(measured) ** power * max(
        min((n_combinations(C - S, sizes) for C in measured if S <= C), default=math.inf) for S in asked
    )


def _cover(subsets: Sequence[Subset], sizes: tuple[int, ...], limit: int) -> list[Subset]:
    """Marginals from which each follows by adding up at most `limit` counts; most newly served first."""
    serves = {C: {S for S in subsets if S <= C and n_combinations(C - S, sizes) <= limit} for C in subsets}
    left, cover = set(subsets), list[Subset]()
    while left:
        # Of two that serve as many, the one listed first: fewer attributes.
        best = max(subsets, key=lambda C: len(serves[C] & left))
        cover.append(best)
        left -= serves[best]
    return cover


def marginal_rows(subset: Subset, sizes: tuple[int, ...]) -> Array:
    """The 0/1 rows of the cross table of some attributes."""
    return kronecker(
        [
            np.eye(n, dtype=np.int64) if inside else np.ones((1, n), dtype=np.int64)
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
        return "it measures marginals, and a matrix names no attributes"
    assert request.workload.schema is not None
    sizes = request.workload.schema.shape
    for product in asked:
        if not product.is_marginal and mentions_all(product.attributes, sizes):
            return (
                f"query {product.name!r} is no marginal and mentions every attribute: measuring its marginal "
                "would be noise on every cell"
            )
    subsets = {product.attributes for product in asked}
    if len(subsets) > MAX_MARGINALS:
        return f"it chooses among at most {MAX_MARGINALS} marginals, the workload has {len(subsets):,}"
    return refuse_large(sum(n_combinations(subset, sizes) for subset in subsets), math.prod(sizes))


def _find(request: Request) -> Found:
    asked = asked_subsets(request.workload)
    assert asked is not None
    assert request.workload.schema is not None
    sizes = request.workload.schema.shape
    power = 2 if request.privacy.noise == "laplace" else 1
    subsets = [product.attributes for product in asked]
    measured = chosen_marginals(subsets, sizes, power)
    return Found(
        RealStrategy(np.vstack([marginal_rows(subset, sizes) for subset in measured])),
        uniform_weights(request.workload),
        "heuristic",
        f"noise on {len(measured):,} of {len(set(subsets)):,} marginals asked for",
        "converged",
    )


DATACUBE = Method(
    "datacube",
    "noise on some of the marginals asked for, chosen for the noisiest answer (BMAX)",
    _refuses,
    _find,
)
