"""An outcome as files: rows, pictures, verdict."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leastnoise.core.printable import no_formulas
from leastnoise.core.whole_file import written_whole
from leastnoise.papers.reproductions.running import NOTE, Outcome
from leastnoise.papers.reproductions.table import as_text, columns_of, pivot, with_printed


def write(outcome: Outcome, folder: Path) -> list[Path]:
    """Write CSV, SVG, an interactive page and the verdict as JSON; gives their paths.

    Raises:
        MissingExtraError: if Altair is not installed; the CSV and the verdict are there then.
    """
    rows = with_printed(outcome.rows, outcome.reproduction.printed)
    stem = folder / outcome.reproduction.paper / outcome.reproduction.name.partition("/")[2]
    stem.parent.mkdir(parents=True, exist_ok=True)
    table, verdict = stem.with_suffix(".csv"), stem.with_suffix(".json")
    with written_whole(table) as path, path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns_of(rows))
        writer.writeheader()
        writer.writerows(map(no_formulas, rows))
    with written_whole(verdict) as path:
        path.write_text(json.dumps(_judged(outcome), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    written = [table, verdict]
    if any(isinstance(row.get(outcome.reproduction.drawing.y), (int, float)) for row in rows):
        written += _pictures(outcome, rows, stem)
    return written


def _pictures(outcome: Outcome, rows: Any, stem: Path) -> list[Path]:
    from leastnoise.core.errors import MissingExtraError
    from leastnoise.report.charts import to_page, to_svg

    try:
        from leastnoise.papers.reproductions.picture import picture

        title = f"{outcome.reproduction.name}: {outcome.reproduction.title}"
        chart = picture(rows, outcome.reproduction.drawing, title=title)
    except ImportError:
        raise MissingExtraError(
            "a picture needs Altair and vl-convert: pip install altair vl-convert-python; the numbers "
            f"are in {stem.with_suffix('.csv')}"
        ) from None
    made = []
    for suffix, text in ((".svg", to_svg(chart)), (".html", to_page(chart, title=title))):
        with written_whole(stem.with_suffix(suffix)) as path:
            path.write_text(text, encoding="utf-8")
        made.append(stem.with_suffix(suffix))
    return made


def _judged(outcome: Outcome) -> dict[str, Any]:
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
        "checks": [asdict(check) for check in outcome.checks],
        "notes": found.notes,
    }


def caption(outcome: Outcome) -> str:
    """What the numbers of the table are."""
    drawing = outcome.reproduction.drawing
    brackets = "; printed numbers in brackets" if outcome.reproduction.printed.numbers else ""
    return f"{drawing.y_title or drawing.y}{brackets}"


def as_words(outcome: Outcome) -> str:
    """The table, the printed numbers beside ours, and the verdict, for a terminal."""
    found = outcome.reproduction
    heading = f"{found.name}: {found.title}"
    rows = with_printed(outcome.rows, found.printed)
    lines = [heading, "=" * len(heading), f"{found.printed.page}; computed by {found.made_by}", ""]
    head, body = pivot(rows, found.drawing)
    lines.append(caption(outcome))
    lines.append(as_text(head, body) if body else "no point of this size has such a number")
    notes = dict.fromkeys(str(row[NOTE]) for row in outcome.rows if row.get(NOTE))
    lines += ["", *notes] if notes else []
    lines += ["", *map(str, outcome.checks), ""]
    lines += [f"Note: {note}" for note in found.notes]
    lines.append(f"verdict: {outcome.verdict} ({outcome.setting.size} size, {outcome.seconds:.1f} s of work)")
    return "\n".join(lines)
