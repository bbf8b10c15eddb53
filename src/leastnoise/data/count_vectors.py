"""Counts given one by one instead of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise.core.errors import DataError
from leastnoise.data.connections import withheld


def is_count_vector(source: Any) -> bool:
    """Whether a source is meant as counts, one per cell, and not as a table."""
    if isinstance(source, (list, tuple)):
        return all(isinstance(entry, (int, float, np.number, np.bool_, list, tuple)) for entry in source)
    return isinstance(source, np.ndarray)


def counts_from_vector(source: Any, n: int, shape: tuple[int, ...] | None = None) -> npt.NDArray[Any]:
    """The counts of all cells, shape (n,), from counts given one by one.

    An array of several axes must have the `shape` of the schema, one axis for each
    attribute. The result is a copy: int64, or Python integers from 2⁶³ on.

    Raises:
        DataError: unless these are n whole numbers, none negative, in one of these shapes.
    """
    if isinstance(source, np.ma.MaskedArray) or not isinstance(source, (list, tuple, np.ndarray)):
        raise DataError.must("counts", "be a list, a tuple or a plain array", given=type(source))
    dtype = source.dtype if isinstance(source, np.ndarray) else object
    given = withheld("reading the counts", lambda: np.array(source, dtype=dtype, ndmin=1))
    if given.ndim > 1 and given.shape != shape:
        wanted = "" if shape is None else f", or an array of {' x '.join(map(str, shape))}"
        raise DataError.must(
            "counts",
            f"be a plain list of {n:,} numbers{wanted}, in the order of the schema",
            given=type(source),
        )
    x = given.ravel()
    if x.size != n:
        raise DataError.must(
            "counts", f"be given for every cell, {n:,} in all, zeros included", given=type(source)
        )
    is_whole = x.dtype.kind in "iu" or (
        x.dtype.kind == "O" and all(isinstance(c, (int, np.integer)) and not isinstance(c, bool) for c in x)
    )
    if not is_whole:
        raise DataError.must(
            "counts",
            "be whole numbers of an integer type",
            given=type(source),
            remedy="convert with .astype(int)",
        )
    if (x < 0).any():
        raise DataError("counts must not be negative", field="counts")
    if x.dtype.kind != "i" and (x > 2**63 - 1).any():
        return np.array([int(count) for count in x], dtype=object)
    return x.astype(np.int64)
