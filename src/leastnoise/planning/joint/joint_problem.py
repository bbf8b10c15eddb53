"""Total variance and profile of X = Tᵀ diag(ω) T, T = ⊗_a T_a, axis by axis, with their derivatives.

On an axis of n values of which queries of rank r are asked, T_a = C_a B_a with C_a (r, r) invertible and B_a
(r, n) a basis. A kind of rows W = L B has the Gram matrix V = LᵀL on that basis. With R_a = C_a⁻¹,

    total variance = Σ_i γ_i/ω_i ,   γ = Σ_j w_j ⊗_a x_{j,a} ,   x_{j,a} = diag(R_aᵀ V_{j,a} R_a)       (1)
    profile u = (⊗_a (T_a ∘ T_a)ᵀ) ω                                                                   (2)

Where products add up an axis that others mention, its first row may be held at 1ᵀ. Then x of the total is
(1, 0, …, 0) exactly, γ is zero wherever no product crosses the axes that are off their first row, and so is
ω. Values whose columns in B_a are equal are one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.decompositions import pseudo_inverse
from leastnoise.core.merged_cells import distinct_cells
from leastnoise.core.operators import Array, Operator
from leastnoise.planning.families.proposals import on_basis
from leastnoise.planning.oblique.axis_split import asked_basis
from leastnoise.query import AxisRows, Products
from leastnoise.solver import Backend, RowBlocks


@dataclass(frozen=True, eq=False)
class JointAxis:
    """What is asked of one axis.

    Attributes:
        basis: integer rows that span it, (r, size); None for all values.
        columns: the same with rows of length 1 and one column for every kind of value, (r, n).
        lengths: what the rows of the basis were divided by, (r,).
        kind_of_value: for every value its column.
        grams: V of every kind on `columns`, (r, r) each; the total last, where it is asked.
        has_total: whether some product adds the axis up.
        total: the coefficients of 1ᵀ on `columns`, (r,), where it is asked.
        operators: the rows of every kind but the total, over all values.
    """

    basis: Array | None
    columns: Array
    lengths: Array
    kind_of_value: Array
    grams: tuple[Array, ...]
    has_total: bool
    total: Array | None
    operators: tuple[Operator, ...] = ()

    def rows(self, kind: int) -> Array:
        """L of a kind, (m, r): its rows on the basis."""
        if kind == len(self.operators):
            assert self.total is not None
            return self.total[None, :]
        rows = self.operators[kind].dense()
        return rows if self.basis is None else on_basis(rows, self.basis) * self.lengths

    @property
    def rank(self) -> int:
        """How many rows span what is asked."""
        return len(self.columns)

    def is_like(self, other: JointAxis) -> bool:
        """Whether the same is asked of two axes, kind by kind."""
        return (
            self.has_total == other.has_total
            and len(self.grams) == len(other.grams)
            and np.array_equal(self.kind_of_value, other.kind_of_value)
            and np.array_equal(self.columns, other.columns)
            and all(np.array_equal(one, two) for one, two in zip(self.grams, other.grams, strict=True))
        )


def joint_axes(products: Products) -> tuple[tuple[JointAxis, ...], Array]:
    """What is asked of every axis, and for every product the kind of each, (products, axes)."""
    asked = joint_asked(products)
    axes = []
    for place, size in enumerate(products.sizes):
        kinds = products.kinds[place]
        # In an order of their own, so that axes of which the same is asked are seen to be alike.
        order = sorted(range(len(kinds)), key=lambda kind: kinds[kind].gram.tobytes())
        has_total = bool((asked[:, place] == len(kinds)).any())
        axes.append(_axis([kinds[kind] for kind in order], size, has_total))
        asked[:, place] = np.argsort([*order, len(kinds)])[asked[:, place]]
    return tuple(axes), asked


def joint_asked(products: Products) -> Array:
    """For every product the kind that it asks of each axis, (products, axes).

    The number of kinds of an axis stands for the sum of all its values.
    """
    asked = np.array([[len(kinds) for kinds in products.kinds]] * len(products.terms))
    for number, term in enumerate(products.terms):
        asked[number, list(term.places)] = term.kinds
    return asked


def _axis(kinds: Sequence[AxisRows], size: int, has_total: bool) -> JointAxis:
    if not kinds:
        ones = np.ones((1, 1))
        everyone = np.ones((1, size), dtype=np.int64)
        return JointAxis(everyone, ones, np.ones(1), np.zeros(size, dtype=np.intp), (ones,), True, np.ones(1))
    operators = tuple(kind.operator for kind in kinds)
    basis = asked_basis(operators, with_total=has_total)
    if basis is None:
        total = np.ones(size) if has_total else None
        grams = [np.asarray(kind.gram, dtype=float) for kind in kinds]
        whole = np.eye(size)
        if total is not None:
            grams.append(np.outer(total, total))
        return JointAxis(
            None, whole, np.ones(size), np.arange(size), tuple(grams), has_total, total, operators
        )
    rows = basis.astype(float)
    lengths = np.sqrt((rows**2).sum(axis=1))
    cells = distinct_cells(rows / lengths[:, None], np.ones(size, dtype=bool))
    inverse = pseudo_inverse(rows / lengths[:, None])
    grams = [_on_both_sides(np.asarray(kind.gram, dtype=float), inverse) for kind in kinds]
    total = None
    if has_total:
        total = on_basis(np.ones((1, size)), basis)[0] * lengths
        grams.append(np.outer(total, total))
    columns = (rows / lengths[:, None])[:, cells.first]
    return JointAxis(
        basis, columns, lengths, np.asarray(cells.kind), tuple(grams), has_total, total, operators
    )


def _on_both_sides(V: Array, inverse: Array) -> Array:
    found = inverse.T @ V @ inverse
    return np.asarray((found + found.T) / 2)


@dataclass(frozen=True, eq=False)
class AxisState:
    """One axis at some C: T ∘ T, R = C⁻¹, x of every kind, (kinds, r), and V R of every kind."""

    rows: Any
    squares: Any
    inverse: Any
    x: Any
    products: list[Any | None]


class JointProblem:
    """(1) and (2) for the total variance of weighted products.

    Attributes:
        axes: what is asked of every axis.
        asked: for every product the kind that it asks of each axis, (products, axes).
        pinned: for every axis, whether its first row is held at 1ᵀ.
        blocks: the rows that have weights, by the axes on which they are not the first.
        groups: for every axis, the first that is asked alike and changes places with it: they share C.
    """

    def __init__(self, products: Products, weights: Array, *, pins: bool, backend: Backend) -> None:
        self.backend = backend
        self.axes, self.asked = joint_axes(products)
        self.pinned = tuple(pins and axis.has_total for axis in self.axes)
        self.products = products
        merged: dict[tuple[int, ...], float] = {}
        for row, weight in zip(self.asked.tolist(), weights.tolist(), strict=True):
            if weight > 0:
                merged[tuple(row)] = merged.get(tuple(row), 0.0) + weight
        self.terms = merged
        self.groups = _alike(self.axes, merged)
        self._asked = [list(own) for own in zip(*merged, strict=True)]
        self._weights = backend.matrix(np.array(list(merged.values())))
        self._columns = [None if axis.basis is None else backend.matrix(axis.columns) for axis in self.axes]
        self._grams = [[_or_identity(V, backend) for V in axis.grams] for axis in self.axes]
        self.blocks = RowBlocks(self.shape, [self._crossed(asked) for asked in merged], backend)
        # 1 where γ is positive, whatever the free rows are.
        self.needed = backend.matrix(self.blocks.counted)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many rows every axis has."""
        return tuple(axis.rank for axis in self.axes)

    @property
    def cells(self) -> tuple[int, ...]:
        """How many different columns every axis has."""
        return tuple(axis.columns.shape[1] for axis in self.axes)

    def _crossed(self, asked: Sequence[int]) -> list[int]:
        """The axes on which a product needs more than the first row."""
        return [
            a
            for a, (axis, kind) in enumerate(zip(self.axes, asked, strict=True))
            if not (self.pinned[a] and kind == len(axis.grams) - 1)
        ]

    def states(self, bases: Sequence[Any]) -> list[AxisState]:
        """Every axis at its C; those of one group are worked out once."""
        found: list[AxisState] = []
        for a, C in enumerate(bases):
            first = self.groups[a]
            found.append(found[first] if first < a else self._state(a, C))
        return found

    def _state(self, a: int, C: Any) -> AxisState:
        backend = self.backend
        columns = self._columns[a]
        rows = C if columns is None else C @ columns
        R = backend.solve(C, backend.matrix(np.eye(self.axes[a].rank)))
        last = len(self._grams[a]) - 1
        x: list[Any] = []
        held: list[Any | None] = []
        for kind, V in enumerate(self._grams[a]):
            if self.pinned[a] and kind == last:
                unit = np.zeros(self.axes[a].rank)
                unit[0] = 1.0
                x.append(backend.matrix(unit))
                held.append(None)
                continue
            VR = R if V is None else V @ R
            own = (VR * R).sum(0)
            # A form that is never negative, but for rounding.
            x.append(own * (own > 0))
            held.append(VR)
        return AxisState(rows, rows * rows, R, x, held)

    def gamma(self, states: Sequence[AxisState]) -> Any:
        """γ of (1), an array over the rows of all axes."""
        first = self._factors(states, 0) * self._weights[:, None]
        return (first.T @ self._rest(states)[0]).reshape(self.shape)

    def _factors(self, states: Sequence[AxisState], a: int) -> Any:
        """x of one axis for every product, (products, r)."""
        return self.backend.stack([states[a].x[kind] for kind in self._asked[a]])

    def _rest(self, states: Sequence[AxisState]) -> list[Any]:
        """For every axis the Kronecker products of x over the axes after it, (products, rest)."""
        n_terms = len(self.terms)
        rest = [self.backend.matrix(np.ones((n_terms, 1)))]
        for a in reversed(range(1, len(self.axes))):
            own = self._factors(states, a)
            rest.append((own[:, :, None] * rest[-1][:, None, :]).reshape(n_terms, -1))
        return rest[::-1]

    def profile(self, states: Sequence[AxisState], omega: Any, kept: list[Any] | None = None) -> Any:
        """u of (2), an array over the different columns of all axes."""
        return self.blocks.towards_cells([state.squares for state in states], omega, kept)

    def slopes(
        self, states: Sequence[AxisState], inverse: Any, kept: list[Any], q: Any
    ) -> tuple[list[Any], Any]:
        """The gradient of Σ γ_i s_i + Σ_c q_c u_c in every C for fixed s, q and ω; and (⊗ T∘T) q.

        Args:
            inverse: s, an array over the rows.
            kept: what `profile` kept for ω.
        """
        of_q: list[Any] = []
        priced = self.blocks.towards_rows([state.squares for state in states], q, of_q)
        of_x = self._slopes_of_x(states, inverse)
        found: list[Any] = []
        for a, state in enumerate(states):
            M = self.blocks.products_of(a, kept, of_q)
            slope = 0.0 * state.rows if M is None else 2 * state.rows * M
            columns = self._columns[a]
            if columns is not None:
                slope = slope @ columns.T
            of_R = None
            for VR, own in zip(state.products, of_x[a], strict=True):
                if VR is not None and own is not None:
                    part = 2 * VR * own
                    of_R = part if of_R is None else of_R + part
            if of_R is not None:
                slope = slope - state.inverse.T @ of_R @ state.inverse.T
            found.append(slope)
        return found, priced

    def _slopes_of_x(self, states: Sequence[AxisState], inverse: Any) -> list[list[Any]]:
        """The derivatives of Σ γ_i s_i in x, for every axis and kind, (r,) each; None for kinds not asked."""
        rest = self._rest(states)
        n_terms = len(self.terms)
        found = []
        # s summed over the axes before, with x of every product: (products, r, rest).
        ahead = None
        for a, axis in enumerate(self.axes):
            if ahead is None:
                g = (inverse.reshape(axis.rank, -1) @ rest[0].T).T * self._weights[:, None]
            else:
                g = (ahead.reshape(n_terms, axis.rank, -1) @ rest[a][:, :, None])[:, :, 0]
            per_kind: list[Any] = [None] * len(axis.grams)
            for t, kind in enumerate(self._asked[a]):
                per_kind[kind] = g[t] if per_kind[kind] is None else per_kind[kind] + g[t]
            found.append(per_kind)
            if a + 1 < len(self.axes):
                own = self._factors(states, a)
                if ahead is None:
                    ahead = (own * self._weights[:, None]) @ inverse.reshape(axis.rank, -1)
                else:
                    ahead = (own[:, None, :] @ ahead.reshape(n_terms, axis.rank, -1))[:, 0, :]
        return found


def _or_identity(V: Array, backend: Backend) -> Any | None:
    """The Gram matrix on the device; None for the identity, which needs no product."""
    return None if np.array_equal(V, np.eye(len(V))) else backend.matrix(V)


def _alike(axes: Sequence[JointAxis], terms: dict[tuple[int, ...], float]) -> tuple[int, ...]:
    """For every axis the first that may change places with it and leaves the products as they are."""
    groups = list(range(len(axes)))
    for b in range(len(axes)):
        for a in range(b):
            if groups[a] == a and axes[a].is_like(axes[b]) and _may_swap(terms, a, b):
                groups[b] = a
                break
    return tuple(groups)


def _may_swap(terms: dict[tuple[int, ...], float], a: int, b: int) -> bool:
    def swapped(asked: tuple[int, ...]) -> tuple[int, ...]:
        changed = list(asked)
        changed[a], changed[b] = changed[b], changed[a]
        return tuple(changed)

    return all(
        math.isclose(terms.get(swapped(asked), 0.0), weight, rel_tol=1e-12) for asked, weight in terms.items()
    )
