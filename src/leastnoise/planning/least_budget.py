"""The least budget that meets every target, where there is no goal."""

from __future__ import annotations

import math

from leastnoise.bounds import largest_share
from leastnoise.core.directed import root_above
from leastnoise.core.errors import DesignError
from leastnoise.privacy import GDP, Goal
from leastnoise.query import Targets, Workload
from leastnoise.strategy import BlockProposal, Measured, RealStrategy

# Targets are met with this share to spare, so that they hold though variances are rounded.
_ROUNDING_ROOM = 1e-10


def meeting_targets(
    proposal: RealStrategy | BlockProposal, workload: Workload, tol: float
) -> tuple[Measured, Goal]:
    """The integer strategy that meets every target with the most noise, and the least μ that allows it.

    Raises:
        DesignError: if every query is zero.
    """
    caps = Targets().batch_caps(workload)
    # Variances fall as 1/μ², but for the rounding that follows.
    needed = largest_share(workload, proposal.measured_within(GDP(1), tol=tol), caps)
    if needed == 0:
        raise DesignError("every query with a target is zero, which costs no privacy; ask for something else")
    rows: Measured = proposal.measured_within(GDP(math.sqrt(needed)), tol=tol)
    share = largest_share(workload, rows, caps)
    scale = math.floor(math.sqrt(max(rows.noise_variance / share * (1 - _ROUNDING_ROOM) - 1 / 12, 1)))
    strategy = rows.with_scale(scale)
    less = 1 + (scale >> 50)
    while largest_share(workload, strategy, caps) > 1 - _ROUNDING_ROOM / 2 and scale > less:
        scale -= less
        less *= 2
        strategy = rows.with_scale(scale)
    if largest_share(workload, strategy, caps) > 1:
        raise DesignError("no noise scale meets the targets; this is a fault of leastnoise")
    return strategy, GDP(root_above(strategy.spent))
