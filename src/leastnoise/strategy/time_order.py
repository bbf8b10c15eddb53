"""Rows in the order of time: each can be measured as soon as the last period that it counts is over.

With Gaussian noise a strategy may be rotated: QᵀA has the same AᵀA, so that sensitivity, privacy and every
variance stay as they are. Let the rows b_1, …, b_k span what is asked, ordered by the period in which they
end (their last nonzero coefficient), and let A = C B. The triangle of C with its columns from the last to the
first,

    row i = c_ii b_i + Σ_{j < i} c_ij b_j ,                                                              (1)

has rows that end when b_i does. A query w that is due in period t is β B with β = 0 beyond the rows that end
by t, if these span all queries due by t; then its answer, β C⁻¹ y, takes none of the rows that end later. So
the optimum of the whole horizon is published period by period, at no loss.

Where all cells are asked, b_i are the cells, in the order of their periods. Elsewhere they are queries, taken
in the order in which they are due, each unless those before it span it: what is due by t is then spanned by
those of them that are due by t.

Reference:
    Denisov, McMahan, Rush, Smith and Thakurta (2022), Improved differential privacy for SGD via optimal
    private linear operators on adaptive streams, Theorem 2.1, for square triangles and inputs that depend on
    answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leastnoise.core.errors import DesignError, NotYetError
from leastnoise.core.numerical_rank import of_unit_length, strongest_rows
from leastnoise.core.operators import EXACT_FLOAT, Array, require_room
from leastnoise.query import Workload, periods_of_cells
from leastnoise.strategy.axis_form import AxisForm
from leastnoise.strategy.periods import last_columns
from leastnoise.strategy.row_space import as_short_integers, basis_of
from leastnoise.strategy.structured.axis_rounding import whole_form


class RowsInTime(NamedTuple):
    """Rows C·B that are measured from the last to the first; see (1).

    Attributes:
        coefficients: C, an upper triangle.
        basis: B, whole numbers, the last to end first; None for the cells.
        cells: the cells that the columns of C stand for, where there is no basis.
    """

    coefficients: Array
    basis: Array | None
    cells: Array | None


def in_time_order(coefficients: Array, basis: Array | None, workload: Workload, over: str) -> RowsInTime:
    """The same rows for Gaussian noise, so that they can be measured period by period.

    Args:
        coefficients: C, real, (r, k).
        basis: B, whole numbers, (k, n); None for the cells.

    Raises:
        NotYetError: if queries that do not reach every cell have coefficients that are not whole numbers.
    """
    assert workload.schema is not None
    periods = periods_of_cells(workload.schema, over)
    C = np.asarray(coefficients, dtype=float)
    if basis is None:
        order = np.argsort(-periods, kind="stable")
        return RowsInTime(_triangle(C[:, order]), None, order)
    ordered = _basis_in_order(basis, workload, over, periods)
    rows = C @ basis.astype(float)
    # Of one length, so that none is lost beside longer ones.
    lengths = np.sqrt((ordered.astype(float) ** 2).sum(axis=1))
    from scipy import linalg

    found = linalg.lstsq((ordered / lengths[:, None]).T, rows.T)[0].T / lengths
    return RowsInTime(_triangle(found), ordered, None)


def _triangle(C: Array) -> Array:
    """The upper triangle with the same CᵀC."""
    from scipy import linalg

    k = C.shape[1]
    R = linalg.qr(C, mode="r", check_finite=False)[0][:k]
    if R.shape != (k, k) or not np.diag(R).all():
        raise DesignError(
            "the strategy found lost a direction", field="strategy", remedy="rescale the workload's rows"
        )
    return np.asarray(np.triu(R))


def _basis_in_order(basis: Array, workload: Workload, over: str, periods: Array) -> Array:
    """Integer rows with the span of a basis, the last to end first: queries before rows of its own."""
    operator = workload.operator
    require_room(operator.shape[0] + len(basis), basis.shape[1], "the queries in the order of time")
    asked = _whole(operator.dense())
    if asked is None:
        raise _not_whole(over)
    rows = np.vstack([asked, basis])
    ends = last_columns(rows, periods)
    found = rows_in_order(rows, ends)
    if len(found) != len(basis):
        raise DesignError(
            "the rows found cannot be put in the order of time; try another method", field="over", given=over
        )
    return found[::-1]


def _not_whole(over: str) -> NotYetError:
    return NotYetError(
        "queries with coefficients that are not whole numbers can be published period by period only where "
        "they reach every cell",
        field="over",
        given=over,
        remedy="multiply them up to whole numbers",
    )


def rows_in_order(rows: Array, ends: Array) -> Array:
    """Integer rows that span all, (k, n), in the order of their ends; what others span is left out."""
    return rows[spanning_in_order(rows, ends)]


def spanning_in_order(rows: Array, ends: Array) -> Array:
    """Which rows span all, (k,), in the order of their ends; what those before them span is left out."""
    found: list[Array] = [np.zeros(0, dtype=np.intp)]
    known = np.zeros((rows.shape[1], 0))
    for end in np.unique(ends):
        own = np.flatnonzero(ends == end)
        chosen, known = _added(rows[own], known)
        found.append(own[chosen])
    return np.concatenate(found)


def _added(rows: Array, known: Array) -> tuple[Array, Array]:
    """Which rows add a direction to known ones, (n, k) orthonormal; and these with what they add."""
    from scipy import linalg

    left = of_unit_length(rows.astype(float))
    for _ in range(2):
        left = left - (left @ known) @ known.T
    chosen = np.sort(strongest_rows(left))
    if not len(chosen):
        return chosen, known
    more = linalg.qr(left[chosen].T, mode="economic", check_finite=False)[0]
    more = linalg.qr(more - known @ (known.T @ more), mode="economic", check_finite=False)[0]
    return chosen, np.hstack([known, more])


def whole_form_of_rows(root: Array, asked: Array, *, in_time: bool, tol: float) -> AxisForm:
    """Real rows of one axis in integers, in the order of its values where they are periods.

    Args:
        root: (r, n); any positive multiple is the same proposal.
        asked: rows that span the same, (m, n).

    Raises:
        NotYetError: if they are to be in order, do not span all values, and are no whole numbers.
    """
    n = root.shape[1]
    whole = _whole(asked)
    basis = basis_of(asked if whole is None else whole)
    if not in_time:
        return whole_form(root, basis.rows, tol=tol)
    if basis.rows is None:
        rows = whole_form(root[:, ::-1], tol=tol).rows
        assert rows is not None
        return AxisForm("whole", n, np.ascontiguousarray(rows[::-1, ::-1]))
    if whole is None:
        raise _not_whole("over")
    ends = last_columns(whole, np.arange(n))
    rows = whole_form(root, rows_in_order(whole, ends)[::-1], tol=tol).rows
    assert rows is not None
    return AxisForm("whole", n, np.ascontiguousarray(rows[::-1]))


def _whole(rows: Array) -> Array | None:
    """Rows as integers, times a power of two each where that makes them so; None where nothing does."""
    whole = np.rint(rows)
    if (whole == rows).all() and np.abs(whole).max(initial=0) < EXACT_FLOAT:
        return np.asarray(whole.astype(np.int64))
    return as_short_integers(rows)
