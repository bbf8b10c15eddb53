"""The best weights for the rows of a fixed basis: Gaussian noise by L2, Laplace noise by L1.

    Gaussian   minimise Σ c_i/x_i     subject to  Σ_i x_i Q_ij² ≤ 1,     rows √x_i q_i
    Laplace    minimise Σ c_i/λ_i²    subject to  Σ_i λ_i |Q_ij| ≤ 1,    rows λ_i q_i

Both are convex where the rows are independent. The rows of a tree are not: then weights and the
least-squares use of the rows are improved in turn, W = L Q with L = W (ΛQ)⁺Λ and
c_i = ‖column i of L‖², which lowers the total at every turn, and for Gaussian noise ends at
the best weights, because Σ ‖L_i‖²/x_i is convex in both together. Turns alone converge slowly, so every
two of them are extrapolated along log c, and the longer step is kept where the total falls.

Reference:
    Li and Miklau (2012), adaptive mechanism, Theorem 1 and sections 3.5 and 5.3.
    Varadhan and Roland (2008), Simple and globally convergent methods for accelerating the convergence of
    any EM algorithm, scheme S3, for the extrapolation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from leastnoise.core.errors import DesignError, MethodError
from leastnoise.core.operators import Array, kronecker
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.families.bases import SQUARE_BASES, product_costs, scaled_rows
from leastnoise.planning.families.eigen import eigen_queries, gap_note, weighting_of, with_time_left
from leastnoise.planning.families.fixed_rows import tree
from leastnoise.planning.families.proposals import (
    from_rows,
    nothing_asked,
    refuse_unless_total,
    scaled_note,
    triangle,
)
from leastnoise.planning.method import (
    Method,
    Request,
    SearchResult,
    cells_per_attribute,
    dense_needs,
    heuristic,
    is_one_of,
    refuse_large,
    shown,
)
from leastnoise.strategy import Basis, RealStrategy

# Cells at most. As for the adaptive mechanism, more would take over half an hour on a laptop.
MAX_CELLS = 8_192

# A tree is weighed in turns of several such factorisations each, half a minute for 512 cells. "best" tries
# it up to this size, and with Laplace noise: prefix sums of 64 ages by sex cost 3,796 with it, with the next
# best basis 8,576. With Gaussian noise eigenvectors are ahead.
MAX_TREE_CELLS = 256

# Turns at most.
_MAX_TURNS = 100

# The relative gain of two turns below which the search ends.
_LEAST_GAIN = 1e-6

# Extrapolation goes at most this many times as far as a turn: prefix sums over 256 cells end at 8,563 after
# 47 turns, and without extrapolation at 8,577 after 100.
_FURTHEST = 16.0

# The gap to which each turn solves its weighting; the next turn changes the costs by more.
_TURN_TOL = 1e-7

# A node whose share of the costs is below this is not needed.
_NEEDED = 1e-24


# Rows with their weights, and their total variance at sensitivity 1 per unit of noise.
_Candidate = tuple[SearchResult, float]


def _refuses(request: Request) -> str | None:
    reason = refuse_unless_total(request, MAX_CELLS, allows_laplace=True)
    if reason is None and is_one_of(request.options.get("basis"), ("tree",)):
        sizes = cells_per_attribute(request.workload)
        return refuse_large(math.prod(2 * n for n in sizes), math.prod(sizes))
    return reason


def _power(request: Request) -> int:
    return request.privacy.noise.variance_power


def _loads(rows: Array, power: int) -> Array:
    """What each row of weight 1 costs each cell, (n, k)."""
    return np.abs(rows.astype(float).T) if power == 2 else rows.astype(float).T ** 2


def _row_weights(x: Array, power: int) -> Array:
    return x if power == 2 else np.sqrt(x)


def _by_square(name: str) -> Callable[[Request], _Candidate]:
    def find(request: Request) -> _Candidate:
        factors = [SQUARE_BASES[name](n) for n in cells_per_attribute(request.workload)]
        costs = product_costs(factors, request)
        rows, power = kronecker(factors), _power(request)
        found = weighting_of(request, costs, _loads(rows, power), power)
        proposal = RealStrategy(scaled_rows(rows, _row_weights(found.x, power)))
        note = f"{np.count_nonzero(costs):,} {name} queries, {gap_note(found)}"
        return heuristic(request, proposal, note, found.ended), found.achieved

    return find


def _by_eigen(request: Request) -> _Candidate:
    queries, power = eigen_queries(request), _power(request)
    found = weighting_of(request, queries.costs, _loads(queries.rows, power), power)
    rows = _row_weights(found.x, power)[:, None] * queries.rows
    proposal = (
        RealStrategy(triangle(rows, queries.basis), queries.basis)
        if power == 1
        else from_rows(rows, Basis(queries.basis, len(rows)))
    )
    note = f"{len(rows):,} eigen queries, {gap_note(found)}"
    return heuristic(request, proposal, note, found.ended), found.achieved


@dataclass(frozen=True, eq=False)
class _Turn:
    """Weights of the nodes, the costs of their least-squares use, and the total of both; how it ended."""

    x: Array
    costs: Array
    total: float
    ended: Ended


class WeightTurns:
    """Weights of the nodes of trees and their least-squares use, improved in turn."""

    def __init__(self, request: Request, rows: Array) -> None:
        self.request, self.power = request, _power(request)
        self.Q, self.loads = rows.astype(float), _loads(rows, self.power)
        self.V = request.workload.weighted_gram(request.objective.weights(request.workload))
        self.n_turns = 0

    def at(self, x: Array, ended: Ended = "converged") -> _Turn:
        """What weights cost with their least-squares use."""
        use = _least_squares(self.Q, _row_weights(x, self.power) ** 2)
        costs = np.einsum("ni,ni->i", use, self.V @ use)
        costs = np.where((costs > _NEEDED * float(costs.max())) & (x > 0), costs, 0.0)
        used = costs > 0
        return _Turn(x, costs, float((costs[used] / x[used] ** self.power).sum()), ended)

    def after(self, costs: Array) -> _Turn:
        """The best weights for some costs, and what they cost."""
        self.n_turns += 1
        found = weighting_of(with_time_left(self.request), costs, self.loads, self.power, tol=_TURN_TOL)
        return self.at(found.x, found.ended)

    def find(self) -> _Turn:
        """The best weights met until nothing is gained, from equal ones."""
        turn = self.at(np.full(len(self.Q), 1 / float(self.loads.sum(axis=1).max())))
        while self.n_turns < _MAX_TURNS:
            first = self.after(turn.costs)
            second = self.after(first.costs)
            best = min(first, second, key=lambda one: one.total)
            if best.total >= turn.total * (1 - _LEAST_GAIN) or second.ended == "deadline":
                return replace(min(turn, best, key=lambda one: one.total), ended=second.ended)
            further = self.after(_extrapolated(turn.costs, first.costs, second.costs))
            turn = min(best, further, key=lambda one: one.total)
        return replace(turn, ended="exhausted")


def _extrapolated(before: Array, first: Array, second: Array) -> Array:
    """The costs to which two turns lead on; a node that any of them gave up stays so."""
    used = (before > 0) & (first > 0) & (second > 0)
    # Nodes that cost little move much, and matter little.
    along = (second[used] / float(second.max())) ** 0.25
    step = np.log(first[used] / before[used])
    bend = np.log(second[used] / first[used]) - step
    ratio = float(np.linalg.norm(along * step)) / max(float(np.linalg.norm(along * bend)), 1e-300)
    length = min(max(ratio, 1.0), _FURTHEST)
    costs = np.log(before[used]) + 2 * length * step + length**2 * bend
    extrapolated = np.zeros_like(before)
    # Only turns give nodes up: none is needed less than this for having been extrapolated.
    extrapolated[used] = np.exp(np.maximum(costs - float(costs.max()), math.log(_NEEDED)))
    return extrapolated


def _by_tree(request: Request) -> _Candidate:
    rows = kronecker([tree(n, 2) for n in cells_per_attribute(request.workload)])
    turns = WeightTurns(request, rows)
    found = turns.find()
    proposal = RealStrategy(scaled_rows(rows, _row_weights(found.x, turns.power)))
    note = f"{np.count_nonzero(found.x):,} nodes of a binary tree, weighed in {turns.n_turns} turns"
    return heuristic(request, proposal, note, found.ended), found.total


def _least_squares(Q: Array, squares: Array) -> Array:
    """(QᵀΛ²Q)⁺QᵀΛ², (n, k), which estimates the cells from answers to the rows of Q."""
    from scipy import linalg

    right = Q.T * squares
    X = right @ Q
    try:
        return np.asarray(linalg.cho_solve(linalg.cho_factor(X), right))
    except linalg.LinAlgError:
        # Rows whose weight fell to zero left some cells apart.
        return np.asarray(linalg.pinvh(X) @ right)


_BASES: dict[str, Callable[[Request], _Candidate]] = {
    "wavelet": _by_square("wavelet"),
    "fourier": _by_square("fourier"),
    "identity": _by_square("identity"),
    "tree": _by_tree,
    "eigen": _by_eigen,
}


def _find(request: Request) -> SearchResult:
    name = WEIGHTED_BASIS.option(request, "basis")
    if not is_one_of(name, ("best", *_BASES)):
        raise MethodError(
            f"basis must be best, {', '.join(_BASES)}, got {shown(name)}", field="basis", given=name
        )
    nothing = nothing_asked(request)
    if nothing is not None:
        return nothing
    best = _best(request) if name == "best" else _BASES[name](request)[0]
    return replace(best, note=best.note + scaled_note(request))


def _best(request: Request) -> SearchResult:
    """The best of all bases; one whose rows cannot be rounded is left out."""
    n = request.workload.shape[1]
    found = []
    for name, find in _BASES.items():
        if name == "tree" and (n > MAX_TREE_CELLS or not request.privacy.noise.is_pure):
            continue
        try:
            found.append(find(with_time_left(request)))
        except DesignError:
            if name == "identity":
                raise
    best, _ = min(found, key=lambda candidate: candidate[1])
    return replace(best, ended=worst_ending(candidate.ended for candidate, _ in found))


WEIGHTED_BASIS = Method(
    "weighted-basis",
    "the best weights for the rows of a fixed basis, Gaussian or Laplace noise",
    _refuses,
    _find,
    {
        "basis": (
            "best",
            f"{', '.join(_BASES)}; or the best of them, trees for Laplace noise to {MAX_TREE_CELLS} cells",
        )
    },
    needs=dense_needs(held=12.2, first=19, step=6),
)
