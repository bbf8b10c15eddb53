"""Totals within targets from totals alone: batches whose targets bind count for more, until all are met.

With p_j ≥ 0 the price of a target c_j, the plan of the least Σ (w_j + p_j) v_j is that of the least Σ w_j v_j
within the targets as soon as v_j = c_j where p_j > 0 and v_j ≤ c_j elsewhere, and whatever p is

    least total within targets  ≥  least Σ (w_j + p_j) v_j − Σ p_j c_j

is a proven bound. So any search for totals alone serves targets too, one price for each batch. Where batches
have no block in common, d log v_i = ½ Σ_j φ_j d log W_j − ½ d log W_i for W = w + p, with φ the shares of
the weighted total. Newton's step in log W follows, and two to four are enough as a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.families.product_requests import product_request, refuse_unstructured
from leastnoise.planning.method import Method, Request, SearchResult
from leastnoise.planning.method_list import SEARCHES, SMALL
from leastnoise.planning.plan import Plan
from leastnoise.planning.refusals import MissesTargets
from leastnoise.query import TotalVariance

# Searches, at most, with prices.
MAX_ROUNDS = 8

# Of the time left, the share that each search may take.
_SHARE = 0.4

# Prices aim at variances so much below the targets, or rounding would take them above.
_ROOM = 1e-4

# A target that is kept with less than this share of itself to spare is met as tightly as it need be.
_TIGHT = 2e-3

# Methods that take a weight for each product in place of the objective's.
_WEIGHING = ("residuals", "joint")

# The most that the weight of a batch grows or falls in one round.
_MOST = 100.0

# Of the weighted total, the share of all batches with prices beyond which no finite price will do.
_HOPELESS = 0.98


def better_of(first: Plan, second: Plan) -> Plan:
    """The plan that achieves more, the first where they are equal, with the better of both bounds."""
    best = second if second.certificate.achieved < first.certificate.achieved else first
    other = first if best is second else second
    if other.certificate.lower_bound <= best.certificate.lower_bound:
        return best
    return best.with_witness(other.witness)


def plan_by_prices(
    method: Method,
    request: Request,
    find: Callable[[Request], SearchResult],
    measured: Callable[[SearchResult], Plan],
) -> Plan | None:
    """The best plan that keeps all targets, with the best bound; None where none was found, or cells are few.

    Targets that bind nowhere are what most people write: the first search, without prices, is then the last.

    Args:
        request: about the total within targets.
        find: the method's search, for a request about the total alone.
        measured: the plan of what it finds, for the request with targets.
    """
    objective = request.objective
    assert isinstance(objective, TotalVariance)
    if method.name not in SEARCHES or request.workload.shape[1] <= SMALL:
        return None
    alone = replace(request, objective=replace(objective, within_targets=False))
    if method.why_unfit(alone) is not None:
        return None
    may_price = method.name in _WEIGHING and refuse_unstructured(request) is None
    best: Plan | None = None
    prices: Array | None = None
    ended: Ended = "exhausted"
    deadline = Deadline.after(request.time_limit)
    for _ in range(MAX_ROUNDS):
        left = deadline.left
        limited = replace(alone, time_limit=None if left is None else _SHARE * left)
        plan: Plan | None = None
        try:
            found = find(limited if prices is None else _with_prices(limited, prices))
            if prices is not None:
                found = _priced(found, request, prices)
            plan = measured(found)
        except MissesTargets:
            pass
        except DesignError:
            break
        if plan is not None:
            best = plan if best is None else better_of(best, plan)
        if not may_price or (plan is not None and prices is None):
            return best
        if deadline.is_past:
            ended = "deadline"
            break
        following = _next_prices(found, request, prices)
        if following is None:
            return best
        prices = following
    if best is None:
        return None
    # The prices may not be the best ones yet.
    return best.with_trials(best.tried, worst_ending([ended, best.ended or "converged"]))


def _with_prices(request: Request, prices: Array) -> Request:
    question = product_request(request)
    of_terms = prices[[term.block for term in question.products.terms]]
    return replace(request, term_weights=question.weights + of_terms)


def _priced(found: SearchResult, request: Request, prices: Array) -> SearchResult:
    """What was found, with the prices in its proof."""
    assert isinstance(found.q, ProductWitness)
    of_terms = prices[[term.block for term in product_request(request).products.terms]]
    return replace(found, q=replace(found.q, p=of_terms))


def _next_prices(found: SearchResult, request: Request, prices: Array | None) -> Array | None:
    """Prices at which the targets are met more nearly; None where they are met, or never will be."""
    workload, objective = request.workload, request.objective
    strategy = found.proposal.measured_within(request.privacy, tol=request.tol)
    spreads = strategy.spreads(workload)
    caps = objective.batch_caps(workload)
    assert caps is not None
    own = np.array([float(w[0]) for w in objective.batch_weights(workload)])
    largest = np.array([spread.high**2 for spread in spreads])
    sums = np.array([s.mean_square * block.n_rows for s, block in zip(spreads, workload.blocks, strict=True)])
    shares = largest / (np.array([float(cap[0]) for cap in caps]) * (1 - _ROOM))
    p = np.zeros(len(own)) if prices is None else prices
    binds = (shares > 1) | (p > 0)
    if not binds.any() or ((shares[binds] <= 1).all() and (shares[p > 0] >= 1 - _TIGHT).all()):
        return None
    weights = own + p
    # A batch without a weight of its own counts, to begin with, like the mean of the others.
    weights = np.where(binds & (weights <= 0), float(weights @ sums) / np.maximum(sums, 1e-300), weights)
    parts = weights * sums / float(weights @ sums)
    all_parts = float(parts[binds].sum())
    if all_parts >= _HOPELESS and (shares[binds] > 1).all():
        return None
    logs = np.log(shares[binds])
    steps = 2 * (logs + float(parts[binds] @ logs) / max(1 - all_parts, 1 - _HOPELESS))
    raised = weights.copy()
    raised[binds] *= np.exp(np.clip(steps, -math.log(_MOST), math.log(_MOST)))
    return np.where(binds, np.maximum(raised - own, 0.0), 0.0)
