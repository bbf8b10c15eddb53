"""Choosing the noise: which method is taken, what is refused, and what changes the optimum."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leastnoise.core import resources
from leastnoise.core.errors import DesignError, InfeasibleError, InputError, MethodError
from leastnoise.core.progress import Progress
from leastnoise.planning import (
    Method,
    Request,
    all_methods,
    choice,
    design,
    load_plan,
    method_list,
    method_named,
    one_method,
    trials,
)
from leastnoise.planning.families import dense
from leastnoise.privacy import GDP, ZCDP, ApproxDP, Goal, PureDP
from leastnoise.query import (
    AllRanges,
    Marginal,
    Prefix,
    Schema,
    Total,
    TotalVariance,
    Workload,
    assemble,
)
from support import extra, refuses
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


@pytest.mark.thorough
def test_pure_privacy_gets_at_least_the_best_of_the_quick_methods() -> None:
    for workload in (
        assemble([Total()], AGES),
        assemble([Marginal("age")], AGES),
        assemble([Prefix("age"), Total(weight=30)], AGES),
    ):
        plan = design(workload, PureDP(1))
        request = Request(workload, PureDP(1))
        tried = [m for m in all_methods() if m.is_quick and not m.is_only_named]
        quick = [m.name for m in tried if m.refuses(request) is None]
        achieved = [design(workload, PureDP(1), method=name).certificate.achieved for name in quick]
        assert len(achieved) >= 4
        assert plan.certificate.achieved <= min(achieved) * (1 + SOLVER)
        assert max(achieved) > 1.2 * min(achieved), "methods that all agree leave nothing to choose"
        assert plan.strategy is not None and plan.strategy.noise == "laplace"
        assert set(quick) <= {trial.name for trial in plan.tried}
        assert plan.certificate.achieved == replace(plan).certificate.achieved


def only(monkeypatch: pytest.MonkeyPatch, *methods: Method) -> None:
    """Let `design` choose among these methods, in this order."""
    monkeypatch.setattr(choice, "in_order", lambda request: iter(methods))
    monkeypatch.setattr(trials, "all_methods", lambda: methods)


@pytest.mark.thorough
@pytest.mark.parametrize("speed", [None, 1e3], ids=["fast", "nobody can"])
@pytest.mark.parametrize(
    "asked",
    [
        {"privacy": GDP(1)},
        {"privacy": GDP(1), "time_limit": 5.0},
        {"privacy": GDP(1), "method": "dense", "time_limit": 5.0},
        {"privacy": PureDP(1), "time_limit": 5.0},
        {"privacy": PureDP(1), "objective": TotalVariance(within_targets=True), "time_limit": 5.0},
        {"privacy": PureDP(1), "method": "dense"},
        {"privacy": GDP(1), "options": {"refine": True}, "method": "dense"},
    ],
    ids=str,
)
def test_a_method_is_asked_once_whether_it_can_serve(
    asked: dict[str, Any], speed: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each method was asked two to four times whether it can serve, and what it takes."""
    questions = Counter[tuple[str, str, str]]()

    def counted(what: str, method: Method) -> Any:
        original = getattr(method, what)

        def ask(request: Request) -> Any:
            questions[what, method.name, request.objective.kind] += 1
            return original(request)

        return ask

    known = {
        method.name: replace(method, refuses=counted("refuses", method), needs=counted("needs", method))
        for method in all_methods()
    }
    only(monkeypatch, *known.values())
    monkeypatch.setattr(one_method, "all_methods", lambda: tuple(known.values()))
    monkeypatch.setattr(choice, "method_named", known.__getitem__)
    if speed is not None:
        monkeypatch.setattr(resources, "operations_per_second", lambda: speed)
    workload = assemble([Prefix("a", stderr=40)], Schema(a=range(6)))
    with contextlib.suppress(MethodError):
        design(workload, **asked)
    assert questions and set(questions.values()) == {1}


@pytest.mark.thorough
def test_the_papers_are_loaded_only_where_one_is_asked_for() -> None:
    """Naming any method loaded eight modules of other people's algorithms, and so did "auto"."""
    check = (
        "import sys, leastnoise as ln\n"
        "workload = ln.assemble([ln.Prefix('a')], ln.Schema(a=range(8)))\n"
        "for method in ('auto', 'dense'):\n"
        "    ln.design(workload, ln.GDP(1), method=method)\n"
        "print([name for name in sys.modules if name.startswith('leastnoise.papers.')])\n"
        "ln.design(workload, ln.GDP(1), method='coa')\n"
        "print('leastnoise.papers.coa' in sys.modules, 'leastnoise.papers.mwem' in sys.modules)\n"
    )
    told = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert told.stdout.split("\n")[:2] == ["[]", "True False"]


@pytest.mark.thorough
def test_slow_methods_are_left_alone_unless_nobody_else_can(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def spied(name: str, **changes: Any) -> Any:
        method = method_named(name)

        def find(request: Request) -> Any:
            tried.append(name)
            return method.find(request)

        return replace(method, find=find, **changes)

    quick, slow = spied("identity"), spied("wavelet", is_quick=False)
    only(monkeypatch, quick, slow, spied("dawa"))
    assert design(PREFIX, PureDP(1)).method == "identity" and tried == ["identity"]
    assert design(PREFIX, PureDP(1)).tried[0].name == "identity"
    # Plain noise, which is there before any method is asked, is as good as the quick one.
    assert design(PREFIX, GDP(1)).method == "plain" and "wavelet" not in tried
    only(monkeypatch, slow, spied("dawa"))
    assert design(PREFIX, PureDP(1)).method == "wavelet"
    only(monkeypatch, spied("dawa"))
    with refuses(MethodError, "workload", ..., "no method can plan this workload. dawa: it"):
        design(PREFIX, PureDP(1))
    assert "dawa" not in tried


@pytest.mark.thorough
def test_a_method_asked_for_is_used() -> None:
    for method in all_methods():
        request = Request(PREFIX, GDP(1))
        if method.refuses(request) is None:
            assert design(PREFIX, GDP(1), method=method.name).method == method.name
        else:
            with pytest.raises(MethodError, match=f"method '{method.name}' cannot do this: .*dense.* can"):
                design(PREFIX, GDP(1), method=method.name)


def test_a_method_that_fails_leaves_the_choice_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(request: Request) -> Any:
        raise DesignError("rounding would lose a direction")

    failing = replace(method_named("identity"), name="failing", find=fails)
    only(monkeypatch, failing, method_named("wavelet"))
    for goal in (PureDP(1), GDP(1)):
        plan = design(PREFIX, goal)
        assert plan.method == "wavelet"
        assert (plan.tried[0].name, plan.tried[0].outcome) == ("failing", "failed")
    only(monkeypatch, failing)
    with pytest.raises(DesignError, match="rounding would lose a direction"):
        design(PREFIX, PureDP(1))
    plan = design(PREFIX, GDP(1))
    assert (plan.method, plan.ended) == ("plain", "exhausted") and plan.certificate.status == "stopped"


# A search that ends far from the optimum, under the name of one that mostly does not.
WORSE = replace(method_named("wavelet"), name="residuals")


@pytest.mark.parametrize("is_better_first", [True, False])
def test_of_two_methods_the_better_plan_is_kept(
    is_better_first: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The first that accepted the request was taken, however far it was from the optimum."""
    best = method_named("dense")
    only(monkeypatch, *((best, WORSE) if is_better_first else (WORSE, best)))
    plan = design(PREFIX, GDP(1))
    assert plan.method == "dense" and plan.certificate.status == "optimal" and plan.ended == "converged"
    if is_better_first:
        assert plan.tried == (), "the optimum ends the trying"
        return
    wavelet = design(PREFIX, GDP(1), method="wavelet").certificate.achieved
    own = plan.certificate.achieved
    assert own < 0.9 * wavelet
    assert [(trial.name, trial.outcome, trial.achieved) for trial in plan.tried] == [
        ("residuals", "beaten", wavelet),
        ("dense", "kept", own),
    ]
    assert f"tried        residuals {wavelet:.6g}; dense {own:.6g}" in str(plan)
    again = load_plan(plan.save(tmp_path / "p.plan"))
    assert again.tried == plan.tried and again.digest == plan.digest


def test_where_no_method_is_proved_none_that_searches_is_ahead_of_auto(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the optimum for records added or removed is scaled to records replaced, others may be better."""
    monkeypatch.setattr(dense, "MAX_PAIRED_CELLS", 0)
    goal, schema = GDP(1, neighbours="replace-one"), Schema(x=range(4), y=range(3))
    for queries in ([Prefix("x") * Marginal("y")], [Marginal("x"), Marginal("y"), Prefix("x")]):
        workload = assemble(queries, schema)
        plan = design(workload, goal)
        names = [trial.name for trial in plan.tried]
        assert {"dense", "residuals"} <= set(names) and plan.certificate.status == "heuristic"
        for name in names:
            own = design(workload, goal, method=name).certificate.achieved
            assert plan.certificate.achieved <= own * (1 + 1e-9)


def test_what_takes_minutes_is_left_to_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Request(PREFIX, GDP(1)).needs(method_named("dense")).operations / 2
    only(monkeypatch, WORSE, method_named("dense"))
    monkeypatch.setattr(choice, "FREE_OPERATIONS", few)
    plan = design(PREFIX, GDP(1))
    assert plan.method == "residuals" and plan.ended == "converged"
    assert [(trial.name, trial.outcome) for trial in plan.tried] == [
        ("residuals", "kept"),
        ("dense", "too-long"),
    ]
    assert design(PREFIX, GDP(1)).digest == plan.digest
    within = design(PREFIX, GDP(1), time_limit=600)
    assert within.method == "dense" and within.ended == "converged" and len(within.tried) == 2


def test_a_method_that_comes_first_leaves_time_to_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: dict[str, float | None] = {}

    def noting(method: Method) -> Method:
        def find(request: Request) -> Any:
            limits[method.name] = request.time_limit
            return method.find(request)

        return replace(method, find=find)

    only(monkeypatch, noting(WORSE), noting(replace(WORSE, name="joint")), noting(method_named("dense")))
    design(PREFIX, GDP(1), time_limit=600)
    assert limits["residuals"] == pytest.approx(300, rel=0.01)
    assert limits["joint"] == pytest.approx(300, rel=0.01)
    assert limits["dense"] == pytest.approx(600, rel=0.01)
    design(PREFIX, GDP(1))
    assert limits == {"residuals": None, "joint": None, "dense": None}
    only(monkeypatch, noting(replace(WORSE, name="joint")), noting(WORSE))
    monkeypatch.setattr(choice, "DENSE", replace(method_named("dense"), refuses=lambda _: "it cannot"))
    design(PREFIX, GDP(1), time_limit=600)
    assert limits["residuals"] == pytest.approx(600, rel=0.01)


def test_few_operations_put_the_dense_optimum_first(monkeypatch: pytest.MonkeyPatch) -> None:
    speed = 2e10
    monkeypatch.setattr(method_list, "SMALL", 1)
    monkeypatch.setattr(method_list, "operations_per_second", lambda: speed)
    needed = Request(PREFIX, GDP(1)).needs(method_named("dense")).operations

    def third(**limits: Any) -> str:
        order = method_list.in_order(Request(PREFIX, GDP(1), **limits))
        return [method.name for method in order][2]

    for most, name in ((1.01 * needed, "dense"), (0.99 * needed, "residuals")):
        monkeypatch.setattr(method_list, "FREE_OPERATIONS", most)
        assert third() == name
        # A limit counts, however few operations are free.
        seconds = most / (method_list._SHARE_TO_BE_FIRST * speed)
        assert third(time_limit=seconds) == name
    assert third(time_limit=1e3) == "dense" and third(time_limit=1e-9) == "residuals"


def test_a_method_that_fails_leaves_targets_to_one_that_meets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one method left open was the end, though another method had a plan."""

    def fails(request: Request) -> Any:
        raise DesignError("it is open whether these targets can be met")

    asked = assemble([Prefix("age", stderr=4)], AGES)
    open_ = replace(method_named("residuals"), find=fails)
    only(monkeypatch, open_, method_named("dense"))
    plan = design(asked, GDP(1))
    assert plan.method == "dense" and [t.outcome for t in plan.tried] == ["failed", "kept"]
    only(monkeypatch, open_, method_named("identity"))
    plan = design(asked, GDP(1))
    assert plan.method == "plain" and plan.factor is not None and plan.factor <= 1
    with pytest.raises(DesignError, match="it is open"):
        design(assemble([Prefix("age", stderr=1.5)], AGES), GDP(1))
    only(monkeypatch, method_named("dense"), open_)
    with pytest.raises(InfeasibleError):
        design(assemble([Prefix("age", stderr=0.1)], AGES), GDP(1))


def test_no_method_for_too_many_cells() -> None:
    huge = assemble([Marginal("a", "b")], Schema(a=range(10**6), b=range(10**6)))
    with refuses(MethodError, "workload", ..., "no method can plan this workload. dense:", "20,000"):
        design(huge, GDP(1))
    with refuses(MethodError, "method", "dense", "'dense' cannot do this:", "; no method can"):
        design(huge, GDP(1), method="dense")


# Refusals ------------------------------------------------------------------------------------


def test_wrong_types_are_refused_by_name() -> None:
    for given in (None, np.eye(2), [Total()], "prefix"):
        with refuses(InputError, "workload", ..., "design() needs a Workload from assemble(), got"):
            design(given, GDP(1))  # type: ignore[arg-type]
    with refuses(InputError, "privacy", ..., "design() needs a privacy goal, as in"):
        design(PREFIX)
    for goal in (1.0, "GDP", GDP):
        with refuses(InputError, "privacy", ..., "must be PureDP, ApproxDP, ZCDP, GDP or LeastLoss, got"):
            design(PREFIX, goal)  # type: ignore[arg-type]


@pytest.mark.parametrize("tol", [0, -1e-6, math.nan, math.inf])
def test_tolerances_that_mean_nothing_are_refused(tol: float) -> None:
    with refuses(InputError, "tol"):
        design(PREFIX, GDP(1), tol=tol)


@pytest.mark.parametrize("limit", [0, -1, math.nan])
def test_time_limits_that_mean_nothing_are_refused(limit: float) -> None:
    with refuses(InputError, "time_limit"):
        design(PREFIX, GDP(1), time_limit=limit)


def test_targets_are_not_ignored_silently() -> None:
    for workload in (
        assemble([Prefix("age", stderr=50)], AGES),
        assemble([Prefix("age", within=(80, 0.95)), Total()], AGES),
        Workload.from_matrix(np.eye(3), stderr=[1.1, np.inf, 2]),
    ):
        plan = design(workload, GDP(1))
        assert plan.objective == TotalVariance(within_targets=True)
        assert (plan.stderr <= workload.targets).all()
        regardless = design(workload, GDP(1), objective=TotalVariance())
        assert regardless.certificate.status == "optimal"
        share = (regardless.stderr / workload.targets).max()
        assert regardless.factor == pytest.approx(share, rel=ROUNDING)


def test_unknown_backends_are_refused() -> None:
    with refuses(InputError, "backend", "jax"):
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
    assert plan.ended == "deadline" and len(seen) == 1
    assert plan.strategy.spent <= 1
    full = design(workload, GDP(1))
    assert full.certificate.status == "optimal" and full.ended == "converged"
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_records_per_person_scale_the_noise() -> None:
    once = design(PREFIX, GDP(1)).certificate.achieved
    assert design(PREFIX, GDP(1, records_per_person=3)).certificate.achieved == pytest.approx(
        9 * once, rel=SOLVER
    )
    pure = design(PREFIX, PureDP(1)).certificate.achieved
    thrice = design(PREFIX, PureDP(1, records_per_person=3)).certificate.achieved
    assert thrice == pytest.approx(9 * pure, rel=SOLVER)


@pytest.mark.thorough
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
