"""What the simple ways would have cost: noise on every count, or on every cell.

Under the same privacy goal and without any shaping, noise on the m counts as they
are asked has one standard error for all, set by the person who appears in most of
them; noise on the n cells adds up in every count that sums many cells.

    every count   stderr_j = s · ‖W‖      (largest column norm)
    every cell    stderr_j = s · ‖w_j‖₂   (w_j: row j of W)

with s = 1/μ and L2 column norms for Gaussian noise, s = √2/ε and L1 for Laplace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leastnoise.operators import Array
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
    if plan.strategy.noise == "laplace":
        epsilon = plan.privacy.epsilon_per_record
        assert epsilon is not None
        unit, largest = math.sqrt(2) / float(epsilon), W.column_norms(1).max()
    else:
        mu_squared = plan.privacy.mu_squared
        assert mu_squared is not None
        unit, largest = 1 / math.sqrt(mu_squared), W.column_norms(2).max()
    return Baselines(np.full(W.shape[0], unit * float(largest)), unit * W.row_norms())


def least_pure_total(plan: Plan) -> float | None:
    """The total variance of simple Laplace noise at the plan's own ε, the better of the two kinds.

    A plan for (ε, δ) may be beaten by noise that needs no δ at all, where few counts
    overlap. None for goals that name no ε.
    """
    if not isinstance(plan.privacy, ApproxDP):
        return None
    W, weights = plan.workload.operator, plan.workload.weights
    unit = 2 * (plan.privacy.records_per_person / float(plan.privacy.epsilon)) ** 2
    per_count = float(W.column_norms(1).max()) ** 2 * float(weights.sum())
    per_cell = float(np.sum(weights * W.row_norms() ** 2))
    return unit * min(per_count, per_cell)
