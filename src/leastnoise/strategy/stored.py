"""Noisy integers that are kept on a disk: what blocks hold is read when an answer needs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from leastnoise.core.errors import TooLargeError
from leastnoise.core.operators import Array

# More integers than this are not held: with their noise they are Python integers, some 60 bytes each.
MAX_MEASURED = 2**25

# Bytes of components that are kept in memory, at most. The three-way tables of 100 attributes, in order, need
# each pair of attributes again after 4,850 tables: 80 MiB where attributes have ten values.
_MAX_KEPT_BYTES = 2**28


class StoredIntegers(ABC):
    """The noisy integers of a release, read some at a time."""

    @abstractmethod
    def __len__(self) -> int:
        """How many there are."""

    @abstractmethod
    def between(self, start: int, stop: int) -> Array:
        """Some of them, int64 or Python integers."""

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        """All of them, as Python integers.

        Raises:
            TooLargeError: if there are too many to be held.
        """
        if len(self) > MAX_MEASURED:
            raise TooLargeError(
                f"the release holds {len(self):,} integers, of which at most {MAX_MEASURED:,} are held in "
                "memory; release.answer(query) reads those that a query needs",
                field="release",
                given=len(self),
            )
        return self.between(0, len(self)).astype(object)


class StoredComponents(Mapping[int, Array]):
    """What is known of every component, made when it is asked for; the latest ones are kept.

    Args:
        count: how many components there are.
        make: makes one, by its number.
    """

    def __init__(self, count: int, make: Callable[[int], Array]) -> None:
        self._count, self._make = count, make
        self._kept: OrderedDict[int, Array] = OrderedDict()
        self._n_bytes = 0

    def __getitem__(self, number: int) -> Array:
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        found = self._make(number)
        self._kept[number] = found
        self._n_bytes += found.nbytes
        while self._n_bytes > _MAX_KEPT_BYTES and len(self._kept) > 1:
            self._n_bytes -= self._kept.popitem(last=False)[1].nbytes
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._count))

    def __len__(self) -> int:
        return self._count


def starts_of(sizes: Array) -> Array:
    """Where each of several parts begins, and after them where the last ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
