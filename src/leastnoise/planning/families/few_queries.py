"""The certified optimum for few queries over so many cells that no matrix over all of them is held.

The dual needs the queries' columns only: R = G W' with W' (m, d) one column of each kind of cell, in as few
bytes as its entries need, and G a root of the queries' weights. Columns are generated
(`solver.column_generation`), and what is measured are combinations of the queries themselves
(`strategy.combined_rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise.core.backend import Backend, load_backend
from leastnoise.core.deadline import Deadline, Watch
from leastnoise.core.errors import DesignError
from leastnoise.core.merged_cells import Cells
from leastnoise.core.numerical_rank import of_unit_length, strongest_rows
from leastnoise.core.operators import Array
from leastnoise.core.resources import Needs, products
from leastnoise.planning.families.merged import kinds_of
from leastnoise.planning.method import Request, SearchResult
from leastnoise.privacy import GAUSSIAN
from leastnoise.solver import (
    Optimum,
    Run,
    TablePasses,
    generated_from_both_sides,
    generated_total,
    least_total_over_all,
)
from leastnoise.strategy import CombinedProposal, HeldColumns, TableColumns

# Queries, at most: their columns are worked on in coordinates of as many numbers.
MAX_QUERIES = 1_024

# Bytes of the columns of all kinds of cells, at most.
MAX_COLUMN_BYTES = 2**30

# The same where a pass over all columns takes seconds at most: on a device that is quick at products, or
# table by table, where no columns are held at all.
MAX_QUICK_QUERIES = 2_048
MAX_QUICK_BYTES = 2**31

# The gap at which the search ends where a smaller one is asked for: each pass over 500 queries and a million
# cells takes some ten seconds, and gaps below this need many more cells with weights.
LEAST_GAP = 4e-4

# Directions beyond which working sets are too large for an interior-point method. 94 over 48,114 columns take
# it as long as passes over working sets; with 208 over 50,000 its gap is 1.3 % after 9 s, and theirs 0.29 %.
MANY_DIRECTIONS = 200

# Columns worked on at a time.
_BLOCK = 2**15

# Random combinations of cells in which the rank is sought beyond the number of queries.
_OVERSAMPLING = 64

# Vectors of random signs over all cells that are held at a time.
_SIGNS = 16

# How noise was found, for the notes of plans.
_BOTH_SIDES = "accelerated weights and smoothed noise in turn"
_INTERIOR = "interior-point method with generated columns on the dual"

# Table by table: products of (m, m) matrices in a step and after the search, operations for each coefficient
# to find queries that span all, vectors over all cells and (m, m) matrices held at once, steps as a rule.
_DECOMPOSED = 12.0
_DECOMPOSED_AFTER = 200.0
_SKETCHED = 200.0
_VECTORS = 60.0
_SQUARES = 40.0
_STEPS = 250.0

# Passes over all columns of a search that ends soon, and after it.
_PASSES = 12.0
_PASSES_AFTER = 6.0


def refuses(request: Request) -> str | None:
    """The reason why a request cannot be served, or None."""
    operator = request.workload.operator
    m, n = operator.shape
    if request.objective.kind != "total" or request.spare is not None or request.privacy.noise != GAUSSIAN:
        return "over so many cells it minimises the total variance only, without earlier plans"
    if request.privacy.relation.replaces:
        return "over so many cells it serves records that are added or removed only"
    most, most_bytes = _limits(request)
    if m > most or m * n > most_bytes:
        return (
            f"it holds at most {most:,} queries with {most_bytes:,} coefficients over so many cells; this "
            f"workload has {m:,} over {n:,} cells"
        )
    if not operator.is_integer or operator.largest > np.iinfo(np.int8).max:
        return "over so many cells it takes queries with whole coefficients below 128 only"
    return None


def _limits(request: Request) -> tuple[int, int]:
    """Queries and bytes of their columns, at most."""
    m, n = request.workload.shape
    is_possible = m <= MAX_QUICK_QUERIES and m * n <= MAX_QUICK_BYTES
    if request.backend == "numpy" and not (is_possible and TableColumns.of(request.workload.operator)):
        return MAX_QUERIES, MAX_COLUMN_BYTES
    return MAX_QUICK_QUERIES, MAX_QUICK_BYTES


def needs(request: Request) -> Needs:
    """The memory and time that it takes."""
    m, n = request.workload.shape
    columns = TableColumns.of(request.workload.operator)
    if columns is not None:
        one = columns.tables.work
        step = 2 * one + products(_DECOMPOSED, m, m)
        first = _SKETCHED * m * n + step
        last = _PASSES_AFTER * one + products(_DECOMPOSED_AFTER, m, m)
        return Needs(8.0 * (_VECTORS * n + _SQUARES * m * m), first, step, last, _STEPS)
    one = products(1, m, n)
    # The columns in one byte each, twice while they are collected, and blocks of floats.
    return Needs(2.0 * m * n + 16.0 * m * _BLOCK + 6e8, _PASSES * one, one, _PASSES_AFTER * one)


@dataclass(frozen=True, eq=False)
class CompactColumns:
    """Columns G w_i of whole numbers w_i that are held in few bytes."""

    G: Array  # (k, m)
    entries: Array  # (m, d)

    @property
    def shape(self) -> tuple[int, int]:
        """(k, d)."""
        return self.G.shape[0], self.entries.shape[1]

    def take(self, index: Array) -> Array:
        """Some of them, (k, len(index))."""
        return np.asarray(self.G @ self.entries[:, index].astype(float))

    def prices(self, M: Array) -> Array:
        """‖M G w_i‖² for every column, in single precision: the integers' own are exact afterwards."""
        root = (M @ self.G).astype(np.float32)
        found = np.empty(self.entries.shape[1])
        for start in range(0, len(found), _BLOCK):
            image = root @ self.entries[:, start : start + _BLOCK].astype(np.float32)
            found[start : start + _BLOCK] = np.einsum("ki,ki->i", image, image)
        return found


class DeviceColumns:
    """The same on a device, in double precision, as `least_total_over_all` passes over them."""

    def __init__(self, G: Array, entries: Array, device: Backend) -> None:
        self._G, self._device = G, device
        self._entries = device.integers(entries)
        self.shape = len(G), entries.shape[1]

    def gram(self, q: Array) -> Array:
        """Σ q_i G w_i w_iᵀ Gᵀ, (k, k)."""
        total = self._device.matrix(np.zeros((self._G.shape[1],) * 2))
        for some in self._blocks():
            block = self._device.matrix(self._entries[:, some])
            total += (block * self._device.matrix(q[some])) @ block.T
        return np.asarray(self._G @ self._device.numpy(total) @ self._G.T)

    def prices(self, M: Array) -> Array:
        """‖M G w_i‖² for every column."""
        root = self._device.matrix(M @ self._G)
        found = np.empty(self.shape[1])
        for some in self._blocks():
            image = root @ self._device.matrix(self._entries[:, some])
            found[some] = self._device.numpy((image * image).sum(0))
        return found

    def _blocks(self) -> list[slice]:
        return [slice(start, start + _BLOCK) for start in range(0, self.shape[1], _BLOCK)]


def _sketch(columns: HeldColumns | TableColumns, n_combinations: int) -> Array:
    """Random combinations of the columns of all queries, (m, n_combinations)."""
    generator = np.random.default_rng(0)
    m, d = columns.shape
    total = np.zeros((m, n_combinations))
    if isinstance(columns, TableColumns):
        for start in range(0, n_combinations, _SIGNS):
            some = slice(start, min(start + _SIGNS, n_combinations))
            total[:, some] = columns.tables.apply(_signs(generator, d, some.stop - some.start))
        return total
    for start in range(0, d, _BLOCK):
        block = columns.entries[:, start : start + _BLOCK]
        # Sums of at most 2^15 whole numbers below 2^7 are exact in single precision.
        total += block.astype(np.float32) @ _signs(generator, block.shape[1], n_combinations)
    return total


def _signs(generator: np.random.Generator, n: int, count: int) -> Array:
    """Random signs, (n, count), in single precision."""
    return 2 * generator.integers(0, 2, size=(n, count), dtype=np.int8).astype(np.float32) - 1


def _least_total(
    columns: HeldColumns | TableColumns, positions: Array, G: Array, run: Run
) -> tuple[Optimum, str]:
    """The best noise for the queries at some positions, and how it was found."""
    is_host, has_many = run.backend == "numpy", len(G) > MANY_DIRECTIONS
    if isinstance(columns, TableColumns):
        passes = TablePasses(G, columns.tables.at(positions))
        if is_host and not has_many:
            return generated_total(passes, run), _INTERIOR
        return least_total_over_all(passes, run), f"{_BOTH_SIDES}, table by table"
    entries = columns.entries if len(positions) == columns.shape[0] else columns.entries[positions]
    if not is_host:
        return least_total_over_all(DeviceColumns(G, entries, load_backend(run.backend)), run), _BOTH_SIDES
    if has_many:
        found = generated_from_both_sides(CompactColumns(G, entries), run)
        return found, f"{_BOTH_SIDES} with generated columns"
    return generated_total(CompactColumns(G, entries), run), _INTERIOR


@dataclass(frozen=True, eq=False)
class _SpanningQueries:
    """Which of the queries span all, by random combinations of their columns.

    Attributes:
        sketch: (m, more than m).
        weights: (m,).
    """

    sketch: Array
    weights: Array

    @cached_property
    def positions(self) -> Array:
        """Queries that span all, rising."""
        return np.sort(strongest_rows(of_unit_length(self.sketch)))

    def root(self) -> Array:
        """G, (k, k), with GᵀG = Lᵀ diag(w) L, W = L B and B the queries at `positions`."""
        from scipy import linalg

        if len(self.positions) == len(self.weights):
            S = np.diag(self.weights)
        else:
            L = linalg.lstsq(self.sketch[self.positions].T, self.sketch.T)[0].T
            S = L.T @ (L * self.weights[:, None])
        try:
            return np.asarray(linalg.cholesky(S / S.diagonal().max()))
        except linalg.LinAlgError:
            raise DesignError(
                "a query has weight 0 and asks for something no other query does, so any noise would do "
                "for it",
                field="weight",
                remedy="give it a weight or leave it out",
            ) from None


def find(request: Request) -> SearchResult:
    """The least total variance."""
    from scipy import linalg

    workload = request.workload
    m, n = workload.shape
    deadline = Deadline.after(request.time_limit)
    operator = workload.operator
    columns = TableColumns.of(operator) or HeldColumns(operator, kinds_of(request) or Cells.all_of(n))
    spanning = _SpanningQueries(_sketch(columns, m + _OVERSAMPLING), request.objective.weights(workload))
    positions, G = spanning.positions, spanning.root()
    run = Run(max(request.tol / 2, LEAST_GAP), Watch(deadline, request.progress), request.backend)
    found, how = _least_total(columns, positions, G, run)
    C = linalg.qr(found.root @ G, mode="r", check_finite=False)[0]
    q = np.zeros(n)
    q[columns.cells.first] = found.q
    ended = found.ended if request.tol / 2 >= LEAST_GAP or found.ended == "deadline" else "exhausted"
    return SearchResult(
        CombinedProposal(np.triu(C), workload, positions, 1.0),
        q,
        "stopped",
        f"{how}, {found.steps} steps, over "
        f"{columns.shape[1]:,} kinds of cells, combining the queries themselves",
        ended,
    )
