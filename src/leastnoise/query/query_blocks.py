"""The rows of each query of a workload, with their names, weights and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators import Array, Operator
from leastnoise.query.queries import Labels, Linear, Meaning, Query
from leastnoise.query.schema import Schema

# Largest ratio of two weights. Beyond it, the queries of small weight would be decided by rounding.
MAX_WEIGHT_RATIO = 1e24


@dataclass(frozen=True, eq=False)
class QueryBlock:
    """The rows of one query."""

    name: str
    query: Query
    operator: Operator
    labels: Labels
    weights: Array  # (1,) if all rows have the same, or one per row
    targets: Array  # standard errors asked, inf where none; (1,) or one per row

    def meaning(self, schema: Schema | None) -> Meaning:
        """What each row counts of one record, described without the operator."""
        if schema is not None:
            return self.query.meaning(schema)
        assert isinstance(self.query, Linear)
        return self.query.own_meaning()

    def weighted_gram(self, weights: Array | None = None) -> Array:
        """Σ_j w_j (row j)ᵀ(row j), an (n, n) array, with the block's own weights unless some are given."""
        w = self.weights if weights is None else weights
        if (w == w[0]).all():
            gram = self.operator.gram()
            return gram if w[0] == 1 else float(w[0]) * gram
        return self.operator.weighted_gram(w)

    @property
    def n_rows(self) -> int:
        """How many queries the block holds."""
        return self.operator.shape[0]


def blocks_of(queries: Sequence[Query], names: Sequence[str], schema: Schema) -> tuple[QueryBlock, ...]:
    """The rows of linear queries, each with its name."""
    blocks = []
    for query, name in zip(queries, names, strict=True):
        operator = query.operator(schema)
        if operator.shape[0] == 0:
            raise WorkloadError(
                f"query {name!r} has no rows", field="queries", given=name, remedy="leave it out"
            )
        blocks.append(
            QueryBlock(
                name=name,
                query=query,
                operator=operator,
                labels=query.labels(schema),
                weights=read_only(np.array([query.weight])),
                targets=read_only(query.targets(schema)),
            )
        )
    check_spread(np.concatenate([block.weights for block in blocks]))
    return tuple(blocks)


def matrix_block(query: Linear, weights: Array, targets: Array) -> QueryBlock:
    """The rows of a matrix over cells that no schema names."""
    return QueryBlock("rows", query, query.matrix, query.own_labels(), weights, targets)


def names_of(queries: Sequence[Query]) -> list[str]:
    """A different name for each: the one given, else what it asks, numbered where that repeats."""
    names: list[str] = []
    taken = [query.name for query in queries if query.name is not None]
    if len(set(taken)) < len(taken):
        twice = next(name for name in taken if taken.count(name) > 1)
        raise WorkloadError.must("name", "differ from those of the other queries", given=twice)
    for query in queries:
        name = query.name or query.title()
        number = 2
        while query.name is None and (name in names or name in taken):
            name = f"{query.title()} ({number})"
            number += 1
        names.append(name)
    return names


def check_spread(weights: Array) -> None:
    """Return if the positive weights are close enough together to be distinguished from rounding.

    Raises:
        WorkloadError: if they are not, or no weight is positive.
    """
    positive = weights[weights > 0]
    if positive.size == 0:
        raise WorkloadError.must("weight", "be positive for at least one query", given=0)
    if float(positive.max()) > MAX_WEIGHT_RATIO * float(positive.min()):
        raise WorkloadError(
            f"weights from {positive.min():.3g} to {positive.max():.3g} span more than "
            f"{MAX_WEIGHT_RATIO:.0e}; queries of small weight would be lost to rounding",
            field="weight",
            given=(float(positive.min()), float(positive.max())),
            remedy="bring the weights closer together, or use 0",
        )


def read_only(values: Array) -> Array:
    """The same array, protected against changes."""
    values.setflags(write=False)
    return values
