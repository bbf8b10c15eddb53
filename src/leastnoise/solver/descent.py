"""L-BFGS-B on a smooth function, until it converges or its deadline."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended

# What SciPy calls the end of L-BFGS-B at its limit of steps or of evaluations.
_LIMIT_REACHED = 1


class StopDescent(Exception):
    """Raised by a function that is minimised, to end the descent there."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended.

    Attributes:
        x: its last point; where it was cut short, the lowest one that was evaluated.
        value: the function there.
        steps: how many steps were taken, or evaluations where it was cut short.
        ended: how it ended. Where the line search finds nothing lower, it has converged.
    """

    x: Array
    value: float
    steps: int
    ended: Ended


def minimise_smooth(
    value_and_gradient: Callable[[Array], tuple[float, Array]],
    start: Array,
    *,
    tol: float,
    max_steps: int | None = None,
    max_evaluations: int | None = None,
    least: float = -math.inf,
    most: float = math.inf,
    n_pairs: int = 10,
    deadline: Deadline = NEVER,
) -> Descent:
    """Where L-BFGS-B ends from a start, (n,).

    Args:
        value_and_gradient: the function and its gradient, (n,); it may raise `StopDescent`.
        tol: the share of the value that a step must gain to go on.
        max_steps, max_evaluations: the limits of the descent; 15,000 unless given.
        least, most: bounds on every variable.
        n_pairs: how many pairs of steps and gradients stand for the Hessian.
        deadline: looked at after every evaluation.
    """
    from scipy import optimize

    lowest, value, n_evaluations = np.array(start), math.inf, 0

    def evaluate(x: Array) -> tuple[float, Array]:
        nonlocal lowest, value, n_evaluations
        here, gradient = value_and_gradient(x)
        n_evaluations += 1
        if here < value:
            lowest, value = x.copy(), here
        if deadline.is_past:
            raise StopDescent
        return here, gradient

    limits = {"maxiter": max_steps, "maxfun": max_evaluations}
    options = {name: limit for name, limit in limits.items() if limit is not None}
    is_bounded = math.isfinite(least) or math.isfinite(most)
    try:
        found = optimize.minimize(
            evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(least, most) if is_bounded else None,
            options={**options, "maxcor": n_pairs, "ftol": tol, "gtol": 0.0},
        )
    except StopDescent:
        return Descent(lowest, value, n_evaluations, "deadline" if deadline.is_past else "exhausted")
    ended: Ended = "exhausted" if found.status == _LIMIT_REACHED else "converged"
    return Descent(found.x, float(found.fun), int(found.nit), ended)
