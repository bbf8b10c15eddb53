"""What releases cost, alone and together, and whether that stays within a limit.

charge        what one release costs, exactly, cell by cell where cells can be counted
tally         what several charges come to
mixed_curve   δ(ε) of Gaussian noise together with mechanisms of pure privacy
limits        whether charges stay within a limit, and what it leaves
"""

from leastnoise.privacy.accounting.charge import CellCosts, Charge, charge_from_parts, is_short_text, shown
from leastnoise.privacy.accounting.limits import (
    Remaining,
    check_kind,
    check_limit,
    full_charge,
    least_limit,
    within,
)
from leastnoise.privacy.accounting.mixed_curve import (
    mixed_delta,
    mixed_epsilon,
    mu_squared_of_pure,
    rho_of_pure,
)
from leastnoise.privacy.accounting.tally import Tally, tally_of

__all__ = [
    "CellCosts",
    "Charge",
    "Remaining",
    "Tally",
    "charge_from_parts",
    "check_kind",
    "check_limit",
    "full_charge",
    "is_short_text",
    "least_limit",
    "mixed_delta",
    "mixed_epsilon",
    "mu_squared_of_pure",
    "rho_of_pure",
    "shown",
    "tally_of",
    "within",
]
