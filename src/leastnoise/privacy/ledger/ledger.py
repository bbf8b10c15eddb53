"""The budget across processes and crashes.

`measure` goes through three steps, each durable before the next begins:

    check    before data is read: the ledger is sound, has room, and the charge fits; or the
             answers are stored already, and those are handed out
    spend    before noise is drawn: checked again and appended while all other writers wait
    store    before anything is handed out: the noisy answers

Whatever happens between them, and wherever the process is killed, no answer leaves that was not
paid for, and no noise is used twice: what was spent and never stored can only be paid for again.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from leastnoise.core.errors import (
    AlreadySpentError,
    InputError,
    LedgerError,
    LedgerFileError,
    LedgerMismatchError,
    PrivacyError,
    TooLargeError,
)
from leastnoise.core.printable import counted
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.privacy.accounting import Charge, Remaining, is_short_text
from leastnoise.privacy.goals import Goal
from leastnoise.privacy.ledger import storage
from leastnoise.privacy.ledger.advice import over_budget
from leastnoise.privacy.ledger.export import rows_of, write_rows
from leastnoise.privacy.ledger.groups import base_of
from leastnoise.privacy.ledger.history import Entry, History, opening_row, spend_row, store_row
from leastnoise.privacy.ledger.rows import NOTHING, Row, opened
from leastnoise.privacy.ledger.spending_started import begin_to_spend
from leastnoise.privacy.ledger.sqlite_file import LedgerFile
from leastnoise.privacy.ledger.table_identity import CountedTable, commitment, new_secret, opens, remember
from leastnoise.privacy.ledger.verification import (
    Verification,
    check_all,
    check_head,
    check_pages,
    check_spent,
    stored_answers,
)
from leastnoise.privacy.ledger.view import Appending, SeenLedger, kept_at

# What a row, its journal and the pages around it take at most, beside profile and answers.
_OVERHEAD_BYTES = 2**18
# How large a release is taken to be unless `check` is told.
_USUAL_BYTES = 2**20

# Each is a text of up to 200 characters, and a row's text has a limit.
_MOST_AFTER = 1000

_NOTHING_SPENT = "Nothing was spent."

# How much of its goal a plan that counts anybody spends in one of its cells, at least. Rounding keeps all
# methods within 1e-6 of the whole; a test measures them.
SURELY_SPENT = Fraction(99, 100)


class Ledger:
    """The privacy budget of one dataset, kept in one file or in a PostgreSQL database.

    Args:
        path: the file. It is made, readable by its owner only, if it does not exist and a limit is given. Or
            the address of a ledger that several machines share, such as
            "postgresql://user@host/database?ledger=town", which is made in the schema ``town``. Passwords are
            best kept in ~/.pgpass or PGPASSWORD; one in the address is never shown, and does not travel when
            the ledger is pickled.
        dataset: a name for the people concerned, fixed when the ledger is made. Everything ever
            released about them belongs in this one ledger. None opens whatever is there.
        limit: the most that one person may ever spend, fixed when the ledger is made. None opens an
            existing ledger, and so does the same limit.
        planned: whether everything that will ever be charged is fixed before the first answer is
            seen. Then releases of both kinds of noise under `ApproxDP` are judged together by their exact
            curve, which would not hold for choices made along the way. Fixed when the ledger is made.
        timeout: how many seconds to wait for other processes.

    Guarantee:
        Whatever processes spend through this file, and however they end, what `spend` has let through
        stays within the limit, as long as the file or the tables are not replaced. A row that was changed,
        dropped or moved is found when the ledger is opened. An older copy of the file is found by an object
        that has seen a newer one, and by `verify` with a later head.

    Raises:
        LedgerFileError, LedgerBusyError, LedgerMismatchError: see `leastnoise.core.errors`.

    Example:
        >>> import tempfile
        >>> from leastnoise.privacy.goals import GDP
        >>> folder = tempfile.TemporaryDirectory()
        >>> Ledger(f"{folder.name}/town.ledger", dataset="town 2026", limit=GDP(1))
        Ledger('town.ledger', 'town 2026', 0 releases, left: μ = 1 of 1)
        >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | Path,
        *,
        dataset: str | None = None,
        limit: Goal | None = None,
        planned: bool | None = None,
        timeout: float = 30.0,
    ) -> None:
        kept_in = kept_at(path)
        if dataset is not None and not is_short_text(dataset):
            raise _no_short_text("dataset")
        if limit is not None and not isinstance(limit, Goal):
            raise InputError.must("limit", "be a privacy goal such as ApproxDP", given=type(limit))
        if planned is not None and type(planned) is not bool:
            raise InputError.must("planned", "be True or False", given=planned)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout <= 10**6:
            raise InputError.must("timeout", "be a number of seconds", given=timeout)
        self._seen = SeenLedger(kept_in, float(timeout), _NOTHING_SPENT)
        if limit is not None and not kept_in.exists():
            if dataset is None:
                raise InputError(
                    "a new ledger needs ",
                    Argument("dataset"),
                    ", a name for the people it is about",
                    field="dataset",
                )
            opening = opening_row(dataset, limit, bool(planned))
            kept_in.create(new_secret(), lambda log: log.append(opening))
        with self._seen.reading() as (log, history):
            check_pages(self.name, log)
            check_spent(self.name, history)
            self._check_identity(history, dataset, limit, planned)

    # -------------------------------------------------------------- what it says

    @property
    def path(self) -> Path:
        """Where the file is.

        Raises:
            InputError: if the ledger is kept in a database; `address` says in which.
        """
        kept_in = self._seen.storage
        if isinstance(kept_in, LedgerFile):
            return kept_in.path
        raise InputError("this ledger is kept in a database and has no file; ledger.address says where")

    @property
    def address(self) -> str:
        """Where it is kept, as it may be given again: a path, or an address without its password."""
        return self._seen.storage.shown

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._seen.storage.name

    @property
    def dataset(self) -> str:
        """The name of the people it is about."""
        return self._seen.history.dataset

    @property
    def limit(self) -> Goal:
        """The most that one person may ever spend."""
        return self._seen.history.limit

    @property
    def planned(self) -> bool:
        """Whether everything charged is fixed before the first answer is seen."""
        return self._seen.history.planned

    @property
    def moved_to(self) -> str | None:
        """What the ledger is called that goes on in place of this one; None as long as this one is in use."""
        with self._seen.reading() as (_, history):
            return None if history.closed is None else history.closed.to

    @property
    def remaining(self) -> Remaining:
        """What the limit leaves, read from the file now."""
        with self._seen.reading() as (_, history):
            return history.remaining

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every release that was paid for, in order, read from the file now."""
        with self._seen.reading() as (_, history):
            return history.entries

    @property
    def head(self) -> str:
        """The digest over all rows; whoever has noted it can tell later whether any is gone."""
        with self._seen.reading() as (_, history):
            return history.head

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row of plain values for every release that was paid for, in order; see `export`."""
        return rows_of(self.entries)

    def export(self, path: str | Path) -> Path:
        """Write the rows to a .csv or .jsonl file, without any answers; returns its path.

        ``charged`` is by how much a release raised what one person has spent, in ``unit``: rounded up, and
        exactly as text.

        Raises:
            InputError: if the name ends otherwise, or is the ledger's own.
        """
        kept_in = self._seen.storage
        if isinstance(kept_in, LedgerFile) and Path(path).exists() and Path(path).samefile(kept_in.path):
            raise InputError("the ledger itself would be overwritten; export to another file")
        return write_rows(self.rows, path)

    # -------------------------------------------------------------- the three steps

    def check(
        self,
        charge: Charge,
        release_id: str,
        after: Sequence[str] = (),
        *,
        table: CountedTable | None = None,
        expected_bytes: int = _USUAL_BYTES,
        goal: Goal | None = None,
    ) -> bytes | None:
        """The stored answers of a release, if there are; None if it can be paid for. Changes nothing.

        Args:
            after: digests of the plans that the plan was designed after.
            table: what is counted, before it is read. None adds the worst case, for good.
            expected_bytes: about how large the answers will be; room for them is made sure of.
            goal: what the plan was designed for, so that a refusal names the largest that would fit; None
                where it follows from targets or from other plans.

        Raises:
            OverBudgetError: if too little is left.
            AlreadySpentError: if the release was paid for and its answers never stored.
            LedgerMismatchError: if the id belongs to another plan, the charge does not fit the limit, plans
                of ``after`` were never released, or nothing could confirm that the table is the one named.
            LedgerFileError, LedgerBusyError: if the file cannot be relied on now.
        """
        _check_arguments(charge, release_id, after, table)
        if type(expected_bytes) is not int or expected_bytes < 0:
            raise InputError.must("expected_bytes", "be a whole number of bytes", given=expected_bytes)

        def steps(adding: Appending, history: History) -> bytes | Row:
            entry = history.entry(release_id)
            if entry is not None:
                return self._replayed(adding.log, entry, charge)
            base = self._check_charge(history, charge, after, goal, table)
            same_as = None if base is None else base.release_id
            # A commitment has its length whatever it commits to.
            committed = NOTHING if table is not None and table.by == "digest" else None
            row = spend_row(history, charge, release_id, after, table, same_as, committed)
            # What cannot be written to is found out here, before any data is read.
            adding.log.append(row)
            adding.log.undo()
            return row

        found = self._seen.write(_NOTHING_SPENT, steps)
        if isinstance(found, bytes):
            return found
        self._seen.storage.check_room(
            expected_bytes + len(found.profile or b"") + _OVERHEAD_BYTES, aftermath=_NOTHING_SPENT
        )
        return None

    def check_goal(
        self, goal: Goal, *, same_table_as: str | None = None, share: Fraction = SURELY_SPENT
    ) -> None:
        """Return unless no plan for a goal can be paid for: asked before a long design. Changes nothing.

        What passes may still be refused once the plan is there. What is refused here would have been refused
        then: a plan spends its goal in some cell, and even if that were the cell that has spent least,
        too little is left.

        Args:
            same_table_as: the release to whose costs the plan's will be added cell by cell, if any.
            share: how much of the goal the plan is sure to spend in one of its cells; 0 to ask only whether
                plans of this kind fit the limit at all.

        Raises:
            OverBudgetError: naming the largest goal of this kind that would fit.
            LedgerMismatchError: if no plan of this kind fits the limit, whatever it costs.
            LedgerFileError, LedgerBusyError: if the file cannot be relied on now.
        """
        if not isinstance(goal, Goal):
            raise InputError.must("goal", "be a privacy goal such as ApproxDP", given=type(goal))
        if not 0 <= share <= 1:
            raise InputError.must("share", "lie between 0 and 1", given=share)
        with self._seen.reading() as (_, history):
            self._check_open(history)
            base = None if same_table_as is None else history.entry(same_table_as)
            try:
                is_out = history.rules_out(goal, Fraction(share), None if base is None else base.group)
            except PrivacyError as error:
                raise _not_fitting(error) from None
            if is_out:
                raise over_budget(self.name, history, None, goal)

    def fetch(
        self, release_id: str, *, keep_waiting: Callable[[], bool] | None = None
    ) -> tuple[Entry, bytes] | None:
        """A release that was paid for and its stored answers, whatever its plan; None if there is none.

        Args:
            keep_waiting: as in `store`.

        Raises:
            AlreadySpentError: if it was paid for and its answers never stored.
            LedgerFileError, LedgerBusyError: if the file cannot be relied on now.
        """
        with self._seen.reading(keep_waiting) as (log, history):
            entry = history.entry(release_id)
            return None if entry is None else (entry, stored_answers(log, entry))

    def new_digest(self) -> hmac.HMAC:
        """An empty HMAC-SHA256 with this ledger's own key, to be fed the bytes of a table.

        Its digest is what `CountedTable` holds as ``version``. The key is in a private table of the ledger,
        which no export, representation or head shows.
        """
        with self._seen.reading() as (log, _):
            key = log.key()
        if key is None:

            def steps(adding: Appending, _: History) -> bytes | None:
                adding.log.upgrade(new_secret)
                return adding.log.key()

            key = self._seen.write(_NOTHING_SPENT, steps)
        assert key is not None
        return hmac.new(key, digestmod="sha256")

    def spend(
        self,
        charge: Charge,
        release_id: str,
        after: Sequence[str] = (),
        *,
        table: CountedTable | None = None,
        goal: Goal | None = None,
    ) -> Entry:
        """Pay for a release. Only when this has returned may noise be drawn.

        Args:
            table: as in `check`, with the digest of what was read if it is confirmed by one.
            goal: as in `check`.

        Guarantee:
            The charge is on the disk, and everything on the disk stays within the limit: both are
            decided while all other writers wait. The price follows from the request and the log; the
            table only decides whether it is paid at all.

        Raises:
            OverBudgetError, AlreadySpentError, LedgerMismatchError, LedgerFileError, LedgerBusyError: as
            `check` does, and if the table is not the one that the request names; nothing was spent then.
        """
        _check_arguments(charge, release_id, after, table)
        version = None
        if table is not None and table.by == "digest":
            if table.version is None:
                raise InputError("the table must be read before it is paid for: version= is missing")
            version = storage.Version(new_secret(), table.version)
        in_doubt = f"{_NOTHING_SPENT} If in doubt, see what the ledger lists."

        def steps(adding: Appending, history: History) -> Entry:
            if history.entry(release_id) is not None:
                raise AlreadySpentError(
                    f"release {release_id!r} was paid for in the meantime; ask for it again to have its "
                    "answers once they are stored, or use a new release id"
                )
            base = self._check_charge(history, charge, after, goal, table)
            if base is not None and version is not None:
                _check_same_version(base, adding.log.version(base.number), version)
            row = spend_row(
                history,
                charge,
                release_id,
                after,
                table,
                None if base is None else base.release_id,
                None if version is None else commitment(version),
            )
            entry = history.entry_of(row, opened(row, history.head, history.n_rows))
            begin_to_spend()
            adding.log.upgrade(new_secret)
            adding.append(row)
            if version is not None:
                adding.log.add_version(row.number, version)
            return entry

        entry = self._seen.write(in_doubt, steps)
        remember(entry.head, table)
        return entry

    def store(self, entry: Entry, answers: bytes, *, keep_waiting: Callable[[], bool] | None = None) -> None:
        """Keep the answers of a release that was paid for. Only then may they be handed out.

        Args:
            keep_waiting: asked again and again while others hold the ledger: True waits on, beyond the
                ledger's time-out. Readers are waited for and no new ones let in meanwhile.

        Raises:
            TooLargeError: if there are more than 512 MiB of them.
            LedgerMismatchError: if the release is not this ledger's, or has answers already.
            LedgerFileError, LedgerBusyError: if they could not be stored; it may be tried again.
        """
        if not isinstance(entry, Entry) or not isinstance(answers, bytes):
            raise InputError("store() needs the Entry that spend() returned, and bytes")
        if len(answers) > storage.MAX_ANSWER_BYTES:
            raise TooLargeError(
                f"the answers take {len(answers):,} bytes, and a ledger keeps at most "
                f"{storage.MAX_ANSWER_BYTES:,}. The release is paid for; its answers must not be handed out"
            )
        aftermath = "The release is paid for, its answers are not stored and must not be handed out."

        def steps(adding: Appending, history: History) -> None:
            known = history.entry(entry.release_id)
            if known is None or (known.number, known.head) != (entry.number, entry.head):
                raise LedgerMismatchError(f"release {entry.release_id!r} was not paid for from this ledger")
            if known.is_stored:
                raise LedgerMismatchError(
                    f"release {entry.release_id!r} has answers already; ask for it again to have those"
                )
            self._check_open(history, aftermath)
            adding.log.add_answers(entry.number, answers)
            adding.append(store_row(history, entry, answers))

        self._seen.write(aftermath, steps, keep_waiting)

    # -------------------------------------------------------------- proofs

    def verify(self, head: str | None = None) -> Verification:
        """Recompute everything from the file's first row on.

        Pages, types, the chain of digests, every charge, their exact sums against the limit, the stored
        answers, and the private versions of tables against what the rows commit to.

        Args:
            head: a head noted earlier, as a release prints it. The ledger must contain the history that
                it stands for.

        Raises:
            LedgerFileError: if anything is not as it was written, or the head is not found: then
                the file was replaced, by an older copy or by another history.
        """
        name = self.name
        with self._seen.reading() as (log, _):
            history = self._seen.read_anew(log)
            check_all(name, log, history)
        if head is not None:
            check_head(name, history, head)
        stored = sum(entry.is_stored for entry in history.entries)
        moved_to = None if history.closed is None else history.closed.to
        return Verification(
            history.dataset, len(history.entries), stored, history.head, history.remaining, moved_to
        )

    def __repr__(self) -> str:
        # Read now: other processes spend too, and a number from when it was opened would mislead.
        try:
            with self._seen.reading() as (_, history):
                left = f"{counted(len(history.entries), 'release')}, left: {history.remaining}"
                if history.closed is not None:
                    is_here = history.closed.to == self.name
                    left = "not in use yet" if is_here else f"closed: moved to {history.closed.to!r}"
            return f"Ledger({self.name!r}, {history.dataset!r}, {left})"
        except LedgerError:
            known = self._seen.last_seen
        whose = "" if known is None else f" {known.dataset!r},"
        return f"Ledger({self.name!r},{whose} which cannot be read now)"

    def __reduce__(self) -> tuple[Any, ...]:
        # In another process it is opened anew, and checked.
        return _reopened, (self.address, self.dataset, self.limit, self.planned, self._seen.timeout)

    # -------------------------------------------------------------- inside

    def _check_identity(
        self, history: History, dataset: str | None, limit: Goal | None, planned: bool | None
    ) -> None:
        name = self.name
        if dataset is not None and dataset != history.dataset:
            raise LedgerMismatchError(
                f"the ledger {name!r} is for the dataset {history.dataset!r}, not {dataset!r}; use its own"
            )
        if limit is not None and limit != history.limit:
            raise LedgerMismatchError(
                f"the ledger {name!r} has the limit {history.limit!r}, which is fixed; ",
                Remedy("leave out ", Argument("limit")),
                field="limit",
                given=limit,
            )
        if planned is not None and planned != history.planned:
            raise LedgerMismatchError(
                f"the ledger {name!r} was made with planned={history.planned}, which is fixed; leave it out"
            )

    def _check_open(self, history: History, aftermath: str = _NOTHING_SPENT) -> None:
        """Refuse to add to a ledger that was moved."""
        closed = history.closed
        if closed is None:
            return
        what = f"is closed: it was moved to {closed.to!r} on {closed.at[:10]}; use that one"
        if closed.to == self.name:
            what = "is not in use yet: the move to it is not complete; run `leastnoise ledger move` again"
        raise LedgerMismatchError(f"the ledger {self.name!r} {what}. {aftermath}")

    def _check_charge(
        self,
        history: History,
        charge: Charge,
        after: Sequence[str],
        goal: Goal | None,
        table: CountedTable | None,
    ) -> Entry | None:
        """Refuse a charge that cannot be paid for; the release it is added to cell by cell, if any."""
        self._check_open(history)
        base = base_of(history, charge, after, table)
        group = None if base is None else base.group
        try:
            fits = history.admits(charge, group)
        except PrivacyError as error:
            raise _not_fitting(error) from None
        if not fits:
            raise over_budget(self.name, history, charge, goal, group)
        return base

    def _replayed(self, log: storage.Log, entry: Entry, charge: Charge) -> bytes:
        if entry.charge.plan_digest != charge.plan_digest:
            raise LedgerMismatchError(
                f"release {entry.release_id!r} is of another plan; use a new release id. {_NOTHING_SPENT}"
            )
        return stored_answers(log, entry)


def _check_same_version(base: Entry, known: storage.Version | None, found: storage.Version) -> None:
    """Refuse a table that is not the one of an earlier release; for the owner, because it tells of it."""
    if base.table is None or known is None or not opens(known, base.table.commitment):
        raise LedgerFileError(
            f"the version of the table that release {base.release_id!r} is about is missing or altered in "
            f"the ledger; restore the file. {_NOTHING_SPENT}"
        )
    if not hmac.compare_digest(known.digest, found.digest):
        raise LedgerMismatchError(
            f"the table is not the one that release {base.release_id!r} measured: it has changed, or is "
            f"another. {_NOTHING_SPENT} ",
            Remedy("Without ", Argument("same_table_as"), " the plan's worst case is charged"),
            ". This message tells about the table; it is for its owner",
            field="same_table_as",
        )


def _not_fitting(error: PrivacyError) -> LedgerMismatchError:
    return LedgerMismatchError(*error.args, f". {_NOTHING_SPENT}", field=error.field, given=error.given)


def _no_short_text(name: str) -> InputError:
    subject = Argument(name, is_subject=True)
    return InputError(subject, " must be a text of 1 to 200 printable characters", field=name)


def _check_arguments(charge: Any, release_id: Any, after: Any, table: Any) -> None:
    if not isinstance(charge, Charge):
        raise InputError(f"a Charge is needed, got {type(charge).__name__}")
    if not is_short_text(release_id):
        raise _no_short_text("release_id")
    if isinstance(after, str) or not all(map(is_short_text, after)) or len(after) > _MOST_AFTER:
        raise InputError(f"after must be a sequence of at most {_MOST_AFTER:,} plan digests")
    if table is not None and not isinstance(table, CountedTable):
        raise InputError.must("table", "be a CountedTable", given=type(table))


def _reopened(path: str, dataset: str, limit: Goal, planned: bool, timeout: float) -> Ledger:
    return Ledger(path, dataset=dataset, limit=limit, planned=planned, timeout=timeout)
