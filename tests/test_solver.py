"""The solver: derivatives by differences, bounds by singular values, convergence on many problems."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import pytest

from leastnoise.errors import InputError, MissingExtraError
from leastnoise.progress import Progress
from leastnoise.solver import BACKENDS, Solution, load_backend, minimise_total_variance
from leastnoise.solver.dual import DualPoint, evaluate
from support import extra
from tolerances import ROUNDING, SOLVER

# Central differences with a step of 1e-5 lose 1e-10 to truncation and 1e-11 to rounding.
DIFFERENCES = 1e-7
NUMPY = load_backend("numpy")


def nuclear(R: Any, q: Any) -> float:
    """F(q) by singular values."""
    return float(np.linalg.svd(R * np.sqrt(q), compute_uv=False).sum())


def problem(seed: int, *, low_rank: bool | None = None) -> Any:
    """A random R of rank k over n cells, every column nonzero."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    is_low = bool(rng.integers(2)) if low_rank is None else low_rank
    k = int(rng.integers(1, n + 1)) if is_low else n
    return rng.normal(size=(k, n)) * 10.0 ** rng.uniform(-1, 1, n)


# The dual function ---------------------------------------------------------------------------


def has_right_derivatives(point: DualPoint, R: Any) -> bool:
    """F, gradient (of 2F) and Hessian (minus that of 2F) against singular values and differences."""
    q, n = point.q, len(point.q)
    if abs(point.F / nuclear(R, q) - 1) > ROUNDING or abs(q.sum() / point.F - 1) > ROUNDING:
        return False
    P = np.column_stack([point.hessian_product(unit) for unit in np.eye(n)])
    for i in range(n):
        step = 1e-5 * q[i]
        up, down = q.copy(), q.copy()
        up[i] += step
        down[i] -= step
        slope = 2 * (nuclear(R, up) - nuclear(R, down)) / (2 * step)
        if abs(slope - point.u[i]) > DIFFERENCES * (1 + abs(slope)):
            return False
        change = (gradient(R, up) - gradient(R, down)) / (2 * step)
        if np.abs(change + P[:, i]).max() > DIFFERENCES * (1 + np.abs(P).max()):
            return False
    return bool(np.abs(np.diag(P) - point.hessian_diagonal()).max() <= ROUNDING * np.abs(P).max())


def gradient(R: Any, q: Any) -> Any:
    """u_i = r_iᵀ T^{−½} r_i by an eigendecomposition of its own."""
    values, vectors = np.linalg.eigh((R * q) @ R.T)
    return ((vectors.T @ R) ** 2 / np.sqrt(values)[:, None]).sum(axis=0)


@pytest.mark.parametrize("seed", range(25))
def test_derivatives_agree_with_differences(seed: int) -> None:
    R = problem(seed)
    q = np.random.default_rng(seed + 100).uniform(0.1, 2, R.shape[1])
    point = evaluate(R, q, NUMPY)
    assert has_right_derivatives(point, R)
    assert not has_right_derivatives(dataclasses.replace(point, u=point.u * (1 + 1e-5)), R)
    assert not has_right_derivatives(dataclasses.replace(point, beta=point.beta * 1.001), R)
    assert not has_right_derivatives(dataclasses.replace(point, d=point.d * 1.001), R)


def test_bounds_do_not_depend_on_the_unit_of_q() -> None:
    R = problem(3)
    q = np.random.default_rng(3).uniform(0.1, 2, R.shape[1])
    first = evaluate(R, q, NUMPY)
    for unit in (1e-50, 1e-8, 1e8, 1e50):
        other = evaluate(R, q * unit, NUMPY)
        assert other.lower_bound == pytest.approx(first.lower_bound, rel=ROUNDING)
        assert other.achieved == pytest.approx(first.achieved, rel=ROUNDING)


@pytest.mark.parametrize("ratio", [1e-3, 1e-6, 1e-9])
def test_weak_directions_keep_their_digits(ratio: float) -> None:
    """Squaring costs half the digits of a weak direction; singular values do not."""
    rng = np.random.default_rng(17)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    R = np.diag(np.geomspace(1, ratio, 6)) @ turn
    point = evaluate(R, np.ones(6), NUMPY)
    strength = point.d / point.d[-1]
    np.testing.assert_allclose(np.sort(strength), np.geomspace(ratio, 1, 6), rtol=1e-6)


# Weak duality --------------------------------------------------------------------------------


def test_no_weights_ever_beat_a_feasible_strategy() -> None:
    rng = np.random.default_rng(21)
    for seed in range(200):
        R = problem(seed)
        k, n = R.shape
        bounds = []
        for _ in range(3):
            q = 10.0 ** rng.uniform(-4, 4, n) * (rng.random(n) < 0.8)
            if q.any():
                bounds.append(nuclear(R, q) ** 2 / q.sum())
        # Any A = M R with columns of norm at most 1 answers R with total variance ‖R A⁺‖².
        for _ in range(3):
            A = rng.normal(size=(k + 2, k)) @ R
            A /= np.sqrt((A**2).sum(axis=0).max())
            achieved = float((np.linalg.norm(R @ np.linalg.pinv(A))) ** 2)
            for bound in bounds:
                assert bound <= achieved * (1 + ROUNDING)


def test_a_solution_is_feasible_and_achieves_what_it_says() -> None:
    for seed in range(40):
        R = problem(seed)
        solution = minimise_total_variance(R, tol=SOLVER)
        assert is_proved(solution, R, SOLVER)
        assert not is_proved(dataclasses.replace(solution, achieved=solution.achieved * 0.999), R, SOLVER)
        assert not is_proved(dataclasses.replace(solution, root=solution.root * 1.001), R, SOLVER)
        assert not is_proved(
            dataclasses.replace(solution, lower_bound=solution.lower_bound * 1.01), R, SOLVER
        )


def is_proved(solution: Solution, R: Any, tol: float) -> bool:
    """Both sides from R, the root and q alone."""
    A = solution.root
    is_feasible = (A**2).sum(axis=0).max() <= 1 + ROUNDING
    achieved = float(np.linalg.norm(R @ np.linalg.pinv(A)) ** 2)
    bound = nuclear(R, solution.q) ** 2 / solution.q.sum()
    agrees = abs(achieved / solution.achieved - 1) < 1e-9 and abs(bound / solution.lower_bound - 1) < 1e-9
    return bool(is_feasible and agrees and achieved <= (1 + tol + ROUNDING) * bound)


# Convergence ---------------------------------------------------------------------------------


@pytest.mark.parametrize("low_rank", [False, True])
def test_random_problems_converge_to_nine_digits(low_rank: bool) -> None:
    for seed in range(60):
        R = problem(1000 + seed, low_rank=low_rank)
        solution = minimise_total_variance(R, tol=1e-9)
        assert solution.has_converged and solution.gap <= 1e-9
        assert is_proved(solution, R, 1e-9)


def test_larger_problems_converge() -> None:
    rng = np.random.default_rng(31)
    for k, n in ((40, 40), (15, 60), (1, 50), (49, 50)):
        solution = minimise_total_variance(rng.normal(size=(k, n)), tol=1e-8)
        assert solution.has_converged and solution.steps <= 40


@pytest.mark.parametrize("seed", range(60))
def test_many_cells_in_few_directions_converge(seed: int) -> None:
    """With more active cells than curvature, or weight on the wrong ones, 200 steps left a gap of a third."""
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(int(rng.integers(2, 5)), int(rng.integers(40, 60))))
    solution = minimise_total_variance(R, tol=1e-8)
    assert solution.has_converged and solution.steps < 100
    assert is_proved(solution, R, 1e-8)


def test_independent_cells_have_a_closed_form() -> None:
    """W = diag(a): variances v_i = 1, so the total is Σ a_i²."""
    for values in ([3.0], [1.0, 1.0], [1.0, 10.0, 100.0, 1e-3]):
        solution = minimise_total_variance(np.diag(values), tol=1e-10)
        assert solution.achieved == pytest.approx(sum(a * a for a in values), rel=1e-9)
        np.testing.assert_allclose(
            solution.q / solution.q.sum(), np.square(values) / np.square(values).sum(), rtol=1e-4
        )


def test_one_query_costs_its_largest_coefficient() -> None:
    """One row: noise on the answer itself, whose sensitivity is its largest entry."""
    rng = np.random.default_rng(32)
    for n in (1, 2, 7, 40):
        row = rng.normal(size=(1, n))
        solution = minimise_total_variance(row, tol=1e-9)
        assert solution.achieved == pytest.approx(np.abs(row).max() ** 2, rel=1e-8)
    assert minimise_total_variance(np.ones((1, 30)), tol=1e-9).achieved == pytest.approx(1, rel=ROUNDING)


def test_equal_cells_cost_what_one_costs() -> None:
    R = problem(5, low_rank=False)
    once = minimise_total_variance(R, tol=1e-9)
    thrice = minimise_total_variance(np.hstack([R, R, R]), tol=1e-9)
    assert thrice.achieved == pytest.approx(once.achieved, rel=1e-8)


def test_bounds_only_improve_and_progress_sees_it() -> None:
    R = np.tril(np.ones((60, 60))) * np.linspace(1, 30, 60)
    seen: list[Progress] = []
    solution = minimise_total_variance(R, tol=1e-9, progress=seen.append)
    gaps = [p.gap for p in seen]
    assert len(gaps) == solution.steps + 1 >= 3
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] == solution.gap <= 1e-9
    assert [p.step for p in seen] == list(range(len(seen)))
    assert [p.seconds for p in seen] == sorted(p.seconds for p in seen)


def test_a_time_limit_stops_with_an_honest_gap() -> None:
    R = np.tril(np.ones((60, 60))) * np.linspace(1, 30, 60)
    started = time.monotonic()
    solution = minimise_total_variance(R, tol=1e-12, time_limit=1e-9)
    assert time.monotonic() - started < 10
    assert not solution.has_converged and solution.steps == 0 and solution.gap > 1e-12
    assert is_proved(solution, R, solution.gap)


def test_an_impossible_tolerance_ends_all_the_same() -> None:
    solution = minimise_total_variance(problem(8), tol=1e-300)
    assert abs(solution.gap) < 1e-9


# Backends ------------------------------------------------------------------------------------


def test_torch_agrees_with_numpy() -> None:
    extra("torch")
    for seed in range(12):
        R = problem(seed)
        here = minimise_total_variance(R, tol=1e-9)
        there = minimise_total_variance(R, tol=1e-9, backend="torch")
        assert there.has_converged and is_proved(there, R, 1e-9)
        assert there.achieved == pytest.approx(here.achieved, rel=3e-9)
        point = evaluate(NUMPY.matrix(R), np.ones(R.shape[1]), NUMPY)
        torch = load_backend("torch")
        other = evaluate(torch.matrix(R), np.ones(R.shape[1]), torch)
        np.testing.assert_allclose(other.u, point.u, rtol=1e-9)
        v = np.random.default_rng(seed).normal(size=R.shape[1])
        np.testing.assert_allclose(
            other.hessian_product(v), point.hessian_product(v), rtol=1e-7, atol=ROUNDING
        )


def test_unknown_backends_are_refused() -> None:
    for name in ("jax", "", "NumPy"):
        with pytest.raises(InputError, match=r"backend must be one of numpy, torch, cuda, got"):
            load_backend(name)
    assert BACKENDS == ("numpy", "torch", "cuda")


def test_cuda_without_a_device_is_refused() -> None:
    if extra("torch").cuda.is_available():
        load_backend("cuda")
        return
    with pytest.raises(MissingExtraError, match="backend='cuda' needs a CUDA device; use backend='torch'"):
        load_backend("cuda")


def test_torch_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "leastnoise.solver.backend_torch", None)
    with pytest.raises(MissingExtraError, match=r"backend='torch' needs PyTorch: pip install"):
        load_backend("torch")
