"""Tables of answers on a canvas: what the page shows as HTML and pictures, in one drawing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise.core.printable import counted
from leastnoise.report.answer_tables import AnswerTable, row_names, titles_of
from leastnoise.report.batches import (
    AnswerList,
    CrossView,
    DrawnView,
    OneCount,
    Panel,
    SmallMultiples,
    view_of,
)
from leastnoise.report.charts.canvas import LINE, MARGIN, Canvas, text_width
from leastnoise.report.charts.pictures import ticks
from leastnoise.report.figures import number, outward
from leastnoise.report.rendering import shortened

# Characters of a label beside a bar, or of a row of a cross table.
_MAX_LABEL = 34

# Height of a row of bars, and of one of a cross table.
_ROW = 21

# Bars where some answers are missing; where none is, the page says how many.
_MAX_BARS = 40

# Least width of the bars.
_BARS = 240

# Width of small multiples side by side.
_SIDE_BY_SIDE = 1_000


def draw_table(canvas: Canvas, table: AnswerTable) -> None:
    """Draw a table the way that suits it, as `view_of` chooses, with its name above."""
    canvas.heading(table.name)
    if not np.isfinite(table.answers).all():
        # What is left out or not determined has no place on a line or in a shade.
        draw_bars(canvas, table, min(len(table.answers), _MAX_BARS))
        return
    view = view_of(table)
    if isinstance(view, OneCount):
        draw_one_count(canvas, view)
    elif isinstance(view, AnswerList):
        draw_bars(canvas, table, len(view.rows))
    elif isinstance(view, CrossView):
        canvas.y = draw_cross(canvas, view, MARGIN, canvas.y + 4)
        canvas.paragraph(_sentence(view.notes))
    elif isinstance(view, DrawnView):
        _draw_picture(canvas, view)
    else:
        _draw_panels(canvas, view)
    canvas.y += 10


def draw_one_count(canvas: Canvas, own: OneCount) -> None:
    """A single answer, large, and its interval."""
    canvas.y += 32
    canvas.text(MARGIN, canvas.y - 6, own.answer, "huge")
    if own.low:
        x = MARGIN + 15 * len(own.answer) + 14
        canvas.text(x, canvas.y - 8, f"{own.level}: {own.low} to {own.high}")


def draw_bars(canvas: Canvas, table: AnswerTable, n_rows: int) -> None:
    """A bar with its error bar for each of the first rows, and the numbers to its right.

    A row without a number, because it was left out or is not determined, says so.
    """
    name = row_names(table.factors) if table.factors else lambda j: table.labels[j]
    labels = [shortened(name(j), _MAX_LABEL) for j in range(n_rows)]
    figures = [_figures(table, j) for j in range(n_rows)]
    left = MARGIN + max(text_width(label) for label in labels) + 10
    first = max(text_width(answer) for answer, _ in figures)
    wide = first + max(text_width(ends) for _, ends in figures) + 14
    bars = max(_BARS, canvas.width - left - wide - 12 - MARGIN)
    canvas.widen(left + bars + 12 + wide)
    marks, at = _bar_scale(table, n_rows, left, bars)
    top = canvas.y + LINE
    for mark in marks:
        kind = "axis" if mark == 0 else "grid"
        canvas.path(f"M{at(mark):.1f} {top:.1f}v{_ROW * n_rows + 4}", kind)
    canvas.scale_texts([(at(mark), _short(mark)) for mark in marks], top - 4)
    for j, (label, (answer, ends)) in enumerate(zip(labels, figures, strict=True)):
        y = top + 3 + _ROW * j
        canvas.text(left - 8, y + 13, label, "plain", "end")
        _draw_bar(canvas, table, j, y, at)
        canvas.text(left + bars + 12 + first, y + 13, answer, "plain", "end")
        canvas.text(left + bars + 12 + first + 10, y + 13, ends)
    canvas.y = top + _ROW * n_rows + 8
    canvas.paragraph(_bar_notes(table, n_rows))


def _draw_bar(canvas: Canvas, table: AnswerTable, j: int, y: float, at: _Scale) -> None:
    answer = float(table.answers[j])
    if not np.isfinite(answer):
        return
    start, end = sorted((at(0.0), at(answer)))
    canvas.box(start, y + 2, end - start, _ROW - 7, "bar", table.with_interval(j))
    if table.lower is not None and table.upper is not None:
        low, high, middle = at(float(table.lower[j])), at(float(table.upper[j])), y + _ROW / 2 - 1
        canvas.path(
            f"M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 4:.1f}v8M{high:.1f} {middle - 4:.1f}v8",
            "error",
        )


class _Scale:
    """Where a value stands between two ends."""

    def __init__(self, low: float, high: float, left: float, wide: float) -> None:
        self.low, self.left, self.unit = low, left, wide / (high - low)

    def __call__(self, value: float) -> float:
        return self.left + (value - self.low) * self.unit


def _bar_scale(table: AnswerTable, n_rows: int, left: float, wide: float) -> tuple[list[float], _Scale]:
    """Round numbers along the bars, zero among them, and where they stand."""
    drawn = [own[:n_rows] for own in (table.answers, table.lower, table.upper) if own is not None]
    known = np.concatenate([np.zeros(1), *(own[np.isfinite(own)] for own in drawn)])
    low, high = float(known.min()), float(known.max())
    marks = ticks(low, high, 4)
    return marks, _Scale(min(low, marks[0]), max(high, marks[-1]), left, wide)


def _figures(table: AnswerTable, j: int) -> tuple[str, str]:
    """An answer, and its interval."""
    if not np.isfinite(table.answers[j]):
        return "–", ""
    answer = number(table.answers[j], table.decimals)
    if table.lower is None or table.upper is None:
        return answer, ""
    return answer, " to ".join(outward(table.lower[j], table.upper[j], table.decimals))


def _bar_notes(table: AnswerTable, n_rows: int) -> str:
    notes = [f"Down: {titles_of(table.factors)}"] if table.factors else []
    if table.lower is not None:
        notes.append(f"{table.level:.0%} intervals as black lines, and beside the answers")
    n_all = len(table.answers)
    if n_rows < n_all:
        notes.append(f"the first {n_rows:,} of {counted(n_all, 'count')}")
    if not np.isfinite(table.answers[:n_rows]).all():
        notes.append("–: left out or not determined")
    return _sentence(notes) if notes else ""


def draw_cross(canvas: Canvas, view: CrossView, left: float, top: float) -> float:
    """A cross table with shaded cells; gives where it ends below."""
    columns = list(zip(*(cells for _, cells in view.rows), strict=True))
    names = [shortened(text, 18) for text, _ in view.heads[1:]]
    labels = [shortened(label, _MAX_LABEL) for label, _ in view.rows]
    first = max(text_width(text) for text in [shortened(view.heads[0][0], _MAX_LABEL), *labels]) + 14
    widths = [
        max([text_width(name), *(text_width(text) for text, _ in cells)]) + 18
        for name, cells in zip(names, columns, strict=True)
    ]
    canvas.text(left, top + 14, view.heads[0][0], "strong", most=_MAX_LABEL)
    x = left + first
    for name, width, cells in zip(names, widths, columns, strict=True):
        canvas.text(x + width - 8, top + 14, name, "strong", "end")
        for i, (text, shade) in enumerate(cells):
            y = top + _ROW * (i + 1)
            if view.is_shaded:
                canvas.box(x, y, width - 1, _ROW - 1, f"c{shade.strip()[1:]}")
            canvas.text(x + width - 8, y + 14, text, "plain", "end")
        x += width
    for i, label in enumerate(labels):
        canvas.text(left, top + _ROW * (i + 1) + 14, label, "plain")
    canvas.widen(x)
    return top + _ROW * (len(labels) + 1) + 4


def _draw_picture(canvas: Canvas, view: DrawnView) -> None:
    if view.names:
        canvas.legend(view.names)
    if view.picture.kind == "map":
        canvas.shade_scale()
    canvas.picture(view.picture, MARGIN, canvas.y + 4)
    canvas.y += view.picture.height + 6
    canvas.paragraph(_sentence(view.notes))


def _draw_panels(canvas: Canvas, view: SmallMultiples) -> None:
    """Pictures or tables side by side, as many in a row as fit."""
    if view.names:
        canvas.legend(view.names)
    elif view.panels[0].content.kind != "lines":
        canvas.shade_scale()
    top, x, bottom = canvas.y + 6, float(MARGIN), 0.0
    for panel in view.panels:
        # Drawn aside first, to know its size.
        aside = Canvas(width=0.0)
        _draw_panel(aside, panel)
        if x > MARGIN and x + aside.width > _SIDE_BY_SIDE:
            x, top = float(MARGIN), bottom + 8
        bottom = max(bottom, top + _draw_panel(canvas, panel, x, top))
        x += max(aside.width, text_width(panel.title)) + 8
        canvas.widen(x - MARGIN)
    canvas.y = bottom
    canvas.paragraph(_sentence(view.notes))


def _draw_panel(canvas: Canvas, panel: Panel, x: float = 0.0, y: float = 0.0) -> float:
    """One panel with its title; gives its height."""
    canvas.text(x, y + 14, panel.title, "strong", most=48)
    if isinstance(panel.content, CrossView):
        return draw_cross(canvas, panel.content, x, y + LINE) - y
    canvas.picture(panel.content, x, y + LINE)
    return LINE + panel.content.height


def _sentence(notes: Sequence[str]) -> str:
    return f"{'; '.join(notes)}."


def _short(mark: float) -> str:
    """A round number beside an axis."""
    if abs(mark) >= 1e6:
        return f"{mark / 1e6:,.10g} M"
    return f"{mark:,.10g}"
