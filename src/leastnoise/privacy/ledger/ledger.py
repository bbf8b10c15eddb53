"""`Ledger`: what is recorded and left, the three steps that pay for a release, and verification."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from leastnoise.core.errors import InputError, LedgerError, LedgerMismatchError
from leastnoise.core.notebook import NotebookValue, unlisted
from leastnoise.core.printable import counted
from leastnoise.core.remedies import Argument, Remedy
from leastnoise.core.steps import log_step
from leastnoise.privacy.accounting import Charge, Remaining, is_short_text
from leastnoise.privacy.goals import Goal
from leastnoise.privacy.ledger import spending
from leastnoise.privacy.ledger.export import rows_of, write_rows
from leastnoise.privacy.ledger.groups import NOTHING_SPENT
from leastnoise.privacy.ledger.history import Entry, History, opening_row
from leastnoise.privacy.ledger.spending import PaymentRequest, no_short_text
from leastnoise.privacy.ledger.sqlite_file import LedgerFile
from leastnoise.privacy.ledger.table_identity import CountedTable, new_secret
from leastnoise.privacy.ledger.verification import (
    Verification,
    check_all,
    check_head,
    check_pages,
    check_spent,
    stored_answers,
    stored_parts,
)
from leastnoise.privacy.ledger.view import Appending, SeenLedger, storage_at

# Bytes that a release is assumed to need unless `check` is given a number.
_USUAL_BYTES = 2**20

# How much of its goal a plan that counts anybody spends in one of its cells, at least. Rounding keeps all
# methods within 1e-6 of the whole; a test measures them.
LEAST_SHARE_SPENT = Fraction(99, 100)


class Ledger(NotebookValue):
    """The privacy budget of one dataset, kept in one file or in a PostgreSQL database.

    It holds for what the releases promise. Neighbouring tables differ in one record, or, with
    records_per_person=k, in up to k records of one person; with person=, they differ in all records of one
    person, of which at most k are counted (k is 1 unless given).

    Args:
        path: the file. It is created, readable by its owner only, if it does not exist and a limit is given.
            Or the address of a ledger that several machines share, such as
            "postgresql://user@host/database?ledger=town", which is created in the schema ``town``. Keep
            passwords in ~/.pgpass or PGPASSWORD; one in the address is never shown, and is left out when the
            ledger is pickled.
        dataset: a name for the people concerned, fixed when the ledger is created. Everything ever released
            about them belongs in this one ledger. None opens an existing ledger.
        limit: the most that one person may ever spend, fixed when the ledger is created. None opens an
            existing ledger, and so does the same limit.
        planned: whether everything that will ever be charged is fixed before the first answer is seen. Then
            releases of both kinds of noise under `ApproxDP` are added up by their exact privacy curve, which
            would not hold for adaptive choices. Fixed when the ledger is created; None means False for a new
            ledger.
        timeout: seconds to wait for other processes.

    Guarantee:
        Whatever processes spend through this file, and however they end, what `spend` has approved stays
        within the limit, as long as the file or the tables are not replaced. A changed, deleted or moved row
        is detected when the ledger is opened. An older copy of the file is detected by an object that has
        seen a newer one, and by `verify` with a later head.

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

    _unlisted = unlisted("fetch_parts is_same_table store_part")

    def __init__(
        self,
        path: str | Path,
        *,
        dataset: str | None = None,
        limit: Goal | None = None,
        planned: bool | None = None,
        timeout: float = 30.0,
    ) -> None:
        kept_in = storage_at(path)
        if dataset is not None and not is_short_text(dataset):
            raise no_short_text("dataset")
        if limit is not None and not isinstance(limit, Goal):
            raise InputError.must("limit", "be a privacy goal such as ApproxDP", given=type(limit))
        if planned is not None and type(planned) is not bool:
            raise InputError.must("planned", "be True or False", given=planned)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout <= 10**6:
            raise InputError.must("timeout", "be a number of seconds", given=timeout)
        self._seen = SeenLedger(kept_in, float(timeout), NOTHING_SPENT)
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
        log_step("ledger opened", ledger=self.name)

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
        raise InputError(
            "this ledger is kept in a database and has no file; ledger.address says where", field="path"
        )

    @property
    def address(self) -> str:
        """Where it is kept, in a form that opens it again: a path, or an address without its password."""
        return self._seen.storage.shown

    @property
    def name(self) -> str:
        """Its name in messages."""
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
        """The name of the ledger that replaces this one; None as long as this one is in use."""
        with self._seen.reading() as (_, history):
            return None if history.closed is None else history.closed.to

    @property
    def remaining(self) -> Remaining:
        """What is left of the limit, read from the file now."""
        with self._seen.reading() as (_, history):
            return history.remaining

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every release that was paid for, in order, read from the file now."""
        with self._seen.reading() as (_, history):
            return history.entries

    @property
    def head(self) -> str:
        """The digest over all rows; keep it to prove later that no row was removed."""
        with self._seen.reading() as (_, history):
            return history.head

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row of plain values for every release that was paid for, in order; see `export`."""
        return rows_of(self.entries)

    def export(self, path: str | Path) -> Path:
        """Write the rows to a .csv or .jsonl file, without any answers; returns its path.

        ``charged`` is the amount by which a release raised what one person has spent, in ``unit``: rounded
        up, and exactly as text.

        Args:
            path: the file to write, which ends in .csv or .jsonl.

        Raises:
            InputError: if the name has another ending, or is the ledger's own.
        """
        kept_in = self._seen.storage
        if isinstance(kept_in, LedgerFile) and Path(path).exists() and Path(path).samefile(kept_in.path):
            raise InputError(
                "the ledger itself would be overwritten", field="path", remedy="export to another file"
            )
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
        """The stored answers of a release, if any; None if it can be paid for. Changes nothing.

        Args:
            charge: what the release would cost: `Plan.charge`.
            release_id: the id of the release.
            after: digests of the plans that the plan was designed after.
            table: the table to be counted, before it is read. None charges the worst case, permanently.
            expected_bytes: the approximate size of the answers; refuses if there is no room for them.
            goal: the goal that the plan was designed for, so that a refusal can name the largest that would
                fit; None where it follows from targets or from other plans.

        Raises:
            OverBudgetError: if too little is left.
            AlreadySpentError: if the release was paid for and its answers were never stored.
            LedgerMismatchError: if the id belongs to another plan, the charge does not fit the limit, plans
                of ``after`` were never released, or nothing could confirm that the table is the one named.
            LedgerFileError, LedgerBusyError: if the ledger cannot be used now.
        """
        request = PaymentRequest(charge, release_id, after, table, goal)
        if type(expected_bytes) is not int or expected_bytes < 0:
            raise InputError.must("expected_bytes", "be a whole number of bytes", given=expected_bytes)
        stored = spending.check(self._seen, request, expected_bytes)
        log_step("charge checked" if stored is None else "answers known", release=release_id)
        return stored

    def check_goal(
        self, goal: Goal, *, same_table_as: str | None = None, share: Fraction = LEAST_SHARE_SPENT
    ) -> None:
        """Raise if no plan for a goal can be paid for: called before a long design. Changes nothing.

        What passes may still be refused once the plan exists. What is refused here would have been refused
        then: a plan spends its goal in some cell, and even if that were the cell that has spent least, too
        little is left.

        Args:
            goal: the privacy goal of the plan to be designed.
            same_table_as: the release to whose costs the plan's are added cell by cell; None for none.
            share: the share of the goal that the plan is certain to spend in one of its cells; 0 checks only
                whether plans of this kind fit the limit at all.

        Raises:
            OverBudgetError: if too little is left; the message names the largest goal of this kind that would
                fit.
            LedgerMismatchError: if no plan of this kind fits the limit, whatever it costs.
            LedgerFileError, LedgerBusyError: if the ledger cannot be used now.
        """
        if not isinstance(goal, Goal):
            raise InputError.must("goal", "be a privacy goal such as ApproxDP", given=type(goal))
        if not 0 <= share <= 1:
            raise InputError.must("share", "lie between 0 and 1", given=share)
        spending.check_goal(self._seen, goal, same_table_as, Fraction(share))

    def fetch(
        self, release_id: str, *, keep_waiting: Callable[[], bool] | None = None
    ) -> tuple[Entry, bytes] | None:
        """A release that was paid for and its stored answers, whatever its plan; None if there is none.

        Args:
            release_id: the id of the release.
            keep_waiting: as in `store`.

        Raises:
            AlreadySpentError: if it was paid for and its answers were never stored.
            LedgerFileError, LedgerBusyError: if the ledger cannot be used now.
        """
        with self._seen.reading(keep_waiting) as (log, history):
            entry = history.entry(release_id)
            return None if entry is None else (entry, stored_answers(log, entry))

    def new_digest(self) -> hmac.HMAC:
        """An empty HMAC-SHA256 with this ledger's own key, for the bytes of a table.

        Its digest is the ``version`` of a `CountedTable`. The key is in a private table of the ledger, and no
        export, representation or head shows it.
        """
        with self._seen.reading() as (log, _):
            key = log.key()
        if key is None:

            def steps(adding: Appending, _: History) -> bytes | None:
                adding.log.upgrade(new_secret)
                return adding.log.key()

            key = self._seen.write(NOTHING_SPENT, steps)
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
        """Pay for a release. Noise may be drawn only after this has returned.

        Args:
            charge, release_id, after: as in `check`.
            table: as in `check`, with the digest of what was read where the table has one.
            goal: as in `check`.

        Guarantee:
            The charge is on disk, and everything on disk stays within the limit: both are decided while all
                other writers wait. The price follows from the request and the log; the table only decides
                whether it is paid at all.

        Raises:
            OverBudgetError, AlreadySpentError, LedgerMismatchError, LedgerFileError, LedgerBusyError: as
                `check` does, and if the table is not the one that the request names; nothing was spent then.
        """
        entry = spending.spend(self._seen, PaymentRequest(charge, release_id, after, table, goal))
        log_step("charge spent", release=release_id)
        return entry

    def store(self, entry: Entry, answers: bytes, *, keep_waiting: Callable[[], bool] | None = None) -> None:
        """Store the answers of a release that was paid for. Only then may they be handed out.

        Args:
            entry: what `spend` returned.
            answers: the answers, as bytes.
            keep_waiting: called repeatedly while others hold the ledger; True keeps waiting beyond the
                ledger's timeout. Waits for readers, and lets no new ones in meanwhile. None stops at the
                timeout.

        Raises:
            TooLargeError: if there are more than 512 MiB of them.
            LedgerMismatchError: if the release is not this ledger's, or has answers already.
            LedgerFileError, LedgerBusyError: if they could not be stored; you may try again.
        """
        spending.store(self._seen, entry, answers, keep_waiting)
        log_step("answers stored", release=entry.release_id)

    def is_same_table(self, entry: Entry, table: CountedTable) -> bool:
        """Whether a table is confirmed to be the version that a release of this ledger was about.

        False also where nothing can confirm it: for a table in an engine, or a frame that another object or
        process held.

        Args:
            entry: the release in this ledger, as `entries` lists it.
            table: as in `spend`, with the digest of what was read where the table has one.

        Raises:
            LedgerFileError, LedgerBusyError: if the ledger cannot be used now.
        """
        return spending.is_same_table(self._seen, entry, table)

    # -------------------------------------------------------------- streams, and releases in blocks

    def fetch_parts(self, release_id: str) -> tuple[Entry, bytes, list[bytes]] | None:
        """A stream that was paid for, its plan, and what was published of it; None if there is none.

        For a release in blocks, its plan and the digests of the blocks drawn so far.

        Args:
            release_id: the id of the stream, or of the release in blocks.

        Raises:
            AlreadySpentError: if it was paid for and its plan was never stored.
            LedgerFileError, LedgerBusyError: if the ledger cannot be used now.
        """
        with self._seen.reading() as (log, history):
            entry = history.entry(release_id)
            if entry is None:
                return None
            return entry, stored_answers(log, entry), stored_parts(log, entry)

    def store_part(self, entry: Entry, period: str, answers: bytes, *, n_before: int) -> bool:
        """Store what a stream publishes in one period. Only then may it be handed out.

        For a release in blocks, the digest of one block that is on disk.

        Args:
            entry: what `spend` returned.
            period: the name of the period, or "block" and its number.
            answers: what was published in it, as bytes.
            n_before: the number of periods that were stored when the table was read.

        Returns:
            False if there are others by now: nothing was stored, and these answers must be thrown away.

        Raises:
            LedgerMismatchError: if the stream is not this ledger's.
            LedgerFileError, LedgerBusyError: if they could not be stored; nothing was handed out.
        """
        return spending.store_part(self._seen, entry, period, answers, n_before)

    # -------------------------------------------------------------- proofs

    def verify(self, head: str | None = None) -> Verification:
        """Recompute everything from the file's first row on.

        Checks pages, types, the chain of digests, every charge, their exact sums against the limit, the
        stored answers, and the private versions of tables against what the rows commit to.

        Args:
            head: a head noted earlier, as a release prints it; the ledger must contain that history. None
                checks only the file itself.

        Raises:
            LedgerFileError: if the ledger was modified after it was written, or the head is not found: then
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
                f"the ledger {name!r} is for the dataset {history.dataset!r}, not {dataset!r}",
                field="dataset",
                given=dataset,
                remedy="use its own",
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
                f"the ledger {name!r} was made with planned={history.planned}, which is fixed",
                field="planned",
                remedy="leave it out",
            )


def _reopened(path: str, dataset: str, limit: Goal, planned: bool, timeout: float) -> Ledger:
    return Ledger(path, dataset=dataset, limit=limit, planned=planned, timeout=timeout)
