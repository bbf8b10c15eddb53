"""Lemmas and theorems on random instances: how often each held, and how near it came to failing.

An instance gives a share of its limit: at most 1 where the statement holds. A row counts the instances of one
size, and keeps the largest share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from leastnoise.papers.reproductions.printed import Printed
from leastnoise.papers.reproductions.reproduction import Drawing, Reproduction, Setting, Task
from leastnoise.papers.reproductions.rows import Row, numbers
from leastnoise.papers.reproductions.verdicts import Cause, Check, statement_about

# Instances of each size.
N_QUICK = 20
N_FULL = 100

# Shares are shown between these, so that a logarithmic axis holds them.
_LEAST_SHARE = 1e-9
_MOST_SHARE = 1e9

DRAWING = Drawing("n", "largest share", "claim", log="y", y_title="largest share of the limit")


def n_trials(setting: Setting) -> int:
    """How many instances are drawn."""
    return N_QUICK if setting.is_quick else N_FULL


def tally(claim: str, n: int, shares: Iterable[float]) -> Row:
    """One row: of how many instances a statement held, and the largest share of its limit.

    Args:
        claim: its key in printed.toml.
        n: the size of the instances.
        shares: of every instance; not a number counts as a failure.
    """
    found = [float(share) for share in shares]
    held = sum(share <= 1 for share in found)
    shown = [min(max(share, _LEAST_SHARE), _MOST_SHARE) if share == share else _MOST_SHARE for share in found]
    return {"claim": claim, "n": n, "trials": len(found), "held": held, "largest share": max(shown)}


def tally_checks(why: Mapping[str, str], known: Printed, rows: Sequence[Row]) -> Iterator[Check]:
    """For every claim, whether it held in all instances."""
    for claim, words in known.says.items():
        trials, held, largest = (
            numbers(rows, column, claim=claim) for column in ("trials", "held", "largest share")
        )
        yield statement_about(
            trials,
            words,
            lambda found, held=held: sum(held) == sum(found),  # type: ignore[misc]
            lambda found, held=held, largest=largest: (  # type: ignore[misc]
                f"held in {sum(held):.0f} of {sum(found):.0f} instances, "
                f"at most {max(largest):.3g} of its limit"
            ),
            cause=_cause(why.get(claim)),
        )


def _cause(why: str | None) -> Cause:
    """Why a claim fails: every reason given is one of the statement as printed, which the instances show."""
    if why is None:
        return Cause(
            "the statement fails on some instances", tried="the instances counted here, and no others"
        )
    return Cause(why, tested="the check counts the instances that fail")


def _tasks(
    work: Callable[..., Iterator[Row]], sizes: Mapping[int, float], setting: Setting
) -> Sequence[Task]:
    return [
        Task(work, {"n": n}, seconds * (1 if setting.is_quick else N_FULL / N_QUICK), n)
        for n, seconds in sizes.items()
    ]


def statement_reproduction(
    name: str,
    title: str,
    work: Callable[..., Iterator[Row]],
    sizes: Mapping[int, float],
    *notes: str,
    why: Mapping[str, str] | None = None,
) -> Reproduction:
    """The reproduction of a statement.

    Args:
        work: called with a size n.
        sizes: with an estimate of the seconds that `N_QUICK` instances take.
        notes: what exactly is checked, and what is not.
        why: the reason of each claim that fails.
    """
    return Reproduction(
        name, title, partial(_tasks, work, dict(sizes)), partial(tally_checks, why or {}), DRAWING, notes
    )
