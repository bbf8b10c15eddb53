"""The rows of an outcome as a chart: lines or bars, with the printed numbers as hollow points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leastnoise.papers.reproductions.reproduction import Drawing
from leastnoise.papers.reproductions.rows import Row
from leastnoise.papers.reproductions.writing import PRINTED

_WIDTH = {1: 560, 2: 300, 3: 230}
_HEIGHT = 260


def picture(rows: Sequence[Row], drawing: Drawing, *, title: str) -> Any:
    """An Altair chart of the rows; click an entry of the legend to see its series alone."""
    import altair as alt

    drawn = _drawn(rows, drawing)
    is_line = all(isinstance(row.get(drawing.x), (int, float)) for row in drawn)
    series = list(dict.fromkeys(row[drawing.series] for row in drawn))
    chosen = alt.selection_point(fields=[drawing.series], bind="legend", name="chosen")
    faded = alt.condition(chosen, alt.value(1.0), alt.value(0.12))
    # Bars of one place stand side by side, and their printed numbers with them.
    beside = {} if is_line else {"xOffset": alt.XOffset(f"{_field(drawing.series)}:N", sort=series)}
    base = alt.Chart(alt.Data(values=drawn)).encode(
        x=_x_axis(drawing, is_line), y=_y_axis(drawing), color=_colours(drawing, series)
    )
    marked = base.mark_line(point=True) if is_line else base.mark_bar()
    shown = marked.encode(opacity=faded, tooltip=_tooltips(drawing, is_line), **beside)
    layers = [shown.add_params(chosen)]
    if any(row.get(PRINTED) is not None for row in drawn):
        layers.append(_as_printed(base, drawing).encode(opacity=faded, **beside))
    chart = _in_panels(alt.layer(*layers), drawn, drawing)
    caption = alt.TitleParams(title, subtitle="hollow: as printed" if len(layers) > 1 else "", anchor="start")
    return chart.properties(title=caption)


def _drawn(rows: Sequence[Row], drawing: Drawing) -> list[Row]:
    """The rows that have a place in the chart, each with its series.

    What has no place on the x axis, such as a bound for all group sizes, is in the table alone.
    """
    return [
        {**row, drawing.series: drawing.series_of(row)}
        for row in rows
        if isinstance(row.get(drawing.y), (int, float)) and row.get(drawing.x) is not None
    ]


def _x_axis(drawing: Drawing, is_line: bool) -> Any:
    import altair as alt

    title = drawing.x_title or drawing.x
    if not is_line:
        return alt.X(f"{_field(drawing.x)}:N", sort=None, title=title)
    scale = alt.Scale(type="log" if "x" in drawing.log else "linear", zero=False, nice=False)
    return alt.X(f"{_field(drawing.x)}:Q", scale=scale, title=title)


def _y_axis(drawing: Drawing) -> Any:
    import altair as alt

    title = drawing.y_title or drawing.y
    return alt.Y(f"{_field(drawing.y)}:Q", aggregate="mean", scale=_y_scale(drawing), title=title)


def _y_scale(drawing: Drawing) -> Any:
    import altair as alt

    return alt.Scale(type="log" if "y" in drawing.log else "linear", zero="y" not in drawing.log)


def _colours(drawing: Drawing, series: Sequence[object]) -> Any:
    import altair as alt

    return alt.Color(
        f"{_field(drawing.series)}:N",
        sort=list(series),
        title=drawing.series,
        scale=alt.Scale(scheme="tableau10" if len(series) <= 10 else "tableau20"),
    )


def _tooltips(drawing: Drawing, is_line: bool) -> list[Any]:
    import altair as alt

    return [
        alt.Tooltip(f"{_field(drawing.series)}:N", title=drawing.series),
        alt.Tooltip(f"{_field(drawing.x)}:{'Q' if is_line else 'N'}", title=drawing.x),
        alt.Tooltip(f"{_field(drawing.y)}:Q", aggregate="mean", title=drawing.y, format=".5~g"),
    ]


def _as_printed(base: Any, drawing: Drawing) -> Any:
    """The printed numbers, as hollow points."""
    import altair as alt

    hollow = base.transform_filter(f"isValid(datum.{PRINTED})").mark_point(
        size=90, filled=False, strokeWidth=1.6, shape="diamond"
    )
    # One colour for all of them, so the series must be named apart for the means.
    return hollow.encode(
        y=alt.Y(f"{PRINTED}:Q", aggregate="mean", scale=_y_scale(drawing)),
        color=alt.value("#444"),
        detail=f"{_field(drawing.series)}:N",
    )


def _in_panels(layered: Any, drawn: Sequence[Row], drawing: Drawing) -> Any:
    """The chart at its size, once for every value of the column that tells panels apart."""
    import altair as alt

    panels = list(dict.fromkeys(row.get(drawing.panel) for row in drawn)) if drawing.panel else [None]
    n_columns = min(3, len(panels))
    chart = layered.properties(width=_WIDTH[n_columns], height=_HEIGHT)
    if not drawing.panel:
        return chart
    facet = alt.Facet(f"{_field(drawing.panel)}:N", sort=panels, title=None)
    return chart.facet(facet=facet, columns=n_columns).resolve_scale(x="independent", y="independent")


def _field(name: str) -> str:
    """A column's name as Vega-Lite reads it: dots and brackets would be paths, a colon a type."""
    return name.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[").replace(":", "\\:")
