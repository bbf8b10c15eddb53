"""Altair charts of reproductions; they need the extra "charts"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from leastnoise.report.charts.chart_files import altair_package

# Width of a panel of a reproduction by the panels in a row, and its height, in pixels.
_PANEL_WIDTH = {1: 560, 2: 300, 3: 230}
_PANEL_HEIGHT = 260


# ------------------------------------------------------------------------ rows of a reproduction

# Panels whose numbers span less than this many powers of ten have further marks between the powers.
_FEW_DECADES = 2.0

# Numbers on an x axis, each of which has a mark of its own.
_MAX_MARKS = 12

# What a mark of an axis is called: 20k and 3M above ten thousand, plain numbers below.
_LABEL = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, ',~g')"


@dataclass(frozen=True)
class Drawing:
    """How rows are drawn.

    Attributes:
        x, y: the columns on the axes; a text column on x gives bars, numbers give lines.
        series: the column that tells the lines or bars apart.
        panel: the column with one panel for each of its values; None for a single one.
        log: which axes are logarithmic: "", "x", "y" or "xy".
        x_title, y_title: what the axes say; the columns' names unless given.
        names: what series are called, where not by their value in the column.
    """

    x: str
    y: str
    series: str
    panel: str | None = None
    log: Literal["", "x", "y", "xy"] = ""
    x_title: str = ""
    y_title: str = ""
    names: Mapping[str, str] = field(default_factory=dict)

    def series_of(self, row: Mapping[str, Any]) -> str:
        """Which line or bar a row belongs to; one that does not say so is its method's own."""
        found = row.get(self.series)
        name = str(row.get("method", "–") if found is None else found)
        return self.names.get(name, name)


def rows_chart(
    rows: Sequence[Mapping[str, Any]], drawing: Drawing, *, printed: str, title: str, cut: str = ""
) -> Any:
    """Lines or bars, with printed numbers as hollow points; a click on the legend shows a series alone.

    Args:
        printed: the column that holds printed numbers, where a row has one.
        cut: the column that says whether a search was cut off; such points are crossed out.

    Raises:
        MissingExtraError: if Altair is not installed.
    """
    alt = altair_package()

    drawn = _drawn(rows, drawing)
    is_line = all(isinstance(row.get(drawing.x), (int, float)) for row in drawn)
    series = list(dict.fromkeys(row[drawing.series] for row in drawn))
    chosen = alt.selection_point(fields=[drawing.series], bind="legend", name="chosen")
    faded = alt.condition(chosen, alt.value(1.0), alt.value(0.12))
    # Bars of one place stand side by side, and their printed numbers with them; bars of one kind fill theirs.
    is_beside = not is_line and drawing.x != drawing.series
    beside = {"xOffset": alt.XOffset(f"{_field(drawing.series)}:N", sort=series)} if is_beside else {}
    base = alt.Chart(alt.Data(values=drawn)).encode(
        x=_x_axis(drawing, drawn, is_line), y=_y_axis(drawing, drawn), color=_colours(drawing, series)
    )
    marked = base.mark_line(point=True) if is_line else base.mark_bar()
    shown = marked.encode(opacity=faded, tooltip=_tooltips(drawing, is_line), **beside)
    layers = [shown.add_params(chosen)]
    captions = []
    if any(row.get(printed) is not None for row in drawn):
        layers.append(_as_printed(base, drawing, printed).encode(opacity=faded, **beside))
        captions.append("hollow diamond: as printed")
    if cut and any(row.get(cut) for row in drawn):
        crosses = base.transform_filter(f"datum.{cut}").mark_point(
            shape="cross", size=120, angle=45, filled=True
        )
        layers.append(crosses.encode(opacity=faded, **beside))
        captions.append("cross: cut off by our time limit, judged in no check")
    chart = _in_panels(alt.layer(*layers), drawn, drawing)
    return chart.properties(title=alt.TitleParams(title, subtitle=captions or "", anchor="start"))


def _drawn(rows: Sequence[Mapping[str, Any]], drawing: Drawing) -> list[dict[str, Any]]:
    """The rows that have a place in the chart, each with its series.

    What has no place on the x axis, such as a bound for all group sizes, is in the table alone.
    """
    return [
        {**row, drawing.series: drawing.series_of(row)}
        for row in rows
        if isinstance(row.get(drawing.y), (int, float)) and row.get(drawing.x) is not None
    ]


def _x_axis(drawing: Drawing, drawn: Sequence[Mapping[str, Any]], is_line: bool) -> Any:
    alt = altair_package()

    title = drawing.x_title or drawing.x
    if not is_line:
        axis = alt.Axis(labelAngle=-35, labelLimit=260, labelOverlap=False)
        return alt.X(f"{_field(drawing.x)}:N", sort=None, title=title, axis=axis)
    scale = alt.Scale(type="log" if "x" in drawing.log else "linear", zero=False, nice=False)
    # Marks where there are points, those left out that would overlap.
    places = sorted({row[drawing.x] for row in drawn})
    axis = alt.Axis(labelExpr=_LABEL, labelOverlap="greedy", labelSeparation=6)
    if "x" in drawing.log and len(places) <= _MAX_MARKS:
        axis = alt.Axis(values=places, labelExpr=_LABEL, labelOverlap="greedy", labelSeparation=6)
    return alt.X(f"{_field(drawing.x)}:Q", scale=scale, title=title, axis=axis)


def _y_axis(drawing: Drawing, drawn: Sequence[Mapping[str, Any]]) -> Any:
    alt = altair_package()

    title = drawing.y_title or drawing.y
    axis = alt.Axis(labelExpr=_LABEL, labelOverlap=True)
    if "y" in drawing.log:
        axis = alt.Axis(labelExpr=_LABEL, values=_marks(drawing, drawn), labelOverlap=True)
    return alt.Y(f"{_field(drawing.y)}:Q", aggregate="mean", scale=_y_scale(drawing), title=title, axis=axis)


def _marks(drawing: Drawing, drawn: Sequence[Mapping[str, Any]]) -> list[float]:
    """Powers of ten, with 2 and 5 times each where the numbers of some panel span few of them."""
    values: dict[object, list[float]] = {}
    for row in drawn:
        if row[drawing.y] > 0:
            panel = row.get(drawing.panel) if drawing.panel else None
            values.setdefault(panel, []).append(float(row[drawing.y]))
    if not values:
        return []
    spans = [math.log10(max(found) / min(found)) for found in values.values()]
    between = (1, 2, 5) if min(spans) < _FEW_DECADES else (1,)
    low = math.floor(math.log10(min(map(min, values.values()))))
    high = math.ceil(math.log10(max(map(max, values.values()))))
    return [step * 10.0**power for power in range(low, high + 1) for step in between]


def _y_scale(drawing: Drawing) -> Any:
    alt = altair_package()

    return alt.Scale(type="log" if "y" in drawing.log else "linear", zero="y" not in drawing.log)


def _colours(drawing: Drawing, series: Sequence[object]) -> Any:
    alt = altair_package()

    return alt.Color(
        f"{_field(drawing.series)}:N",
        sort=list(series),
        title=drawing.series,
        scale=alt.Scale(scheme="tableau10" if len(series) <= 10 else "tableau20"),
        # Names in full, however long.
        legend=None if drawing.x == drawing.series else alt.Legend(labelLimit=0, symbolLimit=0),
    )


def _tooltips(drawing: Drawing, is_line: bool) -> list[Any]:
    alt = altair_package()

    return [
        alt.Tooltip(f"{_field(drawing.series)}:N", title=drawing.series),
        alt.Tooltip(f"{_field(drawing.x)}:{'Q' if is_line else 'N'}", title=drawing.x),
        alt.Tooltip(f"{_field(drawing.y)}:Q", aggregate="mean", title=drawing.y, format=".5~g"),
    ]


def _as_printed(base: Any, drawing: Drawing, printed: str) -> Any:
    """The printed numbers, as hollow points."""
    alt = altair_package()

    hollow = base.transform_filter(f"isValid(datum.{printed})").mark_point(
        size=90, filled=False, strokeWidth=1.6, shape="diamond"
    )
    # One colour for all of them, so the series must be named apart for the means.
    return hollow.encode(
        y=alt.Y(f"{printed}:Q", aggregate="mean", scale=_y_scale(drawing)),
        color=alt.value("#444"),
        detail=f"{_field(drawing.series)}:N",
    )


def _in_panels(layered: Any, drawn: Sequence[Mapping[str, Any]], drawing: Drawing) -> Any:
    """The chart at its size, once for every value of the column that tells panels apart."""
    alt = altair_package()

    panels = list(dict.fromkeys(row.get(drawing.panel) for row in drawn)) if drawing.panel else [None]
    n_columns = min(3, len(panels))
    chart = layered.properties(width=_PANEL_WIDTH[n_columns], height=_PANEL_HEIGHT)
    if not drawing.panel:
        return chart
    # A bare number says nothing: "n = 1024".
    label = f"'{drawing.panel} = ' + datum.label" if _are_numbers(panels) else "datum.label"
    header = alt.Header(labelExpr=label)
    facet = alt.Facet(f"{_field(drawing.panel)}:N", sort=panels, title=None, header=header)
    return chart.facet(facet=facet, columns=n_columns).resolve_scale(x="independent", y="independent")


def _are_numbers(values: Sequence[object]) -> bool:
    return all(isinstance(value, (int, float)) for value in values)


def _field(name: str) -> str:
    """A column's name as Vega-Lite reads it: dots and brackets would be paths, a colon a type."""
    return name.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[").replace(":", "\\:")
