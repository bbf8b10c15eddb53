"""Choose the noise: `design` a plan. Nothing here can see data.

A module imports only modules that stand above it here:

    refusals      why there is no plan
    earlier       what plans that come before leave in every cell
    request       what `design` was asked, checked
    targets       the least budget that meets every target
    one_method    the plan that one method finds
    laplace       several methods and what refining gives, where none is the best
    choice        `design` itself

As an attribute of the package, `leastnoise.design` is the function; `from leastnoise.design import` finds
this room all the same.
"""

from leastnoise.design.choice import design
from leastnoise.design.one_method import plan_by
from leastnoise.design.refusals import MissesTargets
from leastnoise.design.request import checked_request

__all__ = ["MissesTargets", "checked_request", "design", "plan_by"]
