"""A real-valued proposal on a grid of integers fine enough to cost next to nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.decompositions import triangle_inverse_norm
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.privacy import CellCosts, Goal
from leastnoise.query import Workload
from leastnoise.strategy.budget import check_spent, least_scale
from leastnoise.strategy.integer_rows import Strategy
from leastnoise.strategy.time_order import in_time_order

# Rounding may change the noise by about this relative amount; the gap asked by
# default is a hundred times larger.
GRID_TOLERANCE = 1e-8

# With σ (or b) at least 2^28 grid steps, rounding it up to a whole number costs
# less than 1e-8 of the variance, and rounding the noise to the grid nothing.
LEAST_SCALE_BITS = 28

# The gap those two are meant for. Where a smaller one is asked for, the grid is finer in proportion.
_USUAL_GAP = 1e-6

# But by at most this many bits: floats hold no strategy to more digits.
_MAX_FINER_BITS = 20


# Rows rounded at a time, few enough for the caches of a processor.
_ROWS_AT_A_TIME = 32


@dataclass(frozen=True, eq=False)
class RealStrategy:
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

    def measured_within(self, goal: Goal, *, tol: float, spare: CellCosts | None = None) -> Strategy:
        """The integer strategy that measures this within a privacy goal; see `integer_strategy`."""
        return integer_strategy(self, goal, tol=tol, spare=spare)

    def in_time(self, workload: Workload, over: str) -> RealStrategy:
        """The same proposal with rows that can be measured period by period; see `in_time_order`."""
        found = in_time_order(self.coefficients, self.basis, workload, over)
        return RealStrategy(found.coefficients, found.basis, found.cells, is_backwards=True)


def integer_strategy(
    proposal: RealStrategy, goal: Goal, *, tol: float = _USUAL_GAP, spare: CellCosts | None = None
) -> Strategy:
    """The integer strategy that measures a proposal within a privacy goal.

    Args:
        tol: the relative gap to the optimum that was asked for; rounding costs far less.
        spare: what a record of each cell may spend, where earlier plans have used part of the goal.

    Guarantee:
        spent ≤ the goal's budget per record, or in every cell what is spare there, compared
        in exact rationals, with the sensitivity taken from the integer rows that are
        measured. Nothing about the proposal is trusted.

    Raises:
        DesignError: if the proposal is not finite, or rounding would lose a direction.
    """
    return _scaled_to(goal, rounded_rows(proposal, goal, tol), spare)


def rounded_rows(proposal: RealStrategy, goal: Goal, tol: float) -> Array:
    """The rows of a proposal in integers, fine enough for a goal and a relative gap.

    Raises:
        DesignError: as `integer_strategy`.
    """
    C = np.asarray(proposal.coefficients)
    if not np.isfinite(C.astype(float, copy=False)).all():
        raise DesignError(
            "the strategy found is not finite", field="strategy", remedy="rescale the workload's rows"
        )
    if C.dtype.kind == "i":
        bits = grid_bits_of_integers(C, goal, tol)
        is_wide = exact.bit_length(C) + bits > exact.SAFE_BITS
        scaled = C.astype(object if is_wide else np.int64) << bits
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


def _scaled_to(goal: Goal, rows: Array, spare: CellCosts | None) -> Strategy:
    """Integer rows with the least integer scale that the goal allows."""
    bare = Strategy(rows, scale=1, noise=goal.noise, neighbours=goal.neighbours)
    strategy = bare.with_scale(least_scale(bare, goal, spare))
    check_spent(strategy, goal, spare)
    return strategy


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
    unit = longest or 1.0
    if not (np.diag(C) / unit).all():
        raise DesignError(
            "the strategy found lost a direction", field="strategy", remedy="rescale the workload's rows"
        )
    # Rounding errors E are spread over ±½ step: the relative change of the noise
    # is about ‖E C⁻¹‖_F = step · √(k/12) · ‖C⁻¹‖_F.
    spread = math.sqrt(k / 12) * unit * triangle_inverse_norm(C)
    bits = math.ceil(math.log2(max(spread, 1.0) / GRID_TOLERANCE)) + finer_bits(tol)
    bits = max(bits, bits_for_scale(goal, tol))
    step = 2.0 ** min(bits, 900)
    # On an ill-conditioned basis the coefficients are far larger than the columns of C·B.
    is_wide = max(C.max(), -C.min()) / unit * step >= 2.0**exact.SAFE_BITS
    if is_wide:
        grid = np.vectorize(int, otypes=[object])(np.rint(C / unit * step))
    else:
        grid = np.empty((k, k), dtype=np.int64)
        for start in range(0, k, _ROWS_AT_A_TIME):
            some = slice(start, start + _ROWS_AT_A_TIME)
            grid[some] = np.rint(C[some] / unit * step)  # a power of two is multiplied exactly
    if not grid.diagonal().all():
        raise DesignError(
            "rounding would lose a direction", field="strategy", remedy="rescale the workload's rows"
        )
    return np.asarray(grid)


def bits_for_scale(goal: Goal, tol: float) -> int:
    """Bits of Δ that leave the noise at least LEAST_SCALE_BITS wide, whatever the budget."""
    budget = goal.budget
    magnitude = budget.numerator.bit_length() - budget.denominator.bit_length() + 1
    root = -(-magnitude // goal.noise.power)
    return max(20, LEAST_SCALE_BITS + root) + finer_bits(tol)


def grid_bits_of_integers(C: Array, goal: Goal, tol: float) -> int:
    """Bits by which integer rows, which need no rounding, grow to make the grid of the noise fine."""
    return max(bits_for_scale(goal, tol), 30 - exact.bit_length(C))


def finer_bits(tol: float) -> int:
    """Bits by which the grid is finer than usual, for a gap smaller than usual."""
    return min(math.ceil(math.log2(max(_USUAL_GAP / tol, 1.0))), _MAX_FINER_BITS)
