"""Move a ledger from a file to a database, or back, so that two live budgets never exist.

While no other process can write to the source:

    1. the target is made, in one transaction, with every row of the source, its answers and its private
       tables, and one row more, which closes it; it is then verified from its first row on
    2. the same row is added to the source, which closes that: both now have the same head

and then, once the source is closed for good:

    3. a row is added to the target by which it goes on

Killed before 1 is done, nothing has happened. Between 1 and 2 the source is in use and the target is closed;
between 2 and 3 both are closed. In either case the same call again completes the move. Only where the
source was spent from meanwhile, the closed target is of no use: it is refused, and has to be removed.
"""

from __future__ import annotations

from pathlib import Path

from leastnoise.core.errors import InputError, LedgerFileError, LedgerMismatchError
from leastnoise.core.printable import counted, printable
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.privacy.ledger.history import History, closing_row, continuing_row
from leastnoise.privacy.ledger.ledger import Ledger
from leastnoise.privacy.ledger.rows import Row
from leastnoise.privacy.ledger.sqlite_file import LedgerFile
from leastnoise.privacy.ledger.storage import Log, Storage
from leastnoise.privacy.ledger.table_identity import new_secret
from leastnoise.privacy.ledger.verification import check_all
from leastnoise.privacy.ledger.view import Appending, SeenLedger, storage_at

_AFTERMATH = "Nothing was spent; run the same move again."
# Characters of a name in a row, at most.
_MAX_NAME = 200


def move_ledger(
    source: str | Path, target: str | Path, *, timeout: float = 30.0, abandon_unstored: bool = False
) -> Ledger:
    """Move a ledger from a file to a PostgreSQL database or back; returns it in its new place.

    The history, with its digests, stays the same, and so does every head that was printed. The source is
    closed: it still returns its stored answers, but pays for nothing.

    Args:
        source: where the ledger is, a path or an address.
        target: where it goes; there may be nothing there, except what an interrupted move has left.
        timeout: seconds to wait for other processes.
        abandon_unstored: whether to move although releases are paid for whose answers were never stored. A
            process that is about to store them will fail.

    Guarantee:
        At no moment, wherever this is stopped, can both ledgers be spent from.

    Raises:
        InputError: if both are files, or the same.
        LedgerMismatchError: if the target is another ledger, the source was moved elsewhere, or releases are
            not stored.
        LedgerFileError, LedgerBusyError: if either was modified since it was written, or cannot be reached.
    """
    old, new = storage_at(source), storage_at(target)
    if isinstance(old, LedgerFile) and isinstance(new, LedgerFile):
        raise InputError(
            "to move a ledger from one file to another, move the file itself while nobody uses it",
            field="target",
        )
    if old.name == new.name:
        raise InputError("source and target of the move are the same ledger", field="target")
    # Opened as everybody opens it: pages, chain and sums are checked.
    from_there = Ledger(source, timeout=timeout)
    seen = from_there._seen

    def steps(adding: Appending, _: History) -> None:
        history = seen.read_anew(adding.log)
        check_all(old.name, adding.log, history)
        if history.closed is None:
            _check_stored(history, abandon_unstored)
            row = _closed_copy(adding.log, history, new, timeout)
            adding.append(row)

    seen.write(_AFTERMATH, steps)
    _go_on(seen, new, timeout)
    moved = Ledger(target, timeout=timeout)
    moved.verify(head=from_there.head)
    return moved


def _called(storage: Storage) -> str:
    """What rows call a ledger: one short line."""
    return printable(storage.name)[:_MAX_NAME]


def _check_stored(history: History, abandon: bool) -> None:
    missing = [entry.release_id for entry in history.entries if not entry.is_stored]
    if missing and not abandon:
        raise LedgerMismatchError(
            f"the ledger has {counted(len(missing), 'release')} paid for but not stored ({missing[0]!r}): a "
            "process may be about to store it, and could not after the move. ",
            Remedy("If none is, give ", Argument("abandon_unstored"), " to move anyway. Nothing was moved"),
            field="abandon_unstored",
        )


def _closed_copy(log: Log, history: History, target: Storage, timeout: float) -> Row:
    """The row that closes the source, which the target ends with, made if need be and verified."""
    row = closing_row(history, _called(target), new_secret().hex())

    def fill(copy: Log) -> None:
        for one in log.rows_from(None):
            copy.append(one)
        for number in log.answer_numbers():
            body = log.answers(number)
            assert body is not None
            copy.add_answers(number, body)
        for number in log.version_numbers():
            version = log.version(number)
            assert version is not None
            copy.add_version(number, version)
        copy.append(row)

    # A ledger of the first format has no key yet, and nothing that was made with one.
    target.create(log.key() or new_secret(), fill)
    seen = SeenLedger(target, timeout, _AFTERMATH)
    with seen.reading() as (copy, found):
        check_all(target.name, copy, found)
        last = list(copy.rows_from(history.n_rows))
        # Made now or by a move that was interrupted: only a copy of all there is, closed for itself, will do.
        is_copy = found.digests[:-1] == history.digests and len(last) == 1
        if not is_copy or found.closed is None or found.closed.to != _called(target):
            raise LedgerMismatchError(
                f"{target.name!r} already holds something that this ledger cannot continue in: another "
                "ledger, or a copy that an interrupted move left before more was spent. Such a copy was "
                "never in use: remove it and move again. Nothing was moved",
                field="target",
                given=target.name,
            )
        return last[0]


def _go_on(source: SeenLedger, target: Storage, timeout: float) -> None:
    """Let the target go on, once the source is closed in its favour and for good."""
    with source.reading() as (_, history):
        closed, head = history.closed, history.head
    if closed is None:
        raise LedgerFileError(
            "the source of the move is not closed", field="source", remedy="run the same move again"
        )
    elsewhere = LedgerMismatchError(
        f"the ledger was moved to {closed.to!r}, and not to {target.name!r}",
        field="target",
        given=target.name,
    )
    # By its name, too: while both are closed, the source itself would do for a move the other way.
    if closed.to != _called(target) or not target.exists():
        raise elsewhere

    def steps(adding: Appending, found: History) -> None:
        if head not in found.digests:
            raise elsewhere
        if found.head == head:
            adding.append(continuing_row(found, _called(source.storage)))

    SeenLedger(target, timeout, _AFTERMATH).write(_AFTERMATH, steps)
