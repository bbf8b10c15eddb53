"""Weights of product form for the bound of a union: those that raise the bound of `union_rotations`.

With F_{j,a} = K_{j,a}^½ for K = diag(e) V diag(e) and e = √q, the bound is a function of q beside the
rotations. It is homogeneous in every e_a, so that m_a = e ∘ (its slope in e), over its sum, are weights too;
at the best q, q_a = m_a. Replacing q by m once after every sweep converges in 10 to 30 sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leastnoise.bounds import UnionRotations, root_below, union_bound
from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.planning.joint.joint_caps import CappedJointProblem
from leastnoise.planning.joint.joint_problem import JointProblem, joint_asked
from leastnoise.planning.oblique.dual_search import dual_weights
from leastnoise.query import Products

# Sweeps over all axes, at most.
_SWEEPS = 30

# A sweep that raises the bound by less than this share is the last.
_LITTLE = 3e-6

# A plan within this share of what rotations prove needs no other search for weights: that takes longer.
_NEAR = 1e-2

# No value keeps less than this share of what it has under equal weights: a zero is never lifted.
_LEAST_SHARE = 1e-4

# Combinations of values, at most: some arrays of as many numbers are held.
_MAX_CELLS = 2**21

# Values of an axis, at most.
_MAX_SIZE = 640


def joint_dual_weights(
    products: Products,
    weights: Array,
    *,
    start: Sequence[Array],
    achieved: float = math.inf,
    deadline: Deadline = NEVER,
) -> tuple[tuple[Array, ...], Ended]:
    """Weights of the values of every axis that prove most, of those found by rotations and by `dual_weights`.

    Args:
        start: weights of the values of every axis; a single one where no product mentions it.
        achieved: the total of the plan that the bound is for, at profile 1.
    """
    whole = over_all_values(products, start)
    if products.n_cells <= _MAX_CELLS and max(products.sizes) <= _MAX_SIZE:
        rotated, proved = rotated_weights(products, weights, whole, deadline)
        if achieved <= (1 + _NEAR) * proved:
            return _of_mentioned(products, rotated), deadline.ending
        if union_bound(products, weights, rotated) > union_bound(products, weights, whole):
            whole = rotated
    return dual_weights(products, weights, start=_of_mentioned(products, whole), deadline=deadline)


def over_all_values(products: Products, q: Sequence[Array]) -> list[Array]:
    """The weights of every axis, equal ones where no product mentions it."""
    return [
        own if kinds else np.full(size, 1 / size)
        for own, kinds, size in zip(q, products.kinds, products.sizes, strict=True)
    ]


def rotated_bound(products: Products, weights: Array) -> float:
    """The bound on the total under equal weights of all values, before any rotation but the first."""
    if products.n_cells > _MAX_CELLS or max(products.sizes) > _MAX_SIZE:
        return 0.0
    asked, counted = joint_asked(products), np.flatnonzero(weights > 0)
    equal = [np.full(size, 1 / size) for size in products.sizes]
    factors = _factors(_grams(products), equal)
    return UnionRotations(asked[counted].tolist(), weights[counted], factors).value() ** 2


def _grams(products: Products) -> list[list[Array]]:
    """The Gram matrix of every axis and kind, and of the total last."""
    return [
        [*(np.asarray(kind.gram, dtype=float) for kind in kinds), np.ones((size, size))]
        for kinds, size in zip(products.kinds, products.sizes, strict=True)
    ]


def _of_mentioned(products: Products, q: Sequence[Array]) -> tuple[Array, ...]:
    """The weights of every axis, a single one where no product mentions it."""
    return tuple(own if kinds else np.ones(1) for own, kinds in zip(q, products.kinds, strict=True))


def rotated_weights(
    products: Products, weights: Array, q: Sequence[Array], deadline: Deadline
) -> tuple[list[Array], float]:
    """Weights found by rotations, and the bound on the total that they prove; 0 where that takes long."""
    if products.n_cells > _MAX_CELLS or max(products.sizes) > _MAX_SIZE:
        return list(q), 0.0
    asked = joint_asked(products)
    grams = _grams(products)
    counted = np.flatnonzero(weights > 0)
    # From equal weights, as `union_norm` begins.
    equal = [np.full(len(own), 1 / len(own)) for own in q]
    search = UnionRotations(asked[counted].tolist(), weights[counted], _factors(grams, equal))
    q = [np.maximum(own / own.sum(), _LEAST_SHARE / len(own)) for own in q]
    search.change_factors(_factors(grams, q))
    best, most = q, search.value()
    for _ in range(_SWEEPS):
        search.sweep()
        q = [np.maximum(own, _LEAST_SHARE / len(own) * own.sum()) for own in search.masses]
        q = [own / own.sum() for own in q]
        search.change_factors(_factors(grams, q))
        found, before = search.value(), most
        if found > most:
            best, most = q, found
        if found <= before * (1 + _LITTLE) or deadline.is_past:
            break
    return best, most**2


def _factors(grams: Sequence[Sequence[Array]], q: Sequence[Array]) -> list[list[Array]]:
    found = []
    for own, of_axis in zip(grams, q, strict=True):
        e = np.sqrt(of_axis)
        found.append([_factor(V, e) for V in own])
    return found


def _factor(V: Array, e: Array) -> Array:
    if np.array_equal(V, np.eye(len(V))):
        return np.diag(e)
    return root_below(e[:, None] * V * e)


def sums_along_axes(problem: JointProblem, q: Array) -> list[Array]:
    """Weights of the values of every axis, from those of all cells; a single one where none is mentioned."""
    found = []
    for a, (axis, kinds) in enumerate(zip(problem.axes, problem.products.kinds, strict=True)):
        if not kinds:
            found.append(np.ones(1))
            continue
        sums = q.sum(axis=tuple(b for b in range(q.ndim) if b != a))
        counts = np.bincount(axis.kind_of_value, minlength=len(sums))
        found.append((sums / counts)[axis.kind_of_value])
    return found


def row_weights(
    capped: CappedJointProblem, products: Products, p: Sequence[Array]
) -> tuple[Array, dict[tuple[int, int], Array]]:
    """Dual weights of the queries as products: the sum of each product, and shares of its rows on each axis.

    Of products that ask the same, the first with the least cap has them all.
    """
    of_terms = np.zeros(len(products.terms))
    rows: dict[tuple[int, int], Array] = {}
    asked = [tuple(own) for own in capped.problem.asked.tolist()]
    for (kinds, cap), own in zip(capped.asked.items(), p, strict=True):
        number = next(j for j, one in enumerate(asked) if one == kinds and capped.caps[j] == cap)
        total = float(own.sum())
        if total <= 0:
            continue
        of_terms[number] = total
        for a in products.terms[number].places:
            rows[number, a] = own.sum(axis=tuple(b for b in range(own.ndim) if b != a)) / total
    return of_terms, rows
