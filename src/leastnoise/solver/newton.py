"""Newton's method for the least total variance, certified at every step.

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
next point to first order is taken (`DualPoint.moved`). The first q is diag V^½, known from a
factor with orthogonal rows. For any other, where neighbouring cells are alike, as along an
ordered attribute, it comes from the problem with half as many cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.backend import Backend, load_backend
from leastnoise.core.deadline import Deadline, Listener, Watch
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.solver.conjugate_gradients import conjugate_gradients
from leastnoise.solver.dual import DualNoise, DualPoint, evaluate
from leastnoise.solver.pairs import PairColumns

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

# No first weight is below this share of the largest: a cell at zero would have to be revived.
_LEAST_START = 1e-12

# Neighbouring columns whose cosine is at least this are taken as one in the coarser problem.
_ALIKE = 0.8

# The gap to which the coarser problem is solved.
_COARSE_TOL = 1e-3

# Below this many cells in the coarser problem, solving the whole one at once is as fast.
_LEAST_COARSE = 128

# Directions of the coarser problem whose share of the strongest one's square is less are left out of it.
_WEAK = 1e-8

# The optimum of a few cells is sought first where k(k + 1) is at most this many times the cells.
_FEW = 1.5

# Steps q ← q ∘ u after which the few cells are chosen.
_WARMING = 5

# Rounds in which they are chosen again, at most.
_ROUNDS = 20

# The model is minimised with its constraints where it has at most this many entries.
_MODEL_ENTRIES = 2**17

# Rows whose products are below this share of the longest squared are orthogonal.
_ORTHOGONAL = 1e-6


@dataclass(frozen=True, eq=False)
class Solution:
    """The best noise found and the proof of how good it is.

    Attributes:
        root: β, (k, n): the strategy, scaled so that its largest column has norm 1.
        q: the dual weights, (n,), which prove the lower bound.
        achieved, lower_bound: total variance at profile 1, as the solver sees it.
        has_converged: whether the gap asked for was reached.
        ended: how the search ended; it may converge above that gap, where no step gains any more.
    """

    root: Array
    q: Array
    achieved: float
    lower_bound: float
    has_converged: bool
    steps: int
    seconds: float
    ended: Ended
    how: str = "Newton's method"

    @property
    def gap(self) -> float:
        """achieved / lower_bound − 1."""
        return self.achieved / self.lower_bound - 1


def minimise_total_variance(
    R: Any,
    *,
    tol: float,
    time_limit: float | None = None,
    backend: str | Backend = "numpy",
    progress: Listener | None = None,
    start: Array | None = None,
) -> Solution:
    """The noise of least total variance with privacy profile at most 1.

    minimise trace(V X⁺) over strategies X = AᵀA with diag X ≤ 1, where V = RᵀR.

    Args:
        R: (k, n), of rank k, every column nonzero; an array, or a matrix of the backend.
        tol: the relative gap at which to stop.
        time_limit: seconds after which the best so far is returned.
        backend: the name of one, or one.
        progress: called after every step.
        start: weights q to begin with, (n,), as those of a similar problem; found from R unless given.
    """
    device = load_backend(backend) if isinstance(backend, str) else backend
    watch = Watch.starting(time_limit, progress)
    return _solution(_minimise(device.matrix(R), device, tol, watch, start), device, tol, watch)


def minimise_over_pairs(
    R: Array,
    *,
    tol: float,
    time_limit: float | None = None,
    backend: str = "numpy",
    progress: Listener | None = None,
) -> Solution:
    """The noise of least total variance with profile at most 1 for all columns r_i and r_i − r_j.

    The root of the solution is that of the cells alone, (k, n); its weights are those of the pairs, in the
    order of `pairs`.
    """
    device = load_backend(backend)
    watch = Watch.starting(time_limit, progress)
    columns = PairColumns(device.matrix(R), device)
    return _solution(_minimise(columns, device, tol, watch, columns.first_weights(watch)), device, tol, watch)


def _solution(found: _Best, device: Backend, tol: float, watch: Watch) -> Solution:
    root = device.numpy(found.noise.root)
    root /= math.sqrt(float(found.noise.u.max()))
    return Solution(
        root=root,
        q=found.q,
        achieved=found.noise.achieved,
        lower_bound=found.lower_bound,
        has_converged=found.gap <= tol,
        steps=found.steps,
        seconds=watch.seconds,
        ended=found.ended,
    )


@dataclass
class _Best:
    """The best of both sides so far."""

    noise: DualNoise
    q: Array
    lower_bound: float
    steps: int = 0
    ended: Ended = "converged"

    @property
    def gap(self) -> float:
        return self.noise.achieved / self.lower_bound - 1

    def take(self, noise: DualNoise) -> None:
        if noise.achieved < self.noise.achieved:
            self.noise = noise

    def take_bound(self, point: DualPoint) -> None:
        if point.lower_bound > self.lower_bound:
            self.q, self.lower_bound = point.q, point.lower_bound


def _minimise(R: Any, device: Backend, tol: float, watch: Watch, start: Array | None = None) -> _Best:
    """The best noise and weights for a matrix of the backend."""
    deadline = watch.deadline
    q = _first_weights(R, device, deadline) if start is None else np.asarray(start, dtype=float)
    point = _evaluate(R, np.maximum(q, _LEAST_START * q.max()), device)
    best = _Best(point.noise, point.q, point.lower_bound)
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
        if gap < _ROUNDING_GAP and (stalled >= _PATIENCE or late >= 4 * _PATIENCE):
            return best
        following = _step(R, point, best, tol, deadline)
        if following is None:
            # A step that was cut short need not find what a whole one would.
            best.ended = deadline.ending
            return best
        best.steps += 1
        point = following
        best.take(point.noise)
        best.take_bound(point)


def _evaluate(R: Any, q: Array, device: Backend) -> DualPoint:
    return R.evaluate(q) if isinstance(R, PairColumns) else evaluate(R, q, device)


def _step(R: Any, point: DualPoint, best: _Best, tol: float, deadline: Deadline) -> DualPoint | None:
    """The next point, with a bound no worse, or None where rounding leaves none.

    The same point, if its first-order neighbour already closed the gap.
    """
    r = np.sqrt(point.q)
    curvature = point.hessian_diagonal()
    direction = _newton_direction(point, r, curvature, _forcing(best.gap, tol), deadline)
    # A few roundings below counts as no worse: at the end only u still moves. The
    # weakest direction of T is rounded beside the strongest, which magnifies them.
    slack = min(max(1e-13, 1e-15 * float(point.d.max() / point.d.min())), 1e-10)
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
    following: DualPoint | None = None
    trial: Array | None = first
    while trial is not None:
        candidate = _evaluate(R, np.maximum(trial, _LEAST_ROOT * trial.max()) ** 2, point.backend)
        if following is None or candidate.lower_bound > following.lower_bound:
            following = candidate
        if following.lower_bound >= floor + 0.1 * share * promised or deadline.is_past:
            break
        trial, share = next(trials, (None, 0.0))
    return following if following is not None and following.lower_bound >= floor else None


def _forcing(gap: float, tol: float) -> float:
    """How far the residual of a Newton step must fall; never further than the gap asked for needs."""
    return max(min(_FORCING, gap), 0.1 * tol / gap)


def _trials(point: DualPoint, r: Array, direction: Array, curvature: Array) -> Iterator[tuple[Array, float]]:
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
    if len(point.d) * (len(point.d) + 1) <= 4 * heavy.sum():
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


def _towards_model_optimum(point: DualPoint) -> list[tuple[Array, float]]:
    """Values of r on the way to the best q of the model, each with its share of it; none if too dear."""
    best = _model_optimum(point)
    if best is None:
        return []
    floor = _LEAST_FACTOR**2 * point.q
    return [(np.sqrt(np.maximum(point.q + t * (best - point.q), floor)), t) for t in _LENGTHS]


def _model_optimum(point: DualPoint) -> Array | None:
    """The q ≥ 0 at which the quadratic model in q is least, or None where that is too much work.

    P = GᵀG with a row β_a ∘ β_b / √(d_a + d_b) of G for every pair a, b. F has degree ½ in q, so
    u = 2 P q, and up to a constant the model Σq' − 2F is ½‖G q' − 3 G q‖² + Σq'. With (Σq')²/(2F)
    for the last term, of the same slope at q, this is a problem of least squares.
    """
    from scipy.optimize import nnls

    k, n = len(point.d), len(point.q)
    if k * (k + 1) // 2 * n > _MODEL_ENTRIES:
        return None
    beta = point.columns()
    a, b = np.triu_indices(k)
    both = np.sqrt(np.where(a == b, 1, 2) / (point.d[a] + point.d[b]))
    G = np.vstack([beta[a] * beta[b] * both[:, None], np.full((1, n), 1 / math.sqrt(point.F))])
    target = 3 * (G @ point.q)
    target[-1] = 0
    try:
        return np.asarray(nnls(G, target)[0])
    except RuntimeError:  # too many exchanges
        return None


def _model_gain(point: DualPoint, r: Array) -> float:
    """What the quadratic model in q promises of going to √q = r."""
    change = r**2 - point.q
    return float((point.u - 1 - 0.5 * point.hessian_product(change)) @ change)


def _newton_direction(
    point: DualPoint, r: Array, curvature: Array, forcing: float, deadline: Deadline
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


def _first_weights(R: Any, device: Backend, deadline: Deadline) -> Array:
    """Weights near the optimum.

    diag V^½, known at once from orthogonal rows. Where it is not and cells are in order,
    the optimum of a coarser problem; where directions are few, that of a few cells.
    """
    k, n = R.shape
    lengths = device.numpy((R**2).sum(1))
    is_orthogonal = _has_orthogonal_rows(R, lengths, device)
    halves = None if is_orthogonal else _halves(R, device)
    if halves is not None:
        first, last = halves
        merged = (R[:, device.index(first)] + R[:, device.index(last)]) / 2
        coarse = _strong_directions(merged, device)
        return _refined(_minimise(coarse, device, _COARSE_TOL, Watch(deadline)).q, first, last)
    if is_orthogonal:
        q = _root_diagonal(R, lengths, device)
    else:
        squares, U = device.eigh(R @ R.T, may_overwrite=True)
        q = _root_diagonal(U.T @ R, device.numpy(squares), device)
    return _weights_of_few(R, q, device, deadline) if k * (k + 1) <= _FEW * n else q


def _strong_directions(R: Any, device: Backend) -> Any:
    """Rows with the Gram matrix of R but for weak directions, of which merging cells leaves many.

    The weights of a coarser problem need no more digits, and without them decompositions that are careful
    with weak directions are not needed: 1,024 ranges over 2,048 cells took seven times as long with them.
    """
    if R.shape[0] > R.shape[1]:
        R = device.triangle(R)
    squares, U = device.eigh(R @ R.T, may_overwrite=True)
    values = device.numpy(squares)
    return U[:, device.index(values > _WEAK * values[-1])].T @ R


def _weights_of_few(R: Any, q: Array, device: Backend, deadline: Deadline) -> Array:
    """Weights of the few cells that matter, for others zero.

    k(k + 1)/2 cells can carry the optimum. Many more leave the Hessian singular, and Newton's
    method empties them one by one: 3 random queries over 200 cells took up to 228
    decompositions. So cells that ask for weight are taken, and more where a constraint is violated.
    """
    k, n = R.shape
    for _ in range(_WARMING):
        point = evaluate(R, q, device)
        q = point.q * point.u
    # Half of those that could matter, or a few more of each direction.
    size = max(4 * k, k * (k + 1) // 4)
    # These alone tell all directions apart.
    spanning = device.pivots(R)
    chosen = np.zeros(n, dtype=bool)
    chosen[spanning] = True
    chosen[np.argsort(-q)[:size]] = True
    for _ in range(_ROUNDS):
        index = np.flatnonzero(chosen)
        found = _minimise(R[:, device.index(index)], device, _COARSE_TOL, Watch(deadline), start=q[index])
        q = np.zeros(n)
        q[index] = found.q
        point = evaluate(R, q, device)
        if point.u.max() <= 1 + _COARSE_TOL or deadline.is_past:
            break
        chosen = q > _HEAVY * q.sum()
        chosen[spanning] = True
        chosen[np.argsort(-point.u)[:size]] = True
    return q


def _has_orthogonal_rows(R: Any, lengths: Array, device: Backend) -> bool:
    """Whether R Rᵀ is diagonal, by its product with one vector of signs.

    A wrong answer, which would take entries that cancel, only means worse weights to begin with.
    """
    signs = np.where(np.random.default_rng(0).random(len(lengths)) < 0.5, -1.0, 1.0)
    image = device.numpy(R @ (device.matrix(signs) @ R))
    return bool(np.abs(image - lengths * signs).max() <= _ORTHOGONAL * lengths.max())


def _root_diagonal(R: Any, squares: Array, device: Backend) -> Array:
    """The diagonal of V^½ = Rᵀ (R Rᵀ)^{−½} R for orthogonal rows of these squared lengths."""
    lengths = np.sqrt(np.maximum(squares, np.finfo(float).tiny))
    return device.numpy((R**2 / device.matrix(lengths)[:, None]).sum(0))


def _halves(R: Any, device: Backend) -> tuple[Array, Array] | None:
    """First and last cell of each group of one or two alike neighbours; None if they are few."""
    n = R.shape[1]
    if n < 2 * _LEAST_COARSE:
        return None
    norms = device.numpy((R**2).sum(0)) ** 0.5
    cosines = device.numpy((R[:, 1:] * R[:, :-1]).sum(0)) / (norms[1:] * norms[:-1])
    first = []
    last = []
    i = 0
    while i < n:
        j = i + 1 if i + 1 < n and cosines[i] >= _ALIKE else i
        first.append(i)
        last.append(j)
        i = j + 1
    return (np.array(first), np.array(last)) if len(first) <= 0.7 * n else None


def _refined(q: Array, first: Array, last: Array) -> Array:
    """Weights of single cells from those of groups, along the logarithm of weight per cell."""
    centres = (first + last) / 2
    density = np.log(np.maximum(q, _LEAST_START * q.max()) / (last - first + 1))
    return np.asarray(np.exp(np.interp(np.arange(last[-1] + 1), centres, density)))
