"""A plan as plain values and arrays: what its file holds, and what its digest is of.

`plan_file` puts a plan together again from them, and believes none of them.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise.bounds import PartsWitness, ProductWitness
from leastnoise.core import exact_integers as exact
from leastnoise.core.operators import Array

if TYPE_CHECKING:
    from leastnoise.planning.plan import Plan

FORMAT = 1


def parts_of(plan: Plan) -> tuple[dict[str, Any], dict[str, Array]]:
    """The content and the arrays of a plan's file."""
    if plan.horizon is not None:
        # The part that is due by a period follows from the plan of all periods.
        content, arrays = parts_of(plan.horizon)
        return {**content, "period": plan.period}, arrays
    content = {
        "format": FORMAT,
        "workload": plan.workload.to_dict(),
        "privacy": plan.privacy.to_dict(),
        **plan.objective.to_dict(),
        "has_goal": plan.has_goal,
        "method": plan.method,
        "options": dict(plan.options),
        "claim": plan.claim,
        "tol": plan.tol,
        "note": plan.note,
        "noise": plan.privacy.noise,
    }
    if plan.ended is not None:
        # Left out where it is not known, so that files from before keep their digest.
        content["ended"] = plan.ended
    if plan.tried:
        content["tried"] = [asdict(trial) for trial in plan.tried]
    if plan.over is not None:
        content["over"] = plan.over
    if plan.strategy is None:
        # The mechanism follows from workload, goal and options.
        return content, {}
    content["scale"] = str(plan.strategy.scale)
    structure, arrays = plan.strategy.to_parts()
    if plan.used is not None:
        content["after"] = list(plan.after)
        arrays["used"] = exact.to_limbs(np.array(plan.used.numerators, dtype=object))
        arrays["used_unit"] = exact.to_limbs(np.array([plan.used.unit], dtype=object))
    if structure:
        content["structure"] = structure
    if isinstance(plan.witness, PartsWitness):
        content["witness"] = "parts"
        content["witness_parts"], own = plan.witness.to_parts()
        return content, {**arrays, **own}
    if isinstance(plan.witness, ProductWitness):
        content["witness"] = "product"
        content["witness_axes"] = plan.witness.axes_to_plain()
        return content, {**arrays, **plan.witness.to_arrays()}
    arrays["q"] = plan.witness.q
    if plan.witness.pairs is not None:
        arrays["pairs"] = plan.witness.pairs
    if plan.witness.p is not None:
        # Most queries have no weight: of half a million, a few hundred.
        arrays["p_rows"] = np.flatnonzero(plan.witness.p)
        arrays["p"] = plan.witness.p[arrays["p_rows"]]
    return content, arrays
