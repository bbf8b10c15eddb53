"""Ctrl-C, held back where stopping half-way would waste what was paid for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interruption:
    """Whether Ctrl-C was pressed while it was held back."""

    def __init__(self) -> None:
        self._heard: list[tuple[int, Any]] = []

    def hear(self, number: int, frame: Any) -> None:
        """Note it; called in place of Python's own handler."""
        self._heard.append((number, frame))

    @property
    def is_heard(self) -> bool:
        """Whether somebody wants to stop."""
        return bool(self._heard)

    def settle(self, handler: Any) -> None:
        """Let the usual handler know now."""
        if self._heard:
            handler(*self._heard[-1])

    def take(self) -> None:
        """Answer it here: Python's own handler is not called any more."""
        if signal.default_int_handler is self._before:
            self._heard.clear()

    _before: Any = None


@contextmanager
def finished_first() -> Iterator[Interruption]:
    """What is within is finished before an interruption is heard; it is heard then, as KeyboardInterrupt.

    Work that may take for ever looks at what is yielded, and may answer the interruption itself. Only the
    main thread hears Ctrl-C at all, and only there can it be held back. A program with a handler of its own
    is left its handler: it is called when the work is done.
    """
    held, before = Interruption(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield held
        return
    held._before = before
    signal.signal(signal.SIGINT, held.hear)
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, before)
        held.settle(before)
