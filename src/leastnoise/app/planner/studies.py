"""A specification designed, and what follows from it, step by step: what is known first is told first.

    estimate   the better of two simple ways of noise: a bound that is there at once
    needs      the least privacy loss for the accuracies asked for
    plan       the design, with its proof
    needs      the same with what drives it
    saved      the plan as a file

A study yields plain dicts. It runs in a process of its own (`study_process`), or in this one for a page that
is written once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from leastnoise.app.planner.plan_view import (
    USUAL_DELTA,
    NeedsView,
    epsilon_for,
    estimate_view,
    goal_for,
    loss_of,
    plan_view,
)
from leastnoise.app.specification import Spec, parse_spec
from leastnoise.core.errors import DesignError, InfeasibleError, InputError, LeastnoiseError
from leastnoise.core.progress import Progress
from leastnoise.planning import Plan, design
from leastnoise.privacy import ApproxDP, Goal
from leastnoise.query import Targets, assemble, default_objective
from leastnoise.report import baselines_of, drivers

# The factor by which a target is made wider to see what that buys.
_RELAX = 2.0
# Tables whose targets are relaxed, at most; those that press hardest first.
_MOST_RELAXED = 6
# Seconds for all designs with a relaxed target.
_PATIENCE = 30.0

Tell = Callable[[dict[str, Any]], None]


def study(
    text: str,
    tell: Tell,
    *,
    ledger: str | None = None,
    beside: str | Path = ".",
    folder: Path | None = None,
) -> Iterator[Any]:
    """Everything the page shows of a specification, a dict at a time.

    Args:
        tell: called with the progress of a design, and with what relaxing a target would buy.
        beside: the folder of the specification, in which its code lists are.
        folder: where the plan is saved; None to leave that out.
    """
    spec = parse_spec(text, beside)
    goal = spec.privacy
    if goal is not None:
        yield {"kind": "estimate", "view": asdict(_estimate(spec, text, goal))}
    # The least privacy loss is what people wait for, and is found sooner than the plan within targets.
    needs = _needs(spec, tell) if spec.workload.has_targets else iter(())
    for least in islice(needs, 1):
        yield {"kind": "needs", "view": asdict(least)}
    plan, refusal = _designed(spec, tell)
    yield {"kind": "plan", "view": asdict(plan_view(plan, spec, text, ledger=ledger)), "refusal": refusal}
    for complete in needs:
        yield {"kind": "needs", "view": asdict(complete)}
    if folder is not None and not refusal:
        target = folder / "planned.plan"
        plan.save(target)
        yield {"kind": "saved", "path": str(target)}


def _estimate(spec: Spec, text: str, goal: Goal) -> Any:
    objective = default_objective(spec.workload, spec.design_settings().get("objective"), has_goal=True)
    simple = baselines_of(spec.workload, goal, objective)
    better = min(simple.per_count, simple.per_cell, key=lambda one: one.value)
    return estimate_view(spec, text, goal, better.rms)


def _designed(spec: Spec, tell: Tell) -> tuple[Plan, str]:
    """The plan; where no noise meets the targets, the best without them, and why."""
    settings = spec.design_settings()
    watch = _watching(tell, "designing")
    try:
        plan = design(spec.workload, spec.asked_privacy, progress=watch, **settings)
        if plan.strategy is None:
            raise InputError(
                f"method {plan.method!r} depends on the data, so that nothing can be said before",
                field="method",
                given=plan.method,
                remedy='write method = "auto" in [design]',
            )
        return plan, ""
    except InfeasibleError as error:
        free = assemble([query.having(stderr=None, within=None) for query in spec.queries], spec.schema)
        settings.pop("objective", None)
        return design(free, spec.privacy, progress=watch, **settings), str(error)


def _watching(tell: Tell, stage: str) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        gap = progress.gap if progress.gap < float("inf") else None
        tell({"kind": "progress", "stage": stage, "step": progress.step, "gap": gap})

    return show


def _needs(spec: Spec, tell: Tell) -> Iterator[NeedsView]:
    """The least loss for the targets: first what it is, then what drives it."""
    goal = spec.privacy or spec.least.goal_at(1, USUAL_DELTA)
    asked = [query for query in spec.queries if query.target is not None]
    workload = assemble(asked, spec.schema)
    plan = design(workload, goal, objective=Targets(), progress=_watching(tell, "least privacy loss"))
    assert plan.factor is not None
    known = _needed(plan.factor, goal)
    yield known
    try:
        found = drivers(
            plan,
            relax=_RELAX,
            most=_MOST_RELAXED,
            time_limit=_PATIENCE,
            progress=lambda turn: tell(
                {"kind": "progress", "stage": "what relaxing buys", "step": turn.number, "gap": None}
            ),
        )
    except DesignError:
        # Shares are extra: the least loss above stands without them.
        yield replace(known, is_complete=True)
        return
    rows = []
    for driver in found.drivers:
        change = driver.changes[0] if driver.changes else None
        after = None if change is None else _needed(change.after, goal)
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
    yield replace(known, drivers=tuple(rows), is_complete=True)


def _needed(factor: float, goal: Goal) -> NeedsView:
    """The loss at which every standard error is within its target, from the factor it has under a goal."""
    loss = factor * loss_of(goal)
    delta = float(goal.delta) if isinstance(goal, ApproxDP) else USUAL_DELTA
    epsilon = loss if goal.noise.is_pure else epsilon_for(loss, delta)
    return NeedsView(loss, goal_for(loss, goal), epsilon, _RELAX, (), False)


def main() -> None:
    """Study what standard input asks for, a line of JSON at a time; for `study_process`."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr

    def tell(said: dict[str, Any]) -> None:
        out.write(json.dumps(said) + "\n")
        out.flush()

    tell({"kind": "ready"})
    line = sys.stdin.readline()
    if not line:
        return
    asked = json.loads(line)
    folder = None if asked["folder"] is None else Path(asked["folder"])
    try:
        for said in study(asked["text"], tell, ledger=asked["ledger"], beside=asked["beside"], folder=folder):
            tell(said)
    except LeastnoiseError as error:
        tell({"kind": "error", "message": str(error), "field": error.field})
    except MemoryError:
        tell({"kind": "error", "message": "there is not enough memory for this", "field": None})
    tell({"kind": "done"})
