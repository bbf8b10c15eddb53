"""Standard errors against ε, as an Altair chart: a panel for every batch, marked where its target is met."""

from __future__ import annotations

from typing import Any

from leastnoise.core.errors import MissingExtraError
from leastnoise.core.printable import printable
from leastnoise.report.trade_off_table import Tradeoff

# Panels beyond these are left to the table.
MOST_PANELS = 24

_OURS, _COUNT, _CELL = "this plan", "noise on each count", "noise on each cell"


def chart_of(table: Tradeoff) -> Any:
    """Both axes in powers of ten; the target is a dashed line, and a mark shows from which ε on it is met.

    Raises:
        MissingExtraError: if Altair is not installed.
    """
    try:
        import altair as alt
    except ImportError:
        raise MissingExtraError(
            "a chart needs Altair and vl-convert: pip install altair vl-convert-python"
        ) from None
    values = _values(table)
    x = alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="epsilon")
    y = alt.Y("stderr:Q", scale=alt.Scale(type="log"), title="standard error (root mean square)")
    color = alt.Color("way:N", title=None, sort=[_OURS, _COUNT, _CELL])
    base = alt.Chart()
    lines = (
        base.transform_filter("datum.kind == 'error'")
        .mark_line(point=True)
        .encode(x=x, y=y, color=color, tooltip=["way:N", "epsilon:Q", "stderr:Q", "told:N"])
    )
    layers = [lines]
    told = ["Both axes in powers of ten: further right is less privacy, further down is less noise."]
    if any(row["kind"] == "target" for row in values):
        layers.append(
            base.transform_filter("datum.kind == 'target'")
            .mark_rule(strokeDash=[4, 4])
            .encode(y=y, tooltip=["told:N"])
        )
        told.append("Dashed: the target of each batch. Diamond: from there on all of its answers keep it.")
        # From this ε on the largest standard error, which is what a target is about, is below the line.
        layers.append(
            base.transform_filter("datum.kind == 'met'")
            .mark_point(shape="diamond", filled=True, size=120, color="black")
            .encode(x=x, y=y, tooltip=["told:N"])
        )
    shown = [printable(batch.name) for batch in table.asked[:MOST_PANELS]]
    return (
        alt.layer(*layers, data=alt.Data(values=values))
        .properties(width=280, height=200)
        .facet(facet=alt.Facet("batch:N", title=None, sort=shown), columns=2)
        .resolve_scale(y="independent")
        .properties(title=alt.Title(f"Accuracy against privacy: {table.what}", subtitle=told, anchor="start"))
    )


def _values(table: Tradeoff) -> list[dict[str, Any]]:
    """What the chart shows, one line for every point, target and mark."""
    values: list[dict[str, Any]] = []
    for number, batch in enumerate(table.asked[:MOST_PANELS]):
        name = printable(batch.name)
        for point in table.points:
            own = point.batches[number]
            told = "" if own.is_met is None else "target met" if own.is_met else "target missed"
            for way, stderr in ((_OURS, own.rms), (_COUNT, own.per_count), (_CELL, own.per_cell)):
                # A logarithm has no place for zero, which counts of nothing have.
                if stderr > 0:
                    values.append(
                        {
                            "batch": name,
                            "kind": "error",
                            "way": way,
                            "epsilon": point.epsilon,
                            "stderr": stderr,
                            "told": told if way == _OURS else "",
                        }
                    )
        if batch.stderr is None or batch.met_from is None:
            continue
        told = f"target {batch.target}, met from epsilon {batch.met_from:.4g}"
        values.append({"batch": name, "kind": "target", "stderr": batch.stderr, "told": told})
        low, high = table.points[0].epsilon, table.points[-1].epsilon
        if low <= batch.met_from <= high:
            mark = {"kind": "met", "epsilon": batch.met_from, "stderr": batch.stderr, "told": told}
            values.append({"batch": name, **mark})
    return values
