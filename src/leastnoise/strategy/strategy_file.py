"""Strategies of every kind read from the parts that `to_parts` took them apart into.

Nothing in a file is trusted: whatever is made of it is checked as if somebody had made it by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError, PlanFileError
from leastnoise.core.operators import MAX_ENTRIES, Array
from leastnoise.query import Workload, axes_from_plain, classes_of, part_of
from leastnoise.strategy.axis_form import form_from_parts
from leastnoise.strategy.combined_rows import combined_rows
from leastnoise.strategy.integer_rows import Strategy
from leastnoise.strategy.measured import Measured
from leastnoise.strategy.over_classes import OverClasses
from leastnoise.strategy.query_rows import RowsAsAsked
from leastnoise.strategy.side_by_side import Side, SideBySide, prefix
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.integer_blocks import ProductBlock
from leastnoise.strategy.structured.tables import WeightedTables

# The finest grid a file may ask for, in bits: floats hold the rows on it.
_MAX_BITS = 512

# Coefficients lie below this, so that rows on any such grid are exact.
_MAX_COEFFICIENT = 2**30

# The largest factor of one of several strategies that a file may ask for.
_MAX_FACTOR = 2**256

# Kinds of blocks of products.
_BLOCKS = {"blocks": Structured, "tables": WeightedTables}


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
    if kind == "side-by-side":
        return _side_by_side_from_parts(structure, arrays, workload, how)
    if kind == "combined":
        return _combined_from_parts(arrays, workload, how)
    if kind == "queries":
        return _as_asked_from_plain(structure, workload, how)
    if kind == "joint":
        return _weighted_from_parts(structure, arrays, how)
    if kind in _BLOCKS:
        return _blocks_from_parts(structure, arrays, how)
    raise _unknown()


def _combined_from_parts(arrays: Mapping[str, Array], workload: Workload, how: dict[str, Any]) -> Measured:
    positions, rows = arrays["combined"], arrays["rows"]
    fits = positions.ndim == 1 and positions.dtype.kind == "i" and len(positions) > 0
    fits = fits and 0 <= positions.min() <= positions.max() < workload.shape[0]
    # In the order of time, the last query comes first.
    fits = fits and len(np.unique(positions)) == len(positions)
    if not fits or rows.ndim != 3 or rows.dtype.kind != "i":
        raise _unfit()
    return combined_rows(exact.from_limbs(rows), workload, positions, **how)


def _side_by_side_from_parts(
    plain: Any, arrays: Mapping[str, Array], workload: Workload, how: dict[str, Any]
) -> Measured:
    """Several strategies, each for batches of its own."""
    sides = []
    for number, side in enumerate(plain["sides"]):
        names, factor = tuple(side["names"]), int(side["factor"])
        if not 1 <= factor < _MAX_FACTOR or not set(names) <= set(workload.names):
            raise _unfit()
        inner = {"structure": side["structure"]} if side["structure"] else {}
        own = strategy_from_parts(inner, _own(arrays, prefix(number)), part_of(workload, names), **how)
        sides.append(Side(own, factor, names))
    return SideBySide(sides)


def _as_asked_from_plain(plain: Any, workload: Workload, how: dict[str, Any]) -> Measured:
    """The queries of the plan, as they are asked."""
    bits, operator = plain.get("bits"), workload.operator
    is_small = math.prod(operator.shape) <= MAX_ENTRIES // 8 and operator.largest < _MAX_COEFFICIENT
    if type(bits) is not int or not 0 <= bits <= _MAX_BITS or not (operator.is_integer and is_small):
        raise _unknown()
    return RowsAsAsked(workload, bits=bits, **how)


def _blocks_from_parts(plain: Any, arrays: Mapping[str, Array], how: dict[str, Any]) -> Measured:
    """Blocks of products, or weighted tables."""
    axes = axes_from_plain(plain["axes"])
    forms = [
        [
            form_from_parts(plain_form, _own(arrays, f"axis{place}_{number}_"))
            for number, plain_form in enumerate(own)
        ]
        for place, own in enumerate(plain["forms"])
    ]
    sizes, flat, chosen = arrays["block_sizes"], arrays["block_axes"], arrays["block_forms"]
    limbs = arrays["multipliers"]
    are_lists = all(array.ndim == 1 and array.dtype.kind == "i" for array in (sizes, flat, chosen))
    if not are_lists or limbs.ndim != 2 or limbs.dtype.kind != "i" or len(limbs) != len(sizes):
        raise PlanFileError("the file holds blocks that are not sets of axes", field="blocks")
    if (sizes < 0).any() or int(sizes.sum()) != len(flat) or len(flat) != len(chosen):
        raise PlanFileError("the file holds blocks that are not sets of axes", field="blocks")
    ends = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    axes_listed, forms_listed = flat.tolist(), chosen.tolist()
    whole = arrays.get("block_whole", np.zeros((len(sizes), 0), dtype=np.int64))
    if whole.ndim != 2 or whole.dtype.kind != "i":
        raise PlanFileError("the file holds blocks that are not sets of axes", field="blocks")
    blocks = [
        ProductBlock(tuple(axes_listed[start:end]), tuple(forms_listed[start:end]), int(k), tuple(own))
        for (start, end), k, own in zip(
            pairwise(ends), exact.from_limbs(limbs).tolist(), whole.tolist(), strict=True
        )
    ]
    centres = {(int(a), tuple(int(b) for b in history)): int(form) for a, history, form in plain["centres"]}
    order = [int(a) for a in plain["order"]]
    return _BLOCKS[plain["kind"]](axes, forms, blocks, centres=centres, order=order, **how)


def _weighted_from_parts(plain: Any, arrays: Mapping[str, Array], how: dict[str, Any]) -> Measured:
    """One block with a multiplier for every product of rows."""
    axes = axes_from_plain(plain["axes"])
    forms = [
        [form_from_parts(own, _own(arrays, f"axis{place}_"))] for place, own in enumerate(plain["forms"])
    ]
    limbs = arrays["multipliers"]
    if limbs.dtype.kind != "i" or limbs.ndim != len(axes) + 1:
        raise PlanFileError("the file holds multipliers that are not whole numbers", field="multipliers")
    blocks = [ProductBlock((), (), 1, weights=exact.from_limbs(limbs))]
    return Structured(axes, forms, blocks, **how)


def _own(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names begin so, without that."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _unknown() -> PlanFileError:
    return PlanFileError(
        "the file holds a strategy of a kind that this version does not know", field="strategy"
    )


def _unfit() -> DesignError:
    return DesignError("the file holds arrays that do not fit its workload", field="strategy")
