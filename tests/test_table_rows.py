"""Rows held as tables of few attributes do what the same rows over all cells do."""

from __future__ import annotations

import numpy as np
import pytest

from leastnoise.core import table_rows as room
from leastnoise.core.operators import (
    AllOnes,
    Array,
    CumulativeSum,
    EveryRange,
    Identity,
    Kronecker,
    Matrix,
    Operator,
    Reordered,
    Selected,
    Stack,
)
from leastnoise.core.table_rows import RowTable, TableRows, table_rows
from leastnoise.query import Marginal, Schema, Where, assemble
from tolerances import ROUNDING


def drawn_part(rng: np.random.Generator, axes: tuple[int, ...]) -> Operator:
    """A product over some of the attributes: neighbours may share a factor, the order may be another."""
    order = rng.permutation(len(axes)) if rng.random() < 0.5 else np.arange(len(axes))
    sizes = [axes[a] for a in order]
    factors: list[Operator] = []
    while sizes:
        width = 2 if len(sizes) > 1 and rng.random() < 0.3 else 1
        n = int(np.prod(sizes[:width]))
        sizes = sizes[width:]
        kinds: list[Operator] = [
            AllOnes(n),
            AllOnes(n),
            Identity(n),
            CumulativeSum(n),
            EveryRange(n),
            Matrix(rng.integers(-2, 3, size=(2, n))),
        ]
        factors.append(kinds[rng.integers(len(kinds) if n < 5 else 3)])
    product = Kronecker(factors)
    return product if (order == np.arange(len(axes))).all() else Reordered(product, axes, order.tolist())


def drawn_rows(seed: int) -> Operator:
    rng = np.random.default_rng(seed)
    axes = tuple(int(n) for n in rng.integers(1, 5, size=rng.integers(2, 5)))
    stack = Stack([drawn_part(rng, axes) for _ in range(rng.integers(1, 5))])
    if rng.random() < 0.5:
        chosen = rng.permutation(stack.shape[0])[: max(1, stack.shape[0] // 2)]
        return Selected(stack, chosen)
    return stack


def disagreement(tables: TableRows, W: Array, seed: int) -> float:
    """The largest difference from the rows written out, beside the size of what is compared."""
    rng = np.random.default_rng(seed)
    m, n = W.shape
    S = rng.standard_normal((m, m))
    S = S @ S.T
    q, x = rng.random(n), rng.standard_normal((n, 3))
    index = rng.integers(0, n, size=5)
    size = 1 + float((np.abs(W).sum(axis=0) ** 2).max()) * float(np.abs(S).max())
    pairs = [
        (tables.squares(S) / size, np.einsum("ki,kl,li->i", W, S, W) / size),
        (tables.weighted_gram(q), (W * q) @ W.T),
        (tables.apply(x), W @ x),
        (tables.columns(index), W[:, index]),
        (tables.merged.columns(tables.cells.kind), W),
        (np.take_along_axis(W, tables.nonzero()[:, None], 1)[:, 0] != 0, (W != 0).any(axis=1)),
    ]
    return max(float(np.abs(np.subtract(a, b, dtype=float)).max(initial=0)) for a, b in pairs)


def test_random_products_agree_with_the_rows_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    n_tables = 0
    for seed in range(60):
        monkeypatch.setattr(room, "_SMALL_TABLE", 4_096 if seed % 2 else 0)
        operator = drawn_rows(seed)
        tables = table_rows(operator)
        if tables is None:
            continue
        n_tables += 1
        W = operator.rows(np.arange(operator.shape[0]))
        assert disagreement(tables, W, seed) <= 100 * ROUNDING * (1 + np.abs(W).sum())
    assert n_tables > 40


def test_a_table_under_other_attributes_is_noticed() -> None:
    n_noticed = 0
    for seed in range(100):
        operator = drawn_rows(seed)
        tables = table_rows(operator)
        if tables is None or len(set(tables.axes)) == len(tables.axes):
            continue
        for i, table in enumerate(tables.tables):
            others = [a for a in range(len(tables.axes)) if a not in table.places]
            same = [a for a in others for b in table.places[:1] if tables.axes[a] == tables.axes[b]]
            if not same or not np.ptp(table.entries, axis=1).any():
                continue
            moved = RowTable(tuple(sorted({same[0], *table.places[1:]})), table.rows, table.entries)
            if [tables.axes[a] for a in moved.places] != list(table.entries.shape[1:]):
                continue
            parts = (*tables.tables[:i], moved, *tables.tables[i + 1 :])
            W = operator.rows(np.arange(operator.shape[0]))
            assert disagreement(TableRows(tables.axes, parts, tables.n_rows), W, seed) > 1e-3
            n_noticed += 1
    assert n_noticed >= 3


def test_conditions_on_few_attributes_are_quick_and_values_that_nobody_asks_about_are_merged() -> None:
    schema = Schema(a=range(12), b=range(9), c=range(7), d=("x",), e=range(6))
    rng = np.random.default_rng(0)
    queries = []
    for j in range(60):
        first, second = rng.choice(list("abce"), size=2, replace=False)
        joint = " or " if rng.random() < 0.5 else " and "
        queries.append(
            Where(f"{first} >= {rng.integers(1, 5)}{joint}{second} <= {rng.integers(1, 5)}", name=f"q{j}")
        )
    workload = assemble([*queries, Marginal("d")], schema)
    tables = table_rows(workload.operator)
    assert tables is not None and tables.is_quick
    assert disagreement(tables, workload.dense(), 1) <= 1e6 * ROUNDING
    # a >= 1, …, a >= 4 and a <= 1, …, a <= 4 tell at most 0, 1, 2, 3, 4 and the rest apart.
    assert tables.merged.n_cells <= 6**4 < workload.shape[1]
    assert tables.cells.counts.sum() == workload.shape[1]


def test_rows_without_attributes_are_left_as_they_are() -> None:
    assert table_rows(Matrix(np.ones((2, 6)))) is None
    assert (
        table_rows(Stack([Kronecker([Identity(2), AllOnes(3)]), Kronecker([Identity(3), AllOnes(2)])]))
        is None
    )
