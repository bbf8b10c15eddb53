"""Dense noise over the rows of products, against matrices over all cells and the dense optimum.

Small workloads take the way of large ones.
"""

from __future__ import annotations

from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.bounds import certify
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.core.operators import Selected
from leastnoise.core.progress import Progress
from leastnoise.planning import design, load_plan
from leastnoise.planning.families import dense, row_space
from leastnoise.planning.method import Request
from leastnoise.privacy import GDP
from leastnoise.query import (
    AllRanges,
    Marginal,
    MaxVariance,
    Prefix,
    ProductRows,
    Query,
    Ranges,
    Schema,
    Total,
    Workload,
    assemble,
    products_of,
    union_rows,
)
from leastnoise.release import measure
from leastnoise.solver import RowPasses, least_total_by_descent
from leastnoise.strategy.combined_rows import CombinedRows
from leastnoise.strategy.longest_column import longest_column
from leastnoise.strategy.query_columns import ProductColumns
from tolerances import ROUNDING, SOLVER

N_DRAWS = 20


def drawn_tables(rng: np.random.Generator) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Sizes of three or four axes, and some sets of one to three of them, each axis in one at least."""
    sizes = tuple(rng.integers(2, 5, size=int(rng.integers(3, 5))).tolist())
    every = [own for count in (1, 2, 3) for own in combinations(range(len(sizes)), count)]
    chosen = rng.choice(len(every), size=3, replace=False)
    return sizes, [every[i] for i in chosen]


@pytest.mark.parametrize("seed", range(N_DRAWS))
def test_rows_of_products_pass_over_cells_as_a_matrix_over_all_of_them_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, sets = drawn_tables(rng)
    # A product that mentions nothing is the total.
    factors = [{a: rng.normal(size=(int(rng.integers(1, 4)), sizes[a])) for a in own} for own in [*sets, ()]]
    rows = ProductRows(sizes, tuple(factors))
    blocks = []
    for own in factors:
        block = np.ones((1, 1))
        for a, size in enumerate(sizes):
            block = np.kron(block, own.get(a, np.ones((1, size))))
        blocks.append(block)
    B = np.vstack(blocks)
    assert (rows.n_rows, rows.n_cells) == B.shape
    q = rng.random(rows.n_cells)
    assert np.allclose(rows.weighted_gram(q), (B * q) @ B.T, atol=1e3 * ROUNDING)
    S = rng.normal(size=(rows.n_rows, rows.n_rows))
    S = S + S.T
    assert np.allclose(rows.squares(S), np.einsum("ki,kl,li->i", B, S, B), atol=1e3 * ROUNDING)


@pytest.mark.parametrize("seed", range(N_DRAWS))
def test_rows_of_a_union_have_the_gram_matrix_of_its_queries(seed: int) -> None:
    workload = drawn_union(seed)
    products = products_of(workload)
    assert products is not None
    union, weights = union_rows(products), np.random.default_rng(seed).random(len(products.terms))
    q = np.random.default_rng(seed).random(workload.shape[1])
    K = union.rows(weights).weighted_gram(union.of_kinds(q))
    w = np.concatenate([np.full(term.n_rows, own) for term, own in zip(products.terms, weights, strict=True)])
    whole = (workload.dense() * np.sqrt(w)[:, None]) * np.sqrt(q)
    expected = np.linalg.svd(whole, compute_uv=False)
    found = np.sqrt(np.maximum(np.linalg.eigvalsh(K), 0))[::-1]
    least = min(len(found), len(expected))
    assert np.allclose(found[:least], expected[:least], atol=1e-6 * expected[0])
    # Weights on one cell of each kind, and a bound from either.
    first = union.on_first(union.of_kinds(q))
    assert first.sum() == pytest.approx(q.sum()) and np.count_nonzero(first) == union.n_cells
    assert union.n_rows >= np.linalg.matrix_rank(workload.dense())


def drawn_union(seed: int) -> Workload:
    """Some products of different kinds of rows over one to three of four small attributes."""
    rng = np.random.default_rng(seed)
    sizes, sets = drawn_tables(rng)
    schema = Schema(**{name: range(size) for name, size in zip("abcd", sizes, strict=False)})

    def rows(a: int) -> Query:
        name = "abcd"[a]
        pairs = Ranges(name, [(i, i + 1) for i in range(sizes[a] - 1)])
        return (Marginal(name), Prefix(name), AllRanges(name), pairs)[int(rng.integers(4))]

    queries: list[Query] = []
    for own in sets:
        query = rows(own[0])
        for a in own[1:]:
            query = query * rows(a)
        queries.append(query)
    return assemble(queries, schema)


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "MAX_CELLS", 1)
    monkeypatch.setattr(dense, "_PLAIN", 1)
    monkeypatch.setattr(dense, "MAX_ROW_ENTRIES", 1)
    monkeypatch.setattr(dense.few_queries, "MAX_QUERIES", 0)
    monkeypatch.setattr(import_module("leastnoise.strategy.combined_rows"), "MANY_DIRECTIONS", 4)


@pytest.mark.parametrize("seed", range(N_DRAWS))
def test_the_plan_is_near_the_dense_optimum_and_answers_every_query(
    seed: int, small_is_large: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    workload = drawn_union(seed)
    plan = design(workload, GDP(1), method="dense")
    assert isinstance(plan.strategy, CombinedRows)
    assert "directions of products" in plan.note
    found = certify(workload, plan)
    assert found.lower_bound == pytest.approx(plan.certificate.lower_bound, rel=ROUNDING)
    # What is measured answers every query, and spends what it says.
    x = np.random.default_rng(seed).integers(0, 50, size=workload.shape[1])
    rows = plan.strategy.dense().astype(float)
    assert np.abs(rows).sum() > 0
    assert plan.strategy.sensitivity == int((plan.strategy.dense().astype(object) ** 2).sum(axis=0).max())
    W = workload.dense()
    gains = np.linalg.lstsq(rows.T, W.T, rcond=None)[0].T
    assert np.allclose(gains @ rows, W, atol=1e-7)
    expected = plan.strategy.noise_variance * (gains**2).sum(axis=1)
    assert np.allclose(plan.stderr**2, expected, rtol=1e-6)
    path = tmp_path / "plan"
    plan.save(path)
    with pytest.warns(UnrecordedSpending):
        release = measure(load_plan(path), x)
    assert np.abs((release.answers - W @ x) / plan.stderr).max() < 7
    monkeypatch.undo()
    best = design(workload, GDP(1), method="dense")
    assert plan.certificate.lower_bound <= best.certificate.achieved * (1 + 1e-9)
    most = 1 + row_space.LEAST_GAP + 1e-5
    assert best.certificate.lower_bound * (1 - 1e-9) <= plan.certificate.achieved
    assert plan.certificate.achieved <= most * best.certificate.achieved


@pytest.mark.parametrize("method", ["auto", "dense", "residuals"])
@pytest.mark.parametrize("objective", [ln.TotalVariance(), ln.MaxVariance(), ln.AbsoluteError()])
def test_what_counts_nobody_needs_no_noise(method: str, objective: Any) -> None:
    """A condition that holds for no cell, alone and crossed: its answer is 0, and the others are planned."""
    schema = ln.Schema(a=range(6), b=range(5), c=range(4))
    never = ln.Where("a < 2 and a > 3")
    queries = [ln.AllRanges("b") * ln.Prefix("a"), never * ln.Marginal("c"), never, ln.Total()]
    workload = ln.assemble([query.having(stderr=50.0) for query in queries], schema)
    plan = ln.design(workload, ln.GDP(1), objective=objective, method=method)
    assert plan.stderr is not None
    assert (plan.stderr[~workload.dense().any(axis=1)] == 0).all()
    best = ln.design(workload, ln.GDP(1), objective=objective, method="dense")
    assert plan.certificate.lower_bound <= best.certificate.achieved * (1 + SOLVER)


def test_auto_ends_with_a_plan_over_rows_that_is_near_its_bound(small_is_large: None) -> None:
    """Before, `residuals` and `joint` were tried after it, which could gain a thousandth at most."""
    schema = Schema(a=range(9), b=range(8), c=range(9))
    crossed = [Prefix("a") * Marginal("b"), Prefix("b") * Marginal("c"), AllRanges("a") * Prefix("c")]
    plan = design(assemble(crossed, schema), GDP(1))
    assert plan.method == "dense" and {trial.name for trial in plan.tried} == {"plain", "dense"}
    assert plan.certificate.gap <= 5e-3


def request_of(workload: Workload, goal: GDP, **more: object) -> Request:
    return Request(workload, goal, **more)  # type: ignore[arg-type]


def test_what_rows_of_products_cannot_serve_is_refused() -> None:
    schema = Schema(a=range(4), b=range(4))
    crossed: list[Query] = [Prefix("a") * Marginal("b"), Total()]
    plain = assemble(crossed, schema)
    assert row_space.refuses(request_of(plain, GDP(1))) is None
    assert row_space.refuses(request_of(plain, GDP(1), objective=MaxVariance())) is not None
    assert row_space.refuses(request_of(plain, GDP(1, neighbours="replace-one"))) is not None
    unweighted = assemble([crossed[0], Total(weight=0.0)], schema)
    assert row_space.refuses(request_of(unweighted, GDP(1))) is not None


def test_a_search_over_rows_stops_at_its_gap_with_both_sides() -> None:
    rng = np.random.default_rng(0)
    rows = ProductRows((3, 4), ({0: rng.normal(size=(3, 3)), 1: rng.normal(size=(2, 4))}, {1: np.eye(4)}))
    seen: list[Progress] = []
    found = least_total_by_descent(RowPasses(rows, rows.n_rows), tol=1e-4, progress=seen.append)
    assert found.ended == "converged" and seen[-1].gap <= 1e-4 < seen[0].gap
    assert found.lower_bound <= found.achieved <= (1 + 1e-4) * found.lower_bound
    u = rows.squares(found.root.T @ found.root)
    assert u.max() == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("seed", range(N_DRAWS))
def test_columns_of_crossed_rows_are_those_of_the_queries(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    workload, rng = drawn_union(seed), np.random.default_rng(seed)
    k = int(rng.integers(1, workload.shape[0] + 1))
    positions = rng.permutation(workload.shape[0])[:k]
    queries = Selected(workload.operator, positions)
    monkeypatch.setattr(ProductRows, "work", -1.0)
    columns = ProductColumns.of(queries)
    assert columns is not None and columns.shape[0] == k
    B = queries.dense()
    d = columns.shape[1]
    assert np.array_equal(columns.take(np.arange(d)), B[:, columns.cells.first])
    assert np.array_equal(columns.cells.spread(columns.take(np.arange(d))), B)
    S = rng.normal(size=(k, k))
    S = S + S.T
    b = columns.take(np.arange(d)).astype(float)
    assert np.allclose(columns.squares(S), np.einsum("ki,kl,li->i", b, S, b), atol=1e4 * ROUNDING)
    weights = rng.random(d)
    assert np.allclose(columns.gram(weights), (b * weights) @ b.T, atol=1e3 * ROUNDING)
    assert all(b[row, at] != 0 for row, at in enumerate(columns.nonzero()) if b[row].any())
    C = np.triu(rng.integers(-9, 10, (k, k)))
    lengths = ((C @ B.astype(np.int64)) ** 2).sum(axis=0)
    found, at = longest_column(C, columns)
    assert found == lengths.max() and lengths[columns.cells.first[at]] == found
