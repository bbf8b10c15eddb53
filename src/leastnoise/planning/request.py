"""What `design` was asked, checked; and what earlier plans leave in every cell, exactly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from leastnoise.core.errors import DesignError, InputError, NotYetError, PrivacyError
from leastnoise.core.printable import counted, printable
from leastnoise.core.progress import Progress
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.planning.method import Request
from leastnoise.planning.patience import Patience
from leastnoise.planning.plan import Plan, cells_digest, summed_costs
from leastnoise.privacy import GAUSSIAN, ZCDP, CellCosts, Goal, LeastLoss, shown
from leastnoise.query import Objective, Targets, Workload, check_spanned, check_time, default_objective
from leastnoise.solver import BACKENDS, load_backend

# The gap to the proven optimum that is aimed at unless another is asked for.
TOL = 1e-6


def checked_request(
    workload: Workload,
    privacy: Goal | LeastLoss | None,
    objective: Objective | None,
    options: Mapping[str, Any] | None,
    after: Sequence[Plan],
    over: str | None,
    tol: float | None,
    time_limit: float | None,
    backend: str,
    progress: Callable[[Progress], None] | None,
) -> Request:
    """What `design` was asked, after checking that it means something.

    Raises:
        InputError: naming what does not.
    """
    _check_types(workload, privacy)
    least, privacy = _least_loss(privacy, after)
    aim = TOL if tol is None else tol
    _check_settings(aim, time_limit, backend)
    used = used_before(after, workload, privacy)
    if used is not None and privacy is None:
        privacy = goal_spent(used, after[0].privacy.records_per_person)
    chosen = default_objective(workload, objective, has_goal=privacy is not None)
    if privacy is None and not isinstance(chosen, Targets):
        raise InputError(
            "design() needs a privacy goal, as in design(workload, ApproxDP(epsilon=1, delta=1e-6)), or "
            "targets that say how much accuracy is enough, as in Total(stderr=50), and no other objective",
            field="privacy",
        )
    check_spanned(workload, chosen)
    if chosen.kind == "absolute" and privacy is not None and privacy.noise != GAUSSIAN:
        raise DesignError(
            "the expected absolute error of an answer follows from its standard error for Gaussian noise "
            "only, and pure privacy takes Laplace noise",
            field="objective",
            given=chosen,
            remedy="use ApproxDP, ZCDP or GDP in place of PureDP, or objective=TotalVariance()",
        )
    if over is not None:
        check_time(workload, over)
    # Without a goal only the shape of the noise is sought, at any budget.
    goal = least.unit_goal if privacy is None else privacy
    if over is not None:
        _check_period_by_period(goal, after)
    request = Request(
        workload=workload,
        privacy=goal,
        options=dict(options or {}),
        tol=aim,
        time_limit=time_limit,
        backend=backend,
        progress=progress,
        objective=chosen,
        after=tuple(plan.digest for plan in after),
        used=used,
        over=over,
        least=least,
        # Who names a gap or a time gets it.
        patience=Patience(aim) if tol is None and time_limit is None else None,
        has_goal=privacy is not None,
    )
    if request.spare is not None:
        check_spare(workload, goal, request.spare)
    return request


def _check_types(workload: Workload, privacy: Goal | LeastLoss | None) -> None:
    if not isinstance(workload, Workload):
        raise InputError(
            f"design() needs a Workload from assemble(), got {type(workload).__name__}",
            field="workload",
            given=type(workload),
        )
    if privacy is not None and not isinstance(privacy, (Goal, LeastLoss)):
        raise InputError.must("privacy", "be PureDP, ApproxDP, ZCDP, GDP or LeastLoss", given=type(privacy))


def _least_loss(privacy: Goal | LeastLoss | None, after: Sequence[Plan]) -> tuple[LeastLoss, Goal | None]:
    """For whom the least loss is sought where there is no goal; and the goal."""
    if not isinstance(privacy, LeastLoss):
        return LeastLoss(), privacy
    if after:
        raise InputError(
            "after other plans the loss is what they spend together",
            field="privacy",
            remedy="leave LeastLoss out, or give a goal for all plans together",
        )
    return privacy, None


def _check_period_by_period(goal: Goal, after: Sequence[Plan]) -> None:
    """Refuse goals for which nobody has shown that periods may be published one after the other.

    Raises:
        NotYetError: saying which.
    """
    if goal.noise != GAUSSIAN:
        raise NotYetError(
            "period by period, rows are rotated into the order of time, which only Gaussian noise allows",
            field="over",
            remedy="use ApproxDP, ZCDP or GDP in place of PureDP",
        )
    if not goal.relation.adds_by_cell:
        raise NotYetError(
            "period by period, the guarantee is shown for records that are added or removed, not replaced",
            field="over",
            remedy='use neighbours="add-remove"',
        )
    if after:
        raise NotYetError(
            "a plan that is published period by period cannot come after others yet",
            field="over",
            remedy="give it a goal of its own",
        )


def _check_settings(tol: float, time_limit: float | None, backend: str) -> None:
    """Return if a search can be run with these.

    Raises:
        InputError: naming what is wrong.
        MissingExtraError: if the backend is not installed.
    """
    for name, number in (("tol", tol), ("time_limit", time_limit)):
        if number is not None and (not isinstance(number, (int, float)) or isinstance(number, bool)):
            raise InputError.must(name, "be a number", given=type(number))
    if not 0 < tol < math.inf:
        raise InputError.must("tol", "be a positive number", given=tol)
    if time_limit is not None and not time_limit > 0:
        raise InputError.must("time_limit", "be a positive number of seconds", given=time_limit)
    if backend not in BACKENDS:
        raise InputError.must("backend", f"be one of {', '.join(BACKENDS)}", given=backend)
    if backend != "numpy":
        load_backend(backend)  # a missing one is found before a long search


# A ledger takes no more.
_MOST_AFTER = 1_000

# A cell with less than this share of the goal left is full: what counts it would have a thousand times the
# noise that the goal alone asks for. A search that fills cells leaves 1e-10 to 2e-7 of rounding.
_FULL = Fraction(1, 10**6)

# Cells and batches named in a message.
_NAMED = 4


def used_before(after: Sequence[Plan], workload: Workload, privacy: Goal | None) -> CellCosts | None:
    """What earlier plans spend together in every cell, exactly; None if there are none.

    Guarantee:
        Add/remove neighbours, Gaussian noise, the same frozen cells: the tables x and x ± e_i are told
        apart no better than by μ² = Σ_r u_i^(r). Every plan counts as often as it is listed.

    Raises:
        InputError: if something in the list is no plan, or they are too many.
        PrivacyError: if the plans do not add up cell by cell.
    """
    if isinstance(after, Plan) or not isinstance(after, Sequence):
        raise InputError.must("after", "be a list of plans, as in [plan]", given=type(after))
    for plan in after:
        if not isinstance(plan, Plan):
            raise InputError.must("after", "list plans from design()", given=type(plan))
    if not after:
        return None
    if len(after) > _MOST_AFTER:
        raise InputError(
            f"a plan may come after at most {_MOST_AFTER:,} others, got {len(after):,}",
            field="after",
            given=len(after),
        )
    _check_same_terms(after, privacy)
    return summed_costs(_costs_of_each(after, workload))


def _check_same_terms(after: Sequence[Plan], privacy: Goal | None) -> None:
    """Return if all plans, and the goal, are about the same neighbours, noise and number of records.

    Raises:
        PrivacyError: naming the first that is not.
    """
    k = after[0].privacy.records_per_person
    for number, goal in enumerate([*(plan.privacy for plan in after), *([privacy] if privacy else [])], 1):
        what = f"plan {number} of after" if number <= len(after) else "the goal"
        if not goal.relation.adds_by_cell:
            raise PrivacyError(
                f"{what} is for {goal.neighbours} neighbours; what plans leave in each cell is known where "
                "records are added or removed. Design one plan for all queries instead",
                field="neighbours",
                given=str(goal.neighbours),
            )
        if goal.noise != GAUSSIAN:
            raise PrivacyError(
                f"{what} is for {goal.noise} noise; only Gaussian releases add up as ",
                Argument("after"),
                " needs. ",
                Remedy("Design one plan for all queries instead"),
                field="after",
            )
        if goal.records_per_person != k:
            raise PrivacyError(
                f"{what} is for {counted(goal.records_per_person, 'record')} per person, plan 1 of after for "
                f"{k}; plans add up cell by cell where they count the same number",
                field="after",
            )


def _costs_of_each(after: Sequence[Plan], workload: Workload) -> list[CellCosts]:
    """What every plan spends in the cells of the workload.

    Raises:
        PrivacyError: if that is not known, or a plan comes after others that are not listed.
    """
    cells = cells_digest(workload)
    listed = Counter(plan.digest for plan in after)
    costs: list[CellCosts] = []
    for number, plan in enumerate(after, 1):
        if plan.charge.cells != cells:
            raise PrivacyError(
                f"plan {number} of after is about other cells",
                field="after",
                given=number,
                remedy="design it and this one for the same schema",
            )
        if plan.charge.per_cell is None:
            raise PrivacyError(
                f"plan {number} of after has more cells than can be listed, and what it leaves in each is "
                "not known",
                field="after",
                given=number,
                remedy="design one plan for all queries instead",
            )
        missing = Counter(plan.after) - listed
        if missing:
            raise PrivacyError(
                f"plan {number} of after comes after {counted(missing.total(), 'plan')} not listed here",
                field="after",
                given=number,
                remedy="list every plan that is released before this one",
            )
        costs.append(plan.charge.per_cell)
    return costs


def goal_spent(used: CellCosts, k: int) -> Goal:
    """The goal that earlier plans use up in the worst cell, exactly.

    As ρ = μ²/2, which is rational where μ need not be. Nothing rounded would do: a hair more would
    not be free, a hair less would refuse the plans that are there.
    """
    if not used.largest:
        raise PrivacyError(
            "the earlier plans spend nothing, so nothing is free after them",
            field="after",
            remedy="give a goal",
        )
    return ZCDP(used.largest * k * k / 2, records_per_person=k)


def check_spare(workload: Workload, goal: Goal, spare: CellCosts) -> None:
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
            f"{counting} {cells}. Give a larger goal, or design one plan for all queries",
            field="after",
        )
    raise DesignError(
        f"{counting} cells in which the earlier plans leave nothing within μ² = {allowed} per person for all "
        f"plans together: {cells}. Leave those cells out, as with Where(), or give a larger goal",
        field="after",
    )


def _few(names: Sequence[str], count: int) -> str:
    """The first few names, and how many more there are up to `count`."""
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
