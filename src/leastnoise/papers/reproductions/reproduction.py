"""A table or a figure of a paper, by name: what to compute, what to check, how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from leastnoise.papers.reproductions.printed import Printed, printed
from leastnoise.papers.reproductions.rows import Plain, Row, was_cut
from leastnoise.papers.reproductions.verdicts import Check
from leastnoise.report import Drawing as Drawing

Size = Literal["quick", "full"]

# Where a matrix of this many columns is decomposed again and again, one GPU does in minutes what two
# cores do in hours (docs/benchmarks.md).
MAX_CELLS_WITHOUT_GPU = 4096

# Seconds that one search may take in the quick size.
QUICK_SECONDS = 8.0


@dataclass(frozen=True)
class Setting:
    """How a reproduction is run.

    Attributes:
        size: "quick" for all names within minutes, "full" for the papers' own sizes.
        backend: where matrices are decomposed; "cuda" for tasks above 4,096 cells.
        data: a folder that holds the real tables some figures used (adult.data); None for the stand-ins.
        time_limit: seconds that one method may search at one task.
    """

    size: Size
    backend: str = "numpy"
    data: Path | None = None
    time_limit: float = 600.0

    @property
    def is_quick(self) -> bool:
        """Whether minutes matter more than the papers' own sizes."""
        return self.size == "quick"

    @property
    def search_seconds(self) -> float:
        """Seconds after which a search is cut off: the one limit of all reproductions but those of time."""
        return min(self.time_limit, QUICK_SECONDS) if self.is_quick else self.time_limit

    def backend_for(self, n_cells: int) -> str:
        """The backend for a matrix of this many columns: a GPU only where it helps."""
        return self.backend if n_cells > MAX_CELLS_WITHOUT_GPU else "numpy"


@dataclass(frozen=True)
class Task:
    """One computation of a reproduction.

    Attributes:
        work: a function of a module, called as ``work(setting, **arguments)``; gives rows.
        arguments: plain values, by which a task is known when a run is resumed. Every row begins with them.
        seconds: an estimate of how long it takes on one core, for the time left.
        n_cells: columns of the largest matrix that it decomposes; above 4,096 it needs a GPU.
        may_use_gpu: whether its search runs on a GPU where the setting has one, though it needs none.
    """

    work: Callable[..., Iterable[Row]]
    arguments: Mapping[str, Plain] = field(default_factory=dict)
    seconds: float = 1.0
    n_cells: int = 0
    may_use_gpu: bool = False

    def rows(self, setting: Setting) -> Iterator[Row]:
        """What it gives: every row with the arguments, but for fields that it has of its own."""
        for row in self.work(setting, **self.arguments):
            yield {**self.arguments, **row}

    def needs_gpu(self) -> bool:
        """Whether two cores cannot be expected to finish it."""
        return self.n_cells > MAX_CELLS_WITHOUT_GPU

    def uses_gpu(self, setting: Setting) -> bool:
        """Whether it will be computed on a GPU, where it must not be disturbed."""
        return setting.backend == "cuda" and (self.needs_gpu() or self.may_use_gpu)

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.arguments.items()) or "the whole"


@dataclass(frozen=True)
class Reproduction:
    """One table or figure, and the functions that make it again.

    Attributes:
        name: paper and table, "fitness-for-use/table-5".
        title: what it shows, in our words.
        tasks: what to compute in a setting.
        judge: sets the printed numbers and the claims of the text beside the rows, and looks at nothing else.
        drawing: how the rows are drawn.
        notes: stated choices where the paper is silent, one sentence each.
    """

    name: str
    title: str
    tasks: Callable[[Setting], Sequence[Task]]
    judge: Callable[[Printed, Sequence[Row]], Iterable[Check]]
    drawing: Drawing
    notes: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """The short name of the paper."""
        return self.name.partition("/")[0]

    @property
    def printed(self) -> Printed:
        """What the paper prints there."""
        return printed(self.name)

    @property
    def made_by(self) -> str:
        """The functions that compute the rows, so that a reader gets from a number to its source."""
        works = dict.fromkeys(task.work for task in self.tasks(Setting("quick")))
        return ", ".join(f"{work.__module__}.{work.__qualname__}" for work in works)

    def checks(self, rows: Sequence[Row]) -> tuple[Check, ...]:
        """What is printed, beside what came out.

        A search that our time limit ended is judged in no check: nobody knows where it would have come to.
        One that has used up its own steps has ended by its own rule, and is judged.
        """
        finished = [row for row in rows if not was_cut(row)]
        judged = tuple(self.judge(self.printed, finished))
        if len(finished) == len(rows):
            return judged
        needs_cut = {check.claim for check in self.judge(self.printed, rows) if check.verdict != "not run"}
        why = f"cut off by our time limit: {self._cut(rows)}"
        return tuple(
            replace(check, why=why) if check.verdict == "not run" and check.claim in needs_cut else check
            for check in judged
        )

    def _cut(self, rows: Sequence[Row]) -> str:
        """Which searches were cut off, and where."""
        at: dict[str, dict[str, None]] = {}
        for row in rows:
            if was_cut(row):
                at.setdefault(self.drawing.series_of(row), {})[_shown(row.get(self.drawing.x))] = None
        return "; ".join(f"{series} at {self.drawing.x} {', '.join(places)}" for series, places in at.items())


def _shown(value: Plain) -> str:
    return f"{value:,g}" if isinstance(value, (int, float)) else str(value)
