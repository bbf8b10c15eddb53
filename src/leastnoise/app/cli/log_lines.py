"""The log of a command: one line per step, as text or as JSON lines."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leastnoise.core.errors import InputError
from leastnoise.core.printable import printable
from leastnoise.core.steps import LOGGER


class _StepLines(logging.Formatter):
    """One line for each record.

    Args:
        command: whose steps they are.
        is_json: JSON lines instead of text.
    """

    def __init__(self, command: str, *, is_json: bool) -> None:
        super().__init__()
        self._command, self._is_json = command, is_json

    def format(self, record: logging.LogRecord) -> str:
        """The line: when, which command, which step, and values of the request."""
        # In whole seconds: finer times would say more about how long a table takes.
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        if not self._is_json:
            return f"{at} leastnoise {self._command}: {printable(record.getMessage())}"
        step = getattr(record, "step", record.getMessage())
        facts = getattr(record, "facts", {})
        return json.dumps({"time": at, "command": self._command, "step": step, **facts})


@contextmanager
def logging_to(command: str, file: Path | None, *, is_verbose: bool) -> Iterator[None]:
    """Write the steps of a command to a file, to standard error, to both or to neither.

    Raises:
        InputError: if the file cannot be written.
    """
    handlers: list[logging.Handler] = []
    if is_verbose:
        handlers.append(_with_lines(logging.StreamHandler(sys.stderr), command, is_json=False))
    if file is not None:
        try:
            own = logging.FileHandler(file, encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"the log {str(file)!r} cannot be written: {error.strerror}", field="log", given=str(file)
            ) from None
        handlers.append(_with_lines(own, command, is_json=file.suffix.lower() == ".jsonl"))
    level = LOGGER.level
    if handlers:
        LOGGER.setLevel(logging.INFO)
    for handler in handlers:
        LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        for handler in handlers:
            LOGGER.removeHandler(handler)
            handler.close()


def _with_lines(handler: logging.Handler, command: str, *, is_json: bool) -> logging.Handler:
    handler.setFormatter(_StepLines(command, is_json=is_json))
    return handler
