"""Pictures of trade-offs and of comparisons: accuracy against privacy, and methods side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leastnoise.core.printable import counted
from leastnoise.report.charts.canvas import LINE, MARGIN, Canvas, log_ticks, text_width
from leastnoise.report.charts.picture import Picture
from leastnoise.report.charts.pictures import ticks
from leastnoise.report.figures import four_digits
from leastnoise.report.rendering import shortened

if TYPE_CHECKING:
    from leastnoise.report.comparison import MethodComparison
    from leastnoise.report.trade_off_table import AskedBatch, Tradeoff

# Panels of a trade-off; further batches are left to the table.
MAX_PANELS = 24

# The lines of a trade-off.
WAYS = ("this plan", "noise on each count", "noise on each cell, added up")

# Width and height of a panel, and the room for the numbers beside and below its lines.
_PANEL = (330, 210)
_LEFT = 64
_BOTTOM = 26

# Methods of a comparison that are drawn.
_MAX_METHODS = 60

_ROW = 22


class LogScale:
    """Where a positive number stands on a logarithmic axis from one end to the other."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low = math.log(low)
        self._start = start
        self._unit = (end - start) / (math.log(high) - self._low)

    def __call__(self, value: float) -> float:
        return self._start + (math.log(value) - self._low) * self._unit


class LinearScale:
    """Where a number stands on an axis from zero."""

    def __init__(self, high: float, left: float, right: float) -> None:
        self._left, self._unit = left, (right - left) / high

    def __call__(self, value: float) -> float:
        return self._left + value * self._unit


# ------------------------------------------------------------------------ accuracy against privacy


def tradeoff_picture(table: Tradeoff) -> Picture:
    """Standard errors against ε: a panel for every batch, marked where its target is met.

    Both axes are logarithmic. The target is a line across, and a diamond shows from which ε on it is
    met.
    """
    title = f"Accuracy against privacy: {table.what}"
    canvas = Canvas(width=2 * _PANEL[0] + 2 * MARGIN + 8)
    canvas.heading(title, large=True)
    canvas.paragraph(
        "Standard errors (root mean squares) by epsilon, both on logarithmic scales: further right is less "
        "privacy, further down is less noise."
    )
    canvas.legend(WAYS)
    shown = table.asked[:MAX_PANELS]
    top = canvas.y + 6
    for number, batch in enumerate(shown):
        row, column = divmod(number, 2)
        x, y = MARGIN + column * (_PANEL[0] + 8), top + row * (_PANEL[1] + 12)
        canvas.text(x, y + 14, batch.name, "strong", most=46)
        _draw_panel(canvas, table, number, batch, x, y + LINE)
    canvas.y = top + math.ceil(len(shown) / 2) * (_PANEL[1] + 12)
    if any(batch.stderr is not None for batch in shown):
        canvas.paragraph(
            "Brown: the target of each query. Diamond: all of its answers keep it from there on."
        )
    if len(table.asked) > len(shown):
        canvas.paragraph(f"The first {len(shown)} of {counted(len(table.asked), 'batch')}.")
    return canvas.to_picture(title)


def _draw_panel(canvas: Canvas, table: Tradeoff, number: int, batch: AskedBatch, x: float, y: float) -> None:
    """The lines of one batch, its target, and from which ε on it is met."""
    epsilons = [point.epsilon for point in table.points]
    ways = [
        [getattr(point.batches[number], name) for point in table.points]
        for name in ("rms", "per_count", "per_cell")
    ]
    # A logarithm has no place for zero, which counts of nothing have.
    drawn = [value for way in ways for value in way if value > 0]
    if batch.stderr is not None:
        drawn.append(batch.stderr)
    if not drawn:
        canvas.text(x, y + LINE, "Nothing is counted: no error.")
        return
    right, bottom = x + _PANEL[0] - 12, y + _PANEL[1] - LINE - _BOTTOM
    across, down = log_ticks(epsilons[0], epsilons[-1]), log_ticks(min(drawn), max(drawn))
    at_x = LogScale(across[0], across[-1], x + _LEFT, right)
    at_y = LogScale(down[0], down[-1], bottom, y + 8)
    for mark in down:
        canvas.path(f"M{x + _LEFT:.1f} {at_y(mark):.1f}H{right:.1f}", "grid")
        canvas.text(x + _LEFT - 6, at_y(mark) + 4, f"{mark:,.6g}", anchor="end")
    for mark in across:
        canvas.path(f"M{at_x(mark):.1f} {bottom:.1f}v4", "axis")
    canvas.scale_texts([(at_x(mark), f"{mark:g}") for mark in across], bottom + 17)
    for way, values in enumerate(ways, start=1):
        _draw_line(canvas, [(at_x(e), at_y(v)) for e, v in zip(epsilons, values, strict=True) if v > 0], way)
    for place, point in enumerate(table.points):
        _draw_points(canvas, batch.name, point.epsilon, [way[place] for way in ways], at_x, at_y)
    if batch.stderr is not None and batch.met_from is not None:
        level = at_y(batch.stderr)
        canvas.path(f"M{x + _LEFT:.1f} {level:.1f}H{right:.1f}", "target")
        if epsilons[0] <= batch.met_from <= epsilons[-1]:
            canvas.path(f"M{at_x(batch.met_from):.1f} {level - 7:.1f}l6 7l-6 7l-6 -7z", "diamond")


def _draw_line(canvas: Canvas, points: Sequence[tuple[float, float]], way: int) -> None:
    if points:
        canvas.path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), f"line s{way}")


def _draw_points(
    canvas: Canvas, name: str, epsilon: float, values: Sequence[float], at_x: LogScale, at_y: LogScale
) -> None:
    """What shows where the pointer rests on a point of each line."""
    for way, value in zip(WAYS, values, strict=True):
        if value > 0:
            said = f"{shortened(name, 60)}, {way}, epsilon {epsilon:.4g}: {four_digits(value)}"
            canvas.box(at_x(epsilon) - 4, at_y(value) - 4, 8, 8, "hit", said)


# ------------------------------------------------------------------------ methods side by side


def comparison_picture(table: MethodComparison) -> Picture:
    """A dot for every method, and a line for the bound; dots that no bound covers are hollow."""
    placed = [c for c in table.contenders if c.achieved is not None][:_MAX_METHODS]
    title = f"Methods by {table.unit}"
    canvas = Canvas()
    canvas.heading(title, large=True)
    if not placed:
        canvas.paragraph("No method could serve.")
        return canvas.to_picture(title)
    values = [float(c.achieved or 0.0) for c in placed]
    bound = table.lower_bound
    names = [shortened(c.method, 40) for c in placed]
    left = MARGIN + max(map(text_width, names)) + 12
    right = max(canvas.width - MARGIN - 90, left + 300)
    canvas.widen(right + 90)
    # A logarithm has no place for zero, which nothing asked costs.
    is_log = min(values) > 0
    drawn = [*values, *([bound] if bound > 0 or not is_log else [])]
    marks = log_ticks(min(drawn), max(drawn)) if is_log else ticks(0.0, max(drawn), 5)
    at = LogScale(marks[0], marks[-1], left, right) if is_log else LinearScale(marks[-1], left, right)
    top = canvas.y + LINE + 6
    for mark in marks:
        canvas.path(f"M{at(mark):.1f} {top:.1f}v{_ROW * len(placed) + 4}", "grid")
    canvas.scale_texts([(at(mark), f"{mark:,.10g}") for mark in marks], top - 5)
    bottom = top + _ROW * len(placed) + 8
    if bound > 0 or not is_log:
        canvas.path(f"M{at(bound):.1f} {top:.1f}V{bottom:.1f}", "target")
    for i, (name, contender, value) in enumerate(zip(names, placed, values, strict=True)):
        y = top + 4 + _ROW * i + _ROW / 2
        canvas.text(left - 10, y + 4, name, "plain", "end")
        kind = "dot" if contender.gap is not None else "dot hollow"
        canvas.path(f"M{at(value) - 5:.1f} {y:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0", kind)
        said = f"{name}: {value:,.6g}, {contender.kind}, {contender.seconds:.2f} s"
        canvas.box(at(value) - 6, y - 6, 12, 12, "hit", said)
        canvas.text(right + 14, y + 4, four_digits(value))
    canvas.y = bottom
    for note in _comparison_notes(table, len(placed), is_log=is_log):
        canvas.paragraph(note)
    return canvas.to_picture(title)


def _comparison_notes(table: MethodComparison, n_drawn: int, *, is_log: bool) -> list[str]:
    """How to read the picture."""
    scale = " on a logarithmic scale" if is_log else ""
    notes = [f"{table.unit[0].upper()}{table.unit[1:]}{scale}: further left is better."]
    if table.lower_bound > 0 or not is_log:
        notes.append(f"Brown: no {table.among} noise can have less, proved.")
    if any(c.gap is None for c in table.contenders if c.achieved is not None):
        notes.append("Hollow: simulated, or with noise that the bound does not cover.")
    n_left = len(table.contenders) - n_drawn
    if n_left:
        notes.append(f"Not drawn: {counted(n_left, 'method')} that could not serve; the table says why.")
    return notes
