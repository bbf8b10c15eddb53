"""What a statement asks, as queries: products wherever there is one, so that large domains stay implicit.

A count of a cross table is a product: conditions on some attributes, every value of
others. Where a condition and GROUP BY speak of the same attribute, the values that
satisfy it are listed (`Ranges`); where a condition ties a grouped attribute to
others, each of its values becomes a query of its own. Only a sum under a condition
on the very attribute that is added up is no product of queries; it is written out
as a `Linear` row, for domains that this is possible for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import numpy as np

from leastnoise.errors import InputError
from leastnoise.operators import Array, Matrix
from leastnoise.predicates import (
    Combination,
    Comparison,
    Condition,
    Negation,
    describe,
    independent_parts,
    satisfying,
)
from leastnoise.queries import Cube, Factor, Labels, Linear, Marginal, Query, Ranges, Sum, Total, Where
from leastnoise.queries.base import term_labels, term_operator
from leastnoise.schema import Attribute, Bins, Integers, Schema
from leastnoise.sql.conditions import Buckets, joined
from leastnoise.sql.reading import Asked

MAX_QUERIES = 1_000
# Values listed one by one, and entries of a matrix that is written out.
MAX_LISTED = 100_000
MAX_WRITTEN = 1_000_000


class Namer:
    """Names that differ: a repeated one is numbered, as n, n (2), n (3)."""

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


@dataclass(frozen=True, eq=False)
class _Part:
    """A condition on some attributes, tied to no other."""

    axes: tuple[str, ...]
    mask: Array
    condition: Condition


def queries_for(asked: Asked, schema: Schema, namer: Namer) -> Iterator[Query]:
    """The queries that answer one count or sum, each cross table with a name of its own."""
    try:
        found = list(_all(asked, schema))
    except InputError as error:
        raise asked.error(str(error)) from None
    if not found:
        raise asked.error("no declared value satisfies the condition, so that nothing would be counted")
    n_tables = len({table for table, _, _ in found})
    for table, labels, query in found:
        title = [table] if n_tables > 1 and (asked.name is not None or labels) else []
        yield query.having(name=namer.name(asked.name, [*title, *labels]))


def _all(asked: Asked, schema: Schema) -> Iterator[tuple[str, tuple[str, ...], Query]]:
    """The title of a cross table, the labels of one of its parts, and the query for that."""
    n_queries = 0
    for (shared, buckets), free in _families(asked).items():
        for table, rest in _tables(free, shared, buckets, schema):
            for branches in product(*(group.branches for group in buckets)):
                titles = [
                    f"{g.title} {label}" if g.title else label
                    for g, (label, _) in zip(buckets, branches, strict=True)
                ]
                whole = [*([asked.condition] if asked.condition else []), *(c for _, c in branches)]
                for labels, query in _products(asked, whole, shared, rest, schema):
                    n_queries += 1
                    if n_queries > MAX_QUERIES:
                        raise asked.error(
                            f"this asks more than {MAX_QUERIES:,} queries, because conditions tie together "
                            "what it groups by; group by fewer, or join conditions with AND"
                        )
                    yield table, (*titles, *labels), query


_Family = tuple[frozenset[str], tuple[Buckets, ...]]


def _families(asked: Asked) -> dict[_Family, list[frozenset[str]]]:
    """The cross tables by what conditions touch of them, and the sets of free attributes of each."""
    families: dict[_Family, list[frozenset[str]]] = {}
    for keys in asked.sets:
        buckets = tuple(key for key in keys if isinstance(key, Buckets))
        # A set has no order of its own; that of the labels is the same on every run.
        buckets = tuple(sorted(buckets, key=lambda group: (group.title or "", group.branches[0][0])))
        attributes = frozenset(key for key in keys if isinstance(key, str))
        touched = frozenset().union(*(group.attributes for group in buckets))
        touched |= asked.condition.attributes if asked.condition else frozenset()
        touched |= {asked.sum_of} if asked.sum_of else frozenset()
        families.setdefault((attributes & touched, buckets), []).append(attributes - touched)
    return families


def _tables(
    free: list[frozenset[str]], shared: frozenset[str], buckets: tuple[Buckets, ...], schema: Schema
) -> Iterator[tuple[str, Query | None]]:
    """Sets of attributes that nothing else speaks of as few queries, each with a title; None adds up."""
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


def _products(
    asked: Asked, whole: list[Condition], shared: frozenset[str], rest: Query | None, schema: Schema
) -> Iterator[tuple[tuple[str, ...], Query]]:
    """One condition and the grouped attributes it touches, as queries with their labels."""
    parts = _parts(joined("and", whole), schema) if whole else []
    if parts is None:
        return
    touched = frozenset().union(*(part.axes for part in parts))
    if asked.sum_of is not None and asked.sum_of in touched | shared:
        yield (), _written_out(asked, parts, shared, rest, schema)
        return
    fixed = [part.condition for part in parts if shared.isdisjoint(part.axes)]
    choices = [_choices(part, shared, schema) for part in parts if not shared.isdisjoint(part.axes)]
    untouched = [name for name in schema if name in shared - touched]
    for chosen in product(*choices):
        conditions = [*fixed, *(item for _, item in chosen if not isinstance(item, Query))]
        factors: list[Query] = [Where(describe(joined("and", conditions)))] if conditions else []
        factors += [item for _, item in chosen if isinstance(item, Query)]
        factors += [Marginal(*untouched)] if untouched else []
        factors += [] if rest is None else [rest]
        factors += [] if asked.sum_of is None else [Sum(asked.sum_of)]
        yield tuple(label for label, _ in chosen if label), _crossed(factors)


def _crossed(factors: list[Query]) -> Query:
    query = factors[0] if factors else Total()
    for factor in factors[1:]:
        query = query * factor
    return query


def _parts(condition: Condition, schema: Schema) -> list[_Part] | None:
    """Conditions on disjoint attributes that must all hold, told shortly; None where they cannot."""
    found = []
    for part in independent_parts(condition):
        axes, mask = satisfying(part, schema)
        if not mask.any():
            return None
        others = [tuple(j for j in range(len(axes)) if j != i) for i in range(len(axes))]
        sides: list[Array] = [np.asarray(mask.any(axis=axis)) for axis in others]
        if not _is_product(mask, sides):
            found.append(_Part(axes, mask, part))
            continue
        for name, side in zip(axes, sides, strict=True):
            if side.all():
                continue
            own = [part] if len(axes) == 1 else []
            told = [*own, *_told(name, schema, side)]
            if not told:
                found.append(_Part(axes, mask, part))
                break
            found.append(_Part((name,), side, min(told, key=_length)))
    return found


def _length(condition: Condition) -> int:
    """How much there is to read in a condition."""
    if isinstance(condition, Combination):
        return sum(map(_length, condition.parts))
    return 1 + _length(condition.inner) if isinstance(condition, Negation) else 1


def _is_product(mask: Array, sides: list[Array]) -> bool:
    """Whether a mask is the product of its sides, within which it lies: it is if it has as many entries."""
    return math.prod(int(side.sum()) for side in sides) == int(mask.sum())


def _choices(part: _Part, shared: frozenset[str], schema: Schema) -> list[tuple[str, Query | Condition]]:
    """The grouped values that satisfy a condition: all in one query, or each with a condition and a label."""
    grouped = [i for i, name in enumerate(part.axes) if name in shared]
    if len(part.axes) == 1:
        listed = _singles(part.axes[0], schema[part.axes[0]], part.mask)
        if listed is not None:
            return [("", listed)]
    others = tuple(i for i in range(len(part.axes)) if i not in grouped)
    choices: list[tuple[str, Query | Condition]] = []
    occurring = np.argwhere(part.mask.any(axis=others)) if others else np.argwhere(part.mask)
    if len(occurring) > MAX_QUERIES:
        tied = ", ".join(part.axes)
        raise InputError(
            f"a condition that ties {tied} together is grouped by {len(occurring):,} of their values, each "
            f"a query of its own; at most {MAX_QUERIES:,} are made. Join conditions with AND"
        )
    for values in occurring:
        labels, conditions = [], []
        for i, value in zip(grouped, values, strict=True):
            name = part.axes[i]
            conditions.append(_exactly(name, schema, int(value)))
            labels.append(f"{name} {schema[name].label(int(value))}")
        place = tuple(
            values[grouped.index(i)] if i in grouped else slice(None) for i in range(len(part.axes))
        )
        left = part.mask[place]
        if others and not left.all():
            told = _told(part.axes[others[0]], schema, left) if len(others) == 1 else []
            conditions.append(told[0] if told else part.condition)
        choices.append((", ".join(labels), joined("and", conditions)))
    return choices


def _singles(name: str, values: Attribute, mask: Array) -> Query | None:
    """Every value that a mask holds as a range of its own, or None where one has no place in the order."""
    chosen = np.flatnonzero(mask)
    ends: list[tuple[Any, Any]]
    if len(chosen) > MAX_LISTED:
        raise InputError(
            f"the condition leaves {len(chosen):,} values of {name!r} to group by, and at most "
            f"{MAX_LISTED:,} are listed; leave the condition out"
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


def _exactly(name: str, schema: Schema, i: int) -> Condition:
    mask = np.zeros(schema[name].size, dtype=bool)
    mask[i] = True
    told = _told(name, schema, mask)
    if not told:
        raise InputError(
            f"a value of {name!r} and a region share the name {schema[name].label(i)!r}; rename one"
        )
    return told[0]


def _told(name: str, schema: Schema, mask: Array) -> list[Condition]:
    """A condition that exactly the values in a mask satisfy; none if names are ambiguous."""
    values = schema[name]
    n = values.n_values
    pieces: list[Condition] = []
    for is_held, indices in groupby(range(n), key=lambda i: bool(mask[i])):
        run = list(indices)
        if not is_held:
            continue
        if isinstance(values, (Integers, Bins)):
            pieces.append(_interval(name, values, run[0], run[-1]))
        else:
            pieces += [Comparison(name, "==", values.values[i]) for i in run]  # type: ignore[attr-defined]
    if values.other is not None and mask[n]:
        pieces.append(Comparison(name, "==", values.other))
    found = joined("or", pieces)
    return [found] if (satisfying(found, schema)[1] == mask).all() else []


def _interval(name: str, values: Integers | Bins, first: int, last: int) -> Condition:
    """Values first to last of the declared ones, which are neither all nor none of the cells."""
    starts = values.values if isinstance(values, Integers) else values.edges
    if first == last and isinstance(values, Integers):
        return Comparison(name, "==", values.values[first])
    if first == 0 and last == values.n_values - 1:
        assert values.other is not None
        return Comparison(name, "!=", values.other)
    ends: list[Condition] = [] if first == 0 else [Comparison(name, ">=", starts[first])]
    ends += [] if last == values.n_values - 1 else [Comparison(name, "<", starts[last + 1])]
    return ends[0] if len(ends) == 1 else Combination("and", tuple(ends))


def _written_out(
    asked: Asked, parts: list[_Part], shared: frozenset[str], rest: Query | None, schema: Schema
) -> Query:
    """Sums of an attribute that a condition or GROUP BY also speaks of, as rows over all cells."""
    sum_of = asked.sum_of
    assert sum_of is not None
    touched = frozenset().union(*(part.axes for part in parts))
    unconditional = [(name, np.ones(schema[name].size, dtype=bool)) for name in shared - touched]
    alternatives = [[]] if rest is None else rest.terms(schema)
    term = [_sums(part.axes, part.mask, describe(part.condition), asked, shared, schema) for part in parts]
    term += [_sums((name,), mask, "", asked, shared, schema) for name, mask in unconditional]
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


def _sums(
    axes: tuple[str, ...], mask: Array, words: str, asked: Asked, shared: frozenset[str], schema: Schema
) -> Factor:
    """Rows over the values of some attributes: one for each grouped value that the mask holds."""
    shape = tuple(schema[name].size for name in axes)
    entries = mask.astype(np.int64)
    if asked.sum_of in axes:
        numbers = schema[asked.sum_of].numbers()
        assert numbers is not None
        padded = np.array([*numbers, *([0] * (schema[asked.sum_of].size - len(numbers)))], dtype=np.int64)
        entries = entries * padded.reshape([-1 if name == asked.sum_of else 1 for name in axes])
    grouped = [name for name in axes if name in shared]
    if not grouped:
        return Factor(axes, Matrix(entries.reshape(1, -1)), Labels(1, lambda j: words), is_condition=True)
    rows, labels = [], []
    for place in product(*(range(schema[name].size) for name in grouped)):
        at = tuple(place[grouped.index(name)] if name in grouped else slice(None) for name in axes)
        if not mask[at].any():
            continue
        row = np.zeros(shape, dtype=np.int64)
        row[at] = entries[at]
        rows.append(row.reshape(-1))
        labels.append(", ".join(schema[name].label(i) for name, i in zip(grouped, place, strict=True)))
    return Factor(axes, Matrix(np.array(rows)), Labels(len(rows), labels.__getitem__))
