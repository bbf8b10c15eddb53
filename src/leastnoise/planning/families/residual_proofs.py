"""Weights that prove how good oblique residuals are, in the time that is left for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from leastnoise.bounds import (
    ProductWitness,
    union_bound,
    union_bound_work,
    with_row_weights,
    with_weighted_terms,
)
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.core.resources import LATE_SECONDS, Needs, seconds_for
from leastnoise.planning.families.product_requests import axis_needs, product_request
from leastnoise.planning.method import Request
from leastnoise.planning.oblique.dual_search import dual_weights
from leastnoise.planning.oblique.largest_variance import Alternated
from leastnoise.planning.oblique.splitting import Split
from leastnoise.query import Products

# Seconds after the limit that bounds may take; the other half of what the promise allows is for rounding.
LATE_PROOF = LATE_SECONDS / 2

# Shares of the dual weights of caps that are tried beside all of them.
_SHARES_OF_CAPS = (0.8, 0.5, 0.25, 0.0)


def needs_of_axes(request: Request) -> Needs:
    """What one-axis problems need: memory, the first pass over all axes, and what follows the search."""
    return axis_needs(request, held=21, first=70, step=0)


def last_seconds(request: Request) -> float:
    """Seconds that rounding and the bound of the certificate take."""
    return seconds_for(needs_of_axes(request).last + bound_work(request))


def bound_work(request: Request) -> float:
    """About how many operations the bound of the certificate takes."""
    return union_bound_work(product_request(request).products)


@dataclass(frozen=True, eq=False)
class Dual:
    """Weights of queries of product form: one for every product, and those of its rows on each axis."""

    p: Array
    rows: dict[tuple[int, int], Array]

    @property
    def folded(self) -> Dual:
        """The same with rows that weigh alike left to the weight of their product.

        Rows that are all 1 stay what they are to a bound: plain counts, or rows that all products ask alike.
        """
        p, rows = self.p.copy(), {}
        for (number, axis), own in self.rows.items():
            if (own == own[0]).all():
                p[number] *= own[0]
            else:
                rows[number, axis] = own
        return Dual(p, rows)


def dual_of(found: Alternated, capped: Array) -> Dual:
    """Weights of single queries as products of weights of rows.

    Any such weights prove a bound; these have the same sums over each product, and over each of its rows on
    one axis. Rows of an axis that were not told apart share one weight.

    Args:
        capped: for every product, whether it has a cap; others have no weight.
    """
    split = found.split
    products = split.products
    of_terms = capped * np.bincount(found.terms, weights=found.p, minlength=len(products.terms))
    rows: dict[tuple[int, int], Array] = {}
    for j in np.flatnonzero(of_terms > 0).tolist():
        term = products.terms[j]
        mine = found.terms == j
        shape = [products.kinds[a][k].n_rows for a, k in zip(term.places, term.kinds, strict=True)]
        index = np.unravel_index(found.rows[mine], shape) if shape else ()
        for a, at, size in zip(term.places, index, shape, strict=True):
            whole = split.axes[a].p
            if whole is not None:
                rows[j, a] = whole
            elif split.axes[a].form == "residual":
                rows[j, a] = np.bincount(at, weights=found.p[mine], minlength=size) / of_terms[j]
            else:
                rows[j, a] = np.full(size, 1 / size)
    return Dual(of_terms, rows)


def proving_most(request: Request, found: Alternated, of_shares: Array, caps: Array) -> Dual:
    """The weights of single queries, with sums over each product from the rounds or from the last shares.

    Rounds end when the largest variance falls no more, which it may from the start, with weights of products
    that prove little; the shares of the budget come with weights that are best for these axes. Where there is
    no time to compare, those of the rounds are taken.

    Args:
        of_shares: the weight of every product that came with the shares, (products,).
    """
    dual = dual_of(found, np.isfinite(caps))
    products = found.split.products
    weighted = with_row_weights(products, dual.folded.rows)
    if _is_short(request, weighted, 4):
        return dual
    pairs = zip(found.split.axes, products.kinds, products.sizes, strict=True)
    q = [axis.q if kinds else np.full(size, 1 / size) for axis, kinds, size in pairs]

    def bound(one: Dual) -> float:
        return union_bound(weighted, one.folded.p, q) / _allowed(products, one, caps)

    return max([dual, replace(dual, p=np.where(dual.p > 0, of_shares, 0.0))], key=bound)


def _is_short(request: Request, products: Products, n_bounds: int) -> bool:
    """Whether the time left is too short for this number of bounds."""
    left = request.deadline.left
    return left is not None and left + LATE_PROOF < n_bounds * seconds_for(union_bound_work(products))


def proof_of_largest(request: Request, split: Split, dual: Dual) -> tuple[ProductWitness, Ended]:
    """Weights behind F(p)² / Σ p c, with p given, and how the search for q ended."""
    dual = dual.folded
    products = with_row_weights(split.products, dual.rows)
    q, ended = _weights_of_values(request, split, products, dual.p)
    return ProductWitness(q, dual.p, dual.rows, split.products.axes), ended


def _weights_of_values(
    request: Request, split: Split, products: Products, weights: Array
) -> tuple[tuple[Array, ...], Ended]:
    pairs = zip(split.axes, split.products.kinds, strict=True)
    start = tuple(axis.q if kinds else np.ones(1) for axis, kinds in pairs)
    # It leaves time for the certificate's bound by itself.
    deadline = request.deadline.before(seconds_for(needs_of_axes(request).last))
    return dual_weights(products, weights, start=start, deadline=deadline, late_seconds=LATE_PROOF)


def proof_of_total(request: Request, split: Split, weights: Array) -> tuple[ProductWitness, Ended]:
    """Weights behind F(w)², and how the search for them ended."""
    q, ended = _weights_of_values(request, split, split.products, weights)
    return ProductWitness(q, axes=split.products.axes), ended


def proof_within(
    request: Request, split: Split, weights: Array, dual: Dual, caps: Array
) -> tuple[ProductWitness, Ended]:
    """Weights behind F(w + p)² − Σ p c: all of p, or that share of it that proves most.

    Weights p of caps that are hard to keep are large, and the bound is what is left of two large numbers:
    less of p may prove more. Where there is no time to compare, none is taken, because a bound without p is
    never negative.
    """
    dual, products = dual.folded, split.products
    both = with_weighted_terms(products, dual.rows)
    n_bounds = 2 + len(_SHARES_OF_CAPS)
    # The search for q works out two bounds at least.
    if _is_short(request, both, 2 + n_bounds):
        return proof_of_total(request, split, weights)
    q, ended = _weights_of_values(request, split, both, np.concatenate([weights, dual.p]))
    if _is_short(request, both, n_bounds):
        return ProductWitness(q, axes=products.axes), ended
    allowed = _allowed(products, dual, caps)
    triples = zip(q, both.kinds, both.sizes, strict=True)
    whole = [own if kinds else np.full(size, 1 / size) for own, kinds, size in triples]

    def bound(share: float) -> float:
        return union_bound(both, np.concatenate([weights, share * dual.p]), whole) - share * allowed

    share = max((1.0, *_SHARES_OF_CAPS), key=bound)
    if share == 0:
        return proof_of_total(request, split, weights)
    return ProductWitness(q, share * dual.p, dual.rows, products.axes), ended


def _allowed(products: Products, dual: Dual, caps: Array) -> float:
    """Σ p c over all queries."""
    total = 0.0
    for j in np.flatnonzero(dual.p > 0).tolist():
        term = products.terms[j]
        counts = [
            float(dual.rows[j, a].sum()) if (j, a) in dual.rows else products.kinds[a][k].n_rows
            for a, k in zip(term.places, term.kinds, strict=True)
        ]
        total += float(dual.p[j] * caps[j]) * math.prod(counts)
    return total
