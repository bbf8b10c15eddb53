"""Which rows of a workload each ratio is made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leastnoise.core.errors import WorkloadError
from leastnoise.query.queries import Labels, Marginal, Product, Query, RatioParts, RatioQuery, Total
from leastnoise.query.queries.query import COMMON
from leastnoise.query.schema import Schema

# What the two queries that a ratio adds to a batch are called, after its own name.
_ROLES = {
    "mean": ("sum", "count"),
    "standard-deviation": ("sum of squares", "count"),
    "share": ("part", "whole"),
    "ratio": ("numerator", "denominator"),
}


@dataclass(frozen=True, eq=False)
class RatioRows:
    """One ratio query of a workload.

    Attributes:
        name: under which its ratios are found.
        query: as it was asked.
        numerator: the name of the batch that holds the numerators.
        denominator: the name of the batch that holds the denominators.
        parts: how they are divided.
        labels: what each ratio is called.
        further: the names of the batches that hold what is measured beside them, as `parts` lists it.
    """

    name: str
    query: RatioQuery
    numerator: str
    denominator: str
    parts: RatioParts
    labels: Labels
    further: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `ratio_from_dict` reads back."""
        plain = {"name": self.name, "query": self.query.to_dict()}
        plain |= {"numerator": self.numerator, "denominator": self.denominator}
        return plain | ({"further": list(self.further)} if self.further else {})


@dataclass(frozen=True, eq=False)
class ExpandedBatch:
    """The linear queries of a batch with their names, and the ratios made from them."""

    queries: tuple[Query, ...]
    names: tuple[str, ...]
    ratios: tuple[RatioRows, ...]


def expanded(queries: Sequence[Query], names: Sequence[str], schema: Schema) -> ExpandedBatch:
    """A batch in which every ratio is replaced by the linear queries that it needs.

    A query that asks for the same rows already is shared: its weight grows by that of the ratio's part. Parts
    with a target are asked for apart, because a query has one target.
    """
    linear = [
        (name, query) for name, query in zip(names, queries, strict=True) if not isinstance(query, RatioQuery)
    ]
    ratios = []
    for name, query in zip(names, queries, strict=True):
        if isinstance(query, RatioQuery):
            parts = query.parts(schema)
            numerator, denominator = (
                _placed(part, f"{name}: {role}", linear, set(names))
                for part, role in zip((parts.numerator, parts.denominator), _ROLES[query.kind], strict=True)
            )
            further = tuple(
                _placed(part, f"{name}: {role}", linear, set(names)) for role, part in parts.further
            )
            labels = _labels(query, parts, schema)
            ratios.append(RatioRows(name, query, numerator, denominator, parts, labels, further))
    return ExpandedBatch(
        tuple(query for _, query in linear), tuple(name for name, _ in linear), tuple(ratios)
    )


def ratio_from_dict(
    plain: dict[str, Any], query: Query, blocks: dict[str, Query], schema: Schema
) -> RatioRows:
    """The ratio that `RatioRows.to_dict` wrote, checked to be made from the rows it needs.

    Args:
        query: the ratio query, already read.
        blocks: the linear queries of the workload by name.

    Raises:
        WorkloadError: if the named rows are not those of the ratio.
    """
    if not isinstance(query, RatioQuery):
        raise WorkloadError.must("ratios", "be means, shares or ratios", given=query.kind)
    parts = query.parts(schema)
    further = tuple(plain.get("further", ()))
    if len(further) != len(parts.further):
        raise WorkloadError.must("further", "name all rows that the ratio is made from", given=further)
    named = [("numerator", plain["numerator"], parts.numerator)]
    named += [("denominator", plain["denominator"], parts.denominator)]
    named += [("further", name, part) for name, (_, part) in zip(further, parts.further, strict=True)]
    for role, name, part in named:
        held = blocks.get(name)
        if held is None or rows_key(held) != rows_key(part):
            raise WorkloadError.must(role, "name the rows that the ratio is made from", given=name)
    labels = _labels(query, parts, schema)
    sides = plain["numerator"], plain["denominator"]
    return RatioRows(plain["name"], query, *sides, parts, labels, further)


def rows_key(query: Query) -> str:
    """A text that is the same for two queries only if they have the same rows in the same order."""
    return json.dumps(sorted(_leaves(query)))


def _leaves(query: Query) -> list[str]:
    """The factors of a product as texts, without names, weights and targets."""
    if isinstance(query, Product):
        return [*_leaves(query.left), *_leaves(query.right)]
    if isinstance(query, Total):
        return []
    if isinstance(query, Marginal):
        return [f"marginal {name}" for name in query.attributes]
    return [json.dumps({k: v for k, v in query.to_dict().items() if k not in COMMON}, sort_keys=True)]


def _placed(part: Query, name: str, linear: list[tuple[str, Query]], taken: set[str]) -> str:
    """The name of the batch that holds the rows of a part, added to the others if none does."""
    wanted = rows_key(part)
    for number, (other_name, other) in enumerate(linear):
        if part.target is None and rows_key(other) == wanted:
            linear[number] = (other_name, other.having(weight=other.weight + part.weight))
            return other_name
    used = taken | {other_name for other_name, _ in linear}
    unique, number = name, 2
    while unique in used:
        unique, number = f"{name} ({number})", number + 1
    linear.append((unique, part.having(name=unique)))
    return unique


def _labels(query: RatioQuery, parts: RatioParts, schema: Schema) -> Labels:
    named = parts.shown_as.having(name=query.name) if query.name is not None else parts.shown_as
    return named.labels(schema)
