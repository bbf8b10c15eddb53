"""The solver: derivatives by differences, bounds by singular values, convergence on many problems."""

from __future__ import annotations

import dataclasses
import math
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import InputError, MissingExtraError
from leastnoise.core.progress import Progress
from leastnoise.privacy import GDP
from leastnoise.solver import BACKENDS, Columns, Optimum, least_total, load_backend, maps
from leastnoise.solver.dual import BlockPoint, CurvedPoint, DualNoise
from leastnoise.strategy import RealStrategy
from support import extra, refuses
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


def has_right_derivatives(point: CurvedPoint, R: Any) -> bool:
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


def point_of(R: Any, q: Any) -> BlockPoint:
    """The point of one block."""
    point = Columns([R]).evaluate(q)
    assert isinstance(point, BlockPoint)
    return point


def gradient(R: Any, q: Any) -> Any:
    """u_i = r_iᵀ T^{−½} r_i by an eigendecomposition of its own."""
    values, vectors = np.linalg.eigh((R * q) @ R.T)
    return ((vectors.T @ R) ** 2 / np.sqrt(values)[:, None]).sum(axis=0)


@pytest.mark.parametrize("seed", range(25))
def test_derivatives_agree_with_differences(seed: int) -> None:
    R = problem(seed)
    q = np.random.default_rng(seed + 100).uniform(0.1, 2, R.shape[1])
    point = point_of(R, q)
    assert has_right_derivatives(point, R)
    assert not has_right_derivatives(dataclasses.replace(point, u=point.u * (1 + 1e-5)), R)
    (stack,) = point.stacks
    for wrong in (
        dataclasses.replace(stack, beta=stack.beta * 1.001),
        dataclasses.replace(stack, d=stack.d * 1.001),
    ):
        assert not has_right_derivatives(dataclasses.replace(point, stacks=[wrong]), R)


def test_bounds_do_not_depend_on_the_unit_of_q() -> None:
    R = problem(3)
    q = np.random.default_rng(3).uniform(0.1, 2, R.shape[1])
    first = point_of(R, q)
    for unit in (1e-50, 1e-8, 1e8, 1e50):
        other = point_of(R, q * unit)
        assert other.lower_bound == pytest.approx(first.lower_bound, rel=ROUNDING)
        assert other.achieved == pytest.approx(first.achieved, rel=ROUNDING)


@pytest.mark.parametrize("ratio", [1e-3, 1e-6, 1e-9])
def test_weak_directions_keep_their_digits(ratio: float) -> None:
    """Squaring costs half the digits of a weak direction; singular values do not."""
    rng = np.random.default_rng(17)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    R = np.diag(np.geomspace(1, ratio, 6)) @ turn
    d = point_of(R, np.ones(6)).stacks[0].d[0]
    strength = d / d.max()
    np.testing.assert_allclose(np.sort(strength), np.geomspace(ratio, 1, 6), rtol=1e-6)


def is_noise_of(noise: DualNoise | None, R: Any) -> bool:
    """Whether profile and total variance are those of the strategy that the root stands for."""
    if noise is None:
        return False
    A = np.asarray(noise.roots[0])
    total = float(np.linalg.norm(R @ np.linalg.pinv(A)) ** 2)
    agrees = np.abs((A**2).sum(axis=0) - noise.u).max() <= ROUNDING * noise.u.max()
    return bool(agrees and abs(total / noise.total - 1) <= ROUNDING)


def second_order_errors(R: Any, change: Any, sizes: tuple[float, ...]) -> list[float]:
    """How far `moved` is from the noise of the changed weights, for changes of some sizes."""
    point = point_of(R, np.random.default_rng(9).uniform(0.5, 2, R.shape[1]))
    errors = []
    for size in sizes:
        moved = point.moved(size * change * point.q)
        assert moved is not None
        exact = gradient(R, point.q * (1 + size * change))
        errors.append(float(np.abs(moved.u - exact).max()))
    return errors


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 5), (4, 9), (130, 140)])
def test_noise_moved_to_first_order_is_noise_and_right_to_second(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape)
    R, change = rng.normal(size=shape), rng.uniform(-1, 1, shape[1])
    point = point_of(R, rng.uniform(0.5, 2, shape[1]))
    # DualNoise whatever the change, near or far, and the point's own where nothing changes.
    for size in (0.0, 1e-3, 0.3):
        moved = point.moved(size * change * point.q)
        assert is_noise_of(moved, R)
        assert moved is not None
        assert not is_noise_of(dataclasses.replace(moved, total=moved.total * (1 + 1e-9)), R)
        assert not is_noise_of(dataclasses.replace(moved, u=moved.u * (1 + 1e-9)), R)
    still = point.moved(np.zeros(shape[1]))
    assert still is not None and still.achieved == pytest.approx(point.achieved, rel=ROUNDING)
    # A tenth of the change leaves a hundredth of the error; of an error of first order, a tenth.
    large, small = second_order_errors(R, change, (1e-2, 1e-3))
    assert small < large / 50


def test_a_change_too_large_for_first_order_is_refused() -> None:
    point = point_of(np.eye(3), np.ones(3))
    assert point.moved(-3 * point.q) is None


def test_symmetric_forms_in_bands_agree_with_whole_matrices() -> None:
    """From 65 directions on, several bands; 8 · 64 + 1 makes their last one narrow."""
    rng = np.random.default_rng(11)
    for k in (64, 65, 513):
        R = rng.normal(size=(k, k + 3))
        point = point_of(R, rng.uniform(0.5, 2, k + 3))
        v = rng.normal(size=k + 3)
        (d,), (beta,) = point.stacks[0].d, point.stacks[0].beta
        K = 1 / (d[:, None] + d)
        whole = (((beta * v) @ beta.T * K) @ beta * beta).sum(axis=0)
        np.testing.assert_allclose(
            point.hessian_product(v), whole, rtol=1e-9, atol=1e-9 * np.abs(whole).max()
        )
        squares = beta**2
        np.testing.assert_allclose(point.hessian_diagonal(), ((K @ squares) * squares).sum(axis=0), rtol=1e-9)


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
        solution = least_total(R, tol=SOLVER)
        assert is_proved(solution, R, SOLVER)
        assert not is_proved(dataclasses.replace(solution, achieved=solution.achieved * 0.999), R, SOLVER)
        assert not is_proved(dataclasses.replace(solution, roots=[solution.root * 1.001]), R, SOLVER)
        assert not is_proved(
            dataclasses.replace(solution, lower_bound=solution.lower_bound * 1.01), R, SOLVER
        )


def is_proved(solution: Optimum, R: Any, tol: float) -> bool:
    """Both sides from R, the root and q alone."""
    A = solution.root
    is_feasible = (A**2).sum(axis=0).max() <= 1 + ROUNDING
    achieved = float(np.linalg.norm(R @ np.linalg.pinv(A)) ** 2)
    bound = nuclear(R, solution.q) ** 2 / solution.q.sum()
    agrees = abs(achieved / solution.achieved - 1) < 1e-9 and abs(bound / solution.lower_bound - 1) < 1e-9
    return bool(is_feasible and agrees and achieved <= (1 + tol + ROUNDING) * bound)


# Convergence ---------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("low_rank", [False, True])
def test_random_problems_converge_to_nine_digits(low_rank: bool) -> None:
    for seed in range(60):
        R = problem(1000 + seed, low_rank=low_rank)
        solution = least_total(R, tol=1e-9)
        assert solution.has_converged and solution.gap <= 1e-9
        assert is_proved(solution, R, 1e-9)


def test_larger_problems_converge() -> None:
    rng = np.random.default_rng(31)
    for k, n in ((40, 40), (15, 60), (1, 50), (49, 50)):
        solution = least_total(rng.normal(size=(k, n)), tol=1e-8)
        assert solution.has_converged and solution.steps <= 40


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(60))
def test_many_cells_in_few_directions_converge(seed: int) -> None:
    """With more active cells than curvature, or weight on the wrong ones, 200 steps left a gap of a third."""
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(int(rng.integers(2, 5)), int(rng.integers(40, 60))))
    solution = least_total(R, tol=1e-8)
    assert solution.has_converged and solution.steps < 100
    assert is_proved(solution, R, 1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(2, 200), (3, 200), (12, 300), (32, 400)])
def test_cells_that_do_not_matter_are_left_out_at_once(shape: tuple[int, int]) -> None:
    """Random queries took up to 49 steps; with cells nearly alike, 200 left a gap of 1e-3."""
    for seed in range(3):
        rng = np.random.default_rng((*shape, seed))
        for R in (rng.normal(size=shape), rng.integers(0, 2, shape) + 1e-3 * rng.normal(size=shape)):
            solution = least_total(R, tol=1e-8)
            assert solution.has_converged and solution.steps <= 25
            assert is_proved(solution, R, 1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["rows", "columns", "both"])
def test_sizes_over_eight_orders_of_magnitude(by: str) -> None:
    """Squares of such sizes leave nothing of the weakest: gaps of 1e-2 remained after 200 steps."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 36))
        R = rng.normal(size=(int(rng.integers(1, n + 1)), n))
        spread = 4 if by != "both" else 2
        if by != "columns":
            R *= 10.0 ** rng.uniform(-spread, spread, (len(R), 1))
        if by != "rows":
            R *= 10.0 ** rng.uniform(-spread, spread, (1, n))
        solution = least_total(R, tol=1e-9)
        assert solution.has_converged and solution.steps <= 60
        # The sum of singular values has all its digits, whatever those of the smallest.
        assert solution.lower_bound == pytest.approx(nuclear(R, solution.q) ** 2 / solution.q.sum(), rel=1e-9)
        assert (solution.root**2).sum(axis=0).max() <= 1 + ROUNDING


def test_a_given_start_is_used() -> None:
    R = np.tril(np.ones((80, 80)))
    found = least_total(R, tol=1e-9)
    again = least_total(R, tol=1e-6, start=found.q)
    assert again.has_converged and again.steps <= 1 < found.steps
    # A neighbouring problem, and one with cells that had no weight.
    near = least_total(R * np.linspace(1, 1.05, 80), tol=1e-6, start=found.q)
    assert near.has_converged and near.steps < found.steps
    emptied = np.where(np.arange(80) % 7 == 0, 0, found.q)
    assert least_total(R, tol=1e-6, start=emptied).has_converged


def full_size_decompositions(R: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many points with all cells the search looks at."""
    seen, evaluate = [], Columns.evaluate

    def counted(cells: Columns, q: Any) -> CurvedPoint:
        seen.append(cells.n)
        return evaluate(cells, q)

    with monkeypatch.context() as patch:
        patch.setattr(Columns, "evaluate", counted)
        assert least_total(R, tol=1e-6).has_converged
    return seen.count(R.shape[1])


@pytest.mark.thorough
def test_cells_in_order_start_from_a_coarser_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 300
    R = np.tril(np.ones((n, n)))
    halves = Columns([R]).halves()
    assert halves is not None
    first, last = halves
    assert set(last - first) == {0, 1} and len(first) <= 0.7 * n
    assert first.tolist() == sorted(first) and (first[1:] == last[:-1] + 1).all() and last[-1] == n - 1
    # Unlike neighbours stay apart, and few cells are not worth it.
    assert Columns([np.eye(n)]).halves() is None
    assert Columns([R[:100, :100]]).halves() is None
    assert full_size_decompositions(R, monkeypatch) <= 5
    # Cells in disorder: the same optimum, by another way.
    order = np.random.default_rng(3).permutation(n)
    assert Columns([R[:, order]]).halves() is None
    ordered, shuffled = (least_total(M, tol=1e-8) for M in (R, R[:, order]))
    assert ordered.achieved == pytest.approx(shuffled.achieved, rel=2e-8)


def test_orthogonal_rows_are_noticed() -> None:
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    rows = np.geomspace(1, 1e-3, 20)[:, None] * turn
    assert maps._has_orthogonal_rows(rows, (rows**2).sum(axis=1), NUMPY)
    other = rng.normal(size=(20, 20))
    assert not maps._has_orthogonal_rows(other, (other**2).sum(axis=1), NUMPY)
    V = rows.T @ rows
    values, vectors = np.linalg.eigh(V)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    np.testing.assert_allclose(
        maps._root_diagonal(rows, (rows**2).sum(axis=1), NUMPY), np.diag(root), rtol=1e-6
    )


def test_eight_matrices_are_all_the_memory_it_takes() -> None:
    n = 400
    R = np.tril(np.ones((n, n)))
    least_total(R[:20, :20], tol=1e-6)
    tracemalloc.start()
    solution = least_total(R, tol=1e-9)
    peak = tracemalloc.get_traced_memory()[1] / R.nbytes
    tracemalloc.stop()
    # At least β, T and the two that a decomposition works in: less would mean that nothing was counted.
    assert solution.has_converged and 3 < peak <= 8


def test_independent_cells_have_a_closed_form() -> None:
    """W = diag(a): variances v_i = 1, so the total is Σ a_i²."""
    for values in ([3.0], [1.0, 1.0], [1.0, 10.0, 100.0, 1e-3]):
        solution = least_total(np.diag(values), tol=1e-10)
        assert solution.achieved == pytest.approx(sum(a * a for a in values), rel=1e-9)
        np.testing.assert_allclose(
            solution.q / solution.q.sum(), np.square(values) / np.square(values).sum(), rtol=1e-4
        )


def test_one_query_costs_its_largest_coefficient() -> None:
    """One row: noise on the answer itself, whose sensitivity is its largest entry."""
    rng = np.random.default_rng(32)
    for n in (1, 2, 7, 40):
        row = rng.normal(size=(1, n))
        solution = least_total(row, tol=1e-9)
        assert solution.achieved == pytest.approx(np.abs(row).max() ** 2, rel=1e-8)
    assert least_total(np.ones((1, 30)), tol=1e-9).achieved == pytest.approx(1, rel=ROUNDING)


def test_equal_cells_cost_what_one_costs() -> None:
    R = problem(5, low_rank=False)
    once = least_total(R, tol=1e-9)
    thrice = least_total(np.hstack([R, R, R]), tol=1e-9)
    assert thrice.achieved == pytest.approx(once.achieved, rel=1e-8)


def test_bounds_only_improve_and_progress_sees_it() -> None:
    R = np.tril(np.ones((60, 60))) * np.linspace(1, 30, 60)
    seen: list[Progress] = []
    solution = least_total(R, tol=1e-9, progress=seen.append)
    gaps = [p.gap for p in seen]
    assert len(gaps) == solution.steps + 1 >= 3
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] == solution.gap <= 1e-9
    assert [p.step for p in seen] == list(range(len(seen)))
    assert [p.seconds for p in seen] == sorted(p.seconds for p in seen)


def test_a_time_limit_stops_with_an_honest_gap() -> None:
    R = np.tril(np.ones((60, 60))) * np.linspace(1, 30, 60)
    started = time.monotonic()
    solution = least_total(R, tol=1e-12, time_limit=1e-9)
    assert time.monotonic() - started < 10
    assert not solution.has_converged and solution.steps == 0 and solution.gap > 1e-12
    assert is_proved(solution, R, solution.gap)


@pytest.mark.thorough
def test_a_time_limit_holds_inside_a_step() -> None:
    """A step of many products used to be finished, however late it was."""
    R = np.random.default_rng(5).normal(size=(300, 300)) * np.geomspace(1, 1e4, 300)
    for limit in (0.05, 0.3):
        started = time.monotonic()
        solution = least_total(R, tol=1e-13, time_limit=limit)
        assert time.monotonic() - started < limit + 3
        assert is_proved(solution, R, solution.gap)


def test_an_impossible_tolerance_ends_all_the_same() -> None:
    solution = least_total(problem(8), tol=1e-300)
    assert abs(solution.gap) < 1e-9


# What rounding to integers costs -------------------------------------------------------------


def rounding_cost(R: Any, solution: Optimum, tol: float) -> float:
    """By how much the integer strategy exceeds the solution's total variance, at profile 1."""
    C = np.triu(np.linalg.qr(solution.root, mode="r"))
    strategy = RealStrategy(C).measured_within(GDP(1), tol=tol)
    measured = float(np.linalg.norm(R @ strategy.pseudo_inverse) ** 2) * strategy.noise_variance
    return abs(measured / solution.achieved - 1)


def test_the_grid_is_finer_where_a_smaller_gap_is_asked() -> None:
    """A tolerance of 1e-9 used to be lost to a grid made for 1e-6."""
    usual = []
    for seed in range(12):
        R = problem(seed, low_rank=False)
        solution = least_total(R, tol=1e-10)
        usual.append(rounding_cost(R, solution, 1e-6))
        assert usual[-1] < 1e-7
        assert rounding_cost(R, solution, 1e-9) < 1e-10
    assert max(usual) > 1e-10
    assert not math.isclose(rounding_cost(R, solution, 1e-9), 0.0)


# Backends ------------------------------------------------------------------------------------


def test_torch_agrees_with_numpy() -> None:
    extra("torch")
    for seed in range(12):
        R = problem(seed)
        here = least_total(R, tol=1e-9)
        there = least_total(R, tol=1e-9, backend="torch")
        assert there.has_converged and is_proved(there, R, 1e-9)
        assert there.achieved == pytest.approx(here.achieved, rel=3e-9)
        point = point_of(R, np.ones(R.shape[1]))
        other = Columns([R], load_backend("torch")).evaluate(np.ones(R.shape[1]))
        np.testing.assert_allclose(other.u, point.u, rtol=1e-9)
        v = np.random.default_rng(seed).normal(size=R.shape[1])
        np.testing.assert_allclose(
            other.hessian_product(v), point.hessian_product(v), rtol=1e-7, atol=ROUNDING
        )
        change = 0.01 * np.random.default_rng(seed).uniform(-1, 1, R.shape[1]) * point.q
        here_moved, there_moved = point.moved(change), other.moved(change)
        assert here_moved is not None and there_moved is not None
        np.testing.assert_allclose(there_moved.u, here_moved.u, rtol=1e-7)
        assert there_moved.total == pytest.approx(here_moved.total, rel=ROUNDING)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_operations_of_a_backend(name: str) -> None:
    if name == "torch":
        extra("torch")
    device = load_backend(name)
    rng = np.random.default_rng(6)
    A = rng.normal(size=(5, 7))
    S = A @ A.T
    half = np.tril(S) + 100 * np.triu(np.ones((5, 5)), 1)  # what stands above the diagonal is not read
    lower = device.cholesky(device.matrix(half))
    np.testing.assert_allclose(np.tril(device.numpy(lower)), np.linalg.cholesky(S), rtol=1e-9)
    assert device.cholesky(device.matrix(-S)) is None
    solved = device.solve_lower(device.matrix(np.linalg.cholesky(S)), device.matrix(A.copy()))
    np.testing.assert_allclose(np.linalg.cholesky(S) @ device.numpy(solved), A, rtol=1e-9, atol=1e-12)
    triangle = device.numpy(device.triangle(device.matrix(A.T)))
    assert triangle.shape == (5, 5) and not np.tril(triangle, -1).any()
    np.testing.assert_allclose(triangle.T @ triangle, S, rtol=1e-9)
    U, d, Vt = (device.numpy(part) for part in device.graded_svd(device.matrix(A)))
    np.testing.assert_allclose((U * d) @ Vt, A, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(U.T @ U, np.eye(5), atol=1e-12)
    assert np.linalg.matrix_rank(A[:, device.pivots(device.matrix(A))]) == 5
    assert device.pivots(device.matrix(np.eye(3)[:, [0, 0, 1, 1, 2]])).tolist() != [0, 1, 2]


def test_small_singular_values_keep_their_digits() -> None:
    """Rows over thirty orders of magnitude, turned into nothing by an ordinary decomposition."""
    turn = np.linalg.qr(np.random.default_rng(7).normal(size=(4, 4)))[0]
    sizes = np.array([1e-15, 1e-5, 1.0, 1e15])
    for graded in (sizes[:, None] * turn, turn * sizes):
        _, d, _ = NUMPY.graded_svd(graded)
        np.testing.assert_allclose(d, sizes[::-1], rtol=1e-12)
        # The same check, of an ordinary decomposition.
        assert np.abs(NUMPY.svd(graded)[1] / sizes[::-1] - 1).max() > 1e-12


def test_a_matrix_of_the_backend_is_taken_as_it_is() -> None:
    torch = extra("torch")
    R = np.tril(np.ones((12, 12)))
    given = torch.as_tensor(R.copy())
    there = least_total(given, tol=1e-9, backend=load_backend("torch"))
    assert there.has_converged and is_proved(there, R, 1e-9)
    assert (given.numpy() == R).all()
    here = R.copy()
    least_total(here, tol=1e-9)
    assert (here == R).all()


def test_unknown_backends_are_refused() -> None:
    for name in ("jax", "", "NumPy"):
        with refuses(InputError, "backend", ..., "backend must be one of numpy, torch, cuda, got"):
            load_backend(name)
    assert BACKENDS == ("numpy", "torch", "cuda")


def test_cuda_without_a_device_is_refused() -> None:
    if extra("torch").cuda.is_available():
        load_backend("cuda")
        return
    with refuses(MissingExtraError, "backend", "cuda"):
        load_backend("cuda")


def test_torch_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with refuses(MissingExtraError, "backend", "torch"):
        load_backend("torch")
