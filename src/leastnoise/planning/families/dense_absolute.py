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
from leastnoise.solver import MAX_ROUNDS, Reweighting
from leastnoise.strategy import RealStrategy

# What finds the least total variance of a request, from weights of a similar one where they are given.
FindTotal = Callable[[Request, Array | None], tuple[SearchResult, Array | None]]

# The part of the gap asked for that the weights may leave; the rest is for the totals and for rounding.
_SHARE = 0.25

# The first rounds need not be solved further than this: their weights are not yet the last.
_FIRST_TOL = 1e-4


def find_absolute(request: Request, find_total: FindTotal) -> SearchResult:
    """The noise of the least weighted sum of standard errors, with the weights that prove it."""
    workload, deadline = request.workload, request.deadline
    start: Array | None = None
    ended: Ended = "exhausted"
    at = Reweighting.starting(request.objective.weights(workload), workload.operator.row_norms())
    tol, rounds = max(request.tol, _FIRST_TOL), 0
    while True:
        weighted = replace(
            request,
            workload=workload.with_weights(at.p),
            objective=TotalVariance(),
            tol=tol,
            time_limit=deadline.left,
        )
        found, start = find_total(weighted, start)
        rounds += 1
        v = real_variances(workload, found.proposal)
        gap = at.gap(v)
        if gap <= _SHARE * request.tol and tol <= request.tol:
            ended = found.ended
            break
        if deadline.is_past or rounds == MAX_ROUNDS:
            ended = "deadline" if deadline.is_past else "exhausted"
            break
        at = at.following(v)
        # A round leaves about a sixteenth of the gap.
        tol = max(request.tol, min(tol, gap / 16))
    return replace(found, note=f"{found.note}, in round {rounds} of weights", ended=ended, p=at.p)


def real_variances(workload: Workload, proposal: object) -> Array:
    """The variance of every query, (m,), for unit noise on the real rows of a proposal."""
    assert isinstance(proposal, RealStrategy)
    C = np.asarray(proposal.coefficients, dtype=float)
    if proposal.basis is None:
        return squared_rows(workload.operator, triangle_inverse(C))
    A = C @ proposal.basis.astype(float)
    inverse = full_rank_inverse(A)
    return squared_rows(workload.operator, pseudo_inverse(A) if inverse is None else inverse)
