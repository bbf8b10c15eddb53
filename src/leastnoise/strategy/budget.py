"""What a strategy may spend, in every cell, and the least scale of its noise that keeps to it.

Everything is compared in integers and rationals.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

from leastnoise.core.errors import DesignError, PrivacyError
from leastnoise.privacy import CellCosts, Goal, shown
from leastnoise.strategy.measured import Measured

AnyMeasured = TypeVar("AnyMeasured", bound=Measured)

# Goals whose μ (or ε) per record is beyond 2^±120 would need variances that floats
# cannot describe.
_GOAL_BITS = 120


def spare_of(goal: Goal, used: CellCosts) -> CellCosts:
    """What a record of each cell may still spend within a goal, exactly: τ_i = μ² − used_i.

    Raises:
        PrivacyError: if some cell has used more than the goal.
    """
    budget = goal.budget
    left = tuple(budget.numerator * used.unit - budget.denominator * cost for cost in used.numerators)
    if min(left) < 0:
        k = goal.records_per_person
        raise PrivacyError(
            f"the earlier plans already spend μ² = {shown(used.largest * k * k)} per person, and the "
            f"goal {goal} allows {shown(budget * k * k)} for all plans together",
            field="privacy",
            given=str(goal),
            remedy="give a larger goal, or none to stay within what they spend",
        )
    return CellCosts(left, budget.denominator * used.unit)


def cell_costs(strategy: Measured) -> CellCosts:
    """What a record of each cell spends, exactly, over the strategy's own unit.

    Raises:
        TooLargeError: where there are more cells than can be listed.
    """
    return CellCosts(strategy.column_costs, strategy.unit)


def is_within(strategy: Measured, goal: Goal, spare: CellCosts | None) -> bool:
    """Whether no record spends more than the goal, or than what is spare in its cell; in rationals."""
    if spare is None:
        return strategy.spent <= goal.budget
    own = cell_costs(strategy)
    pairs = zip(own.numerators, spare.numerators, strict=True)
    return all(cost * spare.unit <= left * own.unit for cost, left in pairs)


def within_goal(bare: AnyMeasured, goal: Goal, spare: CellCosts | None = None) -> AnyMeasured:
    """Integers with the least noise that a goal allows.

    Args:
        bare: the integers, with noise of scale 1.
        spare: what a record of each cell may spend, instead of the whole budget.

    Guarantee:
        spent ≤ the goal's budget per record, or in every cell what is spare there, compared in exact
        rationals, with the sensitivity taken from the integers that are measured.

    Raises:
        DesignError: as `least_scale`.
    """
    strategy = bare.with_scale(least_scale(bare, goal, spare))
    if not is_within(strategy, goal, spare):
        raise DesignError(
            "the noise scale does not keep the budget; this is a fault of leastnoise", field="scale"
        )
    return strategy


def least_scale(bare: Measured, goal: Goal, spare: CellCosts | None = None) -> int:
    """The least integer scale of the noise that keeps a goal, for integers whose sensitivity is known.

    Args:
        bare: the integers, with noise of scale 1.
        spare: what a record of each cell may spend, instead of the whole budget.

    Raises:
        DesignError: if the goal is beyond what can be planned, or a cell is measured in which nothing
            is spare.
    """
    budget = goal.budget
    most = bare.noise.unit(2**_GOAL_BITS)
    if not Fraction(1, most) <= budget <= most:
        raise DesignError(
            f"the goal {goal} is beyond what can be planned: epsilon or mu per record must lie between "
            f"{2.0**-_GOAL_BITS:.0e} and {2.0**_GOAL_BITS:.0e}",
            field="privacy",
            given=str(goal),
        )
    # Integers a/b with a, b > 0: the least s with s·budget ≥ Δ is ⌈Δ/budget⌉.
    if spare is None:
        least = -(-bare.sensitivity * budget.denominator // budget.numerator)
    else:
        pairs = zip(cell_costs(bare).numerators, spare.numerators, strict=True)
        measured = [(cost, left) for cost, left in pairs if cost]
        if not all(left for _, left in measured):
            raise DesignError(
                "a cell would be measured in which the earlier plans leave nothing to spend", field="after"
            )
        least = max((-(-cost * spare.unit // left) for cost, left in measured), default=0)
    return bare.noise.least_scale(least)
