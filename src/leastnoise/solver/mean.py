"""The dual function of weights on queries and on cells, and its derivatives.

Queries l_j (rows of L) and cells b_i (columns of B) share k coordinates. With
weights p, q ≥ 0 and a fixed part S₀ = R₀ᵀR₀,

    S = S₀ + Lᵀ diag(p) L,   T = B diag(q) Bᵀ,   F(p, q) = trace (S^½ T S^½)^½

and 2F is the least of trace(SΣ) + trace(TΣ⁻¹), attained at the geometric mean,
Σ S Σ = T. From any roots S = GGᵀ, T = KKᵀ and one decomposition GᵀK = U D Vᵀ:

    α_j = D^{−½} Vᵀ Kᵀ l_j      v_j = ‖α_j‖² = l_jᵀ Σ l_j       gradient of 2F in p
    β_i = D^{−½} Uᵀ Gᵀ b_i      u_i = ‖β_i‖² = b_iᵀ Σ⁻¹ b_i     gradient of 2F in q

What is measured in several blocks has an S, a T and coordinates for each of them: F, variances, profiles and
H are sums (`SharedPoint`). Neither S nor T is inverted, and both may be nearly singular, as they are together
at the optimum of most problems with caps. Minus the Hessian of 2F is

    H_xy = ± Σ_ab Γ_ax Γ_bx Γ_ay Γ_by / (d_a + d_b),    Γ = [α β],  minus between queries and cells
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from leastnoise.core.backend import NUMPY, Backend
from leastnoise.core.operators import Array
from leastnoise.solver.rows import ProjectedRows, QueryRows

# Σ p v and Σ q u both equal F. Where rounding parts them by more, the careful route is taken.
_DISAGREEMENT = 1e-9

# Squaring costs half the digits: below this ratio of eigenvalues a singular value decomposition is taken.
_EIGH_RATIO = 1e-9

# Where the largest d is more than this many times the least, Σ and its inverse are compared.
_WIDE = 1e5

# Where they are apart by more than this share, one of them is wrong.
_INCONSISTENT = 1e-6

# The step of the trapezoidal rule behind the approximate Hessian. The rule is off by a factor of at
# most 1 ± 0.29 at 3 (2|Γ(1 + 2πi/3)| = 0.27 and the ends), so conjugate gradients gain a digit in one or
# two products; 1.5 would take twice the nodes.
_NODE_STEP = 3.0


@dataclass(frozen=True, eq=False)
class Forms:
    """What the weights stand on: m queries, cells B (k, n) and a root R₀ (r, k) of the fixed part."""

    rows: QueryRows
    B: Any
    base: Any | None
    device: Backend

    @cached_property
    def base_gram(self) -> Any | None:
        """S₀."""
        return None if self.base is None else self.base.T @ self.base


@dataclass(frozen=True, eq=False)
class MeanPoint:
    """The dual function and its derivatives at one (p, q)."""

    p: Array
    q: Array
    d: Array  # (k,)
    alpha: ProjectedRows  # (k, m)
    cells: Any  # β, (k, n), on the device
    v: Array
    u: Array
    base_trace: float  # trace(S₀ Σ)
    root: Any  # A, (k, k), with Σ = AᵀA
    device: Backend
    is_sound: bool = True  # whether Σ and its inverse agree

    @property
    def beta(self) -> Array:
        """β as NumPy: the strategy, for which noise of covariance Σ is independent noise."""
        return self.device.numpy(self.cells)

    @property
    def F(self) -> float:
        """The dual function, Σ_a d_a."""
        return float(self.d.sum())

    @cached_property
    def _kernel(self) -> Any:
        d = self.device.matrix(self.d)
        return 1 / (d[:, None] + d[None, :])

    def hessian_product(self, x: Array) -> Array:
        """H x, two matrix products."""
        m = len(self.p)
        M = self.alpha.outer(x[:m]) - (self.cells * self.device.matrix(x[m:])) @ self.cells.T
        M *= self._kernel
        over_cells = self.device.numpy(((M @ self.cells) * self.cells).sum(0))
        return np.concatenate([self.alpha.form(M), -over_cells])

    def hessian_diagonal(self) -> Array:
        """The diagonal of H, to within the same factor as `rough_hessian`."""
        total = np.zeros(len(self.p) + len(self.q))
        for weight, decay in self._nodes():
            decayed = self.cells * self.device.matrix(np.sqrt(decay))[:, None]
            sums = np.concatenate([self.alpha.decayed(decay), self.device.numpy((decayed**2).sum(0))])
            total += weight * sums**2
        return total

    def rough_hessian(self, chosen: Array, scale: Array) -> Any:
        """diag(scale) H diag(scale) on the chosen weights, off by at most a factor 1 ± 0.29, on the device.

        1/(d_a + d_b) = ∫ exp(−t d_a) exp(−t d_b) dt is separable, so every node of the trapezoidal
        rule in log t is one symmetric product. H is a sum of squares with these coefficients, so
        their relative error is that of the whole quadratic form.
        """
        device, m = self.device, len(self.p)
        is_query = chosen < m
        columns = device.beside(
            self.alpha.columns(chosen[is_query]), self.cells[:, device.index(chosen[~is_query] - m)]
        )
        columns = columns * device.matrix(np.sqrt(scale))
        total = None
        for weight, decay in self._nodes():
            decayed = columns * device.matrix(np.sqrt(decay))[:, None]
            Z = decayed.T @ decayed
            Z *= Z
            Z *= weight
            if total is None:
                total = Z
            else:
                total += Z
        signs = device.matrix(np.where(is_query, 1.0, -1.0))
        return total * signs[:, None] * signs[None, :]

    def _nodes(self) -> Iterator[tuple[float, Array]]:
        """Weights and decays e^{−t d} of the rule: Σ weight · decay_a · decay_b ≈ 1/(d_a + d_b)."""
        # Nodes beyond these ends carry less than a twentieth of any 1/(d_a + d_b).
        low = -math.log(2 * float(self.d.max())) - 3
        high = -math.log(2 * float(self.d.min())) + 1.2
        for node in np.arange(low, high + _NODE_STEP, _NODE_STEP):
            t = math.exp(node)
            yield _NODE_STEP * t, np.exp(-t * self.d)


@dataclass(frozen=True, eq=False)
class WeightedNoise:
    """What weights of queries and cells give, whatever is measured.

    Attributes:
        p, q: the weights, (m,) and (n,).
        F: the dual function.
        v, u: variances and profiles, the gradient of 2F.
        base_trace: trace(S₀ Σ).
        is_sound: whether the noise and its inverse agree.
    """

    p: Array
    q: Array
    F: float
    v: Array
    u: Array
    base_trace: float
    is_sound: bool


@dataclass(frozen=True, eq=False)
class SharedPoint(WeightedNoise):
    """The dual function of several blocks that share (p, q), and its derivatives: sums over them.

    Every block knows all m queries, those that it has no part of as zeros, and all n cells.
    """

    parts: list[MeanPoint]

    @property
    def device(self) -> Backend:
        """Where the blocks are."""
        return self.parts[0].device

    @property
    def n_directions(self) -> int:
        """How many directions the blocks have together."""
        return sum(len(part.d) for part in self.parts)

    def hessian_product(self, x: Array) -> Array:
        """H x."""
        return _sum(part.hessian_product(x) for part in self.parts)

    def hessian_diagonal(self) -> Array:
        """The diagonal of H, to within the same factor as `rough_hessian`."""
        return _sum(part.hessian_diagonal() for part in self.parts)

    def rough_hessian(self, chosen: Array, scale: Array) -> Any:
        """diag(scale) H diag(scale) on the chosen weights, roughly, on the device."""
        return _sum(part.rough_hessian(chosen, scale) for part in self.parts)


def _sum(parts: Iterator[Any]) -> Any:
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def evaluate_all(forms: Sequence[Forms], p: Array, q: Array) -> SharedPoint:
    """The dual function of all blocks at (p, q), both positive."""
    parts = [evaluate(own, p, q) for own in forms]
    return SharedPoint(
        p,
        q,
        sum(part.F for part in parts),
        _sum(part.v for part in parts),
        _sum(part.u for part in parts),
        sum(part.base_trace for part in parts),
        all(part.is_sound for part in parts),
        parts,
    )


def evaluate(forms: Forms, p: Array, q: Array) -> MeanPoint:
    """The dual function at (p, q), both positive."""
    point = _plain(forms, p, q)
    if point is None or not point.is_sound or _disagreement(point) > _DISAGREEMENT:
        return _careful(forms, p, q)
    # Rows that are many and quick are not written out for the last digits of weak directions.
    is_wide = float(point.d.max()) > _WIDE * float(point.d.min()) and not forms.rows.is_quick
    if is_wide and _lost(forms, point) > _INCONSISTENT:
        return _careful(forms, p, q)
    return point


def _lost(forms: Forms, point: MeanPoint) -> float:
    """How far Σ p α αᵀ + (fixed part) and Σ q β βᵀ are from diag(d), in the units of d.

    They are formed from the queries and cells themselves, so they show what Cholesky factors have
    lost in weak directions: at weights of 1e-14 their variances were off by 5 %, at 1e-16 by a factor.
    """
    device = point.device
    over_queries = point.alpha.outer(point.p)
    if forms.base is not None:
        fixed = point.root @ forms.base.T
        over_queries = over_queries + fixed @ fixed.T
    over_cells = (point.cells * device.matrix(point.q)) @ point.cells.T
    unit = device.matrix(1 / np.sqrt(point.d))
    ones = np.full(len(point.d), -1.0)
    sums = (over_queries * unit[:, None] * unit[None, :], over_cells * unit[:, None] * unit[None, :])
    return max(float(device.numpy(abs(device.plus_diagonal(found, ones)).max())) for found in sums)


def _disagreement(point: MeanPoint) -> float:
    F = point.F
    over_queries = float(point.p @ point.v) + point.base_trace
    over_cells = float(point.q @ point.u)
    worst = max(abs(over_queries - F), abs(over_cells - F)) / F if F > 0 else math.inf
    return worst if math.isfinite(worst) else math.inf


def _plain(forms: Forms, p: Array, q: Array) -> MeanPoint | None:
    """By Cholesky factors, where S and T are far enough from singular; None where they are not."""
    device, B = forms.device, forms.B
    S = forms.rows.gram(p)
    if forms.base_gram is not None:
        S = S + forms.base_gram
    weighted = B * device.matrix(np.sqrt(q))
    T = weighted @ weighted.T
    G, K = device.cholesky(S), device.cholesky(T)
    if G is None or K is None:
        return None
    product = G.T @ K
    squares, V = device.eigh(product.T @ product, may_overwrite=True)
    values = device.numpy(squares)
    if values[0] > _EIGH_RATIO * values[-1]:
        d = np.sqrt(values)
        left = product @ V  # U D
        return _point(forms, p, q, d, V.T @ K.T, (left.T @ G.T) / device.matrix(d)[:, None])
    U, values, Vt = device.svd(product)
    d = device.numpy(values)
    if not d[-1] > 0:
        return None
    return _point(forms, p, q, d, Vt @ K.T, U.T @ G.T)


def _careful(forms: Forms, p: Array, q: Array) -> MeanPoint:
    """By triangular factors of the weighted rows themselves, heaviest first: nothing is squared."""
    device = forms.device
    pieces = list(forms.rows.weighted(p))
    if forms.base is not None:
        pieces.append(device.numpy(forms.base))
    G = _root(pieces)
    K = _root([device.numpy(forms.B).T * np.sqrt(q)[:, None]])
    U, d, Vt = NUMPY.graded_svd(G.T @ K)
    d = np.maximum(d, np.finfo(float).tiny)
    return _point(forms, p, q, d, device.matrix(Vt @ K.T), device.matrix(U.T @ G.T))


def _root(pieces: list[Array]) -> Array:
    """A root (k, k) of rowsᵀ rows: a triangular factor, transposed, with rows sorted and columns pivoted."""
    from scipy import linalg

    rows = np.vstack(pieces)
    heaviest_first = np.argsort(-np.abs(rows).max(axis=1))
    triangle, order = linalg.qr(rows[heaviest_first], mode="r", pivoting=True)
    k = rows.shape[1]
    root = np.zeros((k, k))
    root[order, : min(len(triangle), k)] = triangle[:k].T
    return root


def _point(forms: Forms, p: Array, q: Array, d: Array, to_queries: Any, to_cells: Any) -> MeanPoint:
    device = forms.device
    root = device.matrix(np.sqrt(d))[:, None]
    to_queries, to_cells = to_queries / root, to_cells / root
    alpha, cells = forms.rows.projected(to_queries), to_cells @ forms.B
    base_trace = 0.0
    if forms.base is not None:
        base_trace = float(device.numpy(((to_queries @ forms.base.T) ** 2).sum()))
    is_sound = True
    if float(d.max()) > _WIDE * float(d.min()):
        # A Cᵀ = 1 for the roots Σ = AᵀA and Σ⁻¹ = CᵀC.
        difference = device.plus_diagonal(to_queries @ to_cells.T, np.full(len(d), -1.0))
        is_sound = float(device.numpy(abs(difference).max())) <= _INCONSISTENT
    v, u = alpha.decayed(np.ones(len(d))), device.numpy((cells**2).sum(0))
    return MeanPoint(p, q, d, alpha, cells, v, u, base_trace, to_queries, device, is_sound)
