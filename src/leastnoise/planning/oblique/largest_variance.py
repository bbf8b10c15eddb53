"""Splits for the least largest variance: axes and weights of single queries in turns.

With the axes given, the least largest variance over x is a small convex problem. The axes are chosen for a
total with weights p of single queries, and p moves to the queries of large variance; in turns. What is kept
is the best of all, so nothing here has to converge for the answer to hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from leastnoise.core.deadline import NEVER, Deadline
from leastnoise.core.errors import TooLargeError
from leastnoise.core.operators import Array
from leastnoise.core.progress import Ended, worst_ending
from leastnoise.planning.oblique.centre_search import RowByRow, Search
from leastnoise.planning.oblique.row_variances import RowLayout, RowsTakeTooLong, leading_rows, row_tables
from leastnoise.planning.oblique.splitting import Searched, Split, searched
from leastnoise.planning.oblique.total_variance import BlockSums, Entries
from leastnoise.query import Products

# Rows of no weight still count for this share of the heaviest: all must be answered.
_FLOOR = 1e-6

# Single queries that differ, at most; more are refused.
_MAX_ROWS = 2**20

# The relative gap to which one-axis problems of a round are solved.
_ROUND_TOL = 1e-6

# Rounds from one use of `inner` to the next.
_ROUNDS_PER_INNER = 6

# The power of the ratios by which weights are multiplied.
_BOLDNESS = 1.5

# Uses of `inner` without progress after which rounds end.
_PATIENCE = 2


class Precisions(Protocol):
    """What an inner solver hands back."""

    @property
    def x(self) -> Array:
        """Precisions of the blocks, Σx ≤ 1."""
        ...


# The x for which the largest entry of A (1/x) beside the caps is least; A is sparse, (rows, blocks).
Inner = Callable[[Any, Array], Precisions]


@dataclass(frozen=True, eq=False)
class RowRounds:
    """Axes as the last round left them, with a number for every single query, open to more rounds.

    Attributes:
        found: what the search began with.
        search: the axes as they stand.
        sums: the variance of every query beside its cap.
        weights: of the queries, for which the axes were chosen last, (rows,).
        caps: by which the numbers of every product are divided, (products,).
    """

    found: Searched
    search: Search
    sums: RowSums
    weights: Array
    caps: Array

    def to_split(self) -> Split:
        """The axes as they stand, as plain arrays."""
        return replace(self.found, search=self.search).to_split()


@dataclass(frozen=True, eq=False)
class Alternated:
    """A split of small largest variance, and the weights of single queries for whose total its axes are best.

    Attributes:
        largest: the largest variance beside its cap at profile 1.
        terms, rows: the product and the row of every query that was told apart from others.
        p: their weights.
        ended: how the search ended.
        rounds: the axes after the last round.
    """

    split: Split
    largest: float
    terms: Array
    rows: Array
    p: Array
    ended: Ended
    rounds: RowRounds


def alternate(
    products: Products,
    caps: Array | Sequence[float],
    inner: Inner,
    *,
    rounds: int = 60,
    tol: float = 1e-4,
    deadline: Deadline = NEVER,
    row_seconds: Callable[[], float] = lambda: math.inf,
) -> Alternated:
    """A split of small largest variance beside the caps.

    Every round chooses the axes for weights p of single queries and multiplies p by powers of the ratios
    found; every few rounds `inner` finds the best x for the axes there are.

    Args:
        caps: of the products, (n_terms,): the variance of each of their queries is divided by it.
        inner: `solver.split.least_largest`, or another that does the same.
        rounds: their number, at most.
        tol: rounds end when the largest ratio fell by less than this share at two uses of `inner` in a row.
        deadline: when no further round is begun; `inner` is used once at least.
        row_seconds: how long it may take from now on to tell single queries apart.

    Raises:
        TooLargeError: if there are too many rows.
        RowsTakeTooLong: if they cannot be told apart in time, not even once.
    """
    of_terms = np.asarray(caps, dtype=float)
    # Half of the time is left to the rounds.
    found = searched(products, 1 / of_terms, largest=True, deadline=deadline.part(0.5))
    split = found.to_split()
    first_ended = split.ended
    chosen = _told_apart(split)
    search, weights, sums = _row_by_row(found, split, chosen, of_terms, deadline)
    terms = np.repeat(np.arange(len(chosen)), [len(rows) for _, rows in chosen])
    flat = np.concatenate([rows for _, rows in chosen])
    state = RowRounds(found, search, sums, weights, of_terms)
    best = Alternated(split, math.inf, terms, flat, weights / of_terms[terms], "exhausted", state)
    idle = 0
    for done in range(rounds + 1):
        is_last = deadline.is_past
        if done % _ROUNDS_PER_INNER == 0 or is_last:
            try:
                best, has_gained = _compared(best, replace(state, weights=weights), inner, row_seconds(), tol)
            except RowsTakeTooLong:
                if math.isinf(best.largest):
                    raise
                return replace(best, ended="deadline")
            idle = 0 if has_gained else idle + 1
            if idle == _PATIENCE or is_last:
                rounds_ended: Ended = "converged" if idle == _PATIENCE else "deadline"
                return replace(best, ended=worst_ending([first_ended, rounds_ended]))
        sums.reweigh(weights)
        search.run(until=0.0, max_sweeps=1)
        ratios = sums.row_values()
        weights = weights * ratios**_BOLDNESS
        weights = weights / weights.sum()
    return replace(best, ended=worst_ending([first_ended, best.ended]))


def _compared(
    best: Alternated, state: RowRounds, inner: Inner, most_seconds: float, tol: float
) -> tuple[Alternated, bool]:
    """The better of the best so far and the axes as they stand, and whether these gained enough."""
    split = state.to_split()
    x, value = _best_precisions(split, state.caps, inner, most_seconds)
    has_gained = value <= best.largest * (1 - tol)
    if value < best.largest:
        p = state.weights / state.caps[best.terms]
        best = replace(best, split=replace(split, x=x, total=math.nan), largest=value, p=p)
    return replace(best, rounds=state), has_gained


def _best_precisions(split: Split, caps: Array, inner: Inner, most_seconds: float) -> tuple[Array, float]:
    leading = leading_rows(split, np.ones(len(caps), dtype=bool), most_seconds=most_seconds)
    A, of_rows = leading.matrix, caps[leading.terms]
    x = np.asarray(inner(A, of_rows).x)
    used = np.flatnonzero(x > 0)
    return x, float(((A[:, used] @ (1 / x[used])) / of_rows).max())


def _told_apart(split: Split) -> list[tuple[int, Array]]:
    """For every product its rows, but only the first row of an axis whose rows are all alike or not split."""
    found = []
    n_rows = 0
    for j, term in enumerate(split.products.terms):
        shape, index = [], []
        for axis, kind in zip(term.places, term.kinds, strict=True):
            size = split.products.kinds[axis][kind].n_rows
            shape.append(size)
            index.append(np.arange(size if split.axes[axis].form == "residual" else 1))
        n_rows += int(np.prod([len(rows) for rows in index], dtype=object))
        if n_rows > _MAX_ROWS:
            raise TooLargeError(
                f"the largest variance is sought among at most {_MAX_ROWS:,} queries that differ; ask for "
                "fewer, or for the total variance",
                field="workload",
            )
        grids = np.meshgrid(*index, indexing="ij") if index else []
        flat = np.ravel_multi_index([grid.reshape(-1) for grid in grids], shape) if shape else np.zeros(1)
        found.append((j, np.asarray(flat, dtype=np.int64).reshape(-1)))
    return found


class RowSums(BlockSums):
    """Sums over single rows, with weights that change."""

    def reweigh(self, weights: Array) -> None:
        """Take other weights, and add up anew."""
        self.weights = weights
        self.C = self.added_up(weights)

    def row_values(self) -> Array:
        """(1) at the x that is best for the present weights, beside its weighted mean, (rows,)."""
        x = self.x
        used = np.flatnonzero(x > 0)
        values = self.matrix()[:, used] @ (1 / x[used])
        return np.asarray(values / (self.weights @ values) * self.weights.sum())


def _row_by_row(
    found: Searched, split: Split, chosen: Sequence[tuple[int, Array]], caps: Array, deadline: Deadline
) -> tuple[Search, Array, RowSums]:
    """The same centres and parts with a number for every row, and weights of all rows to begin with.

    The numbers of a row are those of its product divided by its cap, so that all ratios end up equal.
    """
    products, blocks = split.products, split.blocks
    layout = RowLayout(products)
    operators = [[kind.operator for kind in kinds] for kinds in products.kinds]
    search = Search(blocks, RowByRow(operators), tol=_ROUND_TOL, floor=_FLOOR, deadline=deadline)
    tables = row_tables(split)
    terms, index, _ = layout.indexed(split, tables, chosen)
    numbers = search.retabulated(found.search)
    entries = blocks.row_entries(terms, index, search.first_of_centre, search.first_of_part, layout.first_row)
    # A further number for every product: its largest factor from whole axes, divided by its cap.
    factor = _largest_whole(split, tables.whole) / caps
    entries = [
        Entries(
            entry.product,
            np.hstack([entry.axes, np.full((len(entry.product), 1), -1)]),
            np.hstack([entry.places, len(numbers) + terms[entry.product][:, None]]),
            entry.block,
        )
        for entry in entries
    ]
    weights = np.full(len(terms), 1 / len(terms))
    sums = RowSums(entries, weights, np.concatenate([numbers, factor]), blocks.n_blocks)
    search.sums = sums
    return search, weights, sums


def _largest_whole(split: Split, whole: Sequence[Array | None]) -> Array:
    """For every product, the largest variance that its whole axes multiply all others with."""
    largest = [1.0 if values is None else float(values.max()) for values in whole]
    return np.array([math.prod([largest[a] for a in places]) for places in split.products.sets])
