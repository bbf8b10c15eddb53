"""Buckets of similar counts, found privately, then the noise that is optimal for the queries over them.

COA's authors name "hybrid data- and workload-aware differentially private algorithms" as future work. This
is one: DAWA's first stage looks at the data and finds buckets, and our search fits the noise to the queries.

1. Partition, with a part of the budget: `noisy_partition`, as in `dawa`.
2. Measurement, with the rest. A query w asks of a bucket's count what it asks of its cells on average,

       w_b = (1/|b|) Σ_{i∈b} w_i,

   so that the queries over k buckets have a Gram matrix V, (k, k). The strategy of least total variance for
   V is found as for any other workload: by `dense`, with its certificate; by `p-identity` under a pure goal,
   where no certified optimum is known. Its integer rows are released and measured. Least squares, then
   every bucket is spread evenly over its cells.

Guarantee under a pure goal:
    Stage 1 is ε₁-private by the guarantee of `noisy_partition`. The strategy follows from the workload and
    from the partition that stage 1 released, not from counts, so that stage 2 is a plan like any other,
    within ε₂. They add up.

Guarantee under other goals:
    A partition that is ε₁-private is μ₁-GDP for Φ(−μ₁/2) = 1/(1 + e^ε₁): the trade-off function of ε₁-DP is
    two straight lines, and the convex one of μ₁-GDP passes through their corner and both ends.
    `pure_of_mu_squared` takes ε₁ from μ₁², the share of the budget, rounded down with proof; for small shares
    ε₁ is 0.8 μ₁. Stage 2 is a plan within μ₂². Stages add up to μ₁² + μ₂², the goal's μ², also where the
    second depends on what the first released.

    Where neighbours replace a record, stage 1 is charged as two steps, the removal of a record and the
    addition of another; stage 2 is designed for the relation itself.

Answers are biased, because all cells of a bucket get the same estimate. Only the data could tell by how
much, so nothing is promised of the errors. The plan of the second stage, `second_stage`, follows from what
was released, and its variances are those of the noise alone.

Reference:
    Yuan, Yang, Zhang and Hao (2016), Convex optimization for linear query processing under approximate
    differential privacy, section 6, for the idea. Li, Hay and Miklau (2014) for stage 1. Dong, Roth and Su
    (2022), Gaussian differential privacy, arXiv:1905.02383, Corollary 3.3 (composition) and Theorem 2.14
    (groups).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from leastnoise.core.decompositions import eigh
from leastnoise.core.operators import Array
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
    Plan,
    Request,
    RoundedGaussian,
    cells_per_attribute,
    design,
    refuse_unless_promising_nothing,
)
from leastnoise.privacy import ZCDP, Goal, PureDP, pure_of_mu_squared
from leastnoise.query import Workload
from leastnoise.strategy import Strategy

# Cells at most. Rows over all buckets are released, at worst as many as cells: a million integers. Finding
# them then takes 3 s with Gaussian noise, 8 s with Laplace, and a minute where records are replaced.
MAX_CELLS = 1024

# Eigenvalues of V below this share of the largest are raised to it, so that every bucket is measured, if with
# little weight. Where one query is asked about a thousand buckets, that costs 0.01 % of its variance.
_LEAST_ASKED = 1e-14

# Bits of an integer of a strategy, at most: designs for goals within reach have far fewer.
_MAX_BITS = 2_000

# 2/π, near enough for a cost that everybody knows.
_TWO_BY_PI = Fraction(7, 11)


@dataclass(frozen=True, eq=False)
class BucketMechanism(Mechanism):
    """Both stages for n cells in order.

    Attributes:
        lengths: of candidate buckets, ascending, 1 among them.
        charge: what each bucket costs beside its own noise, in scales of the noise on its cost.
        gram: Σ_j w_j (row j)ᵀ(row j), (n, n): all that the strategy over buckets depends on.
        tol: the gap of the second stage.
    """

    name: ClassVar[str] = "buckets"

    lengths: tuple[int, ...]
    charge: Fraction
    gram: Array
    tol: float

    @property
    def note(self) -> str:
        symbol = "epsilon" if self.goal.noise.is_pure else "mu squared"
        return (
            f"{symbol} {float(self.shares['partition']):.4g} for finding buckets of similar counts, "
            f"{float(self.shares['measurement']):.4g} for noise fitted to the queries over them"
        )

    @property
    def most_integers(self) -> int:
        n = len(self.gram)
        # A strategy for pure privacy has more rows than buckets, by half at most.
        return 2 + n + (n + 1) * (n + n // 2 + 1)

    @cached_property
    def partition_epsilon(self) -> Fraction:
        """ε₁: what adding or removing a record spends on the partition, as pure privacy."""
        share = self.shares["partition"]
        return share if self.goal.noise.is_pure else pure_of_mu_squared(share)

    @property
    def _candidates(self) -> Candidates:
        """Beside its deviation a bucket costs the mean absolute noise that it has if measured alone."""
        share = self.shares["measurement"]
        own_noise = 1 / share if self.goal.noise.is_pure else _root(_TWO_BY_PI / share)
        return Candidates(self.lengths, self.charge, own_noise)

    @property
    def measurement_goal(self) -> Goal:
        """What stage 2 must keep, exactly: the same promise for its share of the budget."""
        goal = self.goal
        share = goal.budget_per_person * self.shares["measurement"] / sum(self.shares.values())
        if goal.noise.is_pure:
            return PureDP(share, neighbours=goal.neighbours, records_per_person=goal.records_per_person)
        # ρ = μ²/2 is rational where μ is not.
        return ZCDP(share / 2, neighbours=goal.neighbours, records_per_person=goal.records_per_person)

    def second_stage(self, starts: tuple[int, ...]) -> Plan:
        """The plan for queries over buckets that start at these cells, with its certificate: no data needed.

        Guarantee:
            Within `measurement_goal`, as every plan within its own.
        """
        rows = factor_of(gram_of_buckets(self.gram, list(starts)))
        method = "p-identity" if self.goal.noise.is_pure else "dense"
        return design(Workload.from_matrix(rows), self.measurement_goal, method=method, tol=self.tol)

    def measure(
        self, counts: Array, laplace: DiscreteLaplace, gaussian: RoundedGaussian | None = None
    ) -> Array:
        starts = noisy_partition(counts, laplace, self.partition_epsilon, self._candidates)
        # From here on counts enter as A x alone.
        strategy = self.second_stage(tuple(starts)).fixed_strategy()
        rows = strategy.dense()
        draw = laplace if self.goal.noise.is_pure else gaussian
        assert draw is not None, "a goal that is not pure needs Gaussian noise"
        in_buckets = np.add.reduceat(counts.astype(object), starts)
        noise = np.array(draw(strategy.scale, len(rows)), dtype=object)
        noisy = strategy.exact_answers(lambda _: [in_buckets]) + noise
        parts = [len(starts), len(rows), *starts, *rows.reshape(-1).tolist(), *noisy.tolist()]
        return np.array(parts, dtype=object)

    def fits(self, measurements: Array) -> bool:
        if len(measurements) < 2:
            return False
        k, r, n = int(measurements[0]), int(measurements[1]), len(self.gram)
        if not 1 <= k <= n or not k <= r <= len(measurements) or len(measurements) != 2 + k + r * (k + 1):
            return False
        starts, rows, _ = _parts(measurements)
        return (
            starts[0] == 0
            and all(a < b for a, b in pairwise([*starts, n]))
            and all(abs(entry) < 2**_MAX_BITS for entry in rows.reshape(-1))
            and _unscaled(rows, self.goal).is_full_rank
        )

    def estimates(self, measurements: Array) -> Array:
        starts, rows, noisy = _parts(measurements)
        sizes = np.diff([*starts, len(self.gram)])
        return np.repeat(_unscaled(rows, self.goal).estimates(noisy) / sizes, sizes)


def _unscaled(rows: Array, goal: Goal) -> Strategy:
    """Released rows as a strategy: least squares does not depend on the scale of the noise."""
    return Strategy(rows, scale=1, noise=goal.noise, neighbours=goal.neighbours)


def _parts(measurements: Array) -> tuple[list[int], Array, Array]:
    """Where buckets start, (k,), the rows over them, (r, k), and the noisy answers to these, (r,)."""
    k, r = int(measurements[0]), int(measurements[1])
    starts, rows, noisy = np.split(measurements[2:], [k, k + r * k])
    return [int(start) for start in starts], rows.reshape(r, k), noisy


def _root(value: Fraction) -> Fraction:
    """√value to 30 binary digits or more, from integers, so that every machine finds the same buckets."""
    bits = 60 + 2 * max(value.denominator.bit_length() - value.numerator.bit_length(), 0)
    bits += bits % 2
    return Fraction(math.isqrt((value.numerator << bits) // value.denominator), 2 ** (bits // 2))


def factor_of(gram: Array) -> Array:
    """R, (k, k), of full rank, with RᵀR the Gram matrix of queries over buckets but for `_LEAST_ASKED`."""
    largest = float(np.abs(gram).max())
    if largest == 0:
        return np.eye(len(gram))
    # Squares of this unit stay within floats.
    values, vectors = eigh(gram / largest)
    lengths = np.sqrt(np.maximum(values, _LEAST_ASKED * values[-1])) * math.sqrt(largest)
    return np.asarray(lengths[:, None] * vectors.T)


def _refuses(request: Request) -> str | None:
    reason = refuse_unless_promising_nothing(request)
    if reason is not None:
        return reason
    n = request.workload.shape[1]
    if sum(size > 1 for size in cells_per_attribute(request.workload)) > 1:
        return "it is for one ordered attribute"
    if n > MAX_CELLS:
        return f"it releases its rows over buckets, for at most {MAX_CELLS:,} cells, here {n:,}"
    return None


def _find(request: Request) -> BucketMechanism:
    return BucketMechanism(*partition_arguments(BUCKETS, request), request.tol)


BUCKETS = Method(
    "buckets",
    "buckets of similar counts, found privately, then the noise fitted to the queries over them; one ordered "
    f"attribute, {MAX_CELLS:,} cells",
    _refuses,
    _find,
    partition_options("the share of epsilon, or of mu squared,"),
    is_quick=False,
    is_data_dependent=True,
)
