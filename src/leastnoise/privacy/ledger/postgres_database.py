"""One schema of a PostgreSQL database, connected to for one operation at a time: a `Storage`.

Writers take turns by an advisory lock; a waiting writer keeps its place in the queue. Correctness does not
depend on it: transactions are serialisable, and one that was overtaken all the same is undone and tried again
by `leastnoise.privacy.ledger.view`. Readers see one snapshot and never wait.

A connection that is lost during COMMIT leaves open whether it took effect. A new one then waits until the
lost session is over, and looks whether the row is there with the mark of its transaction.

What the server says never reaches a message: it may hold the address. Only its SQLSTATE is read.
"""

from __future__ import annotations

import hashlib
import math
import os
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from leastnoise.core.errors import LedgerBusyError, LedgerError, LedgerFileError
from leastnoise.core.extras import require
from leastnoise.core.random_bits import SystemBits
from leastnoise.privacy.ledger import storage
from leastnoise.privacy.ledger.address import Address
from leastnoise.privacy.ledger.postgres_log import PostgresLog, search_path

# The oldest server that a ledger is kept in: 13, as the driver reports it.
_OLDEST = 130_000
# Seconds that a connection may take, at least, however short the timeout; an address may say otherwise.
_MIN_CONNECT = 2
# Seconds that it may take at most.
_MAX_CONNECT = 30
# Seconds between two checks for an interruption while waiting.
_SLICE = 0.25
# Bits of the mark of a transaction: two never have the same.
_MARK_BITS = 128

# Another transaction came first: serialization_failure, deadlock_detected, unique_violation.
_OVERTAKEN = ("40001", "40P01", "23505")
_REASONS = {
    "23001": "only grows, and something tried to change it",
    "25006": "is on a server that only reads: a standby, or one that is set so",
    "3F000": "is not there any more; restore it",
    "42P01": "is not there any more; restore it",
    "42501": "may not be used so by this user; its owner gets the GRANTs from `leastnoise ledger grants`",
    "53100": "has no room left on the server's disk",
    "53200": "does not fit in the server's memory",
    "53300": "is on a server that takes no more connections now",
    "XX001": "is damaged; restore the database",
    "XX002": "is damaged; restore the database",
}

# Who has the turn to write to a ledger.
_HOLDER = (
    "FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
    "AND classid = %s::bigint::oid AND objid = %s::bigint::oid"
)

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE"


class LedgerDatabase:
    """A ledger in one schema of a PostgreSQL database: a `Storage` (`ledger.storage`)."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._in_process: tuple[int, threading.Lock] = (os.getpid(), threading.Lock())

    @property
    def name(self) -> str:
        """Server, database and ledger; never a user or a password."""
        return self.address.name

    @property
    def shown(self) -> str:
        """The address as it may be typed again, without a password."""
        return self.address.shown

    def exists(self) -> bool:
        """Whether the schema holds anything."""
        with self._ready(_READ, _Patience(_MAX_CONNECT, None), "No ledger was made.") as log:
            return not log.is_empty()

    def create(self, key: bytes, fill: Callable[[storage.Log], None]) -> bool:
        """Make the schema and its tables; False if they exist already. All of it appears at once."""
        aftermath = "No ledger was made."
        patience = _Patience(_MAX_CONNECT, None)
        try:
            with self._ready(_WRITE, patience, aftermath) as log:
                if not log.is_empty():
                    return False
                log.begin(key)
                fill(log)
                if self._commits(log, patience, aftermath):
                    return True
        except storage.OvertakenError:
            if self.exists():
                return False
        raise LedgerBusyError(
            f"another process is creating the ledger {self.name!r}; try again. {aftermath}",
            field="ledger",
            given=self.name,
        )

    @contextmanager
    def transaction(
        self,
        *,
        writes: bool,
        timeout: float,
        aftermath: str,
        committed: Callable[[], None] | None = None,
        keep_waiting: Callable[[], bool] | None = None,
    ) -> Iterator[PostgresLog]:
        """A connection in a transaction of its own; see `Storage.transaction`.

        Raises:
            OvertakenError: if another transaction came first; nothing was written.
        """
        patience = _Patience(timeout, keep_waiting)
        with (
            self._alone_in_process(patience, aftermath),
            self._ready(_WRITE if writes else _READ, patience, aftermath) as log,
        ):
            log.check_layout()
            yield log
            if log.connection.info.transaction_status == _driver().pq.TransactionStatus.IDLE:
                # Undone by the log itself.
                return
            if not self._commits(log, patience, aftermath):
                raise storage.OvertakenError
            if committed is not None:
                committed()

    def check_room(self, needed: int, aftermath: str) -> None:
        """Refuse a release that is too large. How much room the server has, no client can tell."""
        storage.check_size(needed)

    # -------------------------------------------------------------- connecting

    @contextmanager
    def _ready(self, begin: str, patience: _Patience, aftermath: str) -> Iterator[PostgresLog]:
        """A new connection in a transaction, once the server is known to keep what it commits."""
        driver = _driver()
        connection = self._connected(patience, aftermath)
        refused: Exception | None = None
        try:
            if begin == _WRITE:
                self._wait_for_turn(connection, patience, aftermath)
            connection.execute(begin)
            connection.execute(search_path(self.address.ledger))
            self._check_server(connection, aftermath, writes=begin == _WRITE)
            mark = SystemBits().bits(_MARK_BITS).to_bytes(_MARK_BITS // 8, "big")
            yield PostgresLog(connection, self.address.ledger, mark)
        except driver.Error as error:
            refused = self._refusal(error, connection, aftermath, writes=begin == _WRITE)
        except UnicodeError:
            refused = storage.refusal(LedgerFileError, self.name, "is damaged; restore it", aftermath)
        finally:
            # Ends the session, and with it whatever is not committed and the place in the queue.
            connection.close()
        if refused is not None:
            raise refused

    def _connected(self, patience: _Patience, aftermath: str) -> Any:
        driver = _driver()
        wait = max(_MIN_CONNECT, min(_MAX_CONNECT, math.ceil(patience.timeout)))
        defaults: dict[str, Any] = {"connect_timeout": wait, "application_name": "leastnoise"}
        fixed = {"autocommit": True, "client_encoding": "utf8", "prepare_threshold": None}
        try:
            return driver.connect(**(defaults | dict(self.address.parameters) | fixed))
        except (driver.Error, UnicodeError, ValueError):
            pass
        # Outside the handler, so that nothing hangs on to an error that knows the password.
        raise storage.refusal(
            LedgerFileError,
            self.name,
            "cannot be reached: its server does not answer, or does not let this user in. Check "
            "host, port, database and user, and the password in ~/.pgpass or PGPASSWORD",
            aftermath,
        )

    def _check_server(self, connection: Any, aftermath: str, *, writes: bool) -> None:
        """Refuse a server that may forget what it has committed."""
        names = ("synchronous_commit", "fsync", "full_page_writes")
        columns = ", ".join(f"current_setting('{name}')" for name in names)
        for name, value in zip(names, connection.execute(f"SELECT {columns}").fetchone(), strict=True):
            if value == "off":
                raise LedgerFileError(
                    f"the server of the ledger {self.name!r} runs with {name} = off, so that it may "
                    f"lose what was spent; switch {name} on. {aftermath}",
                    field="ledger",
                    given=self.name,
                )
        if connection.info.server_version < _OLDEST:
            raise storage.refusal(
                LedgerFileError, self.name, f"needs PostgreSQL {_OLDEST // 10000} or later", aftermath
            )
        if writes and not self._has_turn(connection):
            raise storage.refusal(
                LedgerFileError,
                self.name,
                "is behind a connection pool that changes sessions between statements; connect to the "
                "server itself",
                aftermath,
            )

    # -------------------------------------------------------------- taking turns

    @contextmanager
    def _alone_in_process(self, patience: _Patience, aftermath: str) -> Iterator[None]:
        """The turn of one thread: what an object has seen of the ledger belongs to one at a time."""
        if self._in_process[0] != os.getpid():
            # After a fork: the thread that held it is in the other process.
            self._in_process = (os.getpid(), threading.Lock())
        lock = self._in_process[1]
        while not lock.acquire(timeout=patience.slice):
            if patience.is_over():
                raise storage.refusal(LedgerBusyError, self.name, "is in use in this process", aftermath)
        try:
            yield
        finally:
            lock.release()

    @property
    def _turn(self) -> int:
        """The number of the lock by which the writers of this ledger take turns."""
        name = f"leastnoise ledger {self.address.ledger}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)

    def _wait_for_turn(self, connection: Any, patience: _Patience, aftermath: str) -> None:
        """Wait until no other session writes. The place in the queue is kept while the callback is asked."""
        driver = _driver()
        patience.begin()
        wire = connection.pgconn
        wire.send_query(f"SELECT pg_catalog.pg_advisory_lock({self._turn})".encode())
        while wire.flush():
            time.sleep(0)
        with selectors.DefaultSelector() as selector:
            selector.register(wire.socket, selectors.EVENT_READ)
            while wire.is_busy():
                if selector.select(patience.slice):
                    wire.consume_input()
                elif patience.is_over():
                    wire.get_cancel().cancel()
                    raise LedgerBusyError(
                        f"other processes hold the ledger {self.name!r}; try again, or in Python wait longer "
                        f"with timeout=. {aftermath}",
                        field="ledger",
                        given=self.name,
                    )
        while (result := wire.get_result()) is not None:
            if result.status != driver.pq.ExecStatus.TUPLES_OK:
                raise driver.errors.error_from_result(result)

    def _has_turn(self, connection: Any) -> bool:
        [found] = connection.execute(
            f"SELECT EXISTS (SELECT {_HOLDER} AND pid = pg_backend_pid())", self._lock
        ).fetchone()
        return bool(found)

    @property
    def _lock(self) -> tuple[int, int]:
        """The same number in two halves, as pg_locks shows it."""
        return divmod(self._turn % 2**64, 2**32)

    # -------------------------------------------------------------- COMMIT

    def _commits(self, log: PostgresLog, patience: _Patience, aftermath: str) -> bool:
        """Commit; False if that is known to have had no effect."""
        driver = _driver()
        session = log.connection.info.backend_pid
        try:
            done = log.connection.execute("COMMIT")
        except driver.Error:
            if log.last_added is None or not log.connection.closed:
                raise
        else:
            if done.statusmessage != "COMMIT":
                raise storage.refusal(
                    LedgerFileError, self.name, "rejected what was written to it", aftermath
                )
            return True
        return self._took_effect(log, session, patience)

    def _took_effect(self, lost: PostgresLog, session: int, patience: _Patience) -> bool:
        """Whether the COMMIT of a lost connection took effect, seen once its session is over."""
        driver = _driver()
        assert lost.last_added is not None
        patience.begin()
        while True:
            try:
                connection = self._connected(patience, "")
                try:
                    self._end(connection, session)
                    # The lost session holds its turn until its transaction is committed or undone.
                    self._wait_for_turn(connection, patience.again(), "")
                    # To write, which a standby refuses: it may not have what the lost server committed.
                    connection.execute(_WRITE)
                    connection.execute(search_path(self.address.ledger))
                    log = PostgresLog(connection, self.address.ledger, lost.mark)
                    return not log.is_empty() and log.is_mine(lost.last_added, lost.mark)
                finally:
                    connection.close()
            except (driver.Error, LedgerError):
                pass
            if patience.is_over():
                raise LedgerFileError(
                    f"the connection to the ledger {self.name!r} was lost while it was written to, and the "
                    "server cannot be asked whether that took effect. If this was a release, it may be paid "
                    "for; no noise was drawn for it and nothing was handed out. See what the ledger lists",
                    field="ledger",
                    given=self.name,
                )
            time.sleep(_SLICE)

    def _end(self, connection: Any, session: int) -> None:
        """End the session of a lost connection, if it still has the turn: its server may not know yet."""
        connection.execute(f"SELECT pg_terminate_backend(pid) {_HOLDER} AND pid = %s", (*self._lock, session))

    def _refusal(self, error: Any, connection: Any, aftermath: str, *, writes: bool) -> Exception:
        """PostgreSQL's errors as ours; none of them holds what the server said."""
        code = error.sqlstate
        if writes and code in _OVERTAKEN:
            return storage.OvertakenError()
        if code in ("55P03", "57014", "40001"):
            return LedgerBusyError(
                f"the server of the ledger {self.name!r} cancelled a statement; try again. {aftermath}",
                field="ledger",
                given=self.name,
            )
        if connection.closed:
            return LedgerFileError(
                f"the connection to the ledger {self.name!r} was lost. {aftermath}",
                field="ledger",
                given=self.name,
            )
        reason = _REASONS.get(code, f"cannot be used: its server says SQLSTATE {code}")
        return storage.refusal(LedgerFileError, self.name, reason, aftermath)


class _Patience:
    """How long to wait for others: up to a timeout, or as long as a callback says so."""

    def __init__(self, timeout: float, keep_waiting: Callable[[], bool] | None) -> None:
        # A server needs a moment to answer even if no other session writes.
        self.timeout = max(timeout, _SLICE)
        self._keep_waiting = keep_waiting
        self.begin()

    def begin(self) -> None:
        """Start the clock anew: others are waited for from here on."""
        self._end = time.monotonic() + self.timeout

    def again(self) -> _Patience:
        """The same patience with a clock of its own."""
        return _Patience(self.timeout, self._keep_waiting)

    @property
    def slice(self) -> float:
        """Seconds until it should be looked at again."""
        return max(0.0, min(_SLICE, self._end - time.monotonic())) if self._keep_waiting is None else _SLICE

    def is_over(self) -> bool:
        """Whether the wait is over."""
        if self._keep_waiting is not None:
            return not self._keep_waiting()
        return time.monotonic() >= self._end


def _driver() -> Any:
    return require("psycopg", extra="postgres", why="a ledger in PostgreSQL")
