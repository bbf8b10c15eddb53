"""How answers and their errors run over time, for plans that are published period by period.

The series of a batch are its answers along the attribute of time, each in the period in which it is due.
Beside the standard errors of the plan stand those of releases that are made each by itself at the same total
privacy: each puts noise on the cells of its own period, which no other release counts, and whatever reaches
back is added up from them. Their standard error of a query w is ‖w‖/μ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.core.printable import counted
from leastnoise.planning import Plan, period_labels
from leastnoise.query import QueryBlock, due_of_batches
from leastnoise.release import Release
from leastnoise.report.batches import AnswerList, DrawnView, ListedRow
from leastnoise.report.charts.pictures import Series, line_chart
from leastnoise.report.figures import decimals_for, figure, number, outward

# Lines of one picture.
_MAX_LINES = 4

# Batches that are drawn, or told of in a text.
_MAX_BATCHES = 12

# Queries up to which all standard errors are worked out for it.
_MAX_QUERIES = 200_000


@dataclass(frozen=True, eq=False)
class ErrorsOverTime:
    """The standard errors of one batch in each period in which something of it is due: root mean squares.

    Attributes:
        name: that of the batch.
        periods: what these periods are called.
        together: of the plan.
        apart: of releases that are made period by period, each by itself, at the same total privacy.
    """

    name: str
    periods: tuple[str, ...]
    together: Array
    apart: Array

    @property
    def factor(self) -> float:
        """How many times as large they are in the last period if releases are made each by itself."""
        return float(self.apart[-1] / self.together[-1])

    def to_text(self) -> str:
        """The errors of the last period beside those of releases each by itself, and the factor."""
        last = self.periods[-1]
        return (
            f"{self.name}: std. error {figure(self.together[-1])} in {last}; {figure(self.apart[-1])}, "
            f"{self.factor:.2f} times as much, if each period were released by itself with the same total "
            "privacy"
        )


def errors_over_time(plan: Plan) -> list[ErrorsOverTime]:
    """The errors of every batch over time; [] for plans that are not over time, or too large for it."""
    whole = plan if plan.horizon is None else plan.horizon
    if whole.over is None or whole.workload.shape[0] > _MAX_QUERIES:
        return []
    labels, stderr = period_labels(whole), np.asarray(whole.known_stderr())
    # All that one record may spend over all periods, which is what each period by itself may spend on it.
    unit = 1 / math.sqrt(whole.spent_per_person) * whole.privacy.records_per_person
    found, start = [], 0
    for block, due in zip(whole.workload.blocks, due_of_batches(whole.workload, whole.over), strict=True):
        own = stderr[start : start + block.n_rows]
        start += block.n_rows
        norms = unit * block.operator.row_norms()
        when = np.unique(due).tolist()
        if len(when) > 1:
            found.append(
                ErrorsOverTime(
                    block.name,
                    tuple(labels[period] for period in when),
                    np.array([_rms(own[due == period]) for period in when]),
                    np.array([_rms(norms[due == period]) for period in when]),
                )
            )
    return found


def error_lines(plan: Plan) -> list[str]:
    """What is said of errors over time in a text."""
    return [f"{own.to_text()}." for own in errors_over_time(plan)[:_MAX_BATCHES]]


def error_pictures(plan: Plan) -> list[tuple[str, DrawnView]]:
    """A picture of errors over time for each batch, and what is said of it."""
    found = []
    for own in errors_over_time(plan)[:_MAX_BATCHES]:
        names = ("this plan", "each period released by itself")
        series = [
            Series(name, values, None, None, [f"{name}: {figure(value)}" for value in values])
            for name, values in zip(names, (own.together, own.apart), strict=True)
        ]
        chart = line_chart(series, own.periods, f"Standard errors of {own.name} over time, two lines.")
        notes = ("Standard errors over time, at the same total privacy",)
        rows = [
            (label, (figure(ours), figure(theirs)))
            for label, ours, theirs in zip(own.periods, own.together, own.apart, strict=True)
        ]
        numbers = _numbers(own.name, names, rows)
        found.append((own.to_text(), DrawnView(own.name, chart, notes, numbers, names)))
    return found


def answer_pictures(release: Release, level: float) -> list[DrawnView]:
    """The series of each batch with its bands and the period of the release marked; [] where it is of none.

    Answers that are suppressed or rounded for publication are not drawn.
    """
    plan = release.plan
    if plan.over is None or plan.period is None or release.presented is not None:
        return []
    lower, upper = release.interval(level)
    drawn, start = [], 0
    due = due_of_batches(plan.workload, plan.over)
    for block, own in zip(plan.workload.blocks, due, strict=True):
        rows = slice(start, start + block.n_rows)
        start = rows.stop
        ends = (lower[rows], upper[rows])
        view = _series(plan, block, own, release.answers[rows], ends, level)
        if view is not None:
            drawn.append(view)
    return drawn[:_MAX_BATCHES]


def _series(
    plan: Plan, block: QueryBlock, due: Array, answers: Array, ends: tuple[Array, Array], level: float
) -> DrawnView | None:
    """The picture of one batch; None where it has no such series, or too many."""
    found = _lines(plan, block, due)
    if found is None:
        return None
    names, order = found
    labels = [period_labels(plan)[int(due[row])] for row in order[:, 0]]
    series = []
    decimals = decimals_for((ends[1] - ends[0]) / 2)
    for name, rows in zip(names, order.T, strict=True):
        own = "" if len(names) == 1 else f"{name}: "
        titles = [
            f"{own}{number(answers[row], decimals)}, {level:.0%} from "
            f"{' to '.join(outward(ends[0][row], ends[1][row], decimals))}"
            for row in rows
        ]
        series.append(Series(name, answers[rows], ends[0][rows], ends[1][rows], titles))
    now = period_labels(plan)[int(plan.period or 0)]
    marked = labels.index(now) if now in labels else None
    description = f"Line chart of {block.name} over time with {level:.0%} bands; this period is {now}."
    notes = (f"This period, {now}, is marked", f"the bands are {level:.0%} intervals")
    figures = [
        (label, tuple(number(answers[row], decimals) for row in rows))
        for label, rows in zip(labels, order, strict=True)
    ]
    numbers = _numbers(block.name, names, figures)
    chart = line_chart(series, labels, description, marked=marked)
    return DrawnView(block.name, chart, notes, numbers, tuple(names) if len(names) > 1 else ())


def _lines(plan: Plan, block: QueryBlock, due: Array) -> tuple[list[str], Array] | None:
    """What the lines of a batch are called, and its rows, (periods, lines); None where it has none."""
    schema = plan.workload.schema
    assert schema is not None
    terms = block.query.terms(schema)
    if len(terms) != 1:
        return None
    factors = terms[0]
    place = next((i for i, factor in enumerate(factors) if factor.attributes == (plan.over,)), None)
    if place is None:
        return None
    shape = [factor.operator.shape[0] for factor in factors]
    order = np.moveaxis(np.arange(block.n_rows).reshape(shape), place, 0).reshape(shape[place], -1)
    if len(order) < 2 or order.shape[1] > _MAX_LINES or (np.diff(due[order[:, 0]]) <= 0).any():
        return None
    others = [factor for i, factor in enumerate(factors) if i != place]
    names = [", ".join(labels) for labels in product(*(factor.labels for factor in others))]
    return names if others else [block.name], order


def left_out(release: Release, drawn: list[DrawnView]) -> str:
    """How many batches have no picture, as a text; "" where all have one."""
    rest = len(release.plan.workload.blocks) - len(drawn)
    return counted(rest, "further table") if rest else ""


def _numbers(name: str, heads: Sequence[str], rows: Sequence[tuple[str, tuple[str, ...]]]) -> AnswerList:
    """The numbers of a picture, a row for each period."""
    columns = (("period", ""), *((head, "number") for head in heads))
    listed = tuple(ListedRow(label, figures) for label, figures in rows)
    n = counted(len(rows), "period")
    return AnswerList(name, columns, listed, False, f"{len(rows):,}", n, is_cut=False)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))
