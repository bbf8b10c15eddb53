"""The least total variance of maps whose Hessian is dear or nearly singular, by a quasi-Newton method.

With q = z² the function log Σq − 2 log F has no constraint, and slopes 2 z (1 − u)/Σq. Over tables that
products cross, products of the Hessian take passes over all cells, so that Newton's method takes twice as
long; over products of rows it is so nearly singular that Newton's method stalls at gaps of 1e-3.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core.deadline import Listener, Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.descent import StopDescent, minimise_smooth
from leastnoise.solver.maps import SmoothMap
from leastnoise.solver.optimum import Best, Optimum

# Of equal shares, what a cell starts with at least: q = z² does not leave zero.
_LEAST_SHARE = 1e-2

# A step that gains a smaller share of the value is rounding.
_STEP_TOL = 1e-15

# Steps, at most.
_MAX_STEPS = 2_000


def least_total_by_descent(
    cells: SmoothMap,
    *,
    tol: float,
    time_limit: float | None = None,
    progress: Listener | None = None,
    start: Array | None = None,
) -> Optimum:
    """The noise of least total variance with privacy profile at most 1.

    Args:
        tol: the relative gap at which to stop.
        time_limit: seconds after which the best so far is returned.
        progress: called after every step.
        start: weights q to begin with, (n,), positive somewhere; equal ones unless given.
    """
    watch = Watch.starting(time_limit, progress)
    first = np.ones(cells.n) if start is None else np.maximum(start, _LEAST_SHARE * float(start.mean()))
    best: Best | None = None

    def value(z: Array) -> tuple[float, Array]:
        nonlocal best
        total = float(z @ z)
        point = cells.evaluate(z * z)
        if best is None:
            best = Best.starting(point)
        elif point.achieved < best.noise.achieved:
            best.take(point.noise)
        best.take_bound(point)
        best.steps += 1
        watch.tell(best.steps, best.gap)
        if best.gap <= tol:
            raise StopDescent
        return -math.log(point.lower_bound), 2 * z * (1 - point.u) / total

    found = minimise_smooth(
        value,
        np.sqrt(first / float(first.sum())),
        tol=_STEP_TOL,
        max_steps=_MAX_STEPS,
        n_pairs=20,
        deadline=watch.deadline,
    )
    assert best is not None
    ended: Ended = "converged" if best.gap <= tol else found.ended
    best.ended = ended
    return best.optimum(tol, watch, cells.backend, "quasi-Newton method")
