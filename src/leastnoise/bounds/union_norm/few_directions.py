"""Nuclear norms of a union of products over few directions of every axis, for many weights at once.

A product leaves the axes that it does not mention in their first direction. So in a union only those
combinations of directions count in which every axis off its first direction is mentioned together with the
others, by some product: with m further directions on each of 5 axes and all pairs crossed, 1 + 5m + 10m² of
the (1 + m)⁵. Along them K(w) = Σ_t w_t K_t is a matrix, and for any X

    F(w) = trace K(w)^½ ≥ Σ_t √(w_t w*_t) ⟨K_t, X⟩,   where ‖X K(w*) X‖₂ ≤ 1                             (1)

This is an equality at w = w* for X = K(w*)^{−½}, so one decomposition serves all weights near w*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from leastnoise.bounds.nuclear_norm import distance_from_identity
from leastnoise.bounds.union_norm.axes import SplitAxis
from leastnoise.core.operators import Array

# What a product asks: the axes that it mentions, rising, and of each the kind of question.
Asked = tuple[tuple[int, int], ...]

# K is decomposed at so many weights in any case; at no more where the work would be this many times that of
# 1,500 directions, or where (1) is known to lose no more than this share in all; at none it is exact for.
_ALWAYS, _WORK, _LITTLE, _EXACT = 3, 1.0, 1e-5, 1e-13

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

    def __init__(self, axes: Mapping[int, SplitAxis], terms: Sequence[Asked]) -> None:
        self._axes, self._terms = axes, terms
        self._sets = [tuple(a for a, _ in term) for term in terms]
        self._directions = Directions({a: axes[a].size for axes_ in self._sets for a in axes_}, self._sets)

    @property
    def count(self) -> int:
        return self._directions.count

    def _block(self, t: int) -> Array:
        """K_t along the directions of its own axes."""
        block: Array = np.ones((1, 1))
        for a, kind in self._terms[t]:
            block = np.kron(block, self._axes[a].grams[kind])
        return block

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
    axes: Mapping[int, SplitAxis], terms: Sequence[Asked], weights: Array, *, is_exact: bool = False
) -> float:
    """A lower bound on Σ_c F(w_c), over the columns w_c of the weights, (terms, columns).

    Only the directions that the axes hold as matrices count.

    Args:
        is_exact: decompose K at all weights, whatever the work.
    """
    union = _Union(axes, terms)
    roots = np.sqrt(weights)
    below, above = np.zeros(weights.shape[1]), np.full(weights.shape[1], math.inf)
    allowed = weights.shape[1] if is_exact else max(_ALWAYS, int(_WORK * (1_500 / union.count) ** 3))
    little = 0.0 if is_exact else _LITTLE
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
        if unknown[at] <= _EXACT * known or (number >= _ALWAYS and unknown.sum() <= little * known):
            break
    return math.fsum(below)
