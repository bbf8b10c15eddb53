"""Whole numbers near real cells, such that sums over many cells stay near too.

With C_i = x_1 + … + x_i the cells are rounded through their running sums,

    z_i = round(C_i) − round(C_{i−1}) ,                                                                  (1)

so that every sum over cells that follow one another differs by at most one from what it was, a cell by less
than one in each direction, and z_i ≥ 0 where x_i ≥ 0. The total becomes the whole number nearest to it. Cells
stand with the last attribute fastest: counts of the first attribute, of the first two, and so on, are such
sums. Other sums would add up the rounding of their cells; so neighbouring cells then exchange records where
this brings the whole nearer to x as the measurements see it, eᵀG e with e = z − x. It leaves the total and
sums that hold both cells as they are, and is done only as long as eᵀG e falls.
"""

from __future__ import annotations

import numpy as np

from leastnoise.adjust.information import Information
from leastnoise.operators import Array

# Exchanges are tried together, some of the best at a time; so many trials at least, and more while they visit
# few cells in all. Pairs of five attributes, 114,660 cells: 400 trials, one second, lose a quarter less.
_FIRST_SHARE, _TRIALS, _MOST_VISITS = 8, 60, 5 * 10**7


def rounded(cells: Array, last: int, information: Information | None) -> Array:
    """Whole numbers, (n,), of the same total, rounded.

    Args:
        last: how many values the last attribute has: cells are exchanged among so many that follow.
        information: None where it is not known how the measurements see the cells.
    """
    z = np.diff(np.rint(np.cumsum(cells)), prepend=0.0)
    return z if information is None or last < 2 else _exchanged(cells, z, last, information)


def _exchanged(x: Array, z: Array, last: int, information: Information) -> Array:
    e = z - x
    q = information.times(e)
    value = float(e @ q)
    n_tried = max(1, len(x) // _FIRST_SHARE)
    trials, most_trials = 0, max(_TRIALS, _MOST_VISITS // len(x))
    while n_tried and trials < most_trials:
        before = value
        for offset in (0, 1):
            move = _best_moves(e, q, last, offset, n_tried)
            if move is None:
                continue
            trials += 1
            change = information.times(move)
            new = value + 2 * float(move @ q) + float(move @ change)
            # Rounding is no gain.
            if new < value * (1 - 1e-9):
                e, z, q, value = e + move, z + move, q + change, new
        if value == before:
            n_tried //= 4
    return z


def _best_moves(e: Array, q: Array, last: int, offset: int, most: int) -> Array | None:
    """One record from a cell to its neighbour, or back, for the pairs with most to gain at first sight."""
    n = (last - offset) // 2 * 2
    if n < 2:
        return None
    errors, slopes = (v.reshape(-1, last)[:, offset : offset + n].reshape(-1, 2) for v in (e, q))
    # To the right where the slope is higher on the left.
    gain = slopes[:, 0] - slopes[:, 1]
    sign = np.where(gain > 0, 1.0, -1.0)
    new = errors + np.stack([-sign, sign], axis=1)
    # Within one of x, which keeps cells of zero or more so: z > x − 1 ≥ −1.
    is_allowed = (np.abs(new) < 1).all(axis=1)
    merit = np.where(is_allowed, np.abs(gain), 0.0)
    chosen = np.argpartition(-merit, min(most, len(merit)) - 1)[:most]
    chosen = chosen[merit[chosen] > 0]
    if not len(chosen):
        return None
    pairs = np.zeros_like(errors)
    pairs[chosen, 0], pairs[chosen, 1] = -sign[chosen], sign[chosen]
    move = np.zeros((len(e) // last, last))
    move[:, offset : offset + n] = pairs.reshape(-1, n)
    return move.reshape(-1)
