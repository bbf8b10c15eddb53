"""Methods that look at nothing but the sets of attributes that queries mention: Fourier queries, data cubes.

Fourier: the marginal of a set of attributes is made of the Fourier queries of its subsets t,

    ⊗_{a in t} (rows of attribute a other than its total) ⊗_{a not in t} (total)

so those of subsets that no query reaches need no noise. Binary attributes have the entries ±1
of the paper, and so has any size that is a power of two; see `bases.fourier_basis` for others.
Every Fourier query is measured with the same noise, at the same length.

Data cube: from a measured marginal of attributes C, that of S ⊆ C follows by adding up
Π_{a in C∖S} n_a counts, each with variance in proportion to k, the number of marginals
measured (to k² with Laplace noise). Sought are marginals to measure that keep the
largest k·Π_{a in C∖S} n_a small, every S served by its best C. For each limit on how many counts
may be added up, the fewest marginals that serve all is a cover; it is found greedily, which
is within ln(number of marginals) + 1 of the fewest. The best limit is taken. Queries such as ranges over
some attributes are treated as the marginal of these attributes.

Reference:
    Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar (2007), Privacy, accuracy, and consistency too; the
    version without unneeded queries of Li and Miklau (2012), section 5. Ding, Winslett, Han and Li (2011),
    Differentially private data cubes, algorithm BMAX; chosen among the marginals asked for, with L2
    sensitivity under Gaussian noise, as in Li and Miklau (2012), section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from leastnoise.core.operators import Array, Identity, kronecker
from leastnoise.core.resources import NOTHING, Needs, matrices, products
from leastnoise.planning.families.bases import equal_lengths, fourier_basis
from leastnoise.planning.method import Method, Request, SearchResult, heuristic, refuse_large
from leastnoise.query import Linear, Workload
from leastnoise.strategy import RealStrategy

# Places of attributes in the schema.
Subset = frozenset[int]


@dataclass(frozen=True)
class MentionedAttributes:
    """The attributes that one product of queries mentions, and whether it is their cross table."""

    name: str
    attributes: Subset
    is_marginal: bool


def asked_subsets(workload: Workload) -> list[MentionedAttributes] | None:
    """What each product of the workload mentions; None where a matrix names no attributes.

    Attributes with a single value tell nobody apart and count as not mentioned.
    """
    if workload.schema is None or any(isinstance(block.query, Linear) for block in workload.blocks):
        return None
    schema = workload.schema
    places = {name: place for place, name in enumerate(schema.names) if schema.shape[place] > 1}
    return [
        MentionedAttributes(
            block.name,
            frozenset(places[name] for factor in term for name in factor.attributes if name in places),
            all(isinstance(factor.operator, Identity) and len(factor.attributes) == 1 for factor in term),
        )
        for block in workload.blocks
        for term in block.query.terms(schema)
    ]


def mentions_all(subset: Subset, sizes: tuple[int, ...]) -> bool:
    """Whether no attribute that tells people apart is left out."""
    return len(subset) == sum(size > 1 for size in sizes)


def maximal(subsets: Iterable[Subset]) -> list[Subset]:
    """Those that no other one contains, larger first."""
    kept: list[Subset] = []
    for subset in sorted(set(subsets), key=lambda s: (-len(s), sorted(s))):
        if not any(subset <= larger for larger in kept):
            kept.append(subset)
    return kept


def downward(subsets: Iterable[Subset]) -> list[Subset]:
    """Every subset of one of them, smaller first."""
    found = {
        frozenset(chosen)
        for top in maximal(subsets)
        for size in range(len(top) + 1)
        for chosen in combinations(sorted(top), size)
    }
    return sorted(found, key=lambda s: (len(s), sorted(s)))


def n_combinations(subset: Subset, sizes: tuple[int, ...]) -> int:
    """How many counts the cross table of these attributes has."""
    return math.prod(sizes[a] for a in subset)


def along(subset: Subset, sizes: tuple[int, ...]) -> Iterator[tuple[int, bool]]:
    """Each attribute's size, and whether the subset holds it."""
    return ((size, a in subset) for a, size in enumerate(sizes))


def fourier_rows(subset: Subset, sizes: tuple[int, ...]) -> Array:
    """The Fourier queries of one set of attributes: orthogonal to those of smaller sets."""
    return kronecker(
        [
            fourier_basis(n)[1:] if inside else np.ones((1, n), dtype=np.int64)
            for n, inside in along(subset, sizes)
        ]
    )


def _asked(request: Request, measured: str) -> tuple[list[MentionedAttributes], tuple[int, ...]] | str:
    """What each product mentions and the sizes of all attributes; or the reason why there is no such list.

    Args:
        measured: what the method measures, for the reason.
    """
    # Sets of attributes are listed only where at least one row over all cells would fit.
    too_large = refuse_large(1, request.workload.shape[1])
    if too_large is not None:
        return too_large
    asked = asked_subsets(request.workload)
    if asked is None:
        return f"it measures {measured}, and a query given as a matrix names no attributes"
    assert request.workload.schema is not None
    return asked, request.workload.schema.shape


# Matrices of a row for every query or measured row, over all cells, held at once by rounding and proof.
_HELD = 12.0

# Products of such matrices that rounding and proof take: 25 for a cube over 7 attributes of 4 values.
_PRODUCTS = 30.0


def _needs_for(rows: int, request: Request) -> Needs:
    """What rounding and proof of this many dense rows take; the search itself takes next to nothing."""
    m, n = request.workload.shape
    most = max(rows, min(m, n))
    # A Gram matrix takes the place of the queries where they are more than the cells.
    return Needs(memory=matrices(_HELD, most, n), last=products(_PRODUCTS, min(most, n), n))


def _refuses_fourier(request: Request) -> str | None:
    found = _asked(request, "Fourier queries")
    if isinstance(found, str):
        return found
    asked, sizes = found
    for product in asked:
        if mentions_all(product.attributes, sizes):
            return (
                f"query {product.name!r} mentions every attribute, so no Fourier query can be left out and "
                "noise on the cells is no worse"
            )
    # Counted before they are listed: a marginal of thirty attributes has a billion subsets.
    tops = maximal(product.attributes for product in asked)
    return refuse_large(sum(n_combinations(top, sizes) for top in tops), math.prod(sizes))


def _needs_of_fourier(request: Request) -> Needs:
    asked = asked_subsets(request.workload)
    if asked is None or request.workload.schema is None:
        return NOTHING
    sizes = request.workload.schema.shape
    needed = downward(product.attributes for product in asked)
    return _needs_for(sum(math.prod(sizes[a] - 1 for a in subset) for subset in needed), request)


def _find_fourier(request: Request) -> SearchResult:
    asked = asked_subsets(request.workload)
    assert asked is not None
    assert request.workload.schema is not None
    sizes = request.workload.schema.shape
    needed = downward(product.attributes for product in asked)
    rows = np.vstack([fourier_rows(subset, sizes) for subset in needed])
    return heuristic(
        request,
        RealStrategy(equal_lengths(rows)),
        f"noise on {len(rows):,} of {math.prod(sizes):,} Fourier queries",
    )


FOURIER = Method(
    "fourier",
    "noise on the Fourier queries that marginals are made of, then least squares",
    _refuses_fourier,
    _find_fourier,
    needs=_needs_of_fourier,
)


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


def _refuses_datacube(request: Request) -> str | None:
    found = _asked(request, "marginals")
    if isinstance(found, str):
        return found
    asked, sizes = found
    for product in asked:
        if not product.is_marginal and mentions_all(product.attributes, sizes):
            return (
                f"query {product.name!r} is not a marginal and mentions every attribute; measuring its "
                "marginal would be noise on every cell"
            )
    subsets = {product.attributes for product in asked}
    if len(subsets) > MAX_MARGINALS:
        return f"it chooses among at most {MAX_MARGINALS} marginals; this workload has {len(subsets):,}"
    return refuse_large(sum(n_combinations(subset, sizes) for subset in subsets), math.prod(sizes))


def _needs_of_datacube(request: Request) -> Needs:
    asked = asked_subsets(request.workload)
    if asked is None or request.workload.schema is None:
        return NOTHING
    sizes = request.workload.schema.shape
    # At most all marginals that are asked are measured.
    subsets = {product.attributes for product in asked}
    return _needs_for(sum(n_combinations(subset, sizes) for subset in subsets), request)


def _find_datacube(request: Request) -> SearchResult:
    asked = asked_subsets(request.workload)
    assert asked is not None
    assert request.workload.schema is not None
    sizes = request.workload.schema.shape
    power = request.privacy.noise.variance_power
    subsets = [product.attributes for product in asked]
    measured = chosen_marginals(subsets, sizes, power)
    return heuristic(
        request,
        RealStrategy(np.vstack([marginal_rows(subset, sizes) for subset in measured])),
        f"noise on {len(measured):,} of {len(set(subsets)):,} marginals asked for",
    )


DATACUBE = Method(
    "datacube",
    "noise on some of the marginals asked for, chosen for the noisiest answer (BMAX)",
    _refuses_datacube,
    _find_datacube,
    needs=_needs_of_datacube,
)
