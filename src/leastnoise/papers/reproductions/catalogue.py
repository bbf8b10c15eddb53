"""Every reproduction there is, by name."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from leastnoise.core.errors import InputError
from leastnoise.papers.reproductions.reproduction import Reproduction, Setting, Size

# Short names and titles, in the order of the list.
PAPERS = {
    "adaptive": "The adaptive mechanism",
    "low-rank": "The low-rank mechanism",
    "coa": "Convex optimisation (COA)",
    "fitness-for-use": "Fitness for use",
    "open-data": "Open data",
}


@cache
def catalogue() -> tuple[Reproduction, ...]:
    """All reproductions, paper by paper."""
    # Imported only when asked for: together they take a moment.
    from leastnoise.papers.reproductions import adaptive, coa, fitness_for_use, low_rank, open_data

    papers = (adaptive, low_rank, coa, fitness_for_use, open_data)
    return tuple(found for paper in papers for found in paper.REPRODUCTIONS)


@cache
def _timings() -> dict[str, dict[str, float]]:
    text = resources.files(__package__).joinpath("timings.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def recorded_seconds(found: Reproduction, size: Size) -> float:
    """Seconds of work on one core as they were measured, from timings.toml; else the tasks' own estimates."""
    measured = _timings().get(found.name, {}).get(size)
    return sum(task.seconds for task in found.tasks(Setting(size))) if measured is None else measured


def named(wanted: Sequence[str]) -> tuple[Reproduction, ...]:
    """The reproductions of these names; "all" is all of them, "coa" all of one paper.

    Raises:
        InputError: if there is none of a name; the message has the nearest.
    """
    known = {found.name: found for found in catalogue()}
    chosen: dict[str, Reproduction] = {}
    for name in wanted:
        if name == "all":
            chosen |= known
        elif name in PAPERS:
            chosen |= {found.name: found for found in known.values() if found.paper == name}
        elif name in known:
            chosen[name] = known[name]
        else:
            near = difflib.get_close_matches(name, [*known, *PAPERS], n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise InputError(
                f"there is no reproduction {name!r}{hint}; `leastnoise reproduce` lists them all",
                field="name",
                given=name,
            )
    return tuple(chosen.values())
