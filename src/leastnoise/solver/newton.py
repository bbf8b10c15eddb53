"""The least total variance for any map, by Newton's method, certified at every step.

Maximising the bound F²/Σq is minimising the convex Σq − 2F(q) over q ≥ 0, where
the optimum has u_i = 1 for cells with q_i > 0 and u_i ≤ 1 for the others. The
variables are r = √q, in which

    gradient   2 r (1 − u)          Hessian   4 diag(r) P diag(r) + 2 diag(1 − u)

This has three merits. For independent cells the function is exactly quadratic.
A cell that ends with q_i = 0 has curvature 2(1 − u_i) > 0 there and leaves at a
quadratic rate, without any bookkeeping of active cells. And the Hessian needs
only products, about one matrix product each, which conjugate gradients use sparingly.
Where u_i > 1 the second term is dropped: the matrix stays positive semidefinite,
and the term vanishes at the optimum.

The bound is nearer to the optimum than the noise by a square, because q maximises it.
So the last step needs no decomposition: once the bound is near enough, the noise of the
next point to first order is taken (`CurvedPoint.moved`). The first q is diag V^½, known from
factors with orthogonal rows. For any others, where neighbouring cells are alike, as along an
ordered attribute, it comes from the problem with half as many cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import numpy as np

from leastnoise.core.backend import Backend, load_backend
from leastnoise.core.deadline import Deadline, Listener, Watch
from leastnoise.core.operators import Array
from leastnoise.solver.conjugate_gradients import conjugate_gradients
from leastnoise.solver.dual import CurvedPoint
from leastnoise.solver.maps import Columns, Map
from leastnoise.solver.optimum import Best, Optimum

# Newton steps of one search, at most.
MAX_STEPS = 200

# Products of conjugate gradients per Newton step, at most.
MAX_PRODUCTS_PER_STEP = 120

# Conjugate gradients stop once the residual fell to this share, or to the gap where that is
# less: a step squares the gap, so more would be lost on it, and less would cost another step.
_FORCING = 2e-2

# One step multiplies √q by at least this factor.
_LEAST_FACTOR = 0.05

# One step multiplies √q by at most this factor.
_GREATEST_FACTOR = 4.0

# A cell that leaves is divided by hundreds at every step; no further than this share of the largest √q.
_LEAST_ROOT = 1e-50

# Shares of the Newton step tried in turn.
_LENGTHS = (1.0, 0.5, 0.2, 0.05)

# Cells with a smaller share of all weight do not limit a step, unless their constraint is nearly active.
_HEAVY = 1e-6

# A constraint is nearly active where u is this near to 1.
_NEARLY_ACTIVE = 1e-2

# The share of the weight that would settle a violated cell alone; several such
# cells compete, so not all of it.
_REVIVAL = 0.3

# Below this gap, steps without progress may mean that rounding is all there is.
_ROUNDING_GAP = 1e-8

# Steps in a row without progress after which it is.
_PATIENCE = 5

# Steps in a row without progress after which another method is surer, whatever the gap.
_STUCK = 12

# No first weight is below this share of the largest: a cell at zero would have to be revived.
_LEAST_START = 1e-12

# The gap to which the coarser problem is solved.
_COARSE_TOL = 1e-3

# The optimum of a few cells is sought first where noise is at most this many times half as many numbers.
_FEW = 1.5

# Steps q ← q ∘ u² with which maps other than columns begin, at most. Near the optimum a step multiplies
# errors by 1 − 2λ with 0 ≤ λ ≤ ½, because P ≥ 0 and P q = u/2; higher powers overshot.
_FIRST_STEPS = 30

# The gap at which they end. Prefix sums over all pairs of 300 cells take 30 of them, each as long as two or
# three products of a Newton step; from weights far from the optimum Newton's method may not get away.
_FIRST_GAP = 3e-3

# Steps q ← q ∘ u after which the few cells are chosen.
_WARMING = 5

# Rounds in which they are chosen again, at most.
_ROUNDS = 20

# The model is minimised with its constraints where it has at most this many entries.
_MODEL_ENTRIES = 2**17


def least_total(
    cells: Map | Array,
    *,
    tol: float,
    time_limit: float | None = None,
    backend: str | Backend = "numpy",
    progress: Listener | None = None,
    start: Array | None = None,
) -> Optimum:
    """The noise of least total variance with privacy profile at most 1.

    For one block of columns R: minimise trace(V X⁺) over strategies X = AᵀA with diag X ≤ 1, where V = RᵀR.

    Args:
        cells: a map; or R itself, (k, n), of rank k, every column nonzero, on the backend or not.
        tol: the relative gap at which to stop.
        time_limit: seconds after which the best so far is returned.
        backend: of R, the name of one, or one; a map has its own.
        progress: called after every step.
        start: weights q to begin with, (n,), as those of a similar problem; found unless given.
    """
    watch = Watch.starting(time_limit, progress)
    if hasattr(cells, "evaluate"):
        mapped = cast(Map, cells)
    else:
        mapped = Columns([cells], load_backend(backend) if isinstance(backend, str) else backend)
    return _minimise(mapped, tol, watch, start).optimum(tol, watch, mapped.backend)


def _minimise(cells: Map, tol: float, watch: Watch, start: Array | None = None) -> Best:
    """The best noise and weights for a map."""
    deadline = watch.deadline
    q = _first_weights(cells, deadline) if start is None else np.asarray(start, dtype=float)
    if not isinstance(cells, Columns):
        q = _approached(cells, q, max(tol, _FIRST_GAP), deadline)
    point = cells.evaluate(np.maximum(q, _LEAST_START * q.max()))
    best = Best.starting(point)
    least_gap, previous, stalled, late = math.inf, math.inf, 0, 0
    while True:
        gap = best.gap
        watch.tell(best.steps, gap)
        # The point itself may be behind noise taken to first order, and still catching up.
        own = point.achieved / point.lower_bound - 1
        stalled = 0 if gap < 0.9 * least_gap or own < 0.5 * previous else stalled + 1
        least_gap, previous = min(gap, least_gap), own
        late += gap < _ROUNDING_GAP
        if gap <= tol:
            return best
        if deadline.is_past or best.steps == MAX_STEPS:
            best.ended = "deadline" if deadline.is_past else "exhausted"
            return best
        if stalled >= _STUCK:
            best.ended = "exhausted"
            return best
        if gap < _ROUNDING_GAP and (stalled >= _PATIENCE or late >= 4 * _PATIENCE):
            return best
        following = _step(cells, point, best, tol, deadline)
        if following is None:
            # A step that was cut short need not find what a whole one would.
            best.ended = deadline.ending
            return best
        best.steps += 1
        point = following
        best.take(point.noise)
        best.take_bound(point)


def _step(cells: Map, point: CurvedPoint, best: Best, tol: float, deadline: Deadline) -> CurvedPoint | None:
    """The next point, with a bound no worse, or None where rounding leaves none.

    The same point, if its first-order neighbour already closed the gap.
    """
    r = np.sqrt(point.q)
    curvature = point.hessian_diagonal()
    direction = _newton_direction(point, r, curvature, _forcing(best.gap, tol), deadline)
    # A few roundings below counts as no worse: at the end only u still moves. The
    # weakest direction of T is rounded beside the strongest, which magnifies them.
    slack = min(max(1e-13, 1e-15 * point.spread), 1e-10)
    floor = point.lower_bound * (1 - slack)
    # What the quadratic model promises of the full step. A trial that keeps a tenth of its
    # share is taken at once; otherwise the best of all.
    promised = max(float(r * (point.u - 1) @ direction), 0.0)
    trials = _trials(point, r, direction, curvature)
    first, share = next(trials)
    if promised <= tol * point.lower_bound:
        noise = point.moved(first**2 - point.q)
        if noise is not None:
            best.take(noise)
            if best.gap <= tol:
                return point
    following: CurvedPoint | None = None
    trial: Array | None = first
    while trial is not None:
        candidate = cells.evaluate(np.maximum(trial, _LEAST_ROOT * trial.max()) ** 2)
        if following is None or candidate.lower_bound > following.lower_bound:
            following = candidate
        if following.lower_bound >= floor + 0.1 * share * promised or deadline.is_past:
            break
        trial, share = next(trials, (None, 0.0))
    return following if following is not None and following.lower_bound >= floor else None


def _forcing(gap: float, tol: float) -> float:
    """How far the residual of a Newton step must fall; never further than the gap asked for needs."""
    return max(min(_FORCING, gap), 0.1 * tol / gap)


def _trials(
    point: CurvedPoint, r: Array, direction: Array, curvature: Array
) -> Iterator[tuple[Array, float]]:
    """Values of r to try in turn, each with its share of the full Newton step."""
    # In r, a cell sent to zero would stay there. One whose constraint is violated
    # gets back a share of the weight that would settle it if it were alone.
    alone = np.maximum(point.u - 1, 0) / curvature
    stepped = [
        np.maximum(
            np.clip(r + length * direction, _LEAST_FACTOR * r, _GREATEST_FACTOR * r),
            np.sqrt(length * _REVIVAL * alone),
        )
        for length in _LENGTHS
    ]
    # Where cells outnumber the directions that tell them apart, the curvature is zero along some
    # combinations and the step huge. It then moves weight from cells to others that serve better,
    # along a line in q, not in r: followed until the first heavy cell is emptied.
    change = 2 * r * direction
    heavy = point.q > _HEAVY * point.q.sum()
    limiting = heavy | ((np.abs(point.u - 1) < _NEARLY_ACTIVE) & (point.q > _LEAST_START * point.q.sum()))
    reach = max(-float((change[limiting] / point.q[limiting]).min()) / (1 - _LEAST_FACTOR**2), 1.0)
    straight = np.sqrt(np.maximum(point.q + change / reach, _LEAST_FACTOR**2 * point.q))
    trials = [*zip(stepped, _LENGTHS, strict=True), (straight, 1 / reach)]
    # Products are cheap where directions are few, so the model in q is asked what to try first.
    if point.n_numbers <= 2 * heavy.sum():
        trials += _towards_model_optimum(point)
        gains = [_model_gain(point, trial) for trial, _ in trials]
        yield from (trials[i] for i in np.argsort(-np.array(gains), kind="stable"))
    else:
        yield from trials
        yield from _towards_model_optimum(point)
    # Where the step relies on a violated cell that has hardly any weight yet, give it some first.
    for part in (_REVIVAL, _REVIVAL / 10):
        yield np.maximum(r, np.sqrt(part * alone)), 1.0
    # Last resort: q ← q ∘ u raises the bound from anywhere, slowly.
    yield r * np.sqrt(point.u), 1.0


def _towards_model_optimum(point: CurvedPoint) -> list[tuple[Array, float]]:
    """Values of r on the way to the best q of the model, each with its share of it; none if too dear."""
    best = _model_optimum(point)
    if best is None:
        return []
    floor = _LEAST_FACTOR**2 * point.q
    return [(np.sqrt(np.maximum(point.q + t * (best - point.q), floor)), t) for t in _LENGTHS]


def _model_optimum(point: CurvedPoint) -> Array | None:
    """The q ≥ 0 at which the quadratic model in q is least, or None where that is too much work.

    P = GᵀG, and F has degree ½ in q, so u = 2 P q, and up to a constant the model Σq' − 2F is
    ½‖G q' − 3 G q‖² + Σq'. With (Σq')²/(2F) for the last term, of the same slope at q, this is a problem of
    least squares.
    """
    from scipy.optimize import nnls

    n = len(point.q)
    own = None if point.n_numbers * n > _MODEL_ENTRIES else point.hessian_root()
    if own is None:
        return None
    G = np.vstack([own, np.full((1, n), 1 / math.sqrt(point.F))])
    target = 3 * (G @ point.q)
    target[-1] = 0
    try:
        return np.asarray(nnls(G, target)[0])
    except RuntimeError:  # too many exchanges
        return None


def _model_gain(point: CurvedPoint, r: Array) -> float:
    """What the quadratic model in q promises of going to √q = r."""
    change = r**2 - point.q
    return float((point.u - 1 - 0.5 * point.hessian_product(change)) @ change)


def _newton_direction(
    point: CurvedPoint, r: Array, curvature: Array, forcing: float, deadline: Deadline
) -> Array:
    """The solution of (4 rPr + 2 max(1 − u, 0)) x = −2 r (1 − u), by conjugate gradients."""
    damping = 2 * np.maximum(1 - point.u, 0)
    diagonal = 4 * point.q * curvature + damping
    diagonal = np.maximum(diagonal, 1e-12 * diagonal.max())
    return conjugate_gradients(
        lambda x: 4 * r * point.hessian_product(r * x) + damping * x,
        lambda residual: residual / diagonal,
        2 * r * (point.u - 1),
        tol=forcing,
        max_products=MAX_PRODUCTS_PER_STEP,
        deadline=deadline,
    ).x


# Where to begin ------------------------------------------------------------------------------


def _first_weights(cells: Map, deadline: Deadline) -> Array:
    """Weights near the optimum.

    Of columns in order, the optimum of a coarser problem; where directions are few, that of a few cells.
    """
    if not isinstance(cells, Columns):
        return cells.first_weights()
    halves = cells.halves()
    if halves is not None:
        return _refined(_minimise(cells.merged(*halves), _COARSE_TOL, Watch(deadline)).q, *halves)
    q = cells.first_weights()
    return _weights_of_few(cells, q, deadline) if 2 * cells.n_numbers <= _FEW * cells.n else q


def _approached(cells: Map, q: Array, tol: float, deadline: Deadline) -> Array:
    """Weights nearer to the optimum, by steps that need one evaluation each."""
    achieved, bound = math.inf, 0.0
    for _ in range(_FIRST_STEPS):
        point = cells.evaluate(q)
        achieved, bound = min(achieved, point.achieved), max(bound, point.lower_bound)
        if achieved <= (1 + tol) * bound or deadline.is_past:
            break
        q = point.q * point.u**2
    return q


def _weights_of_few(cells: Columns, q: Array, deadline: Deadline) -> Array:
    """Weights of the few cells that matter, for others zero.

    k(k + 1)/2 cells can carry the optimum. Many more leave the Hessian singular, and Newton's
    method empties them one by one: 3 random queries over 200 cells took up to 228
    decompositions. So cells that ask for weight are taken, and more where a constraint is violated.
    """
    k = sum(len(R) for R in cells.blocks)
    for _ in range(_WARMING):
        point = cells.evaluate(q)
        q = point.q * point.u
    # Half of those that could matter, or a few more of each direction.
    size = max(4 * k, cells.n_numbers // 2)
    # These alone tell all directions apart.
    chosen = np.zeros(cells.n, dtype=bool)
    chosen[cells.spanning] = True
    chosen[np.argsort(-q)[:size]] = True
    for _ in range(_ROUNDS):
        index = np.flatnonzero(chosen)
        found = _minimise(cells.take(index), _COARSE_TOL, Watch(deadline), start=q[index])
        q = np.zeros(cells.n)
        q[index] = found.q
        point = cells.evaluate(q)
        if point.u.max() <= 1 + _COARSE_TOL or deadline.is_past:
            break
        chosen = q > _HEAVY * q.sum()
        chosen[cells.spanning] = True
        chosen[np.argsort(-point.u)[:size]] = True
    return q


def _refined(q: Array, first: Array, last: Array) -> Array:
    """Weights of single cells from those of groups, along the logarithm of weight per cell."""
    centres = (first + last) / 2
    density = np.log(np.maximum(q, _LEAST_START * q.max()) / (last - first + 1))
    return np.asarray(np.exp(np.interp(np.arange(last[-1] + 1), centres, density)))
