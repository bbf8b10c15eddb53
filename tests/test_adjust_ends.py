"""How an adjustment ends: by itself, at its deadline, at Ctrl-C, and with what in hand."""

from __future__ import annotations

import functools
import math
import warnings
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

import leastnoise as ln
from leastnoise.core import deadline
from leastnoise.core.errors import TooLargeError, UnrecordedSpending
from leastnoise.core.operators import Array
from leastnoise.planning.families import optimum
from leastnoise.release import AdjustProgress, Release, load_release
from leastnoise.release.adjusting import adjust_progress as watch
from leastnoise.release.adjusting import information, interior, nonnegative, rounding
from leastnoise.release.adjusting.information import information_of
from leastnoise.release.adjusting.rounding import rounded
from leastnoise.release.adjustment import adjustment_from_parts
from support import refuses
from tolerances import ROUNDING

# Least squares, which the tests of this file are about; the default is in test_adjust_entropy.
adjust = functools.partial(ln.adjust, fit="least squares")


def measured(plan: ln.Plan, counts: Array) -> Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedSpending)
        return ln.measure(plan, counts)


def heavy_counts(n: int, people: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    share = rng.pareto(0.7, n)
    return rng.multinomial(people, share / share.sum())


def whitened(release: Release) -> tuple[Array, Array]:
    """A and y in units of the noise, from the integer strategy itself."""
    strategy = release.plan.fixed_strategy()
    unit = math.sqrt(strategy.noise_variance)
    return strategy.dense().astype(float) / unit, release.measurements.astype(float) / unit


# ---------------------------------------------------------------------------- it ends by itself


@cache
def few_answers(size: str) -> ln.Plan:
    """189 answers over 1,920 cells, or 101 over 248."""
    if size == "1,920":
        schema = ln.Schema(age=range(16), sex=("F", "M"), region=range(10), education=range(6))
        queries = [
            ln.Prefix("age") * ln.Marginal("sex"),
            ln.Marginal("region", "education"),
            ln.Marginal("age", "education"),
            ln.Total(),
        ]
    else:
        schema = ln.Schema(age=range(31), sex=("F", "M"), region=range(4))
        queries = [ln.Prefix("age"), ln.Marginal("sex", "region"), ln.Marginal("age", "sex")]
    return ln.design(ln.assemble(queries, schema), ln.GDP(0.5), method="dense")


@pytest.mark.thorough
@pytest.mark.parametrize("size", ["1,920", "248"])
def test_few_answers_over_many_cells_converge_in_few_steps(size: str) -> None:
    """Cells that fit in a matrix went from face to face: 189 answers over 1,920 cells stood at the same
    precision from step 200 on for more than a thousand steps, 248 cells took 2,014."""
    plan = few_answers(size)
    n = plan.workload.shape[1]
    for seed, people in enumerate((n // 10, 5 * n, 100 * n)):
        release = measured(plan, heavy_counts(n, people, seed))
        seen: list[AdjustProgress] = []
        adjusted = adjust(release, progress=seen.append, time_limit=math.inf)
        assert adjusted.adjusted.ended == "converged" and len(seen) <= 60
        # The proof, again from the integer rows alone; rounding of counts may come on top.
        A, y = whitened(release)
        x = adjusted.estimates
        g = A.T @ (A @ x - y)
        slack = math.sqrt(ROUNDING * float(np.abs(A).max()) ** 2) * people
        assert x.min() >= 0
        assert math.sqrt(max(float((g - g.min()) @ x), 0.0)) <= nonnegative.PRECISION + slack


def random_plan(rng: np.random.Generator) -> ln.Plan:
    """Of one to four attributes, in rows over all cells or in blocks."""
    sizes = rng.integers(2, 5, size=rng.integers(1, 5))
    schema = ln.Schema({f"a{i}": range(int(size)) for i, size in enumerate(sizes)})
    queries: list[Any] = []
    for _ in range(rng.integers(1, 4)):
        some = rng.permutation(list(schema.names))[: rng.integers(1, 4)]
        kinds = [ln.Prefix, ln.Marginal, ln.AllRanges]
        parts = [kinds[rng.integers(0, 3)](str(name)) for name in some]
        query = parts[0]
        for part in parts[1:]:
            query = query * part
        queries.append(query)
    method = "residuals" if rng.random() < 0.5 else "auto"
    return ln.design(ln.assemble(queries, schema), ln.GDP(1), method=method)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(40))
def test_random_releases_end_with_the_best_cells_and_one_whole_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = random_plan(rng)
    n = plan.workload.shape[1]
    release = measured(plan, heavy_counts(n, int(n * rng.choice([0.1, 1, 30])) + 1, seed))
    real, whole = adjust(release), adjust(release, integer=True)
    assert real.adjusted.ended == whole.adjusted.ended == "converged"
    # A second route: the total as a very heavy row.
    A, y = whitened(release)
    total = float(real.estimates.sum())
    heavy = 1e4 * np.abs(A).max()
    rows = np.vstack([A, np.full(n, heavy)])
    judge = nnls(rows, np.append(y, heavy * total), maxiter=100 * n)[0]
    assert np.linalg.norm(A @ (real.estimates - judge)) <= real.adjusted.precision + 1e-3
    # All answers are those of one table of non-negative whole numbers.
    z = whole.estimates
    assert z.min() >= 0 and (z == np.rint(z)).all() and z.sum() == np.rint(total)
    assert (whole.answers == plan.workload.dense() @ z).all()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(10))
def test_a_precision_out_of_reach_is_given_up(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is proved exactly in floats: the search ends where steps gain nothing, and says so."""
    monkeypatch.setattr(nonnegative, "_STALLED_NEWTON", 40)
    rng = np.random.default_rng(seed)
    plan = random_plan(rng)
    n = plan.workload.shape[1]
    release = measured(plan, heavy_counts(n, 3 * n, seed))
    own = information_of(plan)
    estimates = own.estimates(release.measurements)
    linear = own.linear(estimates, release.measurements)
    fit = nonnegative.nearest_nonnegative(
        own, estimates, linear, precision=0.0, watch=watch.AdjustWatch(None, math.inf)
    )
    assert fit.ended == ("exhausted" if fit.precision > 0 else "converged")
    assert fit.precision <= nonnegative.PRECISION


def test_cells_that_are_told_apart_are_found_through_the_inside_where_faces_stall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a factor of G itself; a twin that may take no step inside stays far away."""
    plan = few_answers("248")
    release = measured(plan, heavy_counts(248, 24_800, 3))
    monkeypatch.setattr(information.Information, "sums", lambda self: None)
    # Faces stall after one step, before and after.
    for name, value in {
        "_FIRST_NEWTON": 0,
        "_STALLED_NEWTON": 0,
        "_MAX_NEWTON": 1,
        "_LEAST_GAIN": 0,
    }.items():
        monkeypatch.setattr(nonnegative, name, value)
    assert adjust(release, time_limit=600).adjusted.ended == "converged"
    monkeypatch.setattr(interior, "_MAX_STEPS", 0)
    assert adjust(release, time_limit=600).adjusted.ended == "exhausted"


# ------------------------------------------------------------------------------- whole numbers


def nearest_whole(x: Array, G: Array, shape: tuple[int, ...]) -> float:
    """The least eᵀG e over all whole tables of the total in which no cell, and no count of the first
    attributes, is further than one from what it was: by trying them all."""
    best = math.inf
    for choice in product(*({math.floor(v), math.ceil(v)} for v in x)):
        e = np.array(choice) - x
        sums = [np.abs(e.reshape(*shape[:i], -1).sum(axis=-1)).max() for i in range(1, len(shape))]
        if sum(choice) == np.rint(x.sum()) and max(sums) <= 1:
            best = min(best, float(e @ G @ e))
    return best


def test_whole_numbers_are_near_the_nearest_of_all() -> None:
    """Within 1.2 times the least squared distance on average over forty tables of 2 by 2 by 2, the nearest
    itself for three of four; while only neighbours exchanged records, 1.37 times, and for every other one."""
    schema = ln.Schema(a=range(2), b=range(2), c=range(2))
    plan = ln.design(ln.assemble([ln.Cube("a", "b", "c", order=(2,))], schema), ln.GDP(1))
    own = information_of(plan)
    G = np.array([own.times(row) for row in np.eye(8)])
    ratios = []
    for seed in range(40):
        x = np.random.default_rng(seed).gamma(0.7, 2, 8)
        z = rounded(x, schema.shape, own).cells
        least = nearest_whole(x, G, schema.shape)
        found = float((z - x) @ G @ (z - x))
        assert found >= least * (1 - ROUNDING)
        ratios.append(found / least)
    assert np.mean(ratios) <= 1.2 and np.mean(np.array(ratios) <= 1 + ROUNDING) >= 0.7


# ----------------------------------------------------------------------- deadlines and Ctrl-C


def stop_at(step: int) -> Any:
    """A listener at whose turn somebody presses Ctrl-C."""

    def listen(state: AdjustProgress) -> None:
        seen.append(state)
        if state.step == step:
            raise KeyboardInterrupt

    seen: list[AdjustProgress] = []
    return listen, seen


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("way", ["inside", "faces", "products"])
def test_an_interruption_hands_out_the_best_so_far(
    way: str, integer: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """It ended in KeyboardInterrupt, and all that had been found was lost."""
    plan = few_answers("248")
    release = measured(plan, heavy_counts(248, 1_000, 1))
    if way != "inside":
        monkeypatch.setattr(information.Information, "sums", lambda self: None)
    if way == "products":
        monkeypatch.setattr(nonnegative, "_MAX_FACTORISED", 0)
    listen, seen = stop_at(3)
    cut = adjust(release, integer=integer, progress=listen)
    assert len(seen) == 3 and cut.adjusted.ended == "interrupted"
    assert cut.adjusted.precision == pytest.approx(seen[-1].precision, rel=ROUNDING)
    assert cut.adjusted.precision > nonnegative.PRECISION
    assert cut.estimates.min() >= 0 and (not integer or (cut.estimates == np.rint(cut.estimates)).all())
    assert "The search was interrupted, up to" in cut.adjusted.statement()
    again = load_release(cut.save(tmp_path / "a.release"))
    assert again.adjusted.ended == "interrupted" and (again.answers == cut.answers).all()


@pytest.mark.thorough
def test_an_interruption_while_answers_are_made_to_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    # As where tables are too many to be measured together, which has no disagreement to mend.
    monkeypatch.setattr(optimum, "serves", lambda request, question: False)
    schema = ln.Schema(age=range(30), region=range(24), sex=("F", "M"))
    queries = [
        ln.Ranges("age", [(0, 9), (10, 19), (20, 29)]) * ln.Marginal("region", "sex"),
        ln.Marginal("age", "sex") * ln.Ranges("region", [(0, 7), (8, 15), (16, 23)]),
    ]
    plan = ln.design(ln.assemble(queries, schema), ln.GDP(1), method="residuals")
    assert information_of(plan).products is not None
    release = measured(plan, heavy_counts(1_440, 5_000))
    cut = adjust(release, nonnegative=False, progress=stop_at(1)[0])
    assert cut.adjusted.ended == "interrupted" and not cut.adjusted.centred
    assert adjust(release, nonnegative=False).adjusted.ended == "converged"


def test_an_interruption_of_rounding_leaves_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    release = measured(few_answers("248"), heavy_counts(248, 1_000, 1))
    turns = []
    own = rounding._best_moves

    def once(*given: Any) -> Array | None:
        turns.append(1)
        if len(turns) == 3:
            raise KeyboardInterrupt
        return own(*given)

    monkeypatch.setattr(rounding, "_best_moves", once)
    cut = adjust(release, integer=True)
    assert len(turns) == 3 and cut.adjusted.ended == "interrupted"
    assert cut.adjusted.precision <= nonnegative.PRECISION
    assert (cut.estimates == np.rint(cut.estimates)).all() and cut.estimates.min() >= 0


def clock(step: float) -> SimpleNamespace:
    """A clock that goes on by so many seconds whenever somebody looks."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += step
        return now[0]

    return SimpleNamespace(monotonic=monotonic)


def test_a_limit_holds_unless_it_is_waived(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``time_limit=`` nothing ended a search but itself."""
    release = measured(few_answers("248"), heavy_counts(248, 1_000, 1))
    monkeypatch.setattr(deadline, "time", clock(watch.DEFAULT_TIME_LIMIT / 3))
    # Cells that are not good are not handed out unasked.
    with refuses(TooLargeError, "time_limit", ..., "248 cells ended where answers may be"):
        adjust(release)
    assert adjust(release, time_limit=watch.DEFAULT_TIME_LIMIT).adjusted.ended == "deadline"
    assert adjust(release, time_limit=math.inf).adjusted.ended == "converged"


def test_files_of_earlier_versions_say_that_time_was_up() -> None:
    cells = np.arange(3.0)
    plain = {"nonnegative": True, "integer": True, "precision": 0.5}
    said = {"converged": {}, "deadline": {"stopped": True}, "exhausted": {"ended": "exhausted"}}
    for ended, more in said.items():
        read = adjustment_from_parts(plain | more, {"adjusted_cells": cells}, 3, "a")
        assert read is not None and read.ended == ended
