"""When integers that are measured, and the answers made of them, are known, where one attribute is time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from leastnoise.core.errors import DesignError, NotYetError
from leastnoise.core.operators import Array
from leastnoise.query import Workload, due_of_batches

# Coefficients that an answer may take of rows that are measured after it is due, beside its largest one.
_LATE = 1e-9

# Products of coefficients that are looked at to see that.
_MOST_LOOKED_AT = 2**36

# Entries of a table that are made at once.
_CHUNK = 2**22


def axis_of_time(axes: Sequence[tuple[str, ...]], over: str) -> int:
    """The place of the axis, each a tuple of attributes, that is time and nothing else.

    Raises:
        DesignError: if there is none.
    """
    place = next((a for a, axis in enumerate(axes) if axis == (over,)), None)
    if place is None:
        raise no_periods(over)
    return place


def no_periods(over: str) -> DesignError:
    """The error where a plan that is not made for it is asked for the rows of a period."""
    return DesignError("the plan does not measure its periods one by one", field="over", given=over)


def last_columns(rows: Array, periods: Array) -> Array:
    """The last of the columns' periods in which each row has a coefficient other than zero, (r,)."""
    return np.asarray(np.where(rows != 0, periods, 0).max(axis=1, initial=0))


def is_late(gains: Array, due: Array, ends: Array) -> bool:
    """Whether some answer takes more than rounding of an integer that is measured after it is due.

    Args:
        gains: how every integer enters each answer, (answers, integers).
        due: when each answer is due.
        ends: when each integer is measured.
    """
    sizes = np.abs(gains)
    late = np.where(ends[None, :] > due[:, None], sizes, 0.0).max(axis=1, initial=0.0)
    return bool((late > _LATE * sizes.max(axis=1, initial=0.0)).any())


def is_some_late(
    gains_of: Callable[[Array], Array], workload: Workload, over: str, ends: Array, n_cells: int
) -> bool:
    """The same for all queries of a workload, some at a time.

    Args:
        gains_of: how every integer enters the answers to some queries, by their numbers.

    Raises:
        NotYetError: if that takes too long to tell.
    """
    due = np.concatenate(due_of_batches(workload, over))
    m, r = len(due), len(ends)
    if m * n_cells * r > _MOST_LOOKED_AT:
        raise NotYetError(
            f"{m:,} queries of {n_cells:,} cells are too many to be checked against their periods",
            field="over",
            given=over,
        )
    step = max(1, _CHUNK // max(n_cells, r))
    return any(
        is_late(gains_of(index), due[index], ends)
        for index in (np.arange(start, min(start + step, m)) for start in range(0, m, step))
    )
