"""Integer arithmetic that cannot wrap, at the speed of NumPy where possible.

The guarantee rests on integers: the strategy, its products with the counts, its
column norms. int64 is used only where a bound worked out beforehand shows that
nothing exceeds it; wider numbers are cut into limbs or handed to Python's own
integers. No float appears in this file.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from leastnoise.operators import Array

# A sum below this in absolute value fits int64 with a bit to spare.
SAFE_BITS = 62


def as_integers(entries: Any) -> Array:
    """A copy of the entries: int64 from integer arrays and where all are below 2^62, else Python integers."""
    array = np.asarray(entries)
    if array.dtype.kind == "i":
        return array.astype(np.int64)
    if array.dtype != object:
        raise TypeError(f"integers are needed, got dtype {array.dtype}")
    # An object array may hold NumPy scalars, whose products wrap, or numbers that are no integers.
    whole = np.asarray(_to_python_integers(array), dtype=object)
    return whole.astype(np.int64) if bit_length(whole) <= SAFE_BITS else whole


_to_python_integers = np.frompyfunc(operator.index, 1, 1)


def bit_length(entries: Array) -> int:
    """The bits needed for the largest absolute value."""
    if entries.size == 0:
        return 0
    return max(int(entries.max()), -int(entries.min())).bit_length()


def product(left: Array, right: Array) -> Array:
    """left @ right for integer arrays, exact whatever their size."""
    left, right = _widened(left), _widened(right)
    terms = int(left.shape[-1]).bit_length()
    if left.dtype != object and right.dtype != object:
        width = bit_length(left) + terms
        if width + bit_length(right) <= SAFE_BITS:
            return left @ right
        if width < SAFE_BITS:
            return _by_limbs(left, right, SAFE_BITS - width)
    return np.asarray(left.astype(object) @ right.astype(object))


def matrix_times_counts(matrix: Array, counts: Array) -> Array:
    """matrix @ counts for int64 or Python-integer counts, as Python integers.

    Guarantee:
        Exact for every possible vector of counts of the given type. The work
        done depends on the matrix and on the type of the counts, not on their
        values: int64 counts are always treated as 63 bits wide.
    """
    matrix, counts = _widened(matrix), _widened(counts)
    if matrix.dtype == object or counts.dtype == object:
        return np.asarray(matrix.astype(object) @ counts.astype(object))
    room = SAFE_BITS - bit_length(matrix) - int(matrix.shape[1]).bit_length()
    if room < 1:
        return np.asarray(matrix.astype(object) @ counts.astype(object))
    return _by_limbs(matrix, counts, room)


def _widened(entries: Array) -> Array:
    """int64 or Python integers: the bounds of this file are those of 64 bits."""
    return entries if entries.dtype == object else entries.astype(np.int64, casting="safe", copy=False)


def _by_limbs(left: Array, right: Array, limb: int) -> Array:
    """left @ right with the right side cut into limbs of so many bits, as Python integers."""
    total = np.zeros(left.shape[:-1] + right.shape[1:], dtype=object)
    rest = right
    shift = 0
    while shift < SAFE_BITS + 1:
        piece = rest & ((1 << limb) - 1)  # non-negative: >> rounds down, so rest keeps the sign
        rest = rest >> limb
        total += (left @ piece).astype(object) << shift
        shift += limb
    total += (left @ rest).astype(object) << shift  # rest is now 0 or −1 everywhere
    return total


def column_square_sums(matrix: Array) -> list[int]:
    """Σ_r a_ri² for every column i, as Python integers."""
    matrix = _widened(matrix)
    if matrix.dtype == object:
        return [int(total) for total in (matrix * matrix).sum(axis=0)]
    terms = int(matrix.shape[0]).bit_length()
    # |a| < 2^62 is high·2^h + low with 0 ≤ low < 2^h and |high| ≤ 2^(62−h); three
    # sums of products, each shown to fit before it is taken.
    bits = bit_length(matrix)
    half = (bits + 1) // 2
    if 2 * (bits - half + 1) + terms > SAFE_BITS or 2 * half + terms > SAFE_BITS:
        return column_square_sums(matrix.astype(object))
    high, low = matrix >> half, matrix & ((1 << half) - 1)
    parts = [(high * high).sum(axis=0), (high * low).sum(axis=0), (low * low).sum(axis=0)]
    return [
        (int(hh) << 2 * half) + (int(hl) << half + 1) + int(ll) for hh, hl, ll in zip(*parts, strict=True)
    ]


def column_absolute_sums(matrix: Array) -> list[int]:
    """Σ_r |a_ri| for every column i, as Python integers."""
    matrix = _widened(matrix)
    wide = bit_length(matrix) + int(matrix.shape[0]).bit_length() > SAFE_BITS
    entries = matrix.astype(object) if wide else matrix
    return [int(total) for total in abs(entries).sum(axis=0)]


def to_limbs(entries: Array) -> Array:
    """An int64 array with one more axis that `from_limbs` reads back: 60 bits a limb."""
    if entries.dtype != object:
        return entries.astype(np.int64)[..., None]
    count = bit_length(entries) // 60 + 1
    limbs = np.empty((*entries.shape, count), dtype=np.int64)
    rest = entries
    for i in range(count - 1):
        limbs[..., i] = (rest & ((1 << 60) - 1)).astype(np.int64)
        rest = rest >> 60
    limbs[..., count - 1] = rest.astype(np.int64)
    return limbs


def from_limbs(limbs: Array) -> Array:
    """The integers that `to_limbs` cut up."""
    if limbs.shape[-1] == 1:
        return limbs[..., 0].copy()
    total = limbs[..., -1].astype(object)
    for i in range(limbs.shape[-1] - 2, -1, -1):
        total = (total << 60) + limbs[..., i].astype(object)
    return as_integers(total)
