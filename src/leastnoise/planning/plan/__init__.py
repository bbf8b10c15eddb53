"""A plan: what will be measured, with how much noise, and how good that is.

A plan never sees data. Everything it says about accuracy and privacy is computed
from the integer strategy that `measure` will use. Where a method depends on the data
there is none: the plan holds the mechanism instead, and is silent about accuracy.

A plan designed after others keeps its goal together with them, in every cell and exactly:

    used_i + ‖a_i‖²/σ² ≤ μ²,   used_i = Σ_r u_i^(r) over the earlier plans, repeats included

A module imports only modules that stand above it here, annotations aside:

    costs            what cells spend over several plans
    words            a plan as people read it
    fields           what each field must be
    checks           what holds of every plan, wherever it comes from
    parts            a plan as plain values and arrays
    plan             the plan itself
    data_dependent   the plan of a method that depends on the data
    reading          a plan from a file that is not believed
"""

from leastnoise.planning.plan.data_dependent import data_dependent_plan
from leastnoise.planning.plan.plan import Plan
from leastnoise.planning.plan.plan_costs import cells_digest, summed_costs
from leastnoise.planning.plan.plan_file import load_plan, plan_from_parts
from leastnoise.planning.plan.plan_text import targets_in_words

__all__ = [
    "Plan",
    "cells_digest",
    "data_dependent_plan",
    "load_plan",
    "plan_from_parts",
    "summed_costs",
    "targets_in_words",
]
