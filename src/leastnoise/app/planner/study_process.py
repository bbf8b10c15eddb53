"""A study in a process of its own: what is superseded ends at once, however deep in linear algebra it is.

One process more waits, with everything imported, for the study to come: an edit waits for no import.
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
    """One process that studies one specification and ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with a fixed program
            [sys.executable, "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._reader: threading.Thread | None = None
        self._is_ended = False

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def begin(
        self, text: str, listener: Listener, *, ledger: str | None, beside: Path, folder: Path | None
    ) -> None:
        """Study a text; the listener is called from a thread of its own until "done"."""
        asked = {
            "text": text,
            "ledger": ledger,
            "beside": str(beside),
            "folder": str(folder) if folder else None,
        }
        assert self._process.stdin is not None
        # If it has ended already, the reader finds nothing and says so.
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, args=(listener,), daemon=True)
        self._reader.start()

    def _read(self, listener: Listener) -> None:
        assert self._process.stdout is not None
        is_done = False
        for line in self._process.stdout:
            said = json.loads(line)
            is_done = said["kind"] == "done"
            if said["kind"] != "ready":
                listener(said)
        if not is_done and not self._is_ended:
            message = "the design ended without an answer; it may have run out of memory"
            listener({"kind": "error", "message": message, "field": None})
            listener({"kind": "done"})

    def end(self) -> None:
        """End it, wherever it is."""
        self._is_ended = True
        self._process.kill()
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What was not written before the process ended is of no use to anybody.
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()


class StudyRunner:
    """Runs one study at a time; a new one ends the one before."""

    def __init__(self) -> None:
        self._current: StudyProcess | None = None
        self._spare: StudyProcess | None = StudyProcess()

    def run(
        self, text: str, listener: Listener, *, ledger: str | None, beside: Path, folder: Path | None
    ) -> None:
        """Begin a study; what another one still finds is not heard any more."""
        self.cancel()
        spare, self._spare = self._spare, None
        if spare is not None and not spare.is_alive:
            spare.end()
            spare = None
        self._current = spare or StudyProcess()
        self._current.begin(text, listener, ledger=ledger, beside=beside, folder=folder)
        self._spare = StudyProcess()

    def cancel(self) -> None:
        """End the study that runs, if any."""
        current, self._current = self._current, None
        if current is not None:
            current.end()

    def close(self) -> None:
        """End all processes."""
        self.cancel()
        if self._spare is not None:
            self._spare.end()
            self._spare = None
