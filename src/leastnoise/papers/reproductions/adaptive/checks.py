"""What the checks of the adaptive mechanism's paper read from rows: ratios of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leastnoise.papers.reproductions.adaptive.adaptive_tasks import CELLS, EIGEN, OURS
from leastnoise.papers.reproductions.rows import Row
from leastnoise.papers.reproductions.verdicts import Check, number, statement

# The gap that a certificate claims by default; errors are roots of what it speaks of.
SOLVER = 1e-6


@dataclass(frozen=True)
class ErrorRatios:
    """The errors of one problem over that of the eigen strategy.

    Attributes:
        about: the fields that the rows share, as a text.
        competitors: the paper's competitors.
        ours: that of the certified optimum; None where it was not run.
        bound: the singular value bound; None where there is none, or Eigen-Design was not run.
    """

    about: str
    competitors: Mapping[str, float]
    ours: float | None
    bound: float | None

    @property
    def best(self) -> float | None:
        """The best competitor's; None without one."""
        return min(self.competitors.values(), default=None)

    @property
    def worst(self) -> float | None:
        """The worst competitor's; None without one."""
        return max(self.competitors.values(), default=None)


def ratios(
    rows: Sequence[Row], fields: Sequence[str], column: str = "error", only: Sequence[str] | None = None
) -> list[ErrorRatios]:
    """One for every combination of fields for which Eigen-Design was run.

    Args:
        only: the competitors looked at; all unless given.
    """
    problems: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        if isinstance(row.get(column), (int, float)):
            problems.setdefault(tuple(row.get(name) for name in fields), {})[str(row["method"])] = row
    found = []
    for key, by_method in problems.items():
        if EIGEN not in by_method:
            continue
        eigen = _number(by_method[EIGEN], column)
        over = {name: _number(row, column) / eigen for name, row in by_method.items()}
        bound = by_method[EIGEN].get("lower_bound") if column == "error" else None
        found.append(
            ErrorRatios(
                ", ".join(str(part) for part in key),
                {
                    name: ratio
                    for name, ratio in over.items()
                    if name not in (EIGEN, OURS, CELLS) and (only is None or name in only)
                },
                over.get(OURS),
                float(bound) / eigen if isinstance(bound, (int, float)) else None,
            )
        )
    return found


def _number(row: Row, column: str) -> float:
    value = row[column]
    assert isinstance(value, (int, float))
    return float(value)


def compared(
    claim: str,
    printed: str,
    ours: float | None,
    *,
    slack: float = 0.0,
    is_lower_better: bool = False,
    why: str = "",
) -> Check:
    """`number`, whose reason speaks of what came out, and is left out where nothing did."""
    return number(
        claim,
        printed,
        ours,
        slack=slack,
        is_lower_better=is_lower_better,
        why="" if ours is None else why,
    )


def mean_of(values: Sequence[float]) -> float | None:
    """The mean over draws; None without one."""
    return sum(values) / len(values) if values else None


def share_between(values: Sequence[float]) -> float:
    """By which share of their mean draws differ; 0 with a single one."""
    mean = mean_of(values)
    return (max(values) - min(values)) / mean if mean else 0.0


def spread_of(values: Sequence[float]) -> str:
    """From the least to the largest of some ratios, as a text."""
    return f"{min(values):.2f} to {max(values):.2f}" if values else "–"


def within_1_3(found: Sequence[ErrorRatios], claim: str) -> Check:
    """Whether the eigen strategy is never more than 1.3 times the bound."""
    over = [1 / ratio.bound for ratio in found if ratio.bound]
    return statement(
        claim,
        max(over) <= 1.3 if over else None,
        f"at most {max(over):.3f} times the bound" if over else "–",
        why="; ".join(f"{r.about}: {1 / r.bound:.3f}" for r in found if r.bound and 1 / r.bound > 1.3),
    )


def certified(found: Sequence[ErrorRatios]) -> Check:
    """Whether no strategy of the paper is better than the certified optimum: ours beside the paper's own."""
    ours = [ratio.ours for ratio in found if ratio.ours is not None]
    least = min((min(r.competitors.values(), default=1.0) / r.ours for r in found if r.ours), default=1.0)
    holds = all(value <= 1 + SOLVER for value in ours) and least >= 1 - SOLVER
    gained = bool(ours) and min(ours) < 1 - 1e-4
    return statement(
        "the eigen strategy is nearly the best possible",
        holds if ours else None,
        f"the certified optimum has {spread_of(ours)} of its error",
        is_better=holds and gained,
        why="leastnoise searches all strategies, and proves its optimum"
        if holds
        else "a strategy of the paper is below what is said to be the least error",
    )


def band(
    found: Sequence[ErrorRatios], claim: str, low: str, high: str, why: str, *, last: float = 0.05
) -> Check:
    """Whether the gains over the best competitor lie in a printed band, to its last digit."""
    gains = [ratio.best for ratio in found if ratio.best is not None]
    holds = all(float(low) - last <= gain <= float(high) + last for gain in gains) if gains else None
    outside = "; ".join(
        f"{r.about}: {r.best:.2f}"
        for r in found
        if r.best is not None and not float(low) - last <= r.best <= float(high) + last
    )
    return statement(claim, holds, spread_of(gains), printed=f"{low} to {high}", why=f"{why}: {outside}")


def never_beaten(found: Sequence[ErrorRatios], claim: str) -> Check:
    """Whether no competitor has less error than the eigen strategy."""
    gains = [ratio.best for ratio in found if ratio.best is not None]
    beaten = [f"{r.about}: {r.best:.3f}" for r in found if r.best is not None and r.best < 1 - SOLVER]
    return statement(
        claim, not beaten if gains else None, f"gains of {spread_of(gains)}", why="; ".join(beaten)
    )
