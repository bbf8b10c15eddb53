"""Triangles against singular values, and the refusal to judge where rank is in doubt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.core.decompositions import coefficients_on, full_rank_inverse


def with_singular_values(r: int, n: int, values: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((r, len(values))))[0]
    V = np.linalg.qr(rng.standard_normal((n, len(values))))[0]
    return np.asarray((U * values) @ V.T)


@given(st.integers(1, 30), st.integers(1, 30), st.floats(0, 5), st.integers(0, 2**32))
def test_inverse_is_that_of_singular_values(r: int, n: int, digits: float, seed: int) -> None:
    A = with_singular_values(r, n, np.logspace(0, -digits, min(r, n)), seed)
    found = full_rank_inverse(A)
    assert found is not None
    expected = np.linalg.pinv(A, rcond=1e-13)
    assert np.abs(found - expected).max() <= 1e-15 * 10 ** (2 * digits) * 1e3


@given(st.integers(1, 20), st.integers(0, 20), st.integers(1, 5), st.floats(0, 5), st.integers(0, 2**32))
def test_coefficients_rebuild_what_the_rows_span(k: int, more: int, m: int, digits: float, seed: int) -> None:
    rows = with_singular_values(k, k + more, np.logspace(0, -digits, k), seed)
    C = np.random.default_rng(seed + 1).standard_normal((m, k))
    found = coefficients_on(rows, C @ rows)
    assert found is not None
    np.testing.assert_allclose(found @ rows, C @ rows, rtol=0, atol=1e-12 * np.abs(C).sum())


@pytest.mark.parametrize("weakest", [0.0, 1e-300, 1e-16, 1e-12, 1e-10])
@pytest.mark.parametrize(("r", "n"), [(8, 8), (8, 20), (20, 8), (200, 300)])
def test_doubtful_rank_is_left_to_singular_values(weakest: float, r: int, n: int) -> None:
    values = np.ones(min(r, n))
    values[-1] = weakest
    A = with_singular_values(r, n, values, 3)
    assert full_rank_inverse(A) is None
    if r <= n:
        assert coefficients_on(A, A) is None


def test_what_cannot_be_solved_is_not() -> None:
    assert full_rank_inverse(np.zeros((3, 4))) is None
    assert full_rank_inverse(np.zeros((0, 4))) is None
    assert coefficients_on(np.ones((4, 2)), np.ones((1, 2))) is None
    assert full_rank_inverse(np.full((2, 3), np.inf)) is None
