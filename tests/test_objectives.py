"""What accurate means: weights and caps, bounds that nothing beats, targets met or refused."""

from __future__ import annotations

import dataclasses
import math
import pickle
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.bounds import Witness, certify, proves_infeasible
from leastnoise.bounds.cell_bound import dual_bound
from leastnoise.bounds.certificate import targets_bound
from leastnoise.core import container
from leastnoise.core.errors import (
    DesignError,
    InfeasibleError,
    InputError,
    MethodError,
    PlanFileError,
    PrivacyError,
)
from leastnoise.planning import design, load_plan
from leastnoise.planning.refusals import infeasible, raised, rounded_up
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP, epsilon_of
from leastnoise.query import (
    OBJECTIVES,
    AbsoluteError,
    AllRanges,
    Integers,
    Marginal,
    MaxVariance,
    Objective,
    Prefix,
    Ranges,
    Schema,
    Targets,
    Total,
    TotalVariance,
    Workload,
    assemble,
    check_spanned,
    default_objective,
    objective_from_dict,
)
from leastnoise.report import compare
from leastnoise.strategy import Strategy
from support import extra, refuses
from test_certificate import bare
from tolerances import JUDGE, ROUNDING, SOLVER

WITHIN = TotalVariance(within_targets=True)
AGES = Schema(age=range(6), sex=("F", "M"))
ASKED = assemble([Prefix("age", stderr=3, weight=2), Marginal("age"), Total(within=(4, 0.95))], AGES)
# Methods whose rows do not depend on the objective.
SIMPLE = ("identity", "workload", "hierarchical", "wavelet")


def matrix(W: Any, **options: Any) -> Workload:
    return Workload.from_matrix(W, **options)


# Weights and caps -----------------------------------------------------------------------------


def test_every_objective_has_its_kind_weights_and_caps() -> None:
    targets = np.array([3.0] * 6 + [np.inf] * 6 + [4 / 1.959963984540054])
    weights = np.array([2.0] * 6 + [1.0] * 7)
    np.testing.assert_allclose(ASKED.targets, targets, rtol=ROUNDING)
    table: list[tuple[Objective, str, Any, Any]] = [
        (TotalVariance(), "total", weights, None),
        (MaxVariance(), "largest", weights, 1 / weights),
        (Targets(), "largest", targets**-2.0, targets**2),
        (WITHIN, "total-within-caps", weights, targets**2),
        (AbsoluteError(), "absolute", weights, None),
    ]
    for objective, kind, w, c in table:
        assert objective.kind == kind
        np.testing.assert_allclose(objective.weights(ASKED), w, rtol=ROUNDING)
        caps = objective.caps(ASKED)
        assert (caps is None) == (c is None)
        if caps is not None:
            np.testing.assert_allclose(caps, c, rtol=ROUNDING)


def test_values_are_totals_or_the_largest_share() -> None:
    v = np.linspace(1, 2, 13)
    assert TotalVariance().value(ASKED, v) == pytest.approx(2 * v[:6].sum() + v[6:].sum(), rel=ROUNDING)
    assert MaxVariance().value(ASKED, v) == pytest.approx(max(2 * v[5], v[12]), rel=ROUNDING)
    absolute = math.sqrt(2 / math.pi) * (2 * np.sqrt(v[:6]).sum() + np.sqrt(v[6:]).sum())
    assert AbsoluteError().value(ASKED, v) == pytest.approx(absolute, rel=ROUNDING)
    assert Targets().value(ASKED, v) == pytest.approx((v / ASKED.targets**2).max(), rel=ROUNDING)


def relative_by_hand(W: Any, weights: Any, prior: Any) -> Any:
    pi = np.asarray(prior, dtype=float) / np.sum(prior)
    sizes = [sum(a * a / pi[i] for i, a in enumerate(row)) for row in np.asarray(W, dtype=float)]
    return [w / size if size else 0.0 for w, size in zip(weights, sizes, strict=True)]


@pytest.mark.parametrize("prior", ["uniform", "rising"])
def test_relative_weights_divide_by_the_size_of_a_query(prior: str) -> None:
    rng = np.random.default_rng(1)
    cases = [
        assemble([Prefix("age", weight=3), Marginal("sex"), Total()], AGES),
        matrix(rng.normal(size=(7, 5)), weights=rng.uniform(0.1, 9, 7)),
        matrix([[1, 1, 0], [0, 0, 0], [0, 2, -1]], weights=[1, 5, 2]),
        matrix([[1, -1, 0], [0, 1, 1]]),
    ]
    for workload in cases:
        n = workload.shape[1]
        pi = np.ones(n) if prior == "uniform" else np.arange(1.0, n + 1)
        objective = TotalVariance(relative_to="uniform" if prior == "uniform" else pi)
        expected = relative_by_hand(workload.dense(), workload.weights, pi)
        np.testing.assert_allclose(objective.weights(workload), expected, rtol=ROUNDING)
        assert objective.weights(workload) is objective.weights(workload), "computed once"
        scaled = TotalVariance(relative_to=pi * 1e80)
        np.testing.assert_allclose(scaled.weights(workload), expected, rtol=ROUNDING)
    wrong = relative_by_hand(cases[1].dense(), cases[1].weights, np.ones(5) * [1, 2, 1, 1, 1])
    assert not np.allclose(TotalVariance(relative_to="uniform").weights(cases[1]), wrong)


@pytest.mark.thorough
def test_relative_weights_of_large_workloads_need_little_memory() -> None:
    workload = assemble([AllRanges("a")], Schema(a=range(400)))
    m, n = workload.shape
    tracemalloc.start()
    w = TotalVariance(relative_to=np.arange(1, n + 1)).weights(workload)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < m * n * 8 / 2 and w.shape == (m,)
    j = 1234
    row = workload.operator.rows([j])
    assert w[j] == pytest.approx(relative_by_hand(row, [1.0], np.arange(1, n + 1))[0], rel=ROUNDING)


@pytest.mark.parametrize(
    ("prior", "refusal"),
    [
        ("even", ("relative_to", "even")),
        (3, ("relative_to", ())),
        ([], ("relative_to", (0,))),
        ([[1, 2]], ("relative_to", (1, 2))),
        ([1, 0], ("relative_to", (0.0, 1.0))),
        ([1, -1], ("relative_to", (-1.0, 1.0))),
        ([1, math.nan], ("relative_to",)),
        ([1, math.inf], ("relative_to",)),
        ([1, 1e-120], ("relative_to", (1e-120, 1.0))),
        ({"a": 1}, ("relative_to", dict)),
        (["a", "b"], ("relative_to", list)),
    ],
    ids=repr,
)
def test_priors_that_mean_nothing_are_refused(prior: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(InputError, *refusal):
        TotalVariance(relative_to=prior)


def test_what_does_not_fit_the_workload_is_refused_at_once() -> None:
    for objective, refusal in (
        (TotalVariance(relative_to=[1, 2]), ("relative_to", 2)),
        ("total-variance", ("objective", "total-variance")),
        (TotalVariance, ("objective", TotalVariance)),
    ):
        with refuses(InputError, *refusal):
            design(ASKED, GDP(1), objective=objective)  # type: ignore[arg-type]
    zero = matrix(np.zeros((2, 3)))
    with refuses(InputError, "relative_to", None, "relative_to leaves no query with a weight"):
        design(zero, GDP(1), objective=TotalVariance(relative_to="uniform"))
    with refuses(InputError, "within_targets", 1):
        TotalVariance(within_targets=1)  # type: ignore[arg-type]
    with refuses(InputError, "weight", 1e-310):
        MaxVariance().caps(matrix(np.eye(2), weights=1e-310))


def test_objectives_compare_print_and_travel() -> None:
    every = [*OBJECTIVES.values(), TotalVariance(relative_to="uniform"), TotalVariance(True, [1, 3])]
    assert len(set(every)) == len(every) == 7
    for one in every:
        assert objective_from_dict(one.to_dict()) == one
        assert [other for other in every if other == one] == [one]
        assert pickle.loads(pickle.dumps(one)) == one
    assert TotalVariance(relative_to=[1, 3]) == TotalVariance(relative_to=np.array([2.0, 6.0]))
    assert [str(one) for one in every] == [
        "total variance",
        "largest variance",
        "targets",
        "total variance within targets",
        "absolute error",
        "total variance, relative to uniform counts",
        "total variance within targets, relative to a prior",
    ]
    assert [repr(one) for one in every] == [
        "TotalVariance()",
        "MaxVariance()",
        "Targets()",
        "TotalVariance(within_targets=True)",
        "AbsoluteError()",
        "TotalVariance(relative_to='uniform')",
        "TotalVariance(within_targets=True, relative_to=<a prior over 2 cells>)",
    ]
    for plain, refusal in (
        ({"objective": "least"}, ("objective", "least")),
        ({"objective": 3}, ("objective", 3)),
        ({"objective": "targets", "relative_to": "uniform"}, ("relative_to", "targets")),
    ):
        with refuses(InputError, *refusal):
            objective_from_dict(plain)


def test_the_default_follows_targets_and_goal() -> None:
    plain = assemble([Prefix("age")], AGES)
    assert default_objective(plain, None, has_goal=True) == TotalVariance()
    assert default_objective(plain, None, has_goal=False) == TotalVariance()
    assert default_objective(ASKED, None, has_goal=True) == WITHIN
    assert default_objective(ASKED, None, has_goal=False) == Targets()
    assert default_objective(ASKED, MaxVariance(), has_goal=True) == MaxVariance()
    needy: tuple[Objective, ...] = (Targets(), WITHIN)
    for objective in needy:
        with refuses(InputError, "objective", ..., "needs queries with a target, as in Total"):
            design(plain, GDP(1), objective=objective)
    with refuses(
        InputError, "privacy", ..., "design() needs a privacy goal,", "or targets that say how much"
    ):
        design(plain)
    for objective in (TotalVariance(), MaxVariance(), WITHIN):
        with refuses(InputError, "privacy", ..., "and no other objective"):
            design(ASKED, objective=objective)
    for extreme in (1e-101, 1e101):
        with refuses(InputError, "stderr"):
            design(matrix([[1]], stderr=extreme))


def test_queries_that_count_for_nothing_must_follow_from_others() -> None:
    schema = Schema(a=range(3), b=range(2))
    for workload, objective, words in (
        (
            assemble([Marginal("a", stderr=2), Marginal("b", name="outside")], schema),
            Targets(),
            ("stderr", "outside"),
        ),
        (
            assemble([Marginal("a"), Marginal("b", name="outside", weight=0)], schema),
            MaxVariance(),
            ("stderr", "outside"),
        ),
        (
            assemble([Marginal("a", stderr=2), Marginal("b", name="outside", weight=0)], schema),
            WITHIN,
            ("stderr", "outside"),
        ),
        (matrix(np.eye(3), stderr=[1, np.inf, 1]), Targets(), ("stderr", "rows")),
    ):
        with refuses(DesignError, *words):
            check_spanned(workload, objective)
        with refuses(DesignError, *words):
            design(workload, None if objective == Targets() else GDP(1), objective=objective)
    for workload, objective in (
        (assemble([Marginal("a", "b", stderr=2), Marginal("b")], schema), Targets()),
        (assemble([Marginal("a", stderr=2), Total()], schema), Targets()),
        (assemble([Marginal("a", stderr=2), Marginal("b")], schema), WITHIN),
        (assemble([Marginal("a"), Total(weight=0)], schema), MaxVariance()),
        (matrix([[1, 0, 0], [0, 1, 0], [3, -2, 0], [0, 0, 0]], stderr=[1, 2, np.inf, np.inf]), Targets()),
    ):
        check_spanned(workload, objective)


def test_weighted_gram_matrices_of_any_weights() -> None:
    rng = np.random.default_rng(9)
    schema = Schema(age=Integers(range(5), outside="other", other="old"), sex=("F", "M"))
    alone = Schema(age=Integers(range(5), outside="other", other="old"))
    for workload in (
        assemble([AllRanges("age")], alone),
        assemble([Ranges("age", [(0, 2), (1, 4), (3, 3)]), Prefix("age"), Total()], alone),
        assemble([AllRanges("age") * Marginal("sex"), Marginal("age")], schema),
        assemble([AllRanges("age")], Schema(age=range(7))),
        matrix(rng.normal(size=(9, 4))),
    ):
        m = workload.shape[0]
        W = workload.dense()
        for w in (rng.exponential(size=m) * rng.integers(0, 2, m), np.ones(m), np.zeros(m)):
            expected = W.T @ (W * w[:, None])
            np.testing.assert_allclose(workload.weighted_gram(w), expected, rtol=1e-9, atol=1e-9)
        w = np.arange(1.0, m + 1)
        assert not np.allclose(workload.weighted_gram(w), workload.weighted_gram(w[::-1].copy()))


# Weak duality ---------------------------------------------------------------------------------


@dataclasses.dataclass
class Problem:
    """Noise of profile at most 1 that answers W with variances v, and dual weights of no meaning."""

    W: Any
    w: Any
    v: Any
    c: Any
    p: Any
    q: Any


def problems(count: int, seed: int, *, pairs: bool = False) -> list[Problem]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        m, n = rng.integers(1, 6, 2)
        W = rng.integers(-2, 3, (m, n)) * (rng.random((m, n)) < rng.choice([0.5, 1.0]))
        rows = np.vstack([np.eye(n), rng.normal(size=(rng.integers(0, 4), n))])
        rows = rows * rng.exponential(size=(len(rows), 1)) + 1e-3 * np.eye(len(rows), n)
        D = np.hstack([np.eye(n), differences(n)]) if pairs else np.eye(n)
        rows /= np.sqrt(((rows @ D) ** 2).sum(axis=0).max())
        v = ((W @ np.linalg.pinv(rows)) ** 2).sum(axis=1)
        c = np.maximum(v, 1e-6) * (1 + rng.exponential(size=m) * (rng.random(m) < 0.6))
        p = rng.exponential(size=m) * (rng.random(m) < 0.8) * 10.0 ** rng.uniform(-2, 2)
        q = rng.exponential(size=D.shape[1]) * (rng.random(D.shape[1]) < 0.8)
        found.append(Problem(W, rng.exponential(size=m) + 1e-3, v, c, p, q))
    return found


def differences(n: int) -> Any:
    i, j = np.triu_indices(n, 1)
    columns = np.zeros((n, len(i)))
    columns[i, np.arange(len(i))] = 1
    columns[j, np.arange(len(i))] = -1
    return columns


def workload_of(problem: Problem) -> Workload:
    return matrix(problem.W, weights=problem.w, stderr=np.sqrt(problem.c))


Bound = Callable[[Problem, Objective], float]


def ours(problem: Problem, objective: Objective) -> float:
    return dual_bound(workload_of(problem), objective, Witness(problem.p, problem.q), unit_variance=1.0)[0]


def reached(problem: Problem, objective: Objective) -> float:
    if objective.kind == "largest":
        return float((problem.v / problem.c).max())
    return float(problem.w @ problem.v)


def beaten(bound: Bound, objective: Objective, given: list[Problem]) -> int:
    """How often noise that exists does better than what the bound says nothing can."""
    return sum(
        reached(problem, objective) < bound(problem, objective) * (1 - ROUNDING) - ROUNDING
        for problem in given
    )


def nuclear(W: Any, p: Any, q: Any) -> float:
    N = np.sqrt(p)[:, None] * W * np.sqrt(q)
    return float(np.linalg.svd(N, compute_uv=False).sum())


@pytest.mark.thorough
@pytest.mark.parametrize("objective", [TotalVariance(), Targets(), WITHIN], ids=str)
def test_no_weights_prove_more_than_is_true(objective: Objective) -> None:
    assert beaten(ours, objective, problems(2000, 11)) == 0


def test_bounds_that_forget_something_are_caught() -> None:
    given = problems(600, 12)

    def without_allowance(s: Problem, objective: Objective) -> float:
        weights = s.p if objective.kind == "largest" else s.w + s.p
        return nuclear(s.W, weights, s.q) ** 2 / max(s.q.sum(), 1e-300)

    def without_sum_of_q(s: Problem, objective: Objective) -> float:
        weights = {"total": s.w, "largest": s.p}.get(objective.kind, s.w + s.p)
        F = nuclear(s.W, weights, s.q) ** 2
        if objective.kind == "largest":
            return F / max(s.p @ s.c, 1e-300)
        return F - (s.p @ s.c if objective.kind == "total-within-caps" else 0)

    def frobenius(s: Problem, objective: Objective) -> float:
        weights = {"total": s.w, "largest": s.p}.get(objective.kind, s.w + s.p)
        F = min(s.W.shape) * float((weights[:, None] * s.W**2 * s.q).sum()) / max(s.q.sum(), 1e-300)
        if objective.kind == "largest":
            return F / max(s.p @ s.c, 1e-300)
        return F - (s.p @ s.c if objective.kind == "total-within-caps" else 0)

    for objective in (Targets(), WITHIN):
        assert beaten(without_allowance, objective, given) > 0
    for objective in (TotalVariance(), Targets(), WITHIN):
        assert beaten(without_sum_of_q, objective, given) > 0
        assert beaten(frobenius, objective, given) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("objective", [Targets(), WITHIN], ids=str)
def test_no_weights_of_pairs_prove_more_than_is_true(objective: Objective) -> None:
    given = problems(600, 13, pairs=True)

    def with_pairs(s: Problem, objective: Objective) -> float:
        n = s.W.shape[1]
        i, j = np.triu_indices(n, 1)
        pairs = np.vstack([np.column_stack([np.arange(n), np.full(n, n)]), np.column_stack([i, j])])
        witness = Witness(s.p, s.q, pairs)
        return dual_bound(workload_of(s), objective, witness, unit_variance=1.0)[0]

    def forgetting_the_caps(s: Problem, objective: Objective) -> float:
        D = np.hstack([np.eye(s.W.shape[1]), differences(s.W.shape[1])])
        weights = s.p if objective.kind == "largest" else s.w + s.p
        return nuclear(s.W @ D, weights, s.q) ** 2 / max(s.q.sum(), 1e-300)

    assert beaten(with_pairs, objective, given) == 0
    assert beaten(forgetting_the_caps, objective, given) > 0


def test_the_unit_of_the_weights_does_not_matter_where_it_should_not() -> None:
    for problem in problems(40, 14):
        base = ours(problem, Targets())
        for unit in (1e-150, 1e150):
            other = dataclasses.replace(problem, p=problem.p * unit, q=problem.q / unit)
            assert ours(other, Targets()) == pytest.approx(base, rel=ROUNDING)


# Judged by CVXPY ------------------------------------------------------------------------------


def judged(workload: Workload, objective: Objective, tau: float = 1.0) -> tuple[float, Any, Any]:
    """The optimum over all Gaussian noise of full rank, by Clarabel, and its dual weights (p, q).

    With X = Σ⁻¹ on the cells: v_j = w_j X⁻¹ w_jᵀ and u_i = X_ii.
    """
    cvxpy = extra("cvxpy")
    W = workload.dense()
    n = W.shape[1]
    X = cvxpy.Variable((n, n), symmetric=True)
    v = cvxpy.hstack([cvxpy.matrix_frac(row, X) for row in W])
    caps = objective.caps(workload)
    rows = np.flatnonzero(np.isfinite(caps)) if caps is not None else np.array([], dtype=int)
    if objective.kind == "largest":
        level = cvxpy.Variable()
        assert caps is not None
        constraints = [v[rows] <= caps[rows], cvxpy.diag(X) <= tau * level]
        problem = cvxpy.Problem(cvxpy.Minimize(level), constraints)
    else:
        constraints = [v[rows] <= caps[rows]] if caps is not None else []
        constraints.append(cvxpy.diag(X) <= tau)
        problem = cvxpy.Problem(cvxpy.Minimize(objective.weights(workload) @ v), constraints)
    optimum = float(problem.solve(solver="CLARABEL"))
    p = np.zeros(len(W))
    if caps is not None:
        p[rows] = np.maximum(constraints[0].dual_value, 0)
    return optimum, p, np.maximum(constraints[-1].dual_value, 0)


def square_workloads() -> list[Workload]:
    rng = np.random.default_rng(3)
    return [
        matrix(np.tril(np.ones((4, 4))), stderr=[1, 2, 3, 1.5]),
        matrix(np.vstack([np.eye(3), np.ones((1, 3))]), stderr=[1, 1, 2, np.inf]),
        matrix(np.vstack([np.eye(4), np.ones((1, 4))]), stderr=[1, 1, 2, 2, 1], weights=[1, 1, 1, 3, 0.5]),
        matrix(rng.integers(-1, 3, (6, 5)) + np.eye(6, 5), stderr=rng.uniform(0.5, 3, 6)),
        matrix(np.eye(2), stderr=[1, 2]),
    ]


@pytest.mark.parametrize("objective", [MaxVariance(), Targets(), TotalVariance()], ids=str)
def test_the_judges_weights_prove_the_judges_optimum(objective: Objective) -> None:
    for workload in square_workloads():
        optimum, p, q = judged(workload, objective)
        bound, _ = dual_bound(workload, objective, Witness(p, q), unit_variance=1.0)
        assert optimum * (1 - JUDGE) <= bound <= optimum * (1 + JUDGE)


def test_the_judges_weights_prove_the_total_within_caps() -> None:
    binding = 0
    for workload in square_workloads():
        # A third more than the least budget at which the caps can be met.
        tau = judged(workload, Targets())[0] * 4 / 3
        optimum, p, q = judged(workload, WITHIN, tau)
        bound, _ = dual_bound(workload, WITHIN, Witness(p, q), unit_variance=1 / tau)
        assert optimum * (1 - JUDGE) <= bound <= optimum * (1 + JUDGE)
        without, *_ = judged(workload, TotalVariance(), tau)
        binding += optimum > without * (1 + 10 * JUDGE)
    assert binding >= 2, "caps that bind nothing would test nothing"


@pytest.mark.thorough
def test_plans_reach_the_judges_optimum() -> None:
    """The whole way: solver, rounding to integers, certificate; 1 is the budget."""
    for workload in square_workloads():
        for objective in (
            MaxVariance(),
            Targets(),
            TotalVariance(),
            TotalVariance(relative_to=[1, 2, 3, 4, 5][: workload.shape[1]]),
        ):
            found = design(workload, GDP(1), objective=objective).certificate
            assert found.status == "optimal"
            assert found.achieved == pytest.approx(judged(workload, objective)[0], rel=JUDGE)
        least = judged(workload, Targets())[0]
        cheapest = design(workload)
        assert float(cheapest.strategy.spent) == pytest.approx(least, rel=JUDGE)
        assert (
            cheapest.certificate.status == "optimal" and cheapest.factor is not None and cheapest.factor <= 1
        )
        mu = math.sqrt(least * 4 / 3)
        kept = design(workload, GDP(mu))
        assert kept.factor is not None and kept.factor <= 1 and kept.certificate.status == "optimal"
        assert kept.certificate.achieved == pytest.approx(judged(workload, WITHIN, mu**2)[0], rel=JUDGE)
        goal = GDP(mu / 2)
        with refuses(InfeasibleError, "stderr", ..., "cannot be met with Gaussian noise within") as error:
            design(workload, goal)
        assert proves_infeasible(workload, goal, error.value.witness)
        assert error.value.factor == pytest.approx(2 * math.sqrt(3 / 4), rel=JUDGE)
        assert error.value.mu == pytest.approx(math.sqrt(least), rel=JUDGE)
        # What the error advises is enough.
        design(matrix(workload.dense(), stderr=workload.targets * error.value.factor * (1 + SOLVER)), goal)


def test_the_judge_agrees_where_targets_cannot_be_met() -> None:
    for workload in square_workloads():
        least, p, q = judged(workload, Targets())
        witness = Witness(p, q)
        assert proves_infeasible(workload, GDP(math.sqrt(least * (1 - 10 * JUDGE))), witness)
        assert not proves_infeasible(workload, GDP(math.sqrt(least * (1 + 10 * JUDGE))), witness)


# Plans ----------------------------------------------------------------------------------------


def variances_by_hand(plan: Any) -> Any:
    W, A = plan.workload.dense(), plan.strategy.entries.astype(float)
    return plan.strategy.noise_variance * ((W @ np.linalg.pinv(A, rcond=1e-11)) ** 2).sum(axis=1)


GOALS = [GDP(1.5), ApproxDP(1, 1e-6, records_per_person=2), PureDP(2), GDP(1, neighbours="replace-one")]


@pytest.mark.thorough
@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize(
    "objective", [MaxVariance(), Targets(), TotalVariance(relative_to="uniform")], ids=str
)
@pytest.mark.parametrize("method", SIMPLE)
def test_simple_methods_serve_every_objective(method: str, objective: Objective, goal: Goal) -> None:
    plan = design(ASKED, goal, objective=objective, method=method)
    found = plan.certificate
    v = variances_by_hand(plan)
    assert found.achieved == pytest.approx(objective.value(ASKED, v), rel=1e-9)
    assert 0 < found.lower_bound <= found.achieved and found.status == "heuristic"
    assert found.unit == objective.unit(ASKED)
    assert plan.factor == pytest.approx(float((np.sqrt(v) / ASKED.targets).max()), rel=1e-9)
    p = found.witness.p
    assert (p is not None) == (objective.kind == "largest")
    if isinstance(objective, Targets):
        assert p is not None and (p > 0).tolist() == np.isfinite(ASKED.targets).tolist()


def test_units_name_what_is_measured() -> None:
    even = assemble([Prefix("age"), Total(weight=0)], AGES)
    units = {
        MaxVariance().unit(even): "largest variance",
        MaxVariance().unit(ASKED): "largest weighted variance",
        Targets().unit(ASKED): "squared factor",
        Targets().unit(ASKED, has_goal=False): "mu squared",
        WITHIN.unit(ASKED): "total variance",
    }
    assert all(found == expected for found, expected in units.items())
    assert len(units) == 5


@pytest.mark.thorough
@pytest.mark.parametrize("method", SIMPLE)
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e7])
def test_targets_without_a_goal_cost_the_least_that_meets_them(method: str, unit: float) -> None:
    schema = Schema(age=range(6), sex=("F", "M"))
    queries = [Prefix("age", stderr=3 * unit), Marginal("sex", stderr=unit), Total(stderr=2 * unit)]
    workload = assemble(queries, schema)
    plan = design(workload, method=method)
    assert plan.objective == Targets() and not plan.has_goal
    assert plan.factor is not None and 1 - 1e-7 < plan.factor <= 1
    assert (plan.stderr <= workload.targets).all()
    assert isinstance(plan.privacy, GDP) and plan.strategy.spent <= Fraction(plan.privacy.mu) ** 2
    assert plan.mu == plan.privacy.mu
    assert Fraction(math.nextafter(float(plan.privacy.mu), 0)) ** 2 < plan.strategy.spent
    found = plan.certificate
    assert found.unit == "mu squared"
    assert found.achieved == pytest.approx(float(plan.privacy.mu) ** 2, rel=ROUNDING)
    # One grid step more noise, or a part in 10^9 where steps are finer, and some target is missed.
    scale = plan.strategy.scale + 1 + (plan.strategy.scale >> 30)
    more = Strategy(plan.strategy.entries, scale=scale, noise="gaussian")
    assert (np.sqrt(more.variances(workload.operator)) > workload.targets).any()
    with refuses(DesignError, "stderr", ..., "the plan misses its targets by a factor of 1"):
        certify(workload, bare(plan, strategy=more))
    # The same rows under that goal, asked for, need no factor.
    again = design(workload, plan.privacy, objective=Targets(), method=method)
    assert again.factor == pytest.approx(1, rel=1e-7) and again.certificate.unit == "squared factor"
    assert again.certificate.achieved == pytest.approx(1, rel=1e-6)


def test_a_target_met_by_one_row_alone_costs_what_the_formula_says() -> None:
    """One count with noise σ = 5 is 0.2-GDP, and that is optimal."""
    plan = design(matrix([[1]], stderr=5.0), method="identity")
    assert plan.mu == pytest.approx(0.2, rel=1e-7)
    assert plan.certificate.lower_bound == pytest.approx(0.04, rel=ROUNDING)
    assert plan.certificate.status == "optimal"
    assert "mu squared 0.04" in str(plan) and "5, target 5" in str(plan)


def test_zero_queries_cost_nothing_and_are_refused_without_a_goal() -> None:
    zero = matrix(np.zeros((2, 3)), stderr=1.0)
    with refuses(DesignError, "stderr", ..., "every query with a target is zero, which"):
        design(zero, method="identity")
    assert design(zero, GDP(1), method="identity").factor == 0


def test_totals_within_targets_are_kept_or_refused() -> None:
    wide = assemble([Prefix("age", stderr=30), Marginal("sex", stderr=10)], AGES)
    plan = design(wide, GDP(1), method="identity")
    assert plan.objective == WITHIN and plan.factor is not None and plan.factor <= 1
    assert plan.certificate.unit == "total variance"
    assert plan.certificate.achieved == pytest.approx(variances_by_hand(plan).sum(), rel=1e-9)
    narrow = assemble([Prefix("age", stderr=1.1), Marginal("sex", stderr=10)], AGES)
    missed = math.sqrt(12) / 1.1
    with refuses(
        MethodError, "stderr", ..., f"'identity' misses the targets by a factor of {rounded_up(missed)}"
    ) as error:
        design(narrow, GDP(1), method="identity")
    assert "raise mu to 3.15" in str(error.value) and not isinstance(error.value, InfeasibleError)
    assert isinstance(pickle.loads(pickle.dumps(error.value)), MethodError)
    # Following the advice is enough.
    design(narrow, GDP(3.15), method="identity")
    looser = assemble([Prefix("age", stderr=1.1 * 3.15), Marginal("sex", stderr=31.5)], AGES)
    design(looser, GDP(1), method="identity")
    with refuses(DesignError, "stderr", ..., "the plan misses its targets by a factor of"):
        certify(narrow, bare(plan))


def test_a_plan_that_misses_its_targets_has_no_certificate() -> None:
    plan = design(matrix(np.eye(3), stderr=[1, 1, 1.5]), GDP(1.01), method="identity")
    more = Strategy(plan.strategy.entries, scale=int(plan.strategy.scale * 1.02), noise="gaussian")
    assert certify(plan.workload, bare(plan)).achieved > 0
    for objective, has_goal in ((WITHIN, True), (Targets(), False)):
        with refuses(DesignError, "stderr", ..., "misses its targets by a factor of 1.0"):
            certify(plan.workload, bare(plan, strategy=more, objective=objective, has_goal=has_goal))
    assert certify(plan.workload, bare(plan, strategy=more, objective=Targets())).achieved > 1


def test_altered_witnesses_contradict_or_weaken() -> None:
    workload = matrix(np.tril(np.ones((4, 4))), stderr=[1, 2, 3, 4])
    plan = design(workload, GDP(3), objective=Targets(), method="identity")
    honest = plan.certificate
    rng = np.random.default_rng(5)
    for _ in range(200):
        p, q = (10.0 ** rng.uniform(-9, 9, 4) * rng.integers(0, 2, 4) for _ in range(2))
        found = certify(workload, bare(plan, witness=Witness(p, q)))
        assert 0 <= found.lower_bound <= honest.achieved
    for p in (np.ones(3), np.ones((4, 1)), np.array(1.0)):
        with pytest.raises(DesignError, match=r"the witness has weights of \d queries, the workload has 4"):
            certify(workload, bare(plan, witness=Witness(p, plan.witness.q)))
    for value in (-1e-300, math.nan, math.inf):
        with refuses(DesignError, "witness", ..., "finite weights, zero or more"):
            certify(workload, bare(plan, witness=Witness(np.array([1, 1, 1, value]), plan.witness.q)))
    nothing = certify(workload, bare(plan, witness=Witness(np.zeros(4), plan.witness.q)))
    assert nothing.lower_bound == 0 and nothing.status == "heuristic"
    absent = certify(workload, bare(plan, witness=Witness(None, plan.witness.q)))
    assert absent.lower_bound == 0


@pytest.mark.thorough
@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("objective", [MaxVariance(), Targets(), WITHIN], ids=str)
def test_lower_bounds_are_those_of_the_formulas(objective: Objective, goal: Goal) -> None:
    """Recomputed by singular values, with dual weights of no meaning, for every goal."""
    wide = assemble([Prefix("age", stderr=99, weight=2), Marginal("age"), Total(stderr=70)], AGES)
    m, n = wide.shape
    plan = design(wide, goal, objective=objective, method="identity")
    caps, w = objective.caps(wide), wide.weights
    assert caps is not None
    capped = np.isfinite(caps)
    rng = np.random.default_rng(8)
    # Pairs of cells and a cell with no cell where records are replaced, and cells alone.
    pairs = np.array([[0, 1], [2, 7], [3, n], [5, n], [8, 11]])
    D = np.zeros((n + 1, len(pairs)))
    D[pairs[:, 0], np.arange(len(pairs))] = 1
    D[pairs[:, 1], np.arange(len(pairs))] = -1
    unit = 1 / float(goal.budget)
    if goal.noise == "laplace":
        x = np.arange(-400, 401)
        mass = np.exp(-float(goal.budget) * np.abs(x))
        unit = float((mass * x**2).sum() / mass.sum())
    for with_pairs in {False, goal.neighbours == "replace-one"}:
        columns = D[:n] if with_pairs else np.eye(n)
        for _ in range(20):
            p = rng.exponential(size=m) * 1e-4
            q: Any = rng.exponential(size=columns.shape[1])
            found = certify(wide, bare(plan, witness=Witness(p, q, pairs if with_pairs else None)))
            p = np.where(capped, p, 0)
            allowed = float(p[capped] @ caps[capped])
            weights = p if objective.kind == "largest" else w + p
            F = unit * nuclear(wide.dense() @ columns, weights, q) ** 2 / q.sum()
            expected = F / allowed if objective.kind == "largest" else F - allowed
            assert found.lower_bound == pytest.approx(expected, rel=1e-9, abs=1e-9 * F)
            assert found.among == ("Laplace" if goal.noise == "laplace" else "Gaussian")
            wrong = F if objective.kind == "largest" else F - 2 * allowed
            assert found.lower_bound != pytest.approx(wrong, rel=1e-9, abs=1e-9 * F)


def test_weights_of_queries_without_a_cap_are_ignored() -> None:
    workload = matrix([[1, 0], [0, 1], [1, 1]], stderr=[1, 1, np.inf])
    plan = design(workload, GDP(1), objective=Targets(), method="identity")
    heavy = Witness(np.array([1.0, 1.0, 1e6]), plan.witness.q)
    assert certify(workload, bare(plan, witness=heavy)).lower_bound == pytest.approx(
        plan.certificate.lower_bound, rel=ROUNDING
    )
    counted = matrix([[1, 0], [0, 1], [1, 1]], stderr=[1, 1, 1])
    assert targets_bound(counted, GDP(1), heavy) != pytest.approx(plan.certificate.lower_bound, rel=1e-3)


@pytest.mark.thorough
def test_half_a_million_queries_are_certified_without_their_matrix() -> None:
    workload = assemble([AllRanges("a", stderr=40)], Schema(a=range(512)))
    m, n = workload.shape
    plan = design(workload, GDP(1), objective=Targets(), method="identity")
    p = np.random.default_rng(6).exponential(size=m)
    tracemalloc.start()
    found = certify(workload, bare(plan, witness=Witness(p, plan.witness.q)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < m * n * 8 / 4
    few = np.where(np.arange(m) % 9999 == 0, p, 0)
    sparse = certify(workload, bare(plan, witness=Witness(few, plan.witness.q)))
    rows = workload.operator.rows(np.flatnonzero(few))
    F = nuclear(rows, few[few > 0], plan.witness.q)
    expected = F**2 / (plan.witness.q.sum() * few.sum() * 1600)
    assert sparse.lower_bound == pytest.approx(expected, rel=1e-9)
    assert 0 < found.lower_bound < found.achieved == pytest.approx(512 / 1600, rel=1e-6)


# What cannot be met ---------------------------------------------------------------------------


ONE = matrix([[1.0]], stderr=0.5)


def test_targets_that_cannot_be_met_come_with_a_proof() -> None:
    """One count within μ = 1 has a standard error of 1 at least."""
    error = infeasible(ONE, GDP(1), Witness(np.ones(1), np.ones(1)), 2.0)
    assert isinstance(error, DesignError)
    assert error.factor == math.nextafter(2.0, 3) and error.mu == pytest.approx(2, rel=ROUNDING)
    assert error.epsilon(delta=1e-6) == epsilon_of(Fraction(error.mu) ** 2, 1e-6)
    assert proves_infeasible(ONE, GDP(1), error.witness)
    assert targets_bound(ONE, GDP(1), error.witness) == pytest.approx(4, rel=ROUNDING)
    assert not proves_infeasible(ONE, GDP(2), error.witness)
    assert not proves_infeasible(ONE, GDP(1), Witness(np.zeros(1), np.ones(1)))
    words = str(error)
    assert words.startswith(
        "these targets cannot be met with Gaussian noise within 1-GDP, adding or removing one record. "
    )
    assert "The most is asked by 'rows'" in words
    assert words.endswith("multiply every stderr by at least 2.001, or raise mu to 2.001")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.factor, copy.mu, str(copy)) == (error.factor, error.mu, words)
    assert copy.epsilon(delta=1e-9) == error.epsilon(delta=1e-9)


def test_nothing_is_called_impossible_without_proof() -> None:
    with refuses(
        DesignError, "stderr", ..., "it is open whether these targets can be met within 2-GDP"
    ) as error:
        infeasible(ONE, GDP(2), Witness(np.ones(1), np.ones(1)), 1.0)
    assert not isinstance(error.value, InfeasibleError)
    with refuses(DesignError, "witness", ..., "finite weights, zero or more"):
        infeasible(ONE, GDP(1), Witness(-np.ones(1), np.ones(1)), 2.0)


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (GDP(1), "mu to 2"),
        (GDP(1, records_per_person=3), "mu to 2"),
        (ZCDP(0.5), "rho to 2"),
        (PureDP(0.25), "epsilon to 0.5"),
    ],
    ids=str,
)
def test_goals_are_raised_in_their_own_words(goal: Goal, words: str) -> None:
    assert " to ".join(raised(goal, 2.0)) == words


@pytest.mark.parametrize("calibration", ["exact", "classic"])
def test_a_raised_epsilon_is_enough_and_hardly_more(calibration: str) -> None:
    goal = ApproxDP(0.5, 1e-6, calibration)
    for factor in (1.1, 1.7):
        epsilon = float(raised(goal, factor)[1])
        there = ApproxDP(epsilon, 1e-6, calibration).mu_squared
        assert there is not None and goal.mu_squared is not None
        assert factor**2 <= float(there / goal.mu_squared) <= factor**2 * 1.005


def test_rounding_up_never_rounds_down() -> None:
    rng = np.random.default_rng(7)
    for value in [*10.0 ** rng.uniform(-20, 20, 500), 1.0, 9.9999, 0.00123449999, 2.0]:
        shown = float(rounded_up(float(value)))
        assert value <= shown <= value * 1.0011
    assert rounded_up(2.0) == "2" and rounded_up(1.23401) == "1.235" and rounded_up(math.inf) == "inf"


def test_the_batches_that_ask_most_are_named() -> None:
    workload = assemble(
        [
            Prefix("age", stderr=0.01, name="fine"),
            Marginal("sex", stderr=5, name="coarse"),
            Total(name="free"),
        ],
        AGES,
    )
    m, n = workload.shape
    p = np.zeros(m)
    p[workload.rows_of("fine")] = 1e4
    text = str(infeasible(workload, GDP(1), Witness(p, np.ones(n)), 500.0))
    assert "The most is asked by 'fine'." in text and "free" not in text
    p[workload.rows_of("coarse")] = 0.01
    assert "The most is asked by 'fine' and 'coarse'." in str(
        infeasible(workload, GDP(1), Witness(p, np.ones(n)), 500.0)
    )


def test_infeasibility_is_proved_for_pairs_too() -> None:
    """Two cells, one total: replacing a record leaves it; dropping one does not."""
    workload = matrix(np.eye(2), stderr=0.9)
    goal = GDP(1, neighbours="replace-one")
    witness = Witness(np.ones(2), np.ones(3), np.array([[0, 1], [0, 2], [1, 2]]))
    assert proves_infeasible(workload, goal, witness)
    with refuses(DesignError, "witness", ..., "weights of pairs prove nothing where a record"):
        proves_infeasible(workload, GDP(1), witness)


# Tables ---------------------------------------------------------------------------------------


def test_comparisons_name_the_unit_and_leave_out_what_misses() -> None:
    largest = compare(ASKED, GDP(1), objective=MaxVariance(), methods=SIMPLE)
    assert largest.unit == "largest weighted variance" and "largest weighted variance" in str(largest)
    assert [c.achieved for c in largest.contenders] == sorted(c.achieved for c in largest.contenders)  # type: ignore[type-var]
    cheapest = compare(ASKED, None, methods=SIMPLE)
    assert cheapest.unit == "mu squared" and "that meets the targets has a mu squared below" in str(cheapest)
    assert all(c.factor is not None and c.factor <= 1 for c in cheapest.contenders)
    wide = assemble([Prefix("age", stderr=3.2), Marginal("age")], AGES)
    within = compare(wide, GDP(1), methods=SIMPLE)
    kept = {c.method for c in within.contenders if c.reason is None}
    assert 0 < len(kept) < len(SIMPLE), "some must meet the targets and some must not"
    for c in within.contenders:
        if c.reason is None:
            assert c.factor is not None and c.factor <= 1
        else:
            factor = float(c.reason.removeprefix("misses the targets by a factor of "))
            plan = design(wide, GDP(1), objective=Targets(), method=c.method)
            assert plan.factor is not None and plan.factor <= factor <= plan.factor * 1.001
    assert "of its target" in str(within).splitlines()[0]


@pytest.mark.thorough
def test_pure_privacy_takes_the_best_that_meets_the_targets() -> None:
    plan = design(assemble([Marginal("age", "sex", stderr=2), Total()], AGES), PureDP(1))
    assert plan.factor is not None and plan.factor <= 1 and plan.strategy.noise == "laplace"
    assert plan.certificate.status == "heuristic"
    with pytest.raises(
        MethodError, match=r"no method meets the targets; the closest, '\S+', misses the targets by"
    ):
        design(assemble([Marginal("age", "sex", stderr=0.1), Total()], AGES), PureDP(1))


def test_plans_print_their_targets() -> None:
    plan = design(ASKED, GDP(1), objective=Targets(), method="identity")
    text = str(plan)
    assert "  objective    targets\n" in text
    assert "within 1.69738 times its target" in text
    lines = [line.strip() for line in text.splitlines()]
    assert "age up to  1.41 to 3.46, target 3   (6 queries)" in lines
    assert "age        1.41   (6 queries)" in lines
    assert "total      3.46, target 2.04   (1 query)" in lines
    assert plan.factor is not None and 1.69737 < plan.factor <= 1.69738
    assert "targets" not in str(design(assemble([Prefix("age")], AGES), GDP(1), method="identity"))


# Files ----------------------------------------------------------------------------------------


def kinds_of_plans() -> list[Any]:
    one = GDP(1, neighbours="replace-one")
    return [
        design(ASKED, method="identity"),
        design(ASKED, one, objective=Targets(), method="hierarchical"),
        design(ASKED, GDP(9), method="identity"),
        design(ASKED, PureDP(1), objective=MaxVariance(), method="identity"),
        design(ASKED, GDP(1), objective=TotalVariance(relative_to=np.arange(1, 13)), method="identity"),
    ]


def test_plans_of_every_objective_survive_a_file(tmp_path: Path) -> None:
    for number, plan in enumerate(kinds_of_plans()):
        again = load_plan(plan.save(tmp_path / f"{number}.plan"))
        assert again.objective == plan.objective and again.has_goal == plan.has_goal
        assert again.factor == plan.factor and str(again) == str(plan)
        for name in ("p", "q"):
            mine, theirs = getattr(plan.witness, name), getattr(again.witness, name)
            assert (mine is None) == (theirs is None)
            assert mine is None or np.array_equal(mine, theirs)
        assert again.certificate.lower_bound == plan.certificate.lower_bound


def rewritten(plan: Any, path: Path, **changes: Any) -> Path:
    content, arrays = plan.to_parts()
    for name, value in changes.items():
        target = arrays if isinstance(value, np.ndarray) or name in arrays else content
        if value is None:
            target.pop(name, None)
        else:
            target[name] = value
    return container.write(path, "plan", content, arrays)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "changes",
    [
        {"p": np.full(7, -1.0)},
        {"p": np.full(7, np.nan)},
        {"p": np.full(7, np.inf)},
        {"p": np.zeros(7)},
        {"p": np.ones(6)},
        {"p": np.ones((7, 1))},
        {"p": np.ones(7, dtype=int)},
        {"p": None},
        {"p_rows": None},
        {"p_rows": np.arange(7) - 1},
        {"p_rows": np.arange(7) + 7},
        {"p_rows": np.arange(7)[::-1].copy()},
        {"p_rows": np.zeros(7, dtype=int)},
        {"p_rows": np.arange(7.0)},
        {"p_rows": np.arange(7)[None]},
        {"objective": "least"},
        {"objective": ["targets"]},
        {"objective": None},
        {"relative_to": "uniform"},
        {"has_goal": 0},
        {"has_goal": "no"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_hostile_files_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    plan = design(ASKED, method="identity")
    assert load_plan(rewritten(plan, tmp_path / "same.plan")).factor == plan.factor
    with refuses(PlanFileError, "plan", "other.plan", "'other.plan' "):
        load_plan(rewritten(plan, tmp_path / "other.plan", **changes))


def test_files_that_claim_to_meet_targets_are_checked(tmp_path: Path) -> None:
    missed = design(ASKED, GDP(1), objective=Targets(), method="identity")
    assert load_plan(rewritten(missed, tmp_path / "same.plan")).factor == missed.factor
    for changes in ({"has_goal": False}, {"objective": "total-variance-within-targets"}):
        with refuses(PlanFileError, "plan", "other.plan", "holds a strategy that misses its targets"):
            load_plan(rewritten(missed, tmp_path / "other.plan", **changes))
    with refuses(PlanFileError, "plan", "o.plan", "needs a privacy goal that was asked for"):
        load_plan(rewritten(missed, tmp_path / "o.plan", has_goal=False, objective="max-variance"))
    with refuses(PrivacyError, "privacy", ..., "a plan for MaxVariance() needs a privacy goal"):
        dataclasses.replace(missed, has_goal=False, objective=MaxVariance())
