"""What accurate means.

Every objective is a case of one problem over the covariance Σ of the noise:

    total variance     minimise  Σ_j w_j v_j     subject to  u_i ≤ τ_i

with v_j the variance of query j, w_j its weight, and u_i the privacy that a
record of cell i loses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leastnoise.errors import InputError, NotYetError
from leastnoise.workload import Workload


@dataclass(frozen=True)
class TotalVariance:
    """The least weighted sum of the variances of all answers."""

    within_targets: bool = False
    relative_to: object = None

    name: ClassVar[str] = "total-variance"

    def __post_init__(self) -> None:
        if self.within_targets or self.relative_to is not None:
            raise NotYetError("TotalVariance takes neither within_targets nor relative_to yet")

    def __str__(self) -> str:
        return "total variance"


Objective = TotalVariance

OBJECTIVES: dict[str, type[Objective]] = {TotalVariance.name: TotalVariance}


def objective_named(name: str) -> Objective:
    """The objective of that name, as files write it.

    Raises:
        InputError: naming those there are.
    """
    if name not in OBJECTIVES:
        raise InputError(f"objective must be one of {', '.join(OBJECTIVES)}, got {name!r}")
    return OBJECTIVES[name]()


def default_objective(workload: Workload, objective: Objective | None) -> Objective:
    """The objective asked for, or the one that the workload implies.

    Raises:
        NotYetError: if queries carry targets and nothing says to ignore them.
    """
    if objective is None and workload.has_targets:
        raise NotYetError(
            "targets (stderr=, within=) are recorded but this version cannot design for them yet; "
            'pass objective=TotalVariance(), or in a file objective = "total-variance" under [design], to '
            "minimise the total variance regardless of them"
        )
    if objective is not None and not isinstance(objective, TotalVariance):
        raise NotYetError(f"objective must be TotalVariance(), got {objective!r}; the only one solved so far")
    return TotalVariance()
