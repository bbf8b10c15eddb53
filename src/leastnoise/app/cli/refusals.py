"""Errors of a command: one line, in terms of its options and of the specification.

An error of the library holds the arguments that it names, and its remedy, as values. For Python they read
``release_id=``; here they read ``--release-id``, as the command itself declares its options. A query to add
and targets to relax are keys of a specification here.
"""

from __future__ import annotations

import errno
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from leastnoise.core.errors import LeastnoiseError, SharedEnds
from leastnoise.core.printable import printable
from leastnoise.core.remedies import AddQuery, Argument, OnRelease, RelaxTargets, Remedy


class PlainCommand(TyperCommand):
    """A command whose flags are listed without a type: they take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, flags among them without a type."""
        return _without_types_of_flags(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """Commands without tracebacks, and without values from the data."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, flags among them without a type."""
        return _without_types_of_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        from leastnoise.privacy import n_spendings_started

        before = n_spendings_started()
        try:
            with _warnings_in_lines():
                return super().invoke(ctx)
        except LeastnoiseError as error:
            message = shell_text(error, self._options(ctx))
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            message = f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}"
        except MemoryError:
            message = "there is not enough memory for this"
        except KeyboardInterrupt:
            # Said by the commands that could have spent, and only where none of it had begun.
            is_unspent = "ledger" in self._options(ctx) and n_spendings_started() == before
            typer.echo(f"interrupted{'; nothing was spent' if is_unspent else ''}", err=True)
            raise typer.Exit(130) from None
        typer.echo(f"error: {printable(' '.join(message.split()))}", err=True)
        raise typer.Exit(1)

    def called(self, ctx: Any) -> Any:
        """The command that was called, or None."""
        return self.get_command(ctx, ctx.invoked_subcommand)

    def _options(self, ctx: Any) -> dict[str, str]:
        """How the command that was called spells its options, by their names in Python."""
        command = self.called(ctx)
        given = () if command is None else command.params
        return {option.name: option.opts[0] for option in given if option.opts[0].startswith("--")}


@contextmanager
def _warnings_in_lines() -> Iterator[None]:
    """Warnings about a specification in one line each, without the place in our code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", SharedEnds)
        usual = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **options: Any) -> None:
            if issubclass(category, SharedEnds):
                typer.echo(f"warning: {printable(str(message))}", err=True)
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
