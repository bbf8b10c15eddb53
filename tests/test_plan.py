"""Plans: what they say by a second route, and files that must not be believed."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.bounds import Witness
from leastnoise.core import container
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError, NotYetError, PlanFileError, PrivacyError, QueryError
from leastnoise.planning import Plan, design, load_plan
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP, delta_of, epsilon_of
from leastnoise.query import (
    AllRanges,
    Bins,
    Linear,
    Marginal,
    Prefix,
    Query,
    Ranges,
    Schema,
    Total,
    Workload,
    assemble,
)
from leastnoise.strategy import Strategy
from support import refuses
from test_container import members, rewritten
from tolerances import ROUNDING

SCHEMA = Schema(age=range(6), sex=("F", "M"), income=Bins([0, 10, 20, 50]))
QUERIES: list[Query] = [
    Total(),
    Marginal("age"),
    Marginal("age", "sex"),
    Prefix("age", weight=2),
    AllRanges("age"),
    Ranges("income", [(0, 20), (10, 50)]),
    Prefix("age") * Marginal("sex"),
    Ranges("age", [(1, 3)]) * Prefix("income") * Marginal("sex"),
    Linear(np.arange(36.0).reshape(1, 36) - 7.25, name="scores"),
]
GOALS: list[Goal] = [GDP(0.5), ApproxDP(1, 1e-6, records_per_person=3), PureDP(0.25, records_per_person=2)]


@cache
def plans() -> list[Plan]:
    """Plans of many kinds, designed when the first test asks for one."""
    rng = np.random.default_rng(1)
    everything = assemble(QUERIES, SCHEMA)
    real = Workload.from_matrix(
        rng.normal(size=(8, 2)) @ rng.normal(size=(2, 5)),
        weights=rng.uniform(0.1, 9, 8),
        labels=[f"row <{j}>" for j in range(8)],
    )
    return [
        *(design(everything, goal) for goal in GOALS),
        design(assemble([Prefix("age"), Total()], SCHEMA), ZCDP(Fraction(1, 3))),
        design(real, GDP(2)),
        design(real, GDP(1e20)),
        design(Workload.from_matrix([[2**61, 1, 0], [0, 3, 5]], schema=Schema(a=range(3))), PureDP(1e-9)),
        design(Workload.from_matrix(np.zeros((2, 3))), GDP(1)),
        design(Workload.from_matrix([[1]]), PureDP(3), method="hierarchical", options={"branching": 4}),
    ]


N_PLANS = 9


@pytest.fixture
def plan(request: pytest.FixtureRequest) -> Plan:
    """One of the plans, by its number."""
    return plans()[request.param]


@pytest.mark.thorough
def test_there_are_wide_integers_among_the_plans() -> None:
    assert len(plans()) == N_PLANS
    assert any(plan.strategy.entries.dtype == object for plan in plans())


# Accuracy ------------------------------------------------------------------------------------


def variance_by_hand(plan: Plan, W: Any) -> Any:
    A = plan.strategy.entries.astype(float)
    G = W @ np.linalg.pinv(A, rcond=1e-11)
    unit = 2 if plan.strategy.noise == "laplace" else 1
    # At scales of 2^27 and more, the grid adds less than a part in 1e15.
    return (G**2).sum(axis=1) * float(unit * plan.strategy.scale**2)


@pytest.mark.parametrize("plan", range(N_PLANS), indirect=True)
def test_standard_errors_by_dense_linear_algebra(plan: Plan) -> None:
    expected = np.sqrt(variance_by_hand(plan, plan.workload.dense()))
    np.testing.assert_allclose(plan.stderr, expected, rtol=1e-8)
    total = plan.workload.weights @ plan.stderr**2
    assert plan.certificate.achieved == pytest.approx(total, rel=1e-8)
    if expected.any():
        assert not np.allclose(plan.stderr * 1.001, expected, rtol=1e-8, atol=0)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.title())
@pytest.mark.parametrize("plan", range(3), indirect=True)
def test_variance_of_every_kind_of_query(plan: Plan, query: Query) -> None:
    W = query.operator(SCHEMA).dense()
    found = plan.variance(query)
    np.testing.assert_allclose(found, variance_by_hand(plan, W), rtol=1e-8)
    assert (found >= 0).all()


def test_a_query_outside_the_row_space_is_refused_by_name() -> None:
    plan = plans()[3]
    assert plan.variance(Ranges("age", [(2, 4)])) > 0
    with refuses(QueryError, "query", "sex M"):
        plan.variance(Linear(np.vstack([np.ones(36), np.tile([0, 0, 0, 1, 1, 1], 6)]), ["all", "sex M"]))
    with refuses(QueryError, "query", "sex F"):
        plan.variance(Marginal("sex"))


def test_further_queries_need_a_schema_and_a_query() -> None:
    with refuses(QueryError, "query", Total):
        plans()[4].variance(Total())
    for query in ("Total", None, [Total()]):
        with refuses(QueryError, "query"):
            plans()[0].variance(query)  # type: ignore[arg-type]


# Privacy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", range(N_PLANS), indirect=True)
def test_what_is_spent_is_rounded_towards_more_and_what_is_left_towards_less(plan: Plan) -> None:
    k = plan.privacy.records_per_person
    is_laplace = plan.strategy.noise == "laplace"
    budget = plan.privacy.epsilon_per_record if is_laplace else plan.privacy.mu_squared
    assert budget is not None
    for spent, shown, spare in zip(plan.strategy.spent_per_cell, plan.profile, plan.spare, strict=True):
        assert spent <= Fraction(shown) and spent + Fraction(spare) <= budget
        assert Fraction(spare) >= (budget - spent) * (1 - Fraction(1, 2**50)) and spare >= 0
    person = plan.strategy.spent * (k if is_laplace else k * k)
    assert plan.spent_per_person == person <= budget * (k if is_laplace else k * k)
    if is_laplace:
        assert plan.mu is None and Fraction(plan.epsilon()) >= person
        assert plan.epsilon() == plan.epsilon(delta=1e-9) == pytest.approx(float(person), rel=ROUNDING)
        assert plan.delta(epsilon=plan.epsilon()) == 0
        assert person == 0 or math.nextafter(plan.epsilon(), 0) < person
    else:
        assert plan.mu is not None and Fraction(plan.mu) ** 2 >= person
        assert plan.mu == 0 or Fraction(math.nextafter(plan.mu, 0)) ** 2 < person
        if plan.mu < 100:
            assert plan.epsilon(delta=1e-6) == epsilon_of(person, 1e-6)
            assert plan.delta(epsilon=1.0) == delta_of(person, 1.0)


def test_a_plan_keeps_the_goal_it_was_made_for() -> None:
    plan = plans()[1]
    assert isinstance(plan.privacy, ApproxDP)
    assert plan.epsilon(delta=1e-6) <= 1 and plan.delta(epsilon=1) <= 1e-6
    assert plan.epsilon(delta=1e-6) == pytest.approx(1, rel=1e-6)
    assert plans()[2].epsilon() == pytest.approx(0.25, rel=1e-6) and plans()[2].epsilon() <= 0.25


def test_curves_need_what_they_need() -> None:
    with refuses(PrivacyError, "delta", ..., "an epsilon for every delta; ask plan.epsilon(delta=1e-6)"):
        plans()[0].epsilon()
    with refuses(NotYetError, "epsilon", 0.1):
        plans()[2].delta(epsilon=0.1)
    for plan in (plans()[0], plans()[2]):
        for epsilon in (math.nan, math.inf, "1", None):
            with refuses(PrivacyError, "epsilon", ..., "epsilon must be"):
                plan.delta(epsilon=epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("plan", range(N_PLANS), indirect=True)
def test_no_plan_can_be_put_together_that_overspends(plan: Plan) -> None:
    if plan.strategy.scale == 1:
        return
    less = Strategy(plan.strategy.entries, scale=plan.strategy.scale - 1, noise=plan.strategy.noise)
    with refuses(PrivacyError, "privacy", ..., "the strategy spends more than the privacy"):
        dataclasses.replace(plan, strategy=less)
    more = Strategy(plan.strategy.entries, scale=plan.strategy.scale + 1, noise=plan.strategy.noise)
    assert dataclasses.replace(plan, strategy=more).strategy.spent < plan.strategy.spent


def test_noise_neighbours_and_cells_must_fit_the_goal() -> None:
    with refuses(PrivacyError, "privacy", ..., "gaussian noise cannot meet the goal 1-DP"):
        dataclasses.replace(plans()[0], privacy=PureDP(1))
    with refuses(PrivacyError, "privacy", ..., "laplace noise cannot meet the goal 1-GDP"):
        dataclasses.replace(plans()[2], privacy=GDP(1))
    # Replacing one record changes two columns: the sensitivity of add-remove proves nothing about it.
    with refuses(PrivacyError, "neighbours", "replace-one"):
        dataclasses.replace(plans()[0], privacy=GDP(100, neighbours="replace-one"))
    with refuses(DesignError, "strategy", 36, "measures 36 cells; this workload has 1"):
        dataclasses.replace(plans()[0], workload=Workload.from_matrix([[1]]))


# Text ----------------------------------------------------------------------------------------


def test_a_plan_explains_itself() -> None:
    plan = design(assemble([Prefix("a"), Total()], Schema(a=range(4))), ApproxDP(epsilon=1, delta=1e-6))
    assert repr(plan) == "Plan(dense, 5 queries over 4 cells, (1, 1e-06)-DP, adding or removing one record)"
    text = str(plan)
    for words in (
        "Plan for 5 queries over 4 cells",
        plan.privacy.statement(),
        f"method       dense: {plan.note}",
        "search       converged",
        "measured     4 integer rows with gaussian noise",
        f"certificate  {plan.certificate}",
        f"a up to  {plan.stderr[:4].min():.3g} to {plan.stderr[:4].max():.3g}   (4 queries)",
        f"total    {plan.stderr[4]:.3g}   (1 ",
    ):
        assert words in text, text
    assert all(str(other) for other in plans())
    assert plan.factor is None


# Files ---------------------------------------------------------------------------------------


def is_same(one: Plan, other: Plan) -> bool:
    return (
        one.workload.digest == other.workload.digest
        and one.privacy == other.privacy
        and (one.method, one.claim, one.tol, one.note) == (other.method, other.claim, other.tol, other.note)
        and dict(one.options) == dict(other.options)
        and one.ended == other.ended
        and one.objective == other.objective
        and one.strategy.entries.dtype == other.strategy.entries.dtype
        and one.strategy.entries.tolist() == other.strategy.entries.tolist()
        and (one.strategy.scale, one.strategy.noise) == (other.strategy.scale, other.strategy.noise)
        and one.witness.q.tolist() == other.witness.q.tolist()
        and list(one.workload.labels) == list(other.workload.labels)
        and one.workload.weights.tolist() == other.workload.weights.tolist()
    )


@pytest.mark.parametrize("plan", range(N_PLANS), indirect=True)
def test_a_plan_comes_back_from_its_file(plan: Plan, tmp_path: Path) -> None:
    path = plan.save(tmp_path / "plan.bin")
    loaded = load_plan(path)
    assert path == tmp_path / "plan.bin" and is_same(plan, loaded)
    assert loaded.stderr.tolist() == plan.stderr.tolist()
    assert loaded.certificate.achieved == plan.certificate.achieved
    assert str(loaded) == str(plan)
    assert not is_same(plan, dataclasses.replace(plan, tol=plan.tol * 2))
    assert not is_same(plan, dataclasses.replace(plan, witness=Witness(None, plan.witness.q + 1)))


def tampered(plan: Plan, path: Path, content: dict[str, Any] | None = None, **arrays: Any) -> Path:
    """A plan's file with some of its content or arrays changed and the digest made right."""
    plan.save(path)
    parts = members(path)
    body = json.loads(parts["content.json"]) | (content or {})
    parts["content.json"] = json.dumps(body).encode()
    for name, array in arrays.items():
        parts[f"{name}.npy"] = container._npy(array)
    return rewritten(path, parts)


def test_a_file_changed_within_its_goal_is_read(tmp_path: Path) -> None:
    """The twin of the refusals below: an honest change with a right digest is a plan."""
    plan = plans()[3]
    more = tampered(plan, tmp_path / "p", {"scale": str(plan.strategy.scale * 2)})
    assert load_plan(more).strategy.scale == plan.strategy.scale * 2


def test_rows_that_cost_more_are_refused(tmp_path: Path) -> None:
    for plan in (plans()[0], plans()[2], plans()[6]):
        costs = plan.strategy.column_costs
        rows = plan.strategy.entries.astype(object)
        column = costs.index(max(costs))
        row = int(np.argmax(np.abs(rows[:, column])))
        rows[row, column] += 1 if rows[row, column] > 0 else -1
        for changed in (rows, plan.strategy.entries.astype(object) * 2, np.vstack([rows, rows])):
            path = tampered(plan, tmp_path / "p", rows=exact.to_limbs(exact.as_integers(changed)))
            with refuses(PlanFileError, "plan", "p", "not a valid plan: the strategy spends more than"):
                load_plan(path)


def test_entries_that_would_wrap_are_refused(tmp_path: Path) -> None:
    """2^32 squared is 0 modulo 2^64: an int64 sum would call it free."""
    plan = plans()[0]
    rows = np.full((*plan.strategy.shape, 1), 2**32)
    with refuses(PlanFileError, "plan", "p", "spends more than the privacy goal allows"):
        load_plan(tampered(plan, tmp_path / "p", rows=rows))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"scale": "1"}, "spends more than the privacy goal allows"),
        ({"scale": "0"}, "noise scale or tolerance that is not positive"),
        ({"scale": "-5"}, "noise scale or tolerance that is not positive"),
        ({"scale": "many"}, "its content is not what design"),
        ({"scale": "9" * 5000}, "its content is not what design"),
        ({"scale": None}, "its content is not what design"),
        ({"tol": 0}, "noise scale or tolerance that is not positive"),
        ({"tol": math.inf}, "noise scale or tolerance that is not positive"),
        ({"tol": math.nan}, "noise scale or tolerance that is not positive"),
        ({"noise": "laplace"}, "laplace noise cannot meet the goal"),
        ({"noise": "none"}, "is not a plan that this version can read"),
        ({"claim": "optimal"}, "is not a plan that this version can read"),
        ({"tried": [{"name": "dense", "outcome": "won"}]}, "the tried of a plan must be a tuple of Trial"),
        ({"tried": [{"name": "dense", "outcome": "kept", "achieved": "1"}]}, "must be a tuple of Trial"),
        ({"tried": [{"by": "dense"}]}, "its content is not what design"),
        ({"format": 2}, "was saved by another version of leastnoise; design it again"),
        ({"privacy": {"goal": "GDP", "mu": 1e-9}}, "spends more than the privacy goal allows"),
        ({"privacy": {"goal": "GDP", "mu": -1}}, "is not a valid plan: mu must be positive"),
        (
            {"privacy": {"goal": "GDP", "mu": 0.5, "neighbours": "replace-one"}},
            "spends more than the privacy goal",
        ),
        (
            {"privacy": {"goal": "GDP", "mu": 0.5, "records_per_person": 2}},
            "spends more than the privacy goal",
        ),
        ({"privacy": {"goal": "PureDP", "epsilon": 1}}, "gaussian noise cannot meet the goal"),
        ({"privacy": []}, "is not a valid plan"),
        ({"workload": {}}, "its content is not what design"),
        ({"workload": {"schema": [["a", ["x"]]], "queries": [{"kind": "total"}]}}, "arrays that do not fit"),
        ({"options": 3}, "its content is not what design"),
    ],
)
def test_every_kind_of_changed_content_is_refused(
    content: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with refuses(PlanFileError, "plan", "p", words):
        load_plan(tampered(plans()[0], tmp_path / "p", content))


@pytest.mark.parametrize(
    "missing", ["format", "workload", "privacy", "noise", "scale", "claim", "tol", "note"]
)
def test_missing_content_is_refused(missing: str, tmp_path: Path) -> None:
    plans()[0].save(tmp_path / "p")
    parts = members(tmp_path / "p")
    body = json.loads(parts["content.json"])
    del body[missing]
    parts["content.json"] = json.dumps(body).encode()
    with refuses(PlanFileError, "plan", "p", "its content is not what design"):
        load_plan(rewritten(tmp_path / "p", parts))


def odd_arrays() -> list[dict[str, Any]]:
    rows = exact.to_limbs(plans()[0].strategy.entries)
    q = plans()[0].witness.q
    return [
        {"q": q[:-1]},
        {"q": -q},
        {"q": np.full_like(q, np.nan)},
        {"q": np.full_like(q, np.inf)},
        {"rows": rows[:, :-1]},
        {"rows": rows[:, :, 0]},
        {"rows": rows.astype(float)},
        {"rows": rows[:, :, :0]},
        {"rows": rows[:, :0]},
        {"rows": rows[:0]},
        {"rows": rows[:-1]},
        {"rows": rows * 0},
    ]


@pytest.mark.parametrize("i", range(12))
def test_arrays_that_do_not_fit_are_refused(i: int, tmp_path: Path) -> None:
    """A strategy without its rows used to load, and promised standard errors of zero."""
    arrays = odd_arrays()[i]
    with pytest.raises(
        PlanFileError, match=r"arrays that do not fit|not what design|cannot answer its queries"
    ):
        load_plan(tampered(plans()[0], tmp_path / "p", **arrays))


def test_a_missing_array_is_refused(tmp_path: Path) -> None:
    plans()[0].save(tmp_path / "p")
    for name in ("rows.npy", "q.npy"):
        parts = members(tmp_path / "p")
        del parts[name]
        with refuses(PlanFileError, "plan", "copy", "its content is not what design"):
            load_plan(rewritten(tmp_path / "copy", parts))


def test_a_matrix_that_claims_a_trillion_rows_is_refused(tmp_path: Path) -> None:
    matrix = {"shape": [10**13, 36], "rows": [0], "columns": [0], "values": [1]}
    workload = {
        "schema": None,
        "queries": [{"kind": "linear", "matrix": matrix}],
        "weights": [1],
        "targets": [None],
    }
    with refuses(PlanFileError, "plan", "p", "is not a valid plan"):
        load_plan(tampered(plans()[0], tmp_path / "p", {"workload": workload}))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with refuses(PlanFileError, "path", ..., "there is no file"):
        load_plan(tmp_path / "none")
    container.write(tmp_path / "other", "release", {}, {})
    with refuses(PlanFileError, "path", "other"):
        load_plan(tmp_path / "other")


def test_three_hundred_flipped_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    plan = plans()[3]
    data = plan.save(tmp_path / "p").read_bytes()
    refused = 0
    for at in rng.choice(len(data), 300, replace=False):
        other = bytearray(data)
        other[at] ^= int(rng.integers(1, 256))
        (tmp_path / "flipped").write_bytes(other)
        try:
            loaded = load_plan(tmp_path / "flipped")
        except PlanFileError:
            refused += 1
        else:
            assert is_same(plan, loaded)
    assert refused > 200


def test_a_failed_save_leaves_the_old_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plans()[0].save(tmp_path / "p")

    def fails(*given: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        plans()[1].save(path)
    assert [found.name for found in tmp_path.iterdir()] == ["p"]
    assert is_same(load_plan(path), plans()[0])
