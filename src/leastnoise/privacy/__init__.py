"""What is promised, and what it costs: goals, privacy curves, accounting and the ledger.

gaussian_curve   δ(ε) of Gaussian noise, enclosed in proved bounds
noise_kinds      Gaussian and Laplace noise, each with its arithmetic
neighbours       which tables are neighbours, each relation with its arithmetic
goals            PureDP, ApproxDP, ZCDP, GDP
least_loss       the least loss that meets the targets, where no budget is given
accounting       what releases cost together, exactly
ledger           the budget across processes and crashes
"""

from leastnoise.privacy.accounting import full_charge
from leastnoise.privacy.accounting.charge import CellCosts, Charge, shown
from leastnoise.privacy.accounting.limits import Remaining, least_limit
from leastnoise.privacy.gaussian_curve import (
    delta_of,
    epsilon_of,
    exact_number,
    gaussian_delta_bounds,
    pure_of_mu_squared,
)
from leastnoise.privacy.goals import GDP, ZCDP, ApproxDP, Goal, PureDP, goal_from_dict
from leastnoise.privacy.least_loss import LeastLoss, least_loss_of
from leastnoise.privacy.ledger import (
    LEAST_SHARE_SPENT,
    Verification,
    goal_to_text,
    is_address,
    ledger_exists,
    move_ledger,
    n_spendings_started,
    note_spending_started,
    rows_text,
    without_password,
)
from leastnoise.privacy.ledger.history import Entry
from leastnoise.privacy.ledger.ledger import Ledger
from leastnoise.privacy.ledger.postgres_log import grants_for
from leastnoise.privacy.ledger.table_identity import CountedTable
from leastnoise.privacy.neighbours import (
    ADD_REMOVE,
    NEIGHBOURS,
    ONE_PERSON,
    REPLACE_ONE,
    Neighbours,
    neighbours_named,
)
from leastnoise.privacy.noise_kinds import GAUSSIAN, LAPLACE, NOISES, Noise, noise_named

__all__ = [
    "ADD_REMOVE",
    "GAUSSIAN",
    "GDP",
    "LAPLACE",
    "LEAST_SHARE_SPENT",
    "NEIGHBOURS",
    "NOISES",
    "ONE_PERSON",
    "REPLACE_ONE",
    "ZCDP",
    "ApproxDP",
    "CellCosts",
    "Charge",
    "CountedTable",
    "Entry",
    "Goal",
    "LeastLoss",
    "Ledger",
    "Neighbours",
    "Noise",
    "PureDP",
    "Remaining",
    "Verification",
    "delta_of",
    "epsilon_of",
    "exact_number",
    "full_charge",
    "gaussian_delta_bounds",
    "goal_from_dict",
    "goal_to_text",
    "grants_for",
    "is_address",
    "least_limit",
    "least_loss_of",
    "ledger_exists",
    "move_ledger",
    "n_spendings_started",
    "neighbours_named",
    "noise_named",
    "note_spending_started",
    "pure_of_mu_squared",
    "rows_text",
    "shown",
    "without_password",
]
