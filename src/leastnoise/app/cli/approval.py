"""Plans that a person has approved: a command measures the plan of that digest and no other.

The digest of a plan is a SHA-256 over everything that it holds: schema, queries, targets, privacy, the noise
of every row. Whoever approves it has read `leastnoise explain` of it and passes the digest on. A plan that
was altered or designed anew has another digest, and is refused before the table is opened.
"""

from __future__ import annotations

import hmac
import re
from pathlib import Path
from typing import Annotated

import typer

from leastnoise.app.cli.design_commands import designed
from leastnoise.app.cli.plan_cache import difference
from leastnoise.app.specification import Spec
from leastnoise.core.errors import PlanFileError
from leastnoise.planning import Plan, load_plan

SavedPlan = Annotated[
    Path | None,
    typer.Option("--plan", help="measure this plan, saved by `leastnoise design`, instead of designing one"),
]
Approved = Annotated[
    str | None,
    typer.Option(
        "--approved",
        help="the digest of the plan that was approved, as `design` prints it; any other plan is refused "
        "before data is read",
    ),
]

_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_approved(plan: Plan, approved: str | None) -> None:
    """Refuse a plan whose digest is not the one that was approved; called before a table is opened.

    Raises:
        PlanFileError: naming both digests. Nothing was read or spent.
    """
    if approved is None:
        return
    wanted = approved.strip().lower()
    if not _DIGEST.fullmatch(wanted):
        raise PlanFileError(
            "--approved is the whole digest of a plan, 64 digits and letters a to f",
            field="approved",
            given=approved,
            remedy="`leastnoise design` prints it, and `design --json` holds it as result.plan.digest",
        )
    if not hmac.compare_digest(plan.digest, wanted):
        raise PlanFileError(
            f"this plan was not approved: its digest is {plan.digest}, and {wanted} was approved. "
            "No data was read and nothing was spent",
            field="approved",
            given=approved,
            remedy="measure the plan that was approved, or have this one approved",
        )


def plan_fixed(
    asked: Spec, plan: Path | None, approved: str | None, time_limit: float | None, *, cache: bool
) -> Plan | None:
    """The plan to measure where it is fixed before data is read; None where neither option is given.

    Raises:
        PlanFileError: if it is no plan for the specification, or not the one that was approved.
    """
    if plan is None and approved is None:
        return None
    if plan is None:
        found = designed(asked, time_limit, cache=cache)
    else:
        found = load_plan(plan)
        other = difference(found, asked)
        if other is not None:
            raise PlanFileError(
                f"{str(plan)!r} is not a plan for this specification: it is {other}",
                field="plan",
                given=str(plan),
                remedy="design it again from this specification. No data was read and nothing was spent",
            )
    check_approved(found, approved)
    return found
