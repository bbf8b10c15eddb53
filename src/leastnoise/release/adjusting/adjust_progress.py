"""The deadline, the progress and the ending of an adjustment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import InputError
from leastnoise.core.progress import Ended, Progress

# Seconds at which an adjustment ends unless the caller gives a limit. A million cells that are all measured
# take ten; what has not converged after five minutes seldom does.
DEFAULT_TIME_LIMIT = 300.0


@dataclass(frozen=True)
class AdjustProgress(Progress):
    """Progress of an adjustment; its gap is the precision of the best cells so far.

    Args:
        step: the number of steps taken.
        gap: as `precision`.
        seconds: the time since it began, in seconds.
        part: empty; there is only one thing to work on.
    """

    @property
    def precision(self) -> float:
        """No answer is further from the exact one than this many of its own standard errors."""
        return self.gap


class AdjustWatch:
    """The deadline of an adjustment and the listener it tells; it also takes note of Ctrl-C.

    Args:
        progress: called after every step.
        time_limit: seconds from now; `DEFAULT_TIME_LIMIT` where it is None.

    Attributes:
        has_limit: whether the caller said how long it may take.
    """

    def __init__(
        self, progress: Callable[[AdjustProgress], None] | None = None, time_limit: float | None = None
    ) -> None:
        self._progress = progress
        self.has_limit = time_limit is not None
        self._deadline = Deadline.after(DEFAULT_TIME_LIMIT if time_limit is None else float(time_limit))
        self._step = 0
        self._is_late = False
        self._is_interrupted = False

    def is_over(self) -> bool:
        """Whether the search has to end now: at the deadline, or because the user interrupted it."""
        self._is_late = self._is_late or self._deadline.is_past
        return self._is_late or self._is_interrupted

    @contextmanager
    def keeping_the_best(self) -> Iterator[None]:
        """Ctrl-C within ends the search and not the program, which goes on with the best so far."""
        try:
            yield
        except KeyboardInterrupt:
            self._is_interrupted = True

    def ended(self, *, is_converged: bool) -> Ended:
        """How a search ended that found what it aimed at, or did not."""
        if is_converged:
            return "converged"
        if self._is_interrupted:
            return "interrupted"
        return "deadline" if self._is_late else "exhausted"

    def tell(self, precision: float) -> None:
        """One step more, and how near the best cells are."""
        self._step += 1
        if self._progress is not None:
            self._progress(AdjustProgress(self._step, precision, self._deadline.elapsed))


def require_time_limit(time_limit: Any) -> None:
    """Return if it is a limit: a positive number of seconds, infinity included, or None.

    Raises:
        InputError: saying what it must be.
    """
    is_number = isinstance(time_limit, (int, float)) and not isinstance(time_limit, bool)
    if time_limit is not None and not (is_number and time_limit > 0):
        raise InputError.must(
            "time_limit", "be a positive number of seconds, or math.inf for no limit", given=time_limit
        )
