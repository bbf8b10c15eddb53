"""Whether a ledger still holds what was written into it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from leastnoise.core.errors import AlreadySpentError, LedgerFileError
from leastnoise.core.notebook import NotebookValue
from leastnoise.core.printable import counted
from leastnoise.privacy.accounting import Remaining
from leastnoise.privacy.ledger.history import Entry, History, StoredAnswers
from leastnoise.privacy.ledger.storage import Log
from leastnoise.privacy.ledger.table_identity import opens


@dataclass(frozen=True)
class Verification(NotebookValue):
    """What `Ledger.verify` has confirmed.

    Attributes:
        n_entries: how many releases are recorded, `n_stored` of them with their answers.
        head: the digest over all rows.
        moved_to: where the ledger was moved to and closed; None if it is open.
    """

    dataset: str
    n_entries: int
    n_stored: int
    head: str
    remaining: Remaining
    moved_to: str | None = None

    def __str__(self) -> str:
        closed = "" if self.moved_to is None else f"closed: moved to {self.moved_to!r}; "
        return (
            f"{counted(self.n_entries, 'release')} of {self.dataset!r}, {self.n_stored} of them stored; "
            f"left: {self.remaining}; {closed}head {self.head}"
        )


def check_pages(name: str, log: Log) -> None:
    """Refuse a file whose pages SQLite finds wrong."""
    if log.damage() is not None:
        raise LedgerFileError(
            f"the ledger {name!r} is damaged", field="path", given=name, remedy="restore it"
        )


def check_spent(name: str, history: History) -> None:
    """Refuse a history that was beyond its own limit by the rule of the time it was written."""
    if not history.is_sound:
        raise LedgerFileError(
            f"the ledger {name!r} records more than its limit allows, so it has been modified",
            field="limit",
            given=name,
            remedy="restore the file",
        )


def check_head(name: str, history: History, head: str) -> None:
    """Refuse a history that a head noted earlier does not stand in."""
    if head not in history.digests:
        raise LedgerFileError(
            f"the ledger {name!r} does not contain the head {head!r}: it was replaced, or is "
            "older than the release that printed it",
            field="head",
            given=head,
            remedy="find the newest copy and release nothing until then",
        )


def check_all(name: str, log: Log, history: History) -> None:
    """Refuse a ledger in which anything is not as it was written, once its chain was read."""
    check_pages(name, log)
    check_spent(name, history)
    check_answers(name, log, history)
    check_versions(name, log, history)


def check_answers(name: str, log: Log, history: History) -> None:
    """Refuse a file whose stored answers are not those that its rows tell of."""
    expected = [entry.number for entry in history.entries if entry.is_stored]
    expected += [part.number for entry in history.entries for part in entry.parts]
    if log.answer_numbers() != sorted(expected):
        raise LedgerFileError(
            f"the ledger {name!r} holds answers that no row records, or lacks some",
            field="answers",
            given=name,
            remedy="restore it",
        )
    for entry in history.entries:
        if entry.stored is not None and len(_answers(log, entry)) != entry.stored.size:
            raise LedgerFileError(
                f"the size of release {entry.release_id!r} is wrong",
                field="answers",
                given=entry.release_id,
                remedy="restore the file",
            )
        stored_parts(log, entry)


def check_versions(name: str, log: Log, history: History) -> None:
    """Refuse a file whose private versions are not those that its rows commit to, or differ in a group."""
    digests: dict[str | None, bytes] = {}
    noted = [entry for entry in history.entries if entry.table is not None and entry.table.by == "digest"]
    is_right = log.version_numbers() == [entry.number for entry in noted]
    for entry in noted:
        version = log.version(entry.number)
        assert entry.table is not None
        is_right = is_right and version is not None and opens(version, entry.table.commitment)
        if is_right and version is not None and entry.group is not None:
            is_right = digests.setdefault(entry.group, version.digest) == version.digest
    log.key()
    if not is_right:
        raise LedgerFileError(
            f"the ledger {name!r} does not hold the versions of tables that its rows commit to",
            field="version",
            given=name,
            remedy="restore it",
        )


def stored_answers(log: Log, entry: Entry) -> bytes:
    """The stored answers of a release, once they are compared with its row.

    Raises:
        AlreadySpentError: if it was paid for and its answers never stored.
        LedgerFileError: if they are not those that were stored.
    """
    if entry.stored is None:
        raise AlreadySpentError(
            f"release {entry.release_id!r} was paid for and its answers were never stored: another "
            "process is still working on it, or was stopped before it stored them. Its budget stays "
            "spent",
            field="release_id",
            given=entry.release_id,
            remedy="use a new release id, which pays again",
        )
    return _answers(log, entry)


def stored_parts(log: Log, entry: Entry) -> list[bytes]:
    """What was published of a stream, period by period, once it is compared with its rows."""
    return [_body(log, entry, part.number, part) for part in entry.parts]


def _answers(log: Log, entry: Entry) -> bytes:
    assert entry.stored is not None
    return _body(log, entry, entry.number, entry.stored)


def _body(log: Log, entry: Entry, number: int, stored: StoredAnswers) -> bytes:
    body = log.answers(number)
    if body is None or len(body) != stored.size or hashlib.sha256(body).hexdigest() != stored.sha256:
        raise LedgerFileError(
            f"the stored answers of release {entry.release_id!r} are missing or altered",
            field="answers",
            given=entry.release_id,
            remedy="restore the file",
        )
    return body
