"""Buckets from the data, then the optimal noise over them: budgets, the bucket algebra, and what may be said.

The privacy of both stages is judged two ways: by what they spend, recomputed in rationals from the integers
that are measured, and by the frequencies of what they release on neighbouring tables, against the trade-off
curve. Twins with less noise, or with a partition that is not noisy at all, must fail.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import leastnoise as ln
from leastnoise.core.errors import MethodError
from leastnoise.papers.buckets import BucketMechanism
from leastnoise.papers.noisy_partition import Candidates, gram_of_buckets, noisy_partition
from leastnoise.planning import GRID, Plan, load_plan
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP
from leastnoise.privacy.gaussian_curve import mu_of_pure
from leastnoise.query import MaxVariance
from leastnoise.release import Release, load_release, measured
from leastnoise.release.noise import discrete_laplace, rounded_gaussian
from leastnoise.report import summarize
from leastnoise.strategy import Strategy
from support import refuses
from test_statistics import SeededBits
from tolerances import CHANCE, ROUNDING

GOALS = [
    GDP(1),
    ApproxDP(1, 1e-6),
    ZCDP(Fraction(1, 3), records_per_person=3),
    GDP(0.5, neighbours="replace-one"),
    GDP(2, neighbours="replace-one", records_per_person=2),
    PureDP(1),
    PureDP(Fraction(1, 3), neighbours="replace-one", records_per_person=2),
]


def ranges(n: int, queries: Any = None) -> ln.Workload:
    return ln.assemble(queries or [ln.AllRanges("v")], ln.Schema(v=range(n)))


def plan_of(n: int = 8, goal: Goal = GDP(1), queries: Any = None, **options: Any) -> Plan:  # noqa: B008 - frozen
    return ln.design(ranges(n, queries), goal, method="buckets", options=options)


def mechanism_of(n: int = 8, goal: Goal = GDP(1), queries: Any = None, **options: Any) -> BucketMechanism:  # noqa: B008
    mechanism = plan_of(n, goal, queries, **options).mechanism
    assert isinstance(mechanism, BucketMechanism)
    return mechanism


def no_noise(scale: int, size: int) -> list[int]:
    return [0] * size


def random_starts(n: int, rng: np.random.Generator) -> tuple[int, ...]:
    return (0, *(i for i in range(1, n) if rng.random() < 0.5))


# What both stages spend -------------------------------------------------------------------------


def largest_cost(strategy: Strategy, goal: Goal) -> Fraction:
    """What a neighbour spends on these rows, over all changes of a record, one by one."""
    columns = [[int(a) for a in column] for column in strategy.dense().T]
    changes = list(columns)
    if goal.neighbours == "replace-one":
        changes += [
            [a - b for a, b in zip(*pair, strict=True)] for pair in itertools.combinations(columns, 2)
        ]
    power = 1 if goal.noise.is_pure else 2
    return Fraction(max(sum(abs(d) ** power for d in change) for change in changes), strategy.scale**power)


def spent_on_partition(epsilon: Fraction, goal: Goal) -> Fraction:
    """What a neighbour spends on a partition that is ε-private for one record added or removed."""
    steps = 2 if goal.neighbours == "replace-one" else 1
    return steps * epsilon if goal.noise.is_pure else (steps * Fraction(mu_of_pure(epsilon))) ** 2


@pytest.mark.parametrize("goal", GOALS, ids=repr)
def test_both_stages_together_keep_the_goal_exactly(goal: Goal) -> None:
    rng = np.random.default_rng(5)
    for share in ("1/4", 0.6):
        mechanism = mechanism_of(6, goal, partition_share=share)
        assert mechanism.spent == goal.budget
        first = spent_on_partition(mechanism.partition_epsilon, goal)
        second = mechanism.second_stage(random_starts(6, rng)).strategy
        assert isinstance(second, Strategy)
        spent = first + largest_cost(second, goal)
        assert spent <= goal.budget
        # Nothing to speak of is left over.
        assert spent >= goal.budget * (1 - Fraction(1, 10**6))


def test_a_share_of_mu_squared_taken_for_epsilon_squared_would_spend_too_much() -> None:
    goal = GDP(1)
    share = mechanism_of(6, goal).shares["partition"]
    assert (
        spent_on_partition(Fraction(math.isqrt(share.numerator), math.isqrt(share.denominator)), goal) > share
    )


def test_noise_has_the_scales_of_the_sensitivities() -> None:
    asked: dict[str, list[tuple[int, int]]] = {"laplace": [], "gaussian": []}

    def watched(kind: str) -> Any:
        def draw(scale: int, size: int) -> list[int]:
            asked[kind].append((scale, size))
            return [0] * size

        return draw

    mechanism = mechanism_of(16, GDP(Fraction(1, 3)))
    out = mechanism.measure(np.arange(16) * 100, watched("laplace"), watched("gaussian"))
    k = int(out[0])
    second = mechanism.second_stage(tuple(int(start) for start in out[2 : 2 + k])).strategy
    assert isinstance(second, Strategy)
    assert asked["gaussian"] == [(second.scale, k)]
    assert [size for _, size in asked["laplace"]] == [17 - L for L in mechanism.lengths]
    for L, (scale, _) in zip(mechanism.lengths, asked["laplace"], strict=True):
        moved = sum(Fraction(2 * GRID * (length - 1), length) for length in (L, 16))
        assert moved / mechanism.partition_epsilon <= scale


def test_the_ledger_charges_all_records_of_a_person(tmp_path: Path) -> None:
    goal = GDP(1, records_per_person=3)
    ledger = ln.Ledger(tmp_path / "budget", dataset="town", limit=GDP(2, records_per_person=3))
    plan = plan_of(8, goal)
    assert plan.spent_per_person == 1 and plan.mu == 1
    ln.measure(plan, [3, 3, 3, 3, 90, 90, 90, 90], ledger=ledger)
    # Nine times the μ² of one record is that of three.
    assert ledger.entries[-1].charge.worst == Fraction(1, 9)


# Buckets and cells ------------------------------------------------------------------------------


def spread_by_loops(bucket_values: Any, starts: tuple[int, ...], n: int) -> list[float]:
    ends = [*starts, n]
    return [
        bucket_values[b] / (ends[b + 1] - ends[b])
        for b in range(len(starts))
        for _ in range(*ends[b : b + 2])
    ]


def averaged_by_loops(W: Any, starts: tuple[int, ...]) -> Any:
    ends = [*starts, W.shape[1]]
    found = np.zeros((len(W), len(starts)))
    for j, b in itertools.product(range(len(W)), range(len(starts))):
        found[j, b] = sum(W[j, i] for i in range(ends[b], ends[b + 1])) / (ends[b + 1] - ends[b])
    return found


def test_queries_over_buckets_and_their_answers_against_loops() -> None:
    rng = np.random.default_rng(8)
    for n in (1, 2, 5, 9):
        W = rng.integers(-2, 3, (6, n)).astype(float)
        W[0] = 1
        starts, x = random_starts(n, rng), rng.integers(0, 50, n)
        Wb = averaged_by_loops(W, starts)
        np.testing.assert_allclose(gram_of_buckets(W.T @ W, list(starts)), Wb.T @ Wb, atol=100 * ROUNDING)
        mechanism = ln.design(ln.Workload.from_matrix(W), GDP(1), method="buckets").mechanism
        assert isinstance(mechanism, BucketMechanism)
        rows = mechanism.second_stage(starts).fixed_strategy().dense()
        truth = [int(sum(x[a:b])) for a, b in itertools.pairwise([*starts, n])]
        noisy = [sum(int(a) * t for a, t in zip(row, truth, strict=True)) for row in rows]
        out = np.array([len(starts), len(rows), *starts, *rows.reshape(-1).tolist(), *noisy], dtype=object)
        assert mechanism.fits(out)
        spread = spread_by_loops(truth, starts, n)
        np.testing.assert_allclose(mechanism.estimates(out), spread, rtol=1e-9, atol=1e-9)
        # A query asks of a bucket what it asks of its cells when they are all alike.
        np.testing.assert_allclose(Wb @ truth, W @ spread, atol=1e-9)


def exact_cost(x: Any, own_noise: Fraction, starts: list[int]) -> Fraction:
    """Of a partition, in units of 2^-20 and without noise on it: deviations, and each bucket's own noise."""
    found = Fraction(0)
    for a, b in itertools.pairwise([*starts, len(x)]):
        inside = [int(v) for v in x[a:b]]
        mean = Fraction(sum(inside), len(inside))
        found += math.floor(GRID * sum(abs(v - mean) for v in inside)) + math.ceil(GRID * own_noise)
    return found


def is_cheapest(find: Callable[..., list[int]]) -> bool:
    rng = np.random.default_rng(12)
    for _ in range(60):
        n = int(rng.integers(1, 9))
        x = rng.integers(0, int(rng.choice([2, 10, 100])), n)
        lengths = (1, 2, 4, 8)[: n.bit_length()] if rng.random() < 0.5 else tuple(range(1, n + 1))
        own_noise = Fraction(int(rng.integers(0, 20)), 3)
        found = find(x, no_noise, Fraction(1), Candidates(lengths, Fraction(0), own_noise))
        every = [
            [0, *cut]
            for size in range(n)
            for cut in itertools.combinations(range(1, n), size)
            if all(b - a in lengths for a, b in itertools.pairwise([0, *cut, n]))
        ]
        best = min(every, key=lambda starts: (exact_cost(x, own_noise, starts), starts[::-1]))
        if found != best:
            return False
    return True


def test_without_noise_the_partition_is_the_cheapest_of_all() -> None:
    assert is_cheapest(noisy_partition)

    def forgets_its_own_noise(x: Any, draw: Any, epsilon: Fraction, candidates: Candidates) -> list[int]:
        return noisy_partition(x, draw, epsilon, candidates._replace(own_noise=Fraction(0)))

    assert not is_cheapest(forgets_its_own_noise)


# The optimum over buckets -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "queries", [[ln.Prefix("v")], [ln.AllRanges("v")], [ln.Marginal("v", weight=3)]], ids=str
)
def test_over_single_cells_it_is_dense(queries: Any) -> None:
    n = 24
    workload = ranges(n, queries)
    plan = ln.design(workload, GDP(1), method="buckets", tol=1e-10)
    assert isinstance(plan.mechanism, BucketMechanism)
    goal = plan.mechanism.measurement_goal
    assert goal.mu_squared == Fraction(3, 4)
    dense = ln.design(workload, goal, method="dense", tol=1e-10)
    over_cells = plan.mechanism.second_stage(tuple(range(n)))
    assert over_cells.certificate.status == dense.certificate.status == "optimal"
    assert over_cells.certificate.achieved == pytest.approx(dense.certificate.achieved, rel=2e-10)
    # A total that is off by the square of how far its parts are.
    np.testing.assert_allclose(
        over_cells.fixed_strategy().variances_of(workload),
        dense.fixed_strategy().variances_of(workload),
        rtol=1e-4,
    )


def test_the_second_stage_is_the_certified_optimum_for_the_queries_over_buckets() -> None:
    """The bound is proved again for the queries themselves, averaged over buckets by loops."""
    rng = np.random.default_rng(3)
    for n, m in ((12, 30), (20, 3)):
        W = rng.integers(-1, 3, (m, n)).astype(float)
        mechanism = ln.design(ln.Workload.from_matrix(W), GDP(1), method="buckets").mechanism
        assert isinstance(mechanism, BucketMechanism)
        starts = random_starts(n, rng)
        second = mechanism.second_stage(starts)
        proof = ln.certify(ln.Workload.from_matrix(averaged_by_loops(W, starts)), second)
        assert proof.lower_bound <= proof.achieved <= (1 + 1e-5) * proof.lower_bound
        assert proof.achieved == pytest.approx(second.certificate.achieved, rel=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("rows", [[[1] * 12], [[0] * 12], [[0] * 6 + [1] * 6, [1e-9] + [0] * 11]], ids=str)
def test_every_bucket_is_measured_whatever_is_asked(rows: list[list[float]]) -> None:
    workload = ln.Workload.from_matrix(rows)
    for goal in (GDP(1), PureDP(1)):
        plan = ln.design(workload, goal, method="buckets")
        assert isinstance(plan.mechanism, BucketMechanism)
        for starts in ((0,), (0, 3, 4, 8), tuple(range(12))):
            second = plan.mechanism.second_stage(starts)
            assert second.fixed_strategy().spans(np.eye(len(starts))).all()  # type: ignore[attr-defined]
            if rows == [[1] * 12] and not goal.noise.is_pure:
                assert second.certificate.achieved == pytest.approx(4 / 3, rel=1e-4)
        release = Release(plan, measured(plan, np.arange(12), SeededBits(1)))
        assert np.isfinite(release.answers).all() and np.isfinite(release.estimates).all()


# Privacy, by frequency --------------------------------------------------------------------------


class Pool:
    """Draws handed out from arrays of many, each used once; the noise of a faulty twin is scaled down."""

    def __init__(self, draw: Callable[..., list[int]], seed: int, part: Fraction) -> None:
        self.draw, self.bits, self.part = draw, SeededBits(seed), part
        self.ready: dict[int, list[int]] = {}

    def __call__(self, scale: int, size: int) -> list[int]:
        if self.part == 0:
            return [0] * size
        chosen = max(int(scale * self.part), 1)
        ready = self.ready.setdefault(chosen, [])
        if len(ready) < size:
            ready += self.draw(chosen, 20_000, self.bits)
        draws = ready[-size:]
        del ready[-size:]
        return draws


def is_curve_possible(left: Any, right: Any, mu: float, n_runs: int) -> bool:
    """Whether Φ⁻¹(P(E | one)) − Φ⁻¹(P(E | other)) ≤ μ may hold for every event E, which is what μ-GDP says.

    By Clopper–Pearson limits, both at a rate that leaves all events together one false alarm in 1/CHANCE.
    An event is a set of outcomes: each by itself, and the first few of them in the order in which a first
    half of the runs found them telling.
    """
    tests = []
    outcomes = sorted(set(left[0]) | set(right[0]))
    for one, other in ((left, right), (right, left)):
        ratio = {o: (one[0][o] + 0.5) / (other[0][o] + 0.5) for o in outcomes}
        ordered = sorted(outcomes, key=lambda o: -ratio[o])
        events = [*({o} for o in outcomes), *(set(ordered[: i + 1]) for i in range(len(ordered)))]
        tests += [(sum(one[1][o] for o in e), sum(other[1][o] for o in e)) for e in events]
    alpha = CHANCE / (2 * len(tests))
    for seen, seen_there in tests:
        low = stats.beta.ppf(alpha, seen, n_runs - seen + 1) if seen else 0.0
        high = stats.beta.isf(alpha, seen_there + 1, n_runs - seen_there) if seen_there < n_runs else 1.0
        if stats.norm.ppf(low) - stats.norm.ppf(high) > mu:
            return False
    return True


def see_first_cell(mechanism: BucketMechanism, out: Any) -> Any:
    """The number of buckets, and in which half of a count the estimate of the first cell fell."""
    return int(out[0]), max(-4, min(5, math.floor(2 * mechanism.estimates(out)[0])))


def see_partition(mechanism: BucketMechanism, out: Any) -> Any:
    return tuple(int(start) for start in out[2 : 2 + int(out[0])])


# A goal, two neighbours, and what their releases are sorted by.
CASES: dict[str, tuple[BucketMechanism, list[int], list[int], Callable[..., Any]]] = {
    "answers": (
        mechanism_of(2, GDP(2), [ln.Marginal("v")], partition_share=0.1, charge=0),
        [0, 90],
        [1, 90],
        see_first_cell,
    ),
    "answers, replaced": (
        mechanism_of(2, GDP(2, neighbours="replace-one"), [ln.Marginal("v")], partition_share=0.1, charge=0),
        [0, 90],
        [1, 89],
        see_first_cell,
    ),
    "buckets": (
        mechanism_of(2, GDP(3), [ln.Total()], partition_share=0.99, charge=0),
        # A bucket's own noise is 2.7 records: the one table is a bucket of two cells, the other is not.
        [0, 2],
        [0, 3],
        see_partition,
    ),
}


def is_possible(case: str, *, choosing: Fraction, measuring: Fraction, n_runs: int = 2_500) -> bool:
    """Whether releases with a part of the noise keep the goal, as far as their frequencies tell."""
    mechanism, x, y, see = CASES[case]
    sides = []
    for number, counts in enumerate((x, y)):
        halves = []
        for half in (1, 2):
            laplace = Pool(discrete_laplace, 10 * number + half, choosing)
            gaussian = Pool(rounded_gaussian, 100 + 10 * number + half, measuring)
            table = np.array(counts)
            seen = (see(mechanism, mechanism.measure(table, laplace, gaussian)) for _ in range(n_runs))
            halves.append(Counter(seen))
        sides.append(halves)
    return is_curve_possible(*sides, math.sqrt(mechanism.goal.budget), n_runs)


@pytest.fixture
def one_design_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second stage of every partition is designed once, and not in each of thousands of releases."""
    monkeypatch.setattr(BucketMechanism, "second_stage", functools.cache(BucketMechanism.second_stage))


@pytest.mark.thorough
@pytest.mark.usefixtures("one_design_each")
@pytest.mark.parametrize("case", CASES)
def test_neighbours_release_alike(case: str) -> None:
    assert is_possible(case, choosing=Fraction(1), measuring=Fraction(1))


@pytest.mark.thorough
@pytest.mark.usefixtures("one_design_each")
def test_with_half_the_noise_they_do_not() -> None:
    for case in ("answers", "answers, replaced"):
        assert not is_possible(case, choosing=Fraction(1), measuring=Fraction(1, 2))


@pytest.mark.thorough
@pytest.mark.usefixtures("one_design_each")
def test_with_a_partition_that_is_not_noisy_they_do_not() -> None:
    """The bound on a partition is for the worst of all tables: on this one, an eighth of the noise fails."""
    for part in (Fraction(0), Fraction(1, 8)):
        assert not is_possible("buckets", choosing=part, measuring=Fraction(1), n_runs=1_000)


# What a plan and a release say ------------------------------------------------------------------


@pytest.mark.parametrize("goal", [ApproxDP(1, 1e-6), GDP(1, neighbours="replace-one")], ids=repr)
def test_a_release_promises_no_errors_and_is_read_back(goal: Goal, tmp_path: Path) -> None:
    plan = plan_of(8, goal, partition_share="1/3")
    assert plan.strategy is None and plan.stderr is None and plan.certificate.status == "data-dependent"
    assert "integers with gaussian noise" in str(plan) and "nan" not in str(plan) + str(summarize(plan))
    back = load_plan(plan.save(tmp_path / "x.plan"))
    assert (
        str(back) == str(plan)
        and isinstance(back.mechanism, BucketMechanism)
        and isinstance(plan.mechanism, BucketMechanism)
    )
    assert back.mechanism.shares == plan.mechanism.shares
    release = Release(plan, measured(plan, np.array([9, 9, 9, 9, 0, 1, 2, 3]), SeededBits(1)))
    assert all(type(value) is int for value in release.measurements)
    assert len(release.measurements) <= plan.mechanism.most_integers
    assert release.stderr is None and "95%" not in str(summarize(release))
    with refuses(MethodError, "method", ..., "method 'buckets' depends on the data, so that its standard"):
        release.interval()
    found = load_release(release.save(tmp_path / "x.release"))
    assert found.measurements.tolist() == release.measurements.tolist()
    np.testing.assert_array_equal(found.answers, release.answers)


def test_measurements_that_nobody_released_are_refused() -> None:
    mechanism = mechanism_of(8)
    good = mechanism.measure(np.array([9, 9, 9, 9, 0, 1, 2, 30]), no_noise, no_noise)
    k = int(good[0])
    assert mechanism.fits(good) and k >= 2
    for wrong in (good[:-1], np.append(good, 0), good[:1]):
        assert not mechanism.fits(wrong)
    lost = good.copy()
    lost[2 + k : 2 + 2 * k] = 0
    assert not mechanism.fits(lost), "a row without entries leaves a bucket unmeasured"
    for place, value in (
        (0, 0),
        (0, 99),
        (1, k - 1),
        (1, 2**70),
        (2, 1),
        (3, 0),
        (1 + k, 8),
        (2 + k, 2**2001),
    ):
        wrong = good.copy()
        wrong[place] = value
        assert not mechanism.fits(wrong), (place, value)


@pytest.mark.parametrize("counts", [[0] * 8, [2**62] * 8, [2**70, 1, 0, 0, 3, 2**69, 5, 2**63]], ids=str)
def test_counts_of_every_size_stay_integers(counts: list[int]) -> None:
    plan = plan_of(8)
    table = np.array(counts, dtype=object if max(counts) >= 2**63 else np.int64)
    release = Release(plan, measured(plan, table, SeededBits(2)))
    assert all(type(value) is int for value in release.measurements)
    assert release.estimates.sum() == pytest.approx(sum(counts), abs=1e3, rel=ROUNDING)


def test_requests_it_cannot_serve() -> None:
    two = ln.assemble([ln.Prefix("a") * ln.Marginal("b")], ln.Schema(a=range(4), b=range(3)))
    for workload, goal, words, objective in (
        (two, GDP(1), "it is for one ordered attribute", None),
        (ranges(8), GDP(1), "it minimises total variance only", MaxVariance()),
        (ranges(8), GDP(Fraction(1, 2**61)), "mu squared per record must lie between", None),
        (ranges(1025, [ln.Total()]), GDP(1), "for at most 1,024 cells, here 1,025", None),
    ):
        with pytest.raises(MethodError, match=f"method 'buckets' cannot do this: .*{words}"):
            ln.design(workload, goal, method="buckets", objective=objective)
    for name, given in (("partition_share", 1.5), ("charge", -1), ("lengths", 3)):
        with pytest.raises(MethodError, match=f"{name} must"):
            plan_of(8, **{name: given})


@pytest.mark.thorough
def test_it_is_taken_only_when_named() -> None:
    for goal in (GDP(1), PureDP(1)):
        plan = ln.design(ranges(8), goal)
        assert plan.method != "buckets" and all(trial.name != "buckets" for trial in plan.tried)


@pytest.mark.thorough
def test_it_gains_on_even_counts_and_loses_on_alternating_ones() -> None:
    n, goal = 128, GDP(0.1)
    for queries in ([ln.Prefix("v")], [ln.Marginal("v")]):
        plan = plan_of(n, goal, queries)
        truth_of = plan.workload.operator.apply
        other = ln.design(plan.workload, goal).certificate.achieved / plan.workload.shape[0]
        errors = []
        for counts in (np.full(n, 100), np.tile([0, 2000], n // 2)):
            runs = [Release(plan, measured(plan, counts, SeededBits(seed))) for seed in range(8)]
            errors.append(np.mean([(run.answers - truth_of(counts.astype(float))) ** 2 for run in runs]))
        assert errors[0] < 0.8 * other < other < errors[1]


def test_another_share_is_another_budget() -> None:
    mechanism = mechanism_of(8, GDP(1))
    more = replace(mechanism, shares={**mechanism.shares, "partition": Fraction(1, 2)})
    assert more.spent > mechanism.goal.budget == mechanism.spent
