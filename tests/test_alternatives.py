"""What a plan with a δ could do without one: every word of it is true when the advice is followed."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import InputError
from leastnoise.report.pure_alternative import PureAlternative, design_without_delta
from support import refuses
from tolerances import SOLVER

SCHEMA = ln.Schema(age=range(4), sex=("F", "M"))

# A figure is printed with six digits.
DIGITS = 1e-5


def random_plan(seed: int) -> ln.Plan:
    """A plan with a δ for a few counts, of which Laplace noise serves some better and others worse."""
    rng = np.random.default_rng(seed)
    goal = ln.ApproxDP(
        float(np.exp(rng.normal(0, 1))),
        float(10.0 ** rng.uniform(-8, -1)),
        neighbours="replace-one" if seed % 4 == 0 else "add-remove",
        records_per_person=1 + seed % 2,
    )
    asked: list[Any] = [ln.Prefix("age"), ln.Marginal("sex"), ln.Total(), ln.AllRanges("age")]
    chosen = [asked[i] for i in rng.permutation(4)[: rng.integers(1, 4)]]
    if seed % 3:
        spread = float(np.exp(rng.uniform(0.5, 2))) * goal.records_per_person / float(goal.epsilon)
        chosen = [query.having(stderr=3 * spread) for query in chosen]
    within = (None, ln.TotalVariance(), ln.Targets(), ln.MaxVariance())[seed % 4]
    objective = within if seed % 3 else ln.MaxVariance() if seed % 2 else None
    workload = ln.assemble(chosen, SCHEMA)
    try:
        return ln.design(workload, goal, objective=objective)
    except ln.InfeasibleError:
        return ln.design(workload, goal, objective=ln.Targets())


def is_true_when_followed(plan: ln.Plan, found: PureAlternative) -> bool:
    """Whether the call that is named gives what is said of it, and less than the plan where it should."""
    says = found.sentences()
    named = re.search(r"Ask for (PureDP\(.*\)) instead", says[1]) if len(says) > 1 else None
    goal = found.goal if named is None else eval(named[1], {"PureDP": ln.PureDP})
    try:
        followed = ln.design(plan.workload, goal, objective=plan.objective)
    except ln.LeastnoiseError as error:
        return says == [f"Without delta: {error}"]
    level = re.match(r"(?:Better without|Without) delta: \D*(\d[\d.,e+-]*) ", says[0])
    if level is None:
        return False
    told, has = float(level[1].replace(",", "")), followed.certificate.achieved
    has = math.sqrt(has) if "times the targets" in says[0] else has
    is_better = followed.certificate.achieved < plan.certificate.achieved
    return abs(has - told) <= DIGITS * told and says[0].startswith("Better") == is_better == (
        named is not None
    )


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_every_word_is_true_when_followed(seed: int) -> None:
    plan = random_plan(seed)
    found = design_without_delta(plan)
    assert is_true_when_followed(plan, found)
    given = plan.privacy
    assert isinstance(given, ln.ApproxDP)
    for name in ("epsilon", "neighbours", "records_per_person"):
        assert getattr(found.goal, name) == getattr(given, name)


@pytest.mark.thorough
def test_both_sides_occur_and_wrong_words_would_be_noticed() -> None:
    pairs = [(plan, design_without_delta(plan)) for plan in map(random_plan, range(4))]
    assert {found.ratio < 1 for _, found in pairs} == {True, False}
    for plan, found in pairs[:2]:
        half = dataclasses.replace(found.goal, epsilon=float(found.goal.epsilon) / 2)
        other = ln.design(plan.workload, half, objective=ln.TotalVariance(), method="identity")
        for wrong in (
            dataclasses.replace(found, ratio=1 / found.ratio),
            dataclasses.replace(found, plan=other),
            dataclasses.replace(found, plan=None, refusal="no method meets the targets"),
        ):
            assert not is_true_when_followed(plan, wrong)


def test_a_single_count_needs_no_delta() -> None:
    plan = ln.design(ln.assemble([ln.Total()], SCHEMA), ln.ApproxDP(0.5, 1e-6, records_per_person=3))
    found = design_without_delta(plan)
    assert found.plan is not None
    # Noise of scale k/ε on one count, on a fine grid.
    assert found.plan.certificate.achieved == pytest.approx(2 * 36, rel=SOLVER)
    assert found.ratio == pytest.approx(72 / plan.certificate.achieved, rel=SOLVER)


@pytest.mark.thorough
def test_targets_that_are_missed_are_said_to_be() -> None:
    """Five tables that overlap everywhere: a standard error of 0.5 with this much δ, more than 1 without."""
    many = ln.Schema(**{f"a{i}": range(2) for i in range(5)})
    asked = [ln.Marginal(name, stderr=0.8) for name in many.names]
    plan = ln.design(ln.assemble(asked, many), ln.ApproxDP(4, 0.5))
    found = design_without_delta(plan, time_limit=2.0)
    assert found.plan is None and found.ratio == math.inf
    (line,) = found.sentences()
    assert line.startswith("Without delta: no method meets the targets; the closest")


def test_there_is_none_without_a_delta_or_a_goal() -> None:
    workload = ln.assemble([ln.Total(stderr=30)], SCHEMA)
    for goal in (ln.PureDP(1), ln.GDP(1), ln.ZCDP(0.5), None):
        with refuses(InputError, "plan", ..., "has a delta to leave out"):
            design_without_delta(ln.design(workload, goal, method="identity"))


def test_settings_are_those_of_the_request() -> None:
    plan = ln.design(ln.assemble([ln.Prefix("age")], SCHEMA), ln.ApproxDP(1, 1e-6), method="dense")
    found = design_without_delta(plan, method="dense")
    assert found.plan is None and "its noise is Gaussian" in found.refusal
    named = design_without_delta(plan, method="identity").plan
    assert named is not None and named.method == "identity"


def test_nothing_asked_costs_nothing_either_way() -> None:
    found = design_without_delta(ln.design(ln.Workload.from_matrix(np.zeros((2, 3))), ln.ApproxDP(1, 1e-6)))
    assert found.plan is not None and found.plan.certificate.achieved == 0
    assert found.ratio == 1
