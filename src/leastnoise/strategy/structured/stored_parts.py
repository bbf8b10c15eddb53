"""Structured strategies read back from files, without trusting them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import PlanFileError
from leastnoise.core.operators import Array
from leastnoise.query import axes_from_plain
from leastnoise.strategy.structured.axis_form import form_from_parts
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.layout import Block
from leastnoise.strategy.structured.tables import Tables


def structured_from_parts(
    plain: Any, arrays: Mapping[str, Array], *, scale: int, noise: str, neighbours: str
) -> Structured:
    """The strategy that `Structured.to_parts` took apart, read without trusting it.

    Raises:
        PlanFileError: if it is none.
    """
    kinds = {"blocks": Structured, "tables": Tables}
    if not isinstance(plain, dict) or plain.get("kind") not in kinds:
        raise PlanFileError("the file holds a strategy of a kind that this version does not know")
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
        raise PlanFileError("the file holds blocks that are no sets of axes")
    if (sizes < 0).any() or int(sizes.sum()) != len(flat) or len(flat) != len(chosen):
        raise PlanFileError("the file holds blocks that are no sets of axes")
    ends = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    axes_listed, forms_listed = flat.tolist(), chosen.tolist()
    blocks = [
        Block(tuple(axes_listed[start:end]), tuple(forms_listed[start:end]), int(k))
        for (start, end), k in zip(pairwise(ends), exact.from_limbs(limbs).tolist(), strict=True)
    ]
    centres = {(int(a), tuple(int(b) for b in history)): int(form) for a, history, form in plain["centres"]}
    return kinds[plain["kind"]](
        axes,
        forms,
        blocks,
        scale=scale,
        noise=noise,
        neighbours=neighbours,
        centres=centres,
        order=[int(a) for a in plain["order"]],
    )


def _own(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names begin so, without that."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
