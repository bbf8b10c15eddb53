"""How long a search may take, and whom it tells where it stands."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leastnoise.errors import InputError


@dataclass(frozen=True)
class AdjustProgress:
    """Where an adjustment stands.

    Attributes:
        step: how many steps were taken.
        precision: no answer of the best cells so far is further from the exact one than this many of its
            own standard errors.
        seconds: since it began.
    """

    step: int
    precision: float
    seconds: float


class Watch:
    """A clock with a limit, and a listener."""

    def __init__(
        self, progress: Callable[[AdjustProgress], None] | None = None, time_limit: float | None = None
    ) -> None:
        self._progress = progress
        self._limit = math.inf if time_limit is None else float(time_limit)
        self._started = time.monotonic()
        self._step = 0
        self.was_needed = False

    @property
    def has_limit(self) -> bool:
        """Whether somebody said how long it may take."""
        return self._limit < math.inf

    def is_over(self) -> bool:
        """Whether the limit is reached; `was_needed` remembers that it was asked in time to matter."""
        is_over = time.monotonic() - self._started > self._limit
        self.was_needed = self.was_needed or is_over
        return is_over

    def tell(self, precision: float) -> None:
        """One step more, and how near the best cells are."""
        self._step += 1
        if self._progress is not None:
            self._progress(AdjustProgress(self._step, precision, time.monotonic() - self._started))


def require_time_limit(time_limit: Any) -> None:
    """Return if it is a limit: a positive number of seconds, or None.

    Raises:
        InputError: saying what it must be.
    """
    is_number = isinstance(time_limit, (int, float)) and not isinstance(time_limit, bool)
    if time_limit is not None and not (is_number and time_limit > 0):
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit!r}")
