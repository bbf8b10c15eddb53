"""Lower bounds on sums of standard errors for unions of products, by one rotation of every axis.

In (1) of `absolute_error` any contraction U proves a bound, if only b of every query is known. That of
`union_rotations` is made of products. Let F_{j,a} be the rows that product j asks of axis a times √q_a (one
row √q_aᵀ where it does not mention the axis), U_a orthogonal, Y_{j,a} contractions with as many rows as
F_{j,a}, and Σ_j c_{j,i}² ≤ 1. Then the blocks (⊗_a Y_{j,a}) diag(c_j) (⊗_a U_a)ᵀ are a contraction, and row r
of product j has

    b_{j,r} = Σ_i c_{j,i} Π_a B_{j,a}[r_a, i_a]        B_{j,a} = Y_{j,a} ∘ (F_{j,a} U_a)               (1)

a product of matrices with a tensor, axis by axis. The c are those that are best for the nuclear norm of
weights p_j of whole products, √p_j Π_a d_{j,a}[i_a] over the length of all of these for one i, d the column
sums of B.

An axis whose values are counted one by one, or not at all, is taken with q alike for all: it then has two
kinds of directions, the sum of all n values and n − 1 others, and all rows have the same b. So such an axis
is two numbers for each kind, however many values it has. An axis that all products ask alike is a factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from leastnoise.bounds.absolute_error import combined, stderr_sum_bound
from leastnoise.bounds.nuclear_norm import distance_from_identity
from leastnoise.bounds.union_rotations import UnionRotations
from leastnoise.core.operators import Array
from leastnoise.query import Products, workload_of_rows

# Numbers c_{j,i} at most: a quarter of a GB, held about three times.
MAX_ENTRIES = 2**25

# Where a product does not mention an axis.
_ABSENT = -1


class _Asked(NamedTuple):
    """What one kind of rows has along an axis, directions i after classes of rows.

    Attributes:
        B: as in (1), summed over the directions of a class.
        d: the column sums, for one direction of a class.
        counts: how many rows a class has.
    """

    B: Array
    d: Array
    counts: Array


@dataclass(frozen=True, eq=False)
class _UnionAxis:
    """One axis: its kinds by number, and how many directions each class has."""

    kinds: dict[int, int]
    multiplicity: Array
    asked: list[_Asked]


def n_entries(products: Products) -> float:
    """How many numbers c_{j,i} a bound takes."""
    sizes = [
        2.0 if all(kind.is_identity for kind in kinds) else float(size)
        for size, kinds in zip(products.sizes, products.kinds, strict=True)
        if kinds
    ]
    return len(products.terms) * math.prod(sizes)


def union_stderr_bound(products: Products, weights: Array, p: Array, q: Sequence[Array]) -> float:
    """(1) of `absolute_error` for products with weights c and p, and weights q of the values of every axis.

    Every axis is mentioned by some product.
    """
    counted = np.flatnonzero((weights > 0) & (p > 0))
    if not len(counted) or not all(own.max(initial=0) > 0 for own in q):
        return 0.0
    p = p / p[counted].max()
    terms = [dict(zip(products.terms[j].places, products.terms[j].kinds, strict=True)) for j in counted]
    asked_of = [[term.get(a, _ABSENT) for term in terms] for a in range(len(products.axes))]
    factor = 1.0
    axes: list[_UnionAxis] = []
    asked: list[list[int]] = []
    rotated: list[tuple[int, _RowFactors]] = []
    for a, own in enumerate(asked_of):
        weight = q[a] / q[a].max()
        if len(set(own)) == 1:
            factor *= _alike(products, a, own[0], weight)
            continue
        if all(kind == _ABSENT or products.kinds[a][kind].is_identity for kind in own):
            weight = np.ones(len(weight))
            axes.append(_plain_axis(len(weight), own))
        else:
            rotated.append((len(axes), _RowFactors(products, a, own, weight)))
            axes.append(_UnionAxis({}, np.ones(len(weight)), []))
        asked.append(own)
        factor /= math.sqrt(math.fsum(weight))
    norm = _rotate(axes, asked, rotated, p[counted])
    numbers = [[axis.kinds[kind] for kind in own] for axis, own in zip(axes, asked, strict=True)]
    c, b, times = _rows(axes, numbers, weights[counted], p[counted])
    return factor * combined(c, b, times) / norm


def _alike(products: Products, a: int, kind: int, q: Array) -> float:
    """The factor of an axis that all products ask alike."""
    if kind == _ABSENT:
        return 1.0
    operator = products.kinds[a][kind].operator
    ones = np.ones(operator.shape[0])
    return stderr_sum_bound(workload_of_rows(operator), ones, ones, q)


def _plain_axis(n: int, own: Sequence[int]) -> _UnionAxis:
    """An axis of n values alike: the direction of their sum, and the n − 1 others."""
    kinds: dict[int, int] = {}
    asked: list[_Asked] = []
    for kind in own:
        if kind in kinds:
            continue
        kinds[kind] = len(asked)
        if kind == _ABSENT:
            asked.append(_Asked(np.array([[math.sqrt(n), 0.0]]), np.array([math.sqrt(n), 0.0]), np.ones(1)))
        else:
            asked.append(_Asked(np.array([[1 / n, 1 - 1 / n]]), np.ones(2), np.full(1, float(n))))
    return _UnionAxis(kinds, np.array([1.0, n - 1.0]), asked)


class _RowFactors:
    """F of every kind that is asked of an axis, and roots F = Z R with square R."""

    def __init__(self, products: Products, a: int, own: Sequence[int], q: Array) -> None:
        n, root = len(q), np.sqrt(q)
        self.kinds: dict[int, int] = {}
        self.F: list[Array] = []
        self.Z: list[Array] = []
        self.R: list[Array] = []
        for kind in own:
            if kind in self.kinds:
                continue
            self.kinds[kind] = len(self.F)
            rows = np.ones((1, n)) if kind == _ABSENT else products.kinds[a][kind].operator.dense()
            F = np.asarray(rows, dtype=float) * root
            Q, triangle = np.linalg.qr(F)
            Z, R = np.zeros((len(F), n)), np.zeros((n, n))
            Z[:, : Q.shape[1]], R[: len(triangle)] = Q, triangle
            self.F.append(F)
            self.Z.append(Z)
            self.R.append(R)

    def asked(self, U: Array, Y: Sequence[Array]) -> tuple[list[_Asked], float]:
        """B and d of every kind, and a bound on the norms of the rotation and of the contractions."""
        found, largest = [], 0.0
        for F, Z, own in zip(self.F, self.Z, Y, strict=True):
            rows = Z @ own
            # ‖Z Y‖ ≤ ‖Z‖ ‖Y‖, and columns of Z that are zero do not count.
            k = min(Z.shape)
            square = (1 + distance_from_identity(Z[:, :k].T @ Z[:, :k])) * (
                1 + distance_from_identity(own.T @ own)
            )
            largest = max(largest, square)
            B = rows * (F @ U)
            found.append(_Asked(B, B.sum(axis=0), np.ones(len(F))))
        return found, math.sqrt(largest * (1 + distance_from_identity(U.T @ U)))


def _rotate(
    axes: list[_UnionAxis], asked: list[list[int]], rotated: Sequence[tuple[int, _RowFactors]], p: Array
) -> float:
    """Put B and d of rotated axes in their places; a bound on the norm of the contraction."""
    if not rotated:
        return 1.0
    factors: list[list[Array]] = [[np.diag(one.d * axis.multiplicity) for one in axis.asked] for axis in axes]
    numbers = [dict(axis.kinds) for axis in axes]
    for place, of_rows in rotated:
        factors[place], numbers[place] = of_rows.R, of_rows.kinds
    of_axes = [[number[kind] for kind in own] for number, own in zip(numbers, asked, strict=True)]
    rotations = UnionRotations([list(own) for own in zip(*of_axes, strict=True)], p, factors)
    rotations.climb()
    norm = 1.0
    for place, of_rows in rotated:
        found, own = of_rows.asked(*rotations.of_axis(place))
        axes[place] = _UnionAxis(of_rows.kinds, axes[place].multiplicity, found)
        norm *= own
    return norm


def _rows(
    axes: Sequence[_UnionAxis], numbers: Sequence[Sequence[int]], weights: Array, p: Array
) -> tuple[Array, Array, Array]:
    """c, |b| and how often each occurs, for the rows of all products, one class of rows after the other."""
    parts = []
    lengths: Array = np.zeros(())
    for j in range(len(p)):
        part: Array = np.array(math.sqrt(p[j]))
        for axis, own in zip(axes, numbers, strict=True):
            part = np.multiply.outer(part, axis.asked[own[j]].d)
        parts.append(part)
        lengths = lengths + part**2
    lengths = np.sqrt(np.maximum(lengths, np.finfo(float).tiny))
    c, b, times = [], [], []
    for j, part in enumerate(parts):
        value, count = part / lengths, np.ones(())
        for a, (axis, own) in enumerate(zip(axes, numbers, strict=True)):
            one = axis.asked[own[j]]
            value = np.moveaxis(np.tensordot(one.B, value, axes=(1, a)), 0, a)
            count = np.multiply.outer(count, one.counts)
        b.append(np.abs(value).reshape(-1))
        times.append(count.reshape(-1))
        c.append(np.full(b[-1].size, weights[j]))
    return np.concatenate(c), np.concatenate(b), np.concatenate(times)
