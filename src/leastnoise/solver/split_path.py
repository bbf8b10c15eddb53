"""An interior-point method for the dual weights of caps on a split.

With y_s = 1/x_s and ratios B y = (v_j/c_j), both problems with caps ask for weights p ≥ 0 that minimise a
convex g whose gradient is the slack of the caps, 1 − B y(p), where y(p) is the best split for these weights:

    least largest ratio    g = Σp − 2 Σ_s √α_s,        α = Bᵀp,        y = 1/√α
    total within caps      g = Σp − (Σ_s √α_s)²,       α = a + Bᵀp,    y = Σ√α/√α,      a = Aᵀw

The method follows p z = ν as ν falls, z the slacks. In the scale of √p its Newton matrix is

    diag(z) + ½ K Kᵀ  (less a rank-one term for the second),   K = diag(√p) B diag(y^{3/2})

For the first problem K Kᵀ√p = √p ∘ B y, so the eigenvalues of K Kᵀ lie between 0 and the largest ratio:
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

from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended

MAX_STEPS = 150

# Steps stop short of the boundary by this share.
_REACH = 0.99

# The path is followed no further than to where Σ p z is this share of what the gap asked for allows.
_NEAREST = 0.1

# Conjugate gradients stop once the residual fell to this share, or after so many products. A step that
# is only to show the way needs less. With 1e-3 for the other, one in 200 random problems stalled whose caps
# can be kept by a millionth only, or whose rows are equal up to 1e-7; with 1e-5 none of 5,000.
_ROUGH, _FINE, _MAX_PRODUCTS = 1e-2, 1e-6, 300

# After so many products without success the matrix is factored, if its smaller side is at most this.
_MANY_PRODUCTS, MAX_FACTORED = 80, 4_000

# Entries of a block of rows that is written out, and the density from which that beats a sparse product.
_BLOCK, _DENSE = 4_000_000, 0.05

# Between how many powers of e below and above the total the weights of its caps begin: a start that none of
# the caps needs would else be at 0, where the path begins with dozens of short steps.
_FEWEST, _MOST = 5, 30

# So many steps without a smaller gap mean that rounding is all there is.
_PATIENCE = 15


class Ratios:
    """B = diag(1/c) A, by what it does; A is shared, not copied.

    Args:
        A: SciPy csr array, (rows, blocks), non-negative.
        caps: c, (rows,), positive and finite.
    """

    def __init__(self, A: Any, caps: Array) -> None:
        from scipy import sparse

        self.A, self.caps = A, caps
        self._squares = sparse.csr_array((A.data**2, A.indices, A.indptr), shape=A.shape)

    def of_rows(self, rows: Array) -> Ratios:
        """Some rows only."""
        return Ratios(self.A[rows], self.caps[rows])

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
class Point:
    """What weights p give."""

    p: Array
    ratios: Array  # B y(p)
    h: Array  # the curvature of g is B diag(h) Bᵀ − tilt tiltᵀ
    tilt: Array | None
    scale: float  # what Σ p z is to be small beside
    x: Array  # a split that keeps what must be kept
    achieved: float
    lower_bound: float


class Kind(ABC):
    """One of the problems with caps."""

    ratios: Ratios

    @abstractmethod
    def of_rows(self, rows: Array) -> Kind:
        """The problem with the caps of some rows only."""

    @abstractmethod
    def kept(self, y: Array, ratios: Array) -> tuple[Array, float]:
        """A split that keeps what must be kept, made of y = 1/x with these ratios, and what it achieves."""

    @abstractmethod
    def point(self, p: Array) -> Point:
        """The split for weights p > 0, and both bounds."""

    @abstractmethod
    def scaled(self, p: Array) -> Array:
        """p times a number for which g is about least."""


class LargestRatio(Kind):
    """Minimise the largest v_j / c_j."""

    def __init__(self, ratios: Ratios) -> None:
        self.ratios = ratios

    def of_rows(self, rows: Array) -> LargestRatio:
        """The problem with the caps of some rows only."""
        return LargestRatio(self.ratios.of_rows(rows))

    def kept(self, y: Array, ratios: Array) -> tuple[Array, float]:
        """1/y on the budget, with Σ1/y · max B y."""
        x = 1 / y
        return x / float(x.sum()), float(x.sum()) * float(ratios.max())

    def point(self, p: Array) -> Point:
        """y = 1/√α; the bound is (Σ√α)²/Σp."""
        root = np.sqrt(self.ratios.adjoint(p))
        y = 1 / root
        ratios = self.ratios.apply(y)
        F, total = float(root.sum()), float(p.sum())
        bound = F * (F / total) * (1 - self.ratios.rounding(root))
        return Point(p, ratios, y**3 / 2, None, total, *self.kept(y, ratios), bound)

    def scaled(self, p: Array) -> Array:
        """Σp = Σ√α."""
        return p * (float(np.sqrt(self.ratios.adjoint(p)).sum()) / float(p.sum())) ** 2


class TotalWithin(Kind):
    """Minimise Σ a_s / x_s with all ratios at most 1, given 1/x of a split that keeps them with room.

    Ratios and total are linear in y = 1/x and the budget is convex in it, so a split that violates a few caps
    by a little, mixed with the other in y, keeps them all.
    """

    def __init__(self, ratios: Ratios, a: Array, anchor: Array) -> None:
        self.ratios, self.a, self.anchor = ratios, a, anchor
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

    def point(self, p: Array) -> Point:
        """y = Σ√α/√α; the bound is (Σ√α)² − Σp."""
        root = np.sqrt(self.a + self.ratios.adjoint(p))
        Q = float(root.sum())
        y = Q / root
        ratios = self.ratios.apply(y)
        h, tilt, total = y**3 / (2 * Q * Q), ratios / (math.sqrt(2) * Q), float(self.a @ y)
        # Both terms are much larger than their difference where the caps can only just be kept.
        rounding = self.ratios.rounding(root)
        bound = Q * Q * (1 - rounding) - float(p.sum()) * (1 + rounding)
        return Point(p, ratios, h, tilt, total, *self.kept(y, ratios), bound)

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


def relative_gap(achieved: float, lower_bound: float) -> float:
    """achieved / lower_bound − 1; infinite where the bound is not positive, unless it is met."""
    if achieved <= lower_bound:
        return 0.0
    return achieved / lower_bound - 1 if lower_bound > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Path:
    """Where the method ended: the best split, and the best proof."""

    x: Array
    p: Array
    achieved: float
    lower_bound: float
    steps: int
    ended: Ended

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return relative_gap(self.achieved, self.lower_bound)


Enough = Callable[[float, float], bool]


def never(achieved: float, lower_bound: float) -> bool:
    """No bounds are enough."""
    return False


def follow_path(kind: Kind, p: Array, *, tol: float, watch: Watch, enough: Enough = never) -> Path:
    """From positive weights p to the optimum.

    Args:
        tol: the relative gap at which to stop.
        watch: told of every step; the path ends at its deadline.
        enough: whether (achieved, lower_bound) already answers the question asked.
    """
    system = _System(kind.ratios)
    best = proof = point = kind.point(p)
    z: Array | None = None
    least = last = math.inf
    stalled = step = 0
    while True:
        if point.achieved < best.achieved:
            best = point
        if point.lower_bound > proof.lower_bound:
            proof = point
        gap = relative_gap(best.achieved, proof.lower_bound)
        watch.tell(step, gap)
        is_late = watch.deadline.is_past
        stalled = 0 if gap < 0.9 * least else stalled + 1
        least = min(gap, least)
        is_enough = gap <= tol or enough(best.achieved, proof.lower_bound)
        if is_enough or is_late or stalled >= _PATIENCE or step == MAX_STEPS:
            break
        slack = 1 - point.ratios
        if z is None:
            # As far from the optimum as its slacks say, and never at it.
            away = max(float(np.abs(p * slack).mean()), 1e-9 * point.scale / len(p))
            z = np.maximum(slack, away / p)
        own = (point.achieved - point.lower_bound) / point.achieved
        # Where the slacks strayed from what they stand for and the last step gained nothing, return to the
        # path before going on along it.
        is_centring = own > 0.9 * last and float((np.abs(slack - z) / z).max()) > 1
        last = own
        nearest = _NEAREST * tol * point.scale / len(p)
        p, z = _step(system, point, z, slack, is_centring, nearest)
        point = kind.point(p)
        step += 1
    ended: Ended = "converged"
    if not is_enough and stalled < _PATIENCE:
        ended = "deadline" if is_late else "exhausted"
    return Path(best.x, proof.p, best.achieved, proof.lower_bound, step, ended)


def _step(
    system: _System, point: Point, z: Array, slack: Array, is_centring: bool, nearest: float
) -> tuple[Array, Array]:
    """The next weights and slacks, both positive (Mehrotra 1992)."""
    p, s = point.p, np.sqrt(point.p)
    system.set(point, s, z)
    mean = float(p @ z) / len(p)
    if is_centring:
        target = mean / p
    else:
        # Straight for the optimum: how far it gets says where on the path to aim.
        dp = s * system.solve(-s * slack, _ROUGH)
        dz = -z - z * dp / p
        ahead = float((p + _room(p, dp) * dp) @ (z + _room(z, dz) * dz)) / len(p)
        aim = max((ahead / mean) ** 3, 1e-4) * mean
        target = (max(aim, min(nearest, mean)) - dp * dz) / p
    dp = s * system.solve(s * (target - slack), _FINE)
    dz = target - z - z * dp / p
    return p + min(1.0, _REACH * _room(p, dp)) * dp, z + min(1.0, _REACH * _room(z, dz)) * dz


def _room(x: Array, dx: Array) -> float:
    """The longest step, at most 1/0.99, that keeps x ≥ 0."""
    falling = dx < 0
    return min(1 / _REACH, float((-x[falling] / dx[falling]).min(initial=math.inf)))


class _System:
    """diag(z) + diag(s) (B diag(h) Bᵀ − tilt tiltᵀ) diag(s), solved by conjugate gradients."""

    def __init__(self, ratios: Ratios) -> None:
        self._ratios = ratios
        self._is_hard = False

    def set(self, point: Point, s: Array, z: Array) -> None:
        """The matrix at this point."""
        self._h, self._s, self._z = point.h, s, z
        self._tilt = None if point.tilt is None else s * point.tilt
        self._roughly = self._factored() if self._is_hard else self._by_diagonal()

    def _by_diagonal(self) -> Callable[[Array], Array]:
        diagonal = self._z + self._s**2 * self._ratios.diagonal(self._h)
        return lambda r: np.asarray(r / diagonal)

    def _factored(self) -> Callable[[Array], Array]:
        return self._ratios.preconditioner(self._s, self._h, self._z)

    def _product(self, x: Array) -> Array:
        image = self._s * self._ratios.apply(self._h * self._ratios.adjoint(self._s * x)) + self._z * x
        if self._tilt is not None:
            image = image - self._tilt * float(self._tilt @ x)
        return np.asarray(image)

    def solve(self, b: Array, tol: float) -> Array:
        """The solution; what the diagonal cannot do in a few products, factors do from then on."""
        if not self._is_hard and self._ratios.is_factorable:
            x, is_solved = self._conjugate_gradients(b, tol, _MANY_PRODUCTS)
            if is_solved:
                return x
            self._is_hard = True
            self._roughly = self._factored()
        return self._conjugate_gradients(b, tol, _MAX_PRODUCTS)[0]

    def _conjugate_gradients(self, b: Array, tol: float, most: int) -> tuple[Array, bool]:
        x = np.zeros_like(b)
        residual = b.copy()
        w = self._roughly(residual)
        direction = w
        rho = first = float(residual @ w)
        for _ in range(most):
            if rho <= tol**2 * first:
                return x, True
            image = self._product(direction)
            bend = float(direction @ image)
            if bend <= 0:
                return x, True
            x += (rho / bend) * direction
            residual -= (rho / bend) * image
            w = self._roughly(residual)
            rho, previous = float(residual @ w), rho
            direction = w + (rho / previous) * direction
        return x, False
