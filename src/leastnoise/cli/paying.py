"""The ledger that pays for what a command releases: opened, asked early, and named afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leastnoise.cli.terminal import say

if TYPE_CHECKING:
    from leastnoise.ledger import Ledger
    from leastnoise.plan import Plan
    from leastnoise.release import Release
    from leastnoise.spec import Spec
    from leastnoise.workload import Workload

LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="the ledger that pays for it; `leastnoise ledger create` begins one"),
]
ReleaseId = Annotated[
    str | None, typer.Option("--release-id", help="what the ledger knows it by; asking again costs nothing")
]

# Cells that are looked at to see whether a workload counts anybody; beyond, kinds of queries have to tell.
_MOST_CELLS = 2**20


@dataclass(frozen=True)
class Payment:
    """Who pays for a release, and what it is known by; nobody where there is no ledger."""

    ledger: Ledger | None
    release_id: str | None

    @property
    def arguments(self) -> dict[str, Any]:
        """What `measure` is told."""
        return {} if self.ledger is None else {"ledger": self.ledger, "release_id": self.release_id}

    @property
    def known_ids(self) -> set[str]:
        """The releases that are paid for, to tell after an interruption whether anything was spent."""
        return set() if self.ledger is None else {entry.release_id for entry in self.ledger.entries}

    def check_before_design(self, spec: Spec) -> None:
        """Refuse what surely cannot be paid for, before a long design; nothing that is paid for already."""
        from leastnoise.ledger import SURELY_SPENT
        from leastnoise.plan import cells_digest
        from leastnoise.privacy import GDP

        if self.ledger is None or self.release_id in self.known_ids:
            return
        workload = spec.workload
        # Without a goal the plan has Gaussian noise, and what it costs is for the design to find out.
        is_sure = spec.privacy is not None and _counts_anybody(workload)
        goal = GDP(1) if spec.privacy is None else spec.privacy
        share = SURELY_SPENT if is_sure else Fraction(0)
        self.ledger.check_goal(goal, cells_digest(workload), share=share)

    def stored_for(self, spec: Spec) -> Release | None:
        """The release that is stored under the id, if it is sure to be what the specification asks.

        None where the ledger does not know the id, or only a design can tell: `measure` then compares the
        plans themselves.

        Raises:
            LedgerMismatchError: if the stored release is surely of another plan.
        """
        from leastnoise.errors import LedgerMismatchError
        from leastnoise.release import stored_release

        if self.ledger is None or self.release_id is None or self.release_id not in self.known_ids:
            return None
        release = stored_release(self.ledger, self.release_id)
        difference = _difference(release.plan, spec)
        if difference is not None:
            raise LedgerMismatchError(
                f"release {self.release_id!r} is of another plan, {difference}; use a new --release-id, or "
                "have the stored one with: leastnoise ledger fetch. Nothing was spent."
            )
        return release if _is_what_design_gives(release.plan, spec) else None

    def say_receipt(self, release: Release) -> None:
        """Name the release and the heads, which differ: storing the answers adds a row to the ledger."""
        receipt = release.receipt
        if receipt is None or self.ledger is None:
            return
        say(f"release id {receipt.release_id}")
        say(f"ledger head when it was paid for, as in the report: {receipt.head}")
        say(f"ledger head now, as `leastnoise ledger show` has it: {self.ledger.head}")


def payment(ledger: Path | None, release_id: str | None) -> Payment:
    """Who pays, opened now rather than after a long design."""
    from leastnoise.errors import InputError

    if ledger is None and release_id is not None:
        raise InputError("--release-id is what a ledger knows a release by; give --ledger too, or neither")
    return Payment(None if ledger is None else opened(ledger), release_id)


def opened(path: Path) -> Ledger:
    """The ledger in a file that exists."""
    from leastnoise.errors import InputError
    from leastnoise.ledger import Ledger

    if not path.exists():
        raise InputError(
            f"there is no ledger {str(path)!r}; begin one with: leastnoise ledger create {path} "
            "--dataset NAME --epsilon E --delta D"
        )
    return Ledger(path)


def _counts_anybody(workload: Workload) -> bool:
    """Whether a workload is sure to count somebody: one of zeros alone costs nothing, whatever its goal."""
    from leastnoise.queries import AllRanges, Cube, Levels, Marginal, Prefix, Total

    counting = (Total, Marginal, Prefix, AllRanges, Cube, Levels)
    if any(isinstance(block.query, counting) for block in workload.blocks):
        return True
    return workload.shape[1] <= _MOST_CELLS and bool(workload.operator.column_norms(1).any())


def _difference(plan: Plan, spec: Spec) -> str | None:
    """In what a plan is surely not one for a specification; None if nothing tells."""
    settings = spec.design_settings()
    if plan.workload.digest != spec.workload.digest:
        return "for other queries, another schema or other targets"
    if plan.after:
        return "designed after others"
    if plan.has_goal != (spec.privacy is not None) or (plan.has_goal and plan.privacy != spec.privacy):
        return f"for {plan.privacy}" if plan.has_goal else "without a goal"
    if plan.objective != _objective(spec):
        return f"for the objective {plan.objective}"
    if settings.get("method", "auto") not in ("auto", plan.method):
        return f"by the method {plan.method}"
    return None


def _is_what_design_gives(plan: Plan, spec: Spec) -> bool:
    """Whether a design could give nothing else: the same request, or the optimum that was sought, proved."""
    settings = spec.design_settings()
    tol = settings.get("tol", 1e-6)
    if plan.options != settings.get("options", {}):
        return False
    if settings.get("method", "auto") == plan.method:
        return bool(plan.tol == tol)
    return plan.certificate.status == "optimal" and plan.certificate.gap <= tol


def _objective(spec: Spec) -> Any:
    from leastnoise.objective import default_objective

    given = spec.design_settings().get("objective")
    return default_objective(spec.workload, given, has_goal=spec.privacy is not None)
