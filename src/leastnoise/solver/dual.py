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

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from leastnoise.operators import Array
from leastnoise.solver.backend import Backend

# Below this ratio of eigenvalues of T, squaring has cost too many digits of the
# small ones, and a singular value decomposition of R diag(√q) is taken instead.
_EIGH_RATIO = 1e-8


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
    def achieved(self) -> float:
        """F · max u: the total variance of this point's noise, scaled to profile 1."""
        return self.F * float(self.u.max())

    def hessian_product(self, v: Array) -> Array:
        """P v, two matrix products."""
        device = self.backend
        M = (self.beta * device.matrix(v)) @ self.beta.T
        M *= self._kernel
        return device.numpy(((M @ self.beta) * self.beta).sum(0))

    def hessian_diagonal(self) -> Array:
        """P_ii for every cell, one matrix product."""
        squares = self.beta**2
        return self.backend.numpy(((self._kernel @ squares) * squares).sum(0))

    @cached_property
    def _kernel(self) -> Any:
        d = self.backend.matrix(self.d)
        return 1 / (d[:, None] + d[None, :])


def evaluate(R: Any, q: Array, backend: Backend) -> DualPoint:
    """The dual function at q, scaled so that Σq = F(q).

    The bound does not change with the scale of q; at this one, the optimum has
    u = 1 wherever q > 0.
    """
    # T without naming its square root: one product and one eigendecomposition.
    squares, U = backend.eigh((R * backend.matrix(q)) @ R.T)
    values = backend.numpy(squares)
    if values[0] > _EIGH_RATIO * values[-1]:
        d = np.sqrt(values)
    else:
        values, U = backend.left_singular(R * backend.matrix(np.sqrt(q)))
        d = np.maximum(backend.numpy(values), np.finfo(float).tiny)
    # q scaled by s scales d by √s and β by s^(−1/4); s makes Σq equal to Σd.
    s = (float(d.sum()) / float(q.sum())) ** 2
    d = d * np.sqrt(s)
    beta = (U.T @ R) / backend.matrix(np.sqrt(d))[:, None]
    return DualPoint(q * s, d, beta, backend.numpy((beta**2).sum(0)), backend)
