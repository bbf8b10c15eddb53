"""Reports over time: series with bands, this period marked, errors beside releases each by itself."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.report import page
from leastnoise.report.over_time import ErrorsOverTime, answer_pictures, errors_over_time
from test_streams import asked, drawn, exact_plan, last_counted, new_ledger, table
from tolerances import SOLVER

MONTHS = tuple(f"2026-{month:02}" for month in range(1, 5))


@cache
def plans(seed: int) -> tuple[ln.Plan, ln.Plan]:
    """A plan over time for a workload nobody chose, and noise on every cell for the same."""
    workload, over = drawn(seed)
    return ln.design(workload, ln.GDP(2), over=over), ln.design(workload, ln.GDP(2), method="identity")


def by_hand(plan: ln.Plan, other: ln.Plan) -> dict[tuple[str, str], tuple[float, float]]:
    """The root mean squares of each batch and period from the standard errors of two plans, in loops."""
    due = last_counted(plan.workload, "month")
    found: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    start = 0
    for block in plan.workload.blocks:
        for row in range(start, start + block.n_rows):
            own = found.setdefault((block.name, f"2026-{due[row] + 1:02}"), ([], []))
            own[0].append(float(plan.stderr[row]))
            own[1].append(float(other.stderr[row]))
        start += block.n_rows
    return {
        name: (math.sqrt(np.mean(np.square(a))), math.sqrt(np.mean(np.square(b))))
        for name, (a, b) in found.items()
    }


def agrees(told: list[ErrorsOverTime], known: dict[tuple[str, str], tuple[float, float]]) -> bool:
    """Whether what is told is what was found by hand, for every batch that is due more than once."""
    names = [name for name, _ in known]
    expected = {key: pair for key, pair in known.items() if names.count(key[0]) > 1}
    found = {
        (own.name, period): (a, b)
        for own in told
        for period, a, b in zip(own.periods, own.together.tolist(), own.apart.tolist(), strict=True)
    }
    # Integers on a grid: noise on cells may be larger by its rounding.
    return found.keys() == expected.keys() and all(
        np.allclose(found[key], expected[key], rtol=SOLVER) for key in found
    )


@pytest.mark.parametrize("seed", range(12))
def test_errors_over_time_are_those_of_the_plan_and_of_cells_alone(seed: int) -> None:
    plan, cells = plans(seed)
    assert agrees(errors_over_time(plan), by_hand(plan, cells))


def test_a_twin_that_takes_the_plan_for_both_is_noticed() -> None:
    assert not all(agrees(errors_over_time(plan), by_hand(plan, plan)) for plan, _ in map(plans, range(12)))


def test_a_plan_tells_what_it_is_worth_to_plan_all_periods_together() -> None:
    workload = ln.assemble([ln.Prefix("month", name="so far")], ln.Schema(month=range(12)))
    plan = ln.design(workload, ln.GDP(1), over="month", objective=ln.MaxVariance())
    cells = ln.design(workload, ln.GDP(1), method="identity")
    factor = f"{cells.stderr[-1] / plan.stderr[-1]:.2f} times as much"
    text = " ".join(ln.summarize(plan).text().split())
    assert factor in text
    assert factor in page.page(plan)
    plain = ln.design(workload, ln.GDP(1))
    assert "Over time" not in ln.summarize(plain).text()
    assert 'id="time"' not in page.page(plain)


def test_the_report_of_a_period_draws_the_series_and_marks_the_period(tmp_path: Path) -> None:
    stream = ln.open_stream(exact_plan(), new_ledger(tmp_path), stream_id="a")
    for month in MONTHS[:3]:
        release = stream.measure(month, table())
    views = {view.name: view for view in answer_pictures(release, 0.95)}
    # The total is due at the end, and nothing of it is drawn.
    assert len(views) == 3
    frame = table()
    by_sex = next(view for view in views.values() if view.names)
    assert by_sex.names == ("F", "M")
    rows = [(row.label, *row.figures) for row in by_sex.numbers.rows]
    for label, *figures in rows:
        counts = [((frame["month"] == label) & (frame["sex"] == sex)).sum() for sex in ("F", "M")]
        assert [round(float(text)) for text in figures] == counts
    assert [label for label, *_ in rows] == list(MONTHS[:3])
    for view in views.values():
        assert sum("marked" in kind for kind, _ in view.picture.grid) == 1
        assert MONTHS[2] in view.picture.description
        assert len(view.picture.bands) == max(len(view.names), 1)
    html = page.page(release)
    assert html.count('class="axis marked"') == 3
    assert "This period, 2026-03, is marked" in html


def test_answers_that_are_suppressed_are_not_drawn(tmp_path: Path) -> None:
    stream = ln.open_stream(exact_plan(), new_ledger(tmp_path), stream_id="a")
    stream.measure(MONTHS[0], table())
    release = stream.measure(MONTHS[1], table())
    shown = ln.present(release, round_to=5)
    assert answer_pictures(release, 0.95)
    assert not answer_pictures(shown, 0.95)
    assert 'class="axis marked"' not in page.page(shown)


def test_a_plan_without_noise_over_time_has_pictures_of_errors_alone() -> None:
    plan = ln.design(asked(), ln.GDP(1), over="month")
    html = page.page(plan)
    assert 'id="time"' in html
    assert 'class="axis marked"' not in html
