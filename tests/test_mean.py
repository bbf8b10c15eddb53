"""The dual function of weights on queries and cells: its value, its derivatives, its two routes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import linalg

from leastnoise.core.operators import CumulativeSum, EveryRange, Matrix, Stack
from leastnoise.solver import ImplicitRows, QueryRows, load_backend
from leastnoise.solver import mean as mean_module
from leastnoise.solver.mean import Forms, MeanPoint, evaluate
from leastnoise.solver.rows import DenseRows, StackedRows
from support import extra
from tolerances import ROUNDING

NUMPY = load_backend("numpy")

# Central differences with a step of 1e-5 lose 1e-10 to truncation and 1e-11 to rounding.
DIFFERENCES = 1e-7

# The trapezoidal rule with a step of 3 is off by 2|Γ(1 + 2πi/3)| = 0.27, and a little at its ends.
ROUGH = 0.29

# What the careful route keeps of its digits at weights down to 1e-20: rounding of 1e-16 in the heavy rows
# is 1e-32 beside 1e-20, times the condition of the coordinates, 1e4 for the worst seed.
CAREFUL = 1e-8

# What the plain route may lose in weak directions before the careful one is taken; see `_INCONSISTENT`.
PLAIN = 1e-6


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Queries, cells, a fixed part and weights."""

    L: Any
    B: Any
    base: Any
    p: Any
    q: Any

    def forms(self, backend: str = "numpy") -> Forms:
        device = load_backend(backend)
        base = None if self.base is None else device.matrix(self.base)
        return Forms(DenseRows(self.L, device), device.matrix(self.B), base, device)

    @property
    def stacked(self) -> Any:
        """diag(√p) L over R₀."""
        weighted = self.L * np.sqrt(self.p)[:, None]
        return weighted if self.base is None else np.vstack([weighted, self.base])


def problem(seed: int) -> Problem:
    """Random queries and cells that span all k; a fixed part for every other seed."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 6))
    m, n = k + int(rng.integers(0, 5)), k + int(rng.integers(0, 5))
    return Problem(
        rng.normal(size=(m, k)),
        rng.normal(size=(k, n)) * 10.0 ** rng.uniform(-1, 1, n),
        rng.normal(size=(2, k)) if seed % 2 else None,
        rng.uniform(0.1, 2, m),
        rng.uniform(0.1, 2, n),
    )


def nuclear(given: Problem, p: Any, q: Any) -> float:
    """F by the singular values of diag(√p) L B diag(√q), R₀ B diag(√q) below."""
    weighted = dataclasses.replace(given, p=p)
    return float(np.linalg.svd(weighted.stacked @ given.B * np.sqrt(q), compute_uv=False).sum())


def geometric_mean(given: Problem, p: Any, q: Any) -> Any:
    """Σ with Σ S Σ = T by matrix square roots."""
    S = dataclasses.replace(given, p=p).stacked
    S, T = S.T @ S, (given.B * q) @ given.B.T
    root = np.real(linalg.sqrtm(S))
    inverse = np.linalg.inv(root)
    return inverse @ np.real(linalg.sqrtm(root @ T @ root)) @ inverse


def gradient(given: Problem, p: Any, q: Any) -> Any:
    """(v, u) from the geometric mean alone."""
    Sigma = geometric_mean(given, p, q)
    v = np.einsum("ja,ab,jb->j", given.L, Sigma, given.L)
    return np.concatenate([v, np.einsum("ai,ab,bi->i", given.B, np.linalg.inv(Sigma), given.B)])


def hessian(point: MeanPoint) -> Any:
    """H by products with every unit vector."""
    size = len(point.p) + len(point.q)
    return np.column_stack([point.hessian_product(unit) for unit in np.eye(size)])


def hessian_by_formula(given: Problem) -> Any:
    """MATH section 3: M with M Mᵀ = Σ and Mᵀ S M = D, then the three sums over a and b."""
    Sigma = geometric_mean(given, given.p, given.q)
    C = np.linalg.cholesky(Sigma)
    d, V = np.linalg.eigh(C.T @ given.stacked.T @ given.stacked @ C)
    M = C @ V
    alpha, beta = M.T @ given.L.T, np.linalg.solve(M, given.B)
    size = alpha.shape[1] + beta.shape[1]
    H = np.zeros((size, size))
    columns = np.hstack([alpha, beta])
    signs = np.array([1] * alpha.shape[1] + [-1] * beta.shape[1])
    for x in range(size):
        for y in range(size):
            for a in range(len(d)):
                for b in range(len(d)):
                    product = columns[a, x] * columns[b, x] * columns[a, y] * columns[b, y]
                    H[x, y] += signs[x] * signs[y] * product / (d[a] + d[b])
    return H


def has_right_derivatives(point: MeanPoint, given: Problem) -> bool:
    """F, gradient (of 2F) and Hessian (minus that of 2F) against singular values and differences."""
    z, m = np.concatenate([given.p, given.q]), len(given.p)
    if abs(point.F / nuclear(given, given.p, given.q) - 1) > ROUNDING:
        return False
    H = hessian(point)
    claimed = np.concatenate([point.v, point.u])
    for i in range(len(z)):
        up, down = z.copy(), z.copy()
        up[i] += 1e-5 * z[i]
        down[i] -= 1e-5 * z[i]
        width = up[i] - down[i]
        slope = 2 * (nuclear(given, up[:m], up[m:]) - nuclear(given, down[:m], down[m:])) / width
        if abs(slope - claimed[i]) > DIFFERENCES * (1 + abs(slope)):
            return False
        change = (gradient(given, up[:m], up[m:]) - gradient(given, down[:m], down[m:])) / width
        if np.abs(change + H[:, i]).max() > DIFFERENCES * (1 + np.abs(H).max()):
            return False
    return True


class _OtherSign(MeanPoint):
    """Plus where a query meets a cell."""

    def hessian_product(self, x: Any) -> Any:
        m = len(self.p)
        signs = np.concatenate([np.ones(m), -np.ones(len(self.q))])
        return signs * super().hessian_product(signs * x)


@pytest.mark.parametrize("seed", range(16))
def test_derivatives_agree_with_differences(seed: int) -> None:
    given = problem(seed)
    point = evaluate(given.forms(), given.p, given.q)
    assert has_right_derivatives(point, given)
    assert not has_right_derivatives(dataclasses.replace(point, u=point.u * (1 + 1e-5)), given)
    assert not has_right_derivatives(dataclasses.replace(point, v=point.v * (1 + 1e-5)), given)
    assert not has_right_derivatives(dataclasses.replace(point, d=point.d * 1.001), given)
    assert not has_right_derivatives(dataclasses.replace(point, cells=point.cells * 1.001), given)
    assert not has_right_derivatives(
        _OtherSign(*(getattr(point, f.name) for f in dataclasses.fields(point))), given
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_hessian_is_that_of_the_formula(seed: int) -> None:
    given = problem(seed)
    H = hessian(evaluate(given.forms(), given.p, given.q))
    expected = hessian_by_formula(given)
    size = np.abs(expected).max()
    np.testing.assert_allclose(H, expected, rtol=0, atol=1e-9 * size)
    assert not np.allclose(H, np.abs(expected), rtol=0, atol=1e-9 * size)
    # 2F is homogeneous of degree one in (p, q): without a fixed part, H (p, q) = 0.
    if given.base is None:
        assert np.abs(H @ np.concatenate([given.p, given.q])).max() <= 1e-9 * size


@pytest.mark.parametrize("seed", range(8))
def test_the_noise_is_the_geometric_mean(seed: int) -> None:
    given = problem(seed)
    point = evaluate(given.forms(), given.p, given.q)
    Sigma = geometric_mean(given, given.p, given.q)
    np.testing.assert_allclose(point.root.T @ point.root, Sigma, rtol=0, atol=1e-9 * np.abs(Sigma).max())
    # The strategy β has precision Bᵀ Σ⁻¹ B.
    precision = given.B.T @ np.linalg.inv(Sigma) @ given.B
    np.testing.assert_allclose(
        point.beta.T @ point.beta, precision, rtol=0, atol=1e-8 * np.abs(precision).max()
    )
    if given.base is not None:
        assert point.base_trace == pytest.approx(float(np.trace(given.base @ Sigma @ given.base.T)), rel=1e-9)
    # Σ p v + trace(S₀Σ) = F = Σ q u.
    assert given.p @ point.v + point.base_trace == pytest.approx(point.F, rel=ROUNDING)
    assert given.q @ point.u == pytest.approx(point.F, rel=ROUNDING)


# The approximate Hessian ----------------------------------------------------------------------


def is_within(rough: Any, exact: Any, share: float) -> bool:
    """Whether xᵀ rough x / xᵀ exact x is within 1 ± share wherever the latter is not rounding."""
    values, vectors = np.linalg.eigh(exact)
    kept = values > 1e-9 * values[-1]
    E = vectors[:, kept] / np.sqrt(values[kept])
    ratios = np.linalg.eigvalsh(E.T @ rough @ E)
    return bool(ratios[0] >= 1 - share and ratios[-1] <= 1 + share)


@pytest.mark.parametrize("spread", [0, 3, 6])
def test_the_rough_hessian_is_within_its_factor(spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(spread)
    worst = 0.0
    for seed in range(6):
        given = problem(seed)
        given = dataclasses.replace(
            given,
            p=10.0 ** rng.uniform(-spread, 0, len(given.p)),
            q=10.0 ** rng.uniform(-spread, 0, len(given.q)),
        )
        point = evaluate(given.forms(), given.p, given.q)
        H, size = hessian(point), len(given.p) + len(given.q)
        scale = rng.uniform(0.5, 2, size)
        scaled = H * scale[:, None] * scale[None, :]
        rough = point.rough_hessian(np.arange(size), scale)
        assert is_within(rough, scaled, ROUGH)
        diagonal = point.hessian_diagonal()
        assert np.abs(diagonal / np.diag(H) - 1).max() <= ROUGH
        np.testing.assert_allclose(np.diag(rough) / scale**2, diagonal, rtol=ROUNDING)
        chosen = np.flatnonzero(rng.random(size) < 0.6)
        part = point.rough_hessian(chosen, scale[chosen])
        np.testing.assert_allclose(part, rough[np.ix_(chosen, chosen)], rtol=ROUNDING, atol=1e-300)
        assert not is_within(rough * (1 + 2 * ROUGH), scaled, ROUGH)
        worst = max(worst, float(np.abs(diagonal / np.diag(H) - 1).max()))
        with monkeypatch.context() as patch:
            patch.setattr(mean_module, "_NODE_STEP", 6.0)  # twice as coarse a rule
            coarse = point.rough_hessian(np.arange(size), scale)
        assert not is_within(coarse, scaled, ROUGH)
    assert worst > ROUGH / 3, "the factor would be a looser claim than needed"


# Two routes -----------------------------------------------------------------------------------


def agree(first: MeanPoint, second: MeanPoint, tol: float) -> bool:
    """The same F, variances, profiles and Hessian, up to tol of the largest."""
    H = hessian(second)
    return bool(
        abs(first.F / second.F - 1) <= tol
        and np.abs(first.v / second.v - 1).max() <= tol
        and np.abs(first.u / second.u - 1).max() <= tol
        and abs(first.base_trace - second.base_trace) <= tol * second.F
        and np.abs(hessian(first) - H).max() <= tol * np.abs(H).max()
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_plain_and_the_careful_route_agree(seed: int) -> None:
    given = problem(seed)
    forms = given.forms()
    plain = mean_module._plain(forms, given.p, given.q)
    careful = mean_module._careful(forms, given.p, given.q)
    assert plain is not None and agree(plain, careful, 1e-9)
    shifted = mean_module._careful(forms, given.p * (1 + 1e-6), given.q)
    assert not agree(plain, shifted, 1e-9)


def graded(seed: int, least: float) -> tuple[Problem, Any, Any]:
    """Two separate problems, the weights of the second smaller by a factor; and its own (v, u).

    Both blocks keep their own geometric mean however small the weights of one are.
    """
    rng = np.random.default_rng(seed)
    blocks = [
        Problem(
            rng.normal(size=(4, 2)), rng.normal(size=(2, 3)), None, rng.uniform(1, 2, 4), rng.uniform(1, 2, 3)
        )
        for _ in range(2)
    ]
    v = np.concatenate([evaluate(b.forms(), b.p, b.q).v for b in blocks])
    u = np.concatenate([evaluate(b.forms(), b.p, b.q).u for b in blocks])
    L, B = linalg.block_diag(blocks[0].L, blocks[1].L), linalg.block_diag(blocks[0].B, blocks[1].B)
    turn = rng.normal(size=(4, 4))
    return (
        Problem(
            L @ np.linalg.inv(turn),
            turn @ B,
            None,
            np.concatenate([blocks[0].p, least * blocks[1].p]),
            np.concatenate([blocks[0].q, least * blocks[1].q]),
        ),
        v,
        u,
    )


@pytest.mark.parametrize("least", [1e-4, 1e-8, 1e-12, 1e-16, 1e-20])
def test_small_weights_keep_their_digits(least: float) -> None:
    for seed in range(6):
        given, v, u = graded(seed, least)
        forms = given.forms()
        for route, tol in ((evaluate, PLAIN), (mean_module._careful, CAREFUL)):
            point = route(forms, given.p, given.q)
            assert point.is_sound
            np.testing.assert_allclose(point.v, v, rtol=tol)
            np.testing.assert_allclose(point.u, u, rtol=tol)


def test_the_plain_route_loses_what_the_careful_one_keeps() -> None:
    """It used to be believed: Σ and its inverse agree with each other, and both were wrong by a factor."""
    for seed in range(6):
        given, v, _ = graded(seed, 1e-14)
        plain = mean_module._plain(given.forms(), given.p, given.q)
        assert plain is None or (plain.is_sound and not np.allclose(plain.v, v, rtol=PLAIN))


# Rows -----------------------------------------------------------------------------------------


def kinds_of_rows(seed: int) -> list[QueryRows]:
    """The same queries over five cells, four ways; and in the coordinates of a basis."""
    rng = np.random.default_rng(seed)
    ranges, prefixes = EveryRange(5), CumulativeSum(5)
    W = np.vstack([ranges.dense(), prefixes.dense()])
    Q = np.linalg.qr(rng.normal(size=(5, 5)))[0] if seed % 2 else None
    turned = W if Q is None else W @ Q
    split = ranges.shape[0]
    return [
        DenseRows(turned, NUMPY),
        ImplicitRows(Stack([ranges, prefixes]), Q, NUMPY),
        ImplicitRows(Matrix(W), Q, NUMPY),
        StackedRows(ImplicitRows(ranges, Q, NUMPY), DenseRows(turned[split:], NUMPY), NUMPY),
    ]


class _Forgetful(StackedRows):
    """Leaves out the second kind in sums."""

    def gram(self, weights: Any) -> Any:
        return self._first.gram(weights[: self._first.shape[0]])


def same_rows(given: QueryRows, dense: QueryRows, seed: int) -> bool:
    """Whether two kinds of rows do the same."""
    rng = np.random.default_rng(seed)
    m, k = dense.shape
    A, M, x = rng.normal(size=(k, k)), rng.normal(size=(k, k)), rng.normal(size=m)
    M = M + M.T
    p, decay, index = rng.uniform(0.1, 2, m), rng.uniform(0, 1, k), rng.permutation(m)[:7]
    first, second = given.projected(A), dense.projected(A)
    pairs = [
        (given.gram(p), dense.gram(p)),
        (given.take(index), dense.take(index)),
        (given.variances(A), dense.variances(A)),
        (np.vstack(list(given.weighted(p))), np.vstack(list(dense.weighted(p)))),
        (first.outer(x), second.outer(x)),
        (first.form(M), second.form(M)),
        (first.decayed(decay), second.decayed(decay)),
    ]
    rising = np.sort(index)
    pairs.append((first.columns(rising), second.columns(rising)))
    return given.shape == dense.shape and all(
        np.allclose(a, b, rtol=0, atol=1e-10 * np.abs(b).max()) for a, b in pairs
    )


@pytest.mark.parametrize("seed", range(4))
def test_every_kind_of_rows_does_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leastnoise.solver.rows._CHUNK_ENTRIES", 12)  # two rows at a time
    dense, *others = kinds_of_rows(seed)
    assert [rows.is_quick for rows in (dense, *others)] == [False, True, False, True]
    rng = np.random.default_rng(seed)
    p, q = rng.uniform(0.1, 2, dense.shape[0]), rng.uniform(0.1, 2, 5)
    B = rng.normal(size=(5, 5))
    point = evaluate(Forms(dense, B, None, NUMPY), p, q)
    for rows in others:
        assert same_rows(rows, dense, seed)
        assert agree(evaluate(Forms(rows, B, None, NUMPY), p, q), point, 1e-9)
        assert agree(mean_module._careful(Forms(rows, B, None, NUMPY), p, q), point, 1e-9)
    broken = _Forgetful(others[0], dense, NUMPY)
    whole = StackedRows(others[0], dense, NUMPY)
    twice = DenseRows(np.vstack([dense.take(np.arange(dense.shape[0]))] * 2), NUMPY)
    assert same_rows(whole, twice, seed) and not same_rows(broken, twice, seed)
    assert not same_rows(DenseRows(dense.take(np.arange(dense.shape[0])) * (1 + 1e-6), NUMPY), dense, seed)


# Bounds ---------------------------------------------------------------------------------------


def test_no_matrix_pairs_to_more_than_the_dual_function() -> None:
    """F ≥ ⟨N, U⟩ / ‖U‖₂ for any U, with equality at the polar factor."""
    rng = np.random.default_rng(5)
    for seed in range(20):
        given = problem(seed)
        F = evaluate(given.forms(), given.p, given.q).F
        N = given.stacked @ given.B * np.sqrt(given.q)
        left, _, right = np.linalg.svd(N, full_matrices=False)
        best = float(np.vdot(N, left @ right))
        assert best == pytest.approx(F, rel=ROUNDING)
        for _ in range(20):
            U = left @ right + rng.normal(size=N.shape) * 10.0 ** rng.uniform(-6, 1)
            assert float(np.vdot(N, U)) / np.linalg.norm(U, 2) <= F * (1 + ROUNDING)
        # Divided by too small a norm, the same pairing says too much.
        assert best / np.linalg.norm(left @ right / (1 + 1e-6), 2) > F * (1 + ROUNDING)


def test_the_noise_is_the_least_of_both_sides() -> None:
    """2F ≤ trace(SΣ) + trace(TΣ⁻¹) for any noise, with equality at the geometric mean."""
    rng = np.random.default_rng(6)
    for seed in range(12):
        given = problem(seed)
        S, T = given.stacked.T @ given.stacked, (given.B * given.q) @ given.B.T
        point = evaluate(given.forms(), given.p, given.q)
        best = point.root.T @ point.root

        def both(Sigma: Any, S: Any = S, T: Any = T) -> float:
            return float(np.trace(S @ Sigma) + np.trace(T @ np.linalg.inv(Sigma)))

        assert both(best) == pytest.approx(2 * point.F, rel=1e-9)
        for _ in range(10):
            turn = np.eye(len(S)) + rng.normal(size=S.shape) * 10.0 ** rng.uniform(-3, 1)
            assert both(turn.T @ best @ turn) >= 2 * point.F * (1 - 1e-9)


# Backends -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_torch_agrees_with_numpy() -> None:
    extra("torch")
    for seed in range(8):
        given = problem(seed)
        here = evaluate(given.forms(), given.p, given.q)
        there = evaluate(given.forms("torch"), given.p, given.q)
        assert agree(here, there, 1e-9)
        size = len(given.p) + len(given.q)
        chosen, scale = np.arange(size), np.linspace(0.5, 2, size)
        rough = there.device.numpy(there.rough_hessian(chosen, scale))
        np.testing.assert_allclose(rough, here.rough_hessian(chosen, scale), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(there.hessian_diagonal(), here.hessian_diagonal(), rtol=1e-9)
        assert not agree(here, evaluate(given.forms("torch"), given.p * 1.001, given.q), 1e-9)
    hard, v, _ = graded(0, 1e-16)
    np.testing.assert_allclose(evaluate(hard.forms("torch"), hard.p, hard.q).v, v, rtol=CAREFUL)
