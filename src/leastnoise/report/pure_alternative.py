"""What a plan with a δ could do without one: the plan that `design` gives for the same ε alone.

Where few counts overlap, or ε is large, Laplace noise may be less than Gaussian noise of the same ε, and it
needs no δ. The figures are those of the plan that `design` returns when the δ is left out; so they cost a
design, and are computed only when asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leastnoise.core.errors import DesignError, InputError, MethodError
from leastnoise.core.printable import printable
from leastnoise.core.progress import Progress
from leastnoise.planning import Plan, design
from leastnoise.privacy import ApproxDP, PureDP


@dataclass(frozen=True)
class PureAlternative:
    """What `design` gives for the same request at the same ε, without the δ.

    Attributes:
        goal: the same ε, neighbours and records per person, without the δ.
        plan: the plan; None where there is none.
        refusal: why there is none; "" where there is.
        ratio: what it achieves over what the plan with a δ does; below 1 it is the better one.
    """

    goal: PureDP
    plan: Plan | None
    refusal: str
    ratio: float

    def sentences(self) -> list[str]:
        """What the same request has without a delta, so that a user of a delta can choose."""
        if self.plan is None:
            return [f"Without delta: {printable(self.refusal)}"]
        if self.plan.strategy is None:
            return [f"Without delta: method {self.plan.method}, whose errors depend on the data."]
        proof = self.plan.certificate
        is_factor = proof.unit == "squared factor"
        level = f"{math.sqrt(proof.achieved):,.6g} times the targets" if is_factor else ""
        level = level or f"{proof.unit} {proof.achieved:,.6g}"
        ratio = math.sqrt(self.ratio) if is_factor else self.ratio
        times = f"{ratio:,.3g} times as much as" if is_factor else f"{ratio:,.3g} times that of"
        has = f"{level} by {printable(self.plan.method)}, {times} the plan with delta"
        is_late = self.plan.ended == "deadline"
        late = ["The search ran out of time; given more, it may do better."] if is_late else []
        if not self.ratio < 1:
            return [f"Without delta: {has}.", *late]
        return [
            f"Better without delta: {has}.",
            f"Ask for {self.goal!r} instead (in a specification, leave delta out): less noise, and no delta.",
            *late,
        ]


def design_without_delta(
    plan: Plan,
    *,
    time_limit: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> PureAlternative:
    """What `design` gives for a plan's workload and objective at the plan's own ε, without its δ.

    Args:
        settings: of `design` as the request was made; method "auto" and its defaults unless given.

    Raises:
        InputError: if the plan was not designed for an `ApproxDP` alone: then there is no δ to leave out.
    """
    given = plan.privacy
    if not isinstance(given, ApproxDP) or not plan.has_goal or plan.after:
        raise InputError(
            "only a plan that was designed for ApproxDP, and after no other, has a delta to leave out",
            field="plan",
        )
    goal = without_delta(given)
    asked = {**settings, "objective": plan.objective, "time_limit": time_limit, "progress": progress}
    try:
        found = design(plan.workload, goal, **asked)
    except (MethodError, DesignError) as error:
        return PureAlternative(goal, None, str(error), math.inf)
    return PureAlternative(goal, found, "", _ratio(found, plan))


def without_delta(goal: ApproxDP) -> PureDP:
    """The goal of the same ε, neighbours and records per person, without the δ."""
    return PureDP(goal.epsilon, neighbours=goal.neighbours, records_per_person=goal.records_per_person)


def _ratio(found: Plan, plan: Plan) -> float:
    """What one plan achieves over what another does; infinite where one of them cannot say."""
    if found.strategy is None or plan.strategy is None:
        return math.inf
    achieved, own = found.certificate.achieved, plan.certificate.achieved
    return achieved / own if own > 0 else 1.0 if achieved == 0 else math.inf
