"""An outcome as a table, as text for a terminal, and as files: rows, pictures, verdict."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from leastnoise.core.printable import no_formulas
from leastnoise.core.whole_file import written_whole
from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing
from leastnoise.papers.reproductions.rows import IS_CUT, NOTE, Plain, Row, was_cut
from leastnoise.papers.reproductions.running import Outcome
from leastnoise.papers.reproductions.verdicts import kind_of

PRINTED = "printed"
_ALL = "all of them"

# Follows a number whose search our time limit has ended.
CUT_MARK = "†"


def with_printed(rows: Sequence[Row], printed: Printed, drawing: Drawing) -> list[Row]:
    """Every row with the number that the paper prints about the same, where there is just one."""
    if printed.of not in ("", drawing.y):
        return list(rows)
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
    brackets, a mark where a search was cut off.
    """
    keys = [drawing.panel, drawing.x] if drawing.panel else [drawing.x]
    shown = [row for row in rows if drawing.y in row]
    if drawing.series == drawing.x:  # bars of one kind: a column for each would be a diagonal
        shown = [{**row, drawing.x: drawing.series_of(row), _ALL: drawing.y} for row in shown]
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
    shown = figure(statistics.fmean(values)) + (CUT_MARK if any(map(was_cut, rows)) else "")
    printed = rows[0].get(PRINTED)
    return shown if printed is None else f"{shown} ({figure(float(printed))})"


def _plain(value: Plain) -> str:
    return figure(value) if isinstance(value, float) else str(value)


def figure(value: float) -> str:
    """A number in five significant figures, without an exponent where it is of ordinary size."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.5g}"
    return f"{value:.3e}"


def write(outcome: Outcome, folder: Path) -> list[Path]:
    """Write CSV, SVG, an interactive page and the verdict as JSON; gives their paths.

    Raises:
        MissingExtraError: if Altair is not installed; the CSV and the verdict are there then.
    """
    found = outcome.reproduction
    rows = with_printed(outcome.rows, found.printed, found.drawing)
    stem = folder / found.paper / found.name.partition("/")[2]
    stem.parent.mkdir(parents=True, exist_ok=True)
    table, verdict = stem.with_suffix(".csv"), stem.with_suffix(".json")
    with written_whole(table) as path, path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns_of(rows))
        writer.writeheader()
        writer.writerows(map(no_formulas, rows))
    with written_whole(verdict) as path:
        path.write_text(json.dumps(record(outcome), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    written = [table, verdict]
    if any(isinstance(row.get(found.drawing.y), (int, float)) for row in rows):
        written += _pictures(outcome, rows, stem)
    return written


def heading(outcome: Outcome) -> str:
    """What a table or figure shows; anything smaller than the paper's own sizes says so."""
    found = outcome.reproduction
    smaller = " (quick: smaller than the paper's sizes)" if outcome.setting.is_quick else ""
    return f"{found.name}: {found.title}{smaller}"


def _pictures(outcome: Outcome, rows: Any, stem: Path) -> list[Path]:
    from leastnoise.core.errors import MissingExtraError
    from leastnoise.report import rows_chart, to_page, to_svg

    title = heading(outcome)
    drawing = outcome.reproduction.drawing
    try:
        chart = rows_chart(rows, drawing, printed=PRINTED, cut=IS_CUT, title=title)
    except MissingExtraError as error:
        table = stem.with_suffix(".csv")
        raise MissingExtraError(*error.args, f"; the numbers are in {table}", field=error.field) from None
    tables = {"Printed and ours": checks_table(outcome), caption(outcome): pivot(rows, drawing)}
    made = []
    for suffix, text in ((".svg", to_svg(chart)), (".html", to_page(chart, title=title, tables=tables))):
        with written_whole(stem.with_suffix(suffix)) as path:
            path.write_text(text, encoding="utf-8")
        made.append(stem.with_suffix(suffix))
    return made


def checks_table(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Head and lines of what is printed beside what came out."""
    body = [
        [check.claim, "as claimed" if check.printed == "yes" else check.printed, check.ours, kind_of(check)]
        for check in outcome.checks
    ]
    return ["what", "printed", "ours", "verdict"], body


def record(outcome: Outcome) -> dict[str, Any]:
    """What is kept of an outcome beside its rows, in plain values."""
    found = outcome.reproduction
    return {
        "name": found.name,
        "title": found.title,
        "printed": found.printed.page,
        "made by": found.made_by,
        "size": outcome.setting.size,
        "verdict": outcome.verdict,
        "seconds": round(outcome.seconds, 1),
        "machines": outcome.machines,
        "checks": [{**asdict(check), "kind": kind_of(check)} for check in outcome.checks],
        "notes": found.notes,
    }


def caption(outcome: Outcome) -> str:
    """What the numbers of the table are."""
    found = outcome.reproduction
    has_printed = found.printed.numbers and found.printed.of in ("", found.drawing.y)
    brackets = "; printed numbers in brackets" if has_printed else ""
    cut = f"; {CUT_MARK} cut off by our time limit" if any(map(was_cut, outcome.rows)) else ""
    return f"{found.drawing.y_title or found.drawing.y}{brackets}{cut}"


def to_text(outcome: Outcome) -> str:
    """The printed numbers beside ours, the table, and the verdict, for a terminal."""
    found = outcome.reproduction
    head = heading(outcome)
    rows = with_printed(outcome.rows, found.printed, found.drawing)
    lines = [head, "=" * len(head), f"{found.printed.page}; computed by {found.made_by}", ""]
    lines += [*map(str, outcome.checks), ""]
    columns, body = pivot(rows, found.drawing)
    lines.append(caption(outcome))
    lines.append(as_text(columns, body) if body else "no point of this size has such a number")
    notes = dict.fromkeys(str(row[NOTE]) for row in outcome.rows if row.get(NOTE))
    lines += ["", *notes] if notes else []
    lines += ["", *(f"Note: {note}" for note in found.notes)]
    lines.append(f"verdict: {outcome.verdict} ({outcome.setting.size} size, {outcome.seconds:.1f} s of work)")
    return "\n".join(lines)
