"""The low-rank mechanism: W = B L with the least scale of B, by multipliers and projected gradients.

    minimise  trace BᵀB      subject to  W = B L,  every column of L of norm at most 1            (7)

The norm is L1 for Laplace noise, as in the paper, and L2 for Gaussian noise, as in its journal
version. The augmented Lagrangian with penalty β and multipliers π is minimised over B in
closed form (9) and over L by Nesterov's method, each step followed by a projection of every column
(Algorithm 2), in turn; then π moves, and β doubles every ten rounds, until ‖W − BL‖_F ≤ γ (Algorithm 1).

Read with these choices, where the paper leaves them open: B and L alternate until B moves by less than
1e-3, five times at most; Nesterov's method takes 50 steps at most; a start is drawn at random, columns of
norm 1; 200 rounds at most, the number that the COA paper reports. The authors' program starts from the
singular vectors, multiplies β by 5 every eight rounds, up to 10⁵, takes five steps, and gives no start up:
options `start` and `schedule`. With both, 32 ranges over 128 cells take 10 rounds for γ = 10 and 75 for 1e-4,
and end at 1.5 times the error of ours; WRelated of rank 16 stays above ‖W − BL‖_F = 100. Line 12 of
Algorithm 2 compares with the model at L^(t), not at U.

Two things the print does not handle are reported, not hidden:

-   ‖W − BL‖_F > 0 would bias the answers, and this library measures without bias only. Before L is
    measured, what is missing is added to it, L + B⁺(W − BL), the smallest change after which
    W = B L holds exactly; that may lengthen its columns, so noise and error are computed anew.
    It exists whenever B has the rank of W.
-   B often loses rank for good, above all while β is small beside W; the COA paper says so too. Then no
    change to L helps. After 20 such rounds in a row the start is given up, the next one begins with ten
    times the β, and the best iterate of all, by the error of its unbiased answers, is taken. The
    decomposition of Lemma 3 is among them, so that its bound always holds.

Reference:
    Yuan, Zhang, Winslett, Xiao, Yang and Hao (2012), Low-Rank Mechanism: Optimizing Batch Queries under
    Differential Privacy, Algorithms 1 and 2, Lemma 3. For the L2 norm: the journal version (2015), Optimizing
    Batch Linear Queries under Exact and Approximate Differential Privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, Progress, worst_ending
from leastnoise.papers.low_rank_rounds import (
    GAMMA,
    MOST_BETA,
    SCHEDULES,
    LowRankRule,
    Schedule,
    lemma_3,
    low_rank,
    random_start,
    squared_error,
    svd_start,
)
from leastnoise.planning import (
    Method,
    Request,
    SearchResult,
    choice_option,
    dense_needs,
    from_gains,
    from_rows,
    nothing_asked,
    positive_option,
    refuse_unless_total,
    scaled_note,
    uniform_weights,
    weighted_factor,
    whole_option,
)
from leastnoise.solver import load_backend
from leastnoise.strategy import integer_basis

# The paper ends at 8,192 cells and 1,024 queries. With backend "cuda" an H200 takes 24 s for a start of
# that size (random queries, L2), and 0.9 s (L2) to 3.5 s (L1, rank lost) for each round.
MAX_CELLS = 10_000

# Rows of L over the rank of W: the paper's default.
RANK_FACTOR = 1.2


# The least first penalty: below it B and L shrink to nothing.
_LEAST_BETA = 1e-12

# The most rows of L, in ranks of W: further ones gain nothing.
_MOST_RANKS = 10


# Starts that may lose rank, each followed by one with ten times the penalty.
_MAX_LOST_STARTS = 5


STARTS = ("random", "svd")


# How a start ended that a rule has ended. Where rank is lost another start begins.
_ENDINGS: dict[LowRankRule, Ended] = {
    "gamma": "converged",
    "beta": "converged",
    "iterations": "exhausted",
    "lost rank": "converged",
    "time": "deadline",
}


# The method ----------------------------------------------------------------------------------


def _refuses(request: Request) -> str | None:
    return refuse_unless_total(request, MAX_CELLS, allows_laplace=True)


def _find(request: Request) -> SearchResult:
    settings = _settings(request)
    trivial = nothing_asked(request)
    if trivial is not None:
        return trivial
    basis = integer_basis(request.workload)
    r = _n_rows(request, basis.rank)
    R = weighted_factor(request, basis)
    # γ and β are meant for coefficients of size one, as the papers' counting queries have.
    unit = math.sqrt(float(np.max(request.objective.weights(request.workload))))
    unit *= request.workload.operator.largest
    R = R / unit
    norm = request.privacy.noise.power
    strategy, told, ended = _best_of_starts(request, settings, R, r, norm, unit)
    note = f"low-rank mechanism, {r} rows, {told}" + scaled_note(request)
    q = uniform_weights(request.workload)
    if norm == 1:
        return SearchResult(from_rows(strategy, basis), q, "heuristic", note, ended)
    B = np.linalg.lstsq(strategy.T, R.T, rcond=None)[0].T
    proposal = from_gains(R, B, basis)
    if len(R) == R.shape[1]:
        # At the optimum Σ² = R diag(q) Rᵀ, with Σ = B Bᵀ.
        q = (np.linalg.solve(R, B @ B.T) ** 2).sum(axis=1)
    return SearchResult(proposal, q, "heuristic", note, ended)


@dataclass(frozen=True)
class _Settings:
    """The options that say how to search."""

    gamma: float
    beta: float
    restarts: int
    max_iterations: int
    seed: int
    start: str
    schedule: Schedule


def _settings(request: Request) -> _Settings:
    def given(name: str) -> Any:
        return LOWRANK.option(request, name)

    return _Settings(
        gamma=positive_option("gamma", given("gamma")),
        beta=positive_option("beta", given("beta"), least=_LEAST_BETA, most=MOST_BETA),
        restarts=whole_option("restarts", given("restarts")),
        max_iterations=whole_option("max_iterations", given("max_iterations")),
        seed=whole_option("seed", given("seed"), least=0, most=2**128),
        start=choice_option("start", given("start"), STARTS),
        schedule=SCHEDULES[choice_option("schedule", given("schedule"), SCHEDULES)],
    )


def _n_rows(request: Request, rank: int) -> int:
    """How many rows L has.

    Raises:
        MethodError: if they are fewer than the rank of the queries.
    """
    given = LOWRANK.option(request, "r")
    if given is None:
        return math.ceil(RANK_FACTOR * rank)
    r = whole_option("r", given, most=_MOST_RANKS * rank)
    if r < rank:
        raise MethodError(
            f"r must be at least {rank}, the rank of the queries, got {r}: with less, B L misses some "
            "of them and their answers would be biased, which is never measured here",
            field="r",
            given=r,
        )
    return r


def _best_of_starts(
    request: Request, settings: _Settings, R: Array, r: int, norm: int, unit: float
) -> tuple[Array, str, Ended]:
    """The rows with the least error from all starts and Lemma 3, where they came from, and how that ended."""
    generator = np.random.default_rng(settings.seed)
    arrays = load_backend(request.backend)
    deadline = Deadline.after(request.time_limit)
    strategy, origin = lemma_3(R, norm), "the decomposition of Lemma 3"
    least = squared_error(arrays.matrix(R), arrays.matrix(strategy), norm, arrays)
    lost = number = 0
    endings: list[Ended] = []
    while number - lost < settings.restarts and lost < _MAX_LOST_STARTS:
        if deadline.is_past:
            endings.append("deadline")
            break
        number += 1
        is_svd = settings.start == "svd" and number == 1
        result = low_rank(
            R,
            svd_start(R, r) if is_svd else random_start(r, R.shape[1], norm, generator),
            norm=norm,
            gamma=settings.gamma,
            beta=settings.beta * 10.0**lost,
            max_iterations=settings.max_iterations,
            schedule=settings.schedule,
            backend=request.backend,
            time_limit=deadline.left,
        )
        lost += result.ended == "lost rank"
        endings.append(_ENDINGS[result.ended])
        if result.strategy is not None and min(result.errors) < least:
            strategy, least = result.strategy, min(result.errors)
            origin = (
                f"round {result.best} of start {number}, which ended at ‖W − BL‖_F = "
                f"{unit * result.residual:.1e}"
            )
        if request.progress is not None:
            request.progress(Progress(number, math.inf, deadline.elapsed))
    if number - lost < settings.restarts and "deadline" not in endings:
        # No start is left that might keep its rank.
        endings.append("exhausted")
    starts = "1 start" if number == 1 else f"{number} starts"
    return strategy, f"{starts}, {lost} lost rank; best: {origin}", worst_ending(endings)


LOWRANK = Method(
    "lowrank",
    f"low-rank mechanism: W = B L by multipliers and projected gradients, up to {MAX_CELLS:,} cells",
    _refuses,
    _find,
    {
        "r": (None, "rows of L; 1.2 times the rank of the queries unless given"),
        "gamma": (GAMMA, "‖W − BL‖_F at which a start may end, in units of the largest coefficient"),
        "beta": (1.0, "the first penalty; ten times more after each start that lost rank"),
        "restarts": (1, "random starts that keep their rank, of which the best is taken"),
        "max_iterations": (200, "rounds of each start at most"),
        "seed": (0, "of the random starts"),
        "start": ("random", "random, or svd: singular vectors first, as in the authors' program"),
        "schedule": ("paper", "paper: the penalty doubles every 10 rounds; authors: times 5 every 8"),
    },
    is_quick=False,
    # After the last step of a round its error is worked out, from two decompositions.
    needs=dense_needs(held=9, first=32, step=45, rounded=1.2, spans=True),
)
