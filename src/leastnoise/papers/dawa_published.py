"""DAWA's partition as its authors' public program finds it: simulated on public tables, never released.

With ε₁ for the partition, ε₂ for what follows and buckets I of L = 1, 2, 4, ... cells,

    cost(I) = max(dev(I) + Z, 0) + 1/ε₂,    Z ~ Laplace((2 − 1/L − 1/n)/ε₁),  Z = 0 where L = 1,

and the partition of least cost is taken; of equal ones, that with the longer last bucket. Less noise than in
`dawa`, none on single cells, and no cost below that of the bucket's own noise: partitions are better.

They are not ε₁-private, which is why no plan uses them. Take four equal cells. All four stay single if
Z > 1/ε₂ for each of three pairs and Z > 3/ε₂ for the whole. One record more in the second cell lifts the
deviations of {1, 2} and {2, 3} by 1 and that of the whole by 3/2. Where ε₂ ≤ 1 all of these are tails, and
singles become more likely by exactly

    exp(ε₁ (1/1.25 + 1/1.25 + 1.5/1.5)) = exp(2.6 ε₁).

All buckets that hold the record add up, because nothing random stands on the other side of the comparison;
of n equal cells there are more than n. Noise on single cells as well, twice as much in all, and no cut at
zero give the mechanism that `dawa` proves.

Reference:
    Li, Hay and Miklau (2014), A data- and workload-aware algorithm for range queries under differential
    privacy, and the authors' program in the public benchmark DPBench, from which noise and cut are known.
"""

from __future__ import annotations

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.papers.dawa import least_squares_on_tree, nodes, sensitivity_of_tree, tree_weights
from leastnoise.papers.noisy_partition import gram_of_buckets, least_partition, power_lengths
from leastnoise.query import Workload

# The share of ε for the partition: the paper's.
PARTITION_SHARE = 0.25


def published_partition(
    counts: Array, *, partition: float, measurement: float, generator: np.random.Generator
) -> list[int]:
    """The first cells of the buckets.

    Args:
        counts: public, (n,).
        partition: ε₁.
        measurement: ε₂.
    """
    x = np.asarray(counts, dtype=float)
    n = len(x)
    own_noise = 1 / measurement
    costs: dict[int, list[float]] = {}
    for L in power_lengths(n):
        windows = np.lib.stride_tricks.sliding_window_view(x, L)
        cost = np.abs(windows - windows.mean(axis=1, keepdims=True)).sum(axis=1)
        if L > 1:
            cost = cost + generator.laplace(0, (2 - 1 / L - 1 / n) / partition, len(cost))
        costs[L] = (np.maximum(cost, 0) + own_noise).tolist()
    return least_partition(n, costs)


def simulated_errors(
    workload: Workload, counts: Array, epsilon: float, *, n_runs: int, generator: np.random.Generator
) -> Array:
    """The mean squared error of every query over some runs on a public table, (n_runs,).

    The second stage, a weighted tree over the buckets, is that of `dawa`.
    """
    x = np.asarray(counts, dtype=float)
    partition = PARTITION_SHARE * epsilon
    measurement = epsilon - partition
    gram = workload.weighted_gram(np.ones(workload.shape[0]))
    before = np.concatenate([[0.0], np.cumsum(x)])
    found = []
    for _ in range(n_runs):
        starts = published_partition(x, partition=partition, measurement=measurement, generator=generator)
        weights = tree_weights(gram_of_buckets(gram, starts))
        k, ends = len(starts), [*starts, len(x)]
        scale = sensitivity_of_tree(k, weights) / measurement
        noise = generator.laplace(0, scale, 2 * k - 1)
        noisy = [
            weight * (before[ends[high]] - before[ends[low]]) + z
            for (low, high), weight, z in zip(nodes(k), weights, noise.tolist(), strict=True)
        ]
        sizes = np.diff(ends)
        estimates = np.repeat(least_squares_on_tree(weights, noisy) / sizes, sizes)
        found.append(float(np.mean(workload.operator.apply(estimates - x) ** 2)))
    return np.array(found)
