"""The grid on which real proposals become integers, and what that may cost: one budget of errors.

What is measured are integers, and their noise has an integer scale. Everything that is rounded has its share
of the variance that rounding may add, where the usual gap of 10⁻⁶ is asked for; for a smaller gap all shares
are smaller in proportion, down to 10⁻¹² or so, as floats hold no strategy to more digits:

    coefficients of rows over all cells      10⁻⁸     GRID_TOLERANCE
    coefficients of rows of one axis         10⁻⁸     a hundredth of the gap, AXIS_SHARE
    multipliers of blocks                    2⁻²⁶     LEAST_MULTIPLIER_BITS, of the least of them
    multipliers of products with weights     2⁻²²     where one is 2¹⁸ times smaller than the largest
    rows of products with weights            10⁻⁵     PRODUCT_ROW_BITS; then the weights are found anew
    factors of strategies side by side       2⁻²⁰     FACTOR_BITS, of the least of them
    bases of queries that are not whole      2⁻⁴⁹     REAL_ROW_BITS, of the length of a query
    the scale of the noise, rounded up       10⁻⁸     LEAST_SCALE_BITS
    the noise itself, rounded to the grid    nothing  with noise of 2²⁸ steps

Errors of coefficients are spread over ±½ step, so that the noise changes by about ‖E C⁻¹‖_F =
step · √(k/12) · ‖C⁻¹‖_F of itself. All of this concerns accuracy alone: what is spent follows from the
integers.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.decompositions import triangle_inverse_norm
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.privacy import Goal

# Rounding may change the noise by about this relative amount; the gap asked by default is a hundred times
# larger.
GRID_TOLERANCE = 1e-8

# With σ (or b) at least 2^28 grid steps, rounding it up to a whole number costs less than 1e-8 of the
# variance, and rounding the noise to the grid nothing.
LEAST_SCALE_BITS = 28

# Bits of the least multiplier of a block: rounding it moves its variance by at most a share of 2^-26, 1.5e-8.
LEAST_MULTIPLIER_BITS = 26

# Bits of the largest multiplier of products with weights of their own. One that is 2^18 times smaller still
# has 22 bits, and rounding moves its variance by a share of 2^-22, up or down.
MULTIPLIER_BITS = 40

# Bits of the largest coefficient of a row of an axis whose products have weights of their own. The optimum
# over the weights, found anew for the integers, takes up what rounding moves to first order.
PRODUCT_ROW_BITS = 14

# Bits of the least factor of a strategy beside others: shares of the budget are kept to a millionth.
FACTOR_BITS = 20

# Bits of a basis of real-valued queries. A query of length 1 is moved by 2^-49 or so, far less than RANK_TOL.
REAL_ROW_BITS = 48

# No variance grows by a larger share where multipliers and the scale of the noise become integers.
ROUNDING = 2.0**-24

# What rounding the rows of an axis may cost, of the gap that was asked for.
AXIS_SHARE = 1 / 100

# The gap those are meant for. Where a smaller one is asked for, the grid is finer in proportion.
_USUAL_GAP = 1e-6

# But by at most this many bits: floats hold no strategy to more digits.
_MAX_FINER_BITS = 20

# Bits beyond which floats overflow; more are appended as zeros, or left out.
_MOST_BITS = 900

# Rows rounded at a time, few enough for the caches of a processor.
_ROWS_AT_A_TIME = 32


def finer_bits(tol: float) -> int:
    """Bits by which the grid is finer than usual, for a gap smaller than usual."""
    return min(math.ceil(math.log2(max(_USUAL_GAP / tol, 1.0))), _MAX_FINER_BITS)


def bits_for_scale(goal: Goal, tol: float) -> int:
    """Bits of Δ that leave the noise at least LEAST_SCALE_BITS wide, whatever the budget."""
    budget = goal.budget
    magnitude = budget.numerator.bit_length() - budget.denominator.bit_length() + 1
    root = -(-magnitude // goal.noise.power)
    return max(20, LEAST_SCALE_BITS + root) + finer_bits(tol)


def grid_bits_of_integers(C: Array, goal: Goal, tol: float) -> int:
    """Bits by which integer rows, which need no rounding, grow to make the grid of the noise fine."""
    return max(bits_for_scale(goal, tol), 30 - exact.bit_length(C))


def grown(integers: Array, bits: int) -> Array:
    """Integers times 2^bits, exactly."""
    is_wide = exact.bit_length(integers) + bits > exact.SAFE_BITS
    return np.asarray(integers.astype(object if is_wide else np.int64) << bits)


def on_grid(values: Array, bits: int, unit: float = 1.0) -> Array:
    """Real numbers over a unit times 2^bits, to the nearest integers: int64, or Python integers beyond.

    Of more than 900 bits, 900 are taken.
    """
    step = 2.0 ** min(bits, _MOST_BITS)
    # The largest in size without a copy of the sizes.
    largest = max(values.max(initial=0.0), -values.min(initial=0.0))
    if largest / unit * step >= 2.0**exact.SAFE_BITS:
        return np.asarray(np.vectorize(int, otypes=[object])(np.rint(values / unit * step)))
    grid = np.empty(values.shape, dtype=np.int64)
    for start in range(0, len(values), _ROWS_AT_A_TIME):
        some = slice(start, start + _ROWS_AT_A_TIME)
        grid[some] = np.rint(values[some] / unit * step)  # a power of two is multiplied exactly
    return grid


def triangle_on_grid(
    C: Array, longest: float, tolerance: float, *, least_bits: int = 0, more_bits: int = 0
) -> Array:
    """An upper triangle in integers, fine enough that rounding changes the noise by about the tolerance.

    A nonzero diagonal, seen on the integers, proves that no direction was lost.

    Args:
        C: square and upper triangular; any positive multiple of it is the same.
        longest: the length of the longest column of what is measured.
        least_bits: of Δ.
        more_bits: by which the grid is finer than the tolerance asks for.

    Raises:
        DesignError: if a direction is lost.
    """
    unit = longest or 1.0
    is_full = (np.diag(C) / unit).all()
    spread = math.sqrt(len(C) / 12) * unit * triangle_inverse_norm(C) if is_full else math.inf
    if not math.isfinite(spread):
        raise DesignError(
            "the strategy found lost a direction", field="strategy", remedy="rescale the workload's rows"
        )
    bits = math.ceil(math.log2(max(spread, 1.0) / tolerance)) + more_bits
    grid = on_grid(C, max(bits, least_bits), unit)
    if not grid.diagonal().all():
        raise DesignError(
            "rounding would lose a direction", field="strategy", remedy="rescale the workload's rows"
        )
    return grid


def multipliers_on_grid(roots: Array, goal: Goal, tol: float) -> Array:
    """Multipliers in proportion to real ones of which the largest is 1; at least 1 where they are positive.

    A zero would bias answers. Where the budget is large they have many bits, so that the noise is many steps
    of the grid wide.
    """
    bits = max(MULTIPLIER_BITS, bits_for_scale(goal, tol)) + finer_bits(tol)
    k = on_grid(roots, bits)
    k = np.where((roots > 0) & (k < 1), 1, k)
    return np.asarray(k.astype(object) << (bits - _MOST_BITS)) if bits > _MOST_BITS else k


def power_of_two(exponent: float) -> int:
    """2^exponent to the nearest integer, or to 53 bits."""
    whole = math.floor(exponent)
    leading = int(2.0 ** (exponent - whole) * 2**52)
    shift = whole - 52
    return leading << shift if shift >= 0 else (leading + (1 << (-shift - 1))) >> -shift
