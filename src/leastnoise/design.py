"""Choose the noise: `design` a plan. Nothing here can see data."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from leastnoise import threads
from leastnoise.accounting import CellCosts, shown
from leastnoise.bounds.product_bound import ProductWitness
from leastnoise.certificate import Witness, largest_share
from leastnoise.directed import root_above
from leastnoise.errors import DesignError, InputError, MethodError, PrivacyError
from leastnoise.measured import Measured
from leastnoise.objective import Objective, Targets, check_spanned, default_objective
from leastnoise.operators import Array
from leastnoise.plan import Plan, cells_digest, data_dependent_plan, summed_costs
from leastnoise.printable import counted, printable
from leastnoise.privacy import GDP, ZCDP, Goal
from leastnoise.progress import Progress
from leastnoise.solver import BACKENDS
from leastnoise.strategies import METHODS, Found, Method, Request, in_order, method_named, pure
from leastnoise.strategies.infeasible import raised, rounded_up
from leastnoise.strategy import MAX_DENSE_STRATEGY, RealStrategy
from leastnoise.structured.proposal import BlockProposal
from leastnoise.workload import Workload

# Plans whose objective differs by less than this share are equally good.
_SAME = 1e-9


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
            spends the least μ that meets them all, `plan.privacy`. With ``after`` it is the goal for
            all those plans and this one together, and left out, what they spend together already.
        objective: what accurate means: `TotalVariance()`, `MaxVariance()` or `Targets()`. Unless
            given, the total variance; where queries have targets, within them; where they have
            and there is no goal, the targets alone.
        method: "auto", or a name from `methods()`. Under Gaussian noise, "auto" is the certified
            optimum; under pure privacy, where no method is, the best of several, refined: its note says
            what was tried and what each achieved.
        options: what the method understands; `methods()` lists them.
        after: plans that were, or will be, released before this one about the same frozen table, each as
            often as it is. The new plan uses what they leave in each cell. Without a goal it is free in
            the worst case, and in the worst case only: people in cells with slack lose protection they
            had. A ledger takes it only when it holds releases of those plans. For Gaussian noise,
            records added or removed, and cells that can be listed; method "dense".
        tol: the relative gap to the proven optimum at which the search may stop.
        time_limit: seconds; the best plan so far is returned with its honest gap. Under pure privacy
            "auto" takes 10 at most up to 256 cells unless given, and more in proportion beyond.
        backend: "numpy", "torch" or "cuda".
        progress: called with a `Progress` after every step.

    Raises:
        MethodError: if the method cannot serve the request; the message names those that can.
        InfeasibleError: if no noise meets the targets within the goal; it holds the proof.
        PrivacyError: if plans of ``after`` do not add up with this one, or exceed the goal already.
        DesignError: if a query counts cells in which they leave nothing, naming some of them.
    """
    request = checked_request(
        workload, privacy, objective, options, after, tol, time_limit, backend, progress
    )
    has_goal = privacy is not None or request.spare is not None
    if method != "auto":
        return plan_by(method_named(method), request, has_goal)
    if request.privacy.noise == "laplace":
        return _best_with_laplace_noise(request, has_goal)
    missed: list[MissesTargets] = []
    # For Gaussian noise the first is the optimum, or comes closest to it. Later ones are not even asked.
    for candidate in in_order(METHODS, request):
        if candidate.is_data_dependent or candidate.why_not(request) is not None:
            continue
        try:
            return plan_by(candidate, request, has_goal)
        except MissesTargets as error:
            missed.append(error)
    if not missed:
        raise _nobody(request)
    raise _closest(missed)


def _best_with_laplace_noise(request: Request, has_goal: bool) -> Plan:
    """The best plan of several methods and of what refining it directly gives; its note lists them all."""
    willing = pure.methods_to_try(in_order(METHODS, request), request)
    if not willing:
        raise _nobody(request)
    pure.check_options(willing, request)
    started, limit = time.monotonic(), pure.time_limit_of(request)
    plans: list[Plan] = []
    tried: list[str] = []
    missed: list[MissesTargets] = []
    failed: list[DesignError] = []

    def left() -> float:
        return limit - (time.monotonic() - started)

    steps = count(1)

    def tell(_: Progress | None = None) -> None:
        if request.progress is not None:
            gap = min((plan.certificate.gap for plan in plans), default=math.inf)
            request.progress(Progress(next(steps), gap, time.monotonic() - started))

    def judge(name: str, make: Callable[[], Plan | None]) -> None:
        try:
            plan = make()
        except MissesTargets as error:
            missed.append(error)
            tried.append(f"{name} misses the targets")
        except DesignError as error:
            failed.append(error)
            tried.append(f"{name} failed")
        else:
            if plan is not None:
                plans.append(plan)
                tried.append(f"{name} {plan.certificate.achieved:.6g}")
        tell()

    for method in willing:
        if not method.is_quick and plans and left() <= 0:
            tried.append(f"{method.name} had no time left")
            continue
        options = pure.options_for(method, request)
        given = replace(request, options=options, time_limit=pure.time_for(method, left()), progress=tell)
        judge(method.name, partial(plan_by, method, given, has_goal))
    if not plans and not missed:
        raise failed[0]
    if not plans:
        raise _closest(missed)
    best = _least(plans)
    if left() > 0 and pure.may_refine(request):
        weights = _weights_to_refine(best)
        others = sorted(plans, key=lambda plan: plan.certificate.achieved)
        ranked = (best, *(plan for plan in others if plan is not best))
        rows = [_unit_rows(plan) for plan in ranked if _can_be_listed(plan)]
        # A step that goes too far ends in numbers that are not finite, and is taken back.
        with threads.suited_to(request.workload.shape[1]), np.errstate(all="ignore"):
            for how, propose in pure.refinements(request, rows, weights, started + limit):
                judge(how, partial(_refined, best, request, how, propose))
    best = _least(plans)
    if len(tried) == 1:
        return best
    # The certificate was worked out already and says nothing of the note.
    listed = replace(best, note=f"{best.note}; tried: {', '.join(tried)}")
    vars(listed)["certificate"] = best.certificate
    return listed


def _refined(
    best: Plan, request: Request, how: str, propose: Callable[[], RealStrategy | None]
) -> Plan | None:
    """The plan for rows that were made from those of another, if there are any."""
    proposal = propose()
    if proposal is None:
        return None
    witness = best.witness
    q = witness if isinstance(witness, ProductWitness) else witness.q
    found = Found(proposal, q, "heuristic", f"{best.note}, {how}", p=witness.p)
    return _plan_of(best.method, best.options, request, best.has_goal, found)


def _can_be_listed(plan: Plan) -> bool:
    strategy = plan.fixed_strategy()
    return strategy.n_measured * strategy.n_cells <= MAX_DENSE_STRATEGY


def _unit_rows(plan: Plan) -> Array:
    """The rows that a plan measures, as floats of sensitivity 1."""
    strategy = plan.fixed_strategy()
    return np.asarray(strategy.dense().astype(float) / float(max(strategy.sensitivity, 1)))


def _least(plans: Sequence[Plan]) -> Plan:
    """The best plan; of those that are equal but for rounding, the first."""
    best = plans[0]
    for plan in plans[1:]:
        if plan.certificate.achieved < best.certificate.achieved * (1 - _SAME):
            best = plan
    return best


def _weights_to_refine(plan: Plan) -> Array:
    """The weights of the queries for whose total a plan's strategy was chosen."""
    w, p = plan.objective.weights(plan.workload), plan.witness.p
    if p is None or plan.objective.kind == "largest" or isinstance(plan.witness, ProductWitness):
        return w
    return w + p


def _closest(missed: Sequence[MissesTargets]) -> MethodError:
    closest = min(missed, key=lambda error: error.factor)
    return MethodError(
        f"no method meets the targets; the closest, {closest.method!r}, {closest.misses}. "
        f"To take it, {closest.remedy}"
    )


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
    for name, number in (("tol", tol), ("time_limit", time_limit)):
        if number is not None and not isinstance(number, (int, float)):
            raise InputError(f"{name} must be a number, got {type(number).__name__}")
    if not 0 < tol < math.inf:
        raise InputError(f"tol must be a positive number, got {tol!r}")
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit!r}")
    if backend not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    used = _used_before(after, workload, privacy)
    if used is not None and privacy is None:
        privacy = _goal_spent(used, after[0].privacy.records_per_person)
    chosen = default_objective(workload, objective, has_goal=privacy is not None)
    if privacy is None and not isinstance(chosen, Targets):
        raise InputError(
            "design() needs a privacy goal, as in design(workload, ApproxDP(epsilon=1, delta=1e-6)), or "
            "targets that say how much accuracy is enough, as in Total(stderr=50), and no other objective"
        )
    check_spanned(workload, chosen)
    # Without a goal only the shape of the noise is sought, at any budget.
    goal = GDP(1) if privacy is None else privacy
    request = Request(
        workload=workload,
        privacy=goal,
        options=dict(options or {}),
        tol=tol,
        time_limit=time_limit,
        backend=backend,
        progress=progress,
        objective=chosen,
        after=tuple(plan.digest for plan in after),
        used=used,
    )
    if request.spare is not None:
        _check_spare(workload, goal, request.spare)
    return request


# A ledger takes no more.
_MOST_AFTER = 1_000

# A cell with less than this share of the goal left is full: what counts it would have a thousand times the
# noise that the goal alone asks for. A search that fills cells leaves 1e-10 to 2e-7 of rounding.
_FULL = Fraction(1, 10**6)

# Cells and batches named in a message.
_NAMED = 4


def _used_before(after: Sequence[Plan], workload: Workload, privacy: Goal | None) -> CellCosts | None:
    """What earlier plans spend together in every cell, exactly; None if there are none.

    Guarantee:
        Add/remove neighbours, Gaussian noise, the same frozen cells: the tables x and x ± e_i are told
        apart no better than by μ² = Σ_r u_i^(r). Every plan counts as often as it is listed.

    Raises:
        InputError: if something in the list is no plan, or they are too many.
        PrivacyError: if the plans do not add up cell by cell.
    """
    if isinstance(after, Plan) or not isinstance(after, Sequence):
        raise InputError(f"after must be a list of plans, as in after=[plan], got {type(after).__name__}")
    for plan in after:
        if not isinstance(plan, Plan):
            raise InputError(f"after must list plans from design(), got {type(plan).__name__}")
    if not after:
        return None
    if len(after) > _MOST_AFTER:
        raise InputError(f"a plan may come after at most {_MOST_AFTER:,} others, got {len(after):,}")
    cells, k = cells_digest(workload), after[0].privacy.records_per_person
    listed = Counter(plan.digest for plan in after)
    costs: list[CellCosts] = []
    for number, goal in enumerate([*(plan.privacy for plan in after), *([privacy] if privacy else [])], 1):
        what = f"plan {number} of after" if number <= len(after) else "the goal"
        if goal.neighbours != "add-remove":
            raise PrivacyError(
                f"{what} is for {goal.neighbours} neighbours; what plans leave in each cell is known where "
                "records are added or removed. Design one plan for all queries instead"
            )
        if goal.noise != "gaussian":
            raise PrivacyError(
                f"{what} is for {goal.noise} noise; only Gaussian releases add up as after= needs. Design "
                "one plan for all queries instead"
            )
        if goal.records_per_person != k:
            raise PrivacyError(
                f"{what} is for {counted(goal.records_per_person, 'record')} per person, plan 1 of after for "
                f"{k}; plans add up cell by cell where they count the same number"
            )
    for number, plan in enumerate(after, 1):
        if plan.charge.cells != cells:
            raise PrivacyError(
                f"plan {number} of after is about other cells; design it and this one for the same schema"
            )
        if plan.charge.per_cell is None:
            raise PrivacyError(
                f"plan {number} of after has more cells than can be listed, and what it leaves in each is "
                "not known; design one plan for all queries instead"
            )
        missing = Counter(plan.after) - listed
        if missing:
            raise PrivacyError(
                f"plan {number} of after comes after {counted(missing.total(), 'plan')} not listed here; "
                "list every plan that is released before this one"
            )
        costs.append(plan.charge.per_cell)
    return summed_costs(costs)


def _goal_spent(used: CellCosts, k: int) -> Goal:
    """The goal that earlier plans use up in the worst cell, exactly.

    As ρ = μ²/2, which is rational where μ need not be. Nothing rounded would do: a hair more would
    not be free, a hair less would refuse the plans that are there.
    """
    if not used.largest:
        raise PrivacyError("the earlier plans spend nothing, so that nothing is free after them; give a goal")
    return ZCDP(used.largest * k * k / 2, records_per_person=k)


def _check_spare(workload: Workload, goal: Goal, spare: CellCosts) -> None:
    """Return if no query counts a cell in which next to nothing is left.

    Raises:
        DesignError: naming such cells, and the queries.
    """
    budget = goal.budget * spare.unit
    full = np.array([left < _FULL * budget for left in spare.numerators])
    where = np.flatnonzero(full & (np.asarray(workload.operator.column_norms(1)) > 0))
    if len(where) == 0:
        return
    batches = [
        repr(printable(block.name))
        for block in workload.blocks
        if (np.asarray(block.operator.column_norms(1))[where] > 0).any()
    ]
    cells = _few([printable(_cell_name(workload, int(i))) for i in where[:_NAMED]], len(where))
    counting = f"{_few(batches, len(batches))} {'counts' if len(batches) == 1 else 'count'}"
    allowed = shown(goal.budget * goal.records_per_person**2)
    if full.all():
        raise DesignError(
            f"the earlier plans leave no slack: within μ² = {allowed} per person for all plans together, "
            "every cell is used up, as by the least total variance of queries that reach every cell; "
            f"{counting} {cells}. Give a larger goal, or design one plan for all queries"
        )
    raise DesignError(
        f"{counting} cells in which the earlier plans leave nothing within μ² = {allowed} per person for all "
        f"plans together: {cells}. Leave those cells out, as with Where(), or give a larger goal"
    )


def _few(names: Sequence[str], count: int) -> str:
    """The first few of so many names, and how many more there are."""
    more = count - _NAMED
    return "; ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _cell_name(workload: Workload, i: int) -> str:
    """A cell by the values of its attributes, as in "age 17, sex F"."""
    schema = workload.schema
    if schema is None:
        return f"cell {i:,}"
    places = np.unravel_index(i, schema.shape)
    return ", ".join(
        f"{name} {schema[name].label(int(at))}" for name, at in zip(schema.names, places, strict=True)
    )


def plan_by(method: Method, request: Request, has_goal: bool) -> Plan:
    """The plan that one method finds.

    Raises:
        MethodError: if it cannot serve the request; the message names those that can.
    """
    method.check_options(request.options)
    reason = method.why_not(request)
    if reason is not None:
        able = [m.name for m in METHODS if m.why_not(request) is None]
        can = f"; {', '.join(able)} can" if able else "; no method can"
        raise MethodError(f"method {method.name!r} cannot do this: {reason}{can}")
    if method.is_data_dependent:
        return data_dependent_plan(method, request)
    with threads.suited_to(method.matrix_size(request)):
        found = method.find(request)
    assert isinstance(found, Found)
    return _plan_of(method.name, request.options, request, has_goal, found)


def _plan_of(method: str, options: Mapping[str, Any], request: Request, has_goal: bool, found: Found) -> Plan:
    """The plan that measures what was found, in whole numbers, with its certificate."""
    workload, objective = request.workload, request.objective
    if has_goal:
        goal = request.privacy
        strategy: Measured = found.proposal.measured_within(goal, tol=request.tol, spare=request.spare)
    else:
        strategy, goal = _meeting_targets(found.proposal, workload, request.tol)
    plan = Plan(
        workload=workload,
        privacy=goal,
        objective=objective,
        method=method,
        strategy=strategy,
        witness=_witness(found, request),
        claim=found.claim,
        tol=request.tol,
        note=found.note,
        options=dict(options),
        has_goal=has_goal,
        after=request.after,
        used=request.used,
    )
    if objective.kind == "total-within-caps" and strategy.can_answer_all(workload):
        assert plan.factor is not None
        if plan.factor > 1:
            raise _misses_targets(method, plan.factor, goal)
    # The proof belongs to the plan, and finds a strategy that cannot answer what was asked.
    plan.certificate  # noqa: B018
    return plan


def _witness(found: Found, request: Request) -> Witness | ProductWitness:
    if isinstance(found.q, ProductWitness):
        return found.q
    return Witness(_query_weights(found.p, request), found.q, found.pairs)


def _query_weights(p: Array | None, request: Request) -> Array | None:
    """The dual weights of the queries: those found, else equal ones in units of the caps."""
    caps = request.objective.caps(request.workload)
    if caps is None:
        return None
    if p is not None:
        return np.where(np.isfinite(caps), p, 0)
    return 1 / caps if request.objective.kind == "largest" else None


# Targets are met with this share to spare, so that they hold though variances are rounded.
_ROUNDING_ROOM = 1e-10


def _meeting_targets(
    proposal: RealStrategy | BlockProposal, workload: Workload, tol: float
) -> tuple[Measured, Goal]:
    """The integer strategy that meets every target with the most noise, and the least μ that allows it.

    Raises:
        DesignError: if every query is zero.
    """
    caps = Targets().batch_caps(workload)
    # Variances fall as 1/μ², but for the rounding that follows.
    needed = largest_share(workload, proposal.measured_within(GDP(1), tol=tol), caps)
    if needed == 0:
        raise DesignError("every query with a target is zero, which costs no privacy; ask for something else")
    rows: Measured = proposal.measured_within(GDP(math.sqrt(needed)), tol=tol)
    share = largest_share(workload, rows, caps)
    scale = math.floor(math.sqrt(max(rows.noise_variance / share * (1 - _ROUNDING_ROOM) - 1 / 12, 1)))
    strategy = rows.with_scale(scale)
    less = 1 + (scale >> 50)
    while largest_share(workload, strategy, caps) > 1 - _ROUNDING_ROOM / 2 and scale > less:
        scale -= less
        less *= 2
        strategy = rows.with_scale(scale)
    if largest_share(workload, strategy, caps) > 1:
        raise DesignError("no noise scale meets the targets; this is a fault of leastnoise")
    return strategy, GDP(root_above(strategy.spent))


def _nobody(request: Request) -> MethodError:
    by_name = "it depends on the data and is taken only when named"
    reasons = [f"{method.name}: {method.why_not(request) or by_name}" for method in METHODS]
    return MethodError("no method can serve this workload. " + "; ".join(reasons))
