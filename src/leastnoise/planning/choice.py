"""`design`: the method that was named, or the one that serves best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leastnoise.core.progress import Progress
from leastnoise.planning.laplace_search import best_with_laplace_noise, methods_to_try
from leastnoise.planning.method import Request
from leastnoise.planning.method_list import all_methods, in_order, method_named
from leastnoise.planning.one_method import plan_by, plan_from_search
from leastnoise.planning.plan import Plan
from leastnoise.planning.refusals import MissesTargets, Reasons, closest_of, nobody_can
from leastnoise.planning.request import checked_request
from leastnoise.privacy import Goal
from leastnoise.query import Objective, Workload

# Where the optimum takes too much, wavelets and trees are taken before noise on every cell or query.
_LAST_RESORTS = ("identity", "workload")


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
            "auto" takes about 10 up to 256 cells unless given, and more in proportion beyond; where
            targets are to be met, the search for them has as much again.
        backend: "numpy", "torch" or "cuda".
        progress: called with a `Progress` after every step.

    The same request gives the same plan again, digest included, on the same machine, with the same versions
    of the libraries and one thread for linear algebra, unless a time limit ended the search: `Plan.ended`
    says so. Keep the plan, not the request, where the same noise is needed later.

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
    if request.privacy.noise.is_pure:
        return _best_of_several(request, has_goal)
    return _first_that_can(request, has_goal)


def _best_of_several(request: Request, has_goal: bool) -> Plan:
    reasons = Reasons(request)
    willing = methods_to_try(in_order(request), reasons)
    if not willing:
        raise nobody_can(all_methods(), reasons)
    return best_with_laplace_noise(willing, reasons, has_goal)


def _first_that_can(request: Request, has_goal: bool) -> Plan:
    """The plan of the first method in order that serves the request.

    For Gaussian noise that is the optimum, or comes closest to it. Later ones are not even asked.
    """
    missed: list[MissesTargets] = []
    left_out: dict[str, str] = {}
    reasons = Reasons(request)
    waiting = in_order(request)
    while (candidate := next(waiting, None)) is not None:
        if candidate.is_data_dependent or reasons.unfit(candidate) is not None:
            continue
        reason = reasons.too_much(candidate)
        if reason is not None:
            left_out[candidate.name] = reason
            waiting = iter(sorted(waiting, key=lambda method: method.name in _LAST_RESORTS))
            continue
        try:
            return plan_from_search(candidate, request, has_goal, left_out)
        except MissesTargets as error:
            missed.append(error)
    if not missed:
        raise nobody_can(all_methods(), reasons)
    raise closest_of(missed)
