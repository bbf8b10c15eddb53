"""Integer rows and the scale of the noise on their answers: what that spends and how accurate it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from leastnoise.core import exact_integers as exact
from leastnoise.core.directed import float_above
from leastnoise.core.errors import DesignError
from leastnoise.core.merged_cells import row_blocks
from leastnoise.core.numerical_rank import is_within_reach
from leastnoise.core.operators import MAX_MULTIPLIED, AllOnes, Array, Operator, require_room, squared_rows
from leastnoise.privacy import ADD_REMOVE, neighbours_named, noise_named
from leastnoise.query import InventedRecords, Workload, periods_of_cells
from leastnoise.strategy import laplace_tails
from leastnoise.strategy.axis_form import AxisForm, threads_for_rows
from leastnoise.strategy.measured import CountTables, KnownTotal, Measured, MeasuredPart
from leastnoise.strategy.periods import is_some_late

# A cell of which a total knows a smaller part than this is not in it.
_KNOWN_PART = 1e-9

# Entries of a strategy, at most, that are all multiplied by invented counts; of a larger one, the columns of
# the cells that have any.
_MAX_CHECKED = 2**22


class Strategy(Measured):
    """Integer rows, the integer scale of the noise added to each of their answers, and against what.

    `neighbours` names what one record may do, such as be added or removed ("add-remove"); sensitivity,
    profile and what is spent follow it.
    """

    entries: Array
    noun = "rows"

    def __init__(self, rows: Array, *, scale: int, noise: str, neighbours: str = ADD_REMOVE) -> None:
        self._keep(scale=scale, noise=noise_named(noise), neighbours=neighbours_named(neighbours))
        self._check_noise()
        if np.ndim(rows) != 2 or np.shape(rows)[1] == 0:
            raise DesignError(
                f"a strategy needs rows over at least one cell, got shape {np.shape(rows)}",
                field="rows",
                given=np.shape(rows),
            )
        entries = exact.as_integers(rows)
        entries.setflags(write=False)
        self._keep(entries=entries)

    @property
    def n_measured(self) -> int:
        return len(self.entries)

    @property
    def n_cells(self) -> int:
        return self.entries.shape[1]

    def apply(self, x: Array) -> Array:
        return np.asarray(self._floats @ x)

    def adjoint(self, y: Array) -> Array:
        return np.asarray(self._floats.T @ y)

    def _all_rows(self) -> Array:
        return self.entries.copy()

    @cached_property
    def _floats(self) -> Array:
        return self.entries.astype(float)

    def answers(self, counts: Array) -> Array:
        """A x in exact integers, for int64 or Python-integer counts."""
        return exact.matrix_times_counts(self.entries, counts)

    @cached_property
    def column_costs(self) -> tuple[int, ...]:
        return self.neighbours.cell_costs(self.entries, self.noise)

    @property
    def sensitivity(self) -> int:
        """Δ² (Gaussian) or Δ₁ (Laplace): the largest effect of one record, exactly."""
        return max(self.column_costs)

    def farthest_from(self, cell: int) -> int:
        """The cell whose column differs most from that of another, in floats."""
        A = self._floats
        return int(np.argmax((np.abs(A - A[:, [cell]]) ** self.noise.power).sum(axis=0)))

    @property
    def profile(self) -> Array:
        """What a record of each cell spends, (n,): μ² (Gaussian) or ε (Laplace), rounded up."""
        return np.array([float_above(spent) for spent in self.spent_per_cell])

    @property
    def pseudo_inverse(self) -> Array:
        """A⁺ as a float (n, r) array: noisy row answers to estimated cells."""
        return self._form.inverse

    @property
    def covariance(self) -> Array:
        """The (n, n) covariance of the estimated cells, in counts squared."""
        return self.noise_variance * (self.pseudo_inverse @ self.pseudo_inverse.T)

    def variances(self, operator: Operator) -> Array:
        """The variance of the answer to each row of an operator, (m,), in counts squared."""
        return self.noise_variance * squared_rows(operator, self.pseudo_inverse)

    def spans(self, rows: Array) -> Array:
        """Which of the given rows (j, n) this strategy can answer without bias, as booleans (j,)."""
        if self.is_full_rank:
            return np.ones(len(rows), dtype=bool)
        return is_within_reach(self._form.left_over(rows), rows)

    def distance_of(self, workload: Workload) -> float:
        return self._form.distance_of(workload.operator)

    def can_answer(self, operator: Operator) -> bool:
        """Whether every row of an operator can be answered without bias."""
        with threads_for_rows(*self.shape):
            return self._form.spans(operator)

    def can_answer_all(self, workload: Workload) -> bool:
        return self.can_answer(workload.operator)

    def first_unanswerable(self, workload: Workload) -> int | None:
        for at, rows in row_blocks(workload.operator):
            answerable = self.spans(rows)
            if not answerable.all():
                return int(at.start) + int(np.argmin(answerable))
        return None

    def variances_of(self, workload: Workload) -> Array:
        return self.variances(workload.operator)

    def covariances_of(self, left: Workload, right: Workload) -> Array:
        require_room(left.shape[0], right.shape[0], "the covariances")
        gains = [workload.operator.apply(self.pseudo_inverse) for workload in (left, right)]
        return np.asarray(self.noise_variance * (gains[0] @ gains[1].T))

    def total_variance(self, workload: Workload, weights: Sequence[Array]) -> float:
        w = workload.per_query(weights, "the weights")
        # In counts, so that squares of weights and scales do not meet.
        G, unit = self.pseudo_inverse, math.sqrt(self.noise_variance)
        m = workload.shape[0]
        total = 0.0
        step = max(1, 2**22 // max(m, len(G)))
        with np.errstate(over="ignore", invalid="ignore"):
            # A sum of squares, in which nothing cancels, unless queries are too many to multiply out.
            V = workload.weighted_gram(w) if m * G.shape[1] > MAX_MULTIPLIED else None
            for start in range(0, G.shape[1], step if V is None else len(G)):
                part = G[:, start : start + (step if V is None else len(G))] * unit
                if V is None:
                    total += float(w @ (workload.operator.apply(part) ** 2).sum(axis=1))
                else:
                    total += float(np.vdot(part, V @ part))
        return total

    def exact_answers(self, tables: CountTables) -> Array:
        return self.answers(tables(None)[0].reshape(-1))

    def parts(self) -> Sequence[MeasuredPart]:
        return [MeasuredPart(None, (self._form,))]

    @cached_property
    def _form(self) -> AxisForm:
        """The rows as the form of one axis of all cells."""
        return AxisForm("whole", self.n_cells, self.entries)

    def held_rows(self) -> Array:
        return self._floats

    def known_total(self, everyone: Workload) -> KnownTotal | None:
        is_measured = self.entries.any(axis=0)
        every_cell = AllOnes(self.n_cells)
        if self.can_answer(every_cell):
            error = math.sqrt(float(self.variances(every_cell)[0]))
            return KnownTotal(np.ones(self.n_cells), error, is_of_all=True)
        # The part of the total that is known: A⁺A 1.
        gain = self.pseudo_inverse.sum(axis=0)
        known = self.adjoint(gain)
        # Zero up to rounding is no part of it.
        if not (known[is_measured] > _KNOWN_PART).all():
            return None
        error = math.sqrt(self.noise_variance) * float(np.linalg.norm(gain))
        # A cell that nobody measures may hold any number of records, even where the others are counted whole.
        return KnownTotal(np.where(is_measured, known, 1.0), error, is_of_all=False)

    def estimates(self, measurements: Array) -> Array:
        y, G = measurements.astype(float), self.pseudo_inverse
        found = G @ y
        # Once more on what the first pass misses. Without it an answer erred by 4e-13 of all counts where the
        # rows' directions were 2e5 apart, and noise was less.
        return np.asarray(found + G @ (y - self._floats @ found))

    def answers_of(self, workload: Workload, measurements: Array) -> Array:
        return workload.operator.apply(self.estimates(measurements))

    def noiseless_answers(
        self, workload: Workload, records: InventedRecords, queries: Sequence[int]
    ) -> Array:
        if self.entries.size <= _MAX_CHECKED:
            return super().noiseless_answers(workload, records, queries)
        # Nobody's records: the work may depend on which cells they are in.
        counts = records.tables(None)[0].reshape(-1)
        cells = np.flatnonzero(counts)
        measured = exact.matrix_times_counts(self.entries[:, cells], counts[cells])
        return self.answers_of(workload, measured)[list(queries)]

    def error_map(self, workload: Workload) -> Callable[[Array], Array]:
        if workload.shape[0] > self.shape[1]:
            return lambda noise: workload.operator.apply(self.pseudo_inverse @ noise)
        # Few queries over many cells: from noise to errors at once, past the cells.
        gains = workload.operator.apply(self.pseudo_inverse)
        return lambda noise: np.asarray(gains @ noise)

    def gains_of(self, workload: Workload, index: Array) -> Array:
        """The map from noisy row answers to the answers of some queries, (len(index), r)."""
        return np.asarray(workload.operator.rows(index) @ self.pseudo_inverse)

    def laplace_half_widths(self, workload: Workload, alpha: float) -> Array:
        m = workload.shape[0]
        block = max(1, 2**24 // max(self.shape))

        def gains() -> Iterator[Array]:
            for start in range(0, m, block):
                yield self.gains_of(workload, np.arange(start, min(start + block, m)))

        return laplace_tails.half_widths(gains, scale=self.scale, alpha=alpha)

    def through(self, workload: Workload, over: str, period: int) -> Strategy:
        rows = self.entries[self.last_periods(workload, over) <= period]
        return Strategy(rows, scale=self.scale, noise=self.noise, neighbours=self.neighbours)

    def answers_in_time(self, workload: Workload, over: str) -> bool:
        assert workload.schema is not None
        periods = periods_of_cells(workload.schema, over)
        ends = self.last_periods(workload, over)
        r, n = self.shape
        if r == n and self.is_full_rank and _counts(ends, periods) == _counts(periods, periods):
            # As many independent rows as there are cells up to a period span all of them.
            return True
        return not is_some_late(partial(self.gains_of, workload), workload, over, ends, n)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {}, {"rows": exact.to_limbs(self.entries)}

    @property
    def is_full_rank(self) -> bool:
        """Whether every cell is determined."""
        return self._form.is_full_rank

    def __repr__(self) -> str:
        r, n = self.shape
        return f"Strategy({r:,} integer rows over {n:,} cells, {self.noise} noise of scale {self.scale:,})"


def _counts(numbers: Array, periods: Array) -> list[int]:
    """How many there are up to each period."""
    found: list[int] = np.cumsum(np.bincount(numbers, minlength=int(periods.max()) + 1)).tolist()
    return found
