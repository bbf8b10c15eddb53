"""What the figures of the low-rank paper compute: one mechanism on one workload, per query and at one ε.

    LRM          the low-rank mechanism, method "lowrank", its answers without bias
    LRM, n rows  the same with as many rows as cells, so that noise on every cell is among its choices
    LM           Laplace noise on every cell; noise on data in the paper's section 3.2
    NOQ          Laplace noise on every query, as printed: no least squares afterwards
    WM, HM       wavelets and a binary tree, methods "wavelet" and "hierarchical"
    AMM          the matrix mechanism by exponential smoothing, appendix B, method "smoothing"
    leastnoise   what `design` takes under pure privacy
    bound        what no Laplace noise on any rows can undercut

The bound is that of Gaussian noise: rows A of L1 sensitivity Δ₁ cost 2 Δ₁²/ε² trace V (AᵀA)⁺, and no
column is longer in L2 than in L1, so 2/ε² times the certified optimum at L2 sensitivity 1 is below
them all. It is weak: nobody knows one for L1 that is close.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from leastnoise.core.errors import InputError
from leastnoise.core.operators import Array
from leastnoise.papers.low_rank_rounds import low_rank, random_start
from leastnoise.papers.reproductions.reproduction import Setting
from leastnoise.papers.reproductions.rows import IS_CUT, Plain, Row
from leastnoise.planning import design
from leastnoise.privacy import GDP, PureDP
from leastnoise.query import Workload, workload_discrete, workload_range, workload_related

# Table 1, whose defaults are in bold. The default number of queries,
M = 256

# of cells,
N = 1024

# and the rank of WRelated, as a share of the smaller of the two.
SHARE = 0.5
CELLS = (128, 256, 512, 1024, 2048, 4096, 8192)
QUERIES = (64, 128, 256, 512, 1024)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

# By how much m and n are smaller in the quick size.
SHRINK = 16

# Of the first draw of a workload.
SEED = 1

# All of the paper's figures but 2 and 3 have ε = 0.1.
EPSILON = 0.1
EPSILONS = (1.0, 0.1, 0.01)

# Trees and wavelets are planned as matrices up to this many cells; 2,048 take 9 s, and 4,096 eight times as
# long.
_MAX_PLANNED_CELLS = 1_024

# Entries of L from which on searching on a GPU pays: a step on one core then takes 30 ms.
_MIN_GPU_ENTRIES = 300_000

# Rows of L over the rank of W, the paper's default.
RATIO = 1.2

# Steps of Algorithm 2 until Algorithm 1 ends, in a few dozen rounds: an estimate.
_STEPS = 8_000

# Seconds of a search on a GPU: an estimate.
GPU_SECONDS = 30.0

# A relative gap that moves no point of a figure.
_BOUND_TOL = 1e-2

# Starts that lose rank are followed by one with ten times the penalty, as in the method itself.
_MAX_STARTS = 5

# Rounds of Algorithm 1 by which its own rule, β = 1e12, has ended it: β doubles every ten.
_MAX_ROUNDS = 410


def rank_of(workload: str, m: int, n: int, share: float = SHARE) -> int:
    """The rank s that WRelated is drawn with; 0 for the other workloads, which have none."""
    return max(1, round(share * min(m, n))) if workload == "WRelated" else 0


def drawn(workload: str, m: int, n: int, s: int, seed: int) -> Workload:
    """One draw of WDiscrete, WRange or WRelated (of rank s), as in section 6.

    Raises:
        InputError: for another name.
    """
    generator = np.random.default_rng(seed)
    if workload == "WDiscrete":
        return workload_discrete(m, n, generator=generator)
    if workload == "WRange":
        return workload_range(m, n, generator=generator)
    if workload == "WRelated":
        return workload_related(m, n, s, generator=generator)
    raise InputError(
        f"the workload must be WDiscrete, WRange or WRelated, got {workload!r}",
        field="workload",
        given=workload,
    )


def searching_on(setting: Setting, n_rows: float, n_cells: int) -> str:
    """The backend for the paper's own searches: the setting's where the matrices are large enough."""
    return setting.backend if n_rows * n_cells >= _MIN_GPU_ENTRIES else "numpy"


def search_seconds(setting: Setting, n_rows: float, n_cells: int) -> float:
    """An estimate of how long LRM takes with this many rows of L: products of r² n, and sorted columns."""
    if searching_on(setting, n_rows, n_cells) == "cuda":
        return GPU_SECONDS
    guess = _STEPS * (4 * n_rows * n_rows * n_cells / 2e10 + n_rows * n_cells * 4e-8)
    return 0.2 + guess


# Figures 4 to 9 ------------------------------------------------------------------------------


def mechanism(
    setting: Setting,
    *,
    workload: str,
    m: int,
    n: int,
    s: int,
    shrink: int,
    seed: int,
    draws: int,
    method: str,
    epsilon: float = EPSILON,
) -> Iterator[Row]:
    """One row: the squared error per query of one mechanism, the mean over draws of the workload.

    Args:
        s: the rank of WRelated; 0 for the others.
        shrink: by how much m and n are smaller than in the paper.
        seed: of the first draw; the others follow.
        method: one of the names above.
    """
    began = time.process_time()
    limit = setting.search_seconds / draws
    errors, bounds, notes, are_cut = [], [], [], []
    for draw in range(seed, seed + draws):
        problem = _DrawnProblem(drawn(workload, m, n, s, draw), s, setting, epsilon, draw, limit)
        found = _MECHANISMS[method](problem)
        errors.append(found.error / m)
        bounds.append(found.lower_bound / m)
        notes.append(found.how)
        are_cut.append(found.is_cut)
    yield {
        "epsilon": epsilon,
        "error": float(np.mean(errors)),
        "lower_bound": float(np.mean(bounds)),
        "spread": (max(errors) - min(errors)) / float(np.mean(errors)),
        "seconds": time.process_time() - began,
        "how": notes[0],
        IS_CUT: any(are_cut),
    }


class MechanismResult(NamedTuple):
    """What a mechanism gives.

    Attributes:
        error: its total squared error.
        lower_bound: what was proved, 0 for nothing.
        how: how it was found.
        is_cut: whether our time limit ended the search for it.
    """

    error: float
    lower_bound: float
    how: str
    is_cut: bool = False


_Mechanism = Callable[["_DrawnProblem"], MechanismResult]


@dataclass(frozen=True)
class _DrawnProblem:
    """What a mechanism is to answer: a draw of a workload, of rank s (0 for any), in `limit` seconds."""

    workload: Workload
    s: int
    setting: Setting
    epsilon: float
    draw: int
    limit: float

    def searching_on(self, n_rows: float | None = None) -> str:
        """The backend; for LRM by the rows that it will have."""
        m, n = self.workload.shape
        rows = RATIO * (self.s or min(m, n)) if n_rows is None else n_rows
        return searching_on(self.setting, rows, n)


def _planned(
    problem: _DrawnProblem, method: str, limit: float | None = None, backend: str = "numpy", **options: Plain
) -> MechanismResult:
    plan = design(
        problem.workload,
        PureDP(problem.epsilon),
        method=method,
        options=options,
        time_limit=limit,
        backend=backend,
    )
    found = plan.certificate
    return MechanismResult(found.achieved, found.lower_bound, plan.note, plan.ended == "deadline")


def _low_rank(problem: _DrawnProblem) -> MechanismResult:
    return _planned(problem, "lowrank", problem.limit, problem.searching_on(), seed=problem.draw)


def _low_rank_of_all_rows(problem: _DrawnProblem) -> MechanismResult:
    n = problem.workload.shape[1]
    rows = max(n, math.ceil(RATIO * problem.s))
    return _planned(problem, "lowrank", problem.limit, problem.searching_on(rows), seed=problem.draw, r=rows)


def _matrix(problem: _DrawnProblem) -> MechanismResult:
    return _planned(problem, "smoothing", problem.limit, problem.searching_on(problem.workload.shape[1]))


def _ours(problem: _DrawnProblem) -> MechanismResult:
    return _planned(problem, "auto", problem.limit)


def _bound(problem: _DrawnProblem) -> MechanismResult:
    plan = design(problem.workload, GDP(1), method="dense", tol=_BOUND_TOL, time_limit=problem.limit)
    bound = 2 / problem.epsilon**2 * plan.certificate.lower_bound
    how = "twice the certified optimum of Gaussian noise over epsilon squared"
    return MechanismResult(bound, bound, how, plan.ended == "deadline")


def _on_queries(problem: _DrawnProblem) -> MechanismResult:
    sensitivity = float(np.max(problem.workload.operator.column_norms(1)))
    return MechanismResult(
        2 * problem.workload.shape[0] * (sensitivity / problem.epsilon) ** 2, 0.0, "equation (5)"
    )


def _fixed(name: str, method: str, problem: _DrawnProblem) -> MechanismResult:
    if problem.workload.shape[1] <= _MAX_PLANNED_CELLS:
        return _planned(problem, method)
    per_unit = fixed_errors(problem.workload.dense().astype(float))[name]
    return MechanismResult(2 / problem.epsilon**2 * per_unit, 0.0, "from Haar coefficients of the queries")


_MECHANISMS: dict[str, _Mechanism] = {
    "LRM": _low_rank,
    "LRM, n rows": _low_rank_of_all_rows,
    "LM": partial(_fixed, "LM", "identity"),
    "WM": partial(_fixed, "WM", "wavelet"),
    "HM": partial(_fixed, "HM", "hierarchical"),
    "NOQ": _on_queries,
    "AMM": _matrix,
    "leastnoise": _ours,
    "bound": _bound,
}


def fixed_errors(W: Array) -> dict[str, float]:
    """Δ² trace W (AᵀA)⁻¹ Wᵀ for cells (LM), wavelets (WM) and a binary tree (HM), n a power of two.

    Haar wavelets h are eigenvectors of all three: of AᵀA = I; of Σ hhᵀ with the eigenvalue ‖h‖²; and
    of the tree's, whose level of blocks of 2^l cells adds 2^l for each l below the wavelet's own, and so
    ‖h‖² − 1 in all, or 2n − 1 for the total. No n by n matrix is made.

    Raises:
        InputError: if n is no power of two.
    """
    n = W.shape[1]
    depth = n.bit_length() - 1
    if n != 2**depth:
        raise InputError(f"the number of cells must be a power of two, got {n}", field="n", given=n)
    cells = float((W * W).sum())
    sums, width = W, 1
    wavelets = tree = 0.0
    while width < n:
        left, right = sums[:, 0::2], sums[:, 1::2]
        width *= 2
        squares = float(((left - right) ** 2).sum()) / width
        wavelets += squares / width
        tree += squares / (width - 1)
        sums = left + right
    squares = float((sums**2).sum()) / n
    Delta = 1 + depth
    return {
        "LM": cells,
        "WM": Delta**2 * (wavelets + squares / n),
        "HM": Delta**2 * (tree + squares / (2 * n - 1)),
    }


# Figures 2 and 3 -----------------------------------------------------------------------------

# Entries of the Search Logs.
_N_ENTRIES = 65_536

# The seed of their stand-in.
_DATA_SEED = 2012


def stand_in(n: int) -> Array:
    """A stand-in for the Search Logs: 65,536 skewed counts, about five on average, merged in order to n."""
    generator = np.random.default_rng(_DATA_SEED)
    counts = generator.poisson(generator.lognormal(0.5, 1.5, _N_ENTRIES)).astype(float)
    return np.asarray(counts.reshape(n, -1).sum(axis=1))


def decomposition(
    setting: Setting,
    *,
    workload: str,
    m: int,
    n: int,
    s: int,
    shrink: int,
    seed: int,
    ratio: float,
    gammas: str,
) -> Iterator[Row]:
    """Six rows for each γ: Algorithm 1, as printed and made unbiased, at the paper's three ε.

    γ only says when Algorithm 1 ends, so one run to the least of them passes through the ends of all others.
    As printed, answers have the noise of Lemma 1 and miss the truth by (W − BL)x, whose square is added, x
    being the stand-in. Unbiased, they come from L + B⁺(W − BL) of the best round so far.

    Args:
        ratio: rows of L over the rank of W. Below 1, W = BL is out of reach, and what 20 rounds from
            β = 10 give is taken.
        gammas: the paper's, separated by spaces. Smaller matrices are shorter: γ is divided by `shrink`.
    """
    W = drawn(workload, m, n, s, seed).dense().astype(float)
    rank = int(np.linalg.matrix_rank(W))
    r = math.ceil(ratio * rank) if ratio >= 1 else max(1, math.floor(ratio * rank))
    by_distance = {float(gamma) / shrink: float(gamma) for gamma in gammas.split()}
    for distance, end in _ends(W, r, rank, list(by_distance), seed, setting):
        sensitivity = float(np.abs(end.L).sum(axis=0).max())
        noise = 2 * float((end.B**2).sum()) * sensitivity**2 / m
        missing = W - end.B @ end.L
        missed = float(((missing @ stand_in(n)) ** 2).sum()) / m
        for epsilon in EPSILONS:
            of_both: dict[str, Plain] = {
                "gamma": by_distance[distance],
                "epsilon": epsilon,
                "panel": panel(workload, epsilon),
                "distance": distance,
                "residual": float(np.linalg.norm(missing)),
                "rounds": end.rounds,
                "starts": end.starts,
                "ended": end.ended,
                IS_CUT: end.ended == "time",
                "seconds": end.seconds,
            }
            yield {
                "method": "LRM as printed",
                "error": noise / epsilon**2 + missed,
                "noise": noise / epsilon**2,
                "missed": missed,
                **of_both,
            }
            yield {
                "method": "LRM unbiased",
                "error": 2 * end.least / m / epsilon**2 if math.isfinite(end.least) else None,
                **of_both,
            }


def panel(workload: str, epsilon: float) -> str:
    """What a panel of figures 2 and 3 is called."""
    return f"{workload}, epsilon {epsilon:g}"


class _LowRankEnd(NamedTuple):
    """Where Algorithm 1 ends for one γ.

    Attributes:
        least: the squared error per unit of noise of the best unbiased answers up to there.
        rounds: of the last start.
        starts: how many there were; all but the last had lost rank.
        ended: the rule that ended it.
        seconds: of the last start.
    """

    B: Array
    L: Array
    least: float
    rounds: int
    starts: int
    ended: str
    seconds: float


def _ends(
    W: Array, r: int, rank: int, gammas: Sequence[float], seed: int, setting: Setting
) -> Iterator[tuple[float, _LowRankEnd]]:
    """Every γ with its end. A start that loses rank is followed by one with ten times the penalty."""
    first = 0 if r >= rank else 1
    backend = searching_on(setting, r, W.shape[1])
    left = sorted(gammas, reverse=True)
    for number in range(first, _MAX_STARTS):
        began = time.process_time()
        found = low_rank(
            W,
            random_start(r, W.shape[1], 1, np.random.default_rng(seed)),
            norm=1,
            gamma=left[-1],
            beta=10.0**number,
            max_iterations=_MAX_ROUNDS,
            backend=backend,
            time_limit=setting.search_seconds,
            keep_at=left,
        )
        # Another process may hold the core, but not this one's time. What a GPU does is on no such clock.
        pace = (time.process_time() - began) / found.seconds[-1] if backend == "numpy" else 1.0
        is_last = found.ended != "lost rank" or r < rank or number == _MAX_STARTS - 1
        for gamma in list(left):
            if gamma in found.pairs:
                rounds, B, L = found.pairs[gamma]
                ended = "gamma"
            elif is_last:
                rounds, B, L, ended = len(found.scales), found.B, found.L, found.ended
            else:
                continue
            left.remove(gamma)
            seconds = pace * found.seconds[rounds - 1]
            least = min(found.errors[:rounds])
            yield gamma, _LowRankEnd(B, L, least, rounds, number + 1 - first, ended, seconds)
        if not left:
            return


def references(
    setting: Setting, *, workload: str, method: str, along: str, values: str, **place: Any
) -> Iterator[Row]:
    """What does not depend on γ or r: one row for each of the values of `along`, at the paper's three ε."""
    (row,) = mechanism(setting, workload=workload, method=method, draws=1, epsilon=1.0, **place)
    error, bound = (float(str(row[column])) for column in ("error", "lower_bound"))
    for epsilon in EPSILONS:
        for value in values.split():
            yield {
                **row,
                along: float(value),
                "epsilon": epsilon,
                "panel": panel(workload, epsilon),
                "error": error / epsilon**2,
                "lower_bound": bound / epsilon**2,
            }
