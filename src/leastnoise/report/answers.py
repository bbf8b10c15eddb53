"""Answers as a CSV file that a spreadsheet opens without running anything."""

from __future__ import annotations

import csv
from pathlib import Path

from leastnoise.release import Release
from leastnoise.wholefile import written_whole

# A cell that begins with one of these, or with its full-width twin, is a formula to some spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def write_answers(release: Release, path: str | Path, *, level: float = 0.95) -> Path:
    """Write one line per count: batch, label, answer, standard error and interval; returns the path.

    All or nothing: a file of that name is replaced once the new one is complete. The last two are
    left out where the plan depends on the data.
    """
    target = Path(path)
    workload = release.plan.workload
    names = (block.name for block in workload.blocks for _ in range(block.n_rows))
    columns = {"answer": release.answers}
    if release.stderr is not None:
        lower, upper = release.interval(level)
        columns |= {"stderr": release.stderr, f"lower_{level:g}": lower, f"upper_{level:g}": upper}
    figures = zip(*columns.values(), strict=True)
    # A label may hold what UTF-8 cannot; it is written out as \udc80.
    with (
        written_whole(target) as temporary,
        temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["query", "label", *columns])
        for name, label, row in zip(names, workload.labels, figures, strict=True):
            # Fifteen digits are what a spreadsheet keeps; ten would round 2^40 people to hundreds.
            writer.writerow([_harmless(name), _harmless(label), *(f"{value:.15g}" for value in row)])
    return target


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
