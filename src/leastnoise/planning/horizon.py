"""A plan over many periods, and the part of it that is due by one of them.

The part is a plan like any other: the queries that are due, and the rows that they are answered from. It
spends no more than the plan of all periods, is never charged by itself, and its proof is that of all periods.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from leastnoise.core.errors import DesignError, InputError
from leastnoise.planning.plan import Plan
from leastnoise.query import due_by, due_of_batches


def n_periods(plan: Plan) -> int:
    """How many periods a plan has.

    Raises:
        InputError: if it was not designed to be published period by period.
    """
    return len(period_labels(plan))


def period_labels(plan: Plan) -> tuple[str, ...]:
    """What the periods of a plan are called, in order."""
    if plan.over is None or plan.workload.schema is None:
        raise InputError(
            "this plan is not published period by period",
            field="plan",
            remedy='design it with over=, as in design(workload, privacy, over="month")',
        )
    values = plan.workload.schema[plan.over]
    return tuple(values.label(i) for i in range(values.n_values))


def ends_of_rows(plan: Plan) -> Any:
    """The number of the period after which each integer of a plan can be measured, (n_measured,)."""
    assert plan.over is not None
    return plan.fixed_strategy().last_periods(plan.workload, plan.over)


def n_due(plan: Plan) -> list[int]:
    """How many queries are due in each period."""
    assert plan.over is not None
    due = np.concatenate(due_of_batches(plan.workload, plan.over))
    return np.bincount(due, minlength=n_periods(plan)).tolist()


def plan_through(plan: Plan, period: int) -> Plan:
    """The part of a plan that is due by a period: its queries, answered from the rows that end by then.

    Raises:
        InputError: if there is no such period, or no query is due by it.
        DesignError: if those rows do not answer those queries.
    """
    labels = period_labels(plan)
    if type(period) is not int or not 0 <= period < len(labels):
        raise InputError.must("period", f"be a number from 0 to {len(labels) - 1}", given=period)
    assert plan.over is not None
    workload = due_by(plan.workload, plan.over, period)
    if workload is None:
        first = labels[next(i for i, number in enumerate(n_due(plan)) if number)]
        raise InputError(
            f"no query is due by {labels[period]}; the first are due in {first}",
            field="period",
            given=labels[period],
        )
    strategy = plan.fixed_strategy().through(plan.workload, plan.over, period)
    if not strategy.can_answer_all(workload):
        raise DesignError(
            "the rows that are measured by then do not answer the queries that are due", field="over"
        )
    return replace(plan, workload=workload, strategy=strategy, horizon=plan, period=period)
