"""The least privacy loss that meets the targets, where no budget is given."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from leastnoise.core.directed import root_above
from leastnoise.core.errors import PrivacyError
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.privacy.gaussian_curve import Number, epsilon_of, exact_number
from leastnoise.privacy.goals import GDP, ApproxDP, Goal

# Digits of the ε that is found, rounded up: what people read and write down.
_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class LeastLoss(NotebookValue):
    """Instead of a goal, where queries have targets: `design` finds the least privacy loss that meets them.

    Without ``delta`` the plan states its μ, which gives an ε for every δ. With ``delta`` the plan's goal is
    ``ApproxDP`` with the least ε at this δ, rounded up to six digits.

    Args:
        delta: the δ at which ε is stated; None states μ.
        neighbours: as for a goal.
        records_per_person: the largest number of records that one person can have, k. The loss covers all of
            them together: targets that need μ for one record need k μ.

    Example:
        >>> LeastLoss(delta=1e-6, records_per_person=3)
        LeastLoss(delta=1e-06, neighbours='add-remove', records_per_person=3)
    """

    _unlisted = unlisted("goal_at goal_for unit_goal")

    delta: Number | None = None
    neighbours: str = "add-remove"
    records_per_person: int = 1

    def __post_init__(self) -> None:
        if self.delta is not None:
            # Refused as a goal would refuse it.
            held = ApproxDP(1, self.delta, neighbours=self.neighbours)
            object.__setattr__(self, "delta", held.delta)
        held_records = GDP(1, neighbours=self.neighbours, records_per_person=self.records_per_person)
        object.__setattr__(self, "records_per_person", held_records.records_per_person)

    @property
    def unit_goal(self) -> GDP:
        """The goal μ² = 1 for one record, within which only the shape of the noise is sought."""
        k = self.records_per_person
        return GDP(k, neighbours=self.neighbours, records_per_person=k)

    def goal_at(self, epsilon: Number, delta: Number) -> ApproxDP:
        """The goal of this ε for the same people; ``delta`` where none was given.

        Args:
            epsilon: ε of the goal.
            delta: δ of the goal, used only where this object has none.
        """
        return ApproxDP(
            epsilon,
            delta if self.delta is None else self.delta,
            neighbours=self.neighbours,
            records_per_person=self.records_per_person,
        )

    def goal_for(self, spent: Fraction) -> Goal:
        """The least goal for noise that spends this μ² per record.

        Args:
            spent: μ² that one record spends, exactly.

        Guarantee:
            `Goal.budget` of what is returned is at least ``spent``, compared in rationals.

        Raises:
            PrivacyError: if δ alone covers the loss, so that ε would be 0.
        """
        k = self.records_per_person
        everything = spent * k * k
        if self.delta is None:
            return GDP(root_above(everything), neighbours=self.neighbours, records_per_person=k)
        epsilon = epsilon_of(everything, self.delta)
        if epsilon == 0:
            raise PrivacyError(
                "the targets are met with epsilon = 0: delta alone covers what they need",
                field="delta",
                given=self.delta,
                remedy="give a smaller delta, such as 1e-6",
            )
        found = Decimal(epsilon).normalize(Context(_DIGITS, ROUND_UP))
        step = Decimal(1).scaleb(found.adjusted() + 1 - _DIGITS)
        goal = self.goal_at(float(found), self.delta)
        while goal.budget < spent:
            # The μ² of a goal is rounded down, and a float may lie below its digits.
            found += step
            goal = self.goal_at(float(found), self.delta)
        return goal

    def to_dict(self) -> dict[str, Any]:
        """The fields as text and numbers that JSON holds exactly."""
        shared = {"neighbours": str(self.neighbours), "records_per_person": self.records_per_person}
        if self.delta is None:
            return {"goal": "LeastLoss", **shared}
        exact = exact_number("delta", self.delta)
        return {
            "goal": "LeastLoss",
            "delta": exact if isinstance(exact, (int, float)) else str(exact),
            **shared,
        }

    def __str__(self) -> str:
        at = "" if self.delta is None else f" at δ = {float(self.delta):g}"
        return f"the least privacy loss that meets the targets{at}"


def least_loss_of(goal: Goal) -> LeastLoss:
    """What was asked where a goal was found and not given."""
    return LeastLoss(
        delta=goal.delta if isinstance(goal, ApproxDP) else None,
        neighbours=goal.neighbours,
        records_per_person=goal.records_per_person,
    )
