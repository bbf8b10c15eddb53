"""One SQLite file, opened for one operation at a time: a `Storage`, and all the SQL there is.

What commits is on the disk before the commit returns, in the file and in its folder: a rollback journal
(DELETE) with synchronous=EXTRA. FULL alone would not sync the folder after the journal is removed, so
that a loss of power could bring the journal back and undo a commit that was already relied upon. A
write-ahead log would be quicker, but spreads the ledger over three files, and a copy of the one that
people know of lacks the last commits.

Nothing in the file is believed: its header, its tables and its triggers must be those written here.

SQLite's locks belong to the process and are lost when any handle of the same file is closed in
it. So every access in one process goes through one lock, and a fork waits for it: no connection
is ever open in two threads or on both sides of a fork.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from leastnoise.core.errors import InputError, LedgerBusyError, LedgerFileError
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.core.whole_file import sync_folder
from leastnoise.privacy.ledger import storage
from leastnoise.privacy.ledger.sqlite_log import SCHEMAS, SqliteLog

# "lnlg", at byte 68 of the file.
_APPLICATION = 0x6C6E6C67
# The number of the newest layout of tables, at byte 60.
_FORMAT = 2
# Bytes in a page, fixed when the file is made.
_PAGE = 4096
# Seconds that one attempt waits for others where a callback decides after each whether to go on waiting.
_SLICE = 0.25

# What every SQLite database begins with.
_BEGINS = b"SQLite format 3\0"

_Result = TypeVar("_Result")

_access = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_access.acquire, after_in_parent=_access.release, after_in_child=_access.release
    )


def checked_path(path: Any) -> Path:
    """Where a ledger is or will be, with the folder resolved and the name as given.

    Raises:
        InputError: if it is no path.
        LedgerFileError: if its folder does not exist.
    """
    if not isinstance(path, (str, Path)) or not str(path) or "\0" in str(path):
        raise InputError.must("path", "be the path of a file", given=path)
    given = Path(path)
    if given.name in ("", ".."):
        raise InputError.must("path", "be one file, not a folder", given=str(path))
    try:
        return given.parent.resolve(strict=True) / given.name
    except (OSError, RuntimeError):
        raise LedgerFileError(
            f"there is no folder {str(given.parent)!r}",
            field="path",
            given=str(given.parent),
            remedy="create it first",
        ) from None


class LedgerFile:
    """A ledger in one SQLite file: the `Storage` of `leastnoise.privacy.ledger.storage`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """The name of the file, without its folder."""
        return self.path.name

    @property
    def shown(self) -> str:
        """The path of the file."""
        return str(self.path)

    def exists(self) -> bool:
        """Whether something of that name is there, a dangling link included."""
        # os.path, because Path raises where a name is longer than names may be.
        return os.path.lexists(self.path)

    def create(self, key: bytes, fill: Callable[[storage.Log], None]) -> bool:
        """Make the file, readable by its owner only; False if it exists already.

        It appears under its name when it is complete, so nobody ever opens half a ledger.
        """
        path = self.path
        with _access:
            try:
                handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
            except OSError as error:
                raise LedgerFileError(
                    f"cannot create a ledger in {str(path.parent)!r}: {error.strerror}",
                    field="path",
                    given=str(path),
                ) from None
            os.close(handle)
            try:
                with _translated(path, "No ledger was made."), closing(_connection(name, 10.0)) as connection:
                    connection.execute(f"PRAGMA page_size = {_PAGE}")
                    connection.execute("PRAGMA encoding = 'UTF-8'")
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {_FORMAT}")
                    connection.execute("BEGIN IMMEDIATE")
                    log = SqliteLog(connection)
                    log.begin(key)
                    fill(log)
                    connection.execute("COMMIT")
                os.link(name, path)
            except FileExistsError:
                return False
            except OSError as error:
                raise LedgerFileError(
                    f"cannot create a ledger at {str(path)!r}: {error.strerror}",
                    field="path",
                    given=str(path),
                    remedy="use a local disk",
                ) from None
            finally:
                Path(name).unlink(missing_ok=True)
            sync_folder(path.parent)
            return True

    @contextmanager
    def transaction(
        self,
        *,
        writes: bool,
        timeout: float,
        aftermath: str,
        committed: Callable[[], None] | None = None,
        keep_waiting: Callable[[], bool] | None = None,
    ) -> Iterator[SqliteLog]:
        """A connection in a transaction of its own; see `Storage.transaction`.

        A commit that waits for readers holds SQLite's pending lock meanwhile, which lets no new reader in: a
        reader delays it until that reader is done, and no series of readers can keep it out.
        """
        path = self.path
        wait = timeout if keep_waiting is None else min(timeout, _SLICE)
        while not _access.acquire(timeout=wait):
            if keep_waiting is None or not keep_waiting():
                raise storage.refusal(LedgerBusyError, path.name, "is in use in this process", aftermath)
        try:
            with _translated(path, aftermath):
                _check_file(path)
                opened = _patiently(lambda: _connection(str(path), wait), keep_waiting)
                with closing(opened) as connection:
                    if not writes:
                        connection.execute("PRAGMA query_only = ON")
                    begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
                    _patiently(lambda: connection.execute(begin), keep_waiting)
                    try:
                        _patiently(lambda: _check_tables(path, connection), keep_waiting)
                        yield SqliteLog(connection)
                        if connection.in_transaction:
                            _patiently(lambda: connection.execute("COMMIT"), keep_waiting)
                            if committed is not None:
                                committed()
                    finally:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
        finally:
            _access.release()

    def check_room(self, needed: int, aftermath: str) -> None:
        """Refuse where the file's folder cannot be written to or has no room for ``needed`` bytes."""
        check_room(self.path, needed, aftermath)


def _patiently(step: Callable[[], _Result], keep_waiting: Callable[[], bool] | None) -> _Result:
    """The result of a step that may have to wait for others: tried again as long as the callback says so."""
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or keep_waiting is None or not keep_waiting():
                raise


def check_room(path: Path, needed: int, aftermath: str) -> None:
    """Refuse where the ledger's folder cannot be written to or has no room for ``needed`` bytes.

    Raises:
        TooLargeError: if a release of this size is not kept at all.
        LedgerFileError: if there is no room.
    """
    storage.check_size(needed)
    try:
        # Not by asking how much is free: quotas and reserved blocks would not show.
        with tempfile.TemporaryFile(dir=path.parent, prefix=f".{path.name}.") as probe:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(probe.fileno(), 0, needed)
            else:
                probe.write(bytes(needed))
    except OSError as error:
        raise storage.refusal(
            LedgerFileError,
            path.name,
            f"cannot grow by {needed:,} bytes: {error.strerror}; make room or let this user "
            "write to its folder",
            aftermath,
        ) from None


def _connection(path: str, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, storage.MAX_ANSWER_BYTES + 2**16)
    for setting in (
        "synchronous = EXTRA",
        "fullfsync = ON",
        "trusted_schema = OFF",
        "cell_size_check = ON",
        "mmap_size = 0",
        "temp_store = MEMORY",
    ):
        try:
            connection.execute(f"PRAGMA {setting}")
        except sqlite3.Error:
            connection.close()
            raise
    return connection


def _check_file(path: Path) -> None:
    """Refuse what is no ledger before SQLite opens it."""
    try:
        facts = path.lstat()
    except FileNotFoundError:
        raise LedgerFileError(
            f"there is no ledger {str(path)!r}; ",
            Remedy("give ", Argument("dataset"), " and ", Argument("limit"), " to start one"),
            field="path",
        ) from None
    if not stat.S_ISREG(facts.st_mode):
        kind = "a link" if stat.S_ISLNK(facts.st_mode) else "no regular file"
        raise LedgerFileError(
            f"{str(path)!r} is {kind}", field="path", given=str(path), remedy="name the ledger's own file"
        )
    if facts.st_nlink > 1:
        # The journal is found by the file's name, so a second name could miss it.
        _drop_leftover(path, facts)
        if path.lstat().st_nlink > 1:
            raise LedgerFileError(
                f"{str(path)!r} has a second name (a hard link)",
                field="path",
                given=str(path),
                remedy="remove that",
            )
    if os.name == "posix" and facts.st_mode & stat.S_IWOTH:
        raise LedgerFileError(
            f"{str(path)!r} is writable by everyone",
            field="path",
            given=str(path),
            remedy=f"run: chmod o-w {path.name}",
        )
    with path.open("rb") as file:
        header = file.read(100)
    if header[: len(_BEGINS)] != _BEGINS[: len(header)]:
        raise LedgerFileError(
            f"{str(path)!r} is not a ledger",
            field="path",
            given=str(path),
            remedy="name the file that `leastnoise ledger create` or Ledger() made",
        )
    if not _is_header(header):
        raise LedgerFileError(
            f"{str(path)!r} is damaged, truncated or not a ledger",
            field="path",
            given=str(path),
            remedy="restore it",
        )


def _is_header(header: bytes) -> bool:
    """Whether a file begins as a ledger does, in every byte that never changes."""
    if len(header) < 100:
        return False

    def number(at: int) -> int:
        return int.from_bytes(header[at : at + 4], "big")

    # sqlite.org/fileformat2.html, section 1.3: rollback journal, no vacuum, UTF-8, our own numbers.
    begins = header[:24] == _BEGINS + _PAGE.to_bytes(2, "big") + bytes((1, 1, 0, 64, 32, 32))
    fixed = {44: 4, 48: 0, 52: 0, 56: 1, 64: 0, 68: _APPLICATION}
    is_known = number(60) in SCHEMAS
    return (
        begins
        and is_known
        and all(number(at) == value for at, value in fixed.items())
        and not any(header[72:92])
    )


def _check_tables(path: Path, connection: sqlite3.Connection) -> None:
    # Now that no journal waits to be rolled back, the file is as long as it says.
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    if path.stat().st_size != pages * _PAGE:
        raise LedgerFileError(
            f"the ledger {path.name!r} was truncated or extended",
            field="path",
            given=path.name,
            remedy="restore it",
        )
    [layout] = connection.execute("PRAGMA user_version").fetchone()
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
    if found != SCHEMAS.get(layout):
        raise LedgerFileError(
            f"the ledger {path.name!r} holds other tables than a ledger has",
            field="tables",
            given=path.name,
            remedy="restore it",
        )


def _drop_leftover(path: Path, facts: os.stat_result) -> None:
    """Remove the name under which a ledger was made, if the process that made it did not."""
    for other in path.parent.glob(f".{_escaped(path.name)}.*.part"):
        try:
            found = other.lstat()
        except FileNotFoundError:
            continue
        if (found.st_dev, found.st_ino) == (facts.st_dev, facts.st_ino):
            other.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


_REASONS = {
    sqlite3.SQLITE_READONLY: "is read-only for this user",
    sqlite3.SQLITE_FULL: "has no room left on its disk",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check the rights of the file and of its folder",
    sqlite3.SQLITE_PERM: "may not be opened by this user",
    sqlite3.SQLITE_IOERR: "could not be read or written: the disk reports an error or is full",
    sqlite3.SQLITE_TOOBIG: "holds more in one row than a ledger does",
    sqlite3.SQLITE_NOMEM: "does not fit in memory",
}


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def _translated(path: Path, aftermath: str) -> Iterator[None]:
    """SQLite's errors as ours; none of them holds a value from the file."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if _is_busy(error):
            raise LedgerBusyError(
                f"other processes hold the ledger {path.name!r}; try again, or in Python wait longer "
                f"with timeout=. {aftermath}",
                field="ledger",
                given=path.name,
            ) from None
        reason = _REASONS.get(code, "is damaged; restore it")
        raise storage.refusal(LedgerFileError, path.name, reason, aftermath) from None
    except UnicodeError:
        # Python found no text where SQLite, or its account of the damage, should have some.
        raise storage.refusal(LedgerFileError, path.name, "is damaged; restore it", aftermath) from None
    except OSError as error:
        raise storage.refusal(
            LedgerFileError, path.name, f"cannot be used: {error.strerror}", aftermath
        ) from None
