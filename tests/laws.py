"""What every operator obeys.

Each law is a plain function of an operator and the matrix it should stand for,
written out independently of its class. `OPERATORS` lists examples; a new class
joins by one line. `BROKEN` lists operators with one fault each, and the law that
must notice it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators import (
    AllOnes,
    Array,
    CumulativeSum,
    Deferred,
    EveryLevel,
    EveryRange,
    Groups,
    Identity,
    Kronecker,
    Matrix,
    Operator,
    Padded,
    Reordered,
    RowScaled,
    Selected,
    SomeRanges,
    SparseMatrix,
    Stack,
)
from tolerances import ROUNDING


def close(actual: Any, expected: Any) -> None:
    """The same shape and the same numbers, up to rounding of the largest."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(actual, expected, rtol=ROUNDING, atol=ROUNDING * scale)


def _generator(matrix: Array) -> np.random.Generator:
    return np.random.default_rng(matrix.shape)


def shape_is_two_python_integers(operator: Operator, matrix: Array) -> None:
    assert operator.shape == matrix.shape
    assert all(type(size) is int for size in operator.shape)


def dense_is_the_matrix(operator: Operator, matrix: Array) -> None:
    dense = operator.dense()
    assert dense.dtype == np.float64
    close(dense, matrix)
    dense += 1  # the caller's own copy
    close(operator.dense(), matrix)


def dense_in_integers_is_exact_or_refused(operator: Operator, matrix: Array) -> None:
    if operator.is_integer:
        dense = operator.dense(np.int64)
        assert dense.dtype == np.int64
        assert np.array_equal(dense, matrix)
    else:
        with pytest.raises(WorkloadError, match="integer entries were asked of a matrix that holds other"):
            operator.dense(np.int64)


def largest_bounds_every_entry(operator: Operator, matrix: Array) -> None:
    assert np.abs(matrix).max() <= operator.largest * (1 + ROUNDING)


def apply_multiplies_vectors_and_blocks(operator: Operator, matrix: Array) -> None:
    rng = _generator(matrix)
    for columns in ((), (1,), (3,)):
        x = rng.normal(size=(matrix.shape[1], *columns))
        close(operator.apply(x), matrix @ x)


def apply_is_exact_on_integers(operator: Operator, matrix: Array) -> None:
    x = _generator(matrix).integers(0, 2**20, size=matrix.shape[1])
    if operator.is_integer:
        answers = operator.apply(x)
        assert answers.dtype == np.int64
        exact = [sum(int(w) * int(v) for w, v in zip(row, x, strict=True)) for row in matrix]
        assert answers.tolist() == exact


def adjoint_multiplies_by_the_transpose(operator: Operator, matrix: Array) -> None:
    rng = _generator(matrix)
    for columns in ((), (1,), (3,)):
        y = rng.normal(size=(matrix.shape[0], *columns))
        close(operator.adjoint(y), matrix.T @ y)


def adjoint_moves_across_the_inner_product(operator: Operator, matrix: Array) -> None:
    rng = _generator(matrix)
    u, v = rng.normal(size=matrix.shape[1]), rng.normal(size=matrix.shape[0])
    close(operator.apply(u) @ v, u @ operator.adjoint(v))


def products_leave_their_argument_alone(operator: Operator, matrix: Array) -> None:
    rng = _generator(matrix)
    for step, size in ((operator.apply, matrix.shape[1]), (operator.adjoint, matrix.shape[0])):
        given = rng.normal(size=size)
        before = given.copy()
        result = step(given)
        assert np.array_equal(given, before)
        assert not np.shares_memory(result, given)


def gram_is_transpose_times_matrix(operator: Operator, matrix: Array) -> None:
    gram = operator.gram()
    assert gram.dtype == np.float64
    close(gram, matrix.T @ matrix)
    gram += 1  # the caller's own copy
    close(operator.gram(), matrix.T @ matrix)


def weighted_gram_has_the_weights_between(operator: Operator, matrix: Array) -> None:
    m = matrix.shape[0]
    rng = _generator(matrix)
    # Of either sign, and with further axes.
    for weights in (
        rng.uniform(0.1, 2, m),
        rng.normal(size=m),
        rng.normal(size=(m, 1)),
        rng.normal(size=(m, 2, 3)),
    ):
        before = weights.copy()
        expected = np.einsum("ji,j...,jk->ik...", matrix, weights, matrix)
        gram = operator.weighted_gram(weights)
        assert gram.dtype == np.float64
        close(gram, expected)
        assert np.array_equal(weights, before)
        gram += 1  # the caller's own copy
        close(operator.weighted_gram(weights), expected)


def quick_operators_visit_no_rows(operator: Operator, matrix: Array) -> None:
    m, n = matrix.shape
    if not operator.is_quick:
        return

    def visited(*_: Any) -> Any:
        raise AssertionError("a quick operator has written out its rows")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Operator, "_row_blocks", visited)
        patch.setattr(type(operator), "rows", visited)
        operator.weighted_gram(np.ones(m))
        operator.quadratic(np.eye(n))


def rows_picks_rows(operator: Operator, matrix: Array) -> None:
    m = matrix.shape[0]
    for index in ([], [m - 1], [m - 1, 0, m // 2, 0], np.arange(m)):
        rows = operator.rows(index)
        assert rows.dtype == np.float64
        close(rows, matrix[np.asarray(index, dtype=int)])


def columns_picks_columns(operator: Operator, matrix: Array) -> None:
    n = matrix.shape[1]
    for index in ([], [n - 1], [n - 1, 0, n // 2, 0], np.arange(n)):
        columns = operator.columns(index)
        assert columns.dtype == np.float64
        close(columns, matrix[:, np.asarray(index, dtype=int)])


def column_norms_are_those_of_the_columns(operator: Operator, matrix: Array) -> None:
    close(operator.column_norms(1), np.abs(matrix).sum(axis=0))
    close(operator.column_norms(2), np.sqrt((matrix**2).sum(axis=0)))
    close(operator.column_norms(), np.sqrt((matrix**2).sum(axis=0)))
    for order in (0, 3):
        with pytest.raises(ValueError, match=f"order must be 1 or 2, got {order}"):
            operator.column_norms(order)


def row_norms_are_those_of_the_rows(operator: Operator, matrix: Array) -> None:
    close(operator.row_norms(), np.sqrt((matrix**2).sum(axis=1)))


def quadratic_is_the_diagonal(operator: Operator, matrix: Array) -> None:
    n = matrix.shape[1]
    rng = _generator(matrix)
    for tail in ((), (1,), (2, 3)):
        Y = rng.normal(size=(n, n, *tail))  # not symmetric
        close(operator.quadratic(Y), np.einsum("ji,ik...,jk->j...", matrix, Y, matrix))


def basis_spans_the_same_rows(operator: Operator, matrix: Array) -> None:
    basis = operator.basis()
    B = basis.dense()
    both = np.linalg.matrix_rank(np.vstack([matrix, B]))
    assert both == np.linalg.matrix_rank(matrix), "the basis has a direction too many"
    assert both == np.linalg.matrix_rank(B), "the basis has lost a direction"
    assert basis.is_integer or not operator.is_integer, "the basis of an integer matrix must be integer"


Law = Callable[[Operator, Array], None]

LAWS: tuple[Law, ...] = (
    shape_is_two_python_integers,
    dense_is_the_matrix,
    dense_in_integers_is_exact_or_refused,
    largest_bounds_every_entry,
    apply_multiplies_vectors_and_blocks,
    apply_is_exact_on_integers,
    adjoint_multiplies_by_the_transpose,
    adjoint_moves_across_the_inner_product,
    products_leave_their_argument_alone,
    gram_is_transpose_times_matrix,
    weighted_gram_has_the_weights_between,
    quick_operators_visit_no_rows,
    rows_picks_rows,
    columns_picks_columns,
    column_norms_are_those_of_the_columns,
    row_norms_are_those_of_the_rows,
    quadratic_is_the_diagonal,
    basis_spans_the_same_rows,
)


@dataclass(frozen=True)
class Example:
    """An operator and the matrix it stands for."""

    name: str
    operator: Operator
    matrix: Array = field(repr=False)

    def __str__(self) -> str:
        return self.name


def _example(name: str, operator: Operator, rows: Any) -> Example:
    return Example(name, operator, np.array(rows, dtype=float))


# The same matrices from their definitions, by loops.


def identity(n: int) -> list[list[int]]:
    return [[int(i == j) for j in range(n)] for i in range(n)]


def ones(n: int) -> list[list[int]]:
    return [[1] * n]


def prefixes(n: int) -> list[list[int]]:
    return [[int(j <= i) for j in range(n)] for i in range(n)]


def intervals(n: int, ends: list[tuple[int, int]]) -> list[list[int]]:
    return [[int(low <= j <= high) for j in range(n)] for low, high in ends]


def every_interval(n: int) -> list[list[int]]:
    return intervals(n, [(low, high) for low in range(n) for high in range(low, n)])


def product(*matrices: Any) -> list[list[float]]:
    """Row (i, j) and column (k, l) hold a_ik b_jl, the last attribute fastest."""
    total: list[list[float]] = [[1]]
    for matrix in matrices:
        total = [[a * b for a in upper for b in lower] for upper in total for lower in matrix]
    return total


SIGNED = [[1, -2, 0], [0, 3, -1], [-4, 0, 0], [0, 0, 0]]  # tall, with a zero row
REAL = [[0.5, -1.25, 3.0, 0.0, 1e-3], [0.1, 0.2, 0.3, 0.4, 0.5]]  # wide
SQUARE = [[1, 2], [3, -4]]
ENDS = [(0, 4), (1, 3), (2, 2), (1, 3), (0, 0)]  # one twice
LARGE = [[2**40, 1], [-(2**20), 0]]


def _ranges(n: int, ends: list[tuple[int, int]]) -> SomeRanges:
    return SomeRanges(n, [low for low, _ in ends], [high for _, high in ends])


def _duplicated() -> scipy.sparse.coo_array:
    """SQUARE, its entry 3 given as 1 + 2."""
    return scipy.sparse.coo_array(([1, 2, 1, 2, -4], ([0, 0, 1, 1, 1], [0, 1, 0, 0, 1])), shape=(2, 2))


def _reordered() -> Operator:
    """Rows over (third, first, second) of three attributes with 2, 3 and 2 values."""
    inner = Kronecker([CumulativeSum(2), Matrix([[1, -2, 0]]), AllOnes(2)])
    return Reordered(inner, [2, 3, 2], [2, 1, 0])


# Row k, column of cell (a, b, c): prefix over c, weights 1, -2, 0 over b, everything over a.
REORDERED = [
    [[1, -2, 0][b] if c <= k else 0 for a in range(2) for b in range(3) for c in range(2)] for k in range(2)
]
GROUPED = [[0, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 1]]


def _nested() -> Operator:
    inner = Stack([Kronecker([CumulativeSum(2), AllOnes(2)]), Identity(4)])
    return Kronecker([inner, Matrix(SQUARE)])


OPERATORS: list[Example] = [
    *(_example(f"Identity({n})", Identity(n), identity(n)) for n in (1, 2, 5)),
    *(_example(f"AllOnes({n})", AllOnes(n), ones(n)) for n in (1, 2, 5)),
    *(_example(f"CumulativeSum({n})", CumulativeSum(n), prefixes(n)) for n in (1, 2, 5)),
    *(_example(f"EveryRange({n})", EveryRange(n), every_interval(n)) for n in (1, 2, 5)),
    _example("SomeRanges(1)", _ranges(1, [(0, 0)]), [[1]]),
    _example("SomeRanges(2), wide", _ranges(2, [(0, 1)]), [[1, 1]]),
    _example("SomeRanges(5)", _ranges(5, ENDS), intervals(5, ENDS)),
    _example("Matrix of one entry", Matrix([[-3]]), [[-3]]),
    _example("Matrix of zeros", Matrix(np.zeros((2, 3))), np.zeros((2, 3))),
    _example("Matrix, tall and signed", Matrix(SIGNED), SIGNED),
    _example("Matrix, wide and real", Matrix(REAL), REAL),
    _example("Matrix, large entries", Matrix(LARGE), LARGE),
    _example("Matrix of truth values", Matrix([[True, False], [True, True]]), [[1, 0], [1, 1]]),
    _example("SparseMatrix of one entry", SparseMatrix(scipy.sparse.csr_array([[2]])), [[2]]),
    _example("SparseMatrix, tall", SparseMatrix(scipy.sparse.csc_array(np.array(SIGNED))), SIGNED),
    _example("SparseMatrix, real", SparseMatrix(scipy.sparse.csr_matrix(np.array(REAL))), REAL),
    _example("SparseMatrix, duplicates", SparseMatrix(_duplicated()), SQUARE),
    _example("SparseMatrix, empty", SparseMatrix(scipy.sparse.coo_array((2, 5))), np.zeros((2, 5))),
    _example("Deferred", Deferred((5, 5), lambda: CumulativeSum(5)), prefixes(5)),
    _example("Deferred, real", Deferred((len(REAL), len(REAL[0])), lambda: Matrix(REAL)), REAL),
    _example("Kronecker of one", Kronecker([EveryRange(2)]), every_interval(2)),
    _example(
        "Kronecker of three",
        Kronecker([CumulativeSum(2), AllOnes(5), EveryRange(2)]),
        product(prefixes(2), ones(5), every_interval(2)),
    ),
    _example(
        "Kronecker, signed and real",
        Kronecker([Matrix(SIGNED), Matrix(REAL)]),
        product(SIGNED, REAL),
    ),
    _example(
        "Kronecker with a sparse factor",
        Kronecker([SparseMatrix(_duplicated()), Identity(2), AllOnes(1)]),
        product(SQUARE, identity(2)),
    ),
    _example(
        "Kronecker of seven",
        Kronecker(
            [AllOnes(2), Identity(1), Matrix(SQUARE), AllOnes(2), EveryRange(1), AllOnes(1), Identity(2)]
        ),
        product(ones(2), SQUARE, ones(2), identity(2)),
    ),
    _example("Padded by none", Padded(EveryRange(2), 2), every_interval(2)),
    _example("Padded by two", Padded(CumulativeSum(2), 4), [[1, 0, 0, 0], [1, 1, 0, 0]]),
    _example("Padded, real", Padded(Matrix(REAL), 6), [[*row, 0] for row in REAL]),
    _example("Groups of one cell", Groups([0], 1), [[1]]),
    _example("Groups, an empty one too", Groups([2, 0, -1, 0, 2], 3), GROUPED),
    _example(
        "EveryLevel",
        EveryLevel([Groups([0, 0, 1, 1, 1], 2), Groups([0, 1, 2, -1, -1], 3), Groups([-1, -1, -1, 0, 1], 2)]),
        [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], *identity(5)],
    ),
    _example("Reordered into itself", Reordered(CumulativeSum(2), [2], [0]), prefixes(2)),
    _example("Reordered, three attributes", _reordered(), REORDERED),
    _example(
        "Reordered, spanning",
        Reordered(Kronecker([Identity(2), Identity(3)]), [3, 2], [1, 0]),
        [[float((i % 3) * 2 + i // 3 == j) for j in range(6)] for i in range(6)],
    ),
    _example("Stack of one", Stack([Matrix(SIGNED)]), SIGNED),
    _example("Stack that spans", Stack([AllOnes(5), CumulativeSum(5)]), ones(5) + prefixes(5)),
    _example("Stack, deficient", Stack([AllOnes(2), Matrix([[2, 2]])]), [[1, 1], [2, 2]]),
    _example("Stack of integer and real", Stack([_ranges(5, ENDS), Matrix(REAL)]), intervals(5, ENDS) + REAL),
    _example("Stack of Stack", Stack([Stack([AllOnes(2)]), Matrix(SQUARE)]), ones(2) + SQUARE),
    _example(
        "Stack of marginals",
        Stack([Kronecker([Identity(2), AllOnes(3)]), Kronecker([AllOnes(2), Identity(3)])]),
        product(identity(2), ones(3)) + product(ones(2), identity(3)),
    ),
    _example(
        "Kronecker of Stack of Kronecker",
        _nested(),
        product(product(prefixes(2), ones(2)) + identity(4), SQUARE),
    ),
    _example(
        "RowScaled, with zero and negative factors",
        RowScaled(Matrix(SIGNED), np.array([0.5, 0.0, -2.0, 1.0])),
        np.array(SIGNED) * [[0.5], [0.0], [-2.0], [1.0]],
    ),
    _example(
        "Selected, in another order",
        Selected(Kronecker([CumulativeSum(2), Identity(2)]), np.array([3, 0, 2])),
        np.kron(np.tril(np.ones((2, 2))), np.eye(2))[[3, 0, 2]],
    ),
    _example(
        "RowScaled of Kronecker",
        RowScaled(Kronecker([CumulativeSum(2), Identity(2)]), np.array([1.0, 2.0, 3.0, 0.1])),
        np.array(product(prefixes(2), identity(2))) * [[1.0], [2.0], [3.0], [0.1]],
    ),
    _example(
        "RowScaled of EveryRange",
        RowScaled(EveryRange(2), np.sqrt([1.0, 2.0, 3.0])),
        np.array(every_interval(2)) * np.sqrt([[1.0], [2.0], [3.0]]),
    ),
]


# One fault each.


class _AdjointOfAnother(CumulativeSum):
    def adjoint(self, y: Array) -> Array:
        return np.cumsum(y, axis=0)


class _ApplyOnLastAxis(CumulativeSum):
    def apply(self, x: Array) -> Array:
        return np.cumsum(x, axis=-1)


class _ApplyInPlace(Identity):
    def apply(self, x: Array) -> Array:
        return x


class _ApplyThroughFloats(AllOnes):
    def apply(self, x: Array) -> Array:
        return super().apply(x.astype(float))


class _GramOffByOne(CumulativeSum):
    def gram(self) -> Array:
        position = np.arange(self.shape[1], dtype=float)
        return self.shape[1] - 1 - np.maximum.outer(position, position)


class _GramOfRoots(CumulativeSum):
    """Weights by their roots: right for those that are not negative."""

    def weighted_gram(self, weights: Array) -> Array:
        rows = np.sqrt(np.abs(weights))[:, None] * self.dense()
        return rows.T @ rows


class _GramWithoutTail(EveryRange):
    """Only the first of several weights per row."""

    def weighted_gram(self, weights: Array) -> Array:
        return super().weighted_gram(weights.reshape(len(weights), -1)[:, 0])


class _GramInAnotherOrder(Stack):
    """Gives the first part the last weights."""

    def weighted_gram(self, weights: Array) -> Array:
        return super().weighted_gram(weights[::-1])


class _GramOfFactors(RowScaled):
    """Factors count squared, not as they are."""

    def weighted_gram(self, weights: Array) -> Array:
        return self.inner.weighted_gram(weights * self.factors)


class _WeightedGramHandsOutItsOwn(Identity):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.kept: dict[bytes, Array] = {}

    def weighted_gram(self, weights: Array) -> Array:
        return self.kept.setdefault(weights.tobytes(), super().weighted_gram(weights))


class _ClaimsToBeQuick(Matrix):
    @property
    def is_quick(self) -> bool:
        return True


class _NormsSquared(EveryRange):
    def column_norms(self, order: int = 2) -> Array:
        return super().column_norms(order) ** order


class _NormsOfSums(Matrix):
    """Forgets the absolute value: 1 − 2 cancels."""

    def column_norms(self, order: int = 2) -> Array:
        return np.abs(self.entries.sum(axis=0)) if order == 1 else super().column_norms(order)


class _NormsOfAnyOrder(Identity):
    def column_norms(self, order: int = 2) -> Array:
        return np.ones(self.shape[1])


class _RowNormsOfColumns(CumulativeSum):
    def row_norms(self) -> Array:
        return self.column_norms(2)


class _QuadraticOfUpperHalf(CumulativeSum):
    """Right for symmetric Y only."""

    def quadratic(self, Y: Array) -> Array:
        upper = np.swapaxes(np.triu(np.moveaxis(Y, (0, 1), (-2, -1))), -1, -2)
        mirrored = np.moveaxis(upper + np.swapaxes(np.tril(upper, -1), -1, -2), (-2, -1), (0, 1))
        return super().quadratic(mirrored)


class _QuadraticWithoutTail(Identity):
    def quadratic(self, Y: Array) -> Array:
        return np.diag(Y.reshape(*Y.shape[:2], -1)[:, :, 0])


class _QuadraticOfVariancesOnly(CumulativeSum):
    """Adds the diagonal of Y and forgets the covariances."""

    def quadratic(self, Y: Array) -> Array:
        return np.cumsum(np.einsum("ii...->i...", Y), axis=0)


class _RowsShifted(CumulativeSum):
    def rows(self, index: Any) -> Array:
        return super().rows((np.asarray(index, dtype=int) + 1) % self.shape[0])


class _RowsOnce(CumulativeSum):
    """Sorts the numbers and drops repeats."""

    def rows(self, index: Any) -> Array:
        return super().rows(np.unique(np.asarray(index, dtype=int)))


class _ColumnsShifted(CumulativeSum):
    def columns(self, index: Any) -> Array:
        return super().columns((np.asarray(index, dtype=int) + 1) % self.shape[1])


class _BasisLosesADirection(Stack):
    def basis(self) -> Operator:
        return Stack(self.parts[:-1])


class _BasisGainsADirection(AllOnes):
    def basis(self) -> Operator:
        return Identity(self.shape[1])


class _BasisOfHalves(Identity):
    def basis(self) -> Operator:
        return Matrix(0.5 * np.eye(self.shape[0]))


class _ClaimsIntegers(Matrix):
    @property
    def is_integer(self) -> bool:
        return True


class _LargestTooSmall(Matrix):
    @property
    def largest(self) -> float:
        return 1.0


class _DenseHandsOutItsOwn(Identity):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.kept = np.eye(n)

    def dense(self, dtype: Any = np.float64) -> Array:
        return self.kept


class _GramHandsOutItsOwn(Identity):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.kept = np.eye(n)

    def gram(self) -> Array:
        return self.kept


class _ShapeOfNumpy(Identity):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.shape = (np.int64(n), np.int64(n))  # type: ignore[assignment]


class _FastestFirst(Kronecker):
    """The first attribute fastest instead of the last."""

    def __init__(self, factors: list[Operator]) -> None:
        super().__init__(factors[::-1])


class _NormsAdded(Stack):
    """L2 norms add up as squares, not as they are."""

    def column_norms(self, order: int = 2) -> Array:
        if order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {order!r}")
        return np.sum([part.column_norms(order) for part in self.parts], axis=0)


class _PaddedOnTheLeft(Padded):
    def adjoint(self, y: Array) -> Array:
        return super().adjoint(y)[::-1]


class _ReorderedTheWrongWay(Reordered):
    def adjoint(self, y: Array) -> Array:
        return self.inner.adjoint(y)[self._places]


class _GroupsTakeTheLast(Groups):
    def adjoint(self, y: Array) -> Array:
        return y[self.groups]  # -1 means the last group to NumPy


BROKEN: list[tuple[Operator, Any, Law]] = [
    (_AdjointOfAnother(5), prefixes(5), adjoint_multiplies_by_the_transpose),
    (
        _PaddedOnTheLeft(CumulativeSum(2), 4),
        [[1, 0, 0, 0], [1, 1, 0, 0]],
        adjoint_multiplies_by_the_transpose,
    ),
    (
        _ReorderedTheWrongWay(
            Kronecker([CumulativeSum(2), Matrix([[1, -2, 0]]), AllOnes(2)]), [3, 2, 2], [1, 0, 2]
        ),
        [
            [[1, -2, 0][a] if b <= k else 0 for a in range(3) for b in range(2) for c in range(2)]
            for k in range(2)
        ],
        adjoint_multiplies_by_the_transpose,
    ),
    (_GroupsTakeTheLast([2, 0, -1, 0, 2], 3), GROUPED, adjoint_multiplies_by_the_transpose),
    (_AdjointOfAnother(2), prefixes(2), adjoint_moves_across_the_inner_product),
    (_ApplyOnLastAxis(5), prefixes(5), apply_multiplies_vectors_and_blocks),
    (_ApplyInPlace(2), identity(2), products_leave_their_argument_alone),
    (_ApplyThroughFloats(5), ones(5), apply_is_exact_on_integers),
    (_GramOffByOne(5), prefixes(5), gram_is_transpose_times_matrix),
    (_GramOffByOne(1), prefixes(1), gram_is_transpose_times_matrix),
    (_GramOfRoots(5), prefixes(5), weighted_gram_has_the_weights_between),
    (_GramWithoutTail(2), every_interval(2), weighted_gram_has_the_weights_between),
    (
        _GramInAnotherOrder([AllOnes(2), Identity(2)]),
        ones(2) + identity(2),
        weighted_gram_has_the_weights_between,
    ),
    (
        _GramOfFactors(Identity(2), np.array([2.0, 3.0])),
        [[2, 0], [0, 3]],
        weighted_gram_has_the_weights_between,
    ),
    (_WeightedGramHandsOutItsOwn(2), identity(2), weighted_gram_has_the_weights_between),
    (_ClaimsToBeQuick(SIGNED), SIGNED, quick_operators_visit_no_rows),
    (_NormsSquared(5), every_interval(5), column_norms_are_those_of_the_columns),
    (_NormsOfSums(SIGNED), SIGNED, column_norms_are_those_of_the_columns),
    (_NormsOfAnyOrder(2), identity(2), column_norms_are_those_of_the_columns),
    (_NormsAdded([Identity(2), AllOnes(2)]), identity(2) + ones(2), column_norms_are_those_of_the_columns),
    (_RowNormsOfColumns(5), prefixes(5), row_norms_are_those_of_the_rows),
    (_QuadraticOfUpperHalf(2), prefixes(2), quadratic_is_the_diagonal),
    (_QuadraticWithoutTail(2), identity(2), quadratic_is_the_diagonal),
    (_QuadraticOfVariancesOnly(5), prefixes(5), quadratic_is_the_diagonal),
    (_RowsShifted(5), prefixes(5), rows_picks_rows),
    (_ColumnsShifted(5), prefixes(5), columns_picks_columns),
    (_RowsOnce(5), prefixes(5), rows_picks_rows),
    (_BasisLosesADirection([AllOnes(2), Matrix(SQUARE)]), ones(2) + SQUARE, basis_spans_the_same_rows),
    (_BasisGainsADirection(2), ones(2), basis_spans_the_same_rows),
    (_BasisOfHalves(2), identity(2), basis_spans_the_same_rows),
    (_ClaimsIntegers(REAL), REAL, dense_in_integers_is_exact_or_refused),
    (_LargestTooSmall(SIGNED), SIGNED, largest_bounds_every_entry),
    (_DenseHandsOutItsOwn(2), identity(2), dense_is_the_matrix),
    (_GramHandsOutItsOwn(2), identity(2), gram_is_transpose_times_matrix),
    (_ShapeOfNumpy(2), identity(2), shape_is_two_python_integers),
    (
        _FastestFirst([CumulativeSum(2), Matrix(SIGNED)]),
        product(prefixes(2), SIGNED),
        apply_multiplies_vectors_and_blocks,
    ),
    (_FastestFirst([CumulativeSum(2), Matrix(SIGNED)]), product(prefixes(2), SIGNED), dense_is_the_matrix),
]
