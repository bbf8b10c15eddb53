"""Rows for Laplace noise refined directly, from the best that methods have found.

No method is optimal for Laplace noise, so the rows A of the best one move freely, with signs, and only
columns of L1 norm 1 are kept,

    minimise trace V (AᵀA)⁻¹,   A = (P − N)/(column sums of P + N),   P, N ≥ 0                        (1)

by L-BFGS-B; an entry that is zero may become positive or negative. Where queries span less than all
cells, the best rows may lie within what they span, where (1) has no inverse. With V = RᵀR and A = M R

    minimise log trace (MᵀM)⁻¹ + 2 log max_i ‖M r_i‖₁                                                 (2)

which does not depend on the scale of M, is searched from several starts for few cells; sizes and the
maximum are smoothed by a width that falls step by step.

For the largest variance, or share of a cap, the total in (1) gives way to a power mean of all of them with
a rising power. Its derivative is (1) with weights of the queries that follow the strategy: those that
matter are given more, the strategy is improved for them, and so on, at every step. What counts is the largest
itself, and the rows are kept at which that was least.

Refined rows are only proposals: `design` rounds them, works out what they achieve and keeps them if that
is less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.decompositions import has_full_rank, pseudo_inverse, singular_values
from leastnoise.core.errors import DesignError
from leastnoise.core.merged_cells import Cells
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.core.resources import NOTHING, Needs
from leastnoise.planning.families.merged import cells_in_time, queries_over_kinds
from leastnoise.planning.families.proposals import from_rows, nothing_asked, weighted_factor
from leastnoise.planning.method import Request, rounding_work
from leastnoise.planning.p_identity.family import known_total, merging, power_mean, relative_caps, variances
from leastnoise.solver import minimise_smooth
from leastnoise.strategy import Basis, RealStrategy, integer_basis

# Cells. Beyond this number (1) is not tried: it takes n³ per step, 20 ms for 256 cells on one core.
_REFINED_CELLS = 768

# Steps of L-BFGS-B for (1), from each start.
_REFINED_STEPS = 400

# Operations of all steps of (1) from one start: 350 steps for 256 cells, 14 for 768, whatever the machine.
_REFINED_OPERATIONS = 5e10

# Operations of all steps for one power: each works out all variances and the Gram matrix.
_LARGEST_OPERATIONS = 2e10

# Cells. Beyond this number the largest variance is not refined: every step works out every variance and the
# Gram matrix of the queries anew.
_LARGEST_CELLS = 256

# Steps of L-BFGS-B for each power.
_LARGEST_STEPS = 200

# Powers from random rows, one after the other, before the last ones.
_FIRST_POWERS = (20.0, 100.0)

# Powers from rows that are good already: lower ones lead away from them.
_LAST_POWERS = (600.0, 2000.0, 6000.0)

# Cells. Up to this number (1) is also tried from random signed rows.
_FREE_CELLS = 16

# Random signed rows from which (1) is tried.
_FREE_STARTS = 4

# Cells. Up to this number (2) starts from the best rows of all methods too, and beyond it from few.
_SPAN_CELLS = 64

# Cells for each direction that the queries span, at least, where (2) is tried: with fewer, strategies that
# measure every cell waste little.
_SPAN_SHARE = 1.01

# Directions that the queries span. Beyond this number (2) is not tried.
_SPAN_RANK = 96

# Operations of all steps of (2) from one start, about a second: beyond it there are fewer steps.
_SPAN_OPERATIONS = 8e9

# Random starts of (2).
_SPAN_STARTS = 6

# Widths of the smoothing while starts are compared.
_COARSE = (1e-1, 1e-2, 1e-3)

# The start from rows so far and random ones after which (2) looks at how far it is behind.
_FIRST_SPAN_STARTS = 3

# Times what other methods reached. Beyond it no further start of (2) is tried: random starts of one workload
# ended within 1.4 times of each other.
_HOPELESS_STARTS = 2.0

# The same for following the best start with narrow widths, which gained 14 % at most.
_HOPELESS_BEST = 1.3

# Widths of the smoothing for the best start.
_FINE = tuple(10.0**-power for power in np.arange(3.5, 8.6, 0.5))

# Steps of L-BFGS-B for each width.
_SPAN_STEPS = 150

# The same at least, however long one takes.
_FEWEST_SPAN_STEPS = 20

# Operations that the root of an entry of M R and what follows from it take the time of.
_ROOT_OPERATIONS = 40

# Operations. Where finding the rank of the queries takes more, (2) is not tried.
_RANK_OPERATIONS = 1e11


# Cells. Up to this number, merging cells that no query tells apart may leave few enough to refine.
_MERGED_CELLS = 20_000


def may_refine(request: Request) -> bool:
    """Whether there are few enough cells for `refinements` to look at."""
    return request.workload.shape[1] <= _MERGED_CELLS


# Rows of a strategy for every kind of cells, as rounding and proof are estimated.
_ROWS_PER_KIND = 2


def refinement_needs(request: Request) -> Needs:
    """What rounding and proof of refined rows take; nothing where there are too many kinds of cells.

    Refining itself ends at its deadline.
    """
    d = len(cells_in_time(request).first)
    if d > (_LARGEST_CELLS if request.objective.kind == "largest" else _REFINED_CELLS):
        return NOTHING
    return Needs(last=rounding_work(request, _ROWS_PER_KIND * d, d))


class Proposed(NamedTuple):
    """Rows that were made from others, and how the search for them ended."""

    proposal: RealStrategy
    ended: Ended


def refinements(
    request: Request, rows: Sequence[Array], deadline: Deadline, *, weights: Array
) -> Iterator[tuple[str, Callable[[], Proposed | None]]]:
    """Proposals made from rows so far, each (r, n), and from nothing: how, and a call that seeks one.

    The call gives None where it has nothing to start from, and raises a DesignError where queries or
    rows are too far apart in size to be told from rounding.

    Args:
        rows: the best strategies so far, best first; the first that can be refined is.
        deadline: after which no further one is sought.
        weights: of the queries, (m,): those for whose total the rows are refined.
    """
    if nothing_asked(request) is not None:
        return
    cells = cells_in_time(request)
    n = len(cells.first)
    if request.objective.kind == "largest":
        if n <= _LARGEST_CELLS:
            yield "refined directly", partial(_refined_largest, request, rows, cells, deadline)
        return
    if n <= _REFINED_CELLS:
        yield "refined directly", partial(_refined, request, rows, weights, cells, deadline)
    if n <= _SPAN_CELLS:
        yield from within_span(request, rows, deadline)


def is_span_first(request: Request) -> bool:
    """Whether (2) is tried before long searches, which then end early where it is far ahead of them."""
    return may_refine(request) and len(cells_in_time(request).first) > _SPAN_CELLS


def within_span(
    request: Request, rows: Sequence[Array], deadline: Deadline
) -> Iterator[tuple[str, Callable[[], Proposed | None]]]:
    """(2), as `refinements` gives it, where the queries span much less than all kinds of cells."""
    if request.objective.kind != "total" or nothing_asked(request) is not None:
        return
    cells = cells_in_time(request)
    m, n = request.workload.shape[0], len(cells.first)
    if float(m) * n * min(m, n) > _RANK_OPERATIONS:
        return
    basis = integer_basis(request.workload)
    if _SPAN_SHARE * basis.rank <= n and basis.rank <= _SPAN_RANK:
        yield (
            "searched within what the queries span",
            partial(_spanned, request, rows, basis, cells, deadline),
        )


def _refined(
    request: Request, rows: Sequence[Array], weights: Array, cells: Cells, deadline: Deadline
) -> Proposed | None:
    """(1) from the rows given, and for few cells from random ones too."""
    workload, kinds = queries_over_kinds(request.workload, cells)
    V = workload.weighted_gram(weights)[np.ix_(kinds.first, kinds.first)]
    # Per cell, so that the steps of L-BFGS-B begin at a sensible length.
    weigh = total_of(V * (len(V) / float(np.trace(V))))
    starts = [*_able(rows, cells), *free_rows(len(cells.first))]
    refined = [
        refine(weigh, start, steps_of(start, _REFINED_STEPS, _REFINED_OPERATIONS), deadline)
        for start in starts
    ]
    ends = [end for end in refined if end is not None]
    return _proposed(ends, cells, worst_ending(end.ended for end in ends))


def _refined_largest(
    request: Request, rows: Sequence[Array], cells: Cells, deadline: Deadline
) -> Proposed | None:
    """The largest share of a cap, by powers that approach it, each from where the last one ended."""
    ends: list[Refined] = []
    endings: list[Ended] = []
    starts: list[tuple[Array, tuple[float, ...]]] = [(A, _LAST_POWERS) for A in _able(rows, cells)]
    if len(cells.first) <= _FREE_CELLS:
        starts += [
            (A, _FIRST_POWERS + _LAST_POWERS) for A in (*_able(rows, cells), *free_rows(len(cells.first)))
        ]
    for start, powers in starts:
        A = start
        for power in powers:
            steps = steps_of(A, _LARGEST_STEPS, _LARGEST_OPERATIONS)
            end = refine(largest_of(request, cells, power), A, steps, deadline)
            if end is None:
                break
            A = end.rows
            ends.append(end)
            if power == powers[-1] or end.ended == "deadline":
                # Lower powers only start the last.
                endings.append(end.ended)
                break
    return _proposed(ends, cells, worst_ending(endings))


def _able(rows: Sequence[Array], cells: Cells) -> list[Array]:
    """The first of the rows that reach every cell, alone; others have no inverse to follow."""
    able = (A[:, cells.first] for A in rows if has_full_rank(A[:, cells.first]))
    return list(islice(able, 1))


def free_rows(n: int) -> list[Array]:
    """Random signed rows, for few cells: more rows than cells, as the best strategies tend to have."""
    if n > _FREE_CELLS:
        return []
    generator = np.random.default_rng(0)
    return [generator.standard_normal((n + n // 2, n)) for _ in range(_FREE_STARTS)]


def _proposed(ends: Sequence[Refined], cells: Cells, ended: Ended) -> Proposed | None:
    """The best of several rows as whole numbers, None where there are none."""
    if not ends:
        return None
    A = min(ends, key=lambda end: end.judged).rows
    C = from_rows(A, Basis(None, A.shape[1])).coefficients
    return Proposed(RealStrategy(C[np.abs(C).max(axis=1) > 0], merging(cells)), ended)


def _spanned(
    request: Request, rows: Sequence[Array], basis: Basis, cells: Cells, deadline: Deadline
) -> Proposed | None:
    """(2), on the factor of the weighted Gram matrix; cells of one kind have one column."""
    R = weighted_factor(request, basis)
    own = [A[:, cells.first] for A in rows[:1]]
    M, ended = search_span(R[:, cells.first], own, deadline, known=known_total(request))
    return None if M is None else Proposed(from_rows(M @ R, basis), ended)


class Weighed(NamedTuple):
    """What a covariance Y of the cells is worth.

    Attributes:
        value: a smooth function of Y that is minimised.
        gram: its derivative by Y, the Gram matrix of the queries with some weights.
        judged: what is really meant, by which points are compared; less is better.
    """

    value: float
    gram: Array
    judged: float


Weigh = Callable[[Array], Weighed]


def total_of(V: Array) -> Weigh:
    """The total variance trace V Y."""

    def weigh(Y: Array) -> Weighed:
        value = float(np.vdot(V, Y))
        return Weighed(value, V, value)

    return weigh


def largest_of(request: Request, cells: Cells, power: float) -> Weigh:
    """The power mean of the variances as shares of their caps, which approaches the largest share.

    Caps are in units of the tightest one, so that a common factor on all of them changes nothing.
    Its derivatives by the variances are the weights of the queries for whose total Y is improved next.
    """
    caps = request.objective.caps(request.workload)
    assert caps is not None
    workload, kinds = queries_over_kinds(request.workload, cells)
    inverse_caps = relative_caps(caps)

    def weigh(Y: Array) -> Weighed:
        v = variances(workload, Y, kinds)
        if not np.isfinite(v).all():
            return Weighed(math.inf, np.zeros_like(Y), math.inf)
        value, p = power_mean(inverse_caps, power, v)
        gram = workload.weighted_gram(p)[np.ix_(kinds.first, kinds.first)]
        return Weighed(value, gram, float((v * inverse_caps).max()))

    return weigh


def split_value(weigh: Weigh, P: Array, N: Array) -> tuple[Weighed, Array, Array]:
    """A function of Y = (AᵀA)⁻¹ for A as in (1), and its gradients by P and by N, all (r, n).

    Infinite where A has not full rank. With V the derivative by Y, that by A is −2 A Y V Y; A is unchanged
    where a column of P and N is multiplied by a number, which is what the second term takes out.
    """
    from scipy import linalg

    columns = (P + N).sum(axis=0)
    nothing = np.zeros_like(P)
    impossible = Weighed(math.inf, nothing, math.inf), nothing, nothing
    if not (columns > 0).all():
        return impossible
    A = (P - N) / columns
    try:
        factor = linalg.cho_factor(A.T @ A, check_finite=False)
    except (linalg.LinAlgError, ValueError):
        return impossible
    Y = linalg.cho_solve(factor, np.eye(len(columns)), check_finite=False)
    weighed = weigh(Y)
    if not math.isfinite(weighed.value):
        return impossible
    by_A = -2 * (A @ (Y @ weighed.gram @ Y))
    along = by_A / columns
    scale = (by_A * A).sum(axis=0) / columns
    return weighed, along - scale, -along - scale


def steps_of(rows: Array, most: int, operations: float) -> int:
    """How many steps of L-BFGS-B on rows, (r, n), fit into a number of operations, `most` at most."""
    r, n = rows.shape
    return max(1, min(most, round(operations / (8.0 * n * n * max(r, n)))))


class Refined(NamedTuple):
    """The best rows met, what they are judged at, and how the search ended."""

    judged: float
    rows: Array
    ended: Ended


def refine(weigh: Weigh, start: Array, steps: int, deadline: Deadline = NEVER) -> Refined | None:
    """The best rows met on the way from rows of full rank; None from others."""
    shape = start.shape
    lengths = np.abs(start).sum(axis=0)
    if not (lengths > 0).all():
        return None
    A = start / lengths
    best: list[tuple[float, Array]] = []

    def evaluate(x: Array) -> tuple[float, Array]:
        P, N = x.reshape(2, *shape)
        weighed, by_P, by_N = split_value(weigh, P, N)
        if math.isfinite(weighed.judged) and (not best or weighed.judged < best[0][0]):
            best[:] = [(weighed.judged, (P - N) / (P + N).sum(axis=0))]
        return weighed.value, np.concatenate([by_P.reshape(-1), by_N.reshape(-1)])

    x = np.concatenate([np.maximum(A, 0).reshape(-1), np.maximum(-A, 0).reshape(-1)])
    if not math.isfinite(split_value(weigh, *x.reshape(2, *shape))[0].value):
        return None
    found = minimise_smooth(
        evaluate,
        x,
        tol=1e-10,
        max_steps=steps,
        max_evaluations=2 * steps + 20,
        least=0.0,
        deadline=deadline,
    )
    return Refined(*best[0], found.ended)


def span_value(R: Array, M: Array) -> float:
    """trace (MᵀM)⁻¹ · max_i ‖M r_i‖₁², the total variance of the rows M R per unit of noise."""
    if not np.isfinite(M).all():
        return math.inf
    values = singular_values(M)
    if len(M) < M.shape[1] or not values[-1] > 1e-9 * values[0]:
        return math.inf
    return float((1 / values**2).sum()) * float(np.abs(M @ R).sum(axis=0).max()) ** 2


def smoothed_span(R: Array, M: Array, width: float) -> tuple[float, Array]:
    """(2) with √(a² + width²) for sizes and a soft maximum of that width, and its gradient by M."""
    A = M @ R
    sizes = np.sqrt(A * A + width * width)
    columns = sizes.sum(axis=0)
    top = float(columns.max())
    shares = np.exp((columns - top) / width)
    soft = top + width * math.log(float(shares.sum()))
    shares /= shares.sum()
    try:
        Y = np.linalg.inv(M.T @ M)
    except np.linalg.LinAlgError:
        return math.inf, np.zeros_like(M)
    total = float(np.trace(Y))
    if not 0 < total < math.inf:
        return math.inf, np.zeros_like(M)
    gradient = -2 / total * (M @ (Y @ Y)) + 2 / soft * ((A / sizes * shares) @ R.T)
    return math.log(total) + 2 * math.log(soft), gradient


def search_span(
    R: Array, rows: Sequence[Array], deadline: Deadline = NEVER, *, known: float = math.inf
) -> tuple[Array | None, Ended]:
    """The best M found for (2), from rows within what R spans and from random ones, and how the search ended.

    None for M if none was found.

    Args:
        known: the total that another method has reached; a search far above it ends early.
    """
    k = len(R)
    generator = np.random.default_rng(0)
    inside = [A @ pseudo_inverse(R) for A in rows]
    starts = [M for M in inside if math.isfinite(span_value(R, M))]
    starts += [generator.standard_normal((k + number % 2, k)) for number in range(_SPAN_STARTS)]
    coarse: list[tuple[Array, Ended]] = []
    best = starts[0]
    for number, start in enumerate(starts):
        if number >= _FIRST_SPAN_STARTS and span_value(R, best) > _HOPELESS_STARTS * known:
            break
        coarse.append(_follow(R, start, _COARSE, deadline))
        best = min(best, coarse[-1][0], key=lambda M: span_value(R, M))
    ended: Ended = "exhausted"
    fine = best
    if span_value(R, best) <= _HOPELESS_BEST * known:
        fine, ended = _follow(R, best, _FINE, deadline)
    best = min(best, fine, key=lambda M: span_value(R, M))
    if any(of_start == "deadline" for _, of_start in coarse):
        ended = "deadline"
    return best if math.isfinite(span_value(R, best)) else None, ended


def _follow(R: Array, start: Array, widths: Sequence[float], deadline: Deadline) -> tuple[Array, Ended]:
    """The best M on the way from a start, the width of the smoothing falling, and how the last one ended."""
    M = best = start / float(np.abs(start @ R).sum(axis=0).max())
    of_width: Ended = "converged"
    # Two products of M with all columns, and a root and an exponential of each entry.
    each = (4 * M.shape[1] + _ROOT_OPERATIONS) * M.shape[0] * R.shape[1]
    steps = max(_FEWEST_SPAN_STEPS, min(_SPAN_STEPS, round(_SPAN_OPERATIONS / (len(widths) * each))))
    for width in widths:
        if deadline.is_past:
            return best, "deadline"

        def evaluate(x: Array, width: float = width) -> tuple[float, Array]:
            value, gradient = smoothed_span(R, x.reshape(start.shape), width)
            return value, gradient.reshape(-1)

        found = minimise_smooth(evaluate, M.reshape(-1), tol=1e-13, max_steps=steps, deadline=deadline)
        M = found.x.reshape(start.shape)
        size = float(np.abs(M @ R).sum(axis=0).max())
        if not 0 < size < math.inf:
            raise DesignError(
                "the search within the queries' span failed", field="strategy", remedy="name another method"
            )
        M = M / size
        if span_value(R, M) < span_value(R, best):
            best = M
        of_width = found.ended
    return best, of_width
