"""Where a long computation stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Where a design stands: step, gap so far, seconds so far."""

    step: int
    gap: float
    seconds: float
