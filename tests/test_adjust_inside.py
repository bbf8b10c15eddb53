"""Adjusting where few sums of the cells are measured: sums, the way through the inside, limits, progress."""

from __future__ import annotations

import functools
import math
import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import TooLargeError, UnrecordedSpending
from leastnoise.core.operators import Array
from leastnoise.release import AdjustProgress, Release, load_release
from leastnoise.release.adjusting import information, nonnegative
from leastnoise.release.adjusting.adjust_progress import AdjustWatch
from leastnoise.release.adjusting.information import Information, information_of
from leastnoise.release.adjusting.reduced_sums import MeasuredRows, ReducedSums, SumTerm
from support import refuses
from tolerances import ROUNDING

# Least squares, which the tests of this file are about; the default is in test_adjust_entropy.
adjust = functools.partial(ln.adjust, fit="least squares")

SHAPE = (13, 2, 9, 5, 4)


@cache
def pairs_plan() -> ln.Plan:
    """All pairs of five attributes with 4,680 cells, of which 350 sums or so are measured."""
    schema = ln.Schema({f"a{i}": range(size) for i, size in enumerate(SHAPE)})
    workload = ln.assemble([ln.Cube(*schema.names, order=(2,))], schema)
    return ln.design(workload, ln.GDP(1), method="marginals")


def heavy_counts(people: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    share = rng.pareto(0.7, math.prod(SHAPE))
    return rng.multinomial(people, share / share.sum())


def measured(people: int, seed: int = 0) -> Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        return ln.measure(pairs_plan(), heavy_counts(people, seed))


# ------------------------------------------------------------------------------------ the sums


def reduced(terms: list[SumTerm] | None = None) -> ReducedSums:
    return ReducedSums((3, 2, 4), [(0, 1), (0, 2), (1, 2)], terms or [])


def rows_of(sums: ReducedSums) -> Array:
    n = math.prod(sums.shape)
    return np.array([sums.apply(cell.reshape(sums.shape)) for cell in np.eye(n)]).T


def test_reduced_sums_are_independent_and_say_every_table() -> None:
    sums = reduced()
    M = rows_of(sums)
    # 1, and all values but one of each axis, and of each pair: nothing twice.
    assert sums.n_sums == 1 + (2 + 1 + 3) + (2 + 6 + 3) == np.linalg.matrix_rank(M)
    assert set(np.unique(M)) == {0.0, 1.0}
    eye, one = [np.eye(size) for size in (3, 2, 4)], [np.ones((1, size)) for size in (3, 2, 4)]
    for axes in ((0, 1), (0, 2), (1, 2)):
        factors = [eye[a] if a in axes else one[a] for a in range(3)]
        table = np.kron(np.kron(factors[0], factors[1]), factors[2])
        assert np.linalg.matrix_rank(np.vstack([M, table])) == sums.n_sums
    # A single cell is not among them.
    assert np.linalg.matrix_rank(np.vstack([M, np.eye(24)[:1]])) > sums.n_sums


def test_products_with_reduced_sums() -> None:
    sums, rng = reduced(), np.random.default_rng(0)
    M = rows_of(sums)
    v, theta = rng.normal(size=sums.n_sums), rng.random(24)
    assert sums.spread(v).reshape(-1) == pytest.approx(M.T @ v, abs=ROUNDING * 24)
    right = (M * theta) @ M.T
    assert sums.weighted_gram(theta.reshape(sums.shape)) == pytest.approx(right, abs=ROUNDING * 24)
    # A twin that forgets that two different values of one axis share no cell.
    twin = np.outer(M @ theta, M @ theta) / theta.sum()
    assert np.abs(twin - right).max() > 0.1


def test_information_of_sums_is_that_of_the_cells() -> None:
    rng = np.random.default_rng(1)
    K = [m.T @ m for m in (rng.normal(size=(2, size)) for size in (3, 2, 4))]
    terms = [SumTerm(2.0, {0: K[0], 2: None}), SumTerm(0.5, {1: K[1]}), SumTerm(3.0, {})]
    sums = reduced(terms)
    M, one = rows_of(sums), [np.ones((size, size)) for size in (3, 2, 4)]
    G = 2.0 * np.kron(np.kron(K[0], one[1]), np.eye(4))
    G += 0.5 * np.kron(np.kron(one[0], K[1]), one[2]) + 3.0 * np.ones((24, 24))
    assert pytest.approx(M.T @ sums.information() @ M, abs=ROUNDING * float(np.abs(G).max())) == G


@pytest.mark.thorough
def test_products_with_information_add_tables_up_through_one_another() -> None:
    """The sums of pairs share what is added up; the strategy's own rows say the same."""
    plan = pairs_plan()
    own = information_of(plan)
    h = np.random.default_rng(2).normal(size=own.n_cells)
    A = plan.fixed_strategy().dense().astype(float) / math.sqrt(plan.fixed_strategy().noise_variance)
    right = A.T @ (A @ h)
    assert own.times(h) == pytest.approx(right, abs=ROUNDING * float(np.abs(right).max()) * 1e3)


# ---------------------------------------------------------------------------------- the search


@pytest.mark.thorough
@pytest.mark.parametrize("people", [200, 5_000, 10**6])
def test_the_inside_leads_to_the_best_cells(people: int) -> None:
    """The proof, again from the integer rows alone."""
    release = measured(people)
    adjusted = adjust(release)
    assert adjusted.adjusted.precision <= nonnegative.PRECISION and adjusted.adjusted.ended == "converged"
    strategy = release.plan.fixed_strategy()
    unit = math.sqrt(strategy.noise_variance)
    A, y = strategy.dense().astype(float) / unit, release.measurements.astype(float) / unit
    x = adjusted.estimates
    g = A.T @ (A @ x - y)
    assert x.min() >= 0
    # Rounding of counts, in units of the noise, is all that may come on top.
    rounding = math.sqrt(np.finfo(float).eps * float(np.abs(A).max()) ** 2) * people
    assert math.sqrt(float((g - g.min()) @ x)) <= nonnegative.PRECISION + rounding


def test_the_inside_finds_what_faces_find(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = ln.Schema(a=range(7), b=range(2), c=range(5), d=range(4))
    workload = ln.assemble([ln.Cube("a", "b", "c", "d", order=(2,))], schema)
    plan = ln.design(workload, ln.GDP(1), method="marginals")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        release = ln.measure(plan, np.random.default_rng(0).poisson(0.5, 280))
    monkeypatch.setattr(nonnegative, "_MAX_FACTORISED", 0)
    inside = adjust(release)
    monkeypatch.setattr(Information, "sums", lambda self: None)
    faces = adjust(release)
    own = information_of(release.plan)
    apart = inside.estimates - faces.estimates
    distance = math.sqrt(max(float(apart @ own.times(apart)), 0.0))
    assert distance <= inside.adjusted.precision + faces.adjusted.precision <= 2 * nonnegative.PRECISION


@pytest.mark.thorough
def test_few_steps_are_taken() -> None:
    """A twin without the inside takes many times as many."""
    release = measured(2_000)
    own = information_of(release.plan)
    estimates = own.estimates(release.measurements)
    linear = own.linear(estimates, release.measurements)
    seen: list[AdjustProgress] = []
    fit = nonnegative.nearest_nonnegative(own, estimates, linear, watch=AdjustWatch(seen.append))
    assert fit.precision <= nonnegative.PRECISION
    assert len(seen) <= 60 and fit.n_products <= 20


def test_too_many_sums_are_left_to_the_other_search(monkeypatch: pytest.MonkeyPatch) -> None:
    own = information_of(pairs_plan())
    assert own.sums() is not None
    monkeypatch.setattr(information, "_MAX_SUMS", 100)
    assert own.sums() is None


def test_rows_take_the_place_of_sums_that_are_not_all_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are left to the other search where rows over all cells are too many numbers."""
    schema = ln.Schema(a=range(60), b=range(50), c=range(2))
    queries = [ln.Ranges("a", [(0, 9), (5, 30)]) * ln.Marginal("c"), ln.Marginal("b", "c")]
    plan = ln.design(ln.assemble(queries, schema), ln.GDP(1), method="residuals")
    own = information_of(plan)
    assert isinstance(own.sums(), MeasuredRows)
    monkeypatch.setattr(information, "MAX_DENSE_STRATEGY", 1000)
    assert own.sums() is None


def test_a_search_that_ends_far_away_is_refused_unless_a_limit_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = measured(2_000)
    monkeypatch.setattr(nonnegative, "_MAX_VISITS", 0)
    with refuses(TooLargeError, "time_limit", None, "4,680 cells ended where answers may be"):
        adjust(release)
    found = adjust(release, time_limit=600)
    assert "The search ended early" in found.adjusted.statement() and found.estimates.min() >= 0


# --------------------------------------------------------------------------- limits and progress


@pytest.mark.parametrize("integer", [False, True])
def test_a_limit_stops_it_with_possible_answers(integer: bool, tmp_path: object) -> None:
    release = measured(2_000)
    stopped = adjust(release, integer=integer, time_limit=1e-9)
    mark = stopped.adjusted
    assert mark.ended == "deadline" and mark.precision > nonnegative.PRECISION
    assert "was stopped by its time limit, up to" in mark.statement()
    cells = stopped.estimates
    assert cells.min() >= 0 and (not integer or (cells == np.rint(cells)).all())
    W = release.plan.workload.operator
    assert stopped.answers == pytest.approx(W.apply(cells), rel=ROUNDING, abs=ROUNDING)
    total = float(release.answer(ln.Total())["answer"].iloc[0])
    assert cells.sum() == pytest.approx(round(total) if integer else total, rel=ROUNDING)
    again = load_release(stopped.save(f"{tmp_path}/a.release"))
    assert again.adjusted.ended == "deadline" and again.adjusted.statement() == mark.statement()


@pytest.mark.thorough
def test_a_limit_that_was_not_needed_leaves_no_mark() -> None:
    release = measured(200)
    calm = adjust(release, time_limit=600)
    assert calm.adjusted.ended == "converged" and "time limit" not in calm.adjusted.statement()
    assert "ended" not in calm.adjusted.to_parts()[0]
    assert (calm.estimates == adjust(release).estimates).all()


def test_progress_is_told() -> None:
    seen: list[AdjustProgress] = []
    adjusted = adjust(measured(2_000), progress=seen.append)
    assert [step.step for step in seen] == list(range(1, len(seen) + 1))
    assert all(b.seconds >= a.seconds for a, b in pairwise(seen))
    assert all(b.precision <= a.precision for a, b in pairwise(seen))
    assert max(seen[-1].precision, adjusted.adjusted.precision) <= nonnegative.PRECISION < seen[0].precision
