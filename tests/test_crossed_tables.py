"""Tables of p-identity rows for unions of products: what they measure, and the search for their weights."""

from __future__ import annotations

import time
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.planning import Request
from leastnoise.planning.families import crossed_tables
from leastnoise.planning.families.product_requests import product_request
from leastnoise.planning.p_identity.objective_function import rows_of
from leastnoise.query import products_of
from leastnoise.strategy import AxisForm, centred_form
from leastnoise.strategy.structured.integer_blocks import ProductBlock
from leastnoise.strategy.structured.tables import WeightedTables
from tolerances import ROUNDING

# Central differences of a smooth function: the square of the step, and rounding over the step.
STEP, DIFFERENCES = 1e-6, 1e-6


def random_union(rng: np.random.Generator) -> ln.Workload:
    """Up to three products of prefix sums, plain counts and totals over up to three attributes."""
    sizes = [int(size) for size in rng.integers(2, 6, int(rng.integers(1, 4)))]
    schema = ln.Schema(**{f"a{i}": range(n) for i, n in enumerate(sizes)})
    queries = []
    for number in range(3):
        asked: Any = None
        for name in schema.names:
            own = (None, ln.Prefix(name), ln.Marginal(name))[int(rng.integers(3))]
            asked = asked if own is None else own if asked is None else asked * own
        queries.append((asked or ln.Total()).having(name=f"q{number}", weight=float(rng.integers(1, 4))))
    return ln.assemble(queries, schema)


def random_tables(workload: ln.Workload, rng: np.random.Generator) -> WeightedTables:
    products = products_of(workload)
    assert products is not None
    forms = []
    for axis in products.axes:
        rows = np.vstack([np.diag(rng.integers(1, 9, axis.size)), rng.integers(-3, 6, (2, axis.size))])
        is_plain = rng.random() < 0.3
        forms.append([centred_form(axis.size) if is_plain else AxisForm("crossed", axis.size, rows)])
    places = range(len(products.axes))
    sets = [s for count in range(len(forms) + 1) for s in combinations(places, count)]
    chosen = [s for s in sets if len(s) == len(forms) or rng.random() < 0.5]
    blocks = [ProductBlock(s, (0,) * len(s), int(rng.integers(1, 6))) for s in chosen]
    return WeightedTables(products.axes, forms, blocks, scale=7, noise="laplace")


@pytest.mark.parametrize("seed", range(12))
def test_tables_of_rows_are_least_squares_of_their_dense_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    workload = random_union(rng)
    strategy = random_tables(workload, rng)
    whole = strategy.dense().astype(object)
    A, W = whole.astype(float), workload.dense().astype(float)
    use = W @ np.linalg.pinv(A)
    covariance = use @ use.T * strategy.noise_variance
    assert strategy.can_answer_all(workload)
    assert strategy.variances_of(workload) == pytest.approx(np.diag(covariance), rel=1e-8)
    unit = float(np.diag(covariance).max())
    assert strategy.covariances_of(workload, workload) == pytest.approx(covariance, rel=1e-8, abs=1e-9 * unit)
    # Exactly what one record changes.
    columns = [int(cost) for cost in np.abs(whole).sum(axis=0)]
    assert strategy.sensitivity == max(columns) and list(strategy.column_costs) == columns
    y = rng.integers(-50, 50, strategy.n_measured).astype(object)
    assert strategy.answers_of(workload, y) == pytest.approx(use @ y.astype(float), rel=1e-8, abs=1e-7)
    assert strategy.estimates(y) == pytest.approx(np.linalg.pinv(A) @ y.astype(float), rel=1e-8, abs=1e-7)
    gains = strategy.error_map(workload)(np.eye(strategy.n_measured))
    assert gains == pytest.approx(use, rel=1e-8, abs=1e-9)


@pytest.mark.thorough
def test_intervals_come_from_how_the_noise_enters() -> None:
    """Drawn answers leave their 95% intervals 5 times in 100; half-widths are 0.1 % too wide at most."""
    rng = np.random.default_rng(1)
    workload = random_union(rng)
    # Noise of a small scale is drawn on a coarse grid, which intervals allow for.
    strategy = random_tables(workload, rng).with_scale(10**6)
    half = strategy.laplace_half_widths(workload, 0.05)
    noise = rng.laplace(scale=strategy.scale, size=(strategy.n_measured, 20_000))
    outside = (np.abs(strategy.error_map(workload)(noise)) > half[:, None]).mean(axis=1)
    # Six standard deviations of a share of 0.05 in 20,000 draws.
    assert np.abs(outside - 0.05).max() < 6 * np.sqrt(0.05 * 0.95 / 20_000)


def test_counts_are_multiplied_exactly() -> None:
    rng = np.random.default_rng(3)
    workload = random_union(rng)
    strategy = random_tables(workload, rng)
    assert workload.schema is not None
    sizes = workload.schema.shape
    x = rng.integers(0, 2**40, sizes)

    def tables(names: Any) -> list[Array]:
        kept = [[int(name[1:]) for name in own] for own in names]
        return [x.sum(axis=tuple(i for i in range(len(sizes)) if i not in own)) for own in kept]

    exact = strategy.dense().astype(object) @ x.reshape(-1).astype(object)
    assert (strategy.exact_answers(tables) == exact).all()


def test_rows_that_do_not_tell_values_apart_are_refused() -> None:
    """Their totals would be those of some values only."""
    workload = ln.assemble([ln.Prefix("a"), ln.Prefix("b")], ln.Schema(a=range(3), b=range(2)))
    products = products_of(workload)
    assert products is not None
    forms = [[AxisForm("crossed", 3, np.array([[1, 1, 0], [0, 0, 1]]))], [centred_form(2)]]
    with pytest.raises(DesignError, match="tell all of its values apart"):
        WeightedTables(products.axes, forms, [ProductBlock((0, 1), (0, 0), 1)], scale=1, noise="laplace")


def dense_total(problem: crossed_tables.CrossedProblem, W: Array, thetas: Any, weights: Array) -> float:
    """Δ₁² trace WᵀW (AᵀA)⁻¹ of the tables written out."""
    rows = []
    for chosen in product((0, 1), repeat=problem.n_axes):
        block = np.array([[weights[chosen]]])
        for a, n in enumerate(problem.sizes):
            own = np.eye(n) if thetas[a] is None else rows_of(thetas[a])
            block = np.kron(block, own if chosen[a] else np.ones((1, n)))
        rows.append(block)
    A = np.vstack(rows)
    return float(np.abs(A).sum(axis=0).max()) ** 2 * float(np.trace(W @ np.linalg.inv(A.T @ A) @ W.T))


@pytest.mark.parametrize("seed", range(6))
def test_the_total_of_tables_and_its_gradient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    workload = random_union(rng)
    problem = crossed_tables.crossed_problem(product_request(Request(workload, ln.PureDP(1))))
    thetas = [
        None if grams is None else rng.random((n, 2))
        for grams, n in zip(problem.grams, problem.sizes, strict=True)
    ]
    weights = 0.1 + rng.random((2,) * problem.n_axes)
    total, by_weights, by_thetas = crossed_tables.total_of_tables(problem, thetas, weights)
    W = workload.dense() * np.sqrt(workload.weights)[:, None]
    assert total == pytest.approx(dense_total(problem, W, thetas, weights), rel=1e-9)
    to_weights = rng.standard_normal(weights.shape)
    to_thetas = [None if theta is None else rng.standard_normal(theta.shape) for theta in thetas]

    def along(t: float) -> float:
        moved = [
            None if a is None or b is None else a + t * b for a, b in zip(thetas, to_thetas, strict=True)
        ]
        return crossed_tables.total_of_tables(problem, moved, weights + t * to_weights)[0]

    slope = float(np.vdot(by_weights, to_weights)) + sum(
        float(np.vdot(a, b)) for a, b in zip(by_thetas, to_thetas, strict=True) if a is not None
    )
    measured = (along(STEP) - along(-STEP)) / (2 * STEP)
    assert slope == pytest.approx(measured, rel=DIFFERENCES, abs=DIFFERENCES * total)


def large_union() -> ln.Workload:
    """200,000 cells: pairs of attributes, and running sums along the first for every value of the second."""
    schema = ln.Schema(a=range(100), b=range(20), c=range(10), d=range(10))
    queries = [ln.Marginal(*pair) for pair in combinations(schema.names, 2)]
    return ln.assemble([*queries, ln.Prefix("a") * ln.Marginal("b")], schema)


@pytest.mark.thorough
def test_unions_beyond_a_matrix_are_planned(tmp_path: Path) -> None:
    """They were refused under pure privacy. HDMM's templates end at 547,677."""
    workload = large_union()
    plan = ln.design(workload, ln.PureDP(1))
    assert plan.method == "product" and plan.ended == "converged"
    assert plan.certificate.achieved / 2 < 403_100
    assert plan.certificate.lower_bound <= plan.certificate.achieved
    assert plan.certificate.status == "heuristic"
    plan.save(tmp_path / "plan")
    again = ln.load_plan(tmp_path / "plan")
    assert again.digest == plan.digest
    assert again.certificate.achieved == plan.certificate.achieved
    assert ln.certify(workload, again).lower_bound == pytest.approx(
        plan.certificate.lower_bound, rel=ROUNDING
    )


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")
def test_a_small_union_is_measured_and_read_back(tmp_path: Path) -> None:
    schema = ln.Schema(a=range(12), b=range(3))
    workload = ln.assemble([ln.Prefix("a") * ln.Marginal("b"), ln.Marginal("a"), ln.Marginal("b")], schema)
    plan = ln.design(workload, ln.PureDP(50), method="product")
    counts = np.arange(36).reshape(12, 3)
    release = ln.measure(plan, counts.reshape(-1))
    truth = workload.dense() @ counts.reshape(-1)
    assert np.abs(release.answers - truth).max() < 20 * float(plan.stderr.max())
    release.save(tmp_path / "release")
    assert np.array_equal(ln.load_release(tmp_path / "release").answers, release.answers)


def test_more_than_a_dozen_attributes_are_refused_with_the_number() -> None:
    schema = ln.Schema(**{f"a{i}": range(2) for i in range(13)})
    queries = [ln.Prefix("a0") * ln.Marginal("a1"), *(ln.Marginal(f"a{i}") for i in range(2, 13))]
    with pytest.raises(ln.LeastnoiseError, match="at most 12 attributes; this schema has 13"):
        ln.design(ln.assemble(queries, schema), ln.PureDP(1), method="product")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1])
def test_a_busy_machine_gives_the_same_plan(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole search used to have ten seconds of wall time: a busy machine cut it short, and said so."""
    rng = np.random.default_rng(seed)
    workload = ln.assemble([ln.Prefix("a"), ln.Total(weight=2)], ln.Schema(a=range(int(rng.integers(8, 12)))))
    quiet = ln.design(workload, ln.PureDP(1))
    now, calls = time.monotonic, [0]

    def busy() -> float:
        calls[0] += 1
        return now() + 5.0 * calls[0]

    monkeypatch.setattr(time, "monotonic", busy)
    plan = ln.design(workload, ln.PureDP(1))
    assert plan.digest == quiet.digest and plan.ended == quiet.ended and calls[0] > 10


@pytest.mark.thorough
def test_targets_of_large_unions_are_met_where_a_plan_is_known_to() -> None:
    """Beyond a matrix there was no plan at all; the least total misses what the least factor meets."""
    schema = ln.Schema(a=range(20), b=range(15), c=range(16))

    def asked(factor: float) -> ln.Workload:
        queries = [ln.Marginal("a", "b"), ln.Marginal("b", "c"), ln.Prefix("a") * ln.Marginal("c")]
        targets = (60, 40, 80)
        return ln.assemble(
            [query.having(stderr=target * factor) for query, target in zip(queries, targets, strict=True)],
            schema,
        )

    least = ln.design(asked(1), ln.PureDP(1), objective=ln.Targets())
    assert least.factor is not None and least.certificate.lower_bound <= least.certificate.achieved
    tight = ln.design(asked(least.factor * 1.001), ln.PureDP(1))
    assert tight.factor is not None and tight.factor <= 1
    outcomes = {trial.name: trial.outcome for trial in tight.tried}
    assert outcomes["product"] == "misses-targets" and outcomes["the least common factor"] == "kept"
