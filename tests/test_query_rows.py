"""Method "queries": every query measured as it is asked, and answered by its own measurement alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core import container
from leastnoise.core.errors import MethodError, PlanFileError
from leastnoise.planning import Plan, load_plan
from leastnoise.privacy import GDP, Goal, PureDP
from leastnoise.query import Targets
from leastnoise.release import Release, load_release
from leastnoise.strategy.query_rows import RowsAsAsked
from support import refuses
from tolerances import ROUNDING

SCHEMA = ln.Schema(v=range(4))
# The first four queries are asked again under another name, and a query of nothing comes last.
TWICE = ln.assemble(
    [ln.Prefix("v", name="a"), ln.Prefix("v", name="b"), ln.Linear(np.zeros((1, 4), dtype=int), name="none")],
    SCHEMA,
)
GOALS: list[Goal] = [GDP(1), PureDP(0.5), GDP(2, neighbours="replace-one")]

# The grid makes variances differ by less than this share.
GRID = 1e-7


def planned(workload: ln.Workload = TWICE, goal: Goal = GDP(1), **more: Any) -> Plan:  # noqa: B008 - frozen
    return ln.design(workload, goal, method="queries", **more)


def rows_of(plan: Plan) -> RowsAsAsked:
    assert isinstance(plan.strategy, RowsAsAsked)
    return plan.strategy


def released(plan: Plan, counts: Any, seed: int = 1) -> Release:
    """A release with seeded noise of the plan's own size; no draw of the library's."""
    strategy = rows_of(plan)
    rng = np.random.default_rng(seed)
    noise = np.rint(rng.normal(0, math.sqrt(strategy.noise_variance), strategy.n_measured))
    exact = strategy.answers(np.array(counts))
    return Release(plan, np.array([int(y) + int(z) for y, z in zip(exact, noise, strict=True)], dtype=object))


@pytest.mark.parametrize("goal", GOALS, ids=repr)
def test_the_noise_is_that_of_all_queries_repeats_included(goal: Goal) -> None:
    plan = planned(goal=goal)
    W = TWICE.dense()[:8]
    assert rows_of(plan).shape == (8, 4), "asked twice, measured twice; nothing is measured for nothing"
    columns = np.concatenate([W, np.zeros((8, 1))], axis=1) if goal.relation.replaces else W
    power = 1 if goal.noise.is_pure else 2
    pairs = columns[:, :, None] - columns[:, None, :] if goal.relation.replaces else columns[:, :, None]
    cost = (np.abs(pairs) ** power).sum(axis=0).max()
    variance = 2 * (cost / 0.5) ** 2 if goal.noise.is_pure else cost / float(goal.budget)
    assert plan.stderr is not None
    np.testing.assert_allclose(plan.stderr[:8] ** 2, variance, rtol=GRID)
    assert plan.stderr[8] == 0
    assert plan.spent_per_person <= goal.budget
    assert plan.certificate.achieved == pytest.approx(8 * variance, rel=GRID)
    # Once each and least squares after the same noise are never worse.
    assert ln.design(TWICE, goal, method="workload").certificate.achieved < plan.certificate.achieved


def test_each_answer_is_its_own_measurement() -> None:
    plan = planned()
    release = released(plan, [3, 1, 4, 1])
    own = release.measurements.astype(float) / 2.0 ** rows_of(plan).bits
    np.testing.assert_array_equal(release.answers, [*own, 0.0])
    assert not np.allclose(release.answers[:4], release.answers[4:8]), "the same query, measured twice"
    for name, part in (("a", own[:4]), ("b", own[4:])):
        np.testing.assert_array_equal(release[name]["answer"], part)
    assert release["none"]["answer"].tolist() == [0.0]
    covariance = plan.covariance(ln.Prefix("v"))
    np.testing.assert_allclose(covariance, np.eye(4) * plan.known_stderr()[0] ** 2, rtol=ROUNDING)


def test_further_queries_are_answered_by_least_squares() -> None:
    plan = planned()
    A = rows_of(plan).dense().astype(float)
    w = np.array([0.0, 1, 0, 1])
    gain = w @ np.linalg.pinv(A)
    query = ln.Linear(w[None].astype(int))
    variance = rows_of(plan).noise_variance * float(gain @ gain)
    assert plan.variance(query)[0] == pytest.approx(variance, rel=1e-9)
    release = released(plan, [3, 1, 4, 1])
    answer = release.answer(query)["answer"].iloc[0]
    assert answer == pytest.approx(gain @ release.measurements.astype(float), rel=1e-9)
    # A query that was asked has its first measurement, whatever it is called.
    again = release.answer(ln.Prefix("v", name="c"))["answer"]
    np.testing.assert_array_equal(again, release.answers[:4])


def test_intervals_follow_each_measurement() -> None:
    for goal in GOALS[:2]:
        plan = planned(goal=goal)
        lower, upper = released(plan, [3, 1, 4, 1]).interval(0.9)
        half = (upper - lower) / 2
        b = plan.known_stderr()[0] / math.sqrt(2)
        exact = b * math.log(10) if goal.noise.is_pure else 1.6448536 * plan.known_stderr()[0]
        np.testing.assert_allclose(half[:8], exact, rtol=1e-3)
        assert half[8] == 0
    noise = np.arange(16.0).reshape(8, 2)
    errors = rows_of(plan).error_map(TWICE)(noise)
    np.testing.assert_array_equal(errors, [*noise / 2.0 ** rows_of(plan).bits, [0, 0]])


def test_adjusting_makes_answers_agree() -> None:
    release = released(planned(), [30, 10, 40, 10])
    agreed = ln.adjust(release, nonnegative=False)
    np.testing.assert_allclose(agreed.answers[:4], agreed.answers[4:8], rtol=1e-9)
    expected = (release.answers[:4] + release.answers[4:8]) / 2
    np.testing.assert_allclose(agreed.answers[:4], expected, rtol=1e-9)


@pytest.mark.parametrize("goal", GOALS, ids=repr)
def test_plans_and_releases_are_read_back(goal: Goal, tmp_path: Path) -> None:
    plan = planned(goal=goal)
    back = load_plan(plan.save(tmp_path / "x.plan"))
    assert back.digest == plan.digest and isinstance(back.strategy, RowsAsAsked)
    np.testing.assert_array_equal(back.known_stderr(), plan.known_stderr())
    release = released(plan, [3, 1, 4, 1])
    np.testing.assert_array_equal(load_release(release.save(tmp_path / "x.release")).answers, release.answers)


def test_a_file_cannot_claim_another_grid(tmp_path: Path) -> None:
    content, arrays = planned().to_parts()
    for bits in (-1, 10_000, "3", None, 4):
        structure = {**content["structure"], "bits": bits}
        path = container.write(tmp_path / "x.plan", "plan", {**content, "structure": structure}, arrays)
        if bits == 4:
            # A coarser grid has more noise beside its rows, and keeps its goal.
            assert load_plan(path).spent_per_person < 1
        else:
            with refuses(PlanFileError, "strategy", ..., "kind that this version does not know"):
                load_plan(path)
    scaled = container.write(tmp_path / "y.plan", "plan", {**content, "scale": "1"}, arrays)
    with refuses(PlanFileError, "plan", "y.plan", "spends more than the privacy goal allows"):
        load_plan(scaled)


def test_targets_set_the_noise() -> None:
    workload = ln.assemble([ln.Prefix("v", stderr=2.0), ln.Marginal("v", stderr=3.0)], SCHEMA)
    plan = ln.design(workload, method="queries", objective=Targets())
    assert plan.factor is not None and 1 - 1e-6 < plan.factor <= 1
    assert plan.known_stderr().max() == pytest.approx(2.0, rel=1e-6)


def test_it_is_taken_only_when_named_and_listed_everywhere() -> None:
    assert "queries" in str(ln.methods())
    assert ln.design(TWICE, PureDP(1)).method != "queries"
    found = ln.compare(TWICE, GDP(1), methods=["queries", "workload"])
    by_name = {contender.method: contender.achieved for contender in found.contenders}
    assert by_name["workload"] < by_name["queries"]  # type: ignore[operator]
    with refuses(MethodError, "method", "queries", "must be whole numbers below"):
        planned(ln.Workload.from_matrix([[0.5, 1.0]]))


def test_random_batches_are_answered_without_bias_from_their_own_rows() -> None:
    rng = np.random.default_rng(8)
    for _ in range(40):
        m, n = rng.integers(1, 7), rng.integers(1, 6)
        W = rng.integers(-2, 3, (m, n))
        plan = planned(ln.Workload.from_matrix(W))
        strategy = rows_of(plan)
        x = rng.integers(0, 50, n)
        exact = strategy.answers_of(plan.workload, strategy.answers(x))
        np.testing.assert_array_equal(exact, W @ x)
        gains = strategy.gains_of(plan.workload, np.arange(m))
        np.testing.assert_array_equal(gains @ strategy.dense().astype(float), W)
        assert ((gains != 0).sum(axis=1) == W.any(axis=1)).all()
