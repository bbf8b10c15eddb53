"""The budget across processes and crashes: one file that only grows.

file      the SQLite file: made, opened, locked, never believed
rows      its rows, chained by hash
history   what the rows say
ledger    check, spend, store; verify
export    plain rows for people and programs
"""

from leastnoise.ledger.history import Entry, Stored
from leastnoise.ledger.ledger import Ledger, Verification

__all__ = ["Entry", "Ledger", "Stored", "Verification"]
