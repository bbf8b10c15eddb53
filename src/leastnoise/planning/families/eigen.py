"""The adaptive mechanism: the best weights for eigenvectors of the workload, columns completed.

    1  V = WᵀW = Qᵀ diag(σ) Q, the rows of Q being the eigen-queries
    2  weights x: minimise Σ σ_i/x_i subject to Σ_i x_i Q_ij² ≤ 1 for every cell j
    3  A' = diag(√x) Q
    4  each cell that costs less than the dearest is measured with what is left to it

Two variants find the weights faster. Separation weighs groups of eigen-queries one by one,
then the groups; principal vectors gives all but the strongest a common weight.

With repeated eigenvalues the eigen-queries are not unique. Those taken are a function of what they
span, so that the result follows from WᵀW alone. The weights are the best before columns are completed,
not after: for prefix sums of 40 cells they end at a total variance of 205.5, weights √σ, completed, at
172.9, the optimum at 153.4. The variants and a time limit may therefore do better than the mechanism itself.

Reference:
    Li and Miklau (2012), An adaptive mechanism for accurate query answering under
    differential privacy, Programs 1 and 2, and section 4.2 for the variants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from leastnoise.core.operators import Array, kronecker
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.families.bases import SQUARE_BASES, product_costs
from leastnoise.planning.families.proposals import (
    completed,
    counted_workload,
    nothing_asked,
    refuse_unless_total,
    scaled_note,
)
from leastnoise.planning.method import (
    Method,
    Request,
    SearchResult,
    cells_per_attribute,
    choice_option,
    dense_needs,
    heuristic,
    whole_option,
)
from leastnoise.solver import Optimum, optimal_weighting
from leastnoise.strategy import Basis, factor_gram, integer_basis

# Within its own design queries the weighting is solved to this gap.
WEIGHTING_TOL = 1e-9

# Eigenvalues whose roots differ by less than this, beside the largest, have no eigenvectors of their own.
_EQUAL = 1e-9

# By how much the first of many cells is favoured over the last where they are equal.
_FAVOUR = 1e-6

# Cells at most: an eigendecomposition and some fifteen factorisations of this size take half an hour on a
# laptop.
MAX_CELLS = 8_192

DESIGNS = ("eigen", "wavelet", "fourier")


@dataclass(frozen=True, eq=False)
class DesignQueries:
    """Rows that span the workload, (k, n), the cost of each, and an integer basis of their span."""

    rows: Array
    costs: Array
    basis: Array | None


def _refuses(request: Request) -> str | None:
    return refuse_unless_total(request, MAX_CELLS, allows_laplace=False)


def eigen_queries(request: Request) -> DesignQueries:
    """The eigenvectors of V with their eigenvalues as costs, strongest first."""
    workload = counted_workload(request)
    basis: Basis = integer_basis(workload)
    R = factor_gram(workload, basis)
    strengths = np.sqrt((R**2).sum(axis=1))
    rows = R / strengths[:, None]
    costs = strengths**2
    # Between groups of equal eigenvalues the strengths fall by more than rounding.
    falls = np.flatnonzero(strengths[:-1] - strengths[1:] > _EQUAL * strengths[0]) + 1
    for group in np.split(np.arange(len(rows)), falls):
        if len(group) > 1:
            turn = _settling_turn(rows[group])
            rows[group] = turn @ rows[group]
            # Equal but for rounding, the eigenvalues stay with their directions.
            costs[group] = turn**2 @ costs[group]
    return DesignQueries(rows, costs, basis.rows)


def _settling_turn(rows: Array) -> Array:
    """The turn (g, g) of orthonormal rows (g, n) that makes them a function of what they span.

    Each turned row is the first to reach some cell: cells are taken one after another, the one that the
    rows reach most beyond those taken before, of equals the first.
    """
    from scipy import linalg

    g, n = rows.shape
    # A millionth from the first cell to the last decides between equals, whatever rounding says.
    favour = 1 - _FAVOUR * np.arange(n) / n
    cells = linalg.qr(rows * favour, mode="r", pivoting=True, check_finite=False)[1][:g]
    Q, triangle = linalg.qr(rows[:, cells], check_finite=False)
    return np.asarray((Q * np.where(np.diag(triangle) < 0, -1.0, 1.0)).T)


def _fixed_queries(name: str, request: Request) -> DesignQueries:
    """Those of a fixed basis that the workload needs."""
    factors = [SQUARE_BASES[name](n) for n in cells_per_attribute(request.workload)]
    costs = product_costs(factors, request)
    rows = kronecker(factors)[costs > 0]
    return DesignQueries(rows.astype(float), costs[costs > 0], None if len(rows) == rows.shape[1] else rows)


# The weights of design queries, how they were found, and how that ended.
_Weighed = tuple[Array, str, Ended]


def _find_by(weigh: Callable[[Request, DesignQueries], _Weighed]) -> Callable[[Request], SearchResult]:
    def find(request: Request) -> SearchResult:
        design = choice_option("basis", request.options.get("basis", "eigen"), DESIGNS)
        nothing = nothing_asked(request)
        if nothing is not None:
            return nothing
        queries = eigen_queries(request) if design == "eigen" else _fixed_queries(design, request)
        x, note, ended = weigh(request, queries)
        rows = np.sqrt(x)[:, None] * queries.rows
        used = np.asarray(request.workload.operator.column_norms(1) > 0)
        return heuristic(request, completed(rows, queries.basis, used), note + scaled_note(request), ended)

    return find


def weighting_of(
    request: Request, costs: Array, loads: Array, power: int = 1, tol: float = WEIGHTING_TOL
) -> Optimum:
    """`optimal_weighting` with the time of a request, to the gap asked there if that is less than tol."""
    return optimal_weighting(
        costs,
        loads,
        power=power,
        tol=min(tol, request.tol),
        time_limit=request.time_limit,
        progress=request.progress,
    )


def with_time_left(request: Request) -> Request:
    """The request with what is left of its time."""
    return replace(request, time_limit=request.deadline.left)


def gap_note(found: Optimum) -> str:
    """How good the weights are among all weights of the same design queries."""
    return f"within {max(found.gap, 0):.0e} of the best weights"


def _weigh_all(request: Request, queries: DesignQueries) -> _Weighed:
    found = weighting_of(request, queries.costs, (queries.rows**2).T)
    design = request.options.get("basis", "eigen")
    note = f"{len(queries.rows):,} {design} queries, {gap_note(found)}, columns completed"
    return found.x, note, found.ended


def _weigh_groups(request: Request, queries: DesignQueries) -> _Weighed:
    k = len(queries.rows)
    given = SEPARATION.option(request, "group_size")
    size = max(1, round(k ** (1 / 3))) if given is None else whole_option("group_size", given)
    loads = (queries.rows**2).T
    x = np.empty(k)
    starts = list(range(0, k, size))
    endings: list[Ended] = []
    for start in starts:
        group = slice(start, start + size)
        found = weighting_of(with_time_left(request), queries.costs[group], loads[:, group])
        x[group] = found.x
        endings.append(found.ended)
    costs = np.add.reduceat(queries.costs / x, starts)
    joined = np.add.reduceat(loads * x, starts, axis=1)
    between = weighting_of(with_time_left(request), costs, joined)
    x *= np.repeat(between.x, np.diff([*starts, k]))
    note = f"{k:,} eigen queries in {len(starts):,} groups of up to {size:,}, columns completed"
    return x, note, worst_ending([*endings, between.ended])


def _weigh_principal(request: Request, queries: DesignQueries) -> _Weighed:
    k = len(queries.rows)
    given = PRINCIPAL.option(request, "vectors")
    kept = -(-k // 10) if given is None else whole_option("vectors", given)
    if kept >= k:
        return _weigh_all(request, queries)
    loads = (queries.rows**2).T
    costs = np.append(queries.costs[:kept], queries.costs[kept:].sum())
    joined = np.column_stack([loads[:, :kept], loads[:, kept:].sum(axis=1)])
    found = weighting_of(request, costs, joined)
    x = np.append(found.x[:kept], np.full(k - kept, found.x[kept]))
    note = f"{kept:,} principal eigen queries, one weight for {k - kept:,} others, columns completed"
    return x, note, found.ended


# A step of the weighting factors and multiplies matrices of one row per cell.
_NEEDS = dense_needs(held=9.1, first=9, step=6, spans=True)

EIGEN = Method(
    "eigen",
    "the best weights for eigenvectors of the workload, Gaussian noise (adaptive mechanism)",
    _refuses,
    _find_by(_weigh_all),
    {"basis": ("eigen", f"the design queries: {', '.join(DESIGNS)}")},
    needs=_NEEDS,
)
SEPARATION = Method(
    "eigen-separation",
    "eigenvectors weighed group by group: faster, less accurate (adaptive mechanism)",
    _refuses,
    _find_by(_weigh_groups),
    {"group_size": (None, "eigenvectors per group; the cube root of their number unless given")},
    needs=_NEEDS,
)
PRINCIPAL = Method(
    "principal-vectors",
    "the strongest eigenvectors weighed, one weight for all others (adaptive mechanism)",
    _refuses,
    _find_by(_weigh_principal),
    {"vectors": (None, "how many are weighed one by one; a tenth of them unless given")},
    needs=_NEEDS,
)
