"""The bound for cross tables where a record is replaced: weights by the attributes in which records differ.

Cross tables stay the same when values of an attribute are renamed. So two records matter by the set s of
attributes in which they differ, and one that is not counted is a case of its own. Let θ_s ≥ 0 be the weight
of all pairs of kind s together, θ_∅ that of all records beside none. On the residuals of a set t,

    S = Σ_{j ⊇ t} p_j Π_{a not in j} n_a,     T = (1/n) ( θ_∅ + Σ_s 2 θ_s (1 − ρ_t(s)) ),                 (1)
    ρ_t(s) = Π_{a in t ∩ s} −1/(n_a − 1)

n the number of cells, and F(p, θ) = Σ_t √(S T) Π_{a in t} (n_a − 1): the nuclear norm of `certificate` for
weights of pairs, whatever their number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.query import AxisSet, Lattice, Products


def apart_loads(subsets: Sequence[AxisSet], kinds: Sequence[AxisSet], sizes: Sequence[int]) -> Array:
    """What a unit of precision on the residuals of each set costs a pair of each kind: (kinds, sets).

    2 (1 − ρ_t(s)), and 1 beside no record, in units of what it costs a record that is added.
    """
    loads = np.empty((len(kinds), len(subsets)))
    for row, s in enumerate(kinds):
        if not s:
            loads[row] = 1.0
            continue
        differing = set(s)
        factors = {a: -1.0 / (sizes[a] - 1) for a in s}
        loads[row] = [2 - 2 * math.prod(factors[a] for a in t if a in differing) for t in subsets]
    return loads


def check_apart(apart: Mapping[AxisSet, float], products: Products) -> None:
    """Return if weights by attributes fit cross tables.

    Raises:
        DesignError: if they do not, or other counts are asked for.
    """
    asked = {a for s in products.sets for a in s}
    fits = products.are_marginals and all(
        list(s) == sorted(set(s)) and all(a in asked and products.sizes[a] > 1 for a in s) for s in apart
    )
    if not fits:
        raise DesignError(
            "the witness has weights of other attributes than those of the workload's cross tables",
            field="witness",
            remedy="certify the workload that the plan was designed for",
        )
    if not all(math.isfinite(weight) and weight >= 0 for weight in apart.values()):
        raise DesignError("the witness must hold finite weights, zero or more", field="witness")


def apart_bound(products: Products, weights: Array, apart: Mapping[AxisSet, float]) -> float:
    """F(p, θ)²/Σθ: at profile 1, no Gaussian noise has less total variance of cross tables weighted by p.

    Args:
        weights: p, one for every cross table.
    """
    theta = np.array(list(apart.values()))
    if not theta.any() or not weights.any():
        return 0.0
    theta = theta / theta.max()
    sizes = [size if kinds else 1 for size, kinds in zip(products.sizes, products.kinds, strict=True)]
    lattice = Lattice(products.sets, len(sizes))
    subsets = lattice.subsets
    # Of all cells: Π_{a not in j} n_a / n is 1/Π_{a in j} n_a, which no number of attributes overflows.
    inside = [np.ones(axes.shape) for _, axes in lattice.groups]
    shares = weights / np.array([math.prod(sizes[a] for a in s) for s in products.sets], dtype=float)
    S = lattice.matrix(inside, inside).T @ shares
    T = apart_loads(subsets, list(apart), sizes).T @ theta
    residuals = lattice.product_over([max(size - 1, 0) for size in sizes])
    F = math.fsum(np.sqrt(S * T) * residuals)
    return F * F / math.fsum(theta)
