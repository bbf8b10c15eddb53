"""What rows are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload


class Labels(Sequence[str]):
    """Names made when they are read, so that a million queries cost nothing to name."""

    __slots__ = ("_length", "_make")

    def __init__(self, length: int, make: Callable[[int], str]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Labels: ...
    def __getitem__(self, index: int | slice) -> str | Labels:
        if isinstance(index, slice):
            chosen = range(self._length)[index]
            length = (
                chosen.stop - chosen.start + chosen.step - (1 if chosen.step > 0 else -1)
            ) // chosen.step
            return Labels(max(0, length), lambda i: self._make(chosen[i]))
        return self._make(range(self._length)[index])

    def __iter__(self) -> Iterator[str]:
        return (self._make(i) for i in range(self._length))

    @property
    def length(self) -> int:
        """How many there are; len() stops at 2^63."""
        return self._length

    def __repr__(self) -> str:
        shown = [self[i] for i in range(min(3, self._length))]
        return f"<{self._length:,} labels: {', '.join(shown)}{', …' if self._length > 3 else ''}>"
