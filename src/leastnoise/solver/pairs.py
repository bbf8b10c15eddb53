"""The dual function with weights on pairs of cells, for records that are replaced.

Replacing a record of cell i by one of cell j changes the answers along r_i − r_j, and by one that is not
counted along r_i: columns for all pairs of n + 1 cells, the last one empty. There are N = n(n + 1)/2 of them,
and they are not written out. With the weights as a symmetric matrix Q and Lap(Q) = diag(Q 1) − Q,

    T = R Lap(Q) Rᵀ,   u_ij = ‖β_i − β_j‖²,   (P x)_ij = Y_ii + Y_jj − 2 Y_ij,   Y = βᵀ (K ∘ β Lap(x) βᵀ) β

so that everything takes a few products of k by n matrices. Pairs are numbered as by `list_pairs`: each cell
with no cell, then i < j row by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from leastnoise.core.backend import Backend
from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.solver.dual import DualNoise, DualPoint

# Nodes per factor e of the quadrature for the diagonal of P, which only preconditions.
_NODES_PER_E = 0.7

# Steps q ← q ∘ u² with which weights begin, at most. Near the optimum a step multiplies errors by 1 − 2λ with
# 0 ≤ λ ≤ ½, because P ≥ 0 and P q = u/2; higher powers overshot.
_FIRST_STEPS = 30

# The gap at which they end. Prefix sums over 300 cells take 30 of them, each as long as two or three products
# of a Newton step.
_FIRST_GAP = 3e-3


@dataclass(frozen=True, eq=False)
class PairColumns:
    """The columns r_i and r_i − r_j of a matrix R, (k, n), on a backend."""

    R: Any
    backend: Backend

    @property
    def shape(self) -> tuple[int, int]:
        """(k, N)."""
        k, n = self.R.shape
        return k, n * (n + 1) // 2

    @cached_property
    def pairs(self) -> PairNumbers:
        """How pairs are numbered."""
        return PairNumbers(self.R.shape[1])

    def evaluate(self, q: Array) -> PairPoint:
        """The dual function at q, scaled so that Σq = F(q)."""
        device = self.backend
        T = self.R @ device.matrix(self.pairs.laplacian(q)) @ self.R.T
        squares, U = device.eigh((T + T.T) / 2, may_overwrite=True)
        values = np.maximum(device.numpy(squares), np.finfo(float).eps * float(device.numpy(squares)[-1]))
        d = np.sqrt(values)
        s = (float(d.sum()) / float(q.sum())) ** 2
        d = d * math.sqrt(s)
        beta = U.T @ self.R
        beta /= device.matrix(np.sqrt(d))[:, None]
        return PairPoint(
            q * s, d, beta, self.pairs.distances(device.numpy(beta.T @ beta)), device, self.pairs
        )

    def first_weights(self, watch: Watch) -> Array:
        """Weights near the optimum, by steps that need one decomposition each."""
        q = np.ones(self.shape[1])
        achieved, bound = math.inf, 0.0
        for _ in range(_FIRST_STEPS):
            point = self.evaluate(q)
            achieved, bound = min(achieved, point.achieved), max(bound, point.lower_bound)
            watch.tell(0, achieved / bound - 1)
            if achieved <= (1 + _FIRST_GAP) * bound or watch.deadline.is_past:
                break
            q = point.q * point.u**2
            watch.steps += 1
        return np.asarray(q)

    def take(self, index: Array) -> Array:
        """Some columns, (k, len(index))."""
        R = self.backend.numpy(self.R)
        n = R.shape[1]
        alone, pairs = index[index < n], index[index >= n] - n
        i, j = self.pairs.upper
        return np.hstack([R[:, alone], R[:, i[pairs]] - R[:, j[pairs]]])

    def prices(self, M: Array) -> Array:
        """‖M c‖² for every column c, (N,)."""
        root = self.backend.matrix(M) @ self.R
        return self.pairs.distances(self.backend.numpy(root.T @ root))


@dataclass(frozen=True)
class PairNumbers:
    """Pairs of n cells and of each cell with none, numbered, as entries of symmetric matrices."""

    n: int

    @cached_property
    def upper(self) -> tuple[Array, Array]:
        """The pairs i < j, row by row."""
        return np.triu_indices(self.n, 1)

    def laplacian(self, x: Array) -> Array:
        """Σ x_ij (e_i − e_j)(e_i − e_j)ᵀ over all pairs, (n, n)."""
        n = self.n
        matrix = np.zeros((n, n))
        matrix[self.upper] = -x[n:]
        matrix += matrix.T
        matrix[np.diag_indices(n)] = x[:n] - matrix.sum(axis=1)
        return matrix

    def distances(self, G: Array) -> Array:
        """G_ii for cells alone, then G_ii + G_jj − 2 G_ij for pairs of them, (N,)."""
        diagonal = np.diag(G)
        pairs = diagonal[:, None] + diagonal[None, :] - 2 * G
        return np.concatenate([diagonal, pairs[self.upper]])


@dataclass(frozen=True)
class PairPoint(DualPoint):
    """The dual function and its derivatives at weights of pairs; `beta` is that of the cells alone."""

    pairs: PairNumbers

    def hessian_product(self, v: Array) -> Array:
        """P v, four products of matrices."""
        M = self._form(v)
        M /= self._d[:, None] + self._d[None, :]
        return self.pairs.distances(self.backend.numpy(self.beta.T @ M @ self.beta))

    def _form(self, v: Array) -> Any:
        return self.beta @ self.backend.matrix(self.pairs.laplacian(v)) @ self.beta.T

    def hessian_diagonal(self) -> Array:
        """P_cc for every pair, roughly: a few nodes t = e^s of 1/(d_a + d_b) = ∫ e^(−t d_a) e^(−t d_b) dt."""
        low, high = -math.log(float(self.d.max())) - 3, -math.log(float(self.d.min())) + 2
        count = max(4, math.ceil((high - low) * _NODES_PER_E))
        width = (high - low) / count
        total = np.zeros(len(self.q))
        for s in low + width * (np.arange(count) + 0.5):
            decay = self.backend.matrix(np.exp(-math.exp(s) * self.d / 2))
            damped = self.beta * decay[:, None]
            total += width * math.exp(s) * self.pairs.distances(self.backend.numpy(damped.T @ damped)) ** 2
        return total

    def columns(self) -> Array:
        """β_i and β_i − β_j, written out: for few."""
        beta = self.backend.numpy(self.beta)
        i, j = self.pairs.upper
        return np.hstack([beta, beta[:, i] - beta[:, j]])

    def moved(self, change: Array) -> DualNoise | None:
        """The noise of q + change to first order, as `DualPoint.moved`; the root is that of cells alone."""
        device = self.backend
        roots = device.matrix(np.sqrt(self.d))
        Sigma = self._form(change)
        Sigma *= roots[:, None] * roots[None, :]
        Sigma /= self._d[:, None] + self._d[None, :]
        Sigma = device.plus_diagonal((Sigma + Sigma.T) / 2, self.d)
        lower = device.cholesky(Sigma)
        if lower is None:
            return None
        total = float(Sigma.diagonal().sum())
        root = device.solve_lower(lower, self.beta * roots[:, None])
        return DualNoise(root, self.pairs.distances(device.numpy(root.T @ root)), total)
