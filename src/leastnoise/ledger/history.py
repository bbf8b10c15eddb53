"""What the rows of a ledger say, once each of them is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from leastnoise.accounting import (
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
from leastnoise.errors import LedgerFileError, PrivacyError, TooLargeError
from leastnoise.ledger.rows import NOTHING, Row, opened
from leastnoise.privacy import Goal, goal_from_dict

FORMAT = 1


@dataclass(frozen=True)
class Stored:
    """Where the answers of a release are, and what they hash to."""

    number: int
    size: int
    sha256: str
    at: str


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
        stored: its answers; None if they were never stored.
    """

    number: int
    release_id: str
    charge: Charge
    after: tuple[str, ...]
    charged: Fraction
    at: str
    head: str
    stored: Stored | None = None

    @property
    def is_stored(self) -> bool:
        """Whether its answers can be had."""
        return self.stored is not None


class History:
    """Everything a ledger has recorded, row by row.

    Rows are added as they are read, so that a process reads and checks each of them once.
    """

    def __init__(self, opening: Row) -> None:
        content = opened(opening, NOTHING, 0)
        texts_fit = all(is_short_text(content.get(name)) for name in ("dataset", "at"))
        if opening.kind != "open" or opening.profile is not None or not texts_fit:
            raise LedgerFileError("the ledger does not begin as ledgers do; restore the file")
        if set(content) != {"format", "dataset", "limit", "planned", "at"} or content["format"] != FORMAT:
            raise LedgerFileError(
                "the ledger is of a format that this version does not know; update leastnoise"
            )
        if type(content["planned"]) is not bool or not isinstance(content["limit"], dict):
            raise LedgerFileError("the ledger does not begin as ledgers do; restore the file")
        self.dataset: str = content["dataset"]
        self.planned: bool = content["planned"]
        self.limit: Goal = _limit(content["limit"])
        self.at: str = content["at"]
        self.digests = [opening.digest]
        self.tally = Tally()
        self._entries: dict[str, Entry] = {}
        self._plans: Counter[str] = Counter()

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

    def missing(self, plans: Sequence[str]) -> list[str]:
        """Those of some plans that were not released; one that is named twice must have been twice."""
        return list((Counter(plans) - self._plans).elements())

    def admits(self, charge: Charge) -> bool:
        """Whether a charge stays within the limit.

        Raises:
            PrivacyError: if it does not fit the limit, whatever it costs.
        """
        check_kind(self.limit, charge)
        return within(self.limit, self.tally.plus(charge), planned=self.planned)

    def rules_out(self, goal: Goal, cells: str, share: Fraction) -> bool:
        """Whether no plan can be admitted that spends at least a share of a goal in one of its cells.

        The largest sum then grows by that cost less what the emptiest cell has left below it, at least: where
        the plan spends most in that very cell, and nothing elsewhere.

        Args:
            cells: a digest of what the plan's cells are, as a charge holds it.

        Raises:
            PrivacyError: if no plan of this kind fits the limit, whatever it costs.
        """
        check_kind(self.limit, full_charge(goal))
        least = share * goal.budget - self.tally.slack(goal.noise, cells, goal.records_per_person)
        # Judged by the curve of a mixture, less might be found to cost more, by a rounding.
        if self.planned or least <= 0:
            return False
        return not self.admits(full_charge(goal, least))

    def growth(self, charge: Charge) -> Fraction:
        """By how much a charge raises what one person has spent, in its own kind: μ² or ε."""
        after = self.tally.plus(charge)
        if charge.noise == "gaussian":
            return after.mu_squared - self.tally.mu_squared
        return after.epsilon - self.tally.epsilon

    def add(self, row: Row) -> None:
        """Take in the row that follows.

        Raises:
            LedgerFileError: if it is not one that could follow; the history stays as it was.
        """
        content = opened(row, self.head, self.n_rows)
        try:
            if row.kind == "spend":
                self._add_spend(row, content)
            elif row.kind == "store" and row.profile is None:
                self._add_store(row, content)
            else:
                raise _Unfit
        except (_Unfit, PrivacyError, TooLargeError):
            raise LedgerFileError(
                f"row {row.number} of the ledger could never have been written; restore the file"
            ) from None
        self.digests.append(row.digest)

    def _add_spend(self, row: Row, content: Mapping[str, Any]) -> None:
        entry = self.entry_of(row, content)
        if entry.release_id in self._entries or self.missing(entry.after):
            raise _Unfit
        check_kind(self.limit, entry.charge)
        self.tally = self.tally.plus(entry.charge)
        self._entries[entry.release_id] = entry
        self._plans[entry.charge.plan_digest] += 1

    def entry_of(self, row: Row, content: Mapping[str, Any]) -> Entry:
        """The release that a row pays for, if the row comes next."""
        _require(set(content) == {"release_id", "after", "at", "charge"})
        _require(is_short_text(content["release_id"]) and is_short_text(content["at"]))
        after = content["after"]
        _require(isinstance(after, list) and all(map(is_short_text, after)))
        _require(isinstance(content["charge"], dict))
        charge = charge_from_parts(content["charge"], row.profile)
        return Entry(
            number=row.number,
            release_id=content["release_id"],
            charge=charge,
            after=tuple(after),
            charged=self.growth(charge),
            at=content["at"],
            head=row.digest,
        )

    def _add_store(self, row: Row, content: Mapping[str, Any]) -> None:
        _require(set(content) == {"release_id", "spend", "size", "sha256", "at"})
        _require(all(is_short_text(content[name]) for name in ("release_id", "sha256", "at")))
        _require(type(content["size"]) is int and content["size"] >= 0)
        entry = self._entries.get(content["release_id"])
        if entry is None or entry.stored is not None or entry.number != content["spend"]:
            raise _Unfit
        stored = Stored(row.number, content["size"], content["sha256"], content["at"])
        # In place: a dictionary keeps the order of its keys.
        self._entries[entry.release_id] = Entry(**{**vars(entry), "stored": stored})


class _Unfit(Exception):
    """A row that does not hold together; only `History.add` sees it."""


def _require(condition: bool) -> None:
    if not condition:
        raise _Unfit


def _limit(content: Mapping[str, Any]) -> Goal:
    try:
        goal = goal_from_dict(content)
        check_limit(goal)
        if goal.to_dict() == content:
            return goal
    except (PrivacyError, TypeError, ValueError):
        pass
    raise LedgerFileError("the ledger's limit is not as it was written; restore the file")
