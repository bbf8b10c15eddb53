"""Plans of weighted tables of rows: see `crossed_tables` for how their weights are sought.

For the largest variance, or share of a cap, the weights of the products rise where a row of theirs has the
largest, and the search goes on from where it was; the best tables met are kept.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core.operators import Array
from leastnoise.core.progress import worst_ending
from leastnoise.planning.families.crossed_tables import (
    CrossedPoint,
    crossed_problem,
    improve_tables,
    on_grid,
    search_tables,
)
from leastnoise.planning.families.product_requests import (
    ProductRequest,
    product_request,
    refuse_unstructured,
    uniform,
)
from leastnoise.planning.families.proposals import scaled_note
from leastnoise.planning.families.weighted_tables import least_largest
from leastnoise.planning.method import Request, SearchResult
from leastnoise.planning.p_identity.objective_function import rows_of
from leastnoise.query import Products
from leastnoise.strategy import AxisForm, BlockProposal, centred_form

# Rounds for the largest variance.
_ROUNDS = 16

# Queries. Beyond this number their variances are not worked out in every round, and the weights stay.
_MAX_VARIANCES = 2_000_000


def proposal_of(products: Products, point: CrossedPoint) -> BlockProposal:
    """The tables in whole numbers; an axis without sums, or in no table, is measured value by value."""
    used = np.argwhere(point.weights > 0)
    forms: list[tuple[AxisForm, ...]] = []
    for a, (size, theta) in enumerate(zip(products.sizes, point.thetas, strict=True)):
        if not products.kinds[a]:
            forms.append(())
        elif theta is None or not theta.any() or not used[:, a].any():
            forms.append((centred_form(size),))
        else:
            forms.append((AxisForm("crossed", size, on_grid(rows_of(theta))),))
    sets = [tuple(np.flatnonzero(own).tolist()) for own in used]
    shares = np.array([point.weights[tuple(own)] for own in used])
    blocks = tuple((s, (0,) * len(s)) for s in sets)
    return BlockProposal(products.axes, tuple(forms), blocks, shares, are_tables=True)


def find_crossed(request: Request) -> SearchResult:
    """The best weighted tables of rows, for a request about products and Laplace noise."""
    question = product_request(request)
    p = None
    if request.objective.kind == "largest":
        point, p = _least_largest(request, question)
    else:
        point = search_tables(crossed_problem(question), deadline=request.deadline)
    return _result(request, question.products, point, p)


# Attributes at most, and starts with tables drawn at random, where weighted tables stand beside other rows.
_FEW_ATTRIBUTES = 8
_FEW_STARTS = 8


def find_tables(request: Request) -> tuple[SearchResult, float] | None:
    """The best weighted cross tables, and their total variance per unit of noise.

    None where anything but the total variance of cross tables of few attributes is asked.
    """
    if request.objective.kind != "total" or refuse_unstructured(request) is not None:
        return None
    question = product_request(request)
    products = question.products
    if not (products.are_marginals and 0 < len(products.axes) <= _FEW_ATTRIBUTES):
        return None
    problem = crossed_problem(question)
    point = search_tables(problem, deadline=request.deadline, plain_starts=_FEW_STARTS)
    return _result(request, products, point, None), point.total


def _result(request: Request, products: Products, point: CrossedPoint, p: Array | None) -> SearchResult:
    proposal = proposal_of(products, point)
    n_searched = sum(form.kind == "crossed" for own in proposal.forms for form in own)
    note = f"{len(proposal.blocks):,} cross tables, each with a weight"
    if n_searched:
        note += f", and weighted sums of values along {n_searched} of their axes"
    witness = ProductWitness(uniform(products), p)
    return SearchResult(proposal, witness, "heuristic", note + scaled_note(request), point.ended)


def _least_largest(request: Request, question: ProductRequest) -> tuple[CrossedPoint, Array]:
    """The tables with the least largest share of a cap met, and the weights of the products for the bound."""
    assert question.caps is not None

    def improved(p: Array, point: CrossedPoint | None) -> CrossedPoint:
        problem = crossed_problem(replace(question, weights=p))
        if point is None:
            return search_tables(problem, deadline=request.deadline)
        return improve_tables(problem, point, request.deadline)

    def largest(point: CrossedPoint) -> Array:
        strategy = proposal_of(question.products, point).measured_within(request.privacy, tol=request.tol)
        view = strategy.view(request.workload)
        return np.array([float(view.term_variances(term).max()) for term in question.products.terms])

    n_queries = sum(term.n_rows for term in question.products.terms)
    rounds = _ROUNDS if n_queries <= _MAX_VARIANCES else 0
    point, p, ended = least_largest(improved, largest, question.caps, rounds, request.deadline)
    return replace(point, ended=worst_ending([ended, point.ended])), p
