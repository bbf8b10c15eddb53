"""How much a record that changes, or a person who comes back, shifts all that is measured over time.

Rows are measured in the period in which they end, each on the table as it is then. With N_t(i) = the sum of
the squares of column i over the rows that end in period t, a record that is in cell i(t) when period t is
measured shifts everything by Σ_t N_t(i(t)), squared. Bounds, all in integers:

    it stays                      max_i Σ_t N_t(i)
    at most m moves               f_m(t, i) = N_t(i) + max(f_m(t − 1, i), max_j f_{m−1}(t − 1, j))
    its period stays, the rest    max_s Σ_t max of N_t over the cells of period s
      changes at will
    anything                      Σ_t max_i N_t(i)

A person with one record in each period of S shifts it by Σ_{s,t in S} X_{i(s), i(t)}, X = AᵀA. With Y_st the
largest of X over the cells of periods s and t, that is at most max_S Σ_{s,t in S} Y_st: by going through all
S where they are few, else by max_S Σ_{t in S} r_t, where r_t = max_{S with t} Σ_{s in S} max(Y_ts, 0).

Cells may be chosen after what was published before: all sums hold for every way in which they can be.

Reference:
    Smith and Thakurta (2022), Fully adaptive composition for Gaussian differential privacy: squared shifts
    that add up to at most μ² on every path are μ-GDP. Choquette-Choo, McMahan, Rush and Thakurta (2023),
    Multi-epoch matrix factorization mechanisms for private machine learning, for people who come back.
"""

from __future__ import annotations

import math

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import TooLargeError
from leastnoise.core.operators import Array
from leastnoise.query import Workload, periods_of_cells
from leastnoise.strategy.measured import MAX_DENSE_STRATEGY, Measured

# Sets of periods that are gone through one by one.
_MOST_SETS = 20_000


def _squares_by_period(strategy: Measured, workload: Workload, over: str) -> Array:
    """N_t(i) for every period and cell, (T, n), in Python integers."""
    assert workload.schema is not None
    rows = _rows(strategy)
    ends = strategy.last_periods(workload, over)
    found = np.zeros((workload.schema[over].size, rows.shape[1]), dtype=object)
    for period in np.unique(ends).tolist():
        found[period] = exact.column_square_sums(rows[ends == period])
    return found


def most_revised(strategy: Measured, workload: Workload, over: str, revisions: int | str) -> int:
    """The largest squared shift of a record that changes after it entered.

    Args:
        revisions: at most how often it moves to any other cell; "values" for any changes that keep its
            period, "any" for any changes at all.

    Raises:
        TooLargeError: if the rows are too many to be written out.
    """
    squares = _squares_by_period(strategy, workload, over)
    if revisions == "any":
        return sum(int(max(own.tolist())) for own in squares)
    if revisions == "values":
        assert workload.schema is not None
        periods = periods_of_cells(workload.schema, over)
        return max(
            sum(int(max(own.tolist())) for own in squares[:, periods == period])
            for period in range(len(squares))
        )
    return _most_moved(squares, min(int(revisions), len(squares) - 1))


def _most_moved(squares: Array, moves: int) -> int:
    """The largest squared shift of a record that moves to another cell at most this often."""
    best = [np.zeros(squares.shape[1], dtype=object) for _ in range(moves + 1)]
    for own in squares:
        largest = [max(row.tolist()) for row in best]
        best = [own + (best[m] if m == 0 else np.maximum(best[m], largest[m - 1])) for m in range(moves + 1)]
    return max(int(max(row.tolist())) for row in best)


def most_of_returning(strategy: Measured, workload: Workload, over: str, most: int, apart: int) -> int:
    """A bound on the squared shift by a person with one record in each of at most `most` periods.

    Args:
        apart: how many periods any two of them are apart, at least.

    Raises:
        TooLargeError: if the rows are too many to be written out.
    """
    assert workload.schema is not None
    rows, periods = _rows(strategy), periods_of_cells(workload.schema, over)
    if rows.shape[1] ** 2 > MAX_DENSE_STRATEGY:
        raise _too_large(rows.shape[1] ** 2)
    order = np.argsort(periods, kind="stable")
    X = exact.product(rows[:, order].T, rows[:, order]).astype(object)
    starts = np.searchsorted(periods[order], np.arange(workload.schema[over].size))
    Y = np.maximum.reduceat(np.maximum.reduceat(X, starts, axis=0), starts, axis=1)
    # Two records of one person are in two periods; within one, the same cell meets itself.
    own = np.maximum.reduceat(np.diagonal(X), starts)
    Y[np.arange(len(Y)), np.arange(len(Y))] = own
    if _n_sets(len(Y), most, apart) <= _MOST_SETS:
        return _over_all_sets(Y, most, apart)
    return _by_rows(np.maximum(Y, 0), most, apart)


def _over_all_sets(Y: Array, most: int, apart: int) -> int:
    """max_S Σ_{s,t in S} Y_st over all sets of periods, one by one."""
    best = 0
    stack: list[tuple[tuple[int, ...], int]] = [((), 0)]
    while stack:
        chosen, total = stack.pop()
        best = max(best, total)
        if len(chosen) == most:
            continue
        for t in range(chosen[-1] + apart if chosen else 0, len(Y)):
            more = int(Y[t, t]) + 2 * sum(int(Y[s, t]) for s in chosen)
            stack.append(((*chosen, t), total + more))
    return best


def _by_rows(Y: Array, most: int, apart: int) -> int:
    """max_S Σ_{t in S} r_t, each r_t by a dynamic program over the periods before t and after it."""
    T = len(Y)
    r = []
    for t in range(T):
        before = _best_sums(Y[t, : max(t - apart + 1, 0)].tolist(), most - 1, apart)
        after = _best_sums(Y[t, t + apart :].tolist(), most - 1, apart)
        r.append(int(Y[t, t]) + max(before[j] + after[most - 1 - j] for j in range(most)))
    return _best_sums(r, most, apart)[most]


def _best_sums(values: list[int], most: int, apart: int) -> list[int]:
    """The largest sums of at most 0, 1, …, `most` values that are so far apart; none is negative."""
    # best[j][t]: with at most j of the first t.
    best = [[0] * (len(values) + 1)]
    for _ in range(most):
        row = [0]
        for t, value in enumerate(values):
            row.append(max(row[t], int(value) + best[-1][max(t + 1 - apart, 0)]))
        best.append(row)
    return [row[-1] for row in best]


def _n_sets(T: int, most: int, apart: int) -> int:
    """How many sets of at most so many periods there are."""
    return sum(math.comb(max(T - (j - 1) * (apart - 1), 0), j) for j in range(1, most + 1))


def _rows(strategy: Measured) -> Array:
    if strategy.n_measured * strategy.n_cells > MAX_DENSE_STRATEGY:
        raise _too_large(strategy.n_measured * strategy.n_cells)
    return exact.as_integers(strategy.dense())


def _too_large(entries: int) -> TooLargeError:
    return TooLargeError(
        f"what changing records spend is worked out from at most {MAX_DENSE_STRATEGY:,} coefficients, and "
        f"this plan has {entries:,}",
        field="plan",
        given=entries,
        remedy="declare fewer cells, or open the stream for records that keep their values",
    )
