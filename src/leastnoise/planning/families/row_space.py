"""The optimum, but for a little, for products whose rows are few: dense noise over the space of these rows.

Products that cross some of many attributes have K directions at most, however many cells there are: eight
tables of two or three of six attributes have a thousand over 60,000 cells. With B, (K, n), the rows of all
products, weighted, and any weights q of the cells,

    M = B diag(q) Bᵀ ,   F = trace M^½ ,   total ≥ F²/Σq                                                 (1)
    Y = M^−½           has the total F · max u ,   u_i = b_iᵀ Y b_i                                      (2)

(1) and (2) are passes over pairs of products (`query.product_rows`). Combinations of the queries themselves
are measured (`strategy.combined_rows`). The weights of the cells are the proof; where these are too many to
keep, their sums along every axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leastnoise.bounds import ProductWitness, union_bound_work
from leastnoise.core.errors import DesignError
from leastnoise.core.numerical_rank import of_unit_length, strongest_rows
from leastnoise.core.operators import Array
from leastnoise.core.resources import Needs, products, seconds_for
from leastnoise.planning.families.product_requests import product_request, refuse_unstructured
from leastnoise.planning.method import Request, SearchResult
from leastnoise.privacy import GAUSSIAN
from leastnoise.query import Products, UnionRows, in_schema_order, union_rows
from leastnoise.solver import RowPasses, least_total_by_descent
from leastnoise.strategy import CombinedProposal

# Directions of all products together, at most: matrices of so many rows are decomposed in every step.
MAX_ROWS = 2_048

# Cells, at most: some numbers for each are held.
MAX_CELLS = 2**23

# Bytes of the queries' columns over all cells, at most, where these are held.
MAX_COLUMN_BYTES = 2**28

# Queries, at most: how the noise enters each is worked out.
MAX_QUERIES = 50_000

# Cells whose weights are kept as a proof, at most: eight bytes each in the file of a plan.
MAX_WEIGHED_CELLS = 2**19

# The gap at which a long search ends where a smaller one is asked for: the last digits take most steps.
LEAST_GAP = 5e-4

# Operations, about 20 s of one core, that a search may take as a rule to go on to any gap.
_SHORT = 5e11

# Directions whose squared lengths, beside all of them, are below this share are rounding.
_WEAK = 1e-10

# Steps that the search takes as a rule to a few per cent, to LEAST_GAP, and to gaps of 1e-6.
_STEPS_TO_A_PLAN = 15.0
_STEPS = 60.0
_STEPS_TO_THE_END = 400.0

# Arrays of K by K numbers held at once.
_HELD = 25.0

# Columns worked on at a time, as `combined_rows` does.
_BLOCK = 2**15


def refuses(request: Request) -> str | None:
    """The reason why a request cannot be served, or None."""
    if request.objective.kind != "total" or request.spare is not None or request.privacy.noise != GAUSSIAN:
        return "over rows of products it minimises the total variance only, without earlier plans"
    if request.privacy.relation.replaces or request.over is not None:
        return "over rows of products it serves records that are added or removed only, measured at once"
    reason = refuse_unstructured(request)
    if reason is not None:
        return reason
    question = product_request(request)
    asked, m = question.products, request.workload.shape[0]
    if not (question.weights > 0).all():
        return "over rows of products every query needs a weight"
    if any(map(asked.is_zero, asked.terms)):
        return "over rows of products every query counts some cell; a condition here holds for none"
    if len(asked.terms) > _MAX_PRODUCTS or max(map(len, asked.sets), default=0) > _MAX_CROSSED:
        return f"over their rows it takes {_MAX_PRODUCTS} products of {_MAX_CROSSED} attributes at most"
    if _least_rows(asked) > MAX_ROWS or m > MAX_QUERIES:
        return f"over rows of products it takes at most {MAX_QUERIES:,} queries about {MAX_ROWS:,} directions"
    operator = request.workload.operator
    if not operator.is_integer or operator.largest > np.iinfo(np.int16).max:
        return "over rows of products it takes queries with whole coefficients of two bytes only"
    union = union_rows(asked)
    if union.n_rows > MAX_ROWS or asked.n_cells > MAX_CELLS:
        return f"over rows of products it takes at most {MAX_ROWS:,} directions over {MAX_CELLS:,} cells"
    if _are_held(asked) and _bytes_of_columns(request, union.n_rows) > MAX_COLUMN_BYTES:
        return "its queries tie attributes, and their columns over so many cells do not fit in memory"
    return None


def _are_held(asked: Products) -> bool:
    """Whether queries tie attributes, so that their columns over all cells are held."""
    return any(len(axis.names) > 1 for axis in asked.axes)


def _bytes_of_columns(request: Request, rows: int) -> float:
    """Bytes of the entries of this many queries over all cells."""
    operator = request.workload.operator
    return float(rows) * operator.shape[1] * (1 if operator.largest <= np.iinfo(np.int8).max else 2)


# Products, at most, of which every pair is passed over; and the attributes of each.
_MAX_PRODUCTS = 64
_MAX_CROSSED = 8


def _least_rows(asked: Products) -> float:
    """Directions that the largest product has at least, where its rows are plain counts or many."""
    return max(
        math.prod(float(asked.sizes[a]) if asked.kinds[a][k].is_identity else 1.0 for a, k in own)
        for own in (zip(term.places, term.kinds, strict=True) for term in asked.terms)
    )


def rank_at_most(request: Request) -> int:
    """How many directions the products have together, at most."""
    return union_rows(product_request(request).products).rank_at_most


def needs(request: Request) -> Needs:
    """The memory and time that it takes."""
    asked = product_request(request).products
    union, n, m = union_rows(asked), float(asked.n_cells), float(request.workload.shape[0])
    K = float(union.n_rows)
    # An eigendecomposition, a product, and two passes over the cells in every step.
    step = products(4.5, K, K) + 2 * union.orthonormal().work
    proof = products(10, K, K) if n <= MAX_WEIGHED_CELLS else union_bound_work(asked)
    # Columns that span all directions are chosen by a pivoted factorisation, which is slow.
    last = 8.0 * K * K * m + products(60, K, K) + 4 * union.orthonormal().work + proof
    memory = 16 * K * _BLOCK + 8 * (_HELD * K * K + 4 * m * K + 60 * n)
    if _are_held(asked):
        last += 2.0 * K * K * n
        memory += 2 * _bytes_of_columns(request, union.n_rows)
    steps = _STEPS_TO_THE_END if _is_short(step) else _STEPS
    if request.time_limit is not None and request.is_promised:
        # A plan within some per cent is worth having before anything else is tried.
        steps = _STEPS_TO_A_PLAN
    return Needs(memory, products(10, K, K) + step, step, last, steps)


def _is_short(step: float) -> bool:
    """Whether a search with such steps goes on to the gap that is asked for."""
    return _STEPS_TO_THE_END * step <= _SHORT


def find(request: Request) -> SearchResult:
    """The least total variance."""
    from scipy import linalg

    question = product_request(request)
    asked, union = question.products, union_rows(question.products)
    needed = needs(request)
    deadline = request.deadline.before(seconds_for(needed.last))
    space = _Space.of(union)
    unit = float(union.scales(question.weights).max())
    weights = question.weights / unit**2
    tol = request.tol / 2 if _is_short(needed.step) else max(request.tol / 2, LEAST_GAP)
    found = least_total_by_descent(
        RowPasses(union.rows(weights), space.rank),
        tol=tol,
        time_limit=deadline.left,
        progress=request.progress,
    )
    positions, spanning = _independent_queries(asked, union, space)
    # A = C S with S the queries that are combined, both on an orthonormal basis of the space.
    measured = (found.root * union.scales(weights)) @ space.coordinates
    C = linalg.solve(spanning.T, measured.T, check_finite=False).T
    C = linalg.qr(C, mode="r", check_finite=False)[0]
    is_near = tol <= request.tol / 2 and found.has_converged
    ended = found.ended if is_near or found.ended == "deadline" else "exhausted"
    return SearchResult(
        CombinedProposal(np.triu(C), request.workload, positions, 1.0),
        _proof(asked, union, found.q),
        "stopped",
        f"{found.how} on the dual, {found.steps} steps, over the {space.rank:,} directions of products that "
        f"tell {union.n_cells:,} cells apart, combining the queries themselves",
        ended,
    )


@dataclass(frozen=True, eq=False)
class _Space:
    """The space of the rows of all products.

    Attributes:
        coordinates: those of the orthonormal rows of every product on an orthonormal basis, (rows, rank).
    """

    coordinates: Array

    @property
    def rank(self) -> int:
        """How many directions it has."""
        return self.coordinates.shape[1]

    @classmethod
    def of(cls, union: UnionRows) -> _Space:
        """From the products of all pairs of rows."""
        from scipy import linalg

        gram = union.orthonormal().weighted_gram(np.ones(union.n_cells))
        # Products that add up many cells have long rows.
        lengths = np.sqrt(np.diag(gram))
        gram /= lengths[:, None] * lengths
        squares, U = linalg.eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
        kept = squares > _WEAK * squares[-1]
        return cls(lengths[:, None] * (U[:, kept] * np.sqrt(squares[kept])))


def _independent_queries(asked: Products, union: UnionRows, space: _Space) -> tuple[Array, Array]:
    """Queries that span all, rising, and their coordinates, (rank, rank).

    Of every product, those are looked at that cross independent rows of its axes.

    Raises:
        DesignError: if rounding leaves too few of them.
    """
    chosen: dict[tuple[int, int], tuple[Array, Array]] = {}
    for a, kinds in enumerate(asked.kinds):
        for kind, asked_rows in enumerate(kinds):
            rows = np.asarray(asked_rows.operator.dense(), dtype=float)[:, union.values[a]]
            places = np.sort(strongest_rows(of_unit_length(rows)))
            chosen[a, kind] = places, rows[places] @ union.directions[a][kind].turn.T
    numbers, coordinates, start = [], [], 0
    for term in asked.terms:
        own = [chosen[key] for key in zip(term.places, term.kinds, strict=True)]
        shape = [asked.kinds[a][kind].n_rows for a, kind in zip(term.places, term.kinds, strict=True)]
        in_order = term.in_workload_order(np.arange(math.prod(shape)))
        place_of = np.empty(len(in_order), dtype=np.intp)
        place_of[in_order] = np.arange(len(in_order))
        crossed: Array = np.zeros(1, dtype=np.intp)
        along: Array = np.ones((1, 1))
        for (places, rows), height in zip(own, shape, strict=True):
            crossed = (crossed[:, None] * height + places).reshape(-1)
            along = np.kron(along, rows)
        numbers.append(term.start + place_of[crossed])
        coordinates.append(along @ space.coordinates[start : start + along.shape[1]])
        start += along.shape[1]
    rows, number = np.vstack(coordinates), np.concatenate(numbers)
    independent = strongest_rows(of_unit_length(rows))
    if len(independent) != space.rank:
        raise DesignError(
            f"rounding leaves {len(independent):,} of {space.rank:,} directions of the queries",
            field="workload",
            remedy="try another method",
        )
    rising = independent[np.argsort(number[independent])]
    return number[rising], rows[rising]


def _proof(asked: Products, union: UnionRows, q: Array) -> Array | ProductWitness:
    """Weights of all cells, or where these are too many, of the values of every axis."""
    every = union.on_first(q)
    if asked.n_cells <= MAX_WEIGHED_CELLS:
        return in_schema_order(asked.axes, every)
    by_axis = every.reshape(asked.sizes)
    n_axes = len(asked.sizes)
    sums = tuple(
        by_axis.sum(axis=tuple(b for b in range(n_axes) if b != a)) if kinds else np.ones(1)
        for a, kinds in enumerate(asked.kinds)
    )
    return ProductWitness(sums, axes=asked.axes)
