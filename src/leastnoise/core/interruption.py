"""Ctrl-C, held back where stopping half-way would waste what was paid for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interruption:
    """Whether Ctrl-C was pressed while it was held back.

    Args:
        handler: what hears it otherwise; None where nothing does.
    """

    def __init__(self, handler: Any = None) -> None:
        self._handler = handler
        self._heard: list[tuple[int, Any]] = []

    @property
    def is_heard(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return bool(self._heard)

    def hear(self, number: int, frame: Any) -> None:
        """Note it; called in place of the usual handler."""
        self._heard.append((number, frame))

    def answer(self) -> None:
        """Whoever calls this answers it, so that Python's own handler need not; another is still called."""
        if self._handler is signal.default_int_handler:
            self._heard.clear()

    def pass_on(self) -> None:
        """Let the usual handler know now."""
        if self._heard:
            self._handler(*self._heard[-1])


@contextmanager
def finished_first() -> Iterator[Interruption]:
    """Finish the block before Ctrl-C takes effect; then raise KeyboardInterrupt.

    Work that may take for ever looks at what is yielded, and may answer the interruption itself. Only the
    main thread hears Ctrl-C at all, and only there can it be held back. A program with a handler of its own
    is left its handler: it is called when the work is done.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield Interruption()
        return
    held = Interruption(before)
    signal.signal(signal.SIGINT, held.hear)
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, before)
        held.pass_on()
