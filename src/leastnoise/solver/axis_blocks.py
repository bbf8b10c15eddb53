"""The least total variance over one axis that every block measures by rows of its own.

Block s asks for rows R_s, (r_s, T), few of them over many values: a precision X_s for each, with

    minimise Σ_s trace(R_s X_s⁺ R_sᵀ)   subject to   Σ_s (X_s)_tt ≤ 1   for every value t                (1)

For any weights q of the values, with K_s = R_s diag(q) R_sᵀ,

    F = Σ_s trace K_s^½ ,   total ≥ F²/Σq                                                                (2)
    X_s = R_sᵀ K_s^−½ R_s   has the total F · max u ,   u_t = Σ_s (X_s)_tt                                (3)

as in `one_axis`, which has caps and matrices of all values; here matrices have r_s rows only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.descent import StopDescent, minimise_smooth
from leastnoise.solver.product_weights import BothSides

# Of the largest eigenvalue of K_s, what is taken as nothing.
_LEAST_EIGENVALUE = 1e-15

# A step that gains a smaller share of the value is rounding.
_STEP_TOL = 1e-12


@dataclass(frozen=True, eq=False)
class AxisBlocks:
    """The noise found.

    Attributes:
        roots: for every block A_s with A_sᵀA_s = X_s, (r_s, T).
        q: the weights of the values that prove most, Σq = 1.
        achieved, lower_bound: the total, and (2).
    """

    roots: list[Array]
    q: Array
    achieved: float
    lower_bound: float
    ended: Ended


def least_total_of_blocks(
    rows: Sequence[Array], *, tol: float, start: Array | None = None, deadline: Deadline = NEVER
) -> AxisBlocks:
    """X_s of least total variance, to a relative gap.

    Args:
        rows: R_s of every block, (r_s, T), of rank r_s.
        start: positive weights of the values to begin with, (T,); equal ones unless given.
    """
    best, n_values = BothSides(), rows[0].shape[1]

    def value(z: Array) -> tuple[float, Array]:
        q = z * z
        total, F = float(q.sum()), 0.0
        roots, u = [], np.zeros(n_values)
        for R in rows:
            eigenvalues, E = np.linalg.eigh((R * q) @ R.T)
            eigenvalues = np.maximum(eigenvalues, _LEAST_EIGENVALUE * eigenvalues[-1])
            F += float(np.sqrt(eigenvalues).sum())
            roots.append((E / eigenvalues**0.25).T @ R)
            u += (roots[-1] ** 2).sum(axis=0)
        worst = float(u.max())
        best.keep_weights(F * worst, lambda: [A / math.sqrt(worst) for A in roots])
        best.keep_dual(F * F / total, lambda: q / total)
        if best.are_within(tol):
            raise StopDescent
        return -2 * math.log(F) + math.log(total), 2 * z * (1 / total - u / F)

    first = np.full(n_values, n_values**-0.5) if start is None else np.sqrt(start / start.sum())
    found = minimise_smooth(value, first, tol=_STEP_TOL, n_pairs=20, deadline=deadline)
    ended: Ended = "converged" if best.are_within(tol) else found.ended
    return AxisBlocks(best.weights, best.dual, best.achieved, best.lower_bound, ended)
