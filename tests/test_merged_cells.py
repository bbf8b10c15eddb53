"""Cells that no query tells apart: found exactly, and the optimum over one of each kind is that over all.

The judges share no code with what they judge: kinds are counted by hand in Python, optima come from the
workload over one cell of each kind, and sensitivities from a walk over all neighbours.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.bounds import certify, proves_infeasible
from leastnoise.core import merged_cells as module
from leastnoise.core.errors import InfeasibleError
from leastnoise.core.merged_cells import Cells, can_compare, merged_cells
from leastnoise.core.operators import Matrix, Operator, SparseMatrix
from leastnoise.planning import design, load_plan
from leastnoise.planning.families import dense
from leastnoise.privacy import GDP
from leastnoise.query import (
    Linear,
    MaxVariance,
    Objective,
    Schema,
    Targets,
    TotalVariance,
    Workload,
    assemble,
)
from leastnoise.solver import Run, least_total, least_total_of_many
from tolerances import ROUNDING, SOLVER

Array = np.ndarray[Any, Any]


def repeated(seed: int, *, is_real: bool = False) -> tuple[Array, Array]:
    """Few different columns, (m, d), and many copies of them in disorder, some turned, some zero: (m, n)."""
    rng = np.random.default_rng(seed)
    m, d, n = int(rng.integers(1, 6)), int(rng.integers(1, 8)), int(rng.integers(1, 40))
    few = rng.integers(-2, 3, size=(m, d)).astype(float)
    if is_real:
        few *= rng.standard_normal()
    return few, few[:, rng.integers(d, size=n)] * rng.choice([-1, 0, 1], size=n)


def kinds_by_hand(W: Array, *, up_to_sign: bool) -> int:
    seen = set()
    for column in (W + 0.0).T.tolist():
        if any(column):
            turned = tuple(-a + 0.0 for a in column)
            seen.add(min(tuple(column), turned) if up_to_sign else tuple(column))
    return len(seen)


@pytest.mark.parametrize("up_to_sign", [False, True])
@pytest.mark.parametrize("is_real", [False, True])
def test_kinds_are_those_counted_by_hand(is_real: bool, up_to_sign: bool) -> None:
    for seed in range(100):
        _, W = repeated(seed, is_real=is_real)
        for operator in (Matrix(W), sparse(W)):
            cells = merged_cells(operator, up_to_sign=up_to_sign)
            assert len(cells.first) == kinds_by_hand(W, up_to_sign=up_to_sign)
            assert np.array_equal(cells.spread(W[:, cells.first]), W)
            assert cells.counts.sum() == len(cells.kind) == cells.used.sum()
            assert (np.diff(cells.first) > 0).all()


def sparse(W: Array) -> Operator:
    from scipy.sparse import csr_array

    return SparseMatrix(csr_array(W))


def test_columns_that_only_collide_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that do not tell columns apart cost time, and no cell is taken for another."""

    class Constant:
        def integers(self, *_: Any, size: tuple[int, int], **__: Any) -> Array:
            return np.ones(size, dtype=np.int64)

    monkeypatch.setattr(module.np.random, "default_rng", lambda _: Constant())
    cells = merged_cells(Matrix([[1, 0, 1], [0, 1, 0]]), up_to_sign=True)
    assert cells.are_all


def test_large_whole_entries_stay_apart() -> None:
    """2^53 and 2^53 + 1 are one float: columns with such entries are not compared as floats."""
    assert not can_compare(Matrix([[2**53, 2**53 + 1, 2**53]]))


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COMPARED_ENTRIES", 5)
    assert not can_compare(Matrix([[1, 1, 1], [1, 1, 1]]))
    assert Workload.from_matrix([[1, 1, 1], [1, 1, 1]]).cells is None


# Designs -------------------------------------------------------------------------------------

OBJECTIVES = (TotalVariance(), MaxVariance(), Targets(), TotalVariance(within_targets=True))


@pytest.fixture
def small_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workloads of a few cells take the way of large ones."""
    monkeypatch.setattr(dense, "_PLAIN", 0)


def workloads(seed: int) -> tuple[Workload, Workload, Array]:
    """The queries over one cell of each kind, over all cells, and the matrix of the latter."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    few = rng.integers(0, 3, size=(m, d))
    few[0, few.sum(axis=0) == 0] = 1
    few = few[:, sorted({tuple(c): i for i, c in enumerate(few.T)}.values())]
    few = few[few.any(axis=1)]
    kind = np.append(np.arange(few.shape[1]), rng.integers(few.shape[1], size=30))
    every = few[:, kind] * rng.choice([-1, 1], size=len(kind))
    every[:, : few.shape[1]] = few
    weights, targets = rng.integers(1, 4, size=len(few)), rng.integers(2, 6, size=len(few))
    common: dict[str, Any] = {"weights": weights, "stderr": 3.0 * targets}
    return Workload.from_matrix(few, **common), Workload.from_matrix(every, **common), every


@pytest.mark.usefixtures("small_is_merged")
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_the_optimum_over_kinds_is_that_over_cells(objective: Objective) -> None:
    goal = GDP(2)
    for seed in range(6):
        few, every, W = workloads(seed)
        judge = design(few, goal, objective=objective, method="dense")
        plan = design(every, goal, objective=objective, method="dense")
        assert "kinds of cells" in plan.note
        proof = certify(every, plan)
        assert proof.gap <= SOLVER
        assert abs(proof.achieved / judge.certificate.achieved - 1) <= 2 * SOLVER
        # A walk over all cells: no record spends more than the goal, in rationals.
        columns = plan.strategy.dense().astype(object).T  # type: ignore[union-attr]
        spent = max(sum(int(a) ** 2 for a in column) for column in columns)
        assert Fraction(spent, plan.strategy.scale**2) == plan.strategy.spent <= goal.budget  # type: ignore[union-attr]
        # Noiseless answers are those counted by hand.
        x = np.random.default_rng(seed).integers(0, 50, size=W.shape[1])
        answers = plan.fixed_strategy().answers_of(every, plan.strategy.answers(x))  # type: ignore[union-attr]
        assert np.allclose(answers, W @ x, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("small_is_merged")
def test_columns_of_opposite_sign_are_far_apart_where_a_record_is_replaced() -> None:
    """Replacing a record of column c by one of column −c changes answers by 2c."""
    W = np.array([[1, -1, 1, 1, 1, 1, 1], [0, 0, 2, 2, 2, 2, 2]])
    plan = design(Workload.from_matrix(W), GDP(1, neighbours="replace-one"), method="dense")
    assert "kinds of cells" in plan.note
    columns = [*plan.strategy.dense().astype(object).T.tolist(), [0, 0]]  # type: ignore[union-attr]
    largest = max(sum((a - b) ** 2 for a, b in zip(c, d, strict=True)) for c in columns for d in columns)
    assert Fraction(largest, plan.strategy.scale**2) == plan.strategy.spent <= 1  # type: ignore[union-attr]
    judge = design(Workload.from_matrix(W[:, :3]), GDP(1, neighbours="replace-one"), method="dense")
    assert abs(plan.certificate.achieved / judge.certificate.achieved - 1) <= 2 * SOLVER
    assert plan.certificate.status == "optimal"


@pytest.mark.usefixtures("small_is_merged")
def test_of_cells_alike_the_one_with_least_to_spend_decides() -> None:
    schema = Schema(a=range(6))
    earlier = design(
        assemble([Linear(np.eye(6, dtype=int)[[1]])], schema), GDP(Fraction(1, 2)), method="dense"
    )
    alike = assemble([Linear([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])], schema)
    plan = design(alike, GDP(1), after=[earlier], method="dense")
    assert "kinds of cells" in plan.note
    # Cells 0 to 2 have 3/4 left because cell 1 has, the others 1: variances 4/3 and 1.
    assert abs(plan.certificate.achieved - (4 / 3 + 1)) <= 1e-5
    assert plan.certificate.status == "optimal"
    assert plan.spent_together <= 1


@pytest.mark.usefixtures("small_is_merged")
def test_a_proof_of_impossibility_speaks_of_all_cells() -> None:
    _, _, W = workloads(3)
    tight = Workload.from_matrix(W, stderr=0.01)
    with pytest.raises(InfeasibleError) as refused:
        design(tight, GDP(1), objective=TotalVariance(within_targets=True), method="dense")
    assert refused.value.witness.q.shape == (W.shape[1],)
    assert proves_infeasible(tight, GDP(1), refused.value.witness)


@pytest.mark.usefixtures("small_is_merged")
def test_relative_weights_are_about_all_cells() -> None:
    """Merged cells count as often as they are there: a prior over kinds would weigh queries otherwise."""
    W = np.array([[1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 1]])
    workload = Workload.from_matrix(W)
    objective = TotalVariance(relative_to="uniform")
    plan = design(workload, GDP(1), objective=objective, method="dense")
    assert "kinds of cells" in plan.note
    # Weights 1/(7·6) and 1/7; each query has variance 1.
    assert abs(plan.certificate.achieved - (1 / 42 + 1 / 7)) <= 1e-6


def test_many_cells_and_few_kinds_are_designed_saved_and_answered(tmp_path: Path) -> None:
    """More than 20,000 cells were refused by `dense`, however few of them queries told apart."""
    rng = np.random.default_rng(0)
    few = rng.integers(0, 2, size=(4, 9))
    kind = rng.integers(9, size=21_000)
    workload = Workload.from_matrix(few[:, kind])
    plan = design(workload, GDP(1))
    assert plan.method == "dense"
    assert plan.certificate.status == "optimal"
    plan.save(tmp_path / "plan")
    again = load_plan(tmp_path / "plan")
    assert again.digest == plan.digest
    x = rng.integers(0, 9, size=21_000)
    answers = again.fixed_strategy().answers_of(workload, again.strategy.answers(x))  # type: ignore[union-attr]
    assert np.allclose(answers, few[:, kind] @ x, rtol=1e-9)


# Column generation ---------------------------------------------------------------------------


def test_generated_columns_reach_the_optimum_over_all() -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        k, d = int(rng.integers(2, 7)), 300
        R = rng.integers(0, 2, size=(k, d)) + 0.01 * rng.standard_normal((k, d))
        # One direction that a single column has.
        R[0, 1:] = 0
        R[0, 0] = 1
        found = least_total_of_many(R, Run(SOLVER))
        judge = least_total(R, tol=SOLVER)
        assert found.has_converged
        assert found.ended == "converged"
        assert abs(found.achieved / judge.achieved - 1) <= 2 * SOLVER
        assert ((found.root**2).sum(axis=0) <= 1 + ROUNDING).all()
        # The bound, from weights of the working set alone.
        F = np.linalg.svd(R * np.sqrt(found.q), compute_uv=False).sum()
        assert abs(F**2 / found.q.sum() / found.lower_bound - 1) <= ROUNDING


def test_cells_of_one_kind_are_one_column() -> None:
    cells = Cells.all_of(3)
    assert cells.are_all
    assert np.array_equal(cells.spread(np.eye(3)), np.eye(3))
