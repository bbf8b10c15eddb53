"""F and m of (1) in `dual_search`, for unions of products with few directions.

Problems that differ in their weights alone are put together; axes that do not move are cut after a few
directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leastnoise.bounds import AskedKinds, AxisRoots, Directions, ResolventBlocks
from leastnoise.core.decompositions import svd
from leastnoise.core.operators import Array, kronecker

# Problems that differ in their weights alone, at most; more are put together.
_MOST_COLUMNS = 6

# The weight of every different product.
Terms = dict[AskedKinds, float]


def n_combinations(terms: Terms, sizes: Array) -> float:
    """How many combinations of directions count, for some number of them on every axis."""
    return ResolventBlocks([tuple(a for a, _ in asked) for asked in terms]).count(sizes)


@dataclass
class Gathered:
    """Problems, those that ask the same products together."""

    _columns: dict[tuple[AskedKinds, ...], list[Array]] = field(default_factory=dict)

    def add(self, asked: tuple[AskedKinds, ...], weights: Array) -> None:
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
        along = svd(middle)[2][0]
        groups = np.array_split(np.argsort(along, kind="stable"), min(_MOST_COLUMNS, len(sums)))
    found = []
    for group in groups:
        roots = np.sqrt(sums[group])
        shape = (shapes[:, group] ** 2) @ (roots / roots.sum())
        found.append(shape * roots.sum() ** 2)
    return np.stack(found, axis=1)


@dataclass(frozen=True, eq=False)
class Cut:
    """An axis that does not move: a few directions, and the roots of its kinds in groups of the others."""

    first: AxisRoots
    beyond: Array

    @classmethod
    def of(cls, split: AxisRoots, kept: int) -> Cut:
        """An axis cut after its first `kept` directions."""
        first, others = split.cut(kept)
        others = others[(others > 0).any(axis=1)]
        return cls(first, np.sqrt(fewer_columns(others.T**2)).T if len(others) else others)


def blocks_left(terms: Terms, a: int, pending: Sequence[int], cuts: Mapping[int, Cut]) -> Iterator[Terms]:
    """The problems that cuts of the other axes leave, of those in which axis a is mentioned.

    What no product mentions a in does not depend on its weights. Every other axis is in its first directions,
    or, one after the other, beyond them, where only products that mention it are left.
    """
    if not any(b == a for asked in terms for b, _ in asked):
        return
    reduced: Terms = {}
    for asked, weight in terms.items():
        left = []
        for b, kind in asked:
            if b != a and cuts[b].first.size == 1:
                weight *= float(cuts[b].first.grams[kind][0, 0])
            else:
                left.append((b, kind))
        reduced[tuple(left)] = reduced.get(tuple(left), 0.0) + weight
    yield reduced
    for place, b in enumerate(pending):
        with_b = [(asked, dict(asked)[b], weight) for asked, weight in terms.items() if b in dict(asked)]
        for roots in cuts[b].beyond if with_b else ():
            inside: Terms = {}
            for asked, kind, weight in with_b:
                without = tuple(part for part in asked if part[0] != b)
                inside[without] = inside.get(without, 0.0) + weight * float(roots[kind]) ** 2
            yield from blocks_left(inside, a, pending[place + 1 :], cuts)


class MovingUnion:
    """One union of products as a function of the weights of the axes that move.

    Attributes:
        grams: V of the kinds of every axis that moves.
    """

    def __init__(
        self, terms: Terms, grams: Mapping[int, Sequence[Array]], fixed: Mapping[int, AxisRoots]
    ) -> None:
        self.grams = dict(grams)
        self._terms = self._mixed(terms)
        self._fixed = fixed
        sets = [tuple(a for a, _ in asked) for asked, _ in self._terms]
        sizes = {a: len(own[0]) for a, own in self.grams.items()}
        sizes |= {a: fixed[a].size for asked in sets for a in asked if a not in sizes}
        directions = Directions(sizes, sets)
        self._count = directions.count
        self._places = [directions.of(asked) for asked in sets]
        # For every axis that moves: which combinations differ in its direction alone, (others, directions),
        # and those in which it has only its first one.
        self._lines: dict[int, Array] = {}
        self._loose: dict[int, Array] = {}
        for a in self.grams:
            lines = [
                np.moveaxis(directions.of(own).reshape([sizes[b] for b in own]), own.index(a), -1)
                for own in dict.fromkeys(sets)
                if a in own
            ]
            table = np.concatenate([line.reshape(-1, sizes[a]) for line in lines])
            self._lines[a] = table[np.unique(table[:, 0], return_index=True)[1]]
            self._loose[a] = np.setdiff1d(np.arange(self._count), self._lines[a])

    def _mixed(self, terms: Terms) -> list[tuple[AskedKinds, float]]:
        """Products that differ only in what they ask of one axis as one, of a kind that is a mixture."""
        a = max(self.grams, key=lambda axis: len(self.grams[axis]))
        groups: dict[AskedKinds, dict[int, float]] = {}
        found: list[tuple[AskedKinds, float]] = []
        for asked, weight in terms.items():
            kind = dict(asked).get(a)
            if kind is None:
                found.append((asked, weight))
            else:
                groups.setdefault(tuple(part for part in asked if part[0] != a), {})[kind] = weight
        mixtures: list[Array] = []
        for others, kinds in groups.items():
            found.append((tuple(sorted([*others, (a, len(mixtures))])), 1.0))
            mixtures.append(np.sum([weight * self.grams[a][kind] for kind, weight in kinds.items()], axis=0))
        self.grams[a] = mixtures
        return found

    def norm_and_marginals(self, e: Mapping[int, Array]) -> tuple[float, dict[int, Array]]:
        """F and m of (1), for roots e of weights that add up to 1."""
        from scipy import linalg

        K = np.zeros((self._count, self._count))
        turned = {a: [_turned(V, e[a]) for V in own] for a, own in self.grams.items()}
        for (asked, weight), places in zip(self._terms, self._places, strict=True):
            factors = [turned[a][kind] if a in turned else self._fixed[a].grams[kind] for a, kind in asked]
            K[np.ix_(places, places)] += kronecker([np.full((1, 1), weight), *factors])
        values, E = linalg.eigh(K, overwrite_a=True, check_finite=False, driver="evd")
        roots = np.sqrt(np.maximum(values, 0))
        marginals = {}
        for a, lines in self._lines.items():
            m = np.zeros(len(e[a]))
            for line in lines:
                m += _reflected(E[line], e[a]) ** 2 @ roots
            marginals[a] = m + e[a] ** 2 * float((E[self._loose[a]] ** 2 @ roots).sum())
        return float(roots.sum()), marginals


def _turned(V: Array, e: Array) -> Array:
    """diag(e) V diag(e) in a basis that starts with e."""
    return _reflected(_reflected(e[:, None] * V * e, e).T, e)


def _reflected(columns: Array, e: Array) -> Array:
    """The columns after the reflection that swaps e, |e| = 1, with the first unit vector."""
    u = e.copy()
    u[0] -= 1
    squared = float(u @ u)
    return columns - np.outer(u, (2 / squared) * (u @ columns)) if squared > 0 else columns


def sum_and_marginals(
    unions: Sequence[MovingUnion], e: Mapping[int, Array]
) -> tuple[float, dict[int, Array]]:
    """Σ of F, and of m of every axis, over some unions."""
    total, marginals = 0.0, {a: np.zeros(len(own)) for a, own in e.items()}
    for union in unions:
        F, m = union.norm_and_marginals(e)
        total += F
        for a, own in e.items():
            # A union that does not mention the axis has K ⊗ e eᵀ.
            marginals[a] += m.get(a, F * own**2)
    return total, marginals
