"""Splits of a budget over blocks: optima against judges, proofs from both sides, edges, refusals."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

from leastnoise.core.errors import InputError
from leastnoise.core.progress import Progress
from leastnoise.query import Lattice
from leastnoise.solver import Optimum, least_largest, split, split_path, total_within
from leastnoise.solver.split import least_total
from support import extra, refuses
from tolerances import JUDGE, ROUNDING, SOLVER

NINE = 1e-9


def marginals(sizes: Any, order: int) -> tuple[Lattice, Any]:
    """Every marginal of at most so many attributes: the variance of one of its cells, by residual block.

    The residual of an attribute with n values has P = (nI − 11ᵀ)/(n − 1), whose pseudo-inverse has the
    diagonal ((n − 1)/n)²; what a block leaves out is an average, of square 1/n².
    """
    n = np.asarray(sizes, dtype=float)
    sets = [s for size in range(order + 1) for s in itertools.combinations(range(len(n)), size)]
    lattice = Lattice(sets, len(n))
    inside = [((n[axes] - 1) / n[axes]) ** 2 for _, axes in lattice.groups]
    outside = [1 / n[axes] ** 2 for _, axes in lattice.groups]
    return lattice, lattice.matrix(inside, outside)


def problem(seed: int, m: int = 12, n: int = 7, spread: float = 1.0) -> tuple[Any, Any, Any]:
    """A, w and caps at random, a few entries missing."""
    rng = np.random.default_rng(seed)
    A = rng.random((m, n)) * (rng.random((m, n)) < 0.6)
    A[np.arange(m), rng.integers(0, n, m)] += 0.5
    return A, rng.random(m), 10 ** rng.uniform(-spread, spread, m)


def variances(A: Any, x: Any) -> Any:
    """Σ_s A_js / x_s, where a block of no precision is infinitely noisy."""
    A = sparse.csr_array(A)
    with np.errstate(divide="ignore"):
        return A @ (1 / np.asarray(x))


def is_proved(solution: Optimum, A: Any, w: Any, caps: Any, tol: float) -> bool:
    """Whether x keeps budget and caps and gives `achieved`, and p gives `lower_bound`, within tol of it.

    With w None, for the least largest v / c.
    """
    x, p = solution.x, solution.p
    A = sparse.csr_array(A)
    capped = np.isfinite(caps)
    if (x < 0).any() or x.sum() > 1 + ROUNDING or (p < 0).any() or p[~capped].any():
        return False
    used = variances(A[np.flatnonzero(capped)], x)
    spent = float(p[capped] @ caps[capped])
    if w is None:
        achieved = float((used / caps[capped]).max())
        bound = float(np.sqrt(A.T @ p).sum()) ** 2 / spent
    else:
        if (used > caps[capped] * (1 + ROUNDING)).any():
            return False
        counted = np.flatnonzero(w)
        achieved = float(w[counted] @ variances(A[counted], x))
        bound = float(np.sqrt(A.T @ (w + p)).sum()) ** 2 - spent
        # What rounding leaves of the difference of two numbers as large as `spent`.
        tol = tol + ROUNDING * spent / achieved
    return bool(
        math.isclose(achieved, solution.achieved, rel_tol=ROUNDING)
        and bound >= solution.lower_bound * (1 - ROUNDING)
        and achieved <= bound * (1 + tol)
    )


# The three problems against judges.


def test_least_total_is_the_closed_form_and_a_minimum() -> None:
    A, w, _ = problem(0)
    solution = least_total(A, w)
    assert len(solution.p) == 0 and solution.has_converged and solution.is_feasible
    assert solution.achieved == pytest.approx(w @ variances(A, solution.x), rel=ROUNDING)
    assert solution.x.sum() == pytest.approx(1, rel=ROUNDING)

    def total(logs: Any) -> float:
        x = np.exp(logs)
        return float(w @ (A @ (1 / x)) * x.sum())

    found = optimize.minimize(total, np.zeros(A.shape[1]), method="BFGS")
    assert solution.achieved == pytest.approx(found.fun, rel=SOLVER)
    assert solution.gap <= ROUNDING


def test_least_total_leaves_out_blocks_that_nothing_weighted_needs() -> None:
    A = np.array([[1.0, 2, 0], [0, 1, 0], [0, 0, 5]])
    solution = least_total(A, np.array([1.0, 1, 0]))
    assert solution.x[2] == 0 and (solution.x[:2] > 0).all()
    assert solution.lower_bound == pytest.approx((1 + math.sqrt(3)) ** 2, rel=ROUNDING)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [(12, 7), (5, 15), (40, 4)])
def test_least_largest_against_a_judge(seed: int, shape: tuple[int, int]) -> None:
    cp = extra("cvxpy")
    A, _, caps = problem(seed, *shape)
    solution = least_largest(A, caps)
    assert solution.has_converged and is_proved(solution, A, None, caps, NINE)
    needed = A.any(axis=0)
    y = cp.Variable(int(needed.sum()))
    judge = cp.Problem(cp.Minimize(cp.sum(cp.inv_pos(y))), [(A / caps[:, None])[:, needed] @ y <= 1])
    assert solution.achieved == pytest.approx(judge.solve(solver="CLARABEL"), rel=JUDGE)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("factor", [1.001, 1.2, 3.0])
def test_total_within_against_a_judge(seed: int, factor: float) -> None:
    cp = extra("cvxpy")
    A, w, caps = problem(seed)
    w[::3] = 0
    caps[1::4] = math.inf
    caps = caps * least_largest(A, caps).achieved * factor
    solution = total_within(A, w, caps)
    assert solution.is_feasible and solution.has_converged and is_proved(solution, A, w, caps, NINE)
    needed = A[(w > 0) | np.isfinite(caps)].any(axis=0)
    capped = np.isfinite(caps)
    y = cp.Variable(int(needed.sum()))
    kept = [(A / caps[:, None])[capped][:, needed] @ y <= 1, cp.sum(cp.inv_pos(y)) <= 1]
    judge = cp.Problem(cp.Minimize((A.T @ w)[needed] @ y), kept)
    assert solution.achieved == pytest.approx(judge.solve(solver="CLARABEL"), rel=JUDGE)


def test_least_largest_against_a_plain_search() -> None:
    """Without any extra: the largest ratio over softmax coordinates, smoothed less and less."""
    A, _, caps = problem(3, 6, 4)
    B = A / caps[:, None]

    def smoothed(logs: Any, power: float) -> float:
        x = np.exp(logs - logs.max())
        ratios = B @ (1 / x) * x.sum()
        top = float(ratios.max())
        return math.log(top) + math.log(float(((ratios / top) ** power).sum())) / power

    logs = np.zeros(4)
    for power in (10.0, 100.0, 1e3, 1e4, 1e5):
        logs = optimize.minimize(smoothed, logs, args=(power,), method="Nelder-Mead", tol=1e-10).x
    x = np.exp(logs - logs.max())
    found = float((B @ (1 / x)).max() * x.sum())
    solution = least_largest(A, caps)
    assert solution.lower_bound <= found * (1 + ROUNDING)
    assert solution.achieved == pytest.approx(found, rel=JUDGE)


# Proofs.


@given(st.integers(0, 10**6), st.floats(-6, 6), st.floats(0, 4))
def test_any_weights_bound_any_split(seed: int, size: float, spread: float) -> None:
    A, w, caps = problem(seed, 6, 4, spread)
    rng = np.random.default_rng(seed)
    p = 10 ** rng.uniform(-spread, spread, 6) * (rng.random(6) < 0.7)
    p[0] += 1
    x = rng.dirichlet(np.ones(4)) + 1e-12
    kind = split_path.LeastCost(split_path.CapRatios(sparse.csr_array(A), caps))
    ratios = variances(A, x / x.sum()) / caps
    needed = A.any(axis=0)
    if not needed.all():
        return
    assert kind.evaluate(p + 1e-9).lower_bound <= ratios.max() * (1 + ROUNDING)
    # Caps that this split keeps.
    kept = caps * ratios.max()
    within = split_path.TotalWithin(split_path.CapRatios(sparse.csr_array(A), kept), A.T @ w, x.sum() / x)
    bound = within.evaluate(10**size * (p + 1e-9)).lower_bound
    assert bound <= float(w @ variances(A, x / x.sum())) * (1 + ROUNDING)


@pytest.mark.thorough
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 4.0, 8.0]), st.integers(1, 20), st.integers(1, 20))
def test_every_solution_is_proved(seed: int, spread: float, m: int, n: int) -> None:
    A, w, caps = problem(seed, m, n, spread)
    solution = least_largest(A, caps)
    assert solution.has_converged and is_proved(solution, A, None, caps, NINE)
    kept = caps * solution.achieved * 1.1
    total = total_within(A, w, kept)
    assert total.is_feasible and total.has_converged and is_proved(total, A, w, kept, NINE)
    broken = total_within(A, w, caps * solution.lower_bound / 1.1)
    if not broken.is_feasible:
        assert broken.has_converged and broken.lower_bound > 1
        assert is_proved(broken, A, None, caps * solution.lower_bound / 1.1, NINE)


def test_solutions_that_claim_too_much_are_not_proved() -> None:
    A, w, caps = problem(1)
    largest = least_largest(A, caps)
    kept = caps * largest.achieved * 1.05
    total = total_within(A, w, kept)
    assert total.p.any()
    cases: list[tuple[Optimum, Any, Any, Any]] = [
        (largest, largest.p, None, caps),
        (total, total.p, w, kept),
    ]
    for found, p, weights, limits in cases:
        for twin in (
            replace(found, roots=[found.root * 1.001]),
            replace(found, roots=[np.roll(found.root, 1)]),
            replace(found, p=np.roll(p, 1)),
            replace(found, p=-p),
            replace(found, achieved=found.achieved * 0.999),
            replace(found, lower_bound=found.lower_bound * 1.001),
        ):
            assert not is_proved(twin, A, weights, limits, NINE)
    assert not is_proved(replace(total, p=2 * total.p), A, w, kept, NINE)


def test_without_the_mixture_caps_would_not_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unmixed(split_path.TotalWithin):
        def kept(self, y: Any, ratios: Any) -> tuple[Any, float]:
            return 1 / y, float(self.a @ y)

    A, w, caps = problem(2)
    caps = caps * least_largest(A, caps).achieved * 1.05
    early = total_within(A, w, caps, tol=0.05)
    assert is_proved(early, A, w, caps, 0.05)
    monkeypatch.setattr(split, "TotalWithin", Unmixed)
    assert not is_proved(total_within(A, w, caps, tol=0.05), A, w, caps, 0.05)


def test_a_search_cut_short_says_so_and_keeps_what_it_has() -> None:
    A, w, caps = problem(4, 30, 10, 2.0)
    late = least_largest(A, caps, time_limit=0)
    assert not late.has_converged and late.gap > NINE
    assert is_proved(late, A, None, caps, late.gap + ROUNDING)
    undecided = total_within(A, w, caps * late.lower_bound * 1.01, time_limit=0)
    assert not undecided.has_converged and not undecided.is_feasible
    wide = caps * late.achieved * 1.01
    assert is_proved(total_within(A, w, wide, time_limit=0), A, w, wide, 10.0)


# Caps that can and cannot be kept.


@pytest.mark.parametrize("short", [1e-12, 1e-6, 0.3, 0.999])
def test_caps_that_no_split_keeps_come_with_the_proof(short: float) -> None:
    A, w, caps = problem(5)
    least = least_largest(A, caps, tol=1e-13)
    asked = caps * least.lower_bound * (1 - short)
    solution = total_within(A, w, asked)
    assert not solution.is_feasible and solution.has_converged
    assert solution.lower_bound > 1 and is_proved(solution, A, None, asked, NINE)
    assert solution.achieved == pytest.approx(1 / (1 - short), rel=NINE)


def test_caps_that_one_split_alone_keeps() -> None:
    """1/x ≤ 2 twice: half of the budget each, whatever the weights; w + p equal on both prove it."""
    A, w, caps = np.eye(2), np.array([1.0, 3.0]), np.array([2.0, 2.0])
    solution = total_within(A, w, caps, tol=SOLVER)
    assert solution.is_feasible and solution.has_converged and is_proved(solution, A, w, caps, SOLVER)
    assert solution.x == pytest.approx([0.5, 0.5], rel=SOLVER)
    assert solution.achieved == pytest.approx(8, rel=SOLVER)
    # Weights this large leave fewer digits of the bound, and the solution owns up to it.
    strict = total_within(A, w, caps, tol=1e-15)
    assert strict.is_feasible and not strict.has_converged and strict.lower_bound <= 8


def exact_bound(solution: Optimum, A: Any, w: Any, caps: Any) -> Decimal:
    """(Σ_s √(Aᵀ(w + p))_s)² − Σ p c with forty digits."""
    with localcontext() as context:
        context.prec = 40
        p = [Decimal(float(value)) for value in solution.p]
        weights = [Decimal(float(value)) + more for value, more in zip(w, p, strict=True)]
        F = Decimal(0)
        for column in A.T:
            F += sum((Decimal(float(a)) * b for a, b in zip(column, weights, strict=True)), Decimal(0)).sqrt()
        spent = sum((Decimal(float(c)) * b for c, b in zip(caps, p, strict=True)), Decimal(0))
        return F * F - spent


def test_rounding_never_makes_a_bound_too_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where caps can only just be kept the bound is a small difference of large numbers."""

    def is_honest(seed: int) -> bool:
        A, w, caps = problem(seed, 30, 12)
        asked = caps * least_largest(A, caps, tol=1e-13).achieved * (1 + 1e-13)
        solution = total_within(A, w, asked)
        if not solution.is_feasible:
            return solution.lower_bound <= 1
        return Decimal(solution.lower_bound) <= exact_bound(solution, A, w, asked)

    assert all(is_honest(seed) for seed in range(8))
    monkeypatch.setattr(split_path.CapRatios, "rounding", lambda self, root: 0.0)
    assert not all(is_honest(seed) for seed in range(8))


@pytest.mark.parametrize("seed", range(4))
def test_caps_at_their_least_factor_are_kept_or_left_open(seed: int) -> None:
    A, w, caps = problem(seed, 30, 12)
    least = least_largest(A, caps, tol=1e-13)
    asked = caps * least.achieved
    solution = total_within(A, w, asked, tol=SOLVER)
    if solution.is_feasible:
        assert solution.has_converged and is_proved(solution, A, w, asked, SOLVER)
    else:
        assert not solution.has_converged and solution.lower_bound <= 1 < solution.achieved


def test_nothing_left_for_what_has_no_cap() -> None:
    A = np.array([[1.0, 0], [0, 1]])
    spent = total_within(A, np.ones(2), np.array([1.0, math.inf]))
    assert not spent.is_feasible and not spent.has_converged
    left = total_within(A, np.ones(2), np.array([1.25, math.inf]))
    assert left.has_converged and left.achieved == pytest.approx(1.25 + 5, rel=NINE)


def test_caps_that_do_not_matter_change_nothing() -> None:
    A, w, _ = problem(6)
    free = least_total(A, w)
    for caps in (np.full(len(w), math.inf), variances(A, free.x) * 1.001):
        solution = total_within(A, w, caps)
        assert solution.steps == 0 and is_proved(solution, A, w, caps, NINE)
        assert solution.achieved == pytest.approx(free.achieved, rel=ROUNDING)


# Edges.


def test_equal_rows_count_once() -> None:
    A, w, caps = problem(7)
    once = least_largest(A, caps)
    twice = least_largest(np.vstack([A, A, A]), np.concatenate([caps, caps, caps * 2]))
    assert twice.has_converged and twice.achieved == pytest.approx(once.achieved, rel=2 * NINE)
    kept = caps * once.achieved * 1.05
    alone = total_within(A, w, kept)
    thrice = total_within(np.vstack([A] * 3), np.concatenate([w] * 3), np.concatenate([kept] * 3))
    assert thrice.achieved == pytest.approx(3 * alone.achieved, rel=2 * NINE)


def test_rows_of_a_single_block() -> None:
    """v_s = A_s/x_s ≤ c_s: the precisions needed are A_s/c_s, and their sum is the least largest ratio."""
    entries, caps = np.array([1.0, 2, 3]), np.array([4.0, 1, 10])
    solution = least_largest(np.diag(entries), caps)
    needed = entries / caps
    assert solution.achieved == pytest.approx(needed.sum(), rel=NINE)
    assert solution.x == pytest.approx(needed / needed.sum(), rel=SOLVER)
    alone = least_largest([[5.0]], np.array([2.0]))
    assert alone.achieved == pytest.approx(2.5, rel=NINE) and alone.x == pytest.approx([1.0])


@pytest.mark.parametrize("seed", range(4))
def test_caps_over_sixteen_orders_of_magnitude(seed: int) -> None:
    A, w, _ = problem(seed, 40, 15)
    caps = 10 ** np.random.default_rng(seed).permutation(np.linspace(-8, 8, 40))
    solution = least_largest(A, caps)
    assert solution.has_converged and is_proved(solution, A, None, caps, NINE)
    kept = caps * solution.achieved * 1.5
    total = total_within(A, w, kept)
    assert total.has_converged and is_proved(total, A, w, kept, NINE)


def test_rows_without_a_cap_do_not_count() -> None:
    A = np.array([[1.0, 1, 0], [0, 1, 0], [0, 0, 7]])
    solution = least_largest(A, np.array([1.0, 1, math.inf]))
    assert solution.x[2] == 0 and solution.p[2] == 0
    assert solution.achieved == pytest.approx(4, rel=NINE)


def test_the_same_from_any_start_and_in_any_format() -> None:
    A, _, caps = problem(8)
    plain = least_largest(A, caps)
    repeated = sparse.coo_array(
        (np.concatenate([A[A > 0] / 2] * 2 + [np.zeros(1)]), _twice(np.nonzero(A))), shape=A.shape
    )
    starts: list[Any] = [None, plain.p, np.eye(len(caps))[3]]
    for start, matrix in zip(starts, (sparse.csc_array(A), repeated, A), strict=True):
        again = least_largest(matrix, caps, start=start)
        assert again.has_converged and again.achieved == pytest.approx(plain.achieved, rel=2 * NINE)


def _twice(places: Any) -> tuple[Any, Any]:
    """Every place two times, and the first once more."""
    rows, columns = places
    return np.concatenate([rows, rows, rows[:1]]), np.concatenate([columns, columns, columns[:1]])


def test_progress_counts_up_and_ends_at_the_gap() -> None:
    A, w, caps = problem(9)
    told: list[Progress] = []
    solution = total_within(A, w, caps * least_largest(A, caps).achieved * 1.05, progress=told.append)
    assert [step.step for step in told] == sorted(step.step for step in told)
    assert told[-1].step == solution.steps and told[-1].gap == pytest.approx(solution.gap)


# Marginals.


def test_variances_of_marginals_are_those_of_their_residuals() -> None:
    """Second route: the blocks written out on all cells, and least squares."""
    sizes = (3, 4)
    lattice, A = marginals(sizes, 2)
    x = np.random.default_rng(0).dirichlet(np.ones(lattice.n_subsets))
    blocks = []
    for s, precision in zip(lattice.subsets, x, strict=True):
        factors = []
        for a, n in enumerate(sizes):
            P = (n * np.eye(n) - 1) / (n - 1)
            root = P / math.sqrt(n / (n - 1))  # P² = n/(n − 1) P
            factors.append(root if a in s else np.ones((1, n)))
        blocks.append(math.sqrt(precision) * np.kron(*factors))
    strategy = np.vstack(blocks)
    assert (strategy**2).sum(axis=0) == pytest.approx(np.ones(12), rel=ROUNDING)
    covariance = np.linalg.pinv(strategy.T @ strategy)
    for j, s in enumerate(lattice.sets):
        rows = np.kron(*[np.eye(n) if a in s else np.ones((1, n)) for a, n in enumerate(sizes)])
        assert np.diag(rows @ covariance @ rows.T) == pytest.approx(variances(A, x)[j], rel=ROUNDING)


def test_equal_attributes_get_equal_precision() -> None:
    lattice, A = marginals([5] * 12, 3)
    solution = least_largest(A, np.ones(A.shape[0]))
    assert solution.has_converged
    lengths = np.array([len(s) for s in lattice.subsets])
    for size in range(4):
        same = solution.x[lengths == size]
        assert same == pytest.approx(same.mean(), rel=NINE)


@pytest.mark.parametrize("spread", [0.0, 3.0, 6.0])
def test_ten_thousand_marginals(spread: float) -> None:
    rng = np.random.default_rng(0)
    _, A = marginals(rng.integers(2, 21, 40), 3)
    m = A.shape[0]
    assert m == 10_701
    caps = 10 ** rng.uniform(-spread, spread, m)
    solution = least_largest(A, caps)
    assert is_proved(solution, A, None, caps, NINE) and solution.steps <= 40
    kept = np.where(rng.random(m) < 0.5, caps * solution.achieved * 1.1, math.inf)
    total = total_within(A, np.ones(m), kept)
    assert is_proved(total, A, np.ones(m), kept, NINE) and total.steps <= 60


# Linear algebra and rounds.


@pytest.mark.parametrize("shape", [(30, 10), (10, 30), (500, 8)])
@pytest.mark.parametrize("density", [0.03, 1.0])
def test_the_factored_matrix_is_the_matrix(shape: tuple[int, int], density: float) -> None:
    rng = np.random.default_rng(0)
    A = rng.random(shape) * (rng.random(shape) < density)
    A[:, 0] = 1
    caps, s, z = (rng.uniform(0.5, 2, shape[0]) for _ in range(3))
    h = rng.uniform(0.5, 2, shape[1])
    B = A / caps[:, None]
    matrix = np.diag(z) + (s[:, None] * B * h) @ (s[:, None] * B).T
    r = rng.standard_normal(shape[0])
    roughly = split_path.CapRatios(sparse.csr_array(A), caps).preconditioner(s, h, z)
    assert roughly(r) == pytest.approx(np.linalg.solve(matrix, r), rel=NINE, abs=ROUNDING)


def test_rows_that_are_nearly_combinations_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The diagonal alone needs more products than it is given; the factors then need few steps."""
    places = np.arange(150)
    A = np.exp(-(((places[:, None] - places) / 12.0) ** 2)) + 1e-12
    caps = np.ones(150)
    solution = least_largest(A, caps)
    assert is_proved(solution, A, None, caps, NINE) and solution.steps <= 20
    monkeypatch.setattr(split_path, "MAX_FACTORED", 0)
    assert least_largest(A, caps).steps > solution.steps


@pytest.mark.parametrize("seed", range(3))
def test_rounds_end_where_all_rows_at_once_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    A, w, caps = problem(seed, 5_000, 12)
    told: list[Progress] = []
    rounds = least_largest(A, caps, progress=told.append)
    assert rounds.has_converged and is_proved(rounds, A, None, caps, NINE)
    assert told[-1].step == rounds.steps and told[0].gap == math.inf
    kept = caps * rounds.achieved * 1.01
    within = total_within(A, w, kept)
    assert within.has_converged and is_proved(within, A, w, kept, NINE)
    short = total_within(A, w, kept / 1.02)
    assert not short.is_feasible and short.lower_bound > 1
    monkeypatch.setattr(split, "ALL_AT_ONCE", 10_000)
    assert least_largest(A, caps).achieved == pytest.approx(rounds.achieved, rel=2 * NINE)
    assert total_within(A, w, kept).achieved == pytest.approx(within.achieved, rel=2 * NINE)


def test_rounds_find_a_block_that_one_row_alone_holds() -> None:
    A = np.hstack([problem(0, 5_000, 6)[0], np.zeros((5_000, 1))])
    A[1_234, 6] = 1e-9
    caps = np.ones(5_000)
    solution = least_largest(A, caps)
    assert solution.x[6] > 0 and is_proved(solution, A, None, caps, NINE)


def test_rounds_that_look_at_their_own_rows_only_do_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    A, _, caps = problem(0, 5_000, 12)
    monkeypatch.setattr(split, "_first_rows", lambda kind, p: np.arange(0, 5_000, 100))
    assert is_proved(least_largest(A, caps), A, None, caps, NINE)
    monkeypatch.setattr(split, "_violated", lambda ratios, chosen, count: chosen[:0])
    blind = least_largest(A, caps)
    assert not blind.has_converged and is_proved(blind, A, None, caps, blind.gap + ROUNDING)


# Refusals.


@pytest.mark.parametrize(
    ("A", "caps", "words"),
    [
        ([[1.0, -1.0]], [1.0], "not negative"),
        ([[1.0, math.inf]], [1.0], "finite"),
        ([[1.0, 1.0], [0.0, 0.0]], [1.0, 1.0], "row 1 has no block"),
        ([[1.0, 1.0]], [0.0], "caps must be positive"),
        ([[1.0, 1.0]], [math.nan], "caps must be positive"),
        ([[1.0, 1.0]], [1.0, 1.0], "one number for each of 1 rows"),
        ([[1.0, 1.0]], [math.inf], "no cap is finite"),
    ],
)
def test_what_least_largest_refuses(A: Any, caps: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        least_largest(A, caps)


@pytest.mark.parametrize("w", [[0.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]])
def test_weights_that_are_refused(w: Any) -> None:
    with refuses(InputError, "weights", ..., "weights must be finite"):
        least_total(np.eye(2), w)
    with refuses(InputError, "weights", ..., "weights must be finite"):
        total_within(np.eye(2), w, np.ones(2))


@pytest.mark.parametrize("start", [[0.0, 0.0], [1.0, -1.0], [math.inf, 1.0]])
def test_starts_that_are_refused(start: Any) -> None:
    with refuses(InputError, "start", ..., "weights to start with"):
        least_largest(np.eye(2), np.ones(2), start=start)
