"""`leastnoise reproduce`, whatever shell it is called from."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from leastnoise.core.errors import InputError, MissingExtraError
from leastnoise.papers.reproductions.catalogue import PAPERS, catalogue, named
from leastnoise.papers.reproductions.page import write_pages
from leastnoise.papers.reproductions.reproduction import Reproduction, Setting
from leastnoise.papers.reproductions.running import Outcome, Stand, run
from leastnoise.papers.reproductions.writing import as_words, write


def listing() -> str:
    """All names, paper by paper, with the work of both sizes as it is guessed."""
    lines = []
    found = catalogue()
    width = max(len(entry.name) for entry in found)
    for paper in PAPERS:
        lines.append(paper)
        for entry in found:
            if entry.paper == paper:
                quick, full = (
                    sum(point.seconds for point in entry.points(Setting(size))) for size in ("quick", "full")
                )
                lines.append(
                    f"  {entry.name:<{width}}  {duration(quick):>7}  {duration(full):>7}  {entry.title}"
                )
    head = f"  {'name':<{width}}  {'--quick':>7}  {'full':>7}  what it shows (work on one core, guessed)"
    tail = "Run one by its name, all of a paper by the paper's, or `all`."
    return "\n".join([head, *lines, "", tail])


def reproduce(
    names: Sequence[str],
    setting: Setting,
    *,
    out: Path,
    jobs: int,
    is_fresh: bool,
    budget: float,
    docs: Path | None,
    say: Callable[[str], None],
    progress: Callable[[Stand], None] | None,
) -> list[Outcome]:
    """Run reproductions, say what came of each and write it to files; gives the outcomes."""
    chosen = named(names)
    if setting.data is not None and not setting.data.is_dir():
        raise InputError(
            f"--data is a folder that holds adult.data; there is no folder {str(setting.data)!r}"
        )
    out.mkdir(parents=True, exist_ok=True)
    options: _Options = {"jobs": jobs, "is_fresh": is_fresh, "progress": progress}
    outcomes = _written(chosen, setting, out, say, budget=budget, **options)
    if docs is not None:
        # A page shows every table: what was not run at full size is there at the quick one.
        missing = [entry for entry in chosen if outcomes[entry.name].verdict == "not run"]
        outcomes |= _written(missing, replace(setting, size="quick"), out, say, **options)
    in_order = [outcomes[entry.name] for entry in chosen]
    if docs is not None:
        for path in write_pages(in_order, out, docs, datetime.date.today()):
            say(f"wrote {path}")
    if len(in_order) > 1:
        say("\n".join(f"{outcome.reproduction.name:<32} {outcome.verdict}" for outcome in in_order))
    return in_order


class _Options(TypedDict):
    jobs: int
    is_fresh: bool
    progress: Callable[[Stand], None] | None


def _written(
    chosen: Sequence[Reproduction],
    setting: Setting,
    out: Path,
    say: Callable[[str], None],
    *,
    budget: float = math.inf,
    **options: Unpack[_Options],
) -> dict[str, Outcome]:
    """Run, say what came of each and write it to files; gives the outcomes by name."""
    outcomes = {}
    lacks_pictures = None
    for outcome in run(chosen, setting, folder=out / "points", budget=budget, **options):
        outcomes[outcome.reproduction.name] = outcome
        say(as_words(outcome))
        try:
            written = write(outcome, out)
            say(f"wrote {', '.join(str(path) for path in written)}\n")
        except MissingExtraError as error:
            lacks_pictures = str(error)
    if lacks_pictures is not None:
        say(lacks_pictures)
    return outcomes


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def in_words(stand: Stand) -> str:
    """Where a run stands, in one line."""
    return (
        f"{stand.n_done} of {stand.n_points} points, {duration(stand.seconds)} gone, about "
        f"{duration(stand.seconds_left)} left: {stand.name}, {stand.point}"
    )
