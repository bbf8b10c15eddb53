"""What is promised, and what it costs: goals, privacy curves, accounting and the ledger.

gaussian_curve   δ(ε) of Gaussian noise, enclosed in proved bounds
goals            PureDP, ApproxDP, ZCDP, GDP
accounting       what releases cost together, exactly
ledger           the budget across processes and crashes
"""

from leastnoise.privacy.accounting.charge import CellCosts, Charge, shown
from leastnoise.privacy.accounting.limits import Remaining, least_limit
from leastnoise.privacy.goals import (
    GDP,
    ZCDP,
    ApproxDP,
    Goal,
    PureDP,
    delta_of,
    epsilon_of,
    exact_number,
    gaussian_delta_bounds,
    goal_from_dict,
)
from leastnoise.privacy.ledger.history import Entry
from leastnoise.privacy.ledger.ledger import Ledger
from leastnoise.privacy.ledger.postgres_log import grants_for
from leastnoise.privacy.ledger.table_identity import CountedTable

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "CellCosts",
    "Charge",
    "CountedTable",
    "Entry",
    "Goal",
    "Ledger",
    "PureDP",
    "Remaining",
    "delta_of",
    "epsilon_of",
    "exact_number",
    "gaussian_delta_bounds",
    "goal_from_dict",
    "grants_for",
    "least_limit",
    "shown",
]
