"""Unions of products against the dense optimum, and where there is none to compare with."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.bounds import ProductWitness, certify, product_witness_from_parts
from leastnoise.core.errors import InfeasibleError, MethodError
from leastnoise.planning.families import shared_products
from leastnoise.strategy.structured.blocks import Structured
from tolerances import SOLVER

AGE = ln.Schema(age=range(24), sex=("F", "M"))
TREE = ln.Hierarchy({"north": ["n1", "n2", "n3"], "south": ["s1", "s2"]})
CASES: dict[str, tuple[ln.Schema, list[ln.Query]]] = {
    "two distributions": (ln.Schema(a=range(16), b=range(12)), [ln.Prefix("a"), ln.Prefix("b")]),
    "pairs": (
        ln.Schema(a=range(10), b=range(5), c=range(6)),
        [
            ln.AllRanges("a") * ln.Marginal("b"),
            ln.AllRanges("a") * ln.Prefix("c"),
            ln.Marginal("b") * ln.Prefix("c"),
        ],
    ),
    "distribution and table": (
        ln.Schema(a=range(30), b=range(8)),
        [ln.Prefix("a"), ln.Marginal("b"), ln.Prefix("a") * ln.Marginal("b")],
    ),
    "three distributions": (
        ln.Schema(a=range(6), b=range(6), c=range(6)),
        [*(ln.Prefix(x) for x in "abc"), *(ln.Prefix(x) * ln.Prefix(y) for x, y in combinations("abc", 2))],
    ),
    "age": (AGE, [ln.Marginal("age", "sex"), ln.Prefix("age")]),
    "conditions": (
        AGE,
        [ln.Marginal("age", "sex"), ln.Prefix("age"), ln.Where("age >= 18 and sex == 'F'"), ln.Total()],
    ),
    "regions": (ln.Schema(place=TREE, b=range(7)), [ln.Levels("place") * ln.Marginal("b"), ln.Prefix("b")]),
    "weights": (AGE, [ln.Marginal("age", weight=30.0), ln.Marginal("sex"), ln.Prefix("age", weight=0.01)]),
}


@pytest.fixture(autouse=True)
def without_a_shared_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small unions take the way of large ones; their optimum is tested in `test_optimum`."""
    monkeypatch.setattr(shared_products, "MAX_KINDS", 1)


def plan_for(name: str, goal: ln.Goal | None = None, **given: Any) -> ln.Plan:
    schema, queries = CASES[name]
    return ln.design(ln.assemble(queries, schema), goal or ln.GDP(1), method="residuals", **given)


def optimum(name: str, **given: Any) -> float:
    schema, queries = CASES[name]
    return ln.design(ln.assemble(queries, schema), ln.GDP(1), method="dense", **given).certificate.achieved


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_total_variance_is_within_a_percent_of_the_optimum(name: str) -> None:
    plan, least = plan_for(name), optimum(name)
    assert isinstance(plan.strategy, Structured)
    certificate = plan.certificate
    assert certificate.lower_bound <= least * (1 + 1e-9)
    assert least * (1 - SOLVER) <= certificate.achieved <= 1.01 * least
    assert certificate.gap < 0.015


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["pairs", "age", "regions"])
def test_largest_variance_is_close_to_the_optimum(name: str) -> None:
    plan, least = plan_for(name, objective=ln.MaxVariance()), optimum(name, objective=ln.MaxVariance())
    assert plan.certificate.lower_bound <= least * (1 + 1e-6)
    assert least * (1 - 1e-6) <= plan.certificate.achieved <= 1.04 * least
    assert plan.certificate.gap < 0.08


@pytest.mark.thorough
def test_targets_cost_about_what_they_must() -> None:
    targets = [
        ln.Marginal("age", "sex", stderr=3.0),
        ln.Prefix("age", stderr=2.5),
        ln.Where("age >= 18 and sex == 'F'", stderr=2.0),
    ]
    asked = ln.assemble(targets, AGE)
    plan, dense = ln.design(asked, method="residuals"), ln.design(asked, method="dense")
    assert plan.factor is not None and plan.factor <= 1
    assert dense.mu is not None and plan.mu is not None
    assert dense.mu * (1 - 1e-6) <= plan.mu <= 1.02 * dense.mu
    with pytest.raises(InfeasibleError) as refused:
        ln.design(asked, ln.GDP(0.9 * dense.mu), method="residuals")
    assert isinstance(refused.value.witness, ProductWitness)
    within = ln.design(asked, ln.GDP(2 * plan.mu), method="residuals")
    assert within.factor is not None and within.factor <= 1
    free = ln.design(
        asked, ln.GDP(2 * plan.mu), method="residuals", objective=ln.TotalVariance()
    ).certificate.achieved
    assert within.certificate.achieved >= free * (1 - 1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["pairs", "conditions"])
def test_answers_are_unbiased_and_err_as_they_say(name: str, tmp_path: Any) -> None:
    plan = plan_for(name, ln.GDP(0.5))
    again = ln.load_plan(plan.save(tmp_path / "a.plan"))
    assert again.certificate.achieved == pytest.approx(plan.certificate.achieved, rel=1e-12)
    assert again.certificate.lower_bound == pytest.approx(plan.certificate.lower_bound, rel=1e-12)
    strategy = again.strategy
    assert strategy is not None
    asked = plan.workload
    x = np.random.default_rng(0).integers(0, 50, asked.shape[1])
    A = strategy.dense()
    exact = A.astype(object) @ x.astype(object)
    truth = asked.operator.apply(x.astype(float))
    assert strategy.answers_of(asked, exact) == pytest.approx(truth, abs=1e-6 * truth.max())
    gains = strategy.error_map(asked)(np.eye(len(A)))
    assert strategy.variances_of(asked) == pytest.approx(
        strategy.noise_variance * (gains**2).sum(axis=1), rel=1e-9
    )
    # The budget holds for the matrix itself.
    assert float((A.astype(float) ** 2).sum(axis=0).max()) / strategy.scale**2 <= 0.25 * (1 + 1e-12)


def test_a_twin_with_other_weights_proves_less() -> None:
    plan = plan_for("three distributions")
    witness = plan.witness
    assert isinstance(witness, ProductWitness)
    assert witness.axes is not None
    flat = ProductWitness(tuple(np.ones(len(q)) for q in witness.q), axes=witness.axes)
    from dataclasses import replace

    twin = certify(plan.workload, replace(plan, witness=flat))
    assert twin.lower_bound < 0.99 * plan.certificate.lower_bound
    arrays = witness.to_arrays()
    again = product_witness_from_parts(arrays, witness.axes_to_plain())
    assert again.axes == witness.axes


@pytest.mark.thorough
def test_auto_takes_it_where_cells_are_many_and_says_why() -> None:
    schema = ln.Schema(age=range(100), income=range(60), place=range(30))
    asked = ln.assemble(
        [ln.Prefix("age") * ln.Marginal("place"), ln.Prefix("income"), ln.Marginal("place")], schema
    )
    plan = ln.design(asked, ln.GDP(1))
    assert plan.method == "residuals"
    assert "oblique residuals of 3 products" in plan.note
    assert plan.certificate.gap < 0.02
    assert ln.design(asked, ln.GDP(1, neighbours="replace-one")).certificate.status == "heuristic"


def test_what_is_no_union_of_products_is_refused() -> None:
    with pytest.raises(MethodError, match="matrix over all cells"):
        ln.design(ln.Workload.from_matrix(np.eye(4)), ln.GDP(1), method="residuals")
    with pytest.raises(MethodError, match="Gaussian"):
        ln.design(ln.assemble([ln.Total()], AGE), ln.PureDP(1), method="residuals")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_mixes_of_all_sorts_are_within_a_percent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(rng.integers(2, 8)) for _ in range(3)]
    schema = ln.Schema(**{name: range(size) for name, size in zip("abc", sizes, strict=True)})
    kinds = (ln.Marginal, ln.Prefix, ln.AllRanges, ln.Sum, lambda name: ln.Where(f"{name} >= 1"))
    queries = []
    for _ in range(4):
        chosen = [name for name in "abc" if rng.random() < 0.6] or ["a"]
        query: Any = kinds[rng.integers(len(kinds))](chosen[0])
        for name in chosen[1:]:
            query = query * kinds[rng.integers(len(kinds))](name)
        queries.append(query)
    asked = ln.assemble(queries, schema)
    least = ln.design(asked, ln.GDP(1), method="dense").certificate.achieved
    certificate = ln.design(asked, ln.GDP(1), method="residuals").certificate
    assert certificate.lower_bound <= least * (1 + 1e-9)
    assert least * (1 - SOLVER) <= certificate.achieved <= 1.01 * least


UNEVEN: dict[str, list[ln.Query]] = {
    "a total of large weight": [ln.Total(weight=100.0), ln.Marginal("a")],
    "a table of large weight": [ln.Marginal("a", weight=100.0), ln.Marginal("a", "b")],
    "an axis that all ask alike": [ln.Prefix("a") * ln.Marginal("b"), ln.Prefix("a")],
}


@pytest.mark.parametrize("name", UNEVEN)
def test_largest_variances_of_uneven_weights_are_proved(name: str) -> None:
    asked = ln.assemble(UNEVEN[name], ln.Schema(a=range(10), b=range(4)))
    largest = ln.MaxVariance()
    dense = ln.design(asked, ln.GDP(1), method="dense", objective=largest).certificate
    found = ln.design(asked, ln.GDP(1), method="residuals", objective=largest).certificate
    assert dense.lower_bound * (1 - SOLVER) <= found.achieved <= 1.001 * dense.achieved
    assert 0.99 * dense.achieved <= found.lower_bound <= dense.achieved * (1 + SOLVER)


def crossing_tables(seed: int) -> ln.Workload:
    """Tables of two of three attributes, and some of one, with targets and weights of their own."""
    rng = np.random.default_rng(seed)
    schema = ln.Schema(**{name: range(int(rng.integers(3, 7))) for name in "abc"})
    kinds = (ln.Marginal, ln.Prefix, ln.AllRanges)
    pairs = list(combinations("abc", 2))
    chosen = [pairs[i] for i in rng.permutation(3)[: 2 + int(rng.integers(2))]]
    queries = []
    for x, y in chosen:
        query = kinds[rng.integers(3)](x) * kinds[rng.integers(3)](y)
        stderr, weight = 3 * np.exp(rng.normal() / 2), np.exp(rng.normal())
        queries.append(query.having(stderr=float(stderr), weight=float(weight)))
    return ln.assemble(queries, schema)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1, 4))
def test_totals_within_tight_targets_are_near_the_optimum(seed: int) -> None:
    asked = crossing_tables(seed)
    least = ln.design(asked, method="dense").mu
    assert least is not None
    goal = ln.GDP(1.02 * least)
    dense = ln.design(asked, goal, method="dense").certificate
    plan = ln.design(asked, goal, method="residuals")
    assert plan.factor is not None and plan.factor <= 1
    assert dense.lower_bound * (1 - SOLVER) <= plan.certificate.achieved <= 1.03 * dense.achieved
    assert 0.97 * dense.achieved <= plan.certificate.lower_bound <= dense.achieved * (1 + SOLVER)


COUNTING_ALL: dict[str, list[ln.Query]] = {
    "beside running sums": [ln.Ranges("b", [(0, 4)]), ln.Prefix("a")],
    "asked twice": [ln.Ranges("b", [(0, 4), (0, 4)]) * ln.Prefix("a"), ln.Prefix("a") * ln.Marginal("c")],
}


@pytest.mark.parametrize("name", COUNTING_ALL)
def test_rows_that_count_everyone_need_no_residuals(name: str) -> None:
    # What rounding left of their residuals asked for a block that nobody measures, and the plan was refused.
    asked = ln.assemble(COUNTING_ALL[name], ln.Schema(a=range(3), b=range(5), c=range(2)))
    dense = ln.design(asked, ln.GDP(1), method="dense").certificate
    found = ln.design(asked, ln.GDP(1), method="residuals").certificate
    assert dense.lower_bound * (1 - SOLVER) <= found.achieved <= 1.01 * dense.achieved
    assert found.lower_bound <= dense.achieved * (1 + SOLVER)
