"""p-identity strategies for Laplace noise: every cell, and p weighted sums of cells.

Which total is minimised is in `problem`, how sums are sought in `search`, and in
`caps` what is done about the largest variance and about caps.

Where only cross tables of attributes are asked, whole tables as sums with one weight each are tried too; see
`weighted_marginals`. Cells that no query tells apart are measured as one, and cells that no query counts
not at all.

Reference:
    McKenna, Miklau, Hay and Machanavajjhala (2018), Optimizing error of high-dimensional statistical
    queries under differential privacy, section 5.2, where the family is introduced.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.families.distinct_cells import Cells
from leastnoise.planning.families.proposals import from_rows, nothing_asked, scaled_note
from leastnoise.planning.families.weighted_marginals import find_tables
from leastnoise.planning.method import (
    Found,
    Method,
    Request,
    choice_option,
    dense_needs,
    refuse_many_cells,
    uniform_weights,
    whole_option,
)
from leastnoise.planning.p_identity.capped import Capped
from leastnoise.planning.p_identity.coarse_to_fine import Effort, default_starts, search
from leastnoise.planning.p_identity.objective_function import cells_of, problem_of, rows_of
from leastnoise.solver import load_backend
from leastnoise.strategy import GRID_TOLERANCE, Basis, RealStrategy

# The Gram matrix and a pseudo-inverse of n by n are held; at this size the latter takes minutes.
MAX_CELLS = 4_096

# Entries of at most 1 rounded to so many bits add up within 62.
_MOST_BITS = 48

# More starts, steps or threads than these are a mistake.
_MOST_STARTS, _MOST_STEPS, _MOST_WORKERS = 10_000, 10**9, 1_024


def whole_rows(A: Array, cells: Cells) -> RealStrategy:
    """The rows A over kinds of cells, in whole numbers fine enough that rounding costs about 1e-8.

    The smallest entry of the identity's rows bounds the weakest direction of A from below. Where that
    says nothing, because sums have taken over from cells, singular values tell.
    """
    weakest = float(np.diag(A).min())
    bits = math.ceil(math.log2(math.sqrt(A.size / 12) / max(weakest, 1e-300) / GRID_TOLERANCE))
    if bits <= _MOST_BITS:
        rows = np.rint(np.ldexp(A, bits)).astype(np.int64)
    else:
        rows = from_rows(A, Basis(None, A.shape[1])).coefficients
    return RealStrategy(rows[np.abs(rows).max(axis=1) > 0], merging(cells))


def merging(cells: Cells) -> Array | None:
    """The 0/1 rows that add up the cells of each kind, None where all differ."""
    if cells.are_all:
        return None
    return np.rint(cells.spread(np.eye(len(cells.first)))).astype(np.int64)


def _refuses(request: Request) -> str | None:
    n = request.workload.shape[1]
    if request.privacy.noise != "laplace":
        return "it weighs rows for Laplace noise, and the goal allows Gaussian noise"
    return refuse_many_cells(n, MAX_CELLS)


def _whole(request: Request, name: str, most: int) -> int | None:
    """A whole number that may be left out."""
    value = P_IDENTITY.option(request, name)
    return None if value is None else whole_option(name, value, most=most)


def _find(request: Request) -> Found:
    workload = request.workload
    steps = whole_option("iterations", P_IDENTITY.option(request, "iterations"), most=_MOST_STEPS)
    seed = whole_option("seed", P_IDENTITY.option(request, "seed"), least=0, most=2**128)
    # A sum for every cell beside the cells is more than any search has kept.
    p = _whole(request, "p", workload.shape[1])
    starts, workers = _whole(request, "starts", _MOST_STARTS), _whole(request, "workers", _MOST_WORKERS)
    sums = choice_option("sums", P_IDENTITY.option(request, "sums"), ("best", "any", "tables"))
    nothing = nothing_asked(request)
    if nothing is not None:
        return nothing
    found_tables = None if sums == "any" else find_tables(request)
    if sums == "tables":
        if found_tables is None:
            raise MethodError(
                'sums="tables" is for the total variance of cross tables of few attributes; leave it out'
            )
        return _found(request, found_tables.proposal, found_tables.note, found_tables.ended)
    generator, arrays = np.random.default_rng(seed), load_backend(request.backend)
    cells = cells_of(workload)
    if starts is None:
        starts = default_starts(len(cells.first))
    if workers is None and request.backend != "numpy":
        # The device works on one start at a time in any case.
        workers = 1
    effort = Effort(p, starts, steps, request.deadline, workers)
    weights = None
    if request.objective.kind == "total":
        problem = problem_of(workload, request.objective.weights(workload), cells, arrays)
        point = search(problem, effort, generator)
        ended = point.ended
        if found_tables is not None:
            ended = worst_ending([found_tables.ended, ended])
            if found_tables.total < point.value * problem.unit:
                return _found(request, found_tables.proposal, found_tables.note, ended)
        theta = point.theta
    else:
        met = Capped(request, cells, effort, arrays).find(generator)
        theta, weights, ended = met.theta, met.p, met.ended
    sought = np.count_nonzero(theta.any(axis=0))
    note = f"every cell and {sought:,} weighted sums of cells, {starts:,} starts"
    return _found(request, whole_rows(rows_of(theta), cells), note, ended, weights)


def _found(
    request: Request, proposal: RealStrategy, note: str, ended: Ended, p: Array | None = None
) -> Found:
    note += scaled_note(request)
    return Found(proposal, uniform_weights(request.workload), "heuristic", note, ended, p=p)


P_IDENTITY = Method(
    "p-identity",
    f"every cell and p weighted sums of cells, for Laplace noise, up to {MAX_CELLS:,} cells",
    _refuses,
    _find,
    {
        "p": (None, "sums of cells; about one for 12 to 21 cells unless given, whatever serves best"),
        "starts": (None, "starts tried; 24 unless given, fewer beyond 512 cells"),
        "iterations": (1000, "steps of L-BFGS-B for the start that goes on to the end"),
        "seed": (0, "of the starts"),
        "sums": ("best", "any weighted sums, whole cross tables of attributes (tables), or the best of both"),
        "workers": (None, "threads that share the starts; one unless given, all cores where that is quicker"),
    },
    is_quick=False,
    needs=dense_needs(held=7, first=4, step=1, rounded=1.1),
)
