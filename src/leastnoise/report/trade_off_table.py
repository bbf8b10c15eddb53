"""Accuracy against privacy as a table, and as a file: a picture, a page or a list."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leastnoise.core.notebook import NotebookValue
from leastnoise.core.printable import counted, no_formulas, printable
from leastnoise.core.whole_file import written_whole
from leastnoise.report.charts.picture import Picture, check_file
from leastnoise.report.figures import enough, four_digits

How = Literal["scaled", "designed", "missed"]

# Batches that are printed; the frame holds all.
_SHOWN = 12

# Endings of files that a trade-off is written as.
KINDS = (".svg", ".html", ".png", ".pdf", ".csv")


@dataclass(frozen=True)
class BatchAccuracy:
    """Standard errors of one batch of queries at one ε.

    Attributes:
        rms: their root mean square.
        largest: the largest of them.
        factor: the largest one as a multiple of its target; None without a target.
        per_count: the root mean square had every count been given its noise as it is asked.
        per_cell: the same, had every cell been given noise and counts been added up from them.
    """

    name: str
    rms: float
    largest: float
    factor: float | None
    per_count: float
    per_cell: float

    @property
    def is_met(self) -> bool | None:
        """Whether every answer keeps its target; None without one."""
        return None if self.factor is None else self.factor <= 1


@dataclass(frozen=True)
class TradeoffPoint:
    """What can be had for one ε.

    Attributes:
        mu: the μ of Gaussian differential privacy that it stands for; None for pure privacy.
        how: "scaled" from a plan of another ε, as theory says; "designed" for this one; "missed" where the
            targets cannot be met, and the errors are those of the plan that misses all by the least factor.
        factor: the largest standard error as a multiple of its target; None without targets.
        gap: how far the plan is above the bound proved for it.
        status: what its certificate says.
        batches: one for every batch of queries, in their order.
        is_asked: whether this is the goal that was given.
    """

    epsilon: float
    mu: float | None
    how: How
    factor: float | None
    gap: float
    status: str
    batches: tuple[BatchAccuracy, ...]
    is_asked: bool = False


@dataclass(frozen=True)
class Needed:
    """The ε at which every standard error is within a factor of its target."""

    factor: float
    mu: float | None
    epsilon: float


@dataclass(frozen=True)
class AskedBatch:
    """A batch of queries: what was asked, and from which ε on it is had.

    Attributes:
        target: as it was given, and as a standard error where that differs; "" without one.
        stderr: the target as a standard error, the smallest where queries have their own; None without.
        met_from: the ε from which on every answer of it keeps its target; None without one.
    """

    name: str
    n_queries: int
    target: str
    stderr: float | None
    met_from: float | None


@dataclass(frozen=True)
class Tradeoff(NotebookValue):
    """What accuracy costs in privacy: standard errors for a range of ε; prints as a table.

    Attributes:
        points: the points, in increasing ε.
        asked: the batches, in their order.
        needed: for targets, the ε that each factor on all of them needs.
        delta: the δ of every point; None for pure privacy.
        what: what the noise minimises.
        neighbours: the neighbouring relation, in words.
        notes: what was designed, what was scaled, and why that is right.
    """

    points: tuple[TradeoffPoint, ...]
    asked: tuple[AskedBatch, ...]
    needed: tuple[Needed, ...]
    delta: float | None
    what: str
    neighbours: str
    notes: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row for every ε and batch."""
        targets = {batch.name: batch for batch in self.asked}
        return [
            {
                "epsilon": point.epsilon,
                "mu": point.mu,
                "batch": batch.name,
                "rms_stderr": batch.rms,
                "largest_stderr": batch.largest,
                "target_stderr": targets[batch.name].stderr,
                "is_met": batch.is_met,
                "per_count": batch.per_count,
                "per_cell": batch.per_cell,
                "how": point.how,
                "status": point.status,
                "gap": point.gap,
            }
            for point in self.points
            for batch in point.batches
        ]

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def plot(self) -> Picture:
        """Standard errors against ε as a picture, marked where targets are met."""
        from leastnoise.report.charts.accuracy_charts import tradeoff_picture

        return tradeoff_picture(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        title = f"Accuracy against privacy: {self.what}"
        noise = "Laplace noise" if self.delta is None else f"Gaussian noise, delta = {self.delta:g}"
        yield from (title, "=" * len(title), "")
        yield from (f"Standard errors with {noise}, {self.neighbours}.", "")
        yield from textwrap.wrap(self._how_to_read(), 100)
        yield ""
        for number, batch in enumerate(self.asked[:_SHOWN]):
            yield from self._of_batch(number, batch)
            yield ""
        if len(self.asked) > _SHOWN:
            more = f"… and {len(self.asked) - _SHOWN:,} more batches"
            yield f"{more}: write it as .csv (--out, write_tradeoff), or take .to_frame()"
            yield ""
        if self.needed:
            factors = [f"{needed.factor:.3g}" for needed in self.needed]
            epsilons = [enough(needed.epsilon) for needed in self.needed]
            width = max(map(len, [*factors, *epsilons]))
            yield f"  every target times   {'  '.join(f'{text:>{width}}' for text in factors)}"
            yield f"  needs epsilon        {'  '.join(f'{text:>{width}}' for text in epsilons)}"
            yield ""
        for note in self.notes:
            yield from textwrap.wrap(note, 100)

    def _how_to_read(self) -> str:
        """What the columns are."""
        says = (
            "For each epsilon: the root mean square (rms) and the largest of this plan's standard errors. "
            "Beside it the rms that simpler noise of the same privacy has, and how many times this plan's "
            "that is: noise on each count as asked, or on each cell, added up."
        )
        if any(batch.target for batch in self.asked):
            says += " A target is met where the largest standard error is no larger."
        if any(point.how == "missed" for point in self.points):
            says += (
                " Where no plan meets all targets, what is shown misses all of them by as little as can be, "
                "which may be more noise than one batch alone would need."
            )
        return says

    def _of_batch(self, number: int, batch: AskedBatch) -> Iterator[str]:
        facts = [counted(batch.n_queries, "count")]
        if batch.target:
            facts.append(f"target {batch.target}")
        if batch.met_from is not None:
            facts.append(f"met from epsilon {enough(batch.met_from)}")
        yield f"{printable(batch.name)} ({', '.join(facts)})"
        heads = ("epsilon", "rms", "largest", "each count", "each cell")
        yield f"  {heads[0]:>8}  {heads[1]:>8}  {heads[2]:>8}  {heads[3]:>15}  {heads[4]:>15}"
        for point in self.points:
            own = point.batches[number]
            mark = "*" if point.is_asked else ""
            met = "" if own.factor is None else "  met" if own.is_met else f"  missed by {own.factor:,.3g}×"
            rms, largest = four_digits(own.rms), four_digits(own.largest)
            yield (
                f"  {f'{point.epsilon:.4g}{mark}':>8}  {rms:>8}  {largest:>8}  "
                f"{_beside(own.per_count, own.rms):>15}  {_beside(own.per_cell, own.rms):>15}{met}"
            )


def _beside(other: float, own: float) -> str:
    return four_digits(other) + (f" ({other / own:,.1f}×)" if own > 0 else "")


def check_kind(path: str | Path) -> None:
    """Return if a file of that name can be written; to be asked before anything is designed.

    Raises:
        InputError: naming the kinds there are.
        MissingExtraError: for .png and .pdf where the extra "charts" is not installed.
    """
    check_file(path, KINDS)


def write_tradeoff(table: Tradeoff, path: str | Path) -> Path:
    """Write a trade-off as a picture (.svg, .html, .png, .pdf) or as .csv; returns the path.

    A file of that name is replaced once the new one is complete.

    Args:
        table: what `tradeoff` returned.
        path: the file to write.

    Raises:
        InputError: for another ending.
        MissingExtraError: for a chart where Altair is not installed.
    """
    check_kind(path)
    target = Path(path)
    if target.suffix.lower() == ".csv":
        with (
            written_whole(target) as temporary,
            # A label may hold what UTF-8 cannot; it is written out as \\udc80.
            temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
        ):
            rows = table.rows()
            writer = csv.writer(file)
            writer.writerow(rows[0])
            for row in rows:
                writer.writerow(no_formulas(row).values())
        return target
    return table.plot().save(target)
