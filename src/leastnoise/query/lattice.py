"""Which sets of axes lie below the sets that a workload mentions, and numbers carried from one to the other.

A product of queries mentions a set of axes. What is measured for it is split over all subsets of that set,
and sums over those subsets are what accuracy, budget and bounds are made of:

    a_js = Π_{a in s} inside_{j,a} · Π_{a in j∖s} outside_{j,a},     s ⊆ j                              (1)

A hundred attributes have 166,751 sets of at most three, and (1) over a million entries. So sets are kept as
arrays, those of one size together, and (1) is a sparse matrix made with whole-array steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from leastnoise.core.errors import TooLargeError
from leastnoise.core.operators import Array

# A set of axes: their places, rising.
AxisSet = tuple[int, ...]

# Entries of (1) beyond this would take more memory than a plan should.
MAX_PAIRS = 50_000_000


class Lattice:
    """Every subset of one of the given sets, smaller ones first, and where each set finds its own.

    Attributes:
        sets: the given sets, repetitions included.
        subsets: all sets below one of them, the empty one first.
    """

    def __init__(self, sets: Sequence[AxisSet], n_axes: int) -> None:
        pairs = sum(2 ** len(s) for s in sets)
        if pairs > MAX_PAIRS:
            raise TooLargeError(
                f"the queries mention sets of attributes with {pairs:,} subsets in all; at most "
                f"{MAX_PAIRS:,} are supported",
                field="workload",
                given=pairs,
                remedy="cross fewer attributes in one query",
            )
        self.sets = tuple(sets)
        self.n_axes = n_axes
        sizes = np.array([len(s) for s in sets], dtype=np.intp)
        # For every size of a set: which of the given ones have it, and their axes, (count, size).
        self._groups: list[tuple[Array, Array]] = []
        for size in np.unique(sizes):
            members = np.flatnonzero(sizes == size)
            axes = np.array([sets[j] for j in members.tolist()], dtype=np.int64).reshape(
                len(members), int(size)
            )
            self._groups.append((members, axes))
        self._key_type: Any = np.int64 if (n_axes + 1) ** max(int(sizes.max()), 1) < 2**62 else object
        found: dict[int, tuple[list[Array], list[Array]]] = {}
        for _, axes in self._groups:
            for chosen in _patterns(axes.shape[1]):
                part = axes[:, list(chosen)]
                keys, first = np.unique(self._keys(part), return_index=True)
                held = found.setdefault(len(chosen), ([], []))
                held[0].append(keys)
                held[1].append(part[first])
        self._first: dict[int, int] = {}
        self._sorted_keys: dict[int, Array] = {}
        # Axes of the subsets of each size, (count, size).
        self.by_size: dict[int, Array] = {}
        start = 0
        for size in sorted(found):
            keys = np.concatenate(found[size][0])
            unique, first = np.unique(keys, return_index=True)
            self._first[size] = start
            self._sorted_keys[size] = unique
            self.by_size[size] = np.concatenate(found[size][1])[first]
            start += len(unique)
        self.n_subsets = start

    def _keys(self, axes: Array) -> Array:
        """One number for every set, different for different sets of one size; order of sets by it."""
        keys = np.zeros(len(axes), dtype=self._key_type)
        for place in range(axes.shape[1]):
            keys = keys * (self.n_axes + 1) + (axes[:, place] + 1).astype(self._key_type)
        return keys

    @cached_property
    def subsets(self) -> tuple[AxisSet, ...]:
        """All subsets, in the order of every array that has one entry for each."""
        return tuple(tuple(row) for size in sorted(self.by_size) for row in self.by_size[size].tolist())

    def number(self, axes: Array) -> Array:
        """The places of some subsets of one size, (count, size), among all; all must be there."""
        size = axes.shape[1]
        return self._first[size] + np.searchsorted(self._sorted_keys[size], self._keys(axes))

    @cached_property
    def _pairs(self) -> tuple[Array, Array]:
        """Every (set, subset of it), as two arrays of places; for each set its patterns in a fixed order."""
        rows, columns = [], []
        for members, axes in self._groups:
            for chosen in _patterns(axes.shape[1]):
                rows.append(members)
                columns.append(self.number(axes[:, list(chosen)]))
        return np.concatenate(rows), np.concatenate(columns)

    def matrix(self, inside: Sequence[Array], outside: Sequence[Array]) -> Any:
        """(1) as a SciPy sparse matrix, (sets, subsets).

        Args:
            inside: for every group of sets of one size (`groups`), the numbers of its axes, (count, size).
            outside: likewise, for the axes that a subset leaves out.
        """
        from scipy import sparse

        values = []
        for (_, axes), into, out in zip(self._groups, inside, outside, strict=True):
            size = axes.shape[1]
            for chosen in _patterns(size):
                value = np.ones(len(axes))
                for place in range(size):
                    value = value * (into if place in chosen else out)[:, place]
                values.append(value)
        rows, columns = self._pairs
        shape = (len(self.sets), self.n_subsets)
        return sparse.csr_array((np.concatenate(values), (rows, columns)), shape=shape)

    @property
    def groups(self) -> list[tuple[Array, Array]]:
        """For every size: which of the given sets have it, and their axes, (count, size)."""
        return self._groups

    def product_over(self, values: Sequence[float] | Array) -> Array:
        """Π_{a in s} values_a for every subset, (n_subsets,)."""
        of_axis = np.asarray(values, dtype=float)
        parts = [np.prod(of_axis[self.by_size[size]], axis=1) for size in sorted(self.by_size)]
        return np.concatenate(parts)


def _patterns(size: int) -> list[tuple[int, ...]]:
    """Which places of a set of some size a subset keeps: all 2^size ways, fewer places first."""
    return [chosen for count in range(size + 1) for chosen in combinations(range(size), count)]
