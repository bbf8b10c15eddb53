"""Nuclear norms of a union of products over some directions of every axis.

Few directions are decomposed, for many weights at once; more are inverted by blocks.

A product leaves the axes that it does not mention in their first direction. So in a union only those
combinations of directions count in which every axis off its first direction is mentioned together with the
others, by some product: with m further directions on each of 5 axes and all pairs crossed, 1 + 5m + 10m² of
the (1 + m)⁵. Along them K(w) = Σ_t w_t K_t is a matrix, and for any X

    F(w) = trace K(w)^½ ≥ Σ_t √(w_t w*_t) ⟨K_t, X⟩,   where ‖X K(w*) X‖₂ ≤ 1                             (1)

This is an equality at w = w* for X = K(w*)^{−½}, so one decomposition serves all weights near w*.

More directions than can be decomposed together are taken by

    trace K^½ = (1/π) ∫ trace K(K + e^x)⁻¹ e^{x/2} dx                                                 (2)

A set of axes that no other set contains is mentioned as a whole only by its own products. Combinations of
directions in which all its axes are off their first one meet no other such set, so K + s is inverted by
blocks: one for every such set, and one for the few combinations that are left. With 100 axes and all pairs of
them, m further directions on each, there are 4,950 blocks of m² and one of 1 + 100 m.

By the trapezoidal rule with step h, (2) exceeds the root by a factor of at most 1 + 2 Σ_k sech(2π²k/h),
whatever the eigenvalues (Poisson summation: 1/(2π cosh(x/2)) has the transform sech(πω)). Every part of the
sum that is left out, or replaced by something smaller, lowers it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from leastnoise.bounds.nuclear_norm import distance_from_identity
from leastnoise.bounds.union_axes import AxisRoots
from leastnoise.core.errors import TooLargeError
from leastnoise.core.operators import Array, kronecker

# Few directions: decomposed ------------------------------------------------------------------------------

# What a product asks: the axes that it mentions, rising, and of each the kind of question.
AskedKinds = tuple[tuple[int, int], ...]

# K is decomposed at this many weights in any case.
_MIN_DECOMPOSITIONS = 3

# At more weights only while the work stays below this many decompositions of 1,500 directions.
_RELATIVE_WORK = 1.0

# And only while (1) may lose more than this share in all.
_SMALL_LOSS = 1e-5

# A share that is rounding: (1) is exact there, and needs no decomposition of its own.
_NO_LOSS = 1e-13

# As in `nuclear_norm`: what is left out only lowers the bound.
_NOISE_FLOOR = 1e-14


class Directions:
    """The combinations of directions that count, numbered.

    Attributes:
        count: how many there are.
    """

    def __init__(self, sizes: Mapping[int, int], sets: Sequence[tuple[int, ...]]) -> None:
        self._sizes = sizes
        self._first: dict[tuple[int, ...], int] = {}
        self._places: dict[tuple[int, ...], Array] = {}
        self.count = 0
        self.add(sets)

    def add(self, sets: Sequence[tuple[int, ...]]) -> None:
        """Number the combinations on further sets of axes, after those that have a number."""
        for axes in sets:
            if axes not in self._places:
                self._places[axes] = self._number(axes)

    def _number(self, axes: tuple[int, ...]) -> Array:
        places = np.zeros([self._sizes[a] for a in axes], dtype=np.intp)
        for size in range(len(axes) + 1):
            for chosen in combinations(range(len(axes)), size):
                subset = tuple(axes[i] for i in chosen)
                further = [self._sizes[a] - 1 for a in subset]
                count = math.prod(further)
                if subset not in self._first:
                    self._first[subset] = self.count
                    self.count += count
                where = tuple(slice(1, None) if i in chosen else 0 for i in range(len(axes)))
                places[where] = (self._first[subset] + np.arange(count)).reshape(further)
        return places.reshape(-1)

    def of(self, axes: tuple[int, ...]) -> Array:
        """The numbers of all combinations on some axes, the last axis fastest."""
        return self._places[axes]


class _Union:
    """K(w), and its decomposition at some weights."""

    def __init__(self, axes: Mapping[int, AxisRoots], terms: Sequence[AskedKinds]) -> None:
        self._axes, self._terms = axes, terms
        self._sets = [tuple(a for a, _ in term) for term in terms]
        self._directions = Directions({a: axes[a].size for axes_ in self._sets for a in axes_}, self._sets)

    @property
    def count(self) -> int:
        return self._directions.count

    def _block(self, t: int) -> Array:
        """K_t along the directions of its own axes."""
        return kronecker([self._axes[a].grams[kind] for a, kind in self._terms[t]])

    def inner_products(self, w: Array) -> Array:
        """⟨K_t, X⟩ of (1) for w* = w, one for every term."""
        from scipy import linalg

        K = np.zeros((self.count, self.count))
        for t in np.flatnonzero(w).tolist():
            places = self._directions.of(self._sets[t])
            K[np.ix_(places, places)] += w[t] * self._block(t)
        scale = float(np.diag(K).max(initial=0))
        if not 0 < scale < math.inf:
            return np.zeros(len(w))
        K /= scale
        # Divide and conquer: SciPy's default gives up on some matrices with many nearly equal eigenvalues.
        values, E = linalg.eigh(K, check_finite=False, driver="evd")
        strong = values > _NOISE_FLOOR * len(values) * values[-1]
        values, E = values[strong], E[:, strong]
        H = E.T @ (K @ E)
        H /= np.sqrt(values)[:, None]
        H /= np.sqrt(values)
        # With λ_a D_a for λ_a, D_a the absolute sums of H = Λ^{−½} Eᵀ K E Λ^{−½}, X = E Λ^{−½} Eᵀ keeps (1).
        np.abs(H, out=H)
        D = np.maximum(H.sum(axis=0), H.sum(axis=1)) + np.finfo(float).tiny
        X = (E / np.sqrt(values * D)) @ E.T
        X /= math.sqrt((1 + distance_from_identity(E.T @ E)) * scale)
        found = np.zeros(len(w))
        for t in range(len(w)):
            places = self._directions.of(self._sets[t])
            found[t] = np.vdot(self._block(t), X[np.ix_(places, places)])
        return found


def sum_of_norms_dense(
    axes: Mapping[int, AxisRoots], terms: Sequence[AskedKinds], weights: Array, *, is_exact: bool = False
) -> float:
    """A lower bound on Σ_c F(w_c), over the columns w_c of the weights, (terms, columns).

    Only the directions that the axes hold as matrices count.

    Args:
        is_exact: decompose K at all weights, whatever the work.
    """
    union = _Union(axes, terms)
    roots = np.sqrt(weights)
    below, above = np.zeros(weights.shape[1]), np.full(weights.shape[1], math.inf)
    allowed = (
        weights.shape[1]
        if is_exact
        else max(_MIN_DECOMPOSITIONS, int(_RELATIVE_WORK * (1_500 / union.count) ** 3))
    )
    little = 0.0 if is_exact else _SMALL_LOSS
    at = int(np.argmax(weights.sum(axis=0)))
    for number in range(1, min(allowed, weights.shape[1]) + 1):
        inner = union.inner_products(weights[:, at])
        below = np.maximum(below, (roots[:, at] * np.maximum(inner, 0)) @ roots)
        # F(w) ≤ (F(w*) Σ_t w_t ⟨K_t, X⟩)^½: only to tell where the next decomposition is worth most.
        above = np.minimum(above, np.sqrt(np.maximum(weights[:, at] @ inner * (inner @ weights), 0)))
        unknown = above - below
        unknown[at] = 0
        at = int(np.argmax(unknown))
        known = float(below.sum())
        if unknown[at] <= _NO_LOSS * known or (
            number >= _MIN_DECOMPOSITIONS and unknown.sum() <= little * known
        ):
            break
    return math.fsum(below)


# Many directions: inverted by blocks ---------------------------------------------------------------------

# The step of the rule, and sech(2π²/h) of it doubled, with room for the smaller terms.
_STEP = 0.5
_EXCESS = 5 * math.exp(-2 * math.pi**2 / _STEP)

# The least s, over a bound on the largest eigenvalue: below it the trace hardly grows.
_FIRST_SHIFT = 1e-11

# The largest s, likewise: above it trace K(K + s)⁻¹ ≥ trace K/s − trace K²/s² is all but an equality.
_LAST_SHIFT = 1e5

# A trace that comes from a Cholesky factor of S is taken to be wrong by this many roundings of λ/s + 1 in
# each of its directions, λ a bound on the largest eigenvalue: its condition is no worse.
_ROUNDINGS = 10 * np.finfo(float).eps

# Subsets of the sets of axes that are listed.
_MAX_SUBSETS = 2**22

# About how many values of s there are.
_NODES = math.log(_LAST_SHIFT / _FIRST_SHIFT) / _STEP


class ResolventBlocks:
    """How the directions of a union fall into blocks, and what inverting them takes.

    Attributes:
        largest: the sets of axes that no other contains.
    """

    def __init__(self, sets: Sequence[tuple[int, ...]]) -> None:
        different = dict.fromkeys(sets)
        parts = sum(2 ** len(axes) for axes in different)
        if parts > _MAX_SUBSETS:
            raise TooLargeError(
                f"the queries ask more than plain counts of attribute sets with {parts:,} subsets in all; "
                f"a bound is computed for at most {_MAX_SUBSETS:,}. Cross fewer attributes in one query.",
                field="workload",
                given=parts,
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
        """About how many floating-point operations (2) takes."""
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


def norm_by_resolvents(axes: Mapping[int, AxisRoots], terms: Sequence[AskedKinds], w: Array) -> float:
    """A lower bound on F(w) by (2), over the directions that the axes hold as matrices."""
    unit = float(w.max(initial=0))
    if unit <= 0:
        return 0.0
    resolvents = _Resolvents(axes, terms, w / unit)
    if not 0 < resolvents.trace < math.inf:
        return 0.0
    return math.sqrt(unit) * resolvents.trace_of_root()


class _Resolvents:
    """K as blocks of the largest sets, each diagonal, and of what they share."""

    def __init__(self, axes: Mapping[int, AxisRoots], terms: Sequence[AskedKinds], w: Array) -> None:
        from scipy import linalg

        sets = [tuple(a for a, _ in term) for term in terms]
        blocks = ResolventBlocks(sets)
        # What is shared is numbered first.
        parts = [part for axes_ in blocks.largest for part in combinations(axes_, len(axes_) - 1)]
        directions = Directions({a: axis.size for a, axis in axes.items()}, [*blocks.smaller, *parts])
        n_shared = directions.count
        directions.add(blocks.largest)
        self._shared = np.zeros((n_shared, n_shared))
        whole: dict[tuple[int, ...], Array] = {}
        for term, of_term, weight in zip(terms, sets, w.tolist(), strict=True):
            factors = [axes[a].grams[kind] for a, kind in term]
            block = kronecker([np.full((1, 1), weight), *factors])
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
        """(2) from below."""
        # The root of the sum of all squares is no less than the largest eigenvalue, and neither is the trace.
        largest = min(math.sqrt(self.squares), self.trace)
        logs = np.arange(math.log(_FIRST_SHIFT * largest), math.log(_LAST_SHIFT * largest) + _STEP, _STEP)
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
