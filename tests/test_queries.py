"""Queries: every kind against rows written out cell by cell, and what is refused."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from leastnoise.core.errors import QueryError, SchemaError, SharedEnds, TooLargeError, WorkloadError
from leastnoise.query import (
    COMMON,
    QUERY_KINDS,
    AllRanges,
    Bins,
    Categories,
    Cube,
    Hierarchy,
    Integers,
    Labels,
    Levels,
    Linear,
    Marginal,
    Prefix,
    Query,
    Ranges,
    Schema,
    Sum,
    Total,
    Where,
    assemble,
    query_from_dict,
)
from leastnoise.query.queries import Product
from support import refuses
from tolerances import ROUNDING

examples = settings(deadline=None, derandomize=True, max_examples=150)

# ---------------------------------------------------------------- cell by cell


Cell = dict[str, int]
Row = tuple[str, Callable[[Cell], int]]
# By the place of each factor's first attribute: its rows, a label and what a cell counts.
Written = dict[int, list[Row]]


def written_out(query: Query, schema: Schema) -> list[Written]:
    """The products that a query is made of, from its own words."""
    if isinstance(query, Total):
        return [{}]
    if isinstance(query, Marginal):
        return [_combinations(query.attributes, schema)]
    if isinstance(query, Cube):
        named = [name for name in schema if name in query.attributes]
        if query.order is None:
            sizes = list(range(len(named) + 1))
        else:
            sizes = list(range(query.order + 1)) if isinstance(query.order, int) else sorted(query.order)
        return [
            _combinations(chosen, schema) for size in sizes for chosen in itertools.combinations(named, size)
        ]
    if isinstance(query, Product):
        pairs = itertools.product(written_out(query.left, schema), written_out(query.right, schema))
        return [left | right for left, right in pairs]
    if isinstance(query, Where):
        return [WRITTEN[query.condition](schema)]
    assert isinstance(query, (Prefix, AllRanges, Ranges, Levels, Sum))
    name, values = query.attribute, schema[query.attribute]
    if isinstance(query, Sum):
        numbers = [int(v) for v in values.values] + [0]
        return [{schema.names.index(name): [(f"{name} sum", lambda cell: numbers[cell[name]])]}]
    return [{schema.names.index(name): [_counting(name, *row) for row in _spans(query, values)]}]


def _counting(name: str, label: str, inside: set[int]) -> Row:
    return f"{name} {label}", lambda cell: int(cell[name] in inside)


def _combinations(names: Sequence[str], schema: Schema) -> Written:
    return {
        schema.names.index(name): [
            _counting(name, schema[name].label(i), {i}) for i in range(schema[name].size)
        ]
        for name in names
    }


def _spans(query: Query, values: Any) -> list[tuple[str, set[int]]]:
    if isinstance(query, Levels):
        return [
            (label, {i for i in range(values.size) if level.groups[i] == g})
            for level in values.levels
            for g, label in enumerate(level.labels)
        ]
    if isinstance(query, Prefix):
        words = [
            f"below {values.edges[i + 1]:,}" if isinstance(values, Bins) else f"up to {values.label(i)}"
            for i in range(values.n_values)
        ]
        return [(word, set(range(i + 1))) for i, word in enumerate(words)]
    if isinstance(query, AllRanges):
        spans = [set(range(i, j + 1)) for i in range(values.n_values) for j in range(i, values.n_values)]
    else:
        assert isinstance(query, Ranges)
        spans = [_between(values, low, high) for low, high in query.ranges]
    return [(values.span_label(min(span), max(span)), span) for span in spans]


def _between(values: Any, low: Any, high: Any) -> set[int]:
    if isinstance(values, Integers):
        return {i for i, v in enumerate(values.values) if low <= v <= high}
    if isinstance(values, Bins):
        return {i for i, (a, b) in enumerate(itertools.pairwise(values.edges)) if low <= a and b <= high}
    everything = [*values.values, values.other]
    return set(range(everything.index(low), everything.index(high) + 1))


def cell_by_cell(query: Query, schema: Schema) -> tuple[list[list[int]], list[str]]:
    """The rows and labels of a query, by looking at every cell."""
    cells = [
        dict(zip(schema.names, cell, strict=True))
        for cell in itertools.product(*(range(size) for size in schema.shape))
    ]
    rows, labels = [], []
    for term in written_out(query, schema):
        for chosen in itertools.product(*(term[place] for place in sorted(term))):
            rows.append([math.prod(count(cell) for _, count in chosen) for cell in cells])
            labels.append(", ".join(label for label, _ in chosen) or "everyone")
    return rows, labels


# Conditions on attributes of any kind that the schemas below may hold, and what they mean: "a" is whatever
# comes first. Each is written for schemas where it makes sense.
WRITTEN: dict[str, Callable[[Schema], Written]] = {}


@st.composite
def conditions(draw: st.DrawFn, schema: Schema, names: Sequence[str]) -> Where:
    """A condition on one attribute, or on two of them tied by "or" or joined by "and"."""
    parts = []
    for name in draw(st.permutations(list(names)))[: draw(st.integers(1, 2))]:
        i = draw(st.integers(0, schema[name].size - 1))
        sign = draw(st.sampled_from(["==", "!="]))
        parts.append((name, *_condition(schema[name], name, i, sign)))
    word = draw(st.sampled_from(["and", "or"]))
    text = f" {word} ".join(part[1] for part in parts)

    def rows(schema: Schema) -> Written:
        by_place = {schema.names.index(name): (said, inside) for name, said, inside in parts}
        if word == "and":
            return {
                place: [(said, lambda cell, n=schema.names[place], inside=inside: int(cell[n] in inside))]
                for place, (said, inside) in by_place.items()
            }
        return {min(by_place): [(text, lambda cell: int(any(cell[n] in inside for n, _, inside in parts)))]}

    WRITTEN[text] = rows
    return Where(text)


def _condition(values: Any, name: str, i: int, sign: str) -> tuple[str, set[int]]:
    everything = set(range(values.size))
    said = name if name.isidentifier() else "`" + name.replace("`", "``") + "`"
    if isinstance(values, Bins):
        edge = values.edges[min(i, values.n_values - 1)]
        if edge == -math.inf:  # every bin is at or above an open end
            edge = values.edges[1]
        assume(edge < math.inf)  # a single bin with two open ends has no edge to compare with
        return f"{said} >= {edge!r}", {j for j in range(values.n_values) if values.edges[j] >= edge}
    value = values.other if i >= values.n_values else values.values[i]  # the other cell, by its label
    quoted = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
    return f"{said} {sign} {quoted}", {i} if sign == "==" else everything - {i}


ATTRIBUTES = (
    range(1),
    range(3),
    range(-4, 8, 4),
    ("x",),
    ("x", "y", "z"),
    (7, 3),
    Categories(("x", "y"), other="else"),
    Bins([0, 1]),
    Bins([-1.5, 0, 2, 10**20]),
    Bins([0, 5, 10], other="unknown", null="other"),
    Integers(range(2), outside="clamp"),
    Hierarchy({"N": {"n1": ["p", "q"], "n2": ["r"]}, "S": ["s"]}),
    Hierarchy({"N": ["p", "q"]}, other="abroad"),
)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.permutations(["a", "b", "c"]))[: draw(st.integers(1, 3))]
    return Schema(**{name: draw(st.sampled_from(ATTRIBUTES)) for name in names})


def _ends(schema: Schema, name: str) -> st.SearchStrategy[tuple[Any, Any]]:
    values = schema[name]
    if isinstance(values, Bins):
        points: list[Any] = list(values.edges)
        return st.sampled_from(list(itertools.combinations(points, 2)))
    points = list(values.values)
    if isinstance(values, Categories) and values.other is not None:
        points.append(values.other)
    return st.sampled_from(list(itertools.combinations_with_replacement(points, 2)))


@st.composite
def queries(
    draw: st.DrawFn,
    schema: Schema,
    names: tuple[str, ...] | None = None,
    unions: bool = True,
    **common: Any,
) -> Query:
    left = draw(st.permutations(list(schema.names if names is None else names)))
    kinds = ["total"] + (["marginal", "prefix", "all-ranges", "ranges", "where"] if left else [])
    if left and isinstance(schema[left[0]], Hierarchy):
        kinds.append("levels")
    if left and schema[left[0]].numbers() is not None:
        kinds.append("sum")
    if left and unions:
        kinds.append("cube")
    kind = draw(st.sampled_from(kinds + ["product"]))
    if kind == "total":
        return Total(**common)
    if kind == "marginal":
        return Marginal(*left[: draw(st.integers(1, len(left)))], **common)
    if kind in ("prefix", "levels", "sum"):
        return {"prefix": Prefix, "levels": Levels, "sum": Sum}[kind](left[0], **common)
    if kind == "where":
        return draw(conditions(schema, left)).having(**common)
    if kind == "cube":
        chosen = left[: draw(st.integers(1, len(left)))]
        order = draw(st.none() | st.integers(0, len(chosen)) | st.just((len(chosen),)))
        return Cube(*chosen, order=order, **common)
    if kind == "all-ranges":
        return AllRanges(left[0], **common)
    if kind == "ranges":
        return Ranges(left[0], draw(st.lists(_ends(schema, left[0]), min_size=1, max_size=4)), **common)
    cut = draw(st.integers(0, len(left)))
    one = draw(queries(schema, tuple(left[:cut]), unions))
    other = draw(queries(schema, tuple(left[cut:]), unions))
    return Product(one, other, **common)


@pytest.mark.thorough
@examples
@given(st.data())
def test_every_query_is_what_it_says_cell_by_cell(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    query = data.draw(queries(schema))
    rows, labels = cell_by_cell(query, schema)
    operator = query.operator(schema)
    assert operator.shape == (len(rows), schema.n_cells)
    assert operator.dense(np.int64).tolist() == rows
    assert list(query.labels(schema)) == labels


@pytest.mark.thorough
@examples
@given(st.data())
def test_every_query_survives_being_written(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    target = data.draw(
        st.sampled_from([{}, {"stderr": 5}, {"stderr": 0.1}, {"within": (3, 0.95)}, {"within": [1.5, 0.5]}])
    )
    name = data.draw(st.none() | st.text(min_size=1, max_size=5))
    weight = data.draw(st.integers(0, 10**20) | st.floats(0, 1e300))
    query = data.draw(queries(schema, name=name, weight=weight, **target))
    again = query_from_dict(json.loads(json.dumps(query.to_dict())))
    assert again == query
    assert hash(again) == hash(query)
    assert again.to_dict() == query.to_dict()
    assert again.target == query.target
    assert list(again.labels(schema)) == list(query.labels(schema))


@pytest.mark.thorough
@examples
@given(st.data())
def test_the_sides_of_a_product_may_change_places(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    first, *others = schema.names
    left, right = (
        data.draw(queries(schema, (first,), False)),
        data.draw(queries(schema, tuple(others), False)),
    )
    one, other = left * right, right * left
    assert one.operator(schema).dense().tolist() == other.operator(schema).dense().tolist()
    assert list(one.labels(schema)) == list(other.labels(schema))


def test_the_order_of_attributes_is_the_schemas() -> None:
    schema = Schema(a=range(2), b=range(3))
    assert Marginal("b", "a").operator(schema).dense().tolist() == np.eye(6).tolist()
    assert list(Marginal("b", "a").labels(schema))[:2] == ["a 0, b 0", "a 0, b 1"]
    assert Marginal("b", "a").title() == "b x a"


def test_queries_over_one_value() -> None:
    schema = Schema(a=("only",))
    for query in (Total(), Marginal("a"), Prefix("a"), AllRanges("a"), Ranges("a", [("only", "only")])):
        assert query.operator(schema).dense().tolist() == [[1]]
    assert list(Prefix("a").labels(schema)) == ["a up to only"]


def test_ranges_keep_to_the_declared_values() -> None:
    schema = Schema(age=range(0, 100, 10), income=Bins([0, 10, 20]))
    clipped = Ranges("age", [(-50, 15), (85, math.inf)])
    assert clipped.operator(schema).rows([0, 1]).sum(axis=1).tolist() == [4, 2]
    assert list(clipped.labels(schema)) == ["age 0–10", "age 90"]
    assert list(Ranges("income", [(0, 20)]).labels(schema)) == ["income 0–19"]
    assert Ranges("age", np.array([[0, 20]])) == Ranges("age", ((0, 20),))  # type: ignore[arg-type]


# ---------------------------------------------------------------- linear


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rows", [[[1, -2], [0, 0]], [[0.1, 1e-9], [3.0, 0.0]], [[2**61 + 1, 0]]], ids=str)
def test_linear_holds_its_rows(rows: list[list[float]], sparse: bool) -> None:
    given_rows = scipy.sparse.csr_array(np.array(rows)) if sparse else rows
    schema = Schema(a=range(2))
    query = Linear(given_rows, labels=[f"r{i}" for i in range(len(rows))], weight=2)
    assert query.operator(schema).dense().tolist() == np.array(rows, dtype=float).tolist()
    assert list(query.labels(schema)) == [f"r{i}" for i in range(len(rows))]
    assert list(Linear(given_rows).labels(schema)) == [f"row {i}" for i in range(len(rows))]
    again = query_from_dict(json.loads(json.dumps(query.to_dict())))
    assert again == query
    assert hash(again) == hash(query)
    assert again.to_dict() == query.to_dict()


def test_linear_queries_are_equal_only_with_equal_rows() -> None:
    """Equality used to look at name, weight and target and forget the matrix."""
    query = Linear([[1, 2]])
    assert query == Linear(np.array([[1.0, 2.0]]))
    assert query != Linear([[1, 3]])
    assert query != Linear([[1], [2]])
    assert query != Linear([[1, 2]], labels=["a"])
    assert query != Linear([[1, 2]], weight=2)
    assert query != Linear([[1, 2]], stderr=2)
    assert query != Total()
    assert Total() != query
    assert Linear(scipy.sparse.coo_array([[1, 2]])) != Linear(scipy.sparse.coo_array([[1, 3]]))
    stored_zero = scipy.sparse.coo_array(([2, 1, 0], ([0, 0, 0], [1, 0, 1])), shape=(1, 2))
    assert Linear(stored_zero) == Linear(scipy.sparse.coo_array([[1, 2]]))
    assert len({query, Linear([[1, 2]]), Linear([[1, 3]])}) == 2


def test_a_linear_query_keeps_its_own_copy() -> None:
    rows, labels = np.array([[1.0, 2.0]]), ["a"]
    query = Linear(rows, labels)
    rows[:], labels[0] = 9, "b"
    assert query.matrix.dense().tolist() == [[1, 2]]
    assert list(query.own_labels()) == ["a"]


def test_a_large_sparse_query_is_written_without_its_zeros() -> None:
    """Writing used to go through the dense matrix, which is refused at this size."""
    wide = scipy.sparse.coo_array(([1, 0.5], ([0, 99_999], [0, 999_999])), shape=(10**5, 10**6))
    written = Linear(wide).to_dict()
    assert len(json.dumps(written)) < 200
    assert query_from_dict(written) == Linear(wide)


def test_linear_needs_a_column_for_every_cell() -> None:
    with refuses(QueryError, "matrix", 2):
        Linear([[1, 2]]).operator(Schema(a=range(4)))
    with refuses(WorkloadError, "matrix", "NaN or infinity in row 0"):
        Linear([[math.nan]])
    for labels, refusal in (
        (["a"], ("labels", 1)),
        ("ab", ("labels", tuple)),
        ([1, 2], ("labels", tuple)),
    ):
        with refuses(QueryError, *refusal):
            Linear([[1], [2]], labels)  # type: ignore[arg-type]
    assert Linear([[1], [2]], (text for text in "ab")).row_labels == ("a", "b")  # type: ignore[arg-type]


# ---------------------------------------------------------------- names, weights, targets


@pytest.mark.parametrize(
    ("query", "title"),
    [
        (Total(), "total"),
        (Marginal("a", "b"), "a x b"),
        (Prefix("a"), "a up to"),
        (AllRanges("a"), "a ranges"),
        (Ranges("a", [(0, 1)]), "a ranges"),
        (Prefix("a") * Marginal("b"), "a up to x b"),
        (Prefix("a", name="ages") * Marginal("b"), "ages x b"),
        (Linear([[1]]), "linear"),
    ],
    ids=repr,
)
def test_a_query_without_name_has_a_title(query: Query, title: str) -> None:
    assert query.title() == title


@pytest.mark.parametrize("level", [1e-6, 0.5, 0.9, 0.95, 0.99, 1 - 1e-9, math.nextafter(1, 0)])
def test_an_interval_asked_becomes_a_standard_error(level: float) -> None:
    """Levels next to 1 used to round to 1 on the way and stop with a StatisticsError."""
    target = Total(within=(100, level)).target
    assert target is not None
    assert target == pytest.approx(100 / norm.isf((1 - level) / 2), rel=ROUNDING)
    if level <= 0.99:
        assert target == pytest.approx(100 / norm.ppf((1 + level) / 2), rel=1e3 * ROUNDING)


def test_a_target_is_a_standard_error() -> None:
    assert Total(stderr=50).target == 50
    assert Total().target is None


NUMBERS = [2, 2.0, np.float64(2), np.float32(2), np.int64(2), np.uint8(2)]


@pytest.mark.parametrize("two", NUMBERS, ids=lambda v: type(v).__name__)
def test_numbers_of_every_type_mean_the_same(two: Any) -> None:
    for given_one, plain in (
        (Total(weight=two), Total(weight=2.0)),
        (Total(stderr=two), Total(stderr=2.0)),
        (Marginal("a", within=(two, 0.5)), Marginal("a", within=(2.0, 0.5))),
        (Linear([[1]], weight=two), Linear([[1]], weight=2.0)),
        (Ranges("a", [(two, two)]), Ranges("a", [(2, 2)])),
    ):
        assert given_one == plain
        assert hash(given_one) == hash(plain)
        assert query_from_dict(json.loads(json.dumps(given_one.to_dict()))) == plain
    assert json.dumps(Total(weight=two).to_dict()) == '{"kind": "total", "weight": 2.0}'


@pytest.mark.parametrize(
    "query",
    [
        Total(),
        Marginal("a"),
        Prefix("a"),
        AllRanges("a"),
        Ranges("a", [(0, 1)]),
        Prefix("a") * Marginal("b"),
        Linear([[1, 2]], ["x"]),
    ],
    ids=lambda query: query.kind,
)
def test_having_changes_what_is_said_and_nothing_else(query: Query) -> None:
    changed = query.having(name="n", weight=3, stderr=4)
    assert (changed.name, changed.weight, changed.stderr, changed.within) == ("n", 3, 4, None)
    assert type(changed) is type(query)
    assert changed.having(name=None, weight=1, stderr=None) == query
    assert query.name is None
    # Another target takes the place of the first.
    other = changed.having(within=(10, 0.9))
    assert (other.name, other.weight, other.stderr, other.within) == ("n", 3, None, (10, 0.9))
    assert other.having(stderr=4) == changed
    assert other.having(within=None).target is None
    assert other.having(weight=5).within == (10, 0.9)
    with refuses(QueryError, "stderr", 1):
        query.having(stderr=1, within=(1, 0.5))
    with pytest.raises(TypeError, match="size"):
        query.having(size=3)  # type: ignore[call-arg]
    with refuses(QueryError, "weight", -1):
        query.having(weight=-1)


def test_a_product_multiplies_weights() -> None:
    product = Marginal("a", weight=2) * Prefix("b", weight=3.5)
    assert product.weight == 7
    assert (product * Total(weight=2)).weight == 14
    assert query_from_dict(product.to_dict()) == product
    assert (Marginal("a", weight=0) * Prefix("b")).weight == 0


@pytest.mark.parametrize(
    ("common", "refusal"),
    [
        ({"weight": -1}, ("weight", -1)),
        ({"weight": math.nan}, ("weight", math.nan)),
        ({"weight": math.inf}, ("weight", float("inf"))),
        ({"weight": np.float64("nan")}, ("weight",)),
        ({"weight": 10**400}, ("weight",)),
        ({"weight": True}, ("weight", True)),
        ({"weight": "2"}, ("weight", "2")),
        ({"weight": None}, ("weight", None)),
        ({"weight": 1j}, ("weight", 1j)),
        ({"stderr": 0}, ("stderr", 0)),
        ({"stderr": -2}, ("stderr", -2)),
        ({"stderr": math.nan}, ("stderr", math.nan)),
        ({"stderr": math.inf}, ("stderr", float("inf"))),
        ({"stderr": 10**400}, ("stderr",)),
        ({"stderr": "5"}, ("stderr", "5")),
        ({"stderr": False}, ("stderr", False)),
        ({"stderr": 1, "within": (1, 0.5)}, ("stderr", 1)),
        ({"within": (100,)}, ("within", (100,))),
        ({"within": (1, 2, 3)}, ("within", (1, 2, 3))),
        ({"within": "ab"}, ("within", "ab")),
        ({"within": ("1", 0.5)}, ("within", ("1", 0.5))),
        ({"within": (0, 0.5)}, ("within", (0, 0.5))),
        ({"within": (-1, 0.5)}, ("within", (-1, 0.5))),
        ({"within": (math.inf, 0.5)}, ("within",)),
        ({"within": (math.nan, 0.5)}, ("within",)),
        ({"within": (1, 0)}, ("within", (1, 0))),
        ({"within": (1, 1)}, ("within", (1, 1))),
        ({"within": (1, 95)}, ("within", (1, 95))),
        ({"within": (1, math.nan)}, ("within",)),
        ({"within": (1, 1e-20)}, ("within", (1, 1e-20))),
        ({"within": (1e308, 0.01)}, ("within", (1e308, 0.01))),
        ({"name": ""}, ("name", "")),
        ({"name": 5}, ("name", 5)),
    ],
)
def test_names_weights_and_targets_are_refused(common: dict[str, Any], refusal: tuple[Any, ...]) -> None:
    for make in (
        lambda: Total(**common),
        lambda: Marginal("a", **common),
        lambda: Ranges("a", [(0, 1)], **common),
        lambda: Linear([[1]], **common),
        lambda: Product(Total(), Total(), **common),
    ):
        with refuses(QueryError, *refusal):
            make()


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Marginal(), ("attributes", (), "name at")),
        (lambda: Marginal("a", "b", "a"), ("attributes", ("a", "b", "a"))),
        (lambda: Marginal(["a", "b"]), ("attribute", ["a", "b"])),
        (lambda: Prefix(["a"]), ("attribute", ["a"])),
        (lambda: AllRanges(3), ("attribute", 3)),
        (lambda: Ranges(None, [(0, 1)]), ("attribute", None)),
        (lambda: Ranges("a", []), ("ranges", [])),
        (lambda: Ranges("a", (0, 5)), ("ranges", (0, 5), "a list")),
        (lambda: Ranges("a", [(0, 1, 2)]), ("ranges", [(0, 1, 2)])),
        (lambda: Ranges("a", 5), ("ranges", 5)),
        (lambda: Ranges("a", ["xy"]), ("ranges", ["xy"])),
        (lambda: Product(Total(), 5), ("query", int)),
        (lambda: Linear([[1]]) * Total(), ("query", Linear)),
        (lambda: Total() * Linear([[1]]), ("query", Linear)),
        (lambda: Total(stderr=5) * Total(), ("stderr", 5.0)),
        (lambda: Total() * Total(within=(1, 0.5)), ("stderr", 1.482602218505602)),
        (lambda: Total(weight=1e300) * Total(weight=1e300), ("weight", float("inf"))),
        (lambda: Total(weight=1e-300) * Total(weight=1e-300), ("weight", (1e-300, 1e-300))),
    ],
)
def test_an_ill_formed_query_is_refused(make: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(QueryError, *refusal):
        make()


def test_only_queries_are_crossed() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        Total() * 2  # type: ignore[operator]
    with pytest.raises(TypeError, match="colour"):
        Marginal("a", colour="red")


SCHEMA = Schema(age=range(10), sex=("F", "M"), income=Bins([0, 10, 20]))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Marginal("age") * Prefix("age"), ("attribute", "age", "product")),
        (Marginal("age", "sex") * (Total() * Prefix("sex")), ("attribute", "sex", "product")),
        (Ranges("age", [(0, 3), (20, 30)]), ("ranges", (20, 30))),
        (Ranges("age", [(5, 3)]), ("ranges", (5, 3))),
        (Ranges("age", [(math.nan, 3)]), ("ranges",)),
        (Ranges("age", [("F", "M")]), ("ranges", ("F", "M"))),
        (Ranges("age", [(None, 3)]), ("ranges", (None, 3))),
        (Ranges("sex", [("M", "F")]), ("ranges", ("M", "F"))),
        (Ranges("sex", [("F", "X")]), ("ranges", ("F", "X"))),
        (Ranges("income", [(0, 5)]), ("ranges", (0, 5), "'income'")),
        (Ranges("income", [(10, 10)]), ("ranges", (10, 10))),
    ],
)
def test_a_query_that_does_not_fit_the_schema_is_refused(query: Query, words: tuple[Any, ...]) -> None:
    with refuses(QueryError, *words):
        query.operator(SCHEMA)
    with refuses(QueryError, *words):
        query.labels(SCHEMA)


@pytest.mark.parametrize(
    "query",
    [Marginal("age", "height"), Prefix("height"), AllRanges("height"), Ranges("height", [(0, 1)])],
    ids=repr,
)
def test_an_unknown_attribute_is_refused(query: Query) -> None:
    with refuses(SchemaError, "attribute", "height"):
        query.operator(SCHEMA)


@pytest.mark.parametrize(
    ("written", "refusal"),
    [
        ({}, ("kind", None)),
        ({"kind": "median"}, ("kind", "median")),
        ({"kind": "mean"}, ("query", [])),
        ({"kind": ["total"]}, ("kind", ["total"])),
        ("total", ("query", str)),
        ({"kind": "total", "colour": 1}, ("query", ["colour"])),
        ({"kind": "prefix"}, ("query", [])),
        ({"kind": "ranges", "attribute": "a"}, ("query", ["attribute"])),
        ({"kind": "marginal", "attributes": ["a"], "x": 1}, ("query", ["attributes", "x"])),
        ({"kind": "marginal", "attributes": "age"}, ("attributes", "age")),
        ({"kind": "marginal", "attributes": [["a"]]}, ("attribute", ["a"])),
        ({"kind": "linear"}, ("query", [])),
        ({"kind": "linear", "matrix": {"shape": [1, 1]}}, ("matrix", dict)),
        ({"kind": "product", "left": {"kind": "total"}}, ("kind", None)),
        ({"kind": "product", "left": "ab", "right": 5}, ("query", str)),
        ({"kind": "total", "weight": "2"}, ("weight", "2")),
        ({"kind": "total", "within": [1]}, ("within", (1,))),
        ({"kind": "total", "name": ["x"]}, ("name", ["x"])),
    ],
)
def test_a_written_query_is_refused(written: Any, refusal: tuple[Any, ...]) -> None:
    with refuses(QueryError, *refusal):
        query_from_dict(written)


def test_a_query_does_not_change() -> None:
    for query in (Total(), Marginal("a"), Linear([[1]]), Total() * Total()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            query.weight = 5  # type: ignore[misc]
    pairs = [[0, 1]]
    query = Ranges("a", pairs)  # type: ignore[arg-type]
    pairs[0][1] = 9
    assert query.ranges == ((0, 1),)


def test_every_kind_is_listed_once() -> None:
    def below(cls: type[Query]) -> list[type[Query]]:
        return [cls, *(lower for child in cls.__subclasses__() for lower in below(child))]

    # Other tests have kinds of their own, as classes from outside the package are.
    concrete = [cls for cls in below(Query) if cls.kind and cls.__module__.startswith("leastnoise.")]
    assert all(QUERY_KINDS[cls.kind] is cls for cls in concrete)
    assert len(QUERY_KINDS) == len(concrete)


# ---------------------------------------------------------------- labels


@pytest.mark.thorough
@examples
@given(st.integers(0, 12), st.slices(12) | st.slices(5), st.slices(12))
def test_labels_are_a_sequence(length: int, cut: slice, again: slice) -> None:
    plain = [f"label {i}" for i in range(length)]
    labels = Labels(length, lambda i: f"label {i}")
    assert len(labels) == length
    assert list(labels) == plain
    assert list(labels[cut]) == plain[cut]
    assert len(labels[cut]) == len(plain[cut])
    assert list(labels[cut][again]) == plain[cut][again]
    for i in range(-length - 2, length + 2):
        if -length <= i < length:
            assert labels[i] == labels[np.int64(i)] == plain[i]
        else:
            with pytest.raises(IndexError):
                labels[i]
    assert list(reversed(labels)) == plain[::-1]
    assert ("label 3" in labels) == (length > 3)


def test_labels_print_the_first_three() -> None:
    assert repr(Labels(4, str)) == "<4 labels: 0, 1, 2, …>"
    assert repr(Labels(2, str)) == "<2 labels: 0, 1>"


def test_labels_beyond_sixty_four_bits() -> None:
    labels = Labels(10**40, str)
    assert labels.length == 10**40
    assert labels[10**39] == str(10**39)
    assert labels[-1] == str(10**40 - 1)
    assert labels[5:].length == 10**40 - 5
    assert labels[::-2][1] == str(10**40 - 3)
    assert repr(labels) == f"<{10**40:,} labels: 0, 1, 2, …>"
    with pytest.raises(IndexError):
        labels[10**40]


def test_a_label_is_made_without_the_others() -> None:
    """Naming one range of ten million values used to list the ends of all of them, and be refused."""
    labels = AllRanges("a").labels(Schema(a=range(10**7)))
    assert labels.length == 10**7 * (10**7 + 1) // 2
    assert labels[0] == "a 0"
    assert labels[10**7 - 1] == f"a 0–{10**7 - 1}"
    assert labels[-1] == f"a {10**7 - 1}"


# ---------------------------------------------------------------- cubes, levels, sums, conditions

TOWN = Schema(
    region=Hierarchy({"North": {"Hill": ["a", "b"]}, "South": ["c"]}),
    age=range(3),
    sex=("F", "M"),
    income=Bins([0, 10, 20]),
)


def test_a_cube_is_its_cross_tables_one_below_the_other() -> None:
    cube = Cube("sex", "age", order=1)
    assert cube.operator(TOWN).shape == (1 + 3 + 2, TOWN.n_cells)
    assert list(cube.labels(TOWN)) == ["everyone", "age 0", "age 1", "age 2", "sex F", "sex M"]
    pairs = Cube("sex", "age", order=(2,))
    assert pairs.operator(TOWN).dense().tolist() == Marginal("age", "sex").operator(TOWN).dense().tolist()
    assert Cube("sex", "age").operator(TOWN).shape[0] == 1 + 3 + 2 + 6
    assert cube.factors(TOWN) is None
    assert pairs.factors(TOWN) is not None


def test_levels_list_every_region_and_every_leaf() -> None:
    labels = list(Levels("region").labels(TOWN))
    assert labels == ["region North", "region South", "region Hill", "region c", "region a", "region b"]


def test_a_sum_weighs_each_record_by_its_value() -> None:
    rows = (Sum("age") * Marginal("sex")).operator(TOWN).dense(np.int64)
    x = np.random.default_rng(0).integers(0, 9, TOWN.shape)
    expected = np.einsum("raxi,a->x", x, np.arange(3))
    assert (rows @ x.ravel()).tolist() == expected.tolist()
    assert list((Sum("age") * Marginal("sex")).labels(TOWN)) == ["age sum, sex F", "age sum, sex M"]


def test_conditions_on_different_attributes_stay_a_product() -> None:
    many = Schema({f"a{i}": range(1000) for i in range(12)})
    query = Where(" and ".join(f"a{i} >= 500" for i in range(12)))
    assert query.operator(many).shape == (1, 1000**12)
    assert query.labels(many)[0].startswith("a0 >= 500, a1 >= 500")


def test_a_condition_that_ties_attributes_can_be_crossed() -> None:
    query = Where("age == 0 or income >= 10") * Marginal("sex")
    assert list(query.labels(TOWN)) == [f"age == 0 or income >= 10, sex {s}" for s in "FM"]
    x = np.random.default_rng(0).integers(0, 9, TOWN.shape)
    inside = (np.arange(3) == 0)[:, None] | (np.arange(2) >= 1)[None, :]
    expected = np.einsum("raxi,ai->x", x, inside.astype(int))
    assert query.operator(TOWN).apply(x.ravel()).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda: Cube(), ("attributes", (), "different,")),
        (lambda: Cube("a", "a"), ("attributes", ("a", "a"))),
        (lambda: Cube("a", order=2), ("order", 2)),
        (lambda: Cube("a", order=()), ("order", ())),
        (lambda: Cube("a", order=(0, 0)), ("order", (0, 0))),
        (lambda: Cube("a", order=True), ("order", True)),
        (lambda: Cube("age", "who").operator(TOWN), ("attribute", "who")),
        (lambda: Levels("age").operator(TOWN), ("attribute", "age", "declared")),
        (lambda: Sum("sex").operator(TOWN), ("attribute", "sex", "numbers,")),
        (lambda: Sum("income").operator(TOWN), ("attribute", "income")),
        (lambda: Where("age >"), ("condition", "")),
        (lambda: Where("who == 1").operator(TOWN), ("attribute", "who")),
        (lambda: (Where("age > 1") * Prefix("age")).operator(TOWN), ("attribute", "age", "product")),
        (lambda: (Cube("age", "sex") * Marginal("sex")).operator(TOWN), ("attribute", "sex", "product")),
        (lambda: Product(Total(weight=2), Total()), ("weight", 2.0)),
        (lambda: query_from_dict({"kind": "cube", "attributes": "ab"}), ("attributes", "ab")),
    ],
)
def test_the_wider_queries_refuse_by_words(make: Callable[[], object], refusal: tuple[Any, ...]) -> None:
    with refuses((QueryError, SchemaError), *refusal):
        make()


def test_the_weights_of_the_sides_multiply_and_are_written_once() -> None:
    """In a file the weight of a side used to be lost."""
    crossed = Marginal("age", weight=2) * Marginal("sex", weight=3)
    assert crossed.weight == 6
    again = query_from_dict(json.loads(json.dumps(crossed.to_dict())))
    assert again == crossed
    left = {"kind": "marginal", "attributes": ["age"], "weight": 2.0}
    with refuses(QueryError, "weight", 2.0):
        query_from_dict({"kind": "product", "left": left, "right": {"kind": "total"}})


def test_a_cube_with_too_many_tables_is_refused_before_they_are_listed() -> None:
    """Order 20 of 40 attributes is 6e11 tables: it ran out of memory after minutes."""
    schema = Schema({f"x{i}": range(2) for i in range(40)})
    with refuses(TooLargeError, "order", 20):
        Cube(*schema.names, order=20).operator(schema)


def test_ranges_that_share_an_end_are_told_of_with_the_value_that_two_count() -> None:
    schema = Schema(age=range(100), income=Bins([0, 10, 20, 30]), sex=("F", "M"))
    ends = [(0, 20), (20, 65), (65, 99)]
    with pytest.warns(SharedEnds) as told:
        assemble([Ranges("age", ends) * Marginal("sex"), Total()], schema)
    assert len(told) == 1 and "age 20 is counted in 0–20 and in 20–65; age 65 is" in str(told[0].message)
    for quiet in (Ranges("age", [(0, 19), (20, 65), (20, 20)]), Ranges("income", [(0, 20), (20, 30)])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assemble([quiet], schema)


def test_the_values_told_of_are_those_that_two_listed_ranges_count() -> None:
    """Against a count by hand: for random ranges, the ends that two of them share."""
    schema, rng = Schema(age=range(12)), np.random.default_rng(20)
    for _ in range(300):
        ends = [tuple(sorted(rng.integers(0, 12, 2).tolist())) for _ in range(4)]
        wide = {pair for pair in ends if pair[0] < pair[1]}
        by_hand = {high for _, high in wide for low, _ in wide if low == high}
        told = Ranges("age", ends).shared_ends(schema)
        assert {int(text.split()[1]) for text in told} == by_hand


def test_one_attribute_may_be_written_either_way() -> None:
    assert query_from_dict({"kind": "marginal", "attribute": "age"}) == Marginal("age")
    assert query_from_dict({"kind": "prefix", "attributes": ["age"]}) == Prefix("age")
    for both in ("marginal", "prefix"):
        with refuses(QueryError, "query", ["attribute", "attributes"]):
            query_from_dict({"kind": both, "attribute": "age", "attributes": ["age"]})
    with refuses(QueryError, "query", ["attributes"]):
        query_from_dict({"kind": "prefix", "attributes": ["age", "sex"]})


def test_signatures_name_what_every_query_takes() -> None:
    """``**common`` told nobody what Marginal, Cube and Linear take; nor did the readers of code lists."""
    constructors = [Marginal, Cube, Linear, Categories.from_file, Hierarchy.from_file, Hierarchy.from_parents]
    for made in [*constructors, Hierarchy.from_table]:
        parameters = inspect.signature(made).parameters.values()
        assert not [one.name for one in parameters if one.kind is one.VAR_KEYWORD], made
    for query in (Total, Marginal, Cube, Prefix, Linear):
        assert set(COMMON) <= set(inspect.signature(query).parameters)


def test_a_margin_that_is_not_at_95_percent_has_no_sign() -> None:
    """ "±100 at 90%" gave ± a second meaning."""
    assert Total(within=(100, 0.95)).target_to_text() == "±100 at 95%"
    assert Total(within=(100, 0.9)).target_to_text() == "within 100 at 90%"
