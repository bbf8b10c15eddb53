"""Queries in groups, each measured by itself: checked against all cells, listed one by one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.release import adjust
from leastnoise.strategy import side_by_side
from tolerances import ROUNDING, SOLVER

SEEDS = range(4)


def conditions(seed: int, count: int = 9) -> ln.Workload:
    """Random conditions over four small attributes, some with targets and weights."""
    rng = np.random.default_rng([5, seed])
    sizes = {name: int(rng.integers(2, 6)) for name in "abcd"}
    queries = []
    for number in range(count):
        parts = []
        for name in rng.choice(list(sizes), size=int(rng.integers(1, 4)), replace=False).tolist():
            sign = ("==", ">=", "<", "!=")[int(rng.integers(4))]
            parts.append(f"{name} {sign} {int(rng.integers(1, sizes[name]))}")
        text = (" and ", " or ")[int(rng.integers(2))].join(parts)
        own: dict[str, Any] = {"weight": float(rng.integers(1, 5)), "stderr": float(rng.integers(8, 15))}
        queries.append(ln.Where(text, name=f"q{number}", **own))
    return ln.assemble(queries, ln.Schema({name: range(size) for name, size in sizes.items()}))


def mixed(seed: int) -> ln.Workload:
    """The same beside a cross table, running sums and combinations of cells."""
    workload = conditions(seed, count=7)
    queries = [block.query for block in workload.blocks]
    assert workload.schema is not None
    rows = np.random.default_rng([6, seed]).integers(-1, 2, size=(2, workload.shape[1]))
    others = [
        ln.Marginal("a", "b").having(stderr=20.0),
        ln.Prefix("c").having(stderr=15.0),
        ln.Linear(rows, name="combined").having(stderr=25.0),
    ]
    return ln.assemble([*queries, *others], workload.schema)


GOALS = {
    "gaussian": ln.GDP(1),
    "pure": ln.PureDP(1),
    "replaced": ln.GDP(1, neighbours="replace-one"),
}

OBJECTIVES = {
    "total": ln.TotalVariance(),
    "within": ln.TotalVariance(within_targets=True),
    "targets": ln.Targets(),
    "largest": ln.MaxVariance(),
    "absolute": ln.AbsoluteError(),
}

QUICK = [("gaussian", "total"), ("replaced", "total"), ("gaussian", "within")]
REQUESTS = [
    *QUICK,
    *(
        pytest.param(*words, marks=pytest.mark.thorough)
        for words in [
            *(("gaussian", objective) for objective in ("targets", "largest", "absolute")),
            ("pure", "total"),
            ("pure", "targets"),
        ]
    ),
]


def planned(workload: ln.Workload, goal: str, objective: str) -> ln.Plan:
    return ln.design(workload, GOALS[goal], objective=OBJECTIVES[objective], method="groups")


@pytest.mark.parametrize("are_listed", [True, False], ids=["cells", "largest"])
@pytest.mark.parametrize("make", [conditions, mixed])
@pytest.mark.parametrize(("goal", "objective"), REQUESTS)
def test_no_record_changes_more_than_the_sensitivity_and_noise_is_what_it_says(
    make: Any, goal: str, objective: str, are_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows over all cells, written out, are the judge; of many cells the largest costs are added up."""
    if not are_listed:
        monkeypatch.setattr(side_by_side, "_MAX_LISTED", 0)
    for seed in SEEDS:
        workload = make(seed)
        plan = planned(workload, goal, objective)
        strategy = plan.strategy
        assert strategy is not None
        rows = strategy.dense().astype(object)
        columns = np.hstack([rows, np.zeros((len(rows), 1), dtype=object)])
        power = 1 if goal == "pure" else 2
        if goal == "replaced":
            changes = [columns - columns[:, [i]] for i in range(columns.shape[1])]
        else:
            changes = [columns]
        largest = max(int((np.abs(change) ** power).sum(axis=0).max()) for change in changes)
        assert largest <= strategy.sensitivity
        assert plan.spent_per_person <= GOALS[goal].budget
        # Answers are linear in what is measured: their variances from that map, and unbiased on any table.
        gains = strategy.error_map(workload)(np.eye(strategy.n_measured))
        assert plan.stderr is not None
        np.testing.assert_allclose(
            plan.stderr**2, strategy.noise_variance * (gains**2).sum(axis=1), rtol=ROUNDING
        )
        table = np.random.default_rng(seed).integers(0, 50, size=workload.shape[1])
        np.testing.assert_allclose(
            gains @ (rows @ table.astype(object)).astype(float),
            workload.dense() @ table,
            rtol=1e-9,
            atol=1e-6,
        )


@pytest.mark.parametrize("make", [conditions, mixed])
@pytest.mark.parametrize("objective", ["total", "within", "targets", "largest", "absolute"])
def test_the_bound_holds_and_a_plan_is_not_far_from_the_optimum(make: Any, objective: str) -> None:
    """The certified optimum over all cells lies between the bound and what is achieved."""
    for seed in SEEDS:
        workload = make(seed)
        plan = planned(workload, "gaussian", objective)
        proof = ln.certify(workload, plan)
        best = ln.design(workload, GOALS["gaussian"], objective=OBJECTIVES[objective], method="dense")
        assert proof.lower_bound <= best.certificate.achieved * (1 + SOLVER)
        assert best.certificate.lower_bound <= proof.achieved * (1 + SOLVER)
        assert proof.status == "stopped"
        if make is conditions:
            # One group of few classes is the optimum itself, but for the grid.
            assert proof.achieved <= best.certificate.achieved * 3


def test_targets_without_a_goal_are_met_at_least_cost() -> None:
    workload = conditions(3)
    plan = ln.design(workload, objective=ln.Targets(), method="groups")
    assert plan.factor is not None and plan.factor <= 1
    assert plan.certificate.lower_bound <= plan.certificate.achieved


@pytest.mark.parametrize("make", [conditions, mixed])
def test_a_plan_is_saved_loaded_and_measured_like_any_other(make: Any, tmp_path: Path) -> None:
    workload = make(1)
    plan = planned(workload, "gaussian", "total")
    path = tmp_path / "plan.plan"
    plan.save(path)
    again = ln.load_plan(path)
    assert again.digest == plan.digest
    assert again.certificate.lower_bound == pytest.approx(plan.certificate.lower_bound, rel=1e-12)
    counts = np.random.default_rng(0).integers(0, 1_000, size=workload.shape[1])
    with pytest.warns(ln.LeastnoiseWarning):
        release = ln.measure(again, counts)
    truth = workload.dense() @ counts
    assert np.abs((release.answers - truth) / release.stderr).max() < 8
    release.save(tmp_path / "release.zip")
    assert (ln.load_release(tmp_path / "release.zip").answers == release.answers).all()
    low, high = release.interval(level=0.95)
    assert (low < high).all()
    assert "groups" in str(plan)


def test_a_release_over_more_cells_than_rows_is_adjusted() -> None:
    schema = ln.Schema(a=range(20), b=range(20), c=range(15))
    queries = [ln.Where(f"a >= {4 * i} or b < {3 * i + 1}", name=f"q{i}") for i in range(1, 5)]
    workload = ln.assemble([*queries, ln.Where("b < 9 and c >= 5", name="last")], schema)
    plan = ln.design(workload, ln.GDP(1e4), method="groups")
    counts = np.random.default_rng(4).integers(0, 3, size=workload.shape[1])
    with pytest.warns(ln.LeastnoiseWarning):
        adjusted = adjust(ln.measure(plan, counts))
    assert adjusted.estimates.min() >= 0
    truth = workload.dense() @ counts
    np.testing.assert_allclose(adjusted.answers, workload.dense() @ adjusted.estimates, rtol=1e-9)
    np.testing.assert_allclose(adjusted.answers, truth, atol=8 * float(plan.stderr.max()))


def many(seed: int) -> ln.Workload:
    """Sixty conditions over nine attributes, with far too many classes of cells to be listed."""
    rng = np.random.default_rng([7, seed])
    sizes = rng.integers(20, 60, 9).tolist()
    queries = []
    for _ in range(60):
        parts = []
        for place in rng.choice(9, size=int(rng.integers(2, 4)), replace=False).tolist():
            low, high = np.sort(rng.integers(0, sizes[place], 2)).tolist()
            parts.append(f"(a{place} >= {low} and a{place} <= {high})")
        queries.append(ln.Where((" and ", " or ")[int(rng.integers(2))].join(parts)))
    return ln.assemble(queries, ln.Schema({f"a{place}": range(size) for place, size in enumerate(sizes)}))


@pytest.mark.parametrize("time_limit", [1.0, 4.0])
def test_too_many_classes_have_a_plan_all_the_same(time_limit: float, tmp_path: Path) -> None:
    """Once there was none: merging leaves 10⁸ kinds of cells, and no cell is ever listed to measure it."""
    pandas = pytest.importorskip("pandas")
    workload = many(0)
    plan = ln.design(workload, ln.GDP(1), time_limit=time_limit)
    assert plan.method == "groups" and plan.ended != "converged"
    m = workload.shape[0]
    # Noise on each query, for as many as there are, has m².
    assert plan.certificate.achieved < m**2
    assert math.isfinite(plan.certificate.gap)
    rng = np.random.default_rng(1)
    assert workload.schema is not None
    frame = pandas.DataFrame(
        {name: rng.integers(0, workload.schema[name].size, 500) for name in workload.schema}
    )
    with pytest.warns(ln.LeastnoiseWarning):
        release = ln.measure(plan, frame)
    truth = np.array([len(frame.query(block.query.condition)) for block in workload.blocks])
    assert np.abs((release.answers - truth) / release.stderr).max() < 8
    plan.save(tmp_path / "plan.plan")
    assert ln.load_plan(tmp_path / "plan.plan").digest == plan.digest


def test_conditions_beside_tables_of_more_attributes_than_cells_can_be_numbered() -> None:
    """Once each condition was tied into one axis with all others: there was no plan."""
    pandas = pytest.importorskip("pandas")
    schema = ln.Schema({f"a{place}": range(4) for place in range(40)})
    texts = [f"a{place} >= 2 or a{place + 7} == 1 or a{place + 20} == 3" for place in range(15)]
    workload = ln.assemble([ln.Cube(*schema.names, order=2), *map(ln.Where, texts)], schema)
    plan = ln.design(workload, ln.GDP(1), time_limit=5)
    assert plan.certificate.gap < 0.05
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({name: rng.integers(0, 4, 200) for name in schema})
    with pytest.warns(ln.LeastnoiseWarning):
        release = ln.measure(plan, frame)
    truth = np.array([len(frame.query(text)) for text in texts])
    assert (np.abs(release.answers[-15:] - truth) < 8 * release.stderr[-15:]).all()
