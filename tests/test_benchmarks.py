"""The benchmarks themselves: what they print last is reached, and figures that differ are told."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from tolerances import printed

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


def test_closed_form_is_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to take two values of a search that gives three, after all other lines were printed."""
    found: float = script("pure", monkeypatch).two_way_marginals()
    # What HDMM printed.
    assert found == pytest.approx(85.60, abs=printed(2))


def test_figures_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = script("figures", monkeypatch)
    kept = json.loads(figures.KEPT.read_text())
    assert set(kept) == set(figures.COMMANDS)
    then = kept["scale.py --only unions"]
    assert figures.differences(then, then) == []
    name = next(iter(then))
    line = then[name]
    for worse in (
        {"value": "9.9"},
        {"gap": "5.0e-02"},
        {"above dense": "3.000 %"},
        {"bound below": "3.000 %"},
    ):
        [told] = figures.differences(then, {**then, name: {**line, **worse}})
        assert told.startswith(name)
    assert len(figures.differences(then, {name: line})) == len(then) - 1
    assert (
        figures.differences(then, {**then, name: {**line, "gap": "0.0e+00", "above dense": "0.000 %"}}) == []
    )
