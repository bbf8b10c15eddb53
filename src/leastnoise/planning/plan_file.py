"""A plan from a file: nothing that the file claims is believed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.bounds import (
    AnyWitness,
    Witness,
    are_pairs,
    parts_witness_from_parts,
    product_witness_from_parts,
)
from leastnoise.core import container
from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import LeastnoiseError, MethodError, PlanFileError
from leastnoise.core.operators import Array
from leastnoise.core.progress import ENDINGS, Ended
from leastnoise.core.steps import log_step
from leastnoise.planning.horizon import plan_through
from leastnoise.planning.method import Request, Trial
from leastnoise.planning.method_list import method_named
from leastnoise.planning.one_method import plan_by
from leastnoise.planning.plan import Plan
from leastnoise.planning.plan_parts import FORMAT
from leastnoise.privacy import NOISES, CellCosts, Goal, goal_from_dict
from leastnoise.query import Workload, objective_from_dict
from leastnoise.strategy import strategy_from_parts


def load_plan(path: str | Path) -> Plan:
    """The plan that `Plan.save` wrote.

    Args:
        path: the file of the plan.

    Guarantee:
        The sensitivity is recomputed from the integer rows in the file and checked against the goal before a
        plan is returned, in every cell together with what the file says of earlier plans; the certificate is
        recomputed when first used. Nothing the file claims is trusted; the ledger decides whether earlier
        plans were released, and at what cost.

    Raises:
        PlanFileError: for anything that is not a plan, or one that does not keep its goal.
    """
    content, arrays = container.read(path, "plan")
    plan = plan_from_parts(content, arrays, Path(path).name)
    log_step("plan loaded", method=plan.method)
    return plan


def plan_from_parts(content: Mapping[str, Any], arrays: Mapping[str, Array], name: str) -> Plan:
    """The plan that `Plan.to_parts` took apart; `name` is the file, for messages.

    Raises:
        PlanFileError: as `load_plan`.
    """
    try:
        return _put_together(content, arrays, name)
    except PlanFileError:
        raise
    except LeastnoiseError as error:
        raise _invalid(name, f"is not a valid plan: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError):
        raise _invalid(name, "is not a valid plan: its content is not what design() writes") from None


def _put_together(content: Mapping[str, Any], arrays: Mapping[str, Array], name: str) -> Plan:
    _check_kind(content, name)
    workload = Workload.from_dict(content["workload"])
    privacy = goal_from_dict(content["privacy"])
    after, used = _earlier(content, arrays, name)
    if content["claim"] == "data-dependent":
        if after:
            raise _invalid(name, "comes after other plans, which its method cannot do")
        return replace(_data_dependent_plan(content, workload, privacy), ended=_ended(content, name))
    scale, tol = int(content["scale"]), float(content["tol"])
    if scale < 1 or not 0 < tol < math.inf:
        raise _invalid(name, "holds a noise scale or tolerance that is not positive")
    if not isinstance(content.get("has_goal", True), bool):
        raise _invalid(name, "is not a plan that this version can read")
    plan = Plan(
        workload=workload,
        privacy=privacy,
        strategy=strategy_from_parts(
            content,
            arrays,
            workload,
            scale=scale,
            noise=content["noise"],
            neighbours=privacy.neighbours,
        ),
        witness=_witness(content, arrays, workload, privacy, name),
        objective=objective_from_dict(content),
        method=str(content["method"]),
        claim=content["claim"],
        tol=tol,
        note=str(content["note"]),
        options=dict(content["options"]),
        has_goal=content.get("has_goal", True),
        after=after,
        used=used,
        ended=_ended(content, name),
        tried=tuple(Trial(**trial) for trial in content.get("tried", ())),
        over=content.get("over"),
    )
    _check_answers(plan, name)
    return plan if "period" not in content else plan_through(plan, content["period"])


def _ended(content: Mapping[str, Any], name: str) -> Ended | None:
    """How the search ended; None in files of versions that did not record it."""
    ended: Ended | None = content.get("ended")
    if "ended" in content and ended not in ENDINGS:
        raise _invalid(name, "is not a plan that this version can read")
    return ended


def _check_kind(content: Mapping[str, Any], name: str) -> None:
    """Return if the content is of a kind that this version knows."""
    if content["format"] != FORMAT:
        raise _invalid(name, "was saved by another version of leastnoise", remedy="design it again")
    claims = ("stopped", "heuristic", "data-dependent")
    if content["noise"] not in tuple(NOISES) or content["claim"] not in claims:
        raise _invalid(name, "is not a plan that this version can read")


def _check_answers(plan: Plan, name: str) -> None:
    """Return if a plan answers all of its queries, and meets the targets that it must meet."""
    if not plan.fixed_strategy().can_answer_all(plan.workload):
        raise _invalid(name, "holds a strategy that cannot answer its queries")
    must_meet = plan.objective.kind == "total-within-caps" or not plan.has_goal
    if must_meet and (plan.factor is None or plan.factor > 1):
        raise _invalid(name, "holds a strategy that misses its targets", remedy="design it again")


def _witness(
    content: Mapping[str, Any], arrays: Mapping[str, Array], workload: Workload, privacy: Goal, name: str
) -> AnyWitness:
    """The dual weights, of parts of the queries, of product form or of the cells themselves."""
    if content.get("witness") == "parts":
        return parts_witness_from_parts(content["witness_parts"], arrays)
    if content.get("witness") == "product":
        return product_witness_from_parts(arrays, content["witness_axes"])
    if "classes" in arrays:
        return _cell_weights(arrays, (workload.shape[0], len(arrays["classes"])), privacy, name)
    return _cell_weights(arrays, workload.shape, privacy, name)


def _earlier(
    content: Mapping[str, Any], arrays: Mapping[str, Array], name: str
) -> tuple[tuple[str, ...], CellCosts | None]:
    """The digests of earlier plans, and what they have used of every cell."""
    digests, used, unit = content.get("after", []), arrays.get("used"), arrays.get("used_unit")
    if not isinstance(digests, list) or not (bool(digests) == (used is not None) == (unit is not None)):
        raise _invalid(name, "tells of earlier plans in part only")
    if used is None or unit is None:
        return (), None
    if used.ndim != 2 or unit.ndim != 2 or len(unit) != 1 or {used.dtype.kind, unit.dtype.kind} != {"i"}:
        raise _invalid(name, "holds arrays that do not fit its workload")
    numerators = tuple(int(cost) for cost in exact.from_limbs(used))
    return tuple(digests), CellCosts(numerators, int(exact.from_limbs(unit)[0]))


def _cell_weights(arrays: Mapping[str, Array], shape: tuple[int, int], privacy: Goal, name: str) -> Witness:
    """The dual weights of cells, or of pairs of them, and of queries."""
    q, pairs = arrays["q"], arrays.get("pairs")
    m, n = shape
    fits = q.shape == (n,) if pairs is None else are_pairs(pairs, q, n)
    if not fits or not (np.isfinite(q).all() and (q >= 0).all()):
        raise _invalid(name, "holds arrays that do not fit its workload")
    if not privacy.relation.may_weigh(pairs):
        raise _invalid(name, "holds weights of pairs, which prove nothing for its goal")
    p = _query_weights(arrays, m)
    if p is None and not arrays.keys().isdisjoint({"p", "p_rows"}):
        raise _invalid(name, "holds arrays that do not fit its workload")
    return Witness(p, q.astype(float), pairs)


def _query_weights(arrays: Mapping[str, Array], m: int) -> Array | None:
    """The weights of the queries, (m,), those not listed being zero; None if absent or unfit."""
    rows, values = arrays.get("p_rows"), arrays.get("p")
    if rows is None or values is None or rows.dtype.kind != "i" or values.dtype.kind != "f":
        return None
    fits = rows.ndim == 1 and rows.shape == values.shape and bool((np.diff(rows) > 0).all())
    if not fits or (len(rows) and not 0 <= rows[0] <= rows[-1] < m):
        return None
    if not (np.isfinite(values).all() and (values > 0).all()):
        return None
    p = np.zeros(m)
    p[rows] = values
    return p


def _data_dependent_plan(content: Mapping[str, Any], workload: Workload, privacy: Goal) -> Plan:
    """The plan of a mechanism made anew: of a file only workload, goal, objective and options are taken.

    Raises:
        LeastnoiseError: if the method does not depend on the data, or cannot do what was asked.
    """
    objective, options = objective_from_dict(content), dict(content["options"])
    method = method_named(str(content["method"]))
    if not method.is_data_dependent:
        raise MethodError(f"method {method.name!r} needs no data", field="method", given=method.name)
    return plan_by(method, Request(workload, privacy, options, float(content["tol"]), objective=objective))


def _invalid(name: str, fault: str, *, remedy: str | None = None) -> PlanFileError:
    """The error of a file that is no plan which can be trusted."""
    return PlanFileError(f"{name!r} {fault}", field="plan", given=name, remedy=remedy)
