"""The printed algorithms of COA and of the low-rank mechanism: their papers' numbers, lemmas and refusals.

References, by short name:
    COA: Yuan, Yang, Zhang and Hao (2016), Convex Optimization for Linear Query Processing, full version.
    LRM: Yuan et al. (2012), Low-Rank Mechanism.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import sys
import warnings
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise
from leastnoise.core.errors import DesignError, InputError, MethodError, MissingExtraError
from leastnoise.core.operators import EveryRange
from leastnoise.core.progress import Progress
from leastnoise.papers import coa as coa_module
from leastnoise.papers import low_rank_rounds
from leastnoise.papers import sdp as sdp_module
from leastnoise.papers import smoothing as smoothing_module
from leastnoise.papers.coa import CoaResult, coa, coa_homotopy
from leastnoise.papers.low_rank_rounds import (
    SCHEDULES,
    lemma_3,
    low_rank,
    random_start,
    squared_error,
    svd_start,
    unbiased,
)
from leastnoise.papers.sdp import sdp
from leastnoise.papers.smoothing import SmoothingResult, _projected, smoothing, soft_max
from leastnoise.papers.unit_balls import L1Ball, L2Ball
from leastnoise.planning import Plan, Request, design, from_covariance, from_rows, method_named
from leastnoise.privacy import GDP, Goal, PureDP
from leastnoise.query import MaxVariance, Schema, Total, TotalVariance, Workload, assemble
from leastnoise.solver import load_backend
from leastnoise.strategy import Basis, integer_basis
from support import extra, refuses
from tolerances import JUDGE, ROUNDING, SOLVER, printed

OURS = ("coa", "coa-homotopy", "smoothing", "lowrank", "sdp")


def prefix(n: int) -> Any:
    return np.tril(np.ones((n, n)))


def some_queries(seed: int, m: int = 7, n: int = 5) -> Any:
    return np.random.default_rng(seed).normal(size=(m, n))


def related(seed: int, m: int = 9, n: int = 12, rank: int = 3) -> Any:
    """LRM's WRelated: a product of normal matrices."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(m, rank)) @ generator.normal(size=(rank, n))


def variance_of(gram: Any, X: Any) -> float:
    """⟨X⁻¹, V⟩ for the Gram matrix as it is, without θ, by another route than the algorithm's."""
    return float(np.trace(np.linalg.solve(X, gram)))


def planned(W: Any, goal: Goal, method: str, **options: Any) -> Plan:
    return design(Workload.from_matrix(W), goal, method=method, options=options)


@cache
def optimum(kind: str, n: int) -> float:
    """The certified total variance at profile 1."""
    W = prefix(n) if kind == "prefix" else EveryRange(n).dense()
    return planned(W, GDP(1), "dense").certificate.lower_bound


# COA -----------------------------------------------------------------------------------------


def as_in_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """COA section 4.2 chooses β = 0.1 and σ = 0.25; the listing 0.5 and 1e-4."""
    monkeypatch.setattr(coa_module, "_SHORTER", 0.1)
    monkeypatch.setattr(coa_module, "_SUFFICIENT", 0.25)


@pytest.mark.thorough
def test_coa_stops_where_its_listing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """41 % above the optimum for 256 prefix sums, 8.997 per query.

    Thirty steps that stop short of convergence magnify rounding: orders of the same sums gave
    8.9949 to 8.9967, so that two decimals are what the listing fixes.
    """
    gram = prefix(256).T @ prefix(256)
    found = coa(gram)
    assert found.iterations == 30 and found.ended == "iterations"
    assert variance_of(gram, found.X) / 256 == pytest.approx(8.997, abs=printed(2))
    as_in_the_text(monkeypatch)
    assert variance_of(gram, coa(gram).X) / 256 != pytest.approx(8.997, abs=printed(2))


@pytest.mark.thorough
def test_coa_on_all_ranges() -> None:
    i = np.arange(256)
    gram = (np.minimum.outer(i, i) + 1.0) * (256 - np.maximum.outer(i, i))
    found = coa(gram)
    assert found.ended == "accuracy"
    per_query = variance_of(gram, found.X) / (256 * 257 / 2)
    assert per_query == pytest.approx(8.42248, abs=printed(5))
    assert variance_of(gram, coa(gram, theta=2e-3).X) / (256 * 257 / 2) != pytest.approx(
        8.42248, abs=printed(5)
    )


def is_within_lemma_4(W: Any, theta: float, value: float) -> tuple[bool, bool]:
    """COA Lemma 4: whether the lower and the upper bound hold.

    S comes from a full decomposition, so ρ = 1: then A = S/ρ is invertible, as the proof needs.
    """
    n = W.shape[1]
    values = np.linalg.svd(W, compute_uv=False)
    lower = max(2 * values.sum() - n, values.sum() ** 2 / n) + theta
    return bool(lower <= value), bool(value <= (W**2).sum() + theta * n)


@pytest.mark.parametrize("seed", range(6))
def test_coa_lemma_4(seed: int) -> None:
    W = some_queries(seed) if seed else prefix(12)
    gram = W.T @ W
    for relative in (1e-3, 1.0):
        found = coa(gram, theta=relative)
        theta = relative * float(np.diag(gram).mean())
        value = variance_of(gram + theta * np.eye(len(gram)), found.X)
        assert value == pytest.approx(found.objectives[-1], rel=ROUNDING)
        assert is_within_lemma_4(W, theta, value) == (True, True)
        # Four times the profile allowed, and a start as poor as a sixth of every cell.
        assert is_within_lemma_4(W, theta, value / 4)[0] is False
        poor = variance_of(gram + theta * np.eye(len(gram)), np.eye(len(gram)) / 6)
        assert is_within_lemma_4(W, theta, poor) == (True, False)


def is_descent(found: CoaResult) -> bool:
    """COA Theorem 1: F never rises; and every step of the listing lowers it."""
    return len(found.objectives) > 2 and bool((np.diff(found.objectives) < 0).all())


def test_coa_descends_and_keeps_its_diagonal(monkeypatch: pytest.MonkeyPatch) -> None:
    gram = prefix(24).T @ prefix(24)
    found = coa(gram)
    assert is_descent(found) and len(found.seconds) == len(found.objectives)
    assert np.diag(found.X) == pytest.approx(1, abs=ROUNDING)
    assert np.linalg.eigvalsh(found.X)[0] > 0
    real = coa_module._newton_direction
    monkeypatch.setattr(coa_module, "_newton_direction", lambda *known: -real(*known))
    uphill = coa(gram)
    assert not is_descent(uphill) and uphill.ended == "line search" and uphill.iterations == 1


def test_coa_direction_solves_the_newton_system() -> None:
    """Algorithm 2 on 3 cells: three unknowns off the diagonal, so five steps are exact."""
    W = some_queries(1, 5, 3)
    X = np.eye(3) + 0.2 * (np.ones((3, 3)) - np.eye(3))
    iX = np.linalg.inv(X)
    G = -iX @ W.T @ W @ iX
    D = coa_module._newton_direction(iX, G, load_backend("numpy"))

    def is_solution(D: Any) -> bool:
        residual = G - iX @ D @ G - G @ D @ iX
        np.fill_diagonal(residual, 0)
        return bool(np.abs(residual).max() <= 1e-9 * np.abs(G).max()) and not np.diag(D).any()

    assert is_solution(D) and not is_solution(0.99 * D)
    # F falls along it as its derivative says.
    step = 1e-6
    slope = (variance_of(W.T @ W, X + step * D) - variance_of(W.T @ W, X - step * D)) / (2 * step)
    assert slope == pytest.approx(float((G * D).sum()), rel=1e-6) and slope < 0


def test_coa_on_torch_agrees() -> None:
    extra("torch")
    gram = prefix(16).T @ prefix(16)
    here, there = coa(gram), coa(gram, backend="torch")
    assert there.objectives == pytest.approx(here.objectives, rel=1e-7)
    assert pytest.approx(here.X, abs=1e-4) == there.X
    assert coa(gram, theta=2e-3, backend="torch").objectives != pytest.approx(here.objectives, rel=1e-7)


def test_coa_homotopy_ends_closer() -> None:
    """Algorithm 3: θ = 1, 0.1, …, 1e-10, each stage from the last X, and nearer the optimum than one θ."""
    gram = prefix(64).T @ prefix(64)
    stages = coa_homotopy(gram)
    assert [stage.theta for stage in stages] == pytest.approx([10.0**-i for i in range(11)])
    for before, after in pairwise(stages):
        theta = after.theta * float(np.diag(gram).mean())
        assert after.objectives[0] == pytest.approx(
            variance_of(gram + theta * np.eye(64), before.X), rel=1e-9
        )
    alone, together = variance_of(gram, coa(gram).X), variance_of(gram, stages[-1].X)
    assert optimum("prefix", 64) * (1 - SOLVER) <= together < alone
    assert together <= optimum("prefix", 64) * (1 + 1e-4) < alone


def test_coa_tells_its_steps_and_stops_in_time() -> None:
    gram = prefix(12).T @ prefix(12)
    seen: list[tuple[int, float]] = []
    found = coa(gram, watch=lambda step, value, _: seen.append((step, value)))
    assert seen == list(enumerate(found.objectives))[1:]
    assert coa(gram, time_limit=1e-9).ended == "time"
    assert coa(gram, max_iterations=2).iterations == 2
    assert len(coa_homotopy(gram, time_limit=1e-9)) == 1
    steps: list[int] = []
    coa_homotopy(gram, stages=3, watch=lambda step, _, seconds: steps.append(step))
    assert steps == list(range(1, len(steps) + 1))


def test_coa_needs_a_gram_matrix() -> None:
    with refuses(InputError, "gram", (2, 3)):
        coa(np.ones((2, 3)))
    for gram in (np.zeros((2, 2)), np.full((2, 2), np.nan)):
        with refuses(InputError, "gram", ..., "must be finite, with a positive trace"):
            coa(gram)
        with refuses(InputError, "gram", ..., "must be finite, with a positive trace"):
            smoothing(gram)
    with refuses(InputError, "gram", (3, 2)):
        smoothing(np.ones((3, 2)))
    with refuses(InputError, "start", ..., "start must be positive definite"):
        coa(np.eye(2), start=np.ones((2, 2)) * [[1, 2], [2, 1]])


# Exponential smoothing -----------------------------------------------------------------------


def is_soft_maximum(value: float, gradient: Any, v: Any, mu: float) -> bool:
    """LRM appendix B: max v ≤ f_μ(v) ≤ max v + μ log n; the gradient is checked by differences."""
    if not v.max() <= value <= v.max() + mu * math.log(len(v)) * (1 + ROUNDING):
        return False
    step = 1e-4 * mu
    slopes = [
        (soft_max(v + step * e, mu)[0] - soft_max(v - step * e, mu)[0]) / (2 * step) for e in np.eye(len(v))
    ]
    return bool(np.abs(gradient - slopes).max() < 1e-6)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 10.0])
def test_soft_maximum(mu: float) -> None:
    v = np.random.default_rng(3).uniform(0, 2, size=6)
    value, gradient = soft_max(v, mu)
    assert is_soft_maximum(value, gradient, v, mu)
    assert not is_soft_maximum(value + 2 * mu * math.log(6), gradient, v, mu)
    assert not is_soft_maximum(value, gradient[::-1], v, mu)


def test_smoothing_comes_near_the_optimum() -> None:
    """A schedule of soft maxima; each by itself stays further away."""
    gram = prefix(16).T @ prefix(16)
    found = smoothing(gram, accuracies=(1.0, 0.1, 0.01))
    best = optimum("prefix", 16)
    assert best * (1 - SOLVER) <= min(found.objectives) <= 1.01 * best
    assert found.objectives[0] == pytest.approx(np.trace(gram), rel=ROUNDING)
    assert min(smoothing(gram, max_iterations=20).objectives) > 1.01 * best
    assert found.objectives[found.best] == min(found.objectives)
    true = float(np.diag(found.M).max()) * variance_of(gram, found.M)
    assert true == pytest.approx(min(found.objectives), rel=1e-9)
    # Non-monotone: some steps raise what is minimised, and it is never below the true product.
    assert (np.diff(found.smoothed[:200]) > 0).any()
    assert all(s >= t for s, t in zip(found.smoothed, found.objectives, strict=True))


def test_smoothing_reports_a_matrix_near_singular() -> None:
    W = related(0)
    found = smoothing(W.T @ W, accuracies=(1.0, 0.1, 0.01))
    assert found.is_near_singular and np.linalg.eigvalsh(found.M)[0] > 0
    assert not smoothing(np.eye(4)).is_near_singular
    note = planned(W, GDP(1), "smoothing", accuracies=(1.0, 0.1, 0.01)).note
    assert "near singular" in note and "best of" in note


def test_smoothing_stops() -> None:
    gram = prefix(6).T @ prefix(6)
    assert smoothing(gram, time_limit=1e-9).iterations == 1
    assert smoothing(gram, time_limit=1e-9, accuracies=(1.0, 0.1)).ended == "time"
    assert smoothing(gram, max_iterations=3).ended == "iterations"
    assert smoothing(np.eye(4)).ended == "stationary"


def test_smoothing_is_no_good_under_laplace_noise() -> None:
    """LRM section 6.2: its L2 optimum is far from the best of L1, here beside noise on data."""
    plan = planned(prefix(16), PureDP(1), "smoothing")
    assert plan.strategy.noise == "laplace"
    assert plan.certificate.achieved > planned(prefix(16), PureDP(1), "identity").certificate.achieved
    assert planned(prefix(16), GDP(1), "smoothing").certificate.gap < 0.1


def test_smoothing_on_torch_agrees() -> None:
    """Twenty steps are the same; of 200, spectral lengths magnify rounding, and only the quality is."""
    extra("torch")
    gram = prefix(16).T @ prefix(16)
    here, there = smoothing(gram), smoothing(gram, backend="torch")
    assert there.objectives[:20] == pytest.approx(here.objectives[:20], rel=ROUNDING)
    assert there.smoothed[:20] == pytest.approx(here.smoothed[:20], rel=ROUNDING)
    other = smoothing(gram, accuracies=(0.02,), backend="torch", max_iterations=20)
    assert other.objectives[:20] != pytest.approx(here.objectives[:20], rel=ROUNDING)
    assert isinstance(there.M, np.ndarray)
    true = float(np.diag(there.M).max()) * variance_of(gram, there.M)
    assert true == pytest.approx(min(there.objectives), rel=1e-9)
    assert true == pytest.approx(min(here.objectives), rel=0.01)
    assert min(other.objectives) != pytest.approx(min(here.objectives), rel=0.01)


def test_smoothing_projects_where_it_must() -> None:
    """Both ways out: a matrix above the floor is left alone, another gets its nearest one above."""
    generator = np.random.default_rng(4)
    vectors = np.linalg.qr(generator.normal(size=(5, 5)))[0]
    for backend in ("numpy", "torch"):
        if backend == "torch":
            extra("torch")
        arrays = load_backend(backend)
        inside = (vectors * [1e-6, 1, 2, 3, 4]) @ vectors.T
        assert np.array_equal(arrays.numpy(_projected(arrays.matrix(inside), arrays)), inside)
        outside = (vectors * [-1, 1e-8, 2, 3, 4]) @ vectors.T
        found = arrays.numpy(_projected(arrays.matrix(outside), arrays))
        nearest = (vectors * [1e-7, 1e-7, 2, 3, 4]) @ vectors.T
        assert found == pytest.approx(nearest, abs=ROUNDING)
        assert (vectors * [0, 0, 2, 3, 4]) @ vectors.T != pytest.approx(nearest, abs=ROUNDING)


def test_smoothing_refuses_to_measure_a_singular_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    def ending_at(M: Any) -> Any:
        result = SmoothingResult(M, 0, (1.0,), (1.0,), (0.0,), "iterations", True)
        monkeypatch.setattr(smoothing_module, "smoothing", lambda *_, **__: result)
        return planned(np.eye(2), GDP(1), "smoothing")

    assert ending_at(np.eye(2)).certificate.gap < SOLVER
    with refuses(DesignError, "workload", ..., "ended at a singular matrix; try method"):
        ending_at(np.zeros((2, 2)))


# The low-rank mechanism ----------------------------------------------------------------------

# LRM section 1: the states in the order NY, NJ, CA, WA.
FIRST_EXAMPLE = [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
SECOND_EXAMPLE = [[0, 2, 1, 1], [0, 1, 0, 2], [1, 0, 2, 2]]


@pytest.mark.parametrize(("method", "variances"), [("identity", (8, 4, 4)), ("lowrank", (4, 2, 2))])
def test_lrm_first_example(method: str, variances: tuple[int, ...]) -> None:
    """LRM section 1: noise on queries 8, 8, 8; on data 8, 4, 4; the best 4, 2, 2, all over ε²."""
    for epsilon in (1.0, 0.1):
        found = planned(FIRST_EXAMPLE, PureDP(epsilon), method).stderr ** 2 * epsilon**2
        assert found == pytest.approx(variances, rel=1e-6)
        assert found != pytest.approx(np.array(variances) * 1.01, rel=1e-6)


def test_lrm_first_example_by_noise_on_queries() -> None:
    """Every measured query has variance 8; the least squares that follow here lower it to 16/3."""
    plan = planned(FIRST_EXAMPLE, PureDP(1), "workload")
    unit = int(plan.strategy.entries.max())
    assert sorted((plan.strategy.entries // unit).tolist()) == sorted(FIRST_EXAMPLE)
    assert plan.strategy.noise_variance / unit**2 == pytest.approx(8, rel=1e-6)
    assert plan.stderr**2 == pytest.approx([16 / 3] * 3, rel=1e-6)
    weaker = planned(FIRST_EXAMPLE, PureDP(1.01), "workload").strategy
    assert weaker.noise_variance / int(weaker.entries.max()) ** 2 != pytest.approx(8, rel=1e-6)


@pytest.mark.thorough
def test_lrm_second_example() -> None:
    """LRM section 1: noise on data costs 40/ε², and its best strategy 39/ε². 38 can be had, and is."""
    assert planned(SECOND_EXAMPLE, PureDP(1), "identity").certificate.achieved == pytest.approx(40, rel=1e-6)
    printed_rows = np.array([[0, 3, 0, 0], [0, 0, 0, 3], [1, 0, 3, 0], [2, 0, 0, 0]])
    by_print = 2 * squared_error(np.array(SECOND_EXAMPLE, dtype=float), printed_rows / 3, 1)
    assert by_print == pytest.approx(39, rel=ROUNDING)
    found = planned(SECOND_EXAMPLE, PureDP(1), "lowrank")
    assert 38 * (1 - SOLVER) <= found.certificate.achieved < by_print
    closer = planned(SECOND_EXAMPLE, PureDP(1), "lowrank", gamma=1e-6, restarts=5)
    assert closer.certificate.achieved == pytest.approx(38, abs=printed(3))
    assert found.certificate.achieved != pytest.approx(38, abs=printed(3))


def is_within_lemma_3(W: Any, L: Any, norm: int) -> bool:
    """LRM Lemma 3, as trace BᵀB: r·Σλ² for L1 columns; for L2 columns Σλ², by the same construction."""
    values = np.linalg.svd(W, compute_uv=False)
    rank = np.linalg.matrix_rank(W)
    return squared_error(W, L, norm) <= (rank if norm == 1 else 1) * (values**2).sum() * (1 + ROUNDING)


@pytest.mark.thorough
@pytest.mark.parametrize("norm", [1, 2])
def test_lrm_lemma_3(norm: int) -> None:
    for seed in range(2):
        W = related(seed)
        L = lemma_3(W, norm)
        assert L.shape == (3, 12) and np.linalg.norm(L, ord=norm, axis=0).max() <= 1 + ROUNDING
        assert pytest.approx(0, abs=1e-9) == W - W @ np.linalg.pinv(L) @ L
        assert is_within_lemma_3(W, L, norm)
        found = low_rank(W, random_start(4, 12, norm, np.random.default_rng(seed)), norm=norm)
        assert found.strategy is not None and is_within_lemma_3(W, found.strategy, norm)
        assert not is_within_lemma_3(W, np.vstack([L[:1] * 20, L[1:]]), norm)


@pytest.mark.parametrize("norm", [1, 2])
def test_plans_by_low_rank_keep_lemma_3_whatever_the_starts(norm: int) -> None:
    """Laplace noise of variance 2/ε² per unit, Gaussian of 1/μ²; starts cut off after one round."""
    W = prefix(8)
    goal = PureDP(1) if norm == 1 else GDP(1)
    plan = planned(W, goal, "lowrank", max_iterations=1, restarts=1)
    unit = 2.0 if norm == 1 else 1.0
    bound = unit * (8 if norm == 1 else 1) * (W**2).sum()
    assert plan.certificate.achieved <= bound * (1 + SOLVER)
    poor = random_start(10, 8, norm, np.random.default_rng(0))
    assert unit * squared_error(W, poor, norm) > bound


@pytest.mark.thorough
def test_low_rank_ends_within_gamma() -> None:
    W = related(1)
    start = random_start(4, 12, 1, np.random.default_rng(1))
    found = low_rank(W, start, norm=1)
    assert found.ended == "gamma" and found.residual <= 0.01 < found.residuals[0]
    assert np.linalg.norm(W - found.B @ found.L) == pytest.approx(found.residual, rel=1e-6)
    assert np.abs(found.L).sum(axis=0).max() == pytest.approx(1, rel=ROUNDING)
    assert len(found.scales) == len(found.residuals) == len(found.errors) == len(found.seconds)
    assert low_rank(W, start, norm=1, gamma=1.0).residual > 0.01
    assert low_rank(W, start, norm=1, max_iterations=2).ended == "iterations"
    assert low_rank(W, start, norm=1, time_limit=1e-9).ended == "time"
    assert low_rank(W, start, norm=1, beta=1e12, gamma=0.0).ended == "beta"
    with refuses(InputError, "norm", 3):
        low_rank(W, start, norm=3)


@pytest.mark.thorough
@pytest.mark.parametrize("norm", [1, 2])
def test_low_rank_on_torch_agrees(norm: int) -> None:
    extra("torch")
    W = prefix(8)
    start = random_start(10, 8, norm, np.random.default_rng(1))
    here, there = (low_rank(W, start, norm=norm, beta=10.0, backend=b) for b in ("numpy", "torch"))
    assert here.ended == there.ended == "gamma" and here.best == there.best
    assert there.strategy is not None and here.strategy is not None
    for name in ("scales", "residuals", "errors"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-9), name
    for name in ("B", "L", "strategy"):
        assert isinstance(getattr(there, name), np.ndarray)
        assert getattr(there, name) == pytest.approx(getattr(here, name), abs=1e-9), name
    assert squared_error(W, there.strategy, norm) == pytest.approx(min(there.errors), rel=ROUNDING)
    other = low_rank(W, start, norm=norm, beta=10.001, backend="torch")
    assert other.scales[: len(here.scales)] != pytest.approx(here.scales, rel=1e-9)


@pytest.mark.thorough
def test_low_rank_on_torch_loses_rank_too() -> None:
    extra("torch")
    W = prefix(16)
    start = random_start(20, 16, 1, np.random.default_rng(0))
    here, there = (low_rank(W, start, norm=1, backend=b) for b in ("numpy", "torch"))
    assert here.ended == there.ended == "lost rank" and len(here.errors) == len(there.errors)
    assert np.array_equal(np.isinf(here.errors), np.isinf(there.errors))


def test_what_is_missing_is_put_back() -> None:
    W = some_queries(2, 4, 6)
    generator = np.random.default_rng(2)
    B, L = generator.normal(size=(4, 5)), generator.normal(size=(5, 6))
    repaired = unbiased(W, B, L, 4)
    assert B @ repaired == pytest.approx(W, abs=1e-10) and pytest.approx(W, abs=0.1) != B @ L
    # The smallest change: any other that does it is longer.
    null = np.linalg.svd(B)[2][-1][:, None] @ generator.normal(size=(1, 6))
    assert B @ (repaired + null) == pytest.approx(W, abs=1e-10)
    assert np.linalg.norm(repaired + null - L) > np.linalg.norm(repaired - L)
    B[3] = B[2]
    assert unbiased(W, B, L, 4) is None


def test_the_authors_start_is_the_decomposition_of_lemma_3_and_needs_no_chance() -> None:
    W = np.random.default_rng(5).integers(-1, 2, (4, 9)).astype(float)
    rank = np.linalg.matrix_rank(W)
    np.testing.assert_allclose(svd_start(W, rank), lemma_3(W, 1), atol=ROUNDING)
    filled = svd_start(W, 6)
    assert filled.shape == (6, 9) and np.ptp(filled[4:]) == 0 < filled[4, 0] < 1e-8
    assert np.abs(filled).sum(axis=0).max() <= 1
    first, second = (
        planned(W, PureDP(1), "lowrank", start="svd", schedule="authors", seed=seed) for seed in (1, 2)
    )
    assert first.certificate.achieved == second.certificate.achieved
    drawn = {planned(W, PureDP(1), "lowrank", seed=seed).certificate.achieved for seed in (1, 2)}
    assert len(drawn) == 2, "random starts differ"


def test_the_authors_schedule_raises_the_penalty_as_their_program_does(monkeypatch: Any) -> None:
    seen: dict[str, list[tuple[float, int]]] = {}
    W = np.tril(np.ones((5, 5)))

    def watched(name: str) -> Any:
        def alternated(B: Any, L: Any, target: Any, beta: float, ball: Any, steps: int, *more: Any) -> Any:
            seen.setdefault(name, []).append((beta, steps))
            return honest(B, L, target, beta, ball, steps, *more)

        return alternated

    honest = low_rank_rounds._alternated
    for name, schedule in SCHEDULES.items():
        monkeypatch.setattr(low_rank_rounds, "_alternated", watched(name))
        low_rank(W, svd_start(W, 5), norm=1, gamma=1e-300, schedule=schedule, max_iterations=70)
    betas = [5.0 ** (round_ // 8) for round_ in range(70)]
    assert seen["authors"] == [(min(beta, 1e5), 5) for beta in betas]
    assert seen["paper"] == [(2.0 ** (round_ // 10), 50) for round_ in range(len(seen["paper"]))]


@pytest.mark.thorough
def test_lost_rank_is_reported_with_the_best_iterate() -> None:
    """COA section 2.2: the rank of L may drop, and then W = B L never holds."""
    W = prefix(16)
    found = low_rank(W, random_start(20, 16, 1, np.random.default_rng(0)), norm=1)
    assert found.ended == "lost rank" and found.residual > 0.01
    assert all(math.isinf(error) for error in found.errors[-20:]) and len(found.errors) < 200
    if found.strategy is not None:
        assert found.errors[found.best - 1] == min(found.errors)
    kept = low_rank(W, random_start(20, 16, 2, np.random.default_rng(0)), norm=2)
    assert kept.ended == "gamma" and not any(math.isinf(error) for error in kept.errors)
    note = planned(W, PureDP(1), "lowrank").note
    assert "3 starts, 2 lost rank; best: round" in note and "of start 3" in note
    assert "1 start, 0 lost rank; best: round" in planned(W, GDP(1), "lowrank").note
    unfinished = planned(prefix(5), PureDP(1), "lowrank", beta=1e-9, max_iterations=22)
    assert unfinished.note.endswith("1 start, 0 lost rank; best: the decomposition of Lemma 3")
    assert unfinished.ended == "exhausted"
    cut = design(Workload.from_matrix(W), PureDP(1), method="lowrank", time_limit=1e-9)
    assert cut.ended == "deadline"


def test_low_rank_with_gaussian_noise_comes_near_the_optimum() -> None:
    best = optimum("prefix", 16)
    found = planned(prefix(16), GDP(1), "lowrank").certificate.achieved
    assert best * (1 - SOLVER) <= found <= 1.01 * best
    assert planned(prefix(16), GDP(1), "lowrank", max_iterations=1).certificate.achieved > 1.01 * best


@pytest.mark.thorough
def test_low_rank_pays_off_where_the_rank_is_low() -> None:
    """LRM section 6.2: its error follows the rank, that of noise on data the number of cells."""
    few, many = related(3, 9, 12, 2), related(3, 9, 96, 2)
    ours = [planned(W, PureDP(1), "lowrank", restarts=1).certificate.achieved for W in (few, many)]
    data = [planned(W, PureDP(1), "identity").certificate.achieved for W in (few, many)]
    assert ours[1] < data[1] / 5 and ours[1] / ours[0] < data[1] / data[0] / 2


def test_low_rank_needs_as_many_rows_as_the_rank() -> None:
    with refuses(MethodError, "r", 2):
        planned(SECOND_EXAMPLE, PureDP(1), "lowrank", r=2)
    biased = low_rank(np.array(SECOND_EXAMPLE, dtype=float), np.eye(2, 4), norm=1, max_iterations=30)
    assert biased.residual > 0.1 and biased.strategy is None
    assert planned(SECOND_EXAMPLE, PureDP(1), "lowrank", r=3).strategy.shape[0] == 3


def test_the_same_seed_gives_the_same_plan() -> None:
    once, again, other = (
        planned(SECOND_EXAMPLE, PureDP(1), "lowrank", seed=seed, restarts=1, beta=10.0) for seed in (4, 4, 5)
    )
    assert np.array_equal(once.strategy.entries, again.strategy.entries)
    assert not np.array_equal(once.strategy.entries, other.strategy.entries)


# The semidefinite program --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["prefix", "ranges"])
def test_sdp_equals_the_certified_optimum(kind: str) -> None:
    extra("cvxpy")
    W = prefix(16) if kind == "prefix" else EveryRange(16).dense()
    plan = planned(W, GDP(1), "sdp")
    best = optimum(kind, 16)
    assert plan.certificate.achieved == pytest.approx(best, rel=JUDGE)
    assert plan.certificate.lower_bound == pytest.approx(best, rel=JUDGE)
    assert plan.certificate.gap < JUDGE
    assert planned(W, GDP(1), "coa", max_iterations=3).certificate.achieved != pytest.approx(best, rel=JUDGE)


def test_sdp_by_the_other_solver() -> None:
    extra("cvxpy")
    plan = planned(prefix(16), GDP(1), "sdp", solver="SCS")
    assert plan.certificate.achieved == pytest.approx(optimum("prefix", 16), rel=1e-3)
    assert "SCS" in plan.note


def test_the_exact_program_is_the_gaussian_bound() -> None:
    """COA appendix 1.2: (19) as printed has infimum 0; with diag X ≤ 1 it has the optimum of (18)."""
    extra("cvxpy")
    R = prefix(5)
    gaussian, bounded, printed_program = sdp(R), sdp(R, l1=True), sdp(R, l1=True, is_bounded=False)
    assert bounded.value == pytest.approx(gaussian.value, rel=JUDGE)
    assert printed_program.value < JUDGE * gaussian.value
    assert bounded.A is not None and np.abs(bounded.A).sum(axis=0).max() <= 1 + JUDGE
    assert gaussian.A is None


def test_sdp_gives_a_covariance_within_the_profile() -> None:
    """By Schur's complement RᵀY⁻¹R ⪯ X, so that noise of covariance Y has a profile of at most 1."""
    extra("cvxpy")
    R = some_queries(4, 3, 5)
    found = sdp(R)
    profile = np.diag(R.T @ np.linalg.solve(found.Y, R))
    assert profile.max() <= 1 + JUDGE and found.status == "optimal"
    assert np.diag(R.T @ np.linalg.solve(0.9 * found.Y, R)).max() > 1 + JUDGE
    assert np.trace(found.Y) == pytest.approx(found.value, rel=JUDGE)


def test_sdp_under_laplace_noise() -> None:
    extra("cvxpy")
    for W in (prefix(6), related(5, 4, 6, 3)):
        plan = planned(W, PureDP(1), "sdp")
        assert plan.certificate.status == "heuristic" and "root under Laplace noise" in plan.note
        assert plan.certificate.achieved >= plan.certificate.lower_bound


def test_sdp_solver_failures_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    extra("cvxpy")
    with refuses(InputError, "solver", "MAGIC"):
        sdp(np.eye(2), solver="MAGIC")
    for solver in ("CLARABEL", "SCS"):
        with monkeypatch.context() as patched:
            # So much is left when the solver begins.
            patched.setattr("leastnoise.papers.sdp._left", lambda deadline, solver: 1e-9)
            with pytest.raises(
                DesignError, match=rf"the solver {solver} found no noise .*; give it more time"
            ):
                sdp(prefix(12), solver=solver, time_limit=1e-9)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with refuses(MethodError, "method", "sdp", "needs CVXPY: pip install"):
        planned(np.eye(2), GDP(1), "sdp")


def test_sdp_looks_at_the_clock_before_it_models(monkeypatch: pytest.MonkeyPatch) -> None:
    cvxpy = extra("cvxpy")
    modelled: list[int] = []
    whole = cvxpy.Problem

    def noted(*given: Any) -> Any:
        modelled.append(1)
        return whole(*given)

    monkeypatch.setattr(cvxpy, "Problem", noted)
    for hasty in (
        lambda: sdp(prefix(4), time_limit=1e-9),
        lambda: design(Workload.from_matrix(prefix(4)), GDP(1), method="sdp", time_limit=1e-9),
    ):
        with refuses(DesignError, "solver", "CLARABEL", "time was up"):
            hasty()
    assert modelled == []
    assert sdp(prefix(4), time_limit=60).status == "optimal" and modelled == [1]


# Backends ------------------------------------------------------------------------------------


def operations(arrays: Any) -> dict[str, Any]:
    """What every operation makes of the same matrices, as NumPy; some lack rank, some are views."""
    generator = np.random.default_rng(8)
    tall = generator.normal(size=(9, 2)) @ generator.normal(size=(2, 4))
    square = generator.normal(size=(4, 4))
    definite = square @ square.T + np.eye(4)
    X, T, S, D = (arrays.matrix(values) for values in (square, tall, square.T, definite))
    values, vectors = arrays.eigh(D)
    U, d, Vt = arrays.svd(T)
    cleared = 1 * X
    arrays.clear_diagonal(cleared)
    found = {
        "dot": np.array([arrays.dot(X, S.T), arrays.dot(X, S)]),
        "solve": arrays.solve(D, X),
        "least_squares": arrays.least_squares(T, T[:, :3]),
        "inverse": arrays.inverse(D),
        "values": values,
        "eigh": (vectors * values) @ vectors.T,
        "d": d,
        "svd": (U * d) @ Vt,
        "sorted_columns": arrays.sorted_columns(X),
        "column_max": arrays.column_max(X),
        "clear_diagonal": cleared,
        "plus_diagonal": arrays.plus_diagonal(X, np.arange(4.0)),
        "project_l1": L1Ball(arrays).project(2 * X),
        "project_l2": L2Ball(arrays).project(2 * X),
    }
    verdicts = [arrays.cholesky(D) is not None, arrays.cholesky(-D) is not None, arrays.inverse(-D) is None]
    return {name: arrays.numpy(value) for name, value in found.items() if name != "dot"} | {
        "dot": found["dot"],
        "verdicts": np.array(verdicts, dtype=float),
    }


def differing(here: dict[str, Any], there: dict[str, Any]) -> set[str]:
    return {name for name in here if there[name] != pytest.approx(here[name], rel=1e-9, abs=1e-9)}


def test_operations_on_torch_agree() -> None:
    torch = extra("torch")
    here, arrays = operations(load_backend("numpy")), load_backend("torch")
    assert differing(here, operations(arrays)) == set()
    assert here["verdicts"].tolist() == [1, 0, 1] and here["dot"][0] != here["dot"][1]

    class Careless(type(arrays)):  # type: ignore[misc]
        """Takes singular values for what they are not, and sorts the wrong way round."""

        def least_squares(self, matrix: Any, right: Any) -> Any:
            square = matrix.T @ matrix
            return torch.linalg.inv(square + 1e-3 * torch.eye(len(square), dtype=square.dtype)) @ (
                matrix.T @ right
            )

        def sorted_columns(self, matrix: Any) -> Any:
            return matrix.sort(dim=0).values

        def cholesky(self, symmetric: Any) -> Any:
            return symmetric

    assert differing(here, operations(Careless("cpu"))) == {
        "least_squares",
        "inverse",
        "sorted_columns",
        "project_l1",
        "verdicts",
    }


def test_one_warning_of_torch_is_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA a decomposition done again by the accurate routine says so; anything else is passed on."""
    torch = extra("torch")
    arrays, real = load_backend("torch"), torch.linalg.svd

    def warning(text: str) -> Any:
        def svd(X: Any, full_matrices: bool) -> Any:
            warnings.warn(text, UserWarning, stacklevel=1)
            return real(X, full_matrices=full_matrices)

        return svd

    monkeypatch.setattr(torch.linalg, "svd", warning("torch.linalg.svd: During SVD computation with ..."))
    assert arrays.numpy(arrays.svd(arrays.matrix(2 * np.eye(2)))[1]).tolist() == [2, 2]
    monkeypatch.setattr(torch.linalg, "svd", warning("the device is on fire"))
    with pytest.raises(UserWarning, match="on fire"):
        arrays.svd(arrays.matrix(np.eye(2)))


@pytest.mark.thorough
@pytest.mark.parametrize("goal", [GDP(1), PureDP(1)], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("method", ["lowrank", "smoothing"])
def test_plans_on_torch_are_as_good(method: str, goal: Goal, monkeypatch: pytest.MonkeyPatch) -> None:
    extra("torch")
    workload = Workload.from_matrix(prefix(8))
    used: list[str] = []
    module = low_rank_rounds if method == "lowrank" else smoothing_module
    monkeypatch.setattr(module, "load_backend", lambda name: used.append(name) or load_backend(name))
    here, there = (
        design(workload, goal, method=method, backend=backend).certificate.achieved
        for backend in ("numpy", "torch")
    )
    assert there == pytest.approx(here, rel=1e-6 if method == "lowrank" else 0.02)
    hasty = design(workload, goal, method=method, backend="torch", options={"max_iterations": 2})
    assert hasty.certificate.achieved != pytest.approx(here, rel=0.02)
    assert used == ["numpy"] * used.count("numpy") + ["torch"] * used.count("torch")
    assert used.count("torch") > used.count("numpy") > 0


def test_backends_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = extra("torch")
    start = np.eye(2)
    with refuses(InputError, "backend", "gpu"):
        low_rank(np.eye(2), start, norm=2, backend="gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for find in (coa, smoothing, lambda gram, backend: low_rank(gram, start, norm=2, backend=backend)):
        with refuses(MissingExtraError, "backend", "cuda"):
            find(np.eye(2), backend="cuda")
    monkeypatch.setitem(sys.modules, "torch", None)
    with refuses(MissingExtraError, "backend", "torch"):
        smoothing(np.eye(2), backend="torch")


# Proposals -----------------------------------------------------------------------------------


def test_rows_beyond_the_queries_are_measured_too() -> None:
    """L1 columns are not the same in every rotation: rows that reach outside the queries must stay."""
    W = np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
    workload = Workload.from_matrix(W)
    basis = integer_basis(workload)
    A = np.array([[1, 0.5, 0, 0], [0, 0.5, 0.25, 0.25], [0, 0, 0.75, 0.75]])
    strategy = from_rows(A, basis).measured_within(PureDP(1), tol=1e-6)
    assert strategy.can_answer(workload.operator)
    entries = strategy.entries.astype(float)
    assert entries / entries.max() == pytest.approx(A, abs=1e-7)
    assert np.linalg.matrix_rank(entries) == 3
    inside = from_rows(np.array([[1, 1, 0, 0], [0, 0, 0.3, 0.3]]), basis).measured_within(PureDP(1), tol=1e-6)
    assert inside.shape == (2, 4)
    with refuses(DesignError, "strategy", ..., "too weak in some direction"):
        from_rows(np.array([[1, 1, 0, 0], [0, 0, 1e-14, 1e-14]]), basis)


def test_covariances_become_strategies() -> None:
    R = some_queries(6, 3, 3)
    Sigma = np.diag([1.0, 2.0, 5.0])
    C = from_covariance(R, Sigma, Basis(None, 3)).coefficients
    inverse = np.linalg.inv(C)
    assert R @ inverse @ inverse.T @ R.T == pytest.approx(Sigma, rel=1e-9, abs=1e-9)
    with refuses(DesignError, "strategy", ..., "no variance in some direction"):
        from_covariance(R, np.zeros((3, 3)), Basis(None, 3))


# Every method --------------------------------------------------------------------------------

AWKWARD = {
    "full rank": prefix(4),
    "more queries than cells": EveryRange(4).dense(),
    "dependent queries": np.array(FIRST_EXAMPLE),
    "real, of low rank": related(7, 5, 6, 2),
    "a cell nobody asks for": np.array([[1, 0, 2], [0, 0, 1]]),
    "one cell": np.array([[3]]),
    "large units": 1e6 * prefix(3),
    "small units": 1e-6 * prefix(3),
}


def total_by_hand(plan: Plan, weights: Any) -> float:
    """Σ w_j v_j from the integer rows, by dense least squares."""
    W = plan.workload.dense() * np.sqrt(weights)[:, None]
    A = plan.strategy.dense(float)
    return float(np.linalg.norm(W @ np.linalg.pinv(A, rcond=1e-11)) ** 2 * plan.strategy.noise_variance)


@pytest.mark.thorough
@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("method", OURS)
def test_every_method_answers_awkward_queries(method: str, case: str) -> None:
    if method == "sdp":
        extra("cvxpy")
    goals: list[Goal] = [GDP(2)] if method.startswith("coa") else [GDP(2), PureDP(0.5)]
    for goal in goals:
        quick = {"max_iterations": 40} if method == "lowrank" else {}
        plan = planned(AWKWARD[case], goal, method, **quick)
        achieved = plan.certificate.achieved
        assert achieved == pytest.approx(total_by_hand(plan, plan.workload.weights), rel=1e-6)
        assert plan.certificate.lower_bound <= achieved
        assert plan.strategy.spent <= goal.budget and plan.method == method


@pytest.mark.thorough
@pytest.mark.parametrize("method", OURS)
def test_every_method_minimises_what_is_asked(method: str) -> None:
    """Weights, by query or relative to a prior, change the plan for the better."""
    if method == "sdp":
        extra("cvxpy")
    W = prefix(6)
    w = np.array([1.0, 1, 1, 1, 100, 100])
    light, heavy = Workload.from_matrix(W), Workload.from_matrix(W, weights=w)
    plain = design(light, GDP(1), method=method)
    weighted = design(heavy, GDP(1), method=method)
    assert weighted.certificate.achieved < 0.97 * total_by_hand(plain, w)
    relative = TotalVariance(relative_to=[1, 1, 1, 1, 1, 200])
    asked = design(light, GDP(1), method=method, objective=relative)
    by_size = relative.weights(light)
    assert total_by_hand(asked, by_size) < 0.99 * total_by_hand(plain, by_size)


@pytest.mark.parametrize("method", OURS)
def test_every_method_serves_records_that_are_replaced(method: str) -> None:
    if method == "sdp":
        extra("cvxpy")
    plan = planned(prefix(5), GDP(1, neighbours="replace-one"), method)
    assert plan.note.endswith("for records added or removed, scaled to records replaced")
    assert plan.certificate.status == "heuristic" and plan.strategy.spent <= 1
    assert "replaced" not in planned(prefix(5), GDP(1), method).note


@pytest.mark.parametrize("method", OURS)
def test_every_method_knows_when_nothing_is_asked(method: str) -> None:
    if method == "sdp":
        extra("cvxpy")
    plan = planned(np.zeros((2, 3)), GDP(1), method)
    assert plan.certificate.achieved == 0 and plan.note == "every query is zero"


@pytest.mark.parametrize("method", OURS)
def test_every_method_shows_progress_and_keeps_to_its_time(method: str) -> None:
    if method == "sdp":
        extra("cvxpy")
    seen: list[Progress] = []
    workload = Workload.from_matrix(prefix(6))
    design(workload, GDP(1), method=method, progress=seen.append)
    assert [p.step for p in seen] == list(range(1, len(seen) + 1)) and seen
    assert all(a.seconds <= b.seconds for a, b in pairwise(seen))
    if method != "sdp":
        hasty = design(workload, GDP(1), method=method, time_limit=1e-9)
        assert hasty.certificate.achieved >= design(workload, GDP(1), method=method).certificate.achieved


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", OURS)
def test_the_largest_variance_is_refused(method: str) -> None:
    workload = Workload.from_matrix(prefix(3))
    with refuses(MethodError, "method", ..., f"'{method}' cannot do this: it minimises total variance only"):
        design(workload, GDP(1), method=method, objective=MaxVariance())


@pytest.mark.parametrize("method", ["coa", "coa-homotopy"])
def test_laplace_noise_is_refused(method: str) -> None:
    with pytest.raises(MethodError, match=f"'{method}' cannot do this: its noise is Gaussian.* lowrank"):
        planned(prefix(3), PureDP(1), method)


@pytest.mark.parametrize(
    ("method", "options", "backend", "most"),
    [
        ("coa", {}, "numpy", 10_000),
        ("coa-homotopy", {}, "numpy", 10_000),
        ("smoothing", {}, "numpy", 2_000),
        ("smoothing", {}, "cuda", 10_000),
        ("lowrank", {}, "numpy", 10_000),
        ("sdp", {}, "numpy", 48),
        ("sdp", {"solver": "SCS"}, "numpy", 128),
    ],
)
def test_too_many_cells_are_refused(method: str, options: dict[str, Any], backend: str, most: int) -> None:
    if method == "sdp":
        extra("cvxpy")
    for n, is_refused in ((most, False), (most + 1, True)):
        workload = assemble([Total()], Schema(x=range(n)))
        reason = method_named(method).refuses(Request(workload, GDP(1), options, backend=backend))
        expected = f"it works on at most {most:,} cells; this workload has {n:,}"
        assert reason == (expected if is_refused else None)


def test_sdp_names_who_can_do_more() -> None:
    extra("cvxpy")
    workload = assemble([Total()], Schema(x=range(100)))
    with refuses(
        MethodError, "method", "sdp", "'sdp' cannot do this: it works on at most 48 cells", "; dense,"
    ):
        design(workload, GDP(1), method="sdp")


def test_other_backends_are_refused() -> None:
    extra("cvxpy")
    with refuses(MethodError, "method", "sdp", "it runs on backend 'numpy' alone, not", "lowrank"):
        design(Workload.from_matrix(np.eye(2)), GDP(1), method="sdp", backend="torch")


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("coa", {"theta": 0}, "theta must be a positive number, got 0"),
        ("coa", {"theta": True}, "theta must be a positive number, got True"),
        ("coa", {"max_iterations": 2.0}, "max_iterations must be a whole number, 1 or more, got 2.0"),
        ("coa", {"depth": 1}, "'coa' has no option depth; its options: theta, max_iterations"),
        ("coa-homotopy", {"stages": 0}, "stages must be a whole number, 1 or more, got 0"),
        ("smoothing", {"accuracies": ()}, "accuracies must hold at least one positive number"),
        ("smoothing", {"accuracies": (0.1, -1)}, "accuracies must be a positive number, got -1"),
        ("lowrank", {"gamma": -1.0}, "gamma must be a positive number, got -1.0"),
        ("lowrank", {"r": "3"}, "r must be a whole number, 1 or more, got '3'"),
        ("lowrank", {"seed": -1}, "seed must be a whole number, 0 or more, got -1"),
        ("sdp", {"solver": "best"}, "solver must be one of CLARABEL, SCS, got 'best'"),
        ("sdp", {"solver": ["SCS"]}, "solver must be one of CLARABEL, SCS, got a value of type list"),
        ("sdp", {"solver": {}}, "solver must be one of CLARABEL, SCS, got a value of type dict"),
        ("coa", {"theta": 1e308}, r"theta must be a number from 1e-100 to 1e\+06, got 1e\+308"),
        ("coa-homotopy", {"theta": 10**400}, "theta must be a number from .*, got a whole number of 1,329 b"),
        ("coa", {"max_iterations": 10**5000}, "max_iterations must be at most 9,.*, got a whole number of"),
        ("smoothing", {"accuracies": [10**400]}, "accuracies must be a number from 1e-12 to"),
        ("lowrank", {"gamma": 10**400}, "gamma must be a number from 1e-100 to"),
        ("lowrank", {"beta": 1e-300}, "beta must be a number from 1e-12 to .*, got 1e-300"),
        ("lowrank", {"beta": 10**30}, "beta must be a number from 1e-12 to"),
        ("lowrank", {"r": 21}, "r must be at most 20, got 21"),
        ("lowrank", {"r": 10**400}, "r must be at most 20, got a whole number of 1,329 bits"),
    ],
)
def test_options_that_mean_nothing_are_refused(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MethodError, match=message):
        planned(np.eye(2), GDP(1), method, **options)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("coa", {"theta": 1e6}),
        ("coa", {"theta": 1e-100}),
        ("smoothing", {"accuracies": (1e6, 1e-12)}),
        ("lowrank", {"beta": 1e12}),
        ("lowrank", {"beta": 1e-12, "max_iterations": 30}),
        ("lowrank", {"r": 40, "max_iterations": 5}),
    ],
)
@pytest.mark.parametrize("goal", [GDP(1), PureDP(1)], ids=str)
def test_options_at_their_limits_serve(method: str, options: dict[str, Any], goal: Any) -> None:
    if method != "coa" or goal.noise == "gaussian":
        found = planned(prefix(4), goal, method, **options).certificate
        assert found.lower_bound <= found.achieved < math.inf


@pytest.mark.parametrize("method", ["coa", "coa-homotopy", "smoothing", "weighted-basis", "lowrank", "eigen"])
def test_queries_of_weight_zero_alone_are_refused_in_one_sentence(method: str) -> None:
    weightless = Workload.from_matrix([[1, 0], [0, 1], [0, 0]], weights=[0, 0, 2])
    with pytest.raises(DesignError) as by_dense:
        design(weightless, GDP(1), method="dense")
    assert "has weight 0 and asks for something no other query does" in str(by_dense.value)
    with pytest.raises(DesignError) as by_other:
        design(weightless, GDP(1), method=method)
    assert str(by_other.value) == str(by_dense.value)
    weighed = Workload.from_matrix([[1, 0], [0, 1], [0, 0]], weights=[1, 1, 2])
    assert design(weighed, GDP(1), method=method).certificate.achieved > 0


# Matrix operations on NumPy or PyTorch: they search for nothing.
BACKEND = {"NUMPY", "Backend", "load_backend"}


def imports_the_solver(path: Path) -> bool:
    """Whether a module takes anything from leastnoise.solver, or from the family built on it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            if {alias.name for alias in node.names} <= BACKEND:
                continue
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return any(name.startswith(("leastnoise.solver", "leastnoise.planning.families.dense")) for name in names)


def test_the_papers_own_algorithms_do_not_use_our_solver() -> None:
    package = Path(leastnoise.__file__).parent
    shared = package / "planning/families/proposals.py"
    for path in [*(package / "papers").glob("*.py"), package / "core/backend.py", shared]:
        assert not imports_the_solver(path), path
    assert imports_the_solver(package / "planning/families/dense.py")
    assert sdp_module.MAX_CELLS["CLARABEL"] == 48
