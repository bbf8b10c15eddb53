"""The order of array axes: the one place where axes of cells, rows or factors change it.

An answer under the wrong label comes from two pieces of code that disagree about an order. So nobody
transposes by position: axes are named, on both sides, and this function finds the positions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from leastnoise.core.operators.base import Array


def arranged(values: Array, have: Sequence[Hashable], want: Sequence[Hashable]) -> Array:
    """The same numbers with the leading array axes, named `have`, in the order `want`; further axes stay.

    Example:
        >>> import numpy as np
        >>> arranged(np.zeros((2, 3, 5)), ["age", "sex"], ["sex", "age"]).shape
        (3, 2, 5)
    """
    if list(have) == list(want):
        return values
    if not len(have) == len(want) == len({*have}) or {*have} != {*want}:
        raise ValueError(f"axes {list(have)} cannot be put in the order {list(want)}")
    place = {name: position for position, name in enumerate(have)}
    return values.transpose(*(place[name] for name in want), *range(len(want), values.ndim))
