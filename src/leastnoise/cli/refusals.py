"""What goes wrong in a command, told in one line and in the words of the shell.

The library speaks of Python's arguments, as in ``release_id=``. Whoever typed a command knows the option, so
names are put in its spelling by what the command itself declares: there is no list to keep up.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from leastnoise.printable import printable


class Commands(TyperGroup):
    """Commands without tracebacks, and without values from the data."""

    def invoke(self, ctx: Any) -> Any:
        from leastnoise.errors import LeastnoiseError, SpecError

        try:
            return super().invoke(ctx)
        except SpecError as error:
            # It names the keys of a file, which may be called as options are.
            message = str(error)
        except LeastnoiseError as error:
            message = in_options(str(error), self._options(ctx))
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            message = f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}"
        except MemoryError:
            message = "there is not enough memory for this"
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None
        typer.echo(f"error: {printable(' '.join(message.split()))}", err=True)
        raise typer.Exit(1)

    def _options(self, ctx: Any) -> dict[str, str]:
        """How the command that was called spells its options, by their names in Python."""
        command = self.get_command(ctx, ctx.invoked_subcommand)
        given = () if command is None else command.params
        return {option.name: option.opts[0] for option in given if option.opts[0].startswith("--")}


def in_options(message: str, options: Mapping[str, str]) -> str:
    """A message with the arguments it names spelled as options; calls in Python stay as they are.

    Example:
        >>> in_options("release_id= is for ledgers; give ledger= too", {"release_id": "--release-id"})
        '--release-id is for ledgers; give ledger= too'
        >>> in_options("most=0 for none, the most is 9, f(most=0)", {"most": "--most"})
        '--most 0 for none, the most is 9, f(most=0)'
    """
    if not options:
        return message
    names = "|".join(map(re.escape, options))
    untouched = r"""(?<!\w)'[^']*'|"[^"]*"|\w+\([^()]*\)"""
    pattern = rf"""{untouched}|(?<![\w.\-])(?P<name>{names})\b(?:(?P<sign>=)(?P<value>[\w\["'])?)?"""

    def spelled(found: re.Match[str]) -> str:
        name, sign, value = found["name"], found["sign"], found["value"]
        # A name that is also a word counts only with its sign of equality; quoted texts are somebody's own.
        if name is None or (not sign and "_" not in name):
            return found[0]
        return f"{options[name]} {value}" if value else options[name]

    return re.sub(pattern, spelled, message)
