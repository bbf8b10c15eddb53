"""Methods that look at the data: exact steps, exact budgets, and what a plan without errors may say.

The private steps are judged four ways: their integers against slow computations, the change that one
record makes against the sensitivity that is claimed, the budget in rationals, and the frequencies of
what they release on neighbouring tables against e^ε. Each judge has a twin that must fail it.
"""

from __future__ import annotations

import csv
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
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.core import container
from leastnoise.core.errors import DesignError, MethodError, PlanFileError, PrivacyError, UnrecordedSpending
from leastnoise.core.operators import Matrix
from leastnoise.papers.dawa import (
    Dawa,
    asks_ranges,
    least_squares_on_tree,
    nodes,
    sensitivity_of_tree,
    tree_weights,
)
from leastnoise.papers.dawa_published import published_partition, simulated_errors
from leastnoise.papers.mwem import Mwem
from leastnoise.papers.noisy_partition import deviation_sensitivity, deviations, least_partition
from leastnoise.planning import GRID, Mechanism, Plan, all_methods, least_scale, load_plan, share_option
from leastnoise.privacy import GDP, ApproxDP, Goal, PureDP
from leastnoise.query import MaxVariance
from leastnoise.release import Release, load_release, measured
from leastnoise.release.noise import discrete_laplace
from leastnoise.report import cost_table, summarize, write_answers
from support import refuses
from tolerances import CHANCE, ROUNDING

NAMES = [method.name for method in all_methods() if method.is_data_dependent]


class SeededBits:
    """Repeatable bits from an explicit numpy generator."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def bits(self, n: int) -> int:
        n_bytes = (n + 7) // 8
        return int.from_bytes(self.rng.bytes(n_bytes), "little") >> (8 * n_bytes - n)


def ranges(n: int, queries: Any = None) -> ln.Workload:
    return ln.assemble(queries or [ln.AllRanges("v")], ln.Schema(v=range(n)))


def plan_of(name: str, n: int = 8, goal: Goal = PureDP(1), **options: Any) -> Plan:  # noqa: B008 - frozen
    return ln.design(ranges(n), goal, method=name, options=options)


def mechanism_of(name: str, n: int = 8, goal: Goal = PureDP(1), **options: Any) -> Mechanism:  # noqa: B008
    mechanism = plan_of(name, n, goal, **options).mechanism
    assert mechanism is not None
    return mechanism


def released(plan: Plan, counts: Any, seed: int = 1) -> Release:
    return Release(plan, measured(plan, np.asarray(counts), SeededBits(seed)))


# The partition -------------------------------------------------------------------------------

COUNTS = st.lists(st.integers(0, 9) | st.integers(0, 2**70), min_size=1, max_size=7)


def as_counts(values: list[int]) -> Any:
    return np.array(values, dtype=object if max(values) >= 2**63 else np.int64)


@given(COUNTS)
def test_deviations_are_those_of_the_definition(values: list[int]) -> None:
    for L in range(1, len(values) + 1):
        expected = []
        for start in range(len(values) - L + 1):
            inside = values[start : start + L]
            mean = Fraction(sum(inside), L)
            expected.append(math.floor(GRID * sum(abs(x - mean) for x in inside)))
        found = deviations(as_counts(values), L)
        assert found == expected and all(type(d) is int for d in found)


def largest_change(values: list[int]) -> dict[int, int]:
    """For every length, how far one record more moves the cost of any bucket."""
    found = {}
    for L in range(1, len(values) + 1):
        before = deviations(as_counts(values), L)
        more = [
            deviations(as_counts([*values[:i], x + 1, *values[i + 1 :]]), L) for i, x in enumerate(values)
        ]
        found[L] = max(abs(b - a) for after in more for a, b in zip(before, after, strict=True))
    return found


@given(COUNTS)
def test_one_record_moves_a_cost_by_its_sensitivity_at_most(values: list[int]) -> None:
    for L, change in largest_change(values).items():
        assert change <= deviation_sensitivity(L)


def test_the_sensitivity_of_a_cost_is_reached() -> None:
    """So that any smaller one would be wrong, and the test above would say so."""
    for L in range(1, 8):
        assert largest_change([0] * L)[L] == GRID * 2 * (L - 1) // L
        assert deviation_sensitivity(L) - GRID * 2 * (L - 1) / L < 1


def partitions(n: int, lengths: tuple[int, ...]) -> list[list[int]]:
    """Every partition of n cells into buckets of these lengths, by their first cells."""
    if n == 0:
        return [[]]
    return [[*front, n - L] for L in lengths if n >= L for front in partitions(n - L, lengths)]


def by_trying_all(n: int, costs: dict[int, list[int]]) -> list[int]:
    """The cheapest partition; of equal ones, that whose last bucket starts first, then the one before."""

    def price(starts: list[int]) -> int:
        return sum(costs[b - a][a] for a, b in itertools.pairwise([*starts, n]))

    return min(partitions(n, tuple(costs)), key=lambda starts: (price(starts), starts[::-1]))


def is_least_partition(find: Callable[[int, dict[int, list[int]]], list[int]]) -> bool:
    rng = np.random.default_rng(1)
    for _ in range(150):
        n = int(rng.integers(1, 9))
        lengths = (1, 2, 4) if rng.random() < 0.5 else tuple(range(1, n + 1))
        # Few different costs, so that many partitions cost the same.
        costs = {L: rng.integers(-2, 3, n - L + 1).tolist() for L in lengths if n >= L}
        if find(n, costs) != by_trying_all(n, costs):
            return False
    return True


def test_the_partition_is_the_cheapest_and_ties_have_an_order() -> None:
    assert is_least_partition(least_partition)

    def dearest_of_equals(n: int, costs: dict[int, list[int]]) -> list[int]:
        # Twice each cost less the length squared: changes the order of equals alone.
        changed = {L: [1000 * c - L * L for c in own] for L, own in costs.items()}
        return least_partition(n, changed)

    assert not is_least_partition(dearest_of_equals)
    assert not is_least_partition(lambda n, costs: list(range(n)))


def test_without_noise_buckets_follow_the_counts() -> None:
    mechanism = mechanism_of("dawa", 16, PureDP(10**6))
    counts = np.repeat([7, 90, 0, 3], 4)
    out = mechanism.measure(counts, lambda scale, size: [0] * size)
    assert out[: 1 + 4].tolist() == [4, 0, 4, 8, 12]
    np.testing.assert_allclose(mechanism.estimates(out), counts, rtol=ROUNDING, atol=ROUNDING)


def test_candidate_buckets() -> None:
    assert mechanism_of("dawa", 11).lengths == (1, 2, 4, 8)  # type: ignore[attr-defined]
    assert mechanism_of("dawa", 5, lengths="all").lengths == (1, 2, 3, 4, 5)  # type: ignore[attr-defined]
    with refuses(MethodError, "lengths", 3):
        plan_of("dawa", lengths=3)
    with refuses(MethodError, "lengths", "all"):
        plan_of("dawa", 513, lengths="all")
    with refuses(
        MethodError, "lengths", ..., 'lengths must be "powers" or "all", got a value of type ndarray'
    ):
        plan_of("dawa", lengths=np.array(["powers", "all"]))


def test_a_charge_leaves_fewer_buckets_by_luck() -> None:
    counts = np.full(64, 100)
    found = []
    for charge in (0, 2, 6.5):
        plan = plan_of("dawa", 64, charge=charge)
        found.append(sum(int(released(plan, counts, seed).measurements[0]) for seed in range(5)) / 5)
    assert found[0] > 20 > found[1] > found[2] == 1
    for wrong in (-1, math.nan, math.inf, True, "2", None, 1e7):
        with refuses(MethodError, "charge", ..., "charge must be a number from 0 to 1,000,000, got"):
            plan_of("dawa", charge=wrong)


# The tree ------------------------------------------------------------------------------------


def tree_rows(k: int, weights: list[int]) -> Any:
    rows = np.zeros((2 * k - 1, k), dtype=object)
    for row, (low, high), weight in zip(rows, nodes(k), weights, strict=True):
        row[low:high] = weight
    return rows


def total_of(gram: Any, weights: list[int]) -> float:
    """The total variance of queries with this Gram matrix, with noise of scale Δ on the weighted tree."""
    A = tree_rows(len(gram), weights).astype(float)
    Delta = np.abs(A).sum(axis=0).max()
    return float(Delta**2 * np.vdot(gram, np.linalg.inv(A.T @ A)))


@pytest.mark.parametrize("k", [1, 2, 3, 7, 16, 33])
def test_the_tree_is_one(k: int) -> None:
    found = list(nodes(k))
    assert len(found) == len(set(found)) == 2 * k - 1 and found[-1] == (0, k)
    assert {(i, i + 1) for i in range(k)} <= set(found)
    weights = tree_weights(np.eye(k))
    assert sensitivity_of_tree(k, weights) == max(tree_rows(k, weights).sum(axis=0))
    assert all(type(w) is int for w in weights)


def test_weights_suit_the_queries() -> None:
    def gram(workload: ln.Workload) -> Any:
        return workload.weighted_gram()

    even = [1] * (2 * 16 - 1)
    leaves = [int(high - low == 1) for low, high in nodes(16)]
    for workload in (
        ranges(16),
        ranges(16, [ln.Prefix("v")]),
        ranges(16, [ln.Marginal("v")]),
        ranges(16, [ln.Total(weight=100), ln.Marginal("v")]),
    ):
        ours = total_of(gram(workload), tree_weights(gram(workload)))
        # Shares are taken from a grid, which costs a millionth.
        assert ours <= (1 + 1e-5) * min(total_of(gram(workload), even), total_of(gram(workload), leaves))
    cells = tree_weights(gram(ranges(16, [ln.Marginal("v")])))
    assert [w > 0 for w in cells] == [bool(leaf) for leaf in leaves]
    total = tree_weights(gram(ranges(16, [ln.Total()])))
    assert total[-1] > 0.9 * sensitivity_of_tree(16, total)
    assert total_of(gram(ranges(16)), total) > 2 * total_of(gram(ranges(16)), even), (
        "weights make no difference"
    )


@pytest.mark.thorough
@pytest.mark.parametrize("k", [64, 512])
def test_few_queries_over_many_cells_are_no_worse_than_noise_on_cells(k: int) -> None:
    """Where nobody tells leaves apart, covariances kept as a matrix were lost to rounding."""
    rng = np.random.default_rng(4)
    ends = np.sort(rng.integers(0, k + 1, (6, 2)), axis=1)
    W = np.array([[low <= i < high for i in range(k)] for low, high in ends], dtype=float)
    weights = tree_weights(W.T @ W)
    scale = sensitivity_of_tree(k, weights)
    errors = [
        W @ least_squares_on_tree(weights, np.rint(rng.laplace(0, scale, 2 * k - 1)).astype(object).tolist())
        for _ in range(40)
    ]
    assert np.square(errors).sum(axis=1).mean() < 2 * W.sum()


@pytest.mark.thorough
@pytest.mark.parametrize("light", [1e-10, 1e-13, 1e-15])
def test_cells_of_little_weight_beside_a_heavy_total_are_not_forgotten(light: float) -> None:
    """A difference that is small at the leaves counts 10⁴ times as much at every level that forgets it."""
    k = 32
    gram = np.ones((k, k)) + light * np.eye(k)
    weights = tree_weights(gram)
    rows = [[Fraction(int(w)) for w in row] for row in tree_rows(k, weights)]
    precision = [[sum(row[i] * row[j] for row in rows) for j in range(k)] for i in range(k)]
    Delta = sensitivity_of_tree(k, weights)
    covariance = inverse(precision)
    total = sum((sum(row, Fraction(0)) for row in covariance), Fraction(0))
    trace = sum((row[i] for i, row in enumerate(covariance)), Fraction(0))
    variance = Delta**2 * (total + Fraction(light) * trace)
    assert variance < 10


def inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """By Gauss and Jordan, exactly."""
    k = len(matrix)
    both = [[*row, *(Fraction(int(i == j)) for j in range(k))] for i, row in enumerate(matrix)]
    for i in range(k):
        both[i] = [entry / both[i][i] for entry in both[i]]
        for j in range(k):
            if j != i and both[j][i]:
                both[j] = [a - both[j][i] * b for a, b in zip(both[j], both[i], strict=True)]
    return [row[k:] for row in both]


def is_least_squares(find: Callable[[list[int], list[int]], Any]) -> bool:
    rng = np.random.default_rng(2)
    for k in (1, 2, 3, 5, 12):
        weights = [
            int(w) if high - low == 1 else int(w) * int(rng.integers(0, 2))
            for w, (low, high) in zip(rng.integers(1, 9, 2 * k - 1), nodes(k), strict=True)
        ]
        noisy = rng.integers(-50, 1000, 2 * k - 1).tolist()
        A = tree_rows(k, weights).astype(float)
        expected = np.linalg.lstsq(A, np.array(noisy, dtype=float), rcond=None)[0]
        if not np.allclose(find(weights, noisy), expected, rtol=1e3 * ROUNDING, atol=1e3 * ROUNDING):
            return False
    return True


def test_the_two_passes_are_least_squares() -> None:
    assert is_least_squares(least_squares_on_tree)
    assert not is_least_squares(lambda weights, noisy: least_squares_on_tree([1] * len(weights), noisy))


def test_noise_on_the_tree_is_that_of_its_sensitivity() -> None:
    asked: list[int] = []

    def watched(scale: int, size: int) -> list[int]:
        asked.append(scale)
        return [0] * size

    mechanism = mechanism_of("dawa", 16, PureDP(Fraction(1, 3)))
    assert isinstance(mechanism, Dawa)
    out = mechanism.measure(np.arange(16) * 100, watched)
    k = int(out[0])
    weights = [int(w) for w in out[1 + k : 3 * k]]
    assert len(asked) == len(mechanism.lengths) + 1
    for L, scale in zip(mechanism.lengths, asked, strict=False):
        needed = deviation_sensitivity(L) + deviation_sensitivity(16)
        assert scale >= needed / mechanism.shares["partition"] > scale - 1
    Delta = max(tree_rows(k, weights).sum(axis=0))
    assert asked[-1] >= Delta / mechanism.shares["measurement"] > asked[-1] - 1


# Multiplicative weights ----------------------------------------------------------------------


def test_the_worst_query_is_chosen_and_measured() -> None:
    W = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [2, -1, 0, 0]])
    plan = ln.design(
        ln.Workload.from_matrix(W), PureDP(1), method="mwem", options={"rounds": 3, "passes": 50}
    )
    assert isinstance(plan.mechanism, Mwem)
    counts = np.array([90, 2, 4, 4])
    out = plan.mechanism.measure(counts, lambda scale, size: [0] * size)
    assert out[0] == 100 * GRID
    # Even at first, 25 a cell: the errors are 42, 42, 21 and 153.
    assert out[1] == 3 and out[2] == 178 * GRID
    fitted = plan.mechanism.estimates(out)
    assert fitted.sum() == pytest.approx(100, rel=ROUNDING) and (fitted > 0).all()
    before = np.abs(W @ np.full(4, 25.0) - W @ counts).max()
    assert np.abs(W @ fitted - W @ counts).max() < 0.1 * before


def test_scores_change_by_their_sensitivity_at_most() -> None:
    """|K w x − r| moves by K times the coefficient of the cell, whatever r is."""
    scales: dict[int, list[int]] = {}
    for D in (1, 7):
        W = np.array([[1, 0, 1], [-D, 1, 0]])
        plan = ln.design(ln.Workload.from_matrix(W), PureDP(2), method="mwem", options={"rounds": 4})
        assert plan.mechanism is not None
        seen: list[int] = []

        def watched(scale: int, size: int, seen: list[int] = seen) -> list[int]:
            seen.append(scale)
            return [0] * size

        plan.mechanism.measure(np.array([3, 0, 5]), watched)
        scales[D] = seen
        epsilon = plan.mechanism.shares
        assert seen[0] == math.ceil(GRID / epsilon["total"])
        assert seen[1::2] == [math.ceil(2 * GRID * D * 4 / epsilon["choice"])] * 4
        assert seen[2::2] == [math.ceil(GRID * D * 4 / epsilon["answers"])] * 4


def test_answers_beyond_all_reason_leave_estimates_finite() -> None:
    """With few people and little epsilon, noise exceeds their number a thousand times."""
    mechanism = mechanism_of("mwem", 8, PureDP(1e-4), passes=5)
    for seed in range(5):
        out = mechanism.measure(np.zeros(8, dtype=np.int64), Pool(seed))
        fitted = mechanism.estimates(out)
        assert np.isfinite(fitted).all() and (fitted >= 0).all()
        assert fitted.sum() == pytest.approx(max(int(out[0]) / GRID, 1), rel=ROUNDING)


def test_as_printed_the_result_is_the_mean_of_the_rounds() -> None:
    W = np.array([[1, 0], [0, 1]])
    options = {"rounds": 2, "passes": 0}
    plan = ln.design(ln.Workload.from_matrix(W), PureDP(1), method="mwem", options=options)
    assert plan.mechanism is not None
    out = np.array([100 * GRID, 0, 80 * GRID, 1, 20 * GRID], dtype=object)
    first = np.array([50.0, 50.0])
    bent = first * np.exp(np.array([1, 0]) * (80 - 50) / 200)
    second = 100 * bent / bent.sum()
    np.testing.assert_allclose(plan.mechanism.estimates(out), (first + second) / 2, rtol=ROUNDING)
    last = replace(plan.mechanism, passes=1).estimates(out)  # type: ignore[call-arg]
    assert last[0] > second[0]


# Budgets -------------------------------------------------------------------------------------

GOALS = [
    PureDP(1),
    PureDP(0.1),
    PureDP(Fraction(1, 3), records_per_person=7),
    PureDP(1, neighbours="replace-one"),
    PureDP(2.5, neighbours="replace-one", records_per_person=3),
]
SHARES: dict[str, list[dict[str, Any]]] = {
    "dawa": [{}, {"partition_share": 0.1}, {"partition_share": "2/7"}],
    "mwem": [{}, {"total_share": 0.3, "choice_share": "1/7"}, {"rounds": 7}],
    "buckets": [{}, {"partition_share": 0.1}, {"partition_share": "2/7"}],
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("goal", GOALS, ids=repr)
def test_shares_add_up_to_the_budget_exactly(name: str, goal: Goal) -> None:
    for options in SHARES[name]:
        mechanism = mechanism_of(name, 8, goal, **options)
        steps = 2 if goal.neighbours == "replace-one" else 1
        assert sum(mechanism.shares.values()) * steps == goal.budget == mechanism.spent
        assert all(type(share) is Fraction and share > 0 for share in mechanism.shares.values())
        plan = plan_of(name, 8, goal, **options)
        assert plan.spent_per_person == Fraction(goal.epsilon)  # type: ignore[attr-defined]
        assert plan.epsilon() >= plan.spent_per_person and plan.spare.tolist() == [0] * 8
        assert plan.delta(epsilon=plan.epsilon()) == 0


def test_a_mechanism_that_spends_too_much_is_no_plan() -> None:
    plan = plan_of("dawa")
    assert plan.mechanism is not None
    shares = {**plan.mechanism.shares, "partition": Fraction(1, 4) + Fraction(1, 2**80)}
    greedy = replace(plan.mechanism, shares=shares)
    with refuses(PrivacyError, "privacy", ..., "the mechanism spends more than the privacy"):
        replace(plan, mechanism=greedy)
    with refuses(PrivacyError, "privacy", ..., "the mechanism spends more than the privacy"):
        replace(plan, privacy=PureDP(2))

    class Loose:
        strategy, mechanism, privacy = None, greedy, plan.privacy
        objective, has_goal, witness, tol, claim = plan.objective, True, plan.witness, 1e-6, plan.claim

    with refuses(DesignError, "privacy", ..., "the mechanism spends more than its privacy"):
        ln.certify(plan.workload, Loose())  # type: ignore[arg-type]
    with refuses(DesignError, "strategy", ..., "a plan holds either a strategy or a mechanism"):
        replace(plan, mechanism=None)


@pytest.mark.parametrize("sensitivity", [1, 3, 10**30])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(7, 3), Fraction(1, 10**25), Fraction(10**40)])
def test_the_least_scale_keeps_the_budget(sensitivity: int, epsilon: Fraction) -> None:
    scale = least_scale(sensitivity, epsilon)
    assert Fraction(sensitivity, scale) <= epsilon
    assert scale == 1 or Fraction(sensitivity, scale - 1) > epsilon


@pytest.mark.parametrize(
    "given",
    [
        0,
        1,
        -0.5,
        1.5,
        math.nan,
        math.inf,
        True,
        "half",
        "1/0",
        "5/4",
        None,
        "1e-3",
        1e-310,
        9e-7,
        "1/1000001",
        1 - 1e-16,
        10**30,
    ],
)
def test_shares_that_mean_nothing_are_refused(given: Any) -> None:
    with refuses(MethodError, "share", ..., "partition_share must lie between 0 and 1"):
        plan_of("dawa", partition_share=given)


@pytest.mark.parametrize("share", ["total_share", "choice_share"])
def test_the_least_share_can_be_measured(share: str) -> None:
    with refuses(MethodError, "share", 1e-310):
        plan_of("mwem", **{share: 1e-310})
    for part in ("1/1000000", "999999/1000000"):
        for epsilon in (2.0**-119, 2.0**119):
            release = released(plan_of("mwem", goal=PureDP(epsilon), **{share: part}), np.arange(8))
            assert np.isfinite(release.answers).all()


def test_shares_are_read_exactly() -> None:
    assert share_option("x", "1/3") == Fraction(1, 3) and share_option("x", 0.1) == Fraction(0.1)


# Privacy, by frequency -----------------------------------------------------------------------


class Pool:
    """Draws handed out from arrays of many, each used once; the noise of a faulty twin is scaled down."""

    def __init__(self, seed: int, part: Fraction = Fraction(1)) -> None:
        self.bits, self.part = SeededBits(seed), part
        self.ready: dict[int, list[int]] = {}

    def __call__(self, scale: int, size: int) -> list[int]:
        chosen = max(int(scale * self.part), 1)
        ready = self.ready.setdefault(chosen, [])
        if len(ready) < size:
            ready += discrete_laplace(chosen, 20_000, self.bits)
        draws = ready[-size:]
        del ready[-size:]
        return draws


def events_of(mechanism: Mechanism, counts: Any, n_runs: int, pool: Pool, see: Callable[[Any], Any]) -> Any:
    x = np.array(counts)
    return Counter(see(mechanism.measure(x, pool)) for _ in range(n_runs))


def is_loss_possible(left: Any, right: Any, epsilon: float, n_runs: int) -> bool:
    """Whether P(event | left) ≤ e^ε P(event | right), and the other way round, may hold for every event.

    By Clopper–Pearson limits, both at a rate that leaves all events together one false alarm in
    1/CHANCE. An event is a set of outcomes: each by itself, and all that were seen more often on one side
    of a first half of the runs.
    """
    tests = []
    outcomes = set(left[0]) | set(right[0])
    for one, other in ((left, right), (right, left)):
        suspicious = {o for o in outcomes if one[0][o] > math.exp(epsilon) * other[0][o]}
        for event in (suspicious, *({o} for o in outcomes)):
            tests.append((sum(one[1][o] for o in event), sum(other[1][o] for o in event)))
    alpha = CHANCE / (2 * len(tests))
    for seen, seen_there in tests:
        low = stats.beta.ppf(alpha, seen, n_runs - seen + 1) if seen else 0.0
        high = stats.beta.isf(alpha, seen_there + 1, n_runs - seen_there) if seen_there < n_runs else 1.0
        if low > math.exp(epsilon) * high:
            return False
    return True


def half_counts(noisy: int, unit: int, low: int, high: int) -> int:
    """In which half of a count a noisy number fell, cut off at the ends."""
    return max(low, min(high, 2 * noisy // unit))


def see_root(out: Any) -> Any:
    """The number of buckets, and the noisy root of the tree."""
    k = int(out[0])
    return k, half_counts(int(out[-1]), int(out[3 * k - 1]), -2, 3)


def see_cells(out: Any) -> Any:
    """The number of buckets, and for two the noisy cells beside 0 and 90."""
    k = int(out[0])
    if k == 1:
        return (1,)
    weights, noisy = out[1 + k : 3 * k], out[3 * k :]
    return k, *(half_counts(int(noisy[i] - 90 * i * weights[i]), int(weights[i]), -3, 3) for i in (0, 1))


def see_mwem(out: Any) -> Any:
    """The noisy total and the noisy answer."""
    return tuple(half_counts(int(out[i]), GRID, -2, 3) for i in (0, 2))


def mechanism_for(query: Any, n: int, goal: Goal, name: str, **options: Any) -> Mechanism:
    mechanism = ln.design(ranges(n, [query]), goal, method=name, options=options).mechanism
    assert mechanism is not None
    return mechanism


# Two tables that differ in one record, and what their releases are sorted by.
CASES: dict[str, tuple[Mechanism, list[int], list[int], Callable[[Any], Any]]] = {
    "dawa": (mechanism_for(ln.Total(), 2, PureDP(2), "dawa"), [0, 0], [0, 1], see_root),
    "dawa, replaced": (
        mechanism_for(
            ln.Marginal("v"), 2, PureDP(2, neighbours="replace-one"), "dawa", partition_share=0.1, charge=0
        ),
        [0, 90],
        [1, 89],
        see_cells,
    ),
    "dawa, buckets": (
        mechanism_for(ln.Total(), 3, PureDP(3), "dawa", partition_share=0.99, charge=0),
        [5, 5, 6],
        [5, 6, 6],
        lambda out: tuple(out[: 1 + int(out[0])]),
    ),
    "mwem": (
        mechanism_for(
            ln.Total(), 1, PureDP(2), "mwem", rounds=1, passes=1, total_share="1/2", choice_share="1/10"
        ),
        [0],
        [1],
        see_mwem,
    ),
}


def is_possible(case: str, part: Fraction, n_runs: int = 2_500) -> bool:
    """Whether releases with a part of the noise keep the budget, as far as their frequencies tell."""
    mechanism, x, y, see = CASES[case]
    sides = []
    for number, counts in enumerate((x, y)):
        pools = [Pool(10 * number + half, part) for half in (1, 2)]
        sides.append([events_of(mechanism, counts, n_runs, pool, see) for pool in pools])
    return is_loss_possible(*sides, float(mechanism.goal.budget), n_runs)


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["dawa", "dawa, replaced", "mwem"])
def test_neighbours_release_alike_and_half_the_noise_does_not(case: str) -> None:
    assert is_possible(case, Fraction(1))
    assert not is_possible(case, Fraction(1, 2))


def test_neighbours_are_parted_alike_and_a_quarter_of_the_noise_does_not() -> None:
    """The bound on a partition is for the worst of all tables; on this one it is loose, by less than four."""
    assert is_possible("dawa, buckets", Fraction(1))
    assert not is_possible("dawa, buckets", Fraction(1, 4))


def chance_of_singles(lifts: list[float], epsilon: float) -> float:
    """That four equal cells stay single in the published partition, at ε₂ = 1: tails of Laplace noise.

    Args:
        lifts: the deviations of {1, 2}, {2, 3}, {3, 4} and of the whole.
    """
    gaps, scales = (1, 1, 1, 3), (1.25, 1.25, 1.25, 1.5)
    return math.prod(
        0.5 * math.exp(-epsilon * (gap - lift) / scale)
        for gap, lift, scale in zip(gaps, lifts, scales, strict=True)
    )


def test_the_published_partition_exceeds_its_budget() -> None:
    """Four cells stay single exp(2.6 ε₁) times as often with one record more, as its code does too."""
    n_runs, rng = 4_000, np.random.default_rng(20141)
    even, lifted = chance_of_singles([0, 0, 0, 0], 1), chance_of_singles([1, 1, 0, 1.5], 1)
    assert math.log(lifted / even) == pytest.approx(2.6, abs=ROUNDING)
    seen = sum(
        published_partition(np.array([5, 6, 5, 5]), partition=1, measurement=1, generator=rng) == [0, 1, 2, 3]
        for _ in range(n_runs)
    )
    assert stats.binomtest(seen, n_runs, lifted).pvalue > CHANCE
    assert stats.binomtest(seen, n_runs, math.e * even).pvalue < CHANCE, "as often as ε₁ = 1 would allow"


# What a plan and a release may say ------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_claims_nothing_about_accuracy(name: str) -> None:
    plan = plan_of(name)
    assert plan.strategy is None and plan.stderr is None and plan.factor is None and plan.mu is None
    found = plan.certificate
    assert found.status == "data-dependent" and math.isnan(found.achieved) and math.isnan(found.lower_bound)
    assert math.isnan(found.gap) and not found.witness.q.any()
    assert not found.achieved <= 1e300, "no comparison may take it for a good one"
    assert "nan" not in str(plan) + str(summarize(plan)) + str(found)
    assert "data-dependent: what the error will be depends on the data" in str(plan)
    assert "Nothing is proved about its accuracy" in str(summarize(plan))
    assert plan.profile.tolist() == [1.0] * 8
    with pytest.raises(MethodError, match=f"method '{name}' depends on the data.*design the plan with"):
        plan.variance(ln.Total())
    with refuses(MethodError, "method", ..., "depends on the data"):
        cost_table(plan)
    again = ln.certify(plan.workload, plan)
    assert again.status == "data-dependent"


@pytest.mark.parametrize("name", NAMES)
def test_a_release_has_answers_and_no_intervals(name: str, tmp_path: Path) -> None:
    plan = plan_of(name)
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(plan, [5, 5, 5, 5, 40, 40, 40, 40])
    assert release.stderr is None and release.answers.shape == (36,)
    np.testing.assert_allclose(
        release.answers, plan.workload.dense() @ release.estimates, atol=1e3 * ROUNDING
    )
    for ask in (release.interval, lambda: release.interval(0.9, simultaneous=True)):
        with refuses(
            MethodError, "method", ..., f"method '{name}' depends on the data, so that its standard"
        ):
            ask()
    assert list(release.to_frame().columns) == ["query", "label", "v", "answer"]
    assert list(release["v ranges"].columns) == ["answer"]
    total = release.answer(ln.Total())["answer"]
    assert total.iloc[0] == pytest.approx(release.estimates.sum(), rel=ROUNDING)
    text = str(summarize(release))
    assert "A private release of 36 counts" in text and "95%" not in text and "not known" in text
    write_answers(release, tmp_path / "answers.csv")
    with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["query", "label", "v", "answer"] and len(lines) == 37


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_read_before_measuring_and_releases_differ(name: str) -> None:
    plan = plan_of(name)
    x = [50, 50, 50, 50, 0, 0, 0, 0]
    assert released(plan, x, 3).measurements.tolist() == released(plan, x, 3).measurements.tolist()
    with pytest.warns(UnrecordedSpending):
        first, second = ln.measure(plan, x), ln.measure(plan, x)
    assert first.measurements.tolist() != second.measurements.tolist()
    assert all(type(value) is int for value in first.measurements)


@pytest.mark.parametrize("counts", [[0] * 8, [2**62] * 8, [2**70, 1, 0, 0, 3, 2**69, 5, 2**63]], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_counts_of_every_size_stay_integers(name: str, counts: list[int]) -> None:
    plan = plan_of(name, 8, PureDP(1))
    release = released(plan, as_counts(counts))
    assert all(type(value) is int for value in release.measurements)
    assert np.isfinite(release.answers).all()
    if name == "dawa":
        assert release.estimates.sum() == pytest.approx(sum(counts), abs=1e3, rel=ROUNDING)


# Files ---------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("goal", GOALS, ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_plans_and_releases_are_read_back(name: str, goal: Goal, tmp_path: Path) -> None:
    for number, options in enumerate(SHARES[name]):
        plan = plan_of(name, 8, goal, **options)
        back = load_plan(plan.save(tmp_path / f"{number}.plan"))
        assert str(back) == str(plan) and back.options == plan.options and back.privacy == goal
        assert back.mechanism is not None and plan.mechanism is not None
        assert back.mechanism.shares == plan.mechanism.shares
        x = [9, 9, 9, 9, 0, 1, 2, 3]
        assert released(back, x).measurements.tolist() == released(plan, x).measurements.tolist()
        release = released(plan, x)
        found = load_release(release.save(tmp_path / f"{number}.release"))
        assert found.measurements.tolist() == release.measurements.tolist()
        np.testing.assert_array_equal(found.answers, release.answers)


def tampered(plan: Plan, path: Path, **changes: Any) -> Path:
    content, arrays = plan.to_parts()
    return container.write(path, "plan", {**content, **changes}, arrays)


def test_a_file_cannot_claim_another_budget(tmp_path: Path) -> None:
    plan = plan_of("dawa")
    path = tmp_path / "x.plan"
    assert load_plan(tampered(plan, path)).certificate.status == "data-dependent"
    for changes, words in (
        ({"options": {"partition_share": 2}}, "partition_share must lie between 0 and 1"),
        ({"options": {"epsilon": 2}}, "method 'dawa' has no option epsilon"),
        ({"method": "identity"}, "method 'identity' needs no data"),
        ({"method": "magic"}, "there is no method 'magic'"),
        ({"privacy": GDP(1).to_dict()}, "it is for pure privacy"),
        ({"claim": "heuristic"}, "its content is not what design"),
        ({"objective": "max-variance"}, "its errors depend on the data"),
    ):
        with refuses(PlanFileError, "plan", "x.plan", words):
            load_plan(tampered(plan, path, **changes))


def test_measurements_that_nobody_released_are_refused(tmp_path: Path) -> None:
    dawa, mwem = mechanism_of("dawa"), mechanism_of("mwem")
    x = np.array([9, 9, 9, 9, 0, 1, 2, 3])
    for mechanism in (dawa, mwem):
        good = mechanism.measure(x, Pool(1))
        assert mechanism.fits(good)
        for wrong in (good[:-1], np.append(good, 0), good[:1]):
            assert not mechanism.fits(wrong)
    good = dawa.measure(x, lambda scale, size: [0] * size)
    k = int(good[0])
    assert k >= 2
    for place, value in (
        (0, 0),
        (0, 99),
        (1, 1),
        (2, 0),
        (k, 8),
        (1 + k, 0),
        (1 + k, -1),
        (3 * k - 1, 2**70),
    ):
        wrong = good.copy()
        wrong[place] = value
        assert not dawa.fits(wrong), (place, value)
    for value in (-1, 36):
        wrong = mwem.measure(x, Pool(2))
        wrong[1] = value
        assert not mwem.fits(wrong)
    plan = plan_of("mwem")
    release = Release(plan, np.array([1, 2, 3], dtype=object))
    with refuses(PlanFileError, "path", "x.release"):
        load_release(release.save(tmp_path / "x.release"))


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_requests_they_cannot_serve() -> None:
    two = ln.assemble([ln.Prefix("a") * ln.Marginal("b")], ln.Schema(a=range(4), b=range(3)))
    odd = ln.Workload.from_matrix([[1, 0, 1]])
    halves = ln.Workload.from_matrix([[0.5, 0.5, 0]])
    for workload, goal, name, words, objective in (
        (ranges(8), GDP(1), "dawa", "it is for pure privacy", None),
        (ranges(8), ApproxDP(1, 1e-6), "mwem", "it is for pure privacy", None),
        (two, PureDP(1), "dawa", "it is for one ordered attribute", None),
        (odd, PureDP(1), "dawa", "it is for ranges, sums of neighbouring cells", None),
        (halves, PureDP(1), "mwem", "it is for queries with whole numbers", None),
        (ranges(8), PureDP(1), "dawa", "it minimises total variance only", MaxVariance()),
        (ranges(8), PureDP(1), "mwem", "it minimises total variance only", MaxVariance()),
        (ranges(8), PureDP(Fraction(1, 2**121)), "dawa", "epsilon per record must lie between", None),
        (ranges(5000, [ln.Total()]), PureDP(1), "dawa", "at most 4,096 of them, here 5,000", None),
        (ranges(3000), PureDP(1), "mwem", "at most 4,194,304 coefficients", None),
    ):
        with pytest.raises(MethodError, match=f"method '{name}' cannot do this: .*{words}"):
            ln.design(workload, goal, method=name, objective=objective)
    for wrong in (0, 1001, 1.0, True, "3"):
        with refuses(MethodError, "rounds", ..., "rounds must be a whole number from 1 to 1,000"):
            plan_of("mwem", rounds=wrong)


def test_ranges_are_recognised() -> None:
    schema = ln.Schema(v=range(6))
    for query in (ln.Prefix("v"), ln.AllRanges("v"), ln.Marginal("v"), ln.Total(), ln.Ranges("v", [(1, 3)])):
        assert asks_ranges(ln.assemble([query, ln.Total(name="t")], schema).operator)
    for rows, are in (
        ([[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], True),
        ([[1, 0, 1, 0]], False),
        ([[0, 2, 2, 0]], False),
        ([[1, 0, 0, 1]], False),
        ([[0, -1, 0, 0]], False),
        ([[0.5, 0, 0, 0]], False),
    ):
        assert asks_ranges(Matrix(np.array(rows, dtype=float))) == are
    extra_cell = ln.Schema(v=ln.Categories(["a", "b", "c"], other="rest"))
    assert asks_ranges(ln.assemble([ln.Prefix("v"), ln.Marginal("v")], extra_cell).operator)


@pytest.mark.thorough
def test_they_are_taken_only_when_named() -> None:
    plan = ln.design(ranges(8), PureDP(1))
    assert plan.method not in NAMES and plan.strategy is not None
    assert all(name not in plan.note for name in NAMES)


# What they are for ---------------------------------------------------------------------------


def mean_square(plan: Plan, counts: Any, n_runs: int) -> float:
    truth = plan.workload.dense() @ counts
    return float(np.mean([(released(plan, counts, seed).answers - truth) ** 2 for seed in range(n_runs)]))


@pytest.mark.thorough
def test_dawa_gains_on_even_counts_and_loses_on_alternating_ones() -> None:
    """COA's full version, section 5.6: DAWA does well where neighbouring counts are alike, else poorly."""
    n, goal = 128, PureDP(0.1)
    workload = ranges(n, [ln.Prefix("v"), ln.Marginal("v")])
    plan = ln.design(workload, goal, method="dawa")
    even, alternating = np.full(n, 100), np.tile([0, 2000], n // 2)
    other = ln.design(workload, goal).certificate.achieved / workload.shape[0]
    assert mean_square(plan, even, 8) < 0.7 * other < other < mean_square(plan, alternating, 8)


@pytest.mark.thorough
def test_dawa_as_published_gains_where_neighbours_are_alike() -> None:
    n, rng = 128, np.random.default_rng(3)
    workload = ranges(n, [ln.Prefix("v"), ln.Marginal("v")])
    even, alternating = np.full(n, 100), np.tile([0, 2000], n // 2)
    errors = [simulated_errors(workload, x, 0.1, n_runs=8, generator=rng).mean() for x in (even, alternating)]
    other = ln.design(workload, PureDP(0.1)).certificate.achieved / workload.shape[0]
    assert errors[0] < 0.3 * other < other < errors[1]


def test_mwem_learns() -> None:
    counts = np.repeat([200, 5, 60, 1], 4)
    workload = ranges(16)
    truth = workload.dense() @ counts
    plan = ln.design(workload, PureDP(20), method="mwem", options={"rounds": 12})
    error = np.abs(released(plan, counts).answers - truth).max()
    start = np.abs(workload.dense() @ np.full(16, counts.sum() / 16) - truth).max()
    assert error < 0.1 * start


# From a shell --------------------------------------------------------------------------------

SPEC = """
[schema]
age = { range = [0, 7] }

[privacy]
epsilon = 1.0

[[query]]
kind      = "prefix"
attribute = "age"

[design]
method  = "dawa"
options = { partition_share = "1/3" }
"""


@pytest.mark.thorough
def test_the_walk_from_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("town.toml").write_text(SPEC, encoding="utf-8")
    Path("people.csv").write_text("age\n" + "3\n" * 200, encoding="utf-8")
    said = {}
    for words in (
        ("design", "town.toml"),
        ("explain", "town.plan"),
        ("explain", "town.toml"),
        ("release", "town.plan", "--data", "people.csv"),
        ("publish", "town.toml", "--data", "people.csv", "--out", "second.csv"),
        ("compare", "town.toml", "--method", "dawa", "--method", "identity", "--public-data", "people.csv"),
        ("compare", "town.toml", "--method", "dawa"),
    ):
        result = CliRunner(env={"COLUMNS": "100"}).invoke(app, list(words))
        assert result.exit_code == 0 and result.exception is None, result.output
        said[words] = str(result.stdout)
    assert load_plan("town.plan").mechanism.shares["partition"] == Fraction(1, 3)  # type: ignore[union-attr]
    assert "certificate  data-dependent" in said["design", "town.toml"]
    assert "Nothing is proved about its accuracy" in said["explain", "town.plan"]
    assert load_release("town-answers.release").stderr is None
    simulated, left_out = list(said.values())[-2:]
    assert "simulated" in simulated and "Simulated: mean squared error" in simulated
    assert "left out: its error depends on the data" in left_out
    assert "nan" not in "".join(said.values())
