"""Where a ledger can be kept: a path names a file, an address a schema of a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path

from leastnoise.privacy.ledger.address import is_address, parsed
from leastnoise.privacy.ledger.postgres_database import LedgerDatabase
from leastnoise.privacy.ledger.sqlite_file import LedgerFile, checked_path
from leastnoise.privacy.ledger.storage import Storage


def kept_at(path: str | Path) -> Storage:
    """The storage that a path or an address names.

    Raises:
        InputError: if it is neither.
        LedgerFileError: if the folder of a file does not exist.
    """
    return LedgerDatabase(parsed(str(path))) if is_address(path) else LedgerFile(checked_path(path))


def is_there(path: str | Path) -> bool:
    """Whether a ledger, or anything else, is kept at a path or an address.

    Raises:
        LedgerFileError: if a database cannot be reached.
    """
    return kept_at(path).exists()
