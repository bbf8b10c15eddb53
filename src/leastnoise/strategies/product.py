"""The certified optimum for one product of queries, attribute by attribute.

The workload of a single product is W = W₁ ⊗ … ⊗ W_r. With F(p, q) = ‖diag(√p) W diag(√q)‖_* and weights that
are products, F is the product of the factors' values; so are the total variance, the largest variance and
the privacy profile of a product of strategies. The products of the factors' optima are therefore optimal,
and their certificates multiply. Nothing larger than one attribute squared is built.

Attributes of which plain counts are asked are measured as they are. With Laplace noise the same holds for
sensitivities and totals, only that the factors are not proved optimal.
"""

from __future__ import annotations

import numpy as np

from leastnoise import exact
from leastnoise.axis_form import AxisForm, identity_form
from leastnoise.block_proposal import single_block
from leastnoise.certificate import Status
from leastnoise.objective import MaxVariance, TotalVariance
from leastnoise.operators import Array
from leastnoise.privacy import GDP
from leastnoise.product_bound import ProductWitness
from leastnoise.strategies.dense import DENSE
from leastnoise.strategies.method import Found, Method, Request
from leastnoise.strategies.structure import asked, refuse_unstructured, uniform
from leastnoise.strategy import RealStrategy, integer_strategy
from leastnoise.workload import of_rows


def _refuses(request: Request) -> str | None:
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    question = asked(request)
    if len(question.products.terms) > 1:
        return f"it serves one product of queries, the workload has {len(question.products.terms):,}"
    if request.privacy.noise != "gaussian":
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    if request.objective.kind == "total-within-caps":
        return "the least total within targets is no product of what its attributes need"
    return None


def _find(request: Request) -> Found:
    question = asked(request)
    (term,) = question.products.terms
    products = question.products
    is_largest = request.objective.kind == "largest"
    forms: list[list[AxisForm]] = [[] for _ in products.axes]
    q = list(uniform(products))
    rows: dict[tuple[int, int], Array] = {}
    notes = []
    # Each factor may use its part of the tolerance.
    tol = request.tol / (2 * max(len(term.places), 1))
    for place, number in zip(term.places, term.kinds, strict=True):
        kind = products.kinds[place][number]
        if kind.is_identity:
            forms[place] = [identity_form(products.sizes[place])]
            continue
        workload = of_rows(kind.operator)
        objective = MaxVariance() if is_largest else TotalVariance()
        part = Request(
            workload, GDP(1), {}, tol, request.time_limit, request.backend, request.progress, objective
        )
        found = DENSE.find(part)
        assert isinstance(found, Found)
        assert isinstance(found.proposal, RealStrategy)
        integers = integer_strategy(found.proposal, GDP(1), tol=tol).entries
        forms[place] = [AxisForm("whole", products.sizes[place], _lowest_terms(integers))]
        q[place] = np.asarray(found.q)
        if is_largest:
            assert found.p is not None
            rows[place, number] = np.asarray(found.p)
        notes.append(f"{' and '.join(products.axes[place].names)}: {found.note}")
    p = np.ones(1) if is_largest else None
    claim: Status = "heuristic" if request.privacy.neighbours == "replace-one" else "stopped"
    how = "; ".join(notes) or "plain counts of every attribute"
    note = f"one product: the optimum factor by factor ({how})"
    return Found(single_block(products.axes, forms), ProductWitness(tuple(q), p, rows), claim, note)


def _lowest_terms(rows: Array) -> Array:
    """Integers without the powers of two that all of them share: the scale of the noise takes their place."""
    shared = int(np.bitwise_or.reduce(rows.reshape(-1))) if rows.dtype != object else 0
    if rows.dtype == object:
        for value in rows.reshape(-1).tolist():
            shared |= value
    bits = (shared & -shared).bit_length() - 1 if shared else 0
    return exact.as_integers(rows >> bits)


PRODUCT = Method(
    "product",
    "the certified optimum for one product of queries, attribute by attribute",
    _refuses,
    _find,
)
