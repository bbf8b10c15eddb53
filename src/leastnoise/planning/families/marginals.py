"""The certified optimum for cross tables of any number of attributes.

A set of cross tables, each with one weight and one cap, stays the same when the values of an attribute are
renamed. So the dual weights of cells are equal, those of queries equal within a table, and everything is
diagonal in the residual subspaces, one for every set s of attributes below some table. With block s measured
as ⊗_{a in s} (n_a I − 11ᵀ) and precision x_s, Σ_s x_s = 1, a count of table j has the variance

    v_j = Σ_{s ⊆ j} (1/x_s) Π_{a in s} (1 − 1/n_a)² Π_{a in j∖s} 1/n_a²                                   (1)

which is all that remains of the problem, whatever the number of cells. The least total is a closed form,
x_s ∝ √(Σ_j w_j N_j a_js); caps leave a small convex problem (solver/split.py), and absolute errors are a
sequence of such totals (solver/reweighting.py). Attributes that are part of
every table are not split at all: they factor out.

With Laplace noise residuals are dear, and the tables themselves are measured, each with a weight of its own:
see `weighted_tables`.

Reference:
    Xiao, He, Zhang and Kifer (2023), An optimal and scalable matrix mechanism for noisy marginals under
    convex loss functions, for residual subspaces and the closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from leastnoise.bounds import ProductWitness, Status, apart_loads
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.planning.families import weighted_tables
from leastnoise.planning.families.crossed_plans import find_crossed
from leastnoise.planning.families.crossed_tables import refuse_crossed
from leastnoise.planning.families.product_requests import (
    ProductRequest,
    common_axes,
    product_request,
    refuse_unstructured,
    table_sizes,
    uniform,
)
from leastnoise.planning.method import Method, Request, SearchResult
from leastnoise.planning.refusals import infeasible
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import Lattice, Products
from leastnoise.solver import (
    Optimum,
    Reweighting,
    least_largest,
    optimal_weighting,
    reweighted,
    total_within,
)
from leastnoise.solver.split import least_total
from leastnoise.strategy import ROUNDING, BlockProposal, centred_form, identity_form


def _refuses(request: Request) -> str | None:
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    if not product_request(request).products.are_marginals:
        return "it measures cross tables only, and this workload asks for other counts"
    if request.privacy.noise != GAUSSIAN:
        return weighted_tables.refuse_many_sets(product_request(request).products)
    return None


def row_variances(products: Products, whole: tuple[int, ...]) -> tuple[Lattice, Any]:
    """The sets below the tables, and (1) as a sparse matrix; attributes of every table are left out."""
    lattice = Lattice([tuple(a for a in s if a not in whole) for s in products.sets], len(products.sizes))
    sizes = np.array(products.sizes, dtype=float)
    inside = [(1 - 1 / sizes[axes]) ** 2 for _, axes in lattice.groups]
    outside = [1 / sizes[axes] ** 2 for _, axes in lattice.groups]
    return lattice, lattice.matrix(inside, outside)


def _find(request: Request) -> SearchResult:
    if request.privacy.noise != GAUSSIAN:
        is_few = refuse_crossed(product_request(request).products) is None
        # Of few attributes every set may be a table, of many those below the tables that are asked.
        if is_few and request.objective.kind != "largest":
            return find_crossed(request)
        return weighted_tables.find(request)
    question = product_request(request)
    products = question.products
    replaced = _find_replaced(request, question) if request.privacy.relation.replaces else None
    if replaced is not None:
        return replaced
    whole = common_axes(products)
    lattice, A = row_variances(products, whole)
    solution = _split(request, question, A)
    if not solution.is_feasible:
        # Weights of tables are shared by their counts.
        raise infeasible(
            request.workload,
            request.privacy,
            ProductWitness(uniform(products), solution.p / table_sizes(products)),
            math.sqrt(solution.achieved),
            is_late=solution.ended == "deadline",
        )
    mentioned = {a for s in products.sets for a in s}
    forms = [
        [] if a not in mentioned else [identity_form(size) if a in whole else centred_form(size)]
        for a, size in enumerate(products.sizes)
    ]
    used = np.flatnonzero(solution.x > 0)
    subsets = lattice.subsets
    blocks = tuple((subsets[s], (0,) * len(subsets[s])) for s in used)
    proposal = BlockProposal(products.axes, tuple(map(tuple, forms)), blocks, solution.x[used])
    p = solution.p / table_sizes(products) if len(solution.p) else None
    steps = f"{solution.steps} steps over shares of the budget"
    how = "a closed form" if request.objective.kind == "total" else steps
    kind: Status = "heuristic" if request.privacy.relation.replaces else "stopped"
    note = (
        f"nothing but cross tables: the optimum over residuals of {len(products.terms):,} cross tables, {how}"
    )
    return SearchResult(proposal, ProductWitness(uniform(products), p), kind, note, solution.ended)


# Attributes, at most, of which all sets are weighed where a record is replaced: 1,024 kinds of pairs.
MAX_APART = 10


def _find_replaced(request: Request, question: ProductRequest) -> SearchResult | None:
    """The least total variance where a record is replaced; None where attributes are many or caps are kept.

    By the same symmetry two records matter by the set s of attributes in which they differ. On residuals t
    with precision x_t they are 2 Σ_t x_t (1 − ρ_t(s)) apart, see `bounds.apart`: linear in x, one constraint
    for every set. Nothing factors here, so that every attribute is split.
    """
    products = question.products
    mentioned = sorted({a for s in products.sets for a in s})
    several = [a for a in mentioned if products.sizes[a] > 1]
    if request.objective.kind not in ("total", "absolute") or len(several) > MAX_APART:
        return None
    lattice, A = row_variances(products, ())
    kinds = [s for count in range(len(several) + 1) for s in combinations(several, count)]
    loads, sizes = apart_loads(lattice.subsets, kinds, products.sizes), table_sizes(products)

    def weighted(p: Array, tol: float) -> Optimum:
        limits: dict[str, Any] = {"time_limit": request.deadline.left, "progress": request.progress}
        return optimal_weighting(A.T @ (p * sizes), loads, tol=tol / 4, **limits)

    p = None
    if request.objective.kind == "total":
        found = weighted(question.weights, request.tol)
    else:
        found, p, _ = _reweighted(request, question, A, weighted)
    forms = [[centred_form(size)] if a in mentioned else [] for a, size in enumerate(products.sizes)]
    used = np.flatnonzero(found.x > 0)
    blocks = tuple((lattice.subsets[s], (0,) * len(lattice.subsets[s])) for s in used)
    proposal = BlockProposal(products.axes, tuple(map(tuple, forms)), blocks, found.x[used])
    apart = {s: weight for s, weight in zip(kinds, found.q.tolist(), strict=True) if weight > 0}
    note = (
        f"nothing but cross tables: the optimum over residuals of {len(products.terms):,} cross tables, with "
        f"weights on {len(kinds):,} kinds of pairs of records, {found.steps} steps"
    )
    witness = ProductWitness(uniform(products), p, apart=apart)
    return SearchResult(proposal, witness, "stopped", note, found.ended)


def _split(request: Request, question: ProductRequest, A: Any) -> Optimum:
    kind = request.objective.kind
    totals = question.weights * table_sizes(question.products)
    if kind == "total":
        return least_total(A, totals)
    if kind == "absolute":
        sizes = table_sizes(question.products)
        found, p, rounds = _reweighted(request, question, A, lambda p, _: least_total(A, p * sizes))
        return replace(found, p=p * sizes, steps=rounds)
    assert question.caps is not None
    limits: dict[str, Any] = {
        "tol": request.tol / 4,
        "time_limit": request.deadline.left,
        "progress": request.progress,
    }
    if kind == "largest":
        return least_largest(A, question.caps, **limits)
    # At another budget variances are those at profile 1 divided by it.
    caps = question.caps * float(request.privacy.column_budget) * (1 - ROUNDING)
    return total_within(A, totals, caps, **limits)


def _reweighted(
    request: Request, question: ProductRequest, A: Any, least: Callable[[Array, float], Optimum]
) -> tuple[Optimum, Array, int]:
    """The split of least absolute error, the weights p of counts of each table, and the rounds it took.

    Args:
        least: the split of the least total variance for weights of the counts of each table, to some gap.
    """
    sizes = table_sizes(question.products)

    def total(p: Array, tol: float) -> tuple[Optimum, Array, Ended]:
        found = least(p, tol)
        needed = found.x > 0
        return found, A @ np.where(needed, 1 / np.where(needed, found.x, 1), 0), found.ended

    first = Reweighting.starting(question.weights, np.ones(len(sizes)), sizes)
    found, p, ended, rounds = reweighted(total, first, tol=request.tol, deadline=request.deadline)
    return replace(found, ended=ended), p, rounds


MARGINALS = Method(
    "marginals",
    "the certified optimum for cross tables of any number of attributes; with Laplace noise, weighted tables",
    _refuses,
    _find,
    takes_absolute=True,
)
