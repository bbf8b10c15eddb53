"""What time limits rest on where several methods are tried: honest estimates, and no work done twice."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.bounds import certify
from leastnoise.core import resources
from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.resources import Needs
from leastnoise.planning import Request, checked_request, method_named
from leastnoise.planning import plan as plan_module
from leastnoise.planning.families import dense, dense_capped
from leastnoise.planning.families.fixed_rows import haar, tree
from leastnoise.planning.families.merged import queries_over_kinds
from leastnoise.planning.families.proposals import largest_square, with_differences
from leastnoise.planning.method import Method
from leastnoise.planning.p_identity.family import variances
from leastnoise.planning.refinement import refinement_needs, refinements
from leastnoise.planning.trials import Trials
from tolerances import ROUNDING

SIZES = (5, 7, 7, 4)


def one_way(*sizes: int) -> ln.Workload:
    schema = ln.Schema({f"a{i}": range(size) for i, size in enumerate(sizes)})
    return ln.assemble([ln.Cube(*schema.names, order=1)], schema)


def ask(
    workload: ln.Workload, goal: Any, *, objective: Any = None, time_limit: float | None = None
) -> Request:
    return checked_request(workload, goal, objective, None, (), None, 1e-6, time_limit, "numpy", None)


@pytest.mark.parametrize(("name", "rows"), [("hierarchical", lambda n: tree(n, 2)), ("wavelet", haar)])
def test_rows_crossed_over_attributes_are_counted_one_by_one(name: str, rows: Any) -> None:
    """Trees over four attributes have 11 rows for every cell; 2 were counted, and 3.5 s came of it at 1 s."""
    request = ask(one_way(*SIZES), ln.PureDP(1))
    expected = np.prod([len(rows(n)) / n for n in SIZES])
    ratio = method_named(name).needs(request).last / method_named("identity").needs(request).last
    assert ratio == pytest.approx(expected, rel=ROUNDING)


def test_pairs_of_cells_are_counted_where_records_are_replaced() -> None:
    """Over 20,000 cells the exact comparison of all pairs took 11 s, of which nothing was foreseen."""
    goals = [ln.GDP(1, neighbours=neighbours) for neighbours in ("add-remove", "replace-one")]
    workload = one_way(2, 50, 2, 50, 2)
    added, replaced = (method_named("dense").needs(ask(workload, goal)) for goal in goals)
    k, n = min(workload.shape), workload.shape[1]
    assert replaced.last - added.last > 2 * k * n * n


def test_the_largest_difference_is_that_of_all_differences_written_out() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        columns = rng.standard_normal(rng.integers(1, 9, size=2))
        written = float((with_differences(columns) ** 2).sum(axis=0).max())
        assert largest_square(columns) == pytest.approx(written, rel=ROUNDING)


def test_differences_of_many_cells_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million differences of 149 numbers each took 13 s, after a search of 0.3 s."""

    def refuse(_: Any) -> Any:
        raise AssertionError("differences are written out")

    monkeypatch.setattr(dense, "MAX_CAPPED_PAIRS", 1)
    monkeypatch.setattr(dense_capped, "with_differences", refuse)
    workload = ln.assemble([ln.Prefix("a").having(stderr=9.0)], ln.Schema(a=range(5)))
    goal = ln.GDP(1, neighbours="replace-one")
    plan = ln.design(workload, goal, objective=ln.TotalVariance(within_targets=True), method="dense")
    assert plan.factor is not None
    assert plan.factor <= 1


def random_workload(rng: np.random.Generator) -> ln.Workload:
    """Queries over few kinds of cells, each of several cells."""
    kinds = rng.integers(0, 2, (4, 5))
    return ln.Workload.from_matrix(kinds[:, rng.integers(0, 5, 40)])


def test_variances_over_kinds_are_those_over_all_cells() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        workload = random_workload(rng)
        cells = workload.cells
        assert cells is not None
        few, all_of_few = queries_over_kinds(workload, cells)
        d = len(cells.first)
        assert few.shape == (workload.shape[0], d)
        root = rng.standard_normal((d, d))
        Y = root @ root.T
        W = workload.dense()[:, cells.first]
        assert np.allclose(variances(few, Y, all_of_few), np.einsum("mi,ij,mj->m", W, Y, W), rtol=ROUNDING)


@pytest.mark.parametrize("objective", [ln.TotalVariance(), ln.MaxVariance()])
def test_refining_never_holds_a_gram_matrix_of_all_cells(
    objective: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three queries over 20,000 cells took minutes: every step wrote out a covariance of all cells."""
    workload = random_workload(np.random.default_rng(0))
    request = ask(workload, ln.PureDP(1), objective=objective)
    held: list[int] = []
    gram = ln.Workload.weighted_gram

    def watched(self: ln.Workload, weights: Any = None) -> Any:
        held.append(self.shape[1])
        return gram(self, weights)

    monkeypatch.setattr(ln.Workload, "weighted_gram", watched)
    cells = workload.cells
    assert cells is not None
    _, make = next(refinements(request, [np.eye(40)], NEVER, weights=workload.weights))
    make()
    assert set(held) == {len(cells.first)}


def test_rounding_refined_rows_is_estimated_for_all_cells() -> None:
    few, many = (ask(one_way(*sizes), ln.PureDP(1)) for sizes in ((2, 3), (2, 3, 400)))
    assert refinement_needs(few).last > 0
    # Beyond what can be refined nothing is rounded.
    assert refinement_needs(many) == resources.NOTHING


def test_every_plan_is_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best plan was proved again when it was told what else was tried, after its time."""
    proved: list[ln.Plan] = []

    def counted(workload: ln.Workload, plan: ln.Plan) -> Any:
        proved.append(plan)
        return certify(workload, plan)

    monkeypatch.setattr(plan_module, "certify", counted)
    plan = ln.design(one_way(2, 3), ln.PureDP(1), time_limit=0.3)
    assert len(proved) == sum(trial.achieved is not None for trial in plan.tried) > 1


def test_a_plan_that_lists_trials_is_the_plan_that_is_checked_and_proved_anew() -> None:
    plan = ln.design(one_way(2, 3), ln.PureDP(1), time_limit=0.3)
    again = replace(plan)
    assert again.digest == plan.digest
    assert again.certificate.achieved == plan.certificate.achieved
    assert again.certificate.lower_bound == plan.certificate.lower_bound
    with pytest.raises(ln.LeastnoiseError):
        plan.with_trials(plan.tried, "tomorrow")  # type: ignore[arg-type]


def test_what_is_overdue_already_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each method after the deadline was given two seconds more, however late it was."""
    monkeypatch.setattr(resources, "operations_per_second", lambda: 1.0)

    def fail(_: Request) -> Any:
        raise AssertionError("it is begun")

    method = Method("slow", "takes a second", lambda _: None, fail, needs=lambda _: Needs(last=1.0))
    trials = Trials(ask(one_way(2, 3), ln.PureDP(1), time_limit=1.0))
    # The limit was up 1.5 s ago: half a second is left of two.
    trials.deadline = Deadline(time.monotonic() - 1.5, time.monotonic() - 2.5)
    trials.run(method, 1.0)
    assert trials.has_tried("slow")
    assert resources.why_too_much(Needs(last=1.0), 1e-9, 1.5) is not None
    assert resources.why_too_much(Needs(last=1.0), 1e-9, 0.5) is None


def test_lengths_of_few_queries_need_no_matrix_of_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten queries over 16,000 cells took 10 s and 6 GB before their search began."""
    workload = ln.assemble([ln.Ranges("a", [(0, 9), (5, 90), (0, 99)])], ln.Schema(a=range(100)))
    made: list[int] = []
    eye = np.eye

    def watched(n: int, *more: Any, **options: Any) -> Any:
        made.append(n)
        return eye(n, *more, **options)

    monkeypatch.setattr(dense_capped, "_IDENTITY_CELLS", 8)
    monkeypatch.setattr(np, "eye", watched)
    ln.design(workload, ln.GDP(1), objective=ln.MaxVariance(), method="dense")
    assert max(made, default=0) < 100


def test_targets_that_are_met_by_far_need_no_standard_error_of_every_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Medians of 14 million standard errors took 3 s after the search, to tell if the largest was met."""

    def refuse(_: ln.Plan) -> Any:
        raise AssertionError("standard errors of all queries are worked out")

    monkeypatch.setattr(ln.Plan, "spreads", property(refuse))
    workload = ln.assemble([ln.Prefix("a").having(stderr=90.0)], ln.Schema(a=range(5)))
    objective = ln.TotalVariance(within_targets=True)
    plan = ln.design(workload, ln.GDP(1), objective=objective, method="dense")
    assert plan.certificate.gap < 1e-5
    with pytest.raises(AssertionError, match="standard errors"):
        ln.design(workload, ln.GDP(0.01), objective=objective, method="hierarchical")


def test_measuring_every_query_counts_its_coefficients() -> None:
    """275 queries over 28,800 cells took 7 s, of which 1.8 s were foreseen."""
    request = ask(one_way(2, 50, 2, 50, 2), ln.PureDP(1))
    assert method_named("workload").needs(request).first > 1e4 * np.prod(request.workload.shape)
