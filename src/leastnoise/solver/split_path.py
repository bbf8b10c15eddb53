"""The dual weights of caps on a split, as problems for `path_following`.

With y_s = 1/x_s and ratios B y = (v_j/c_j), both problems with caps ask for weights p ≥ 0 that minimise a
convex g whose gradient is the slack of the caps, 1 − B y(p), where y(p) is the best split for these weights:

    least cost           g = Σp − (1 + 1/k) Σ_s α_s y_s,    α = Bᵀp,        y = (k γ/α)^{1/(k+1)}
    total within caps    g = Σp − (Σ_s √α_s)²,              α = a + Bᵀp,    y = Σ√α/√α,      a = Aᵀw

The first minimises Σ γ_s/y_s^k with B y ≤ 1. With γ = k = 1 that is the least budget for ratios of 1, and so
the least largest ratio for a budget of 1; else y is what rows are measured with, and B what they load cells
with. The method follows p z = ν as ν falls, z the slacks. In the scale of √p its Newton matrix is

    diag(z) + K Kᵀ  (less a rank-one term for the second),   K = diag(√p) B diag(√h),   h = y/((k + 1) α)

For the first problem (k + 1) K Kᵀ√p = √p ∘ B y, so the eigenvalues of K Kᵀ are at most the largest ratio:
conjugate gradients with the diagonal need at most 20 products a solve on every set of marginals tried, of any
size. Rows that are nearly combinations of one another need hundreds; then the matrix is factored, on its
smaller side. Keeping y as an unknown of its own, as is usual, took three times as many steps or did not
arrive.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.solver.conjugate_gradients import conjugate_gradients

# Conjugate gradients stop once the residual fell to this share, for a step that is only to show the way.
_ROUGH = 1e-2

# The same for the step itself. With 1e-3, one in 200 random problems stalled whose caps can be kept by a
# millionth only, or whose rows are equal up to 1e-7; with 1e-5 none of 5,000.
_FINE = 1e-6

# Products of conjugate gradients per solution, at most.
_MAX_PRODUCTS = 300

# Products without success after which the matrix is factored, if it can be.
_MANY_PRODUCTS = 80

# The matrix is factored if its smaller side is at most this.
MAX_FACTORED = 4_000

# Entries of a block of rows that is written out.
_BLOCK = 4_000_000

# The density from which writing a block out is faster than a sparse product.
_DENSE = 0.05

# Powers of e below and above the total between which the weights of its caps begin: a start that none of
# the caps needs would else be at 0, where the path begins with dozens of short steps.
_FEWEST = 5
_MOST = 30

# Steps without a smaller gap after which rounding is all there is.
PATIENCE = 15


class CapRatios:
    """B = diag(1/c) A, by what it does; A is shared, not copied.

    Args:
        A: SciPy csr array, (rows, blocks), non-negative.
        caps: c, (rows,), positive and finite.
    """

    def __init__(self, A: Any, caps: Array) -> None:
        from scipy import sparse

        self.A, self.caps = A, caps
        self._squares = sparse.csr_array((A.data**2, A.indices, A.indptr), shape=A.shape)

    def of_rows(self, rows: Array) -> CapRatios:
        """Some rows only."""
        return CapRatios(self.A[rows], self.caps[rows])

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, blocks)."""
        return (int(self.A.shape[0]), int(self.A.shape[1]))

    def rounding(self, root: Array) -> float:
        """What rounding may add to Σ_s root_s, root = √(a + Bᵀp), or to its square, as a share of it.

        Errors of a sum of positive numbers grow like the root of how many there are: here the entries of a
        block, and the few roundings of everything else.
        """
        return float(np.finfo(float).eps) * (8 + float(root @ self._root_counts) / float(root.sum()))

    def apply(self, y: Array) -> Array:
        """v_j / c_j for y = 1/x."""
        return np.asarray((self.A @ y) / self.caps)

    def adjoint(self, p: Array) -> Array:
        """Bᵀp."""
        return np.asarray(self.A.T @ (p / self.caps))

    def diagonal(self, h: Array) -> Array:
        """The diagonal of B diag(h) Bᵀ."""
        return np.asarray((self._squares @ h) / self.caps / self.caps)

    @cached_property
    def _counts(self) -> Array:
        """How many rows hold each block."""
        return np.bincount(self.A.indices, minlength=self.shape[1])

    @cached_property
    def _root_counts(self) -> Array:
        return np.sqrt(self._counts)

    @cached_property
    def _shared(self) -> Array:
        """The blocks that more than one row holds."""
        return np.flatnonzero(self._counts > 1)

    @property
    def is_factorable(self) -> bool:
        """Whether one side of the Newton matrix is small enough to be factored, and not diagonal anyway."""
        return 0 < min(self.shape[0], len(self._shared)) <= MAX_FACTORED

    def preconditioner(self, s: Array, h: Array, z: Array) -> Callable[[Array], Array]:
        """r → (diag(z) + diag(s) B diag(h) Bᵀ diag(s))⁻¹ r, up to rounding.

        A block of one row alone adds to the diagonal; the others are either few, or more than the rows.
        """
        from scipy import linalg

        shared = self._shared
        others = h.copy()
        others[shared] = 0
        e = z + s * s * self.diagonal(others)
        is_by_rows = self.shape[0] <= len(shared)
        # G = diag(s/√e) B diag(√h): then I + G Gᵀ, or by Woodbury's formula I − G (I + GᵀG)⁻¹ Gᵀ.
        root = 1 / np.sqrt(e)
        G = self.A[:, shared]
        G.data = G.data * np.repeat(s * root / self.caps, np.diff(G.indptr)) * np.sqrt(h[shared])[G.indices]
        gram = _gram(G.T.tocsr() if is_by_rows else G)
        gram[np.diag_indices_from(gram)] += 1
        factor = linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
        if is_by_rows:
            return lambda r: np.asarray(root * linalg.cho_solve(factor, root * r, check_finite=False))

        def by_blocks(r: Array) -> Array:
            t = root * r
            return np.asarray(root * (t - G @ linalg.cho_solve(factor, G.T @ t, check_finite=False)))

        return by_blocks


def _gram(G: Any) -> Array:
    """GᵀG of a sparse matrix, as an array."""
    rows, columns = G.shape
    if G.nnz < _DENSE * rows * columns:
        return np.asarray((G.T @ G).toarray())
    gram = np.zeros((columns, columns))
    height = max(_BLOCK // columns, 1)
    for first in range(0, rows, height):
        block = G[first : first + height].toarray()
        gram += block.T @ block
    return gram


@dataclass(frozen=True, eq=False)
class SplitPoint:
    """What weights p give, as `path_following` asks for it."""

    z: Array  # the weights p
    ratios: Array  # B y(p)
    h: Array  # the curvature of g is B diag(h) Bᵀ − tilt tiltᵀ
    tilt: Array | None
    scale: float  # what Σ p z is to be small beside
    x: Array  # a split that keeps what must be kept
    achieved: float
    lower_bound: float
    is_sound: bool = True

    @property
    def slack(self) -> Array:
        """1 − B y(p), of every cap."""
        return 1 - self.ratios


class SplitProblem(ABC):
    """One of the problems with caps."""

    def __init__(self, ratios: CapRatios) -> None:
        self.ratios = ratios
        # Whether the diagonal has failed as a preconditioner, and factors are used from then on.
        self._is_hard = False

    def newton_system(self, point: SplitPoint, y: Array) -> SplitSystem:
        """The system of a step from a point with slacks y."""
        s = np.sqrt(point.z)

        def factored() -> Callable[[Array], Array]:
            self._is_hard = True
            return self.ratios.preconditioner(s, point.h, y)

        if self._is_hard:
            return SplitSystem(self.ratios, point, y, factored(), None)
        diagonal = y + s**2 * self.ratios.diagonal(point.h)
        recover = factored if self.ratios.is_factorable else None
        return SplitSystem(self.ratios, point, y, lambda r: np.asarray(r / diagonal), recover)

    @abstractmethod
    def of_rows(self, rows: Array) -> SplitProblem:
        """The problem with the caps of some rows only."""

    @abstractmethod
    def kept(self, y: Array, ratios: Array) -> tuple[Array, float]:
        """A split that keeps what must be kept, made of y = 1/x with these ratios, and what it achieves."""

    @abstractmethod
    def evaluate(self, p: Array) -> SplitPoint:
        """The split for weights p > 0, and both bounds."""

    @abstractmethod
    def scaled(self, p: Array) -> Array:
        """p times a number for which g is about least."""


class LeastCost(SplitProblem):
    """Minimise Σ γ_s/y_s^k with all ratios B y at most 1; as it is given, the largest ratio on a budget.

    Args:
        costs: γ, (blocks,), positive; 1 unless given.
        power: k, 1 or 2.
    """

    def __init__(self, ratios: CapRatios, costs: Array | float = 1.0, power: int = 1) -> None:
        super().__init__(ratios)
        self.costs, self.power = costs, power

    def of_rows(self, rows: Array) -> LeastCost:
        """The problem with the caps of some rows only."""
        return LeastCost(self.ratios.of_rows(rows), self.costs, self.power)

    def kept(self, y: Array, ratios: Array) -> tuple[Array, float]:
        """1/y on the budget, and Σ γ/y^k once y is divided by max B y."""
        x = 1 / y
        cost = float((self.costs * x**self.power).sum())
        return x / float(x.sum()), cost * float(ratios.max()) ** self.power

    def evaluate(self, p: Array) -> SplitPoint:
        """The best y; the bound is (Σ γ^{1/(k+1)} α^{k/(k+1)})^{k+1}/(Σp)^k, by Hölder's inequality."""
        k = self.power
        alpha = self.ratios.adjoint(p)
        priced = self._priced(alpha)
        y = priced / alpha
        ratios = self.ratios.apply(y)
        F, total = float(priced.sum()) / k ** (1 / (k + 1)), float(p.sum())
        bound = F * (F / total) ** k * (1 - k * self.ratios.rounding(priced))
        return SplitPoint(p, ratios, y / ((k + 1) * alpha), None, total, *self.kept(y, ratios), bound)

    def scaled(self, p: Array) -> Array:
        """Σp = Σ α y."""
        priced = float(self._priced(self.ratios.adjoint(p)).sum())
        return p * (priced / float(p.sum())) ** (self.power + 1)

    def _priced(self, alpha: Array) -> Array:
        """α y = (k γ)^{1/(k+1)} α^{k/(k+1)}."""
        k = self.power
        return np.asarray((k * self.costs) ** (1 / (k + 1)) * alpha ** (k / (k + 1)))


class TotalWithin(SplitProblem):
    """Minimise Σ a_s / x_s with all ratios at most 1, given 1/x of a split that keeps them with room.

    The ratios and the total are linear in y = 1/x and the budget is convex in it, so a split that violates
    a few caps by a little, mixed with the other in y, keeps them all.
    """

    def __init__(self, ratios: CapRatios, a: Array, anchor: Array) -> None:
        super().__init__(ratios)
        self.a, self.anchor = a, anchor
        self.spare = np.maximum(1 - ratios.apply(anchor), 0)

    def of_rows(self, rows: Array) -> TotalWithin:
        """The problem with the caps of some rows only."""
        return TotalWithin(self.ratios.of_rows(rows), self.a, self.anchor)

    def kept(self, y: Array, ratios: Array) -> tuple[Array, float]:
        """Mixed with the anchor until every ratio is at most 1, on the budget; and Σ a/x."""
        violated = ratios > 1
        over = ratios[violated] - 1
        share = float((over / (over + self.spare[violated])).max(initial=0))
        x = 1 / ((1 - share) * y + share * self.anchor)
        x = x / float(x.sum())
        return x, float((self.a / x).sum())

    def evaluate(self, p: Array) -> SplitPoint:
        """y = Σ√α/√α; the bound is (Σ√α)² − Σp."""
        root = np.sqrt(self.a + self.ratios.adjoint(p))
        Q = float(root.sum())
        y = Q / root
        ratios = self.ratios.apply(y)
        h, tilt, total = y**3 / (2 * Q * Q), ratios / (math.sqrt(2) * Q), float(self.a @ y)
        # Both terms are much larger than their difference where the caps can only just be kept.
        rounding = self.ratios.rounding(root)
        bound = Q * Q * (1 - rounding) - float(p.sum()) * (1 + rounding)
        return SplitPoint(p, ratios, h, tilt, total, *self.kept(y, ratios), bound)

    def scaled(self, p: Array) -> Array:
        """The number for which the bound, concave in it, is largest, by bisection of its logarithm."""
        b = self.ratios.adjoint(p)
        # With what rounding takes away, which is what limits it for caps that can only just be kept.
        price = float(p.sum()) * (1 + 2 * self.ratios.rounding(np.sqrt(b)))
        usual = math.log(float(np.sqrt(self.a).sum()) ** 2 / float(p.sum()))
        low, high = usual - _FEWEST, usual + _MOST
        while high - low > 0.1:
            middle = (low + high) / 2
            alpha = self.a + math.exp(middle) * b
            root = np.sqrt(alpha[alpha > 0])
            is_rising = float(root.sum()) * float((b[alpha > 0] / root).sum()) > price
            low, high = (middle, high) if is_rising else (low, middle)
        return p * math.exp((low + high) / 2)


class SplitSystem:
    """diag(y) + diag(s) (B diag(h) Bᵀ − tilt tiltᵀ) diag(s), by conjugate gradients.

    Args:
        precondition: r → roughly the inverse of the matrix times r.
        recover: what to solve with from now on where conjugate gradients do not converge soon; None where
            there is nothing better.
    """

    def __init__(
        self,
        ratios: CapRatios,
        point: SplitPoint,
        y: Array,
        precondition: Callable[[Array], Array],
        recover: Callable[[], Callable[[Array], Array]] | None,
    ) -> None:
        self._ratios, self._h, self._y = ratios, point.h, y
        self._s = np.sqrt(point.z)
        self._tilt = None if point.tilt is None else self._s * point.tilt
        self._precondition, self._recover = precondition, recover

    def predict(self, b: Array) -> Array:
        """The solution roughly."""
        return self._solved(b, _ROUGH)

    def solve(self, b: Array) -> Array:
        """The solution."""
        return self._solved(b, _FINE)

    def _solved(self, b: Array, tol: float) -> Array:
        if self._recover is not None:
            found = conjugate_gradients(
                self._product, self._precondition, b, tol=tol, max_products=_MANY_PRODUCTS
            )
            if found.has_converged:
                return found.x
            self._precondition, self._recover = self._recover(), None
        return conjugate_gradients(
            self._product, self._precondition, b, tol=tol, max_products=_MAX_PRODUCTS
        ).x

    def _product(self, x: Array) -> Array:
        image = self._s * self._ratios.apply(self._h * self._ratios.adjoint(self._s * x)) + self._y * x
        if self._tilt is not None:
            image = image - self._tilt * float(self._tilt @ x)
        return np.asarray(image)
