"""What can be said before a design is there: accuracy and the least privacy loss, estimated.

Two estimates, the first at once, the second within a few seconds where a design may take longer:

    simple    the better of noise on every count and noise on every cell
    coarse    the same tables with long attributes in groups, designed: for running totals and ranges over
              thousands of values it is far nearer (over 2,500 values simple noise has nine times the error)
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leastnoise.app.planner.plan_view import (
    USUAL_DELTA,
    Errors,
    estimate_view,
    goal_like,
    least_target,
    loss_of,
    needs_view,
)
from leastnoise.app.planner.spec_edits import coarser, edited
from leastnoise.app.specification import Spec, parse_spec
from leastnoise.core.errors import LeastnoiseError
from leastnoise.planning import design
from leastnoise.privacy import Goal
from leastnoise.query import assemble, default_objective
from leastnoise.report import baselines_of

# Cells above which a design may take longer than people wait; on 500 cells one takes 0.7 s.
_MANY_CELLS = 1_000
# Cells of the coarse specification, at most.
_FEW_CELLS = 500
# An attribute is not made coarser than this many values.
_LEAST_VALUES = 8
# The gap at which the coarse design ends: grouping itself is off by more.
_COARSE_TOL = 1e-3
# Queries that the structured methods design within seconds at any size.
_QUICK_KINDS = frozenset({"total", "marginal", "cube", "levels"})


@dataclass(frozen=True)
class Estimate:
    """Standard errors of every table under a goal, and what they are taken from."""

    errors: tuple[Errors, ...]
    source: str


def usual_goal(spec: Spec) -> Goal:
    """The goal of a specification, or the one that figures are stated for where it has none."""
    return spec.privacy or spec.least.goal_at(1, USUAL_DELTA)


def first_estimates(spec: Spec, text: str, beside: str | Path) -> Iterator[dict[str, Any]]:
    """Dicts of the kinds "estimate" and "needs", the nearer estimate last."""
    yield from _said(spec, text, _simple(spec))
    coarse = coarse_estimate(spec, text, beside)
    if coarse is not None:
        yield from _said(spec, text, coarse)


def _said(spec: Spec, text: str, found: Estimate) -> Iterator[dict[str, Any]]:
    goal, errors = usual_goal(spec), found.errors
    # Standard errors fall as one over the loss: with this factor on the loss every target is met.
    factors = [
        high / target
        for (_, _, high, _), block in zip(errors, spec.workload.blocks, strict=True)
        if (target := least_target(block.targets)) is not None
    ]
    if factors:
        needs = needs_view(max(factors), goal, is_estimate=True)
        yield {"kind": "needs", "view": asdict(needs)}
        if spec.privacy is None:
            goal = goal_like(goal, needs.goal)
            scale = loss_of(usual_goal(spec)) / loss_of(goal)
            errors = tuple((a * scale, b * scale, c * scale, d * scale) for a, b, c, d in errors)
    yield {"kind": "estimate", "view": asdict(estimate_view(spec, text, goal, errors, found.source))}


def _simple(spec: Spec) -> Estimate:
    objective = default_objective(spec.workload, spec.design_settings().get("objective"), has_goal=True)
    both = baselines_of(spec.workload, usual_goal(spec), objective)
    better = min(both.per_count, both.per_cell, key=lambda one: one.value)
    return Estimate(tuple((one, one, one, one) for one in better.rms), "simpler noise")


def coarse_estimate(spec: Spec, text: str, beside: str | Path) -> Estimate | None:
    """The estimate from coarser values; None where a design is quick, or there is nothing to group."""
    if all(query.kind in _QUICK_KINDS for query in spec.queries):
        return None
    factors = coarse_factors(text, {name: spec.schema[name].size for name in spec.schema.names})
    if not factors:
        return None
    try:
        for name, factor in factors.items():
            text = edited(text, {"edit": "coarsen", "attribute": name, "by": factor})
        rough = parse_spec(text, beside)
        free = assemble([query.having(stderr=None, within=None) for query in rough.queries], rough.schema)
        settings = {**rough.design_settings(), "tol": _COARSE_TOL}
        settings.pop("objective", None)
        plan = design(free, usual_goal(spec), **settings)
    except LeastnoiseError:
        # A condition that names a value within a group, a method that cannot: the simple estimate stands.
        return None
    if plan.spreads is None or len(plan.spreads) != len(spec.workload.blocks):
        return None
    errors = tuple((one.low, one.median, one.high, one.mean_square**0.5) for one in plan.spreads)
    groups = " and ".join(f"{name} in groups of {factor}" for name, factor in factors.items())
    return Estimate(errors, f"a plan with {groups}")


def coarse_factors(text: str, sizes: dict[str, int]) -> dict[str, int]:
    """How many values of which attribute to put together so that few cells are left; {} where that cannot be.

    Example:
        >>> coarse_factors("[schema]\\nage = { range = [0, 2500] }", {"age": 2500, "sex": 2})
        {'age': 16}
    """
    plain, left = tomllib.loads(text)["schema"], dict(sizes)
    factors: dict[str, int] = {}
    n_cells = _product(left)
    if n_cells <= _MANY_CELLS:
        return {}
    while n_cells > _FEW_CELLS:
        ordered = [name for name in left if left[name] > _LEAST_VALUES and _is_ordered(plain.get(name))]
        if not ordered:
            return {}
        largest = max(ordered, key=lambda name: left[name])
        factors[largest] = 2 * factors.get(largest, 1)
        left[largest] = -(-sizes[largest] // factors[largest])
        n_cells = _product(left)
    return factors


def _is_ordered(plain: Any) -> bool:
    """Whether neighbouring values of an attribute, as a file holds it, can be put together."""
    return isinstance(plain, dict) and ("range" in plain or "bins" in plain) and coarser(plain, 2) is not None


def _product(sizes: dict[str, int]) -> int:
    cells = 1
    for size in sizes.values():
        cells *= size
    return cells
