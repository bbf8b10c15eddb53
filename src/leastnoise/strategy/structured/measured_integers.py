"""From counts of records to the integers of blocks, exactly, without floats.

Nothing of the size of the domain is built: a block is measured from the cross table of its own axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.operators import Array
from leastnoise.query import Axis, AxisSet
from leastnoise.strategy.measured import CountTables
from leastnoise.strategy.structured.axis_form import AxisForm

# Bits of a limb of the counts, which leave room for sums and differences along the axes.
_LIMB = 32


def cross_tables(axes: Sequence[Axis], sets: Sequence[AxisSet], tables: CountTables) -> Iterator[Array]:
    """For every set of axes its table of counts, an array with one axis for each."""
    source = _covering(sets)
    largest = list(dict.fromkeys(source.values()))
    names = [tuple(name for a in own for name in axes[a].names) for own in largest]
    counted = {
        own: np.asarray(table).reshape([axes[a].size for a in own])
        for own, table in zip(largest, tables(names), strict=True)
    }
    for own in sets:
        covering = source[own]
        # Sums of Python integers, or of int64 below 2^63 in all, as the counts of one table are.
        left_out = tuple(i for i, a in enumerate(covering) if a not in own)
        table = counted[covering]
        yield np.asarray(table.sum(axis=left_out), dtype=table.dtype) if left_out else table


def block_answers(table: Array, forms: Sequence[AxisForm]) -> Array:
    """⊗ M_a applied to a table of counts, as Python integers, the work independent of the counts."""
    if not forms:
        return np.array([int(table.reshape(-1)[0])], dtype=object)
    if table.dtype == object:
        return _along_axes(table, forms)
    table = table.astype(np.int64, casting="safe")
    grown = math.prod(2 * form.size for form in forms if form.kind == "centred").bit_length()
    if _LIMB + grown > exact.SAFE_BITS:
        return _along_axes(table.astype(object), forms)
    # Centred axes in two limbs of int64, each too small to wrap; then, in Python integers, the others.
    centred = [form if form.rows is None else None for form in forms]
    high = _along_axes(table >> _LIMB, centred)
    low = _along_axes(table & ((1 << _LIMB) - 1), centred)
    whole = (high.astype(object) << _LIMB) + low.astype(object)
    return _along_axes(whole, [None if form.rows is None else form for form in forms])


def _along_axes(table: Array, forms: Sequence[AxisForm | None]) -> Array:
    """Integer matrices along the axes of a table; None leaves an axis as it is."""
    for position, form in enumerate(forms):
        if form is not None:
            front = np.moveaxis(table, position, 0)
            result = form.answers(front.reshape(front.shape[0], -1))
            table = np.moveaxis(result.reshape(form.n_rows, *front.shape[1:]), 0, position)
    return table


def _covering(sets: Sequence[AxisSet]) -> dict[AxisSet, AxisSet]:
    """For every set one that holds it and is part of no other: few tables are counted, the rest added up."""
    covered: dict[AxisSet, AxisSet] = {}
    for axes in sorted(set(sets), key=lambda s: (-len(s), s)):
        if axes not in covered:
            for size in range(len(axes) + 1):
                for part in combinations(axes, size):
                    covered.setdefault(part, axes)
    return {axes: covered[axes] for axes in sets}
