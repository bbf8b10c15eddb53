"""Whether a plan keeps what it says: its noise drawn many times, its arithmetic done again another way.

Two neighbouring tables are made up, no real one is read: a few records, and the same with m more in the
cell whose record spends most (or with m records of one cell in place of m of another). Both go through the
steps of `measure` many times, and the best test there is guesses which of the two a release came from.
Guessing better than the promise allows proves that the promise is broken, whatever the reason.

    Gaussian   the statistic t = d·(y − Ax)/(‖d‖σ), d = A(x' − x), is N(0, 1) for the one table and N(M, 1)
               for the other, M = m‖d₁‖/σ. Guessing by t > M/2 is wrong with probability α on the one and β on
               the other. If one record spends at most μ, then m spend at most mμ, and α + β ≥ 2Φ(−mμ/2).
    Laplace    in the row that the records change most: E is "at or below what the one table has", F "at or
               above what the other has". If one record spends at most ε in this row, then P(E) + P'(F) ≤
               e^(mε) (P'(E) + P(F)); discrete Laplace noise attains it, whatever its scale.

α + β and the sums of Laplace are bounded from N draws of each table by Clopper and Pearson's limits for 2N
draws, which hold for sums of two unequal probabilities as well (Hoeffding 1956, theorem 4: a tail beyond the
mean is largest where the probabilities are equal). So the lower bound on what is spent needs no assumption
about the noise; the group of m records is chosen such that it is sharp.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from leastnoise import release
from leastnoise.bounds import Certificate, certify
from leastnoise.core.errors import DesignError, InputError, MethodError
from leastnoise.core.notebook import NotebookValue
from leastnoise.core.operators import Array
from leastnoise.core.printable import counted
from leastnoise.core.random_bits import SystemBits
from leastnoise.planning import Plan
from leastnoise.privacy import GAUSSIAN, LAPLACE, ApproxDP, Noise, delta_of, gaussian_delta_bounds
from leastnoise.query import Workload
from leastnoise.report.worst_pair import Pair, change_of, tables_of, worst_pair
from leastnoise.strategy import Measured

# Draws of each table unless others are asked for, and what m records should come to (M, or mε in the row):
# there, noise of 0.95 of its scale is noticed with the fewest draws.
USUAL_DRAWS: dict[str, int] = {GAUSSIAN: 15_000, LAPLACE: 60_000}
_AIM: dict[str, float] = {GAUSSIAN: 3.1, LAPLACE: 2.4}

# The share of its scale that noise must have lost for `AuditReport.power` to speak of it.
POWER_SHARE = 0.95

# Integers drawn for each table at most; beyond, only the rows that tell most are drawn. Some 1 s.
_MAX_INTEGERS = 2**20
_PIECE = 2**17


@dataclass(frozen=True)
class AuditReport(NotebookValue):
    """The result of an audit.

    Attributes:
        noise: "gaussian", spending in terms of μ, or "laplace", in terms of ε.
        pair: the two records whose tables were compared.
        group: m, the number of such records.
        rows: how many measured integers the guesses are based on, and how many differ between the two tables.
        draws: the number of draws from each table.
        said: the μ or ε that one record spends in these rows according to the plan.
        at_least: a lower confidence bound on what it really spends, from the guesses, without assumptions.
        level: the confidence of that bound.
        power: a lower bound on the probability of detecting noise of 0.95 of its scale.
        sensitivity: Δ² or Δ₁, from the plan.
        spent: what the strategy spends per record, exactly.
        budget: what the goal allows per record, exactly.
        delta: for a goal (ε, δ), the δ of the noise at this ε, rounded up; otherwise None.
        goal: the privacy goal, in words.
        certificate: recomputed from workload, strategy and witness; None if that is refused.
        no_cell: for a record in no cell, what it spends according to `measure`, and the lower confidence
            bound; None where the number of such records costs extra, and is measured only on request.
        faults: what is wrong, one sentence each.
    """

    noise: str
    pair: Pair | None
    group: int
    rows: tuple[int, int]
    draws: int
    said: float
    at_least: float
    level: float
    power: float
    sensitivity: int
    spent: Fraction
    budget: Fraction
    delta: float | None
    goal: str
    certificate: Certificate | None
    faults: tuple[str, ...]
    no_cell: tuple[float, float] | None = None

    @property
    def keeps_its_word(self) -> bool:
        """Whether the audit found nothing that spends more than the plan says."""
        return not self.faults

    @property
    def verdict(self) -> str:
        """The result in four or five words."""
        return "keeps what it says" if self.keeps_its_word else "spends more than it says"

    def __str__(self) -> str:
        symbol = "μ" if self.noise == GAUSSIAN else "ε"
        lines = [f"The plan {self.verdict}: {self.goal}"]
        lines += [f"  fault        {fault}" for fault in self.faults]
        if self.pair is None:
            lines.append("  noise        nothing is measured that depends on anybody")
        else:
            of = "" if self.rows[0] == self.rows[1] else f" in {self.rows[0]:,} of {self.rows[1]:,} integers"
            lines += [
                f"  noise        the plan says that one record spends {symbol} = {self.said:.4g}{of};",
                f"               {self.draws:,} simulated releases of each of two tables that differ in "
                f"{counted(self.group, 'record')} show at least {self.at_least:.4g} (confidence "
                f"{self.level:g})",
                f"               they would expose noise of {POWER_SHARE:g} times its scale with probability "
                f"{_below(self.power):g}",
            ]
            tried = f"{'every pair of records' if self.pair.is_worst else 'the worst pair found'} was tried"
            lines.append(f"  sensitivity  {tried}, none changes more than the plan says")
            if self.pair.cost > self.sensitivity:
                lines[-1] = f"  sensitivity  {tried}, and one changes more than the plan says"
        if self.no_cell is not None:
            said, at_least = self.no_cell
            lines.append(
                f"  not counted  a record in no cell is said to spend {symbol} = {said:.4g}; the releases "
                f"show at least {at_least:.4g}"
            )
        if self.delta is not None:
            lines.append(f"  claim        δ = {self.delta:.6g} at the goal's ε, recomputed and rounded up")
        if self.certificate is not None:
            lines.append(f"  certificate  {self.certificate}")
        return "\n".join(lines)


def audit(plan: Plan, *, draws: int | None = None, level: float = 0.9999) -> AuditReport:
    """Whether a plan keeps its privacy promise: draws its noise many times and repeats its arithmetic.

    Reads no table and spends nothing: the audit makes up its own tables. It takes some seconds.

    Args:
        plan: the plan to check.
        draws: the number of draws from each of two neighbouring tables; by default 15,000, or 60,000 with
            Laplace noise. With these, noise of 0.95 of its scale is detected with probability 0.95 or more
            where one record spends up to μ = 4.3, or ε = 4 in the row that it changes most.
            `AuditReport.power` has the probability for this plan, from the binomial distribution.
        level: the confidence of each lower bound: the one for the answers and the one for records in no cell.
            Each gives a false alarm with probability 1 − level.

    Guarantee:
        A plan that keeps its promise is rejected with probability at most 2(1 − level). The lower bound holds
        whatever the distribution of the noise. Passing the audit proves nothing: an audit sees only what is
        spent in the tables that it tries.

    Raises:
        InputError: for anything but a plan, a positive number of draws and a level between 0.5 and 1.
        MethodError: where what is measured depends on the data.
        RandomnessError: if the system's generator fails.
    """
    strategy = _measurable(plan, level)
    n_draws = USUAL_DRAWS[strategy.noise] if draws is None else draws
    if type(n_draws) is not int or not 1 <= n_draws <= 10**8:
        raise InputError.must("draws", "be a whole number from 1 to 10^8", given=draws)
    pair = worst_pair(plan.workload, strategy)
    trial = _NONE if pair is None else _tried(plan.workload, strategy, pair, n_draws, level)
    goal = plan.privacy
    no_cell = _tried_no_cell(plan, n_draws, level)
    faults = [*_faults_of_noise(strategy, pair, trial), *_faults_of_arithmetic(plan)]
    faults += [] if no_cell is None else _faults_of_no_cell(plan, *no_cell)
    certificate = None
    try:
        certificate = certify(plan.workload, plan)
    except DesignError as error:
        faults.append(f"there is no certificate: {error}")
    return AuditReport(
        noise=strategy.noise,
        pair=pair,
        group=trial.group,
        rows=trial.rows,
        draws=0 if pair is None else n_draws,
        said=trial.said,
        at_least=trial.at_least,
        level=level,
        power=0.0 if pair is None else detection_power(strategy.noise, trial.apart, n_draws, level=level),
        sensitivity=strategy.sensitivity,
        spent=strategy.spent,
        budget=goal.budget,
        delta=delta_of(plan.spent_together, goal.epsilon) if isinstance(goal, ApproxDP) else None,
        goal=goal.statement(),
        certificate=certificate,
        faults=tuple(faults),
        no_cell=no_cell,
    )


def _measurable(plan: Plan, level: float) -> Measured:
    """The strategy of a plan that can be audited at some level."""
    if not isinstance(plan, Plan):
        raise InputError.must("plan", "be a Plan from design()", given=type(plan))
    if plan.strategy is None:
        raise MethodError(
            f"method {plan.method!r} depends on the data, so there is no worst pair of tables to "
            "try; the proof of its noise is in its module",
            field="plan",
            given=plan.method,
        )
    if not isinstance(level, float) or not 0.5 < level < 1:
        raise InputError.must("level", "be a number between 0.5 and 1", given=level)
    plan.strategy.require_measurable()
    return plan.strategy


def _faults_of_noise(strategy: Measured, pair: Pair | None, trial: _Trial) -> Iterator[str]:
    """What the worst pair, and releases of tables that differ by it, say against the plan."""
    if pair is not None and pair.cost > strategy.sensitivity:
        share = Fraction(pair.cost, strategy.sensitivity) if strategy.sensitivity else None
        times = "" if share is None else f", {float(share):.4g} times as much"
        yield f"one record changes more than the sensitivity that the plan has{times}"
    if trial.at_least > trial.said:
        yield "releases can be told apart better than noise of this scale allows"


def _tried_no_cell(plan: Plan, draws: int, level: float) -> tuple[float, float] | None:
    """What a record in no cell spends by the row that `measure` adds to a plan, and by releases of it."""
    strategy = plan.fixed_strategy()
    if plan.privacy.relation.replaces or not plan.charge.worst:
        return None
    row = release.within_cost(plan.privacy.noise, plan.charge.worst)
    said = row.factor / row.scale
    group = _group(said, row.noise)
    none, some = row.multiplied([0]), row.multiplied([group])
    statistics = []
    for integers in (none, some):
        stand_in = cast(Measured, _Repeated(row.noise, row.scale, draws))
        y = release.with_noise(stand_in, np.tile(integers, draws), SystemBits())
        statistics.append(y.astype(float) / row.scale)
    bound = _laplace_bound if strategy.noise.is_pure else _gaussian_bound
    return said, bound(statistics[0], statistics[1], said * group, 1 - level) / group


def _faults_of_no_cell(plan: Plan, said: float, at_least: float) -> Iterator[str]:
    """What measuring the records that no cell takes says against the plan."""
    row = release.within_cost(plan.privacy.noise, plan.charge.worst)
    if row.cost > plan.charge.worst:
        yield "a record in no cell is charged more than the plan says"
    if at_least > said:
        yield "records in no cell can be told apart better than noise of this scale allows"


def _faults_of_arithmetic(plan: Plan) -> Iterator[str]:
    """What comparing the plan with its goal once more says against it."""
    goal = plan.privacy
    if plan.spent_together > goal.budget * _per_person(plan):
        yield "the noise is scaled for more than the goal allows"
    if not isinstance(goal, ApproxDP):
        return
    if gaussian_delta_bounds(plan.spent_together, goal.epsilon)[1] > Fraction(goal.delta):
        yield "the δ of this noise is larger than the goal's"


def _per_person(plan: Plan) -> int:
    k = plan.privacy.records_per_person
    return plan.privacy.noise.times(k)


# ------------------------------------------------------------------ distinguishing tables


@dataclass(frozen=True)
class _Trial:
    group: int
    rows: tuple[int, int]
    apart: float
    said: float
    at_least: float


# Where nothing is measured that depends on anybody.
_NONE = _Trial(group=0, rows=(0, 0), apart=0.0, said=0.0, at_least=0.0)


@dataclass(frozen=True)
class _Repeated:
    """Some rows of a strategy many times over, for `with_noise`, which asks for no more than this."""

    noise: Noise
    scale: int
    n_measured: int


def _tried(workload: Workload, strategy: Measured, pair: Pair, draws: int, level: float) -> _Trial:
    change = change_of(workload, strategy, pair.one, pair.other)
    order = sorted(range(len(change)), key=lambda r: -abs(int(change[r])))
    differing = sum(bool(value) for value in change)
    most = 1 if strategy.noise.is_pure else max(1, _MAX_INTEGERS // draws)
    rows = np.array(order[: min(differing, most)])
    d = np.array([int(change[r]) / strategy.scale for r in rows])
    said = float(np.linalg.norm(d))
    group = _group(said, strategy.noise)
    start = [((0,) * len(pair.one), 3)]
    tables = [[*start, (pair.one, group)], start if pair.other is None else [*start, (pair.other, group)]]
    one, other = (strategy.exact_answers(tables_of(workload, table))[rows] for table in tables)
    # In standard deviations from the second table, towards the first.
    direction = d / said
    statistics = [_statistics(strategy, integers, other, direction, draws) for integers in (other, one)]
    apart = said * group
    bound = _laplace_bound if strategy.noise.is_pure else _gaussian_bound
    at_least = bound(statistics[0], statistics[1], apart, 1 - level) / group
    return _Trial(group, (len(rows), differing), apart, said, at_least)


def _group(said: float, noise: str) -> int:
    """How many records come closest to the aim, in relative terms."""
    wanted = _AIM[noise] / said
    least = max(1, math.floor(wanted))
    return least if wanted**2 <= least * (least + 1) else least + 1


def _statistics(strategy: Measured, integers: Array, start: Array, direction: Array, draws: int) -> Array:
    """Noisy integers, less those of one table and over the scale, along a direction, (draws,)."""
    bits = SystemBits()
    k = len(integers)
    found = np.empty(draws)
    step = max(1, _PIECE // k)
    for at in range(0, draws, step):
        n = min(step, draws - at)
        stand_in = cast(Measured, _Repeated(strategy.noise, strategy.scale, n * k))
        y = release.with_noise(stand_in, np.tile(integers, n), bits)
        apart = (y - np.tile(start, n)).astype(float) / strategy.scale
        found[at : at + n] = apart.reshape(n, k) @ direction
    return found


def _gaussian_bound(none: Array, some: Array, apart: float, rate: float) -> float:
    """A lower bound on mμ from statistics of both tables: wrong with probability ``rate`` at most."""
    wrong = int((none > apart / 2).sum()) + int((some <= apart / 2).sum())
    highest = _most_likely(wrong, len(none) + len(some), rate)
    return max(0.0, 2 * _normal_isf(highest))


def _laplace_bound(none: Array, some: Array, apart: float, rate: float) -> float:
    """The same for mε in one row, where noise of the size of the difference counts in full."""
    n = len(none) + len(some)
    # Differences of integers over the scale: a rounding of 1e-16 must not decide what is equal.
    near = 1e-9 * apart
    usual = int((none <= near).sum()) + int((some >= apart - near).sum())
    rare = int((some <= near).sum()) + int((none >= apart - near).sum())
    lowest, highest = 1 - _most_likely(n - usual, n, rate / 2), _most_likely(rare, n, rate / 2)
    return max(0.0, math.log(lowest / highest)) if lowest > 0 else 0.0


def _most_likely(hits: int, n: int, rate: float) -> float:
    """Clopper and Pearson's upper limit: beyond it, so few hits have chance ``rate`` at most."""
    from scipy import stats

    return 1.0 if hits >= n else float(stats.beta.isf(rate, hits + 1, n - hits))


def _normal_isf(probability: float) -> float:
    from scipy import stats

    return float(stats.norm.isf(probability))


def detection_power(
    noise: str, apart: float, draws: int, *, level: float = 0.9999, share: float = POWER_SHARE
) -> float:
    """The least probability that `audit` notices noise of some share of the scale it should have.

    Args:
        apart: mμ for Gaussian noise, mε in one row for Laplace, as the plan says.
        draws: of each table.

    The law is binomial with 2N draws, so nothing is simulated. Gaussian: guesses go wrong with
    probability Φ(−M/(2s)), and the plan is accused where that few would have chance below 1 − level
    at Φ(−M/2). Laplace: with probability at most t the usual event has fewer hits than its t-quantile, and
    what is then rare enough follows.

    Example:
        >>> f"{detection_power('gaussian', 3.1, 15_000):.3f}"
        '0.999'
    """
    from scipy import stats

    n, rate = 2 * draws, 1 - level
    if noise == GAUSSIAN:
        most = _most_hits(n, float(stats.norm.sf(apart / 2)), rate)
        return float(stats.binom.cdf(most, n, stats.norm.sf(apart / 2 / share)))
    best = 0.0
    for tail in (1e-2, 1e-3, 1e-4):
        usual = float(stats.binom.ppf(tail, n, 0.5))
        lowest = 1 - _most_likely(int(n - usual), n, rate / 2)
        most = _most_hits(n, lowest * math.exp(-apart), rate / 2)
        best = max(best, float(stats.binom.cdf(most, n, math.exp(-apart / share) / 2)) - tail)
    return best


def _most_hits(n: int, probability: float, rate: float) -> int:
    """The largest number of hits of which so few have chance below ``rate``; −1 if there is none."""
    from scipy import stats

    hits = int(stats.binom.ppf(rate, n, probability))
    while hits >= 0 and stats.binom.cdf(hits, n, probability) >= rate:
        hits -= 1
    return hits


def _below(probability: float) -> float:
    """Rounded down to three decimals, for people."""
    return math.floor(probability * 1000) / 1000
