"""Algorithms 1 and 2 of the low-rank mechanism from one start; `leastnoise.papers.lowrank` describes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from leastnoise.core.deadline import Deadline
from leastnoise.core.decompositions import svd
from leastnoise.core.errors import InputError
from leastnoise.core.numerical_rank import numerical_rank
from leastnoise.core.operators import Array
from leastnoise.papers.unit_balls import L1Ball, L2Ball
from leastnoise.solver import NUMPY, Backend, load_backend

# The distance ‖W − BL‖_F that ends Algorithm 1: the paper's default.
GAMMA = 0.01


# Updates of B and L in a round at most; the paper says "until converged".
_MAX_ALTERNATIONS = 5


# The share by which B must change for another update.
_ALTERNATION_TOL = 1e-3


# The penalty at which Algorithm 1 ends; the paper says "sufficiently large".
MOST_BETA = 1e12


# What the authors' program fills rows of L with that the singular vectors leave empty.
_FILLED = 1e-8


# Algorithm 2: what a step must move, per entry of L.
_CHI = 1e-12


# B has lost rank when its last singular value is below this share of the first.
_LOST = 1e-9


@dataclass(frozen=True)
class Schedule:
    """What the paper leaves open or the authors' program has otherwise.

    Attributes:
        rounds_per_beta: rounds after which the penalty β rises,
        beta_factor: by this factor,
        largest_beta: and up to this.
        nesterov_steps: steps of Algorithm 2 at most; the paper says "until converged".
        max_lost_rounds: rounds in a row without rank after which a start is given up.
    """

    rounds_per_beta: int
    beta_factor: float
    largest_beta: float
    nesterov_steps: int
    max_lost_rounds: float


SCHEDULES = {
    "paper": Schedule(10, 2.0, math.inf, nesterov_steps=50, max_lost_rounds=20),
    "authors": Schedule(8, 5.0, 1e5, nesterov_steps=5, max_lost_rounds=math.inf),
}


_BALLS: dict[int, type[L1Ball] | type[L2Ball]] = {1: L1Ball, 2: L2Ball}


LowRankRule = Literal["gamma", "beta", "iterations", "lost rank", "time"]


@dataclass(frozen=True, eq=False)
class LowRankResult:
    """Where one start ended, and how it got there.

    Attributes:
        B: (m, r), as printed: the last.
        L: (r, n), as printed: the last.
        scales: trace BᵀB after each round, the paper's objective.
        residuals: ‖W − BL‖_F after each round.
        errors: after each round the squared error per unit of noise of unbiased answers
            from L + B⁺(W − BL), sensitivity included; infinite where B lost rank.
        seconds: when each round ended.
        ended: which rule ended it.
        strategy: L + B⁺(W − BL) of the round with the least error; None if B never had full rank.
        best: the number of that round, from 1.
        pairs: for each gamma of `keep_at` that was reached, the round and its B and L.
    """

    B: Array
    L: Array
    scales: tuple[float, ...]
    residuals: tuple[float, ...]
    errors: tuple[float, ...]
    seconds: tuple[float, ...]
    ended: LowRankRule
    strategy: Array | None
    best: int
    pairs: Mapping[float, tuple[int, Array, Array]] = field(default_factory=dict)

    @property
    def residual(self) -> float:
        """‖W − BL‖_F of the last pair."""
        return self.residuals[-1]


def low_rank(
    W: Array,
    start: Array,
    *,
    norm: int,
    gamma: float = GAMMA,
    beta: float = 1.0,
    max_iterations: int = 200,
    schedule: Schedule = SCHEDULES["paper"],
    backend: str = "numpy",
    time_limit: float | None = None,
    keep_at: Sequence[float] = (),
    watch: Callable[[int, float, float], None] | None = None,
) -> LowRankResult:
    """Algorithm 1 on W, (m, n), from a start L, (r, n).

    Args:
        norm: 1 or 2, that of the columns of L.
        gamma: the ‖W − BL‖_F at which it may end.
        beta: the first penalty; 1 in the paper.
        schedule: how the penalty rises, and the steps of Algorithm 2.
        time_limit: seconds, looked at after every step within a round; a round that it ends still counts.
        keep_at: larger gammas, at which the same search would have ended before: its B and L there are kept.
        watch: called with the round, trace BᵀB and seconds.

    Raises:
        InputError: for another norm or backend.
        MissingExtraError: if the backend is not there.
    """
    if norm not in _BALLS:
        raise InputError(f"norm must be 1 or 2, got {norm!r}", field="norm", given=norm)
    arrays = load_backend(backend)
    end = Deadline.after(time_limit)
    rank = numerical_rank(W)
    W, L = arrays.matrix(W), arrays.matrix(start)
    B, pi = arrays.matrix(np.zeros((len(W), len(start)))), 0 * W
    ball = _BALLS[norm](arrays)
    rounds = _Rounds(schedule.max_lost_rounds)
    pairs: dict[float, tuple[int, Array, Array]] = {}
    ended: LowRankRule | None = None
    for number in range(1, max_iterations + 1):
        B, L = _alternated(B, L, beta * W + pi, beta, ball, schedule.nesterov_steps, arrays, end)
        missing = W - B @ L
        scale, residual = arrays.dot(B, B), _length(missing, arrays)
        seconds = end.elapsed
        repaired = unbiased(W, B, L, rank, arrays)
        error = math.inf if repaired is None else squared_error(W, repaired, norm, arrays)
        rounds.add(scale, residual, seconds, repaired, error)
        for larger in keep_at:
            if residual <= larger and larger not in pairs:
                pairs[larger] = number, arrays.numpy(B), arrays.numpy(L)
        if watch is not None:
            watch(number, scale, seconds)
        ended = rounds.ending(gamma, beta, end.is_past)
        if ended is not None:
            break
        if number % schedule.rounds_per_beta == 0:
            beta = min(beta * schedule.beta_factor, max(beta, schedule.largest_beta))
        pi = pi + beta * missing
    return rounds.result(B, L, ended or "iterations", arrays, pairs)


class _Rounds:
    """What every round ended with, as in `LowRankResult`, and how many in a row have lost rank."""

    def __init__(self, max_lost: float) -> None:
        self.max_lost = max_lost
        self.scales: list[float] = []
        self.residuals: list[float] = []
        self.errors: list[float] = []
        self.seconds: list[float] = []
        self.strategy: Any | None = None
        self.best, self.least, self.lost = 0, math.inf, 0

    def add(self, scale: float, residual: float, seconds: float, repaired: Any | None, error: float) -> None:
        """One more; `repaired` is L + B⁺(W − BL), with its error, or None where B lost rank."""
        self.scales.append(scale)
        self.residuals.append(residual)
        self.seconds.append(seconds)
        self.errors.append(error)
        if repaired is not None and error < self.least:
            self.strategy, self.best, self.least = repaired, len(self.errors), error
        self.lost = 0 if repaired is not None else self.lost + 1

    def result(
        self,
        B: Any,
        L: Any,
        ended: LowRankRule,
        arrays: Backend,
        pairs: Mapping[float, tuple[int, Array, Array]],
    ) -> LowRankResult:
        """Where a start ended, with the last pair."""
        return LowRankResult(
            arrays.numpy(B),
            arrays.numpy(L),
            tuple(self.scales),
            tuple(self.residuals),
            tuple(self.errors),
            tuple(self.seconds),
            ended,
            None if self.strategy is None else arrays.numpy(self.strategy),
            self.best,
            pairs,
        )

    def ending(self, gamma: float, beta: float, is_late: bool) -> LowRankRule | None:
        """Which rule ends the rounds after the last, or None."""
        if self.residuals[-1] <= gamma:
            return "gamma"
        if beta >= MOST_BETA:
            return "beta"
        if self.lost >= self.max_lost:
            return "lost rank"
        return "time" if is_late else None


def _alternated(
    B: Any,
    L: Any,
    target: Any,
    beta: float,
    ball: L1Ball | L2Ball,
    steps: int,
    arrays: Backend,
    end: Deadline,
) -> tuple[Any, Any]:
    """B and L, each best for the other, in turn, as far as time allows; `target` is βW + π."""
    identity = arrays.matrix(np.eye(len(L)))
    for _ in range(_MAX_ALTERNATIONS):
        last, B = B, arrays.solve(beta * L @ L.T + identity, L @ target.T).T
        L = _nesterov(L, beta * B.T @ B, B.T @ target, ball, steps, arrays, end)
        if end.is_past or _length(B - last, arrays) <= _ALTERNATION_TOL * _length(B, arrays):
            break
    return B, L


def _nesterov(
    start: Any, H: Any, T: Any, ball: L1Ball | L2Ball, steps: int, arrays: Backend, end: Deadline
) -> Any:
    """Algorithm 2: the L that minimises ½⟨L, HL⟩ − ⟨T, L⟩ over columns in the unit ball, nearly."""
    dot = arrays.dot
    chi = math.prod(start.shape) * _CHI
    L = previous = start
    # The products with H go along with the steps: one for each, where S and the new L would need two.
    HL = H_previous = H @ start
    before, now, omega = 0.0, 1.0, 1.0
    for _ in range(steps):
        if end.is_past:
            break
        onwards = (before - 1) / now
        S = L + onwards * (L - previous)
        HS = HL + onwards * (HL - H_previous)
        gradient = HS - T
        value = 0.5 * dot(S, HS) - dot(T, S)
        while True:
            new = ball.project(S - gradient / omega)
            step = new - S
            squares = dot(step, step)
            if math.sqrt(squares) < chi:
                return new
            H_new = H @ new
            reached = 0.5 * dot(new, H_new) - dot(T, new)
            model = value + dot(gradient, step) + omega / 2 * squares
            # Differences below rounding are no reason to shorten the step.
            if reached <= model + 1e-12 * abs(value) or not math.isfinite(omega):
                break
            omega *= 2
        previous, L = L, new
        H_previous, HL = HL, H_new
        before, now = now, (1 + math.sqrt(1 + 4 * now * now)) / 2
    return L


def _column_norms(U: Any, norm: int) -> Any:
    return abs(U).sum(0) if norm == 1 else (U * U).sum(0) ** 0.5


def _length(U: Any, arrays: Backend) -> float:
    return math.sqrt(arrays.dot(U, U))


def unbiased(W: Any, B: Any, L: Any, rank: int, arrays: Backend = NUMPY) -> Any | None:
    """L + B⁺(W − BL), from which W follows exactly, or None where B has not the rank of W."""
    U, values, Vt = arrays.svd(B)
    if len(values) < rank or not values[rank - 1] > _LOST * values[0]:
        return None
    inverse = (Vt[:rank].T / values[:rank]) @ U[:, :rank].T
    return L + inverse @ (W - B @ L)


def squared_error(W: Any, L: Any, norm: int, arrays: Backend = NUMPY) -> float:
    """‖W L⁺‖_F² times the squared sensitivity of L: Lemma 1 without 2/ε², B being best for L."""
    B = arrays.least_squares(L.T, W.T)
    return arrays.dot(B, B) * float(_column_norms(L, norm).max()) ** 2


def random_start(r: int, n: int, norm: int, generator: np.random.Generator) -> Array:
    """Normal entries, (r, n), columns of norm 1."""
    L = generator.standard_normal((r, n))
    return np.asarray(L / np.linalg.norm(L, ord=norm, axis=0))


def svd_start(W: Array, r: int) -> Array:
    """The first r right singular vectors of W over √r, (r, n), as the authors' program begins.

    Rows beyond the singular vectors that there are have equal, tiny entries.
    """
    vectors = svd(W)[2][:r]
    filled = np.full((r - len(vectors), W.shape[1]), _FILLED)
    return np.concatenate([vectors, filled]) / math.sqrt(r)


def lemma_3(W: Array, norm: int) -> Array:
    """The right singular vectors of W, (rank, n), over the root of the rank if the norm is L1.

    Their squared error is at most rank·Σλ² (L1) or Σλ² (L2), λ the singular values of W.
    """
    vectors = svd(W)[2]
    rank = numerical_rank(W)
    return np.asarray(vectors[:rank] / (math.sqrt(rank) if norm == 1 else 1.0))
