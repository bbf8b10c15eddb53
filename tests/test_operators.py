"""Operators: the laws, the drawings, the refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import BROKEN, LAWS, OPERATORS, Example, Law, close
from leastnoise.core import operators
from leastnoise.core.errors import TooLargeError, WorkloadError
from leastnoise.core.operators import (
    MAX_ENTRIES,
    AllOnes,
    Array,
    CumulativeSum,
    EveryRange,
    Identity,
    Kronecker,
    Matrix,
    Operator,
    Padded,
    Reordered,
    RowScaled,
    SomeRanges,
    SparseMatrix,
    Stack,
    base,
    from_entries,
    require_room,
)
from support import refuses

# ---------------------------------------------------------------- the laws


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("example", OPERATORS, ids=str)
def test_every_operator_obeys_every_law(example: Example, law: Law) -> None:
    law(example.operator, example.matrix)


@pytest.mark.parametrize(
    ("operator", "matrix", "law"), BROKEN, ids=[f"{type(b[0]).__name__}-{b[2].__name__}" for b in BROKEN]
)
def test_the_laws_notice_a_broken_operator(operator: Operator, matrix: Any, law: Law) -> None:
    # pytest.raises fails with an outcome of its own kind, not with an AssertionError.
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        law(operator, np.array(matrix, dtype=float))


def test_every_law_has_caught_somebody() -> None:
    assert {law for _, _, law in BROKEN} == set(LAWS)


def test_every_class_has_an_example() -> None:
    def below(cls: type) -> set[type]:
        return {cls}.union(*(below(child) for child in cls.__subclasses__()))

    ours = {cls for cls in below(Operator) if cls.__module__.startswith(operators.__name__)}
    concrete = {cls for cls in ours if not getattr(cls, "__abstractmethods__", None)}
    assert concrete == {type(example.operator) for example in OPERATORS}


@pytest.mark.parametrize(
    "operator",
    [Identity(3), AllOnes(3), CumulativeSum(4), SomeRanges(4, [0, 1], [1, 3]), EveryRange(3)],
    ids=repr,
)
def test_the_drawing_in_the_docstring_is_the_matrix(operator: Operator) -> None:
    lines = (type(operator).__doc__ or "").splitlines()
    drawn = [[int(d) for d in line.split()] for line in lines if re.fullmatch(r"\s*[01]( [01])*\s*", line)]
    assert operator.dense(np.int64).tolist() == drawn


factor_of = {
    "identity": Identity,
    "ones": AllOnes,
    "prefix": CumulativeSum,
    "ranges": EveryRange,
    "signed": lambda n: Matrix(np.arange(2 * n).reshape(2, n) - n),
    "real": lambda n: Matrix(np.linspace(-1, 1.7, n)[None, :]),
}


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(sorted(factor_of)), st.integers(1, 3)), min_size=1, max_size=4))
def test_a_random_product_obeys_every_law(described: list[tuple[str, int]]) -> None:
    factors = [factor_of[kind](n) for kind, n in described]
    matrix = np.ones((1, 1))
    for factor in factors:
        block = factor.rows(np.arange(factor.shape[0]))
        matrix = np.einsum("ik,jl->ijkl", matrix, block).reshape(
            matrix.shape[0] * block.shape[0], matrix.shape[1] * block.shape[1]
        )
    for law in LAWS:
        law(Kronecker(factors), matrix)


def test_a_product_of_ten_attributes_keeps_its_variances() -> None:
    factors: list[Operator] = [Identity(2) if a % 3 else AllOnes(2) for a in range(8)]
    factors += [CumulativeSum(2), Matrix([[1, -1]])]
    product = Kronecker(factors)
    a = np.random.default_rng(8).normal(size=(product.shape[1], 2))
    # diag(W a bᵀ Wᵀ) = (W a)(W b), entry by entry.
    expected = product.apply(a[:, 0]) * product.apply(a[:, 1])
    close(product.quadratic(np.outer(a[:, 0], a[:, 1])), expected)


def test_a_product_may_have_more_attributes_than_numpy_has_axes() -> None:
    product = Kronecker([Identity(2), *[AllOnes(1)] * 70, CumulativeSum(2)])
    close(product.apply(np.array([1.0, 2.0, 3.0, 4.0])), [1, 3, 3, 7])
    close(product.adjoint(np.array([1.0, 2.0, 3.0, 4.0])), [3, 2, 7, 4])
    close(product.rows([3]), [[0, 0, 1, 1]])


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 60), st.data())
def test_the_ends_of_a_range_are_those_of_its_row(n: int, data: st.DataObject) -> None:
    every = EveryRange(n)
    j = data.draw(st.integers(0, every.shape[0] - 1))
    assert every.ends(j) == (every.low[j], every.high[j])


def test_the_ends_of_a_range_are_exact_where_floats_are_not() -> None:
    n = 10**12
    every = EveryRange(n)
    assert every.ends(0) == (0, 0)
    assert every.ends(n - 1) == (0, n - 1)
    assert every.ends(n) == (1, 1)
    assert every.ends(every.shape[0] - 1) == (n - 1, n - 1)
    assert every.ends(every.shape[0] - 2) == (n - 2, n - 1)


def test_a_matrix_visited_in_pieces_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    W, Y = rng.normal(size=(23, 4)), rng.normal(size=(4, 4))
    monkeypatch.setattr(operators.base, "CHUNK_ENTRIES", 50)  # two rows at a time
    scaled = RowScaled(Matrix(W), np.ones(23))
    close(scaled.gram(), W.T @ W)
    close(scaled.column_norms(1), np.abs(W).sum(axis=0))
    close(Matrix(W).quadratic(Y), np.diag(W @ Y @ W.T))
    weights = rng.normal(size=23)
    close(Matrix(W).weighted_gram(weights), W.T @ np.diag(weights) @ W)


def test_what_is_made_of_quick_operators_is_quick() -> None:
    quick: list[Operator] = [
        Identity(4),
        AllOnes(4),
        CumulativeSum(4),
        EveryRange(4),
        SomeRanges(4, [1], [2]),
    ]
    slow: list[Operator] = [Matrix(np.ones((2, 4))), SparseMatrix(scipy.sparse.csr_array(np.eye(4)))]
    for parts, expected in ((quick, True), (slow, False)):
        for part in parts:
            around: list[Operator] = [
                part,
                RowScaled(part, np.ones(part.shape[0])),
                Padded(part, 6),
                Reordered(part, [4], [0]),
                Stack([*quick, part]),
            ]
            assert [outer.is_quick for outer in around] == [expected] * len(around)


# ---------------------------------------------------------------- what a matrix may hold


@pytest.mark.parametrize(
    ("entries", "refusal"),
    [
        ([[1.0, 2.0], [np.nan, 0.0]], ("matrix", "NaN or infinity in row 1")),
        ([[1.0, np.inf]], ("matrix", "NaN or infinity in row 0")),
        ([[1.0], [2.0], [-np.inf]], ("matrix", "NaN or infinity in row 2")),
        ([[1j, 2]], ("matrix", "complex128")),
        (np.array([[1, None]], dtype=object), ("matrix", "object")),
        ([[10**30, 1]], ("matrix", "object")),
        ([["1", "2"]], ("matrix", "<U1")),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), ("matrix", "datetime64[D]")),
        ([1, 2, 3], ("matrix", (3,))),
        (5, ("matrix", ())),
        (np.zeros((1, 2, 3)), ("matrix", (1, 2, 3))),
        ([[1, 2], [3]], ("matrix", list)),
        (np.array([[2**63]], dtype=np.uint64), ("matrix", "2^62 or more")),
        (np.array([[2**62]]), ("matrix", "2^62 or more")),
        (np.array([[-(2**63), 0]]), ("matrix", "2^62 or more")),
        ([[1e300, 1.0]], ("matrix", 1e300)),
        ([[1.0, 0.5], [0.0, -1e-300]], ("matrix", 1e-300)),
        (np.ma.masked_equal([[1, 2]], 2), ("matrix", "masked")),
    ],
)
def test_a_matrix_refuses(entries: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(WorkloadError, *refusal):
        from_entries(entries)


@pytest.mark.parametrize(
    ("entries", "refusal"),
    [
        (np.array([[1.0, 0.0], [0.0, np.nan]]), ("matrix", "NaN or infinity in row 1")),
        (np.array([[np.inf, 0.0]]), ("matrix", "NaN or infinity in row 0")),
        (np.array([[1j]]), ("matrix", "complex128")),
        (np.array([[0.0, 0.0], [1e-200, 0.0]]), ("matrix", 1e-200)),
        (np.array([[2**62]]), ("matrix", "2^62 or more")),
    ],
)
def test_a_sparse_matrix_refuses(entries: Array, refusal: tuple[Any, ...]) -> None:
    for made in (scipy.sparse.coo_array, scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        with refuses(WorkloadError, *refusal):
            from_entries(made(entries))


def test_a_sparse_vector_is_no_matrix() -> None:
    with refuses(WorkloadError, "matrix", (2,)):
        from_entries(scipy.sparse.coo_array(np.array([1, 2])))


def test_a_long_double_beyond_float64_is_refused() -> None:
    huge = np.array([[np.longdouble(1e300) * np.longdouble(1e300)]])
    with refuses(WorkloadError, "matrix", "NaN or infinity in row 0"):
        Matrix(huge)


def test_tiny_entries_beside_ordinary_ones_are_kept() -> None:
    assert Matrix([[1.0, 1e-300]]).dense()[0, 1] == 1e-300


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.uint16, np.int32, np.uint64, np.float32])
def test_narrow_numbers_are_widened_without_wrapping(dtype: type) -> None:
    top = 1 if dtype is bool else 127 if dtype is np.int8 else 200
    entries = np.full((300, 2), top, dtype=dtype)
    for operator in (
        Matrix(entries),
        SparseMatrix(scipy.sparse.csr_array(entries.astype(float)).astype(dtype)),
    ):
        assert operator.is_integer
        close(operator.gram(), np.full((2, 2), 300.0 * top**2))
        close(operator.column_norms(1), np.full(2, 300.0 * top))
        assert operator.apply(np.array([top, top])).tolist() == [2 * top**2] * 300


@pytest.mark.parametrize(
    ("dtype", "first", "second"), [(np.uint8, 200, 100), (np.int8, 100, 100), (bool, 1, 1)]
)
def test_sparse_duplicates_are_widened_before_they_are_summed(dtype: type, first: int, second: int) -> None:
    """200 and 100 in one uint8 cell used to make 44."""
    entries = scipy.sparse.coo_array((np.array([first, second], dtype), ([0, 0], [1, 1])), shape=(1, 2))
    assert SparseMatrix(entries).dense(np.int64).tolist() == [[0, first + second]]
    # The same duplicates in compressed rows, which SciPy does not sum by itself.
    compressed = scipy.sparse.csr_array((np.array([first, second], dtype), [1, 1], [0, 2]), shape=(1, 2))
    assert SparseMatrix(compressed).dense(np.int64).tolist() == [[0, first + second]]


def test_sparse_duplicates_that_cancel_leave_zero() -> None:
    entries = scipy.sparse.coo_array(([0.5, -0.5, 0.25, 0.75], ([0, 0, 1, 1], [0, 0, 0, 0])), shape=(2, 1))
    operator = SparseMatrix(entries)
    assert operator.is_integer
    assert operator.dense(np.int64).tolist() == [[0], [1]]


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dok", "bsr", "dia"])
def test_every_sparse_format_is_read(form: str) -> None:
    entries = np.array([[1, 0, -2], [0, 3, 0]], dtype=np.int8)
    operator = from_entries(scipy.sparse.coo_array(entries).asformat(form))
    assert isinstance(operator, SparseMatrix)
    assert operator.dense(np.int64).tolist() == entries.tolist()


def test_whole_floats_are_integers_and_others_are_not() -> None:
    assert Matrix([[1.0, -0.0]]).is_integer
    assert not Matrix([[1.0, 0.5]]).is_integer
    assert Matrix([[2.0**53 - 1]]).is_integer
    assert not Matrix([[2.0**53]]).is_integer  # its neighbours are not all floats
    assert Matrix([[2**61 + 1]]).dense(np.int64).tolist() == [[2**61 + 1]]
    assert from_entries(np.asfortranarray([[1, 2]])).dense().tolist() == [[1, 2]]


def test_dense_refuses_an_integer_type_too_narrow() -> None:
    operator = Kronecker([Matrix([[100]]), Matrix([[3]])])
    assert operator.dense(np.int16).tolist() == [[300]]
    for narrow in (np.int8, np.uint8):
        with refuses(WorkloadError, "matrix", None):
            operator.dense(narrow)
    with refuses(WorkloadError, "matrix", None):
        Kronecker([Matrix([[2**40]]), Matrix([[2**40]])]).dense(np.int64)


def test_the_callers_array_may_change_afterwards() -> None:
    for wrap in (lambda a: a, scipy.sparse.csr_array, scipy.sparse.coo_array):
        for dtype in (float, np.int64):
            given = wrap(np.array([[1, 2], [3, 4]], dtype=dtype))
            operator = from_entries(given)
            if isinstance(given, np.ndarray):
                given[:] = 9
            else:
                given.data[:] = 9
            assert operator.dense().tolist() == [[1, 2], [3, 4]]
    factors = np.array([2.0])
    scaled = RowScaled(AllOnes(2), factors)
    low, high = np.array([0]), np.array([1])
    ranges = SomeRanges(2, low, high)
    factors[0], low[0], high[0] = 7.0, 1, 0
    assert scaled.dense().tolist() == [[2, 2]]
    assert ranges.dense().tolist() == [[1, 1]]


@pytest.mark.parametrize("dtype", [float, np.int64, np.uint8])
def test_the_entries_are_read_only(dtype: type) -> None:
    entries = np.array([[1, 2]], dtype=dtype)
    with pytest.raises(ValueError, match="read-only"):
        Matrix(entries).entries[0, 0] = 5
    with pytest.raises(ValueError, match="read-only"):
        SparseMatrix(scipy.sparse.csr_array(entries)).entries.data[0] = 5
    entries[0, 0] = 3  # the caller's own stays his


# ---------------------------------------------------------------- what does not fit together


def test_ill_formed_combinations_are_refused() -> None:
    with refuses(WorkloadError, "factors", ()):
        Kronecker([])
    with refuses(WorkloadError, "parts", ()):
        Stack([])
    with refuses(WorkloadError, "parts"):
        Stack([Identity(2), AllOnes(3)])
    with refuses(WorkloadError, "factors", (3,)):
        RowScaled(Identity(2), np.ones(3))
    with refuses(WorkloadError, "ranges", ((2,), (1,))):
        SomeRanges(3, [0, 1], [2])
    for low, high in ((-1, 0), (2, 1), (0, 3)):
        with refuses(WorkloadError, "ranges"):
            SomeRanges(3, [0, low], [1, high])
    with pytest.raises(IndexError, match="row numbers must lie between 0 and 3"):
        Kronecker([Identity(2), Identity(2)]).rows([4])


# ---------------------------------------------------------------- what is too large

CELLS = Kronecker([Identity(10)] * 20)  # 10^20 cells


def test_sizes_beyond_sixty_four_bits_are_exact() -> None:
    assert CELLS.shape == (10**20, 10**20)
    assert Stack([CELLS, CELLS, CELLS]).shape == (3 * 10**20, 10**20)
    assert EveryRange(10**12).shape == (10**12 * (10**12 + 1) // 2, 10**12)
    assert repr(CELLS) == f"Kronecker({10**20} x {10**20})"


@pytest.mark.parametrize(
    ("ask", "refusal"),
    [
        (lambda: EveryRange(10**6).dense(), ("workload", (500000500000, 1000000))),
        (lambda: EveryRange(10**6).rows([0]), ("workload", (500000500000, 2))),
        (lambda: EveryRange(10**6).gram(), ("workload", (1000000, 1000000))),
        (lambda: AllOnes(10**5).gram(), ("workload", (100000, 100000))),
        (lambda: Identity(10**5).gram(), ("workload", (100000, 100000))),
        (lambda: CumulativeSum(10**5).gram(), ("workload", (100000, 100000))),
        (lambda: SomeRanges(10**5, [0], [1]).gram(), ("workload", (100000, 100000))),
        (lambda: Matrix(np.ones((1, 10**5))).gram(), ("workload", (100000, 100000))),
        (lambda: from_entries(scipy.sparse.coo_array((1, 10**5))).gram(), ("workload", (100000, 100000))),
        (
            lambda: from_entries(scipy.sparse.coo_array((10**6, 10**6))).dense(),
            ("workload", (1000000, 1000000)),
        ),
        (lambda: RowScaled(AllOnes(10**5), np.ones(1)).gram(), ("workload", (100000, 100000))),
        (lambda: Stack([AllOnes(10**5)] * 2).gram(), ("workload", (100000, 100000))),
        (lambda: Identity(10**5).weighted_gram(np.ones(10**5)), ("workload", (100000, 100000))),
        (lambda: AllOnes(10**5).weighted_gram(np.ones(1)), ("workload", (100000, 100000))),
        (lambda: CumulativeSum(10**5).weighted_gram(np.ones(10**5)), ("workload", (100000, 100000))),
        (lambda: SomeRanges(10**5, [0], [1]).weighted_gram(np.ones(1)), ("workload", (100000, 100000))),
        (lambda: Matrix(np.ones((1, 10**5))).weighted_gram(np.ones(1)), ("workload", (100000, 100000))),
        (lambda: Padded(AllOnes(2), 10**5).weighted_gram(np.ones(1)), ("workload", (100000, 100000))),
        (lambda: Stack([AllOnes(10**5)] * 2).weighted_gram(np.ones(2)), ("workload", (100000, 100000))),
        (CELLS.dense, ("workload", (100000000000000000000, 100000000000000000000))),
        (CELLS.gram, ("workload", (100000000000000000000, 100000000000000000000))),
        (CELLS.column_norms, ("workload", (100000000000000000000, 1))),
        (lambda: CELLS.rows([5]), ("workload", (1, 100000000000000000000))),
        (lambda: Stack([CELLS] * 3).rows([5]), ("workload", (1, 100000000000000000000))),
        (lambda: AllOnes(10**20).rows([0]), ("workload", (100000000000000000000, 1))),
        (lambda: Identity(10**20).column_norms(), ("workload", (100000000000000000000, 1))),
    ],
)
def test_what_would_not_fit_is_refused_with_the_number(ask: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(TooLargeError, *refusal):
        ask()


def test_room_ends_exactly_where_it_says() -> None:
    require_room(MAX_ENTRIES, 1, "it")
    with refuses(TooLargeError, "workload", (536870913, 1)) as caught:
        require_room(MAX_ENTRIES + 1, 1, "it")
    assert "ask for fewer queries or coarser attributes" in str(caught.value)
    assert isinstance(caught.value, MemoryError)


def test_a_few_queries_over_many_cells_are_dense_without_a_square() -> None:
    """The dense form used to multiply by an identity of cells x cells: 8 TB for this total."""
    assert AllOnes(10**6).dense().shape == (1, 10**6)
    wide = Kronecker([AllOnes(1000), Stack([AllOnes(1000), SomeRanges(1000, [3], [5])])])
    assert wide.dense().sum() == 10**6 + 3 * 1000
    assert Matrix(np.ones((2, 10**5), dtype=np.int8)).dense(np.int64).sum() == 2 * 10**5


def test_many_ranges_are_not_written_out_to_know_their_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of a million ranges took minutes: nearly all rows were multiplied out one by one."""
    n = 300
    # Sums from the first cell on are measured with unit noise: a range has that of both of its ends.
    gain = np.eye(n) - np.eye(n, k=-1)
    expected = [1.0 if low == 0 else 2.0 for low in range(n) for _ in range(low, n)]
    monkeypatch.setattr(EveryRange, "rows", lambda *_: pytest.fail("rows were written out"))
    monkeypatch.setattr(base, "MAX_MULTIPLIED", 0)
    np.testing.assert_allclose(base.squared_rows(EveryRange(n), gain), expected, rtol=1e-12)


def test_squared_products_are_those_of_the_rows_multiplied_out() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        n, r = rng.integers(1, 12, size=2)
        gain = rng.standard_normal((n, r)) * 10.0 ** rng.uniform(-1, 1, size=(n, 1))
        every = EveryRange(n)
        for operator in (
            every,
            CumulativeSum(n),
            SomeRanges(n, [0, 0], [0, n - 1]),
            Stack([every, Identity(n)]),
            RowScaled(every, rng.standard_normal(every.shape[0])),
            Padded(every, n + 1),
            Kronecker([every, CumulativeSum(2)]),
        ):
            wide = np.resize(gain, (operator.shape[1], r))
            expected = ((operator.dense().astype(np.longdouble) @ wide) ** 2).sum(axis=1)
            np.testing.assert_allclose(operator.squared_products(wide), expected.astype(float), rtol=2e-9)


def test_a_stack_is_multiplied_out_part_by_part() -> None:
    """Every part was multiplied with the rows of all others, which took 53 s for a cube over 8 attributes."""
    seen: list[int] = []

    class Watched(Identity):
        def adjoint(self, y: Array) -> Array:
            seen.append(y.shape[1])
            return super().adjoint(y)

    parts = [Kronecker([Watched(3), AllOnes(50)]), Kronecker([AllOnes(3), AllOnes(50)]), AllOnes(150)]
    dense = Stack(parts).dense()
    assert max(seen, default=0) <= 3
    assert np.array_equal(dense, np.vstack([part.apply(np.eye(150)) for part in parts]))
