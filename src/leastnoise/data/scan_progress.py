"""Progress while a table is counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")

# Seconds between two reports.
_PAUSE = 0.5

# Seconds that an engine has to end a query that was interrupted.
_MAX_SECONDS_TO_STOP = 5.0


@dataclass(frozen=True)
class ScanProgress:
    """Where a count stands; it follows from the question and the clock, never from a value.

    Attributes:
        seconds: seconds so far.
    """

    seconds: float


class Interrupted(Exception):
    """A count that somebody stopped."""


class ScanWatch:
    """Reports the progress of a count, if anybody asked for it, and ends it when whoever watches raises.

    Attributes:
        stop: ends what an engine is about to do; to be set by what waits for one.
    """

    def __init__(self, progress: Callable[[ScanProgress], object] | None) -> None:
        self._progress = progress
        self._started = time.monotonic()
        self._is_stopped = threading.Event()
        self.stop: Callable[[], object] = lambda: None

    def check(self) -> None:
        """Return unless somebody stopped the count: to be called between batches.

        Raises:
            Interrupted: if somebody did.
        """
        if self._is_stopped.is_set():
            raise Interrupted

    def run(self, count: Callable[[], _T]) -> _T:
        """What ``count`` returns, with reports before, meanwhile and after.

        It runs in a thread of its own if anybody watches. When whoever watches raises,
        Ctrl-C included, the count is told to stop and the error goes on as it is.
        """
        if self._progress is None:
            return count()
        results: list[_T] = []
        failures: list[BaseException] = []

        def task() -> None:
            try:
                results.append(count())
            except BaseException as error:
                failures.append(error)

        self._report()
        thread = threading.Thread(target=task, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_PAUSE)
                if thread.is_alive():
                    self._report()
        except BaseException:
            self._is_stopped.set()
            self.stop()
            # What an engine holds is closed next, and not while it still works on it.
            thread.join(_MAX_SECONDS_TO_STOP)
            raise
        if failures:
            raise failures[0]
        self._report()
        return results[0]

    def _report(self) -> None:
        assert self._progress is not None
        self._progress(ScanProgress(time.monotonic() - self._started))
