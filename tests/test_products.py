"""Workloads as unions of products: whatever the order of the axes, every row keeps its own label."""

from typing import Any

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import WorkloadError
from leastnoise.core.operators import AllOnes, Kronecker, Matrix, Reordered, arranged
from leastnoise.planning.oblique.tied_axes import tied
from leastnoise.query import (
    Axis,
    Products,
    Query,
    axes_from_plain,
    in_axis_order,
    in_schema_order,
    products_of,
)
from support import refuses

pytestmark = pytest.mark.filterwarnings("ignore::leastnoise.core.errors.UnrecordedSpending")


def _random_schema(rng: np.random.Generator) -> ln.Schema:
    names = rng.permutation(list("pqrst"))[: rng.integers(2, 6)]
    return ln.Schema({str(name): range(int(rng.integers(1, 5))) for name in names})


def _random_query(rng: np.random.Generator, schema: ln.Schema) -> Query:
    names = [str(name) for name in rng.permutation(list(schema))[: rng.integers(1, len(schema.names) + 1)]]
    parts: list[Query] = []
    while names:
        name = names.pop()
        kind = rng.integers(5)
        if kind == 4 and names:
            other = names.pop()
            parts.append(ln.Where(f"{name} >= 1 or {other} == 0"))
        else:
            parts.append(
                [
                    ln.Prefix(name),
                    ln.AllRanges(name),
                    ln.Marginal(name),
                    ln.Where(f"{name} != 0"),
                    ln.Ranges(name, [(0, 0)]),
                ][kind]
            )
    query = parts[0]
    for part in parts[1:]:
        query = query * part
    return query


def _random_axes(rng: np.random.Generator, schema: ln.Schema) -> list[Axis]:
    """All attributes with more than one value in any order, some of them together."""
    places = [int(i) for i in rng.permutation(len(schema.names)) if schema.shape[i] > 1]
    axes = []
    while places:
        own = [places.pop() for _ in range(min(len(places), int(rng.integers(1, 4))))]
        axes.append(
            Axis(tuple(schema.names[i] for i in own), tuple(schema.shape[i] for i in own), tuple(own))
        )
    return axes


def _multiplied_out(products: Products) -> np.ndarray:
    """All rows over all cells of the schema, from the kinds of the axes."""
    rows = []
    for term in products.terms:
        asked = dict(zip(term.places, term.kinds, strict=True))
        matrix = np.ones((1, 1))
        for a, axis in enumerate(products.axes):
            kind = AllOnes(axis.size) if a not in asked else products.kinds[a][asked[a]].operator
            matrix = np.kron(matrix, kind.dense())
        rows.append(in_schema_order(products.axes, term.in_workload_order(matrix).T).T)
    return np.vstack(rows)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(150))
def test_products_over_axes_in_any_order_have_the_workloads_own_rows(seed: int) -> None:
    """Factors of a tied axis were listed in the order of the query and multiplied in that of the axis."""
    rng = np.random.default_rng([seed, 1])
    schema = _random_schema(rng)
    workload = ln.assemble([_random_query(rng, schema) for _ in range(int(rng.integers(1, 4)))], schema)
    own = products_of(workload)
    if own is None:  # a condition that the only value of an attribute fails
        assert 1 in schema.shape
        return
    np.testing.assert_array_equal(_multiplied_out(own), workload.dense())
    other = products_of(workload, _random_axes(rng, schema))
    if other is not None:  # queries may tie attributes of different axes together
        np.testing.assert_array_equal(_multiplied_out(other), workload.dense())
    while len(own.axes) > 1:
        first, second = sorted(int(a) for a in rng.permutation(len(own.axes))[:2])
        own = tied(own, first, second)
        np.testing.assert_array_equal(_multiplied_out(own), workload.dense())


@pytest.mark.parametrize("seed", range(20))
def test_the_two_orders_of_cells_undo_each_other(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    schema = _random_schema(rng)
    axes = _random_axes(rng, schema)
    x = rng.normal(size=(schema.n_cells, 2))
    np.testing.assert_array_equal(in_schema_order(axes, in_axis_order(axes, x)), x)


def test_axes_without_a_place_are_refused() -> None:
    with pytest.raises(ValueError, match="order"):
        arranged(np.zeros((2, 3)), ["a", "b"], ["a", "c"])
    with pytest.raises(ValueError, match="order"):
        arranged(np.zeros((2, 2)), ["a", "a"], ["a", "a", "b"])


@pytest.mark.thorough
def test_a_query_crossing_tied_axes_in_another_order_is_answered_under_its_labels() -> None:
    """The answers, and their standard errors, were those of other rows, thousands of standard errors off."""
    schema = ln.Schema(a=range(3), b=range(3), c=range(5))
    workload = ln.assemble(
        [
            ln.Prefix("b") * ln.Prefix("c"),
            ln.AllRanges("a") * ln.Marginal("b") * ln.Where("c >= 2"),
        ],
        schema,
    )
    plan = ln.design(workload, ln.GDP(1e4), method="residuals")
    x = np.random.default_rng(3).integers(0, 1000, schema.n_cells)
    release = ln.measure(plan, x)
    assert (np.abs(release.answers - workload.dense() @ x) <= 8 * release.stderr).all()
    gains = workload.dense() @ np.linalg.pinv(plan.strategy.dense().astype(float))
    expected = np.sqrt((gains**2).sum(axis=1) * plan.strategy.noise_variance)
    np.testing.assert_allclose(release.stderr, expected, rtol=1e-9)


def test_a_condition_on_attributes_of_a_tied_axis_is_answered_in_any_order() -> None:
    """Where the axis has its attributes in another order than the schema, it was refused."""
    schema = ln.Schema(a=range(3), b=range(3), c=range(5))
    batch = [ln.Prefix("b") * ln.Prefix("c"), ln.AllRanges("a") * ln.Marginal("b") * ln.Where("c >= 2")]
    plan = ln.design(ln.assemble([*batch, ln.Marginal("b", "c")], schema), ln.GDP(1e4), method="residuals")
    x = np.random.default_rng(3).integers(0, 1000, schema.n_cells)
    asked = ln.Where("b == 1 or c == 2")
    answered = ln.measure(plan, x).answer(asked)
    truth = (ln.assemble([asked], schema).dense() @ x)[0]
    assert abs(float(answered["answer"].iloc[0]) - truth) <= 8 * float(answered["stderr"].iloc[0])


def test_conditions_on_many_values_are_compared_without_their_gram(monkeypatch: pytest.MonkeyPatch) -> None:
    # The Gram matrix of one condition on three attributes of 20 values has 64 million entries.
    schema = ln.Schema(a=range(20), b=range(20), c=range(20))
    first, second = (ln.Where(f"a < {k} or b < 3 or c > 5") for k in (4, 5))
    asked = ln.assemble([first, second, first.having(name="again")], schema)

    def refuse(self: object) -> None:
        raise AssertionError("no Gram matrix is needed")

    for kind in (Kronecker, Reordered, Matrix):
        monkeypatch.setattr(kind, "gram", refuse)
    products = products_of(asked)
    assert products is not None
    assert [term.kinds for term in products.terms] == [(0,), (1,), (0,)]


@pytest.mark.parametrize(
    "plain",
    [
        [[["a"], [2], []]],
        [[["a"], [2, 3], [0]]],
        [[[], [], []]],
        [[["a"], [2], [0]], [["b"], [2], [0]]],
        [[["a"], [2], [-1]]],
    ],
)
def test_axes_of_a_file_have_a_place_for_each_attribute(plain: Any) -> None:
    with refuses(WorkloadError, "axes"):
        axes_from_plain(plain)
