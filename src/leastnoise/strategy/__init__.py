"""The integer strategy that is really measured, and how a real-valued one becomes it.

An optimiser works in floating point and is not trusted. It hands over real
coefficients C on an integer basis B of the queries' row space. Here C is rounded
to integers on a fine grid, the strategy A = C·B is multiplied out exactly, its
sensitivity is taken from the integers, and the noise scale is the least integer
that the budget allows, compared in rationals:

    y = A x + noise,   Δ²/σ² ≤ μ²  (Gaussian)   or   Δ₁/b ≤ ε  (Laplace)

Which changes of a table Δ is taken over, the neighbouring relation says: the largest norm of a column of A
where records are added or removed, or the largest distance of two columns of [A 0] where one is replaced by
another.

From then on only A and its scale count. Standard errors, profile, certificate
and reconstruction are computed from them, so a wrong optimiser can cost
accuracy, never privacy.

Where earlier plans have used part of a budget μ², cell i has τ_i = μ² − Σ_r u_i^(r) left, and the
scale is the least with ‖a_i‖²/σ² ≤ τ_i in every cell.

A module imports only modules that stand above it here:

    stored          noisy integers that are kept on a disk, read when needed
    axis_form       how one axis is measured
    grid            the grid of the integers, and what rounding to it may cost
    measured        what every kind of strategy has in common
    periods         when integers and answers are known, where one attribute is time
    laplace_tails   intervals for sums of Laplace noise
    row_space       integer bases of what queries span
    integer_rows    integer rows over all cells, and the scale of their noise
    budget          what a strategy may spend, and the least scale that keeps to it
    proposal        what a method proposes, and how it becomes integers with the least noise
    time_order      rows that can be measured period by period
    rounding        from real coefficients to integer rows
    query_rows      queries as they are asked, each answered by its own measurement
    query_columns   the columns of queries over many cells, one of each kind
    longest_column  the longest column of combinations of queries, exactly
    combined_rows   combinations of a workload's own queries, for few of them over many cells
    structured      blocks of products, for domains that no matrix holds
    over_classes    any of these over classes of cells that no query tells apart
    side_by_side    several strategies, each for its own queries, with one scale of noise
    strategy_file   strategies of all these kinds, read from files
    changing_records  what records that change, and people who come back, shift over all periods
"""

from leastnoise.strategy.axis_form import AxisForm, centred_form, identity_form
from leastnoise.strategy.budget import cell_costs, is_within, spare_of
from leastnoise.strategy.changing_records import (
    most_of_returning,
    most_revised,
)
from leastnoise.strategy.combined_rows import CombinedProposal
from leastnoise.strategy.grid import GRID_TOLERANCE, ROUNDING
from leastnoise.strategy.integer_rows import Strategy
from leastnoise.strategy.measured import (
    MAX_DENSE_STRATEGY,
    CountTables,
    KnownTotal,
    Measured,
    MeasuredPart,
    Spread,
)
from leastnoise.strategy.over_classes import OverClasses
from leastnoise.strategy.proposal import Proposal
from leastnoise.strategy.query_columns import HeldColumns, TableColumns, smallest_columns
from leastnoise.strategy.query_rows import QueryProposal
from leastnoise.strategy.rounding import (
    RealStrategy,
    rounded_rows,
)
from leastnoise.strategy.row_space import Basis, basis_of, factor_gram, integer_basis
from leastnoise.strategy.side_by_side import SideProposal
from leastnoise.strategy.stored import StoredIntegers
from leastnoise.strategy.strategy_file import strategy_from_parts
from leastnoise.strategy.structured.axis_rounding import joint_form, rounded_centre, split_form, whole_form
from leastnoise.strategy.structured.construction import (
    BlockProposal,
    JointProposal,
    single_block,
)
from leastnoise.strategy.structured.gram import ProductGram
from leastnoise.strategy.time_order import whole_form_of_rows

__all__ = [
    "GRID_TOLERANCE",
    "MAX_DENSE_STRATEGY",
    "ROUNDING",
    "AxisForm",
    "Basis",
    "BlockProposal",
    "CombinedProposal",
    "CountTables",
    "HeldColumns",
    "JointProposal",
    "KnownTotal",
    "Measured",
    "MeasuredPart",
    "OverClasses",
    "ProductGram",
    "Proposal",
    "QueryProposal",
    "RealStrategy",
    "SideProposal",
    "Spread",
    "StoredIntegers",
    "Strategy",
    "TableColumns",
    "basis_of",
    "cell_costs",
    "centred_form",
    "factor_gram",
    "identity_form",
    "integer_basis",
    "is_within",
    "joint_form",
    "most_of_returning",
    "most_revised",
    "rounded_centre",
    "rounded_rows",
    "single_block",
    "smallest_columns",
    "spare_of",
    "split_form",
    "strategy_from_parts",
    "whole_form",
    "whole_form_of_rows",
]
