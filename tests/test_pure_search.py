"""The search for p-identity strategies: blocks of cells, starts, threads; largest variances with signs."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.planning import Request, refinement
from leastnoise.planning import design as _design
from leastnoise.planning.families import fixed_rows, weighted_basis
from leastnoise.planning.p_identity import coarse_to_fine as searches
from leastnoise.planning.p_identity import objective_function as problems
from leastnoise.privacy import PureDP
from leastnoise.query import (
    AllRanges,
    Marginal,
    MaxVariance,
    Prefix,
    Query,
    Ranges,
    Schema,
    Targets,
    Workload,
    assemble,
)
from leastnoise.solver import load_backend
from support import cells_of, extra, refuses
from tolerances import ROUNDING, SOLVER

# Central differences of smooth functions of size one: the square of the step, and rounding over the step.
STEP, DIFFERENCES = 1e-5, 1e-6


def design(*given: Any, **more: Any) -> Any:
    """A plan that has a strategy, which types do not say."""
    return _design(*given, **more)


def over(n: int, *queries: Query) -> Workload:
    return assemble(queries, Schema(a=range(n)))


def problem_for(workload: Workload, backend: str = "numpy") -> problems.Problem:
    return problems.problem_of(workload, workload.weights, cells_of(workload), load_backend(backend))


def per_query(plan: Any) -> float:
    return plan.certificate.achieved * float(plan.privacy.budget) ** 2 / 2 / plan.workload.shape[0]


# Blocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(("n", "size"), [(12, 4), (13, 4), (9, 2), (5, 8)])
def test_blocks_are_the_same_problem_for_weights_that_do_not_vary_within(
    n: int, size: int, backend: str
) -> None:
    if backend == "torch":
        extra("torch")
    # Prefix sums are applied, all ranges summed, the others multiplied.
    for query in (Prefix("a"), AllRanges("a"), Ranges("a", [(0, 2), (1, 3), (2, 4)] * n)):
        problem = problem_for(over(n, query, Marginal("a")), backend)
        coarse = problem.coarsened(size)
        arrays = problem.arrays
        kinds = len(problem.diagonal)
        theta = np.random.default_rng(0).random((coarse.n, 2))
        member = np.repeat(np.arange(coarse.n), size)[:kinds]
        value, gradient = problems.total_and_gradient(problem, arrays.matrix(theta[member]))
        on_blocks, by_blocks = problems.total_and_gradient(coarse, arrays.matrix(theta))
        assert on_blocks == pytest.approx(value, rel=ROUNDING)
        summed = np.add.reduceat(arrays.numpy(gradient), np.arange(0, kinds, size), axis=0)
        assert arrays.numpy(by_blocks) == pytest.approx(summed, rel=1e-9, abs=1e-9 * value)
        # Blocks taken for single cells are another problem.
        single = problems.Problem(coarse.gram_times, coarse.diagonal, coarse.unit, arrays)
        assert problems.total_and_gradient(single, arrays.matrix(theta))[0] != pytest.approx(value, rel=1e-3)


def test_running_sums_multiply_by_nested_gram_matrices_only() -> None:
    X = np.random.default_rng(0).standard_normal((40, 3))
    for query in (Prefix("a"), AllRanges("a")):
        V = over(40, query).weighted_gram()
        times = problems._nested_times(V)
        assert times is not None and times(X) == pytest.approx(V @ X, rel=1e-9, abs=ROUNDING * V.max())
        bent = V.copy()
        bent[3, 7] = bent[7, 3] = 1.01 * V[3, 7]
        assert problems._nested_times(bent) is None
    assert problems._nested_times(over(40, AllRanges("a"), Marginal("a")).weighted_gram()) is None
    assert problems._nested_times(np.eye(4)) is None


def test_neighbours_are_told_from_strangers() -> None:
    rng = np.random.default_rng(0)
    V = over(200, Prefix("a")).weighted_gram()
    mixed = rng.permutation(200)
    assert problems.problem_of_gram(V).likeness() > 0.98
    assert problems.problem_of_gram(V[np.ix_(mixed, mixed)]).likeness() < 0.8
    chance = rng.integers(0, 2, (300, 200))
    assert problems.problem_of_gram((chance.T @ chance).astype(float)).likeness() < 0.6
    assert searches._StartSearch(problems.problem_of_gram(V), searches.Effort(None, 1, 1)).size == 2
    assert searches._StartSearch(problem_for(over(1024, Prefix("a"))), searches.Effort(None, 1, 1)).size == 4
    # As many sums as cells need cells, and strangers are not put into blocks.
    assert searches._StartSearch(problems.problem_of_gram(V), searches.Effort(200, 1, 1)).size == 1
    shuffled = problems.problem_of_gram(V[np.ix_(mixed, mixed)])
    assert searches._StartSearch(shuffled, searches.Effort(None, 1, 1)).size == 1


def test_kinds_of_cells_keep_the_order_of_the_cells() -> None:
    """Kinds used to come in the order of their columns, which put strangers side by side."""
    workload = over(60, Ranges("a", [(3 * k, 3 * k + 14) for k in range(15)]))
    cells = cells_of(workload)
    assert not cells.are_all and (np.diff(cells.first) > 0).all()
    W = workload.dense()
    used = np.flatnonzero(cells.used)
    assert np.array_equal(W[:, used], W[:, cells.first][:, cells.kind])
    assert np.array_equal(np.bincount(cells.kind), cells.counts)


@pytest.mark.parametrize(("n", "size"), [(32, 4), (33, 4), (38, 2), (40, 8)])
def test_interpolation_keeps_straight_lines(n: int, size: int) -> None:
    def middles(size: int) -> Array:
        return np.array([np.arange(first, min(first + size, n)).mean() for first in range(0, n, size)])

    coarse, fine = middles(size), middles(size // 2)
    lines = np.stack([np.ones(len(coarse)), 2 + 3 * coarse], axis=1)
    found = searches.interpolated(lines, n, size)
    inside = (fine >= coarse[0]) & (fine <= coarse[-1])
    assert found[:, 0] == pytest.approx(np.ones(len(fine)), rel=ROUNDING)
    assert found[inside, 1] == pytest.approx(2 + 3 * fine[inside], rel=ROUNDING)
    # Copies of each block are not straight.
    assert np.abs(np.repeat(lines[:, 1], 2)[: len(fine)] - found[:, 1])[inside].max() > 0.5


def test_tents_and_levels() -> None:
    rng = np.random.default_rng(0)
    assert searches.levels(60, 10) == [54, 5, 1] and searches.levels(12, 40) == [12]
    for p in range(1, 50):
        assert sum(searches.levels(p, 9.0)) == p and min(searches.levels(p, 9.0)) > 0
    T = searches.tents(300, [9, 2], rng)
    assert T.shape == (300, 11) and (T >= 0).all()
    middle = slice(40, 260)
    assert (np.count_nonzero(T[middle, :9], axis=1) <= 2).all()
    assert np.abs(T[middle, :9].sum(axis=1) - 0.9).max() < 0.1


# The search ----------------------------------------------------------------------------------


def test_descent_ends_where_no_entry_can_gain() -> None:
    problem = problem_for(over(24, Prefix("a")))
    start = searches.tents(24, [3], np.random.default_rng(0))

    def slack(theta: Array) -> float:
        gradient = problems.total_and_gradient(problem, theta)[1]
        return float(np.abs(np.where(theta > 0, gradient, np.minimum(gradient, 0))).max())

    end = searches.descend(problem, start, 3000)
    assert (end.theta >= 0).all() and (end.theta == 0).any()
    assert end.value == pytest.approx(problems.total_and_gradient(problem, end.theta)[0], rel=ROUNDING)
    assert slack(end.theta) < 1e-3 * slack(start)
    # Stopped early, or with all that is zero at the start left zero, it is not there yet.
    assert slack(searches.descend(problem, start, 5).theta) > 1e-2 * slack(start)
    assert searches.descend(problem, np.zeros((24, 2)), 50).value <= float(problem.diagonal.sum())


@pytest.mark.thorough
def test_seeds_do_not_matter_much() -> None:
    """PEERS: HDMM's 27.01 and 32.52 per query. All of seeds 0 to 19 end below 26.84 and 32.44."""
    for query, theirs, ours in ((Prefix, 27.01, 26.86), (AllRanges, 32.52, 32.45)):
        workload = over(256, query("a"))
        problem = problem_for(workload)
        unit = problem.unit / workload.shape[0]
        effort = searches.Effort(None, searches.default_starts(256), 1000)
        # Of seeds 0 to 19, the one that ends highest for prefix sums.
        value = searches.search(problem, effort, np.random.default_rng(8)).value * unit
        assert value < ours < theirs
        # A single random start on the cells themselves, which is what this replaced, is behind.
        start = np.random.default_rng(1).random((256, 16))
        assert searches.descend(problem, start, 1000).value * unit > ours


@pytest.mark.thorough
def test_the_number_of_workers_changes_nothing() -> None:
    workload, options = over(130, Prefix("a")), {"iterations": 40, "starts": 7}

    def rows(**more: Any) -> Any:
        return design(workload, PureDP(1), method="p-identity", options={**options, **more}).strategy.entries

    alone = rows(workers=1)
    for workers in (2, 3, 16):
        assert np.array_equal(alone, rows(workers=workers))
    assert np.array_equal(alone, rows()) and not np.array_equal(alone, rows(workers=2, seed=1))


def test_starts_are_shared_among_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two workers two starts are under way at once, with one never."""
    under_way, most = 0, 0

    def watched(problem: Any, start: Array, *_: Any) -> searches.SearchPoint:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.02)
        under_way -= 1
        return searches.SearchPoint(start, 1.0)

    monkeypatch.setattr(searches, "descend", watched)
    problem = problem_for(over(32, Prefix("a")))
    for workers in (1, 2):
        most = 0
        searches.search(problem, searches.Effort(3, 6, 10, workers=workers), np.random.default_rng(0))
        assert most == workers


@pytest.mark.thorough
def test_threads_by_default_only_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "available_cores", lambda: 5)
    effort = searches.Effort(None, 1, 1)
    small = searches._StartSearch(problem_for(over(256, Prefix("a"))), effort)
    large = searches._StartSearch(problem_for(over(2048, Prefix("a"))), effort)
    assert small.workers(256) == 1 and large.workers(2048) == 5
    given = searches._StartSearch(problem_for(over(64, Prefix("a"))), searches.Effort(None, 1, 1, workers=3))
    assert given.workers(64) == 3 and searches.available_cores() == 5


@pytest.mark.thorough
def test_a_short_time_still_reaches_the_cells() -> None:
    """Time used to be taken by the first stages: each leaves half of it to those that follow."""
    workload = over(512, Prefix("a"))
    problem = problem_for(workload)
    started = time.monotonic()
    effort = searches.Effort(None, 24, 10**6, Deadline.after(0.5))
    point = searches.search(problem, effort, np.random.default_rng(0))
    assert time.monotonic() - started < 2
    assert point.theta.shape[0] == 512 and point.value < 0.2 * float(problem.diagonal.sum())


def sliding(n: int, width: int) -> Array:
    start, place = np.arange(n - width + 1)[:, None], np.arange(n)
    return ((start <= place) & (place < start + width)).astype(float)


@pytest.mark.thorough
def test_the_problem_says_how_many_sums() -> None:
    """With one sum for 12 to 21 cells windows ended at 3,569, behind HDMM's 3,340 with one for 8."""
    plan = design(Workload.from_matrix(sliding(256, 16)), PureDP(1), method="p-identity")
    assert plan.certificate.achieved / 2 < 3340


@pytest.mark.thorough
def test_sums_that_are_asked_are_starts() -> None:
    """Months of 182 days at one height: HDMM's random starts end at 721.5, and ours ended at 726.7."""
    place = np.arange(182)
    bins = [
        (place // width == np.arange(-(-182 // width))[:, None]).astype(float) for width in (1, 7, 30, 91)
    ]
    workload = Workload.from_matrix(np.vstack(bins))
    asked = problems.sums_asked(workload, cells_of(workload))
    assert all(rows.max() <= 1 and len(rows) <= 182 // 6 + 1 for rows in asked) and len(asked) > 1
    plan = design(workload, PureDP(1), method="p-identity")
    assert plan.certificate.achieved / 2 < 721


def test_a_search_far_above_what_is_known_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_for(over(40, Prefix("a")))
    n_descents = []
    descend = searches.descend

    def counted(*given: Any) -> searches.SearchPoint:
        n_descents.append(1)
        return descend(*given)

    monkeypatch.setattr(searches, "descend", counted)
    effort = searches.Effort(3, 4, 32)
    whole = searches.search(problem, effort, np.random.default_rng(0))
    n_whole = len(n_descents)
    n_descents.clear()
    known = searches.search(problem, replace(effort, known=whole.value / 2), np.random.default_rng(0))
    assert len(n_descents) < n_whole and known.ended == "exhausted" and known.theta.shape[0] == 40
    # A total that is near does not end it.
    near = searches.search(problem, replace(effort, known=whole.value), np.random.default_rng(0))
    assert near.value == whole.value


def test_steps_follow_from_sizes_alone() -> None:
    small, large = (problems.problem_of_gram(np.eye(n) + 1.0) for n in (64, 512))
    assert searches.default_steps(small, 1000) == 1000 and 1 < searches.default_steps(large, 10**6) < 10**5
    # Gram matrices that running sums apply take less.
    nested = problem_for(over(512, Prefix("a")))
    assert searches.default_steps(nested, 10**6) > searches.default_steps(large, 10**6)


# Largest variances, with signs ---------------------------------------------------------------


ASKED = over(12, Prefix("a", stderr=9), Marginal("a", stderr=4))


@pytest.mark.parametrize("objective", [MaxVariance(), Targets()], ids=str)
def test_the_gradient_for_the_largest(objective: Any) -> None:
    request = Request(ASKED, PureDP(1), objective=objective)
    weigh = refinement.largest_of(request, cells_of(ASKED), 30.0)
    rng = np.random.default_rng(0)
    P, N = rng.random((2, 14, 12))
    to_P, to_N = rng.standard_normal((2, 14, 12))
    weighed, by_P, by_N = refinement.split_value(weigh, P, N)

    def value(t: float) -> float:
        return refinement.split_value(weigh, P + t * to_P, N + t * to_N)[0].value

    measured = (value(STEP) - value(-STEP)) / (2 * STEP)
    assert np.vdot(by_P, to_P) + np.vdot(by_N, to_N) == pytest.approx(measured, rel=1e-4)
    # With the weights of the queries as they are it would be another.
    fixed = refinement.total_of(ASKED.weighted_gram())
    _, other_P, other_N = refinement.split_value(fixed, P, N)
    assert np.vdot(other_P, to_P) + np.vdot(other_N, to_N) != pytest.approx(measured, rel=1e-2)
    A = (P - N) / (P + N).sum(axis=0)
    v = ((ASKED.dense() @ np.linalg.pinv(A)) ** 2).sum(axis=1)
    shares = v / objective.caps(ASKED)
    assert weighed.judged * float((1 / objective.caps(ASKED)).max()) == pytest.approx(
        float(shares.max()), rel=1e-9
    )
    assert math.log(weighed.judged) <= weighed.value <= math.log(weighed.judged * len(v) ** (1 / 30))


@pytest.mark.thorough
@pytest.mark.parametrize("objective", [MaxVariance(), Targets()], ids=str)
def test_signs_lower_the_largest(objective: Any) -> None:
    without = design(ASKED, PureDP(1), objective=objective, method="p-identity")
    plan = design(ASKED, PureDP(1), objective=objective)
    assert plan.certificate.achieved < 0.99 * without.certificate.achieved
    assert "refined directly" in plan.note and (plan.strategy.entries < 0).any()
    A = plan.strategy.entries.astype(float)
    v = plan.strategy.noise_variance * ((ASKED.dense() @ np.linalg.pinv(A)) ** 2).sum(axis=1)
    assert plan.certificate.achieved == pytest.approx(objective.value(ASKED, v), rel=1e-9)
    assert plan.certificate.lower_bound <= plan.certificate.achieved


@pytest.mark.thorough
def test_rows_are_judged_by_the_largest_and_not_by_what_is_minimised() -> None:
    """A low power leads away from the least largest variance; the rows it began with are kept then."""
    workload = over(32, Prefix("a"))
    request = Request(workload, PureDP(1), objective=MaxVariance())
    cells = cells_of(workload)
    plan = design(workload, PureDP(1), objective=MaxVariance(), method="p-identity")
    rows = plan.strategy.entries.astype(float)
    rows /= np.abs(rows).sum(axis=0)
    before = plan.certificate.achieved / 2
    low = refinement.refine(refinement.largest_of(request, cells, 2.0), rows, 60)
    high = refinement.refine(refinement.largest_of(request, cells, 2000.0), rows, 60)
    assert low is not None and low[0] <= before * (1 + SOLVER)
    assert high is not None and high[0] < (1 - 1e-4) * before
    # For the total the same number of steps ends elsewhere.
    total = refinement.refine(refinement.total_of(workload.weighted_gram()), rows, 60)
    assert total is not None
    assert float(((workload.dense() @ np.linalg.pinv(total[1])) ** 2).sum(axis=1).max()) > 1.05 * before


# Options of the whole search -----------------------------------------------------------------


def test_every_method_gets_the_options_that_it_has() -> None:
    workload = over(20, Prefix("a"))
    first = design(workload, PureDP(1), options={"seed": 1, "iterations": 30})
    assert first.certificate.achieved < design(workload, PureDP(1), method="identity").certificate.achieved
    assert "failed" not in {trial.outcome for trial in first.tried}
    with refuses(MethodError, "options", "sede, tents", "no method tried under pure privacy has an"):
        design(workload, PureDP(1), options={"sede": 1, "tents": 2, "seed": 1})


# Searches that end early, and turns that converge --------------------------------------------


def test_turns_over_a_tree_converge() -> None:
    """A hundred turns used to end before they had: prefix sums of 64 cells at 1,065.7, not at 1,062.2."""
    for n, at_most in ((64, 1062.2), (16, math.inf)):
        workload = over(n, Prefix("a"))
        plan = design(workload, PureDP(1), method="weighted-basis", options={"basis": "tree"})
        assert per_query(plan) * n <= at_most
        A = plan.strategy.entries.astype(float)
        W = workload.dense()
        total = float(np.abs(A).sum(axis=0).max()) ** 2 * float(np.trace(W @ np.linalg.inv(A.T @ A) @ W.T))
        assert per_query(plan) * n == pytest.approx(total, rel=SOLVER)


def test_extrapolated_costs_keep_every_node_that_is_needed() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        k = int(rng.integers(1, 9))
        before, first, second = 10.0 ** rng.uniform(-20, 5, (3, k))
        second[rng.random(k) < 0.2] = 0.0
        second[0] = 1.0
        found = weighted_basis._extrapolated(before, first, second)
        assert np.isfinite(found).all() and found.max() == 1.0
        assert ((found > 0) == (second > 0)).all()


def test_costs_that_fall_by_a_constant_factor_are_extrapolated_to_where_they_end() -> None:
    """Each turn halves the distance: c = limit · e^(step/2^t), which two turns tell exactly."""
    limit, step = np.array([1.0, 0.25, 0.5]), np.array([0.0, 1.0, -0.5])
    turns = [limit * np.exp(step / 2**t) for t in range(3)]
    assert weighted_basis._extrapolated(*turns) == pytest.approx(limit, rel=ROUNDING)


def test_a_search_within_the_span_far_behind_others_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 8 over 64 cells took 2.3 s on the way to twice what another method had."""
    followed: list[int] = []
    follow = refinement._follow

    def counted(R: Array, start: Array, widths: Any, deadline: Deadline) -> Any:
        followed.append(len(widths))
        return follow(R, start, widths, deadline)

    monkeypatch.setattr(refinement, "_follow", counted)
    for name in ("_SPAN_STEPS", "_FEWEST_SPAN_STEPS"):
        monkeypatch.setattr(refinement, name, 15)
    R = np.random.default_rng(0).standard_normal((3, 12))
    best, _ = refinement.search_span(R, [])
    assert best is not None
    reached = refinement.span_value(R, best)
    n_all = len(followed)
    for known, n_followed in ((reached / 3, 3), (reached / 1.5, n_all - 1), (reached, n_all)):
        followed.clear()
        early, ended = refinement.search_span(R, [], known=known)
        assert early is not None and len(followed) == n_followed
        assert (ended == "exhausted") or n_followed == n_all
        if n_followed == n_all:
            assert refinement.span_value(R, early) == reached


def test_different_rows_come_in_the_order_of_numpy() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        m, n = int(rng.integers(0, 20)), int(rng.integers(1, 5))
        most = int(rng.choice([1, 2, 300, 2**30 - 1]))
        rows = rng.integers(-most, most + 1, (m, n))
        rows = np.vstack([rows, rows[: m // 2]])
        assert np.array_equal(fixed_rows.distinct_rows(rows), np.unique(rows, axis=0))
