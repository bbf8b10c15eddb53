"""Newton's method for the least total variance, certified at every step.

Maximising the bound F²/Σq is minimising the convex Σq − 2F(q) over q ≥ 0, where
the optimum has u_i = 1 for cells with q_i > 0 and u_i ≤ 1 for the others. The
variables are r = √q, in which

    gradient   2 r (1 − u)          Hessian   4 diag(r) P diag(r) + 2 diag(1 − u)

This has three merits. For independent cells the function is exactly quadratic.
A cell that ends with q_i = 0 has curvature 2(1 − u_i) > 0 there and leaves at a
quadratic rate, without any bookkeeping of active cells. And the Hessian needs
only products, two matrix products each, which conjugate gradients use sparingly:
prefix sums of 1,024 cells reach a gap of 6e-9 in 5 steps and 27 products.
Where u_i > 1 the second term is dropped: the matrix stays positive semidefinite,
and the term vanishes at the optimum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from leastnoise.operators import Array
from leastnoise.progress import Progress
from leastnoise.solver.backend import Backend, load_backend
from leastnoise.solver.dual import DualPoint, evaluate

MAX_STEPS = 200
MAX_PRODUCTS_PER_STEP = 120

# Conjugate gradients stop once the residual fell to this share. Tighter costs
# products, looser costs steps: 1e-2 was best on prefix, all and random ranges.
_FORCING = 1e-2

# One step changes √q by at most these factors.
_LEAST_FACTOR, _GREATEST_FACTOR = 0.05, 4.0

# Shares of the Newton step tried in turn.
_LENGTHS = (1.0, 0.5, 0.2, 0.05)

# Cells with a smaller share of all weight do not limit a step.
_HEAVY = 1e-6

# The share of the weight that would settle a violated cell alone; several such
# cells compete, so not all of it.
_REVIVAL = 0.3


# Below this gap, so many steps in a row without progress mean that rounding is all there is.
_ROUNDING_GAP, _PATIENCE = 1e-8, 5


@dataclass(frozen=True, eq=False)
class Solution:
    """The best noise found and the proof of how good it is.

    Attributes:
        root: β, (k, n): the strategy, scaled so that its largest column has norm 1.
        q: the dual weights, (n,), which prove the lower bound.
        achieved, lower_bound: total variance at profile 1, as the solver sees it.
        has_converged: whether the gap asked for was reached.
    """

    root: Array
    q: Array
    achieved: float
    lower_bound: float
    has_converged: bool
    steps: int
    seconds: float

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return self.achieved / self.lower_bound - 1


def minimise_total_variance(
    R: Array,
    *,
    tol: float,
    time_limit: float | None = None,
    backend: str = "numpy",
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """The noise of least total variance with privacy profile at most 1.

    minimise trace(V X⁺) over strategies X = AᵀA with diag X ≤ 1, where V = RᵀR.

    Args:
        R: (k, n), of rank k, every column nonzero.
        tol: the relative gap at which to stop.
        time_limit: seconds after which the best so far is returned.
        progress: called after every step.
    """
    started = time.monotonic()
    device = load_backend(backend)
    matrix = device.matrix(R)
    point = evaluate(matrix, _start(matrix, device), device)
    primal = dual = point
    least_gap, stalled = math.inf, 0
    for step in range(MAX_STEPS + 1):
        if point.achieved < primal.achieved:
            primal = point
        if point.lower_bound > dual.lower_bound:
            dual = point
        gap = primal.achieved / dual.lower_bound - 1
        seconds = time.monotonic() - started
        if progress is not None:
            progress(Progress(step, gap, seconds))
        stalled = 0 if gap < 0.9 * least_gap else stalled + 1
        least_gap = min(gap, least_gap)
        if gap <= tol or step == MAX_STEPS or (time_limit is not None and seconds > time_limit):
            break
        if gap < _ROUNDING_GAP and stalled >= _PATIENCE:
            break
        following = _step(matrix, point)
        if following is None:
            break
        point = following
    root = device.numpy(primal.beta) / math.sqrt(float(primal.u.max()))
    return Solution(
        root=root,
        q=dual.q,
        achieved=primal.achieved,
        lower_bound=dual.lower_bound,
        has_converged=gap <= tol,
        steps=step,
        seconds=time.monotonic() - started,
    )


def _start(R: Array, device: Backend) -> Array:
    """The diagonal of V^½, by one decomposition of R Rᵀ: near the optimum on every workload tried."""
    values, U = device.eigh(R @ R.T)
    # V^½ = Rᵀ (R Rᵀ)^{−½} R.
    values = np.maximum(device.numpy(values), np.finfo(float).tiny)
    B = (U.T @ R) / device.matrix(values**0.25)[:, None]
    start = device.numpy((B**2).sum(0))
    return np.maximum(start, 1e-12 * start.max())


def _step(R: Array, point: DualPoint) -> DualPoint | None:
    """The next point, with a bound no worse, or None where rounding leaves none."""
    r = np.sqrt(point.q)
    curvature = point.hessian_diagonal()
    direction = _newton_direction(point, r, curvature)
    # A few roundings below counts as no worse: at the end only u still moves. The
    # weakest direction of T is rounded beside the strongest, which magnifies them.
    slack = min(max(1e-13, 1e-15 * float(point.d.max() / point.d.min())), 1e-10)
    floor = point.lower_bound * (1 - slack)
    # What the quadratic model promises of the full step. A trial that keeps a tenth of its
    # share is taken at once; otherwise the best of all.
    promised = max(float(r * (point.u - 1) @ direction), 0.0)
    best: DualPoint | None = None
    for trial, share in _trials(point, r, direction, curvature):
        candidate = evaluate(R, trial**2, point.backend)
        if best is None or candidate.lower_bound > best.lower_bound:
            best = candidate
        if best.lower_bound >= floor + 0.1 * share * promised:
            break
    return best if best is not None and best.lower_bound >= floor else None


def _trials(point: DualPoint, r: Array, direction: Array, curvature: Array) -> Iterator[tuple[Array, float]]:
    """Values of r to try in turn, each with its share of the full Newton step."""
    # In r, a cell sent to zero would stay there. One whose constraint is violated
    # gets back a share of the weight that would settle it if it were alone.
    alone = np.maximum(point.u - 1, 0) / curvature
    for length in _LENGTHS:
        stepped = np.clip(r + length * direction, _LEAST_FACTOR * r, _GREATEST_FACTOR * r)
        yield np.maximum(stepped, np.sqrt(length * _REVIVAL * alone)), length
    # Where cells outnumber the directions that tell them apart, the curvature is zero along
    # some combinations and the step huge: follow it only until the first cell is emptied.
    heavy = point.q > _HEAVY * point.q.sum()
    relative = direction[heavy] / r[heavy]
    reach = max(float(relative.max()) / (_GREATEST_FACTOR - 1), -float(relative.min()) / (1 - _LEAST_FACTOR))
    share = 1 / max(reach, 1.0)
    yield np.clip(r + share * direction, _LEAST_FACTOR * r, _GREATEST_FACTOR * r), share
    # Where the step relies on a violated cell that has hardly any weight yet, give it some first.
    for part in (_REVIVAL, _REVIVAL / 10):
        yield np.maximum(r, np.sqrt(part * alone)), 1.0
    # Last resort: q ← q ∘ u raises the bound from anywhere, slowly.
    yield r * np.sqrt(point.u), 1.0


def _newton_direction(point: DualPoint, r: Array, curvature: Array) -> Array:
    """The solution of (4 rPr + 2 max(1 − u, 0)) x = −2 r (1 − u), by conjugate gradients."""
    damping = 2 * np.maximum(1 - point.u, 0)
    diagonal = 4 * point.q * curvature + damping
    diagonal = np.maximum(diagonal, 1e-12 * diagonal.max())
    x = np.zeros_like(r)
    residual = 2 * r * (point.u - 1)
    z = residual / diagonal
    direction = z
    rho = first = float(residual @ z)
    for _ in range(MAX_PRODUCTS_PER_STEP):
        if rho <= _FORCING**2 * first or rho == 0:
            break
        image = 4 * r * point.hessian_product(r * direction) + damping * direction
        bend = float(direction @ image)
        if bend <= 0:
            break
        x = x + (rho / bend) * direction
        residual = residual - (rho / bend) * image
        z = residual / diagonal
        rho, previous = float(residual @ z), rho
        direction = z + (rho / previous) * direction
    return x
