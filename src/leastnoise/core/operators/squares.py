"""Squared lengths of rows after a product: the variances of answers, without an array of all rows."""

from __future__ import annotations

from leastnoise.core.operators.base import Array, Operator, sum_of_squares

# Products of a row with a column of G up to which all are multiplied out: a sum of squares loses no digit.
MAX_MULTIPLIED = 2**28


def squared_rows(operator: Operator, gain: Array) -> Array:
    """‖w G‖² for every row w of an operator, (m,), for a matrix G, (n, r)."""
    if operator.shape[0] * gain.shape[1] > MAX_MULTIPLIED and operator.is_quick:
        return operator.squared_products(gain)
    return sum_of_squares(operator, gain)
