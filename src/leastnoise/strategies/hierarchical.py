"""Noise on every node of a tree over each attribute, crossed over attributes.

For 4 values and branching 2 the rows are

    1 1 1 1
    1 1 0 0
    0 0 1 1
    and the 4 values themselves

Reference:
    Hay, Rastogi, Miklau and Suciu (2010), Boosting the accuracy of differentially
    private histograms through consistency; the tree followed by least squares.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.errors import MethodError
from leastnoise.operators import Array
from leastnoise.strategies.method import (
    Found,
    Method,
    Request,
    cells_per_attribute,
    kronecker,
    refuse_large,
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


def _refuses(request: Request) -> str | None:
    sizes = cells_per_attribute(request.workload)
    return refuse_large(math.prod(2 * n for n in sizes), math.prod(sizes))


def _find(request: Request) -> Found:
    branching = HIERARCHICAL.option(request, "branching")
    if type(branching) is not int or branching < 2:
        raise MethodError(f"branching must be a whole number, 2 or more, got {branching!r}")
    rows = kronecker([tree(n, branching) for n in cells_per_attribute(request.workload)])
    return Found(
        RealStrategy(rows),
        uniform_weights(request.workload),
        "heuristic",
        f"noise on every node of a tree with {branching} branches",
    )


HIERARCHICAL = Method(
    "hierarchical",
    "noise on every node of a tree over each attribute, then least squares",
    _refuses,
    _find,
    {"branching": (2, "children of each node")},
)
