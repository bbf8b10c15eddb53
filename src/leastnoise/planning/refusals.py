"""Why there is no plan: methods that miss the targets, or cannot serve at all."""

from __future__ import annotations

from collections.abc import Sequence

from leastnoise.core.errors import MethodError
from leastnoise.core.remedies import RelaxTargets
from leastnoise.planning.infeasible import raised, rounded_up
from leastnoise.planning.method import Method, Request
from leastnoise.privacy import Goal


class MissesTargets(MethodError):
    """A method's plan does not meet the targets; another method's may.

    Attributes:
        factor: by which it misses them.
        misses: that as text.
    """

    method: str
    factor: float
    misses: str


def misses_targets(method: str, factor: float, goal: Goal) -> MissesTargets:
    """The error of a method whose plan misses the targets by this factor."""
    misses = f"misses the targets by a factor of {rounded_up(factor)}"
    remedy = RelaxTargets("that", *raised(goal, factor))
    error = MissesTargets(f"method {method!r} {misses}; another may meet them. To take this one, ", remedy)
    error.method, error.factor, error.misses = method, factor, misses
    return error


def closest_of(missed: Sequence[MissesTargets]) -> MethodError:
    """The error where every method misses the targets: which comes closest, and how to take it."""
    closest = min(missed, key=lambda error: error.factor)
    assert closest.remedy is not None
    return MethodError(
        f"no method meets the targets; the closest, {closest.method!r}, {closest.misses}. To take it, ",
        closest.remedy,
    )


def nobody_can(methods: Sequence[Method], request: Request) -> MethodError:
    """The error where no method takes a request, with the reason of each."""
    by_name = "it depends on the data and is taken only when named"
    too_much = {
        method.name: reason
        for method in methods
        if method.why_unfit(request) is None and (reason := method.too_much(request)) is not None
    }
    others = [
        f"{method.name}: {method.why_unfit(request) or by_name}"
        for method in methods
        if method.name not in too_much
    ]
    if not too_much:
        return MethodError("no method can serve this workload. " + "; ".join(others))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in too_much.items())
    return MethodError(
        f"this workload takes too much. {reasons}. Declare its attributes coarser, or allow more. The other "
        f"methods cannot serve it. {'; '.join(others)}"
    )
