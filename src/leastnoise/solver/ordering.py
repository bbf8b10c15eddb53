"""The refined privacy ordering: among the noises of least largest profile, the one least everywhere.

Most problems with caps have many optima. The one wanted has the lexicographically
least sorted profile: its largest entry is as small as can be, then its second
largest, and so on; it is unique.

Reference:
    Xiao, Wang, Ding and Zhang, fitness for use, sections 3.2 and 5.2.

At an optimum take the coordinates in which Σ = 1 and both S and T are diagonal, d.
Directions with d > 0 are settled: every optimum agrees on them and has no covariance
between them and the rest, because cells with q_i > 0 span exactly these directions
and so do queries with p_j > 0. What is left is the same problem in fewer coordinates,
with the settled part of each variance taken off its cap and the settled part of each
profile as an offset. So each level is solved by itself, and no cap is ever tight.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core.backend import Backend, load_backend
from leastnoise.core.decompositions import svd
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.solver.capped import CappedPath, Run
from leastnoise.solver.capped_problems import LeastProfile, OverBlocks
from leastnoise.solver.mean import Forms, MeanPoint
from leastnoise.solver.optimum import Optimum
from leastnoise.solver.rows import DenseRows

# A level is solved to this gap, so that settled directions stand out from the others.
_LEVEL_TOL = 1e-10

# A level further than this from its optimum is tried once more.
_WELL_ENOUGH = 1e-8

# Between neighbouring d, a fall by this factor parts settled directions from the rest.
_FALL = 1e3

# Queries and cells whose part in the remaining directions is below this share of the whole are settled.
_SETTLED = 1e-7


def refined_profile(
    L: Array, B: Array, caps: Array, run: Run, *, start: tuple[Array, Array] | None = None
) -> Optimum:
    """The noise with the lexicographically least sorted profile among those with v_j ≤ c_j.

    Args:
        L, B: queries (m, k) and cells (k, n) in common coordinates; both span all k.
        start: positive weights (p, q) to begin with.
    """
    device = load_backend(run.backend)
    m, n = len(L), B.shape[1]
    cells, offsets = np.arange(n), np.zeros(n)
    settled: list[Array] = []
    first: CappedPath | None = None
    endings: list[Ended] = []
    p, q = start if start is not None else (np.full(m, 1 / m), np.full(n, 1 / n))
    while L.shape[1] > 0:
        problem = LeastProfile(caps, offsets[cells])
        path = _level(OverBlocks([_forms(L, B, device)], problem), p, q, run)
        first = first or path
        (point,) = path.nearest.mean.parts
        # Scaled so that every variance keeps its cap.
        root = math.sqrt(problem.excess(path.nearest.mean))
        alpha = device.numpy(point.alpha.columns(np.arange(len(L)))) / root
        beta = point.beta * root
        endings.append("deadline" if run.is_late else path.ended)
        if run.is_late:
            keep = np.ones(len(point.d), dtype=bool)
        else:
            keep = _settled(point.d)
            alpha, beta = _parted(point, keep, alpha, beta)
        block = np.zeros((int(keep.sum()), n))
        block[:, cells] = beta[keep]
        settled.append(block)
        offsets = offsets + (block**2).sum(axis=0)
        L, B = alpha[~keep].T, beta[~keep]
        caps = caps - (alpha[keep] ** 2).sum(axis=0)
        open_queries = (L**2).sum(axis=1) > _SETTLED**2 * (alpha**2).sum(axis=0)
        open_cells = (B**2).sum(axis=0) > _SETTLED**2 * (beta**2).sum(axis=0)
        L, B, caps = L[open_queries], B[:, open_cells], caps[open_queries]
        cells = cells[open_cells]
        p, q = np.ones(len(L)), np.ones(len(cells))
    assert first is not None
    return Optimum(
        roots=[np.vstack(settled)],
        p=first.proof.mean.p,
        q=first.proof.mean.q,
        achieved=float(offsets.max()),
        lower_bound=first.lower_bound,
        has_converged=offsets.max() <= (1 + run.tol) * first.lower_bound,
        steps=run.watch.steps,
        seconds=run.watch.seconds,
        ended=worst_ending(endings),
    )


def _parted(point: MeanPoint, keep: Array, alpha: Array, beta: Array) -> tuple[Array, Array]:
    """The queries and cells in coordinates in which settled ones have no part in the remaining directions.

    Weights that vanish with the remaining directions still turn the point's own by about
    as much as is left of them, 1e-6 where a query and a cell are at their limits without a
    weight. The queries with weight span the settled directions, the cells with weight
    annihilate the others: coordinates M = [S N] of both.
    """
    r = int(keep.sum())
    if r == len(keep):
        return alpha, beta
    limit = math.sqrt(float(point.d[keep].min()) * float(point.d[~keep].max()))
    S = _span(alpha, point.p, limit, r)
    T = _span(beta, point.q, limit, r)
    if S is None or T is None:
        return alpha, beta
    N = np.linalg.svd(T)[0][:, r:]
    M = np.zeros((len(keep), len(keep)))
    M[:, keep], M[:, ~keep] = S, N
    return np.linalg.solve(M, alpha), M.T @ beta


def _span(vectors: Array, weights: Array, limit: float, r: int) -> Array | None:
    """Orthonormal directions of the vectors with weight, (k, r), or None where these do not have r."""
    sizes = weights * (vectors**2).sum(axis=0)
    chosen = sizes > limit
    if int(chosen.sum()) < r:
        return None
    U, values, _ = svd(vectors[:, chosen] * np.sqrt(weights[chosen]))
    return U[:, :r] if values[r - 1] ** 2 > limit else None


def _forms(L: Array, B: Array, device: Backend) -> Forms:
    return Forms(DenseRows(L, device), device.matrix(B), None, device)


def _level(problem: OverBlocks, p: Array, q: Array, run: Run) -> CappedPath:
    """The path of one level, the better of two where the first ends too far from the optimum."""
    tol = min(_LEVEL_TOL, run.tol)
    path = run.follow(problem, p, q, tol=tol, is_thorough=True)
    if path.lacking <= _WELL_ENOUGH:
        return path
    # From weights half as far apart as where it ended, the path is another one.
    there = path.nearest.mean
    again = run.follow(problem, np.sqrt(there.p), np.sqrt(there.q), tol=tol, is_thorough=True)
    return min(path, again, key=lambda found: found.lacking)


def _settled(d: Array) -> Array:
    """Which directions are settled: those above the widest fall of d, all if none is wide."""
    order = np.argsort(-d)
    falls = d[order][:-1] / d[order][1:]
    if len(falls) == 0 or falls.max() < _FALL:
        return np.ones(len(d), dtype=bool)
    kept = np.zeros(len(d), dtype=bool)
    kept[order[: int(np.argmax(falls)) + 1]] = True
    return kept
