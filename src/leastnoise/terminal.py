"""What the commands print with: lines that cannot take a terminal over, and tables."""

from __future__ import annotations

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
