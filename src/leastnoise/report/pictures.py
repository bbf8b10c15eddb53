"""Pictures drawn as SVG: bars with error bars, lines within bands, maps of shades.

They hold classes and no colours, so that the style of the page gives them those of a light screen, a dark one
or paper. No script: values show where the pointer rests, by the title of what lies there. Written here rather
than by Altair because a picture takes a millisecond and a few kilobytes, and no JavaScript to be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.report.markup import Markup, element, escaped, joined, shortened

# In units of the picture; the page scales it to the width there is.
_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 44, 12, 34
_SIDE = 17  # a square of a map

# Tick labels are read on phones too, where the page sets them larger: so much room for each character.
_CHARACTER = 10.5

# Shades of a map, from h0 to h9.
_SHADES = 10


@dataclass(frozen=True, eq=False)
class Series:
    """One line: answers in order, and the ends of their intervals where these are known."""

    name: str
    answers: Array
    lower: Array | None
    upper: Array | None
    titles: Sequence[str]


def bar(answer: float, ends: tuple[float, float] | None, low: float, high: float) -> Markup:
    """A bar from zero to an answer with its error bar, for one row of a table; low and high are the column's.

    It stretches to the width of its cell. The numbers stand beside it, so readers of the page aloud skip it.
    """
    across = (high - low) or 1.0

    def at(value: float) -> float:
        return 100 * (value - low) / across

    start, end = sorted((at(0.0), at(answer)))
    parts = [
        f'<rect class="bar" x="{start:.2f}" y="2" width="{end - start:.2f}" height="8"/>',
        f'<path class="zero" d="M{at(0.0):.2f} 0V12"/>',
    ]
    if ends is not None:
        first, last = at(ends[0]), at(ends[1])
        parts.append(f'<path class="error" d="M{first:.2f} 6H{last:.2f}M{first:.2f} 3V9M{last:.2f} 3V9"/>')
    return Markup(
        '<svg class="row" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def bars_of(values: Sequence[float], largest: float) -> Markup:
    """Bars below one another, for one row of a table, in proportion to the largest of the column.

    The numbers stand beside them, so readers of the page aloud skip them.
    """
    high = 4 * len(values)
    parts = [
        f'<rect class="bar b{i}" x="0" y="{4 * i + 0.5}" width="{100 * value / largest:.2f}" height="3"/>'
        for i, value in enumerate(values)
        if math.isfinite(value) and largest > 0
    ]
    return Markup(
        f'<svg class="row" viewBox="0 0 100 {high}" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def lines(series: Sequence[Series], labels: Sequence[str], description: str) -> Markup:
    """Lines over values in order, each within the band of its intervals."""
    n = len(labels)
    low, high = value_range(series)
    marks = ticks(low, high)
    low, high = min(low, marks[0]), max(high, marks[-1])
    inner = _WIDTH - _LEFT - _RIGHT

    def x(i: int) -> float:
        return _LEFT + inner * (i / (n - 1) if n > 1 else 0.5)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    parts = []
    for mark in marks:
        kind = "axis" if mark == 0 else "grid"
        parts.append(f'<path class="{kind}" d="M{_LEFT} {y(mark):.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(_text(_LEFT - 8, y(mark) + 4, _tick(mark, marks), "end"))
    for i in _labelled(labels, inner):
        parts.append(_text(x(i), _HEIGHT - 10, shortened(labels[i], 12), "middle"))
    for number, line in enumerate(series, start=1):
        if line.lower is not None and line.upper is not None:
            above = [f"{x(i):.1f} {y(line.upper[i]):.1f}" for i in range(n)]
            below = [f"{x(i):.1f} {y(line.lower[i]):.1f}" for i in reversed(range(n))]
            parts.append(f'<path class="band s{number}" d="M{"L".join([*above, *below])}Z"/>')
    for number, line in enumerate(series, start=1):
        through = "L".join(f"{x(i):.1f} {y(line.answers[i]):.1f}" for i in range(n))
        parts.append(f'<path class="line s{number}" d="M{through}"/>')
    # A strip over every value, to rest the pointer on.
    step = inner / max(n - 1, 1)
    for i in range(n):
        told = _title(labels[i], *(line.titles[i] for line in series))
        parts.append(
            f'<rect class="hit" x="{x(i) - step / 2:.1f}" y="{_TOP}" width="{step:.1f}" '
            f'height="{_HEIGHT - _TOP - _BOTTOM}">{told}</rect>'
        )
    return _picture(_WIDTH, _HEIGHT, description, parts)


def shaded_map(
    values: Array, rows: Sequence[str], columns: Sequence[str], titles: Sequence[str], description: str
) -> Markup:
    """Squares that are darker where answers are larger; NaN is left blank.

    Args:
        values: (rows, columns).
        titles: what each square says, row by row.
    """
    n_rows, n_columns = values.shape
    names = [shortened(row, 18) for row in rows]
    left = round(8 + _CHARACTER * max(map(len, names)))
    top, wide = 30, max(n_columns * _SIDE, 160)
    side = wide / n_columns
    parts = [
        _text(left - 6, top + _SIDE * (i + 0.5) + 4, name, "end")
        for i, name in enumerate(names)
        if i % _every(n_rows, 34) == 0
    ]
    for j in _labelled(columns, wide):
        parts.append(_text(left + side * (j + 0.5), top - 10, shortened(columns[j], 12), "middle"))
    level = shades(values)
    for i in range(n_rows):
        for j in range(n_columns):
            if level[i, j] < 0:
                continue
            parts.append(
                f'<rect class="h{level[i, j]}" x="{left + side * j:.1f}" y="{top + _SIDE * i}" '
                f'width="{side:.1f}" height="{_SIDE}">{_title(titles[i * n_columns + j])}</rect>'
            )
    right = round(_CHARACTER * 6)
    return _picture(left + wide + right, top + _SIDE * n_rows + 6, description, parts)


def shades(values: Array) -> Array:
    """A shade from 0 to 9 for every value, rising from zero or the least to the largest; −1 for NaN."""
    known = values[np.isfinite(values)]
    low, high = min(known.min(initial=0.0), 0.0), known.max(initial=0.0)
    share = np.zeros(values.shape) if high <= low else (values - low) / (high - low)
    levels = np.floor(np.nan_to_num(share, nan=0.0) * (_SHADES - 1) + 0.5).astype(int)
    return np.where(np.isfinite(values), levels, -1)


def legend(names: Sequence[str]) -> Markup:
    """Which line is which."""
    swatch = (
        '<svg class="swatch" viewBox="0 0 28 8" aria-hidden="true"><path class="line s{}" d="M0 4H28"/></svg>'
    )
    items = [
        element("li", Markup(swatch.format(number)), " ", shortened(name, 40))
        for number, name in enumerate(names, start=1)
    ]
    return element("ul", *items, class_="legend")


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
    widest = max(len(shortened(label, 12)) for label in labels)
    fit = max(2, int(room / (_CHARACTER * (widest + 1.5))))
    return list(range(0, n, _every(n, fit)))


def _every(n: int, fit: int) -> int:
    return -(-n // fit)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _title(*lines: str) -> Markup:
    """What shows where the pointer rests."""
    return Markup(f"<title>{'&#10;'.join(escaped(line) for line in lines)}</title>")


def _picture(width: float, height: float, description: str, parts: Sequence[str]) -> Markup:
    opening = (
        f'<svg class="picture" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escaped(description)}" style="max-width:{width * 1.15:g}px">'
    )
    return joined(Markup(opening), *map(Markup, parts), Markup("</svg>"), by="")
