"""Choosing the noise: which method is taken, what is refused, and what changes the optimum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from leastnoise.design import compare, design, methods
from leastnoise.errors import DesignError, InputError, MethodError, NotYetError
from leastnoise.objective import TotalVariance
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP
from leastnoise.progress import Progress
from leastnoise.queries import AllRanges, Linear, Marginal, Prefix, Total
from leastnoise.schema import Schema
from leastnoise.strategies import METHODS
from leastnoise.workload import Workload, assemble
from support import extra
from tolerances import ROUNDING, SOLVER

AGES = Schema(age=range(10))
PREFIX = assemble([Prefix("age")], AGES)


def cost(W: Any, weights: Any = None, goal: Goal = GDP(1)) -> float:  # noqa: B008 - a frozen value
    found = design(Workload.from_matrix(W, weights=weights), goal).certificate
    assert found.status == "optimal"
    return found.achieved


# Choice --------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", [GDP(1), ZCDP(0.1), ApproxDP(1, 1e-9)], ids=str)
def test_gaussian_goals_get_the_certified_optimum(goal: Goal) -> None:
    plan = design(PREFIX, goal)
    assert plan.method == "dense" and plan.certificate.status == "optimal"
    assert plan.certificate.gap <= SOLVER and plan.objective == TotalVariance()


def test_pure_privacy_gets_the_best_of_all() -> None:
    cases = {
        "workload": assemble([Total()], AGES),
        "identity": assemble([Marginal("age")], AGES),
        "wavelet": assemble([Prefix("age")], Schema(age=range(512))),
    }
    for name, workload in cases.items():
        plan = design(workload, PureDP(1))
        others = compare(workload, PureDP(1))
        assert plan.certificate.achieved == pytest.approx(others.contenders[0].achieved, rel=ROUNDING)
        assert all(
            c.achieved is None or plan.certificate.achieved <= c.achieved * (1 + ROUNDING)
            for c in others.contenders
        )
        assert plan.method == name
        assert plan.strategy.noise == "laplace"


def test_a_method_asked_for_is_used() -> None:
    for method in METHODS:
        assert design(PREFIX, GDP(1), method=method.name).method == method.name


def test_no_method_for_too_many_cells() -> None:
    huge = assemble([Marginal("a", "b")], Schema(a=range(10**6), b=range(10**6)))
    with pytest.raises(
        MethodError, match=r"no method can serve this workload. dense: it holds at most 20,000"
    ):
        design(huge, GDP(1))
    with pytest.raises(MethodError, match=r"'dense' cannot do this: .*; no method can"):
        design(huge, GDP(1), method="dense")


# Refusals ------------------------------------------------------------------------------------


def test_wrong_types_are_refused_by_name() -> None:
    for given in (None, np.eye(2), [Total()], "prefix"):
        with pytest.raises(InputError, match=r"design\(\) needs a Workload from assemble\(\), got"):
            design(given, GDP(1))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"design\(\) needs a privacy goal, as in design\(workload, Approx"):
        design(PREFIX)
    for goal in (1.0, "GDP", GDP):
        with pytest.raises(InputError, match="privacy must be PureDP, ApproxDP, ZCDP or GDP, got"):
            design(PREFIX, goal)  # type: ignore[arg-type]


@pytest.mark.parametrize("tol", [0, -1e-6, math.nan, math.inf])
def test_tolerances_that_mean_nothing_are_refused(tol: float) -> None:
    with pytest.raises(InputError, match="tol must be a positive number, got"):
        design(PREFIX, GDP(1), tol=tol)


@pytest.mark.parametrize("limit", [0, -1, math.nan])
def test_time_limits_that_mean_nothing_are_refused(limit: float) -> None:
    with pytest.raises(InputError, match="time_limit must be a positive number of seconds, got"):
        design(PREFIX, GDP(1), time_limit=limit)


def test_what_is_not_there_yet_says_so() -> None:
    with pytest.raises(NotYetError, match="after= is not available yet; design one plan for all queries"):
        design(PREFIX, GDP(1), after=[design(PREFIX, GDP(1))])
    with pytest.raises(NotYetError, match="data= serves data-dependent methods, and none is available yet"):
        compare(PREFIX, GDP(1), data=[1])
    with pytest.raises(NotYetError, match=r"objective must be TotalVariance\(\), got 'max'"):
        design(PREFIX, GDP(1), objective="max")  # type: ignore[arg-type]


def test_targets_are_not_ignored_silently() -> None:
    for workload in (
        assemble([Prefix("age", stderr=5)], AGES),
        assemble([Prefix("age", within=(10, 0.95)), Total()], AGES),
        Workload.from_matrix(np.eye(3), stderr=[1, np.inf, 2]),
    ):
        with pytest.raises(
            NotYetError, match=r"cannot design for them yet; pass objective=TotalVariance\(\)"
        ):
            design(workload, GDP(1))
        with pytest.raises(NotYetError, match="cannot design for them yet"):
            compare(workload, GDP(1))
        assert design(workload, GDP(1), objective=TotalVariance()).certificate.status == "optimal"


def test_unknown_backends_are_refused() -> None:
    with pytest.raises(InputError, match="backend must be one of numpy, torch, cuda, got 'jax'"):
        design(PREFIX, GDP(1), backend="jax")


def test_backends_agree() -> None:
    extra("torch")
    here, there = (design(PREFIX, GDP(1), backend=name).certificate for name in ("numpy", "torch"))
    assert there.status == "optimal"
    assert there.achieved == pytest.approx(here.achieved, rel=2 * SOLVER)


# Time ----------------------------------------------------------------------------------------


def test_a_tiny_time_limit_gives_a_plan_that_admits_it() -> None:
    weights = np.linspace(1, 30, 40) ** 4
    workload = Workload.from_matrix(np.tril(np.ones((40, 40))), weights=weights)
    seen: list[Progress] = []
    plan = design(workload, GDP(1), tol=1e-9, time_limit=1e-9, progress=seen.append)
    assert plan.certificate.status == "stopped" and plan.certificate.gap > 1e-9
    assert plan.note.endswith("stopped early") and len(seen) == 1
    assert plan.strategy.spent <= 1
    full = design(workload, GDP(1))
    assert full.certificate.status == "optimal" and "stopped" not in full.note
    assert (
        plan.certificate.lower_bound <= full.certificate.achieved <= plan.certificate.achieved * (1 + SOLVER)
    )


def test_progress_shrinks_the_gap() -> None:
    seen: list[Progress] = []
    design(assemble([AllRanges("age")], AGES), GDP(1), tol=1e-9, progress=seen.append)
    gaps = [p.gap for p in seen]
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] <= 1e-9


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-7])
def test_the_tolerance_asked_for_is_reached(tol: float) -> None:
    found = design(assemble([AllRanges("age")], Schema(age=range(50))), GDP(1), tol=tol).certificate
    assert found.status == "optimal" and found.gap <= tol


# What changes the optimum --------------------------------------------------------------------


def test_heavier_queries_get_less_noise() -> None:
    W = np.tril(np.ones((6, 6)))
    even = design(Workload.from_matrix(W), GDP(1))
    for j in range(6):
        weights = np.ones(6)
        weights[j] = 25
        plan = design(Workload.from_matrix(W, weights=weights), GDP(1))
        assert plan.stderr[j] < even.stderr[j]
        assert np.delete(plan.stderr, j).max() > np.delete(even.stderr, j).max() * (1 - SOLVER)
        assert weights @ plan.stderr**2 < weights @ even.stderr**2


def test_weights_count_as_repetitions() -> None:
    rng = np.random.default_rng(1)
    W = rng.integers(-2, 3, (4, 5))
    repeated = np.repeat(W, [1, 2, 3, 4], axis=0)
    assert cost(W, [1, 2, 3, 4]) == pytest.approx(cost(repeated), rel=2 * SOLVER)
    assert cost(W, [1, 2, 3, 5]) > cost(repeated) * (1 + 10 * SOLVER)


def test_duplicate_rows_are_charged_once() -> None:
    for rows in ([[1, 1, 0]], [[1, 0, 0], [0, 2, 1]]):
        once = design(Workload.from_matrix(rows), GDP(1))
        thrice = design(Workload.from_matrix(rows * 3), GDP(1))
        assert thrice.strategy.spent <= 1
        np.testing.assert_allclose(thrice.stderr, np.tile(once.stderr, 3), rtol=1e-3)
        assert thrice.certificate.achieved == pytest.approx(3 * once.certificate.achieved, rel=2 * SOLVER)


def test_a_zero_workload_costs_nothing() -> None:
    for method in ("auto", "dense", "workload"):
        plan = design(Workload.from_matrix(np.zeros((2, 3))), GDP(1), method=method)
        assert plan.strategy.spent == 0 and plan.mu == 0 and plan.stderr.tolist() == [0, 0]
        assert (plan.certificate.achieved, plan.certificate.gap) == (0, 0)
        assert plan.delta(epsilon=1.0) == 0 and plan.epsilon(delta=1e-9) == 0
    pure = design(Workload.from_matrix(np.zeros((2, 3))), PureDP(1))
    assert pure.certificate.achieved == 0


def test_zero_rows_among_others_are_answered_exactly() -> None:
    plan = design(Workload.from_matrix([[0, 0], [1, 2], [0, 0]]), GDP(1))
    assert plan.stderr[[0, 2]].tolist() == [0, 0] and plan.stderr[1] == pytest.approx(2, rel=SOLVER)


def test_one_cell_and_one_query() -> None:
    assert cost([[1]]) == pytest.approx(1, rel=SOLVER)
    assert cost([[-3.5]]) == pytest.approx(12.25, rel=SOLVER)
    assert cost([[2], [-1], [0.5]]) == pytest.approx(5.25, rel=SOLVER)
    assert cost([[0.1, -7.0, 3.0]]) == pytest.approx(49, rel=SOLVER)
    assert cost(np.ones((1, 30))) == pytest.approx(1, rel=SOLVER)


def test_signs_order_and_units_of_rows_and_cells_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        W = rng.normal(size=(5, 4))
        base = cost(W)
        turned = (
            rng.choice([-1, 1], (5, 1))
            * W[rng.permutation(5)][:, rng.permutation(4)]
            * rng.choice([-1, 1], 4)
        )
        assert cost(turned) == pytest.approx(base, rel=2 * SOLVER)
        assert cost(W * 1e8) == pytest.approx(base * 1e16, rel=2 * SOLVER)


@pytest.mark.parametrize("mu", [1e-12, 1e-3, 1.0, 20.0, 140.0, 1e4, 1e12])
def test_the_optimum_is_reached_at_every_privacy(mu: float) -> None:
    """At mu = 10,000 the noise scale had so few grid steps that rounding it cost 2e-5."""
    found = design(PREFIX, GDP(mu)).certificate
    base = design(PREFIX, GDP(1)).certificate
    assert found.status == "optimal"
    assert found.achieved * mu**2 == pytest.approx(base.achieved, rel=SOLVER)


def test_records_per_person_scale_the_noise() -> None:
    once = design(PREFIX, GDP(1)).certificate.achieved
    assert design(PREFIX, GDP(1, records_per_person=3)).certificate.achieved == pytest.approx(
        9 * once, rel=SOLVER
    )
    pure = design(PREFIX, PureDP(1)).certificate.achieved
    thrice = design(PREFIX, PureDP(1, records_per_person=3)).certificate.achieved
    assert thrice == pytest.approx(9 * pure, rel=SOLVER)


def test_awkward_random_workloads() -> None:
    """Every one is designed within its budget, or refused with a reason."""
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(150):
        m, n = rng.integers(1, 9, 2)
        W = rng.normal(size=(m, n)) * (rng.random((m, n)) < rng.choice([0.3, 0.7, 1.0]))
        W *= 10.0 ** (rng.choice([0, 2, 8]) * rng.normal(size=(m, 1)))
        if rng.random() < 0.5:
            W = np.vstack([W, W[rng.integers(m, size=3)] * (1 + 1e-15)])
        if rng.random() < 0.3:
            W = np.rint(W % 1000)
        weights = 10.0 ** (rng.choice([0, 1, 3]) * rng.normal(size=len(W)))
        try:
            plan = design(Workload.from_matrix(W, weights=weights), GDP(1))
        except DesignError as error:
            if "scales are too far apart" not in str(error):
                raise
            refused += 1
            continue
        assert plan.strategy.spent <= 1
        assert plan.certificate.lower_bound <= plan.certificate.achieved
        assert plan.certificate.gap <= 100 * SOLVER, (W, plan.certificate)
        assert np.isfinite(plan.stderr).all()
    assert refused < 75


def test_the_callers_matrix_may_change_afterwards() -> None:
    W = np.eye(3)
    workload = Workload.from_matrix(W)
    plan = design(workload, GDP(1))
    W[:] = 7
    assert plan.certificate.achieved == pytest.approx(3, rel=SOLVER)


# Tables --------------------------------------------------------------------------------------


def test_comparison_is_sorted_and_prints_as_a_table() -> None:
    workload = assemble([Prefix("age"), Linear(np.full((1, 10), 0.5))], AGES)
    table = compare(workload, GDP(1))
    achieved = [c.achieved for c in table.contenders if c.achieved is not None]
    assert achieved == sorted(achieved) and table.contenders[0].method == "dense"
    assert {c.method for c in table.contenders} == {m.name for m in METHODS}
    assert table.contenders[-1].method == "workload" and "whole numbers" in str(table.contenders[-1].reason)
    assert all(table.lower_bound <= value for value in achieved)
    for c in table.contenders[:-1]:
        assert c.gap == pytest.approx(c.achieved / table.lower_bound - 1, rel=ROUNDING)  # type: ignore[operator]
        assert c.rms_stderr == pytest.approx(math.sqrt(c.achieved / 11), rel=ROUNDING)  # type: ignore[operator]
    lines = str(table).splitlines()
    head = ["method", "total variance", "above the bound", "rms std. error", "seconds"]
    assert [word.strip() for word in lines[0].split("  ") if word.strip()] == head
    assert [line.split()[0] for line in lines[1:-1]] == [c.method for c in table.contenders]
    assert lines[-2].startswith("workload      left out: it measures the queries themselves")
    assert (
        lines[-1] == f"No Gaussian noise within this goal has a total variance below {table.lower_bound:.6g}."
    )
    assert repr(table) == str(table)
    assert table.to_frame()["method"].tolist() == [c.method for c in table.contenders]


def test_comparison_of_some_methods_and_of_nothing() -> None:
    table = compare(PREFIX, PureDP(1), methods=["dense", "wavelet", "identity"])
    assert [c.method for c in table.contenders][-1] == "dense"
    assert "pure privacy" in str(table.contenders[-1].reason)
    with pytest.raises(MethodError, match="there is no method 'magic'"):
        compare(PREFIX, GDP(1), methods=["magic"])
    zero = compare(Workload.from_matrix(np.zeros((1, 2))), GDP(1))
    assert all(c.achieved == 0 and c.gap == 0 for c in zero.contenders) and zero.lower_bound == 0


def test_methods_prints_every_method_and_option() -> None:
    text = str(methods())
    assert repr(methods()) == text
    for method in METHODS:
        assert f"{method.name:<12}  {method.summary}" in text
        for name, (default, meaning) in method.options.items():
            assert f"option {name} = {default!r}: {meaning}" in text
