"""What a paper says beside what came out, and what that makes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeVar

Verdict = Literal["reached", "better", "differs", "not run"]


@dataclass(frozen=True)
class Check:
    """One thing that a paper says, beside what came out.

    Attributes:
        claim: what is compared, in words.
        printed: the paper's number or statement.
        ours: what came out.
        why: where it differs or was not run, the reason; where it is better, what makes it so.
    """

    claim: str
    printed: str
    ours: str
    verdict: Verdict
    why: str = ""

    def __str__(self) -> str:
        reason = f" ({self.why})" if self.why else ""
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
) -> Check:
    """A printed number beside ours.

    It is reached within half a unit of its last printed digit. Where the paper drew its workload or
    its data at random, `slack` says by which share another draw may differ; give it from measured
    draws, never to fit.

    Args:
        printed: as it stands in the paper, so that its digits are known: "42.41", "1.30".
        ours: None where it was not run.
        is_lower_better: whether a lower number is an improvement rather than a difference.
        why: the reason of a difference or of a gain; left out where the number is reached or was not run.
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
        return Check(claim, printed, shown, "better", why)
    return Check(claim, printed, shown, "differs", why)


def statement(
    claim: str,
    holds: bool | None,
    ours: str = "–",
    *,
    printed: str = "yes",
    is_better: bool = False,
    why: str = "",
) -> Check:
    """A claim of the text beside what came out; `holds` is None where it was not run."""
    if holds is None:
        return Check(claim, printed, ours, "not run", why or "no such point in this size")
    if is_better:
        return Check(claim, printed, ours, "better", why)
    return Check(claim, printed, ours, "reached" if holds else "differs", "" if holds else why)


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
) -> Check:
    """A claim about some numbers, in a list or by size; without any it was not run."""
    if not found:
        return statement(claim, None, printed=printed)
    return statement(claim, holds(found), ours(found), printed=printed, is_better=is_better(found), why=why)


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
