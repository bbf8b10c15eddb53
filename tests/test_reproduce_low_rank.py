"""The reproductions of the low-rank paper: cheap tasks, checks that can fail, and second routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from leastnoise.core.errors import InputError
from leastnoise.papers.reproductions import low_rank
from leastnoise.papers.reproductions.low_rank import claims, examples
from leastnoise.papers.reproductions.low_rank import low_rank_tasks as works
from leastnoise.papers.reproductions.low_rank.low_rank_tasks import CELLS, SHARES, SHRINK, M, N, rank_of
from leastnoise.papers.reproductions.reproduction import Reproduction, Setting
from leastnoise.papers.reproductions.rows import Row, cell
from leastnoise.papers.reproductions.verdicts import Check, verdict_of
from leastnoise.planning import design
from leastnoise.privacy import PureDP
from support import refuses
from tolerances import ROUNDING, SOLVER

QUICK, FULL = Setting("quick"), Setting("full")
NAMES = {"example-1", "example-2", *(f"figure-{number}" for number in range(2, 10))}
BY_NAME = {found.name.partition("/")[2]: found for found in low_rank.REPRODUCTIONS}


def rows_of(name: str, setting: Setting = QUICK, **about: Any) -> list[Row]:
    """The rows of the tasks with these arguments."""
    tasks = [
        task
        for task in BY_NAME[name].tasks(setting)
        if all(task.arguments.get(key) in wanted for key, wanted in about.items())
    ]
    assert tasks, "no such task"
    return [row for task in tasks for row in task.rows(setting)]


def check(name: str, rows: Sequence[Row], words: str) -> Check:
    """The one check whose claim has these words."""
    (found,) = [found for found in BY_NAME[name].checks(rows) if words in found.claim]
    return found


def test_every_table_and_figure_is_there() -> None:
    # Lemmas and theorems are there too, and have tests of their own.
    assert set(BY_NAME) >= NAMES and len(low_rank.REPRODUCTIONS) == len(BY_NAME)
    assert all(found.paper == "low-rank" and found.printed.page for found in low_rank.REPRODUCTIONS)


@pytest.mark.parametrize("found", low_rank.REPRODUCTIONS, ids=lambda found: found.name)
def test_points_enumerate_and_nothing_run_is_nothing_said(found: Reproduction) -> None:
    for setting in (QUICK, FULL):
        tasks = found.tasks(setting)
        keys = {(task.work.__qualname__, tuple(sorted(task.arguments.items()))) for task in tasks}
        assert len(keys) == len(tasks) > 0
        assert all(task.seconds > 0 for task in tasks)
        # What a run notes where a task was refused has arguments and no numbers.
        noted: list[Mapping[str, Any]] = [{**task.arguments, "note": "not run"} for task in tasks]
        for rows in ([], noted):
            checks = found.checks(rows)
            assert checks and {entry.verdict for entry in checks} == {"not run"}, rows[:1]
    assert not any(task.needs_gpu() for task in found.tasks(QUICK))


def test_the_full_size_is_the_papers() -> None:
    def own(name: str, column: str) -> set[Any]:
        tasks = BY_NAME[name].tasks(FULL)
        return {p.arguments[column] for p in tasks if p.arguments["shrink"] == 1}

    for name in ("figure-4", "figure-5", "figure-6"):
        assert own(name, "n") == set(CELLS) and own(name, "m") == {M}
        methods = {"LRM", "LM", "WM", "HM", "NOQ", "AMM", "leastnoise", "bound"}
        assert own(name, "method") == methods
    assert own("figure-7", "m") == own("figure-8", "m") == {64, 128, 256, 512, 1024}
    assert own("figure-9", "s") == {rank_of("WRelated", M, N, share) for share in SHARES}
    assert own("figure-2", "n") == {N}
    large = [p for p in BY_NAME["figure-4"].tasks(FULL) if p.arguments["n"] == CELLS[-1]]
    assert {p.arguments["method"] for p in large if p.needs_gpu()} == {"LRM", "AMM"}


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "verdict"), [("example-1", "reached"), ("example-2", "better")])
def test_examples(name: str, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(name)
    checks = BY_NAME[name].checks(rows)
    assert verdict_of(checks) == verdict, [str(found) for found in checks]
    bound = cell(rows, "value", method="bound", query="all")
    assert bound is not None
    totals = [row["value"] for row in rows if row["query"] == "all" and row["method"] != "bound"]
    assert all(isinstance(total, float) and total >= bound for total in totals)
    # A tenth more noise than the goal asks for, and nothing printed is reached by a plan any more.
    monkeypatch.setattr(examples, "PureDP", lambda epsilon: PureDP(epsilon / 1.1**0.5))
    broken = BY_NAME[name].checks(rows_of(name))
    assert verdict_of(broken) == "differs"
    assert any("noise on data" in found.claim for found in broken if found.verdict == "differs")


@pytest.mark.thorough
def test_the_second_example_is_below_what_the_paper_calls_optimal() -> None:
    rows = rows_of("example-2", method=("three sums", "printed strategy", "leastnoise"))
    totals = {
        method: cell(rows, "value", method=method, query="all")
        for method in ("three sums", "printed strategy", "leastnoise")
    }
    assert totals == pytest.approx({"three sums": 38, "printed strategy": 39, "leastnoise": 38}, rel=SOLVER)
    assert check("example-2", rows, "no strategy has less").verdict == "better"
    alone = [row for row in rows if row["method"] == "printed strategy"]
    worse = [{**row, "method": "three sums"} for row in alone]
    assert check("example-2", worse, "no strategy has less").verdict == "reached"


def test_rows_that_do_not_answer_the_queries_are_refused() -> None:
    with refuses(InputError, "rows", ..., "rows do not answer these queries"):
        examples.measured_rows(np.eye(2), [[1, 0]])
    variances, sensitivity = examples.measured_rows(np.eye(2), [[2, 0], [0, 1]])
    assert variances == pytest.approx([2, 8]) and sensitivity == 2


@pytest.mark.parametrize("workload", ["WDiscrete", "WRange", "WRelated"])
def test_haar_coefficients_give_the_errors_of_the_plans(workload: str) -> None:
    """Two routes: eigenvectors without a matrix of cells, and the plans' own certificates."""
    asked = works.drawn(workload, 12, 32, rank_of(workload, 12, 32), 3)
    quick = works.fixed_errors(asked.dense().astype(float))
    plans = {"LM": "identity", "WM": "wavelet", "HM": "hierarchical"}
    for name, method in plans.items():
        planned = design(asked, PureDP(1.0), method=method).certificate.achieved
        assert 2 * quick[name] == pytest.approx(planned, rel=SOLVER)
        assert 2.01 * quick[name] != pytest.approx(planned, rel=SOLVER)
    with refuses(InputError, "n", 12):
        works.fixed_errors(np.ones((2, 12)))


def test_large_domains_do_without_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"workload": "WRange", "m": 8, "n": 64, "s": 0, "shrink": 1, "seed": 2, "draws": 2}

    def error(method: str) -> Any:
        (row,) = works.mechanism(QUICK, **place, method=method)  # type: ignore[arg-type]
        return row["error"], row["how"]

    planned = {method: error(method) for method in ("LM", "WM", "HM")}
    monkeypatch.setattr(works, "_MAX_PLANNED_CELLS", 32)
    for method, (value, how) in planned.items():
        other, other_how = error(method)
        assert other == pytest.approx(value, rel=SOLVER) and how != other_how


def test_draws_are_averaged_and_their_spread_is_told() -> None:
    place = {"workload": "WRange", "m": 8, "n": 16, "s": 0, "shrink": 1, "method": "LM"}

    def row(seed: int, draws: int) -> Any:
        (found,) = works.mechanism(QUICK, **place, seed=seed, draws=draws)  # type: ignore[arg-type]
        return found

    first, second, both = row(1, 1), row(2, 1), row(1, 2)
    assert both["error"] == pytest.approx((first["error"] + second["error"]) / 2, rel=ROUNDING)
    assert both["spread"] == pytest.approx(abs(first["error"] - second["error"]) / both["error"], rel=1e-9)
    assert first["error"] != pytest.approx(second["error"], rel=1e-3) and first["spread"] == 0
    with refuses(InputError, "workload", "WAll", "must be WDiscrete, WRange or WRelated, got 'WAll'"):
        works.drawn("WAll", 2, 2, 0, 1)


@pytest.mark.thorough
@pytest.mark.parametrize("workload", ["WDiscrete", "WRange", "WRelated"])
def test_nothing_is_below_the_bound(workload: str) -> None:
    place = {"workload": workload, "m": 8, "n": 32, "s": rank_of(workload, 8, 32), "seed": 1, "draws": 1}
    errors = {}
    for method in ("bound", "LRM", "LM", "WM", "HM", "NOQ", "AMM", "leastnoise"):
        (row,) = works.mechanism(QUICK, **place, shrink=1, method=method)  # type: ignore[arg-type]
        errors[method] = float(str(row["error"]))
        assert float(str(row["lower_bound"])) <= errors[method]
    bound = errors.pop("bound")
    assert all(bound <= error for error in errors.values())
    # It says something: twice of it is more than the best has, or four times for the hardest of the three.
    assert 4 * bound > min(errors.values())


@pytest.mark.thorough
def test_a_worse_mechanism_changes_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 5 at two sizes: LRM is well below the others, until its rows are those of noise on queries."""
    about = {"shrink": (16,), "n": (32, 64), "method": ("LRM", "LM", "WM", "HM", "leastnoise")}
    words = "cells on the others have at least"
    sound = rows_of("figure-5", **about)
    assert check("figure-5", sound, words).verdict == "reached"
    assert check("figure-5", sound, "least error of all").verdict in ("better", "reached")
    monkeypatch.setitem(works._MECHANISMS, "LRM", works._MECHANISMS["NOQ"])
    assert check("figure-5", rows_of("figure-5", **about), words).verdict == "differs"


def test_noise_at_another_scale_changes_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 5 at the paper's own sizes: wavelets cross noise on cells at 512 cells, as printed."""
    about = {"shrink": (1,), "n": (256, 512), "method": ("LM", "WM")}
    sound = rows_of("figure-5", **about)
    assert check("figure-5", sound, "WM has less error than LM").verdict == "reached"
    scaled = [{**row, "error": 1.2 * float(str(row["error"]))} for row in sound if row["method"] == "WM"]
    others = [row for row in sound if row["method"] != "WM"]
    assert check("figure-5", [*others, *scaled], "WM has less error than LM").verdict == "differs"


@pytest.mark.thorough
def test_two_orders_of_magnitude_are_refuted_by_the_bound() -> None:
    """Figure 9 at the paper's own size: no Laplace noise is a hundred times better than noise on cells."""
    rank = rank_of("WRelated", M, N, SHARES[0])
    rows = rows_of("figure-9", shrink=(1,), s=(rank,), method=("LM", "bound"))
    values = {str(row["method"]): float(str(row["error"])) for row in rows}
    assert 1 < values["LM"] / values["bound"] < claims.HUNDRED
    small = rows_of("figure-9", shrink=(16,), s=(2,), method=("LRM", "LM"))
    found = check("figure-9", [*rows, *small], "LM has at least 100 times")
    assert found.verdict == "differs" and "proved" in found.cause.tested and "at most 2" in found.ours
    lucky = [{**row, "error": 1.0} if row["method"] == "LRM" else row for row in small]
    assert check("figure-9", [*rows, *lucky], "LM has at least 100 times").verdict == "reached"


def curve(method: str, column: str, values: Mapping[int, float], **more: Any) -> list[Row]:
    return [{"method": method, column: x, "shrink": 1, "error": y, **more} for x, y in values.items()]


@pytest.mark.parametrize(("power", "verdict"), [(0.0, "differs"), (1.0, "reached"), (2.0, "differs")])
def test_linear_means_the_first_power(power: float, verdict: str) -> None:
    rows = [
        row for name in ("LM", "WM", "HM") for row in curve(name, "n", {n: 3.0 * n**power for n in CELLS})
    ]
    assert check("figure-4", rows, "linear in n").verdict == verdict


@pytest.mark.parametrize(("growth", "verdict"), [(1.4, "reached"), (1.6, "differs")])
def test_an_error_that_stops_growing(growth: float, verdict: str) -> None:
    rows = curve("LRM", "n", {n: growth if n > 512 else 1.0 for n in CELLS})
    assert check("figure-4", rows, "grows by less than half").verdict == verdict


def test_one_draw_that_was_cut_off_cuts_off_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    are_cut = iter([False, True, False, False])
    monkeypatch.setitem(
        works._MECHANISMS, "LRM", lambda problem: works.MechanismResult(1.0, 0.5, "by itself", next(are_cut))
    )
    place = {"workload": "WRange", "m": 4, "n": 8, "s": 0, "shrink": 16, "seed": 1, "method": "LRM"}
    cut, whole = (next(works.mechanism(QUICK, draws=2, **place)) for _ in range(2))  # type: ignore[arg-type]
    assert cut["is_cut"] and not whole["is_cut"]


def test_low_rank_is_not_judged_where_time_has_ended_it() -> None:
    def rows(is_cut: bool) -> list[Row]:
        flat = {"LM": 5.0, "WM": 6.0, "HM": 7.0}
        others = [
            row for name, error in flat.items() for row in curve(name, "n", dict.fromkeys(CELLS, error))
        ]
        ended = curve("LRM", "n", dict.fromkeys(CELLS[:-1], 4.0), is_cut=False)
        return [*others, *ended, *curve("LRM", "n", {CELLS[-1]: 50.0}, is_cut=is_cut)]

    claim = "LRM has the least error of LRM, LM, WM and HM"
    found = check("figure-6", rows(False), claim)
    assert found.verdict == "differs" and "LM has less than LRM at 8,192" in found.why
    assert check("figure-6", rows(True), claim).verdict == "reached"
    others = [row for row in rows(True) if row["method"] != "LM"]
    beaten = check("figure-6", [*others, *curve("LM", "n", dict.fromkeys(CELLS, 3.0))], claim)
    assert "5 of" not in beaten.why and "8,192" not in beaten.why
    # Where it came to its end at one size at most, the smaller workloads are what is judged.
    assert claims.scale(rows(True)) == 1
    assert claims.scale([row for row in rows(True) if row["method"] != "LRM"]) == SHRINK


def test_figure_7_says_who_is_best_with_many_queries() -> None:
    def rows(low_rank_error: float) -> list[Row]:
        flat = {"LM": 5.0, "WM": 1.0, "HM": 2.0, "LRM": low_rank_error}
        return [row for name, value in flat.items() for row in curve(name, "m", {64: 9 * value, 1024: value})]

    assert check("figure-7", rows(1.5), "WM has the least error").verdict == "reached"
    assert check("figure-7", rows(0.5), "WM has the least error").verdict == "differs"


# Figures 2 and 3 -----------------------------------------------------------------------------

SMALL = {"workload": "WRange", "m": 8, "n": 32, "s": 0, "shrink": 16, "seed": 1}


def decomposed(ratio: float, gamma: float) -> list[Row]:
    return list(works.decomposition(QUICK, **SMALL, ratio=ratio, gammas=f"{gamma:g}"))  # type: ignore[arg-type]


def test_algorithm_1_as_printed_keeps_theorem_3() -> None:
    """Error ≤ 2 trace BᵀB/ε² + γ² Σx², with the square that the print leaves out."""
    x = works.stand_in(32)
    for row in decomposed(1.2, 0.1):
        assert row["ended"] == "gamma"
        residual, distance = float(str(row["residual"])), float(str(row["distance"]))
        assert residual <= distance == 0.1 / 16
        if row["method"] == "LRM as printed":
            missed, noise = float(str(row["missed"])), float(str(row["noise"]))
            assert 0 < missed * SMALL["m"] <= residual**2 * (x @ x)  # type: ignore[operator]
            assert row["error"] == pytest.approx(noise + missed, rel=ROUNDING)
            assert missed > residual**2, "data of such a size do count"


def test_one_run_to_the_least_gamma_ends_where_a_run_of_its_own_would() -> None:
    """γ only says when Algorithm 1 ends, so that six searches were five too many."""
    together = list(works.decomposition(QUICK, **SMALL, ratio=1.2, gammas="0.1 1 10"))  # type: ignore[arg-type]
    for gamma in (0.1, 1.0, 10.0):
        alone = decomposed(1.2, gamma)
        same = [row for row in together if row["gamma"] == gamma]
        assert [{**row, "seconds": 0} for row in same] == [{**row, "seconds": 0} for row in alone]


@pytest.mark.thorough
def test_fewer_rows_than_the_rank_miss_some_queries() -> None:
    few, enough = decomposed(0.8, 0.01), decomposed(1.2, 0.01)
    about = {"method": "LRM as printed", "epsilon": 0.1}
    worse, better = cell(few, "error", **about), cell(enough, "error", **about)
    assert worse is not None and better is not None and worse > 10 * better
    assert all(row["error"] is None for row in few if row["method"] == "LRM unbiased")
    assert all(row["error"] is not None for row in enough if row["method"] == "LRM unbiased")


def test_the_stand_in_is_merged_in_order() -> None:
    fine, coarse = works.stand_in(64), works.stand_in(32)
    assert coarse == pytest.approx(fine.reshape(32, 2).sum(axis=1), rel=ROUNDING)
    assert fine.sum() == pytest.approx(5 * 65_536, rel=0.1)


def test_gamma_that_matters_changes_the_verdict() -> None:
    def rows(last: float) -> list[Row]:
        about = {"workload": "WRange", "epsilon": 0.1, "method": "LRM as printed"}
        errors = {0.0001: 1.0, 0.001: 1.1, 0.01: 1.0, 0.1: 1.0, 1.0: 1.2, 10.0: last}
        return [
            {**about, "gamma": gamma, "error": error, "noise": 1.0, "seconds": 1 / gamma, "rounds": 5}
            for gamma, error in errors.items()
        ]

    words = "WRange, LRM as printed: over all gamma"
    assert check("figure-2", rows(1.3), words).verdict == "reached"
    assert check("figure-2", rows(3.0), words).verdict == "differs"
    assert check("figure-2", rows(3.0), "WRange, LRM as printed, its noise alone").verdict == "reached"
    assert check("figure-2", rows(1.3), "WRange: gamma 0.0001 takes").verdict == "reached"


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(lambda r: 10.0 ** (2 * r), "reached"), (lambda r: r**3.0, "differs")]
)
def test_exponential_means_more_than_a_power(seconds: Any, verdict: str) -> None:
    about = {"workload": "WRange", "epsilon": 0.1, "method": "LRM as printed", "error": 1.0, "noise": 1.0}
    rows = [{**about, "ratio": ratio, "seconds": seconds(ratio)} for ratio in (1.0, 1.2, 1.7, 2.5, 3.6)]
    assert check("figure-3", rows, "WRange: from the rank on, time").verdict == verdict
