"""Unions of products with all that is not asked value by value as one axis, Z.

See `optimum`, which has a matrix over Z for every set of the other attributes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core.operators import AllOnes, Array
from leastnoise.planning.families.marginals import row_variances
from leastnoise.planning.families.product_requests import common_axes, uniform
from leastnoise.planning.method import Request
from leastnoise.planning.oblique.axis_split import Placed, asked_basis
from leastnoise.planning.oblique.tied_axes import tied
from leastnoise.query import AxisRows, AxisSet, Lattice, Products

# Numbers of all matrices over the shared axis together, at most: a gigabyte with what is made from them.
# Three sets over 45 by 45 values have 12 million and take 40 s on one core.
MOST_NUMBERS = 2**24

# Combinations of values of the shared axis, at most.
MAX_KINDS = 4_096


@dataclass(frozen=True, eq=False)
class SharedProducts:
    """The products of a request with Z as one axis.

    Attributes:
        axis: the place of Z.
        common: axes that all products ask alike, which are factored out.
        grouped: axes beside Z of which groups of one size are asked too.
        placed: their residual rows, by block and axis; as if only values were asked where there are none.
    """

    products: Products
    axis: int
    common: tuple[int, ...]
    grouped: AxisSet = ()
    placed: Mapping[tuple[AxisSet, int], Placed] = field(default_factory=dict)

    @cached_property
    def lattice(self) -> tuple[Lattice, Array]:
        """The sets s and a_js, (products, sets)."""
        lattice, A = row_variances(self.products, (self.axis, *self.common))
        found = A.toarray()
        if not self.grouped:
            return lattice, found
        # The mean variance of the rows of a kind takes the place of that of a value.
        for j, number in np.argwhere(found).tolist():
            term, s = self.products.terms[j], lattice.subsets[number]
            for a, kind in zip(term.places, term.kinds, strict=True):
                if a in self.grouped:
                    size, asked = self.products.sizes[a], self.products.kinds[a][kind]
                    own = self.rho(s, a, kind) / (1 - 1 / size) ** 2 if a in s else float(asked.gram.sum())
                    found[j, number] *= own / asked.n_rows
        return lattice, found

    def rho(self, s: AxisSet, a: int, kind: int) -> float:
        """What a kind of rows of an axis in groups costs in a block."""
        if (s, a) in self.placed:
            return float(self.placed[s, a].rho[self.kinds_in[s, a].index(kind)])
        return float(self.products.kinds[a][kind].n_rows * (1 - 1 / self.products.sizes[a]) ** 2)

    @cached_property
    def kinds_in(self) -> dict[tuple[AxisSet, int], tuple[int, ...]]:
        """By block and axis in groups, the kinds of rows that products ask of the axis there."""
        lattice, A = row_variances(self.products, (self.axis, *self.common))
        found: dict[tuple[AxisSet, int], set[int]] = {}
        for j, number in zip(*(own.tolist() for own in A.nonzero()), strict=True):
            term = self.products.terms[j]
            for a, kind in zip(term.places, term.kinds, strict=True):
                if a in self.grouped and a in lattice.subsets[number]:
                    found.setdefault((lattice.subsets[number], a), set()).add(kind)
        return {key: tuple(sorted(kinds)) for key, kinds in found.items()}

    def kind(self, j: int) -> AxisRows:
        """What a product asks of Z: its rows, or their sum."""
        return self.kind_along(j, self.axis)

    def is_plain(self, axis: int) -> bool:
        """Whether an axis that all products ask alike is asked value by value."""
        return self.kind_along(0, axis).is_identity

    def kind_along(self, j: int, axis: int) -> AxisRows:
        """What a product asks of an axis."""
        term = self.products.terms[j]
        asked = dict(zip(term.places, term.kinds, strict=True)).get(axis)
        return (
            AxisRows(AllOnes(self.products.sizes[axis]))
            if asked is None
            else self.products.kinds[axis][asked]
        )

    def asked(self, weights: Array) -> tuple[list[AxisRows], Array]:
        """What products ask of Z, and how much each of it counts in every block, (kinds, sets).

        Args:
            weights: of the queries of every product.
        """
        _, A = self.lattice
        numbers: dict[int, int] = {}
        kinds: list[AxisRows] = []
        counts: list[Array] = []
        for j, weight in enumerate(weights.tolist()):
            kind, term = self.kind(j), self.products.terms[j]
            number = numbers.setdefault(id(kind) if self.axis in term.places else -1, len(kinds))
            if number == len(kinds):
                kinds.append(kind)
                counts.append(np.zeros(A.shape[1]))
            counts[number] += weight * term.n_rows / kind.n_rows * A[j]
        return kinds, np.array(counts)

    def grams(self, weights: Array) -> list[Array]:
        """H_s of every block for weights of the queries of every product."""
        kinds, counts = self.asked(weights)
        return [
            np.asarray(sum(c * kind.gram for c, kind in zip(own, kinds, strict=True)), dtype=float)
            for own in counts.T.tolist()
        ]

    def ranks(self, kinds: Sequence[AxisRows], counts: Array) -> Array:
        """How many rows the matrix of every block has, at most."""
        rows = np.array([float(kind.n_rows) for kind in kinds])
        return np.minimum(rows @ (counts > 0), float(self.products.sizes[self.axis]))

    @cached_property
    def used(self) -> Array:
        """The combinations of values of Z that some product counts."""
        kinds = [self.kind(j) for j in range(len(self.products.terms))]
        return np.flatnonzero(np.any([kind.operator.column_norms(1) > 0 for kind in kinds], axis=0))

    def witness(self, q: Array, asked: Products) -> ProductWitness:
        """Dual weights that are those of Z, and equal along the other axes.

        Args:
            asked: the products before axes were put together.
        """
        every = list(uniform(self.products))
        if self.products.kinds[self.axis]:
            every[self.axis] = q
        return ProductWitness(tuple(every), axes=None if self.products is asked else self.products.axes)

    def members(self, number: int) -> list[int]:
        """The products that a block is part of."""
        return [int(j) for j in np.flatnonzero(self.lattice[1][:, number])]

    def basis(self, number: int) -> Array:
        """Rows that span what products ask of Z in a block."""
        kinds = {id(kind): kind for kind in map(self.kind, self.members(number))}
        found = asked_basis([kind.operator for kind in kinds.values()], with_total=False)
        return np.eye(self.products.sizes[self.axis], dtype=np.int64) if found is None else found


def root_of(H: Array) -> Array:
    """R of full rank with RᵀR = H."""
    from scipy import linalg

    squares, vectors = linalg.eigh(H, check_finite=False, driver="evd")
    kept = squares > _WEAK * max(float(squares[-1]), 0.0)
    return np.asarray((vectors[:, kept] * np.sqrt(squares[kept])).T)


def root_of_rows(kinds: Sequence[AxisRows], counts: Sequence[float]) -> Array:
    """R of full rank with RᵀR = Σ counts · WᵀW: of the rows themselves where they are few."""
    counted = [(c, kind) for c, kind in zip(counts, kinds, strict=True) if c > 0]
    n = kinds[0].operator.shape[1]
    if 2 * sum(kind.n_rows for _, kind in counted) > n:
        return root_of(np.asarray(sum(c * kind.gram for c, kind in counted), dtype=float))
    rows = np.vstack([math.sqrt(c) * kind.operator.dense() for c, kind in counted])
    _, values, turn = np.linalg.svd(rows, full_matrices=False)
    kept = values**2 > _WEAK * values[0] ** 2
    return np.asarray(values[kept, None] * turn[kept])


# Directions of a block below this share of the strongest are rounding.
_WEAK = 1e-13


def free_axes(products: Products, over: str | None) -> tuple[int, ...] | None:
    """The axes that are not asked value by value, or the one that is time; None where time is not all."""
    free = tuple(a for a, kinds in enumerate(products.kinds) if not all(kind.is_identity for kind in kinds))
    if over is None:
        return free
    time = next((a for a, axis in enumerate(products.axes) if axis.names == (over,)), None)
    return (time,) if time is not None and set(free) <= {time} else None


def shared_products(request: Request, products: Products) -> SharedProducts | None:
    """The products with Z as one axis; None where there is no such axis, or it is too large."""
    free = free_axes(products, request.over)
    # What all products ask alike is a problem of its own, but for time, whose rows are put in order.
    if free and request.over is None and request.objective.kind == "total":
        alike = set(common_axes(products))
        free = tuple(a for a in free if a not in alike) or free[:1]
    return with_shared(products, free) if free else None


def with_shared(products: Products, free: AxisSet) -> SharedProducts | None:
    """The products with some axes as one; None where it is too large, or a product counts no cell."""
    if any(map(products.is_zero, products.terms)):
        return None
    size, alike = math.prod(products.sizes[a] for a in free), common_axes(products)
    if (
        size > MAX_KINDS
        or sum(2 ** len(set(s) - {*free, *alike}) for s in products.sets) * size > MOST_NUMBERS
    ):
        return None
    for a in reversed(free[1:]):
        products = tied(products, free[0], a)
    common = tuple(a for a in common_axes(products) if a != free[0])
    return SharedProducts(products, free[0], common)
