"""Laplace noise, for which no method is optimal: several are tried, and the best plan is refined.

Plans are compared by their exact expected error. Which methods are tried, in which order and for how long
comes first; then what came of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from leastnoise.bounds import ProductWitness, Witness
from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.core.resources import seconds_for, threads_for_matrices_of, why_too_much
from leastnoise.planning.method import Method, Request, SearchResult
from leastnoise.planning.one_method import meeting_caps, plan_of
from leastnoise.planning.patience import NOMINAL_SPEED
from leastnoise.planning.plan import Plan
from leastnoise.planning.refinement import (
    Proposed,
    is_span_first,
    may_refine,
    refinement_needs,
    refinements,
    within_span,
)
from leastnoise.planning.trials import SHARE, Trials
from leastnoise.query import Targets
from leastnoise.strategy import MAX_DENSE_STRATEGY

# Seconds that measuring every query may take where nobody set a time limit, up to FREE_CELLS cells; beyond,
# in proportion to them. They are reckoned from sizes, not measured, and it cannot be stopped.
FREE_SECONDS = 10.0

# Cells up to which it may take FREE_SECONDS.
FREE_CELLS = 256

# Methods that search for long and are tried all the same, with the options that each is given for few cells.
_SEARCHES: dict[str, dict[str, Any]] = {"p-identity": {}, "lowrank": {"max_iterations": 50}}

# Cells. Up to this number searches are given the options above; beyond, they keep their own.
_WITH_OPTIONS_CELLS = 256

# Cells. The low-rank mechanism is tried up to this number: 0.5 s for 8; 6 s for 64, then far from the best.
_LOWRANK_CELLS = 16

# Cells per query. From this ratio on the low-rank mechanism is tried too: few queries span few directions,
# which is what it is made for and what strategies that measure every cell waste most on.
_LOWRANK_SHARE = 4

# Coefficients of all queries. Beyond this number it is not: 30 ranges over 1,024 cells take it 9 s, and the
# search within what they span is ahead of it.
_LOWRANK_COEFFICIENTS = 2**13

# Tried last: where it takes longest, it is behind.
_LAST = "weighted-basis"

# Methods for products with Laplace noise: what they measure includes every cell, and every table asked.
_OF_PRODUCTS = ("product", "marginals")

# Cells. Beyond this number other methods are not tried beside them, where nobody set a time limit: all pairs
# of 8, 6, 5 and 4 values end at 4,333 after 6 s, and as weighted tables at 4,261 after 0.4 s.
_BESIDE_PRODUCTS = 768

# Where caps are to be met, p-identity is first asked for this much: all ranges of 256 cells, 32,896
# queries, take 4 s and come within 2 % of what a search of minutes reaches. Its 24 starts alone take longer.
FEW: dict[str, Any] = {"starts": 4, "iterations": 200, "workers": 1}

# Coefficients of all queries. Beyond this number measuring every query is not quick: 8.4 million take 14 s,
# without a pause in which a time limit could be looked at.
_QUICK_COEFFICIENTS = 2**20


def methods_to_try(methods: Iterable[Method], request: Request) -> list[Method]:
    """The methods that serve a request: quick ones and those that search; slow ones if there is no other."""
    m, n = request.workload.shape
    tried = [method for method in methods if not (method.is_data_dependent or method.is_only_named)]
    willing = [method for method in tried if request.unfit(method) is None]
    quick = [method for method in willing if method.is_quick]
    is_low_rank = n <= _LOWRANK_CELLS or (_LOWRANK_SHARE * m <= n and m * n <= _LOWRANK_COEFFICIENTS)
    searches = [
        method for method in willing if method.name in _SEARCHES and (method.name != "lowrank" or is_low_rank)
    ]
    return quick + [method for method in searches if method not in quick] or willing


def takes_too_long(method: Method, methods: Sequence[Method], request: Request) -> bool:
    """Whether a method is left out where nobody set a time limit and there is a plan.

    Of many cells, methods over single ones are left out where tables of rows serve; so is measuring every
    query where that takes longer than searches do.
    """
    n = request.workload.shape[1]
    if request.time_limit is not None:
        return False
    if _is_long_list(method, request):
        needs = request.needs(method)
        return needs.first + needs.last > FREE_SECONDS * max(1.0, n / FREE_CELLS) * NOMINAL_SPEED
    is_over_cells = n > _BESIDE_PRODUCTS and method.name not in _OF_PRODUCTS
    return is_over_cells and any(one.name in _OF_PRODUCTS for one in methods)


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


def in_turn(methods: Sequence[Method], request: Request) -> list[tuple[str, Method, dict[str, Any]]]:
    """The methods in the order in which they are tried, each with what a plan calls it, and its options.

    Quick ones come first, then searches, then what takes longest. Where caps are to be met, a short search
    comes before long ones.
    """
    turns = []
    for method in methods:
        options = options_for(method, request)
        is_last = method.name == _LAST or _is_long_list(method, request)
        turns.append((3 if is_last else 0 if method.is_quick else 2, method.name, method, options))
        if method.name == "p-identity" and request.objective.kind != "total":
            short = {**FEW, **options}
            turns.append((1, f"{method.name} from {short['starts']} starts", method, short))
    return [(name, method, options) for _, name, method, options in sorted(turns, key=lambda turn: turn[0])]


def _is_long_list(method: Method, request: Request) -> bool:
    """Whether a method measures every query, and these are too many to be quick."""
    return method.name == "workload" and math.prod(request.workload.shape) > _QUICK_COEFFICIENTS


def options_for(method: Method, request: Request) -> dict[str, Any]:
    """The options with which a method is tried: its own, and of those asked for the ones it has."""
    is_small = request.workload.shape[1] <= _WITH_OPTIONS_CELLS
    own = _SEARCHES.get(method.name, {}) if is_small else {}
    return {**own, **{name: value for name, value in request.options.items() if name in method.options}}


def best_with_laplace_noise(methods: Iterable[Method], request: Request) -> Plan:
    """The best plan of several methods and of what refining it directly gives; it lists them all.

    Where targets must be met and no method meets them, the least common factor on them is sought as well, as
    `Targets` asks for it: what the one finds, the other does not refuse.

    Raises:
        MethodError: if no method meets the targets.
        DesignError: the first method's, if none finds a plan; what they take, if all take too much.
    """
    trials = Trials(request)
    return trials.result_of(_turns(trials, methods_to_try(methods, request)))


def _turns(trials: Trials, willing: Sequence[Method]) -> Iterator[Callable[[], None]]:
    """Try the methods in turn, then noise that misses the targets by the least factor, then refining."""
    request = trials.request
    if willing:
        check_options(willing, request)
    is_span_due = is_span_first(request)
    for name, method, options in in_turn(willing, request):
        if is_span_due and trials.plans and trials.left > 0 and not method.is_quick:
            is_span_due = False
            yield partial(_try_refinements, trials, within_span)
        if (trials.plans or trials.missed) and takes_too_long(method, willing, request):
            trials.leave_out(name, "too-long")
        else:
            yield partial(trials.run, method, SHARE, name=name, options=options)
    if trials.missed and not trials.plans:
        yield partial(_try_common_factor, trials, willing)
    if trials.plans and may_refine(request):
        weights = _weights_to_refine(trials.best())
        yield partial(_try_refinements, trials, partial(refinements, weights=weights))


def _try_common_factor(trials: Trials, willing: Sequence[Method]) -> None:
    """Look for noise that misses the targets by the least factor, which may turn out to be none."""
    request, name = trials.request, "the least common factor"
    if trials.left <= 0:
        trials.leave_out(name, "no-time")
        return
    asked = replace(request, objective=Targets(), time_limit=trials.deadline.left, progress=trials.tell)

    def meeting() -> Plan:
        closest = best_with_laplace_noise(willing, asked)
        return meeting_caps(replace(closest, objective=request.objective))

    trials.judge(name, meeting)
    trials.tell()


# Proposals made from rows so far, until a deadline.
_Refine = Callable[[Request, Sequence[Array], Deadline], Iterable[tuple[str, Callable[[], Proposed | None]]]]


def _try_refinements(trials: Trials, refine: _Refine) -> None:
    """Move the rows of the best plan, and of the others."""
    if trials.left <= 0:
        trials.leave_out("refined directly", "no-time")
        return
    best = trials.best()
    request = replace(trials.request, known=best.certificate.achieved)
    needs = refinement_needs(request)
    deadline = trials.deadline
    if request.time_limit is not None:
        too_much = why_too_much(needs, trials.left, trials.overdue)
        if too_much is not None:
            trials.leave_out("refined directly", "too-much", too_much)
            return
        deadline = deadline.before(seconds_for(needs.last))
    others = sorted(trials.plans, key=lambda plan: plan.certificate.achieved)
    ranked = (best, *(plan for plan in others if plan is not best))
    rows = [_unit_rows(plan) for plan in ranked if _can_be_listed(plan)]
    # A step that goes too far ends in numbers that are not finite, and is taken back.
    with threads_for_matrices_of(request.workload.shape[1]), np.errstate(all="ignore"):
        for how, propose in refine(request, rows, deadline):
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
    q = witness.q if isinstance(witness, Witness) else witness
    found = SearchResult(
        proposed.proposal, q, "heuristic", f"{best.note}, {how}", proposed.ended, p=witness.p
    )
    return plan_of(best.method, best.options, request, found)


def _can_be_listed(plan: Plan) -> bool:
    strategy = plan.fixed_strategy()
    return strategy.n_measured * strategy.n_cells <= MAX_DENSE_STRATEGY


def _unit_rows(plan: Plan) -> Array:
    """The rows that a plan measures, as floats of sensitivity 1."""
    strategy = plan.fixed_strategy()
    return np.asarray(strategy.dense().astype(float) / float(max(strategy.sensitivity, 1)))
