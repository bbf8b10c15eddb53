"""Every plan is held against what its labels say: the second telling of queries, and what it catches."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.core.errors import DesignError, PlanFileError
from leastnoise.core.operators import CumulativeSum
from leastnoise.planning.plan_checks import check_labels
from leastnoise.query import CELL, InventedRecords, ProductTerm, Query
from leastnoise.strategy import AxisForm
from leastnoise.strategy.structured import blocks
from support import refuses

REGIONS = ln.Hierarchy({"North": {"Uptown": ["a", "b"], "Hill": ["c"]}, "South": ["d"]}, other="abroad")

SCHEMA = ln.Schema(
    {
        "size": ln.Bins([0, 10, 20, 50], other="unknown"),
        "age": range(5),
        "region": REGIONS,
        "one": range(1),
        "sex": ln.Categories(["F", "M"], other="x"),
    }
)

QUERIES: list[Query] = [
    ln.Total(),
    ln.Total(name="all"),
    ln.Marginal("sex", "age"),
    ln.Marginal("one"),
    ln.Cube("sex", "age", "one", order=2),
    ln.Prefix("size"),
    ln.AllRanges("size"),
    ln.AllRanges("age"),
    ln.Ranges("age", [(1, 3), (0, 0)]),
    ln.Levels("region"),
    ln.Sum("age"),
    ln.Where("age >= 2 and sex == 'F'"),
    ln.Where("not (age in (1, 3)) or sex == 'x' or region == 'North'"),
    ln.Cases({"young": "age < 2", "northern": "region == 'North'"}),
    ln.Cases({"young": "age < 2", "old F": "age > 3 and sex == 'F'"}, heading="group"),
    ln.Marginal("sex") * ln.Prefix("age"),
    ln.Levels("region") * ln.AllRanges("age") * ln.Where("sex == 'F' or size == 'unknown'"),
    ln.Sum("age") * ln.Cube("sex", "size"),
    ln.Cases({"a": "age < 2 or sex == 'F'"}) * ln.Marginal("size"),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.title())
def test_the_second_telling_of_a_query_is_the_first(query: Query) -> None:
    workload = ln.assemble([query], SCHEMA)
    meaning, starts = query.meaning(SCHEMA), query.meaning(SCHEMA).starts
    W = workload.dense()
    cells = [dict(zip(SCHEMA.names, index, strict=True)) for index in np.ndindex(*SCHEMA.shape)]
    rng = np.random.default_rng(0)
    assert starts[-1] == len(W)
    for i in range(len(W)):
        row = meaning.row(i, starts)
        assert row.label == workload.labels[i]
        assert [row.adds(cell) for cell in cells] == W[i].tolist()
        if W[i].any():
            assert row.adds(dict.fromkeys(SCHEMA, 0) | dict(row.example(rng))) != 0 or "sum" in row.label


def test_the_rows_of_a_matrix_say_what_they_are() -> None:
    matrix = np.random.default_rng(1).normal(size=(4, 6))
    workload = ln.Workload.from_matrix(matrix, labels=list("pqrs"))
    meaning = workload.blocks[0].meaning(None)
    rows = [meaning.row(i, meaning.starts) for i in range(4)]
    assert [[row.adds({CELL: c}) for c in range(6)] for row in rows] == matrix.tolist()
    assert [row.label for row in rows] == list("pqrs")
    linear = ln.Linear(matrix.reshape(4, 6))
    schema = ln.Schema(a=range(2), b=range(3))
    rows = [linear.meaning(schema).row(i, [0, 4]) for i in range(4)]
    found = [[row.adds({"a": a, "b": b}) for a in range(2) for b in range(3)] for row in rows]
    assert found == matrix.tolist()


def _plans() -> list[ln.Plan]:
    schema = ln.Schema(c=range(4), a=range(3), b=range(5))
    crossed = [ln.Prefix("b") * ln.Prefix("c"), ln.AllRanges("a") * ln.Marginal("b") * ln.Where("c >= 2")]
    tables = [ln.Cube("a", "b", "c", order=2)]
    asked: list[tuple[list[Query], str, ln.GDP | ln.PureDP]] = [
        (crossed, "residuals", ln.GDP(1)),
        (tables, "marginals", ln.GDP(1)),
        (tables, "marginals", ln.PureDP(1)),
        ([ln.Prefix("a") * ln.AllRanges("b")], "product", ln.GDP(1)),
    ]
    return [ln.design(ln.assemble(batch, schema), goal, method=method) for batch, method, goal in asked]


@pytest.fixture(scope="module")
def plans() -> list[ln.Plan]:
    return _plans()


@pytest.mark.thorough
def test_large_products_are_checked_row_by_row_to_the_same_end(
    plans: list[ln.Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    for plan in plans:
        schema = plan.workload.schema
        assert schema is not None
        sizes = dict(zip(schema.names, schema.shape, strict=True))
        cells = [{name: int(rng.integers(n)) for name, n in sizes.items()} for _ in range(7)]
        records = InventedRecords(sizes, tuple(cells), tuple(rng.integers(1, 50, 7).tolist()))
        every = range(plan.workload.shape[0])
        x = records.tables(None)[0]
        whole = plan.strategy.noiseless_answers(plan.workload, records, every)
        np.testing.assert_allclose(whole, plan.workload.dense() @ x, atol=1e-8)
        monkeypatch.setattr(blocks, "_MAX_CHECKED", 0)
        np.testing.assert_allclose(
            plan.strategy.noiseless_answers(plan.workload, records, every), whole, atol=1e-8
        )
        monkeypatch.undo()


def _reversed_rows(term: ProductTerm, values: np.ndarray) -> np.ndarray:
    return values[::-1]


def _transposed(term: ProductTerm, values: np.ndarray) -> np.ndarray:
    """Factors in the order of the axes, as if that were the workload's."""
    table = values.reshape(*term.factor_rows, *values.shape[1:])
    k = len(term.factor_rows)
    return table.transpose(*reversed(range(k)), *range(k, table.ndim)).reshape(values.shape)


@pytest.mark.thorough
@pytest.mark.parametrize("planted", [_reversed_rows, _transposed])
def test_answers_in_another_order_are_refused(planted: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate cannot notice: totals and maxima do not change under a permutation."""
    monkeypatch.setattr(ProductTerm, "in_workload_order", planted)
    with refuses(DesignError, "strategy", ..., "wrong answers"):
        _plans()


def test_a_row_of_another_order_is_refused_where_products_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_MAX_CHECKED", 0)
    monkeypatch.setattr(
        ProductTerm, "axis_rows", lambda term, row: tuple(0 for _ in term.places), raising=True
    )
    with refuses(DesignError, "strategy", ..., "wrong answers"):
        _plans()


def test_what_an_axis_measures_is_worked_out_once_for_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was worked out again for each row: a second of a time limit of one, over 1,200 by 600 values."""
    asked = ln.assemble([ln.Prefix("a") * ln.AllRanges("b")], ln.Schema(a=range(9), b=range(5)))
    plan = ln.design(asked, ln.GDP(1), method="product")
    forms = [own[0] for own in plan.strategy.forms]
    answers, calls = AxisForm.answers, []

    def counted(form: AxisForm, counts: np.ndarray) -> np.ndarray:
        calls.append(form)
        return answers(form, counts)

    monkeypatch.setattr(AxisForm, "answers", counted)
    monkeypatch.setattr(blocks, "_MAX_CHECKED", 0)
    check_labels(asked, plan.strategy)
    assert len(calls) == len(forms) == 2 and {*map(id, calls)} == {*map(id, forms)}


def test_rows_that_do_not_say_what_they_count_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = ln.assemble([ln.Prefix("a")], ln.Schema(a=range(6)))
    monkeypatch.setattr(CumulativeSum, "apply", lambda self, x: np.cumsum(x[::-1], axis=0))
    with refuses(DesignError, "strategy", ..., "wrong answers"):
        ln.design(workload, ln.GDP(1), method="identity")


def test_stale_labels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = ln.Schema(a=range(6))
    workload = ln.assemble([ln.Prefix("a"), ln.Marginal("a")], schema)
    labels = list(workload.labels)
    object.__setattr__(workload, "labels", [*labels[1:], labels[0]])
    with refuses(DesignError, "strategy", ..., "is called"):
        ln.design(workload, ln.GDP(1))


def test_a_plan_is_checked_again_when_it_is_loaded(
    plans: list[ln.Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, plan in enumerate(plans):
        path = tmp_path / f"{number}.plan"
        plan.save(path)
        ln.load_plan(path)
        with monkeypatch.context() as patch:
            patch.setattr(ProductTerm, "in_workload_order", _reversed_rows)
            with refuses(PlanFileError, "plan", ..., "wrong answers"):
                ln.load_plan(path)


@pytest.mark.thorough
def test_the_sample_covers_every_batch_and_few_queries_of_many() -> None:
    schema = ln.Schema({f"x{i}": range(3) for i in range(12)})
    for order, batches in itertools.product((1, 3), (1, 60)):
        workload = ln.assemble(
            [ln.Cube(*schema.names, order=order, name=f"q{i}") for i in range(batches)], schema
        )
        plan = ln.design(workload, ln.GDP(1))
        check_labels(workload, plan.strategy)
