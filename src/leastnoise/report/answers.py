"""Answers as a CSV file that a spreadsheet opens without running anything."""

from __future__ import annotations

import csv
from pathlib import Path

from leastnoise.release import Release

# A cell that begins with one of these is a formula to a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_answers(release: Release, path: str | Path, *, level: float = 0.95) -> Path:
    """Write one line per count: batch, label, answer, standard error and interval; returns the path."""
    target = Path(path)
    lower, upper = release.interval(level)
    workload = release.plan.workload
    names = (block.name for block in workload.blocks for _ in range(block.n_rows))
    figures = zip(release.answers, release.stderr, lower, upper, strict=True)
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["query", "label", "answer", "stderr", f"lower_{level:g}", f"upper_{level:g}"])
        for name, label, row in zip(names, workload.labels, figures, strict=True):
            writer.writerow([_harmless(name), _harmless(label), *(f"{value:.10g}" for value in row)])
    return target


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
