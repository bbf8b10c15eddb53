"""The budget across processes and crashes: one file that only grows.

file      the SQLite file: made, opened, locked, never believed
rows      its rows, chained by hash
history   what the rows say
advice    what would fit where a charge does not
ledger    check, spend, store; verify
export    plain rows for people and programs
"""

from leastnoise.ledger.advice import in_words
from leastnoise.ledger.history import Entry, Stored
from leastnoise.ledger.ledger import SURELY_SPENT, Ledger, Verification

__all__ = ["SURELY_SPENT", "Entry", "Ledger", "Stored", "Verification", "in_words"]
