"""Workloads: rows, weights, targets, digests, and sizes nobody could write out."""

from __future__ import annotations

import dataclasses
import json
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from laws import close
from leastnoise.core.errors import QueryError, SchemaError, TooLargeError, WorkloadError
from leastnoise.query import (
    AllRanges,
    Bins,
    Linear,
    Marginal,
    Prefix,
    Query,
    Ranges,
    Schema,
    Total,
    Workload,
    assemble,
)
from leastnoise.query.query_blocks import MAX_WEIGHT_RATIO
from support import refuses
from test_queries import cell_by_cell, queries, schemas
from tolerances import ROUNDING

examples = settings(deadline=None, derandomize=True, max_examples=80)

SCHEMA = Schema(age=range(5), sex=("F", "M"))

# ---------------------------------------------------------------- row by row


@pytest.mark.thorough
@examples
@given(st.data())
def test_a_workload_is_its_queries_one_below_the_other(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    weights = st.integers(0, 5) | st.floats(0.01, 100)
    given_queries = [
        data.draw(queries(schema)).having(weight=data.draw(weights), stderr=data.draw(st.none() | st.just(7)))
        for _ in range(data.draw(st.integers(1, 3)))
    ] + [Total(weight=1)]
    workload = assemble(given_queries, schema)
    rows: list[list[int]] = []
    labels: list[str] = []
    weight: list[float] = []
    target: list[float] = []
    for query, name in zip(given_queries, workload.names, strict=True):
        its_rows, its_labels = cell_by_cell(query, schema)
        assert workload.rows_of(name) == slice(len(rows), len(rows) + len(its_rows))
        rows += its_rows
        labels += its_labels
        weight += [query.weight] * len(its_rows)
        target += [query.target or math.inf] * len(its_rows)
    assert workload.shape == (len(rows), schema.n_cells)
    assert workload.dense().tolist() == rows
    assert list(workload.labels) == labels
    assert workload.weights.tolist() == weight
    assert workload.targets.tolist() == target
    assert workload.has_targets == any(math.isfinite(t) for t in target)
    expected = sum(w * np.outer(row, row) for w, row in zip(weight, rows, strict=True))
    close(workload.weighted_gram(), expected)
    # Asking twice gives the same: nothing is added up in place.
    close(workload.weighted_gram(), expected)


@pytest.mark.thorough
@examples
@given(st.data())
def test_a_workload_survives_being_written(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    given_queries = [data.draw(queries(schema, weight=w)) for w in (1, 0.1)]
    workload = assemble(given_queries, schema)
    again = Workload.from_dict(json.loads(json.dumps(workload.to_dict())))
    assert again.digest == workload.digest
    assert again.schema == schema
    assert again.names == workload.names
    assert list(again.labels) == list(workload.labels)
    assert [block.query for block in again.blocks] == given_queries
    assert np.array_equal(again.dense(), workload.dense())
    assert np.array_equal(again.weights, workload.weights)
    assert np.array_equal(again.targets, workload.targets)


def test_labels_match_their_rows_across_blocks() -> None:
    workload = assemble([Total(), Prefix("age"), Marginal("sex")], SCHEMA)
    assert list(workload.labels) == [
        "everyone",
        *(f"age up to {i}" for i in range(5)),
        "sex F",
        "sex M",
    ]
    assert workload.labels[-1] == "sex M"
    assert list(workload.labels[5:7]) == ["age up to 4", "sex F"]
    with pytest.raises(IndexError):
        workload.labels[8]


def test_a_workload_prints_what_it_holds() -> None:
    assert repr(assemble([Marginal("age", "sex"), Prefix("age")], SCHEMA)) == (
        "Workload(15 queries over 10 cells: age x sex, age up to)"
    )
    assert repr(assemble([Total()] * 5, SCHEMA)).endswith("total, total (2), total (3), total (4), …)")


def test_one_query_needs_no_list_and_any_iterable_is_one() -> None:
    assert assemble(Total(), SCHEMA).shape == (1, 10)
    assert assemble((query for query in (Total(), Total())), SCHEMA).shape == (2, 10)


def test_factors_are_those_of_the_query() -> None:
    (factor,) = Prefix("age").factors(SCHEMA) or []
    assert factor.attributes == ("age",)
    assert Linear(np.eye(10)).factors(SCHEMA) is None


def test_rows_of_zeros_are_allowed() -> None:
    workload = Workload.from_matrix(np.zeros((2, 3)))
    assert workload.dense().tolist() == [[0, 0, 0], [0, 0, 0]]
    close(workload.weighted_gram(), np.zeros((3, 3)))


# ---------------------------------------------------------------- names


def test_names_are_numbered_around_those_given() -> None:
    batch = [Total(), Total(), Total(name="total (2)"), Total(), Prefix("age", name="total (3)")]
    names = assemble(batch, SCHEMA).names
    assert names == ("total", "total (4)", "total (2)", "total (5)", "total (3)")
    assert assemble([Marginal("age"), Marginal("age"), Prefix("age")], SCHEMA).names == (
        "age",
        "age (2)",
        "age up to",
    )
    assert assemble([Total(), Prefix("age", name="total")], SCHEMA).names == ("total (2)", "total")


def test_names_given_twice_are_refused() -> None:
    with refuses(WorkloadError, "name", "b"):
        assemble([Total(name="a"), Total(name="b"), Prefix("age", name="b")], SCHEMA)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with refuses(QueryError, "query", "x", "'total', 'sex'"):
        assemble([Total(), Marginal("sex")], SCHEMA).rows_of("x")


# ---------------------------------------------------------------- weights and targets


def test_targets_are_standard_errors() -> None:
    workload = assemble([Total(stderr=50), Marginal("sex", within=(100, 0.95)), Prefix("age")], SCHEMA)
    assert workload.targets.tolist()[0] == 50
    close(workload.targets[1:3], np.full(2, 100 / norm.ppf(0.975)))
    assert np.isinf(workload.targets[3:]).all()
    assert workload.has_targets
    assert not assemble([Total()], SCHEMA).has_targets


@pytest.mark.parametrize("weights", [2.5, [0.0, 2.0, 0.5], np.array([1, 2, 3], dtype=np.uint8)], ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_weighted_gram_counts_each_row_by_its_weight(weights: Any, sparse: bool) -> None:
    W = np.array([[1, -2, 0], [0, 1, 4], [3, 0, 0.5]])
    workload = Workload.from_matrix(scipy.sparse.csr_array(W) if sparse else W, weights=weights)
    expected = sum(w * np.outer(row, row) for w, row in zip(np.broadcast_to(weights, 3), W, strict=True))
    close(workload.weighted_gram(), expected)
    close(workload.weights, np.broadcast_to(weights, 3))


def test_weights_too_far_apart_are_refused() -> None:
    """1e300 beside 1e-300 used to overflow on the way to the refusal."""
    with refuses(WorkloadError, "weight", (1e-300, 1e300)):
        assemble([Total(weight=1e300), Marginal("sex", weight=1e-300)], SCHEMA)
    with refuses(WorkloadError, "weight", (1e-300, 1e300)):
        Workload.from_matrix(np.eye(2), weights=[1e300, 1e-300])
    with refuses(WorkloadError, "weight", (5e-324, 1.0)):
        Workload.from_matrix(np.eye(2), weights=[5e-324, 1])
    assert Workload.from_matrix(np.eye(2), weights=[1, MAX_WEIGHT_RATIO]).weights[1] == MAX_WEIGHT_RATIO
    for alone in (1e300, 1e-300):
        assert assemble([Total(weight=alone), Total(weight=0)], SCHEMA).weights.tolist() == [alone, 0]


def test_weights_and_targets_are_read_only() -> None:
    given_weights = np.array([1.0, 2.0])
    matrix = Workload.from_matrix(np.eye(2), weights=given_weights, stderr=[1, 2])
    given_weights[0] = 9
    assert matrix.weights.tolist() == [1, 2]
    for workload in (matrix, assemble([Total(stderr=3)], SCHEMA)):
        block = workload.blocks[0]
        for values in (workload.weights, workload.targets, block.weights, block.targets):
            with pytest.raises(ValueError, match="read-only"):
                values[0] = 5
        with pytest.raises(dataclasses.FrozenInstanceError):
            workload.schema = None  # type: ignore[misc]


# ---------------------------------------------------------------- digests

BASE: list[Query] = [Total(), Ranges("age", [(0, 2)]), Linear(np.eye(10))]


@pytest.mark.parametrize(
    ("batch", "schema"),
    [
        (BASE[:2], SCHEMA),
        (BASE[::-1], SCHEMA),
        ([*BASE, Total()], SCHEMA),
        ([BASE[0].having(weight=2), *BASE[1:]], SCHEMA),
        ([BASE[0].having(weight=math.nextafter(1, 2)), *BASE[1:]], SCHEMA),
        ([BASE[0].having(name="total"), *BASE[1:]], SCHEMA),
        ([BASE[0].having(stderr=1), *BASE[1:]], SCHEMA),
        ([BASE[0].having(within=(1, 0.9)), *BASE[1:]], SCHEMA),
        ([BASE[0], Ranges("age", [(0, 3)]), BASE[2]], SCHEMA),
        ([BASE[0], Ranges("age", [(0, 2), (0, 2)]), BASE[2]], SCHEMA),
        ([*BASE[:2], Linear(np.eye(10) * 2)], SCHEMA),
        ([*BASE[:2], Linear(np.eye(10)[::-1])], SCHEMA),
        ([*BASE[:2], Linear(np.eye(10), labels=[str(i) for i in range(10)])], SCHEMA),
        ([Total() * Total(), *BASE[1:]], SCHEMA),
        (BASE, Schema(sex=("F", "M"), age=range(5))),
        (BASE, Schema(age=range(5), sex=("M", "F"))),
        (BASE, Schema(age=range(5), gender=("F", "M"))),
        (BASE, Schema(age=(0, 1, 2, 3, 4), sex=("F", "M"))),
        (BASE, Schema(age=Bins([0, 1, 2, 3, 4, 5]), sex=("F", "M"))),
    ],
)
def test_any_change_changes_the_digest(batch: list[Query], schema: Schema) -> None:
    assert assemble(batch, schema).digest != assemble(BASE, SCHEMA).digest


def test_the_same_workload_has_the_same_digest() -> None:
    same = [Total(weight=np.int64(1)), Ranges("age", np.array([[0, 2]])), Linear(np.eye(10, dtype=np.uint8))]
    digest = assemble(BASE, SCHEMA).digest
    assert assemble(same, Schema(age=range(0, 5, 1), sex=["F", "M"])).digest == digest
    assert len(digest) == 64
    assert assemble([Total(weight=2)], SCHEMA).digest == assemble([Total(weight=2.0)], SCHEMA).digest


@pytest.mark.parametrize(
    "changed",
    [
        {"W": [[1, 0], [0, 2]]},
        {"weights": 2},
        {"weights": [1, 2]},
        {"stderr": 3},
        {"stderr": [3, math.inf]},
        {"labels": ["a", "b"]},
        {"schema": Schema(a=range(2))},
    ],
    ids=str,
)
def test_any_change_of_a_matrix_changes_the_digest(changed: dict[str, Any]) -> None:
    assert (
        Workload.from_matrix(**{"W": np.eye(2), **changed}).digest != Workload.from_matrix(np.eye(2)).digest
    )


# ---------------------------------------------------------------- from a matrix


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("schema", [None, Schema(a=range(3))], ids=["no schema", "schema"])
def test_a_matrix_makes_a_workload(sparse: bool, schema: Schema | None) -> None:
    W = np.array([[1, 1, 1], [0.5, 0, -2]])
    made = scipy.sparse.coo_array(W) if sparse else W.copy()
    workload = Workload.from_matrix(made, schema=schema, labels=["all", "odd"], weights=2, stderr=5)
    if not sparse:
        made[:] = 9
    assert workload.shape == (2, 3)
    assert workload.names == ("rows",)
    assert list(workload.labels) == ["all", "odd"]
    assert workload.dense().tolist() == W.tolist()
    assert workload.weights.tolist() == [2, 2]
    assert workload.targets.tolist() == [5, 5]
    assert workload.rows_of("rows") == slice(0, 2)
    assert workload.schema == schema
    again = Workload.from_dict(json.loads(json.dumps(workload.to_dict())))
    assert again.digest == workload.digest
    assert again.dense().tolist() == W.tolist()
    assert list(again.labels) == ["all", "odd"]
    assert again.weights.tolist() == [2, 2]
    assert again.targets.tolist() == [5, 5]


def test_rows_of_a_matrix_may_differ_in_weight_and_target() -> None:
    workload = Workload.from_matrix(np.eye(3), weights=[1, 0, 0.1], stderr=[5, math.inf, 0.3])
    again = Workload.from_dict(json.loads(json.dumps(workload.to_dict())))
    for made in (workload, again):
        assert made.weights.tolist() == [1, 0, 0.1]
        assert made.targets.tolist() == [5, math.inf, 0.3]
        assert made.has_targets
        close(made.weighted_gram(), np.diag([1, 0, 0.1]))
    assert again.digest == workload.digest
    assert list(workload.labels) == ["row 0", "row 1", "row 2"]


def test_one_cell_makes_a_workload() -> None:
    workload = Workload.from_matrix([[3]])
    assert workload.shape == (1, 1)
    close(workload.weighted_gram(), [[9]])


@pytest.mark.parametrize(
    ("W", "given_rest", "refusal"),
    [
        (np.zeros((0, 3)), {}, ("matrix", (0, 3))),
        (np.zeros((3, 0)), {}, ("matrix", (3, 0))),
        (scipy.sparse.coo_array((0, 3)), {}, ("matrix", (0, 3))),
        ([1, 2], {}, ("matrix", (2,))),
        ([[math.nan]], {}, ("matrix", "NaN or infinity in row 0")),
        ([["a"]], {}, ("matrix", "<U1")),
        ([[1, 2]], {"schema": SCHEMA}, ("matrix", (1, 2))),
        ([[1]], {"weights": -1}, ("weights", -1.0)),
        ([[1]], {"weights": math.inf}, ("weights", float("inf"))),
        ([[1]], {"weights": math.nan}, ("weights", 1)),
        ([[1], [2]], {"weights": [1, 2, 3]}, ("weights", 3)),
        ([[1], [2]], {"weights": []}, ("weights", 0)),
        ([[1]], {"weights": "heavy"}, ("weights", str)),
        ([[1]], {"weights": [1j]}, ("weights", list)),
        ([[1], [2]], {"weights": [[1], [2, 3]]}, ("weights", list)),
        ([[1]], {"weights": 0}, ("weight", 0)),
        ([[1]], {"stderr": 0}, ("stderr", 0.0)),
        ([[1]], {"stderr": -1}, ("stderr", -1.0)),
        ([[1], [2]], {"stderr": [1, math.nan]}, ("stderr", 2)),
        ([[1]], {"stderr": "x"}, ("stderr", str)),
        (
            [[1, 0], [0, 1]],
            {"schema": Schema(a=range(2)), "weights": [1, 2]},
            ("weights", None),
        ),
        (
            [[1, 0], [0, 1]],
            {"schema": Schema(a=range(2)), "stderr": [1, 2]},
            ("weights", None),
        ),
    ],
)
def test_a_matrix_workload_is_refused(W: Any, given_rest: dict[str, Any], refusal: tuple[Any, ...]) -> None:
    with refuses(WorkloadError, *refusal):
        Workload.from_matrix(W, **given_rest)


def test_labels_of_a_matrix_are_one_per_row() -> None:
    with refuses(QueryError, "labels", 2):
        Workload.from_matrix([[1]], labels=["a", "b"])


def test_only_one_matrix_goes_without_a_schema() -> None:
    written = assemble([Total()], SCHEMA).to_dict() | {"schema": None, "weights": [1], "targets": [None]}
    with refuses(WorkloadError, "schema", None):
        Workload.from_dict(written)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("batch", "schema", "refusal"),
    [
        ([], SCHEMA, ("queries", [])),
        ([Total()], {"age": range(5)}, ("schema", dict)),
        ([Total()], None, ("schema", type(None))),
        (["total"], SCHEMA, ("queries", str)),
        ([Total], SCHEMA, ("queries", type)),
        ("age", SCHEMA, ("queries", str)),
        (5, SCHEMA, ("queries", int)),
        ([Total(weight=0)], SCHEMA, ("weight", 0)),
        ([Linear(np.zeros((0, 10)))], SCHEMA, ("queries", "linear")),
        ([Total(), Linear(np.zeros((0, 10)), name="none")], SCHEMA, ("queries", "none")),
    ],
)
def test_a_batch_is_refused(batch: Any, schema: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(WorkloadError, *refusal):
        assemble(batch, schema)


def test_a_query_that_does_not_fit_is_refused_when_assembled() -> None:
    with refuses(SchemaError, "attribute", "height"):
        assemble([Marginal("height")], SCHEMA)
    with refuses(QueryError, "attribute", "age"):
        assemble([Prefix("age") * AllRanges("age")], SCHEMA)
    with refuses(QueryError, "matrix", 3):
        assemble([Linear(np.eye(3))], SCHEMA)


# ---------------------------------------------------------------- sizes nobody could write out


def test_all_ranges_crossed_with_a_table_assemble_without_allocating() -> None:
    schema = Schema(age=range(1000), sex=("F", "M"), region=[f"region {i}" for i in range(50)])
    assemble([AllRanges("age") * Marginal("sex", "region")], schema)  # imports and caches settled
    tracemalloc.start()
    try:
        workload = assemble([AllRanges("age") * Marginal("sex", "region"), Prefix("age")], schema)
        assert workload.shape == (500_500 * 100 + 1000, 100_000)
        assert workload.labels[0] == "age 0, sex F, region region 0"
        assert workload.labels[500_500 * 100 - 1] == "age 999, sex M, region region 49"
        assert workload.labels[-1] == "age up to 999"
        repr(workload)
        assert len(workload.digest) == 64
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_ten_to_the_forty_cells_assemble() -> None:
    names = [f"a{i}" for i in range(40)]
    schema = Schema(**{name: range(10) for name in names})
    workload = assemble([Marginal(*names), Marginal(*names[:20], name="half"), Total()], schema)
    assert workload.shape == (10**40 + 10**20 + 1, 10**40)
    assert all(type(size) is int for size in workload.shape)
    assert workload.rows_of("half") == slice(10**40, 10**40 + 10**20)
    assert workload.labels[10**40 - 1] == ", ".join(f"{name} 9" for name in names)
    assert workload.labels[10**40] == ", ".join(f"{name} 0" for name in names[:20])
    assert workload.labels[-1] == "everyone"
    assert "1.00e40 cells" in repr(workload)
    assert not workload.has_targets
    assert Workload.from_dict(workload.to_dict()).digest == workload.digest
    for ask, refusal in (
        (workload.dense, ("workload",)),
        (workload.weighted_gram, ("workload",)),
        (lambda: workload.weights, ("workload", (10000000000000000000100000000000000000001, 1))),
        (lambda: workload.targets, ("workload", (10000000000000000000100000000000000000001, 1))),
    ):
        with refuses(TooLargeError, *refusal):
            ask()


def test_labels_find_their_block_where_int64_would_wrap() -> None:
    schema = Schema(**{f"a{i}": range(2) for i in range(62)})
    workload = assemble([Marginal(*schema.names)] * 3 + [Total()], schema)
    assert workload.shape[0] == 3 * 2**62 + 1
    assert workload.labels[-1] == "everyone"
    assert workload.labels[2 * 2**62] == workload.labels[0]


def test_rounding_of_weights_is_not_hidden() -> None:
    """Per-row weights pass through square roots; the Gram matrix is right all the same."""
    weights = np.array([1e-12, 1.0, 1e12])
    gram = Workload.from_matrix(np.eye(3), weights=weights).weighted_gram()
    assert np.abs(np.diag(gram) / weights - 1).max() < ROUNDING
