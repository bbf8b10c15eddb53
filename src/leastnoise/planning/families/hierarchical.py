"""Noise on every node of a tree over each attribute, crossed over attributes.

For 4 values and branching 2 the rows are

    1 1 1 1
    1 1 0 0
    0 0 1 1
    and the 4 values themselves

Reference:
    Hay, Rastogi, Miklau and Suciu (2010), Boosting the accuracy of differentially
    private histograms through consistency; the tree followed by least squares. Qardaji,
    Yang and Li (2013), Understanding hierarchical methods for differentially private
    histograms, for the best branching; here it is the one of least expected error, computed
    exactly for this workload and objective instead of estimated for all ranges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.planning.method import (
    Found,
    Method,
    Request,
    cells_per_attribute,
    dense_needs,
    is_one_of,
    kronecker,
    refuse_large,
    shown,
    uniform_weights,
)
from leastnoise.strategy import RealStrategy


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
    if request.objective.kind != "largest":
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
    if request.privacy.neighbours == "replace-one":
        joint = kronecker(grams)
        own = np.diag(joint)
        cost = int(max(own.max(), (own[:, None] + own - 2 * joint).max()))
    else:
        cost = math.prod(int(own.diagonal().max()) for own in grams)
    spread = float(cost) ** (2 if request.privacy.noise == "laplace" else 1)
    if gram is not None:
        return spread * float(np.vdot(gram, covariance))
    return spread * request.objective.value(request.workload, request.workload.operator.quadratic(covariance))


def _refuses(request: Request) -> str | None:
    sizes = cells_per_attribute(request.workload)
    return refuse_large(math.prod(2 * n for n in sizes), math.prod(sizes))


def _find(request: Request) -> Found:
    given = HIERARCHICAL.option(request, "branching")
    sizes = cells_per_attribute(request.workload)
    is_best = is_one_of(given, ("best",))
    if not is_best and (type(given) is not int or not 2 <= given < 2**63):
        raise MethodError(f'branching must be a whole number, 2 or more, or "best", got {shown(given)}')
    chosen = best_branchings(request) if is_best else [given] * len(sizes)
    rows = kronecker([tree(n, branching) for n, branching in zip(sizes, chosen, strict=True)])
    return Found(
        RealStrategy(rows),
        uniform_weights(request.workload),
        "heuristic",
        "noise on every node of a tree with "
        + " x ".join(str(b) for b in (chosen if len(set(chosen)) > 1 else chosen[:1]))
        + " branches",
        "converged",
    )


HIERARCHICAL = Method(
    "hierarchical",
    "noise on every node of a tree over each attribute, then least squares",
    _refuses,
    _find,
    {"branching": (2, 'children of each node, or "best" for those of least expected error')},
    needs=dense_needs(held=4.2, first=1, step=0, rounded=2.0),
)
