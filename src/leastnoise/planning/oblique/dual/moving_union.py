"""F and m of (1) in the head of this package, for unions of products with few directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from leastnoise.bounds import Asked, Directions, SplitAxis
from leastnoise.core.operators import Array
from leastnoise.planning.oblique.dual.problem_sizes import Terms


class MovingUnion:
    """One union of products as a function of the weights of the axes that move.

    Attributes:
        grams: V of the kinds of every axis that moves.
    """

    def __init__(
        self, terms: Terms, grams: Mapping[int, Sequence[Array]], fixed: Mapping[int, SplitAxis]
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

    def _mixed(self, terms: Terms) -> list[tuple[Asked, float]]:
        """Products that differ only in what they ask of one axis as one, of a kind that is a mixture."""
        a = max(self.grams, key=lambda axis: len(self.grams[axis]))
        groups: dict[Asked, dict[int, float]] = {}
        found: list[tuple[Asked, float]] = []
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
            block = np.full((1, 1), weight)
            for a, kind in asked:
                block = np.kron(block, turned[a][kind] if a in turned else self._fixed[a].grams[kind])
            K[np.ix_(places, places)] += block
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
