"""Integer arithmetic against Python's own integers, at every width up to and beyond 64 bits."""

from __future__ import annotations

import ast
import inspect
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.core import exact_integers as exact

WIDTHS = (0, 1, 7, 15, 20, 29, 30, 31, 32, 33, 44, 52, 53, 54, 59, 60, 61, 62, 63)
WIDE = (64, 65, 100, 200)
SHAPES = ((1, 1, 1), (1, 40, 1), (3, 2, 4), (5, 33, 2), (2, 300, 1))


def integers(rng: np.random.Generator, bits: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Entries of up to so many bits, the extremes among them; Python integers beyond int64."""
    top = 2**bits - 1
    flat = [int.from_bytes(rng.bytes(32), "big") % (2 * top + 1) - top for _ in range(int(np.prod(shape)))]
    flat[0] = top
    flat[-1] = -top
    if bits == 63:
        flat[-1] = -(2**63)
    array = np.empty(len(flat), dtype=object)
    array[:] = flat
    array = array.reshape(shape)
    return array.astype(np.int64) if bits <= 63 else array


def by_hand(left: Any, right: Any) -> list[Any]:
    """left @ right in Python integers."""
    columns = right if right.ndim == 2 else right[:, None]
    rows = [
        [sum(int(a) * int(b) for a, b in zip(row, col, strict=True)) for col in columns.T] for row in left
    ]
    return rows if right.ndim == 2 else [row[0] for row in rows]


def products(seed: int) -> Iterator[tuple[Any, Any]]:
    """Pairs to multiply: every width on either side."""
    rng = np.random.default_rng(seed)
    for left_bits in WIDTHS + WIDE:
        for right_bits in (1, 20, 31, 44, 62, 63, 90):
            m, n, c = SHAPES[int(rng.integers(len(SHAPES)))]
            yield integers(rng, left_bits, (m, n)), integers(rng, right_bits, (n, c))


def multiplies_exactly(multiply: Callable[[Any, Any], Any], seed: int) -> bool:
    return all(multiply(a, b).tolist() == by_hand(a, b) for a, b in products(seed))


def answers_exactly(multiply: Callable[[Any, Any], Any], seed: int) -> bool:
    return all(multiply(a, b[:, 0]).tolist() == by_hand(a, b[:, 0]) for a, b in products(seed))


def wrapping(left: Any, right: Any) -> Any:
    return left @ right


def through_floats(left: Any, right: Any) -> Any:
    return (left.astype(float) @ right.astype(float)).astype(object)


def limbs_without_sign(left: Any, right: Any) -> Any:
    """Forgets that the last limb of a negative number is −1."""
    low, high = right & (2**31 - 1), (right >> 31) & (2**32 - 1)
    return left.astype(object) @ low.astype(object) + ((left.astype(object) @ high.astype(object)) << 31)


def in_int64(left: Any, right: Any) -> Any:
    """leftᵀ right without floats."""
    return left.T @ right


@pytest.mark.thorough
def test_product_is_exact_at_every_width() -> None:
    assert multiplies_exactly(exact.product, 1)
    assert multiplies_exactly(partial(exact.product, multiply=in_int64), 1)


@pytest.mark.thorough
@given(
    st.integers(0, 600),
    st.integers(0, 600),
    st.tuples(st.integers(0, 4), st.integers(0, 40), st.integers(0, 4)),
    st.integers(0, 2**32),
)
def test_product_of_any_widths_and_shapes(left: int, right: int, shape: tuple[int, ...], seed: int) -> None:
    """Extreme entries, where limbs of both signs are longest and sums do not cancel."""
    rng = random.Random(seed)
    m, k, n = shape

    def drawn(bits: int, rows: int, columns: int) -> Any:
        ends = [2**bits - 1, 1 - 2**bits, -(2 ** max(bits - 1, 0)), 0, rng.getrandbits(bits)]
        entries = np.empty((rows, columns), dtype=object)
        for place in np.ndindex(rows, columns):
            entries[place] = rng.choice(ends)
        return exact.as_integers(entries)

    A, B = drawn(left, m, k), drawn(right, k, n)
    found = exact.product(A, B)
    assert found.shape == (m, n)
    assert found.tolist() == by_hand(A, B)


def test_counts_are_multiplied_exactly_at_every_width() -> None:
    assert answers_exactly(exact.matrix_times_counts, 2)


@pytest.mark.parametrize("broken", [wrapping, through_floats, limbs_without_sign])
def test_inexact_products_are_noticed(broken: Callable[[Any, Any], Any]) -> None:
    assert not multiplies_exactly(broken, 1)
    assert not answers_exactly(broken, 2)


def test_answers_are_python_integers_of_any_size() -> None:
    matrix = np.full((2, 3), 2**61)
    answers = exact.matrix_times_counts(matrix, np.full(3, 2**62))
    assert answers.tolist() == [3 * 2**123] * 2
    assert all(type(answer) is int for answer in answers)


def test_counts_at_the_ends_of_int64() -> None:
    ends = np.array([-(2**63), 2**63 - 1, -1, 0, 1])
    for bits in (1, 30, 50, 58, 59, 60, 61, 62):
        matrix = np.array([[2**bits - 1] * 5, [-(2**bits) + 1] * 5, [1, -1, 1, -1, 1]])
        assert exact.matrix_times_counts(matrix, ends).tolist() == by_hand(matrix, ends)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.bool_])
def test_narrow_integers_do_not_wrap(dtype: Any) -> None:
    """Eight-bit entries used to be multiplied in eight bits."""
    top = 1 if dtype is np.bool_ else np.iinfo(dtype).max
    entries = np.full((3, 4), top).astype(dtype)
    assert exact.product(entries, entries.T).tolist() == by_hand(entries, entries.T)
    assert exact.matrix_times_counts(entries, entries[0]).tolist() == by_hand(entries, entries[0])
    assert exact.column_square_sums(entries) == [3 * int(top) ** 2] * 4
    assert exact.column_absolute_sums(entries) == [3 * int(top)] * 4


@pytest.mark.parametrize("dtype", [np.float64, np.uint64, np.complex128])
def test_other_numbers_are_refused_instead_of_rounded(dtype: Any) -> None:
    entries = np.ones((2, 2)).astype(dtype)
    for call in (
        lambda: exact.as_integers(entries),
        lambda: exact.product(entries, np.eye(2, dtype=int)),
        lambda: exact.matrix_times_counts(np.eye(2, dtype=int), entries[0]),
        lambda: exact.column_square_sums(entries),
        lambda: exact.column_absolute_sums(entries),
        lambda: exact.largest_pair_costs(entries, 2),
    ):
        with pytest.raises(TypeError):
            call()


# Column sums ---------------------------------------------------------------------------------

Sums = Callable[[Any], list[int]]


def sums_exactly(squares: Sums, absolutes: Sums, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    for bits in WIDTHS + WIDE:
        for shape in ((1, 1), (1, 5), (40, 3), (300, 2)):
            matrix = integers(rng, bits, shape)
            columns = [[int(a) for a in column] for column in matrix.T]
            if squares(matrix) != [sum(a * a for a in column) for column in columns]:
                return False
            if absolutes(matrix) != [sum(abs(a) for a in column) for column in columns]:
                return False
    return True


def test_column_sums_are_exact_at_every_width() -> None:
    assert sums_exactly(exact.column_square_sums, exact.column_absolute_sums, 3)


def test_inexact_column_sums_are_noticed() -> None:
    def wrapped_squares(matrix: Any) -> list[int]:
        return [int(total) for total in (matrix * matrix).sum(axis=0)]

    def wrapped_absolutes(matrix: Any) -> list[int]:
        return [int(total) for total in np.abs(matrix).sum(axis=0)]

    def rounded_squares(matrix: Any) -> list[int]:
        return [int(total) for total in (matrix.astype(float) ** 2).sum(axis=0)]

    assert not sums_exactly(wrapped_squares, exact.column_absolute_sums, 3)
    assert not sums_exactly(rounded_squares, exact.column_absolute_sums, 3)
    assert not sums_exactly(exact.column_square_sums, wrapped_absolutes, 3)


def test_forty_entries_of_thirty_bits() -> None:
    assert exact.column_square_sums(np.full((40, 1), 2**30)) == [40 * 2**60]


def test_no_rows_cost_nothing() -> None:
    nothing = np.zeros((0, 3), dtype=np.int64)
    assert exact.column_square_sums(nothing) == [0, 0, 0]
    assert exact.column_absolute_sums(nothing.astype(object)) == [0, 0, 0]
    assert exact.bit_length(nothing) == 0


# Pairs of columns ----------------------------------------------------------------------------

Costs = Callable[[Any, int], list[int]]


def pair_costs_by_hand(matrix: Any, power: int) -> list[int]:
    columns = [[int(a) for a in column] for column in matrix.T]
    others = [*columns, [0] * len(matrix)]
    return [max(sum(abs(a - b) ** power for a, b in zip(c, d, strict=True)) for d in others) for c in columns]


def compares_exactly(costs: Costs, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    for bits in WIDTHS + WIDE:
        for shape in ((1, 1), (1, 5), (40, 3), (3, 8), (7, 6)):
            matrix = integers(rng, bits, shape)
            if rng.random() < 0.5:
                matrix = matrix[:, rng.integers(0, shape[1], shape[1] + 2)]
            for power in (1, 2):
                if costs(matrix, power) != pair_costs_by_hand(matrix, power):
                    return False
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("block", [1, 3, 512])
def test_pairs_are_compared_exactly_at_every_width(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_BLOCK", block)
    assert compares_exactly(exact.largest_pair_costs, 5)
    assert compares_exactly(partial(exact.largest_pair_costs, multiply=in_int64), 5)


def test_pairs_are_compared_exactly_entry_by_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_WIDEST_BY_LIMBS", -1)
    assert compares_exactly(exact.largest_pair_costs, 5)


def test_inexact_comparisons_of_pairs_are_noticed() -> None:
    def with_zero(matrix: Any) -> Any:
        return np.hstack([matrix, np.zeros((len(matrix), 1), dtype=matrix.dtype)])

    def wrapped(matrix: Any, power: int) -> list[int]:
        wide = with_zero(matrix)
        return [int((abs(wide - wide[:, [i]]) ** power).sum(axis=0).max()) for i in range(matrix.shape[1])]

    def rounded(matrix: Any, power: int) -> list[int]:
        return wrapped(matrix.astype(float), power)

    def without_zero(matrix: Any, power: int) -> list[int]:
        wide = matrix.astype(object)
        return [int((abs(wide - wide[:, [i]]) ** power).sum(axis=0).max()) for i in range(matrix.shape[1])]

    def alone(matrix: Any, power: int) -> list[int]:
        return (exact.column_absolute_sums if power == 1 else exact.column_square_sums)(matrix)

    with np.errstate(over="ignore"):
        for broken in (wrapped, rounded, without_zero, alone):
            assert not compares_exactly(broken, 5), broken.__name__


def test_limbs_too_long_for_floats_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of 52 bits is what keeps the floats exact."""
    rng = np.random.default_rng(6)
    matrix = rng.integers(-(2**45), 2**45, (60, 5))
    expected = pair_costs_by_hand(matrix, 2)
    columns = rng.integers(-(2**10), 2**10, (5, 3))
    assert exact.largest_pair_costs(matrix, 2) == expected
    assert exact.product(matrix, columns).tolist() == by_hand(matrix, columns)
    monkeypatch.setattr(exact, "EXACT_BITS", 60)
    assert exact.largest_pair_costs(matrix, 2, in_int64) == expected
    assert exact.largest_pair_costs(matrix, 2) != expected
    assert exact.product(matrix, columns, in_int64).tolist() == by_hand(matrix, columns)
    assert exact.product(matrix, columns).tolist() != by_hand(matrix, columns)


@pytest.mark.parametrize("values", [2, 3, 40])
def test_few_values_and_many_give_the_same_absolute_differences(values: int) -> None:
    rng = np.random.default_rng(7)
    # A common factor is taken out, and a row of one value costs nothing but its distance from zero.
    for scale in (1, 2**30, 3 * 2**58):
        matrix = rng.integers(-1, values - 1, (30, 9)).astype(object) * scale
        matrix[0] = 5
        assert exact.largest_pair_costs(exact.as_integers(matrix), 1) == pair_costs_by_hand(matrix, 1)


def test_pairs_beyond_one_block() -> None:
    rng = np.random.default_rng(8)
    matrix = rng.integers(-(2**33), 2**33, (3, exact._BLOCK + 40))
    wide = np.hstack([matrix, np.zeros((3, 1), dtype=int)]).astype(object)
    for power in (1, 2):
        expected = [
            int((abs(wide - wide[:, [i]]) ** power).sum(axis=0).max()) for i in range(matrix.shape[1])
        ]
        assert exact.largest_pair_costs(matrix, power) == expected


def test_pairs_without_rows_cost_nothing() -> None:
    for nothing in (np.zeros((0, 3), dtype=int), np.zeros((2, 3), dtype=int), np.zeros((2, 3), dtype=object)):
        assert exact.largest_pair_costs(nothing, 1) == exact.largest_pair_costs(nothing, 2) == [0, 0, 0]


# Reading and limbs ---------------------------------------------------------------------------


def test_bit_length_of_extremes() -> None:
    for value in (0, 1, -1, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**64, -(2**200)):
        array = np.array([0, value], dtype=object)
        assert exact.bit_length(array) == abs(value).bit_length()
        if -(2**63) <= value < 2**63:
            assert exact.bit_length(array.astype(np.int64)) == abs(value).bit_length()


def test_as_integers_keeps_every_value_and_its_own_copy() -> None:
    for value, dtype in ((2**62 - 1, np.int64), (2**62, object), (-(2**62), object), (2**90, object)):
        given = np.array([[value, -1]], dtype=object)
        kept = exact.as_integers(given)
        assert kept.dtype == dtype
        given[0, 0] = 5
        assert kept.tolist() == [[value, -1]]
    given = np.array([1, 2])
    kept = exact.as_integers(given)
    given[0] = 7
    assert kept.tolist() == [1, 2]


def test_numpy_scalars_among_python_integers_do_not_wrap() -> None:
    """np.int64(2^40) inside an object array squared to 2^80 modulo 2^64."""
    mixed = np.empty((2, 1), dtype=object)
    mixed[0, 0], mixed[1, 0] = np.int64(2**40), 2**70
    assert exact.column_square_sums(exact.as_integers(mixed)) == [2**80 + 2**140]


@pytest.mark.parametrize("value", [1.0, 0.5, float("nan"), "3", None, np.float64(2)])
def test_object_arrays_of_other_things_are_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        exact.as_integers(np.array([value], dtype=object))


def test_limbs_give_back_every_integer() -> None:
    rng = np.random.default_rng(4)
    for bits in WIDTHS + WIDE + (119, 120, 121, 1000):
        array = integers(rng, min(bits, 255), (3, 2))
        if bits > 255:
            array = array << (bits - 255)
        limbs = exact.to_limbs(array)
        assert limbs.dtype == np.int64 and limbs.shape[:-1] == array.shape
        assert exact.from_limbs(limbs).tolist() == array.tolist()


def test_limbs_of_awkward_values() -> None:
    values = [s * 2**e + d for e in (59, 60, 61, 62, 119, 120, 180) for s in (1, -1) for d in (-1, 0, 1)]
    array = np.array(values, dtype=object)
    assert exact.from_limbs(exact.to_limbs(array)).tolist() == values
    broken = exact.to_limbs(array)
    broken[3, 0] ^= 1
    assert exact.from_limbs(broken).tolist() != values


# The file itself -----------------------------------------------------------------------------


def holds_floats(source: str) -> bool:
    """Whether source code has a float literal, a true division or the word float."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, (float, complex)):
            return True
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div):
            return True
        if isinstance(node, ast.Name) and node.id == "float":
            return True
        if isinstance(node, ast.Attribute) and node.attr.startswith(("float", "sqrt", "linalg", "double")):
            return True
    return False


def test_no_float_appears_in_exact() -> None:
    assert not holds_floats(inspect.getsource(exact))


@pytest.mark.parametrize(
    "line", ["x = 0.5", "x = a / b", "x /= 2", "float(3)", "np.float64(2)", "a.astype(float)", "math.sqrt(2)"]
)
def test_a_float_in_exact_would_be_noticed(line: str) -> None:
    assert holds_floats(inspect.getsource(exact) + "\n" + line + "\n")
