"""Axes cut after a few directions, beside the one that moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise.bounds import SplitAxis
from leastnoise.core.operators import Array
from leastnoise.planning.oblique.dual.problem_sizes import Terms, fewer_columns


@dataclass(frozen=True, eq=False)
class Cut:
    """An axis that does not move: a few directions, and the roots of its kinds in groups of the others."""

    first: SplitAxis
    beyond: Array

    @classmethod
    def of(cls, split: SplitAxis, kept: int) -> Cut:
        """An axis cut after so many directions."""
        first, others = split.cut(kept)
        others = others[(others > 0).any(axis=1)]
        return cls(first, np.sqrt(fewer_columns(others.T**2)).T if len(others) else others)


def blocks_left(terms: Terms, a: int, pending: Sequence[int], cuts: Mapping[int, Cut]) -> Iterator[Terms]:
    """The problems that cuts of the other axes leave, of those in which axis a is mentioned.

    What no product mentions a in does not depend on its weights. Every other axis is in its first directions,
    or, one after the other, beyond them, where only products that mention it are left.
    """
    if not any(b == a for asked in terms for b, _ in asked):
        return
    reduced: Terms = {}
    for asked, weight in terms.items():
        left = []
        for b, kind in asked:
            if b != a and cuts[b].first.size == 1:
                weight *= float(cuts[b].first.grams[kind][0, 0])
            else:
                left.append((b, kind))
        reduced[tuple(left)] = reduced.get(tuple(left), 0.0) + weight
    yield reduced
    for place, b in enumerate(pending):
        with_b = [(asked, dict(asked)[b], weight) for asked, weight in terms.items() if b in dict(asked)]
        for roots in cuts[b].beyond if with_b else ():
            inside: Terms = {}
            for asked, kind, weight in with_b:
                without = tuple(part for part in asked if part[0] != b)
                inside[without] = inside.get(without, 0.0) + weight * float(roots[kind]) ** 2
            yield from blocks_left(inside, a, pending[place + 1 :], cuts)
