"""How long a search goes on that nobody limited: within 1 % of the optimum, about 20 s of work are enough.

Work is counted in operations, by what a method says that a step of it takes, and never by the clock: the same
request ends at the same step on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from leastnoise.core.resources import seconds_to_text

# Operations per second of a slow core. What is reckoned in seconds before anything is measured goes by it, so
# that the same request gives the same plan on every machine.
NOMINAL_SPEED = 2e10

# The gap below which a search need not go on for ever.
SMALL_GAP = 0.01

# Seconds of work, at NOMINAL_SPEED, after which a search with a small gap ends.
ENOUGH_SECONDS = 20.0


@dataclass(eq=False)
class Patience:
    """The work done so far for one request, over all methods, and the gap that is known.

    Attributes:
        tol: the gap that is aimed at.
        operations: done so far.
        is_over: whether a search was ended for this reason.
    """

    tol: float
    operations: float = 0.0
    is_over: bool = False
    _history: list[tuple[float, float]] = field(default_factory=list)

    @property
    def is_spent(self) -> bool:
        """Whether so much work was done that a small gap is enough."""
        return self.operations > ENOUGH_SECONDS * NOMINAL_SPEED

    def leaves(self, operations: float) -> bool:
        """Whether so much more work stays within what a small gap is worth."""
        return self.operations + operations <= ENOUGH_SECONDS * NOMINAL_SPEED

    def begin(self, operations: float) -> None:
        """Take note of work that is no step of a search, and of another search that begins."""
        self.operations += operations
        self._history.clear()

    def step(self, operations: float, gap: float) -> bool:
        """Take note of a step, after which the best is within this gap; whether that is enough."""
        self.operations += operations
        if math.isfinite(gap):
            self._history.append((self.operations, gap))
        if gap <= SMALL_GAP and self.is_spent and gap > self.tol:
            self.is_over = True
        return self.is_over

    def to_text(self) -> str:
        """What going on would take, by how the gap fell in the second half of the search."""
        gap = self._history[-1][1] if self._history else math.inf
        head = f"ended at a gap of {gap:.1e} after about {ENOUGH_SECONDS:.0f} s of work"
        earlier = self._history[len(self._history) // 2] if self._history else (0.0, math.inf)
        if not 0 < gap < earlier[1] < math.inf:
            return f"{head}; tol=1e-6 or a time limit lets it go on"
        pace = math.log(earlier[1] / gap) / (self._history[-1][0] - earlier[0])
        seconds = math.log(gap / self.tol) / pace / NOMINAL_SPEED
        return f"{head}; with tol={self.tol:.0e} it would go on for about {seconds_to_text(seconds)} more"
