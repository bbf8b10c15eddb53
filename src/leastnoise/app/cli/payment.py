"""The ledger that pays for what a command releases: opened, asked early, and named afterwards."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from leastnoise.app.cli.plan_cache import difference
from leastnoise.app.cli.terminal import say
from leastnoise.app.specification import Spec
from leastnoise.core.errors import InputError, LedgerMismatchError, PlanFileError
from leastnoise.core.printable import printable
from leastnoise.planning import Plan, cells_digest
from leastnoise.privacy import (
    LEAST_SHARE_SPENT,
    Entry,
    Ledger,
    is_address,
    ledger_exists,
    without_password,
)
from leastnoise.query import AllRanges, Cube, Levels, Marginal, Prefix, Total, Workload
from leastnoise.release import Release, stored_release

LedgerPlace = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help="the ledger that records the privacy loss: a file, or postgresql://HOST/DATABASE?ledger=NAME; "
        "`leastnoise ledger create` makes one",
    ),
]
ReleaseId = Annotated[
    str | None,
    typer.Option("--release-id", help="an id for this release; asking for the same id again costs nothing"),
]
SameTableAs = Annotated[
    str | None,
    typer.Option(
        "--same-table-as",
        help="the id of an earlier release of the same, unchanged table; costs are then added cell by cell",
    ),
]
TableLabel = Annotated[str | None, typer.Option("--table", help="a label for the table, shown by the ledger")]

# Cells that are looked at to see whether a workload counts anybody; beyond, kinds of queries have to tell.
_MOST_CELLS = 2**20


@dataclass(frozen=True)
class Payment:
    """The ledger that pays for a release, and its release id; no ledger where none is given."""

    ledger: Ledger | None
    release_id: str | None
    same_table_as: str | None = None
    table: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments for `measure`."""
        if self.ledger is None:
            return {}
        return {
            "ledger": self.ledger,
            "release_id": self.release_id,
            "same_table_as": self.same_table_as,
            "table": self.table,
        }

    @property
    def known_ids(self) -> set[str]:
        """The releases that are paid for, to tell after an interruption whether anything was spent."""
        return set() if self.ledger is None else {entry.release_id for entry in self.ledger.entries}

    @property
    def stored_ids(self) -> set[str]:
        """The releases whose answers can be had."""
        return set() if self.ledger is None else {entry.release_id for entry in _stored(self.ledger)}

    def check_before_design(self, spec: Spec) -> None:
        """Refuse what surely cannot be paid for, before a long design; nothing that is paid for already.

        Raises:
            LedgerMismatchError: also if the same plan is stored already, and no id says it is wanted anew.
        """

        if self.ledger is None or self.release_id in self.known_ids:
            return
        if self.release_id is None:
            self._refuse_again(release_of(self.ledger, spec))
        workload = spec.workload
        # Without a goal the plan has Gaussian noise, and what it costs is for the design to find out.
        is_sure = spec.privacy is not None and _counts_anybody(workload)
        goal = spec.least.unit_goal if spec.privacy is None else spec.privacy
        share = LEAST_SHARE_SPENT if is_sure else Fraction(0)
        self.ledger.check_goal(goal, same_table_as=self.same_table_as, share=share)

    def check_plan(self, plan: Plan) -> None:
        """Refuse a plan whose answers the ledger stores, unless an id says that it is wanted anew.

        Python's `measure` pays for every call without an id. A command that is typed again is more often
        meant to give the same answers, and a second noise for the same table only wastes what is left.

        Raises:
            LedgerMismatchError: naming the release that is stored.
        """
        if self.ledger is None or self.release_id is not None:
            return
        same = [entry for entry in _stored(self.ledger) if entry.charge.plan_digest == plan.digest]
        self._refuse_again(same[-1] if same else None)

    def _refuse_again(self, entry: Entry | None) -> None:
        if entry is None or self.ledger is None:
            return
        known = entry.release_id
        fetch = f"leastnoise ledger fetch {typed(self.ledger.address)} {shlex.quote(known)}"
        raise LedgerMismatchError(
            f"this plan was already released as {known!r}; `{fetch}` gives its answers at no "
            "cost. If the table has changed, give the new release its own id: --release-id "
            "NEW. Nothing was spent.",
            field="release_id",
            given=known,
        )

    def stored_for(self, spec: Spec) -> Release | None:
        """The release that is stored under the id, if it is sure to be what the specification asks.

        Then it is said, before anything else, that these are no new answers.

        None where the ledger does not know the id, or only a design can tell: `measure` then compares the
        plans themselves.

        Raises:
            LedgerMismatchError: if the stored release is surely of another plan.
        """

        if self.ledger is None or self.release_id is None or self.release_id not in self.known_ids:
            return None
        release = stored_release(self.ledger, self.release_id)
        different = difference(release.plan, spec)
        if different is not None:
            raise LedgerMismatchError(
                f"release {self.release_id!r} is of another plan, {different}; use a new "
                "--release-id, or get the stored one with: leastnoise ledger fetch. Nothing was spent.",
                field="release_id",
                given=self.release_id,
            )
        if not _is_what_design_gives(release.plan, spec):
            return None
        self.say_stored_already()
        return release

    def stored_of(self, plan: Plan) -> Release | None:
        """The release that is stored under the id, if it is of this very plan; said like `stored_for`."""
        if self.ledger is None or self.release_id is None or self.release_id not in self.stored_ids:
            return None
        release = stored_release(self.ledger, self.release_id)
        if release.plan.digest != plan.digest:
            return None
        self.say_stored_already()
        return release

    def say_stored_already(self) -> None:
        """Say, before any answer, that they are those of an earlier release and not of the table given."""
        stored = () if self.ledger is None else _stored(self.ledger)
        for entry in stored:
            if entry.release_id == self.release_id:
                text = (
                    f"release {entry.release_id!r} is stored already: these are its answers of "
                    f"{entry.at[:10]}. The table was not read, nothing was spent. For new answers give "
                    "another --release-id"
                )
                # On both: a reader of either would take old answers for new ones.
                typer.echo(f"note: {printable(text)}", err=True)
                say(f"{text}\n")

    def say_receipt(self, release: Release) -> None:
        """Name the release, and a head by which it can be proved later that nothing was removed."""
        receipt = release.receipt
        if receipt is None or self.ledger is None:
            return
        say(f"release id {receipt.release_id}")
        # The head now, not that of the receipt, which the page holds: storing the answers has added a row.
        say(f"ledger head {self.ledger.head}")
        say(
            "  note it down elsewhere: `leastnoise ledger verify "
            f"{typed(self.ledger.address)} --head ...` proves later that nothing was removed"
        )


def payment(
    ledger: str | None,
    release_id: str | None,
    same_table_as: str | None = None,
    table: str | None = None,
) -> Payment:
    """Who pays, opened now rather than after a long design."""
    if ledger is None:
        if release_id is not None:
            raise InputError(
                "--release-id names a release in a ledger",
                field="release_id",
                given=release_id,
                remedy="give --ledger too, or neither",
            )
        if same_table_as is not None or table is not None:
            raise InputError(
                "--same-table-as and --table are for a ledger",
                field="ledger",
                given=None,
                remedy="give --ledger too",
            )
        return Payment(None, None)
    kept = opened(ledger)
    if same_table_as is not None:
        check_known(kept, same_table_as)
    return Payment(kept, release_id, same_table_as, table)


def check_known(ledger: Ledger, release_id: str) -> None:
    """Refuse an id that the ledger does not have, naming some that it has."""
    known = [entry.release_id for entry in ledger.entries]
    if release_id in known:
        return
    some = ", ".join(map(repr, known[-3:])) or "none yet"
    others = " and others" if len(known) > 3 else ""
    raise InputError(
        f"the ledger {ledger.name!r} has no release {release_id!r}, only {some}{others}",
        field="release_id",
        given=release_id,
        remedy=f"`leastnoise ledger show {typed(ledger.address)}` lists them",
    )


def opened(place: str) -> Ledger:
    """The ledger in a file or a database, which must exist."""
    if file_of(place) is not None and not exists(place):
        raise InputError(
            f"there is no ledger {place!r}",
            field="ledger",
            given=place,
            remedy=f"create one with: leastnoise ledger create {place} --dataset NAME --epsilon E --delta D",
        )
    return Ledger(place)


def exists(place: str) -> bool:
    """Whether a ledger, or something else, is there already."""
    file = file_of(place)
    return ledger_exists(place) if file is None else file.exists()


def file_of(place: str) -> Path | None:
    """The file that a ledger is kept in; None for one in a database."""
    return None if is_address(place) else Path(place)


def shown_place(place: str) -> str:
    """Where a ledger is kept, without a password."""
    return place if file_of(place) is not None else without_password(place)


def typed(place: str) -> str:
    """A path as it may be typed in the folder where the command runs; an address without its password."""
    file, here = file_of(place), Path.cwd()
    if file is None:
        return shlex.quote(without_password(place))
    return shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))


def release_of(ledger: Ledger, spec: Spec) -> Entry | None:
    """The latest stored release of the plan that a specification is sure to give; None where none is sure."""
    cells, tried = cells_digest(spec.workload), set[str]()
    for entry in reversed(list(_stored(ledger))):
        # Loading a plan takes long; most can be ruled out by what the ledger holds of them.
        if entry.charge.cells != cells or entry.charge.plan_digest in tried:
            continue
        tried.add(entry.charge.plan_digest)
        try:
            plan = stored_release(ledger, entry.release_id).plan
        except PlanFileError:
            # Stored by something else than `measure`: then it is no plan that could be compared.
            continue
        if difference(plan, spec) is None and _is_what_design_gives(plan, spec):
            return entry
    return None


def _stored(ledger: Ledger) -> Iterator[Entry]:
    """The releases whose answers can be had; one that was paid for and lost may be wanted again."""
    return (entry for entry in ledger.entries if entry.is_stored)


def _counts_anybody(workload: Workload) -> bool:
    """Whether a workload is sure to count somebody: one of zeros alone costs nothing, whatever its goal."""
    counting = (Total, Marginal, Prefix, AllRanges, Cube, Levels)
    if any(isinstance(block.query, counting) for block in workload.blocks):
        return True
    return workload.shape[1] <= _MOST_CELLS and bool(workload.operator.column_norms(1).any())


def _is_what_design_gives(plan: Plan, spec: Spec) -> bool:
    """Whether a design could give nothing else: the same request, or the optimum that was sought, proved."""
    settings = spec.design_settings()
    tol = settings.get("tol", 1e-6)
    if plan.options != settings.get("options", {}):
        return False
    if settings.get("method", "auto") == plan.method:
        return bool(plan.tol == tol)
    return plan.certificate.status == "optimal" and plan.certificate.gap <= tol
