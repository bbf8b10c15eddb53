"""DAWA: buckets of similar counts, found privately, then measured by a tree suited to the queries.

1. Partition, ε₁. A bucket I of neighbouring cells costs its deviation from its mean plus what its
   own noise will cost,

       dev(I) = Σ_{i∈I} |x_i − mean_I|,      cost(I) = dev(I) + 1/ε₂ + a charge.

   Noise is added to the cost of every candidate bucket, and the partition of least noisy cost, found
   by dynamic programming, is released. Nothing else of this stage is. `noisy_partition` has it, with
   its guarantee.

2. Measurement, ε₂ = ε − ε₁. A binary tree over the buckets, each node with a weight. Weights are found
   from the leaves up: a node takes the share λ of its subtree's sensitivity that leaves its part of the
   queries, asked of uniform buckets, the least total variance. Least squares, then every bucket is spread
   evenly over its cells.

Guarantee of 2:
    The tree and its integer weights follow from what 1 released. A record changes one bucket's count by
    1, so the weighted nodes change by at most the largest sum of weights from a leaf to the root.

Reference:
    Li, Hay, Miklau (2014), A data- and workload-aware algorithm for range queries under differential
    privacy: the two stages, buckets of power-of-two lengths, greedy weights, and a quarter of ε for stage 1.
    Compared in section 5.6 of the full version of COA.

    The authors' public program adds half the noise, none to single cells, and cuts noisy deviations off at
    zero. That is not ε₁-private: `dawa_published` has the proof, and the program for comparison. Without the
    cut, buckets that are cheap by luck win, and they are small: even counts in 256 cells at ε = 1 fell into
    125 buckets. A charge of twice the scale of its noise on every bucket, a number that depends on no data,
    leaves 32. At ε = 0.1, with 1,024 random ranges over 1,024 cells, the error is 1 to 4 times that of their
    program on the tables of COA's figure 14.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np

from leastnoise.core.operators import (
    AllOnes,
    Array,
    CumulativeSum,
    Deferred,
    EveryRange,
    Identity,
    Kronecker,
    Operator,
    Padded,
    SomeRanges,
    Stack,
)
from leastnoise.papers.noisy_partition import (
    Candidates,
    gram_of_buckets,
    noisy_partition,
    partition_arguments,
    partition_options,
)
from leastnoise.planning import (
    DiscreteLaplace,
    Mechanism,
    Method,
    Request,
    RoundedGaussian,
    cells_per_attribute,
    least_scale,
    refuse_unless_pure_total,
)

MAX_CELLS = 4096

# Weights of nodes are whole multiples of 2^-30 of the largest.
_WEIGHT_BITS = 30

# Shares of a node that are tried: the best is missed by a thousandth, which costs a millionth.
_SHARES = np.linspace(0, 0.99, 991)

# A sum of products is rounding where it is below this share of the sum of their sizes.
_ROUNDING = 4e-16

# Coefficients looked at together where rows are visited piece by piece.
_CHUNK_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class Dawa(Mechanism):
    """Both stages for n cells in order.

    Attributes:
        lengths: of candidate buckets, ascending, 1 among them.
        charge: what each bucket costs beside its own noise, in scales of the noise on its cost.
        gram: Σ_j w_j (row j)ᵀ(row j), (n, n): all that the weights of the tree depend on.
    """

    name: ClassVar[str] = "dawa"

    lengths: tuple[int, ...]
    charge: Fraction
    gram: Array

    @property
    def note(self) -> str:
        return (
            f"epsilon {float(self.shares['partition']):.4g} for finding buckets of similar counts, "
            f"{float(self.shares['measurement']):.4g} for a tree over them"
        )

    @property
    def most_integers(self) -> int:
        n = len(self.gram)
        return 1 + n + 2 * (2 * n - 1)

    def measure(
        self, counts: Array, laplace: DiscreteLaplace, gaussian: RoundedGaussian | None = None
    ) -> Array:
        own_noise = 1 / self.shares["measurement"]
        candidates = Candidates(self.lengths, self.charge, own_noise)
        starts = noisy_partition(counts, laplace, self.shares["partition"], candidates)
        weights = tree_weights(gram_of_buckets(self.gram, starts))
        k = len(starts)
        epsilon = self.shares["measurement"]
        noise = laplace(least_scale(sensitivity_of_tree(k, weights), epsilon), 2 * k - 1)
        before = [0, *np.cumsum(counts.astype(object))]
        ends = [*starts, len(counts)]
        noisy = [
            weight * (before[ends[high]] - before[ends[low]]) + draw
            for (low, high), weight, draw in zip(nodes(k), weights, noise, strict=True)
        ]
        return np.array([k, *starts, *weights, *noisy], dtype=object)

    def fits(self, measurements: Array) -> bool:
        k, n = int(measurements[0]), len(self.gram)
        if not 1 <= k <= n or len(measurements) != 1 + k + 2 * (2 * k - 1):
            return False
        starts, weights, _ = _parts(measurements)
        is_ascending = all(a < b for a, b in pairwise([*starts, n]))
        is_leaf = [high - low == 1 for low, high in nodes(k)]
        return (
            starts[0] == 0
            and is_ascending
            and all(0 <= w <= 2 ** (2 * _WEIGHT_BITS) for w in weights)
            and all(w > 0 for w, leaf in zip(weights, is_leaf, strict=True) if leaf)
        )

    def estimates(self, measurements: Array) -> Array:
        starts, weights, noisy = _parts(measurements)
        sizes = np.diff([*starts, len(self.gram)])
        return np.repeat(least_squares_on_tree(weights, noisy) / sizes, sizes)


def _parts(measurements: Array) -> tuple[list[int], list[int], list[int]]:
    """Where buckets start, the weights of the nodes, and the noisy weighted counts of the nodes."""
    k, *rest = (int(value) for value in measurements)
    return rest[:k], rest[k : 3 * k - 1], rest[3 * k - 1 :]


# The tree ------------------------------------------------------------------------------------


def nodes(k: int) -> Iterator[tuple[int, int]]:
    """Every node of a binary tree over k buckets, as [low, high): children before their parent."""

    def below(low: int, high: int) -> Iterator[tuple[int, int]]:
        if high - low > 1:
            middle = (low + high) // 2
            yield from below(low, middle)
            yield from below(middle, high)
        yield low, high

    return below(0, k)


def tree_weights(gram: Array) -> list[int]:
    """The weight of every node, in the order of `nodes`, for queries with this Gram matrix (k, k).

    With S the covariance of a node's leaves when its children alone are measured, at sensitivity 1, and
    u = λ/(1 − λ), measuring the node as well with the share λ leaves the total variance

        (1 + u)² (a + g / (h (1 + u² h))),    a = tr(V S) − g/h,  g = 1ᵀ S V S 1,  h = 1ᵀ S 1.

    S itself is not kept: where queries do not tell leaves apart, level upon level takes nearly the whole
    share, differences of leaves become as uncertain as 10⁴ to the power of the levels, and sums of its
    entries would be nothing but rounding. What goes up is S1, in which such differences do not occur, and
    what they cost, a: (1 + u)² times as much above a node, and for a node of two subtrees, with d = S1/h in
    the left one and −S1/h in the right,

        a = a_left + a_right + dᵀ V d · h_left h_right / h.
    """
    k = len(gram)
    u = _SHARES / (1 - _SHARES)
    shares: list[float] = []
    subtrees: list[tuple[float, Array]] = []
    for low, high in nodes(k):
        if high - low == 1:
            shares.append(1.0)
            subtrees.append((0.0, np.ones(1)))
            continue
        (a_right, right), (a_left, left) = subtrees.pop(), subtrees.pop()
        V = gram[low:high, low:high]
        S1 = np.concatenate([left, right])
        g, h_left, h_right = float(S1 @ V @ S1), float(left.sum()), float(right.sum())
        h = h_left + h_right
        apart = a_left + a_right + _told_apart(V, left / h_left, right / h_right) * h_left * h_right / h
        left_over = (1 + u) ** 2 * (apart + g / (h * (1 + u**2 * h)))
        best = int(np.argmin(left_over))
        shares.append(float(_SHARES[best]))
        factor = (1 + u[best]) ** 2
        subtrees.append((factor * apart, S1 * (factor / (1 + u[best] ** 2 * h))))
    real = _from_the_root(k, shares)
    # No leaf is lost to rounding: each is measured, if with little weight.
    return [
        max(round(2.0**_WEIGHT_BITS * w), 1 if high - low == 1 else 0)
        for (low, high), w in zip(nodes(k), real, strict=True)
    ]


def _told_apart(V: Array, left: Array, right: Array) -> float:
    """dᵀ V d with d = (left, −right), or 0 where that is no more than rounding."""
    d = np.concatenate([left, -right])
    found = float(d @ V @ d)
    return found if found > _ROUNDING * float(np.abs(d) @ np.abs(V) @ np.abs(d)) else 0.0


def _from_the_root(k: int, shares: list[float]) -> list[float]:
    """What each node has of the whole sensitivity, from its share of its own subtree's."""
    weights = [0.0] * len(shares)

    def down(low: int, high: int, last: int, left_over: float) -> None:
        weights[last] = left_over * shares[last]
        if high - low > 1:
            middle = (low + high) // 2
            rest = left_over * (1 - shares[last])
            down(middle, high, last - 1, rest)
            # A subtree of s leaves has 2s − 1 nodes.
            down(low, middle, last - 2 * (high - middle), rest)

    down(0, k, len(shares) - 1, 1.0)
    return weights


def sensitivity_of_tree(k: int, weights: list[int]) -> int:
    """The largest sum of weights from a leaf to the root, exactly."""
    on_leaf = [0] * k
    for (low, high), weight in zip(nodes(k), weights, strict=True):
        for i in range(low, high):
            on_leaf[i] += weight
    return max(on_leaf)


def least_squares_on_tree(weights: list[int], noisy: Sequence[float]) -> Array:
    """The counts of the k buckets that fit noisy = weight · (sum of a node's buckets) best, (k,).

    Upwards each node takes the mean of its own answer and its children's sum, by their
    precision; downwards what a node differs from its children goes to them by their variance.

    Reference:
        Hay, Rastogi, Miklau and Suciu (2010), section 4, with unequal weights.
    """
    k = (len(weights) + 1) // 2
    means, variances = [0.0] * len(weights), [0.0] * len(weights)
    children: dict[int, tuple[int, int]] = {}
    open_nodes: list[int] = []
    for v, (low, high) in enumerate(nodes(k)):
        precision = float(weights[v]) ** 2
        if high - low == 1:
            means[v], variances[v] = noisy[v] / weights[v], 1 / precision
        else:
            right, left = open_nodes.pop(), open_nodes.pop()
            children[v] = left, right
            below = variances[left] + variances[right]
            variances[v] = 1 / (1 / below + precision)
            from_below = (means[left] + means[right]) / below
            own = noisy[v] / weights[v] * precision if weights[v] else 0.0
            means[v] = variances[v] * (from_below + own)
        open_nodes.append(v)
    for v in reversed(range(len(weights))):
        if v in children:
            left, right = children[v]
            excess = means[v] - means[left] - means[right]
            below = variances[left] + variances[right]
            means[left] += excess * variances[left] / below
            means[right] += excess * variances[right] / below
    return np.array([means[v] for v, (low, high) in enumerate(nodes(k)) if high - low == 1])


# The method ----------------------------------------------------------------------------------


def asks_ranges(operator: Operator) -> bool:
    """Whether every row adds up neighbouring cells, each once; a row of zeros does too."""
    if isinstance(operator, (Identity, AllOnes, CumulativeSum, EveryRange, SomeRanges)):
        return True
    if isinstance(operator, Deferred):
        return asks_ranges(operator.made)
    if isinstance(operator, Padded):
        return asks_ranges(operator.inner)
    if isinstance(operator, Stack):
        return all(asks_ranges(part) for part in operator.parts)
    if isinstance(operator, Kronecker) and len(operator.factors) == 1:
        return asks_ranges(operator.factors[0])
    m, n = operator.shape
    step = max(1, _CHUNK_ENTRIES // n)
    for start in range(0, m, step):
        rows = operator.rows(np.arange(start, min(start + step, m)))
        changes = np.abs(np.diff(rows, axis=1, prepend=0, append=0)).sum(axis=1)
        if not (((rows == 0) | (rows == 1)).all() and (changes <= 2).all()):
            return False
    return True


def _refuses(request: Request) -> str | None:
    reason = refuse_unless_pure_total(request)
    if reason is not None:
        return reason
    n = request.workload.shape[1]
    if sum(size > 1 for size in cells_per_attribute(request.workload)) > 1:
        return "it is for one ordered attribute"
    if n > MAX_CELLS:
        return f"it looks at all stretches of the cells, at most {MAX_CELLS:,} of them, here {n:,}"
    if not asks_ranges(request.workload.operator):
        return "it is for ranges, sums of neighbouring cells"
    return None


def _find(request: Request) -> Dawa:
    return Dawa(*partition_arguments(DAWA, request))


DAWA = Method(
    "dawa",
    f"buckets of similar counts, found privately, then a tree; pure privacy, ranges, {MAX_CELLS:,} cells",
    _refuses,
    _find,
    partition_options("the share of epsilon"),
    is_quick=False,
    is_data_dependent=True,
)
