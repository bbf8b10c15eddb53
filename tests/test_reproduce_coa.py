"""The figures of COA again: every name, cheap tasks of each kind, verdicts that notice a broken method."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import DataError
from leastnoise.papers import coa as coa_module
from leastnoise.papers.reproductions.coa import REPRODUCTIONS, convergence, setup
from leastnoise.papers.reproductions.coa import figures_14_15 as dawa
from leastnoise.papers.reproductions.coa import lemma_4 as theory
from leastnoise.papers.reproductions.coa import time as timing
from leastnoise.papers.reproductions.coa.eight_tables import REAL, SYNTHETIC, counts_of
from leastnoise.papers.reproductions.coa.setup import (
    KINDS,
    drawn,
    is_similar,
    noise_scale,
    ratios,
    three_sizes,
)
from leastnoise.papers.reproductions.reproduction import Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Row, mean, numbers
from leastnoise.papers.reproductions.verdicts import Check
from leastnoise.privacy import PureDP
from leastnoise.report import compare
from support import extra, refuses
from tolerances import ROUNDING

QUICK = Setting("quick", time_limit=30.0)
NAMES = [f"coa/figure-{number}" for number in range(1, 16)] + ["coa/lemma-4", "coa/sdp"]
BY_NAME = {found.name: found for found in REPRODUCTIONS}


def rows_of(name: str, wanted: Callable[[Task], bool]) -> list[Row]:
    tasks = [task for task in BY_NAME[name].tasks(QUICK) if wanted(task)]
    assert tasks
    return [row for task in tasks for row in task.rows(QUICK)]


def found_in(name: str, rows: Sequence[Row], claim: str) -> Check:
    """The one check whose claim starts like this."""
    (check,) = (check for check in BY_NAME[name].checks(rows) if check.claim.startswith(claim))
    return check


def backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """COA that goes uphill after its first step, and so stops there."""
    real = coa_module._newton_direction
    monkeypatch.setattr(coa_module, "_newton_direction", lambda *known: -real(*known))


# Names, tasks, claims -----------------------------------------------------------------------


def test_every_figure_is_there_in_the_papers_order() -> None:
    # Lemmas and theorems follow, and have tests of their own.
    assert [found.name for found in REPRODUCTIONS][: len(NAMES)] == NAMES
    assert all(found.paper == "coa" and found.notes and found.printed.page for found in REPRODUCTIONS)


@pytest.mark.parametrize("size", ["quick", "full"])
@pytest.mark.parametrize("found", REPRODUCTIONS, ids=lambda found: found.name)
def test_points_are_listed_apart_and_travel(found: Reproduction, size: Any) -> None:
    tasks = found.tasks(Setting(size))
    known = {(task.work.__qualname__, tuple(task.arguments.items())) for task in tasks}
    assert tasks and len(known) == len(tasks)
    assert all(task.seconds > 0 and pickle.loads(pickle.dumps(task)) == task for task in tasks)
    assert size == "full" or not any(task.needs_gpu() for task in tasks)
    for task in tasks:
        assert task.n_cells == task.arguments["n"]


def test_the_quick_size_is_quick_and_the_full_one_is_the_papers() -> None:
    quick, full = ([p for found in REPRODUCTIONS for p in found.tasks(Setting(s))] for s in ("quick", "full"))
    assert sum(task.seconds for task in quick) < 260
    assert all(task.seconds > 0 for task in full)
    domain = {task.arguments["n"] for task in BY_NAME["coa/figure-4"].tasks(Setting("full"))}
    assert domain == {64, 128, 256, 512, 1024, 2048, 4096, 8192}
    queries = {task.arguments["m"] for task in BY_NAME["coa/figure-6"].tasks(Setting("full"))}
    assert queries >= {32, 8192}


@pytest.mark.parametrize("found", REPRODUCTIONS, ids=lambda found: found.name)
def test_without_rows_every_claim_is_listed_as_not_run(found: Reproduction) -> None:
    checks = found.checks([])
    assert {check.verdict for check in checks} == {"not run"}
    prefixes = tuple(f"{kind}: " for kind in KINDS)
    claimed = [next((c.claim[len(p) :] for p in prefixes if c.claim.startswith(p)), c.claim) for c in checks]
    assert {claim.removesuffix("; DAWA as published") for claim in claimed} == set(
        found.printed.says.values()
    )
    assert len(set(claimed)) in (len(checks), len(checks) / len(KINDS))


def test_a_point_that_was_not_run_is_no_number() -> None:
    rows = [{"method": "coa", "n": 16, "draw": 1, "note": "not run: too large"}]
    assert mean(numbers(rows, "error", method="coa")) is None and ratios(rows, "coa", "coa", "n") == {}
    for name in ("coa/figure-2", "coa/figure-12", "coa/figure-14", "coa/sdp", "coa/lemma-4"):
        noted = [{**task.arguments, "note": "not run"} for task in BY_NAME[name].tasks(QUICK)]
        assert {check.verdict for check in BY_NAME[name].checks(noted)} == {"not run"}


# Workloads, noise, words ---------------------------------------------------------------------


def test_workloads_and_noise_are_those_of_section_5() -> None:
    assert noise_scale() == pytest.approx(2 * math.log(2e4) / 0.01, rel=ROUNDING)
    for bits in range(2, 14):
        sizes = three_sizes(2**bits)
        assert math.prod(sizes) == 2**bits and max(sizes) <= 4 * min(sizes)
    for kind in KINDS:
        one, again, other = (drawn(kind, 24, 16, seed).dense() for seed in (1, 1, 2))
        assert one.shape == (24, 16) and np.array_equal(one, again) and not np.array_equal(one, other)
    assert np.linalg.matrix_rank(drawn("WRelated", 24, 16, 1).dense()) == 8
    assert np.linalg.matrix_rank(drawn("WRelated", 24, 16, 1, 0.25).dense()) == 4
    assert is_similar(2.0) and is_similar(0.5) and not is_similar(2.01) and not is_similar(0.49)


def test_ratios_are_taken_on_the_same_draws() -> None:
    rows = [
        {"method": "a", "n": 8, "draw": 1, "error": 2.0},
        {"method": "a", "n": 8, "draw": 2, "error": 100.0},
        {"method": "b", "n": 8, "draw": 1, "error": 1.0},
        {"method": "b", "n": 16, "draw": 1, "error": 1.0},
    ]
    assert ratios(rows, "a", "b", "n") == {8.0: 2.0}


# Errors --------------------------------------------------------------------------------------


def small(task: Task) -> bool:
    return task.arguments["n"] in (32, 64) and task.arguments["draw"] == 1


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["coa/figure-2", "coa/figure-4"])
def test_errors_against_the_domain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(name, small)
    dense = [row for row in rows if row["method"] == "dense"]
    for row in rows:
        (best,) = (other for other in dense if other["n"] == row["n"])
        assert row["error"] >= best["lower_bound"] * (1 - ROUNDING)  # type: ignore[operator]
    for claim in ("COA is best", "LRM is best", "the optimum of Program (9)", "COA and LRM have comparable"):
        assert found_in(name, rows, claim).verdict == "reached", claim
    assert found_in(name, rows, "COA gains more than two").verdict == "not run"
    backwards(monkeypatch)
    broken = [row for row in rows if row["method"] != "coa"]
    broken += rows_of(name, lambda task: small(task) and task.arguments["method"] == "coa")
    assert found_in(name, broken, "COA is best").verdict == "differs"
    assert found_in(name, broken, "COA finds that optimum").verdict == "differs"
    assert found_in(name, broken, "LRM is best").verdict == "reached"


@pytest.mark.thorough
def test_a_worse_optimum_would_be_seen() -> None:
    rows = rows_of("coa/figure-6", lambda task: task.arguments["m"] == 64 and task.arguments["draw"] == 1)
    assert found_in("coa/figure-6", rows, "the optimum of Program (9)").verdict == "reached"
    assert found_in("coa/figure-6", rows, "WM improves").verdict == "reached"
    worse = [{**row, "error": 1.2 * row["error"]} if row["method"] == "dense" else row for row in rows]  # type: ignore[operator]
    assert found_in("coa/figure-6", worse, "the optimum of Program (9)").verdict == "differs"
    swapped = [
        {
            **row,
            "method": {"wavelet": "identity", "identity": "wavelet"}.get(str(row["method"]), row["method"]),
        }
        for row in rows
    ]
    assert found_in("coa/figure-6", swapped, "WM improves").verdict == "differs"


@pytest.mark.thorough
def test_the_rank_decides_what_is_gained() -> None:
    rows = rows_of(
        "coa/figure-10",
        lambda p: (
            p.arguments["share"] in (0.1, 1.0)
            and p.arguments["draw"] == 1
            and p.arguments["method"] != "lowrank"
        ),
    )
    assert found_in("coa/figure-10", rows, "the gap to GM closes").verdict == "reached"
    turned = [{**row, "share": 1.1 - row["share"]} for row in rows]  # type: ignore[operator]
    assert found_in("coa/figure-10", turned, "the gap to GM closes").verdict == "differs"
    assert found_in("coa/figure-10", rows, "COA is below AM by an order").verdict == "differs"


# Convergence, time ---------------------------------------------------------------------------


def test_convergence_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "coa/figure-1"
    rows = rows_of(name, lambda task: task.arguments["workload"] == "WRange")
    steps = [row for row in rows if row["method"] == "coa"]
    assert [row["iteration"] for row in steps] == list(range(len(steps)))
    # The simulated error has the mean that is expected: 20 executions of 64 directions, within a half.
    assert all(0.5 < row["test_error"] / row["error"] < 1.5 for row in steps)  # type: ignore[operator]
    for claim in ("the objective falls", "the test error", "there COA has converged", "the homotopy"):
        assert found_in(name, rows, f"WRange: {claim}").verdict == "reached", claim
    # Its own objective is bounded too, so that what θ costs and what stopping costs are told apart.
    bound = mean(numbers(rows, "objective_bound", method="dense, with θ"))
    assert bound is not None and all(row["objective"] >= bound for row in steps)  # type: ignore[operator]
    assert bound > mean(numbers(rows, "lower_bound", method="dense"))  # type: ignore[operator]
    backwards(monkeypatch)
    broken = rows_of(name, lambda task: task.arguments["workload"] == "WRange")
    assert "above the optimum of its own" in found_in(name, broken, "WRange: there COA has converged").why
    assert found_in(name, broken, "WRange: there COA has converged").verdict == "differs"
    assert found_in(name, broken, "WDiscrete: the objective falls").verdict == "not run"
    risen = [{**row, "objective": -row["objective"]} if "objective" in row else row for row in rows]  # type: ignore[operator]
    assert found_in(name, risen, "WRange: the objective falls").verdict == "differs"


def timed_rows(**seconds: dict[int, float]) -> list[Row]:
    return [
        {"workload": "WRange", "m": 1024, "n": n, "draw": 1, "method": method, "seconds": value}
        | {"iterations": 8 if method == "coa" else 190, "ended": "gamma"}
        for method, by_n in seconds.items()
        for n, value in by_n.items()
    ]


def test_claims_about_time_follow_the_times() -> None:
    name = "coa/figure-12"
    as_said = timed_rows(coa={512: 1.0, 8192: 100.0}, lowrank={512: 5.0, 8192: 50.0})
    for claim in ("COA is faster", "with 8,192 cells", "COA converges within", "LRM takes about 200"):
        assert found_in(name, as_said, f"WRange: {claim}").verdict == "reached", claim
    other = timed_rows(coa={512: 9.0, 8192: 10.0}, lowrank={512: 5.0, 8192: 50.0})
    assert found_in(name, other, "WRange: COA is faster").verdict == "differs"
    assert found_in(name, other, "WRange: with 8,192 cells").verdict == "differs"
    cut = [{**row, "is_cut": row["method"] == "lowrank"} for row in other]
    for claim in ("COA is faster", "with 8,192 cells"):
        found = found_in(name, cut, f"WRange: {claim}")
        assert found.verdict == "not run"
        assert found.why == "cut off by our time limit: LRM at n 512, 8,192"


@pytest.mark.thorough
def test_times_are_measured() -> None:
    tasks = BY_NAME["coa/figure-11"].tasks(QUICK)
    chosen = [p for p in tasks if p.arguments["workload"] == "WMarginal" and p.arguments["m"] == 16]
    rows = [row for task in chosen for row in task.rows(QUICK)]
    assert [row["method"] for row in rows] == list(timing.METHODS)
    assert all(row["seconds"] > 0 and row["clock"] == "processor" for row in rows)  # type: ignore[operator]
    constant = [{**row, "m": m} for m in (16, 1024) for row in rows]
    assert found_in("coa/figure-11", constant, "WMarginal: COA takes the same").verdict == "reached"
    slow = [{**row, "seconds": row["seconds"] * row["m"]} for row in constant]  # type: ignore[operator]
    assert found_in("coa/figure-11", slow, "WMarginal: COA takes the same").verdict == "differs"
    assert found_in("coa/figure-11", slow, "WMarginal: LRM takes longer").verdict == "reached"


# DAWA ----------------------------------------------------------------------------------------


def test_tables_are_counts_and_say_where_they_are_from(tmp_path: Path) -> None:
    for name in (*SYNTHETIC, *REAL):
        one, source = counts_of(name, 64, seed=3, data=None)
        again, other = (counts_of(name, 64, seed=seed, data=None)[0] for seed in (3, 4))
        assert one.shape == (64,) and one.dtype == np.int64 and one.min() >= 0 and np.array_equal(one, again)
        assert np.array_equal(one, other) == (name == "Random Alternating")
        assert source == ("as described" if name in SYNTHETIC else "stand-in")
    for name in SYNTHETIC[1:]:
        assert np.var(counts_of(name, 4096, seed=1, data=None)[0]) == pytest.approx(10, rel=0.15)
    lines = [f"39, State-gov, {weight}, Bachelors" for weight in (1, 1_499_999, 2_000_000)]
    (tmp_path / "adult.data").write_text("\n".join([*lines, ""]), encoding="utf-8")
    found, source = counts_of("UCI Adult", 4, seed=1, data=tmp_path)
    assert found.tolist() == [1, 0, 0, 2] and source == "adult.data"
    with refuses(DataError, "data", "adult.data", "cannot read adult.data in the folder given"):
        counts_of("UCI Adult", 4, seed=1, data=tmp_path / "elsewhere")


def test_dawa_does_not_see_a_constant() -> None:
    """The paper's mean-zero tables are moved up: no error changes; another move would be seen."""
    workload = drawn("WRange", 20, 32, 1)
    counts, _ = counts_of("Random Uniform", 32, seed=1, data=None)

    def error(x: Any) -> float:
        (found,) = compare(workload, PureDP(0.1), methods=["dawa"], data=x).contenders
        assert found.achieved is not None
        return found.achieved

    assert error(counts + 1000) == pytest.approx(error(counts), rel=1e-9)
    assert error(counts + 1000 * (np.arange(32) % 2)) != pytest.approx(error(counts), rel=0.1)


@pytest.mark.thorough
def test_dawa_beside_coa(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "coa/figure-15"

    def chosen(task: Task) -> bool:
        return task.arguments["m"] == 16

    rows = rows_of(name, chosen)
    assert {row["table"] for row in rows} == {*SYNTHETIC, *REAL}
    for row in rows:
        if not str(row["method"]).startswith(("dawa", "coa")):
            exact = str(row["method"]).startswith("dense, exact noise")
            same = [r for r in rows if r.get("delta") == row["delta"] and str(r["method"]).startswith("coa")]
            assert exact or row["error"] <= same[0]["error"]  # type: ignore[operator]
    assert found_in(name, rows, "COA is generally better").verdict == "differs"
    # A thousandth of the noise would make the claims of the paper true.
    real = dawa.noise_scale
    monkeypatch.setattr(dawa, "noise_scale", lambda delta: real(delta) / 1000)
    quiet = [row for row in rows if row["method"] == "dawa"]
    quiet += rows_of(name, lambda task: chosen(task) and "method" in task.arguments)
    of_ours = [check for check in BY_NAME[name].checks(quiet) if not check.claim.endswith("as published")]
    for claim in ("COA is generally better", "DAWA does poorly", "DAWA is better only"):
        (check,) = (check for check in of_ours if check.claim.startswith(claim))
        assert check.verdict == "reached", claim


# Lemma 4, semidefinite programs --------------------------------------------------------------


def test_lemma_4(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("coa/lemma-4", lambda task: task.arguments["workload"] in ("prefix", "WRelated"))
    verdicts = [check.verdict for check in BY_NAME["coa/lemma-4"].checks(rows)]
    assert verdicts == ["reached", "reached", "differs", "reached"]
    real = theory.coa
    for factor, expected in ((0.01, ["differs", "reached"]), (100.0, ["reached", "differs"])):

        def scaled(*given: Any, factor: float = factor, **named: Any) -> Any:
            found = real(*given, **named)
            return replace(found, objectives=tuple(factor * value for value in found.objectives))

        monkeypatch.setattr(theory, "coa", scaled)
        broken = rows_of("coa/lemma-4", lambda task: task.arguments["workload"] == "prefix")
        assert [check.verdict for check in BY_NAME["coa/lemma-4"].checks(broken)][:2] == expected


def test_semidefinite_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    extra("cvxpy")

    def chosen(task: Task) -> bool:
        return task.arguments["workload"] == "WDiscrete" and task.arguments["n"] == 8

    name = "coa/sdp"
    rows = rows_of(name, chosen)
    assert found_in(name, rows, "(18) is exact").verdict == "reached"
    assert found_in(name, rows, "with diag X").verdict == "reached"
    assert found_in(name, rows, "(19) is a relaxation").verdict == "differs"
    assert found_in(name, rows, "interior points").verdict == "not run"
    backwards(monkeypatch)
    broken = rows_of(name, chosen)
    assert found_in(name, broken, "COA finds the same").verdict == "differs"
    off = [{**row, "over_bound": 1.001 * row["over_bound"]} for row in rows]  # type: ignore[operator]
    assert found_in(name, off, "(18) is exact").verdict == "differs"


def test_what_runs_where() -> None:
    gpu = Setting("full", backend="cuda")
    assert setup.backend_of(gpu, "coa", 512) == "cuda"
    assert setup.backend_of(gpu, "coa", 256) == setup.backend_of(gpu, "wavelet", 8192) == "numpy"
    assert setup.backend_of(Setting("full"), "coa", 8192) == "numpy"
    assert convergence.NAME in BY_NAME
