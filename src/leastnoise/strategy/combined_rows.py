"""Integer combinations of a workload's own queries: what is measured where no matrix over all cells is held.

Few queries over a million cells need k² numbers, not k times a million: the rows are A = C·B with C (k, k)
whole numbers, upper triangular, and B the queries themselves, an operator. Cells that B does not tell apart
are one kind, and the columns of the kinds are held in as few bytes as their entries need.

    measured      A x = C (B x), exactly
    sensitivity   Δ² = max_i ‖C b_i‖², exactly (`longest_column`)
    answers       W = L B, with L from columns that span all directions; the noise of W x is L C⁻¹ ξ
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError
from leastnoise.core.merged_cells import Cells, row_blocks
from leastnoise.core.numerical_rank import SPAN_TOL, spanning_columns
from leastnoise.core.operators import Array, Operator, Selected, require_room
from leastnoise.privacy import ADD_REMOVE, GAUSSIAN, Goal, neighbours_named, noise_named
from leastnoise.query import Workload, due_of_batches, periods_of_cells
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.longest_column import longest_column
from leastnoise.strategy.measured import CountTables, Measured, MeasuredPart
from leastnoise.strategy.periods import is_late, last_columns
from leastnoise.strategy.proposal import Proposal
from leastnoise.strategy.query_columns import MANY_DIRECTIONS, QueryColumns, column_blocks, query_columns
from leastnoise.strategy.rounding import rounded_triangle
from leastnoise.strategy.time_order import spanning_in_order

# What a record of each cell spends is listed up to this many cells.
_MAX_LISTED = 2**17

# Kinds of cells whose pairs are compared exactly, at most; beyond, twice the longest column is the bound.
_MAX_PAIRED = 4_096

# Columns for each direction from which those that span all directions are chosen.
_CANDIDATES = 8

# The same of many directions: a pivoted factorisation of eight times 907 columns took 5 s.
_CANDIDATES_OF_MANY = 3

# Numbers of the combinations that answer a workload which are kept, 256 MB.
_MAX_KEPT = 2**25

# Bits of a limb of the counts. With 2^21 cells and entries below 2^20 sums stay below 2^62.
_LIMB = 21

# Random vectors by which queries are compared with what is measured.
_PROBES = 3

# Beside the length of a row, a probe of what is left over may be this many times as long as that itself.
_PROBE_FACTOR = 4.0


class CombinedRows(Measured):
    """Integer combinations of queries, the integer scale of the noise on each, and against what.

    Args:
        coefficients: C, (k, k), whole numbers, upper triangular with a diagonal of which none is 0.
        queries: B, (k, n), an operator of whole numbers.
        positions: which queries of the workload these are, for files.
    """

    def __init__(
        self,
        coefficients: Array,
        queries: Operator,
        positions: Array,
        *,
        scale: int,
        noise: str,
        neighbours: str = ADD_REMOVE,
    ) -> None:
        self._keep(scale=scale, noise=noise_named(noise), neighbours=neighbours_named(neighbours))
        self._check_noise()
        C = exact.as_integers(coefficients)
        k = queries.shape[0]
        if self.noise != GAUSSIAN:
            raise DesignError("combinations of queries are measured with Gaussian noise only", field="noise")
        if not queries.is_integer or C.shape != (k, k) or np.tril(C, -1).any() or not C.diagonal().all():
            raise DesignError(
                "combinations of queries need whole numbers, a triangle with a full diagonal",
                field="strategy",
            )
        if queries.largest * queries.shape[1] * 2.0**_LIMB >= 2.0**62:
            raise DesignError(
                "the queries have entries too large for sums over all cells",
                field="workload",
                remedy="rescale the rows",
            )
        C.setflags(write=False)
        self._keep(coefficients=C, queries=queries, positions=positions)

    coefficients: Array
    queries: Operator
    positions: Array

    @property
    def n_measured(self) -> int:
        return len(self.coefficients)

    @property
    def n_cells(self) -> int:
        return self.queries.shape[1]

    @cached_property
    def _columns(self) -> QueryColumns:
        """The queries' entries for one cell of each kind, (k, d)."""
        return query_columns(self.queries, up_to_sign=not self.neighbours.replaces)

    @property
    def _cells(self) -> Cells:
        return self._columns.cells

    @cached_property
    def _triangle(self) -> Array:
        return self.coefficients.astype(float)

    # Privacy, in integers -------------------------------------------------------------------------

    @cached_property
    def sensitivity(self) -> int:
        if self.neighbours.replaces and self._columns.shape[1] <= _MAX_PAIRED:
            columns = self._columns.take(np.arange(self._columns.shape[1]))
            rows = exact.product(self.coefficients, columns.astype(np.int64))
            largest = max(exact.largest_pair_costs(rows, 2), default=0)
        else:
            # ‖a − b‖ ≤ ‖a‖ + ‖b‖ is at most twice the longest.
            largest = (4 if self.neighbours.replaces else 1) * self._longest_column[0]
        return self.neighbours.change_cost(largest, self.noise)

    @property
    def costliest_cell(self) -> int:
        """A cell whose record spends most, where records are added or removed; the first if none spends."""
        first = self._cells.first
        return int(first[self._longest_column[1]]) if len(first) else 0

    @cached_property
    def _longest_column(self) -> tuple[int, int]:
        """max_i ‖C b_i‖², exactly, and a kind of cells that has it."""
        return longest_column(self.coefficients, self._columns)

    @cached_property
    def column_costs(self) -> tuple[int, ...]:
        self._require_listable(_MAX_LISTED)
        if self.neighbours.replaces:
            return (self.sensitivity,) * self.n_cells
        costs: list[int] = []
        for block in column_blocks(self._columns):
            costs += exact.column_square_sums(exact.product(self.coefficients, block.astype(np.int64)))
        every = np.zeros(self.n_cells, dtype=object)
        every[self._cells.used] = np.array(costs, dtype=object)[self._cells.kind]
        return tuple(self.neighbours.change_cost(int(cost), self.noise) for cost in every)

    def parts(self) -> Sequence[MeasuredPart]:
        return [MeasuredPart(None, (self._form,), cells=self._cells)]

    @cached_property
    def _form(self) -> AxisForm:
        """The rows over the kinds of cells, as the form of one axis of these."""
        d = self._columns.shape[1]
        self._require_writable(d)
        columns = self._columns.take(np.arange(d)).astype(np.int64)
        return AxisForm("whole", d, exact.as_integers(exact.product(self.coefficients, columns)))

    def apply(self, x: Array) -> Array:
        return np.asarray(self._triangle @ self.queries.apply(x))

    def adjoint(self, y: Array) -> Array:
        return self.queries.adjoint(self._triangle.T @ y)

    def _all_rows(self) -> Array:
        return exact.as_integers(exact.product(self.coefficients, self.queries.dense(np.int64)))

    # From counts to integers ----------------------------------------------------------------------

    def exact_answers(self, tables: CountTables) -> Array:
        """C (B x) as Python integers.

        int64 counts are cut into limbs of which none can wrap, always three, whatever their values.
        """
        rest = np.asarray(tables(None)[0]).reshape(-1)
        if rest.dtype == object:
            parts = [
                exact.matrix_times_counts(block.astype(np.int64), rest)
                for _, block in row_blocks(self.queries)
            ]
            return np.asarray(self.coefficients.astype(object) @ np.concatenate(parts))
        rest = rest.astype(np.int64, casting="safe")
        answers: Array = np.zeros(self.n_measured, dtype=object)
        for shift in range(0, 63, _LIMB):
            limb = rest & ((1 << _LIMB) - 1)
            answers = answers + (self.queries.apply(limb).astype(np.int64).astype(object) << shift)
            rest = rest >> _LIMB
        # Counts are not negative, so that nothing is left.
        return np.asarray(self.coefficients.astype(object) @ answers)

    # From integers to answers ---------------------------------------------------------------------

    @cached_property
    def _spanning(self) -> Array:
        """Kinds of cells whose columns span all directions, a few for each, or one where there are many."""
        k, d = self._columns.shape
        n_candidates = min(d, (_CANDIDATES if k <= MANY_DIRECTIONS else _CANDIDATES_OF_MANY) * k)
        candidates = self._columns.candidates(n_candidates)
        # One cell that each query counts, which a sample may miss.
        candidates = np.union1d(candidates, self._columns.nonzero())
        # More columns than directions know combinations better, and take as much longer.
        chosen = candidates if k <= MANY_DIRECTIONS else candidates[:0]
        basis = np.zeros((k, 0))
        while True:
            pivots, basis = spanning_columns(self._columns.take(candidates).astype(float), basis)
            chosen = np.union1d(chosen, candidates[pivots])
            if basis.shape[1] == k:
                return chosen
            if len(pivots) == 0:
                raise DesignError(
                    "the queries measured depend on one another",
                    field="strategy",
                    remedy="design the plan again",
                )
            shares = self._shares_outside(basis)
            candidates = np.argpartition(-shares, n_candidates - 1)[:n_candidates]

    def _shares_outside(self, Q: Array) -> Array:
        """How much of every column lies outside what Q spans, of its squared length."""
        passes = self._columns.passes
        if passes is not None:
            inside, squares = passes.squares(Q @ Q.T), passes.squares(np.eye(len(Q)))
            return np.asarray(1 - inside / np.where(squares > 0, squares, 1))
        shares = []
        for block in column_blocks(self._columns):
            b = block.astype(float)
            squares = (b**2).sum(axis=0)
            shares.append(1 - ((Q.T @ b) ** 2).sum(axis=0) / np.where(squares > 0, squares, 1))
        return np.concatenate(shares)

    @cached_property
    def _coordinates(self) -> tuple[Array, Array]:
        """An orthogonal and a triangular factor of the transposed columns that span all directions."""
        from scipy import linalg

        Q, triangle = linalg.qr(self._columns.take(self._spanning).T.astype(float), mode="economic")
        return Q, triangle

    def combinations(self, operator: Operator) -> Array:
        """L, (m, k), with L B nearest to the rows of an operator on the columns that span all directions."""
        from scipy import linalg

        for known, found in self._last_combinations:
            if known is operator:
                return found
        Q, triangle = self._coordinates
        rows = self.seen_by_columns(operator)
        found = np.asarray(linalg.solve_triangular(triangle, (rows @ Q).T).T)
        if found.size <= _MAX_KEPT:
            self._last_combinations[:] = [(operator, found)]
        return found

    def seen_by_columns(self, operator: Operator) -> Array:
        """The rows of an operator on cells whose columns span all directions, (m, a few times k)."""
        return operator.columns(self._cells.first[self._spanning])

    @cached_property
    def _last_combinations(self) -> list[tuple[Operator, Array]]:
        """The operator last asked about and its combinations: checks and certificates ask again and again."""
        return []

    def _gains(self, operator: Operator) -> Array:
        """L C⁻¹, (m, k): how the noise on what is measured enters every answer."""
        from scipy import linalg

        return np.asarray(linalg.solve_triangular(self._triangle, self.combinations(operator).T, trans=1).T)

    def _within_reach(self, operator: Operator) -> Array:
        """Which rows of an operator are combinations of the queries, (m,) booleans, by random vectors."""
        n = self.n_cells
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, _PROBES))
        left = operator.apply(signs) - self.combinations(operator) @ self.queries.apply(signs)
        lengths = operator.row_norms()
        return np.asarray(np.abs(left).max(axis=1) <= _PROBE_FACTOR * SPAN_TOL * np.maximum(lengths, 1e-300))

    def can_answer_all(self, workload: Workload) -> bool:
        return bool(self._within_reach(workload.operator).all())

    def first_unanswerable(self, workload: Workload) -> int | None:
        answerable = self._within_reach(workload.operator)
        return None if answerable.all() else int(np.argmin(answerable))

    def distance_of(self, workload: Workload) -> float:
        """0: the queries that are measured are the workload's own."""
        return 0.0

    def variances_of(self, workload: Workload) -> Array:
        return np.asarray(self.noise_variance * (self._gains(workload.operator) ** 2).sum(axis=1))

    def covariances_of(self, left: Workload, right: Workload) -> Array:
        require_room(left.shape[0], right.shape[0], "the covariances")
        gains = [self._gains(workload.operator) for workload in (left, right)]
        return np.asarray(self.noise_variance * (gains[0] @ gains[1].T))

    def _query_estimates(self, measurements: Array) -> Array:
        """C⁻¹ y: the answers to the queries that are combined."""
        from scipy import linalg

        y = measurements.astype(float)
        found = linalg.solve_triangular(self._triangle, y)
        # Once more on what the first pass misses.
        return np.asarray(found + linalg.solve_triangular(self._triangle, y - self._triangle @ found))

    def estimates(self, measurements: Array) -> Array:
        from scipy import linalg

        gram = self._columns.gram(self._cells.counts)
        return np.asarray(self.queries.adjoint(linalg.solve(gram, self._query_estimates(measurements))))

    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        return np.asarray(self.combinations(workload.operator) @ self._query_estimates(measurements))

    def error_map(self, workload: Workload) -> Callable[[Array], Array]:
        gains = self._gains(workload.operator)
        return lambda noise: np.asarray(gains @ noise)

    def laplace_half_widths(self, workload: Workload, alpha: float) -> Array:
        raise DesignError("combinations of queries are measured with Gaussian noise only", field="noise")

    def last_periods(self, workload: Workload, over: str) -> Array:
        assert workload.schema is not None
        periods = periods_of_cells(workload.schema, over)
        ends = np.concatenate([last_columns(block, periods) for _, block in row_blocks(self.queries)])
        return last_columns(self.coefficients, ends)

    def through(self, workload: Workload, over: str, period: int) -> CombinedRows:
        kept = np.flatnonzero(self.last_periods(workload, over) <= period)
        return CombinedRows(
            self.coefficients[np.ix_(kept, kept)],
            Selected(self.queries, kept),
            self.positions[kept],
            scale=self.scale,
            noise=self.noise,
            neighbours=self.neighbours,
        )

    def answers_in_time(self, workload: Workload, over: str) -> bool:
        due = np.concatenate(due_of_batches(workload, over))
        return not is_late(self._gains(workload.operator), due, self.last_periods(workload, over))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"kind": "combined"}, {
            "combined": self.positions.astype(np.int64),
            "rows": exact.to_limbs(self.coefficients),
        }


class CombinedProposal(Proposal[CombinedRows]):
    """What a method proposes: rows C·B with real coefficients of queries.

    Attributes:
        coefficients: C, (k, k), real and upper triangular; any positive multiple of it is the same proposal.
        workload: whose queries they are.
        positions: of those that are combined, rising.
        longest: the largest ‖C b_i‖.
    """

    def __init__(self, coefficients: Array, workload: Workload, positions: Array, longest: float) -> None:
        self.coefficients, self.workload = coefficients, workload
        self.positions, self.longest = positions, longest

    def in_time(self, workload: Workload, over: str) -> CombinedProposal:
        """The same proposal with rows that can be measured period by period, as in `time_order`.

        The queries that are combined are taken in the order in which they are due, each unless those before
        it span it, and listed from the last to the first.
        """
        from scipy import linalg

        kept = np.eye(len(self.positions), dtype=np.int64)
        bare = combined_rows(
            kept, workload, self.positions, scale=1, noise=str(GAUSSIAN), neighbours=str(ADD_REMOVE)
        )
        due = np.concatenate(due_of_batches(workload, over))
        chosen = spanning_in_order(bare.seen_by_columns(workload.operator), due)
        if len(chosen) != len(kept):
            raise DesignError(
                "the queries cannot be put in the order of time; try another method", field="over", given=over
            )
        # W = L B: what is measured on the queries chosen is C L⁻¹.
        backwards = chosen[::-1]
        L = bare.combinations(Selected(workload.operator, backwards))
        C = linalg.qr(linalg.solve(L.T, self.coefficients.T).T, mode="r", check_finite=False)[0]
        return CombinedProposal(np.triu(C), workload, backwards, self.longest)

    def in_integers(self, goal: Goal, tol: float) -> CombinedRows:
        C = rounded_triangle(self.coefficients, self.longest, goal, tol)
        return combined_rows(
            C, self.workload, self.positions, scale=1, noise=goal.noise, neighbours=goal.neighbours
        )


def combined_rows(
    C: Array, workload: Workload, positions: Array, *, scale: int, noise: str, neighbours: str
) -> CombinedRows:
    """Combinations of some queries of a workload."""
    all_of_them = np.array_equal(positions, np.arange(workload.shape[0]))
    queries = workload.operator if all_of_them else Selected(workload.operator, positions)
    return CombinedRows(C, queries, positions, scale=scale, noise=noise, neighbours=neighbours)
