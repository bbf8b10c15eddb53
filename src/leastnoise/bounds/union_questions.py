"""What a union of products asks of every axis, after everything that does not need a bound is taken out.

An axis that every product asks alike multiplies the nuclear norm by its own; so does one where the sum of all
values comes in the same proportion with every product. Kinds of question that always come together are one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from leastnoise.bounds.nuclear_norm import trace_root_below
from leastnoise.bounds.union_axes import AxisRoots, dense_axis, plain_axis, root_below
from leastnoise.bounds.union_directions import AskedKinds, ResolventBlocks
from leastnoise.core.operators import Array
from leastnoise.query import Products

# Kinds of question whose weights are proportional to this accuracy are one kind.
_PROPORTIONAL = 1e-15

# Kinds of question of an axis that come together, and their shares; _TOTAL is the sum of all values.
_Mixture = dict[int, float]
_TOTAL = -1


class UnionQuestions:
    """What is asked of every axis, by kinds that are mixtures of those of the workload.

    Attributes:
        terms: the weight of every different product.
    """

    def __init__(
        self,
        products: Products,
        q: Sequence[Array],
        row_weights: Mapping[tuple[int, int], Array],
        terms: dict[AskedKinds, float],
    ) -> None:
        self._products, self._row_weights = products, row_weights
        self._counted = [np.flatnonzero(of_axis) for of_axis in q]
        self._q = [of_axis[kept] for of_axis, kept in zip(q, self._counted, strict=True)]
        self.terms = terms
        self.mixtures: dict[int, dict[int, _Mixture]] = {}
        for asked in terms:
            for a, kind in asked:
                self.mixtures.setdefault(a, {}).setdefault(kind, {kind: 1.0})

    def elsewhere(self, a: int) -> dict[int, dict[AskedKinds, float]]:
        """For every kind of an axis, and its total where products do not mention it, what else they ask."""
        found: dict[int, dict[AskedKinds, float]] = {}
        for asked, weight in self.terms.items():
            kind = next((kind for axis, kind in asked if axis == a), _TOTAL)
            found.setdefault(kind, {})[tuple(part for part in asked if part[0] != a)] = weight
        return found

    def merge(self, a: int, groups: Sequence[_Mixture]) -> None:
        """Replace every group of kinds by its first kind, which then stands for all in their shares."""
        if len(groups) == len(self.mixtures[a]):
            return
        merged: dict[int, _Mixture] = {}
        for group in groups:
            mixture: _Mixture = {}
            for kind, share in group.items():
                for basic, part in self.mixtures[a][kind].items():
                    mixture[basic] = mixture.get(basic, 0.0) + share * part
            merged[next(iter(group))] = mixture
        self.mixtures[a] = merged
        self.terms = {
            asked: weight
            for asked, weight in self.terms.items()
            if all(kind in merged for axis, kind in asked if axis == a)
        }

    def are_few(self, most: int) -> bool:
        """Whether the products distinguish at most this many combinations of values."""
        sizes = np.array([len(kept) for kept in self._counted], dtype=float)
        sets = [tuple(a for a, _ in asked if sizes[a] > 1) for asked in self.terms]
        # One product alone may tell far more apart than could be listed.
        return (
            all(math.prod(sizes[list(axes)]) <= most for axes in sets)
            and ResolventBlocks(sets).count(sizes) <= most
        )

    def is_plain(self, a: int) -> bool:
        """Whether nothing but plain counts is asked of an axis."""
        return all(self._is_diagonal(a, mixture) for mixture in self.mixtures[a].values())

    def _is_diagonal(self, a: int, mixture: _Mixture) -> bool:
        return all(kind != _TOTAL and self._products.kinds[a][kind].is_identity for kind in mixture)

    def _values(self, a: int, mixture: _Mixture) -> Array:
        """The diagonal of the Gram matrix of plain counts."""
        values = np.zeros(len(self._counted[a]))
        for kind, share in mixture.items():
            given = self._row_weights.get((a, kind))
            values += share * (1.0 if given is None else np.asarray(given, dtype=float)[self._counted[a]])
        return values

    def _gram(self, a: int, mixture: _Mixture) -> Array:
        """The Gram matrix of a mixture."""
        kept = self._counted[a]
        are_all = len(kept) == self._products.sizes[a]
        V = np.zeros((len(kept), len(kept)))
        for kind, share in mixture.items():
            if kind == _TOTAL:
                V += share
                continue
            block, given = self._products.kinds[a][kind], self._row_weights.get((a, kind))
            if block.is_identity:
                V[np.diag_indices(len(kept))] += self._values(a, {kind: share})
            else:
                rows = None if given is None else np.asarray(given, dtype=float)
                whole = block.gram if rows is None else block.operator.weighted_gram(rows)
                V += share * (whole if are_all else whole[np.ix_(kept, kept)])
        return V

    def large_axis(self, least: int) -> int | None:
        """The one axis of which more than plain counts is asked, if it has more values than this; else None.

        Values of all others must weigh alike, so that it is by itself for every set of others.
        """
        found = [a for a in self.mixtures if not (self.is_plain(a) and np.ptp(self._q[a]) == 0)]
        return found[0] if len(found) == 1 and len(self._counted[found[0]]) > least else None

    def norm_of_kinds(self, a: int, kinds: Mapping[int, float], total: float) -> float:
        """A lower bound on the nuclear norm of kinds of an axis, each with a weight, and of the total."""
        mixture: _Mixture = {_TOTAL: total} if total else {}
        for kind, weight in kinds.items():
            for basic, share in self.mixtures[a][kind].items():
                mixture[basic] = mixture.get(basic, 0.0) + weight * share
        return self.norm(a, mixture)

    def norm(self, a: int, mixture: _Mixture) -> float:
        """A lower bound on the nuclear norm of a mixture by itself, for q that add up to 1."""
        q = self._q[a] / math.fsum(self._q[a])
        if self._is_diagonal(a, mixture):
            return math.fsum(np.sqrt(q * self._values(a, mixture)))
        K = self._gram(a, mixture)
        K *= np.sqrt(q)[:, None]
        K *= np.sqrt(q)
        unit = float(np.diag(K).max(initial=0))
        if unit > 0:
            K /= unit
        return math.sqrt(unit) * trace_root_below(K) if unit > 0 else 0.0

    @property
    def sizes(self) -> dict[int, int]:
        """How many values of every axis have a weight."""
        return {a: len(self._counted[a]) for a in self.mixtures}

    def roots(self, a: int, *, with_equal_weights: bool = False) -> list[Array]:
        """K^½ of every mixture of an axis, from below, in their order, and that of the total last.

        Args:
            with_equal_weights: instead of q.
        """
        q = np.ones(len(self._q[a])) if with_equal_weights else self._q[a]
        e = np.sqrt(q / math.fsum(q))
        found = []
        for mixture in self.mixtures[a].values():
            if self._is_diagonal(a, mixture):
                found.append(np.diag(e * np.sqrt(self._values(a, mixture))))
            else:
                found.append(root_below(e[:, None] * self._gram(a, mixture) * e))
        return [*found, np.outer(e, e) / float(e @ e)]

    def split(self, a: int) -> tuple[AxisRoots, float]:
        """An axis in a basis of its own, kinds in the order of the mixtures, and the share of q kept."""
        mixtures = list(self.mixtures[a].values())
        if self.is_plain(a):
            axis, total = plain_axis(self._q[a], [self._values(a, mixture) for mixture in mixtures])
        else:
            axis, total = dense_axis(self._q[a], [self._gram(a, mixture) for mixture in mixtures])
        return axis, min(total / math.fsum(self._q[a]), 1.0)


def without_alike(questions: UnionQuestions) -> tuple[float, UnionQuestions]:
    """The norms of all axes that every product asks alike, multiplied, and what is left without them.

    On the others, kinds that are always asked together, in the same proportion, become one.
    """
    factor, again = 1.0, True
    while again:
        again = False
        mentions = Counter(a for asked in questions.terms for a, _ in asked)
        for a in list(questions.mixtures):
            of_all = len(questions.terms)
            if len(questions.mixtures[a]) == 1 and of_all not in (mentions[a], 2 * mentions[a]):
                continue
            elsewhere = questions.elsewhere(a)
            total = elsewhere.pop(_TOTAL, None)
            groups = _proportional(elsewhere)
            share = None
            if len(groups) == 1 and not (total and questions.is_plain(a)):
                share = 0.0 if total is None else _proportion(total, groups[0][1])
            again = share is not None or len(groups) < len(elsewhere)
            questions.merge(a, [mixture for mixture, _ in groups])
            if share is not None:
                (mixture,) = questions.mixtures.pop(a).values()
                factor *= questions.norm(a, mixture | ({_TOTAL: share} if share else {}))
                questions.terms = groups[0][1]
            if again:
                break
    return factor, questions


def _proportional(
    elsewhere: dict[int, dict[AskedKinds, float]],
) -> list[tuple[_Mixture, dict[AskedKinds, float]]]:
    """Kinds whose weights elsewhere are proportional: their shares of the first one's, and its weights."""
    groups: list[tuple[_Mixture, dict[AskedKinds, float]]] = []
    for kind, weights in elsewhere.items():
        for mixture, reference in groups:
            share = _proportion(weights, reference)
            if share is not None:
                mixture[kind] = share
                break
        else:
            groups.append(({kind: 1.0}, weights))
    return groups


def _proportion(weights: dict[AskedKinds, float], reference: dict[AskedKinds, float]) -> float | None:
    """The number that the weights are of the reference; None where there is none."""
    if weights.keys() != reference.keys():
        return None
    ratios = [weight / reference[asked] for asked, weight in weights.items()]
    return min(ratios) if max(ratios) <= min(ratios) * (1 + _PROPORTIONAL) else None
