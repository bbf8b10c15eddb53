"""What a notebook shows of a release: its first answers with their intervals."""

from __future__ import annotations

import math

from leastnoise.core.notebook import html_rows, html_text
from leastnoise.release import RELIABLE, Release
from leastnoise.report.figures import decimals_for, four_digits, number, outward

# Answers that are shown.
_MAX_ROWS = 10

# Answers of one query up to which it is shown at all: they are worked out together.
_MAX_ANSWERS = 100_000

_LEVEL = 0.95


def release_html(release: Release) -> str:
    """The first answers of a release as a table, below what it prints."""
    head = html_text("\n".join([repr(release), *(f"Warning: {sentence}" for sentence in release.warnings)]))
    if release.is_in_blocks:
        return head
    rows: list[list[str]] = []
    blocks = release.plan.workload.blocks
    n_all = sum(block.n_rows for block in blocks) + sum(
        len(ratio.labels) for ratio in release.plan.workload.ratios
    )
    is_known = release.plan.strategy is not None
    for name in release:
        if len(rows) >= _MAX_ROWS or _size(release, name) > _MAX_ANSWERS:
            break
        rows += _rows(release, name)[: _MAX_ROWS - len(rows)]
    if not rows:
        return head
    known = ["std. error", f"{_LEVEL:.0%} from", "to"] if is_known else []
    marks = any(row[-1] for row in rows)
    rows = rows if marks else [row[:-1] for row in rows]
    left = n_all - len(rows)
    notes = [f"{left:,} more: release.to_frame(), release[name], release.plot(name)"] if left else []
    return head + html_rows(["query", "count", "answer", *known, *([""] if marks else [])], rows, notes)


def _size(release: Release, name: str) -> int:
    ratio = release.plan.workload.ratio(name)
    if ratio is not None:
        return len(ratio.labels)
    rows = release.plan.workload.rows_of(name)
    return int(rows.stop - rows.start)


def _rows(release: Release, name: str) -> list[list[str]]:
    """The first answers of one query: name, label, answer, standard error, both ends, what is said of it."""
    _, labels, columns = release.columns_of(name, _LEVEL)
    answers = columns["answer" if "answer" in columns else "estimate"]
    n = min(len(answers), _MAX_ROWS)
    has_ends = "lower" in columns
    decimals = 0
    if has_ends:
        half = (columns["upper"] - columns["lower"])[:n] / 2
        decimals = decimals_for(half[half > 0])
    marks = columns.get("reliability", [RELIABLE] * n)
    notes = columns.get("note", [""] * n)
    rows = []
    for j in range(n):
        said = notes[j] or marks[j]
        if math.isnan(answers[j]):
            rows.append([name, labels[j], "–", *(["–"] * 3 if has_ends else []), said])
            continue
        row = [name, labels[j], number(answers[j], decimals)]
        if has_ends:
            ends = outward(columns["lower"][j], columns["upper"][j], decimals)
            row += [four_digits(columns["stderr"][j]), *ends]
        rows.append([*row, said])
    return rows
