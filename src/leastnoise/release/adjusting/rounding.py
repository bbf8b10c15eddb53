"""Whole numbers near real cells, such that sums over many cells stay near too.

With C_i = x_1 + … + x_i the cells are rounded through their running sums,

    z_i = round(C_i) − round(C_{i−1}) ,                                                                  (1)

so that every sum over cells that follow one another differs by at most one from what it was, a cell by less
than one in each direction, and z_i ≥ 0 where x_i ≥ 0. The total becomes the whole number nearest to it. Cells
stand with the last attribute fastest: counts of the first attribute, of the first two, and so on, are such
sums. Other sums would add up the rounding of their cells; so cells then exchange records where this brings
the whole nearer to x as the measurements see it, eᵀG e with e = z − x: neighbours in the last attribute at
first, then those with most to gain among cells that differ in the last attribute alone, in the last two, and
so on. It leaves the total and sums that hold both cells as they are, keeps the sums above within one of what
they were, and is done only as long as eᵀG e falls.

It ends where no exchange that is tried gains, at a number of trials, at the deadline or at Ctrl-C; cells are
whole at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.release.adjusting.adjust_progress import AdjustWatch
from leastnoise.release.adjusting.information import Information

# The share of all cells that is exchanged at first; a quarter of that where it gains nothing.
_FIRST_SHARE = 8

# Trials, of exchanges made together, that are allowed in any case.
_TRIALS = 60

# Visits of cells by products with G up to which more trials are allowed. Pairs of five attributes, 114,660
# cells: 400 trials, one second, lose a quarter less.
_MAX_VISITS = 5 * 10**7


class Rounded(NamedTuple):
    """What was found.

    Attributes:
        cells: whole numbers, (n,).
        ended: "deadline" or "interrupted" where exchanges were cut short, else "converged".
    """

    cells: Array
    ended: Ended


class _Pairs(NamedTuple):
    """Cells that may exchange a record: one gives it, one takes it."""

    giving: Array
    taking: Array


_Candidates = Callable[[Array, Array], _Pairs]


def rounded(
    cells: Array, shape: Sequence[int], information: Information | None, watch: AdjustWatch | None = None
) -> Rounded:
    """Whole numbers of the same total, rounded.

    Args:
        shape: how many values the attributes have.
        information: None where it is not known how the measurements see the cells.
    """
    z = np.diff(np.rint(np.cumsum(cells)), prepend=0.0)
    if information is None or len(cells) < 2:
        return Rounded(z, "converged")
    return _exchanged(cells, z, shape, information, watch or AdjustWatch())


def _exchanged(
    x: Array, z: Array, shape: Sequence[int], information: Information, watch: AdjustWatch
) -> Rounded:
    trials, most_trials = 0, max(_TRIALS, _MAX_VISITS // len(x))
    # How many cells follow one another that differ in the last attribute alone, in the last two, …
    spans = [math.prod(shape[i:]) for i in reversed(range(len(shape)))]
    rounds = [[_neighbours(spans[0], offset) for offset in (0, 1)]]
    rounds += [[_extremes(spans[:i], span)] for i, span in enumerate(spans)]
    is_done = False
    with watch.keeping_the_best():
        e = z - x
        q = information.times(e)
        value = float(e @ q)
        for kinds in rounds:
            n_tried = max(1, len(x) // _FIRST_SHARE)
            while n_tried and trials < most_trials and not watch.is_over():
                before = value
                for candidates in kinds:
                    move = _best_moves(e, q, candidates(e, q), n_tried)
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
        is_done = not watch.is_over()
    return Rounded(z, watch.ended(is_converged=is_done))


def _neighbours(last: int, offset: int) -> _Candidates:
    """Pairs of cells that follow one another, each from the one with the higher slope to the other."""

    def pairs(e: Array, q: Array) -> _Pairs:
        left = np.arange(len(e)).reshape(-1, last)[:, offset : last - 1 : 2].reshape(-1)
        is_higher = q[left] > q[left + 1]
        return _Pairs(left + ~is_higher, left + is_higher)

    return pairs


def _extremes(within: Sequence[int], span: int) -> _Candidates:
    """In each span, from the cell of highest slope that may lose a record to that of lowest that may gain.

    Args:
        within: shorter spans, whose sums are to stay within one of what they were.
    """

    def pairs(e: Array, q: Array) -> _Pairs:
        may_give, may_take = e > 0, e < 0
        for part in within:
            sums = np.repeat(e.reshape(-1, part).sum(axis=1), part)
            may_give, may_take = may_give & (sums > 0), may_take & (sums < 0)
        starts = np.arange(0, len(e), span)
        giving = np.where(may_give, q, -np.inf).reshape(-1, span).argmax(axis=1) + starts
        taking = np.where(may_take, q, np.inf).reshape(-1, span).argmin(axis=1) + starts
        is_allowed = may_give[giving] & may_take[taking]
        return _Pairs(giving[is_allowed], taking[is_allowed])

    return pairs


def _best_moves(e: Array, q: Array, pairs: _Pairs, most: int) -> Array | None:
    """One record from a cell to another, for the pairs with most to gain at first sight."""
    giving, taking = pairs
    # Within one of x, which keeps cells of zero or more so: z > x − 1 ≥ −1.
    is_allowed = (e[giving] > 0) & (e[taking] < 0)
    merit = np.where(is_allowed, q[giving] - q[taking], 0.0)
    if not len(merit):
        return None
    chosen = np.argpartition(-merit, min(most, len(merit)) - 1)[:most]
    chosen = chosen[merit[chosen] > 0]
    if not len(chosen):
        return None
    move = np.zeros_like(e)
    move[giving[chosen]], move[taking[chosen]] = -1.0, 1.0
    return move
