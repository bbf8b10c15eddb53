"""Two or more plans side by side: what each promises, and the standard errors of every batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leastnoise.core.notebook import NotebookValue
from leastnoise.core.printable import printable
from leastnoise.planning import Plan
from leastnoise.privacy import ApproxDP

# The δ at which ε is stated for plans that name none.
_DELTA = 1e-6


@dataclass(frozen=True)
class PlansSideBySide(NotebookValue):
    """Plans by name, such as the files that they come from; prints as a table, one column for each."""

    plans: Mapping[str, Plan]

    def __str__(self) -> str:
        rows = [
            ["", *map(printable, self.plans)],
            ["privacy", *(str(plan.privacy) for plan in self.plans.values())],
            ["epsilon spent", *map(_epsilon, self.plans.values())],
            ["method", *(f"{plan.method}, {plan.certificate.status}" for plan in self.plans.values())],
            ["counts", *(f"{plan.workload.shape[0]:,}" for plan in self.plans.values())],
        ]
        names = dict.fromkeys(name for plan in self.plans.values() for name in plan.workload.names)
        rows += [[printable(name), *(_stderr(plan, name) for plan in self.plans.values())] for name in names]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines[:5], "", "expected standard errors", *lines[5:]])

    __repr__ = __str__

    def rows(self) -> list[dict[str, Any]]:
        """One row for each batch of each plan: name, method, epsilon, delta, batch and its standard errors.

        Standard errors are None where they depend on the data.
        """
        listed = []
        for name, plan in self.plans.items():
            epsilon, delta = _spent(plan)
            spreads = plan.spreads or (None,) * len(plan.workload.names)
            for batch, spread in zip(plan.workload.names, spreads, strict=True):
                listed.append(
                    {
                        "specification": name,
                        "method": plan.method,
                        "epsilon": epsilon,
                        "delta": delta,
                        "batch": batch,
                        "lowest_stderr": None if spread is None else spread.low,
                        "highest_stderr": None if spread is None else spread.high,
                    }
                )
        return listed


def _spent(plan: Plan) -> tuple[float, float]:
    """What the plan spends, ε rounded up and δ: that of its goal, or 1e-6; 0 for pure privacy."""
    if plan.privacy.noise.is_pure:
        return plan.epsilon(), 0.0
    delta = float(plan.privacy.delta) if isinstance(plan.privacy, ApproxDP) else _DELTA
    return plan.epsilon(delta=delta), delta


def _epsilon(plan: Plan) -> str:
    epsilon, delta = _spent(plan)
    return f"{epsilon:.4g} at delta = {delta:g}" if delta else f"{epsilon:.4g}"


def _stderr(plan: Plan, name: str) -> str:
    if name not in plan.workload.names:
        return "not asked"
    if plan.spreads is None:
        return "depends on the data"
    spread = plan.spreads[plan.workload.names.index(name)]
    low, high = f"{spread.low:.4g}", f"{spread.high:.4g}"
    return low if low == high else f"{low} to {high}"
