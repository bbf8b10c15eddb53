"""Whether a ledger still holds what was written into it."""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass

from leastnoise.accounting import Remaining, within
from leastnoise.errors import AlreadySpentError, LedgerFileError
from leastnoise.ledger import file
from leastnoise.ledger.history import Entry, History
from leastnoise.printable import counted


@dataclass(frozen=True)
class Verification:
    """What `Ledger.verify` has confirmed."""

    dataset: str
    n_entries: int
    n_stored: int
    head: str
    remaining: Remaining

    def __str__(self) -> str:
        return (
            f"{counted(self.n_entries, 'release')} of {self.dataset!r}, {self.n_stored} of them stored; "
            f"left: {self.remaining}; head {self.head}"
        )


def check_pages(name: str, connection: sqlite3.Connection) -> None:
    """Refuse a file whose pages SQLite finds wrong."""
    if file.damage(connection) is not None:
        raise LedgerFileError(f"the ledger {name!r} is damaged; restore it")


def check_spent(name: str, history: History) -> None:
    """Refuse a history that is beyond its own limit."""
    if not within(history.limit, history.tally, planned=history.planned):
        raise LedgerFileError(
            f"the ledger {name!r} records more than its limit allows, which no ledger lets "
            "through; restore the file"
        )


def check_head(name: str, history: History, head: str) -> None:
    """Refuse a history that a head noted earlier does not stand in."""
    if head not in history.digests:
        raise LedgerFileError(
            f"the ledger {name!r} does not contain the head {head!r}: it was replaced, or is "
            "older than what printed it; find the newest copy and release nothing until then"
        )


def check_answers(name: str, connection: sqlite3.Connection, history: History) -> None:
    """Refuse a file whose stored answers are not those that its rows tell of."""
    expected = [entry.number for entry in history.entries if entry.is_stored]
    found = [number for (number,) in connection.execute("SELECT number FROM answers ORDER BY number")]
    if found != expected:
        raise LedgerFileError(
            f"the ledger {name!r} holds answers without a record, or lacks some; restore it"
        )
    for entry in history.entries:
        if entry.stored is not None and len(_answers(connection, entry)) != entry.stored.size:
            raise LedgerFileError(f"the size of release {entry.release_id!r} is wrong; restore the file")


def stored_answers(connection: sqlite3.Connection, entry: Entry) -> bytes:
    """The stored answers of a release, once they are compared with its row.

    Raises:
        AlreadySpentError: if it was paid for and its answers never stored.
        LedgerFileError: if they are not those that were stored.
    """
    if entry.stored is None:
        raise AlreadySpentError(
            f"release {entry.release_id!r} was paid for and its answers were never stored: another "
            "process is at it, or was stopped before it had them. Its budget stays spent; use a new "
            "release id, which pays again"
        )
    return _answers(connection, entry)


def _answers(connection: sqlite3.Connection, entry: Entry) -> bytes:
    assert entry.stored is not None
    found = connection.execute("SELECT body FROM answers WHERE number = ?", (entry.number,)).fetchone()
    body = None if found is None else found[0]
    if not isinstance(body, bytes) or hashlib.sha256(body).hexdigest() != entry.stored.sha256:
        raise LedgerFileError(
            f"the stored answers of release {entry.release_id!r} are missing or altered; restore the file"
        )
    return body
