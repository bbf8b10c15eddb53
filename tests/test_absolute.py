"""Sums of absolute errors: the optimum against judges of other kinds, its bound, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.bounds import ProductWitness, absolute_error, absolute_unions, certify
from leastnoise.bounds.absolute_error import stderr_sum_bound
from leastnoise.bounds.nuclear_norm import total_variance_bound
from leastnoise.bounds.product_bound import checked_product_witness, product_dual_bound
from leastnoise.core.errors import DesignError, MethodError
from leastnoise.core.operators import Array
from leastnoise.planning import Plan, design, load_plan
from leastnoise.privacy import GDP, ApproxDP, PureDP
from leastnoise.query import (
    AbsoluteError,
    AllRanges,
    Cube,
    Marginal,
    Prefix,
    Products,
    Schema,
    Sum,
    Total,
    TotalVariance,
    Where,
    Workload,
    assemble,
    products_of,
)
from leastnoise.release import simulated
from leastnoise.report import compare, drivers, summarize, tradeoff
from support import extra, refuses
from tolerances import CHANCE, ROUNDING, SOLVER

ABSOLUTE = AbsoluteError()
MEAN = math.sqrt(2 / math.pi)
REPLACED = GDP(1, neighbours="replace-one")


def drawn(rng: np.random.Generator, n: int, m: int, rank: int | None = None) -> Workload:
    """Random queries, of a lower rank if one is given, with random weights."""
    while True:
        if rank is None:
            W = rng.integers(-2, 4, (m, n))
        else:
            W = rng.integers(-1, 2, (m, rank)) @ rng.integers(-1, 3, (rank, n))
        if W.any(axis=1).all():
            return Workload.from_matrix(W, weights=rng.uniform(0.2, 5, m))


def achieved(workload: Workload, X: Array) -> float:
    """√(2/π) Σ w √v of noise with precision X, scaled to a largest diagonal entry of 1."""
    W, X = workload.dense(), X / np.diag(X).max()
    v = np.einsum("ji,ik,jk->j", W, np.linalg.pinv(X), W)
    return MEAN * float(workload.weights @ np.sqrt(v))


def is_proved(plan: Plan) -> bool:
    """Whether the plan is optimal, by a certificate worked out again."""
    proof = certify(plan.workload, plan)
    assert proof.unit == "total absolute error"
    assert proof.lower_bound <= proof.achieved <= (1 + SOLVER) * proof.lower_bound
    return proof.status == "optimal"


# The optimum, by other routes -----------------------------------------------------------------------------


def judged(workload: Workload, pairs: Array | None = None) -> float:
    """The least total absolute error by a semidefinite program: 1/v is the largest τ with X ⪰ τ wᵀw."""
    cvxpy = extra("cvxpy")
    W, c = workload.dense(), workload.weights
    m, n = W.shape
    X, tau = cvxpy.Variable((n, n), symmetric=True), cvxpy.Variable(m, pos=True)
    within = [cvxpy.diag(X) <= 1, X >> 0]
    within += [X - tau[j] * np.outer(W[j], W[j]) >> 0 for j in range(m)]
    if pairs is not None:
        within += [X[i, i] + X[j, j] - 2 * X[i, j] <= 1 for i, j in pairs]
    aim = cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(c, cvxpy.power(tau, -0.5))))
    problem = cvxpy.Problem(aim, within)
    problem.solve(solver=cvxpy.CLARABEL)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return MEAN * float(problem.value)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_a_semidefinite_program_finds_the_same_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    workload = drawn(rng, n, int(rng.integers(2, 8)), None if seed % 2 else max(1, n - 2))
    plan = design(workload, GDP(1), objective=ABSOLUTE)
    assert is_proved(plan)
    assert plan.certificate.achieved == pytest.approx(judged(workload), rel=2 * SOLVER)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_a_semidefinite_program_agrees_where_records_are_replaced(seed: int) -> None:
    workload = drawn(np.random.default_rng(seed), 4, 5)
    plan = design(workload, REPLACED, objective=ABSOLUTE)
    assert is_proved(plan)
    pairs = np.array([(i, j) for i in range(4) for j in range(i)])
    assert plan.certificate.achieved == pytest.approx(judged(workload, pairs), rel=2 * SOLVER)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_descent_from_many_starts_finds_nothing_better(seed: int) -> None:
    from scipy.optimize import minimize

    rng = np.random.default_rng(100 + seed)
    n = int(rng.integers(2, 4))
    workload = drawn(rng, n, 4)
    plan = design(workload, GDP(1), objective=ABSOLUTE)
    assert is_proved(plan)

    def value(entries: Array) -> float:
        A = entries.reshape(n, n)
        return achieved(workload, A.T @ A + 1e-12 * np.eye(n))

    found = min(
        minimize(value, rng.standard_normal(n * n), method="Nelder-Mead", options={"maxfev": 1500}).fun
        for _ in range(3)
    )
    assert found >= plan.certificate.lower_bound * (1 - ROUNDING)
    assert found == pytest.approx(plan.certificate.achieved, rel=0.02)


def test_independent_cells_have_the_same_noise_whatever_their_weights() -> None:
    # v_i does not depend on the others: every cell has variance 1 at profile 1.
    workload = Workload.from_matrix(np.eye(5), weights=[1, 10, 100, 3, 7])
    plan = design(workload, GDP(1), objective=ABSOLUTE)
    assert plan.certificate.achieved == pytest.approx(MEAN * 121, rel=SOLVER)
    assert is_proved(plan)


def test_two_tables_have_their_closed_form() -> None:
    # Cells with precision x and their total with 1 − x: v is 1/x less what the total tells, for each cell.
    n, c = 50, 3.0
    workload = assemble([Marginal("a"), Total(weight=c)], Schema(a=range(n)))
    x = np.linspace(1e-4, 1 - 1e-4, 400_001)
    total = 1 / (x / n + (1 - x))
    cell = (1 - 1 / n) / x + total / n**2
    least = MEAN * float((n * np.sqrt(cell) + c * np.sqrt(total)).min())
    for method in ("dense", "marginals"):
        plan = design(workload, GDP(1), objective=ABSOLUTE, method=method)
        assert is_proved(plan)
        assert plan.certificate.achieved == pytest.approx(least, rel=SOLVER)


# Methods agree --------------------------------------------------------------------------------------------

THREE = Schema(a=range(4), b=range(3), d=range(2))
TABLES = assemble([Marginal("a"), Marginal("a", "b", weight=2), Marginal("b", "d"), Total(weight=5)], THREE)
PRODUCT = assemble([Prefix("a", weight=2) * Marginal("b") * Prefix("d")], THREE)


@pytest.mark.parametrize(
    ("workload", "method", "goal"),
    [
        (TABLES, "marginals", GDP(1)),
        (TABLES, "marginals", REPLACED),
        (PRODUCT, "product", GDP(0.3)),
        (assemble([Prefix("a") * Total()], THREE), "dense", GDP(2)),
    ],
)
def test_structured_plans_are_the_dense_optimum(workload: Workload, method: str, goal: GDP) -> None:
    plan = design(workload, goal, objective=ABSOLUTE, method=method)
    dense = design(workload, goal, objective=ABSOLUTE, method="dense")
    assert is_proved(plan)
    assert is_proved(dense)
    assert plan.certificate.achieved == pytest.approx(dense.certificate.achieved, rel=2 * SOLVER)
    assert plan.stderr is not None
    assert plan.certificate.achieved == pytest.approx(MEAN * workload.weights @ plan.stderr, rel=ROUNDING)


def test_many_attributes_are_planned_without_a_cell() -> None:
    schema = Schema({f"x{i}": range(2 + i % 4) for i in range(25)})
    plan = design(assemble([Cube(*schema.names, order=2)], schema), GDP(1), objective=ABSOLUTE)
    assert plan.method == "marginals"
    assert is_proved(plan)


def test_earlier_plans_and_periods_are_kept_to() -> None:
    schema = Schema(month=range(6), x=range(3))
    first = design(assemble([Where("x < 1")], schema), GDP(1))
    later = assemble([Prefix("month") * Where("x >= 1"), Where("x >= 0 and month < 3")], schema)
    assert is_proved(design(later, GDP(2), objective=ABSOLUTE, after=[first]))
    running = assemble([Prefix("month") * Marginal("x"), Marginal("x")], schema)
    in_order = design(running, GDP(1), objective=ABSOLUTE, over="month")
    assert is_proved(in_order)
    free = design(running, GDP(1), objective=ABSOLUTE)
    assert in_order.certificate.achieved == pytest.approx(free.certificate.achieved, rel=2 * SOLVER)


def test_it_beats_the_total_variance_where_sizes_differ() -> None:
    workload = assemble([Marginal("age"), Sum("age")], Schema(age=range(60)))
    own, other = (design(workload, GDP(1), objective=aim) for aim in (ABSOLUTE, TotalVariance()))
    assert other.stderr is not None
    assert own.certificate.achieved < 0.95 * MEAN * float(other.stderr.sum())
    assert own.fixed_strategy().total_variance(workload, [np.ones(1)] * 2) > other.certificate.achieved


def test_a_weight_multiplies_the_absolute_error() -> None:
    rows = np.tril(np.ones((5, 5)))
    once = design(Workload.from_matrix(rows), GDP(1), objective=ABSOLUTE)
    thrice = design(Workload.from_matrix(rows, weights=np.full(5, 3.0)), GDP(1), objective=ABSOLUTE)
    asked_thrice = design(Workload.from_matrix(np.repeat(rows, 3, axis=0)), GDP(1), objective=ABSOLUTE)
    for other in (thrice, asked_thrice):
        assert other.certificate.achieved == pytest.approx(3 * once.certificate.achieved, rel=2 * SOLVER)


def test_queries_of_nothing_and_of_no_weight_are_answered() -> None:
    workload = Workload.from_matrix([[1, 0], [0, 0], [1, 1], [0, 1]], weights=[1, 1, 2, 0])
    assert is_proved(design(workload, GDP(1), objective=ABSOLUTE))
    nothing = design(Workload.from_matrix([[0, 0]]), GDP(1), objective=ABSOLUTE)
    assert nothing.certificate.achieved == nothing.certificate.lower_bound == 0
    with refuses(DesignError, "weight"):
        design(Workload.from_matrix([[1, 0], [0, 1]], weights=[1, 0]), GDP(1), objective=ABSOLUTE)


# The bound ------------------------------------------------------------------------------------------------


def some_precision(rng: np.random.Generator, n: int, pairs: Array | None) -> Array:
    """Random noise whose profile is exactly 1."""
    A = rng.standard_normal((n + 1, n)) * rng.uniform(0.1, 3, n)
    X = A.T @ A
    most = np.diag(X).max()
    if pairs is not None:
        ends = [(i, j) for i, j in pairs.tolist() if j < n]
        most = max([most, *(X[i, i] + X[j, j] - 2 * X[i, j] for i, j in ends)])
    return X / most


def bound_is_kept(rng: np.random.Generator, *, replaced: bool) -> bool:
    """Whether random weights prove no more than random noise has, near the optimum of some of them too."""
    n, m = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    workload = drawn(rng, n, m)
    c, W = workload.weights, workload.dense()
    pairs = np.array([(i, j) for j in range(n + 1) for i in range(j)]) if replaced else None
    q = rng.exponential(size=n if pairs is None else len(pairs)) ** 3
    p = rng.exponential(size=m) ** 2 * rng.integers(0, 2, m)
    X = some_precision(rng, n, pairs)
    if rng.integers(2):
        # The weights at which this noise would be best, which make the bound as tight as it gets.
        p = c / np.sqrt(np.einsum("ji,ik,jk->j", W, np.linalg.inv(X), W))
    v = np.einsum("ji,ik,jk->j", W, np.linalg.inv(X), W)
    return stderr_sum_bound(workload, c, p, q, pairs) <= float(c @ np.sqrt(v)) * (1 + ROUNDING)


@pytest.mark.parametrize("replaced", [False, True])
def test_no_weights_prove_more_than_any_noise_has(replaced: bool) -> None:
    rng = np.random.default_rng(5)
    assert all(bound_is_kept(rng, replaced=replaced) for _ in range(60))


def _as_variances(c: Array, b: Array, times: Array | float = 1.0) -> float:
    """A twin with the exponent of variances, Σ √(c b), squared: too large a norm."""
    return math.fsum(times * np.sqrt(c * b)) ** 2


def test_a_twin_with_another_exponent_proves_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = design(PRODUCT, GDP(1), objective=ABSOLUTE)
    assert is_proved(plan)
    monkeypatch.setattr(absolute_error, "combined", _as_variances)
    rng = np.random.default_rng(5)
    assert not all(bound_is_kept(rng, replaced=False) for _ in range(60))
    with refuses(DesignError, "workload", ..., "contradict"):
        certify(plan.workload, plan)


def test_a_twin_that_trusts_its_decomposition_proves_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = design(Workload.from_matrix(np.tril(np.ones((6, 6)))), GDP(1), objective=ABSOLUTE)

    def stretched(N: Array) -> Any:
        left, d, right = np.linalg.svd(N, full_matrices=False)
        return 1.01 * left, d, right

    monkeypatch.setattr(absolute_error, "svd", stretched)
    weaker = certify(plan.workload, plan)
    assert weaker.lower_bound <= plan.certificate.lower_bound * (1 + ROUNDING)
    monkeypatch.setattr(absolute_error, "distance_from_identity", lambda matrix: 0.0)
    with refuses(DesignError, "workload", ..., "contradict"):
        certify(plan.workload, plan)


@pytest.mark.parametrize("entries", [(0, 2**26), (0, 0), (2**20, 0)])
@pytest.mark.parametrize("shape", ["tall", "wide", "ranges", "replaced"])
def test_large_workloads_prove_the_same(
    shape: str, entries: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(9)
    goal = REPLACED if shape == "replaced" else GDP(1)
    workload = {
        "tall": lambda: drawn(rng, 6, 20),
        "wide": lambda: drawn(rng, 20, 6),
        "ranges": lambda: assemble([AllRanges("x", weight=3), Total()], Schema(x=range(12))),
        "replaced": lambda: drawn(rng, 6, 9),
    }[shape]()
    plan = design(workload, goal, objective=ABSOLUTE)
    own = plan.certificate.lower_bound
    monkeypatch.setattr(absolute_error, "_SVD_ENTRIES", entries[0])
    monkeypatch.setattr(absolute_error, "_WRITTEN_ENTRIES", entries[1])
    again = certify(workload, plan)
    assert again.lower_bound <= again.achieved
    # Squares lose directions below 1e-7.
    assert again.lower_bound == pytest.approx(own, rel=SOLVER)


# Unions of products ----------------------------------------------------------------------------------------

UNION = assemble(
    [Prefix("a") * Marginal("b"), Sum("a", weight=2), Marginal("b", "d"), Prefix("b"), Total()], THREE
)


def random_union(rng: np.random.Generator) -> tuple[Workload, Products]:
    """A few random products over the three attributes."""
    asked = []
    for _ in range(int(rng.integers(1, 5))):
        own = [
            [Prefix, Marginal, AllRanges, Sum][int(rng.integers(4))](name)
            for name in THREE.names
            if rng.integers(2)
        ]
        product = own[0] if own else Total()
        for other in own[1:]:
            product = product * other
        asked.append(product.having(weight=float(rng.uniform(0.2, 5))))
    workload = assemble(asked, THREE)
    products = products_of(workload)
    assert products is not None
    return workload, products


def union_bound_is_kept(rng: np.random.Generator) -> bool:
    """Whether random weights of a random union prove no more than random noise has."""
    workload, products = random_union(rng)
    kept = [a for a, kinds in enumerate(products.kinds) if kinds]
    if not kept:
        return True
    W, c = workload.dense(), workload.weights
    X = some_precision(rng, W.shape[1], None)
    v = np.einsum("ji,ik,jk->j", W, np.linalg.inv(X), W)
    p = np.array([rng.exponential() for _ in products.terms])
    q = tuple(
        rng.exponential(size=size if kinds else 1)
        for size, kinds in zip(products.sizes, products.kinds, strict=True)
    )
    witness = checked_product_witness(ProductWitness(q, p), workload, ABSOLUTE)
    bound, _ = product_dual_bound(workload, ABSOLUTE, witness, unit_variance=1.0)
    return bound <= MEAN * float(c @ np.sqrt(v)) * (1 + ROUNDING)


def test_no_weights_of_unions_prove_more_than_any_noise_has() -> None:
    rng = np.random.default_rng(3)
    assert all(union_bound_is_kept(rng) for _ in range(16))


@pytest.mark.thorough
def test_a_twin_whose_numbers_are_no_contraction_proves_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = design(UNION, GDP(1), objective=ABSOLUTE, method="residuals")
    own = absolute_unions._rows

    def without_lengths(*given: Any) -> Any:
        c, b, times = own(*given)
        return c, 1.1 * b, times

    monkeypatch.setattr(absolute_unions, "_rows", without_lengths)
    with refuses(DesignError, "workload", ..., "contradict"):
        certify(UNION, plan)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["residuals", "joint"])
def test_unions_are_near_the_dense_optimum(method: str) -> None:
    plan = design(UNION, GDP(1), objective=ABSOLUTE, method=method)
    dense = design(UNION, GDP(1), objective=ABSOLUTE, method="dense")
    least = dense.certificate.lower_bound
    proof = certify(UNION, plan)
    assert proof.status == "stopped"
    assert proof.lower_bound <= dense.certificate.achieved
    assert least * (1 - ROUNDING) <= proof.achieved <= 1.01 * least
    assert proof.gap < 0.04
    # Closed forms of cross tables and products are cases of the same bound.
    tables = design(TABLES, GDP(1), objective=ABSOLUTE, method=method)
    assert tables.certificate.gap < 1e-3


def test_unions_of_millions_of_cells_are_planned() -> None:
    schema = Schema(age=range(40), sex=("F", "M"), region=range(500), job=range(300))
    asked = [Prefix("age") * Marginal("sex"), Sum("age"), Marginal("region", "sex"), Marginal("job")]
    plan = design(assemble(asked, schema), GDP(1), objective=ABSOLUTE, method="residuals")
    assert plan.certificate.gap < 0.03


# What is promised, and what is refused --------------------------------------------------------------------


@pytest.mark.thorough
def test_releases_have_the_absolute_error_that_was_promised() -> None:
    """64,000 independent errors: the mean of |e| is within 5 of its standard errors but once in 10⁶ times."""
    n, runs = 32, 2_000
    workload = Workload.from_matrix(np.eye(n), weights=np.linspace(1, 3, n))
    plan = design(workload, GDP(0.5), objective=ABSOLUTE)
    truth = np.arange(n) * 10
    generator = np.random.default_rng(17)
    w = workload.weights
    means = [
        float(w @ np.abs(release.answers - truth))
        for release in simulated(plan, truth, n_runs=runs, generator=generator)
    ]
    promised = plan.certificate.achieved
    # |e| of a normal error has the variance (1 − 2/π) σ².
    spread = math.sqrt((1 - 2 / math.pi) * 4 * float(w @ w) / runs)
    assert math.erfc(5 / math.sqrt(2)) <= CHANCE
    assert abs(np.mean(means) - promised) < 5 * spread
    # A twin that takes the standard error itself, or a scale that is wrong by three per cent.
    assert abs(np.mean(means) - promised / MEAN) > 5 * spread
    assert abs(np.mean(means) - 1.03 * promised) > 5 * spread


def test_pure_privacy_is_refused() -> None:
    workload = assemble([Prefix("a")], THREE)
    with refuses(DesignError, "objective", ABSOLUTE, "PureDP", "TotalVariance()"):
        design(workload, PureDP(1), objective=ABSOLUTE)
    laplace = design(workload, PureDP(1), method="identity")
    with refuses(DesignError, "objective"):
        certify(workload, replace(laplace, objective=ABSOLUTE))


def test_other_methods_say_what_to_do() -> None:
    schema = Schema(a=range(4_000), b=range(4_000), d=range(400))
    union = assemble([Prefix("a") * Prefix("b"), Prefix("b") * Prefix("d"), Prefix("a")], schema)
    with refuses(MethodError, "objective", ABSOLUTE, "absolute errors", "TotalVariance()"):
        design(union, GDP(1), objective=ABSOLUTE)
    # No search serves so many cells; plain noise does, and says that something better is not known.
    fewer = Schema(a=range(400), b=range(400), d=range(400))
    union = assemble([Prefix("a") * Prefix("b"), Prefix("b") * Prefix("d"), Prefix("a")], fewer)
    plain = design(union, GDP(1), objective=ABSOLUTE)
    assert (plain.method, plain.ended, plain.certificate.status) == ("plain", "exhausted", "stopped")
    with refuses(MethodError, "method", "eigen", "absolute errors", "dense"):
        design(PRODUCT, GDP(1), objective=ABSOLUTE, method="eigen")


def test_a_time_limit_leaves_an_honest_gap() -> None:
    workload = assemble([AllRanges("x")], Schema(x=range(150)))
    plan = design(workload, GDP(1), objective=ABSOLUTE, method="dense", time_limit=1e-3)
    assert plan.ended == "deadline"
    assert plan.certificate.lower_bound <= plan.certificate.achieved


def test_plans_are_stored_with_their_proof(tmp_path: Path) -> None:
    for number, workload in enumerate((TABLES, PRODUCT)):
        plan = design(workload, GDP(1), objective=ABSOLUTE)
        path = tmp_path / f"{number}.plan"
        plan.save(path)
        again = load_plan(path)
        assert again.objective == ABSOLUTE
        assert certify(again.workload, again).lower_bound == plan.certificate.lower_bound


@pytest.mark.thorough
def test_reports_speak_of_absolute_errors() -> None:
    plan = design(TABLES, ApproxDP(1, 1e-6), objective=ABSOLUTE)
    per_count = plan.certificate.achieved / TABLES.shape[0]
    text = summarize(plan).text()
    assert f"Total absolute error {plan.certificate.achieved:,.6g} ({per_count:,.6g} per count)" in text
    assert "variance" not in text
    table = drivers(plan)
    assert table.share_of == "share of absolute error"
    assert math.fsum(driver.share or 0 for driver in table.drivers) == pytest.approx(1, rel=ROUNDING)
    changes = [change for driver in table.drivers for change in driver.changes]
    assert {change.unit for change in changes} == {"the total absolute error of the others"}
    assert all(change.after <= change.before * (1 + SOLVER) for change in changes)
    listed = compare(TABLES, ApproxDP(1, 1e-6), objective=ABSOLUTE, methods=["dense", "identity", "workload"])
    assert listed.unit == "total absolute error"
    assert not any(contender.is_without_delta for contender in listed.contenders)
    curve = tradeoff(TABLES, ApproxDP(1, 1e-6), objective=ABSOLUTE, epsilons=[1, 2])
    assert "absolute error" in str(curve)


@pytest.mark.parametrize("shape", [(1_500, 800), (800, 1_500), (30, 20)])
def test_weights_on_cells_that_nobody_asks_about_prove_nothing(shape: tuple[int, int]) -> None:
    """Where all weighted cells are in no query, a bound raised instead of being 0."""
    m, n = shape
    W = np.random.default_rng(0).integers(0, 2, size=shape)
    W[:, : n - 10] = 0
    W[:, n - 5] = 1
    q = np.where(np.arange(n) < n - 10, 1.0, 0.0)
    workload = Workload.from_matrix(W)
    assert stderr_sum_bound(workload, np.ones(m), np.ones(m), q) == 0
    assert total_variance_bound(workload, q) == 0
