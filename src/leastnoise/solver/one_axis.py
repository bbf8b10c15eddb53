"""The least largest variance where all attributes but one are asked value by value, for very many rows.

Nothing changes when the values of the other attributes are renamed, so the optimum is diagonal in their
residuals: a precision matrix X_s over the values t of the one axis for every set s of other attributes. A row
w of the axis has in product j the variance Σ_s a_js w X_s⁻¹ wᵀ, and a record with value t costs Σ_s (X_s)_tt.
With weights p on rows, H_s = Σ_j a_js W_jᵀ diag(p_j) W_j, and weights q on values, the map has the blocks
S = H_s and T = Q = diag(q), so that

    F(p, q) = Σ_s tr(S_s),   S_s = (Q^½ H_s Q^½)^½ ,   X_s = Q^-½ S_s Q^-½                               (1)

needs one decomposition of each and no more products than there are products of queries. `capped` reaches
smaller gaps, and is quicker up to a thousand rows and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.solver.capped import Run
from leastnoise.solver.capped_problems import LeastProfile
from leastnoise.solver.fixed_point import least_profile_by_fixed_point
from leastnoise.solver.mean import WeightedNoise
from leastnoise.solver.optimum import Optimum

# Eigenvalues below this share of the largest are directions that nothing asks for.
_WEAK = 1e-13


@dataclass(frozen=True, eq=False)
class _AxisNoise(WeightedNoise):
    """(1) at one point, with the eigenvalues, (blocks, T), and vectors of S_s."""

    values: Array
    vectors: Array

    def roots(self) -> list[Array]:
        """R_s with R_sᵀR_s = X_s, scaled to a largest profile of 1."""
        scaled = np.sqrt(self.values / float(self.u.max()))[:, :, None] * np.swapaxes(self.vectors, 1, 2)
        return list(scaled / np.sqrt(self.q))


@dataclass(frozen=True, eq=False)
class OneAxisRows:
    """The map of (1).

    Attributes:
        rows: W_j, (m_j, T), for every product; every value is counted by some row.
        shares: a_js, (products, blocks).
    """

    rows: Sequence[Array]
    shares: Array

    def evaluate(self, p: Array, q: Array) -> _AxisNoise:
        """The noise of weights of all rows and values."""
        ends = np.cumsum([len(W) for W in self.rows])[:-1]
        grams = np.array([(W.T * own) @ W for W, own in zip(self.rows, np.split(p, ends), strict=True)])
        root = np.sqrt(q)
        H = np.tensordot(self.shares.T, grams, axes=1)
        values, vectors = np.linalg.eigh(H * root[:, None] * root)
        values = np.sqrt(np.maximum(values, 0.0))
        u = np.einsum("stk,sk,stk->t", vectors, values, vectors, optimize=True) / q
        known = values > _WEAK * values.max(axis=1, keepdims=True)
        inverse = np.where(known, 1 / np.where(known, values, 1.0), 0.0)
        # Q^½ V S^-½ of every block: w times it has the square length wanted.
        gains = root[None, :, None] * vectors * np.sqrt(inverse)[:, None, :]
        v = []
        for W, share in zip(self.rows, self.shares, strict=True):
            blocks = np.flatnonzero(share)
            v.append(share[blocks] @ ((W @ gains[blocks]) ** 2).sum(axis=2))
        return _AxisNoise(p, q, float(values.sum()), np.concatenate(v), u, 0.0, True, values, vectors)


def least_largest_over_one_axis(rows: OneAxisRows, caps: Array, run: Run) -> Optimum:
    """X_s with the least largest v/c at profile 1, and its proof; caps of all rows, (m,)."""
    n = rows.rows[0].shape[1]
    problem = LeastProfile(caps, np.zeros(n))
    best, steps, ended = least_profile_by_fixed_point(rows.evaluate, problem, tol=run.tol, watch=run.watch)
    proof = best.proof.mean
    return Optimum(
        roots=best.best.mean.roots(),
        q=proof.q,
        achieved=best.achieved,
        lower_bound=best.lower_bound,
        has_converged=best.gap <= run.tol,
        steps=steps,
        seconds=run.watch.seconds,
        ended=ended,
        how="a fixed point",
        p=proof.p,
    )
