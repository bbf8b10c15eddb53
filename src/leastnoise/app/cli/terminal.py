"""How the commands print: lines with unseen characters written out, tables, and progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TextIO

import typer

from leastnoise.core.printable import printable
from leastnoise.core.progress import gap_to_text

# Seconds after which work without a terminal prints its first line. Each further pause is twice as long.
FIRST_LINE = 5.0
# Seconds between two lines, at most: build servers take ten silent minutes for a hang.
LONGEST_PAUSE = 300.0


@dataclass(frozen=True)
class Output:
    """Where a command writes, and how much.

    Attributes:
        is_quiet: nothing but warnings and errors.
        is_json: one object on standard output.
        stdout: the real one, while text for people goes nowhere.
        warnings: those that were shown.
    """

    is_quiet: bool = False
    is_json: bool = False
    stdout: TextIO | None = None
    warnings: list[str] = field(default_factory=list)

    def write(self, text: str) -> None:
        """Write what a command was asked for to standard output, quiet or not."""
        typer.echo(text, file=self.stdout, nl=False)

    def flush(self) -> None:
        """Notice now, rather than when Python ends, that nobody reads any more."""
        if self.stdout is not None:
            self.stdout.flush()


# The output of the command that runs.
OUTPUT: ContextVar[Output] = ContextVar("output")


def is_quiet() -> bool:
    """Whether nothing but warnings and errors is wanted."""
    output = OUTPUT.get(None)
    return output is not None and output.is_quiet


def note(text: str) -> None:
    """Print a line about the work on standard error, unless it is to be quiet."""
    if not is_quiet():
        typer.echo(printable(text), err=True)


def warn(text: str) -> None:
    """Print a warning on standard error, quiet or not, and keep it for --json."""
    shown = printable(text)
    output = OUTPUT.get(None)
    if output is not None:
        output.warnings.append(shown)
    typer.echo(f"warning: {shown}", err=True)


def say(text: object) -> None:
    """Print a text, line by line, with unseen characters written out."""
    typer.echo("\n".join(printable(line) for line in str(text).split("\n")))


def console(**options: Any) -> Any:
    """A Rich console that colours nothing by itself."""
    from rich.console import Console

    return Console(highlight=False, **options)


@contextmanager
def spinner(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner while something takes long; gives the function that changes its text.

    At a terminal, a line that moves. Elsewhere, as in a log or on a build server, a plain line on standard
    error once it has taken some seconds, and others at growing intervals; quick work says nothing.
    """
    from rich.text import Text

    if is_quiet():
        yield lambda text: None
        return
    screen = console(stderr=True)
    if not screen.is_terminal:
        with _plain_lines(what) as update:
            yield update
        return
    with screen.status(what) as status:
        # As text: square brackets in a name are no markup.
        yield lambda text: status.update(Text(text))


@contextmanager
def _plain_lines(what: str) -> Iterator[Callable[[str], None]]:
    """Print the latest text and the seconds so far now and then, from a thread of its own."""
    latest = what
    started = time.monotonic()
    is_done = threading.Event()

    def update(text: str) -> None:
        nonlocal latest
        latest = text

    def tell() -> None:
        pause = FIRST_LINE
        while not is_done.wait(pause):
            try:
                typer.echo(f"{printable(latest)} ({time.monotonic() - started:.0f} s so far)", err=True)
            except (OSError, ValueError):
                # The reader has closed the output; the work itself goes on.
                return
            pause = min(2 * pause, LONGEST_PAUSE)

    teller = threading.Thread(target=tell, name="signs-of-life", daemon=True)
    teller.start()
    try:
        yield update
    finally:
        is_done.set()
        teller.join()


@contextmanager
def designing() -> Iterator[Callable[[Any], None]]:
    """A progress callback that shows the gap shrinking, whatever is minimised."""
    started = time.monotonic()
    with spinner("designing") as update:

        def show(progress: Any) -> None:
            part = f" by {progress.part}" if progress.part else ""
            update(f"designing{part}: step {progress.step}{gap_to_text(progress.gap)}")

        yield show
    note(f"designed in {time.monotonic() - started:.1f} s")
