"""The integer strategy: privacy in rationals, accuracy by a second route."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import DesignError, PrivacyError, TooLargeError
from leastnoise.core.operators import EveryRange, Identity, Matrix, base
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP
from leastnoise.strategy import RealStrategy, Strategy
from leastnoise.strategy.grid import LEAST_SCALE_BITS
from support import refuses
from tolerances import ROUNDING, SOLVER

GAUSSIAN_GOALS: tuple[Goal, ...] = (
    *(ApproxDP(e, d) for e in (1e-10, 1e-3, 1.0, 30.0, 1e4) for d in (1e-300, 1e-30, 1e-6, 0.5)),
    *(ZCDP(rho) for rho in (1e-20, 1e-3, 0.5, Fraction(1, 3), 1e6)),
    *(GDP(mu) for mu in (1e-20, 1e-9, 0.1, 1, Fraction(7, 3), 50.0, 1e9, 1e30)),
)
PURE_GOALS: tuple[Goal, ...] = tuple(PureDP(e) for e in (1e-10, 1e-3, Fraction(1, 3), 1, 3.7, 1e4, 1e20))
GOALS = GAUSSIAN_GOALS + PURE_GOALS


def with_records(goal: Goal, k: int) -> Goal:
    return type(goal)(**{name: getattr(goal, name) for name in goal._parameters}, records_per_person=k)


def budget_of(goal: Goal) -> Fraction:
    budget = goal.epsilon_per_record if goal.noise == "laplace" else goal.mu_squared
    assert budget is not None
    return budget


def sensitivity_by_hand(strategy: Strategy) -> int:
    columns = [[int(a) for a in column] for column in strategy.entries.astype(object).T]
    if strategy.noise == "gaussian":
        return max(sum(a * a for a in column) for column in columns)
    return max(sum(abs(a) for a in column) for column in columns)


def keeps(strategy: Strategy, goal: Goal) -> bool:
    """Whether one person's records stay within the goal, from the entries and the scale alone."""
    unit = strategy.scale**2 if strategy.noise == "gaussian" else strategy.scale
    return Fraction(sensitivity_by_hand(strategy), unit) <= budget_of(goal)


def proposals(seed: int) -> list[RealStrategy]:
    """Integer and real rows, with and without a basis, low-rank, wide and of many magnitudes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    k = int(rng.integers(1, n + 1))
    triangle = np.triu(rng.normal(size=(k, k))) + 3 * np.eye(k)
    basis = rng.integers(-5, 6, (k, n))
    basis[:, :k] += 9 * np.eye(k, dtype=int)
    return [
        RealStrategy(rng.integers(-4, 5, (int(rng.integers(1, 9)), n))),
        RealStrategy(rng.integers(-(2**40), 2**40, (3, n))),
        RealStrategy(np.triu(rng.normal(size=(n, n))) + 2 * np.eye(n)),
        RealStrategy(triangle * 10.0 ** rng.integers(-200, 200), basis),
        RealStrategy(triangle, basis * 2**45),
        RealStrategy(np.diag(10.0 ** rng.uniform(-6, 0, n))),
        RealStrategy(np.zeros((2, n), dtype=np.int64)),
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_spent_is_at_most_promised_and_one_less_would_overspend(goal: Goal) -> None:
    for k in (1, 2, 5):
        promise = with_records(goal, k)
        for proposal in proposals(k):
            strategy = proposal.measured_within(promise, tol=1e-6)
            assert strategy.sensitivity == sensitivity_by_hand(strategy)
            assert keeps(strategy, promise)
            assert strategy.spent <= budget_of(promise)
            if strategy.scale > 1:
                less = Strategy(strategy.entries, scale=strategy.scale - 1, noise=strategy.noise)
                assert not keeps(less, promise) and less.spent > budget_of(promise)


def test_many_random_strategies_have_the_sensitivity_of_their_columns() -> None:
    rng = np.random.default_rng(11)
    for _ in range(300):
        shape = tuple(rng.integers(1, 8, 2))
        bits = int(rng.integers(1, 90))
        rows = np.array(
            [int(rng.integers(-(2**40), 2**40)) * 2 ** max(bits - 40, 0) for _ in range(math.prod(shape))],
            dtype=object,
        ).reshape(shape)
        for noise in ("gaussian", "laplace"):
            strategy = Strategy(rows, scale=3, noise=noise)  # type: ignore[arg-type]
            assert strategy.sensitivity == sensitivity_by_hand(strategy)
            assert strategy.spent == Fraction(strategy.sensitivity, 9 if noise == "gaussian" else 3)
            exact = [Fraction(c, 9 if noise == "gaussian" else 3) for c in strategy.column_costs]
            assert strategy.spent_per_cell == exact
            assert all(Fraction(up) >= cell for up, cell in zip(strategy.profile, exact, strict=True))
            np.testing.assert_allclose(strategy.profile, [float(cell) for cell in exact], rtol=ROUNDING)


def test_a_wrapped_sensitivity_would_be_noticed() -> None:
    strategy = Strategy(np.full((40, 1), 2**30), scale=1, noise="gaussian")
    wrapped = int((strategy.entries**2).sum())
    assert wrapped != sensitivity_by_hand(strategy) == strategy.sensitivity


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_the_grid_is_fine_whatever_the_budget(goal: Goal) -> None:
    for proposal in proposals(3)[:-1]:
        assert proposal.measured_within(goal, tol=1e-6).scale >= 2 ** (LEAST_SCALE_BITS - 1)


@pytest.mark.parametrize("goal", [GDP(1e40), GDP(1e-40), PureDP(1e40), PureDP(1e-40)], ids=str)
def test_goals_beyond_floats_are_refused(goal: Goal) -> None:
    with refuses(DesignError, "privacy", ..., "beyond what can be planned: epsilon or mu per"):
        RealStrategy(np.eye(2, dtype=int)).measured_within(goal, tol=1e-6)


# Rounding ------------------------------------------------------------------------------------


def total_variance(rows: Any, noise_variance: float, V: Any) -> float:
    return noise_variance * float(np.trace(V @ np.linalg.pinv(rows.T @ rows, rcond=1e-12, hermitian=True)))


def real_total(proposal: RealStrategy, goal: Goal, V: Any) -> float:
    """The total variance of a proposal before rounding, its largest column scaled to spend the goal."""
    A = np.asarray(proposal.coefficients, dtype=float)
    if proposal.basis is not None:
        A = A @ proposal.basis.astype(float)
    if goal.noise == "laplace":
        A = A / np.abs(A).sum(axis=0).max()
        return total_variance(A, 2 / float(budget_of(goal)) ** 2, V)
    A = A / np.sqrt((A**2).sum(axis=0).max())
    return total_variance(A, 1 / float(budget_of(goal)), V)


def rounds_finely(proposal: RealStrategy, strategy: Strategy, goal: Goal, W: Any) -> bool:
    """Whether the integer strategy costs within 1e-6 of the proposal."""
    V = W.T @ W
    covariance = strategy.noise_variance * strategy.pseudo_inverse @ strategy.pseudo_inverse.T
    achieved = float(np.trace(V @ covariance))
    return abs(achieved / real_total(proposal, goal, V) - 1) < SOLVER


@pytest.mark.parametrize("goal", [GDP(1), GDP(1e-12), GDP(137.5), GDP(1e9), PureDP(1), PureDP(1e5)], ids=str)
def test_rounding_costs_less_than_a_millionth(goal: Goal) -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 8))
        k = int(rng.integers(1, n + 1))
        basis = rng.integers(0, 2, (k, n))
        basis[:, :k] = np.eye(k)
        C = np.triu(rng.normal(size=(k, k))) + 2 * np.eye(k)
        proposal = RealStrategy(C * 10.0 ** rng.integers(-50, 50), basis)
        strategy = proposal.measured_within(goal, tol=1e-6)
        W = rng.normal(size=(4, k)) @ basis
        assert rounds_finely(proposal, strategy, goal, W)
        assert strategy.spans(W).all() and strategy.can_answer(Matrix(W))
        coarse = Strategy(strategy.entries, scale=strategy.scale * 1001 // 1000, noise=strategy.noise)
        assert not rounds_finely(proposal, coarse, goal, W)


def test_rounding_keeps_the_row_space_of_an_ill_conditioned_strategy() -> None:
    C = np.triu(np.full((6, 6), -1.0), 1) + np.diag(10.0 ** -np.arange(6))
    strategy = RealStrategy(C).measured_within(GDP(1), tol=1e-6)
    assert np.diag(strategy.entries).all() and strategy.can_answer(Identity(6))


def test_coefficients_far_larger_than_the_columns_do_not_overflow() -> None:
    """On nearly parallel basis rows, coefficients of 2^40 were cast to int64 on a grid of 2^34."""
    basis = np.array([[2**40, 1], [2**40, 0]])
    C = np.array([[1.0, -1.0], [0.0, 2.0**-40]])
    goal = GDP(2**30)
    strategy = RealStrategy(C, basis).measured_within(goal, tol=1e-6)
    assert keeps(strategy, goal)
    real = C @ basis
    rows = strategy.dense(float)
    np.testing.assert_allclose(rows / rows.max(), real / real.max(), atol=SOLVER)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_proposal_that_is_not_finite_is_refused(bad: float) -> None:
    with refuses(DesignError, "strategy", ..., "the strategy found is not finite; rescale"):
        RealStrategy(np.array([[bad]])).measured_within(GDP(1), tol=1e-6)


def test_real_proposals_must_be_triangles_without_lost_directions() -> None:
    with refuses(DesignError, "strategy", ..., "upper triangular square"):
        RealStrategy(np.ones((2, 2))).measured_within(GDP(1), tol=1e-6)
    with refuses(DesignError, "strategy", ..., "upper triangular square"):
        RealStrategy(np.ones((1, 2))).measured_within(GDP(1), tol=1e-6)
    with refuses(DesignError, "strategy", ..., "lost a direction"):
        RealStrategy(np.array([[1.0, 1.0], [0.0, 0.0]])).measured_within(GDP(1), tol=1e-6)


# Noise and reconstruction --------------------------------------------------------------------


def gaussian_by_sums(sigma: int) -> float:
    """Σ k² P(k) of N(0, σ²) rounded to the nearest integer."""

    def below(x: float) -> float:
        return math.erfc(-x / (sigma * math.sqrt(2))) / 2

    return math.fsum(2 * k * k * (below(-k + 0.5) - below(-k - 0.5)) for k in range(1, 40 * sigma))


def laplace_by_sums(b: int) -> float:
    """Σ k² P(k) of the integers with P(k) ∝ exp(−|k|/b)."""
    weights = [math.exp(-k / b) for k in range(60 * b + 60)]
    total = weights[0] + 2 * math.fsum(weights[1:])
    return 2 * math.fsum(k * k * weight for k, weight in enumerate(weights)) / total


@pytest.mark.parametrize("scale", [1, 2, 3, 10, 100])
def test_noise_variance_is_that_of_the_rounded_noise(scale: int) -> None:
    laplace = Strategy(np.ones((1, 1), dtype=int), scale=scale, noise="laplace")
    assert laplace.noise_variance == pytest.approx(laplace_by_sums(scale), rel=ROUNDING)
    assert laplace.noise_variance != pytest.approx(2 * scale**2, rel=ROUNDING)
    gaussian = Strategy(np.ones((1, 1), dtype=int), scale=scale, noise="gaussian")
    # At σ = 1 the terms left out are exp(−2π²) = 3e-9.
    tolerance = ROUNDING if scale > 1 else 1e-6
    assert gaussian.noise_variance == pytest.approx(gaussian_by_sums(scale), rel=tolerance)
    assert gaussian.noise_variance != pytest.approx(scale**2, rel=tolerance)


def strategies() -> list[Strategy]:
    rng = np.random.default_rng(12)
    found = [
        np.eye(4, dtype=int) * 3,
        np.triu(rng.integers(1, 9, (5, 5))),
        np.tril(rng.integers(1, 9, (5, 5))),
        rng.integers(-3, 4, (7, 4)),
        rng.integers(-3, 4, (3, 6)),
        rng.integers(-2, 3, (6, 2)) @ rng.integers(-2, 3, (2, 5)),
        np.zeros((2, 3), dtype=int),
        np.zeros((0, 3), dtype=int),
        np.diag([1, 0, 2]),
        np.array([[1, 2, 3], [0, 0, 4], [0, 0, 5]]),
        np.array([[2**70, 1], [0, 2**69]], dtype=object),
        np.array([[-5]]),
    ]
    return [Strategy(rows, scale=7, noise="gaussian") for rows in found]


@pytest.mark.parametrize("strategy", strategies(), ids=repr)
def test_reconstruction_is_least_squares(strategy: Strategy) -> None:
    A = strategy.entries.astype(float)
    inverse = np.linalg.pinv(A)
    scale = max(np.abs(inverse).max(initial=0), 1e-300)
    np.testing.assert_allclose(strategy.pseudo_inverse, inverse, rtol=1e-9, atol=ROUNDING * scale)
    Y = strategy.noise_variance * inverse @ inverse.T
    np.testing.assert_allclose(strategy.covariance, Y, rtol=1e-9, atol=ROUNDING * Y.max())
    rng = np.random.default_rng(13)
    for rows in (rng.integers(0, 2, (1, A.shape[1])), rng.integers(0, 2, (50, A.shape[1]))):
        inside = rows @ inverse @ A
        expected = np.einsum("ji,ik,jk->j", rows, Y, rows)
        np.testing.assert_allclose(
            strategy.variances(Matrix(rows)), expected, rtol=1e-9, atol=ROUNDING * Y.max()
        )
        assert strategy.spans(rows).tolist() == np.isclose(inside, rows, atol=1e-6).all(axis=1).tolist()


def test_spans_by_examples() -> None:
    strategy = Strategy(np.array([[1, 1, 0], [0, 0, 3]]), scale=1, noise="gaussian")
    rows = np.array(
        [[1, 1, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1e-9], [1e9, 1e9, 1], [0, 0, 0], [1, 1 + 1e-3, 0]]
    )
    assert strategy.spans(rows).tolist() == [True, True, False, True, True, True, False]
    assert strategy.spans(np.array([[np.nan, 0, 0]])).tolist() == [False]
    assert not strategy.can_answer(Identity(3)) and not strategy.can_answer(EveryRange(3))
    assert strategy.can_answer(Matrix([[2, 2, 5]]))
    nothing = Strategy(np.zeros((1, 2), dtype=int), scale=1, noise="laplace")
    assert nothing.spans(np.array([[0, 0], [0, 1]])).tolist() == [True, False]


def test_answers_are_exact_for_counts_of_any_size() -> None:
    rows = np.array([[2**61, -1], [1, 2**60]])
    for A in (rows, rows.astype(object) << 40):
        strategy = Strategy(A, scale=1, noise="gaussian")
        for counts in (np.array([2**62, -(2**63)]), np.array([2**90, 3], dtype=object)):
            expected = [sum(int(a) * int(x) for a, x in zip(row, counts, strict=True)) for row in A.tolist()]
            assert strategy.answers(counts).tolist() == expected


def test_a_strategy_multiplies_as_its_rows_do() -> None:
    rng = np.random.default_rng(14)
    A = rng.integers(-9, 10, (4, 3))
    strategy = Strategy(A, scale=5, noise="laplace")
    x, y = rng.normal(size=3), rng.normal(size=4)
    np.testing.assert_allclose(strategy.apply(x), A @ x, rtol=ROUNDING)
    np.testing.assert_allclose(strategy.adjoint(y), A.T @ y, rtol=ROUNDING)
    assert strategy.dense(np.int64).tolist() == A.tolist()
    assert repr(strategy) == "Strategy(4 integer rows over 3 cells, laplace noise of scale 5)"


def test_a_strategy_keeps_its_own_rows() -> None:
    for rows in (np.array([[1, 2]]), np.array([[2**80, 2]], dtype=object)):
        before = rows.tolist()
        strategy = Strategy(rows, scale=1, noise="gaussian")
        rows[0, 1] = 99
        assert strategy.entries.tolist() == before
        with pytest.raises(ValueError, match="read-only"):
            strategy.entries[0, 0] = 0


def test_large_strategies_are_not_written_out() -> None:
    strategy = Strategy(np.zeros((2, 5_000_001), dtype=int), scale=1, noise="gaussian")
    with refuses(TooLargeError, "strategy", (2, 5000001), "2 x 5,000,001 entries;", "use apply()"):
        strategy.dense()


@pytest.mark.parametrize("scale", [0, -3, 1.5, np.int64(2**40), True, "7"])
def test_scales_that_are_no_positive_whole_number_are_refused(scale: Any) -> None:
    """np.int64(2^40) squared is 2^80 modulo 2^64: zero."""
    with refuses(DesignError, "scale", ..., "the noise scale must be a positive whole"):
        Strategy(np.ones((1, 1), dtype=int), scale=scale, noise="gaussian")


def test_unknown_noise_and_shapeless_rows_are_refused() -> None:
    with refuses(PrivacyError, "noise", "uniform"):
        Strategy(np.ones((1, 1), dtype=int), scale=1, noise="uniform")
    for rows in (np.ones(3, dtype=int), np.ones((2, 0), dtype=int)):
        with refuses(DesignError, "rows", ..., "rows over at least one cell"):
            Strategy(rows, scale=1, noise="gaussian")
    with pytest.raises(TypeError, match="integers are needed"):
        Strategy(np.ones((1, 1)), scale=1, noise="gaussian")


@pytest.mark.parametrize("size", [10**4, 10**8])
@pytest.mark.parametrize("most", [2**28, 0])
def test_a_small_variance_is_not_lost_beside_large_ones(size: int, most: int, monkeypatch: Any) -> None:
    """Both cells measured together precisely, one alone hardly: their sum has variance 1/size² of either."""
    monkeypatch.setattr(base, "MAX_MULTIPLIED", most)
    strategy = Strategy(np.array([[size, size], [0, 1]]), scale=2**30, noise="gaussian")
    ranges = EveryRange(2)
    # x1 = a1/size − a2, x1 + x2 = a1/size, x2 = a2.
    exact = [1 / size**2 + 1, 1 / size**2, 1.0]
    assert strategy.variances(ranges) / strategy.noise_variance == pytest.approx(exact, rel=1e-9, abs=0)
    by_forms = ranges.quadratic(strategy.covariance) / strategy.noise_variance
    assert by_forms != pytest.approx(exact, rel=1e-9, abs=0)
