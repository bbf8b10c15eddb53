"""The nuclear norm of a union of products over more directions than can be decomposed together.

    trace K^½ = (1/π) ∫ trace K(K + e^x)⁻¹ e^{x/2} dx                                                 (1)

A set of axes that no other set contains is mentioned as a whole only by its own products. Combinations of
directions in which all its axes are off their first one meet no other such set, so K + s is inverted by
blocks: one for every such set, and one for the few combinations that are left. With 100 axes and all pairs of
them, m further directions on each, there are 4,950 blocks of m² and one of 1 + 100 m.

By the trapezoidal rule with step h, (1) exceeds the root by a factor of at most 1 + 2 Σ_k sech(2π²k/h),
whatever the eigenvalues (Poisson summation: 1/(2π cosh(x/2)) has the transform sech(πω)). Every part of the
sum that is left out, or replaced by something smaller, lowers it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from leastnoise.bounds.union_norm.axes import SplitAxis
from leastnoise.bounds.union_norm.few_directions import Asked, Directions
from leastnoise.core.errors import TooLargeError
from leastnoise.core.operators import Array

# The step of the rule, and sech(2π²/h) of it doubled, with room for the smaller terms.
_STEP = 0.5
_EXCESS = 5 * math.exp(-2 * math.pi**2 / _STEP)

# Values of s, over a bound on the largest eigenvalue: below the first the trace hardly grows; above the last
# trace K(K + s)⁻¹ ≥ trace K/s − trace K²/s² is all but an equality.
_FIRST, _LAST = 1e-11, 1e5

# A trace that comes from a Cholesky factor of S is taken to be wrong by this many roundings of λ/s + 1 in
# each of its directions, λ a bound on the largest eigenvalue: its condition is no worse.
_ROUNDINGS = 10 * np.finfo(float).eps

# Subsets of the sets of axes that are listed.
_MOST_PARTS = 2**22

# About how many values of s there are.
_NODES = math.log(_LAST / _FIRST) / _STEP


class Blocks:
    """How the directions of a union fall into blocks, and what inverting them takes.

    Attributes:
        largest: the sets of axes that no other contains.
    """

    def __init__(self, sets: Sequence[tuple[int, ...]]) -> None:
        different = dict.fromkeys(sets)
        parts = sum(2 ** len(axes) for axes in different)
        if parts > _MOST_PARTS:
            raise TooLargeError(
                f"the queries ask more than plain counts of attribute sets with {parts:,} subsets in all; "
                f"a bound is computed for at most {_MOST_PARTS:,}. Cross fewer attributes in one query."
            )
        below = {part for axes in different for size in range(len(axes)) for part in combinations(axes, size)}
        self.largest = [axes for axes in different if axes not in below]
        self.smaller = [axes for axes in different if axes in below]
        self._shared, self._own = _by_size(below), _by_size(self.largest)

    def shared(self, sizes: Array) -> float:
        """How many combinations lie below the largest sets, for some number of directions on every axis."""
        return math.fsum(np.prod(sizes[axes] - 1, axis=1).sum() for axes in self._shared)

    def count(self, sizes: Array) -> float:
        """How many combinations there are."""
        return self.shared(sizes) + math.fsum(np.prod(sizes[axes] - 1, axis=1).sum() for axes in self._own)

    def work(self, sizes: Array) -> float:
        """About how many floating-point operations (1) takes."""
        each, once = 2 * self.shared(sizes) ** 3, 0.0
        for axes in self._own:
            own, every = np.prod(sizes[axes] - 1, axis=1), np.prod(sizes[axes], axis=1)
            each += 4 * float(((every - own) ** 2 * own).sum())
            once += float((25 * own**3 + every**2).sum())
        return _NODES * each + once


def _by_size(sets: Iterable[tuple[int, ...]]) -> list[Array]:
    """Sets of axes as arrays, those of one size together, (count, size)."""
    groups: dict[int, list[tuple[int, ...]]] = {}
    for axes in sets:
        groups.setdefault(len(axes), []).append(axes)
    return [np.array(group, dtype=np.intp).reshape(len(group), size) for size, group in groups.items()]


def norm_by_resolvents(axes: Mapping[int, SplitAxis], terms: Sequence[Asked], w: Array) -> float:
    """A lower bound on F(w) by (1), over the directions that the axes hold as matrices."""
    unit = float(w.max(initial=0))
    if unit <= 0:
        return 0.0
    resolvents = _Resolvents(axes, terms, w / unit)
    if not 0 < resolvents.trace < math.inf:
        return 0.0
    return math.sqrt(unit) * resolvents.trace_of_root()


class _Resolvents:
    """K as blocks of the largest sets, each diagonal, and of what they share."""

    def __init__(self, axes: Mapping[int, SplitAxis], terms: Sequence[Asked], w: Array) -> None:
        from scipy import linalg

        sets = [tuple(a for a, _ in term) for term in terms]
        blocks = Blocks(sets)
        # What is shared is numbered first.
        parts = [part for axes_ in blocks.largest for part in combinations(axes_, len(axes_) - 1)]
        directions = Directions({a: axis.size for a, axis in axes.items()}, [*blocks.smaller, *parts])
        n_shared = directions.count
        directions.add(blocks.largest)
        self._shared = np.zeros((n_shared, n_shared))
        whole: dict[tuple[int, ...], Array] = {}
        for term, of_term, weight in zip(terms, sets, w.tolist(), strict=True):
            block: Array = np.full((1, 1), weight)
            for a, kind in term:
                block = np.kron(block, axes[a].grams[kind])
            whole[of_term] = whole.get(of_term, 0) + block
        self.trace, self.squares, self._count = 0.0, 0.0, directions.count
        by_shape: dict[tuple[int, ...], list[tuple[Array, Array, Array]]] = {}
        for of_term, block in whole.items():
            places = directions.of(of_term)
            inside = places < n_shared
            self._shared[np.ix_(places[inside], places[inside])] += block[np.ix_(inside, inside)]
            if inside.all():
                continue
            values, E = linalg.eigh(block[np.ix_(~inside, ~inside)], check_finite=False, driver="evd")
            across = block[np.ix_(inside, ~inside)] @ E
            self.trace += math.fsum(np.maximum(values, 0))
            self.squares += float(np.vdot(values, values)) + 2 * float(np.vdot(across, across))
            by_shape.setdefault(across.shape, []).append((places[inside], np.maximum(values, 0), across))
        self.trace += float(np.trace(self._shared))
        self.squares += float(np.vdot(self._shared, self._shared))
        # Blocks of one shape together: places among the shared, eigenvalues, and what lies across.
        self._stacks = [
            tuple(np.stack([own[part] for own in owns]) for part in range(3)) for owns in by_shape.values()
        ]

    def trace_of_root(self) -> float:
        """(1) from below."""
        # The root of the sum of all squares is no less than the largest eigenvalue, and neither is the trace.
        largest = min(math.sqrt(self.squares), self.trace)
        logs = np.arange(math.log(_FIRST * largest), math.log(_LAST * largest) + _STEP, _STEP)
        total, before = 0.0, 0.0
        for x in logs[::-1]:
            s = math.exp(x)
            wrong = _ROUNDINGS * (len(self._shared) * (largest / s + 1) + self._count)
            # The trace falls as s grows, so what holds for a larger s holds here.
            before = max(before, self._trace_at(s) - wrong)
            total += before * math.sqrt(s)
        # Below the first s the last trace still holds; beyond the last the series in 1/s: geometric sums.
        ratio = math.exp(-_STEP / 2)
        total += before * math.exp(logs[0] / 2) * ratio / (1 - ratio)
        beyond = math.exp(-logs[-1] / 2)
        total += self.trace * beyond * ratio / (1 - ratio)
        total -= self.squares * beyond**3 * ratio**3 / (1 - ratio**3)
        return max(total * _STEP / math.pi / (1 + _EXCESS), 0.0)

    def _trace_at(self, s: float) -> float:
        """trace K(K + s)⁻¹ = Σ of g/(g + s) over the blocks, and what is shared: n − s trace of S⁻¹ S'.

        S = K_shared + s − Σ C (G + s)⁻¹ Cᵀ, and S' its derivative in s.
        """
        from scipy import linalg

        S = self._shared.copy()
        n = len(S)
        S[np.diag_indices(n)] += s
        for places, values, across in self._stacks:
            taken = (across / (values + s)[:, None, :]) @ across.transpose(0, 2, 1)
            where = (places[:, :, None] * n + places[:, None, :]).reshape(-1)
            S -= np.bincount(where, taken.reshape(-1), minlength=n * n).reshape(n, n)
        try:
            factor = linalg.cho_factor(S, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            return 0.0
        inverse = linalg.cho_solve(factor, np.eye(n), check_finite=False)
        found = n - s * float(np.trace(inverse))
        for places, values, across in self._stacks:
            shrunk = across / (values + s)[:, None, :]
            of_places = inverse[places[:, :, None], places[:, None, :]]
            found += float((values / (values + s)).sum()) - s * float(np.vdot(of_places @ shrunk, shrunk))
        return found
