"""The deadline of a search, and the progress callback that it calls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from leastnoise.core.progress import ENOUGH, Ended, Progress

# Seconds. A solver that is given no time at all still makes its first step; zero would be refused.
LEAST_TIME = 1e-9

# The share of the time that `before` leaves where what comes afterwards would take all of it.
_LEAST_SHARE = 0.25


@dataclass
class Stop:
    """Whether whoever listens to a search has had enough of it, whatever the clock says."""

    is_asked: bool = False


@dataclass(frozen=True)
class Deadline:
    """A moment of the monotonic clock.

    Attributes:
        ends: that moment, in seconds of the clock; infinite where there is no limit.
        began: when the work began, in seconds of the clock.
        stop: whether the listener has had enough before; shared by all parts of this time.
    """

    ends: float = math.inf
    began: float = 0.0
    stop: Stop = field(default_factory=Stop, compare=False)

    @classmethod
    def after(cls, seconds: float | None, *, began: float | None = None) -> Deadline:
        """The deadline a number of seconds after a moment, by default now; None for no limit."""
        start = time.monotonic() if began is None else began
        return cls(math.inf if seconds is None else start + seconds, start)

    @property
    def elapsed(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self.began

    @property
    def is_past(self) -> bool:
        """Whether the deadline has passed, or the listener has had enough."""
        return self.stop.is_asked or time.monotonic() > self.ends

    @property
    def left(self) -> float | None:
        """Seconds left, at least LEAST_TIME; None where there is no limit."""
        if self.stop.is_asked:
            return LEAST_TIME
        return None if math.isinf(self.ends) else max(self.ends - time.monotonic(), LEAST_TIME)

    @property
    def ending(self) -> Ended:
        """How a search ends here whose only limit this is."""
        return "deadline" if self.is_past else "converged"

    def part(self, share: float) -> Deadline:
        """The deadline of a first part, which leaves the rest of the time for what comes after it."""
        if math.isinf(self.ends):
            return self
        return replace(self, ends=self.began + share * (self.ends - self.began))

    def share_of_rest(self, share: float) -> Deadline:
        """The deadline of work that begins now and takes at most this share of the time left."""
        if math.isinf(self.ends):
            return self
        now = time.monotonic()
        return replace(self, ends=now + share * (self.ends - now), began=now)

    def before(self, seconds: float) -> Deadline:
        """The deadline moved forward by a number of seconds, for work afterwards that cannot be interrupted.

        At least a quarter of the time stays.
        """
        if math.isinf(self.ends):
            return self
        earliest = self.began + _LEAST_SHARE * (self.ends - self.began)
        return replace(self, ends=max(self.ends - seconds, earliest))


NEVER = Deadline()

Listener = Callable[[Progress], object]


@dataclass
class Watch:
    """The deadline of a search and the listener it tells, over all parts of the search.

    Attributes:
        deadline: when the search has to end.
        listener: called with a `Progress` after every step; None for no callback.
        steps: steps of the parts that have ended.
    """

    deadline: Deadline
    listener: Listener | None = None
    steps: int = 0

    @classmethod
    def starting(cls, time_limit: float | None = None, listener: Listener | None = None) -> Watch:
        """The watch of a search that begins now, with a time limit in seconds; None for no limit."""
        return cls(Deadline.after(time_limit), listener)

    @property
    def seconds(self) -> float:
        """Seconds since the search began."""
        return self.deadline.elapsed

    def tell(self, step: int, gap: float) -> None:
        """Report the progress of the current part to the listener, if any, who may have had enough."""
        if self.listener is None:
            return
        if self.listener(Progress(self.steps + step, gap, self.seconds)) is ENOUGH:
            if self.deadline is NEVER:
                # Which others share.
                self.deadline = Deadline()
            self.deadline.stop.is_asked = True
