"""The pictures of the page: bars with error bars, lines within bands, maps of shades.

Here they are laid out: where each line, square and label stands. `templates/pictures.html` draws them as SVG
with classes and no colours, so that the style of the page gives them those of a light screen, a dark one or
paper. No script: values show where the pointer rests, by the title of what lies there. Not drawn by Altair
because a picture takes a millisecond and a few kilobytes this way, and no JavaScript.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.core.printable import printable
from leastnoise.report.rendering import shortened

# Width and height of a picture in units, which the page scales to the width there is; and of one of several
# beside one another.
WIDE = (640, 260)
PANEL = (330, 210)

# Room beside, above and below the lines, in the same units.
_LEFT = 84
_RIGHT = 44
_TOP = 12
_BOTTOM = 34

# Side of a square of a map, in the same units.
_SIDE = 17

# Width of a character of a tick label, in the same units: labels are read on phones too, where the page sets
# them larger.
_CHARACTER = 9.5

# Characters of a label of an axis: a label is cut only where it is longer than a line of text.
_MAX_TICK_LABEL = 40

# Characters of a line of a label of a row of a map, and lines: longer ones are wrapped.
_ROW_LABEL = 26
_MAX_ROW_LINES = 6

# Height of a line of such a label, in the same units.
_LINE = 19

# Width of a map from which on its squares get narrower.
_MAP_WIDTH = 560

# Shades of a map, from h0 to h9.
_SHADES = 10


@dataclass(frozen=True)
class Bar:
    """A bar from zero to an answer, in hundredths of its column; `error` is the path of its error bar."""

    start: str
    width: str
    zero: str
    error: str


@dataclass(frozen=True)
class StackedBars:
    """Bars below one another: class number, height and width of each."""

    height: int
    bars: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class PlacedText:
    """A text and where it stands; turned by that many degrees about its start."""

    x: str
    y: str
    text: str
    anchor: str
    turn: int = 0


@dataclass(frozen=True)
class LineChart:
    """Lines over values in order: points, tick labels and the strips to rest the pointer on."""

    width: int
    height: int
    description: str
    grid: tuple[tuple[str, str], ...]
    texts: tuple[PlacedText, ...]
    bands: tuple[tuple[int, tuple[str, ...]], ...]
    lines: tuple[tuple[int, tuple[str, ...]], ...]
    strips: tuple[tuple[str, str, tuple[str, ...]], ...]
    strip_top: int
    strip_height: int

    kind = "lines"


@dataclass(frozen=True)
class ShadedMap:
    """Squares in shades on a light plate: shade, x, y, height and title of each."""

    width: int
    height: int
    description: str
    texts: tuple[PlacedText, ...]
    squares: tuple[tuple[int, str, int, int, str], ...]
    square_width: str
    plate: tuple[str, int, str, int]

    kind = "map"


@dataclass(frozen=True, eq=False)
class Series:
    """One line: answers in order, and the ends of their intervals where these are known."""

    name: str
    answers: Array
    lower: Array | None
    upper: Array | None
    titles: Sequence[str]


def bar(answer: float, ends: tuple[float, float] | None, low: float, high: float) -> Bar:
    """A bar from zero to an answer with its error bar; low and high are those of its column."""
    across = (high - low) or 1.0

    def at(value: float) -> float:
        return 100 * (value - low) / across

    start, end = sorted((at(0.0), at(answer)))
    error = ""
    if ends is not None:
        first, last = at(ends[0]), at(ends[1])
        error = f"M{first:.2f} 6H{last:.2f}M{first:.2f} 3V9M{last:.2f} 3V9"
    return Bar(f"{start:.2f}", f"{end - start:.2f}", f"M{at(0.0):.2f} 0V12", error)


def stacked_bars(values: Sequence[float], largest: float) -> StackedBars:
    """Bars for one row of a table, in proportion to the largest of the column."""
    bars = [
        (i, f"{4 * i + 0.5}", f"{100 * value / largest:.2f}")
        for i, value in enumerate(values)
        if math.isfinite(value) and largest > 0
    ]
    return StackedBars(4 * len(values), tuple(bars))


def line_chart(
    series: Sequence[Series],
    labels: Sequence[str],
    description: str,
    *,
    marked: int | None = None,
    size: tuple[int, int] = WIDE,
    scale: tuple[float, float] | None = None,
) -> LineChart:
    """Lines over values in order, each within the band of its intervals; one value may be marked.

    Args:
        scale: the least and the largest value of the axis, where several pictures share it.
    """
    n = len(labels)
    width, height = size
    low, high = value_range(series) if scale is None else scale
    marks = ticks(low, high, 5 if size == WIDE else 3)
    low, high = min(low, marks[0]), max(high, marks[-1])
    inner = width - _LEFT - _RIGHT

    def x(i: int) -> float:
        return _LEFT + inner * (i / (n - 1) if n > 1 else 0.5)

    def y(value: float) -> float:
        return _TOP + (height - _TOP - _BOTTOM) * (high - value) / (high - low)

    def points(values: Array) -> list[str]:
        return [f"{x(i):.1f} {y(values[i]):.1f}" for i in range(n)]

    grid, texts, bands = [], [], []
    for mark in marks:
        grid.append(("axis" if mark == 0 else "grid", f"M{_LEFT} {y(mark):.1f}H{width - _RIGHT}"))
        texts.append(_text(_LEFT - 8, y(mark) + 4, _tick(mark, marks), "end"))
    if marked is not None:
        grid.append(("axis marked", f"M{x(marked):.1f} {_TOP}V{height - _BOTTOM}"))
    for i in _labelled(labels, inner):
        texts.append(_within(x(i), height - 10, shortened(labels[i], _MAX_TICK_LABEL), width))
    for number, line in enumerate(series, start=1):
        if line.lower is not None and line.upper is not None:
            bands.append((number, (*points(line.upper), *reversed(points(line.lower)))))
    drawn = [(number, tuple(points(line.answers))) for number, line in enumerate(series, start=1)]
    step = inner / max(n - 1, 1)
    strips = [
        (f"{x(i) - step / 2:.1f}", f"{step:.1f}", (labels[i], *(line.titles[i] for line in series)))
        for i in range(n)
    ]
    return LineChart(
        width,
        height,
        description,
        tuple(grid),
        tuple(texts),
        tuple(bands),
        tuple(drawn),
        tuple(strips),
        _TOP,
        height - _TOP - _BOTTOM,
    )


def shaded_map(
    levels: Array, rows: Sequence[str], columns: Sequence[str], titles: Sequence[str], description: str
) -> ShadedMap:
    """Squares that are darker where answers are larger; every row is named in full.

    Args:
        levels: (rows, columns), as `shades` gives them; −1 leaves a square blank.
        titles: what each square says, row by row.
    """
    n_rows, n_columns = levels.shape
    names = [textwrap.wrap(row, _ROW_LABEL)[:_MAX_ROW_LINES] or [""] for row in map(printable, rows)]
    left = round(8 + _CHARACTER * max(len(line) for name in names for line in name))
    wide = min(max(n_columns * _SIDE, 160), max(_MAP_WIDTH, n_columns))
    side = wide / n_columns
    texts, top = _column_labels(columns, left, side)
    heights = [max(_SIDE, _LINE * len(name)) for name in names]
    starts = [top + sum(heights[:i]) for i in range(n_rows)]
    for name, start, height in zip(names, starts, heights, strict=True):
        first = start + height / 2 + 4 - _LINE * (len(name) - 1) / 2
        texts += [_text(left - 6, first + _LINE * k, line, "end") for k, line in enumerate(name)]
    squares = [
        (int(levels[i, j]), f"{left + side * j:.1f}", starts[i], heights[i], titles[i * n_columns + j])
        for i in range(n_rows)
        for j in range(n_columns)
        if levels[i, j] >= 0
    ]
    width, height = left + wide + round(_CHARACTER * 3), top + sum(heights) + 6
    plate = (f"{left}", top, f"{wide:.1f}", sum(heights))
    return ShadedMap(width, height, description, tuple(texts), tuple(squares), f"{side:.1f}", plate)


def _column_labels(columns: Sequence[str], left: int, side: float) -> tuple[list[PlacedText], int]:
    """What stands above the columns of a map, and how much room it takes: turned where it is wide."""
    names = [shortened(column, _MAX_TICK_LABEL) for column in columns]
    widest = _CHARACTER * (max(map(len, names)) + 1)
    turned = widest > side * _every(len(names), 12)
    every = _every(_SIDE, side) if turned else _every(widest, side)
    top = round(widest * 0.85) + 8 if turned else 30
    texts = [
        _text(left + side * (j + 0.5) + 4, top - 6, names[j], "start", turn=-90)
        if turned
        else _text(left + side * (j + 0.5), top - 10, names[j], "middle")
        for j in range(0, len(names), every)
    ]
    return texts, top


def shades(values: Array) -> Array:
    """A shade from 0 to 9 for every value, rising from zero or the least to the largest; −1 for NaN."""
    known = values[np.isfinite(values)]
    low, high = min(known.min(initial=0.0), 0.0), known.max(initial=0.0)
    share = np.zeros(values.shape) if high <= low else (values - low) / (high - low)
    levels = np.floor(np.nan_to_num(share, nan=0.0) * (_SHADES - 1) + 0.5).astype(int)
    return np.where(np.isfinite(values), levels, -1)


def value_range(series: Sequence[Series]) -> tuple[float, float]:
    """The least and the largest of all that is drawn, zero included."""
    drawn = [v for s in series for v in (s.answers, s.lower, s.upper) if v is not None]
    return min(0.0, *(float(v.min()) for v in drawn)), max(0.0, *(float(v.max()) for v in drawn))


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from a range up to above it: steps of 1, 2 or 5 times a power of ten.

    Example:
        >>> ticks(0, 83), ticks(-3, 3), ticks(0, 0)
        ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [-2.0, 0.0, 2.0, 4.0], [0.0, 1.0])
    """
    rough = (high - low) / about
    # Less than this has no power of ten among the floats.
    if not rough > 1e-300:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step), math.ceil(high / step)
    return [k * step for k in range(first, last + 1)]


def _tick(mark: float, marks: Sequence[float]) -> str:
    step = marks[1] - marks[0]
    if max(abs(marks[0]), abs(marks[-1])) >= 1e9 or step < 1e-4:
        return f"{mark:.2g}" if mark else "0"
    if step >= 1e5:
        return f"{mark / 1e6:,.10g} M" if mark else "0"
    return f"{mark:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def _labelled(labels: Sequence[str], room: float) -> list[int]:
    """Which values get a label: as many, evenly spaced, as there is room for."""
    n = len(labels)
    widest = max(len(shortened(label, _MAX_TICK_LABEL)) for label in labels)
    fit = max(2, int(room / (_CHARACTER * (widest + 1.5))))
    return list(range(0, n, _every(n, fit)))


def _every(n: float, fit: float) -> int:
    return max(1, math.ceil(n / fit))


def _text(x: float, y: float, text: str, anchor: str, turn: int = 0) -> PlacedText:
    return PlacedText(f"{x:.1f}", f"{y:.1f}", text, anchor, turn)


def _within(x: float, y: float, text: str, width: int) -> PlacedText:
    """A text centred at x, or as near as the ends of the picture allow."""
    half = _CHARACTER * len(text) / 2
    return _text(max(half, min(x, width - half)), y, text, "middle")
