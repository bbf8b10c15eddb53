"""The certified least sum of absolute errors, for workloads whose cells fit in a dense matrix.

A sequence of least total variances, each with the weights that the standard errors of the one before ask for
(`solver.reweighting`). Each starts from the dual weights of the last, so that a round takes a step or two of
Newton's method. Whatever the total variance is planned for is planned for here: records added, removed or
replaced, budgets that earlier plans have left, periods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leastnoise.core.decompositions import full_rank_inverse, pseudo_inverse, triangle_inverse
from leastnoise.core.operators import Array, squared_rows
from leastnoise.core.progress import Ended
from leastnoise.planning.method import Request, SearchResult
from leastnoise.query import TotalVariance, Workload
from leastnoise.solver import Reweighting, reweighted
from leastnoise.strategy import RealStrategy

# What finds the least total variance of a request, from weights of a similar one where they are given.
FindTotal = Callable[[Request, Array | None], tuple[SearchResult, Array | None]]


def find_absolute(request: Request, find_total: FindTotal) -> SearchResult:
    """The noise of the least weighted sum of standard errors, with the weights that prove it."""
    workload, deadline = request.workload, request.deadline
    start: Array | None = None

    def least(p: Array, tol: float) -> tuple[SearchResult, Array, Ended]:
        nonlocal start
        weighted = replace(
            request,
            workload=workload.with_weights(p),
            objective=TotalVariance(),
            tol=tol,
            time_limit=deadline.left,
        )
        found, start = find_total(weighted, start)
        return found, real_variances(workload, found.proposal), found.ended

    first = Reweighting.starting(request.objective.weights(workload), workload.operator.row_norms())
    found, p, ended, rounds = reweighted(least, first, tol=request.tol, deadline=deadline)
    return replace(found, note=f"{found.note}, in round {rounds} of weights", ended=ended, p=p)


def real_variances(workload: Workload, proposal: object) -> Array:
    """The variance of every query, (m,), for unit noise on the real rows of a proposal."""
    assert isinstance(proposal, RealStrategy)
    C = np.asarray(proposal.coefficients, dtype=float)
    if proposal.basis is None:
        return squared_rows(workload.operator, triangle_inverse(C))
    A = C @ proposal.basis.astype(float)
    inverse = full_rank_inverse(A)
    return squared_rows(workload.operator, pseudo_inverse(A) if inverse is None else inverse)
