"""Unions of products by their weights: how large a problem is, and few that stand for many."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from leastnoise.bounds import Asked, Blocks
from leastnoise.core.operators import Array

# Problems that differ in their weights alone are at most so many; more are put together.
_MOST_COLUMNS = 6

# The weight of every different product.
Terms = dict[Asked, float]


def n_combinations(terms: Terms, sizes: Array) -> float:
    """How many combinations of directions count, for some number of them on every axis."""
    return Blocks([tuple(a for a, _ in asked) for asked in terms]).count(sizes)


@dataclass
class Gathered:
    """Problems, those that ask the same products together."""

    _columns: dict[tuple[Asked, ...], list[Array]] = field(default_factory=dict)

    def add(self, asked: tuple[Asked, ...], weights: Array) -> None:
        """Add a problem to those that ask the same."""
        order = sorted(range(len(asked)), key=asked.__getitem__)
        self._columns.setdefault(tuple(asked[i] for i in order), []).append(weights[order])

    def problems(self) -> list[Terms]:
        """All of them, similar ones as one."""
        return [
            dict(zip(asked, column.tolist(), strict=True))
            for asked, columns in self._columns.items()
            for column in fewer_columns(np.stack(columns, axis=1)).T
            if column.any()
        ]


def fewer_columns(weights: Array) -> Array:
    """At most a few columns that stand for all: F(c w) = √c F(w), and similar ones are put together."""
    sums = weights.sum(axis=0)
    weights, sums = weights[:, sums > 0], sums[sums > 0]
    if not len(sums):
        return weights
    shapes = np.sqrt(weights / sums)
    groups = [np.arange(len(sums))]
    spread = float((shapes.max(axis=1) - shapes.min(axis=1)).max())
    if spread > 1e-9:
        middle = shapes - shapes.mean(axis=1, keepdims=True)
        along = np.linalg.svd(middle, full_matrices=False)[2][0]
        groups = np.array_split(np.argsort(along, kind="stable"), min(_MOST_COLUMNS, len(sums)))
    found = []
    for group in groups:
        roots = np.sqrt(sums[group])
        shape = (shapes[:, group] ** 2) @ (roots / roots.sum())
        found.append(shape * roots.sum() ** 2)
    return np.stack(found, axis=1)
