"""Random bits from the operating system's generator, each used once."""

from __future__ import annotations

import os
import threading
from typing import Any, NoReturn, Protocol

from leastnoise.core.errors import InputError, RandomnessError

# Bytes of the first read of the system's generator; each read doubles, up to the largest.
_FIRST_READ = 1 << 12

# Bytes of the largest read.
_LARGEST_READ = 1 << 16


class RandomBits(Protocol):
    """A source of independent fair bits."""

    def bits(self, n: int) -> int:
        """An integer uniform in [0, 2^n), independent of all before it."""
        ...


class _Buffer:
    """Unused random bytes of one process, with the lock that guards them."""

    def __init__(self, process: tuple[int, int]) -> None:
        self.process = process
        self.lock = threading.Lock()
        self.data = bytearray()
        self.used = 0
        self.read = _FIRST_READ


class SystemBits:
    """Random bits from the operating system's cryptographic generator.

    There is no seed and no state to save: copying and pickling are refused.

    Guarantee:
        No bit is handed out twice: not to two threads (a lock), not to a
        process and its fork (what was buffered before a fork is never used
        after it in the child), and not later (used bytes are overwritten).

    Raises:
        RandomnessError: from ``bits``, if the generator fails or reads short.
    """

    def __init__(self) -> None:
        self._buffer = _Buffer(_this_process())

    def bits(self, n: int) -> int:
        """An integer uniform in [0, 2^n), independent of all before it."""
        check_integer("the number of bits", n, least=0)
        n_bytes = (n + 7) >> 3
        # A thread of a forked child that sees a stale buffer makes its own; two
        # threads doing so at once end up with two fresh buffers, never a shared one.
        buffer = self._buffer
        if buffer.process != _this_process():
            buffer = self._buffer = _Buffer(_this_process())
        with buffer.lock:
            word = _take(buffer, n_bytes)
        return word >> (8 * n_bytes - n)

    def __repr__(self) -> str:
        return "SystemBits()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("SystemBits cannot be pickled or copied: the same noise would be drawn twice")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__reduce__()

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__reduce__()


# The count of forks tells a child from its parent even where the system gives a
# process number again; the number does so where a fork bypassed the interpreter.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def _this_process() -> tuple[int, int]:
    """What changes when the process forks."""
    return _forks, os.getpid()


def _take(buffer: _Buffer, n_bytes: int) -> int:
    """The next bytes as an integer; large requests do not pass through the buffer."""
    if n_bytes >= _LARGEST_READ:
        return int.from_bytes(_read(n_bytes), "little")
    if len(buffer.data) - buffer.used < n_bytes:
        fresh = bytearray(_read(max(buffer.read, n_bytes)))
        buffer.read = min(2 * buffer.read, _LARGEST_READ)
        buffer.data, buffer.used = fresh, 0
    start, end = buffer.used, buffer.used + n_bytes
    buffer.used = end
    word = int.from_bytes(buffer.data[start:end], "little")
    buffer.data[start:end] = bytes(n_bytes)
    return word


def _read(n_bytes: int) -> bytes:
    """Fresh bytes from the system, or an error; never fewer."""
    try:
        data = os.urandom(n_bytes)
    except (OSError, NotImplementedError) as failure:
        raise RandomnessError(
            "the system's random generator failed; nothing was released, and budget already spent stays "
            "spent",
            field="generator",
        ) from failure
    if len(data) != n_bytes:
        raise RandomnessError(
            f"the system's random generator gave {len(data)} of {n_bytes} bytes", field="generator"
        )
    return data


def check_integer(name: str, value: object, *, least: int) -> None:
    """Return if a value is an integer, and no less than the least.

    Raises:
        InputError: if it is not, or a bool.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        kind = "a positive" if least else "a non-negative"
        raise InputError.must(name, f"be {kind} integer", given=value)
