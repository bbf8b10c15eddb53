"""What a shell makes of a saved release: adjusted counts, quantiles."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.cli.app import app
from leastnoise.release import Release, measured
from leastnoise.simulation import RepeatableBits


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
        return [float(row["answer"]) for row in csv.DictReader(file)]


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
        assert refused.exit_code == 1 and "the one beside it is meant: few.release" in refused.output


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
    assert refused.exit_code == 1 and "order" in refused.output
