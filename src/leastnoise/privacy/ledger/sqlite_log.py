"""Every SQL statement on the tables of a ledger, within one transaction of one connection."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leastnoise.core.errors import LedgerFileError
from leastnoise.privacy.ledger.rows import Row
from leastnoise.privacy.ledger.storage import Version


def _only_grow(*tables: str) -> dict[str, str]:
    return {
        f"{table}_never_{verb}s": f"CREATE TRIGGER {table}_never_{verb}s BEFORE {verb.upper()} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END"
        for table in tables
        for verb in ("update", "delete")
    }


# The first layout: no versions of tables, so that its releases are added by their worst cases.
_FIRST = {
    "log": "CREATE TABLE log (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, content TEXT NOT NULL, "
    "profile BLOB, digest TEXT NOT NULL)",
    "answers": "CREATE TABLE answers (number INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    **_only_grow("log", "answers"),
}
# What the second adds is private: nothing of it is in a row, an export or a head.
_PRIVATE = {
    "versions": "CREATE TABLE versions (number INTEGER PRIMARY KEY, nonce BLOB NOT NULL, "
    "digest BLOB NOT NULL)",
    "secret": "CREATE TABLE secret (number INTEGER PRIMARY KEY, key BLOB NOT NULL, digest BLOB NOT NULL)",
    **_only_grow("versions", "secret"),
}

# The statements that make the tables, by the number of the layout.
SCHEMAS: Mapping[int, Mapping[str, str]] = {1: _FIRST, 2: {**_FIRST, **_PRIVATE}}


class SqliteLog:
    """A ledger's tables within one transaction: the `Log` of `leastnoise.privacy.ledger.storage`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def begin(self, key: bytes) -> None:
        """Make the tables, with the key."""
        for statement in _FIRST.values():
            self.connection.execute(statement)
        self._add_private(key)

    def rows_from(self, number: int | None) -> Iterator[Row]:
        """The rows of the log from some number on, in order; None for all there are."""
        columns = "SELECT number, kind, content, profile, digest FROM log"
        if number is None:
            cursor = self.connection.execute(f"{columns} ORDER BY number")
        else:
            cursor = self.connection.execute(f"{columns} WHERE number >= ? ORDER BY number", (number,))
        return map(Row._make, cursor)

    def digest_at(self, number: int) -> str | None:
        """The digest of one row; None if there is no such row."""
        found = self._one("SELECT digest FROM log WHERE number = ?", number)
        return None if found is None else found[0]

    def append(self, row: Row) -> None:
        """Add a row to the log."""
        self.connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?)", row)

    def answers(self, number: int) -> bytes | None:
        """The answers of the release that a row paid for; None if there are none."""
        found = self._one("SELECT body FROM answers WHERE number = ?", number)
        return None if found is None or not isinstance(found[0], bytes) else found[0]

    def answer_numbers(self) -> list[int]:
        """The rows whose releases have answers, in order."""
        return [number for (number,) in self.connection.execute("SELECT number FROM answers ORDER BY number")]

    def add_answers(self, number: int, body: bytes) -> None:
        """Keep the answers of a release."""
        self.connection.execute("INSERT INTO answers VALUES (?, ?)", (number, body))

    def version(self, number: int) -> Version | None:
        """The version of the table that a release is about; None if it is not known."""
        if self._layout == 1:
            return None
        found = self._one("SELECT nonce, digest FROM versions WHERE number = ?", number)
        return (
            None if found is None or not all(isinstance(part, bytes) for part in found) else Version(*found)
        )

    def version_numbers(self) -> list[int]:
        """The rows whose releases have a version, in order."""
        if self._layout == 1:
            return []
        return [
            number for (number,) in self.connection.execute("SELECT number FROM versions ORDER BY number")
        ]

    def add_version(self, number: int, version: Version) -> None:
        """Keep the version of the table that a release is about."""
        self.connection.execute("INSERT INTO versions VALUES (?, ?, ?)", (number, *version))

    def key(self) -> bytes | None:
        """The key of the digests; None in a file of the first layout.

        Raises:
            LedgerFileError: if it is not as it was written.
        """
        if self._layout == 1:
            return None
        found = self.connection.execute("SELECT number, key, digest FROM secret").fetchall()
        if len(found) == 1:
            [(number, key, digest)] = found
            if number == 0 and isinstance(key, bytes) and digest == hashlib.sha256(key).digest():
                return key
        raise LedgerFileError(
            "the ledger's private key is missing or altered", field="key", remedy="restore the file"
        )

    def upgrade(self, key: Callable[[], bytes]) -> None:
        """Give a file of the first layout the tables of the second."""
        if self._layout == 1:
            self._add_private(key())
            self.connection.execute("PRAGMA user_version = 2")

    def damage(self) -> str | None:
        """What SQLite finds wrong with the file's pages; None if nothing."""
        [found] = self.connection.execute("PRAGMA integrity_check(1)").fetchone()
        return None if found == "ok" else str(found)

    def undo(self) -> None:
        """Undo everything since the transaction began, and end it."""
        self.connection.execute("ROLLBACK")

    @property
    def _layout(self) -> int:
        [layout] = self.connection.execute("PRAGMA user_version").fetchone()
        return int(layout)

    def _add_private(self, key: bytes) -> None:
        for statement in _PRIVATE.values():
            self.connection.execute(statement)
        self.connection.execute("INSERT INTO secret VALUES (0, ?, ?)", (key, hashlib.sha256(key).digest()))

    def _one(self, statement: str, number: int) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self.connection.execute(statement, (number,)).fetchone()
        return found
