"""The plan that one method finds: its proposal in whole numbers, within the goal, with its proof.

Without a goal the plan has the least budget that meets every target. A method that depends on the data gives
a mechanism, and its plan claims nothing about accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from leastnoise.bounds import AnyWitness, PartsWitness, ProductWitness, Witness, largest_share
from leastnoise.core.deadline import LEAST_TIME
from leastnoise.core.decompositions import computed_on
from leastnoise.core.errors import DesignError, MethodError
from leastnoise.core.operators import Array
from leastnoise.core.progress import ENOUGH, Progress
from leastnoise.core.resources import Needs, threads_for_matrices_of
from leastnoise.planning.mechanism import Mechanism
from leastnoise.planning.method import Method, Request, SearchResult
from leastnoise.planning.method_list import all_methods
from leastnoise.planning.patience import SMALL_GAP
from leastnoise.planning.plan import Plan
from leastnoise.planning.priced_targets import better_of, plan_by_prices
from leastnoise.planning.refusals import misses_targets
from leastnoise.privacy import Goal, LeastLoss
from leastnoise.query import Targets, Workload
from leastnoise.solver import Reweighting, load_backend
from leastnoise.strategy import Measured, OverClasses, Proposal


def plan_by(method: Method, request: Request) -> Plan:
    """The plan that one method finds.

    Raises:
        MethodError: if it cannot serve the request; the message names those that can.
    """
    method.check_options(request.options)
    reason = request.why_not(method)
    if reason is not None:
        able = [m.name for m in all_methods() if request.why_not(m) is None]
        can = f"; {', '.join(able)} can" if able else "; no method can"
        raise MethodError(
            f"method {method.name!r} cannot do this: {reason}{can}", field="method", given=method.name
        )
    return attempt(method, request, request.needs(method))


def attempt(method: Method, request: Request, needs: Needs) -> Plan:
    """The plan of a method that has been asked, and can serve the request.

    Args:
        needs: what the method takes for this request.

    Raises:
        MethodError: if it does not know one of the options.
    """
    method.check_options(request.options)
    if method.is_data_dependent:
        return _plan_of_mechanism(method, request)

    def find(asked: Request) -> SearchResult:
        with threads_for_matrices_of(method.matrix_size(asked)):
            found = method.find(_with_listener(asked, method, needs))
        assert isinstance(found, SearchResult)
        return _as_it_ended(found, request)

    def measured(found: SearchResult) -> Plan:
        # Rounding to integers too: with several threads the same request could have another digest.
        with threads_for_matrices_of(method.matrix_size(request)):
            return plan_of(method.name, request.options, request, found)

    with computed_on(None if request.backend == "numpy" else load_backend(request.backend)):
        is_within = request.objective.kind == "total-within-caps"
        priced = plan_by_prices(method, request, find, measured) if is_within else None
        if priced is not None and priced.certificate.gap <= SMALL_GAP:
            return priced
        try:
            plan = measured(find(_with_time_to_search(request, needs)))
        except DesignError:
            if priced is None:
                raise
            return priced
        return plan if priced is None else better_of(priced, plan)


def _with_time_to_search(request: Request, needs: Needs) -> Request:
    """The request with what its time limit leaves for the search, rounding and proof set aside."""
    left = request.deadline.left
    if left is None or not request.is_promised:
        return request
    return replace(request, time_limit=max(needs.searching(left), LEAST_TIME))


def _with_listener(request: Request, method: Method, needs: Needs) -> Request:
    """The request with a listener that knows which method works, and how much work is enough."""
    patience, listener = request.patience, request.progress
    if patience is None and listener is None:
        return request
    if patience is not None:
        patience.begin(needs.first + needs.last)

    def told(step: Progress) -> Any:
        if listener is not None:
            listener(replace(step, part=method.name) if type(step) is Progress else step)
        return ENOUGH if patience is not None and patience.step(needs.step, step.gap) else None

    return replace(request, progress=told)


def _as_it_ended(found: SearchResult, request: Request) -> SearchResult:
    """What was found; a search that nobody limited ends at no time limit, but when it has done enough."""
    patience = request.patience
    if patience is None or not patience.is_over or found.ended == "converged":
        return found
    return replace(found, ended="exhausted", note=f"{found.note}; {patience.to_text()}")


def plan_of(method: str, options: Mapping[str, Any], request: Request, found: SearchResult) -> Plan:
    """The plan that measures what was found, in whole numbers, with its certificate."""
    workload, objective = request.workload, request.objective
    proposal = found.proposal
    if request.over is not None:
        proposal = proposal.in_time(workload, request.over)
    if request.has_goal:
        goal = request.privacy
        tol = min(request.tol, found.grid_tol)
        strategy: Measured = proposal.measured_within(goal, tol=tol, spare=request.spare)
    else:
        strategy, goal = meeting_targets(proposal, workload, request.tol, request.least)
    witness = _witness(found, request, strategy)
    if request.classes is not None and request.whole is not None:
        workload, strategy = request.whole, OverClasses(strategy, request.classes)
    plan = Plan(
        workload=workload,
        privacy=goal,
        objective=objective,
        method=method,
        strategy=strategy,
        witness=witness,
        claim=found.claim,
        tol=request.tol,
        note=found.note,
        options=dict(options),
        has_goal=request.has_goal,
        after=request.after,
        used=request.used,
        ended=found.ended,
        over=request.over,
    )
    return meeting_caps(plan)


def meeting_caps(plan: Plan) -> Plan:
    """A plan that meets its targets where its objective is within them, with its certificate worked out.

    Raises:
        MissesTargets: if it does not.
    """
    strategy = plan.fixed_strategy()
    if plan.objective.kind == "total-within-caps" and strategy.can_answer_all(plan.workload):
        share = largest_share(plan.workload, strategy, Targets().batch_caps(plan.workload))
        # Standard errors of all queries, for the factor itself, are worked out only where they decide: for
        # 14 million queries they take ten times as long as the largest share.
        if not share <= 1 - _ROUNDING_ROOM:
            assert plan.factor is not None
            if plan.factor > 1:
                raise misses_targets(plan.method, plan.factor, plan.privacy)
    # The proof belongs to the plan, and finds a strategy that cannot answer what was asked.
    plan.certificate  # noqa: B018
    return plan


def _witness(found: SearchResult, request: Request, strategy: Measured) -> AnyWitness:
    if isinstance(found.q, ProductWitness | PartsWitness):
        return found.q
    return Witness(_query_weights(found.p, request, strategy), found.q, found.pairs)


def _query_weights(p: Array | None, request: Request, strategy: Measured) -> Array | None:
    """The dual weights of the queries: those found, else equal ones in units of the caps.

    For absolute errors, else those at which this noise would be the best.
    """
    if request.objective.kind == "absolute":
        if p is not None:
            return p
        w = request.objective.weights(request.workload)
        return Reweighting.starting(w, np.sqrt(strategy.variances_of(request.workload))).p
    caps = request.objective.caps(request.workload)
    if caps is None:
        return None
    if p is not None:
        return np.where(np.isfinite(caps), p, 0)
    return 1 / caps if request.objective.kind == "largest" else None


# Targets are met with this share to spare, so that they hold though variances are rounded.
_ROUNDING_ROOM = 1e-10


def meeting_targets(
    proposal: Proposal[Measured],
    workload: Workload,
    tol: float,
    least: LeastLoss,
) -> tuple[Measured, Goal]:
    """The integer strategy that meets every target with the most noise, and the least goal that allows it.

    Raises:
        DesignError: if every query is zero.
    """
    caps = Targets().batch_caps(workload)
    # Variances fall as 1/μ², but for the rounding that follows.
    needed = largest_share(workload, proposal.measured_within(least.unit_goal, tol=tol), caps)
    if needed == 0:
        raise DesignError(
            "every query with a target is zero, which costs no privacy",
            field="stderr",
            remedy="ask for something else",
        )
    rows: Measured = proposal.measured_within(
        replace(least.unit_goal, mu=math.sqrt(needed) * least.records_per_person), tol=tol
    )
    share = largest_share(workload, rows, caps)
    scale = math.floor(math.sqrt(max(rows.noise_variance / share * (1 - _ROUNDING_ROOM) - 1 / 12, 1)))
    strategy = rows.with_scale(scale)
    less = 1 + (scale >> 50)
    while largest_share(workload, strategy, caps) > 1 - _ROUNDING_ROOM / 2 and scale > less:
        scale -= less
        less *= 2
        strategy = rows.with_scale(scale)
    if largest_share(workload, strategy, caps) > 1:
        raise DesignError("no noise scale meets the targets; this is a fault of leastnoise", field="scale")
    return strategy, least.goal_for(strategy.spent)


def _plan_of_mechanism(method: Method, request: Request) -> Plan:
    mechanism = method.find(request)
    assert isinstance(mechanism, Mechanism)
    return Plan(
        workload=request.workload,
        privacy=request.privacy,
        objective=request.objective,
        method=method.name,
        strategy=None,
        witness=Witness(None, np.zeros(request.workload.shape[1])),
        claim="data-dependent",
        tol=request.tol,
        note=mechanism.note,
        options=dict(request.options),
        mechanism=mechanism,
        # Nothing is searched for before there are data.
        ended="converged",
    )
