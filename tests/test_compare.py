"""Methods side by side: what is ranked, what is left out and why, what is stopped, what is simulated."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leastnoise.app.cli import design_commands as cli
from leastnoise.core.errors import DataError, InputError, MethodError
from leastnoise.planning import Request, all_methods, design, method_named
from leastnoise.privacy import GDP, ApproxDP, PureDP
from leastnoise.query import (
    AllRanges,
    Linear,
    MaxVariance,
    Prefix,
    Schema,
    Total,
    Workload,
    assemble,
)
from leastnoise.report import Turn, compare, comparison, methods
from leastnoise.report.comparison import N_RUNS, TIME_LIMIT, Contender, MethodComparison
from support import refuses
from tolerances import ROUNDING, SOLVER

AGES = Schema(age=range(10))
PREFIX = assemble([Prefix("age")], AGES)
QUICK = ["identity", "workload", "hierarchical", "wavelet"]
DATA_DEPENDENT = [method.name for method in all_methods() if method.is_data_dependent]
COUNTS = [40, 40, 40, 40, 40, 3, 3, 3, 3, 3]


def by_name(table: MethodComparison) -> dict[str, Contender]:
    return {contender.method: contender for contender in table.contenders}


# Ranking -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_comparison_is_sorted_and_prints_as_a_table() -> None:
    workload = assemble([Prefix("age"), Linear(np.full((1, 10), 0.5))], AGES)
    table = compare(workload, GDP(1))
    achieved = [c.achieved for c in table.contenders if c.achieved is not None]
    assert achieved == sorted(achieved)
    ours = by_name(table)["dense"]
    assert ours.gap is not None and ours.gap <= SOLVER
    assert set(by_name(table)) == {m.name for m in all_methods()}
    assert "whole numbers" in str(by_name(table)["workload"].reason)
    assert all(table.lower_bound <= value for value in achieved)
    for c in table.contenders[: len(achieved)]:
        assert c.gap == pytest.approx(c.achieved / table.lower_bound - 1, rel=ROUNDING)  # type: ignore[operator]
        assert c.rms_stderr == pytest.approx(math.sqrt(c.achieved / 11), rel=ROUNDING)  # type: ignore[operator]
        assert not c.is_simulated
    lines = str(table).splitlines()
    head = ["method", "total variance", "above the bound", "rms std. error", "seconds"]
    assert [word.strip() for word in lines[0].split("  ") if word.strip()] == head
    rows = lines[1 : 1 + len(table.contenders)]
    assert [line.split()[0] for line in rows] == [c.method for c in table.contenders]
    width = max(len(m.name) for m in all_methods())
    left_out = f"{'workload':<{width}}  left out: it measures the queries themselves"
    assert any(line.startswith(left_out) for line in lines)
    last = f"No Gaussian noise within this goal has a total variance below {table.lower_bound:.6g}."
    assert lines[-1] == last
    assert repr(table) == str(table)
    frame = table.to_frame()
    assert frame["method"].tolist() == [c.method for c in table.contenders]
    assert {"achieved", "gap", "seconds", "ended", "is_simulated"} <= set(frame.columns)


def test_comparison_of_some_methods_and_of_nothing() -> None:
    table = compare(PREFIX, PureDP(1), methods=["dense", "wavelet", "identity"])
    assert [c.method for c in table.contenders][-1] == "dense"
    assert "pure privacy" in str(table.contenders[-1].reason)
    with refuses(MethodError, "method", "magic", "there is no method 'magic'"):
        compare(PREFIX, GDP(1), methods=["magic"])
    zero = compare(Workload.from_matrix(np.zeros((1, 2))), GDP(1), methods=["dense", "identity", "workload"])
    assert all(c.achieved == 0 and c.gap == 0 for c in zero.contenders) and zero.lower_bound == 0


def test_a_comparison_of_no_methods_is_refused() -> None:
    with refuses(InputError, "methods", []):
        compare(PREFIX, GDP(1), methods=[])


def test_where_nobody_can_serve_the_table_says_so() -> None:
    table = compare(PREFIX, PureDP(1), methods=["dense", "coa"])
    assert str(table).splitlines()[-1].startswith("No method could serve;") and "below" not in str(table)
    served = compare(PREFIX, PureDP(1), methods=["dense", "identity"])
    assert "No method could serve" not in str(served)
    assert str(served).splitlines()[-1].startswith("No Laplace noise within this goal has a total variance")


def test_without_a_bound_nothing_is_called_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    known = comparison._known
    monkeypatch.setattr(comparison, "_known", lambda plan, name: (known(plan, name)[0], 0.0))
    table = compare(PREFIX, GDP(1), methods=["dense", "identity"])
    assert all(c.gap is None and c.achieved for c in table.contenders)
    assert "optimal" not in str(table) and all("–" in line for line in str(table).splitlines()[1:3])
    assert str(table).splitlines()[-1].startswith("No bound was proved")
    monkeypatch.undo()
    assert "optimal" in str(compare(PREFIX, GDP(1), methods=["dense", "identity"]))


def test_each_row_is_what_design_gives() -> None:
    for goal, objective in ((GDP(1), None), (PureDP(1), None), (GDP(1), MaxVariance())):
        table = compare(PREFIX, goal, methods=["dense", *QUICK], objective=objective)
        ranked = [c for c in table.contenders if c.achieved is not None]
        assert len(ranked) >= 4
        for c in ranked:
            plan = design(PREFIX, goal, method=c.method, objective=objective)
            assert c.achieved == pytest.approx(plan.certificate.achieved, rel=SOLVER)
            assert plan.certificate.lower_bound <= table.lower_bound * (1 + SOLVER)


@pytest.mark.thorough
def test_a_goal_with_a_delta_is_also_tried_without() -> None:
    table = compare(PREFIX, ApproxDP(1, 1e-6), methods=["dense", "identity"])
    found = by_name(table)
    assert set(found) == {"dense", "identity", "identity, no delta"}
    assert found["identity, no delta"].gap is None
    pure = design(PREFIX, PureDP(1), method="identity").certificate.achieved
    assert found["identity, no delta"].achieved == pytest.approx(pure, rel=SOLVER)
    assert "Rows without delta: Laplace noise of the same epsilon" in str(table)
    assert "–" in str(table)
    every = {c.method for c in compare(PREFIX, ApproxDP(1, 1e-6)).contenders}
    slow = [m.name for m in all_methods() if not m.is_quick]
    assert "wavelet, no delta" in every and not any(f"{name}, no delta" in every for name in slow)


def test_methods_prints_every_method_and_option() -> None:
    text = str(methods())
    assert repr(methods()) == text
    width = max(len(method.name) for method in all_methods())
    for method in all_methods():
        assert f"{method.name:<{width}}  {method.summary}" in text
        for name, (default, meaning) in method.options.items():
            assert f"option {name} = {default!r}: {meaning}" in text


# Time ----------------------------------------------------------------------------------------


def patience(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """One method that ends at any limit below a second and else runs out of steps, and what it was told."""
    told: list[float | None] = []
    identity = method_named("identity")

    def find(request: Request) -> Any:
        told.append(request.time_limit)
        ended = "deadline" if (request.time_limit or 0.0) < 1 else "exhausted"
        return replace(identity.find(request), ended=ended)

    slow = replace(identity, name="wavelet", find=find, is_quick=False)
    monkeypatch.setattr(sys.modules["leastnoise.report.comparison"], "all_methods", lambda: (slow, identity))
    return told


def test_every_method_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    told = patience(monkeypatch)
    assert TIME_LIMIT == 10 and compare(PREFIX, GDP(1)).time_limit == 10
    # A part of a thousandth of a second is set aside for rounding and proof.
    assert told == [pytest.approx(10, rel=0.01)]
    table = compare(PREFIX, GDP(1), time_limit=0.1)
    assert told[1:] == [pytest.approx(0.1, rel=0.5)]
    found = by_name(table)
    assert found["wavelet"].ended == "deadline" and found["identity"].ended == "converged"
    (row,) = (line for line in str(table).splitlines() if line.startswith("wavelet"))
    assert row.endswith("*")
    assert "* ended at the time limit of 0.1 s; with more time it may do better." in str(table)
    calm = compare(PREFIX, GDP(1), time_limit=60)
    assert "*" not in str(calm) and by_name(calm)["wavelet"].ended == "exhausted"
    assert "+ ended at its limit of steps, before it converged." in str(calm)
    with refuses(InputError, "time_limit", 0):
        compare(PREFIX, GDP(1), time_limit=0)


def test_iterative_methods_keep_the_limit() -> None:
    workload = assemble([AllRanges("v")], Schema(v=range(48)))
    started = time.monotonic()
    slow = ["lowrank", "smoothing", "coa", "coa-homotopy"]
    table = compare(workload, GDP(1), methods=slow, time_limit=0.05)
    # A step, the rounding to integers and the proof come on top of the limit.
    assert time.monotonic() - started < len(slow) * 1.5
    assert {c.method for c in table.contenders if c.achieved is not None} == set(slow)


def test_progress_tells_whose_turn_it_is() -> None:
    seen: list[Turn] = []
    compare(PREFIX, ApproxDP(1, 1e-6), methods=["dense", "identity"], progress=seen.append)
    begun = [turn for turn in seen if turn.gap is None]
    assert [(turn.subject, turn.number) for turn in begun] == [
        ("dense", 1),
        ("identity", 2),
        ("dense", 3),
        ("identity", 4),
    ]
    assert all(turn.n_turns == 4 for turn in seen)
    steps = [turn.gap for turn in seen if turn.gap is not None]
    assert steps and steps[-1] <= SOLVER
    seconds = [turn.seconds for turn in seen]
    assert seconds == sorted(seconds)


def test_the_progress_line_from_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    @contextmanager
    def spinner(what: str) -> Iterator[Callable[[str], None]]:
        lines.append(what)
        yield lines.append

    monkeypatch.setattr(cli, "spinner", spinner)
    with cli._watching("comparing methods") as show:
        compare(PREFIX, GDP(1), methods=["dense", "identity"], progress=show)
    assert lines[:2] == ["comparing methods", "comparing methods: dense, 1 of 2"]
    assert lines[-1] == "comparing methods: identity, 2 of 2"
    assert any(line.startswith("comparing methods: dense, 1 of 2, gap to the optimum ") for line in lines)


# Methods that depend on the data ---------------------------------------------------------------


def test_they_need_public_data() -> None:
    table = compare(PREFIX, PureDP(1), methods=["identity", *DATA_DEPENDENT])
    for name in DATA_DEPENDENT:
        assert by_name(table)[name].achieved is None
        assert "give public data= to simulate it" in str(by_name(table)[name].reason)
    assert "Simulated" not in str(table)


@pytest.mark.thorough
def test_their_error_is_simulated_and_marked() -> None:
    table = compare(PREFIX, PureDP(1), methods=["identity", *DATA_DEPENDENT], data=COUNTS)
    for name in DATA_DEPENDENT:
        c = by_name(table)[name]
        assert c.is_simulated and c.achieved is not None and c.gap is None
        assert c.rms_stderr == pytest.approx(math.sqrt(c.achieved / 10), rel=ROUNDING)
        (row,) = (line for line in str(table).splitlines() if line.startswith(f"{name} "))
        assert "simulated" in row
    assert f"Simulated: mean squared error over {N_RUNS} runs on the data given." in str(table)
    again = by_name(compare(PREFIX, PureDP(1), methods=DATA_DEPENDENT, data=COUNTS))
    other = by_name(compare(PREFIX, PureDP(1), methods=DATA_DEPENDENT, data=[0, 90] * 5))
    for name in DATA_DEPENDENT:
        assert again[name].achieved == by_name(table)[name].achieved, "a simulation repeats"
        assert other[name].achieved != again[name].achieved, "it is about the data given"


def test_a_simulation_is_right_where_the_error_is_known() -> None:
    """With one cell DAWA is Laplace noise of three quarters of epsilon on one count."""
    workload = assemble([Total()], Schema(v=range(1)))
    c = by_name(compare(workload, PureDP(1), methods=["dawa"], data=[1000]))["dawa"]
    known = 2 / 0.75**2
    # The mean of 20 squares of Laplace noise: its standard deviation is √(5/20) of it.
    assert c.achieved is not None and abs(c.achieved / known - 1) < 5 * math.sqrt(5 / N_RUNS)
    assert abs(c.achieved / (100 * known) - 1) > 0.9


def test_they_join_the_rows_without_delta() -> None:
    table = compare(PREFIX, ApproxDP(1, 1e-6), methods=["identity", "dawa"], data=COUNTS)
    found = by_name(table)
    assert found["dawa, no delta"].is_simulated and "pure privacy" in str(found["dawa"].reason)
    pure = by_name(compare(PREFIX, PureDP(1), methods=["dawa"], data=COUNTS))["dawa"]
    assert found["dawa, no delta"].achieved == pure.achieved


def test_public_data_may_be_a_table(tmp_path: Path) -> None:
    rows = [str(age) for age, count in enumerate(COUNTS) for _ in range(count)]
    path = tmp_path / "public.csv"
    path.write_text("age\n" + "\n".join(rows) + "\n", encoding="utf-8")
    from_file = compare(PREFIX, PureDP(1), methods=["dawa"], data=str(path))
    from_counts = compare(PREFIX, PureDP(1), methods=["dawa"], data=COUNTS)
    assert by_name(from_file)["dawa"].achieved == by_name(from_counts)["dawa"].achieved
    with refuses(DataError, "counts", list):
        compare(PREFIX, GDP(1), methods=["dense"], data=[1, 2])


def test_mwem_as_printed_stands_beside_mwem_as_recommended() -> None:
    counts = np.repeat([40, 5, 12, 1], 2)
    workload = assemble([AllRanges("v")], Schema(v=range(8)))
    found = compare(workload, PureDP(1), methods=["mwem", "identity"], data=counts)
    simulated = {c.method: c.achieved for c in found.contenders if c.is_simulated}
    assert set(simulated) == {"mwem", "mwem, as printed"}
    assert len(set(simulated.values())) == 2, "another algorithm, another error"
    without = compare(workload, PureDP(1), methods=["mwem"])
    assert [c.method for c in without.contenders] == ["mwem"], "left out once"
