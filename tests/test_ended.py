"""How a search ended, as a field: every method tells a deadline and a limit of steps from convergence.

It used to be told from a sentence in the note, which two methods wrote differently, so that the report said
"proves no more" of a search that had made one step.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core import container
from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.errors import PlanFileError
from leastnoise.core.progress import ENDINGS, Ended, ending_to_text, worst_ending
from leastnoise.papers import sdp
from leastnoise.planning import all_methods, plan_from_parts
from leastnoise.planning.oblique import centre_search as oblique_search
from leastnoise.report import plan_sentences as words
from support import extra, refuses

GAUSS, ONE, PURE = ln.GDP(1), ln.GDP(1, neighbours="replace-one"), ln.PureDP(1)
LARGEST, TARGETS, WITHIN = ln.MaxVariance(), ln.Targets(), ln.TotalVariance(within_targets=True)

SCHEMA = ln.Schema(a=range(5), b=range(4), c=("x", "y"))
EIGHT = ln.Workload.from_matrix(np.tril(np.ones((8, 8), dtype=int)))
UNEVEN = ln.Workload.from_matrix(np.tril(np.ones((40, 40), dtype=int)), weights=np.linspace(1, 30, 40) ** 4)
PRODUCT = ln.assemble([ln.Prefix("a") * ln.Prefix("b")], SCHEMA)
TABLES = ln.assemble([ln.Marginal("a", "b"), ln.Marginal("b", "c"), ln.Marginal("a")], SCHEMA)
UNION = ln.assemble([ln.Prefix("a"), ln.Prefix("b") * ln.Marginal("c"), ln.Marginal("a", "c")], SCHEMA)
WITH_TARGETS = ln.assemble(
    [
        ln.Prefix("a", stderr=8.0),
        (ln.Prefix("b") * ln.Marginal("c")).having(stderr=9.0),
        ln.Marginal("a", "c", stderr=10.0),
    ],
    SCHEMA,
)
CAPPED_TABLES = ln.assemble([ln.Marginal("a", "b", stderr=5.0), ln.Marginal("b", "c", stderr=4.0)], SCHEMA)
_RNG = np.random.default_rng(5)
CAPPED = ln.Workload.from_matrix(_RNG.integers(-1, 2, (30, 12)), stderr=_RNG.uniform(20, 60, 30))

# Limits of steps that are no options: module and name.
WEIGHTED_TABLES = {"planning.families.crossed_tables._STEPS": 1}
NEWTON = {"solver.newton.MAX_STEPS": 1, "planning.families.dense._MAX_SECOND_TRY": 0}
INTERIOR = {"solver.path_following.MAX_STEPS": 1}
JOINT = {"planning.families.joint.STEPS": 2}

# Method, workload, goal, objective and options with which it converges; what makes it run out of steps.
SEARCHES: dict[str, tuple[str, Any, Any, Any, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "dense": ("dense", UNEVEN, GAUSS, None, {}, {}, NEWTON),
    "dense, pairs": ("dense", EIGHT, ONE, None, {}, {}, NEWTON),
    "dense, second try": ("dense", UNEVEN, GAUSS, None, {}, {}, {"solver.newton.MAX_STEPS": 1, **INTERIOR}),
    "dense, largest": ("dense", CAPPED, GAUSS, LARGEST, {}, {}, INTERIOR),
    "dense, targets": ("dense", CAPPED, GAUSS, TARGETS, {}, {}, INTERIOR),
    "dense, within": ("dense", CAPPED, GAUSS, WITHIN, {}, {}, {}),
    "dense, refined": ("dense", EIGHT, GAUSS, LARGEST, {"refine": True}, {}, INTERIOR),
    "product": ("product", PRODUCT, GAUSS, None, {}, {}, NEWTON),
    "product, largest": ("product", PRODUCT, GAUSS, LARGEST, {}, {}, INTERIOR),
    "marginals": ("marginals", CAPPED_TABLES, GAUSS, TARGETS, {}, {}, INTERIOR),
    "marginals, pure": ("marginals", TABLES, PURE, None, {}, {}, WEIGHTED_TABLES),
    "residuals": ("residuals", UNION, GAUSS, None, {}, {}, {}),
    "residuals, largest": ("residuals", UNION, GAUSS, LARGEST, {}, {}, INTERIOR),
    "residuals, within": ("residuals", WITH_TARGETS, GAUSS, WITHIN, {}, {}, {}),
    "joint": ("joint", UNION, GAUSS, None, {}, {}, JOINT),
    "joint, largest": ("joint", UNION, GAUSS, LARGEST, {}, {}, JOINT),
    "eigen": ("eigen", EIGHT, GAUSS, None, {}, {}, INTERIOR),
    "eigen-separation": ("eigen-separation", EIGHT, GAUSS, None, {}, {}, INTERIOR),
    "principal-vectors": ("principal-vectors", EIGHT, GAUSS, None, {}, {}, INTERIOR),
    "weighted-basis": ("weighted-basis", EIGHT, GAUSS, None, {}, {}, INTERIOR),
    "weighted-basis, pure": ("weighted-basis", EIGHT, PURE, None, {}, {}, INTERIOR),
    "weighted-basis, tree": (
        "weighted-basis",
        EIGHT,
        GAUSS,
        None,
        {"basis": "tree"},
        {},
        {"planning.families.weighted_basis._MAX_TURNS": 1},
    ),
    "coa": ("coa", EIGHT, GAUSS, None, {"max_iterations": 200}, {"max_iterations": 1}, {}),
    "coa-homotopy": ("coa-homotopy", EIGHT, GAUSS, None, {"max_iterations": 200}, {"max_iterations": 1}, {}),
    "smoothing": (
        "smoothing",
        ln.Workload.from_matrix(np.eye(4, dtype=int)),
        GAUSS,
        None,
        {},
        {"max_iterations": 1},
        {},
    ),
    "lowrank": ("lowrank", EIGHT, GAUSS, None, {}, {"max_iterations": 2}, {}),
    "lowrank, pure": ("lowrank", EIGHT, PURE, None, {}, {"max_iterations": 2}, {}),
    "smii": ("smii", EIGHT, GAUSS, LARGEST, {}, {"max_steps": 2}, {}),
    "smii, gradient": (
        "smii",
        EIGHT,
        GAUSS,
        LARGEST,
        {"optimiser": "gradient"},
        {"max_steps": 2, "optimiser": "gradient"},
        {},
    ),
    "smii, interior-point": (
        "smii",
        EIGHT,
        GAUSS,
        LARGEST,
        {"optimiser": "interior-point"},
        {"max_steps": 2, "optimiser": "interior-point"},
        {},
    ),
    "p-identity": ("p-identity", EIGHT, PURE, None, {"starts": 4}, {"starts": 4, "iterations": 3}, {}),
    "p-identity, largest": (
        "p-identity",
        EIGHT,
        PURE,
        LARGEST,
        {"starts": 4},
        {"starts": 4, "iterations": 3},
        {},
    ),
}

# Methods that search for nothing, or for too little to be cut short.
CLOSED = (
    *("plain", "identity", "workload", "queries", "hierarchical", "wavelet", "fourier", "datacube"),
    *("dawa", "mwem", "buckets"),
)

# Methods with tests of their own: one by its solvers, one with each group at its optimum, not all together.
APART = ("sdp", "groups")


def test_every_method_is_here() -> None:
    """A method that joins the list says how it ends, and joins one of these."""
    assert {search[0] for search in SEARCHES.values()} | {*CLOSED, *APART} == {m.name for m in all_methods()}


def planned(name: str, options: dict[str, Any] | None = None, **more: Any) -> ln.Plan:
    method, workload, goal, objective, own, _, _ = SEARCHES[name]
    given = own if options is None else options
    return ln.design(workload, goal, method=method, objective=objective, options=given, **more)


def patch(monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]) -> None:
    for path, value in limits.items():
        module, _, name = path.rpartition(".")
        monkeypatch.setattr(importlib.import_module(f"leastnoise.{module}"), name, value)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_is_left_alone_converges(name: str) -> None:
    plan = planned(name)
    assert plan.ended == "converged", plan.note
    assert "search       converged" in str(plan)
    assert "The search converged." in ln.summarize(plan).text()


@pytest.mark.thorough
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_whose_time_is_over_says_so(name: str) -> None:
    """The moment has passed when the search begins: no clock decides."""
    plan = planned(name, time_limit=1e-12)
    assert plan.ended == "deadline", plan.note
    said = ending_to_text("deadline")
    assert f"search       {said}" in str(plan)
    report = ln.summarize(plan)
    for told in (report.text(), report.html()):
        assert said in told and "proves no more" not in told


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, search in SEARCHES.items() if search[5] or search[6]])
def test_a_search_that_runs_out_of_steps_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, limits = SEARCHES[name][5:]
    patch(monkeypatch, limits)
    plan = planned(name, {**SEARCHES[name][4], **options})
    assert plan.ended == "exhausted", plan.note
    said = ending_to_text("exhausted")
    assert f"search       {said}" in str(plan)
    report = ln.summarize(plan)
    for told in (report.text(), report.html()):
        assert said in told and "proves no more" not in told


def test_sweeps_over_the_attributes_that_run_out_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    run = oblique_search.Search.run

    def one_sweep(self: Any, *, until: float, max_sweeps: int = 1) -> int:
        return run(self, until=until, max_sweeps=1)

    monkeypatch.setattr(oblique_search.Search, "run", one_sweep)
    patch(monkeypatch, {"planning.families.shared_products.MAX_KINDS": 1})
    assert planned("residuals").ended == "exhausted"


@pytest.mark.parametrize("method", CLOSED)
def test_closed_forms_have_converged(method: str) -> None:
    workload = TABLES if method in ("fourier", "datacube") else ln.assemble([ln.Prefix("a")], SCHEMA)
    goal = PURE if method in ("dawa", "mwem") else GAUSS
    if method in ("dawa", "mwem", "buckets"):
        workload = ln.assemble([ln.Prefix("a")], ln.Schema(a=range(8)))
    plan = ln.design(workload, goal, method=method, time_limit=1e-12)
    assert plan.ended == "converged"


def test_the_semidefinite_solver_says_how_it_ended() -> None:
    def solved(status: str, seconds: float, steps: int, left: float | None) -> Ended:
        problem = SimpleNamespace(
            get_problem_data=lambda solver: None,
            solve=lambda **options: None,
            status=status,
            solver_stats=SimpleNamespace(solve_time=seconds, num_iters=steps),
        )
        return sdp._solve(problem, "SCS", Deadline.after(left, began=0.0))

    assert solved("optimal", 1.0, 50, None) == "converged"
    assert solved("optimal_inaccurate", 1.0, 100_000, None) == "exhausted"
    assert solved("optimal_inaccurate", 1.0, 99, None) == "converged"
    far = 1e12  # seconds on the monotonic clock, which began at 0 here
    assert solved("optimal_inaccurate", 2 * far, 99, far) == "deadline"


def test_the_semidefinite_program_in_earnest(monkeypatch: pytest.MonkeyPatch) -> None:
    extra("cvxpy")
    options = {"solver": "SCS"}
    assert ln.design(EIGHT, GAUSS, method="sdp", options=options).ended == "converged"
    monkeypatch.setitem(sdp._STEP_LIMIT, "SCS", ("max_iters", 20))
    assert ln.design(EIGHT, GAUSS, method="sdp", options=options).ended == "exhausted"


# Several parts ---------------------------------------------------------------------------------


def test_the_worst_part_decides() -> None:
    assert worst_ending([]) == "converged"
    assert worst_ending(["converged", "exhausted"]) == "exhausted"
    assert worst_ending(["exhausted", "deadline", "converged"]) == "deadline"
    assert worst_ending(reversed(ENDINGS)) == "interrupted"
    assert Deadline(0.0).ending == "deadline" and NEVER.ending == "converged"


def test_one_method_without_time_is_the_end_of_all() -> None:
    """Under pure privacy the best of several is taken: more time might have made another the best."""
    plan = ln.design(EIGHT, PURE, time_limit=1e-12)
    assert plan.ended == "deadline" and plan.method == "identity"


def test_one_factor_without_steps_is_the_end_of_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    product = importlib.import_module("leastnoise.planning.families.product")
    whole, ends = product.DENSE, iter(["converged", "exhausted"])
    hurried = replace(whole, find=lambda request: replace(whole.find(request), ended=next(ends)))
    monkeypatch.setattr(product, "DENSE", hurried)
    assert planned("product").ended == "exhausted"


def test_fewer_stages_than_asked_is_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    coa = importlib.import_module("leastnoise.papers.coa")
    whole = coa.coa_homotopy
    monkeypatch.setattr(coa, "coa_homotopy", lambda *args, **options: whole(*args, **options)[:2])
    assert planned("coa-homotopy").ended == "deadline"


# Telling and keeping ---------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [*ENDINGS, None])
def test_what_a_report_says_of_a_gap(ended: Ended | None) -> None:
    plan = replace(planned("dense", time_limit=1e-12), ended=ended)
    assert plan.certificate.status == "stopped"
    verdict = words.verdict(plan)
    assert ("proves no more" in verdict) == (ended == "converged")
    assert ("a longer search may do better" in verdict) == (ended not in ("converged", None))
    assert ending_to_text(ended) in str(plan)
    page = ln.summarize(plan).html()
    assert (ended or "not recorded") in page and ending_to_text(ended) in page
    # A plan far from its bound is shown as one, however its search ended.
    assert "above the best possible, perhaps" in page and "of the best possible, proved" not in page


@pytest.mark.parametrize("ended", [*ENDINGS, None])
@pytest.mark.parametrize("method", ["dense", "dawa"])
def test_files_keep_how_a_search_ended(ended: Ended | None, method: str, tmp_path: Path) -> None:
    workload = ln.assemble([ln.Prefix("a")], ln.Schema(a=range(8)))
    plan = ln.design(workload, PURE if method == "dawa" else GAUSS, method=method)
    plan = replace(plan, ended=ended)
    again = ln.load_plan(plan.save(tmp_path / "a.plan"))
    assert again.ended == ended and again.digest == plan.digest


def test_files_from_before_keep_their_digest() -> None:
    """A ledger knows a plan by its digest: reading an old file must not change it."""
    plan = planned("dense")
    content, arrays = plan.to_parts()
    del content["ended"]
    old = container.digest_of(content, arrays)
    again = plan_from_parts(json.loads(json.dumps(content)), arrays, "old.plan")
    assert again.ended is None and again.digest == old != plan.digest
    assert "ended in a way that was not recorded" in str(again)


@pytest.mark.parametrize("ended", ["", "finished", 1, None, ["converged"]])
def test_a_file_that_ended_otherwise_is_refused(ended: Any) -> None:
    content, arrays = planned("dense").to_parts()
    with refuses(PlanFileError, "plan", "odd.plan", "not a plan that this version can read"):
        plan_from_parts({**content, "ended": ended}, arrays, "odd.plan")
