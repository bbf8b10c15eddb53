"""Choose the noise: `design` a plan. Nothing here can see data.

The list of methods comes first. `design` tries those that accept the workload and the objective until one is
proved to be optimal, and keeps the best; each proposal becomes integers within the goal, with its proof.

    method_list     every method, in the order in which "auto" tries them, and those from outside the package
    method          what a method is, and how its options are checked
    mechanism       what a data-dependent method is
    families        one file for each family of strategies
    groups          conditions in groups, each by itself, the budget divided
    oblique         the search behind `residuals`
    joint           the search behind `joint`
    p_identity      the search behind `p-identity`
    request         what `design` was asked, checked; what earlier plans leave in every cell
    one_method      the plan that one method finds
    trials          several methods tried, the best plan kept
    laplace_search  what is tried under Laplace noise, and the best plan refined
    refinement      rows for Laplace noise refined directly
    choice          `design` itself: cells that no query tells apart are merged first
    own_matrix      `plan_from`: a strategy matrix of one's own
    priced_targets  totals within targets from totals alone
    patience        how much work is enough where nobody set a limit
    refusals        why there is no plan
    plan            the plan itself
    plan_checks     what holds of every plan
    plan_text       a plan as people read it
    plan_parts      a plan as plain values and arrays, for its file and its digest
    horizon         a plan over many periods, and the part that is due by one of them
    plan_file       a plan from a file
"""

from leastnoise.planning.choice import design, over_classes
from leastnoise.planning.families.proposals import (
    from_covariance,
    from_gains,
    from_rows,
    is_add_remove,
    nothing_asked,
    on_basis,
    refuse_unless_total,
    scaled_note,
    weighted_factor,
)
from leastnoise.planning.horizon import ends_of_rows, n_due, period_labels, plan_through
from leastnoise.planning.mechanism import (
    GRID,
    DiscreteLaplace,
    Mechanism,
    RoundedGaussian,
    least_scale,
    refuse_unless_promising_nothing,
    refuse_unless_pure_total,
    share_option,
    split_budget,
)
from leastnoise.planning.method import (
    Method,
    Request,
    SearchResult,
    Trial,
    cells_per_attribute,
    choice_option,
    dense_needs,
    is_one_of,
    positive_option,
    shown,
    uniform_weights,
    whole_option,
)
from leastnoise.planning.method_list import all_methods, method_named, register
from leastnoise.planning.one_method import attempt, plan_by
from leastnoise.planning.own_matrix import plan_from
from leastnoise.planning.plan import Plan, cells_digest
from leastnoise.planning.plan_file import load_plan, plan_from_parts
from leastnoise.planning.plan_text import ACCEPTED_GAP, gap_warning, targets_to_text, trials_to_text
from leastnoise.planning.request import checked_request

__all__ = [
    "ACCEPTED_GAP",
    "GRID",
    "DiscreteLaplace",
    "Mechanism",
    "Method",
    "Plan",
    "Request",
    "RoundedGaussian",
    "SearchResult",
    "Trial",
    "all_methods",
    "attempt",
    "cells_digest",
    "cells_per_attribute",
    "checked_request",
    "choice_option",
    "dense_needs",
    "design",
    "ends_of_rows",
    "from_covariance",
    "from_gains",
    "from_rows",
    "gap_warning",
    "is_add_remove",
    "is_one_of",
    "least_scale",
    "load_plan",
    "method_named",
    "n_due",
    "nothing_asked",
    "on_basis",
    "over_classes",
    "period_labels",
    "plan_by",
    "plan_from",
    "plan_from_parts",
    "plan_through",
    "positive_option",
    "refuse_unless_promising_nothing",
    "refuse_unless_pure_total",
    "refuse_unless_total",
    "register",
    "scaled_note",
    "share_option",
    "shown",
    "split_budget",
    "targets_to_text",
    "trials_to_text",
    "uniform_weights",
    "weighted_factor",
    "whole_option",
]
