"""Problems with variance caps: optima against a judge, proofs from both sides, working sets, refusals."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from leastnoise.bounds import proves_infeasible
from leastnoise.core.deadline import Watch
from leastnoise.core.errors import InfeasibleError
from leastnoise.core.operators import Array, EveryRange, Matrix
from leastnoise.planning import design
from leastnoise.privacy import GDP
from leastnoise.query import MaxVariance, Targets, TotalVariance, Workload
from leastnoise.solver import (
    CappedBlock,
    ImplicitRows,
    Optimum,
    Run,
    capped,
    least_profile,
    least_total,
    load_backend,
    total_within_caps,
)
from leastnoise.solver.capped import least_total_by_path
from leastnoise.solver.rows import DenseRows
from leastnoise.solver.tightening import tightened
from support import extra, refuses
from tolerances import JUDGE, ROUNDING, SOLVER

NUMPY = load_backend("numpy")
NINE = 1e-9

# What `is_proved` loses to its own pseudo-inverse and singular values, on rows of very different sizes.
RECOMPUTED = 1e-8


def coordinates(W: Any) -> tuple[Any, Any]:
    """W = L B with B an orthonormal basis of its rows."""
    _, strengths, Vt = np.linalg.svd(W / np.abs(W).max(axis=1, keepdims=True), full_matrices=False)
    B = Vt[: int((strengths > 1e-10 * strengths[0]).sum())]
    return W @ B.T, B


def least(W: Any, caps: Any, tol: float = SOLVER, **options: Any) -> Optimum:
    L, B = coordinates(W)
    return least_profile([CappedBlock(DenseRows(L, NUMPY), B)], caps, Run(tol), **options)


def total(W: Any, caps: Any, weights: Any, profile: float, tol: float = SOLVER) -> Optimum:
    """The least Σ w v with v ≤ c (∞ for none) and u ≤ profile."""
    L, B = coordinates(W)
    has_cap = np.isfinite(caps)
    block = CappedBlock(DenseRows(L[has_cap], NUMPY), B / math.sqrt(profile), L * np.sqrt(weights)[:, None])
    is_all_capped = bool(has_cap[weights > 0].all())
    return total_within_caps([block], caps[has_cap], Run(tol), is_all_capped=is_all_capped)


def noise_of(solution: Optimum, W: Any) -> tuple[Any, Any]:
    """Variances and profile of a strategy, from the strategy alone."""
    A = solution.root
    answers = W @ np.linalg.pinv(A)
    assert np.allclose(answers @ A, W, rtol=0, atol=1e-6 * np.abs(W).max()), "it does not span the queries"
    return (answers**2).sum(axis=1), (A**2).sum(axis=0)


def nuclear(W: Any, p: Any, q: Any) -> float:
    return float(np.linalg.svd(np.sqrt(p)[:, None] * W * np.sqrt(q), compute_uv=False).sum())


def is_proved(solution: Optimum, W: Any, caps: Any, tol: float) -> bool:
    """P2 from both sides: caps kept, profile as claimed, and the bound (5) of MATH from W, p and q alone."""
    v, u = noise_of(solution, W)
    bound = nuclear(W, solution.p, solution.q) ** 2 / (solution.p @ caps * solution.q.sum())
    return bool(
        (v <= caps * (1 + RECOMPUTED)).all()
        and abs(u.max() / solution.achieved - 1) <= RECOMPUTED
        and abs(bound / solution.lower_bound - 1) <= RECOMPUTED
        and solution.achieved <= (1 + tol) * solution.lower_bound
    )


def is_proved_total(solution: Optimum, W: Any, caps: Any, weights: Any, profile: float, tol: float) -> bool:
    """P3 from both sides: caps and profile kept, the total as claimed, and the bound (6)."""
    # The solver saw cells divided by √profile.
    v, u = noise_of(dataclasses.replace(solution, roots=[solution.root * math.sqrt(profile)]), W)
    has_cap = np.isfinite(caps)
    p = np.zeros(len(W))
    p[has_cap] = solution.p
    spent = float(p[has_cap] @ caps[has_cap])
    bound = nuclear(W, weights + p, solution.q) ** 2 / (profile * solution.q.sum()) - spent
    return bool(
        solution.is_feasible
        and (v <= caps * (1 + RECOMPUTED)).all()
        and u.max() <= profile * (1 + RECOMPUTED)
        and abs(weights @ v / solution.achieved - 1) <= RECOMPUTED
        and abs(bound - solution.lower_bound) <= RECOMPUTED * (abs(bound) + spent)
        and solution.achieved <= (1 + tol) * solution.lower_bound
    )


def broken(solution: Optimum) -> list[Optimum]:
    """The same solution with one thing wrong each."""
    replace = dataclasses.replace
    return [
        replace(solution, roots=[solution.root * 1.001]),
        replace(solution, roots=[solution.root / 1.001]),
        replace(solution, achieved=solution.achieved * 0.999),
        replace(solution, lower_bound=solution.lower_bound * 1.001),
        replace(solution, q=solution.q + 0.1 * solution.q.max() * (np.arange(len(solution.q)) % 2 == 0)),
    ]


# The problems ---------------------------------------------------------------------------------


def ranges(rng: np.random.Generator, m: int, n: int) -> Any:
    ends = np.sort(rng.integers(0, n, (m, 2)), axis=1)
    W = np.array([[float(a <= i <= b) for i in range(n)] for a, b in ends])
    return W[:, W.any(axis=0)]


def _duplicates(rng: np.random.Generator) -> Any:
    W = rng.normal(size=(4, 4))
    return np.hstack([np.vstack([W, W[:2]]), np.vstack([W, W[:2]])[:, :2]])


BATTERY: dict[str, Callable[[np.random.Generator], Any]] = {
    "random ranges": lambda rng: ranges(rng, 20, 12),
    "signs": lambda rng: rng.choice([-1.0, 1.0], size=(15, 8)),
    "rows of eight orders": lambda rng: rng.normal(size=(7, 7)) * np.geomspace(1e-4, 1e4, 7)[:, None],
    "many cells": lambda rng: rng.normal(size=(4, 40)),
    "many queries": lambda rng: rng.normal(size=(60, 4)),
    "duplicate rows and columns": _duplicates,
    "deficient": lambda rng: rng.normal(size=(8, 3)) @ rng.normal(size=(3, 7)),
    "one cell": lambda rng: rng.normal(size=(5, 1)),
    "one query": lambda rng: rng.normal(size=(1, 6)),
    "one of each": lambda rng: np.array([[3.0]]),
    "sparse": lambda rng: (rng.random((9, 8)) < 0.2) + np.eye(9, 8) + np.eye(9, 8, -1),
    "independent cells": lambda rng: np.eye(5),
}


def random_caps(rng: np.random.Generator, W: Any) -> Any:
    """Caps over two orders of magnitude, in units of the queries' own sizes."""
    return 10.0 ** rng.uniform(-1, 1, len(W)) * (W**2).sum(axis=1)


@pytest.mark.thorough
@pytest.mark.parametrize("caps", ["equal", "random"])
@pytest.mark.parametrize("kind", BATTERY)
def test_the_least_profile_is_proved(kind: str, caps: str) -> None:
    for seed in range(3):
        rng = np.random.default_rng([seed, len(kind)])
        W = np.asarray(BATTERY[kind](rng), dtype=float)
        c = np.ones(len(W)) if caps == "equal" else random_caps(rng, W)
        for tol in (SOLVER, NINE):
            solution = least(W, c, tol)
            assert solution.has_converged and is_proved(solution, W, c, tol)
        for wrong in broken(solution)[: 5 if W.shape[1] > 1 else 4]:
            assert not is_proved(wrong, W, c, SOLVER)


@pytest.mark.thorough
@pytest.mark.parametrize("caps", ["equal", "random"])
@pytest.mark.parametrize("kind", BATTERY)
def test_the_total_within_caps_is_proved(kind: str, caps: str) -> None:
    rng = np.random.default_rng([9, len(kind)])
    W = np.asarray(BATTERY[kind](rng), dtype=float)
    c = np.ones(len(W)) if caps == "equal" else random_caps(rng, W)
    weights = rng.uniform(0.5, 2, len(W)) / (W**2).sum(axis=1)
    needed = least(W, c, NINE).achieved
    # Equal caps on rows of eight orders and a thousandth of room: see below.
    is_out_of_reach = kind == "rows of eight orders" and caps == "equal"
    for room in (1.3, 30.0) if is_out_of_reach else (1.001, 1.3, 30.0):
        for tol in (SOLVER, NINE):
            solution = total(W, c, weights, room * needed, tol)
            assert solution.has_converged and is_proved_total(solution, W, c, weights, room * needed, tol)
        for wrong in broken(solution)[:4]:
            assert not is_proved_total(wrong, W, c, weights, room * needed, SOLVER)


def test_what_is_out_of_reach_is_not_claimed() -> None:
    """Caps that bind for one row and allow 1e16 times too much for another, with a thousandth of room."""
    rng = np.random.default_rng(9)
    W = np.asarray(BATTERY["rows of eight orders"](rng))
    c, weights = np.ones(len(W)), 1 / (W**2).sum(axis=1)
    profile = 1.001 * least(W, c, NINE).achieved
    solution = total(W, c, weights, profile)
    v, u = noise_of(dataclasses.replace(solution, roots=[solution.root * math.sqrt(profile)]), W)
    assert (v <= c * (1 + RECOMPUTED)).all() and u.max() <= profile * (1 + RECOMPUTED)
    assert solution.has_converged == (solution.gap <= SOLVER)
    assert solution.lower_bound <= weights @ v == pytest.approx(solution.achieved, rel=RECOMPUTED)


def test_queries_without_caps_count_all_the_same() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        W = rng.normal(size=(8, 5))
        c = np.where(np.arange(8) < 3, random_caps(rng, W), np.inf)
        weights = rng.uniform(0.5, 2, 8)
        needed = least(W[:3], c[:3]).achieved
        solution = total(W, c, weights, 1.2 * needed)
        assert solution.has_converged and is_proved_total(solution, W, c, weights, 1.2 * needed, SOLVER)
        assert len(solution.p) == 3
        # As much as without any cap, and no less.
        free = least_total(np.linalg.qr(W * np.sqrt(weights)[:, None])[1], tol=NINE).achieved
        assert solution.achieved >= free / (1.2 * needed) * (1 - NINE)


def test_without_caps_it_is_the_least_total() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        R = rng.normal(size=(4, 9))
        newton = least_total(R, tol=NINE)
        other = least_total_by_path([R], Run(NINE))
        assert other.has_converged and other.achieved == pytest.approx(newton.achieved, rel=3 * NINE)
        assert (other.root**2).sum(axis=0).max() <= 1 + ROUNDING
        started = least_total_by_path([R], Run(NINE), start=newton.q)
        assert started.has_converged and started.achieved == pytest.approx(newton.achieved, rel=3 * NINE)


# A path that stalled --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [139, 193, 225])
def test_a_stalled_path_is_begun_again(seed: int) -> None:
    """With next to no room, weights that vanish out of step left a gap of up to a third."""
    rng = np.random.default_rng(seed)
    W = rng.integers(-1, 2, (int(rng.integers(1, 12)), int(rng.integers(1, 12)))).astype(float)
    W = W[:, np.abs(W).max(axis=0) > 0]
    W = W[np.abs(W).max(axis=1) > 0]
    c = 10.0 ** np.random.default_rng(seed + 1000).uniform(-1, 1, len(W))
    weights = np.ones(len(W))
    needed = least(W, c, NINE).achieved
    solution = total(W, c, weights, 1.001 * needed, NINE)
    assert solution.has_converged and is_proved_total(solution, W, c, weights, 1.001 * needed, NINE)


# A judge --------------------------------------------------------------------------------------


def judged(W: Any, caps: Any, weights: Any = None, profile: float = 1.0) -> float:
    """P2, or P3 where weights are given, by a semidefinite solver."""
    cvxpy = extra("cvxpy")
    L, B = coordinates(W)
    k = len(B)
    Sigma = cvxpy.Variable((k, k), PSD=True)
    level = cvxpy.Variable() if weights is None else profile
    limits = [
        cvxpy.sum(cvxpy.multiply(np.outer(row, row), Sigma)) <= cap
        for row, cap in zip(L, caps, strict=True)
        if math.isfinite(cap)
    ]
    limits += [cvxpy.matrix_frac(B[:, i], Sigma) <= level for i in range(B.shape[1])]
    aim = level if weights is None else cvxpy.trace((L.T * weights) @ L @ Sigma)
    asked = cvxpy.Problem(cvxpy.Minimize(aim), limits)
    asked.solve(solver="CLARABEL")
    assert asked.status == "optimal"
    return float(asked.value)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_a_semidefinite_solver_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    W = rng.normal(size=(int(rng.integers(2, 9)), n))
    if seed % 4 == 3:
        W = W[:, :1] @ rng.normal(size=(1, n)) + np.outer(np.arange(len(W)), np.ones(n))  # rank two
    c = np.ones(len(W)) if seed % 2 else random_caps(rng, W)
    needed = judged(W, c)
    assert least(W, c).achieved == pytest.approx(needed, rel=JUDGE)
    assert least(W, c * 1.01).achieved != pytest.approx(needed, rel=JUDGE)
    weights = rng.uniform(0.5, 2, len(W))
    for room in (1.05, 2.0):
        expected = judged(W, c, weights, room * needed)
        assert total(W, c, weights, room * needed).achieved == pytest.approx(expected, rel=JUDGE)
        assert total(W, c * 1.05, weights, 1.05 * room * needed).achieved != pytest.approx(
            expected, rel=JUDGE
        )
    assert not total(W, c, weights, (1 - JUDGE) * needed).is_feasible
    assert total(W, c, weights, (1 + JUDGE) * needed).is_feasible


# Infeasible -----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_infeasible_exactly_where_the_least_profile_exceeds_the_budget(seed: int) -> None:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(6, 4))
    c, weights = random_caps(rng, W), np.ones(6)
    needed = least(W, c, NINE)
    for share in (1 - 1e-5, 0.9, 0.1):
        refused = total(W, c, weights, share * needed.achieved)
        assert not refused.is_feasible and not refused.has_converged
        # The weights prove it: more than 1 is needed, in units of the budget.
        bound = nuclear(W, refused.p, refused.q) ** 2 / (refused.p @ c * refused.q.sum())
        assert bound / (share * needed.achieved) > 1
        assert refused.achieved == pytest.approx(1 / share, rel=2 * SOLVER)
    for share in (1 + 1e-5, 1.1, 10):
        assert total(W, c, weights, share * needed.achieved).is_feasible


@pytest.mark.parametrize("seed", range(4))
def test_the_factor_of_an_infeasible_design_is_enough_and_hardly_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    W = rng.integers(-2, 3, (6, 4)) + np.vstack([np.eye(4, dtype=int), np.zeros((2, 4), dtype=int)])
    stderr = 10.0 ** rng.uniform(-1, 0, 6)

    def asked(factor: float) -> Workload:
        return Workload.from_matrix(W, stderr=stderr * factor)

    goal, within = GDP(0.3), TotalVariance(within_targets=True)
    with refuses(InfeasibleError, "stderr", ..., "cannot be met with Gaussian noise within") as caught:
        design(asked(1.0), goal, objective=within)
    error = caught.value
    assert error.factor > 1 and proves_infeasible(asked(1.0), goal, error.witness)
    plan = design(asked(error.factor * (1 + SOLVER)), goal, objective=within)
    assert (plan.stderr <= stderr * error.factor * (1 + 2 * SOLVER)).all()
    assert not proves_infeasible(asked(error.factor * (1 + SOLVER)), goal, error.witness)
    with pytest.raises(InfeasibleError):
        design(asked(error.factor * 0.999), goal, objective=within)


# Many queries ---------------------------------------------------------------------------------


def counted(solutions: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note how many queries every round is about."""
    follow = capped.follow_path

    def noted(problem: Any, *rest: Any, **options: Any) -> Any:
        solutions.append(problem.forms[0].rows.shape[0])
        return follow(problem, *rest, **options)

    monkeypatch.setattr(capped, "follow_path", noted)


@pytest.mark.parametrize("seed", range(4))
def test_working_sets_reach_the_same_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(400, 5))
    c = random_caps(rng, W) ** 0.25
    weights = rng.uniform(0.5, 2, 400)
    L, B = coordinates(W)
    whole = least(W, c, NINE)
    whole_total = total(W, c, weights, 1.2 * whole.achieved, NINE)
    monkeypatch.setattr(capped, "_ALL_AT_ONCE", 20)
    monkeypatch.setattr(capped, "_PER_DIRECTION", 1)
    sizes: list[int] = []
    counted(sizes, monkeypatch)
    base = np.linalg.qr(L / np.sqrt(c)[:, None])[1]
    some = least_profile([CappedBlock(ImplicitRows(Matrix(L), None, NUMPY), B, base)], c, Run(NINE))
    assert len(sizes) > 1 and max(sizes) < 400, "it was solved for all queries at once"
    assert some.has_converged and is_proved(some, W, c, NINE)
    assert some.achieved == pytest.approx(whole.achieved, rel=2 * NINE)
    sizes.clear()
    some_total = total(W, c, weights, 1.2 * whole.achieved, NINE)
    assert len(sizes) > 1 and max(sizes) < 400
    assert is_proved_total(some_total, W, c, weights, 1.2 * whole.achieved, NINE)
    assert some_total.achieved == pytest.approx(whole_total.achieved, rel=2 * NINE)


def test_violated_queries_must_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the test above: a working set that never grows proves nothing."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(400, 5))
    c = random_caps(rng, W) ** 0.25
    L, B = coordinates(W)
    monkeypatch.setattr(capped, "_ALL_AT_ONCE", 20)
    monkeypatch.setattr(capped, "_PER_DIRECTION", 1)
    monkeypatch.setattr("leastnoise.solver.active_set.MAX_ROUNDS", 4)
    monkeypatch.setattr(capped._CappedRows, "next_rows", lambda self, chosen, found: chosen)
    base = np.linalg.qr(L / np.sqrt(c)[:, None])[1]
    stuck = least_profile([CappedBlock(ImplicitRows(Matrix(L), None, NUMPY), B, base)], c, Run(SOLVER))
    assert not stuck.has_converged and stuck.gap > SOLVER
    assert is_proved(stuck, W, c, stuck.gap * (1 + ROUNDING))


def test_all_ranges_need_not_be_written_out() -> None:
    every = EveryRange(16)
    W = every.dense()
    rng = np.random.default_rng(16)
    for c in (np.ones(len(W)), 10.0 ** rng.uniform(-0.5, 0.5, len(W))):
        implicit = least_profile([CappedBlock(ImplicitRows(every, None, NUMPY), np.eye(16))], c, Run(1e-8))
        written = least_profile([CappedBlock(DenseRows(W, NUMPY), np.eye(16))], c, Run(1e-8))
        assert implicit.has_converged and is_proved(implicit, W, c, 1e-8)
        assert implicit.achieved == pytest.approx(written.achieved, rel=2e-8)


# Limits of time and precision -----------------------------------------------------------------


def test_a_time_limit_stops_with_an_honest_gap() -> None:
    rng = np.random.default_rng(4)
    W = ranges(rng, 60, 30)
    c, weights = random_caps(rng, W), np.ones(len(W))
    L, B = coordinates(W)
    started = time.monotonic()
    late = least_profile([CappedBlock(DenseRows(L, NUMPY), B)], c, Run(NINE, Watch.starting(1e-9)))
    assert time.monotonic() - started < 10
    assert not late.has_converged and late.steps == 0 and late.gap > NINE
    assert is_proved(late, W, c, late.gap * (1 + ROUNDING))
    roomy = Run(NINE, Watch.starting(1e-9))
    late_total = total_within_caps(
        [CappedBlock(DenseRows(L, NUMPY), B / math.sqrt(2 * late.achieved), L)], c, roomy
    )
    assert not late_total.has_converged
    if late_total.is_feasible:
        v, u = noise_of(
            dataclasses.replace(late_total, roots=[late_total.root * math.sqrt(2 * late.achieved)]), W
        )
        assert (v <= c * (1 + RECOMPUTED)).all() and u.max() <= 2 * late.achieved * (1 + RECOMPUTED)
        assert weights @ v == pytest.approx(late_total.achieved, rel=RECOMPUTED)


@pytest.mark.parametrize("objective", [MaxVariance(), Targets()], ids=["largest", "targets"])
def test_plans_that_ran_out_of_time_say_so(objective: Any) -> None:
    rng = np.random.default_rng(5)
    W = rng.integers(-1, 2, (30, 12))
    workload = Workload.from_matrix(W, stderr=rng.uniform(1, 3, 30))
    plan = design(workload, GDP(1), objective=objective, time_limit=1e-9)
    assert plan.certificate.status == "stopped" and plan.certificate.gap > SOLVER
    assert plan.ended == "deadline"
    best = design(workload, GDP(1), objective=objective).certificate
    assert best.status == "optimal"
    assert plan.certificate.lower_bound <= best.achieved <= plan.certificate.achieved * (1 + SOLVER)


@pytest.mark.thorough
def test_torch_agrees_with_numpy() -> None:
    extra("torch")
    rng = np.random.default_rng(6)
    W = rng.normal(size=(9, 6))
    c = random_caps(rng, W)
    L, B = coordinates(W)
    torch = load_backend("torch")
    here = least(W, c, 1e-8)
    there = least_profile([CappedBlock(DenseRows(L, torch), B)], c, Run(1e-8, backend="torch"))
    assert there.has_converged and is_proved(there, W, c, 1e-8)
    assert there.achieved == pytest.approx(here.achieved, rel=2e-8)
    profile = 1.2 * here.achieved
    other = total_within_caps(
        [CappedBlock(DenseRows(L, torch), B / math.sqrt(profile), L)], c, Run(1e-8, backend="torch")
    )
    assert is_proved_total(other, W, c, np.ones(9), profile, 1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_constraints_are_tightened_by_small_moves(seed: int) -> None:
    """Lengths that were moved off 1 by a little, in any way, are 1 again, but for rounding."""
    rng = np.random.default_rng(seed)
    # One block or two, of which every constraint has a length in both.
    sizes = [6] if seed % 2 else [6, 4]
    roots = [np.eye(k) + 0.1 * rng.normal(size=(k, k)) for k in sizes]
    queries, columns = [rng.normal(size=(k, 5)) for k in sizes], [rng.normal(size=(k, 4)) for k in sizes]
    of_queries = np.sqrt(sum(((R @ own) ** 2).sum(axis=0) for R, own in zip(roots, queries, strict=True)))
    of_columns = np.sqrt(sum((own**2).sum(axis=0) for own in columns))
    queries, columns = [own / of_queries for own in queries], [own / of_columns for own in columns]
    B = [R.T @ own for R, own in zip(roots, columns, strict=True)]
    noise = [1e-6 * rng.normal(size=(k, k)) for k in sizes]
    start = [(np.eye(len(R)) + own + own.T) @ R for R, own in zip(roots, noise, strict=True)]
    before = [np.linalg.solve(R.T, own) for R, own in zip(start, B, strict=True)]
    moved = tightened(start, queries, before, np.ones(9), 1.0)
    assert moved is not None
    v = sum(((R @ own) ** 2).sum(axis=0) for R, own in zip(moved, queries, strict=True))
    u = sum((np.linalg.solve(R.T, own) ** 2).sum(axis=0) for R, own in zip(moved, B, strict=True))
    was = sum((own**2).sum(axis=0) for own in before)
    assert np.abs(np.concatenate([v, u]) - 1).max() <= ROUNDING < np.abs(was - 1).max()


def test_an_impossible_tolerance_ends_all_the_same() -> None:
    rng = np.random.default_rng(7)
    W = rng.normal(size=(6, 5))
    solution = least(W, np.ones(6), 1e-300)
    assert not solution.has_converged or solution.gap <= 1e-300
    assert abs(solution.gap) < 1e-8


# What each cell may spend --------------------------------------------------------------------


def judged_with_shares(W: Array, tau: Array, caps: Array | None) -> float:
    """The least Σv, or the least α with v ≤ c, where cell i may spend τ_i (times α), by CVXPY."""
    cvxpy = extra("cvxpy")
    n = W.shape[1]
    Sigma, alpha = cvxpy.Variable((n, n), symmetric=True), cvxpy.Variable()
    unit = np.eye(n)
    constraints = []
    for i in range(n):
        spent = tau[i] if caps is None else alpha * tau[i]
        corner = cvxpy.reshape(spent, (1, 1), order="F")
        column = unit[:, i : i + 1]
        constraints.append(cvxpy.bmat([[Sigma, column], [column.T, corner]]) >> 0)
    v = cvxpy.sum(cvxpy.multiply(W @ Sigma, W), axis=1)
    if caps is not None:
        constraints.append(v <= caps)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(v) if caps is None else alpha), constraints)
    problem.solve(solver="CLARABEL")
    return float(problem.value)


@pytest.mark.parametrize("seed", range(3))
def test_cells_with_shares_of_their_own_are_scaled_columns(seed: int) -> None:
    """u_i ≤ τ_i is u_i ≤ 1 for the column b_i/√τ_i; forgetting the shares gives another value."""
    rng = np.random.default_rng(seed)
    W, tau, caps = rng.normal(size=(7, 5)), rng.uniform(0.3, 3, 5), rng.uniform(0.5, 4, 7)
    R = np.linalg.qr(W, mode="r")
    total = least_total(R / np.sqrt(tau), tol=1e-9)
    assert total.achieved == pytest.approx(judged_with_shares(W, tau, None), rel=JUDGE)
    assert total.achieved != pytest.approx(least_total(R, tol=1e-9).achieved, rel=JUDGE)
    rows = DenseRows(W, load_backend("numpy"))
    least = least_profile([CappedBlock(rows, np.eye(5) / np.sqrt(tau))], caps, Run(1e-9))
    assert least.achieved == pytest.approx(judged_with_shares(W, tau, caps), rel=JUDGE)
