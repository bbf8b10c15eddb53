"""Attributes that belong together in a statement, and the groups that they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.app.sql.condition_text import Part, exactly
from leastnoise.app.sql.conditions import Buckets, joined
from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.query import MAX_CASE_ENTRIES, Condition, Schema, condition_to_text

# Groups that conditions or CASE tie together, each of which has a condition of its own.
MAX_GROUPS = 1_000


@dataclass(frozen=True, eq=False)
class Tied:
    """Attributes that conditions and CASE tie together, and what is grouped by of them.

    Attributes:
        axes: the attributes, in schema order.
        parts: the conditions on them.
        buckets: the groups of a CASE.
        grouped: those attributes whose values are groups, in schema order.
    """

    axes: tuple[str, ...]
    parts: tuple[Part, ...]
    buckets: tuple[Buckets, ...]
    grouped: tuple[str, ...]

    @property
    def heading(self) -> str | None:
        """What heads a column of the groups; None where they have no name, or say it themselves."""
        names = [*(group.title for group in self.buckets), *self.grouped]
        return names[0] if len(names) == 1 else None


@dataclass(frozen=True, eq=False)
class Group:
    """One group that can occur: its label, who is in it over the tied attributes, and in which words."""

    label: str
    mask: Array
    conditions: tuple[Condition, ...]


def tied_together(
    parts: Sequence[Part], buckets: Sequence[Buckets], shared: frozenset[str], schema: Schema
) -> list[Tied]:
    """What is grouped by and under which conditions, one entry for attributes that belong together."""
    loose: list[tuple[frozenset[str], list[Part], list[Buckets]]] = [
        *((frozenset(part.axes), [part], []) for part in parts),
        *((group.attributes, [], [group]) for group in buckets),
        *((frozenset({name}), [], []) for name in schema if name in shared),
    ]
    merged: list[tuple[frozenset[str], list[Part], list[Buckets]]] = []
    for names, own, groups in loose:
        touching = [other for other in merged if other[0] & names]
        merged = [other for other in merged if not other[0] & names]
        names = names.union(*(other[0] for other in touching))
        own = [*(part for other in touching for part in other[1]), *own]
        groups = [*(group for other in touching for group in other[2]), *groups]
        merged.append((names, own, groups))
    found = []
    for names, own, groups in merged:
        axes = tuple(name for name in schema if name in names)
        grouped = tuple(name for name in axes if name in shared)
        found.append(Tied(axes, tuple(own), tuple(groups), grouped))
    return found


def groups_of(tied: Tied, schema: Schema) -> list[Group]:
    """Every group that can occur: one of each CASE with one value of each attribute that is grouped by."""
    axes = tied.axes
    conditions = tuple(part.condition for part in tied.parts)
    found = [Group("", mask_of(conditions, axes, schema), conditions)]
    most = min(MAX_GROUPS, MAX_CASE_ENTRIES // found[0].mask.size)
    keys: list[str | Buckets] = [*tied.buckets, *tied.grouped]
    are_named = len(keys) > 1
    for key in keys:
        title = key if isinstance(key, str) else key.title
        further = []
        for group in found:
            for label, condition in _values(key, group.mask, axes, schema):
                inside = group.mask & condition.mask(schema, axes)
                if not inside.any():
                    continue
                own = f"{title} {label}" if are_named and title else label
                label = f"{group.label}, {own}" if group.label else own
                further.append(Group(label, inside, (*group.conditions, condition)))
            if len(further) > most:
                raise InputError(
                    f"{', '.join(axes)} are tied together by conditions and make more than {most:,} "
                    "groups, each with a condition of its own. Group by fewer, or join conditions with AND"
                )
        found = further
    return _with_condition(found, conditions, axes, schema)


def _with_condition(
    groups: list[Group], conditions: tuple[Condition, ...], axes: tuple[str, ...], schema: Schema
) -> list[Group]:
    """The groups, with the condition in every label where some label would not say who is left out.

    Grouped by a alone, "a 3" would stand for those of a = 3 that also satisfy "a > 3 or b == 2". Where all
    attributes of the condition are grouped by, groups outside of it are not there, and labels say all.
    """
    own = [mask_of(group.conditions[len(conditions) :], axes, schema) for group in groups]
    if all((mask == group.mask).all() for group, mask in zip(groups, own, strict=True)):
        return groups
    words = condition_to_text(joined("and", conditions))
    return [Group(f"{group.label}, {words}", group.mask, group.conditions) for group in groups]


def mask_of(conditions: Sequence[Condition], axes: tuple[str, ...], schema: Schema) -> Array:
    """Who satisfies all of some conditions, over the combinations of some attributes."""
    shape = tuple(schema[name].size for name in axes)
    if math.prod(shape) > MAX_CASE_ENTRIES:
        raise InputError(
            f"conditions tie {', '.join(axes)} together, which have {math.prod(shape):,} combinations; at "
            f"most {MAX_CASE_ENTRIES:,} are looked at. Join conditions on different attributes with AND"
        )
    mask = np.ones(shape, dtype=bool)
    for condition in conditions:
        mask &= condition.mask(schema, axes)
    return mask


def _values(
    key: str | Buckets, mask: Array, axes: tuple[str, ...], schema: Schema
) -> Sequence[tuple[str, Condition]]:
    """The label and the condition of every group of a CASE, or of those values of an attribute that occur."""
    if isinstance(key, Buckets):
        return key.branches
    others = tuple(i for i, name in enumerate(axes) if name != key)
    values = np.flatnonzero(mask.any(axis=others)).tolist()
    if len(values) > MAX_GROUPS:
        raise InputError(
            f"a condition ties {key!r} to others and leaves {len(values):,} of its values to group by, each "
            f"with a condition of its own; at most {MAX_GROUPS:,} are made. Join conditions with AND"
        )
    return [(schema[key].label(i), exactly(key, schema, i)) for i in values]
