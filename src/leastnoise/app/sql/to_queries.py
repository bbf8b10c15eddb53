"""Statements as queries: products wherever possible, so that large domains stay implicit.

A count of a cross table is a product: conditions on some attributes, every value of
others, the groups of a CASE. Attributes that a condition or a CASE ties together are
one factor of it. Where that is a condition and nothing grouped by, it is a `Where`;
where it is one attribute with a condition on it, the values left are listed (`Ranges`);
anything else is a row for each group that can occur, with its own condition (`Cases`).
Only a sum under a condition on the very attribute that is added up is no product of
queries; it is written out as `Linear` rows, for domains that this is possible for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.app.sql.condition_text import ConditionPart, exactly, parts_of, shortly
from leastnoise.app.sql.conditions import Buckets, joined
from leastnoise.app.sql.statements import CountRequest
from leastnoise.core.errors import InputError, SqlError
from leastnoise.core.operators import Array, Matrix
from leastnoise.query import (
    MAX_CASE_ENTRIES,
    Attribute,
    Bins,
    Cases,
    Condition,
    Cube,
    Factor,
    Integers,
    Labels,
    Linear,
    Marginal,
    Mean,
    Query,
    Ranges,
    Ratio,
    Schema,
    Share,
    Sum,
    Total,
    Where,
    condition_to_text,
    labelled_factor,
    term_labels,
    term_operator,
)

# Groups that conditions or CASE tie together, each of which has a condition of its own.
MAX_GROUPS = 1_000


@dataclass(frozen=True, eq=False)
class Tied:
    """Attributes that conditions or CASE join, and the grouping keys among them.

    Attributes:
        axes: the attributes, in schema order.
        parts: the conditions on them.
        buckets: the groups of a CASE.
        grouped: those attributes whose values are groups, in schema order.
    """

    axes: tuple[str, ...]
    parts: tuple[ConditionPart, ...]
    buckets: tuple[Buckets, ...]
    grouped: tuple[str, ...]

    @property
    def heading(self) -> str | None:
        """The heading of the column of groups; None where it has no name, or where labels hold it."""
        names = [*(group.title for group in self.buckets), *self.grouped]
        return names[0] if len(names) == 1 else None


@dataclass(frozen=True, eq=False)
class Group:
    """One possible group: its label, its mask over the joined attributes, and its conditions."""

    label: str
    mask: Array
    conditions: tuple[Condition, ...]


def tied_together(
    parts: Sequence[ConditionPart], buckets: Sequence[Buckets], shared: frozenset[str], schema: Schema
) -> list[Tied]:
    """Grouping keys and conditions, one entry for each set of attributes that they join."""
    loose: list[tuple[frozenset[str], list[ConditionPart], list[Buckets]]] = [
        *((frozenset(part.axes), [part], []) for part in parts),
        *((group.attributes, [], [group]) for group in buckets),
        *((frozenset({name}), [], []) for name in schema if name in shared),
    ]
    merged: list[tuple[frozenset[str], list[ConditionPart], list[Buckets]]] = []
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
    """Every possible group: a branch of each CASE with a value of each grouping attribute."""
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
                    f"{', '.join(axes)} are tied together by conditions and make more than {most:,} groups, "
                    "each with a condition of its own",
                    field="sql",
                    given=axes,
                    remedy="group by fewer, or join conditions with AND",
                )
        found = further
    return _with_condition(found, conditions, axes, schema)


def _with_condition(
    groups: list[Group], conditions: tuple[Condition, ...], axes: tuple[str, ...], schema: Schema
) -> list[Group]:
    """The groups, with the condition in every label where some label would hide which records it excludes.

    Grouped by a alone, "a 3" would stand for those of a = 3 that also satisfy "a > 3 or b == 2". Where all
    attributes of the condition are grouped by, groups outside of it are not there, and labels say all.
    """
    own = [mask_of(group.conditions[len(conditions) :], axes, schema) for group in groups]
    if all((mask == group.mask).all() for group, mask in zip(groups, own, strict=True)):
        return groups
    words = condition_to_text(joined("and", conditions))
    return [Group(f"{group.label}, {words}", group.mask, group.conditions) for group in groups]


def mask_of(conditions: Sequence[Condition], axes: tuple[str, ...], schema: Schema) -> Array:
    """The mask of all conditions together, over the combinations of some attributes."""
    shape = tuple(schema[name].size for name in axes)
    if math.prod(shape) > MAX_CASE_ENTRIES:
        raise InputError(
            f"conditions tie {', '.join(axes)} together, which have {math.prod(shape):,} combinations; "
            f"at most {MAX_CASE_ENTRIES:,} are looked at",
            field="sql",
            given=axes,
            remedy="join conditions on different attributes with AND",
        )
    mask = np.ones(shape, dtype=bool)
    for condition in conditions:
        mask &= condition.mask(schema, axes)
    return mask


def _values(
    key: str | Buckets, mask: Array, axes: tuple[str, ...], schema: Schema
) -> Sequence[tuple[str, Condition]]:
    """Label and condition of every branch of a CASE, or of every value of an attribute within the mask."""
    if isinstance(key, Buckets):
        return key.branches
    others = tuple(i for i, name in enumerate(axes) if name != key)
    values = np.flatnonzero(mask.any(axis=others)).tolist()
    if len(values) > MAX_GROUPS:
        raise InputError(
            f"a condition ties {key!r} to others and leaves {len(values):,} of its values to "
            f"group by, each with a condition of its own; at most {MAX_GROUPS:,} are made",
            field="sql",
            given=key,
            remedy="join conditions with AND",
        )
    return [(schema[key].label(i), exactly(key, schema, i)) for i in values]


MAX_QUERIES = 1_000
# Values listed one by one, and entries of a matrix that is written out.
MAX_LISTED = 100_000
MAX_WRITTEN = 1_000_000


class Namer:
    """Unique names: a repeated one is numbered, as n, n (2), n (3)."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def name(self, base: str | None, parts: Sequence[str]) -> str | None:
        """The name of a query that belongs to `base`, None where neither is known."""
        wanted = ": ".join(([base] if base else []) + ([", ".join(parts)] if parts else [])) or None
        if wanted is None:
            return None
        name = wanted
        while name in self._taken:
            self._next[wanted] = self._next.get(wanted, 1) + 1
            name = f"{wanted} ({self._next[wanted]})"
        self._taken.add(name)
        return name


def queries_for(asked: CountRequest, schema: Schema, namer: Namer) -> Iterator[Query]:
    """The queries that answer one count or sum, each cross table with a name of its own."""
    try:
        found = list(_all(asked, schema) if asked.over is None else _ratios(asked, asked.over, schema))
    except SqlError:
        raise
    except InputError as error:
        raise SqlError.at(asked.text.place(asked.node) or "SQL", error, field="sql") from None
    if not found:
        raise asked.error("no declared value satisfies the condition, so nothing would be counted")
    n_tables = len({table for table, _ in found})
    for table, query in found:
        title = [table] if n_tables > 1 and asked.name is not None else []
        yield query.having(name=namer.name(asked.name, title))


def _all(asked: CountRequest, schema: Schema) -> Iterator[tuple[str, Query]]:
    """The title of every cross table, and the query for it."""
    parts = parts_of(asked.condition, schema) if asked.condition else []
    if parts is None:
        return
    families = _families(asked)
    # Checked before any is made: a family is at least one cross table.
    if len(families) > MAX_QUERIES:
        raise asked.error(f"this asks for more than {MAX_QUERIES:,} cross tables", "group by fewer")
    for (shared, buckets), free in families.items():
        tied = tied_together(parts, buckets, shared, schema)
        for table, rest in _tables(free, shared, buckets, schema):
            if asked.sum_of is not None and any(asked.sum_of in one.axes for one in tied):
                yield table, _written_out(asked, tied, rest, schema)
            elif asked.mean_of is not None:
                yield table, _mean(asked, tied, rest, schema)
            else:
                yield table, _product(asked, tied, rest, schema)


def _ratios(asked: CountRequest, over: CountRequest, schema: Schema) -> Iterator[tuple[str, Query]]:
    """The title of every cross table of ratios, and the query for it: a share where one can only be that."""
    # Otherwise the two sides would have different groups, and a number would be divided by another group's.
    keys = frozenset().union(*asked.sets)
    grouped = frozenset().union(*(frozenset({k}) if isinstance(k, str) else k.attributes for k in keys))
    conditions = [one for one in (asked.condition, over.condition) if one is not None]
    used = frozenset().union(*(one.attributes for one in conditions))
    if (asked.condition != over.condition and used & grouped) or {asked.sum_of, over.sum_of} & grouped:
        raise asked.error(
            "a ratio is grouped by attributes that only one side of it adds up or has a condition on",
            "group by other attributes, or ask for the two counts",
        )
    above, below = list(_all(asked, schema)), list(_all(over, schema))
    if [table for table, _ in above] != [table for table, _ in below]:
        raise asked.error("both sides of a ratio need the same cross tables", "ask for one table at a time")
    is_count = asked.sum_of is None and over.sum_of is None
    for (table, numerator), (_, denominator) in zip(above, below, strict=True):
        if is_count and _is_part(asked.condition, over.condition, schema):
            yield table, Share(numerator, of=denominator)
        else:
            yield table, Ratio(numerator, denominator)


def _is_part(part: Condition | None, whole: Condition | None, schema: Schema) -> bool:
    """Whether every record that satisfies one condition satisfies another."""
    if whole is None:
        return True
    if part is None:
        return False
    axes = tuple(name for name in schema if name in part.attributes | whole.attributes)
    return not (mask_of([part], axes, schema) & ~mask_of([whole], axes, schema)).any()


_Family = tuple[frozenset[str], tuple[Buckets, ...]]


def _families(asked: CountRequest) -> dict[_Family, list[frozenset[str]]]:
    """The cross tables by their keys that conditions use, each with its sets of other attributes."""
    families: dict[_Family, list[frozenset[str]]] = {}
    for keys in asked.sets:
        buckets = tuple(key for key in keys if isinstance(key, Buckets))
        # Sets have no order: sort as in SELECT, then by label.
        buckets = tuple(sorted(buckets, key=lambda group: (_place(group, asked), group.branches[0][0])))
        attributes = frozenset(key for key in keys if isinstance(key, str))
        touched = frozenset().union(*(group.attributes for group in buckets))
        touched |= asked.condition.attributes if asked.condition else frozenset()
        touched |= {asked.sum_of} if asked.sum_of else frozenset()
        families.setdefault((attributes & touched, buckets), []).append(attributes - touched)
    return families


def _place(group: Buckets, asked: CountRequest) -> int:
    return asked.columns.index(group) if group in asked.columns else len(asked.columns)


def _tables(
    free: list[frozenset[str]], shared: frozenset[str], buckets: tuple[Buckets, ...], schema: Schema
) -> Iterator[tuple[str, Query | None]]:
    """Sets of attributes without conditions as few queries, each with a title; None for a total."""
    common = frozenset.intersection(*free)
    rest = frozenset().union(*free) - common
    names = [name for name in schema if name in rest]
    sizes = sorted({len(one - common) for one in free})
    if rest and len(free) == sum(math.comb(len(names), size) for size in sizes):
        cube: Query = Cube(*names) if len(sizes) == len(names) + 1 else Cube(*names, order=sizes)
        fixed = [name for name in schema if name in common]
        yield (
            _title(common | shared, buckets, schema, cube.title()),
            Marginal(*fixed) * cube if fixed else cube,
        )
        return
    for one in free:
        attributes = [name for name in schema if name in one]
        yield _title(one | shared, buckets, schema), Marginal(*attributes) if attributes else None


def _title(names: frozenset[str], buckets: tuple[Buckets, ...], schema: Schema, cube: str = "") -> str:
    plain = [name for name in schema if name in names]
    made = [group.title for group in buckets if group.title]
    return " x ".join([*made, *plain, *([cube] if cube else [])]) or "everyone"


def _product(asked: CountRequest, tied: Sequence[Tied], rest: Query | None, schema: Schema) -> Query:
    """The product of the joined attributes, each as the simplest query."""
    fixed: list[Condition] = []
    plain: list[str] = []
    factors: list[Query] = []
    for one in tied:
        if not one.buckets and not one.grouped:
            fixed += [part.condition for part in one.parts]
        elif not one.buckets and not one.parts:
            plain += one.grouped
        else:
            factors.append(_singles_of(one, schema) or _cases(one, schema))
    factors = [*([Where(condition_to_text(joined("and", fixed)))] if fixed else []), *factors]
    factors += [Marginal(*plain)] if plain else []
    factors += [] if rest is None else [rest]
    factors += [] if asked.sum_of is None else [Sum(asked.sum_of)]
    return _crossed(factors)


def _mean(asked: CountRequest, tied: Sequence[Tied], rest: Query | None, schema: Schema) -> Query:
    """The mean of an attribute among the records that a product counts."""
    assert asked.mean_of is not None
    if any(asked.mean_of in one.axes for one in tied) or (
        rest is not None
        and any(asked.mean_of in factor.attributes for term in rest.terms(schema) for factor in term)
    ):
        raise asked.error(
            f"AVG({asked.mean_of}) under a condition on {asked.mean_of!r}, or grouped by it, is not centred",
            f"write SUM({asked.mean_of}) / COUNT(*)",
        )
    plain = not any(one.parts or one.buckets for one in tied)
    if plain and (rest is None or isinstance(rest, Marginal)):
        grouped = {name for one in tied for name in one.grouped} | set(rest.attributes if rest else ())
        return Mean(asked.mean_of, by=tuple(name for name in schema if name in grouped) or None)
    return Mean(asked.mean_of, among=_product(asked, tied, rest, schema))


def _singles_of(tied: Tied, schema: Schema) -> Query | None:
    """One attribute under a condition as ranges of its remaining values, if they are ordered."""
    if tied.buckets or len(tied.axes) > 1:
        return None
    (name,), (part,) = tied.axes, tied.parts
    return _singles(name, schema[name], part.mask)


def _cases(tied: Tied, schema: Schema) -> Query:
    groups = groups_of(tied, schema)
    return Cases([(group.label, shortly(group.conditions, schema)) for group in groups], tied.heading)


def _crossed(factors: list[Query]) -> Query:
    query = factors[0] if factors else Total()
    for factor in factors[1:]:
        query = query * factor
    return query


def _singles(name: str, values: Attribute, mask: Array) -> Query | None:
    """Each value in a mask as a range of its own; None where one is not ordered."""
    chosen = np.flatnonzero(mask)
    ends: list[tuple[Any, Any]]
    if len(chosen) > MAX_LISTED:
        raise InputError(
            f"the condition leaves {len(chosen):,} values of {name!r} to group by, and at most "
            f"{MAX_LISTED:,} are listed",
            field="sql",
            given=name,
            remedy="leave the condition out",
        )
    if isinstance(values, Bins):
        ends = [(values.edges[i], values.edges[i + 1]) for i in chosen if i < values.n_values]
    elif isinstance(values, Integers):
        ends = [(values.values[i], values.values[i]) for i in chosen if i < values.n_values]
    else:
        ends = [(_named(values, i), _named(values, i)) for i in chosen.tolist()]
    return Ranges(name, ends) if len(ends) == len(chosen) else None


def _named(values: Attribute, i: int) -> object:
    return values.values[i] if i < values.n_values else values.other  # type: ignore[attr-defined]


def _written_out(asked: CountRequest, tied: Sequence[Tied], rest: Query | None, schema: Schema) -> Query:
    """Sums of an attribute that is also in a condition or in GROUP BY, as rows over all cells."""
    sum_of = asked.sum_of
    assert sum_of is not None
    alternatives = [[]] if rest is None else rest.terms(schema)
    term = [_sums(one, sum_of, schema) for one in tied]
    rows, labels = [], []
    n_rows = sum(math.prod(f.operator.shape[0] for f in [*term, *other]) for other in alternatives)
    if n_rows * schema.n_cells > MAX_WRITTEN:
        raise asked.error(
            f"SUM({sum_of}) under a condition on {sum_of!r}, or grouped by it, is written out over all "
            f"cells, and {n_rows:,} x {schema.n_cells:,} are too many. Ask COUNT(*) grouped by {sum_of!r} "
            "and add up the answers times the values"
        )
    for other in alternatives:
        crossed = sorted([*term, *other], key=lambda factor: schema.names.index(factor.attributes[0]))
        rows.append(term_operator(crossed, schema).dense())
        labels += list(term_labels(crossed, "everyone"))
    return Linear(np.concatenate(rows).astype(np.int64), [f"{sum_of} sum, {label}" for label in labels])


def _sums(tied: Tied, sum_of: str, schema: Schema) -> Factor:
    """Rows over joined attributes, one for each group, times the values for a sum."""
    times = np.ones([1] * len(tied.axes), dtype=np.int64)
    if sum_of in tied.axes:
        numbers = schema[sum_of].numbers()
        assert numbers is not None
        padded = np.array([*numbers, *([0] * (schema[sum_of].size - len(numbers)))], dtype=np.int64)
        times = padded.reshape([-1 if name == sum_of else 1 for name in tied.axes])
    if not tied.buckets and not tied.grouped:
        conditions = [part.condition for part in tied.parts]
        words = condition_to_text(joined("and", conditions))
        row = mask_of(conditions, tied.axes, schema) * times
        return Factor(tied.axes, Matrix(row.reshape(1, -1)), Labels(1, lambda j: words), is_condition=True)
    groups = groups_of(tied, schema)
    rows = np.array([(group.mask * times).reshape(-1) for group in groups])
    labels = [group.label for group in groups]
    return labelled_factor(tied.axes, Matrix(rows), labels, tied.heading)
