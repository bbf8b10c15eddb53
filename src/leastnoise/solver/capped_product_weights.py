"""The best weights of products of rows where every query has a cap on its variance.

As in `product_weights`, rows of every axis have squares C_a, (r_a, n_a), and a product of queries has squares
S_{t,a}, (r_a, m_a): with s = 1/ω, an array over tuples of rows,

    profile u = (⊗ C_aᵀ) ω ,   variances v_t = (⊗ S_{t,a}ᵀ) s ,   total = Σ γ s                       (1)

For weights p, q ≥ 0 every tuple is a block of numbers S = γ + Σ_t (⊗ S_{t,a}) p_t and T = (⊗ C_a) q, so that
F = Σ √(S T) and ω = √(S/T): the problems are those of `capped_problems`. p = y² and q = z² leave no
constraint, and L-BFGS raises the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from leastnoise.core.backend import NUMPY, Backend
from leastnoise.core.deadline import NEVER, Deadline, Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.capped_problems import (
    Anchor,
    CappedPoint,
    CappedProblem,
    LeastProfile,
    TotalWithinCaps,
    mixture,
)
from leastnoise.solver.descent import StopDescent, minimise_smooth
from leastnoise.solver.mean import WeightedNoise
from leastnoise.solver.optimum import Optimum
from leastnoise.solver.path_following import BestSides
from leastnoise.solver.product_weights import towards_cells, towards_rows

# Of equal shares, what a weight starts with at least: p = y² and q = z² do not leave zero.
_LEAST_SHARE = 1e-2

# Beside the mean of S, what is added to every S: rows needed for next to nothing are measured all the same.
_LEAST_NEED = 1e-13

# Added where something could be zero.
_TINY = 1e-300

# A step that gains a smaller share of the value is rounding.
_STEP_TOL = 1e-15

# Steps, at most.
_MAX_STEPS = 2_000


class CappedQueries(NamedTuple):
    """A product of queries: its squares along every axis, (r_a, m_a), and the cap of each query."""

    squares: Sequence[Any]
    cap: float

    def variances(self, inverse: Any) -> Any:
        """v, an array over the queries."""
        return towards_cells(self.squares, inverse)

    def priced(self, p: Any) -> Any:
        """(⊗ S_a) p, an array over the rows."""
        return towards_rows(self.squares, p)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many rows the product has along every axis."""
        return tuple(int(own.shape[1]) for own in self.squares)


@dataclass(frozen=True, eq=False)
class ProductNoise(WeightedNoise):
    """What weights give; s = 1/ω is on the device."""

    inverse: Any


class CappedProducts:
    """The map of (1), over the weights of all queries of all products, one after the other.

    Args:
        cells: C_a of every axis, on the device.
        gamma: γ, on the device; None where no total counts.
        needed: 1 where a product of rows may be measured, else 0, on the device.
    """

    def __init__(
        self,
        cells: Sequence[Any],
        queries: Sequence[CappedQueries],
        gamma: Any | None,
        needed: Any,
        backend: Backend = NUMPY,
    ) -> None:
        self._cells, self._queries, self._gamma, self._needed = cells, queries, gamma, needed
        self._backend = backend
        self.shape = tuple(int(own.shape[1]) for own in cells)
        sizes = [math.prod(own.shape) for own in queries]
        self._ends = np.cumsum(sizes).tolist()[:-1]
        self.caps = np.repeat([own.cap for own in queries], sizes)

    @property
    def n(self) -> int:
        """How many cells there are."""
        return math.prod(self.shape)

    def by_product(self, p: Array) -> list[Array]:
        """Weights of queries as one array for every product."""
        parts = np.split(p, self._ends)
        return [part.reshape(own.shape) for part, own in zip(parts, self._queries, strict=True)]

    def evaluate(self, p: Array, q: Array) -> ProductNoise:
        """The noise of weights."""
        backend = self._backend
        S: Any = 0.0 if self._gamma is None else self._gamma
        for own, weights in zip(self._queries, self.by_product(p), strict=True):
            S = S + own.priced(backend.matrix(weights))
        S = (S + _LEAST_NEED * float(S.sum()) / math.prod(S.shape)) * self._needed
        T = towards_rows(self._cells, backend.matrix(q).reshape(self.shape)) + _TINY
        both = (S * T) ** 0.5
        inverse = both / (S + _TINY)
        u = backend.numpy(towards_cells(self._cells, both / T)).reshape(-1)
        v, total = self._variances(inverse), self._total(inverse)
        return ProductNoise(p, q, float(both.sum()), v, u, total, True, inverse)

    def anchor(self, omega: Array) -> Anchor:
        """Weights at profile 1 that keep all caps."""
        inverse = self._backend.matrix(np.divide(1.0, omega, out=np.zeros(omega.shape), where=omega > 0))
        root = self._backend.numpy(inverse**0.5)
        return Anchor([root], self._variances(inverse), np.ones(self.n), self._total(inverse))

    def _variances(self, inverse: Any) -> Array:
        return np.concatenate(
            [self._backend.numpy(own.variances(inverse)).reshape(-1) for own in self._queries]
        )

    def _total(self, inverse: Any) -> float:
        return 0.0 if self._gamma is None else float((self._gamma * inverse).sum())

    def start(self, p: Array, q: Array) -> Array:
        """Roots of weights, each at least a small share of what equal ones of its product have."""
        parts = [*self.by_product(p), q]
        floors = [_LEAST_SHARE * float(part.sum()) / part.size for part in parts]
        return np.concatenate(
            [np.sqrt(np.maximum(part, floor)).reshape(-1) for part, floor in zip(parts, floors, strict=True)]
        )

    def omega(self, point: ProductNoise, keeping: Anchor | None, share: float | None = None) -> Array:
        """ω of a point at profile 1, mixed with what keeps all caps; 0 where nothing is measured.

        Args:
            share: of what keeps all caps; as much as is needed unless given.
        """
        inverse = self._backend.numpy(point.inverse) * float(point.u.max())
        if keeping is not None:
            share = mixture(self.caps, keeping, point.v, point.u)[1] if share is None else share
            inverse = (1 - share) * inverse + share * keeping.roots[0] ** 2
        return np.divide(1.0, inverse, out=np.zeros(inverse.shape), where=inverse > 0)


def weights_within_caps(
    rows: CappedProducts,
    keeping: Anchor | None,
    p: Array,
    q: Array,
    *,
    tol: float,
    deadline: Deadline = NEVER,
) -> Optimum:
    """√ω of the best weights at profile 1, and their proof.

    Args:
        keeping: what keeps all caps, for the least total within them; None for the least largest v/c.
        p, q: dual weights to start from, positive somewhere.
    """
    problem: CappedProblem = LeastProfile(rows.caps, np.zeros(rows.n))
    if keeping is not None:
        problem = TotalWithinCaps(rows.caps, keeping)
    best: BestSides[CappedPoint[ProductNoise]] | None = None
    m = len(p)

    def value(roots: Array) -> tuple[float, Array]:
        nonlocal best
        point = problem.at(rows.evaluate(roots[:m] ** 2, roots[m:] ** 2))
        if best is None:
            best = BestSides(point)
            best.achieved = math.inf if keeping is None else keeping.total
        best.compare(point)
        if best.gap <= tol:
            raise StopDescent
        merit, slopes = problem.merit(point.mean)
        return merit, 2 * roots * slopes

    watch = Watch(deadline)
    found = minimise_smooth(
        value, rows.start(p, q), tol=_STEP_TOL, max_steps=_MAX_STEPS, n_pairs=20, deadline=deadline
    )
    assert best is not None
    is_kept = keeping is not None and best.achieved >= keeping.total
    omega = rows.omega(best.best.mean, keeping, 1.0 if is_kept else None)
    proof = best.proof.mean
    ended: Ended = "converged" if best.gap <= tol else found.ended
    return Optimum(
        roots=[np.sqrt(omega)],
        q=proof.q / float(proof.q.sum()),
        achieved=best.achieved,
        lower_bound=best.lower_bound,
        has_converged=best.gap <= tol,
        steps=found.steps,
        seconds=watch.seconds,
        ended=ended,
        how="quasi-Newton method",
        p=proof.p,
    )
