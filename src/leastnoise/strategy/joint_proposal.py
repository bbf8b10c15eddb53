"""Products of rows with joint weights, as a search proposes them, in integers and within a privacy goal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.privacy import CellCosts, Goal
from leastnoise.query import Axis, Workload
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.budget import within_goal
from leastnoise.strategy.grid import multipliers_on_grid, on_grid
from leastnoise.strategy.joint_rows import JointRows


def joint_form(coefficients: Array, basis: Array | None, *, bits: int, has_total: bool) -> AxisForm:
    """The rows of one axis in integers: every row of coefficients scaled to some bits, rounded, on the basis.

    Args:
        coefficients: real, (r, r) on the basis.
        basis: integer rows, (r, n); None for all values.
        has_total: whether the first row is a multiple of 1ᵀ, which it then is exactly.

    Raises:
        DesignError: if they are not finite, or rounding makes them dependent.
    """
    if not np.isfinite(coefficients).all():
        raise DesignError(
            "the rows found are not finite", field="strategy", remedy="rescale the queries' rows"
        )
    largest = np.abs(coefficients).max(axis=1, keepdims=True)
    if not largest.all():
        raise DesignError("a row found is zero", field="strategy", remedy="rescale the queries' rows")
    grid = on_grid(coefficients / largest, bits)
    rows = grid if basis is None else exact.as_integers(exact.product(grid, exact.as_integers(basis)))
    if has_total:
        rows = np.array(rows)
        # As large as the others, or the multipliers of these would be too small to round.
        rows[0] = 1 << bits
    if not exact.is_of_full_row_rank(rows):
        raise DesignError(
            "rounding would lose a direction", field="strategy", remedy="rescale the queries' rows"
        )
    return AxisForm("whole", rows.shape[1], rows)


@dataclass(frozen=True, eq=False)
class JointProposal:
    """What `joint` proposes.

    Attributes:
        axes: names and sizes of the attributes of each axis.
        forms: the integer rows of each.
        omega: the precision of every product of rows, in any unit; zero where it is not measured.
    """

    axes: tuple[Axis, ...]
    forms: tuple[AxisForm, ...]
    omega: Array

    def in_time(self, workload: Workload, over: str) -> JointProposal:
        """The same; a plan whose rows are not in the order of time is refused."""
        return self

    def measured_within(self, goal: Goal, *, tol: float, spare: CellCosts | None = None) -> JointRows:
        """The integer strategy that measures this within a privacy goal.

        Every k_i is the nearest integer to s √ω_i, and at least 1 where ω_i is positive: a zero would bias
        answers.

        Guarantee:
            spent ≤ the goal's budget per record, compared in exact rationals, with the sensitivity taken from
            the integers that are measured.

        Raises:
            DesignError: if the weights are not finite, or the goal is beyond what can be planned.
        """
        if not np.isfinite(self.omega).all() or (self.omega < 0).any() or not self.omega.any():
            raise DesignError(
                "the weights found are not finite and positive",
                field="weights",
                remedy="rescale the queries' rows",
            )
        k = multipliers_on_grid(np.sqrt(self.omega / self.omega.max()), goal, tol)
        bare = JointRows(
            self.axes, self.forms, exact.as_integers(k), scale=1, noise=goal.noise, neighbours=goal.neighbours
        )
        return within_goal(bare, goal, spare)
