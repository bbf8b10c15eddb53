"""What several test files share."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from leastnoise.core.merged_cells import Cells
from leastnoise.query import Workload


def extra(module: str) -> Any:
    """An optional module: skipped visibly on the light core, required where every extra is installed."""
    if os.environ.get("LEASTNOISE_ALL_EXTRAS"):
        return importlib.import_module(module)
    return pytest.importorskip(module)


@contextmanager
def refuses(kind: type[Exception], field: str, given: object = ..., *says: str) -> Iterator[Any]:
    """A block that raises an error about `field`.

    Args:
        given: what the error says was given; ``...`` where a test does not look at it.
        says: what the text must hold: its place, or words that tell it from another error of the same field.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error: Any = caught.value
    assert error.field == field, f"{error.field!r}: {error}"
    # By text, because nan does not equal itself and True equals 1.
    assert given is ... or repr(error.given) == repr(given), f"{error.given!r}: {error}"
    assert all(words in str(error) for words in says), str(error)


def cells_of(workload: Workload) -> Cells:
    """The cells that the queries tell apart, in the order of their first ones; all if that takes long."""
    return workload.cells or Cells.all_of(workload.shape[1])


# Exit statuses of a command that refuses with a line that begins with "error: ".
REFUSAL_CODES = (1, 4, 5, 6, 7, 8, 9)
