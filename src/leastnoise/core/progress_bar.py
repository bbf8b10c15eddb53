"""A progress bar in notebooks, unless somebody asked to be told otherwise.

Work that is over within a second shows nothing. Longer work shows a bar that says where it stands, and a line
of its duration when it is over. Elsewhere, in scripts and at terminals, a function shows nothing unless it
gets a callback. What is shown follows from the question and the clock alone, never from a value of a table.

The bar is plain HTML, so that it needs no widgets; it is drawn by a thread of its own, because a single step
may take minutes and tells nothing meanwhile.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from html import escape
from typing import Any, Literal, TypeVar

from leastnoise.core.errors import InputError
from leastnoise.core.printable import printable

_T = TypeVar("_T")

# Seconds after which the bar appears, and between two drawings of it.
FIRST_SHOWN = 1.0
PAUSE = 0.5

# What takes a callback: a function; None for a bar in notebooks and nothing elsewhere; False for nothing.
Told = Callable[[_T], Any] | Literal[False] | None

# Whether a bar is shown already: what is called meanwhile shows none of its own.
_IS_SHOWN: ContextVar[bool] = ContextVar("is_shown", default=False)


@contextmanager
def progress_shown(
    progress: Told[_T], what: str, to_line: Callable[[_T], tuple[str, float | None]]
) -> Iterator[Callable[[_T], Any] | None]:
    """The callback to tell of progress while something takes long; None where nobody listens.

    Args:
        progress: what the caller was given.
        what: the work in a word or two, such as "designing".
        to_line: where it stands in a few words, and which share of it is done, if that is known.

    Raises:
        InputError: if `progress` is neither a function nor None or False.
    """
    if progress is not None and progress is not False:
        if not callable(progress):
            raise InputError.must(
                "progress", "be a function, None for a bar in notebooks, or False for nothing", given=progress
            )
        yield progress
        return
    if progress is False or not is_in_notebook() or _IS_SHOWN.get():
        yield None
        return
    bar = _NotebookBar(what)
    token = _IS_SHOWN.set(True)
    try:
        with bar.running():
            yield lambda step: bar.update(*to_line(step))
    finally:
        _IS_SHOWN.reset(token)


def is_in_notebook() -> bool:
    """Whether a notebook runs this, and in its main thread."""
    package = sys.modules.get("IPython")
    if package is None or threading.current_thread() is not threading.main_thread():
        return False
    # A kernel can show what changes; IPython at a terminal has none.
    return getattr(package.get_ipython(), "kernel", None) is not None


class _NotebookBar:
    """The bar and its thread."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._line = what
        self._share: float | None = None
        self._handle: Any = None
        self._started = time.monotonic()
        self._is_over = threading.Event()

    def update(self, line: str, share: float | None = None) -> None:
        """Say where the work stands; it is shown when the bar is drawn next."""
        self._line, self._share = line, share

    @contextmanager
    def running(self) -> Iterator[None]:
        """Draw the bar now and then while the work goes on, and what it took when it is over."""
        # With the context of this cell, so that the bar appears below it.
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(self._run,), name="progress-bar", daemon=True)
        thread.start()
        ended = "stopped after"
        try:
            yield
            ended = "took"
        finally:
            self._is_over.set()
            thread.join()
            if self._handle is not None:
                self._show(f"{self._what} {ended} {self._seconds:.1f} s", has_bar=False)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _run(self) -> None:
        pause = FIRST_SHOWN
        while not self._is_over.wait(pause):
            self._show(f"{self._line} ({self._seconds:.0f} s)", has_bar=True)
            pause = PAUSE

    def _show(self, line: str, *, has_bar: bool) -> None:
        from IPython.display import display

        text = printable(line)
        share = "" if self._share is None else f' value="{self._share:.4f}"'
        bar = f'<progress max="1"{share} style="width:14em"></progress> ' if has_bar else ""
        content = {"text/html": f"<div>{bar}{escape(text)}</div>", "text/plain": text}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
