"""Errors that say nothing about the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from leastnoise.core.errors import DataError, LeastnoiseError

_T = TypeVar("_T")


def withheld(step: str, run: Callable[[], _T]) -> _T:
    """What ``run`` returns; if it fails, an error of ours without a word of the original.

    An engine quotes values in its messages, so the new error is raised outside
    the handler: not even ``__context__`` leads back to the old one.
    """
    try:
        return run()
    except LeastnoiseError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise DataError(
        f"{step} failed ({kind}). The reason is withheld, because it can hold values of the table",
        field="table",
        given=kind,
        remedy="check that the table opens in its own program, that its columns are plain text or "
        "numbers, and that there is enough memory",
    )
