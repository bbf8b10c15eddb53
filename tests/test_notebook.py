"""What a notebook shows of a value: what it prints, escaped, and nothing that runs."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import leastnoise as ln

HOSTILE = "<script>alert('x')</script>"


@cache
def values() -> dict[str, Any]:
    schema = ln.Schema(town=("Ash", HOSTILE, "Birk"), sex=("F", "M"))
    workload = ln.assemble([ln.Marginal("town", "sex"), ln.Total()], schema)
    plan = ln.design(workload, ln.GDP(1))
    with pytest.warns(ln.core.errors.UnrecordedSpending):
        release = ln.measure(plan, [5, 4, 3, 2, 1, 0])
    return {
        "schema": schema,
        "workload": workload,
        "plan": plan,
        "certificate": plan.certificate,
        "release": release,
        "report": ln.summarize(release),
        "publication": ln.Publication(title=HOSTILE),
    }


@pytest.mark.parametrize(
    "name", ["schema", "workload", "plan", "certificate", "release", "report", "publication"]
)
def test_a_value_shows_itself_and_runs_nothing(name: str) -> None:
    shown = values()[name]._repr_html_()
    assert shown and "<script" not in shown.lower()


def test_a_release_shows_its_answers() -> None:
    release = values()["release"]
    shown = release._repr_html_()
    assert "Birk" in shown and f"{release.answers[0]:,.4g}" in shown
    assert "&lt;script&gt;" in shown


def test_a_report_shows_its_page_in_a_frame_that_runs_nothing() -> None:
    shown = values()["report"]._repr_html_()
    assert shown.startswith("<iframe sandbox ") and "&lt;html" in shown
