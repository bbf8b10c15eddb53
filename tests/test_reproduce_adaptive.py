"""The adaptive mechanism's paper, table by table: cheap tasks, and checks that can fail."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import DataError, InputError
from leastnoise.core.operators import EveryRange
from leastnoise.papers.reproductions.adaptive import REPRODUCTIONS, text
from leastnoise.papers.reproductions.adaptive.adaptive_tasks import (
    EIGEN,
    METHODS,
    OURS,
    PAPER,
    error_of,
    n_cells,
    paper_workload,
    planned,
    true_answers,
    variances,
)
from leastnoise.papers.reproductions.adaptive.adult_and_census import TABLES, counts_of
from leastnoise.papers.reproductions.adaptive.figure_3 import relative_of
from leastnoise.papers.reproductions.reproduction import Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Row
from leastnoise.papers.reproductions.verdicts import Check, verdict_of
from leastnoise.planning import design
from leastnoise.privacy import GDP
from leastnoise.query import Workload, workload_all_ranges
from support import refuses
from tolerances import ROUNDING, SOLVER

QUICK, FULL = Setting("quick"), Setting("full")
BY_NAME = {found.name: found for found in REPRODUCTIONS}
NAMES = ["example-4", "section-3-4", "section-3-5"]
NAMES += ["figure-3a", "figure-3b", "figure-3c", "figure-3d", "table-2", "figure-4", "figure-5"]


def named(name: str) -> Reproduction:
    return BY_NAME[f"adaptive/{name}"]


def errors(**arguments: Any) -> list[Row]:
    """The row of a method on a workload."""
    return list(Task(error_of, arguments).rows(QUICK))


def computed(tasks: Iterable[Task]) -> list[Row]:
    return [row for task in tasks for row in task.rows(QUICK)]


def only(found: Sequence[Check], *words: str) -> Check:
    (check,) = [check for check in found if all(part in check.claim for part in words)]
    return check


def test_every_name_is_there_in_the_order_of_the_paper() -> None:
    # Statements follow, and have tests of their own.
    first = [found.name for found in REPRODUCTIONS][: len(NAMES)]
    assert first == [f"adaptive/{name}" for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("setting", [QUICK, FULL], ids=["quick", "full"])
def test_points_can_be_called_and_told_apart(name: str, setting: Setting) -> None:
    found = named(name)
    tasks = found.tasks(setting)
    assert tasks and found.notes and found.printed.page
    assert len({str(task) for task in tasks}) == len(tasks)
    for task in tasks:
        signature(task.work).bind(setting, **task.arguments)
        assert task.seconds > 0 and task.n_cells > 0
        assert all(value is None or isinstance(value, (str, int, float)) for value in task.arguments.values())
    methods = {task.arguments.get("method") for task in tasks}
    assert OURS in methods or "dense" in methods or name == "section-3-4"
    if setting.is_quick:
        assert not any(task.needs_gpu() for task in tasks)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_run_is_said_to_be_not_run(name: str) -> None:
    found = named(name).checks([])
    assert found and {check.verdict for check in found} == {"not run"}
    refused = [{**task.arguments, "note": "refused"} for task in named(name).tasks(QUICK)]
    assert verdict_of(named(name).checks(refused)) == "not run"


# Example 4 -----------------------------------------------------------------------------------


def test_example_4() -> None:
    found = named("example-4")
    checks = found.checks(computed(found.tasks(QUICK)))
    assert only(checks, "eigen strategy").verdict == "better"
    assert only(checks, "nearly optimal").verdict == "better"
    # Workload and wavelet share one scale; the identity is printed on another, and reported as such.
    assert only(checks, "the wavelet").verdict == "reached"
    outlier = only(checks, "identity")
    assert outlier.verdict == "differs" and outlier.cause is not None and outlier.cause.is_found


def test_more_noise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def noisier(workload: Workload, goal: Any, **given: Any) -> Any:
        return design(workload, GDP(0.9), **given)

    monkeypatch.setattr(text, "design", noisier)
    found = named("example-4")
    checks = found.checks(computed(found.tasks(QUICK)))
    assert only(checks, "identity").verdict == only(checks, "eigen strategy").verdict == "differs"


# Sections 3.4 and 3.5 ------------------------------------------------------------------------


@pytest.mark.thorough
def test_section_3_4(monkeypatch: pytest.MonkeyPatch) -> None:
    found = named("section-3-4")
    tasks = [p for p in found.tasks(QUICK) if p.arguments["workload"] in ("CDF", "2-way range marginals")]
    checks = found.checks(computed(tasks))
    verdicts = [check.verdict for check in checks]
    assert verdicts == ["reached", "reached", "reached", "differs", "reached", "reached", "reached", "better"]
    # A method that relies on the order of cells is not mistaken for one that adapts.
    monkeypatch.setitem(METHODS, EIGEN, ("wavelet", {}))
    (cdf,) = [task for task in tasks if task.arguments["workload"] == "CDF"]
    broken = found.checks(computed([cdf]))
    assert only(broken, "as it is, eigenvalues distinct", "proposition 5").verdict == "differs"


def section_3_5() -> Sequence[Check]:
    tasks = [
        task
        for task in named("section-3-5").tasks(QUICK)
        if task.arguments["basis"] == "Wavelet" and task.arguments["shape"] == "4x8x8"
        if task.arguments["method"] in ("equal weights", "best weights")
    ]
    return named("section-3-5").checks(computed(tasks))


@pytest.mark.thorough
def test_section_3_5(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = section_3_5()
    assert [check.verdict for check in checks[:3]] == ["reached", "reached", "not run"]

    def unweighed(workload: Workload, goal: Any, *, method: str, options: Any, time_limit: float) -> Any:
        return design(workload, goal, method="wavelet")

    monkeypatch.setattr(text, "design", unweighed)
    assert [check.verdict for check in section_3_5()[:3]] == ["differs", "differs", "not run"]


# Workloads and tables ------------------------------------------------------------------------


def test_permuted_ranges_by_another_route() -> None:
    """The triangle has the errors of the ranges themselves, columns permuted and rows listed."""
    n, seed = 12, 3
    question = paper_workload("permuted ranges", str(n), seed)
    order = np.random.default_rng(seed).permutation(n)
    ranges = EveryRange(n).dense(np.int64)
    listed = Workload.from_matrix(ranges[:, order])
    assert question.n_queries == len(ranges)
    for method in (EIGEN, "Wavelet", "Hierarchical"):
        plan = planned(QUICK, question.workload, method)
        direct = planned(QUICK, listed, method)
        assert plan.certificate.achieved == pytest.approx(direct.certificate.achieved, rel=2 * SOLVER)
        assert direct.stderr is not None
        np.testing.assert_allclose(variances(plan, question, str(n)), direct.stderr**2, rtol=100 * SOLVER)
    # In their own order the ranges cost a wavelet less.
    plain = planned(QUICK, workload_all_ranges(n), "Wavelet")
    assert plain.certificate.achieved < planned(QUICK, listed, "Wavelet").certificate.achieved * (1 - SOLVER)
    counts = np.arange(n)
    np.testing.assert_allclose(true_answers(question, counts), ranges @ counts, rtol=ROUNDING)


def test_workloads_are_what_they_are_called() -> None:
    rows = paper_workload("random ranges", "4x3", 1).workload.dense()
    assert rows.shape == (12, 12)
    for row in rows.reshape(-1, 4, 3):
        sides = row.any(axis=1), row.any(axis=0)
        assert np.array_equal(row, np.outer(*sides))
        assert all((np.diff(np.flatnonzero(side)) == 1).all() for side in sides)
    assert (paper_workload("random ranges", "4x3", 2).workload.dense() != rows).any()
    marginals = paper_workload("random marginals", "2x3x4", 1).workload
    assert len(marginals.blocks) == 3
    assert all(block.operator.shape[0] < 24 for block in marginals.blocks)
    with refuses(InputError, "workload", "ranges", "has no workload 'ranges'"):
        paper_workload("ranges", "4")


LINES = """39, State-gov, 77516, Bachelors, 13, x, y, z, White, Male, 2174, 0, 40, United-States, <=50K
90, Never-worked, 1, Preschool, 1, x, y, z, White, Male, 0, 0, 40, United-States, >50K

90, ?, 1, Preschool, 1, x, y, z, White, Male, 0, 0, 40, United-States, >50K
"""


def test_adult_is_read(tmp_path: Path) -> None:
    (tmp_path / "adult.data").write_text(LINES, encoding="utf-8")
    counts, source = counts_of("Adult", TABLES["Adult"], tmp_path)
    cube = counts.reshape(8, 8, 16, 2)
    assert source == "adult.data" and counts.sum() == 3
    assert cube[2, 5, 12, 0] == 1 and cube[7, 6, 0, 1] == 1 and cube[7, 7, 0, 1] == 1
    coarse, _ = counts_of("Adult", "4x4x8x2", tmp_path)
    assert coarse.reshape(4, 4, 8, 2)[3, 3, 0, 1] == 2 and coarse.sum() == 3
    (tmp_path / "adult.data").write_text("1, 2, 3\n", encoding="utf-8")
    with refuses(DataError, "data", ..., "holds a line that is not of UCI Adult"):
        counts_of("Adult", TABLES["Adult"], tmp_path)
    with refuses(DataError, "data", ..., "cannot read"):
        counts_of("Adult", TABLES["Adult"], tmp_path / "nowhere")
    stand_in, source = counts_of("US Census", "2048", None)
    assert source == "stand-in" and stand_in.sum() == 15_000_000 and len(stand_in) == 2048


def test_relative_errors_by_simulation() -> None:
    """E|noise| over the answers, against noise that is drawn: within five standard errors of 4,000 draws."""
    setting, shape = Setting("quick"), "4x4x8x2"
    arguments: dict[str, Any] = {"table": "Adult", "shape": shape, "workload": "2-way marginals", "seed": 1}
    rows = list(relative_of(setting, method="DataCube", **arguments))
    assert [row["epsilon"] for row in rows] == [0.1, 0.5, 1.0]
    question = paper_workload("2-way marginals", shape)
    counts, _ = counts_of("Adult", shape, None)
    plan = design(question.workload, PAPER, method="datacube")
    strategy = plan.fixed_strategy()
    generator = np.random.default_rng(1)
    draws = generator.standard_normal((4_000, strategy.n_measured)) * math.sqrt(strategy.noise_variance)
    noise = np.abs(question.workload.dense() @ strategy.pseudo_inverse @ draws.T)  # type: ignore[attr-defined]
    answers = np.maximum(question.workload.dense() @ counts, counts.sum() / 1000)
    means = (noise / answers[:, None]).mean(axis=0)
    spread = 5 * means.std() / math.sqrt(len(means))
    found = float(rows[1]["relative_error"])  # type: ignore[arg-type]
    assert found == pytest.approx(means.mean(), rel=0, abs=spread)
    assert 1.1 * found != pytest.approx(means.mean(), rel=0, abs=spread)
    assert float(rows[0]["relative_error"]) == pytest.approx(5 * found)  # type: ignore[arg-type]


# Figures and the table -----------------------------------------------------------------------


def at_shape(name: str, shape: str, workload: str) -> list[Row]:
    wanted = {"shape": shape, "workload": workload}
    return computed(task for task in named(name).tasks(QUICK) if wanted.items() <= task.arguments.items())


def test_marginals_match_the_bound_and_a_worse_strategy_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = named("figure-3c").checks(at_shape("figure-3c", "4x8x8", "2-way marginals"))
    bound = only(checks, "is that of the bound")
    assert bound.verdict == "reached" and only(checks, "nearly the best").verdict == "reached"
    monkeypatch.setitem(METHODS, EIGEN, ("identity", {}))
    broken = named("figure-3c").checks(at_shape("figure-3c", "4x8x8", "2-way marginals"))
    assert only(broken, "is that of the bound").verdict == "differs"


def ranges_of_32_cells() -> Sequence[Check]:
    methods = (EIGEN, "Wavelet", "Hierarchical", OURS)
    rows = [errors(workload="all ranges", shape="32", method=method) for method in methods]
    return named("figure-3a").checks([row for found in rows for row in found])


def test_an_optimum_that_is_none_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = ranges_of_32_cells()
    assert only(checks, "nearly the best").verdict == "better"
    assert only(checks, "within a factor of 1.3").verdict == "reached"
    monkeypatch.setitem(METHODS, OURS, ("hierarchical", {}))
    assert only(ranges_of_32_cells(), "nearly the best").verdict == "differs"
    monkeypatch.setitem(METHODS, EIGEN, ("identity", {}))
    assert only(ranges_of_32_cells(), "within a factor of 1.3").verdict == "differs"


def row_of(workload: str, shape: str, method: str, error: float, seed: int = 0) -> Row:
    return {
        "workload": workload,
        "shape": shape,
        "method": method,
        "seed": seed,
        "error": error,
        "lower_bound": 1.0,
    }


def test_table_2_reads_draws_and_sizes() -> None:
    """Made-up errors: a printed ratio is compared at 2,048 cells, over draws, and nowhere else."""
    name, line = "permuted ranges", "2048"
    rows = [row_of(name, line, EIGEN, 1.01), row_of(name, "256", "Wavelet", 3.0)]
    rows += [row_of(name, line, "Wavelet", 9.6, 0), row_of(name, line, "Wavelet", 9.8, 1)]
    checks = named("table-2").checks(rows)
    assert only(checks, "permuted ranges: workload error of Wavelet").verdict == "reached"
    assert only(checks, "permuted ranges: bound").verdict == "reached"
    assert only(checks, "permuted ranges: workload error of Hierarchical").verdict == "not run"
    single = named("table-2").checks(rows[:3])
    assert only(single, "permuted ranges: workload error of Wavelet").verdict == "differs"


def test_table_2_says_what_was_tried() -> None:
    """Fourier, 7.69 printed: with and without the queries that no marginal needs, neither gives it."""
    name = "1-way range marginals"
    rows = [row_of(name, "8x16x16", EIGEN, 1.0), row_of(name, "8x16x16", "Fourier", 1.46)]
    check = only(named("table-2").checks(rows), f"{name}: workload error of Fourier")
    assert check.verdict == "differs" and check.cause is not None
    assert not check.cause.is_found and "none left out" in check.cause.tried


def test_figures_4_and_5_on_few_cells() -> None:
    shape = "2x2x2x2x2x2"
    rows: list[Row] = []
    for workload, size in (("all ranges", "64"), ("2-way marginals", shape)):
        vectors = max(1, round(0.06 * n_cells(size)))
        for method, option, value in (
            (EIGEN, "", None),
            ("eigen-separation", "group_size", 16),
            ("principal-vectors", "vectors", vectors),
        ):
            rows += errors(workload=workload, shape=size, method=method, option=option, value=value)
    checks = named("figure-4").checks(rows)
    assert only(checks, "eigen-separation, all ranges").verdict == "better"
    assert only(checks, "principal vectors on marginals").verdict != "not run"
    rows = [
        row
        for workload in ("all ranges", "permuted ranges")
        for basis in ("eigen", "wavelet")
        for row in errors(workload=workload, shape="64", method="eigen", seed=1, option="basis", value=basis)
    ]
    checks = named("figure-5").checks(rows)
    assert only(checks, "permuted cells").verdict == "reached"
    assert only(checks, "more than 4 times worse").verdict == "differs"
