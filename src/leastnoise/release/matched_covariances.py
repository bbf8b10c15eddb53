"""Covariances of each numerator with its own denominator, without a table of all pairs.

Groups that numerator and denominator share are cut into pieces, and each piece has a small table of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from leastnoise.core.operators import Array, Matrix
from leastnoise.query import Factor, Query, Schema, Term, Workload, counterpart, workload_of_query
from leastnoise.strategy import Measured

# Entries up to which one table of all pairs is written out: 32 MB.
_MAX_TABLE = 2**22

# Entries of one table of covariances beyond that; 2^18 takes 2 MB and is quicker than few large tables.
_ENTRIES = 2**18

# Variances of a piece agree with those of the whole to this relative error, or the piece is answered
# otherwise than the whole.
_SAME = 1e-9


@dataclass(frozen=True)
class _Piece(Query):
    """A product of given factors."""

    factors_held: Term = field(default_factory=list)

    def terms(self, schema: Schema) -> list[Term]:
        return [self.factors_held]


def matched_covariances(strategy: Measured, above: Workload, below: Workload, rows: Array) -> Array:
    """The covariance of numerator i with denominator ``rows[i]``, (k,).

    Raises:
        TooLargeError: if one table of all pairs does not fit and the groups cannot be cut into pieces.
    """
    schema = above.schema
    found = None
    if schema is not None and above.shape[0] * below.shape[0] > _MAX_TABLE:
        found = _in_pieces(strategy, above, below, rows, schema)
    if found is None:
        found = strategy.covariances_of(above, below)[np.arange(len(rows)), rows]
    return np.asarray(found)


def _in_pieces(
    strategy: Measured, above: Workload, below: Workload, rows: Array, schema: Schema
) -> Array | None:
    """The same in pieces; None where the rows are no products, or a piece is not answered as the whole is."""
    factors = [workload.blocks[0].query.factors(schema) for workload in (above, below)]
    if factors[0] is None or factors[1] is None:
        return None
    variances = strategy.variances_of(above), strategy.variances_of(below)
    found = np.empty(len(rows))
    for one, other, numerators in _pieces(factors[0], factors[1]):
        denominators = np.unique(rows[numerators])
        left, right = (workload_of_query(_Piece(factors_held=term), schema) for term in (one, other))
        own = strategy.variances_of(left), strategy.variances_of(right)
        if not _agree(own[0], variances[0][numerators]) or not _agree(own[1], variances[1][denominators]):
            return None
        places = np.searchsorted(denominators, rows[numerators])
        found[numerators] = strategy.covariances_of(left, right)[np.arange(len(numerators)), places]
    return found


def _agree(own: Array, of_whole: Array) -> bool:
    return own.shape == of_whole.shape and np.allclose(own, of_whole, rtol=_SAME, atol=0)


def _pieces(above: Term, below: Term) -> Iterator[tuple[Term, Term, Array]]:
    """Both products cut along the factors they share, with the places of each piece's numerators."""
    shape = [factor.labels.length for factor in above]
    pairs = [(counterpart(factor, above), k) for k, factor in enumerate(below)]
    shared = {j: k for j, k in pairs if j is not None and shape[j] > 1}
    waiting = [tuple(np.arange(n) for n in shape)]
    while waiting:
        chosen = waiting.pop()
        n_below = math.prod(
            len(chosen[j]) if j is not None and j in shared else below[k].labels.length for j, k in pairs
        )
        longest = max(shared, key=lambda j: len(chosen[j]), default=None)
        is_whole = longest is None or len(chosen[longest]) == 1
        if is_whole or math.prod(map(len, chosen)) * n_below <= _ENTRIES:
            one = [_cut(factor, own) for factor, own in zip(above, chosen, strict=True)]
            other = list(below)
            for j, k in shared.items():
                other[k] = _cut(below[k], chosen[j])
            yield one, other, np.ravel_multi_index(np.ix_(*chosen), shape).reshape(-1)
            continue
        assert longest is not None
        for half in np.array_split(chosen[longest], 2):
            waiting.append((*chosen[:longest], half, *chosen[longest + 1 :]))


def _cut(factor: Factor, rows: Array) -> Factor:
    """Some rows of a factor."""
    if len(rows) == factor.labels.length:
        return factor
    return replace(
        factor, operator=Matrix(factor.operator.rows(rows)), labels=factor.labels[rows[0] : rows[-1] + 1]
    )
