"""The best weights of cross tables for a total of variances, by descent from several starts.

Tables t with weights θ_t ≥ 0 have the L1 sensitivity Σ_t θ_t. What they tell of the residuals of a set s of
attributes has precision x_s = Σ_t k_st θ_t², and a total of variances is, per unit of noise,

    (Σ_t θ_t)² Σ_s c_s/x_s                                                                            (1)

It is not convex in θ. L-BFGS-B minimises it from each start, and the best end is kept. `weighted_marginals`
and `weighted_tables` say what k and c are, in a few attributes or in many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.solver import minimise_smooth

# Tables whose weight is below this share of all do not pay for their noise.
NEGLIGIBLE = 1e-7


def total_and_gradient(theta: Array, known: Any, costs: Array) -> tuple[float, Array]:
    """(1) and its gradient; infinite where something asked is not measured.

    Args:
        known: k, sets by tables, an array or a sparse matrix.
        costs: c, zero for sets that nothing is asked of.
    """
    x = known @ theta**2
    asked = costs > 0
    if (x[asked] <= 0).any():
        return math.inf, np.zeros_like(theta)
    safe = np.where(asked, x, 1.0)
    each = np.where(asked, costs / safe, 0.0)
    spread, noise = float(theta.sum()), float(each.sum())
    falling = known.T @ np.where(asked, each / safe, 0.0)
    return spread**2 * noise, 2 * spread * noise - 2 * spread**2 * theta * falling


def uneven_starts(n: int, number: int, *, seed: int = 0) -> list[Array]:
    """So many starts of n weights: even ones first, then ever more uneven ones."""
    generator = np.random.default_rng(seed)
    return [generator.random(n) ** power for power in range(number)]


def least_total(
    known: Any,
    costs: Array,
    starts: Iterable[Array],
    *,
    steps: int,
    deadline: Deadline = NEVER,
) -> tuple[Array, float, Ended]:
    """θ with Σθ = 1 and the least (1) found from any of the starts, that total, and how the search ended.

    Args:
        steps: of the descent from each start, at most.
        deadline: after which the starts to come are left out.
    """
    unit = float(costs.sum()) or 1.0
    scaled = costs / unit
    n = len(costs)
    best, least = np.ones(n) / n, math.inf
    endings: list[Ended] = []
    left = list(starts)
    while left:
        start = left.pop(0)
        found = minimise_smooth(
            lambda theta: total_and_gradient(theta, known, scaled),
            start,
            tol=1e-14,
            max_steps=steps,
            max_evaluations=2 * steps,
            least=0.0,
        )
        theta = found.x / found.x.sum()
        for candidate in (np.where(theta > NEGLIGIBLE, theta, 0.0), theta):
            value = total_and_gradient(candidate, known, scaled)[0]
            if value < least:
                best, least = candidate / candidate.sum(), value
        endings.append(found.ended)
        if left and deadline.is_past:
            endings.append("deadline")
            break
    return best, least * unit, worst_ending(endings)
