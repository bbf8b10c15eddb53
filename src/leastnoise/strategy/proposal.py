"""What a method proposes, and how it becomes integers with the least noise that a goal allows.

A kind of proposal says how its real numbers are rounded, within the budget of errors in `grid`. What follows
is the same for all kinds: sensitivity and noise are those of the integers, and nothing is trusted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from leastnoise.privacy import CellCosts, Goal
from leastnoise.query import Workload
from leastnoise.strategy.budget import within_goal
from leastnoise.strategy.measured import Measured

MeasuredT_co = TypeVar("MeasuredT_co", bound=Measured, covariant=True)


class Proposal(ABC, Generic[MeasuredT_co]):
    """Real numbers to be measured, in any unit."""

    @abstractmethod
    def in_integers(self, goal: Goal, tol: float) -> MeasuredT_co:
        """What is measured, in integers, with noise of scale 1.

        Args:
            tol: the relative gap to the optimum that was asked for; rounding costs far less.

        Raises:
            DesignError: if the numbers proposed are not finite, or rounding would lose a direction.
        """

    def measured_within(self, goal: Goal, *, tol: float, spare: CellCosts | None = None) -> MeasuredT_co:
        """The integer strategy that measures this within a privacy goal.

        Args:
            tol: as for `in_integers`.
            spare: what a record of each cell may spend, where earlier plans have used part of the goal.

        Guarantee:
            spent ≤ the goal's budget per record, or in every cell what is spare there, compared in exact
            rationals, with the sensitivity taken from the integers that are measured. Nothing about the
            proposal is trusted.

        Raises:
            DesignError: as `in_integers`, or if the goal is beyond what can be planned.
        """
        return within_goal(self.in_integers(goal, tol), goal, spare)

    def in_time(self, workload: Workload, over: str) -> Proposal[Measured]:
        """The same with rows that can be measured period by period; this itself where they can be already.

        A plan whose rows are not in the order of time is refused.
        """
        return self
