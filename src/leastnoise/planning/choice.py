"""`design`: the method that was named, or the one that serves best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from leastnoise.core.progress import Progress, gap_to_text
from leastnoise.core.progress_bar import Told, progress_shown
from leastnoise.core.steps import log_step
from leastnoise.planning.families.dense import DENSE
from leastnoise.planning.families.joint import JOINT
from leastnoise.planning.families.marginals import MARGINALS
from leastnoise.planning.families.product import PRODUCT
from leastnoise.planning.families.product_requests import refuse_unstructured
from leastnoise.planning.families.residuals import RESIDUALS, has_shared_axis
from leastnoise.planning.groups import GROUPS
from leastnoise.planning.laplace_search import best_with_laplace_noise, methods_to_try
from leastnoise.planning.method import Method, Request
from leastnoise.planning.method_list import FREE_OPERATIONS, SEARCHES, SMALL, in_order, method_named
from leastnoise.planning.one_method import plan_by
from leastnoise.planning.patience import SMALL_GAP
from leastnoise.planning.plan import Plan
from leastnoise.planning.request import checked_request
from leastnoise.planning.trials import SHARE, Trials
from leastnoise.privacy import Goal, LeastLoss
from leastnoise.query import Cases, Objective, TotalVariance, Where, Workload, classes_of, states_in

# Of the operations that a certified optimum may take without a time limit, the share that a further method
# may take where there is a plan: running sums along both axes of 256 by 256 cells need half of it, a union
# over 800,000 cells, which took minutes for a slightly better plan, more.
_SHARE_TO_JOIN = 0.5


def design(
    workload: Workload,
    privacy: Goal | LeastLoss | None = None,
    *,
    objective: Objective | None = None,
    method: str = "auto",
    options: Mapping[str, Any] | None = None,
    after: Sequence[Plan] = (),
    over: str | None = None,
    tol: float | None = None,
    time_limit: float | None = None,
    backend: str = "numpy",
    progress: Told[Progress] = None,
) -> Plan:
    """The plan with the least noise for a workload and a privacy goal. Never sees data.

    Args:
        workload: the queries to answer, from `assemble` or `Workload.from_matrix`.
        privacy: the privacy goal. It may be left out where queries have targets: the plan then spends the
            least μ that meets them all, `plan.privacy`. ``LeastLoss(delta=1e-6, records_per_person=3)`` also
            finds the least loss, states it as ε at this δ, and covers all records of a person. With ``after``
            the goal is for all those plans and this one together; left out, it is what they spend together
            already.
        objective: what to minimise: `TotalVariance()`, `MaxVariance()`, `AbsoluteError()` or `Targets()`. By
            default the total variance; where queries have targets, the total variance within them; where they
            have and no goal is given, the targets alone.
        method: "auto", or a name from `methods()`. "auto" tries the methods that can serve within the time
            until one is proved optimal, and keeps the best plan; under pure privacy, where no method is
            optimal, it also refines that plan. `Plan.tried` lists what each achieved.
        options: options of the method; `methods()` lists them.
        after: plans that were, or will be, released before this one about the same frozen table, listed once
            per release. The new plan uses what they leave in each cell. Without a goal it costs nothing in
            the worst case, and in the worst case only: people in cells with slack lose protection that they
            had. A ledger accepts it only if it holds releases of those plans. Needs Gaussian noise,
            add-remove neighbours, cells that can be listed, and method "dense".
        over: the time attribute, such as "month", whose values are in order. The plan covers all periods, and
            its rows are such that each period can be published when it ends (`open_stream`), at no loss of
            accuracy. Needs Gaussian noise, add-remove neighbours, and method "dense", "residuals", "joint" or
            "queries". None for a plan that is measured at once.
        tol: the relative gap to the proven optimum at which the search may stop; 1e-6 unless given. If
            neither this nor a time limit is given, a search whose gap is below 1 % also ends after about 20 s
            of work, counted in operations; `Plan.note` then says what going on would take.
        time_limit: seconds, after which the best plan so far is returned with its actual gap. None counts
            steps instead, so that a busy machine gives the same plan later; under pure privacy "auto" then
            takes some seconds up to 256 cells and about a minute for 2,000.
        backend: the library that does the linear algebra: "numpy", "torch" or "cuda".
        progress: called with a `Progress` after every step. By default a notebook
            shows a bar if this takes more than a second; ``False`` for none.

    The same request gives the same plan, digest included, on the same machine, with the same library versions
    and one thread for linear algebra, unless a time limit ended the search (`Plan.ended` says so). Keep the
    plan, not the request, if you need the same noise later.

    Raises:
        MethodError: if the method cannot serve the request; the message names those that can.
        InfeasibleError: if no noise meets the targets within the goal; it holds the proof.
        PrivacyError: if the plans in ``after`` cannot be combined with this one, or exceed the goal already.
        DesignError: if a query counts cells in which those plans leave nothing; the message names some of
            them.
    """
    with progress_shown(progress, "designing", _step_to_line) as tell:
        request = checked_request(
            workload, privacy, objective, options, after, over, tol, time_limit, backend, tell
        )
        log_step("design started", method=method)
        chosen = None if method == "auto" else method_named(method)
        request = over_classes(request, chosen)
        plan = best_plan(request) if chosen is None else plan_by(chosen, request)
        log_step("design ended", method=plan.method, ended=plan.ended)
        return plan


def _step_to_line(progress: Progress) -> tuple[str, None]:
    part = f" by {progress.part}" if progress.part else ""
    return f"designing{part}: step {progress.step:,}{gap_to_text(progress.gap)}", None


def best_plan(request: Request) -> Plan:
    """The plan of the method that serves best, with the noise that the goal allows."""
    if request.privacy.noise.is_pure:
        if request.unfit(GROUPS) is None and not methods_to_try(in_order(request), request):
            return plan_by(GROUPS, request)
        return best_with_laplace_noise(in_order(request), request)
    trials = Trials(request)
    if _is_for_groups(request):
        return trials.result_of([partial(trials.run, GROUPS, 1.0)])
    return trials.result_of(_gaussian_turns(trials))


def _gaussian_turns(trials: Trials) -> Iterator[Callable[[], None]]:
    """Try the methods that search for the optimum, and the others where none of those can serve.

    Without a time limit, what would take minutes is left out where there is a plan already.
    """
    request = trials.request
    has_first = request.workload.shape[1] > SMALL and not _is_closed(request)
    if has_first:
        yield trials.run_plain
    for are_searches, methods in groupby(in_order(request), lambda method: method.name in SEARCHES):
        if not are_searches and (trials.plans or trials.failed):
            break
        for method in methods:
            if method.is_data_dependent or request.unfit(method) is not None:
                continue
            if not trials.has_searched or _may_join(trials, method):
                yield partial(trials.run, method, _share(trials, method))
    if not has_first and trials.gap > _FAR:
        yield trials.run_plain
    if not trials.plans and not trials.missed and request.unfit(GROUPS) is None:
        # Conditions with too many classes of cells for all else, or for what is left of the time.
        yield partial(trials.run, GROUPS, 1.0)


# The gap above which a plan is compared with plain noise, if it was not yet.
_FAR = 0.01


def _is_closed(request: Request) -> bool:
    """Whether a method serves that ends at once, and at the optimum."""
    return any(request.unfit(method) is None for method in (PRODUCT, MARGINALS))


# Of the operations that a method says it takes, those that it takes as a rule where there is a plan already:
# `joint` ends after a tenth to a third of its steps on unions of three to seven tables.
_USUALLY = 1 / 3


def _may_join(trials: Trials, method: Method) -> bool:
    """Whether a method is tried though there is a plan; what is left out because it takes long is listed."""
    request = trials.request
    if not method.is_quick or not request.options.keys() <= method.options.keys():
        return False
    operations = request.needs(method).operations
    patience = request.patience
    is_enough = (
        patience is not None and trials.gap <= SMALL_GAP and not patience.leaves(_USUALLY * operations)
    )
    is_long = operations > _SHARE_TO_JOIN * FREE_OPERATIONS
    if request.time_limit is None and (is_long or is_enough):
        trials.leave_out(method.name, "too-long")
        return False
    return True


def _share(trials: Trials, method: Method) -> float:
    """The share of the time left for a method: all of it, unless one that may be better comes after it."""
    request = trials.request
    if request.time_limit is None or method.name not in (RESIDUALS.name, JOINT.name):
        return 1.0
    if method is RESIDUALS and has_shared_axis(request):
        # Nothing that comes after it is better than its optimum.
        return 1.0
    left = (1 - SHARE) * trials.left
    is_followed = any(
        request.unfit(later) is None and request.too_much(later, left) is None
        for later in (JOINT, DENSE)
        if later.name != method.name and not trials.has_tried(later.name)
    )
    return SHARE if is_followed else 1.0


# Cells from which on those that no query tells apart are looked for before anything else; with fewer, methods
# compare the columns themselves.
_MANY_CELLS = 20_000

# Of the cells, the share that classes may be: more gain nothing.
_WORTH_REDUCING = 0.5


def over_classes(request: Request, method: Method | None = None) -> Request:
    """The request over classes of cells that no query tells apart, where conditions leave few of many cells.

    Every size that decides which method serves is then the number of classes. Cross tables and ranges of
    single attributes are left as they are: their methods know them attribute by attribute. So are requests
    that the optimum over classes would take long to serve, and products would serve.

    Args:
        method: the one that was asked for; None where there is a choice.
    """
    workload, objective = request.workload, request.objective
    n = workload.shape[1]
    if n <= _MANY_CELLS or request.used is not None or request.over is not None:
        return request
    if isinstance(objective, TotalVariance) and objective.relative_to is not None:
        return request
    if not any(isinstance(block.query, Where | Cases) for block in workload.blocks):
        return request
    limit = None if request.time_limit is None else SHARE * request.time_limit
    classes = classes_of(workload, most_states=states_in(limit))
    if classes is None or classes.n > _WORTH_REDUCING * n:
        return request
    over = classes.reduced(workload)
    if over is None:
        return request
    left = request.deadline.left
    reduced = replace(request, workload=over, classes=classes, whole=workload, time_limit=left)
    if method is not None:
        return request if reduced.unfit(method) is not None else reduced
    if _takes_too_long(reduced) and _is_for_groups(request):
        return request
    return reduced if _is_served(reduced) or refuse_unstructured(request) is not None else request


# Coefficients of queries over classes that the optimum takes a second for, on one core: 26 conditions over
# 281,000 classes take 13 s, 46 over 362,000 take 18.
_COEFFICIENTS_PER_SECOND = 6e5


def _takes_too_long(reduced: Request) -> bool:
    """Whether the optimum over classes takes longer than there is."""
    if reduced.time_limit is None or reduced.privacy.noise.is_pure:
        return False
    return math.prod(reduced.workload.shape) > _COEFFICIENTS_PER_SECOND * reduced.time_limit


# Conditions that come near the optimum in groups, at most; of more, passes over all cells know more.
_FEW_CONDITIONS = 128


def _is_for_groups(request: Request) -> bool:
    """Whether conditions have too many classes of cells for what is left of the time, and groups have not."""
    few = request.workload.shape[0] <= _FEW_CONDITIONS and request.time_limit is not None
    is_large = _takes_too_long(request) and request.workload.shape[1] > _MANY_CELLS
    # Only then are the queries looked at as products.
    is_unreduced = few and is_large and request.classes is None and refuse_unstructured(request) is not None
    return is_unreduced and request.unfit(GROUPS) is None


def _is_served(reduced: Request) -> bool:
    """Whether the optimum over classes, or a search for Laplace noise, is found soon."""
    if reduced.privacy.noise.is_pure:
        return reduced.workload.shape[1] <= SMALL
    return reduced.unfit(DENSE) is None and reduced.needs(DENSE).operations <= FREE_OPERATIONS
