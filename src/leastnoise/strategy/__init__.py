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

    measured        what every kind of strategy has in common
    laplace_tails   intervals for sums of Laplace noise
    row_space       integer bases of what queries span
    integer_rows    integer rows over all cells, and the scale of their noise
    budget          what a strategy may spend, and the least scale that keeps to it
    rounding        from real coefficients to integer rows
    query_rows      queries as they are asked, each answered by its own measurement
    query_columns   the columns of queries over many cells, one of each kind
    longest_column  the longest column of combinations of queries, exactly
    combined_rows   combinations of a workload's own queries, for few of them over many cells
    structured      blocks of products, for domains that no matrix holds
    joint_rows      products of rows over the axes, each with a multiplier of its own
    joint_proposal  the same from real rows and weights
    over_classes    any of these over classes of cells that no query tells apart
    time_order      rows that can be measured period by period
    changing_records  what records that change, and people who come back, shift over all periods
"""

from leastnoise.strategy.budget import cell_costs, is_within, spare_of
from leastnoise.strategy.changing_records import (
    most_changed,
    most_moved,
    most_of_returning,
    most_revised,
    squares_by_period,
)
from leastnoise.strategy.combined_rows import (
    CombinedProposal,
    CombinedRows,
    combined_rows,
)
from leastnoise.strategy.integer_rows import Strategy
from leastnoise.strategy.joint_proposal import JointProposal, joint_form
from leastnoise.strategy.joint_rows import JointRows, joint_rows_from_parts, needed_rows
from leastnoise.strategy.measured import (
    MAX_DENSE_STRATEGY,
    MAX_MEASURED,
    CountTables,
    Measured,
    Spread,
)
from leastnoise.strategy.over_classes import OverClasses
from leastnoise.strategy.query_columns import HeldColumns, TableColumns, smallest_columns
from leastnoise.strategy.query_rows import QueryProposal, RowsAsAsked, query_rows_from_plain
from leastnoise.strategy.rounding import (
    GRID_TOLERANCE,
    LEAST_SCALE_BITS,
    RealStrategy,
    integer_strategy,
    rounded_rows,
)
from leastnoise.strategy.row_space import Basis, basis_of, factor_gram, integer_basis
from leastnoise.strategy.structured.accuracy import product_variances
from leastnoise.strategy.structured.axis_form import AxisForm, centred_form, identity_form
from leastnoise.strategy.structured.axis_rounding import rounded_centre, split_form, whole_form
from leastnoise.strategy.structured.blocks import Structured
from leastnoise.strategy.structured.construction import (
    ROUNDING,
    BlockProposal,
    single_block,
    structured_from_parts,
)
from leastnoise.strategy.structured.integer_blocks import ProductBlock, chosen_forms
from leastnoise.strategy.structured.reconstruction import labelled_values
from leastnoise.strategy.structured.stored import StoredIntegers
from leastnoise.strategy.structured.tables import WeightedTables
from leastnoise.strategy.time_order import (
    answers_in_time,
    in_time_order,
    last_periods,
    rows_through,
    whole_form_of_rows,
)

__all__ = [
    "GRID_TOLERANCE",
    "LEAST_SCALE_BITS",
    "MAX_DENSE_STRATEGY",
    "MAX_MEASURED",
    "ROUNDING",
    "AxisForm",
    "Basis",
    "BlockProposal",
    "CombinedProposal",
    "CombinedRows",
    "CountTables",
    "HeldColumns",
    "JointProposal",
    "JointRows",
    "Measured",
    "OverClasses",
    "ProductBlock",
    "QueryProposal",
    "RealStrategy",
    "RowsAsAsked",
    "Spread",
    "StoredIntegers",
    "Strategy",
    "Structured",
    "TableColumns",
    "WeightedTables",
    "answers_in_time",
    "basis_of",
    "cell_costs",
    "centred_form",
    "chosen_forms",
    "combined_rows",
    "factor_gram",
    "identity_form",
    "in_time_order",
    "integer_basis",
    "integer_strategy",
    "is_within",
    "joint_form",
    "joint_rows_from_parts",
    "labelled_values",
    "last_periods",
    "most_changed",
    "most_moved",
    "most_of_returning",
    "most_revised",
    "needed_rows",
    "product_variances",
    "query_rows_from_plain",
    "rounded_centre",
    "rounded_rows",
    "rows_through",
    "single_block",
    "smallest_columns",
    "spare_of",
    "split_form",
    "squares_by_period",
    "structured_from_parts",
    "whole_form",
    "whole_form_of_rows",
]
