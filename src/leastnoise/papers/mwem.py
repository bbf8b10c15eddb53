"""MWEM: the query that fits worst is measured, and the estimate bent towards it, round after round.

The estimate A is a distribution over the cells, times the number N of records. It starts even; in each of
T rounds

1. a query j with a large error |w_j x − w_j A| is chosen privately (ε_choice/T),
2. its answer y is measured with Laplace noise (ε_answers/T),
3. A_i is multiplied by exp( w_ji (y − w_j A) / (2 N D²) ), D the largest coefficient, and rescaled to N.

N itself is measured first (ε_total): the paper takes it as known, which is not so where a record may be
added or removed. With passes = 0 the result is the mean of the estimates before each round, as in the
paper's Figure 1; with more, the last estimate after going through all answers that often in every round,
which the paper recommends in practice (section 2.3).

Guarantee of 1, report noisy max:
    Errors are whole numbers, |K w_j x − r_j|, where r_j is K w_j A rounded, which is known to everybody, and
    K = 2^20. A record changes each by Δ = K D at most. Each gets independent discrete Laplace noise of scale
    2Δ T/ε_choice, and the first of the largest wins. Fix all noise but Z, that of query j: it wins if Z ≥ t,
    and t, the largest of the others less j's own error, changes by 2Δ at most, so that Pr[Z ≥ t] changes
    by a factor of exp(ε_choice/T) at most. Nothing but j is released.

Reference:
    Hardt, Ligett and McSherry (2012), A simple and practical algorithm for differentially private data
    release, Figure 1 and section 2.3. In the place of their exponential mechanism stands report noisy max,
    Dwork and Roth (2014), section 3.3, Claim 3.9, as exact noise serves it without floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.planning import (
    GRID,
    DiscreteLaplace,
    Mechanism,
    Method,
    Request,
    RoundedGaussian,
    least_scale,
    refuse_unless_pure_total,
    share_option,
    shown,
    split_budget,
)

# Every round asks all queries: 32 MB of them.
MAX_ENTRIES = 2**22

# Rounds beyond this leave each with noise that drowns its answer.
MAX_ROUNDS = 1000


@dataclass(frozen=True, eq=False)
class Mwem(Mechanism):
    """The rounds for integer queries, (m, n)."""

    name: ClassVar[str] = "mwem"

    rows: Array
    rounds: int
    passes: int

    @property
    def note(self) -> str:
        return (
            f"{self.rounds} rounds of multiplicative weights, epsilon {float(self.shares['total']):.4g} for "
            f"the total, {float(self.shares['choice']):.4g} for choosing queries, "
            f"{float(self.shares['answers']):.4g} for their answers"
        )

    @property
    def _largest(self) -> int:
        """D, the largest coefficient, 1 where all are zero."""
        return max(int(np.abs(self.rows).max(initial=0)), 1)

    @property
    def most_integers(self) -> int:
        return 1 + 2 * self.rounds

    def measure(
        self, counts: Array, laplace: DiscreteLaplace, gaussian: RoundedGaussian | None = None
    ) -> Array:
        D, T = self._largest, self.rounds
        to_choose = least_scale(2 * GRID * D, self.shares["choice"] / T)
        to_answer = least_scale(GRID * D, self.shares["answers"] / T)
        (noise,) = laplace(least_scale(GRID, self.shares["total"]), 1)
        released = [GRID * int(counts.astype(object).sum()) + noise]
        truth = [GRID * int(answer) for answer in exact.matrix_times_counts(self.rows, counts)]
        state = _Estimate(self, released[0])
        for _ in range(T):
            known = [round(GRID * answer) for answer in (self.rows @ state.cells).tolist()]
            noise_of_errors = laplace(to_choose, len(truth))
            noisy = [abs(a - r) + z for a, r, z in zip(truth, known, noise_of_errors, strict=True)]
            j = noisy.index(max(noisy))
            (noise,) = laplace(to_answer, 1)
            released += [j, truth[j] + noise]
            state.learn(j, truth[j] + noise)
        return np.array(released, dtype=object)

    def fits(self, measurements: Array) -> bool:
        if len(measurements) != 1 + 2 * self.rounds:
            return False
        return all(0 <= int(j) < len(self.rows) for j in measurements[1::2])

    def estimates(self, measurements: Array) -> Array:
        state = _Estimate(self, int(measurements[0]))
        for j, answer in zip(measurements[1::2], measurements[2::2], strict=True):
            state.learn(int(j), int(answer))
        return state.result()


class _Estimate:
    """Step 3: the estimate that follows from the total and the answers released so far."""

    def __init__(self, mechanism: Mwem, total: int) -> None:
        self.rows, self.passes = mechanism.rows, mechanism.passes
        self.unit = float(mechanism._largest)
        # Noise may leave no people at all.
        self.total = max(total / GRID, 1.0)
        n = self.rows.shape[1]
        # Logarithms: products of many rounds would run out of small floats.
        self.logs = np.zeros(n)
        self.sum_before = np.zeros(n)
        self.answers: list[tuple[int, float]] = []

    @property
    def cells(self) -> Array:
        """A, (n,): it sums to the total."""
        shares = np.exp(self.logs - self.logs.max())
        return shares * (self.total / shares.sum())

    def learn(self, j: int, answer: int) -> None:
        """Bend the estimate towards an answer, in units of 1/K."""
        self.answers.append((j, answer / GRID))
        self.sum_before += self.cells
        if self.passes == 0:
            self._bend(*self.answers[-1])
        for _ in range(self.passes):
            for known in self.answers:
                self._bend(*known)

    def _bend(self, j: int, answer: float) -> None:
        row = self.rows[j] / self.unit
        self.logs += row * ((answer / self.unit - float(row @ self.cells)) / (2 * self.total))

    def result(self) -> Array:
        """The mean of the estimates before each round as printed, else the last."""
        return self.cells if self.passes else self.sum_before / len(self.answers)


def _refuses(request: Request) -> str | None:
    reason = refuse_unless_pure_total(request)
    if reason is not None:
        return reason
    W = request.workload.operator
    m, n = W.shape
    if m * n > MAX_ENTRIES:
        return f"every round asks all queries, at most {MAX_ENTRIES:,} coefficients, here {m * n:,}"
    if not W.is_integer or W.largest >= 2**31:
        return "it is for queries with whole numbers below 2^31, so that their errors are whole numbers too"
    return None


def _whole(name: str, given: Any, low: int, high: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise MethodError(
            f"{name} must be a whole number from {low} to {high:,}, got {shown(given)}",
            field=name,
            given=given,
        )
    return given


def _find(request: Request) -> Mwem:
    total = share_option("total_share", MWEM.option(request, "total_share"))
    choice = (1 - total) * share_option("choice_share", MWEM.option(request, "choice_share"))
    parts = {"total": total, "choice": choice, "answers": 1 - total - choice}
    return Mwem(
        request.privacy,
        split_budget(request.privacy, parts),
        request.workload.operator.dense(np.int64),
        _whole("rounds", MWEM.option(request, "rounds"), 1, MAX_ROUNDS),
        _whole("passes", MWEM.option(request, "passes"), 0, 1000),
    )


MWEM = Method(
    "mwem",
    "multiplicative weights on the queries that fit worst; pure privacy, few records",
    _refuses,
    _find,
    {
        "rounds": (10, "how many queries are chosen and measured"),
        "passes": (20, "through all answers in each round; 0 for the algorithm as printed"),
        "total_share": ("1/20", "the share of epsilon that the number of records takes"),
        "choice_share": ("1/2", "the share of the rest that choosing queries takes"),
    },
    is_quick=False,
    is_data_dependent=True,
    variants={"as printed": {"passes": 0}},
)
