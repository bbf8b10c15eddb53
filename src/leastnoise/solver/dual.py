"""The dual function of total variance, its gradient and its Hessian products.

Let R be any (k, n) matrix with RᵀR = V, the weighted Gram matrix of the queries,
and q ≥ 0 a weight for every cell. With T = R diag(q) Rᵀ = U D² Uᵀ, D = diag(d):

    F(q) = trace T^½ = Σ_a d_a                  the dual function
    u_i  = r_iᵀ T^{−½} r_i = ‖β_i‖²             the gradient of 2F; β = D^{−½} Uᵀ R
    P_ij = Σ_ab β_ai β_bi β_aj β_bj / (d_a + d_b)     minus the Hessian of 2F

The noise with covariance T^½ in the coordinates of R has total variance F and
privacy profile u. Scaled to profile 1 its total variance is F · max u, and no
noise of profile 1 does better than F²/Σq: both sides of the certificate from one
eigendecomposition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from leastnoise.core.backend import Backend
from leastnoise.core.operators import Array

# Below this ratio of eigenvalues of T, squaring has cost too many digits of the
# small ones, and a singular value decomposition of R diag(√q) is taken instead.
_EIGH_RATIO = 1e-12

# A symmetric matrix is worked out in at most this many bands of rows, each from its diagonal on:
# (8 + 1)/(2 · 8) of the work of a whole product, and no more memory than a band.
_BANDS = 8

# Rows of a band, at least.
_LEAST_BAND = 64


@dataclass(frozen=True)
class DualNoise:
    """Some noise: a root of its precision, its profile, and its total variance."""

    root: Any  # (k, n), on the backend
    u: Array  # (n,)
    total: float

    @property
    def achieved(self) -> float:
        """The total variance scaled to profile 1."""
        return self.total * float(self.u.max())


@dataclass(frozen=True)
class DualPoint:
    """The dual function and its derivatives at one q."""

    q: Array  # (n,)
    d: Array  # (k,)
    beta: Any  # (k, n), on the backend
    u: Array  # (n,)
    backend: Backend

    @property
    def F(self) -> float:
        """The dual function, Σ_a d_a."""
        return float(self.d.sum())

    @property
    def lower_bound(self) -> float:
        """F²/Σq: no noise of profile 1 has less total variance."""
        return self.F**2 / float(self.q.sum())

    @property
    def noise(self) -> DualNoise:
        """The noise of covariance T^½."""
        return DualNoise(self.beta, self.u, self.F)

    @property
    def achieved(self) -> float:
        """F · max u: the total variance of this point's noise, scaled to profile 1."""
        return self.noise.achieved

    def columns(self) -> Array:
        """β as an array."""
        return self.backend.numpy(self.beta)

    def hessian_product(self, v: Array) -> Array:
        """P v: the diagonal of βᵀ (K ∘ β diag(v) βᵀ) β, K_ab = 1/(d_a + d_b).

        Both products are symmetric forms and cost half of a matrix product each.
        """
        weights = self.backend.matrix(v)
        total = 0.0
        for band, rest in _bands(len(self.d)):
            right = self.beta[rest]
            M = (self.beta[band] * weights) @ right.T
            M *= self._kernel(band, rest)
            total = total + ((M @ right) * self.beta[band]).sum(0)
        return self.backend.numpy(total)

    def hessian_diagonal(self) -> Array:
        """P_ii for every cell, half a matrix product."""
        squares = self.beta**2
        total = 0.0
        for band, rest in _bands(len(self.d)):
            total = total + ((self._kernel(band, rest) @ squares[rest]) * squares[band]).sum(0)
        return self.backend.numpy(total)

    def moved(self, change: Array) -> DualNoise | None:
        """The noise of q + change to first order, or None if the change is too large for that.

        T^½ changes by U (√d_a √d_b (β diag(change) βᵀ)_ab / (d_a + d_b)) Uᵀ. The sum is the
        covariance of some noise whatever its error, so a Cholesky factor of it gives a strategy,
        and its profile is as near to 1 as that of the next point, without a decomposition.
        """
        device, k = self.backend, len(self.d)
        roots = device.matrix(np.sqrt(self.d))
        weights = device.matrix(change)
        Sigma = 0 * self._d[:, None] * self._d[None, :]
        Sigma.reshape(-1)[:: k + 1] += self._d
        for band, rest in _bands(k):
            M = (self.beta[band] * weights) @ self.beta[rest].T
            M *= roots[band, None]
            M *= roots[None, rest]
            M /= self._d[band, None] + self._d[None, rest]
            # Blocks on and below the diagonal; a factorisation reads nothing else.
            Sigma[rest, band] += M.T
        total = float(Sigma.diagonal().sum())
        lower = device.cholesky(Sigma)
        if lower is None:
            return None
        del Sigma, M
        root = device.solve_lower(lower, self.beta * roots[:, None])
        return DualNoise(root, device.numpy((root**2).sum(0)), total)

    def _kernel(self, band: slice, rest: slice) -> Any:
        """1/(d_a + d_b) for a band of rows from the diagonal on, doubled where it stands for two."""
        K = self._d[band, None] + self._d[None, rest]
        K[:, band.stop - band.start :] *= 0.5
        return 1 / K

    @cached_property
    def _d(self) -> Any:
        return self.backend.matrix(self.d)


def _bands(k: int) -> Iterator[tuple[slice, slice]]:
    """Bands of rows of a symmetric (k, k) matrix, with the columns from the diagonal on."""
    width = max(_LEAST_BAND, -(-k // _BANDS))
    for start in range(0, k, width):
        yield slice(start, min(start + width, k)), slice(start, k)


def evaluate(R: Any, q: Array, backend: Backend) -> DualPoint:
    """The dual function at q, scaled so that Σq = F(q).

    The bound does not change with the scale of q; at this one, the optimum has
    u = 1 wherever q > 0.
    """
    # T without naming its square root: one product and one eigendecomposition.
    squares, U = backend.eigh(_weighted_square(R, q, backend), may_overwrite=True)
    values = backend.numpy(squares)
    if values[0] > _EIGH_RATIO * values[-1]:
        rotated = U.T @ R
        del U
        # d from the rotated rows, not from their squares: twice the digits for the weak ones.
        d = np.sqrt(backend.numpy(rotated**2 @ backend.matrix(q)))
    else:
        del U
        d, rotated = _graded(R, q, backend)
    # q scaled by s scales d by √s and β by s^(−1/4); s makes Σq equal to Σd.
    s = (float(d.sum()) / float(q.sum())) ** 2
    d = d * np.sqrt(s)
    rotated /= backend.matrix(np.sqrt(d))[:, None]
    return DualPoint(q * s, d, rotated, backend.numpy((rotated**2).sum(0)), backend)


def _weighted_square(R: Any, q: Array, backend: Backend) -> Any:
    half = R * backend.matrix(np.sqrt(q))
    # The same array on both sides: BLAS then works out one triangle only.
    return half @ half.T


def _graded(R: Any, q: Array, backend: Backend) -> tuple[Array, Any]:
    """d and Uᵀ R from R diag(√q) = U D Vᵀ, for rows or columns of very different sizes.

    Uᵀ R is D Vᵀ diag(1/√q) as well. The first loses digits to cancellation where a cell's
    column is long beside the weakest direction, the second where its weight is small
    beside the strongest; each cell takes the better one.
    """
    roots = np.sqrt(q)
    U, values, Vt = backend.graded_svd(R * backend.matrix(roots))
    d = np.maximum(backend.numpy(values), np.finfo(float).tiny)
    lengths = np.sqrt(backend.numpy((R**2).sum(0)))
    by_weight = lengths * roots > np.sqrt(d.max() * d.min())
    rotated = U.T @ R
    chosen = backend.index(by_weight)
    rotated[:, chosen] = (Vt[:, chosen] * backend.matrix(d)[:, None]) / backend.matrix(roots[by_weight])
    return d, rotated
