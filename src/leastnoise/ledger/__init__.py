"""The budget across processes and crashes: one file that only grows.

A module imports only modules that stand above it here:

    rows         the rows of the file, chained by hash
    file         the SQLite file: made, opened, locked, never believed
    history      what the rows say
    additions    the rows that a ledger adds
    seen         the file as one object has seen it
    soundness    whether the file still holds what was written into it
    advice       what would fit where a charge does not
    export       plain rows for people and programs
    begun        how often this process has begun to spend
    ledger       check, spend, store; verify
"""

from leastnoise.ledger.advice import in_words
from leastnoise.ledger.begun import begin_to_spend, n_begun
from leastnoise.ledger.history import Entry, Stored
from leastnoise.ledger.ledger import SURELY_SPENT, Ledger
from leastnoise.ledger.soundness import Verification

__all__ = [
    "SURELY_SPENT",
    "Entry",
    "Ledger",
    "Stored",
    "Verification",
    "begin_to_spend",
    "in_words",
    "n_begun",
]
