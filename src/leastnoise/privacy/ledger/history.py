"""The history that the rows of a ledger record: rows are written here, and read back with every check."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from leastnoise.core.errors import InputError, LedgerFileError, PrivacyError, TooLargeError
from leastnoise.privacy.accounting import (
    Charge,
    Remaining,
    Tally,
    charge_from_parts,
    check_kind,
    check_limit,
    full_charge,
    is_short_text,
    within,
)
from leastnoise.privacy.goals import Goal, goal_from_dict
from leastnoise.privacy.ledger.rows import NOTHING, Row, opened, sealed
from leastnoise.privacy.ledger.table_identity import WAYS, CountedTable, is_rules

# The first format did not note what table a release is about.
FORMAT = 2
_FORMATS = (1, 2)


@dataclass(frozen=True)
class StoredAnswers:
    """Where the answers of a release are, and what they hash to."""

    number: int
    size: int
    sha256: str
    at: str


@dataclass(frozen=True)
class StoredPart(StoredAnswers):
    """The same of one period of a stream, which was paid for as a whole."""

    period: str


@dataclass(frozen=True)
class RecordedTable:
    """What the log says of the table of a release.

    Attributes:
        by: how its version was noted: "digest", "held", or None where it was not.
        rules: how its records were counted.
        label: what people call it; nothing follows from it.
        same_as: the release whose table it was confirmed to be; None if it is the first of its own.
        commitment: hides the digest of its bytes; None unless noted so.
    """

    by: str | None
    rules: Mapping[str, str]
    label: str | None
    same_as: str | None
    commitment: str | None


@dataclass(frozen=True)
class Entry:
    """One release that was paid for.

    Attributes:
        number: its row in the ledger.
        charge: what it costs by itself.
        after: digests of the plans that its plan was designed after.
        charged: by how much it raised what one person has spent: μ² (Gaussian) or ε (Laplace), exactly.
        at: when, in UTC.
        head: the ledger's head once it was paid for, to be printed in the release.
        table: the table it is about; None if an earlier version recorded it, which did not note it.
        group: the first release about the same version of the same table. The costs of a group are added
            cell by cell; None for a release that nothing can be added to.
        stored: its answers; None if they were never stored. Of a stream, its plan.
        parts: what was published of a stream, period by period; empty for any other release.
    """

    number: int
    release_id: str
    charge: Charge
    after: tuple[str, ...]
    charged: Fraction
    at: str
    head: str
    table: RecordedTable | None = None
    group: str | None = None
    stored: StoredAnswers | None = None
    parts: tuple[StoredPart, ...] = ()

    @property
    def is_stored(self) -> bool:
        """Whether its answers can be had."""
        return self.stored is not None


@dataclass(frozen=True)
class Closed:
    """That a ledger is closed, because it was moved.

    Attributes:
        to: what the ledger is called that goes on in its place.
        token: what that ledger must know to go on; no two moves have the same.
        at: when, in UTC.
    """

    to: str
    token: str
    at: str


class History:
    """Everything a ledger has recorded, row by row.

    Rows are added as they are read, so that a process reads and checks each of them once.
    """

    def __init__(self, opening: Row) -> None:
        content = opened(opening, NOTHING, 0)
        texts_fit = all(is_short_text(content.get(name)) for name in ("dataset", "at"))
        if opening.kind != "open" or opening.profile is not None or not texts_fit:
            raise LedgerFileError(
                "the first row of the ledger is not a valid opening",
                field="row",
                given=0,
                remedy="restore the file",
            )
        if (
            set(content) != {"format", "dataset", "limit", "planned", "at"}
            or type(content["format"]) is not int
            or content["format"] not in _FORMATS
        ):
            raise LedgerFileError(
                "this version of leastnoise does not know the format of the ledger",
                field="format",
                remedy="update leastnoise",
            )
        if type(content["planned"]) is not bool or not isinstance(content["limit"], dict):
            raise LedgerFileError(
                "the first row of the ledger is not a valid opening",
                field="row",
                given=0,
                remedy="restore the file",
            )
        self.dataset: str = content["dataset"]
        self.planned: bool = content["planned"]
        self.limit: Goal = _limit(content["limit"])
        self.at: str = content["at"]
        self.digests = [opening.digest]
        self.tally = Tally()
        self._entries: dict[str, Entry] = {}
        self._plans: Counter[str] = Counter()
        self._plans_of: dict[str, Counter[str]] = {}
        # What the releases of the first format came to by its own rule: equal cells were summed.
        self._first_tally = Tally()
        self._has_tables = content["format"] != 1
        # Where it was moved to; None as long as it is in use.
        self.closed: Closed | None = None

    @property
    def head(self) -> str:
        """The digest of the last row."""
        return self.digests[-1]

    @property
    def n_rows(self) -> int:
        """How many rows there are, the opening one included."""
        return len(self.digests)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The releases paid for, in order."""
        return tuple(self._entries.values())

    @property
    def remaining(self) -> Remaining:
        """What the limit leaves."""
        return Remaining(self.limit, self.tally, self.planned)

    def entry(self, release_id: str) -> Entry | None:
        """The release of some id; None if there is none."""
        return self._entries.get(release_id)

    @property
    def groups(self) -> tuple[str, ...]:
        """The first release of every group, in order."""
        return tuple(self._plans_of)

    def missing(self, plans: Sequence[str], group: str | None = None) -> list[str]:
        """Those of some plans that were not released; one that is named twice must have been twice.

        Args:
            group: look among its releases only.
        """
        released = self._plans if group is None else self._plans_of.get(group, Counter())
        return list((Counter(plans) - released).elements())

    @property
    def is_sound(self) -> bool:
        """Whether every row was within the limit by the rule of the time it was written."""
        tally = self.tally if self._has_tables else self._first_tally
        return within(self.limit, tally, planned=self.planned)

    @property
    def exceeds_by_old_rule(self) -> bool:
        """Whether releases of the first format exceed the limit, now that worst cases are added."""
        return not self._has_tables and not within(self.limit, self.tally, planned=self.planned)

    def admits(self, charge: Charge, group: str | None = None) -> bool:
        """Whether a charge stays within the limit.

        Args:
            group: the releases whose costs it is added to cell by cell; None adds its worst case.

        Raises:
            PrivacyError: if it does not fit the limit, whatever it costs.
        """
        check_kind(self.limit, charge)
        return within(self.limit, self.tally.plus(charge, group=group), planned=self.planned)

    def rules_out(self, goal: Goal, share: Fraction, group: str | None = None) -> bool:
        """Whether no plan can be admitted that spends at least a share of a goal in one of its cells.

        The largest sum then grows by that cost less what the emptiest cell has left below it, at least: where
        the plan spends most in that very cell, and nothing elsewhere.

        Args:
            group: the releases whose costs the plan's are added to cell by cell, if any.

        Raises:
            PrivacyError: if no plan of this kind fits the limit, whatever it costs.
        """
        check_kind(self.limit, full_charge(goal))
        least = share * goal.budget - self.tally.slack(goal.noise, group)
        # Judged by the curve of a mixture, less might be found to cost more, by a rounding.
        if self.planned or least <= 0:
            return False
        return not self.admits(full_charge(goal, least))

    def growth(self, charge: Charge, group: str | None = None) -> Fraction:
        """By how much a charge raises what one person has spent, in its own kind: μ² or ε."""
        after = self.tally.plus(charge, group=group)
        if not charge.noise_kind.is_pure:
            return after.mu_squared - self.tally.mu_squared
        return after.epsilon - self.tally.epsilon

    def add(self, row: Row) -> None:
        """Add the row that follows.

        Raises:
            LedgerFileError: if it is not one that could follow; the history stays as it was.
        """
        content = opened(row, self.head, self.n_rows)
        try:
            if self.closed is not None or row.kind in ("close", "continue"):
                self._add_move(row, content)
            elif row.kind == "spend":
                self._add_spend(row, content)
            elif row.kind == "store" and row.profile is None:
                self._add_store(row, content)
            elif row.kind == "part" and row.profile is None:
                self._add_part(row, content)
            else:
                raise _InvalidRow
        except (_InvalidRow, PrivacyError, TooLargeError):
            raise LedgerFileError(
                f"row {row.number} of the ledger is not a valid entry",
                field="row",
                given=row.number,
                remedy="restore the file",
            ) from None
        self.digests.append(row.digest)

    def _add_spend(self, row: Row, content: Mapping[str, Any]) -> None:
        entry = self.entry_of(row, content)
        _require(entry.release_id not in self._entries)
        charge = entry.charge
        check_kind(self.limit, charge)
        if entry.table is None:
            # Nothing of the first format can follow a row of the second.
            _require(not self._has_tables and not self.missing(entry.after))
            self._first_tally = self._first_tally.plus(
                charge, group=f"{charge.cells} {charge.records_per_person}"
            )
        else:
            _require(not entry.after or not self.missing(entry.after, entry.group or ""))
            self._has_tables = True
        self.tally = self.tally.plus(charge, group=entry.group)
        self._entries[entry.release_id] = entry
        self._plans[charge.plan_digest] += 1
        if entry.group is not None:
            self._plans_of.setdefault(entry.group, Counter())[charge.plan_digest] += 1

    def entry_of(self, row: Row, content: Mapping[str, Any]) -> Entry:
        """The release that a row pays for, if the row comes next."""
        names = {"release_id", "after", "at", "charge"}
        _require(set(content) in (names, names | {"table"}))
        _require(is_short_text(content["release_id"]) and is_short_text(content["at"]))
        after = content["after"]
        _require(isinstance(after, list) and all(map(is_short_text, after)))
        _require(isinstance(content["charge"], dict))
        charge = charge_from_parts(content["charge"], row.profile)
        table = _about(content["table"]) if "table" in content else None
        group = None if table is None else self._group_of(content["release_id"], charge, table)
        return Entry(
            number=row.number,
            release_id=content["release_id"],
            charge=charge,
            after=tuple(after),
            charged=self.growth(charge, group),
            at=content["at"],
            head=row.digest,
            table=table,
            group=group,
        )

    def _group_of(self, release_id: str, charge: Charge, table: RecordedTable) -> str | None:
        """The group that a release is added to: that of the release it names, or one of its own."""
        if table.same_as is None:
            return None if table.by is None or not charge.adds_by_cell else release_id
        base = self._entries.get(table.same_as)
        _require(base is not None and base.group is not None and base.table is not None)
        assert base is not None
        assert base.table is not None
        _require((table.by, dict(table.rules)) == (base.table.by, dict(base.table.rules)))
        _require(charge.adds_by_cell and charge.cells == base.charge.cells)
        return base.group

    def _add_store(self, row: Row, content: Mapping[str, Any]) -> None:
        entry = self._paid_before(content, {"release_id", "spend", "size", "sha256", "at"})
        _require(entry.stored is None)
        stored = StoredAnswers(row.number, content["size"], content["sha256"], content["at"])
        # In place: a dictionary keeps the order of its keys.
        self._entries[entry.release_id] = replace(entry, stored=stored)

    def _add_part(self, row: Row, content: Mapping[str, Any]) -> None:
        entry = self._paid_before(content, {"release_id", "spend", "size", "sha256", "at", "period"})
        period = content["period"]
        _require(entry.stored is not None and is_short_text(period))
        _require(all(part.period != period for part in entry.parts))
        part = StoredPart(row.number, content["size"], content["sha256"], content["at"], period)
        self._entries[entry.release_id] = replace(entry, parts=(*entry.parts, part))

    def _paid_before(self, content: Mapping[str, Any], names: set[str]) -> Entry:
        """The release that a row stores something of."""
        _require(set(content) == names)
        _require(all(is_short_text(content[name]) for name in ("release_id", "sha256", "at")))
        _require(type(content["size"]) is int and content["size"] >= 0)
        entry = self._entries.get(content["release_id"])
        if entry is None or entry.number != content["spend"]:
            raise _InvalidRow
        return entry

    def _add_move(self, row: Row, content: Mapping[str, Any]) -> None:
        """Add a row that closes the ledger or continues a moved one; nothing else follows a closing row."""
        other = "to" if row.kind == "close" else "from"
        _require(row.kind == ("close" if self.closed is None else "continue") and row.profile is None)
        _require(set(content) == {"at", "token", other} and all(map(is_short_text, content.values())))
        if self.closed is None:
            self.closed = Closed(content["to"], content["token"], content["at"])
        else:
            _require(content["token"] == self.closed.token)
            self.closed = None


class _InvalidRow(Exception):
    """A row that does not hold together; only `History.add` sees it."""


def _require(condition: bool) -> None:
    if not condition:
        raise _InvalidRow


def _about(content: Any) -> RecordedTable:
    _require(isinstance(content, dict) and set(content) == {"by", "rules", "label", "same_as", "commitment"})
    _require(content["by"] in WAYS and is_rules(content["rules"]))
    _require(all(content[name] is None or is_short_text(content[name]) for name in ("label", "same_as")))
    committed = content["commitment"]
    _require((committed is not None) == (content["by"] == "digest"))
    _require(committed is None or (is_short_text(committed) and len(committed) == 64))
    return RecordedTable(**content)


def _limit(content: Mapping[str, Any]) -> Goal:
    try:
        goal = goal_from_dict(content)
        check_limit(goal)
        if goal.to_dict() == content:
            return goal
    except (PrivacyError, TypeError, ValueError):
        pass
    raise LedgerFileError(
        "the ledger's limit has been modified since it was written", field="limit", remedy="restore the file"
    )


def opening_row(dataset: str, limit: Goal, planned: bool) -> Row:
    """The first row, which fixes what the ledger is about.

    Raises:
        InputError: if the limit cannot be written down.
    """
    check_limit(limit)
    try:
        content = {
            "format": FORMAT,
            "dataset": dataset,
            "limit": limit.to_dict(),
            "planned": planned,
            "at": _now(),
        }
        return sealed(NOTHING, 0, "open", content, None)
    except ValueError:
        raise InputError(
            "the limit has more digits than can be written", field="limit", remedy="round it"
        ) from None


def spend_row(
    history: History,
    charge: Charge,
    release_id: str,
    after: Sequence[str],
    table: CountedTable | None = None,
    same_as: str | None = None,
    committed: str | None = None,
) -> Row:
    """The row that pays for a release.

    Args:
        same_as: the release whose table it is about too; None for the first about its table.
        committed: the commitment to the digest of the table's bytes, if it is noted so.
    """
    content, profile = charge.to_parts()
    counted = CountedTable() if table is None else table
    about = {
        "by": counted.by,
        "rules": dict(counted.rules),
        "label": counted.label,
        "same_as": same_as,
        "commitment": committed,
    }
    said = {"release_id": release_id, "after": list(after), "at": _now(), "charge": content, "table": about}
    return sealed(history.head, history.n_rows, "spend", said, profile)


def store_row(history: History, entry: Entry, answers: bytes, period: str | None = None) -> Row:
    """The row that says which answers a release has, or one period of a stream."""
    said = {
        "release_id": entry.release_id,
        "spend": entry.number,
        "size": len(answers),
        "sha256": hashlib.sha256(answers).hexdigest(),
        "at": _now(),
    }
    kind, own = ("store", {}) if period is None else ("part", {"period": period})
    return sealed(history.head, history.n_rows, kind, said | own, None)


def closing_row(history: History, to: str, token: str) -> Row:
    """The row that closes a ledger, because another goes on in its place."""
    said = {"to": to, "token": token, "at": _now()}
    return sealed(history.head, history.n_rows, "close", said, None)


def continuing_row(history: History, moved_from: str) -> Row:
    """The row by which a ledger goes on where it was moved to."""
    assert history.closed is not None
    said = {"from": moved_from, "token": history.closed.token, "at": _now()}
    return sealed(history.head, history.n_rows, "continue", said, None)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
