"""Cross tables of attributes, each measured with a weight of its own, for Laplace noise.

A record is counted once in every cross table, so tables of the attribute sets t with weights θ_t have the
L1 sensitivity Σ_t θ_t. Let N_t be the number of counts in table t and N the number of cells. The Gram
matrix of table t is N/N_t on the residual subspace of every s ⊆ t and zero on the others, so that

    total variance = (Σ_t θ_t)² Σ_s m_s v_s / x_s,     m_s = Π_{a in s} (n_a − 1)                      (1)
    x_s = Σ_{t ⊇ s} θ_t² N/N_t,     v_s = Σ_{tables j ⊇ s that are asked} w_j N/N_j

per unit of noise: one weight for every attribute set, whatever the number of cells. (1) is not convex in θ;
`table_weights` minimises it from several starts. Table of all attributes included, the family contains
noise on every cell.

Reference:
    McKenna, Miklau, Hay and Machanavajjhala (2018), Optimizing error of high-dimensional statistical
    queries under differential privacy, section 6.3, for strategies of weighted marginals. Residual
    subspaces: Xiao, He, Zhang and Kifer (2023), An optimal and scalable matrix mechanism for noisy marginals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended
from leastnoise.planning.families import table_weights
from leastnoise.planning.families.bases import scaled_rows
from leastnoise.planning.families.mentioned_attributes import Subset, along, asked_subsets, n_combinations
from leastnoise.planning.families.table_weights import least_total, uneven_starts
from leastnoise.planning.method import Request, kronecker
from leastnoise.strategy import RealStrategy

# One weight for every set of so many attributes at most: 256 of them, and as many squared in (1).
MAX_ATTRIBUTES = 8

# Starts of the search, and steps from each.
_STARTS, _STEPS = 8, 2_000


@dataclass(frozen=True, eq=False)
class Tables:
    """A total of variances of cross tables, in residual subspaces.

    Attributes:
        sizes: the number of values of every attribute.
        subsets: all attribute sets, in the order of what follows.
        gram: N/N_t where s ⊆ t, else zero: rows s, columns t.
        costs: m_s v_s.
    """

    sizes: tuple[int, ...]
    subsets: tuple[Subset, ...]
    gram: Array
    costs: Array


def tables(sizes: tuple[int, ...], asked: Mapping[Subset, float]) -> Tables:
    """The problem (1) for cross tables with a weight each, for at most MAX_ATTRIBUTES attributes."""
    places = [a for a, size in enumerate(sizes) if size > 1]
    subsets = tuple(
        frozenset(chosen) for count in range(len(places) + 1) for chosen in combinations(places, count)
    )
    N = math.prod(sizes)
    gram = np.array([[N / n_combinations(t, sizes) if s <= t else 0.0 for t in subsets] for s in subsets])
    weights = np.array([asked.get(t, 0.0) for t in subsets])
    multiplicities = np.array([math.prod(sizes[a] - 1 for a in s) for s in subsets], dtype=float)
    return Tables(sizes, subsets, gram, multiplicities * (gram @ weights))


def total_and_gradient(problem: Tables, theta: Array) -> tuple[float, Array]:
    """(1) and its gradient; infinite where something asked is not measured."""
    return table_weights.total_and_gradient(theta, problem.gram, problem.costs)


def best_weights(problem: Tables, *, seed: int = 0) -> tuple[Array, float, Ended]:
    """θ with Σθ = 1, one for each attribute set, the total variance (1), and how the search ended."""
    starts = uneven_starts(len(problem.subsets), _STARTS, seed=seed)
    return least_total(problem.gram, problem.costs, (start / start.sum() for start in starts), steps=_STEPS)


def rows_of(problem: Tables, theta: Array) -> Array:
    """The counts of every table that has a weight, in whole-number multiples near it."""
    blocks, weights = [], []
    for subset, weight in zip(problem.subsets, theta, strict=True):
        if weight > 0:
            factors = [
                np.eye(size, dtype=np.int64) if inside else np.ones((1, size), dtype=np.int64)
                for size, inside in along(subset, problem.sizes)
            ]
            blocks.append(kronecker(factors))
            weights.append(np.full(len(blocks[-1]), weight))
    return scaled_rows(np.vstack(blocks), np.concatenate(weights))


def asked_tables(request: Request) -> dict[Subset, float] | None:
    """The weight of every cross table asked; None where something else is, or weights vary within one."""
    workload = request.workload
    asked = asked_subsets(workload)
    if asked is None or workload.schema is None or request.objective.kind != "total":
        return None
    if sum(size > 1 for size in workload.schema.shape) > MAX_ATTRIBUTES:
        return None
    weights = request.objective.weights(workload)
    total: dict[Subset, float] = {}
    for table in asked:
        own = weights[workload.rows_of(table.name)]
        if not table.is_marginal or not (own == own[0]).all():
            return None
        total[table.attributes] = total.get(table.attributes, 0.0) + float(own[0])
    return total


@dataclass(frozen=True, eq=False)
class FoundTables:
    """Weighted cross tables, their total variance, a note on them, and how the search ended."""

    proposal: RealStrategy
    total: float
    note: str
    ended: Ended


def find_tables(request: Request) -> FoundTables | None:
    """The best weighted cross tables; None where others are asked."""
    asked, schema = asked_tables(request), request.workload.schema
    if asked is None or schema is None:
        return None
    problem = tables(schema.shape, asked)
    theta, total, ended = best_weights(problem)
    note = f"{np.count_nonzero(theta):,} cross tables, each with a weight"
    return FoundTables(RealStrategy(rows_of(problem, theta)), total, note, ended)
