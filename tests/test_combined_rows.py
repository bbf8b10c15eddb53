"""Combinations of queries over many cells: exact in privacy, right in answers, and near the optimum.

Small workloads take the way of large ones; the judges are the dense optimum, all columns written out, and
counts by hand.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.bounds import certify, nuclear_norm
from leastnoise.core import container, merged_cells
from leastnoise.core.errors import DesignError, MethodError, PlanFileError, QueryError
from leastnoise.core.operators import AllOnes, CumulativeSum, Identity, Kronecker, Matrix, Selected, Stack
from leastnoise.core.table_rows import TableRows
from leastnoise.planning import Plan, design, load_plan, plan_from_parts
from leastnoise.planning.families import dense, few_queries
from leastnoise.privacy import GDP
from leastnoise.query import Marginal, MaxVariance, Schema, Where, Workload, assemble
from leastnoise.release import adjust, measure
from leastnoise.report import audit, summarize
from leastnoise.strategy import TableColumns
from leastnoise.strategy.combined_rows import CombinedRows
from support import refuses
from tolerances import ROUNDING, SOLVER

SCHEMA = Schema(a=range(6), b=range(5), c=range(4))
GAP = 1e-3


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "MAX_CELLS", 10)
    monkeypatch.setattr(dense, "MAX_ROW_ENTRIES", 10)


def conditions(seed: int, count: int = 7) -> Workload:
    rng = np.random.default_rng(seed)
    queries = []
    for j in range(count):
        parts = [f"{name} >= {rng.integers(1, 4)}" for name in rng.choice(list("abc"), size=2, replace=False)]
        text = (" or " if rng.random() < 0.5 else " and ").join(parts)
        queries.append(Where(text, name=f"q{j}", weight=float(rng.integers(1, 4))))
    return assemble(queries, SCHEMA)


def combined(workload: Workload) -> tuple[Plan, CombinedRows]:
    plan = design(workload, GDP(1), method="dense", tol=GAP)
    assert isinstance(plan.strategy, CombinedRows)
    return plan, plan.strategy


def test_the_plan_is_near_the_dense_optimum_and_answers_as_counted_by_hand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for seed in range(6):
        workload = conditions(seed)
        plan, strategy = combined(workload)
        assert plan.certificate.status == "optimal" and 0 <= plan.certificate.gap <= GAP
        with monkeypatch.context() as patch:
            patch.setattr(dense, "MAX_CELLS", 20_000)
            judge = design(workload, GDP(1), method="dense")
        assert judge.certificate.achieved <= plan.certificate.achieved * (1 + ROUNDING)
        assert plan.certificate.lower_bound <= judge.certificate.achieved
        assert plan.certificate.achieved <= (1 + GAP) * judge.certificate.achieved
        # Privacy, by all columns in Python integers.
        A = strategy.dense().astype(object)
        costs = [sum(int(a) ** 2 for a in column) for column in A.T.tolist()]
        assert list(strategy.column_costs) == costs and strategy.sensitivity == max(costs)
        assert costs[strategy.costliest_cell] == max(costs)
        assert strategy.spent == Fraction(max(costs), strategy.scale**2) <= 1
        # Answers and variances.
        W = workload.dense()
        x = np.random.default_rng(seed).integers(0, 10**6, size=W.shape[1])
        y = strategy.exact_answers(lambda _, x=x: [x])  # type: ignore[misc]
        assert y.tolist() == [sum(int(a) * int(b) for a, b in zip(row, x, strict=True)) for row in A.tolist()]
        big = x.astype(object) << 70
        assert strategy.exact_answers(lambda _, big=big: [big]).tolist() == [v << 70 for v in y.tolist()]  # type: ignore[misc]
        assert strategy.answers_of(workload, y) == pytest.approx(W @ x, rel=1e-9)
        gains = W @ np.linalg.pinv(A.astype(float))
        assert strategy.variances_of(workload) == pytest.approx(
            strategy.noise_variance * (gains**2).sum(axis=1), rel=1e-8
        )
        cells = np.linalg.pinv(A.astype(float)) @ y.astype(float)
        assert strategy.estimates(y) == pytest.approx(cells, rel=1e-6, abs=1e-3)
        plan.save(tmp_path / "plan")
        again = load_plan(tmp_path / "plan")
        assert again.digest == plan.digest and isinstance(again.strategy, CombinedRows)
        assert certify(workload, again).achieved == plan.certificate.achieved


def test_queries_that_depend_on_others_are_combined_once() -> None:
    W = np.random.default_rng(0).integers(0, 2, size=(4, 30))
    workload = Workload.from_matrix(np.vstack([W, W[0] + W[1], W[2]]))
    plan, strategy = combined(workload)
    assert strategy.n_measured == 4 and len(strategy.positions) == 4
    assert plan.certificate.status == "optimal"
    x = np.arange(30)
    answers = strategy.answers_of(workload, strategy.exact_answers(lambda _: [x]))
    assert answers == pytest.approx(workload.dense() @ x, rel=1e-9)


def test_a_direction_that_one_cell_has_is_not_lost() -> None:
    W = np.random.default_rng(1).integers(0, 2, size=(3, 2_000))
    W[0] = 0
    W[0, 1_234] = 1
    _, strategy = combined(Workload.from_matrix(W))
    x = np.random.default_rng(2).integers(0, 9, size=2_000)
    answers = strategy.answers_of(Workload.from_matrix(W), strategy.exact_answers(lambda _: [x]))
    assert answers == pytest.approx(W @ x, rel=1e-9)


def test_the_longest_column_is_exact_where_rows_are_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products tell apart the cells of their own tables; near ties are settled in integers all the same."""
    monkeypatch.setattr(TableRows, "is_quick", True)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(2, 5, size=3)
        kinds = [Identity, CumulativeSum]
        parts = []
        for added_up in rng.permutation(3)[:2]:
            along = [AllOnes if a == added_up else kinds[rng.integers(2)] for a in range(3)]
            parts.append(Kronecker([make(int(n)) for make, n in zip(along, sizes, strict=True)]))
        stack = Stack(parts)
        some = np.sort(rng.permutation(stack.shape[0])[: max(1, 3 * stack.shape[0] // 4)])
        queries = Selected(stack, some)
        k = len(some)
        C = np.triu(rng.integers(-(2**40), 2**40, size=(k, k)))
        if seed % 2:
            # Columns whose lengths differ by a unit or by nothing.
            C = np.diag(np.full(k, 2**40)) + np.triu(rng.integers(0, 2, size=(k, k)), 1)
        C[np.diag_indices(k)] += 2**41
        strategy = CombinedRows(C, queries, some, scale=1, noise="gaussian")
        assert isinstance(strategy._columns, TableColumns)
        A = C.astype(object) @ stack.dense(np.int64)[some].astype(object)
        costs = [sum(int(a) ** 2 for a in column) for column in A.T.tolist()]
        assert strategy.sensitivity == max(costs) == costs[strategy.costliest_cell]


def test_the_longest_column_is_exact_among_ties() -> None:
    """Columns that floats cannot tell apart are compared in integers."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        C = np.triu(rng.integers(2**40, 2**41, size=(3, 3)))
        C[2, 2] = C[1, 1] + int(rng.integers(-1, 2))
        B = rng.integers(-1, 2, size=(3, 12))
        B[:, 0] = 1
        strategy = CombinedRows(C, Matrix(B), np.arange(3), scale=1, noise="gaussian")
        A = C.astype(object) @ B.astype(object)
        assert strategy.sensitivity == max(sum(int(a) ** 2 for a in column) for column in A.T.tolist())
        replaced = CombinedRows(
            C, Matrix(B), np.arange(3), scale=1, noise="gaussian", neighbours="replace-one"
        )
        columns = [*A.T.tolist(), [0, 0, 0]]
        assert replaced.sensitivity == max(
            sum((int(a) - int(b)) ** 2 for a, b in zip(c, d, strict=True)) for c in columns for d in columns
        )


def test_what_cannot_be_measured_is_refused() -> None:
    queries = Matrix(np.eye(2, 5, dtype=int))
    common: dict[str, Any] = {"scale": 1, "noise": "gaussian"}
    for wrong in (np.array([[1, 0], [1, 1]]), np.array([[1, 1], [0, 0]]), np.eye(3, dtype=int)):
        with refuses(DesignError, "strategy", ..., "triangle"):
            CombinedRows(wrong, queries, np.arange(2), **common)
    with refuses(DesignError, "noise", ..., "Gaussian"):
        CombinedRows(np.eye(2, dtype=int), queries, np.arange(2), scale=1, noise="laplace")
    with refuses(DesignError, "workload", ..., "too large"):
        CombinedRows(np.eye(2, dtype=int), Matrix([[2**50, 0], [0, 1]]), np.arange(2), **common)


def test_other_goals_over_so_many_cells_are_refused_with_the_reason() -> None:
    workload = conditions(0)
    with refuses(MethodError, "method", "dense", "10 cells"):
        design(workload, GDP(1), objective=MaxVariance(), method="dense")
    with refuses(MethodError, "method", "dense", "cells"):
        design(workload, GDP(1, neighbours="replace-one"), method="dense")


def test_releases_reports_and_audits_know_such_plans() -> None:
    workload = conditions(1)
    plan, _ = combined(workload)
    counts = np.random.default_rng(0).integers(0, 100, size=workload.shape[1])
    with pytest.warns(UserWarning, match="no ledger"):
        release = measure(plan, counts)
    errors = (release.answers - workload.dense() @ counts) / release.stderr
    assert np.abs(errors).max() < 6
    assert "q0" in summarize(release).text()
    low, high = release.interval(level=0.9)
    assert (low < release.answers).all() and (release.answers < high).all()
    with refuses(QueryError, "query", "a 0", "cannot be answered by this plan"):
        release.answer(Marginal("a"))
    possible = adjust(release)
    assert possible.estimates.min() >= 0
    assert np.abs(possible.answers - workload.dense() @ possible.estimates).max() <= 1e-6
    assert np.abs((possible.answers - workload.dense() @ counts) / release.stderr).max() < 6
    found = audit(plan, draws=100)
    assert found.keeps_its_word and found.pair is not None and found.pair.is_worst


def test_a_tampered_file_is_refused(tmp_path: Path) -> None:
    plan, _ = combined(conditions(2))
    path = tmp_path / "plan"
    plan.save(path)
    content, arrays = container.read(path, "plan")
    for wrong in (np.array([0, 0]), np.array([99]), np.array([], dtype=int), np.array([0.5])):
        with pytest.raises(PlanFileError):
            plan_from_parts(content, {**arrays, "combined": wrong}, "plan")
    assert json.dumps(content["structure"]) == '{"kind": "combined"}'


def test_the_gap_at_which_it_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = design(conditions(3), GDP(1), method="dense")
    assert plan.certificate.gap <= 2 * few_queries.LEAST_GAP
    assert plan.ended == "exhausted" and plan.claim == "stopped"


@pytest.mark.thorough
def test_passes_over_all_cells_on_a_device_are_near_the_dense_optimum() -> None:
    pytest.importorskip("torch")
    for seed in range(4):
        workload = conditions(seed)
        plan = design(workload, GDP(1), method="dense", tol=4 * GAP, backend="torch")
        assert isinstance(plan.strategy, CombinedRows)
        assert "accelerated weights" in plan.note
        # The same queries as a matrix of few cells take another way.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dense, "MAX_CELLS", 20_000)
            optimum = design(workload, GDP(1), method="dense")
        assert "accelerated weights" not in optimum.note
        best = optimum.certificate.achieved
        assert plan.certificate.lower_bound <= best * (1 + optimum.certificate.gap)
        assert best <= plan.certificate.achieved * (1 + ROUNDING)
        assert plan.certificate.gap <= 4 * GAP
        assert certify(workload, plan).gap == pytest.approx(plan.certificate.gap, rel=ROUNDING)


def test_cells_too_many_to_be_compared_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    _, strategy = combined(conditions(4))
    again = CombinedRows(
        strategy.coefficients,
        strategy.queries,
        strategy.positions,
        scale=strategy.scale,
        noise="gaussian",
    )
    monkeypatch.setattr(merged_cells, "MAX_COMPARED_ENTRIES", 1)
    assert again.sensitivity == strategy.sensitivity
    assert again._columns.shape[1] == again.n_cells > strategy._columns.shape[1]


def test_more_queries_are_taken_where_a_device_passes_over_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(few_queries, "MAX_QUERIES", 6)
    assert "kinds of cells" not in design(conditions(0), GDP(1), method="dense", tol=GAP).note
    plan = design(conditions(0), GDP(1), method="dense", tol=GAP, backend="torch")
    assert "kinds of cells" in plan.note


def test_a_bound_over_many_cells_needs_no_floats_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(5):
        workload = conditions(seed)
        q = np.random.default_rng(seed).random(workload.shape[1])
        bound = nuclear_norm.total_variance_bound(workload, q)
        with monkeypatch.context() as patch:
            for limit in ("_SVD_ENTRIES", "_WHOLE_ENTRIES"):
                patch.setattr(nuclear_norm, limit, 1)
            patch.setattr(nuclear_norm, "_CELLS_AT_A_TIME", 7)
            patch.setattr(nuclear_norm, "weighted_rows", None)
            assert nuclear_norm.total_variance_bound(workload, q) == pytest.approx(bound, rel=SOLVER)


def test_queries_of_zeros_spend_nothing_anywhere() -> None:
    """Asking for the costliest cell raised where no cell is in any query."""
    nothing = CombinedRows(
        np.eye(2, dtype=int), Matrix(np.zeros((2, 5), dtype=int)), np.arange(2), scale=1, noise="gaussian"
    )
    assert nothing.sensitivity == 0 and nothing.costliest_cell == 0
