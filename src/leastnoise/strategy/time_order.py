"""Rows in the order of time: each can be measured as soon as the last period that it counts is over.

With Gaussian noise a strategy may be rotated: QᵀA has the same AᵀA, so that sensitivity, privacy and every
variance stay as they are. Let the rows b_1, …, b_k span what is asked, ordered by the period in which they end
(their last nonzero coefficient), and let A = C B. The triangle of C with its columns from the last to the first,

    row i = c_ii b_i + Σ_{j < i} c_ij b_j ,                                                              (1)

has rows that end when b_i does. A query w that is due in period t is β B with β = 0 beyond the rows that end by
t, if these span all queries due by t; then its answer, β C⁻¹ y, takes none of the rows that end later. So the
optimum of the whole horizon is published period by period, at no loss.

Where all cells are asked, b_i are the cells, in the order of their periods. Elsewhere they are queries, taken
in the order in which they are due, each unless those before it span it: what is due by t is then spanned by
those of them that are due by t.

Reference:
    Denisov, McMahan, Rush, Smith and Thakurta (2022), Improved differential privacy for SGD via optimal private
    linear operators on adaptive streams, Theorem 2.1, for square triangles and inputs that depend on answers.
"""

from __future__ import annotations

import numpy as np

from leastnoise.core.errors import DesignError, NotYetError
from leastnoise.core.numerical_rank import RANK_TOL, of_unit_length, strongest_rows
from leastnoise.core.operators import EXACT_FLOAT, Array, require_room
from leastnoise.query import Workload, due_of_batches, periods_of_cells
from leastnoise.strategy.integer_rows import Strategy
from leastnoise.strategy.rounding import RealStrategy

# Coefficients that an answer may take of rows that are measured after it is due, beside its largest one.
_LATE = 1e-9

# Products of coefficients that are looked at to see that.
_MOST_LOOKED_AT = 2**36

# Entries of a table that are made at once.
_CHUNK = 2**22


def in_time_order(proposal: RealStrategy, workload: Workload, over: str) -> RealStrategy:
    """The same proposal for Gaussian noise, with rows that can be measured period by period.

    Raises:
        NotYetError: if queries that do not reach every cell have coefficients that are no whole numbers.
    """
    assert workload.schema is not None
    periods = periods_of_cells(workload.schema, over)
    C = np.asarray(proposal.coefficients, dtype=float)
    if proposal.basis is None:
        order = np.argsort(-periods, kind="stable")
        return RealStrategy(_triangle(C[:, order]), cells=order)
    basis = _basis_in_order(proposal.basis, workload, over, periods)
    rows = C @ proposal.basis.astype(float)
    # Of one length, so that none is lost beside longer ones.
    lengths = np.sqrt((basis.astype(float) ** 2).sum(axis=1))
    from scipy import linalg

    coefficients = linalg.lstsq((basis / lengths[:, None]).T, rows.T)[0].T / lengths
    return RealStrategy(_triangle(coefficients), basis, is_backwards=True)


def _triangle(C: Array) -> Array:
    """The upper triangle with the same CᵀC."""
    from scipy import linalg

    k = C.shape[1]
    R = linalg.qr(C, mode="r", check_finite=False)[0][:k]
    if R.shape != (k, k) or not np.diag(R).all():
        raise DesignError("the strategy found lost a direction; rescale the workload's rows")
    return np.asarray(np.triu(R))


def _basis_in_order(basis: Array, workload: Workload, over: str, periods: Array) -> Array:
    """Integer rows with the span of a basis, the last to end first: queries as far as they go, then its own."""
    operator = workload.operator
    if not operator.is_integer or operator.largest >= EXACT_FLOAT:
        raise NotYetError(
            "queries with coefficients that are no whole numbers can be published period by period only where "
            "they reach every cell; multiply them up to whole numbers",
            field="over",
            given=over,
        )
    due = np.concatenate(due_of_batches(workload, over))
    ends = np.where(basis != 0, periods, 0).max(axis=1)
    found: list[Array] = []
    known = np.zeros((basis.shape[1], 0))
    for period in range(int(periods.max()) + 1):
        asked = np.flatnonzero(due == period)
        require_room(len(asked), basis.shape[1], "the queries that are due in one period")
        rows = np.vstack([np.rint(operator.rows(asked)).astype(np.int64), basis[ends == period]])
        chosen, known = _added(rows, known)
        found.append(rows[chosen])
    together = np.vstack(found)
    if len(together) != len(basis):
        raise DesignError(
            "the rows found cannot be put in the order of time; try another method", field="over", given=over
        )
    return together[::-1]


def _added(rows: Array, known: Array) -> tuple[Array, Array]:
    """Which rows add a direction to known ones, (n, k) orthonormal; and these with what they add."""
    from scipy import linalg

    left = of_unit_length(rows.astype(float))
    for _ in range(2):
        left = left - (left @ known) @ known.T
    chosen = (
        np.sort(strongest_rows(left)) if (np.abs(left) > RANK_TOL / left.shape[1]).any() else np.arange(0)
    )
    if not len(chosen):
        return chosen, known
    more = linalg.qr(left[chosen].T, mode="economic", check_finite=False)[0]
    more = linalg.qr(more - known @ (known.T @ more), mode="economic", check_finite=False)[0]
    return chosen, np.hstack([known, more])


def last_periods(strategy: Strategy, workload: Workload, over: str) -> Array:
    """The number of the last period that every row counts, (r,)."""
    assert workload.schema is not None
    periods = periods_of_cells(workload.schema, over)
    return np.where(strategy.entries != 0, periods, 0).max(axis=1)


def answers_in_time(strategy: Strategy, workload: Workload, over: str) -> bool:
    """Whether every query can be answered from the rows that end by the period in which it is due."""
    assert workload.schema is not None
    periods = periods_of_cells(workload.schema, over)
    ends = last_periods(strategy, workload, over)
    r, n = strategy.shape
    if r == n and strategy.can_answer_all(workload) and _counts(ends, periods) == _counts(periods, periods):
        # As many independent rows as there are cells up to a period span all of them.
        return strategy.is_full_rank
    due = np.concatenate(due_of_batches(workload, over))
    m = workload.shape[0]
    if m * n * r > _MOST_LOOKED_AT:
        raise NotYetError(
            f"{m:,} queries of {n:,} cells are too many to be checked against their periods",
            field="over",
            given=over,
        )
    step = max(1, _CHUNK // max(n, r))
    for start in range(0, m, step):
        index = np.arange(start, min(start + step, m))
        gains = np.abs(strategy.gains_of(workload, index))
        late = np.where(ends[None, :] > due[index, None], gains, 0.0).max(axis=1, initial=0.0)
        if (late > _LATE * gains.max(axis=1, initial=0.0)).any():
            return False
    return True


def _counts(numbers: Array, periods: Array) -> list[int]:
    """How many there are up to each period."""
    return np.cumsum(np.bincount(numbers, minlength=int(periods.max()) + 1)).tolist()
