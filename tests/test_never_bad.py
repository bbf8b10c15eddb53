"""A plan that is never bad: plain noise at once, something better later, and how it ended said honestly."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import LargeGap, LeastnoiseWarning, UnrecordedSpending
from leastnoise.core.progress import Progress
from leastnoise.planning import patience
from leastnoise.planning.patience import Patience
from tolerances import SOLVER

GOAL = ln.ApproxDP(epsilon=1, delta=1e-6)

SURVEY = ln.Schema(
    month=ln.Periods("2020-01", "2021-12"),
    region=("N", "E", "S", "W"),
    sex=("F", "M"),
    age=ln.Bins([0, 10, 20, 30, 40, 50, 60, 70]),
    income=ln.Bins([0, 1, 2, 3, 4, 5]),
    hours=ln.Integers(range(31)),
)


def survey(half_width: float | None) -> ln.Workload:
    """A specification that anybody would write, with a target on one of its tables."""
    target = {} if half_width is None else {"within": (half_width, 0.95)}
    queries = [
        ln.Marginal("month", "region", **target),
        ln.Marginal("age", "income", "sex"),
        ln.Mean("hours", by=("age",)),
    ]
    return ln.assemble(queries, SURVEY)


def plain(workload: ln.Workload, **asked: Any) -> ln.Plan:
    return ln.design(workload, GOAL, method="plain", **asked)


def unions(rng: random.Random) -> list[Any]:
    """A few products of mixed kinds over three attributes."""

    def one(name: str) -> Any:
        return rng.choice([ln.Marginal, ln.Prefix, ln.AllRanges])(name)

    found: list[Any] = []
    for number in range(rng.randint(2, 4)):
        names = rng.sample(["x", "y", "z"], rng.randint(1, 2))
        query = one(names[0])
        for name in names[1:]:
            query = query * one(name)
        found.append(query.having(name=f"q{number}", weight=10 ** rng.uniform(-1, 1)))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_plain_noise_is_what_its_closed_form_says(seed: int) -> None:
    """No auto plan is worse, and no bound above it; the plan's own certificate is recomputed."""
    rng = random.Random(seed)
    schema = ln.Schema(x=range(rng.randint(2, 9)), y=range(rng.randint(2, 7)), z=range(rng.randint(2, 5)))
    workload = ln.assemble(unions(rng), schema)
    first, best = plain(workload), ln.design(workload, GOAL)
    proof = ln.certify(workload, first)
    assert proof.achieved == pytest.approx(first.certificate.achieved, rel=SOLVER)
    assert best.certificate.achieved <= first.certificate.achieved * (1 + SOLVER)
    assert best.certificate.lower_bound <= first.certificate.achieved * (1 + SOLVER)


def test_plain_noise_on_cross_tables_is_the_optimum() -> None:
    """The closed form has nothing to lose where nothing but cross tables is asked."""
    workload = ln.assemble([ln.Cube("age", "income", "sex", order=2)], SURVEY)
    best = ln.design(workload, GOAL, method="marginals").certificate.achieved
    assert plain(workload).certificate.achieved == pytest.approx(best, rel=SOLVER)


def test_plain_noise_on_few_conditions_is_noise_on_each() -> None:
    """Two conditions that overlap: noise of twice the variance on each, whatever the number of cells."""
    workload = ln.assemble([ln.Where("hours > 3 and sex == 'F'"), ln.Where("hours > 20")], SURVEY)
    alone = ln.design(ln.assemble([ln.Where("hours > 20")], SURVEY), GOAL).certificate.achieved
    assert plain(workload).certificate.achieved <= 4 * alone * (1 + SOLVER)


@pytest.mark.parametrize("half_width", [9.0, 12.0, 30.0])
def test_plain_noise_keeps_targets(half_width: float) -> None:
    """What the targets need comes first, and the rest goes where it serves the total."""
    workload = survey(half_width)
    found = plain(workload)
    assert found.factor is not None and found.factor <= 1
    assert found.certificate.achieved <= 3 * plain(survey(None)).certificate.achieved


@pytest.mark.parametrize("time_limit", [1e-9, 0.5, 2.0])
@pytest.mark.parametrize("half_width", [9.0, 30.0])
def test_no_time_limit_gives_a_plan_that_loses_to_plain_noise(half_width: float, time_limit: float) -> None:
    """A search cut short gave plans of a thousand to a billion times the least variance, silently."""
    workload = survey(half_width)
    found = ln.design(workload, GOAL, time_limit=time_limit)
    assert found.certificate.achieved <= plain(workload).certificate.achieved * (1 + SOLVER)
    assert found.factor is not None and found.factor <= 1


def test_targets_that_bind_nowhere_cost_nothing() -> None:
    """The plan for the total alone is the best where it meets the targets anyway; it took minutes."""
    free, held = (ln.design(survey(width), GOAL, time_limit=3) for width in (None, 30.0))
    assert held.certificate.gap <= 1e-2
    assert held.certificate.achieved <= free.certificate.achieved * (1 + 1e-2)


def test_the_best_plan_has_the_best_proof() -> None:
    """Whoever proves more, the certificate of the plan that is kept says so."""
    workload = survey(9.0)
    found = ln.design(workload, GOAL, time_limit=1)
    assert found.certificate.lower_bound >= plain(workload).certificate.lower_bound * (1 - SOLVER)
    again = ln.certify(workload, found)
    assert again.lower_bound == pytest.approx(found.certificate.lower_bound, rel=SOLVER)


def test_a_search_ends_within_one_per_cent_after_enough_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked for a gap or a time: the work is counted, and the plan says what going on would take."""
    rng = np.random.default_rng(0)
    workload = ln.Workload.from_matrix(rng.integers(-1, 3, (200, 120)))
    whole = ln.design(workload, GOAL)
    monkeypatch.setattr(patience, "ENOUGH_SECONDS", 1e-9)
    short, again = ln.design(workload, GOAL), ln.design(workload, GOAL)
    assert short.digest == again.digest
    assert SOLVER < short.certificate.gap <= patience.SMALL_GAP and whole.certificate.gap <= SOLVER
    assert short.ended == "exhausted" and "ended at a gap of" in short.note
    for asked in ({"tol": SOLVER}, {"time_limit": 60.0}):
        assert ln.design(workload, GOAL, **asked).certificate.gap <= SOLVER


def test_patience_says_what_going_on_would_take() -> None:
    """Gaps that fall tenfold every nominal second of work reach 1e-6 from 1e-3 after three more."""
    known = Patience(tol=1e-6, operations=patience.ENOUGH_SECONDS * patience.NOMINAL_SPEED)
    for step in range(4):
        is_enough = known.step(patience.NOMINAL_SPEED, 10.0**-step)
        assert is_enough == (step >= 2)
    assert "about 3 s more" in known.to_text()


def test_progress_says_which_part_is_worked_on() -> None:
    """Steps of a search name its method; the gap that is told never grows."""
    seen: list[Progress] = []
    ln.design(survey(None), GOAL, time_limit=2, progress=seen.append)
    gaps = [step.gap for step in seen]
    assert {"residuals"} <= {step.part for step in seen} and math.isfinite(gaps[-1])
    assert all(later <= earlier for earlier, later in itertools.pairwise(gaps))


def test_a_step_carries_its_part() -> None:
    """The part is empty where there is only one thing to work on."""
    assert Progress(1, 0.5, 2.0).part == "" and replace(Progress(1, 0.5, 2.0), part="dense").part == "dense"


def test_measure_warns_of_a_large_gap_before_anything_is_read() -> None:
    """A search that was cut short at 21 times the least noise was published without a word."""
    far = plain(survey(12.0))
    counts = np.zeros(far.workload.shape[1], dtype=np.int64)
    said = "up to 91 % more total variance than the least possible"
    with pytest.warns(LargeGap, match=said), pytest.raises(ln.LeastnoiseError):
        ln.measure(far, counts[:-1])
    with pytest.warns(UnrecordedSpending):
        ln.measure(far, counts, accept_gap=1.0)
    with pytest.raises(ln.LeastnoiseError, match="accept_gap"):
        ln.measure(far, counts, accept_gap=-1.0)
    assert issubclass(LargeGap, LeastnoiseWarning)


def test_a_method_that_does_not_aim_at_the_optimum_is_not_warned_of() -> None:
    """Who names a method of fixed rows knows what it is."""
    schema = ln.Schema(x=range(8))
    named = ln.design(ln.assemble([ln.AllRanges("x")], schema), GOAL, method="identity")
    assert named.certificate.gap > 0.05
    with pytest.warns(UnrecordedSpending):
        ln.measure(named, np.zeros(8, dtype=np.int64))


def test_no_page_boasts_of_a_large_gap(tmp_path: Path) -> None:
    """The fact on top says how far above the best possible a plan may be, and not that it is within that."""
    far, near = plain(survey(12.0)), ln.design(survey(None), GOAL, time_limit=3)
    for plan, is_far in ((far, True), (near, False)):
        target = tmp_path / f"{is_far}.html"
        ln.summarize(plan).to_html(target)
        text = target.read_text()
        assert ("above the best possible, perhaps" in text) == is_far
        assert ("close to the optimum" in text) <= (not is_far)
    assert "Gap 91%" in ln.summarize(far).text()
