"""Plans are checked field by field, and come back from a file as they were, on the smallest tables too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import DesignError, LeastnoiseError, MethodError
from leastnoise.planning import all_methods
from support import refuses

PLAN = ln.design(ln.assemble([ln.Prefix("a")], ln.Schema(a=range(4))), ln.GDP(1))

# Fields and what they must not be.
WRONG: dict[str, tuple[Any, ...]] = {
    "workload": (None, [[1]], PLAN),
    "privacy": (None, 1.0, ln.GDP),
    "objective": (None, "total", ln.MaxVariance),
    "strategy": (np.eye(4), "rows"),
    "witness": (None, np.ones(4), PLAN.certificate),
    "claim": ("proved by God", "", "Optimal", None, 1, ["stopped"]),
    "tol": (0.0, -1e-6, float("nan"), float("inf"), "1e-6", None, True),
    "note": (None, b"dense", 3),
    "options": (None, ["refine"], {1: 2}, "refine"),
    "has_goal": (None, 1, "yes"),
    "mechanism": ("dawa",),
    "after": (None, ["a"], "a", (1,)),
    "used": ((1, 2), 0),
    "ended": ("finished", "", 1, ["converged"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_field_that_is_none_of_its_kind_is_refused(name: str) -> None:
    """Plan(claim="proved by God") was a plan."""
    for value in WRONG[name]:
        with pytest.raises(DesignError, match=f"the {name} of a plan must be"):
            replace(PLAN, **{name: value})


def test_a_method_that_there_is_not_is_refused() -> None:
    with refuses(MethodError, "method", "luck", "there is no method 'luck'"):
        replace(PLAN, method="luck")
    with refuses(DesignError, "method", "None", "the method of a plan must be str"):
        replace(PLAN, method=None)  # type: ignore[arg-type]


# Files -----------------------------------------------------------------------------------------

ONE_CELL, ONE_OF_THREE = ln.Schema(a=range(1)), ln.Schema(a=range(1), b=range(3))
ONE_EACH = ln.Schema(a=range(1), b=("x",), c=range(1))

SMALLEST: dict[str, tuple[Any, ...]] = {
    "one cell, its total": (ONE_CELL, ln.Total()),
    "one cell, one query": (ONE_CELL, ln.Marginal("a")),
    "one cell, three queries": (ONE_CELL, ln.Marginal("a"), ln.Total(), ln.Prefix("a")),
    "attributes of one value": (ONE_EACH, ln.Marginal("a", "b"), ln.Total(), ln.Marginal("c")),
    "a product of one value each": (ONE_EACH, ln.Marginal("a", "b") * ln.Prefix("c")),
    "one value beside three": (ONE_OF_THREE, ln.Marginal("a", "b"), ln.Prefix("b"), ln.Total()),
    "one query over three cells": (ONE_OF_THREE, ln.Total()),
    "two cells": (ln.Schema(a=range(2)), ln.Marginal("a")),
}
GOALS = (
    ln.ApproxDP(1, 1e-6, neighbours="replace-one"),
    ln.PureDP(1, neighbours="replace-one"),
    ln.PureDP(1),
    ln.ZCDP(0.5, records_per_person=3),
)
OBJECTIVES = (
    ln.TotalVariance(),
    ln.MaxVariance(),
    ln.Targets(),
    ln.TotalVariance(within_targets=True),
)

# An option or two where the default takes long, so that many plans can be tried.
OPTIONS: dict[str, dict[str, Any]] = {
    "p-identity": {"starts": 1, "iterations": 20},
    "lowrank": {"max_iterations": 20},
}


def plans(schema: ln.Schema, *queries: Any, stderr: float) -> Iterator[ln.Plan]:
    """What every method makes of some queries, whatever it accepts of goals and objectives."""
    plain = ln.assemble(queries, schema)
    targets = ln.assemble([query.having(stderr=stderr) for query in queries], schema)
    for goal in GOALS:
        for objective in OBJECTIVES:
            workload = targets if objective in OBJECTIVES[2:] else plain
            for method in all_methods():
                # CVXPY takes a second for any problem.
                if method.name == "sdp":
                    continue
                try:
                    yield ln.design(
                        workload,
                        goal,
                        objective=objective,
                        method=method.name,
                        options=OPTIONS.get(method.name, {}),
                    )
                except LeastnoiseError:
                    continue


def check_same(plan: ln.Plan, path: Path) -> None:
    again = ln.load_plan(plan.save(path))
    assert again.digest == plan.digest and str(again) == str(plan), plan
    assert again.ended == plan.ended and again.factor == plan.factor
    if plan.strategy is not None:
        assert again.certificate.achieved == plan.certificate.achieved, plan
        assert again.certificate.lower_bound == plan.certificate.lower_bound
        assert np.array_equal(again.known_stderr(), plan.known_stderr())
        assert again.spent_per_person == plan.spent_per_person


@pytest.mark.thorough
@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_plans_come_back(name: str, tmp_path: Path) -> None:
    """A plan of one cell by residuals or marginals could be saved, and not be read."""
    seen = set()
    for plan in plans(*SMALLEST[name], stderr=50.0):
        check_same(plan, tmp_path / "a.plan")
        seen.add(plan.method)
    assert {"dense", "residuals", "identity", "dawa"} <= seen
    assert ("marginals" in seen) == (name != "one value beside three")


def random_request(rng: np.random.Generator) -> tuple[Any, ...]:
    """A schema of one to three attributes, some of them of one value, and one to three queries."""
    names = rng.permutation(["c", "a", "b"])[: rng.integers(1, 4)].tolist()
    schema = ln.Schema(**{name: range(int(rng.integers(1, 4))) for name in names})

    def part(name: str) -> Any:
        return [ln.Prefix, ln.Marginal, ln.AllRanges][int(rng.integers(3))](name)

    queries = []
    for _ in range(int(rng.integers(1, 4))):
        first, *others = rng.permutation(names)[: rng.integers(1, len(names) + 1)].tolist()
        query = part(first)
        for name in others:
            query = query * part(name)
        queries.append(query)
    return (schema, *queries)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_random_plans_come_back(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    count = 0
    for plan in plans(*random_request(rng), stderr=50.0):
        check_same(plan, tmp_path / "a.plan")
        count += 1
    assert count > 50
