"""Which attributes the queries of a workload mention: all that methods for marginals look at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from leastnoise.core.operators import Identity
from leastnoise.query import Linear, Workload

# Places of attributes in the schema.
Subset = frozenset[int]


@dataclass(frozen=True)
class Asked:
    """The attributes that one product of queries mentions, and whether it is their cross table."""

    name: str
    attributes: Subset
    is_marginal: bool


def asked_subsets(workload: Workload) -> list[Asked] | None:
    """What each product of the workload mentions; None where a matrix names no attributes.

    Attributes with a single value tell nobody apart and count as not mentioned.
    """
    if workload.schema is None or any(isinstance(block.query, Linear) for block in workload.blocks):
        return None
    schema = workload.schema
    places = {name: place for place, name in enumerate(schema.names) if schema.shape[place] > 1}
    return [
        Asked(
            block.name,
            frozenset(places[name] for factor in term for name in factor.attributes if name in places),
            all(isinstance(factor.operator, Identity) and len(factor.attributes) == 1 for factor in term),
        )
        for block in workload.blocks
        for term in block.query.terms(schema)
    ]


def mentions_all(subset: Subset, sizes: tuple[int, ...]) -> bool:
    """Whether no attribute that tells people apart is left out."""
    return len(subset) == sum(size > 1 for size in sizes)


def maximal(subsets: Iterable[Subset]) -> list[Subset]:
    """Those that no other one contains, larger first."""
    kept: list[Subset] = []
    for subset in sorted(set(subsets), key=lambda s: (-len(s), sorted(s))):
        if not any(subset <= larger for larger in kept):
            kept.append(subset)
    return kept


def downward(subsets: Iterable[Subset]) -> list[Subset]:
    """Every subset of one of them, smaller first."""
    found = {
        frozenset(chosen)
        for top in maximal(subsets)
        for size in range(len(top) + 1)
        for chosen in combinations(sorted(top), size)
    }
    return sorted(found, key=lambda s: (len(s), sorted(s)))


def n_combinations(subset: Subset, sizes: tuple[int, ...]) -> int:
    """How many counts the cross table of these attributes has."""
    return math.prod(sizes[a] for a in subset)


def along(subset: Subset, sizes: tuple[int, ...]) -> Iterator[tuple[int, bool]]:
    """Each attribute's size, and whether the subset holds it."""
    return ((size, a in subset) for a, size in enumerate(sizes))
