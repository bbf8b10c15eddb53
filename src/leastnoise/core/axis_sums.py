"""Numbers of all cells summed along axes, and sums over axes given back to all cells.

What looks at few axes at a time needs the sums over all others, and its results count for every cell. Sets of
axes that hold one another share the work: each is made from the smallest that is known above it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from leastnoise.core.operators import Array

# Axes, rising.
Places = tuple[int, ...]


def n_cells_of(sizes: Sequence[int], places: Collection[int]) -> int:
    """How many combinations of values some axes have."""
    return math.prod(sizes[a] for a in places)


def axis_sums(sizes: Sequence[int], values: Array, wanted: set[Places]) -> dict[Places, Array]:
    """Numbers of all cells, (c, *sizes), summed over all axes but those wanted, for each set."""
    every = tuple(range(len(sizes)))
    found = {every: values}
    for places in sorted(wanted, key=lambda own: n_cells_of(sizes, own), reverse=True):
        parent = _smallest_above(sizes, places, found)
        # One axis at a time, the largest first: other sets will use what lies between.
        while parent != places:
            left_out = max((a for a in parent if a not in places), key=sizes.__getitem__)
            smaller = tuple(a for a in parent if a != left_out)
            found[smaller] = found[parent].sum(axis=1 + parent.index(left_out))
            parent = smaller
    return found


def spread_over_cells(sizes: Sequence[int], sums: dict[Places, Array]) -> Array:
    """The sum over all sets of axes of numbers of their cells, for every cell; the sums are overwritten."""
    every = tuple(range(len(sizes)))
    total = sums.pop(every, None)
    total = np.zeros(sizes) if total is None else np.ascontiguousarray(total)
    left = {places: np.ascontiguousarray(values) for places, values in sums.items()}
    for places in sorted(left, key=lambda own: n_cells_of(sizes, own)):
        values = left.pop(places)
        above = _smallest_above(sizes, places, [every, *left])
        shape = [sizes[a] if a in places else 1 for a in above]
        target = total if above == every else left[above]
        target += values.reshape(shape)
    return total.reshape(-1)


def _smallest_above(sizes: Sequence[int], places: Places, candidates: Iterable[Places]) -> Places:
    """The set with the fewest cells among those that contain these axes."""
    above = (own for own in candidates if set(places) <= set(own))
    return min(above, key=lambda own: n_cells_of(sizes, own))
