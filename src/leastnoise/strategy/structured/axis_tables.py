"""Cross tables over sets of axes: added up, widened, multiplied along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.query import AxisSet


def along(matrix: Array, table: Array, position: int) -> Array:
    """A matrix applied along one axis of a table."""
    return np.moveaxis(np.tensordot(matrix, table, axes=(1, position)), 0, position)


def summed(table: Array, kept: tuple[int, ...]) -> Array:
    """A table added up over all axes but some."""
    left_out = tuple(a for a in range(table.ndim) if a not in kept)
    return np.asarray(table.sum(axis=left_out)) if left_out else table


def widened(table: Array, axes: tuple[int, ...], wide: tuple[int, ...]) -> Array:
    """A table over some axes as one over more, of length 1 along the others."""
    sizes = dict(zip(axes, table.shape, strict=True))
    return table.reshape([sizes.get(a, 1) for a in wide])


def wider(axes: AxisSet, n_axes: int) -> AxisSet:
    """A set of axes and the first that is missing: the chain of sets from any to all."""
    missing = next(a for a in range(n_axes) if a not in axes)
    return tuple(sorted((*axes, missing)))


def table_of(axes: AxisSet, tables: dict[AxisSet, Array]) -> Array:
    """A cross table from those that are there already, one axis less at a time; all that come up are kept.

    All pairs of five axes: three sums over all cells instead of ten.
    """
    if axes not in tables:
        wide = wider(axes, max(map(len, tables)))
        tables[axes] = np.asarray(table_of(wide, tables).sum(axis=wide.index(_only(wide, axes))))
    return tables[axes]


def _only(wide: AxisSet, axes: AxisSet) -> int:
    return next(a for a in wide if a not in axes)


def covering_sets(sets: Sequence[AxisSet]) -> dict[AxisSet, AxisSet]:
    """For every set of axes one that holds it and is part of no other, from which it is added up."""
    asked = set(sets)
    found: dict[AxisSet, AxisSet] = {}
    for axes in sorted(asked, key=lambda s: (-len(s), s)):
        if axes not in found:
            # Of all sets of axes and those asked for, whichever are fewer are gone through.
            if 2 ** len(axes) <= len(asked):
                parts = [s for size in range(len(axes) + 1) for s in combinations(axes, size)]
            else:
                parts = [s for s in asked if set(s) <= set(axes)]
            for part in parts:
                found.setdefault(part, axes)
    return {axes: found[axes] for axes in sets}
