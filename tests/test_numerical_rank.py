"""One criterion for what a direction is, compared with singular values where those must agree with it."""

from __future__ import annotations

import numpy as np
import pytest

from leastnoise.core.numerical_rank import (
    RANK_TOL,
    SPAN_TOL,
    directions_of,
    independent_rows,
    is_within_reach,
    largest_share,
    numerical_rank,
    of_unit_length,
    row_lengths,
)
from tolerances import ROUNDING


@pytest.mark.parametrize("seed", range(40))
def test_every_row_is_within_tolerance_of_what_was_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n = rng.integers(2, 20, size=2)
    strengths = np.geomspace(1, 10.0 ** -rng.integers(2, 17), min(m, n))
    U, V = (np.linalg.qr(rng.normal(size=(size, min(m, n))))[0] for size in (m, n))
    rows = (U * strengths) @ V.T * 10.0 ** rng.integers(-20, 20, (m, 1))
    Q = directions_of(rows)
    unit = of_unit_length(rows)
    assert np.abs(Q.T @ Q - np.eye(Q.shape[1])).max() < ROUNDING
    assert row_lengths(unit - (unit @ Q) @ Q.T).max() <= RANK_TOL * (1 + 1e-3)
    # Singular values of unit rows bound the count from both sides, a little apart.
    values = np.linalg.svd(unit, compute_uv=False)
    assert Q.shape[1] >= (values > 2 * RANK_TOL * np.sqrt(m)).sum()
    assert Q.shape[1] <= (values > RANK_TOL * 1e-2 / np.sqrt(m * n)).sum()
    assert Q.shape[1] == numerical_rank(rows) == len(independent_rows(unit))


@pytest.mark.parametrize(("apart", "rank"), [(4 * RANK_TOL, 2), (RANK_TOL / 4, 1), (0, 1)])
def test_two_rows_nearly_alike(apart: float, rank: int) -> None:
    rows = np.array([[1.0, 0.0, 0.0], [1.0, apart, 0.0]])
    for sizes in ([1, 1], [1e-100, 1e100], [1e200, 1e-200]):
        assert numerical_rank(rows * np.array(sizes)[:, None]) == rank


def test_rows_of_nothing() -> None:
    assert numerical_rank(np.zeros((0, 3))) == numerical_rank(np.zeros((4, 3))) == 0
    assert directions_of(np.zeros((2, 3))).shape == (3, 0)
    assert of_unit_length(np.zeros((1, 2))).tolist() == [[0, 0]]


def test_what_is_left_over_counts_beside_the_row() -> None:
    rows = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0]])
    assert row_lengths(rows) == pytest.approx([5e200, 5e-200, 0])
    assert is_within_reach(rows * SPAN_TOL / 2, rows).all()
    assert is_within_reach(rows * SPAN_TOL * 2, rows).tolist() == [False, False, True]
    assert not is_within_reach(np.array([[np.nan, 0.0]]), np.ones((1, 2))).any()
    assert largest_share(rows / 8, rows) == pytest.approx(1 / 8)
