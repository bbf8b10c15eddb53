"""What a person has approved: a command measures what has that digest and nothing else.

A digest of approval is a SHA-256 over the plan, whose own digest covers schema, queries, targets, privacy and
the noise of every row, and over everything else that is asked and that changes what one person can do or what
is charged: whose record is whose, what is measured of records in no cell, how files are read. Fields of a
specification are covered unless they are named here as harmless, so that a later one is covered too.

Whoever approves has read `leastnoise explain` of the specification and passes the digest on. Whatever was
altered or designed anew has another digest, and is refused before the table is opened.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.app.specification import Spec
from leastnoise.core.errors import PlanFileError
from leastnoise.planning import Plan

SavedPlan = Annotated[
    Path | None,
    typer.Option("--plan", help="measure this plan, saved by `leastnoise design`, instead of designing one"),
]
Approved = Annotated[
    str | None,
    typer.Option(
        "--approved",
        help="the digest that was approved, as `design` prints it: of the plan, of whose record is whose and "
        "of how the table is read; anything else is refused before data is read",
    ),
]

_DIGEST = re.compile(r"[0-9a-f]{64}")

# The fields of a specification that the digest does not cover by themselves, each with the reason.
HARMLESS = {
    "schema": "the plan holds it, and the digest of the plan is covered",
    "queries": "the plan holds them, and the digest of the plan is covered",
    "privacy": "the plan holds it, and the digest of the plan is covered",
    "least": "the plan holds the goal that was found, and the digest of the plan is covered",
    "design": "it says how the plan is sought; what was found is covered",
    "not_counted.most": "it decides after the noise whether a warning is shown",
    "presentation": "it decides after the noise how the answers are shown",
    "publication": "it is what the publisher says beside the answers",
}


def approval_digest(plan: Plan, asked: Spec) -> str:
    """What stands for a plan and for everything else that is asked.

    Guarantee:
        Two requests with one digest have one plan, count the same records of the same people, read the same
        files in the same way and measure the same of records in no cell.
    """
    content = {"approval": 2, "plan": plan.digest, **dict(covered_fields(asked))}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def covered_fields(asked: Any, within: str = "") -> Iterator[tuple[str, Any]]:
    """The fields that are covered beside the plan, as "format.encoding", with their plain values."""
    for field in fields(asked):
        place, value = f"{within}{field.name}", getattr(asked, field.name)
        if place in HARMLESS:
            continue
        if is_dataclass(value):
            yield from covered_fields(value, f"{place}.")
        else:
            # An id is compared as text, and their order says nothing.
            yield place, sorted(map(str, value)) if place == "person_unknown" else value


def approval_lines(plan: Plan, asked: Spec) -> list[str]:
    """The digest for --approved, and what it covers."""
    covers = f"(--approved DIGEST measures {_what_is_covered(asked)} and nothing else)"
    return [f"digest {approval_digest(plan, asked)}", covers]


def _what_is_covered(asked: Spec) -> str:
    """What a digest covers, in words: fields are named where they are not as usual."""
    usual = dict(covered_fields(Spec(asked.schema, (), None)))
    said = [f"{name} = {value!r}" for name, value in covered_fields(asked) if value != usual.get(name)]
    return f"this plan with {', '.join(said)}" if said else "this plan"


def check_approved(plan: Plan, asked: Spec, approved: str | None) -> None:
    """Refuse what has another digest than was approved; called before a table is opened.

    Args:
        asked: what is asked beside the plan, with what options say instead of the specification.

    Raises:
        PlanFileError: naming both digests. Nothing was read or spent.
    """
    if approved is None:
        return
    wanted = approved.strip().lower()
    if not _DIGEST.fullmatch(wanted):
        raise PlanFileError(
            "--approved is a whole digest, 64 digits and letters a to f",
            field="approved",
            given=approved,
            remedy="`leastnoise design` prints it, and `design --json` holds it as result.approval",
        )
    found = approval_digest(plan, asked)
    if hmac.compare_digest(found, wanted):
        return
    if hmac.compare_digest(plan.digest, wanted):
        what = "only the plan was approved, and not whose record is whose and how the table is read"
    else:
        what = f"this was not approved: its digest is {found}, and {wanted} was approved"
    raise PlanFileError(
        f"{what}. No data was read and nothing was spent",
        field="approved",
        given=approved,
        remedy=f"measure what was approved, or have {_what_is_covered(asked)} approved",
    )
