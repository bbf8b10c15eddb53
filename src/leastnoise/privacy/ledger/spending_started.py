"""How often this process has begun to spend: what it may say when it is interrupted."""

from __future__ import annotations

import itertools

_numbers = itertools.count(1)
_latest = 0


def begin_to_spend() -> None:
    """Note, before it happens, that something may be paid for or handed out from here on."""
    global _latest
    _latest = next(_numbers)


def n_begun() -> int:
    """How often that was noted. As long as it has not grown, nothing was spent in this process."""
    return _latest
