"""The budget across processes and crashes: one file, or one schema of a database, that only grows.

A file imports only files that stand above it here:

    rows               the rows of the log, chained by hash
    storage            what a ledger asks of the place it is kept in
    sqlite_log         every SQL statement on a file
    sqlite_file        the SQLite file: made, opened, locked, never believed
    address            where a ledger in PostgreSQL is, without its password
    postgres_log       every SQL statement on a database
    postgres_database  the database: connected to, taken turns in, never believed
    table_identity     the table that a release is about, and how it is confirmed to be the same
    history            what the rows say
    view               where a ledger is kept, and what one object has seen there
    groups             which releases a new one is added to cell by cell
    verification       whether the ledger still holds what was written into it
    advice             what would fit where a charge does not
    export             plain rows for people and programs
    spending           check, spend, store: the steps that pay for a release
    ledger             one ledger as its users hold it; verify
    moving             from a file to a database, and back
"""

from leastnoise.privacy.ledger.address import is_address, without_password
from leastnoise.privacy.ledger.advice import goal_to_text
from leastnoise.privacy.ledger.export import rows_text
from leastnoise.privacy.ledger.history import Entry, RecordedTable, StoredAnswers
from leastnoise.privacy.ledger.ledger import LEAST_SHARE_SPENT, Ledger
from leastnoise.privacy.ledger.moving import move_ledger
from leastnoise.privacy.ledger.postgres_log import grants_for
from leastnoise.privacy.ledger.spending import n_spendings_started, note_spending_started
from leastnoise.privacy.ledger.table_identity import CountedTable
from leastnoise.privacy.ledger.verification import Verification
from leastnoise.privacy.ledger.view import ledger_exists

__all__ = [
    "LEAST_SHARE_SPENT",
    "CountedTable",
    "Entry",
    "Ledger",
    "RecordedTable",
    "StoredAnswers",
    "Verification",
    "goal_to_text",
    "grants_for",
    "is_address",
    "ledger_exists",
    "move_ledger",
    "n_spendings_started",
    "note_spending_started",
    "rows_text",
    "without_password",
]
