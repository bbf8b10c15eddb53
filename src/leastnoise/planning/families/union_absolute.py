"""Absolute errors of unions of products: a few least total variances, with a weight for every product.

As in `solver.reweighting`, but standard errors of one product share one weight. Where those of a product are
κ √V, V the sum of its variances, the weight at which a total variance agrees with c κ √V to first order is
p = c Σ√v / Σv. On unions that a dense search can solve, such plans were 0.02 to 0.2 % above the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leastnoise.bounds import MAX_ABSOLUTE_ENTRIES, ProductWitness, n_absolute_entries
from leastnoise.core.operators import Array
from leastnoise.core.printable import in_figures
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.families.product_requests import product_request, uniform
from leastnoise.planning.method import Request, SearchResult
from leastnoise.query import Products, TotalVariance, products_of

# Rounds at most; the second takes most of what there is to gain.
MAX_ROUNDS = 4

# A round that gains less than this share is the last.
_LITTLE = 2e-4

# Queries whose variances are listed, at most.
MAX_QUERIES = 2**24


def refuse_absolute(request: Request) -> str | None:
    """The reason why absolute errors of these products are not planned for, or None."""
    products = product_request(request).products
    m = request.workload.shape[0]
    if m > MAX_QUERIES:
        return f"it lists the absolute errors of at most {MAX_QUERIES:,} queries; here are {in_figures(m)}"
    if n_absolute_entries(products) > MAX_ABSOLUTE_ENTRIES:
        return "its bound on absolute errors takes fewer products, or attributes of fewer values"
    return None


def find_absolute_union(request: Request, find_total: Callable[[Request], SearchResult]) -> SearchResult:
    """The best of a few plans for a total variance, by its absolute error."""
    question = product_request(request)
    c, products = question.weights, question.products
    p = c / _coefficients(products)
    best: tuple[float, SearchResult] | None = None
    endings: list[Ended] = []
    for rounds_left in range(MAX_ROUNDS, 0, -1):
        left = request.deadline.left
        weighted = replace(
            request,
            objective=TotalVariance(),
            term_weights=p / p.max(),
            time_limit=None if left is None else left / min(rounds_left, 2),
        )
        found = find_total(weighted)
        endings.append(found.ended)
        roots, squares = _sums(request, found, products)
        value = math.fsum(c * roots)
        before = math.inf if best is None else best[0]
        if value < before:
            best = value, replace(found, q=_with_weights(found, weighted))
        if request.deadline.is_past or value > before * (1 - _LITTLE):
            break
        p = np.where(squares > 0, c * roots / np.where(squares > 0, squares, 1), c)
    assert best is not None
    found = best[1]
    return replace(
        found,
        note=f"{found.note}, in {len(endings)} rounds of weights of products",
        ended=worst_ending(endings),
    )


def _coefficients(products: Products) -> Array:
    """The largest coefficient of every product, which says how standard errors compare before any plan."""
    return np.array(
        [
            math.prod(
                float(products.kinds[a][k].operator.largest) or 1.0
                for a, k in zip(term.places, term.kinds, strict=True)
            )
            for term in products.terms
        ]
    )


def _sums(request: Request, found: SearchResult, products: Products) -> tuple[Array, Array]:
    """Σ √v and Σ v over the queries of every product."""
    strategy = found.proposal.measured_within(request.privacy, tol=request.tol)
    v = strategy.variances_of(request.workload)
    parts = [v[term.start : term.start + term.n_rows] for term in products.terms]
    return np.array([np.sqrt(part).sum() for part in parts]), np.array([part.sum() for part in parts])


def _with_weights(found: SearchResult, request: Request) -> ProductWitness:
    """The weights of values that were found, and those of the products that they were found for."""
    assert isinstance(found.q, ProductWitness)
    tied = products_of(request.workload, found.q.axes)
    if tied is None or n_absolute_entries(tied) > MAX_ABSOLUTE_ENTRIES:
        # Attributes that are measured together are too many values for the bound.
        return ProductWitness(uniform(product_request(request).products), request.term_weights)
    return ProductWitness(found.q.q, request.term_weights, axes=found.q.axes)
