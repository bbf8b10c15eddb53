"""What goes wrong in a command, told in one line and in the words of the shell.

The library speaks of Python's arguments, as in ``release_id=``. Whoever typed a command knows the option, so
names are put in its spelling by what the command itself declares: there is no list to keep up. Goals and
targets are keys of a specification there, and the sentence that speaks of them otherwise is put so.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from leastnoise.core.printable import printable


class Commands(TyperGroup):
    """Commands without tracebacks, and without values from the data."""

    def invoke(self, ctx: Any) -> Any:
        from leastnoise.core.errors import LeastnoiseError, SpecError
        from leastnoise.privacy.ledger import n_begun

        before = n_begun()
        try:
            return super().invoke(ctx)
        except SpecError as error:
            # It names the keys of a file, which may be called as options are.
            message = str(error)
        except LeastnoiseError as error:
            message = in_options(in_keys(str(error)), self._options(ctx))
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            message = f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}"
        except MemoryError:
            message = "there is not enough memory for this"
        except KeyboardInterrupt:
            # Said by the commands that could have spent, and only where none of it had begun.
            is_unspent = "ledger" in self._options(ctx) and n_begun() == before
            typer.echo(f"interrupted{'; nothing was spent' if is_unspent else ''}", err=True)
            raise typer.Exit(130) from None
        typer.echo(f"error: {printable(' '.join(message.split()))}", err=True)
        raise typer.Exit(1)

    def _options(self, ctx: Any) -> dict[str, str]:
        """How the command that was called spells its options, by their names in Python."""
        command = self.get_command(ctx, ctx.invoked_subcommand)
        given = () if command is None else command.params
        return {option.name: option.opts[0] for option in given if option.opts[0].startswith("--")}


# What the library says to Python, and what a specification says instead.
_KEYS = {
    r"\bmultiply every stderr by\b": "multiply every stderr and within of the specification by",
}


def in_keys(message: str) -> str:
    """A message with what it asks for said as a specification holds it.

    Example:
        >>> in_keys("multiply every stderr by at least 2")
        'multiply every stderr and within of the specification by at least 2'
    """
    for said, instead in _KEYS.items():
        message = re.sub(said, instead, message)
    return message


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
