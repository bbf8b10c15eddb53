"""Laplace noise, for which no method is optimal: several are tried, and the best plan is refined.

Plans are compared by their exact expected error. Which methods are tried, in which order and for how long
comes first; then what came of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core import threads
from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.core.resources import seconds_for, why_too_much
from leastnoise.planning.method import Method, Reasons, Request, SearchResult
from leastnoise.planning.one_method import meeting_caps, plan_of
from leastnoise.planning.plan import Plan
from leastnoise.planning.refinement import Proposed, may_refine, refinement_needs, refinements
from leastnoise.planning.trials import Attempt, Trials
from leastnoise.query import Targets
from leastnoise.strategy import MAX_DENSE_STRATEGY

# Seconds for the whole search, up to TIME_LIMIT_CELLS cells; beyond, in proportion to them.
TIME_LIMIT = 10.0

# Cells up to which the search takes TIME_LIMIT seconds.
TIME_LIMIT_CELLS = 256

# Methods that search for long and are tried all the same, with the options that each is given for few cells.
_SEARCHES: dict[str, dict[str, Any]] = {"p-identity": {}, "lowrank": {"max_iterations": 50}}

# Cells. Up to this number searches are given the options above; beyond, they keep their own.
_WITH_OPTIONS_CELLS = 256

# Cells. The low-rank mechanism is tried up to this number: 0.5 s for 8; 6 s for 64, then far from the best.
_LOWRANK_CELLS = 16

# Cells per query. From this ratio on the low-rank mechanism is tried too: few queries span few directions,
# which is what it is made for and what strategies that measure every cell waste most on.
_LOWRANK_SHARE = 4

# Tried last: where it takes longest, it is behind.
_LAST = "weighted-basis"

# Where caps are to be met, p-identity is first asked for this much: all ranges of 256 cells, 32,896
# queries, take 4 s and come within 2 % of what a search of minutes reaches. Its 24 starts alone take longer.
FEW: dict[str, Any] = {"starts": 4, "iterations": 200, "workers": 1}

# Coefficients of all queries. Beyond this number measuring every query is not quick: 8.4 million take 14 s,
# without a pause in which a time limit could be looked at.
_QUICK_COEFFICIENTS = 2**20

# Seconds that measuring every query takes per coefficient.
_SECONDS_PER_COEFFICIENT = 1.7e-6

# The share of the time left that one method may take, so that others and the refinement come too.
_SHARE = 0.5

# The same for the method that is tried last.
_SHARE_OF_LAST = 0.25


def time_limit_of(request: Request) -> float:
    """Seconds that the whole search may take."""
    if request.time_limit is not None:
        return request.time_limit
    return TIME_LIMIT * max(1.0, request.workload.shape[1] / TIME_LIMIT_CELLS)


def methods_to_try(methods: Iterable[Method], reasons: Reasons) -> list[Method]:
    """The methods that serve a request: quick ones and those that search; slow ones if there is no other."""
    m, n = reasons.request.workload.shape
    tried = [method for method in methods if not (method.is_data_dependent or method.is_only_named)]
    willing = [method for method in tried if reasons.unfit(method) is None]
    quick = [method for method in willing if method.is_quick]
    is_low_rank = n <= _LOWRANK_CELLS or _LOWRANK_SHARE * m <= n
    searches = [
        method for method in willing if method.name in _SEARCHES and (method.name != "lowrank" or is_low_rank)
    ]
    return quick + [method for method in searches if method not in quick] or willing


def check_options(methods: Sequence[Method], request: Request) -> None:
    """Return if every option is one of some method that is tried.

    Raises:
        MethodError: naming those that no method has.
    """
    unknown = set(request.options) - {name for method in methods for name in method.options}
    if unknown:
        named = ", ".join(sorted(map(str, unknown)))
        raise MethodError(
            f"no method tried under pure privacy has an option {named}; methods() lists them all",
            field="options",
            given=named,
        )


def attempts(methods: Sequence[Method], request: Request) -> list[Attempt]:
    """The methods in the order in which they are tried: quick ones, searches, and what takes longest.

    Where caps are to be met, a short search comes between quick methods and long searches. Where nobody set a
    limit it has a time of its own: whatever quick methods take, what it meets is met.
    """
    found = [_attempt(method, request) for method in methods]
    if request.objective.kind != "total":
        found += [_short_search(one, request) for one in found if one.method.name == "p-identity"]
    return sorted(found, key=lambda one: _turn(one, request))


def _short_search(full: Attempt, request: Request) -> Attempt:
    options = {**FEW, **full.options}
    name = f"{full.name} from {options['starts']} starts"
    is_free = request.time_limit is None
    own = time_limit_of(request) if is_free else full.own_seconds
    return replace(full, name=name, options=options, is_quick=is_free, own_seconds=own)


def _turn(attempt: Attempt, request: Request) -> int:
    if attempt.method.name == _LAST or _is_long_list(attempt.method, request):
        return 3
    if attempt.method.is_quick:
        return 0
    return 1 if attempt.name != attempt.method.name else 2


def _attempt(method: Method, request: Request) -> Attempt:
    share = _SHARE_OF_LAST if method.name == _LAST else _SHARE
    options, is_long = options_for(method, request), _is_long_list(method, request)
    least = _SECONDS_PER_COEFFICIENT * math.prod(request.workload.shape) if is_long else 0.0
    return Attempt(method.name, method, options, share, method.is_quick and not is_long, least)


def _is_long_list(method: Method, request: Request) -> bool:
    """Whether a method measures every query, and these are too many to be quick."""
    return method.name == "workload" and math.prod(request.workload.shape) > _QUICK_COEFFICIENTS


def options_for(method: Method, request: Request) -> dict[str, Any]:
    """The options with which a method is tried: its own, and of those asked for the ones it has."""
    is_small = request.workload.shape[1] <= _WITH_OPTIONS_CELLS
    own = _SEARCHES.get(method.name, {}) if is_small else {}
    return {**own, **{name: value for name, value in request.options.items() if name in method.options}}


def best_with_laplace_noise(methods: Iterable[Method], reasons: Reasons, has_goal: bool) -> Plan:
    """The best plan of several methods and of what refining it directly gives; it lists them all.

    Where targets must be met and no method meets them, the least common factor on them is sought as well, as
    `Targets` asks for it: what the one finds, the other does not refuse.

    Raises:
        MethodError: if no method meets the targets.
        DesignError: the first method's, if none finds a plan; what they take, if all take too much.
    """
    request = reasons.request
    willing = methods_to_try(methods, reasons)
    if willing:
        check_options(willing, request)
    trials = Trials(reasons, has_goal, Deadline.after(time_limit_of(request)))
    for attempt in attempts(willing, request):
        if trials.is_settled:
            break
        trials.run(attempt)
    if trials.has_only_missed:
        _try_common_factor(trials, willing)
    best = trials.best()
    if may_refine(request) and not trials.is_settled:
        if trials.left > 0:
            _try_refinements(trials, best)
        else:
            trials.endings.append("deadline")
    return trials.result()


def _try_common_factor(trials: Trials, willing: Sequence[Method]) -> None:
    """Look for noise that misses the targets by the least factor, which may turn out to be none.

    Where nobody set a limit it has a time of its own; else what is left.
    """
    request, name = trials.request, "the least common factor"
    if request.time_limit is not None and trials.left <= 0:
        trials.leave_out(name, "no-time")
        return
    left = None if request.time_limit is None else trials.left
    reasons = Reasons(replace(request, objective=Targets(), time_limit=left, progress=trials.tell))

    def meeting() -> Plan:
        closest = best_with_laplace_noise(willing, reasons, trials.has_goal)
        return meeting_caps(replace(closest, objective=request.objective))

    trials.judge(name, meeting)
    trials.tell()


def _try_refinements(trials: Trials, best: Plan) -> None:
    """Move the rows of the best plan, and of the others, until the time is up."""
    request = trials.request
    needs = refinement_needs(request)
    deadline = trials.deadline
    if request.time_limit is not None:
        too_much = why_too_much(needs, trials.left, trials.overdue)
        if too_much is not None:
            trials.leave_out("refined directly", "too-much", too_much)
            return
        deadline = deadline.before(seconds_for(needs.last))
    weights = _weights_to_refine(best)
    others = sorted(trials.plans, key=lambda plan: plan.certificate.achieved)
    ranked = (best, *(plan for plan in others if plan is not best))
    rows = [_unit_rows(plan) for plan in ranked if _can_be_listed(plan)]
    # A step that goes too far ends in numbers that are not finite, and is taken back.
    with threads.for_matrices_of(request.workload.shape[1]), np.errstate(all="ignore"):
        for how, propose in refinements(request, rows, weights, deadline):
            trials.judge(how, partial(_refined, best, request, how, propose))
            trials.tell()


def _weights_to_refine(plan: Plan) -> Array:
    """The weights of the queries for whose total a plan's strategy was chosen."""
    w, p = plan.objective.weights(plan.workload), plan.witness.p
    if p is None or plan.objective.kind == "largest" or isinstance(plan.witness, ProductWitness):
        return w
    return w + p


def _refined(best: Plan, request: Request, how: str, propose: Callable[[], Proposed | None]) -> Plan | None:
    """The plan for rows that were made from those of another, if there are any."""
    proposed = propose()
    if proposed is None:
        return None
    witness = best.witness
    q = witness if isinstance(witness, ProductWitness) else witness.q
    found = SearchResult(
        proposed.proposal, q, "heuristic", f"{best.note}, {how}", proposed.ended, p=witness.p
    )
    return plan_of(best.method, best.options, request, best.has_goal, found)


def _can_be_listed(plan: Plan) -> bool:
    strategy = plan.fixed_strategy()
    return strategy.n_measured * strategy.n_cells <= MAX_DENSE_STRATEGY


def _unit_rows(plan: Plan) -> Array:
    """The rows that a plan measures, as floats of sensitivity 1."""
    strategy = plan.fixed_strategy()
    return np.asarray(strategy.dense().astype(float) / float(max(strategy.sensitivity, 1)))
