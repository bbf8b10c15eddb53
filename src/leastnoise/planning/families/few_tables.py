"""The optimum, but for a thousandth, for products that cross few of many attributes: dense noise over tables.

Products that cross two or three of six axes ask for K numbers at most, those of the tables that they cross,
however many cells there are: eight tables for a thousand numbers over 60,000 cells. With B, (K, n),
orthonormal rows that span these tables and V, (K, K), the queries on them, X = Bᵀ Y B, and for any weights q

    M = B diag(q) Bᵀ ,   F = trace (R M Rᵀ)^½ ,  RᵀR = V ,   total ≥ F²/Σq                               (1)
    Y = Rᵀ (R M Rᵀ)^−½ R   has the total F · max u ,   u_i = b_iᵀ Y b_i                                  (2)

A row of B depends on the axes of its table alone, so that (1) and (2) are passes over pairs of tables.
Combinations of the queries themselves are measured (`strategy.combined_rows`). Weights of the cells
are summed along every axis for a bound of product form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from itertools import product as every_choice

import numpy as np

from leastnoise.bounds import ProductWitness, union_bound_work
from leastnoise.core.numerical_rank import of_unit_length, strongest_rows
from leastnoise.core.operators import Array
from leastnoise.core.resources import Needs, products, seconds_for
from leastnoise.core.table_rows import RowTable, TableRows
from leastnoise.planning.families.product_requests import product_request, refuse_unstructured
from leastnoise.planning.method import Request, SearchResult
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import Products, ProductTerm
from leastnoise.solver import TablePasses, least_total_by_descent
from leastnoise.strategy import CombinedProposal

# Numbers that all tables together hold, at most: matrices of so many rows are decomposed in every step. The
# bound is exact up to as many, too.
MAX_RANK = 1_500

# Bytes of the queries' columns over all cells, at most, one for each coefficient.
MAX_COLUMN_BYTES = 2**28

# Queries, at most: how the noise enters each is worked out.
MAX_QUERIES = 50_000

# The gap at which the search ends where a smaller one is asked for. Weights of product form prove 0.03 to
# 0.1 % less than the best.
LEAST_GAP = 1e-3

# Steps that the search takes as a rule.
_STEPS = 40.0

# Arrays of K by K numbers held at once.
_HELD = 25.0

# Columns worked on at a time, as `combined_rows` does.
_BLOCK = 2**15


def table_rank(asked: Products) -> int:
    """K: how many numbers the tables that products cross hold together."""
    parts = {
        part
        for own in asked.sets
        for part in every_choice(*((False, True) if a in own else (False,) for a in range(len(asked.sizes))))
    }
    sizes = asked.sizes
    return sum(math.prod(n - 1 for n, is_in in zip(sizes, part, strict=True) if is_in) for part in parts)


def refuses(request: Request) -> str | None:
    """The reason why a request cannot be served, or None."""
    if request.objective.kind != "total" or request.spare is not None or request.privacy.noise != GAUSSIAN:
        return "over tables it minimises the total variance only, without earlier plans"
    if request.privacy.relation.replaces:
        return "over tables it serves records that are added or removed only"
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    question = product_request(request)
    asked, m = question.products, request.workload.shape[0]
    if not (question.weights > 0).all():
        return "over tables every query needs a weight"
    if len(asked.axes) > _MAX_AXES or max(map(len, asked.sets), default=0) > _MAX_CROSSED:
        return f"over tables it takes products of at most {_MAX_CROSSED} out of {_MAX_AXES} attributes"
    rank = table_rank(asked)
    if rank > MAX_RANK or rank * asked.n_cells > MAX_COLUMN_BYTES or m > MAX_QUERIES:
        return f"over tables it takes at most {MAX_QUERIES:,} queries about {MAX_RANK:,} different numbers"
    operator = request.workload.operator
    if not operator.is_integer or operator.largest > np.iinfo(np.int8).max:
        return "over tables it takes queries with whole coefficients below 128 only"
    return None


# Axes, at most, and those of one product: every subset of these has rows of its own.
_MAX_AXES = 32
_MAX_CROSSED = 8


def needs(request: Request) -> Needs:
    """The memory and time that it takes."""
    asked = product_request(request).products
    K, n, m = float(table_rank(asked)), float(asked.n_cells), float(request.workload.shape[0])
    # An eigendecomposition and four products in every step, and passes over the cells.
    step = products(10, K, K) + 400.0 * n
    after = 2.0 * K * K * (n + 6 * m) + products(40, K, K) + union_bound_work(asked)
    memory = 2 * K * n + 16 * K * _BLOCK + 8 * (_HELD * K * K + 4 * m * K + 60 * n)
    return Needs(memory, 2 * step, step, after, _STEPS)


def _axis_directions(size: int) -> Array:
    """Orthonormal rows over the values of an axis, (size, size), the constant first."""
    found = np.linalg.qr(np.hstack([np.ones((size, 1)), np.eye(size)[:, :-1]]))[0].T
    return np.asarray(found * np.sign(found[0, 0]))


class TableBasis:
    """Orthonormal rows that span the tables that products cross.

    Args:
        sizes: of all axes.
        sets: the axes that every product crosses.

    Attributes:
        parts: the sets of axes of the rows, each with its place: a row of a set is constant along all others.
        rank: K.
        rows: the rows, table by table.
    """

    def __init__(self, sizes: Sequence[int], sets: Iterable[Sequence[int]]) -> None:
        self.sizes = tuple(sizes)
        given = {tuple(sorted(own)) for own in sets}
        crossed = sorted(own for own in given if not any(set(own) < set(other) for other in given))
        self._directions = [_axis_directions(size) for size in self.sizes]
        self.parts: dict[tuple[int, ...], slice] = {}
        tables, end = [], 0
        for table in crossed:
            first, found = end, [np.zeros((0, math.prod(self.sizes[a] for a in table)))]
            for part in _subsets(table):
                if part not in self.parts:
                    rows = self._row_block(table, part)
                    self.parts[part] = slice(end, end + len(rows))
                    end += len(rows)
                    found.append(rows)
            entries = np.vstack(found).reshape(-1, *(self.sizes[a] for a in table))
            tables.append(RowTable(table, np.arange(first, end), entries))
        self.rank = end
        self.rows = TableRows(self.sizes, tuple(tables), end)

    def _row_block(self, table: Sequence[int], part: Sequence[int]) -> Array:
        """Rows that vary along the axes of a part, over the cells of a table."""
        rows: Array = np.ones((1, 1))
        for a in table:
            rows = np.kron(rows, self._directions[a][1:] if a in part else np.ones((1, self.sizes[a])))
        outside = math.prod(size for a, size in enumerate(self.sizes) if a not in part)
        return np.asarray(rows / math.sqrt(outside))

    def coordinates(self, axes: Sequence[int], rows: Sequence[Array]) -> Array:
        """A product of rows of some axes, rising, added up over the others, on these: (all rows, K)."""
        along = [own @ self._directions[a].T for a, own in zip(axes, rows, strict=True)]
        found = np.zeros((math.prod(len(own) for own in rows), self.rank))
        # 1ᵀ of an axis that is added up has the length √size along the constant.
        length = math.sqrt(math.prod(size for a, size in enumerate(self.sizes) if a not in axes))
        for part in _subsets(axes):
            block: Array = np.ones((1, 1))
            for a, own in zip(axes, along, strict=True):
                block = np.kron(block, own[:, 1:] if a in part else own[:, :1])
            found[:, self.parts[part]] = length * block
        return found

    def gram(self, axes: Sequence[int], grams: Sequence[Array]) -> Array:
        """What a product asks on these rows, (K, K), from the Gram matrices of its axes, rising."""
        along = [
            self._directions[a] @ own @ self._directions[a].T for a, own in zip(axes, grams, strict=True)
        ]
        found = np.zeros((self.rank, self.rank))
        outside = math.prod(size for a, size in enumerate(self.sizes) if a not in axes)
        for one in _subsets(axes):
            for other in _subsets(axes):
                block: Array = np.ones((1, 1))
                for a, own in zip(axes, along, strict=True):
                    rows = slice(1, None) if a in one else slice(0, 1)
                    columns = slice(1, None) if a in other else slice(0, 1)
                    block = np.kron(block, own[rows, columns])
                found[self.parts[one], self.parts[other]] = outside * block
        return found


def _subsets(axes: Sequence[int]) -> list[tuple[int, ...]]:
    return [part for count in range(len(axes) + 1) for part in combinations(sorted(axes), count)]


def find(request: Request) -> SearchResult:
    """The least total variance."""
    from scipy import linalg

    question = product_request(request)
    asked = question.products
    deadline = request.deadline.before(seconds_for(needs(request).last))
    tables = TableBasis(asked.sizes, asked.sets)
    V = np.zeros((tables.rank, tables.rank))
    for term, weight in zip(asked.terms, question.weights, strict=True):
        V += weight * tables.gram(term.places, [np.asarray(g, dtype=float) for g in _grams(asked, term)])
    positions, spanning = _independent_queries(asked, tables)
    # On an orthonormal basis of what is asked, so that rows that nobody asks are left out.
    Q = linalg.qr(spanning.T, mode="economic", check_finite=False)[0]
    on_basis = Q.T @ V @ Q
    R = linalg.cholesky(on_basis / on_basis.diagonal().max(), check_finite=False) @ Q.T
    tol = max(request.tol / 2, LEAST_GAP)
    found = least_total_by_descent(
        TablePasses(R, tables.rows), tol=tol, time_limit=deadline.left, progress=request.progress
    )
    # A = C S with S the queries that are combined, both on Q.
    C = linalg.solve((spanning @ Q).T, (found.root @ Q).T, check_finite=False).T
    C = linalg.qr(C, mode="r", check_finite=False)[0]
    ended = found.ended if request.tol / 2 >= LEAST_GAP or found.ended == "deadline" else "exhausted"
    return SearchResult(
        CombinedProposal(np.triu(C), request.workload, positions, 1.0),
        ProductWitness(_sums_along_axes(asked, found.q.reshape(asked.sizes)), axes=asked.axes),
        "stopped",
        f"quasi-Newton method on the dual, {found.steps} steps, over the {tables.rank:,} numbers of "
        "the tables that products cross, combining the queries themselves",
        ended,
    )


def _grams(asked: Products, term: ProductTerm) -> list[Array]:
    return [asked.kinds[a][kind].gram for a, kind in zip(term.places, term.kinds, strict=True)]


def _independent_queries(asked: Products, tables: TableBasis) -> tuple[Array, Array]:
    """Queries that span all, rising, and their coordinates, (rank, K).

    Of every product, those are looked at that cross independent rows of its axes.
    """
    chosen: dict[tuple[int, int], tuple[Array, Array]] = {}
    for a, kinds in enumerate(asked.kinds):
        for kind, asked_rows in enumerate(kinds):
            dense = np.asarray(asked_rows.operator.dense(), dtype=float)
            places = np.sort(strongest_rows(of_unit_length(dense)))
            chosen[a, kind] = places, dense[places]
    numbers, coordinates = [], []
    for term in asked.terms:
        own = [chosen[key] for key in zip(term.places, term.kinds, strict=True)]
        shape = [asked.kinds[a][kind].n_rows for a, kind in zip(term.places, term.kinds, strict=True)]
        in_order = term.in_workload_order(np.arange(math.prod(shape)))
        place_of = np.empty(len(in_order), dtype=np.intp)
        place_of[in_order] = np.arange(len(in_order))
        crossed: Array = np.zeros(1, dtype=np.intp)
        for (places, _), height in zip(own, shape, strict=True):
            crossed = (crossed[:, None] * height + places).reshape(-1)
        numbers.append(term.start + place_of[crossed])
        coordinates.append(tables.coordinates(term.places, [rows for _, rows in own]))
    rows, number = np.vstack(coordinates), np.concatenate(numbers)
    independent = strongest_rows(of_unit_length(rows))
    rising = independent[np.argsort(number[independent])]
    return number[rising], rows[rising]


def _sums_along_axes(asked: Products, q: Array) -> tuple[Array, ...]:
    """Weights of the values of every axis; a single one where no product mentions it."""
    n_axes = len(asked.sizes)
    return tuple(
        q.sum(axis=tuple(b for b in range(n_axes) if b != a)) if kinds else np.ones(1)
        for a, kinds in enumerate(asked.kinds)
    )
