"""The best strategy found for one attribute under Laplace noise, from the Gram matrix of its queries alone.

A product of strategies has the product of their L1 sensitivities, and for a product of workloads the
product of their totals, so that

    Δ² trace V (AᵀA)⁺,     V = V_1 ⊗ … ⊗ V_d,  A = A_1 ⊗ … ⊗ A_d

is minimised over products one attribute at a time. Tried for each: noise on every cell, p-identity,
weighted wavelets and trees, one row where the queries are multiples of one another, and for few cells
what refining the best of these with signs gives. All of it comes in whole numbers, and what is compared
is the total of these.

Rows that reach every cell may be rounded as they are. Rows that do not must span what is asked exactly: of
those only ones with whole-number directions are tried, each multiplied by a whole number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from leastnoise.core.deadline import Deadline
from leastnoise.core.decompositions import has_full_rank
from leastnoise.core.errors import DesignError
from leastnoise.core.merged_cells import distinct_cells
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.core.resources import threads_for_matrices_of
from leastnoise.planning.families.bases import NEEDED, scaled_rows, wavelet_basis
from leastnoise.planning.families.crossed_tables import on_grid
from leastnoise.planning.families.fixed_rows import tree
from leastnoise.planning.p_identity.coarse_to_fine import Effort, default_starts, search
from leastnoise.planning.p_identity.objective_function import in_order, problem_of_gram, rows_of
from leastnoise.planning.refinement import free_rows, refine, total_of
from leastnoise.solver import optimal_weighting

# Bits of the coefficients of one query, at most.
_BITS = 26

# Bits to which multiples of whole-number rows are rounded.
_MULTIPLE_BITS = 20

# Cells. Beyond this number rows are not refined with signs, which takes n³ per step.
_REFINED_CELLS = 128

# Steps of the refinement with signs: 1 s for 128 cells.
_REFINED_STEPS = 400

# Cells. Beyond this number trees are not weighed.
_TREE_CELLS = 128

# Turns at most in which a tree is weighed.
_TREE_TURNS = 20

# Steps of L-BFGS-B for p-identity.
_STEPS = 1_000

# The relative gap to which weights of fixed rows are solved.
_WEIGHTING_TOL = 1e-7

# The relative gain of a turn below which turns end.
_LEAST_GAIN = 1e-5

# What rows must span is spanned to this share of the largest entry.
_SAME = 1e-9

# Ratios of the coefficients of one query have denominators up to here.
_MOST_DENOMINATOR = 1_000


@dataclass(frozen=True, eq=False)
class LaplaceFactor:
    """A strategy for one attribute.

    Attributes:
        rows: whole numbers, (r, n), int64.
        sensitivity: the largest sum of sizes in a column of rows, exactly.
        total: sensitivity² trace V (rowsᵀ rows)⁺, the total variance per unit of noise.
        how: which kind of strategy it is.
        ended: how the search for it ended, which tried other kinds too.
    """

    rows: Array
    sensitivity: int
    total: float
    how: str
    ended: Ended = "converged"

    @property
    def unit_rows(self) -> Array:
        """The rows as floats, at L1 sensitivity 1 but for rounding."""
        return np.asarray(self.rows / float(self.sensitivity))


def best_factor(gram: Array, *, seed: int = 0, time_limit: float | None = None) -> LaplaceFactor:
    """The least total found for a Gram matrix, (n, n). The same seed gives the same factor.

    Args:
        gram: V = WᵀW, with weights if there are any; not zero.
        time_limit: seconds, after which no further candidate is sought; with one, the result depends
            on the machine.

    Guarantee:
        `sensitivity` is exact, and every query whose row is within the rows of V can be answered.
    """
    V = np.asarray(gram, dtype=float)
    used = np.diag(V) > 0
    cells = in_order(distinct_cells(V[used], used))
    deadline = Deadline.after(time_limit)
    V = V[np.ix_(cells.first, cells.first)]
    best: LaplaceFactor | None = None
    endings: list[Ended] = []
    with threads_for_matrices_of(len(V)), np.errstate(all="ignore"):
        for how, make in _candidates(V, seed, deadline):
            if best is not None and deadline.is_past:
                endings.append("deadline")
                break
            rows, ended = make(None if best is None else best.unit_rows)
            endings.append(ended)
            factor = None if rows is None else _judged(V, rows, how)
            if factor is not None and (best is None or factor.total < best.total):
                best = factor
    assert best is not None
    every = np.zeros((len(best.rows), len(used)), dtype=np.int64)
    every[:, used] = best.rows[:, cells.kind]
    return LaplaceFactor(every, best.sensitivity, best.total, best.how, worst_ending(endings))


# The rows of a candidate, None if there are none, and how the search for them ended.
_Made = tuple[Array | None, Ended]

# Makes a candidate, given the best so far at sensitivity 1.
_Make = Callable[[Array | None], _Made]


def _candidates(V: Array, seed: int, deadline: Deadline) -> Iterator[tuple[str, _Make]]:
    n = len(V)
    yield "every cell", lambda _: (np.eye(n, dtype=np.int64), "converged")
    yield "one query", lambda _: (_one_row(V), "converged")
    yield "p-identity", lambda _: _p_identity(V, seed, deadline)
    yield "weighted wavelet", lambda _: _weighted(V, wavelet_basis(n), 1, deadline)
    if n <= _TREE_CELLS:
        yield "weighted tree", lambda _: _weighted(V, tree(n, 2), _TREE_TURNS, deadline)
    if n <= _REFINED_CELLS:
        yield "refined with signs", lambda rows: _refined(V, rows, deadline)


def _judged(V: Array, rows: Array, how: str) -> LaplaceFactor | None:
    """The rows with their total, None where they do not span what is asked."""
    sensitivity = int(np.abs(rows).sum(axis=0).max())
    A = rows / float(sensitivity)
    Y = np.linalg.pinv(A.T @ A, rcond=1e-12, hermitian=True)
    missed = V - V @ (Y @ (A.T @ A))
    if (np.abs(missed) > _SAME * float(np.abs(V).max()) * len(V)).any():
        return None
    return LaplaceFactor(rows, sensitivity, float(np.vdot(V, Y)), how)


def _one_row(V: Array) -> Array | None:
    """The one query of which all are multiples, in whole numbers; None where there are several."""
    row = V[int(np.diag(V).argmax())]
    row = row / row[int(np.abs(row).argmax())]
    shares = [Fraction(float(value)).limit_denominator(_MOST_DENOMINATOR) for value in row]
    shared = math.lcm(*(share.denominator for share in shares))
    whole = [int(share * shared) for share in shares]
    if max(map(abs, whole)) > 2**_BITS:
        return None
    v = np.array(whole, dtype=float)
    scale = float(V.max()) / float(v.max()) ** 2
    if (np.abs(V - scale * np.outer(v, v)) > _SAME * float(np.abs(V).max())).any():
        return None
    return np.array([whole], dtype=np.int64)


def _p_identity(V: Array, seed: int, deadline: Deadline) -> _Made:
    effort = Effort(None, default_starts(len(V)), _STEPS, deadline)
    point = search(problem_of_gram(V), effort, np.random.default_rng(seed))
    return on_grid(rows_of(point.theta)), point.ended


def _weighted(V: Array, Q: Array, turns: int, deadline: Deadline) -> _Made:
    """The rows of Q with the weights of least total; where they depend on one another, sought in turns."""
    rows, loads = Q.astype(float), np.abs(Q.T).astype(float)
    x, total = np.ones(len(Q)), math.inf
    # Independent rows are weighed once, and that is all.
    ended: Ended = "exhausted"
    for _ in range(turns):
        scaled = x[:, None] * rows
        use = np.linalg.pinv(scaled.T @ scaled, rcond=1e-12, hermitian=True) @ (scaled.T * x)
        costs = np.einsum("ni,ni->i", use, V @ use)
        costs = np.where(costs > NEEDED * float(costs.max()), costs, 0.0)
        try:
            found = optimal_weighting(costs, loads, power=2, tol=_WEIGHTING_TOL, time_limit=deadline.left)
        except DesignError:
            # The costs are too far apart; other candidates do not have that trouble.
            return None, "converged"
        x, gain, total = found.x, 1 - found.achieved / total, found.achieved
        if turns == 1 or gain < _LEAST_GAIN or found.ended == "deadline":
            ended = found.ended
            break
    return scaled_rows(Q, x, _MULTIPLE_BITS), ended


def _refined(V: Array, rows: Array | None, deadline: Deadline) -> _Made:
    """Rows that reach every cell, moved freely, signs included; for few cells from random ones too."""
    starts = free_rows(len(V))
    if rows is not None and has_full_rank(rows):
        starts.insert(0, rows)
    weigh = total_of(V * (len(V) / float(np.trace(V))))
    ends = [refine(weigh, start, _REFINED_STEPS, deadline) for start in starts]
    found = [end for end in ends if end is not None]
    rows = on_grid(min(found, key=lambda end: end.judged).rows) if found else None
    return rows, worst_ending(end.ended for end in found)
