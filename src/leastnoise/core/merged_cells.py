"""Cells with equal columns of the workload, found exactly and without holding its matrix.

Cells whose columns of the workload W are equal are measured alike, so that a problem over n cells is one
over d kinds of cells: W = W' E with W' (m, d) of different columns and E (d, n), one entry in every column.
Where a record is added or removed, columns equal up to sign are alike too: only their squares count.

Columns are compared by two random sums of 64 bits, block of rows by block of rows, and the result is then
compared with every entry: a collision of sums costs time, and never gives a wrong result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.core.operators import EXACT_FLOAT, Array, Operator, is_whole_space

# Entries of W up to which columns are compared, half a minute on one core. Beyond, nothing is merged.
MAX_COMPARED_ENTRIES = 2**29

# Entries of W that are looked at together.
_BLOCK_ENTRIES = 2**22

# Bits that floats hold of every whole number, less one.
_EXACT_BITS = 52

# Factors of fewer bits would let too many columns collide.
_LEAST_FACTOR_BITS = 32

# Random sums that are tried before columns are taken for different. One collides with probability 2^-100.
_TRIES = 3


@dataclass(frozen=True, eq=False)
class Cells:
    """Which of n cells some query counts, and which of those have equal columns.

    Attributes:
        used: booleans, (n,).
        first: the position of one cell of each kind.
        kind: for each used cell, its kind.
        counts: the number of cells of each kind.
        signs: for each used cell, 1 or −1 times the column of its kind; None where all are 1.
    """

    used: Array
    first: Array
    kind: Array
    counts: Array
    signs: Array | None = None

    @property
    def are_all(self) -> bool:
        """Whether every cell is used and differs from every other."""
        return len(self.first) == len(self.used)

    def spread(self, columns: Array) -> Array:
        """The columns of all n cells from those of the kinds: zero for a cell that no query counts."""
        if self.are_all:
            return columns
        every = np.zeros((len(columns), len(self.used)), dtype=columns.dtype)
        every[:, self.used] = (
            columns[:, self.kind] if self.signs is None else columns[:, self.kind] * self.signs
        )
        return every

    @classmethod
    def all_of(cls, n: int) -> Cells:
        """n cells, all used and all different."""
        return cls(np.ones(n, dtype=bool), np.arange(n), np.arange(n), np.ones(n, dtype=np.int64))


def can_compare(operator: Operator) -> bool:
    """Whether the columns of an operator are few and small enough to be compared."""
    m, n = operator.shape
    return m * n <= MAX_COMPARED_ENTRIES and not (operator.is_integer and operator.largest >= EXACT_FLOAT)


def merged_cells(operator: Operator, *, up_to_sign: bool) -> Cells:
    """The cells of an operator that `can_compare`, by their columns, compared exactly.

    Kinds are in the order of their first cells.

    Args:
        up_to_sign: whether c and −c are of one kind.
    """
    n = operator.shape[1]
    if is_whole_space(operator.basis()):
        return Cells.all_of(n)
    for seed in range(_TRIES):
        cells = _by_random_sums(operator, seed, up_to_sign)
        if cells.are_all or _are_alike(operator, cells):
            return cells
    return Cells.all_of(n)


def numbered(keys: Iterable[bytes]) -> Array:
    """Which kind each is of: equal keys are of one kind, and kinds are numbered as they come."""
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys])


def crossed_cells(codes: Sequence[Array]) -> Cells:
    """The cells of some attributes, the last one fastest, by the kinds of their values.

    Args:
        codes: for each attribute which kind each of its values is of, `numbered` as they come.
    """
    sizes, n_kinds = [len(code) for code in codes], [int(code.max()) + 1 for code in codes]
    if n_kinds == sizes:
        return Cells.all_of(math.prod(sizes))
    kind, first = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for code, own, size in zip(codes, n_kinds, sizes, strict=True):
        kind = (kind[:, None] * own + code).reshape(-1)
        representative = np.unique(code, return_index=True)[1]
        first = (first[:, None] * size + representative).reshape(-1)
    return Cells(np.ones(len(kind), dtype=bool), first, kind, np.bincount(kind, minlength=len(first)))


def distinct_cells(columns: Array, used: Array) -> Cells:
    """The cells, (k, n), by their columns in any coordinates of what is asked."""
    where = np.flatnonzero(used)
    # Cells in the same queries have columns equal up to rounding: compare on a coarse grid,
    # each direction on its own, so that weak ones still tell cells apart.
    scale = np.abs(columns).max(axis=1, keepdims=True)
    scale[scale == 0] = 1.0
    coarse = np.rint(columns[:, where] / scale * 2.0**30)
    _, first, kind, counts = np.unique(
        coarse, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) == len(used):
        # In their own order, not in that of their columns.
        return Cells.all_of(len(used))
    return Cells(used, where[first], kind.reshape(-1), counts)


def _by_random_sums(operator: Operator, seed: int, up_to_sign: bool) -> Cells:
    m, n = operator.shape
    sums = np.zeros((2, n), dtype=np.int64)
    used = np.zeros(n, dtype=bool)
    # Sums of whole entries times factors of these many bits are exact in floats, and so ten times as fast.
    bits = _EXACT_BITS - int(operator.largest).bit_length() - m.bit_length() if operator.is_integer else 0
    is_exact = bits >= _LEAST_FACTOR_BITS
    most = 2**bits if is_exact else 2**63
    factors = np.random.default_rng(seed).integers(-most, most, size=(2, m), dtype=np.int64)
    for at, block in row_blocks(operator):
        used |= block.any(axis=0)
        if is_exact:
            sums += (factors[:, at].astype(float) @ block).astype(np.int64)
        else:
            # Modulo 2^64, on purpose.
            sums += factors[:, at] @ _codes(block, operator.is_integer)
    where = np.flatnonzero(used)
    sums = sums[:, where]
    signs = None
    if up_to_sign:
        is_turned = sums[0] < 0
        if is_turned.any():
            sums = np.where(is_turned, -sums, sums)
            signs = np.where(is_turned, -1, 1).astype(np.int8)
    order = np.lexsort((np.arange(len(where)), sums[1], sums[0]))
    ordered = sums[:, order]
    is_new = np.ones(len(where), dtype=bool)
    is_new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    by_sum = np.empty(len(where), dtype=np.int64)
    by_sum[order] = np.cumsum(is_new) - 1
    lowest = order[is_new]  # the first cell of each sum, as `order` rises where sums are equal
    rank = np.empty(len(lowest), dtype=np.int64)
    rank[np.argsort(lowest)] = np.arange(len(lowest))
    kind = rank[by_sum]
    first = np.sort(lowest)
    if len(first) == n:
        return Cells.all_of(n)
    if signs is not None:
        # Beside the first cell of the kind, which has its own column.
        signs = signs * signs[first][kind]
        signs = None if (signs == 1).all() else signs
    return Cells(used, where[first], kind, np.bincount(kind, minlength=len(first)), signs)


def _codes(block: Array, is_integer: bool) -> Array:
    """A number of 64 bits for every entry, with code(−x) = −code(x) and code(0) = 0."""
    if is_integer:
        return block.astype(np.int64)
    # The bits of 1.0 and 2.0 differ in few places; a finaliser spreads them over all.
    bits = np.abs(block).view(np.uint64)
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    codes = (bits ^ (bits >> np.uint64(31))).view(np.int64)
    return np.where(block < 0, -codes, codes)


def _are_alike(operator: Operator, cells: Cells) -> bool:
    """Whether every column equals that of its kind, entry by entry."""
    for _, block in row_blocks(operator):
        expected = block[:, cells.first][:, cells.kind]
        if cells.signs is not None:
            expected *= cells.signs
        if not (block[:, cells.used] == expected).all():
            return False
    return True


def row_blocks(operator: Operator) -> Iterator[tuple[slice, Array]]:
    """The rows of an operator, some at a time, with their positions."""
    m, n = operator.shape
    step = max(1, _BLOCK_ENTRIES // max(n, 1))
    for start in range(0, m, step):
        at = slice(start, min(start + step, m))
        yield at, operator.rows(np.arange(at.start, at.stop))
