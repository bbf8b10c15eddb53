"""What a ledger asks of the place it is kept in.

The rules of a ledger (what may be spent, what is added by cell, what the rows say) know nothing of SQL. A
storage holds four things and never interprets them:

    log        rows that are only ever appended, chained by hash
    answers    the stored answers of a release, by the number of the row that paid for it
    versions   the digest and the nonce behind the commitment in a row: private, never exported
    key        of the digests: private, never exported

`sqlite_file` keeps them in one SQLite file, `postgres_database` in one schema of a PostgreSQL database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from leastnoise.core.errors import LedgerError, TooLargeError
from leastnoise.privacy.ledger.rows import Row

# The largest release that is kept, in bytes; SQLite itself stops at 10^9, PostgreSQL at 2^30.
MAX_ANSWER_BYTES = 2**29


class OvertakenError(Exception):
    """Another transaction came first: nothing was written, and the same steps may be tried again.

    Never seen outside of `leastnoise.privacy.ledger`: `leastnoise.privacy.ledger.view` tries again.
    """


def refusal(kind: type[LedgerError], name: str, what: str, aftermath: str) -> LedgerError:
    """The error of a ledger that cannot be used; `aftermath` says what was spent."""
    return kind(f"the ledger {name!r} {what}. {aftermath}", field="ledger", given=name)


def check_size(needed: int) -> None:
    """Refuse a release that no ledger keeps.

    Raises:
        TooLargeError: naming the limit.
    """
    if needed > MAX_ANSWER_BYTES:
        raise TooLargeError(
            f"the release would take {needed:,} bytes, and a ledger keeps at most {MAX_ANSWER_BYTES:,}",
            field="answers",
            given=needed,
            remedy="split the workload",
        )


class Version(NamedTuple):
    """What a commitment in the log commits to."""

    nonce: bytes
    digest: bytes


class Log(Protocol):
    """A ledger within one transaction: committed at its end, undone if anything is raised."""

    def rows_from(self, number: int | None) -> Iterator[Row]:
        """The rows from some number on, in order; None for all there are."""

    def digest_at(self, number: int) -> str | None:
        """The digest of one row; None if there is no such row."""

    def append(self, row: Row) -> None:
        """Add a row."""

    def answers(self, number: int) -> bytes | None:
        """The answers that the release paid for in some row has; None if there are none."""

    def answer_numbers(self) -> list[int]:
        """The rows whose releases have answers, in order."""

    def add_answers(self, number: int, body: bytes) -> None:
        """Keep the answers of a release."""

    def version(self, number: int) -> Version | None:
        """The version of the table that a release is about; None if it is not known."""

    def version_numbers(self) -> list[int]:
        """The rows whose releases have a version, in order."""

    def add_version(self, number: int, version: Version) -> None:
        """Keep the version of the table that a release is about."""

    def key(self) -> bytes | None:
        """The key of the digests; None in a ledger of the first format, which has none yet.

        Raises:
            LedgerFileError: if it is not as it was written.
        """

    def upgrade(self, key: Callable[[], bytes]) -> None:
        """Give a ledger of the first format the private tables and a key; nothing to do for any other."""

    def damage(self) -> str | None:
        """What is wrong with how the storage keeps its bytes; None if nothing."""

    def undo(self) -> None:
        """Undo everything since the transaction began, and end it."""


class Storage(Protocol):
    """Where one ledger is kept."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def shown(self) -> str:
        """Where it is, as it may be typed again; never a password."""

    def exists(self) -> bool:
        """Whether something is there already."""

    def create(self, key: bytes, fill: Callable[[Log], None]) -> bool:
        """Make a ledger with its key and what ``fill`` adds; False if another process has made one meanwhile.

        It is there when all of it is, and not before.
        """

    def transaction(
        self,
        *,
        writes: bool,
        timeout: float,
        aftermath: str,
        committed: Callable[[], None] | None = None,
        keep_waiting: Callable[[], bool] | None = None,
    ) -> AbstractContextManager[Log]:
        """A transaction of its own: committed at the end, undone if anything is raised.

        Args:
            writes: keep all other writers out from the beginning, so that what is read stays true.
            timeout: how many seconds to wait for others.
            aftermath: the sentence that ends every refusal, on what was spent.
            committed: called once all is durable, before anybody else in this process has a turn.
            keep_waiting: asked whenever others have been waited for and still hold it: True waits on, for
                as long as it takes, and without giving up the place in the queue.

        Raises:
            LedgerFileError: if it is missing, damaged, no ledger, read-only or out of room.
            LedgerBusyError: if others hold it for longer than ``timeout`` seconds.
            OvertakenError: if another transaction came first, where nothing keeps writers out for sure.
        """

    def check_room(self, needed: int, aftermath: str) -> None:
        """Refuse where there is no room for ``needed`` more bytes.

        Raises:
            TooLargeError: if a release of this size is not kept at all.
            LedgerFileError: if there is no room.
        """
