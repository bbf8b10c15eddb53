"""A release that is paid for, from then until its answers are stored.

What was paid for must not be lost to a moment in which the ledger cannot be written: others hold it, its
disk is full, its folder is away. The answers are kept in memory and storing is tried again and again until it
succeeds or a person stops it. Nothing is handed out before it is stored, read back and compared.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field

from leastnoise.core import container
from leastnoise.core.errors import (
    AlreadySpentError,
    LedgerBusyError,
    LedgerError,
    LedgerFileError,
    LedgerMismatchError,
    PlanFileError,
    StoringDelayed,
    UnstoredError,
)
from leastnoise.core.interruption import Interruption, finished_first
from leastnoise.planning import Plan, plan_from_parts
from leastnoise.privacy import Entry, Ledger
from leastnoise.release.release import Release, warn_of_rest

# Seconds before storing is tried again for the first time; each wait is then twice the last.
_FIRST_WAIT = 0.05

# Seconds that a wait lasts at most.
_LONGEST_WAIT = 2.0

# Seconds between two checks for an interruption.
_INTERRUPTION_INTERVAL = 0.05


@dataclass(frozen=True)
class PaidRelease:
    """Answers that are paid for and not handed out; ``repr`` does not show them."""

    ledger: Ledger
    entry: Entry
    release: Release = field(repr=False)
    body: bytes = field(repr=False)

    def stored(self, interruption: Interruption) -> Release:
        """The release, once its answers are on the disk and were read back; however long that takes.

        Raises:
            UnstoredError: if a person stopped it, or the ledger will never take them.
        """
        wait, is_told = _FIRST_WAIT, False
        while True:
            try:
                self._attempt(interruption)
                return self.release
            except (LedgerBusyError, LedgerFileError) as error:
                reason: LedgerError = error
            except LedgerError as error:
                raise self._unstored(f"{error}") from None
            if interruption.is_heard:
                interruption.answer()
                raise self._unstored(f"stopped by Ctrl-C while {reason}") from None
            if not is_told:
                is_told = True
                self._tell(reason)
            pause(wait, interruption)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _tell(self, reason: LedgerError) -> None:
        """Say once why it takes long. Where warnings are made errors, that is a wish to stop."""
        try:
            warnings.warn(
                f"release {self.entry.release_id!r} is paid for and cannot be stored yet: {reason} It is "
                "tried again until it is stored; Ctrl-C stops that and keeps the answers in memory",
                StoringDelayed,
                stacklevel=2,
            )
        except StoringDelayed:
            raise self._unstored(f"{reason}") from None

    def _attempt(self, interruption: Interruption) -> None:
        """Store, read back, compare. What an earlier attempt has stored, whatever it was told, counts."""

        def goes_on() -> bool:
            return not interruption.is_heard

        name = self.entry.release_id
        try:
            found = self.ledger.fetch(name, keep_waiting=goes_on)
        except AlreadySpentError:
            self.ledger.store(self.entry, self.body, keep_waiting=goes_on)
            found = self.ledger.fetch(name, keep_waiting=goes_on)
        if found is None or found[0].head != self.entry.head or found[1] != self.body:
            raise LedgerMismatchError(
                "the answers that the ledger has stored are not those that it was given.", field="answers"
            )

    def _unstored(self, reason: str) -> UnstoredError:
        return UnstoredError(
            f"release {self.entry.release_id!r} is paid for and its answers are not stored: {reason} They "
            "are kept in memory by this error, and only there: call its store() to try again. Nothing was "
            "handed out",
            release_id=self.entry.release_id,
            store=self._again,
        )

    def _again(self) -> Release:
        with finished_first() as interruption:
            release = self.stored(interruption)
        # Called by `UnstoredError.store`, which a person called.
        warn_of_rest(release, stacklevel=4)
        return release


def check_readable(plan: Plan) -> None:
    """Refuse a plan that could not be read back from what would be stored, before it is paid for.

    Raises:
        PlanFileError: saying so.
    """
    try:
        content, arrays = container.from_bytes(container.to_bytes("plan", *plan.to_parts()), "plan", "plan")
        is_same = plan_from_parts(content, arrays, "plan").digest == plan.digest
    except PlanFileError as error:
        raise PlanFileError(
            f"this plan could not be read back from a ledger: {error}. Nothing was spent", field="plan"
        ) from None
    if not is_same:
        raise PlanFileError(
            "this plan would be read back as another from a ledger. Nothing was spent", field="plan"
        )


def pause(seconds: float, interruption: Interruption) -> None:
    """Wait, but not for longer than it takes to notice that somebody wants to stop."""
    end = time.monotonic() + seconds
    while not interruption.is_heard and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _INTERRUPTION_INTERVAL))
