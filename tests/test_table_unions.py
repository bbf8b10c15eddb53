"""Dense noise over the tables that products cross, against matrices over all cells and the dense optimum.

Small workloads take the way of large ones.
"""

from __future__ import annotations

from importlib import import_module
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from leastnoise.bounds import certify
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.core.operators import Array
from leastnoise.core.progress import Progress
from leastnoise.planning import design, load_plan
from leastnoise.planning.families import dense, few_tables
from leastnoise.planning.families.few_tables import TableBasis
from leastnoise.planning.method import Request
from leastnoise.privacy import GDP
from leastnoise.query import (
    AllRanges,
    Marginal,
    MaxVariance,
    Prefix,
    Query,
    Ranges,
    Schema,
    Total,
    Workload,
    assemble,
)
from leastnoise.release import measure
from leastnoise.solver import TablePasses, least_total_by_descent
from leastnoise.strategy.combined_rows import CombinedRows
from tolerances import ROUNDING

N_DRAWS = 20


def drawn_tables(rng: np.random.Generator) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Sizes of three or four axes, and some sets of one to three of them, each axis in one at least."""
    sizes = tuple(rng.integers(2, 5, size=int(rng.integers(3, 5))).tolist())
    every = [own for count in (1, 2, 3) for own in combinations(range(len(sizes)), count)]
    chosen = rng.choice(len(every), size=3, replace=False)
    return sizes, [every[i] for i in chosen]


def over_all_cells(sizes: tuple[int, ...], axes: tuple[int, ...], rows: list[Array]) -> Array:
    """A product of rows, with 1ᵀ for the axes that it adds up, over all cells."""
    found = np.ones((1, 1))
    for a, size in enumerate(sizes):
        found = np.kron(found, rows[axes.index(a)] if a in axes else np.ones((1, size)))
    return found


@pytest.mark.parametrize("seed", range(N_DRAWS))
def test_coordinates_weights_and_profiles_are_those_over_all_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, sets = drawn_tables(rng)
    tables = TableBasis(sizes, sets)
    n = int(np.prod(sizes))
    # B from the coordinates of all cells of every table: they span it.
    cells = [over_all_cells(sizes, own, [np.eye(sizes[a]) for a in own]) for own in sets]
    coordinates = [tables.coordinates(own, [np.eye(sizes[a]) for a in own]) for own in sets]
    B = np.linalg.lstsq(np.vstack(coordinates), np.vstack(cells), rcond=None)[0]
    assert np.allclose(B @ B.T, np.eye(tables.rank), atol=ROUNDING)
    assert np.linalg.matrix_rank(np.vstack(cells)) == tables.rank
    for own in sets:
        rows = [rng.normal(size=(3, sizes[a])) for a in own]
        W = over_all_cells(sizes, own, rows)
        assert np.allclose(tables.coordinates(own, rows) @ B, W, atol=ROUNDING)
        gram = tables.gram(own, [part.T @ part for part in rows])
        assert np.allclose(B.T @ gram @ B, W.T @ W, atol=1e3 * ROUNDING)
    q = rng.random(sizes)
    assert np.allclose(tables.rows.weighted_gram(q), (B * q.reshape(-1)) @ B.T, atol=ROUNDING)
    Y = rng.normal(size=(tables.rank, tables.rank))
    Y = Y @ Y.T
    u = tables.rows.squares(Y)
    assert np.allclose(u, np.einsum("ki,kl,li->i", B, Y, B), atol=1e3 * ROUNDING)
    assert len(u) == n


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
    assert "tables" in plan.note
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
    assert best.certificate.lower_bound >= plan.certificate.lower_bound * (1 - 1e-9)
    most = 1 + few_tables.LEAST_GAP + 1e-5
    assert best.certificate.lower_bound * (1 - 1e-9) <= plan.certificate.achieved
    assert plan.certificate.achieved <= most * best.certificate.achieved


def test_auto_ends_with_a_plan_over_tables_that_is_near_its_bound(small_is_large: None) -> None:
    """Before, `residuals` and `joint` were tried after it, which could gain a thousandth at most."""
    schema = Schema(a=range(9), b=range(8), c=range(9))
    crossed = [Prefix("a") * Marginal("b"), Prefix("b") * Marginal("c"), AllRanges("a") * Prefix("c")]
    plan = design(assemble(crossed, schema), GDP(1))
    assert plan.method == "dense" and {trial.name for trial in plan.tried} == {"plain", "dense"}
    assert plan.certificate.gap <= 5e-3


def request_of(workload: Workload, goal: GDP, **more: object) -> Request:
    return Request(workload, goal, **more)  # type: ignore[arg-type]


def test_what_tables_cannot_serve_is_refused() -> None:
    schema = Schema(a=range(4), b=range(4))
    crossed: list[Query] = [Prefix("a") * Marginal("b"), Total()]
    plain = assemble(crossed, schema)
    assert few_tables.refuses(request_of(plain, GDP(1))) is None
    assert few_tables.refuses(request_of(plain, GDP(1), objective=MaxVariance())) is not None
    assert few_tables.refuses(request_of(plain, GDP(1, neighbours="replace-one"))) is not None
    unweighted = assemble([crossed[0], Total(weight=0.0)], schema)
    assert few_tables.refuses(request_of(unweighted, GDP(1))) is not None


def test_a_search_over_tables_stops_at_its_gap_with_both_sides() -> None:
    tables = TableBasis((3, 4), [(0, 1)])
    R = np.random.default_rng(0).normal(size=(tables.rank, tables.rank))
    seen: list[Progress] = []
    found = least_total_by_descent(TablePasses(R, tables.rows), tol=1e-4, progress=seen.append)
    assert found.ended == "converged" and seen[-1].gap <= 1e-4 < seen[0].gap
    assert found.lower_bound <= found.achieved <= (1 + 1e-4) * found.lower_bound
    u = tables.rows.squares(found.root.T @ found.root)
    assert u.max() == pytest.approx(1.0, rel=1e-9)
