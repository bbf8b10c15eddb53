"""Accuracy against privacy: what is scaled against what is designed, and what is told of it."""

from __future__ import annotations

import csv
import math
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.design_commands import tradeoff as tradeoff_command
from leastnoise.core.errors import DesignError, InputError, MethodError, MissingExtraError
from leastnoise.privacy import epsilon_of
from leastnoise.report import Tradeoff, Turn, tradeoff, write_tradeoff
from leastnoise.report.baseline_noise import baselines
from leastnoise.report.trade_off import TradeoffPoint
from support import refuses
from tolerances import ROUNDING, SOLVER

SCHEMA = ln.Schema(age=range(6), sex=("F", "M"))
DELTA = 1e-6

# Two optima agree in their variances to the root of the gap to which each is proved.
SAME_OPTIMUM = math.sqrt(SOLVER)


def workload(**targets: float) -> ln.Workload:
    """Ages, sexes and everyone, each with a target where one is given."""
    queries = {"ages": ln.Prefix("age"), "table": ln.Marginal("age", "sex"), "all": ln.Total()}
    named = [query.having(name=name, stderr=targets.get(name)) for name, query in queries.items()]
    return ln.assemble(named, SCHEMA)


TARGETS = {"ages": 12.0, "table": 9.0, "all": 8.0}


def rms_of(plan: ln.Plan) -> list[float]:
    assert plan.spreads is not None
    return [math.sqrt(spread.mean_square) for spread in plan.spreads]


def goal_at(epsilon: float, like: ln.ApproxDP | ln.PureDP) -> Any:
    if isinstance(like, ln.PureDP):
        return ln.PureDP(epsilon, neighbours=like.neighbours)
    return ln.ApproxDP(
        epsilon, like.delta, neighbours=like.neighbours, records_per_person=like.records_per_person
    )


def check_point(point: TradeoffPoint, plan: ln.Plan) -> None:
    """One point against a plan designed for its ε, baselines included."""
    simple = baselines(plan)
    for b, batch in enumerate(point.batches):
        assert batch.rms == pytest.approx(rms_of(plan)[b], rel=SAME_OPTIMUM)
        assert batch.per_count == pytest.approx(simple.per_count.rms[b], rel=1e3 * ROUNDING)
        assert batch.per_cell == pytest.approx(simple.per_cell.rms[b], rel=1e3 * ROUNDING)


# ---------------------------------------------------------------- scaled is designed


GOALS = [
    ln.ApproxDP(1, DELTA),
    ln.ApproxDP(0.3, 1e-9, neighbours="replace-one"),
    ln.ApproxDP(2, DELTA, records_per_person=3),
]


@pytest.mark.thorough
@pytest.mark.parametrize("goal", GOALS, ids=repr)
@pytest.mark.parametrize("objective", [ln.TotalVariance(), ln.MaxVariance()], ids=repr)
def test_what_is_scaled_is_what_would_be_designed(goal: ln.ApproxDP, objective: Any) -> None:
    table = tradeoff(workload(), goal, objective=objective, epsilons=[0.05, 0.6, 7])
    assert [point.epsilon for point in table.points] == sorted([0.05, 0.6, 7, float(goal.epsilon)])
    assert [point.is_asked for point in table.points].count(True) == 1
    for point in table.points:
        assert point.how == "scaled"
        plan = ln.design(workload(), goal_at(point.epsilon, goal), objective=objective)
        assert point.mu == pytest.approx(plan.mu, rel=SOLVER)
        if isinstance(objective, ln.TotalVariance):
            check_point(point, plan)
        else:
            largest = max(batch.largest for batch in point.batches)
            assert largest**2 == pytest.approx(plan.certificate.achieved, rel=2 * SOLVER)


def test_a_scale_of_epsilon_instead_of_mu_is_caught() -> None:
    """For Gaussian noise errors do not fall as 1/ε: from 0.05 to 7 that is off by a fifth."""
    table = tradeoff(workload(), ln.ApproxDP(1, DELTA), epsilons=[7])
    low, high = table.points
    by_epsilon = low.batches[0].rms * low.epsilon / high.epsilon
    assert by_epsilon != pytest.approx(high.batches[0].rms, rel=0.1)
    with pytest.raises(AssertionError):
        check_point(low, ln.design(workload(), ln.ApproxDP(7, DELTA)))


def test_laplace_noise_falls_with_epsilon() -> None:
    goal = ln.PureDP(1)
    table = tradeoff(workload(), goal, method="identity", epsilons=[0.1, 4])
    assert table.delta is None
    for point in table.points:
        assert point.mu is None
        plan = ln.design(workload(), goal_at(point.epsilon, goal), method="identity")
        check_point(point, plan)
    assert table.points[0].batches[0].rms == pytest.approx(10 * table.points[1].batches[0].rms, rel=ROUNDING)


def test_targets_are_met_from_a_certain_epsilon_on() -> None:
    asked = workload(**TARGETS)
    table = tradeoff(asked, epsilons=[0.2, 1, 5])
    plan = ln.design(asked)
    least = plan.epsilon(delta=DELTA)
    assert all(point.how == "scaled" for point in table.points)
    assert all((point.factor or 9) <= 1 for point in table.points if point.epsilon > least)
    assert all((point.factor or 0) > 1 for point in table.points if point.epsilon < least)
    # The batch that needs most needs as much as the whole.
    assert max(batch.met_from or 0 for batch in table.asked) == pytest.approx(least, rel=SOLVER)
    for needed in table.needed:
        scaled = workload(**{name: needed.factor * target for name, target in TARGETS.items()})
        again = ln.design(scaled)
        assert needed.epsilon == pytest.approx(again.epsilon(delta=DELTA), rel=10 * SOLVER)
        assert needed.mu == pytest.approx(again.mu, rel=10 * SOLVER)
    for point in table.points:
        again = ln.design(asked, ln.ApproxDP(point.epsilon, DELTA), objective=ln.Targets())
        assert point.factor == pytest.approx(again.factor, rel=SOLVER)


def test_each_batch_is_met_where_its_own_errors_say() -> None:
    asked = workload(table=9.0, ages=30.0)
    table = tradeoff(asked, ln.ApproxDP(1, DELTA), objective=ln.TotalVariance())
    for b, batch in enumerate(table.asked):
        if batch.met_from is None:
            assert batch.target == ""
            assert batch.stderr is None
            continue
        # Just below it is missed, just above it is met, in plans designed there.
        for factor, is_met in ((0.99, False), (1.01, True)):
            goal = ln.ApproxDP(factor * batch.met_from, DELTA)
            plan = ln.design(asked, goal, objective=ln.TotalVariance())
            assert plan.spreads is not None
            assert (plan.spreads[b].high <= (batch.stderr or 0)) == is_met
    assert table.needed == ()
    assert [batch.name for batch in table.asked if batch.met_from is None] == ["all"]


# ---------------------------------------------------------------- designed where theory does not scale


def test_within_targets_every_epsilon_is_designed_where_they_press() -> None:
    asked = workload(**TARGETS)
    least = ln.design(asked).epsilon(delta=DELTA)
    free = ln.design(asked, ln.ApproxDP(1, DELTA), objective=ln.TotalVariance())
    assert free.factor is not None
    last = epsilon_of(Fraction(float(free.privacy.budget) * free.factor**2), DELTA)
    assert least < last
    middle = (least + last) / 2
    table = tradeoff(asked, ln.ApproxDP(middle, DELTA), epsilons=[least / 2, last * 1.01, 2 * last])
    missed, designed, *scaled = table.points
    assert (missed.how, designed.how) == ("missed", "designed")
    assert [point.how for point in scaled] == ["scaled", "scaled"]
    assert designed.factor is not None
    assert designed.factor <= 1
    for point in table.points[1:]:
        check_point(point, ln.design(asked, ln.ApproxDP(point.epsilon, DELTA)))
    assert missed.factor == pytest.approx(
        ln.design(asked, ln.ApproxDP(missed.epsilon, DELTA), objective=ln.Targets()).factor, rel=SOLVER
    )
    with pytest.raises(ln.InfeasibleError):
        ln.design(asked, ln.ApproxDP(missed.epsilon, DELTA))
    notes = " ".join(table.notes)
    below = re.search(r"Below epsilon = ([\d.]+) no Gaussian noise meets the targets", notes)
    above = re.search(r"From epsilon = ([\d.]+) on the least total variance meets all targets", notes)
    assert below is not None and above is not None
    # Rounded to the safe side: what is printed as enough is enough.
    assert least * (1 - 1e-3) <= float(below[1]) <= least and last <= float(above[1]) <= last * (1 + 1e-3)
    needed = next(line for line in str(table).splitlines() if line.startswith("  needs epsilon")).split()[2:]
    for text, exact in zip(needed, table.needed, strict=True):
        assert exact.epsilon <= float(text) <= exact.epsilon * (1 + 1e-3)


def test_scaling_within_targets_would_be_wrong() -> None:
    """The twin that scales the designed point instead of designing the next misses by far."""
    asked = workload(**TARGETS)
    least = ln.design(asked).epsilon(delta=DELTA)
    plans = [ln.design(asked, ln.ApproxDP(factor * least, DELTA)) for factor in (1.02, 1.2)]
    assert plans[0].mu is not None
    assert plans[1].mu is not None
    scaled = np.array(rms_of(plans[0])) * plans[0].mu / plans[1].mu
    assert np.abs(scaled / rms_of(plans[1]) - 1).max() > 0.02


def test_a_design_that_fails_next_to_the_least_epsilon_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = workload(**TARGETS)
    least = ln.design(asked).epsilon(delta=DELTA)
    true_design = ln.design

    def failing(*arguments: Any, **options: Any) -> Any:
        if options["objective"] == ln.TotalVariance(within_targets=True):
            raise DesignError("no plan; ask again")
        return true_design(*arguments, **options)

    monkeypatch.setattr(sys.modules["leastnoise.report.redesign"], "design", failing)
    table = tradeoff(asked, ln.ApproxDP(1.01 * least, DELTA), epsilons=[1.01 * least])
    (point,) = table.points
    assert point.how == "scaled"
    assert point.status == "stopped"
    assert math.isnan(point.gap)
    assert point.factor is not None
    assert point.factor <= 1
    assert "the targets alone were planned for: no plan; ask again" in str(table)


# ---------------------------------------------------------------- goals and refusals


def test_goals_of_other_kinds_are_told_in_epsilon() -> None:
    for goal in (ln.GDP(0.5), ln.ZCDP(0.125)):
        table = tradeoff(workload(), goal, epsilons=[1], delta=1e-5)
        (asked,) = [point for point in table.points if point.is_asked]
        assert asked.epsilon == epsilon_of(Fraction(1, 4), 1e-5)
        assert asked.mu == pytest.approx(0.5, rel=SOLVER)
        assert table.delta == 1e-5
    assert "adding or removing up to 2 records of one person" in str(
        tradeoff(workload(), ln.GDP(1, records_per_person=2), epsilons=[1])
    )
    assert "Laplace noise, replacing one record" in str(
        tradeoff(workload(), ln.PureDP(1, neighbours="replace-one"), epsilons=[1], method="identity")
    )


def test_the_classic_calibration_is_kept() -> None:
    goal = ln.ApproxDP(0.5, DELTA, calibration="classic")
    table = tradeoff(workload(table=50.0), goal, objective=ln.Targets(), epsilons=[0.25])
    for needed in table.needed:
        assert needed.mu == pytest.approx(needed.epsilon / math.sqrt(2 * math.log(2 / DELTA)), rel=ROUNDING)


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"epsilons": []}, ("epsilons", [])),
        ({"epsilons": [0]}, ("epsilons", [0])),
        ({"epsilons": [1, math.nan]}, ("epsilons", ..., "epsilons must be a list of positive numbers")),
        ({"epsilons": ["x"]}, ("epsilons", ["x"])),
        ({"epsilons": 3}, ("epsilons", 3)),
        ({"privacy": ln.ApproxDP(1, DELTA), "delta": 1e-5}, ("delta", 1e-05)),
        ({"privacy": 1}, ("privacy", int)),
        ({"time_limit": 0}, ("time_limit", 0)),
        ({"objective": ln.Targets()}, ("objective", ..., "needs queries with a target")),
    ],
)
def test_arguments_are_refused(arguments: dict[str, Any], refusal: tuple[Any, ...]) -> None:
    with refuses(InputError, *refusal):
        tradeoff(workload(), **arguments)


def test_other_refusals() -> None:
    with refuses(InputError, "workload"):
        tradeoff(SCHEMA)  # type: ignore[arg-type]
    with refuses(InputError, "factors", [-1]):
        tradeoff(workload(**TARGETS), factors=[-1])
    alone = ln.assemble([ln.Prefix("age")], ln.Schema(age=range(6)))
    with refuses(MethodError, "method", "dawa", "depends on the data"):
        tradeoff(alone, ln.PureDP(1), method="dawa")


class Clock:
    """A clock that a design moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", [1.0, 8.0])
def test_a_time_limit_is_shared_and_the_own_epsilon_comes_first(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Two designs took all of the time, and the goal that was given had none."""
    asked = workload(**TARGETS)
    least = ln.design(asked).epsilon(delta=DELTA)
    module, clock, true_design = sys.modules["leastnoise.report.redesign"], Clock(), ln.design
    given: list[float] = []

    def design(*arguments: Any, time_limit: float, **options: Any) -> Any:
        given.append(time_limit)
        clock.now += seconds
        return true_design(*arguments, **options)

    monkeypatch.setattr(module, "design", design)
    monkeypatch.setattr("leastnoise.core.deadline.time", clock)
    begun: list[str] = []

    def note(turn: Turn) -> None:
        if turn.gap is None:
            begun.append(turn.subject)

    epsilons = [factor * least for factor in (1.02, 1.03, 1.04)]
    own = 1.05 * least
    table = tradeoff(asked, ln.ApproxDP(own, DELTA), epsilons=epsilons, time_limit=12, progress=note)
    # Four points and the two that all of them need: each a share of what is left.
    assert given[:2] == pytest.approx([12 / 6, (12 - seconds) / 5], rel=ROUNDING)
    assert begun[2] == f"epsilon = {own:.4g}"
    (point,) = [point for point in table.points if point.is_asked]
    assert point.how == "designed"
    assert [point.epsilon for point in table.points] == sorted([*epsilons, own])
    if seconds == 1:
        assert all(point.how == "designed" for point in table.points)
        assert "time limit" not in str(table)
        return
    # Late already, the own one has a tenth of the limit; the others are named, once.
    assert given[2:] == pytest.approx([1.2], rel=ROUNDING)
    late = ", ".join(f"{epsilon:.4g}" for epsilon in epsilons)
    said = " ".join(str(table).split())
    assert said.count(f"The time limit was reached before epsilon = {late}: there the targets alone") == 1
    assert all(point.how == "scaled" and point.status == "stopped" for point in table.points[:3])


def test_progress_and_an_interruption() -> None:
    seen: list[Turn] = []
    asked = workload(**TARGETS)
    least = ln.design(asked).epsilon(delta=DELTA)
    tradeoff(asked, ln.ApproxDP(1.05 * least, DELTA), epsilons=[1.1 * least], progress=seen.append)
    assert [turn.subject for turn in seen if turn.gap is None] == [
        "the least that meets the targets",
        "the least total variance",
        f"epsilon = {1.05 * least:.4g}",
        f"epsilon = {1.1 * least:.4g}",
    ]
    assert seen[-1].number == seen[-1].n_turns == 4

    def interrupt(turn: Turn) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tradeoff(asked, progress=interrupt)


# ---------------------------------------------------------------- words, frames, files


@pytest.fixture(scope="module")
def table() -> Tradeoff:
    return tradeoff(workload(**TARGETS), ln.ApproxDP(1, DELTA), epsilons=[0.5, 2, 4])


def test_the_table_says_what_it_found(table: Tradeoff) -> None:
    text = str(table)
    assert text == repr(table)
    assert "Accuracy against privacy: total variance within targets" in text
    assert re.search(r"^table \(12 counts, target std. error 9, met from epsilon [\d.]+\)$", text, re.M)
    figures = r"^ +1\* +[\d.]+ +[\d.]+ +[\d.]+ \([\d.]+×\) +[\d.]+ \([\d.]+×\)"
    assert re.search(rf"{figures}  (met|missed by [\d.]+×)$", text, re.M)
    assert "the root mean square (rms) and the largest" in text
    assert "A target is met where the largest standard error is no larger." in " ".join(text.split())
    assert "every target times" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_frame_holds_every_point_and_batch(table: Tradeoff) -> None:
    frame = table.to_frame()
    assert len(frame) == len(table.points) * 3
    assert set(frame["how"]) <= {"scaled", "designed", "missed"}
    own = frame[(frame["epsilon"] == 1) & (frame["batch"] == "table")].iloc[0]
    point = next(point for point in table.points if point.is_asked)
    assert own["rms_stderr"] == point.batches[1].rms
    assert own["target_stderr"] == 9
    assert own["is_met"] == point.batches[1].is_met


def test_a_list_opens_in_a_spreadsheet(tmp_path: Path) -> None:
    evil = ln.assemble([ln.Total(name="=cmd()"), ln.Prefix("age", name="\udc80")], SCHEMA)
    found = tradeoff(evil, ln.GDP(1), epsilons=[1])
    path = write_tradeoff(found, tmp_path / "a.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["batch"] for row in rows[:2]] == ["'=cmd()", "\\udc80"]
    assert float(rows[0]["rms_stderr"]) == found.points[0].batches[0].rms


def test_pictures_and_pages_load_nothing(table: Tradeoff, tmp_path: Path) -> None:
    picture = write_tradeoff(table, tmp_path / "a.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert "noise on each cell" in picture
    page = write_tradeoff(table, tmp_path / "a.HTML").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert {path.name for path in tmp_path.iterdir()} == {"a.svg", "a.HTML"}


def test_other_files_are_refused(table: Tradeoff, tmp_path: Path) -> None:
    with refuses(InputError, "path"):
        write_tradeoff(table, tmp_path / "a.gif")
    with refuses(InputError, "path", ..., "there is no folder"):
        write_tradeoff(table, tmp_path / "none" / "a.csv")


# ---------------------------------------------------------------- from a shell


SPEC = """
[schema]
age = { range = [0, 6] }
[privacy]
epsilon = 1.0
delta   = 1e-6
[[query]]
kind      = "prefix"
attribute = "age"
name      = "ages"
stderr    = 8
"""


def command(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(tradeoff_command)
    return CliRunner().invoke(app, arguments, env={"NO_COLOR": "1"})


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "town.toml").write_text(SPEC)
    result = command("town.toml", "--epsilon", "0.5", "--epsilon", "2", "--out", "t.csv")
    assert result.exit_code == 0, result.output
    assert "wrote t.csv" in result.stdout
    lines = (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    assert [row["epsilon"] for row in csv.DictReader(lines)] == ["0.5", "1.0", "2.0"]
    # Refused before anything is designed.
    monkeypatch.setattr(sys.modules["leastnoise.report.trade_off"], "tradeoff", None)
    for out, words in (("t.gif", "must end in .svg"), ("none/t.csv", "there is no folder")):
        refused = command("town.toml", "--out", out)
        assert isinstance(refused.exception, InputError)
        assert words in str(refused.exception)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert isinstance(command("town.toml", "--out", "t.png").exception, MissingExtraError)
    (tmp_path / "link.csv").symlink_to("elsewhere.csv")
    assert "choose another place" in str(command("town.toml", "--out", "link.csv").exception)
