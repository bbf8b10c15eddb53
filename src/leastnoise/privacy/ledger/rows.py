"""The rows of a ledger's log, chained by hash.

    digest_n = SHA-256(digest_(n−1) ‖ number ‖ kind ‖ content ‖ profile),   each with its length before it

so that no row can be changed, dropped, inserted or moved without changing every digest after it.
Content is JSON in one spelling only; what can be read but is spelled otherwise was not written here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from leastnoise.core.errors import LedgerFileError

# What the first row follows.
NOTHING = "0" * 64

# A thousand digests of plans, each of 200 characters that JSON may write as twelve, fit.
_MAX_CONTENT = 2**22


class Row(NamedTuple):
    """One row as the file holds it.

    Attributes:
        kind: "open", "spend" or "store"; "close" where the ledger was moved from, "continue" where it was
            moved to.
        content: plain values, as JSON.
        profile: the packed costs of the cells, of a spend that has them.
        digest: over this row and the digest of the one before.
    """

    number: int
    kind: str
    content: str
    profile: bytes | None
    digest: str


def sealed(before: str, number: int, kind: str, content: Mapping[str, Any], profile: bytes | None) -> Row:
    """The row that follows another.

    Raises:
        ValueError: if the content holds what JSON does not.
    """
    text = _spelled(content)
    return Row(number, kind, text, profile, digest_of(before, number, kind, text, profile))


def opened(row: Row, before: str, number: int) -> dict[str, Any]:
    """The content of a row of a file, once its types, its place and its digest are checked.

    Raises:
        LedgerFileError: if any of them is wrong.
    """
    right = (
        type(row.number) is int
        and row.number == number
        and isinstance(row.kind, str)
        and isinstance(row.content, str)
        and len(row.content) <= _MAX_CONTENT
        and (row.profile is None or isinstance(row.profile, bytes))
        and row.digest == digest_of(before, row.number, row.kind, row.content, row.profile)
    )
    if right:
        try:
            content = json.loads(row.content)
            if isinstance(content, dict) and _spelled(content) == row.content:
                return content
        except (ValueError, RecursionError):
            pass
    raise LedgerFileError(
        f"row {number} of the ledger is missing, altered or damaged",
        field="row",
        given=number,
        remedy="restore the file",
    )


def digest_of(before: str, number: int, kind: str, content: str, profile: bytes | None) -> str:
    """The digest of a row, given the one before."""
    total = hashlib.sha256()
    # A profile that is absent and one that is empty must differ.
    parts = (before, str(number), kind, content, "absent" if profile is None else "present")
    for part in (*(text.encode("utf-8", "surrogatepass") for text in parts), profile or b""):
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.hexdigest()


def _spelled(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
