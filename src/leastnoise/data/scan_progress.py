"""Progress while an engine scans a table."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")

# Seconds between two reports. DuckDB's own progress is of no use here: with 40 grouping sets it ends at
# 1.2 %.
_PAUSE = 0.5

# Seconds that an engine has to end a query that was interrupted.
_MAX_SECONDS_TO_STOP = 5.0


@dataclass(frozen=True)
class ScanProgress:
    """Where a count stands; it follows from the question and the clock, never from a value.

    Attributes:
        scan: the scan under way, from 1.
        n_scans: how many scans the question takes.
        seconds: seconds so far.
    """

    scan: int
    n_scans: int
    seconds: float


@dataclass(frozen=True)
class ScanPlan:
    """How a question will be counted; it follows from the question and the engine, never from a value.

    Attributes:
        engine: where the records are.
        n_tables: how many larger tables are counted, of which those asked for are sums, by scan.
        routes: who counts each scan: "numpy", from columns as they are stored or from cells that the engine
            has found, or "sql", the engine itself.
    """

    engine: str
    n_tables: tuple[int, ...]
    routes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.routes)} {'scan' if len(self.routes) == 1 else 'scans'} by {self.engine}"]
        for k, (n, route) in enumerate(zip(self.n_tables, self.routes, strict=True), start=1):
            by = "NumPy" if route == "numpy" else "SQL"
            lines.append(f"scan {k}: {n} {'table' if n == 1 else 'tables'}, counted by {by}")
        return "\n".join(lines)


class ScanWatch:
    """Reports the progress of scans, if anybody asked for it."""

    def __init__(self, progress: Callable[[ScanProgress], object] | None, n_scans: int) -> None:
        self.progress = progress
        self._n_scans = n_scans
        self._scan = 0
        self._started = time.monotonic()
        self.attach()

    def attach(self, stop: Callable[[], object] = lambda: None) -> None:
        """Take what ends the query that an engine is about to run."""
        self._stop = stop

    def scan(self, run: Callable[[], _T]) -> _T:
        """What ``run`` returns, with reports before, meanwhile and after.

        It runs in a thread of its own if anybody watches. When whoever watches raises,
        Ctrl-C included, the engine is told to stop and the error goes on as it is.
        """
        self._scan += 1
        if self.progress is None:
            return run()
        results: list[_T] = []
        failures: list[BaseException] = []

        def task() -> None:
            try:
                results.append(run())
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
            self._stop()
            # What the engine holds is closed next, and not while it still works on it.
            thread.join(_MAX_SECONDS_TO_STOP)
            raise
        if failures:
            raise failures[0]
        self._report()
        return results[0]

    def _report(self) -> None:
        assert self.progress is not None
        self.progress(ScanProgress(self._scan, self._n_scans, time.monotonic() - self._started))
