"""Unions of products by joint weights over free axis bases: strips, windows and trees on grids.

X = Tᵀ diag(ω) T with T = ⊗_a T_a, every T_a free and invertible, and ω free. Residuals give every block of
rows one precision; where two ordered attributes are crossed cell by cell, as running sums along x for every
y and along y for every x, the optimum is not of that form, and residuals end 12 to 23 % above it. This family
holds products (ω of rank one), residuals of one centre (ω constant on blocks) and weighted bases (T fixed).

The search is that of `planning.joint`. It is not convex, so the plan carries the bound of product form that
`residuals` has, and its gap is reported as it is.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.bounds import ProductWitness
from leastnoise.core.deadline import Deadline
from leastnoise.core.operators import Array
from leastnoise.core.printable import in_figures
from leastnoise.core.progress import Ended, Progress, worst_ending
from leastnoise.core.resources import Needs, matrices, products, seconds_for
from leastnoise.planning.families.product_requests import (
    product_request,
    refuse_unstructured,
    table_sizes,
)
from leastnoise.planning.joint.joint_dual import joint_dual_weights
from leastnoise.planning.joint.joint_problem import JointProblem
from leastnoise.planning.joint.joint_rounding import integer_proposal
from leastnoise.planning.joint.joint_search import COMPARED_TOL, JointPoint, descended, weighted
from leastnoise.planning.joint.joint_start import eigen_start, haar_start, unit_start
from leastnoise.planning.method import Method, Request, SearchResult
from leastnoise.planning.oblique.proposal import with_small_weights
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import Products, first_not_spanned
from leastnoise.solver import load_backend

# Cells. A search holds 50 arrays of as many numbers.
MAX_CELLS = 2**21

# Norms of the profile, and steps for each, by which starts are compared.
_FIRST_NORMS = (8.0, 32.0)
_FIRST_STEPS = 60

# Shares of the time that are over when a part of the search must end: starts have been compared, ...
_COMPARING = 0.2

# ... the descent has ended, ...
_SEARCHING = 0.7

# ... and weights have been worked out for integer rows; what is left is for the bound.
_WEIGHING = 0.8


def _refuses(request: Request) -> str | None:
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    if request.privacy.noise != GAUSSIAN:
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    if request.privacy.relation.replaces:
        return "it is for records that are added or removed, not replaced"
    if request.objective.kind != "total":
        return "it minimises the total variance"
    asked = product_request(request).products
    if not asked.axes:
        return "there is a single cell"
    if asked.n_cells > MAX_CELLS:
        return (
            f"it holds a weight for every cell, at most {MAX_CELLS:,}; there are {in_figures(asked.n_cells)}"
        )
    return None


def _needs(request: Request) -> Needs:
    asked = product_request(request).products
    cells, sizes = asked.n_cells, asked.sizes
    squares = sum(size**2 for size in sizes)
    held = matrices(_HELD, 1, cells + squares)
    # Towards cells, towards rows, and the slopes of both: six products along every axis.
    each = 12.0 * cells * sum(sizes) + sum(products(3, size, size) for size in sizes)
    on_device = request.backend != "numpy"
    step = 0.0 if on_device else each
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
    question = product_request(request)
    weights = question.weights
    if (weights == 0).any() and first_not_spanned(request.workload, request.objective) is None:
        weights = with_small_weights(weights, table_sizes(question.products))
    deadline = request.deadline.before(seconds_for(_needs(request).last))
    told = _Teller(request)
    tried: list[tuple[JointProblem, JointPoint]] = []
    backend = load_backend(request.backend)
    # The same start for the same request.
    rng = np.random.default_rng(request.workload.shape[1])
    plain = JointProblem(question.products, weights, pins=False, backend=backend)
    starts = [(plain, haar_start(plain, rng)), (plain, unit_start(plain, rng))]
    if any(axis.has_total for axis in plain.axes):
        held = JointProblem(question.products, weights, pins=True, backend=backend)
        starts.append((held, haar_start(held, rng)))
    early = deadline.part(_COMPARING)
    for problem, bases in starts:
        first = weighted(problem, bases, tol=_ROUGH, deadline=early)
        tried.append((problem, _improved(problem, first, _FIRST_NORMS, _FIRST_STEPS, early, told)))
    problem, point = min(tried, key=lambda pair: pair[1].total)
    point = _improved(problem, point, None, None, deadline.part(_SEARCHING), told)
    # Where Gram matrices commute this is the optimum; elsewhere a descent from it ends too high.
    commuting = weighted(plain, eigen_start(plain), tol=COMPARED_TOL, deadline=deadline.part(_SEARCHING))
    if commuting.total < point.total:
        problem, point = plain, commuting
    proposal, found = integer_proposal(problem, point, deadline=deadline.part(_WEIGHING))
    q, proved = _proof(question.products, weights, problem, found.q, deadline)
    note = f"joint weights over free bases of {len(problem.axes)} axes, {told.steps:,} steps"
    ended = worst_ending([found.ended, proved])
    witness = ProductWitness(q, axes=question.products.axes)
    return SearchResult(proposal, witness, "stopped", note, ended)


# The gap to which ω is worked out before the first step.
_ROUGH = 1e-1


def _improved(
    problem: JointProblem,
    point: JointPoint,
    norms: tuple[float, ...] | None,
    steps: int | None,
    deadline: Deadline,
    told: _Teller,
) -> JointPoint:
    """The point where a descent ends, with the best weights there, or the point itself if that is better."""
    given = {} if norms is None else {"norms": norms}
    limits = {} if steps is None else {"steps": steps}
    bases, _, ended = descended(problem, point, **given, **limits, deadline=deadline, told=told)  # type: ignore[arg-type]
    found = weighted(problem, bases, tol=COMPARED_TOL, ended=ended, deadline=deadline)
    return found if found.total < point.total else point


class _Teller:
    """Counts evaluations, and tells the listener of each; the gap is known only at the end."""

    def __init__(self, request: Request) -> None:
        self._request, self.steps = request, 0

    def __call__(self) -> None:
        self.steps += 1
        if self._request.progress is not None:
            self._request.progress(Progress(self.steps, math.inf, self._request.deadline.elapsed))


def _proof(
    products: Products, weights: Array, problem: JointProblem, q: Array, deadline: Deadline
) -> tuple[tuple[Array, ...], Ended]:
    """Weights of product form for the bound, from the sums of the dual weights along every axis."""
    start = []
    for a, (axis, kinds) in enumerate(zip(problem.axes, products.kinds, strict=True)):
        if not kinds:
            start.append(np.ones(1))
            continue
        sums = q.sum(axis=tuple(b for b in range(q.ndim) if b != a))
        counts = np.bincount(axis.kind_of_value, minlength=len(sums))
        start.append((sums / counts)[axis.kind_of_value])
    return joint_dual_weights(products, weights, start=start, deadline=deadline)


JOINT = Method(
    "joint",
    "unions of products that cross ordered attributes, as strips, windows and trees on grids; with a bound",
    _refuses,
    _find,
    needs=_needs,
)
