"""When a search must come to an end with what it has."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from leastnoise.core.progress import Ended

# Seconds. A solver that is given no time at all still makes its first step; zero would be refused.
LEAST_TIME = 1e-9

# What stays of the time where what comes afterwards would take all of it.
_STAYS = 0.25


@dataclass(frozen=True)
class Deadline:
    """A moment of the monotonic clock.

    Attributes:
        ends: that moment, in its seconds.
        began: when counting began, by which `part` divides the time.
    """

    ends: float = math.inf
    began: float = 0.0

    @classmethod
    def after(cls, seconds: float | None, *, began: float | None = None) -> Deadline:
        """So many seconds after a moment, which is now unless given; None is never."""
        start = time.monotonic() if began is None else began
        return cls(math.inf if seconds is None else start + seconds, start)

    @property
    def is_past(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.ends

    @property
    def left(self) -> float | None:
        """Seconds left, at least a moment; None where there is no limit."""
        return None if math.isinf(self.ends) else max(self.ends - time.monotonic(), LEAST_TIME)

    @property
    def ending(self) -> Ended:
        """How a search ends here whose only limit this is."""
        return "deadline" if self.is_past else "converged"

    def part(self, share: float) -> Deadline:
        """The deadline of a first part, so that the rest of the time is left for what comes after it."""
        if math.isinf(self.ends):
            return self
        return Deadline(self.began + share * (self.ends - self.began), self.began)

    def before(self, seconds: float) -> Deadline:
        """So many seconds earlier, for what cannot be interrupted afterwards; a quarter of the time stays."""
        if math.isinf(self.ends):
            return self
        return Deadline(max(self.ends - seconds, self.began + _STAYS * (self.ends - self.began)), self.began)


NEVER = Deadline()
