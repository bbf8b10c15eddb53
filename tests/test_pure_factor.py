"""The best strategy of one attribute for Laplace noise, and products of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from leastnoise.core.deadline import NEVER
from leastnoise.core.errors import MethodError
from leastnoise.core.operators import Array
from leastnoise.planning import design
from leastnoise.planning.families import laplace_factor as factors
from leastnoise.privacy import PureDP
from leastnoise.query import AllRanges, Marginal, Prefix, Query, Schema, Total, assemble
from support import refuses
from tolerances import ROUNDING, SOLVER


def rows_over(n: int, *queries: Query) -> Array:
    return np.asarray(assemble(queries, Schema(a=range(n))).dense(), dtype=float)


def by_hand(W: Array, A: Array) -> float:
    """Δ₁² ‖W A⁺‖²_F, by dense linear algebra."""
    A = np.asarray(A, dtype=float)
    return float(((W @ np.linalg.pinv(A, rcond=1e-11)) ** 2).sum() * np.abs(A).sum(axis=0).max() ** 2)


ASKED = {
    "one cell": rows_over(1, Total()),
    "cells": rows_over(6, Marginal("a")),
    "total": rows_over(6, Total()),
    "both": rows_over(10, Marginal("a"), Total(weight=1), Total(), Total(), Total(), Total()),
    "prefix": rows_over(8, Prefix("a")),
    "ranges": rows_over(30, AllRanges("a")),
    "some": np.array([[1.0, 1, 0, 0, 1, 0], [0, 0, 1, 1, 1, 0]]),
    "multiples": np.array([[2.0, -4, 6, 0], [1, -2, 3, 0], [0.5, -1, 1.5, 0]]),
    "signs": np.random.default_rng(0).integers(-1, 2, (5, 9)).astype(float),
    "reals": np.random.default_rng(1).standard_normal((12, 7)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ASKED)
def test_factors_say_what_they_are(name: str) -> None:
    W = ASKED[name]
    factor = factors.best_factor(W.T @ W)
    A = factor.rows
    assert A.dtype == np.int64 and A.shape[1] == W.shape[1]
    assert factor.sensitivity == max(sum(abs(int(a)) for a in column) for column in A.T)
    assert factor.total == pytest.approx(by_hand(W, A), rel=SOLVER)
    assert np.abs(factor.unit_rows).sum(axis=0).max() == pytest.approx(1, rel=ROUNDING)
    # Everything asked can be answered, and noise on every cell is no better.
    assert W @ np.linalg.pinv(A.astype(float)) @ A == pytest.approx(W, abs=1e-9)
    cells = W[:, np.abs(W).sum(axis=0) > 0]
    assert factor.total <= float((cells**2).sum()) * (1 + SOLVER)
    # With a row left out it is another total, or nothing is left.
    if len(A) > 1:
        assert by_hand(W, A[1:]) != pytest.approx(factor.total, rel=1e-4) or not np.allclose(
            W @ np.linalg.pinv(A[1:].astype(float)) @ A[1:], W
        )


# One query costs its largest coefficient squared, all multiples of it added up; cells that nobody tells apart
# are one; with signs 8 prefix sums cost less than their cells.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "most"),
    [("total", 1), ("multiples", 36 + 9 + 2.25), ("cells", 6), ("some", 4), ("prefix", 35.3), ("both", 51)],
)
def test_totals_of_small_factors(name: str, most: float) -> None:
    W = ASKED[name]
    assert factors.best_factor(W.T @ W).total <= most * (1 + SOLVER)


def test_one_query_is_one_row() -> None:
    W = ASKED["multiples"]
    factor = factors.best_factor(W.T @ W)
    assert np.array_equal(np.abs(factor.rows), [[1, 2, 3, 0]]) and factor.sensitivity == 3
    assert factors._one_row(ASKED["some"].T @ ASKED["some"]) is None
    # Ratios that are no ratios of whole numbers are not rounded to some.
    v = np.array([1.0, math.pi])
    assert factors._one_row(np.outer(v, v)) is None
    assert factors.best_factor(np.outer(v, v)).total <= 1 + math.pi**2


@pytest.mark.thorough
@pytest.mark.parametrize(("query", "theirs"), [(Prefix, 1.15), (AllRanges, 1.08)])
def test_a_longer_attribute_beats_weighted_trees(query: Any, theirs: float) -> None:
    """The margin over the weighted tree and the weighted wavelet, which are among the candidates."""
    W = rows_over(100, query("a"))
    V = W.T @ W
    factor = factors.best_factor(V)
    for rows in (
        factors._weighted(V, factors.tree(100, 2), 20, NEVER)[0],
        factors._weighted(V, factors.wavelet_basis(100), 1, NEVER)[0],
    ):
        assert rows is not None
        assert by_hand(W, rows) > theirs * factor.total


def test_turns_lower_the_total_of_a_tree() -> None:
    W = rows_over(32, Prefix("a"))
    once, often = (factors._weighted(W.T @ W, factors.tree(32, 2), turns, NEVER)[0] for turns in (1, 20))
    assert once is not None and often is not None
    assert by_hand(W, often) < 0.99 * by_hand(W, once)
    unweighted = by_hand(W, factors.tree(32, 2))
    assert by_hand(W, once) < unweighted


@pytest.mark.thorough
def test_products_multiply() -> None:
    first, second = ASKED["prefix"], ASKED["some"]
    a, b = (factors.best_factor(W.T @ W) for W in (first, second))
    A = np.kron(a.rows, b.rows)
    assert np.abs(A).sum(axis=0).max() == a.sensitivity * b.sensitivity
    assert by_hand(np.kron(first, second), A) == pytest.approx(a.total * b.total, rel=SOLVER)
    assert by_hand(np.kron(first, second), np.kron(a.rows, np.eye(6))) > 1.2 * a.total * b.total


def test_columns_on_the_grid_are_the_same_exactly() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((9, 7))
    A /= np.abs(A).sum(axis=0)
    rows = factors.on_grid(A)
    assert set(np.abs(rows).sum(axis=0).tolist()) == {2**26}
    assert rows / 2**26 == pytest.approx(A, abs=9 / 2**26)
    plain = np.abs(np.rint(A * 2**26)).sum(axis=0)
    assert (plain != 2**26).any(), "rounding alone does not keep them"


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_factor() -> None:
    W = rows_over(130, Prefix("a"))
    V = W.T @ W
    first = factors.best_factor(V, seed=3)
    again = factors.best_factor(V, seed=3)
    assert np.array_equal(first.rows, again.rows) and first.total == again.total
    assert not np.array_equal(first.rows, factors.best_factor(V, seed=4).rows)
    assert first.how == "p-identity"
    hurried = factors.best_factor(V, time_limit=1e-6)
    assert first.total < hurried.total <= float(np.trace(V)) * (1 + SOLVER)


def test_rows_that_miss_something_are_not_taken() -> None:
    W = ASKED["some"]
    cells = W[:, [0, 2, 4]]
    V = cells.T @ cells
    assert factors._judged(V, np.array([[1, 1, 0]], dtype=np.int64), "short") is None
    whole = factors._judged(V, np.eye(3, dtype=np.int64), "all")
    assert whole is not None and whole.total == pytest.approx(4)


def test_attributes_too_long_for_a_gram_matrix_are_refused() -> None:
    """`auto` used to stop at them, though noise on every cell serves."""
    schema = Schema(a=range(2049), b=("x", "y"))
    workload = assemble([Prefix("a") * Marginal("b")], schema)
    with refuses(MethodError, "method", "product", "at most 2,048 values; a has 2,049"):
        design(workload, PureDP(1), method="product")
