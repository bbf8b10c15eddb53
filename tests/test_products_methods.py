"""Product and marginals against the dense optimum, and far beyond what is dense."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.bounds import ProductWitness, certify
from leastnoise.bounds.product_bound import checked_product_witness, product_dual_bound
from leastnoise.core.errors import DesignError, InfeasibleError, MethodError, QueryError, UnrecordedSpending
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.tables import WeightedTables
from support import refuses
from tolerances import SOLVER

SCHEMA = ln.Schema(a=range(3), b=("x", "y"), c=range(5))
TABLES = [ln.Marginal("a", "b"), ln.Marginal("c", weight=3.0), ln.Marginal("b", "c"), ln.Total(weight=0.5)]
PRODUCT = ln.Prefix("c") * ln.AllRanges("a") * ln.Marginal("b")


def achieved(queries: Any, method: str, goal: ln.Goal | None = None, **given: Any) -> float:
    goal = ln.GDP(1) if goal is None and "objective" not in given else goal
    plan = ln.design(ln.assemble(queries, SCHEMA), goal, method=method, **given)
    assert plan.certificate.status == "optimal"
    return plan.certificate.achieved


@pytest.mark.parametrize("objective", [ln.TotalVariance(), ln.MaxVariance()], ids=str)
def test_cross_tables_reach_the_dense_optimum(objective: Any) -> None:
    dense = achieved(TABLES, "dense", ln.GDP(0.7), objective=objective)
    assert achieved(TABLES, "marginals", ln.GDP(0.7), objective=objective) == pytest.approx(dense, rel=SOLVER)


def test_cross_tables_with_an_attribute_in_every_table_do_not_split_it() -> None:
    tables = [ln.Marginal("a", "b"), ln.Marginal("b", "c"), ln.Marginal("b")]
    plan = ln.design(ln.assemble(tables, SCHEMA), ln.GDP(1), method="marginals")
    assert isinstance(plan.strategy, Structured)
    assert [own[0].kind for own in plan.strategy.forms] == ["centred", "identity", "centred"]
    assert plan.certificate.achieved == pytest.approx(achieved(tables, "dense"), rel=SOLVER)


def with_targets(scale: float) -> list[ln.Query]:
    targets = (2.0, 1.5, 3.0, 4.0)
    return [query.having(stderr=scale * t) for query, t in zip(TABLES, targets, strict=True)]


def test_targets_are_met_with_the_least_privacy() -> None:
    targets = with_targets(1.0)
    dense = ln.design(ln.assemble(targets, SCHEMA), method="dense")
    plan = ln.design(ln.assemble(targets, SCHEMA), method="marginals")
    assert plan.certificate.status == "optimal"
    assert plan.certificate.achieved == pytest.approx(dense.certificate.achieved, rel=SOLVER)
    assert plan.factor is not None and plan.factor <= 1


def test_the_least_total_within_targets() -> None:
    least = ln.design(ln.assemble(with_targets(1.0), SCHEMA), method="marginals").mu
    assert least is not None
    goal = ln.GDP(1.05 * least)
    dense = achieved(with_targets(1.0), "dense", goal)
    assert achieved(with_targets(1.0), "marginals", goal) == pytest.approx(dense, rel=SOLVER)
    with refuses(InfeasibleError, "stderr", ..., "cannot be met") as refused:
        ln.design(ln.assemble(with_targets(1.0), SCHEMA), ln.GDP(0.95 * least), method="marginals")
    assert isinstance(refused.value.witness, ProductWitness)
    assert refused.value.factor == pytest.approx(1 / 0.95, rel=1e-3)


@pytest.mark.parametrize("objective", [ln.TotalVariance(), ln.MaxVariance()], ids=str)
def test_one_product_reaches_the_dense_optimum(objective: Any) -> None:
    dense = achieved([PRODUCT], "dense", ln.GDP(2), objective=objective)
    assert achieved([PRODUCT], "product", ln.GDP(2), objective=objective) == pytest.approx(dense, rel=SOLVER)


def test_one_product_with_a_target() -> None:
    asked = ln.assemble([PRODUCT.having(stderr=2.0)], SCHEMA)
    dense, plan = ln.design(asked, method="dense"), ln.design(asked, method="product")
    assert plan.certificate.achieved == pytest.approx(dense.certificate.achieved, rel=SOLVER)
    assert plan.factor is not None and plan.factor <= 1


def test_methods_for_products_say_what_they_cannot_do() -> None:
    def asked(*queries: ln.Query) -> Any:
        return ln.assemble(queries, SCHEMA)

    for given, method, words in (
        (asked(ln.Prefix("c"), ln.Total()), "product", "single product"),
        (asked(ln.Prefix("c")), "marginals", "cross tables"),
        (ln.Workload.from_matrix(np.eye(3)), "marginals", "matrix over all cells"),
        (asked(ln.Linear(np.eye(30))), "product", "matrix over all cells"),
        (asked(PRODUCT.having(stderr=9)), "product", "not a product of what its attributes need"),
    ):
        with refuses(MethodError, "method", ..., words):
            ln.design(given, ln.GDP(1), method=method)
    with refuses(MethodError, "method", "marginals", "relative_to"):
        ln.design(
            asked(*TABLES), ln.GDP(1), method="marginals", objective=ln.TotalVariance(relative_to="uniform")
        )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", ["marginals", "product"])
def test_replacing_records_keeps_the_goal(method: str, neighbours: Any) -> None:
    queries = TABLES if method == "marginals" else [PRODUCT]
    goal = ln.GDP(1, neighbours=neighbours)
    plan = ln.design(ln.assemble(queries, SCHEMA), goal, method=method)
    assert plan.strategy is not None and plan.strategy.spent <= 1
    expected = "heuristic" if neighbours == "replace-one" and method == "product" else "optimal"
    assert plan.certificate.status == expected
    A = plan.strategy.dense().astype(float) / plan.strategy.scale
    columns = np.column_stack([A, np.zeros(len(A))])
    pairs = [(columns[:, i] - columns[:, j]) for i, j in itertools.combinations(range(columns.shape[1]), 2)]
    worst = (
        max(float(d @ d) for d in pairs) if neighbours == "replace-one" else float((A**2).sum(axis=0).max())
    )
    assert worst <= 1 + 1e-9


def test_weighted_tables_reach_what_is_known_of_two_way_tables() -> None:
    """85.60 per count for the pairs of five attributes of ten, in units of 2/ε², as printed for HDMM."""
    schema = ln.Schema(**{f"a{i}": range(10) for i in range(5)})
    asked = ln.assemble([ln.Cube(*schema.names, order=(2,))], schema)
    plan = ln.design(asked, ln.PureDP(2**0.5), method="marginals")
    assert isinstance(plan.strategy, WeightedTables)
    assert plan.certificate.achieved / 1000 <= 85.60 * (1 + 1e-6)
    assert plan.strategy.spent <= plan.privacy.budget


def test_weighted_tables_keep_the_largest_variance_small() -> None:
    schema = ln.Schema(a=range(2), b=range(20), c=range(3))
    asked = ln.assemble([ln.Marginal("a"), ln.Marginal("b"), ln.Marginal("a", "c")], schema)
    total = ln.design(asked, ln.PureDP(1), method="marginals")
    largest = ln.design(asked, ln.PureDP(1), method="marginals", objective=ln.MaxVariance())
    assert total.stderr is not None and largest.stderr is not None
    assert largest.stderr.max() < total.stderr.max()


# Far beyond dense ------------------------------------------------------------------------------------------

FORTY = ln.Schema(**{f"a{i}": range(10) for i in range(40)})


@pytest.mark.thorough
def test_ten_to_the_forty_cells_all_the_way(tmp_path: Any) -> None:
    asked = ln.assemble([ln.Cube(*FORTY.names, order=2)], FORTY)
    assert asked.shape == (78_401, 10**40)
    plan = ln.design(asked, ln.ApproxDP(1, 1e-6))
    assert plan.method == "marginals"
    assert certify(asked, plan).gap <= 1e-9
    again = ln.load_plan(plan.save(tmp_path / "forty.plan"))
    assert again.certificate.achieved == plan.certificate.achieved
    people = {name: np.random.default_rng(i).integers(0, 10, 500) for i, name in enumerate(FORTY.names)}
    import pandas

    table = pandas.DataFrame(people)
    with pytest.warns(UnrecordedSpending):
        given = ln.measure(again, table)
    truth = np.concatenate([[500.0], *(np.bincount(people[n], minlength=10) for n in FORTY.names)])
    assert plan.stderr is not None
    errors = (given.answers[: len(truth)] - truth) / plan.stderr[: len(truth)]
    assert np.abs(errors).max() < 6
    assert 0.8 < np.sqrt(np.mean(errors**2)) < 1.2
    shown = str(ln.summarize(given))
    assert "78,401 counts" in shown and "this is the optimum, proved" in shown
    pair = given.answer(ln.Marginal("a3", "a7"))
    crossed = pandas.crosstab(table["a3"], table["a7"]).to_numpy().reshape(-1)
    assert np.abs(pair["answer"].to_numpy() - crossed).max() < 6 * pair["stderr"].max()
    with refuses(QueryError, "query", "a1 0, a2 0, a3 0", "cannot be answered"):
        given.answer(ln.Marginal("a1", "a2", "a3"))
    saved = given.save(tmp_path / "forty.release")
    assert (ln.load_release(saved).measurements == given.measurements).all()


def test_covariances_within_and_across_tables() -> None:
    asked = ln.assemble([ln.Cube(*FORTY.names, order=2)], FORTY)
    plan = ln.design(asked, ln.GDP(1))
    within = plan.covariance(ln.Marginal("a0", "a1"))
    assert np.diag(within) == pytest.approx(plan.variance(ln.Marginal("a0", "a1")), rel=1e-9)
    across = plan.covariance(ln.Marginal("a0"), ln.Marginal("a0", "a1"))
    # Adding a1 up gives a0 itself.
    summed = across.reshape(10, 10, 10).sum(axis=2)
    assert summed == pytest.approx(plan.covariance(ln.Marginal("a0")), abs=1e-9 * across.max())


def test_a_large_product_is_solved_factor_by_factor() -> None:
    schema = ln.Schema(x=range(200), y=range(150), z=range(50))
    asked = ln.assemble([ln.Prefix("x") * ln.Prefix("y") * ln.Marginal("z")], schema)
    plan = ln.design(asked, ln.GDP(1))
    assert plan.method == "product"
    assert plan.certificate.gap <= 1e-6
    # Each factor by itself, and fifty plain counts.
    alone = [
        ln.design(ln.assemble([ln.Prefix("n")], ln.Schema(n=range(n))), ln.GDP(1)).certificate.achieved
        for n in (200, 150)
    ]
    assert plan.certificate.achieved == pytest.approx(alone[0] * alone[1] * 50, rel=1e-6)


# The bound ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_product_form_prove_what_those_of_cells_prove(seed: int) -> None:
    from leastnoise.bounds import Witness
    from leastnoise.bounds.cell_bound import dual_bound

    rng = np.random.default_rng(seed)
    queries = [ln.Prefix("c") * ln.Marginal("a"), ln.Marginal("b"), ln.Where("a > 0 and c < 3"), *TABLES[:1]]
    asked = ln.assemble(queries, SCHEMA)
    q = tuple(rng.random(size) for size in (3, 2, 5))
    cells = np.einsum("i,j,k->ijk", *q).reshape(-1)
    objective = ln.TotalVariance()
    witness = checked_product_witness(ProductWitness(q), asked, objective)
    bound, _ = product_dual_bound(asked, objective, witness, unit_variance=1.0)
    exact, _ = dual_bound(asked, objective, Witness(None, cells), unit_variance=1.0)
    assert bound <= exact * (1 + 1e-9)
    assert bound >= 0.9 * exact
    p = rng.random(len(queries))
    witness = checked_product_witness(ProductWitness(q, p), asked, ln.MaxVariance())
    bound, _ = product_dual_bound(asked, ln.MaxVariance(), witness, unit_variance=1.0)
    rows = np.concatenate([np.full(b.n_rows, p[i]) for i, b in enumerate(asked.blocks)])
    exact, _ = dual_bound(asked, ln.MaxVariance(), Witness(rows, cells), unit_variance=1.0)
    assert bound <= exact * (1 + 1e-9)
    assert bound >= 0.9 * exact


def test_weights_that_do_not_fit_are_refused() -> None:
    asked = ln.assemble(TABLES, SCHEMA)
    for witness in (
        ProductWitness((np.ones(3), np.ones(2))),
        ProductWitness((np.ones(3), np.ones(2), np.ones(4))),
        ProductWitness((np.ones(3), np.ones(2), -np.ones(5))),
        ProductWitness((np.ones(3), np.ones(2), np.ones(5)), np.ones(9)),
        ProductWitness((np.ones(3), np.ones(2), np.ones(5)), None, {(0, 2): np.ones(3)}),
    ):
        with pytest.raises(DesignError):
            checked_product_witness(witness, asked, ln.MaxVariance())
    with refuses(DesignError, "witness", ..., "matrix over all cells"):
        checked_product_witness(
            ProductWitness((np.ones(3),)), ln.Workload.from_matrix(np.eye(3)), ln.TotalVariance()
        )


def test_attributes_that_nothing_mentions_change_nothing() -> None:
    wide = ln.Schema(a=range(30), b=("x", "y"), idle=range(40))
    for queries, method in (
        ([ln.Marginal("a", "b"), ln.Marginal("a")], "marginals"),
        ([ln.Prefix("a") * ln.Marginal("b")], "product"),
        ([ln.Prefix("a"), ln.Marginal("b")], "residuals"),
    ):
        plan = ln.design(ln.assemble(queries, wide), ln.GDP(1), method=method)
        narrow = ln.Schema(a=range(30), b=("x", "y"))
        alone = ln.design(ln.assemble(queries, narrow), ln.GDP(1), method=method)
        assert plan.certificate.achieved == pytest.approx(alone.certificate.achieved, rel=1e-9)
        assert plan.certificate.lower_bound == pytest.approx(alone.certificate.lower_bound, rel=1e-9)
