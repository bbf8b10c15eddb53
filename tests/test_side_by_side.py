"""Comparisons with options of methods, of two specifications, and trade-offs of plans over time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.design_commands import _method_with_options
from leastnoise.app.cli.main import app
from leastnoise.core.errors import InputError, MethodError
from support import refuses
from test_plan_cache import SPEC

SCHEMA = ln.Schema(age=range(8), sex=("F", "M"))
WORKLOAD = ln.assemble([ln.Prefix("age")], SCHEMA)
GOAL = ln.GDP(1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(SPEC)
    other = '\n[[query]]\nkind = "total"\n\n[design]'
    (tmp_path / "b.toml").write_text(
        SPEC.replace("epsilon = 1.0", "epsilon = 2.0").replace("[design]", other)
    )
    return tmp_path


def run(line: str) -> Any:
    return CliRunner().invoke(app, line.split())


def test_a_method_is_compared_with_options_of_its_own() -> None:
    named = ("hierarchical", {"branching": 4})
    found = {
        c.method: c.achieved for c in ln.compare(WORKLOAD, GOAL, methods=["hierarchical", named]).contenders
    }
    alone = ln.design(WORKLOAD, GOAL, method="hierarchical", options={"branching": 4})
    assert found["hierarchical, branching = 4"] == pytest.approx(alone.certificate.achieved, rel=1e-9)
    assert found["hierarchical"] != found["hierarchical, branching = 4"]
    with pytest.raises(MethodError):
        ln.compare(WORKLOAD, GOAL, methods=[("hierarchical", {"branchin": 4})])


def test_options_are_typed_after_a_colon(folder: Path) -> None:
    said = run("compare a.toml --method identity --method hierarchical:branching=2")
    assert said.exit_code == 0, said.output
    assert "hierarchical, branching = 2" in said.stdout
    with refuses(InputError, "method", "hierarchical:branching"):
        _method_with_options("hierarchical:branching")
    assert _method_with_options("weighted-basis:basis=tree,n = 2") == (
        "weighted-basis",
        {"basis": "tree", "n": 2},
    )
    assert run("compare a.toml --method hierarchical:branching").exit_code != 0


def test_two_specifications_side_by_side(folder: Path) -> None:
    said = run("compare a.toml b.toml")
    assert said.exit_code == 0, said.output
    first, *others = said.stdout.splitlines()
    assert first.split() == ["a.toml", "b.toml"]
    lines = {line.split("  ")[0]: line for line in others}
    facts = json.loads(run("compare a.toml b.toml --json").stdout)["result"]
    rows = {(row["specification"], row["batch"]): row for row in facts["rows"]}
    assert "not asked" in lines["total"]
    for name, epsilon in (("a.toml", 1), ("b.toml", 2)):
        run(f"design {name}")
        plan = ln.load_plan(name.replace(".toml", ".plan"))
        assert f"{plan.epsilon(delta=1e-6):.4g} at delta = 1e-06" in lines["epsilon spent"]
        assert f"({epsilon}, 1e-06)-DP" in lines["privacy"]
        for batch, spread in zip(plan.workload.names, plan.spreads or (), strict=True):
            assert f"{spread.low:.4g}" in lines[batch]
            assert {"specification": name, "batch": batch, "highest_stderr": spread.high}.items() <= rows[
                name, batch
            ].items()
    for wrong, field in (("a.toml a.toml", "different"), ("a.toml b.toml --method dense", "method")):
        error = run(f"compare {wrong}")
        assert error.exit_code != 0 and field in error.stderr


def test_a_trade_off_takes_every_setting_of_a_design(folder: Path) -> None:
    """`over` in [design] ended in a TypeError."""
    text = SPEC.replace("[0, 3]", "[0, 3]").replace('method = "dense"', 'over = "age"\ntol = 1e-4')
    (folder / "time.toml").write_text(text)
    assert run("tradeoff time.toml --epsilon 1").exit_code == 0
    table = ln.tradeoff(WORKLOAD, GOAL, epsilons=[1], over="age")
    plain = ln.tradeoff(WORKLOAD, GOAL, epsilons=[1])
    assert str(table.points[0].epsilon) == str(plain.points[0].epsilon)
    with refuses(InputError, "over", ...):
        ln.tradeoff(WORKLOAD, GOAL, over="month")
