"""Where a ledger is kept, and what one object has seen there.

A path names a file, an address a schema of a PostgreSQL database. It is opened for one step
at a time, and other processes add to it in between. What was read and checked once is kept, so that only new
rows are read; and a file that lacks what was seen in it is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from leastnoise.core.errors import LedgerBusyError, LedgerFileError
from leastnoise.privacy.ledger.address import is_address, parsed
from leastnoise.privacy.ledger.history import History
from leastnoise.privacy.ledger.postgres_database import LedgerDatabase
from leastnoise.privacy.ledger.rows import Row
from leastnoise.privacy.ledger.sqlite_file import LedgerFile, checked_path
from leastnoise.privacy.ledger.storage import Log, OvertakenError, Storage

# Attempts at the same steps, at most, where others come first each time.
MAX_ATTEMPTS = 12
# Seconds before the second attempt; each wait is then twice the last.
_FIRST_WAIT = 0.01
# Seconds that a wait lasts at most.
_LONGEST_WAIT = 0.5

Result = TypeVar("Result")


class Appending(NamedTuple):
    """A transaction that adds rows, and those it has added."""

    log: Log
    rows: list[Row]

    def append(self, row: Row) -> None:
        """Add a row to the log."""
        self.log.append(row)
        self.rows.append(row)


class SeenLedger:
    """Where a ledger is kept, and the history that was read from there last.

    Args:
        timeout: how many seconds to wait for others.
        aftermath: the sentence that ends every refusal while reading, on what was spent.
    """

    def __init__(self, storage: Storage, timeout: float, aftermath: str) -> None:
        self.storage = storage
        self.timeout = timeout
        self._aftermath = aftermath
        self._history: History | None = None
        self._last_seen: tuple[int, str] | None = None

    @property
    def history(self) -> History:
        """The history as this object saw it last, without looking at the file if need not be."""
        if self._history is not None:
            return self._history
        with self.reading() as (_, history):
            return history

    @property
    def last_seen(self) -> History | None:
        """The same without ever looking at the file; None if it was not read, or not to its end."""
        return self._history

    @contextmanager
    def reading(self, keep_waiting: Callable[[], bool] | None = None) -> Iterator[tuple[Log, History]]:
        """A transaction that changes nothing, and the history in the file.

        Args:
            keep_waiting: as in `Storage.transaction`.
        """
        with self.storage.transaction(
            writes=False, timeout=self.timeout, aftermath=self._aftermath, keep_waiting=keep_waiting
        ) as log:
            yield log, self._read(log)

    @contextmanager
    def writing(
        self, aftermath: str, keep_waiting: Callable[[], bool] | None = None
    ) -> Iterator[tuple[Appending, History]]:
        """A transaction that keeps all other writers out, and the history in the file.

        Args:
            aftermath: the sentence that ends every refusal, on what was spent.
            keep_waiting: as in `Storage.transaction`.
        """
        appended: list[Row] = []

        def take_in() -> None:
            # So that an older copy of the file, put in its place next, is known for what it is.
            history, self._history = self._history, None
            if history is not None:
                for row in appended:
                    history.add(row)
                self._remember(history)

        with self.storage.transaction(
            writes=True,
            timeout=self.timeout,
            aftermath=aftermath,
            committed=take_in,
            keep_waiting=keep_waiting,
        ) as log:
            yield Appending(log, appended), self._read(log)

    def write(
        self,
        aftermath: str,
        steps: Callable[[Appending, History], Result],
        keep_waiting: Callable[[], bool] | None = None,
    ) -> Result:
        """What some steps return that were taken in one transaction of `writing`.

        Where the storage finds that another transaction came first, everything is undone and the steps are
        taken again, on the history as it is then.

        Raises:
            LedgerBusyError: if others came first each time.
        """
        for attempt in range(MAX_ATTEMPTS):
            try:
                with self.writing(aftermath, keep_waiting) as (adding, history):
                    found = steps(adding, history)
                return found
            except OvertakenError:
                # Not the same for all, or those who met once would meet again.
                share = 1 / (1 + os.getpid() % 8)
                time.sleep(share * min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT))
        raise LedgerBusyError(
            f"other processes wrote to the ledger {self.storage.name!r} first in each of "
            f"{MAX_ATTEMPTS} attempts; try again. {aftermath}",
            field="ledger",
            given=self.storage.name,
        )

    def read_anew(self, log: Log) -> History:
        """The history in the file, from its first row on, whatever was checked before.

        Raises:
            LedgerFileError: if a row is not as it was written, or rows that were there are gone.
        """
        self._history = None
        return self._read(log)

    def _read(self, log: Log) -> History:
        """The history in the file, continuing what this object has checked before."""
        self._check_last_seen(log)
        # Until it is read to the end it is forgotten: an interrupt could leave it half changed.
        known, self._history = self._history, None
        rows = log.rows_from(None if known is None else known.n_rows)
        if known is None:
            first = next(rows, None)
            if first is None:
                raise LedgerFileError("the ledger has no rows", field="row", remedy="restore the file")
            known = History(first)
        for row in rows:
            known.add(row)
        self._remember(known)
        return known

    def _remember(self, history: History) -> None:
        self._history, self._last_seen = history, (history.n_rows - 1, history.head)

    def _check_last_seen(self, log: Log) -> None:
        """Refuse a file that lacks what this object has seen in it."""
        if self._last_seen is None:
            return
        number, digest = self._last_seen
        if log.digest_at(number) != digest:
            raise LedgerFileError(
                "rows that the ledger held a moment ago are gone or changed: the file was replaced, "
                "perhaps by an older copy; restore the newest one",
                field="row",
            )


def storage_at(path: str | Path) -> Storage:
    """The storage that a path or an address names.

    Raises:
        InputError: if it is neither.
        LedgerFileError: if the folder of a file does not exist.
    """
    return LedgerDatabase(parsed(str(path))) if is_address(path) else LedgerFile(checked_path(path))


def ledger_exists(path: str | Path) -> bool:
    """Whether a ledger, or anything else, is kept at a path or an address.

    Raises:
        LedgerFileError: if a database cannot be reached.
    """
    return storage_at(path).exists()
