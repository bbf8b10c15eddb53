"""What the simple ways would have cost: noise on every count, or on every cell.

Under the same privacy goal and without any shaping, noise on the m counts as they
are asked has one standard error for all, set by the person who appears in most of
them; noise on the n cells adds up in every count that sums many cells.

    every count   stderr_j = s · Δ(W)            (largest column norm)
    every cell    stderr_j = s · Δ(I) · ‖w_j‖₂   (w_j: row j of W; Δ(I) = 1)

with s = 1/μ and L2 norms for Gaussian noise, s = √2/ε and L1 for Laplace. Where a
record is replaced by another, Δ(W) is the largest norm of a column or of a difference
of two, and Δ(I) is √2 in L2 and 2 in L1, or 1 for a single cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leastnoise.operators import Array, Operator
from leastnoise.plan import Plan
from leastnoise.privacy import ApproxDP


@dataclass(frozen=True, eq=False)
class Baselines:
    """Standard errors of every count, (m,), had the noise not been shaped."""

    per_count: Array
    per_cell: Array


def baselines(plan: Plan) -> Baselines:
    """What noise on every count, or on every cell, would have cost under the plan's goal."""
    W = plan.workload.operator
    if plan.privacy.noise == "laplace":
        epsilon = plan.privacy.epsilon_per_record
        assert epsilon is not None
        unit, order = math.sqrt(2) / float(epsilon), 1
    else:
        mu_squared = plan.privacy.mu_squared
        assert mu_squared is not None
        unit, order = 1 / math.sqrt(mu_squared), 2
    per_count, per_cell = _sensitivities(plan, order)
    return Baselines(np.full(W.shape[0], unit * per_count), unit * per_cell * W.row_norms())


def least_pure_total(plan: Plan) -> float | None:
    """What simple Laplace noise at the plan's own ε reaches of its objective, the better of the two kinds.

    A plan for (ε, δ) may be beaten by noise that needs no δ at all, where few counts
    overlap. None for goals that name no ε, and where neither kind meets targets that must be met.
    """
    if not isinstance(plan.privacy, ApproxDP):
        return None
    W = plan.workload.operator
    unit = 2 * (plan.privacy.records_per_person / float(plan.privacy.epsilon)) ** 2
    per_count, per_cell = _sensitivities(plan, 1)
    kinds = [np.full(W.shape[0], unit * per_count**2), unit * per_cell**2 * W.row_norms() ** 2]
    caps = plan.objective.caps(plan.workload)
    if plan.objective.kind == "total-within-caps" and caps is not None:
        kinds = [variances for variances in kinds if (variances <= caps).all()]
    return min((plan.objective.value(plan.workload, variances) for variances in kinds), default=None)


def _sensitivities(plan: Plan, order: int) -> tuple[float, float]:
    """What one record changes in all counts and in all cells, in the L1 or the L2 norm."""
    W = plan.workload.operator
    if plan.privacy.neighbours == "add-remove":
        return float(W.column_norms(order).max()), 1.0
    return _largest_difference(W, order), 2 ** (1 / order) if W.shape[1] > 1 else 1.0


def _largest_difference(W: Operator, order: int) -> float:
    """The largest L1 or L2 norm of a column, or of the difference of two."""
    norms = W.column_norms(order)
    absolute = W.column_norms(1)
    # Where every entry is 0 or 1, |a − b| is (a − b)², and the Gram matrix knows all of them.
    is_binary = (
        W.is_integer
        and W.largest <= 1
        and np.array_equal(absolute, np.asarray(W.adjoint(np.ones(W.shape[0]))))
    )
    if order == 2 or is_binary:
        G = W.gram()
        squares = np.diag(G)
        largest = max(float((squares[i] + squares - 2 * G[i]).max()) for i in range(len(G)))
        return max(float(norms.max()), largest if order == 1 else math.sqrt(max(largest, 0)))
    entries = W.dense()
    falling = np.argsort(-norms)
    best = float(norms.max())
    for place, i in enumerate(falling):
        # ‖a − b‖ ≤ ‖a‖ + ‖b‖: most pairs need no look.
        others = falling[place + 1 :]
        others = others[norms[others] > best - norms[i]]
        if len(others) == 0:
            break
        best = max(best, float(np.abs(entries[:, others] - entries[:, [i]]).sum(axis=0).max()))
    return best
