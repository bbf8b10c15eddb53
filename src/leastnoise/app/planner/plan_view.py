"""What the page shows of a plan and of a specification, as plain values that JSON holds.

Standard errors are those of the plan. The page turns them into ± at 95% and scales them with privacy: where
`is_scalable`, noise that is best for one budget is best for all (see `leastnoise.report.trade_off`), and
errors fall as one over `loss`, which is μ for Gaussian noise and ε for Laplace.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from leastnoise.app.planner.spec_edits import coarser, depth_of, level_names
from leastnoise.app.specification import Spec
from leastnoise.app.sql import queries_from_sql
from leastnoise.core.errors import PrivacyError
from leastnoise.planning import Plan
from leastnoise.privacy import (
    ZCDP,
    ApproxDP,
    Charge,
    Goal,
    Ledger,
    PureDP,
    epsilon_of,
    full_charge,
    goal_from_dict,
)
from leastnoise.query import Workload
from leastnoise.report import baselines, share_above, target_to_text

# Rows of one table whose standard errors travel with the view.
_MAX_CELLS = 400
# Rows of all tables together: a page holds at most a megabyte.
_MAX_CELLS_TOGETHER = 4_000
# People of whom nobody said how many there are, spread evenly over the rows of a table.
_INVENTED_PEOPLE = 10_000
# Releases that are counted one by one, at most.
_MOST_TIMES = 1000
# The δ at which ε is stated where the goal names none.
USUAL_DELTA = 1e-6
# A gap below this is shown as this: nobody decides by less.
_LEAST_GAP = 1e-5
# A gap above this is told as a factor.
_LITTLE_PROVED = 0.5
# How values of an attribute can be put together.
_FACTORS = (2, 5, 10)
# Names of regions that a choice lists, at most.
_MAX_NAMES = 4
# The factor by which a target is made wider to see what that buys.
_RELAX = 2.0

# Standard errors of one table: the least, the median, the largest, the root mean square.
Errors = tuple[float, float, float, float]


@dataclass(frozen=True)
class TableView:
    """One table of counts: how accurate it will be, and what was asked of it.

    Attributes:
        table: the number of its [[query]] in the file; None for the parts of a ratio.
        low, median, high: standard errors of its rows.
        target: the standard error asked for; None without one.
        is_running: whether its counts are running totals, whose first is the least: per cent is of that one.
        expected: the example value that the file holds; None without one.
        invented: a value that nobody gave, to say per cent of something.
        simple: the same with noise on each count, and on each cell: root mean squares; None if not known.
        rms: that of the plan.
        labels, errors: the first rows, and their standard errors.
    """

    name: str
    table: int | None
    n_rows: int
    attributes: tuple[str, ...]
    weight: float
    low: float
    median: float
    high: float
    rms: float
    target: float | None
    target_text: str
    within: float | str | None
    is_running: bool
    expected: float | None
    invented: float
    simple: tuple[float, float] | None
    labels: tuple[str, ...]
    errors: tuple[float, ...]


@dataclass(frozen=True)
class PlanView:
    """One plan, or an estimate of one."""

    goal: dict[str, float]
    loss: float
    is_pure: bool
    is_scalable: bool
    is_estimate: bool
    source: str
    misses_targets: bool
    method: str
    proof: str
    status: str
    measured: str
    promise: str
    tables: tuple[TableView, ...]
    budget: tuple[str, ...]


@dataclass(frozen=True)
class NeedsView:
    """The least privacy loss that gives every accuracy asked for, and what drives it.

    Attributes:
        loss: μ or ε of one person.
        goal: the same as the numbers of a [privacy] table, rounded up.
        drivers: per table its share of the cost, and the least ε where it is relaxed.
        unasked: tables of which nothing was asked and that the least loss leaves with far more noise than
            they need to have: the largest standard error there, and at `higher`; None until these are known.
        higher: a goal a little above the least, at which they are usable; None where there are none.
        is_estimate: whether it is taken from simpler or coarser noise, not designed.
    """

    loss: float
    goal: dict[str, float]
    epsilon: float
    relax: float = _RELAX
    drivers: tuple[dict[str, Any], ...] = ()
    unasked: tuple[dict[str, Any], ...] = ()
    higher: dict[str, float] | None = None
    is_estimate: bool = False
    is_complete: bool = False


def needs_view(factor: float, goal: Goal, *, is_estimate: bool = False) -> NeedsView:
    """The loss at which all is within its target, from the factor on standard errors that a goal leaves."""
    loss = factor * loss_of(goal)
    delta = float(goal.delta) if isinstance(goal, ApproxDP) else USUAL_DELTA
    epsilon = loss if goal.noise.is_pure else epsilon_for(loss, delta)
    return NeedsView(loss, goal_for(loss, goal), epsilon, is_estimate=is_estimate)


def goal_like(goal: Goal, numbers: dict[str, float]) -> Goal:
    """A goal with other numbers, that protects the same people."""
    return goal_from_dict(goal.to_dict() | numbers)


def goal_numbers(goal: Goal) -> dict[str, float]:
    """The numbers of a goal, by the keys of a [privacy] table."""
    plain = goal.to_dict()
    return {name: float(getattr(goal, name)) for name in ("epsilon", "delta", "rho", "mu") if name in plain}


def loss_of(goal: Goal) -> float:
    """What one person may lose: μ for Gaussian noise, ε for Laplace."""
    spent = float(goal.budget_per_person)
    return spent if goal.noise.is_pure else math.sqrt(spent)


def goal_for(loss: float, like: Goal) -> dict[str, float]:
    """The numbers of a goal of the same kind with at least this loss, rounded up to four digits."""
    if isinstance(like, PureDP):
        return {"epsilon": _four_above(loss)}
    if isinstance(like, ApproxDP):
        return {"epsilon": _four_above(epsilon_for(loss, float(like.delta))), "delta": float(like.delta)}
    return {"rho": _four_above(loss**2 / 2)} if isinstance(like, ZCDP) else {"mu": _four_above(loss)}


def epsilon_for(loss: float, delta: float) -> float:
    """The ε of a loss μ at δ, rounded up."""
    return epsilon_of(Fraction(loss) ** 2, delta)


def _four_above(value: float) -> float:
    """Four digits, rounded up, with room for the rounding of a design."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value * (1 + 1e-5) / unit) * unit:.4g}")


def query_tables(text: str, spec: Spec) -> list[int]:
    """For every query of a specification, the number of the [[query]] that asks for it."""
    plain = tomllib.loads(text)["query"]
    numbers: list[int] = []
    for number, table in enumerate(plain):
        n = len(queries_from_sql(table["sql"], spec.schema)) if "sql" in table else 1
        numbers += [number] * n
    return numbers


def plan_view(plan: Plan, spec: Spec, text: str, *, ledger: str | None = None) -> PlanView:
    """What the page shows of a plan; targets are those of the specification."""
    assert plan.spreads is not None
    simple = baselines(plan)
    both = list(zip(simple.per_count.rms, simple.per_cell.rms, strict=True))
    errors = [
        (spread.low, spread.median, spread.high, math.sqrt(spread.mean_square)) for spread in plan.spreads
    ]
    tables = _tables(spec, text, errors, both, plan)
    gap = plan.certificate.gap
    return PlanView(
        goal=goal_numbers(plan.privacy),
        loss=loss_of(plan.privacy),
        is_pure=plan.privacy.noise.is_pure,
        # Within targets the best shape depends on the budget; so it does from where targets are met.
        is_scalable=plan.objective.kind != "total-within-caps"
        and plan.workload.has_targets == spec.workload.has_targets,
        is_estimate=False,
        source="",
        misses_targets=any(one.target is not None and one.high > one.target for one in tables),
        method=plan.method,
        proof=_proof(plan, gap),
        status=plan.certificate.status,
        measured=f"{plan.strategy.n_measured:,} numbers" if plan.strategy is not None else "",
        promise=plain_powers(plan.privacy.statement(by_person=spec.person is not None)),
        tables=tables,
        budget=tuple(map(plain_powers, budget_lines(ledger, plan.privacy, plan.charge)))
        if ledger is not None
        else (),
    )


def estimate_view(spec: Spec, text: str, goal: Goal, errors: Sequence[Errors], source: str) -> PlanView:
    """The same before a plan is there, from errors that are estimated; `source` says from what."""
    return PlanView(
        goal=goal_numbers(goal),
        loss=loss_of(goal),
        is_pure=goal.noise.is_pure,
        is_scalable=True,
        is_estimate=True,
        source=source,
        misses_targets=False,
        method="",
        proof="",
        status="",
        measured="",
        promise=plain_powers(goal.statement(by_person=spec.person is not None)),
        tables=_tables(spec, text, errors, None, None),
        budget=(),
    )


def plain_powers(text: str) -> str:
    """Powers of ten as the page writes them.

    Example:
        >>> plain_powers("ε = 1, δ = 1e-06")
        'ε = 1, δ = 1e-6'
    """
    return re.sub(r"(\de[+-]?)0+(?=\d)", r"\1", text)


def _proof(plan: Plan, gap: float) -> str:
    """How far the plan can be from the best, in one line."""
    kind = plan.privacy.noise.label
    shown = share_above(gap) if gap > _LEAST_GAP else f"{_LEAST_GAP:.3%}"
    if plan.certificate.status == "heuristic" or gap > _LITTLE_PROVED:
        return f"Little is proved: this may be up to {1 + gap:.2g} times the least {kind} noise has."
    return f"No {kind} noise shaped to these tables can do better by more than {shown}."


def _tables(
    spec: Spec,
    text: str,
    errors: Sequence[Errors],
    simple: Sequence[tuple[float, float]] | None,
    plan: Plan | None,
) -> tuple[TableView, ...]:
    workload = spec.workload
    asked = [
        number
        for number, query in zip(query_tables(text, spec), spec.queries, strict=True)
        if query.is_linear
    ]
    numbers: list[int | None] = [*asked, *[None] * (len(workload.blocks) - len(asked))]
    room = _MAX_CELLS_TOGETHER
    tables = []
    for b, block in enumerate(workload.blocks):
        low, median, high, rms = errors[b]
        n_shown = min(block.n_rows, _MAX_CELLS, room)
        room -= n_shown
        within = block.query.half_width
        tables.append(
            TableView(
                name=block.name,
                table=numbers[b],
                n_rows=int(block.n_rows),
                attributes=_attributes(workload, b),
                weight=float(block.weights[0]),
                low=low,
                median=median,
                high=high,
                rms=rms,
                target=least_target(block.targets),
                target_text=target_to_text(block),
                within=None if within is None or within[1] != 0.95 else within[0],
                is_running=(is_running := block.query.kind == "prefix"),
                expected=_example_of(block.query.expected, is_running=is_running),
                invented=max(1.0, round(_INVENTED_PEOPLE / int(block.n_rows))),
                simple=None if simple is None else simple[b],
                labels=tuple(block.labels[j] for j in range(n_shown)) if plan is not None else (),
                errors=_first_errors(plan, block.name, n_shown),
            )
        )
    return tuple(tables)


def _attributes(workload: Workload, b: int) -> tuple[str, ...]:
    """The attributes that a table tells apart."""
    assert workload.schema is not None
    named = {
        name
        for term in workload.blocks[b].query.terms(workload.schema)
        for part in term
        for name in part.attributes
    }
    return tuple(name for name in workload.schema.names if name in named)


def least_target(targets: Any) -> float | None:
    """The tightest of some targets; None where there is none."""
    finite = targets[np.isfinite(targets)]
    return float(finite.min()) if len(finite) else None


def _example_of(expected: Any, *, is_running: bool) -> float | None:
    """The example value of a table: the one given; of one per row the median, or the first running total."""
    if expected is None:
        return None
    return float(np.ravel(expected)[0]) if is_running else float(np.median(expected))


def _first_errors(plan: Plan | None, name: str, n: int) -> tuple[float, ...]:
    if plan is None or n == 0:
        return ()
    rows = plan.workload.rows_of(name)
    return tuple(float(one) for one in plan.known_stderr()[rows][:n])


def budget_lines(place: str, goal: Goal, charge: Charge | None) -> tuple[str, ...]:
    """What a ledger has left, what the plan would take, and how many such releases fit."""
    ledger = Ledger(place)
    remaining = ledger.remaining
    lines = [f"The ledger of {ledger.dataset!r} is limited to {ledger.limit}.", f"Left: {remaining}."]
    cost = full_charge(goal) if charge is None else charge
    try:
        n = remaining.times(cost, most=_MOST_TIMES)
    except PrivacyError as error:
        return (*lines, f"This plan cannot be charged to it: {error}.")
    fits = (
        "does not fit"
        if n == 0
        else f"fits {'at least ' if n == _MOST_TIMES else ''}{n:,} time{'' if n == 1 else 's'}"
    )
    return (*lines, f"This plan would take {goal.short()}, and {fits}.")


def controls_of(text: str, spec: Spec) -> dict[str, Any]:
    """What the controls of the page offer for a specification."""
    plain = tomllib.loads(text)
    attributes = [
        {
            "name": name,
            "kind": spec.schema[name].kind,
            "size": spec.schema[name].size,
            "values": spec.schema[name].cells_label(),
            "coarser": coarser_choices(plain["schema"][name]),
        }
        for name in spec.schema.names
    ]
    privacy = spec.privacy
    return {
        "attributes": attributes,
        "goal": None if privacy is None else goal_numbers(privacy),
        "neighbours": str(spec.asked_privacy.neighbours),
        "records_per_person": spec.records_per_person,
        "over": spec.design.get("over"),
        "periods": [one["name"] for one in attributes if "periods" in _as_dict(plain["schema"][one["name"]])],
    }


def _as_dict(plain: Any) -> dict[str, Any]:
    return plain if isinstance(plain, dict) else {}


def coarser_choices(plain: Any) -> list[dict[str, Any]]:
    """How an attribute, as a file holds it, can be made coarser: the number of the edit, and words for it.

    Example:
        >>> coarser_choices({"range": [0, 12]})[1]
        {'by': 5, 'label': '5 values in one', 'n_values': 3}
        >>> coarser_choices({"hierarchy": {"North": ["a", "b"], "South": ["c"]}})
        [{'by': 1, 'label': 'regions of level 1: North, South', 'n_values': 2}]
    """
    form = _as_dict(plain)
    if "hierarchy" in form:
        shown = [
            (level, level_names(form["hierarchy"], level)) for level in range(1, depth_of(form["hierarchy"]))
        ]
        return [
            {"by": level, "label": f"regions of level {level}: {_listed(names)}", "n_values": len(names)}
            for level, names in shown
        ]
    if "periods" in form:
        longer = coarser(plain, 2)
        return [] if longer is None else [{"by": 2, "label": f"by {longer['by']}", "n_values": None}]
    found = [(factor, coarser(plain, factor)) for factor in _FACTORS]
    return [
        {"by": factor, "label": f"{factor} values in one", "n_values": len(coarse["bins"]) - 1}
        for factor, coarse in found
        if coarse is not None and len(coarse["bins"]) > 2
    ]


def _listed(names: Sequence[str]) -> str:
    """The first names of several."""
    return ", ".join(names[:_MAX_NAMES]) + (" …" if len(names) > _MAX_NAMES else "")
