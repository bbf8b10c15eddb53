"""The program and its commands, each of which is loaded when it is called, and none by a look at the help."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import leastnoise
from leastnoise.app.cli.exit_codes import CLOSED_PIPE, epilog
from leastnoise.app.cli.invocation import as_command, close_output
from leastnoise.app.cli.refusals import CommandGroup, PlainCommand

# In the order in which a publisher meets them: the file of each command, and its first line of help, which a
# test compares with the command's own.
COMMANDS = {
    "demo": (
        "demo_commands",
        "Try it out: invent a town, publish its statistics privately, and show the cost.",
    ),
    "init": (
        "init_command",
        "Draft a specification for you to complete. Reads the column names and types, never a value.",
    ),
    "check": (
        "check_command",
        "Check a table against its schema. NOT private: for the owner of the table only. Writes nothing.",
    ),
    "plan": (
        "plan_command",
        "Choose privacy and accuracy in a browser, table by table. Runs on this machine; reads no data.",
    ),
    "publish": ("publish_commands", "Design, measure and write the answers."),
    "design": ("design_commands", "Design the noise for a specification and save the plan. Needs no data."),
    "measure": (
        "publish_commands",
        "Measure a table with a saved plan: the one step that spends privacy. Also called release.",
    ),
    "report": (
        "saved_commands",
        "Write a report as one HTML page: answers, accuracy and privacy loss. Needs no data.",
    ),
    "adjust": (
        "saved_commands",
        "Make the counts of a release consistent and non-negative, or whole. Costs no privacy.",
    ),
    "present": (
        "saved_commands",
        "Round the counts of a release, mark unreliable ones or leave them out. Costs no privacy.",
    ),
    "quantiles": ("saved_commands", "Compute quantiles, with intervals, from a release. Costs no privacy."),
    "explain": (
        "design_commands",
        "Explain a plan: expected accuracy, the cost of simpler noise, and which targets drive the cost.",
    ),
    "tradeoff": (
        "design_commands",
        "Show what accuracy costs in privacy: standard errors for several values of epsilon. Needs no data.",
    ),
    "compare": ("design_commands", "Compare the methods: error, gap to the proven lower bound, and time."),
    "methods": ("design_commands", "List the methods that `design` and `compare` know."),
    "audit": (
        "design_commands",
        "Check a plan's privacy by simulation: draw its noise many times. Needs no data, spends nothing.",
    ),
    "reproduce": (
        "demo_commands",
        "Reproduce the papers' tables and figures, next to the printed numbers. Resumes where it stopped.",
    ),
    "ledger": ("ledger_command", "Keep the privacy budget across releases."),
    "completion": (
        "completion_command",
        "Print the script that lets a shell complete commands and options with the Tab key.",
    ),
}

# The variable by which the Tab key of a shell asks for completions; Typer makes its name.
COMPLETION_VARIABLE = "_LEASTNOISE_COMPLETE"

# Other names, not listed in the help: what `measure` was called first; scripts use it.
ALIASES = {"release": "measure"}


class Commands(CommandGroup):
    """Commands that load when they are called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # What the help shows, and what a misspelt name is compared with.
        self.commands = {name: TyperCommand(name, help=first) for name, (_, first) in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was called, loaded now."""
        command = self._loaded(args[0])
        return super().resolve_command(ctx, args) if command is None else (command.name, command, args[1:])

    def _loaded(self, name: str | None) -> Any:
        """A command with its options, or None where there is none of this name."""
        known = ALIASES.get(name or "", name)
        if known not in COMMANDS:
            return None
        found = getattr(import_module(f"leastnoise.app.cli.{COMMANDS[known][0]}"), known)
        if not isinstance(found, typer.Typer):
            found, function = typer.Typer(add_completion=False), found
            found.command(name, cls=PlainCommand)(as_command(function))
        command = typer.main.get_command(found)
        command.name = name
        return command


app = typer.Typer(
    cls=Commands,
    name="leastnoise",
    help="Publish counts with the least noise that differential privacy allows, and prove it.",
    epilog=epilog(),
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
    if COMPLETION_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    # What stops a service or a container is heard as Ctrl-C is: a paid release is stored first.
    # Not where Ctrl-C is ignored, as in the background of a script: then SIGTERM ends it at once, as ever.
    if callable(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    try:
        try:
            app(prog_name="leastnoise")
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        close_output()
        sys.exit(CLOSED_PIPE.code)


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
