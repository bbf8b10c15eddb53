"""Completion of commands, options and files by the Tab key, as Typer writes it for each shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from leastnoise.app.cli.invocation import Facts
from leastnoise.app.cli.main import COMPLETION_VARIABLE
from leastnoise.app.cli.outputs import write_out
from leastnoise.app.cli.terminal import OUTPUT

# How each shell reads the script when it starts; the file is the usual one of that shell.
INSTALL = {
    "bash": "leastnoise completion bash >> ~/.bashrc",
    "zsh": "leastnoise completion zsh >> ~/.zshrc",
    "fish": "leastnoise completion fish > ~/.config/fish/completions/leastnoise.fish",
}


class Shell(StrEnum):
    """A shell that can complete."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish")],
) -> Facts:
    """Print the script that lets a shell complete commands and options with the Tab key.

    To have it in every new shell: leastnoise completion bash >> ~/.bashrc, or for zsh >> ~/.zshrc after the
    line "autoload -Uz compinit; compinit", or for fish > ~/.config/fish/completions/leastnoise.fish.
    """
    script = get_completion_script(
        prog_name="leastnoise", complete_var=COMPLETION_VARIABLE, shell=shell.value
    )
    if not OUTPUT.get().is_json:
        write_out(f"{script}\n")
    return {"shell": shell.value, "script": script, "install": INSTALL[shell.value]}
