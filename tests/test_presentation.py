"""Rounding, reliability marks and suppression: against plain arithmetic, on every surface, and in files."""

from __future__ import annotations

import csv
import json
import math
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.app.cli.main import app
from leastnoise.app.specification import parse_spec
from leastnoise.core.errors import InputError, MethodError, PlanFileError, SpecError, UnrecordedSpending
from leastnoise.release import presentation_from_plain, simulated
from leastnoise.release.release_file import release_from_parts
from leastnoise.report import write_answers

SCHEMA = ln.Schema(age=range(6), sex=("F", "M"))
QUERIES = [
    ln.Marginal("age", "sex", name="both"),
    ln.Total(name="all"),
    ln.Mean("age", by="sex", name="mean age"),
    ln.Share(ln.Marginal("age"), of=ln.Total(), name="share"),
]


@cache
def release_of(seed: int = 0) -> ln.Release:
    plan = ln.design(ln.assemble(QUERIES, SCHEMA), ln.GDP(0.5), method="identity")
    rng = np.random.default_rng(seed)
    counts = rng.choice([0, 1, 5, 20, 300], size=SCHEMA.n_cells)
    return next(simulated(plan, counts, n_runs=1, generator=rng))


@pytest.mark.parametrize("seed", range(40))
def test_numbers_are_those_of_plain_arithmetic(seed: int) -> None:
    rng = random.Random(seed)
    release = release_of(seed % 5)
    base = rng.choice([None, 1, 3, 5, 10, 0.5])
    flag, suppress = rng.choice([(None, 0.5), (0.1, None), (0.1, 0.5), (0.3, 2.0)])
    shown = ln.present(release, round_to=base, flag_above=flag, suppress_above=suppress).to_frame()
    plain = release.to_frame()
    assert list(shown["query"]) == list(plain["query"]) and set(shown) == {*plain, "reliability"}
    for (_, now), (_, then) in zip(shown.iterrows(), plain.iterrows(), strict=True):
        is_count = then["query"] not in ("mean age", "share")
        if math.isnan(then["answer"]):
            assert math.isnan(now["answer"]) and now["reliability"] == "" and now["note"]
            continue
        variation = then["stderr"] / abs(then["answer"]) if then["answer"] else math.inf
        mark = "unreliable" if flag is not None and variation > flag else ""
        mark = "suppressed" if suppress is not None and variation > suppress else mark
        assert now["reliability"] == mark
        if mark == "suppressed":
            assert all(math.isnan(now[name]) for name in ("answer", "lower", "upper"))
        elif base is None or not is_count:
            assert [now[n] for n in ("answer", "lower", "upper")] == [
                then[n] for n in ("answer", "lower", "upper")
            ]
        else:
            assert now["answer"] / base == int(now["answer"] / base)
            assert abs(now["answer"] - then["answer"]) <= base / 2
            assert now["lower"] <= then["lower"] < now["lower"] + base
            assert now["upper"] - base < then["upper"] <= now["upper"]


def test_the_release_keeps_what_was_measured() -> None:
    release = release_of()
    shown = ln.present(release, round_to=10, suppress_above="30%")
    assert np.array_equal(shown.answers, release.answers) and np.array_equal(
        shown.measurements, release.measurements
    )
    assert shown.unrounded.presented is None and shown.unrounded.to_frame().equals(release.to_frame())
    assert "rounded to 10, suppressed above 0.3" in repr(shown)
    assert set(shown["both"]) >= {"reliability"} and "presented" in shown["both"].attrs
    adjusted = ln.present(ln.adjust(release), round_to=10)
    # The unadjusted answers would tell what was rounded.
    assert "unadjusted" not in adjusted.to_frame() and "unadjusted" in adjusted.unrounded.to_frame()


def test_a_zero_is_above_every_limit() -> None:
    chosen = presentation_from_plain({"flag_above": 0.5, "suppress_above": 10})
    marks = chosen.marks(np.array([0.0, 1.0, 4.0, np.nan]), np.array([1.0, 1.0, 1.0, 1.0]))
    assert marks == ["suppressed", "unreliable", "", ""]


def test_every_surface_shows_it_and_no_more(tmp_path: Path) -> None:
    release = release_of()
    shown = ln.present(release, round_to=50, flag_above=0.05, suppress_above="40%")
    frame = shown.to_frame()
    left_out = [
        label
        for label, mark in zip(frame["label"], frame["reliability"], strict=True)
        if mark == "suppressed"
    ]
    assert left_out and "unreliable" in set(frame["reliability"])
    with write_answers(shown, tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row, value, mark in zip(rows, frame["answer"], frame["reliability"], strict=True):
        assert row["answer"] == ("" if math.isnan(value) else f"{value:.15g}") and row["reliability"] == mark
    held = json.loads(write_answers(shown, tmp_path / "a.json").read_text())
    assert held["presented"] == shown.presented.statement()
    report = ln.summarize(shown)
    for text in (report.text(), report.html()):
        assert "rounded to multiples of 50" in " ".join(text.split())
        assert "suppressed" in text and "unreliable" in text
        # A number that is left out, or is rounded, stands nowhere.
        for value in release.answers[np.abs(release.answers) > 60]:
            assert not re.search(rf"\b{value:,.0f}\b", text) or value % 50 < 0.5 or value % 50 > 49.5
    assert "rounded" not in ln.summarize(release).text()


def test_a_file_keeps_the_presentation(tmp_path: Path) -> None:
    shown = ln.present(release_of(), round_to=5, flag_above=0.2)
    again = ln.load_release(shown.save(tmp_path / "a.release"))
    assert again.presented == shown.presented and again.to_frame().equals(shown.to_frame())
    assert ln.load_release(release_of().save(tmp_path / "b.release")).presented is None
    content, arrays = shown._to_parts()
    for wrong in ({"round_to": -1}, {"unknown": 1}, {}, "5", [1], {"flag_above": "many"}, {"round_to": True}):
        with pytest.raises(PlanFileError):
            release_from_parts({**content, "presented": wrong}, arrays, "a")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "round_to"),
        ({"round_to": 0}, "round_to"),
        ({"round_to": math.nan}, "round_to"),
        ({"round_to": 2.0**41}, "round_to"),
        ({"flag_above": -0.1}, "flag_above"),
        ({"flag_above": "20"}, "flag_above"),
        ({"suppress_above": "x%"}, "suppress_above"),
        ({"flag_above": 0.5, "suppress_above": 0.5}, "flag_above"),
    ],
)
def test_what_means_nothing_is_refused(given: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        ln.present(release_of(), **given)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_errors_that_are_not_known_have_no_limit() -> None:
    plan = ln.design(ln.assemble([ln.Prefix("age")], SCHEMA), ln.PureDP(1), method="mwem")
    with pytest.warns(UnrecordedSpending):
        release = ln.measure(plan, np.arange(12))
    with pytest.raises(MethodError):
        ln.present(release, flag_above=0.2)
    frame = ln.present(release, round_to=5).to_frame()
    assert (frame["answer"] % 5 == 0).all() and "reliability" not in frame


SPEC = """
[schema]
sex = ["F", "M"]
[privacy]
mu = 1
[[query]]
kind = "total"
[presentation]
"""


def test_a_specification_says_it() -> None:
    spec = parse_spec(SPEC + 'round_to = 5\nflag_above = "20%"\n')
    assert spec.presentation == presentation_from_plain({"round_to": 5, "flag_above": 0.2})
    assert parse_spec(spec.to_toml()).presentation == spec.presentation
    assert parse_spec(SPEC.replace("[presentation]", "")).presentation is None
    for wrong, field in (("round_to = 0", "round_to"), ("round = 5", None), ("", "round_to")):
        with pytest.raises(SpecError) as caught:
            parse_spec(SPEC + wrong)
        assert caught.value.field.startswith("presentation")
        assert field is None or field in caught.value.field


def run(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}).invoke(app, list(arguments))


def test_from_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    release_of().save("a.release")
    result = run("present", "a.release", "--round-to", "5", "--suppress-above", "40%", "--flag-above", "0.1")
    assert result.exit_code == 0 and "rounded to multiples of 5" in result.stdout
    again = ln.load_release("a-presented.release")
    assert again.presented == presentation_from_plain(
        {"round_to": 5, "suppress_above": 0.4, "flag_above": 0.1}
    )
    with Path("a-presented.csv").open(newline="", encoding="utf-8") as file:
        assert {row["reliability"] for row in csv.DictReader(file)} == {"", "unreliable", "suppressed"}
    refused = run("present", "a.release", "--out", "b.csv")
    assert refused.exit_code == 1 and "nothing is asked for" in refused.stderr
    assert not Path("b.csv").exists()


def test_publishing_with_a_presentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(SPEC + "round_to = 100\n")
    Path("people.csv").write_text("sex\n" + "F\n" * 340)
    result = run("publish", "s.toml", "--data", "people.csv")
    assert result.exit_code == 0, result.output
    with Path("s-answers.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["query"] != "not counted"]
    assert [row["answer"] for row in rows] == ["300"]
    kept = ln.load_release("s-answers.release")
    assert kept.presented is not None and abs(kept.answers[0] - 340) < 20
