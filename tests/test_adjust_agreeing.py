"""Answers that are made to agree and stay unbiased: least squares by a second route, variances, intervals."""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import leastnoise as ln
from leastnoise.core.errors import UnrecordedSpending
from leastnoise.core.operators import Array
from leastnoise.planning.families import optimum
from leastnoise.release import Release, load_release
from leastnoise.release.adjusting import least_squares, nonnegative
from leastnoise.release.adjusting.adjust_progress import AdjustWatch
from leastnoise.release.adjusting.information import information_of
from leastnoise.strategy.structured.blocks import Structured
from tolerances import CHANCE, ROUNDING

# Least squares, which the tests of this file are about; the default is in test_adjust_entropy.
adjust = functools.partial(ln.adjust, fit="least squares")

WIDE = ln.Schema(age=range(30), region=range(24), sex=("F", "M"))
SMALL = ln.Schema(age=range(16), sex=("F", "M"), region=range(5))
AGES = [(0, 9), (10, 19), (20, 29)]
REGIONS = [(0, 7), (8, 15), (16, 23)]
# Coarse ages by region, and ages by coarse region: the pair of both is measured once for each of them.
APART = [
    ln.Ranges("age", AGES) * ln.Marginal("region", "sex"),
    ln.Marginal("age", "sex") * ln.Ranges("region", REGIONS),
]
# A condition over age and sex, of which one form is measured that does not tell all of them apart.
TIED = [
    ln.Prefix("age", weight=100),
    ln.Marginal("age", "region"),
    ln.Prefix("age") * ln.Marginal("sex"),
    ln.Where("age < 3 or sex == 'F'"),
]
# Not every value is asked for of two attributes: of one alone, its rows would be measured in one block.
RANGES = [
    ln.Ranges("age", [(0, 4), (3, 9)]),
    ln.Ranges("age", [(1, 3), (8, 12)]) * ln.Marginal("sex"),
    ln.Marginal("sex") * ln.Prefix("region"),
]
UNASKED = [ln.Prefix("age"), ln.Prefix("region")]
WORKLOADS = {"apart": APART, "tied": TIED, "ranges": RANGES, "unasked": UNASKED}


@cache
def plan_of(name: str) -> ln.Plan:
    schema = WIDE if name == "apart" else SMALL
    # As where tables are too many to be measured together, which has no disagreement to mend.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimum, "serves", lambda request, question: False)
        return ln.design(ln.assemble(WORKLOADS[name], schema), ln.GDP(1), method="residuals")


def measured(plan: ln.Plan, seed: int = 0) -> Release:
    counts = np.random.default_rng(seed).poisson(5, plan.workload.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        return ln.measure(plan, counts)


def strategy_of(plan: ln.Plan) -> Structured:
    strategy = plan.fixed_strategy()
    assert isinstance(strategy, Structured)
    return strategy


def whitened(release: Release) -> tuple[Array, Array]:
    """A and y in units of the noise, from the integer strategy itself."""
    strategy = release.plan.fixed_strategy()
    unit = math.sqrt(strategy.noise_variance)
    return strategy.dense().astype(float) / unit, release.measurements.astype(float) / unit


def distance(A: Array, x: Array, y: Array) -> float:
    """How far cells are from the least-squares ones, found densely, in standard errors."""
    return float(np.linalg.norm(A @ (x - np.linalg.lstsq(A, y, rcond=None)[0])))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["tied", "ranges", "unasked"])
def test_estimates_are_of_least_squares_and_answers_follow_from_them(name: str) -> None:
    """Blocks that tell only a part of their axes were left out of the estimates; an axis that nobody asked
    about ended in a ValueError."""
    release = measured(plan_of(name))
    A, y = whitened(release)
    scale = float(np.linalg.norm(y))
    assert distance(A, release.estimates, y) <= ROUNDING * scale
    answers = release.plan.workload.operator.apply(release.estimates)
    assert answers == pytest.approx(release.answers, rel=ROUNDING, abs=ROUNDING * scale)
    # They agree already, so that nothing is done.
    assert strategy_of(release.plan).is_consistent
    assert adjust(release, nonnegative=False) is release


@pytest.mark.parametrize("name", ["tied", "ranges"])
def test_adjusted_cells_are_the_best_where_a_block_tells_only_a_part(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adjusted cells once forgot what such blocks say, and claimed to be the best."""
    release = measured(plan_of(name))
    A, y = whitened(release)

    def proven() -> float:
        """The proof again, from the integer rows: how far down any feasible direction may lead."""
        x = adjust(release).estimates
        g = A.T @ (A @ x - y)
        return math.sqrt(max(float((g - g.min()) @ x), 0.0))

    rounding = math.sqrt(ROUNDING) * float(np.linalg.norm(y))
    assert proven() <= nonnegative.PRECISION + rounding
    # The twin leaves such blocks out.
    own = Structured._known_cells
    monkeypatch.setattr(Structured, "_known_cells", lambda self, *, partly: own(self, partly=False))
    assert proven() > 1


@pytest.mark.thorough
def test_answers_made_to_agree_are_of_least_squares() -> None:
    release = measured(plan_of("apart"))
    assert not strategy_of(release.plan).is_consistent
    A, y = whitened(release)
    together = adjust(release, nonnegative=False)
    assert distance(A, together.estimates, y) <= together.adjusted.precision <= least_squares.PRECISION
    # A twin that is stopped before it begins is far away.
    information = information_of(release.plan)
    products = information.products
    assert products is not None
    estimates = information.estimates(release.measurements)
    assert distance(A, estimates, y) > 0.1
    linear = information.linear(estimates, release.measurements)
    assert linear == pytest.approx(A.T @ (A @ estimates - y), abs=ROUNDING * float(np.abs(A.T @ y).max()))


def test_unadjusted_answers_disagree_where_blocks_are_apart() -> None:
    release = measured(plan_of("apart"))
    together = adjust(release, nonnegative=False)
    differences = []
    for own in (release, together):
        by_region, by_age = (own[name]["answer"].to_numpy() for name in own.plan.workload.names)
        coarse = by_region.reshape(3, 3, 8, 2).sum(axis=2), by_age.reshape(3, 10, 3, 2).sum(axis=1)
        differences.append(float(np.abs(coarse[0] - coarse[1]).max()))
    assert differences[0] > 1 and differences[1] <= ROUNDING * float(together.answers.sum())


@pytest.mark.thorough
def test_variances_are_at_most_what_the_plan_states() -> None:
    """Gauss and Markov, densely: W G⁺ Wᵀ beside the stated variances; some are smaller by 3 % or more."""
    plan = plan_of("apart")
    A, _ = whitened(measured(plan))
    W = plan.workload.dense()
    variances = np.einsum("ij,jk,ik->i", W, np.linalg.pinv(A.T @ A, hermitian=True), W)
    stated = plan.known_stderr() ** 2
    assert (variances <= stated * (1 + ROUNDING)).all()
    assert (variances < 0.97 * stated).any()
    # A twin that trusts some blocks more than their noise allows does worse for some than is stated.
    trust = np.where(np.arange(len(A)) < len(A) // 2, 30.0, 1.0)
    gain = W @ np.linalg.pinv(A * trust[:, None]) * trust
    assert ((gain**2).sum(axis=1) > stated * (1 + ROUNDING)).any()


def lowest_coverage(hits: Array, n: int) -> Array:
    """An upper bound on each probability to hold, at the false-alarm rate CHANCE over all of them."""
    rate = CHANCE / np.size(hits)
    return np.where(hits < n, stats.beta.ppf(1 - rate, hits + 1, np.maximum(n - hits, 1)), 1)


def test_intervals_around_answers_made_to_agree_hold_as_often_as_they_say() -> None:
    """At level 0.9 in 4,000 draws of the noise, solved densely; half-widths a tenth shorter do not."""
    plan = plan_of("apart")
    A, _ = whitened(measured(plan))
    W = plan.workload.dense()
    n = 4_000
    errors = W @ np.linalg.pinv(A) @ np.random.default_rng(5).normal(size=(len(A), n))
    half = stats.norm.ppf(0.95) * plan.known_stderr()[:, None]
    assert (lowest_coverage((np.abs(errors) <= half).sum(axis=1), n) >= 0.9).all()
    assert not (lowest_coverage((np.abs(errors) <= 0.9 * half).sum(axis=1), n) >= 0.9).all()


def test_intervals_are_moved_to_the_answers_under_gaussian_noise_only() -> None:
    release = measured(plan_of("apart"))
    together = adjust(release, nonnegative=False)
    lower, upper = together.interval(0.9)
    before = release.interval(0.9)
    assert (lower + upper) / 2 == pytest.approx(together.answers, rel=ROUNDING, abs=ROUNDING)
    assert upper - lower == pytest.approx(before[1] - before[0], rel=ROUNDING)
    assert "around these answers" in together.adjusted.statement()
    assert "biased" in together.adjusted.statement() and "unbiased" in together.adjusted.statement()
    # One that a limit ended too far away keeps the intervals of what was measured.
    far = replace(together, adjusted=replace(together.adjusted, centred=False))
    assert (far.interval(0.9)[0] == before[0]).all()
    assert "around the unadjusted answers" in far.adjusted.statement()


def test_a_limit_leaves_intervals_where_they_were() -> None:
    release = measured(plan_of("apart"))
    stopped = adjust(release, nonnegative=False, time_limit=1e-9)
    assert stopped.adjusted.ended == "deadline" and not stopped.adjusted.centred
    assert "stopped by its time limit" in stopped.adjusted.statement()
    assert "err no more" not in stopped.adjusted.statement()
    assert "err no more" in adjust(release, nonnegative=False).adjusted.statement()


def test_files_keep_what_was_made_to_agree(tmp_path: Any) -> None:
    release = measured(plan_of("apart"))
    together = adjust(release, nonnegative=False)
    again = load_release(together.save(tmp_path / "a.release"))
    assert again.adjusted.kinds == "made to agree" and again.adjusted.centred
    assert (again.answers == together.answers).all()
    assert adjust(again, nonnegative=False) is again
    assert "made to agree" in repr(again)


def test_whole_numbers_of_any_sign_come_from_least_squares() -> None:
    release = measured(plan_of("apart"))
    whole = adjust(release, nonnegative=False, integer=True).estimates
    together = adjust(release, nonnegative=False).estimates
    assert (whole == np.rint(whole)).all() and np.abs(whole - together).max() < 1


def test_precision_is_estimated_from_the_steps_where_no_block_tells_all() -> None:
    """There λ of (2) is below 1, and to take 1 for it would claim too much."""
    release = measured(plan_of("apart"))
    information = information_of(release.plan)
    products = information.products
    assert products is not None and not products.is_spanned
    A, y = whitened(release)
    estimates = information.estimates(release.measurements)
    linear = information.linear(estimates, release.measurements)
    found = least_squares.least_squares_cells(products, estimates, linear, AdjustWatch())
    assert distance(A, found.cells, y) <= found.precision
    # The values of P G by a second route, as those of A P Aᵀ.
    values = np.linalg.eigvalsh(A @ np.array([products.covariance_times(row) for row in A]).T)
    assert values[values > 1e-9 * values[-1]].min() < 1


def test_what_blocks_tell_alone_is_their_covariance() -> None:
    """P as Σ (ν/k²) L Lᵀ, L being how each block by itself enters the estimates of the cells."""
    release = measured(plan_of("unasked"))
    strategy = strategy_of(release.plan)
    information = information_of(release.plan)
    products = information.products
    assert products is not None and products.is_spanned
    L = np.array([strategy.estimates(row) for row in np.eye(strategy.n_measured)]).T
    P = np.array([products.covariance_times(row) for row in np.eye(strategy.n_cells)])
    assert pytest.approx(strategy.noise_variance * L @ L.T, abs=ROUNDING * float(np.abs(P).max())) == P
