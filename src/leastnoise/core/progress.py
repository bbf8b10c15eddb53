"""Where a long computation stands, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, get_args

# How a search ended, best first. "converged": by its own stopping rule, at the tolerance asked for or where
# no step gains any more; a closed form has converged too. "exhausted": at its limit of steps. "deadline":
# at its time limit. "interrupted": by the user, with the best so far.
Ended = Literal["converged", "exhausted", "deadline", "interrupted"]

ENDINGS: tuple[Ended, ...] = get_args(Ended)


def worst_ending(endings: Iterable[Ended]) -> Ended:
    """How a computation of several parts ended: like the worst of them; without parts it converged.

    Example:
        >>> worst_ending(["converged", "deadline", "exhausted"])
        'deadline'
    """
    return max(endings, key=ENDINGS.index, default="converged")


_PREDICATES: dict[Ended | None, str] = {
    "converged": "converged",
    "exhausted": "ended at its limit of steps, before it converged",
    "deadline": "ended at its time limit; with more time it may do better",
    "interrupted": "was interrupted; with more time it may do better",
    None: "ended in a way that was not recorded",
}


def ending_to_text(ended: Ended | None) -> str:
    """What is said of a search that ended so, as in "The search converged."; None is not recorded.

    Example:
        >>> f"The search {ending_to_text('deadline')}."
        'The search ended at its time limit; with more time it may do better.'
    """
    return _PREDICATES[ended]


def gap_to_text(gap: float | None) -> str:
    """What a line about a search adds on its gap: nothing where a method knows it only at its end.

    Example:
        >>> gap_to_text(0.0123), gap_to_text(math.inf)
        (', gap to the optimum 1.2e-02', '')
    """
    return "" if gap is None or not math.isfinite(gap) else f", gap to the optimum {gap:.1e}"


@dataclass(frozen=True)
class Progress:
    """Progress of a search.

    Attributes:
        step: the number of steps taken.
        gap: how far the best so far may be from the optimum; infinite where that is not known.
        seconds: the time since it began, in seconds.
        part: what is being worked on, such as the name of a method; empty where there is only one thing.
    """

    step: int
    gap: float
    seconds: float
    part: str = ""


class Verdict(Enum):
    """What a listener may answer to a step."""

    ENOUGH = "enough"


# The answer of a listener who wants the search to end with what it has, as at a time limit.
ENOUGH: Final = Verdict.ENOUGH
