"""`leastnoise reproduce`, whatever shell it is called from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from leastnoise.core.errors import InputError, MissingExtraError
from leastnoise.papers.reproductions.catalogue import PAPERS, catalogue, named, recorded_seconds
from leastnoise.papers.reproductions.page import read_records, summary, write_pages
from leastnoise.papers.reproductions.reproduction import Setting
from leastnoise.papers.reproductions.running import Outcome, RunProgress, run
from leastnoise.papers.reproductions.writing import to_text, write


def listing() -> str:
    """All names, paper by paper, with an estimate of the work at both sizes."""
    lines = []
    found = catalogue()
    width = max(len(entry.name) for entry in found)
    for paper in PAPERS:
        lines.append(paper)
        for entry in found:
            if entry.paper == paper:
                quick, full = (recorded_seconds(entry, size) for size in ("quick", "full"))
                lines.append(
                    f"  {entry.name:<{width}}  {duration(quick):>7}  {duration(full):>7}  {entry.title}"
                )
    head = f"  {'name':<{width}}  {'--quick':>7}  {'full':>7}  what it shows (work on one core, as measured)"
    tail = "Run one by its name, all of a paper by the paper's, or `all`."
    return "\n".join([head, *lines, "", tail])


def summarise(folder: Path) -> str:
    """The counts of verdicts in a folder of results, paper by paper.

    Raises:
        InputError: if it holds none.
    """
    records = read_records(folder)
    if not records:
        raise InputError(
            f"there are no results in {str(folder)!r}",
            field="out",
            given=str(folder),
            remedy="run `leastnoise reproduce` with names first",
        )
    return summary(records)


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
    progress: Callable[[RunProgress], None] | None,
) -> list[Outcome]:
    """Run reproductions, print each and write it to files; gives the outcomes."""
    chosen = named(names)
    if setting.data is not None and not setting.data.is_dir():
        raise InputError(
            f"--data is a folder that holds adult.data; there is no folder {str(setting.data)!r}",
            field="data",
            given=str(setting.data),
        )
    out.mkdir(parents=True, exist_ok=True)
    run_here = partial(run, folder=out / "cache", jobs=jobs, is_fresh=is_fresh, progress=progress)
    outcomes = _written(run_here(chosen, setting, budget=budget), out, say)
    if docs is not None:
        # A page shows every table: what was not run at full size is there at the quick one.
        missing = [entry for entry in chosen if outcomes[entry.name].verdict == "not run"]
        outcomes |= _written(run_here(missing, replace(setting, size="quick")), out, say)
    in_order = [outcomes[entry.name] for entry in chosen]
    if docs is not None:
        for path in write_pages(in_order, out, docs):
            say(f"wrote {path}")
    if len(in_order) > 1:
        say("\n".join(f"{outcome.reproduction.name:<32} {outcome.verdict}" for outcome in in_order))
    return in_order


def _written(outcomes: Iterable[Outcome], out: Path, say: Callable[[str], None]) -> dict[str, Outcome]:
    """Print each outcome and write it to files; gives them by name."""
    found = {}
    lacks_pictures = None
    for outcome in outcomes:
        found[outcome.reproduction.name] = outcome
        say(to_text(outcome))
        try:
            written = write(outcome, out)
            say(f"wrote {', '.join(str(path) for path in written)}\n")
        except MissingExtraError as error:
            lacks_pictures = str(error)
    if lacks_pictures is not None:
        say(lacks_pictures)
    return found


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def progress_to_text(progress: RunProgress) -> str:
    """How far a run is, in one line."""
    return (
        f"{progress.n_done} of {progress.n_tasks} tasks, {duration(progress.seconds)} gone, about "
        f"{duration(progress.seconds_left)} left: {progress.name}, {progress.task}"
    )
