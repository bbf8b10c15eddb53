"""Unions of products by joint weights over free axis bases: strips, windows and trees on grids.

X = Tᵀ diag(ω) T with T = ⊗_a T_a, every T_a free and invertible, and ω free. Residuals give every block of
rows one precision; where two ordered attributes are crossed cell by cell, as running sums along x for every
y and along y for every x, the optimum is not of that form, and residuals end 12 to 23 % above it. This family
holds products (ω of rank one), residuals of one centre (ω constant on blocks) and weighted bases (T fixed).

The search is that of `planning.joint`. It is not convex, so the plan carries a bound of product form, as
`residuals` does, and its gap is reported as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leastnoise.bounds import (
    ProductWitness,
    union_bound,
    union_bound_work,
    with_row_weights,
    with_weighted_terms,
)
from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import DesignError, InfeasibleError
from leastnoise.core.operators import Array
from leastnoise.core.printable import in_figures
from leastnoise.core.progress import Ended, Progress, worst_ending
from leastnoise.core.resources import LATE_SECONDS, Needs, matrices, products, seconds_for
from leastnoise.planning.families.product_requests import (
    ProductRequest,
    largest_axis,
    product_request,
    refuse_unstructured,
    table_sizes,
)
from leastnoise.planning.families.residuals import MAX_PIECES
from leastnoise.planning.families.union_absolute import find_absolute_union, refuse_absolute
from leastnoise.planning.joint.joint_caps import (
    WITHIN_NORMS,
    WITHIN_STEPS,
    CappedJointPoint,
    CappedJointProblem,
    capped_descent,
    capped_weights,
)
from leastnoise.planning.joint.joint_dual import (
    joint_dual_weights,
    over_all_values,
    rotated_bound,
    rotated_weights,
    row_weights,
    sums_along_axes,
)
from leastnoise.planning.joint.joint_problem import JointProblem
from leastnoise.planning.joint.joint_rounding import WEIGHTS_TOL, integer_bases, joint_proposal
from leastnoise.planning.joint.joint_search import (
    COMPARED_TOL,
    FIRST_NORMS,
    FIRST_STEPS,
    NORMS,
    SHARP_NORMS,
    STEPS,
    JointPoint,
    descended,
    weighted,
)
from leastnoise.planning.joint.joint_start import eigen_start, haar_start, residual_start, unit_start
from leastnoise.planning.method import Method, Request, SearchResult
from leastnoise.planning.oblique.proposal import with_loose_caps, with_small_weights
from leastnoise.planning.oblique.splitting import split_products
from leastnoise.planning.oblique.tied_axes import tied_where_useful
from leastnoise.planning.refusals import infeasible
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import first_not_spanned
from leastnoise.solver import load_backend
from leastnoise.strategy import MAX_DENSE_STRATEGY, AxisForm

# Cells. A search holds 70 arrays of as many numbers.
MAX_CELLS = 2**21

# Queries, where each has a cap of its own to keep.
MAX_CAPPED = 2**21

# Rows of one kind over one axis, where single queries have caps.
MAX_CAPPED_ROWS = 2**14

# Shares of the time that are over when a part of the search must end: starts have been compared, ...
_COMPARING = 0.2

# ... with targets within a goal, the largest variance is known, ...
_KEEPING = 0.4

# ... the descent has ended, ...
_SEARCHING = 0.7

# ... and weights have been worked out for integer rows; what is left is for the bound.
_WEIGHING = 0.8

# The gap to which ω is worked out before the first step.
_ROUGH = 1e-1

# Cells, at most, where every start is followed to its end.
_MAX_CELLS_FOR_ALL_STARTS = 4_096

# Of all combinations of rows, the share that has weights, below which bases without 1ᵀ are not tried.
_FEW_ROWS = 0.5

# A plan within this share of its bound is not searched for again from another start.
_NEAR_ENOUGH = 4e-3

# Eigenvectors that all Gram matrices share are the optimum to this share or better.
_COMMUTING = 1e-3

# What rounding to integers adds to a variance must not take it over its cap.
_ROUNDING_ROOM = 1e-5


def _refuses(request: Request) -> str | None:
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    if request.privacy.noise != GAUSSIAN:
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    if request.privacy.relation.replaces:
        return "it is for records that are added or removed, not replaced"
    asked = product_request(request).products
    if not asked.axes:
        return "there is a single cell"
    if any(map(asked.is_zero, asked.terms)):
        return "a condition holds for no cell; leave it out"
    if asked.n_cells > MAX_CELLS:
        return f"it takes at most {MAX_CELLS:,} cells; this workload has {in_figures(asked.n_cells)}"
    if request.over is not None and asked.n_cells**2 > MAX_DENSE_STRATEGY:
        most = math.isqrt(MAX_DENSE_STRATEGY)
        return f"it puts rows over at most {most:,} cells in the order of time, as over= asks"
    if request.objective.kind == "absolute":
        return refuse_absolute(request)
    if request.objective.kind != "total":
        n_queries = sum(term.n_rows for term in asked.terms)
        if n_queries > MAX_CAPPED:
            return f"it tells at most {MAX_CAPPED:,} queries with targets apart; there are {n_queries:,}"
        most = max((kind.n_rows for kinds in asked.kinds for kind in kinds), default=1)
        if most > MAX_CAPPED_ROWS:
            return f"it tells at most {MAX_CAPPED_ROWS:,} rows of an attribute apart; there are {most:,}"
    return None


def _needs(request: Request) -> Needs:
    asked = product_request(request).products
    cells, sizes = asked.n_cells, asked.sizes
    squares = sum(size**2 for size in sizes)
    held = matrices(_HELD, 1, cells + squares)
    # Towards cells, towards rows, and the slopes of both: six products along every axis.
    each = 12.0 * cells * sum(sizes) + sum(products(3, size, size) for size in sizes)
    if request.objective.kind != "total":
        n_queries = sum(float(term.n_rows) for term in asked.terms)
        held += matrices(_HELD, 1, n_queries)
        each += 24.0 * n_queries * sum(sizes)
    step = 0.0 if request.backend != "numpy" else each
    return Needs(held, _FIRST_EVALUATIONS * step, step, _LAST_EVALUATIONS * each, _EVALUATIONS)


# Arrays over all cells held at once, those of L-BFGS included.
_HELD = 70.0

# Evaluations before the search can end for the first time.
_FIRST_EVALUATIONS = 100.0

# As a rule, until it ends by itself.
_EVALUATIONS = 2_000.0

# And of rounding, the weights for integer rows, and the sensitivity.
_LAST_EVALUATIONS = 100.0


def _find(request: Request) -> SearchResult:
    if request.objective.kind == "absolute":
        return find_absolute_union(request, _find)
    question = product_request(request)
    search = _Search(request, question)
    if request.objective.kind == "total":
        return search.total()
    if request.objective.kind == "largest":
        return search.largest()
    return search.total_within_caps()


class _Search:
    """One request: its time, its starts, and what becomes of them."""

    def __init__(self, request: Request, question: ProductRequest) -> None:
        self._request, self._question = request, question
        # The certificate's bound may take the first second after the limit, as rounding may the next.
        proof = max(seconds_for(union_bound_work(question.products)) - LATE_SECONDS / 2, 0.0)
        self._deadline = request.deadline.before(seconds_for(_needs(request).last) + proof)
        self._backend = load_backend(request.backend)
        self._steps = 0

    def _told(self) -> None:
        """Count an evaluation, and tell the listener; the gap is known only at the end."""
        self._steps += 1
        if self._request.progress is not None:
            self._request.progress(Progress(self._steps, math.inf, self._request.deadline.elapsed))

    def _starts(self, weights: Array) -> list[tuple[JointProblem, list[Array]]]:
        """Problems with free bases, and with 1ᵀ held on axes that are added up, each with bases."""
        # The same start for the same request.
        rng = np.random.default_rng(self._request.workload.shape[1])
        asked = self._question.products
        plain = JointProblem(asked, weights, pins=False, backend=self._backend)
        starts = [(plain, unit_start(plain, rng))]
        if any(axis.has_total for axis in plain.axes):
            held = JointProblem(asked, weights, pins=True, backend=self._backend)
            starts += [(held, unit_start(held, rng)), (held, haar_start(held, rng))]
        return starts

    # Total variance -----------------------------------------------------------------------------------

    def total(self) -> SearchResult:
        question = self._question
        weights = question.weights
        if (weights == 0).any() and first_not_spanned(
            self._request.workload, self._request.objective
        ) is None:
            weights = with_small_weights(weights, table_sizes(question.products))
        problem, point = self._least_total(weights, self._deadline.part(_SEARCHING))
        forms, bases = integer_bases(problem, point.bases)
        found = weighted(
            problem,
            bases,
            tol=WEIGHTS_TOL,
            start=point.q,
            ended=point.ended,
            deadline=self._deadline.part(_WEIGHING),
        )
        start = sums_along_axes(problem, found.q)
        q, proved = joint_dual_weights(
            problem.products, weights, start=start, achieved=found.total, deadline=self._deadline
        )
        witness = ProductWitness(q, axes=problem.products.axes)
        return self._result(problem, forms, found.omega, witness, [found.ended, proved])

    def _least_total(self, weights: Array, deadline: Deadline) -> tuple[JointProblem, JointPoint]:
        early = self._deadline.part(_COMPARING)
        starts = self._starts(weights)
        plain = starts[0][0]
        # Where Gram matrices commute this is the optimum; elsewhere a descent from it ends too high.
        commuting = weighted(plain, eigen_start(plain), tol=_ROUGH, deadline=early)
        proved = (1 + _COMMUTING) * rotated_bound(self._question.products, weights)
        if commuting.total <= (1 + _ROUGH) * proved:
            commuting = weighted(plain, commuting.bases, tol=COMPARED_TOL, deadline=early)
        if commuting.total <= proved:
            return plain, commuting
        from_residuals = self._from_residuals(starts[-1][0], weights, deadline)
        if self._has_few_rows(starts[-1][0]):
            # Free rows in place of 1ᵀ would need weights for all combinations of rows.
            del starts[0]
        tried: list[tuple[JointProblem, JointPoint]] = []
        for problem, bases in starts:
            first = weighted(problem, bases, tol=_ROUGH, deadline=early)
            if len(starts) > 1:
                first = self._improved(problem, first, FIRST_NORMS, FIRST_STEPS, early)
            tried.append((problem, first))
        tried.sort(key=lambda pair: pair[1].total)
        # The best after a few steps need not be the best at the end.
        n_kept = len(tried) if self._question.products.n_cells <= _MAX_CELLS_FOR_ALL_STARTS else 1
        ends = [
            (problem, self._improved(problem, first, NORMS, STEPS, deadline))
            for problem, first in tried[:n_kept]
        ]
        problem, point = min(from_residuals + ends, key=lambda pair: pair[1].total)
        if len(starts) == 1 and not self._is_near(problem, point, weights, deadline):
            # On strips the first start ends lower by up to 0.4 %, on windows the second by 1.2 %.
            rng = np.random.default_rng(self._request.workload.shape[1])
            second = weighted(problem, haar_start(problem, rng), tol=_ROUGH, deadline=deadline)
            second = self._improved(problem, second, NORMS, STEPS, deadline)
            point = min(point, second, key=lambda one: one.total)
        return (plain, commuting) if commuting.total < point.total else (problem, point)

    def _has_few_rows(self, problem: JointProblem) -> bool:
        """Whether, with 1ᵀ held, few of many combinations of rows have weights."""
        n_cells = self._question.products.n_cells
        return n_cells > _MAX_CELLS_FOR_ALL_STARTS and problem.blocks.counted.mean() < _FEW_ROWS

    def _from_residuals(
        self, problem: JointProblem, weights: Array, deadline: Deadline
    ) -> list[tuple[JointProblem, JointPoint]]:
        """Where a descent from the rows of a plan by residuals ends; nothing where there is no such plan.

        Soft norms would first lead away from it. The best weights are worked out after every norm.
        """
        asked, early = self._question.products, self._deadline.part(_COMPARING)
        if sum(2 ** len(own) for own in asked.sets) > MAX_PIECES:
            return []
        try:
            if asked.n_cells <= _MAX_CELLS_FOR_ALL_STARTS:
                # Attributes of few values are better measured together where residuals finds them so.
                asked = tied_where_useful(asked, weights, deadline=early)
            if asked is not self._question.products:
                problem = JointProblem(asked, weights, pins=True, backend=self._backend)
            elif not any(problem.pinned):
                return []
            split = split_products(asked, weights, deadline=early)
        except DesignError:
            # Residuals cannot serve this request; joint still may.
            return []
        bases = residual_start(problem, split)
        if bases is None:
            return []
        point = weighted(problem, bases, tol=COMPARED_TOL, deadline=deadline)
        for norm in SHARP_NORMS:
            point = self._improved(problem, point, [norm], STEPS, deadline)
        return [(problem, point)]

    def _is_near(self, problem: JointProblem, point: JointPoint, weights: Array, deadline: Deadline) -> bool:
        """Whether a point is so near its bound that another start is not worth its time."""
        start = sums_along_axes(problem, point.q)
        _, proved = rotated_weights(problem.products, weights, start, deadline)
        return point.total <= (1 + _NEAR_ENOUGH) * proved

    def _improved(
        self,
        problem: JointProblem,
        point: JointPoint,
        norms: Sequence[float],
        steps: int,
        deadline: Deadline,
    ) -> JointPoint:
        """Where a descent ends, with the best weights there, or the point itself if that is better."""
        bases, _, ended = descended(
            problem, point, norms=norms, steps=steps, deadline=deadline, told=self._told
        )
        found = weighted(problem, bases, tol=COMPARED_TOL, ended=ended, deadline=deadline)
        return found if found.total < point.total else point

    # Caps ---------------------------------------------------------------------------------------------

    def largest(self) -> SearchResult:
        caps = self._question.caps
        assert caps is not None
        capped, point = self._least_largest(with_loose_caps(caps), self._deadline.part(_SEARCHING))
        forms, bases = integer_bases(capped.problem, point.bases)
        weighing = self._deadline.part(_WEIGHING)
        found = capped_weights(
            capped, bases, keeping=None, tol=WEIGHTS_TOL, start=point, ended=point.ended, deadline=weighing
        )
        witness, proved = self._proof_of_largest(capped, found, np.isfinite(caps))
        return self._result(capped.problem, forms, found.omega, witness, [found.ended, proved])

    def _least_largest(self, caps: Array, deadline: Deadline) -> tuple[CappedJointProblem, CappedJointPoint]:
        """Bases and weights for the least largest variance beside the caps, at profile 1."""
        early = self._deadline.part(_COMPARING)
        tried: list[tuple[CappedJointProblem, CappedJointPoint]] = []
        for problem, bases in self._starts(1 / caps):
            capped = CappedJointProblem(problem, caps)
            omega = weighted(problem, bases, tol=_ROUGH, deadline=early).omega
            found = self._lowered(capped, bases, omega, None, FIRST_NORMS, FIRST_STEPS, early)
            tried.append((capped, found))
        capped, first = min(tried, key=lambda pair: pair[1].achieved)
        best = self._lowered(capped, first.bases, first.omega, None, NORMS, STEPS, deadline)
        return capped, min((first, best), key=lambda point: point.achieved)

    def _lowered(
        self,
        capped: CappedJointProblem,
        bases: Sequence[Array],
        omega: Array,
        keeping: CappedJointPoint | None,
        norms: Sequence[float],
        steps: int,
        deadline: Deadline,
    ) -> CappedJointPoint:
        """Where a descent ends: for the largest variance, or for the total beside weights that keep caps."""
        found, _, ended = capped_descent(
            capped,
            bases,
            omega,
            is_total=keeping is not None,
            norms=norms,
            steps=steps,
            deadline=deadline,
            told=self._told,
        )
        point = capped_weights(capped, found, keeping=None, tol=COMPARED_TOL, ended=ended, deadline=deadline)
        if keeping is None:
            return point
        if point.achieved > 1:
            return keeping
        return capped_weights(capped, found, keeping=point, tol=COMPARED_TOL, ended=ended, deadline=deadline)

    def total_within_caps(self) -> SearchResult:
        question = self._question
        assert question.caps is not None
        # At profile 1.
        caps = question.caps * float(self._request.privacy.column_budget) * (1 - _ROUNDING_ROOM)
        weights = with_small_weights(question.weights, table_sizes(question.products))
        loose, kept = self._least_largest(with_loose_caps(caps), self._deadline.part(_KEEPING))
        if kept.achieved > 1:
            raise self._infeasible(loose, kept)
        is_held = any(loose.problem.pinned)
        problem = JointProblem(question.products, weights, pins=is_held, backend=self._backend)
        capped = CappedJointProblem(problem, caps)
        deadline = self._deadline.part(_SEARCHING)
        safe = capped_weights(capped, kept.bases, keeping=None, tol=COMPARED_TOL, deadline=deadline)
        tried = [capped_weights(capped, kept.bases, keeping=safe, tol=COMPARED_TOL, deadline=deadline)]
        alone = weighted(problem, kept.bases, tol=_ROUGH, deadline=deadline)
        alone = self._improved(problem, alone, NORMS, STEPS, deadline)
        for bases, omega in ((kept.bases, kept.omega), (alone.bases, alone.omega)):
            tried.append(self._lowered(capped, bases, omega, tried[0], WITHIN_NORMS, WITHIN_STEPS, deadline))
        point = min(tried, key=lambda one: one.achieved)
        forms, bases = integer_bases(problem, point.bases)
        weighing = self._deadline.part(_WEIGHING)
        safe = capped_weights(capped, bases, keeping=None, tol=WEIGHTS_TOL, start=point, deadline=weighing)
        if safe.achieved > 1:
            raise self._infeasible(loose, kept)
        found = capped_weights(
            capped, bases, keeping=safe, tol=WEIGHTS_TOL, start=point, ended=point.ended, deadline=weighing
        )
        witness, proved = self._proof_within_caps(capped, found, caps)
        return self._result(problem, forms, found.omega, witness, [found.ended, proved])

    # Proofs -------------------------------------------------------------------------------------------

    def _proof_of_largest(
        self, capped: CappedJointProblem, point: CappedJointPoint, has_cap: Array
    ) -> tuple[ProductWitness, Ended]:
        asked = self._question.products
        p, rows = row_weights(capped, asked, point.p)
        p = np.where(has_cap, p, 0.0)
        rows = {key: own for key, own in rows.items() if p[key[0]] > 0}
        start = sums_along_axes(capped.problem, point.q)
        q, ended = joint_dual_weights(with_row_weights(asked, rows), p, start=start, deadline=self._deadline)
        return ProductWitness(q, p, rows, asked.axes), ended

    def _proof_within_caps(
        self, capped: CappedJointProblem, point: CappedJointPoint, caps: Array
    ) -> tuple[ProductWitness, Ended]:
        """Dual weights of the caps, or that share of them that proves most, beside those of the values."""
        asked, weights = self._question.products, self._question.weights
        p, rows = row_weights(capped, asked, point.p)
        both = with_weighted_terms(asked, rows)
        start = sums_along_axes(capped.problem, point.q)
        q, ended = joint_dual_weights(
            both, np.concatenate([weights, p]), start=start, deadline=self._deadline
        )
        whole = over_all_values(asked, q)
        allowed = float(p @ np.where(np.isfinite(caps), caps, 0.0))

        def bound(share: float) -> float:
            return union_bound(both, np.concatenate([weights, share * p]), whole) - share * allowed

        best = max(_SHARES_OF_CAPS, key=bound) if p.any() else 0.0
        if best == 0.0:
            q, ended = joint_dual_weights(asked, weights, start=start, deadline=self._deadline)
            return ProductWitness(q, axes=asked.axes), ended
        # The certificate compares with caps at the goal's own profile.
        return ProductWitness(q, best * p, rows, asked.axes), ended

    def _infeasible(self, capped: CappedJointProblem, point: CappedJointPoint) -> InfeasibleError:
        assert self._question.caps is not None
        witness, _ = self._proof_of_largest(capped, point, np.isfinite(self._question.caps))
        return infeasible(
            self._request.workload,
            self._request.privacy,
            witness,
            math.sqrt(point.achieved),
            is_late=self._deadline.part(_KEEPING).is_past,
        )

    def _result(
        self,
        problem: JointProblem,
        forms: Sequence[AxisForm],
        omega: Array,
        witness: ProductWitness,
        endings: Sequence[Ended],
    ) -> SearchResult:
        note = f"joint weights over free bases of {len(problem.axes)} axes, {self._steps:,} steps"
        proposal = joint_proposal(problem, forms, omega)
        return SearchResult(proposal, witness, "stopped", note, worst_ending(endings))


# Shares of the dual weights of caps, of which that is taken which proves most: F² − Σ p c is what is left of
# two numbers that may be large.
_SHARES_OF_CAPS = (1.0, 0.8, 0.5, 0.2, 0.0)


JOINT = Method(
    "joint",
    "unions of products that cross ordered attributes, as strips, windows and trees on grids; with a bound",
    _refuses,
    _find,
    needs=_needs,
    matrix_size=largest_axis,
    takes_periods=True,
    takes_absolute=True,
)
