"""The rows of an outcome as a chart: lines or bars, with the printed numbers as hollow points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leastnoise.reproductions.points import Row
from leastnoise.reproductions.reproduction import Drawing
from leastnoise.reproductions.table import PRINTED

_WIDTH = {1: 560, 2: 300, 3: 230}
_HEIGHT = 260


def picture(rows: Sequence[Row], drawing: Drawing, *, title: str) -> Any:
    """An Altair chart of the rows; click an entry of the legend to see its series alone."""
    import altair as alt

    # What has no place on the x axis, such as a bound for all group sizes, is in the table alone.
    drawn = [
        {**row, drawing.series: drawing.series_of(row)}
        for row in rows
        if isinstance(row.get(drawing.y), (int, float)) and row.get(drawing.x) is not None
    ]
    is_line = all(isinstance(row.get(drawing.x), (int, float)) for row in drawn)
    series = list(dict.fromkeys(row[drawing.series] for row in drawn))
    panels = list(dict.fromkeys(row.get(drawing.panel) for row in drawn)) if drawing.panel else [None]
    chosen = alt.selection_point(fields=[drawing.series], bind="legend", name="chosen")
    scale_x = alt.Scale(type="log" if "x" in drawing.log else "linear", zero=False, nice=False)
    scale_y = alt.Scale(type="log" if "y" in drawing.log else "linear", zero="y" not in drawing.log)
    y = alt.Y(f"{_field(drawing.y)}:Q", aggregate="mean", scale=scale_y, title=drawing.y_title or drawing.y)
    if is_line:
        x = alt.X(f"{_field(drawing.x)}:Q", scale=scale_x, title=drawing.x_title or drawing.x)
    else:
        x = alt.X(f"{_field(drawing.x)}:N", sort=None, title=drawing.x_title or drawing.x)
    colour = alt.Color(
        f"{_field(drawing.series)}:N",
        sort=series,
        title=drawing.series,
        scale=alt.Scale(scheme="tableau10" if len(series) <= 10 else "tableau20"),
    )
    seen = [
        alt.Tooltip(f"{_field(drawing.series)}:N", title=drawing.series),
        alt.Tooltip(f"{_field(drawing.x)}:{'Q' if is_line else 'N'}", title=drawing.x),
        alt.Tooltip(f"{_field(drawing.y)}:Q", aggregate="mean", title=drawing.y, format=".5~g"),
    ]
    base = alt.Chart(alt.Data(values=drawn)).encode(x=x, y=y, color=colour)
    faded = alt.condition(chosen, alt.value(1.0), alt.value(0.12))
    if is_line:
        shown = base.mark_line(point=True).encode(opacity=faded, tooltip=seen)
    else:
        shown = base.mark_bar().encode(
            opacity=faded, tooltip=seen, xOffset=alt.XOffset(f"{_field(drawing.series)}:N", sort=series)
        )
    layers = [shown.add_params(chosen)]
    if any(row.get(PRINTED) is not None for row in drawn):
        hollow = base.transform_filter(f"isValid(datum.{PRINTED})").mark_point(
            size=90, filled=False, strokeWidth=1.6, shape="diamond"
        )
        offset = {} if is_line else {"xOffset": alt.XOffset(f"{_field(drawing.series)}:N", sort=series)}
        printed_y = alt.Y(f"{PRINTED}:Q", aggregate="mean", scale=scale_y)
        # One colour for all of them, so the series must be named apart for the means.
        hollow = hollow.encode(
            y=printed_y,
            opacity=faded,
            color=alt.value("#444"),
            detail=f"{_field(drawing.series)}:N",
            **offset,
        )
        layers.append(hollow)
    n_columns = min(3, len(panels))
    chart = alt.layer(*layers).properties(width=_WIDTH[n_columns], height=_HEIGHT)
    if drawing.panel:
        facet = alt.Facet(f"{_field(drawing.panel)}:N", sort=panels, title=None)
        chart = chart.facet(facet=facet, columns=n_columns).resolve_scale(x="independent", y="independent")
    caption = alt.TitleParams(title, subtitle="hollow: as printed" if len(layers) > 1 else "", anchor="start")
    return chart.properties(title=caption)


def _field(name: str) -> str:
    """A column's name as Vega-Lite reads it: dots and brackets would be paths, a colon a type."""
    return name.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[").replace(":", "\\:")
