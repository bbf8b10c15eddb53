"""planning"""

from leastnoise.planning.choice import design
from leastnoise.planning.families.distinct_cells import on_basis
from leastnoise.planning.families.proposals import (
    from_covariance,
    from_gains,
    from_rows,
    is_add_remove,
    nothing_asked,
    refuse_unless_total,
    scaled_note,
    weighted_factor,
)
from leastnoise.planning.mechanism import (
    GRID,
    DiscreteLaplace,
    Mechanism,
    least_scale,
    refuse_unless_pure_total,
    share_option,
    split_budget,
)
from leastnoise.planning.method import (
    Found,
    Method,
    Request,
    cells_per_attribute,
    dense_needs,
    uniform_weights,
)
from leastnoise.planning.method_list import all_methods, method_named
from leastnoise.planning.one_method import plan_by
from leastnoise.planning.options import choice_option, is_one_of, positive_option, shown, whole_option
from leastnoise.planning.plan.plan import Plan
from leastnoise.planning.plan.plan_file import load_plan, plan_from_parts
from leastnoise.planning.plan.plan_text import targets_in_words
from leastnoise.planning.request import checked_request

__all__ = [
    "GRID",
    "DiscreteLaplace",
    "Found",
    "Mechanism",
    "Method",
    "Plan",
    "Request",
    "all_methods",
    "cells_per_attribute",
    "checked_request",
    "choice_option",
    "dense_needs",
    "design",
    "from_covariance",
    "from_gains",
    "from_rows",
    "is_add_remove",
    "is_one_of",
    "least_scale",
    "load_plan",
    "method_named",
    "nothing_asked",
    "on_basis",
    "plan_by",
    "plan_from_parts",
    "positive_option",
    "refuse_unless_pure_total",
    "refuse_unless_total",
    "scaled_note",
    "share_option",
    "shown",
    "split_budget",
    "targets_in_words",
    "uniform_weights",
    "weighted_factor",
    "whole_option",
]
