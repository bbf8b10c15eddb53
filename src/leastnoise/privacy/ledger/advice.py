"""The error for a charge that does not fit, with the largest that would."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from leastnoise.core.directed import float_above, root_above
from leastnoise.core.errors import OverBudgetError
from leastnoise.privacy.accounting import Charge, Remaining, shown
from leastnoise.privacy.goals import ApproxDP, Goal, PureDP
from leastnoise.privacy.ledger.history import History

# Factor on the standard errors up to which more noise is advised, instead of a smaller goal.
_MAX_WIDENING = 10**6


def over_budget(
    name: str, history: History, charge: Charge | None, goal: Goal | None, group: str | None = None
) -> OverBudgetError:
    """The refusal of a charge, or before one is known of a goal, and the largest that would be accepted.

    Args:
        name: the ledger's.
        charge: None where no plan was designed yet.
        goal: what the plan is for; None where it follows from targets or from other plans.
        group: the releases whose costs the plan's are added to cell by cell, if any.
    """
    remaining = history.remaining
    if history.exceeds_by_old_rule:
        return OverBudgetError(
            f"the ledger {name!r} takes no new release. An earlier version of leastnoise added its "
            "releases cell by cell without confirming that they were about the same table; by their worst "
            "cases, which is what is proved, they exceed the limit. Stored answers are still handed out "
            "(`leastnoise ledger fetch`). Nothing was spent.",
            remaining=remaining,
        )
    if charge is not None:
        kind = charge.noise_kind
        unit, free = kind.symbol, remaining.epsilon if kind.is_pure else remaining.mu_squared
        added = (
            f"in terms of this plan {unit} = {shown(free or Fraction(0))}, and the plan would add "
            f"{shown(history.growth(charge, group))}"
        )
    else:
        added = f"and no plan for {'a goal' if goal is None else goal} can be cheap enough"
    if goal is not None:
        advice = _smaller_goal(remaining, goal)
    else:
        advice = "" if charge is None else _more_noise(history, charge, group)
    return OverBudgetError(
        f"the ledger {name!r} has {remaining} left, {added}{advice}. Nothing was spent.", remaining=remaining
    )


def goal_to_text(goal: Goal) -> str:
    """The numbers of a goal as a specification holds them.

    Example:
        >>> goal_to_text(ApproxDP(epsilon=0.5, delta=1e-6))
        'epsilon = 0.5 with delta = 1e-06'
    """
    plain = goal.to_dict()
    (name,) = (name for name in ("epsilon", "rho", "mu") if name in plain)
    return f"{name} = {plain[name]}" + (f" with delta = {plain['delta']}" if "delta" in plain else "")


def _smaller_goal(remaining: Remaining, goal: Goal) -> str:
    found = remaining.like(goal)
    delta = f" with delta = {goal.to_dict()['delta']}" if isinstance(goal, ApproxDP) else ""
    if found is None:
        return f"; nothing is left for a plan{delta} that counts everybody"
    name, _, value = goal_to_text(found).partition(" with ")[0].partition(" = ")
    return (
        f"; set {name} to at most {value}{delta} (in a specification: in [privacy]), and any plan fits"
        f"{_with_gaussian_noise(remaining, goal)}"
    )


def _with_gaussian_noise(remaining: Remaining, goal: Goal) -> str:
    """Why a pure release costs more than its ε once there were Gaussian ones, and what would cost less.

    Nothing where its ε counts as it is. ``remaining.like`` tries what is offered by the ledger's own rule.
    """
    limit = remaining.limit
    is_converted = remaining.tally.has_gaussian or not isinstance(limit, ApproxDP)
    if not isinstance(goal, PureDP) or isinstance(limit, PureDP) or not is_converted:
        return ""
    kind = replace(limit, neighbours=goal.neighbours, records_per_person=goal.records_per_person)
    found = remaining.like(kind)
    instead = "" if found is None else f"; with Gaussian noise, {goal_to_text(found)} would fit"
    costs = (
        "costs more than its epsilon after Gaussian ones: it counts as"
        if isinstance(limit, ApproxDP)
        else "counts under this limit as"
    )
    return f". A release without a delta {costs} Gaussian noise that protects as little{instead}"


def _more_noise(history: History, charge: Charge, group: str | None) -> str:
    """By how much the noise of a plan must grow to fit, rounded up and tried.

    What a charge adds is convex in its size and nothing at zero, so that a share of the charge adds that
    share of the growth at most.
    """
    remaining = history.remaining
    is_pure = charge.noise_kind.is_pure
    left = remaining.epsilon if is_pure else remaining.mu_squared
    if not left:
        return "; nothing is left for a plan that counts everybody"
    # A pure release under a limit of another kind is converted as a whole, not by what it adds.
    ratio = (charge.per_person if is_pure else history.growth(charge, group)) / left
    if not 1 < ratio < _MAX_WIDENING:
        return "; design it for a smaller goal"
    factor = _three_digits_above(float_above(ratio) if is_pure else root_above(ratio))
    if not history.admits(charge.times(1 / factor**charge.noise_kind.power), group):
        return "; design it for a smaller goal"
    return (
        f"; with standard errors {float(factor):g} times as large it would fit: widen the targets by that "
        "much, or design it for a smaller goal (`leastnoise explain` shows which targets cost most)"
    )


def _three_digits_above(value: float) -> Fraction:
    return Fraction(Context(prec=3, rounding=ROUND_CEILING).create_decimal(Decimal(value)))
