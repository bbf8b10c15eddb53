"""What the commands print with: lines that cannot take a terminal over, and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from leastnoise.printable import printable


def say(text: object) -> None:
    """Print a text, line by line, with unseen characters written out."""
    typer.echo("\n".join(printable(line) for line in str(text).split("\n")))


def console(**options: Any) -> Any:
    """A Rich console that colours nothing by itself."""
    from rich.console import Console

    return Console(highlight=False, **options)


@contextmanager
def spinner(what: str) -> Iterator[Callable[[str], None]]:
    """A line that moves while something takes long, and what changes it; silent where nobody watches."""
    from rich.text import Text

    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda text: None
        return
    with screen.status(what) as status:
        # As text: square brackets in a name are no markup.
        yield lambda text: status.update(Text(text))
