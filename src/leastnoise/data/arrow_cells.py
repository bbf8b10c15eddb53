"""From the values of Arrow columns to cells, by NumPy and PyArrow, in processes without this package.

Spark's executors place whole numbers, floats in bins and listed texts so: the columns are sent as they are
stored, and Java generates, compiles and runs no code for them. 20 attributes of two million records took
9.7 s of processor time instead of 13.1 s as numbers, and 13.5 s instead of 25.6 s as texts, in a session
that had just started (benchmarks/engines.py). All other columns are placed by SQL and arrive as cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.data.ibis_cells import family_of, is_far
from leastnoise.data.placement import Edges, Placement, Steps

# How the cells of a column are found: the name of a way, what it takes, and the cells of other values and of
# nulls, -1 for none. Plain values, because executors know none of the classes of this package.
ArrowPlacing = tuple[str, tuple[Any, ...], int, int]

# A column of cells, null where there is none.
ALREADY_PLACED: ArrowPlacing = ("cells", (), -1, -1)


def arrow_placing(rule: Placement, dtype: Any) -> ArrowPlacing | None:
    """How a column of an Ibis type is placed here; None if an engine has to place it."""
    family, search = family_of(dtype), rule.search
    if rule.clean is not None or rule.dates is not None:
        return None
    outside, null = (-1 if cell is None else cell for cell in (rule.outside, rule.null))
    if isinstance(search, Edges):
        bounds = (list(search.edges), search.is_clamped, search.is_end_inside)
        return ("bins", bounds, outside, null) if family in ("whole", "float") else None
    if isinstance(search, Steps):
        if family != "whole" or is_far(search) or search.is_floored:
            return None
        return ("steps", (search.low, search.high, search.step, search.is_clamped), outside, null)
    if rule.kind == "text" and family == "text" and dtype.is_string():
        texts = [text.encode("utf-8", "surrogatepass") for text in search.values]
        return ("listed", ("binary", texts, list(range(len(texts)))), outside, null)
    if rule.kind == "whole" and family == "whole":
        fitting = [(n, i) for i, n in enumerate(search.values) if -(2**63) <= n < 2**63]
        return ("listed", ("int64", [n for n, _ in fitting], [i for _, i in fitting]), outside, null)
    return None


def column_placer() -> Callable[[Any, ArrowPlacing], npt.NDArray[np.int64]]:
    """A function that gives the cells of one Arrow column, -1 where a value has none.

    Guarantee:
        Nothing of this package is called by it: a process without the package can run it.
    """

    def steps(column: Any, low: int, high: int, step: int, is_clamped: bool) -> npt.NDArray[np.int64]:
        number = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if is_clamped:
            number = np.clip(number, low, high)
        is_inside = (number >= low) & (number <= high)
        # Only what is inside is subtracted from: nothing overflows.
        cells = np.where(is_inside, number, low) - low
        if step > 1:
            is_inside &= cells % step == 0
            cells //= step
        return np.where(is_inside, cells, -1)

    def bins(column: Any, edges: list[float], is_clamped: bool, is_end_inside: bool) -> npt.NDArray[np.int64]:
        number = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        cells = np.clip(np.searchsorted(edges, number, side="right") - 1, 0, len(edges) - 2)
        if not is_clamped:
            is_below_end = number <= edges[-1] if is_end_inside else number < edges[-1]
            cells = np.where((number >= edges[0]) & is_below_end, cells, -1)
        return cells

    def listed(column: Any, kind: str, values: list[Any], cells: list[int]) -> npt.NDArray[np.int64]:
        import pyarrow
        import pyarrow.compute

        declared = pyarrow.array(values, type=kind)
        index = pyarrow.compute.index_in(column.cast(kind), value_set=declared).fill_null(-1)
        # The last of these is that of index -1.
        return np.array([*cells, -1], dtype=np.int64)[index.to_numpy(zero_copy_only=False)]

    ways: dict[str, Callable[..., npt.NDArray[np.int64]]] = {"steps": steps, "bins": bins, "listed": listed}

    def place(column: Any, placing: ArrowPlacing) -> npt.NDArray[np.int64]:
        way, given, outside, null = placing
        if way == "cells":
            return np.asarray(column.fill_null(-1).to_numpy(zero_copy_only=False)).astype(np.int64)
        cells = ways[way](column, *given)
        if outside >= 0:
            cells = np.where(cells < 0, outside, cells)
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        if way == "bins":
            is_null = is_null | np.isnan(column.fill_null(0).to_numpy(zero_copy_only=False))
        return np.where(is_null, null, cells)

    return place


def stored_column(name: str, placing: ArrowPlacing) -> str:
    """Spark's SQL for a column as it is sent: of texts, as many bytes as tell the declared ones."""
    way, given, _, _ = placing
    if way == "cells":
        return f"CAST({name} AS INT)"
    if way == "listed" and given[0] == "binary":
        longest = max((len(text) for text in given[1]), default=0)
        # One byte more than the longest, by which a longer text differs from every one.
        return f"SUBSTRING(CAST({name} AS BINARY), 1, {longest + 1})"
    return name
