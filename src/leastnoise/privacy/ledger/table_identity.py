"""The table that a release is about: what a ledger records of it, and how it confirms that it is the same.

Costs are added cell by cell only between releases of one version of one table, counted by the same rules. A
request says so before any data is read, which fixes its price; the version is then only confirmed. Two things
confirm it:

    digest   HMAC-SHA256 over the bytes of the table, with a key that only the ledger has. The log holds a
             commitment to it, SHA-256 of a nonce and the digest, which says nothing about either
    held     the very object in memory that holds the table, if it cannot change

Anything else, such as a table in an engine, cannot be confirmed, and its releases are added by their worst
cases. What people call the table is shown and never believed.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leastnoise.core.errors import InputError
from leastnoise.core.random_bits import SystemBits
from leastnoise.core.remedies import Argument
from leastnoise.privacy.accounting import is_short_text
from leastnoise.privacy.ledger.storage import Version

# How a version can be confirmed; None where it cannot.
WAYS = ("digest", "held", None)

# Bytes of a nonce, a digest and a key.
N_SECRET_BYTES = 32

# Rules of one table, at most: each has a name and a text, and a row's text has a limit.
_MAX_RULES = 40


@dataclass(frozen=True)
class CountedTable:
    """The table that a release is about, as a ledger records it.

    Attributes:
        by: how its version can be confirmed: "digest", "held", or None where it cannot.
        rules: how its records are counted, beside the cells and the records per person that the charge
            holds. Costs are added cell by cell only where all of them are equal.
        label: what people call it; shown, not believed.
        same_as: the id of a release about the same version of the same table; None for any other.
        version: the digest that `Ledger.new_digest` made over its bytes; None before they are read.
        held: the object in memory that holds it and cannot change.
    """

    by: str | None = None
    rules: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None
    same_as: str | None = None
    version: bytes | None = field(default=None, repr=False)
    held: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.by not in WAYS:
            raise InputError.must("by", 'be "digest", "held" or None', given=self.by)
        if not is_rules(self.rules):
            raise InputError(f"rules must be at most {_MAX_RULES} short texts with names", field="rules")
        if self.label is not None and not is_short_text(self.label):
            raise InputError(
                Argument("table", is_subject=True),
                " must be a text of 1 to 200 printable characters: what people call it",
                field="table",
            )
        if self.same_as is not None and not is_short_text(self.same_as):
            raise InputError(
                Argument("same_table_as", is_subject=True),
                " must be the id of a release",
                field="same_table_as",
            )
        if self.version is not None and (self.by != "digest" or not _is_secret(self.version)):
            raise InputError("a version must be what Ledger.new_digest() makes", field="version")
        if (self.held is not None) != (self.by == "held"):
            raise InputError("a table that is held in memory needs the object that holds it", field="table")


def is_rules(rules: Any) -> bool:
    """Whether a value can be the rules of a table."""
    return (
        isinstance(rules, Mapping)
        and len(rules) <= _MAX_RULES
        and all(is_short_text(name) and is_short_text(text) for name, text in rules.items())
    )


def new_secret() -> bytes:
    """Bytes that nobody can guess, for a key or a nonce."""
    return SystemBits().bits(8 * N_SECRET_BYTES).to_bytes(N_SECRET_BYTES, "big")


def commitment(version: Version) -> str:
    """What the log holds of a version: it hides the digest, and fits no other one."""
    return hashlib.sha256(b"leastnoise table version" + version.nonce + version.digest).hexdigest()


def opens(version: Version | None, committed: str | None) -> bool:
    """Whether a version is the one that a commitment in the log is about."""
    return version is not None and all(map(_is_secret, version)) and commitment(version) == committed


def _is_secret(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == N_SECRET_BYTES


# The objects that held the tables of this process's releases, by the digest of the row that paid, which is
# never another's. Weakly: an object that no longer exists confirms nothing.
_held: dict[str, weakref.ref[Any]] = {}


def remember(head: str, table: CountedTable | None) -> None:
    """Note which object held the table of a release that was just paid for."""
    if table is not None and table.held is not None:
        _held[head] = weakref.ref(table.held)


def is_held(head: str, table: CountedTable) -> bool:
    """Whether the table of an earlier release is held by the very same object."""
    known = _held.get(head)
    return known is not None and table.held is not None and known() is table.held
