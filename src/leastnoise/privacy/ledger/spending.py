"""The three steps through which a release is paid for, each durable before the next begins.

    check    before data is read: the ledger is sound, has room, and the charge fits; or the
             answers are stored already, and those are handed out
    spend    before noise is drawn: checked again and appended while all other writers wait
    store    before anything is handed out: the noisy answers

Whatever happens between them, and wherever the process is killed, no answer leaves that was not
paid for, and no noise is used twice: what was spent and never stored can only be paid for again.
"""

from __future__ import annotations

import hmac
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from leastnoise.core.errors import (
    AlreadySpentError,
    InputError,
    LedgerFileError,
    LedgerMismatchError,
    PrivacyError,
    TooLargeError,
)
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.privacy.accounting import Charge, is_short_text
from leastnoise.privacy.goals import Goal
from leastnoise.privacy.ledger import storage
from leastnoise.privacy.ledger.advice import over_budget
from leastnoise.privacy.ledger.groups import NOTHING_SPENT, base_of
from leastnoise.privacy.ledger.history import Entry, History, spend_row, store_row
from leastnoise.privacy.ledger.rows import NOTHING, Row, opened
from leastnoise.privacy.ledger.storage import Log, Version
from leastnoise.privacy.ledger.table_identity import (
    CountedTable,
    commitment,
    is_held,
    new_secret,
    opens,
    remember,
)
from leastnoise.privacy.ledger.verification import stored_answers
from leastnoise.privacy.ledger.view import Appending, SeenLedger

# Bytes that a row, its journal and the pages around it take at most, beside profile and answers.
_OVERHEAD_BYTES = 2**18

# Plans that a plan may have been designed after. Each is a text of up to 200 characters, and a row's text has
# a limit.
_MAX_AFTER = 1000

_IN_DOUBT = f"{NOTHING_SPENT} If in doubt, see what the ledger lists."
_NOT_STORED = "The release is paid for, its answers are not stored and must not be handed out."


@dataclass(frozen=True)
class PaymentRequest:
    """A release that is to be paid for.

    Attributes:
        after: digests of the plans that its plan was designed after.
        table: what is counted; None adds the worst case, for good.
        goal: what the plan was designed for, so that a refusal names the largest that would fit; None where
            it follows from targets or from other plans.
    """

    charge: Charge
    release_id: str
    after: Sequence[str] = ()
    table: CountedTable | None = None
    goal: Goal | None = None

    def __post_init__(self) -> None:
        after = self.after
        if not isinstance(self.charge, Charge):
            raise InputError.must("charge", "be a Charge", given=type(self.charge))
        if not is_short_text(self.release_id):
            raise no_short_text("release_id")
        if isinstance(after, str) or not all(map(is_short_text, after)) or len(after) > _MAX_AFTER:
            raise InputError.must(
                "after", f"be a sequence of at most {_MAX_AFTER:,} plan digests", given=None
            )
        if self.table is not None and not isinstance(self.table, CountedTable):
            raise InputError.must("table", "be a CountedTable", given=type(self.table))

    @property
    def has_digest(self) -> bool:
        """Whether the version of the table is confirmed by a digest of its bytes."""
        return self.table is not None and self.table.by == "digest"

    def row(self, history: History, base: Entry | None, committed: str | None) -> Row:
        """The row that pays for it, next in a history.

        Args:
            base: the release that it is added to cell by cell, if any.
            committed: the commitment to the digest of the table, if there is one.
        """
        same_as = None if base is None else base.release_id
        return spend_row(history, self.charge, self.release_id, self.after, self.table, same_as, committed)


def check(seen: SeenLedger, request: PaymentRequest, expected_bytes: int) -> bytes | None:
    """The stored answers of a release, if there are; None if it can be paid for. See `Ledger.check`."""

    def steps(adding: Appending, history: History) -> bytes | Row:
        entry = history.entry(request.release_id)
        if entry is not None:
            return _replayed(adding.log, entry, request.charge)
        base = _check_charge(seen.storage.name, history, request)
        # A commitment has its length whatever it commits to.
        row = request.row(history, base, NOTHING if request.has_digest else None)
        # What cannot be written to is found out here, before any data is read.
        adding.log.append(row)
        adding.log.undo()
        return row

    found = seen.write(NOTHING_SPENT, steps)
    if isinstance(found, bytes):
        return found
    needed = expected_bytes + len(found.profile or b"") + _OVERHEAD_BYTES
    seen.storage.check_room(needed, aftermath=NOTHING_SPENT)
    return None


def spend(seen: SeenLedger, request: PaymentRequest) -> Entry:
    """The entry of a release, once it is paid for. See `Ledger.spend`."""
    version = _version_of(request)

    def steps(adding: Appending, history: History) -> Entry:
        if history.entry(request.release_id) is not None:
            raise AlreadySpentError(
                f"release {request.release_id!r} was paid for in the meantime",
                field="release_id",
                given=request.release_id,
                remedy="ask for it again to have its answers once they are stored, or use a new release id",
            )
        base = _check_charge(seen.storage.name, history, request)
        if base is not None and version is not None:
            _check_same_version(base, adding.log.version(base.number), version)
        row = request.row(history, base, None if version is None else commitment(version))
        entry = history.entry_of(row, opened(row, history.head, history.n_rows))
        note_spending_started()
        adding.log.upgrade(new_secret)
        adding.append(row)
        if version is not None:
            adding.log.add_version(row.number, version)
        return entry

    entry = seen.write(_IN_DOUBT, steps)
    remember(entry.head, request.table)
    return entry


def store(
    seen: SeenLedger, entry: Entry, answers: bytes, keep_waiting: Callable[[], bool] | None = None
) -> None:
    """Keep the answers of a release that was paid for. See `Ledger.store`."""
    _check_storable(entry, answers)

    def steps(adding: Appending, history: History) -> None:
        known = _known(history, entry)
        if known.is_stored:
            raise LedgerMismatchError(
                f"release {entry.release_id!r} has answers already",
                field="release_id",
                given=entry.release_id,
                remedy="ask for it again to have those",
            )
        _check_open(seen.storage.name, history, _NOT_STORED)
        adding.log.add_answers(entry.number, answers)
        adding.append(store_row(history, entry, answers))

    seen.write(_NOT_STORED, steps, keep_waiting)


def _check_storable(entry: Entry, answers: bytes) -> None:
    if not isinstance(entry, Entry) or not isinstance(answers, bytes):
        raise InputError("store() needs the Entry that spend() returned, and bytes", field="entry")
    if len(answers) > storage.MAX_ANSWER_BYTES:
        raise TooLargeError(
            f"the answers take {len(answers):,} bytes, and a ledger keeps at most "
            f"{storage.MAX_ANSWER_BYTES:,}. The release is paid for; its answers must not be "
            "handed out",
            field="answers",
            given=len(answers),
        )


def _known(history: History, entry: Entry) -> Entry:
    """The release of an entry, as the ledger knows it now."""
    known = history.entry(entry.release_id)
    if known is None or (known.number, known.head) != (entry.number, entry.head):
        raise LedgerMismatchError(
            f"release {entry.release_id!r} was not paid for from this ledger",
            field="release_id",
            given=entry.release_id,
        )
    return known


def store_part(seen: SeenLedger, entry: Entry, period: str, answers: bytes, n_before: int) -> bool:
    """Keep what a stream publishes in one period; False if others have stored a period meanwhile.

    Nothing is paid: the stream was paid for as a whole. See `Ledger.store_part`.
    """
    _check_storable(entry, answers)
    if not is_short_text(period):
        raise no_short_text("period")

    def steps(adding: Appending, history: History) -> bool:
        known = _known(history, entry)
        _check_open(seen.storage.name, history, _NOT_STORED)
        if known.stored is None:
            raise LedgerMismatchError(
                f"stream {entry.release_id!r} has no plan yet",
                field="release_id",
                given=entry.release_id,
                remedy="open it again",
            )
        if len(known.parts) != n_before:
            return False
        row = store_row(history, entry, answers, period)
        adding.log.add_answers(row.number, answers)
        adding.append(row)
        return True

    return seen.write(_NOT_STORED, steps)


def check_goal(seen: SeenLedger, goal: Goal, same_table_as: str | None, share: Fraction) -> None:
    """Return unless no plan for a goal can be paid for. See `Ledger.check_goal`."""
    with seen.reading() as (_, history):
        _check_open(seen.storage.name, history)
        base = None if same_table_as is None else history.entry(same_table_as)
        try:
            is_out = history.rules_out(goal, share, None if base is None else base.group)
        except PrivacyError as error:
            raise _not_fitting(error) from None
        if is_out:
            raise over_budget(seen.storage.name, history, None, goal)


# ------------------------------------------------------------------ what each step checks


def _check_open(name: str, history: History, aftermath: str = NOTHING_SPENT) -> None:
    """Refuse to add to a ledger that was moved."""
    closed = history.closed
    if closed is None:
        return
    what = f"is closed: it was moved to {closed.to!r} on {closed.at[:10]}; use that one"
    if closed.to == name:
        what = "is not in use yet: the move to it is not complete; run `leastnoise ledger move` again"
    raise LedgerMismatchError(f"the ledger {name!r} {what}. {aftermath}", field="ledger", given=name)


def _check_charge(name: str, history: History, request: PaymentRequest) -> Entry | None:
    """Refuse a charge that cannot be paid for; the release it is added to cell by cell, if any."""
    _check_open(name, history)
    charge = request.charge
    base = base_of(history, charge, request.after, request.table)
    group = None if base is None else base.group
    try:
        fits = history.admits(charge, group)
    except PrivacyError as error:
        raise _not_fitting(error) from None
    if not fits:
        raise over_budget(name, history, charge, request.goal, group)
    return base


def _replayed(log: Log, entry: Entry, charge: Charge) -> bytes:
    """The stored answers of a release that is asked for again."""
    if entry.charge.plan_digest != charge.plan_digest:
        raise LedgerMismatchError(
            f"release {entry.release_id!r} is of another plan; use a new release id. {NOTHING_SPENT}",
            field="release_id",
            given=entry.release_id,
        )
    return stored_answers(log, entry)


def _version_of(request: PaymentRequest) -> Version | None:
    """The version of the table that was read, under a fresh nonce; None where no digest confirms it."""
    if request.table is None or not request.has_digest:
        return None
    if request.table.version is None:
        raise InputError("the table must be read before it is paid for: version= is missing", field="version")
    return Version(new_secret(), request.table.version)


def _check_same_version(base: Entry, known: Version | None, found: Version) -> None:
    """Refuse a table that is not the one of an earlier release; for the owner, because it tells of it."""
    if base.table is None or known is None or not opens(known, base.table.commitment):
        raise LedgerFileError(
            f"the version of the table that release {base.release_id!r} is about is missing or "
            f"altered in the ledger; restore the file. {NOTHING_SPENT}",
            field="version",
            given=base.release_id,
        )
    if not hmac.compare_digest(known.digest, found.digest):
        raise LedgerMismatchError(
            f"the table is not the one that release {base.release_id!r} measured: it has changed, or is "
            f"another. {NOTHING_SPENT} ",
            Remedy("Without ", Argument("same_table_as"), " the plan's worst case is charged"),
            ". This message tells about the table; it is for its owner",
            field="same_table_as",
        )


def is_same_table(seen: SeenLedger, entry: Entry, table: CountedTable) -> bool:
    """Whether a table is confirmed to be the version that a release was paid for.

    See `Ledger.is_same_table`.
    """
    recorded = entry.table
    if recorded is None or recorded.by is None or recorded.by != table.by:
        return False
    if dict(recorded.rules) != dict(table.rules):
        return False
    if table.by == "held":
        return is_held(entry.head, table)
    with seen.reading() as (log, _):
        known = log.version(entry.number)
    if known is None or not opens(known, recorded.commitment):
        raise LedgerFileError(
            f"the version of the table that release {entry.release_id!r} is about is missing or altered in "
            "the ledger",
            field="version",
            given=entry.release_id,
            remedy="restore the file",
        )
    return table.version is not None and hmac.compare_digest(known.digest, table.version)


def _not_fitting(error: PrivacyError) -> LedgerMismatchError:
    return LedgerMismatchError(*error.args, f". {NOTHING_SPENT}", field=error.field, given=error.given)


def no_short_text(name: str) -> InputError:
    """The refusal of an argument that must be a short text."""
    subject = Argument(name, is_subject=True)
    return InputError(subject, " must be a text of 1 to 200 printable characters", field=name)


# ------------------------------------------------------------------ what an interrupted process may say

_numbers = itertools.count(1)
_latest = 0


def note_spending_started() -> None:
    """Note, before it happens, that something may be paid for or handed out from here on."""
    global _latest
    _latest = next(_numbers)


def n_spendings_started() -> int:
    """How often that was noted. As long as it has not grown, nothing was spent in this process."""
    return _latest
