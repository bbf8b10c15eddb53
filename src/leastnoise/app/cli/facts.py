"""Plans, releases and ledgers as the facts that --json writes; `output.schema.json` describes them."""

from __future__ import annotations

from typing import Any

from leastnoise.app.cli.invocation import Facts
from leastnoise.app.cli.outputs import Outputs
from leastnoise.planning import Plan
from leastnoise.privacy import Goal, Ledger
from leastnoise.release import Release


def goal_facts(goal: Goal) -> Facts:
    """A privacy goal: its name, its parameters, its neighbours and its records per person."""
    return dict(goal.to_dict())


def plan_facts(plan: Plan) -> Facts:
    """What a plan is, and what its certificate proves. A plan saw no data."""
    certificate = plan.certificate
    return {
        "digest": plan.digest,
        "method": plan.method,
        "n_queries": plan.workload.shape[0],
        "privacy": goal_facts(plan.privacy),
        "has_goal": plan.has_goal,
        "factor": plan.factor,
        "ended": plan.ended,
        "certificate": {
            "status": certificate.status,
            "achieved": certificate.achieved,
            "lower_bound": certificate.lower_bound,
            "gap": certificate.gap,
            "unit": certificate.unit,
        },
    }


def release_facts(release: Release, outputs: Outputs, ledger: Ledger | None = None) -> Facts:
    """What a release is and where its files are; never an answer, which are in the files.

    Args:
        ledger: the one that paid for it, or has stored it.
    """
    receipt = release.receipt
    return {
        "plan": plan_facts(release.plan),
        "files": {"answers": outputs.answers, "release": outputs.saved, "page": outputs.page},
        "release_id": None if receipt is None else receipt.release_id,
        "dataset": None if receipt is None else receipt.dataset,
        "ledger": None if ledger is None else ledger_facts(ledger),
    }


def ledger_facts(ledger: Ledger) -> Facts:
    """What a ledger is for, what it has left, and the head that stands for its history."""
    return {
        "dataset": ledger.dataset,
        "limit": goal_facts(ledger.limit),
        "left": str(ledger.remaining),
        "head": ledger.head,
    }


def rows_of_frame(frame: Any, *, with_index: bool = False) -> list[dict[str, Any]]:
    """The rows of a DataFrame; numbers that are missing are null."""
    table = frame.reset_index() if with_index else frame
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
