"""What is asked, first reduced: cells that no query tells apart are one cell to every method."""

from __future__ import annotations

from dataclasses import replace

from leastnoise.planning.families.dense import DENSE
from leastnoise.planning.families.product_requests import refuse_unstructured
from leastnoise.planning.method import Method, Reasons, Request
from leastnoise.planning.method_list import FREE_OPERATIONS, SMALL
from leastnoise.query import Cases, TotalVariance, Where, classes_of, states_in

# Cells from which on those that no query tells apart are looked for before anything else; with fewer, methods
# compare the columns themselves.
_MANY_CELLS = 20_000

# Of a time limit, the share that looking for classes may take.
_SHARE_OF_TIME = 0.5

# Of the cells, the share that classes may be: more gain nothing.
_WORTH_REDUCING = 0.5


def over_classes(request: Request, method: Method | None = None) -> Request:
    """The request over classes of cells that no query tells apart, where conditions leave few of many cells.

    Every size that decides which method serves is then the number of classes. Cross tables and ranges of
    single attributes are left as they are: their methods know them attribute by attribute. So are requests
    that the optimum over classes would take long to serve, and products would serve.

    Args:
        method: the one that was asked for; None where there is a choice.
    """
    workload, objective = request.workload, request.objective
    n = workload.shape[1]
    if n <= _MANY_CELLS or request.used is not None or request.over is not None:
        return request
    if isinstance(objective, TotalVariance) and objective.relative_to is not None:
        return request
    if not any(isinstance(block.query, Where | Cases) for block in workload.blocks):
        return request
    limit = None if request.time_limit is None else _SHARE_OF_TIME * request.time_limit
    classes = classes_of(workload, most_states=states_in(limit))
    if classes is None or classes.n > _WORTH_REDUCING * n:
        return request
    over = classes.reduced(workload)
    if over is None:
        return request
    reduced = replace(request, workload=over, classes=classes, whole=workload)
    if method is not None:
        return request if Reasons(reduced).unfit(method) is not None else reduced
    return reduced if _is_served(reduced) or refuse_unstructured(request) is not None else request


def _is_served(reduced: Request) -> bool:
    """Whether the optimum over classes, or a search for Laplace noise, is found soon."""
    if reduced.privacy.noise.is_pure:
        return reduced.workload.shape[1] <= SMALL
    reasons = Reasons(reduced)
    return reasons.unfit(DENSE) is None and reasons.needs(DENSE).operations <= FREE_OPERATIONS
