"""Projections onto unit balls, against sorting and against their conditions of optimality."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from leastnoise.core.operators import Array
from leastnoise.papers import unit_balls
from leastnoise.papers.unit_balls import L1Ball, L2Ball
from leastnoise.solver import load_backend
from support import extra


def by_sorting(U: Array) -> Array:
    """Duchi, Shalev-Shwartz, Singer and Chandra (2008): max_k (s_k − 1)/k, s_k the sum of the k largest."""
    excess = (-np.sort(-np.abs(U), axis=0)).cumsum(axis=0) - 1
    threshold = (excess / np.arange(1.0, len(U) + 1)[:, None]).max(axis=0).clip(min=0)
    return np.asarray(U - U.clip(-threshold, threshold))


def in_ball(U: Any, norm: int) -> bool:
    return bool(np.linalg.norm(U, ord=norm, axis=0).max() <= 1 + 1e-12)


@pytest.mark.parametrize(("norm", "project"), [(1, L1Ball().project), (2, L2Ball().project)])
def test_projections_are_nearest(norm: int, project: Any) -> None:
    """⟨u − p, z − p⟩ ≤ 0 for every z of the ball, which only the nearest point fulfils."""
    generator = np.random.default_rng(5)
    U = generator.normal(size=(6, 40)) * generator.uniform(0.05, 3, size=40)

    def is_nearest(P: Any) -> bool:
        corners = np.hstack([np.eye(6), -np.eye(6)])
        inside = np.hstack([corners, generator.dirichlet(np.ones(6), 50).T])
        if norm == 2:
            inside = generator.normal(size=(6, 400))
            inside /= np.linalg.norm(inside, axis=0)
            inside = np.hstack([inside, U / np.maximum(np.linalg.norm(U, axis=0), 1)])
        products = (U - P).T @ inside - ((U - P) * P).sum(axis=0)[:, None]
        return in_ball(P, norm) and bool(products.max() <= 1e-9)

    P = project(U)
    assert is_nearest(P)
    assert not is_nearest(U) and not is_nearest(0.9 * P)
    if norm == 1:
        assert not is_nearest(U / np.maximum(np.abs(U).sum(axis=0), 1)), "scaling is no L1 projection"
    inside = U / 100
    assert np.array_equal(project(inside), inside)


@pytest.fixture(params=[0, 10_000], ids=["risen", "sorted"], autouse=True)
def small(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test once for each way to find thresholds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unit_balls, "_SMALL", request.param)
        yield


# Few different values, so that sizes are equal to one another and to thresholds.
entries = st.one_of(
    st.sampled_from([0.0, -0.5, 0.5, 1.0, -1.0, 2.0, 1e-9, -1e6]),
    st.floats(-3, 3, allow_subnormal=False),
)
matrices = hnp.arrays(float, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=entries)


@pytest.mark.thorough
@given(st.lists(matrices, min_size=1, max_size=4))
def test_l1_is_what_sorting_gives_wherever_it_begins(several: list[Array]) -> None:
    """One ball projects all in turn, each from the thresholds of the one before."""
    ball = L1Ball()
    for U in several:
        found = ball.project(U)
        np.testing.assert_allclose(found, by_sorting(U), rtol=0, atol=1e-15 * max(1, np.abs(U).max()) * 20)
        assert (np.abs(found).sum(axis=0) <= 1 + 1e-9).all()


@pytest.mark.parametrize("shape", [(40, 30), (300, 7), (1, 20)])
def test_a_drifting_matrix_is_followed(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    ball, U = L1Ball(), rng.standard_normal(shape)
    for scale in (1.0, 0.1, 0.01, 10.0, 1e-4, 3.0):
        U = U + scale * rng.standard_normal(shape)
        np.testing.assert_allclose(ball.project(U), by_sorting(U), atol=1e-12)


def test_another_shape_begins_anew() -> None:
    rng = np.random.default_rng(1)
    ball = L1Ball()
    for shape in ((4, 6), (4, 3), (9, 3)):
        U = rng.standard_normal(shape)
        np.testing.assert_allclose(ball.project(U), by_sorting(U), atol=1e-14)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_spoils_no_later_projection() -> None:
    ball, U = L1Ball(), np.random.default_rng(6).standard_normal((10, 3))
    for bad in (1e308, np.inf, np.nan):
        ball.project(np.full((10, 3), bad))
        np.testing.assert_allclose(ball.project(U), by_sorting(U), atol=1e-14)


def test_ties_do_not_go_round_in_circles() -> None:
    """The root lies on an entry, where rounding decides on which side of it."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        theta, n = rng.random(), int(rng.integers(1, 6))
        above = rng.random(n)
        column = np.concatenate([theta + above / above.sum(), np.full(3, theta)])
        found = L1Ball().project(column[:, None])
        assert found.sum() == pytest.approx(1)


def test_l2_shortens_what_is_long() -> None:
    U = np.array([[3.0, 0.3, 0.0], [4.0, 0.4, 0.0]])
    np.testing.assert_allclose(L2Ball().project(U), [[0.6, 0.3, 0.0], [0.8, 0.4, 0.0]])


@pytest.mark.parametrize("Ball", [L1Ball, L2Ball])
def test_torch_projects_alike(Ball: Any) -> None:
    extra("torch")
    torch = load_backend("torch")
    rng = np.random.default_rng(3)
    here, there = Ball(), Ball(torch)
    for _ in range(3):
        U = rng.standard_normal((20, 15))
        np.testing.assert_allclose(torch.numpy(there.project(torch.matrix(U))), here.project(U), atol=1e-14)
