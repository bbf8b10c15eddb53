"""A real-valued proposal on a grid of integers fine enough to cost next to nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.privacy import Goal
from leastnoise.query import Workload
from leastnoise.strategy.grid import (
    GRID_TOLERANCE,
    bits_for_scale,
    finer_bits,
    grid_bits_of_integers,
    grown,
    triangle_on_grid,
)
from leastnoise.strategy.integer_rows import Strategy
from leastnoise.strategy.proposal import Proposal
from leastnoise.strategy.time_order import in_time_order


@dataclass(frozen=True, eq=False)
class RealStrategy(Proposal[Strategy]):
    """What a method proposes: rows C·B with real or already integer coefficients.

    Attributes:
        coefficients: C, (r, k); any positive multiple of it is the same proposal. Integers of any shape, or
            a real upper triangular square; `strategies.proposals` makes either from other real rows.
        basis: B, an integer (k, n) array, or None for the identity.
        cells: the cells that the columns of C stand for, where they are not in their order; without a basis.
        is_backwards: whether the rows are measured from the last to the first; so they are with `cells`.
    """

    coefficients: Array
    basis: Array | None = None
    cells: Array | None = None
    is_backwards: bool = False

    def in_integers(self, goal: Goal, tol: float) -> Strategy:
        rows = rounded_rows(self, goal, tol)
        return Strategy(rows, scale=1, noise=goal.noise, neighbours=goal.neighbours)

    def in_time(self, workload: Workload, over: str) -> RealStrategy:
        """The same proposal with rows that can be measured period by period; see `in_time_order`."""
        found = in_time_order(self.coefficients, self.basis, workload, over)
        return RealStrategy(found.coefficients, found.basis, found.cells, is_backwards=True)


def rounded_rows(proposal: RealStrategy, goal: Goal, tol: float) -> Array:
    """The rows of a proposal in integers, fine enough for a goal and a relative gap.

    Raises:
        DesignError: if the proposal is not finite, or rounding would lose a direction.
    """
    C = np.asarray(proposal.coefficients)
    if not np.isfinite(C.astype(float, copy=False)).all():
        raise DesignError(
            "the strategy found is not finite", field="strategy", remedy="rescale the workload's rows"
        )
    if C.dtype.kind == "i":
        scaled = grown(C, grid_bits_of_integers(C, goal, tol))
    else:
        rows_of = C if proposal.basis is None else C @ proposal.basis.astype(float)
        longest = math.sqrt(float(np.einsum("ri,ri->i", rows_of, rows_of).max(initial=0)))
        scaled = rounded_triangle(C, longest, goal, tol)
    if proposal.basis is not None:
        scaled = exact.product(exact.as_integers(scaled), exact.as_integers(proposal.basis))
    if proposal.cells is not None:
        scaled = scaled[:, np.argsort(proposal.cells)]
    if proposal.is_backwards or proposal.cells is not None:
        scaled = np.ascontiguousarray(scaled[::-1])
    return scaled if scaled.dtype == np.int64 else exact.as_integers(scaled)


def rounded_triangle(C: Array, longest: float, goal: Goal, tol: float) -> Array:
    """The coefficients on a dyadic grid fine enough that rounding costs about GRID_TOLERANCE, or tol/100.

    C must be square and upper triangular: then a nonzero diagonal, seen on the
    integers, proves that no direction was lost.

    Args:
        longest: the length of the longest column of what is measured.
    """
    k = C.shape[0]
    if C.shape != (k, k) or not exact.is_upper_triangle(C):
        raise DesignError(
            "real coefficients must come as an upper triangular square; proposals.from_rows takes any rows",
            field="strategy",
        )
    if k == 0:
        return C.astype(object)
    return triangle_on_grid(
        C, longest, GRID_TOLERANCE, least_bits=bits_for_scale(goal, tol), more_bits=finer_bits(tol)
    )
