"""A plan as people read it: what it promises, what is measured, how accurate the answers will be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from leastnoise.core.errors import InputError
from leastnoise.core.printable import counted, printable
from leastnoise.core.progress import ending_to_text
from leastnoise.planning.method import Outcome, Trial
from leastnoise.privacy import ZCDP, ApproxDP, Goal, shown
from leastnoise.query import TotalVariance

if TYPE_CHECKING:
    from leastnoise.planning.plan import Plan


def plan_to_text(plan: Plan) -> str:
    """The plan on a few lines: goal, method, certificate, and the standard errors of every batch."""
    m, n = plan.workload.shape
    lines = [
        f"Plan for {counted(m, 'query')} over {counted(n, 'cell')}",
        f"  privacy      {_stated(plan.privacy)}",
        f"  method       {printable(plan.method)}: {printable(plan.note)}",
        f"  search       {ending_to_text(plan.ended)}",
        f"  measured     {_measured(plan)}",
        f"  certificate  {plan.certificate}",
    ]
    if plan.strategy is None:
        # Nothing is searched for before there are data.
        del lines[3]
    if plan.tried:
        lines.insert(3, f"  tried        {printable(trials_to_text(plan.tried))}")
    if plan.objective != TotalVariance():
        lines.insert(2, f"  objective    {plan.objective}")
    if plan.after:
        lines[1] += ", for all plans together"
        lines[2:2] = [f"               {line}" for line in earlier_plans_to_text(plan)]
    if not plan.has_goal and not isinstance(plan.privacy, ApproxDP):
        # The goal was derived, as a μ that says little to most people.
        lines.insert(2, f"               ε = {plan.epsilon(delta=1e-6):.4g} at δ = 1e-06")
    if plan.distance:
        lines.append(f"  answered     {distance_to_text(plan.distance)}")
    if plan.factor is not None:
        lines.append(f"  targets      {targets_to_text(plan.factor)}")
    if plan.spreads is None:
        return "\n".join(lines)
    lines.append("  expected standard errors")
    width = max(len(printable(name)) for name in plan.workload.names)
    for block, spread in zip(plan.workload.blocks, plan.spreads, strict=True):
        asked = block.targets[np.isfinite(block.targets)]
        wanted = f", target {_in_short(asked.min(), asked.max())}" if len(asked) else ""
        lines.append(
            f"    {printable(block.name):<{width}}  {_in_short(spread.low, spread.high)}{wanted}   "
            f"({counted(block.n_rows, 'query')})"
        )
    return "\n".join(lines)


def earlier_plans_to_text(plan: Plan) -> list[str]:
    """What a plan and those before it spend together, and for whom that is free; [] without any."""
    if plan.used is None:
        return []
    before = plan.used.largest * plan.privacy.records_per_person**2
    growth = plan.spent_together - before
    more = f"μ² = {shown(growth)} more than before" if growth else "nothing more than before"
    return [
        f"after {counted(len(plan.after), 'earlier plan')}; together they spend μ² = "
        f"{shown(plan.spent_together)} per person; in the worst case {more}",
        "in the worst case only: people in cells with slack lose protection they had",
    ]


def trials_to_text(tried: Iterable[Trial]) -> str:
    """What was tried for a plan, with what each achieved, and what was left out.

    Example:
        >>> trials_to_text([Trial("residuals", "kept", 28.25), Trial("dense", "no-time")])
        'residuals 28.25; dense had no time left'
    """
    return "; ".join(
        f"{trial.name} {trial.achieved:.6g}"
        if trial.achieved is not None
        else f"{trial.name} {_OUTCOMES[trial.outcome]}" + (f" ({trial.reason})" if trial.reason else "")
        for trial in tried
    )


_OUTCOMES: dict[Outcome, str] = {
    "kept": "was kept",
    "beaten": "found no better plan",
    "misses-targets": "misses the targets",
    "failed": "failed",
    "no-time": "had no time left",
    "too-much": "was left out",
    "too-long": "takes minutes and was left out; a time limit lets it be tried",
}


# The gap above which `measure` warns unless another is given: standard errors some 2.5 % above the least.
ACCEPTED_GAP = 0.05


def gap_warning(plan: Plan, accepted: float = ACCEPTED_GAP) -> str | None:
    """The warning about a plan whose search ended far from the proven bound; None where the gap is accepted.

    Methods that do not aim at the optimum, and Laplace noise, for which no bound is tight, give none.

    Raises:
        InputError: if the accepted gap is not a number, zero or more.
    """
    is_number = isinstance(accepted, (int, float)) and not isinstance(accepted, bool)
    if not is_number or not accepted >= 0:
        raise InputError.must("accept_gap", "be a number, zero or more, such as 0.05", given=accepted)
    proof = plan.certificate
    if proof.status != "stopped" or plan.strategy is None or plan.strategy.noise.is_pure:
        return None
    if not proof.gap > accepted:
        return None
    may_be = f"up to {_share(proof.gap)} more" if proof.gap < math.inf else "any amount more"
    more = "" if plan.ended in ("converged", None) else "; a longer time limit may give a better plan"
    return (
        f"the plan may have {may_be} {proof.unit} than the least possible, and {100 * accepted:.3g} % is "
        f"accepted{more}"
    )


def _share(gap: float) -> str:
    shown = Context(prec=2, rounding=ROUND_CEILING).create_decimal(Decimal(gap) * 100)
    return f"{float(shown):,.0f} %" if shown >= 10 else f"{float(shown):.2g} %"


def distance_to_text(distance: float) -> str:
    """How far the queries that a plan answers lie from those asked.

    Example:
        >>> distance_to_text(2.04e-12)
        'queries whose coefficients differ from those asked by at most 2.1e-12 of their largest'
    """
    shown = Context(prec=2, rounding=ROUND_CEILING).create_decimal(Decimal(distance))
    return (
        f"queries whose coefficients differ from those asked by at most {float(shown):.1e} of their largest"
    )


def targets_to_text(factor: float) -> str:
    """What a plan's factor says about its targets.

    Example:
        >>> targets_to_text(0.9), targets_to_text(1.25)
        ('met by every query', 'missed; every standard error is within 1.25 times its target')
    """
    if factor <= 1:
        return "met by every query"
    shown = Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(factor))
    return f"missed; every standard error is within {float(shown):.6g} times its target"


def _measured(plan: Plan) -> str:
    if plan.strategy is None:
        return f"integers with {plan.privacy.noise} noise, which of them depends on the data"
    return f"{plan.strategy.n_measured:,} integer {plan.strategy.noun} with {plan.strategy.noise} noise"


def _stated(goal: Goal) -> str:
    """A goal in words. One that is exactly what earlier plans spend has dozens of digits: six are shown."""
    if isinstance(goal, ZCDP) and isinstance(goal.rho, Fraction) and goal.rho.denominator > 10**6:
        goal = replace(goal, rho=float(shown(goal.rho)))
    return goal.statement()


def _in_short(low: float, high: float) -> str:
    return f"{low:.3g}" if high <= low * 1.005 else f"{low:.3g} to {high:.3g}"
