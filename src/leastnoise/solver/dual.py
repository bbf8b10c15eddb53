"""The dual function of total variance, its gradient and its Hessian products, for any linear map.

A map takes weights q ≥ 0 of the cells to symmetric blocks A_s(q), and its adjoint takes blocks Y_s back to
A*(Y)_i = Σ_s ⟨Y_s, A_s(e_i)⟩. With A_s = U_s D_s² U_sᵀ, D_s = diag(d_s):

    F(q) = Σ_s trace A_s^½ = Σ d          the dual function
    u    = A*( A^−½ )                     the gradient of 2F
    P v  = A*( U [ (Uᵀ A(v) U)_ab / (d_a d_b (d_a + d_b)) ] Uᵀ )     minus the Hessian of 2F

Noise of covariance A_s^½ in the coordinates of each block has total variance F and privacy profile u. Scaled
to profile 1 its total variance is F · max u, and no noise of profile 1 does better than F²/Σq: both sides of
the certificate from one eigendecomposition of each block.

A block that counts m times in F and in u is a block m² times as large that counts once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

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

# Nodes per factor e of the quadrature for the diagonal of P, which only preconditions.
_NODES_PER_E = 0.7


@dataclass(frozen=True)
class DualNoise:
    """Some noise: for every block a root of its precision; its profile, and its total variance."""

    roots: list[Any]  # on the backend
    u: Array  # (n,)
    total: float

    @property
    def achieved(self) -> float:
        """The total variance scaled to profile 1."""
        return self.total * float(self.u.max())


@dataclass(frozen=True)
class DualPoint(ABC):
    """The dual function and its derivatives at one q, scaled so that Σq = F(q).

    The bound does not change with the scale of q; at this one, the optimum has u = 1 wherever q > 0.

    Attributes:
        F: the dual function.
    """

    q: Array  # (n,)
    u: Array  # (n,)
    F: float

    @property
    def lower_bound(self) -> float:
        """F²/Σq: no noise of profile 1 has less total variance."""
        return self.F**2 / float(self.q.sum())

    @property
    def achieved(self) -> float:
        """F · max u: the total variance of this point's noise, scaled to profile 1."""
        return self.F * float(self.u.max())

    @property
    def noise(self) -> DualNoise:
        """The noise of covariance A^½."""
        return DualNoise(self.roots(), self.u, self.F)

    @abstractmethod
    def roots(self) -> list[Any]:
        """A root of the precision of every block."""


@dataclass(frozen=True)
class CurvedPoint(DualPoint):
    """A point with products of the Hessian.

    Attributes:
        spread: the largest d over the least of the same block, which is what rounding is magnified by.
        n_numbers: how many numbers describe the noise: k(k + 1)/2 for every block.
    """

    spread: float
    n_numbers: int

    @abstractmethod
    def hessian_product(self, v: Array) -> Array:
        """P v."""

    @abstractmethod
    def hessian_diagonal(self) -> Array:
        """P_ii for every cell, roughly at least."""

    def moved(self, change: Array) -> DualNoise | None:
        """The noise of q + change to first order, or None if the change is too large for that."""
        return None

    def hessian_root(self) -> Array | None:
        """G with GᵀG = P, (numbers, n): for few numbers and cells; None where it is not written out."""
        return None


# Blocks R_s diag(q) R_sᵀ ---------------------------------------------------------------------


@dataclass(frozen=True)
class Stack:
    """Blocks of one shape at one q: d (b, k), and β = D^−½ Uᵀ R, (b, k, n), on the backend."""

    d: Array
    beta: Any
    backend: Backend

    def hessian_product(self, v: Array) -> Any:
        """The diagonal of βᵀ (K ∘ β diag(v) βᵀ) β, K_ab = 1/(d_a + d_b), summed over the blocks.

        Both products are symmetric forms and cost half of a matrix product each.
        """
        weights = self.backend.matrix(v)
        total = 0.0
        for band, rest in _bands(self.d.shape[1]):
            right = self.beta[:, rest]
            M = (self.beta[:, band] * weights) @ right.swapaxes(1, 2)
            M *= self._kernel(band, rest)
            total = total + ((M @ right) * self.beta[:, band]).sum((0, 1))
        return total

    def hessian_diagonal(self) -> Any:
        """P_ii for every cell, half a matrix product."""
        squares = self.beta**2
        total = 0.0
        for band, rest in _bands(self.d.shape[1]):
            total = total + ((self._kernel(band, rest) @ squares[:, rest]) * squares[:, band]).sum((0, 1))
        return total

    def moved(self, place: int, change: Any) -> tuple[Any, float] | None:
        """The root of one block's noise at q + change to first order, and its total variance.

        A^½ changes by U (√d_a √d_b (β diag(change) βᵀ)_ab / (d_a + d_b)) Uᵀ. The sum is the
        covariance of some noise whatever its error, so a Cholesky factor of it gives a strategy,
        and its profile is as near to 1 as that of the next point, without a decomposition.
        """
        device, beta, d, k = self.backend, self.beta[place], self._d[place], self.d.shape[1]
        roots = d**0.5
        Sigma = 0 * d[:, None] * d[None, :]
        Sigma.reshape(-1)[:: k + 1] += d
        for band, rest in _bands(k):
            M = (beta[band] * change) @ beta[rest].T
            M *= roots[band, None]
            M *= roots[None, rest]
            M /= d[band, None] + d[None, rest]
            # Blocks on and below the diagonal; a factorisation reads nothing else.
            Sigma[rest, band] += M.T
        total = float(Sigma.diagonal().sum())
        lower = device.cholesky(Sigma)
        if lower is None:
            return None
        del Sigma, M
        return device.solve_lower(lower, beta * roots[:, None]), total

    def hessian_root(self) -> Array:
        """Rows β_a ∘ β_b / √(d_a + d_b) for every pair a ≤ b of every block."""
        beta = self.backend.numpy(self.beta)
        a, b = np.triu_indices(self.d.shape[1])
        both = np.sqrt(np.where(a == b, 1, 2) / (self.d[:, a] + self.d[:, b]))
        return np.asarray((beta[:, a] * beta[:, b] * both[:, :, None]).reshape(-1, beta.shape[2]))

    def _kernel(self, band: slice, rest: slice) -> Any:
        """1/(d_a + d_b) for a band of rows from the diagonal on, doubled where it stands for two."""
        K = self._d[:, band, None] + self._d[:, None, rest]
        K[:, :, band.stop - band.start :] *= 0.5
        return 1 / K

    @cached_property
    def _d(self) -> Any:
        return self.backend.matrix(self.d)


@dataclass(frozen=True)
class BlockPoint(CurvedPoint):
    """The point of blocks R_s diag(q) R_sᵀ.

    Attributes:
        places: for every block its stack and its place there.
    """

    stacks: list[Stack]
    places: Sequence[tuple[int, int]]

    def roots(self) -> list[Any]:
        """β of every block."""
        return [self.stacks[stack].beta[place] for stack, place in self.places]

    def hessian_product(self, v: Array) -> Array:
        """P v, two matrix products for each block."""
        return self._sum([stack.hessian_product(v) for stack in self.stacks])

    def hessian_diagonal(self) -> Array:
        """P_ii for every cell, exactly."""
        return self._sum([stack.hessian_diagonal() for stack in self.stacks])

    def moved(self, change: Array) -> DualNoise | None:
        """The noise of q + change to first order, or None if the change is too large for that."""
        device = self.stacks[0].backend
        on_device, roots, u, total = device.matrix(change), [], 0.0, 0.0
        for stack, place in self.places:
            found = self.stacks[stack].moved(place, on_device)
            if found is None:
                return None
            roots.append(found[0])
            u = u + (found[0] ** 2).sum(0)
            total += found[1]
        return DualNoise(roots, device.numpy(u), total)

    def hessian_root(self) -> Array:
        """G with GᵀG = P."""
        return np.vstack([stack.hessian_root() for stack in self.stacks])

    def _sum(self, parts: Sequence[Any]) -> Array:
        return self.stacks[0].backend.numpy(sum(parts[1:], parts[0]))


def block_point(
    rows: Sequence[Any], places: Sequence[tuple[int, int]], q: Array, device: Backend
) -> BlockPoint:
    """The dual function at q for stacks of rows R_s, each (b, k, n)."""
    found = [_decomposed(R, q, device) for R in rows]
    # q scaled by s scales d by √s and β by s^(−1/4); s makes Σq equal to Σd.
    s = (sum(float(d.sum()) for d, _ in found) / float(q.sum())) ** 2
    stacks, u = [], 0.0
    for d, rotated in found:
        d = d * math.sqrt(s)
        rotated /= device.matrix(np.sqrt(d))[:, :, None]
        u = u + (rotated**2).sum((0, 1))
        stacks.append(Stack(d, rotated, device))
    return BlockPoint(
        q * s,
        device.numpy(u),
        sum(float(stack.d.sum()) for stack in stacks),
        max(float((stack.d.max(axis=1) / stack.d.min(axis=1)).max()) for stack in stacks),
        sum(len(stack.d) * stack.d.shape[1] * (stack.d.shape[1] + 1) // 2 for stack in stacks),
        stacks,
        places,
    )


def _decomposed(R: Any, q: Array, device: Backend) -> tuple[Array, Any]:
    """d, (b, k), and Uᵀ R, (b, k, n), of a stack."""
    # T without naming its square root: one product and one eigendecomposition.
    squares, U = device.eigh(_weighted_square(R, q, device), may_overwrite=True)
    values = device.numpy(squares)
    weak = np.flatnonzero(values[:, 0] <= _EIGH_RATIO * values[:, -1])
    if len(weak) == len(R):
        rotated = None
        d = np.empty(values.shape)
    else:
        rotated = U.swapaxes(1, 2) @ R
        # d from the rotated rows, not from their squares: twice the digits for the weak ones.
        d = np.sqrt(device.numpy(rotated**2 @ device.matrix(q)))
    del U
    if len(weak):
        careful = [_graded(R[int(i)], q, device) for i in weak]
        d[weak] = [own for own, _ in careful]
        if rotated is None:
            return d, device.stack([own for _, own in careful])
        for i, (_, own) in zip(weak.tolist(), careful, strict=True):
            rotated[i] = own
    return d, rotated


def _weighted_square(R: Any, q: Array, device: Backend) -> Any:
    half = R * device.matrix(np.sqrt(q))
    # The same array on both sides: BLAS then works out one triangle only.
    return half @ half.swapaxes(1, 2)


def _graded(R: Any, q: Array, device: Backend) -> tuple[Array, Any]:
    """d and Uᵀ R from R diag(√q) = U D Vᵀ, for rows or columns of very different sizes.

    Uᵀ R is D Vᵀ diag(1/√q) as well. The first loses digits to cancellation where a cell's
    column is long beside the weakest direction, the second where its weight is small
    beside the strongest; each cell takes the better one.
    """
    roots = np.sqrt(q)
    U, values, Vt = device.graded_svd(R * device.matrix(roots))
    d = np.maximum(device.numpy(values), np.finfo(float).tiny)
    lengths = np.sqrt(device.numpy((R**2).sum(0)))
    by_weight = lengths * roots > np.sqrt(d.max() * d.min())
    rotated = U.T @ R
    chosen = device.index(by_weight)
    rotated[:, chosen] = (Vt[:, chosen] * device.matrix(d)[:, None]) / device.matrix(roots[by_weight])
    return d, rotated


def _bands(k: int) -> Iterator[tuple[slice, slice]]:
    """Bands of rows of a symmetric (k, k) matrix, with the columns from the diagonal on."""
    width = max(_LEAST_BAND, -(-k // _BANDS))
    for start in range(0, k, width):
        yield slice(start, min(start + width, k)), slice(start, k)


# One block whose columns are not written out -------------------------------------------------


class Quadratic(Protocol):
    """One block Σ q_i c_i c_iᵀ of columns that may be implicit, in coordinates that can be changed."""

    @property
    def backend(self) -> Backend:
        """Where its arrays are."""

    @property
    def root(self) -> Any:
        """What noise of precision 1 in these coordinates measures, on the backend."""

    def gram(self, q: Array) -> Any:
        """A(q), on the backend."""

    def adjoint(self, Y: Any) -> Array:
        """c_iᵀ Y c_i for every cell."""

    def rotated(self, M: Any) -> Quadratic:
        """The same with columns M c_i."""


@dataclass(frozen=True)
class QuadraticPoint(CurvedPoint):
    """The point of a block by what it does; `whitened` has columns β_i."""

    d: Array  # (k,)
    whitened: Quadratic

    def roots(self) -> list[Any]:
        """The root of the block."""
        return [self.whitened.root]

    def hessian_product(self, v: Array) -> Array:
        """P v."""
        M = self.whitened.gram(v)
        M /= self._d[:, None] + self._d[None, :]
        return self.whitened.adjoint(M)

    def hessian_diagonal(self) -> Array:
        """P_cc for every cell, roughly: a few nodes t = e^s of 1/(d_a + d_b) = ∫ e^(−t d_a) e^(−t d_b) dt."""
        low, high = -math.log(float(self.d.max())) - 3, -math.log(float(self.d.min())) + 2
        count = max(4, math.ceil((high - low) * _NODES_PER_E))
        width = (high - low) / count
        total = np.zeros(len(self.q))
        for s in low + width * (np.arange(count) + 0.5):
            damped = self.whitened.backend.matrix(np.diag(np.exp(-math.exp(s) * self.d)))
            total += width * math.exp(s) * self.whitened.adjoint(damped) ** 2
        return total

    def moved(self, change: Array) -> DualNoise | None:
        """The noise of q + change to first order, as `Stack.moved`."""
        device = self.whitened.backend
        roots = device.matrix(np.sqrt(self.d))
        Sigma = self.whitened.gram(change)
        Sigma *= roots[:, None] * roots[None, :]
        Sigma /= self._d[:, None] + self._d[None, :]
        Sigma = device.plus_diagonal((Sigma + Sigma.T) / 2, self.d)
        lower = device.cholesky(Sigma)
        if lower is None:
            return None
        moved = self.whitened.rotated(device.solve_lower(lower, device.matrix(np.diag(np.sqrt(self.d)))))
        u = moved.adjoint(device.matrix(np.eye(len(self.d))))
        return DualNoise([moved.root], u, float(Sigma.diagonal().sum()))

    @property
    def _d(self) -> Any:
        return self.whitened.backend.matrix(self.d)


def quadratic_point(cells: Quadratic, q: Array) -> QuadraticPoint:
    """The dual function at q for one block known by what it does."""
    device = cells.backend
    T = cells.gram(q)
    squares, U = device.eigh((T + T.T) / 2, may_overwrite=True)
    values = np.maximum(device.numpy(squares), np.finfo(float).eps * float(device.numpy(squares)[-1]))
    d = np.sqrt(values)
    s = (float(d.sum()) / float(q.sum())) ** 2
    d = d * math.sqrt(s)
    whitened = cells.rotated(U.T / device.matrix(np.sqrt(d))[:, None])
    u = whitened.adjoint(device.matrix(np.eye(len(d))))
    k = len(d)
    return QuadraticPoint(q * s, u, float(d.sum()), float(d.max() / d.min()), k * (k + 1) // 2, d, whitened)
