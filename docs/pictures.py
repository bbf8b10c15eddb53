"""The pictures of pages, drawn from runs: python docs/pictures.py writes docs/pictures/*.svg.

Greys and colours are read on light and on dark pages alike, so a picture has no background of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

import leastnoise as ln
from leastnoise.core.progress import Progress
from leastnoise.release import simulated
from leastnoise.release.ratios import RatioErrors, ratio_intervals
from leastnoise.report import to_svg

FOLDER = Path(__file__).parent / "pictures"

GREY = "#767676"
BLUE, ORANGE, GREEN = "#4c8bd6", "#d97b29", "#3d9a57"

GOAL = ln.ApproxDP(epsilon=1, delta=1e-6)
AGES = ln.Schema(age=range(64))
DISTRIBUTION = ln.assemble([ln.Prefix("age")], AGES)


def presence() -> Any:
    """What is seen of one count, with a person and without."""
    (sigma,) = ln.design(ln.assemble([ln.Total()], AGES), GOAL).stderr
    shown = np.linspace(82, 119, 400)
    rows = [
        {"the count that is seen": x, "likelihood": np.exp(-(((x - truth) / sigma) ** 2) / 2), "table": words}
        for truth, words in ((100, "without you: 100"), (101, "with you: 101"))
        for x in shown
    ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_area(opacity=0.35, line=True)
        .encode(
            x=alt.X("the count that is seen:Q", scale=alt.Scale(zero=False, nice=False)),
            y=alt.Y("likelihood:Q", axis=alt.Axis(labels=False, ticks=False), stack=None),
            color=alt.Color("table:N", scale=alt.Scale(range=[BLUE, ORANGE]), title=None, sort=None),
        )
        .properties(width=460, height=170)
    )


def batch() -> Any:
    """Standard errors of a distribution, by three ways to spend the same budget."""
    ways = {
        "noise on each count": "workload",
        "noise on each cell": "identity",
        "noise shaped to the batch": "dense",
    }
    rows = [
        {"counted up to age": age, "standard error": stderr, "way": words}
        for words, method in ways.items()
        for age, stderr in enumerate(ln.design(DISTRIBUTION, GOAL, method=method).stderr)
    ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("counted up to age:Q", scale=alt.Scale(nice=False)),
            y="standard error:Q",
            color=alt.Color(
                "way:N", scale=alt.Scale(range=[GREY, ORANGE, BLUE]), title=None, sort=list(ways)
            ),
        )
        .properties(width=460, height=220)
    )


def strategy() -> Any:
    """The rows that are asked for beside the rows that are measured."""
    ages = ln.Schema(age=range(16))
    asked = ln.assemble([ln.Prefix("age")], ages)
    plan = ln.design(asked, GOAL)
    measured = plan.strategy.dense()
    # A row's sign means nothing.
    measured = measured * np.sign([row[np.argmax(np.abs(row))] for row in measured])[:, None]
    panels = {"asked for": asked.dense(), "measured": measured / np.abs(measured).max()}
    rows = [
        {"age": cell, "row": row, "weight": float(weight), "panel": panel}
        for panel, matrix in panels.items()
        for row, weights in enumerate(matrix)
        for cell, weight in enumerate(weights)
    ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("age:O", axis=alt.Axis(values=list(range(0, 16, 5)), labelAngle=0)),
            y=alt.Y("row:O", axis=alt.Axis(labels=False, ticks=False), title=None),
            color=alt.Color(
                "weight:Q",
                scale=alt.Scale(domain=[-1, 0, 1], range=[ORANGE, "#99999933", BLUE]),
                legend=None,
            ),
            column=alt.Column("panel:N", sort=list(panels), title=None),
        )
        .properties(width=220, height=220)
    )


def certificate() -> Any:
    """How a plan and its bound close in on each other."""
    gaps: list[Progress] = []
    ln.design(ln.assemble([ln.AllRanges("age")], AGES), GOAL, progress=gaps.append)
    rows = [
        {"step of the search": state.step, "gap to the best possible": state.gap}
        for state in gaps
        if state.gap > 0
    ]
    line = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("step of the search:Q", axis=alt.Axis(tickMinStep=1, format="d")),
        y=alt.Y(
            "gap to the best possible:Q",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(format="~p", values=[1, 1e-2, 1e-4, 1e-6, 1e-8]),
        ),
    )
    return (line.mark_line(color=BLUE) + line.mark_point(color=BLUE, filled=True, size=60)).properties(
        width=460, height=180
    )


def intervals() -> Any:
    """Forty releases of the same count: the intervals that hold it, and those that miss."""
    counts = np.full(64, 50)
    plan = ln.design(DISTRIBUTION, GOAL)
    truth, place = int(counts[:32].sum()), 31
    rows = []
    for run, release in enumerate(simulated(plan, counts, n_runs=40, generator=np.random.default_rng(4)), 1):
        low, high = (ends[place] for ends in release.interval(0.95))
        outcome = "holds the truth" if low <= truth <= high else "misses it"
        rows.append(
            {
                "release": run,
                "low": low,
                "high": high,
                "answer": float(release.answers[place]),
                "interval": outcome,
            }
        )
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("release:O", axis=alt.Axis(values=[1, 10, 20, 30, 40], labelAngle=0)),
        color=alt.Color(
            "interval:N",
            scale=alt.Scale(domain=["holds the truth", "misses it"], range=[BLUE, ORANGE]),
            title=None,
        ),
    )
    bars = base.mark_rule(strokeWidth=2.5).encode(
        y=alt.Y("low:Q", scale=alt.Scale(zero=False), title="people under 32"), y2="high:Q"
    )
    points = base.mark_point(filled=True, size=30).encode(y="answer:Q")
    level = alt.Chart(alt.Data(values=[{"truth": truth}])).mark_rule(color=GREEN).encode(y="truth:Q")
    return (bars + points + level).properties(width=460, height=200)


def ratio_coverage() -> Any:
    """How often intervals for a ratio of 1 hold it, by the size of the denominator, in 20,000 draws each."""
    rng = np.random.default_rng(1)
    rows = []
    for size in np.arange(0.5, 10.01, 0.5):
        pairs = size + rng.standard_normal((20_000, 2))
        ones = np.ones(len(pairs))
        found = ratio_intervals(
            RatioErrors(pairs[:, 0], pairs[:, 1], ones, 0 * ones, ones), 0.95, positive=True
        )
        is_shown = np.isfinite(found.lower)
        is_held = (found.lower <= 1) & (found.upper >= 1)
        rates = {"of all releases": (is_held | ~is_shown).mean()}
        # Below 100 intervals a rate says little.
        rates |= {"of those shown": is_held[is_shown].mean()} if is_shown.sum() >= 100 else {}
        rows += [
            {
                "denominator, in its standard errors": size,
                "intervals that hold the ratio": rate,
                "rate": words,
            }
            for words, rate in rates.items()
        ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("denominator, in its standard errors:Q"),
            y=alt.Y(
                "intervals that hold the ratio:Q", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False)
            ),
            color=alt.Color("rate:N", scale=alt.Scale(range=[BLUE, ORANGE]), title=None, sort=None),
        )
        .properties(width=460, height=200)
    )


PICTURES: tuple[Callable[[], Any], ...] = (
    presence,
    batch,
    strategy,
    certificate,
    intervals,
    ratio_coverage,
)


def drawn(picture: Callable[[], Any]) -> str:
    """One picture as SVG."""
    chart = (
        picture()
        .configure(background="transparent")
        .configure_axis(
            labelColor=GREY, titleColor=GREY, gridColor="#76767633", domainColor=GREY, tickColor=GREY
        )
        .configure_legend(labelColor=GREY, titleColor=GREY, orient="top", labelLimit=0)
        .configure_header(labelColor=GREY, labelFontSize=13)
        .configure_view(stroke=None)
    )
    return to_svg(chart)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for entry in PICTURES:
        (FOLDER / f"{entry.__name__}.svg").write_text(drawn(entry) + "\n", encoding="utf-8")
        print(FOLDER / f"{entry.__name__}.svg")
    # Beside this file; they need Chromium.
    from planner_pictures import take

    take(FOLDER)
    from page_picture import take as take_page

    take_page(FOLDER)
