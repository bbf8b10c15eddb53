"""The program: its commands in order; no logic of its own."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import leastnoise
from leastnoise.app.cli.commands import Commands

app = typer.Typer(
    cls=Commands,
    name="leastnoise",
    help="Publish counts with the least noise that differential privacy allows, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line: errors in one line, no traceback, nothing about the data."""
    for stream in (sys.stdout, sys.stderr):
        # Where the terminal's encoding has no ε, a question mark is better than no answer.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="leastnoise")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"leastnoise {leastnoise.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    pass
