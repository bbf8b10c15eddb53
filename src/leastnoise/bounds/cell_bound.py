"""Dual weights of single cells, or of pairs of them, and the bound that they give.

`product_bound` has weights of product form, for more cells than can be listed. The bounds themselves are the
lines of (1) in `certificate`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leastnoise.bounds.absolute_error import stderr_sum_bound
from leastnoise.bounds.nuclear_norm import pair_variance_bound, total_variance_bound
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array
from leastnoise.privacy import Goal
from leastnoise.query import MEAN_ABSOLUTE, Objective, ObjectiveKind, Workload


@dataclass(frozen=True, eq=False)
class Witness:
    """Dual weights that prove the lower bound: p of the queries, q of the cells.

    Where a record is replaced by another, q may hold weights of pairs instead: `pairs`,
    (len(q), 2), then lists the two cells of each, the smaller first. The number of cells, n,
    stands for no cell: a record that is not counted. Only pairs that have a weight are listed.
    """

    p: Array | None
    q: Array
    pairs: Array | None = None


def checked_witness(
    witness: Witness, workload: Workload, goal: Goal, caps: Array | None, kind: ObjectiveKind
) -> Witness:
    """The weights as floats, those of queries without a cap set to zero, after checking that they fit.

    Raises:
        DesignError: saying what must hold.
    """
    m, n = workload.shape
    q, pairs = np.asarray(witness.q, dtype=float), witness.pairs
    if pairs is None and q.shape != (n,):
        raise DesignError(
            f"the witness has weights of {q.size:,} cells, the workload has {n:,}",
            field="witness",
            given=q.size,
            remedy="certify the workload that the plan was designed for",
        )
    if not goal.relation.may_weigh(pairs):
        raise DesignError(
            "weights of pairs prove nothing where a record is added or removed", field="witness"
        )
    if pairs is not None and not are_pairs(pairs, q, n):
        raise DesignError(
            f"the pairs of a witness must be two different cells each, below {n + 1:,}", field="witness"
        )
    needs_p = caps is not None or kind == "absolute"
    p = np.asarray(witness.p, dtype=float) if needs_p and witness.p is not None else None
    if p is not None and p.shape != (m,):
        raise DesignError(
            f"the witness has weights of {p.size:,} queries, the workload has {m:,}",
            field="witness",
            given=p.size,
            remedy="certify the workload that the plan was designed for",
        )
    for weights in (q, p):
        if weights is not None and not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise DesignError("the witness must hold finite weights, zero or more", field="witness")
    if p is not None and caps is not None:
        p = np.where(np.isfinite(caps), p, 0)
    return Witness(p, q, pairs)


def are_pairs(pairs: Array, q: Array, n: int) -> bool:
    """Whether an array lists one pair of two of n cells, or of a cell and n itself, for every weight."""
    return (
        q.ndim == 1
        and pairs.shape == (len(q), 2)
        and pairs.dtype.kind == "i"
        and bool(((pairs[:, 0] >= 0) & (pairs[:, 0] < pairs[:, 1]) & (pairs[:, 1] <= n)).all())
    )


def dual_bound(
    workload: Workload, objective: Objective, witness: Witness, *, unit_variance: float
) -> tuple[float, float]:
    """The line of (1) in `certificate` for the objective, and the size of the numbers it was computed from.

    Args:
        witness: as `checked_witness` gives it.
        unit_variance: the least variance of a row over its squared sensitivity: 1/μ² for
            Gaussian noise.
    """
    p, q, pairs = witness.p, witness.q, witness.pairs
    caps = objective.caps(workload)
    if objective.kind == "absolute":
        if p is None:
            return 0.0, 0.0
        least = stderr_sum_bound(workload, objective.weights(workload), p, q, pairs)
        size = MEAN_ABSOLUTE * math.sqrt(unit_variance) * least
        return size, size

    def at_profile_1(weights: Array) -> float:
        if pairs is None:
            return total_variance_bound(workload, q, weights)
        return pair_variance_bound(workload, q, pairs, weights)

    if objective.kind == "largest":
        # In units of the largest, so that p c stays within floats; the bound does not depend on it.
        if p is None or caps is None or not p.any():
            return 0.0, 0.0
        p = p / p.max()
        size = unit_variance * (at_profile_1(p) / _allowed(p, caps))
        return size, size
    w = objective.weights(workload)
    if p is None or caps is None or not p.any():
        size = unit_variance * at_profile_1(w)
        return size, size
    with np.errstate(over="ignore"):
        size = unit_variance * at_profile_1(w + p)
    return size - _allowed(p, caps), size


def _allowed(p: Array, caps: Array) -> float:
    """Σ_j p_j c_j; a query without a cap has no weight."""
    with np.errstate(over="ignore"):
        return float(np.sum(p[p > 0] * caps[p > 0]))
