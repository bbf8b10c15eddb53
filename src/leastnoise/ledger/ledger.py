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

import sqlite3
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from leastnoise.accounting import Charge, Remaining, is_short_text
from leastnoise.errors import (
    AlreadySpentError,
    InputError,
    LedgerMismatchError,
    PrivacyError,
    TooLargeError,
)
from leastnoise.ledger import file
from leastnoise.ledger.additions import opening_row, spend_row, store_row
from leastnoise.ledger.advice import over_budget
from leastnoise.ledger.begun import begin_to_spend
from leastnoise.ledger.export import rows_of, write_rows
from leastnoise.ledger.history import Entry, History
from leastnoise.ledger.rows import opened
from leastnoise.ledger.seen import SeenFile
from leastnoise.ledger.soundness import (
    Verification,
    check_answers,
    check_head,
    check_pages,
    check_spent,
    stored_answers,
)
from leastnoise.printable import counted
from leastnoise.privacy import Goal

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
    """The privacy budget of one dataset, kept in one file.

    Args:
        path: the file. It is made, readable by its owner only, if it does not exist and a limit is given.
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
        stays within the limit, as long as the file is not replaced. A row that was changed, dropped or
        moved is found when the ledger is opened. An older copy of the file is found by an object that has
        seen a newer one, and by `verify` with a later head.

    Raises:
        LedgerFileError, LedgerBusyError, LedgerMismatchError: see `leastnoise.errors`.

    Example:
        >>> import tempfile
        >>> from leastnoise.privacy import GDP
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
        self._path = file.checked_path(path)
        if dataset is not None and not is_short_text(dataset):
            raise InputError("dataset must be a text of 1 to 200 printable characters")
        if limit is not None and not isinstance(limit, Goal):
            raise InputError(f"limit must be a privacy goal such as ApproxDP, got {type(limit).__name__}")
        if planned is not None and type(planned) is not bool:
            raise InputError(f"planned must be True or False, got {planned!r}")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout <= 10**6:
            raise InputError(f"timeout must be a number of seconds, got {timeout!r}")
        self._file = SeenFile(self._path, float(timeout), _NOTHING_SPENT)
        if limit is not None and not self._path.exists() and not self._path.is_symlink():
            if dataset is None:
                raise InputError("a new ledger needs dataset=, a name for the people it is about")
            file.create(self._path, opening_row(dataset, limit, bool(planned)))
        with self._file.reading() as (connection, history):
            check_pages(self._path.name, connection)
            check_spent(self._path.name, history)
            self._check_identity(history, dataset, limit, planned)

    # -------------------------------------------------------------- what it says

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path

    @property
    def dataset(self) -> str:
        """The name of the people it is about."""
        return self._file.history.dataset

    @property
    def limit(self) -> Goal:
        """The most that one person may ever spend."""
        return self._file.history.limit

    @property
    def planned(self) -> bool:
        """Whether everything charged is fixed before the first answer is seen."""
        return self._file.history.planned

    @property
    def remaining(self) -> Remaining:
        """What the limit leaves, read from the file now."""
        with self._file.reading() as (_, history):
            return history.remaining

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every release that was paid for, in order, read from the file now."""
        with self._file.reading() as (_, history):
            return history.entries

    @property
    def head(self) -> str:
        """The digest over all rows; whoever has noted it can tell later whether any is gone."""
        with self._file.reading() as (_, history):
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
        if Path(path).exists() and Path(path).samefile(self._path):
            raise InputError("the ledger itself would be overwritten; export to another file")
        return write_rows(self.rows, path)

    # -------------------------------------------------------------- the three steps

    def check(
        self,
        charge: Charge,
        release_id: str,
        after: Sequence[str] = (),
        *,
        expected_bytes: int = _USUAL_BYTES,
        goal: Goal | None = None,
    ) -> bytes | None:
        """The stored answers of a release, if there are; None if it can be paid for. Changes nothing.

        Args:
            after: digests of the plans that the plan was designed after.
            expected_bytes: about how large the answers will be; room for them is made sure of.
            goal: what the plan was designed for, so that a refusal names the largest that would fit; None
                where it follows from targets or from other plans.

        Raises:
            OverBudgetError: if too little is left.
            AlreadySpentError: if the release was paid for and its answers never stored.
            LedgerMismatchError: if the id belongs to another plan, the charge does not fit the limit, or
                plans of ``after`` were never released.
            LedgerFileError, LedgerBusyError: if the file cannot be relied on now.
        """
        _check_arguments(charge, release_id, after)
        if type(expected_bytes) is not int or expected_bytes < 0:
            raise InputError(f"expected_bytes must be a whole number of bytes, got {expected_bytes!r}")
        with self._file.writing(_NOTHING_SPENT) as (log, history):
            entry = history.entry(release_id)
            if entry is not None:
                return self._replayed(log.connection, entry, charge)
            self._check_charge(history, charge, after, goal)
            row = spend_row(history, charge, release_id, after)
            # A file that cannot be written to is found out here, before any data is read.
            file.rehearse(log.connection, row)
        file.check_room(
            self._path, expected_bytes + len(row.profile or b"") + _OVERHEAD_BYTES, aftermath=_NOTHING_SPENT
        )
        return None

    def check_goal(self, goal: Goal, cells: str, *, share: Fraction = SURELY_SPENT) -> None:
        """Return unless no plan for a goal can be paid for: asked before a long design. Changes nothing.

        What passes may still be refused once the plan is there. What is refused here would have been refused
        then: a plan spends its goal in some cell, and even if that were the cell that has spent least,
        too little is left.

        Args:
            cells: a digest of what the plan's cells are, as a charge holds it.
            share: how much of the goal the plan is sure to spend in one of its cells; 0 to ask only whether
                plans of this kind fit the limit at all.

        Raises:
            OverBudgetError: naming the largest goal of this kind that would fit.
            LedgerMismatchError: if no plan of this kind fits the limit, whatever it costs.
            LedgerFileError, LedgerBusyError: if the file cannot be relied on now.
        """
        if not isinstance(goal, Goal):
            raise InputError(f"goal must be a privacy goal such as ApproxDP, got {type(goal).__name__}")
        if not 0 <= share <= 1:
            raise InputError(f"share must lie between 0 and 1, got {share!r}")
        with self._file.reading() as (_, history):
            try:
                is_out = history.rules_out(goal, cells, Fraction(share))
            except PrivacyError as error:
                raise LedgerMismatchError(f"{error}. {_NOTHING_SPENT}") from None
            if is_out:
                raise over_budget(self._path.name, history, None, goal)

    def fetch(self, release_id: str) -> tuple[Entry, bytes] | None:
        """A release that was paid for and its stored answers, whatever its plan; None if there is none.

        Raises:
            AlreadySpentError: if it was paid for and its answers never stored.
            LedgerFileError, LedgerBusyError: if the file cannot be relied on now.
        """
        with self._file.reading() as (connection, history):
            entry = history.entry(release_id)
            return None if entry is None else (entry, stored_answers(connection, entry))

    def spend(
        self, charge: Charge, release_id: str, after: Sequence[str] = (), *, goal: Goal | None = None
    ) -> Entry:
        """Pay for a release. Only when this has returned may noise be drawn.

        Args:
            goal: as in `check`.

        Guarantee:
            The charge is on the disk, and everything on the disk stays within the limit: both are
            decided while all other writers wait.

        Raises:
            OverBudgetError, AlreadySpentError, LedgerMismatchError, LedgerFileError, LedgerBusyError: as
            `check` does; nothing was spent then.
        """
        _check_arguments(charge, release_id, after)
        in_doubt = f"{_NOTHING_SPENT} If in doubt, see what the ledger lists."
        with self._file.writing(in_doubt) as (log, history):
            if history.entry(release_id) is not None:
                raise AlreadySpentError(
                    f"release {release_id!r} was paid for in the meantime; ask for it again to have its "
                    "answers once they are stored, or use a new release id"
                )
            self._check_charge(history, charge, after, goal)
            row = spend_row(history, charge, release_id, after)
            entry = history.entry_of(row, opened(row, history.head, history.n_rows))
            begin_to_spend()
            log.append(row)
        return entry

    def store(self, entry: Entry, answers: bytes) -> None:
        """Keep the answers of a release that was paid for. Only then may they be handed out.

        Raises:
            TooLargeError: if there are more than 512 MiB of them.
            LedgerMismatchError: if the release is not this ledger's, or has answers already.
            LedgerFileError, LedgerBusyError: if they could not be stored; it may be tried again.
        """
        if not isinstance(entry, Entry) or not isinstance(answers, bytes):
            raise InputError("store() needs the Entry that spend() returned, and bytes")
        if len(answers) > file.MAX_ANSWER_BYTES:
            raise TooLargeError(
                f"the answers take {len(answers):,} bytes, and a ledger keeps at most "
                f"{file.MAX_ANSWER_BYTES:,}. The release is paid for; its answers must not be handed out"
            )
        aftermath = "The release is paid for, its answers are not stored and must not be handed out."
        with self._file.writing(aftermath) as (log, history):
            known = history.entry(entry.release_id)
            if known is None or (known.number, known.head) != (entry.number, entry.head):
                raise LedgerMismatchError(f"release {entry.release_id!r} was not paid for from this ledger")
            if known.is_stored:
                raise LedgerMismatchError(
                    f"release {entry.release_id!r} has answers already; ask for it again to have those"
                )
            log.connection.execute("INSERT INTO answers VALUES (?, ?)", (entry.number, answers))
            log.append(store_row(history, entry, answers))

    # -------------------------------------------------------------- proofs

    def verify(self, head: str | None = None) -> Verification:
        """Recompute everything from the file's first row on.

        Pages, types, the chain of digests, every charge, their exact sums against the limit, and the
        stored answers.

        Args:
            head: a head noted earlier, as a release prints it. The ledger must contain the history that
                it stands for.

        Raises:
            LedgerFileError: if anything is not as it was written, or the head is not found: then
                the file was replaced, by an older copy or by another history.
        """
        name = self._path.name
        with self._file.reading() as (connection, _):
            check_pages(name, connection)
            history = self._file.read_anew(connection)
            check_spent(name, history)
            check_answers(name, connection, history)
        if head is not None:
            check_head(name, history, head)
        stored = sum(entry.is_stored for entry in history.entries)
        return Verification(history.dataset, len(history.entries), stored, history.head, history.remaining)

    def __repr__(self) -> str:
        seen = self._file.history
        releases = counted(len(seen.entries), "release")
        return f"Ledger({self._path.name!r}, {seen.dataset!r}, {releases}, left: {seen.remaining})"

    def __reduce__(self) -> tuple[Any, ...]:
        # In another process it is opened anew, and checked.
        return _reopened, (str(self._path), self.dataset, self.limit, self.planned, self._file.timeout)

    # -------------------------------------------------------------- inside

    def _check_identity(
        self, history: History, dataset: str | None, limit: Goal | None, planned: bool | None
    ) -> None:
        name = self._path.name
        if dataset is not None and dataset != history.dataset:
            raise LedgerMismatchError(
                f"the ledger {name!r} is for the dataset {history.dataset!r}, not {dataset!r}; use its own"
            )
        if limit is not None and limit != history.limit:
            raise LedgerMismatchError(
                f"the ledger {name!r} has the limit {history.limit!r}, which is fixed; leave out limit="
            )
        if planned is not None and planned != history.planned:
            raise LedgerMismatchError(
                f"the ledger {name!r} was made with planned={history.planned}, which is fixed; leave it out"
            )

    def _check_charge(
        self, history: History, charge: Charge, after: Sequence[str], goal: Goal | None
    ) -> None:
        """Refuse a charge that cannot be paid for."""
        missing = history.missing(after)
        if missing:
            raise LedgerMismatchError(
                f"the plan was designed after others, of which {len(missing)} were not released from this "
                f"ledger ({missing[0]!r}); measure those first, with this ledger. {_NOTHING_SPENT}"
            )
        try:
            fits = history.admits(charge)
        except PrivacyError as error:
            raise LedgerMismatchError(f"{error}. {_NOTHING_SPENT}") from None
        if not fits:
            raise over_budget(self._path.name, history, charge, goal)

    def _replayed(self, connection: sqlite3.Connection, entry: Entry, charge: Charge) -> bytes:
        if entry.charge.plan_digest != charge.plan_digest:
            raise LedgerMismatchError(
                f"release {entry.release_id!r} is of another plan; use a new release id. {_NOTHING_SPENT}"
            )
        return stored_answers(connection, entry)


def _check_arguments(charge: Any, release_id: Any, after: Any) -> None:
    if not isinstance(charge, Charge):
        raise InputError(f"a Charge is needed, got {type(charge).__name__}")
    if not is_short_text(release_id):
        raise InputError("release_id must be a text of 1 to 200 printable characters")
    if isinstance(after, str) or not all(map(is_short_text, after)) or len(after) > _MOST_AFTER:
        raise InputError(f"after must be a sequence of at most {_MOST_AFTER:,} plan digests")


def _reopened(path: str, dataset: str, limit: Goal, planned: bool, timeout: float) -> Ledger:
    return Ledger(path, dataset=dataset, limit=limit, planned=planned, timeout=timeout)
