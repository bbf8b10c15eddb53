"""Structured strategies made from what a method proposes.

A method proposes what each axis measures, in integers already, and which share x_s of the budget each block
gets. The multiplier of block s, k_s ∝ √(x_s / Π_a cost_a) with Gaussian noise and x_s / Π_a cost_a with
Laplace noise, is rounded to an integer of many digits; cost_a is the largest column of axis a. Sensitivity
and noise scale follow from those integers alone, exactly: rounding costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.privacy import ADD_REMOVE, GAUSSIAN, Goal
from leastnoise.query import Axis, AxisSet, Workload
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.grid import (
    LEAST_MULTIPLIER_BITS,
    bits_for_scale,
    finer_bits,
    multipliers_on_grid,
    power_of_two,
)
from leastnoise.strategy.measured import Measured
from leastnoise.strategy.proposal import Proposal
from leastnoise.strategy.rounding import RealStrategy
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.integer_blocks import ProductBlock
from leastnoise.strategy.structured.tables import WeightedTables


@dataclass(frozen=True, eq=False)
class BlockProposal(Proposal[Structured]):
    """What a method for products proposes.

    Attributes:
        axes, forms, centres, order: as in `Structured`.
        blocks: the split axes of each block, and the form of each of them.
        whole: for each block the form of every whole axis; the first of all unless given.
        shares: x_s, positive, in any unit: how the budget is divided over blocks.
        are_tables: whether blocks are cross tables as they are, rather than residuals.
    """

    axes: tuple[Axis, ...]
    forms: tuple[tuple[AxisForm, ...], ...]
    blocks: tuple[tuple[AxisSet, tuple[int, ...]], ...]
    shares: Array
    centres: Mapping[tuple[int, AxisSet], int] = field(default_factory=dict)
    order: tuple[int, ...] | None = None
    are_tables: bool = False
    whole: tuple[tuple[int, ...], ...] | None = None

    def in_integers(self, goal: Goal, tol: float) -> Structured:
        # Many bits where the budget is large, so that the noise is many steps of the grid wide.
        bits = max(LEAST_MULTIPLIER_BITS + finer_bits(tol), bits_for_scale(goal, tol))
        blocks = [
            ProductBlock(axes, forms, multiplier, whole)
            for (axes, forms), multiplier, whole in zip(
                self.blocks, self._multipliers(goal.noise.power, bits), self._whole_forms, strict=True
            )
        ]
        kind = WeightedTables if self.are_tables else Structured
        return kind(
            self.axes,
            self.forms,
            blocks,
            scale=1,
            noise=goal.noise,
            neighbours=goal.neighbours,
            centres=self.centres,
            order=self.order,
        )

    @property
    def _whole_forms(self) -> tuple[tuple[int, ...], ...]:
        return ((),) * len(self.blocks) if self.whole is None else self.whole

    def _multipliers(self, power: int, bits: int) -> list[int]:
        if not all(form.largest_cost(power) for own in self.forms for form in own):
            raise DesignError(
                "an axis is measured by zeros alone", field="strategy", remedy="rescale the workload's rows"
            )
        # Logarithms: products of many axes leave the range of floats.
        costs = [
            [math.log2((form.measured if self.are_tables else form).largest_cost(power)) for form in own]
            for own in self.forms
        ]
        if not all(math.isfinite(x) and x > 0 for x in self.shares.tolist()):
            raise DesignError(
                "a block without a share of the budget cannot be measured",
                field="weights",
                remedy="rescale the weights",
            )
        places = [a for a, own in enumerate(self.forms) if own and not own[0].is_split]
        wanted = []
        for share, (axes, forms), whole in zip(
            self.shares.tolist(), self.blocks, self._whole_forms, strict=True
        ):
            # Whole axes of one form change all multipliers alike.
            chosen = [*zip(axes, forms, strict=True), *(zip(places, whole, strict=True) if whole else ())]
            wanted.append((math.log2(share) - sum([costs[a][form] for a, form in chosen])) / power)
        least = min(wanted)
        return [power_of_two(exponent - least + bits) for exponent in wanted]


def single_block(axes: Sequence[Axis], forms: Sequence[Sequence[AxisForm]]) -> BlockProposal:
    """One block over all axes that have a form, none of them split."""
    return BlockProposal(tuple(axes), tuple(tuple(own) for own in forms), (((), ()),), np.ones(1))


@dataclass(frozen=True, eq=False)
class JointProposal(Proposal[Structured]):
    """What `joint` proposes.

    Attributes:
        axes: names and sizes of the attributes of each axis.
        forms: the integer rows of each.
        omega: the precision of every product of rows, in any unit; zero where it is not measured.
    """

    axes: tuple[Axis, ...]
    forms: tuple[AxisForm, ...]
    omega: Array

    def in_time(self, workload: Workload, over: str) -> Proposal[Measured]:
        """All rows that are measured, rotated into the order of time as any rows are.

        Raises:
            TooLargeError: if they have too many coefficients to be written out.
        """
        is_measured = self.omega > 0
        rows = self._measuring(is_measured.astype(np.int64), GAUSSIAN, ADD_REMOVE).dense()
        C = np.diag(np.sqrt(self.omega[is_measured] / self.omega.max()))
        if is_measured.all() and rows.shape[0] == rows.shape[1]:
            return RealStrategy(C @ rows.astype(float)).in_time(workload, over)
        return RealStrategy(C, rows).in_time(workload, over)

    def in_integers(self, goal: Goal, tol: float) -> Structured:
        """Every k_i is the nearest integer to s √ω_i, and at least 1 where ω_i is positive.

        A zero would bias answers.
        """
        if not np.isfinite(self.omega).all() or (self.omega < 0).any() or not self.omega.any():
            raise DesignError(
                "the weights found are not finite and positive",
                field="weights",
                remedy="rescale the queries' rows",
            )
        k = multipliers_on_grid(np.sqrt(self.omega / self.omega.max()), goal, tol)
        return self._measuring(k, goal.noise, goal.neighbours)

    def _measuring(self, multipliers: Array, noise: str, neighbours: str) -> Structured:
        """These multiples of all products of rows, with noise of scale 1."""
        return Structured(
            self.axes,
            [[form] for form in self.forms],
            [ProductBlock((), (), 1, weights=multipliers)],
            scale=1,
            noise=noise,
            neighbours=neighbours,
        )
