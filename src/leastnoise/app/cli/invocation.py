"""One call of a command: the options that all commands have, its result as text or JSON, its log and its end.

A command is a function that prints for people and returns its facts as a dictionary. With ``--json`` what it
prints is dropped, and one object that holds the facts is written instead; errors are such objects too.
`output.schema.json`, beside this file, describes them.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

import leastnoise
from leastnoise.app.cli.exit_codes import CLOSED_PIPE, DONE, INTERRUPTED, USAGE, ExitCode, exit_code_of
from leastnoise.app.cli.log_lines import logging_to
from leastnoise.app.cli.refusals import shell_text, warnings_in_lines
from leastnoise.app.cli.terminal import OUTPUT, Output
from leastnoise.core.errors import InputError, LeastnoiseError, SpecError
from leastnoise.core.printable import printable
from leastnoise.core.steps import log_step

# The version of what --json writes: raised when a key is renamed, removed or means something else.
FORMAT = 1

Facts = dict[str, Any]

_PANEL = "Output"
_COMMON = {
    "json": Annotated[
        bool,
        typer.Option("--json", help="write one JSON object to standard output", rich_help_panel=_PANEL),
    ],
    "quiet": Annotated[
        bool,
        typer.Option("--quiet", help="print nothing but warnings and errors", rich_help_panel=_PANEL),
    ],
    "verbose": Annotated[
        bool,
        typer.Option("--verbose", help="log every step to standard error", rich_help_panel=_PANEL),
    ],
    "log": Annotated[
        Path | None,
        typer.Option(
            "--log",
            help="append a line per step to this file; JSON lines if it ends in .jsonl",
            rich_help_panel=_PANEL,
        ),
    ],
}
_DEFAULTS = {"json": False, "quiet": False, "verbose": False, "log": None}


class Ended(typer.Exit):
    """The end of a command that did its work and has another status than 0.

    Attributes:
        facts: what it found.
    """

    def __init__(self, code: int, facts: Facts) -> None:
        super().__init__(code)
        self.facts = facts


def as_command(function: Callable[..., Facts]) -> Callable[..., None]:
    """A function as a command, with the options that all commands have."""

    @wraps(function)
    def command(context: typer.Context, **given: Any) -> None:
        common = {name: given.pop(name) for name in _COMMON}
        _Call(context, **common).run(lambda: function(**given))

    own = inspect.signature(function, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        *(
            inspect.Parameter(name, keyword, default=_DEFAULTS[name], annotation=kind)
            for name, kind in _COMMON.items()
        ),
    ]
    given = [parameter.replace(kind=keyword) for parameter in own.parameters.values()]
    command.__signature__ = own.replace(parameters=[*given, *added], return_annotation=None)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in [*given, *added]}
    return command


class _Call:
    """One call of a command."""

    def __init__(
        self, context: typer.Context, *, json: bool, quiet: bool, verbose: bool, log: Path | None
    ) -> None:
        self._name = " ".join(context.command_path.split()[1:])
        # How the command spells its options, by their names in Python.
        self._options = {
            option.name: option.opts[0]
            for option in context.command.params
            if option.name is not None and option.opts[0].startswith("--")
        }
        self._is_json, self._verbose, self._log = json, verbose, log
        self._output = Output(is_quiet=quiet or json, is_json=json, stdout=sys.stdout)

    def run(self, work: Callable[[], Facts]) -> None:
        """Do the work; print what it found, and end with its status."""
        token = OUTPUT.set(self._output)
        try:
            with contextlib.ExitStack() as stack:
                ended = self._tried(work, stack)
            self._output.flush()
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            close_output()
            raise typer.Exit(CLOSED_PIPE.code) from None
        finally:
            OUTPUT.reset(token)
        if ended:
            raise typer.Exit(ended)

    def _tried(self, work: Callable[[], Facts], stack: contextlib.ExitStack) -> int:
        """The exit status of the work, whose facts or error are written by then."""
        from leastnoise.privacy import n_spendings_started

        before = n_spendings_started()
        try:
            stack.enter_context(logging_to(self._name, self._log, is_verbose=self._verbose))
            log_step("command started", version=leastnoise.__version__)
            with warnings_in_lines(), self._without_text():
                facts, status = _facts_of(work)
        except (LeastnoiseError, MemoryError, KeyboardInterrupt) as error:
            # Said by the commands that could have spent, and only where none of it had begun.
            is_unspent = "ledger" in self._options and n_spendings_started() == before
            return self._refused(error, is_unspent=is_unspent)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            return self._refused(error)
        except typer.Exit:
            raise
        except Exception as error:
            # A fault of the library itself: its traceback follows, and may quote anything.
            if self._is_json:
                text = "a fault of leastnoise itself; standard error has its traceback"
                self._write(_error_facts(error, text, None), exit_code_of(type(error)).code)
            raise
        log_step("command ended")
        if self._is_json:
            self._write({"result": facts}, status)
        return status

    @contextlib.contextmanager
    def _without_text(self) -> Iterator[None]:
        """Drop what is printed for people, where nobody asked for it."""
        if not self._output.is_quiet:
            yield
            return
        with contextlib.redirect_stdout(io.StringIO()):
            yield

    def _refused(self, error: BaseException, *, is_unspent: bool = False) -> int:
        """Say why, in one line and where asked for in JSON; the exit status."""
        row = exit_code_of(type(error))
        log_step("command refused", exit=row.code, because=row.meaning)
        text, remedy = message_of(error, self._options, is_unspent=is_unspent)
        line = text if row is INTERRUPTED else f"error: {text}"
        typer.echo(line, err=True)
        if self._is_json:
            self._write(_error_facts(error, text, remedy), row.code)
        return row.code

    def _write(self, facts: Facts, status: int) -> None:
        write_json(self._output, self._name, facts, status)


def _facts_of(work: Callable[[], Facts]) -> tuple[Facts, int]:
    try:
        return work() or {}, DONE.code
    except Ended as ended:
        return ended.facts, ended.exit_code


def message_of(
    error: BaseException, options: Mapping[str, str], *, is_unspent: bool = False
) -> tuple[str, str | None]:
    """What is said of an error in one line, and what to do next as far as the error knows."""
    if isinstance(error, LeastnoiseError):
        remedy = error.remedy
        found = None if remedy is None else shell_text(LeastnoiseError(remedy, field=error.field), options)
        return _one_line(shell_text(error, options)), None if found is None else _one_line(found)
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted{'; nothing was spent' if is_unspent else ''}", None
    if isinstance(error, MemoryError):
        return "there is not enough memory for this", None
    assert isinstance(error, OSError)
    return _one_line(f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}"), None


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _error_facts(error: BaseException, text: str, remedy: str | None) -> Facts:
    row = exit_code_of(type(error))
    return {
        "error": {
            "class": type(error).__name__,
            "field": getattr(error, "field", None),
            "line": error.line if isinstance(error, SpecError) else None,
            "message": text,
            "remedy": remedy,
            "exit_code": row.code,
            "meaning": row.meaning,
            "advice": row.advice,
        }
    }


def usage_facts(text: str) -> Facts:
    """The error of a command line that was mistyped."""
    row: ExitCode = USAGE
    return {
        "error": {
            "class": "UsageError",
            "field": None,
            "line": None,
            "message": _one_line(text),
            "remedy": "leastnoise --help lists the commands, leastnoise COMMAND --help its options",
            "exit_code": row.code,
            "meaning": row.meaning,
            "advice": row.advice,
        }
    }


def write_json(output: Output, command: str, facts: Facts, status: int) -> None:
    """Write the one object that --json asks for, in letters that every encoding has."""
    whole = {
        "format": FORMAT,
        "leastnoise": leastnoise.__version__,
        "command": command,
        "exit_code": status,
        "warnings": list(output.warnings),
        **facts,
    }
    output.write(json.dumps(plain(whole), allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """A value as JSON has it: a path is a text, and what is no finite number is null.

    Example:
        >>> plain({"gap": math.inf, "files": (Path("a.csv"),)})
        {'gap': None, 'files': ['a.csv']}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, Path):
        return str(value)
    # NumPy's numbers give Python's.
    number = value.item() if hasattr(value, "item") else value
    return None if isinstance(number, float) and not math.isfinite(number) else number


def close_output() -> None:
    """Leave Python nothing to flush into a pipe that nobody reads any more."""
    with contextlib.suppress(OSError, ValueError):
        number = sys.stdout.fileno()
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def check_alone(field: str, given: object) -> None:
    """Refuse --json where a command writes something else to standard output."""
    if OUTPUT.get().is_json:
        raise InputError(
            "--json writes its object to standard output, where nothing else can go",
            field=field,
            given=given,
            remedy="write that to a file, or leave out --json",
        )
