"""The best weights of cross tables for a total of variances, by descent from several starts.

Tables t with weights θ_t ≥ 0 have the L1 sensitivity Σ_t θ_t. What they tell of the residuals of a set s of
attributes has precision x_s = Σ_t k_st θ_t², and a total of variances is, per unit of noise,

    (Σ_t θ_t)² Σ_s c_s/x_s                                                                            (1)

It is not convex in θ. L-BFGS-B minimises it from each start, and the best end is kept. `weighted_marginals`
and `weighted_tables` say what k and c are, in a few attributes or in many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending

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
    is_late: Callable[[], bool] = lambda: False,
) -> tuple[Array, float, Ended]:
    """θ with Σθ = 1 and the least (1) found from any of the starts, that total, and how the search ended.

    Args:
        steps: of the descent from each start, at most.
        is_late: whether to leave out the starts to come.
    """
    from scipy import optimize

    unit = float(costs.sum()) or 1.0
    scaled = costs / unit
    n = len(costs)
    best, least = np.ones(n) / n, math.inf
    endings: list[Ended] = []
    left = list(starts)
    while left:
        start = left.pop(0)
        ended = optimize.minimize(
            total_and_gradient,
            start,
            args=(known, scaled),
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(0, math.inf),
            options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-14, "gtol": 0},
        )
        theta = ended.x / ended.x.sum()
        for candidate in (np.where(theta > NEGLIGIBLE, theta, 0.0), theta):
            value = total_and_gradient(candidate, known, scaled)[0]
            if value < least:
                best, least = candidate / candidate.sum(), value
        endings.append(descent_ending(ended))
        if left and is_late():
            endings.append("deadline")
            break
    return best, least * unit, worst_ending(endings)


# What SciPy calls the end of L-BFGS-B at its limit of steps or of evaluations.
_LBFGSB_EXHAUSTED = 1


def descent_ending(result: Any) -> Ended:
    """How L-BFGS-B ended, from what `scipy.optimize.minimize` gives back.

    It also stops where its line search finds nothing lower: that is as far as it gets.
    """
    return "exhausted" if result.status == _LBFGSB_EXHAUSTED else "converged"
