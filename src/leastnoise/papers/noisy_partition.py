"""A partition of cells in order into buckets of similar counts, found privately: the first stage of DAWA.

A bucket I of neighbouring cells costs its deviation from its mean plus what its own noise will cost,

    dev(I) = Σ_{i∈I} |x_i − mean_I|,      cost(I) = dev(I) + own noise + a charge.

Noise is added to the cost of every candidate bucket, and the partition of least noisy cost, found by dynamic
programming, is released. Nothing else is. `dawa` and `buckets` measure what comes out, each in its own way.

Guarantee, with noise of scale (Δ_I + max_J Δ_J)/ε on whole-number costs of sensitivity Δ_I:
    Let a record be added to cell i. Exactly one bucket of each partition holds i. Fix a partition P, its
    bucket I ∋ i, and all noise but Z, that of I. Whether P is the best of the partitions with I does not
    depend on i's count, as they share the only bucket that changes. P beats the others if Z ≤ t, where t
    is the least cost of those less that of P without Z. The one changes by max_J Δ_J at most and the other by
    Δ_I, so that Pr[Z ≤ t] changes by a factor of e^{ε} at most, and, averaged over the other noise, Pr[P]
    too. Ties go to the partition whose last bucket starts first, then the one before it, and so on: an
    order that no data changes.

    A record moves dev(I) by at most 2(L − 1)/L, L = |I|: its own term by (L − 1)/L, the L − 1 others by 1/L
    each. Costs are ⌊K dev(I)⌋ with K = 2^20, from integers alone, so Δ_I = ⌈2K (L − 1)/L⌉.

Reference:
    Li, Hay, Miklau (2014), A data- and workload-aware algorithm for range queries under differential
    privacy: costs and buckets of power-of-two lengths. Where this differs from the authors' program, and why,
    is in `dawa` and `dawa_published`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.planning import (
    GRID,
    DiscreteLaplace,
    Method,
    Request,
    is_one_of,
    least_scale,
    share_option,
    shown,
    split_budget,
)
from leastnoise.privacy import Goal

# With buckets of every length there are n²/2 of them, and n³/6 counts are looked at.
MAX_CELLS_ALL_LENGTHS = 512

# With this charge no noise makes two buckets of one.
_MOST_CHARGE = 1_000_000


class Candidates(NamedTuple):
    """The buckets that a partition may have, and what each costs beside its deviation.

    Nothing of it may depend on the data.

    Attributes:
        lengths: of the buckets, ascending, 1 among them.
        charge: what each bucket costs beside its own noise, in scales of the noise on its cost.
        own_noise: what the noise of the measurement adds to a bucket's count, in records.
    """

    lengths: tuple[int, ...]
    charge: Fraction
    own_noise: Fraction


def noisy_partition(
    counts: Array, laplace: DiscreteLaplace, epsilon: Fraction, candidates: Candidates
) -> list[int]:
    """The first cells of the buckets of least noisy cost.

    Guarantee:
        ε-differential privacy where a record is added or removed: the guarantee at the top of this file.
    """
    own_noise = math.ceil(GRID * candidates.own_noise)
    largest = deviation_sensitivity(candidates.lengths[-1])
    costs = {}
    for L in candidates.lengths:
        scale = least_scale(deviation_sensitivity(L) + largest, epsilon)
        fixed = own_noise + math.ceil(candidates.charge * scale)
        exact = deviations(counts, L)
        noise = laplace(scale, len(exact))
        costs[L] = [d + fixed + z for d, z in zip(exact, noise, strict=True)]
    return least_partition(len(counts), costs)


def deviations(counts: Array, L: int) -> list[int]:
    """⌊K dev(I)⌋ for every bucket of L cells, from integers alone: K dev(I) = K Σ |L x_i − Σ x| / L."""
    # Σ |L x_i − Σ x| is at most 2L Σ x: far beyond all the people there are, 64 bits hold it, so that
    # how long this takes tells nothing.
    total = int(counts.astype(object).sum())
    x = counts.astype(np.int64 if total < 2**48 else object)
    windows = np.lib.stride_tricks.sliding_window_view(x, L)
    sums = windows.sum(axis=1)
    return [GRID * int(d) // L for d in np.abs(L * windows - sums[:, None]).sum(axis=1)]


def power_lengths(n: int) -> tuple[int, ...]:
    """The powers of two up to n."""
    return tuple(2**power for power in range(n.bit_length()))


def deviation_sensitivity(L: int) -> int:
    """How much one record more or less changes `deviations` of up to L cells at most: ⌈2K (L − 1)/L⌉."""
    return -(-2 * GRID * (L - 1) // L)


def least_partition(n: int, costs: Mapping[int, Sequence[float]]) -> list[int]:
    """The first cells of the buckets of the partition of n cells with the least total cost.

    Of equal ones that with the longest last bucket, then the one before it.

    Args:
        costs: for every length, the costs of the buckets of that length by their first cell.
    """
    best: list[float] = [0]
    came_from = [0]
    for end in range(1, n + 1):
        cost, start = min((best[end - L] + costs[L][end - L], end - L) for L in costs if end >= L)
        best.append(cost)
        came_from.append(start)
    starts = [came_from[n]]
    while starts[-1] > 0:
        starts.append(came_from[starts[-1]])
    return starts[::-1]


def gram_of_buckets(gram: Array, starts: list[int]) -> Array:
    """The Gram matrix of the queries, (n, n), as one of queries asked of uniform buckets, (k, k)."""
    sizes = np.diff([*starts, len(gram)])
    sums = np.add.reduceat(np.add.reduceat(gram, starts, axis=0), starts, axis=1)
    return np.asarray(sums / np.outer(sizes, sizes))


def lengths_option(given: Any, n: int) -> tuple[int, ...]:
    """The lengths of candidate buckets of n cells: "powers" of two, or "all".

    Raises:
        MethodError: if it is neither, or there are too many buckets.
    """
    if is_one_of(given, ("powers",)):
        return power_lengths(n)
    if is_one_of(given, ("all",)):
        if n > MAX_CELLS_ALL_LENGTHS:
            raise MethodError(
                f'lengths="all" is for up to {MAX_CELLS_ALL_LENGTHS:,} cells, here are {n:,}',
                field="lengths",
                given="all",
                remedy='take "powers"',
            )
        return tuple(range(1, n + 1))
    raise MethodError(f'lengths must be "powers" or "all", got {shown(given)}', field="lengths", given=given)


def partition_options(share: str) -> dict[str, tuple[Any, str]]:
    """The options of every method that begins with a noisy partition.

    Args:
        share: the share in words, as "the share of epsilon".
    """
    return {
        "partition_share": ("1/4", f"{share} that finding the buckets takes"),
        "charge": (2, "what a bucket costs beside its own noise, in scales of the noise on its cost"),
        "lengths": ("powers", 'of candidate buckets: "powers" of two, or "all"'),
    }


def partition_arguments(
    method: Method, request: Request
) -> tuple[Goal, dict[str, Fraction], tuple[int, ...], Fraction, Array]:
    """The goal, the budgets of both stages, the lengths and charge of buckets, and the Gram matrix asked."""
    part = share_option("partition_share", method.option(request, "partition_share"))
    workload = request.workload
    return (
        request.privacy,
        split_budget(request.privacy, {"partition": part, "measurement": 1 - part}),
        lengths_option(method.option(request, "lengths"), workload.shape[1]),
        charge_option(method.option(request, "charge")),
        workload.weighted_gram(request.objective.weights(workload)),
    )


def charge_option(given: Any) -> Fraction:
    """What a bucket costs beside its own noise, exactly.

    Raises:
        MethodError: unless it is a number from 0 to a million.
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= _MOST_CHARGE:
        raise MethodError(
            f"charge must be a number from 0 to {_MOST_CHARGE:,}, got {shown(given)}",
            field="charge",
            given=given,
        )
    return Fraction(given)
