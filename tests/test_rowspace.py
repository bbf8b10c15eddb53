"""The integer basis spans what is asked, judged in rationals; the factor gives back the Gram matrix."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from leastnoise.core import numerical_rank
from leastnoise.core.errors import DesignError
from leastnoise.core.numerical_rank import RANK_TOL, independent_rows, of_unit_length, strongest_rows
from leastnoise.query import Linear, Marginal, Prefix, Schema, Total, Workload, assemble
from leastnoise.strategy import Basis, factor_gram, integer_basis
from leastnoise.strategy import row_space as rowspace
from leastnoise.strategy.grid import REAL_ROW_BITS
from support import refuses
from tolerances import ROUNDING

# Rows rounded to 48 bits and combined with a few coefficients of ordinary size.
GRID = 2.0 ** (8 - REAL_ROW_BITS)


def reduced(rows: Any) -> list[list[Fraction]]:
    """The reduced row echelon form in rationals: equal exactly when the row spaces are."""
    left = [[Fraction(value) for value in row] for row in rows]
    done: list[list[Fraction]] = []
    for column in range(len(left[0]) if left else 0):
        pivot = next((row for row in left if row[column] != 0), None)
        if pivot is None:
            continue
        left.remove(pivot)
        unit = [value / pivot[column] for value in pivot]

        def cleared(row: list[Fraction], unit: list[Fraction] = unit, c: int = column) -> list[Fraction]:
            return [a - row[c] * b for a, b in zip(row, unit, strict=True)]

        left = [cleared(row) for row in left]
        done = [cleared(row) for row in done] + [unit]
    return done


def spans_exactly(basis: Basis, matrix: Any) -> bool:
    """Whether the basis has the row space of an integer matrix, exactly, and no row too many."""
    matrix = np.asarray(matrix)
    rows = np.eye(matrix.shape[1], dtype=int) if basis.rows is None else basis.rows
    space = reduced(rows.tolist())
    return len(space) == len(rows) == basis.rank and space == reduced(matrix.tolist())


def integer_matrices() -> list[Any]:
    rng = np.random.default_rng(5)
    found: list[Any] = [
        [[1]],
        [[0, 1], [0, 0]],
        [[2, 4, 6]],
        [[1, 1, 0], [0, 1, 1], [1, 2, 1]],
        [[2**20, 1, 0], [2**20, 0, 1]],
        [[3, 0, 0], [0, 5, 0], [0, 0, 7]],
        np.zeros((2, 3), dtype=int),
    ]
    for _ in range(120):
        m, n, k = rng.integers(1, 8, size=3)
        found.append(rng.integers(-3, 4, (m, k)) @ rng.integers(-2, 3, (k, n)))
    return found


@pytest.mark.parametrize("matrix", integer_matrices())
def test_whole_number_queries_give_their_row_space_exactly(matrix: Any) -> None:
    assert spans_exactly(integer_basis(Workload.from_matrix(matrix)), matrix)


def test_a_wrong_basis_is_noticed() -> None:
    matrix = np.array([[1, 1, 0], [0, 1, 1], [1, 2, 1]])
    good = integer_basis(Workload.from_matrix(matrix))
    assert good.rows is not None and spans_exactly(good, matrix)
    assert not spans_exactly(Basis(None, 3), matrix)
    assert not spans_exactly(Basis(good.rows[:1], 1), matrix)
    assert not spans_exactly(Basis(good.rows + np.eye(2, 3, dtype=int), 2), matrix)
    assert not spans_exactly(Basis(np.vstack([good.rows, good.rows[:1]]), 3), matrix)


def test_basis_of_queries_over_a_schema() -> None:
    schema = Schema(a=range(3), b=range(2))
    workload = assemble([Marginal("a"), Marginal("b"), Total()], schema)
    assert spans_exactly(integer_basis(workload), workload.dense().astype(int))
    assert integer_basis(assemble([Prefix("a") * Marginal("b")], schema)).rows is None


def test_rank_by_queries_that_together_span_everything() -> None:
    basis = integer_basis(Workload.from_matrix([[1, 1], [1, -1], [2, 0]]))
    assert basis.rows is None and basis.rank == 2


def real_distance(basis: Basis, matrix: Any) -> float:
    """How far the rows of a matrix lie from the basis, each beside its own largest entry."""
    assert basis.rows is not None
    B = basis.rows / np.abs(basis.rows).max(axis=1, keepdims=True)
    L = np.linalg.lstsq(B.T, matrix.T, rcond=None)[0].T
    return float((np.abs(matrix - L @ B).max(axis=1) / np.abs(matrix).max(axis=1)).max())


@pytest.mark.parametrize("seed", range(15))
def test_real_low_rank_workloads_keep_their_rank(seed: int) -> None:
    """Rounding the queries themselves once turned rank 5 into rank 30."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 6))
    matrix = rng.normal(size=(30, k)) @ rng.normal(size=(k, 12)) * 10.0 ** rng.integers(-30, 30, (30, 1))
    basis = integer_basis(Workload.from_matrix(matrix))
    assert basis.rank == k and basis.rows is not None and basis.rows.dtype == np.int64
    assert real_distance(basis, matrix) < GRID
    assert real_distance(Basis(np.rint(basis.rows / 2**20), k), matrix) > GRID


def test_near_duplicates_count_once() -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(3, 6))
    matrix = np.vstack([rows, rows * (1 + 1e-15), rows[:1] + 1e-15, rows[:1] * (1 - 3e-16)])
    basis = integer_basis(Workload.from_matrix(matrix))
    assert basis.rank == 3 and real_distance(basis, matrix) < GRID


def test_whole_numbers_that_differ_beyond_rounding_count_once() -> None:
    assert integer_basis(Workload.from_matrix([[2**40, 1, 0], [2**40, 0, 1]])).rank == 1


def test_zero_rows_and_scales_change_nothing() -> None:
    rows = np.array([[1, 0, 2, 0], [0, 3, 0, 1]])
    scaled = np.vstack([np.zeros(4), rows[:1] * 1e-90, rows * 1e90, np.zeros(4), rows[1:] * 1e-50])
    basis = integer_basis(Workload.from_matrix(scaled))
    assert basis.rank == 2 and real_distance(basis, scaled[[1, 2, 3, 5]]) < GRID
    nothing = integer_basis(Workload.from_matrix(np.zeros((3, 4))))
    assert nothing.rank == 0 and nothing.rows is not None and nothing.rows.shape == (0, 4)


def test_powers_of_two_are_taken_out_of_real_rows() -> None:
    basis = integer_basis(Workload.from_matrix([[0.5, 0.25, 0.0]]))
    assert basis.rows is not None and basis.rows.tolist() == [[2, 1, 0]]


# Short cuts --------------------------------------------------------------------------------------


def low_rank(m: int, n: int, rank: int) -> Any:
    """Real queries of that rank, each row of length 1."""
    rng = np.random.default_rng((m, n, rank))
    matrix = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n))
    return of_unit_length(matrix)


def forbid_whole_factorisation(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Fail where more than so many rows are factored with pivoting on all cells."""
    strongest = strongest_rows

    def checked(rows: Any) -> Any:
        assert min(rows.shape) <= most, "everything was decomposed"
        return strongest(rows)

    monkeypatch.setattr(numerical_rank, "strongest_rows", checked)


@pytest.mark.parametrize("shape", [(600, 520), (520, 900)])
def test_a_low_rank_is_found_without_decomposing_everything(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = low_rank(*shape, rank=9)
    whole = np.sort(strongest_rows(matrix))
    assert len(whole) == 9
    with monkeypatch.context() as patch:
        forbid_whole_factorisation(patch, 128)
        chosen = independent_rows(matrix)
        basis = integer_basis(Workload.from_matrix(matrix))
    assert len(chosen) == 9 and chosen.tolist() == sorted(chosen.tolist())
    assert numerical_rank._spans(matrix[chosen], matrix)
    assert not numerical_rank._spans(matrix[chosen[1:]], matrix)
    assert basis.rank == 9 and real_distance(basis, matrix) < GRID
    # The watch notices what it watches for.
    higher = low_rank(*shape, rank=300)
    forbid_whole_factorisation(monkeypatch, 128)
    with pytest.raises(AssertionError, match="everything was decomposed"):
        independent_rows(higher)


def test_one_row_outside_a_low_rank_counts() -> None:
    """Combinations of columns shrink nothing: what a factorisation counts, they count."""
    matrix = low_rank(600, 520, rank=5)
    for size, rank in ((1e-6, 6), (3e-9, 6), (RANK_TOL / 1000, 5)):
        lifted = matrix.copy()
        lifted[77] += size * np.random.default_rng(1).normal(size=520)
        chosen = independent_rows(lifted)
        assert len(chosen) == rank == len(strongest_rows(lifted))


def test_many_rows_that_reach_every_cell_span_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    reaching = rng.integers(0, 2, (80, 30))
    with monkeypatch.context() as patch:
        forbid_whole_factorisation(patch, 0)
        assert integer_basis(Workload.from_matrix(reaching)).rows is None
    # A cell that none of them tells from another, or barely.
    alike = reaching.copy()
    alike[:, 3] = alike[:, 4]
    assert spans_exactly(integer_basis(Workload.from_matrix(alike)), alike)
    barely = reaching.astype(float)
    barely[:, 3] = barely[:, 4] + 1e-7 * rng.normal(size=80)
    assert not numerical_rank._is_well_conditioned(barely.T @ barely)
    assert integer_basis(Workload.from_matrix(barely)).rank == 30


# The factor of the Gram matrix ---------------------------------------------------------------


def factors(R: Any, workload: Workload, tol: float = ROUNDING) -> bool:
    V = workload.dense().T @ (workload.weights[:, None] * workload.dense())
    return bool(np.abs(R.T @ R - V).max() <= tol * max(np.abs(V).max(), 1e-300))


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 5), (12, 5), (45, 5), (300, 4)])
def test_factor_gives_back_the_weighted_gram_matrix(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape)
    for _ in range(10):
        workload = Workload.from_matrix(rng.normal(size=shape), weights=rng.uniform(0.1, 10, shape[0]))
        rank = min(shape)
        R = factor_gram(workload, integer_basis(workload))
        assert R.shape == (rank, shape[1]) and factors(R, workload)
        assert not factors(R * (1 + 1e-9), workload)
        if rank > 1:
            assert not factors(R[:-1], workload)


def test_factor_of_a_low_rank_workload_has_as_many_rows() -> None:
    rng = np.random.default_rng(8)
    workload = Workload.from_matrix(rng.normal(size=(200, 3)) @ rng.normal(size=(3, 9)))
    assert integer_basis(workload).rank == 3
    assert factors(factor_gram(workload, integer_basis(workload)), workload)


@pytest.mark.parametrize("shape", [(400, 300), (300, 400), (4000, 60)])
def test_factor_of_few_directions_is_as_good(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape)
    matrix = rng.normal(size=(shape[0], 7)) * np.geomspace(1, 1e-5, 7) @ rng.normal(size=(7, shape[1]))
    workload = Workload.from_matrix(matrix, weights=rng.uniform(0.1, 10, shape[0]))
    R = factor_gram(workload, integer_basis(workload))
    assert R.shape == (7, shape[1]) and factors(R, workload)
    assert not factors(R[:6], workload, tol=1e-13)
    # Orthogonal rows, the strongest first, and the weakest to its own digits.
    values = np.linalg.svd(np.sqrt(workload.weights)[:, None] * matrix, compute_uv=False)[:7]
    np.testing.assert_allclose(np.linalg.norm(R, axis=1), values, rtol=1e-8)
    unit = R / np.linalg.norm(R, axis=1)[:, None]
    np.testing.assert_allclose(unit @ unit.T, np.eye(7), atol=1e-9)


def test_weak_directions_are_taken_from_the_queries_not_from_their_squares() -> None:
    rng = np.random.default_rng(10)
    for weakest in (1e-3, 1e-8):
        turn = np.linalg.qr(rng.normal(size=(12, 12)))[0]
        matrix = turn @ np.diag(np.geomspace(1, weakest, 12)) @ np.linalg.qr(rng.normal(size=(12, 12)))[0]
        R = factor_gram(Workload.from_matrix(matrix), Basis(None, 12))
        np.testing.assert_allclose(np.linalg.norm(R, axis=1), np.geomspace(1, weakest, 12), rtol=1e-6)
    # The twin: squares alone leave nothing of the last one.
    values, _ = rowspace._gram_factor(matrix.T @ matrix)
    assert abs(values[-1] / weakest - 1) > 1e-6


def test_factor_of_nothing() -> None:
    assert factor_gram(Workload.from_matrix(np.zeros((2, 3))), Basis(None, 0)).shape == (0, 3)


def test_a_query_of_weight_zero_outside_the_others_is_refused_by_name() -> None:
    schema = Schema(a=range(3))
    workload = assemble([Total(), Marginal("a", name="each", weight=0)], schema)
    with refuses(DesignError, "weight", "each"):
        factor_gram(workload, integer_basis(workload))
    inside = assemble([Marginal("a"), Total(weight=0)], schema)
    assert factor_gram(inside, integer_basis(inside)).shape == (3, 3)


def test_scales_far_apart_are_brought_nearer() -> None:
    """What counts next to nothing was refused; it is now measured as if it counted a little."""
    R = factor_gram(Workload.from_matrix(np.diag([1.0, 1e-12])), Basis(None, 2))
    np.testing.assert_allclose(np.linalg.norm(R, axis=1), [1, rowspace._LEAST_STRENGTH])
    np.testing.assert_allclose(np.abs(R / np.linalg.norm(R, axis=1)[:, None]), np.eye(2), atol=ROUNDING)


def test_weights_beyond_floats_are_refused() -> None:
    workload = assemble([Linear(np.full((50, 2), 1e99), weight=1e300)], Schema(a=range(2)))
    with refuses(DesignError, "workload", ..., "too large for floats"):
        factor_gram(workload, integer_basis(workload))
