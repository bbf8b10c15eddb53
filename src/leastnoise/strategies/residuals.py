"""Unions of products by oblique residuals: prefix sums and ranges crossed with cross tables, at any scale.

`oblique` chooses, for every axis, what is residual and how it is measured, and how the budget is divided over
blocks; here that becomes an integer strategy, and the weights of product form that prove how good it is. The
family holds the optimum for one attribute, for single products and for cross tables; for other unions it is
mostly within a percent of it. The bound is that of `union_norm`, and the gap is reported as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leastnoise.axis_form import AxisForm, centred_form, identity_form
from leastnoise.block_proposal import BlockProposal
from leastnoise.certificate import Status
from leastnoise.errors import InfeasibleError
from leastnoise.integer_axis import rounded_centre, split_form, whole_form
from leastnoise.lattice import AxisSet
from leastnoise.operators import Array
from leastnoise.product_bound import ProductWitness
from leastnoise.products import Products
from leastnoise.solver.split import SplitSolution, least_largest, total_within
from leastnoise.strategies.infeasible import infeasible_products
from leastnoise.strategies.method import Found, Method, Request
from leastnoise.strategies.oblique import Split, split_products
from leastnoise.strategies.oblique_dual import dual_weights
from leastnoise.strategies.oblique_rows import (
    RowTables,
    alternate,
    leading_rows,
    row_tables,
    variance_matrix,
)
from leastnoise.strategies.structure import Asked, asked, refuse_unstructured

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


def proposal_of(split: Split, *, tol: float) -> BlockProposal:
    """The integers that a split proposes to measure."""
    products = split.products
    forms: list[list[AxisForm]] = [[] for _ in products.axes]
    for place, axis in enumerate(split.axes):
        size = products.sizes[place]
        if axis.form == "identity":
            forms[place] = [identity_form(size)]
        elif axis.form == "whole":
            assert axis.root is not None
            forms[place] = [whole_form(axis.root, axis.basis, tol=tol)]
        elif axis.form == "centred":
            forms[place] = [centred_form(size)]
    number_of_part, form_of_centre = _split_forms(split, forms, tol)
    rank = {a: position for position, a in enumerate(split.blocks.order)}
    parts_of: dict[int, tuple[int, ...]] = {}
    centres: dict[tuple[int, AxisSet], int] = {}
    for number, term in enumerate(products.terms):
        for piece in split.pieces(number):
            block = split.blocks.axes[piece.block]
            parts_of[piece.block] = piece.parts
            outside = [
                a for a in term.places if split.axes[a].form in ("centred", "residual") and a not in block
            ]
            for a, centre in (
                *zip(outside, piece.centres, strict=True),
                *((a, split.parts[part].centre) for a, part in zip(block, piece.parts, strict=True)),
            ):
                if len(forms[a]) > 1:
                    history = tuple(b for b in block if rank[b] < rank[a])
                    centres[a, history] = form_of_centre[centre]
    used = [b for b in sorted(parts_of) if split.x[b] > 0]
    return BlockProposal(
        products.axes,
        tuple(tuple(own) for own in forms),
        tuple((split.blocks.axes[b], tuple(number_of_part[p] for p in parts_of[b])) for b in used),
        split.x[used],
        centres={key: form for key, form in centres.items() if form},
        order=split.blocks.order,
    )


def _split_forms(
    split: Split, forms: list[list[AxisForm]], tol: float
) -> tuple[dict[int, int], dict[int, int]]:
    """Integer forms of all parts, appended to those of their axes; the number of every part and centre."""
    number_of_part: dict[int, int] = {}
    form_of_centre: dict[int, int] = {}
    for number, centre in enumerate(split.centres):
        mine = [(p, part) for p, part in enumerate(split.parts) if part.centre == number]
        if split.axes[centre.axis].form == "centred":
            form_of_centre[number] = 0
            number_of_part |= {p: 0 for p, _ in mine}
            continue
        assert centre.g is not None
        g = rounded_centre(centre.g, [part.root for _, part in mine if part.root is not None], tol=tol)
        for p, part in mine:
            assert part.root is not None
            own = forms[centre.axis]
            number_of_part[p] = len(own)
            form_of_centre.setdefault(number, len(own))
            own.append(split_form(part.root, g, part.basis, tol=tol))
    return number_of_part, form_of_centre


def _find(request: Request) -> Found:
    question = asked(request)
    kind = request.objective.kind
    if kind == "total":
        split = split_products(question.products, question.weights)
        return _found(request, split, question.weights, None, f"{split.sweeps} sweeps over the attributes")
    assert question.caps is not None
    if kind == "largest":
        split, solution, rows = _least_largest(request, question.products, question.caps)
        return _found(request, split, None, dual_of(split, rows, solution.p), "in turns with their weights")
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


def _least_largest(request: Request, products: Products, caps: Array) -> tuple[Split, SplitSolution, Rows]:
    """Axes and shares of the budget for the least largest variance beside the caps, at profile 1."""
    tol = request.tol / 4

    def inner(A: Any, own: Array) -> SplitSolution:
        return least_largest(A, own, tol=tol)

    split, _ = alternate(products, caps, inner)
    rows, A = Rows.leading(split, np.isfinite(caps))
    solution = least_largest(A, caps[rows.terms], tol=tol, progress=request.progress)
    return replace(split, x=solution.x), solution, rows


def _find_within_caps(request: Request, question: Asked) -> Found:
    """The least total within caps: the better of axes chosen for the total and for the caps."""
    products, budget = question.products, float(request.privacy.budget)
    assert question.caps is not None
    caps = question.caps * budget
    candidates = [split_products(products, question.weights)]
    within = [_total_within(request, candidates[0], question.weights, caps)]
    if not within[0][0].is_feasible or within[0][0].p is None or within[0][0].p.any():
        split, solution, rows = _least_largest(request, products, caps)
        if solution.achieved <= 1:
            candidates.append(split)
            within.append(_total_within(request, split, question.weights, caps))
        elif not within[0][0].is_feasible:
            raise _infeasible(request, question, split, solution, rows)
    kept = [(one[0].achieved, number) for number, one in enumerate(within) if one[0].is_feasible]
    _, best = min(kept)
    solution, rows = within[best]
    split = replace(candidates[best], x=solution.x)
    dual = None if solution.p is None or not solution.p.any() else dual_of(split, rows, solution.p)
    return _found(request, split, question.weights, dual, "within the targets")


def _total_within(request: Request, split: Split, weights: Array, caps: Array) -> tuple[SplitSolution, Rows]:
    """The shares of the budget for the least total within caps, at profile 1, for given axes."""
    from scipy import sparse

    rows, A = Rows.leading(split, np.isfinite(caps))
    totals = _totals(split)
    stacked = sparse.vstack([totals, A], format="csr")
    w = np.concatenate([weights, np.zeros(len(rows.terms))])
    c = np.concatenate([np.full(len(weights), math.inf), caps[rows.terms]])
    solution = total_within(stacked, w, c, tol=request.tol / 4, progress=request.progress)
    p = None if solution.p is None else solution.p[len(weights) :]
    return replace(solution, p=p), rows


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
    """Weights of queries of product form: one for every product of queries, and those of rows of kinds."""

    p: Array
    rows: dict[tuple[int, int], Array]


def dual_of(split: Split, chosen: Rows, p: Array | None) -> Dual:
    """Weights of single queries as products of weights of rows.

    Any such weights prove a bound; these have the same sums over each product, and over each row of a kind.
    Queries of equal variance share one weight.
    """
    assert p is not None
    products = split.products
    tables = row_tables(split)
    of_terms = np.bincount(chosen.terms, weights=p, minlength=len(products.terms))
    sums: dict[tuple[int, int], Array] = {}
    for j in np.flatnonzero(of_terms > 0):
        term = products.terms[j]
        mine = chosen.terms == j
        shape = [products.kinds[a][k].n_rows for a, k in zip(term.places, term.kinds, strict=True)]
        index = np.unravel_index(chosen.rows[mine], shape) if shape else ()
        for a, k, at, size in zip(term.places, term.kinds, index, shape, strict=True):
            sums.setdefault((a, k), np.zeros(size))
            sums[a, k] += np.bincount(at, weights=p[mine], minlength=size)
    for key, weights in sums.items():
        alike = _alike(split, tables, *key)
        shared = np.bincount(alike, weights=weights) / np.bincount(alike)
        sums[key] = shared[alike] / max(float(weights.sum()), np.finfo(float).tiny)
    return Dual(of_terms, sums)


def _alike(split: Split, tables: RowTables, place: int, kind: int) -> Array:
    """A number for every row of a kind, the same for rows that no block tells apart."""
    columns = [
        own[kind]
        for centre, own in zip(split.centres, tables.h, strict=True)
        if centre.axis == place and own[kind] is not None
    ]
    columns += [
        own[kind]
        for part, own in zip(split.parts, tables.rho, strict=True)
        if part.axis == place and own[kind] is not None
    ]
    whole = tables.whole[place]
    numbers = np.stack([*columns, *([] if whole is None else [whole])], axis=1)
    scale = np.maximum(numbers.max(axis=0), np.finfo(float).tiny)
    return np.unique(np.rint(numbers / scale / 1e-9), axis=0, return_inverse=True)[1].reshape(-1)


def _infeasible(
    request: Request, question: Asked, split: Split, solution: SplitSolution, rows: Rows
) -> InfeasibleError:
    dual = dual_of(split, rows, solution.p)
    witness = ProductWitness(_weights_of_values(split, dual.p, dual.rows), dual.p, dual.rows)
    shares = np.zeros(len(request.workload.blocks))
    assert question.caps is not None
    for term, weight, cap in zip(question.products.terms, dual.p, question.caps, strict=True):
        shares[term.block] += weight * cap if weight > 0 else 0.0
    return infeasible_products(
        request.workload, request.privacy, witness, math.sqrt(solution.achieved), shares
    )


def _weights_of_values(
    split: Split, weights: Array, rows: Mapping[tuple[int, int], Array]
) -> tuple[Array, ...]:
    pairs = zip(split.axes, split.products.kinds, strict=True)
    start = tuple(axis.q if kinds else np.ones(1) for axis, kinds in pairs)
    return dual_weights(split.products, weights, start=start, row_weights=rows)


def _found(request: Request, split: Split, weights: Array | None, dual: Dual | None, how: str) -> Found:
    n = len(split.products.terms)
    if dual is None:
        assert weights is not None
        witness = ProductWitness(_weights_of_values(split, weights, {}))
    elif weights is None:
        witness = ProductWitness(_weights_of_values(split, dual.p, dual.rows), dual.p, dual.rows)
    else:
        # Beside weights of the total, those of the caps are equal within a product.
        n_rows = np.array([float(term.n_rows) for term in split.products.terms])
        p = dual.p / n_rows
        witness = ProductWitness(_weights_of_values(split, weights + p, {}), p)
    claim: Status = "heuristic" if request.privacy.neighbours == "replace-one" else "stopped"
    note = f"oblique residuals of {n:,} products, {how}"
    return Found(proposal_of(split, tol=request.tol), witness, claim, note)


RESIDUALS = Method(
    "residuals",
    "unions of products over any number of attributes, close to the optimum, with a bound",
    _refuses,
    _find,
)
