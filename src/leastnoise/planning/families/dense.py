"""The certified optimum, for workloads whose cells fit in a dense matrix.

Works in the row space of the queries: an integer basis B of it, the weighted Gram
matrix V factored as RᵀR, Newton's method on the dual, and the strategy found
written as C·B with C upper triangular. What has variance caps is in `dense_capped`; absolute errors are a
sequence of least total variances, each with the weights that the standard errors of the one before ask for.

Where a record is replaced by another, the profile of a pair of cells may not exceed
the budget: the same problem with the columns r_i and r_i − r_j of R D for those of R.
There are n(n + 1)/2 of them, which are written out for few cells only; for more than 2,048 cells, and where
variances have caps for more than 223, the optimum for records added or removed is taken and its noise scaled
to all pairs.

Where earlier plans have left each cell its own budget τ_i, the columns are r_i/√τ_i.

Cells that no query tells apart are merged first, see `merged`; where many are left and queries are few,
columns are generated. Where products cross few of many attributes, noise over their tables is dense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leastnoise.core.deadline import Deadline, Watch
from leastnoise.core.decompositions import full_rank_inverse, pseudo_inverse, triangle_inverse
from leastnoise.core.errors import InfeasibleError
from leastnoise.core.merged_cells import Cells, distinct_cells
from leastnoise.core.operators import Array, squared_rows
from leastnoise.core.progress import Ended, Progress
from leastnoise.core.resources import Needs
from leastnoise.planning.families import few_queries, row_space
from leastnoise.planning.families.dense_capped import find_within_caps
from leastnoise.planning.families.merged import (
    kinds_of,
    n_directions,
    over_cells,
    over_kinds,
    room_of,
    witness_of_cells,
)
from leastnoise.planning.families.proposals import (
    list_pairs,
    nothing_asked,
    scaled_note,
    triangle,
    weighted_factor,
    with_differences,
)
from leastnoise.planning.method import (
    Method,
    Request,
    SearchResult,
    dense_needs,
    flag_option,
    refuse_many_cells,
)
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import TotalVariance, Workload
from leastnoise.solver import (
    Optimum,
    Pairs,
    Reweighting,
    Run,
    least_total,
    least_total_of_many,
    least_total_of_many_pairs,
    load_backend,
    reweighted,
    second_try,
)
from leastnoise.strategy import RealStrategy, integer_basis

# Cells that queries tell apart. n-by-n work beyond this many takes hours on a laptop.
MAX_CELLS = 20_000

# Numbers of a (k, n) array: the most that is measured as rows over all cells.
MAX_ROW_ENTRIES = 2**26

# Cells up to which they are worked on as they are: merging those that are alike gains nothing that is seen.
_PLAIN = 512

# Where directions are at most this share of the cells, Newton's method over cells takes so many times what it
# says: many have no weight at the optimum. 670 directions over 4,680 cells took a minute instead of 9 s.
_FEW_DIRECTIONS = 0.2
_SLOWER_OVER_CELLS = 3.0

# Coefficients of queries over more than MAX_CELLS cells that are compared before rows of products are thought
# of: few conditions tell few cells apart.
_QUICK_TO_COMPARE = 2**23

# Where queries tell apart at most this share of the cells, one cell of each kind is worked on.
_WORTH_MERGING = 0.5

# Columns. Where there are more, and more than k(k + 1)/2, columns are generated.
_MANY_COLUMNS = 1_000

# Columns r_i and r_i − r_j that are written out, at most: those of 88 different cells.
MAX_PAIRS = 4_000

# The same within caps, those of 223 different cells: prefix sums over 200 take 26 s on one core.
MAX_CAPPED_PAIRS = 25_000

# Different cells whose pairs all have weights, at most. A million pairs have 1,413 cells.
MAX_PAIRED_CELLS = 2_048


def _refuses(request: Request) -> str | None:
    n = request.workload.shape[1]
    if request.privacy.noise != GAUSSIAN:
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    is_refined = request.options.get("refine", False) is True
    if n <= MAX_CELLS and is_refined and request.objective.kind != "largest":
        return "refine=True is for the largest variance and for targets, not for a total"
    if is_refined and request.spare is not None:
        return "a profile is refined where every cell has the same budget, and after= leaves each its own"
    return _refuses_size(request)


def _refuses_size(request: Request) -> str | None:
    """The reason why there are too many cells for the queries, or None."""
    return None if is_of_products(request) else _refuses_cells(request)


def is_of_products(request: Request) -> bool:
    """Whether the rows of products are so few that working on them takes less than on the cells."""
    m, n = request.workload.shape
    if n <= min(_PLAIN, MAX_CELLS) or row_space.refuses(request) is not None:
        return False
    operations = row_space.needs(request).operations
    if is_implicit(request):
        return request.backend == "numpy" and operations < few_queries.needs(request).operations
    if n <= MAX_CELLS:
        k = row_space.rank_at_most(request)
        # Where queries are many, needs know their rank.
        over_cells = _needs_of_cells(request).operations * (min(k / m, 1.0) ** 2 if m < n else 1.0)
        return operations < over_cells * (_SLOWER_OVER_CELLS if k <= _FEW_DIRECTIONS * n else 1.0)
    return m * n > _QUICK_TO_COMPARE or _refuses_cells(request) is not None


def _refuses_cells(request: Request) -> str | None:
    """The reason why there are too many cells to work on those that queries tell apart, or None."""
    m, n = request.workload.shape
    if n <= MAX_CELLS:
        return None
    if is_implicit(request):
        return None
    k, d = n_directions(request)
    if k * n > MAX_ROW_ENTRIES:
        return refuse_many_cells(n, MAX_CELLS)
    if d <= MAX_CELLS or (k * (k + 1) // 2 <= d and not request.privacy.relation.replaces):
        return None
    return (
        f"it works on at most {MAX_CELLS:,} cells that queries tell apart, or on few queries; here "
        f"{m:,} queries tell apart {d:,}"
    )


def is_implicit(request: Request) -> bool:
    """Whether there are too many cells for rows over all of them."""
    m, n = request.workload.shape
    if n <= MAX_CELLS or min(m, n) * n <= MAX_ROW_ENTRIES or few_queries.refuses(request) is not None:
        return False
    # Without a device, more queries are better served over rows of products, where these are few.
    is_usual = request.backend != "numpy" or m <= few_queries.MAX_QUERIES
    return is_usual or row_space.refuses(request) is not None


def _find(request: Request) -> SearchResult:
    flag_option("refine", DENSE.option(request, "refine"))
    trivial = nothing_asked(request)
    if trivial is not None:
        return trivial
    if is_implicit(request):
        return few_queries.find(request)
    if is_of_products(request):
        return row_space.find(request)
    n = request.workload.shape[1]
    cells = kinds_of(request) if n > _PLAIN else None
    if cells is not None and (len(cells.first) <= _WORTH_MERGING * n or len(cells.first) < n > MAX_CELLS):
        return _find_for_kinds(request, cells)
    return _find_for_cells(request)


def _find_for_kinds(request: Request, cells: Cells) -> SearchResult:
    try:
        found = over_cells(_find_for_cells(over_kinds(request, cells)), request, cells)
    except InfeasibleError as error:
        error.witness = witness_of_cells(error.witness, request, cells)
        raise
    return replace(found, note=f"{found.note}, over the {len(cells.first):,} kinds of cells")


def _find_for_cells(request: Request) -> SearchResult:
    if request.objective.kind == "total":
        return _find_total(request)[0]
    if request.objective.kind == "absolute":
        return _find_absolute(request)
    return find_within_caps(request, MAX_CAPPED_PAIRS)


def _find_total(request: Request, start: Array | None = None) -> tuple[SearchResult, Array | None]:
    """The least total variance, and the weights that a similar problem may start from, if there are any."""
    workload = request.workload
    basis = integer_basis(workload)
    R = weighted_factor(request, basis)
    # Neither the noise nor the dual weights depend on the unit; squares of this one stay within floats.
    R /= max(float(R.max()), -float(R.min()))
    # Cells that no query tells apart share one dual weight.
    if basis.rows is None:
        cells = Cells.all_of(R.shape[1])
    else:
        cells = distinct_cells(R, np.asarray(workload.operator.column_norms(1) > 0))
    n = len(cells.first)
    is_replaced = request.privacy.relation.replaces
    if is_replaced and n <= MAX_PAIRED_CELLS:
        over_pairs = _solve_over_pairs(R[:, cells.first], request)
        root = cells.spread(over_pairs.root)
        listed = over_pairs.q > 0
        found = SearchResult(
            RealStrategy(triangle(root, basis.rows), basis.rows),
            over_pairs.q[listed],
            "stopped",
            _note(over_pairs) + ", over pairs of cells",
            over_pairs.ended,
            list_pairs(cells.first, R.shape[1])[listed],
        )
        return found, None
    columns = R if cells.are_all else R[:, cells.first]
    room = None if request.spare is None else room_of(request, cells)
    if room is not None:
        columns = room.scaled(columns)
    # The other half of the tolerance is left for rounding to integers.
    deadline = Deadline.after(request.time_limit)
    solution = _minimise(columns, request, request.tol / 2, request.progress, deadline, start)
    if room is None:
        root, q = solution.root, cells.spread((solution.q / cells.counts)[None, :])[0]
    else:
        root, q = room.restored(solution.root), room.cell_weights(solution.q, R.shape[1])
    found = SearchResult(
        RealStrategy(triangle(cells.spread(root), basis.rows), basis.rows),
        q,
        "heuristic" if is_replaced else "stopped",
        _note(solution) + scaled_note(request),
        solution.ended,
    )
    return found, solution.q


def _find_absolute(request: Request) -> SearchResult:
    """The noise of the least weighted sum of standard errors, with the weights that prove it.

    Each least total variance starts from the dual weights of the last, so that a round takes a step or two of
    Newton's method.
    """
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
        found, start = _find_total(weighted, start)
        return found, _real_variances(workload, found.proposal), found.ended

    first = Reweighting.starting(request.objective.weights(workload), workload.operator.row_norms())
    found, p, ended, rounds = reweighted(least, first, tol=request.tol, deadline=deadline)
    return replace(found, note=f"{found.note}, in round {rounds} of weights", ended=ended, p=p)


def _real_variances(workload: Workload, proposal: object) -> Array:
    """The variance of every query, (m,), for unit noise on the real rows of a proposal."""
    assert isinstance(proposal, RealStrategy)
    C = np.asarray(proposal.coefficients, dtype=float)
    if proposal.basis is None:
        return squared_rows(workload.operator, triangle_inverse(C))
    A = C @ proposal.basis.astype(float)
    inverse = full_rank_inverse(A)
    return squared_rows(workload.operator, pseudo_inverse(A) if inverse is None else inverse)


def _are_many(R: Array) -> bool:
    """Whether columns are so many beside the directions that they are generated."""
    k, d = R.shape
    return d > _MANY_COLUMNS and k * (k + 1) // 2 <= d


def _minimise(
    R: Array,
    request: Request,
    tol: float,
    progress: Callable[[Progress], None] | None,
    deadline: Deadline,
    start: Array | None = None,
) -> Optimum:
    """The solver on the columns of R, until the deadline."""
    if _are_many(R):
        return least_total_of_many(R, Run(tol, Watch(deadline, progress), request.backend))
    found = least_total(
        R, tol=tol, time_limit=deadline.left, backend=request.backend, progress=progress, start=start
    )
    if found.has_converged or found.ended == "deadline" or R.shape[1] > _MAX_SECOND_TRY:
        return found
    # Where the queries' sizes are very far apart, the slower method sees what squares have lost.
    return second_try(found, [R], Run(tol, Watch(deadline, progress, found.steps), request.backend))


# Different cells, at most, where the other method takes up a search that stopped short.
_MAX_SECOND_TRY = 1_024


def _note(solution: Optimum) -> str:
    return f"{solution.how} on the dual, {solution.steps} steps"


def _solve_over_pairs(R: Array, request: Request) -> Optimum:
    """The optimum for profiles of all columns r_i and r_i − r_j; its root is that of the cells alone.

    Where pairs far outnumber the numbers that describe the noise, k(k + 1)/2, few of them bind, and columns
    are generated.
    """
    k, n = R.shape
    count = n * (n + 1) // 2
    tol, deadline = request.tol / 2, Deadline.after(request.time_limit)
    if k * (k + 1) < count:
        return least_total_of_many_pairs(R, Run(tol, Watch(deadline, request.progress), request.backend))
    if count <= MAX_PAIRS:
        solution = _minimise(with_differences(R), request, tol, request.progress, deadline)
        return replace(solution, roots=[solution.root[:, :n]])
    device = load_backend(request.backend)
    columns = Pairs(device.matrix(R), device)
    return least_total(columns, tol=tol, time_limit=deadline.left, progress=request.progress)


_NEEDS = {
    "total": dense_needs(held=8, first=14, step=8, spans=True),
    "largest": dense_needs(held=16, first=28, step=20, spans=True),
    "total-within-caps": dense_needs(held=25, first=56, step=25, spans=True),
    "absolute": dense_needs(held=9, first=16, step=8, spans=True),
}


def _needs(request: Request) -> Needs:
    if is_implicit(request):
        return few_queries.needs(request)
    if is_of_products(request):
        return row_space.needs(request)
    return _needs_of_cells(request)


def _needs_of_cells(request: Request) -> Needs:
    return _NEEDS[request.objective.kind](request)


def _matrix_size(request: Request) -> int:
    """Rows of its matrices: as many as there are cells, or queries where those are fewer."""
    return min(request.workload.shape)


DENSE = Method(
    "dense",
    f"the certified optimum for Gaussian noise, up to {MAX_CELLS:,} cells that queries tell apart, or more "
    f"where queries are few; where records are replaced, up to {MAX_PAIRED_CELLS:,}, or 223 within caps",
    _refuses,
    _find,
    {"refine": (False, "for the largest variance and targets: the least privacy loss of every cell")},
    takes_spare=True,
    takes_periods=True,
    takes_absolute=True,
    matrix_size=_matrix_size,
    needs=_needs,
)
