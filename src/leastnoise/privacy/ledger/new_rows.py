"""The rows that a ledger adds: to begin with, when a release is paid for or stored, when it moves."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

from leastnoise.core.errors import InputError
from leastnoise.privacy.accounting import Charge, check_limit
from leastnoise.privacy.goals import Goal
from leastnoise.privacy.ledger.history import FORMAT, Entry, History
from leastnoise.privacy.ledger.rows import NOTHING, Row, sealed
from leastnoise.privacy.ledger.table_identity import CountedTable


def opening_row(dataset: str, limit: Goal, planned: bool) -> Row:
    """The first row, which fixes what the ledger is about.

    Raises:
        InputError: if the limit cannot be written down.
    """
    check_limit(limit)
    try:
        content = {
            "format": FORMAT,
            "dataset": dataset,
            "limit": limit.to_dict(),
            "planned": planned,
            "at": _now(),
        }
        return sealed(NOTHING, 0, "open", content, None)
    except ValueError:
        raise InputError("the limit has more digits than can be written; round it") from None


def spend_row(
    history: History,
    charge: Charge,
    release_id: str,
    after: Sequence[str],
    table: CountedTable | None = None,
    same_as: str | None = None,
    committed: str | None = None,
) -> Row:
    """The row that pays for a release.

    Args:
        same_as: the release whose table it is about too; None for the first about its table.
        committed: the commitment to the digest of the table's bytes, if it is noted so.
    """
    content, profile = charge.to_parts()
    told = CountedTable() if table is None else table
    about = {
        "by": told.by,
        "rules": dict(told.rules),
        "label": told.label,
        "same_as": same_as,
        "commitment": committed,
    }
    said = {"release_id": release_id, "after": list(after), "at": _now(), "charge": content, "table": about}
    return sealed(history.head, history.n_rows, "spend", said, profile)


def store_row(history: History, entry: Entry, answers: bytes) -> Row:
    """The row that says which answers a release has."""
    said = {
        "release_id": entry.release_id,
        "spend": entry.number,
        "size": len(answers),
        "sha256": hashlib.sha256(answers).hexdigest(),
        "at": _now(),
    }
    return sealed(history.head, history.n_rows, "store", said, None)


def closing_row(history: History, to: str, token: str) -> Row:
    """The row that closes a ledger, because another goes on in its place."""
    said = {"to": to, "token": token, "at": _now()}
    return sealed(history.head, history.n_rows, "close", said, None)


def continuing_row(history: History, moved_from: str) -> Row:
    """The row by which a ledger goes on where it was moved to."""
    assert history.closed is not None
    said = {"from": moved_from, "token": history.closed.token, "at": _now()}
    return sealed(history.head, history.n_rows, "continue", said, None)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
