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

import numpy as np

from leastnoise.core.errors import DesignError, NotYetError
from leastnoise.core.numerical_rank import of_unit_length, strongest_rows
from leastnoise.core.operators import EXACT_FLOAT, Array, require_room
from leastnoise.query import Workload, due_of_batches, periods_of_cells
from leastnoise.strategy.integer_rows import Strategy
from leastnoise.strategy.measured import Measured
from leastnoise.strategy.rounding import RealStrategy
from leastnoise.strategy.row_space import as_short_integers, basis_of
from leastnoise.strategy.structured.axis_form import AxisForm
from leastnoise.strategy.structured.axis_rounding import whole_form
from leastnoise.strategy.structured.blocks import Structured

# Coefficients that an answer may take of rows that are measured after it is due, beside its largest one.
_LATE = 1e-9

# Products of coefficients that are looked at to see that.
_MOST_LOOKED_AT = 2**36

# Entries of a table that are made at once.
_CHUNK = 2**22


def in_time_order(proposal: RealStrategy, workload: Workload, over: str) -> RealStrategy:
    """The same proposal for Gaussian noise, with rows that can be measured period by period.

    Raises:
        NotYetError: if queries that do not reach every cell have coefficients that are not whole numbers.
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
    ends = np.where(rows != 0, periods, 0).max(axis=1)
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
    found: list[Array] = [rows[:0]]
    known = np.zeros((rows.shape[1], 0))
    for end in np.unique(ends):
        own = rows[ends == end]
        chosen, known = _added(own, known)
        found.append(own[chosen])
    return np.vstack(found)


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
    ends = np.where(whole != 0, np.arange(n), 0).max(axis=1)
    rows = whole_form(root, rows_in_order(whole, ends)[::-1], tol=tol).rows
    assert rows is not None
    return AxisForm("whole", n, np.ascontiguousarray(rows[::-1]))


def _whole(rows: Array) -> Array | None:
    """Rows as integers, times a power of two each where that makes them so; None where nothing does."""
    whole = np.rint(rows)
    if (whole == rows).all() and np.abs(whole).max(initial=0) < EXACT_FLOAT:
        return np.asarray(whole.astype(np.int64))
    return as_short_integers(rows)


# What every strategy needs to be published period by period -----------------------------------------------


def last_periods(strategy: Measured, workload: Workload, over: str) -> Array:
    """The number of the last period that every integer which is measured counts, (n_measured,)."""
    assert workload.schema is not None
    if isinstance(strategy, Structured):
        place = _axis_of(strategy, over)
        ends = []
        for block, shape in zip(strategy.blocks, strategy.block_shapes, strict=True):
            forms = strategy.block_forms(block)
            position = list(forms).index(place)
            along = [-1 if i == position else 1 for i in range(len(shape))]
            ends.append(np.broadcast_to(_ends_of(forms[place]).reshape(along), shape).reshape(-1))
        return np.concatenate(ends)
    assert isinstance(strategy, Strategy)
    periods = periods_of_cells(workload.schema, over)
    return np.asarray(np.where(strategy.entries != 0, periods, 0).max(axis=1))


def rows_through(strategy: Measured, workload: Workload, over: str, period: int) -> Measured:
    """The strategy of the integers that end by a period, in the same order."""
    if not isinstance(strategy, Structured):
        assert isinstance(strategy, Strategy)
        rows = strategy.entries[last_periods(strategy, workload, over) <= period]
        return Strategy(rows, scale=strategy.scale, noise=strategy.noise, neighbours=strategy.neighbours)
    place = _axis_of(strategy, over)
    forms = [list(own) for own in strategy.forms]
    forms[place] = [
        AxisForm("whole", form.size, form.entries()[_ends_of(form) <= period])
        for form in strategy.forms[place]
    ]
    number = strategy.whole.index(place)
    kept = [
        block for block in strategy.blocks if forms[place][block.whole[number] if block.whole else 0].n_rows
    ]
    return Structured(
        strategy.axes,
        forms,
        kept,
        scale=strategy.scale,
        noise=strategy.noise,
        neighbours=strategy.neighbours,
        centres=strategy.centres,
        order=strategy.order,
    )


def _axis_of(strategy: Structured, over: str) -> int:
    """The place of the axis that is time, which is whole.

    Raises:
        DesignError: if there is none.
    """
    place = next((a for a in strategy.whole if strategy.axes[a].names == (over,)), None)
    if place is None:
        raise DesignError("the plan does not measure its periods one by one", field="over", given=over)
    return place


def _ends_of(form: AxisForm) -> Array:
    return np.asarray(np.where(form.entries() != 0, np.arange(form.size), 0).max(axis=1))


def answers_in_time(strategy: Measured, workload: Workload, over: str) -> bool:
    """Whether every query can be answered from the rows that end by the period in which it is due.

    Raises:
        NotYetError: if that takes too long to tell.
    """
    if isinstance(strategy, Structured):
        return _blocks_in_time(strategy, workload, over)
    assert isinstance(strategy, Strategy)
    assert workload.schema is not None
    periods = periods_of_cells(workload.schema, over)
    ends = last_periods(strategy, workload, over)
    r, n = strategy.shape
    if r == n and strategy.is_full_rank and _counts(ends, periods) == _counts(periods, periods):
        # As many independent rows as there are cells up to a period span all of them.
        return True
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
        if _is_late(strategy.gains_of(workload, index), due[index], ends):
            return False
    return True


def _blocks_in_time(strategy: Structured, workload: Workload, over: str) -> bool:
    """The same block by block: what products ask of time, from the rows of the form in each block."""
    place = _axis_of(strategy, over)
    view = strategy.view(workload)
    known: dict[tuple[AxisForm, int | None], bool] = {}
    for term in view.products.terms:
        kind = dict(zip(term.places, term.kinds, strict=True)).get(place)
        if kind is None:
            # Due at the very end.
            continue
        for piece in view.pieces(term):
            form = piece.inside[place]
            if (form, kind) not in known:
                W = view.products.kinds[place][kind].operator.dense()
                due = np.where(W != 0, np.arange(form.size), 0).max(axis=1)
                known[form, kind] = not _is_late(form.gain(W), due, _ends_of(form))
    return all(known.values())


def _is_late(gains: Array, due: Array, ends: Array) -> bool:
    """Whether some answer takes more than rounding of a row that ends after it is due."""
    sizes = np.abs(gains)
    late = np.where(ends[None, :] > due[:, None], sizes, 0.0).max(axis=1, initial=0.0)
    return bool((late > _LATE * sizes.max(axis=1, initial=0.0)).any())


def _counts(numbers: Array, periods: Array) -> list[int]:
    """How many there are up to each period."""
    found: list[int] = np.cumsum(np.bincount(numbers, minlength=int(periods.max()) + 1)).tolist()
    return found
