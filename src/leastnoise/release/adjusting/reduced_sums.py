"""The sums over cells that blocks of products can tell anything about, fewer than there are cells.

What is measured of cross tables of the axis sets c depends on these tables alone. They are not independent:
two tables of one axis have the same sums over it. Independent coordinates of all of them are the counts at
points p that name, for every axis, one of its values but the first, or 0 for "added up over this axis":

    (M x)_p = Σ x_i  over the cells i with i_a = p_a wherever p_a ≠ 0 ,                                   (1)

p ≠ 0 only on axes of one c. A table of c as the array of its points has the same shape as the table itself,
and G = MᵀS M, where the parts of S are Kronecker products again. For weights θ on the cells,

    (M diag(θ) Mᵀ)_{p,q} = Σ θ_i over the cells of both p and q                                           (2)

is zero where p and q name different values of an axis, else (1) of θ at the point that names what either of
them does: cross tables of θ over c ∪ d say it for all points of c and d.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leastnoise.core.operators import Array, arranged
from leastnoise.query import AxisSet


class CellSums(ABC):
    """M and S of G = MᵀS M, for cells in schema order.

    Attributes:
        variances: S⁻¹, (k, k).
    """

    variances: Array

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """M x, (k,)."""

    @abstractmethod
    def spread(self, v: Array) -> Array:
        """Mᵀv, (n,)."""

    @abstractmethod
    def weighted_gram(self, theta: Array) -> Array:
        """M diag(θ) Mᵀ, (k, k)."""


class MeasuredRows(CellSums):
    """The rows that were measured themselves, in units of their noise: M = A/√ν, S = I."""

    def __init__(self, rows: Array) -> None:
        self._rows = rows
        self.variances = np.eye(len(rows))

    def apply(self, x: Array) -> Array:
        return np.asarray(self._rows @ x)

    def spread(self, v: Array) -> Array:
        return np.asarray(v @ self._rows)

    def weighted_gram(self, theta: Array) -> Array:
        return np.asarray((self._rows * theta) @ self._rows.T)


class SumTerm(NamedTuple):
    """One part of G: weight ⊗ K_a over some axes, 11ᵀ over all others; K_a = I where it is None."""

    weight: float
    matrices: dict[int, Array | None]


class ReducedSums:
    """M of (1), known by its products, and S.

    Args:
        shape: how many values the axes have.
        sets: axis sets, rising, none part of another: the tables that are measured.
        terms: the parts of G, each over axes of one of the sets.
    """

    def __init__(self, shape: Sequence[int], sets: Sequence[AxisSet], terms: Sequence[SumTerm]) -> None:
        self.shape = tuple(shape)
        self.sets = tuple(sets)
        self._terms = tuple(terms)
        self._places: dict[AxisSet, Array] = {}
        first: dict[AxisSet, int] = {}
        self.n_sums = 0
        for axes in self.sets:
            place = np.empty([self.shape[a] for a in axes], dtype=np.intp)
            for part in _parts(axes):
                sizes = [self.shape[a] - 1 for a in part]
                if part not in first:
                    first[part] = self.n_sums
                    self.n_sums += math.prod(sizes)
                place[_points(axes, part)] = first[part] + np.arange(math.prod(sizes)).reshape(sizes)
            self._places[axes] = place

    def apply(self, x: Array) -> Array:
        """M x, (k,), for an array of cells."""
        result = np.empty(self.n_sums)
        for axes in self.sets:
            result[self._places[axes]] = _with_sums(_summed(x, tuple(range(x.ndim)), axes))
        return result

    def spread(self, v: Array) -> Array:
        """Mᵀv as an array of cells."""
        total = np.zeros(self.shape)
        left = v.copy()
        for axes in self.sets:
            table = left[self._places[axes]]
            # Points that other tables have too are spread once.
            left[self._places[axes].reshape(-1)] = 0.0
            for position in range(len(axes)):
                front = np.moveaxis(table, position, 0)
                front[1:] += front[:1]
            total += table.reshape([self.shape[a] if a in axes else 1 for a in range(len(self.shape))])
        return total

    def information(self) -> Array:
        """S, (k, k)."""
        S = np.zeros((self.n_sums, self.n_sums))
        for weight, matrices in self._terms:
            axes = next(c for c in self.sets if set(matrices) <= set(c))
            part, place = np.full((1, 1), weight), np.zeros(1, dtype=np.intp)
            held = tuple(a for a in axes if a in matrices)
            for a in held:
                K = matrices[a]
                own = np.eye(self.shape[a]) if K is None else K.copy()
                # ZᵀK Z for values = Z (total, values but the first): the first is what is left of the total.
                own[1:] -= own[:1]
                own[:, 1:] -= own[:, :1]
                part = np.kron(part, own)
            place = self._places[axes][_whole(axes, held)].reshape(-1)
            S[np.ix_(place, place)] += part
        return S

    def weighted_gram(self, theta: Array) -> Array:
        """(2), (k, k), for an array of weights of the cells."""
        N = np.empty((self.n_sums, self.n_sums))
        tables: dict[AxisSet, Array] = {tuple(range(theta.ndim)): theta}
        for i, c in enumerate(self.sets):
            rows = self._places[c].reshape(-1)
            for d in self.sets[i:]:
                union = tuple(sorted({*c, *d}))
                if union not in tables:
                    tables[union] = _summed(theta, tuple(range(theta.ndim)), union)
                part = self._between(c, d, union, _with_sums(tables[union]))
                columns = self._places[d].reshape(-1)
                N[np.ix_(rows, columns)] = part
                N[np.ix_(columns, rows)] = part.T
        return N

    def _between(self, c: AxisSet, d: AxisSet, union: AxisSet, table: Array) -> Array:
        """(2) for all points of one table and all of another."""
        shared = [a for a in c if a in d]
        only = [a for a in d if a not in c]
        # Axes of c in order, then those of d alone; shared ones are widened to two axes, the second last.
        table = arranged(table, union, (*c, *only))
        for a in shared:
            position = c.index(a)
            front = np.moveaxis(table, position, 0)
            wide = np.zeros((len(front), *front.shape[1:], len(front)))
            each = np.arange(len(front))
            np.moveaxis(wide, -1, 1)[each, each] = front
            np.moveaxis(wide, -1, 1)[0] = front
            wide[..., 0] = front
            table = np.moveaxis(wide, 0, position)
        rows = [("row", a) for a in c]
        have = [*rows, *(("column", a) for a in (*only, *shared))]
        table = arranged(table, have, [*rows, *(("column", a) for a in d)])
        return table.reshape(math.prod(self.shape[a] for a in c), -1)


def _parts(axes: AxisSet) -> list[AxisSet]:
    """All parts of a set of axes."""
    parts: list[AxisSet] = [()]
    for a in axes:
        parts += [(*part, a) for part in parts]
    return parts


def _points(axes: AxisSet, part: AxisSet) -> tuple[slice | int, ...]:
    """Where in a table stand the points that name values of just some axes."""
    return tuple(slice(1, None) if a in part else 0 for a in axes)


def _whole(axes: AxisSet, part: AxisSet) -> tuple[slice | int, ...]:
    """Where in a table stand the points that name no values of other axes than some."""
    return tuple(slice(None) if a in part else 0 for a in axes)


def _summed(table: Array, axes: AxisSet, kept: AxisSet) -> Array:
    left_out = tuple(i for i, a in enumerate(axes) if a not in kept)
    return np.asarray(table.sum(axis=left_out)) if left_out else table


def _with_sums(table: Array) -> Array:
    """A table with the sums over each axis in place of its first value."""
    table = table.copy()
    for position in range(table.ndim):
        front = np.moveaxis(table, position, 0)
        front[0] = front.sum(axis=0)
    return table
