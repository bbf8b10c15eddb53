"""The certified optimum under variance caps: the largest variance, targets, total variance within targets.

The coordinates are the cells themselves where the queries reach every one of them,
and otherwise an orthonormal basis of what they reach.

Where earlier plans have left each cell a budget τ_i of its own, u_i ≤ τ_i is u_i ≤ 1 for the
column b_i/√τ_i: the same problems with columns scaled, here and for the total variance in `dense`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from leastnoise.bounds import Witness
from leastnoise.core.deadline import Watch
from leastnoise.core.errors import DesignError, InfeasibleError, MethodError
from leastnoise.core.merged_cells import Cells, distinct_cells
from leastnoise.core.operators import Array, Operator
from leastnoise.planning.families.merged import Room, room_of
from leastnoise.planning.families.proposals import (
    largest_square,
    list_pairs,
    triangle,
    with_differences,
)
from leastnoise.planning.method import Request, SearchResult
from leastnoise.planning.refusals import infeasible
from leastnoise.query import Workload
from leastnoise.solver import (
    CappedBlock,
    ImplicitRows,
    Optimum,
    QueryRows,
    Run,
    least_profile,
    load_backend,
    refined_profile,
    total_sparing_caps,
    total_within_caps,
)
from leastnoise.strategy import Basis, RealStrategy, integer_basis

# Caps are kept with this share of the gap asked for to spare, which rounding to integers takes up.
_SPARE = 0.1

# The least share of caps to spare: variances are worked out to a few digits more.
_LEAST_SPARE = 1e-12

# Squared targets per squared size of the query may differ by this factor.
_WIDEST = 1e32

# Budgets this many times the caps' own units, or that part of them, are out of their reach.
_FAR = 1e12

# Numbers that the refined ordering writes out, at most.
_MAX_REFINED = 2**22


@dataclass(frozen=True, eq=False)
class _CappedProblem:
    """A request in coordinates: queries with caps, different cells, and where they came from."""

    request: Request
    basis: Basis
    Q: Array | None  # (n, k)
    operator: Operator  # the queries with caps, over all cells
    rows: QueryRows
    capped: Array  # positions of the queries with caps
    caps: Array  # theirs
    cells: Cells
    are_pairs: bool
    room: Room | None

    @property
    def columns(self) -> Array:
        """The columns whose profile counts: cells, or cells and their differences."""
        B = self._all_cells[:, self.cells.first]
        if self.room is not None:
            return self.room.scaled(B)
        return with_differences(B) if self.are_pairs else B

    @property
    def budget(self) -> float:
        """What a column of profile 1 may spend, μ²."""
        goal = self.request.privacy
        allowed = goal.budget if self.room is None else Fraction(self.room.unit)
        return float(goal.relation.column_budget(allowed, goal.noise))

    @property
    def _all_cells(self) -> Array:
        return np.eye(self.rows.shape[1]) if self.Q is None else self.Q.T

    def found(
        self, solution: Optimum, note: str, *, is_heuristic: bool, grid_tol: float = math.inf
    ) -> SearchResult:
        """What a solution proposes for the request."""
        own = solution.root[:, : len(self.cells.first)]
        root = self.cells.spread(own if self.room is None else self.room.restored(own))
        q, pairs = self.cell_weights(solution.q)
        how = "interior-point method on the dual" + note
        return SearchResult(
            RealStrategy(triangle(root, self.basis.rows), self.basis.rows),
            q,
            "heuristic" if is_heuristic else "stopped",
            f"{how}, {solution.steps} steps",
            solution.ended,
            pairs,
            self.query_weights(solution.p),
            grid_tol,
        )

    def query_weights(self, p: Array) -> Array:
        """Weights of all queries."""
        every = np.zeros(self.request.workload.shape[0])
        every[self.capped] = p
        return every

    def cell_weights(self, q: Array) -> tuple[Array, Array | None]:
        """Weights of all cells, or of the pairs that have some."""
        n = self.request.workload.shape[1]
        if self.room is not None:
            return self.room.cell_weights(q, n), None
        if self.are_pairs:
            listed = q > 0
            return q[listed], list_pairs(self.cells.first, n)[listed]
        return self.cells.spread((q / self.cells.counts)[None, :])[0], None


def find_within_caps(request: Request, max_pairs: int) -> SearchResult:
    """The least largest variance, or the least total variance within targets.

    Raises:
        InfeasibleError: if no noise keeps the caps within the goal, with the proof.
    """
    problem = _problem(request, max_pairs)
    is_replaced = request.privacy.relation.replaces
    is_heuristic = is_replaced and not problem.are_pairs
    note = ", over pairs of cells" if problem.are_pairs else ""
    if is_heuristic:
        note = " for records added or removed, scaled to records replaced"
    run = Run(request.tol / 2, Watch.starting(request.time_limit, request.progress), request.backend)
    if request.objective.kind == "largest":
        if request.options.get("refine", False):
            return problem.found(
                _refined(problem, run), note + ", profile refined", is_heuristic=is_heuristic
            )
        return problem.found(_least_profile(problem, run), note, is_heuristic=is_heuristic)
    solution, grid_tol = _total(problem, run, is_heuristic)
    return problem.found(solution, note, is_heuristic=is_heuristic, grid_tol=grid_tol)


def _problem(request: Request, max_pairs: int) -> _CappedProblem:
    workload = request.workload
    basis = integer_basis(workload)
    Q = basis.directions
    caps = request.objective.caps(workload)
    assert caps is not None
    capped = np.flatnonzero(np.isfinite(caps))
    operator = workload.operator_at(capped)
    n = workload.shape[1]
    # Of the queries themselves: rounding leaves something in Q of cells that none of them counts.
    used = np.asarray(workload.operator.column_norms(1) > 0)
    cells = distinct_cells(Q.T, used) if Q is not None else Cells.all_of(n)
    count = len(cells.first)
    return _CappedProblem(
        request=request,
        basis=basis,
        Q=Q,
        operator=operator,
        rows=ImplicitRows(operator, Q, load_backend(request.backend)),
        capped=capped,
        caps=caps[capped],
        cells=cells,
        are_pairs=request.privacy.relation.replaces and count * (count + 1) // 2 <= max_pairs,
        room=None if request.spare is None else room_of(request, cells),
    )


# Cells. Beyond this number, and that of the queries, no identity over all cells is held: over 16,000 it took
# 10 s and 6 GB for ten queries.
_IDENTITY_CELLS = 1_024


def _in_units(problem: _CappedProblem) -> tuple[Array, float]:
    """Caps in a unit in which they and the noise are of order 1, and the unit."""
    # The variance of noise 1 on every cell is the squared length of a query.
    operator = problem.operator
    m, n = operator.shape
    is_by_cells = operator.is_quick and n <= max(m, _IDENTITY_CELLS)
    lengths = operator.quadratic(np.eye(n)) if is_by_cells else operator.row_norms() ** 2
    asked = lengths > 0
    shares = problem.caps[asked] / lengths[asked]
    if asked.any() and shares.max() > _WIDEST * shares.min():
        raise DesignError(
            "the targets, relative to the sizes of their queries, are too far apart, by a factor of "
            f"{math.sqrt(shares.max() / shares.min()):.0e}",
            field="stderr",
            remedy=f"bring them within {math.sqrt(_WIDEST):.0e}",
        )
    unit = math.exp(float(np.log(shares).mean())) if asked.any() else 1.0
    return problem.caps / unit, unit


def _least_profile(problem: _CappedProblem, run: Run) -> Optimum:
    caps, _ = _in_units(problem)
    base = None
    if not problem.operator.is_quick:
        weights = np.zeros(problem.request.workload.shape[0])
        weights[problem.capped] = 1 / caps
        base = _weighted_root(problem.request.workload, weights, problem.Q)
    return least_profile([CappedBlock(problem.rows, problem.columns, base)], caps, run)


def _refined(problem: _CappedProblem, run: Run) -> Optimum:
    m, k = problem.rows.shape
    if problem.are_pairs:
        raise MethodError(
            "the refined profile is worked out where records are added or removed only", field="profile"
        )
    if m * k > _MAX_REFINED:
        raise MethodError(
            f"the refined profile takes at most {_MAX_REFINED:,} coefficients, these are {m * k:,}",
            field="profile",
            given=m * k,
        )
    caps, _ = _in_units(problem)
    return refined_profile(problem.rows.take(np.arange(m)), problem.columns, caps, run)


def _total(problem: _CappedProblem, run: Run, is_heuristic: bool) -> tuple[Optimum, float]:
    """The least total within caps, and the gap for which its grid of whole numbers is made.

    Raises:
        InfeasibleError: if no noise keeps the caps within the goal, with the proof.
    """

    def find(spare: float, own: Run) -> tuple[Optimum, float]:
        return _total_sparing(problem, own, spare, is_heuristic)

    usual = _SPARE * min(run.tol, 1e-6)
    solution, share = total_sparing_caps(find, run, usual=usual, least=_LEAST_SPARE)
    if not solution.is_feasible:
        raise _refusal(problem, solution)
    return solution, problem.request.tol * share if share < 1 else math.inf


def _total_sparing(
    problem: _CappedProblem, run: Run, spare: float, is_heuristic: bool
) -> tuple[Optimum, float]:
    """The least total with a share of every cap to spare, with weights p for the queries' own; its price."""
    request = problem.request
    weights = request.objective.weights(request.workload)
    caps, unit = _in_units(problem)
    caps = caps * (1 - spare)
    base = _weighted_root(request.workload, weights, problem.Q)
    scale = float(np.abs(base).max()) or 1.0
    budget = problem.budget * unit
    if budget < 1 / _FAR:
        # Hopeless, and too far from possible for one scale of floats: settled in the caps' own units.
        hopeless = least_profile([CappedBlock(problem.rows, problem.columns)], caps, run)
        achieved, bound = hopeless.achieved / budget, hopeless.lower_bound / budget
        return replace(hopeless, achieved=achieved, lower_bound=bound, is_feasible=False), 0.0
    # Caps so loose that none can bind are brought nearer; they need no weights then.
    are_idle = budget > _FAR
    budget = min(budget, _FAR)
    is_all_capped = not (np.delete(weights, problem.capped) > 0).any()
    columns = problem.columns
    for _ in range(3):
        block = CappedBlock(problem.rows, columns / math.sqrt(budget), base / scale)
        solution = total_within_caps([block], caps, run, is_all_capped=is_all_capped)
        if not solution.is_feasible:
            return solution, 0.0
        if not is_heuristic:
            break
        # Scaled to pairs, the noise must still keep the caps: aim that much lower.
        spent = largest_square(solution.root)
        if spent <= 1:
            break
        budget /= spent
    # The solver saw weights over scale².
    price = 0.0 if are_idle else float(solution.p @ caps) / solution.achieved
    p = np.zeros_like(solution.p) if are_idle else solution.p * scale**2
    return replace(solution, p=p), price


def _refusal(problem: _CappedProblem, solution: Optimum) -> InfeasibleError:
    request, factor = problem.request, math.sqrt(solution.achieved)
    q, pairs = problem.cell_weights(solution.q)
    return infeasible(
        request.workload,
        request.privacy,
        Witness(problem.query_weights(solution.p), q, pairs),
        factor,
        spare=request.spare,
        most_left=0.0 if problem.room is None else problem.room.unit,
        is_late=solution.ended == "deadline",
    )


def _weighted_root(workload: Workload, weights: Array, Q: Array | None) -> Array:
    """A root (k, k) of Σ_j w_j l_j l_jᵀ, by the queries themselves where they are few."""
    from scipy import linalg

    n = workload.shape[1]
    k = n if Q is None else Q.shape[1]
    counted = np.flatnonzero(weights > 0)
    if len(counted) <= 8 * k:
        rows = workload.operator.rows(counted) * np.sqrt(weights[counted])[:, None]
        rows = rows if Q is None else rows @ Q
        return np.asarray(linalg.qr(rows, mode="r")[0][:k])
    V = workload.weighted_gram(weights)
    values, vectors = linalg.eigh(V if Q is None else Q.T @ V @ Q, driver="evd")
    return np.asarray(np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)
