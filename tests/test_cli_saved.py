"""What a shell makes of a saved release: adjusted counts, quantiles."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.app.specification import load_spec
from leastnoise.release import Release, measured
from leastnoise.release.adjusting.adjust_progress import AdjustWatch
from leastnoise.release.simulation import RepeatableBits
from leastnoise.report import write_quantiles
from support import extra


def run(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}).invoke(app, list(arguments))


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """A release of few people under much noise, so that some counts come out negative."""
    monkeypatch.chdir(tmp_path)
    schema = ln.Schema(age=range(8), sex=("F", "M"))
    plan = ln.design(ln.assemble([ln.Prefix("age") * ln.Marginal("sex"), ln.Total()], schema), ln.GDP(0.3))
    bits = RepeatableBits(np.random.default_rng(3))
    release = Release(
        plan, measured(plan, np.array([0, 0, 1, 0, 0, 2, 30, 0, 0, 0, 0, 5, 0, 0, 40, 0]), bits)
    )
    assert (release.answers < 0).any()
    release.save("few.release")
    return release


def answers_in(path: str) -> list[float]:
    with Path(path).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["query"] != "not counted"]
    return [float(row["answer"]) for row in rows]


def test_adjusting(saved: Release) -> None:
    result = run("adjust", "few.release", "--integer")
    assert result.exit_code == 0, result.output
    assert "non-negative whole numbers" in result.stdout and "few-adjusted.html" in result.stdout
    written = answers_in("few-adjusted.csv")
    assert written == ln.adjust(saved, integer=True).answers.tolist()
    assert min(written) >= 0 and all(value == round(value) for value in written)
    again = ln.load_release("few-adjusted.release")
    assert again.adjusted is not None and again.adjusted.integer
    np.testing.assert_array_equal(ln.load_release("few.release").answers, saved.answers)


def test_an_interrupted_adjustment_is_written(saved: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: AdjustWatch) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(AdjustWatch, "is_over", interrupted)
    result = run("adjust", "few.release", "--integer")
    assert result.exit_code == 0 and "The search was interrupted" in result.stdout
    written = answers_in("few-adjusted.csv")
    assert min(written) >= 0 and all(value == round(value) for value in written)
    assert ln.load_release("few-adjusted.release").adjusted.ended == "interrupted"


def test_a_time_limit_from_the_shell(saved: Release) -> None:
    result = run("adjust", "few.release", "--time-limit", "1e-9")
    assert result.exit_code == 0 and "was stopped by its time limit" in result.stdout
    assert ln.load_release("few-adjusted.release").adjusted.ended == "deadline"


def test_adjusting_without_whole_numbers_and_without_zero(saved: Release) -> None:
    assert run("adjust", "few.release", "--out", "a.csv").exit_code == 0
    assert min(answers_in("a.csv")) >= 0 and any(value != round(value) for value in answers_in("a.csv"))
    assert run("adjust", "few.release", "--out", "b.csv", "--integer", "--keep-negative").exit_code == 0
    assert min(answers_in("b.csv")) < 0
    result = run("adjust", "few.release", "--out", "c.csv", "--keep-negative")
    assert "agree already" in result.stdout
    np.testing.assert_allclose(answers_in("c.csv"), saved.answers, rtol=1e-14)


def test_an_adjusted_file_is_not_replaced_unasked(saved: Release) -> None:
    assert run("adjust", "few.release").exit_code == 0
    refused = run("adjust", "few.release")
    assert refused.exit_code == 1 and "exists" in refused.output and "--force" in refused.output
    assert run("adjust", "few.release", "--force").exit_code == 0
    itself = run("adjust", "few.release", "--out", "few.csv", "--force")
    assert itself.exit_code == 1 and "would replace what is read" in itself.output


def test_the_file_that_is_meant(saved: Release) -> None:
    Path("few.csv").write_text("query,label\n")
    for command in (("adjust", "few.csv"), ("quantiles", "few.csv", "age"), ("report", "few.csv")):
        refused = run(*command)
        assert (
            refused.exit_code == 1 and "you probably mean the file beside it: few.release" in refused.output
        )


def test_quantiles(saved: Release) -> None:
    result = run(
        "quantiles", "few.release", "age", "--at", "0.5", "--at", "0.9", "--by", "sex", "--level", "0.9"
    )
    assert result.exit_code == 0, result.output
    expected = saved.quantiles("age", [0.5, 0.9], by="sex", level=0.9)
    assert result.stdout.startswith(expected.to_string()) and "probability 90 % or more" in result.stdout
    quartiles = run("quantiles", "few.release", "age").stdout
    assert quartiles.startswith(saved.quantiles("age", [0.25, 0.5, 0.75]).to_string())
    refused = run("quantiles", "few.release", "sex")
    assert refused.exit_code == 4 and "order" in refused.output


def test_whole_is_another_name_for_integer(saved: Release) -> None:
    assert run("adjust", "few.release", "--whole", "--out", "w.csv").exit_code == 0
    assert answers_in("w.csv") == ln.adjust(saved, integer=True).answers.tolist()


def test_a_refusal_to_adjust_needs_no_variable(saved: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    # By its module: the package has a function of that name.
    monkeypatch.setattr(sys.modules["leastnoise.release.adjusting.information"], "MAX_CELLS", 15)
    refused = run("adjust", "few.release")
    assert refused.exit_code == 1
    assert "leastnoise.load_release(FILE).to_mbi() in Python" in refused.output
    assert "take release.to_mbi()" not in refused.output


@pytest.mark.thorough
@pytest.mark.parametrize("by", [None, "sex"])
def test_quantiles_are_written(saved: Release, by: str | None) -> None:
    grouped = () if by is None else ("--by", by)
    result = run("quantiles", "few.release", "age", "--at", "0.5", "--at", "0.9", *grouped, "--out", "q.csv")
    assert result.exit_code == 0 and result.stdout.endswith("wrote q.csv\n"), result.output
    with Path("q.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["attribute", "share", "group", "quantile", "from", "to", "lower", "upper"]
    expected = saved.quantiles("age", [0.5, 0.9], by=by).reset_index()
    assert [float(row["share"]) for row in rows] == expected["q"].tolist()
    for name, column in (
        ("quantile", "quantile"),
        ("from", "quantile"),
        ("to", "quantile"),
        ("lower", "lower"),
    ):
        assert [float(row[name]) for row in rows] == expected[column].tolist()
    assert [row["group"] for row in rows] == (["", ""] if by is None else expected[by].tolist())
    again = run("quantiles", "few.release", "age", "--out", "q.csv")
    assert again.exit_code == 1 and "exists" in again.output and "--force" in again.output
    assert run("quantiles", "few.release", "age", "--out", "q.csv", "--force").exit_code == 0
    for out, words in (("q.txt", "end in .csv"), ("few.release", "would replace what is read")):
        refused = run("quantiles", "few.release", "age", "--out", out, "--force")
        assert refused.exit_code == 1 and words in refused.output


def test_open_ends_of_quantiles(tmp_path: Path) -> None:
    """JSON and Excel have no number beyond all."""
    extra("xlsxwriter")
    extra("openpyxl")
    schema = ln.Schema(pay=ln.Bins([0, 10, float("inf")]))
    plan = ln.design(ln.assemble([ln.Prefix("pay")], schema), ln.GDP(1))
    bits = RepeatableBits(np.random.default_rng(0))
    release = Release(plan, measured(plan, np.array([10, 1000]), bits))
    ends = {}
    for kind in ("csv", "json", "parquet", "xlsx"):
        ends[kind] = write_quantiles(release, tmp_path / f"q.{kind}", "pay", [0.5])
    (row,) = csv.DictReader(ends["csv"].read_text(encoding="utf-8").splitlines())
    assert (row["quantile"], row["to"], row["upper"]) == ("10 or more", "inf", "inf")
    (plain,) = json.loads(ends["json"].read_text())["quantiles"]
    assert (plain["from"], plain["to"], plain["upper"]) == (10.0, None, None)
    (sheet,) = (
        extra("openpyxl").load_workbook(ends["xlsx"])["quantiles"].iter_rows(min_row=2, values_only=True)
    )
    assert sheet[4:] == (10, None, 10, None)


def test_a_refused_distribution_is_asked_for_in_a_specification(saved: Release) -> None:
    plan = ln.design(
        ln.assemble([ln.Prefix("age"), ln.Marginal("sex")], saved.plan.workload.schema), ln.GDP(1)
    )
    bits = RepeatableBits(np.random.default_rng(0))
    Release(plan, measured(plan, np.zeros(16, dtype=int), bits)).save("apart.release")
    refused = run("quantiles", "apart.release", "age", "--by", "sex")
    query = 'kind = "product", left = { kind = "prefix", attribute = "age" }, right = { kind = "marginal", '
    assert refused.exit_code == 4 and query in refused.output and "design()" not in refused.output
    # What it says to add is understood.
    told = refused.output.split("[[query]] with ")[1].split(" to the specification")[0]
    written = "\n".join(told.replace(", left", "\nleft").replace(", right", "\nright").splitlines())
    schema = "[schema]\nage = { range = [0, 8] }\nsex = ['F', 'M']\n[privacy]\nmu = 1\n"
    Path("s.toml").write_text(f"{schema}[[query]]\n{written}\n", encoding="utf-8")
    asked = load_spec("s.toml").workload
    assert asked.shape == (16, 16)
