"""What a paper says beside what came out, and what that makes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeVar, get_args

Verdict = Literal["reached", "better", "differs", "not run"]

# How a lower number of ours is known: by a proved bound, as the exact variance of a plan, or by simulation.
Evidence = Literal["certified", "exact", "simulated"]


@dataclass(frozen=True)
class Cause:
    """Why a printed number or claim is not what comes out; one cause may stand behind many checks.

    Attributes:
        what: the cause in one sentence; where none was found, what does not fit.
        tested: the run that shows it, and what it gave; empty where no cause was found.
        tried: where none was found, what was tried.
    """

    what: str
    tested: str = ""
    tried: str = ""

    @property
    def is_found(self) -> bool:
        """Whether a run has shown it to be the cause."""
        return bool(self.tested)


@dataclass(frozen=True)
class Check:
    """One thing that a paper says, beside what came out.

    Attributes:
        claim: what is compared, in words.
        printed: the paper's number or statement.
        ours: what came out.
        why: where it differs or was not run, what is particular to it; where it is better, what makes it so.
        cause: where it differs, the cause.
        evidence: where it is better, how that is known.
    """

    claim: str
    printed: str
    ours: str
    verdict: Verdict
    why: str = ""
    cause: Cause | None = None
    evidence: Evidence | None = None

    @property
    def reason(self) -> str:
        """The cause and what is particular to this check, or what makes it better."""
        cause = "" if self.cause is None else self.cause.what
        return "; ".join(part for part in (cause, self.why, self.evidence) if part)

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        beside = "" if self.printed == "yes" else f"printed {self.printed}, ours "
        return f"{self.verdict:<8} {self.claim}: {beside}{self.ours}{reason}"


def number(
    claim: str,
    printed: str,
    ours: float | None,
    *,
    slack: float = 0.0,
    is_lower_better: bool = False,
    why: str = "",
    cause: Cause | None = None,
    evidence: Evidence = "exact",
) -> Check:
    """A printed number beside ours.

    It is reached within half a unit of its last printed digit. Where the paper drew its workload or
    its data at random, `slack` says by which share another draw may differ; give it from measured
    draws, never to fit.

    Args:
        printed: as it stands in the paper, so that its digits are known: "42.41", "1.30".
        ours: None where it was not run.
        is_lower_better: whether a lower number is an improvement rather than a difference.
        why, cause: of a difference or of a gain; left out where the number is reached or was not run.
        evidence: how a lower number is known.
    """
    if ours is None or math.isnan(ours):
        return statement(claim, None, printed=printed)
    value, last_digit = _read(printed)
    room = last_digit / 2 + slack * abs(value)
    # A figure of ours is compared as it is, not as it would be rounded: 1.305 is not a printed 1.30.
    shown = _as_printed(ours, printed)
    if abs(ours - value) <= room * (1 + 1e-9):
        return Check(claim, printed, shown, "reached")
    if is_lower_better and ours < value:
        return Check(claim, printed, shown, "better", why, evidence=evidence)
    return Check(claim, printed, shown, "differs", why, cause)


def statement(
    claim: str,
    holds: bool | None,
    ours: str = "–",
    *,
    printed: str = "yes",
    is_better: bool = False,
    why: str = "",
    cause: Cause | None = None,
    evidence: Evidence = "exact",
) -> Check:
    """A claim of the text beside what came out; `holds` is None where it was not run."""
    if holds is None:
        return Check(claim, printed, ours, "not run", why or "no such point in this size")
    if is_better:
        return Check(claim, printed, ours, "better", why, evidence=evidence)
    if holds:
        return Check(claim, printed, ours, "reached")
    return Check(claim, printed, ours, "differs", why, cause)


Found = TypeVar("Found", bound=Sized)


def statement_about(
    found: Found,
    claim: str,
    holds: Callable[[Found], bool],
    ours: Callable[[Found], str],
    *,
    printed: str = "yes",
    is_better: Callable[[Found], bool] = lambda found: False,
    why: str = "",
    cause: Cause | None = None,
    evidence: Evidence = "exact",
) -> Check:
    """A claim about some numbers, in a list or by size; without any it was not run."""
    if not found:
        return statement(claim, None, printed=printed)
    return statement(
        claim,
        holds(found),
        ours(found),
        printed=printed,
        is_better=is_better(found),
        why=why,
        cause=cause,
        evidence=evidence,
    )


Kind = Literal["reached", "better", "differs, cause tested", "differs, no cause found", "not run"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def kind_of(check: Check) -> Kind:
    """The verdict, and for a difference whether a run has shown its cause."""
    if check.verdict != "differs":
        return check.verdict
    is_found = check.cause is not None and check.cause.is_found
    return "differs, cause tested" if is_found else "differs, no cause found"


def verdict_of(checks: Iterable[Check]) -> Verdict:
    """The verdict on all checks together: one that differs is enough to differ."""
    found = {check.verdict for check in checks}
    for verdict in ("differs", "better", "reached"):
        if verdict in found:
            return verdict
    return "not run"


def _read(printed: str) -> tuple[float, float]:
    """The value of a printed number, and one unit of its last digit."""
    number = Decimal(printed.replace(",", ""))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return float(number), 10.0**exponent


def _as_printed(value: float, printed: str) -> str:
    """A number with one digit more than the printed one, so that a difference is seen."""
    _, last_digit = _read(printed)
    decimals = max(0, -round(math.log10(last_digit))) + 1
    return f"{value:,.{decimals}f}" if abs(value) < 1e15 else f"{value:.6g}"
