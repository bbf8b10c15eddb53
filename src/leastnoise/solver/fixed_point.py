"""The least largest profile within caps by a fixed point, where steps of `path_following` are dear.

At the optimum every weight is what it is multiplied with here (`LeastProfile.growth`):

    p ← p v Σpc/(c F) ,   q ← q u Σq/F                                                                 (1)

The map rises in the dual; along fixed directions of a diagonal problem it is Newton's step. Anderson's
acceleration of (1), in logarithms, takes some tens of steps to a gap of 1e-7; a step that lowers the dual is
replaced by a plain one.

Reference:
    Denisov, McMahan, Rush, Smith and Thakurta (2022), for the fixed point of one block.
    Walker and Ni (2011), Anderson acceleration for fixed-point iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.capped_problems import CappedPoint, LeastProfile, N
from leastnoise.solver.path_following import BestSides

# Steps that an acceleration looks back on.
_DEPTH = 10

# Steps, at most: what has not converged by then goes on for long.
MAX_STEPS = 1_000

# Steps without a smaller gap after which a search ends.
_PATIENCE = 100

# Singular values of past moves below this share of the largest are left out.
_RCOND = 1e-10

# Logarithms of weights keep this distance from the largest: smaller weights change nothing that is seen.
_LEAST_LOG = -60.0


class Move(NamedTuple):
    """Logarithms of weights, and where one plain step leads to from there."""

    x: Array
    mapped: Array


def accelerated(past: Sequence[Move], *, rcond: float, scale: Array | float = 1.0) -> Array:
    """Where the last moves lead to together: the combination of them that moves least.

    Args:
        rcond: singular values below this share of the largest are left out.
        scale: what moves are multiplied with where they are compared.
    """
    last = past[-1].mapped
    if len(past) == 1:
        return last
    moves = np.array([(one.mapped - one.x) * scale for one in past])
    share = np.linalg.lstsq(np.diff(moves, axis=0).T, moves[-1], rcond=rcond)[0]
    return np.asarray(last - share @ np.diff(np.array([one.mapped for one in past]), axis=0))


def least_profile_by_fixed_point(
    evaluate: Callable[[Array, Array], N], problem: LeastProfile, *, tol: float, watch: Watch
) -> tuple[BestSides[CappedPoint[N]], int, Ended]:
    """The best of both sides from equal weights on, how many steps it took, and how it ended.

    Args:
        evaluate: what weights (p, q) give.
    """
    m, n = len(problem.caps), len(problem.offsets)

    def at(x: Array) -> tuple[CappedPoint[N], Move]:
        p, q = _weights(x[:m]), _weights(x[m:])
        point = problem.at(evaluate(p / float(p @ problem.caps), q / float(q.sum())))
        growth = np.maximum(problem.growth(point.mean), np.exp(_LEAST_LOG))
        return point, Move(x, x + np.log(growth))

    point, move = at(np.zeros(m + n))
    best, past = BestSides(point), list[Move]()
    best.compare(point)
    since = 0
    for step in range(1, MAX_STEPS + 1):
        watch.tell(step, best.gap)
        if best.gap <= tol:
            return best, step, "converged"
        if watch.deadline.is_past:
            return best, step, "deadline"
        if since >= _PATIENCE:
            break
        past = [*past[-_DEPTH + 1 :], move]
        before, gap = point.lower_bound, best.gap
        point, move = at(accelerated(past, rcond=_RCOND))
        if not point.lower_bound >= before * (1 - tol):
            # A plain step rises.
            point, move = at(past[-1].mapped)
            past = []
        best.compare(point)
        since = 0 if best.gap < gap else since + 1
    return best, step, "exhausted"


def _weights(x: Array) -> Array:
    return np.asarray(np.exp(np.maximum(x - x.max(), _LEAST_LOG)))
