"""Dual weights of product form: those under which the bound of a union of products is nearly the largest.

Any weights q = ⊗_a q_a prove the bound F(w, q)²/ΠΣq_a of `union_norm`; the best of this form are looked for
here. With e_a = √q_a, |e_a| = 1, and K = E V E over all cells,

    F = trace K^½,    ∂F/∂e_a(i) = m_a(i)/e_a(i),    m_a(i) = Σ of (K^½)_cc over cells with value i        (1)

and Σ_i m_a(i) = F, so the best weights are q_a = m_a. F is concave in the q of every axis, and in e it grows
as evenly as it can (for plain counts it is linear), so a quasi-Newton method over e needs few steps: some
twenty for what q ← m does in hundreds.

As in `union_norm`, axes of which only plain counts are asked have equal weights, and are numbers; of the
others only those combinations of directions count that some product mentions together. Where these are few,
(1) is exact, for all axes at once. Else one axis after the other moves: the others are cut after a few
directions that hold e, and what lies beyond is as if it were diagonal. The bound itself is the judge.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from leastnoise.bounds import AxisRoots, dense_axis, plain_axis, union_bound, union_bound_work
from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.core.resources import seconds_for
from leastnoise.planning.oblique.dual_union import (
    Cut,
    Gathered,
    MovingUnion,
    Terms,
    blocks_left,
    n_combinations,
    sum_and_marginals,
)
from leastnoise.query import Lattice, Products
from leastnoise.solver import StopDescent, minimise_smooth

# All axes move at once where the cubes of the directions of all problems add up to no more than this: about
# a fifth of a second for one gradient.
_MOST_TOGETHER = 700**3

# Combinations of directions at most, where one axis moves: it takes fewer directions of the others beyond.
_MOST_OF_ONE = 520

# Directions of each other axis, at most, beside one that moves.
_MOST_BESIDE = 4

# Values of an axis. Axes of more keep the weights they start with.
_MOST_VALUES = 1_500

# Gradients for a visit of one axis.
_STEPS = 8

# Gradients for every round where all axes move at once.
_STEPS_TOGETHER = 25

# A round that raises the bound by less than this share is the last, and so is a step by a tenth of it.
_LITTLE = 1e-5

# No value starts with less than this share of what it has under equal weights: (1) does not lift a zero.
_LEAST_SHARE = 1e-4


def dual_weights(
    products: Products,
    weights: Array | Sequence[float],
    *,
    start: Sequence[Array] | None = None,
    row_weights: Mapping[tuple[int, int], Array] | None = None,
    rounds: int = 4,
    deadline: Deadline = NEVER,
    late_seconds: float = 0.0,
) -> tuple[tuple[Array, ...], Ended]:
    """Weights of the values of every axis, Σ = 1, for which `union_bound` is nearly the largest.

    Beside them, how the search for them ended.

    A single one stands for all values of an axis that no product mentions.

    Args:
        weights: w, one of every product; zeros are allowed.
        start: weights to start from, as they come back from here.
        row_weights: for (axis, kind) the weights of that kind's rows; 1 unless given.
        rounds: how often every axis is visited at most.
        deadline: when no further step is begun.
        late_seconds: how long after it the bounds of the first weights may still be worked out.

    Guarantee:
        `union_bound` is no less than for `start`, and, unless the time is up, no less than for equal weights.

    Raises:
        DesignError: if weights do not fit the products.
        TooLargeError: if a product crosses so many axes that their subsets cannot be listed.
    """
    search = _WeightSearch(products, np.asarray(weights, dtype=float), row_weights or {}, deadline)
    if start is not None and (deadline.is_past or search.is_later(late_seconds)):
        # Nothing to compare them with; the certificate works out their bound, and would do it once more.
        return _per_axis(products, _whole(products, start)), "deadline"
    if start is not None:
        search.consider(_whole(products, start))
    if start is None or not search.is_late:
        search.consider([np.full(size, 1 / size) for size in products.sizes])
    ended: Ended = "converged"
    if search.bound > 0 and not search.is_late:
        ended = search.run(rounds)
    # Whoever is late once stays so.
    return _per_axis(products, search.q), "deadline" if search.is_late else ended


def _per_axis(products: Products, q: Sequence[Array]) -> tuple[Array, ...]:
    """The weights of every axis, a single one where no product mentions it."""
    return tuple(own if kinds else np.ones(1) for own, kinds in zip(q, products.kinds, strict=True))


def _whole(products: Products, start: Sequence[Array]) -> list[Array]:
    """Given weights, of all values of every axis."""
    if len(start) != len(products.axes):
        raise DesignError(
            f"{len(products.axes)} axes need weights of the values of each, got {len(start)}",
            field="start",
            given=len(start),
        )
    found = []
    for own, size, kinds in zip(start, products.sizes, products.kinds, strict=True):
        own = np.asarray(own, dtype=float)
        own = np.full(size, 1.0) if not kinds and own.shape == (1,) else own
        total = math.fsum(own.reshape(-1))
        if not 0 < total < math.inf:
            raise DesignError("the weights to start from must be finite, and not all zero", field="start")
        found.append(own / total)
    return found


class _WeightSearch:
    """The best weights so far, and what they are looked for with.

    Attributes:
        q: of every axis, Σq = 1.
        bound: F(w, q)² from below.
    """

    def __init__(
        self,
        products: Products,
        weights: Array,
        row_weights: Mapping[tuple[int, int], Array],
        deadline: Deadline,
    ) -> None:
        self._products, self._weights, self._row_weights = products, weights, row_weights
        self._deadline = deadline
        # Seconds that the bound takes: no search is worth more than the proof of what it found. An estimate
        # first, because not even the weights to start from can be judged where there is time for one bound.
        self._judging = 0.0 if deadline.left is None else seconds_for(union_bound_work(products))
        self._is_estimate = True
        self.q: list[Array] = []
        self.bound = -math.inf
        self._grams: dict[int, list[Array]] = {}
        self._splits: dict[int, tuple[Array, AxisRoots]] = {}

    @property
    def is_late(self) -> bool:
        """Whether the time that is left is needed to judge what was found, here and for the certificate."""
        return self.is_later(0.0)

    def is_later(self, seconds: float) -> bool:
        """The same with this much more time."""
        left = self._deadline.left
        return left is not None and left + seconds <= 2 * self._judging

    def consider(self, q: Sequence[Array]) -> bool:
        """Keep the weights if they are the best so far; say whether the bound grew by enough to go on."""
        began = time.monotonic()
        bound = union_bound(self._products, self._weights, q, self._row_weights, self._deadline)
        took = time.monotonic() - began
        self._judging = took if self._is_estimate else max(self._judging, took)
        self._is_estimate = False
        before = self.bound
        if bound > before:
            self.q, self.bound = list(q), bound
        return bound > before + _LITTLE * abs(before)

    def run(self, rounds: int) -> Ended:
        """Go through the axes until the bound hardly grows; whether it did."""
        common, rest = self._split_off(self._terms())
        found = [
            np.full(len(own), 1 / len(own)) if self._is_simple(a) else own for a, own in enumerate(self.q)
        ]
        for a, kind in common.items():
            if not self._is_simple(a) and len(found[a]) <= _MOST_VALUES:
                alone = [self._union({((a, kind),): 1.0}, [a], {})]
                self._climb(alone, [a], found, rounds * _STEPS_TOGETHER)
        problems = self._without_simple(rest)
        moving = sorted({a for terms in problems for asked in terms for a, _ in asked})
        moving = [a for a in moving if len(found[a]) <= _MOST_VALUES]
        sizes = np.array(self._products.sizes, dtype=float)
        is_small = sum(n_combinations(terms, sizes) ** 3 for terms in problems) <= _MOST_TOGETHER
        if is_small and moving:
            unions = [self._union(terms, moving, {}) for terms in problems]
            self._climb(unions, moving, found, rounds * _STEPS_TOGETHER)
        if is_small or not moving:
            self.consider(found)
            return "converged"
        for _ in range(rounds):
            for a in moving:
                if not self.is_late:
                    unions = self._beside(problems, a, found)
                    self._climb(unions, [a], found, _STEPS)
            if not self.consider(found) or self.is_late:
                return "converged"
        return "exhausted"

    def _terms(self) -> Terms:
        """The weights of different products, in units of the largest."""
        terms: Terms = {}
        unit = float(self._weights.max())
        for term, weight in zip(self._products.terms, (self._weights / unit).tolist(), strict=True):
            if weight > 0:
                asked = tuple(zip(term.places, term.kinds, strict=True))
                terms[asked] = terms.get(asked, 0.0) + weight
        return terms

    def _split_off(self, terms: Terms) -> tuple[dict[int, int], Terms]:
        """The axes that all products ask alike, each a problem of its own, and the products without them."""
        counts = Counter(part for asked in terms for part in asked)
        common = {a: kind for (a, kind), count in counts.items() if count == len(terms)}
        return common, {
            tuple(part for part in asked if part[0] not in common): weight for asked, weight in terms.items()
        }

    def _is_simple(self, a: int) -> bool:
        """Whether nothing but plain counts is asked of an axis, all alike: equal weights are the best."""
        for kind, block in enumerate(self._products.kinds[a]):
            rows = self._row_weights.get((a, kind))
            if not block.is_identity or not (rows is None or (rows == rows[0]).all()):
                return False
        return True

    def _without_simple(self, terms: Terms) -> list[Terms]:
        """Problems of the other axes, one for every set of simple ones that are off their totals."""
        from scipy import sparse

        simple = {a for asked in terms for a, _ in asked if self._is_simple(a)}
        sizes = np.array(self._products.sizes, dtype=float)
        lattice = Lattice([tuple(a for a, _ in asked if a in simple) for asked in terms], len(sizes))
        inside = [np.ones(axes.shape) for _, axes in lattice.groups]
        per_set = lattice.matrix(inside, [1 / sizes[axes] for _, axes in lattice.groups])
        others = [tuple(part for part in asked if part[0] not in simple) for asked in terms]
        number = {asked: place for place, asked in enumerate(dict.fromkeys(others))}
        listed = list(number)
        weights = [
            weight * math.prod(self._row_scale(part) for part in asked if part[0] in simple)
            for asked, weight in terms.items()
        ]
        where = (np.array([number[asked] for asked in others]), np.arange(len(others)))
        sums = sparse.csr_array((weights, where), (len(listed), len(others)))
        columns = sparse.csc_array(sums @ per_set)
        columns.sort_indices()
        scale = lattice.product_over((sizes - 1) / np.sqrt(sizes)) ** 2
        gathered = Gathered()
        for r, (first, last) in enumerate(zip(columns.indptr, columns.indptr[1:], strict=False)):
            asked_there = tuple(listed[place] for place in columns.indices[first:last])
            if any(asked_there):
                gathered.add(asked_there, columns.data[first:last] * scale[r])
        return gathered.problems()

    def _row_scale(self, part: tuple[int, int]) -> float:
        """The weight that all rows of a kind of a simple axis have."""
        rows = self._row_weights.get(part)
        return 1.0 if rows is None else float(rows[0])

    def _grams_of(self, a: int) -> list[Array]:
        """The Gram matrices of all kinds of an axis."""
        if a not in self._grams:
            self._grams[a] = []
            for kind, block in enumerate(self._products.kinds[a]):
                rows = self._row_weights.get((a, kind))
                V = (
                    block.gram
                    if rows is None
                    else block.operator.weighted_gram(np.asarray(rows, dtype=float))
                )
                self._grams[a].append(np.asarray(V, dtype=float))
        return self._grams[a]

    def _union(self, terms: Terms, moving: Sequence[int], fixed: Mapping[int, AxisRoots]) -> MovingUnion:
        mentioned = {a for asked in terms for a, _ in asked}
        return MovingUnion(terms, {a: self._grams_of(a) for a in moving if a in mentioned}, fixed)

    def _split(self, a: int, q: Array) -> AxisRoots:
        """An axis that does not move, in a basis that starts with e."""
        known = self._splits.get(a)
        if known is None or known[0] is not q:
            self._splits[a] = known = (q, self._new_split(a, q))
        return known[1]

    def _new_split(self, a: int, q: Array) -> AxisRoots:
        kept = np.flatnonzero(q)
        blocks = self._products.kinds[a]
        if all(block.is_identity for block in blocks):
            rows = [self._row_weights.get((a, kind), np.ones(len(q))) for kind in range(len(blocks))]
            return plain_axis(q[kept], [np.asarray(of_kind, dtype=float)[kept] for of_kind in rows])[0]
        return dense_axis(q[kept], [V[np.ix_(kept, kept)] for V in self._grams_of(a)])[0]

    def _beside(self, problems: Sequence[Terms], a: int, q: Sequence[Array]) -> list[MovingUnion]:
        """The problems as functions of one axis, the others cut after a few directions."""
        beside = sorted({b for terms in problems for asked in terms for b, _ in asked if b != a})
        splits = {b: self._split(b, q[b]) for b in beside}
        sizes = np.ones(len(q))
        sizes[a] = len(q[a])
        for directions in range(_MOST_BESIDE, 0, -1):
            for b, split in splits.items():
                sizes[b] = min(directions, split.size)
            if directions == 1 or max(n_combinations(terms, sizes) for terms in problems) <= _MOST_OF_ONE:
                break
        cuts = {b: Cut.of(split, int(sizes[b])) for b, split in splits.items()}
        gathered = Gathered()
        for terms in problems:
            for part in blocks_left(terms, a, beside, cuts):
                if self.is_late:
                    return []
                gathered.add(tuple(part), np.array(list(part.values())))
        fixed = {b: cut.first for b, cut in cuts.items()}
        return [self._union(terms, [a], fixed) for terms in gathered.problems()]

    def _climb(
        self, unions: Sequence[MovingUnion], moving: Sequence[int], q: list[Array], steps: int
    ) -> None:
        """Raise the sum of the norms over the weights of some axes, which are replaced."""
        if not unions or self.is_late:
            return
        ends = np.cumsum([len(q[a]) for a in moving])
        floored = [np.maximum(q[a], _LEAST_SHARE / len(q[a])) for a in moving]
        tiny = float(np.finfo(float).tiny)
        seen: list[float] = []
        best = np.sqrt(np.concatenate(floored))

        def value(point: Array) -> tuple[float, Array]:
            nonlocal best
            parts = np.split(point, ends[:-1])
            lengths = [float(np.linalg.norm(part)) for part in parts]
            e = {a: np.abs(part) / length for a, part, length in zip(moving, parts, lengths, strict=True)}
            F, m = sum_and_marginals(unions, e)
            slopes = []
            for a, part, length in zip(moving, parts, lengths, strict=True):
                ratio = np.divide(m[a], (F + tiny) * e[a], out=np.zeros(len(part)), where=e[a] > tiny)
                slopes.append(np.sign(part) * (e[a] - ratio) / length)
            if all(before < F for before in seen):
                best = point.copy()
            seen.append(F)
            if self.is_late:
                raise StopDescent
            # In units of the first F: where values are large, the method stops by their relative change.
            return -math.log((F + tiny) / (seen[0] + tiny)), np.concatenate(slopes)

        minimise_smooth(value, best, tol=_LITTLE / 20, max_evaluations=steps, n_pairs=20)
        for a, part in zip(moving, np.split(best, ends[:-1]), strict=True):
            q[a] = part**2 / float(part @ part)
