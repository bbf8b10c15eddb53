"""Unions of products by oblique residuals: prefix sums and ranges crossed with cross tables, at any scale.

`oblique` chooses, for every axis, what is residual and how it is measured, and how the budget is divided over
blocks; here that becomes an integer strategy, and the weights of product form that prove how good it is. The
family holds the optimum for one attribute, for single products and for cross tables; for other unions it is
mostly within a percent of it. The bound is that of `union_norm`, and the gap is reported as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leastnoise.bounds.product_bound import ProductWitness, with_row_weights
from leastnoise.certificate import Status
from leastnoise.errors import InfeasibleError
from leastnoise.operators import Array
from leastnoise.products import Products
from leastnoise.solver.split import SplitSolution, least_largest, total_within
from leastnoise.strategies.infeasible import infeasible_products
from leastnoise.strategies.method import Found, Method, Request
from leastnoise.strategies.oblique.dual import dual_weights
from leastnoise.strategies.oblique.proposal import proposal_of
from leastnoise.strategies.oblique.rows import (
    Alternated,
    alternate,
    leading_rows,
    row_tables,
    variance_matrix,
)
from leastnoise.strategies.oblique.splitting import Split, split_products
from leastnoise.strategies.oblique.ties import tied_where_useful
from leastnoise.strategies.structure import Asked, asked, largest_axis, refuse_unstructured

# Every product is looked at with each of its blocks: so many pairs of them at most.
MAX_PIECES = 2_000_000


def _refuses(request: Request) -> str | None:
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    if request.privacy.noise != "gaussian":
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    pieces = sum(2 ** len(s) for s in asked(request).products.sets)
    if pieces > MAX_PIECES:
        return f"its products have {pieces:,} blocks, and at most {MAX_PIECES:,} are looked at"
    return None


def _find(request: Request) -> Found:
    question = asked(request)
    kind = request.objective.kind
    if kind == "total":
        # Attributes of few values that are asked in several ways are better measured together.
        products = tied_where_useful(question.products, question.weights)
        split = split_products(products, question.weights)
        return _found(request, split, question.weights, None, f"{split.sweeps} sweeps over the attributes")
    assert question.caps is not None
    if kind == "largest":
        products = tied_where_useful(question.products, 1 / question.caps)
        found, _ = _least_largest(request, products, question.caps)
        return _found(request, found.split, None, dual_of(found), "in turns with weights of their queries")
    return _find_within_caps(request, question)


@dataclass(frozen=True, eq=False)
class Rows:
    """Single queries that are looked at: for each its product and its row, the last axis fastest."""

    terms: Array
    rows: Array

    @classmethod
    def leading(cls, split: Split, capped: Array) -> tuple[Rows, Any]:
        """Queries of which some have the largest variances whatever x is, and what blocks add to them."""
        tables = row_tables(split)
        chosen = [(j, own) for j, own in leading_rows(split, tables) if capped[j]]
        terms = np.concatenate([np.full(len(own), j) for j, own in chosen])
        return cls(terms, np.concatenate([own for _, own in chosen])), variance_matrix(split, tables, chosen)


def _least_largest(request: Request, products: Products, caps: Array) -> tuple[Alternated, SplitSolution]:
    """Axes and shares of the budget for the least largest variance beside the caps, at profile 1."""
    tol = request.tol / 4

    def inner(A: Any, own: Array) -> SplitSolution:
        return least_largest(A, own, tol=tol)

    found = alternate(products, caps, inner)
    rows, A = Rows.leading(found.split, np.isfinite(caps))
    solution = least_largest(A, caps[rows.terms], tol=tol, progress=request.progress)
    return replace(found, split=replace(found.split, x=solution.x)), solution


def _find_within_caps(request: Request, question: Asked) -> Found:
    """The least total within caps: axes chosen for the total, for the caps, and for both together."""
    assert question.caps is not None
    caps = question.caps * float(request.privacy.budget)
    weights = question.weights
    products = tied_where_useful(question.products, weights + np.where(np.isfinite(caps), 1 / caps, 0))
    n_rows = np.array([float(term.n_rows) for term in products.terms])
    tried: list[tuple[Split, SplitSolution, Array]] = []

    def attempt(split: Split) -> SplitSolution:
        solution, p = _total_within(request, split, weights, caps)
        tried.append((replace(split, x=solution.x), solution, p / n_rows))
        return solution

    if products is not question.products:
        # Tied axes leave less to choose where caps bind.
        attempt(split_products(question.products, weights))
    first = attempt(split_products(products, weights))
    if not first.is_feasible or tried[-1][2].any():
        found, largest = _least_largest(request, products, caps)
        if largest.achieved <= 1:
            attempt(found.split)
        elif not any(one[1].is_feasible for one in tried):
            raise _infeasible(request, question, found)
        for _ in range(_ROUNDS):
            best = min((one for one in tried if one[1].is_feasible), key=_achieved)
            attempt(split_products(best[0].products, weights + best[2]))
            if min((one for one in tried if one[1].is_feasible), key=_achieved) is best:
                break
    split, _, p = min((one for one in tried if one[1].is_feasible), key=_achieved)
    return _found(request, split, weights, None, "within the targets", p if p.any() else None)


# How often axes are chosen again for the total and the caps that bind.
_ROUNDS = 4


def _achieved(one: tuple[Split, SplitSolution, Array]) -> float:
    return one[1].achieved


def _total_within(request: Request, split: Split, weights: Array, caps: Array) -> tuple[SplitSolution, Array]:
    """The shares of the budget for the least total within caps, at profile 1, and weights of the products."""
    from scipy import sparse

    rows, A = Rows.leading(split, np.isfinite(caps))
    totals = _totals(split)
    stacked = sparse.vstack([totals, A], format="csr")
    w = np.concatenate([weights, np.zeros(len(rows.terms))])
    c = np.concatenate([np.full(len(weights), math.inf), caps[rows.terms]])
    solution = total_within(stacked, w, c, tol=request.tol / 4, progress=request.progress)
    if solution.p is None:
        return solution, np.zeros(len(weights))
    return solution, np.bincount(rows.terms, weights=solution.p[len(weights) :], minlength=len(weights))


def _totals(split: Split) -> Any:
    """What each block adds to the sum of the variances of every product, sparse (products, blocks)."""
    from scipy import sparse

    entries: list[tuple[int, int, float]] = []
    for j, term in enumerate(split.products.terms):
        kinds = dict(zip(term.places, term.kinds, strict=True))
        whole = math.prod(split.axes[a].cost for a in term.places)
        for piece in split.pieces(j):
            inside = [float(split.parts[p].rho[kinds[split.parts[p].axis]]) for p in piece.parts]
            outside = [float(split.centres[c].h[kinds[split.centres[c].axis]]) for c in piece.centres]
            entries.append((j, piece.block, whole * math.prod(inside) * math.prod(outside)))
    rows, columns, values = zip(*entries, strict=True)
    return sparse.csr_array((values, (rows, columns)), shape=(len(split.products.terms), len(split.x)))


@dataclass(frozen=True, eq=False)
class Dual:
    """Weights of queries of product form: one for every product, and those of its rows on each axis."""

    p: Array
    rows: dict[tuple[int, int], Array]


def dual_of(found: Alternated) -> Dual:
    """Weights of single queries as products of weights of rows.

    Any such weights prove a bound; these have the same sums over each product, and over each of its rows on
    one axis. Rows of an axis that were not told apart share one weight.
    """
    split = found.split
    products = split.products
    of_terms = np.bincount(found.terms, weights=found.p, minlength=len(products.terms))
    rows: dict[tuple[int, int], Array] = {}
    for j in np.flatnonzero(of_terms > 0).tolist():
        term = products.terms[j]
        mine = found.terms == j
        shape = [products.kinds[a][k].n_rows for a, k in zip(term.places, term.kinds, strict=True)]
        index = np.unravel_index(found.rows[mine], shape) if shape else ()
        for a, at, size in zip(term.places, index, shape, strict=True):
            if split.axes[a].form == "residual":
                rows[j, a] = np.bincount(at, weights=found.p[mine], minlength=size) / of_terms[j]
            else:
                rows[j, a] = np.full(size, 1 / size)
    return Dual(of_terms, rows)


def _infeasible(request: Request, question: Asked, found: Alternated) -> InfeasibleError:
    dual = dual_of(found)
    witness = _proof(found.split, dual)
    shares = np.zeros(len(request.workload.blocks))
    assert question.caps is not None
    for term, weight, cap in zip(question.products.terms, dual.p, question.caps, strict=True):
        shares[term.block] += weight * cap if weight > 0 else 0.0
    return infeasible_products(request.workload, request.privacy, witness, math.sqrt(found.largest), shares)


def _proof(split: Split, dual: Dual) -> ProductWitness:
    products = with_row_weights(split.products, dual.rows)
    q = _weights_of_values(split, products, dual.p)
    return ProductWitness(q, dual.p, dual.rows, split.products.axes)


def _weights_of_values(split: Split, products: Products, weights: Array) -> tuple[Array, ...]:
    pairs = zip(split.axes, split.products.kinds, strict=True)
    start = tuple(axis.q if kinds else np.ones(1) for axis, kinds in pairs)
    return dual_weights(products, weights, start=start)


def _found(
    request: Request,
    split: Split,
    weights: Array | None,
    dual: Dual | None,
    how: str,
    p: Array | None = None,
) -> Found:
    if dual is not None:
        witness = _proof(split, dual)
    else:
        assert weights is not None
        counted = weights if p is None else weights + p
        q = _weights_of_values(split, split.products, counted)
        witness = ProductWitness(q, p, axes=split.products.axes)
    claim: Status = "heuristic" if request.privacy.neighbours == "replace-one" else "stopped"
    note = f"oblique residuals of {len(split.products.terms):,} products, {how}"
    return Found(proposal_of(split, tol=request.tol), witness, claim, note)


RESIDUALS = Method(
    "residuals",
    "unions of products over any number of attributes, close to the optimum, with a bound",
    _refuses,
    _find,
    matrix_size=largest_axis,
)
