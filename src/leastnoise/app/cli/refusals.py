"""Errors of a command: one line, in terms of its options and of the specification.

An error of the library holds the arguments that it names, and its remedy, as values. For Python they read
``release_id=``; here they read ``--release-id``, as the command itself declares its options. A query to add
and targets to relax are keys of a specification here.
"""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from leastnoise.app.cli.exit_codes import epilog
from leastnoise.app.cli.terminal import warn
from leastnoise.core.errors import LeastnoiseError, SharedEnds
from leastnoise.core.printable import printable
from leastnoise.core.remedies import AddQuery, Argument, OnRelease, RelaxTargets, Remedy

# Typer has its own copy of Click in some versions, and exports of its errors only this one.
_ClickException: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class PlainCommand(TyperCommand):
    """A command whose flags are listed without a type: they take no value."""

    def __init__(self, *given: Any, **attributes: Any) -> None:
        super().__init__(*given, **{**attributes, "epilog": attributes.get("epilog") or epilog()})

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, flags among them without a type."""
        return _without_types_of_flags(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """Commands without tracebacks, and without values from the data."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, flags among them without a type."""
        return _without_types_of_flags(super().get_params(ctx))

    def main(self, *given: Any, **options: Any) -> Any:
        """Run it; where --json is asked for, a mistyped command line is told in JSON too."""
        words = options.get("args", given[0] if given else None)
        words = sys.argv[1:] if words is None else list(words)
        if "--json" not in words or not options.get("standalone_mode", True):
            return super().main(*given, **options)
        try:
            code = super().main(*given, **{**options, "standalone_mode": False})
        except _ClickException as error:
            from leastnoise.app.cli.invocation import usage_facts, write_json
            from leastnoise.app.cli.terminal import Output

            typer.echo(f"error: {printable(error.format_message())}", err=True)
            context = getattr(error, "ctx", None)
            name = "" if context is None else " ".join(context.command_path.split()[1:])
            write_json(Output(), name, usage_facts(error.format_message()), error.exit_code)
            sys.exit(error.exit_code)
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def warnings_in_lines() -> Iterator[None]:
    """Warnings about a specification in one line each, without the place in our code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", SharedEnds)
        usual = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **options: Any) -> None:
            if issubclass(category, SharedEnds):
                warn(str(message))
            else:
                usual(message, category, *where, **options)

        warnings.showwarning = show
        yield


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def shell_text(error: LeastnoiseError, options: Mapping[str, str]) -> str:
    """The message of an error for somebody who typed a command.

    Args:
        options: how the command spells its options, by the names of their arguments in Python.

    Example:
        >>> from leastnoise.core.errors import InputError
        >>> remedy = Remedy("give ", Argument("ledger"))
        >>> error = InputError(Argument("release_id"), " is for ledgers; ", remedy)
        >>> shell_text(error, {"release_id": "--release-id"})
        '--release-id is for ledgers; give ledger='
    """
    return "".join(_part_text(part, options) for part in error.args)


def _part_text(part: object, options: Mapping[str, str]) -> str:
    if isinstance(part, Argument):
        option = options.get(part.name)
        if option is None:
            return str(part)
        return f"{option} {shlex.quote(str(part.value))}" if part.has_value else option
    if isinstance(part, OnRelease):
        return f"leastnoise.load_release(FILE).{part.expression} in Python"
    if isinstance(part, AddQuery):
        return (
            f"add a [[query]] with {_keys_of(part.query)} to the specification and publish that, which "
            "spends privacy again"
        )
    if isinstance(part, RelaxTargets):
        return (
            f"multiply every stderr and within of the specification by at least {part.factor}, or raise "
            f"{part.parameter} to {part.value}"
        )
    if isinstance(part, Remedy):
        return "".join(_part_text(one, options) for one in part.parts)
    return str(part)


def _keys_of(query: Any) -> str:
    """A query as the keys of its table in a specification."""
    from leastnoise.app.specification.toml_text import key_text, value_text

    return ", ".join(f"{key_text(key)} = {value_text(value)}" for key, value in query.to_dict().items())
