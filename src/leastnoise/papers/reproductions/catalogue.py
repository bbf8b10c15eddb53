"""Every reproduction there is, by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache

from leastnoise.core.errors import InputError
from leastnoise.papers.reproductions.reproduction import Reproduction

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
                f"there is no reproduction {name!r}{hint}; `leastnoise reproduce` lists them all"
            )
    return tuple(chosen.values())
