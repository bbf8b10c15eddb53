"""The refined privacy ordering: one profile whatever the basis and the start, and the judge's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import MethodError
from leastnoise.planning import design
from leastnoise.privacy import GDP
from leastnoise.query import MaxVariance, Targets, TotalVariance, Workload
from leastnoise.solver import CappedBlock, Optimum, Run, least_profile, load_backend, refined_profile
from leastnoise.solver.rows import DenseRows
from support import extra, refuses
from test_capped import RECOMPUTED, coordinates, noise_of
from tolerances import SOLVER

NUMPY = load_backend("numpy")

# Each level of the judge is off by about 1e-6, and a level inherits what the one before was off by.
SEQUENTIAL = 1e-3


def problem(seed: int, *, has_equal_caps: bool) -> tuple[Any, Any]:
    """A small matrix of -1, 0 and 1 without empty rows or columns, and caps."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(1, 12)), int(rng.integers(1, 12))
    W = rng.integers(-1, 2, (m, n)).astype(float)
    W = W[:, np.abs(W).max(axis=0) > 0]
    W = W[np.abs(W).max(axis=1) > 0]
    caps = np.ones(len(W)) if has_equal_caps else 10.0 ** rng.uniform(-1, 1, len(W))
    return W, caps


def profiles(W: Any, caps: Any, seed: int) -> list[Any]:
    """The refined profile in three bases, the last from random weights; caps are kept every time."""
    rng = np.random.default_rng(seed)
    L, B = coordinates(W)
    found = []
    for trial in range(3):
        turn = np.eye(len(B)) if trial == 0 else rng.normal(size=(len(B), len(B)))
        start = None
        if trial == 2:
            start = (10.0 ** rng.uniform(-2, 2, len(W)), 10.0 ** rng.uniform(-2, 2, W.shape[1]))
        solution = refined_profile(L @ np.linalg.inv(turn), turn @ B, caps, Run(1e-8), start=start)
        v, u = noise_of(solution, W)
        assert solution.has_converged and (v <= caps * (1 + RECOMPUTED)).all()
        assert u.max() == pytest.approx(solution.achieved, rel=RECOMPUTED)
        found.append(u)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("has_equal_caps", [True, False], ids=["equal", "random"])
@pytest.mark.parametrize("seed", range(20))
def test_the_profile_does_not_depend_on_basis_or_start(seed: int, has_equal_caps: bool) -> None:
    first, *others = profiles(*problem(seed, has_equal_caps=has_equal_caps), seed)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=SOLVER)


@pytest.mark.parametrize("seed", [24, 38])
def test_limits_reached_without_weight_settle_all_the_same(seed: int) -> None:
    """A query at its cap and a cell at the largest profile, both with weight zero, left an error of 6e-4."""
    first, *others = profiles(*problem(seed, has_equal_caps=True), seed)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=SOLVER)
    if seed == 38:
        np.testing.assert_allclose(np.sort(first), [1.5, 1.5, 2, 2, 2, 2], rtol=SOLVER)


def test_a_level_that_stalled_is_begun_again() -> None:
    """From equal weights this problem stopped at a gap of a tenth, and the second try was the first again."""
    rng = np.random.default_rng(87)
    W = rng.integers(-1, 2, (int(rng.integers(1, 12)), int(rng.integers(1, 12)))).astype(float)
    W = W[:, np.abs(W).max(axis=0) > 0]
    W = W[np.abs(W).max(axis=1) > 0]
    caps = 10.0 ** np.random.default_rng(1087).uniform(-1, 1, len(W))
    first, *others = profiles(W, caps, 87)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=SOLVER)


# What it is -----------------------------------------------------------------------------------


def plain(W: Any, caps: Any) -> Optimum:
    L, B = coordinates(W)
    return least_profile([CappedBlock(DenseRows(L, NUMPY), B)], caps, Run(1e-9))


def refined(W: Any, caps: Any) -> Optimum:
    L, B = coordinates(W)
    return refined_profile(L, B, caps, Run(1e-9))


def test_a_looser_cap_leaves_a_cell_in_peace() -> None:
    """W = I, c = (1, 4): any second variance from 1 to 4 is optimal, and 4 is wanted."""
    W, caps = np.eye(2), np.array([1.0, 4.0])
    np.testing.assert_allclose(noise_of(refined(W, caps), W)[1], [1, 0.25], rtol=SOLVER)
    least = noise_of(plain(W, caps), W)[1]
    assert least.max() == pytest.approx(1, rel=SOLVER)
    assert not np.allclose(least, [1, 0.25], rtol=SOLVER)


def is_no_later(u: Any, other: Any, tol: float) -> bool:
    """Whether u, sorted from its largest, comes before or is the other, up to tol at each place."""
    for mine, theirs in zip(np.sort(u)[::-1], np.sort(other)[::-1], strict=True):
        if abs(mine - theirs) > tol * theirs:
            return bool(mine < theirs)
    return True


@pytest.mark.thorough
def test_no_noise_with_the_same_caps_comes_first() -> None:
    rng = np.random.default_rng(3)
    later = 0
    for seed in range(12):
        W, caps = problem(seed, has_equal_caps=False)
        best = noise_of(refined(W, caps), W)[1]
        least = noise_of(plain(W, caps), W)[1]
        assert is_no_later(best, least, SOLVER)
        later += not is_no_later(least, best, SOLVER)
        A = refined(W, caps).root
        for _ in range(20):
            turned = (np.eye(len(A)) + 10.0 ** rng.uniform(-4, 0) * rng.normal(size=(len(A), len(A)))) @ A
            v = ((W @ np.linalg.pinv(turned)) ** 2).sum(axis=1)
            assert is_no_later(best, (turned**2).sum(axis=0) * (v / caps).max(), SOLVER)
    assert later > 0, "the plain optimum would pass the same check"


# A judge --------------------------------------------------------------------------------------


def sequential(W: Any, caps: Any) -> Any:
    """The refined profile by a semidefinite solver, level after level.

    Cells that must have the level's profile are frozen: at every optimum y_i = Σ⁻¹ b_i is the same for them,
    so Σ y_i = b_i is a linear constraint, which keeps the judge accurate.
    """
    cvxpy = extra("cvxpy")
    L, B = coordinates(W)
    k, n = B.shape
    frozen: tuple[Any, Any] | None = None
    profile = np.zeros(n)
    is_open = np.ones(n, dtype=bool)
    while is_open.any():
        Sigma, level = cvxpy.Variable((k, k), PSD=True), cvxpy.Variable()
        # What is frozen is known to about 1e-7: without that much slack, caps already met leave no interior.
        slack = 1.0 if frozen is None else 1 + SOLVER
        limits = [
            cvxpy.sum(cvxpy.multiply(np.outer(row, row), Sigma)) <= cap * slack
            for row, cap in zip(L, caps, strict=True)
        ]
        if frozen is not None:
            limits.append(Sigma @ frozen[0] == frozen[1])
        cells = [cvxpy.matrix_frac(B[:, i], Sigma) <= level for i in np.flatnonzero(is_open)]
        asked = cvxpy.Problem(cvxpy.Minimize(level), limits + cells)
        asked.solve(solver="CLARABEL")
        assert asked.status == "optimal"
        weights = np.array([float(cell.dual_value) for cell in cells])
        inverse = np.linalg.inv(Sigma.value)
        for i, weight in zip(np.flatnonzero(is_open), weights, strict=True):
            if weight > 1e-3 * weights.max():
                profile[i], is_open[i] = float(level.value), False
        # As many equations as the frozen cells have directions, none of them twice.
        U, strengths, _ = np.linalg.svd(B[:, ~is_open])
        directions = U[:, : int((strengths > 1e-6).sum())]
        frozen = (inverse @ directions, directions)
        # Once the frozen cells span everything, the noise is settled.
        if directions.shape[1] == k:
            profile[is_open] = np.einsum("ai,ab,bi->i", B[:, is_open], inverse, B[:, is_open])
            break
    return profile


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(5))
def test_a_semidefinite_solver_agrees_level_by_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(7, 6)) * (rng.random((7, 6)) < 0.6) + np.eye(7, 6)
    caps = 10.0 ** rng.uniform(-0.5, 0.5, 7)
    expected = sequential(W, caps)
    np.testing.assert_allclose(noise_of(refined(W, caps), W)[1], expected, rtol=SEQUENTIAL)
    assert not np.allclose(noise_of(plain(W, caps), W)[1], expected, rtol=SEQUENTIAL)


# In a design ----------------------------------------------------------------------------------


def test_a_design_can_be_refined() -> None:
    workload = Workload.from_matrix(np.eye(2, dtype=int), stderr=[1, 2])
    plan = design(workload, objective=Targets(), method="dense", options={"refine": True})
    assert plan.certificate.status == "optimal"
    np.testing.assert_allclose(plan.stderr, [1, 2], rtol=SOLVER)
    other = design(workload, objective=Targets(), method="dense")
    assert other.certificate.achieved == pytest.approx(plan.certificate.achieved, rel=2 * SOLVER)
    assert not math.isclose(other.stderr[1], 2, rel_tol=SOLVER)
    assert "profile refined" in plan.note and "profile refined" not in other.note


def test_what_has_no_profile_to_refine_is_refused() -> None:
    workload = Workload.from_matrix(np.eye(2, dtype=int), stderr=[1, 2])
    for objective in (TotalVariance(), TotalVariance(within_targets=True)):
        with refuses(MethodError, "method", "dense", "refine=True is for the largest variance"):
            design(workload, GDP(9), objective=objective, method="dense", options={"refine": True})
    replaced = GDP(1, neighbours="replace-one")
    with refuses(MethodError, "profile", ..., "where records are added or removed only"):
        design(workload, replaced, objective=MaxVariance(), method="dense", options={"refine": True})
