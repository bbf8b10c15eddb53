"""Rounding one axis to integers: exact where privacy and independence rest on it, cheap elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.core import exact_integers as exact
from leastnoise.core.errors import DesignError
from leastnoise.core.operators import Array, CumulativeSum, EveryRange, Identity, Matrix, Operator
from leastnoise.planning.oblique.axis_split import AxisQuestions, Placed, first_place, questions_of
from leastnoise.planning.oblique.centre_search import spread
from leastnoise.solver import least_total
from leastnoise.strategy import AxisForm, rounded_centre, split_form, whole_form
from support import refuses
from tolerances import ROUNDING

CASES: dict[str, list[Operator]] = {
    "prefix": [CumulativeSum(16)],
    "prefix and counts": [CumulativeSum(40), Identity(40)],
    "ranges": [EveryRange(12)],
    "two values": [Identity(2)],
    "one condition": [Matrix((np.arange(30) >= 12).astype(np.int64)[None])],
    "conditions and values": [
        Matrix(np.array([[0, 0, 1, 1, 1, 0, 1], [1, 1, 1, 0, 0, 0, 0]])),
        Matrix(np.array([[6, 5, 4, 3, 2, 1, 0]])),
    ],
    "real values": [Matrix(np.array([[0.5, 1.25, 3.75, 10.0, 0.1]]))],
}


def _found(name: str) -> tuple[AxisQuestions, Placed, Array, Array]:
    questions = questions_of(CASES[name])
    placed = first_place(questions, np.ones(len(CASES[name])), tol=1e-9)
    root = questions.cells.spread(placed.oblique.root)
    return questions, placed, root, spread(questions, placed.oblique.g)


def _vanishes(form: AxisForm) -> bool:
    assert form.rows is not None
    assert form.g is not None
    g = [int(value) for value in form.g]
    return all(sum(int(a) * b for a, b in zip(row, g, strict=True)) == 0 for row in form.rows)


@pytest.mark.parametrize("name", CASES)
def test_residual_rows_vanish_on_their_centre_exactly(name: str) -> None:
    questions, _, root, g = _found(name)
    form = split_form(root, rounded_centre(g, [root]), questions.basis)
    assert _vanishes(form)
    assert form.n_rows == questions.rank - 1
    # And nothing that was asked is lost.
    assert all(form.spans(operator) for operator in CASES[name])


@pytest.mark.parametrize("name", ["prefix", "prefix and counts", "ranges"])
def test_a_centre_rounded_after_the_rows_is_refused(name: str) -> None:
    """A twin: rows that vanish on the real centre, and both rounded on their own."""
    _, _, root, g = _found(name)
    rows = np.rint(np.ldexp(root, 40)).astype(np.int64)
    with refuses(DesignError, "centre", ..., "must not see its centre"):
        AxisForm("split", len(g), rows, np.rint(np.ldexp(g, 30)).astype(np.int64))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
def test_rounding_costs_a_hundredth_of_the_gap(name: str, tol: float) -> None:
    questions, placed, root, g = _found(name)
    form = split_form(root, rounded_centre(g, [root], tol=tol), questions.basis, tol=tol)
    rho = sum(float(form.row_gains(op).sum()) for op in CASES[name]) * form.largest_cost(2)
    h = sum(float((form.centre(op) ** 2).sum()) for op in CASES[name])
    # Several columns may each be off by that much; real-valued rows are kept to 40 bits.
    allowed = 10 * tol / 100 + 1e-10
    assert rho == pytest.approx(float(placed.rho.sum()), rel=allowed)
    assert h == pytest.approx(float(placed.h.sum()), rel=allowed)


def test_a_coarser_gap_means_narrower_rows() -> None:
    questions, _, root, g = _found("prefix and counts")
    bits = []
    for tol in (1e-3, 1e-6, 1e-9):
        form = split_form(root, rounded_centre(g, [root], tol=tol), questions.basis, tol=tol)
        assert form.rows is not None
        bits.append(exact.bit_length(form.rows))
    assert bits[0] < bits[1] < bits[2]
    assert bits[0] <= 45
    # Beyond 62 bits they are Python integers, and still exact.
    assert bits[2] > 62
    assert form.rows.dtype == object
    assert _vanishes(form)


def test_a_centre_of_few_bits_would_move_the_rows() -> None:
    _, _, root, g = _found("prefix and counts")
    kept = rounded_centre(g, [root])
    coarse = np.rint(g * 2**8).astype(np.int64)
    moved = [np.abs(root @ (whole / whole.sum())).max() for whole in (kept, coarse)]
    assert moved[0] <= 1e-8
    assert moved[1] > 1e-4
    # Without rows to keep in place, few bits are enough.
    assert exact.bit_length(rounded_centre(g, [])) < exact.bit_length(kept)


def test_centres_may_have_entries_of_either_sign() -> None:
    g = np.array([0.8, 0.5, -0.3])
    C = np.array([[5.0, -8.0, 0.0], [0.0, 3.0, 5.0]]) / 10
    form = split_form(C, rounded_centre(g, [C]))
    assert _vanishes(form)
    assert form.share is not None
    assert form.share == pytest.approx(g, rel=1e-6)


@given(st.integers(2, 7), st.integers(0, 10_000))
def test_any_proposal_vanishes_on_the_rounded_centre(n: int, seed: int) -> None:
    """Whatever an optimiser proposes, even rows that do not vanish on g at all."""
    generator = np.random.default_rng(seed)
    g = generator.standard_normal(n)
    g[0] += 1 - g.sum()
    form = split_form(generator.standard_normal((n - 1, n)), rounded_centre(g, []), tol=1e-4)
    assert _vanishes(form)
    assert form.inverse.sum(axis=0) == pytest.approx(np.zeros(n - 1), abs=ROUNDING)


def test_parts_of_one_centre_share_its_integers() -> None:
    questions, _, root, g = _found("prefix and counts")
    condition = questions_of([Matrix((np.arange(40) >= 12).astype(np.int64)[None])])
    row = (np.arange(40) >= 12) - g[12:].sum()
    centre = rounded_centre(g, [root, row[None]])
    forms = [split_form(root, centre, questions.basis), split_form(row[None], centre, condition.basis)]
    assert forms[0].has_centre_of(forms[1])
    assert all(map(_vanishes, forms))
    assert forms[1].n_rows == 1


def test_an_axis_asked_for_its_total_alone_holds_no_rows() -> None:
    questions = questions_of([Matrix(np.array([[2, 2, 2]]))])
    form = split_form(np.zeros((0, 3)), np.array([1, 1, 1]), questions.basis)
    assert form.kind == "centred"


def test_whole_axes_keep_their_variances() -> None:
    operator = CumulativeSum(20)
    found = least_total(operator.dense(), tol=1e-9)
    form = whole_form(found.root)
    assert float(form.row_gains(operator).sum()) * form.largest_cost(2) == pytest.approx(
        found.achieved, rel=1e-7
    )
    basis = np.array([[1, 1, 0, 0], [0, 1, 1, 1]])
    narrow = whole_form(basis.astype(float), basis)
    assert narrow.spans(Matrix(basis))
    assert not narrow.spans(Identity(4))


def test_refusals_say_what_must_hold() -> None:
    g = np.array([1, 1, 1])
    with refuses(DesignError, "rows", 1, "2 residual rows are needed on this basis, got 1"):
        split_form(np.ones((1, 3)), g)
    with refuses(DesignError, "rows", ..., "lost a direction"):
        split_form(np.zeros((2, 3)), g)
    with refuses(DesignError, "rows", ..., "not finite"):
        split_form(np.full((2, 3), np.nan), g)
    with refuses(DesignError, "rows", ..., "not finite"):
        whole_form(np.full((3, 3), np.inf))
    with refuses(DesignError, "rows", ..., "lost a direction"):
        whole_form(np.zeros((3, 3)))
    for centre in ([np.nan, 1.0], [-1.0, 0.5]):
        with refuses(DesignError, "centre", ..., "finite and of positive sum"):
            rounded_centre(np.array(centre), [])
    with refuses(DesignError, "centre", ..., "lost to rounding"):
        rounded_centre(np.array([1.0, -1.0 + 1e-15]), [])


def test_a_triangle_without_zeros_on_its_diagonal_determines_everything() -> None:
    """Singular values took a direction 2^-45 as weak as the strongest for one that is not measured."""
    rows = np.array([[2**45, 3, 1], [0, 1, -2], [0, 0, 7]])
    form = AxisForm("whole", 3, rows)
    assert form.spans(Identity(3))
    assert form.distance_of(Identity(3)) == 0.0
    np.testing.assert_allclose(form.inverse @ rows, np.eye(3), atol=1e-12)


def test_rows_that_are_no_triangle_are_inverted_as_well() -> None:
    generator = np.random.default_rng(8)
    for _ in range(50):
        r, n = generator.integers(1, 7, size=2)
        rows = generator.integers(-9, 10, size=(r, n))
        if generator.random() < 0.3 and r > 1:
            rows[0] = rows[-1]
        form = AxisForm("whole", int(n), rows)
        np.testing.assert_allclose(form.inverse, np.linalg.pinv(rows.astype(float)), atol=1e-9)
        reached = np.linalg.matrix_rank(rows) == n
        assert form.spans(Identity(int(n))) == reached
