"""The least largest variance, and the least total within targets, over a shared axis.

As `optimum`, with weights p on queries: by the same symmetry they depend on the row w of Z and on the product
alone, and one row stands for as many queries as the others have values. A row has in block s the variance
a_js w X_s⁻¹ wᵀ, so that blocks are those of `solver.capped`, with rows √a_js w.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core.deadline import Watch
from leastnoise.core.operators import Array
from leastnoise.planning.families.product_requests import ProductRequest
from leastnoise.planning.families.shared_products import SharedProducts, root_of
from leastnoise.planning.method import Request
from leastnoise.planning.refusals import infeasible
from leastnoise.solver import (
    NUMPY,
    CappedBlock,
    OneAxisRows,
    Optimum,
    Run,
    least_largest_over_one_axis,
    least_profile,
    total_sparing_caps,
    total_within_caps,
)
from leastnoise.solver.rows import DenseRows

# Numbers of the rows with caps in all blocks together, at most.
_MOST_ROW_NUMBERS = 2**26

# Sets of other attributes, at most: each is decomposed by itself.
_MOST_SETS = 128

# Rows with caps and combinations of values of Z together, at most: a matrix over all that bind is factored.
_MOST_WEIGHTS = 6_000

# The same where a fixed point may be taken: four tables over 128 periods take 0.6 s and 0.2 s by it, over 365
# 8.1 s and 2.6 s.
_FEW_WEIGHTS = 1_000

# The share of every cap that is left to rounding, which has been seen to take a ten-millionth.
_SPARE = 1e-6

# At least this share of them is spared where targets are tight.
_LEAST_SPARE = 1e-10


def serves_caps(request: Request, shared: SharedProducts, caps: Array) -> bool:
    """Whether the rows with caps are few enough."""
    return _goes_by_fixed_point(request, shared, caps) or _are_few(shared, caps, _MOST_WEIGHTS)


def _are_few(shared: SharedProducts, caps: Array, most: int) -> bool:
    n_rows = sum(shared.kind(int(j)).n_rows for j in np.flatnonzero(np.isfinite(caps)))
    n_sets = shared.lattice[1].shape[1]
    is_few = n_rows + shared.products.sizes[shared.axis] <= most and n_sets <= _MOST_SETS
    return is_few and n_rows * n_sets * shared.products.sizes[shared.axis] <= _MOST_ROW_NUMBERS


def _goes_by_fixed_point(request: Request, shared: SharedProducts, caps: Array) -> bool:
    """Whether rows of one attribute are so many that a fixed point is quicker for the largest variance."""
    is_one = len(shared.products.axes[shared.axis].names) == 1
    return request.objective.kind == "largest" and is_one and not _are_few(shared, caps, _FEW_WEIGHTS)


class CappedSearch:
    """Rows with caps in every block, in units in which noise and caps are of order 1.

    Args:
        weights: of the queries of every product; only for a total.
        caps: at profile 1, ∞ where there is none.
    """

    def __init__(self, shared: SharedProducts, caps: Array, weights: Array | None) -> None:
        self.shared, self.weights = shared, weights
        self.capped = np.flatnonzero(np.isfinite(caps))
        kinds = [shared.kind(int(j)) for j in self.capped]
        self.rows = [kind.operator.dense() for kind in kinds]
        sizes = [len(W) for W in self.rows]
        terms = [shared.products.terms[j] for j in self.capped]
        self.counts = np.repeat([term.n_rows / size for term, size in zip(terms, sizes, strict=True)], sizes)
        self._ends = np.cumsum(sizes)[:-1]
        own = np.repeat(caps[self.capped], sizes)
        _, A = shared.lattice
        stacked = np.vstack(self.rows)
        shares = np.repeat(A[self.capped], sizes, axis=0)
        lengths = (stacked**2).sum(axis=1) * shares.sum(axis=1)
        asked = lengths > 0
        self.unit = math.exp(float(np.log(own[asked] / lengths[asked]).mean()))
        self.caps = own / self.unit
        grams = None if weights is None else shared.grams(weights)
        self.scale = 1.0
        if grams is not None:
            self.scale = math.sqrt(max(float(H.diagonal().max()) for H in grams))
        self.used = shared.used
        self._shares, self._sizes, self._grams = A, sizes, grams
        self._stacked = stacked[:, self.used]

    @cached_property
    def blocks(self) -> dict[int, CappedBlock]:
        """The rows, cells and totals of every set of other attributes, in directions of its own."""
        found = {}
        for number, own in enumerate(self._shares[self.capped].T):
            L = np.sqrt(np.repeat(own, self._sizes))[:, None] * self._stacked
            base = None
            if self._grams is not None:
                base = root_of(self._grams[number][np.ix_(self.used, self.used)]) / self.scale
            B = _directions(L if base is None else np.vstack([L / math.sqrt(self.unit), base]))
            if len(B):
                columns = B if base is None else B / math.sqrt(self.unit)
                own_base = None if base is None else base @ B.T
                found[number] = CappedBlock(DenseRows(L @ B.T, NUMPY), columns, own_base)
        return found

    def least_largest(self, run: Run, *, is_wide: bool) -> Optimum:
        """The noise with the least largest variance beside the caps.

        Args:
            is_wide: whether rows are so many that a fixed point is quicker.
        """
        if is_wide:
            rows = np.split(self._stacked, self._ends)
            found = least_largest_over_one_axis(OneAxisRows(rows, self._shares[self.capped]), self.caps, run)
            return self.noise(found, range(self._shares.shape[1]))
        return self.noise(least_profile(list(self.blocks.values()), self.caps, run), self.blocks)

    def total_within(self, spare: float, run: Run) -> tuple[Optimum, float]:
        """The noise of least total with a share of every cap to spare, and what such a share costs."""
        assert self.weights is not None
        is_all_capped = not (np.delete(self.weights, self.capped) > 0).any()
        caps = self.caps * (1 - spare)
        found = total_within_caps(list(self.blocks.values()), caps, run, is_all_capped=is_all_capped)
        return found, float(found.p @ caps) / found.achieved if found.is_feasible else 0.0

    def noise(self, solution: Optimum, numbers: Iterable[int]) -> Optimum:
        """What was found for some sets, as rows over Z for every one."""
        n = self.shared.products.sizes[self.shared.axis]
        roots: list[Array] = [np.zeros((0, n)) for _ in range(self.shared.lattice[1].shape[1])]
        for number, own in zip(numbers, solution.roots, strict=True):
            roots[number] = np.zeros((len(own), n))
            roots[number][:, self.used] = own
        q = np.zeros(n)
        q[self.used] = solution.q
        # Of single queries, in the unit of the weights.
        return replace(solution, roots=roots, q=q, p=solution.p * self.scale**2 / self.counts)

    def witness(self, found: Optimum, question: ProductRequest) -> ProductWitness:
        """Dual weights of cells together with those of queries, row by row of Z."""
        p, of_rows = np.zeros(len(self.shared.products.terms)), {}
        for j, own in zip(self.capped.tolist(), np.split(found.p, self._ends), strict=True):
            p[j] = largest = float(own.max())
            if self.shared.axis in self.shared.products.terms[j].places and largest > 0:
                of_rows[j, self.shared.axis] = own / largest
        return replace(self.shared.witness(found.q, question.products), p=p, rows=of_rows)


def find_capped(
    request: Request, question: ProductRequest, shared: SharedProducts, watch: Watch
) -> tuple[Optimum, ProductWitness, float]:
    """The optimum under caps, its proof, and the gap for which its rows are rounded.

    Raises:
        InfeasibleError: if no noise keeps them within the goal, with the proof.
    """
    assert question.caps is not None
    run = Run(request.tol / 2, watch)
    if request.objective.kind == "largest":
        is_wide = _goes_by_fixed_point(request, shared, question.caps)
        search = CappedSearch(shared, question.caps, None)
        found = search.least_largest(run, is_wide=is_wide)
        return found, search.witness(found, question), request.tol
    search = CappedSearch(shared, question.caps * float(request.privacy.column_budget), question.weights)
    solution, share = total_sparing_caps(search.total_within, run, usual=_SPARE, least=_LEAST_SPARE)
    found = search.noise(solution, search.blocks)
    witness = search.witness(found, question)
    if not solution.is_feasible:
        raise infeasible(
            request.workload,
            request.privacy,
            witness,
            math.sqrt(solution.achieved),
            is_late=solution.ended == "deadline",
        )
    return found, witness, request.tol * share


def _directions(rows: Array) -> Array:
    """Orthonormal rows that span what these do, (k, n), whatever their lengths."""
    lengths = np.sqrt((rows**2).sum(axis=1))
    kept = lengths > 0
    if not kept.any():
        return rows[:0]
    _, values, turn = np.linalg.svd(rows[kept] / lengths[kept, None], full_matrices=False)
    return np.asarray(turn[values > _WEAKEST * values[0]])


# Directions of rows of unit length below this share of the strongest are rounding.
_WEAKEST = 1e-10
