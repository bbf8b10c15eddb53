"""Noise on rows that do not depend on the queries' weights: every cell, every query, a tree, wavelets.

    identity       every cell; queries are added up afterwards
    workload       every different query, then least squares to make the answers agree
    own            the rows of a matrix that somebody gave
    queries        every query as it is asked, twice if asked twice, and no least squares
    hierarchical   every node of a tree over each attribute, crossed over attributes
    wavelet        Haar wavelet coefficients of each attribute, crossed over attributes

For 4 values the rows of a tree with branching 2, and those of a wavelet, are

    1 1 1 1                             1  1  1  1
    1 1 0 0                             1  1 −1 −1
    0 0 1 1                             1 −1  0  0
    and the 4 values themselves         0  0  1 −1

A number of values that is no power of two is filled up with absent values for wavelets. With Laplace noise,
wavelets cost more than they gain on attributes with few values. The hybrid leaves an attribute of n values as
it is where n ≤ P² H, P = 1 + log₂ n being what one record moves its coefficients by, and H = (2 + log₂ n)/2
what they add to the variance of a range.

Reference:
    Hay, Rastogi, Miklau and Suciu (2010), Boosting the accuracy of differentially private histograms through
    consistency; the tree followed by least squares. Qardaji, Yang and Li (2013), Understanding hierarchical
    methods for differentially private histograms, for the best branching; here it is the one of least
    expected error, computed exactly for this workload and objective instead of estimated for all ranges.
    Xiao, Wang and Gehrke (2010), Differential privacy via wavelet transforms; Privelet, and Privelet⁺ for the
    hybrid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array, kronecker
from leastnoise.core.resources import Needs
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
from leastnoise.strategy import QueryProposal, RealStrategy


def _refuses_identity(request: Request) -> str | None:
    n = request.workload.shape[1]
    return refuse_large(n, n)


def _find_identity(request: Request) -> SearchResult:
    n = request.workload.shape[1]
    return heuristic(
        request,
        RealStrategy(np.eye(n, dtype=np.int64)),
        "noise on every cell",
    )


IDENTITY = Method(
    "identity",
    "noise on every cell, queries added up afterwards",
    _refuses_identity,
    _find_identity,
    takes_absolute=True,
    needs=dense_needs(held=1, first=1, step=0),
)


def _refuses_workload(request: Request) -> str | None:
    W = request.workload.operator
    too_large = refuse_large(*W.shape)
    if too_large is not None:
        return too_large
    if not W.is_integer or W.largest >= 2**30:
        return "it measures the queries themselves, whose coefficients must be whole numbers below 2^30"
    return None


def _find_workload(request: Request) -> SearchResult:
    rows = request.workload.operator.dense(np.int64)
    # A query asked twice is measured once, a query of nothing never.
    rows = distinct_rows(rows[rows.any(axis=1)])
    if len(rows) == 0:
        rows = np.zeros((1, request.workload.shape[1]), dtype=np.int64)
    return heuristic(
        request,
        RealStrategy(rows),
        f"noise on each of {len(rows):,} different queries",
    )


def distinct_rows(rows: Array) -> Array:
    """The different rows of whole numbers between -2^30 and 2^30, in the order of their entries.

    Rows as bytes, the highest first, are in that order too. 18,496 queries over 256 cells take 0.08 s, and
    np.unique took 0.65 s.
    """
    if len(rows) == 0:
        return rows
    from_least = rows - rows.min()
    table = from_least.astype(">u1" if from_least.max() < 2**8 else ">u4")
    first: dict[bytes, int] = {}
    for number, row in enumerate(table):
        first.setdefault(row.tobytes(), number)
    return np.asarray(rows[[first[key] for key in sorted(first)]])


def _refuses_own(request: Request) -> str | None:
    return "it measures a matrix of your own: call plan_from(workload, A, privacy)"


def _find_own(request: Request) -> SearchResult:
    raise MethodError(f"method 'own' has no matrix; {_refuses_own(request)}", field="method")


OWN = Method(
    "own",
    "noise on the rows of a matrix of one's own; only by plan_from",
    _refuses_own,
    _find_own,
    is_only_named=True,
)


def _find_queries(request: Request) -> SearchResult:
    m = request.workload.shape[0]
    return heuristic(
        request,
        QueryProposal(request.workload),
        f"noise on each of {m:,} queries as asked, no least squares",
    )


QUERIES = Method(
    "queries",
    "noise on every query as asked, twice if asked twice, and no least squares; only when named",
    _refuses_workload,
    _find_queries,
    is_only_named=True,
    takes_periods=True,
    takes_absolute=True,
    needs=dense_needs(held=4.2, first=3, step=0, rounded=None, spans=True),
)


# Operations for every coefficient of the queries, beside products: sorting, comparing, and passes over them.
# 275 queries over 28,800 cells take 7 s, products 3 s of it.
_PER_COEFFICIENT = 25_000.0

# Queries depend on one another as a rule, and then singular values take the place of triangles.
_needs_of_products = dense_needs(held=4.2, first=20, step=0, rounded=None, spans=True)


def _needs_of_workload(request: Request) -> Needs:
    needs = _needs_of_products(request)
    return replace(needs, first=needs.first + _PER_COEFFICIENT * math.prod(request.workload.shape))


WORKLOAD = Method(
    "workload",
    "noise on every query, then least squares",
    _refuses_workload,
    _find_workload,
    takes_absolute=True,
    needs=_needs_of_workload,
)


def tree(n: int, branching: int) -> Array:
    """The 0/1 rows of every node, root first, of a balanced tree over n values."""
    rows = []
    level = [(0, n)]
    while level:
        following = []
        for low, high in level:
            row = np.zeros(n, dtype=np.int64)
            row[low:high] = 1
            rows.append(row)
            if high - low > 1:
                cuts = np.linspace(low, high, min(branching, high - low) + 1).round().astype(int)
                following += list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
        level = following
    return np.array(rows)


def _tree_rows(request: Request) -> float:
    """Nodes of the trees over all attributes, at most, per cell."""
    return math.prod((2 * n - 1) / n for n in cells_per_attribute(request.workload))


def branchings(n: int) -> list[int]:
    """The numbers of branches tried over n values: 2 to 16, and the fewest that give each height."""
    fewest = {next(b for b in range(2, n + 1) if b**height >= n) for height in range(1, n.bit_length())}
    return sorted(fewest | set(range(2, min(n, 16) + 1))) or [2]


def best_branchings(request: Request) -> list[int]:
    """Branches for each attribute with the least expected error of the objective.

    One attribute: the best of all `branchings`. Several: each in turn is given its
    best, until none changes.
    """
    sizes = cells_per_attribute(request.workload)
    gram = None
    if request.objective.kind in ("total", "total-within-caps"):
        gram = request.workload.weighted_gram(request.objective.weights(request.workload))
    chosen = [2] * len(sizes)
    least = _expected(request, gram, chosen)
    changed = True
    while changed:
        changed = False
        for a, n in enumerate(sizes):
            for branching in branchings(n):
                trial = [*chosen[:a], branching, *chosen[a + 1 :]]
                value = _expected(request, gram, trial)
                # By more than rounding, so that equal trees do not take turns for ever.
                if value < least * (1 - 1e-12):
                    chosen, least, changed = trial, value, True
    return chosen


def _expected(request: Request, gram: Array | None, branching: Sequence[int]) -> float:
    """What the objective comes to, per unit of noise, with these trees; gram: V, for a total."""
    sizes = cells_per_attribute(request.workload)
    grams = [rows.T @ rows for rows in map(tree, sizes, branching)]
    covariance = kronecker([np.linalg.inv(own) for own in grams])
    # Entries are 0 and 1, so Σ a² = Σ |a|, of a column and of a difference of two.
    if request.privacy.relation.replaces:
        joint = kronecker(grams)
        own = np.diag(joint)
        cost = int(max(own.max(), (own[:, None] + own - 2 * joint).max()))
    else:
        cost = math.prod(int(own.diagonal().max()) for own in grams)
    spread = float(cost) ** request.privacy.noise.variance_power
    if gram is not None:
        return spread * float(np.vdot(gram, covariance))
    return spread * request.objective.value(request.workload, request.workload.operator.quadratic(covariance))


def _refuses_tree(request: Request) -> str | None:
    sizes = cells_per_attribute(request.workload)
    return refuse_large(math.prod(2 * n for n in sizes), math.prod(sizes))


def _find_tree(request: Request) -> SearchResult:
    given = HIERARCHICAL.option(request, "branching")
    sizes = cells_per_attribute(request.workload)
    is_best = is_one_of(given, ("best",))
    if not is_best and (type(given) is not int or not 2 <= given < 2**63):
        raise MethodError(
            f'branching must be a whole number, 2 or more, or "best", got {shown(given)}',
            field="branching",
            given=given,
        )
    chosen = best_branchings(request) if is_best else [given] * len(sizes)
    rows = kronecker([tree(n, branching) for n, branching in zip(sizes, chosen, strict=True)])
    return heuristic(
        request,
        RealStrategy(rows),
        "noise on every node of a tree with "
        + " x ".join(str(b) for b in (chosen if len(set(chosen)) > 1 else chosen[:1]))
        + " branches",
    )


HIERARCHICAL = Method(
    "hierarchical",
    "noise on every node of a tree over each attribute, then least squares",
    _refuses_tree,
    _find_tree,
    {"branching": (2, 'children of each node, or "best" for those of least expected error')},
    takes_absolute=True,
    needs=dense_needs(held=4.2, first=1, step=0, rounded=_tree_rows),
)


def haar(n: int) -> Array:
    """The −1/0/1 rows of the unnormalised Haar wavelet over n values."""
    width = 1 << (n - 1).bit_length()
    rows = [np.ones(width, dtype=np.int64)]
    while width > 1:
        half = width // 2
        for low in range(0, n, width):
            row = np.zeros(len(rows[0]), dtype=np.int64)
            row[low : low + half] = 1
            row[low + half : low + width] = -1
            rows.append(row)
        width = half
    return np.array(rows)[:, :n]


def _haar_rows(request: Request) -> float:
    """Rows of wavelets over all attributes per cell: 7 for 5 values, as many as values for powers of two."""
    return math.prod(_n_haar(n) / n for n in cells_per_attribute(request.workload))


def _n_haar(n: int) -> int:
    """How many rows `haar` has: at every level one for each pair of halves of which something is there."""
    depth = (n - 1).bit_length()
    return 1 + sum(-(-n // 2**level) for level in range(1, depth + 1))


def is_small(n: int) -> bool:
    """Whether the hybrid leaves an attribute of n values as it is: n ≤ P² H."""
    # Absent values are filled up, so the depth is that of the next power of two.
    depth = (n - 1).bit_length()
    return 2 * n <= (1 + depth) ** 2 * (2 + depth)


def _refuses_wavelet(request: Request) -> str | None:
    sizes = cells_per_attribute(request.workload)
    if request.options.get("hybrid") is True and not request.privacy.noise.is_pure:
        return "its hybrid is for Laplace noise; with Gaussian noise leaving attributes out gains nothing"
    return refuse_large(math.prod(2 * n for n in sizes), math.prod(sizes))


def _find_wavelet(request: Request) -> SearchResult:
    hybrid = WAVELET.option(request, "hybrid")
    if not isinstance(hybrid, bool):
        raise MethodError.must("hybrid", "be True or False", given=hybrid)
    sizes = cells_per_attribute(request.workload)
    left = [hybrid and is_small(n) for n in sizes]
    rows = kronecker(
        [np.eye(n, dtype=np.int64) if whole else haar(n) for n, whole in zip(sizes, left, strict=True)]
    )
    note = "noise on Haar wavelet coefficients"
    if hybrid:
        note += f", {sum(left)} of {len(sizes)} attributes left as they are"
    return heuristic(request, RealStrategy(rows), note)


WAVELET = Method(
    "wavelet",
    "noise on Haar wavelet coefficients, then least squares",
    _refuses_wavelet,
    _find_wavelet,
    {"hybrid": (False, "leave attributes with few values as they are; for pure privacy")},
    takes_absolute=True,
    needs=dense_needs(held=4.2, first=1, step=0, rounded=_haar_rows),
)
