"""A request over kinds of cells in place of cells, and what was found for it in terms of cells again.

Cells that no query tells apart are measured alike by some optimal noise: the mean of a strategy over all
permutations of such cells has no larger profile and no larger variances. So the optimum over one cell of each
kind is the optimum over all, with the least budget of a kind where cells have budgets of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from leastnoise.bounds import Witness
from leastnoise.core.merged_cells import Cells
from leastnoise.core.operators import Array, Matrix
from leastnoise.planning.families.proposals import counted_workload
from leastnoise.planning.method import Request, SearchResult
from leastnoise.privacy import CellCosts
from leastnoise.query import TotalVariance, Workload
from leastnoise.strategy import RealStrategy

# Seconds that comparing an entry of the queries takes on one core, two passes over all of them included.
_PER_ENTRY = 5e-8

# Of the time that was asked for, the share that comparing may take.
_COMPARING = 0.25


def can_compare_in_time(request: Request) -> bool:
    """Whether cells are compared in a small part of the time there is."""
    m, n = request.workload.shape
    return request.time_limit is None or m * n * _PER_ENTRY <= _COMPARING * request.time_limit


def kinds_of(request: Request) -> Cells | None:
    """The cells that the request's queries tell apart, up to sign where a record is added or removed.

    None where finding out would take too long.
    """
    if not can_compare_in_time(request):
        return None
    workload = request.workload
    return workload.cells if request.privacy.relation.replaces else workload.cells_up_to_sign


def cells_in_time(request: Request) -> Cells:
    """The cells that the request's queries tell apart; all where finding out would take too long."""
    cells = request.workload.cells if can_compare_in_time(request) else None
    return Cells.all_of(request.workload.shape[1]) if cells is None else cells


def n_directions(request: Request) -> tuple[int, int]:
    """(k, d): directions at most, and the cells that queries tell apart."""
    m, n = request.workload.shape
    cells = kinds_of(request)
    d = n if cells is None else len(cells.first)
    return min(m, d), d


def deciding_cells(request: Request, cells: Cells) -> Array:
    """For each kind the cell with least to spend: the first, where earlier plans have used nothing."""
    if request.used is None:
        return cells.first
    where = np.flatnonzero(cells.used)
    # Python integers: costs over a common unit have more than 64 bits.
    costs = np.array([request.used.numerators[i] for i in where], dtype=object)
    largest: dict[int, int] = {}
    for place, (kind, cost) in enumerate(zip(cells.kind.tolist(), costs, strict=True)):
        if kind not in largest or cost > costs[largest[kind]]:
            largest[kind] = place
    return where[[largest[kind] for kind in range(len(cells.first))]]


@dataclass(frozen=True, eq=False)
class Room:
    """What each kind of cell may spend where earlier plans have used part of the goal.

    Cells that no query tells apart are measured alike; the one with least to spend decides for all.

    Attributes:
        unit: the most that any kind may spend, μ².
        roots: √(τ/unit) of each kind, (kinds,).
        deciding: the position of the cell that decides for each kind.
    """

    unit: float
    roots: Array
    deciding: Array

    def scaled(self, columns: Array) -> Array:
        """Columns of the kinds, (k, kinds), for which a profile of 1 is `unit` times what each may spend."""
        return np.asarray(columns / self.roots)

    def restored(self, columns: Array) -> Array:
        """The columns that `scaled` was given."""
        return np.asarray(columns * self.roots)

    def cell_weights(self, q: Array, n: int) -> Array:
        """Dual weights of all cells from those of scaled columns: each on the cell that decides."""
        every = np.zeros(n)
        every[self.deciding] = q / self.roots**2
        return every


def room_of(request: Request, cells: Cells) -> Room:
    """What each kind of cell may spend, after earlier plans."""
    assert request.spare is not None
    deciding = deciding_cells(request, cells)
    tau = np.array([request.spare.numerators[i] / request.spare.unit for i in deciding.tolist()])
    most = float(tau.max())
    return Room(most, np.sqrt(tau / most), deciding)


def over_kinds(request: Request, cells: Cells) -> Request:
    """The request with one cell of each kind, and its objective's weights as those of the queries."""
    objective = request.objective
    workload = counted_workload(request) if objective.kind != "largest" else request.workload
    if isinstance(objective, TotalVariance):
        # Relative weights are about all cells, and are the queries' own by now.
        objective = TotalVariance(within_targets=objective.within_targets)
    used = request.used
    if used is not None:
        deciding = deciding_cells(request, cells)
        used = CellCosts(tuple(used.numerators[i] for i in deciding), used.unit)
    return replace(request, workload=columns_of(workload, cells.first), objective=objective, used=used)


def columns_of(workload: Workload, cells: Array) -> Workload:
    """The same queries over some of the cells."""
    blocks = [replace(block, operator=Matrix(block.operator.columns(cells))) for block in workload.blocks]
    return Workload(tuple(blocks), workload.schema)


# Entries of the queries over one cell of each kind, up to which these take the place of the queries over all
# cells: 128 MB.
_KIND_ENTRIES = 2**24


def queries_over_kinds(workload: Workload, cells: Cells) -> tuple[Workload, Cells]:
    """The queries over one cell of each kind, all of which differ; as they are, where that is too large.

    A covariance of the kinds is then not written out as one of all cells, which for 3 queries over 20,000
    cells took over a minute at every step of a search.
    """
    d = len(cells.first)
    if cells.are_all or workload.shape[0] * d > _KIND_ENTRIES:
        return workload, cells
    return columns_of(workload, cells.first), Cells.all_of(d)


def over_cells(found: SearchResult, request: Request, cells: Cells) -> SearchResult:
    """What was found for the kinds, for all cells."""
    proposal = found.proposal
    assert isinstance(proposal, RealStrategy)
    basis = np.eye(len(cells.first), dtype=np.int64) if proposal.basis is None else proposal.basis
    assert isinstance(found.q, np.ndarray)
    q, pairs = weights_of_cells(found.q, found.pairs, request, cells)
    return replace(found, proposal=RealStrategy(proposal.coefficients, cells.spread(basis)), q=q, pairs=pairs)


def weights_of_cells(
    q: Array, pairs: Array | None, request: Request, cells: Cells
) -> tuple[Array, Array | None]:
    """Dual weights of cells, or of pairs of them, from those of kinds: each on the cell that decides."""
    n = len(cells.used)
    if pairs is not None:
        # The number of kinds stands for no cell.
        return q, np.sort(np.append(cells.first, n)[pairs], axis=1)
    every = np.zeros(n)
    every[deciding_cells(request, cells)] = q
    return every, None


def witness_of_cells(witness: Witness, request: Request, cells: Cells) -> Witness:
    """The proof for all cells from that for kinds."""
    q, pairs = weights_of_cells(witness.q, witness.pairs, request, cells)
    return Witness(witness.p, q, pairs)
