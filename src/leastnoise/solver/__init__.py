"""The certified optimum.

    conjugate_gradients.py  … preconditioned, for all Newton steps
    path_following.py       an interior-point method, with a bound on both sides at every step
    active_set.py           many caps, solved for a few of them at a time
    descent.py              L-BFGS-B with a deadline
    dual.py                 the dual function of total variance, its gradient and Hessian products
    maps.py                 what it takes weights of cells to: blocks of columns, or of pairs of cells
    optimum.py              the best of both sides, and what every search ends with
    quasi_newton.py         the least total where the Hessian is dear or nearly singular
    newton.py               Newton's method for any map, with a bound on both sides at every step
    reweighting.py          sums of standard errors by a sequence of total variances
    rows.py                 queries with caps, as an array or known by what they do
    mean.py                 the dual function of weights on queries and cells, and its derivatives
    capped_problems.py      the problems with caps as convex functions, whatever the map
    tightening.py           noise near an optimum under caps, moved until those that bind hold with equality
    capped.py               the least profile and the total variance under caps
    column_generation.py    few directions and many columns, solved for some columns at a time
    both_sides.py           the same by passes over all columns, for devices that are quick at products
    sparing.py              the total within caps, with a share of them to spare
    ordering.py             the refined privacy ordering
    split_path.py           caps on a split of a budget over blocks, for `path_following`
    split.py                the best split of a budget over blocks
    table_unions.py         the map of rows that look at few attributes each, by passes over pairs of tables
    row_passes.py           the map of rows that depend on one another, by passes over all cells
    fixed_point.py          the least profile within caps where rows are very many
    one_axis.py             the map of very many rows over one axis
    weighting.py            the best weights of a given list of queries to measure
    product_weights.py      the map of weights of products of rows, axis by axis
    row_blocks.py           products along axes where most weights are zero, block by block
    capped_product_weights.py  the same where every query has a cap

Nothing here is trusted: `certificate` recomputes both bounds from the workload
and the integer strategy alone.
"""

from leastnoise.core.backend import BACKENDS, NUMPY, Backend, load_backend
from leastnoise.solver.both_sides import generated_from_both_sides, least_total_over_all
from leastnoise.solver.capped import (
    CappedBlock,
    Run,
    least_profile,
    second_try,
    total_within_caps,
)
from leastnoise.solver.capped_product_weights import (
    CappedProducts,
    CappedQueries,
    weights_within_caps,
)
from leastnoise.solver.column_generation import (
    generated_total,
    least_total_of_many,
    least_total_of_many_pairs,
)
from leastnoise.solver.descent import StopDescent, minimise_smooth
from leastnoise.solver.maps import Columns, Pairs
from leastnoise.solver.newton import least_total
from leastnoise.solver.one_axis import OneAxisRows, least_largest_over_one_axis
from leastnoise.solver.optimum import Optimum
from leastnoise.solver.ordering import refined_profile
from leastnoise.solver.product_weights import ProductRows, towards_cells, towards_rows
from leastnoise.solver.quasi_newton import least_total_by_descent
from leastnoise.solver.reweighting import Reweighting, reweighted
from leastnoise.solver.row_blocks import RowBlocks
from leastnoise.solver.row_passes import RowPasses
from leastnoise.solver.rows import ImplicitRows, QueryRows
from leastnoise.solver.sparing import total_sparing_caps
from leastnoise.solver.split import least_largest, total_within
from leastnoise.solver.table_unions import TablePasses
from leastnoise.solver.weighting import optimal_weighting

__all__ = [
    "BACKENDS",
    "NUMPY",
    "Backend",
    "CappedBlock",
    "CappedProducts",
    "CappedQueries",
    "Columns",
    "ImplicitRows",
    "OneAxisRows",
    "Optimum",
    "Pairs",
    "ProductRows",
    "QueryRows",
    "Reweighting",
    "RowBlocks",
    "RowPasses",
    "Run",
    "StopDescent",
    "TablePasses",
    "generated_from_both_sides",
    "generated_total",
    "least_largest",
    "least_largest_over_one_axis",
    "least_profile",
    "least_total",
    "least_total_by_descent",
    "least_total_of_many",
    "least_total_of_many_pairs",
    "least_total_over_all",
    "load_backend",
    "minimise_smooth",
    "optimal_weighting",
    "refined_profile",
    "reweighted",
    "second_try",
    "total_sparing_caps",
    "total_within",
    "total_within_caps",
    "towards_cells",
    "towards_rows",
    "weights_within_caps",
]
