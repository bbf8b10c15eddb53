"""The certified optimum for one product of queries, attribute by attribute.

The workload of a single product is W = W₁ ⊗ … ⊗ W_r. With F(p, q) = ‖diag(√p) W diag(√q)‖_* and weights that
are products, F is the product of the factors' values; so are the total variance, the largest variance, the
sum of standard errors and the privacy profile of a product of strategies. The products of the factors' optima
are therefore optimal, and their certificates multiply. Nothing larger than one attribute squared is built.

Attributes of which plain counts are asked are measured as they are. With Laplace noise the same holds for
sensitivities and totals, only that the factors are not proved optimal; and unions of products are planned
too, by weighted tables of rows: see `crossed_tables`.
"""

from __future__ import annotations

import numpy as np

from leastnoise.bounds import ProductWitness, Status
from leastnoise.core.deadline import Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.core.resources import Needs
from leastnoise.planning.families.crossed_plans import find_crossed
from leastnoise.planning.families.crossed_tables import refuse_crossed, refuse_long_axes
from leastnoise.planning.families.dense import DENSE
from leastnoise.planning.families.laplace_factor import best_factor
from leastnoise.planning.families.product_requests import (
    axis_needs,
    largest_axis,
    product_request,
    refuse_unstructured,
    uniform,
)
from leastnoise.planning.method import Method, Request, SearchResult
from leastnoise.privacy import GAUSSIAN, GDP
from leastnoise.query import (
    AbsoluteError,
    AxisRows,
    MaxVariance,
    Objective,
    Products,
    ProductTerm,
    TotalVariance,
    workload_of_rows,
)
from leastnoise.strategy import AxisForm, RealStrategy, identity_form, rounded_rows, single_block

# Cells. Beyond this number a product of one attribute and of others that are added up is taken as one.
_ONE_AXIS = 512

# Factors of more values are given equal dual weights with Laplace noise, whose bound is loose anyway.
_MAX_WEIGHED = 512

# How much of the time is for the search; the rest is for rounding to integers and for the proof.
_SEARCHING = 0.75

# With Laplace noise, how much of that is for rows; the rest is for the weights that prove something.
_SEARCHED = 0.8


def _refuses(request: Request) -> str | None:
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    question = product_request(request)
    if len(question.products.terms) > 1:
        if request.privacy.noise.is_pure:
            return _refuses_union(question.products)
        return f"it plans a single product of queries; this workload has {len(question.products.terms):,}"
    if len(question.products.terms[0].places) < 2 and request.workload.shape[1] <= _ONE_AXIS:
        return "the queries ask about a single attribute, which is not a product"
    if request.objective.kind == "total-within-caps":
        return "the least total within targets is not a product of what its attributes need"
    if request.privacy.noise.is_pure and request.objective.kind == "largest":
        return "with Laplace noise it minimises total variance only"
    return refuse_long_axes(question.products) if request.privacy.noise.is_pure else None


def _refuses_union(products: Products) -> str | None:
    """The reason why a union of products is not planned with Laplace noise, or None."""
    if products.are_marginals:
        return "the queries are cross tables alone, which method 'marginals' plans"
    if len(products.axes) < 2:
        return "the queries ask about a single attribute, which is not a product"
    return refuse_crossed(products)


def _find(request: Request) -> SearchResult:
    question = product_request(request)
    if len(question.products.terms) > 1:
        return find_crossed(request)
    (term,) = question.products.terms
    products = question.products
    has_weights = request.objective.kind != "total"
    forms: list[list[AxisForm]] = [[] for _ in products.axes]
    q = list(uniform(products))
    rows: dict[tuple[int, int], Array] = {}
    notes: list[str] = []
    endings: list[Ended] = []
    # What is still to be searched shares the time that is left.
    n_searched = sum(not products.kinds[place][number].is_identity for place, number in _parts(term))
    for place, number in _parts(term):
        kind = products.kinds[place][number]
        if kind.is_identity:
            forms[place] = [identity_form(products.sizes[place])]
            continue
        factor = _with_laplace_noise if request.privacy.noise.is_pure else _optimal
        left = request.deadline.part(_SEARCHING).left
        limit = None if left is None else left / n_searched
        n_searched -= 1
        integers, found = factor(request, kind, max(len(term.places), 1), limit)
        forms[place] = [AxisForm("whole", products.sizes[place], _lowest_terms(integers))]
        q[place] = np.asarray(found.q)
        if has_weights and found.p is not None:
            rows[0, place] = np.asarray(found.p)
        notes.append(f"{' and '.join(products.axes[place].names)}: {found.note}")
        endings.append(found.ended)
    is_gaussian = request.privacy.noise == GAUSSIAN
    is_proved = is_gaussian and not request.privacy.relation.replaces
    claim: Status = "stopped" if is_proved else "heuristic"
    how = "; ".join(notes) or "plain counts of every attribute"
    best = "the optimum" if is_gaussian else "the best found"
    note = f"one product: {best} factor by factor ({how})"
    witness = ProductWitness(tuple(q), np.ones(1) if has_weights else None, rows)
    return SearchResult(single_block(products.axes, forms), witness, claim, note, worst_ending(endings))


def _parts(term: ProductTerm) -> list[tuple[int, int]]:
    """The axes of a product, each with the kind of its rows."""
    return list(zip(term.places, term.kinds, strict=True))


def _optimal(
    request: Request, kind: AxisRows, n_factors: int, time_limit: float | None
) -> tuple[Array, SearchResult]:
    """The certified optimum for one factor: whole numbers, and what was found."""
    # Each factor may use its part of the tolerance.
    tol = request.tol / (2 * n_factors)
    found = DENSE.find(
        Request(
            workload_of_rows(kind.operator),
            GDP(1),
            tol=tol,
            time_limit=time_limit,
            backend=request.backend,
            progress=request.progress,
            objective=_of_factor(request.objective),
        )
    )
    assert isinstance(found, SearchResult)
    assert isinstance(found.proposal, RealStrategy)
    return rounded_rows(found.proposal, GDP(1), tol), found


def _of_factor(objective: Objective) -> Objective:
    """What is to be small for one factor; targets of a product are one number."""
    if objective.kind == "absolute":
        return AbsoluteError()
    return MaxVariance() if objective.kind == "largest" else TotalVariance()


def _with_laplace_noise(
    request: Request, kind: AxisRows, n_factors: int, time_limit: float | None
) -> tuple[Array, SearchResult]:
    """The best strategy found for one factor under the L1 norm: whole numbers, and what was found."""
    n = kind.operator.shape[1]
    deadline = Deadline.after(time_limit)
    factor = best_factor(kind.gram, time_limit=None if time_limit is None else _SEARCHED * time_limit)
    q, endings = np.ones(n), [factor.ended]
    if n <= _MAX_WEIGHED:
        found = DENSE.find(
            Request(workload_of_rows(kind.operator), GDP(1), tol=1e-3, time_limit=deadline.left)
        )
        assert isinstance(found, SearchResult)
        q = np.asarray(found.q)
        endings.append(found.ended)
    ended = worst_ending(endings)
    return factor.rows, SearchResult(RealStrategy(factor.rows), q, "heuristic", factor.how, ended)


def _lowest_terms(rows: Array) -> Array:
    """Integers without the powers of two that all of them share: the scale of the noise takes their place."""
    shared = int(np.bitwise_or.reduce(rows.reshape(-1))) if rows.dtype != object else 0
    if rows.dtype == object:
        for value in rows.reshape(-1).tolist():
            shared |= value
    bits = (shared & -shared).bit_length() - 1 if shared else 0
    return rows >> bits if bits else rows


def _needs(request: Request) -> Needs:
    if request.objective.kind == "largest":
        return axis_needs(request, held=16.2, first=29, step=20)
    if request.objective.kind == "absolute":
        return axis_needs(request, held=9.1, first=16, step=8)
    return axis_needs(request, held=8.1, first=14, step=8)


PRODUCT = Method(
    "product",
    "the certified optimum for one product, attribute by attribute; with Laplace noise the best found, and "
    "unions of products too",
    _refuses,
    _find,
    matrix_size=largest_axis,
    takes_absolute=True,
    needs=_needs,
)
