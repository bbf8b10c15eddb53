"""Integer arithmetic that cannot wrap, at the speed of NumPy where possible.

The guarantee rests on integers: the strategy, its products with the counts, its
column norms. int64 is used only where a bound worked out beforehand shows that
nothing exceeds it; wider numbers are cut into limbs or handed to Python's own
integers. Products of limbs are taken by `limbs`, where floats cannot err; no other
float appears here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from leastnoise.core.limbs import EXACT_BITS, product_of_limbs
from leastnoise.core.operators import Array

# A sum below this in absolute value fits int64 with a bit to spare.
SAFE_BITS = 62

# leftᵀ right of int64 arrays.
Multiply = Callable[[Array, Array], Array]

# Entries up to this wide are multiplied and compared by limbs. At 12 bits a limb or more, at most 43 of their
# products, each below 2^52, meet in one digit.
_WIDEST_BY_LIMBS = 512

# Rows worked on at a time, few enough for the caches of a processor: 8,192 rows of 8,192 then take 0.3 s
# instead of 2 s.
_ROWS_AT_A_TIME = 32


# Columns compared at a time: every pair of them has its digits in memory.
_BLOCK = 512


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


def product(left: Array, right: Array, multiply: Multiply = product_of_limbs) -> Array:
    """left @ right for matrices of integers, exact whatever their size.

    Args:
        multiply: leftᵀ right in int64, exact wherever sums of absolute products stay below 2^52.

    Guarantee:
        Exact. Both sides are cut into limbs so short that a sum of products of two
        limbs stays below 2^52.
    """
    left, right = _widened(left), _widened(right)
    widths, terms = (bit_length(left), bit_length(right)), int(left.shape[1]).bit_length()
    n_left, n_right = _numbers_of_limbs(*widths, EXACT_BITS - terms)
    # With more products of limbs than terms in a sum, cutting costs more than it saves.
    if max(widths) > _WIDEST_BY_LIMBS or n_left * n_right > max(left.shape[1], 1):
        return np.asarray(left.astype(object) @ right.astype(object))
    limbs = [max(-(-width // n), 1) for width, n in zip(widths, (n_left, n_right), strict=True)]
    # Limbs of both signs may add up to four times the largest sum before they cancel.
    is_narrow = sum(widths) + terms + 2 <= SAFE_BITS
    total = np.zeros((left.shape[0], right.shape[1]), dtype=np.int64 if is_narrow else object)
    pieces = _cut(right, limbs[1], n_right)
    for s, x in enumerate(_cut(left.T, limbs[0], n_left)):
        for t, y in enumerate(pieces):
            total += multiply(x, y).astype(total.dtype, copy=False) << limbs[0] * s + limbs[1] * t
    return total


def _numbers_of_limbs(left: int, right: int, room: int) -> tuple[int, int]:
    """Into how many limbs each side is cut, so that two limbs have no more bits than there is room for."""
    choices = [(-(-left // (room - bits)) or 1, -(-right // bits) or 1) for bits in range(1, room)]
    return min(choices, key=lambda numbers: numbers[0] * numbers[1])


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
    """left @ right with the right side cut into limbs of `limb` bits, as Python integers.

    In int64: no float, however exact, lies between a table and what is measured of it.
    """
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


def products_along_axes(
    matrices: Sequence[Array], table: Array, multiply: Multiply = product_of_limbs
) -> Array:
    """⊗ M_a applied to an array of integers, one matrix along each of its axes, as Python integers.

    Args:
        multiply: leftᵀ right in int64, exact wherever sums of absolute products stay below 2^52.

    Guarantee:
        Exact. The work done depends on the matrices and on the type of the table, not on its values:
        int64 is always treated as 63 bits wide. Numbers are held as digits so short that a sum of
        products with a row of any of the matrices stays below 2^52.
    """
    table = _widened(table)
    grown = [_row_bits(matrix) for matrix in matrices]
    digit = EXACT_BITS - max(grown, default=0) - 1
    if table.dtype == object or digit < _SHORTEST_DIGIT:
        for position, matrix in enumerate(matrices):
            along = np.tensordot(matrix.astype(object), table.astype(object), axes=(1, position))
            table = np.moveaxis(along, 0, position)
        return np.asarray(table.astype(object))
    width = SAFE_BITS + 1
    digits = _cut(table, digit, -(-width // digit))
    for position, (matrix, bits) in enumerate(zip(matrices, grown, strict=True)):
        transposed = np.ascontiguousarray(matrix.astype(np.int64).T)
        digits = [_along_axis(transposed, part, position, multiply) for part in digits]
        width += bits
        digits = _carried(digits, digit, -(-width // digit))
    total = digits[-1].astype(object)
    for part in digits[-2::-1]:
        total = (total << digit) + part.astype(object)
    return np.asarray(total)


# Bits. With shorter digits than this, Python's own integers are quicker.
_SHORTEST_DIGIT = 6


def _row_bits(matrix: Array) -> int:
    """Bits of the largest absolute sum of a row."""
    if matrix.size == 0:
        return 0
    return int(np.abs(matrix.astype(object)).sum(axis=1).max()).bit_length()


def _along_axis(transposed: Array, table: Array, position: int, multiply: Multiply) -> Array:
    front = np.moveaxis(table, position, 0)
    result = multiply(transposed, np.ascontiguousarray(front.reshape(len(front), -1)))
    return np.moveaxis(result.reshape(-1, *front.shape[1:]), 0, position)


def _carried(digits: list[Array], bits: int, count: int) -> list[Array]:
    """The same numbers in at least `count` digits, none negative or of more bits but the last."""
    carried, carry = [], np.zeros_like(digits[0])
    mask = (1 << bits) - 1
    for part in [*digits, *[np.zeros_like(carry)] * (count - len(digits))]:
        whole = part + carry
        carried.append(whole & mask)
        carry = whole >> bits
    carried[-1] += carry << bits
    return carried


def is_of_full_row_rank(matrix: Array) -> bool:
    """Whether the rows of an integer matrix are independent, by a minor that is not zero modulo a prime.

    Guarantee:
        True only where they are. A matrix of full rank is taken for another only if all its largest minors
        are divisible by each of `_PRIMES`.
    """
    r, n = matrix.shape
    return r <= n and any(_rank_modulo(matrix, prime) == r for prime in _PRIMES)


# Primes below 2^31, so that products of two residues fit int64.
_PRIMES = (2**31 - 1, 2**31 - 19, 2**31 - 61)


def _rank_modulo(matrix: Array, prime: int) -> int:
    """The rank of the residues, by elimination."""
    rest = np.array(matrix % prime, dtype=np.int64)
    rank = 0
    for column in range(rest.shape[1]):
        if rank == len(rest):
            break
        nonzero = np.flatnonzero(rest[rank:, column])
        if not len(nonzero):
            continue
        pivot = rank + int(nonzero[0])
        rest[[rank, pivot]] = rest[[pivot, rank]]
        unit = pow(int(rest[rank, column]), -1, prime)
        rest[rank] = rest[rank] * unit % prime
        below = rank + 1 + np.flatnonzero(rest[rank + 1 :, column])
        rest[below] = (rest[below] - rest[below, column][:, None] * rest[rank] % prime) % prime
        rank += 1
    return rank


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
    parts = np.zeros((3, matrix.shape[1]), dtype=np.int64)
    for start in range(0, len(matrix), _ROWS_AT_A_TIME):
        some = matrix[start : start + _ROWS_AT_A_TIME]
        high, low = some >> half, some & ((1 << half) - 1)
        for total, left, right in zip(parts, (high, high, low), (high, low, low), strict=True):
            total += np.einsum("ri,ri->i", left, right)
    return [(hh << 2 * half) + (hl << half + 1) + ll for hh, hl, ll in zip(*parts.tolist(), strict=True)]


def is_full_triangle(matrix: Array) -> bool:
    """Whether a matrix of integers is an upper triangle without a zero on its diagonal, so of full rank."""
    return len(matrix) == matrix.shape[1] and bool(matrix.diagonal().all()) and is_upper_triangle(matrix)


def is_upper_triangle(matrix: Array) -> bool:
    """Whether nothing but zeros is below the diagonal."""
    for start in range(0, len(matrix), _ROWS_AT_A_TIME):
        some = matrix[start : start + _ROWS_AT_A_TIME]
        if some[:, :start].any() or np.tril(some[:, start : start + len(some)], -1).any():
            return False
    return True


def column_absolute_sums(matrix: Array) -> list[int]:
    """Σ_r |a_ri| for every column i, as Python integers."""
    matrix = _widened(matrix)
    wide = bit_length(matrix) + int(matrix.shape[0]).bit_length() > SAFE_BITS
    entries = matrix.astype(object) if wide else matrix
    return [int(total) for total in abs(entries).sum(axis=0)]


def largest_pair_costs(matrix: Array, power: int, multiply: Multiply = product_of_limbs) -> list[int]:
    """For every column i, the largest Σ_r |a_ri − a_rj|^power over all columns j and a column of zeros.

    The columns a_i are what one record adds to the answers, so this is the most
    that replacing a record of cell i can change them; the column of zeros stands
    for a record that is not counted at all. Power is 1 or 2.

    For power 2 the sum is g_ii + g_jj − 2 g_ij with g the Gram matrix, worked out
    for blocks of columns. So it is for power 1 where rows hold few different
    values v_0 < v_1 < …: with the indicators 1[a ≥ v_k] as rows and the steps
    v_k − v_(k−1) as their weights, |a − b| is a sum of squares.

    Args:
        multiply: leftᵀ right in int64, exact wherever sums of absolute products stay below 2^52.
    """
    matrix = _widened(matrix)
    distinct, kind = _distinct_columns(matrix)
    zero = np.zeros((matrix.shape[0], 1), dtype=matrix.dtype)
    reduced, shift = _without_common_twos(np.hstack([distinct, zero]))
    pair = (reduced, reduced) if power == 2 else _unary(reduced)
    if pair is None or bit_length(reduced) > _WIDEST_BY_LIMBS:
        costs = _largest_by_entries(reduced, power)
    else:
        left, right = pair
        squares = column_square_sums(reduced) if power == 2 else (left * right).sum(axis=0)
        costs = _largest_by_products(left, right, [int(total) for total in squares], multiply)
    return [costs[k] << power * shift for k in kind]


def _distinct_columns(matrix: Array) -> tuple[Array, list[int]]:
    """One column of each kind, and the kind of every column."""
    seen: dict[object, int] = {}
    kind: list[int] = []
    first: list[int] = []
    for i, column in enumerate(np.ascontiguousarray(matrix.T)):
        key = tuple(column) if matrix.dtype == object else column.tobytes()
        if key not in seen:
            seen[key] = len(first)
            first.append(i)
        kind.append(seen[key])
    return matrix[:, first], kind


def _without_common_twos(matrix: Array) -> tuple[Array, int]:
    """The matrix divided by the largest power of two that divides every entry, and its exponent."""
    combined = int(np.bitwise_or.reduce(matrix.reshape(-1), initial=0))
    shift = max((combined & -combined).bit_length() - 1, 0)
    return matrix >> shift, shift


def _unary(matrix: Array) -> tuple[Array, Array] | None:
    """Weighted indicators and indicators of every step between values of a row; None if there are many."""
    steps: list[int] = []
    indicators: list[Array] = []
    for row in matrix:
        values = np.unique(row)
        if len(steps) + len(values) > 4 * len(matrix) + _BLOCK:
            return None
        for low, high in pairwise(values):
            steps.append(int(high) - int(low))
            indicators.append((row >= high).astype(np.int64))
    B = np.array(indicators, dtype=np.int64).reshape(len(steps), matrix.shape[1])
    weights = np.array(steps, dtype=object)
    # Sums of a column must fit where the indicators' norms are taken.
    if bit_length(weights) + len(steps).bit_length() <= SAFE_BITS:
        weights = weights.astype(np.int64)
    return weights[:, None] * B, B


def _largest_by_entries(matrix: Array, power: int) -> list[int]:
    """The largest Σ_r |a_ri − a_rj|^power over j for every i, entry by entry."""
    width = power * (bit_length(matrix) + 1) + int(matrix.shape[0]).bit_length()
    entries = matrix.astype(object) if width > SAFE_BITS else matrix
    if len(entries) == 0:
        return [0] * matrix.shape[1]
    return [
        int((abs(entries - entries[:, i : i + 1]) ** power).sum(axis=0).max()) for i in range(matrix.shape[1])
    ]


def _largest_by_products(left: Array, right: Array, own: list[int], multiply: Multiply) -> list[int]:
    """The largest g_ii + g_jj − 2 g_ij over j for every i; g = leftᵀ right is symmetric, own its diagonal.

    Guarantee:
        Exact. Both sides are cut into limbs so short that a sum of products of two
        limbs stays below 2^52; numbers are compared digit by digit.
    """
    limb = (EXACT_BITS - int(left.shape[0]).bit_length()) // 2
    n_left, n_right = (bit_length(side) // limb + 1 for side in (left, right))
    # A digit more than the largest distance, at most 4 max g_ii, can need.
    n_digits = max(n_left + n_right, (max(own).bit_length() + 2) // limb + 1)
    norms = np.array([[(total >> limb * p) & ((1 << limb) - 1) for total in own] for p in range(n_digits)])
    found = [0] * len(own)
    for i in range(0, len(own), _BLOCK):
        first = slice(i, i + _BLOCK)
        pieces = _cut(left[:, first], limb, n_left)
        for j in range(i, len(own), _BLOCK):
            second = slice(j, j + _BLOCK)
            digits = norms[:, first, None] + norms[:, None, second]
            for s, x in enumerate(pieces):
                for t, y in enumerate(_cut(right[:, second], limb, n_right)):
                    digits[s + t] -= 2 * multiply(x, y)
            # Carries, so that every digit but the last lies between 0 and 2^limb.
            for p in range(n_digits - 1):
                digits[p + 1] += digits[p] >> limb
                digits[p] &= (1 << limb) - 1
            for at, axis in ((i, 1), (j, 0)):
                for k, largest in enumerate(_largest_numbers(digits, limb, axis)):
                    found[at + k] = max(found[at + k], largest)
    return found


def _cut(entries: Array, limb: int, count: int) -> list[Array]:
    """Limbs of `limb` bits, lowest first, none negative but the last."""
    pieces = []
    for _ in range(count - 1):
        pieces.append((entries & ((1 << limb) - 1)).astype(np.int64))
        entries = entries >> limb
    return [*pieces, entries.astype(np.int64)]


def _largest_numbers(digits: Array, limb: int, axis: int) -> list[int]:
    """The largest numbers along an axis of the pairs, from their digits, lowest first and none negative."""
    alive = np.ones(digits.shape[1:], dtype=bool)
    numbers = [0] * digits.shape[2 - axis]
    for digit in digits[::-1]:
        top = np.where(alive, digit, -1).max(axis=axis, keepdims=True)
        alive &= digit == top
        numbers = [(number << limb) + int(d) for number, d in zip(numbers, top.reshape(-1), strict=True)]
    return numbers


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
