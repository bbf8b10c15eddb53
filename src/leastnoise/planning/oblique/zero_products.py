"""Products that count for nothing, and are answered all the same.

A query of weight zero, or one without a target where only targets count, follows from queries that count. The
blocks from which it is answered may still be none that those need: blocks are sets of axes, and products over
other axes may add up to it. So it takes part in the search with a weight so small that it decides nothing
else, and a block that only such queries need gets a small share of the budget.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.planning.oblique.row_variances import totals_of
from leastnoise.planning.oblique.splitting import Split

# What all queries of an uncounted product weigh together, as a share of all that count. A block of this share
# of the total takes the square root of it, a thousandth, of the budget.
WEIGHT = 1e-6

# The share of the budget of blocks that only uncounted queries need, where others have taken all of it.
SHARE = 1e-3


def with_small_weights(weights: Array, n_rows: Array, needed: Array | None = None) -> Array:
    """The weights of products, with small positive ones in place of zeros.

    Args:
        weights: of every query of a product, (products,), not all zero.
        n_rows: how many queries each product has, (products,).
        needed: which zeros are replaced, all unless given.
    """
    small = WEIGHT * float(weights @ n_rows) / n_rows
    is_replaced = weights == 0 if needed is None else (weights == 0) & needed
    return np.where(is_replaced, small, weights)


def with_loose_caps(caps: Array) -> Array:
    """The caps of products, with finite ones that hardly ever bind in place of infinite ones."""
    are_finite = np.isfinite(caps)
    return np.where(are_finite, caps, float(caps[are_finite].max()) / WEIGHT)


def answering_all(split: Split, *, at_most: float = SHARE) -> Split:
    """The same split with a share of the budget for every block that some product needs.

    Args:
        at_most: the share that may be taken from the other blocks.
    """
    C = totals_of(split).sum(axis=0)
    lacking = np.where(split.x > 0, 0.0, np.sqrt(C))
    if not lacking.any():
        return split
    share = min(SHARE, at_most)
    return replace(split, x=(1 - share) * split.x + share * lacking / lacking.sum())
