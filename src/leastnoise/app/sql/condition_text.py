"""Conditions as short text: attribute by attribute where possible, in the fewest words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from leastnoise.app.sql.conditions import joined
from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.query import (
    Bins,
    Combination,
    ComparisonCondition,
    Condition,
    Integers,
    Negation,
    Periods,
    Schema,
    condition_to_text,
    independent_parts,
    satisfying,
)


@dataclass(frozen=True, eq=False)
class ConditionPart:
    """A condition on some attributes that involves no others."""

    axes: tuple[str, ...]
    mask: Array
    condition: Condition


def parts_of(condition: Condition, schema: Schema) -> list[ConditionPart] | None:
    """Short conditions on disjoint attributes that must all hold; None where they cannot all hold."""
    found = []
    for part in independent_parts(condition):
        axes, mask = satisfying(part, schema)
        if not mask.any():
            return None
        others = [tuple(j for j in range(len(axes)) if j != i) for i in range(len(axes))]
        sides: list[Array] = [np.asarray(mask.any(axis=axis)) for axis in others]
        if not _is_product(mask, sides):
            found.append(ConditionPart(axes, mask, part))
            continue
        for name, side in zip(axes, sides, strict=True):
            if side.all():
                continue
            own = [part] if len(axes) == 1 else []
            found_conditions = [*own, *_conditions_for(name, schema, side)]
            if not found_conditions:
                found.append(ConditionPart(axes, mask, part))
                break
            found.append(ConditionPart((name,), side, min(found_conditions, key=_length)))
    return found


def shortly(whole: Sequence[Condition], schema: Schema) -> str:
    """The text of conditions that must all hold, attribute by attribute where possible."""
    parts = parts_of(joined("and", whole), schema)
    # No part means everyone, and even that needs a condition.
    return condition_to_text(joined("and", [part.condition for part in parts] if parts else whole))


def exactly(name: str, schema: Schema, i: int) -> Condition:
    """The condition that cell i of an attribute satisfies and no other does.

    Raises:
        InputError: if a region shares the name of the value, so that no words tell them apart.
    """
    mask = np.zeros(schema[name].size, dtype=bool)
    mask[i] = True
    found_conditions = _conditions_for(name, schema, mask)
    if not found_conditions:
        raise InputError(
            f"a value of {name!r} and a region share the name {schema[name].label(i)!r}",
            field=name,
            given=schema[name].label(i),
            remedy="rename one",
        )
    return found_conditions[0]


def _length(condition: Condition) -> int:
    """The length of a condition, for choosing the shorter of two."""
    if isinstance(condition, Combination):
        return sum(map(_length, condition.parts))
    return 1 + _length(condition.inner) if isinstance(condition, Negation) else 1


def _is_product(mask: Array, sides: list[Array]) -> bool:
    """Whether a mask is the product of its projections: it is if it has as many entries as that product."""
    return math.prod(int(side.sum()) for side in sides) == int(mask.sum())


def _conditions_for(name: str, schema: Schema, mask: Array) -> list[Condition]:
    """The condition that exactly the values in a mask satisfy; None if names are ambiguous."""
    values = schema[name]
    n = values.n_values
    pieces: list[Condition] = []
    for is_held, indices in groupby(range(n), key=lambda i: bool(mask[i])):
        run = list(indices)
        if not is_held:
            continue
        if isinstance(values, (Integers, Bins, Periods)):
            pieces.append(_interval(name, values, run[0], run[-1]))
        else:
            pieces += [ComparisonCondition(name, "==", values.values[i]) for i in run]  # type: ignore[attr-defined]
    if values.other is not None and mask[n]:
        pieces.append(ComparisonCondition(name, "==", values.other))
    found = joined("or", pieces)
    return [found] if (satisfying(found, schema)[1] == mask).all() else []


def _interval(name: str, values: Integers | Bins | Periods, first: int, last: int) -> Condition:
    """Values first to last of the declared ones."""
    starts: Sequence[Any] = values.edges if isinstance(values, Bins) else values.values
    if first == last and not isinstance(values, Bins):
        return ComparisonCondition(name, "==", values.values[first])
    if first == 0 and last == values.n_values - 1:
        if values.other is not None:
            return ComparisonCondition(name, "!=", values.other)
        # An attribute with one cell: every declared value is at or above the first edge.
        return ComparisonCondition(name, ">=", starts[0])
    ends: list[Condition] = [] if first == 0 else [ComparisonCondition(name, ">=", starts[first])]
    ends += [] if last == values.n_values - 1 else [ComparisonCondition(name, "<", starts[last + 1])]
    return ends[0] if len(ends) == 1 else Combination("and", tuple(ends))
