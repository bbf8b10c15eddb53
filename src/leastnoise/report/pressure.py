"""How hard each target presses on the cost of a plan, read from the weights that prove its optimum.

The proof of a plan's optimality holds a weight p_j for every query with a cap c_j on its variance. The
lower bounds of `certificate` depend on the caps through Σ_j p_j c_j alone, so they can be redone for
other caps without another search. Let s_b be the part of a batch b in that sum, s the whole, and its standard
errors be let grow by a factor r, so that its caps grow by r². What no noise can undercut then is

    largest v_j/c_j              bound · s / (s + (r² − 1) s_b)
    total variance within caps   bound − (r² − 1) s_b                                                  (1)

The same weights prove both. So the batch's share of the cost is

    largest v_j/c_j              s_b / s
    total variance within caps   s_b / (T + s),   T the least total variance                           (2)

In the first case the least cost (μ², squared factor or largest variance) falls by that many per cent for
every per cent that the batch's caps grow, as long as they grow by little. In the second, the noise is shaped
for T + s = Σ_j (w_j + p_j) v_j, and the batch's target takes that part of it. And (1) limits what relaxing
can buy at all; where s_b = 0 that is nothing.

What relaxing does buy is not in these weights: other targets press once this one gives way. Nor are they
always the only ones that prove the optimum: of queries that are alike, one may carry what all could share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.bounds import ProductWitness, Witness, per_term
from leastnoise.core.operators import Array
from leastnoise.planning import Plan
from leastnoise.query import Products, ProductTerm, products_of

# Queries of a batch up to which the hardest are found one by one.
_MAX_ROWS = 10**6


@dataclass(frozen=True)
class BatchPressure:
    """What one batch of queries has in Σ_j p_j c_j.

    Attributes:
        total: the sum over its queries.
        rows: its queries that press hardest, by number, and p_j c_j of each; none where all press alike.
    """

    total: float
    rows: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Pressure:
    """p_j c_j of all batches of a plan's workload, in order.

    Attributes:
        beside: what the sum stands beside: the total variance T where that is minimised within caps, else 0.
    """

    batches: tuple[BatchPressure, ...]
    beside: float = 0.0

    @property
    def total(self) -> float:
        """Σ_j p_j c_j."""
        return math.fsum(batch.total for batch in self.batches)

    @property
    def whole(self) -> float:
        """What shares are shares of: s, or T + s."""
        return self.total + self.beside

    @property
    def shares(self) -> tuple[float, ...]:
        """What each batch has in the cost: (2)."""
        whole = self.whole
        return tuple(batch.total / whole if whole > 0 else 0.0 for batch in self.batches)


def pressure_of(plan: Plan, *, n_rows: int = 3) -> Pressure | None:
    """What each batch has in the proof of a plan's optimality; None where nothing is proved about caps.

    Args:
        n_rows: how many queries of a batch to name at most.
    """
    caps = plan.objective.batch_caps(plan.workload)
    witness = plan.certificate.witness
    if caps is None or witness.p is None or not witness.p.any():
        return None
    if isinstance(witness, ProductWitness):
        return _of_products(plan, witness, caps, n_rows)
    return _of_queries(plan, witness, caps, n_rows)


def bound_if_relaxed(plan: Plan, pressure: Pressure, batch: int, relax: float) -> float:
    """What no noise can undercut once a batch may have standard errors larger by a factor: (1).

    Guarantee:
        It is the bound that the plan's own dual weights prove for the relaxed request, in the unit of the
        certificate, which holds whether or not the plan is optimal.
    """
    bound, own = plan.certificate.lower_bound, pressure.batches[batch].total
    grown = (relax**2 - 1) * own
    if plan.objective.kind == "largest":
        whole = pressure.total
        return bound * (whole / (whole + grown))
    return bound - grown


def largest_shares(plan: Plan, caps: Sequence[Array]) -> list[float | None]:
    """max_j v_j/c_j of every batch by itself; None where it has no cap.

    Args:
        caps: for every batch, one for all of its queries or one each, as `Objective.batch_caps` gives them.
    """
    shares: list[float | None] = []
    assert plan.spreads is not None
    for block, spread, c in zip(plan.workload.blocks, plan.spreads, caps, strict=True):
        if not np.isfinite(c).any():
            shares.append(None)
        elif len(c) == 1:
            shares.append(spread.high**2 / float(c[0]))
        else:
            shares.append(float((batch_variances(plan, block.name) / c).max()))
    return shares


def batch_variances(plan: Plan, name: str) -> Array:
    """The variances of one batch, which may be listed where those of all cannot."""
    return plan.fixed_strategy().variances_of(plan.workload.only(name))


def _beside(plan: Plan) -> float:
    return plan.certificate.achieved if plan.objective.kind == "total-within-caps" else 0.0


def _of_queries(plan: Plan, witness: Witness, caps: Sequence[Array], n_rows: int) -> Pressure:
    """The same where every query has a weight of its own."""
    p = witness.p
    assert p is not None
    batches = []
    start = 0
    for block, c in zip(plan.workload.blocks, caps, strict=True):
        own = p[start : start + block.n_rows]
        start += block.n_rows
        # A query without a cap has no weight.
        pressing = np.where(own > 0, own * np.where(np.isfinite(c), c, 0), 0.0)
        batches.append(BatchPressure(math.fsum(pressing), _hardest(pressing, n_rows)))
    return Pressure(tuple(batches), _beside(plan))


def _of_products(plan: Plan, witness: ProductWitness, caps: Sequence[Array], n_rows: int) -> Pressure:
    """The same for weights of product form: one number for every product, times weights of its rows."""
    products = products_of(plan.workload, witness.axes)
    assert products is not None
    assert witness.p is not None
    # Within caps, the bound takes no weights of rows; see `product_bound`.
    rows = witness.rows if plan.objective.kind == "largest" else {}
    c = per_term(caps, products)
    totals: list[list[float]] = [[] for _ in plan.workload.blocks]
    listed: list[list[Array]] = [[] for _ in plan.workload.blocks]
    for number, term in enumerate(products.terms):
        p = float(witness.p[number])
        weights = [_row_weights(products, term, number, place, rows) for place in range(len(term.places))]
        each = p * float(c[number]) if p > 0 else 0.0
        totals[term.block].append(each * math.prod(math.fsum(own) for own in weights))
        if plan.workload.blocks[term.block].n_rows <= _MAX_ROWS:
            values = np.full(1, each)
            for own in weights:
                values = np.multiply.outer(values, own).reshape(-1)
            listed[term.block].append(term.in_workload_order(values))
    batches = [
        BatchPressure(math.fsum(own), _hardest(np.concatenate(parts), n_rows) if parts else ())
        for own, parts in zip(totals, listed, strict=True)
    ]
    return Pressure(tuple(batches), _beside(plan))


def _row_weights(
    products: Products, term: ProductTerm, number: int, position: int, rows: Mapping[tuple[int, int], Array]
) -> Array:
    """Weights of the rows that a product asks of one of its axes; ones unless given."""
    place = term.places[position]
    own = rows.get((number, place))
    return np.ones(products.kinds[place][term.kinds[position]].n_rows) if own is None else own


# Where queries of a batch press alike but for this share, none of them stands out.
ALIKE = 1e-3


def _hardest(pressing: Array, n_rows: int) -> tuple[tuple[int, float], ...]:
    largest = float(pressing.max(initial=0))
    if largest <= 0 or len(pressing) == 1 or float(pressing.min()) >= (1 - ALIKE) * largest:
        return ()
    chosen = np.argsort(-pressing, kind="stable")[:n_rows]
    return tuple((int(j), float(pressing[j])) for j in chosen if pressing[j] > ALIKE * largest)
