"""The rows of an outcome as the table that a reader compares: printed numbers beside ours."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from leastnoise.papers.reproductions.points import Plain, Row
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing

PRINTED = "printed"
_ALL = "all of them"


def with_printed(rows: Sequence[Row], printed: Printed) -> list[Row]:
    """Every row with the number that the paper prints about the same, where there is just one."""
    found: list[Row] = []
    for row in rows:
        about = [entry.value for entry in printed.numbers if entry.is_about(row)]
        found.append({**row, PRINTED: float(about[0].replace(",", "")) if len(about) == 1 else None})
    return found if any(row[PRINTED] is not None for row in found) else list(rows)


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The names of all columns, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def pivot(rows: Sequence[Row], drawing: Drawing) -> tuple[list[str], list[list[str]]]:
    """The drawn numbers as head and lines: one line for each panel and x, one column for each series.

    Several rows about the same (draws of a random workload) are averaged. A printed number follows in
    brackets.
    """
    keys = [drawing.panel, drawing.x] if drawing.panel else [drawing.x]
    shown = [row for row in rows if drawing.y in row]
    if drawing.series == drawing.x:  # bars of one kind: a column for each would be a diagonal
        shown = [{**row, _ALL: drawing.y} for row in shown]
        drawing = replace(drawing, series=_ALL)
    series = list(dict.fromkeys(drawing.series_of(row) for row in shown))
    lines: dict[tuple[Plain, ...], dict[str, list[Row]]] = {}
    for row in shown:
        line = lines.setdefault(tuple(row.get(key, "–") for key in keys), {})
        line.setdefault(drawing.series_of(row), []).append(row)
    head = [*keys, *series]
    body = []
    for about, line in lines.items():
        cells = [_shown(line[name], drawing.y) if name in line else "" for name in series]
        body.append([*map(_plain, about), *cells])
    return head, body


def as_text(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table in fixed-width columns."""
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = ["  ".join(f"{text:>{width}}" for text, width in zip(line, widths, strict=True)) for line in body]
    first = "  ".join(f"{text:>{width}}" for text, width in zip(head, widths, strict=True))
    return "\n".join([first, "-" * len(first), *lines])


def as_markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(text.replace('|', '/') for text in line)} |" for line in lines)


def _shown(rows: Sequence[Mapping[str, Plain]], y: str) -> str:
    values = [float(value) for row in rows if isinstance(value := row.get(y), (int, float))]
    if not values:
        return "–"
    shown = figure(statistics.fmean(values))
    printed = rows[0].get(PRINTED)
    return shown if printed is None else f"{shown} ({figure(float(printed))})"


def _plain(value: Plain) -> str:
    return figure(value) if isinstance(value, float) else str(value)


def figure(value: float) -> str:
    """A number in five significant figures, without an exponent where it is of ordinary size."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.5g}"
    return f"{value:.3e}"
