"""What the fields of a plan must be, one by one, before they are looked at together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from leastnoise.bounds import ProductWitness, Status, Witness
from leastnoise.core.errors import DesignError
from leastnoise.core.progress import ENDINGS
from leastnoise.planning.mechanism import Mechanism
from leastnoise.planning.method_list import method_named
from leastnoise.privacy import CellCosts, Goal
from leastnoise.query import Objective, Workload
from leastnoise.strategy import Measured

if TYPE_CHECKING:
    from leastnoise.planning.plan.plan import Plan

_CLAIMS: tuple[Status, ...] = get_args(Status)

# The fields that hold values of this library, and what they may be.
_KINDS: dict[str, tuple[type, ...]] = {
    "workload": (Workload,),
    "privacy": (Goal,),
    "objective": (Objective,),
    "strategy": (Measured, type(None)),
    "witness": (Witness, ProductWitness),
    "mechanism": (Mechanism, type(None)),
    "used": (CellCosts, type(None)),
    "has_goal": (bool,),
    "note": (str,),
    "method": (str,),
}


def check_fields(plan: Plan) -> None:
    """Return if every field of a plan is of its kind, its method known, and its claim one there is.

    Raises:
        DesignError: naming the field and what it must be.
        MethodError: for a method that there is not.
    """
    for name, kinds in _KINDS.items():
        if not isinstance(getattr(plan, name), kinds):
            wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
            raise _wrong(plan, name, wanted)
    method_named(plan.method)
    if not isinstance(plan.claim, str) or plan.claim not in _CLAIMS:
        raise _wrong(plan, "claim", f"one of {', '.join(_CLAIMS)}")
    if plan.ended is not None and (not isinstance(plan.ended, str) or plan.ended not in ENDINGS):
        raise _wrong(plan, "ended", f"one of {', '.join(ENDINGS)}, or None where it was not recorded")
    if isinstance(plan.tol, bool) or not isinstance(plan.tol, (int, float)) or not 0 < plan.tol < math.inf:
        raise _wrong(plan, "tol", "a positive, finite number")
    if not isinstance(plan.options, Mapping) or not all(isinstance(name, str) for name in plan.options):
        raise _wrong(plan, "options", "a mapping from names to values")
    if not isinstance(plan.after, tuple) or not all(isinstance(digest, str) for digest in plan.after):
        raise _wrong(plan, "after", "a tuple of digests, 64 hexadecimal digits each")


def _wrong(plan: Plan, name: str, wanted: str) -> DesignError:
    given: Any = getattr(plan, name)
    shown = repr(given) if isinstance(given, (str, int, float, type(None))) else type(given).__name__
    return DesignError(f"the {name} of a plan must be {wanted}, got {shown}; design() makes plans that fit")
