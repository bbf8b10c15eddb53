"""What a plan with a δ could do without one: the plan that `design` gives for the same ε alone.

Where few counts overlap, or ε is large, Laplace noise may be less than Gaussian noise of the same ε, and it
needs no δ. What is told of it is what the call returns that a reader would make to follow the advice; so it
costs a design, and is worked out only for those who ask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leastnoise.core.errors import DesignError, InputError, MethodError
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


def without_delta(
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
            "only a plan that was designed for ApproxDP, and after no other, has a delta to leave out"
        )
    goal = PureDP(given.epsilon, neighbours=given.neighbours, records_per_person=given.records_per_person)
    asked = {**settings, "objective": plan.objective, "time_limit": time_limit, "progress": progress}
    try:
        found = design(plan.workload, goal, **asked)
    except (MethodError, DesignError) as error:
        return PureAlternative(goal, None, str(error), math.inf)
    return PureAlternative(goal, found, "", _ratio(found, plan))


def _ratio(found: Plan, plan: Plan) -> float:
    """What one plan achieves over what another does; infinite where one of them cannot say."""
    if found.strategy is None or plan.strategy is None:
        return math.inf
    achieved, own = found.certificate.achieved, plan.certificate.achieved
    return achieved / own if own > 0 else 1.0 if achieved == 0 else math.inf
