"""A specification designed, and what follows from it, step by step: what is known first is told first.

    needs      the least privacy loss for the accuracies asked for, estimated
    estimate   the accuracy of every table, estimated: both at once, then nearer (see first_estimates)
    needs      the least privacy loss, designed
    plan       the design, with its proof
    saved      the plan as a file
    needs      with the tables of which nothing was asked, then with what drives it

A study yields plain dicts. It runs in a process of its own (`study_process`), or in this one for a page that
is written once.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from leastnoise.app.planner.first_estimates import first_estimates, usual_goal
from leastnoise.app.planner.plan_view import (
    NeedsView,
    goal_for,
    goal_like,
    least_target,
    loss_of,
    needs_view,
    plan_view,
)
from leastnoise.app.specification import Spec, parse_spec
from leastnoise.core import container
from leastnoise.core.errors import DesignError, InfeasibleError, InputError, LeastnoiseError
from leastnoise.core.progress import Progress
from leastnoise.planning import Plan, design
from leastnoise.privacy import Goal
from leastnoise.query import Targets, assemble
from leastnoise.report import drivers

# Tables whose targets are relaxed, at most; those that press hardest first.
_MOST_RELAXED = 6
# Seconds for all designs with a relaxed target, and for all that look at tables of which nothing was asked.
_PATIENCE = 20.0
# Seconds for the last of them, at least: a limit is above zero.
_LEAST_LIMIT = 0.5
# A table of which nothing was asked is usable up to this factor above what it has in a plan without targets.
_USABLE = 2.0
# Factors on the least loss that are tried, one after another, until every table is usable.
_HIGHER = (1.03, 1.1, 1.3)
# The gap at which such a design ends: its figures are shown with three digits.
_BESIDE_TOL = 1e-2

Tell = Callable[[dict[str, Any]], None]
Watch = Callable[[Progress], None]


def study(
    text: str,
    tell: Tell,
    *,
    ledger: str | None = None,
    beside: str | Path = ".",
    saves: bool = False,
) -> Iterator[Any]:
    """Everything the page shows of a specification, a dict at a time.

    Args:
        tell: called with the progress of a design, and with what relaxing a target would buy.
        beside: the folder of the specification, in which its code lists are.
        saves: whether the last dict holds the file of the plan, in base64.
    """
    spec = parse_spec(text, beside)
    if spec.privacy is not None or spec.workload.has_targets:
        yield from first_estimates(spec, text, beside)
    # The least privacy loss is what people wait for, and is found sooner than the plan within targets.
    least: tuple[Plan, NeedsView] | None = _least(spec, tell) if spec.workload.has_targets else None
    if least is not None:
        yield {"kind": "needs", "view": asdict(least[1])}
    plan, refusal = _designed(spec, tell)
    yield {"kind": "plan", "view": asdict(plan_view(plan, spec, text, ledger=ledger)), "refusal": refusal}
    if saves and not refusal:
        content = container.to_bytes("plan", *plan.to_parts())
        yield {"kind": "saved", "content": base64.b64encode(content).decode("ascii")}
    if least is not None:
        known = _beside_the_least(spec, least[1], tell)
        yield {"kind": "needs", "view": asdict(known)}
        yield {"kind": "needs", "view": asdict(_driven(least[0], known, usual_goal(spec), tell))}


def _designed(spec: Spec, tell: Tell) -> tuple[Plan, str]:
    """The plan; where no noise meets the targets, the best without them, and why."""
    settings = spec.design_settings()
    watch = _watching(tell, "designing")
    try:
        plan = design(spec.workload, spec.asked_privacy, progress=watch, **settings)
        if plan.strategy is None:
            raise InputError(
                f"method {plan.method!r} depends on the data, so its accuracy is not known before it runs",
                field="method",
                given=plan.method,
                remedy='write method = "auto" in [design]',
            )
        return plan, ""
    except InfeasibleError as error:
        free = assemble([query.having(stderr=None, within=None) for query in spec.queries], spec.schema)
        settings.pop("objective", None)
        return design(free, spec.privacy, progress=watch, **settings), str(error)


def _watching(tell: Tell, stage: str) -> Watch:
    def show(progress: Progress) -> None:
        gap = progress.gap if progress.gap < float("inf") else None
        tell({"kind": "progress", "stage": stage, "step": progress.step, "gap": gap})

    return show


def _least(spec: Spec, tell: Tell) -> tuple[Plan, NeedsView]:
    """The plan that meets all targets at the least loss, and that loss."""
    goal = usual_goal(spec)
    asked = [query for query in spec.queries if query.target is not None]
    workload = assemble(asked, spec.schema)
    plan = design(workload, goal, objective=Targets(), progress=_watching(tell, "least privacy loss"))
    assert plan.factor is not None
    names = [spec.workload.blocks[b].name for b in _unasked(spec)]
    rows = tuple({"name": name, "high": None, "higher": None} for name in names)
    return plan, replace(needs_view(plan.factor, goal), unasked=rows)


def _beside_the_least(spec: Spec, least: NeedsView, tell: Tell) -> NeedsView:
    """The least loss with the tables that it would leave with far more noise than they need to have.

    At the least loss the targets leave no choice, and tables of which nothing was asked get what is left: 20
    times the error of a plan without targets for age by sex beside age distribution, over 200 cells. A little
    above the least they come out nearly as in such a plan.
    """
    tables = _unasked(spec)
    if not tables:
        return least
    goal = usual_goal(spec)
    watch = _watching(tell, "tables of which nothing was asked")
    settings = {**spec.design_settings(), "tol": _BESIDE_TOL, "progress": watch}
    settings.pop("time_limit", None)
    ends = time.monotonic() + _PATIENCE

    def largest(wanted: dict[str, float]) -> list[float]:
        left = max(_LEAST_LIMIT, ends - time.monotonic())
        return _largest(design(spec.workload, goal_like(goal, wanted), time_limit=left, **settings), tables)

    try:
        free = assemble([query.having(stderr=None, within=None) for query in spec.queries], spec.schema)
        plain = {key: value for key, value in settings.items() if key != "objective"}
        # Standard errors times the loss, which are the same at any loss where there are no targets.
        usable = [
            _USABLE * one * loss_of(goal)
            for one in _largest(design(free, goal, time_limit=_PATIENCE, **plain), tables)
        ]
        now = largest(least.goal)
        poor = [i for i in range(len(tables)) if now[i] * least.loss > usable[i]]
        if not poor:
            return replace(least, unasked=())
        for factor in _HIGHER:
            wanted = goal_for(least.loss * factor, goal)
            then = largest(wanted)
            if all(then[i] * least.loss * factor <= usable[i] for i in poor):
                break
    except DesignError:
        # The least loss stands, and the tables that have to be looked at are named.
        return least
    names = [least.unasked[i]["name"] for i in poor]
    rows = [{"name": name, "high": now[i], "higher": then[i]} for name, i in zip(names, poor, strict=True)]
    return replace(least, unasked=tuple(rows), higher=wanted)


def _unasked(spec: Spec) -> list[int]:
    """The tables of which nothing was asked, while something was of others."""
    return [b for b, block in enumerate(spec.workload.blocks) if least_target(block.targets) is None]


def _largest(plan: Plan, tables: list[int]) -> list[float]:
    """The largest standard errors of some tables."""
    assert plan.spreads is not None
    return [plan.spreads[b].high for b in tables]


def _driven(plan: Plan, known: NeedsView, goal: Goal, tell: Tell) -> NeedsView:
    """The same with what drives it, and what relaxing each target buys."""
    try:
        found = drivers(
            plan,
            relax=known.relax,
            most=_MOST_RELAXED,
            time_limit=_PATIENCE,
            progress=lambda turn: tell(
                {"kind": "progress", "stage": "what relaxing buys", "step": turn.number, "gap": None}
            ),
        )
    except DesignError:
        # Shares are extra: the least loss above stands without them.
        return replace(known, is_complete=True)
    rows = []
    for driver in found.drivers:
        change = driver.changes[0] if driver.changes else None
        after = None if change is None else needs_view(change.after, goal)
        rows.append(
            {
                "name": driver.name,
                "share": driver.share,
                "used": driver.used,
                "target": driver.target,
                "tightens_to": driver.tightens_to,
                "epsilon": None if after is None else after.epsilon,
            }
        )
    return replace(known, drivers=tuple(rows), is_complete=True)


def main() -> None:
    """Study what standard input asks for, a line of JSON each, until it ends; for `study_process`."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr

    def tell(said: dict[str, Any]) -> None:
        out.write(json.dumps(said) + "\n")
        out.flush()

    tell({"kind": "ready"})
    for line in _lines_until_the_planner_ends():
        asked = json.loads(line)
        try:
            for said in study(
                asked["text"], tell, ledger=asked["ledger"], beside=asked["beside"], saves=True
            ):
                tell(said)
        except LeastnoiseError as error:
            tell({"kind": "error", "message": str(error), "field": error.field})
        except MemoryError:
            tell({"kind": "error", "message": "there is not enough memory for this", "field": None})
        tell({"kind": "done"})


def _lines_until_the_planner_ends() -> Iterator[str]:
    """The lines of standard input; where that ends the planner is gone, and so is this process, at once."""
    lines: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield lines.get()
