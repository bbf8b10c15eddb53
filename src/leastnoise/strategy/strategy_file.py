"""Strategies of every kind read from the parts that `to_parts` took them apart into.

Nothing in a file is trusted: whatever is made of it is checked as if somebody had made it by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.query import Workload, classes_of
from leastnoise.strategy.combined_rows import combined_rows
from leastnoise.strategy.integer_rows import Strategy
from leastnoise.strategy.measured import Measured
from leastnoise.strategy.over_classes import OverClasses
from leastnoise.strategy.query_rows import query_rows_from_plain
from leastnoise.strategy.structured.construction import (
    structured_from_parts,
    weighted_from_parts,
)


def strategy_from_parts(
    content: Mapping[str, Any],
    arrays: Mapping[str, Array],
    workload: Workload,
    *,
    scale: int,
    noise: str,
    neighbours: str,
) -> Measured:
    """The strategy of a plan for this workload.

    Args:
        content: of the plan; "structure" in it says of which kind the strategy is, rows over all cells
            where it is missing.

    Raises:
        PlanFileError: if it is none.
        DesignError: if its parts do not fit one another, or the workload.
    """
    how: dict[str, Any] = {"scale": scale, "noise": noise, "neighbours": neighbours}
    if "structure" not in content:
        rows = arrays["rows"]
        if rows.ndim != 3 or rows.dtype.kind != "i" or rows.shape[1] != workload.shape[1]:
            raise _unfit()
        return Strategy(exact.from_limbs(rows), **how)
    structure = content["structure"]
    kind = structure.get("kind") if isinstance(structure, dict) else None
    if kind == "classes":
        found = classes_of(workload)
        classes = None if found is None else found.in_order_of(arrays["classes"])
        reduced = None if classes is None else classes.reduced(workload)
        if classes is None or reduced is None:
            raise DesignError(
                "the file holds classes of cells that are not those of its queries", field="strategy"
            )
        inner = {"structure": structure["inner"]} if structure["inner"] else {}
        return OverClasses(strategy_from_parts(inner, arrays, reduced, **how), classes)
    if kind == "combined":
        return _combined_from_parts(arrays, workload, how)
    if kind == "queries":
        return query_rows_from_plain(structure, workload, **how)
    if kind == "joint":
        return weighted_from_parts(structure, arrays, **how)
    return structured_from_parts(structure, arrays, **how)


def _combined_from_parts(arrays: Mapping[str, Array], workload: Workload, how: dict[str, Any]) -> Measured:
    positions, rows = arrays["combined"], arrays["rows"]
    fits = positions.ndim == 1 and positions.dtype.kind == "i" and len(positions) > 0
    fits = fits and 0 <= positions.min() <= positions.max() < workload.shape[0]
    # In the order of time, the last query comes first.
    fits = fits and len(np.unique(positions)) == len(positions)
    if not fits or rows.ndim != 3 or rows.dtype.kind != "i":
        raise _unfit()
    return combined_rows(exact.from_limbs(rows), workload, positions, **how)


def _unfit() -> DesignError:
    return DesignError("the file holds arrays that do not fit its workload", field="strategy")
