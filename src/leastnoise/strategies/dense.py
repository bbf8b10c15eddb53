"""The certified optimum, for workloads whose cells fit in a dense matrix.

Works in the row space of the queries: an integer basis B of it, the weighted Gram
matrix V factored as RᵀR, Newton's method on the dual, and the strategy found
written as C·B with C upper triangular.

Where a record is replaced by another, the profile of a pair of cells may not exceed
the budget: the same problem with the columns r_i and r_i − r_j of R D for those of R.
There are n(n + 1)/2 of them, so this is done for few cells; for more, the optimum
for records added or removed is taken and its noise scaled to all pairs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leastnoise.errors import DesignError
from leastnoise.operators import Array
from leastnoise.progress import Progress
from leastnoise.rowspace import Basis, factor_gram, integer_basis
from leastnoise.solver import Solution, minimise_total_variance
from leastnoise.strategies.method import Found, Method, Request
from leastnoise.strategy import RealStrategy

# n-by-n work beyond this many cells takes hours on a laptop.
MAX_CELLS = 20_000

# So many columns r_i and r_i − r_j are solved for, those of 88 different cells. At that size
# prefix sums take 0.7 s on one core, and 0.01 s where records are added or removed.
MAX_PAIRS = 4_000

# Solving for some of the pairs: rounds at most, and what makes one idle enough to leave out.
_MAX_ROUNDS, _IDLE_WEIGHT, _IDLE_PROFILE = 50, 1e-9, 0.9


def _refuses(request: Request) -> str | None:
    n = request.workload.shape[1]
    if request.privacy.noise != "gaussian":
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    if n > MAX_CELLS:
        return f"it holds at most {MAX_CELLS:,} cells, the workload has {n:,}"
    return None


def _find(request: Request) -> Found:
    workload = request.workload
    basis = integer_basis(workload)
    R = factor_gram(workload, rank=basis.rank)
    used = np.asarray(workload.operator.column_norms(1) > 0)
    if not used.any():
        return Found(
            RealStrategy(np.zeros((1, R.shape[1]), dtype=np.int64)),
            np.zeros(R.shape[1]),
            "heuristic",
            "every query is zero",
        )
    # Neither the noise nor the dual weights depend on the unit; squares of this one stay within floats.
    R = R / np.abs(R).max()
    # Cells that no query tells apart share one dual weight.
    columns, inverse, counts = _distinct_columns(R, used)
    n = len(columns)
    is_replaced = request.privacy.neighbours == "replace-one"
    root = np.zeros(R.shape)
    if is_replaced and n * (n + 1) // 2 <= MAX_PAIRS:
        over_pairs = _solve_over_pairs(R[:, columns], request)
        root[:, used] = over_pairs.root[:, inverse]
        listed = over_pairs.q > 0
        return Found(
            RealStrategy(_triangle(root, basis.rows), basis.rows),
            over_pairs.q[listed],
            "stopped",
            _note(over_pairs, basis) + ", over pairs of cells",
            _pairs(columns, R.shape[1])[listed],
        )
    # The other half of the tolerance is left for rounding to integers.
    solution = _minimise(R[:, columns], request, request.tol / 2, request.progress)
    root[:, used] = solution.root[:, inverse]
    q = np.zeros(R.shape[1])
    q[used] = (solution.q / counts)[inverse]
    return Found(
        RealStrategy(_triangle(root, basis.rows), basis.rows),
        q,
        "heuristic" if is_replaced else "stopped",
        _note(solution, basis)
        + (", for records added or removed, scaled to records replaced" if is_replaced else ""),
    )


def _minimise(
    R: Array,
    request: Request,
    tol: float,
    progress: Callable[[Progress], None] | None,
    seconds: float = 0.0,
) -> Solution:
    """The solver on the columns of R, with what is left of the time after so many seconds."""
    limit = None if request.time_limit is None else max(request.time_limit - seconds, 1e-9)
    return minimise_total_variance(R, tol=tol, time_limit=limit, backend=request.backend, progress=progress)


def _note(solution: Solution, basis: Basis) -> str:
    stopped = "" if solution.has_converged else ", stopped early"
    merged = ", queries that differ by less than 1e-10 measured as one" if basis.merges_near_parallel else ""
    return f"Newton's method on the dual, {solution.steps} steps{stopped}{merged}"


def _solve_over_pairs(R: Array, request: Request) -> Solution:
    """The optimum for profiles of all columns r_i and r_i − r_j; its root is that of the cells alone.

    Where pairs far outnumber the numbers that describe the noise, k(k + 1)/2, few of
    them bind. Then only some are solved for, and violated ones join until there is none:
    10 random queries over 80 cells take 0.3 s, where all 3,240 columns at once took 2 s
    and, for one workload in six, stopped at a gap of a fifth.
    """
    every = _with_differences(R)
    k, n = R.shape
    tol = request.tol / 2
    if k * (k + 1) >= every.shape[1]:
        solution = _minimise(every, request, tol, request.progress)
        return replace(solution, root=solution.root[:, :n])
    started = time.monotonic()
    chosen = np.arange(every.shape[1]) < n
    best = Solution(R, np.zeros(every.shape[1]), math.inf, 0.0, False, 0, 0.0)
    for _ in range(_MAX_ROUNDS):
        index = np.flatnonzero(chosen)
        found = _minimise(every[:, index], request, tol / 4, None, time.monotonic() - started)
        root = found.root[:, :n]
        u = (_with_differences(root) ** 2).sum(axis=0)
        # Weights of some columns, with none for the others, prove their bound for all.
        q = np.zeros(every.shape[1])
        q[index] = found.q
        best = replace(best, steps=best.steps + found.steps, seconds=time.monotonic() - started)
        if found.achieved * float(u.max()) < best.achieved:
            best = replace(best, root=root, achieved=found.achieved * float(u.max()))
        if found.lower_bound > best.lower_bound:
            best = replace(best, q=q, lower_bound=found.lower_bound)
        best = replace(best, has_converged=best.gap <= tol)
        if request.progress is not None:
            request.progress(Progress(best.steps, best.gap, best.seconds))
        violated = np.flatnonzero((u > 1 + tol / 8) & ~chosen)
        is_late = request.time_limit is not None and best.seconds > request.time_limit
        if best.has_converged or is_late or len(violated) == 0:
            break
        # The cells themselves always stay: they span every direction.
        chosen &= (q > _IDLE_WEIGHT * q.max()) | (u > _IDLE_PROFILE) | (np.arange(len(q)) < n)
        chosen[violated[np.argsort(-u[violated])][: max(2 * n, 200)]] = True
    return best


def _with_differences(columns: Array) -> Array:
    """The columns r_i, then r_i − r_j for i < j in the order of `_pairs`."""
    i, j = np.triu_indices(columns.shape[1], 1)
    return np.hstack([columns, columns[:, i] - columns[:, j]])


def _pairs(cells: Array, n: int) -> Array:
    """Each cell with no cell, n, then each pair of cells, smaller first: (N, 2)."""
    i, j = np.triu_indices(len(cells), 1)
    alone = np.column_stack([cells, np.full(len(cells), n)])
    return np.sort(np.vstack([alone, np.column_stack([cells[i], cells[j]])]), axis=1)


def _distinct_columns(R: Array, used: Array) -> tuple[Array, Array, Array]:
    """Positions of one column of each kind, for each used column its kind, and their numbers."""
    where = np.flatnonzero(used)
    # Cells in the same queries have columns equal up to rounding: compare on a coarse grid,
    # each direction on its own, so that weak ones still tell cells apart.
    scale = np.abs(R).max(axis=1, keepdims=True)
    coarse = np.rint(R[:, where] / scale * 2.0**30)
    _, first, inverse, counts = np.unique(
        coarse, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    return where[first], inverse.reshape(-1), counts


def _triangle(root: Array, basis: Array | None) -> Array:
    """The upper triangular C, (k, k), with CᵀC equal to the precision of root on the basis."""
    from scipy import linalg

    coefficients = root
    if not np.isfinite(root).all():
        raise DesignError("the strategy found is not finite; rescale the workload's rows")
    if basis is not None:
        # root = coefficients · basis exactly, because both span the same rows.
        coefficients = linalg.lstsq(basis.astype(float).T, root.T)[0].T
    C = linalg.qr(coefficients, mode="r", check_finite=False)[0][: coefficients.shape[1]]
    if C.shape[0] != C.shape[1] or not math.isfinite(float(np.abs(C).max(initial=0))):
        raise DesignError("the strategy found lost a direction; rescale the workload's rows")
    return np.asarray(np.triu(C))


DENSE = Method(
    "dense",
    f"the certified optimum for Gaussian noise, up to {MAX_CELLS:,} cells; where records are replaced, "
    "up to 88 that queries tell apart",
    _refuses,
    _find,
)
