"""Studies in a process of their own: what is superseded ends at once, however deep in linear algebra it is.

A process that has finished one study takes the next. One process more waits, with everything imported, for
the study that ends another: an edit waits for no import. Nothing is written to the disk on the way, and a
process whose planner is gone, even killed, ends by itself.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CODE = "from leastnoise.app.planner.studies import main; main()"

Listener = Callable[[dict[str, Any]], None]


class StudyProcess:
    """One process that studies specifications, one after another."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with a fixed program
            [sys.executable, "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._listener: Listener | None = None
        self._is_idle = True
        self._is_ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_free(self) -> bool:
        """Whether it is alive and studies nothing."""
        return self._is_idle and self._process.poll() is None

    def begin(self, text: str, listener: Listener, *, ledger: str | None, beside: Path) -> None:
        """Study a text; the listener is called from a thread of its own until "done"."""
        assert self._process.stdin is not None
        self._listener, self._is_idle = listener, False
        asked = {"text": text, "ledger": ledger, "beside": str(beside)}
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        except OSError:
            self._lost()
        if not self._reader.is_alive():
            # It ended before it was asked, when its reader had nobody to tell.
            self._lost()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said, listener = json.loads(line), self._listener
            if listener is None or said["kind"] == "ready":
                continue
            if said["kind"] == "done":
                self._listener, self._is_idle = None, True
            listener(said)
        self._lost()

    def _lost(self) -> None:
        """Say that no answer will come, where somebody waits for one."""
        listener, self._listener = self._listener, None
        if listener is not None and not self._is_ended:
            message = "the design ended without an answer; it may have run out of memory"
            listener({"kind": "error", "message": message, "field": None})
            listener({"kind": "done"})

    def end(self) -> None:
        """End it, wherever it is."""
        self._is_ended = True
        self._process.kill()
        if self._reader is not threading.current_thread():
            self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What was not written before the process ended is of no use to anybody.
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()


class StudyRunner:
    """Runs one study at a time; a new one ends the one before, if that is not done."""

    def __init__(self) -> None:
        self._current: StudyProcess | None = StudyProcess()
        self._spare: StudyProcess | None = None
        self._is_closed = False
        # Pages ask in threads of their own; the listeners of a process never come back here.
        self._lock = threading.Lock()

    def run(self, text: str, listener: Listener, *, ledger: str | None, beside: Path) -> None:
        """Begin a study; what another one still finds is not heard any more."""
        with self._lock:
            if self._is_closed:
                return
            self._end_busy()
            if self._current is None:
                self._current, self._spare = self._spare, None
                self._end_busy()
            self._current = self._current or StudyProcess()
            self._current.begin(text, listener, ledger=ledger, beside=beside)
            self._spare = self._spare or StudyProcess()

    def cancel(self) -> None:
        """End the study that runs, if any."""
        with self._lock:
            self._end_busy()

    def _end_busy(self) -> None:
        """End the present process where it is not free for another study."""
        if self._current is not None and not self._current.is_free:
            self._current.end()
            self._current = None

    def close(self) -> None:
        """End all processes; nothing is studied any more."""
        with self._lock:
            self._is_closed = True
            for process in (self._current, self._spare):
                if process is not None:
                    process.end()
            self._current = self._spare = None
