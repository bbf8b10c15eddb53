"""Choose the noise: `design` a plan. Nothing here can see data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from leastnoise import threads
from leastnoise.certificate import Witness, largest_share
from leastnoise.errors import DesignError, InputError, MethodError, NotYetError
from leastnoise.objective import Objective, Targets, check_spanned, default_objective
from leastnoise.operators import Array
from leastnoise.plan import Plan, data_dependent_plan
from leastnoise.privacy import GDP, Goal
from leastnoise.progress import Progress
from leastnoise.solver import BACKENDS
from leastnoise.strategies import METHODS, Found, Method, Request, method_named
from leastnoise.strategies.infeasible import raised, rounded_up
from leastnoise.strategy import RealStrategy, Strategy, integer_strategy
from leastnoise.workload import Workload


class MissesTargets(MethodError):
    """A method's plan does not meet the targets; another method's may.

    Attributes:
        factor: by which it misses them.
        misses: that in words.
        remedy: what to do to take it all the same.
    """

    method: str
    factor: float
    misses: str
    remedy: str


def _misses_targets(method: str, factor: float, goal: Goal) -> MissesTargets:
    misses = f"misses the targets by a factor of {rounded_up(factor)}"
    remedy = f"multiply every stderr by at least that, or raise {raised(goal, factor)}"
    error = MissesTargets(f"method {method!r} {misses}; another may meet them. To take this one, {remedy}")
    error.method, error.factor, error.misses, error.remedy = method, factor, misses, remedy
    return error


def design(
    workload: Workload,
    privacy: Goal | None = None,
    *,
    objective: Objective | None = None,
    method: str = "auto",
    options: Mapping[str, Any] | None = None,
    after: Sequence[Plan] = (),
    tol: float = 1e-6,
    time_limit: float | None = None,
    backend: str = "numpy",
    progress: Callable[[Progress], None] | None = None,
) -> Plan:
    """The plan with the least noise for a workload and a privacy goal. Never sees data.

    Args:
        privacy: the goal. It may be left out where queries have targets: the plan then
            spends the least μ that meets them all, `plan.privacy`.
        objective: what accurate means: `TotalVariance()`, `MaxVariance()` or `Targets()`. Unless
            given, the total variance; where queries have targets, within them; where they have
            and there is no goal, the targets alone.
        method: "auto", or a name from `methods()`. Under Gaussian noise, "auto" is the certified
            optimum; under pure privacy the best of the quick methods, and the plan's note says which
            were tried. `compare` tries the slow ones too.
        options: what the method understands; `methods()` lists them.
        tol: the relative gap to the proven optimum at which the search may stop.
        time_limit: seconds; the best plan so far is returned with its honest gap.
        backend: "numpy", "torch" or "cuda".
        progress: called with a `Progress` after every step.

    Raises:
        MethodError: if the method cannot serve the request; the message names those that can.
        InfeasibleError: if no noise meets the targets within the goal; it holds the proof.
    """
    request = checked_request(
        workload, privacy, objective, options, after, tol, time_limit, backend, progress
    )
    has_goal = privacy is not None
    if method != "auto":
        return plan_by(method_named(method), request, has_goal)
    willing = [m for m in METHODS if not m.is_data_dependent and m.refuses(request) is None]
    if not willing:
        raise _nobody(request)
    # For Gaussian noise the first is the optimum; for Laplace noise none is, and the best is taken.
    is_best_first = request.privacy.noise == "gaussian"
    if not is_best_first:
        willing = [m for m in willing if m.is_quick] or willing
    plans: list[Plan] = []
    missed: list[MissesTargets] = []
    failed: list[DesignError] = []
    for candidate in willing:
        try:
            plans.append(plan_by(candidate, request, has_goal))
        except MissesTargets as error:
            missed.append(error)
        except DesignError as error:
            if is_best_first:
                raise
            failed.append(error)
        if plans and is_best_first:
            break
    if not plans and not missed:
        raise failed[0]
    if not plans:
        closest = min(missed, key=lambda error: error.factor)
        raise MethodError(
            f"no method meets the targets; the closest, {closest.method!r}, {closest.misses}. "
            f"To take it, {closest.remedy}"
        )
    best = min(plans, key=lambda plan: plan.certificate.achieved)
    if is_best_first or len(willing) == 1:
        return best
    # The certificate was worked out already and says nothing of the note.
    found = best.certificate
    told = replace(best, note=f"{best.note}; the best of {', '.join(m.name for m in willing)}")
    vars(told)["certificate"] = found
    return told


def checked_request(
    workload: Workload,
    privacy: Goal | None,
    objective: Objective | None,
    options: Mapping[str, Any] | None,
    after: Sequence[Plan],
    tol: float,
    time_limit: float | None,
    backend: str,
    progress: Callable[[Progress], None] | None,
) -> Request:
    """What `design` was asked, after checking that it means something.

    Raises:
        InputError: naming what does not.
    """
    if not isinstance(workload, Workload):
        raise InputError(f"design() needs a Workload from assemble(), got {type(workload).__name__}")
    if privacy is not None and not isinstance(privacy, Goal):
        raise InputError(f"privacy must be PureDP, ApproxDP, ZCDP or GDP, got {type(privacy).__name__}")
    if after:
        raise NotYetError("after= is not available yet; design one plan for all queries")
    for name, number in (("tol", tol), ("time_limit", time_limit)):
        if number is not None and not isinstance(number, (int, float)):
            raise InputError(f"{name} must be a number, got {type(number).__name__}")
    if not 0 < tol < math.inf:
        raise InputError(f"tol must be a positive number, got {tol!r}")
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit!r}")
    if backend not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    chosen = default_objective(workload, objective, has_goal=privacy is not None)
    if privacy is None and not isinstance(chosen, Targets):
        raise InputError(
            "design() needs a privacy goal, as in design(workload, ApproxDP(epsilon=1, delta=1e-6)), or "
            "targets that say how much accuracy is enough, as in Total(stderr=50), and no other objective"
        )
    check_spanned(workload, chosen)
    # Without a goal only the shape of the noise is sought, at any budget.
    goal = GDP(1) if privacy is None else privacy
    return Request(workload, goal, dict(options or {}), tol, time_limit, backend, progress, chosen)


def plan_by(method: Method, request: Request, has_goal: bool) -> Plan:
    """The plan that one method finds.

    Raises:
        MethodError: if it cannot serve the request; the message names those that can.
    """
    method.check_options(request.options)
    reason = method.refuses(request)
    if reason is not None:
        able = [m.name for m in METHODS if m.refuses(request) is None]
        can = f"; {', '.join(able)} can" if able else "; no method can"
        raise MethodError(f"method {method.name!r} cannot do this: {reason}{can}")
    if method.is_data_dependent:
        return data_dependent_plan(method, request)
    workload, objective = request.workload, request.objective
    with threads.suited_to(workload.shape[1]):
        found = method.find(request)
    assert isinstance(found, Found)
    if has_goal:
        goal = request.privacy
        strategy = integer_strategy(found.proposal, goal, tol=request.tol)
    else:
        strategy, goal = _meeting_targets(found.proposal, workload, request.tol)
    plan = Plan(
        workload=workload,
        privacy=goal,
        objective=objective,
        method=method.name,
        strategy=strategy,
        witness=Witness(_query_weights(found.p, request), found.q, found.pairs),
        claim=found.claim,
        tol=request.tol,
        note=found.note,
        options=dict(request.options),
        has_goal=has_goal,
    )
    if objective.kind == "total-within-caps" and strategy.can_answer(workload.operator):
        assert plan.factor is not None
        if plan.factor > 1:
            raise _misses_targets(method.name, plan.factor, goal)
    # The proof belongs to the plan, and finds a strategy that cannot answer what was asked.
    plan.certificate  # noqa: B018
    return plan


def _query_weights(p: Array | None, request: Request) -> Array | None:
    """The dual weights of the queries: those found, else equal ones in units of the caps."""
    caps = request.objective.caps(request.workload)
    if caps is None:
        return None
    if p is not None:
        return np.where(np.isfinite(caps), p, 0)
    return 1 / caps if request.objective.kind == "largest" else None


def _meeting_targets(proposal: RealStrategy, workload: Workload, tol: float) -> tuple[Strategy, Goal]:
    """The integer strategy that meets every target with the most noise, and the least μ that allows it.

    Raises:
        DesignError: if every query is zero.
    """
    caps = Targets().caps(workload)
    # Variances fall as 1/μ², but for the rounding that follows.
    needed = largest_share(workload, integer_strategy(proposal, GDP(1), tol=tol), caps)
    if needed == 0:
        raise DesignError("every query with a target is zero, which costs no privacy; ask for something else")
    rows = integer_strategy(proposal, GDP(math.sqrt(needed)), tol=tol)
    scale = math.floor(math.sqrt(max(rows.noise_variance / largest_share(workload, rows, caps) - 1 / 12, 1)))
    strategy = _with_scale(rows, scale)
    while largest_share(workload, strategy, caps) > 1 and scale > 1:
        scale -= 1 + (scale >> 50)
        strategy = _with_scale(rows, scale)
    if largest_share(workload, strategy, caps) > 1:
        raise DesignError("no noise scale meets the targets; this is a fault of leastnoise")
    mu = math.sqrt(strategy.spent)
    while Fraction(mu) ** 2 < strategy.spent:
        mu = math.nextafter(mu, math.inf)
    return strategy, GDP(mu)


def _with_scale(strategy: Strategy, scale: int) -> Strategy:
    """The same rows with another scale of the noise; what was worked out from the rows is kept."""
    other = Strategy(strategy.entries, scale=scale, noise=strategy.noise, neighbours=strategy.neighbours)
    for name in ("column_costs", "_floats", "_inverse_and_rank", "_is_full_rank"):
        if name in vars(strategy):
            vars(other)[name] = vars(strategy)[name]
    return other


def _nobody(request: Request) -> MethodError:
    by_name = "it depends on the data and is taken only when named"
    reasons = [f"{method.name}: {method.refuses(request) or by_name}" for method in METHODS]
    return MethodError("no method can serve this workload. " + "; ".join(reasons))
