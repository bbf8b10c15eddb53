"""How much noise reaches each row of an operator: ‖w G‖² for every row w, without an array of all rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from leastnoise.operators.base import Array, Operator

# Products of a row with a column of G up to which all are multiplied out: a sum of squares loses no digit.
MAX_MULTIPLIED = 2**28

# The share of a quadratic form that may be lost to rounding before its row is multiplied out after all.
CANCELLED = 1e-9

# Numbers that are held at a time.
CHUNK = 2**22


def squared_rows(operator: Operator, gain: Array) -> Array:
    """‖w G‖² for every row w of an operator, (m,), for a matrix G, (n, r)."""
    m, r = operator.shape[0], gain.shape[1]
    if m * r > MAX_MULTIPLIED and operator.is_quick:
        return _by_quadratic_forms(operator, gain)
    total = np.zeros(m)
    for part in column_chunks(operator, gain):
        total += (part**2).sum(axis=1)
    return total


def column_chunks(operator: Operator, gain: Array) -> Iterator[Array]:
    """W G some columns at a time, (m, few)."""
    step = max(1, CHUNK // max(operator.shape))
    for start in range(0, gain.shape[1], step):
        yield operator.apply(gain[:, start : start + step])


def _by_quadratic_forms(operator: Operator, gain: Array) -> Array:
    """The same for very many rows, as w (G Gᵀ) wᵀ; where that loses digits, row by row.

    The form of row w is known to about n roundings of (Σ_i |w_i| √C_ii)², C = G Gᵀ. Rows of quick
    operators have entries of one sign.
    """
    covariance = gain @ gain.T
    found = operator.quadratic(covariance)
    spread = operator.apply(np.sqrt(np.maximum(np.diag(covariance), 0))) ** 2
    doubtful = np.flatnonzero(operator.shape[1] * np.finfo(float).eps * spread > CANCELLED * found)
    step = max(1, CHUNK // operator.shape[1])
    for start in range(0, len(doubtful), step):
        index = doubtful[start : start + step]
        found[index] = ((operator.rows(index) @ gain) ** 2).sum(axis=1)
    return np.asarray(found)
