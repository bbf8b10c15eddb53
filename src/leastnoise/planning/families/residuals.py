"""Unions of products by oblique residuals: prefix sums and ranges crossed with cross tables, at any scale.

`oblique` chooses, for every axis, what is residual and how it is measured, and how the budget is divided over
blocks; here that becomes an integer strategy, and the weights of product form that prove how good it is. The
family holds the optimum for one attribute, for single products and for cross tables; for other unions it is
mostly within a percent of it. The bound is that of `union_norm`, and the gap is reported as it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from leastnoise.bounds import (
    ProductWitness,
    Status,
)
from leastnoise.core.deadline import Deadline
from leastnoise.core.errors import DesignError, InfeasibleError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, Progress, worst_ending
from leastnoise.core.resources import LATE_SECONDS, LATE_SHARE, Needs, seconds_for
from leastnoise.planning.families import optimum
from leastnoise.planning.families.product_requests import (
    ProductRequest,
    largest_axis,
    product_request,
    refuse_unstructured,
    table_sizes,
)
from leastnoise.planning.families.residual_proofs import (
    LATE_PROOF,
    Dual,
    bound_work,
    dual_of,
    last_seconds,
    needs_of_axes,
    proof_of_largest,
    proof_of_total,
    proof_within,
    proving_most,
)
from leastnoise.planning.families.union_absolute import find_absolute_union, refuse_absolute
from leastnoise.planning.method import Method, Request, SearchResult
from leastnoise.planning.oblique.largest_variance import Alternated, alternate
from leastnoise.planning.oblique.proposal import (
    LEAST_TOL,
    SHARE,
    answering_all,
    proposal_of,
    with_loose_caps,
    with_small_weights,
)
from leastnoise.planning.oblique.row_variances import RowsTakeTooLong, leading_rows, totals_of
from leastnoise.planning.oblique.splitting import Split, split_products
from leastnoise.planning.oblique.tied_axes import tied_where_useful
from leastnoise.planning.oblique.within_caps import lower_total
from leastnoise.planning.refusals import infeasible
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import Products, first_not_spanned
from leastnoise.solver import Optimum, least_largest, total_within
from leastnoise.strategy import BlockProposal

# Pairs of a product and one of its blocks, at most: each is looked at.
MAX_PIECES = 2_000_000

# Shares of the time that are over when a part of the search must end; what is left after the last is for the
# bound. When attributes have been tied:
_TYING = 0.15

# With caps, when axes have been chosen for the total alone:
_FIRST = 0.25

# With caps, when axes have been chosen for the total and the caps, half and half:
_HALVED = 0.35

# With caps, when attributes have been tied for the largest variance:
_TYING_FOR_CAPS = 0.4

# With caps, when axes have been chosen for the largest variance:
_SECOND = 0.5

# When the last axes have been chosen:
_SEARCHING = 0.65

# When the budget has been shared among blocks:
_SHARING = 0.75

# Attributes share an axis where that lowers the total by this share: such blocks take longer to measure.
_WORTH_SHARING = 5e-3


def _deadline(request: Request) -> Deadline:
    """When the search must end, so that what was found can still be rounded and proved."""
    proof = max(seconds_for(bound_work(request)) - LATE_PROOF, 0.0)
    return request.deadline.before(seconds_for(needs_of_axes(request).last) + proof)


# Of what the promise leaves, the share for telling single queries apart: the variances of the same queries
# in the plan take as much, and as much is left for what comes between.
_SHARE_OF_ROWS = 1 / 3


def _for_rows(request: Request) -> float:
    """Seconds that telling single queries apart may take, a share of what the promise leaves."""
    if request.time_limit is None or not request.is_promised:
        return math.inf
    promised = (1 + LATE_SHARE) * request.time_limit + LATE_SECONDS
    return max(request.began + promised - last_seconds(request) - time.monotonic(), 0.0) * _SHARE_OF_ROWS


def _needs(request: Request) -> Needs:
    # Its parts share the time by themselves, and `_deadline` sets aside what comes after them.
    needs = needs_of_axes(request)
    return Needs(needs.memory, needs.first + needs.last)


def _telling(request: Request) -> Callable[[Progress], None] | None:
    """Who is told of steps over shares of the budget; their gap is not the plan's, known only at the end."""
    listener = request.progress
    if listener is None:
        return None
    return lambda step: listener(Progress(step.step, math.inf, request.deadline.elapsed))


def _refuses(request: Request) -> str | None:
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    if request.privacy.noise != GAUSSIAN:
        return "its noise is Gaussian, which pure privacy (no delta) does not allow"
    if request.over is not None and not optimum.serves(request, product_request(request)):
        return "period by period it serves tables whose other attributes are asked value by value"
    pieces = sum(2 ** len(s) for s in product_request(request).products.sets)
    if pieces > MAX_PIECES:
        return f"its products have {pieces:,} blocks, and at most {MAX_PIECES:,} are looked at"
    return refuse_absolute(request) if request.objective.kind == "absolute" else None


def has_shared_axis(request: Request) -> bool:
    """Whether it finds the certified optimum of a total, over an axis that is smaller than the cells.

    Under caps its proof may stay some 1e-6 behind, where that of the dense search is exact.
    """
    if RESIDUALS.why_unfit(request) is not None or request.objective.kind not in (
        "total",
        "total-within-caps",
    ):
        return False
    return optimum.is_smaller(request, product_request(request))


def _find(request: Request) -> SearchResult:
    if request.objective.kind == "absolute":
        return find_absolute_union(request, _find)
    question = product_request(request)
    if optimum.serves(request, question):
        return optimum.find(request, question)
    kind = request.objective.kind
    if kind == "total":
        # Attributes of few values that are asked in several ways are better measured together.
        deadline = _deadline(request)
        weights = question.weights
        if (weights == 0).any() and first_not_spanned(request.workload, request.objective) is None:
            weights = with_small_weights(weights, table_sizes(question.products))
        products = tied_where_useful(question.products, weights, deadline=deadline.part(_TYING))
        endings = [deadline.part(_TYING).ending]
        split = split_products(products, weights, deadline=deadline.part(_SEARCHING))
        endings.append(split.ended)
        how = f"{split.sweeps} sweeps over the attributes"
        witness, ended = proof_of_total(request, split, question.weights)
        shared = _shared_axis(request, question.products, weights)
        if shared is not None and shared[0] < split.total * (1 - _WORTH_SHARING):
            _, proposal, how, shared_ended = shared
            note = f"oblique residuals of {len(question.products.terms):,} products, with {how}"
            return SearchResult(
                proposal, witness, "stopped", note, worst_ending([*endings, shared_ended, ended])
            )
        return _found(request, split, witness, how, [*endings, ended])
    assert question.caps is not None
    if kind == "largest":
        deadline = _deadline(request).part(_TYING)
        products = tied_where_useful(question.products, 1 / with_loose_caps(question.caps), deadline=deadline)
        endings = [deadline.ending]
        found, solution, of_shares = _least_largest(request, products, question.caps, _SEARCHING)
        endings += [found.ended, solution.ended]
        split = answering_all(found.split)
        dual = proving_most(request, found, of_shares, question.caps)
        witness, ended = proof_of_largest(request, split, dual)
        return _found(request, split, witness, "in turns with weights of their queries", [*endings, ended])
    return _find_within_caps(request, question)


def _shared_axis(
    request: Request, products: Products, weights: Array
) -> tuple[float, BlockProposal, str, Ended] | None:
    """Attributes asked in many ways as one axis with rows of its own in every block; None where none are."""
    if request.privacy.relation.replaces or request.over is not None:
        return None
    deadline = _deadline(request).part(_SHARING)
    try:
        return optimum.beside_residuals(products, weights, tol=max(request.tol, LEAST_TOL), deadline=deadline)
    except DesignError:
        # What residuals have found serves all the same.
        return None


def _least_largest(
    request: Request, products: Products, caps: Array, share: float
) -> tuple[Alternated, Optimum, Array]:
    """Axes and shares of the budget for the least largest variance beside the caps, at profile 1.

    With them, the weight of every product for which these shares are best.

    Blocks that no query with a cap needs may have no share.

    Args:
        share: how much of the time is over when axes must be chosen.
    """
    tol, last = request.tol / 4, _deadline(request).part(_SHARING)

    def inner(A: Any, own: Array) -> Optimum:
        return least_largest(A, own, tol=tol, time_limit=last.left)

    found = alternate(
        products,
        with_loose_caps(caps),
        inner,
        deadline=_deadline(request).part(share),
        row_seconds=lambda: _for_rows(request),
    )
    rows = leading_rows(found.split, np.isfinite(caps), most_seconds=_for_rows(request))
    own, A = caps[rows.terms], rows.matrix
    solution = least_largest(A, own, tol=tol, time_limit=last.left, progress=_telling(request))
    if solution.achieved > found.largest:
        # Late, it ends before it is as good as what the rounds had found.
        solution = replace(solution, roots=[np.sqrt(found.split.x)], achieved=found.largest)
    split = replace(found.split, x=solution.x)
    of_terms = np.bincount(rows.terms, weights=solution.p, minlength=len(caps))
    return replace(found, split=split, largest=solution.achieved), solution, of_terms


class _SharedSplit(NamedTuple):
    """Axes with shares of the budget for the total within caps, and weights of queries with caps."""

    split: Split
    solution: Optimum
    dual: Dual


class _WithinCaps:
    """The search for the least total within caps: axes chosen for the total, for the caps, and for both."""

    def __init__(self, request: Request, question: ProductRequest) -> None:
        assert question.caps is not None
        self.request, self.question, self.deadline = request, question, _deadline(request)
        # At profile 1. What rounding to integers adds to a variance must not take it over its cap.
        self.caps = question.caps * float(request.privacy.column_budget) * (1 - _ROUNDING_ROOM)
        self.capped = np.isfinite(self.caps)
        self.n_rows = table_sizes(question.products)
        # Axes are chosen for all queries; shares of the budget for those that count, or that nothing answers.
        self.weights = with_small_weights(question.weights, self.n_rows)
        self.sharing = with_small_weights(question.weights, self.n_rows, ~self.capped)
        asked_for = self.weights + np.where(self.capped, 1 / self.caps, 0)
        tying = self.deadline.part(_TYING)
        self.products = tied_where_useful(question.products, asked_for, deadline=tying)
        self.endings: list[Ended] = [tying.ending]
        self.tried: list[_SharedSplit] = []
        # Weights of single queries prove more than those of whole products, whichever has the least total.
        self.by_rows: _SharedSplit | None = None

    @property
    def best(self) -> _SharedSplit | None:
        """What has the least total of all that keeps the caps; None where nothing does."""
        feasible = (one for one in self.tried if one.solution.is_feasible)
        return min(feasible, key=lambda one: one.solution.achieved, default=None)

    def attempt(self, split: Split, start: Array | None = None) -> Optimum:
        """Share the budget among the blocks of these axes."""
        solution, p = _total_within(self.request, split, self.sharing, self.caps, start)
        self.tried.append(_SharedSplit(replace(split, x=solution.x), solution, Dual(p / self.n_rows, {})))
        self.endings.extend([split.ended, solution.ended])
        return solution

    def split_for(self, products: Products, weights: Array, share: float) -> Split:
        """Axes chosen for a weighted total, when this share of the time is over at the latest."""
        return split_products(products, weights, deadline=self.deadline.part(share))

    def start(self) -> None:
        """Choose axes for the total, for the caps, and half and half.

        Raises:
            InfeasibleError: if nothing keeps the caps, with the proof.
        """
        if self.products is not self.question.products:
            # Tied axes leave less to choose where caps bind.
            self.attempt(self.split_for(self.question.products, self.weights, _FIRST))
        alone = self.split_for(self.products, self.weights, _FIRST)
        if self.attempt(alone).is_feasible and not self.tried[-1].dual.p.any():
            return
        # Axes that suit the total alone may not keep the caps at all: half of the weight for these.
        of_caps = np.where(self.capped, alone.total / (self.caps * self.n_rows * self.capped.sum()), 0)
        self.attempt(self.split_for(self.products, self.weights + of_caps, _HALVED))
        # Caps that are hard to keep ask for axes tied for them alone.
        tying = self.deadline.part(_TYING_FOR_CAPS)
        tied = tied_where_useful(self.question.products, 1 / with_loose_caps(self.caps), deadline=tying)
        found, largest, _ = _least_largest(self.request, tied, self.caps, _SECOND)
        self.endings.extend([found.ended, largest.ended])
        if largest.achieved <= 1:
            if not self.attempt(found.split, largest.p).is_feasible:
                self.tried.append(_keeping_caps(found.split, largest, self.sharing))
            self.improve(found)
        elif self.best is None:
            raise _infeasible(self.request, self.question, found)

    def improve(self, found: Alternated) -> None:
        """Choose axes again, row by row, for the total and the caps that bind."""
        last = self.deadline.part(_SHARING)

        def sharing(A: Any, w: Array, c: Array) -> Optimum:
            return total_within(A, w, c, tol=self.request.tol / 4, time_limit=last.left)

        lowered = lower_total(
            found, self.sharing, self.caps, sharing, deadline=self.deadline.part(_SEARCHING)
        )
        if lowered is not None:
            dual = dual_of(replace(found, split=lowered.split, p=lowered.p), self.capped)
            self.by_rows = _SharedSplit(lowered.split, lowered.solution, dual)
            self.tried.append(self.by_rows)
            self.endings.append(lowered.ended)


def _find_within_caps(request: Request, question: ProductRequest) -> SearchResult:
    """The least total within caps."""
    search = _WithinCaps(request, question)
    try:
        search.start()
    except RowsTakeTooLong:
        if search.best is None:
            raise
        search.endings.append("deadline")
    best = search.best
    assert best is not None
    proved_by = best if search.by_rows is None else search.by_rows
    if proved_by.dual.p.any():
        witness, ended = proof_within(request, proved_by.split, question.weights, proved_by.dual, search.caps)
    else:
        witness, ended = proof_of_total(request, best.split, question.weights)
    return _found(request, best.split, witness, "within the targets", [*search.endings, ended])


def _keeping_caps(split: Split, largest: Optimum, weights: Array) -> _SharedSplit:
    """The shares of least largest variance, where the time was too short to lower the total within caps."""
    # Variances may grow to their caps, so that much of the budget is left to queries without one.
    split = answering_all(split, at_most=1 - largest.achieved)
    used = np.flatnonzero(split.x > 0)
    total = float(weights @ (totals_of(split)[:, used] @ (1 / split.x[used])))
    solution = replace(largest, achieved=total, lower_bound=0.0, is_feasible=True)
    return _SharedSplit(split, solution, Dual(np.zeros(len(weights)), {}))


# Rounding has been seen to raise the variance of a query by a ten-millionth.
_ROUNDING_ROOM = 1e-6


def _total_within(
    request: Request, split: Split, weights: Array, caps: Array, start: Array | None
) -> tuple[Optimum, Array]:
    """The shares of the budget for the least total within caps, at profile 1, and weights of the products.

    Args:
        start: weights of the leading rows for which caps are kept best, to begin with.
    """
    from scipy import sparse

    rows = leading_rows(split, np.isfinite(caps), most_seconds=_for_rows(request))
    totals = totals_of(split)
    noisy = np.flatnonzero(totals.sum(axis=1) > 0)
    stacked = sparse.vstack([totals[noisy], rows.matrix], format="csr")
    w = np.concatenate([weights[noisy], np.zeros(len(rows.terms))])
    c = np.concatenate([np.full(len(noisy), math.inf), caps[rows.terms]])
    solution = total_within(
        stacked,
        w,
        c,
        tol=request.tol / 4,
        time_limit=_deadline(request).part(_SHARING).left,
        progress=_telling(request),
        start=None if start is None else np.concatenate([np.zeros(len(noisy)), start]),
    )
    return solution, np.bincount(rows.terms, weights=solution.p[len(noisy) :], minlength=len(weights))


def _infeasible(request: Request, question: ProductRequest, found: Alternated) -> InfeasibleError:
    assert question.caps is not None
    capped = np.isfinite(question.caps)
    witness, _ = proof_of_largest(request, found.split, dual_of(found, capped))
    # Queries without a target need a share of the budget too.
    largest = found.largest if capped.all() else found.largest / (1 - SHARE)
    is_late = _deadline(request).part(_SEARCHING).is_past
    return infeasible(request.workload, request.privacy, witness, math.sqrt(largest), is_late=is_late)


def _found(
    request: Request, split: Split, witness: ProductWitness, how: str, endings: Sequence[Ended]
) -> SearchResult:
    claim: Status = "heuristic" if request.privacy.relation.replaces else "stopped"
    note = f"oblique residuals of {len(split.products.terms):,} products, {how}"
    return SearchResult(proposal_of(split, tol=request.tol), witness, claim, note, worst_ending(endings))


RESIDUALS = Method(
    "residuals",
    "unions of products over any number of attributes, close to the optimum, with a bound",
    _refuses,
    _find,
    matrix_size=largest_axis,
    takes_periods=True,
    takes_absolute=True,
    needs=_needs,
)
