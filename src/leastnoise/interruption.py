"""Ctrl-C, held back where stopping half-way would waste what was paid for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def finished_first() -> Iterator[None]:
    """What is within is finished before an interruption is heard; it is heard then, as KeyboardInterrupt.

    Only the main thread hears Ctrl-C at all, and only there can it be held back. A program with a handler
    of its own is left its handler: it is called when the work is done.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    heard: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            before(*heard[-1])
