"""The best split of a budget over blocks that are measured independently.

Block s gets precision x_s, and all of them share a budget: Σ_s x_s ≤ 1. Query j then has variance
v_j = Σ_s A_js / x_s, with A ≥ 0. For weights w ≥ 0 and caps c > 0:

    least_total      minimise  Σ_j w_j v_j                 value  (Σ_s √(Aᵀw)_s)²                       (1)
    least_largest    minimise  max_j v_j / c_j             bound  (Σ_s √(Aᵀp)_s)² / Σ_j p_j c_j         (2)
    total_within     minimise  Σ_j w_j v_j  with  v ≤ c    bound  (Σ_s √(Aᵀ(w + p))_s)² − Σ_j p_j c_j   (3)

The bounds hold for any p ≥ 0, because Σ_s a_s/x_s · Σ_s x_s ≥ (Σ_s √a_s)² (Cauchy and Schwarz), and the best
of them is the optimum. Some p makes (2) exceed 1 if and only if no split keeps the caps. Every solution
carries its split, as one block x of numbers, its p and both numbers, computed from these alone. Budget and
caps are kept up to rounding; where no split keeps the caps, it is that of least largest v/c.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from leastnoise.core.deadline import Listener, Watch
from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.core.progress import worst_ending
from leastnoise.solver.active_set import Round, revived, search_active_set
from leastnoise.solver.optimum import Optimum, relative_gap
from leastnoise.solver.path_following import Enough, follow_path, never
from leastnoise.solver.split_path import PATIENCE, CapRatios, LeastCost, SplitProblem, TotalWithin

# Up to this many rows, all of them are solved for at once.
ALL_AT_ONCE = 2_000

# The same, per block.
PER_BLOCK = 20

# Rows per block that begin, and that join in a round at most.
_JOINING = 2

# The gap down to which it is tried to tell caps that can just be kept from caps that cannot.
_UNDECIDED = 1e-13


def least_total(A: Any, w: Array) -> Optimum:
    """The split of least Σ_j w_j v_j: x_s in proportion to √(Aᵀw)_s, with (Σ_s √(Aᵀw)_s)².

    Args:
        A: what each block adds to each variance, SciPy sparse (rows, blocks), non-negative.
        w: weights, (rows,), non-negative and not all 0.

    Raises:
        InputError: if an argument is not as above.
    """
    watch = Watch.starting()
    A = _checked(A)
    w = _vector("the weights", w, A.shape[0])
    if not (np.isfinite(w).all() and (w >= 0).all() and w.any()):
        raise InputError(
            "weights must be finite and not negative, and some of them positive", field="weights"
        )
    root = np.sqrt(A.T @ w)
    F = float(root.sum())
    x = root / F
    needed = root > 0
    achieved = float((root[needed] ** 2 / x[needed]).sum())
    return Optimum(
        [np.sqrt(x)], np.ones(1), achieved, F * F, True, 0, watch.seconds, "converged", "a closed form"
    )


def least_largest(
    A: Any,
    caps: Array,
    *,
    tol: float = 1e-9,
    time_limit: float | None = None,
    progress: Listener | None = None,
    start: Array | None = None,
) -> Optimum:
    """The split of least max_j v_j / c_j.

    Args:
        A: what each block adds to each variance, SciPy sparse (rows, blocks), non-negative, no row empty.
        caps: c, (rows,), positive; infinite for a row that does not count.
        tol: the relative gap at which to stop.
        time_limit: seconds after which to stop at the next step.
        progress: told of every step.
        start: weights p, (rows,), to begin with, such as those of a similar problem.

    Raises:
        InputError: if an argument is not as above.
    """
    watch = Watch.starting(time_limit, progress)
    A = _checked(A)
    caps = _checked_caps(caps, A.shape[0])
    if not np.isfinite(caps).any():
        raise InputError(
            "no cap is finite, so nothing is to be kept small", field="caps", remedy="give at least one"
        )
    problem = _Counted(A, caps)
    return _least_largest(problem, tol, watch, _weights(start, problem))


def total_within(
    A: Any,
    w: Array,
    caps: Array,
    *,
    tol: float = 1e-9,
    time_limit: float | None = None,
    progress: Listener | None = None,
    start: Array | None = None,
) -> Optimum:
    """The split of least Σ_j w_j v_j among those with v_j ≤ c_j, or the proof that there is none.

    Args:
        A, caps, tol, time_limit, progress, start: as for `least_largest`.
        w: weights, (rows,), non-negative and not all 0.

    Raises:
        InputError: if an argument is not as above.
    """
    watch = Watch.starting(time_limit, progress)
    A = _checked(A)
    free = least_total(A, w)
    caps = _checked_caps(caps, A.shape[0])
    problem = _Counted(A, caps, np.asarray(A.T @ w))
    if problem.ratios_of(free.x).max(initial=0) <= 1:
        # The caps take no part.
        return replace(free, p=np.zeros(len(caps)), seconds=watch.seconds)
    first = _weights(start, problem)
    room = _least_largest(_Counted(A, caps), _UNDECIDED, watch, first, partial(_is_settled, tol))
    # Part of the budget for what keeps the caps, the rest for what the total wants: the caps are kept with
    # room, and no block is left without.
    share = min(math.sqrt(room.achieved), 1.0)
    anchor = (share * room.x + (1 - share) * free.x)[problem.blocks]
    if room.achieved > 1 or not anchor.all():
        is_proved = room.lower_bound > 1
        return replace(room, is_feasible=False, has_converged=is_proved and room.gap <= tol)
    kind = TotalWithin(problem.ratios, problem.a, 1 / anchor)
    best = search_active_set(_SplitRows(kind), kind.scaled(problem.shares(room.p)), tol=tol, watch=watch)
    found = problem.solution(best, tol, watch)
    return found if found.has_converged else replace(found, ended=worst_ending([room.ended, found.ended]))


def _is_settled(tol: float, achieved: float, lower_bound: float) -> bool:
    """Whether the caps are kept with about as much room as there is, or certainly not and by how much."""
    has_room = achieved < 1 and achieved - lower_bound < 0.5 * (1 - achieved)
    return has_room or (lower_bound > 1 and relative_gap(achieved, lower_bound) <= tol)


def _least_largest(problem: _Counted, tol: float, watch: Watch, p: Array, enough: Enough = never) -> Optimum:
    """From shares p c to the split of least max v/c."""
    kind = LeastCost(problem.ratios)
    best = search_active_set(_SplitRows(kind), kind.scaled(p), tol=tol, watch=watch, enough=enough)
    # Only their proportions matter: with Σ p c = 1 the bound is (Σ √(Aᵀp))².
    return problem.solution(replace(best, dual=best.dual / float(best.dual.sum())), tol, watch)


class _Counted:
    """The rows with caps, and the blocks that they or the total need."""

    def __init__(self, A: Any, caps: Array, a: Array | None = None) -> None:
        self.rows = np.flatnonzero(np.isfinite(caps))
        part = A if len(self.rows) == A.shape[0] else A[self.rows]
        needed = np.bincount(part.indices, minlength=A.shape[1]) > 0
        if a is not None:
            needed |= a > 0
            self.a = a[needed]
        self.blocks = np.flatnonzero(needed)
        part = part if needed.all() else part[:, self.blocks]
        self.shape = A.shape
        self.ratios = CapRatios(part, caps[self.rows])

    def ratios_of(self, x: Array) -> Array:
        """v_j / c_j of the rows with caps, infinite where a block they need has none of the budget."""
        with np.errstate(divide="ignore"):
            y = 1 / x[self.blocks]
        return self.ratios.apply(y)

    def shares(self, p: Array) -> Array:
        """p_j c_j of the rows with caps."""
        return p[self.rows] * self.ratios.caps

    def solution(self, found: Round[Array, Array], tol: float, watch: Watch) -> Optimum:
        """The end of a search, in terms of all rows and blocks."""
        p, x = np.zeros(self.shape[0]), np.zeros(self.shape[1])
        p[self.rows], x[self.blocks] = found.dual / self.ratios.caps, found.primal
        return Optimum(
            roots=[np.sqrt(x)],
            q=np.ones(1),
            achieved=found.achieved,
            lower_bound=found.lower_bound,
            has_converged=found.gap <= tol,
            steps=watch.steps,
            seconds=watch.seconds,
            ended=found.ended,
            how="shares of a budget",
            p=p,
        )


class _SplitRows:
    """A problem with caps, for `active_set`: hardly more rows bind than there are blocks.

    100,000 rows of 200 blocks take a second in this way, and a quarter of a minute all at once.
    """

    def __init__(self, problem: SplitProblem) -> None:
        self._problem = problem

    @property
    def n_rows(self) -> int:
        """How many rows have a cap."""
        return self._problem.ratios.shape[0]

    def first_rows(self, start: Array) -> Array:
        """All rows where few, else some."""
        m, n_blocks = self._problem.ratios.shape
        is_few = m <= max(ALL_AT_ONCE, PER_BLOCK * n_blocks)
        return np.arange(m) if is_few else _first_rows(self._problem, start)

    def solve(
        self, chosen: Array, start: Array, *, tol: float, watch: Watch, enough: Enough
    ) -> Round[Array, Array]:
        """The split for the caps of the chosen rows, made to keep all of them."""
        whole = self._problem
        part = whole if len(chosen) == self.n_rows else whole.of_rows(chosen)
        path = follow_path(
            part, revived(start[chosen]), tol=tol, watch=watch, patience=PATIENCE, enough=enough
        )
        x, achieved = path.best.x, path.achieved
        p = np.zeros(self.n_rows)
        p[chosen] = path.proof.z
        ratios = whole.ratios.apply(1 / x)
        if part is not whole:
            x, achieved = whole.kept(1 / x, ratios)
        return Round(x, p, achieved, path.lower_bound, ratios, path.steps, path.ended)

    def next_rows(self, chosen: Array, found: Round[Array, Array]) -> Array:
        """The chosen rows, and the most violated ones."""
        joining = _violated(found.ratios, chosen, _JOINING * self._problem.ratios.shape[1])
        return np.union1d(chosen, joining)


def _first_rows(problem: SplitProblem, p: Array) -> Array:
    """Those served worst by the split for equal weights, some others, and one for every block."""
    m, n_blocks = problem.ratios.shape
    count = _JOINING * n_blocks
    ratios = problem.evaluate(revived(p)).ratios
    worst = np.argpartition(-ratios, count)[:count]
    chosen = np.union1d(worst, np.arange(0, m, m // count))
    return np.union1d(chosen, _covering(problem.ratios, chosen))


def _covering(ratios: CapRatios, chosen: Array) -> Array:
    """A row for every block that no chosen row holds."""
    n_blocks = ratios.shape[1]
    held = np.bincount(ratios.A[chosen].indices, minlength=n_blocks) > 0
    asked = np.bincount(ratios.A.indices, minlength=n_blocks) > 0
    missing = ratios.A[:, np.flatnonzero(asked & ~held)].tocsc()
    return np.asarray(missing.indices[missing.indptr[:-1]])


def _violated(ratios: Array, chosen: Array, count: int) -> Array:
    """The rows above all chosen ones, at most `count`."""
    worst = np.argpartition(-ratios, count)[:count]
    return np.asarray(worst[ratios[worst] > float(ratios[chosen].max())])


def _weights(start: Array | None, problem: _Counted) -> Array:
    """Positive shares p_j c_j to begin with."""
    if start is None:
        return np.ones(len(problem.rows))
    p = _vector("the start", start, problem.shape[0])
    if not (np.isfinite(p).all() and (p >= 0).all() and p[problem.rows].any()):
        raise InputError(
            "weights to start with must be finite, not negative and, for some cap, positive", field="start"
        )
    return problem.shares(p)


def _vector(what: str, values: Any, length: int) -> Array:
    vector = np.asarray(values, dtype=float)
    if vector.shape != (length,):
        raise InputError(
            f"{what} must be one number for each of {length} rows, not of shape {vector.shape}",
            field=what,
            given=vector.shape,
        )
    return vector


def _checked_caps(caps: Any, length: int) -> Array:
    caps = _vector("the caps", caps, length)
    if not (caps > 0).all():
        raise InputError("caps must be positive", field="caps", remedy="give infinity where there is none")
    return caps


def _checked(A: Any) -> Any:
    """A as csr with positive entries only, none of them twice; copied only where it was not."""
    from scipy import sparse

    A = sparse.csr_array(A, dtype=float)
    if not A.has_canonical_format or (A.data == 0).any():
        A = A.copy()
        A.sum_duplicates()
        A.eliminate_zeros()
    if not (np.isfinite(A.data).all() and (A.data > 0).all()):
        raise InputError("what a block adds to a variance must be finite and not negative", field="blocks")
    empty = np.flatnonzero(np.diff(A.indptr) == 0)
    if len(empty):
        raise InputError(
            f"row {empty[0]} has no block, so its variance is 0 for any split",
            field="blocks",
            given=int(empty[0]),
            remedy="leave it out",
        )
    return A
